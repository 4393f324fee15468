-- Reads the fields of records: jobs, recurring templates, schedules, workflows. Nothing here raises.
-- A field that is not there has its default; so has one that cannot be read, and who must not go on
-- with a default asks which it is.

local find, gsub = string.find, string.gsub
local HUGE = math.huge

local SHOWN = 60 -- bytes of a value in a message

local function decimal(text)
  local number = tonumber(text)
  if number and number == number and number < HUGE and number > -HUGE then
    return number
  end
  return false
end

-- As clients read it as well: neither 0x10 nor blanks.
local function number(text)
  return find(text, '^[-+]?[%d.][%d.eE+-]*$') and decimal(text)
end

local MOST = 2 ^ 53 -- the largest whole number that commands take

local function whole(text)
  local value = find(text, '^-?%d+$') and decimal(text)
  return value and value <= MOST and value >= -MOST and value
end
Record.whole = whole

-- '' where there is none.
local function decimal_or_none(text)
  return text == '' and 0 or decimal(text)
end

local STATES = {
  waiting = true,
  running = true,
  stalled = true,
  scheduled = true,
  depends = true,
  failed = true,
  complete = true,
}

local function state(text)
  return STATES[text] and text
end

-- How the fields are read that every run has to do with. -> what is read, or false
local READ = {
  state = state,
  priority = number,
  retries = whole,
  remaining = whole,
  crashes = whole,
  token = whole,
  time = decimal,
  expires = decimal_or_none,
  deadline = decimal,
  scheduled = decimal,
  first = decimal,
  unknown = decimal,
  cascade = whole,
}

local function reader_of(field)
  return READ[field] or RecordTexts.of_jobs[field] or RecordTexts.elsewhere[field]
end

-- The fields of a job's record that may be impossible to read, by name.
function Record.fields()
  local fields = {}
  for field in pairs(READ) do
    fields[#fields + 1] = field
  end
  for field in pairs(RecordTexts.of_jobs) do
    fields[#fields + 1] = field
  end
  table.sort(fields)
  return fields
end

-- The value of a field whose text was read, or the default.
function Record.read(field, text, default)
  if not text then
    return default
  end
  local value = reader_of(field)(text)
  if value == false or value == nil then
    return default
  end
  return value
end

-- Is there a text that cannot be read?
function Record.is_bad(field, text)
  local reader = type(text) == 'string' and reader_of(field)
  return reader and not reader(text) or false
end

-- Is this the name of a state?
function Record.is_state(text)
  return STATES[text or ''] or false
end

-- Numbers of one digit, which nearly all of these are, need not be read again.
local DIGITS = {}
for digit = 0, 9 do
  DIGITS[string.format('%d', digit)] = true
end

-- May a job with these fields, without which nothing runs, be handed out? -> since when it has been
-- ready (now, if the record does not say), or nil. All jobs come here, and most have no tags ('{}').
function Record.ready_time(retries, remaining, priority, tags, context, time, now)
  if
    retries
    and (DIGITS[retries] or whole(retries))
    and remaining
    and (DIGITS[remaining] or whole(remaining))
    and priority
    and (DIGITS[priority] or number(priority))
    and (not tags or tags == '{}' or RecordTexts.is_good('tags', tags))
    and (not context or RecordTexts.is_good('context', context))
  then
    return not time and now or decimal(time) or nil
  end
end

-- The text, or the default in its place.
function Record.text(field, text, default)
  if not text or Record.is_bad(field, text) then
    return default
  end
  return text
end

-- The first of these fields that cannot be read. -> its name and its text, or nil
function Record.first_bad(fields, texts)
  for n = 1, #fields do
    local text = texts[n]
    local reader = text and reader_of(fields[n])
    if reader and not reader(text) then
      return fields[n], text
    end
  end
end

-- A readable form of a value that cannot be read.
local function shorten(text)
  local shown = gsub(text, '[^\32-\126]', '?')
  return #shown > SHOWN and Errors.cut(shown, SHOWN) .. '...' or shown
end

-- An entry of a job's history as a list: when, what, more. One that cannot be read is shown as what it
-- is. -> the entry, whether it cannot be read
function Record.entry_of(text)
  local triple = RecordTexts.entry(text)
  if triple then
    return triple, false
  end
  return { 0, 'unreadable', { text = shorten(text) } }, true
end

-- The texts of such entries, all of which can be read.
function Record.entry_texts(texts)
  for n, text in ipairs(texts) do
    local entry, is_bad = Record.entry_of(text)
    texts[n] = is_bad and cjson.encode(entry) or text
  end
  return texts
end

-- What is said of a field that cannot be read.
function Record.words(field, text)
  return 'Its field ' .. field .. ' cannot be read: ' .. (text == '' and 'it is empty' or shorten(text))
end

-- A number, or nil.
function Record.number(text)
  return text and decimal(text) or nil
end

local NEEDED = { 'queue', 'klass', 'data', 'priority', 'retries', 'tags' }
local JUDGED = { 'priority', 'retries', 'tags', 'context', 'interval', 'backlog', 'count' }

-- What of a schedule's record cannot be read and keeps it from putting jobs. -> its name and its text,
-- or nil
function Record.bad_schedule(record)
  for _, field in ipairs(NEEDED) do
    if not record[field] then
      return field, ''
    end
  end
  if not record.cron and not (record.interval and record.count) then
    return record.interval and 'count' or 'interval', ''
  end
  for _, field in ipairs(JUDGED) do
    if Record.is_bad(field, record[field]) then
      return field, record[field]
    end
  end
  if record.expires and not decimal(record.expires) then
    return 'expires', record.expires
  end
end
