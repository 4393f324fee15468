-- Who runs under limits, from the reservation until the worker has the job no longer.
-- The record of a job says which limits it holds, and of how many each when it took them. A limit is held by no more
-- than the last who took it found allowed: that stays true when less is allowed afterwards.

-- Holders looked at by one call; seconds after which one is looked at again.
local LOOKED, EVERY = 100, 60

local function exact(time)
  return string.format('%.17g', time)
end

-- Mostly when the lock is lost.
local function next_look(expires)
  return exact(math.min(tonumber(expires), scope.now + EVERY))
end

function Holders.count(name)
  return call('ZCARD', key.limit_holders(name))
end

-- When a holder is to be looked at next, or nil.
function Holders.next_look(name)
  local _, look = SortedSet.first(key.limit_holders(name))
  return look
end

-- The job with a lock until `expires` takes what it needs of these limits. It held others `before`, under a lock
-- that was lost.
function Holders.take(jid, limits, expires, before)
  local holds = {}
  for _, limit in ipairs(limits) do
    if limit.most then
      call('ZADD', key.limit_holders(limit.name), next_look(expires), jid)
      holds[limit.name] = limit.most
    end
    if limit.rate then
      Rates.count(limit.name, limit.rate, 1)
    end
  end
  if next(holds) then
    call('HSET', key.job(jid), 'holds', cjson.encode(holds), 'rare', '1')
  elseif next(before) then
    call('HDEL', key.job(jid), 'holds')
  end
  for name in pairs(before) do
    if not holds[name] then
      call('ZREM', key.limit_holders(name), jid)
      Limits.call_up(name)
    end
  end
end

-- The job holds nothing any more. `holds` is the text in its record. -> what it held: name -> how many were allowed
function Holders.drop(jid, holds)
  local held = Record.read('holds', holds, {})
  call('HDEL', key.job(jid), 'holds')
  for name in pairs(held) do
    call('ZREM', key.limit_holders(name), jid)
  end
  return held
end

local function look(name, jids)
  for _, jid in ipairs(jids) do
    local state, holds, queue = Hash.values(key.job(jid), 'state', 'holds', 'queue')
    local lock = state == 'running' and holds and call('ZSCORE', key.place(queue or '', 'locks'), jid)
    if lock then
      call('ZADD', key.limit_holders(name), next_look(math.max(tonumber(lock), scope.now + 1)), jid)
    else
      call('ZREM', key.limit_holders(name), jid)
    end
  end
end

-- Drops those that hold the limit for nothing: another core has ended them. (Who is to be looked at later than
-- anybody can be was given a time before the clock was set back.)
function Holders.heal(name)
  local holders = key.limit_holders(name)
  look(name, call('ZRANGEBYSCORE', holders, '-inf', NumberFormat.now(), 'LIMIT', 0, LOOKED))
  look(name, call('ZRANGEBYSCORE', holders, '(' .. exact(scope.now + EVERY), '+inf', 'LIMIT', 0, LOOKED))
end
