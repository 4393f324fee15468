-- What a queue, or the whole namespace, has done lately: the counters of minutes in longer spans.

local floor = math.floor

local QUEUES = 200 -- of which one call says how many jobs are failed
local DAYS = 10000 -- looked at by that call, of all queues together

local function zeros(number)
  local list = {}
  for n = 1, number do
    list[n] = 0
  end
  return list
end

-- throughput queue from to step -> started, completed, failed and, of a queue, put: lists of numbers. Without a queue
-- (''), of the whole namespace.
function Throughput.show(call, args, i)
  local queue = Arguments.given(call, 'queue', args[i])
  local from = Arguments.whole(call, 'from', args[i + 1], 0)
  local to = Arguments.whole(call, 'to', args[i + 2], 0)
  local step = Arguments.whole(call, 'step', args[i + 3], 1)
  if to < from then
    Errors.argument(call, 'to must not be before from, ' .. from .. ', as ' .. to .. ' is')
  elseif to - from >= Minutes.longest then
    Errors.refuse(call, 'TOOBIG', '%s minutes, at most %s', to - from + 1, Minutes.longest)
  end
  local shown = { first = from, step = step }
  local kinds = {}
  for _, kind in ipairs(Minutes.kinds) do
    if queue ~= '' or kind ~= 'put' then
      kinds[kind] = zeros(floor((to - from) / step) + 1)
    end
  end
  Minutes.each(call, queue, { from = from, to = to, kinds = kinds }, function(kind, minute, n)
    local place = floor((minute - from) / step) + 1
    kinds[kind][place] = kinds[kind][place] + n
  end)
  for _, kind in ipairs(Minutes.kinds) do
    shown[kind] = kinds[kind] or cjson.null
  end
  return cjson.encode(shown)
end

-- failed.of queue... -> of each, how many of its jobs are failed: the sum of what the days know for which statistics are
-- kept
function Throughput.failed(call, args, i)
  local names, failed = Pieces.rest(args, i), {}
  if #names > QUEUES then
    Errors.refuse(call, 'TOOBIG', '%s queues in one call, at most %s', #names, QUEUES)
  end
  local days = math.min(Config.whole(call, 'stats-history') + 1, floor(DAYS / math.max(#names, 1)))
  for n, name in ipairs(names) do
    failed[n] = Stats.failed(call, name, math.max(1, days))
  end
  return failed
end
