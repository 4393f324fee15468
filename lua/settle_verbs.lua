-- The verbs of settle: what each does to a job that a worker held, and its arguments.

-- What the completed jobs of a call have in common is written once, at the end.
function SettleVerbs.finish(completed)
  if #completed.jids == 0 then
    return
  end
  for queue, list in pairs(completed.queues) do
    SortedSet.remove(key.place(queue, 'locks'), list)
    Wake.freed(queue, #list)
  end
  for worker, list in pairs(completed.workers) do
    SortedSet.remove(key.held(worker), list)
  end
  SortedSet.add(key.completed(), NumberFormat.now(), completed.jids)
  JobEnd.completed(completed.jids, completed.rare) -- which reads the records, so before they may go
  Expiry.after(#completed.jids)
end

local function append(lists, name, jid)
  local list = lists[name]
  if list then
    list[#list + 1] = jid
  else
    lists[name] = { jid }
  end
end

-- How each verb checks its `n` arguments from args[a] on (before anything is written), and
-- what it then does. -> code, text if the settlement is refused
local VERBS = {}
SettleVerbs.by_name = VERBS

VERBS.complete = {
  check = function(args, a, n)
    if n == 0 then
      return
    end
    if args[a] ~= '' then
      Arguments.json('settle', 'result', args[a], Arguments.text_bytes)
      args[a + 1] = Arguments.whole('settle', 'result_ttl', n > 1 and args[a + 1] or nil, 1)
    end
    if n > 2 then
      Arguments.json('settle', 'data', args[a + 2])
    end
  end,
  act = function(jid, token, held, args, a, n, completed, tracked)
    local worker, queue, time, retries, rare, waited = Lock.completed(jid, token)
    if not worker then
      return queue, time -- code and text
    end
    held = held or Samples.held(waited) or 0
    History.done(jid, held)
    local popped = Record.read('time', time, scope.now)
    Samples.add('run', queue, scope.now - Samples.started(queue, popped, waited, held))
    local returned = n > 1 and Outcome.keep_result(jid, token, args[a], args[a + 1])
    if tracked[jid] then
      Events.tracked('completed', jid)
    end
    Events.completed(jid, queue)
    local name = key.job(jid)
    Outcome.write_complete(name, Record.text('retries', retries, '0'), n > 2 and args[a + 2], returned)
    if rare then
      Outcome.forget_marks(name)
    end
    append(completed.queues, queue, jid)
    append(completed.workers, worker, jid)
    completed.jids[#completed.jids + 1] = jid
    if rare == '1' then
      completed.rare[#completed.rare + 1] = jid
    end
  end,
}

-- The other verbs take their arguments by the names that stand in `takes`, and the whole record. Where `runs`
-- is true only a job that was started can end so.
local RARE = {}

RARE.fail = {
  takes = { 'group', 'message' },
  runs = true,
  check = function(given)
    Arguments.given('settle', 'group', given.group)
    Arguments.message('settle', given.message)
  end,
  act = function(job, given)
    Outcome.fail_now(job, given.group, given.message)
  end,
}

RARE.retry = {
  takes = { 'delay', 'group', 'message' },
  runs = true,
  check = function(given)
    given.delay = Arguments.number('settle', 'delay', given.delay)
    Arguments.message('settle', given.message)
  end,
  act = function(job, given)
    local group = given.group ~= '' and given.group or nil
    Outcome.retry_now(job, job.queue, given.delay, group, given.message)
  end,
}

RARE.release = {
  takes = { 'delay' },
  check = function(given)
    given.delay = Arguments.number('settle', 'delay', given.delay)
  end,
  act = function(job, given)
    History.ended(job.jid, 'returned', job, nil, nil, given.delay)
    Lock.release(job)
    Outcome.back(job, job.queue, given.delay, nil, true)
  end,
}

local UNKNOWN, NOT_KNOWN =
  'unknown-job',
  'No worker knows a job of this name. Is its app in INSTALLED_APPS, is its module called jobs or tasks, '
    .. 'was it renamed without aliases=?'

-- No worker knows the job's name: perhaps a deployment is under way. It comes back after as long
-- as it has been unknown already (at least a second, at most a minute), until patience ends.
RARE.unknown = {
  takes = { 'patience' },
  check = function(given)
    given.patience = Arguments.number('settle', 'patience', given.patience)
  end,
  act = function(job, given)
    local since = Record.read('unknown', call('HGET', key.job(job.jid), 'unknown'))
    if since and scope.now - since >= given.patience then
      call('HDEL', key.job(job.jid), 'unknown')
      Outcome.fail_now(job, UNKNOWN, NOT_KNOWN)
      return
    end
    if not since or since > scope.now then -- the clock may have been set back
      since = scope.now
      call('HSET', key.job(job.jid), 'unknown', string.format('%.6f', since))
    end
    job.unknown = true
    local delay = math.max(1, math.min(60, scope.now - since))
    History.ended(job.jid, 'returned', job, UNKNOWN, NOT_KNOWN, delay)
    Lock.release(job)
    Outcome.back(job, job.queue, delay)
  end,
}

-- The process died under the job: counted apart from its retries.
RARE.crash = {
  takes = { 'limit', 'group', 'message' },
  check = function(given)
    given.limit = Arguments.whole('settle', 'limit', given.limit, 0)
    Arguments.given('settle', 'group', given.group)
    Arguments.message('settle', given.message)
  end,
  act = function(job, given)
    local crashes = job.crashes + 1
    call('HSET', key.job(job.jid), 'crashes', crashes)
    if crashes > given.limit then
      Outcome.fail_now(job, given.group, given.message)
      return
    end
    History.ended(job.jid, 'crashed', job, given.group, given.message)
    Lock.release(job)
    Outcome.back(job, job.queue, 0)
  end,
}

RARE.move = {
  takes = { 'queue', 'delay', 'depends' },
  runs = true,
  check = function(given, jid, planned)
    Arguments.queue('settle', given.queue)
    given.delay = Arguments.number('settle', 'delay', given.delay or '0')
    given.needs = given.depends and Arguments.names('settle', 'depends', given.depends) or {}
    Arguments.bounded('settle', #given.needs)
    given.depends, given.beyond = Dependencies.open_for('settle', jid, given.needs)
    planned[jid] = given.depends -- the moves of one call must not wait for each other
    CycleDetection.intend(planned)
    CycleDetection.refuse('settle', jid, given.depends, planned)
  end,
  act = function(job, given, tracked)
    local jid = job.jid
    History.ended(jid, 'done', job)
    Lock.release(job)
    Samples.add('run', job.queue, scope.now - job.start)
    if tracked[jid] then
      Events.tracked('completed', jid)
    end
    Events.advanced(jid, job.queue, given.queue)
    Outcome.advance(job, given.queue, given.delay, given.depends, nil, given.needs, given.beyond)
  end,
}

for name, verb in pairs(RARE) do
  VERBS[name] = {
    check = function(args, a, n, jid, planned)
      local given = {}
      for k = 1, math.min(n, #verb.takes) do
        given[verb.takes[k]] = args[a + k - 1]
      end
      verb.check(given, jid, planned)
      args['given' .. a] = given
    end,
    act = function(jid, token, held, args, a, _, _, tracked)
      local job, code, text = Lock.claim('settle', jid, token)
      if not job then
        return code, text
      elseif job.bad and name ~= 'fail' then
        CorruptJobs.fail(jid, job.bad, job.bad_text)
        return
      elseif job.entity and name == 'move' then
        return Entity.no_move('settle', jid)
      end
      Lock.count_start(job, held, verb.runs)
      verb.act(job, args['given' .. a], tracked)
    end,
  }
end
