-- Wake-ups. The marker of a queue says: something can be started here now, or the clock must be looked at. Idle workers
-- block on the markers of their queues (BZPOPMIN), for a few seconds at most, so that a lost one delays nothing for long.
--
-- It is set by whatever makes that true: a put, a release, the end of a pause, a freed slot, a changed limit, something
-- that falls due before the timer of the queue, or without one. It is set again by a worker that took something and left
-- something that can be started, and by one that held the timer and works now. A worker that finds nothing to start does
-- not set it, or paused and full queues would keep workers running in circles. One that empties a queue takes it away.
--
-- The timer of a queue is held by one idle worker, which looks at the queue when the next thing falls due.

local rcall = redis.call

-- Keys that one worker blocks on at most. Those of more queues, and of globs, block on the marker of all queues, which is
-- set only while the letter W says that there are such workers.
local MOST = 64

local KEPT = 10 -- seconds for which W stays when no worker waits any longer

-- Sets the marker.
function Wake.set(call, queue)
  local set = call.woken
  if not set then
    set = {}
    call.woken = set
  end
  if not set[queue] then
    set[queue] = true
    rcall('ZADD', queue.wake, '0', 'r')
    if call.has.W then
      rcall('ZADD', call.keys.wake_any, '0', 'r')
    end
  end
end

local function timer_of(text)
  local time, client = string.match(text or '', '^(%S+) (.*)$')
  return tonumber(time), client
end

-- Something of the queue falls due at that time. (`call.due`: queues whose markers were set for that.)
function Wake.due(call, queue, time)
  local due = call.due or {}
  call.due = due
  if due[queue] then
    return
  end
  local timer = timer_of(rcall('GET', queue.timer) or nil)
  if not timer or time < timer or timer <= call.now then
    due[queue] = true
    Wake.set(call, queue)
  end
end

-- A lock of the queue was given up: where their number is limited there may be room now.
function Wake.freed(call, queue)
  if call.has.C and Config.concurrency(call, queue.name) > 0 and rcall('EXISTS', queue.work) == 1 then
    Wake.set(call, queue)
  end
end

-- When the next thing of the queue falls due, or nil.
function Wake.next_due(call, queue)
  local first
  for _, place in ipairs({ queue.scheduled, queue.recur, queue.locks }) do
    local _, time = Pieces.first(place)
    first = time and math.min(first or time, time) or first
  end
  local opens = Limits.next_look(call, queue)
  return opens and math.min(first or opens, opens) or first
end

-- The worker has asked for jobs of this queue and has got `taken`. `room`: how many more the queue may hand out. (One that
-- has not waited has not taken the marker either.)
function Wake.taken(call, queue, taken, room)
  if taken == 0 or (call.client and not call.has_waited) then
    return
  end
  local left = rcall('ZCARD', queue.work)
  if call.woken then
    call.woken[queue] = nil
  end
  if left > 0 and room > 0 then
    Wake.set(call, queue)
  elseif left == 0 and not (call.due and call.due[queue]) then
    rcall('DEL', queue.wake)
  end
end

-- The client works from now on: another one has to look at the clock of the queues of which it held the timers.
function Wake.works(call, client, queues)
  if #queues == 0 or #queues > MOST then
    return
  end
  local names = {}
  for n = 1, #queues do
    names[n] = queues[n].timer
  end
  local timers = rcall('MGET', unpack(names))
  for n = 1, #queues do
    local time, holder = timer_of(timers[n] or nil)
    if time and holder == client then
      rcall('DEL', queues[n].timer)
      Wake.set(call, queues[n])
    end
  end
end

-- Takes the timer of a queue, unless another client holds it for an earlier time. -> seconds until then, or nil
local function take_timer(call, client, queue, time)
  local timer, holder = timer_of(rcall('GET', queue.timer) or nil)
  if timer and timer > call.now and timer <= time and holder ~= client then
    return nil
  end
  local left = math.max(time - call.now, 0.001)
  local text = string.format('%.6f %s', time, client)
  rcall('SET', queue.timer, text, 'PX', string.format('%d', math.ceil(left * 1000) + 1000))
  return left
end

-- Nothing was there for the client. -> the seconds that it may block, and the keys to block on
function Wake.wait(call, client, choice, seconds)
  local queues, keys = choice.queues, {}
  local asked = seconds
  for n = 1, math.min(#queues, MOST) do
    local time = Wake.next_due(call, queues[n])
    -- What is due already could not be taken: the queue is paused, or full.
    if time and time > call.now and time < call.now + asked then
      seconds = math.min(seconds, take_timer(call, client, queues[n], time) or seconds)
    end
    keys[n] = queues[n].wake
  end
  if choice.globbing or #queues > MOST or #queues == 0 then
    keys = { call.keys.wake_any }
    Features.note(call, 'W')
    rcall('HSET', call.keys.meta, 'any_until', string.format('%.3f', call.now + asked + KEPT))
  end
  return { string.format('%.3f', seconds + 0.0005), unpack(keys) }
end

-- Drops W when no worker waits for any queue.
function Wake.tidy(call)
  if call.has.W then
    local untils = tonumber(rcall('HGET', call.keys.meta, 'any_until') or nil)
    if not untils or untils < call.now then
      Features.forget(call, 'W')
    end
  end
end
