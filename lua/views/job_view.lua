-- A job as get, pop and peek show it.

local rcall = redis.call

-- What is shown to our own clients only.
local function with_ours(call, shown, job)
  shown.token = job.state == 'running' and job.token or ''
  shown.crashes = job.crashes
  shown.failed_from = job.failed_from
  shown.on_failure = job.on_failure
  if job.returned and job.state == 'complete' then
    shown.returned = Results.left(call, job)
  end
  if job.letters then
    shown.unique, shown.workflow, shown.deadline = Unique.shown(job), job.workflow, Times.finite(job.deadline)
    shown.limits = LimitView.of_job(job)
  end
  return Json.with(
    cjson.encode(shown),
    'context',
    Json.text(job.context),
    'progress',
    Json.text(job.progress)
  )
end

-- The object that shows a job with this record, as JSON. `some` has what is shown of the lists that belong to it (history,
-- dependents, dependencies) in place of all of it.
function JobView.of(call, job, some)
  local jid = job.jid
  local shown = {
    jid = jid,
    klass = job.klass or '',
    state = Job.state_now(call, jid, job.queue, job.state),
    queue = job.queue,
    worker = job.worker or '',
    tracked = Job.is_tracked(call, jid),
    priority = job.priority,
    expires = Times.finite(job.expires, 0),
    retries = job.retries,
    remaining = job.remaining,
    data = job.data or '',
    tags = Json.shown(job.tags),
    history = some and some.history or History.read(call, job),
    failure = Json.shown(job.failure),
    spawned_from_jid = job.spawned_from_jid or false,
    dependents = some and some.dependents or rcall('SMEMBERS', Keys.dependents(call, jid)),
    dependencies = some and some.dependencies or rcall('SMEMBERS', Keys.dependencies(call, jid)),
  }
  return call.old and cjson.encode(shown) or with_ours(call, shown, job)
end

-- The same of the job of this jid, or nil.
function JobView.show(call, jid, some)
  local job = Job.read(call, jid)
  return job and JobView.of(call, job, some)
end

-- A job, or what became of it if it was canceled; or nil.
local function found(call, jid)
  local shown = JobView.show(call, jid)
  if shown or call.old then
    return shown
  end
  return CanceledView.show(call, jid)
end

local function list(call, jids, show)
  local shown = {}
  for n = 1, #jids do
    shown[#shown + 1] = show(call, jids[n])
  end
  return Json.list(shown)
end

-- The jobs of these jids that there are, as a JSON list.
function JobView.list(call, jids)
  return list(call, jids, JobView.show)
end

-- get jid
function JobView.get(call, args, i)
  return found(call, Arguments.name(call, 'jid', args[i]))
end

-- multiget jid...
function JobView.multiget(call, args, i)
  local jids = Pieces.rest(args, i)
  Arguments.bounded(call, #jids)
  return list(call, jids, found)
end
