-- Which queues a call serves, in what order: those that the names and globs of a worker stand for.
--
-- They are served in the order given, those of a glob in order of name. Of globs, and of many names, only queues are asked
-- that may have something: those of the set `ready`. A queue comes into it with the first thing that comes into the queue, and is
-- taken out by a call that finds nothing in any of its places.

local find, gsub = string.find, string.gsub
local rcall = redis.call

local MANY = 64 -- names of which each is asked; of more, only those that are ready
local MOST = 1000 -- queues of globs looked at by one call
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

-- The names of queues that may have something, in order; of very many some, and others the next time.
local function ready(call)
  local names
  if rcall('SCARD', call.keys.ready) > MOST then
    names = rcall('SRANDMEMBER', call.keys.ready, MOST)
  else
    names = rcall('SMEMBERS', call.keys.ready)
  end
  table.sort(names)
  return names
end

-- Those of the names that may have something, as a set.
local function ready_among(call, names)
  local found = {}
  local is = rcall('SMISMEMBER', call.keys.ready, unpack(names))
  for n = 1, #names do
    found[names[n]] = is[n] == 1
  end
  return found
end

local function gather(call, choice, names)
  local seen, wanted = {}, #names > MANY and ready_among(call, names)
  local excluded, known = choice.excluded, nil
  local function add(name)
    if not seen[name] and not matches_any(name, excluded) then
      seen[name] = true
      choice.queues[#choice.queues + 1] = Keys.queue(call, name)
    end
  end
  for n = 1, #names do
    if is_glob(names[n]) then
      known = known or ready(call)
      local its = pattern(names[n])
      for _, name in ipairs(known) do
        if find(name, its) then
          add(name)
        end
      end
    elseif not wanted or wanted[names[n]] then
      add(names[n])
    end
  end
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

-- The queues of a worker: `queues`, and whether there are globs among the names (`globbing`), or too many names: then only
-- the ready ones are among the queues (`partly`). `excluded` are globs.
function Queues.choose(call, names, excluded)
  local choice =
    { queues = {}, globbing = false, partly = #names > MANY, names = names, excluding = excluded }
  for n = 1, #names do
    choice.globbing = choice.globbing or is_glob(names[n])
  end
  if #excluded == 0 and not choice.globbing and not choice.partly then
    local seen, queues = {}, choice.queues
    for n = 1, #names do
      if not seen[names[n]] then
        seen[names[n]] = true
        queues[#queues + 1] = Keys.queue(call, names[n])
      end
    end
    return choice
  end
  choice.excluded = patterns_of(excluded)
  gather(call, choice, names)
  return choice
end

-- Is nothing in any place of the queue?
function Queues.is_empty(queue)
  local names = { queue.work, queue.locks, queue.scheduled, queue.recur, queue.parked, queue.depends }
  return rcall('EXISTS', unpack(names)) == 0
end

-- Takes up to wish.count jobs: `take` is given a queue and a number, and returns how many it has taken.
function Queues.serve(call, choice, wish, take)
  local wanted = wish.count
  for n = 1, #choice.queues do
    if wanted <= 0 then
      return
    end
    local queue = choice.queues[n]
    local taken = take(queue, wanted)
    wanted = wanted - taken
    if taken == 0 and (choice.globbing or choice.partly) and Queues.is_empty(queue) then
      rcall('SREM', call.keys.ready, queue.name)
    end
  end
end

-- All queues that there are, in the order first seen; at most `most`, if that is given.
function Queues.names(call, most)
  return rcall('ZRANGE', call.keys.queues, 0, most and most - 1 or -1)
end
