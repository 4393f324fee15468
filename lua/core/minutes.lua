-- Counters per queue and minute of what was put, started, completed and failed. Those of the whole namespace stand under
-- a name that no queue has, ''.

local floor, format = math.floor, string.format
local rcall = redis.call

local KINDS = { 'put', 'started', 'completed', 'failed' }
local TOTALLED = { started = true, completed = true, failed = true }
local KEPT = 26 * 3600 -- an hour's counters are kept until its last minute is 25 hours old
local LONGEST = 25 * 60

Minutes.kinds, Minutes.longest = KINDS, LONGEST

local function add(call, queue, kind, minute, n)
  local name = Keys.minutes(call, queue, Times.whole(floor(minute / 60)), kind)
  if rcall('HINCRBY', name, Times.text(minute % 60), n) == n then
    rcall('EXPIRE', name, KEPT)
  end
end

-- Adds to the counters of one minute of the epoch.
function Minutes.write(call, queue, kind, minute, n)
  add(call, queue, kind, minute, n)
  if TOTALLED[kind] then
    add(call, '', kind, minute, n)
  end
end

-- Counts for the present minute, at the end of the call.
function Minutes.add(call, queue, kind, n)
  local counts = call.minutes
  if not counts then
    counts = {}
    call.minutes = counts
  end
  local of_kind = counts[kind]
  if not of_kind then
    of_kind = {}
    counts[kind] = of_kind
  end
  of_kind[queue] = (of_kind[queue] or 0) + n
end
Minutes.count = Minutes.add

function Minutes.keep(call)
  local minute = floor(call.now / 60)
  for kind, of_kind in pairs(call.minutes) do
    for queue, n in pairs(of_kind) do
      Minutes.write(call, queue, kind, minute, n)
    end
  end
end

-- Shows the counters of a queue, or of the whole namespace (''), in a span of minutes: visit(kind, minute, n). The kinds
-- are the keys of span.kinds. What the statistics do not have yet is among them.
function Minutes.each(call, queue, span, visit)
  local function count(kind, minute, n)
    if minute >= span.from and minute <= span.to and span.kinds[kind] then
      visit(kind, minute, n)
    end
  end
  for kind in pairs(span.kinds) do
    for hour = floor(span.from / 60), floor(span.to / 60) do
      for minute, n in pairs(Pieces.hash(Keys.minutes(call, queue, format('%.0f', hour), kind))) do
        count(kind, hour * 60 + tonumber(minute), tonumber(n))
      end
    end
  end
  Samples.each(call, function(second, kind, _, n, its_queue)
    if queue == '' or its_queue == queue then
      count(Samples.counted_as[kind], floor(second / 60), n)
    end
  end)
end

-- minutes queue from to -> by kind: minute of the epoch -> number
function Minutes.show(call, args, i)
  local queue = Arguments.queue(call, args[i])
  local from = Arguments.whole(call, 'from', args[i + 1], 0)
  local to = Arguments.whole(call, 'to', args[i + 2], 0)
  if to - from > LONGEST then
    Errors.refuse(call, 'TOOBIG', '%s minutes, at most %s', to - from, LONGEST)
  end
  local shown = {}
  for _, kind in ipairs(KINDS) do
    shown[kind] = {}
  end
  Minutes.each(call, queue, { from = from, to = to, kinds = shown }, function(kind, minute, n)
    local field = format('%.0f', minute)
    shown[kind][field] = (shown[kind][field] or 0) + n
  end)
  return cjson.encode(shown)
end
