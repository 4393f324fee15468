-- The places of a queue: work, locks, scheduled, depends (and parked: see limits.lua). A job is in exactly one.
-- `queue` is that of Keys.queue everywhere.

local format = string.format
local rcall = redis.call

-- Highest first: by priority, then the longest waiting. Ties are popped in falling order of jid.
function Queue.score(priority, time)
  return priority - time / 1e10
end

-- The job may be handed out. `time`: since when, if not from now on.
function Queue.push(call, queue, jid, priority, time)
  local score
  if priority == 0 and not time then
    call.score = call.score or format('%.17g', 0 - call.now / 1e10)
    score = call.score
  else
    score = format('%.17g', Queue.score(priority, time or call.now))
  end
  rcall('ZADD', queue.work, score, jid)
  Wake.set(call, queue)
end

-- Back to where a job was taken from: the head of its priority. Its equals there have the same score, and of those the
-- one with the higher jid comes first; ours fall with time.
function Queue.push_first(call, queue, jid, priority)
  local score = Queue.score(priority, call.now)
  local head = rcall('ZREVRANGEBYSCORE', queue.work, priority, score, 'WITHSCORES', 'LIMIT', '0', '1')
  rcall('ZADD', queue.work, head[2] or score, jid)
  Wake.set(call, queue)
end

-- The job becomes ready at that time.
function Queue.schedule(call, queue, jid, time)
  rcall('ZADD', queue.scheduled, format('%.17g', time), jid)
  Wake.due(call, queue, time)
end

-- The job waits for others.
function Queue.hold(call, queue, jid)
  rcall('ZADD', queue.depends, call.text, jid)
end

-- The job leaves whichever place it is in.
function Queue.leave(call, queue, jid)
  rcall('ZREM', queue.work, jid)
  if rcall('ZREM', queue.locks, jid) == 1 then
    Wake.freed(call, queue)
  end
  rcall('ZREM', queue.depends, jid)
  rcall('ZREM', queue.scheduled, jid)
end

-- Something comes into the queue: it is known from then on.
function Queue.register(call, queue)
  if rcall('ZADD', call.keys.ready, '0', queue.name) == 1 or call.has.F then
    rcall('ZADD', call.keys.queues, 'NX', call.text, queue.name)
  end
end

-- Since when a job is ready, from which its lag is counted: a number.
function Queue.ready_since(call, job, time)
  rcall('HSET', job.key, 'time', time and format('%.17g', time) or call.text)
end

-- A job that waits for its time need not any longer. (Others stay as they are.)
function Queue.run_now(call, queue, job)
  if rcall('ZREM', queue.scheduled, job.jid) == 1 then
    rcall('HSET', job.key, 'state', 'waiting')
    Queue.ready_since(call, job)
    Queue.push(call, queue, job.jid, job.priority)
  end
end

-- Moves jobs whose time has come into the work, at most `wanted`. Their places are by when that was; old clients move
-- them as if it was now.
function Queue.move_due(call, queue, wanted)
  local due = rcall('ZRANGEBYSCORE', queue.scheduled, '-inf', call.text, 'WITHSCORES', 'LIMIT', '0', wanted)
  for n = 1, #due, 2 do
    local jid, since = due[n], tonumber(due[n + 1])
    local job = { jid = jid, key = Keys.job(call, jid) }
    local values = rcall('HMGET', job.key, 'priority', 'state', 'more')
    if Job.is_state(values[2]) then
      local by_due = not call.old or string.find(values[3] or '', 'e', 1, true)
      rcall('HSET', job.key, 'state', 'waiting')
      if by_due then
        Queue.ready_since(call, job, since)
      end
      Queue.push(call, queue, jid, tonumber(values[1]) or 0, by_due and since or nil)
    elseif values[2] or values[1] then
      Corrupt.fail(call, jid, queue, 'the state of the job is ' .. Errors.value(values[2] or ''))
    end
    rcall('ZREM', queue.scheduled, jid)
  end
end

-- How many delayed jobs count as waiting by now, and which they are.
function Queue.count_due(call, queue)
  return rcall('ZCOUNT', queue.scheduled, '-inf', call.text)
end

function Queue.list_due(call, queue, offset, count)
  return rcall('ZRANGEBYSCORE', queue.scheduled, '-inf', call.text, 'LIMIT', offset, count)
end

-- How many jobs limits hold back.
function Queue.count_parked(call, queue)
  return call.has.H and rcall('ZCARD', queue.parked) or 0
end

-- Is the queue paused?
function Queue.is_paused(call, queue)
  return call.has.P and rcall('SISMEMBER', call.keys.paused_queues, queue.name) == 1
end
