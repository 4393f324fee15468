-- Wake-ups: idle workers block on lists, and every call that makes work ready feeds the lists.

local match, gsub, format = string.match, string.gsub, string.format

-- An unused wake-up must not outlive the workers it was meant for by long.
local KEPT = 60

-- What falls due is looked after by a line of clients: one looks at that very time, the others REACH
-- seconds later at most, STEP seconds apart, and find it still there if those before them have died.
local LINE, STEP, REACH = 3, 0.15, 0.75

-- Seconds: a client is counted as idle so long beyond its next look, for it may be late.
local LATE = 1

-- Seconds: idle clients of ours come back in time for longer locks by themselves.
local SHORT_LOCK = 6

-- What a call tells is kept in scope.wake and looked at when it ends: `ready`, `due` and `freed` by
-- queue, `seen`, `popped`.
local function noted()
  local wake = scope.wake
  if not wake then
    wake = { ready = {}, due = {}, freed = {} }
    scope.wake = wake
  end
  return wake
end

-- n jobs of the queue became ready.
function Wake.ready(queue, n)
  if scope.live then
    local ready = noted().ready
    ready[queue] = (ready[queue] or 0) + n
  end
end

-- n locks of the queue were given up: there may be room under its max-concurrency for others that are ready.
function Wake.freed(queue, n)
  if scope.live and Config.concurrency(queue) > 0 then
    local freed = noted().freed
    freed[queue] = (freed[queue] or 0) + n
  end
end

-- Something of the queue falls due at that time.
function Wake.due(queue, time)
  if scope.live then
    local due = noted().due
    due[queue] = math.min(due[queue] or time, time)
  end
end

-- A queue was seen for the first time.
function Wake.seen()
  if scope.live then
    noted().seen = true
  end
end

-- Clients that wait until an earlier time have gone away without a word.
function Wake.since()
  return NumberFormat.now()
end

-- How many clients wait there.
local function waiting_at(name)
  if call('ZCARD', name) == 0 then
    return 0 -- mostly, and cheaper to ask
  end
  return call('ZCOUNT', name, Wake.since(), '+inf')
end

-- Feeds a list with up to n elements, never more than there are idle clients.
local function feed(list, idle, n)
  if idle == 0 then
    return
  end
  local missing = math.min(n, idle - call('LLEN', list))
  if missing > 0 then
    local elements = {}
    for i = 1, math.min(missing, 1000) do
      elements[i] = '1'
    end
    if call('RPUSH', list, unpack(elements)) == #elements then
      call('EXPIRE', list, KEPT)
    end
  end
end

local function timer_of(queue)
  local text = call('GET', key.timer(queue))
  if text then
    local time, client = match(text, '^(%S+) (.*)$')
    return tonumber(time), client
  end
end

local function text_of(time)
  return format('%.17g', time)
end

-- How many of so many idle clients are to be woken, so that what falls due then is looked after. (The list
-- wakes those that have waited longest, who may be those that would have come in time: so a whole line.)
local function missing(queue, time, idle)
  local too_late = '(' .. text_of(time + REACH + LATE)
  local sleeping = idle > 0 and call('ZCOUNT', key.idle_at(queue), too_late, '+inf') or 0
  if sleeping == 0 then
    return 0
  elseif idle - sleeping < LINE then
    return LINE
  end
  local taken = timer_of(queue)
  return (not taken or time < taken or taken <= scope.now) and 1 or 0
end

-- What this call has freed and not taken again is ready for others.
local function pass_on_freed(wake)
  for queue, n in pairs(wake.freed) do
    local running = call('ZCOUNT', key.place(queue, 'locks'), NumberFormat.now(), '+inf')
    local room = Config.concurrency(queue) - running
    n = math.min(n, room, call('ZCARD', key.place(queue, 'work')))
    if n > 0 then
      wake.ready[queue] = math.max(wake.ready[queue] or 0, n)
    end
  end
end

function Wake.finish()
  local wake = scope.wake
  pass_on_freed(wake)
  for queue, n in pairs(wake.ready) do
    local idle = waiting_at(key.idle_at(queue))
    if idle > 0 then
      if wake.popped then
        -- Some of what became ready may have been taken by this very call, and some have woken others when it fell due.
        n = math.min(n, call('ZCARD', key.place(queue, 'work')) - call('LLEN', key.wake_at(queue)))
      end
      feed(key.wake_at(queue), idle, n)
    end
  end
  for queue, time in pairs(wake.due) do
    local idle = waiting_at(key.idle_at(queue))
    if idle > 0 then
      feed(key.wake_at(queue), idle, missing(queue, time, idle))
    end
  end
  if wake.seen then
    feed(key.wake(), waiting_at(key.idle()), Arguments.most)
  end
end

-- How many jobs of the queue are ready without having been announced: their time has come.
local function ripe(queue)
  local openings = Limits.next_due(queue)
  return call('ZCOUNT', key.place(queue, 'locks'), '-inf', NumberFormat.now())
    + call('ZCOUNT', key.place(queue, 'scheduled'), '-inf', NumberFormat.now())
    + (openings and openings <= scope.now and 1 or 0)
end

-- When the next thing of the queue falls due, or nil.
local function next_due(queue)
  local first = Limits.next_due(queue)
  for _, place in ipairs({ 'scheduled', 'recur', 'locks' }) do
    local head = call('ZRANGE', key.place(queue, place), 0, 0, 'WITHSCORES')
    if head[2] then
      first = math.min(first or math.huge, tonumber(head[2]))
    end
  end
  return first
end

-- Takes back what a pop has made pointless: no more wake-ups than jobs are left, and than are needed for
-- what falls due next.
function Wake.taken(queue)
  noted().popped = true
  local list = key.wake_at(queue)
  local waiting = ExistenceCache.is_absent(list) and 0 or call('LLEN', list)
  if waiting > 0 then
    local left, time = call('ZCARD', key.place(queue, 'work')) + ripe(queue), next_due(queue)
    if left < waiting and time and time > scope.now then
      left = math.max(left, missing(queue, time, waiting_at(key.idle_at(queue))))
    end
    if left == 0 then
      call('DEL', list)
    elseif left < waiting then
      call('LTRIM', list, 0, left - 1)
    end
  end
end

-- Jobs of the queue were handed out, under locks of so many seconds. Whose look is later has to know.
function Wake.locked(queue, seconds)
  if seconds < SHORT_LOCK then
    Wake.due(queue, scope.now + seconds)
  end
end

-- A client goes to work that was idle at the queue. Another worker has to watch what falls due next;
-- and if several jobs fell due at once, one worker for each of them.
local function hand_on(client, queue)
  local time, _, holder = next_due(queue), timer_of(queue)
  local idle = time and waiting_at(key.idle_at(queue)) or 0
  if holder == client then
    call('DEL', key.timer(queue))
  end
  if idle > 0 then
    local wanted = time <= scope.now and ripe(queue) or missing(queue, time, idle)
    feed(key.wake_at(queue), idle, math.max(wanted, holder == client and 1 or 0))
  end
end

-- Clients of one host may all be gone at once: so the host is named beside them. It stands in the names
-- that workers have by default, and otherwise each worker counts as a host.
local function host_of(worker)
  return (gsub(match(worker, '^(.+)%-%d+%-%x+$') or worker, '%s', '_'))
end

local function named(client, worker)
  return client .. ' ' .. host_of(worker)
end

-- Queues whose idle clients are asked for at once, where many are served.
local TOGETHER = 100

-- Mostly no client waits at any of very many queues.
local function note_where_none_wait(queues)
  for first = 1, #queues, TOGETHER do
    local names = {}
    for n = first, math.min(first + TOGETHER - 1, #queues) do
      names[#names + 1] = key.idle_at(queues[n])
    end
    if call('EXISTS', unpack(names)) == 0 then
      ExistenceCache.note(names)
    end
  end
end

-- The caller has asked and is idle no longer. `working`: it has got jobs.
function Wake.busy(client, worker, choice, working)
  local member = named(client, worker)
  -- Whoever waits at all queues waits here, too: so a busy client need not be looked for at thousands of them.
  local everywhere = choice.globbing and key.idle()
  if everywhere and (ExistenceCache.is_absent(everywhere) or call('ZREM', everywhere, member) == 0) then
    return
  end
  local queues = QueueChoice.all(choice)
  if choice.indexed and not choice.globbing then
    note_where_none_wait(queues)
  end
  for n = 1, #queues do
    local idle = key.idle_at(queues[n])
    if not ExistenceCache.is_absent(idle) and call('ZREM', idle, member) == 1 and working then
      hand_on(client, queues[n])
    end
  end
end

local function register(name, member, seconds)
  call('ZREMRANGEBYSCORE', name, '-inf', scope.now)
  call('ZADD', name, text_of(scope.now + seconds + LATE), member)
  call('EXPIRE', name, math.ceil(seconds) + KEPT)
end

-- Whom else what falls due then can rely on: how many clients look then or shortly after, and the host
-- of them all if it is one.
local function line_up(queue, time)
  local first, last = text_of(time + LATE), text_of(time + REACH + LATE)
  local members = call('ZRANGEBYSCORE', key.idle_at(queue), first, last, 'LIMIT', 0, 4 * LINE)
  local only
  for n, member in ipairs(members) do
    local host = match(member, ' (%S*)$') or member
    only = (n == 1 or only == host) and host
  end
  return #members, only
end

-- When the client is to look after what of the queue falls due at that time; nil: others do.
local function place_in_line(client, worker, queue, time)
  local taken, holder = timer_of(queue)
  if not taken or holder == client or time < taken or taken <= scope.now then
    local left = math.max(time - scope.now, 0.001)
    local text = format('%.6f', time) .. ' ' .. client
    call('SET', key.timer(queue), text, 'PX', math.ceil(left * 1000) + 1000)
    return left
  end
  local others, host = line_up(queue, time)
  if others < LINE or (host and host ~= host_of(worker)) then
    return time - scope.now + math.min(STEP * (math.max(others, 1) + 1), REACH)
  end
end

-- Registers an idle client. -> the seconds it may block and the keys to block on.
-- One client per queue holds the timer for what falls due, a few stand in line behind it; the others
-- sleep on.
function Wake.wait(client, worker, choice, seconds)
  local member, rest, asked = named(client, worker), { seconds }, seconds
  local queues = QueueChoice.all(choice)
  for _, queue in ipairs(queues) do
    rest[#rest + 1] = key.wake_at(queue)
    local time = not (choice.indexed and Nonempty.is_bare(queue)) and next_due(queue)
    -- What is due already could not be taken: the queue is paused, or full.
    if time and time > scope.now and time < scope.now + asked then
      seconds = math.min(seconds, place_in_line(client, worker, queue, time) or seconds)
    end
  end
  for _, queue in ipairs(queues) do
    register(key.idle_at(queue), member, seconds)
  end
  if choice.globbing or #queues == 0 then
    register(key.idle(), member, seconds)
    rest[#rest + 1] = key.wake()
  end
  rest[1] = format('%.3f', seconds + 0.0005)
  return rest
end
