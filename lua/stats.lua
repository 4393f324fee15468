-- Statistics of a queue and day: running mean and variance (Welford 1962), a histogram.
local Config, Arguments, scope, key = Qless.Config, Qless.Arguments, Qless.scope, Qless.key

local Stats = {}
Qless.Stats = Stats

local call, floor = redis.call, math.floor
local DAY = 86400

-- Samples and counts of this call: written once, at its end.
local samples, counts

function Stats.reset()
  samples, counts = nil, nil
end

function Stats.day(time)
  return time - time % DAY
end

-- kind wait: from ready to popped; kind run: from popped to complete; in seconds.
function Stats.sample(kind, queue, seconds)
  samples = samples or { wait = {}, run = {} }
  local values = samples[kind][queue]
  if not values then
    values = {}
    samples[kind][queue] = values
  end
  local value = floor(seconds)
  if value < 0 then
    value = 0
  end
  values[value] = (values[value] or 0) + 1
end

function Stats.count(queue, field, n)
  counts = counts or {}
  local fields = counts[queue]
  if not fields then
    fields = {}
    counts[queue] = fields
  end
  fields[field] = (fields[field] or 0) + n
end

-- One job less is failed, of those that failed on that day.
function Stats.mended(queue, failed_at)
  local name = key.stat('stats', Stats.day(failed_at), queue)
  if (tonumber(call('HGET', name, 'failed')) or 0) > 0 then
    call('HINCRBY', name, 'failed', -1)
  end
end

local function bin(seconds)
  if seconds < 60 then
    return 's' .. seconds
  elseif seconds < 3600 then
    return 'm' .. floor(seconds / 60)
  elseif seconds < DAY then
    return 'h' .. floor(seconds / 3600)
  end
  return 'd' .. floor(seconds / DAY)
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
  local summary = call('HMGET', old, 'total', 'mean', 'vk')
  if summary[1] then
    local rest = call('TTL', old)
    call('DEL', old)
    call('HSET', old, 'total', summary[1], 'mean', summary[2], 'vk', summary[3])
    if rest > 0 then
      call('EXPIRE', old, rest)
    end
  end
end

-- values: value -> how often it was sampled in this call (a batch has few different ones).
local function write_samples(kind, queue, values)
  local day = Stats.day(scope.now)
  local name = key.stat(kind, day, queue)
  local fields, added = { 'total', 'mean', 'vk' }, {}
  for value, n in pairs(values) do
    local field = bin(value)
    if not added[field] then
      fields[#fields + 1] = field
    end
    added[field] = (added[field] or 0) + n
  end
  local old = call('HMGET', name, unpack(fields))
  local count, mean, vk = tonumber(old[1]) or 0, tonumber(old[2]) or 0, tonumber(old[3]) or 0
  for value, n in pairs(values) do
    local away, before = value - mean, count
    count = count + n
    mean = mean + away * n / count
    vk = vk + away * away * before * n / count
  end
  local written = { 'total', Qless.whole(count), 'mean', mean, 'vk', vk }
  for k = 4, #fields do
    written[#written + 1] = fields[k]
    written[#written + 1] = Qless.whole((tonumber(old[k]) or 0) + added[fields[k]])
  end
  call('HSET', name, unpack(written))
  if not old[1] then
    begin_day(kind, day, queue)
  end
end

function Stats.flush()
  if samples then
    for kind, queues in pairs(samples) do
      for queue, list in pairs(queues) do
        write_samples(kind, queue, list)
      end
    end
  end
  if counts then
    local day = Stats.day(scope.now)
    for queue, fields in pairs(counts) do
      local name = key.stat('stats', day, queue)
      for field, n in pairs(fields) do
        if call('HINCRBY', name, field, n) == n then
          begin_day('stats', day, queue)
        end
      end
    end
  end
end

local BINS = {}
for _, part in ipairs({ { 's', 0, 59 }, { 'm', 1, 59 }, { 'h', 1, 23 }, { 'd', 1, 6 } }) do
  for n = part[2], part[3] do
    BINS[#BINS + 1] = part[1] .. n
  end
end

local function summary(kind, day, queue)
  local name = key.stat(kind, day, queue)
  local head = call('HMGET', name, 'total', 'mean', 'vk')
  local count = tonumber(head[1]) or 0
  local shown = {
    count = count,
    mean = tonumber(head[2]) or 0,
    std = count > 1 and math.sqrt((tonumber(head[3]) or 0) / (count - 1)) or 0,
    histogram = {},
  }
  for n, value in ipairs(call('HMGET', name, unpack(BINS))) do
    shown.histogram[n] = tonumber(value) or 0
  end
  return shown
end

-- stats queue date
function Stats.show(args, i)
  local queue = Arguments.given('stats', 'queue', args[i])
  local day = Stats.day(Arguments.number('stats', 'date', args[i + 1]))
  local head = call('HMGET', key.stat('stats', day, queue), 'retries', 'failed', 'failures')
  return cjson.encode({
    retries = tonumber(head[1]) or 0,
    failed = tonumber(head[2]) or 0,
    failures = tonumber(head[3]) or 0,
    wait = summary('wait', day, queue),
    run = summary('run', day, queue),
  })
end
