-- Stand-ins: a job of another namespace has a record here, under the same jid, so that jobs here can depend on it. It
-- is in the state depends and open, so nothing hands it out; it ends when the namespace of the real job says how that
-- has ended. Its field `elsewhere` is the name of that namespace.

local floor = math.floor

-- The option stand_ins of a put, {"home": its namespace, "jobs": {jid: [namespace, queue, klass]}}: which of its
-- dependencies are elsewhere.
function StandIns.check(command, text)
  local value = Arguments.object(command, 'stand_ins', text)
  local fine = type(value.home) == 'string' and type(value.jobs) == 'table'
  for _, place in pairs(fine and value.jobs or {}) do
    fine = fine and type(place) == 'table' and #place == 3
    for n = 1, fine and 3 or 0 do
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

-- Makes those on which the job depends. Each is watched from now on by its namespace.
function StandIns.make(job)
  for _, jid in ipairs(job.depends or {}) do
    local place = job.stand_ins.jobs[jid]
    if place and call('EXISTS', key.job(jid)) == 0 then
      local stand_in = { jid = jid, queue = place[2], klass = place[3], data = 'null', delay = 0, open = '1' }
      stand_in.rare, stand_in.elsewhere, stand_in.old = true, place[1], false
      PutStore.store(stand_in, '', false)
      Places.register(place[2])
      Crossing.write(place[1], 'watch', { jid, job.stand_ins.home })
    end
  end
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
  Workflow.moved(record.workflow or '', record.state, 'complete')
  ResultWaiters.ended(jid)
  Spawned.done(jid, record.spawners)
  Dependencies.release({ jid }, { [jid] = true })
  Expiry.after(1)
end

-- failed group message: its dependents do what they do about jobs here
function ENDS.failed(jid, record, group, message)
  if record.state ~= 'failed' then
    leave(jid, record)
    History.failed(jid, group, nil, message)
    Outcome.write_failed(
      { jid = jid, queue = record.queue, rare = '1', state = 'depends' },
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
