-- Handing out jobs: expired locks first, then what fell due, then the top of the work.

local text_of = Arguments.text_of

-- What a worker is told of a job, after its jid and queue; `time` and `state` are for us.
local FIELDS =
  { 'klass', 'data', 'retries', 'remaining', 'priority', 'tags', 'context', 'time', 'state', 'rare' }

-- The first loss of a lock is a notice to its owner, who has the grace period to end the job.
local function notice(jid, queue, worker, grace, rare)
  if Job.is_tracked(jid) then
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

local function exhausted(jid, queue, worker, rare)
  local group = 'failed-retries-' .. queue
  local message = 'Job exhausted retries in queue "' .. queue .. '"'
  call('ZREM', key.place(queue, 'locks'), jid)
  call('HSET', key.job(jid), 'remaining', -1)
  History.failed(jid, group, nil, message)
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
  local record =
    call('HMGET', key.job(jid), 'worker', 'grace', 'remaining', 'state', 'rare', 'time', 'waited')
  local worker = record[1] or ''
  if record[4] ~= 'running' then
    if not Corrupt.look_at_state(jid, record[4], queue) then
      call('ZREM', locks, jid)
    end
    return false
  elseif Record.is_bad('remaining', record[3]) then
    Corrupt.fail(jid, 'remaining', record[3], queue)
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
  History.ended(jid, 'lost', { worker = worker, held = Samples.held(record[7]) })
  Samples.taken_away(queue, record[6], record[7])
  local remaining = Record.read('remaining', record[3], 0) - 1
  if remaining < 0 then
    exhausted(jid, queue, worker, record[5])
    return false
  end
  call('HSET', key.job(jid), 'remaining', remaining)
  Place.ready_since(jid, scope.now)
  call('HDEL', key.job(jid), 'grace', 'progress', 'waited')
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
local MOST_LATE = 1000

local function late()
  return scope.late or 0
end

local FEW_HAVE = { 'deadline', 'unique', 'spawners' }

-- What few jobs have to be asked before they start. -> whether it is too late for that; or the name and
-- the text of a field that cannot be read
local function is_late(jid)
  local record = call('HMGET', key.job(jid), unpack(FEW_HAVE))
  local field, text = Record.first_bad(FEW_HAVE, record)
  if field then
    return true, field, text
  elseif record[1] and Record.read('deadline', record[1]) <= scope.now then
    return true
  end
  Unique.started(jid, record[2])
  return false
end

-- Why a job that was met among those to be handed out cannot be: the name and the text of a field. Nothing
-- if it has no record, or has ended.
local function unreadable(values)
  if values[9] and Record.is_state(values[9]) then
    if not RUNNABLE[values[9]] then
      return nil
    end
    for n = 3, 5 do
      values[n] = values[n] or ''
    end
    return Record.first_bad(FIELDS, values)
  elseif values[1] or values[2] or values[9] then
    return 'state', values[9] or ''
  end
end

-- The job was to start before, and does not. It is in no place any longer.
local function fail_late(jid, queue, state)
  local since = scope.now - Record.read('deadline', call('HGET', key.job(jid), 'deadline'), scope.now)
  local message = 'Its turn came '
    .. string.format('%.1f', since)
    .. ' seconds after the time when it expired'
  scope.late = late() + 1
  Place.leave(jid, queue)
  call('HDEL', key.job(jid), 'token')
  History.failed(jid, 'expired', nil, message)
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
-- its jid, the values of FIELDS, its token, when its lock expires (as text). If they are `reserved`, their
-- worker may start them later and will say when; else they count as started. -> how many; those that are
-- too late, jid, state …, or nil
local function hand_over(queue, worker, jids, visit, reserved)
  local heartbeat = Config.heartbeat(queue)
  local now, time, expires = scope.now, Texts.time(), Texts.later(heartbeat)
  local tracked, taken, too_late = Job.tracked_among(jids), {}, nil
  for n = 1, #jids do
    local jid = jids[n]
    local name = key.job(jid)
    local values = call('HMGET', name, unpack(FIELDS))
    local since = RUNNABLE[values[9]]
      and Record.ready_time(values[3], values[4], values[5], values[6], values[7], values[8], now)
    local late_now, field, text = not since, nil, nil
    if not since then
      field, text = unreadable(values)
      late_now = field ~= nil
    elseif values[10] == '1' then
      late_now, field, text = is_late(jid)
    end
    if late_now then
      too_late = too_late or {}
      too_late[#too_late + 1] = { jid, values[9], field, text }
    elseif since then
      local token = ''
      History.popped(jid, worker)
      if not reserved then
        Samples.add('wait', queue, now - since)
      end
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
          token,
          'waited',
          reserved and Samples.waited(since) or ''
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
  if #taken > 0 then
    Wake.locked(queue, heartbeat)
  end
  return #taken, too_late
end

-- (Or cannot be read.) Only when the others have left their places: what depends on these may become ready.
local function fail_all_late(queue, too_late)
  for _, job in ipairs(too_late) do
    if job[3] then
      scope.late = late() + 1
      Corrupt.fail(job[1], job[3], job[4], queue)
    else
      fail_late(job[1], queue, job[2])
    end
  end
end

-- Takes up to `count` jobs off the top of the work. -> how many
local function take_work(queue, worker, count, visit, reserved)
  local work, taken = key.place(queue, 'work'), 0
  while taken < count and late() < MOST_LATE do
    local jids = call('ZREVRANGE', work, '0', text_of(count - taken - 1))
    if #jids == 0 then
      break
    end
    local handed, too_late = hand_over(queue, worker, jids, visit, reserved)
    taken = taken + handed
    call('ZREMRANGEBYRANK', work, '-' .. text_of(#jids), '-1') -- the first to go are the last by score
    if too_late then
      fail_all_late(queue, too_late)
    end
  end
  if late() >= MOST_LATE and taken < count then
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

-- Has the time of something in this place come? Mostly not, and this is cheaper to ask.
local function is_due(queue, place)
  local name = key.place(queue, place)
  return not Absence.is_absent(name) and call('ZCOUNT', name, '-inf', Texts.now()) > 0
end

-- Hands up to `count` jobs of a queue to a worker; see hand_over. -> how many
function Pop.take(queue, worker, count, visit, reserved)
  count = allowed(queue, count)
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
    if is_due(queue, 'recur') then
      Recurring.spawn_due(queue, count - taken)
    end
    if is_due(queue, 'scheduled') then
      Queue.move_due(queue, count - taken)
    end
    taken = taken + take_work(queue, worker, count - taken, visit, reserved)
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
  local queue = Arguments.name('pop', 'queue', args[i])
  local worker = Arguments.name('pop', 'worker', args[i + 1])
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
