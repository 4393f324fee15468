-- The server's clock, and the record of the namespace that keeps it: meta.
local Texts, Arguments, scope, key = Qless.Texts, Qless.Arguments, Qless.scope, Qless.key

local Clock = {}
Qless.Clock = Clock

local call, format, rep, floor = redis.call, string.format, string.rep, math.floor

-- A kept time this far ahead of the server is not drift but a failover to a skewed replica.
local TOO_FAR = 60

local EVERY = 64

-- kept and token as meta has them; last: the last token drawn, as text
local kept, token, drawn, last, server, skewed

function Clock.reset()
  kept, token, drawn, last, server, skewed = nil, nil, 0, nil, false, false
end

-- What stands before the microseconds, by how many digits they have.
local BEFORE = {}
for digits = 1, 6 do
  BEFORE[digits] = '.' .. rep('0', 6 - digits)
end

local function take_server_time()
  local time = call('TIME')
  local second, rest = time[1], BEFORE[#time[2]] .. time[2]
  scope.now = tonumber(second .. rest)
  Texts.begin(second, rest)
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
  take_server_time()
  local ahead = kept and kept - scope.now or 0
  if ahead > TOO_FAR then
    skewed = true
  elseif ahead > 0 then
    scope.now = kept
    Texts.begin()
  end
end

-- A new fencing token: rises for ever, whatever becomes of the jobs.
function Clock.draw()
  if scope.keyed then
    drawn = drawn + 1
    last = Texts.whole(token + drawn)
    return last
  end
  return call('HINCRBY', key.meta(), 'token', 1)
end

-- Is it time for what has to be looked after, but not at each call? So in the first call of a
-- second, and for one in EVERY tokens.
function Clock.is_round()
  return token % EVERY == 0 or not kept or floor(kept) ~= floor(scope.now)
end

-- Written only when the call has succeeded: a refused call does not advance the clock.
function Clock.keep()
  local name = key.meta()
  if not last and not kept then
    last = Texts.whole(token)
  end
  if server and last then
    call('HSET', name, 'clock', Texts.now(), 'token', last)
  elseif server then
    call('HSET', name, 'clock', Texts.now())
  elseif last then
    call('HSET', name, 'token', last)
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
