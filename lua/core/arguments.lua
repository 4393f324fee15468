-- Arguments: numbers, JSON texts, names and option pairs, checked once and in one wording.

local find, gsub, floor = string.find, string.gsub, math.floor
local HUGE = math.huge
local MOST = 1e300 -- sums of what is not beyond it are finite

Arguments.most = 1000 -- items one call may name
Arguments.data_bytes = 512 * 1024
Arguments.text_bytes = 64 * 1024
Arguments.tags = 32

local function refuse(call, what, value, wanted)
  Errors.argument(call, what .. ' ' .. wanted .. ', not ' .. Errors.value(value))
end

-- A required argument as it came.
function Arguments.given(call, what, value)
  if value == nil then
    Errors.argument(call, 'Arg "' .. what .. '" missing')
  end
  return value
end

-- A name under which something is stored, or taken. (No name at all stands for "none" in records.)
function Arguments.real_name(call, what, value)
  if value == '' then
    Errors.argument(call, what .. ' must not be empty')
  end
  return Arguments.given(call, what, value)
end

-- The name of something that may be there. Old clients may send '' back, as records say it.
function Arguments.name(call, what, value)
  if call.old then
    return Arguments.given(call, what, value)
  end
  return Arguments.real_name(call, what, value)
end

-- What shows that the caller holds a job: its token, of old clients the worker's name.
function Arguments.proof(call, value)
  return Arguments.given(call, call.old and 'worker' or 'token', value)
end

-- Most numbers are small and whole: these need no second look.
local SMALL = {}

local DECIMAL, OLD_DECIMAL = '^[%d.eE+-]+$', '^%s*[%d.eE+-]+%s*$'

-- A finite decimal number. (tonumber alone takes 0x10, nan and inf.)
function Arguments.number(call, what, value)
  local small = SMALL[value]
  if small then
    return small
  end
  Arguments.given(call, what, value)
  local plain = find(value, call.old and OLD_DECIMAL or DECIMAL)
  local number = plain and tonumber(value)
  if not number or number ~= number or number == HUGE or number == -HUGE then
    refuse(call, what, value, 'must be a finite decimal number')
  elseif number > MOST or number < -MOST then
    refuse(call, what, value, 'must be a number between -1e300 and 1e300')
  end
  number = number + 0 -- no command takes -0
  if #value == 1 then
    SMALL[value] = number
  end
  return number
end

function Arguments.whole(call, what, value, least)
  local small = SMALL[value]
  if small and small >= (least or 0) then
    return small
  end
  local number = Arguments.number(call, what, value)
  if number ~= floor(number) or number < (least or -HUGE) or number > 2 ^ 53 then
    local wanted = 'must be a whole number'
    if least then
      wanted = wanted .. ' of at least ' .. least
    end
    refuse(call, what, value, wanted)
  end
  return number
end

-- Seconds that a job lay in its worker's hands before it was started; nil for '' or nothing.
function Arguments.held(call, value)
  return value and value ~= '' and not call.old and math.max(0, Arguments.number(call, 'held', value)) or nil
end

-- How many items are wanted: never more than a call may handle.
function Arguments.count(call, value, default)
  if value == nil then
    return default
  end
  return math.max(math.min(floor(Arguments.number(call, 'count', value)), Arguments.most), -Arguments.most)
end

function Arguments.offset(call, value)
  if value == nil then
    return 0
  end
  return math.max(math.min(floor(Arguments.number(call, 'offset', value)), 2 ^ 40), -2 ^ 40)
end

-- From which item to which, as LRANGE and ZRANGE count them (from the end if negative), for a list of
-- `total`: never more than a call may handle.
function Arguments.range(offset, count, total)
  local last = offset + count - 1
  local first = offset < 0 and math.max(0, total + offset) or offset
  last = last < 0 and total + last or last
  return first, math.min(last, first + Arguments.most - 1)
end

-- A number of items named by the caller.
function Arguments.bounded(call, number)
  if number > Arguments.most then
    Errors.refuse(call, 'TOOBIG', '%s items in one call, at most %s', number, Arguments.most)
  end
end

Arguments.bytes = 1024 * 1024

-- What one call may carry in all.
function Arguments.weigh(call, args)
  local bytes = 0
  for n = 1, #args do
    bytes = bytes + #args[n]
  end
  if bytes > Arguments.bytes then
    Errors.refuse(call, 'TOOBIG', '%s bytes of arguments in one call, at most %s', bytes, Arguments.bytes)
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
function Arguments.json(call, what, text, bytes)
  Arguments.given(call, what, text)
  if #text > (bytes or Arguments.data_bytes) then
    Errors.refuse(call, 'TOOBIG', '%s has %s bytes, at most %s', what, #text, bytes or Arguments.data_bytes)
  end
  local fine, value = pcall(decode, text)
  if not fine then
    Errors.argument(call, what .. ' is not JSON: ' .. Errors.name(text))
  end
  local wrong = lax(text)
  if wrong then
    Errors.argument(call, what .. ' is not JSON, it has ' .. wrong)
  end
  return value
end

function Arguments.object(call, what, text)
  local value = Arguments.json(call, what, text, Arguments.text_bytes)
  if type(value) ~= 'table' or find(text, '^%s*%[') then
    Errors.argument(call, what .. ' must be a JSON object')
  end
  return value
end

-- A JSON list of names, in order and without repetition.
function Arguments.names(call, what, text)
  local list, seen, names = Arguments.json(call, what, text), {}, {}
  if type(list) ~= 'table' or (#list == 0 and next(list) ~= nil) then
    Errors.argument(call, what .. ' must be a JSON list')
  end
  for _, name in ipairs(list) do
    if type(name) == 'number' then
      name = string.format('%.14g', name)
    end
    if type(name) ~= 'string' then
      Errors.argument(call, what .. ' must be a JSON list of strings')
    end
    if not seen[name] then
      seen[name] = true
      names[#names + 1] = name
    end
  end
  return names
end

function Arguments.tag_list(call, text)
  local tags = Arguments.names(call, 'tags', text)
  return Arguments.few_tags(call, tags)
end

function Arguments.few_tags(call, tags)
  if #tags > Arguments.tags and not call.old then
    Errors.refuse(call, 'TOOBIG', '%s tags, at most %s', #tags, Arguments.tags)
  end
  return tags
end

-- What a new name may be.
function Arguments.plain(call, what, name)
  if call.old then
    return
  end
  if what == 'queue' and (#name > 255 or find(name, '[*?]')) then
    Errors.argument(call, 'queue must have 1 to 255 bytes and neither * nor ?, not ' .. Errors.value(name))
  elseif #name > 255 then
    Errors.argument(call, what .. ' must have 1 to 255 bytes')
  end
end

-- A message: its end is what tells the most.
function Arguments.message(call, message)
  Arguments.given(call, 'message', message)
  if not call.old and #message > Arguments.text_bytes then
    Errors.refuse(call, 'TOOBIG', 'message has %s bytes, at most %s', #message, Arguments.text_bytes)
  end
  return message
end

-- The id of a job to be made: it may be none that there cannot be.
function Arguments.jid(call, jid)
  Arguments.real_name(call, 'jid', jid)
  local ending = Keys.list_ending(jid)
  if ending then
    Errors.argument(call, 'jid must not end in ' .. ending .. ': ' .. Errors.name(jid))
  end
  Arguments.plain(call, 'jid', jid)
  return jid
end

function Arguments.queue(call, queue)
  Arguments.real_name(call, 'queue', queue)
  Arguments.plain(call, 'queue', queue)
  return queue
end

-- An option that there is not. (Old clients may send such.)
function Arguments.unknown(call, name)
  if not call.old then
    Errors.argument(call, 'Unknown option ' .. Errors.name(name))
  end
end

-- name, value, name, value … as a table.
function Arguments.options(call, args, first, known)
  local options = {}
  if (#args - first + 1) % 2 ~= 0 then
    Errors.argument(call, 'Odd number of additional args')
  end
  for i = first, #args, 2 do
    local name = args[i]
    if known[name] then
      options[name] = args[i + 1]
    else
      Arguments.unknown(call, name)
    end
  end
  return options
end
