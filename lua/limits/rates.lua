-- Rates: how many starts the window behind us leaves room for.
-- Up to EXACT starts a window each is kept with its time, so that no window of that length ever holds more. Above
-- that starts are counted in buckets of a hundredth of the window, and one bucket more than a window is looked
-- at: never too many, and at most two hundredths too few. What a rate kept in the other way before it was changed
-- counts as well.
-- The clock may be set back. Who asks next finds starts that are yet to come: they count as started now. So there are
-- never too many, and no job waits longer than a window from then on.

local format, floor = string.format, math.floor

local EXACT, BUCKETS = 10000, 100

-- Beside the window itself: what is kept goes by itself when no job has started for so long.
local KEPT = 60

-- Starts are as exact as this.
local TICK = 1e-6

-- Stands among the buckets: the rate under which the last start was counted.
local RATE = 'rate'

local function text(number)
  return format('%.17g', number)
end

local function keep(name, rate)
  call('PEXPIRE', name, format('%.0f', (rate.per + KEPT) * 1000))
end

-- A rate as what is counted under it remembers it.
local function words(rate)
  return format('%d/%s', rate.count, text(rate.per))
end

-- The rate that these words stand for.
local function rate_of(of)
  local count, per = string.match(of or '', '^(%d+)/([%d.e+-]+)$')
  return tonumber(per) and { count = tonumber(count), per = tonumber(per) }
end

-- Forgets starts that are out of the window, and sets back those that are yet to come, a bounded number at a time.
local function tidy_starts(starts, rate)
  call('ZREMRANGEBYSCORE', starts, '-inf', '(' .. text(scope.now - rate.per))
  local now = NumberFormat.now()
  SortedSet.add(starts, now, call('ZRANGEBYSCORE', starts, '(' .. now, '+inf', 'LIMIT', 0, Arguments.most))
end

local function count_starts(starts, rate, n)
  local now, of, number = NumberFormat.now(), words(rate), call('ZCARD', starts)
  for _ = 1, n do
    -- One that did not start may have gone from among those of the same time.
    repeat
      number = number + 1
    until call('ZADD', starts, 'NX', now, format('%s:%05d:%s', now, number, of)) == 1
  end
  keep(starts, rate)
end

-- A bucket is known by the time when it ends.
local function bucket_of(rate, time)
  local width = rate.per / BUCKETS
  return (floor(time / width) + 1) * width
end

local function present(rate)
  return bucket_of(rate, scope.now)
end

-- -> starts in the buckets that a window ends in, when the oldest of these ends, the buckets to be forgotten (out of
-- the window, or yet to come), and how many have started in those that are yet to come
local function read_buckets(buckets, rate)
  local last, sum, oldest, gone, early = present(rate), 0, nil, {}, 0
  for bucket, count in pairs(Hash.all(buckets)) do
    local ends = tonumber(bucket)
    local is_early, is_out = ends and ends > last, ends and ends <= scope.now - rate.per
    if ends and not is_out then
      sum, oldest = sum + tonumber(count), math.min(oldest or last, ends)
    end
    if is_early then
      early = early + tonumber(count)
    end
    if is_early or is_out then
      gone[#gone + 1] = bucket
    end
  end
  return sum, oldest, gone, early
end

local function tidy_buckets(buckets, rate)
  local sum, oldest, gone, early = read_buckets(buckets, rate)
  if #gone > 0 then
    call('HDEL', buckets, unpack(gone))
  end
  if early > 0 then
    call('HINCRBY', buckets, text(present(rate)), early)
  end
  return sum, oldest
end

local function count_bucket(buckets, rate, n)
  call('HINCRBY', buckets, text(present(rate)), n)
  call('HSET', buckets, RATE, words(rate))
  keep(buckets, rate)
end

-- How many more may start under this rate; if none, when the next may.
function Rates.room(name, rate)
  local starts, buckets = key.limit_starts(name), key.limit_buckets(name)
  local in_buckets, ends = 0, nil
  if call('EXISTS', buckets) == 1 then
    in_buckets, ends = tidy_buckets(buckets, rate)
  end
  tidy_starts(starts, rate)
  local count = in_buckets + call('ZCARD', starts)
  if count < rate.count then
    return rate.count - count
  end
  if ends then
    return 0, Rates.opens(name, rate)
  end
  local nth = count - rate.count
  return 0, tonumber(call('ZRANGE', starts, nth, nth, 'WITHSCORES')[2]) + rate.per + TICK
end

-- So many start now.
function Rates.count(name, rate, n)
  if rate.count > EXACT then
    count_bucket(key.limit_buckets(name), rate, n)
  else
    count_starts(key.limit_starts(name), rate, n)
  end
end

-- When there is more room than now; nil if nothing has started lately.
function Rates.opens(name, rate)
  local _, ends = read_buckets(key.limit_buckets(name), rate)
  local _, start = SortedSet.first(key.limit_starts(name))
  return (ends or start) and math.min(ends or math.huge, start or math.huge) + rate.per + TICK
end

-- How many have started in the window that ends now. (Writes nothing.)
function Rates.used(name, rate)
  local in_buckets = read_buckets(key.limit_buckets(name), rate)
  return in_buckets + call('ZCOUNT', key.limit_starts(name), text(scope.now - rate.per), '+inf')
end

-- A job that was handed out at this time did not start.
function Rates.uncount(name, time)
  local starts, buckets = key.limit_starts(name), key.limit_buckets(name)
  local start = call('ZRANGEBYSCORE', starts, text(time), text(time), 'LIMIT', 0, 1)[1]
  local rate = not start and rate_of(call('HGET', buckets, RATE))
  local bucket = rate and text(bucket_of(rate, time))
  if start then
    call('ZREM', starts, start)
  elseif bucket and (tonumber(call('HGET', buckets, bucket)) or 0) > 0 then
    call('HINCRBY', buckets, bucket, -1)
  end
end

-- The rate that the last start found, and how many have started in the window that it ended. nil if nothing has, or
-- the clock was set back since.
function Rates.last(name)
  local last, start = SortedSet.last(key.limit_starts(name))
  local rate = rate_of(string.match(last, '^.*:(.*)$'))
  if rate and start <= scope.now then
    return rate, call('ZCOUNT', key.limit_starts(name), text(start - rate.per), text(start))
  end
end

-- The same of buckets: all that are kept were in the window of the last start.
function Rates.last_of_buckets(name)
  local sum, newest, rate = 0, -math.huge, nil
  for bucket, count in pairs(Hash.all(key.limit_buckets(name))) do
    if bucket == RATE then
      rate = rate_of(count)
    else
      sum, newest = sum + tonumber(count), math.max(newest, tonumber(bucket))
    end
  end
  if rate and newest <= present(rate) then
    return rate, sum
  end
end
