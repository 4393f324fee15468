-- A job's record: reading it, showing it, and the commands on a single job.

local FIELDS = {
  'jid',
  'klass',
  'state',
  'queue',
  'worker',
  'priority',
  'expires',
  'retries',
  'remaining',
  'data',
  'tags',
  'failure',
  'spawned_from_jid',
  'time',
  'grace',
  'scheduled',
  'token',
  'context',
  'progress',
  'crashes',
  'history',
  'rare',
  'unique',
  'workflow',
  'on_failure',
  'deadline',
  'spawners',
  'returned',
  'waited',
  'put',
  'failed_from',
  'limit_key',
  'fair_by',
  'aside',
  'called',
  'holds',
  'entity',
  'home',
  'batch',
}

-- The whole record as a table, or nil. One of the earliest versions is made a record of today, if
-- not only a look at it is wanted.
function Job.read(jid, looking)
  local values = call('HMGET', key.job(jid), unpack(FIELDS))
  if not values[1] then
    return nil
  end
  local record = {}
  for n, field in ipairs(FIELDS) do
    record[field] = values[n] or nil
  end
  record.state, record.queue = record.state or '', record.queue or ''
  if record.history and not looking and not scope.reading then
    History.modernise(jid, record.history)
  end
  return record
end

local function must_look(command, jid)
  local record = Job.read(Arguments.name(command, 'jid', jid), true)
  if not record then
    Errors.no_job(command, jid)
  end
  return record
end

-- A job's state as it is now, or nil.
function Job.state_now(jid)
  local state, queue = Hash.values(key.job(jid), 'state', 'queue')
  return state and Places.state_now(jid, queue, state) or nil
end

-- The object that get, pop and peek show, as JSON, or nil. `some` has what is shown of the lists that
-- belong to a job (history, dependents, dependencies) in place of all of it.
function Job.show(jid, some)
  local record = Job.read(jid)
  if not record then
    return nil
  end
  local shown = {
    jid = record.jid,
    klass = record.klass or '',
    state = Places.state_now(jid, record.queue, record.state),
    queue = record.queue,
    worker = record.worker or '',
    tracked = Tracking.is_tracked(jid),
    priority = Record.read('priority', record.priority, 0),
    expires = Record.read('expires', record.expires, 0),
    retries = Record.read('retries', record.retries, 0),
    remaining = Record.read('remaining', record.remaining, 0),
    data = record.data or '',
    tags = Record.read('tags', record.tags, {}),
    history = some and some.history or History.read(jid, record),
    failure = Record.read('failure', record.failure, {}),
    spawned_from_jid = record.spawned_from_jid or false,
    dependents = some and some.dependents or call('SMEMBERS', key.dependents(jid)),
    dependencies = some and some.dependencies or call('SMEMBERS', key.dependencies(jid)),
  }
  return Job.with_ours(shown, record)
end

-- The object with what the protocol does not have, as JSON.
function Job.with_ours(shown, record)
  shown.token = record.state == 'running' and record.token or ''
  shown.crashes = Record.read('crashes', record.crashes, 0)
  shown.failed_from = record.failed_from
  if record.returned and record.state == 'complete' then
    shown.returned = Results.left(record.returned, record.token)
  end
  if record.rare then
    shown.unique = Unique.shown(record.unique)
    shown.workflow, shown.on_failure = record.workflow, record.on_failure
    shown.deadline = Record.read('deadline', record.deadline)
    shown.limits = LimitView.of_job(record)
  end
  local context = Record.text('context', record.context, 'null')
  local progress = Record.text('progress', record.progress, 'null')
  return Json.with(cjson.encode(shown), 'context', context, 'progress', progress)
end

local function all(jids, show)
  local shown = {}
  for _, jid in ipairs(jids) do
    shown[#shown + 1] = show(jid)
  end
  return Json.list(shown)
end

function Job.show_all(jids)
  return all(jids, Job.show)
end

-- A job, or what became of it if it was canceled.
local function found(jid)
  return Job.show(jid) or Canceled.show(jid)
end

-- get jid
function Job.get(args, i)
  return found(Arguments.name('get', 'jid', args[i]))
end

-- multiget jid...
function Job.multiget(args, i)
  local jids = Tags.rest(args, i)
  Arguments.bounded('multiget', #jids)
  return all(jids, found)
end

-- Takes a job out of its worker's hands, in the books.
function Job.unhold(jid, worker)
  if worker and worker ~= '' then
    call('ZREM', key.held(worker), jid)
  end
end

-- Deletes all that is kept of a job that is in no place any longer, but for its dependents. `tags` is
-- the text in its record.
function Job.erase(jid, tags)
  Tags.unindex_all(jid, tags)
  call('DEL', key.job(jid), key.history(jid), key.dependencies(jid))
  if scope.live then
    call('DEL', key.result(jid), key.needs(jid))
  end
end

-- priority jid p
function Job.priority(args, i)
  local jid = Arguments.name('priority', 'jid', args[i])
  local priority = Arguments.number('priority', 'priority', args[i + 1])
  local queue, its_priority, state, aside = Hash.values(key.job(jid), 'queue', 'priority', 'state', 'aside')
  if not state then
    Errors.no_job('priority', jid)
  end
  local work = key.place(queue or '', aside and 'aside' or 'work')
  local score = call('ZSCORE', work, jid)
  if score and state == 'waiting' then
    local before = Record.read('priority', its_priority)
    local rest = before and tonumber(score) - before or Places.score(0, scope.now)
    call('ZADD', work, priority + rest, jid)
    if aside then
      call('ZADD', key.limit_aside(aside), priority + rest, jid)
    end
  end
  call('HSET', key.job(jid), 'priority', priority)
  return priority
end

-- May a job that this one depends on be canceled without it? Its policy says so. (Many jobs may have the same
-- dependents: `known` are their policies.)
function Job.can_lose(dependent, jid, known)
  known[dependent] = known[dependent] or { Cascade.policy(dependent) }
  return known[dependent][1] ~= 'block' or known[dependent][2] == jid
end

-- Would canceling these strand a job that is not canceled with them?
local function no_dependents_left(jids)
  local named, known = {}, {}
  for _, jid in ipairs(jids) do
    named[jid] = true
  end
  for _, jid in ipairs(jids) do
    -- The call names `most` with the job itself, so of this many dependents one at least is not named. Beyond
    -- that a dependent that can lose it may hide one that cannot, which fails then.
    for _, dependent in ipairs(call('SRANDMEMBER', key.dependents(jid), Arguments.most)) do
      if not named[dependent] and not Job.can_lose(dependent, jid, known) then
        Errors.raise(
          'DEPENDENTS',
          'cancel(): %s is a dependency of %s but is not mentioned to be canceled',
          Errors.name(jid),
          Errors.name(dependent)
        )
      end
    end
  end
end

-- Takes a job that is not complete away with all that belongs to it. Its dependents stay. `why` and `by` are
-- those of Canceled.keep; nil: it was not canceled, its schedule takes it back.
function Job.remove(jid, record, why, by)
  local queue, worker = record.queue, record.worker or ''
  if why then
    Canceled.keep(jid, record, why, by)
    Events.canceled(jid, queue, worker)
  end
  Job.unhold(jid, worker)
  Places.leave(jid, queue)
  Dependencies.unlink_all(jid)
  if record.state == 'running' then
    Samples.taken_away(queue, record.time, record.waited)
  elseif record.state == 'failed' or not Record.is_state(record.state) then
    Failures.remove(jid, queue, record.failure)
    call('ZREM', key.completed(), jid)
  end
  if why and Tracking.is_tracked(jid) then
    Events.tracked('canceled', jid)
  end
  Job.erase(jid, record.tags)
  JobEnd.canceled(jid, record)
end

function Job.cancel_unknown() end

-- -> whether there was something to cancel
local function cancel(jid)
  local record = Job.read(jid)
  if not record then
    Job.cancel_unknown(jid)
  elseif record.state ~= 'complete' then
    Job.remove(jid, record, 'call')
    return true
  end
  return false
end

-- cancel jid...
function Job.cancel(args, i)
  local jids = Tags.rest(args, i)
  Arguments.bounded('cancel', #jids)
  no_dependents_left(jids)
  local gone = {}
  for _, jid in ipairs(jids) do
    gone[#gone + 1] = cancel(jid) and jid or nil
  end
  -- Those that were canceled with them are no dependents any more.
  for _, jid in ipairs(gone) do
    Cascade.follow(jid, 'gone')
  end
  return jids
end

-- timeout jid...: takes the job from its worker and puts it before all others.
function Job.timeout(args, i)
  local jids = Tags.rest(args, i)
  Arguments.bounded('timeout', #jids)
  local records = {}
  for n, jid in ipairs(jids) do
    records[n] = must_look('timeout', jid)
    if records[n].state ~= 'running' then
      local state = Places.state_now(jid, records[n].queue, records[n].state)
      Errors.raise(
        'STATE',
        'timeout(): Job ' .. Errors.name(jid) .. ' not running but ' .. Errors.state(state)
      )
    end
  end
  for n, jid in ipairs(jids) do
    local record = records[n]
    if call('HGET', key.job(jid), 'state') == 'running' then
      record.held = Samples.held(record.waited)
      Samples.taken_away(record.queue, record.time, record.waited)
      History.ended(jid, 'timed-out', record)
      call('ZREM', key.place(record.queue, 'locks'), jid)
      call('ZADD', key.place(record.queue, 'work'), '+inf', jid)
      Wake.ready(record.queue)
      Job.unhold(jid, record.worker)
      call('HSET', key.job(jid), 'state', 'stalled', 'expires', 0)
      Places.ready_since(jid, scope.now, record.entity)
      call('HDEL', key.job(jid), 'grace', 'waited')
      if record.holds then
        Limits.call_again(jid, record.holds)
      end
      if record.entity then
        Entity.returned(jid, record.queue)
      end
      Events.lock_lost(jid, record.worker)
    end
  end
end

-- progress jid token json
function Job.progress(args, i)
  local jid = Arguments.name('progress', 'jid', args[i])
  local text = args[i + 2]
  Arguments.json('progress', 'progress', text, Arguments.text_bytes)
  if not string.find(text, '^%s*%[') then
    Errors.argument('progress', 'progress must be a JSON list, [fraction, text]')
  end
  local job = Lock.holder('progress', jid, args[i + 1])
  call('HSET', key.job(jid), 'progress', text, 'rare', job.rare or '0')
  return 1
end

-- result jid
function Job.result(args, i)
  return call('GET', key.result(Arguments.name('result', 'jid', args[i])))
end
