-- settle: one round trip of a worker. It ends the jobs that the worker has finished, then hands out the next ones.

local rcall = redis.call

local SOON = 0.01 -- seconds until an idle worker comes again to carry on with what a client has left
local LONGEST_WAIT = 24 * 3600 -- seconds; a client may ask again
Settle.most = 250 -- jobs settled and reserved by one call

local UNKNOWN, NOT_KNOWN =
  'unknown-job',
  'No worker knows a job of this name. Is its app in INSTALLED_APPS, is its module called jobs or tasks, '
    .. 'was it renamed without aliases=?'

-- The verbs: the names of the arguments that each takes, how it checks them (before anything is written), and what it
-- does with a run.
local VERBS = {}

VERBS.complete = {
  takes = { 'result', 'ttl', 'data' },
  check = function(call, given)
    if given.result and given.result ~= '' then
      Arguments.json(call, 'result', given.result, Arguments.text_bytes)
      given.ttl = Arguments.whole(call, 'result_ttl', given.ttl, 1)
    end
    if given.data then
      Arguments.json(call, 'data', given.data)
    end
  end,
  act = function(call, run, given)
    Finish.complete(call, run, given)
  end,
}

VERBS.fail = {
  takes = { 'group', 'message' },
  check = function(call, given)
    Arguments.given(call, 'group', given.group)
    Arguments.message(call, given.message)
  end,
  act = function(call, run, given)
    Finish.fail(call, run, given)
  end,
}

VERBS.retry = {
  takes = { 'delay', 'group', 'message' },
  check = function(call, given)
    given.delay = Arguments.number(call, 'delay', given.delay)
    Arguments.message(call, given.message)
    given.group = given.group ~= '' and given.group or nil
  end,
  act = function(call, run, given)
    Finish.retry(call, run, run.queue, given)
  end,
}

-- What was not started has room again in the windows of its rates.
local function not_started(run, given)
  run.not_started = not given.held
end

VERBS.release = {
  takes = { 'delay' },
  check = function(call, given)
    given.delay = Arguments.number(call, 'delay', given.delay)
  end,
  act = function(call, run, given)
    not_started(run, given)
    given.what, given.first = 'returned', true
    Finish.give_back(call, run, given)
  end,
}

-- No worker knows the job's name: perhaps a deployment is under way. It comes back after as long as it has been unknown
-- already (at least a second, at most a minute), until patience ends.
VERBS.unknown = {
  takes = { 'patience' },
  check = function(call, given)
    given.patience = Arguments.number(call, 'patience', given.patience)
  end,
  act = function(call, run, given)
    local since = tonumber(run.unknown)
    if since and call.now - since >= given.patience then
      Finish.fail(call, run, { group = UNKNOWN, message = NOT_KNOWN, held = given.held })
      return
    end
    if not since or since > call.now then -- the clock may have been set back
      since = call.now
      rcall('HSET', run.key, 'unknown', string.format('%.6f', since))
    end
    not_started(run, given)
    given.what, given.unknown, given.group, given.message = 'returned', true, UNKNOWN, NOT_KNOWN
    given.delay = math.max(1, math.min(60, call.now - since))
    Finish.give_back(call, run, given)
  end,
}

-- The process died under the job: counted apart from its retries.
VERBS.crash = {
  takes = { 'limit', 'group', 'message' },
  check = function(call, given)
    given.limit = Arguments.whole(call, 'limit', given.limit, 0)
    Arguments.given(call, 'group', given.group)
    Arguments.message(call, given.message)
  end,
  act = function(call, run, given)
    local crashes = rcall('HINCRBY', run.key, 'crashes', 1)
    if crashes > given.limit then
      Finish.fail(call, run, given)
      return
    end
    given.what, given.delay = 'crashed', 0
    Finish.give_back(call, run, given)
  end,
}

VERBS.move = {
  takes = { 'queue', 'delay', 'depends' },
  check = function(call, given, jid, planned)
    Arguments.queue(call, given.queue)
    given.delay = Arguments.number(call, 'delay', given.delay or '0')
    given.needs = given.depends and Arguments.names(call, 'depends', given.depends) or {}
    Arguments.bounded(call, #given.needs)
    given.depends = Links.open_for_move(call, jid, given.needs)
    planned[jid] = given.depends -- the moves of one call must not wait for each other
    Cycles.refuse(call, jid, given.depends, planned)
  end,
  act = function(call, run, given)
    if run.entity then
      return Entities.no_move(call, run.jid)
    end
    -- Some of them may have ended by this very call.
    given.depends = Links.open_for_move(call, run.jid, given.depends, true)
    Finish.advance(call, run, given.queue, given)
    Links.follow_failed(call)
  end,
}

-- jid token held verb k arg*k, `count` times from args[i] on; `held` is for how many seconds the job lay in its worker's
-- hands before it was started, '' if it was not. -> the settlements, where the rest begins
local function parse(call, args, i, count)
  local settlements, planned = {}, {}
  for n = 1, count do
    local jid, verb = args[i], VERBS[args[i + 3] or '']
    local given = Arguments.whole(call, 'number of arguments', args[i + 4], 0)
    if not verb then
      Errors.argument(call, 'Unknown verb %s for job %s', Errors.name(args[i + 3]), Errors.name(jid))
    elseif i + 4 + given > #args then
      Errors.argument(call, 'Arguments of job %s are incomplete', Errors.name(jid))
    end
    local one = { held = Arguments.held(call, args[i + 2]) }
    for k = 1, math.min(given, #verb.takes) do
      one[verb.takes[k]] = args[i + 4 + k]
    end
    verb.check(call, one, jid, planned)
    settlements[n] = { jid = jid, token = args[i + 1], verb = verb, given = one }
    i = i + 5 + given
  end
  return settlements, i
end

-- A settlement whose lock is lost changes nothing and stops no other.
local function settle(call, settlements)
  local refused = {}
  for n = 1, #settlements do
    local one = settlements[n]
    local run, code, text = Lock.claim(call, one.jid, one.token)
    if run then
      code, text = one.verb.act(call, run, one.given)
    end
    if code then
      refused[#refused + 1] = { one.jid, code, text }
    end
  end
  return refused
end

-- count q queue*q [exclude glob | wait seconds | exhausted 1]...
local function parse_wish(call, args, i)
  local wish = { names = {}, excluded = {} }
  wish.count = Arguments.whole(call, 'count', args[i], 0)
  local named = Arguments.whole(call, 'number of queues', args[i + 1], 0)
  if i + 1 + named > #args then
    Errors.argument(call, 'Fewer queues than announced')
  end
  Arguments.bounded(call, named)
  for n = i + 2, i + 1 + named do
    wish.names[#wish.names + 1] = Arguments.name(call, 'queue', args[n])
  end
  for n = i + 2 + named, #args, 2 do
    local option, value = args[n], args[n + 1]
    if option == 'exclude' and value then
      wish.excluded[#wish.excluded + 1] = value
    elseif option == 'wait' then
      wish.wait = math.max(0, math.min(Arguments.number(call, 'wait', value), LONGEST_WAIT))
    elseif option == 'exhausted' and value == '1' then
      call.asks_exhausted = true
    else
      Errors.argument(call, 'Unknown option ' .. Errors.name(option))
    end
  end
  return wish
end

local function reserve(call, worker, wish, choice)
  local asking = { name = worker, jobs = {}, reserve = true }
  Queues.serve(call, choice, wish, function(queue, count)
    if Queue.is_paused(call, queue) then
      return 0
    end
    return Take.from(call, queue, count, asking)
  end)
  if #asking.jobs > 0 then
    rcall('ZADD', call.keys.workers, call.text, worker)
  end
  return asking.jobs
end

-- What a repeat of the request needs: jid, token, jid, token … and what does not change.
local function for_repeat(call, refused, jobs, rest)
  local held = {}
  for n = 1, #jobs do
    held[2 * n - 1], held[2 * n] = jobs[n][1], jobs[n][5]
  end
  held.refused = #refused > 0 and refused or nil
  held.rest = #rest > 0 and rest or nil
  held.exhausted = call.exhausted
  return held
end

-- settle worker s (settlement)*s count q queue*q [pairs] -> { refused, jobs, rest, now, exhausted }: what to block on if
-- there are no jobs and it was to `wait`; the time by which the locks on the jobs are measured; the jobs that have failed
-- as their last locks were lost, if these were asked for and there are any
function Settle.settle(call, args, i)
  local worker = Arguments.name(call, 'worker', args[i])
  local count = Arguments.whole(call, 'number of settlements', args[i + 1], 0)
  local settlements, rest_at = parse(call, args, i + 2, math.min(count, Settle.most + 1))
  local wish = parse_wish(call, args, rest_at)
  if count + wish.count > Settle.most then
    Errors.refuse(call, 'TOOBIG', '%s jobs in one call, at most %s', count + wish.count, Settle.most)
  end
  local refused = settle(call, settlements)
  local goes_on = Links.carry_on(call)
  local jobs, rest = {}, {}
  call.waits = call.has_waited -- as long as it takes no jobs
  if wish.count > 0 then
    local choice = Queues.choose(call, wish.names, wish.excluded)
    jobs = reserve(call, worker, wish, choice)
    local client = call.client or worker
    if #jobs > 0 then
      if call.has_waited or not call.client then
        Wake.works(call, client, choice)
      end
      call.waits = false
    elseif wish.wait then
      call.waits = true
      local seconds = goes_on and math.min(wish.wait, SOON) or wish.wait
      rest = Wake.wait(call, client, choice, seconds)
    end
  end
  local held, now = for_repeat(call, refused, jobs, rest), wish.count > 0 and call.text or nil
  held.now = now
  Call.keep_for_repeat(call, held)
  return { refused, jobs, rest, now, call.exhausted }
end

-- The reply again: of the jobs handed out, those that their worker still holds.
function Settle.rebuild(call, held)
  local jobs = {}
  for n = 1, #held, 2 do
    jobs[#jobs + 1] = Take.reservation_if_held(call, held[n], held[n + 1])
  end
  return { held.refused or {}, jobs, held.rest or {}, held.now, held.exhausted }
end
