-- The invariants of entities: their payloads, their lists, the dead.

local complain = AuditJobs.complain

local FIELDS = { 'state', 'entity', 'home', 'queue', 'remaining', 'retries', 'time' }

local function job_of(jid)
  return Hash.read(key.job(jid), FIELDS)
end

local WAITING = { waiting = true, scheduled = true, stalled = true }

-- Sets of payloads that are something else are told where their job is, or where the dead are listed.
local function number_of(name)
  local number = redis.pcall('ZCARD', name)
  return type(number) == 'number' and number or 0
end

function AuditEntities.check_payloads(report, jid)
  local job = job_of(jid)
  if not job.entity then
    complain(report, 'there are payloads of job %s, which carries no entity', jid)
  elseif job.state == 'complete' or job.state == 'failed' then
    complain(report, 'entity job %s is %s, and has payloads', jid, job.state)
  end
end

function AuditEntities.check_taken(report, jid)
  local job, number = job_of(jid), number_of(key.taken(jid))
  if not job.entity or job.state ~= 'running' then
    complain(report, 'job %s is %s, and a run has payloads of it', jid, job.state or 'gone')
  elseif number > Payloads.most then
    complain(report, 'the run of entity job %s has %s payloads, at most %s', jid, number, Payloads.most)
  end
end

-- An entity that waits is in one list, from when it is due on; what lags is counted from then as well.
local function check_waiting(report, jid, job)
  local fresh = call('ZSCORE', key.fresh(job.home), jid)
  local retrying = call('ZSCORE', key.retrying(job.home), jid)
  local listed, other = fresh, retrying
  if job.remaining ~= job.retries then
    listed, other = retrying, fresh
  end
  local due = job.state == 'scheduled' and call('ZSCORE', key.place(job.home, 'scheduled'), jid)
    or job.state ~= 'scheduled' and Record.number(job.time)
  if not listed or other then
    complain(report, 'entity job %s is not in the right list of those that wait', jid)
  elseif due and math.abs(tonumber(listed) - due) > 1e-4 then
    complain(report, 'entity job %s is due at %s, listed at %s', jid, due, listed)
  end
  if number_of(key.payloads(jid)) == 0 then
    complain(report, 'entity job %s waits without payloads', jid)
  end
end

-- A job that carries an entity: it belongs to its queue, and is listed where it waits, or has what it runs with.
function AuditEntities.check_job(report, jid)
  local job = job_of(jid)
  if not job.entity then
    return
  end
  local home = job.home or ''
  if jid ~= Entity.jid(home, job.entity) then
    complain(report, 'job %s carries an entity that belongs to another job', jid)
  elseif job.state ~= 'complete' and job.queue ~= home then
    complain(report, 'entity job %s is in queue %s, and belongs to %s', jid, job.queue or 'none', home)
  elseif WAITING[job.state] then
    check_waiting(report, jid, job)
  elseif call('ZSCORE', key.fresh(home), jid) or call('ZSCORE', key.retrying(home), jid) then
    complain(report, 'entity job %s is listed as waiting, but %s', jid, job.state)
  elseif job.state == 'running' and number_of(key.taken(jid)) == 0 then
    complain(report, 'entity job %s runs without payloads', jid)
  end
end

-- The members of lists are checked queue by queue, of those that are known to have entities.
function AuditEntities.check_list(report, queue)
  if call('HEXISTS', key.entity_types(), queue) == 0 then
    complain(report, 'entities of queue %s are listed, but not their job type', queue)
  end
end

local function member_of(list)
  return function(report, jid, queue)
    local job = job_of(jid)
    if not job.entity or job.home ~= queue or not WAITING[job.state] then
      complain(report, 'job %s is listed among the %s entities of %s', jid, list, queue)
    end
  end
end

-- Of each dead entity there is the error, since when it is dead, and payloads.
local function member_of_dead(report, entity, queue)
  local jid = Entity.jid(queue, entity)
  local when = Record.number(call('HGET', key.dead_entity(jid), 'when'))
  if not when or number_of(key.dead_payloads(jid)) == 0 then
    complain(report, 'of dead entity %s of %s the error or the payloads are gone', entity, queue)
  elseif math.abs(when - tonumber(call('ZSCORE', key.dead(queue), entity) or when)) > 1e-4 then
    complain(report, 'dead entity %s of %s is listed at another time than it died', entity, queue)
  elseif not call('ZSCORE', key.dead_ids(queue), entity) then
    complain(report, 'dead entity %s of %s is listed by time, not by id', entity, queue)
  end
end

local function member_of_dead_ids(report, entity, queue)
  if not call('ZSCORE', key.dead(queue), entity) then
    complain(report, 'dead entity %s of %s is listed by id, not by time', entity, queue)
  end
end

-- Hands `add` every list of entities, in an order that two steps see alike.
function AuditEntities.lists(add)
  local queues = {}
  for queue in pairs(Hash.all(key.entity_types())) do
    queues[#queues + 1] = queue
  end
  table.sort(queues)
  for _, queue in ipairs(queues) do
    add(key.fresh(queue), member_of('fresh'), queue)
    add(key.retrying(queue), member_of('retrying'), queue)
    add(key.dead(queue), member_of_dead, queue)
    add(key.dead_ids(queue), member_of_dead_ids, queue)
  end
end

function AuditEntities.check_dead_entity(report, jid)
  local queue, entity = Hash.values(key.dead_entity(jid), 'queue', 'entity')
  if not queue or not entity or jid ~= Entity.jid(queue, entity) then
    complain(report, 'the error of dead entity job %s is that of another', jid)
  elseif not call('ZSCORE', key.dead(queue), entity) then
    complain(report, 'dead entity of job %s is not listed', jid)
  end
end

function AuditEntities.check_dead_payloads(report, jid)
  if call('EXISTS', key.dead_entity(jid)) == 0 then
    complain(report, 'there are dead payloads of job %s, but no error', jid)
  end
end
