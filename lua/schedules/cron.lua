-- Cron schedules at work. Which time comes next is known outside; one worker at a time looks after that,
-- and here it is compared and set, so that each tick puts one job whichever worker looks.

local format = string.format

local LEASE = 6 -- seconds for which a worker is the one who looks; it asks again in time
local LONGEST_TROUBLE = 1000 -- bytes

-- What is due, at most so many; the seconds until the next falls due, if that is soon.
local function due_now(count)
  local name, flat = key.schedules(), {}
  local due = call('ZRANGEBYSCORE', name, '-inf', scope.now, 'WITHSCORES', 'LIMIT', 0, count)
  for n = 1, #due, 2 do
    local since, cron, timezone, missed =
      Hash.values(key.schedule(due[n]), 'since', 'cron', 'timezone', 'missed')
    if cron then
      flat[#flat + 1] = due[n]
      flat[#flat + 1] = due[n + 1]
      flat[#flat + 1] = since and Record.text('since', since, due[n + 1]) or ''
      flat[#flat + 1] = cron
      flat[#flat + 1] = timezone or 'UTC'
      flat[#flat + 1] = missed or 'last'
    else
      call('ZREM', name, due[n])
    end
  end
  local soon = LEASE / 2
  if #due == 2 * count then
    return flat, 0
  end
  local later = format('(%.17g', scope.now)
  local head = call('ZRANGEBYSCORE', name, later, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return flat, head[2] and math.min(soon, tonumber(head[2]) - scope.now) or soon
end

-- schedule.due worker count -> seconds until the next look, now, whether the worker holds the lease,
-- and what is due: id, score, since ('': the score is a tick), cron, timezone, missed of each. Nothing is due for who
-- does not hold the lease.
function Cron.due(args, i)
  local worker = Arguments.name('schedule.due', 'worker', args[i])
  local count = math.max(Arguments.count('schedule.due', args[i + 1], 100), 1)
  local holder, left = call('GET', key.ticker()), call('PTTL', key.ticker()) / 1000
  -- (A lease that lasts longer was given before the server's clock was set back.)
  if holder and holder ~= worker and left <= LEASE then
    return { format('%.3f', math.max(left, 0)), format('%.6f', scope.now), 0, {} }
  end
  call('SET', key.ticker(), worker, 'PX', LEASE * 1000)
  local due, seconds = due_now(count)
  return { format('%.6f', seconds), format('%.6f', scope.now), 1, due }
end

-- A worker ends, and looks no longer.
function Cron.leave(workers)
  local holder = call('GET', key.ticker())
  for _, worker in ipairs(holder and workers or {}) do
    if worker == holder then
      call('DEL', key.ticker())
    end
  end
end

-- Checks id, score, first, following, last, next. `first` is '' if no tick is due yet.
local function parse_tick(args, i)
  local tick = { id = Arguments.given('schedule.tick', 'id', args[i]) }
  tick.score = Arguments.number('schedule.tick', 'score', args[i + 1])
  tick.next = Arguments.whole('schedule.tick', 'next', args[i + 5], 0)
  if args[i + 2] == '' then
    return tick
  end
  tick.first = Arguments.whole('schedule.tick', 'first', args[i + 2], 0)
  tick.following = Arguments.whole('schedule.tick', 'following', args[i + 3], 0)
  tick.last = Arguments.whole('schedule.tick', 'last', args[i + 4], 0)
  if tick.first > tick.last or tick.following <= tick.first or tick.next <= tick.last then
    Errors.argument('schedule.tick', 'first <= last < next and first < following wanted')
  end
  return tick
end

-- -> the record of a schedule whose next tick is still the one that was seen
local function expected(tick)
  local score = tonumber(call('ZSCORE', key.schedules(), tick.id) or nil)
  if score ~= tick.score or (tick.last and tick.last > scope.now) then
    return nil
  end
  local record = Hash.all(key.schedule(tick.id))
  record.jid, record.key, record.place = tick.id, key.schedule(tick.id), key.schedules()
  return record.cron and record
end

-- -> 1 if a job was put, otherwise 0
local function carry_out(tick)
  local record = expected(tick)
  if not record then
    return 0
  end
  local field, text = Record.bad_schedule(record)
  if field then
    Ticks.put_off(record, tick.score - 1, Record.words(field, text))
    return 0
  end
  call('HDEL', record.key, 'since', 'trouble')
  return Ticks.carry_out(record, tick)
end

-- schedule.tick (id score first following last next)... -> 1 for each that put a job, otherwise 0
function Cron.tick(args, i)
  local given, ticks = #args - i + 1, {}
  if given % 6 ~= 0 then
    Errors.argument('schedule.tick', 'id, score, first, following, last and next of each wanted')
  end
  Arguments.bounded('schedule.tick', given / 6)
  for n = i, #args, 6 do
    ticks[#ticks + 1] = parse_tick(args, n)
  end
  for n, tick in ipairs(ticks) do
    ticks[n] = carry_out(tick)
  end
  return ticks
end

-- schedule.trouble id score text: it cannot be evaluated, and is tried again later; no tick is forgotten
function Cron.trouble(args, i)
  local id = Arguments.given('schedule.trouble', 'id', args[i])
  local score = Arguments.number('schedule.trouble', 'score', args[i + 1])
  local text = Errors.cut(Arguments.given('schedule.trouble', 'text', args[i + 2]), LONGEST_TROUBLE)
  local tick = { id = id, score = score }
  local record = expected(tick)
  if not record then
    return 0
  end
  Ticks.put_off(record, score - 1, text)
  return 1
end
