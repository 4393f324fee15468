-- Limits as pages show them: what holds jobs back, by how much, and until when.

local rcall = redis.call

-- Jobs of a queue whose limits a page shows, and limits of one page.
local LOOKED, MOST = 1000, 100

-- What holds a job back, for people: its kind, the job type it belongs to, and the key or tenant it counts for.
local function described(name, job)
  local kind = string.match(name, '^%l+')
  return {
    kind = kind,
    type = kind ~= 'fair' and job.klass or nil,
    key = (kind == 'key' and job.limit_key) or (kind == 'fair' and job.fair_by) or nil,
  }
end

-- The limits of a job with this record, as get shows them, or nil.
function LimitView.of_job(job)
  if not (job.limit_key or job.fair_by or job.parked or job.holds) then
    return nil
  end
  local shown = { key = job.limit_key, fair_by = job.fair_by }
  shown.held_back_by = job.parked and described(job.parked, job) or nil
  return shown
end

-- A limit that holds back jobs, with its figures.
local function one(call, name)
  local parked = Keys.limit_parked(call, name)
  local jid, job = Pieces.last(parked), {}
  job.klass, job.limit_key, job.fair_by =
    unpack(rcall('HMGET', Keys.job(call, jid), 'klass', 'limit_key', 'fair_by'))
  local shown, limit = described(name, job), Limits.named(call, name, jid)
  shown.first, shown.held_back = jid, rcall('ZCARD', parked)
  shown.look = tonumber(rcall('ZSCORE', call.keys.limits_parked, name) or nil)
  if limit.most then
    shown.running, shown.most = Limits.count(call, name), limit.most
  end
  if limit.rate then
    shown.started, shown.rate = Rates.used(call, limit), limit.rate
  end
  return shown
end

-- The limit of the whole queue, if it has one.
local function of_queue(call, queue)
  local most, limit = Config.concurrency(call, queue.name), LimitSettings.of_queue(call, queue.name)
  if most < 1 and not limit then
    return nil
  end
  local shown = { kind = 'queue' }
  if most > 0 then
    shown.most, shown.running = most, rcall('ZCARD', queue.locks)
  end
  if limit then
    shown.rate, shown.started = limit.rate, Rates.used(call, limit)
  end
  return shown
end

-- The names of what holds back jobs of a queue, those of its first jobs.
local function names_in(call, queue)
  local seen, names = {}, {}
  for _, jid in ipairs(rcall('ZREVRANGE', queue.parked, 0, LOOKED - 1)) do
    local name = rcall('HGET', Keys.job(call, jid), 'parked')
    if name and not seen[name] then
      seen[name] = true
      names[#names + 1] = name
    end
  end
  return names
end

-- limits queue -> the limit of the queue, those that hold back jobs of it (some of them), how many these are, and how
-- many jobs they hold back
function LimitView.show(call, args, i)
  local queue = Keys.queue(call, Arguments.name(call, 'queue', args[i]))
  local names, limits = names_in(call, queue), {}
  for n = 1, math.min(#names, MOST) do
    limits[n] = one(call, names[n])
  end
  table.sort(limits, function(a, b)
    return a.held_back > b.held_back or (a.held_back == b.held_back and a.first < b.first)
  end)
  local shown = { queue = of_queue(call, queue), total = #names, held_back = Queue.count_parked(call, queue) }
  return Json.with(cjson.encode(shown), 'limits', limits[1] and cjson.encode(limits) or '[]')
end
