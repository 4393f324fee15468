-- Completed jobs are forgotten when they are too old or too many.

-- Completed jobs expired by one call beyond twice those it completes.
local EXPIRED = 200

-- Where so many jobs, or for so many seconds, are kept, single completions leave it to later ones.
local MANY, LONG, FEW = 1000, 60, 8

local function expire(jids)
  local names, tagged, needing = {}, call('EXISTS', key.tags()) == 1, DependencyResults.exist()
  for _, jid in ipairs(jids) do
    local tags = tagged and call('HGET', key.job(jid), 'tags')
    if tags and tags ~= '{}' then
      Tags.unindex_all(jid, tags)
    end
    -- A job that was completed has no links any more.
    local at = #names
    names[at + 1], names[at + 2] = key.job(jid), key.history(jid)
    if needing then
      names[at + 3] = key.needs(jid)
    end
  end
  if #names > 0 then
    call('DEL', unpack(names))
  end
end

-- May it wait for a later call?
function Expiry.can_wait(just_completed, age, count)
  return just_completed <= FEW and count >= MANY and age >= LONG
end

-- Forgets completed jobs that are too old or too many, a bounded number per call.
function Expiry.after(just_completed)
  local age, count = Config.number('jobs-history'), Config.whole('jobs-history-count')
  if Expiry.can_wait(just_completed, age, count) and not Clock.is_round() then
    return
  end
  local most = EXPIRED + 2 * just_completed
  local completed = key.completed()
  local old = call('ZRANGEBYSCORE', completed, '-inf', scope.now - age, 'LIMIT', 0, most)
  local surplus = call('ZCARD', completed) - #old - count
  if surplus > 0 and #old < most then
    local rest = call('ZRANGE', completed, #old, #old + math.min(surplus, most - #old) - 1)
    for _, jid in ipairs(rest) do
      old[#old + 1] = jid
    end
  end
  if #old > 0 then
    call('ZREMRANGEBYRANK', completed, 0, #old - 1) -- the oldest are the first
    expire(old)
  end
end
