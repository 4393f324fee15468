-- The lock of a running job: who holds it, renewing it, taking it away.
local Errors, Arguments, Config, Job, scope, key =
  Qless.Errors, Qless.Arguments, Qless.Config, Qless.Job, Qless.scope, Qless.key

local Lock = {}
Qless.Lock = Lock

local call = redis.call

-- What ends a run: the fields that a completion by its token needs, then those of every other end.
local ENDING = { 'worker', 'state', 'queue', 'token', 'time', 'retries', 'rare' }
local ENDING_OTHERWISE = {
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
}

-- Reads the running job's record, if `proof` shows that the caller holds it: the worker's name
-- without KEYS, the token of the pop with them. -> its key, the values, or code and text
function Lock.read(command, jid, proof, completing)
  local name = key.job(jid)
  local values = call('HMGET', name, unpack(completing and ENDING or ENDING_OTHERWISE))
  local worker, state = values[1], values[2]
  if not worker then
    return nil, nil, 'NOJOB', command .. '(): Job ' .. Errors.name(jid) .. ' does not exist'
  end
  if state ~= 'running' then
    return nil,
      nil,
      'LOCKLOST',
      command .. '(): Job ' .. Errors.name(jid) .. ' is not currently running: ' .. state
  end
  if scope.keyed then
    if proof ~= values[4] then
      return nil,
        nil,
        'LOCKLOST',
        command .. '(): Job ' .. Errors.name(jid) .. ' was given out to another worker'
    end
  elseif proof ~= worker then
    return nil,
      nil,
      'LOCKLOST',
      command .. '(): Job ' .. Errors.name(jid) .. ' was given out to another worker: ' .. Errors.name(worker)
  end
  return name, values
end

-- The same as a table by name. -> nil, code, text if refused
function Lock.claim(command, jid, proof)
  local name, values, code, text = Lock.read(command, jid, proof)
  if code then
    return nil, code, text
  end
  return {
    jid = jid,
    key = name,
    worker = values[1],
    queue = values[3],
    time = tonumber(values[5]) or scope.now,
    retries = values[6] or '0',
    marked = values[7] or values[8],
    rare = values[9] or nil,
    remaining = tonumber(values[10]) or 0,
    priority = tonumber(values[11]) or 0,
    crashes = tonumber(values[12]) or 0,
  }
end

function Lock.holder(command, jid, proof)
  Arguments.given(command, 'jid', jid)
  Arguments.given(command, scope.keyed and 'token' or 'worker', proof)
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

-- Renews a lock. The next loss of it gets a notice of its own.
function Lock.extend(job, expires)
  call('HSET', key.job(job.jid), 'expires', expires)
  call('HDEL', key.job(job.jid), 'grace')
  call('ZADD', key.held(job.worker), expires, job.jid)
  call('ZADD', key.place(job.queue, 'locks'), expires, job.jid)
end
