-- The verbs of settle but for complete. They take their arguments by the names that stand in `takes`, and the whole
-- record. Where `runs` is true only a job that was started can end so.
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
    Limits.not_started(job)
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
    Limits.not_started(job)
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
    History.ended(job.jid, 'done', job)
    Lock.release(job)
    Samples.add('run', job.queue, scope.now - job.start)
    if tracked[job.jid] then
      Events.tracked('completed', job.jid)
    end
    Events.advanced(job.jid, job.queue, given.queue)
    Outcome.advance(job, given.queue, given.delay, given.depends, nil, given.needs, given.beyond)
  end,
}

OtherVerbs.by_name = {}

for name, verb in pairs(RARE) do
  OtherVerbs.by_name[name] = {
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
