-- The server's clock, and the record of the namespace that keeps it: meta.
local Texts, Errors, Arguments, scope, key =
  Qless.Texts, Qless.Errors, Qless.Arguments, Qless.scope, Qless.key

local Clock = {}
Qless.Clock = Clock

local call, format, rep, floor = redis.call, string.format, string.rep, math.floor

-- A kept time this far ahead of the server is not drift but a failover to a skewed replica.
local TOO_FAR = 60

local EVERY = 64

local OLDEST, NEWEST = Qless.format.oldest, Qless.format.newest
local WRITTEN = format('%d', NEWEST)

-- kept and token as meta has them; last: the last token drawn, as text; older: meta does not say the
-- format yet that this build writes
local kept, token, drawn, last, server, skewed, older

-- shifts: what skews have left to do, as meta has it; ahead: by how much the clock was set back just now
local shifts, ahead

function Clock.reset()
  kept, token, drawn, last, server, skewed, older = nil, nil, 0, nil, false, false, false
  shifts, ahead = false, nil
end

-- Refuses a namespace that this build cannot work on.
local function check_format(text)
  local number = tonumber(text or 1)
  older = true
  if not (number and number <= NEWEST) then
    local words = 'the namespace stores format %s, this build of django_qless reads %d to %d: '
      .. 'upgrade the workers and web processes that still run this build'
    Errors.raise('FORMAT', format(words, Errors.name(text), OLDEST, NEWEST))
  elseif number < OLDEST then
    local words = 'the namespace stores format %s, this build of django_qless reads %d to %d: '
      .. 'let workers of the build before drain it first'
    Errors.raise('FORMAT', format(words, Errors.name(text or 1), OLDEST, NEWEST))
  end
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
  local meta = call('HMGET', key.meta(), 'clock', 'token', 'format', 'shifts')
  kept, token = tonumber(meta[1]), tonumber(meta[2]) or 0
  if meta[3] ~= WRITTEN then
    check_format(meta[3])
  end
  if text ~= '*' then
    scope.now = Arguments.number('now', 'now', text)
    return
  end
  server, shifts = true, meta[4]
  take_server_time()
  ahead = kept and kept - scope.now or 0
  if ahead > TOO_FAR then
    skewed = true
  elseif ahead > 0 then
    scope.now = kept
    Texts.begin()
  end
end

-- Only the server's clock is set back, and not that of a caller. -> what is left to do after skews, as
-- text; by how many seconds the clock was set back since the last call, from when, and when it had gone
-- ahead by much
function Clock.skew()
  if skewed then
    return shifts, ahead, kept, call('HGET', key.meta(), 'leap')
  end
  return shifts
end

function Clock.keep_shifts(text)
  if text then
    call('HSET', key.meta(), 'shifts', text)
  elseif shifts then
    call('HDEL', key.meta(), 'shifts')
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
  if older then
    call('HSET', name, 'format', WRITTEN)
  end
  if skewed then
    call('HINCRBY', name, 'skews', 1)
  elseif server and ahead < -TOO_FAR then
    -- It has gone ahead, or nobody has called for long. If it goes back, that tells which it was.
    call('HSET', name, 'leap', format('%.6f %.6f', kept, scope.now))
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
