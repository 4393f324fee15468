-- Spawned jobs: what a run puts by `spawn` are the children of its job, and who waits for the job waits for them, too.
-- A complete job with open children counts as a dependency that is not met, and is not forgotten; but a job below it
-- (its child, or a child of that …) waits for its run alone. A job has one parent at a time: a second spawner does not
-- wait for it.
--
-- children:<jid> has the open children, each with its standing: what it means to those that wait for its parent.

local rcall = redis.call

Spawned.OPEN = 0 -- it has not ended
Spawned.PARTLY = 1 -- it is complete, and some of its own children have failed
Spawned.FAILED = 2 -- it has failed; or is complete, and all of its own children that are open have failed

-- The record of a child has its `parent`, and in `spawned` of which life of that it is. A parent's has in `spawns` when
-- its life began to have children: a job that runs again leaves those alone, one that is put again begins with none.
Spawned.fields = { 'parent', 'spawned', 'spawns' }

local DEEPEST = 1000 -- generations that are looked at
local KEPT = 604800 -- seconds, as long as results at least: a dependent may start long after the end

-- The standing that a complete job has by its children; nil if none is open.
function Spawned.standing(call, jid)
  if not call.has.S then
    return nil
  end
  local name = Keys.children(call, jid)
  local _, most = Pieces.last(name)
  if not most or most == Spawned.OPEN then
    return most
  end
  local _, least = Pieces.first(name)
  return least == Spawned.FAILED and least or Spawned.PARTLY
end

-- The parent that the job is an open child of, or nil.
function Spawned.parent_of(call, jid)
  local parent = rcall('HGET', Keys.job(call, jid), 'parent')
  return parent and rcall('ZSCORE', Keys.children(call, parent), jid) and parent or nil
end

-- Is the job below the other one?
function Spawned.is_below(call, jid, other)
  if call.has.S then
    for _ = 1, DEEPEST do
      jid = Spawned.parent_of(call, jid)
      if not jid or jid == other then
        return jid ~= nil
      end
    end
  end
  return false
end

-- The state in which a complete job counts for one that is to depend on it; and which job it is that has failed.
function Spawned.state_for(call, job, other)
  local standing = Spawned.standing(call, other)
  if not standing or job.parent == other or Spawned.is_below(call, job.parent or job.jid, other) then
    return 'complete'
  elseif standing == Spawned.OPEN or standing == Spawned.PARTLY and job.on_failure ~= 'cancel' then
    return 'waiting'
  end
  return 'failed', (Pieces.last(Keys.children(call, other)))
end

-- Open children of a job.
function Spawned.children(call, jid, most)
  return rcall('ZRANGE', Keys.children(call, jid), 0, most)
end

-- The job has no open children any more.
local function forget(call, jid)
  if rcall('SREM', call.keys.spawners, jid) == 1 and rcall('EXISTS', call.keys.spawners) == 0 then
    Features.forget(call, 'S')
  end
end

local function add(call, parent, jid, standing)
  rcall('ZADD', Keys.children(call, parent), standing, jid)
  rcall('SADD', call.keys.spawners, parent)
  Features.note(call, 'S')
end

-- An open child has another standing; nil: it has ended. -> whether that is so
local function change(call, parent, jid, standing)
  local name = Keys.children(call, parent)
  if standing then
    return rcall('ZADD', name, 'XX', 'CH', standing, jid) == 1
  elseif rcall('ZREM', name, jid) == 0 then
    return false
  elseif rcall('EXISTS', name) == 0 then
    forget(call, parent)
  end
  return true
end

-- What the children of a complete job mean to its dependents by now.
local function apply(call, jid)
  local standing = Spawned.standing(call, jid)
  if not standing then
    Links.release(call, jid)
  elseif standing > Spawned.OPEN then
    rcall('HDEL', Keys.job(call, jid), 'cascade') -- all of them are to be looked at
    Links.follow(call, jid, 'open')
  end
  return standing
end

-- A job stands so: what that means to its parent, if that is complete, to the parent of that, and so on, as far as the
-- call may go.
local function rise(call, jid, parent, standing)
  while parent and change(call, parent, jid, standing) do
    local state, next_parent = unpack(rcall('HMGET', Keys.job(call, parent), 'state', 'parent'))
    if state ~= 'complete' then
      return
    elseif Links.left(call) <= 0 then
      Links.leave(call, call.keys.releasing, parent)
      return
    end
    Links.spend(call, 1)
    jid, parent, standing = parent, next_parent, apply(call, parent)
  end
end

-- Carries on with a complete job.
function Spawned.go_on(call, jid)
  local standing = apply(call, jid)
  rise(call, jid, rcall('HGET', Keys.job(call, jid), 'parent'), standing)
end

-- May the spawner have this job as its child, whose record names this parent?
local function may_adopt(call, spawner, jid, parent)
  return (not parent or parent == spawner or not rcall('ZSCORE', Keys.children(call, parent), jid))
    and jid ~= spawner
    and not Spawned.is_below(call, spawner, jid)
end

function Spawned.check(call, job)
  local old, plan = job.old, job.plan
  job.adopted = nil -- It is asked again if it takes the place of another one.
  if old then
    job.parent, job.spawned = old.parent, old.spawned
    -- A job that is only moved lives on.
    job.spawns = call.command == 'requeue' and old.state ~= 'complete' and old.spawns or nil
  end
  if plan.spawner and may_adopt(call, plan.spawner, job.jid, job.parent) then
    job.adopted, job.parent, job.spawned = true, plan.spawner, plan.life
  end
end

function Spawned.stored(call, job)
  if job.adopted then
    add(call, job.parent, job.jid, Spawned.OPEN)
  else
    rise(call, job.jid, job.parent, Spawned.OPEN)
  end
end

function Spawned.ended(call, job)
  if job.state == 'complete' then
    local standing = Spawned.standing(call, job.jid)
    job.open = standing ~= nil
    rise(call, job.jid, job.parent, standing)
  elseif job.state == 'failed' then
    rise(call, job.jid, job.parent, Spawned.FAILED)
  end
end

function Spawned.revived(call, job)
  rise(call, job.jid, job.parent, Spawned.OPEN)
end

-- The open children of a job that goes become those of its parent: what waits for the run alone of one above them must not
-- come to wait for all of it.
local function hand_on_children(call, jid)
  local parent = Spawned.parent_of(call, jid)
  for _, child in ipairs(parent and Spawned.children(call, jid, DEEPEST) or {}) do
    rcall('HSET', Keys.job(call, child), 'parent', parent)
    add(call, parent, child, rcall('ZSCORE', Keys.children(call, jid), child))
  end
end

function Spawned.gone(call, job, why)
  if why == 'expired' then
    job.stays = Spawned.standing(call, job.jid) ~= nil
  elseif why ~= 'replaced' then
    hand_on_children(call, job.jid)
    rcall('UNLINK', Keys.children(call, job.jid))
    forget(call, job.jid)
    rise(call, job.jid, job.parent)
  end
end

-- The jobs that are no part of the plan, as they are left alone or stand for one of it, but become children.
local function others_of(call, plan)
  local others, seen = {}, {}
  for _, job in ipairs(plan.jobs) do
    local jid = job.instead or job.left_alone and job.jid
    if jid and not plan.coming[jid] and not seen[jid] then
      seen[jid] = true
      local other = Job.read(call, jid)
      local is_open = other and (other.state ~= 'complete' or Spawned.standing(call, jid))
      if is_open and other.parent ~= plan.spawner and may_adopt(call, plan.spawner, jid, other.parent) then
        others[#others + 1] = other
      end
    end
  end
  return others
end

-- Refuses children that would wait for what waits for their parent, or for one above it: what they wait for, that is to wait
-- for. (`planned` has the links of jobs in the plan that are no children, if any.)
local function refuse_cycles(call, plan, others)
  local jids, planned, is_mixed = {}, {}, false
  local function collect(list)
    for _, jid in ipairs(list) do
      local coming = plan.coming[jid]
      if jid ~= plan.spawner and not (coming and coming.adopted) then
        jids[#jids + 1] = jid
      end
    end
  end
  for _, job in ipairs(plan.jobs) do
    if plan.coming[job.jid] == job then
      local depends = job.replaces_links and job.depends
        or rcall('SMEMBERS', Keys.dependencies(call, job.jid))
      planned[job.jid] = job.adopted and {} or depends
      if job.adopted then
        collect(depends)
        collect(job.old and Spawned.children(call, job.jid, DEEPEST) or {})
      else
        is_mixed = true
      end
    end
  end
  for _, other in ipairs(others) do
    jids[#jids + 1] = other.jid
  end
  Cycles.refuse_children(call, plan.spawner, jids, is_mixed and planned or nil)
end

local function adopt(call, job, plan)
  local standing = job.state == 'failed' and Spawned.FAILED or Spawned.OPEN
  if job.state == 'complete' then
    standing = Spawned.standing(call, job.jid)
  end
  Features.add(call, job, 'c')
  rcall('HSET', job.key, 'parent', plan.spawner, 'spawned', plan.life)
  add(call, plan.spawner, job.jid, standing)
end

-- All new children are listed for those who want the results of all.
local function list_offspring(call, plan, others)
  local jids = {}
  for _, job in ipairs(plan.jobs) do
    if plan.coming[job.jid] == job and job.adopted and not (job.old and job.old.parent == plan.spawner) then
      jids[#jids + 1] = job.jid
    end
  end
  for _, other in ipairs(others) do
    jids[#jids + 1] = other.jid
  end
  if #jids > 0 then
    Features.note(call, 'N')
    Pieces.run('RPUSH', Keys.offspring(call, plan.spawner), jids)
    rcall('EXPIRE', Keys.offspring(call, plan.spawner), KEPT)
  end
end

-- Checks what a run wants to spawn: all belong to its workflow, if it has one.
local function plan_of(call, args, i, run)
  local plan = { jobs = Rows.parse(call, args, i), spawner = run.jid, life = run.spawns or call.text }
  for _, job in ipairs(plan.jobs) do
    if job.jid == run.jid then
      Errors.argument(call, 'job ' .. Errors.name(run.jid) .. ' cannot spawn itself')
    end
    Features.use(job, 'c')
    if run.workflow then
      job.options = job.options or {}
      job.options.workflow = job.options.workflow or run.workflow
      Features.use(job, 'w')
    end
  end
  plan.leaves = function(_, job)
    local old = job.old
    return old and run.spawns and old.parent == run.jid and old.spawned == run.spawns
  end
  return Put.check(call, plan)
end

-- spawn jid token worker (as put.many) -> as put.many. What an earlier run of the job has spawned is left alone.
function Spawned.spawn(call, args, i)
  local run = Lock.holder(call, args[i], args[i + 1])
  local asking = Arguments.given(call, 'worker', args[i + 2])
  if run.workflow then
    Workflows.must_go_on(call, run.workflow)
  end
  local plan = plan_of(call, args, i + 3, run)
  local others = others_of(call, plan)
  refuse_cycles(call, plan, others)
  local reply = Put.carry_out(call, plan, asking)
  for _, other in ipairs(others) do
    adopt(call, other, plan)
  end
  list_offspring(call, plan, others)
  Features.add(call, run, 'c')
  rcall('HSET', run.key, 'spawns', plan.life)
  return reply
end
