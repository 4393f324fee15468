-- Wake-ups: idle workers block on lists, and whoever makes work ready feeds the lists.
local Texts, Absence, scope, key = Qless.Texts, Qless.Absence, Qless.scope, Qless.key

local Wake = {}
Qless.Wake = Wake

local call, match, format = redis.call, string.match, string.format

-- An unused wake-up must not outlive the workers it was meant for by long.
local KEPT = 60

local ready, due, seen, popped

function Wake.reset()
  ready, due, seen, popped = nil, nil, nil, false
end

-- n jobs of the queue became ready.
function Wake.ready(queue, n)
  if scope.live then
    ready = ready or {}
    ready[queue] = (ready[queue] or 0) + n
  end
end

-- Something of the queue falls due at that time.
function Wake.due(queue, time)
  if scope.live then
    due = due or {}
    due[queue] = math.min(due[queue] or time, time)
  end
end

-- A queue was seen for the first time.
function Wake.seen()
  seen = scope.live
end

-- How many clients wait there; those whose time is over have gone away without a word.
-- (An old client's clock says nothing about that.)
local function waiting_at(name)
  if call('ZCARD', name) == 0 then
    return 0 -- mostly, and cheaper to ask
  end
  return call('ZCOUNT', name, scope.keyed and Texts.now() or '-inf', '+inf')
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

function Wake.flush()
  if ready then
    for queue, n in pairs(ready) do
      local idle = waiting_at(key.idle_at(queue))
      if idle > 0 then
        if popped then
          -- Some of what became ready may have been taken by this very call.
          n = math.min(n, call('ZCARD', key.place(queue, 'work')))
        end
        feed(key.wake_at(queue), idle, n)
      end
    end
  end
  if due then
    for queue, time in pairs(due) do
      local idle = waiting_at(key.idle_at(queue))
      if idle > 0 and time < (timer_of(queue) or math.huge) then
        feed(key.wake_at(queue), idle, 1)
      end
    end
  end
  if seen then
    feed(key.wake(), waiting_at(key.idle()), Qless.Arguments.most)
  end
end

-- How many jobs of the queue are ready without having been announced: their time has come.
local function ripe(queue)
  return call('ZCOUNT', key.place(queue, 'locks'), '-inf', Texts.now())
    + call('ZCOUNT', key.place(queue, 'scheduled'), '-inf', Texts.now())
end

-- Takes back what a pop has made pointless: no more wake-ups than jobs are left.
function Wake.taken(queue)
  popped = true
  local list = key.wake_at(queue)
  local waiting = Absence.is_absent(list) and 0 or call('LLEN', list)
  if waiting > 0 then
    local left = call('ZCARD', key.place(queue, 'work')) + ripe(queue)
    if left == 0 then
      call('DEL', list)
    elseif left < waiting then
      call('LTRIM', list, 0, left - 1)
    end
  end
end

-- When the next thing of the queue falls due, or nil.
local function next_due(queue)
  local first
  for _, place in ipairs({ 'scheduled', 'recur', 'locks' }) do
    local head = call('ZRANGE', key.place(queue, place), 0, 0, 'WITHSCORES')
    if head[2] then
      first = math.min(first or math.huge, tonumber(head[2]))
    end
  end
  return first
end

-- A client goes to work that was idle at the queue. If it held the timer, somebody else has to look
-- after what falls due; and if several jobs fell due at once, for each of them somebody.
local function hand_on(client, queue)
  local wanted, _, holder = ripe(queue), timer_of(queue)
  if holder == client then
    call('DEL', key.timer(queue))
    wanted = math.max(wanted, 1)
  end
  if wanted > 0 then
    feed(key.wake_at(queue), waiting_at(key.idle_at(queue)), wanted)
  end
end

-- The caller has asked and is idle no longer.
function Wake.busy(client, queues, globbing, working)
  if globbing then
    call('ZREM', key.idle(), client)
  end
  for n = 1, #queues do
    local idle = key.idle_at(queues[n])
    if not Absence.is_absent(idle) and call('ZREM', idle, client) == 1 and working then
      hand_on(client, queues[n])
    end
  end
end

local function register(name, client, seconds)
  call('ZREMRANGEBYSCORE', name, '-inf', scope.now)
  call('ZADD', name, scope.now + seconds + 1, client)
  call('EXPIRE', name, math.ceil(seconds) + KEPT)
end

-- Registers an idle client. -> the seconds it may block and the keys to block on.
-- Only one client per queue holds the timer for what falls due; the others sleep on.
function Wake.wait(client, queues, seconds, globbing)
  local rest = { seconds }
  for _, queue in ipairs(queues) do
    register(key.idle_at(queue), client, seconds)
    rest[#rest + 1] = key.wake_at(queue)
    local time = next_due(queue)
    -- What is due already could not be taken: the queue is paused, or full.
    if time and time > scope.now and time < scope.now + seconds then
      local taken, holder = timer_of(queue)
      if not taken or holder == client or time < taken or taken <= scope.now then
        local left = math.max(time - scope.now, 0.001)
        call(
          'SET',
          key.timer(queue),
          format('%.6f', time) .. ' ' .. client,
          'PX',
          math.ceil(left * 1000) + 1000
        )
        rest[1] = math.min(rest[1], left)
      end
    end
  end
  if globbing or #queues == 0 then
    register(key.idle(), client, seconds)
    rest[#rest + 1] = key.wake()
  end
  rest[1] = format('%.3f', rest[1] + 0.0005)
  return rest
end
