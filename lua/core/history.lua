-- What happened to a job: a list of [when, what, more], the first and the newest kept. How attempts end:
--   done       it was completed
--   failed     it failed, and will not run again
--   retried    it failed and will run again
--   returned   it was handed back, which uses no retry up
--   crashed    its process died
--   timed-out  its lock was taken from it, or has run out and the worker has got notice of that
--   lost       the grace after such a notice is over: the worker holds the job no more
--
-- Most jobs are put, handed out and completed once. So the first entry, that it was put, stands in the record's field
-- `put` until there is another one; and an attempt is one entry, which has when it began in `started` and is shown as
-- two: popped, and how it ended. (Where something has to be told while a job runs, its popped is written before that:
-- the record's `noted` is the token of that run.)

local quote, format, sub, floor = cjson.encode, string.format, string.sub, math.floor
local rcall = redis.call

local SHORTEST = 0.001 -- seconds that a job was held, to be worth a word
local PIECE = 20 -- entries read at a time where they may be long

-- The text of a time, cut to thousandths of a second; of the present one if none is given.
local function time_of(call, when)
  if not when then
    return Call.thousandths(call)
  elseif type(when) == 'number' then
    return Times.thousandths(when)
  end
  return #when == 17 and sub(when, 1, 14) or Times.thousandths(tonumber(when) or call.now)
end

-- An entry; `more` is the text of a JSON object.
function History.entry(call, what, more, when)
  return '[' .. time_of(call, when) .. ',' .. quote(what) .. (more and ',' .. more or '') .. ']'
end

-- The time that the field `put` tells, as text.
local function put_time(put)
  if #put == 13 then -- like all but those of a given time
    local second, rest = sub(put, 1, 10), sub(put, 11)
    return rest == '000' and second or second .. '.' .. rest
  end
  return Times.thousandths((tonumber(put) or 0) / 1000)
end

local function put_entry(time, queue)
  return '[' .. time .. ',"put",{"q":' .. quote(queue) .. '}]'
end

-- Keeps the first entry and the newest.
local function shorten(call, name, length)
  local limit = Config.whole(call, 'max-job-history')
  if limit > 0 and limit ~= 2 and length > limit then
    local first = rcall('LPOP', name)
    rcall('LTRIM', name, -math.max(limit - 1, 1), -1)
    rcall('LPUSH', name, first)
  end
end

-- Appends an entry to the history of a job of which put and queue are known.
local function append(call, job, text)
  local name = Keys.history(call, job.jid)
  local length
  if job.put and job.put ~= '' then
    length = rcall('RPUSH', name, put_entry(put_time(job.put), job.queue or ''), text)
    rcall('HSET', job.key, 'put', '')
    job.put = ''
  else
    length = rcall('RPUSH', name, text)
  end
  if length > 2 then
    shorten(call, name, length)
  end
end

-- The same for the one who writes the record at once, with the field `put` that this returns (nil: it stays).
function History.append(call, job, text)
  local name = Keys.history(call, job.jid)
  if job.put and job.put ~= '' then
    rcall('RPUSH', name, put_entry(put_time(job.put), job.queue or ''), text)
    job.put = ''
    return ''
  end
  shorten(call, name, rcall('RPUSH', name, text))
end

-- Has the history told of the present run of a job?
local function is_noted(job)
  return job.noted and job.noted == job.token
end

-- Something is about to be told that happened while the job runs.
local function note_run(call, job)
  if job.state == 'running' and not is_noted(job) then
    append(
      call,
      job,
      '[' .. time_of(call, job.time) .. ',"popped",{"worker":' .. quote(job.worker or '') .. '}]'
    )
    job.noted = job.token
    if job.token then
      rcall('HSET', job.key, 'noted', job.token)
    end
  end
end
History.note_run = note_run

local READ = { 'state', 'queue', 'worker', 'time', 'token', 'put', 'noted' }

-- A job with what has to be known of it here.
local function job_of(call, jid)
  local job = { jid = jid, key = Keys.job(call, jid) }
  local values = rcall('HMGET', job.key, unpack(READ))
  for n = 1, #READ do
    job[READ[n]] = values[n] or nil
  end
  return job
end

-- Adds an entry; `more` is the text of a JSON object.
function History.add(call, jid, what, more, when)
  local job = job_of(call, jid)
  note_run(call, job)
  append(call, job, History.entry(call, what, more, when))
end

-- The job is put again, or moves on to a queue.
function History.put(call, jid, queue)
  History.add(call, jid, 'put', '{"q":' .. quote(queue) .. '}')
end

-- Ends of attempts that are shown with the worker. (Of the others the popped tells it.)
local SAYS_WORKER =
  { failed = true, retried = true, returned = true, crashed = true, lost = true, ['timed-out'] = true }

-- An object of those of these members that there are. (Lists of jobs look for the group before
-- what may stand in the message.)
local function members(job, how, ready)
  local texts = {}
  if how.started then
    texts[1] = '"started":' .. how.started
  end
  if job.worker and job.worker ~= '' and (how.started or SAYS_WORKER[how.what]) then
    texts[#texts + 1] = '"worker":' .. quote(job.worker)
  end
  if how.group then
    texts[#texts + 1] = '"group":' .. quote(how.group)
  end
  if how.held and (how.what == 'returned' or how.held >= SHORTEST) then
    texts[#texts + 1] = '"held":' .. format('%.3f', how.held)
  end
  if ready then
    texts[#texts + 1] = '"until":' .. Times.thousandths(ready)
  end
  if how.message and how.message ~= '' then
    texts[#texts + 1] = '"message":' .. quote(Headline.of(how.message))
  end
  return #texts > 0 and '{' .. table.concat(texts, ',') .. '}' or nil
end

-- Old clients are told of fewer things, and less of them.
local OLD = { done = true, failed = true, ['timed-out'] = true }

local function ended_old(call, job, how)
  if not OLD[how.what] then
    note_run(call, job)
    return nil
  elseif how.what == 'timed-out' then
    note_run(call, job)
    return History.entry(call, how.what)
  elseif how.exhausted then
    note_run(call, job)
    return History.entry(call, 'failed', '{"group":' .. quote(how.group) .. '}')
  end
  local group = how.what == 'failed' and how.group or nil
  return History.entry(
    call,
    how.what,
    members(job, { what = how.what, started = how.started, group = group })
  )
end

-- The entry of an attempt that ended so; nil if there is none. `how` has what, and may have group, message, held, delay.
-- `job` is the run: jid, key, queue, worker, time, token, put, noted.
function History.attempt(call, job, how)
  local started = not is_noted(job) and job.time and time_of(call, job.time) or nil
  if how.what == 'done' and started and job.worker then -- like most
    local held = how.held and how.held >= SHORTEST and format(',"held":%.3f', how.held) or ''
    local text = '{"started":' .. started .. ',"worker":' .. quote(job.worker) .. held .. '}'
    return '[' .. Call.thousandths(call) .. ',"done",' .. text .. ']'
  end
  how.started = started
  if call.old then
    return ended_old(call, job, how)
  end
  if how.exhausted and not how.message then
    how = { what = how.what, started = how.started, group = how.group, held = how.held }
  end
  local ready = how.delay and how.delay > 0 and call.now + how.delay
  return History.entry(call, how.what, members(job, how, ready))
end

-- A job that has not run failed.
function History.failed(call, job, group, message)
  local more = '{"group":' .. quote(group)
  if not call.old or message then
    more = more .. ',"message":' .. quote(Headline.of(message or ''))
  end
  append(call, job, History.entry(call, 'failed', more .. '}'))
end

local function shown_entry(call, triple)
  local shown = triple[3] or {}
  shown.when, shown.what = call.old and floor(triple[1]) or triple[1], triple[2]
  return shown
end

-- Shows an entry: as one, or as two if it is of a whole attempt.
local function show(call, text, entries)
  local fine, triple = pcall(cjson.decode, text)
  if not fine or type(triple) ~= 'table' or type(triple[1]) ~= 'number' or type(triple[2]) ~= 'string' then
    entries[#entries + 1] = { when = 0, what = 'unreadable', text = Errors.cut(text, 60) }
    return
  end
  local more = type(triple[3]) == 'table' and triple[3] or {}
  triple[3] = more
  if more.started then
    entries[#entries + 1] = shown_entry(call, { more.started, 'popped', { worker = more.worker or '' } })
    more.started = nil
    more.worker = SAYS_WORKER[triple[2]] and more.worker or nil
  end
  entries[#entries + 1] = shown_entry(call, triple)
end

-- The entries that stand in the record: that the job was put, and that it runs. -> texts, nil where there are none
local function unwritten(call, job)
  local first = job.put and job.put ~= '' and put_entry(put_time(job.put), job.queue or '') or nil
  local last
  if job.state == 'running' and not is_noted(job) then
    last = '[' .. time_of(call, job.time) .. ',"popped",{"worker":' .. quote(job.worker or '') .. '}]'
  end
  return first, last
end

-- Texts of entries as objects with when, what and the members of their third part.
function History.shown(call, texts)
  local entries = {}
  for n = 1, #texts do
    show(call, texts[n], entries)
  end
  return entries
end

-- All entries of the job with this record.
function History.read(call, job)
  local texts = rcall('LRANGE', Keys.history(call, job.jid), 0, -1)
  local first, last = unwritten(call, job)
  if first then
    table.insert(texts, 1, first)
  end
  texts[#texts + 1] = last
  return History.shown(call, texts)
end

-- When the first entry was made that the field `put` tells of, or a list that begins with it; false if none does.
function History.begun(list, put)
  if put and put ~= '' then
    return put_time(put)
  end
  return string.match(rcall('LINDEX', list, 0) or '', '^%[([%d.]+),') or false
end

-- The first entry and the newest: `most` at most, with that many bytes. -> their texts, how many there are
function History.texts(call, job, most, bytes)
  local name = Keys.history(call, job.jid)
  local first, running = unwritten(call, job)
  local total, newest = rcall('LLEN', name), { running }
  local last, oldest = total - 1, first and 0 or 1
  bytes = bytes - #(running or '')
  while last >= oldest and #newest < most - 1 and bytes > 0 do
    local from = math.max(oldest, last - PIECE + 1, last - (most - 1 - #newest) + 1)
    local part = rcall('LRANGE', name, from, last)
    for n = #part, 1, -1 do
      bytes = bytes - #part[n]
      if bytes > 0 then
        newest[#newest + 1] = part[n]
      end
    end
    last = from - 1
  end
  local texts = first and { first } or rcall('LRANGE', name, 0, 0)
  for n = #newest, 1, -1 do
    texts[#texts + 1] = newest[n]
  end
  return texts, total + (first and 1 or 0) + (running and 1 or 0)
end

-- The same as objects. (Those that are left out count as one each.)
function History.some(call, job, most, bytes)
  local texts, total = History.texts(call, job, most, bytes)
  local entries = History.shown(call, texts)
  return entries, total - #texts + #entries
end

-- log jid message [data]
function History.log(call, args, i)
  local jid = Arguments.name(call, 'jid', args[i])
  local message = Arguments.message(call, args[i + 1])
  local data = args[i + 2]
  if data then
    Arguments.object(call, 'data', data)
  end
  if rcall('EXISTS', Keys.job(call, jid)) == 0 then
    Errors.no_job(call, jid)
  end
  History.add(call, jid, message, data)
end
