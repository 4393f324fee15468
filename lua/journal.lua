-- Samples that the statistics do not have yet: few at a time are only appended here.
local Texts, Arguments, key = Qless.Texts, Qless.Arguments, Qless.key

local Journal = {}
Qless.Journal = Journal

local call, match, text_of = redis.call, string.match, Arguments.text_of

-- An entry: when (in whole seconds), wait or run, how many seconds, how often, the queue.
function Journal.entry(kind, seconds, n, queue)
  return Texts.second() .. ' ' .. kind .. ' ' .. text_of(seconds) .. ' ' .. text_of(n) .. ' ' .. queue
end

-- -> how many entries there are now
function Journal.append(...)
  return call('RPUSH', key.journal(), ...)
end

-- Shows all entries to `visit(second, kind, seconds, n, queue)`. Jobs that come quickly one after
-- the other leave the same entry many times: those come as one.
local function show(texts, visit)
  local times = {}
  for n = 1, #texts do
    times[texts[n]] = (times[texts[n]] or 0) + 1
  end
  for text, often in pairs(times) do
    local second, kind, seconds, n, queue = match(text, '^(%S+) (%a+) (%S+) (%S+) (.*)$')
    visit(tonumber(second), kind, tonumber(seconds), tonumber(n) * often, queue)
  end
end

function Journal.read(visit)
  show(call('LRANGE', key.journal(), '0', '-1'), visit)
end

-- The same, and forgets them.
function Journal.take(visit)
  local texts = call('LRANGE', key.journal(), '0', '-1')
  if #texts > 0 then
    call('DEL', key.journal())
    show(texts, visit)
  end
end
