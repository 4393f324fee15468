-- Cycle detection: no job may come to wait for itself, directly or through others. Who waits for a job waits for its
-- children, too, so a job that has any counts as waiting for them.

local rcall = redis.call

local MOST = 1000 -- jobs behind a job that are looked at before links are refused
local FAR = 10000 -- links that one call follows where links may not be refused any more

-- What a job waits for by these dependencies, and for its children.
local function waits_for(call, jid, dependencies)
  return call.has.S and Spawned.waits_for(call, jid, dependencies) or dependencies
end

-- Which jobs wait for a job: its dependents, and its parent.
local function waiters(call, jid)
  local dependents = rcall('SMEMBERS', Keys.dependents(call, jid))
  return call.has.S and Spawned.waiters(call, jid, dependents) or dependents
end

-- Who waits for a job, directly or through others: mostly few. -> a set of jids with its own; nil if they are too many
local function waiting_for(call, jid)
  local waiting, line, n = { [jid] = true }, { jid }, 1
  while line[n] do
    if #line + rcall('SCARD', Keys.dependents(call, line[n])) > MOST then
      return nil
    end
    for _, dependent in ipairs(waiters(call, line[n])) do
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
local function is_harmless(call, jid, jids, planned)
  if planned and (next(planned) ~= jid or next(planned, jid) ~= nil) then
    return false -- links of others are not written yet
  end
  local waiting = waiting_for(call, jid)
  for n = 1, waiting and #jids or 0 do
    if waiting[jids[n]] then
      return false
    end
  end
  return waiting ~= nil
end

local function refuse(call, jid, path)
  local words = 'Job %s would wait for itself: %s'
  Errors.refuse(call, 'CYCLE', words, Errors.name(jid), table.concat(path, ' waits for '))
end

-- Refuses the link that makes the shortest cycle.
function Cycles.refuse_self(call, jid, jids)
  for n = 1, #jids do
    if jids[n] == jid then
      refuse(call, jid, { Errors.name(jid), Errors.name(jid) })
    end
  end
end

-- Refuses links that would make a job wait for itself. `planned` are links not yet written: jid -> jids.
function Cycles.refuse(call, jid, jids, planned)
  jids = #jids > 0 and call.has.S and Spawned.not_above(call, jid, jids) or jids
  if #jids == 0 or is_harmless(call, jid, jids, planned) then
    return
  end
  local seen, path, visited = {}, { Errors.name(jid) }, 0
  local function walk(current)
    if current == jid then
      path[#path + 1] = Errors.name(current)
      refuse(call, jid, path)
    elseif seen[current] then
      return
    end
    seen[current] = true
    visited = visited + 1
    if visited > MOST then
      local words = 'more than %s jobs behind the dependencies of %s'
      Errors.refuse(call, 'TOOBIG', words, MOST, Errors.name(jid))
    end
    path[#path + 1] = Errors.name(current)
    local dependencies = planned and planned[current] or rcall('SMEMBERS', Keys.dependencies(call, current))
    for _, further in ipairs(waits_for(call, current, dependencies)) do
      walk(further)
    end
    path[#path] = nil
  end
  for _, other in ipairs(jids) do
    walk(other)
  end
end

-- Those of the jids that a job may wait for, because they do not wait for it. What is too far for one call to see
-- counts as harmless.
function Cycles.harmless(call, jid, jids)
  local waits, followed = { [jid] = true }, 0
  local function walk(current)
    if waits[current] == nil then
      waits[current] = false
      local others = waits_for(call, current, rcall('SMEMBERS', Keys.dependencies(call, current)))
      followed = followed + #others
      for n = 1, #others do
        if followed <= FAR and walk(others[n]) then
          waits[current] = true
          break
        end
      end
    end
    return waits[current]
  end
  local harmless = {}
  for _, other in ipairs(jids) do
    if Spawned.is_below(call, jid, other) or not walk(other) then
      harmless[#harmless + 1] = other
    end
  end
  return harmless
end
