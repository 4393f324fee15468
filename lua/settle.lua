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

Settle.most = 250 -- jobs settled and reserved by one call

-- What the completed jobs of a call have in common is written once, at the end.
local function finish_completed(jobs)
  if #jobs == 0 then
    return
  end
  local locks, held, jids = {}, {}, {}
  for n, job in ipairs(jobs) do
    jids[n] = job.jid
    locks[job.queue] = locks[job.queue] or {}
    table.insert(locks[job.queue], job.jid)
    held[job.worker] = held[job.worker] or {}
    table.insert(held[job.worker], job.jid)
  end
  for queue, list in pairs(locks) do
    SortedSet.remove(key.place(queue, 'locks'), list)
    Minutes.count(queue, 'completed', #list)
  end
  for worker, list in pairs(held) do
    SortedSet.remove(key.held(worker), list)
  end
  SortedSet.add(key.completed(), scope.now, jids)
  Outcome.expire_completed(#jids)
  Dependencies.release(jids)
end

-- How each verb checks its arguments (before anything is written) and what it then does.
local VERBS = {}

VERBS.complete = {
  check = function(s)
    if s[1] and s[1] ~= '' then
      Arguments.json('settle', 'result', s[1], Arguments.text_bytes)
      Arguments.whole('settle', 'result_ttl', s[2], 1)
    end
    if s[3] then
      Arguments.json('settle', 'data', s[3])
    end
  end,
  act = function(job, s, completed, tracked)
    local jid = job.jid
    History.add(jid, 'done')
    Stats.sample('run', job.queue, scope.now - job.time)
    Outcome.keep_result(jid, s[1], s[2])
    if tracked[jid] then
      Events.tracked('completed', jid)
    end
    Events.completed(jid, job.queue)
    Outcome.write_complete(job, s[3])
    Outcome.forget_run(job)
    completed[#completed + 1] = job
  end,
}

VERBS.fail = {
  check = function(s)
    Arguments.given('settle', 'group', s[1])
    Outcome.message('settle', s[2])
  end,
  act = function(job, s)
    Outcome.fail_now(job, s[1], s[2])
  end,
}

VERBS.retry = {
  check = function(s)
    s[1] = Arguments.number('settle', 'delay', s[1])
    Outcome.message('settle', s[3])
  end,
  act = function(job, s)
    local group = s[2] ~= '' and s[2] or nil
    Outcome.retry_now(job, job.queue, s[1], group, s[3])
  end,
}

VERBS.release = {
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
VERBS.unknown = {
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
VERBS.crash = {
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

VERBS.move = {
  check = function(s, jid)
    Arguments.queue('settle', s[1])
    s[2] = Arguments.number('settle', 'delay', s[2] or '0')
    s[3] = s[3] and Arguments.names('settle', 'depends', s[3]) or {}
    Arguments.bounded('settle', #s[3])
    s[3] = Dependencies.open('settle', s[3])
    Dependencies.no_circle('settle', jid, s[3])
  end,
  act = function(job, s, _, tracked)
    local jid = job.jid
    History.add(jid, 'done')
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

-- jid token verb k arg*k, `count` times from args[i] on. -> settlements, where the rest begins
local function parse(args, i, count)
  local settlements = {}
  for n = 1, count do
    local jid, token, name = args[i], args[i + 1], args[i + 2]
    local verb = VERBS[name]
    if not verb then
      Errors.argument('settle', 'Unknown verb ' .. Errors.name(name) .. ' for job ' .. Errors.name(jid))
    end
    local given = Arguments.whole('settle', 'number of arguments', args[i + 3], 0)
    if i + 3 + given > #args then
      Errors.argument('settle', 'Arguments of job ' .. Errors.name(jid) .. ' are incomplete')
    end
    local settlement = { jid = jid, token = token, verb = verb }
    for k = 1, given do
      settlement[k] = args[i + 3 + k]
    end
    verb.check(settlement, jid)
    settlements[n] = settlement
    i = i + 4 + given
  end
  return settlements, i
end

-- A settlement whose lock is lost changes nothing and stops no other.
local function holder(settlement)
  local fine, job = pcall(Outcome.holder, 'settle', settlement.jid, settlement.token)
  if fine then
    return job
  elseif type(job) == 'table' and job.code then
    return nil, job
  end
  error(job)
end

local function settle(settlements)
  local refused, completed, jids = {}, {}, {}
  for n, settlement in ipairs(settlements) do
    jids[n] = settlement.jid
  end
  local tracked = Job.tracked_among(jids)
  for _, settlement in ipairs(settlements) do
    local job, refusal = holder(settlement)
    if job then
      settlement.verb.act(job, settlement, completed, tracked)
    else
      refused[#refused + 1] = settlement.jid
      refused[#refused + 1] = refusal.code
      refused[#refused + 1] = refusal.text
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

local function flatten(job, flat)
  local n = #flat
  flat[n + 1], flat[n + 2] = job.jid, job.queue
  for k = 1, 2 do
    flat[n + 2 + k] = job[k] or ''
  end
  flat[n + 5] = job.token
  for k = 3, 6 do
    flat[n + 3 + k] = job[k] or ''
  end
  flat[n + 10] = job[7] or ''
  flat[n + 11] = string.format('%.6f', job.expires)
end

local function load_config(queues)
  local names = { 'heartbeat', 'max-job-history', 'jobs-history', 'jobs-history-count', 'grace-period' }
  for n = 1, math.min(#queues, 200) do
    names[#names + 1] = queues[n] .. '-heartbeat'
    names[#names + 1] = queues[n] .. '-max-concurrency'
  end
  Config.load(names)
end

local function reserve(queues, worker, count)
  local flat, taken = {}, 0
  for _, queue in ipairs(queues) do
    if taken >= count then
      break
    end
    if not Pop.is_paused(queue) then
      for _, job in ipairs(Pop.take(queue, worker, count - taken)) do
        flatten(job, flat)
        taken = taken + 1
      end
    end
  end
  if taken > 0 then
    call('ZADD', key.workers(), scope.now, worker)
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
      wish.wait = Arguments.number('settle', 'wait', args[n + 1])
    else
      Errors.argument('settle', 'Unknown option ' .. Errors.name(args[n]))
    end
  end
  return wish
end

-- settle worker s (settlement)*s count q queue*q [pairs] -> { refused, jobs, rest }
function Settle.settle(args, i, request)
  local worker = Arguments.given('settle', 'worker', args[i])
  local count = Arguments.whole('settle', 'number of settlements', args[i + 1], 0)
  local settlements, rest_at = parse(args, i + 2, math.min(count, Settle.most + 1))
  local wish = parse_wish(args, rest_at)
  if count + wish.count > Settle.most then
    Errors.raise('TOOBIG', 'settle(): ' .. count + wish.count .. ' jobs in one call, at most ' .. Settle.most)
  end
  local client = string.match(request, '^(.+):%d+$') or worker

  local queues, globbing = expand(wish.names, wish.excluded)
  load_config(queues)
  local refused = settle(settlements)
  Dependencies.carry_on()
  local jobs, rest = {}, {}
  if wish.count > 0 then
    local taken
    jobs, taken = reserve(queues, worker, wish.count)
    Wake.busy(client, queues, globbing, taken > 0)
    if taken == 0 and wish.wait then
      rest = Wake.wait(client, queues, wish.wait, globbing)
    end
  end

  local held = {}
  for n = 1, #jobs, 11 do
    held[#held + 1] = jobs[n]
    held[#held + 1] = jobs[n + 4]
  end
  Replies.shorten('settle', { refused, held, rest })
  return { refused, jobs, rest }
end

-- The reply again: of the jobs handed out, those that their worker still holds.
function Settle.rebuild(short)
  local held, flat = short[2], {}
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
      values.jid, values.queue, values.token, values.expires = jid, values[8], token, tonumber(values[11])
      flatten(values, flat)
    end
  end
  return { short[1], flat, short[3] }
end

Replies.builders({ settle = Settle.rebuild, pop = Job.show_all })
