-- What is published, byte for byte: members in a fixed order, no spaces.

local quote = cjson.encode

local function publish(channel, text)
  if scope.sharded then
    call('SPUBLISH', scope.prefix .. channel, text)
  else
    call('PUBLISH', scope.prefix .. channel, text)
  end
end

local function log(text)
  publish('log', text)
end

local function tell(worker, text)
  publish('w:' .. worker, text)
end

-- Bare jids, for tracked jobs: put popped completed failed canceled stalled track untrack.
function Events.tracked(what, jid)
  publish(what, jid)
end

function Events.put(jid, queue)
  log('{"jid":' .. quote(jid) .. ',"event":"put","queue":' .. quote(queue) .. '}')
end

function Events.completed(jid, queue)
  log('{"jid":' .. quote(jid) .. ',"event":"completed","queue":' .. quote(queue) .. '}')
end

function Events.advanced(jid, queue, to)
  log(
    '{"jid":' .. quote(jid) .. ',"to":' .. quote(to) .. ',"event":"advanced","queue":' .. quote(queue) .. '}'
  )
end

function Events.failed(jid, group, message, worker)
  log(
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

function Events.canceled(jid, queue, worker)
  local text = '{"jid":'
    .. quote(jid)
    .. ',"queue":'
    .. quote(queue)
    .. ',"event":"canceled","worker":'
    .. quote(worker)
    .. '}'
  log(text)
  if worker and worker ~= '' then
    tell(worker, text)
  end
end

local function lock_lost(jid, worker)
  return '{"jid":' .. quote(jid) .. ',"event":"lock_lost","worker":' .. quote(worker) .. '}'
end

-- Whom it concerns hears it first; if it is not known who that was, nobody.
function Events.lock_lost(jid, worker)
  if worker and worker ~= '' then
    local text = lock_lost(jid, worker)
    tell(worker, text)
    log(text)
  end
end

function Events.order(worker, order)
  tell(worker, '{"event":"order","order":' .. quote(order) .. ',"worker":' .. quote(worker) .. '}')
end

-- Who looks after cron schedules is told that one has changed.
function Events.schedules(worker)
  if worker then
    tell(worker, '{"event":"schedules","worker":' .. quote(worker) .. '}')
  end
end

function Events.config_set(option, value)
  log('{"option":' .. quote(option) .. ',"event":"config_set","value":' .. quote(value) .. '}')
end

function Events.config_unset(option)
  log('{"event":"config_unset","option":' .. quote(option) .. '}')
end
