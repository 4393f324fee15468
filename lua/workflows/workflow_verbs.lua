-- What may be done with a workflow as a whole: look at it, cancel it, retry what failed in it; and
-- the steps that the next calls carry on with.

local STEP = 250 -- jobs canceled or retried by one call

local function must(command, id)
  Arguments.given(command, 'workflow', id)
  if call('EXISTS', key.workflow(id)) == 0 then
    Errors.raise('NOJOB', command .. '(): Workflow ' .. Errors.name(id) .. ' does not exist')
  end
  return id
end

-- workflow.get id -> its record as JSON, or nothing
function WorkflowVerbs.get(args, i)
  local id = Arguments.given('workflow.get', 'workflow', args[i])
  local record = Hash.all(key.workflow(id))
  if not next(record) then
    return nil
  end
  local shown = { id = id, state = record.state }
  for _, field in ipairs({ 'total', 'complete', 'failed', 'canceled', 'held', 'created', 'finished' }) do
    shown[field] = Record.number(record[field])
  end
  return Json.with(cjson.encode(shown), 'meta', Record.text('meta', record.meta, '{}'))
end

-- workflow.jobs id [offset count] -> how many, and the jids of some of them
function WorkflowVerbs.jobs(args, i)
  local id = Arguments.given('workflow.jobs', 'workflow', args[i])
  local offset = Arguments.offset('workflow.jobs', args[i + 1])
  local count = Arguments.count('workflow.jobs', args[i + 2], 25)
  local name = key.workflow_jobs(id)
  return cjson.encode({
    total = call('LLEN', name),
    jobs = count > 0 and call('LRANGE', name, offset, offset + count - 1) or {},
  })
end

-- From the last to the first: what depends on others goes before them.
local function cancel_some(id)
  local name = key.workflow(id)
  local stop = Record.read('count', call('HGET', name, 'cancel_at'), call('LLEN', key.workflow_jobs(id)))
  local start = math.max(0, stop - STEP)
  local jids = stop > 0 and call('LRANGE', key.workflow_jobs(id), start, stop - 1) or {}
  local at = #jids
  while at > 0 and (at == #jids or Dependencies.left() > 0) do
    local workflow, state = Hash.values(key.job(jids[at]), 'workflow', 'state')
    if workflow == id and state ~= 'complete' then
      Cascade.cancel(jids[at], 'workflow', id)
    end
    at = at - 1
  end
  start = start + at
  if start == 0 then
    call('HDEL', name, 'chore', 'cancel_at')
    call('ZREM', key.workflows(), id)
    Workflow.count(id, 'total', 0)
    -- Jobs of others may stand at its gate, which were put again with it.
    Dependencies.release({ WorkflowPut.gate(id) })
  else
    call('HSET', name, 'cancel_at', start)
  end
  return start
end

-- What was staged and is no job yet will never be one.
local function drop_staged(id)
  if call('EXISTS', key.staged(id)) == 1 then
    WorkflowPut.forget_staged(id)
    local there = call('LLEN', key.workflow_jobs(id))
    Workflow.count(
      id,
      'canceled',
      Record.read('count', call('HGET', key.workflow(id), 'total'), there) - there
    )
  end
end

local CHORES = {
  unpacking = function(id)
    return WorkflowPut.unpack(id)
  end,
  canceling = cancel_some,
}

local function step(id)
  scope.carried = true -- once is enough
  local chore = CHORES[call('HGET', key.workflow(id), 'chore') or '']
  if not chore then
    call('ZREM', key.workflows(), id)
    return 0
  end
  return chore(id)
end

-- workflow.carry id -> how much is left to be done; 0 when nothing is
function WorkflowVerbs.carry(args, i)
  local left = step(must('workflow.carry', args[i]))
  Dependencies.carry_on()
  return left
end

-- Carries on with what a client has begun and perhaps left: one step, at most once per call.
-- -> whether more is left
function WorkflowVerbs.carry_on()
  local name = key.workflows()
  if scope.carried or ExistenceCache.is_absent(name) then
    return false
  end
  local id = call('ZRANGE', name, 0, 0)[1]
  return id and (step(id) > 0 or call('EXISTS', name) == 1)
end

-- workflow.cancel id -> how many jobs are still to be looked at: go on with workflow.carry
function WorkflowVerbs.cancel(args, i)
  local id = must('workflow.cancel', args[i])
  local name = key.workflow(id)
  local chore, state = Hash.values(name, 'chore', 'state')
  if chore ~= 'canceling' then
    if state == 'complete' or state == 'canceled' then
      return 0
    end
    drop_staged(id)
    call('HSET', name, 'chore', 'canceling', 'cancel_at', call('LLEN', key.workflow_jobs(id)))
    call('ZADD', key.workflows(), NumberFormat.now(), id)
    Workflow.count(id, 'total', 0)
  end
  return step(id)
end

-- workflow.retry id from -> where to go on (0: that was all), how many were put back
function WorkflowVerbs.retry(args, i)
  local id = must('workflow.retry', args[i])
  local from = Arguments.whole('workflow.retry', 'from', args[i + 1], 0)
  if call('HGET', key.workflow(id), 'chore') == 'canceling' then
    Errors.raise('STATE', 'workflow.retry(): Workflow ' .. id .. ' is being canceled')
  end
  local jids, failed = call('LRANGE', key.workflow_jobs(id), from, from + STEP - 1), {}
  for _, jid in ipairs(jids) do
    local state, workflow = Hash.values(key.job(jid), 'state', 'workflow')
    if state == 'failed' and workflow == id then
      failed[#failed + 1] = jid
    end
  end
  local revived = #failed > 0 and Revive.revive(failed, 1) or 0
  return { #jids == STEP and from + STEP or 0, revived }
end
