-- The server's clock, and the record of the namespace that keeps it: meta.
local Arguments, scope, key = Qless.Arguments, Qless.scope, Qless.key

local Clock = {}
Qless.Clock = Clock

local call, format = redis.call, string.format

-- A kept time this far ahead of the server is not drift but a failover to a skewed replica.
local TOO_FAR = 60

local kept, token, drawn, server, skewed

function Clock.reset()
  kept, token, drawn, server, skewed = nil, nil, 0, false, false
end

local function server_time()
  local time = call('TIME')
  return tonumber(time[1]) + tonumber(time[2]) / 1e6
end

-- Sets the time of a call with KEYS. Within a namespace the server's clock never goes back.
function Clock.set(text)
  local meta = call('HMGET', key.meta(), 'clock', 'token')
  kept, token = tonumber(meta[1]), tonumber(meta[2]) or 0
  if text ~= '*' then
    scope.now = Arguments.number('now', 'now', text)
    return
  end
  server = true
  local now = server_time()
  if kept and kept > now then
    if kept - now <= TOO_FAR then
      now = kept
    else
      skewed = true
    end
  end
  scope.now = now
end

-- A new fencing token: rises for ever, whatever becomes of the jobs.
function Clock.draw()
  if scope.keyed then
    drawn = drawn + 1
    return Qless.whole(token + drawn)
  end
  return call('HINCRBY', key.meta(), 'token', 1)
end

-- Written only when the call has succeeded: a refused call does not advance the clock.
function Clock.keep()
  local name = key.meta()
  local drew = drawn > 0 or not kept
  if server and drew then
    call('HSET', name, 'clock', format('%.6f', scope.now), 'token', format('%.0f', token + drawn))
  elseif server then
    call('HSET', name, 'clock', format('%.6f', scope.now))
  elseif drew then
    call('HSET', name, 'token', format('%.0f', token + drawn))
  end
  if skewed then
    call('HINCRBY', name, 'skews', 1)
  end
end

-- meta
function Clock.show()
  local fields, record = call('HGETALL', key.meta()), { now = format('%.6f', scope.now) }
  for i = 1, #fields, 2 do
    record[fields[i]] = fields[i + 1]
  end
  return cjson.encode(record)
end
