-- Runs of entities: what a run takes, and what becomes of one that was lost or has failed for good.

local MOST_JOBS = 250 -- entities handed out by one call

-- Payloads, and their bytes, after which a call hands out no further entity. Each has as many as a run may have, so
-- one call may move a run's more.
local ENOUGH, ENOUGH_BYTES = 4000, 4 * 1024 * 1024

local MOST_LOSSES = 3 -- locks lost and crashes in a row that one payload may cause

-- These are no failures of a run: no payload of the entity can be processed.
local OF_ALL = { ['unknown-job'] = true, ['row-gone'] = true, ['corrupt-record'] = true }

-- May this call hand out one more entity? Only to who reserves: others know nothing of payloads.
local function has_room(reserved)
  local handed = scope.entities
  if not reserved or not handed then
    return reserved
  end
  return handed.jobs < MOST_JOBS and handed.payloads < ENOUGH and handed.bytes < ENOUGH_BYTES
end

-- An entity that was to be handed out stays where it was: first in its queue.
local function leave(jid, queue, state, priority, time)
  scope.full = true
  if state == 'running' then
    call('ZREM', key.place(queue, 'locks'), jid)
    call('HSET', key.job(jid), 'state', 'waiting', 'worker', '', 'expires', 0)
    Entity.returned(jid, queue)
    local holds = call('HGET', key.job(jid), 'holds')
    if holds then
      Limits.release(jid, holds)
    end
  end
  priority = state == 'stalled' and math.huge or Record.number(priority)
  Places.work(jid, queue, priority, Record.read('time', time, scope.now))
end

-- What its worker is told of an entity: the data with the payloads that the run has.
function EntityRun.data(jid, entity, data, payloads)
  payloads = payloads or call('ZRANGE', key.taken(jid), 0, -1)
  if not data or not string.find(data, '^{.+}$') then
    data = '{"v":1,"entity":' .. cjson.encode(entity) .. '}'
  end
  return Json.with(data, 'payloads', #payloads > 0 and '[' .. table.concat(payloads, ',') .. ']' or '[]')
end

-- An entity is about to be handed out. -> whether it stays in its queue instead, as the call hands out enough
function EntityRun.stays(jid, queue, state, priority, time, reserved)
  if has_room(reserved) then
    return false
  end
  leave(jid, queue, state, priority, time)
  return true
end

-- Takes the payloads of an entity that is handed out. -> its data for the worker
function EntityRun.take(jid, entity, data)
  local handed = scope.entities or { jobs = 0, payloads = 0, bytes = 0, listed = {} }
  scope.entities = handed
  local payloads, bytes = Payloads.take(jid)
  handed.jobs, handed.payloads = handed.jobs + 1, handed.payloads + #payloads
  handed.bytes = handed.bytes + bytes
  handed.listed[#handed.listed + 1] = jid
  return EntityRun.data(jid, entity, data, payloads)
end

-- Those that were handed out of the queue since the last time wait no longer.
function EntityRun.taken(queue)
  local jids = scope.entities.listed
  if #jids > 0 and call('ZREM', key.fresh(queue), unpack(jids)) < #jids then
    call('ZREM', key.retrying(queue), unpack(jids))
  end
  scope.entities.listed = {}
end

-- How many more entities of a queue belong to the runs of `taken` ones, which have been handed out: a run has up
-- to `batch`.
function EntityRun.further(taken)
  return math.min(taken * ((scope.batch or 1) - 1), MOST_JOBS - scope.entities.jobs)
end

-- The lock of a run was lost, which uses no retry up. -> the retries that remain; below 0 if the entity has
-- caused too many losses in a row
function EntityRun.lost(jid, remaining, crashes)
  crashes = Record.read('crashes', crashes, 0) + 1
  call('HSET', key.job(jid), 'crashes', crashes)
  return crashes > MOST_LOSSES and -1 or Record.read('remaining', remaining, 0)
end

-- The group and the words for that.
function EntityRun.words_of_loss()
  return 'worker-crash',
    'Its lock was lost ' .. MOST_LOSSES + 1 .. ' times, each time with this payload first'
end

-- The job was to be filed as failed: instead the payload with the lowest score goes to the dead, and the
-- others go on at once. -> whether that was done
function EntityRun.failed(job, group, message)
  local jid = job.jid
  local record = Job.read(jid, true)
  if not record then
    return false
  end
  local queue = record.home or job.queue
  Payloads.give_back(jid)
  local flat = Payloads.lowest(key.payloads(jid), OF_ALL[group] and Payloads.most or 1, Payloads.bytes)
  Dead.add(record, queue, group, message, flat)
  Stats.count(queue, 'failures', 1)
  Minutes.count(queue, 'failed', 1)
  Minutes.count(queue, 'died', 1)
  Entity.unlisted(jid, queue)
  if Payloads.move_all(key.payloads(jid), key.dead_payloads(jid), flat) then
    EntityRun.erase(record, queue)
  else
    if record.holds then
      Limits.release(jid, record.holds)
    end
    Entity.again(jid, queue)
  end
  return true
end

-- Takes away the job of an entity that has no payloads, and is in no place. (It never depends on others.)
function EntityRun.erase(record, queue)
  local jid = record.jid
  record.home = queue
  Job.erase(jid, record.tags)
  JobEnd.canceled(jid, record)
  Cascade.follow(jid, 'gone')
end
