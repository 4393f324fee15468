-- How workflows are put: small ones in one call, large ones staged, released and then unpacked.
-- Nothing of a workflow runs before all of it is there.

local match = string.match

-- Seconds that what was staged is kept at most without a release.
local LONGEST = 24 * 3600

-- What holds back the first jobs until the last is there: a dependency without a record.
function WorkflowPut.gate(id)
  return 'gate:' .. id
end

-- The id of a workflow that is to be made. (No colon: that is how its keys are told apart.)
local function new_id(command, id)
  Arguments.given(command, 'workflow', id)
  if not match(id, '^[%w_.~-]+$') or #id > 128 then
    Errors.argument(
      command,
      'workflow must be 1 to 128 letters, digits and _ . ~ -, not ' .. Errors.value(id)
    )
  end
  if call('EXISTS', key.workflow(id)) == 1 then
    Errors.raise('STATE', command .. '(): Workflow ' .. Errors.name(id) .. ' exists already')
  end
  return id
end

local function behind(command, jid, other)
  Errors.raise(
    'CYCLE',
    '%s(): Job %s must stand behind %s, on which it depends',
    command,
    Errors.name(jid),
    Errors.name(other)
  )
end

-- Each job is new, belongs to the workflow and stands behind those that it depends on: so there can
-- be no cycle.
local function check_members(command, id, plan)
  local at, links, names = {}, 0, {}
  for n, job in ipairs(plan.jobs) do
    at[job.jid], names[n] = n, key.job(job.jid)
  end
  if #names == 0 then
    Errors.argument(command, 'a workflow needs at least one job')
  end
  local old = call('EXISTS', unpack(names)) > 0
  for n, job in ipairs(plan.jobs) do
    if job.workflow ~= id then
      Errors.argument(command, 'Job ' .. Errors.name(job.jid) .. ' does not name its workflow')
    elseif old and call('EXISTS', names[n]) == 1 then
      Errors.raise('STATE', command .. '(): Job ' .. Errors.name(job.jid) .. ' exists already')
    end
    for _, other in ipairs(job.depends or {}) do
      links = links + 1
      if (at[other] or 0) >= n then
        behind(command, job.jid, other)
      end
    end
  end
  Arguments.bounded(command, links)
end

local function begin(id, meta, total, chore)
  call(
    'HSET',
    key.workflow(id),
    'state',
    chore or 'running',
    'meta',
    meta,
    'created',
    NumberFormat.now(),
    'total',
    total,
    'complete',
    0,
    'failed',
    0,
    'canceled',
    0,
    'held',
    0
  )
  if chore then
    call('HSET', key.workflow(id), 'chore', chore)
    call('ZADD', key.workflows(), NumberFormat.now(), id)
  end
end

-- workflow.put id worker meta (item)... -> id; the items as those of put.many
function WorkflowPut.put(args, i)
  local id = new_id('workflow.put', args[i])
  local worker = Arguments.asking('workflow.put', args[i + 1])
  Arguments.object('workflow.put', 'meta', args[i + 2])
  Workflow.will_take(id)
  local plan = PutMany.plan('workflow.put', args, i + 3, { acyclic = true })
  check_members('workflow.put', id, plan)
  begin(id, args[i + 2], 0)
  Workflow.count(id, 'total', 0) -- so that its state is judged even if others stand for all its jobs
  PutMany.carry_out(plan, worker)
  return id
end

-- Staged jobs are as good as there. -> what tells a jid's place among them, or nil
local function staged_before(id)
  local name = key.staged_jids(id)
  return function(jid)
    return tonumber(call('ZSCORE', name, jid) or nil)
  end
end

local function slice(args, i)
  local part, n = {}, 0
  for at = i, #args do
    n = n + 1
    part[n] = args[at]
  end
  return part
end

local STAGE = {}

-- -> the jids that come with them
function STAGE.jobs(id, args, i)
  local known = staged_before(id)
  local plan = PutMany.plan('workflow.stage', args, i, { acyclic = true, known = known })
  check_members('workflow.stage', id, plan)
  local jids = {}
  for n, job in ipairs(plan.jobs) do
    if known(job.jid) then
      Errors.raise('STATE', 'workflow.stage(): Job ' .. Errors.name(job.jid) .. ' is staged already')
    end
    jids[n] = job.jid
  end
  return jids
end

-- Further dependencies of a job that was staged without any: jid, other...
function STAGE.links(id, args, i, are_met)
  local known, jid = staged_before(id), Arguments.given('workflow.stage', 'jid', args[i])
  local place = known(jid) or Errors.no_job('workflow.stage', jid)
  Arguments.bounded('workflow.stage', #args - i)
  for n = i + 1, #args do
    local before = known(args[n])
    if before and before >= place then
      behind('workflow.stage', jid, args[n])
    elseif not before and not are_met and call('EXISTS', key.job(args[n])) == 0 then
      Errors.no_job('workflow.stage', args[n])
    end
  end
  return {}
end

-- The same of jobs that are known to be complete: they may have no record any more.
function STAGE.met(id, args, i)
  return STAGE.links(id, args, i, true)
end

-- Their places in the order in which they were staged.
local function number(name, jids)
  local last, values = call('ZCARD', name), {}
  for n, jid in ipairs(jids) do
    values[2 * n - 1], values[2 * n] = last + n, jid
  end
  if #jids > 0 then
    call('ZADD', name, unpack(values))
  end
end

-- workflow.stage id seconds jobs (item)...   workflow.stage id seconds links|met jid other...
-- -> how many batches there are; without a release they go after so many seconds.
function WorkflowPut.stage(args, i)
  local id = new_id('workflow.stage', args[i])
  local seconds = Arguments.whole('workflow.stage', 'seconds', args[i + 1], 1)
  local stage = STAGE[args[i + 2] or '']
  if not stage then
    Errors.argument('workflow.stage', 'jobs or links wanted, not ' .. Errors.value(args[i + 2]))
  end
  Workflow.will_take(id)
  local raw = slice(args, i + 3) -- before it is read, which changes places in it
  local jids = stage(id, args, i + 3)
  local batches = call('RPUSH', key.staged(id), cmsgpack.pack({ args[i + 2], raw, #jids }))
  number(key.staged_jids(id), jids)
  call('EXPIRE', key.staged(id), math.min(seconds, LONGEST))
  call('EXPIRE', key.staged_jids(id), math.min(seconds, LONGEST))
  return batches
end

-- workflow.release id worker meta batches -> how many are to be unpacked
function WorkflowPut.release(args, i)
  local id = new_id('workflow.release', args[i])
  Arguments.asking('workflow.release', args[i + 1])
  Arguments.object('workflow.release', 'meta', args[i + 2])
  local batches = Arguments.whole('workflow.release', 'batches', args[i + 3], 1)
  local there = call('LLEN', key.staged(id))
  if there ~= batches then
    Errors.raise(
      'STATE',
      'workflow.release(): %s of %s batches of workflow %s are there: were the others staged too long ago?',
      there,
      batches,
      id
    )
  end
  call('PERSIST', key.staged(id))
  call('PERSIST', key.staged_jids(id))
  begin(id, args[i + 2], call('ZCARD', key.staged_jids(id)), 'unpacking')
  call('HSET', key.workflow(id), 'worker', args[i + 1])
  return batches
end

-- For which jobs of earlier batches others have come to stand, as what knows their jids; or nil
local function instead_of(id)
  local name = key.staged_instead(id)
  return call('EXISTS', name) == 1
    and {
      __index = function(_, jid)
        return call('HGET', name, jid) or nil
      end,
    }
end

local UNPACK = {}

-- What depends on no other job of the workflow waits at the gate.
function UNPACK.jobs(id, args, jobs)
  local known, gate = staged_before(id), WorkflowPut.gate(id)
  Workflow.will_take(id)
  local how = { acyclic = true, lenient = true, instead = instead_of(id) or nil }
  local fine, plan = pcall(PutMany.plan, 'workflow.carry', args, 1, how)
  if not fine then
    -- It was fine when it was staged. The present caller must not be told.
    Workflow.count(id, 'canceled', jobs)
    return
  end
  for _, job in ipairs(plan.jobs) do
    local inside = false
    for _, other in ipairs(job.depends or {}) do
      inside = inside or known(other)
    end
    job.gate = not inside and gate or nil
  end
  local instead = PutMany.carry_out(plan, call('HGET', key.workflow(id), 'worker') or '')[2]
  if #instead > 0 then
    call('HSET', key.staged_instead(id), unpack(instead)) -- for the batches to come
  end
  -- All of them were counted at the release.
  Workflow.count(id, 'total', -#plan.jobs)
end

function UNPACK.links(id, args)
  local state, workflow = Hash.values(key.job(args[1]), 'state', 'workflow')
  if state == 'depends' and workflow == id then
    local others, instead = slice(args, 2), setmetatable({}, instead_of(id) or nil)
    for n = 1, #others do
      others[n] = instead[others[n]] or others[n]
    end
    Dependencies.attach(args[1], others)
  end
end

UNPACK.met = UNPACK.links

-- Takes away all that was staged. (Its jobs may be there already.)
function WorkflowPut.forget_staged(id)
  call('DEL', key.staged(id), key.staged_jids(id), key.staged_instead(id))
end

local function open_gate(id)
  WorkflowPut.forget_staged(id)
  call('ZREM', key.workflows(), id)
  call('HDEL', key.workflow(id), 'chore', 'worker')
  Workflow.count(id, 'total', 0) -- so that its state is computed again
  Dependencies.release({ WorkflowPut.gate(id) })
end

-- One batch of a released workflow becomes jobs; with the last one they may begin.
-- -> how many are left
function WorkflowPut.unpack(id)
  local packed = call('LPOP', key.staged(id))
  if packed then
    local fine, batch = pcall(cmsgpack.unpack, packed)
    if fine and type(batch) == 'table' and UNPACK[batch[1]] then
      UNPACK[batch[1]](id, batch[2], batch[3])
    end
  end
  local left = call('LLEN', key.staged(id))
  if left == 0 then
    open_gate(id)
  end
  return left
end
