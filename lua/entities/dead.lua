-- The dead of a queue: payloads that have failed for good, by entity, with the error.

local MOST = 250 -- entities named by one call

-- The fields of a job by which it can be made again.
local SAME = { 'klass', 'data', 'priority', 'retries', 'tags', 'context', 'batch', 'entity' }

-- Payloads (score, text …) of the entity with this record are dead from now on; they are moved by the caller.
function Dead.add(record, queue, group, message, flat)
  if not flat[1] then
    return
  end
  local jid = record.jid
  local fields =
    { 'jid', jid, 'queue', queue, 'group', group, 'message', message, 'when', NumberFormat.now() }
  for _, name in ipairs(SAME) do
    local text = Record.text(name, record[name])
    if text then
      fields[#fields + 1], fields[#fields + 2] = name, text
    end
  end
  call('DEL', key.dead_entity(jid))
  call('HSET', key.dead_entity(jid), unpack(fields))
  call('ZADD', key.dead(queue), NumberFormat.now(), record.entity)
  call('ZADD', key.dead_ids(queue), 0, record.entity)
end

local function forget(jid, queue, entity)
  call('DEL', key.dead_entity(jid))
  call('ZREM', key.dead(queue), entity)
  call('ZREM', key.dead_ids(queue), entity)
end

-- queue entity... -> the queue, the entities
local function named(command, args, i)
  local queue = Arguments.queue(command, args[i])
  if #args - i > MOST then
    Errors.raise('TOOBIG', '%s(): %s entities in one call, at most %s', command, #args - i, MOST)
  end
  local entities = {}
  for n = i + 1, #args do
    entities[#entities + 1] = Entity.id(command, args[n])
  end
  return queue, entities
end

Dead.named = named

-- Makes the entity run now: one that is in no place with a retry count of 0, one that waits as though it had
-- never failed. An earlier call may have brought a part of the dead back, and the entity still waits with that: the
-- count is then as that call has set it. -> the retries that remain to one that was in no place
local function run_now(queue, entity, jid, record)
  local state, remaining, retries = Hash.values(key.job(jid), 'state', 'remaining', 'retries')
  if not state or state == 'complete' then
    record.queue, record.retries = queue, Record.read('retries', record.retries, 0)
    record.priority, record.tags =
      Record.read('priority', record.priority, 0), Record.read('tags', record.tags)
    EntityPush.enqueue(record, entity, jid, nil, '')
    remaining = math.max(0, record.retries - 1)
    call('HSET', key.job(jid), 'remaining', remaining)
    Entity.unlisted(jid, queue)
    Entity.listed(jid, queue, scope.now, remaining, record.retries)
    return remaining
  elseif state == 'waiting' or state == 'scheduled' or state == 'stalled' then
    if remaining ~= record.back then
      call('HSET', key.job(jid), 'remaining', Record.text('retries', retries, '0'))
    end
    EntityActions.run_now(jid, queue)
  end
end

-- dead.back queue entity... -> those that are dead no more: a call moves so many payloads, and leaves the rest
function Dead.back(args, i)
  local queue, entities = named('dead.back', args, i)
  local done, left, moved = {}, Payloads.most, false
  for _, entity in ipairs(entities) do
    local jid = Entity.jid(queue, entity)
    local record = Hash.all(key.dead_entity(jid))
    if not record.entity then
      done[#done + 1] = entity
    elseif left > 0 and not Entity.is_in_the_way(jid) then
      local flat = Payloads.lowest(key.dead_payloads(jid), left, Payloads.bytes * 8)
      left = left - #flat / 2
      local is_all = Payloads.move_all(key.dead_payloads(jid), key.payloads(jid), flat)
      local remaining = run_now(queue, entity, jid, record)
      moved = true
      if is_all then
        forget(jid, queue, entity)
        done[#done + 1] = entity
      elseif remaining then
        call('HSET', key.dead_entity(jid), 'back', remaining)
      end
    end
  end
  if moved then
    Places.register(queue)
  end
  return done
end

-- dead.delete queue entity... -> how many were dead
function Dead.delete(args, i)
  local queue, entities = named('dead.delete', args, i)
  local number = 0
  for _, entity in ipairs(entities) do
    local jid = Entity.jid(queue, entity)
    number = number + call('EXISTS', key.dead_entity(jid))
    call('UNLINK', key.dead_payloads(jid))
    forget(jid, queue, entity)
  end
  return number
end
