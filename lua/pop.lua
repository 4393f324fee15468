-- Handing out jobs: expired locks first, then what fell due, then the top of the work.

local text_of = Arguments.text_of

-- What decides whether a job may run: its state, then as many as are NEEDED, then the others.
local JUDGED, NEEDED = { 'state', 'retries', 'remaining', 'priority', 'tags', 'context', 'time', 'rare' }, 3

-- What is read of a job whose lock has expired.
local LOCKED = { 'worker', 'grace', 'remaining', 'state', 'rare', 'time', 'waited', 'entity', 'crashes' }

-- The first loss of a lock is a notice to its owner, who has the grace period to end the job.
local function notice(jid, queue, worker, grace, rare)
  if Tracking.is_tracked(jid) then
    Events.tracked('stalled', jid)
  end
  History.ended(jid, 'timed-out', { worker = worker })
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

-- What of a job without retries has to be readable for it to go on in another queue.
local MOVED = { 'retries', 'priority', 'tags', 'context' }

-- A job whose last lock was lost, as Outcome.end_failed takes it.
local function lost(jid, queue, rare, entity)
  local texts = call('HMGET', key.job(jid), unpack(MOVED))
  return {
    jid = jid,
    queue = queue,
    rare = rare,
    entity = entity,
    bad = Record.first_bad(MOVED, texts),
    retries = Record.text('retries', texts[1], '0'),
    priority = Record.read('priority', texts[2], 0),
  }
end

local function exhausted(jid, queue, worker, rare, entity)
  local group = 'failed-retries-' .. queue
  local message = 'Job exhausted retries in queue "' .. queue .. '"'
  if entity then
    group, message = EntityRun.words_of_loss()
  end
  Exhausted.note(jid, group, message, entity)
  call('ZREM', key.place(queue, 'locks'), jid)
  call('HSET', key.job(jid), 'remaining', -1)
  History.failed(jid, group, nil, message)
  if Tracking.is_tracked(jid) then
    Events.tracked('failed', jid)
  end
  Events.failed(jid, group, message, worker)
  Outcome.end_failed(lost(jid, queue, rare, entity), group, message, scope.now)
end

-- Locks looked at by one pop, beyond those that it frees: whose loss is only noticed costs no place.
local LOOKED = 250

-- Ends the run under an expired lock, or gives notice first. -> whether the job may be handed out
local function expire(jid, queue, locks, grace)
  local job = Hash.read(key.job(jid), LOCKED)
  local worker = job.worker or ''
  if job.state ~= 'running' then
    CorruptJobs.look_at_state(jid, job.state, queue)
    call('ZREM', locks, jid)
    return false
  elseif Record.is_bad('remaining', job.remaining) then
    CorruptJobs.fail(jid, 'remaining', job.remaining, queue)
    return false
  end
  Job.unhold(jid, worker)
  if job.grace ~= '1' then
    notice(jid, queue, worker, grace, job.rare)
    if grace > 0 then
      return false
    end
  end
  History.ended(jid, 'lost', { worker = worker, held = Samples.held(job.waited) })
  Samples.taken_away(queue, job.time, job.waited)
  local remaining = Record.read('remaining', job.remaining, 0) - 1
  if job.entity then
    remaining = EntityRun.lost(jid, job.remaining, job.crashes)
  end
  if remaining < 0 then
    exhausted(jid, queue, worker, job.rare, job.entity)
    return false
  end
  call('HSET', key.job(jid), 'remaining', remaining)
  Places.ready_since(jid, scope.now, job.entity)
  call('HDEL', key.job(jid), 'grace', 'progress', 'waited')
  return true
end

-- -> up to `count` jids whose locks have expired and that may be handed out again
local function expired(queue, count)
  local locks, freed = key.place(queue, 'locks'), {}
  if call('ZCOUNT', locks, '-inf', NumberFormat.now()) == 0 then
    return freed -- mostly, and cheaper to ask
  end
  local jids = call(
    'ZRANGEBYSCORE',
    locks,
    '-inf',
    NumberFormat.now(),
    'LIMIT',
    '0',
    count + (scope.live and LOOKED or 0)
  )
  local grace = Config.number('grace-period')
  for _, jid in ipairs(jids) do
    if #freed == count or Exhausted.is_enough() then
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
local MOST_LATE = 1000

local function late()
  return scope.late or 0
end

local FEW_HAVE = {
  'deadline',
  'unique',
  'spawners',
  'limit_key',
  'fair_by',
  'called',
  'holds',
  'entity',
  'batch',
}

-- What few jobs have to be asked before they start. -> whether they may; if not, and it is too late for that, what
-- is to become of it; if not, and nothing else, it stays in its queue: a limit holds it back, or the call hands out
-- enough of entities. `score` is that in the work, and of its record some is known. If it may, the entity
-- that it carries, and how many may run together.
local function may_start(jid, queue, klass, score, expires, reserved, state, priority, time, rare)
  local texts = call('HMGET', key.job(jid), unpack(FEW_HAVE))
  local field, text = Record.first_bad(FEW_HAVE, texts)
  local deadline, unique, _, limit_key, fair_by, called, holds, entity, batch = unpack(texts)
  if field or (deadline and Record.read('deadline', deadline) <= scope.now) then
    return false, { jid = jid, state = state, bad = field, text = text }
  end
  if entity and EntityRun.stays(jid, queue, state, priority, time, reserved) then
    return false
  end
  if limit_key or fair_by or called or LimitSettings.exist() then
    local job = { limit_key = limit_key, fair_by = fair_by, called = called }
    job.rare, job.state, job.priority, job.holds = rare, state, priority, holds
    if not Limits.admit(jid, queue, klass or '', job, score, expires) then
      return false
    end
  end
  Unique.started(jid, unique)
  return true, nil, entity, batch
end

-- Why a job that was met among those to be handed out cannot be: the name and the text of a field. Nothing
-- if it has no record, or has ended.
local function unreadable(jid)
  local texts = call('HMGET', key.job(jid), unpack(JUDGED))
  local state = texts[1]
  if state and Record.is_state(state) then
    if not RUNNABLE[state] then
      return nil
    end
    for n = 2, NEEDED + 1 do
      texts[n] = texts[n] or ''
    end
    return Record.first_bad(JUDGED, texts)
  elseif
    state
    or call('HEXISTS', key.job(jid), 'klass') == 1
    or call('HEXISTS', key.job(jid), 'data') == 1
  then
    return 'state', state or ''
  end
end

-- What a worker is told of a job, in the order of Reserved in the client.
local function told(jid, queue, klass, data, token, retries, remaining, priority, tags, context, expires)
  return {
    jid,
    queue,
    klass or '',
    data or '',
    token or '',
    retries or '',
    remaining or '',
    priority or '',
    tags or '',
    context or '',
    expires or '',
  }
end

local TOLD =
  { 'queue', 'klass', 'data', 'token', 'retries', 'remaining', 'priority', 'tags', 'context', 'expires' }

-- The same of a job that was handed out before. `batch` is for an entity.
function Pop.told(jid, entity, batch)
  local its = told(jid, Hash.values(key.job(jid), unpack(TOLD)))
  if entity then
    its[4], its[12] = EntityRun.data(jid, entity, its[4]), batch or '1'
  end
  return its
end

-- The same, if the job still runs with this token; nil if not.
function Pop.told_again(jid, token)
  local state, its_token, entity, batch = Hash.values(key.job(jid), 'state', 'token', 'entity', 'batch')
  return state == 'running' and its_token == token and Pop.told(jid, entity, batch) or nil
end

-- Writes that the job was given to the worker, until `expires`. -> its token, if it has one
local function start(jid, queue, worker, expires, since, reserved, put)
  local name, time = key.job(jid), NumberFormat.time()
  local unwritten = History.popped(jid, worker, put)
  if not reserved then
    Samples.add('wait', queue, scope.now - since)
  end
  if not scope.live then
    call('HSET', name, 'state', 'running', 'worker', worker, 'expires', expires, 'time', time)
    return nil -- without calls with KEYS there are no tokens
  end
  local token, waited = Clock.draw(), reserved and Samples.waited(since) or ''
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
    token,
    'waited',
    waited,
    'put',
    unwritten
  )
  return token
end

-- How many entities may run together with this one. -> the same, as its worker is told
local function note_batch(batch)
  local number = tonumber(batch) or 1
  scope.batch = number > 1 and number or nil
  return batch or '1'
end

-- Hands one job over, if its record says that it may run. (`limited`: there are limits.) -> whether it was; what is to
-- become of it if it is to fail
local function hand_one(jid, queue, worker, expires, visit, reserved, score, limited)
  local klass, data, retries, remaining, priority, tags, context, time, state, rare, put = Hash.values(
    key.job(jid),
    'klass',
    'data',
    'retries',
    'remaining',
    'priority',
    'tags',
    'context',
    'time',
    'state',
    'rare',
    'put'
  )
  local since = RUNNABLE[state]
    and Record.ready_time(retries, remaining, priority, tags, context, time, scope.now)
  if not since then
    local field, text = unreadable(jid)
    return false, field and { jid = jid, state = state, bad = field, text = text }
  end
  local entity, batch
  if rare == '1' or limited then
    local may, to_fail
    may, to_fail, entity, batch =
      may_start(jid, queue, klass, score, expires, reserved, state, priority, time, rare)
    if not may then
      return false, to_fail
    end
    data = entity and EntityRun.take(jid, entity, data) or data
  end
  local token = start(jid, queue, worker, expires, since, reserved, put)
  local its = reserved
    and told(jid, queue, klass, data, token, retries, remaining, priority, tags, context, expires)
  if entity then
    its[12] = note_batch(batch)
  end
  visit(jid, token, its)
  return true
end

-- Hands over the jobs whose records say that they may run; others are dropped. `visit` sees each: its jid, its token,
-- and what its worker is told of it if the jobs are `reserved`, so that it may start them later and will say when;
-- else they count as started. `popped` has them with their scores in the work. -> how many; those that are to fail,
-- or nil
local function hand_over(queue, worker, jids, visit, reserved, popped)
  local heartbeat = Config.heartbeat(queue)
  local expires, tracked, taken, failing = NumberFormat.later(heartbeat), Tracking.among(jids), {}, nil
  local limited = LimitSettings.exist()
  for n = 1, #jids do
    local jid = jids[n]
    local score = popped and popped[2 * n]
    local handed, to_fail = hand_one(jid, queue, worker, expires, visit, reserved, score, limited)
    if handed then
      taken[#taken + 1] = jid
      if tracked[jid] then
        Events.tracked('popped', jid)
      end
    elseif to_fail then
      failing = failing or {}
      failing[#failing + 1] = to_fail
    end
  end
  SortedSet.add(key.held(worker), expires, taken)
  SortedSet.add(key.place(queue, 'locks'), expires, taken)
  if scope.entities then
    EntityRun.taken(queue)
  end
  return #taken, failing
end

-- (Or cannot be read.) Only when the others have left their places: what depends on these may become ready.
local function fail_all_late(queue, too_late)
  for _, job in ipairs(too_late) do
    scope.late = late() + 1
    if job.bad then
      CorruptJobs.fail(job.jid, job.bad, job.text, queue)
    else
      local words = 'Its turn came %s seconds after the time when it expired'
      Deadline.fail(job.jid, queue, job.state, words)
    end
  end
end

-- Takes up to `count` jobs off the top of the work. -> how many
local function take_work(queue, worker, count, visit, reserved)
  local work, taken = key.place(queue, 'work'), 0
  while taken < count and late() < MOST_LATE and LimitSettings.left() > 0 and not scope.full do
    local popped, jids = call('ZPOPMAX', work, text_of(math.min(count - taken, LimitSettings.left()))), {}
    if #popped == 0 then
      break
    end
    for n = 1, #popped, 2 do -- each with its score behind it
      jids[#jids + 1] = popped[n]
    end
    local handed, too_late = hand_over(queue, worker, jids, visit, reserved, popped)
    taken = taken + handed
    if too_late then
      fail_all_late(queue, too_late)
    end
  end
  if (late() >= MOST_LATE or LimitSettings.left() <= 0) and taken < count then
    Wake.ready(queue) -- There may be more behind them: a worker has to look again.
  end
  return taken
end

-- How many of `count` jobs the queue may still hand out.
function Pop.allowed(queue, count)
  local limit = Config.concurrency(queue)
  if LimitSettings.exist() then
    count = math.min(count, (Limits.room_of_queue(queue)))
  end
  if limit > 0 then
    local running = call('ZCOUNT', key.place(queue, 'locks'), NumberFormat.now(), '+inf')
    return math.min(count, math.max(0, limit - running))
  end
  return count
end

-- Has the time of something in this place come? Mostly not, and this is cheaper to ask.
local function is_due(queue, place)
  local name = key.place(queue, place)
  return not ExistenceCache.is_absent(name) and call('ZCOUNT', name, '-inf', NumberFormat.now()) > 0
end

-- Have cron schedules put jobs that nobody has been offered?
local function has_ticks(queue)
  local name = key.place(queue, 'ticks')
  return not ExistenceCache.is_absent(name) and call('EXISTS', name) == 1
end

-- So many of those that fell due come into the work before one is chosen, those that have been due longest, however
-- few are taken: among them priorities count. (Without KEYS as many as are taken.)
Pop.most_due = Arguments.most

-- The same with those that have just fallen due. (In the place of those that turn out to be too late others are
-- looked for, as long as one call may.)
local function take_ready(queue, worker, count, visit, reserved)
  local taken, before = 0
  if scope.live and has_ticks(queue) then
    Ticks.serve(queue)
  end
  repeat
    before = late()
    local most = math.max(count - taken, Pop.most_due)
    if is_due(queue, 'recur') then
      Recurring.spawn_due(queue, most)
    end
    if is_due(queue, 'scheduled') then
      Queue.move_due(queue, most)
    end
    taken = taken + take_work(queue, worker, count - taken, visit, reserved)
  until taken == count or late() == before or late() >= MOST_LATE
  return taken
end

-- Hands up to `count` jobs of a queue to a worker; see hand_over. -> how many (of entities that run together: how
-- many runs)
function Pop.take(queue, worker, count, visit, reserved)
  local limited = LimitSettings.exist()
  if limited then
    Limits.look(queue)
  end
  count = Pop.allowed(queue, count)
  if count <= 0 then
    return 0
  end
  local taken = 0
  local freed = expired(queue, count)
  if #freed > 0 then
    local too_late
    taken, too_late = hand_over(queue, worker, freed, visit, reserved)
    if too_late then
      fail_all_late(queue, too_late)
    end
  end
  if taken < count then
    taken = taken + take_ready(queue, worker, count - taken, visit, reserved)
  end
  if scope.entities then
    local further = Pop.allowed(queue, EntityRun.further(taken))
    if further > 0 then
      take_ready(queue, worker, further, visit, reserved)
    end
    scope.batch, scope.full = nil, nil
  end
  if limited then
    Limits.count_of_queue(queue, taken)
  end
  if taken > 0 and scope.live then
    Wake.taken(queue)
  end
  return taken
end

function Pop.is_paused(queue)
  local name = key.paused_queues()
  return not ExistenceCache.is_absent(name) and call('SISMEMBER', name, queue) == 1
end

-- pop queue worker count
function Pop.pop(args, i)
  local queue = Arguments.real_name('pop', 'queue', args[i])
  local worker = Arguments.real_name('pop', 'worker', args[i + 1])
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
  Replies.shorten('pop', jids)
  return Job.show_all(jids)
end
