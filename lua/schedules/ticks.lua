-- Ticks of a schedule: which of them are made up for, and the job that one puts.

local format, min = string.format, math.min

-- What may become of missed ticks: all are made up for, the last of them, or none.
Ticks.policies = { all = true, last = true, none = true }

-- A tick is missed when it is late by more than this: half the time to the tick after it, at most
-- so many seconds.
local GRACE = 60

local function is_missed(tick, following)
  return scope.now - tick > min(GRACE, (following - tick) / 2)
end

-- Ticks are due: `first`, which `following` comes after, to `last`, which `next` comes after.
-- -> the tick that puts a job now, or nil; and the tick to go on with
function Ticks.choose(policy, first, following, last, next)
  if policy == 'all' then
    return first, following
  elseif policy == 'none' and is_missed(last, next) then
    return nil, next
  end
  return last, next
end

-- A score for cron schedules that is due now and that nobody takes for a tick, which is whole.
function Ticks.none_yet(time)
  return time == math.floor(time) and time - 2 ^ -10 or time
end

-- What few jobs have; `rare` says that there is some of it.
local function write_rare(record, child)
  local name = key.job(child)
  if record.context then
    call('HSET', name, 'context', record.context)
  end
  if record.expires then
    call('HSET', name, 'deadline', format('%.17g', scope.now + Record.number(record.expires)), 'rare', '1')
  end
  if record.unique then
    -- The key names the job put last, until that one has ended.
    call('HSET', name, 'unique', 'e' .. record.unique, 'rare', '1')
    Unique.take(child, record.unique)
  end
end

-- Puts the job of a tick, without a word. `record` is that of the schedule, in which everything can be
-- read (Record.bad_schedule).
function Ticks.put(record, child, time)
  Canceled.forget(child)
  call(
    'HSET',
    key.job(child),
    'state',
    'waiting',
    'worker',
    '',
    'expires',
    0,
    'time',
    format('%.20f', time),
    'remaining',
    record.retries,
    'jid',
    child,
    'klass',
    record.klass,
    'data',
    record.data,
    'priority',
    record.priority,
    'tags',
    record.tags,
    'queue',
    record.queue,
    'retries',
    record.retries,
    'spawned_from_jid',
    record.jid
  )
  if record.context or record.expires or record.unique then
    write_rare(record, child)
  end
  local tags = Record.read('tags', record.tags, {})
  if #tags > 0 then
    Tags.index(child, tags)
  end
  History.put(child, record.queue, time)
  Place.work(child, record.queue, Record.number(record.priority), time)
  Minutes.count(record.queue, 'put', 1)
end
