-- How long jobs waited and ran: the samples of a call, and their way into statistics and minutes.
--
-- To write the statistics for each single job would cost more than the job. A call with few
-- samples leaves them in the buffer; when that is long, and with each beat of a worker, all of
-- it is written. Readers of statistics add the buffer.

local floor, match = math.floor, string.match

local FEW = 8 -- samples of one call
local MOST = 100 -- entries of the buffer
local LOOKED_BACK = 3

-- Milliseconds are kept, so that many are equal.
function Samples.length(seconds)
  return floor(seconds * 1000 + 0.5) / 1000
end

-- kind wait: from ready to started; kind run: from started to complete; in seconds. It counts for the
-- time `at` (now, if none is given).
function Samples.add(kind, queue, seconds, at)
  local value, second = Samples.length(seconds > 0 and seconds or 0), floor(at or scope.now)
  -- The jobs of a batch mostly have the same: what is missed here is added up later.
  local samples = scope.samples or {}
  local count = #samples
  for place = count, math.max(1, count - LOOKED_BACK), -1 do
    local one = samples[place]
    if one.value == value and one.second == second and one.queue == queue and one.kind == kind then
      one.n = one.n + 1
      return
    end
  end
  samples[count + 1] = { second = second, kind = kind, queue = queue, value = value, n = 1 }
  scope.samples = samples
end

-- What a record says of how long its job waited before it was handed out, in milliseconds, and then in
-- its worker's hands: its field `waited`. -> nil if its wait was counted when it was handed out; nil if
-- it is not known to have been started
local function waits_of(waited)
  local before, held = match(waited or '', '^(%d+)%+?(%d*)$')
  return tonumber(before), tonumber(held)
end

-- The field `waited` of a job that has been handed out now, and has been ready `since`.
function Samples.waited(since)
  return NumberFormat.whole(floor(math.max(0, scope.now - since) * 1000 + 0.5))
end

-- The same of a job that was started after `held` seconds, or nil if it says so already.
function Samples.waited_in_hands(waited, held)
  local before, known = waits_of(waited)
  return before and not known and waited .. '+' .. NumberFormat.whole(floor(held * 1000 + 0.5))
end

-- Seconds that a job lay in its worker's hands before it was started, as far as its record knows.
function Samples.held(waited)
  local _, held = waits_of(waited)
  return held and held / 1000
end

-- Counts that a job was started that was handed out at the time `popped` and then lay for `held` seconds
-- in its worker's hands. -> when it was started
function Samples.started(queue, popped, waited, held)
  local before, start = waits_of(waited), math.min(popped + held, scope.now)
  if before then
    Samples.add('wait', queue, before / 1000 + start - popped, start)
  end
  return start
end

-- The same of a job that is taken from its worker, if it is known to have been started.
function Samples.taken_away(queue, popped, waited)
  local held = Samples.held(waited)
  if held then
    Samples.started(queue, Record.read('time', popped, scope.now), waited, held)
  end
end

local COUNTED_AS = Minutes.buffered

local function inside(list, name)
  local inner = list[name]
  if not inner then
    inner = {}
    list[name] = inner
  end
  return inner
end

-- Adds up samples by what has to be written: -> add(second, kind, seconds, n, queue), write()
local function book()
  local days, minutes = { wait = {}, run = {} }, { wait = {}, run = {} }
  local function add(second, kind, seconds, n, queue)
    local list = inside(inside(days[kind], Stats.day(second)), queue)
    list[seconds] = (list[seconds] or 0) + n
    list = inside(minutes[kind], floor(second / 60))
    list[queue] = (list[queue] or 0) + n
  end
  local function write()
    for kind, by_day in pairs(days) do
      for day, by_queue in pairs(by_day) do
        for queue, list in pairs(by_queue) do
          Stats.write(kind, day, queue, list)
        end
      end
    end
    for kind, by_minute in pairs(minutes) do
      for minute, by_queue in pairs(by_minute) do
        local total = 0
        for queue, n in pairs(by_queue) do
          Minutes.write(queue, COUNTED_AS[kind], minute, n)
          total = total + n
        end
        Minutes.write_total(COUNTED_AS[kind], minute, total)
      end
    end
  end
  return add, write
end

-- Writes the buffer into the statistics.
function Samples.settle()
  local add, write = book()
  StatsBuffer.take(add)
  write()
end

local function leave_in_buffer()
  local entries = {}
  for place, one in ipairs(scope.samples) do
    entries[place] = StatsBuffer.entry(one.second, one.kind, one.value, one.n, one.queue)
  end
  if StatsBuffer.append(unpack(entries)) >= MOST then
    Samples.settle()
  end
end

-- May they be written later?
function Samples.can_wait()
  return #scope.samples <= FEW
end

function Samples.finish()
  if Samples.can_wait() then
    leave_in_buffer()
    return
  end
  local add, write = book()
  for _, one in ipairs(scope.samples) do
    add(one.second, one.kind, one.value, one.n, one.queue)
  end
  write()
end
