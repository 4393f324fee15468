-- Turns: the jobs of one key in the order of their puts (`ordered`), and tenants one after the other (`fair_by`).
--
-- An ordered job has a position among those of its key from its put to its end: only the first is handed out. Of
-- each tenant one job stands in the work of a queue; when it is taken the next one comes, behind those of
-- the other tenants that stand there.

local find = string.find

-- How many jobs of a tenant are tried, if another core has taken those that stand first.
local TRIED = 10

local ACTIVE = { waiting = true, stalled = true, running = true, scheduled = true }

local function exact(time)
  return string.format('%.17g', time)
end

function Turns.is_tenant(name)
  return find(name, '^fair:') ~= nil
end

function Turns.is_order(name)
  return find(name, '^order:') ~= nil
end

-- The job takes the last position. (Nothing changes if it has one.)
function Turns.join(jid, name)
  local order = key.limit_order(name)
  local _, last = SortedSet.last(order)
  call('ZADD', order, 'NX', (last or 0) + 1, jid)
  call('HSET', key.job(jid), 'turn', name, 'rare', '1')
end

-- The first of a key that has not missed its deadline; those before it end with the call. -> its jid, when it will
-- have missed it, if it has not started
local function head_of(name)
  repeat
    local jid = SortedSet.first(key.limit_order(name))
    local state, deadline
    if jid then
      state, deadline = Hash.values(key.job(jid), 'state', 'deadline')
    end
    if not Deadline.is_missed(state, deadline) then
      return jid, Unique.is_pending(state) and Record.read('deadline', deadline or nil)
    end
    Deadline.note(jid)
    call('ZREM', key.limit_order(name), jid)
  until false
end

-- The first of a key is back in the work, if it was set aside for its turn.
function Turns.call_head(name)
  local jid = head_of(name)
  local score = jid and call('ZSCORE', key.limit_aside(name), jid)
  if score then
    Limits.bring(jid, name, score)
  end
end

-- The job has ended, or waits for others: those behind it go on.
function Turns.leave(jid, name)
  call('ZREM', key.limit_order(name), jid)
  call('HDEL', key.job(jid), 'turn')
  Turns.call_head(name)
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

-- The name of the order that a job stands in; it joins if it does not yet.
local function order_of(jid, klass, job)
  if job.ordered and job.limit_key and not job.turn then
    job.turn = LimitSettings.of_order(klass, job.limit_key)
    Turns.join(jid, job.turn)
  end
  return job.turn
end

-- What holds a job back because it is not its turn: the name, or nil; when to look again, if that is known. (Who was
-- called was in line already.)
function Turns.obstacle(jid, queue, klass, job, was_called)
  local order = order_of(jid, klass, job)
  if order then
    local head, misses = head_of(order)
    if head ~= jid then
      return order, misses or nil
    end
  end
  local tenant = job.fair_by and not was_called and LimitSettings.of_tenant(queue, job.fair_by)
  if tenant and call('EXISTS', key.limit_called(tenant)) == 1 then
    return tenant
  end
end

-- A job becomes ready by its put: does it wait for its turn from the start? If not, it stands for its tenant.
function Turns.set_aside(jid, queue, klass, job)
  local name, look = Turns.obstacle(jid, queue, klass, job, false)
  local score = exact(Places.score(job.priority, scope.now))
  if name then
    Limits.set_aside(jid, queue, name, score, look, {})
    return true
  elseif job.fair_by then
    Limits.note_called(jid, {}, LimitSettings.of_tenant(queue, job.fair_by), NumberFormat.now())
  end
  return false
end

-- Drops the first of a key if it has ended under another core.
local function heal_order(name)
  local jid = head_of(name)
  if jid then
    local state, turn = Hash.values(key.job(jid), 'state', 'turn')
    if turn ~= name or not ACTIVE[state] then
      call('ZREM', key.limit_order(name), jid)
    end
  end
end

-- The same for the job that stands in the work for its tenant.
local function heal_tenant(name)
  local jid = SortedSet.first(key.limit_called(name))
  local queue = jid and call('HGET', key.job(jid), 'queue')
  if jid and not call('ZSCORE', key.place(queue or '', 'work'), jid) then
    call('ZREM', key.limit_called(name), jid)
  end
end

-- A job waits long for its turn: does it come?
function Turns.look(name)
  if Turns.is_order(name) then
    heal_order(name)
    Turns.call_head(name)
  else
    heal_tenant(name)
    Turns.next_of_tenant(name)
  end
end
