-- A search among jobs: which of those in parts of lists may be meant, and how far it has looked.

local find, sub, match = string.find, string.sub, string.match

local BYTES = 4 * 1024 * 1024 -- of jobs' data that one call reads, and those of one job more

-- Which states a record may have of a job that is shown as being in a state.
local RECORDED = {
  waiting = { waiting = true, scheduled = true, stalled = true },
  running = { running = true },
  stalled = { running = true },
  scheduled = { scheduled = true },
  depends = { depends = true },
  failed = { failed = true },
  complete = { complete = true },
}

-- A pattern of names in which `*` and `?` stand for any characters: as the texts that a name must have in
-- this order. That is less than the pattern says, but no pattern takes long.
local function texts_of(pattern)
  if not find(pattern, '[*?%[]') then
    return { whole = pattern }
  end
  local plain, texts = match(pattern, '^[^%[]*'), { head = match(pattern, '^[^*?%[]*') }
  for text in string.gmatch(plain, '[^*?]+') do
    texts[#texts + 1] = text
  end
  texts.tail = plain == pattern and match(pattern, '[^*?]*$') or ''
  return texts
end

local function may_suit(name, texts)
  if texts.whole then
    return name == texts.whole
  end
  if
    sub(name, 1, #texts.head) ~= texts.head or texts.tail ~= '' and sub(name, -#texts.tail) ~= texts.tail
  then
    return false
  end
  local from = 1
  for n = 1, #texts do
    local _, last = find(name, texts[n], from, true)
    if not last then
      return false
    end
    from = last + 1
  end
  return true
end

local function has_any(text, texts)
  for n = 1, #texts do
    if find(text, texts[n], 1, true) then
      return true
    end
  end
  return false
end

-- Reads conditions, pairs of a name and a text, from args[i] on.
local READERS = {
  queue = function(wanted, text)
    wanted.queue = text
  end,
  state = function(wanted, text)
    wanted.states = RECORDED[text] or Errors.argument('search', 'Unknown state ' .. Errors.name(text))
  end,
  klass = function(wanted, text)
    wanted.klass = texts_of(text)
  end,
  jid = function(wanted, text)
    wanted.jid = text
  end,
  data = function(wanted, text)
    wanted.data = wanted.data or {}
    wanted.data[#wanted.data + 1] = text
  end,
}

local function read_conditions(args, i, number)
  local wanted = {}
  for n = i, i + 2 * number - 1, 2 do
    local name = Arguments.given('search', 'condition', args[n])
    local reader = READERS[name]
    if not reader then
      Errors.argument('search', 'Unknown condition ' .. Errors.name(name))
    end
    reader(wanted, Arguments.given('search', name, args[n + 1]))
  end
  return wanted
end

-- May the job be meant? -> that, and how many bytes of data were read to know it, if any. (One field after the other
-- is read: mostly the first says no. Where one is missing, as of canceled jobs, the row is to tell.)
local function may_be(jid, wanted)
  if wanted.jid and sub(jid, 1, #wanted.jid) ~= wanted.jid then
    return false
  end
  local name = key.job(jid)
  if wanted.queue and (call('HGET', name, 'queue') or wanted.queue) ~= wanted.queue then
    return false
  end
  local state = wanted.states and call('HGET', name, 'state')
  if state and not wanted.states[state] then
    return false
  end
  local klass = wanted.klass and call('HGET', name, 'klass')
  if klass and not may_suit(klass, wanted.klass) then
    return false
  end
  local data = wanted.data and call('HGET', name, 'data')
  if data then
    return has_any(data, wanted.data), #data
  end
  return true
end

-- search most conditions (name text)... (kind list start count)... -> how many places were looked at, and
-- the rows of the jobs, at most `most`. Conditions: queue, state, the pattern klass, how the jid begins, and a
-- text that is in the data, or one of several.
--
-- A few jobs too many may be among them: a pattern is not compared to the letter, locks are not looked at.
function Search.search(args, i)
  local most = Arguments.whole('search', 'most', args[i], 0)
  local number = Arguments.whole('search', 'conditions', args[i + 1], 0)
  Arguments.bounded('search', most)
  Arguments.bounded('search', number)
  local wanted = read_conditions(args, i + 2, number)
  local first = i + 2 + 2 * number
  JobSummary.check_parts('search', args, first)
  local jids, places, looked = JobSummary.listed(args, first)
  local rows, bytes, tracking = {}, 0, JobSummary.any_tracked()
  for n = 1, #jids do
    if #rows >= most or bytes >= BYTES then
      looked = places[n] - 1
      break
    end
    local is_meant, read = may_be(jids[n], wanted)
    bytes = bytes + (read or 0)
    rows[#rows + 1] = is_meant and JobSummary.row(jids[n], tracking) or nil
  end
  return cjson.encode({ looked = looked, jobs = rows })
end
