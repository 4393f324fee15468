-- put.once: a running job puts others in several steps, each once, however often it runs. What was put under a name is
-- forgotten when the job ends well.

local rcall = redis.call

PutOnce.fields = { 'once' }

local KEPT = 604800 -- seconds for which it is remembered what a job has put that never ends

-- The jids of a plan that are remembered. (Others may come to want what is spare.)
local function jids_of(plan)
  local jids = {}
  for _, job in ipairs(plan.jobs) do
    if job.spare ~= '1' then
      jids[#jids + 1] = job.given or job.jid
    end
  end
  return jids
end

-- put.once name jid token worker (as put.many) -> as put.many. Those that were put under this name are left alone, no
-- matter what they are by now.
function PutOnce.put(call, args, i)
  local name = Arguments.name(call, 'name', args[i])
  local run = Lock.holder(call, args[i + 1], args[i + 2])
  local asking = Arguments.given(call, 'worker', args[i + 3])
  local produced = Keys.produced(call, name)
  local plan = { jobs = Rows.parse(call, args, i + 4) }
  plan.leaves = function(_, job)
    return rcall('SISMEMBER', produced, job.jid) == 1
  end
  Put.check(call, plan)
  local jids = jids_of(plan)
  local reply = Put.carry_out(call, plan, asking)
  Features.add(call, run, 'o')
  rcall('HSET', run.key, 'once', name)
  if #jids > 0 then
    rcall('SADD', produced, unpack(jids))
    rcall('EXPIRE', produced, KEPT)
  end
  return reply
end

local function forget(call, job)
  if job.once then
    rcall('UNLINK', Keys.produced(call, job.once)) -- there may be very many
  end
end

function PutOnce.ended(call, job)
  if job.state == 'complete' then
    forget(call, job)
  end
end

function PutOnce.gone(call, job, why)
  if why ~= 'expired' and why ~= 'replaced' then
    forget(call, job)
  end
end
