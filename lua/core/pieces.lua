-- Commands with many values, in pieces: Lua cannot unpack more than some thousand.

local rcall = redis.call

local PIECE = 1000

-- Runs a command of a key over all of the values.
function Pieces.run(command, name, values)
  local n = #values
  if n == 0 then
    return
  end
  if n <= PIECE then
    rcall(command, name, unpack(values))
    return
  end
  for first = 1, n, PIECE do
    rcall(command, name, unpack(values, first, math.min(first + PIECE - 1, n)))
  end
end

-- Adds all members to a sorted set with one score, a text.
function Pieces.add(name, score, members)
  local values = {}
  for n = 1, #members do
    values[2 * n - 1] = score
    values[2 * n] = members[n]
  end
  Pieces.run('ZADD', name, values)
end

-- The member of a sorted set with the lowest score, and the score; nil if there is none.
function Pieces.first(name)
  local found = rcall('ZRANGE', name, '0', '0', 'WITHSCORES')
  return found[1], tonumber(found[2])
end

-- The same with the highest score.
function Pieces.last(name)
  local found = rcall('ZREVRANGE', name, '0', '0', 'WITHSCORES')
  return found[1], tonumber(found[2])
end

-- The fields of a hash in a table by their names.
function Pieces.hash(name)
  local flat, record = rcall('HGETALL', name), {}
  for n = 1, #flat, 2 do
    record[flat[n]] = flat[n + 1]
  end
  return record
end

-- The arguments from args[i] on.
function Pieces.rest(args, i)
  local rest = {}
  for n = i, #args do
    rest[#rest + 1] = args[n]
  end
  return rest
end
