-- The dead of a queue: payloads that have failed and will not run again, by entity, with the error.

local rcall = redis.call

local MOST = 250 -- entities named by one call

-- The fields of a job by which it can be made again.
local SAME = { 'klass', 'data', 'priority', 'retries', 'tags', 'context', 'batch', 'entity' }

-- Payloads (score, text …) of the entity with this record, and with `home`, are dead from now on; the caller moves them.
function Dead.add(call, record, failure, flat)
  if not flat[1] then
    return
  end
  local name, queue = Keys.dead_entity(call, record.jid), record.home
  local fields = { 'jid', record.jid, 'queue', queue, 'when', call.text }
  fields[7], fields[8], fields[9], fields[10] = 'group', failure.group, 'message', failure.message
  for _, field in ipairs(SAME) do
    if record[field] then
      fields[#fields + 1], fields[#fields + 2] = field, record[field]
    end
  end
  rcall('DEL', name)
  rcall('HSET', name, unpack(fields))
  rcall('ZADD', Keys.dead(call, queue), call.text, record.entity)
end

-- queue entity... -> the queue, the entities
function Dead.named(call, args, i)
  local queue, entities = Arguments.queue(call, args[i]), Pieces.rest(args, i + 1)
  if #entities > MOST then
    Errors.refuse(call, 'TOOBIG', '%s entities in one call, at most %s', #entities, MOST)
  end
  for _, entity in ipairs(entities) do
    Entities.id(call, entity)
  end
  return queue, entities
end

local function forget(call, jid, queue, entity)
  rcall('DEL', Keys.dead_entity(call, jid))
  rcall('ZREM', Keys.dead(call, queue), entity)
end

-- Puts an entity that is in no place into its queue, with a retry count of 0. -> the retries that remain
local function put(call, queue, jid, dead)
  local job = EntityPush.job(
    call,
    queue,
    { entity = dead.entity, jid = jid, data = dead.data, due = call.now },
    {
      klass = dead.klass,
      priority = tonumber(dead.priority) or 0,
      retries = tonumber(dead.retries) or 0,
      tag_list = Json.shown(dead.tags),
      context = dead.context,
      batch = dead.batch,
    }
  )
  Put.carry_out(call, Put.check(call, { jobs = { job } }), '')
  local remaining = Times.text(math.max(0, job.retries - 1))
  rcall('HSET', job.key, 'remaining', remaining)
  Entities.list(call, job)
  return remaining
end

local WAITING = { waiting = true, scheduled = true, stalled = true }

-- Makes the entity run now: one that waits as though it had never failed. An earlier call may have brought a part of the
-- dead back, and the entity still waits with that: the count is then as that call has set it. -> the retries that remain to
-- one that was in no place
local function run_now(call, queue, jid, dead)
  local job = Job.read(call, jid)
  if not job or job.state == 'complete' then
    return put(call, queue, jid, dead)
  elseif WAITING[job.state] then
    if Times.text(job.remaining) ~= dead.back then
      rcall('HSET', job.key, 'remaining', job.retries)
      rcall('ZREM', Keys.retrying(call, queue), jid)
    end
    Queue.run_now(call, Keys.queue(call, queue), job)
  end
end

-- dead.back queue entity... -> those that are dead no more: a call moves 1,000 payloads at most, and leaves the rest
function Dead.back(call, args, i)
  local queue, entities = Dead.named(call, args, i)
  local done, left = {}, Payloads.most
  for _, entity in ipairs(entities) do
    local jid = Entities.jid(queue, entity)
    local dead, name = Pieces.hash(Keys.dead_entity(call, jid)), Keys.dead_payloads(call, jid)
    if not dead.entity then
      done[#done + 1] = entity
    elseif left > 0 and not Entities.is_in_the_way(call, jid) then
      local flat = Payloads.lowest(name, left, Payloads.bytes * 8)
      left = left - #flat / 2
      local is_all = Payloads.move(name, Keys.payloads(call, jid), flat)
      local remaining = run_now(call, queue, jid, dead)
      Queue.register(call, Keys.queue(call, queue))
      if is_all then
        forget(call, jid, queue, entity)
        done[#done + 1] = entity
      elseif remaining then
        rcall('HSET', Keys.dead_entity(call, jid), 'back', remaining)
      end
    end
  end
  return done
end

-- dead.delete queue entity... -> how many were dead
function Dead.delete(call, args, i)
  local queue, entities = Dead.named(call, args, i)
  local number = 0
  for _, entity in ipairs(entities) do
    local jid = Entities.jid(queue, entity)
    number = number + rcall('EXISTS', Keys.dead_entity(call, jid))
    rcall('UNLINK', Keys.dead_payloads(call, jid))
    forget(call, jid, queue, entity)
  end
  return number
end
