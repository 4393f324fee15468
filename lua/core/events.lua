-- What is published, byte for byte: members in a fixed order, no spaces.

local quote = cjson.encode
local rcall = redis.call

local function publish(call, channel, text)
  if call.sharded then
    rcall('SPUBLISH', call.prefix .. channel, text)
  else
    rcall('PUBLISH', call.prefix .. channel, text)
  end
end

local function log(call, text)
  publish(call, 'log', text)
end

local function tell(call, worker, text)
  publish(call, 'w:' .. worker, text)
end

-- Bare jids, for tracked jobs: put popped completed failed canceled stalled track untrack.
function Events.tracked(call, what, jid)
  publish(call, what, jid)
end

-- (`queue` is that of Keys.queue.)
function Events.put(call, jid, queue)
  log(call, '{"jid":' .. quote(jid) .. ',"event":"put","queue":' .. queue.quoted .. '}')
end

function Events.completed(call, jid, queue)
  log(call, '{"jid":' .. quote(jid) .. ',"event":"completed","queue":' .. queue.quoted .. '}')
end

function Events.advanced(call, jid, queue, to)
  log(
    call,
    '{"jid":' .. quote(jid) .. ',"to":' .. quote(to) .. ',"event":"advanced","queue":' .. quote(queue) .. '}'
  )
end

function Events.failed(call, jid, group, message, worker)
  log(
    call,
    '{"message":'
      .. quote(message)
      .. ',"jid":'
      .. quote(jid)
      .. ',"group":'
      .. quote(group)
      .. ',"event":"failed","worker":'
      .. quote(worker)
      .. '}'
  )
end

function Events.canceled(call, jid, queue, worker)
  local text = '{"jid":'
    .. quote(jid)
    .. ',"queue":'
    .. quote(queue)
    .. ',"event":"canceled","worker":'
    .. quote(worker)
    .. '}'
  log(call, text)
  if worker and worker ~= '' then
    tell(call, worker, text)
  end
end

local function lock_lost(jid, worker)
  return '{"jid":' .. quote(jid) .. ',"event":"lock_lost","worker":' .. quote(worker) .. '}'
end

-- The worker hears it first, if it is known.
function Events.lock_lost(call, jid, worker)
  if worker and worker ~= '' then
    local text = lock_lost(jid, worker)
    tell(call, worker, text)
    log(call, text)
  end
end

function Events.order(call, worker, order)
  tell(call, worker, '{"event":"order","order":' .. quote(order) .. ',"worker":' .. quote(worker) .. '}')
end

-- For the worker that serves schedules: one has changed.
function Events.schedules(call, worker)
  if worker then
    tell(call, worker, '{"event":"schedules","worker":' .. quote(worker) .. '}')
  end
end

function Events.config_set(call, option, value)
  log(call, '{"option":' .. quote(option) .. ',"event":"config_set","value":' .. quote(value) .. '}')
end

function Events.config_unset(call, option)
  log(call, '{"event":"config_unset","option":' .. quote(option) .. '}')
end
