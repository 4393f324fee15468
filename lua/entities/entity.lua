-- Entities: the job that carries one, and the places where it is listed.

-- The id of the job that carries an entity of a queue.
function Entity.jid(queue, entity)
  return 'entity-' .. redis.sha1hex(queue .. '\0' .. entity)
end

-- Does a job of this id carry an entity? (As far as its id tells.)
function Entity.is_jid(jid)
  return #jid == 47 and string.find(jid, '^entity%-%x+$') ~= nil
end

-- An argument that names an entity.
function Entity.id(command, value)
  Arguments.name(command, 'entity', value)
  if #value > 255 then
    Errors.argument(command, 'entity must have 1 to 255 bytes, not ' .. #value)
  end
  return value
end

-- Is there a job of this id that carries no entity? It was put by other means.
function Entity.is_in_the_way(jid)
  local state, entity = Hash.values(key.job(jid), 'state', 'entity')
  return state and not entity
end

-- The job of an entity belongs to its queue.
function Entity.no_move(command, jid)
  return 'STATE', command .. '(): Job ' .. Errors.name(jid) .. ' carries an entity, which stays in its queue'
end

function Entity.refuse_move(command, job)
  if job.entity then
    Errors.raise(Entity.no_move(command, job.jid))
  end
end

function Entity.refuse_put(jid)
  Errors.raise('STATE', 'Job ' .. Errors.name(jid) .. ' carries an entity: push payloads to it instead')
end

-- The entity, which is in no list, waits from `due` on: it is listed as fresh, or as one whose last run has failed.
function Entity.listed(jid, queue, due, remaining, retries)
  local list = remaining < retries and key.retrying(queue) or key.fresh(queue)
  call('ZADD', list, string.format('%.17g', due), jid)
end

-- The entity does not wait any longer. (It was in one list, mostly that of the fresh ones.)
function Entity.unlisted(jid, queue)
  if call('ZREM', key.fresh(queue), jid) == 0 then
    call('ZREM', key.retrying(queue), jid)
  end
end

-- What was in a run's hands is in its queue again, with all that has been pushed meanwhile.
function Entity.returned(jid, queue)
  Payloads.give_back(jid)
  local remaining, retries, time = Hash.values(key.job(jid), 'remaining', 'retries', 'time')
  local due = call('ZSCORE', key.place(queue, 'scheduled'), jid) or Record.read('time', time, scope.now)
  retries = Record.read('retries', retries, 0)
  Entity.listed(jid, queue, tonumber(due), Record.read('remaining', remaining, retries), retries)
end

-- The entity is in no place, and goes on at once as though it had never failed; the record may be in any state.
function Entity.again(jid, queue)
  local priority, retries = Hash.values(key.job(jid), 'priority', 'retries')
  priority, retries = Record.read('priority', priority, 0), Record.text('retries', retries, '0')
  call('ZREM', key.completed(), jid)
  call(
    'HSET',
    key.job(jid),
    'state',
    'waiting',
    'worker',
    '',
    'expires',
    '0',
    'queue',
    queue,
    'remaining',
    retries,
    'time',
    NumberFormat.time()
  )
  call('HDEL', key.job(jid), 'crashes', 'unknown', 'grace', 'progress', 'waited', 'returned')
  History.put(jid, queue)
  Places.work(jid, queue, priority)
  call('ZADD', key.fresh(queue), NumberFormat.now(), jid)
end

-- The runs of these jobs are complete, and their payloads are done. What was pushed meanwhile is next.
function Entity.completed(jids)
  local taken, payloads = {}, {}
  for n, jid in ipairs(jids) do
    taken[n], payloads[n] = key.taken(jid), key.payloads(jid)
  end
  call('DEL', unpack(taken))
  if call('EXISTS', unpack(payloads)) == 0 then
    return
  end
  for n, jid in ipairs(jids) do
    if call('EXISTS', payloads[n]) == 1 then
      Entity.again(jid, call('HGET', key.job(jid), 'home'))
    end
  end
end

-- The job was canceled, or is erased: so are its payloads.
function Entity.gone(jid, queue)
  call('UNLINK', key.payloads(jid)) -- there may be very many: their memory is freed in the background
  call('DEL', key.taken(jid))
  Entity.unlisted(jid, queue)
end
