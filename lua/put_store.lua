-- Writing a put: the record, its places, its links; over an old record or as a new one.

local format, text_of = string.format, Arguments.text_of

local OLD = {
  'state',
  'queue',
  'worker',
  'priority',
  'tags',
  'retries',
  'failure',
  'history',
  'rare',
  'time',
  'waited',
  'put',
}

-- The fields that few records have. A record that has one of them has `rare` as well, which is never
-- taken away: where jobs end and start, the others are read only then. ('0': it has or had no more
-- than the marks of a run, `grace` and `progress`.)
local RARE = {
  'unique',
  'workflow',
  'on_failure',
  'deadline',
  'first',
  'behind',
  'beyond',
  'spawners',
  'limit_key',
  'fair_by',
  'aside',
  'called',
  'holds',
  'entity',
}

local function named(fields, values)
  local record = {}
  for n = 1, #fields do
    record[fields[n]] = values[n] or nil
  end
  return record
end

-- The fields of an old record that stay where a put says nothing of them.
local KEPT = { 'priority', 'retries', 'history' }

-- Takes out of a record what cannot be read; `old.gone` are the fields to be deleted.
local function forget_bad(record, fields, old)
  for _, field in ipairs(fields) do
    if Record.is_bad(field, record[field]) then
      record[field] = nil
      old.gone = old.gone or {}
      old.gone[#old.gone + 1] = field
    end
  end
end

-- What of an old record a put needs, or false.
function PutStore.read_old(jid)
  local values = call('HMGET', key.job(jid), unpack(OLD))
  if not values[1] then
    return false
  end
  local old = named(OLD, values)
  old.more = old.rare and named(RARE, call('HMGET', key.job(jid), unpack(RARE))) or {}
  forget_bad(old.more, RARE, old)
  forget_bad(old, KEPT, old)
  return old
end

-- What the new run keeps of the old one because the put says nothing of it. A job that takes
-- another's place (`fresh`) keeps what others know it by.
local function inherit(job, old)
  local more = old.more
  if job.fresh then
    job.workflow = more.workflow or job.workflow
    return
  end
  job.workflow = job.workflow or more.workflow
  if not job.unique then
    job.unique_field, job.first = more.unique, more.first
  end
  if not job.limit_key then
    job.limit_key = more.limit_key
  end
  job.fair_by = job.fair_by or more.fair_by
  if not job.replacing then
    job.on_failure = job.on_failure or more.on_failure
    job.behind, job.beyond = more.behind, more.beyond
  end
  if old.state ~= 'failed' and old.state ~= 'complete' then
    job.deadline = job.deadline or more.deadline
  end
end

local function clear_rare(job, old)
  local jid, more = job.jid, old.more
  if more.unique and more.unique ~= job.unique_field then
    Unique.free(jid, more.unique)
  end
  if old.state == 'failed' then
    Spawned.goes_on(jid, more.spawners)
  end
  more.queue, more.klass = old.queue, job.klass
  Limits.leave(jid, more)
  call(
    'HDEL',
    key.job(jid),
    'unique',
    'workflow',
    'on_failure',
    'deadline',
    'first',
    'behind',
    'beyond',
    'cascade',
    'limit_key',
    'fair_by'
  )
  if not job.goes_on or old.state == 'complete' then
    call('HDEL', key.job(jid), 'spawns') -- It spawns as if for the first time.
  end
end

-- Fields that do not go on into a new run.
local OF_ONE_RUN = {
  'put',
  'grace',
  'scheduled',
  'token',
  'progress',
  'waited',
  'crashes',
  'unknown',
  'context',
  'returned',
  'failed_from',
}

-- Undoes what the old record did outside of it.
local function clear_old(job, old, asking)
  local jid, queue, worker = job.jid, old.queue, old.worker
  Tags.unindex_all(jid, old.tags)
  if queue and old.state ~= 'complete' then
    Places.leave(jid, queue)
  end
  Job.unhold(jid, worker)
  if worker ~= asking then
    Events.lock_lost(jid, worker)
  end
  local is_lost = not Record.is_state(old.state)
  if old.state == 'complete' or is_lost then
    call('ZREM', key.completed(), jid)
    call('ZREM', key.releasing(), jid)
  end
  if old.state == 'failed' or is_lost then
    Failures.remove(jid, queue, old.failure)
  elseif old.state == 'running' then
    Samples.taken_away(queue, old.time, old.waited)
  end
  if Record.is_bad('failure', old.failure) then
    call('HSET', key.job(jid), 'failure', '{}')
  end
  if job.replacing then
    Dependencies.unlink_all(jid)
    DependencyResults.forget(jid)
  end
  call('HDEL', key.job(jid), unpack(OF_ONE_RUN))
  if old.rare then
    clear_rare(job, old)
  end
  if old.gone then
    call('HDEL', key.job(jid), unpack(old.gone))
  end
  if scope.live then
    call('DEL', key.result(jid))
  end
end

local function write_rare(job, state)
  local fields, jid = { 'rare', '1' }, job.jid
  local function add(name, value)
    if value then
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
  end
  add('unique', job.unique_field)
  add('workflow', job.workflow)
  add('on_failure', job.on_failure ~= 'block' and job.on_failure)
  add('deadline', job.deadline and format('%.6f', job.deadline))
  add('first', job.first and format('%.6f', job.first))
  add('behind', job.behind)
  add('beyond', job.beyond)
  add('limit_key', job.limit_key)
  add('fair_by', job.fair_by)
  add('entity', job.entity)
  add('home', job.entity and job.queue)
  add('batch', job.batch and text_of(tonumber(job.batch)))
  if #fields > 2 then
    call('HSET', key.job(jid), unpack(fields))
  end
  if job.unique and not job.regains then
    -- (Who is late from the start holds nothing.)
    if (tonumber(job.deadline or nil) or math.huge) > scope.now and (job.period or 1) > 0 then
      Unique.take(jid, job.keys, job.period)
    end
  else
    Unique.regain(jid, job.unique_field, state)
  end
end

-- A workflow counts its jobs by their states.
local function join(job, state)
  local was = job.old and job.old.more.workflow
  if was and was == job.workflow then
    Workflow.moved(was, job.old.state, state)
    return
  elseif was then
    Workflow.moved(was, job.old.state, false)
  end
  if job.workflow then
    Workflow.joined(job.workflow, job.jid, state)
  end
end

local function due(job)
  return job.at or scope.now + job.delay
end

-- Fields that change at every step come first; those that few have last.
local function write_fields(job, state)
  local jid, retries = job.jid, text_of(job.retries)
  call(
    'HSET',
    key.job(jid),
    'state',
    state,
    job.put and 'put' or 'state', -- What is named twice is written once.
    job.put or state,
    'worker',
    '',
    'expires',
    '0',
    'time',
    NumberFormat.time(),
    'remaining',
    retries,
    'jid',
    jid,
    'klass',
    job.klass,
    'data',
    job.data,
    'priority',
    text_of(job.priority),
    'tags',
    job.tags_text,
    'queue',
    job.queue,
    'retries',
    retries
  )
end

-- The record of a new job, mostly in one command.
local function write(job, state)
  local name = key.job(job.jid)
  write_fields(job, state)
  if job.context then
    call('HSET', name, 'context', job.context)
  end
  if state == 'depends' and job.delay > 0 then
    call('HSET', name, 'scheduled', format('%.17g', due(job)))
  end
  if job.rare or (job.old and job.old.rare) then
    write_rare(job, state)
    join(job, state)
  end
end

-- What a put leaves open is as it was, or as it is with new jobs.
local function complete_options(job, old)
  job.priority = job.priority or (old and Record.read('priority', old.priority)) or 0
  job.retries = job.retries or (old and Record.read('retries', old.retries)) or 5
  if not job.tags and old then
    job.tags = Record.read('tags', old.tags, {})
  end
  job.tags_text = job.tags and #job.tags > 0 and Tags.text(job.tags) or '{}'
end

-- The job may be handed out from now on, unless it waits for its turn.
local function make_ready(job, batch)
  local jid, queue = job.jid, job.queue
  if job.fair_by and Turns.set_aside(jid, queue, job) then
    return
  elseif job.overdue then
    Places.work(jid, queue, job.priority, job.overdue)
    Places.ready_since(jid, job.overdue)
  elseif batch then
    batch(job)
  else
    Places.work(jid, queue, job.priority)
  end
end

-- Writes down a job that Put has checked. `batch` takes those that are ready. Cannot fail.
function PutStore.store(job, asking, tracked, batch)
  local jid, queue, old = job.jid, job.queue, job.old
  Events.put(jid, queue)
  if job.was_canceled then
    Canceled.forget(jid)
  end
  if old and old.history then
    History.modernise(jid, old.history)
  end
  if old then
    History.put(jid, queue)
    if old.put and old.put ~= '' then
      History.write_late(jid)
    end
  else
    job.put = History.begin(jid, queue)
  end
  complete_options(job, not job.fresh and old)
  local held_back = false
  if old then
    inherit(job, old)
    clear_old(job, old, asking)
    held_back = call('SCARD', key.dependencies(jid)) > 0
  end
  if job.tags then
    Tags.index(jid, job.tags)
  end
  if job.replacing then
    Dependencies.link(jid, job.depends, job.behind or job.on_failure)
    DependencyResults.add(jid, job.needs)
    held_back = held_back or #job.depends > 0
  elseif held_back and job.on_failure and job.on_failure ~= old.more.on_failure then
    Dependencies.follow(jid, job.on_failure)
  end
  if job.gate then -- It has no record, and cannot fail.
    Dependencies.link(jid, { job.gate })
    held_back = true
  end
  if held_back then
    write(job, 'depends')
    Places.depends(jid, queue)
  elseif job.delay > 0 then
    write(job, 'scheduled')
    Places.scheduled(jid, queue, due(job))
  else
    write(job, 'waiting')
    make_ready(job, batch)
  end
  if tracked then
    Events.tracked('put', jid)
  end
end
