-- Limits as pages show them: what holds jobs back, by how much, and until when.

local match = string.match

local MOST = 100 -- limits of one page

-- What a limit is for people: its kind, the job type it belongs to, and the key or tenant it counts for.
local function described(name, klass, limit_key, fair_by)
  local kind = match(name, '^%l+')
  return {
    kind = kind,
    type = kind ~= 'fair' and klass or nil,
    key = (kind == 'key' and limit_key) or (kind == 'fair' and fair_by) or nil,
  }
end

-- The limits of a job with this record, as get shows them, or nil.
function LimitView.of_job(record)
  if not (record.limit_key or record.fair_by or record.aside or record.holds) then
    return nil
  end
  local shown = { key = record.limit_key, fair_by = record.fair_by }
  if record.aside then
    shown.held_back_by = described(record.aside, record.klass, record.limit_key, record.fair_by)
  end
  return shown
end

-- Those who run under a limit, and what it allows.
local function with_figures(shown, name, klass)
  local limit = LimitSettings.named(name, klass or '')
  shown.held_back = call('ZCARD', key.limit_aside(name))
  if limit and limit.most then
    shown.running, shown.most = call('ZCARD', key.limit_holders(name)), limit.most
  end
  if limit and limit.rate then
    shown.started, shown.rate = Rates.used(name, limit.rate), limit.rate
  end
  return shown
end

local function one(name, queue)
  local jid = SortedSet.last(key.limit_aside(name))
  if not jid then
    return nil
  end
  local klass, limit_key, fair_by = Hash.values(key.job(jid), 'klass', 'limit_key', 'fair_by')
  local shown = with_figures(described(name, klass or nil, limit_key or nil, fair_by or nil), name, klass)
  shown.first = jid
  shown.look = tonumber(call('ZSCORE', key.place(queue, 'openings'), name))
  return shown
end

-- The limit of the whole queue, if it has one.
local function of_queue(queue)
  local most, rate = Config.concurrency(queue), LimitSettings.exist() and LimitSettings.of_queue(queue)
  if most < 1 and not rate then
    return nil
  end
  local shown = { kind = 'queue' }
  if most > 0 then
    shown.most, shown.running = most, call('ZCARD', key.place(queue, 'locks'))
  end
  if rate then
    shown.rate, shown.started = rate, Rates.used('queue:' .. queue, rate)
  end
  return shown
end

-- limits queue -> the limit of the queue, those that hold back jobs of it (some of them), how many these are, and how
-- many jobs they hold back
function LimitView.show(args, i)
  local queue = Arguments.name('limits', 'queue', args[i])
  local openings, limits = key.place(queue, 'openings'), {}
  for _, name in ipairs(call('ZRANGE', openings, 0, MOST - 1)) do
    limits[#limits + 1] = one(name, queue)
  end
  table.sort(limits, function(a, b)
    return a.held_back > b.held_back or (a.held_back == b.held_back and a.first < b.first)
  end)
  local shown =
    { queue = of_queue(queue), total = call('ZCARD', openings), held_back = Places.count_aside(queue) }
  return Json.with(cjson.encode(shown), 'limits', limits[1] and cjson.encode(limits) or '[]')
end
