-- Counters per queue and minute of what was put, started, completed and failed.

local floor, text_of = math.floor, Arguments.text_of

local KINDS = { 'put', 'started', 'completed', 'failed' }
local TOTALLED = { started = true, completed = true, failed = true }
local KEPT = 26 * 3600 -- an hour's counters are kept until its last minute is 25 hours old
local LONGEST = 25 * 60

Minutes.kinds, Minutes.longest = KINDS, LONGEST

-- The counters of the whole namespace stand under a name that no queue has. What is put is not
-- counted there: it would cost each put as much as its own counter. Nor are the entities' own.
local ALL = ''

-- What a call counts is written at its end: scope.minutes, a list, as a call counts few.
function Minutes.count(queue, kind, n)
  if not scope.live then
    return
  end
  local counted = scope.minutes or {}
  for place = 1, #counted do
    local one = counted[place]
    if one.queue == queue and one.kind == kind then
      one.n = one.n + n
      return
    end
  end
  counted[#counted + 1] = { queue = queue, kind = kind, n = n }
  scope.minutes = counted
end

-- Adds to the counter of one minute of the epoch.
function Minutes.write(queue, kind, minute, n)
  if scope.live then
    local name = key.minutes(queue, floor(minute / 60), kind)
    if call('HINCRBY', name, text_of(minute % 60), text_of(n)) == n then
      call('EXPIRE', name, KEPT)
    end
  end
end

-- The same for the whole namespace.
function Minutes.write_total(kind, minute, n)
  Minutes.write(ALL, kind, minute, n)
end

function Minutes.finish()
  local minute = floor(scope.now / 60)
  for _, one in ipairs(scope.minutes) do
    Minutes.write(one.queue, one.kind, minute, one.n)
    if TOTALLED[one.kind] then
      Minutes.write_total(one.kind, minute, one.n)
    end
  end
end

local BUFFERED = { wait = 'started', run = 'completed' }
Minutes.buffered = BUFFERED

-- Adds what the statistics do not have yet.
local function count_buffered(shown, wanted_queue, from, to)
  StatsBuffer.read(function(second, kind, _, n, queue)
    local minute = floor(second / 60)
    if queue == wanted_queue and minute >= from and minute <= to then
      local list, field = shown[BUFFERED[kind]], string.format('%.0f', minute)
      list[field] = (list[field] or 0) + n
    end
  end)
end

-- minutes queue from to
function Minutes.show(args, i)
  local queue = Arguments.queue('minutes', args[i])
  local from = Arguments.whole('minutes', 'from', args[i + 1], 0)
  local to = Arguments.whole('minutes', 'to', args[i + 2], 0)
  if to - from > LONGEST then
    Errors.raise('TOOBIG', 'minutes(): ' .. to - from .. ' minutes, at most ' .. LONGEST)
  end
  local shown = {}
  for _, kind in ipairs(KINDS) do
    shown[kind] = {}
    for hour = floor(from / 60), floor(to / 60) do
      local found = call('HGETALL', key.minutes(queue, hour, kind))
      for n = 1, #found, 2 do
        local minute = hour * 60 + tonumber(found[n])
        if minute >= from and minute <= to then
          shown[kind][string.format('%.0f', minute)] = tonumber(found[n + 1])
        end
      end
    end
  end
  count_buffered(shown, queue, from, to)
  return cjson.encode(shown)
end
