-- How schedules are shown, one by one and in lists, and templates of the protocol among them.

local rcall = redis.call

local TEXTS = 'queue klass data context unique name owner missed cron timezone trouble'
local NUMBERS = 'priority retries count last interval offset expires'

-- The next tick; nil while it is not known.
local function next_tick(record)
  local is_known = not record.paused and not record.trouble and (record.interval or not record.since)
  return is_known and record.due or nil
end

-- The text of an object.
local function shown(record)
  local view = {
    id = record.jid,
    kind = record.cron and 'cron' or 'interval',
    edited = record.edited == '1',
    paused = record.paused ~= nil,
    tags = Json.shown(record.tags),
    priority = 0,
    retries = 0,
    count = 0,
    next = next_tick(record),
  }
  for field in string.gmatch(TEXTS, '%a+') do
    view[field] = record[field]
  end
  for field in string.gmatch(NUMBERS, '%a+') do
    local number = tonumber(record[field])
    view[field] = number and number - number == 0 and number or view[field]
  end
  return cjson.encode(view)
end

-- Those of the ids that exist, as a JSON list.
function ScheduleView.list_of(call, ids)
  local found = {}
  for n = 1, #ids do
    local record = Schedules.read(call, ids[n])
    found[#found + 1] = record and shown(record)
  end
  return Json.list(found)
end

-- A part of several sorted sets of ids, one behind the other, as JSON: total and schedules.
function ScheduleView.part(call, names, offset, count)
  local total, ids = 0, {}
  for _, name in ipairs(names) do
    local first = math.max(offset - total, 0)
    if #ids < count then
      for _, id in ipairs(rcall('ZRANGE', name, first, first + count - #ids - 1)) do
        ids[#ids + 1] = id
      end
    end
    total = total + rcall('ZCARD', name)
  end
  return Json.with(cjson.encode({ total = total }), 'schedules', ScheduleView.list_of(call, ids))
end

-- schedule.get id
function ScheduleView.get(call, args, i)
  local record = Schedules.read(call, Arguments.given(call, 'id', args[i]))
  return record and shown(record)
end

-- schedule.list [offset count] -> total and schedules: by their next tick, then paused ones, then templates by queue
function ScheduleView.list(call, args, i)
  local offset = math.max(Arguments.offset(call, args[i]), 0)
  local count = math.max(Arguments.count(call, args[i + 1], 25), 0)
  local names, queues =
    { call.keys.schedules, call.keys.paused_schedules }, Queues.names(call, Arguments.most)
  table.sort(queues)
  for _, queue in ipairs(queues) do
    names[#names + 1] = Keys.queue(call, queue).recur
  end
  return ScheduleView.part(call, names, offset, count)
end

-- schedules.of id... -> those that exist
function ScheduleView.of(call, args, i)
  Arguments.bounded(call, #args - i + 1)
  return ScheduleView.list_of(call, Pieces.rest(args, i))
end

local MOST_NEXT = 100

-- schedules.next count -> those that tick next (templates are left out)
function ScheduleView.next(call, args, i)
  local count = math.min(Arguments.whole(call, 'count', args[i], 0), MOST_NEXT)
  local found = {}
  for _, id in ipairs(rcall('ZRANGE', call.keys.schedules, 0, 2 * MOST_NEXT - 1)) do
    local record = #found < count and Schedules.read(call, id)
    found[#found + 1] = record and next_tick(record) and shown(record) or nil
  end
  return Json.list(found)
end

-- schedule.declared -> id, owner, edited (1 or 0) of each that has an owner
function ScheduleView.declared(call)
  local declared, flat = rcall('HGETALL', call.keys.declared_schedules), {}
  for n = 1, #declared, 2 do
    flat[#flat + 1], flat[#flat + 2] = declared[n], declared[n + 1]
    flat[#flat + 1] = rcall('HGET', Keys.schedule(call, declared[n]), 'edited') or '0'
  end
  return flat
end
