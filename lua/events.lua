-- What is published, byte for byte: members in a fixed order, no spaces.
local scope, texts = Qless.scope, Qless.texts

local Events = {}
Qless.Events = Events

local call, find = redis.call, string.find

-- Most names need no escaping, and then no encoder.
local function plain(text)
  return type(text) == 'string' and find(text, '^[%w_~.:-]*$')
end

-- A JSON string.
function Events.quote(text)
  if plain(text) then
    return '"' .. text .. '"'
  end
  return cjson.encode(text)
end

local quote = Events.quote

local function log(text)
  local channel = texts.log
  if not channel then
    channel = scope.prefix .. 'log'
    texts.log = channel
  end
  call('PUBLISH', channel, text)
end

-- {"jid":…} and what stands behind the jid.
local function of_job(jid, rest)
  if plain(jid) then
    return '{"jid":"' .. jid .. '"' .. rest
  end
  return '{"jid":' .. quote(jid) .. rest
end

local function tell(worker, text)
  call('PUBLISH', scope.prefix .. 'w:' .. worker, text)
end

-- Bare jids, for tracked jobs: put popped completed failed canceled stalled track untrack.
function Events.tracked(what, jid)
  call('PUBLISH', scope.prefix .. what, jid)
end

-- What stands behind the jid, the same for all jobs of a call.
local function tail(event, queue)
  local id = event .. queue
  local text = texts[id]
  if not text then
    text = ',"event":"' .. event .. '","queue":' .. quote(queue) .. '}'
    texts[id] = text
  end
  return text
end

function Events.put(jid, queue)
  log(of_job(jid, tail('put', queue)))
end

function Events.completed(jid, queue)
  log(of_job(jid, tail('completed', queue)))
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

-- Whom it concerns hears it first.
function Events.lock_lost(jid, worker)
  local text = lock_lost(jid, worker)
  tell(worker, text)
  log(text)
end

function Events.config_set(option, value)
  log('{"option":' .. quote(option) .. ',"event":"config_set","value":' .. quote(value) .. '}')
end

function Events.config_unset(option)
  log('{"event":"config_unset","option":' .. quote(option) .. '}')
end
