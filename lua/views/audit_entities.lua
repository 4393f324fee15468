-- The invariants of entities: their payloads, their lists, the dead.

local complain = AuditJobs.complain

local function job_of(jid)
  return Hash.read(key.job(jid), { 'state', 'entity', 'home', 'remaining', 'retries' })
end

local WAITING = { waiting = true, scheduled = true, stalled = true }

function AuditEntities.check_payloads(report, jid)
  local job = job_of(jid)
  if not job.entity then
    complain(report, 'there are payloads of job %s, which carries no entity', jid)
  elseif job.state == 'complete' or job.state == 'failed' then
    complain(report, 'entity job %s is %s, and has payloads', jid, job.state)
  end
end

function AuditEntities.check_taken(report, jid)
  local job = job_of(jid)
  if not job.entity or job.state ~= 'running' then
    complain(report, 'job %s is %s, and a run has payloads of it', jid, job.state or 'gone')
  end
end

-- A job that carries an entity: it is listed where it waits, and has what it waits for.
function AuditEntities.check_job(report, jid)
  local job = job_of(jid)
  if not job.entity then
    return
  end
  local queue = job.home or ''
  if jid ~= Entity.jid(queue, job.entity) then
    complain(report, 'job %s carries an entity that belongs to another job', jid)
  end
  local fresh, retrying = call('ZSCORE', key.fresh(queue), jid), call('ZSCORE', key.retrying(queue), jid)
  if not WAITING[job.state] then
    if fresh or retrying then
      complain(report, 'entity job %s is listed as waiting, but %s', jid, job.state)
    end
    return
  end
  if (job.remaining ~= job.retries) ~= (retrying and not fresh and true or false) then
    complain(report, 'entity job %s is not in the right list of those that wait', jid)
  end
  if call('EXISTS', key.payloads(jid)) == 0 then
    complain(report, 'entity job %s waits without payloads', jid)
  end
end

local function check_list(name)
  return function(report, queue)
    for _, jid in ipairs(call('ZRANGE', key[name](queue), 0, Arguments.most - 1)) do
      local job = job_of(jid)
      if not job.entity or job.home ~= queue or not WAITING[job.state] then
        complain(report, 'job %s is listed among the %s entities of %s', jid, name, queue)
      end
    end
  end
end

AuditEntities.check_fresh, AuditEntities.check_retrying = check_list('fresh'), check_list('retrying')

-- Of each dead entity there is the error, and payloads.
function AuditEntities.check_dead(report, queue)
  for _, entity in ipairs(call('ZRANGE', key.dead(queue), 0, Arguments.most - 1)) do
    local jid = Entity.jid(queue, entity)
    if call('EXISTS', key.dead_entity(jid), key.dead_payloads(jid)) < 2 then
      complain(report, 'of dead entity %s of %s the error or the payloads are gone', entity, queue)
    end
  end
  if call('ZCARD', key.dead(queue)) ~= call('ZCARD', key.dead_ids(queue)) then
    complain(report, 'the dead of %s are not listed both by time and by id', queue)
  end
end

function AuditEntities.check_dead_entity(report, jid)
  local queue, entity = Hash.values(key.dead_entity(jid), 'queue', 'entity')
  if not queue or not entity or not call('ZSCORE', key.dead(queue), entity) then
    complain(report, 'dead entity of job %s is not listed', jid)
  end
end

function AuditEntities.check_dead_payloads(report, jid)
  if call('EXISTS', key.dead_entity(jid)) == 0 then
    complain(report, 'there are dead payloads of job %s, but no error', jid)
  end
end
