-- Handing out jobs: expired locks first, then what fell due, then the top of the work.
local Texts, Absence, Arguments, Config, Events, History, Job, Outcome, Stats, Samples =
  Qless.Texts,
  Qless.Absence,
  Qless.Arguments,
  Qless.Config,
  Qless.Events,
  Qless.History,
  Qless.Job,
  Qless.Outcome,
  Qless.Stats,
  Qless.Samples
local SortedSet, Clock, Wake, Dependencies, Queue, Recurring, scope, key =
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

local call, text_of = redis.call, Arguments.text_of

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

-- Locks looked at by one pop, beyond those that it frees: whose loss is only noticed costs no place.
local LOOKED = 250

-- Ends the run under an expired lock, or gives notice first. -> whether the job may be handed out
local function expire(jid, queue, locks, grace)
  local record = call('HMGET', key.job(jid), 'worker', 'grace', 'remaining', 'state')
  local worker = record[1] or ''
  if record[4] ~= 'running' then
    call('ZREM', locks, jid)
    return false
  end
  Job.unhold(jid, worker)
  local noticed = record[2] == '1'
  if not noticed then
    notice(jid, queue, worker, grace)
    if grace > 0 then
      return false
    end
  end
  local remaining = (tonumber(record[3]) or 0) - 1
  if remaining < 0 then
    exhausted(jid, queue, worker)
    return false
  end
  call('HSET', key.job(jid), 'remaining', remaining)
  call('HDEL', key.job(jid), 'grace', 'progress')
  return true
end

-- -> up to `count` jids whose locks have expired and that may be handed out again
local function expired(queue, count)
  local locks, freed = key.place(queue, 'locks'), {}
  if call('ZCOUNT', locks, '-inf', Texts.now()) == 0 then
    return freed -- mostly, and cheaper to ask
  end
  local jids =
    call('ZRANGEBYSCORE', locks, '-inf', Texts.now(), 'LIMIT', '0', count + (scope.live and LOOKED or 0))
  local grace = Config.number('grace-period')
  for _, jid in ipairs(jids) do
    if #freed == count then
      break
    end
    if expire(jid, queue, locks, grace) then
      freed[#freed + 1] = jid
    end
  end
  return freed
end

local RUNNABLE = { waiting = true, stalled = true, running = true }

-- Hands over the jids whose records say that they may run; others are dropped. `visit` sees
-- each: its jid, the values of FIELDS, its token, when its lock expires (as text). -> how many
local function hand_over(queue, worker, jids, visit)
  local now, time, expires = scope.now, Texts.time(), Texts.later(Config.heartbeat(queue))
  local tracked, taken = Job.tracked_among(jids), {}
  for n = 1, #jids do
    local jid = jids[n]
    local name = key.job(jid)
    local values = call('HMGET', name, unpack(FIELDS))
    if RUNNABLE[values[9]] then
      local token = ''
      History.popped(jid, worker)
      Samples.add('wait', queue, now - (tonumber(values[8]) or now))
      if scope.live then
        token = Clock.draw()
        call(
          'HSET',
          name,
          'state',
          'running',
          'worker',
          worker,
          'expires',
          expires,
          'time',
          time,
          'token',
          token
        )
      else
        call('HSET', name, 'state', 'running', 'worker', worker, 'expires', expires, 'time', time)
      end
      if tracked[jid] then
        Events.tracked('popped', jid)
      end
      taken[#taken + 1] = jid
      visit(jid, values, token, expires)
    end
  end
  SortedSet.add(key.held(worker), expires, taken)
  SortedSet.add(key.place(queue, 'locks'), expires, taken)
  return #taken
end

-- Takes up to `count` jobs off the top of the work. -> how many
local function take_work(queue, worker, count, visit)
  local work, taken = key.place(queue, 'work'), 0
  while taken < count do
    local jids = call('ZREVRANGE', work, '0', text_of(count - taken - 1))
    if #jids == 0 then
      break
    end
    taken = taken + hand_over(queue, worker, jids, visit)
    call('ZREMRANGEBYRANK', work, '-' .. text_of(#jids), '-1') -- the first to go are the last by score
  end
  return taken
end

-- How many of `count` jobs the queue may still hand out.
local function allowed(queue, count)
  local limit = Config.concurrency(queue)
  if limit > 0 then
    local running = call('ZCOUNT', key.place(queue, 'locks'), Texts.now(), '+inf')
    return math.min(count, math.max(0, limit - running))
  end
  return count
end

-- Hands up to `count` jobs of a queue to a worker; `visit` sees each. -> how many
function Pop.take(queue, worker, count, visit)
  count = allowed(queue, count)
  if count <= 0 then
    return 0
  end
  local taken = 0
  local freed = expired(queue, count)
  if #freed > 0 then
    taken = hand_over(queue, worker, freed, visit)
  end
  if taken < count then
    Recurring.spawn_due(queue, count - taken)
    Queue.move_due(queue, count - taken)
    taken = taken + take_work(queue, worker, count - taken, visit)
  end
  if taken > 0 and scope.live then
    Wake.taken(queue)
  end
  return taken
end

function Pop.is_paused(queue)
  local name = key.paused_queues()
  return not Absence.is_absent(name) and call('SISMEMBER', name, queue) == 1
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
  Pop.take(queue, worker, count, function(jid)
    jids[#jids + 1] = jid
  end)
  Qless.Replies.shorten('pop', jids)
  return Job.show_all(jids)
end
