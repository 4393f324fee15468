-- The places of a queue: work, locks, scheduled, depends, and aside (see limits). A job is in exactly one.

-- Highest first: by priority, then the longest waiting. Ties are popped in falling order of jid.
function Places.score(priority, time)
  return priority - time / 1e10
end

function Places.work(jid, queue, priority, time)
  call('ZADD', key.place(queue, 'work'), Places.score(priority, time or scope.now), jid)
  Wake.ready(queue, 1)
end

-- Back to where a job was taken from: the head of its priority. Its equals there have the same
-- score, and of those the one with the higher jid comes first; ours fall with time.
function Places.work_again(jid, queue, priority)
  local work, score = key.place(queue, 'work'), Places.score(priority, scope.now)
  local head = call('ZREVRANGEBYSCORE', work, priority, score, 'WITHSCORES', 'LIMIT', '0', '1')
  call('ZADD', work, head[2] or score, jid)
  Wake.ready(queue, 1)
end

-- The scores of jobs that become ready now, as texts by priority: a batch has few different ones.
function Places.scores()
  return setmetatable({}, {
    __index = function(texts, priority)
      local text = string.format('%.17g', Places.score(priority, scope.now))
      texts[priority] = text
      return text
    end,
  })
end

-- Many jobs at once: score, jid, score, jid …
function Places.work_many(queue, list)
  local name = key.place(queue, 'work')
  for first = 1, #list, 1000 do
    call('ZADD', name, unpack(list, first, math.min(first + 999, #list)))
  end
  Wake.ready(queue, #list / 2)
end

function Places.scheduled(jid, queue, time)
  local name = key.place(queue, 'scheduled')
  ExistenceCache.forget(name) -- its time may have come already, if it waited for others
  call('ZADD', name, time, jid)
  Wake.due(queue, time)
end

function Places.depends(jid, queue)
  call('ZADD', key.place(queue, 'depends'), scope.now, jid)
end

-- A delayed job counts as waiting from its time on, though it stands among the delayed ones until a
-- call moves it that writes; and so does one that was taken from its worker: the record says 'stalled', but no
-- worker has it. -> its state now, when it falls due
function Places.state_now(jid, queue, state)
  if state == 'stalled' then
    return 'waiting'
  elseif state ~= 'scheduled' then
    return state
  end
  local due = call('ZSCORE', key.place(queue, 'scheduled'), jid)
  return due and tonumber(due) <= scope.now and 'waiting' or state, due
end

-- How many delayed jobs of a queue count as waiting, and which they are.
function Places.count_due(queue)
  return call('ZCOUNT', key.place(queue, 'scheduled'), '-inf', scope.now)
end

function Places.list_due(queue, offset, count)
  return call('ZRANGEBYSCORE', key.place(queue, 'scheduled'), '-inf', scope.now, 'LIMIT', offset, count)
end

-- How many jobs of a queue limits hold back.
function Places.count_aside(queue)
  return LimitSettings.exist() and call('ZCARD', key.place(queue, 'aside')) or 0
end

-- What lags is counted from when a job became ready. (Calls without KEYS want to know whether it carries an entity.)
function Places.ready_since(jid, time)
  local text = time == scope.now and NumberFormat.time() or string.format('%.20f', time)
  call('HSET', key.job(jid), 'time', text)
end

function Places.leave(jid, queue)
  call('ZREM', key.place(queue, 'work'), jid)
  if call('ZREM', key.place(queue, 'locks'), jid) == 1 then
    Wake.freed(queue, 1)
  end
  call('ZREM', key.place(queue, 'depends'), jid)
  call('ZREM', key.place(queue, 'scheduled'), jid)
end

-- A queue is known from its first job on.
function Places.make_known(queue)
  if call('ZADD', key.queues(), 'NX', scope.now, queue) == 1 then
    Wake.seen()
  end
end

-- Something comes into the queue from outside. (One of which that is known already is mostly known itself; only a
-- foreign script may have forgotten it.)
function Places.register(queue)
  if Nonempty.add(queue) or Clock.is_round() then
    Places.make_known(queue)
  end
end
