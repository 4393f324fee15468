-- Arguments: numbers, JSON texts, names and option pairs, checked once and in one wording.

local find, gsub, floor = string.find, string.gsub, math.floor
local HUGE = math.huge
local MOST = 1e300 -- sums of what is not beyond it are finite

Arguments.most = 1000 -- items one call may name
Arguments.data_bytes = 512 * 1024
Arguments.text_bytes = 64 * 1024
Arguments.tags = 32

local function refuse(command, what, value, wanted)
  Errors.argument(command, what .. ' ' .. wanted .. ', not ' .. Errors.value(value))
end

-- A required argument as it came.
function Arguments.given(command, what, value)
  if value == nil then
    Errors.argument(command, 'Arg "' .. what .. '" missing')
  end
  return value
end

-- A name under which a job is stored, or taken. (No name at all stands for "none" in records.)
function Arguments.real_name(command, what, value)
  if value == '' then
    Errors.argument(command, what .. ' must not be empty')
  end
  return Arguments.given(command, what, value)
end

-- The name of a queue, a worker or a job that may be there. (Without KEYS it may be empty: old clients send back what
-- records say.)
Arguments.name = Arguments.real_name

-- Who puts jobs: perhaps no worker that a lock could be lost to, ''.
function Arguments.asking(command, worker)
  return Arguments.given(command, 'worker', worker)
end

-- What shows that the caller holds a job: its token.
function Arguments.proof(command, value)
  return Arguments.given(command, 'token', value)
end

-- Most numbers are small and whole: these need no second look, and no second printing (redis.call
-- prints a number with 17 digits each time).
local SMALL, TEXTS = {}, {}

-- A number as redis.call would print it.
function Arguments.text_of(number)
  local text = TEXTS[number]
  if not text then
    text = string.format('%.17g', number)
    if #text == 1 then
      TEXTS[number] = text
    end
  end
  return text
end

Arguments.decimal = '^[%d.eE+-]+$'

-- A finite decimal number. (tonumber alone takes 0x10, nan and inf.)
function Arguments.number(command, what, value)
  local small = SMALL[value]
  if small then
    return small
  end
  Arguments.given(command, what, value)
  local plain = find(value, Arguments.decimal)
  local number = plain and tonumber(value)
  if not number or number ~= number or number == HUGE or number == -HUGE then
    refuse(command, what, value, 'must be a finite decimal number')
  elseif number > MOST or number < -MOST then
    refuse(command, what, value, 'must be a number between -1e300 and 1e300')
  end
  number = number + 0 -- no command takes -0
  if #value == 1 then
    SMALL[value] = number
  end
  return number
end

function Arguments.whole(command, what, value, least)
  local small = SMALL[value]
  if small and small >= (least or 0) then
    return small
  end
  local number = Arguments.number(command, what, value)
  if number ~= floor(number) or number < (least or -HUGE) or number > 2 ^ 53 then
    local wanted = 'must be a whole number'
    if least then
      wanted = wanted .. ' of at least ' .. least
    end
    refuse(command, what, value, wanted)
  end
  return number
end

-- Seconds that a job lay in its worker's hands before it was started; nil for '' or nothing.
function Arguments.held(command, value)
  return value and value ~= '' and math.max(0, Arguments.number(command, 'held', value)) or nil
end

-- How many items are wanted: never more than a call may handle.
function Arguments.count(command, value, default)
  if value == nil then
    return default
  end
  return math.max(math.min(floor(Arguments.number(command, 'count', value)), Arguments.most), -Arguments.most)
end

function Arguments.offset(command, value)
  if value == nil then
    return 0
  end
  return math.max(math.min(floor(Arguments.number(command, 'offset', value)), 2 ^ 40), -2 ^ 40)
end

-- From which item to which, as LRANGE and ZRANGE count them (from the end if negative), for a list of
-- so many: never more than a call may handle.
function Arguments.range(offset, count, total)
  local last = offset + count - 1
  local first = offset < 0 and math.max(0, total + offset) or offset
  last = last < 0 and total + last or last
  return first, math.min(last, first + Arguments.most - 1)
end

-- A number of items named by the caller.
function Arguments.bounded(command, number)
  if number > Arguments.most then
    Errors.raise('TOOBIG', command .. '(): ' .. number .. ' items in one call, at most ' .. Arguments.most)
  end
end

Arguments.bytes = 1024 * 1024

-- What one call may carry in all.
function Arguments.weigh(command, args)
  local bytes = 0
  for n = 1, #args do
    bytes = bytes + #args[n]
  end
  if bytes > Arguments.bytes then
    Errors.raise(
      'TOOBIG',
      '%s(): %s bytes of arguments in one call, at most %s',
      command,
      bytes,
      Arguments.bytes
    )
  end
end

-- A decoder that takes neither NaN nor 0x10 nor 01, as cjson's own would.
local decoder = cjson.new()
decoder.decode_invalid_numbers(false)
local decode = decoder.decode

-- RFC 8259 is stricter than the decoder in four things: '1.', '-.5', control characters
-- inside strings, bytes that are not UTF-8. Each is looked for outside the fast path only.
local function lax(text)
  if find(text, '^[/-~ --]*$') then
    return
  end
  if find(text, '[%z\1-\8\11\12\14-\31]') then
    return 'a control character'
  end
  if find(text, '%.%D') or find(text, '%.$') or find(text, '-%.') or find(text, '[\t\n\r]') then
    local bare = gsub(text, '\\.', '')
    for inside in string.gmatch(bare, '"([^"]*)"') do
      if find(inside, '[\t\n\r]') then
        return 'a control character'
      end
    end
    bare = gsub(bare, '"[^"]*"', '0')
    if find(bare, '%.%D') or find(bare, '%.$') or find(bare, '-%.') then
      return 'a number without digits beside its point'
    end
  end
  if find(text, '[\128-\255]') then
    local rest = gsub(text, '[\194-\223][\128-\191]', ' ')
    rest = gsub(rest, '\224[\160-\191][\128-\191]', ' ')
    rest = gsub(rest, '\237[\128-\159][\128-\191]', ' ')
    rest = gsub(rest, '[\225-\236\238\239][\128-\191][\128-\191]', ' ')
    rest = gsub(rest, '\240[\144-\191][\128-\191][\128-\191]', ' ')
    rest = gsub(rest, '[\241-\243][\128-\191][\128-\191][\128-\191]', ' ')
    rest = gsub(rest, '\244[\128-\143][\128-\191][\128-\191]', ' ')
    if find(rest, '[\128-\255]') then
      return 'bytes that are not UTF-8'
    end
  end
end

-- The value of a JSON text (RFC 8259).
function Arguments.json(command, what, text, bytes)
  Arguments.given(command, what, text)
  if #text > (bytes or Arguments.data_bytes) then
    Errors.raise(
      'TOOBIG',
      '%s(): %s has %s bytes, at most %s',
      command,
      what,
      #text,
      bytes or Arguments.data_bytes
    )
  end
  local fine, value = pcall(decode, text)
  if not fine then
    Errors.argument(command, what .. ' is not JSON: ' .. Errors.name(text))
  end
  local wrong = lax(text)
  if wrong then
    Errors.argument(command, what .. ' is not JSON, it has ' .. wrong)
  end
  return value
end

function Arguments.object(command, what, text)
  local value = Arguments.json(command, what, text, Arguments.text_bytes)
  if type(value) ~= 'table' or find(text, '^%s*%[') then
    Errors.argument(command, what .. ' must be a JSON object')
  end
  return value
end

-- A JSON list of names, in order and without repetition.
function Arguments.names(command, what, text)
  local list, seen, names = Arguments.json(command, what, text), {}, {}
  if type(list) ~= 'table' or (#list == 0 and next(list) ~= nil) then
    Errors.argument(command, what .. ' must be a JSON list')
  end
  for _, name in ipairs(list) do
    if type(name) == 'number' then
      name = string.format('%.14g', name)
    end
    if type(name) ~= 'string' then
      Errors.argument(command, what .. ' must be a JSON list of strings')
    end
    if not seen[name] then
      seen[name] = true
      names[#names + 1] = name
    end
  end
  return names
end

function Arguments.tag_list(command, text)
  local tags = Arguments.names(command, 'tags', text)
  return Arguments.few_tags(command, tags)
end

function Arguments.few_tags(command, tags)
  if #tags > Arguments.tags then
    Errors.raise('TOOBIG', command .. '(): ' .. #tags .. ' tags, at most ' .. Arguments.tags)
  end
  return tags
end

-- What a new name may be.
function Arguments.plain(command, what, name)
  if what == 'queue' and (#name > 255 or find(name, '[*?]')) then
    Errors.argument(command, 'queue must have 1 to 255 bytes and neither * nor ?, not ' .. Errors.value(name))
  elseif #name > 255 then
    Errors.argument(command, what .. ' must have 1 to 255 bytes')
  end
end

-- A message: its end is what tells the most.
function Arguments.message(command, message)
  Arguments.given(command, 'message', message)
  if #message > Arguments.text_bytes then
    Errors.raise('TOOBIG', '%s(): message has %s bytes, at most %s', command, #message, Arguments.text_bytes)
  end
  return message
end

-- The id of a job to be made: it may be none that there cannot be.
function Arguments.jid(command, jid)
  Arguments.real_name(command, 'jid', jid)
  local ending = key.list_ending(jid)
  if ending then
    Errors.argument(command, 'jid must not end in ' .. ending .. ': ' .. Errors.name(jid))
  end
  Arguments.plain(command, 'jid', jid)
  return jid
end

function Arguments.queue(command, queue)
  Arguments.real_name(command, 'queue', queue)
  Arguments.plain(command, 'queue', queue)
  return queue
end

function Arguments.unknown(command, name)
  Errors.argument(command, 'Unknown option ' .. Errors.name(name))
end

-- name, value, name, value … as a table.
function Arguments.options(command, args, first, known)
  local options = {}
  if (#args - first + 1) % 2 ~= 0 then
    Errors.argument(command, 'Odd number of additional args')
  end
  for i = first, #args, 2 do
    local name = args[i]
    if known[name] then
      options[name] = args[i + 1]
    else
      Arguments.unknown(command, name)
    end
  end
  return options
end
