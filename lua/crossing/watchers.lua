-- Watchers: namespaces that have stand-ins for a job of this one, and hear how it ends. A job that is watched has the
-- field `watched`. What has failed may go on, so it is watched until it is complete or gone.

-- How a job has ended, as the arguments of `ended`.
local function complete(jid)
  local result, ttl = call('GET', key.result(jid)), call('TTL', key.result(jid))
  return { jid, 'complete', result or '', NumberFormat.whole(math.max(ttl, 1)) }
end

local function failed(jid)
  local failure = Record.read('failure', call('HGET', key.job(jid), 'failure'), {})
  return { jid, 'failed', tostring(failure.group or 'failed'), tostring(failure.message or '') }
end

local HOW = { complete = complete, failed = failed }

local function outcome(jid, state)
  return HOW[state] and HOW[state](jid) or { jid, 'canceled' }
end

-- The job, which was watched, has ended so: complete, failed or canceled.
function Watchers.tell(jid, state)
  local args = outcome(jid, state)
  for _, name in ipairs(call('SMEMBERS', key.watchers(jid))) do
    Crossing.write(name, 'ended', args)
  end
  if state ~= 'failed' then
    call('DEL', key.watchers(jid))
    if state == 'complete' then
      call('HDEL', key.job(jid), 'watched')
    end
  end
end

-- This namespace hears how the job ends.
function Watchers.add(jid, name)
  call('SADD', key.watchers(jid), name)
  call('HSET', key.job(jid), 'watched', '1', 'rare', '1')
end

-- Where the job is, if not here; nil also if it has ended here.
local function elsewhere(jid, state, its_elsewhere)
  if state == 'complete' then
    return nil
  end
  return its_elsewhere or not state and call('GET', key.moved_to(jid)) or nil
end

-- watch jid namespace [complete]: tell that one how the job ends; at once if it has, and without a record as the
-- caller knows it. Called by a delivery.
function Watchers.watch(args, i)
  local jid, name = Arguments.name('watch', 'jid', args[i]), Arguments.name('watch', 'namespace', args[i + 1])
  local state, its_elsewhere = Hash.values(key.job(jid), 'state', 'elsewhere')
  local target = elsewhere(jid, state, its_elsewhere)
  if target == name then
    -- It has gone to the one that asks. Either it is on its way there, before this answer, which then has no effect; or
    -- it was there, and is no more.
    state = nil
  elseif target then
    Crossing.write(target, 'watch', { jid, name, args[i + 2] })
    return 0
  elseif not state and args[i + 2] == 'complete' then
    state = 'complete'
  end
  if state and state ~= 'complete' then
    Watchers.add(jid, name)
  end
  if not state or HOW[state] then
    Crossing.write(name, 'ended', outcome(jid, state))
  end
  return 1
end
