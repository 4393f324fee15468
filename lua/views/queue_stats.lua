-- How long jobs have waited and have to wait: the lag of queues, what falls due in them, and the
-- survey by which workers choose among them.

local format, min = string.format, math.min

-- Levels of priority looked at.
local LEVELS = 32

-- When the first thing in a place falls due, or `latest` if that is not before it.
local function first_due(queue, place, latest)
  local head = call('ZRANGE', key.place(queue, place), 0, 0, 'WITHSCORES')
  return head[2] and min(latest, tonumber(head[2])) or latest
end

-- Since when the oldest waiting job has been ready, at a cost that does not grow with the queue:
-- the first of each level of priority is the oldest of it. -> the time, whether there is any
local function oldest_waiting(queue)
  local work, highest, oldest, found = key.place(queue, 'work'), '+inf', scope.now, false
  for _ = 1, LEVELS do
    local jid = call('ZREVRANGEBYSCORE', work, highest, '-inf', 'LIMIT', 0, 1)[1]
    local record = jid and call('HMGET', key.job(jid), 'time', 'priority')
    if not record or not record[1] then
      break
    end
    found = true
    oldest = min(oldest, Record.read('time', record[1], oldest))
    -- Below all that could have been put at this priority until a day from now.
    highest = '(' .. format('%.17g', Places.score(Record.read('priority', record[2], 0), scope.now + 86400))
  end
  return oldest, found
end

-- -> the age of the oldest ready job in seconds, whether there is one
local function lag(queue)
  local oldest, found = oldest_waiting(queue)
  local due = first_due(queue, 'recur', first_due(queue, 'scheduled', oldest))
  return scope.now - due, found or due < oldest
end

-- lag queue... -> seconds, as text, for each
function QueueStats.lag(args, i)
  Arguments.given('lag', 'queue', args[i])
  Arguments.bounded('lag', #args - i + 1)
  local lags = {}
  for n = i, #args do
    lags[#lags + 1] = format('%.6f', (lag(args[n])))
  end
  return lags
end

-- due queue... -> for each: when its first scheduled job and its first recurring one fall due, as
-- text, '' if there is none
function QueueStats.due(args, i)
  Arguments.given('due', 'queue', args[i])
  Arguments.bounded('due', #args - i + 1)
  local times = {}
  for n = i, #args do
    for _, place in ipairs({ 'scheduled', 'recur' }) do
      local head = call('ZRANGE', key.place(args[n], place), 0, 0, 'WITHSCORES')
      times[#times + 1] = head[2] or ''
    end
  end
  return times
end

local function is_empty(queue)
  return call(
    'EXISTS',
    key.place(queue, 'work'),
    key.place(queue, 'scheduled'),
    key.place(queue, 'recur'),
    key.place(queue, 'locks')
  ) == 0
end

-- Is there anything that a pop would hand out, or has to look at? -> that, the lag
local function look(queue)
  if LimitSettings.exist() and first_due(queue, 'openings', scope.now + 1) <= scope.now then
    return true, (lag(queue))
  elseif is_empty(queue) then
    return false, 0
  end
  local seconds, found = lag(queue)
  return found or first_due(queue, 'locks', scope.now + 1) <= scope.now, seconds
end

-- survey [queue...] -> name, ready (1 or 0), lag, weight, paused (1 or 0) of each, as texts;
-- without names of all queues that are known, as far as one call may handle them
function QueueStats.survey(args, i)
  Arguments.bounded('survey', #args - i + 1)
  local queues, paused, flat = {}, {}, {}
  for n = i, #args do
    queues[#queues + 1] = args[n]
  end
  if #queues == 0 then
    queues = Queue.names(Arguments.most)
  end
  for _, queue in ipairs(call('SMEMBERS', key.paused_queues())) do
    paused[queue] = true
  end
  for n, queue in ipairs(queues) do
    local ready, seconds = look(queue)
    local at = 5 * n - 4
    flat[at], flat[at + 1] = queue, ready and '1' or '0'
    flat[at + 2], flat[at + 3] = format('%.6f', seconds), format('%.17g', Config.weight(queue))
    flat[at + 4] = paused[queue] and '1' or '0'
  end
  return flat
end
