-- Limits: what a job needs before it is handed out; who lacks it is set aside, and called when there is room.
--
-- A job that is set aside stands in the place `aside` of its queue and in the list of the limit that holds it back,
-- with its score in the work; its state stays waiting. When a limit has room it calls as many of its jobs as
-- there is room for: these are back in the work, and what they need is looked at again when they are taken. Room
-- that was called for is not given to those who come later, until the called are late.

-- Jobs called by one call of a client; limits looked at by one.
local CALLED, LOOKED = 250, 50

-- How many of those that are next have their queues look whether the called are late.
local NEXT = 5

-- Seconds: after which a called job that is not taken counts no longer (its queue may be paused), and between
-- two looks at a limit that holds something back, whatever happens.
local LATE, EVERY = 5, 60

local function exact(time)
  return string.format('%.17g', time)
end

-- How many more jobs may run under the limit, of which one `holds` it already (as one whose lock was lost).
local function room_of(limit, holds)
  local room = math.huge
  if limit.most then
    room = limit.most - Holders.count(limit.name) + (holds and 1 or 0)
  end
  if room > 0 and limit.rate then
    room = math.min(room, (Rates.room(limit.name, limit.rate)))
  end
  return room
end

-- The same without those that are called already. -> room, whether there is none, whatever is called
local function uncalled_room(limit, holds)
  local room = room_of(limit, holds)
  if room < 1 then
    return 0, true
  end
  return room - call('ZCOUNT', key.limit_called(limit.name), exact(scope.now - LATE), '+inf')
end

-- When a limit that holds something back, and has no room, is to be looked at again.
local function next_look(limit)
  local look = scope.now + EVERY
  local _, called = SortedSet.first(key.limit_called(limit.name))
  look = called and math.min(look, called + LATE) or look
  if limit.rate then
    look = math.min(look, Rates.opens(limit.name, limit.rate) or look)
  end
  if limit.most then
    look = math.min(look, Holders.next_look(limit.name) or look)
  end
  return math.max(look, scope.now)
end

-- Notes when a limit, by name, is to be looked at by those who serve the queue.
local function look_at(name, queue, time)
  call('ZADD', key.place(queue, 'openings'), 'LT', exact(time), name)
  Wake.due(queue, time)
end

-- Those that are next have their queues look after so many seconds: whether the called are late, or for further ones.
local function look_after(name, seconds)
  for _, jid in ipairs(call('ZREVRANGE', key.limit_aside(name), 0, NEXT - 1)) do
    look_at(name, call('HGET', key.job(jid), 'queue') or '', scope.now + seconds)
  end
end

-- Sets a job aside, which is in no place. `job` has state, rare, called. `look` is when the limit is looked at again.
function Limits.set_aside(jid, queue, name, score, look, job)
  scope.set_aside = (scope.set_aside or 0) + 1
  LimitSettings.mark()
  call('ZADD', key.place(queue, 'aside'), score, jid)
  call('ZADD', key.limit_aside(name), score, jid)
  call('HSET', key.job(jid), 'aside', name, 'rare', '1')
  if job.state == 'running' then -- its lock was lost
    call('HSET', key.job(jid), 'state', 'waiting', 'worker', '', 'expires', 0)
    call('HDEL', key.job(jid), 'token')
    call('ZREM', key.place(queue, 'locks'), jid)
    JobEnd.goes_on({ jid = jid, rare = job.rare }, 'waiting')
  end
  look_at(name, queue, math.max(math.min(look or math.huge, scope.now + EVERY), scope.now))
end

local function note_called(jid, names)
  if names[1] then
    call('HSET', key.job(jid), 'called', cjson.encode(names), 'rare', '1')
  else
    call('HDEL', key.job(jid), 'called')
  end
end

-- The job counts among those that the limit has called: from now on, or for as long as it waits for another one.
function Limits.note_called(jid, called, name, time)
  call('ZADD', key.limit_called(name), time, jid)
  for _, other in ipairs(called) do
    if other == name then
      return
    end
  end
  called[#called + 1] = name
  note_called(jid, called)
end

-- It is handed out, held back by this limit (`name`), or gone: it is not called any longer. Others may be.
function Limits.uncall(jid, called, klass, name)
  local rest, freed = {}, {}
  for _, other in ipairs(called) do
    if not name or other == name or Turns.is_tenant(other) then
      call('ZREM', key.limit_called(other), jid)
      freed[#freed + 1] = other
    else
      rest[#rest + 1] = other
    end
  end
  if freed[1] then
    note_called(jid, rest)
  end
  for _, other in ipairs(freed) do
    if other ~= name then
      Limits.call_up(other, klass)
    end
  end
end

-- Takes a job out of where it was set aside.
local function leave_aside(jid, queue, name)
  call('ZREM', key.place(queue or '', 'aside'), jid)
  call('ZREM', key.limit_aside(name), jid)
  call('HDEL', key.job(jid), 'aside')
end

-- Brings a job back into the work that the limit has set aside. -> whether it was not there for nothing
function Limits.bring(jid, name, score, afresh)
  local queue, state, priority, aside, its_called =
    Hash.values(key.job(jid), 'queue', 'state', 'priority', 'aside', 'called')
  if not queue or aside ~= name or (state ~= 'waiting' and state ~= 'stalled') then
    call('ZREM', key.limit_aside(name), jid) -- another core has moved it
    call('ZREM', key.place(queue or '', 'aside'), jid)
    return false
  end
  leave_aside(jid, queue, name)
  if afresh and score ~= 'inf' then
    score = exact(Places.score(Record.read('priority', priority, 0), scope.now))
  end
  call('ZADD', key.place(queue, 'work'), score, jid)
  Wake.ready(queue)
  local called = Record.read('called', its_called, {})
  for _, other in ipairs(called) do
    call('ZADD', key.limit_called(other), 'XX', NumberFormat.now(), jid)
    look_after(other, LATE)
  end
  Limits.note_called(jid, called, name, NumberFormat.now())
  return true
end

-- The limit of that name: how much room it has is known by the job types of those it holds back.
local function limit_of(name, klass)
  if Turns.is_tenant(name) then
    return nil
  end
  if not klass then
    local jid = SortedSet.last(key.limit_aside(name))
    klass = jid and call('HGET', key.job(jid), 'klass') or ''
  end
  return LimitSettings.named(name, klass) or { name = name }
end

-- Calls as many jobs as the limit has room for, a bounded number at a time.
local function call_some(limit)
  local room, full = uncalled_room(limit)
  if room < 1 then
    -- A called one has started, perhaps the last: until then it was not known when the window opens. (Of a long one
    -- that is after the called are late, when it is looked at anyway.)
    if limit.rate and (full or limit.rate.per < LATE) then
      look_after(limit.name, next_look(limit) - scope.now)
    end
    return
  end
  local most = math.min(room, CALLED - (scope.called or 0))
  local list = most > 0 and call('ZREVRANGE', key.limit_aside(limit.name), 0, most - 1, 'WITHSCORES') or {}
  scope.called = (scope.called or 0) + #list / 2
  for n = 1, #list, 2 do
    Limits.bring(list[n], limit.name, list[n + 1])
  end
  look_after(limit.name, most < room and 0 or LATE)
end

-- There may be room under the limit of that name, of which a job of the type `klass` was met.
function Limits.call_up(name, klass)
  if call('EXISTS', key.limit_aside(name)) == 0 then
    return
  elseif Turns.is_tenant(name) then
    Turns.next_of_tenant(name)
  else
    call_some(limit_of(name, klass))
  end
end

-- Does the limit keep a job back that it has not called? -> when it is to be looked at again
local function full(limit, called, holds)
  local is_called = false
  for _, name in ipairs(called) do
    is_called = is_called or name == limit.name
  end
  local held = holds[limit.name]
  local room = is_called and room_of(limit, held) or uncalled_room(limit, held)
  return room < 1 and next_look(limit)
end

-- The limits of a job that have numbers: of its key, then of its type.
local function limits_of(klass, text)
  local of, limits = LimitSettings.exist() and LimitSettings.of(klass), {}
  if of and text and (of.key_most or of.key_rate) then
    limits[1] = { name = LimitSettings.of_key(klass, text), most = of.key_most, rate = of.key_rate }
  end
  if of and (of.most or of.rate) then
    limits[#limits + 1] = { name = LimitSettings.of_type(klass), most = of.most, rate = of.rate }
  end
  return limits
end

-- What holds the job back that is to be handed out. -> name, when to look again; nil: nothing
local function obstacle(jid, queue, job, limits, called, holds)
  local tenant = Turns.obstacle(queue, job, #called > 0)
  if tenant then
    return tenant
  end
  for n, limit in ipairs(limits) do
    local look = full(limit, called, holds)
    if look then
      -- Those before have room for it: it is their next, whatever this one takes.
      for before = 1, n - 1 do
        Limits.note_called(jid, called, limits[before].name, '+inf')
      end
      return limit.name, look
    end
  end
end

-- May a job be handed out that was taken from its place? If so it takes what it needs of its limits, until it leaves
-- its worker; else it is set aside. `job` has limit_key, fair_by, called, holds, state, rare, and a priority that can
-- be read.
function Limits.admit(jid, queue, klass, job, score, expires)
  local limits = limits_of(klass, job.limit_key or nil)
  if #limits == 0 and not (job.called or job.fair_by or job.holds) then
    return true
  end
  local called = Record.read('called', job.called or nil, {})
  local holds = Record.read('holds', job.holds or nil, {})
  local name, look = obstacle(jid, queue, job, limits, called, holds)
  if name then
    score = score or exact(Places.score(Record.number(job.priority), scope.now))
    Limits.set_aside(jid, queue, name, score, look, job)
    Limits.uncall(jid, called, klass, name)
    return false
  end
  Holders.take(jid, limits, expires, holds)
  Limits.uncall(jid, called, klass)
  return true
end

-- A job goes back that was handed out. If it was not started, the windows of its rates have room for another one.
function Limits.not_started(job)
  if job.held or not LimitSettings.exist() then
    return
  end
  local klass, limit_key = Hash.values(job.key, 'klass', 'limit_key')
  for _, limit in ipairs(limits_of(klass or '', limit_key or nil)) do
    if limit.rate then
      Rates.uncount(limit.name, job.time)
      look_after(limit.name, LATE)
    end
  end
  if LimitSettings.of_queue(job.queue) then
    Rates.uncount('queue:' .. job.queue, job.time)
  end
end

-- The job holds nothing any more: its worker has it no longer. `holds` is the text in its record.
function Limits.release(jid, holds)
  for name in pairs(Holders.drop(jid, holds)) do
    Limits.call_up(name)
  end
end

-- A job was taken from its worker and is the next to be handed out: there is room for it first.
function Limits.call_again(jid, holds)
  local called = {}
  for name in pairs(Holders.drop(jid, holds)) do
    Limits.note_called(jid, called, name, NumberFormat.now())
    look_after(name, LATE)
  end
end

-- The job has ended or is gone, or goes on elsewhere. `record` may have holds, aside, called, queue.
function Limits.leave(jid, record)
  if record.aside then
    leave_aside(jid, record.queue, record.aside)
  end
  if record.holds then
    Limits.release(jid, record.holds)
  end
  if record.called then
    Limits.uncall(jid, Record.read('called', record.called, {}), record.klass)
  end
end

-- Drops those from the lists of the limit that are there for nothing: another core may have ended them. Who was
-- called at a time that is yet to come, before the clock was set back, is called now.
local function heal(limit)
  Holders.heal(limit.name)
  local called, now = key.limit_called(limit.name), NumberFormat.now()
  call('ZREMRANGEBYSCORE', called, '-inf', '(' .. exact(scope.now - EVERY))
  for _, jid in ipairs(call('ZRANGEBYSCORE', called, '(' .. now, '(+inf', 'LIMIT', 0, CALLED)) do
    call('ZADD', called, now, jid)
  end
  for _, jid in ipairs(call('ZRANGEBYSCORE', called, '+inf', '+inf', 'LIMIT', 0, CALLED)) do
    if not call('HGET', key.job(jid), 'aside') then
      call('ZADD', called, now, jid)
    end
  end
end

-- A limit has to be looked at: whether there is room, and when to look again.
local function look(name, queue)
  local openings = key.place(queue, 'openings')
  call('ZREM', openings, name)
  local limit = limit_of(name)
  if not limit then
    Turns.look(name)
  else
    heal(limit)
    call_some(limit)
  end
  if call('EXISTS', key.limit_aside(name)) == 1 then
    look_at(name, queue, limit and next_look(limit) or scope.now + EVERY)
  end
end

-- Looks at the limits of the queue for which it is time.
function Limits.look(queue)
  local name = key.place(queue, 'openings')
  for _, limit in ipairs(call('ZRANGEBYSCORE', name, '-inf', NumberFormat.now(), 'LIMIT', 0, LOOKED)) do
    look(limit, queue)
  end
end

-- The limits of a job type have changed: what they hold back is looked at by the next calls.
function Limits.look_again(klass)
  local type, of_keys = LimitSettings.of_type(klass), LimitSettings.of_key(klass, '')
  local left = Arguments.most
  for _, queue in ipairs(Queue.names(Arguments.most)) do
    local openings = key.place(queue, 'openings')
    for _, name in ipairs(left > 0 and call('ZRANGE', openings, 0, left - 1) or {}) do
      left = left - 1
      if name == type or string.sub(name, 1, #of_keys) == of_keys then
        look_at(name, queue, scope.now)
      end
    end
  end
end

-- How many more jobs of a queue may start by its rate. If none, it is looked at again when one may.
function Limits.room_of_queue(queue)
  local rate = LimitSettings.exist() and LimitSettings.of_queue(queue)
  if not rate then
    return math.huge
  end
  return Rates.room('queue:' .. queue, rate)
end

-- So many jobs of the queue were handed out.
function Limits.count_of_queue(queue, n)
  local rate = n > 0 and LimitSettings.exist() and LimitSettings.of_queue(queue)
  if rate then
    Rates.count('queue:' .. queue, rate, n)
  end
end

-- When limits have something to do for the queue next, or nil.
function Limits.next_due(queue)
  if not LimitSettings.exist() then
    return nil
  end
  local _, first = SortedSet.first(key.place(queue, 'openings'))
  local rate = LimitSettings.of_queue(queue)
  if rate and call('EXISTS', key.place(queue, 'work')) == 1 then
    local room, opens = Rates.room('queue:' .. queue, rate)
    first = room < 1 and math.min(first or opens, opens) or first
  end
  return first
end
