-- Ticks of a schedule of either kind: which missed ones are caught up, the job that one puts, and how it goes on.
-- Which tick comes next those say who look: Recurring by the interval, for cron a worker (Cron).

local format, min = string.format, math.min

local AGAIN = 60 -- seconds until a schedule that cannot go on is looked at again

-- What may become of missed ticks: all are caught up, the last one, or none.
Ticks.policies = { all = true, last = true, none = true }

-- A tick is missed when it is late by more than this: half the time to the tick after it, at most
-- so many seconds.
local GRACE = 60

-- The last moment at which the tick is not missed yet.
local function in_time(tick, following)
  return tick + min(GRACE, (following - tick) / 2)
end

-- Ticks are due: `first`, which `following` comes after, to `last`, which `next` comes after.
-- -> the tick that puts a job now, or nil; and the tick to go on with
function Ticks.choose(policy, first, following, last, next)
  if policy == 'all' then
    return first, following
  elseif policy == 'none' and scope.now > in_time(last, next) then
    return nil, next
  end
  return last, next
end

-- A score for cron schedules that is due now and that cannot be a tick, which is a whole number.
function Ticks.none_yet(time)
  return time == math.floor(time) and time - 2 ^ -10 or time
end

-- What few jobs have; `rare` says that there is some of it. What is counted from the put is counted from the tick.
local function write_rare(record, child, time)
  local name = key.job(child)
  if record.context then
    call('HSET', name, 'context', record.context)
  end
  if record.expires then
    call('HSET', name, 'deadline', format('%.17g', time + Record.number(record.expires)), 'rare', '1')
  end
  if record.unique then
    -- The key names the job put last, until that one has ended.
    local keys = { record.unique }
    call('HSET', name, 'unique', Unique.field('end', keys), 'rare', '1')
    Unique.take(child, keys)
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
    write_rare(record, child, time)
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

-- The job of a time of cron.
local function child_at(record, time)
  return record.jid .. '@' .. format('%.0f', time)
end

-- Takes away the job that a cron schedule put last, if no worker has been offered it and nothing waits for it: its
-- tick is missed. -> whether it did
local function take_back(record)
  local last = Record.number(record.last)
  local child = last and child_at(record, last)
  local is_there = child and call('ZSCORE', key.place(record.queue, 'work'), child)
  local job = is_there and call('EXISTS', key.dependents(child)) == 0 and Job.read(child)
  if not job then
    return false
  end
  Job.remove(child, job)
  record.count = math.max((Record.number(record.count) or 0) - 1, 0)
  return true
end

-- A worker asks for jobs of the queue: what cron schedules have put there is served, but for missed ticks of
-- those that make up for none.
function Ticks.serve(queue)
  local name = key.place(queue, 'ticks')
  for _, id in
    ipairs(call('ZRANGEBYSCORE', name, '-inf', format('(%.17g', scope.now), 'LIMIT', 0, Arguments.most))
  do
    local record = Hash.all(key.schedule(id))
    record.jid = id
    if record.queue == queue and take_back(record) then
      call('HSET', key.schedule(id), 'count', record.count)
    end
  end
  call('DEL', name)
end

-- Puts the job of a time of cron. (It is there already if the clock was set back.) Nobody may serve the queue: that is
-- known from `ticks`, as whoever does takes the schedule out of it. Then one job stands for all ticks that are missed.
local function put_at(record, time, tick)
  local child = child_at(record, time)
  if call('EXISTS', key.job(child)) == 1 then
    return 0
  end
  local name = key.place(record.queue, 'ticks')
  if record.missed ~= 'all' then
    if call('ZSCORE', name, record.jid) then
      take_back(record)
    end
    call(
      'ZADD',
      name,
      record.missed == 'none' and format('%.17g', in_time(time, tick.next)) or '+inf',
      record.jid
    )
  end
  record.count, record.last = (Record.number(record.count) or 0) + 1, format('%.0f', time)
  Ticks.put(record, child, time)
  Places.register(record.queue)
  return 1
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
  local number, chosen, next = 0, nil, tick.next
  if tick.first then
    chosen, next = Ticks.choose(record.missed, tick.first, tick.following, tick.last, tick.next)
  end
  if chosen and record.cron then
    number = put_at(record, chosen, tick)
  elseif chosen then
    Ticks.put_next(record, chosen)
    number = 1
  end
  Ticks.keep(record, next)
  return number
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
