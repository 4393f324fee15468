-- Failure groups as pages show them: how many jobs, since when, and the latest of them as a sample.

local sub, byte = string.sub, string.byte
local rcall = redis.call

local MOST = 250 -- groups of one page: each shows the beginning of a message that may be long
local HEAD = 300 -- bytes of it

local NEWLINE, SPACE = 10, 32
local TAIL = 1000 -- bytes in which the last line is looked for

-- The last line of a text that says something: the error itself, below a traceback. What is longer than the tail begins
-- where that begins, at a character of UTF-8.
local function last_line(text)
  local last, least = #text, math.max(1, #text - TAIL + 1)
  while last >= least and byte(text, last) <= SPACE do
    last = last - 1
  end
  local first = last + 1
  while first > least and byte(text, first - 1) ~= NEWLINE do
    first = first - 1
  end
  while first <= last and byte(text, first) >= 128 and byte(text, first) < 192 do
    first = first + 1
  end
  return Errors.cut(sub(text, first, last), HEAD)
end

-- When a job has failed.
local function failed_at(call, jid)
  return tonumber((JobSummary.failure(call, jid))) or 0
end

-- name, count, first, last, jid, klass, queue, the message's head and its last line
local function shown(call, name, count)
  local list = Keys.group(call, name)
  local newest, oldest = rcall('LINDEX', list, 0), rcall('LINDEX', list, -1)
  local klass, queue, failure = unpack(rcall('HMGET', Keys.job(call, newest), 'klass', 'queue', 'failure'))
  local message = Json.shown(failure).message or ''
  return {
    name,
    count,
    failed_at(call, oldest),
    failed_at(call, newest),
    newest,
    klass or '',
    queue or '',
    Errors.cut(message, HEAD),
    last_line(message),
  }
end

-- By what groups are sorted: the highest comes first.
local ORDERS = {
  count = function(_, group)
    return group.count
  end,
  last = function(call, group)
    return failed_at(call, rcall('LINDEX', Keys.group(call, group.name), 0))
  end,
}

-- failure.groups count|last offset count -> total_groups, total_jobs and groups
function FailureGroups.list(call, args, i)
  local order = Arguments.given(call, 'order', args[i])
  local rank = ORDERS[order]
  if not rank then
    Errors.argument(call, 'order must be count or last, not ' .. Errors.value(order))
  end
  local offset = Arguments.whole(call, 'offset', args[i + 1], 0)
  local count = math.min(Arguments.whole(call, 'count', args[i + 2], 0), MOST)
  local all, total = {}, 0
  for n, name in ipairs(rcall('SMEMBERS', call.keys.failures)) do
    local group = { name = name, count = rcall('LLEN', Keys.group(call, name)) }
    group.rank, all[n] = rank(call, group), group
    total = total + group.count
  end
  table.sort(all, function(one, other)
    if one.rank ~= other.rank then
      return one.rank > other.rank
    end
    return one.name < other.name
  end)
  local groups = {}
  for n = offset + 1, math.min(offset + count, #all) do
    groups[#groups + 1] = shown(call, all[n].name, all[n].count)
  end
  return cjson.encode({ total_groups = #all, total_jobs = total, groups = groups })
end

-- failure.group name -> the group, or nil if no job is in it
function FailureGroups.show(call, args, i)
  local name = Arguments.given(call, 'name', args[i])
  local count = rcall('LLEN', Keys.group(call, name))
  return count > 0 and cjson.encode(shown(call, name, count)) or nil
end
