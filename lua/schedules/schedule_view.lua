-- How schedules of both kinds are shown, one by one and in one list; and the marks of who declares them.

local LONGEST_NAME = 255 -- bytes
local MOST_MARKS = 100

local TEXTS = {
  'queue',
  'klass',
  'data',
  'context',
  'unique',
  'name',
  'owner',
  'declared',
  'missed',
  'cron',
  'timezone',
  'trouble',
}

local NUMBERS = { 'priority', 'retries', 'count', 'last', 'interval', 'offset', 'backlog', 'expires' }

-- The text of an object; `next` is missing while it is not known.
local function shown(record)
  local view = {
    id = record.jid,
    kind = record.cron and 'cron' or 'interval',
    edited = record.edited == '1',
    paused = record.paused ~= nil,
    tags = Record.read('tags', record.tags, {}),
  }
  for _, field in ipairs(TEXTS) do
    view[field] = record[field]
  end
  for _, field in ipairs({ 'priority', 'retries', 'count' }) do
    view[field] = 0
  end
  for _, field in ipairs(NUMBERS) do
    view[field] = Record.number(record[field]) or view[field]
  end
  if not record.paused and not record.since then
    view.next = record.due
  end
  return cjson.encode(view)
end

ScheduleView.shown = shown

-- schedule.get id
function ScheduleView.get(args, i)
  local record = Schedules.read(Arguments.given('schedule.get', 'id', args[i]))
  return record and shown(record) or nil
end

-- Every list of schedules: cron ones by their next tick, paused ones, interval ones queue by queue.
local function lists()
  local names, queues = { key.schedules(), key.paused_schedules() }, Queue.names()
  table.sort(queues)
  for _, queue in ipairs(queues) do
    names[#names + 1] = key.place(queue, 'recur')
  end
  return names
end

-- schedule.list [offset count] -> total and schedules
function ScheduleView.list(args, i)
  local offset = math.max(Arguments.offset('schedule.list', args[i]), 0)
  local count = Arguments.count('schedule.list', args[i + 1], 25)
  local total, found = 0, {}
  for _, name in ipairs(lists()) do
    local size = call('ZCARD', name)
    local first = math.max(offset - total, 0)
    local last = math.min(offset + count - total, size) - 1
    if first <= last then
      for _, id in ipairs(call('ZRANGE', name, first, last)) do
        local record = Schedules.read(id)
        found[#found + 1] = record and shown(record)
      end
    end
    total = total + size
  end
  return Json.with(cjson.encode({ total = total }), 'schedules', Json.list(found))
end

-- schedules.of id... -> those that exist
function ScheduleView.of(args, i)
  Arguments.bounded('schedules.of', #args - i + 1)
  local found = {}
  for n = i, #args do
    local record = Schedules.read(args[n])
    found[#found + 1] = record and shown(record)
  end
  return Json.list(found)
end

local MOST_NEXT = 100

-- Takes a schedule in among the first `count` of those seen so far, if it belongs there.
local function take_in(first, id, due, count)
  local n = #first + 1
  while n > 1 and (due < first[n - 1].due or (due == first[n - 1].due and id < first[n - 1].id)) do
    n = n - 1
  end
  if n <= count then
    table.insert(first, n, { id = id, due = due })
    first[count + 1] = nil
  end
end

-- Is the next tick of the schedule still unknown?
local function is_not_worked_out(id)
  return call('HEXISTS', key.schedule(id), 'since') == 1
end

-- The schedules of a list, of which so many are looked at, that are among the first `count`.
local function look_through(first, name, most, count, is_left_out)
  local head = call('ZRANGE', name, 0, most - 1, 'WITHSCORES')
  for n = 1, #head, 2 do
    local due = tonumber(head[n + 1])
    if #first == count and due > first[count].due then
      return -- like all that follow
    elseif not is_left_out or not is_left_out(head[n]) then
      take_in(first, head[n], due, count)
    end
  end
end

-- schedules.next count -> those that tick next, of all queues
function ScheduleView.next(args, i)
  local count = math.min(Arguments.whole('schedules.next', 'count', args[i], 0), MOST_NEXT)
  local first, found = {}, {}
  if count > 0 then
    look_through(first, key.schedules(), Arguments.most, count, is_not_worked_out)
    for _, queue in ipairs(Queue.names(Arguments.most)) do
      look_through(first, key.place(queue, 'recur'), count, count)
    end
  end
  for _, each in ipairs(first) do
    local record = Schedules.read(each.id)
    found[#found + 1] = record and shown(record)
  end
  return Json.list(found)
end

-- schedule.declared -> id, declared, owner, edited (1 or 0) of each that was declared
function ScheduleView.declared()
  local declared, flat = call('HGETALL', key.declared_schedules()), {}
  for n = 1, #declared, 2 do
    local record = Schedules.read(declared[n])
    if record then
      flat[#flat + 1] = declared[n]
      flat[#flat + 1] = declared[n + 1]
      flat[#flat + 1] = record.owner or ''
      flat[#flat + 1] = record.edited or '0'
    end
  end
  return flat
end

-- schedule.mark name expected text -> 1 if the mark was `expected` ('': missing) and is `text` now ('': removed)
function ScheduleView.mark(args, i)
  local name = Arguments.given('schedule.mark', 'name', args[i])
  local expected = Arguments.given('schedule.mark', 'expected', args[i + 1])
  local text = Arguments.given('schedule.mark', 'text', args[i + 2])
  if #name > LONGEST_NAME then
    Errors.argument('schedule.mark', 'name has ' .. #name .. ' bytes, at most ' .. LONGEST_NAME)
  elseif #text > Arguments.data_bytes then
    Errors.raise('TOOBIG', 'schedule.mark(): text has %s bytes, at most %s', #text, Arguments.data_bytes)
  end
  local marks = key.schedule_marks()
  local known = call('HGET', marks, name) or ''
  if known ~= expected then
    return 0
  elseif text == '' then
    call('HDEL', marks, name)
    return 1
  elseif known == '' and call('HLEN', marks) >= MOST_MARKS then
    Errors.raise('TOOBIG', 'schedule.mark(): more than ' .. MOST_MARKS .. ' marks')
  end
  call('HSET', marks, name, text)
  return 1
end

-- schedule.marks -> name, text, name, text …
function ScheduleView.marks()
  return call('HGETALL', key.schedule_marks())
end
