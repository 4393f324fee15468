-- What happened to a job: a list of [when, what, more], the first and the newest kept, and how each attempt
-- ended:
--   done       it was completed
--   failed     it failed for good
--   retried    it failed and will run again
--   returned   it was handed back, which uses no retry up
--   crashed    its process died
--   timed-out  its lock was taken from it, or has run out and the worker has got notice of that
--   lost       the grace after such a notice is over: the worker holds the job no more
--
-- The first entries of a job, that it was put and then handed out, are not written before there is another one: a list
-- would take a third of what a waiting job takes, and most jobs are run once, so that one command writes all of theirs.
-- Until then the record's field `put` has their times.

local quote, format, find, match, sub = cjson.encode, string.format, string.find, string.match, string.sub

-- A time as an entry has it; defaults to now.
function History.time(when)
  return when and NumberFormat.thousandths(when) or NumberFormat.thousandth()
end

-- An entry; `more` is the text of a JSON object.
function History.entry(what, more, when)
  return '[' .. History.time(when) .. ',' .. quote(what) .. (more and ',' .. more or '') .. ']'
end

-- Keeps the first entry and the newest.
local function shorten(name, length)
  local limit = Config.whole('max-job-history')
  if limit > 0 and limit ~= 2 and length > limit then
    local first = call('LPOP', name)
    call('LTRIM', name, -math.max(limit - 1, 1), -1)
    call('LPUSH', name, first)
  end
end

local function append(jid, text, putting)
  local name = key.history(jid)
  local length = call('RPUSH', name, text)
  if length == 1 and not putting then
    History.begin_late(jid)
  elseif length >= 3 then
    shorten(name, length)
  end
end

function History.add(jid, what, more, when)
  append(jid, History.entry(what, more, when))
end

local function put_entry(time, queue)
  return '[' .. time .. ',"put",{"q":' .. quote(queue) .. '}]'
end

function History.put(jid, queue, when)
  append(jid, put_entry(History.time(when), queue), true)
end

-- The same of a job that there was not. -> what its record says in place of the entry
function History.begin()
  return NumberFormat.milliseconds()
end

local function popped_entry(time, worker)
  return '[' .. time .. ',"popped",{"worker":' .. quote(worker) .. '}]'
end

-- When a job was put, as an entry has it, by the milliseconds that its record has. (Without arithmetic: printing a
-- fraction is dear.)
local function put_time(milliseconds)
  local second, rest = match(milliseconds, '^(%d+)(%d%d%d)$')
  if second then
    return rest == '000' and second or second .. '.' .. rest
  end
  local number = tonumber(milliseconds)
  return number and NumberFormat.thousandths(number / 1000)
end

-- The entries in place of which the record of a job in this queue, with this worker, has this field `put`: that it was
-- put, that it was handed out. -> the first or nil, the second or nil
function History.unwritten(put, queue, worker)
  local space = put and find(put, ' ', 1, true)
  local time = put and put_time(space and sub(put, 1, space - 1) or put)
  if time then
    return put_entry(time, queue or ''), space and popped_entry(sub(put, space + 1), worker or '') or nil
  end
end

-- A worker has a job, with this field `put`. -> what its record says in place of entries
function History.popped(jid, worker, put)
  if put and put ~= '' and not find(put, ' ', 1, true) then
    return put .. ' ' .. History.time()
  end
  History.add_popped(jid, worker, put)
  return ''
end

-- The same, written at once.
function History.add_popped(jid, worker, put)
  if put and put ~= '' then
    History.write_late(jid)
  end
  append(jid, popped_entry(History.time(), worker))
end

local SHORTEST = 0.001 -- seconds that a job was held, to be worth a word

local function done_entry(held)
  if held and held >= SHORTEST then
    return '[' .. History.time() .. ',"done",{"held":' .. format('%.3f', held) .. '}]'
  end
  return '[' .. History.time() .. ',"done"]'
end

-- `held`: for how long the job lay in its worker's hands before it was started, if that is known.
function History.done(jid, held)
  append(jid, done_entry(held))
end

-- The same of a job with this field `put`, in this queue, and with this worker. -> whether nothing stands in place of
-- entries any longer, which the caller has to write
function History.done_with(jid, held, put, queue, worker)
  local first, second = History.unwritten(put, queue, worker)
  if not second then
    History.done(jid, held)
    return false
  end
  local name = key.history(jid)
  local length = call('RPUSH', name, first, second, done_entry(held))
  if length > 3 then
    -- Another library has begun the list.
    call('LREM', name, 1, first)
    call('LPUSH', name, first)
  end
  shorten(name, length)
  return true
end

-- An object of those of these members that there are. (Lists of jobs look for the group before what
-- anybody may have written into the message.) `telling`: `held` is told however short it was.
local function members(worker, group, held, ready, message, telling)
  local texts = {}
  if worker then
    texts[#texts + 1] = '"worker":' .. quote(worker)
  end
  if group then
    texts[#texts + 1] = '"group":' .. quote(group)
  end
  if held and (telling or held >= SHORTEST) then
    texts[#texts + 1] = '"held":' .. format('%.3f', held)
  end
  if ready then
    texts[#texts + 1] = '"until":' .. NumberFormat.thousandths(ready)
  end
  if message and message ~= '' then
    texts[#texts + 1] = '"message":' .. quote(Headline.of(message))
  end
  return #texts > 0 and '{' .. table.concat(texts, ',') .. '}' or nil
end

-- What is not run at all may fail as well: then there is no worker.
function History.failed(jid, group, worker, message)
  History.add(jid, 'failed', members(worker, group, nil, nil, message))
end

-- An attempt at `job` (worker, held) ended so. It will be ready again after `delay` seconds, if that is
-- given.
function History.ended(jid, what, job, group, message, delay)
  if what == 'done' then
    History.done(jid, job.held)
    return
  end
  local ready = delay and delay > 0 and scope.now + delay
  -- What was handed back has run if it says for how long it was held before.
  History.add(jid, what, members(job.worker, group, job.held, ready, message, what == 'returned'))
end

-- The last attempt failed that the job had.
function History.exhausted(job, group, message)
  History.ended(job.jid, 'failed', job, group, message)
end

function History.when(time)
  return time
end

-- Triples as objects with when, what and the members of their third part.
function History.shown(triples)
  local entries = {}
  for n, triple in ipairs(triples) do
    local entry_shown = triple[3] or {}
    entry_shown.when = History.when(triple[1])
    entry_shown.what = triple[2]
    entries[n] = entry_shown
  end
  return entries
end

local function shown(texts)
  local triples = {}
  for n, text in ipairs(texts) do
    triples[n] = Record.entry_of(text)
  end
  return History.shown(triples)
end

-- Those of the job with this record.
function History.read(jid, record)
  local texts = call('LRANGE', key.history(jid), 0, -1)
  local first, second = History.unwritten(record.put, record.queue, record.worker)
  if first then
    table.insert(texts, 1, first)
    texts[#texts + 1] = second
  end
  return shown(texts)
end

local PIECE = 20 -- entries read at a time where they may be long

-- The first entry and the newest: at most so many, with so many bytes. -> their texts, how many there are
function History.texts(jid, most, bytes)
  local name = key.history(jid)
  local first, second = History.unwritten(Hash.values(key.job(jid), 'put', 'queue', 'worker'))
  local total, newest = call('LLEN', name), { second }
  local last, oldest = total - 1, first and 0 or 1
  bytes = bytes - #(second or '')
  while last >= oldest and #newest < most - 1 and bytes > 0 do
    local from = math.max(oldest, last - PIECE + 1, last - (most - 1 - #newest) + 1)
    local part = call('LRANGE', name, from, last)
    for n = #part, 1, -1 do
      bytes = bytes - #part[n]
      if bytes > 0 then
        newest[#newest + 1] = part[n]
      end
    end
    last = from - 1
  end
  local texts = first and { first } or call('LRANGE', name, 0, 0)
  for n = #newest, 1, -1 do
    texts[#texts + 1] = newest[n]
  end
  return texts, total + (first and 1 or 0) + (second and 1 or 0)
end

-- The same as objects.
function History.some(jid, most, bytes)
  local texts, total = History.texts(jid, most, bytes)
  return shown(texts), total
end

-- Records of the earliest versions carry their history in a field of the hash.
function History.modernise(jid, text)
  local entries = Record.read('history', text)
  for _, old in ipairs(entries or {}) do
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
  if entries then
    call('HDEL', key.job(jid), 'history')
  end
end

-- Writes what stands in the record in place of the first entries, before all others.
function History.write_late(jid)
  local first, second = History.unwritten(Hash.values(key.job(jid), 'put', 'queue', 'worker'))
  if second then
    call('LPUSH', key.history(jid), second, first)
  elseif first then
    call('LPUSH', key.history(jid), first)
  end
  if first then
    call('HSET', key.job(jid), 'put', '')
  end
  return first ~= nil
end

-- A list has just begun with an entry that is not the first: what comes before it stands in the record, there perhaps
-- in the form of the earliest versions.
function History.begin_late(jid)
  if History.write_late(jid) then
    return
  end
  local text = call('HGET', key.job(jid), 'history')
  if text then
    local newest = call('LPOP', key.history(jid))
    History.modernise(jid, text)
    call('RPUSH', key.history(jid), newest)
  end
end

-- log jid message [data]
function History.log(args, i)
  local jid = Arguments.name('log', 'jid', args[i])
  local message = Arguments.message('log', args[i + 1])
  local data = args[i + 2]
  if data then
    Arguments.object('log', 'data', data)
  end
  if call('EXISTS', key.job(jid)) == 0 then
    Errors.no_job('log', jid)
  end
  History.add(jid, message, data)
end
