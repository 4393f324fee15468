-- One round trip of a worker: the jobs it has finished, then the next ones to run.
local Errors, Arguments, Config, Events, History, Dependencies, Job, Outcome, Stats, Minutes, SortedSet, Wake, Queue, Pop, Replies, scope, key =
  Qless.Errors,
  Qless.Arguments,
  Qless.Config,
  Qless.Events,
  Qless.History,
  Qless.Dependencies,
  Qless.Job,
  Qless.Outcome,
  Qless.Stats,
  Qless.Minutes,
  Qless.SortedSet,
  Qless.Wake,
  Qless.Queue,
  Qless.Pop,
  Qless.Replies,
  Qless.scope,
  Qless.key

local Settle = {}
Qless.Settle = Settle

local call = redis.call

local LONGEST_WAIT = 24 * 3600 -- seconds; a client may ask again
Settle.most = 250 -- jobs settled and reserved by one call

-- What the completed jobs of a call have in common is written once, at the end.
local function finish_completed(completed)
  if #completed.jids == 0 then
    return
  end
  for queue, list in pairs(completed.queues) do
    SortedSet.remove(key.place(queue, 'locks'), list)
    Minutes.count(queue, 'completed', #list)
  end
  for worker, list in pairs(completed.workers) do
    SortedSet.remove(key.held(worker), list)
  end
  SortedSet.add(key.completed(), scope.now, completed.jids)
  Outcome.expire_completed(#completed.jids)
  Dependencies.release(completed.jids)
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
  act = function(jid, token, args, a, n, completed, tracked)
    local name, values, code, text = Outcome.read('settle', jid, token, true)
    if code then
      return code, text
    end
    local worker, queue = values[1], values[3]
    History.done(jid)
    Stats.sample('run', queue, scope.now - (tonumber(values[5]) or scope.now))
    if n > 1 then
      Outcome.keep_result(jid, args[a], args[a + 1])
    end
    if tracked[jid] then
      Events.tracked('completed', jid)
    end
    Events.completed(jid, queue)
    Outcome.write_complete(name, values[6] or '0', n > 2 and args[a + 2])
    if values[7] or values[8] then
      Outcome.forget_marks(name)
    end
    append(completed.queues, queue, jid)
    append(completed.workers, worker, jid)
    completed.jids[#completed.jids + 1] = jid
  end,
}

-- The other verbs take their arguments as a list of their own, and the whole record.
local RARE = {}

RARE.fail = {
  check = function(s)
    Arguments.given('settle', 'group', s[1])
    Outcome.message('settle', s[2])
  end,
  act = function(job, s)
    Outcome.fail_now(job, s[1], s[2])
  end,
}

RARE.retry = {
  check = function(s)
    s[1] = Arguments.number('settle', 'delay', s[1])
    Outcome.message('settle', s[3])
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
    Outcome.unlock(job)
    Outcome.back(job, job.queue, s[1])
  end,
}

-- No worker knows the job's name: perhaps a deployment is under way. It comes back after as long
-- as it has been unknown already (at least a second, at most a minute), until patience ends.
RARE.unknown = {
  check = function(s)
    s[1] = Arguments.number('settle', 'patience', s[1])
  end,
  act = function(job, s)
    local since = tonumber(call('HGET', key.job(job.jid), 'unknown'))
    if since and scope.now - since >= s[1] then
      call('HDEL', key.job(job.jid), 'unknown')
      Outcome.fail_now(job, 'unknown-job', 'No worker knows a job of this name')
      return
    end
    if not since then
      since = scope.now
      call('HSET', key.job(job.jid), 'unknown', string.format('%.6f', since))
    end
    job.unknown = true
    Outcome.unlock(job)
    Outcome.back(job, job.queue, math.max(1, math.min(60, scope.now - since)))
  end,
}

-- The process died under the job: counted apart from its retries.
RARE.crash = {
  check = function(s)
    s[1] = Arguments.whole('settle', 'limit', s[1], 0)
    Arguments.given('settle', 'group', s[2])
    Outcome.message('settle', s[3])
  end,
  act = function(job, s)
    local crashes = job.crashes + 1
    call('HSET', key.job(job.jid), 'crashes', crashes)
    if crashes > s[1] then
      Outcome.fail_now(job, s[2], s[3])
      return
    end
    History.add(job.jid, 'crashed', '{"worker":' .. Events.quote(job.worker) .. '}')
    Outcome.unlock(job)
    Outcome.back(job, job.queue, 0)
  end,
}

RARE.move = {
  check = function(s, jid, planned)
    Arguments.queue('settle', s[1])
    s[2] = Arguments.number('settle', 'delay', s[2] or '0')
    s[3] = s[3] and Arguments.names('settle', 'depends', s[3]) or {}
    Arguments.bounded('settle', #s[3])
    s[3] = Dependencies.open('settle', s[3])
    planned[jid] = s[3] -- the moves of one call must not wait for each other
    Dependencies.no_circle('settle', jid, s[3], planned)
  end,
  act = function(job, s, _, tracked)
    local jid = job.jid
    History.done(jid)
    Outcome.unlock(job)
    Stats.sample('run', job.queue, scope.now - job.time)
    Minutes.count(job.queue, 'completed', 1)
    if tracked[jid] then
      Events.tracked('completed', jid)
    end
    Events.advanced(jid, job.queue, s[1])
    Outcome.advance(job, s[1], s[2], s[3])
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
    act = function(jid, token, args, a, _, completed, tracked)
      local job, code, text = Outcome.claim('settle', jid, token)
      if not job then
        return code, text
      end
      verb.act(job, args['list' .. a], completed, tracked)
    end,
  }
end

-- jid token verb k arg*k, `count` times from args[i] on.
-- -> where each begins, their jids, where the rest begins
local function parse(args, i, count)
  local starts, jids, planned = {}, {}, {}
  for n = 1, count do
    local verb, given = VERBS[args[i + 2]], Arguments.whole('settle', 'number of arguments', args[i + 3], 0)
    if not verb then
      Errors.argument('settle', 'Unknown verb ' .. Errors.name(args[i + 2]) .. ' for job ' .. Errors.name(args[i]))
    end
    if i + 3 + given > #args then
      Errors.argument('settle', 'Arguments of job ' .. Errors.name(args[i]) .. ' are incomplete')
    end
    args[i + 3] = given
    verb.check(args, i + 4, given, args[i], planned)
    starts[n], jids[n] = i, args[i]
    i = i + 4 + given
  end
  return starts, jids, i
end

-- A settlement whose lock is lost changes nothing and stops no other.
local function settle(args, starts, jids)
  local refused, completed = {}, { jids = {}, queues = {}, workers = {} }
  local tracked = Job.tracked_among(jids)
  for n = 1, #starts do
    local i = starts[n]
    local code, text = VERBS[args[i + 2]].act(args[i], args[i + 1], args, i + 4, args[i + 3], completed, tracked)
    if code then
      refused[#refused + 1] = args[i]
      refused[#refused + 1] = code
      refused[#refused + 1] = text
    end
  end
  finish_completed(completed)
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
  flat[n + 5], flat[n + 6], flat[n + 7], flat[n + 8] = token, values[3] or '', values[4] or '', values[5] or ''
  flat[n + 9], flat[n + 10], flat[n + 11] = values[6] or '', values[7] or '', expires
end

-- Options, and what mostly does not exist, asked for once for all jobs of the call.
local function look_around(queues, wanted)
  local places = {}
  if wanted > 0 then
    for n = 1, math.min(#queues, 8) do
      places[2 * n - 1], places[2 * n] = key.place(queues[n], 'scheduled'), key.place(queues[n], 'recur')
    end
  end
  Qless.look_for({ key.releasing(), key.tracked(), key.paused_queues() })
  if #places > 0 and #queues <= 8 then
    Qless.look_for(places)
  end
end

local function reserve(queues, worker, count)
  local flat, taken, queue, expires_text = {}, 0, nil, nil
  local function visit(jid, values, token, expires)
    expires_text = expires_text or string.format('%.6f', expires)
    flatten(flat, 11 * taken, jid, queue, values, token, expires_text)
    taken = taken + 1
  end
  for n = 1, #queues do
    queue, expires_text = queues[n], nil
    if taken >= count then
      break
    end
    if not Pop.is_paused(queue) then
      Pop.take(queue, worker, count - taken, visit)
    end
  end
  if taken > 0 then
    call('ZADD', key.workers(), Qless.printed(scope.now), worker)
  end
  return flat, taken
end

-- count q queue*q [exclude glob | wait seconds]...
local function parse_wish(args, i)
  local wish = { names = {}, excluded = {} }
  wish.count = Arguments.whole('settle', 'count', args[i], 0)
  local named = Arguments.whole('settle', 'number of queues', args[i + 1], 0)
  if i + 1 + named > #args then
    Errors.argument('settle', 'Fewer queues than announced')
  end
  Arguments.bounded('settle', named)
  for n = i + 2, i + 1 + named do
    wish.names[#wish.names + 1] = args[n]
  end
  for n = i + 2 + named, #args, 2 do
    if args[n] == 'exclude' and args[n + 1] then
      wish.excluded[#wish.excluded + 1] = args[n + 1]
    elseif args[n] == 'wait' then
      wish.wait = math.max(0, math.min(Arguments.number('settle', 'wait', args[n + 1]), LONGEST_WAIT))
    else
      Errors.argument('settle', 'Unknown option ' .. Errors.name(args[n]))
    end
  end
  return wish
end

-- What a repeat of the request needs: jids and tokens, and the rest if there is any.
local function remember(refused, jobs, rest)
  local held, n = {}, 0
  for place = 1, #jobs, 11 do
    held[n + 1], held[n + 2] = jobs[place], jobs[place + 4]
    n = n + 2
  end
  held.refused = #refused > 0 and refused or nil
  held.rest = #rest > 0 and rest or nil
  Replies.shorten('settle', held)
end

-- settle worker s (settlement)*s count q queue*q [pairs] -> { refused, jobs, rest }
function Settle.settle(args, i)
  local worker = Arguments.given('settle', 'worker', args[i])
  local count = Arguments.whole('settle', 'number of settlements', args[i + 1], 0)
  local starts, jids, rest_at = parse(args, i + 2, math.min(count, Settle.most + 1))
  local wish = parse_wish(args, rest_at)
  if count + wish.count > Settle.most then
    Errors.raise('TOOBIG', 'settle(): ' .. count + wish.count .. ' jobs in one call, at most ' .. Settle.most)
  end
  local queues, globbing = expand(wish.names, wish.excluded)
  look_around(queues, wish.count)
  local refused = settle(args, starts, jids)
  Dependencies.carry_on()
  local jobs, rest = {}, {}
  if wish.count > 0 then
    local taken
    jobs, taken = reserve(queues, worker, wish.count)
    local client = Replies.client() or worker
    Wake.busy(client, queues, globbing, taken > 0)
    if taken == 0 and wish.wait then
      rest = Wake.wait(client, queues, wish.wait, globbing)
    end
  end

  remember(refused, jobs, rest)
  return { refused, jobs, rest }
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
      flatten(flat, #flat, jid, values[8], values, token, string.format('%.6f', values[11]))
    end
  end
  return { held.refused or {}, flat, held.rest or {} }
end

Replies.builders({ settle = Settle.rebuild, pop = Job.show_all })
