-- What jobs have returned, kept for a while in keys that expire by themselves.

local rcall = redis.call

-- The seconds that were left of the time for which the result of a complete job is kept, by its record; nil if its last
-- run has returned nothing.
function Results.left(call, job)
  local time, run = string.match(job.returned or '', '^(%d+) (.*)$')
  if time and run == (job.token or '') then
    return tonumber(time) - call.now
  end
end

local function is_gone(call, jid)
  local job = { jid = jid }
  job.state, job.token, job.returned =
    unpack(rcall('HMGET', Keys.job(call, jid), 'state', 'token', 'returned'))
  return job.state == 'complete' and Results.left(call, job) and rcall('EXISTS', Keys.result(call, jid)) == 0
end

local function jids_of(call, args, i)
  Arguments.given(call, 'jid', args[i])
  Arguments.bounded(call, #args - i + 1)
  return Pieces.rest(args, i)
end

-- result jid
function Results.one(call, args, i)
  return rcall('GET', Keys.result(call, Arguments.name(call, 'jid', args[i])))
end

-- results jid... -> what each returned, JSON, or nil
function Results.show(call, args, i)
  local names = jids_of(call, args, i)
  for n, jid in ipairs(names) do
    names[n] = Keys.result(call, jid)
  end
  return rcall('MGET', unpack(names))
end

-- results.gone jid... -> those whose results have expired
function Results.gone(call, args, i)
  local jids = {}
  for _, jid in ipairs(jids_of(call, args, i)) do
    if is_gone(call, jid) then
      jids[#jids + 1] = jid
    end
  end
  return jids
end
