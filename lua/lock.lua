-- The lock of a running job: who holds it, renewing it, taking it away.

-- What is read of a run that ends.
local ENDING = {
  'worker',
  'state',
  'queue',
  'token',
  'time',
  'retries',
  'grace',
  'progress',
  'rare',
  'remaining',
  'priority',
  'crashes',
  'waited',
  'entity',
}

-- Does the caller hold the job with this state, of this worker and token? (The token is false if a foreign
-- script has handed it out.)
function Lock.holds(proof, state, worker, token)
  return worker and state == 'running' and proof == token
end

-- How the worker that holds a job is named to another one.
function Lock.another()
  return 'another worker'
end

-- Why it does not. -> code, text
local function refusal(command, jid)
  local worker, state, queue = Hash.values(key.job(jid), 'worker', 'state', 'queue')
  local about = command .. '(): Job ' .. Errors.name(jid)
  if not worker then
    return 'NOJOB', about .. ' does not exist'
  elseif state ~= 'running' then
    return 'LOCKLOST', about .. ' is not currently running: ' .. Places.state_now(jid, queue, state)
  end
  return 'LOCKLOST', about .. ' was given out to ' .. Lock.another(worker)
end

-- What a completion by its token has to know of a job: worker, queue, time, retries, rare, waited, put. -> nil, code, text
-- if the token is not that of the run. (All jobs come here, so it reads no more, and makes no table.)
function Lock.completed(jid, token)
  local worker, state, queue, its_token, time, retries, rare, waited, put =
    Hash.values(key.job(jid), 'worker', 'state', 'queue', 'token', 'time', 'retries', 'rare', 'waited', 'put')
  if not Lock.holds(token, state, worker, its_token) then
    return nil, refusal('settle', jid)
  end
  return worker, queue or '', time, retries, rare, waited, put
end

-- The running job, if `proof` shows that the caller holds it. `bad` is the field that keeps the job from being
-- run again, because it cannot be read, and `bad_text` what stands there. -> nil, code, text if refused
function Lock.claim(command, jid, proof)
  local name = key.job(jid)
  local texts = call('HMGET', name, unpack(ENDING))
  local worker, state, queue, token, time, retries, grace, progress, rare, remaining, priority, crashes, waited, entity =
    unpack(texts)
  if not Lock.holds(proof, state, worker, token) then
    return nil, refusal(command, jid)
  end
  local bad, bad_text = Record.first_bad(ENDING, texts)
  if (queue or '') == '' then
    bad, bad_text = 'queue', ''
  end
  return {
    jid = jid,
    key = name,
    bad = bad,
    bad_text = bad_text,
    worker = worker,
    queue = queue or '',
    time = Record.read('time', time, scope.now),
    retries = Record.text('retries', retries, '0'),
    marked = grace or progress,
    rare = rare or nil,
    remaining = Record.read('remaining', remaining, 0),
    priority = Record.read('priority', priority, 0),
    crashes = Record.read('crashes', crashes, 0),
    waited = waited or nil,
    entity = entity or nil,
  }
end

-- The run of a claimed job ends: counts that it was started, if it was. Then the job lay for `held`
-- seconds in its worker's hands before; how long is not known if it only `runs` for certain.
function Lock.count_start(job, held, runs)
  job.held = held or Samples.held(job.waited)
  if job.held or runs then
    job.start = Samples.started(job.queue, job.time, job.waited, job.held or 0)
  end
end

function Lock.holder(command, jid, proof)
  Arguments.name(command, 'jid', jid)
  Arguments.proof(command, proof)
  local job, code, text = Lock.claim(command, jid, proof)
  if not job then
    Errors.raise(code, text)
  end
  return job
end

-- Takes the job out of the hands of its worker and out of the running ones.
function Lock.release(job)
  call('ZREM', key.place(job.queue, 'locks'), job.jid)
  Job.unhold(job.jid, job.worker)
  Wake.freed(job.queue)
end

-- heartbeat jid worker [data] -> the new expiry
function Lock.heartbeat(args, i)
  local jid, proof, data = args[i], args[i + 1], args[i + 2]
  if data then
    Arguments.json('heartbeat', 'data', data)
  end
  local job = Lock.holder('heartbeat', jid, proof)
  local expires = scope.now + Config.heartbeat(job.queue)
  if data then
    call('HSET', key.job(jid), 'data', data)
  end
  Lock.extend(job, expires)
  call('ZADD', key.workers(), scope.now, job.worker)
  return expires
end

-- Renews a lock. The next loss of it gets another notice.
function Lock.extend(job, expires)
  call('HSET', key.job(job.jid), 'expires', expires)
  call('HDEL', key.job(job.jid), 'grace')
  call('ZADD', key.held(job.worker), expires, job.jid)
  if job.queue ~= '' then -- a damaged record names none
    call('ZADD', key.place(job.queue, 'locks'), expires, job.jid)
  end
end
