-- Putting a job: a new one, or an old one again (which moves or revives it).

-- A job that has ended takes the key that it had again, or is refused if another one has it.
local function want_key(job)
  local field = job.old.more.unique
  if field and not job.unique and (job.old.state == 'failed' or job.old.state == 'complete') then
    job.keys, job.unique_field, job.regains = Unique.keys(field), field, true
    job.unique = job.keys[1]
  end
end

-- Reads the old record: an existing job may be left alone, as those are that the job `how.spawner` has spawned before.
function Put.look(job, how)
  if job.old == nil then
    -- Mostly there is none, no record of a canceled one, and nothing is tracked: that is quickly asked.
    local canceled, tracked = key.canceled_job(job.jid), key.tracked()
    local is_new = call('EXISTS', key.job(job.jid), canceled, tracked) == 0
    if is_new then
      ExistenceCache.note({ tracked })
    end
    job.old = not is_new and PutStore.read_old(job.jid)
    job.was_canceled = not is_new and call('EXISTS', canceled) == 1
  end
  job.left_alone = job.old
    and (job.absent == '1' or (how and how.since and Spawned.is_known(how.spawner, how.since, job.old)))
  if job.old and job.old.more.entity and not job.entity and not job.left_alone then
    Entity.refuse_put(job.jid)
  elseif job.old and not job.left_alone then
    want_key(job)
  end
end

-- Settles what may still be refused. `how` is that of plan.
function Put.prepare(command, job, coming, planned, how)
  if job.fresh or job.behind then
    job.replacing = true
    job.depends = job.depends or {}
  end
  if job.depends and #job.depends > 0 then
    job.replacing, job.needs = true, job.depends
    if job.met then
      job.depends = Dependencies.without_met(job.depends, job.met, coming)
    end
    job.depends, job.beyond =
      Dependencies.open(command, job.depends, coming, job.on_failure, how, job.old and job.jid)
    job.rare = job.rare or job.beyond
  end
  if job.behind then
    job.depends[#job.depends + 1] = job.behind
  end
  if not job.replacing or (how and how.acyclic and not planned) then
    return
  end
  if planned then
    planned[job.jid] = job.depends
  end
  if job.old or planned then
    CycleDetection.refuse(command, job.jid, job.depends, planned)
    return
  end
  CycleDetection.refuse_self(command, job.jid, job.depends)
end

local function one(command, args, i)
  Arguments.asking(command, args[i])
  if (#args - i - 5) % 2 ~= 0 and #args > i + 5 then
    Errors.argument(command, 'Odd number of additional args')
  end
  local job = PutOptions.parse(command, args, i + 1, i + 6, #args)
  if job.spare then
    Errors.argument(command, 'spare can only be used in a batch')
  end
  Put.look(job)
  if not job.old and command == 'requeue' then
    Errors.no_job('requeue', job.jid)
  end
  if job.left_alone then
    return job
  end
  job.goes_on = command == 'requeue'
  if job.unique then
    Conflict.settle(command, job, nil, {})
  end
  if not job.instead then
    Put.prepare(command, job)
  end
  return job
end

local function put_one(command, args, i)
  local job = one(command, args, i)
  if job.left_alone then
    return false
  elseif job.instead then
    return job.instead
  end
  PutStore.store(job, args[i], Tracking.is_tracked(job.jid))
  Minutes.count(job.queue, 'put', 1)
  Places.register(job.queue)
  return job.jid
end

-- put worker queue jid klass data delay [pairs] -> the jid that stands for the job
function Put.put(args, i)
  return put_one('put', args, i)
end

-- requeue worker queue jid klass data delay [pairs]
function Put.requeue(args, i)
  return put_one('requeue', args, i)
end
