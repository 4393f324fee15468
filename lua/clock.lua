-- The server's clock, and the record of the namespace that keeps it: meta.

local format, rep, floor = string.format, string.rep, math.floor

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
--   drawn        how many tokens the call has drawn
--   last         the last of them, as text
--   known        the server on which this build drew last, as meta has it
--   newcomer     this server, if it is another one
--   looked       when all queues were looked at last, see nonempty.lua
--   older        meta does not say the format yet that this build writes
--   server       the time is the server's
--   ahead        by how much the kept time was ahead of it
--   skewed       and that is no drift
--   shifts       what skews have left to do, as meta has it

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

local function take_server_time()
  local time = call('TIME')
  local second, rest = time[1], BEFORE[#time[2]] .. time[2]
  scope.now, scope.second, scope.fraction = tonumber(second .. rest), second, rest
end

-- Sets the time of a call with KEYS. Within a namespace the server's clock never goes back. -> what stands in
-- another field of meta
function Clock.set(text, field)
  field = field or 'clock'
  local kept, token, written, shifts, known, looked, value =
    Hash.values(key.meta(), 'clock', 'token', 'format', 'shifts', Epoch.field(), Nonempty.looked, field)
  local clock = {
    kept = tonumber(kept),
    token = tonumber(token) or 0,
    drawn = 0,
    shifts = false,
    known = known,
    looked = looked,
  }
  scope.clock = clock
  if written ~= WRITTEN then
    clock.older = true
    check_format(written)
  end
  if text ~= '*' then
    scope.now = Arguments.number('now', 'now', text)
    return value
  end
  clock.server, clock.shifts = true, shifts
  take_server_time()
  clock.ahead = clock.kept and clock.kept - scope.now or 0
  if clock.ahead > TOO_FAR then
    clock.skewed = true
  elseif clock.ahead > 0 then
    scope.now, scope.second, scope.fraction = clock.kept, nil, nil
  end
  return value
end

-- Has the clock been set back, now or lately?
function Clock.is_skewed()
  return (scope.clock.shifts or scope.clock.skewed) and true or false
end

-- Only the server's clock is set back, and not that of a caller. -> what is left to do after skews, as
-- text; by how many seconds the clock was set back since the last call, from when, and when it had gone
-- ahead by much
function Clock.skew()
  local clock = scope.clock
  if clock.skewed then
    return clock.shifts, clock.ahead, clock.kept, call('HGET', key.meta(), 'leap')
  end
  return clock.shifts
end

function Clock.keep_shifts(text)
  if text then
    call('HSET', key.meta(), 'shifts', text)
  elseif scope.clock.shifts then
    call('HDEL', key.meta(), 'shifts')
  end
end

-- Before the first token of a call: was the last one drawn here?
local function look_who_draws(clock)
  clock.newcomer = Epoch.newcomer(clock.known)
  if clock.newcomer then
    clock.token = Epoch.begin(clock.token)
  end
end

-- A new fencing token: rises for ever, whatever becomes of the jobs and of the server.
function Clock.draw()
  local clock = scope.clock
  if clock.drawn == 0 then
    look_who_draws(clock)
  end
  clock.drawn = clock.drawn + 1
  clock.last = NumberFormat.whole(clock.token + clock.drawn)
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
  local server, last, kept = clock.server, clock.last, clock.kept
  if not last and not kept then
    last = NumberFormat.whole(clock.token)
  end
  if server and last then
    call('HSET', name, 'clock', NumberFormat.now(), 'token', last, ...)
  elseif server then
    call('HSET', name, 'clock', NumberFormat.now(), ...)
  elseif last then
    call('HSET', name, 'token', last, ...)
  elseif ... then
    call('HSET', name, ...)
  end
  if clock.newcomer then
    call('HSET', name, Epoch.field(), clock.newcomer)
  end
  if clock.older then
    call('HSET', name, 'format', WRITTEN)
  end
  if clock.skewed then
    call('HINCRBY', name, 'skews', 1)
  elseif server and clock.ahead < -TOO_FAR then
    -- The clock was set ahead, or no call was made for a long time. If it goes back, it was set.
    call('HSET', name, 'leap', format('%.6f %.6f', kept, scope.now))
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
