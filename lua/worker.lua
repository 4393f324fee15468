-- Workers: what they say of themselves, what they hold, and one heartbeat for all of it.
local Errors, Json, Arguments, Config, SortedSet, Tags, Orders, Samples, scope, key =
  Qless.Errors,
  Qless.Json,
  Qless.Arguments,
  Qless.Config,
  Qless.SortedSet,
  Qless.Tags,
  Qless.Orders,
  Qless.Samples,
  Qless.scope,
  Qless.key

local Worker = {}
Qless.Worker = Worker

local call = redis.call

local FAR = 8640000 -- seconds; no lock is longer

-- Workers silent for too long are forgotten.
local function forget_silent()
  local before = scope.now - Config.number('max-worker-age')
  local silent = call('ZRANGEBYSCORE', key.workers(), '-inf', before, 'LIMIT', 0, Arguments.most)
  for _, worker in ipairs(silent) do
    call('DEL', key.held(worker))
  end
  SortedSet.remove(key.workers(), silent)
end

-- With KEYS a worker is shown with what it says of itself.
local function with_info(shown, worker, seen)
  if not scope.keyed then
    return cjson.encode(shown)
  end
  shown.beat = tonumber(seen)
  return Json.with(cjson.encode(shown), 'info', call('GET', key.worker(worker)) or 'null')
end

-- Workers that gave a sign of life lately, the latest first, and when: some of them, or all. -> these,
-- how many there are
function Worker.seen(offset, count)
  local since = '(' .. string.format('%.17g', scope.now - Config.number('max-worker-age'))
  local total = call('ZCOUNT', key.workers(), since, '+inf')
  return call(
    'ZREVRANGEBYSCORE',
    key.workers(),
    '+inf',
    since,
    'WITHSCORES',
    'LIMIT',
    offset or 0,
    count or total
  ),
    total
end

-- One of them, as JSON.
function Worker.shown(worker, seen)
  return with_info({
    name = worker,
    jobs = call('ZCOUNT', key.held(worker), scope.now, scope.now + FAR),
    stalled = call('ZCOUNT', key.held(worker), 0, scope.now),
  }, worker, seen)
end

local function overview()
  local all, seen = {}, Worker.seen()
  for n = 1, #seen, 2 do
    all[#all + 1] = Worker.shown(seen[n], seen[n + 1])
  end
  return Json.list(all)
end

-- workers [worker]
function Worker.show(args, i)
  if not scope.reading then
    forget_silent()
  end
  local worker = args[i]
  if not worker then
    return overview()
  end
  local shown = {
    jobs = call('ZREVRANGEBYSCORE', key.held(worker), scope.now + FAR, scope.now),
    stalled = call('ZREVRANGEBYSCORE', key.held(worker), scope.now, 0),
  }
  return with_info(shown, worker, call('ZSCORE', key.workers(), worker) or nil)
end

-- worker.deregister worker...
function Worker.deregister(args, i)
  local workers = Tags.rest(args, i)
  Arguments.bounded('worker.deregister', #workers)
  SortedSet.remove(key.workers(), workers)
  if scope.live then
    for _, worker in ipairs(workers) do
      call('DEL', key.worker(worker))
      Orders.forget(worker)
    end
    Qless.Cron.leave(workers)
  end
end

-- The jobs of a heartbeat that their worker still holds, by queue, and those it has lost.
local function sort_out(worker, args, i, count)
  local queues, lost = {}, {}
  for n = i, i + 2 * count - 1, 2 do
    local jid, token = args[n], args[n + 1]
    local record = call('HMGET', key.job(jid), 'state', 'worker', 'token', 'queue', 'grace')
    if record[1] == 'running' and record[2] == worker and record[3] == token then
      queues[record[4]] = queues[record[4]] or {}
      table.insert(queues[record[4]], jid)
      if record[5] then
        call('HDEL', key.job(jid), 'grace')
      end
    else
      lost[#lost + 1] = jid
    end
  end
  return queues, lost
end

-- beat worker info n (jid token)*n -> { jids of lost jobs, orders }
-- It also writes the samples of all workers, so that statistics are never much older.
function Worker.beat(args, i)
  local worker, said = Arguments.given('beat', 'worker', args[i]), args[i + 1]
  if Arguments.given('beat', 'info', said) ~= '' then
    Arguments.object('beat', 'info', said)
  end
  local count = Arguments.whole('beat', 'number of jobs', args[i + 2], 0)
  Arguments.bounded('beat', count)
  if #args - i - 2 ~= 2 * count then
    Errors.argument('beat', 'jid and token of ' .. count .. ' jobs wanted')
  end
  local queues, lost = sort_out(worker, args, i + 3, count)
  for queue, jids in pairs(queues) do
    local expires = Qless.Texts.later(Config.heartbeat(queue))
    for _, jid in ipairs(jids) do
      call('HSET', key.job(jid), 'expires', expires)
    end
    SortedSet.add(key.held(worker), expires, jids)
    SortedSet.add(key.place(queue, 'locks'), expires, jids)
  end
  call('ZADD', key.workers(), scope.now, worker)
  if said ~= '' then
    call('SET', key.worker(worker), said, 'EX', Config.worker_age())
  end
  Samples.settle()
  return { lost, Orders.take(worker) }
end
