-- Queues: what is in them, how long it has waited, pausing, and reviving what failed.
local Errors, Arguments, History, Place, Job, Stats, Recurring, scope, key =
  Qless.Errors,
  Qless.Arguments,
  Qless.History,
  Qless.Place,
  Qless.Job,
  Qless.Stats,
  Qless.Recurring,
  Qless.scope,
  Qless.key

local Queue = {}
Qless.Queue = Queue

local call = redis.call

-- Moves jobs whose time has come into work, at most `wanted`.
function Queue.move_due(queue, wanted)
  local name = key.place(queue, 'scheduled')
  local due = Qless.Absence.is_absent(name) and {}
    or call('ZRANGEBYSCORE', name, '-inf', scope.now, 'WITHSCORES', 'LIMIT', 0, wanted)
  if #due == 0 then
    return
  end
  local moved = {}
  for n = 1, #due, 2 do
    local jid = due[n]
    local record = call('HMGET', key.job(jid), 'priority', 'state')
    if record[2] then
      call('HSET', key.job(jid), 'state', 'waiting')
      Place.ready_since(jid, tonumber(due[n + 1]))
      Place.work(jid, queue, tonumber(record[1]) or 0)
    end
    moved[#moved + 1] = jid
  end
  Qless.SortedSet.remove(name, moved)
end

-- Calls that must not write count what is due as waiting; the others move it.
local function counts(queue)
  local due = 0
  if scope.reading then
    due = call('ZCOUNT', key.place(queue, 'scheduled'), '-inf', scope.now)
  else
    Queue.move_due(queue, Arguments.most)
  end
  -- Old clients do not see locks that expired before 1970 as stalled.
  local stalled = call('ZCOUNT', key.place(queue, 'locks'), scope.keyed and '-inf' or 0, scope.now)
  return {
    name = queue,
    waiting = call('ZCARD', key.place(queue, 'work')) + due,
    stalled = stalled,
    running = call('ZCARD', key.place(queue, 'locks')) - stalled,
    scheduled = call('ZCARD', key.place(queue, 'scheduled')) - due,
    depends = call('ZCARD', key.place(queue, 'depends')),
    recurring = call('ZCARD', key.place(queue, 'recur')),
    paused = call('SISMEMBER', key.paused_queues(), queue) == 1,
  }
end

-- In the order first seen; at most so many, if a number is given.
function Queue.names(most)
  return call('ZRANGE', key.queues(), 0, most and most - 1 or -1)
end

-- queues [queue]
function Queue.show(args, i)
  if args[i] then
    return cjson.encode(counts(args[i]))
  end
  local all = {}
  for n, queue in ipairs(Queue.names()) do
    all[n] = counts(queue)
  end
  return cjson.encode(all)
end

-- Every list of jids, by state: the place, and the range of its scores.
local LISTS = {
  running = { 'locks', true },
  stalled = { 'locks', false },
  scheduled = { 'scheduled' },
  depends = { 'depends' },
  recurring = { 'recur' },
}

-- A negative count asks for all, which is never more than a call may handle.
local function page(name, lowest, highest, offset, count)
  if count < 0 then
    count = Arguments.most
  end
  return call('ZRANGEBYSCORE', name, lowest, highest, 'LIMIT', offset, count)
end

-- jobs complete [offset count]   jobs running|stalled|scheduled|depends|recurring queue [offset count]
function Queue.jobs(args, i)
  local state = Arguments.given('jobs', 'state', args[i])
  if state == 'complete' then
    local offset, count = Arguments.offset('jobs', args[i + 1]), Arguments.count('jobs', args[i + 2], 25)
    return call('ZREVRANGEBYSCORE', key.completed(), '+inf', '-inf', 'LIMIT', offset, count)
  end
  local list = LISTS[state]
  if not list then
    Errors.argument('jobs', 'Unknown type ' .. Errors.name(state))
  end
  local queue = Arguments.given('jobs', 'queue', args[i + 1])
  local offset, count = Arguments.offset('jobs', args[i + 2]), Arguments.count('jobs', args[i + 3], 25)
  local name = key.place(queue, list[1])
  if state == 'running' then
    return page(name, scope.now, '+inf', offset, count)
  elseif state == 'stalled' then
    return page(name, '-inf', scope.now, offset, count)
  elseif state == 'scheduled' then
    if not scope.reading then
      Queue.move_due(queue, Arguments.most)
    end
    return page(
      name,
      scope.reading and '(' .. string.format('%.17g', scope.now) or '-inf',
      '+inf',
      offset,
      count
    )
  end
  return page(name, '-inf', '+inf', offset, count)
end

-- length queue
function Queue.length(args, i)
  local queue = Arguments.given('length', 'queue', args[i])
  return call('ZCARD', key.place(queue, 'locks'))
    + call('ZCARD', key.place(queue, 'work'))
    + call('ZCARD', key.place(queue, 'scheduled'))
end

local function each_queue(command, args, i, act)
  Arguments.given(command, 'queue', args[i])
  Arguments.bounded(command, #args - i + 1)
  for n = i, #args do
    act(args[n])
  end
end

-- pause queue...
function Queue.pause(args, i)
  each_queue('pause', args, i, function(queue)
    call('SADD', key.paused_queues(), queue)
  end)
end

-- unpause queue...
function Queue.unpause(args, i)
  each_queue('unpause', args, i, function(queue)
    call('SREM', key.paused_queues(), queue)
    local waiting = call('ZCARD', key.place(queue, 'work'))
    Qless.Wake.ready(queue, waiting)
    Qless.Wake.due(queue, scope.now)
  end)
end

-- queue.forget queue...
function Queue.forget(args, i)
  each_queue('queue.forget', args, i, function(queue)
    call('ZREM', key.queues(), queue)
  end)
end

-- peek queue count
function Queue.peek(args, i)
  local queue = Arguments.given('peek', 'queue', args[i])
  local count = Arguments.count('peek', Arguments.given('peek', 'count', args[i + 1]))
  if count <= 0 then
    return '{}'
  end
  local jids = page(key.place(queue, 'locks'), '-inf', scope.now, 0, count)
  if #jids < count then
    local wanted = count - #jids
    if not scope.reading then
      Recurring.spawn_due(queue, wanted)
      Queue.move_due(queue, wanted)
    end
    for _, jid in ipairs(call('ZREVRANGE', key.place(queue, 'work'), 0, wanted - 1)) do
      jids[#jids + 1] = jid
    end
    if scope.reading and #jids < count then
      for _, jid in ipairs(page(key.place(queue, 'scheduled'), '-inf', scope.now, 0, count - #jids)) do
        jids[#jids + 1] = jid
      end
    end
  end
  return Job.show_all(jids)
end

-- unfail queue group [count] -> how many
function Queue.unfail(args, i)
  local queue = Arguments.queue('unfail', args[i])
  local group = Arguments.given('unfail', 'group', args[i + 1])
  local count = Arguments.count('unfail', args[i + 2], 25)
  if count <= 0 then
    return 0
  end
  local jids, revived = call('LRANGE', key.group(group), -count, -1), 0
  for n = #jids, 1, -1 do
    local jid = jids[n]
    local record = Job.read(jid)
    if record and record.state == 'failed' then
      Stats.mended(record.queue, tonumber(cjson.decode(record.failure or '{}').when) or 0)
      History.put(jid, queue)
      call(
        'HSET',
        key.job(jid),
        'state',
        'waiting',
        'worker',
        '',
        'expires',
        0,
        'queue',
        queue,
        'remaining',
        record.retries,
        'time',
        string.format('%.20f', scope.now)
      )
      call('HDEL', key.job(jid), 'crashes', 'unknown')
      Place.work(jid, queue, tonumber(record.priority) or 0)
      revived = revived + 1
    end
  end
  call('LTRIM', key.group(group), 0, -#jids - 1)
  if call('LLEN', key.group(group)) == 0 then
    call('SREM', key.failures(), group)
  end
  if revived > 0 then
    Place.register(queue)
  end
  return revived
end
