-- A short record of a canceled job, kept for a while for those who ask for it. For everything else the
-- job does not exist.

local sub = string.sub

-- Bytes of data and context, of a failure, of a history: what is longer is left out, or cut. A full
-- server is emptied by canceling, and most records are never read.
local BYTES = 16 * 1024
local ENTRIES = 20 -- of the history
local LIST = 4 * 1024 -- bytes of the jids that spawned it

local MOST = 5000 -- records that are kept
local SURPLUS = 200 -- old records removed by one call beyond twice those it adds

-- What of a job's record is kept as it is.
local SAME = {
  'klass',
  'queue',
  'priority',
  'retries',
  'remaining',
  'tags',
  'worker',
  'crashes',
  'spawned_from_jid',
  'unique',
  'workflow',
  'on_failure',
}

-- (The end of a traceback tells most.)
local function shortened(failure)
  if #failure <= BYTES then
    return failure
  end
  local known = cjson.decode(failure)
  known.message = string.gsub(sub(tostring(known.message), -BYTES), '^[\128-\191]+', '', 1)
  return cjson.encode(known)
end

function Canceled.time()
  return NumberFormat.now()
end

-- Fields and values of what is kept. `why` is call, dependency or workflow, `by` the jid or id.
local function fields_of(jid, record, why, by)
  local fields = { 'was', record.state, 'when', Canceled.time(), 'why', why }
  local function add(name, value)
    if value and value ~= '' then
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
  end
  add('by', by)
  for _, name in ipairs(SAME) do
    add(name, Record.text(name, record[name]))
  end
  local data, context = record.data or '', Record.text('context', record.context, '')
  if #data + #context <= BYTES then
    add('data', data)
    add('context', context)
  else
    add('left_out', #data + #context)
  end
  local failure, spawners = Record.text('failure', record.failure), Record.text('spawners', record.spawners)
  add('failure', failure and shortened(failure))
  if spawners and #spawners <= LIST then
    add('spawners', spawners)
  end
  local entries, total = History.texts(jid, ENTRIES, BYTES)
  entries = Record.entry_texts(entries)
  local more = { was = record.state, why = why, by = by }
  entries[#entries + 1] = History.entry('canceled', cjson.encode(more), tonumber(fields[4]))
  add('history', Json.list(entries))
  add('history_total', total + 1)
  return fields
end

-- Keeps what is known of a job that is about to be taken away.
function Canceled.keep(jid, record, why, by)
  local age = Config.whole('canceled-history')
  if not scope.live or age < 1 then
    return
  end
  local name, fields = key.canceled_job(jid), fields_of(jid, record, why, by)
  call('DEL', name)
  call('HSET', name, unpack(fields))
  call('EXPIRE', name, age)
  call('ZADD', key.canceled(), fields[4], jid)
  scope.canceled = (scope.canceled or 0) + 1
end

-- The job of this jid is put again: its record says what became of it.
function Canceled.forget(jid)
  if scope.live and call('DEL', key.canceled_job(jid)) == 1 then
    call('ZREM', key.canceled(), jid)
  end
end

-- Which of these jids have such records, as a set.
function Canceled.among(jids)
  local found, times = {}, call('ZMSCORE', key.canceled(), unpack(jids))
  for n, jid in ipairs(jids) do
    found[jid] = times[n] and true or nil
  end
  return found
end

local function too_old()
  return '(' .. string.format('%.17g', scope.now - Config.whole('canceled-history'))
end

-- The call has added records: those that are too old or too many go, and the list lasts as long as they.
function Canceled.finish()
  local name, most = key.canceled(), SURPLUS + 2 * scope.canceled
  local age = Config.whole('canceled-history')
  local old = call('ZRANGEBYSCORE', name, '-inf', scope.now - age, 'LIMIT', 0, most)
  local surplus = call('ZCARD', name) - #old - MOST
  if surplus > 0 and #old < most then
    for _, jid in ipairs(call('ZRANGE', name, #old, #old + math.min(surplus, most - #old) - 1)) do
      old[#old + 1] = jid
    end
  end
  if #old > 0 then
    call('ZREMRANGEBYRANK', name, 0, #old - 1) -- the oldest are the first
    for n, jid in ipairs(old) do
      old[n] = key.canceled_job(jid)
    end
    call('DEL', unpack(old))
  end
  if call('PTTL', name) < age * 1000 then
    call('EXPIRE', name, age)
  end
end

-- The jids of a part, the last canceled first.
function Canceled.part(offset, count)
  if count < 0 then
    count = Arguments.most
  end
  return call('ZREVRANGEBYSCORE', key.canceled(), '+inf', too_old(), 'LIMIT', offset, count)
end

function Canceled.count()
  return call('ZCOUNT', key.canceled(), too_old(), '+inf')
end

function Canceled.exists(jid)
  return call('EXISTS', key.canceled_job(jid)) == 1
end

local function read(jid)
  local record = Hash.all(key.canceled_job(jid))
  return record.was and record
end

-- The object that get shows, as JSON, or nil; its state is `canceled`.
function Canceled.show(jid)
  local record = read(jid)
  if not record then
    return nil
  end
  local shown = cjson.encode({
    jid = jid,
    klass = record.klass or '',
    state = 'canceled',
    queue = record.queue or '',
    worker = '',
    tracked = call('ZSCORE', key.tracked(), jid) and true or false,
    priority = tonumber(record.priority) or 0,
    expires = 0,
    retries = tonumber(record.retries) or 0,
    remaining = math.floor(tonumber(record.remaining) or 0),
    data = record.data or 'null',
    tags = Record.read('tags', record.tags, {}),
    history = History.shown(Record.read('entries', record.history, {})),
    failure = Record.read('failure', record.failure, {}),
    spawned_from_jid = record.spawned_from_jid or false,
    dependents = {},
    dependencies = {},
    token = '',
    crashes = tonumber(record.crashes) or 0,
    unique = Unique.shown(record.unique),
    workflow = record.workflow,
    on_failure = record.on_failure,
    canceled = {
      when = tonumber(record.when),
      was = record.was,
      why = record.why,
      by = record.by or '',
      worker = record.was == 'running' and record.worker or '',
      left_out = tonumber(record.left_out) or 0,
    },
  })
  return Json.with(shown, 'context', record.context or 'null', 'progress', 'null')
end

-- How many entries the history had, and what spawned the job.
function Canceled.more(jid)
  local history_total, spawners = Hash.values(key.canceled_job(jid), 'history_total', 'spawners')
  return Record.read('count', history_total, 0), Record.read('spawners', spawners, {})
end

-- A row of a list, as Brief has it, but for the last places; or false.
function Canceled.row(jid)
  local row = call(
    'HMGET',
    key.canceled_job(jid),
    'klass',
    'queue',
    'was',
    'priority',
    'retries',
    'remaining',
    'tags',
    'worker',
    'when',
    'expires',
    'spawned_from_jid',
    'workflow',
    'history'
  )
  row[1], row[2] = row[1] or '', row[2] or ''
  return row[3] and row
end
