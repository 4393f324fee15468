-- Jobs that a job has spawned: its dependents wait for them as well.
--
-- The links are made late. A dependent waits for the spawner; when that is complete, for those of
-- its spawned jobs that are not (as many at a time as a call may link); when nothing is left, it is free.
-- It does not wait for a spawned job that waits for it at that time: so there is no cycle.

-- spawned:<jid> has 0 for jobs that are on their way, 1 for those that have failed.
local ON_ITS_WAY, FAILED = '0', '1'

local FEW = 10 -- spawned jobs that are looked at one by one

local function list_of(text)
  return Record.read('spawners', text, {})
end

local function has(list, jid)
  for _, one in ipairs(list) do
    if one == jid then
      return true
    end
  end
  return false
end

-- Has the spawner spawned this job, which is not complete?
function Spawned.is_one(spawner, jid)
  return call('ZSCORE', key.spawned(spawner), jid) and true or false
end

function Spawned.has_unfinished(spawner)
  return call('EXISTS', key.spawned(spawner)) == 1
end

-- Those of the jids that do not wait for the dependent; if there are none, one of the first thousand.
local function harmless(dependent, name, jids, most)
  local good, tired = CycleDetection.harmless(dependent, jids)
  if #good == 0 and #jids == most and most < Arguments.most then
    jids = call('ZRANGEBYSCORE', name, ON_ITS_WAY, ON_ITS_WAY, 'LIMIT', '0', Arguments.most)
    good, tired = CycleDetection.harmless(dependent, jids)
    good = { good[1] }
  end
  return good, tired
end

-- The few that are left may be there for nothing: a job whose field `spawners` could not be read has not
-- said that it has ended.
local function without_ended(name, jids)
  local left = {}
  for _, jid in ipairs(jids) do
    if (call('HGET', key.job(jid), 'state') or 'complete') ~= 'complete' then
      left[#left + 1] = jid
    elseif not scope.reading then
      call('ZREM', name, jid)
    end
  end
  return left
end

-- What a dependent of the spawner has to wait for: at most so many jids (one is enough: there is
-- another look when they are done). And one that has failed, if any. With `dependent` only what does not
-- wait for that; and whether there is more than this call can see.
function Spawned.unfinished(spawner, policy, most, dependent)
  local name, tired = key.spawned(spawner), false
  most = math.max(1, math.min(most, Arguments.most))
  local jids = call('ZRANGEBYSCORE', name, ON_ITS_WAY, ON_ITS_WAY, 'LIMIT', '0', most)
  if #jids <= FEW then
    jids = without_ended(name, jids)
  end
  if dependent and #jids > 0 then
    jids, tired = harmless(dependent, name, jids, most)
  end
  local failed = call('ZRANGEBYSCORE', name, FAILED, FAILED, 'LIMIT', '0', '1')[1]
  if failed and #jids == 0 and policy ~= 'run' then
    jids[1] = failed
  end
  return jids, failed, tired
end

-- The spawner is complete: its dependent waits for what it has spawned, unless it is one of those.
function Spawned.look_beyond(jid, spawner)
  local its_beyond, spawners = Hash.values(key.job(jid), 'beyond', 'spawners')
  local beyond = list_of(its_beyond)
  if not has(beyond, spawner) and not has(list_of(spawners), spawner) then
    beyond[#beyond + 1] = spawner
    call('HSET', key.job(jid), 'beyond', cjson.encode(beyond), 'rare', '1')
  end
end

local function write_beyond(jid, beyond)
  if #beyond > 0 then
    call('HSET', key.job(jid), 'beyond', cjson.encode(beyond))
  else
    call('HDEL', key.job(jid), 'beyond')
  end
end

-- A job waits for these spawners' jobs no longer; nil: for none.
function Spawned.forget_beyond(jid, spawners)
  local text = call('HGET', key.job(jid), 'beyond')
  if text then
    local rest = {}
    for _, spawner in ipairs(list_of(text)) do
      if spawners and not has(spawners, spawner) then
        rest[#rest + 1] = spawner
      end
    end
    write_beyond(jid, rest)
  end
end

-- This call has looked so far for others that it cannot say what the job has to wait for: a later one
-- does, as if the spawner were complete only then. -> whether that can be
local function put_off(jid, spawner)
  if (call('HGET', key.job(spawner), 'state') or 'complete') ~= 'complete' then
    return false
  end
  Dependencies.link(jid, { spawner })
  Dependencies.spend(Dependencies.left())
  call('ZADD', key.releasing(), scope.now, spawner)
  return true
end

-- Nothing else holds the job back: is there something spawned? Then it waits for that, or is
-- canceled with what has failed of it. -> whether it must not start
function Spawned.holds_back(jid, text, policy)
  local beyond, open, fresh = {}, {}, CycleDetection.is_fresh()
  for _, spawner in ipairs(list_of(text)) do
    local jids, failed, tired = Spawned.unfinished(spawner, policy, Dependencies.left(), jid)
    if tired and not fresh and #jids == 0 and put_off(jid, spawner) then
      return true
    elseif failed and policy == 'cancel' then
      Cascade.cancel(jid, 'dependency', failed)
      return true
    elseif #jids > 0 then
      beyond[#beyond + 1] = spawner
      Dependencies.spend(#jids)
      for n = 1, #jids do
        open[#open + 1] = jids[n]
      end
    end
  end
  write_beyond(jid, beyond)
  Dependencies.link(jid, open, policy)
  return #open > 0
end

-- Leaves out the first of a job's spawners, those that have seen its end: a jid that is put again and
-- again would collect them for ever.
local function without_former(spawners, jid)
  local first, rest = 1, {}
  while first <= math.min(#spawners, Arguments.most) and not Spawned.is_one(spawners[first], jid) do
    first = first + 1
  end
  for n = first, #spawners do
    rest[#rest + 1] = spawners[n]
  end
  return rest
end

-- Has this job spawned the one with this record since it was put? It did so `since` then for the first time.
function Spawned.is_known(spawner, since, record)
  return has(list_of(record.more.spawners), spawner) and Record.read('time', record.time, 0) >= since
end

-- The job takes these under its wings: jid and state of each. (`since` is false if it has none yet since it was put.)
function Spawned.adopt(spawner, jobs, since)
  local name, scores, new = key.spawned(spawner), {}, {}
  for _, job in ipairs(jobs) do
    local spawners = list_of(call('HGET', key.job(job.jid), 'spawners'))
    if not has(spawners, spawner) then
      spawners = without_former(spawners, job.jid)
      spawners[#spawners + 1] = spawner
      call('HSET', key.job(job.jid), 'spawners', cjson.encode(spawners), 'rare', '1')
      new[#new + 1] = job.jid
    end
    if job.state ~= 'complete' then
      scores[#scores + 1] = job.state == 'failed' and FAILED or ON_ITS_WAY
      scores[#scores + 1] = job.jid
    end
  end
  if #scores > 0 then
    call('ZADD', name, unpack(scores))
  end
  call('HSET', key.job(spawner), 'rare', '1', 'spawns', since or NumberFormat.time())
  DependencyResults.add_offspring(spawner, new)
end

local function each(text, act)
  for _, spawner in ipairs(list_of(text)) do
    act(key.spawned(spawner))
  end
end

-- A job with this field `spawners` is complete, or gone.
function Spawned.done(jid, text)
  each(text, function(name)
    call('ZREM', name, jid)
  end)
end

function Spawned.failed(jid, text)
  each(text, function(name)
    call('ZADD', name, 'XX', FAILED, jid)
  end)
end

-- It had failed, and goes on.
function Spawned.goes_on(jid, text)
  each(text, function(name)
    call('ZADD', name, 'XX', ON_ITS_WAY, jid)
  end)
end
