-- Stand-ins: a job of another namespace has a record here, under the same jid, so that jobs here can depend on it. It
-- is in the state depends and open, so nothing hands it out; it ends when the namespace of the real job says how that
-- has ended. Its field `elsewhere` is the name of that namespace.
--
-- A job of a workflow, or one that a run spawns, may be bound to another namespace, by its field `bound`: when its turn
-- has come it is put there, with the results that it needs, and its record here stands for it from then on.

local floor = math.floor

-- Bytes of the results that go with a job; what comes after them is left out.
local RESULTS = 256 * 1024

-- The option stand_ins of a put, {"home": its namespace, "jobs": {jid: [namespace, queue, klass]}}: which of its
-- dependencies are elsewhere.
function StandIns.check(command, text)
  local value = Arguments.object(command, 'stand_ins', text)
  local fine = type(value.home) == 'string' and type(value.jobs) == 'table'
  for _, place in pairs(fine and value.jobs or {}) do
    fine = fine and type(place) == 'table' and #place == 3
    for n = 1, 3 do
      fine = fine and type(place[n]) == 'string' and place[n] ~= ''
    end
  end
  if not fine then
    Errors.argument(command, 'stand_ins must be {"home": name, "jobs": {jid: [name, queue, klass]}}')
  end
  return value
end

-- What the call is about to put, with the stand-ins that this job needs and that are not there.
function StandIns.coming(job, coming)
  return setmetatable({}, {
    __index = function(_, jid)
      return coming and coming[jid] or job.stand_ins.jobs[jid] ~= nil and call('EXISTS', key.job(jid)) == 0
    end,
  })
end

-- Makes those on which the job depends. Each is watched from now on by its namespace; of a job that was moved from here
-- this one knows better where it is than a handle.
function StandIns.make(job)
  for _, jid in ipairs(job.depends or {}) do
    local place = job.stand_ins.jobs[jid]
    if place and call('EXISTS', key.job(jid)) == 0 then
      local stand_in = { jid = jid, queue = place[2], klass = place[3], data = 'null', delay = 0, open = '1' }
      stand_in.rare, stand_in.elsewhere, stand_in.old =
        true, call('GET', key.moved_to(jid)) or place[1], false
      PutStore.store(stand_in, '', false)
      Places.register(place[2])
      local is_met = job.met and job.met[jid]
      Crossing.write(stand_in.elsewhere, 'watch', { jid, job.stand_ins.home, is_met and 'complete' or nil })
    end
  end
end

-- A job is put over what stands for it: the real one has been moved here; or it is put again for the same namespace, by
-- a run that spawns it again.
function StandIns.gives_way(job)
  local bound = job.old.more.bound
  if not job.bound then
    return scope.arriving and not bound
  end
  return bound and cjson.decode(bound).namespace == cjson.decode(job.bound).namespace
end

-- It stands for another job: what would make it a job of its own is refused.
function StandIns.refuse(command, jid, elsewhere)
  Errors.raise(
    'STATE',
    '%s(): Job %s stands for one in namespace %s: act on that',
    command,
    Errors.name(jid),
    Errors.name(elsewhere)
  )
end

-- The option bound of a put, {"home": its namespace, "namespace": where it will run}.
function StandIns.check_bound(command, text)
  local value = Arguments.object(command, 'bound', text)
  for _, name in ipairs({ 'home', 'namespace' }) do
    if type(value[name]) ~= 'string' or value[name] == '' then
      Errors.argument(command, 'bound must be {"home": name, "namespace": name}')
    end
  end
end

-- What the job depended on, and what that has returned: a list of [jid, result, seconds that it is kept].
local function results_of(jid)
  local needs, found, bytes = call('LRANGE', key.needs(jid), 0, Arguments.most - 1), {}, 0
  for _, other in ipairs(needs) do
    local result = call('GET', key.result(other))
    bytes = bytes + #(result or '')
    if result and bytes <= RESULTS then
      found[#found + 1] = { other, result, math.max(call('TTL', key.result(other)), 1) }
    end
  end
  return needs, found
end

-- The same, where the job has arrived.
function StandIns.take_results(jid, needs, results)
  DependencyResults.add(jid, needs)
  for _, each in ipairs(results) do
    Outcome.keep_result(each[1], '', each[2], each[3])
  end
end

-- The turn of a job has come that is bound to another namespace.
function StandIns.send(jid, text)
  local record, bound = Job.read(jid), cjson.decode(text)
  local needs, results = results_of(jid)
  local batch = Moving.batch(bound.namespace, record.queue, '0')
  Moving.add(batch, jid, record, { home = bound.home, needs = needs, results = results })
  call('HSET', key.job(jid), 'elsewhere', bound.namespace, 'open', '1')
  call('HDEL', key.job(jid), 'scheduled')
  Workflow.moved(record.workflow, 'depends', 'waiting')
  Moving.close(batch)
end

-- The state in which its workflow counts it: what was sent does not wait for others.
function StandIns.counted(record)
  return record.elsewhere and record.state == 'depends' and 'waiting' or record.state
end

-- It has failed, there or because of what it depended on, and is to go on.
function StandIns.revive(record)
  local jid, name = record.jid, record.elsewhere
  call('HSET', key.job(jid), 'state', 'depends')
  Places.depends(jid, record.queue)
  JobEnd.revived(jid, record, 'waiting')
  if not name then
    Workflow.moved(record.workflow, 'waiting', 'depends')
    Dependencies.free_if_last(jid)
    return
  end
  call('HSET', key.job(jid), 'open', '1')
  Crossing.write(name, 'revive', { jid })
  Crossing.write(name, 'watch', { jid, cjson.decode(record.bound).home })
end

-- withdraw jid: the job was put here for another namespace, where it was canceled. Called by a delivery.
function StandIns.withdraw(args, i)
  local jid = Arguments.name('withdraw', 'jid', args[i])
  local state = call('HGET', key.job(jid), 'state')
  if state and state ~= 'complete' then
    Cascade.cancel(jid, 'workflow')
  end
  return 1
end

local function leave(jid, record)
  Places.leave(jid, record.queue)
  if record.state == 'failed' then
    Failures.remove(jid, record.queue, record.failure)
  end
  call('HDEL', key.job(jid), 'open')
end

local ENDS = {}

-- complete result result_ttl; without a result '' 1
function ENDS.complete(jid, record, result, ttl)
  leave(jid, record)
  local token = record.token or ''
  local returned = Outcome.keep_result(jid, token, result, Arguments.whole('ended', 'result_ttl', ttl, 1))
  History.done(jid)
  Outcome.write_complete(key.job(jid), record.retries or '0', nil, returned)
  call('ZADD', key.completed(), NumberFormat.now(), jid)
  Workflow.moved(record.workflow, StandIns.counted(record), 'complete')
  ResultWaiters.ended(jid)
  Spawned.done(jid, record.spawners)
  if record.watched then
    Watchers.tell(jid, 'complete')
  end
  Dependencies.release({ jid }, { [jid] = true })
  Expiry.after(1)
end

-- failed group message: its dependents do what they do about jobs here
function ENDS.failed(jid, record, group, message)
  if record.state ~= 'failed' then
    local counted = StandIns.counted(record)
    leave(jid, record)
    History.failed(jid, group, nil, message)
    Outcome.write_failed(
      { jid = jid, queue = record.queue, rare = true, state = counted },
      group,
      message,
      floor(scope.now)
    )
  end
end

-- canceled: or never seen
function ENDS.canceled(jid, record)
  Job.remove(jid, record, 'dependency', record.elsewhere)
  Cascade.follow(jid, 'gone')
end

-- ended jid complete|failed|canceled [more]... -> whether there was a stand-in; called by a delivery
function StandIns.ended(args, i)
  local jid, act = Arguments.name('ended', 'jid', args[i]), ENDS[args[i + 1] or '']
  if not act then
    Errors.argument('ended', 'complete, failed or canceled wanted, not ' .. Errors.name(args[i + 1]))
  end
  local record = Job.read(jid)
  if not record or not record.elsewhere or record.state == 'complete' then
    return 0
  end
  act(jid, record, args[i + 2] or '', args[i + 3] or '1')
  return 1
end
