-- Failed jobs enqueued again: those of a group, or those named.

-- Puts a failed job, which is in no group any more, into a queue, with all of its retries.
local function revive(record, queue)
  local jid = record.jid
  queue = record.entity and record.home or queue
  CorruptJobs.mend(record)
  History.put(jid, queue)
  call(
    'HSET',
    key.job(jid),
    'state',
    'waiting',
    'worker',
    '',
    'expires',
    0,
    'queue',
    queue,
    'remaining',
    record.retries or '5'
  )
  if scope.live then -- (Old clients count on from the start of the run that failed.)
    call('HSET', key.job(jid), 'time', string.format('%.20f', scope.now))
  end
  call('HDEL', key.job(jid), 'crashes', 'unknown')
  Places.work(jid, queue, Record.read('priority', record.priority, 0))
  JobEnd.revived(jid, record)
end

-- unfail queue group [count] -> how many
function Revive.unfail(args, i)
  local queue = Arguments.queue('unfail', args[i])
  local group = Arguments.given('unfail', 'group', args[i + 1])
  local count = Arguments.count('unfail', args[i + 2], 25)
  if count <= 0 then
    return 0
  end
  local jids, revived = call('LRANGE', key.group(group), -count, -1), 0
  for n = #jids, 1, -1 do
    local record = Job.read(jids[n])
    if record and record.state == 'failed' then
      Stats.mended(record.queue, Record.read('failure', record.failure, {}).when or 0)
      revive(record, queue)
      revived = revived + 1
    end
  end
  call('LTRIM', key.group(group), 0, -#jids - 1)
  if call('LLEN', key.group(group)) == 0 then
    call('SREM', key.failures(), group)
  end
  if revived > 0 then
    Places.register(queue)
  end
  return revived
end

-- revive jid...: each into its own queue, quickest with the oldest of a group first; what has not
-- failed is left alone -> how many
function Revive.revive(args, i)
  Arguments.bounded('revive', #args - i + 1)
  local revived = 0
  for n = i, #args do
    local record = Job.read(Arguments.given('revive', 'jid', args[n]))
    if record and record.state == 'failed' and record.queue ~= '' then
      Failures.remove(record.jid, record.queue, record.failure, true)
      revive(record, record.queue)
      Places.register(record.queue)
      revived = revived + 1
    end
  end
  return revived
end
