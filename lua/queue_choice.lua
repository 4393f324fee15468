-- Which queues a call serves, in what order: those that the names and globs of a worker stand for.
--
-- They are served in the order given, those of a glob in order of name. Of globs, and of very many names, only queues
-- are asked that may have something: see nonempty.lua.

local find, gsub, match = string.find, string.gsub, string.match

-- Bytes of the text of a choice.
local LONGEST = 1000

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

-- Says once of each queue whether it is met for the first time and not excluded.
local function filter(choice)
  local seen, excluded = {}, choice.excluded
  return function(queue)
    if seen[queue] or matches_any(queue, excluded) then
      return false
    end
    seen[queue] = true
    return true
  end
end

-- Queues that the glob stands for, one after the other: `at` gives the n-th of those that there are.
-- -> whether to stop
local function each_of_glob(glob, at, is_new, visit)
  local wanted, n = glob ~= '*' and pattern(glob), 1
  local queue = at(n)
  while queue do
    if (not wanted or find(queue, wanted)) and is_new(queue) and visit(queue) then
      return true
    end
    n = n + 1
    queue = at(n)
  end
  return false
end

-- All known queues, as the call has read them.
local function known(choice)
  choice.known = choice.known or Queue.names()
  return choice.known
end

-- The queues that a glob stands for, in order of name.
local function gather_glob(choice, glob, is_new)
  local found, names = {}, known(choice)
  local function at(n)
    return names[n]
  end
  each_of_glob(glob, at, is_new, function(queue)
    found[#found + 1] = queue
  end)
  table.sort(found)
  return found
end

-- All queues that the names and globs stand for, whether there is anything in them or not.
function QueueChoice.all(choice)
  if choice.gathered then
    return choice.gathered
  end
  local queues, is_new = {}, filter(choice)
  for _, name in ipairs(choice.names) do
    if not is_glob(name) then
      queues[#queues + 1] = is_new(name) and name or nil
    else
      for _, queue in ipairs(gather_glob(choice, name, is_new)) do
        queues[#queues + 1] = queue
      end
    end
  end
  choice.gathered = queues
  return queues
end

-- How many they are.
local function count(choice)
  if not choice.gathered and choice.is_all then
    return call('ZCARD', key.queues())
  end
  return #QueueChoice.all(choice)
end

-- Calls `visit` with each queue that may have something, until that returns true.
local function each(choice, visit)
  local is_new, prefix = filter(choice), nil
  local function at(n)
    return Nonempty.at(prefix, n)
  end
  for n, name in ipairs(choice.names) do
    prefix = is_glob(name) and match(name, '^[^*?]*')
    if prefix then
      if each_of_glob(name, at, is_new, visit) then
        return
      end
    elseif (not choice.many or Nonempty.may_have(choice.names, n)) and is_new(name) and visit(name) then
      return
    end
  end
end

-- The queues to be asked if they are few, so that what is absent can be asked for at once; else there are `many`.
local function find_few(choice)
  local few = {}
  if choice.is_all then
    choice.few = Nonempty.all(ExistenceCache.many)
    choice.many = not choice.few
    return
  end
  choice.many = #choice.names > ExistenceCache.many
  if not choice.many then
    each(choice, function(queue)
      few[#few + 1] = queue
      choice.many = #few > ExistenceCache.many
      return choice.many
    end)
  end
  choice.few = not choice.many and few or nil
end

local function begin(choice)
  Nonempty.begin()
  find_few(choice)
end

-- The queues of a worker; `excluded` are globs. The choice has
--   few        the queues to be asked, if they are few
--   gathered   all queues that it stands for, when they are known; mostly they need not be
--   globbing   whether there are globs
--   is_all     whether it is just `*`
--   indexed    whether only those are asked that may have something
function QueueChoice.of(names, excluded)
  local is_single, globbing = #names == 1 and #excluded == 0, false
  local is_all = is_single and names[1] == '*'
  for n = 1, #names do
    globbing = globbing or is_all or is_glob(names[n])
  end
  if is_single and not globbing then
    return { few = names, gathered = names, globbing = false }
  end
  local choice = {
    names = names,
    excluded = is_all and excluded or patterns_of(excluded),
    excluding = excluded,
    globbing = globbing,
    indexed = globbing or #names > ExistenceCache.many,
    is_all = is_all,
    few = false,
    many = false,
  }
  if choice.indexed then
    begin(choice)
  else
    choice.few = QueueChoice.all(choice)
  end
  return choice
end

-- A choice as text, the same in every order of its names and globs, and without names for which a glob stands: workers
-- that rank their queues send these as well. A text that would be too long stands for all queues.
function QueueChoice.text(choice)
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

-- Is this queue among those for which such a text stands?
function QueueChoice.text_has(text, queue)
  local names, excluded = unpack(cjson.decode(text))
  return matches_any(queue, patterns_of(names)) and not matches_any(queue, patterns_of(excluded))
end

-- One queue after the other, until there are `wanted` jobs. -> how many are missing
local function one_by_one(choice, wanted, take)
  local few = choice.few
  if few then
    for n = 1, #few do
      wanted = wanted > 0 and wanted - take(few[n], wanted) or 0
    end
    return wanted
  end
  each(choice, function(queue)
    wanted = wanted - take(queue, wanted)
    return wanted <= 0
  end)
  return wanted
end

-- The part of each queue in the first round. Those have one, too, that are known to be empty; but who has more queues
-- than half of the jobs wanted need not count them.
local function first_part(choice, visit_each, wanted)
  local met = 0
  visit_each(function()
    met = met + 1
    return 2 * met > wanted
  end)
  return 2 * met > wanted and 1 or math.max(1, math.floor(wanted / math.max(1, count(choice))))
end

-- As if single jobs were taken from each queue in turn: in each round an equal part from each
-- that has not shown to be empty. -> how many are missing
local function in_turns(choice, wanted, take)
  local function visit_each(visit)
    if not choice.few then
      each(choice, visit)
      return
    end
    for n = 1, #choice.few do
      if visit(choice.few[n]) then
        return
      end
    end
  end
  local part, going_on = first_part(choice, visit_each, wanted), {}
  local function take_part(queue)
    local taken = take(queue, part)
    wanted = wanted - taken
    if taken == part then
      going_on[#going_on + 1] = queue
    end
    return wanted == 0
  end
  visit_each(take_part)
  while wanted > 0 and #going_on > 0 do
    local queues = going_on
    part, going_on = math.max(1, math.floor(wanted / #queues)), {}
    for n = 1, #queues do
      if take_part(queues[n]) then
        return wanted
      end
    end
  end
  return wanted
end

-- Has a call that has found nothing to take again?
local function may_have_missed(choice)
  if not Nonempty.is_stale() and not Nonempty.look_at(QueueChoice.all(choice)) then
    return false
  end
  begin(choice)
  return true
end

-- Takes up to `wanted` jobs, in turns or not: `take` is given a queue and a number, and returns how many it has taken.
function QueueChoice.serve(choice, wanted, turns, take)
  local serve = turns and in_turns or one_by_one
  if choice.indexed and Nonempty.is_stale() then
    begin(choice)
  end
  local missing = serve(choice, wanted, take)
  if choice.indexed and missing == wanted and may_have_missed(choice) then
    serve(choice, wanted, take)
  end
end
