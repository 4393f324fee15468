-- Variadic commands in pieces: Lua cannot unpack more than some thousand values.

local PIECE = 1000

local function in_pieces(command, name, values)
  local n = #values
  if n == 0 then
    return
  end
  if n <= PIECE then
    call(command, name, unpack(values))
    return
  end
  for first = 1, n, PIECE do
    call(command, name, unpack(values, first, math.min(first + PIECE - 1, n)))
  end
end

function SortedSet.remove(name, members)
  if #members == 1 then
    call('ZREM', name, members[1])
    return
  end
  in_pieces('ZREM', name, members)
end

-- All members with one score, as text: as a number it would be printed for each member.
function SortedSet.add(name, score, members)
  if #members == 1 then
    call('ZADD', name, score, members[1])
    return
  end
  local values = {}
  for i = 1, #members do
    values[2 * i - 1] = score
    values[2 * i] = members[i]
  end
  in_pieces('ZADD', name, values)
end

-- The first members of a set, as many as one call may name; or with their scores.
function SortedSet.head(name, ...)
  return call('ZRANGE', name, 0, Arguments.most - 1, ...)
end

-- The member with the lowest score, and the score; nil if there is none.
function SortedSet.first(name)
  local found = call('ZRANGE', name, 0, 0, 'WITHSCORES')
  return found[1], tonumber(found[2])
end

-- The member with the highest score, and the score; nil if there is none.
function SortedSet.last(name)
  local found = call('ZREVRANGE', name, 0, 0, 'WITHSCORES')
  return found[1], tonumber(found[2])
end

function SortedSet.add_to_set(name, members)
  in_pieces('SADD', name, members)
end

function SortedSet.append(name, elements)
  in_pieces('RPUSH', name, elements)
end
