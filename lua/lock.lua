-- The lock of a running job: who holds it, renewing it, taking it away.

-- What ends a run: the fields that a completion by its token needs, then those of every other end.
local ENDING = { 'worker', 'state', 'queue', 'token', 'time', 'retries', 'rare', 'waited' }
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
  'waited',
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
      command .. '(): Job ' .. Errors.name(jid) .. ' is not currently running: ' .. Place.state_now(
        jid,
        values[3],
        state
      )
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
  values[3] = values[3] or ''
  return name, values
end

-- The same as a table by name; `bad` is the field that keeps the job from being run again, because it
-- cannot be read, and `bad_text` what stands there. -> nil, code, text if refused
function Lock.claim(command, jid, proof)
  local name, values, code, text = Lock.read(command, jid, proof)
  if code then
    return nil, code, text
  end
  local bad, bad_text = Record.first_bad(ENDING_OTHERWISE, values)
  if values[3] == '' then
    bad, bad_text = 'queue', ''
  end
  return {
    jid = jid,
    key = name,
    bad = bad,
    bad_text = bad_text,
    worker = values[1],
    queue = values[3],
    time = Record.read('time', values[5], scope.now),
    retries = Record.text('retries', values[6], '0'),
    marked = values[7] or values[8],
    rare = values[9] or nil,
    remaining = Record.read('remaining', values[10], 0),
    priority = Record.read('priority', values[11], 0),
    crashes = Record.read('crashes', values[12], 0),
    waited = values[13] or nil,
  }
end

-- The run of a claimed job ends: counts that it was started, if it was. Then the job lay for `held`
-- seconds in its worker's hands before; nobody says for how long if it only `runs` for certain.
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
