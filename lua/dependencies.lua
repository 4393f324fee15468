-- Dependencies: symmetric links between jobs, and the release of those that waited.

-- Links followed at most when a cycle is looked for, and dependents dealt with by one call.
local MOST = 1000

-- Links cut off that count as much as a dependent dealt with.
local LIGHT = 20

-- Jobs whose dependents one call takes up again at most.
local FEW = 50

-- How many dependents this call may still deal with.
function Dependencies.left()
  return scope.dependents_left or MOST
end

function Dependencies.spend(n)
  scope.dependents_left = Dependencies.left() - n
end

-- What has failed already would cancel its dependent: refused, or where nothing may be refused any
-- more, noted.
local function meet_failed(command, jid, how)
  if how and how.lenient then
    how.failed = how.failed or {}
    how.failed[#how.failed + 1] = jid
    return
  end
  Errors.raise(
    'STATE',
    '%s(): Job %s has failed already, so what is to be canceled with it cannot wait for it',
    command,
    Errors.name(jid)
  )
end

function Dependencies.unknown(command, jid, how)
  if not (how and how.lenient) then
    Errors.no_job(command, jid)
  end
end

-- Does a job also wait for what those have spawned that it depends on?
Dependencies.follows_spawned = true

function Dependencies.set_of(jids)
  local set = {}
  for _, jid in ipairs(jids) do
    set[jid] = true
  end
  return set
end

-- The jids without those of the set `met`, known to be complete, that have no record any more. A job for which `awaited`
-- holds is not looked for.
function Dependencies.without_met(jids, met, awaited)
  local left = {}
  for _, jid in ipairs(jids) do
    if not met[jid] or (awaited and awaited[jid]) or call('EXISTS', key.job(jid)) == 1 then
      left[#left + 1] = jid
    end
  end
  return left
end

-- Which of the jids hold a job back. Unknown ones are refused; `coming` are the jids that the same call is
-- about to put. What has failed holds back by the job's policy for failures; `how` is that of PutMany.plan, `one`
-- the job itself if it is there already (what is spawned does not wait for its siblings). -> the jids; the jobs
-- that still have spawned ones to be waited for, as the field `beyond` names them, or nil
function Dependencies.open(command, jids, coming, policy, how, one)
  local open, beyond = {}, nil
  for _, jid in ipairs(jids) do
    local is_coming = coming and coming[jid] or (how and how.known and how.known(jid))
    local record = is_coming and { 'waiting' } or call('HMGET', key.job(jid), 'state', 'rare', 'deadline')
    local state = record[1]
    if record[3] and Deadline.is_missed(state, record[3]) then
      Deadline.note(jid)
      state = 'failed'
    end
    if not state then
      Dependencies.unknown(command, jid, how)
    elseif state == 'complete' then
      if record[2] and Dependencies.follows_spawned and not (one and Spawned.is_one(jid, one)) then
        local more, failed = Spawned.unfinished(jid, policy, MOST - #open)
        if failed and policy == 'cancel' then
          meet_failed(command, failed, how)
        end
        if #more > 0 then
          beyond = beyond or {}
          beyond[#beyond + 1] = jid
          for n = 1, #more do
            open[#open + 1] = more[n]
          end
        end
      end
    elseif not (state == 'failed' and policy == 'run') then
      if state == 'failed' and policy == 'cancel' then
        meet_failed(command, jid, how)
      end
      open[#open + 1] = jid
    end
  end
  return open, beyond and cjson.encode(beyond)
end

-- The same for a job that exists and that keeps its policy.
function Dependencies.open_for(command, jid, jids)
  if #jids == 0 then
    return jids
  end
  return Dependencies.open(command, jids, nil, call('HGET', key.job(jid), 'on_failure'), nil, jid)
end

-- A job waits for others. If it has a policy for their failures, they must know that: `followed`.
function Dependencies.link(jid, jids, policy)
  local followed = policy and policy ~= 'block'
  for _, other in ipairs(jids) do
    local name = key.dependents(other)
    ExistenceCache.forget(name)
    call('SADD', name, jid)
    if followed then
      call('HSET', key.job(other), 'followed', '1', 'rare', '1')
    end
  end
  SortedSet.add_to_set(key.dependencies(jid), jids)
end

-- A job has another policy than before, and waits for the same others. (A gate has no record.)
function Dependencies.follow(jid, policy)
  for _, other in ipairs(policy ~= 'block' and call('SMEMBERS', key.dependencies(jid)) or {}) do
    if call('EXISTS', key.job(other)) == 1 then
      call('HSET', key.job(other), 'followed', '1', 'rare', '1')
    end
  end
end

-- A job waits for what is open of these; nothing is refused. What is seen to wait for it is left out.
function Dependencies.link_again(jid, jids)
  local policy, how = call('HGET', key.job(jid), 'on_failure'), { lenient = true }
  local open, beyond = Dependencies.open('depends', jids, nil, policy, how, jid)
  local harmless, tired = CycleDetection.harmless(jid, open)
  Dependencies.link(jid, tired and open or harmless, policy)
  for _, spawner in ipairs(Record.read('beyond', beyond, {})) do
    Spawned.look_beyond(jid, spawner)
  end
  Dependencies.follow_failed(how)
end

-- A job that depends on others gains dependencies.
function Dependencies.attach(jid, jids)
  DependencyResults.add(jid, jids)
  Dependencies.link_again(jid, jids)
end

-- Those that `open` has noted: now that the links are there, they have their effect.
function Dependencies.follow_failed(how)
  for _, jid in ipairs(how and how.failed or {}) do
    Cascade.follow(jid, 'failed')
  end
end

function Dependencies.unlink(jid, jids)
  for _, other in ipairs(jids) do
    call('SREM', key.dependents(other), jid)
    call('SREM', key.dependencies(jid), other)
  end
end

function Dependencies.unlink_all(jid)
  local others = call('SMEMBERS', key.dependencies(jid))
  for _, other in ipairs(others) do
    call('SREM', key.dependents(other), jid)
  end
  call('DEL', key.dependencies(jid))
  Dependencies.spend(math.floor(#others / LIGHT))
end

-- Is there nothing that holds the job back but what it does not know of yet?
local function free_rare(jid)
  local beyond, workflow, on_failure = Hash.values(key.job(jid), 'beyond', 'workflow', 'on_failure')
  if Record.is_bad('beyond', beyond) then
    CorruptJobs.fail(jid, 'beyond', beyond)
    return false
  end
  if beyond and Spawned.holds_back(jid, beyond, on_failure) then
    return false
  end
  return true, workflow
end

-- Nothing holds the job back any longer: it becomes ready, or waits for its time.
function Dependencies.free(jid)
  local state, queue, priority, scheduled, rare =
    Hash.values(key.job(jid), 'state', 'queue', 'priority', 'scheduled', 'rare')
  if state ~= 'depends' then
    CorruptJobs.look_at_state(jid, state, queue)
    return
  elseif Record.is_bad('scheduled', scheduled) then
    CorruptJobs.fail(jid, 'scheduled', scheduled)
    return
  end
  local workflow
  if rare then
    local is_free
    is_free, workflow = free_rare(jid)
    if not is_free then
      return
    end
  end
  call('ZREM', key.place(queue, 'depends'), jid)
  local time = Record.read('scheduled', scheduled)
  if time then
    call('HDEL', key.job(jid), 'scheduled')
    call('HSET', key.job(jid), 'state', 'scheduled')
    Places.scheduled(jid, queue, time)
  else
    call('HSET', key.job(jid), 'state', 'waiting')
    Places.ready_since(jid, scope.now)
    Places.work(jid, queue, Record.read('priority', priority, 0))
  end
  if workflow then
    Workflow.moved(workflow, 'depends', time and 'scheduled' or 'waiting')
  end
end

function Dependencies.free_if_last(jid)
  if call('SCARD', key.dependencies(jid)) == 0 then
    Dependencies.free(jid)
  end
end

-- Up to as many of the dependents of a job that is done with as the call may still deal with (or
-- `most`, if that is less); they are no members any more. What is left is noted in the list `later`.
function Dependencies.take_some(jid, later, most)
  local name = key.dependents(jid)
  local dependents, number = {}, call('SCARD', name)
  local left = Dependencies.left()
  most = math.min(left, most or left)
  if number > most then
    dependents = call('SPOP', name, most)
    call('ZADD', later, scope.now, jid)
  else
    if number > 0 then
      dependents = call('SMEMBERS', name)
      call('DEL', name)
    end
    call('ZREM', later, jid)
  end
  Dependencies.spend(#dependents)
  for _, dependent in ipairs(dependents) do
    call('SREM', key.dependencies(dependent), jid)
  end
  return dependents
end

local function release_some(jid, spawner)
  spawner = spawner and Spawned.has_unfinished(jid)
  for _, dependent in ipairs(Dependencies.take_some(jid, key.releasing())) do
    if spawner then
      Spawned.look_beyond(dependent, jid)
    end
    Dependencies.free_if_last(dependent)
  end
end

-- After the jobs were completed: frees what waited for them, a bounded number at a time. `rare` are
-- those of them that may have spawned others.
function Dependencies.release(jids, rare)
  if #jids == 1 and ExistenceCache.is_absent(key.dependents(jids[1])) then
    return
  end
  local names = {}
  for n, jid in ipairs(jids) do
    names[n] = key.dependents(jid)
  end
  if #names == 0 or call('EXISTS', unpack(names)) == 0 then
    return
  end
  for n, jid in ipairs(jids) do
    if call('EXISTS', names[n]) == 1 then
      if Dependencies.left() > 0 then
        release_some(jid, rare and rare[jid])
      else
        call('ZADD', key.releasing(), scope.now, jid)
      end
    end
  end
end

-- The first job of a list, or nil; mostly there is no such list.
local function first_of(name)
  if Dependencies.left() <= 0 or ExistenceCache.is_absent(name) or call('EXISTS', name) == 0 then
    return nil
  end
  return call('ZRANGE', name, 0, 0)[1]
end

local function go_on_releasing(jid)
  -- Its record may have expired meanwhile; if it was put again, the rest waits for its new run.
  if (call('HGET', key.job(jid), 'state') or 'complete') == 'complete' then
    release_some(jid, true)
  else
    call('ZREM', key.releasing(), jid)
  end
end

local function go_on(name, act)
  for _ = 1, FEW do
    local jid = first_of(name)
    if not jid then
      return
    end
    act(jid)
  end
end

-- Carries on with what earlier calls had to leave.
function Dependencies.carry_on()
  go_on(key.releasing(), go_on_releasing)
  go_on(key.cascading(), function(jid)
    Cascade.carry_on(jid)
  end)
end
