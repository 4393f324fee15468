-- Queues: what is in them, the lists of their jobs, forgetting them.

-- The place of a job whose time has come is by when that was. (Without KEYS by when it is moved, but for entities.)
Queue.is_by_due = true

-- Moves jobs whose time has come into work, at most `wanted`.
function Queue.move_due(queue, wanted)
  local name = key.place(queue, 'scheduled')
  local due = call('ZRANGEBYSCORE', name, '-inf', scope.now, 'WITHSCORES', 'LIMIT', 0, wanted)
  if #due == 0 then
    return
  end
  local moved = {}
  for n = 1, #due, 2 do
    local jid = due[n]
    local priority, state, entity = Hash.values(key.job(jid), 'priority', 'state', 'entity')
    if Record.is_state(state) then
      local since = tonumber(due[n + 1])
      call('HSET', key.job(jid), 'state', 'waiting')
      Places.ready_since(jid, since, entity)
      Places.work(jid, queue, Record.read('priority', priority, 0), (entity or Queue.is_by_due) and since)
    else
      CorruptJobs.look_at_state(jid, state, queue)
    end
    moved[#moved + 1] = jid
  end
  SortedSet.remove(name, moved)
end

Queue.oldest_lock = '-inf'

-- Calls that must not write count what is due as waiting; the others move it.
local function counts(queue)
  local due = 0
  if scope.reading then
    due = Places.count_due(queue)
  else
    Queue.move_due(queue, Arguments.most)
  end
  local paused = Pause.is_paused(queue)
  local stalled = call('ZCOUNT', key.place(queue, 'locks'), Queue.oldest_lock, scope.now)
  local aside = Places.count_aside(queue)
  return {
    name = queue,
    waiting = call('ZCARD', key.place(queue, 'work')) + aside + due,
    held_back = aside > 0 and aside or nil,
    stalled = stalled,
    running = call('ZCARD', key.place(queue, 'locks')) - stalled,
    scheduled = call('ZCARD', key.place(queue, 'scheduled')) - due,
    depends = call('ZCARD', key.place(queue, 'depends')),
    recurring = call('ZCARD', key.place(queue, 'recur')),
    paused = paused,
    pause = paused and Pause.known(queue) or nil,
  }
end

-- In the order first seen; at most so many, if a number is given.
function Queue.names(most)
  return call('ZRANGE', key.queues(), 0, most and most - 1 or -1)
end

local MOST_COUNTED = 500

-- queues.part offset count -> counts of so many queues in the order first seen, 500 at most
function Queue.show_part(args, i)
  local first = Arguments.whole('queues.part', 'offset', args[i], 0)
  local count = math.min(Arguments.whole('queues.part', 'count', args[i + 1], 0), MOST_COUNTED)
  local all = {}
  if count > 0 then
    for n, queue in ipairs(call('ZRANGE', key.queues(), first, first + count - 1)) do
      all[n] = counts(queue)
    end
  end
  return cjson.encode(all)
end

-- queues [queue] (Of all queues: for clients without KEYS, as it is not bounded.)
function Queue.show(args, i)
  if args[i] then
    return cjson.encode(counts(Arguments.name('queues', 'queue', args[i])))
  end
  local all = {}
  for n, queue in ipairs(Queue.names()) do
    all[n] = counts(queue)
  end
  return cjson.encode(all)
end

-- The place of each list of jids, by state.
local LISTS = {
  running = 'locks',
  stalled = 'locks',
  scheduled = 'scheduled',
  depends = 'depends',
  recurring = 'recur',
}

-- A negative count asks for all, which is never more than a call may handle.
local function page(name, lowest, highest, offset, count)
  if count < 0 then
    count = Arguments.most
  end
  return call('ZRANGEBYSCORE', name, lowest, highest, 'LIMIT', offset, count)
end

-- What limits hold back, as what is listed behind what is ready. (Mostly there are no limits.)
local function add_aside(queue, jids, offset, count)
  if count > #jids and LimitSettings.exist() then
    local first = math.max(0, offset)
    for _, jid in ipairs(call('ZREVRANGE', key.place(queue, 'aside'), first, first + count - #jids - 1)) do
      jids[#jids + 1] = jid
    end
  end
end

-- What is ready, the next to be handed out first; what limits hold back; what is due and not moved yet.
local function waiting(queue, offset, count)
  count = count < 0 and Arguments.most or count
  local work = key.place(queue, 'work')
  local jids = count > 0 and call('ZREVRANGE', work, offset, offset + count - 1) or {}
  local missing = count - #jids
  if missing > 0 then
    local ready = call('ZCARD', work)
    add_aside(queue, jids, offset - ready, count)
    missing = count - #jids
    local before = math.max(0, offset - ready - Places.count_aside(queue))
    for _, jid in ipairs(Places.list_due(queue, before, missing)) do
      jids[#jids + 1] = jid
    end
  end
  return jids
end

-- Is there a list of jids of this kind?
function Queue.is_list(state)
  return state == 'waiting' or LISTS[state] ~= nil
end

-- The jids of a part of such a list.
function Queue.part(state, queue, offset, count)
  if state == 'waiting' then
    return waiting(queue, offset, count)
  end
  local name = key.place(queue, LISTS[state])
  if state == 'running' then
    return page(name, scope.now, '+inf', offset, count)
  elseif state == 'stalled' then
    return page(name, '-inf', scope.now, offset, count)
  elseif state == 'scheduled' and scope.reading then
    return page(name, '(' .. string.format('%.17g', scope.now), '+inf', offset, count)
  elseif state == 'scheduled' then
    Queue.move_due(queue, Arguments.most)
  end
  return page(name, '-inf', '+inf', offset, count)
end

function Queue.unknown(state)
  Errors.argument('jobs', 'Unknown type ' .. Errors.name(state))
end

-- jobs complete|canceled [offset count]
-- jobs waiting|running|stalled|scheduled|depends|recurring queue [offset count]
function Queue.jobs(args, i)
  local state = Arguments.given('jobs', 'state', args[i])
  if state == 'complete' or state == 'canceled' then
    local offset, count = Arguments.offset('jobs', args[i + 1]), Arguments.count('jobs', args[i + 2], 25)
    if state == 'canceled' then
      return Canceled.part(offset, count)
    end
    count = count < 0 and Arguments.most or count
    return call('ZREVRANGEBYSCORE', key.completed(), '+inf', '-inf', 'LIMIT', offset, count)
  end
  if not Queue.is_list(state) then
    Queue.unknown(state)
  end
  local queue = Arguments.name('jobs', 'queue', args[i + 1])
  local offset, count = Arguments.offset('jobs', args[i + 2]), Arguments.count('jobs', args[i + 3], 25)
  return Queue.part(state, queue, offset, count)
end

-- jobs.count complete|canceled: how many are kept
function Queue.count_jobs(args, i)
  local state = Arguments.given('jobs.count', 'state', args[i])
  if state == 'canceled' then
    return Canceled.count()
  elseif state ~= 'complete' then
    Errors.argument('jobs.count', 'Unknown type ' .. Errors.name(state))
  end
  return call('ZCARD', key.completed())
end

-- length queue
function Queue.length(args, i)
  local queue = Arguments.name('length', 'queue', args[i])
  return call('ZCARD', key.place(queue, 'locks'))
    + call('ZCARD', key.place(queue, 'work'))
    + Places.count_aside(queue)
    + call('ZCARD', key.place(queue, 'scheduled'))
end

-- queue.forget queue...
function Queue.forget(args, i)
  local queues = {}
  Pause.each_queue('queue.forget', args, i, function(queue)
    queues[#queues + 1] = queue
  end)
  SortedSet.remove(key.queues(), queues)
  if scope.live then
    Nonempty.remove(queues)
  end
end

local PLACES = { 'work', 'locks', 'scheduled', 'depends' }
local IN_PLACE = {
  work = 'waiting',
  locks = 'running or stalled',
  scheduled = 'scheduled',
  depends = 'dependent',
}

local function refuse_if_used(queue, schedules)
  local found, due = {}, Places.count_due(queue)
  local moved = { work = due + Places.count_aside(queue), scheduled = -due }
  for _, place in ipairs(PLACES) do
    local number = call('ZCARD', key.place(queue, place)) + (moved[place] or 0)
    if number > 0 then
      found[#found + 1] = number .. ' ' .. IN_PLACE[place]
    end
  end
  if schedules > 0 then
    found[#found + 1] = schedules .. ' recurring'
  end
  if #found > 0 then
    Errors.raise(
      'STATE',
      'queue.forget.empty(): Queue %s is in use: %s',
      Errors.name(queue),
      table.concat(found, ', ')
    )
  end
end

-- queue.forget.empty queue...: the same if nothing is in them and no schedule puts anything there
function Queue.forget_empty(args, i)
  local queues = {}
  Pause.each_queue('queue.forget.empty', args, i, function(queue)
    queues[#queues + 1] = queue
  end)
  local schedules = QueueSchedules.count(queues)
  for n, queue in ipairs(queues) do
    refuse_if_used(queue, schedules[n])
  end
  Queue.forget(args, i)
end

-- peek queue count
function Queue.peek(args, i)
  local queue = Arguments.name('peek', 'queue', args[i])
  local count = Arguments.count('peek', Arguments.given('peek', 'count', args[i + 1]))
  if count <= 0 then
    return '{}'
  end
  local jids = page(key.place(queue, 'locks'), '-inf', scope.now, 0, count)
  if #jids < count then
    local wanted = count - #jids
    if not scope.reading then
      Recurring.spawn_due(queue, wanted)
      Queue.move_due(queue, wanted)
    end
    for _, jid in ipairs(call('ZREVRANGE', key.place(queue, 'work'), 0, wanted - 1)) do
      jids[#jids + 1] = jid
    end
    add_aside(queue, jids, 0, count)
    if scope.reading and #jids < count then
      for _, jid in ipairs(Places.list_due(queue, 0, count - #jids)) do
        jids[#jids + 1] = jid
      end
    end
  end
  return Job.show_all(jids)
end
