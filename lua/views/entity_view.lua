-- Entities as pages and handles show them; nothing here writes.

local LISTS = { fresh = 'fresh', retrying = 'retrying', dead = 'dead' }
local SHOWN = 256 * 1024 -- bytes of payloads in one reply

-- A part of a set of payloads: [[score, text] …], as JSON.
local function payloads(name, offset, count)
  local flat, shown, bytes = call('ZRANGE', name, offset, offset + count - 1, 'WITHSCORES'), {}, 0
  for n = 1, #flat, 2 do
    bytes = bytes + #flat[n]
    if bytes > SHOWN and n > 1 then
      break
    end
    shown[#shown + 1] = '[' .. cjson.encode(flat[n + 1]) .. ',' .. flat[n] .. ']'
  end
  return '[' .. table.concat(shown, ',') .. ']'
end

-- In lists an error is one line: a whole one may have 64 KiB.
local function shortened(message, is_row)
  return is_row and type(message) == 'string' and Headline.of(message) or message
end

local function of_dead(jid, is_row)
  local dead = Hash.all(key.dead_entity(jid))
  if not dead.entity then
    return nil
  end
  return {
    entity = dead.entity,
    jid = jid,
    klass = dead.klass or '',
    data = dead.data or '',
    group = dead.group or '',
    message = shortened(dead.message or '', is_row),
    when = tonumber(dead.when) or 0,
    payloads = call('ZCARD', key.dead_payloads(jid)),
  }
end

-- The job that carries an entity, or nil.
local function of_job(jid, is_row)
  local record = Job.read(jid, true)
  if not record or not record.entity then
    return nil
  end
  local state, due = Places.state_now(jid, record.queue, record.state)
  local retries = Record.read('retries', record.retries, 0)
  local failure = Record.read('failure', record.failure, {})
  failure.message = shortened(failure.message, is_row)
  return {
    entity = record.entity,
    jid = jid,
    klass = record.klass or '',
    data = record.data or '',
    state = state,
    worker = record.worker or '',
    retries = retries,
    count = retries - Record.read('remaining', record.remaining, retries) - 1,
    due = tonumber(due or Record.read('time', record.time, 0)),
    payloads = call('ZCARD', key.payloads(jid)),
    taken = call('ZCARD', key.taken(jid)),
    failure = failure,
    crashes = Record.read('crashes', record.crashes, 0),
  }
end

-- entity.show queue entity [offset count] -> what there is of it: its job, its payloads, what of it is dead
function EntityView.show(args, i)
  local queue, entity = Arguments.queue('entity.show', args[i]), Entity.id('entity.show', args[i + 1])
  local offset = math.max(0, Arguments.offset('entity.show', args[i + 2]))
  local count = math.max(1, Arguments.count('entity.show', args[i + 3], 25))
  local jid = Entity.jid(queue, entity)
  local job, dead = of_job(jid), of_dead(jid)
  return Json.with(
    cjson.encode({ entity = entity, jid = jid, queue = queue }),
    'job',
    job and cjson.encode(job) or 'null',
    'dead',
    dead and cjson.encode(dead) or 'null',
    'waiting',
    payloads(key.payloads(jid), offset, count),
    'running',
    payloads(key.taken(jid), offset, count),
    'dying',
    payloads(key.dead_payloads(jid), offset, count)
  )
end

-- The jids of the entities in a worker's hands. (Of these one call looks at so many.)
local function running(queue, offset, count)
  return call('ZRANGE', key.place(queue, 'locks'), offset, offset + count - 1)
end

-- entities.list fresh|retrying|running|dead|dead-ids queue [offset count] -> how many there are, and some: the
-- next to run first; of the dead the latest first, or in the order of their ids
function EntityView.list(args, i)
  local tab = Arguments.given('entities.list', 'list', args[i])
  local queue = Arguments.queue('entities.list', args[i + 1])
  local offset = math.max(0, Arguments.offset('entities.list', args[i + 2]))
  local count = math.max(1, Arguments.count('entities.list', args[i + 3], 25))
  local shown, total, last = {}, 0, offset + count - 1
  if tab == 'dead' or tab == 'dead-ids' then
    total = call('ZCARD', key.dead(queue))
    local ids = tab == 'dead' and call('ZREVRANGE', key.dead(queue), offset, last)
      or call('ZRANGE', key.dead_ids(queue), offset, last)
    for _, entity in ipairs(ids) do
      shown[#shown + 1] = of_dead(Entity.jid(queue, entity), true)
    end
  elseif tab == 'running' or LISTS[tab] then
    local name = tab == 'running' and key.place(queue, 'locks') or key[LISTS[tab]](queue)
    total = call('ZCARD', name)
    local jids = tab == 'running' and running(queue, offset, count) or call('ZRANGE', name, offset, last)
    for _, jid in ipairs(jids) do
      shown[#shown + 1] = of_job(jid, true)
    end
  else
    Errors.argument('entities.list', 'Unknown list ' .. Errors.name(tab))
  end
  local texts = {}
  for n, row in ipairs(shown) do
    texts[n] = cjson.encode(row)
  end
  return '{"total":' .. total .. ',"entities":[' .. table.concat(texts, ',') .. ']}'
end

-- The jobs of a kind that the last `minutes` have counted.
local function counted(queue, kind, from, to)
  local number = 0
  for hour = math.floor(from / 60), math.floor(to / 60) do
    local found = call('HGETALL', key.minutes(queue, hour, kind))
    for n = 1, #found, 2 do
      local minute = hour * 60 + tonumber(found[n])
      number = number + (minute >= from and minute <= to and tonumber(found[n + 1]) or 0)
    end
  end
  return number
end

-- The runs that ended well from a minute on, and that the counters do not have yet: by queue.
local function buffered(from)
  local numbers = {}
  StatsBuffer.read(function(second, kind, _, n, queue)
    if Minutes.buffered[kind] == 'completed' and math.floor(second / 60) >= from then
      numbers[queue] = (numbers[queue] or 0) + n
    end
  end)
  return numbers
end

-- entities.counts [queue...] -> of each queue with entities: its name and job type, how many are queued (of these
-- fresh and retrying), running, dead, the lag in seconds; what was processed and has failed in the last hour
function EntityView.counts(args, i)
  local types, shown, queues = Hash.all(key.entity_types()), {}, {}
  Arguments.bounded('entities.counts', #args - i + 1)
  for n = i, #args do
    queues[#queues + 1] = args[n]
  end
  if #queues == 0 then
    for queue in pairs(types) do
      queues[#queues + 1] = queue
    end
    table.sort(queues)
  end
  local minute = math.floor(scope.now / 60)
  local uncounted = buffered(minute - 59)
  for n = 1, math.min(#queues, Arguments.most) do
    local queue = queues[n]
    local fresh, retrying = call('ZCARD', key.fresh(queue)), call('ZCARD', key.retrying(queue))
    shown[n] = cjson.encode({
      queue = queue,
      klass = types[queue] or '',
      queued = fresh + retrying,
      fresh = fresh,
      retries = retrying,
      busy = call('ZCARD', key.place(queue, 'locks')),
      dead = call('ZCARD', key.dead(queue)),
      lag = QueueStats.lag_of(queue),
      processed = counted(queue, 'completed', minute - 59, minute) + (uncounted[queue] or 0),
      failed = counted(queue, 'failed', minute - 59, minute),
    })
  end
  return '[' .. table.concat(shown, ',') .. ']'
end
