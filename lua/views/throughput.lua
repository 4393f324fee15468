-- What a queue, or the whole namespace, has done lately: the counters of minutes in longer spans.

local floor = math.floor

local QUEUES = 200 -- of which one call says how many jobs are failed
local DAYS = 10000 -- looked at by that call, of all queues together

-- A function that adds to the spans of one kind, and these spans.
local function spans(from, to, step)
  local list = {}
  for n = 1, floor((to - from) / step) + 1 do
    list[n] = 0
  end
  return list,
    function(minute, n)
      if minute >= from and minute <= to then
        local place = floor((minute - from) / step) + 1
        list[place] = list[place] + n
      end
    end
end

local function count(queue, kind, from, to, add)
  for hour = floor(from / 60), floor(to / 60) do
    local found = call('HGETALL', key.minutes(queue, hour, kind))
    for n = 1, #found, 2 do
      add(hour * 60 + tonumber(found[n]), tonumber(found[n + 1]))
    end
  end
end

-- throughput queue from to step -> started, completed, failed and, of a queue, put: lists of numbers.
-- Without a queue (''), of the whole namespace.
function Throughput.show(args, i)
  local queue = Arguments.given('throughput', 'queue', args[i])
  local from = Arguments.whole('throughput', 'from', args[i + 1], 0)
  local to = Arguments.whole('throughput', 'to', args[i + 2], 0)
  local step = Arguments.whole('throughput', 'step', args[i + 3], 1)
  if to < from then
    Errors.argument('throughput', 'to must not be before from, ' .. from .. ', as ' .. to .. ' is')
  elseif to - from >= Minutes.longest then
    Errors.raise('TOOBIG', 'throughput(): ' .. to - from + 1 .. ' minutes, at most ' .. Minutes.longest)
  end
  local shown, adders = { first = from, step = step, put = cjson.null }, {}
  for _, kind in ipairs(Minutes.kinds) do
    if queue ~= '' or kind ~= 'put' then
      shown[kind], adders[kind] = spans(from, to, step)
      count(queue, kind, from, to, adders[kind])
    end
  end
  StatsBuffer.read(function(second, kind, _, n, of)
    if queue == '' or of == queue then
      adders[Minutes.buffered[kind]](floor(second / 60), n)
    end
  end)
  return cjson.encode(shown)
end

-- failed.of queue... -> of each, how many of its jobs are failed: the sum of what the days know for
-- which statistics are kept
function Throughput.failed(args, i)
  local number = #args - i + 1
  if number > QUEUES then
    Errors.raise('TOOBIG', 'failed.of(): ' .. number .. ' queues in one call, at most ' .. QUEUES)
  end
  local days = math.max(1, math.min(Config.whole('stats-history') + 1, floor(DAYS / math.max(number, 1))))
  local today, failed = Stats.day(scope.now), {}
  for n = i, #args do
    local sum = 0
    for back = 0, days - 1 do
      sum = sum + (tonumber(call('HGET', key.stat('stats', today - back * 86400, args[n]), 'failed')) or 0)
    end
    failed[#failed + 1] = sum
  end
  return failed
end
