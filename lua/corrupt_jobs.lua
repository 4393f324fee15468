-- Jobs whose records cannot be read: they fail as such, with all that is known of them, so that neither
-- they nor their queue are lost; and can be enqueued again, with defaults.

local GROUP = 'corrupt-record'

-- Fails a job, which must not have ended, because of this field with this text. `place` is the queue in whose
-- hands it was, if the caller knows that.
function CorruptJobs.fail(jid, field, text, place)
  local its_state, its_queue, its_worker, its_rare, its_entity =
    Hash.values(key.job(jid), 'state', 'queue', 'worker', 'rare', 'entity')
  local was, queue, worker = its_state, its_queue or place or '', its_worker or ''
  was = Record.read('state', was, 'waiting')
  local message = Record.words(field, text or '')
  Places.leave(jid, queue)
  if place and place ~= queue then
    Places.leave(jid, place)
  end
  Job.unhold(jid, worker)
  if was == 'running' then
    Events.lock_lost(jid, worker)
  elseif was == 'depends' then
    Dependencies.unlink_all(jid)
  end
  call('HSET', key.job(jid), 'queue', queue)
  call('HDEL', key.job(jid), 'token')
  History.failed(jid, GROUP, worker ~= '' and worker or nil, message)
  Outcome.write_failed(
    { jid = jid, queue = queue, rare = its_rare, state = was, entity = its_entity },
    GROUP,
    message,
    math.floor(scope.now)
  )
  if Tracking.is_tracked(jid) then
    Events.tracked('failed', jid)
  end
  Events.failed(jid, GROUP, message, worker)
end

-- A job was met in the hands of a queue, with this text as its state (or none). If that is no state
-- at all it fails.
function CorruptJobs.look_at_state(jid, state, queue)
  if not Record.is_state(state) and call('EXISTS', key.job(jid)) == 1 then
    CorruptJobs.fail(jid, 'state', state, queue)
  end
end

-- What takes the place of what cannot be read; of the others nothing does.
local DEFAULTS = { priority = '0', retries = '5', remaining = '0', tags = '{}', failure = '{}', time = '0' }

local OTHERS = { 'beyond', 'first', 'unknown', 'cascade' }

-- A failed job is enqueued again: puts defaults in the place of what cannot be read, in its record and
-- in the one given, which Job.read has made.
function CorruptJobs.mend(record)
  local jid, mended = record.jid, {}
  if record.rare then
    for n, text in ipairs(call('HMGET', key.job(jid), unpack(OTHERS))) do
      record[OTHERS[n]] = text or nil
    end
  end
  for _, field in ipairs(Record.fields()) do
    if Record.is_bad(field, record[field]) then
      mended[#mended + 1] = cjson.encode(field)
      if field == 'tags' then
        Tags.unindex_all(jid, record.tags)
      end
      record[field] = DEFAULTS[field]
      if DEFAULTS[field] then
        call('HSET', key.job(jid), field, DEFAULTS[field])
      else
        call('HDEL', key.job(jid), field)
      end
    end
  end
  if #mended > 0 then
    History.add(jid, 'mended', '{"fields":[' .. table.concat(mended, ',') .. ']}')
  end
end
