-- Options of the namespace: defaults, values, and what a value may be.
local Errors, Arguments, Events, key = Qless.Errors, Qless.Arguments, Qless.Events, Qless.key

local Config = {}
Qless.Config = Config

local call, find = redis.call, string.find

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
local UNLISTED = { ['max-worker-age'] = 86400, ['max-job-history'] = 100 }

-- Values read in this call, so that a batch asks once. Reset by main.lua.
local known = {}

function Config.reset()
  known = {}
end

-- Reads several options in one command; Config.number then finds them.
function Config.load(names)
  local values = call('HMGET', key.config(), unpack(names))
  for i, name in ipairs(names) do
    known[name] = values[i]
  end
end

function Config.get(option)
  local value = known[option]
  if value == nil then
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
  return decimal(Config.get(option)) or DEFAULTS[option] or UNLISTED[option]
end

function Config.whole(option)
  return math.floor(Config.number(option))
end

-- How long a lock of the queue lasts, in seconds.
function Config.heartbeat(queue)
  return decimal(Config.get(queue .. '-heartbeat')) or Config.number('heartbeat')
end

-- How many locks the queue may have at once; 0 for no limit.
function Config.concurrency(queue)
  return math.ceil(decimal(Config.get(queue .. '-max-concurrency')) or 0)
end

local function numeric(option)
  return type(DEFAULTS[option]) == 'number'
    or UNLISTED[option]
    or find(option, '%-heartbeat$')
    or find(option, '%-max%-concurrency$')
end

-- config.get [option]
function Config.show(args, i)
  local option = args[i]
  if option then
    return Config.get(option)
  end
  local all = {}
  for name, value in pairs(DEFAULTS) do
    all[name] = value
  end
  local set = call('HGETALL', key.config())
  for n = 1, #set, 2 do
    all[set[n]] = set[n + 1]
  end
  return cjson.encode(all)
end

-- config.set option value
function Config.set(args, i)
  local option = Arguments.given('config.set', 'option', args[i])
  local value = Arguments.given('config.set', 'value', args[i + 1])
  if numeric(option) then
    Arguments.number('config.set', option, value)
  end
  if #option > 512 or #value > Arguments.text_bytes then
    Errors.raise('TOOBIG', 'config.set(): Option or value is too long')
  end
  call('HSET', key.config(), option, value)
  Events.config_set(option, value)
end

-- config.unset option
function Config.unset(args, i)
  local option = Arguments.given('config.unset', 'option', args[i])
  call('HDEL', key.config(), option)
  Events.config_unset(option)
end
