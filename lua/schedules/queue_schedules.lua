-- The schedules that put jobs into a queue: interval ones have their place there; cron ones and paused
-- ones are kept together for all queues, and their records say which queue is theirs.

local QUEUES = 200 -- of which one call says how many they have

-- Shows the cron schedules by their next tick, then the paused ones, with the queue of each: as many
-- of either as one call may look at.
local function each_elsewhere(visit)
  for _, id in ipairs(SortedSet.head(key.schedules())) do
    visit(id, call('HGET', key.schedule(id), 'queue'))
  end
  for _, id in ipairs(SortedSet.head(key.paused_schedules())) do
    visit(id, call('HGET', key.schedule(id), 'queue') or call('HGET', key.template(id), 'queue'))
  end
end

-- How many schedules these queues have, in their order.
function QueueSchedules.count(queues)
  local elsewhere, numbers = {}, {}
  each_elsewhere(function(_, queue)
    if queue then
      elsewhere[queue] = (elsewhere[queue] or 0) + 1
    end
  end)
  for n, queue in ipairs(queues) do
    numbers[n] = call('ZCARD', key.place(queue, 'recur')) + (elsewhere[queue] or 0)
  end
  return numbers
end

-- schedules.count queue... -> how many each has
function QueueSchedules.numbers(args, i)
  local queues = {}
  for n = i, #args do
    queues[#queues + 1] = args[n]
  end
  if #queues > QUEUES then
    Errors.raise('TOOBIG', 'schedules.count(): ' .. #queues .. ' queues in one call, at most ' .. QUEUES)
  end
  return QueueSchedules.count(queues)
end

-- schedules.in queue offset count -> total and schedules: cron ones, paused ones, interval ones
function QueueSchedules.list(args, i)
  local queue = Arguments.name('schedules.in', 'queue', args[i])
  local offset = Arguments.whole('schedules.in', 'offset', args[i + 1], 0)
  local count = math.min(Arguments.whole('schedules.in', 'count', args[i + 2], 0), Arguments.most)
  local ids, recur = {}, key.place(queue, 'recur')
  each_elsewhere(function(id, of)
    ids[#ids + 1] = of == queue and id or nil
  end)
  local wanted, found = {}, {}
  for n = offset + 1, math.min(offset + count, #ids) do
    wanted[#wanted + 1] = ids[n]
  end
  if #wanted < count then
    local first = math.max(offset - #ids, 0)
    for _, id in ipairs(call('ZRANGE', recur, first, first + count - #wanted - 1)) do
      wanted[#wanted + 1] = id
    end
  end
  for _, id in ipairs(wanted) do
    local record = Schedules.read(id)
    found[#found + 1] = record and ScheduleView.shown(record)
  end
  local total = #ids + call('ZCARD', recur)
  return Json.with(cjson.encode({ total = total }), 'schedules', Json.list(found))
end
