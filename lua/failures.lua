-- Failed jobs by group: the set of groups, a list of jids for each.

Failures.groups = 1000

-- Where calls with KEYS are made the number of groups is bounded: further ones share a list.
local function list_of(group)
  if scope.live and call('SISMEMBER', key.failures(), group) == 0 then
    if call('SCARD', key.failures()) >= Failures.groups then
      return 'other'
    end
  end
  return group
end

-- Files a failed job under its group and counts it.
function Failures.add(jid, queue, group)
  local list = list_of(group)
  call('SADD', key.failures(), list)
  call('LPUSH', key.group(list), jid)
  Stats.count(queue, 'failures', 1)
  Stats.count(queue, 'failed', 1)
  Minutes.count(queue, 'failed', 1)
end

-- Looks from the newest on, or from the oldest on: where the job is likely to be.
local function take(jid, list, oldest_first)
  local found = call('LREM', key.group(list), oldest_first and -1 or 1, jid)
  if call('LLEN', key.group(list)) == 0 then
    call('SREM', key.failures(), list)
  end
  return found > 0
end

-- Nothing says in which group the job is: it is in one of them.
local function take_anywhere(jid)
  for _, list in ipairs(call('SMEMBERS', key.failures())) do
    if take(jid, list) then
      return
    end
  end
end

-- A job that was failed is so no longer.
function Failures.remove(jid, queue, failure, oldest_first)
  local known = Record.read('failure', failure)
  if not known or not known.group then
    take_anywhere(jid)
    Stats.mended(queue, scope.now)
    return
  end
  if not take(jid, known.group, oldest_first) then
    take(jid, 'other', oldest_first)
  end
  Stats.mended(queue, known.when or 0)
end

-- failed [group [start limit]]
function Failures.show(args, i)
  local group = args[i]
  if not group then
    local counts = {}
    for _, name in ipairs(call('SMEMBERS', key.failures())) do
      counts[name] = call('LLEN', key.group(name))
    end
    return cjson.encode(counts)
  end
  local start, limit = Arguments.offset('failed', args[i + 1]), Arguments.count('failed', args[i + 2], 25)
  local total = call('LLEN', key.group(group))
  return cjson.encode({
    total = total,
    jobs = call('LRANGE', key.group(group), Arguments.range(start, limit, total)),
  })
end
