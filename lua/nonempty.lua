-- Which queues may have something: an index, so that a call that serves very many need not ask each.
--
-- Each queue with something in one of its places (PLACES) is in it, and perhaps some that have nothing: a queue is
-- added when something comes into it from outside (Places.register), and taken out by a call that serves many queues
-- and finds it bare. A foreign script adds none. So all queues are looked at from time to time, and whenever a call
-- has found nothing: the index never hides a job from a worker that has nothing else to do.

local PLACES = { 'work', 'locks', 'scheduled', 'recur', 'openings', 'aside', 'depends' }

-- Seconds from one look at all queues (of more than MOST, at the next part of them) to the next: so long may a job that
-- a foreign script has put into a queue stand behind those of queues that are served after it.
local EVERY = 5

-- The field of meta that says when that was done last.
Nonempty.looked = 'looked'

-- Queues read at a time, at first and at most; queues asked for at once whether there is anything in them.
local FEW, MOST, TOGETHER = 16, 1000, 64

-- As texts: a number costs more.
local AT_ONCE = {}
for _, size in ipairs({ 16, 64, 256, 1000 }) do
  AT_ONCE[size] = NumberFormat.whole(size)
end

-- What the call knows of the index, in scope.nonempty:
--   parts    by prefix: the queues in it whose names begin so, in order of name, as far as they are read; `from` is where
--            the others begin, nil if there are none, `size` how many are read next
--   size     how many names the next question is for
--   has      by queue: is it to be asked? (nil: not known)
--   unknown  by queue: nothing says that there is one of this name
--   bare     by queue: the call has found it so
--   stale    the call has added some that it may have passed over
-- (Mostly few of these tables are ever needed, so they are made when something comes into them.)
local NOTHING = {}

local function fresh()
  return { parts = NOTHING, size = FEW, has = NOTHING, bare = NOTHING, unknown = NOTHING, stale = false }
end

local function note(index, table, name, value)
  if index[table] == NOTHING then
    index[table] = {}
  end
  index[table][name] = value
end

-- -> whether the queue was not in the index
function Nonempty.add(queue)
  local index, is_new = scope.nonempty, call('ZADD', key.nonempty(), 'NX', '0', queue) == 1
  if index then
    note(index, 'bare', queue, nil)
    index.stale = index.stale or is_new
  end
  return is_new
end

function Nonempty.remove(queues)
  SortedSet.remove(key.nonempty(), queues)
end

-- Is there nothing in any place of these queues?
local function are_bare(queues, first, last)
  local names = {}
  for n = first, last do
    for _, place in ipairs(PLACES) do
      names[#names + 1] = key.place(queues[n], place)
    end
  end
  return call('EXISTS', unpack(names)) == 0
end

-- Those of the queues that have something, asked for together, as mostly none has; notes the others.
local function with_something(queues, index)
  local found = {}
  for first = 1, #queues, TOGETHER do
    local last = math.min(first + TOGETHER - 1, #queues)
    local none = are_bare(queues, first, last)
    for n = first, last do
      if none or are_bare(queues, n, n) then
        note(index, 'bare', queues[n], true)
      else
        found[#found + 1] = queues[n]
      end
    end
  end
  return found
end

-- Those of the members of a set that another one does not have; of very many, some of them, and others the next time.
local function missing_in(other, name, first)
  local missing, queues = {}, call('ZRANGE', name, first, first + MOST - 1)
  local scores = #queues > 0 and call('ZMSCORE', other, unpack(queues)) or {}
  for n, score in ipairs(scores) do
    missing[#missing + 1] = not score and queues[n] or nil
  end
  return missing
end

-- In which parts the members of a set are looked at: the ranks where they begin. -> the first of them, the last
local function parts_of(name, is_first)
  local last = math.max(0, math.ceil(call('ZCARD', name) / MOST) - 1)
  if is_first then
    return 0, last * MOST
  end
  local part = math.floor(scope.now / EVERY) % (last + 1)
  return part * MOST, part * MOST
end

-- Queues with something that are known, but not in the index.
local function add_missing(index, is_first)
  local first, last = parts_of(key.queues(), is_first)
  for from = first, last, MOST do
    local missing = missing_in(key.nonempty(), key.queues(), from)
    SortedSet.add(key.nonempty(), '0', with_something(missing, index))
  end
end

-- Queues in the index that a foreign script has forgotten: if there is anything in them, they are known again.
local function know_again(index)
  local queues = missing_in(key.queues(), key.nonempty(), (parts_of(key.nonempty())))
  for _, queue in ipairs(with_something(queues, index)) do
    call('ZADD', key.queues(), 'NX', scope.now, queue)
  end
  local gone = {}
  for _, queue in ipairs(queues) do
    gone[#gone + 1] = index.bare[queue] and queue or nil
  end
  Nonempty.remove(gone)
end

-- Looks at all queues, or at some of very many; at all of them if it is the first look.
local function look(is_first)
  local index = fresh()
  add_missing(index, is_first)
  know_again(index)
  scope.clock.looked = NumberFormat.second()
  call('HSET', key.meta(), Nonempty.looked, NumberFormat.second())
  return index
end

function Nonempty.is_stale()
  return scope.nonempty.stale or false
end

-- Are the queues to be looked at, by when that was done last?
local function is_late(since)
  return since < 0 or since >= EVERY
end

-- Begins to read the index.
function Nonempty.begin()
  local time = tonumber(scope.clock.looked or nil)
  scope.nonempty = (not time or is_late(scope.now - time)) and look(not time) or fresh()
end

-- The part of the index with this prefix.
local function part_of(prefix)
  local index = scope.nonempty
  local part = index.parts[prefix]
  if not part then
    part = { from = '[' .. prefix, size = FEW }
    note(index, 'parts', prefix, part)
  end
  return part
end

local function read_on(part, prefix)
  local read = call('ZRANGE', key.nonempty(), part.from, '+', 'BYLEX', 'LIMIT', '0', AT_ONCE[part.size])
  part.from = #read == part.size and '(' .. read[#read] or nil
  part.size = math.min(4 * part.size, MOST)
  for n = 1, #read do
    if string.sub(read[n], 1, #prefix) ~= prefix then
      part.from = nil
      break
    end
    part[#part + 1] = read[n]
  end
end

-- The n-th queue of the index whose name begins so, in order of name; nil behind the last one.
function Nonempty.at(prefix, n)
  local part = part_of(prefix)
  if n > #part and part.from then
    read_on(part, prefix)
  end
  return part[n]
end

-- All queues of the index if they are not more than so many, or nil.
function Nonempty.all(most)
  local part = part_of('')
  while #part <= most and part.from do
    read_on(part, '')
  end
  return #part <= most and part or nil
end

-- Asks for some of the names from the i-th on, more each time. Who is not known may have been forgotten with all its
-- jobs, and is to be asked as well.
local function ask(names, i)
  local index = scope.nonempty
  local some = { unpack(names, i, math.min(i + index.size - 1, #names)) }
  index.size = math.min(4 * index.size, MOST)
  local missing = {}
  for n, score in ipairs(call('ZMSCORE', key.nonempty(), unpack(some))) do
    note(index, 'has', some[n], score and true or false)
    if not score then
      missing[#missing + 1] = some[n]
    end
  end
  local known = #missing > 0 and call('ZMSCORE', key.queues(), unpack(missing)) or {}
  for n, score in ipairs(known) do
    note(index, 'has', missing[n], not score)
    note(index, 'unknown', missing[n], not score)
  end
end

-- Is the i-th of these names to be asked?
function Nonempty.may_have(names, i)
  local index = scope.nonempty
  if index.has[names[i]] == nil then
    ask(names, i)
  end
  return index.has[names[i]]
end

local function take_out(index, queue)
  if call('EXISTS', key.place(queue, 'aside'), key.place(queue, 'depends')) == 0 then
    note(index, 'bare', queue, true)
    call('ZREM', key.nonempty(), queue)
  end
end

-- Is there nothing in the queue that could be handed out, now or later? If there is nothing at all in one that the
-- index has, it is taken out.
function Nonempty.is_bare(queue)
  local index = scope.nonempty
  if index and index.bare[queue] then
    return true
  elseif not ExistenceCache.is_bare(queue) then
    return false
  end
  if index and not index.unknown[queue] then
    take_out(index, queue)
  end
  return true
end

-- Looks at these queues, as the call has found nothing. (Those that are not known were asked.) -> whether some were
-- added
function Nonempty.look_at(queues)
  local index, missing = scope.nonempty, {}
  for first = 1, #queues, MOST do
    local some = { unpack(queues, first, math.min(first + MOST - 1, #queues)) }
    for n, score in ipairs(call('ZMSCORE', key.nonempty(), unpack(some))) do
      missing[#missing + 1] = not score and not index.bare[some[n]] and some[n] or nil
    end
  end
  local found = {}
  for _, queue in ipairs(with_something(missing, index)) do
    found[#found + 1] = call('ZSCORE', key.queues(), queue) and queue or nil
  end
  SortedSet.add(key.nonempty(), '0', found)
  return #found > 0
end
