-- One round trip of a worker: the jobs it has finished, then the next ones to run.

-- Seconds until an idle worker comes again to carry on with what a client has left.
local SOON = 0.01

local LONGEST_WAIT = 24 * 3600 -- seconds; a client may ask again
Settle.most = 250 -- jobs settled and reserved by one call

-- jid token held verb k arg*k, `count` times from args[i] on; `held` is for how many seconds the job lay
-- in its worker's hands before it was started, '' if it was not, or the time is not known.
-- -> where each begins, their jids, where the rest begins
local function parse(args, i, count)
  local starts, jids, planned = {}, {}, {}
  for n = 1, count do
    local verb, given =
      SettleVerbs.named(args[i + 3]), Arguments.whole('settle', 'number of arguments', args[i + 4], 0)
    if not verb then
      Errors.argument('settle', 'Unknown verb %s for job %s', Errors.name(args[i + 3]), Errors.name(args[i]))
    end
    if i + 4 + given > #args then
      Errors.argument('settle', 'Arguments of job ' .. Errors.name(args[i]) .. ' are incomplete')
    end
    args[i + 2], args[i + 4] = Arguments.held('settle', args[i + 2]) or false, given
    verb.check(args, i + 5, given, args[i], planned)
    starts[n], jids[n] = i, args[i]
    i = i + 5 + given
  end
  return starts, jids, i
end

-- A settlement whose lock is lost changes nothing and stops no other.
local function settle(args, starts, jids)
  local refused, completed = {}, { jids = {}, rare = {}, queues = {}, workers = {} }
  local tracked = Tracking.among(jids)
  for n = 1, #starts do
    local i = starts[n]
    local code, text = SettleVerbs.named(args[i + 3])
      .act(args[i], args[i + 1], args[i + 2], args, i + 5, args[i + 4], completed, tracked)
    if code then
      refused[#refused + 1] = { args[i], code, text }
    end
  end
  SettleVerbs.finish(completed)
  return refused
end

-- What mostly does not exist, asked for once for all jobs of the call. -> whether nothing is left that
-- could be carried on
local function look_around(jids, choice)
  local names = { key.releasing(), key.cascading(), key.tracked(), key.paused_queues(), key.workflows() }
  if #jids == 1 then
    names[6] = key.dependents(jids[1])
  end
  local queues = choice and choice.few
  if not queues then
    return ExistenceCache.look_for(names, {})
  end
  local theirs = {}
  for n = 1, #queues do
    local queue, at = queues[n], 4 * n
    theirs[at - 3], theirs[at - 2] = key.place(queue, 'scheduled'), key.place(queue, 'recur')
    theirs[at - 1], theirs[at] = key.place(queue, 'ticks'), key.timer(queue)
  end
  theirs[#theirs + 1] = key.glob_waits()
  return ExistenceCache.look_for(names, theirs)
end

-- -> what is told of each job; and what a repeat of the request needs: jid, token, jid, token …
local function reserve(choice, worker, wish)
  local jobs, held = {}, {}
  local function visit(jid, token, told)
    jobs[#jobs + 1] = told
    held[#held + 1] = jid
    held[#held + 1] = token
  end
  local function take(queue, count)
    if (choice.many and Nonempty.is_bare(queue)) or Pop.is_paused(queue) then
      return 0
    end
    return Pop.take(queue, worker, count, visit, true)
  end
  QueueChoice.serve(choice, wish.count, wish.turns, take)
  -- Who brings a job back that it got in this second has been written down in this second.
  if #jobs > 0 and scope.seen ~= worker then
    call('ZADD', key.workers(), NumberFormat.now(), worker)
  end
  return jobs, held
end

-- count q queue*q [exclude glob | wait seconds | turns 1 | exhausted 1]...
local function parse_wish(args, i)
  local wish = { names = {}, excluded = {} }
  wish.count = Arguments.whole('settle', 'count', args[i], 0)
  local named = Arguments.whole('settle', 'number of queues', args[i + 1], 0)
  if i + 1 + named > #args then
    Errors.argument('settle', 'Fewer queues than announced')
  end
  Arguments.bounded('settle', named)
  for n = i + 2, i + 1 + named do
    wish.names[#wish.names + 1] = Arguments.name('settle', 'queue', args[n])
  end
  for n = i + 2 + named, #args, 2 do
    if args[n] == 'exclude' and args[n + 1] then
      wish.excluded[#wish.excluded + 1] = args[n + 1]
    elseif args[n] == 'wait' then
      wish.wait = math.max(0, math.min(Arguments.number('settle', 'wait', args[n + 1]), LONGEST_WAIT))
    elseif args[n] == 'turns' and args[n + 1] == '1' then
      wish.turns = true
    elseif args[n] == 'exhausted' and args[n + 1] == '1' then
      wish.exhausted = true
    else
      Errors.argument('settle', 'Unknown option ' .. Errors.name(args[n]))
    end
  end
  return wish
end

-- Carries on with what earlier calls had to leave. -> whether a workflow has more of it
local function carry_on()
  Dependencies.carry_on()
  return WorkflowVerbs.carry_on()
end

-- settle worker s (settlement)*s count q queue*q [pairs] -> { refused, jobs, rest, now, exhausted }: the time by
-- which the locks on the jobs are measured, if jobs were asked for; those that have failed as their last locks were
-- lost, if these were asked for and there are any
function Settle.settle(args, i)
  local worker = Arguments.name('settle', 'worker', args[i])
  local count = Arguments.whole('settle', 'number of settlements', args[i + 1], 0)
  local starts, jids, rest_at = parse(args, i + 2, math.min(count, Settle.most + 1))
  local wish = parse_wish(args, rest_at)
  if count + wish.count > Settle.most then
    Errors.raise('TOOBIG', 'settle(): ' .. count + wish.count .. ' jobs in one call, at most ' .. Settle.most)
  end
  local choice = wish.count > 0 and QueueChoice.of(wish.names, wish.excluded)
  local quiet = look_around(jids, choice)
  local refused = settle(args, starts, jids)
  local goes_on = not quiet and carry_on()
  goes_on = goes_on or Dependencies.left() <= 0 -- dependents may be left, for which no worker is woken
  local jobs, held, rest = {}, {}, {}
  if choice then
    scope.asks_exhausted = wish.exhausted
    jobs, held = reserve(choice, worker, wish)
    held.now = NumberFormat.now()
    local client = scope.client or worker
    if #jobs > 0 then
      Wake.working(client, choice)
    elseif wish.wait then
      local seconds = goes_on and math.min(wish.wait, SOON) or wish.wait
      rest = Wake.wait(client, choice, seconds)
    end
  end

  held.refused = #refused > 0 and refused or nil
  held.rest = #rest > 0 and rest or nil
  held.exhausted = scope.exhausted
  Replies.shorten('settle', held)
  return { refused, jobs, rest, held.now, held.exhausted }
end

-- The reply again: of the jobs handed out, those that their worker still holds.
function Settle.rebuild(held)
  local jobs = {}
  for n = 1, #held, 2 do
    local told = Pop.told_again(held[n], held[n + 1])
    jobs[#jobs + 1] = told
  end
  return { held.refused or {}, jobs, held.rest or {}, held.now, held.exhausted }
end
