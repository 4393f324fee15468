-- Counters per queue and minute of what was put, started, completed and failed.
local Arguments, Errors, scope, key = Qless.Arguments, Qless.Errors, Qless.scope, Qless.key

local Minutes = {}
Qless.Minutes = Minutes

local call, floor = redis.call, math.floor

local KINDS = { 'put', 'started', 'completed', 'failed' }
local KEPT = 26 * 3600 -- an hour's counters are kept until its last minute is 25 hours old
local LONGEST = 25 * 60

local counted

function Minutes.reset()
  counted = nil
end

function Minutes.count(queue, kind, n)
  if not scope.live then
    return
  end
  counted = counted or {}
  local kinds = counted[queue]
  if not kinds then
    kinds = {}
    counted[queue] = kinds
  end
  kinds[kind] = (kinds[kind] or 0) + n
end

function Minutes.flush()
  if not counted then
    return
  end
  local minute = floor(scope.now / 60)
  for queue, kinds in pairs(counted) do
    for kind, n in pairs(kinds) do
      local name = key.minutes(queue, floor(minute / 60), kind)
      if call('HINCRBY', name, minute % 60, n) == n then
        call('EXPIRE', name, KEPT)
      end
    end
  end
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
  return cjson.encode(shown)
end
