-- Wake-ups: markers that tell idle workers to look.
--
-- The marker of a queue says that something can be started there now, or that the clock has to be looked at. Idle
-- workers block on the markers of their queues (BZPOPMIN): a marker wakes one of them, which asks for jobs. It is set by
-- every call that makes it true; by the call that takes jobs and leaves some that can be started; and by an idle worker
-- that watches the clock and goes to work. A call that leaves nothing, or finds nothing, deletes it instead: otherwise a
-- queue that is paused or full would wake workers again and again. If a worker dies between its wake-up and its call,
-- another one finds the jobs when it looks by itself.
--
-- The timer of a marker is the time at which one idle worker looks: only what falls due sooner needs the marker.
--
-- Workers of globs, or of more than KEYS queues, block on one marker for all of them: see glob_waits.lua. So the name
-- of a marker is that of a queue, or the text of a choice of queues; its members are queues.

-- Seconds: every idle worker looks at least so often. What falls due later needs no marker.
local LOOK = 5

-- Seconds: a marker must last from the call that finds nothing until its worker blocks.
local KEPT = 60

local KEYS = 64 -- the most markers on which a worker blocks

-- What a call has changed, in scope.wake, by queue; the markers are set when it ends.
--   ready    something can be started
--   changed  jobs were handed out, or slots freed: can something be started now?
--   due      when something falls due
local function note(what, queue, value)
  if scope.live then
    scope.wake = scope.wake or { ready = {}, changed = {}, due = {} }
    scope.wake[what][queue] = value
  end
end

-- Jobs of the queue became ready.
function Wake.ready(queue)
  note('ready', queue, true)
end

-- Jobs of the queue were handed out.
function Wake.taken(queue)
  note('changed', queue, true)
end

-- Locks of the queue were given up: there may be room under its max-concurrency.
function Wake.freed(queue)
  if scope.live and Config.concurrency(queue) > 0 then
    note('changed', queue, true)
  end
end

-- Something of the queue falls due at that time.
function Wake.due(queue, time)
  local known = scope.wake and scope.wake.due[queue]
  if time < (known or scope.now + LOOK) then
    note('due', queue, time)
  end
end

-- When something of the queue falls due next; of what is not due already, if `is_later`.
local function next_due(queue, is_later)
  local than = is_later and '(' .. NumberFormat.now() or '-inf'
  local first = Limits.next_due(queue) or math.huge
  first = is_later and first <= scope.now and math.huge or first
  for _, place in ipairs({ 'scheduled', 'recur', 'locks' }) do
    local name = key.place(queue, place)
    if not ExistenceCache.is_absent(name) then
      local head = call('ZRANGEBYSCORE', name, than, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
      first = math.min(first, tonumber(head[2] or math.huge))
    end
  end
  return first
end

local function set(name, queue)
  if call('ZADD', key.marker(name), '0', queue) == 1 then
    call('EXPIRE', key.marker(name), KEPT)
  end
end

-- -> when a client looks, the client; a time long past if none does
local function read_timer(text)
  local time, client = string.match(text or '', '^(%S+) (.*)$')
  return tonumber(time) or -math.huge, client
end

-- Does no client look in time for what falls due then? `text` is the timer.
local function is_unwatched(text, time)
  local looks = read_timer(text)
  return looks <= scope.now or looks > time
end

-- Can something be started in a queue that has changed? If not, when will it have to be looked at?
local function look_again(queue)
  local has_room = not Pop.is_paused(queue) and Pop.allowed(queue, 1) > 0
  local can_start = has_room and call('EXISTS', key.place(queue, 'work')) == 1
  note('ready', queue, can_start or nil)
  if not can_start then
    call('DEL', key.marker(queue))
    for _, text in ipairs(GlobWaits.of(queue)) do
      call('ZREM', key.marker(text), queue)
    end
    Wake.due(queue, next_due(queue, not has_room))
  end
end

-- Sets the markers for what the call has changed.
function Wake.finish()
  for queue in pairs(scope.wake.changed) do
    look_again(queue)
  end
  for queue in pairs(scope.wake.ready) do
    set(queue, queue)
    for _, text in ipairs(GlobWaits.of(queue)) do
      set(text, queue)
    end
  end
  for queue, time in pairs(scope.wake.due) do
    for _, name in ipairs({ queue, unpack(GlobWaits.of(queue)) }) do
      if is_unwatched(call('GET', key.timer(name)), time) then
        set(name, queue)
      end
    end
  end
end

-- Do workers of this choice block on one marker?
local function has_one_marker(choice)
  return choice.globbing or #QueueChoice.all(choice) > KEYS or #QueueChoice.all(choice) == 0
end

local function timers_of(names)
  local timers, are_absent = {}, true
  for n, name in ipairs(names) do
    timers[n] = key.timer(name)
    are_absent = are_absent and ExistenceCache.is_absent(timers[n])
  end
  return are_absent and {} or call('MGET', unpack(timers))
end

-- The client goes to work: another one has to look in its place.
function Wake.working(client, choice)
  local names = has_one_marker(choice) and GlobWaits.all() or QueueChoice.all(choice)
  for n, text in ipairs(timers_of(names)) do
    local _, looking = read_timer(text)
    if looking == client then
      call('DEL', key.timer(names[n]))
      if not scope.wake.changed[names[n]] then
        set(names[n], names[n])
      end
    end
  end
end

-- When something of these queues falls due next. What is due already cannot be started: the call has tried.
local function due_later(choice, queues)
  local first, due = math.huge, scope.wake and scope.wake.due or {}
  for _, queue in ipairs(queues) do
    if not (choice.indexed and Nonempty.is_bare(queue)) then
      first = math.min(first, next_due(queue, true))
    end
    due[queue] = due[queue] and due[queue] > scope.now and due[queue] or nil
  end
  return first
end

-- The client has found nothing. -> for how many seconds to block, then the markers to block on
function Wake.wait(client, choice, asked)
  local queues, is_one = QueueChoice.all(choice), has_one_marker(choice)
  local names = is_one and { GlobWaits.add(choice, asked) } or queues
  local timers, seconds, rest = timers_of(names), asked, { '' }
  for n, name in ipairs(names) do
    local time = due_later(choice, is_one and queues or { name })
    local left, _, looking = time - scope.now, read_timer(timers[n])
    if left < asked and (looking == client or is_unwatched(timers[n], time)) then
      seconds = math.min(seconds, left)
      local text = string.format('%.6f %s', time, client)
      call('SET', key.timer(name), text, 'PX', math.ceil(left * 1000) + 1000) -- a second more, for who is late
    elseif looking == client then
      call('DEL', key.timer(name))
    end
    rest[n + 1] = key.marker(name)
  end
  call('DEL', unpack(rest, 2))
  rest[1] = string.format('%.3f', math.max(0.001, math.min(seconds + 0.0005, asked)))
  return rest
end
