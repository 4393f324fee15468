-- What operators do to the entities of a queue: all that wait, all whose last run has failed, or those named.

local MOST = 250 -- entities changed by one call

local GROUP, MESSAGE = 'killed', 'It was killed before its retries were used up'

-- An entity that waits, or is delayed, is due now.
function EntityActions.run_now(jid, queue)
  if call('ZREM', key.place(queue, 'scheduled'), jid) == 1 then
    local priority = call('HGET', key.job(jid), 'priority')
    call('HSET', key.job(jid), 'state', 'waiting')
    Places.ready_since(jid, scope.now, true)
    Places.work(jid, queue, Record.read('priority', priority, 0))
  end
  Entity.unlisted(jid, queue)
  Entity.returned(jid, queue)
end

local WAITING = { waiting = true, scheduled = true, stalled = true }

-- The jobs of the entities that are named, or the first ones of a list. -> the queue, jids
local function chosen(command, args, i, list)
  local queue, entities = Dead.named(command, args, i)
  if #entities == 0 then
    return queue, list(queue)
  end
  for n, entity in ipairs(entities) do
    entities[n] = Entity.jid(queue, entity)
  end
  return queue, entities
end

-- Changes those of the jobs that carry entities and are in no worker's hands. -> how many
local function each_waiting(queue, jids, change)
  local number = 0
  for _, jid in ipairs(jids) do
    local record = Job.read(jid, true)
    if record and record.entity and WAITING[record.state] then
      number = number + change(record, queue)
    end
  end
  return number
end

local function retrying(queue)
  return call('ZRANGE', key.retrying(queue), 0, MOST - 1)
end

local function later(queue)
  local from = '(' .. string.format('%.17g', scope.now)
  return call('ZRANGEBYSCORE', key.place(queue, 'scheduled'), from, '+inf', 'LIMIT', 0, MOST)
end

-- entities.run queue [entity...] -> how many wait no longer; without entities of those that are delayed, as
-- many as one call may change
function EntityActions.run(args, i)
  local queue, jids = chosen('entities.run', args, i, later)
  return each_waiting(queue, jids, function(record)
    local was = record.state == 'scheduled' and 1 or 0
    EntityActions.run_now(record.jid, queue)
    return was
  end)
end

-- entities.kill queue [entity...] -> how many were changed: their payloads go to the dead, as many as one call
-- may move; without entities those of the ones whose last run has failed
function EntityActions.kill(args, i)
  local left = Payloads.most
  local queue, jids = chosen('entities.kill', args, i, retrying)
  return each_waiting(queue, jids, function(record)
    if left <= 0 then
      return 0
    end
    local jid, failure = record.jid, Record.read('failure', record.failure, {})
    local flat = Payloads.lowest(key.payloads(jid), left, Payloads.bytes * 8)
    left = left - #flat / 2
    Dead.add(record, queue, failure.group or GROUP, failure.message or MESSAGE, flat)
    if Payloads.move_all(key.payloads(jid), key.dead_payloads(jid), flat) then
      Places.leave(jid, queue)
      EntityRun.erase(record, queue)
    end
    return 1
  end)
end

-- entities.drop queue [entity...] -> how many were deleted, with their payloads; without entities of the ones
-- whose last run has failed
function EntityActions.drop(args, i)
  local queue, jids = chosen('entities.drop', args, i, retrying)
  return each_waiting(queue, jids, function(record)
    Job.remove(record.jid, record, 'call')
    Cascade.follow(record.jid, 'gone')
    return 1
  end)
end
