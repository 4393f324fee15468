-- Which queues a call serves, in what order: those that the names and globs of a worker stand for.
--
-- They are served in the order given, those of a glob in order of name. Of globs, and of many names, only queues are asked
-- that may have something: those of the key `ready`. A queue comes into it with the first thing that comes into the queue,
-- and is taken out by a call that finds nothing in any of its places. Names are read in pages: most calls find enough in
-- the first.

local find, gsub = string.find, string.gsub
local rcall = redis.call

local MANY = 64 -- names of which each is asked; of more, only those that are ready
local MOST = 1000 -- queues looked at by one call for a glob; with more than that the second half begins anywhere
local PAGE = 50
local LONGEST = 1000 -- bytes of the text of a choice

local function is_glob(name)
  return find(name, '[*?]') ~= nil
end

-- One character of UTF-8: a byte that begins one, and those that go on with it.
local CHARACTER = '[^\128-\191][\128-\191]*'

-- A glob with * and ? as a Lua pattern.
local function pattern(glob)
  local escaped = gsub(glob, '[%^%$%(%)%%%.%[%]%+%-]', '%%%0')
  return '^' .. gsub(gsub(escaped, '%*', '.*'), '%?', CHARACTER) .. '$'
end

local function matches_any(queue, patterns)
  for n = 1, #patterns do
    if find(queue, patterns[n]) then
      return true
    end
  end
  return false
end

local function patterns_of(globs)
  local patterns = {}
  for n, glob in ipairs(globs) do
    patterns[n] = pattern(glob)
  end
  return patterns
end

-- Visits queues that may have something, in order of name, until `visit` returns true. -> whether it did
local function each_ready(call, visit)
  local name, from, looked = call.keys.ready, '-', 0
  repeat
    local page = rcall('ZRANGE', name, from, '+', 'BYLEX', 'LIMIT', '0', PAGE)
    for n = 1, #page do
      if visit(page[n]) then
        return true
      end
    end
    looked = looked + #page
    from = '(' .. (page[#page] or '')
    if looked == MOST / 2 and rcall('ZCARD', name) > MOST then
      from = '[' .. rcall('ZRANDMEMBER', name)
    end
  until #page < PAGE or looked >= MOST
  return false
end

-- Those of the names that may have something, as a set.
local function ready_among(call, names)
  local found = {}
  local scores = rcall('ZMSCORE', call.keys.ready, unpack(names))
  for n = 1, #names do
    found[names[n]] = scores[n] and true
  end
  return found
end

-- A choice as text, the same in every order of its names and globs, and without names for which a glob stands: workers
-- that rank their queues send these as well. A text that would be too long stands for all queues.
function Queues.text(choice)
  local globs, names = {}, {}
  for _, name in ipairs(choice.names) do
    globs[#globs + 1] = is_glob(name) and name or nil
  end
  local patterns = patterns_of(globs)
  for _, name in ipairs(choice.names) do
    names[#names + 1] = (is_glob(name) or not matches_any(name, patterns)) and name or nil
  end
  table.sort(names)
  local text = cjson.encode({ names, choice.excluding })
  return #text <= LONGEST and text or cjson.encode({ { '*' }, {}, redis.sha1hex(text) })
end

-- Is this queue among those for which the text stands?
function Queues.text_has(text, queue)
  local names, excluded = unpack(cjson.decode(text))
  return matches_any(queue, patterns_of(names)) and not matches_any(queue, patterns_of(excluded))
end

-- The queues of a worker. Whether there are globs among the names (`globbing`), or too many names (`partly`): then only
-- queues that may have something are asked, and `queues` has those that were. `excluded` are globs.
function Queues.choose(call, names, excluded)
  local choice =
    { queues = {}, globbing = false, partly = #names > MANY, names = names, excluding = excluded }
  for n = 1, #names do
    choice.globbing = choice.globbing or is_glob(names[n])
  end
  choice.excluded = #excluded > 0 and patterns_of(excluded) or excluded
  if choice.globbing or choice.partly then
    return choice
  end
  local seen, queues = {}, choice.queues
  for n = 1, #names do
    if not seen[names[n]] and not matches_any(names[n], choice.excluded) then
      seen[names[n]] = true
      queues[#queues + 1] = Keys.queue(call, names[n])
    end
  end
  return choice
end

-- Is nothing in any place of the queue?
function Queues.is_empty(queue)
  local names = { queue.work, queue.locks, queue.scheduled, queue.recur, queue.parked, queue.depends }
  return rcall('EXISTS', unpack(names)) == 0
end

-- Visits those of the queues of a worker that may have something, each once, until `visit` returns true.
local function each_of_many(call, choice, visit)
  local seen, wanted = {}, choice.partly and ready_among(call, choice.names)
  local function visit_once(name)
    if seen[name] or matches_any(name, choice.excluded) then
      return false
    end
    seen[name] = true
    local queue = Keys.queue(call, name)
    choice.queues[#choice.queues + 1] = queue
    return visit(queue)
  end
  for _, name in ipairs(choice.names) do
    local is_enough = false
    if is_glob(name) then
      local its = pattern(name)
      is_enough = each_ready(call, function(one)
        return find(one, its) and visit_once(one)
      end)
    elseif not wanted or wanted[name] then
      is_enough = visit_once(name)
    end
    if is_enough then
      return
    end
  end
end

-- Takes up to wish.count jobs: `take` is given a queue and a number, and returns how many it has taken.
function Queues.serve(call, choice, wish, take)
  local wanted = wish.count
  if not (choice.globbing or choice.partly) then
    for n = 1, #choice.queues do
      wanted = wanted - take(choice.queues[n], wanted)
      if wanted <= 0 then
        return
      end
    end
    return
  end
  each_of_many(call, choice, function(queue)
    local taken = take(queue, wanted)
    wanted = wanted - taken
    if taken == 0 and Queues.is_empty(queue) then
      rcall('ZREM', call.keys.ready, queue.name)
    end
    return wanted <= 0
  end)
end

-- All queues that there are, in the order first seen; at most `most`, if that is given.
function Queues.names(call, most)
  return rcall('ZRANGE', call.keys.queues, 0, most and most - 1 or -1)
end
