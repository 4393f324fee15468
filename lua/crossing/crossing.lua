-- The outbox for other namespaces: calls that have to be made there because of what happened here. An entry is written
-- in the call of its cause; a worker of this namespace makes the call there, in order for each target, until it hears
-- that it was made. (That it has one effect is the target's business: see deliveries.lua.)

local format, max = string.format, math.max

-- Entries that one call reads, and bytes of them after which it stops.
local MOST, BYTES = 100, 512 * 1024

-- Gives this namespace an id, if it has none: what tells it apart from all others that deliver to a target, whatever
-- they are called.
local function give_id(text)
  if call('HEXISTS', key.meta(), 'namespace') == 0 then
    local time = call('TIME')
    local id = redis.sha1hex(table.concat({ scope.prefix, time[1], time[2], text }, ' '))
    call('HSET', key.meta(), 'namespace', string.sub(id, 1, 20))
  end
end

-- Rises for ever. A time in microseconds, so that a server that has forgotten the last ones does not use them again.
local function next_sequence()
  local last = tonumber(call('HGET', key.meta(), 'crossed') or nil) or 0
  local text = format('%.0f', max(last + 1, scope.now * 1e6))
  call('HSET', key.meta(), 'crossed', text)
  return text
end

-- Writes an entry: the command and its arguments, all of them texts, for the namespace of this name.
function Crossing.write(target, command, args)
  local entry = cmsgpack.pack({ next_sequence(), command, args })
  give_id(entry)
  call('RPUSH', key.crossing_to(target), entry)
  call('ZADD', key.crossing(), 'NX', NumberFormat.now(), target)
  if call('LLEN', key.crossing_wake()) == 0 then
    call('RPUSH', key.crossing_wake(), '1')
  end
end

-- Each target: its name, how many entries wait for it, since when the oldest does.
local function waiting()
  local flat, found = call('ZRANGE', key.crossing(), 0, -1, 'WITHSCORES'), {}
  for n = 1, #flat, 2 do
    found[#found + 1] = { flat[n], call('LLEN', key.crossing_to(flat[n])), flat[n + 1] }
  end
  return found
end

-- crossing.waiting -> the time, and the targets
function Crossing.waiting()
  return { NumberFormat.now(), waiting() }
end

-- crossing.due -> the key on which to wait for further entries, and the targets of those that there are
function Crossing.due()
  call('DEL', key.crossing_wake())
  return { key.crossing_wake(), waiting() }
end

-- crossing.read target -> the id of this namespace, and the oldest entries: sequence, command, arguments
function Crossing.read(args, i)
  local name = key.crossing_to(Arguments.name('crossing.read', 'target', args[i]))
  local found, bytes, n = { call('HGET', key.meta(), 'namespace') or '' }, 0, 0
  while n < MOST and bytes < BYTES do
    local packed = call('LINDEX', name, n)
    if not packed then
      break
    end
    found[#found + 1] = cmsgpack.unpack(packed)
    n, bytes = n + 1, bytes + #packed
  end
  return found
end

function Crossing.sequence_of(packed)
  return tonumber(cmsgpack.unpack(packed)[1])
end

-- crossing.delivered target sequence: the entries up to that one were -> how many of them were still there
function Crossing.delivered(args, i)
  local target = Arguments.name('crossing.delivered', 'target', args[i])
  local last = Arguments.whole('crossing.delivered', 'sequence', args[i + 1], 0)
  local name, gone = key.crossing_to(target), 0
  local head = call('LINDEX', name, 0)
  while head and gone < MOST and Crossing.sequence_of(head) <= last do
    call('LPOP', name)
    head, gone = call('LINDEX', name, 0), gone + 1
  end
  if head and gone > 0 then
    call('ZADD', key.crossing(), format('%.6f', Crossing.sequence_of(head) / 1e6), target)
  elseif not head then
    call('ZREM', key.crossing(), target)
  end
  return gone
end
