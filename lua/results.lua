-- What jobs have returned, kept for a while in keys that expire by themselves.

-- The seconds that were left of the time for which the result of a complete job is kept, by its record; nil
-- if it has returned nothing. (The run must be the last: an old copy of the core leaves the field.)
function Results.left(returned, token)
  local time, run = string.match(returned or '', '^(%d+) (.*)$')
  if time and run == (token or '') then
    return tonumber(time) - scope.now
  end
end

local function is_gone(jid)
  local state, token, returned = Hash.values(key.job(jid), 'state', 'token', 'returned')
  return state == 'complete' and Results.left(returned, token) and call('EXISTS', key.result(jid)) == 0
end

-- results jid... -> what each returned, JSON, or nil
function Results.show(args, i)
  Arguments.given('results', 'jid', args[i])
  Arguments.bounded('results', #args - i + 1)
  local names = {}
  for n = i, #args do
    names[#names + 1] = key.result(args[n])
  end
  return call('MGET', unpack(names))
end

-- results.gone jid... -> those whose results have expired
function Results.gone(args, i)
  Arguments.given('results.gone', 'jid', args[i])
  Arguments.bounded('results.gone', #args - i + 1)
  local jids = {}
  for n = i, #args do
    if is_gone(args[n]) then
      jids[#jids + 1] = args[n]
    end
  end
  return jids
end
