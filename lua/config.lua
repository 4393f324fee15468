-- Options of the namespace: defaults, values, and what a value may be.

local find = string.find

local DEFAULTS = {
  application = 'qless',
  heartbeat = 60,
  ['grace-period'] = 10,
  ['stats-history'] = 30,
  ['histogram-history'] = 7,
  ['jobs-history-count'] = 50000,
  ['jobs-history'] = 604800,
}

-- Used when unset, but not listed among the options.
local UNLISTED = {
  ['max-worker-age'] = 86400,
  ['max-job-history'] = 100,
  ['canceled-history'] = 86400,
}

-- What stands behind a queue's name in the option for its failed jobs.
local FAILED_QUEUE = '-failed-queue'

-- Options are read together when the first is wanted, unless very many are set.
local FEW = 100
local NONE = {}

-- What is set, as far as this call has read it: scope.config. (Or all of it, if those are few.)
local function read()
  local count, known = call('HLEN', key.config()), NONE
  if count > 0 then
    known = {}
  end
  if count > 0 and count <= FEW then
    known = Hash.all(key.config())
  end
  scope.config, scope.knows_config = known, count <= FEW
  return known
end

-- Nothing is set, as the call knows already.
function Config.note_none()
  scope.config, scope.knows_config = NONE, true
end

-- Is nothing set at all? Then queues have no options of their own either.
local function untouched()
  return (scope.config or read()) == NONE
end

-- The call has set an option itself: what is set is read again.
function Config.changed()
  scope.config = nil
end

function Config.is_set()
  return not untouched()
end

function Config.get(option)
  local known = scope.config or read()
  local value = known[option]
  if value == nil and not scope.knows_config then
    value = call('HGET', key.config(), option)
    known[option] = value
  end
  return value or DEFAULTS[option]
end

-- Beyond that neither days nor milliseconds can be counted.
local MOST = 2 ^ 40

-- A foreign script may have set anything.
local function decimal(text)
  local number = tonumber(text)
  if number and number == number then
    return math.max(-MOST, math.min(number, MOST))
  end
end

function Config.number(option)
  if untouched() then
    return DEFAULTS[option] or UNLISTED[option]
  end
  return decimal(Config.get(option)) or DEFAULTS[option] or UNLISTED[option]
end

function Config.whole(option)
  return math.floor(Config.number(option))
end

-- How long a lock of the queue lasts, in seconds.
function Config.heartbeat(queue)
  if untouched() then
    return DEFAULTS.heartbeat
  end
  return decimal(Config.get(queue .. '-heartbeat')) or Config.number('heartbeat')
end

-- How many locks the queue may have at once; 0 for no limit.
function Config.concurrency(queue)
  if untouched() then
    return 0
  end
  return math.ceil(decimal(Config.get(queue .. '-max-concurrency')) or 0)
end

-- How often a lottery draws the queue, beside the others; 0 for never.
function Config.weight(queue)
  if untouched() then
    return 1
  end
  return math.max(0, decimal(Config.get(queue .. '-weight')) or 1)
end

-- The queue in which jobs of this one go on that have failed for good, or nil.
function Config.failed_queue(queue)
  if untouched() then
    return nil
  end
  local to = Config.get(queue .. FAILED_QUEUE)
  -- (Foreign clients may have set anything.)
  if to and to ~= '' and to ~= queue and #to <= 255 and not find(to, '[*?]') then
    return to
  end
end

-- Seconds after which a silent worker is forgotten, as times to live want them.
function Config.worker_age()
  return math.max(1, math.ceil(Config.number('max-worker-age')))
end

function Config.is_ours(option)
  return find(option, '%-weight$')
end

-- Is this a number of jobs that is checked?
function Config.is_whole(option)
  return LimitSettings.is_number(option)
end

-- Is this an option of ours whose value names a queue?
function Config.names_queue(option)
  return string.sub(option, -#FAILED_QUEUE) == FAILED_QUEUE
end

local function numeric(option)
  return type(DEFAULTS[option]) == 'number'
    or UNLISTED[option]
    or Config.is_ours(option)
    or find(option, '%-heartbeat$')
    or LimitSettings.is_number(option)
end

-- config.get [option]
function Config.show(args, i)
  local option = args[i]
  if option then
    return Config.get(option)
  end
  local shown = {}
  for name, value in pairs(DEFAULTS) do
    shown[name] = value
  end
  for name, value in pairs(Hash.all(key.config())) do
    shown[name] = not LimitSettings.is_mark(name) and value or nil
  end
  return cjson.encode(shown)
end

-- The queue for failed jobs must be one, and another one.
local function check_failed_queue(option, value)
  Arguments.queue('config.set', value)
  if option == value .. FAILED_QUEUE then
    Errors.argument('config.set', option .. ' must be another queue than ' .. Errors.name(value) .. ' itself')
  end
end

local function check_number(option, value)
  local number = Arguments.number('config.set', option, value)
  if number < 0 and Config.is_ours(option) then
    Errors.argument('config.set', option .. ' must not be below 0, as ' .. value .. ' is')
  elseif (number < 0 or number % 1 ~= 0) and Config.is_whole(option) then
    local wanted = ' must be a whole number of jobs, or 0 for any number, not '
    Errors.argument('config.set', option .. wanted .. value)
  end
end

-- config.set option value
function Config.set(args, i)
  local option = Arguments.given('config.set', 'option', args[i])
  local value = Arguments.given('config.set', 'value', args[i + 1])
  if numeric(option) then
    check_number(option, value)
  end
  if Config.names_queue(option) then
    check_failed_queue(option, value)
  end
  if LimitSettings.is_rate(option) then
    LimitSettings.check_rate('config.set', option, value)
  end
  if #option > 512 or #value > Arguments.text_bytes then
    Errors.raise('TOOBIG', 'config.set(): Option or value is too long')
  end
  call('HSET', key.config(), option, value)
  LimitSettings.changed(option)
  Events.config_set(option, value)
end

-- config.unset option
function Config.unset(args, i)
  local option = Arguments.given('config.unset', 'option', args[i])
  call('HDEL', key.config(), option)
  LimitSettings.changed(option)
  Events.config_unset(option)
end
