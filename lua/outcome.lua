-- How a run ends: complete, advance, fail, retry, give back.

local floor = math.floor

-- The record of a completed job; `returned` is what keep_result says, `is_written` what History.done_with does.
function Outcome.write_complete(name, retries, data, returned, is_written)
  if returned then
    return Outcome.write_returned(name, retries, data, returned, is_written)
  end
  call(
    'HSET',
    name,
    'state',
    'complete',
    'worker',
    '',
    'expires',
    '0',
    'time',
    NumberFormat.time(),
    'remaining',
    retries,
    'queue',
    '',
    'failure',
    '{}',
    is_written and 'put' or 'failure', -- What is named twice is written once.
    is_written and '' or '{}'
  )
  if data then
    call('HSET', name, 'data', data)
  end
end

-- The same in one command for a job that has returned something: a command more would cost more than a table.
function Outcome.write_returned(name, retries, data, returned, is_written)
  local fields = { 'state', 'complete', 'worker', '', 'expires', '0', 'time', NumberFormat.time() }
  fields[9], fields[10], fields[11], fields[12] = 'remaining', retries, 'queue', ''
  fields[13], fields[14], fields[15], fields[16] = 'failure', '{}', 'returned', returned
  if data then
    fields[17], fields[18] = 'data', data
  end
  if is_written then
    fields[#fields + 1] = 'put'
    fields[#fields + 1] = ''
  end
  call('HSET', name, unpack(fields))
end

-- Forgets what belongs to a run that was completed. (Its token is stale by the job's new state.)
function Outcome.forget_run(job)
  if job.marked then
    Outcome.forget_marks(key.job(job.jid))
  end
end

function Outcome.forget_marks(name)
  call('HDEL', name, 'grace', 'progress')
end

-- The same for a run that was not. `unknown` stays only from one unknown name to the next.
local function forget_all(job)
  if job.unknown then
    call('HDEL', key.job(job.jid), 'grace', 'progress', 'waited')
  else
    call('HDEL', key.job(job.jid), 'grace', 'progress', 'waited', 'unknown')
  end
end

local function finish(job, data, returned)
  Outcome.write_complete(job.key, job.retries, data, returned)
  call('ZADD', key.completed(), scope.now, job.jid)
  JobEnd.completed({ job.jid }, { job.rare and job.jid }) -- which reads the record, so before it may go
  Expiry.after(1)
end

-- Completes a job that goes on in another queue, where it waits for what is open of what it
-- `needs`. -> its new state
function Outcome.advance(job, to, delay, depends, data, needs, beyond)
  local jid = job.jid
  History.put(jid, to)
  Places.register(to)
  local open = depends and #depends > 0
  local state = open and 'depends' or delay > 0 and 'scheduled' or 'waiting'
  call(
    'HSET',
    key.job(jid),
    'state',
    state,
    'worker',
    '',
    'failure',
    '{}',
    'queue',
    to,
    'expires',
    0,
    'remaining',
    job.retries,
    'time',
    NumberFormat.time()
  )
  if data then
    call('HSET', key.job(jid), 'data', data)
  end
  Outcome.forget_run(job)
  if state == 'depends' then
    Dependencies.link(jid, depends, job.rare and call('HGET', key.job(jid), 'on_failure'))
    if beyond then
      call('HSET', key.job(jid), 'beyond', beyond, 'rare', '1')
    end
    if delay > 0 then
      call('HSET', key.job(jid), 'scheduled', scope.now + delay)
    end
    Places.depends(jid, to)
  elseif state == 'scheduled' then
    Places.scheduled(jid, to, scope.now + delay)
  else
    Places.work(jid, to, job.priority)
  end
  DependencyResults.add(jid, needs)
  JobEnd.goes_on(job, state, true)
  return state
end

local COMPLETE_OPTIONS =
  { next = true, delay = true, depends = true, result = true, result_ttl = true, held = true }

-- Seconds; the server refuses times to live that it cannot count in milliseconds.
local LONGEST_TTL = 2 ^ 31

-- -> what the record says of it, that of a complete job for as long as it is complete: when it expires, which
-- run returned it; nil if there is nothing
function Outcome.keep_result(jid, token, result, ttl)
  if not result or result == '' then
    return nil
  end
  ttl = math.min(ttl, LONGEST_TTL)
  call('SET', key.result(jid), result, 'EX', ttl)
  return result ~= 'null' and NumberFormat.whole(math.floor(scope.now) + ttl + 1) .. ' ' .. token or nil
end

-- For how many seconds the result that a completion brings is kept; nil if it brings none.
local function ttl_of(options)
  local result = options.result
  if result and result ~= '' then
    Arguments.json('complete', 'result', result, Arguments.text_bytes)
    return Arguments.whole('complete', 'result_ttl', options.result_ttl or '3600', 1)
  end
end

-- With KEYS these commands may be told for how many seconds the job lay in its worker's hands before it
-- was started, as settle is.

-- complete jid worker queue data [pairs]
function Outcome.complete(args, i)
  local jid, proof = Arguments.name('complete', 'jid', args[i]), args[i + 1]
  local queue, data = Arguments.name('complete', 'queue', args[i + 2]), args[i + 3]
  Arguments.proof('complete', proof)
  Arguments.json('complete', 'data', data)
  local options = Arguments.options('complete', args, i + 4, COMPLETE_OPTIONS)
  local to, delay, depends = options.next, options.delay, options.depends
  if not to and (delay or depends) then
    Errors.argument('complete', 'delay and depends can only be used with next')
  end
  delay = delay and Arguments.number('complete', 'delay', delay) or 0
  depends = depends and Arguments.names('complete', 'depends', depends) or {}
  local needs, beyond
  local ttl = ttl_of(options)
  local held = Arguments.held('complete', options.held)
  local job = Lock.holder('complete', jid, proof)
  if job.queue ~= queue then
    Errors.raise(
      'STATE',
      'complete(): Job %s is running in another queue: %s',
      Errors.name(jid),
      Errors.name(job.queue)
    )
  end
  if to then
    Arguments.queue('complete', to)
    Entity.refuse_move('complete', job)
    needs = depends
    depends, beyond = Dependencies.open_for('complete', jid, depends)
    CycleDetection.refuse('complete', jid, depends)
    if job.bad then
      CorruptJobs.fail(jid, job.bad, job.bad_text)
      return 'failed'
    end
  end

  Lock.count_start(job, held, true)
  History.ended(jid, 'done', job)
  Lock.release(job)
  Samples.add('run', job.queue, scope.now - job.start)
  local returned = Outcome.keep_result(jid, proof, options.result, ttl)
  if Tracking.is_tracked(jid) then
    Events.tracked('completed', jid)
  end
  if to then
    Events.advanced(jid, job.queue, to)
    return Outcome.advance(job, to, delay, depends, data, needs, beyond)
  end
  Events.completed(jid, job.queue)
  Outcome.forget_run(job)
  finish(job, data, returned)
  return 'complete'
end

-- A run of the job has failed it for good: files it as failed, unless it goes on in the queue for such jobs. (What has
-- failed of an entity is kept with its queue's dead.)
-- `failing` is the worker whose run failed it, or nil.
function Outcome.end_failed(job, group, message, when, failing)
  local to = not (job.bad or job.entity) and FailedQueue.of(job.jid, job.queue)
  if to then
    FailedQueue.move(job, to, group, message, when, failing)
  else
    Outcome.write_failed(job, group, message, when, failing)
  end
end

-- Files a job as failed, which ran unless `job.state` says otherwise.
function Outcome.write_failed(job, group, message, when, failing)
  if job.entity and EntityRun.failed(job, group, message) then
    return
  end
  local failure = cjson.encode({ group = group, message = message, when = when, worker = failing or '' })
  call('HSET', key.job(job.jid), 'state', 'failed', 'worker', '', 'expires', '', 'failure', failure)
  forget_all(job)
  Failures.add(job.jid, job.queue, group)
  JobEnd.failed(job.jid, job.state or 'running', job.rare)
end

function Outcome.fail_now(job, group, message)
  local jid = job.jid
  Events.failed(jid, group, message, job.worker)
  if Tracking.is_tracked(jid) then
    Events.tracked('failed', jid)
  end
  Lock.release(job)
  History.ended(jid, 'failed', job, group, message)
  Outcome.end_failed(job, group, message, floor(scope.now), job.worker)
end

-- fail jid worker group message [data]; with KEYS also [data [held]], where '' is no data
function Outcome.fail(args, i)
  local jid, proof = Arguments.name('fail', 'jid', args[i]), args[i + 1]
  Arguments.proof('fail', proof)
  local group = Arguments.given('fail', 'group', args[i + 2])
  local message, data = Arguments.message('fail', args[i + 3]), args[i + 4]
  local held = Arguments.held('fail', args[i + 5])
  if held and data == '' then
    data = nil
  end
  if data then
    Arguments.json('fail', 'data', data)
  end
  local job = Lock.holder('fail', jid, proof)
  if data then
    call('HSET', key.job(jid), 'data', data)
  end
  Lock.count_start(job, held, true)
  Outcome.fail_now(job, group, message)
  return jid
end

-- The fields of a job that has left its worker.
function Outcome.unheld(fields)
  local last = #fields
  fields[last + 1], fields[last + 2] = 'time', NumberFormat.time()
  fields[last + 3], fields[last + 4] = 'worker', ''
  fields[last + 5], fields[last + 6] = 'expires', 0
end

-- Puts a job that was running back into a queue, at once or after a delay; with `again` it keeps
-- its place before its equals.
function Outcome.back(job, queue, delay, failure, again)
  local jid = job.jid
  local state = delay > 0 and 'scheduled' or 'waiting'
  local fields = {
    'HSET',
    key.job(jid),
    'state',
    state,
    'queue',
    queue,
    'remaining',
    job.remaining,
  }
  Outcome.unheld(fields)
  if failure then
    fields[#fields + 1] = 'failure'
    fields[#fields + 1] = failure
  end
  call(unpack(fields))
  forget_all(job)
  if state == 'scheduled' then
    Places.scheduled(jid, queue, scope.now + delay)
  elseif again then
    Places.work_again(jid, queue, job.priority)
  else
    Places.work(jid, queue, job.priority)
  end
  if queue ~= job.queue then
    Places.register(queue)
  end
  JobEnd.goes_on(job, state)
end

function Outcome.count_retried(queue)
  Stats.count(queue, 'retried', 1)
end

-- One retry less: back into the queue, or failed when none is left. -> what remains
function Outcome.retry_now(job, queue, delay, group, message)
  local jid = job.jid
  job.remaining = job.remaining - 1
  Lock.release(job)
  if job.remaining >= 0 then
    History.ended(jid, 'retried', job, group, message, delay)
    Outcome.count_retried(job.queue)
    local failure = message
      and cjson.encode({
        group = group or '',
        message = message,
        when = floor(scope.now),
        worker = job.worker,
      })
    Outcome.back(job, queue, delay, failure)
    return job.remaining
  end
  call('HSET', key.job(jid), 'remaining', -1)
  group = group or 'failed-retries-' .. queue
  History.exhausted(job, group, message)
  if Tracking.is_tracked(jid) then
    Events.tracked('failed', jid)
  end
  if message then
    Outcome.end_failed(job, group, message, floor(scope.now), job.worker)
  else
    Outcome.end_failed(job, group, 'Job exhausted retries in queue "' .. job.queue .. '"', scope.now)
  end
  return -1
end

-- retry jid queue worker [delay] [group] [message]; with KEYS also [held], where group and message may
-- both be ''
function Outcome.retry(args, i)
  local jid = Arguments.name('retry', 'jid', args[i])
  local queue = Arguments.name('retry', 'queue', args[i + 1])
  Arguments.plain('retry', 'queue', queue)
  local proof = Arguments.proof('retry', args[i + 2])
  local delay = Arguments.number('retry', 'delay', args[i + 3] or '0')
  local group, message = args[i + 4], args[i + 5]
  local held = Arguments.held('retry', args[i + 6])
  if held and group == '' and message == '' then
    group, message = nil, nil
  end
  if message then
    Arguments.message('retry', message)
  end
  local job = Lock.holder('retry', jid, proof)
  Arguments.queue('retry', queue)
  if job.bad then
    CorruptJobs.fail(jid, job.bad, job.bad_text)
    return -1
  end
  Lock.count_start(job, held, true)
  queue = job.entity and job.queue or queue -- an entity stays in its queue
  return Outcome.retry_now(job, queue, delay, group, message)
end

-- release jid token [delay [held]]: back into its queue and its place there, no retry used up
function Outcome.release(args, i)
  local delay = Arguments.number('release', 'delay', args[i + 2] or '0')
  local held = Arguments.held('release', args[i + 3])
  local job = Lock.holder('release', args[i], args[i + 1])
  if job.bad then
    CorruptJobs.fail(job.jid, job.bad, job.bad_text)
    return 1
  end
  Lock.count_start(job, held)
  Limits.not_started(job)
  History.ended(job.jid, 'returned', job, nil, nil, delay)
  Lock.release(job)
  Outcome.back(job, job.queue, delay, nil, true)
  return 1
end
