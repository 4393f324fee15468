-- The places of a queue: work, locks, scheduled, depends. A job is in exactly one.
local Wake, scope, key, texts = Qless.Wake, Qless.scope, Qless.key, Qless.texts

local Place = {}
Qless.Place = Place

local call = redis.call

-- Highest first: by priority, then the longest waiting. Ties are popped in falling order of jid.
function Place.score(priority, time)
  return priority - time / 1e10
end

function Place.work(jid, queue, priority, time)
  call('ZADD', key.place(queue, 'work'), Place.score(priority, time or scope.now), jid)
  Wake.ready(queue, 1)
end

-- The score of a job that becomes ready now, as text.
function Place.score_text(priority)
  local text = texts[priority]
  if not text then
    text = string.format('%.17g', Place.score(priority, scope.now))
    texts[priority] = text
  end
  return text
end

-- Many jobs at once: score, jid, score, jid …
function Place.work_many(queue, list)
  local name = key.place(queue, 'work')
  for first = 1, #list, 1000 do
    call('ZADD', name, unpack(list, first, math.min(first + 999, #list)))
  end
  Wake.ready(queue, #list / 2)
end

function Place.scheduled(jid, queue, time)
  call('ZADD', key.place(queue, 'scheduled'), time, jid)
  Wake.due(queue, time)
end

function Place.depends(jid, queue)
  call('ZADD', key.place(queue, 'depends'), scope.now, jid)
end

-- What lags is counted from when a job became ready. (Old clients count from its put.)
function Place.ready_since(jid, time)
  if scope.keyed then
    call('HSET', key.job(jid), 'time', string.format('%.20f', time))
  end
end

function Place.leave(jid, queue)
  call('ZREM', key.place(queue, 'work'), jid)
  call('ZREM', key.place(queue, 'locks'), jid)
  call('ZREM', key.place(queue, 'depends'), jid)
  call('ZREM', key.place(queue, 'scheduled'), jid)
end

-- A queue is known from its first job on.
function Place.register(queue)
  if call('ZADD', key.queues(), 'NX', scope.now, queue) == 1 then
    Wake.seen()
  end
end
