-- Workers: what they say about themselves, what they hold, one heartbeat for all of it, and what operators ask of them.

local rcall = redis.call

local FAR = 8640000 -- seconds; no lock is longer

-- Workers silent for too long are forgotten, unless a lock of theirs is still good.
local function forget_silent(call)
  local before = Times.text(call.now - Config.number(call, 'max-worker-age'))
  local silent = rcall('ZRANGEBYSCORE', call.keys.workers, '-inf', before, 'LIMIT', 0, Arguments.most)
  for _, worker in ipairs(silent) do
    if rcall('ZCOUNT', Keys.held(call, worker), '(' .. call.text, '+inf') == 0 then
      rcall('DEL', Keys.held(call, worker))
      rcall('ZREM', call.keys.workers, worker)
    end
  end
end

-- A worker is shown with what it says about itself, but not to old clients.
local function with_info(call, shown, worker, seen)
  if call.old then
    return cjson.encode(shown)
  end
  shown.beat = tonumber(seen)
  return Json.with(cjson.encode(shown), 'info', rcall('GET', Keys.worker(call, worker)) or 'null')
end

-- Workers that gave a sign of life lately (where silent ones are forgotten: those that are left), the latest first, and
-- when: some of them, or all. -> these, how many there are
function Worker.seen(call, offset, count)
  local since = '-inf'
  if call.reading then
    since = '(' .. Times.text(call.now - Config.number(call, 'max-worker-age'))
  end
  local name = call.keys.workers
  local total = rcall('ZCOUNT', name, since, '+inf')
  offset, count = offset or 0, count or total
  return rcall('ZREVRANGEBYSCORE', name, '+inf', since, 'WITHSCORES', 'LIMIT', offset, count), total
end

-- One of them, as JSON.
function Worker.shown(call, worker, seen)
  local held = Keys.held(call, worker)
  return with_info(call, {
    name = worker,
    jobs = rcall('ZCOUNT', held, call.text, Times.text(call.now + FAR)),
    stalled = rcall('ZCOUNT', held, 0, call.text),
  }, worker, seen)
end

-- workers [worker]
function Worker.show(call, args, i)
  local worker = args[i] and Arguments.name(call, 'worker', args[i])
  if not call.reading then
    forget_silent(call)
  end
  if worker then
    local held = Keys.held(call, worker)
    local shown = {
      jobs = rcall('ZREVRANGEBYSCORE', held, Times.text(call.now + FAR), call.text),
      stalled = rcall('ZREVRANGEBYSCORE', held, call.text, 0),
    }
    return with_info(call, shown, worker, rcall('ZSCORE', call.keys.workers, worker) or nil)
  end
  local all, seen = {}, Worker.seen(call)
  for n = 1, #seen, 2 do
    all[#all + 1] = Worker.shown(call, seen[n], seen[n + 1])
  end
  return Json.list(all)
end

-- worker.deregister worker...
function Worker.deregister(call, args, i)
  local workers = Pieces.rest(args, i)
  Arguments.bounded(call, #workers)
  for _, worker in ipairs(workers) do
    rcall('ZREM', call.keys.workers, worker)
    rcall('DEL', Keys.worker(call, worker), Keys.orders(call, worker))
  end
  Ticks.leave(call, workers)
end

local KNOWN = { quiet = true, resume = true, stop = true }
local MOST_ORDERS = 20 -- kept for a worker that does not fetch them; the latest are

-- order worker quiet|resume|stop: for the worker's next beat
function Worker.order(call, args, i)
  local worker, order = Arguments.name(call, 'worker', args[i]), args[i + 1]
  if not KNOWN[Arguments.given(call, 'order', order)] then
    Errors.argument(call, 'order must be quiet, resume or stop, not ' .. Errors.value(order))
  elseif
    not rcall('ZSCORE', call.keys.workers, worker) and rcall('EXISTS', Keys.worker(call, worker)) == 0
  then
    Errors.refuse(call, 'NOWORKER', 'Worker ' .. Errors.name(worker) .. ' is not known')
  end
  local name = Keys.orders(call, worker)
  rcall('RPUSH', name, order)
  rcall('LTRIM', name, -MOST_ORDERS, -1)
  rcall('EXPIRE', name, Config.worker_age(call))
  Events.order(call, worker, order)
end

-- What was asked of a worker, the first first: each is given out once.
local function take_orders(call, worker)
  local name = Keys.orders(call, worker)
  local orders = rcall('LRANGE', name, 0, -1)
  if #orders > 0 then
    rcall('DEL', name)
  end
  return orders
end

local HELD = { 'state', 'worker', 'token', 'queue', 'grace', 'more' }

-- Renews the lock of a run that the worker still holds. -> whether it does
local function renew(call, worker, jid, token)
  local run = { jid = jid, key = Keys.job(call, jid) }
  local values = rcall('HMGET', run.key, unpack(HELD))
  for n = 1, #HELD do
    run[HELD[n]] = values[n] or nil
  end
  if run.state ~= 'running' or run.worker ~= worker or run.token ~= token then
    return false
  end
  run.queue = run.queue or ''
  run.letters = Features.letters(call, run.more)
  if run.letters then
    Features.read(run)
  end
  Lock.extend(call, run, Call.later(call, Config.heartbeat(call, run.queue)))
  return true
end

-- beat worker info n (jid token held)*n -> { jids of lost jobs, orders }
-- It also writes the samples of all workers, so that statistics are never much older, and does what has to be done
-- now and then.
function Worker.beat(call, args, i)
  local worker, said = Arguments.name(call, 'worker', args[i]), args[i + 1]
  if Arguments.given(call, 'info', said) ~= '' then
    Arguments.object(call, 'info', said)
  end
  local count = Arguments.whole(call, 'number of jobs', args[i + 2], 0)
  Arguments.bounded(call, count)
  if #args - i - 2 ~= 3 * count then
    Errors.argument(call, 'jid, token and held of ' .. count .. ' jobs wanted')
  end
  for n = i + 5, #args, 3 do
    Arguments.held(call, args[n])
  end
  local lost = {}
  for n = i + 3, #args, 3 do
    if not renew(call, worker, args[n], args[n + 1]) then
      lost[#lost + 1] = args[n]
    end
  end
  rcall('ZADD', call.keys.workers, call.text, worker)
  if said ~= '' then
    rcall('SET', Keys.worker(call, worker), said, 'EX', Config.worker_age(call))
  end
  forget_silent(call)
  Samples.write(call)
  GlobWaits.tidy(call)
  Limits.look(call)
  Workflows.repair(call)
  return { lost, take_orders(call, worker) }
end
