-- Handing out jobs: expired locks first, then what fell due, then the top of the work.
local Texts, Absence, Arguments, Config, Events, History, Place, Job, Outcome, Stats, Samples =
  Qless.Texts,
  Qless.Absence,
  Qless.Arguments,
  Qless.Config,
  Qless.Events,
  Qless.History,
  Qless.Place,
  Qless.Job,
  Qless.Outcome,
  Qless.Stats,
  Qless.Samples
local SortedSet, Clock, Wake, Unique, Dependencies, Queue, Recurring, scope, key =
  Qless.SortedSet,
  Qless.Clock,
  Qless.Wake,
  Qless.Unique,
  Qless.Dependencies,
  Qless.Queue,
  Qless.Recurring,
  Qless.scope,
  Qless.key

local Pop = {}
Qless.Pop = Pop

local call, text_of = redis.call, Arguments.text_of

-- What a worker is told of a job, after its jid and queue; `time` and `state` are for us.
local FIELDS =
  { 'klass', 'data', 'retries', 'remaining', 'priority', 'tags', 'context', 'time', 'state', 'rare' }

-- The first loss of a lock is a notice to its owner, who has the grace period to end the job.
local function notice(jid, queue, worker, grace, rare)
  if Job.is_tracked(jid) then
    Events.tracked('stalled', jid)
  end
  History.add(jid, 'timed-out')
  call('HSET', key.job(jid), 'grace', 1)
  if scope.live and not rare then
    call('HSET', key.job(jid), 'rare', '0')
  end
  Events.lock_lost(jid, worker)
  call('ZADD', key.place(queue, 'locks'), scope.now + grace, jid)
  Stats.count(queue, 'retries', 1)
  if grace > 0 then
    Wake.due(queue, scope.now + grace)
  end
end

local function exhausted(jid, queue, worker, rare)
  local group = 'failed-retries-' .. queue
  local message = 'Job exhausted retries in queue "' .. queue .. '"'
  call('ZREM', key.place(queue, 'locks'), jid)
  call('HSET', key.job(jid), 'remaining', -1)
  History.failed(jid, group)
  Outcome.write_failed({ jid = jid, queue = queue, marked = true, rare = rare }, group, message, scope.now)
  if Job.is_tracked(jid) then
    Events.tracked('failed', jid)
  end
  Events.failed(jid, group, message, worker)
end

-- Locks looked at by one pop, beyond those that it frees: whose loss is only noticed costs no place.
local LOOKED = 250

-- Ends the run under an expired lock, or gives notice first. -> whether the job may be handed out
local function expire(jid, queue, locks, grace)
  local record = call('HMGET', key.job(jid), 'worker', 'grace', 'remaining', 'state', 'rare')
  local worker = record[1] or ''
  if record[4] ~= 'running' then
    call('ZREM', locks, jid)
    return false
  end
  Job.unhold(jid, worker)
  local noticed = record[2] == '1'
  if not noticed then
    notice(jid, queue, worker, grace, record[5])
    if grace > 0 then
      return false
    end
  end
  local remaining = (tonumber(record[3]) or 0) - 1
  if remaining < 0 then
    exhausted(jid, queue, worker, record[5])
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

-- Jobs that have missed their deadlines and were found by this call; it finds so many at most.
local late = 0
local MOST_LATE = 1000

function Pop.reset()
  late = 0
end

-- What few jobs have to be asked before they start. -> whether it is too late for that
local function is_late(jid)
  local record = call('HMGET', key.job(jid), 'deadline', 'unique')
  if record[1] and tonumber(record[1]) <= scope.now then
    return true
  end
  Unique.started(jid, record[2])
  return false
end

-- The job was to start before, and does not. It is in no place any longer.
local function fail_late(jid, queue, state)
  local since = scope.now - tonumber(call('HGET', key.job(jid), 'deadline'))
  local message = 'Its turn came '
    .. string.format('%.1f', since)
    .. ' seconds after the time when it expired'
  late, scope.touched = late + 1, true
  Place.leave(jid, queue)
  call('HDEL', key.job(jid), 'token')
  History.failed(jid, 'expired')
  Outcome.write_failed(
    { jid = jid, queue = queue, rare = true, state = state },
    'expired',
    message,
    math.floor(scope.now)
  )
  if Job.is_tracked(jid) then
    Events.tracked('failed', jid)
  end
  Events.failed(jid, 'expired', message, '')
end

-- Hands over the jids whose records say that they may run; others are dropped. `visit` sees each:
-- its jid, the values of FIELDS, its token, when its lock expires (as text). -> how many; those that
-- are too late, jid, state …, or nil
local function hand_over(queue, worker, jids, visit)
  local now, time, expires = scope.now, Texts.time(), Texts.later(Config.heartbeat(queue))
  local tracked, taken, too_late = Job.tracked_among(jids), {}, nil
  for n = 1, #jids do
    local jid = jids[n]
    local name = key.job(jid)
    local values = call('HMGET', name, unpack(FIELDS))
    if values[10] == '1' and RUNNABLE[values[9]] and is_late(jid) then
      too_late = too_late or {}
      too_late[#too_late + 1] = { jid, values[9] }
    elseif RUNNABLE[values[9]] then
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
  return #taken, too_late
end

-- Only when the others have left their places: what depends on these may become ready.
local function fail_all_late(queue, too_late)
  for _, job in ipairs(too_late) do
    fail_late(job[1], queue, job[2])
  end
end

-- Takes up to `count` jobs off the top of the work. -> how many
local function take_work(queue, worker, count, visit)
  local work, taken = key.place(queue, 'work'), 0
  while taken < count and late < MOST_LATE do
    local jids = call('ZREVRANGE', work, '0', text_of(count - taken - 1))
    if #jids == 0 then
      break
    end
    local handed, too_late = hand_over(queue, worker, jids, visit)
    taken = taken + handed
    call('ZREMRANGEBYRANK', work, '-' .. text_of(#jids), '-1') -- the first to go are the last by score
    if too_late then
      fail_all_late(queue, too_late)
    end
  end
  if late >= MOST_LATE and taken < count then
    Wake.ready(queue, 1) -- There may be more behind them: somebody has to look again.
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
    local too_late
    taken, too_late = hand_over(queue, worker, freed, visit)
    if too_late then
      fail_all_late(queue, too_late)
    end
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
