-- Detached jobs, whose processes outlive the worker that has started them: who watches a run, and its output.

local KEPT = 86400 -- seconds, since the run was last told of

-- detached.keep worker jid token told -> for how many seconds the lock holds, which it renews
-- From now on the worker holds the job, if another one did before. `told` is a JSON object: host, pid, when the
-- run began, the end of its output.
function Detached.keep(args, i)
  local worker, told = Arguments.name('detached.keep', 'worker', args[i]), args[i + 3]
  Arguments.object('detached.keep', 'told', told)
  local job = Lock.holder('detached.keep', args[i + 1], args[i + 2])
  if job.worker ~= worker then
    Job.unhold(job.jid, job.worker)
    call('HSET', key.job(job.jid), 'worker', worker)
    job.worker = worker
  end
  local seconds = Config.heartbeat(job.queue)
  Lock.extend(job, NumberFormat.later(seconds))
  call('ZADD', key.workers(), scope.now, worker)
  call('SET', key.detached(job.jid), told, 'EX', KEPT)
  return tostring(seconds)
end

-- detached.get jid -> what is kept of the job's latest run, JSON
function Detached.get(args, i)
  return call('GET', key.detached(Arguments.name('detached.get', 'jid', args[i])))
end

-- forget jid: deletes an ended job with its result, its failure and its output. -> whether there was anything
function Detached.forget(args, i)
  local jid = Arguments.name('forget', 'jid', args[i])
  local state, queue = Hash.values(key.job(jid), 'state', 'queue')
  if state == 'failed' then
    Job.cancel({ jid }, 1)
    Canceled.forget(jid)
  elseif state == 'complete' then
    call('ZREM', key.completed(), jid)
    Job.erase(jid, call('HGET', key.job(jid), 'tags'))
  elseif state then
    local now = Places.state_now(jid, queue or '', state)
    Errors.raise('STATE', 'forget(): Job ' .. Errors.name(jid) .. ' has not ended: ' .. now)
  end
  return (call('DEL', key.result(jid), key.detached(jid)) > 0 or state) and 1 or 0
end
