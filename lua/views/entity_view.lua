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

local MOST_LOCKS = 5000 -- of a queue, that one call looks at

-- The jids of a queue's entities in workers' hands, and how many these are. (Locks beyond the first ones are taken
-- to be entities': few queues have that many, and fewer have other jobs, too.)
local function running(queue)
  local name, jids = key.place(queue, 'locks'), {}
  local locks = call('ZRANGE', name, 0, MOST_LOCKS - 1)
  for _, jid in ipairs(locks) do
    if Entity.is_jid(jid) then
      jids[#jids + 1] = jid
    end
  end
  return jids, call('ZCARD', name) - #locks + #jids
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
  elseif tab == 'running' then
    local jids
    jids, total = running(queue)
    for n = offset + 1, math.min(#jids, offset + count) do
      shown[#shown + 1] = of_job(jids[n], true)
    end
  elseif LISTS[tab] then
    local name = key[LISTS[tab]](queue)
    total = call('ZCARD', name)
    for _, jid in ipairs(call('ZRANGE', name, offset, last)) do
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

-- What of a kind was counted in these minutes.
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

-- How long the oldest due entity has waited, in seconds.
local function lag_of(queue)
  local oldest = scope.now
  for _, list in ipairs({ key.fresh(queue), key.retrying(queue) }) do
    local head = call('ZRANGE', list, 0, 0, 'WITHSCORES')
    oldest = head[2] and math.min(oldest, tonumber(head[2])) or oldest
  end
  return scope.now - oldest
end

-- How many entities of a list may run later only.
local function delayed(list)
  return call('ZCOUNT', list, '(' .. string.format('%.17g', scope.now), '+inf')
end

-- entities.counts [queue...] -> of each queue with entities: its name and job type, how many are queued (of these
-- fresh and retrying, and delayed), running, dead, the lag in seconds; what was processed and has died in the last
-- hour. Other jobs of the queue are not counted.
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
  for n = 1, math.min(#queues, Arguments.most) do
    local queue = queues[n]
    local _, busy = running(queue)
    local fresh, retrying = call('ZCARD', key.fresh(queue)), call('ZCARD', key.retrying(queue))
    shown[n] = cjson.encode({
      queue = queue,
      klass = types[queue] or '',
      queued = fresh + retrying,
      fresh = fresh,
      retries = retrying,
      delayed = delayed(key.fresh(queue)) + delayed(key.retrying(queue)),
      busy = busy,
      dead = call('ZCARD', key.dead(queue)),
      lag = lag_of(queue),
      processed = counted(queue, 'processed', minute - 59, minute),
      failed = counted(queue, 'died', minute - 59, minute),
    })
  end
  return '[' .. table.concat(shown, ',') .. ']'
end
