-- Dependencies: symmetric links between jobs, and the release of those that waited.
local Absence, Errors, Arguments, Place, SortedSet, scope, key =
  Qless.Absence, Qless.Errors, Qless.Arguments, Qless.Place, Qless.SortedSet, Qless.scope, Qless.key

local Dependencies = {}
Qless.Dependencies = Dependencies

local call = redis.call

-- Links followed at most when a circle is looked for, and dependents released by one call.
local MOST = 1000

-- What this call may still release.
local budget

function Dependencies.reset()
  budget = MOST
end

-- Which of the jids hold a job back. Without KEYS unknown ones are ignored, with KEYS refused;
-- `coming` are the jids that the same call is about to put.
function Dependencies.open(command, jids, coming)
  local open = {}
  for _, jid in ipairs(jids) do
    local state = coming and coming[jid] and 'waiting' or call('HGET', key.job(jid), 'state')
    if not state and scope.keyed then
      Errors.no_job(command, jid)
    end
    if state and state ~= 'complete' then
      open[#open + 1] = jid
    end
  end
  return open
end

-- Refuses links that would make a job wait for itself. `planned` are links not yet written.
function Dependencies.no_circle(command, jid, jids, planned)
  local seen, path, visited = {}, {}, 0
  local function walk(current)
    if current == jid then
      path[#path + 1] = Errors.name(current)
      Errors.raise(
        'CYCLE',
        command
          .. '(): Job '
          .. Errors.name(jid)
          .. ' would wait for itself: '
          .. table.concat(path, ' waits for ')
      )
    end
    if seen[current] then
      return
    end
    seen[current] = true
    visited = visited + 1
    if visited > MOST then
      Errors.raise(
        'TOOBIG',
        command .. '(): more than ' .. MOST .. ' jobs behind the dependencies of ' .. Errors.name(jid)
      )
    end
    path[#path + 1] = Errors.name(current)
    for _, further in ipairs(planned and planned[current] or call('SMEMBERS', key.dependencies(current))) do
      walk(further)
    end
    path[#path] = nil
  end
  path[1] = Errors.name(jid)
  for _, other in ipairs(jids) do
    walk(other)
  end
end

function Dependencies.link(jid, jids)
  for _, other in ipairs(jids) do
    local name = key.dependents(other)
    Absence.forget(name)
    call('SADD', name, jid)
  end
  SortedSet.add_to_set(key.dependencies(jid), jids)
end

function Dependencies.unlink(jid, jids)
  for _, other in ipairs(jids) do
    call('SREM', key.dependents(other), jid)
    call('SREM', key.dependencies(jid), other)
  end
end

function Dependencies.unlink_all(jid)
  for _, other in ipairs(call('SMEMBERS', key.dependencies(jid))) do
    call('SREM', key.dependents(other), jid)
  end
  call('DEL', key.dependencies(jid))
end

-- Nothing holds the job back any longer: it becomes ready, or waits for its time.
function Dependencies.free(jid)
  local record = call('HMGET', key.job(jid), 'state', 'queue', 'priority', 'scheduled', 'open')
  if record[1] ~= 'depends' or record[5] == '1' then
    return
  end
  local queue = record[2]
  call('ZREM', key.place(queue, 'depends'), jid)
  local time = tonumber(record[4])
  if time then
    call('HDEL', key.job(jid), 'scheduled')
    call('HSET', key.job(jid), 'state', 'scheduled')
    Place.scheduled(jid, queue, time)
  else
    call('HSET', key.job(jid), 'state', 'waiting')
    Place.ready_since(jid, scope.now)
    Place.work(jid, queue, tonumber(record[3]) or 0)
  end
end

local function release_some(jid)
  local name = key.dependents(jid)
  local dependents
  if call('SCARD', name) <= budget then
    dependents = call('SMEMBERS', name)
    call('DEL', name)
    call('ZREM', key.releasing(), jid)
  else
    dependents = call('SPOP', name, budget)
    call('ZADD', key.releasing(), scope.now, jid)
  end
  for _, dependent in ipairs(dependents) do
    call('SREM', key.dependencies(dependent), jid)
    if call('SCARD', key.dependencies(dependent)) == 0 then
      Dependencies.free(dependent)
    end
  end
  budget = budget - #dependents
end

-- After the jobs were completed: frees what waited for them, a bounded number at a time.
function Dependencies.release(jids)
  if #jids == 1 and Absence.is_absent(key.dependents(jids[1])) then
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
      if budget > 0 then
        release_some(jid)
      else
        call('ZADD', key.releasing(), scope.now, jid)
      end
    end
  end
end

-- Carries on with what earlier calls had to leave.
function Dependencies.carry_on()
  local releasing = key.releasing()
  if budget <= 0 or Absence.is_absent(releasing) or call('EXISTS', releasing) == 0 then
    return
  end
  local jid = call('ZRANGE', key.releasing(), 0, 0)[1]
  -- Its record may have expired meanwhile; if it was put again, the rest waits for its new run.
  if (call('HGET', key.job(jid), 'state') or 'complete') == 'complete' then
    release_some(jid)
  else
    call('ZREM', key.releasing(), jid)
  end
end

local function in_depends(jid)
  if call('HGET', key.job(jid), 'state') ~= 'depends' then
    Errors.raise('STATE', 'depends(): Job ' .. Errors.name(jid) .. ' is not in the depends state')
  end
end

local function free_if_last(jid)
  if call('SCARD', key.dependencies(jid)) == 0 then
    Dependencies.free(jid)
  end
end

-- depends jid on|off jid...   depends jid off all
function Dependencies.command(args, i)
  local jid = Arguments.given('depends', 'jid', args[i])
  local word = Arguments.given('depends', 'on or off', args[i + 1])
  if word ~= 'on' and word ~= 'off' then
    Errors.argument('depends', 'Argument "on" or "off" wanted, not ' .. Errors.name(word))
  end
  in_depends(jid)
  local jids = {}
  for n = i + 2, #args do
    jids[#jids + 1] = args[n]
  end
  Arguments.bounded('depends', #jids)
  if word == 'on' then
    local open = Dependencies.open('depends', jids)
    Dependencies.no_circle('depends', jid, open)
    Dependencies.link(jid, open)
  elseif jids[1] == 'all' then
    Dependencies.unlink_all(jid)
    free_if_last(jid)
  else
    Dependencies.unlink(jid, jids)
    free_if_last(jid)
  end
  return 1
end

-- seal jid: a job that was put open gains no more dependencies and may become ready.
function Dependencies.seal(args, i)
  local jid = Arguments.given('seal', 'jid', args[i])
  if call('EXISTS', key.job(jid)) == 0 then
    Errors.no_job('seal', jid)
  end
  if call('HDEL', key.job(jid), 'open') == 1 then
    free_if_last(jid)
  end
  return 1
end
