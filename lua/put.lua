-- Putting jobs: new ones, and old ones again (which moves or revives them).
local Texts, Errors, Arguments, Events, History, Place, Tags, Failures, Dependencies, Job, Minutes, scope, key =
  Qless.Texts,
  Qless.Errors,
  Qless.Arguments,
  Qless.Events,
  Qless.History,
  Qless.Place,
  Qless.Tags,
  Qless.Failures,
  Qless.Dependencies,
  Qless.Job,
  Qless.Minutes,
  Qless.scope,
  Qless.key

local Put = {}
Qless.Put = Put

local call, format, text_of = redis.call, string.format, Arguments.text_of

local OPTIONS = { priority = true, tags = true, retries = true, depends = true }
local KEYED_OPTIONS = {
  priority = true,
  tags = true,
  retries = true,
  depends = true,
  context = true,
  absent = true,
  open = true,
}

-- What of an old record a put needs.
local function read_old(jid)
  local old = call(
    'HMGET',
    key.job(jid),
    'state',
    'queue',
    'worker',
    'priority',
    'tags',
    'retries',
    'failure',
    'history',
    'scheduled',
    'open'
  )
  return old[1] and old
end

-- Checks one job's arguments from args[i] on; options stand at args[from .. to].
local function parse(command, args, i, from, to)
  local job = {
    queue = Arguments.queue(command, args[i]),
    jid = Arguments.jid(command, args[i + 1]),
    klass = Arguments.given(command, 'klass', args[i + 2]),
    data = args[i + 3],
    delay = Arguments.number(command, 'delay', args[i + 4]),
    priority = nil,
    retries = nil,
    tags_text = '{}',
  }
  Arguments.json(command, 'data', job.data)
  if from > to then
    return job
  end
  local known = scope.keyed and KEYED_OPTIONS or OPTIONS
  for n = from, to, 2 do
    local name, value = args[n], args[n + 1]
    if known[name] then
      job[name] = value
    elseif scope.keyed then
      Errors.argument(command, 'Unknown option ' .. Errors.name(name))
    end
  end
  if job.priority then
    job.priority = Arguments.number(command, 'priority', job.priority)
  end
  if job.retries then
    job.retries = Arguments.whole(command, 'retries', job.retries, 0)
  end
  job.tags = job.tags and Arguments.tag_list(command, job.tags)
  job.depends = job.depends and Arguments.names(command, 'depends', job.depends)
  if job.depends then
    Arguments.bounded(command, #job.depends)
  end
  if job.context then
    Arguments.object(command, 'context', job.context)
  end
  return job
end

-- Reads the old record: an existing job may be left alone.
local function look(job)
  if job.old == nil then
    -- Mostly there is none, and that is quickly asked.
    job.old = call('EXISTS', key.job(job.jid)) == 1 and read_old(job.jid)
  end
  job.left_alone = job.absent == '1' and job.old and true
end

-- Settles what may still be refused.
local function prepare(command, job, coming, planned)
  if job.left_alone then
    return
  end
  if job.depends and #job.depends > 0 then
    job.depends = Dependencies.open(command, job.depends, coming)
    if job.old or planned then
      Dependencies.no_circle(command, job.jid, job.depends, planned)
    else
      for _, other in ipairs(job.depends) do
        if other == job.jid then
          Dependencies.no_circle(command, job.jid, job.depends)
        end
      end
    end
    job.replacing = true
  end
end

-- Undoes what the old record did elsewhere. -> whether old dependencies still hold it back
local function clear_old(job, old, asking)
  local jid, queue, worker = job.jid, old[2], old[3]
  Tags.unindex(jid, cjson.decode(old[5] or '{}'))
  if queue and queue ~= '' then
    Place.leave(jid, queue)
  end
  if worker and worker ~= '' then
    Job.unhold(jid, worker)
    if worker ~= asking then
      Events.lock_lost(jid, worker)
    end
  end
  if old[1] == 'complete' then
    call('ZREM', key.completed(), jid)
    call('ZREM', key.releasing(), jid)
  elseif old[1] == 'failed' then
    Failures.remove(jid, queue, old[7])
  end
  if job.replacing then
    Dependencies.unlink_all(jid)
  end
  call(
    'HDEL',
    key.job(jid),
    'grace',
    'scheduled',
    'token',
    'progress',
    'crashes',
    'unknown',
    'open',
    'context'
  )
  if scope.live then
    call('DEL', key.result(jid))
  end
end

-- The record of a new job, in one command. Fields that change at every step come first.
local function write(job, state)
  local jid, retries = job.jid, text_of(job.retries)
  local name = key.job(jid)
  call(
    'HSET',
    name,
    'state',
    state,
    'worker',
    '',
    'expires',
    '0',
    'time',
    Texts.time(),
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
  if job.context then
    call('HSET', name, 'context', job.context)
  end
  if job.open == '1' then
    call('HSET', name, 'open', '1')
  end
  if state == 'depends' and job.delay > 0 then
    call('HSET', name, 'scheduled', format('%.17g', scope.now + job.delay))
  end
end

-- Puts a prepared job. -> nothing; writes only, and none of it can fail.
local function store(job, asking, tracked, batch)
  local jid, queue, old = job.jid, job.queue, job.old
  Events.put(jid, queue)
  if old and old[8] then
    History.modernise(jid, old[8])
  end
  History.put(jid, queue)
  job.priority = job.priority or (old and tonumber(old[4])) or 0
  job.retries = job.retries or (old and tonumber(old[6])) or 5
  if not job.tags and old then
    job.tags = cjson.decode(old[5] or '{}')
  end
  job.tags_text = job.tags and #job.tags > 0 and Tags.text(job.tags) or '{}'
  local held_back = job.open == '1'
  if old then
    clear_old(job, old, asking)
    held_back = held_back or call('SCARD', key.dependencies(jid)) > 0
  end
  if job.tags then
    Tags.index(jid, job.tags)
  end
  if job.replacing then
    Dependencies.link(jid, job.depends)
    held_back = held_back or #job.depends > 0
  end
  if held_back then
    write(job, 'depends')
    Place.depends(jid, queue)
  elseif job.delay > 0 then
    write(job, 'scheduled')
    Place.scheduled(jid, queue, scope.now + job.delay)
  else
    write(job, 'waiting')
    if batch then
      batch(job)
    else
      Place.work(jid, queue, job.priority)
    end
  end
  if tracked then
    Events.tracked('put', jid)
  end
end

local function one(command, args, i)
  Arguments.given(command, 'worker', args[i])
  if (#args - i - 5) % 2 ~= 0 and #args > i + 5 then
    Errors.argument(command, 'Odd number of additional args')
  end
  local job = parse(command, args, i + 1, i + 6, #args)
  look(job)
  prepare(command, job)
  return job
end

-- put worker queue jid klass data delay [pairs]
function Put.put(args, i)
  local job = one('put', args, i)
  if job.left_alone then
    return false
  end
  store(job, args[i], Job.is_tracked(job.jid))
  Minutes.count(job.queue, 'put', 1)
  Place.register(job.queue)
  return job.jid
end

-- requeue worker queue jid klass data delay [pairs]
function Put.requeue(args, i)
  local job = one('requeue', args, i)
  if not job.old then
    Errors.no_job('requeue', job.jid)
  end
  store(job, args[i], Job.is_tracked(job.jid))
  Minutes.count(job.queue, 'put', 1)
  Place.register(job.queue)
  return job.jid
end

-- The jobs of a batch: jid queue klass data delay k (name value)*k each.
local function parse_many(args, i)
  local jobs, jids, coming = {}, {}, {}
  local total, n = #args, 0
  while i <= total do
    local pairs_given = Arguments.whole('put.many', 'number of options', args[i + 5], 0)
    local last = i + 5 + 2 * pairs_given
    if last > total then
      Errors.argument('put.many', 'Arguments of job ' .. Errors.name(args[i]) .. ' are incomplete')
    end
    args[i], args[i + 1] = args[i + 1], args[i] -- a single put names the queue first
    local job = parse('put.many', args, i, i + 6, last)
    if coming[job.jid] then
      Errors.argument('put.many', 'jid ' .. Errors.name(job.jid) .. ' twice in one batch')
    end
    coming[job.jid] = job
    n = n + 1
    jobs[n], jids[n] = job, job.jid
    i = last + 1
  end
  Arguments.bounded('put.many', n)
  return jobs, jids, coming
end

-- Is none of the jobs there yet? Mostly so, and then one question answers for all.
local function all_new(jids)
  local names = {}
  for n, jid in ipairs(jids) do
    names[n] = key.job(jid)
  end
  return #names == 0 or call('EXISTS', unpack(names)) == 0
end

-- put.many worker (jid queue klass data delay k (name value)*k)... -> the jids left alone
function Put.many(args, i)
  local worker = Arguments.given('put.many', 'worker', args[i])
  local jobs, jids, coming = parse_many(args, i + 1)
  local fresh, planned = all_new(jids), nil
  for _, job in ipairs(jobs) do
    if fresh then
      job.old = false
    end
    look(job)
    if job.left_alone then
      coming[job.jid] = nil
    elseif job.depends and #job.depends > 0 then
      planned = planned or {}
      planned[job.jid] = job.depends
    end
  end
  for _, job in ipairs(jobs) do
    prepare('put.many', job, coming, planned)
  end
  local tracked, left, counts, ready = Job.tracked_among(jids), {}, {}, {}
  local scores = Place.scores()
  local function batch(job)
    local queue, priority = job.queue, job.priority
    local list = ready[queue]
    if not list then
      list = {}
      ready[queue] = list
    end
    local n = #list
    list[n + 1], list[n + 2] = scores[priority], job.jid
  end
  for n = 1, #jobs do
    local job = jobs[n]
    if job.left_alone then
      left[#left + 1] = job.jid
    else
      store(job, worker, tracked[job.jid], batch)
      counts[job.queue] = (counts[job.queue] or 0) + 1
    end
  end
  for queue, list in pairs(ready) do
    Place.work_many(queue, list)
  end
  for queue, count in pairs(counts) do
    Minutes.count(queue, 'put', count)
    Place.register(queue)
  end
  return left
end
