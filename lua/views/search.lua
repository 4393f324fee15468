-- A search among jobs: which of those in parts of lists may be meant, and how far it has looked.

local find, sub, match = string.find, string.sub, string.match
local rcall = redis.call

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

-- A pattern of names in which `*` and `?` stand for any characters: as the texts that a name must have in this order.
-- That is less than the pattern says, but no pattern takes long.
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
  local has_tail = texts.tail == '' or sub(name, -#texts.tail) == texts.tail
  if sub(name, 1, #texts.head) ~= texts.head or not has_tail then
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

local READERS = {
  queue = function(_, wanted, text)
    wanted.queue = text
  end,
  state = function(call, wanted, text)
    wanted.states = RECORDED[text] or Errors.argument(call, 'Unknown state ' .. Errors.name(text))
  end,
  klass = function(_, wanted, text)
    wanted.klass = texts_of(text)
  end,
  jid = function(_, wanted, text)
    wanted.jid = text
  end,
  data = function(_, wanted, text)
    wanted.data = wanted.data or {}
    wanted.data[#wanted.data + 1] = text
  end,
}

-- Reads conditions, pairs of a name and a text, from args[i] on.
local function read_conditions(call, args, i, number)
  local wanted = {}
  for n = i, i + 2 * number - 1, 2 do
    local name = Arguments.given(call, 'condition', args[n])
    local reader = READERS[name]
    if not reader then
      Errors.argument(call, 'Unknown condition ' .. Errors.name(name))
    end
    reader(call, wanted, Arguments.given(call, name, args[n + 1]))
  end
  return wanted
end

-- May the job be meant? -> that, and how many bytes of data were read to know it, if any. (One field after the other is
-- read: mostly the first says no. Where one is missing, as of canceled jobs, the row is to tell.)
local function may_be(call, jid, wanted)
  if wanted.jid and sub(jid, 1, #wanted.jid) ~= wanted.jid then
    return false
  end
  local name = Keys.job(call, jid)
  if wanted.queue and (rcall('HGET', name, 'queue') or wanted.queue) ~= wanted.queue then
    return false
  end
  local state = wanted.states and rcall('HGET', name, 'state')
  if state and not wanted.states[state] then
    return false
  end
  local klass = wanted.klass and rcall('HGET', name, 'klass')
  if klass and not may_suit(klass, wanted.klass) then
    return false
  end
  local data = wanted.data and rcall('HGET', name, 'data')
  if data then
    return has_any(data, wanted.data), #data
  end
  return true
end

-- The jids in the parts, the place of each among all that the parts name, and how many places these are: at most as
-- many as a call may handle.
local function listed(call, parts)
  local jids, places, before = {}, {}, 0
  for _, part in ipairs(parts) do
    local most = Arguments.most - before
    for at, jid in ipairs(JobSummary.jids(call, part, most)) do
      jids[#jids + 1], places[#places + 1] = jid, before + at
    end
    before = before + math.min(part.count, most)
  end
  return { jids = jids, places = places, number = before }
end

-- search most conditions (name text)... (kind list start count)... -> how many places were looked at, and the rows of
-- the jobs, at most `most`. Conditions: queue, state, the pattern klass, how the jid begins, and a text that is in the
-- data, or one of several.
--
-- A few jobs too many may be among them: a pattern is not compared to the letter, locks are not looked at.
function Search.search(call, args, i)
  local most = Arguments.whole(call, 'most', args[i], 0)
  local number = Arguments.whole(call, 'conditions', args[i + 1], 0)
  Arguments.bounded(call, most)
  Arguments.bounded(call, number)
  local wanted = read_conditions(call, args, i + 2, number)
  local list = listed(call, JobSummary.parts(call, args, i + 2 + 2 * number))
  local rows, bytes, looked = {}, 0, list.number
  for n, jid in ipairs(list.jids) do
    if #rows >= most or bytes >= BYTES then
      looked = list.places[n] - 1
      break
    end
    local is_meant, read = may_be(call, jid, wanted)
    bytes = bytes + (read or 0)
    rows[#rows + 1] = is_meant and JobSummary.row(call, jid) or nil
  end
  return cjson.encode({ looked = looked, jobs = rows })
end
