-- Entities: payloads are pushed onto them, and each is carried by one job, which is queued while payloads wait and handed
-- to one worker at a time. Its record has
--   entity   its id                 home   its queue                 batch   how many may run together
--
-- A run takes the payloads with the lowest scores. If it is completed they are done; else they wait again, with all that
-- has been pushed meanwhile. When its retries are used up the one with the lowest score goes to the dead of the queue, with
-- the error, and the others go on at once.

local rcall = redis.call

Entities.fields = { 'entity', 'home', 'batch' }

-- What one call hands out: entities, and payloads and their bytes after which it hands out no further entity.
local MOST, ENOUGH, ENOUGH_BYTES = 250, 4000, 4 * 1024 * 1024

local MOST_LOSSES = 3 -- locks lost and crashes in a row that one payload may cause

-- These are no failures of a run: no payload of the entity can be processed.
local OF_ALL = { ['unknown-job'] = true, ['row-gone'] = true, ['corrupt-record'] = true }

-- The id of the job that carries an entity of a queue.
function Entities.jid(queue, entity)
  return 'entity-' .. redis.sha1hex(queue .. '\0' .. entity)
end

-- An argument that names an entity.
function Entities.id(call, value)
  Arguments.real_name(call, 'entity', value)
  if #value > 255 then
    Errors.argument(call, 'entity must have 1 to 255 bytes, not ' .. #value)
  end
  return value
end

-- Is there a job of this id that carries no entity? It was put by other means.
function Entities.is_in_the_way(call, jid)
  local state, entity = unpack(rcall('HMGET', Keys.job(call, jid), 'state', 'entity'))
  return state and not entity
end

local function about(jid)
  return 'Job ' .. Errors.name(jid) .. ' carries an entity'
end

-- The job of an entity belongs to its queue. -> code, text
function Entities.no_move(call, jid)
  return 'STATE', call.command .. '(): ' .. about(jid) .. ', which stays in its queue'
end

function Entities.check(_, job)
  if not job.pushed then
    Errors.raise('STATE', about(job.jid) .. ': push payloads to it instead')
  end
end

-- Only a worker that settles gets payloads: others get no entity.
function Entities.admit(call)
  local handed = call.handed
  local is_enough = handed
    and (handed.jobs >= MOST or handed.payloads >= ENOUGH or handed.bytes >= ENOUGH_BYTES)
  return (is_enough or call.command ~= 'settle') and 'stay' or nil
end

-- What a worker gets of a run: the job's data with the payloads, and how many may run together.
local function tell(job, payloads)
  local data = job.data
  if not data or not string.find(data, '^{.+}$') then
    data = '{"v":1,"entity":' .. cjson.encode(job.entity) .. '}'
  end
  job.data = Json.with(data, 'payloads', '[' .. table.concat(payloads, ',') .. ']')
  job.together = job.batch or '1'
end

-- The same for a reply that is given again.
function Entities.restore(call, job)
  tell(job, rcall('ZRANGE', Keys.taken(call, job.jid), 0, -1))
end

-- (`call.handed` is what the call has handed out of entities.)
function Entities.started(call, job, want)
  local handed = call.handed or { jobs = 0, payloads = 0, bytes = 0 }
  local payloads, bytes = Payloads.take(call, job.jid)
  call.handed = handed
  handed.jobs, handed.payloads, handed.bytes =
    handed.jobs + 1, handed.payloads + #payloads, handed.bytes + bytes
  if job.remaining ~= job.retries then
    rcall('ZREM', Keys.retrying(call, job.queue), job.jid)
  end
  tell(job, payloads)
  local further = (tonumber(job.batch) or 1) - 1
  want.together = function(runs)
    return math.min(runs * further, MOST - handed.jobs)
  end
end

-- An entity is back in its queue: if its last run has failed, so it is listed, by when it is due.
local function list(call, job)
  local queue = Keys.queue(call, job.home or job.queue)
  local remaining, retries = unpack(rcall('HMGET', job.key, 'remaining', 'retries'))
  if (tonumber(remaining) or 0) < (tonumber(retries) or 0) then
    local due = rcall('ZSCORE', queue.scheduled, job.jid) or call.text
    rcall('ZADD', Keys.retrying(call, queue.name), due, job.jid)
  end
end
Entities.list = list

-- The entity is in no place, and goes on at once as though it had never failed.
local function go_on(call, job)
  local queue = Keys.queue(call, job.home or job.queue)
  rcall('ZREM', call.keys.completed, job.jid)
  rcall('HDEL', job.key, 'crashes', 'unknown', 'grace', 'progress', 'returned')
  rcall(
    'HSET',
    job.key,
    'state',
    'waiting',
    'worker',
    '',
    'expires',
    '0',
    'queue',
    queue.name,
    'remaining',
    job.retries,
    'failure',
    '{}'
  )
  Queue.ready_since(call, job)
  History.put(call, job.jid, queue.name)
  Queue.push(call, queue, job.jid, job.priority)
  Queue.register(call, queue)
  job.state = 'waiting'
end

-- Takes away the job of an entity that has no payloads, and is in no place.
local function erase(call, job)
  Features.at('gone', call, job, 'withdrawn')
  Job.erase(call, job)
  Links.follow(call, job.jid, 'gone')
end
Entities.erase = erase

local function erase_noted(call)
  for _, jid in ipairs(call.died) do
    erase(call, Job.read(call, jid))
  end
end

-- (The other features of the job have to see its end before its record goes.)
local function erase_at_end(call, jid)
  if not call.died then
    call.died = {}
    Call.at_end(call, erase_noted)
  end
  call.died[#call.died + 1] = jid
end

-- The job was to be filed as failed.
local function failed(call, job)
  local jid, record = job.jid, Job.read(call, job.jid)
  local queue, failure = job.home or job.queue, Json.shown(record.failure)
  local waiting, dead = Keys.payloads(call, jid), Keys.dead_payloads(call, jid)
  record.home = queue
  Payloads.give_back(call, jid)
  local flat = Payloads.lowest(waiting, OF_ALL[failure.group] and Payloads.most or 1, Payloads.bytes)
  Dead.add(call, record, failure, flat)
  Stats.count(call, queue, 'failures', 1)
  Minutes.add(call, queue, 'failed', 1)
  rcall('ZREM', Keys.retrying(call, queue), jid)
  if Payloads.move(waiting, dead, flat) then
    job.state = 'canceled'
    erase_at_end(call, jid)
  else
    job.priority, job.retries = record.priority, record.retries
    go_on(call, job)
  end
end

function Entities.ended(call, job, was)
  if job.state == 'failed' then
    failed(call, job)
  elseif job.state == 'complete' then
    rcall('DEL', Keys.taken(call, job.jid))
    if rcall('EXISTS', Keys.payloads(call, job.jid)) == 1 then
      go_on(call, job)
    end
  elseif was == 'running' then
    Payloads.give_back(call, job.jid)
    list(call, job)
  end
end

function Entities.gone(call, job, why)
  if why ~= 'replaced' then
    rcall('UNLINK', Keys.payloads(call, job.jid)) -- there may be very many: their memory is freed in the background
    rcall('DEL', Keys.taken(call, job.jid))
    rcall('ZREM', Keys.retrying(call, job.home or job.queue), job.jid)
  end
end

-- The lock of a run was lost, which uses no retry up. -> the retries that remain; below 0 if that has happened too often in
-- a row
function Entities.lost(_, run)
  local crashes = rcall('HINCRBY', run.key, 'crashes', 1)
  return crashes > MOST_LOSSES and -1 or run.remaining
end

-- The group and the words for that.
function Entities.words_of_loss()
  return 'worker-crash',
    'Its lock was lost ' .. MOST_LOSSES + 1 .. ' times, each time with this payload first'
end
