-- Limits: how many jobs of a type, or of a key of it, run at once, and how often they start.
--
-- A job that is met and has no room under one of its limits is parked: it leaves the work, and stands in the list of that
-- limit by its score in the work. When a slot is freed, or a window opens, the limit brings back as many of its jobs as it
-- has room for; these are met again like others. No room is kept for them: what is met first takes it, and who comes later
-- is parked again. So that no job sleeps behind one that cannot start, who leaves the work without a start makes each of
-- its limits bring back the next one.
--
-- When a limit that holds something back is to be looked at next stands in the set `parked`: when a window opens, or the
-- first hold lapses; soon if there is room, as what was brought back may be in a queue that is not served.
--
-- A run holds its limits until its lock and the grace behind it end: the field `holds` of the record says which, and how
-- many runs each allowed. A hold that has lapsed is dropped by the next start.

local format = string.format
local rcall = redis.call

Limits.fields = { 'limit_key', 'holds', 'parked' }
Limits.options = { 'limit_key' }

-- Limits looked at by one call; jobs of a queue whose limits it looks at; jobs that it brings back.
local LOOKED, HEADS, BROUGHT = 20, 20, 250

-- Seconds until a limit is looked at again that has room; and at the latest.
local SOON, LATEST = 5, 60

local NONE = {}

-- A key of limits or turns, which a put may give. What it leaves open is as it was.
function Limits.check_key(call, job, name)
  local old, text = job.old, (job.options or NONE)[name]
  if text and (text == '' or #text > 255) then
    Errors.argument(call, name .. ' must have 1 to 255 bytes, not ' .. #text)
  end
  job[name] = text or old and not job.fresh and old[name] or nil
end

function Limits.check(call, job)
  Limits.check_key(call, job, 'limit_key')
end

-- The limits of a job: of its key, then of its type. Each has `name`, and `most` or `rate`, or both.
local function limits_of(call, job)
  if not call.has.L then
    return NONE
  end
  job.klass = job.klass or rcall('HGET', job.key, 'klass') or ''
  local of = LimitSettings.of(call, job.klass)
  if not of then
    return NONE
  end
  local limits = {}
  if job.limit_key and (of.key_most or of.key_rate) then
    limits[1] = { name = 'key:' .. of.klass .. ':' .. job.limit_key, most = of.key_most, rate = of.key_rate }
  end
  if of.most or of.rate then
    limits[#limits + 1] = { name = 'type:' .. of.klass, most = of.most, rate = of.rate }
  end
  return limits
end

-- The limit of this name, of which a job is at hand. (What was taken away, or has another name by now, has no numbers.)
function Limits.named(call, name, jid)
  local job = { key = Keys.job(call, jid) }
  job.klass, job.limit_key = unpack(rcall('HMGET', job.key, 'klass', 'limit_key'))
  local limits = limits_of(call, job)
  for n = 1, #limits do
    if limits[n].name == name then
      return limits[n]
    end
  end
  return { name = name }
end

-- How many run under a limit.
function Limits.count(call, name)
  return rcall('ZCOUNT', Keys.limit_holders(call, name), '(' .. call.text, '+inf')
end

-- How many more jobs may start under a limit.
local function room_of(call, limit)
  local room = limit.most and limit.most - Limits.count(call, limit.name) or math.huge
  if limit.rate and room > 0 then
    room = math.min(room, Rates.room(call, limit))
  end
  return room
end

-- When a limit with this room is to be looked at next: when a hold lapses, or a window opens.
local function next_look(call, limit, room)
  local look = call.now + (room > 0 and SOON or LATEST)
  if limit.most and room < 1 then
    local holders = Keys.limit_holders(call, limit.name)
    local first = rcall('ZRANGEBYSCORE', holders, '(' .. call.text, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    look = math.min(look, tonumber(first[2] or nil) or look)
  end
  local opens = limit.rate and Rates.opens(call, limit)
  return math.min(look, opens or look)
end

-- A limit that holds something back is to be looked at by that time (nil: as before); `sooner`: but no later than before.
function Limits.note_look(call, name, time, sooner)
  local parked = call.keys.limits_parked
  if rcall('EXISTS', Keys.limit_parked(call, name)) == 1 then
    if time and sooner then
      rcall('ZADD', parked, 'LT', format('%.17g', time), name)
    elseif time then
      rcall('ZADD', parked, format('%.17g', time), name)
    end
  elseif rcall('ZREM', parked, name) == 1 and rcall('EXISTS', parked) == 0 then
    Features.forget(call, 'H')
  end
end

-- Brings a job back into the work that the limit of this name has parked with this score.
function Limits.bring(call, name, jid, score)
  local job = { jid = jid, key = Keys.job(call, jid) }
  rcall('ZREM', Keys.limit_parked(call, name), jid)
  job.queue, job.fair_by = unpack(rcall('HMGET', job.key, 'queue', 'fair_by'))
  if job.queue then
    local queue = Keys.queue(call, job.queue)
    rcall('ZREM', queue.parked, jid)
    rcall('HDEL', job.key, 'parked')
    rcall('ZADD', queue.work, score, jid)
    Wake.set(call, queue)
    Fairness.stand(call, job)
  end
end

-- A limit may have room again: brings back up to `count` of its jobs, the next first. (If these are not all for which there
-- is room, it is still to be looked at when it was to be.)
local function refill(call, name, count)
  local parked = Keys.limit_parked(call, name)
  local first = rcall('ZREVRANGE', parked, 0, 0)[1]
  if not first then
    return
  end
  local limit = Limits.named(call, name, first)
  local room = room_of(call, limit)
  local look, wanted = next_look(call, limit, room), math.min(room, count)
  local most = math.min(wanted, BROUGHT - (call.brought or 0))
  local jobs = most > 0 and rcall('ZREVRANGE', parked, 0, most - 1, 'WITHSCORES') or NONE
  for n = 1, #jobs, 2 do
    Limits.bring(call, name, jobs[n], jobs[n + 1])
  end
  call.brought = (call.brought or 0) + #jobs / 2
  Limits.note_look(call, name, most < wanted and call.now or look, count < room)
end

-- The limits of these names have a slot more.
local function refill_each(call, names)
  if call.has.H then
    for name in pairs(names) do
      refill(call, name, 1)
    end
  end
end

-- The job has left the work without a start: the limits that it is under, but for the one that parks it, bring back the
-- next.
local function refill_others(call, job, parking)
  local limits = call.has.H and limits_of(call, job) or NONE
  for n = 1, #limits do
    if limits[n].name ~= parking then
      refill(call, limits[n].name, 1)
    end
  end
end

function Limits.admit(call, job)
  local limits = limits_of(call, job)
  for n = 1, #limits do
    local room = room_of(call, limits[n])
    if room < 1 then
      return 'park', limits[n].name, next_look(call, limits[n], room)
    end
  end
end

-- Parks a job, which is in no place, because of the limit of that name, which is to be looked at by the time `look` (nil:
-- nothing is to be expected). The job may be one whose lock was lost.
function Limits.park(call, job, name, look)
  local queue = Keys.queue(call, job.queue)
  local score = job.score or Times.text(Queue.score(tonumber(job.priority) or 0, call.now))
  look = look or call.now + LATEST
  if job.state == 'running' then
    Finish.give_up_lost(call, job, queue)
  end
  Features.add(call, job, 'l')
  rcall('ZADD', queue.parked, score, job.jid)
  rcall('ZADD', Keys.limit_parked(call, name), score, job.jid)
  rcall('ZADD', call.keys.limits_parked, 'LT', format('%.17g', look), name)
  rcall('HSET', job.key, 'parked', name)
  Features.note(call, 'H')
  Wake.due(call, queue, look)
  refill_others(call, job, name)
  Fairness.step_down(call, job)
end

-- Drops what a run holds. -> the names of these limits
local function drop(call, job)
  local held = job.holds and Json.shown(job.holds) or NONE
  for name in pairs(held) do
    rcall('ZREM', Keys.limit_holders(call, name), job.jid)
  end
  if job.holds then
    rcall('HDEL', job.key, 'holds')
    job.holds = nil
  end
  return held
end

-- When a hold lapses whose lock ends at that time.
local function lapse(call, expires)
  return format('%.17g', tonumber(expires) + Config.number(call, 'grace-period'))
end

function Limits.started(call, job)
  drop(call, job) -- what it held by a lock that was lost
  local limits, holds = limits_of(call, job), nil
  for n = 1, #limits do
    local limit = limits[n]
    if limit.most then
      local holders = Keys.limit_holders(call, limit.name)
      rcall('ZREMRANGEBYSCORE', holders, '-inf', call.text)
      rcall('ZADD', holders, lapse(call, job.expires), job.jid)
      holds = holds or {}
      holds[limit.name] = limit.most
    end
    if limit.rate then
      Rates.count(call, limit, job.token, 1)
    end
  end
  if holds then
    job.holds = cjson.encode(holds)
    Features.add(call, job, 'l')
    rcall('HSET', job.key, 'holds', job.holds)
  end
end

-- (A hold that has lapsed and was dropped is not taken again: another one may have its slot.)
function Limits.renewed(call, job, expires)
  for name in pairs(job.holds and Json.shown(job.holds) or NONE) do
    rcall('ZADD', Keys.limit_holders(call, name), 'XX', lapse(call, expires), job.jid)
  end
end

-- What was handed out and has not started leaves the windows of its rates.
local function take_back_start(call, job)
  local limits = { LimitSettings.of_queue(call, job.queue), unpack(limits_of(call, job)) }
  for _, limit in pairs(limits) do
    if limit.rate then
      Rates.uncount(call, limit, job.token)
    end
  end
  refill_others(call, job)
end

-- The job leaves the work, or where it is parked, and has not started.
local function leave(call, job)
  if not job.parked then
    return refill_others(call, job)
  end
  rcall('ZREM', Keys.queue(call, job.queue).parked, job.jid)
  rcall('ZREM', Keys.limit_parked(call, job.parked), job.jid)
  rcall('HDEL', job.key, 'parked')
  Limits.note_look(call, job.parked)
  job.parked = nil
end

function Limits.ended(call, job, was)
  local freed = drop(call, job)
  if job.not_started then
    take_back_start(call, job)
  elseif was ~= 'running' and not Job.PENDING[job.state] then
    leave(call, job)
  end
  refill_each(call, freed)
end

function Limits.gone(call, job)
  local freed = drop(call, job)
  if job.state == 'waiting' or job.state == 'stalled' then
    leave(call, job)
  end
  refill_each(call, freed)
end

-- Looks at the limits for which it is time, once in a call. (A beat does so as well, though it takes no jobs.)
function Limits.look(call)
  if call.looked_at_limits or not call.has.H then
    return
  end
  call.looked_at_limits = true
  local due = rcall('ZRANGEBYSCORE', call.keys.limits_parked, '-inf', call.text, 'LIMIT', 0, LOOKED)
  for n = 1, #due do
    if Fairness.is_turn(due[n]) then
      Fairness.look(call, due[n])
    else
      refill(call, due[n], math.huge)
    end
  end
end

-- The limits of a job type have changed: looks at those that hold something back, now or by the next calls.
function Limits.look_again(call, klass)
  if not call.has.H then
    return
  end
  local type, of_keys = 'type:' .. klass, 'key:' .. klass .. ':'
  for _, name in ipairs(rcall('ZRANGE', call.keys.limits_parked, 0, Arguments.most - 1)) do
    if name == type or string.sub(name, 1, #of_keys) == of_keys then
      rcall('ZADD', call.keys.limits_parked, call.text, name)
    end
  end
  Limits.look(call)
end

-- A worker of the queue has room for more: brings back those of its jobs, among the first, whose limits have room. ->
-- whether there are any. (`call.looks`: by queue, when the first of these limits is to be looked at.)
function Limits.bring_own(call, queue)
  if not call.has.H then
    return false
  end
  local heads = rcall('ZREVRANGE', queue.parked, 0, HEADS - 1, 'WITHSCORES')
  local seen, brought, first = {}, false, nil
  for n = 1, #heads, 2 do
    local name = rcall('HGET', Keys.job(call, heads[n]), 'parked')
    if name and not seen[name] and not Fairness.is_turn(name) then
      seen[name] = true
      local limit = Limits.named(call, name, heads[n])
      local room = room_of(call, limit)
      local look = next_look(call, limit, room)
      if room > 0 then
        Limits.bring(call, name, heads[n], heads[n + 1])
        Limits.note_look(call, name, look)
        brought = true
      end
      first = math.min(first or look, look)
    end
  end
  call.looks = call.looks or {}
  call.looks[queue.name] = first
  return brought
end

-- When limits have something to do for a queue next, or nil.
function Limits.next_look(call, queue)
  local first = call.looks and call.looks[queue.name]
  local limit = LimitSettings.of_queue(call, queue.name)
  if limit and rcall('EXISTS', queue.work) == 1 then
    local opens = Rates.room(call, limit) < 1 and Rates.opens(call, limit)
    first = opens and math.min(first or opens, opens) or first
  end
  return first
end

-- How many more jobs of a queue may start by its rate.
function Limits.room_of_queue(call, queue)
  local limit = LimitSettings.of_queue(call, queue)
  return limit and Rates.room(call, limit) or math.huge
end

-- A number of jobs of the queue were just handed out.
function Limits.count_of_queue(call, queue, runs)
  local limit = LimitSettings.of_queue(call, queue)
  if limit then
    Rates.count(call, limit, call.token, runs)
    if Rates.room(call, limit) < 1 then
      Wake.due(call, Keys.queue(call, queue), Rates.opens(call, limit))
    end
  end
end
