-- How a run ends: complete, advance, fail, retry, give back, and the lock that proves the right to it.
local Errors, Arguments, Config, Events, History, Place, Tags, Failures, Dependencies, Job, Stats, Minutes, scope, key =
  Qless.Errors,
  Qless.Arguments,
  Qless.Config,
  Qless.Events,
  Qless.History,
  Qless.Place,
  Qless.Tags,
  Qless.Failures,
  Qless.Dependencies,
  Qless.Job,
  Qless.Stats,
  Qless.Minutes,
  Qless.scope,
  Qless.key

local Outcome = {}
Qless.Outcome = Outcome

local call, floor = redis.call, math.floor

-- Completed jobs expired by one call beyond those it completes.
local EXPIRED = 100

-- What ends a run: the fields that every end needs, then those that only a completion can spare.
local ENDING = { 'worker', 'state', 'queue', 'token', 'time', 'retries', 'grace', 'progress' }
local ENDING_OTHERWISE = {
  'worker',
  'state',
  'queue',
  'token',
  'time',
  'retries',
  'grace',
  'progress',
  'remaining',
  'priority',
  'crashes',
}

-- Reads the running job's record, if `proof` shows that the caller holds it: the worker's name
-- without KEYS, the token of the pop with them. -> its key, the values, or code and text
function Outcome.read(command, jid, proof, completing)
  local name = key.job(jid)
  local values = call('HMGET', name, unpack(completing and ENDING or ENDING_OTHERWISE))
  local worker, state = values[1], values[2]
  if not worker then
    return nil, nil, 'NOJOB', command .. '(): Job ' .. Errors.name(jid) .. ' does not exist'
  end
  if state ~= 'running' then
    return nil,
      nil,
      'LOCKLOST',
      command .. '(): Job ' .. Errors.name(jid) .. ' is not currently running: ' .. state
  end
  if scope.keyed then
    if proof ~= values[4] then
      return nil,
        nil,
        'LOCKLOST',
        command .. '(): Job ' .. Errors.name(jid) .. ' was given out to another worker'
    end
  elseif proof ~= worker then
    return nil,
      nil,
      'LOCKLOST',
      command .. '(): Job ' .. Errors.name(jid) .. ' was given out to another worker: ' .. Errors.name(worker)
  end
  return name, values
end

-- The same as a table by name. -> nil, code, text if refused
function Outcome.claim(command, jid, proof)
  local name, values, code, text = Outcome.read(command, jid, proof)
  if code then
    return nil, code, text
  end
  return {
    jid = jid,
    key = name,
    worker = values[1],
    queue = values[3],
    time = tonumber(values[5]) or scope.now,
    retries = values[6] or '0',
    marked = values[7] or values[8],
    remaining = tonumber(values[9]) or 0,
    priority = tonumber(values[10]) or 0,
    crashes = tonumber(values[11]) or 0,
  }
end

function Outcome.holder(command, jid, proof)
  Arguments.given(command, 'jid', jid)
  Arguments.given(command, scope.keyed and 'token' or 'worker', proof)
  local job, code, text = Outcome.claim(command, jid, proof)
  if not job then
    Errors.raise(code, text)
  end
  return job
end

-- Takes the job out of the hands of its worker and out of the running ones.
function Outcome.unlock(job)
  call('ZREM', key.place(job.queue, 'locks'), job.jid)
  Job.unhold(job.jid, job.worker)
end

local function expire(jids)
  local names, tagged = {}, call('EXISTS', key.tags()) == 1
  for n, jid in ipairs(jids) do
    local tags = tagged and call('HGET', key.job(jid), 'tags')
    if tags and tags ~= '{}' then
      Tags.unindex(jid, cjson.decode(tags))
    end
    names[3 * n - 2], names[3 * n - 1] = key.job(jid), key.history(jid)
    names[3 * n] = key.dependencies(jid)
  end
  if #names > 0 then
    call('DEL', unpack(names))
  end
end

-- Forgets completed jobs that are too old or too many, a bounded number per call.
function Outcome.expire_completed(just_completed)
  local most = EXPIRED + 2 * just_completed
  local completed = key.completed()
  local before = scope.now - Config.number('jobs-history')
  local old = call('ZRANGEBYSCORE', completed, '-inf', before, 'LIMIT', 0, most)
  local surplus = call('ZCARD', completed) - #old - Config.whole('jobs-history-count')
  if surplus > 0 and #old < most then
    local rest = call('ZRANGE', completed, #old, #old + math.min(surplus, most - #old) - 1)
    for _, jid in ipairs(rest) do
      old[#old + 1] = jid
    end
  end
  if #old > 0 then
    call('ZREMRANGEBYRANK', completed, 0, #old - 1) -- the oldest are the first
    expire(old)
  end
end

-- The record of a completed job.
function Outcome.write_complete(name, retries, data)
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
    Qless.time(),
    'remaining',
    retries,
    'queue',
    '',
    'failure',
    '{}'
  )
  if data then
    call('HSET', name, 'data', data)
  end
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
    call('HDEL', key.job(job.jid), 'grace', 'progress')
  else
    call('HDEL', key.job(job.jid), 'grace', 'progress', 'unknown')
  end
end

local function finish(job, data)
  Outcome.write_complete(job.key, job.retries, data)
  call('ZADD', key.completed(), scope.now, job.jid)
  Outcome.expire_completed(1)
  Dependencies.release({ job.jid })
end

-- Completes a job that goes on in another queue. -> its new state
function Outcome.advance(job, to, delay, depends, data)
  local jid = job.jid
  History.put(jid, to)
  Place.register(to)
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
    Qless.time()
  )
  if data then
    call('HSET', key.job(jid), 'data', data)
  end
  Outcome.forget_run(job)
  if state == 'depends' then
    Dependencies.link(jid, depends)
    if delay > 0 then
      call('HSET', key.job(jid), 'scheduled', scope.now + delay)
    end
    Place.depends(jid, to)
  elseif state == 'scheduled' then
    Place.scheduled(jid, to, scope.now + delay)
  else
    Place.work(jid, to, job.priority)
  end
  return state
end

local COMPLETE_OPTIONS = { next = true, delay = true, depends = true, result = true, result_ttl = true }

-- Seconds; the server refuses times to live that it cannot count in milliseconds.
local LONGEST_TTL = 2 ^ 31

function Outcome.keep_result(jid, result, ttl)
  if result and result ~= '' then
    call('SET', key.result(jid), result, 'EX', math.min(ttl, LONGEST_TTL))
  end
end

-- complete jid worker queue data [pairs]
function Outcome.complete(args, i)
  local jid, proof = Arguments.given('complete', 'jid', args[i]), args[i + 1]
  local queue, data = Arguments.given('complete', 'queue', args[i + 2]), args[i + 3]
  Arguments.given('complete', 'worker', proof)
  Arguments.json('complete', 'data', data)
  local options = Arguments.options('complete', args, i + 4, COMPLETE_OPTIONS)
  local to, delay, depends = options.next, options.delay, options.depends
  if not to and (delay or depends) then
    Errors.argument('complete', 'delay and depends can only be used with next')
  end
  delay = delay and Arguments.number('complete', 'delay', delay) or 0
  depends = depends and Arguments.names('complete', 'depends', depends) or {}
  local result, ttl = options.result, nil
  if result and result ~= '' then
    Arguments.json('complete', 'result', result, Arguments.text_bytes)
    ttl = Arguments.whole('complete', 'result_ttl', options.result_ttl or '86400', 1)
  end
  local job = Outcome.holder('complete', jid, proof)
  if job.queue ~= queue then
    Errors.raise(
      'STATE',
      'complete(): Job ' .. Errors.name(jid) .. ' is running in another queue: ' .. Errors.name(job.queue)
    )
  end
  if to then
    Arguments.queue('complete', to)
    depends = Dependencies.open('complete', depends)
    Dependencies.no_circle('complete', jid, depends)
  end

  History.done(jid)
  Outcome.unlock(job)
  Stats.sample('run', job.queue, scope.now - job.time)
  Minutes.count(job.queue, 'completed', 1)
  Outcome.keep_result(jid, result, ttl)
  if Job.is_tracked(jid) then
    Events.tracked('completed', jid)
  end
  if to then
    Events.advanced(jid, job.queue, to)
    return Outcome.advance(job, to, delay, depends, data)
  end
  Events.completed(jid, job.queue)
  Outcome.forget_run(job)
  finish(job, data)
  return 'complete'
end

-- Files a job as failed. `failing` is the worker whose run failed it, or nil.
function Outcome.write_failed(job, group, message, when, failing)
  local failure = cjson.encode({ group = group, message = message, when = when, worker = failing or '' })
  call('HSET', key.job(job.jid), 'state', 'failed', 'worker', '', 'expires', '', 'failure', failure)
  forget_all(job)
  Failures.add(job.jid, job.queue, group)
end

-- A message of at most 64 KiB: its end is what tells the most.
function Outcome.message(command, message)
  Arguments.given(command, 'message', message)
  if #message > Arguments.text_bytes and scope.keyed then
    Errors.raise(
      'TOOBIG',
      command .. '(): message has ' .. #message .. ' bytes, at most ' .. Arguments.text_bytes
    )
  end
  return message
end

function Outcome.fail_now(job, group, message)
  local jid = job.jid
  Events.failed(jid, group, message, job.worker)
  if Job.is_tracked(jid) then
    Events.tracked('failed', jid)
  end
  Outcome.unlock(job)
  History.failed(jid, group, job.worker)
  Outcome.write_failed(job, group, message, floor(scope.now), job.worker)
end

-- fail jid worker group message [data]
function Outcome.fail(args, i)
  local jid, proof = Arguments.given('fail', 'jid', args[i]), args[i + 1]
  Arguments.given('fail', 'worker', proof)
  local group = Arguments.given('fail', 'group', args[i + 2])
  local message, data = Outcome.message('fail', args[i + 3]), args[i + 4]
  if data then
    Arguments.json('fail', 'data', data)
  end
  local job = Outcome.holder('fail', jid, proof)
  Outcome.fail_now(job, group, message)
  if data then
    call('HSET', key.job(jid), 'data', data)
  end
  return jid
end

-- Puts a job that was running back into a queue, at once or after a delay.
function Outcome.back(job, queue, delay, failure)
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
  if scope.keyed then
    -- Old clients see the last worker, its lock and its start on a waiting job.
    fields[#fields + 1] = 'time'
    fields[#fields + 1] = Qless.time()
    fields[#fields + 1] = 'worker'
    fields[#fields + 1] = ''
    fields[#fields + 1] = 'expires'
    fields[#fields + 1] = 0
  end
  if failure then
    fields[#fields + 1] = 'failure'
    fields[#fields + 1] = failure
  end
  call(unpack(fields))
  forget_all(job)
  if state == 'scheduled' then
    Place.scheduled(jid, queue, scope.now + delay)
  else
    Place.work(jid, queue, job.priority)
  end
  if queue ~= job.queue then
    Place.register(queue)
  end
end

-- One retry less: back into the queue, or failed when none is left. -> what remains
function Outcome.retry_now(job, queue, delay, group, message)
  local jid = job.jid
  job.remaining = job.remaining - 1
  Outcome.unlock(job)
  if job.remaining >= 0 then
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
  group = group or 'failed-retries-' .. job.queue
  History.failed(jid, group)
  if Job.is_tracked(jid) then
    Events.tracked('failed', jid)
  end
  if message then
    Outcome.write_failed(job, group, message, floor(scope.now), job.worker)
  else
    Outcome.write_failed(job, group, 'Job exhausted retries in queue "' .. job.queue .. '"', scope.now)
  end
  return -1
end

-- retry jid queue worker [delay] [group] [message]
function Outcome.retry(args, i)
  local jid = Arguments.given('retry', 'jid', args[i])
  local queue = Arguments.queue('retry', args[i + 1])
  local proof = Arguments.given('retry', 'worker', args[i + 2])
  local delay = Arguments.number('retry', 'delay', args[i + 3] or '0')
  local group, message = args[i + 4], args[i + 5]
  if message then
    Outcome.message('retry', message)
  end
  local job = Outcome.holder('retry', jid, proof)
  return Outcome.retry_now(job, queue, delay, group, message)
end

-- release jid token [delay]: back into its queue, no retry used up
function Outcome.release(args, i)
  local delay = Arguments.number('release', 'delay', args[i + 2] or '0')
  local job = Outcome.holder('release', args[i], args[i + 1])
  Outcome.unlock(job)
  Outcome.back(job, job.queue, delay)
  return 1
end

-- heartbeat jid worker [data] -> the new expiry
function Outcome.heartbeat(args, i)
  local jid, proof, data = args[i], args[i + 1], args[i + 2]
  if data then
    Arguments.json('heartbeat', 'data', data)
  end
  local job = Outcome.holder('heartbeat', jid, proof)
  local expires = scope.now + Config.heartbeat(job.queue)
  if data then
    call('HSET', key.job(jid), 'data', data)
  end
  Outcome.extend(job, expires)
  call('ZADD', key.workers(), scope.now, job.worker)
  return expires
end

-- Renews a lock. The next loss of it gets a notice of its own.
function Outcome.extend(job, expires)
  call('HSET', key.job(job.jid), 'expires', expires)
  call('HDEL', key.job(job.jid), 'grace')
  call('ZADD', key.held(job.worker), expires, job.jid)
  call('ZADD', key.place(job.queue, 'locks'), expires, job.jid)
end
