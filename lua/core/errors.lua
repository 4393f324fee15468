-- How a call is refused: by a reply 'CODE text'; without KEYS by an error with the text alone.

local MOST = 200 -- bytes of a value in a message

-- The first bytes of a text, `most` at most. No character is cut in two: a reader of UTF-8 would fail.
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

-- Ends the call, or the part of it that is guarded by pcall. The text begins with a word character: old clients look
-- for that.
function Errors.raise(code, words, ...)
  error({ code = code, text = Errors.worded(words, ...) })
end

-- Raises an error about the command itself: `settle(): …`.
function Errors.refuse(call, code, words, ...)
  error({ code = code, text = call.command .. '(): ' .. Errors.worded(words, ...) })
end

function Errors.argument(call, words, ...)
  Errors.refuse(call, 'BADARG', words, ...)
end

function Errors.no_job(call, jid)
  Errors.refuse(call, 'NOJOB', 'Job ' .. Errors.name(jid) .. ' does not exist')
end

-- Is what pcall has caught a refusal? All other errors, also those of the server, are texts there.
function Errors.is_refusal(problem)
  return type(problem) == 'table' and problem.code ~= nil
end
