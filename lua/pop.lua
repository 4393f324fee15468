-- Handing out jobs: expired locks first, then what fell due, then the top of the work.
local Arguments, Config, Events, History, Job, Outcome, Stats, Minutes, SortedSet, Clock, Wake, Dependencies, Queue, Recurring, scope, key =
  Qless.Arguments,
  Qless.Config,
  Qless.Events,
  Qless.History,
  Qless.Job,
  Qless.Outcome,
  Qless.Stats,
  Qless.Minutes,
  Qless.SortedSet,
  Qless.Clock,
  Qless.Wake,
  Qless.Dependencies,
  Qless.Queue,
  Qless.Recurring,
  Qless.scope,
  Qless.key

local Pop = {}
Qless.Pop = Pop

local call, format = redis.call, string.format

-- What a worker is told of a job, after its jid and queue; `time` and `state` are for us.
local FIELDS = { 'klass', 'data', 'retries', 'remaining', 'priority', 'tags', 'context', 'time', 'state' }

-- The first loss of a lock is a notice to its owner, who has the grace period to end the job.
local function notice(jid, queue, worker, grace)
  if Job.is_tracked(jid) then
    Events.tracked('stalled', jid)
  end
  History.add(jid, 'timed-out')
  call('HSET', key.job(jid), 'grace', 1)
  Events.lock_lost(jid, worker)
  call('ZADD', key.place(queue, 'locks'), scope.now + grace, jid)
  Stats.count(queue, 'retries', 1)
  if grace > 0 then
    Wake.due(queue, scope.now + grace)
  end
end

local function exhausted(jid, queue, worker)
  local group = 'failed-retries-' .. queue
  local message = 'Job exhausted retries in queue "' .. queue .. '"'
  call('ZREM', key.place(queue, 'locks'), jid)
  call('HSET', key.job(jid), 'remaining', -1)
  History.failed(jid, group)
  Outcome.write_failed({ jid = jid, queue = queue, marked = true }, group, message, scope.now)
  if Job.is_tracked(jid) then
    Events.tracked('failed', jid)
  end
  Events.failed(jid, group, message, worker)
end

-- Looks at up to `count` expired locks. -> the jids that may be handed out again
local function expired(queue, count)
  local locks, freed = key.place(queue, 'locks'), {}
  local jids = call('ZRANGEBYSCORE', locks, '-inf', scope.now, 'LIMIT', 0, count)
  local grace = #jids > 0 and Config.number('grace-period')
  for _, jid in ipairs(jids) do
    local record = call('HMGET', key.job(jid), 'worker', 'grace', 'remaining', 'state')
    local worker = record[1] or ''
    if record[4] ~= 'running' then
      call('ZREM', locks, jid)
    else
      Job.unhold(jid, worker)
      local noticed = record[2] == '1'
      if not noticed then
        notice(jid, queue, worker, grace)
      end
      if noticed or grace <= 0 then
        local remaining = (tonumber(record[3]) or 0) - 1
        if remaining < 0 then
          exhausted(jid, queue, worker)
        else
          call('HSET', key.job(jid), 'remaining', remaining)
          call('HDEL', key.job(jid), 'grace', 'progress')
          freed[#freed + 1] = jid
        end
      end
    end
  end
  return freed
end

-- Reads the records of jids. Those without one, or elsewhere by their state, are dropped.
local function read(queue, jids, jobs, dropped)
  for _, jid in ipairs(jids) do
    local values = call('HMGET', key.job(jid), unpack(FIELDS))
    if values[9] == 'waiting' or values[9] == 'stalled' or values[9] == 'running' then
      values.jid, values.queue = jid, queue
      jobs[#jobs + 1] = values
    else
      dropped[#dropped + 1] = jid
    end
  end
end

-- Takes up to `count` jobs off the top of the work.
local function take_work(queue, count, jobs)
  local work = key.place(queue, 'work')
  while count > 0 do
    local jids, before, dropped = call('ZREVRANGE', work, 0, count - 1), #jobs, {}
    if #jids == 0 then
      return
    end
    read(queue, jids, jobs, dropped)
    SortedSet.remove(work, jids)
    count = #dropped > 0 and count - (#jobs - before) or 0
  end
end

local function hand_over(queue, worker, jobs)
  local expires = scope.now + Config.heartbeat(queue)
  local time, jids = format('%.20f', scope.now), {}
  local tracked
  for n, job in ipairs(jobs) do
    jids[n] = job.jid
  end
  tracked = Job.tracked_among(jids)
  local popped = '{"worker":' .. Events.quote(worker) .. '}'
  for _, job in ipairs(jobs) do
    local jid = job.jid
    History.add(jid, 'popped', popped)
    Stats.sample('wait', queue, scope.now - (tonumber(job[8]) or scope.now))
    job.expires = expires
    if scope.live then
      job.token = Clock.draw()
      call(
        'HSET',
        key.job(jid),
        'state',
        'running',
        'worker',
        worker,
        'expires',
        expires,
        'time',
        time,
        'token',
        job.token
      )
    else
      call('HSET', key.job(jid), 'state', 'running', 'worker', worker, 'expires', expires, 'time', time)
    end
    if tracked[jid] then
      Events.tracked('popped', jid)
    end
  end
  SortedSet.add(key.held(worker), expires, jids)
  SortedSet.add(key.place(queue, 'locks'), expires, jids)
  Minutes.count(queue, 'started', #jobs)
end

-- How many of `count` jobs the queue may still hand out.
local function allowed(queue, count)
  local limit = Config.concurrency(queue)
  if limit > 0 then
    local running = call('ZCOUNT', key.place(queue, 'locks'), scope.now, '+inf')
    return math.min(count, math.max(0, limit - running))
  end
  return count
end

-- Hands up to `count` jobs of a queue to a worker. -> their records
function Pop.take(queue, worker, count)
  count = allowed(queue, count)
  if count <= 0 then
    return {}
  end
  local jobs, dropped = {}, {}
  local freed = expired(queue, count)
  if #freed > 0 then
    read(queue, freed, jobs, dropped)
  end
  if #jobs < count then
    Recurring.spawn_due(queue, count - #jobs)
    Queue.move_due(queue, count - #jobs)
    take_work(queue, count - #jobs, jobs)
  end
  if #jobs > 0 then
    hand_over(queue, worker, jobs)
    if scope.live then
      Wake.taken(queue)
    end
  end
  return jobs
end

function Pop.is_paused(queue)
  return call('SISMEMBER', key.paused_queues(), queue) == 1
end

-- pop queue worker count
function Pop.pop(args, i)
  local queue = Arguments.given('pop', 'queue', args[i])
  local worker = Arguments.given('pop', 'worker', args[i + 1])
  local count = Arguments.count('pop', Arguments.given('pop', 'count', args[i + 2]))
  if Pop.is_paused(queue) then
    return '{}'
  end
  call('ZADD', key.workers(), scope.now, worker)
  Dependencies.carry_on()
  local jids = {}
  for n, job in ipairs(Pop.take(queue, worker, count)) do
    jids[n] = job.jid
  end
  Qless.Replies.shorten('pop', jids)
  return Job.show_all(jids)
end
