-- Schedules: what recurs at an interval or by cron. Here they are made, changed, paused, run and removed; what becomes of
-- their ticks: see ticks.lua. Templates of the protocol (recurring.lua) are shown among them, and can be run and removed
-- like them; one that is changed or paused becomes a schedule.

local format = string.format
local rcall = redis.call

local LONGEST_ID = 200 -- bytes: its jobs' ids are longer
local LONGEST_TEXT = 255
local MOST_DECLARED = 1000 -- that have an owner
local POLICIES = { all = true, last = true, none = true }

-- How what a schedule is made of is checked, and what of it is stored; '' takes away what is optional.
local CHECKS = { queue = Arguments.queue }

for name in string.gmatch('cron timezone unique name owner', '%a+') do
  CHECKS[name] = function(call, value)
    if #value > LONGEST_TEXT then
      Errors.argument(call, name .. ' has ' .. #value .. ' bytes, at most ' .. LONGEST_TEXT)
    end
    return value
  end
end

for name in string.gmatch('offset priority interval expires', '%a+') do
  CHECKS[name] = function(call, value)
    local number = (value ~= '' or name ~= 'expires') and Arguments.number(call, name, value)
    if name == 'interval' and number < 1 then
      Errors.argument(call, 'interval must be at least 1 second, not ' .. Errors.value(value))
    end
    return number or value
  end
end

function CHECKS.klass(call, value)
  return Arguments.given(call, 'klass', value)
end

function CHECKS.data(call, value)
  Arguments.json(call, 'data', value)
  return value
end

function CHECKS.retries(call, value)
  return Arguments.whole(call, 'retries', value, 0)
end

function CHECKS.tags(call, value)
  return cjson.encode(Arguments.tag_list(call, value))
end

function CHECKS.missed(call, value)
  if not POLICIES[value] then
    Errors.argument(call, 'missed must be all, last or none, not ' .. Errors.value(value))
  end
  return value
end

function CHECKS.context(call, value)
  if value ~= '' then
    Arguments.object(call, 'context', value)
  end
  return value
end

function CHECKS.edited(_, value)
  return value == '1' and value or ''
end

function CHECKS.formerly(call, value)
  local ids = Arguments.names(call, 'formerly', value)
  Arguments.bounded(call, #ids)
  return ids
end

-- How a value of this field is checked: a function of (call, value).
function Schedules.check(field)
  return CHECKS[field]
end

local NO_OPTIONS = {
  ['schedule.set'] = { queue = true, klass = true, data = true },
  ['schedule.update'] = { owner = true, edited = true, formerly = true },
}

-- Lays option pairs from args[i] on over a definition. -> which were given
local function take_options(call, made, args, i)
  if (#args - i + 1) % 2 ~= 0 then
    Errors.argument(call, 'Odd number of additional args')
  end
  local given = {}
  for n = i, #args, 2 do
    local name, value = args[n], args[n + 1]
    if not CHECKS[name] or NO_OPTIONS[call.command][name] then
      Errors.argument(call, 'Unknown option ' .. Errors.name(name))
    end
    value = CHECKS[name](call, value)
    given[name] = true
    made[name] = value ~= '' and value or nil
  end
  return given
end

-- One at an interval has no cron, and the other way round.
local function settle_kind(call, made, given)
  if given.interval and given.cron then
    Errors.argument(call, 'either interval or cron wanted, not both')
  elseif given.cron then
    made.interval, made.offset = nil, given.offset and made.offset
  elseif given.interval then
    made.cron, made.timezone = nil, given.timezone and made.timezone
  end
  if not made.interval and not made.cron then
    Errors.argument(call, 'interval or cron wanted')
  elseif made.cron and made.offset then
    Errors.argument(call, 'offset belongs to an interval, not to cron')
  elseif made.interval and made.timezone then
    Errors.argument(call, 'timezone belongs to cron, not to an interval')
  end
  made.timezone = made.cron and (made.timezone or 'UTC')
end

local function read_template(call, id)
  local record = Pieces.hash(Keys.template(call, id))
  record.key, record.is_template = Keys.template(call, id), true
  record.place = record.queue and Keys.queue(call, record.queue).recur
  record.missed = (tonumber(record.backlog) or 0) > 0 and 'last' or 'all'
  return record.queue and record
end

-- The record of a schedule or a template; nil if there is none. Its `due` is when it goes on, unless it is paused; where that
-- has to be computed, there is `since`.
function Schedules.read(call, id)
  local record = Pieces.hash(Keys.schedule(call, id))
  record.key, record.place = Keys.schedule(call, id), call.keys.schedules
  record = record.queue and record or read_template(call, id)
  if not record then
    return nil
  end
  local since, interval = tonumber(record.since), tonumber(record.interval)
  record.jid = id
  record.due = since and interval and since + interval
    or tonumber(record.paused)
    or tonumber(rcall('ZSCORE', record.place, id) or nil)
    or call.now
  return record
end

-- Several of them, all of which must exist.
local function read_all(call, args, i)
  Arguments.given(call, 'id', args[i])
  Arguments.bounded(call, #args - i + 1)
  local records, seen = {}, {}
  for n = i, #args do
    if not seen[args[n]] then
      seen[args[n]] = true
      records[#records + 1] = Schedules.read(call, args[n])
        or Errors.refuse(call, 'NOSCHEDULE', 'Schedule %s does not exist', Errors.name(args[n]))
    end
  end
  return records
end

-- The first tick of an interval's rhythm after now.
local function after_now(call, due, interval)
  return due + math.floor((call.now - due) / interval + 1) * interval
end

-- When a changed interval goes on: it keeps its rhythm. -> that; or, if a tick is due, when it is to be computed, and since
-- when: who is about to put it goes by what was before
local function next_of_interval(call, made, old)
  if not old or old.cron or (made.offset and made.offset ~= tonumber(old.offset)) then
    return math.floor((call.now + (made.offset or 0)) * 1000) / 1000 -- ids of jobs end in thousandths
  elseif old.due <= call.now then
    return Ticks.no_tick(call.now), old.due - made.interval
  end
  local due = old.due - (tonumber(old.interval) or made.interval) + made.interval
  return due > call.now and due or after_now(call, due, made.interval)
end

-- The same by cron: unless it is as before, the next tick is to be computed.
local function next_of_cron(call, made, old)
  if old and old.cron == made.cron and old.timezone == made.timezone then
    return old.due, old.since
  end
  return Ticks.no_tick(call.now), call.now
end

local function drop(call, record)
  local id, queue = record.jid, Keys.queue(call, record.queue)
  if record.is_template then
    return Recurring.remove(call, id)
  end
  rcall('DEL', record.key)
  rcall('HDEL', call.keys.declared_schedules, id)
  for _, name in ipairs({ call.keys.schedules, call.keys.paused_schedules, queue.schedules, queue.ticks }) do
    rcall('ZREM', name, id)
  end
  if rcall('EXISTS', call.keys.schedules, call.keys.paused_schedules) == 0 then
    Features.forget(call, 'Q')
  end
end

-- The schedule falls due at that time: the ticker looks whether that is soon.
local function put_in_place(call, id, due)
  rcall('ZADD', call.keys.schedules, format('%.17g', due), id)
  Events.schedules(call, rcall('GET', call.keys.ticker))
end

local function pause(call, id, due)
  rcall('ZREM', call.keys.schedules, id)
  rcall('HSET', Keys.schedule(call, id), 'paused', format('%.17g', due))
  rcall('ZADD', call.keys.paused_schedules, call.text, id)
end

-- What is stored of a definition; the rest is how far the schedule has come: count, last, since, paused, trouble.
local DEFINED = 'queue klass data priority retries tags interval offset cron timezone missed context unique expires '
  .. 'name owner edited'

local function copy(record)
  local made = { jid = record.jid }
  for field in string.gmatch(DEFINED, '%a+') do
    made[field] = record[field]
  end
  made.interval, made.offset = tonumber(made.interval), tonumber(made.offset)
  return made
end

-- Writes what has been checked, in place of the old record, if any. None of it can fail.
local function store(call, made, old)
  local next_of, id, queue =
    made.cron and next_of_cron or next_of_interval, made.jid, Keys.queue(call, made.queue)
  local due, since = next_of(call, made, old)
  local values = { 'count', old and tonumber(old.count) or 0 }
  for field in string.gmatch(DEFINED, '%a+') do
    if made[field] then
      values[#values + 1], values[#values + 2] = field, made[field]
    end
  end
  for field, value in pairs({ since = since, last = old and old.last }) do
    values[#values + 1], values[#values + 2] = field, value
  end
  if old then
    drop(call, old)
  end
  rcall('HSET', Keys.schedule(call, id), unpack(values))
  rcall('ZADD', queue.schedules, 0, id)
  if made.owner then
    rcall('HSET', call.keys.declared_schedules, id, made.owner)
  end
  if old and old.paused then
    pause(call, id, due)
  else
    put_in_place(call, id, due)
  end
  Queue.register(call, queue)
end

-- The schedule that this one was under a former id, or nil.
local function read_former(call, made)
  for _, id in ipairs(made.formerly or {}) do
    local former = Schedules.read(call, id)
    if former then
      return former
    end
  end
end

-- schedule.set id queue klass data [pairs] -> new or changed
function Schedules.set(call, args, i)
  local made = {
    jid = Arguments.jid(call, args[i]),
    queue = CHECKS.queue(call, args[i + 1]),
    klass = CHECKS.klass(call, args[i + 2]),
    data = CHECKS.data(call, args[i + 3]),
    priority = 0,
    retries = 5,
    tags = '{}',
    missed = 'last',
  }
  if #made.jid > LONGEST_ID then
    Errors.argument(call, 'id has ' .. #made.jid .. ' bytes, at most ' .. LONGEST_ID)
  end
  settle_kind(call, made, take_options(call, made, args, i + 4))
  local old = Schedules.read(call, made.jid) or read_former(call, made)
  local is_more = made.owner and not (old and old.owner)
  if is_more and rcall('HLEN', call.keys.declared_schedules) >= MOST_DECLARED then
    Errors.refuse(call, 'TOOBIG', 'more than ' .. MOST_DECLARED .. ' declared schedules')
  end
  store(call, made, old)
  return old and 'changed' or 'new'
end

-- schedule.update id name value ...: an operator's changes
function Schedules.update(call, args, i)
  local old = read_all(call, { args[i] }, 1)[1]
  local made = copy(old)
  settle_kind(call, made, take_options(call, made, args, i + 1))
  made.edited = made.owner and '1'
  store(call, made, old)
end

-- Changes those of several schedules that are paused, or those that are not. -> how many
local function change_all(call, records, is_paused, change)
  local changed = 0
  for _, record in ipairs(records) do
    if (record.paused ~= nil) == is_paused then
      change(call, record)
      changed = changed + 1
    end
  end
  return changed
end

-- schedule.pause id... -> how many were not paused
function Schedules.pause(call, args, i)
  return change_all(
    call,
    read_all(call, args, i),
    false,
    function(_, record) -- (a template becomes a schedule)
      if record.is_template then
        store(call, copy(record), record)
      end
      pause(call, record.jid, record.due)
    end
  )
end

-- It goes on in its old rhythm; what fell due in the pause is no missed tick. (The next one is computed again: the server's
-- clock may have been set back.)
local function resume(call, record)
  local due, interval = Ticks.no_tick(call.now), tonumber(record.interval)
  if interval then
    due = after_now(call, record.due, interval)
    rcall('HDEL', record.key, 'since')
  else
    rcall('HSET', record.key, 'since', call.text)
  end
  rcall('HDEL', record.key, 'paused')
  rcall('ZREM', call.keys.paused_schedules, record.jid)
  put_in_place(call, record.jid, due)
end

-- schedule.resume id... -> how many were paused
function Schedules.resume(call, args, i)
  return change_all(call, read_all(call, args, i), true, resume)
end

-- schedule.run id -> the jid of the job that is put now, outside the rhythm
function Schedules.run(call, args, i)
  local record = read_all(call, { args[i] }, 1)[1]
  local jid = record.jid .. '@run-' .. Call.draw(call)
  local plan, why = Ticks.plan(call, record, jid, call.now)
  if not plan then
    Errors.refuse(call, 'STATE', 'Schedule %s: %s', Errors.name(record.jid), why)
  end
  Put.carry_out(call, plan)
  rcall('HSET', record.key, 'count', (tonumber(record.count) or 0) + 1)
  return jid
end

-- schedule.remove id... -> how many there were; the jobs that they have put stay
function Schedules.remove(call, args, i)
  Arguments.given(call, 'id', args[i])
  Arguments.bounded(call, #args - i + 1)
  local removed = 0
  for n = i, #args do
    local record = Schedules.read(call, args[n])
    if record then
      drop(call, record)
      removed = removed + 1
    end
  end
  return removed
end

-- A template takes the id of a schedule over, or an old client removes it.
function Schedules.forget(call, id)
  local record = Pieces.hash(Keys.schedule(call, id))
  if record.queue then
    record.jid, record.key = id, Keys.schedule(call, id)
    drop(call, record)
  end
end
