-- Cycle detection: no job may come to wait for itself, directly or through others.
--
-- Who waits for a job waits for ALL of it, which is its run and its children; a job below it waits for its RUN alone.
-- What is searched are nodes: one of these letters, and a jid.

local sub = string.sub
local rcall = redis.call

local ALL, RUN = 'a', 'r'

local MOST = 1000 -- jobs behind a job that are looked at before links are refused
local FAR = 10000 -- links that one call follows where links may not be refused any more

-- What of the other job a job waits for that depends on it.
local function node_of(call, jid, other)
  return (Spawned.is_below(call, jid, other) and RUN or ALL) .. other
end

-- The nodes that a node waits for; `planned` are links that are not written yet: jid -> jids.
local function awaited(call, node, planned)
  local jid, nodes = sub(node, 2), {}
  for _, other in ipairs(planned and planned[jid] or rcall('SMEMBERS', Keys.dependencies(call, jid))) do
    nodes[#nodes + 1] = node_of(call, jid, other)
  end
  for _, child in ipairs(call.has.S and sub(node, 1, 1) == ALL and Spawned.children(call, jid, MOST) or {}) do
    nodes[#nodes + 1] = ALL .. child
  end
  return nodes
end

-- The nodes that wait for a node. (Who waits for the run waits for all of it.)
local function waiters(call, node)
  local jid, nodes = sub(node, 2), {}
  local parent = call.has.S and Spawned.parent_of(call, jid)
  if parent then
    nodes[1] = ALL .. parent
  end
  for _, dependent in ipairs(rcall('SMEMBERS', Keys.dependents(call, jid))) do
    if sub(node, 1, 1) == RUN or not Spawned.is_below(call, dependent, jid) then
      nodes[#nodes + 1] = RUN .. dependent
    end
  end
  return nodes
end

-- Who waits for a node, directly or through others: mostly few. -> a set of nodes with its own; nil if they are too many
local function waiting_for(call, node)
  local waiting, line, n = { [node] = true }, { node }, 1
  while line[n] do
    if #line + rcall('SCARD', Keys.dependents(call, sub(line[n], 2))) > MOST then
      return nil
    end
    for _, waiter in ipairs(waiters(call, line[n])) do
      if not waiting[waiter] then
        waiting[waiter] = true
        line[#line + 1] = waiter
      end
    end
    n = n + 1
  end
  return waiting
end

-- Is it certain that none of the nodes waits for the other one? However much is behind them.
local function is_harmless(call, target, nodes, planned)
  local jid = sub(target, 2)
  if planned and (next(planned) ~= jid or next(planned, jid) ~= nil) then
    return false -- links of others are not written yet
  end
  local waiting = waiting_for(call, target)
  for n = 1, waiting and #nodes or 0 do
    if waiting[nodes[n]] or waiting[RUN .. sub(nodes[n], 2)] then
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

-- Refuses that a node comes to wait for these, if one of them waits for it.
local function search(call, target, nodes, planned)
  if #nodes == 0 or is_harmless(call, target, nodes, planned) then
    return
  end
  local jid, visited = sub(target, 2), 0
  local seen, path = {}, { Errors.name(jid) }
  local function walk(node)
    if node == target or node == ALL .. jid then
      path[#path + 1] = Errors.name(jid)
      refuse(call, jid, path)
    elseif seen[node] then
      return
    end
    seen[node] = true
    visited = visited + 1
    if visited > MOST then
      local words = 'more than %s jobs behind the dependencies of %s'
      Errors.refuse(call, 'TOOBIG', words, MOST, Errors.name(jid))
    end
    path[#path + 1] = Errors.name(sub(node, 2))
    for _, further in ipairs(awaited(call, node, planned)) do
      walk(further)
    end
    path[#path] = nil
  end
  for _, node in ipairs(nodes) do
    walk(node)
  end
end

local function nodes_of(call, jid, jids)
  local nodes = {}
  for n = 1, #jids do
    nodes[n] = node_of(call, jid, jids[n])
  end
  return nodes
end

-- Refuses links that would make a job wait for itself. `planned` are links not yet written: jid -> jids.
function Cycles.refuse(call, jid, jids, planned)
  search(call, RUN .. jid, nodes_of(call, jid, jids), planned)
end

-- Refuses children of a job that runs. `jids` are what they wait for, or children that are there already.
function Cycles.refuse_children(call, jid, jids, planned)
  search(call, ALL .. jid, nodes_of(call, jid, jids), planned)
end

-- Those of the jids that a job may wait for, because they do not wait for it. What is too far for one call to see
-- counts as harmless.
function Cycles.harmless(call, jid, jids)
  local waits, followed = { [RUN .. jid] = true, [ALL .. jid] = true }, 0
  local function walk(node)
    if waits[node] == nil then
      waits[node] = false
      local others = awaited(call, node)
      followed = followed + #others
      for n = 1, #others do
        if followed <= FAR and walk(others[n]) then
          waits[node] = true
          break
        end
      end
    end
    return waits[node]
  end
  local harmless = {}
  for _, other in ipairs(jids) do
    if not walk(node_of(call, jid, other)) then
      harmless[#harmless + 1] = other
    end
  end
  return harmless
end
