-- Statistics of a queue and day: running mean and variance (Welford 1962), a histogram.

local floor = math.floor
local rcall = redis.call
local DAY = 86400

function Stats.day(time)
  return time - time % DAY
end

local function key_of(call, kind, day, queue)
  return Keys.stat(call, kind, string.format('%.0f', day), queue)
end

local function bin(seconds)
  if seconds < 60 then
    return 's' .. Times.text(floor(seconds)) -- mostly 0
  elseif seconds < 3600 then
    return 'm' .. floor(seconds / 60)
  elseif seconds < DAY then
    return 'h' .. floor(seconds / 3600)
  end
  return 'd' .. floor(seconds / DAY)
end

-- Where the bins below a second begin, in milliseconds.
local BELOW_SECOND = { 0, 1, 2, 5, 10, 20, 50, 100, 200, 500 }

local FINE_BINS = {}
for n, edge in ipairs(BELOW_SECOND) do
  FINE_BINS[n] = 'ms' .. edge
end

-- The bin of ours that a length below a second belongs to as well.
local function fine_bin(seconds)
  local milliseconds, n = floor(seconds * 1000 + 0.5), #BELOW_SECOND
  while milliseconds < BELOW_SECOND[n] do
    n = n - 1
  end
  return FINE_BINS[n]
end

-- Days looked back when a day begins, for days on which the queue did nothing.
local LOOKED_BACK = 10
local LONGEST = 36500 -- days a time to live may have

-- Days end: summaries are kept stats-history days, histograms histogram-history days.
local function begin_day(call, kind, day, queue)
  local kept = Config.whole(call, 'stats-history')
  local gone = {}
  for n = 1, LOOKED_BACK do
    gone[n] = key_of(call, kind, day - (kept + n - 1) * DAY, queue)
  end
  if kept >= 1 then
    rcall('DEL', unpack(gone))
  end
  rcall('EXPIRE', key_of(call, kind, day, queue), (math.max(0, math.min(kept, LONGEST)) + 1) * DAY)
  if kind == 'stats' then
    return
  end
  local old = key_of(call, kind, day - Config.whole(call, 'histogram-history') * DAY, queue)
  local total, mean, vk = unpack(rcall('HMGET', old, 'total', 'mean', 'vk'))
  if total then
    local rest = rcall('TTL', old)
    rcall('DEL', old)
    rcall('HSET', old, 'total', total, 'mean', mean, 'vk', vk)
    if rest > 0 then
      rcall('EXPIRE', old, rest)
    end
  end
end

-- Counts: retries (locks that were seen to be lost), failures, failed, retried (attempts that failed and run again).
function Stats.count(call, queue, field, n)
  local day = Stats.day(call.now)
  if rcall('HINCRBY', key_of(call, 'stats', day, queue), field, n) == n then
    begin_day(call, 'stats', day, queue)
  end
end

-- One job less is failed, of those that failed on that day.
function Stats.mended(call, queue, failed_at)
  local name = key_of(call, 'stats', Stats.day(failed_at), queue)
  if (tonumber(rcall('HGET', name, 'failed') or nil) or 0) > 0 then
    rcall('HINCRBY', name, 'failed', -1)
  end
end

-- How many jobs of a queue are failed, of those that failed on the last days.
function Stats.failed(call, queue, days)
  local today, sum = Stats.day(call.now), 0
  for back = 0, days - 1 do
    sum = sum
      + (tonumber(rcall('HGET', key_of(call, 'stats', today - back * DAY, queue), 'failed') or nil) or 0)
  end
  return sum
end

-- Mean and variance with more values: seconds -> how often.
local function with(count, mean, vk, values)
  for value, n in pairs(values) do
    local away, before = value - mean, count
    count = count + n
    mean = mean + away * n / count
    vk = vk + away * away * before * n / count
  end
  return count, mean, vk
end

local function by_bin(values)
  local bins = {}
  local function add(field, n)
    bins[field] = (bins[field] or 0) + n
  end
  for value, n in pairs(values) do
    add(bin(value), n)
    if value < 1 then
      add(fine_bin(value), n)
    end
  end
  return bins
end

-- Adds samples to a day's statistics: seconds -> how often.
function Stats.write(call, kind, day, queue, values)
  local name, bins, fields = key_of(call, kind, day, queue), by_bin(values), { 'total', 'mean', 'vk' }
  for field in pairs(bins) do
    fields[#fields + 1] = field
  end
  local old = rcall('HMGET', name, unpack(fields))
  local count, mean, vk = with(tonumber(old[1]) or 0, tonumber(old[2]) or 0, tonumber(old[3]) or 0, values)
  local written = { 'total', string.format('%.0f', count), 'mean', mean, 'vk', vk }
  for k = 4, #fields do
    written[#written + 1] = fields[k]
    written[#written + 1] = string.format('%.0f', (tonumber(old[k]) or 0) + bins[fields[k]])
  end
  rcall('HSET', name, unpack(written))
  if not old[1] then
    begin_day(call, kind, day, queue)
  end
end

-- The protocol's bins, in order.
local function all_bins()
  local bins = {}
  for _, part in ipairs({ { 's', 0, 59 }, { 'm', 1, 59 }, { 'h', 1, 23 }, { 'd', 1, 6 } }) do
    for n = part[2], part[3] do
      bins[#bins + 1] = part[1] .. n
    end
  end
  return bins
end

-- The samples of a queue and day that are not written yet: kind -> seconds -> how often.
local function not_yet_written(call, wanted_day, wanted_queue)
  local found = { wait = {}, run = {} }
  Samples.each(call, function(second, kind, seconds, n, queue)
    if queue == wanted_queue and Stats.day(second) == wanted_day then
      found[kind][seconds] = (found[kind][seconds] or 0) + n
    end
  end)
  return found
end

local function summary(call, kind, day, queue, more)
  local name = key_of(call, kind, day, queue)
  local total, its_mean, its_vk = unpack(rcall('HMGET', name, 'total', 'mean', 'vk'))
  local count, mean, vk = with(tonumber(total) or 0, tonumber(its_mean) or 0, tonumber(its_vk) or 0, more)
  local shown = {
    count = count,
    mean = mean,
    std = count > 1 and math.sqrt(vk / (count - 1)) or 0,
  }
  local more_bins = by_bin(more)
  local function times(bins)
    local numbers = rcall('HMGET', name, unpack(bins))
    for n, value in ipairs(numbers) do
      numbers[n] = (tonumber(value) or 0) + (more_bins[bins[n]] or 0)
    end
    return numbers
  end
  shown.histogram = times(all_bins())
  shown.below_second = not call.old and times(FINE_BINS) or nil
  return shown
end

-- stats queue date
function Stats.show(call, args, i)
  local queue = Arguments.name(call, 'queue', args[i])
  local day = Stats.day(Arguments.number(call, 'date', args[i + 1]))
  local counts = Pieces.hash(key_of(call, 'stats', day, queue))
  local more = not_yet_written(call, day, queue)
  return cjson.encode({
    retries = tonumber(counts.retries) or 0,
    failed = tonumber(counts.failed) or 0,
    failures = tonumber(counts.failures) or 0,
    retried = not call.old and (tonumber(counts.retried) or 0) or nil,
    wait = summary(call, 'wait', day, queue, more.wait),
    run = summary(call, 'run', day, queue, more.run),
  })
end

-- stats.counters date queue... -> for each queue: retried, retries, failures, failed of that day
function Stats.counters(call, args, i)
  local day = Stats.day(Arguments.number(call, 'date', args[i]))
  Arguments.bounded(call, #args - i)
  local found = {}
  for n = i + 1, #args do
    local name = key_of(call, 'stats', day, args[n])
    for _, number in ipairs(rcall('HMGET', name, 'retried', 'retries', 'failures', 'failed')) do
      found[#found + 1] = tonumber(number) or 0
    end
  end
  return found
end
