-- Recurring jobs: templates, and the jobs they spawn when their time comes.

local format, floor = string.format, math.floor

local OPTIONS = { priority = true, tags = true, retries = true, backlog = true }

local function interval_of(command, value)
  local interval = Arguments.number(command, 'interval', value)
  if interval <= 0 then
    Errors.argument(command, 'interval must be greater than 0, not ' .. Errors.value(value))
  end
  return interval
end

-- The last number a template of this jid may have given away: children are never overwritten.
function Recurring.last_child(jid)
  local last = 0
  while call('EXISTS', key.job(jid .. '-' .. format('%.0f', last + 1))) == 1 and last < 2 ^ 30 do
    last = last == 0 and 1 or last * 2
  end
  return last
end

-- recur queue jid klass data interval <interval> <offset> [pairs]
function Recurring.recur(args, i)
  local queue = Arguments.queue('recur', args[i])
  local jid = Arguments.jid('recur', args[i + 1])
  local klass = Arguments.given('recur', 'klass', args[i + 2])
  local data = args[i + 3]
  Arguments.json('recur', 'data', data)
  if args[i + 4] ~= 'interval' then
    Errors.argument('recur', 'schedule type "interval" wanted, not ' .. Errors.value(args[i + 4]))
  end
  local interval = interval_of('recur', args[i + 5])
  local offset = Arguments.number('recur', 'offset', args[i + 6])
  local options = Arguments.options('recur', args, i + 7, OPTIONS)
  local priority = Arguments.number('recur', 'priority', options.priority or '0')
  local tags = Arguments.tag_list('recur', options.tags or '[]')
  local retries = Arguments.whole('recur', 'retries', options.retries or '0', 0)
  local backlog = Arguments.number('recur', 'backlog', options.backlog or '0')

  local its_queue, count = Hash.values(key.template(jid), 'queue', 'count')
  if its_queue then
    call('ZREM', key.place(its_queue, 'recur'), jid)
  end
  Schedules.forget(jid)
  Hash.write(key.template(jid), {
    jid = jid,
    klass = klass,
    data = data,
    priority = priority,
    tags = Tags.text(tags),
    state = 'recur',
    queue = queue,
    type = 'interval',
    count = Record.text('count', count) or Recurring.last_child(jid),
    interval = interval,
    retries = retries,
    backlog = backlog,
  })
  local due = scope.now + offset
  call('ZADD', key.place(queue, 'recur'), due, jid)
  Wake.due(queue, due)
  Places.register(queue)
  return jid
end

local function load(command, jid)
  Arguments.name(command, 'jid', jid)
  local record = Hash.all(key.template(jid))
  if not next(record) then
    Errors.raise('NOJOB', command .. '(): Recurring job ' .. Errors.name(jid) .. ' does not exist')
  end
  return record
end

-- recur.get jid
function Recurring.get(args, i)
  local jid = Arguments.name('recur.get', 'jid', args[i])
  if call('EXISTS', key.template(jid)) == 0 then
    return nil
  end
  local record = load('recur.get', jid)
  return cjson.encode({
    jid = record.jid,
    klass = record.klass,
    state = record.state,
    queue = record.queue,
    priority = Record.number(record.priority),
    interval = Record.number(record.interval),
    retries = Record.number(record.retries),
    count = Record.number(record.count),
    data = record.data,
    tags = Record.read('tags', record.tags, {}),
    backlog = Record.number(record.backlog) or 0,
  })
end

-- What recur.update may change, and how a value is checked: as that of any schedule, if not said here.
local CHANGES = { priority = true, retries = true, data = true, klass = true, queue = true }

function CHANGES.interval(value)
  return interval_of('recur.update', value)
end

function CHANGES.backlog(value)
  return Arguments.number('recur.update', 'backlog', value)
end

local function checked(name, value)
  local check = CHANGES[name]
  if not check then
    Errors.argument('recur.update', 'Unrecognized option ' .. Errors.name(name))
  end
  if check == true then
    return Definition.check('recur.update', name, value)
  end
  return check(value)
end

-- A paused template is in no place, and its record says when it would go on.
local function move(record, jid, queue)
  Places.register(queue)
  if record.paused then
    return
  end
  local old = key.place(record.queue or '', 'recur')
  local due = call('ZSCORE', old, jid)
  call('ZREM', old, jid)
  call('ZADD', key.place(queue, 'recur'), due or scope.now, jid)
  Wake.due(queue, tonumber(due) or scope.now)
end

-- A changed interval shifts what comes next.
local function shift(record, jid, by)
  if record.paused then
    local paused = Record.number(record.paused) or scope.now
    call('HSET', key.template(jid), 'paused', format('%.17g', paused + by))
    return
  end
  local due = call('ZINCRBY', key.place(record.queue or '', 'recur'), by, jid)
  Wake.due(record.queue, tonumber(due))
end

-- recur.update jid key value ...
function Recurring.update(args, i)
  local jid = args[i]
  local record = load('recur.update', jid)
  local changes = {}
  for n = i + 1, #args, 2 do
    local name, value = args[n], args[n + 1]
    changes[#changes + 1] = { name = name, value = checked(name, value) }
  end
  for _, change in ipairs(changes) do
    local name, value = change.name, change.value
    if name == 'queue' then
      move(record, jid, value)
    elseif name == 'interval' then
      shift(record, jid, value - Record.read('interval', record.interval, value))
    end
    record[name] = value
    call('HSET', key.template(jid), name, value)
  end
  return 1
end

local function retag(command, args, i, combine)
  local jid = args[i]
  local record = load(command, jid)
  local tags =
    Arguments.few_tags(command, combine(Record.read('tags', record.tags, {}), Tags.rest(args, i + 1)))
  local text = Tags.text(tags)
  call('HSET', key.template(jid), 'tags', text)
  return text
end

-- recur.tag jid tag...
function Recurring.tag(args, i)
  return retag('recur.tag', args, i, Tags.with)
end

-- recur.untag jid tag...
function Recurring.untag(args, i)
  return retag('recur.untag', args, i, Tags.without)
end

-- unrecur jid
function Recurring.unrecur(args, i)
  local jid = Arguments.name('unrecur', 'jid', args[i])
  local queue = call('HGET', key.template(jid), 'queue')
  if queue then
    call('ZREM', key.place(queue, 'recur'), jid)
    call('DEL', key.template(jid))
    Schedules.forget(jid)
  end
  return 1
end

-- Spawns what is due of a template without a policy for missed ticks, at most `wanted` jobs: each, or as many as
-- its backlog says. -> how many
local function spawn_each(record, due, wanted)
  local interval, backlog = Record.number(record.interval), Record.number(record.backlog) or 0
  local time, spawned = record.missed and due or floor(due), 0 -- qless drops the fraction
  if backlog > 0 then
    local missed = (scope.now - time) / interval
    if missed > backlog then
      -- (What is divided by very little is infinite.)
      time = math.min(time + math.ceil(missed - backlog) * interval, scope.now + interval)
    end
  end
  while time <= scope.now and spawned < wanted do
    Ticks.put_next(record, time)
    spawned = spawned + 1
    time = time + interval
  end
  Ticks.keep(record, time)
  return spawned
end

-- Spawns what is due of one template, at most `wanted` jobs. -> how many
local function spawn(queue, jid, due, wanted)
  local record = load('pop', jid)
  record.key, record.place = key.template(jid), key.place(queue, 'recur')
  local field, text = Record.bad_schedule(record)
  if field then
    Ticks.put_off(record, due, Record.words(field, text))
    return 0
  elseif record.trouble then
    due = Record.read('since', record.since, due)
    call('HDEL', record.key, 'trouble', 'since')
  end
  if not record.missed or record.missed == 'all' then
    return spawn_each(record, due, wanted)
  end
  local interval = Record.number(record.interval)
  local last = due + floor((scope.now - due) / interval) * interval
  return Ticks.carry_out(
    record,
    { first = due, following = due + interval, last = last, next = last + interval }
  )
end

-- Puts the jobs of a queue's templates that are due into its work, at most `wanted`.
function Recurring.spawn_due(queue, wanted)
  local name = key.place(queue, 'recur')
  local due = call('ZRANGEBYSCORE', name, '-inf', scope.now, 'WITHSCORES', 'LIMIT', 0, wanted)
  for n = 1, #due, 2 do
    if wanted <= 0 then
      return
    end
    if call('EXISTS', key.template(due[n])) == 1 then
      wanted = wanted - spawn(queue, due[n], tonumber(due[n + 1]), wanted)
    else
      call('ZREM', name, due[n])
    end
  end
end
