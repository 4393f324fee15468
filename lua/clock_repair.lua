-- The server's clock was set back: what was timed before by how long it was to take is set back with it,
-- a bounded number of items per call. What was given as a time stays.

local format = string.format

-- Items looked at by one call beside what it is made for; by one that is made for nothing else.
local FEW, MOST = 500, Arguments.most

-- Seconds by which the time may stray before it is a skew, and for which the ticker holds its lease.
local TOO_FAR, LEASE = 60, 6

-- Skews that are remembered at once.
local REMEMBERED = 10

local PLACES = { 'locks', 'scheduled', 'depends', 'recur', 'openings' }

-- Seconds by which two sums of the same times may differ.
local CLOSE = 0.001

-- How many items this call may still look at.
local function items_left()
  return scope.skewed_left or FEW
end

local function spend(items)
  scope.skewed_left = items_left() - items
end

-- The present call is made to get on with it, and may still look at so many items.
function ClockRepair.get_on(items)
  scope.skewed_left = math.max(1, items)
end

local function exact(number)
  return format('%.17g', number)
end

-- Was something given before the clock was set back? What was given since is known by its time. If the
-- clock had gone ahead shortly before, `from` is when: what was given earlier is right as it is.
local function is_older(shifts, given)
  for n, shift in ipairs(shifts) do
    if n == 1 and shift.from and given < shift.from - CLOSE then
      return false
    elseif shift.since - CLOSE <= given and given <= (shift.till or scope.now) + CLOSE then
      return false
    end
  end
  return true
end

-- A job is set back once by each skew, and notes it.
local function set_back(jid, shift, more)
  call('HSET', key.job(jid), 'shifted', shift.id, unpack(more))
end

-- What began after now began earlier: how long it waits or runs is counted from then.
local function begun(record, shift)
  local time = tonumber(record.time)
  return format('%.20f', time > scope.now and time - shift.by or time)
end

local function add_deadline(fields, record, shift)
  if record.deadline and not record.fixed then
    fields[#fields + 1] = 'deadline'
    fields[#fields + 1] = format('%.6f', record.deadline - shift.by)
  end
end

local FIELDS =
  { 'time', 'worker', 'grace', 'expires', 'at', 'scheduled', 'deadline', 'fixed', 'shifted', 'entity' }

local function read(jid)
  local record, values = {}, call('HMGET', key.job(jid), unpack(FIELDS))
  for n, name in ipairs(FIELDS) do
    record[name] = Record.text(name, values[n])
  end
  return record
end

local visit = {}

-- A lock says how long it is, and so when it was given or renewed.
function visit.locks(shifts, queue, jid, score)
  local record, shift = read(jid), shifts[1]
  local length = record.grace and Config.number('grace-period') or Config.heartbeat(queue)
  if record.shifted == shift.id or not is_older(shifts, score - length) then
    return
  end
  local expires = exact(score - shift.by)
  call('ZADD', key.place(queue, 'locks'), expires, jid)
  if record.worker and call('ZSCORE', key.held(record.worker), jid) then
    call('ZADD', key.held(record.worker), expires, jid)
  end
  local fields = { 'expires', record.grace and record.expires or expires }
  if record.time then
    fields[3], fields[4] = 'time', begun(record, shift)
  end
  set_back(jid, shift, fields)
  return score - shift.by
end

function visit.scheduled(shifts, queue, jid, score)
  local record, shift = read(jid), shifts[1]
  local given = tonumber(record.time)
  if
    not given
    or record.shifted == shift.id
    or tonumber(record.at) == score
    or not is_older(shifts, given)
  then
    return
  end
  local due = exact(score - shift.by)
  call('ZADD', key.place(queue, 'scheduled'), due, jid)
  if record.entity then
    Entity.set_due(jid, queue, due)
  end
  local fields = { 'time', begun(record, shift) }
  add_deadline(fields, record, shift)
  set_back(jid, shift, fields)
  return score - shift.by
end

-- Those that wait for others remember until when they wait then.
function visit.depends(shifts, _, jid, score)
  local record, shift = read(jid), shifts[1]
  local due, fields = tonumber(record.scheduled), {}
  if record.shifted == shift.id or not is_older(shifts, score) then
    return
  end
  if due and tonumber(record.at) ~= due then
    fields = { 'scheduled', exact(due - shift.by) }
  end
  add_deadline(fields, record, shift)
  if #fields > 0 then
    set_back(jid, shift, fields)
  end
end

-- A template that has had its tick goes on by itself (schedule.mend). One that has not is due within an
-- interval and its offset.
function visit.recur(shifts, queue, id, score)
  local shift = shifts[1]
  local its_interval, its_offset, its_last, missed, shifted =
    Hash.values(key.template(id), 'interval', 'offset', 'last', 'missed', 'shifted')
  local interval, offset = Record.number(its_interval) or 0, Record.number(its_offset) or 0
  local last = Record.number(its_last) or 0
  local usual = score <= scope.now + interval + offset
  if not missed or usual or shifted == shift.id or last > scope.now + TOO_FAR then
    return
  end
  call('ZADD', key.place(queue, 'recur'), exact(score - shift.by), id)
  call('HSET', key.template(id), 'shifted', shift.id)
  return score - shift.by
end

-- Limits are looked at again at once: they know what has become of their windows.
function visit.openings(_, queue, name, score)
  if score > scope.now then
    call('ZADD', key.place(queue, 'openings'), exact(scope.now), name)
    return scope.now
  end
end

-- Those who gave a sign of life, or were to look, at a time that is yet to come.
local function set_members_back(name, after, shift)
  local first = '(' .. exact(after)
  local members = call('ZRANGEBYSCORE', name, first, '+inf', 'WITHSCORES', 'LIMIT', 0, MOST)
  for n = 1, #members, 2 do
    call('ZADD', name, exact(tonumber(members[n + 1]) - shift.by), members[n])
  end
  return #members / 2
end

-- What belongs to no queue.
local function begin(shift)
  spend(set_members_back(key.workers(), scope.now, shift))
  spend(set_members_back(key.idle(), scope.now + TOO_FAR, shift))
  if call('PTTL', key.ticker()) > LEASE * 1000 then
    call('PEXPIRE', key.ticker(), LEASE * 1000)
  end
  shift.begun = true
end

local function begin_queue(shift)
  spend(1 + set_members_back(key.idle_at(shift.queue), scope.now + TOO_FAR, shift))
  call('DEL', key.timer(shift.queue))
  shift.place, shift.score, shift.skip = 1, '-inf', 0
end

-- The queue that comes next by name, or nil.
local function next_queue(shift)
  local found
  for _, queue in ipairs(Queue.names()) do
    if (not shift.queue or queue > shift.queue) and (not found or queue < found) then
      found = queue
    end
  end
  return found
end

-- Looks at some items of a place from the cursor on, in the order of their times. Those that are set back
-- leave the others behind.
local function go_on(shifts)
  local shift = shifts[1]
  local queue, place = shift.queue, PLACES[shift.place]
  local count = math.min(items_left(), MOST)
  local name = key.place(queue, place)
  local items = call('ZRANGEBYSCORE', name, shift.score, '+inf', 'WITHSCORES', 'LIMIT', shift.skip, count)
  local first
  for n = 1, #items, 2 do
    local due = visit[place](shifts, queue, items[n], tonumber(items[n + 1]))
    if items[n + 1] ~= shift.score then
      shift.score, shift.skip = items[n + 1], 0
    end
    if due then
      first = math.min(first or due, due)
    else
      shift.skip = shift.skip + 1
    end
  end
  if first then
    Wake.due(queue, math.max(first, scope.now))
  end
  spend(#items / 2)
  if #items / 2 < count then
    shift.place, shift.score, shift.skip = shift.place + 1, '-inf', 0
  end
end

local function step(shifts)
  local shift = shifts[1]
  if not shift.begun then
    begin(shift)
  elseif shift.place and shift.place <= #PLACES then
    go_on(shifts)
  else
    shift.queue = next_queue(shift)
    if shift.queue then
      begin_queue(shift)
    else
      table.remove(shifts, 1)
    end
  end
end

-- Notes what the present call has seen of the clock. `leap` is when it went ahead last: from and to.
local function note(shifts, by, kept, leap)
  local shift = { by = by, since = scope.now, id = format('%.6f', scope.now) }
  local before, after = string.match(leap or '', '^(%S+) (%S+)$')
  if before and math.abs(tonumber(after) - tonumber(before) - by) <= TOO_FAR then
    shift.from = tonumber(after)
  end
  if shifts[#shifts] then
    shifts[#shifts].till = kept
  end
  if #shifts < REMEMBERED then
    shifts[#shifts + 1] = shift
  end
end

-- Gets on with it; called if there is anything to do.
function ClockRepair.carry_on()
  local text, by, kept, leap = Clock.skew()
  local shifts = text and cjson.decode(text) or {}
  if by then
    note(shifts, by, kept, leap)
  end
  while items_left() > 0 and shifts[1] do
    step(shifts)
  end
  Clock.keep_shifts(shifts[1] and cjson.encode(shifts))
end
