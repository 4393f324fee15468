-- The least that a queue which loses no job has to do, as one script.
-- ARGV: put clock (id data)... | pop clock worker count | complete clock worker id...
-- Keys: f:j:<id> the job, f:ready by order of arrival, f:held by expiry of the lock, f:done
local LOCK = 60
local call = redis.call
local command, clock = ARGV[1], tonumber(ARGV[2])

local function record(id)
  return 'f:j:' .. id
end

local function put(id, data)
  call('HSET', record(id), 'id', id, 'name', 'app.jobs.noop', 'data', data, 'queue', 'bench', 'state', 'ready',
    'holder', '', 'priority', 0, 'retries', 5, 'expires', 0, 'since', clock)
  call('ZADD', 'f:ready', clock, id)
end

local function hand_out(id, worker)
  local expires = clock + LOCK
  call('ZADD', 'f:held', expires, id)
  call('HSET', record(id), 'state', 'held', 'holder', worker, 'expires', expires)
  local job = call('HMGET', record(id), 'name', 'data')
  return { id, job[1], job[2] }
end

local function pop(worker, count)
  local ids = call('ZRANGE', 'f:ready', 0, count - 1)
  if #ids == 0 then
    return {}
  end
  call('ZREM', 'f:ready', unpack(ids))
  local jobs = {}
  for i, id in ipairs(ids) do
    jobs[i] = hand_out(id, worker)
  end
  return jobs
end

local function complete(id)
  if call('ZREM', 'f:held', id) == 0 then
    return 0
  end
  call('HSET', record(id), 'state', 'done', 'holder', '', 'expires', 0)
  call('ZADD', 'f:done', clock, id)
  return 1
end

if command == 'put' then
  for i = 3, #ARGV, 2 do
    put(ARGV[i], ARGV[i + 1])
  end
elseif command == 'pop' then
  return pop(ARGV[3], tonumber(ARGV[4]))
elseif command == 'complete' then
  local done = 0
  for i = 4, #ARGV do
    done = done + complete(ARGV[i])
  end
  return done
else
  return redis.error_reply('ERR floor.lua has no command ' .. tostring(command))
end
