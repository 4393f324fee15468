-- Completed jobs are forgotten when they are too old or too many.

local rcall = redis.call

-- Completed jobs that one call forgets beyond twice those that it completes.
local EXPIRED = 200

-- Where this many jobs, or for this many seconds, are kept, completions leave it to a later one.
local MANY, LONG = 1000, 60

-- Deletes a completed job, which has no links any more; unless a feature says that it `stays`.
local function delete(call, jid)
  local name = Keys.job(call, jid)
  local tags, more = unpack(rcall('HMGET', name, 'tags', 'more'))
  local letters = Features.letters(call, more or nil)
  if letters then
    local job = { jid = jid, key = name, state = 'complete', more = more or nil, letters = letters }
    Features.read(job)
    Features.at('gone', call, job, 'expired')
    if job.stays then
      rcall('ZADD', call.keys.completed, call.text, jid) -- out of the way of those behind it
      return
    end
  end
  Tags.unindex_all(call, jid, tags or nil)
  rcall('ZREM', call.keys.completed, jid)
  if call.has.N then
    rcall('DEL', name, Keys.history(call, jid), Keys.needs(call, jid))
  else
    rcall('DEL', name, Keys.history(call, jid))
  end
end

-- Forgets a completed job at once.
function Expiry.forget(call, jid)
  delete(call, jid)
end

local function forget_some(call)
  local age, count = Config.number(call, 'jobs-history'), Config.whole(call, 'jobs-history-count')
  local completed, most = call.keys.completed, EXPIRED + 2 * call.completed
  local before = Times.text(call.now - age)
  local old = rcall('ZRANGEBYSCORE', completed, '-inf', before, 'LIMIT', '0', most)
  local surplus = rcall('ZCARD', completed) - #old - count
  if surplus > 0 and #old < most then
    for _, jid in ipairs(rcall('ZRANGE', completed, #old, #old + math.min(surplus, most - #old) - 1)) do
      old[#old + 1] = jid
    end
  end
  for n = 1, #old do
    delete(call, old[n])
  end
end

-- Are so few kept, or for so short, that each completion has to look?
local function keeps_little(call)
  return Config.whole(call, 'jobs-history-count') < MANY or Config.number(call, 'jobs-history') < LONG
end

-- A job was completed: at the end of the call some that are too old or too many are forgotten.
function Expiry.after(call)
  if call.completed then
    call.completed = call.completed + 1
  elseif call.old or Call.is_round(call) or call.has.C and keeps_little(call) then
    call.completed = 1
    Call.at_end(call, forget_some)
  else
    call.completed = 1
  end
end
