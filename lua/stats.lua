-- Statistics of a queue and day: running mean and variance (Welford 1962), a histogram.

local floor = math.floor
local DAY = 86400

function Stats.day(time)
  return time - time % DAY
end

-- What a call counts is written once, at its end: scope.counts, queue -> field -> number.
function Stats.count(queue, field, n)
  local counts = scope.counts or {}
  scope.counts = counts
  local fields = counts[queue]
  if not fields then
    fields = {}
    counts[queue] = fields
  end
  fields[field] = (fields[field] or 0) + n
end

-- One job less is failed, of those that failed on that day.
function Stats.mended(queue, failed_at)
  local fields = scope.counts and scope.counts[queue]
  if fields and (fields.failed or 0) > 0 and Stats.day(failed_at) == Stats.day(scope.now) then
    fields.failed = fields.failed - 1 -- It failed in this very call, perhaps.
    return
  end
  local name = key.stat('stats', Stats.day(failed_at), queue)
  if (tonumber(call('HGET', name, 'failed')) or 0) > 0 then
    call('HINCRBY', name, 'failed', -1)
  end
end

local function bin(seconds)
  if seconds < 60 then
    return 's' .. Arguments.text_of(floor(seconds)) -- mostly 0
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
local function begin_day(kind, day, queue)
  local kept = Config.whole('stats-history')
  local gone = {}
  for n = 1, LOOKED_BACK do
    gone[n] = key.stat(kind, day - (kept + n - 1) * DAY, queue)
  end
  if kept >= 1 then
    call('DEL', unpack(gone))
  end
  if scope.live then
    call('EXPIRE', key.stat(kind, day, queue), (math.max(0, math.min(kept, LONGEST)) + 1) * DAY)
  end
  if kind == 'stats' then
    return
  end
  local old = key.stat(kind, day - Config.whole('histogram-history') * DAY, queue)
  local total, mean, vk = Hash.values(old, 'total', 'mean', 'vk')
  if total then
    local rest = call('TTL', old)
    call('DEL', old)
    call('HSET', old, 'total', total, 'mean', mean, 'vk', vk)
    if rest > 0 then
      call('EXPIRE', old, rest)
    end
  end
end

-- Mean and variance with more values: seconds -> how often. (Texts are whole seconds of which no
-- more is known.)
local function with(count, mean, vk, values)
  for value, n in pairs(values) do
    local away, before = tonumber(value) - mean, count
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
    add(bin(tonumber(value)), n)
    if scope.live and type(value) == 'number' and value < 1 then
      add(fine_bin(value), n)
    end
  end
  return bins
end

-- Adds samples to a day's statistics: seconds -> how often.
function Stats.write(kind, day, queue, values)
  local name, bins, fields = key.stat(kind, day, queue), by_bin(values), { 'total', 'mean', 'vk' }
  for field in pairs(bins) do
    fields[#fields + 1] = field
  end
  local old = call('HMGET', name, unpack(fields))
  local count, mean, vk = with(tonumber(old[1]) or 0, tonumber(old[2]) or 0, tonumber(old[3]) or 0, values)
  local written = { 'total', NumberFormat.whole(count), 'mean', mean, 'vk', vk }
  for k = 4, #fields do
    written[#written + 1] = fields[k]
    written[#written + 1] = NumberFormat.whole((tonumber(old[k]) or 0) + bins[fields[k]])
  end
  call('HSET', name, unpack(written))
  if not old[1] then
    begin_day(kind, day, queue)
  end
end

function Stats.finish()
  local day = Stats.day(scope.now)
  for queue, fields in pairs(scope.counts) do
    local name = key.stat('stats', day, queue)
    for field, n in pairs(fields) do
      if call('HINCRBY', name, field, n) == n then
        begin_day('stats', day, queue)
      end
    end
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

-- The buffered samples of a queue and day: kind -> seconds -> how often.
local function not_yet_written(wanted_day, wanted_queue)
  local found = { wait = {}, run = {} }
  if scope.live then
    StatsBuffer.read(function(second, kind, seconds, n, queue)
      if queue == wanted_queue and Stats.day(second) == wanted_day then
        found[kind][seconds] = (found[kind][seconds] or 0) + n
      end
    end)
  end
  return found
end

-- Are those figures shown that the protocol does not have?
Stats.shows_ours = true

local function summary(kind, day, queue, more)
  local name = key.stat(kind, day, queue)
  local total, its_mean, its_vk = Hash.values(name, 'total', 'mean', 'vk')
  local count, mean, vk = with(tonumber(total) or 0, tonumber(its_mean) or 0, tonumber(its_vk) or 0, more)
  local shown = {
    count = count,
    mean = mean,
    std = count > 1 and math.sqrt(vk / (count - 1)) or 0,
  }
  local more_bins = by_bin(more)
  local function times(bins)
    local numbers = call('HMGET', name, unpack(bins))
    for n, value in ipairs(numbers) do
      numbers[n] = (tonumber(value) or 0) + (more_bins[bins[n]] or 0)
    end
    return numbers
  end
  shown.histogram = times(all_bins())
  shown.below_second = Stats.shows_ours and times(FINE_BINS) or nil
  return shown
end

-- stats queue date
function Stats.show(args, i)
  local queue = Arguments.name('stats', 'queue', args[i])
  local day = Stats.day(Arguments.number('stats', 'date', args[i + 1]))
  local its_retries, its_failed, its_failures, its_retried =
    Hash.values(key.stat('stats', day, queue), 'retries', 'failed', 'failures', 'retried')
  local more = not_yet_written(day, queue)
  return cjson.encode({
    retries = tonumber(its_retries) or 0,
    failed = tonumber(its_failed) or 0,
    failures = tonumber(its_failures) or 0,
    retried = Stats.shows_ours and (tonumber(its_retried) or 0) or nil,
    wait = summary('wait', day, queue, more.wait),
    run = summary('run', day, queue, more.run),
  })
end

-- stats.counters date queue... -> for each queue: retried, retries, failures, failed of that day
function Stats.counters(args, i)
  local day = Stats.day(Arguments.number('stats.counters', 'date', args[i]))
  Arguments.bounded('stats.counters', #args - i)
  local found = {}
  for n = i + 1, #args do
    local name = key.stat('stats', day, args[n])
    for _, number in ipairs(call('HMGET', name, 'retried', 'retries', 'failures', 'failed')) do
      found[#found + 1] = tonumber(number) or 0
    end
  end
  return found
end
