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

-- Text begins with a word character: old clients look for that.
function Errors.raise(code, text)
  error({ code = code, text = text })
end

function Errors.argument(command, text)
  Errors.raise('BADARG', command .. '(): ' .. text)
end

function Errors.no_job(command, jid)
  Errors.raise('NOJOB', command .. '(): Job ' .. Errors.name(jid) .. ' does not exist')
end
