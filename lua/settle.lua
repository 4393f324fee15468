-- One round trip of a worker: the jobs it has finished, then the next ones to run.

local VERBS = Verbs.by_name

local MANY = 8 -- queues

-- Seconds until an idle worker comes again to carry on with what a client has left.
local SOON = 0.01

local LONGEST_WAIT = 24 * 3600 -- seconds; a client may ask again
Settle.most = 250 -- jobs settled and reserved by one call

-- jid token held verb k arg*k, `count` times from args[i] on; `held` is for how many seconds the job lay
-- in its worker's hands before it was started, '' if it was not, or nobody knows when.
-- -> where each begins, their jids, where the rest begins
local function parse(args, i, count)
  local starts, jids, planned = {}, {}, {}
  for n = 1, count do
    local verb, given = VERBS[args[i + 3]], Arguments.whole('settle', 'number of arguments', args[i + 4], 0)
    if not verb then
      Errors.argument(
        'settle',
        'Unknown verb ' .. Errors.name(args[i + 3]) .. ' for job ' .. Errors.name(args[i])
      )
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
  local tracked = Job.tracked_among(jids)
  for n = 1, #starts do
    local i = starts[n]
    local code, text =
      VERBS[args[i + 3]].act(args[i], args[i + 1], args[i + 2], args, i + 5, args[i + 4], completed, tracked)
    if code then
      refused[#refused + 1] = args[i]
      refused[#refused + 1] = code
      refused[#refused + 1] = text
    end
  end
  Verbs.finish(completed)
  return refused
end

-- A glob with * and ? as a Lua pattern.
local function pattern(glob)
  local escaped = string.gsub(glob, '[%^%$%(%)%%%.%[%]%+%-]', '%%%0')
  return '^' .. string.gsub(string.gsub(escaped, '%*', '.*'), '%?', '.') .. '$'
end

local function is_excluded(queue, excluded)
  for _, glob in ipairs(excluded) do
    if string.find(queue, pattern(glob)) then
      return true
    end
  end
  return false
end

-- The queues that names and globs stand for, in the order given. -> queues, whether there are globs
local function expand(names, excluded)
  if #names == 1 and #excluded == 0 and not string.find(names[1], '[*?]') then
    return names, false
  end
  local queues, seen, globbing = {}, {}, false
  local function add(queue)
    if not seen[queue] and not is_excluded(queue, excluded) then
      seen[queue] = true
      queues[#queues + 1] = queue
    end
  end
  local known
  for _, name in ipairs(names) do
    if string.find(name, '[*?]') then
      globbing = true
      if not known then
        known = Queue.names()
        table.sort(known)
      end
      local wanted = pattern(name)
      for _, queue in ipairs(known) do
        if string.find(queue, wanted) then
          add(queue)
        end
      end
    else
      add(name)
    end
  end
  return queues, globbing
end

-- A job as the reply holds it: 11 texts behind flat[n].
local function flatten(flat, n, jid, queue, values, token, expires)
  flat[n + 1], flat[n + 2], flat[n + 3], flat[n + 4] = jid, queue, values[1] or '', values[2] or ''
  flat[n + 5], flat[n + 6], flat[n + 7], flat[n + 8] =
    token, values[3] or '', values[4] or '', values[5] or ''
  flat[n + 9], flat[n + 10], flat[n + 11] = values[6] or '', values[7] or '', expires
end

-- What mostly does not exist, asked for once for all jobs of the call. -> whether nothing is left that
-- could be carried on
local function look_around(jids, queues, wanted)
  local names = { key.releasing(), key.cascading(), key.tracked(), key.paused_queues(), key.workflows() }
  if #jids == 1 then
    names[6] = key.dependents(jids[1])
  end
  local quiet = Absence.look_for(names)
  if wanted == 0 or #queues > MANY then
    return quiet
  end
  names = {}
  for n = 1, #queues do
    local queue, at = queues[n], 4 * n
    names[at - 3], names[at - 2] = key.place(queue, 'scheduled'), key.place(queue, 'recur')
    names[at - 1], names[at] = key.idle_at(queue), key.wake_at(queue)
  end
  if #names > 0 then
    Absence.look_for(names)
  end
  return quiet
end

-- One queue after the other, until there are `count` jobs.
local function one_by_one(queues, count, take)
  for n = 1, #queues do
    if count <= 0 then
      return
    end
    count = count - take(queues[n], count)
  end
end

-- As if single jobs were taken from each queue in turn: in each round an equal part from each
-- that has not shown to be empty.
local function in_turns(queues, count, take)
  while count > 0 and #queues > 0 do
    local part, going_on = math.max(1, math.floor(count / #queues)), {}
    for n = 1, #queues do
      local taken = take(queues[n], part)
      count = count - taken
      if taken == part then
        going_on[#going_on + 1] = queues[n]
      end
      if count == 0 then
        return
      end
    end
    queues = going_on
  end
end

local function reserve(queues, worker, wish)
  local flat, taken, queue = {}, 0, nil
  local function visit(jid, values, token, expires)
    flatten(flat, 11 * taken, jid, queue, values, token, expires)
    taken = taken + 1
  end
  local function take(name, count)
    queue = name
    return Pop.is_paused(name) and 0 or Pop.take(name, worker, count, visit, true)
  end
  local serve = wish.turns and in_turns or one_by_one
  serve(queues, wish.count, take)
  if taken > 0 then
    call('ZADD', key.workers(), Texts.now(), worker)
  end
  return flat, taken
end

-- count q queue*q [exclude glob | wait seconds | turns 1]...
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
    else
      Errors.argument('settle', 'Unknown option ' .. Errors.name(args[n]))
    end
  end
  return wish
end

-- What a repeat of the request needs: jids and tokens, and the rest if there is any.
local function remember(refused, jobs, rest, now)
  local held, n = {}, 0
  for place = 1, #jobs, 11 do
    held[n + 1], held[n + 2] = jobs[place], jobs[place + 4]
    n = n + 2
  end
  held.refused = #refused > 0 and refused or nil
  held.rest = #rest > 0 and rest or nil
  held.now = now
  Replies.shorten('settle', held)
end

-- Carries on with what earlier calls had to leave. -> whether a workflow has more of it
local function carry_on()
  Dependencies.carry_on()
  return WorkflowVerbs.carry_on()
end

-- settle worker s (settlement)*s count q queue*q [pairs] -> { refused, jobs, rest, now }: the time by
-- which the locks on the jobs are measured, if jobs were asked for
function Settle.settle(args, i)
  local worker = Arguments.name('settle', 'worker', args[i])
  local count = Arguments.whole('settle', 'number of settlements', args[i + 1], 0)
  local starts, jids, rest_at = parse(args, i + 2, math.min(count, Settle.most + 1))
  local wish = parse_wish(args, rest_at)
  if count + wish.count > Settle.most then
    Errors.raise('TOOBIG', 'settle(): ' .. count + wish.count .. ' jobs in one call, at most ' .. Settle.most)
  end
  local queues, globbing = expand(wish.names, wish.excluded)
  local quiet = look_around(jids, queues, wish.count)
  local refused = settle(args, starts, jids)
  local goes_on = not quiet and carry_on()
  goes_on = goes_on or Dependencies.left() <= 0 -- dependents may be left, for whom nobody is woken
  local jobs, rest = {}, {}
  if wish.count > 0 then
    local taken
    jobs, taken = reserve(queues, worker, wish)
    local client = scope.client or worker
    Wake.busy(client, worker, queues, globbing, taken > 0)
    if taken == 0 and wish.wait then
      local seconds = goes_on and math.min(wish.wait, SOON) or wish.wait
      rest = Wake.wait(client, worker, queues, seconds, globbing)
    end
  end

  local now = wish.count > 0 and Texts.now() or nil
  remember(refused, jobs, rest, now)
  return { refused, jobs, rest, now }
end

-- The reply again: of the jobs handed out, those that their worker still holds.
function Settle.rebuild(held)
  local flat = {}
  for n = 1, #held, 2 do
    local jid, token = held[n], held[n + 1]
    local values = call(
      'HMGET',
      key.job(jid),
      'klass',
      'data',
      'retries',
      'remaining',
      'priority',
      'tags',
      'context',
      'queue',
      'state',
      'token',
      'expires'
    )
    if values[9] == 'running' and values[10] == token then
      flatten(flat, #flat, jid, values[8], values, token, values[11])
    end
  end
  return { held.refused or {}, flat, held.rest or {}, held.now }
end
