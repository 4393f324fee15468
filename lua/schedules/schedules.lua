-- Schedules of both kinds: interval ones, which are recurring jobs' templates, and cron ones.
-- One id names one schedule. Here they are made, changed, paused and removed.

local format, ceil = string.format, math.ceil

local LONGEST_ID = 200 -- bytes: its jobs' ids are longer
local MOST_DECLARED = 1000

-- What a template has beyond what qless gives it.
local OURS = {
  'name',
  'owner',
  'missed',
  'context',
  'unique',
  'expires',
  'offset',
  'last',
  'paused',
  'edited',
  'declared',
  'trouble',
  'since',
}

local function unknown(command, id)
  Errors.raise('NOSCHEDULE', command .. '(): Schedule ' .. Errors.name(id) .. ' does not exist')
end

-- The key of a record, or nil if there is no such schedule.
local function name_of(id)
  if call('EXISTS', key.schedule(id)) == 1 then
    return key.schedule(id)
  elseif call('EXISTS', key.template(id)) == 1 then
    return key.template(id)
  end
end

-- The record of a schedule or nil. Its `due` is when it goes on, unless it is paused.
function Schedules.read(id)
  local name = name_of(id)
  if not name then
    return nil
  end
  local record = Hash.all(name)
  record.jid, record.tags = id, record.tags or '{}'
  record.place = record.cron and key.schedules() or key.place(record.queue or '', 'recur')
  record.due = Record.number(record.paused)
    or (record.trouble and not record.cron and Record.number(record.since))
    or tonumber(call('ZSCORE', record.place, id) or scope.now)
  return record
end

local function must_read(command, id)
  return Schedules.read(Arguments.given(command, 'id', id)) or unknown(command, id)
end

-- The first tick of an interval's rhythm after now.
local function after_now(due, interval)
  if due > scope.now then
    return due
  end
  local next = due + ceil((scope.now - due) / interval) * interval
  next = next > scope.now and next or next + interval
  return math.min(next, scope.now + interval) -- (what is divided by very little is infinite)
end

-- The same tick of an interval, or an earlier one of its rhythm if it is further ahead than a first tick can be: it
-- was computed before the server's clock was set back.
local function in_reach(due, interval, offset)
  local ahead = due - scope.now
  if ahead <= interval + (offset or 0) then
    return due
  end
  return math.max(scope.now + ahead % interval, scope.now) -- (what is divided by very little is infinite)
end

-- When a changed interval goes on: it keeps its rhythm, and what is due stays due.
local function next_of_interval(made, old)
  if not old or old.cron or (made.offset and made.offset ~= tonumber(old.offset)) then
    return scope.now + (made.offset or 0)
  end
  local before = Record.read('interval', old.interval)
  if not before then
    return math.max(old.due, scope.now)
  end
  local due = made.force and in_reach(old.due, before, made.offset) or old.due
  if made.interval == before or due <= scope.now then
    return due
  end
  return after_now(due - before + made.interval, made.interval)
end

-- When a cron schedule goes on, and since when its ticks count if that is no tick itself: those
-- who know cron will look. A reset computes a tick that is yet to come again: the server's clock may have been
-- set back.
local function next_of_cron(made, old)
  local same = old and old.cron == made.cron and old.timezone == made.timezone
  if same and not (made.force and old.due > scope.now) then
    return old.due, old.since
  end
  return Ticks.none_yet(scope.now), format('%.17g', scope.now)
end

-- Removes the record and all that refers to it.
local function drop(record)
  local id = record.jid
  call('ZREM', record.place, id)
  call('ZREM', key.place(record.queue or '', 'ticks'), id)
  call('DEL', record.cron and key.schedule(id) or key.template(id))
  call('ZREM', key.paused_schedules(), id)
  call('HDEL', key.declared_schedules(), id)
end

local FIELDS = {
  'queue',
  'klass',
  'data',
  'priority',
  'retries',
  'tags',
  'interval',
  'backlog',
  'offset',
  'cron',
  'timezone',
  'since',
  'count',
  'last',
  'name',
  'owner',
  'declared',
  'edited',
  'missed',
  'context',
  'unique',
  'expires',
  'paused',
}

local function put_in_place(record, due)
  call('ZADD', record.place, format('%.17g', due), record.jid)
  if record.cron then
    Events.schedules(call('GET', key.ticker()))
  else
    Wake.due(record.queue, due)
  end
end

-- Writes what has been checked, in place of the old record. None of it can fail.
local function store(made, old)
  local id, values = made.jid, {}
  local due
  if made.cron then
    due, made.since = next_of_cron(made, old)
    made.missed = made.missed or Definition.defaults.missed -- an old client's template has none
  else
    due, made.since = next_of_interval(made, old), nil
    made.backlog = made.backlog or 0
  end
  made.place = made.cron and key.schedules() or key.place(made.queue, 'recur')
  made.count = old and Record.text('count', old.count) or made.cron and 0 or Recurring.last_child(id)
  made.last, made.paused =
    old and Record.number(old.last) and old.last, old and old.paused and format('%.17g', due)
  if old then
    drop(old)
  end
  for _, field in ipairs(FIELDS) do
    if made[field] then
      values[#values + 1] = field
      values[#values + 1] = made[field]
    end
  end
  if made.cron then
    call('HSET', key.schedule(id), unpack(values))
  else
    call('HSET', key.template(id), 'jid', id, 'state', 'recur', 'type', 'interval', unpack(values))
  end
  if made.declared then
    call('HSET', key.declared_schedules(), id, made.declared)
  end
  if made.paused then
    call('ZADD', key.paused_schedules(), scope.now, id)
  else
    put_in_place(made, due)
  end
  Places.register(made.queue)
end

-- Does a schedule stay as it is? Who declares leaves alone what is another's, or was edited.
local function stays(made, old)
  if not old or made.force then
    return nil
  elseif made.owner and ((old.owner or '') ~= made.owner or old.edited) then
    return 'kept'
  elseif made.declared and old.declared == made.declared then
    return 'same'
  end
end

local function refuse_too_many(made)
  if
    made.declared
    and call('HEXISTS', key.declared_schedules(), made.jid) == 0
    and call('HLEN', key.declared_schedules()) >= MOST_DECLARED
  then
    Errors.raise('TOOBIG', 'schedule.set(): more than ' .. MOST_DECLARED .. ' declared schedules')
  end
end

-- What the code says of the jobs of a schedule that it has renamed, whatever else an operator has changed.
local OF_CODE = { 'klass', 'data', 'name', 'unique' }

-- The schedule has another id from now on, with all that is kept under it: its pause, its rhythm, what an operator has
-- changed.
local function rename(record, made)
  local old, id = record.jid, made.jid
  local from, to = key.template(old), key.template(id)
  if record.cron then
    from, to = key.schedule(old), key.schedule(id)
  end
  call('RENAMENX', from, to)
  for _, field in ipairs(OF_CODE) do
    if made[field] then
      call('HSET', to, field, made[field])
    else
      call('HDEL', to, field)
    end
  end
  if not record.cron then
    call('HSET', to, 'jid', id)
  end
  for _, place in ipairs({ record.place, key.paused_schedules() }) do
    local score = call('ZSCORE', place, old)
    if score then
      call('ZREM', place, old)
      call('ZADD', place, score, id)
    end
  end
  call('ZREM', key.place(record.queue or '', 'ticks'), old)
  if record.declared then
    call('HDEL', key.declared_schedules(), old)
    call('HSET', key.declared_schedules(), id, record.declared)
  end
  return Schedules.read(id)
end

-- The schedule of the same owner under a former id, or nil.
local function find_former(made)
  for _, id in ipairs(made.formerly or {}) do
    local former = Schedules.read(id)
    if former and (former.owner or '') == (made.owner or '') then
      return former
    end
  end
end

-- schedule.set id queue klass data [pairs] -> new, changed, same or kept
function Schedules.set(args, i)
  local id = Arguments.jid('schedule.set', args[i])
  if #id > LONGEST_ID then
    Errors.argument('schedule.set', 'id has ' .. #id .. ' bytes, at most ' .. LONGEST_ID)
  end
  local made = { jid = id }
  for n, field in ipairs({ 'queue', 'klass', 'data' }) do
    made[field] = Definition.check('schedule.set', field, args[i + n])
  end
  local given =
    Definition.lay_over('schedule.set', made, args, i + 4, { queue = true, klass = true, data = true })
  Definition.settle_kind('schedule.set', made, given)
  for field, value in pairs(Definition.defaults) do
    made[field] = made[field] or value
  end
  local old = Schedules.read(id)
  local former = not old and find_former(made)
  local reply = stays(made, old or former)
  if former then
    old = rename(former, made)
  elseif not reply then
    refuse_too_many(made)
  end
  if not reply then
    store(made, old)
    reply = old and 'changed' or 'new'
  end
  return reply
end

-- Nothing is made of a record that cannot be read.
local function refuse_unreadable(command, record, remedy)
  local field, text = Record.bad_schedule(record)
  if field and field ~= 'count' then
    Errors.raise(
      'STATE',
      '%s(): Schedule %s: %s%s',
      command,
      Errors.name(record.jid),
      Record.words(field, text),
      remedy
    )
  end
end

-- schedule.update id name value ...: an operator's changes
function Schedules.update(args, i)
  local old = must_read('schedule.update', args[i])
  local made = { jid = old.jid }
  for _, field in ipairs(FIELDS) do
    made[field] = old[field]
  end
  local given = Definition.lay_over(
    'schedule.update',
    made,
    args,
    i + 1,
    { owner = true, declared = true, force = true, formerly = true }
  )
  Definition.settle_kind('schedule.update', made, given)
  refuse_unreadable('schedule.update', made, ': give it anew')
  made.interval, made.offset = Record.number(made.interval), Record.number(made.offset)
  made.edited = made.owner and '1' or nil
  store(made, old)
end

-- Reads several schedules, all of which must exist.
local function read_all(command, args, i)
  Arguments.given(command, 'id', args[i])
  Arguments.bounded(command, #args - i + 1)
  local records, seen = {}, {}
  for n = i, #args do
    if not seen[args[n]] then
      seen[args[n]] = true
      records[#records + 1] = must_read(command, args[n])
    end
  end
  return records
end

local function record_name(record)
  return record.cron and key.schedule(record.jid) or key.template(record.jid)
end

-- schedule.pause id... -> how many were not paused
function Schedules.pause(args, i)
  local changed = 0
  for _, record in ipairs(read_all('schedule.pause', args, i)) do
    if not record.paused then
      call('ZREM', record.place, record.jid)
      call('HSET', record_name(record), 'paused', format('%.17g', record.due))
      call('ZADD', key.paused_schedules(), scope.now, record.jid)
      changed = changed + 1
    end
  end
  return changed
end

-- Goes on in its old rhythm; what fell due in the pause is no missed tick.
local function resume(record)
  local name, due = record_name(record), record.due
  if not record.cron then
    local interval = Record.read('interval', record.interval)
    due = interval and after_now(due, interval) or scope.now
  elseif due <= scope.now then
    due = Ticks.none_yet(scope.now)
    call('HSET', name, 'since', format('%.17g', scope.now))
  end
  call('HDEL', name, 'paused')
  call('ZREM', key.paused_schedules(), record.jid)
  put_in_place(record, due)
  if not record.cron then
    Places.register(record.queue or '')
  end
end

-- schedule.resume id... -> how many were paused
function Schedules.resume(args, i)
  local changed = 0
  for _, record in ipairs(read_all('schedule.resume', args, i)) do
    if record.paused then
      resume(record)
      changed = changed + 1
    end
  end
  return changed
end

-- schedule.run id -> the jid of the job that is put now, outside the rhythm
function Schedules.run(args, i)
  local record = must_read('schedule.run', args[i])
  refuse_unreadable('schedule.run', record, '')
  if Record.is_bad('count', record.count) then
    call('HSET', record_name(record), 'count', 0)
  end
  local child
  repeat
    child = record.jid .. '@run-' .. Clock.draw()
  until call('EXISTS', key.job(child)) == 0
  Ticks.put(record, child, scope.now)
  call('HINCRBY', record_name(record), 'count', 1)
  Places.register(record.queue)
  return child
end

-- schedule.remove id... -> how many there were; the jobs that they have put stay
function Schedules.remove(args, i)
  Arguments.given('schedule.remove', 'id', args[i])
  Arguments.bounded('schedule.remove', #args - i + 1)
  local removed = 0
  for n = i, #args do
    local record = Schedules.read(args[n])
    if record then
      drop(record)
      removed = removed + 1
    end
  end
  return removed
end

-- Takes away what only calls with KEYS give: the template is replaced or removed.
function Schedules.forget(id)
  if scope.live then
    local queue = call('HGET', key.schedule(id), 'queue')
    if queue then
      call('ZREM', key.place(queue, 'ticks'), id)
    end
    call('ZREM', key.schedules(), id)
    call('DEL', key.schedule(id))
    call('ZREM', key.paused_schedules(), id)
    call('HDEL', key.declared_schedules(), id)
    call('HDEL', key.template(id), unpack(OURS))
  end
end
