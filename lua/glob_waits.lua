-- Idle workers of globs, or of very many queues. All with the same choice of queues block on one marker, whose name is
-- the text of that choice. (Workers with another choice must not take it from them: they could not start the job.) The
-- texts are listed in glob_waits only while workers wait: without it there are no markers to set but those of queues.

local MOST = 100 -- texts that are looked at; workers of others look by themselves

-- Seconds beyond the time that a worker waits: for which its text is listed, and the list kept.
local LATE, KEPT = 1, 60

local NONE = {}

-- All that is listed, the last to wait first.
function GlobWaits.all()
  local name = key.glob_waits()
  if not scope.glob_waits then
    local is_absent = ExistenceCache.is_absent(name) or call('EXISTS', name) == 0 -- mostly, and cheaper to ask
    scope.glob_waits = is_absent and NONE or call('ZREVRANGE', name, 0, MOST - 1)
  end
  return scope.glob_waits
end

-- Those that have this queue.
function GlobWaits.of(queue)
  local texts, found = GlobWaits.all(), {}
  if #texts == 0 then
    return NONE
  end
  for _, text in ipairs(texts) do
    found[#found + 1] = QueueChoice.text_has(text, queue) and text or nil
  end
  return found
end

-- A worker waits for so many seconds. -> the text of its queues
function GlobWaits.add(choice, seconds)
  local name, text = key.glob_waits(), QueueChoice.text(choice)
  call('ZREMRANGEBYSCORE', name, '-inf', NumberFormat.now())
  call('ZADD', name, 'GT', scope.now + seconds + LATE, text)
  call('EXPIRE', name, math.ceil(seconds) + KEPT)
  scope.glob_waits = nil
  ExistenceCache.forget(name)
  return text
end
