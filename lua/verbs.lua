-- What may become of a job that a worker held: each verb of settle, its arguments and its effect.

-- What the completed jobs of a call have in common is written once, at the end.
function Verbs.finish(completed)
  if #completed.jids == 0 then
    return
  end
  for queue, list in pairs(completed.queues) do
    SortedSet.remove(key.place(queue, 'locks'), list)
  end
  for worker, list in pairs(completed.workers) do
    SortedSet.remove(key.held(worker), list)
  end
  SortedSet.add(key.completed(), Texts.now(), completed.jids)
  Ended.completed(completed.jids, completed.rare) -- which reads the records, so before they may go
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
Verbs.by_name = VERBS

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

-- The other verbs take their arguments as a list of their own, and the whole record. Where `runs` is true
-- only a job that was started can end so.
local RARE = {}

RARE.fail = {
  runs = true,
  check = function(s)
    Arguments.given('settle', 'group', s[1])
    Arguments.message('settle', s[2])
  end,
  act = function(job, s)
    Outcome.fail_now(job, s[1], s[2])
  end,
}

RARE.retry = {
  runs = true,
  check = function(s)
    s[1] = Arguments.number('settle', 'delay', s[1])
    Arguments.message('settle', s[3])
  end,
  act = function(job, s)
    local group = s[2] ~= '' and s[2] or nil
    Outcome.retry_now(job, job.queue, s[1], group, s[3])
  end,
}

RARE.release = {
  check = function(s)
    s[1] = Arguments.number('settle', 'delay', s[1])
  end,
  act = function(job, s)
    History.ended(job.jid, 'returned', job, nil, nil, s[1])
    Lock.release(job)
    Outcome.back(job, job.queue, s[1], nil, true)
  end,
}

local UNKNOWN, NOT_KNOWN =
  'unknown-job',
  'No worker knows a job of this name. Is its app in INSTALLED_APPS, is its module called jobs or tasks, '
    .. 'was it renamed without aliases=?'

-- No worker knows the job's name: perhaps a deployment is under way. It comes back after as long
-- as it has been unknown already (at least a second, at most a minute), until patience ends.
RARE.unknown = {
  check = function(s)
    s[1] = Arguments.number('settle', 'patience', s[1])
  end,
  act = function(job, s)
    local since = Record.read('unknown', call('HGET', key.job(job.jid), 'unknown'))
    if since and scope.now - since >= s[1] then
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
  check = function(s)
    s[1] = Arguments.whole('settle', 'limit', s[1], 0)
    Arguments.given('settle', 'group', s[2])
    Arguments.message('settle', s[3])
  end,
  act = function(job, s)
    local crashes = job.crashes + 1
    call('HSET', key.job(job.jid), 'crashes', crashes)
    if crashes > s[1] then
      Outcome.fail_now(job, s[2], s[3])
      return
    end
    History.ended(job.jid, 'crashed', job, s[2], s[3])
    Lock.release(job)
    Outcome.back(job, job.queue, 0)
  end,
}

RARE.move = {
  runs = true,
  check = function(s, jid, planned)
    Arguments.queue('settle', s[1])
    s[2] = Arguments.number('settle', 'delay', s[2] or '0')
    s[3] = s[3] and Arguments.names('settle', 'depends', s[3]) or {}
    Arguments.bounded('settle', #s[3])
    s[4] = s[3]
    s[3], s[5] = Dependencies.open_for('settle', jid, s[3])
    planned[jid] = s[3] -- the moves of one call must not wait for each other
    Circles.intend(planned)
    Circles.refuse('settle', jid, s[3], planned)
  end,
  act = function(job, s, _, tracked)
    local jid = job.jid
    History.ended(jid, 'done', job)
    Lock.release(job)
    Samples.add('run', job.queue, scope.now - job.start)
    if tracked[jid] then
      Events.tracked('completed', jid)
    end
    Events.advanced(jid, job.queue, s[1])
    Outcome.advance(job, s[1], s[2], s[3], nil, s[4], s[5])
  end,
}

for name, verb in pairs(RARE) do
  VERBS[name] = {
    check = function(args, a, n, jid, planned)
      local list = {}
      for k = 1, n do
        list[k] = args[a + k - 1]
      end
      verb.check(list, jid, planned)
      args['list' .. a] = list
    end,
    act = function(jid, token, held, args, a, _, completed, tracked)
      local job, code, text = Lock.claim('settle', jid, token)
      if not job then
        return code, text
      elseif job.bad and name ~= 'fail' then
        Corrupt.fail(jid, job.bad, job.bad_text)
        return
      end
      Lock.count_start(job, held, verb.runs)
      verb.act(job, args['list' .. a], completed, tracked)
    end,
  }
end
