-- Workers: what they say of themselves, what they hold, and one heartbeat for all of it.

local FAR = 8640000 -- seconds; no lock is longer

-- Workers silent for too long are forgotten, unless a lock of theirs is still good.
local function forget_silent()
  local before = scope.now - Config.number('max-worker-age')
  local silent = call('ZRANGEBYSCORE', key.workers(), '-inf', before, 'LIMIT', 0, Arguments.most)
  local gone, since = {}, '(' .. string.format('%.17g', scope.now)
  for _, worker in ipairs(silent) do
    if call('ZCOUNT', key.held(worker), since, '+inf') == 0 then
      call('DEL', key.held(worker))
      gone[#gone + 1] = worker
    end
  end
  SortedSet.remove(key.workers(), gone)
end

-- A worker is shown with what it says of itself.
function Worker.with_info(shown, worker, seen)
  shown.beat = tonumber(seen)
  return Json.with(cjson.encode(shown), 'info', call('GET', key.worker(worker)) or 'null')
end

-- Workers that gave a sign of life lately (where silent ones are forgotten: those that are left), the
-- latest first, and when: some of them, or all. -> these, how many there are
function Worker.seen(offset, count)
  local since = '-inf'
  if scope.reading then
    since = '(' .. string.format('%.17g', scope.now - Config.number('max-worker-age'))
  end
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
  return Worker.with_info({
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
  local worker = args[i] and Arguments.name('workers', 'worker', args[i])
  if not scope.reading then
    forget_silent()
  end
  if not worker then
    return overview()
  end
  local shown = {
    jobs = call('ZREVRANGEBYSCORE', key.held(worker), scope.now + FAR, scope.now),
    stalled = call('ZREVRANGEBYSCORE', key.held(worker), scope.now, 0),
  }
  return Worker.with_info(shown, worker, call('ZSCORE', key.workers(), worker) or nil)
end

-- worker.deregister worker...
function Worker.deregister(args, i)
  local workers = Tags.rest(args, i)
  Arguments.bounded('worker.deregister', #workers)
  SortedSet.remove(key.workers(), workers)
  if scope.live then
    for _, worker in ipairs(workers) do
      call('DEL', key.worker(worker))
      WorkerControl.forget(worker)
    end
    Cron.leave(workers)
  end
end

-- The jobs of a heartbeat that their worker still holds, by queue, and those it has lost. A record learns
-- that its job was started: if the worker is heard of no more, the start is counted when the lock is lost.
local function sort_out(worker, args, i, count)
  local queues, lost = {}, {}
  for n = i, i + 3 * count - 1, 3 do
    local jid, token, held = args[n], args[n + 1], args[n + 2]
    local state, its_worker, its_token, queue, grace, its_waited =
      Hash.values(key.job(jid), 'state', 'worker', 'token', 'queue', 'grace', 'waited')
    if state == 'running' and its_worker == worker and its_token == token then
      queue = queue or ''
      queues[queue] = queues[queue] or {}
      table.insert(queues[queue], jid)
      if grace then
        call('HDEL', key.job(jid), 'grace')
      end
      local waited = held and Samples.waited_in_hands(its_waited, held)
      if waited then
        call('HSET', key.job(jid), 'waited', waited)
      end
    else
      lost[#lost + 1] = jid
    end
  end
  return queues, lost
end

-- beat worker info n (jid token held)*n -> { jids of lost jobs, orders }; `held` is for how many seconds
-- the job lay in its worker's hands before it was started, '' if it was not
-- It also writes the samples of all workers, so that statistics are never much older.
function Worker.beat(args, i)
  local worker, said = Arguments.name('beat', 'worker', args[i]), args[i + 1]
  if Arguments.given('beat', 'info', said) ~= '' then
    Arguments.object('beat', 'info', said)
  end
  local count = Arguments.whole('beat', 'number of jobs', args[i + 2], 0)
  Arguments.bounded('beat', count)
  if #args - i - 2 ~= 3 * count then
    Errors.argument('beat', 'jid, token and held of ' .. count .. ' jobs wanted')
  end
  for n = i + 5, #args, 3 do
    args[n] = Arguments.held('beat', args[n]) or false
  end
  local queues, lost = sort_out(worker, args, i + 3, count)
  for queue, jids in pairs(queues) do
    local expires = NumberFormat.later(Config.heartbeat(queue))
    for _, jid in ipairs(jids) do
      call('HSET', key.job(jid), 'expires', expires)
    end
    SortedSet.add(key.held(worker), expires, jids)
    if queue ~= '' then -- a damaged record names none
      SortedSet.add(key.place(queue, 'locks'), expires, jids)
    end
  end
  call('ZADD', key.workers(), scope.now, worker)
  if said ~= '' then
    call('SET', key.worker(worker), said, 'EX', Config.worker_age())
  end
  Samples.settle()
  return { lost, WorkerControl.take(worker) }
end
