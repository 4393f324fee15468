-- Jobs that go to another namespace because their queue is there now: they stay what they are. A job that waits keeps
-- its place, by when it became ready; one that has failed stays failed.

-- Where another namespace says when its jobs are ahead of others of the same key, those that were put here come first.
local AHEAD = 1e9

-- Tenants take turns: a job whose tenant's turn has come stands in the work as if it had become ready just then. Among
-- the jobs of its tenant its place is by when that really was.
local function score_of(jid, record)
  if record.fair_by and record.state == 'waiting' then
    local priority, time =
      Record.read('priority', record.priority, 0), Record.read('time', record.time, scope.now)
    return string.format('%.17g', Places.score(priority, time))
  end
  local place = key.place
  return call('ZSCORE', place(record.queue, 'work'), jid) or call('ZSCORE', place(record.queue, 'aside'), jid)
end

-- Adds to what goes with a job (`more`) what says where it stands.
function Rerouted.add(more, jid, record, target)
  if record.state == 'failed' then
    more.failed, more.unique = true, record.unique and Unique.at(record.unique, target)
    more.remaining = Record.read('remaining', record.remaining)
    return
  end
  more.score, more.time = score_of(jid, record) or nil, Record.text('time', record.time)
  local turn = call('HGET', key.job(jid), 'turn')
  local position = turn and call('ZSCORE', key.limit_order(turn), jid)
  more.position = position and tonumber(position) - AHEAD or nil
end

-- The job was put as one that waits, and has failed.
local function fail(jid, queue, more)
  local failure = Record.read('failure', more.failure, {})
  local record = Hash.read(key.job(jid), { 'rare', 'aside', 'called', 'turn', 'holds', 'klass' })
  record.queue = queue
  Places.leave(jid, queue)
  if record.rare then
    Limits.leave(jid, record)
  end
  call('HSET', key.job(jid), 'state', 'failed', 'expires', '', 'failure', more.failure or '{}')
  if more.unique then
    call('HSET', key.job(jid), 'unique', more.unique, 'rare', '1')
  end
  Failures.add(jid, queue, failure.group or 'unknown')
end

local function stand(jid, queue, more)
  local aside, turn = Hash.values(key.job(jid), 'aside', 'turn')
  if more.score then
    if aside then
      call('ZADD', key.place(queue, 'aside'), 'XX', more.score, jid)
      call('ZADD', key.limit_aside(aside), 'XX', more.score, jid)
    else
      call('ZADD', key.place(queue, 'work'), 'XX', more.score, jid)
    end
    if more.time then
      call('HSET', key.job(jid), 'time', more.time)
    end
  end
  if turn and more.position then
    call('ZADD', key.limit_order(turn), 'XX', more.position, jid)
    Turns.call_head(turn)
  end
end

-- The job was put here: it is what it was.
function Rerouted.restore(jid, queue, more)
  if more.failed then
    fail(jid, queue, more)
  else
    stand(jid, queue, more)
  end
end
