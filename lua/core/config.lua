-- Options of the namespace: defaults, values, and what a value may be.

local find, sub = string.find, string.sub
local rcall = redis.call

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

local FAILED_QUEUE = '-failed-queue'

local MOST = 1e12 -- sums with times stay exact enough

-- Options that most calls want: read together with the first of them.
local COMMON = { 'heartbeat', 'grace-period', 'jobs-history', 'jobs-history-count', 'max-job-history' }

-- Those of a queue, which go behind its name.
local OF_QUEUE = { '-heartbeat', '-max-concurrency', FAILED_QUEUE }

-- Reads options into call.options, where false stands for one that is not set.
local function read(call, names)
  local options = call.options or {}
  call.options = options
  for n, value in ipairs(rcall('HMGET', call.keys.config, unpack(names))) do
    options[names[n]] = value
  end
end

-- The text of an option, or nil if it is not set. (Where none is, nothing is asked.)
function Config.get(call, option)
  if not call.has.C then
    return nil
  end
  if not call.options then
    read(call, COMMON)
  end
  if call.options[option] == nil then
    read(call, { option })
  end
  return call.options[option] or nil
end

-- The same of an option of a queue; `ending` is one of OF_QUEUE.
local function of_queue(call, queue, ending)
  if not call.has.C then
    return nil
  end
  local option = queue .. ending
  if not call.options or call.options[option] == nil then
    local names = {}
    for n = 1, #OF_QUEUE do
      names[n] = queue .. OF_QUEUE[n]
    end
    for n = 1, call.options and 0 or #COMMON do
      names[#names + 1] = COMMON[n]
    end
    read(call, names)
  end
  return call.options[option] or nil
end

local function decimal(text)
  local number = tonumber(text)
  if number and number == number then
    return math.max(-MOST, math.min(number, MOST))
  end
end

-- The value of an option that is a number.
function Config.number(call, option)
  return decimal(Config.get(call, option)) or DEFAULTS[option] or UNLISTED[option]
end

function Config.whole(call, option)
  return math.floor(Config.number(call, option))
end

-- How long a lock of the queue lasts, in seconds.
function Config.heartbeat(call, queue)
  return decimal(of_queue(call, queue, '-heartbeat')) or Config.number(call, 'heartbeat')
end

-- How many locks the queue may have at once; 0 for no limit.
function Config.concurrency(call, queue)
  return math.ceil(decimal(of_queue(call, queue, '-max-concurrency')) or 0)
end

-- How often a lottery draws the queue, beside the others; 0 for never.
function Config.weight(call, queue)
  return math.max(0, decimal(Config.get(call, queue .. '-weight')) or 1)
end

-- The queue in which jobs of this one go on when they have no retry left, or nil.
function Config.failed_queue(call, queue)
  local to = of_queue(call, queue, FAILED_QUEUE)
  -- (Old clients may have set anything.)
  if to and to ~= '' and to ~= queue and #to <= 255 and not find(to, '[*?]') then
    return to
  end
end

-- Seconds after which a silent worker is forgotten, as times to live want them.
function Config.worker_age(call)
  return math.max(1, math.ceil(Config.number(call, 'max-worker-age')))
end

local function is_weight(option)
  return find(option, '%-weight$') ~= nil
end

local function is_numeric(call, option)
  return type(DEFAULTS[option]) == 'number'
    or UNLISTED[option] ~= nil
    or (is_weight(option) and not call.old)
    or find(option, '%-heartbeat$') ~= nil
    or LimitSettings.is_number(option)
end

-- config.get [option]
function Config.show(call, args, i)
  local option = args[i]
  if option then
    return rcall('HGET', call.keys.config, option) or DEFAULTS[option] or false
  end
  local shown = {}
  for name, value in pairs(DEFAULTS) do
    shown[name] = value
  end
  for name, value in pairs(Pieces.hash(call.keys.config)) do
    shown[name] = value
  end
  return cjson.encode(shown)
end

local function check_number(call, option, value)
  local number = Arguments.number(call, option, value)
  if call.old then
    return
  end
  if number < 0 and is_weight(option) then
    Errors.argument(call, option .. ' must not be below 0, as ' .. value .. ' is')
  elseif (number < 0 or number % 1 ~= 0) and LimitSettings.is_number(option) then
    Errors.argument(call, option .. ' must be a whole number of jobs, or 0 for any number, not ' .. value)
  end
end

-- The queue for failed jobs must be one, and another one.
local function check_failed_queue(call, option, value)
  Arguments.queue(call, value)
  if option == value .. FAILED_QUEUE then
    Errors.argument(call, option .. ' must be another queue than ' .. Errors.name(value) .. ' itself')
  end
end

local function check(call, option, value)
  if is_numeric(call, option) then
    check_number(call, option, value)
  end
  if sub(option, -#FAILED_QUEUE) == FAILED_QUEUE and not call.old then
    check_failed_queue(call, option, value)
  end
  LimitSettings.check(call, option, value)
  if #option > 512 or #value > Arguments.text_bytes then
    Errors.refuse(call, 'TOOBIG', 'Option or value is too long')
  end
end

local function changed(call, option)
  call.options = nil
  LimitSettings.changed(call, option)
end

-- config.set option value
function Config.set(call, args, i)
  local option = Arguments.given(call, 'option', args[i])
  local value = Arguments.given(call, 'value', args[i + 1])
  check(call, option, value)
  rcall('HSET', call.keys.config, option, value)
  if option ~= 'declared' and sub(option, 1, 9) ~= 'declared:' then -- (what code has declared changes nothing)
    Features.note(call, 'C')
  end
  changed(call, option)
  Events.config_set(call, option, value)
end

-- config.unset option
function Config.unset(call, args, i)
  local option = Arguments.given(call, 'option', args[i])
  rcall('HDEL', call.keys.config, option)
  if rcall('EXISTS', call.keys.config) == 0 then
    Features.forget(call, 'C')
  end
  changed(call, option)
  Events.config_unset(call, option)
end
