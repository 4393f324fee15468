-- What may be done with a workflow as a whole: put it, by one call or by several; look at it; cancel it; retry what has
-- failed in it.

local rcall = redis.call

-- The id of a workflow that is to be made. (No colon: that is how its keys are told apart.) One that is being put may
-- be begun again.
local function new_id(call, id)
  Arguments.given(call, 'workflow', id)
  if not string.match(id, '^[%w_.~-]+$') or #id > 128 then
    local words = 'workflow must be 1 to 128 letters, digits and _ . ~ -, not '
    Errors.argument(call, words .. Errors.value(id))
  end
  local chore = Workflows.chore(call, id)
  if chore and not (chore == 'unpacking' and call.command == 'workflow.begin') then
    Errors.refuse(call, 'STATE', 'Workflow ' .. Errors.name(id) .. ' exists already')
  end
  return id
end

local function known_id(call, id)
  if not Workflows.chore(call, Arguments.given(call, 'workflow', id)) then
    Errors.refuse(call, 'NOJOB', 'Workflow ' .. Errors.name(id) .. ' does not exist')
  end
  return id
end

-- Each job is new, belongs to the workflow and stands behind those that it depends on: so there can be no cycle.
local function check_members(call, id, jobs)
  local at, links = {}, 0
  for n, job in ipairs(jobs) do
    at[job.given or job.jid] = n
  end
  if #jobs == 0 then
    Errors.argument(call, 'a workflow needs at least one job')
  end
  for n, job in ipairs(jobs) do
    local jid = job.given or job.jid
    if not job.options or job.options.workflow ~= id then
      Errors.argument(call, 'Job ' .. Errors.name(jid) .. ' does not name its workflow')
    elseif rcall('EXISTS', Keys.job(call, jid)) == 1 then
      Errors.refuse(call, 'STATE', 'Job ' .. Errors.name(jid) .. ' exists already')
    end
    for _, other in ipairs(job.depends or {}) do
      links = links + 1
      if (at[other] or 0) >= n then
        local words = 'Job %s must stand behind %s, on which it depends'
        Errors.refuse(call, 'CYCLE', words, Errors.name(jid), Errors.name(other))
      end
    end
  end
  Arguments.bounded(call, links)
end

local function begin(call, id, meta)
  local counters = { 'total', 0, 'complete', 0, 'failed', 0, 'canceled', 0, 'held', 0 }
  rcall(
    'HSET',
    Keys.workflow(call, id),
    'state',
    'running',
    'meta',
    meta,
    'created',
    call.text,
    unpack(counters)
  )
end

-- workflow.put id worker meta (item)... -> id; the items as those of put.many
function WorkflowCommands.put(call, args, i)
  local id = new_id(call, args[i])
  local asking = Arguments.given(call, 'worker', args[i + 1])
  Arguments.object(call, 'meta', args[i + 2])
  call.workflows[id] = ''
  local jobs = Rows.parse(call, args, i + 3)
  local plan = Put.check(call, { jobs = jobs, acyclic = true })
  check_members(call, id, jobs)
  begin(call, id, args[i + 2])
  Workflows.look_again(call, id) -- others may stand for all of its jobs
  Put.carry_out(call, plan, asking)
  return id
end

-- workflow.begin id meta -> id. The jobs of what is too large for one call come by put.many, and name it; none of them
-- starts before workflow.release.
function WorkflowCommands.begin(call, args, i)
  local id = new_id(call, args[i])
  Arguments.object(call, 'meta', args[i + 1])
  if not Workflows.chore(call, id) then
    begin(call, id, args[i + 1])
  end
  Workflows.set_chore(call, id, 'unpacking')
  return id
end

-- workflow.release id given -> how many jobs later calls let in. `given`: how many jobs, and further dependencies of them,
-- must have come. (What was refused of them may be unknown to the caller.)
function WorkflowCommands.release(call, args, i)
  local id = known_id(call, args[i])
  local given = Arguments.whole(call, 'given', args[i + 1], 0)
  local state, reason, there = unpack(rcall('HMGET', Keys.workflow(call, id), 'state', 'reason', 'given'))
  there = tonumber(there or nil) or 0
  Workflows.must_go_on(call, id)
  if state == 'canceled' and reason then
    Errors.refuse(call, 'STATE', 'Workflow %s was canceled: %s', Errors.name(id), reason)
  elseif there < given then
    local words = '%s of %s jobs and further dependencies of workflow %s are there'
    Errors.refuse(call, 'STATE', words, there, given, Errors.name(id))
  elseif Workflows.chore(call, id) == 'unpacking' then
    Workflows.set_chore(call, id, nil)
  end
  return Workflows.step(call, id)
end

-- workflow.get id -> its record as JSON, or nothing
function WorkflowCommands.get(call, args, i)
  local id = Arguments.given(call, 'workflow', args[i])
  local record = Pieces.hash(Keys.workflow(call, id))
  if not record.state then
    return nil
  end
  local shown = { id = id, state = record.state, reason = record.reason }
  for _, field in ipairs({ 'total', 'complete', 'failed', 'canceled', 'held', 'created', 'finished' }) do
    shown[field] = tonumber(record[field])
  end
  local meta = pcall(Json.stored, record.meta) and record.meta or '{}'
  return Json.with(cjson.encode(shown), 'meta', meta)
end

-- workflow.jobs id [offset count] -> how many, and the jids of some of them
function WorkflowCommands.jobs(call, args, i)
  local id = Arguments.given(call, 'workflow', args[i])
  local offset = Arguments.offset(call, args[i + 1])
  local count = Arguments.count(call, args[i + 2], 25)
  local name = Keys.workflow_jobs(call, id)
  return cjson.encode({
    total = rcall('LLEN', name),
    jobs = count > 0 and rcall('LRANGE', name, offset, offset + count - 1) or {},
  })
end

-- workflow.cancel id -> how many jobs are still to be looked at. The next such call goes on; so do others.
function WorkflowCommands.cancel(call, args, i)
  local id = known_id(call, args[i])
  if Workflows.chore(call, id) ~= 'canceling' then
    local state = rcall('HGET', Keys.workflow(call, id), 'state')
    if state == 'complete' or state == 'canceled' then
      return 0
    end
    Workflows.cancel(call, id)
  end
  return Workflows.step(call, id)
end

-- workflow.retry id from -> where to go on (0: that was all), how many were put back since the last such call
function WorkflowCommands.retry(call, args, i)
  local id = known_id(call, args[i])
  local from = Arguments.whole(call, 'from', args[i + 1], 0)
  Workflows.must_go_on(call, id)
  local name = Keys.workflow(call, id)
  if from == 0 then
    rcall('HSET', name, 'retry_at', 0, 'retried', 0)
    Workflows.leave(call, id)
  end
  Workflows.step(call, id)
  local at, retried = unpack(rcall('HMGET', name, 'retry_at', 'retried'))
  rcall('HDEL', name, 'retried')
  return { tonumber(at or nil) or 0, tonumber(retried or nil) or 0 }
end
