-- Failed jobs enqueued again: those of a group, or those named.

-- Where the job becomes ready, it takes its place like one that is put, among those of its tenant.
local function make_ready(jid, queue, record)
  local job = { fair_by = record.fair_by, priority = Record.read('priority', record.priority, 0) }
  if not (job.fair_by and Turns.set_aside(jid, queue, job)) then
    Places.work(jid, queue, job.priority)
  end
end

-- Puts a failed job, which is in no group any more, into a queue, with all of its retries.
local function revive(record, queue)
  local jid = record.jid
  queue = record.entity and record.home or queue
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
end

-- Does nobody else have the unique key of the failed job by now?
local function may_go_on(record)
  return not Unique.other(record.jid, record.unique)
end

-- Lets a failed job that may go on wait for what it waited for. -> whether it is still there: one that goes with a
-- job that has failed is cancelled, as a failed job
local function waits_again(record)
  Deadline.link_again(record)
  return call('EXISTS', key.job(record.jid)) == 1
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
        elseif waits_again(record) then
          Stats.mended(record.queue, Record.read('failure', record.failure, {}).when or 0)
          revive(record, queue)
          revived = revived + 1
        end
      end
    end
    looked, count = looked + #jids, stay
  end
  SortedSet.append(key.group(group), left)
  -- (A job that was cancelled has taken a group off that seemed to be empty.)
  call(call('EXISTS', key.group(group)) == 1 and 'SADD' or 'SREM', key.failures(), group)
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
    local is_failed = record and record.state == 'failed' and record.queue ~= ''
    if is_failed and may_go_on(record) and waits_again(record) then
      Failures.remove(record.jid, record.queue, record.failure, true)
      revive(record, record.queue)
      Places.register(record.queue)
      revived = revived + 1
    end
  end
  return revived
end
