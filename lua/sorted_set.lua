-- Variadic commands in pieces: Lua cannot unpack more than some thousand values.
local SortedSet = {}
Qless.SortedSet = SortedSet

local call = redis.call
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
  in_pieces('ZREM', name, members)
end

-- All members with one score. It is printed once: as a number it would be for each member.
function SortedSet.add(name, score, members)
  score = Qless.printed(score)
  local values = {}
  for i = 1, #members do
    values[2 * i - 1] = score
    values[2 * i] = members[i]
  end
  in_pieces('ZADD', name, values)
end

function SortedSet.add_to_set(name, members)
  in_pieces('SADD', name, members)
end
