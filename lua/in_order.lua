-- Names in their order, sorted only as far as they are looked at: mostly a worker of ten thousand queues finds a
-- job in one of the first.

local FIRST = 16 -- names that are picked out before all are sorted
local FEW = 64 -- of so few all are sorted at once

local function insert(names, last, name)
  while last > 1 and name < names[last - 1] do
    names[last] = names[last - 1]
    last = last - 1
  end
  names[last] = name
end

-- Puts the first ones to the front, in place; `unsorted` says that there are others.
function InOrder.begin(names)
  if #names <= FEW then
    table.sort(names)
    return
  end
  for n = 2, FIRST do
    insert(names, n, names[n])
  end
  for n = FIRST + 1, #names do
    local name = names[n]
    if name < names[FIRST] then
      names[n] = names[FIRST]
      insert(names, FIRST, name)
    end
  end
  names.unsorted = true
end

-- Sorts them all.
function InOrder.finish(names)
  names.unsorted = nil
  table.sort(names)
end

-- The n-th name of those that are unsorted.
function InOrder.at(names, n)
  if n > FIRST then
    InOrder.finish(names)
  end
  return names[n]
end
