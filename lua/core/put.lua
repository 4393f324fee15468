-- Putting jobs: new ones, or old ones again (which moves or revives them). One is a batch of one.

local rcall = redis.call

-- Is the job left alone, as it is there already?
local function is_left_alone(call, job, plan)
  if job.old and job.absent == '1' then
    return true
  end
  return plan.leaves ~= nil and plan.leaves(call, job)
end

-- Reads the record that there is of a job. What it uses of features goes on.
local function look(call, job, plan)
  job.old = rcall('EXISTS', job.key) == 1 and Job.read(call, job.jid) or nil -- mostly there is none
  job.left_alone = is_left_alone(call, job, plan)
  if job.left_alone then
    plan.coming[job.jid] = nil
    return
  end
  local old = job.old
  if old and old.letters and old.more then
    Features.use(job, old.more)
  end
end

-- What is of the job itself; the rest belongs to the one whose place it takes.
local OWN = { jid = true, key = true, given = true, old = true, fresh = true, behind = true, spare = true }
for _, field in ipairs({ 'parent', 'spawned', 'spawns', 'adopted' }) do -- see spawned.lua
  OWN[field] = true
end

-- The job takes the place of one that was to be put by the same call, which keeps its jid.
local function absorb(earlier, job)
  for name in pairs(earlier) do
    if not OWN[name] then
      earlier[name] = nil
    end
  end
  for name, value in pairs(job) do
    if not OWN[name] then
      earlier[name] = value
    end
  end
  earlier.fresh = true
  if earlier.old and earlier.old.more then
    Features.use(earlier, earlier.old.more)
  end
  job.instead = earlier.jid
end

-- The job takes the place of one that has not started: under its jid, but as if it were new.
local function replace(call, job, jid, plan)
  if plan.coming[jid] then
    local words = 'job %s would replace %s, which is in the same batch'
    Errors.argument(call, words, Errors.name(job.jid), Errors.name(jid))
  end
  job.given, job.jid, job.key = job.jid, jid, Keys.job(call, jid)
  job.old, job.fresh = Job.read(call, jid), true
  if job.old and job.old.more then
    Features.use(job, job.old.more)
  end
  plan.coming[job.given], plan.coming[jid] = nil, job
  Features.check(call, job) -- again, as one that is `fresh`
end

-- Asks the features of a job, and does as they say.
local function check_features(call, job, plan)
  job.plan = plan
  local answer, other = Features.check(call, job)
  if answer == 'instead' then
    job.instead = other
  elseif answer == 'absorb' then
    absorb(other, job)
  elseif answer == 'replace' then
    replace(call, job, other, plan)
  elseif answer == 'behind' then
    job.behind = other
  elseif answer == 'leave' then
    job.left_alone = true
  end
  if job.instead or job.left_alone then
    plan.coming[job.jid] = nil
  end
  job.plan = nil
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
local function leave_spare_ones(plan)
  local wanted = {}
  for n = #plan.jobs, 1, -1 do
    local job = plan.jobs[n]
    if plan.coming[job.jid] == job then
      if job.spare == '1' and not wanted[job.jid] then
        job.left_alone, plan.coming[job.jid] = true, nil
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

-- The dependencies of a batch, by jid, if they could make a cycle: jobs that are all new, and of which each waits for
-- earlier ones only, cannot.
local function links_of(plan)
  local planned, earlier, harmless = nil, {}, true
  for _, job in ipairs(plan.jobs) do
    if plan.coming[job.jid] == job then
      if job.depends and #job.depends > 0 then
        planned = planned or {}
        planned[job.jid] = job.depends
        for _, other in ipairs(job.depends) do
          harmless = harmless and (not plan.coming[other] or earlier[other])
        end
      end
      harmless = harmless and not job.old
      earlier[job.jid] = true
    end
  end
  return not harmless and planned or nil
end

-- The jids without those known to be complete that have no record any more.
local function without_met(call, job, coming)
  local rest = {}
  for _, jid in ipairs(job.depends) do
    if not job.met[jid] or coming[jid] or rcall('EXISTS', Keys.job(call, jid)) == 1 then
      rest[#rest + 1] = jid
    end
  end
  return rest
end

-- Looks which of its dependencies hold a job back, and refuses cycles.
local function check_dependencies(call, job, plan, planned)
  if job.fresh or job.behind then
    job.depends = job.depends or {}
    job.replaces_links = true
  end
  if job.depends and #job.depends > 0 then
    job.replaces_links, job.needs = true, job.depends
    if job.met then
      job.depends = without_met(call, job, plan.coming)
    end
    local one = { jid = job.jid, on_failure = job.on_failure, lenient = plan.lenient, parent = job.parent }
    job.depends = Links.open(call, one, job.depends, plan.coming)
  end
  if job.behind then
    job.depends = { job.behind, unpack(job.depends) } -- (the list may be the one of a shape)
  end
  if not job.replaces_links or plan.acyclic then
    return
  end
  if planned then
    planned[job.jid] = job.depends
  end
  if job.old or planned then
    Cycles.refuse(call, job.jid, job.depends, planned)
  end
end

-- Checks jobs that have been parsed, and writes nothing. A plan has `jobs`, and may say that jobs not there yet make no
-- cycle (`acyclic`), that unknown dependencies are satisfied (`lenient`), and which jobs are left alone (`leaves`).
function Put.check(call, plan)
  local jobs, coming, stands = plan.jobs, {}, nil
  plan.coming = coming
  for n = 1, #jobs do
    local job = jobs[n]
    if coming[job.jid] then
      Errors.argument(call, 'jid ' .. Errors.name(job.jid) .. ' twice in one batch')
    end
    coming[job.jid] = job
  end
  local has_links, has_spare = false, false
  for n = 1, #jobs do
    local job = jobs[n]
    look(call, job, plan)
    if job.letters and not job.left_alone then
      check_features(call, job, plan)
      if job.instead or job.given then
        stands = stands or {}
        stands[job.given or job.jid] = job.instead or job.jid
        if job.instead_gone then
          stands[job.jid] = false
        end
      end
    end
    has_links = has_links or job.depends or job.fresh or job.behind
    has_spare = has_spare or job.spare
  end
  for n = 1, stands and #jobs or 0 do
    translate(jobs[n], stands)
  end
  if has_spare then
    leave_spare_ones(plan)
  end
  if has_links then
    local planned = links_of(plan)
    for n = 1, #jobs do
      if coming[jobs[n].jid] == jobs[n] then
        check_dependencies(call, jobs[n], plan, planned)
      end
    end
  end
  return plan
end

-- Fields that do not go on into a new run.
local OF_ONE_RUN = {
  'grace',
  'scheduled',
  'token',
  'noted',
  'progress',
  'crashes',
  'unknown',
  'context',
  'returned',
  'failed_from',
  'behind',
  'cascade',
}

-- What the new run keeps of the old one because the put says nothing about it. A job that takes another's place
-- (`fresh`) keeps what others know it by.
local function inherit(job)
  local old = job.old
  if job.fresh then
    return
  end
  job.priority, job.retries = job.priority or old.priority, job.retries or old.retries
  job.tag_list = job.tag_list or Json.shown(old.tags)
  if not job.replaces_links then
    job.on_failure = job.on_failure or old.on_failure
    job.behind = job.behind or old.behind
  end
end

-- Undoes what the old record did outside of it.
local function clear(call, job, asking)
  local old, jid = job.old, job.jid
  local queue = Keys.queue(call, old.queue)
  Tags.unindex_all(call, jid, old.tags)
  if old.queue ~= '' then
    Queue.leave(call, queue, jid)
  end
  Job.unhold(call, jid, old.worker)
  if old.worker ~= asking then
    Events.lock_lost(call, jid, old.worker)
  end
  if old.state == 'complete' or not Job.is_state(old.state) then
    rcall('ZREM', call.keys.completed, jid)
  end
  if old.state == 'failed' or not Job.is_state(old.state) then
    Failures.remove(call, old)
  end
  if job.replaces_links then
    Links.remove_all(call, jid)
    rcall('DEL', Keys.needs(call, jid))
  end
  rcall('HDEL', old.key, unpack(OF_ONE_RUN))
  rcall('DEL', Keys.result(call, jid))
  if old.letters then
    old.new = job
    Features.at('gone', call, old, 'replaced')
    local fields = Features.fields(old.letters)
    rcall('HDEL', old.key, 'more', 'on_failure', unpack(fields))
  elseif old.on_failure then
    rcall('HDEL', old.key, 'on_failure')
  end
end

-- The fields of the record, those that change at every step first.
local function write(call, job, state)
  local retries = Times.text(job.retries)
  local fields = {
    'state',
    state,
    'put',
    job.put or '',
    'time',
    call.text,
    'remaining',
    retries,
    'klass',
    job.klass,
    'data',
    job.data,
    'priority',
    Times.text(job.priority),
    'queue',
    job.queue,
    'retries',
    retries,
  }
  if job.old then
    fields[19], fields[20], fields[21], fields[22], fields[23], fields[24] =
      'worker', '', 'expires', '0', 'tags', '{}'
  end
  if job.tag_list and #job.tag_list > 0 then
    fields[#fields + 1], fields[#fields + 2] = 'tags', cjson.encode(job.tag_list)
  end
  if job.context then
    fields[#fields + 1], fields[#fields + 2] = 'context', job.context
  end
  if job.on_failure and job.on_failure ~= 'block' then
    fields[#fields + 1], fields[#fields + 2] = 'on_failure', job.on_failure
  end
  if job.behind then
    fields[#fields + 1], fields[#fields + 2] = 'behind', job.behind
  end
  if job.spawned_from_jid then
    fields[#fields + 1], fields[#fields + 2] = 'spawned_from_jid', job.spawned_from_jid
  end
  if state == 'depends' and job.delay > 0 then
    fields[#fields + 1], fields[#fields + 2] =
      'scheduled', string.format('%.17g', job.at or call.now + job.delay)
  end
  if job.letters then
    job.more = job.letters
    fields[#fields + 1], fields[#fields + 2] = 'more', job.more
    Features.append(job, fields)
  end
  rcall('HSET', job.key, unpack(fields))
end

-- The places of the job by its state.
local function place(call, job, queue, state)
  if state == 'depends' then
    Queue.hold(call, queue, job.jid)
  elseif state == 'scheduled' then
    Queue.schedule(call, queue, job.jid, job.at or call.now + job.delay)
  elseif job.overdue then
    Queue.push(call, queue, job.jid, job.priority, job.overdue)
    Queue.ready_since(call, job, job.overdue)
  else
    Queue.push(call, queue, job.jid, job.priority)
  end
end

-- Writes down a job that Put.check has checked. `asking` is the worker that puts it. Cannot fail.
function Put.store(call, job, asking)
  local jid, queue, old = job.jid, Keys.queue(call, job.queue), job.old
  if not job.silent then
    Events.put(call, jid, queue)
  end
  if old then
    History.put(call, jid, job.queue)
    inherit(job)
    clear(call, job, asking)
  else
    job.put = job.put or Call.milliseconds(call)
    if call.has.X then
      Cancel.forget(call, jid)
    end
  end
  job.priority, job.retries = job.priority or 0, job.retries or 5
  if job.tag_list then
    Tags.index(call, jid, job.tag_list)
  end
  if job.replaces_links then
    Links.add(call, jid, job.depends)
    Links.add_needs(call, jid, job.needs)
  end
  local held_back = job.replaces_links and #job.depends > 0
    or old and rcall('SCARD', Keys.dependencies(call, jid)) > 0
    or job.gate
  local state = held_back and 'depends' or job.delay > 0 and 'scheduled' or 'waiting'
  write(call, job, state)
  place(call, job, queue, state)
  job.state = state
  if job.letters then
    Features.at('stored', call, job)
  end
  if call.has.T then
    Job.tell_trackers(call, 'put', jid)
  end
  Minutes.add(call, job.queue, 'put', 1)
end

-- Puts the jobs of a plan; cannot fail. -> the jids left alone; given jid, jid that stands for it …
function Put.carry_out(call, plan, asking)
  local left, instead, queues = {}, {}, {}
  for n = 1, #plan.jobs do
    local job = plan.jobs[n]
    if job.instead then
      instead[#instead + 1], instead[#instead + 2] = job.jid, job.instead
    elseif job.left_alone then
      left[#left + 1] = job.jid
    else
      Put.store(call, job, asking)
      queues[job.queue] = true
      if job.given then
        instead[#instead + 1], instead[#instead + 2] = job.given, job.jid
      end
    end
  end
  for queue in pairs(queues) do
    Queue.register(call, Keys.queue(call, queue))
  end
  if call.failed_links then
    Links.follow_failed(call)
  end
  return { left, instead }
end

-- put worker shape columns values… -> the jid that stands for the job; old clients: put worker queue jid klass data delay
-- [name value]…
local function put_one(call, args, i)
  local asking = Arguments.given(call, 'worker', args[i])
  local jobs = call.old and { Rows.of_old_client(call, args, i + 1) } or Rows.parse(call, args, i + 1)
  local job = jobs[1]
  if #jobs ~= 1 then
    Errors.argument(call, 'one job wanted, not ' .. #jobs .. ': put.many takes more')
  elseif job.spare then
    Errors.argument(call, 'spare can only be used in a batch')
  end
  if call.command == 'requeue' and rcall('EXISTS', job.key) == 0 then
    Errors.no_job(call, job.jid)
  end
  Put.carry_out(call, Put.check(call, { jobs = jobs }), asking)
  if job.left_alone then
    return false
  end
  return job.instead or job.jid
end
Put.put, Put.requeue = put_one, put_one

-- put.many worker shape columns values… -> as carry_out
function Put.many(call, args, i)
  local asking = Arguments.given(call, 'worker', args[i])
  return Put.carry_out(call, Put.check(call, { jobs = Rows.parse(call, args, i + 1) }), asking)
end
