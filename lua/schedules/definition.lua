-- The definition of a schedule: its checks and its stored fields.

local LONGEST_TEXT = 255 -- bytes

local function short(what)
  return function(command, value)
    if #value > LONGEST_TEXT then
      Errors.argument(command, what .. ' has ' .. #value .. ' bytes, at most ' .. LONGEST_TEXT)
    end
    return value
  end
end

local function number(what)
  return function(command, value)
    return Arguments.number(command, what, value)
  end
end

-- How what a schedule is made of is checked, and what of it is stored; '' takes away what is optional.
local CHECKS = {
  queue = Arguments.queue,
  klass = function(command, value)
    return Arguments.given(command, 'klass', value)
  end,
  data = function(command, value)
    Arguments.json(command, 'data', value)
    return value
  end,
  interval = function(command, value)
    local interval = Arguments.number(command, 'interval', value)
    if interval < 1 then
      Errors.argument(command, 'interval must be at least 1 second, not ' .. Errors.value(value))
    end
    return interval
  end,
  offset = number('offset'),
  cron = short('cron'),
  timezone = short('timezone'),
  priority = number('priority'),
  retries = function(command, value)
    return Arguments.whole(command, 'retries', value, 0)
  end,
  backlog = function(command, value)
    return Arguments.whole(command, 'backlog', value, 0)
  end,
  tags = function(command, value)
    return Tags.text(Arguments.tag_list(command, value))
  end,
  missed = function(command, value)
    if not Ticks.policies[value] then
      Errors.argument(command, 'missed must be all, last or none, not ' .. Errors.value(value))
    end
    return value
  end,
  context = function(command, value)
    if value ~= '' then
      Arguments.object(command, 'context', value)
    end
    return value
  end,
  expires = function(command, value)
    return value == '' and value or Arguments.number(command, 'expires', value)
  end,
  unique = short('unique'),
  name = short('name'),
  owner = short('owner'),
  declared = short('declared'),
}

-- One checked value.
function Definition.check(command, field, value)
  return CHECKS[field](command, value)
end

-- What is stored where nothing is given.
Definition.defaults = { priority = 0, retries = 5, tags = '{}', missed = 'last' }

-- What is said of a schedule and not stored.
local ALSO = { force = true, formerly = true }

-- Checks option pairs from args[i] on, and lays their values over `made`.
function Definition.lay_over(command, made, args, i, refused)
  if (#args - i + 1) % 2 ~= 0 then
    Errors.argument(command, 'Odd number of additional args')
  end
  local given = {}
  for n = i, #args, 2 do
    local name, value = args[n], args[n + 1]
    if refused[name] or not (CHECKS[name] or ALSO[name]) then
      Errors.argument(command, 'Unknown option ' .. Errors.name(name))
    elseif name == 'force' then
      made.force = value == '1'
    elseif name == 'formerly' then
      made.formerly = Arguments.names(command, 'formerly', value)
    else
      value = CHECKS[name](command, value)
      given[name] = true
      made[name] = value ~= '' and value or nil
    end
  end
  return given
end

-- An interval schedule has no cron, and the other way round.
function Definition.settle_kind(command, made, given)
  if given.interval and given.cron then
    Errors.argument(command, 'either interval or cron wanted, not both')
  elseif given.cron then
    made.interval = nil
    made.backlog, made.offset = given.backlog and made.backlog, given.offset and made.offset
  elseif given.interval then
    made.cron, made.timezone = nil, given.timezone and made.timezone
  end
  if not made.interval and not made.cron then
    Errors.argument(command, 'interval or cron wanted')
  elseif made.cron then
    if made.backlog or made.offset then
      Errors.argument(command, 'backlog and offset belong to an interval, not to cron')
    end
    made.timezone = made.timezone or 'UTC'
  elseif made.timezone then
    Errors.argument(command, 'timezone belongs to cron, not to an interval')
  end
end
