-- How long jobs waited and ran. To write the statistics for each single job would cost more than the job: a call leaves
-- its samples in a list; when that is long, and with each beat of a worker, all of it is written. Readers add the list.

local floor, match = math.floor, string.match
local rcall = redis.call

local MOST = 100 -- entries of the list

-- kind wait: from ready to handed out; kind run: from started to complete; in seconds.
function Samples.add(call, kind, queue, seconds)
  local samples = call.samples
  if not samples then
    samples = {}
    call.samples = samples
  end
  local length = seconds > 0 and floor(seconds * 1000 + 0.5) or 0
  samples[#samples + 1] = Call.second(call) .. ' ' .. kind .. ' ' .. Times.whole(length) .. ' ' .. queue
end

local function inside(list, name)
  local inner = list[name]
  if not inner then
    inner = {}
    list[name] = inner
  end
  return inner
end

-- Shows the entries of a list, those that are equal together: visit(second, kind, seconds, n, queue).
local function show(texts, visit)
  local times = {}
  for n = 1, #texts do
    times[texts[n]] = (times[texts[n]] or 0) + 1
  end
  for text, n in pairs(times) do
    local second, kind, milliseconds, queue = match(text, '^(%-?%d+) (%a+) (%d+) (.*)$')
    if second then
      visit(tonumber(second), kind, tonumber(milliseconds) / 1000, n, queue)
    end
  end
end

-- The samples that statistics do not have yet.
function Samples.each(call, visit)
  show(rcall('LRANGE', call.keys.samples, '0', '-1'), visit)
end

local COUNTED_AS = { wait = 'started', run = 'completed' }
Samples.counted_as = COUNTED_AS

-- Writes all samples into the statistics of their days and minutes.
function Samples.write(call)
  local texts = rcall('LRANGE', call.keys.samples, '0', '-1')
  if #texts == 0 then
    return
  end
  rcall('DEL', call.keys.samples)
  local days, minutes = {}, {}
  show(texts, function(second, kind, seconds, n, queue)
    local values = inside(inside(inside(days, kind), Stats.day(second)), queue)
    values[seconds] = (values[seconds] or 0) + n
    local counts = inside(inside(minutes, kind), floor(second / 60))
    counts[queue] = (counts[queue] or 0) + n
  end)
  for kind, by_day in pairs(days) do
    for day, by_queue in pairs(by_day) do
      for queue, values in pairs(by_queue) do
        Stats.write(call, kind, day, queue, values)
      end
    end
  end
  for kind, by_minute in pairs(minutes) do
    for minute, by_queue in pairs(by_minute) do
      for queue, n in pairs(by_queue) do
        Minutes.write(call, queue, COUNTED_AS[kind], minute, n)
      end
    end
  end
end

-- The call ends: its samples go to the list.
function Samples.keep(call)
  local samples = call.samples
  if #samples > MOST then
    Pieces.run('RPUSH', call.keys.samples, samples)
    Samples.write(call)
  elseif rcall('RPUSH', call.keys.samples, unpack(samples)) >= MOST then
    Samples.write(call)
  end
end
