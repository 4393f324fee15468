-- Workflows: jobs that were put together, how many of them have ended, and how.
--
-- The record's `chore` says that none of its jobs may start: `unpacking` while it is being put, `canceling`. What then
-- nothing else holds back stands at its gate. Steps that are left to later calls (of the workflows in the key of that
-- name): to cancel, from `cancel_at` down; to empty the gate; to retry, from `retry_at` on.

local rcall = redis.call

Workflows.fields = { 'workflow' }
Workflows.options = { 'workflow' }

local STEP = 250 -- jobs canceled or retried by one call
local PATIENCE = 3600 -- seconds since the last put, after which what is not released is canceled
local REASON = 'it was not released within an hour of the last put'

-- `given` counts the jobs, and further dependencies of them, that came while it was being put.
local NUMBERS = { 'total', 'complete', 'failed', 'canceled', 'held', 'given' }

-- What a workflow of which the call hears is at: its chore or '', nil if there is none. It is remembered in
-- call.workflows.
function Workflows.chore(call, id)
  call.workflows = call.workflows or {}
  local chore = call.workflows[id]
  if not chore then
    local state, its_chore = unpack(rcall('HMGET', Keys.workflow(call, id), 'state', 'chore'))
    chore = state and (its_chore or '') or nil
    call.workflows[id] = chore
  end
  return chore
end

-- What changed is in call.flows until its end: id -> by how much each counter, and the jids that joined.
local finish

local function change(call, id)
  if not call.flows then
    call.flows = {}
    Call.at_end(call, finish)
  end
  local mine = call.flows[id]
  if not mine then
    mine = { total = 0, complete = 0, failed = 0, canceled = 0, held = 0, given = 0, jids = {} }
    call.flows[id] = mine
  end
  return mine
end

-- Has the state of a workflow judged at the end of the call.
function Workflows.look_again(call, id)
  change(call, id)
end

local COUNTER = { complete = 'complete', failed = 'failed', canceled = 'canceled', depends = 'held' }

local function moved(call, job, was, is)
  local from, to = COUNTER[was], COUNTER[is]
  if job.workflow and from ~= to then
    local mine = change(call, job.workflow)
    if from then
      mine[from] = mine[from] - 1
    end
    if to then
      mine[to] = mine[to] + 1
    end
  end
end

-- What the counters say of the whole.
local function judged(record)
  local left = record.total - record.complete - record.failed - record.canceled
  if record.chore then
    return record.chore
  elseif left == 0 then
    return record.failed > 0 and 'failed' or record.canceled > 0 and 'canceled' or 'complete'
  end
  -- What is left waits for what has failed?
  return record.failed > 0 and left == record.held and 'failed' or 'running'
end

local ENDED = { complete = true, failed = true, canceled = true }

-- Writes down the state of a workflow, and tells who waits for its end. One that has ended well is forgotten as completed
-- jobs are.
local function judge(call, id)
  local name, list = Keys.workflow(call, id), Keys.workflow_jobs(call, id)
  local record = Pieces.hash(name)
  for _, field in ipairs(NUMBERS) do
    record[field] = tonumber(record[field]) or 0
  end
  local is = judged(record)
  if is == record.state then
    return
  end
  rcall('HSET', name, 'state', is)
  if ENDED[is] then
    rcall('HSET', name, 'finished', call.text)
    Waiters.tell(call, 'workflow:' .. id)
  else
    rcall('HDEL', name, 'finished')
  end
  local seconds = math.max(0, Config.whole(call, 'jobs-history'))
  for _, key in ipairs({ name, list }) do
    if is == 'complete' or is == 'canceled' then
      rcall('EXPIRE', key, seconds)
    else
      rcall('PERSIST', key)
    end
  end
end

function finish(call)
  local flows = call.flows
  call.flows = nil
  for id, mine in pairs(flows) do
    local name = Keys.workflow(call, id)
    if rcall('EXISTS', name) == 1 then
      for _, field in ipairs(NUMBERS) do
        if mine[field] ~= 0 then
          redis.pcall('HINCRBY', name, field, mine[field]) -- A counter that is no number stays as it is.
        end
      end
      Pieces.run('RPUSH', Keys.workflow_jobs(call, id), mine.jids)
      if mine.given > 0 then
        rcall('ZADD', call.keys.open_gates, 'XX', call.text, id)
      end
      judge(call, id)
    end
  end
end

-- Refuses a workflow that is being canceled: what joins it now would be overlooked. -> its chore, nil if there is none
function Workflows.must_go_on(call, id)
  local chore = Workflows.chore(call, id)
  if chore == 'canceling' then
    Errors.refuse(call, 'STATE', 'Workflow ' .. Errors.name(id) .. ' is being canceled')
  end
  return chore
end

-- Something of a workflow that is being put has come.
function Workflows.count_given(call, id, number)
  if Workflows.chore(call, id) == 'unpacking' then
    local mine = change(call, id)
    mine.given = mine.given + number
  end
end

-- Checks the workflow that a put names. While that is being put, its jobs are new, or were put by an earlier attempt.
-- -> whether that is so
local function check_named(call, job, id)
  if id == '' or #id > 255 then
    Errors.argument(call, 'workflow must have 1 to 255 bytes, not ' .. #id)
  elseif not Workflows.must_go_on(call, id) then
    Errors.refuse(call, 'NOJOB', 'Workflow ' .. Errors.name(id) .. ' does not exist')
  end
  if job.fresh or Workflows.chore(call, id) ~= 'unpacking' then
    return false
  elseif job.old and job.old.workflow ~= id then
    Errors.refuse(call, 'STATE', 'Job ' .. Errors.name(job.jid) .. ' exists already')
  elseif not job.old then
    Workflows.count_given(call, id, 1)
  end
  return job.old ~= nil
end

-- (A job that takes another's place is where that was.)
function Workflows.check(call, job)
  local named, former = job.options and job.options.workflow, job.old and job.old.workflow
  if named and check_named(call, job, named) then
    return 'leave'
  end
  job.workflow = job.fresh and former or named or former
  job.gate = job.workflow and (Workflows.chore(call, job.workflow) or '') ~= ''
end

-- Does its chore hold the job back? Then it stands at the gate from now on.
function Workflows.holds(call, job)
  if (Workflows.chore(call, job.workflow) or '') == '' then
    return false
  end
  rcall('SADD', Keys.gate(call, job.workflow), job.jid)
  return true
end

function Workflows.stored(call, job)
  if job.old and job.old.workflow == job.workflow then
    moved(call, job, job.old.state, job.state)
  elseif job.workflow then
    local mine = change(call, job.workflow)
    mine.jids[#mine.jids + 1] = job.jid
    mine.total = mine.total + 1
    moved(call, job, nil, job.state)
  end
  if job.gate and rcall('SCARD', Keys.dependencies(call, job.jid)) == 0 then
    Workflows.holds(call, job)
  end
end

function Workflows.ended(call, job, was)
  moved(call, job, was, job.state)
end

function Workflows.revived(call, job)
  moved(call, job, 'failed', job.state)
end

-- (What is forgotten after its completion stays counted.)
function Workflows.gone(call, job, why)
  if why ~= 'expired' and not (why == 'replaced' and job.new.workflow == job.workflow) then
    moved(call, job, job.state, 'canceled')
  end
end

-- A workflow begins, or ends, a chore; later calls carry on with what is left to be done.
function Workflows.set_chore(call, id, chore)
  local name = Keys.workflow(call, id)
  if chore == 'unpacking' then
    rcall('ZADD', call.keys.open_gates, call.text, id)
  else
    rcall('ZREM', call.keys.open_gates, id)
    Workflows.leave(call, id)
  end
  if chore then
    rcall('HSET', name, 'chore', chore)
  else
    rcall('HDEL', name, 'chore', 'cancel_at')
  end
  call.workflows[id] = chore or ''
  Workflows.look_again(call, id)
end

-- There are steps left of it.
function Workflows.leave(call, id)
  Links.leave(call, call.keys.workflows, id)
end

-- From the last to the first: what depends on others goes before them. -> how many are left
local function cancel_some(call, id)
  local name, list = Keys.workflow(call, id), Keys.workflow_jobs(call, id)
  local stop = tonumber(rcall('HGET', name, 'cancel_at')) or 0
  local start = math.max(0, stop - STEP)
  local jids = stop > 0 and rcall('LRANGE', list, start, stop - 1) or {}
  local at = #jids
  while at > 0 and (at == #jids or Links.left(call) > 0) do
    local workflow, state = unpack(rcall('HMGET', Keys.job(call, jids[at]), 'workflow', 'state'))
    if workflow == id and state ~= 'complete' then
      Cancel.remove(call, jids[at], 'workflow', id)
    end
    at = at - 1
  end
  rcall('HSET', name, 'cancel_at', start + at)
  if start + at == 0 then
    Workflows.set_chore(call, id, nil)
  end
  return start + at
end

-- Lets in those that stand at the gate. -> how many are left there
local function let_in_some(call, id)
  local gate, most = Keys.gate(call, id), Links.left(call)
  local jids = most > 0 and rcall('SPOP', gate, most) or {}
  Links.spend(call, #jids)
  for n = 1, #jids do
    Links.free_if_last(call, jids[n])
  end
  return rcall('SCARD', gate)
end

-- Enqueues some failed jobs again; their number is kept in `retried` for the one who has asked for it.
local function retry_some(call, id)
  local name = Keys.workflow(call, id)
  local from = tonumber(rcall('HGET', name, 'retry_at') or nil)
  if not from then
    return 0
  end
  local jids, failed = rcall('LRANGE', Keys.workflow_jobs(call, id), from, from + STEP - 1), {}
  for _, jid in ipairs(jids) do
    local workflow, state = unpack(rcall('HMGET', Keys.job(call, jid), 'workflow', 'state'))
    if workflow == id and state == 'failed' then
      failed[#failed + 1] = jid
    end
  end
  rcall('HINCRBY', name, 'retried', Failures.revive(call, failed, 1))
  if #jids < STEP then
    rcall('HDEL', name, 'retry_at')
    return 0
  end
  rcall('HSET', name, 'retry_at', from + STEP)
  return from + STEP
end

-- Does the next step of what is to be done with a workflow. -> how much is left of that
function Workflows.step(call, id)
  local left = 0
  if Workflows.chore(call, id) == 'canceling' then
    left = cancel_some(call, id)
  end
  if Workflows.chore(call, id) == '' then
    left = left + let_in_some(call, id)
  end
  left = left + retry_some(call, id)
  if left == 0 then
    rcall('ZREM', call.keys.workflows, id)
  end
  return left
end

-- Carries on with what a client has begun and perhaps left.
function Workflows.carry_on(call)
  local id = Pieces.first(call.keys.workflows)
  if id then
    Workflows.step(call, id)
  end
end

-- Begins to cancel a workflow. `reason`: why, if that was not asked for.
function Workflows.cancel(call, id, reason)
  local name = Keys.workflow(call, id)
  rcall('HDEL', name, 'retry_at')
  rcall('HSET', name, 'cancel_at', rcall('LLEN', Keys.workflow_jobs(call, id)))
  if reason then
    rcall('HSET', name, 'reason', reason)
  end
  Workflows.set_chore(call, id, 'canceling')
end

-- For each worker's beat: cancels what a client has begun to put, and left; and carries on.
function Workflows.repair(call)
  local id, since = Pieces.first(call.keys.open_gates)
  if id and since < call.now - PATIENCE and Workflows.chore(call, id) then
    Workflows.cancel(call, id, REASON)
  end
  Workflows.carry_on(call)
end
