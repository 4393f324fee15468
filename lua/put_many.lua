-- Putting many jobs in one call: all of them, or none.

-- The jobs of a batch: jid queue klass data delay k (name value)*k each. -> jobs, their jids, the jobs
-- by jid, and which options that concern others any of them has
local function parse_many(command, args, i)
  local jobs, jids, coming, has = {}, {}, {}, {}
  local total, n = #args, 0
  while i <= total do
    local pairs_given = Arguments.whole(command, 'number of options', args[i + 5], 0)
    local last = i + 5 + 2 * pairs_given
    if last > total then
      Errors.argument(command, 'Arguments of job ' .. Errors.name(args[i]) .. ' are incomplete')
    end
    args[i], args[i + 1] = args[i + 1], args[i] -- a single put names the queue first
    local job = PutOptions.parse(command, args, i, i + 6, last)
    if coming[job.jid] then
      Errors.argument(command, 'jid ' .. Errors.name(job.jid) .. ' twice in one batch')
    end
    coming[job.jid] = job
    has.unique = has.unique or job.unique
    has.depends = has.depends or job.depends
    has.spare = has.spare or job.spare
    n = n + 1
    jobs[n], jids[n] = job, job.jid
    i = last + 1
  end
  Arguments.bounded(command, n)
  return jobs, jids, coming, has
end

-- Is none of the jobs there yet, and is there no canceled one at all? Mostly so, and then one question
-- answers for all. -> the first, and which of them were canceled (or nil)
local function all_new(jids)
  local names = { key.canceled() }
  for n, jid in ipairs(jids) do
    names[n + 1] = key.job(jid)
  end
  local found = #jids > 0 and call('EXISTS', unpack(names)) or 0
  if found == 0 then
    return true
  elseif found > 1 or call('EXISTS', names[1]) == 0 then
    return false
  end
  return true, Canceled.among(jids)
end

-- Reads what there is of the jobs: some may be left alone. `how.once` is the key of the jids that were put before.
local function look_at_all(jobs, jids, coming, has, how)
  local once = how and how.once
  local fresh, canceled = all_new(jids)
  for n, job in ipairs(jobs) do
    if fresh then
      job.old, job.was_canceled = false, canceled and canceled[job.jid]
    end
    Put.look(job, how)
    has.unique = has.unique or job.unique
    if job.left_alone or (once and call('SISMEMBER', once, jids[n]) == 1) then
      job.left_alone = true
      coming[job.jid] = nil
    end
  end
end

-- Which other job stands for a job. -> given jid -> the jid of the other, false if that is gone; or nil
local function resolve_duplicates(command, jobs, coming)
  local taken, stands = {}, nil
  for _, job in ipairs(jobs) do
    if job.unique and not job.left_alone then
      Conflict.settle(command, job, coming, taken)
      if job.instead or job.given then
        stands = stands or {}
        stands[job.given or job.jid] = job.instead or job.jid
        if job.instead_gone then
          stands[job.jid] = false
        end
      end
    end
  end
  return stands
end

-- Dependencies on jobs that another one stands for are dependencies on the other one.
local function translate(job, stands)
  local depends, seen = {}, {}
  for _, jid in ipairs(job.depends or {}) do
    if stands[jid] ~= nil then
      jid = stands[jid]
    end
    if jid and not seen[jid] then
      seen[jid] = true
      depends[#depends + 1] = jid
    end
  end
  job.depends = job.depends and depends
end

-- Leaves out the spare jobs on which no job of the batch depends that is put.
local function leave_spare_ones(jobs, coming)
  local wanted = {}
  for n = #jobs, 1, -1 do
    local job = jobs[n]
    if coming[job.jid] == job then
      if job.spare == '1' and not wanted[job.jid] then
        job.left_alone, coming[job.jid] = true, nil
      else
        for _, jid in ipairs(job.depends or {}) do
          wanted[jid] = true
        end
      end
    elseif job.instead and job.spare ~= '1' then
      wanted[job.instead] = true
    end
  end
end

-- The dependencies of a batch, by jid, if they could make a cycle: jobs that are all new, and of
-- which each waits for earlier ones only, cannot.
local function links(jobs, coming)
  local planned, earlier, harmless = nil, {}, true
  for _, job in ipairs(jobs) do
    if coming[job.jid] == job then
      if job.depends and #job.depends > 0 then
        planned = planned or {}
        planned[job.jid] = job.depends
        for _, other in ipairs(job.depends) do
          harmless = harmless and (not coming[other] or earlier[other])
        end
      end
      harmless = harmless and not job.old
      earlier[job.jid] = true
    end
  end
  return not harmless and planned or nil
end

-- Checks a batch and writes nothing. `how` may say that jobs not there yet make no cycle (`acyclic`), that
-- unknown dependencies are satisfied (`lenient`), which count as open although there is no record (a
-- function `known`), for which others have come to stand before (a metatable `instead`), which job spawns these
-- (`spawner`; `since` when it has spawned others); `once`: see PutMany.once.
-- -> what carry_out wants
function PutMany.plan(command, args, i, how)
  how = how and setmetatable({}, { __index = how }) -- with what is noted on the way
  local jobs, jids, coming, has = parse_many(command, args, i)
  look_at_all(jobs, jids, coming, has, how)
  local stands = has.unique and resolve_duplicates(command, jobs, coming)
  if how and how.instead then
    stands = setmetatable(stands or {}, how.instead)
  end
  for n = 1, stands and #jobs or 0 do
    translate(jobs[n], stands)
  end
  if has.spare then
    leave_spare_ones(jobs, coming)
  end
  local planned = has.depends and links(jobs, coming) or nil
  for n = 1, (has.depends or has.unique) and #jobs or 0 do
    local job = jobs[n]
    if coming[job.jid] == job then
      Put.prepare(command, job, coming, planned, how)
    end
  end
  return { jobs = jobs, jids = jids, coming = coming, how = how }
end

-- Collects jobs that are ready, to be placed together.
local function collector()
  local ready, scores = {}, Places.scores()
  return ready,
    function(job)
      local queue, priority = job.queue, job.priority
      local list = ready[queue]
      if not list then
        list = {}
        ready[queue] = list
      end
      local n = #list
      list[n + 1], list[n + 2] = scores[priority], job.jid
    end
end

-- Puts the jobs of a plan; cannot fail. -> the jids left alone; given jid, jid that stands for it …
function PutMany.carry_out(plan, worker)
  local tracked, left, instead, counts = Tracking.among(plan.jids), {}, {}, {}
  local ready, batch = collector()
  for n = 1, #plan.jobs do
    local job = plan.jobs[n]
    if job.left_alone then
      left[#left + 1] = job.jid
    elseif job.instead then
      instead[#instead + 1], instead[#instead + 2] = job.given or job.jid, job.instead
    else
      PutStore.store(job, worker, tracked[job.jid], batch)
      counts[job.queue] = (counts[job.queue] or 0) + 1
      if job.given then
        instead[#instead + 1], instead[#instead + 2] = job.given, job.jid
      end
    end
  end
  for queue, list in pairs(ready) do
    Places.work_many(queue, list)
  end
  for queue, count in pairs(counts) do
    Minutes.count(queue, 'put', count)
    Places.register(queue)
  end
  Dependencies.follow_failed(plan.how)
  return { left, instead }
end

-- put.many worker (jid queue klass data delay k (name value)*k)... -> as carry_out
function PutMany.many(args, i)
  local worker = Arguments.asking('put.many', args[i])
  return PutMany.carry_out(PutMany.plan('put.many', args, i + 1), worker)
end

-- Seconds for which it is remembered what a producer has put that never ends.
local KEPT = 7 * 86400

-- put.once name jid token worker (as put.many) -> as put.many. The job with this token puts others in several steps. It
-- may run again: those that it has put under this name are left alone then, whatever has become of them.
function PutMany.once(args, i)
  local name, jid =
    Arguments.name('put.once', 'name', args[i]), Arguments.name('put.once', 'jid', args[i + 1])
  local worker = Arguments.asking('put.once', args[i + 3])
  Lock.holder('put.once', jid, args[i + 2])
  local once, jids = key.once(name), {}
  local plan = PutMany.plan('put.once', args, i + 4, { once = once })
  for _, job in ipairs(plan.jobs) do
    jids[#jids + 1] = job.spare ~= '1' and (job.given or job.jid) or nil
  end
  local reply = PutMany.carry_out(plan, worker)
  call('HSET', key.job(jid), 'once', name, 'rare', '1')
  if #jids > 0 then
    call('SADD', once, unpack(jids))
    call('EXPIRE', once, KEPT)
  end
  return reply
end
