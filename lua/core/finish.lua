-- How a run ends: there is one way for all commands and verbs, Finish.run, and what differs is in its table `how`:
--   what      the word for the history, see history.lua; nil: it is not told of
--   state     the job's state afterwards
--   queue     where it goes on (nil: in its queue), after `delay` seconds; `first`: at its old place, before its equals
--   remaining, failure, data, returned   fields of the record, where they change
--   group, message, held, exhausted      for the history
-- `run` is what Lock.claim gives.

local floor = math.floor
local rcall = redis.call

-- Bytes of data of jobs with lost locks that one call tells its worker about.
local ENOUGH = 4 * 1024 * 1024

local LONGEST_TTL = 2 ^ 31 -- seconds; the server refuses times to live that it cannot count in milliseconds

-- Marks of a run that go with it. `unknown` stays only from one unknown name to the next.
local function forget_marks(run, how)
  if not (run.grace or run.progress or run.unknown) then
    return
  end
  local gone = {}
  for _, field in ipairs({ 'grace', 'progress', 'unknown' }) do
    if run[field] and not (field == 'unknown' and how.unknown) then
      gone[#gone + 1] = field
    end
  end
  if #gone > 0 then
    rcall('HDEL', run.key, unpack(gone))
  end
end

-- Fields that an end changes only where `how` says so.
local CHANGED = { 'queue', 'remaining', 'failure', 'data', 'returned' }

-- The names and values of the fields that the end of a run changes.
local function changes(call, run, how)
  local state, fields = how.state
  if state == 'complete' then
    -- (One list: it would be copied when it grows.)
    local now, retries = call.text, Times.text(run.retries)
    fields = {
      'state',
      state,
      'worker',
      '',
      'expires',
      '0',
      'time',
      now,
      'remaining',
      retries,
      'queue',
      '',
      'failure',
      '{}',
    }
  elseif state == 'failed' then
    fields = { 'state', state, 'worker', '', 'expires', '' }
  elseif call.old and how.what == 'retried' then -- Old clients see who had it last.
    fields = { 'state', state }
  else
    local worker = call.old and how.what == 'timed-out' and run.worker or ''
    fields = { 'state', state, 'worker', worker, 'expires', '0', 'time', call.text }
  end
  for n = 1, #CHANGED do
    local value = how[CHANGED[n]]
    if value then
      fields[#fields + 1], fields[#fields + 2] = CHANGED[n], value
    end
  end
  return fields
end

local function place(call, run, how)
  if how.state == 'complete' then
    rcall('ZADD', call.keys.completed, call.text, run.jid)
    return
  end
  local queue = Keys.queue(call, how.queue or run.queue)
  if how.state == 'waiting' then
    if how.first then
      Queue.push_first(call, queue, run.jid, run.priority)
    else
      Queue.push(call, queue, run.jid, run.priority)
    end
  elseif how.state == 'scheduled' then
    Queue.schedule(call, queue, run.jid, call.now + how.delay)
  elseif how.state == 'stalled' then
    rcall('ZADD', queue.work, '+inf', run.jid)
    Wake.set(call, queue)
  elseif how.state == 'depends' then
    Queue.hold(call, queue, run.jid)
  end
  if how.queue and how.queue ~= run.queue then
    Queue.register(call, queue)
  end
end

-- Ends a run.
function Finish.run(call, run, how)
  local queue, fields = Keys.queue(call, run.queue), changes(call, run, how)
  local entry = how.what and History.attempt(call, run, how)
  local put = entry and History.append(call, run, entry)
  if put then
    fields[#fields + 1], fields[#fields + 2] = 'put', put
  end
  rcall('HSET', run.key, unpack(fields))
  forget_marks(run, how)
  rcall('ZREM', queue.locks, run.jid)
  Job.unhold(call, run.jid, run.worker)
  if call.has.C then
    Wake.freed(call, queue)
  end
  place(call, run, how)
  local was = run.state
  run.state = how.state
  if run.letters then
    Features.at('ended', call, run, was)
  end
  if run.state == 'failed' then
    Failures.add(call, run.jid, run.queue, how.group)
    Links.follow(call, run.jid, 'failed')
  elseif run.state == 'complete' then
    if run.open then -- A feature says that there is something left for which its dependents wait.
      Links.follow(call, run.jid, 'open')
    elseif call.has.D then
      Links.release(call, run.jid)
    end
    Expiry.after(call)
  end
end

-- A word for the history about a run that goes on.
function Finish.note(call, run, what)
  local entry = History.attempt(call, run, { what = what })
  if entry then
    local put = History.append(call, run, entry)
    run.noted = run.token
    rcall('HSET', run.key, 'noted', run.token or '', 'put', put or run.put or '')
  end
end

-- How long a run took, without the time that it lay in its worker's hands before it was started.
local function sample(call, run, held)
  local began = run.time and Times.number(run.time) or call.now
  Samples.add(call, 'run', run.queue, call.now - began - (held or 0))
end

-- Keeps what a run has returned for `ttl` seconds. -> what the record of the complete job says about it: when it
-- expires, and which run returned it; nil if there is nothing
local function keep_result(call, run, result, ttl)
  if not result or result == '' then
    return nil
  end
  ttl = math.min(ttl, LONGEST_TTL)
  rcall('SET', Keys.result(call, run.jid), result, 'EX', Times.text(ttl))
  return result ~= 'null' and string.format('%.0f %s', floor(call.now) + ttl + 1, run.token or '') or nil
end

-- The run is complete. `given` may have data, result, ttl, held.
function Finish.complete(call, run, given)
  sample(call, run, given.held)
  local returned = keep_result(call, run, given.result, given.ttl)
  if call.has.T then
    Job.tell_trackers(call, 'completed', run.jid)
  end
  Events.completed(call, run.jid, Keys.queue(call, run.queue))
  Finish.run(call, run, {
    what = 'done',
    state = 'complete',
    data = given.data,
    returned = returned,
    held = given.held,
  })
end

-- The run is complete, and the job goes on in the queue `to`, when what is open of what it `needs` is complete: `depends`.
-- -> its new state
function Finish.advance(call, run, to, given)
  sample(call, run, given.held)
  local depends = given.depends or {}
  run.moved = true
  local how = { what = 'done', queue = to, delay = given.delay, remaining = run.retries, failure = '{}' }
  how.state = #depends > 0 and 'depends' or given.delay > 0 and 'scheduled' or 'waiting'
  how.data, how.held = given.data, given.held
  Job.tell_trackers(call, 'completed', run.jid)
  Events.advanced(call, run.jid, run.queue, to)
  Finish.run(call, run, how)
  History.put(call, run.jid, to)
  if how.state == 'depends' then
    Links.add(call, run.jid, depends)
    if given.delay > 0 then
      rcall('HSET', run.key, 'scheduled', Times.text(call.now + given.delay))
    end
  end
  Links.add_needs(call, run.jid, given.needs)
  return how.state
end

local function failure_of(call, group, message, worker, when)
  return cjson.encode({ group = group, message = message, when = when or floor(call.now), worker = worker })
end

-- A run has failed, and no retry is left: the job is filed as failed, unless it goes on in the queue for such jobs of its queue.
local function fail_for_good(call, run, how)
  local to = not run.entity and Config.failed_queue(call, run.queue)
  if not to or rcall('HEXISTS', run.key, 'failed_from') == 1 then
    how.state = 'failed'
    Finish.run(call, run, how)
    return
  end
  Stats.count(call, run.queue, 'failures', 1)
  Minutes.count(call, run.queue, 'failed', 1)
  rcall('HSET', run.key, 'failed_from', run.queue)
  rcall('HDEL', run.key, 'crashes')
  how.state, how.queue, how.remaining = 'waiting', to, run.retries
  Finish.run(call, run, how)
  History.put(call, run.jid, to)
  Events.put(call, run.jid, Keys.queue(call, to))
end

function Finish.fail(call, run, given)
  Events.failed(call, run.jid, given.group, given.message, run.worker)
  Job.tell_trackers(call, 'failed', run.jid)
  fail_for_good(call, run, {
    what = 'failed',
    group = given.group,
    message = given.message,
    held = given.held,
    failure = failure_of(call, given.group, given.message, run.worker),
    data = given.data,
  })
end

-- One retry less: back into the queue `to`, or failed when none is left. -> what remains
function Finish.retry(call, run, to, given)
  local remaining = run.remaining - 1
  local how = { what = 'retried', group = given.group, message = given.message, held = given.held }
  if remaining >= 0 then
    how.state = given.delay > 0 and 'scheduled' or 'waiting'
    how.queue, how.delay, how.remaining = to, given.delay, remaining
    if given.message then
      how.failure = failure_of(call, given.group or '', given.message, run.worker)
    end
    if not call.old then
      Stats.count(call, run.queue, 'retried', 1)
    end
    Finish.run(call, run, how)
    return remaining
  end
  how.what, how.exhausted, how.remaining = 'failed', true, -1
  how.group = given.group or 'failed-retries-' .. to
  if given.message then
    how.failure = failure_of(call, how.group, given.message, run.worker)
  else
    local message = 'Job exhausted retries in queue "' .. run.queue .. '"'
    how.failure = failure_of(call, how.group, message, '', call.now)
  end
  Job.tell_trackers(call, 'failed', run.jid)
  fail_for_good(call, run, how)
  return -1
end

-- Back into its queue, with no retry used up. `given` has what, delay, held, and may have first, group, message, unknown.
function Finish.give_back(call, run, given)
  given.state = given.delay > 0 and 'scheduled' or 'waiting'
  Finish.run(call, run, given)
end

-- A job in no worker's hands, whose lock was lost, is not handed out after all: it waits.
function Finish.give_up_lost(call, job, queue)
  rcall('HSET', job.key, 'state', 'waiting', 'worker', '', 'expires', '0')
  rcall('HDEL', job.key, 'token')
  rcall('ZREM', queue.locks, job.jid)
  job.state = 'waiting'
  if job.letters then
    Features.at('ended', call, job, 'running')
  end
end

-- Tells who has asked for it of a job whose last lock was lost, as it still is: group, message, and its reservation.
local function tell_exhausted(call, run, group, message)
  if call.asks_exhausted then
    local told, reserved = call.exhausted or {}, Take.reservation(call, run.jid)
    told[#told + 1] = { group, message, reserved }
    call.exhausted, call.exhausted_bytes = told, (call.exhausted_bytes or 0) + #reserved[4]
  end
end

-- Are further ones left to the next call?
function Finish.has_told_enough(call)
  return (call.exhausted_bytes or 0) >= ENOUGH
end

-- The grace after a lost lock is over. -> whether the job may be handed out again
function Finish.lost(call, run, queue)
  local remaining = run.remaining - 1
  if run.entity then
    remaining = Entities.lost(call, run)
  end
  if not call.old then
    Finish.note(call, run, 'lost')
  else
    History.note_run(call, run)
  end
  if remaining >= 0 then
    rcall('HSET', run.key, 'remaining', remaining)
    Queue.ready_since(call, run)
    rcall('HDEL', run.key, 'grace', 'progress')
    return true
  end
  local group = 'failed-retries-' .. queue.name
  local message = 'Job exhausted retries in queue "' .. queue.name .. '"'
  if run.entity then
    group, message = Entities.words_of_loss()
  end
  tell_exhausted(call, run, group, message)
  Job.tell_trackers(call, 'failed', run.jid)
  Events.failed(call, run.jid, group, message, run.worker or '')
  run.worker = '' -- the attempt has ended already
  fail_for_good(call, run, {
    what = 'failed',
    exhausted = true,
    group = group,
    message = message,
    remaining = -1,
    failure = failure_of(call, group, message, '', call.now),
  })
  return false
end

-- A job that does not run fails: `job` has jid, key, state, queue, and its letters with their fields.
function Finish.fail_unstarted(call, job, group, message)
  local was = job.state
  if not job.letters then
    job.letters = Features.letters(call, job.more)
    if job.letters then
      Features.read(job)
    end
  end
  job.put = job.put or rcall('HGET', job.key, 'put')
  rcall('HDEL', job.key, 'token', 'scheduled', 'grace', 'progress')
  History.failed(call, job, group, message)
  rcall(
    'HSET',
    job.key,
    'state',
    'failed',
    'worker',
    '',
    'expires',
    '',
    'failure',
    failure_of(call, group, message, '')
  )
  job.state = 'failed'
  if job.letters then
    Features.at('ended', call, job, was)
  end
  Job.tell_trackers(call, 'failed', job.jid)
  Events.failed(call, job.jid, group, message, job.worker or '')
  if job.state == 'failed' then
    Failures.add(call, job.jid, job.queue, group)
    Links.follow(call, job.jid, 'failed')
  end
end

-- The same of one that leaves a place of its queue for that.
function Finish.fail_waiting(call, job, queue, group, message)
  Queue.leave(call, queue, job.jid)
  if job.state == 'depends' then
    Links.remove_all(call, job.jid)
    rcall('HDEL', job.key, 'behind')
  end
  Finish.fail_unstarted(call, job, group, message)
end
