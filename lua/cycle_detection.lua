-- Cycle detection: no job may come to wait for itself, directly or through others.

local MOST = 1000 -- jobs behind a job that are looked at before links are refused
local FAR = 10000 -- links that one call follows where links may not be refused any more

-- Links that this call has checked and is going to make, by jid.
function CycleDetection.intend(planned)
  scope.intended = planned
end

-- How many links this call has followed.
local function followed()
  return scope.links_followed or 0
end

-- Who waits for a job, directly or through others: mostly few. -> a set of jids with its own; nil if
-- they are too many
local function waiting_for(jid)
  local waiting, line = { [jid] = true }, { jid }
  local n = 1
  while line[n] do
    local name = key.dependents(line[n])
    if #line + call('SCARD', name) > MOST then
      return nil
    end
    for _, dependent in ipairs(call('SMEMBERS', name)) do
      if not waiting[dependent] then
        waiting[dependent] = true
        line[#line + 1] = dependent
      end
    end
    n = n + 1
  end
  return waiting
end

-- Is it certain that none of the jids waits for the job? However much is behind them.
local function is_harmless(jid, jids, planned)
  if planned and (next(planned) ~= jid or next(planned, jid) ~= nil) then
    return false -- links of others are not written yet
  end
  local waiting = waiting_for(jid)
  for n = 1, waiting and #jids or 0 do
    if waiting[jids[n]] then
      return false
    end
  end
  return waiting ~= nil
end

local function refuse(command, jid, path)
  Errors.raise(
    'CYCLE',
    '%s(): Job %s would wait for itself: %s',
    command,
    Errors.name(jid),
    table.concat(path, ' waits for ')
  )
end

-- Refuses the link that makes the shortest cycle.
function CycleDetection.refuse_self(command, jid, jids)
  for n = 1, jids and #jids or 0 do
    if jids[n] == jid then
      refuse(command, jid, { Errors.name(jid), Errors.name(jid) })
    end
  end
end

-- Refuses links that would make a job wait for itself. `planned` are links not yet written.
function CycleDetection.refuse(command, jid, jids, planned)
  if is_harmless(jid, jids, planned) then
    return
  end
  local seen, path, visited = {}, { Errors.name(jid) }, 0
  local function walk(current)
    if current == jid then
      path[#path + 1] = Errors.name(current)
      refuse(command, jid, path)
    end
    if seen[current] then
      return
    end
    seen[current] = true
    visited = visited + 1
    if visited > MOST then
      Errors.raise(
        'TOOBIG',
        '%s(): more than %s jobs behind the dependencies of %s',
        command,
        MOST,
        Errors.name(jid)
      )
    end
    path[#path + 1] = Errors.name(current)
    for _, further in ipairs(planned and planned[current] or call('SMEMBERS', key.dependencies(current))) do
      walk(further)
    end
    path[#path] = nil
  end
  for _, other in ipairs(jids) do
    walk(other)
  end
end

-- What a job waits for, or is going to.
local function behind(jid)
  local jids = call('SMEMBERS', key.dependencies(jid))
  for _, other in ipairs(scope.intended and scope.intended[jid] or {}) do
    jids[#jids + 1] = other
  end
  return jids
end

-- Has this call followed none yet, so that it can see as far as any?
function CycleDetection.is_fresh()
  return followed() == 0
end

-- Those of the jids that a job may wait for, because they do not wait for it. Refuses nothing: what is
-- too far for one call to see is not harmless. -> the jids, and whether there was such
function CycleDetection.harmless(jid, jids)
  if not scope.intended and call('EXISTS', key.dependents(jid)) == 0 then
    local others = {}
    for _, other in ipairs(jids) do
      others[#others + 1] = other ~= jid and other or nil
    end
    return others, false
  end
  local tired, waits = false, { [jid] = true }
  -- Does a job wait for the one, or is it too far to see?
  local function walk(current)
    if waits[current] == nil then
      local others = behind(current)
      waits[current] = false
      scope.links_followed = followed() + #others
      tired = followed() > FAR
      for n = 1, #others do
        if tired or walk(others[n]) then
          waits[current] = true
          break
        end
      end
    end
    return waits[current]
  end
  local harmless = {}
  for _, other in ipairs(jids) do
    if not walk(other) then
      harmless[#harmless + 1] = other
    end
  end
  return harmless, tired
end
