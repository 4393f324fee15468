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

-- Entries as objects with when, what and the members of their third part.
local function shown(texts)
  local entries = {}
  for n, text in ipairs(texts) do
    local triple = cjson.decode(text)
    local entry_shown = triple[3] or {}
    entry_shown.when, entry_shown.what = triple[1], triple[2]
    entries[n] = entry_shown
  end
  return entries
end

function History.read(jid)
  return shown(call('LRANGE', key.history(jid), 0, -1))
end

local PIECE = 20 -- entries read at a time where they may be long

-- The first entry and the newest: at most so many, with so many bytes. -> these, how many there are
function History.some(jid, most, bytes)
  local name = key.history(jid)
  local total, newest = call('LLEN', name), {}
  local last = total - 1
  while last >= 1 and #newest < most - 1 and bytes > 0 do
    local from = math.max(1, last - PIECE + 1, last - (most - 1 - #newest) + 1)
    local part = call('LRANGE', name, from, last)
    for n = #part, 1, -1 do
      bytes = bytes - #part[n]
      if bytes > 0 then
        newest[#newest + 1] = part[n]
      end
    end
    last = from - 1
  end
  local texts = call('LRANGE', name, 0, 0)
  for n = #newest, 1, -1 do
    texts[#texts + 1] = newest[n]
  end
  return shown(texts), total
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
