-- Turns: the tenants of a queue one after the other (`fair_by`).
--
-- Of each tenant one job stands in the work of a queue; when it is taken the next one comes, behind those of
-- the other tenants that stand there.

local find = string.find

-- How many jobs of a tenant are tried, if another core has taken those that stand first.
local TRIED = 10

local function exact(time)
  return string.format('%.17g', time)
end

function Turns.is_tenant(name)
  return find(name, '^fair:') ~= nil
end

-- The tenant's next job comes to stand in the work.
function Turns.next_of_tenant(name)
  if call('EXISTS', key.limit_called(name)) == 1 then
    return
  end
  local list = call('ZREVRANGE', key.limit_aside(name), 0, TRIED - 1, 'WITHSCORES')
  for n = 1, #list, 2 do
    if Limits.bring(list[n], name, list[n + 1], true) then
      return
    end
  end
end

-- The tenant for which another job stands in the work, so that this one waits for its turn; or nil. (Who was called
-- was in line already.)
function Turns.obstacle(queue, job, was_called)
  local tenant = job.fair_by and not was_called and LimitSettings.of_tenant(queue, job.fair_by)
  if tenant and call('EXISTS', key.limit_called(tenant)) == 1 then
    return tenant
  end
end

-- A job becomes ready by its put: does it wait for its turn from the start? If not, it stands for its tenant.
function Turns.set_aside(jid, queue, job)
  local name = Turns.obstacle(queue, job, false)
  if name then
    Limits.set_aside(jid, queue, name, exact(Places.score(job.priority, scope.now)), nil, {})
    return true
  end
  Limits.note_called(jid, {}, LimitSettings.of_tenant(queue, job.fair_by), NumberFormat.now())
  return false
end

-- Drops the job that stands in the work for its tenant if it has ended under another core.
local function heal_tenant(name)
  local jid = SortedSet.first(key.limit_called(name))
  local queue = jid and call('HGET', key.job(jid), 'queue')
  if jid and not call('ZSCORE', key.place(queue or '', 'work'), jid) then
    call('ZREM', key.limit_called(name), jid)
  end
end

-- A job waits long for its turn: does it come?
function Turns.look(name)
  heal_tenant(name)
  Turns.next_of_tenant(name)
end
