-- What happened to a job: a list of [when, what, more], the first and the newest kept.
local Texts, Config, Arguments, Errors, scope, key =
  Qless.Texts, Qless.Config, Qless.Arguments, Qless.Errors, Qless.scope, Qless.key

local History = {}
Qless.History = History

local call, quote, floor = redis.call, cjson.encode, math.floor

-- An entry; `more` is the text of a JSON object, `when` defaults to now.
local function entry(what, more, when)
  local second = when and Texts.whole(floor(when)) or Texts.second()
  return '[' .. second .. ',' .. quote(what) .. (more and ',' .. more or '') .. ']'
end

local function append(jid, text, putting)
  local name = key.history(jid)
  local length = call('RPUSH', name, text)
  if length < 3 then
    if length == 1 and not putting then
      History.modernise_late(jid)
    end
    return
  end
  local limit = Config.whole('max-job-history')
  if limit > 0 and limit ~= 2 and length > limit then
    local first = call('LPOP', name)
    call('LTRIM', name, -math.max(limit - 1, 1), -1)
    call('LPUSH', name, first)
  end
end

function History.add(jid, what, more, when)
  append(jid, entry(what, more, when))
end

-- What stands behind the time, the same for all jobs of a queue or a worker.
local put_into = Texts.remembered(function(queue)
  return ',"put",{"q":' .. quote(queue) .. '}]'
end)

local popped_by = Texts.remembered(function(worker)
  return ',"popped",{"worker":' .. quote(worker) .. '}]'
end)

function History.put(jid, queue, when)
  local second = when and Texts.whole(floor(when)) or Texts.second()
  append(jid, '[' .. second .. put_into(queue), true)
end

function History.popped(jid, worker)
  append(jid, '[' .. Texts.second() .. popped_by(worker))
end

function History.done(jid)
  append(jid, '[' .. Texts.second() .. ',"done"]')
end

function History.failed(jid, group, worker)
  if worker then
    History.add(jid, 'failed', '{"worker":' .. quote(worker) .. ',"group":' .. quote(group) .. '}')
  else
    History.add(jid, 'failed', '{"group":' .. quote(group) .. '}')
  end
end

-- The entries as objects with when, what and the members of their third part.
function History.read(jid)
  local entries = {}
  for n, text in ipairs(call('LRANGE', key.history(jid), 0, -1)) do
    local triple = cjson.decode(text)
    local shown = triple[3] or {}
    shown.when, shown.what = triple[1], triple[2]
    entries[n] = shown
  end
  return entries
end

-- Records of the earliest versions carry their history in a field of the hash.
function History.modernise(jid, text)
  for _, old in ipairs(cjson.decode(text)) do
    if old.put then
      History.put(jid, old.q, tonumber(old.put))
    end
    if old.popped then
      History.add(jid, 'popped', '{"worker":' .. quote(old.worker or '') .. '}', tonumber(old.popped))
    end
    if old.failed then
      History.add(jid, 'failed', nil, tonumber(old.failed))
    end
    if old.done then
      History.add(jid, 'done', nil, tonumber(old.done))
    end
  end
  call('HDEL', key.job(jid), 'history')
end

-- The first entry of a list was not a put: the record may be of the earliest versions.
function History.modernise_late(jid)
  local text = call('HGET', key.job(jid), 'history')
  if text then
    local newest = call('LPOP', key.history(jid))
    History.modernise(jid, text)
    call('RPUSH', key.history(jid), newest)
  end
end

-- log jid message [data]
function History.log(args, i)
  local jid = Arguments.given('log', 'jid', args[i])
  local message = Arguments.given('log', 'message', args[i + 1])
  local data = args[i + 2]
  if data then
    Arguments.object('log', 'data', data)
  end
  if scope.keyed and #message > Arguments.text_bytes then
    Errors.raise('TOOBIG', 'log(): message has ' .. #message .. ' bytes, at most ' .. Arguments.text_bytes)
  end
  if call('EXISTS', key.job(jid)) == 0 then
    Errors.no_job('log', jid)
  end
  History.add(jid, message, data)
end
