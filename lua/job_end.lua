-- Cleaning up when a job ends, moves on or is deleted: its unique key, its workflow, those that
-- wait for its end, those that depend on it.

-- The record has something to do with what is done here: `rare`. It is never taken away, so it may
-- be there for nothing.
function JobEnd.mark(jid)
  call('HSET', key.job(jid), 'rare', '1')
end

-- A job that has put others in several steps does not go on.
local function forget_put(once)
  if once then
    call('UNLINK', key.once(once)) -- there may be very many: their memory is freed in the background
  end
end

-- These jobs are complete. `rare` lists those of them whose records have the field of this name.
function JobEnd.completed(jids, rare)
  local is_rare
  local entities = {}
  for n = 1, #rare do
    local jid = rare[n]
    ResultWaiters.ended(jid)
    local unique, workflow, spawners, holds, entity, home, grace, progress, once = Hash.values(
      key.job(jid),
      'unique',
      'workflow',
      'spawners',
      'holds',
      'entity',
      'home',
      'grace',
      'progress',
      'once'
    )
    forget_put(once)
    Unique.free(jid, unique)
    if grace or progress then
      Outcome.forget_marks(key.job(jid))
    end
    if workflow then
      Workflow.moved(workflow, 'running', 'complete')
    end
    if holds then
      Limits.leave(jid, { holds = holds })
    end
    Spawned.done(jid, spawners)
    if entity then
      entities[#entities + 1] = jid
      Minutes.count(home or '', 'processed', 1)
    end
    is_rare = is_rare or {}
    is_rare[jid] = true
  end
  if #entities > 0 then
    Entity.completed(entities)
  end
  Dependencies.release(jids, is_rare)
end

local FAILED = {
  'unique',
  'workflow',
  'spawners',
  'followed',
  'holds',
  'aside',
  'called',
  'queue',
  'klass',
}

-- The job, which was in this state, has failed.
function JobEnd.failed(jid, was, rare)
  if not rare then
    return
  end
  ResultWaiters.ended(jid)
  local job = Hash.read(key.job(jid), FAILED)
  Unique.free(jid, job.unique)
  if job.workflow then
    Workflow.moved(job.workflow, was, 'failed')
  end
  Limits.leave(jid, job)
  Spawned.failed(jid, job.spawners)
  if job.followed then
    Cascade.follow(jid, 'failed')
  end
end

-- The job had failed and is in this state now. Its time is over if it had one, but not its claim
-- to its key, unless another has taken that.
function JobEnd.revived(jid, record, state)
  if not record.rare then
    return
  end
  Unique.regain(jid, record.unique, state)
  if record.workflow then
    Workflow.moved(record.workflow, 'failed', state)
  end
  Spawned.goes_on(jid, record.spawners)
  if record.entity then
    Entity.returned(jid, record.home)
  end
  call('HDEL', key.job(jid), 'deadline', 'cascade')
end

-- The job ran and goes on in this state: tried again, given back, or `moved` on to its next step.
function JobEnd.goes_on(job, state, moved)
  if not job.rare then
    return
  end
  local unique, workflow, holds, entity =
    Hash.values(key.job(job.jid), 'unique', 'workflow', 'holds', 'entity')
  Unique.regain(job.jid, unique, state)
  if entity then
    Entity.returned(job.jid, job.queue)
  end
  if workflow then
    Workflow.moved(workflow, 'running', state)
  end
  if holds then
    Limits.leave(job.jid, { holds = holds })
  end
  if moved then
    call('HDEL', key.job(job.jid), 'deadline')
  end
end

-- The job with this record was canceled.
function JobEnd.canceled(jid, record)
  if record.rare then
    ResultWaiters.ended(jid)
    Unique.free(jid, record.unique)
    forget_put(record.once)
    if record.workflow then
      Workflow.moved(record.workflow, record.state, false)
    end
    Spawned.done(jid, record.spawners)
    Limits.leave(jid, record)
    if record.entity then
      Entity.gone(jid, record.home)
    end
  end
end
