-- Wake-ups: markers that tell idle workers to look.
--
-- The marker of a queue says that something can be started there now, or that the clock has to be looked at. Idle
-- workers block on the markers of their queues (BZPOPMIN): a marker wakes one of them, which asks for jobs. It is set by
-- each call that makes it true; by a worker that was woken, takes jobs and leaves some that can be started; and by one
-- that watches the clock and goes to work. A call that leaves nothing, or finds nothing, deletes it instead: otherwise a
-- queue that is paused or full would wake workers again and again. If a worker dies between its wake-up and its call,
-- another one finds the jobs when it looks by itself.
--
-- The timer of a marker is the time at which one idle worker looks: only what falls due sooner needs the marker.
--
-- Workers of globs, or of very many queues, block on one marker for all of them: see glob_waits.lua. A marker is a
-- queue of Keys.queue, or one of those: both have `wake`, its key, and `timer`. Its members are names of queues.

local rcall = redis.call

-- Seconds: every idle worker looks at least so often. What falls due later needs no marker.
local LOOK = 5

-- Seconds: a marker must last from the call that finds nothing until its worker blocks.
local KEPT = '60'

local NONE = {}

-- What a call has changed, by queue; the markers are set when it ends.
--   call.ready    something can be started
--   call.changed  jobs were handed out, or slots freed: can something be started now?
--   call.due      when something falls due
local function note(call, what, queue, value)
  local noted = call[what]
  if not noted then
    noted = {}
    call[what] = noted
  end
  noted[queue] = value
end

-- Jobs of the queue became ready.
function Wake.set(call, queue)
  note(call, 'ready', queue, true)
end

-- Something of the queue falls due at that time.
function Wake.due(call, queue, time)
  local known = call.due and call.due[queue]
  if time < (known or call.now + LOOK) then
    note(call, 'due', queue, time)
  end
end

-- A lock of the queue was given up: where their number is limited there may be room now.
function Wake.freed(call, queue)
  if call.has.C and Config.concurrency(call, queue.name) > 0 then
    note(call, 'changed', queue, true)
  end
end

-- Jobs of the queue were handed out, until `expires`. (A worker that was busy has been woken by no marker: the others
-- need no other one than there is.)
function Wake.taken(call, queue, expires)
  local was_woken = call.has_waited or not (call.client or call.old)
  if was_woken or call.ready and call.ready[queue] then
    note(call, 'changed', queue, true)
  else
    Wake.due(call, queue, expires)
  end
end

-- When something of the queue falls due next; of what is not due already, if `is_later`.
local function next_due(call, queue, is_later)
  local than = is_later and '(' .. call.text or '-inf'
  local first = Limits.next_look(call, queue) or math.huge
  first = is_later and first <= call.now and math.huge or first
  for _, place in ipairs({ queue.scheduled, queue.recur, queue.locks }) do
    local head = rcall('ZRANGEBYSCORE', place, than, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
    first = math.min(first, tonumber(head[2] or math.huge))
  end
  return first
end

local function set(marker, name)
  if rcall('ZADD', marker.wake, '0', name) == 1 then
    rcall('EXPIRE', marker.wake, KEPT)
  end
end

-- -> when a client looks, the client; a time long past if none does
local function read_timer(text)
  local time, client = string.match(text or '', '^(%S+) (.*)$')
  return tonumber(time) or -math.huge, client
end

-- Does no client look in time for what falls due then? `text` is the timer.
local function is_unwatched(call, text, time)
  local looks = read_timer(text)
  return looks <= call.now or looks > time
end

-- Can something be started in a queue that has changed? If not, when will it have to be looked at?
local function look_again(call, queue)
  local has_room = not Queue.is_paused(call, queue) and Take.room(call, queue) > 0
  local can_start = has_room and rcall('EXISTS', queue.work) == 1
  note(call, 'ready', queue, can_start or nil)
  if not can_start then
    rcall('DEL', queue.wake)
    for _, marker in ipairs(GlobWaits.of(call, queue)) do
      rcall('ZREM', marker.wake, queue.name)
    end
    Wake.due(call, queue, next_due(call, queue, not has_room))
  end
end

-- Sets the markers for what the call has changed.
function Wake.finish(call)
  for queue in pairs(call.changed or NONE) do
    look_again(call, queue)
  end
  for queue in pairs(call.ready or NONE) do
    set(queue, queue.name)
    for _, marker in ipairs(call.has.W and GlobWaits.of(call, queue) or NONE) do
      set(marker, queue.name)
    end
  end
  for queue, time in pairs(call.due or NONE) do
    for _, marker in ipairs({ queue, unpack(GlobWaits.of(call, queue)) }) do
      if is_unwatched(call, rcall('GET', marker.timer), time) then
        set(marker, queue.name)
      end
    end
  end
end

-- Do workers of this choice block on one marker?
local function has_one_marker(choice)
  return choice.globbing or choice.partly or #choice.queues == 0
end

local function timers_of(markers)
  local timers = {}
  for n = 1, #markers do
    timers[n] = markers[n].timer
  end
  return #timers > 0 and rcall('MGET', unpack(timers)) or timers
end

-- The client goes to work: another one has to look in its place.
function Wake.works(call, client, choice)
  local markers = has_one_marker(choice) and GlobWaits.all(call) or choice.queues
  for n, text in ipairs(timers_of(markers)) do
    local _, looking = read_timer(text)
    if looking == client then
      rcall('DEL', markers[n].timer)
      if not (call.changed and call.changed[markers[n]]) then
        set(markers[n], markers[n].name)
      end
    end
  end
end

-- When something of these queues falls due next. What is due already cannot be started: the call has tried.
local function due_later(call, queues)
  local first, due = math.huge, call.due or {}
  for _, queue in ipairs(queues) do
    first = math.min(first, next_due(call, queue, true))
    due[queue] = due[queue] and due[queue] > call.now and due[queue] or nil
  end
  return first
end

-- The client has found nothing. -> for how many seconds to block, then the markers to block on
function Wake.wait(call, client, choice, asked)
  local is_one = has_one_marker(choice)
  local markers = is_one and { GlobWaits.add(call, choice, asked) } or choice.queues
  local timers, seconds, rest = timers_of(markers), asked, { '' }
  for n, marker in ipairs(markers) do
    local time = due_later(call, is_one and choice.queues or { marker })
    local left, _, looking = time - call.now, read_timer(timers[n])
    if left < asked and (looking == client or is_unwatched(call, timers[n], time)) then
      seconds = math.min(seconds, left)
      local text = string.format('%.6f %s', time, client)
      rcall('SET', marker.timer, text, 'PX', math.ceil(left * 1000) + 1000) -- a second more, for who is late
    elseif looking == client then
      rcall('DEL', marker.timer)
    end
    rest[n + 1] = marker.wake
  end
  rcall('DEL', unpack(rest, 2))
  rest[1] = string.format('%.3f', math.max(0.001, math.min(seconds + 0.0005, asked)))
  return rest
end
