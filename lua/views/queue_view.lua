-- Queues as they are shown: what is in them, the lists of their jobs; and forgetting them.

local rcall = redis.call

-- Calls that must not write count what is due as waiting; the others move it.
local function counts(call, name)
  local queue, due = Keys.queue(call, name), 0
  if call.reading then
    due = Queue.count_due(call, queue)
  else
    Queue.move_due(call, queue, Arguments.most)
  end
  local paused = rcall('SISMEMBER', call.keys.paused_queues, name) == 1
  -- (Of old clients, locks that expired before 1970 are not seen as stalled.)
  local stalled = rcall('ZCOUNT', queue.locks, call.old and '0' or '-inf', call.text)
  local parked = Queue.count_parked(call, queue)
  return {
    name = name,
    waiting = rcall('ZCARD', queue.work) + parked + due,
    held_back = parked > 0 and parked or nil,
    stalled = stalled,
    running = rcall('ZCARD', queue.locks) - stalled,
    scheduled = rcall('ZCARD', queue.scheduled) - due,
    depends = rcall('ZCARD', queue.depends),
    recurring = rcall('ZCARD', queue.recur),
    paused = paused,
    pause = paused and not call.old and Pause.known(call, name) or nil,
  }
end

local MOST_COUNTED = 500

-- queues.part offset count -> counts of `count` queues (at most 500) in the order first seen
function QueueView.part(call, args, i)
  local first = Arguments.whole(call, 'offset', args[i], 0)
  local count = math.min(Arguments.whole(call, 'count', args[i + 1], 0), MOST_COUNTED)
  local all = {}
  if count > 0 then
    for n, queue in ipairs(rcall('ZRANGE', call.keys.queues, first, first + count - 1)) do
      all[n] = counts(call, queue)
    end
  end
  return cjson.encode(all)
end

-- queues [queue] (Of all queues: for old clients, as it is not bounded.)
function QueueView.show(call, args, i)
  if args[i] then
    return cjson.encode(counts(call, Arguments.name(call, 'queue', args[i])))
  end
  local all = {}
  for n, queue in ipairs(Queues.names(call)) do
    all[n] = counts(call, queue)
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
local function page(name, lowest, highest, range)
  local count = range.count < 0 and Arguments.most or range.count
  return rcall('ZRANGEBYSCORE', name, lowest, highest, 'LIMIT', range.offset, count)
end

local function extend(jids, more)
  for n = 1, #more do
    jids[#jids + 1] = more[n]
  end
end

-- What is ready, the next to be handed out first; what limits hold back; what is due and not moved yet.
local function waiting(call, queue, offset, count)
  count = count < 0 and Arguments.most or count
  local jids = count > 0 and rcall('ZREVRANGE', queue.work, offset, offset + count - 1) or {}
  local before = rcall('ZCARD', queue.work)
  local parked = Queue.count_parked(call, queue)
  if #jids < count and parked > 0 then
    local first = math.max(0, offset - before)
    extend(jids, rcall('ZREVRANGE', queue.parked, first, first + count - #jids - 1))
  end
  if #jids < count then
    local first = math.max(0, offset - before - parked)
    extend(jids, Queue.list_due(call, queue, first, count - #jids))
  end
  return jids
end

-- Is there a list of jids of this kind?
function QueueView.is_list(state)
  return state == 'waiting' or LISTS[state] ~= nil
end

-- The jids of a part of the list.
function QueueView.jids(call, state, queue, range)
  if state == 'waiting' then
    return waiting(call, queue, range.offset, range.count)
  end
  local name = queue[LISTS[state]]
  if state == 'running' then
    return page(name, call.text, '+inf', range)
  elseif state == 'stalled' then
    return page(name, '-inf', call.text, range)
  elseif state == 'scheduled' and call.reading then
    return page(name, '(' .. call.text, '+inf', range)
  elseif state == 'scheduled' then
    Queue.move_due(call, queue, Arguments.most)
  end
  return page(name, '-inf', '+inf', range)
end

local function range_of(call, args, i)
  return { offset = Arguments.offset(call, args[i]), count = Arguments.count(call, args[i + 1], 25) }
end

-- jobs complete|canceled [offset count]
-- jobs waiting|running|stalled|scheduled|depends|recurring queue [offset count]
function QueueView.jobs(call, args, i)
  local state = Arguments.given(call, 'state', args[i])
  if state == 'complete' then
    local range = range_of(call, args, i + 1)
    local count = range.count < 0 and Arguments.most or range.count
    return rcall('ZREVRANGEBYSCORE', call.keys.completed, '+inf', '-inf', 'LIMIT', range.offset, count)
  elseif state == 'canceled' and not call.old then
    local range = range_of(call, args, i + 1)
    return Cancel.part(call, range.offset, range.count)
  elseif not QueueView.is_list(state) or (state == 'waiting' and call.old) then
    Errors.argument(call, 'Unknown type ' .. Errors.name(state))
  end
  local queue = Keys.queue(call, Arguments.name(call, 'queue', args[i + 1]))
  return QueueView.jids(call, state, queue, range_of(call, args, i + 2))
end

-- jobs.count complete|canceled: how many are kept
function QueueView.count_jobs(call, args, i)
  local state = Arguments.given(call, 'state', args[i])
  if state == 'canceled' then
    return Cancel.count(call)
  elseif state ~= 'complete' then
    Errors.argument(call, 'Unknown type ' .. Errors.name(state))
  end
  return rcall('ZCARD', call.keys.completed)
end

-- length queue
function QueueView.length(call, args, i)
  local queue = Keys.queue(call, Arguments.name(call, 'queue', args[i]))
  return rcall('ZCARD', queue.locks)
    + rcall('ZCARD', queue.work)
    + Queue.count_parked(call, queue)
    + rcall('ZCARD', queue.scheduled)
end

-- (What is in a queue that is forgotten is found by workers of globs as before.)
local function forget(call, names)
  Pieces.run('ZREM', call.keys.queues, names)
  for _, name in ipairs(names) do
    if Queues.is_empty(Keys.queue(call, name)) then
      rcall('ZREM', call.keys.ready, name)
    else
      Features.note(call, 'F')
    end
  end
end

-- queue.forget queue...
function QueueView.forget(call, args, i)
  forget(call, Pause.names(call, args, i))
end

-- What is in a queue, in words.
local function contents(call, queue, schedules)
  local due = Queue.count_due(call, queue)
  local numbers = {
    { rcall('ZCARD', queue.work) + due + Queue.count_parked(call, queue), 'waiting' },
    { rcall('ZCARD', queue.locks), 'running or stalled' },
    { rcall('ZCARD', queue.scheduled) - due, 'scheduled' },
    { rcall('ZCARD', queue.depends), 'dependent' },
    { schedules, 'recurring' },
  }
  local found = {}
  for _, number in ipairs(numbers) do
    if number[1] > 0 then
      found[#found + 1] = number[1] .. ' ' .. number[2]
    end
  end
  return table.concat(found, ', ')
end

-- queue.forget.empty queue...: the same if nothing is in them and no schedule puts anything there
function QueueView.forget_empty(call, args, i)
  local names = Pause.names(call, args, i)
  local schedules = QueueSchedules.count(call, names)
  for n, name in ipairs(names) do
    local found = contents(call, Keys.queue(call, name), schedules[n])
    if found ~= '' then
      Errors.refuse(call, 'STATE', 'Queue %s is in use: %s', Errors.name(name), found)
    end
  end
  forget(call, names)
end

-- peek queue count
function QueueView.peek(call, args, i)
  local queue = Keys.queue(call, Arguments.name(call, 'queue', args[i]))
  local count = Arguments.count(call, Arguments.given(call, 'count', args[i + 1]))
  if count <= 0 then
    return '{}'
  end
  local jids = page(queue.locks, '-inf', call.text, { offset = 0, count = count })
  if #jids < count and not call.reading then
    Recurring.spawn_due(call, queue, count - #jids)
    Queue.move_due(call, queue, count - #jids)
  end
  if #jids < count then
    extend(jids, waiting(call, queue, 0, count - #jids))
  end
  return JobView.list(call, jids)
end
