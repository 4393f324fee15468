-- Ticks of a schedule of either kind: which missed ones are caught up, the job that one puts, and how it goes on.
-- Which tick comes next those say who look: Recurring by the interval, for cron a worker (Cron).

local format, min = string.format, math.min

local AGAIN = 60 -- seconds until a schedule that cannot go on is looked at again

-- What may become of missed ticks: all are caught up, the last one, or none.
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

-- A score for cron schedules that is due now and that cannot be a tick, which is a whole number.
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
  Places.work(child, record.queue, Record.number(record.priority), time)
  Minutes.count(record.queue, 'put', 1)
end

-- Puts the job of an interval's tick, under the next number that no job bears.
function Ticks.put_next(record, time)
  local count = Record.number(record.count)
  repeat
    count = count + 1
  until call('EXISTS', key.job(record.jid .. '-' .. format('%.0f', count))) == 0
  record.count, record.last = count, time
  Ticks.put(record, record.jid .. '-' .. format('%.0f', count), time)
end

-- Puts the job of a time of cron. (It is there already if the clock was set back.)
local function put_at(record, time)
  local child = record.jid .. '@' .. format('%.0f', time)
  if call('EXISTS', key.job(child)) == 0 then
    record.count, record.last = (Record.number(record.count) or 0) + 1, format('%.0f', time)
    Ticks.put(record, child, time)
    Places.register(record.queue)
  end
end

-- Writes how far a schedule has come, which stands at `record.key` and goes on in `record.place`.
function Ticks.keep(record, next)
  if scope.live and record.last then
    call('HSET', record.key, 'count', record.count or 0, 'last', record.last)
  else
    call('HSET', record.key, 'count', record.count or 0)
  end
  call('ZADD', record.place, format('%.17g', next), record.jid)
end

-- Puts the job of that tick which counts of those that are due, if any. `tick` has those that choose wants; without
-- `first` none is due yet. -> how many jobs were put
function Ticks.carry_out(record, tick)
  local before, chosen, next = record.count, nil, tick.next
  if tick.first then
    chosen, next = Ticks.choose(record.missed, tick.first, tick.following, tick.last, tick.next)
  end
  if chosen and record.cron then
    put_at(record, chosen)
  elseif chosen then
    Ticks.put_next(record, chosen)
  end
  Ticks.keep(record, next)
  return record.count ~= before and 1 or 0
end

-- A schedule that cannot go on is left for later, so that it does not stand before others. What fell due `since`
-- then stays due.
function Ticks.put_off(record, since, words)
  if scope.live then
    since = Record.text('since', record.since, format('%.17g', since))
    call('HSET', record.key, 'trouble', words, 'since', since)
  end
  local again = scope.now + AGAIN
  call('ZADD', record.place, format('%.17g', record.cron and Ticks.none_yet(again) or again), record.jid)
end
