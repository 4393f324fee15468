"""Scripts that say what an operation has changed, and let keys age by a clock of one's own.

LOOK takes from all keys their time to live, and AGE gives it back before the next operation: so
nothing ends unseen.
"""

#: A hash that says of each key what it held and how long it had to live. No key of the core's.
from __future__ import annotations

BEFORE = "before"

# ARGV: the key of what was there before, by how many milliseconds all is older now.
AGE = """
local known = redis.call('HGETALL', ARGV[1])
for i = 1, #known, 2 do
  local name, mark, left = known[i], string.match(known[i + 1], '^(%S+) (%d+)$')
  if left then
    left = left - ARGV[2]
    if left > 0 then
      redis.call('PEXPIRE', name, string.format('%.0f', left))
    else
      redis.call('DEL', name)
    end
    redis.call('HSET', ARGV[1], name, mark .. ' ' .. string.format('%.0f', left))
  end
end
"""

# -> what has changed: name, kind, content, and for how long it lives, if that is new; "none"
# for what is gone. ARGV: the key of what was there before.
LOOK = """
local call = redis.call
local found = {}
local function known(name)
  local flat, values = call('HGETALL', name), {}
  for i = 1, #flat, 2 do
    values[flat[i]] = flat[i + 1]
  end
  return values
end
local before, dumps = known(ARGV[1]), known(ARGV[1] .. ' dumped')
local function in_order(flat)
  local values, names = {}, {}
  for i = 1, #flat, 2 do
    names[#names + 1], values[flat[i]] = flat[i], flat[i + 1]
  end
  table.sort(names)
  for n, name in ipairs(names) do
    flat[2 * n - 1], flat[2 * n] = name, values[name]
  end
  return flat
end
local read = {
  string = function(name)
    return { call('GET', name) }
  end,
  hash = function(name)
    return in_order(call('HGETALL', name))
  end,
  list = function(name)
    return call('LRANGE', name, 0, -1)
  end,
  zset = function(name)
    return call('ZRANGE', name, 0, -1, 'WITHSCORES')
  end,
  set = function(name)
    local members = call('SMEMBERS', name)
    table.sort(members)
    return members
  end,
}
local names = call('KEYS', '*:*')
table.sort(names)
for _, name in ipairs(names) do
  local mark, last = string.match(before[name] or '', '^(%S+) (%S+)$')
  local left, dumped = string.format('%.0f', call('PTTL', name)), call('DUMP', name)
  if dumped ~= dumps[name] or left ~= last then
    local kind = call('TYPE', name).ok
    local content = read[kind](name)
    local sizes = {}
    for n, text in ipairs(content) do
      sizes[n] = #text
    end
    local now = redis.sha1hex(kind .. table.concat(sizes, ' ') .. ':' .. table.concat(content))
    -- The server's own form of a value may differ by an order that says nothing.
    if now ~= mark or left ~= last then
      found[#found + 1] = { name, kind, content, last ~= left and left or 'as before' }
      call('HSET', ARGV[1], name, now .. ' ' .. left)
    end
    call('HSET', ARGV[1] .. ' dumped', name, dumped)
  end
  if left ~= '-1' then
    call('PERSIST', name)
  end
  before[name] = nil
end
local gone = {}
for name in pairs(before) do
  gone[#gone + 1] = name
end
table.sort(gone)
for _, name in ipairs(gone) do
  found[#found + 1] = { name, 'none', {}, '' }
  call('HDEL', ARGV[1], name)
  call('HDEL', ARGV[1] .. ' dumped', name)
end
return found
"""
