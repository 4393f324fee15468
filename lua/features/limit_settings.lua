-- Which limits there are: what the options of the namespace say of job types, of their keys, and of queues.

local match, sub = string.match, string.sub
local rcall = redis.call

-- What stands behind the name of a job type: limits of all its jobs, of those of each key, and its name by now.
local MOST, RATE = '-max-concurrency-of-type', '-rate-of-type'
local KEY_MOST, KEY_RATE = '-max-concurrency-per-key', '-rate-per-key'
local RENAMED = '-renamed-to'

-- What stands behind the name of a queue.
local QUEUE_RATE, QUEUE_MOST = '-rate', '-max-concurrency'

local OF_TYPES = { MOST, RATE, KEY_MOST, KEY_RATE }
local LIMITS = { QUEUE_RATE, MOST, RATE, KEY_MOST, KEY_RATE } -- of jobs, rather than of locks
local RATES = { QUEUE_RATE, RATE, KEY_RATE }
local NUMBERS = { QUEUE_MOST, MOST, KEY_MOST }

local UNITS = { s = 1, m = 60, h = 3600, d = 86400 }

-- Starts that a window may hold, each of which is kept; seconds that a window may last.
local MOST_STARTS, LONGEST = 10000, 366 * 86400

local function ending_of(option, endings)
  for _, ending in ipairs(endings) do
    if #option > #ending and sub(option, -#ending) == ending then
      return ending
    end
  end
end

-- '100/m', '5/10s' -> starts, seconds; nil: it cannot be read, or there are none
local function parse(text)
  local count, number, unit = match(text or '', '^(%d+)/(%d*%.?%d*)([smhd])$')
  local per = unit and (number == '' and 1 or tonumber(number) or 0) * UNITS[unit]
  count = tonumber(count)
  if count and count >= 1 and per > 0 and per <= LONGEST then
    return count, per
  end
end

-- A rate: { count = starts, per = seconds }; nil for none. (More starts than can be counted were set by other means.)
local function rate_of(text)
  local count, per = parse(text)
  return count and { count = math.min(count, MOST_STARTS), per = per } or nil
end

local function whole(text)
  local number = tonumber(text or nil)
  return number and number > 0 and math.ceil(number) or nil
end

-- Is it an option that is a number of jobs?
function LimitSettings.is_number(option)
  return ending_of(option, NUMBERS) ~= nil
end

-- Checks the value of an option, which may be a rate.
function LimitSettings.check(call, option, value)
  if value == '0' or not ending_of(option, RATES) then
    return
  end
  local count = parse(value)
  local name = Errors.name(option)
  if not count then
    local words = '%s must be a rate as 100/m or 5/10s (s, m, h or d), or 0 for none, not %s'
    Errors.argument(call, words, name, Errors.value(value))
  elseif count > MOST_STARTS then
    local words = '%s must be a rate of at most %d starts in a window: give a rate per second instead of %s'
    Errors.argument(call, words, name, MOST_STARTS, Errors.value(value))
  end
end

-- Do the options say anything of limits?
local function exist(call)
  for option in pairs(Pieces.hash(call.keys.config)) do
    if ending_of(option, LIMITS) then
      return true
    end
  end
  return false
end

-- An option was set or taken away, which may be a limit: what it holds back is looked at.
function LimitSettings.changed(call, option)
  local of_type = ending_of(option, OF_TYPES) or ending_of(option, { RENAMED })
  local of_queue = ending_of(option, { QUEUE_RATE, QUEUE_MOST })
  if not of_type and not of_queue then
    return
  end
  call.limits = nil
  if ending_of(option, LIMITS) and rcall('HEXISTS', call.keys.config, option) == 1 then
    Features.note(call, 'L')
  elseif not exist(call) then
    Features.forget(call, 'L')
  end
  if of_type then
    Limits.look_again(call, sub(option, 1, -#of_type - 1))
  else
    Wake.set(call, Keys.queue(call, sub(option, 1, -#of_queue - 1)))
  end
end

local function read(call, klass)
  local values = rcall(
    'HMGET',
    call.keys.config,
    klass .. RENAMED,
    klass .. MOST,
    klass .. RATE,
    klass .. KEY_MOST,
    klass .. KEY_RATE
  )
  local found = { klass = klass, most = whole(values[2]), rate = rate_of(values[3]) }
  found.key_most, found.key_rate = whole(values[4]), rate_of(values[5])
  return found, values[1]
end

-- The limits of a job type and of its keys, under the name that the type has by now (`klass`); false if there are none.
-- Read once in a call.
function LimitSettings.of(call, klass)
  local known = call.limits or {}
  call.limits = known
  local found = known[klass]
  if found == nil then
    local renamed
    found, renamed = read(call, klass)
    if renamed and renamed ~= klass then
      found = read(call, renamed)
    end
    found = (found.most or found.rate or found.key_most or found.key_rate) and found or false
    known[klass] = found
  end
  return found
end

-- The rate of a queue as a limit, or nil.
function LimitSettings.of_queue(call, queue)
  local rate = call.has.L and rate_of(Config.get(call, queue .. QUEUE_RATE))
  return rate and { name = 'queue:' .. queue, rate = rate } or nil
end
