-- each: a command on several jobs, each for itself; what is refused of one does not stop the others.
--
-- The command on one job is the one that exists; it refuses before it writes.

local rcall = redis.call

local MOST = 250 -- jobs
local ROUNDS = 10 -- in which jobs are tried again that were refused because of others

local function state_of(call, jid)
  local state, queue = unpack(rcall('HMGET', Keys.job(call, jid), 'state', 'queue'))
  if not state then
    Errors.no_job(call, jid)
  end
  return (Job.state_now(call, jid, queue or '', state))
end

-- How many arguments a command has, before the jids, and how they are checked before anything is done.
local TAKES = { move = 2, priority = 1, tag = 1, untag = 1 }

local CHECK = {
  move = function(call, args, i)
    Arguments.queue(call, args[i])
    Arguments.number(call, 'delay', args[i + 1])
  end,
  priority = function(call, args, i)
    Arguments.number(call, 'priority', args[i])
  end,
}

-- What each command does with one job; its own arguments stand behind the jid.
local COMMANDS = {}

function COMMANDS.cancel(call, jid)
  if state_of(call, jid) == 'complete' then
    Errors.refuse(call, 'STATE', 'Job %s is complete', Errors.name(jid))
  end
  Cancel.cancel(call, { jid }, 1)
end

function COMMANDS.revive(call, jid)
  local state = state_of(call, jid)
  if state ~= 'failed' then
    local words = 'Job %s has not failed: it is %s'
    Errors.refuse(call, 'STATE', words, Errors.name(jid), Errors.state(state))
  end
  Unique.refuse_if_taken(call, Job.read(call, jid))
  Failures.revive(call, { jid }, 1)
end

-- (Of a job that waits for its time.)
function COMMANDS.run(call, jid)
  local state = state_of(call, jid)
  if state ~= 'scheduled' then
    local words = 'Job %s is not delayed: it is %s'
    Errors.refuse(call, 'STATE', words, Errors.name(jid), Errors.state(state))
  end
  local job = Job.read(call, jid)
  Queue.run_now(call, Keys.queue(call, job.queue), job)
end

function COMMANDS.move(call, jid, queue, delay)
  local job = Job.must_read(call, jid)
  local context = job.context and pcall(Json.stored, job.context) and job.context or nil
  local given = {
    queue = queue,
    jid = jid,
    klass = job.klass or '',
    data = job.data or '',
    delay = delay,
    context = context,
  }
  Put.carry_out(call, Put.check(call, { jobs = { Rows.job(call, given) } }), '')
end

function COMMANDS.priority(call, jid, priority)
  Priority.set(call, { jid, priority }, 1)
end

function COMMANDS.timeout(call, jid)
  Runs.timeout(call, { jid }, 1)
end

function COMMANDS.tag(call, jid, tag)
  Tags.command(call, { 'add', jid, tag }, 1)
end

function COMMANDS.untag(call, jid, tag)
  Tags.command(call, { 'remove', jid, tag }, 1)
end

function COMMANDS.track(call, jid)
  Tracking.track(call, { 'track', jid }, 1)
end

function COMMANDS.untrack(call, jid)
  if rcall('ZSCORE', call.keys.tracked, jid) then -- also what is gone: it would be listed for ever
    Tracking.untrack(call, jid)
  else
    Tracking.track(call, { 'untrack', jid }, 1)
  end
end

-- The jids that begin at args[i], each once.
local function jids_from(call, args, i)
  Arguments.given(call, 'jid', args[i])
  if #args - i + 1 > MOST then
    Errors.refuse(call, 'TOOBIG', '%s jobs in one call, at most %s', #args - i + 1, MOST)
  end
  local jids, seen = {}, {}
  for n = i, #args do
    if not seen[args[n]] then
      seen[args[n]] = true
      jids[#jids + 1] = args[n]
    end
  end
  return jids
end

-- Tries each of the jids, from the last to the first if `backwards`. -> those that were refused, in their order; why goes
-- to refused[jid]
local function try(jids, backwards, attempt, refused)
  local left, first, last, step = {}, 1, #jids, 1
  if backwards then
    first, last, step = #jids, 1, -1
  end
  for n = first, last, step do
    local jid = jids[n]
    local fine, problem = pcall(attempt, jid)
    if fine then
      refused[jid] = nil
    elseif Errors.is_refusal(problem) then
      refused[jid] = string.gsub(problem.text, '^[%w.]+%(%): ', '', 1)
      table.insert(left, backwards and 1 or #left + 1, jid)
    else
      error(problem, 0)
    end
  end
  return left
end

-- The same until no further one goes. One that has gone with another one is not refused.
local function try_in_rounds(call, jids, attempt, refused)
  local left, there, round = jids, {}, 0
  for _, jid in ipairs(jids) do
    there[jid] = rcall('EXISTS', Keys.job(call, jid)) == 1
  end
  repeat
    local before = #left
    round = round + 1
    left = try(left, round % 2 == 1, attempt, refused)
  until #left == 0 or #left == before or round == ROUNDS
  for _, jid in ipairs(left) do
    if there[jid] and rcall('EXISTS', Keys.job(call, jid)) == 0 then
      refused[jid] = nil
    end
  end
end

-- each <command> [argument...] jid... -> { jids with which it was done, { jid, why it was refused … } }
function Bulk.each(call, args, i)
  local name = args[i] or ''
  local command = COMMANDS[name]
  if not command then
    Errors.argument(call, 'Unknown command ' .. Errors.value(name))
  end
  local jids, refused = jids_from(call, args, i + 1 + (TAKES[name] or 0)), {}
  if CHECK[name] then
    CHECK[name](call, args, i + 1)
  end
  local function attempt(jid)
    command(call, jid, args[i + 1], args[i + 2])
  end
  if name == 'cancel' then -- a job goes after those that wait for it, in any order of arguments
    try_in_rounds(call, jids, attempt, refused)
  else
    try(jids, false, attempt, refused)
  end
  local done, others = {}, {}
  for _, jid in ipairs(jids) do
    if refused[jid] then
      others[#others + 1], others[#others + 2] = jid, refused[jid]
    else
      done[#done + 1] = jid
    end
  end
  return { done, others }
end
