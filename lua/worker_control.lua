-- What operators ask of a worker.

local KNOWN = { quiet = true, resume = true, stop = true }
local MOST = 20 -- orders kept for a worker that does not fetch them; the latest are

local function must_be_known(worker)
  if not call('ZSCORE', key.workers(), worker) and call('EXISTS', key.worker(worker)) == 0 then
    Errors.raise('NOWORKER', 'order(): Worker ' .. Errors.name(worker) .. ' is not known')
  end
end

-- order worker quiet|resume|stop: for the worker's next beat
function WorkerControl.order(args, i)
  local worker, order = Arguments.name('order', 'worker', args[i]), args[i + 1]
  if not KNOWN[Arguments.given('order', 'order', order)] then
    Errors.argument('order', 'order must be quiet, resume or stop, not ' .. Errors.value(order))
  end
  must_be_known(worker)
  local name = key.orders(worker)
  call('RPUSH', name, order)
  call('LTRIM', name, -MOST, -1)
  call('EXPIRE', name, Config.worker_age())
  Events.order(worker, order)
end

-- The orders of a worker, the first first: each is given out once.
function WorkerControl.take(worker)
  local name = key.orders(worker)
  local orders = call('LRANGE', name, 0, -1)
  if #orders > 0 then
    call('DEL', name)
  end
  return orders
end

function WorkerControl.forget(worker)
  call('DEL', key.orders(worker))
end
