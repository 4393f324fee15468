-- Fields of records that are JSON, and those that are in no job's record: how each is read. (They are apart from the
-- numbers, which each run has to do with.)

local find, decode = string.find, cjson.decode

local function table_of(text)
  local fine, value = pcall(decode, text)
  return fine and type(value) == 'table' and value or false
end

-- cjson writes an empty list and an empty object alike.
local function is_list(value, kinds)
  local count = #value
  for k, item in pairs(value) do
    if type(k) ~= 'number' or k > count or (kinds and not kinds[type(item)]) then
      return false
    end
  end
  return true
end

local NAMES = { string = true, number = true }

-- A new list each time: readers change them.
local function list_of(kinds)
  return function(text)
    local value = table_of(text)
    return value and is_list(value, kinds) and value
  end
end

local function is_text(value)
  return value == nil or type(value) == 'string'
end

local function failure(text)
  local value = table_of(text)
  local fine = value
    and #value == 0
    and is_text(value.group)
    and is_text(value.message)
    and (value.when == nil or type(value.when) == 'number')
  return fine and value
end

local function object(text)
  local value = table_of(text)
  return value and #value == 0 and value
end

-- Numbers by names.
local function counts(text)
  local value = table_of(text)
  for name, number in pairs(value or {}) do
    if type(name) ~= 'string' or type(number) ~= 'number' then
      return false
    end
  end
  return value
end

local function old_history(text)
  local value = table_of(text)
  if not value or not is_list(value, { table = true }) then
    return false
  end
  for _, entry in ipairs(value) do
    for _, when in ipairs({ 'put', 'popped', 'failed', 'done' }) do
      if entry[when] ~= nil and not tonumber(entry[when]) then
        return false
      end
    end
    if not is_text(entry.q) or not is_text(entry.worker) or (entry.put and not entry.q) then
      return false
    end
  end
  return value
end

local function is_entry(value)
  return type(value) == 'table'
    and type(value[1]) == 'number'
    and type(value[2]) == 'string'
    and (value[3] == nil or type(value[3]) == 'table')
end

local function entries(text)
  local value = table_of(text)
  for _, entry in ipairs(value or {}) do
    if not is_entry(entry) then
      return false
    end
  end
  return value and is_list(value) and value
end

local names = list_of(NAMES)

-- The keys behind the letter.
local function unique(text)
  local keys = find(text, '^[se]') and names(string.sub(text, 2))
  return keys and keys[1] and keys
end

-- Limits, and how many each allowed when the job took them. (Earlier cores wrote their names alone.)
local function holds(text)
  local listed = names(text)
  if not listed then
    return counts(text)
  end
  local found = {}
  for _, name in ipairs(listed) do
    found[name] = math.huge
  end
  return found
end

-- Those of jobs. -> what is read, or false
RecordTexts.of_jobs = {
  tags = names,
  spawners = names,
  beyond = names,
  called = names,
  holds = holds,
  failure = failure,
  context = object,
  progress = list_of(),
  history = old_history,
  unique = unique,
}

local function decimal(text)
  return Record.number(text) or false
end

-- An interval: nothing goes on by steps of 0.
local function above_zero(text)
  local seconds = decimal(text)
  return seconds and seconds > 0 and seconds
end

-- What stands in the records of what recurs and of workflows, where it is another thing.
RecordTexts.elsewhere = {
  interval = above_zero,
  backlog = decimal,
  count = Record.whole,
  last = decimal,
  since = decimal,
  meta = object,
  entries = entries,
}

-- Can the field be read, whose text this is?
function RecordTexts.is_good(field, text)
  return RecordTexts.of_jobs[field](text) and true
end

-- An entry of a history, or nil.
function RecordTexts.entry(text)
  local triple = table_of(text)
  return is_entry(triple) and triple or nil
end
