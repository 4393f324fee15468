-- The server's clock, and the record of the namespace that keeps it: meta.

local format, rep, floor, max = string.format, string.rep, math.floor, math.max

-- A kept time this far ahead of the server is not drift but a failover to a skewed replica.
local TOO_FAR = 60

local EVERY = 64

-- The number in meta says what a build must understand to work on what is stored. This build reads the
-- formats from OLDEST to NEWEST and continues them; NEWEST is the one that it writes. A namespace
-- without a number has format 1.
-- Raise NEWEST when a build that reads only the number before would lose jobs, or break, on what this one
-- stores: a field that means something else, a key of another type or name. Fields and keys that it
-- does not know, and need not know, are no reason. From then on its workers are refused as soon as one new
-- worker writes. Raise OLDEST when the code that reads the old forms is taken out.
local OLDEST, NEWEST = 1, 1
local WRITTEN = format('%d', NEWEST)

-- Of a call, in scope.clock:
--   kept, token  as meta has them
--   drawn, last  the last token that the call has drawn; the same as text
--   looked       when all queues were looked at last, see nonempty.lua
--   older        meta does not say the format yet that this build writes
--   time         the server's time, as TIME replies; nil if the caller gives another
--   ahead        by how much the kept time was ahead of it
--   skewed       and that is no drift

-- Refuses a namespace that this build cannot work on.
local function check_format(text)
  local number = tonumber(text or 1)
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

-- Sets the time of the call to that of the server.
local function take_server_time(time)
  local second, rest = time[1], BEFORE[#time[2]] .. time[2]
  scope.now, scope.second, scope.fraction = tonumber(second .. rest), second, rest
end

-- Sets the time of a call with KEYS. Within a namespace the server's clock never goes back. -> what stands in
-- another field of meta
function Clock.set(text, field)
  field = field or 'clock'
  local kept, token, written, looked, value =
    Hash.values(key.meta(), 'clock', 'token', 'format', Nonempty.looked, field)
  local clock = { kept = tonumber(kept), token = tonumber(token) or 0, looked = looked }
  scope.clock = clock
  if written ~= WRITTEN then
    clock.older = true
    check_format(written)
  end
  if text ~= '*' then
    scope.now = Arguments.number('now', 'now', text)
    return value
  end
  clock.time = call('TIME')
  take_server_time(clock.time)
  clock.ahead = clock.kept and clock.kept - scope.now or 0
  if clock.ahead > TOO_FAR then
    clock.skewed = true
  elseif clock.ahead > 0 then
    scope.now, scope.second, scope.fraction = clock.kept, nil, nil
  end
  return value
end

-- The last number that the first token of a call must exceed.
local function floor_of_tokens(clock)
  local time = clock.time
  local microseconds = time and tonumber(time[1]) * 1e6 + tonumber(time[2]) or 0
  return max(clock.token, microseconds - 1)
end

-- Draws a fencing token: the server's time in microseconds, or one more than the last token if that is more.
-- So a server that has lost its last writes, or a replica that lacked them, draws none of those again.
function Clock.draw()
  local clock = scope.clock
  clock.drawn = (clock.drawn or floor_of_tokens(clock)) + 1
  clock.last = NumberFormat.whole(clock.drawn)
  return clock.last
end

-- Is it time for what has to be looked after, but not at each call? So in the first call of a
-- second, and for one in EVERY tokens.
function Clock.is_round()
  local token, kept = scope.clock.token, scope.clock.kept
  return token > 0 and token % EVERY == 0 or not kept or floor(kept) ~= floor(scope.now)
end

-- Written only when the call has succeeded: a refused call does not advance the clock. Other fields of meta and
-- their values may be given, which are written with it.
function Clock.keep(...)
  local name, clock = key.meta(), scope.clock
  local last = clock.last
  if not last and not clock.kept then
    last = NumberFormat.whole(clock.token)
  end
  if clock.time and last then
    call('HSET', name, 'clock', NumberFormat.now(), 'token', last, ...)
  elseif clock.time then
    call('HSET', name, 'clock', NumberFormat.now(), ...)
  elseif last then
    call('HSET', name, 'token', last, ...)
  elseif ... then
    call('HSET', name, ...)
  end
  if clock.older then
    call('HSET', name, 'format', WRITTEN)
  end
  if clock.skewed then
    call('HINCRBY', name, 'skews', 1)
  end
end

-- meta
function Clock.show()
  local shown = { now = format('%.6f', scope.now) }
  for field, value in pairs(Hash.all(key.meta())) do
    if not string.find(field, '^reply:') then
      shown[field] = value
    end
  end
  return cjson.encode(shown)
end
