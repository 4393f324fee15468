-- The schedules that put jobs into a queue, and its templates.

local rcall = redis.call

local QUEUES = 200 -- of which one call says how many they have

local function places(call, name)
  local queue = Keys.queue(call, name)
  return { queue.schedules, queue.recur }
end

-- How many schedules these queues have, in their order.
function QueueSchedules.count(call, names)
  local numbers = {}
  for n, name in ipairs(names) do
    local schedules, recur = unpack(places(call, name))
    numbers[n] = rcall('ZCARD', schedules) + rcall('ZCARD', recur)
  end
  return numbers
end

-- schedules.count queue... -> how many each has
function QueueSchedules.numbers(call, args, i)
  local names = Pieces.rest(args, i)
  if #names > QUEUES then
    Errors.refuse(call, 'TOOBIG', '%s queues in one call, at most %s', #names, QUEUES)
  end
  return QueueSchedules.count(call, names)
end

-- schedules.in queue offset count -> total and schedules, by id; then templates
function QueueSchedules.list(call, args, i)
  local queue = Arguments.name(call, 'queue', args[i])
  local offset = Arguments.whole(call, 'offset', args[i + 1], 0)
  local count = math.min(Arguments.whole(call, 'count', args[i + 2], 0), Arguments.most)
  return ScheduleView.part(call, places(call, queue), offset, count)
end
