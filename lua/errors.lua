-- How a call is refused: by a reply 'CODE text'.

local MOST = 200

-- At most so many bytes of a text. No character is cut in two: who reads it as UTF-8 would fail.
function Errors.cut(text, most)
  local last = most
  while last > most - 3 and string.find(text, '^[\128-\191]', last + 1) do
    last = last - 1
  end
  return string.sub(text, 1, last)
end

-- Names in messages are cut, so that a hostile jid cannot fill a log.
function Errors.name(value)
  value = tostring(value)
  if #value > MOST then
    return Errors.cut(value, MOST) .. '…'
  end
  return value
end

-- The same of a value that is refused.
function Errors.value(value)
  return value == '' and 'an empty text' or Errors.name(value)
end

-- A job's state as people read it behind `is`.
function Errors.state(state)
  return state == 'depends' and 'waiting for other jobs' or state
end

-- Words as string.format takes them, if there is anything to be put in their places.
function Errors.worded(words, ...)
  return select('#', ...) > 0 and string.format(words, ...) or words
end

-- The text begins with a word character: old clients look for that.
function Errors.raise(code, words, ...)
  error({ code = code, text = Errors.worded(words, ...) })
end

-- Is what pcall has caught such a refusal? All other errors, also those of the server, are texts there.
function Errors.is_refusal(problem)
  return type(problem) == 'table'
end

function Errors.argument(command, words, ...)
  Errors.raise('BADARG', command .. '(): ' .. Errors.worded(words, ...))
end

function Errors.no_job(command, jid)
  Errors.raise('NOJOB', command .. '(): Job ' .. Errors.name(jid) .. ' does not exist')
end
