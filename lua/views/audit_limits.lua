-- The invariants of limits: never more under one than allowed, and nothing held back while there is room for it.

local match = string.match

local complain = AuditJobs.complain

-- Seconds by which a look may be later than it has to be.
local CLOSE = 0.001

-- A job that a limit holds back: its record says so, it stands in the place of its queue, and a step is due.
local function check_aside(report, name, jid, score)
  local aside, queue, state = Hash.values(key.job(jid), 'aside', 'queue', 'state')
  if aside ~= name or (state ~= 'waiting' and state ~= 'stalled') then
    complain(report, 'job %s is held back by %s, but %s by %s', jid, name, state or 'gone', aside or 'none')
  elseif call('ZSCORE', key.place(queue, 'aside'), jid) ~= score then
    complain(report, 'job %s is held back by %s, and not in aside of %s with this score', jid, name, queue)
  elseif not call('ZSCORE', key.place(queue, 'openings'), name) then
    complain(report, 'job %s is held back by %s, which queue %s does not look at', jid, name, queue)
  end
  return queue
end

-- When those who serve the queue look at the limit.
local function looked_at(name, queue)
  return Record.number(call('ZSCORE', key.place(queue or '', 'openings'), name) or nil) or math.huge
end

-- Of turns: is the first of them held back by nothing else?
local function check_turn(report, name, look)
  local first
  if Turns.is_order(name) then
    first = call('ZRANGE', key.limit_order(name), 0, 0)[1]
    first = first and call('ZSCORE', key.limit_aside(name), first) and first
  else
    first = call('EXISTS', key.limit_called(name)) == 0 and call('ZREVRANGE', key.limit_aside(name), 0, 0)[1]
  end
  if first and look > scope.now + CLOSE then
    complain(report, 'job %s is held back by %s although it is its turn', first, name)
  end
end

local function check_room(report, name, look, klass)
  local limit = LimitSettings.named(name, klass) or { name = name }
  local room, called =
    math.huge, call('ZCOUNT', key.limit_called(name), string.format('%.17g', scope.now - 5), '+inf')
  if limit.most then
    room = limit.most - Holders.count(name)
  end
  if limit.rate then
    room = math.min(room, limit.rate.count - Rates.used(name, limit.rate))
  end
  -- A rate has room again by itself; then its look is due as well.
  if room > called and look > scope.now + CLOSE then
    complain(
      report,
      'limit %s holds jobs back, has room for %s and is looked at only at %s',
      name,
      room,
      look
    )
  end
end

local function check_list(report, name)
  local list, klass, look = call('ZREVRANGE', key.limit_aside(name), 0, 99, 'WITHSCORES'), nil, math.huge
  for n = 1, #list, 2 do
    look = math.min(look, looked_at(name, check_aside(report, name, list[n], list[n + 1])))
    klass = klass or call('HGET', key.job(list[n]), 'klass')
  end
  if Turns.is_order(name) or Turns.is_tenant(name) then
    check_turn(report, name, look)
  else
    check_room(report, name, look, klass or '')
  end
end

-- Who holds the limit runs and says so; and they are no more than the last of them who took it was allowed. Which
-- was the last is not known: not more than the most that one was allowed. (Of more than a call may look at that is not
-- known either.)
local function check_holders(report, name)
  local count, allowed = Holders.count(name), 0
  for _, jid in ipairs(SortedSet.head(key.limit_holders(name))) do
    local state, text = Hash.values(key.job(jid), 'state', 'holds')
    local holds = Record.read('holds', text, {})
    if state ~= 'running' or not holds[name] then
      complain(report, 'job %s counts under %s, and is %s', jid, name, state or 'gone')
    end
    allowed = math.max(allowed, holds[name] or 0)
  end
  if count > allowed and count <= Arguments.most then
    complain(report, '%s jobs count under %s, which allowed at most %s', count, name, allowed)
  end
end

-- No more have started in the window that the last of them ended than it was allowed.
local function check_rate(last)
  return function(report, name)
    local rate, count = last(name)
    if rate and count > rate.count then
      complain(report, '%s started under %s within a window, which allowed %s', count, name, rate.count)
    end
  end
end

local function check_order(report, name)
  for _, jid in ipairs(SortedSet.head(key.limit_order(name))) do
    if call('HGET', key.job(jid), 'turn') ~= name then
      complain(report, 'job %s has a position in %s, and does not know it', jid, name)
    end
  end
end

local function check_called(report, name)
  for _, jid in ipairs(SortedSet.head(key.limit_called(name))) do
    local called = call('HGET', key.job(jid), 'called')
    if not string.find(called or '', cjson.encode(name), 1, true) then
      complain(report, 'job %s was called by %s, and does not know it', jid, name)
    end
  end
end

local CHECKS = {
  aside = check_list,
  holders = check_holders,
  order = check_order,
  called = check_called,
  starts = check_rate(Rates.last),
  buckets = check_rate(Rates.last_of_buckets),
}

-- What stands behind limit: in a key.
function AuditLimits.check(report, text)
  local name, part = match(text, '^(.*):(%l+)$')
  if CHECKS[part] then
    CHECKS[part](report, name)
  else
    complain(report, 'key %slimit:%s is none of ours', scope.prefix, text)
  end
end

-- What the record of a job says of its limits is so.
function AuditLimits.check_job(report, jid)
  local turn, holds, called, state = Hash.values(key.job(jid), 'turn', 'holds', 'called', 'state')
  if turn and not call('ZSCORE', key.limit_order(turn), jid) then
    complain(report, 'job %s has a turn, but no position in %s', jid, turn)
  end
  if holds and state ~= 'running' then
    complain(report, 'job %s counts under %s and is %s', jid, holds, state)
  end
  for name in pairs(Record.read('holds', holds, {})) do
    if not call('ZSCORE', key.limit_holders(name), jid) then
      complain(report, 'job %s does not count under %s', jid, name)
    end
  end
  if called and state ~= 'waiting' and state ~= 'stalled' then
    complain(report, 'job %s was called by %s and is %s', jid, called, state)
  end
end

-- A member of the place of what limits hold back.
function AuditLimits.member(report, jid, queue)
  local aside = call('HGET', key.job(jid), 'aside')
  if not aside or not call('ZSCORE', key.limit_aside(aside), jid) then
    complain(report, 'job %s is in aside of %s, and no limit holds it back', jid, queue)
  end
end
