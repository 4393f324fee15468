-- Failed jobs enqueued again: those of a group, or those named.

-- Where the job becomes ready, it takes its place like one that is put, among those of its tenant.
local function make_ready(jid, queue, record)
  local job = { fair_by = record.fair_by, priority = Record.read('priority', record.priority, 0) }
  if not (job.fair_by and Turns.set_aside(jid, queue, job)) then
    Places.work(jid, queue, job.priority)
  end
end

-- Puts a failed job, which is in no group any more, into a queue, with all of its retries. (Nobody else has its key.)
-- -> whether it is there: one that goes with a failed job that it waited for is cancelled.
local function revive(record, queue)
  local jid = record.jid
  queue = record.entity and record.home or queue
  Deadline.link_again(record)
  if call('EXISTS', key.job(jid)) == 0 then
    return false
  end
  CorruptJobs.mend(record)
  local state = call('SCARD', key.dependencies(jid)) > 0 and 'depends' or 'waiting'
  History.put(jid, queue)
  call(
    'HSET',
    key.job(jid),
    'state',
    state,
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
  if state == 'depends' then
    Places.depends(jid, queue)
  else
    make_ready(jid, queue, record)
  end
  JobEnd.revived(jid, record, state)
  return true
end

-- It has failed, and may be put back: it is there, and nobody else has its unique key by now.
local function may_go_on(record)
  return not Unique.other(record.jid, record.unique)
end

-- unfail queue group [count] -> how many. (Others take the places of those that have to stay.)
function Revive.unfail(args, i)
  local queue = Arguments.queue('unfail', args[i])
  local group = Arguments.given('unfail', 'group', args[i + 1])
  local count = Arguments.count('unfail', args[i + 2], 25)
  local revived, left, looked = 0, {}, 0
  while count > 0 and looked < Arguments.most do
    local jids, stay = call('LRANGE', key.group(group), -count, -1), 0
    call('LTRIM', key.group(group), 0, -#jids - 1)
    for n = #jids, 1, -1 do
      local record = Job.read(jids[n])
      if record and record.state == 'failed' then
        if not may_go_on(record) then
          stay = stay + 1
          table.insert(left, 1, jids[n])
        else
          Stats.mended(record.queue, Record.read('failure', record.failure, {}).when or 0)
          revived = revived + (revive(record, queue) and 1 or 0)
        end
      end
    end
    looked, count = looked + #jids, stay
  end
  SortedSet.append(key.group(group), left)
  if call('LLEN', key.group(group)) == 0 then
    call('SREM', key.failures(), group)
  end
  if revived > 0 then
    Places.register(queue)
  end
  return revived
end

-- revive jid...: each into its own queue, quickest with the oldest of a group first; what has not
-- failed is left alone, and so is a job whose unique key another one has by now -> how many
function Revive.revive(args, i)
  Arguments.bounded('revive', #args - i + 1)
  local revived = 0
  for n = i, #args do
    local record = Job.read(Arguments.given('revive', 'jid', args[n]))
    if record and record.state == 'failed' and record.queue ~= '' and may_go_on(record) then
      Failures.remove(record.jid, record.queue, record.failure, true)
      if revive(record, record.queue) then
        Places.register(record.queue)
        revived = revived + 1
      end
    end
  end
  return revived
end
