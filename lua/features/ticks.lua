-- Ticks of schedules. One worker at a time is the ticker: it asks what is due (schedule.due), computes the ticks, decides by
-- the policies for missed ones which of them put a job, and says that and when the schedule goes on (schedule.tick). Here
-- it is compared and set, so that each tick puts one job, however many workers compute it.
--
-- Only here is it known whether workers ask for jobs of a queue. While none does, a schedule has one job there, that of its
-- last tick, unless it makes up for all ticks. `ticks` of the queue has those whose last job is not known to have been
-- offered to a worker.

local format = string.format
local rcall = redis.call

local LEASE = 6 -- seconds for which a worker is the ticker; it asks again in time
local AGAIN = 60 -- seconds until a schedule that cannot go on is looked at again
local LONGEST_TROUBLE = 1000 -- bytes

-- A score for about that time which is no tick: ticks of cron are whole numbers.
function Ticks.no_tick(time)
  return time == math.floor(time) and time - 2 ^ -10 or time
end

local DUE = { 'since', 'interval', 'cron', 'timezone', 'missed' }

-- What is due, at most `count`; the seconds until the next falls due, if that is soon.
local function due_now(call, count)
  local name, flat = call.keys.schedules, {}
  local due = rcall('ZRANGEBYSCORE', name, '-inf', call.text, 'WITHSCORES', 'LIMIT', '0', count)
  for n = 1, #due, 2 do
    local values = rcall('HMGET', Keys.schedule(call, due[n]), unpack(DUE))
    if values[2] or values[3] then
      flat[#flat + 1], flat[#flat + 2] = due[n], due[n + 1]
      for k = 1, #DUE do
        flat[#flat + 1] = values[k] or ''
      end
    else
      rcall('ZREM', name, due[n])
    end
  end
  if #due == 2 * count then
    return flat, 0
  end
  local later = rcall('ZRANGEBYSCORE', name, '(' .. call.text, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
  return flat, math.min(LEASE / 2, tonumber(later[2] or call.now + LEASE) - call.now)
end

-- schedule.due worker count -> seconds until it is to ask again, now, whether the worker is the ticker, and what is due: id,
-- score, since (''; or when: the ticks after it count, and the score is none), interval, cron, timezone, missed of each.
-- Nothing is due for others.
function Ticks.due(call, args, i)
  local worker = Arguments.name(call, 'worker', args[i])
  local count = math.max(Arguments.count(call, args[i + 1], 100), 1)
  local name = call.keys.ticker
  local holder, left = rcall('GET', name), rcall('PTTL', name) / 1000
  -- (A lease that lasts longer was given before the server's clock was set back.)
  if holder and holder ~= worker and left <= LEASE then
    return { format('%.3f', math.max(left, 0)), format('%.6f', call.now), 0, {} }
  end
  rcall('SET', name, worker, 'PX', LEASE * 1000)
  local due, seconds = due_now(call, count)
  return { format('%.6f', seconds), format('%.6f', call.now), 1, due }
end

-- Workers end: none of them is the ticker any longer.
function Ticks.leave(call, workers)
  local holder = rcall('GET', call.keys.ticker)
  for _, worker in ipairs(holder and workers or {}) do
    if worker == holder then
      rcall('DEL', call.keys.ticker)
    end
  end
end

-- The job of a tick at that time, as Put takes it. `record` is that of a schedule or a template; raises an error if it
-- cannot be read. Nothing is published: a client has not put it.
function Ticks.job(call, record, jid, time)
  local job = {
    jid = jid,
    key = Keys.job(call, jid),
    queue = Arguments.given(call, 'queue', record.queue),
    klass = Arguments.given(call, 'klass', record.klass),
    data = Arguments.given(call, 'data', record.data),
    priority = Arguments.number(call, 'priority', record.priority),
    retries = Arguments.whole(call, 'retries', record.retries, 0),
    tag_list = Arguments.names(call, 'tags', record.tags),
    context = Json.stored(record.context) and record.context,
    delay = 0,
    put = format('%.0f', math.floor(time * 1000 + 0.001)),
    since = time,
    overdue = time,
    spawned_from_jid = record.jid,
    silent = true,
  }
  if record.unique or record.expires then
    -- The key names the job put last, until that one has ended.
    job.options = { unique = record.unique, conflict = record.unique and 'take', expires = record.expires }
    for option in pairs(job.options) do
      Features.use(job, Features.of_option(option))
    end
  end
  return job
end

-- The same, checked: a plan to be carried out. -> nil and why, if the record cannot be read
function Ticks.plan(call, record, jid, time)
  local fine, plan = pcall(function()
    return Put.check(call, { jobs = { Ticks.job(call, record, jid, time) } })
  end)
  if fine then
    return plan
  end
  return nil, Corrupt.words(plan)
end

-- The jid of the job of a tick. (Ticks are a second apart at least.)
local function job_at(record, time)
  return record.jid .. '@' .. Times.thousandths(time)
end

-- Takes the job of a schedule's last tick back, unless a worker has taken it or a job waits for it. -> whether it did
local function take_back(call, record)
  local last = tonumber(record.last)
  local jid = last and job_at(record, last)
  local is_there = jid and rcall('ZSCORE', Keys.queue(call, record.queue).work, jid)
  local job = is_there and rcall('EXISTS', Keys.dependents(call, jid)) == 0 and Job.read(call, jid)
  if job then
    Cancel.erase(call, job)
    record.count = math.max((tonumber(record.count) or 0) - 1, 0)
    rcall('HSET', record.key, 'count', record.count)
  end
  return job
end

local function read(call, id)
  local name = Keys.schedule(call, id)
  local record = Pieces.hash(name)
  record.jid, record.key = id, name
  return record
end

-- A worker asks for jobs of the queue: what schedules have put there is offered to it, but for ticks that are missed by now,
-- of those that make up for none.
function Ticks.offered(call, queue)
  local late = rcall('ZRANGEBYSCORE', queue.ticks, '-inf', '(' .. call.text, 'LIMIT', '0', Arguments.most)
  for _, id in ipairs(late) do
    local record = read(call, id)
    if record.queue == queue.name then
      take_back(call, record)
    end
  end
  rcall('DEL', queue.ticks)
end

-- The job of a tick is about to be put where that of the last one may wait that no worker was offered.
local function replace_last(call, record, missed_at)
  local queue = Keys.queue(call, record.queue)
  if rcall('ZSCORE', queue.ticks, record.jid) then
    take_back(call, record)
  end
  rcall('ZADD', queue.ticks, missed_at and format('%.17g', missed_at) or '+inf', record.jid)
  Features.note(call, 'Q')
end

-- Puts the job of a tick, unless it is there already, or missed. -> how many; nil and why, if the schedule cannot be read
local function put(call, record, tick)
  local jid = job_at(record, tick.time)
  if rcall('EXISTS', Keys.job(call, jid)) == 1 or call.now > (tick.missed_at or math.huge) then
    return 0
  end
  local plan, why = Ticks.plan(call, record, jid, tick.time)
  if not plan then
    return nil, why
  end
  if record.missed ~= 'all' then
    replace_last(call, record, tick.missed_at)
  end
  Put.carry_out(call, plan)
  record.count, record.last = (tonumber(record.count) or 0) + 1, format('%.17g', tick.time)
  return 1
end

-- It is left for later, so that it does not stand before others. The ticks that fell due stay due.
local function put_off(call, record, score, why)
  local since = tonumber(record.since) or score - (tonumber(record.interval) or 1)
  rcall('HSET', record.key, 'trouble', why, 'since', format('%.17g', since))
  local again = Ticks.no_tick(call.now + AGAIN)
  rcall('ZADD', call.keys.schedules, format('%.17g', again), record.jid)
  return 0
end

-- -> 1 if a job was put, otherwise 0
local function carry_out(call, tick)
  local score = tonumber(rcall('ZSCORE', call.keys.schedules, tick.id) or nil)
  local record = score == tick.score and (tick.time or 0) <= call.now and read(call, tick.id)
  if not record or not record.queue then
    return 0
  end
  local number, why = 0, tick.trouble
  if not why and tick.time then
    number, why = put(call, record, tick)
  end
  if why then
    return put_off(call, record, score, why)
  end
  rcall('HDEL', record.key, 'since', 'trouble')
  if number > 0 then
    rcall('HSET', record.key, 'count', record.count, 'last', record.last)
  end
  rcall('ZADD', call.keys.schedules, format('%.17g', tick.next), tick.id)
  return number
end

local function parse(call, args, i)
  local tick = { id = Arguments.given(call, 'id', args[i]) }
  tick.score = Arguments.number(call, 'score', args[i + 1])
  local time, missed_at, trouble = args[i + 2], args[i + 3], args[i + 5]
  if trouble ~= '' then
    tick.trouble = Errors.cut(trouble, LONGEST_TROUBLE)
    return tick
  end
  tick.time = time ~= '' and Arguments.number(call, 'tick', time) or nil
  tick.missed_at = missed_at ~= '' and Arguments.number(call, 'missed_at', missed_at) or nil
  tick.next = Arguments.number(call, 'next', args[i + 4])
  if tick.next <= (tick.time or -1) then
    Errors.argument(call, 'next must come after the tick')
  end
  return tick
end

-- schedule.tick (id score tick missed_at next trouble)... -> 1 for each that put a job, otherwise 0. `score` is that of
-- schedule.due: what has changed since is left alone. `tick` is '' if none puts a job; by `missed_at` it is too late for
-- that; `next` is when the schedule goes on; `trouble` says why that cannot be computed, '' if it can.
function Ticks.tick(call, args, i)
  local given, ticks = #args - i + 1, {}
  if given % 6 ~= 0 then
    Errors.argument(call, 'id, score, tick, missed_at, next and trouble of each wanted')
  end
  Arguments.bounded(call, given / 6)
  for n = i, #args, 6 do
    ticks[#ticks + 1] = parse(call, args, n)
  end
  for n, tick in ipairs(ticks) do
    ticks[n] = carry_out(call, tick)
  end
  return ticks
end
