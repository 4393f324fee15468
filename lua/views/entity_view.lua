-- Entities as pages and handles show them; nothing here writes.

local rcall = redis.call

local SHOWN = 256 * 1024 -- bytes of payloads in one reply
local PIECE, MOST = 100, 5000 -- jobs of a queue looked at together, and by one call

-- A part of a set of payloads: [[score, text] …], as JSON.
local function payloads(name, offset, count)
  local flat, shown, bytes = rcall('ZRANGE', name, offset, offset + count - 1, 'WITHSCORES'), {}, 0
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

-- What of an entity is dead, or nil.
local function of_dead(call, jid, is_row)
  local dead = Pieces.hash(Keys.dead_entity(call, jid))
  return dead.entity
    and {
      entity = dead.entity,
      jid = jid,
      klass = dead.klass or '',
      data = dead.data or '',
      group = dead.group or '',
      message = shortened(dead.message or '', is_row),
      when = tonumber(dead.when) or 0,
      payloads = rcall('ZCARD', Keys.dead_payloads(call, jid)),
    }
end

-- The job that carries an entity, or nil.
local function of_job(call, jid, is_row)
  local job = Job.read(call, jid)
  if not job or not job.entity then
    return nil
  end
  local state, due = Job.state_now(call, jid, job.queue, job.state)
  local failure = Json.shown(job.failure)
  failure.message = shortened(failure.message, is_row)
  return {
    entity = job.entity,
    jid = jid,
    klass = job.klass or '',
    data = job.data or '',
    state = state,
    worker = job.worker or '',
    retries = job.retries,
    count = job.retries - job.remaining - 1,
    due = tonumber(due) or job.time,
    payloads = rcall('ZCARD', Keys.payloads(call, jid)),
    taken = rcall('ZCARD', Keys.taken(call, jid)),
    failure = failure,
    crashes = job.crashes,
  }
end

-- entity.show queue entity [offset count] -> what there is of it: its job, its payloads, what of it is dead
function EntityView.show(call, args, i)
  local queue, entity = Arguments.queue(call, args[i]), Entities.id(call, args[i + 1])
  local offset = math.max(0, Arguments.offset(call, args[i + 2]))
  local count = math.max(1, Arguments.count(call, args[i + 3], 25))
  local jid = Entities.jid(queue, entity)
  local job, dead = of_job(call, jid), of_dead(call, jid)
  return Json.with(
    cjson.encode({ entity = entity, jid = jid, queue = queue }),
    'job',
    job and cjson.encode(job) or 'null',
    'dead',
    dead and cjson.encode(dead) or 'null',
    'waiting',
    payloads(Keys.payloads(call, jid), offset, count),
    'running',
    payloads(Keys.taken(call, jid), offset, count),
    'dying',
    payloads(Keys.dead_payloads(call, jid), offset, count)
  )
end

-- How many jobs of a queue wait, or are delayed.
local function count_queued(call, queue)
  return rcall('ZCARD', queue.work) + Queue.count_parked(call, queue) + rcall('ZCARD', queue.scheduled)
end

local function count_retrying(call, queue)
  return rcall('ZCARD', Keys.retrying(call, queue.name))
end

-- Shows the jobs of a queue that wait or are delayed, in the order in which they are handed out, until visit(jid) says
-- that it is enough.
local function each_queued(call, queue, visit)
  for _, state in ipairs({ 'waiting', 'scheduled' }) do
    local at = 0
    repeat
      local jids = QueueView.jids(call, state, queue, { offset = at, count = PIECE })
      for _, jid in ipairs(jids) do
        if visit(jid) then
          return
        end
      end
      at = at + #jids
    until #jids < PIECE or at >= MOST
  end
end

-- Those of them whose last run has not failed. -> how many there are, some
local function fresh(call, queue, offset, count)
  local jids, retrying = {}, Keys.retrying(call, queue.name)
  each_queued(call, queue, function(jid)
    if not rcall('ZSCORE', retrying, jid) then
      offset = offset - 1
      jids[#jids + 1] = offset < 0 and jid or nil
    end
    return #jids == count
  end)
  return count_queued(call, queue) - count_retrying(call, queue), jids
end

-- The key of a list, and whether the last come first; nil if there is no such list.
local function key_of(call, list, queue)
  if list == 'retrying' then
    return Keys.retrying(call, queue.name), false
  elseif list == 'running' then
    return queue.locks, false
  elseif list == 'dead' or list == 'oldest-dead' then
    return Keys.dead(call, queue.name), list == 'dead'
  end
end

-- entities.list fresh|retrying|running|dead|oldest-dead queue [offset count] -> how many there are, and some: the next to
-- run first; of the dead the latest first, or the oldest. (Other jobs of the queue are counted, and not shown.)
function EntityView.list(call, args, i)
  local list = Arguments.given(call, 'list', args[i])
  local queue = Keys.queue(call, Arguments.queue(call, args[i + 1]))
  local offset = math.max(0, Arguments.offset(call, args[i + 2]))
  local count = math.max(1, Arguments.count(call, args[i + 3], 25))
  local total, members
  if list == 'fresh' then
    total, members = fresh(call, queue, offset, count)
  else
    local name, last_first = key_of(call, list, queue)
    if not name then
      Errors.argument(call, 'Unknown list ' .. Errors.name(list))
    end
    total = rcall('ZCARD', name)
    members = rcall(last_first and 'ZREVRANGE' or 'ZRANGE', name, offset, offset + count - 1)
  end
  local texts = {}
  for _, member in ipairs(members) do
    local row
    if list == 'dead' or list == 'oldest-dead' then
      row = of_dead(call, Entities.jid(queue.name, member), true)
    else
      row = of_job(call, member, true)
    end
    texts[#texts + 1] = row and cjson.encode(row)
  end
  return '{"total":' .. total .. ',"entities":[' .. table.concat(texts, ',') .. ']}'
end

-- What the queue has completed and failed in the last hour.
local function of_last_hour(call, queue)
  local minute = math.floor(call.now / 60)
  local sums = { completed = 0, failed = 0 }
  Minutes.each(call, queue.name, { from = minute - 59, to = minute, kinds = sums }, function(kind, _, n)
    sums[kind] = sums[kind] + n
  end)
  return sums
end

local function counts(call, queue, klass)
  local retrying, done = count_retrying(call, queue), of_last_hour(call, queue)
  local number = count_queued(call, queue)
  return {
    queue = queue.name,
    klass = klass or '',
    queued = number,
    fresh = number - retrying,
    retries = retrying,
    delayed = rcall('ZCOUNT', queue.scheduled, '(' .. call.text, '+inf'),
    busy = rcall('ZCARD', queue.locks),
    dead = rcall('ZCARD', Keys.dead(call, queue.name)),
    lag = QueueStats.lag_of(call, queue),
    processed = done.completed,
    failed = done.failed,
  }
end

-- entities.counts [queue...] -> of each queue with entities: its name and job type, how many are queued (of these fresh and
-- retrying, and delayed), running, dead, the lag in seconds; what was processed and has died in the last hour
function EntityView.counts(call, args, i)
  local types, names, shown = Pieces.hash(call.keys.entity_types), Pieces.rest(args, i), {}
  Arguments.bounded(call, #names)
  if #names == 0 then
    for name in pairs(types) do
      names[#names + 1] = name
    end
    table.sort(names)
  end
  for n = 1, math.min(#names, Arguments.most) do
    shown[n] = cjson.encode(counts(call, Keys.queue(call, names[n]), types[names[n]]))
  end
  return '[' .. table.concat(shown, ',') .. ']'
end
