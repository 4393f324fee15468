-- The lock of a running job: who holds it, renewing it, and what becomes of one that has expired.

local rcall = redis.call

-- What is read of a run that ends.
local RUN = {
  'state',
  'worker',
  'queue',
  'token',
  'time',
  'retries',
  'remaining',
  'priority',
  'grace',
  'progress',
  'put',
  'noted',
  'unknown',
  'more',
}

-- Does the caller hold the job? Its token shows that; of old clients the worker's name.
local function holds(call, proof, run)
  if run.state ~= 'running' then
    return false
  elseif call.old then
    return proof == run.worker
  end
  return proof == run.token
end

-- Why it does not. -> code, text
local function refusal(call, run)
  local about = call.command .. '(): Job ' .. Errors.name(run.jid)
  if not run.state or not run.worker and run.state == 'running' then
    return 'NOJOB', about .. ' does not exist'
  elseif run.state ~= 'running' then
    local state = Job.state_now(call, run.jid, run.queue, run.state)
    return 'LOCKLOST', about .. ' is not currently running: ' .. state
  end
  local other = call.old and ': ' .. Errors.name(run.worker) or ''
  return 'LOCKLOST', about .. ' was given out to another worker' .. other
end

-- Reads what is known of a run. (No field but the state has to be there.)
function Lock.read(call, jid)
  local name = Keys.job(call, jid)
  local values = rcall('HMGET', name, unpack(RUN))
  return {
    jid = jid,
    key = name,
    state = values[1] or nil,
    worker = values[2] or nil,
    queue = values[3] or '',
    token = values[4] or nil,
    time = values[5] or nil,
    retries = Times.finite(values[6], 0),
    remaining = Times.finite(values[7], 0),
    priority = Times.finite(values[8], 0),
    grace = values[9] or nil,
    progress = values[10] or nil,
    put = values[11] or nil,
    noted = values[12] or nil,
    unknown = values[13] or nil,
    more = values[14] or nil,
  }
end

local function with_features(call, run)
  local letters = Features.letters(call, run.more)
  if letters then
    run.letters = letters
    Features.read(run)
  end
  return run
end

-- The run of a job, if `proof` shows that the caller holds it. -> nil, code, text if not
function Lock.claim(call, jid, proof)
  local run = Lock.read(call, jid)
  if not holds(call, proof, run) then
    return nil, refusal(call, run)
  end
  return with_features(call, run)
end

-- The same, or an error.
function Lock.holder(call, jid, proof)
  Arguments.name(call, 'jid', jid)
  Arguments.proof(call, proof)
  local run, code, text = Lock.claim(call, jid, proof)
  if not run then
    Errors.raise(code, text)
  end
  return run
end

-- Renews a lock. The next loss of it gets another notice.
function Lock.extend(call, run, expires)
  rcall('HSET', run.key, 'expires', expires)
  if run.grace then
    rcall('HDEL', run.key, 'grace')
  end
  rcall('ZADD', Keys.held(call, run.worker), expires, run.jid)
  if run.queue ~= '' then -- a damaged record names none
    rcall('ZADD', Keys.queue(call, run.queue).locks, expires, run.jid)
  end
  if run.letters then
    Features.at('renewed', call, run, tonumber(expires))
  end
end

-- heartbeat jid worker [data] -> the new expiry
function Lock.heartbeat(call, args, i)
  local jid, proof, data = args[i], args[i + 1], args[i + 2]
  if data then
    Arguments.json(call, 'data', data)
  end
  local run = Lock.holder(call, jid, proof)
  local expires = Call.later(call, Config.heartbeat(call, run.queue))
  if data then
    rcall('HSET', run.key, 'data', data)
  end
  Lock.extend(call, run, expires)
  rcall('ZADD', call.keys.workers, call.text, run.worker)
  return tonumber(expires)
end

-- Locks looked at by one call, beyond those that it frees: whose loss is only noticed costs no place.
local LOOKED = 250

-- The first loss of a lock is a notice to its owner, who has the grace period to end the job.
local function notice(call, run, queue, grace)
  Job.tell_trackers(call, 'stalled', run.jid)
  run.grace = '1'
  rcall('HSET', run.key, 'grace', '1')
  Finish.note(call, run, 'timed-out')
  Events.lock_lost(call, run.jid, run.worker)
  rcall('ZADD', queue.locks, Times.text(call.now + grace), run.jid)
  if run.letters then -- The grace begins now, however late it is: what it holds lasts as long.
    Features.at('renewed', call, run, call.now)
  end
  Stats.count(call, queue.name, 'retries', 1)
  if grace > 0 then
    Wake.due(call, queue, call.now + grace)
  end
end

-- The run of a job in the locks; false if it does not run.
local function read_running(call, jid)
  local run = Lock.read(call, jid)
  if run.state == 'running' then
    return with_features(call, run)
  elseif run.state and not Job.is_state(run.state) then
    error('the state of the job is ' .. Errors.value(run.state))
  end
  return false
end

-- Ends the run under an expired lock, or gives notice first. -> whether the job may be handed out again
local function expire(call, jid, queue, grace)
  local run = Corrupt.guard(call, jid, queue, read_running)
  if not run then
    rcall('ZREM', queue.locks, jid)
    return false
  end
  Job.unhold(call, jid, run.worker)
  if run.grace ~= '1' then
    notice(call, run, queue, grace)
    if grace > 0 then
      return false
    end
  end
  return Finish.lost(call, run, queue)
end

-- -> up to `count` jids of a queue whose locks have expired and that may be handed out again
function Lock.expired(call, queue, count)
  local freed = {}
  local most = count + (call.old and 0 or LOOKED)
  local jids = rcall('ZRANGEBYSCORE', queue.locks, '-inf', call.text, 'LIMIT', '0', most)
  if #jids == 0 then
    return freed
  end
  local grace = Config.number(call, 'grace-period')
  for _, jid in ipairs(jids) do
    if #freed == count or Finish.has_told_enough(call) then
      break
    end
    if expire(call, jid, queue, grace) then
      freed[#freed + 1] = jid
    end
  end
  return freed
end
