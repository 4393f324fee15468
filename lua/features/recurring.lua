-- Recurring jobs of the protocol: templates, and the jobs that they spawn when jobs of their queue are asked for. (What
-- recurs for clients of our own are schedules, which the ticker serves: see schedules.lua.)

local format, floor = string.format, math.floor
local rcall = redis.call

local AGAIN = 60 -- seconds until a template that cannot be read is looked at again

local OPTIONS = { priority = true, tags = true, retries = true, backlog = true }

local function interval_of(call, value)
  local interval = Arguments.number(call, 'interval', value)
  if interval <= 0 then
    Errors.argument(call, 'interval must be greater than 0, not ' .. Errors.value(value))
  end
  return interval
end

local function child(jid, number)
  return jid .. '-' .. format('%.0f', number)
end

local function exists(call, jid)
  return rcall('EXISTS', Keys.job(call, jid)) == 1
end

-- A number from which on a new template counts its jobs: those of an earlier one of its jid are never overwritten.
local function last_child(call, jid)
  local last = 0
  while last < 2 ^ 30 and exists(call, child(jid, last + 1)) do
    last = last == 0 and 1 or last * 2
  end
  return last
end

-- recur queue jid klass data interval <interval> <offset> [pairs]
function Recurring.recur(call, args, i)
  local template = {
    queue = Arguments.queue(call, args[i]),
    jid = Arguments.jid(call, args[i + 1]),
    klass = Arguments.given(call, 'klass', args[i + 2]),
    data = args[i + 3],
    state = 'recur',
    type = 'interval',
  }
  local jid = template.jid
  Arguments.json(call, 'data', template.data)
  if args[i + 4] ~= 'interval' then
    Errors.argument(call, 'schedule type "interval" wanted, not ' .. Errors.value(args[i + 4]))
  end
  template.interval = interval_of(call, args[i + 5])
  local due = call.now + Arguments.number(call, 'offset', args[i + 6])
  local options = Arguments.options(call, args, i + 7, OPTIONS)
  template.priority = Arguments.number(call, 'priority', options.priority or '0')
  template.tags = cjson.encode(Arguments.tag_list(call, options.tags or '[]'))
  template.retries = Arguments.whole(call, 'retries', options.retries or '0', 0)
  template.backlog = Arguments.number(call, 'backlog', options.backlog or '0')

  local name, queue = Keys.template(call, jid), Keys.queue(call, template.queue)
  local its_queue, count = unpack(rcall('HMGET', name, 'queue', 'count'))
  if its_queue then
    rcall('ZREM', Keys.queue(call, its_queue).recur, jid)
  end
  Schedules.forget(call, jid)
  template.count = tonumber(count or nil) or last_child(call, jid)
  local values = {}
  for field, value in pairs(template) do
    values[#values + 1], values[#values + 2] = field, value
  end
  rcall('HSET', name, unpack(values))
  rcall('ZADD', queue.recur, due, jid)
  Features.note(call, 'I')
  Wake.due(call, queue, due)
  Queue.register(call, queue)
  return jid
end

local function load(call, jid)
  local record = Pieces.hash(Keys.template(call, Arguments.name(call, 'jid', jid)))
  if not next(record) then
    Errors.refuse(call, 'NOJOB', 'Recurring job ' .. Errors.name(jid) .. ' does not exist')
  end
  return record
end

-- recur.get jid
function Recurring.get(call, args, i)
  local record = Pieces.hash(Keys.template(call, Arguments.name(call, 'jid', args[i])))
  return next(record)
    and cjson.encode({
      jid = record.jid,
      klass = record.klass,
      state = record.state,
      queue = record.queue,
      priority = tonumber(record.priority),
      interval = tonumber(record.interval),
      retries = tonumber(record.retries),
      count = tonumber(record.count),
      data = record.data,
      tags = Json.shown(record.tags),
      backlog = tonumber(record.backlog) or 0,
    })
end

-- What recur.update may change, and how a value is checked: as that of any schedule, if not said here.
local CHANGES = { priority = true, retries = true, data = true, klass = true, queue = true }
CHANGES.interval = interval_of

function CHANGES.backlog(call, value)
  return Arguments.number(call, 'backlog', value)
end

local function checked(call, name, value)
  local check = CHANGES[name]
  if not check then
    Errors.argument(call, 'Unrecognized option ' .. Errors.name(name))
  end
  return (check == true and Schedules.check(name) or check)(call, value)
end

-- It goes on in another queue, when it would have in the old one.
local function move(call, record, jid, name)
  local old, queue = Keys.queue(call, record.queue or ''), Keys.queue(call, name)
  local due = rcall('ZSCORE', old.recur, jid) or call.text
  rcall('ZREM', old.recur, jid)
  rcall('ZADD', queue.recur, due, jid)
  Wake.due(call, queue, tonumber(due))
  Queue.register(call, queue)
end

-- A changed interval shifts what comes next.
local function shift(call, record, jid, interval)
  local queue = Keys.queue(call, record.queue or '')
  local by = interval - (tonumber(record.interval) or interval)
  Wake.due(call, queue, tonumber(rcall('ZINCRBY', queue.recur, by, jid)))
end

-- recur.update jid key value ...
function Recurring.update(call, args, i)
  local jid = args[i]
  local record, changes = load(call, jid), {}
  for n = i + 1, #args, 2 do
    changes[#changes + 1] = { args[n], checked(call, args[n], args[n + 1]) }
  end
  for _, change in ipairs(changes) do
    local name, value = change[1], change[2]
    if name == 'queue' then
      move(call, record, jid, value)
    elseif name == 'interval' then
      shift(call, record, jid, value)
    end
    record[name] = value
    rcall('HSET', Keys.template(call, jid), name, value)
  end
  return 1
end

local function retag(call, args, i, combine)
  local jid = args[i]
  local tags = combine(Json.shown(load(call, jid).tags), Pieces.rest(args, i + 1))
  local text = cjson.encode(Arguments.few_tags(call, tags))
  rcall('HSET', Keys.template(call, jid), 'tags', text)
  return text
end

-- recur.tag jid tag...
function Recurring.tag(call, args, i)
  return retag(call, args, i, Tags.with)
end

-- recur.untag jid tag...
function Recurring.untag(call, args, i)
  return retag(call, args, i, Tags.without)
end

-- unrecur jid
function Recurring.unrecur(call, args, i)
  Schedules.forget(call, Arguments.name(call, 'jid', args[i]))
  Recurring.remove(call, args[i])
  return 1
end

-- Deletes a template, if it is one.
function Recurring.remove(call, jid)
  local queue = rcall('HGET', Keys.template(call, jid), 'queue')
  if queue then
    rcall('ZREM', Keys.queue(call, queue).recur, jid)
    rcall('DEL', Keys.template(call, jid))
  end
end

-- The first tick that spawns a job: of those that are due as many count as the backlog says.
local function first_tick(call, record, due)
  local time, backlog = floor(due), tonumber(record.backlog) or 0 -- qless drops the fraction
  local missed = (call.now - time) / record.interval
  if backlog > 0 and missed > backlog then
    -- (What is divided by very little is infinite.)
    time = math.min(time + math.ceil(missed - backlog) * record.interval, call.now + record.interval)
  end
  return time
end

-- The jobs of a template that are due since then, at most `wanted`, checked: a plan to be carried out. Writes nothing, and
-- raises an error if the record cannot be read.
local function plan(call, record, due, wanted)
  record.interval = interval_of(call, record.interval)
  local jobs, count = {}, tonumber(record.count) or last_child(call, record.jid)
  local time = first_tick(call, record, due)
  while time <= call.now and #jobs < wanted do
    repeat
      count = count + 1
    until not exists(call, child(record.jid, count))
    jobs[#jobs + 1] = Ticks.job(call, record, child(record.jid, count), time)
    time = time + record.interval
  end
  record.count, record.due = count, time
  return Put.check(call, { jobs = jobs })
end

-- -> how many jobs it spawns
local function spawn(call, queue, jid, due, wanted)
  local record = Pieces.hash(Keys.template(call, jid))
  if not next(record) then
    rcall('ZREM', queue.recur, jid)
    return 0
  end
  record.jid = jid
  local fine, planned = pcall(plan, call, record, due, wanted)
  if not fine then
    rcall('HSET', Keys.template(call, jid), 'trouble', Corrupt.words(planned))
    rcall('ZADD', queue.recur, format('%.17g', call.now + AGAIN), jid)
    return 0
  end
  rcall('HSET', Keys.template(call, jid), 'count', format('%.0f', record.count))
  rcall('ZADD', queue.recur, format('%.17g', record.due), jid)
  if record.trouble then
    rcall('HDEL', Keys.template(call, jid), 'trouble')
  end
  Put.carry_out(call, planned)
  return #planned.jobs
end

-- Puts the jobs of a queue's templates that are due into its work, at most `wanted`.
function Recurring.spawn_due(call, queue, wanted)
  local due = rcall('ZRANGEBYSCORE', queue.recur, '-inf', call.text, 'WITHSCORES', 'LIMIT', '0', wanted)
  for n = 1, #due, 2 do
    if wanted > 0 then
      wanted = wanted - spawn(call, queue, due[n], tonumber(due[n + 1]), wanted)
    end
  end
end
