-- Handing out jobs: expired locks first, then what fell due, then the top of the work.

local rcall = redis.call

local JOB = {
  'state',
  'klass',
  'data',
  'retries',
  'remaining',
  'priority',
  'tags',
  'context',
  'time',
  'more',
}

local RUNNABLE = { waiting = true, stalled = true, running = true }

-- Jobs that turn out to be too late, or to be parked, by one call at most.
local MOST_LATE, MOST_PARKED = 1000, 100

-- What fell due comes into the work before one is chosen, so that priorities count among it.
local MOST_DUE = 1000

-- Workers read these: one that is no number must not reach them.
local NUMBERS = { 'retries', 'remaining', 'priority' }

local function check_numbers(job)
  for n = 1, #NUMBERS do
    local text = job[NUMBERS[n]]
    if text and not Times.finite(text) then
      error('its ' .. NUMBERS[n] .. ' is ' .. Errors.value(text))
    end
  end
end

-- What is known of a job that was met among those to be handed out; false if it is not to be.
local function read(call, jid)
  local name = Keys.job(call, jid)
  local values = rcall('HMGET', name, unpack(JOB))
  local job = {
    jid = jid,
    key = name,
    state = values[1] or nil,
    klass = values[2] or nil,
    data = values[3] or nil,
    retries = values[4] or nil,
    remaining = values[5] or nil,
    priority = values[6] or nil,
    tags = values[7] or nil,
    context = values[8] or nil,
    since = values[9] and Times.number(values[9]) or call.now,
    more = values[10] or nil,
    -- what comes later
    queue = nil,
    token = nil,
    expires = nil,
    score = nil,
  }
  if not RUNNABLE[job.state] then
    if job.state and not Job.is_state(job.state) or (not job.state and (job.klass or job.data)) then
      error('the state of the job is ' .. Errors.value(job.state or ''))
    end
    return false
  end
  check_numbers(job)
  Json.stored(job.tags)
  Json.stored(job.context)
  local letters = Features.letters(call, job.more)
  if letters then
    job.letters = letters
    Features.read(job)
  end
  return job
end

-- What a worker gets of a job, in the order of Reserved in the client.
local function reservation(job)
  return {
    job.jid,
    job.queue,
    job.klass or '',
    job.data or '',
    job.token or '',
    job.retries or '5',
    job.remaining or '',
    job.priority or '0',
    job.tags or '{}',
    job.context or '',
    job.expires or '',
    job.together, -- how many may run together, of entities
  }
end

local AGAIN = {
  'queue',
  'klass',
  'data',
  'token',
  'retries',
  'remaining',
  'priority',
  'tags',
  'context',
  'expires',
  'more',
}

-- The same of a job that was handed out before.
function Take.reservation(call, jid)
  local job = { jid = jid, key = Keys.job(call, jid) }
  local values = rcall('HMGET', job.key, unpack(AGAIN))
  for n = 1, #AGAIN do
    job[AGAIN[n]] = values[n] or nil
  end
  job.letters = Features.letters(call, job.more)
  if job.letters then
    Features.read(job)
  end
  if job.entity then
    Entities.restore(call, job)
  end
  return reservation(job)
end

-- The same if the job still runs with this token; nil if not.
function Take.reservation_if_held(call, jid, token)
  local found = rcall('HMGET', Keys.job(call, jid), 'state', 'token')
  return found[1] == 'running' and found[2] == token and Take.reservation(call, jid) or nil
end

-- Writes that the job was given to a worker.
local function start(call, job, want)
  job.token = Call.draw(call)
  Samples.add(call, 'wait', job.queue, call.now - job.since)
  rcall(
    'HSET',
    job.key,
    'state',
    'running',
    'worker',
    want.worker,
    'expires',
    job.expires,
    'time',
    call.text,
    'token',
    job.token
  )
end

-- Hands one job over, if it may run. -> whether it does
local function hand_over(call, jid, score, want)
  local queue = want.queue
  local job = Corrupt.guard(call, jid, queue, read)
  if not job then
    return false
  end
  job.queue, job.expires, job.score = queue.name, want.expires, score
  local letters = job.letters
  if letters then
    local answer, one, two = Features.admit(call, job)
    if answer == 'fail' then
      want.late[#want.late + 1] = { job = job, group = one, message = two }
      return false
    elseif answer == 'park' then
      call.parked = (call.parked or 0) + 1
      Limits.park(call, job, one, two)
      return false
    elseif answer == 'stay' then
      want.full = true
      want.staying[#want.staying + 1] = job
      return false
    end
  end
  start(call, job, want)
  if letters then
    Features.at('started', call, job, want)
  end
  if call.has.T then
    Job.tell_trackers(call, 'popped', jid)
  end
  want.locked[#want.locked + 1] = jid
  want.jobs[#want.jobs + 1] = want.reserve and reservation(job) or jid
  return true
end

-- A job that stays goes back to where it was: first in its queue.
local function put_back(call, want)
  if #want.staying == 0 then
    return
  end
  for n = 1, #want.staying do
    local job = want.staying[n]
    if job.state == 'running' then
      Finish.give_up_lost(call, job, want.queue)
    end
    local priority = job.state == 'stalled' and math.huge or tonumber(job.priority) or 0
    Queue.push(call, want.queue, job.jid, priority, job.since)
  end
  want.staying = {}
end

-- (Only when the others have left their places: what depends on these may become ready.)
local function fail_late(call, want)
  local late = want.late
  want.late = {}
  for n = 1, #late do
    call.late = (call.late or 0) + 1
    Finish.fail_waiting(call, late[n].job, want.queue, late[n].group, late[n].message)
  end
end

-- Writes down the locks of those that were handed over.
local function lock(call, want)
  local locked = want.locked
  if #locked == 1 then -- like most
    rcall('ZADD', want.queue.locks, want.expires, locked[1])
    rcall('ZADD', Keys.held(call, want.worker), want.expires, locked[1])
  elseif #locked > 0 then
    Pieces.add(want.queue.locks, want.expires, locked)
    Pieces.add(Keys.held(call, want.worker), want.expires, locked)
  end
  want.taken = want.taken + #locked
  want.locked = #locked > 0 and {} or locked
end

local function is_enough(call)
  return (call.late or 0) >= MOST_LATE or (call.parked or 0) >= MOST_PARKED
end

-- Takes jobs off the top of the work until there are `count`.
local function take_work(call, count, want)
  local queue, before = want.queue, want.taken
  while want.taken - before < count and not want.full and not is_enough(call) do
    local wanted = math.min(count - (want.taken - before), MOST_PARKED - (call.parked or 0))
    local popped = rcall('ZPOPMAX', queue.work, Times.text(wanted))
    if #popped == 0 then
      return
    end
    for n = 1, #popped, 2 do
      if want.full then
        rcall('ZADD', queue.work, popped[n + 1], popped[n])
      else
        hand_over(call, popped[n], popped[n + 1], want)
      end
    end
    lock(call, want)
    put_back(call, want)
    if #want.late > 0 then
      fail_late(call, want)
    end
  end
  if is_enough(call) then
    Wake.set(call, queue) -- There may be more behind them: a worker has to look again.
  end
end

-- How many jobs the queue may still hand out.
function Take.room(call, queue)
  local most = math.huge
  if call.has.L then
    most = Limits.room_of_queue(call, queue.name)
  end
  if call.has.C then
    local limit = Config.concurrency(call, queue.name)
    if limit > 0 then
      most = math.min(most, limit - rcall('ZCOUNT', queue.locks, call.text, '+inf'))
    end
  end
  return math.max(0, most)
end

local function has_due(call, place)
  return rcall('ZCOUNT', place, '-inf', call.text) > 0
end

-- Takes `count` jobs of those that have become ready.
local function take_ready(call, count, want)
  local queue = want.queue
  local most = math.max(count, call.old and 0 or MOST_DUE)
  if call.has.I and has_due(call, queue.recur) then
    Recurring.spawn_due(call, queue, most)
  end
  if has_due(call, queue.scheduled) then
    Queue.move_due(call, queue, most)
  end
  take_work(call, count, want)
end

-- Hands up to `count` jobs of a queue to a worker. `reserve`: it gets what is known of them, rather than their jids. They
-- are appended to `jobs`. -> how many (of entities that run together: how many runs)
function Take.from(call, queue, count, worker)
  if call.has.Q and rcall('EXISTS', queue.ticks) == 1 then
    Ticks.offered(call, queue)
  end
  if call.has.H then
    Limits.look(call)
  end
  local most = Take.room(call, queue)
  count = math.min(count, most)
  if count <= 0 then
    return 0
  end
  local want = {
    queue = queue,
    worker = worker.name,
    jobs = worker.jobs,
    reserve = worker.reserve,
    expires = Call.later(call, Config.heartbeat(call, queue.name)),
    taken = 0,
    locked = {},
    late = {},
    staying = {},
  }
  for _, jid in ipairs(Lock.expired(call, queue, count)) do
    hand_over(call, jid, nil, want)
  end
  lock(call, want)
  put_back(call, want)
  fail_late(call, want)
  if want.taken < count then
    take_ready(call, count - want.taken, want)
  end
  while
    call.has.H
    and want.taken < count
    and not want.full
    and not is_enough(call)
    and Limits.bring_own(call, queue)
  do
    take_work(call, count - want.taken, want)
  end
  local runs = want.taken
  if want.together then -- a feature lets several jobs run as one
    local further = math.min(most - runs, want.together(runs))
    if further > 0 then
      take_ready(call, further, want)
    end
  end
  if call.has.L and want.taken > 0 then
    Limits.count_of_queue(call, queue.name, want.taken)
  end
  if want.taken > 0 then
    Wake.taken(call, queue, tonumber(want.expires))
  end
  return runs
end

-- pop queue worker count
function Take.pop(call, args, i)
  local queue = Keys.queue(call, Arguments.real_name(call, 'queue', args[i]))
  local worker = Arguments.real_name(call, 'worker', args[i + 1])
  local count = Arguments.count(call, Arguments.given(call, 'count', args[i + 2]))
  if Queue.is_paused(call, queue) then
    return '{}'
  end
  rcall('ZADD', call.keys.workers, call.text, worker)
  if call.has.R then
    Links.carry_on(call)
  end
  local jids = {}
  if count > 0 then
    Take.from(call, queue, count, { name = worker, jobs = jids })
  end
  Call.keep_for_repeat(call, jids)
  return JobView.list(call, jids)
end
