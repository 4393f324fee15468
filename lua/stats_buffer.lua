-- Samples that the statistics do not have yet: few at a time are only appended here.

local match, format, floor = string.match, string.format, math.floor
local text_of = Arguments.text_of

-- An entry: when, wait or run, how many seconds, how often, the queue. The milliseconds of the length
-- stand behind the whole seconds of the time, where libraries that count in whole seconds overlook
-- them; their own entries have none.
function StatsBuffer.entry(second, kind, seconds, n, queue)
  local whole = floor(seconds)
  return NumberFormat.whole(second)
    .. format('.%03d ', floor((seconds - whole) * 1000 + 0.5))
    .. kind
    .. ' '
    .. text_of(whole)
    .. ' '
    .. text_of(n)
    .. ' '
    .. queue
end

-- -> how many entries there are now
function StatsBuffer.append(...)
  return call('RPUSH', key.journal(), ...)
end

-- Shows all entries to `visit(second, kind, seconds, n, queue)`; the seconds are a text if no more than
-- the whole ones are known. Jobs that come quickly one after the other leave the same entry many
-- times: those come as one.
local function show(texts, visit)
  local times = {}
  for n = 1, #texts do
    times[texts[n]] = (times[texts[n]] or 0) + 1
  end
  for text, often in pairs(times) do
    local second, fraction, kind, seconds, n, queue = match(text, '^(%-?%d+)(%.?%d*) (%a+) (%S+) (%S+) (.*)$')
    if (kind == 'wait' or kind == 'run') and tonumber(seconds) and tonumber(n) then
      if fraction ~= '' then
        seconds = tonumber(seconds .. fraction)
      end
      visit(tonumber(second), kind, seconds, tonumber(n) * often, queue)
    end
  end
end

function StatsBuffer.read(visit)
  show(call('LRANGE', key.journal(), '0', '-1'), visit)
end

-- The same, and forgets them.
function StatsBuffer.take(visit)
  local texts = call('LRANGE', key.journal(), '0', '-1')
  if #texts > 0 then
    call('DEL', key.journal())
    show(texts, visit)
  end
end
