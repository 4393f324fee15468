-- Workflows: jobs that were put together, how many of them have ended, and how.

-- What changed in this call is in scope.workflows: id -> by how much each counter, and the jids that joined.
-- The workflows that are known to take jobs are in scope.open_workflows.
local function change(id)
  local changes = scope.workflows or {}
  scope.workflows = changes
  local mine = changes[id]
  if not mine then
    mine = { complete = 0, failed = 0, canceled = 0, held = 0, total = 0, jids = {} }
    changes[id] = mine
  end
  return mine
end

-- complete, failed, canceled: jobs that ended so; held: jobs that depend on others.
function Workflow.count(id, what, by)
  if id and id ~= '' then
    local mine = change(id)
    mine[what] = mine[what] + by
  end
end

local COUNTER = { complete = 'complete', failed = 'failed', depends = 'held' }

-- A job of the workflow went from a state into another; false: its record is gone. (What is
-- forgotten after its completion stays counted: no call for that.)
function Workflow.moved(id, was, is)
  local from, to = COUNTER[was], COUNTER[is] or not is and 'canceled'
  if from then
    Workflow.count(id, from, -1)
  end
  if to then
    Workflow.count(id, to, 1)
  end
end

-- A new job of the workflow, in the state in which it was put.
function Workflow.joined(id, jid, state)
  local mine = change(id)
  mine.jids[#mine.jids + 1] = jid
  mine.total = mine.total + 1
  if state == 'depends' then
    mine.held = mine.held + 1
  end
end

-- Refuses a workflow that is being cancelled: what joins it now would be overlooked.
-- -> its state, nil if there is none
function Workflow.must_go_on(command, id)
  local state = call('HGET', key.workflow(id), 'state')
  if state == 'canceling' then
    Errors.raise('STATE', command .. '(): Workflow ' .. Errors.name(id) .. ' is being canceled')
  end
  return state
end

-- Refuses what names a workflow that takes no jobs.
function Workflow.check(command, id)
  if scope.open_workflows and scope.open_workflows[id] then
    return
  elseif not Workflow.must_go_on(command, id) then
    Errors.raise('NOJOB', command .. '(): Workflow ' .. Errors.name(id) .. ' does not exist')
  end
  Workflow.will_take(id)
end

-- The call is about to make this workflow.
function Workflow.will_take(id)
  scope.open_workflows = scope.open_workflows or {}
  scope.open_workflows[id] = true
end

-- What the counters say of the whole.
function Workflow.judged(record)
  if record.chore then
    return record.chore
  end
  local left = record.total - record.complete - record.failed - record.canceled
  if left == 0 then
    return record.failed > 0 and 'failed' or record.canceled > 0 and 'canceled' or 'complete'
  elseif record.failed > 0 and left == record.held then
    return 'failed' -- What is left waits for what has failed.
  end
  return 'running'
end

-- A workflow of which nothing is left but its record is forgotten as completed jobs are.
local function forget_later(id)
  local seconds = math.floor(Config.number('jobs-history'))
  for _, name in ipairs({ key.workflow(id), key.workflow_jobs(id) }) do
    call('EXPIRE', name, math.max(seconds, 0))
  end
end

local function keep(id)
  call('PERSIST', key.workflow(id))
  call('PERSIST', key.workflow_jobs(id))
end

local NUMBERS = { 'total', 'complete', 'failed', 'canceled', 'held' }

-- Its counters, its state, and what is being done with it.
function Workflow.read(id)
  local values = call('HMGET', key.workflow(id), 'state', 'chore', unpack(NUMBERS))
  local record = { state = values[1], chore = values[2] or nil }
  for n, field in ipairs(NUMBERS) do
    record[field] = Record.read('count', values[n + 2], 0)
    record.bad = record.bad or (Record.is_bad('count', values[n + 2]) and field) or nil
  end
  return record
end

-- Writes down the state that follows from the counters, and tells who waits for the end.
local function judge(id)
  local name, record = key.workflow(id), Workflow.read(id)
  local was, is = record.state, Workflow.judged(record)
  if is == was then
    return
  end
  call('HSET', name, 'state', is)
  if is == 'complete' or is == 'failed' or is == 'canceled' then
    call('HSET', name, 'finished', NumberFormat.now())
    ResultWaiters.ended_workflow(id)
  else
    call('HDEL', name, 'finished')
  end
  if is == 'complete' or is == 'canceled' then
    forget_later(id)
  elseif was == 'complete' or was == 'canceled' then
    keep(id)
  end
end

function Workflow.finish()
  for id, mine in pairs(scope.workflows) do
    local name = key.workflow(id)
    if call('EXISTS', name) == 1 then
      for _, field in ipairs(NUMBERS) do
        if mine[field] ~= 0 then
          redis.pcall('HINCRBY', name, field, mine[field]) -- A counter that is no number stays as it is.
        end
      end
      SortedSet.append(key.workflow_jobs(id), mine.jids)
      judge(id)
    end
  end
end
