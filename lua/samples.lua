-- How long jobs waited and ran: the samples of a call, and their way into statistics and minutes.
--
-- To write the statistics for each single job would cost more than the job. A call with few
-- samples leaves them in the journal; when that is long, and with each beat of a worker, all of
-- it is written. Whoever reads statistics counts the journal in.
local Journal, Minutes, Stats, scope = Qless.Journal, Qless.Minutes, Qless.Stats, Qless.scope

local Samples = {}
Qless.Samples = Samples

local floor = math.floor

local FEW = 4 -- samples of one call
local MOST = 100 -- entries of the journal
local LOOKED_BACK = 3

-- The samples of this call side by side: kind, queue, whole seconds, how often.
local count, kinds, queues, values, numbers = 0, {}, {}, {}, {}

function Samples.reset()
  count = 0
end

-- kind wait: from ready to popped; kind run: from popped to complete; in seconds.
function Samples.add(kind, queue, seconds)
  local value = seconds < 1 and 0 or floor(seconds)
  -- The jobs of a batch mostly have the same: what is missed here is added up later.
  for place = count, math.max(1, count - LOOKED_BACK), -1 do
    if values[place] == value and queues[place] == queue and kinds[place] == kind then
      numbers[place] = numbers[place] + 1
      return
    end
  end
  count = count + 1
  kinds[count], queues[count], values[count], numbers[count] = kind, queue, value, 1
end

local COUNTED_AS = Minutes.journalled

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

-- Writes what the journal has.
function Samples.settle()
  local add, write = book()
  Journal.take(add)
  write()
end

local function leave_in_journal()
  local entries = {}
  for place = 1, count do
    entries[place] = Journal.entry(kinds[place], values[place], numbers[place], queues[place])
  end
  if Journal.append(unpack(entries)) >= MOST then
    Samples.settle()
  end
end

function Samples.flush()
  if count == 0 then
    return
  elseif scope.keyed and count <= FEW then
    leave_in_journal()
    return
  end
  local add, write = book()
  for place = 1, count do
    add(scope.now, kinds[place], values[place], numbers[place], queues[place])
  end
  write()
end
