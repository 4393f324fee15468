-- Dependencies: symmetric links between jobs, the release of those that waited, and what follows when a job fails or is gone.
--
-- What a job does when one that it depends on fails or is canceled is its `on_failure`:
--   block   waits on for what has failed; fails itself when it was canceled
--   cancel  is canceled
--   run     waits for it no longer, as if it had been completed
-- A job may also be put `behind` another one, whose end is enough.
--
-- A complete job whose children are open (see spawned.lua) is not done with: its dependents wait on.

local rcall = redis.call

local MOST = 1000 -- dependents dealt with by one call
local LIGHT = 20 -- links cut off that count as much as one
local FEW = 50 -- jobs whose dependents one call takes up again at most
local PART = 50 -- dependents looked at together: how much work they are shows only then

local GROUP = 'dependency-canceled'

local NONE = {}

-- How many dependents this call may still deal with.
function Links.left(call)
  return call.links_left or MOST
end

function Links.spend(call, n)
  call.links_left = Links.left(call) - n
end

-- Does this job hold back one that depends on it?
local function holds_back(call, job, other)
  local state, deadline = unpack(rcall('HMGET', Keys.job(call, other), 'state', 'deadline'))
  local failed = other
  if deadline and Deadlines.is_missed(call, state, deadline) then
    Deadlines.note(call, other)
    state = 'failed'
  elseif state == 'complete' and not call.old then
    state, failed = Spawned.state_for(call, job, other)
  end
  if not state then
    if not (call.old or job.lenient) then
      Errors.no_job(call, other)
    end
    return false
  elseif state ~= 'failed' then
    return state ~= 'complete'
  elseif job.on_failure == 'run' then
    return false
  elseif job.on_failure ~= 'cancel' then
    return true
  elseif job.lenient then
    call.failed_links = call.failed_links or {}
    table.insert(call.failed_links, other)
    return true
  end
  local words = 'Job %s has failed already, so what is to be canceled with it cannot wait for it'
  Errors.refuse(call, 'STATE', words, Errors.name(failed))
end

-- Which of the jids hold back a job, of which jid and on_failure are given, and `parent` if it is to be spawned; unknown
-- ones are refused, unless it is `lenient`. `coming` are the jobs by jid that the same call is about to put.
function Links.open(call, job, jids, coming)
  local open = {}
  for n = 1, #jids do
    local other = jids[n]
    if coming and coming[other] or holds_back(call, job, other) then
      open[#open + 1] = other
    end
  end
  return open
end

-- The same of a job that is there, and goes on when they are complete.
function Links.open_for_move(call, jid, jids, lenient)
  local policy = #jids > 0 and rcall('HGET', Keys.job(call, jid), 'on_failure') or nil
  return Links.open(call, { jid = jid, on_failure = policy, lenient = lenient }, jids)
end

-- A job waits for others.
function Links.add(call, jid, jids)
  if #jids > 0 then
    Features.note(call, 'D')
  end
  for n = 1, #jids do
    rcall('SADD', Keys.dependents(call, jids[n]), jid)
  end
  Pieces.run('SADD', Keys.dependencies(call, jid), jids)
end

-- Remembers what a job was made to depend on, in order, beyond the links: its results are wanted later.
function Links.add_needs(call, jid, jids)
  if jids and #jids > 0 and not call.old then
    Features.note(call, 'N')
    Pieces.run('RPUSH', Keys.needs(call, jid), jids)
  end
end

function Links.remove(call, jid, jids)
  for n = 1, #jids do
    rcall('SREM', Keys.dependents(call, jids[n]), jid)
    rcall('SREM', Keys.dependencies(call, jid), jids[n])
  end
end

function Links.remove_all(call, jid)
  local others = rcall('SMEMBERS', Keys.dependencies(call, jid))
  for n = 1, #others do
    rcall('SREM', Keys.dependents(call, others[n]), jid)
  end
  rcall('DEL', Keys.dependencies(call, jid))
  Links.spend(call, math.floor(#others / LIGHT))
end

local function read_dependent(call, jid)
  local job = { jid = jid, key = Keys.job(call, jid) }
  local state, queue, priority, scheduled, more =
    unpack(rcall('HMGET', job.key, 'state', 'queue', 'priority', 'scheduled', 'more'))
  if state and not Job.is_state(state) then
    error('the state of the job is ' .. Errors.value(state))
  end
  job.state, job.queue, job.priority = state, queue or '', tonumber(priority) or 0
  job.scheduled, job.more = tonumber(scheduled or nil), more or nil
  job.letters = Features.letters(call, job.more)
  if job.letters then
    Features.read(job)
  end
  return job
end

-- Does its workflow hold the job back, as it is not all there, or is being cancelled? Then that knows it.
function Links.at_gate(call, job)
  return job.workflow ~= nil and Workflows.holds(call, job)
end

-- Nothing holds the job back any longer: it becomes ready, or waits for its time.
function Links.free(call, jid)
  local job = Corrupt.guard(
    call,
    jid,
    Keys.queue(call, rcall('HGET', Keys.job(call, jid), 'queue') or ''),
    read_dependent
  )
  if not job or job.state ~= 'depends' or Links.at_gate(call, job) then
    return
  end
  local queue = Keys.queue(call, job.queue)
  rcall('ZREM', queue.depends, jid)
  job.state = job.scheduled and 'scheduled' or 'waiting'
  rcall('HSET', job.key, 'state', job.state)
  if job.scheduled then
    rcall('HDEL', job.key, 'scheduled')
    Queue.schedule(call, queue, jid, job.scheduled)
  else
    Queue.ready_since(call, job)
    Queue.push(call, queue, jid, job.priority)
  end
  if job.letters then
    Features.at('ended', call, job, 'depends')
  end
end

-- The same if the last dependency is gone.
function Links.free_if_last(call, jid)
  if rcall('SCARD', Keys.dependencies(call, jid)) == 0 then
    Links.free(call, jid)
  end
end

-- What of a job's dependents is left to later calls.
function Links.leave(call, list, jid)
  rcall('ZADD', list, call.text, jid)
  Features.note(call, 'R')
end

-- Up to as many of the dependents of a job that is done with as the call may still deal with (or `most`, if that is
-- less); they are no members any more. What is left is noted in the list `later`.
local function take_some(call, jid, later, most)
  local name = Keys.dependents(call, jid)
  local dependents, number = NONE, rcall('SCARD', name)
  if number == 0 and not call.has.R then
    return NONE -- like most
  end
  most = math.min(Links.left(call), most or MOST)
  if number > most then
    dependents = most > 0 and rcall('SPOP', name, most) or NONE
    Links.leave(call, later, jid)
  else
    if number > 0 then
      dependents = rcall('SMEMBERS', name)
      rcall('DEL', name)
    end
    if call.has.R then
      rcall('ZREM', later, jid)
    end
  end
  Links.spend(call, #dependents)
  for n = 1, #dependents do
    rcall('SREM', Keys.dependencies(call, dependents[n]), jid)
  end
  return dependents
end

-- The job is complete, with all that it has spawned: frees what waited for it, a bounded number at a time.
function Links.release(call, jid)
  local dependents = take_some(call, jid, call.keys.releasing)
  for n = 1, #dependents do
    Links.free_if_last(call, dependents[n])
  end
end

-- What a dependent of the job `other` does when that ends otherwise than complete.
local function policy_of(call, jid, other)
  local policy, behind = unpack(rcall('HMGET', Keys.job(call, jid), 'on_failure', 'behind'))
  return behind == other and 'behind' or policy or 'block'
end

-- Does a dependent go its own way when this job is canceled, rather than fail? (Many jobs may have the same dependents:
-- `known` are their policies.)
function Links.can_lose(call, dependent, jid, known)
  if call.old then
    return false
  end
  known[dependent] = known[dependent] or policy_of(call, dependent, jid)
  return known[dependent] ~= 'block'
end

local function fail_dependent(call, jid, other)
  local job = Job.read(call, jid)
  if job then
    local message = 'Job ' .. other .. ', on which this one depended, was canceled'
    Finish.fail_waiting(call, job, Keys.queue(call, job.queue), GROUP, message)
  end
end

-- The job's record is gone: all its dependents have to do without it.
local function visit_gone(call, jid)
  local dependents
  repeat
    dependents = take_some(call, jid, call.keys.cascading, PART)
    for _, dependent in ipairs(dependents) do
      local policy = policy_of(call, dependent, jid)
      if policy == 'run' or policy == 'behind' then
        Links.free_if_last(call, dependent)
      elseif policy == 'cancel' then
        Cancel.remove(call, dependent, 'dependency', jid)
      else
        fail_dependent(call, dependent, jid)
      end
    end
  until #dependents < PART or Links.left(call) <= 0
end

-- How a job stands to its dependents that has failed, or is complete: see spawned.lua; nil if it is done with.
local function standing_of(call, jid, state)
  return state ~= 'complete' and Spawned.FAILED or Spawned.standing(call, jid)
end

-- What the job's standing means to one of its dependents. (One that is below a complete job waits for its run alone.)
local function visit_one(call, dependent, jid, job)
  local policy = policy_of(call, dependent, jid)
  if
    policy == 'behind'
    or policy == 'run' and job.standing == Spawned.FAILED
    or job.state == 'complete' and Spawned.is_below(call, dependent, jid)
  then
    Links.remove(call, dependent, { jid })
    Links.free_if_last(call, dependent)
  elseif policy == 'cancel' and job.standing > Spawned.OPEN then
    Cancel.remove(call, dependent, 'dependency', jid)
  end
end

-- The same for some of them. -> where to go on: here again, if the call could not deal with all of these, as those that
-- were dealt with are no members any more
local function visit_page(call, jid, job, cursor)
  local page = rcall('SSCAN', Keys.dependents(call, jid), cursor, 'COUNT', PART)
  for _, dependent in ipairs(page[2]) do
    if Links.left(call) <= 0 then
      return cursor, false
    end
    Links.spend(call, 1)
    visit_one(call, dependent, jid, job)
  end
  return page[1], page[1] == '0'
end

-- The job has failed, or is complete and has open children: most dependents stay where they are, so the rest is found by
-- a cursor.
local function visit_staying(call, jid)
  local name = Keys.job(call, jid)
  local job, is_done = {}
  job.state, job.cascade = unpack(rcall('HMGET', name, 'state', 'cascade'))
  job.standing = standing_of(call, jid, job.state)
  if not job.standing then
    return Links.release(call, jid)
  end
  local cursor = job.cascade or '0'
  repeat
    cursor, is_done = visit_page(call, jid, job, cursor)
  until is_done or Links.left(call) <= 0
  if is_done then
    rcall('HDEL', name, 'cascade')
    rcall('ZREM', call.keys.cascading, jid)
  else
    rcall('HSET', name, 'cascade', cursor)
    Links.leave(call, call.keys.cascading, jid)
  end
end

local VISIT = { gone = visit_gone, failed = visit_staying, open = visit_staying }

-- A job has `failed`, is `gone`, or is complete and has `open` children: its dependents follow by their policies, and
-- theirs in turn, as many as the call may deal with. (What a visit finds is followed after it, by the loop that is at work.)
function Links.follow(call, jid, kind)
  if rcall('EXISTS', Keys.dependents(call, jid)) == 0 then
    return
  end
  local line = call.following
  if line then
    line[#line + 1] = { jid, kind }
    return
  end
  line = { { jid, kind } }
  call.following = line
  local n = 1
  while line[n] do
    local name = line[n][1]
    if Links.left(call) > 0 then
      VISIT[line[n][2]](call, name)
    elseif rcall('EXISTS', Keys.dependents(call, name)) == 1 then
      Links.leave(call, call.keys.cascading, name)
    end
    n = n + 1
  end
  call.following = nil
end

-- Those that had failed when a job was made to wait for them, where nothing could be refused: the links are there now.
function Links.follow_failed(call)
  local failed = call.failed_links or {}
  call.failed_links = nil
  for n = 1, #failed do
    Links.follow(call, failed[n], 'failed')
  end
end

-- Takes up what an earlier call had to leave of the dependents of this job.
local function go_on_cascading(call, jid)
  local state = rcall('HGET', Keys.job(call, jid), 'state')
  rcall('ZREM', call.keys.cascading, jid)
  if not state then
    Links.follow(call, jid, 'gone')
  elseif state == 'failed' or state == 'complete' then
    Links.follow(call, jid, 'failed')
  else
    rcall('HDEL', Keys.job(call, jid), 'cascade') -- It goes on: the rest waits for its new end.
  end
end

local function go_on_releasing(call, jid)
  local state = rcall('HGET', Keys.job(call, jid), 'state') or 'complete'
  rcall('ZREM', call.keys.releasing, jid)
  if state == 'complete' then -- Its record may have expired meanwhile.
    Spawned.go_on(call, jid)
  end
end

local function go_on(call, list, act)
  for _ = 1, FEW do
    local jid = Links.left(call) > 0 and rcall('ZRANGE', list, '0', '0')[1]
    if not jid then
      return
    end
    act(call, jid)
  end
end

-- Carries on with what earlier calls had to leave. -> whether there is more of it
function Links.carry_on(call)
  if not call.has.R then
    return false
  end
  go_on(call, call.keys.releasing, go_on_releasing)
  go_on(call, call.keys.cascading, go_on_cascading)
  Workflows.carry_on(call)
  if rcall('EXISTS', call.keys.releasing, call.keys.cascading, call.keys.workflows) == 0 then
    Features.forget(call, 'R')
    return false
  end
  return true
end

-- A job waits again for what is open of these; nothing is refused. What waits for it is left out.
function Links.add_again(call, job, jids)
  job.lenient = true
  local open = Links.open(call, job, jids)
  Links.add(call, job.jid, Cycles.harmless(call, job.jid, open))
  Links.follow_failed(call)
end

local function in_depends(call, jid)
  local state, on_failure, workflow =
    unpack(rcall('HMGET', Keys.job(call, jid), 'state', 'on_failure', 'workflow'))
  if state ~= 'depends' then
    Errors.refuse(call, 'STATE', 'Job ' .. Errors.name(jid) .. ' is not in the depends state')
  end
  return { jid = jid, on_failure = on_failure or nil, workflow = workflow or nil }
end

-- depends jid on|off|met jid...   depends jid off all
-- What is `met` is known to be complete: it may be gone.
function Links.depends(call, args, i)
  local jid = Arguments.name(call, 'jid', args[i])
  local word = Arguments.given(call, 'on or off', args[i + 1])
  if word ~= 'on' and word ~= 'off' and (word ~= 'met' or call.old) then
    Errors.argument(call, 'Argument "on" or "off" wanted, not ' .. Errors.value(word))
  end
  local job, jids = in_depends(call, jid), Pieces.rest(args, i + 2)
  Arguments.bounded(call, #jids)
  if word ~= 'off' then
    job.lenient = word == 'met'
    local open = Links.open(call, job, jids)
    Cycles.refuse(call, jid, open)
    Links.add(call, jid, open)
    Links.add_needs(call, jid, jids)
    Links.follow_failed(call)
    if job.workflow then
      Workflows.count_given(call, job.workflow, #jids)
    end
    return 1
  end
  if jids[1] == 'all' then
    Links.remove_all(call, jid)
  else
    Links.remove(call, jid, jids)
  end
  Links.free_if_last(call, jid)
  return 1
end

local function page_of_list(call, name, args, i)
  local offset, count = Arguments.offset(call, args[i]), Arguments.count(call, args[i + 1], 25)
  local flat = {}
  if count > 0 then
    for _, jid in ipairs(rcall('LRANGE', name, offset, offset + count - 1)) do
      flat[#flat + 1] = jid
      flat[#flat + 1] = rcall('LLEN', Keys.offspring(call, jid))
    end
  end
  return flat
end

-- needs jid [offset count] -> jid, how many jobs that one has spawned …
function Links.needs(call, args, i)
  return page_of_list(call, Keys.needs(call, Arguments.name(call, 'jid', args[i])), args, i + 1)
end

-- offspring jid [offset count] -> the same of the jobs that this one has spawned
function Links.offspring(call, args, i)
  return page_of_list(call, Keys.offspring(call, Arguments.name(call, 'jid', args[i])), args, i + 1)
end
