-- Deadlines: a job that has not started by its own (`expires`) can no longer start, so it holds nothing: whoever meets
-- it fails it.

-- Is this the deadline of a job in this state, which has missed it?
function Deadline.is_missed(state, deadline)
  return deadline and Unique.is_pending(state) and Record.read('deadline', deadline, math.huge) <= scope.now
end

-- The job has missed its deadline. `words` say how that was found, %s stands for for how many seconds.
function Deadline.fail(jid, queue, state, words)
  local since = scope.now - Record.read('deadline', call('HGET', key.job(jid), 'deadline'), scope.now)
  local message = string.format(words, string.format('%.1f', since))
  Places.leave(jid, queue)
  if state == 'depends' then
    Dependencies.unlink_all(jid)
    call('HDEL', key.job(jid), 'scheduled', 'beyond', 'behind')
  end
  call('HDEL', key.job(jid), 'token')
  History.failed(jid, 'expired', nil, message)
  Outcome.write_failed(
    { jid = jid, queue = queue, rare = true, state = state },
    'expired',
    message,
    math.floor(scope.now)
  )
  if Tracking.is_tracked(jid) then
    Events.tracked('failed', jid)
  end
  Events.failed(jid, 'expired', message, '')
end

-- The call has met such a job. It fails at the end of the call, which is not refused any more then.
function Deadline.note(jid)
  scope.overdue = scope.overdue or {}
  scope.overdue[#scope.overdue + 1] = jid
end

function Deadline.finish()
  for _, jid in ipairs(scope.overdue) do
    local state, queue, deadline = Hash.values(key.job(jid), 'state', 'queue', 'deadline')
    if Deadline.is_missed(state, deadline) then
      Deadline.fail(jid, queue or '', state, 'It expired %s seconds ago and had not started')
    end
  end
end

-- What a job that has failed so waited for and is still open: it waits for it again.
function Deadline.link_again(record)
  if Record.read('failure', record.failure, {}).group == 'expired' then
    local needs = call('LRANGE', key.needs(record.jid), 0, Arguments.most - 1)
    Dependencies.link_again(record.jid, needs)
  end
end
