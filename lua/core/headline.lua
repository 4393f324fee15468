-- The line of a failure's message that names the error.

local find, sub = string.find, string.sub

local MOST = 200 -- bytes

-- How Python's tracebacks begin, and what stands before each line of one: in those of groups, a frame
-- of lines.
local PLAIN, GROUP =
  'Traceback (most recent call last):\n', '  + Exception Group Traceback (most recent call last):\n'

-- Where the text behind the last line of this kind begins, or nil.
local function behind_last(message, line)
  local found
  if sub(message, 1, #line) == line then
    found = #line + 1
  end
  local _, to = find(message, '\n' .. line, 1, true)
  while to do
    found = to + 1
    _, to = find(message, '\n' .. line, to, true)
  end
  return found
end

-- The first line from there on that is no part of a stack: those are indented.
local function unindented(message, from, before)
  for line in string.gmatch(sub(message, from), '[^\n]+') do
    if sub(line, 1, #before) == before and find(line, '^%S', #before + 1) then
      return sub(line, #before + 1)
    end
  end
end

local function cut(line)
  if #line <= MOST then
    return line
  end
  local last = MOST
  while last > MOST - 3 and find(sub(line, last + 1, last + 1), '[\128-\191]') do
    last = last - 1
  end
  return sub(line, 1, last) .. '…'
end

-- How a message begins that is a traceback, or the end of one; or an exception that was never raised,
-- with the one that it is the cause of.
local TRACEBACKS = {
  '^Traceback %(most recent call last%):\n',
  '^  %+ Exception Group Traceback %(',
  '^%[the beginning is left out%]\n',
  '^[^\n]*\n\nThe above exception was the direct cause of the following exception:\n',
}

local function raised(message)
  for _, beginning in ipairs(TRACEBACKS) do
    if find(message, beginning) then
      local plain, group = behind_last(message, PLAIN), behind_last(message, GROUP)
      if group and group > (plain or 0) then
        return unindented(message, group, '  | ')
      end
      return unindented(message, plain or (find(message, '\n', 1, true) + 1), '')
    end
  end
end

-- What was raised at last, if the message is a traceback; else its first line.
function Headline.of(message)
  return cut(raised(message) or string.match(message, '[^\r\n]+') or '')
end
