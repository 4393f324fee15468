-- Detached jobs, whose processes outlive the worker that has started them: who watches a run, and its output.

local rcall = redis.call

local KEPT = 86400 -- seconds, since the run was last told about

-- detached.keep worker jid token told -> for how many seconds the lock holds, which it renews
-- From now on the worker holds the job, if another one did before. `told` is a JSON object: host, pid, when the run
-- began, the end of its output.
function Detached.keep(call, args, i)
  local worker, told = Arguments.name(call, 'worker', args[i]), args[i + 3]
  Arguments.object(call, 'told', told)
  local run = Lock.holder(call, args[i + 1], args[i + 2])
  if run.worker ~= worker then
    Job.unhold(call, run.jid, run.worker)
    rcall('HSET', run.key, 'worker', worker)
    run.worker = worker
  end
  local seconds = Config.heartbeat(call, run.queue)
  Lock.extend(call, run, Call.later(call, seconds))
  rcall('ZADD', call.keys.workers, call.text, worker)
  rcall('SET', Keys.detached(call, run.jid), told, 'EX', KEPT)
  return tostring(seconds)
end

-- detached.get jid -> what is kept of the job's latest run, JSON
function Detached.get(call, args, i)
  return rcall('GET', Keys.detached(call, Arguments.name(call, 'jid', args[i])))
end
