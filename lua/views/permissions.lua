-- What the server's ACL permits its user: asked in advance, and named where something is missing.

-- What the core runs, in the order of the documented command lines. With too few arguments for a
-- command a server may abort while it looks for keys, so nothing else is asked about.
local INSIDE = {
  'info time del unlink renamenx exists expire pexpire persist pttl ttl get mget set',
  'hdel hexists hget hgetall hincrby hlen hmget hrandfield hset',
  'lindex llen lpop lpush lrange lrem ltrim rpush',
  'sadd scard sismember smembers spop srandmember srem sscan',
  'zadd zcard zcount zincrby zmscore zrange zrangebyscore zrem zpopmax zremrangebyrank zremrangebyscore',
  'zrevrange zrevrangebyscore zscore',
}
local OF_AUDITS = { 'scan type lpos' }
-- What clients run themselves.
local OF_CLIENTS = { 'blpop function|list function|delete' }
local ON_CHANNELS = { 'publish', 'subscribe' }

-- How servers say that a command of a script is refused: from 7.2 on, and before.
local REFUSALS = { 'ACL failure in script', 'The user executing the script can\'t' }

-- What the server does not know is not missed.
local function permits(...)
  local known, permitted = pcall(redis.acl_check_cmd, ...)
  return permitted or not known
end

-- Who has come here may run a function or script on meta: it is not the key that is missing.
local function add_commands(missing, lines)
  for _, line in ipairs(lines) do
    for command in string.gmatch(line, '%S+') do
      local word, subcommand = string.match(command, '^([^|]+)|?(.*)$')
      if not permits(word, subcommand ~= '' and subcommand or scope.prefix .. 'meta') then
        missing[#missing + 1] = '+' .. command
      end
    end
  end
end

local function add_keys(missing)
  local meta, others = scope.prefix .. 'meta', scope.prefix .. 'j:'
  for _, command in ipairs({ 'get', 'set' }) do
    if permits(command, meta) and not permits(command, others) then
      missing[#missing + 1] = '~' .. scope.prefix .. '*'
      return
    end
  end
end

local function add_channels(missing, commands)
  local refused = false
  for _, name in ipairs(commands) do
    local command = scope.sharded and 's' .. name or name
    if not permits(command) then
      missing[#missing + 1] = '+' .. command
    elseif not permits(command, scope.prefix .. 'log') then
      refused = true
    end
  end
  if refused then
    missing[#missing + 1] = '&' .. scope.prefix .. '*'
  end
end

-- permissions -> as JSON, the rules that ACL SETUSER wants for what is missing; null where it cannot be asked
function Permissions.show()
  if not redis.acl_check_cmd then
    return 'null'
  end
  local missing = {}
  add_commands(missing, INSIDE)
  add_commands(missing, OF_AUDITS)
  add_commands(missing, OF_CLIENTS)
  add_keys(missing)
  add_channels(missing, ON_CHANNELS)
  return #missing == 0 and '[]' or cjson.encode(missing)
end

local function is_refusal(text)
  for _, phrase in ipairs(REFUSALS) do
    if string.find(text, phrase, 1, true) then
      return true
    end
  end
  return false
end

-- An error of the server as a reply, with what is missing if that is why a command was refused.
function Permissions.explained(text)
  if not is_refusal(text) then
    return text
  end
  local missing = {}
  if redis.acl_check_cmd then
    add_commands(missing, INSIDE)
    add_keys(missing)
    add_channels(missing, { 'publish' })
    if #missing == 0 then
      add_commands(missing, OF_AUDITS)
    end
  end
  if #missing == 0 then
    return 'DENIED ' .. text
  end
  local user = string.match(text, 'User (%S+) has no permissions')
  return 'DENIED ' .. (user and 'User ' .. user or 'The user') .. ' lacks ' .. table.concat(missing, ' ')
end
