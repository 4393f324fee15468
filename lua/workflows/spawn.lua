-- spawn: a running job puts others; its dependents wait for them as well.

-- The jobs of the plan as they are now, or those that stand for them.
local function present(spawner, plan)
  local jobs, seen = {}, { [spawner] = true }
  for _, job in ipairs(plan.jobs) do
    local jid = job.instead or job.jid
    local state = call('HGET', key.job(jid), 'state')
    if state and not seen[jid] then
      seen[jid] = true
      jobs[#jobs + 1] = { jid = jid, state = state }
    end
  end
  return jobs
end

-- spawn jid token worker (as put.many) -> as put.many. What an earlier run of the job has spawned is left alone, whatever
-- it is by now.
function Spawn.spawn(args, i)
  local jid, worker = Arguments.name('spawn', 'jid', args[i]), args[i + 2]
  Lock.holder('spawn', jid, args[i + 1])
  Arguments.asking('spawn', worker)
  local workflow, spawns = Hash.values(key.job(jid), 'workflow', 'spawns')
  local plan = PutMany.plan('spawn', args, i + 3, { spawner = jid, since = Record.number(spawns) })
  if plan.coming[jid] then
    Errors.argument('spawn', 'job ' .. Errors.name(jid) .. ' cannot spawn itself')
  end
  if workflow then
    Workflow.must_go_on('spawn', workflow)
  end
  for _, job in ipairs(plan.jobs) do
    if workflow and not job.workflow then
      job.workflow, job.rare = workflow, true
    end
  end
  local reply = PutMany.carry_out(plan, worker)
  Spawned.adopt(jid, present(jid, plan), spawns)
  return reply
end
