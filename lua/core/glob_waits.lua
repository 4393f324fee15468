-- Idle workers of globs, or of very many queues. All with the same choice of queues block on one marker, whose name is
-- the text of that choice. (Workers with another choice must not take it from them: they could not start the job.) The
-- texts are listed in glob_waits, which there is only while the letter W is among those of the namespace.

local rcall = redis.call

local MOST = 100 -- texts that are looked at; workers of others look by themselves

-- Seconds beyond the time that a worker waits: for which its text is listed, and the list kept.
local LATE, KEPT = 1, 60

local NONE = {}

local function marker(call, text)
  return { name = text, wake = Keys.wake(call, text), timer = Keys.timer(call, text) }
end

-- The markers of all that is listed, the last to wait first.
function GlobWaits.all(call)
  if not call.has.W then
    return NONE
  elseif not call.glob_waits then
    local texts = rcall('ZREVRANGE', call.keys.glob_waits, 0, MOST - 1)
    for n = 1, #texts do
      texts[n] = marker(call, texts[n])
    end
    call.glob_waits = texts
  end
  return call.glob_waits
end

-- Those of choices that have this queue.
function GlobWaits.of(call, queue)
  if not call.has.W then
    return NONE
  end
  local found = {}
  for _, one in ipairs(GlobWaits.all(call)) do
    found[#found + 1] = Queues.text_has(one.name, queue.name) and one or nil
  end
  return found
end

-- A worker waits for that number of seconds. -> the marker of its queues
function GlobWaits.add(call, choice, seconds)
  local name, text = call.keys.glob_waits, Queues.text(choice)
  rcall('ZREMRANGEBYSCORE', name, '-inf', call.text)
  rcall('ZADD', name, 'GT', call.now + seconds + LATE, text)
  rcall('EXPIRE', name, math.ceil(seconds) + KEPT)
  Features.note(call, 'W')
  call.glob_waits = nil
  return marker(call, text)
end

-- Drops the letter when none waits any longer.
function GlobWaits.tidy(call)
  if call.has.W then
    rcall('ZREMRANGEBYSCORE', call.keys.glob_waits, '-inf', call.text)
    if rcall('EXISTS', call.keys.glob_waits) == 0 then
      Features.forget(call, 'W')
    end
  end
end
