-- A job's record: reading it, and deleting what belongs to it.

local rcall = redis.call

-- The fields that any job may have. Features have further ones: see features.lua.
local FIELDS = {
  'state',
  'queue',
  'worker',
  'expires',
  'time',
  'retries',
  'remaining',
  'priority',
  'klass',
  'data',
  'tags',
  'failure',
  'put',
  'noted',
  'grace',
  'scheduled',
  'token',
  'context',
  'progress',
  'crashes',
  'unknown',
  'spawned_from_jid',
  'returned',
  'failed_from',
  'on_failure',
  'behind',
  'more',
}

local STATES = {
  waiting = true,
  running = true,
  stalled = true,
  scheduled = true,
  depends = true,
  failed = true,
  complete = true,
}

-- Is this the name of a state?
function Job.is_state(text)
  return STATES[text or ''] or false
end

-- In which a job has not started, or will start again.
Job.PENDING = { waiting = true, scheduled = true, depends = true, stalled = true }

-- The whole record of a job as a table with its fields, jid, key, and letters if it uses features; nil if there is none.
-- Numbers are numbers; what cannot be read as one is its default.
function Job.read(call, jid)
  local name = Keys.job(call, jid)
  local values = rcall('HMGET', name, unpack(FIELDS))
  if not values[1] and not values[9] then
    return nil
  end
  local job = { jid = jid, key = name }
  for n = 1, #FIELDS do
    job[FIELDS[n]] = values[n] or nil
  end
  job.state, job.queue = job.state or '', job.queue or ''
  job.time = Times.finite(job.time, call.now)
  job.priority = Times.finite(job.priority, 0)
  job.retries = Times.finite(job.retries, 5)
  job.remaining = Times.finite(job.remaining, job.retries)
  job.crashes = Times.finite(job.crashes, 0)
  job.letters = Features.letters(call, job.more)
  if job.letters then
    Features.read(job)
  end
  return job
end

-- The same of a job that must be there.
function Job.must_read(call, jid)
  local job = Job.read(call, Arguments.name(call, 'jid', jid))
  if not job then
    Errors.no_job(call, jid)
  end
  return job
end

-- A delayed job counts as waiting from its time on, though it stands among the delayed ones until a call moves it that
-- writes; and so does one that was taken from its worker: the record says 'stalled'. -> its state now, when it falls due
function Job.state_now(call, jid, queue, state)
  if state == 'stalled' and not call.old then
    return 'waiting'
  elseif state ~= 'scheduled' or call.old then
    return state
  end
  local due = rcall('ZSCORE', Keys.queue(call, queue or '').scheduled, jid)
  return due and tonumber(due) <= call.now and 'waiting' or state, due
end

-- Is the job tracked?
function Job.is_tracked(call, jid)
  return call.has.T and rcall('ZSCORE', call.keys.tracked, jid) and true or false
end

-- Publishes what happened to a job if it is tracked.
function Job.tell_trackers(call, what, jid)
  if call.has.T and rcall('ZSCORE', call.keys.tracked, jid) then
    Events.tracked(call, what, jid)
  end
end

-- Takes a job out of its worker's hands, in the books.
function Job.unhold(call, jid, worker)
  if worker and worker ~= '' then
    rcall('ZREM', Keys.held(call, worker), jid)
  end
end

-- Deletes the record of a job that is in no place any longer, and what belongs to it, but for its dependents.
function Job.erase(call, job)
  local jid = job.jid
  Tags.unindex_all(call, jid, job.tags)
  rcall(
    'DEL',
    job.key,
    Keys.history(call, jid),
    Keys.dependencies(call, jid),
    Keys.result(call, jid),
    Keys.needs(call, jid)
  )
end
