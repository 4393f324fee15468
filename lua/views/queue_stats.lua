-- How long jobs have waited and have to wait: the lag of queues, what falls due in them, and the survey by which workers
-- choose among them.

local format, min = string.format, math.min
local rcall = redis.call

local LEVELS = 32 -- of priority that are looked at

-- When the first thing in a place falls due, or `latest` if that is not before it.
local function first_due(place, latest)
  local _, time = Pieces.first(place)
  return time and min(latest, time) or latest
end

-- Since when the oldest waiting job has been ready, at a cost that does not grow with the queue: the first of each level
-- of priority is the oldest of it. -> the time, whether there is any
local function oldest_waiting(call, queue)
  local highest, oldest, found = '+inf', call.now, false
  for _ = 1, LEVELS do
    local jid = rcall('ZREVRANGEBYSCORE', queue.work, highest, '-inf', 'LIMIT', 0, 1)[1]
    local record = jid and rcall('HMGET', Keys.job(call, jid), 'time', 'priority')
    if not record or not record[1] then
      break
    end
    found = true
    oldest = min(oldest, tonumber(record[1]) or oldest)
    -- Below all that could have been put at this priority until a day from now.
    local lowest = Queue.score(tonumber(record[2] or nil) or 0, call.now + 86400)
    highest = '(' .. format('%.17g', lowest)
  end
  return oldest, found
end

-- -> the age of the oldest ready job in seconds, whether there is one
local function lag(call, queue)
  local oldest, found = oldest_waiting(call, queue)
  local due = first_due(queue.recur, first_due(queue.scheduled, oldest))
  return call.now - due, found or due < oldest
end

-- Since when the oldest ready job of the queue has waited, in seconds.
function QueueStats.lag_of(call, queue)
  return (lag(call, queue))
end

-- The queues named from args[i] on.
local function queues_from(call, args, i)
  Arguments.given(call, 'queue', args[i])
  Arguments.bounded(call, #args - i + 1)
  local queues = {}
  for n = i, #args do
    queues[#queues + 1] = Keys.queue(call, args[n])
  end
  return queues
end

-- lag queue... -> seconds, as text, for each
function QueueStats.lag(call, args, i)
  local lags = {}
  for n, queue in ipairs(queues_from(call, args, i)) do
    lags[n] = format('%.6f', (lag(call, queue)))
  end
  return lags
end

-- due queue... -> for each: when its first scheduled job and its first recurring one fall due, as text, '' if there is
-- none
function QueueStats.due(call, args, i)
  local times = {}
  for _, queue in ipairs(queues_from(call, args, i)) do
    for _, place in ipairs({ queue.scheduled, queue.recur }) do
      times[#times + 1] = rcall('ZRANGE', place, 0, 0, 'WITHSCORES')[2] or ''
    end
  end
  return times
end

-- Are there jobs that a limit holds back which is to be looked at?
local function may_open(call, queue)
  return call.has.H
    and first_due(call.keys.limits_parked, call.now + 1) <= call.now
    and rcall('EXISTS', queue.parked) == 1
end

-- Is there anything that a pop would hand out, or has to look at? -> that, the lag
local function look(call, queue)
  if may_open(call, queue) then
    return true, (lag(call, queue))
  elseif rcall('EXISTS', queue.work, queue.scheduled, queue.recur, queue.locks) == 0 then
    return false, 0
  end
  local seconds, found = lag(call, queue)
  return found or first_due(queue.locks, call.now + 1) <= call.now, seconds
end

-- survey [queue...] -> name, ready (1 or 0), lag, weight, paused (1 or 0) of each, as texts; without names of all queues
-- that are known, as far as one call may handle them
function QueueStats.survey(call, args, i)
  local names, flat = Pieces.rest(args, i), {}
  Arguments.bounded(call, #names)
  if #names == 0 then
    names = Queues.names(call, Arguments.most)
  end
  for n, name in ipairs(names) do
    local queue = Keys.queue(call, name)
    local ready, seconds = look(call, queue)
    local at = 5 * n - 4
    flat[at], flat[at + 1] = name, ready and '1' or '0'
    flat[at + 2], flat[at + 3] = format('%.6f', seconds), format('%.17g', Config.weight(call, name))
    flat[at + 4] = Queue.is_paused(call, queue) and '1' or '0'
  end
  return flat
end
