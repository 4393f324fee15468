-- Which limits there are: what the options of the namespace say of job types, of their keys and of queues.

local match, find, sub = string.match, string.find, string.sub

-- Jobs set aside by one call at most.
local ASIDE = 100

-- Stands among the options from the first limit on, so that namespaces without any need not look for them.
local MARK = 'limits'

-- What stands behind the name of a job type, or of a queue, and a hyphen.
local OF_TYPES = {
  most = '-max-concurrency-of-type',
  rate = '-rate-of-type',
  key_most = '-max-concurrency-per-key',
  key_rate = '-rate-per-key',
}
local RATES = { '-rate', '-rate-of-type', '-rate-per-key' }
local NUMBERS = { '-max-concurrency', '-max-concurrency-of-type', '-max-concurrency-per-key' }

local UNITS = { s = 1, m = 60, h = 3600, d = 86400 }

-- Starts and seconds that a rate may name.
local MOST, LONGEST = 10 ^ 9, 366 * 86400

-- A rate: '100/m', '5/10s'. -> { count = starts, per = seconds }; nil for none ('0') and for what cannot be read
function LimitSettings.rate(text)
  local count, number, unit = match(text or '', '^(%d+)/(%d*%.?%d*)([smhd])$')
  local per = unit and (number == '' and 1 or tonumber(number) or 0) * UNITS[unit]
  count = tonumber(count)
  if count and count >= 1 and count <= MOST and per > 0 and per <= LONGEST then
    return { count = count, per = per }
  end
end

-- Have there ever been limits?
function LimitSettings.exist()
  return Config.is_set() and Config.get(MARK) ~= nil
end

function LimitSettings.mark()
  if not LimitSettings.exist() then
    call('HSET', key.config(), MARK, '1')
    Config.changed()
  end
end

function LimitSettings.is_mark(option)
  return option == MARK
end

local function ends_with(option, endings)
  for _, ending in ipairs(endings) do
    if #option > #ending and sub(option, -#ending) == ending then
      return ending
    end
  end
end

-- Is an option of this name a rate?
function LimitSettings.is_rate(option)
  return ends_with(option, RATES) ~= nil
end

-- Is it a number of jobs?
function LimitSettings.is_number(option)
  return ends_with(option, NUMBERS) ~= nil
end

-- A value for such an option is checked.
function LimitSettings.check_rate(command, option, value)
  if value ~= '0' and not LimitSettings.rate(value) then
    Errors.argument(
      command,
      '%s must be a rate as 100/m or 5/10s (s, m, h or d; at most 10^9 starts), or 0 for none, not %s',
      Errors.name(option),
      Errors.value(value)
    )
  end
end

-- An option was changed that may be a limit: what it holds back is looked at again.
function LimitSettings.changed(option)
  local of_type = ends_with(option, { OF_TYPES.most, OF_TYPES.rate, OF_TYPES.key_most, OF_TYPES.key_rate })
  local of_queue = ends_with(option, { '-rate', '-max-concurrency' })
  if of_type then
    LimitSettings.mark()
    Limits.look_again(sub(option, 1, -#of_type - 1))
  elseif of_queue then
    local queue = sub(option, 1, -#of_queue - 1)
    if of_queue == '-rate' then
      LimitSettings.mark()
    end
    Wake.due(queue, scope.now)
  end
end

local function whole(text)
  local number = Record.number(text or nil)
  return number and number > 0 and math.ceil(number) or nil
end

-- The name under which the limits of a job type are kept: jobs that were put before it got another name count with the
-- others.
local function current(klass)
  return Config.get(klass .. '-renamed-to') or klass
end

-- The limits of a job type and of each of its keys; false if there are none.
function LimitSettings.of(klass)
  klass = current(klass)
  local known = scope.limits or {}
  scope.limits = known
  if known[klass] == nil then
    local found = {
      most = whole(Config.get(klass .. OF_TYPES.most)),
      rate = LimitSettings.rate(Config.get(klass .. OF_TYPES.rate)),
      key_most = whole(Config.get(klass .. OF_TYPES.key_most)),
      key_rate = LimitSettings.rate(Config.get(klass .. OF_TYPES.key_rate)),
    }
    known[klass] = next(found) ~= nil and found
  end
  return known[klass]
end

-- The rate of a queue, or nil.
function LimitSettings.of_queue(queue)
  return LimitSettings.rate(Config.get(queue .. '-rate'))
end

-- How many jobs this call may still set aside.
function LimitSettings.left()
  return ASIDE - (scope.set_aside or 0)
end

-- The names of limits. What is behind the first colon is only compared, never taken apart.
function LimitSettings.of_type(klass)
  return 'type:' .. current(klass)
end

function LimitSettings.of_key(klass, text)
  return 'key:' .. current(klass) .. ':' .. text
end

function LimitSettings.of_tenant(queue, text)
  return 'fair:' .. queue .. ':' .. text
end

-- The limit of that name, of which a job is at hand: most, rate; or nil if there is none (any more).
function LimitSettings.named(name, klass)
  local of = LimitSettings.of(klass)
  if not of then
    return nil
  elseif find(name, '^type:') then
    return { name = name, most = of.most, rate = of.rate }
  elseif find(name, '^key:') then
    return { name = name, most = of.key_most, rate = of.key_rate }
  end
end
