-- Failed jobs by group: the set of groups, a list of jids for each; and enqueueing them again.

local rcall = redis.call

-- The number of groups is bounded: further ones share the list OTHER.
local MOST_GROUPS, OTHER = 1000, 'other'

local function list_of(call, group)
  if not call.old and rcall('SISMEMBER', call.keys.failures, group) == 0 then
    if rcall('SCARD', call.keys.failures) >= MOST_GROUPS then
      return OTHER
    end
  end
  return group
end

-- Files a failed job under its group and counts it.
function Failures.add(call, jid, queue, group)
  local list = list_of(call, group)
  rcall('SADD', call.keys.failures, list)
  rcall('LPUSH', Keys.group(call, list), jid)
  Stats.count(call, queue, 'failures', 1)
  Stats.count(call, queue, 'failed', 1)
  Minutes.add(call, queue, 'failed', 1)
end

-- Looks from the newest on, or from the oldest on: where the job is likely to be. -> whether it was there
local function take(call, jid, list, oldest_first)
  local found = rcall('LREM', Keys.group(call, list), oldest_first and -1 or 1, jid)
  if rcall('LLEN', Keys.group(call, list)) == 0 then
    rcall('SREM', call.keys.failures, list)
  end
  return found > 0
end

-- Nothing says in which group the job is: it is in one of them.
local function take_anywhere(call, jid)
  for _, list in ipairs(rcall('SMEMBERS', call.keys.failures)) do
    if take(call, jid, list) then
      return
    end
  end
end

-- A job that was failed is so no longer; `queue` is where it goes, which old clients count by.
function Failures.remove(call, job, oldest_first, queue)
  local failure = Json.shown(job.failure)
  if type(failure.group) ~= 'string' then
    take_anywhere(call, job.jid)
  elseif not take(call, job.jid, failure.group, oldest_first) then
    take(call, job.jid, OTHER, oldest_first)
  end
  Stats.mended(call, queue or job.queue, tonumber(failure.when) or 0)
end

-- failed [group [start limit]]
function Failures.show(call, args, i)
  local group = args[i]
  if not group then
    local counts = {}
    for _, name in ipairs(rcall('SMEMBERS', call.keys.failures)) do
      counts[name] = rcall('LLEN', Keys.group(call, name))
    end
    return cjson.encode(counts)
  end
  local start, limit = Arguments.offset(call, args[i + 1]), Arguments.count(call, args[i + 2], 25)
  local total = rcall('LLEN', Keys.group(call, group))
  return cjson.encode({
    total = total,
    jobs = rcall('LRANGE', Keys.group(call, group), Arguments.range(start, limit, total)),
  })
end

-- What takes the place of what cannot be read in the record of a job that goes on; nothing: the field goes.
local JSON_FIELDS = { tags = '{}', failure = '{}', context = false, progress = false }

local function mend(call, job)
  local mended = {}
  if not Job.is_state(job.state) then
    mended[1] = 'state'
  end
  for field, default in pairs(JSON_FIELDS) do
    if not pcall(Json.stored, job[field]) then
      mended[#mended + 1] = field
      job[field] = default or nil
      if default then
        rcall('HSET', job.key, field, default)
      else
        rcall('HDEL', job.key, field)
      end
    end
  end
  if #mended > 0 then
    History.add(call, job.jid, 'mended', cjson.encode({ fields = mended }))
  end
end

-- Puts a failed job, which is in no group any more, into a queue, with all of its retries.
local function revive(call, job, queue)
  mend(call, job)
  History.put(call, job.jid, queue.name)
  local waits = rcall('SCARD', Keys.dependencies(call, job.jid)) > 0 or Links.at_gate(call, job)
  job.was, job.state = 'failed', waits and 'depends' or 'waiting'
  rcall(
    'HSET',
    job.key,
    'state',
    job.state,
    'worker',
    '',
    'expires',
    '0',
    'queue',
    queue.name,
    'retries',
    job.retries,
    'remaining',
    job.retries
  )
  if not call.old then -- (Old clients count on from the start of the run that failed.)
    Queue.ready_since(call, job)
  end
  rcall('HDEL', job.key, 'crashes', 'unknown')
  job.queue = queue.name
  if job.state == 'depends' then
    Queue.hold(call, queue, job.jid)
  else
    Queue.push(call, queue, job.jid, job.priority)
  end
  if job.letters then
    Features.at('revived', call, job)
  end
end

-- Does no other job have by now what the failed job needs to go on?
local function may_go_on(call, job)
  return not job.unique or not Unique.other(call, job)
end

-- Lets a failed job that may go on wait for what it waited for. -> whether it is still there: one that goes with a job
-- that has failed is cancelled, as a failed job
local function waits_again(call, job)
  if job.deadline and Json.shown(job.failure).group == 'expired' then
    Links.add_again(call, job, rcall('LRANGE', Keys.needs(call, job.jid), 0, Arguments.most - 1))
  end
  return rcall('EXISTS', job.key) == 1
end

local function home(call, job, queue)
  return Keys.queue(call, job.home or queue)
end

-- unfail queue group [count] -> how many. (Others take the places of those that have to stay.)
function Failures.unfail(call, args, i)
  local queue = Arguments.queue(call, args[i])
  local group = Arguments.given(call, 'group', args[i + 1])
  local count = Arguments.count(call, args[i + 2], 25)
  local list, revived, left, looked = Keys.group(call, group), 0, {}, 0
  while count > 0 and looked < Arguments.most do
    local jids, stay = rcall('LRANGE', list, -count, -1), 0
    rcall('LTRIM', list, 0, -#jids - 1)
    for n = #jids, 1, -1 do
      local job = Job.read(call, jids[n])
      if job and job.state == 'failed' then
        if not may_go_on(call, job) then
          stay = stay + 1
          table.insert(left, 1, jids[n])
        elseif waits_again(call, job) then
          Stats.mended(call, job.queue, tonumber(Json.shown(job.failure).when) or 0)
          revive(call, job, home(call, job, queue))
          revived = revived + 1
        end
      end
    end
    looked, count = looked + #jids, stay
  end
  Pieces.run('RPUSH', list, left)
  -- (A job that was cancelled has taken a group off that seemed to be empty.)
  rcall(rcall('EXISTS', list) == 1 and 'SADD' or 'SREM', call.keys.failures, group)
  if revived > 0 then
    Queue.register(call, Keys.queue(call, queue))
  end
  return revived
end

-- revive jid...: each into its own queue, quickest with the oldest of a group first; what has not failed is left alone, and
-- so is a job whose unique key another one has by now -> how many
function Failures.revive(call, args, i)
  Arguments.bounded(call, #args - i + 1)
  local revived = 0
  for n = i, #args do
    local job = Job.read(call, Arguments.given(call, 'jid', args[n]))
    local is_failed = job and job.state == 'failed' and job.queue ~= ''
    if is_failed and may_go_on(call, job) and waits_again(call, job) then
      local queue = home(call, job, job.queue)
      Failures.remove(call, job, true)
      revive(call, job, queue)
      Queue.register(call, queue)
      revived = revived + 1
    end
  end
  return revived
end
