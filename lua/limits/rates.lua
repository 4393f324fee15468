-- Rates: how many starts the window behind us leaves room for.
-- Up to EXACT starts a window each is kept with its time, so that no window of that length ever holds more. Above
-- that starts are counted in buckets of a hundredth of the window, and one bucket more than a window is looked
-- at: never too many, and at most two hundredths too few.

local format, floor = string.format, math.floor

local EXACT, BUCKETS = 10000, 100

-- Beside the window itself: what is kept goes by itself when nobody has started for so long.
local KEPT = 60

-- Starts are as exact as this.
local TICK = 1e-6

local function text(number)
  return format('%.17g', number)
end

local function keep(name, rate)
  call('PEXPIRE', name, format('%.0f', (rate.per + KEPT) * 1000))
end

-- -> how many more may start; else 0 and when the next may
local function exact_room(name, rate)
  local starts = key.limit_starts(name)
  call('ZREMRANGEBYSCORE', starts, '-inf', '(' .. text(scope.now - rate.per))
  local count = call('ZCARD', starts)
  if count < rate.count then
    return rate.count - count
  end
  local oldest = call('ZRANGE', starts, count - rate.count, count - rate.count, 'WITHSCORES')
  local opens = tonumber(oldest[2]) + rate.per + TICK
  if opens > scope.now + rate.per + 1 then -- the clock was set back
    call('ZREMRANGEBYSCORE', starts, '(' .. NumberFormat.now(), '+inf')
    return math.max(0, rate.count - call('ZCARD', starts)), opens
  end
  return 0, opens
end

local function exact_count(name, rate, n)
  local starts = key.limit_starts(name)
  local before, now, members = call('ZCARD', starts), NumberFormat.now(), {}
  for i = 1, n do
    members[i] = now .. ':' .. before + i
  end
  SortedSet.add(starts, now, members)
  keep(starts, rate)
end

-- -> starts in the buckets that a window ends in, the oldest of these; old buckets go
local function read_buckets(buckets, width, rate)
  local first, last = floor((scope.now - rate.per) / width), floor(scope.now / width)
  local sum, oldest, gone = 0, nil, {}
  for field, count in pairs(Hash.all(buckets)) do
    local number = tonumber(field)
    if number < first or number > last then -- (The clock may have been set back.)
      gone[#gone + 1] = field
    else
      sum, oldest = sum + tonumber(count), math.min(oldest or number, number)
    end
  end
  return sum, oldest, gone
end

local function bucket_room(name, rate)
  local buckets, width = key.limit_buckets(name), rate.per / BUCKETS
  local sum, oldest, gone = read_buckets(buckets, width, rate)
  if #gone > 0 and not scope.reading then
    call('HDEL', buckets, unpack(gone))
  end
  if sum < rate.count then
    return rate.count - sum
  end
  return 0, (oldest + 1) * width + rate.per + TICK
end

local function bucket_count(name, rate, n)
  local buckets, width = key.limit_buckets(name), rate.per / BUCKETS
  call('HINCRBY', buckets, format('%.0f', floor(scope.now / width)), n)
  keep(buckets, rate)
end

-- How many more may start under this rate; if none, when the next may.
function Rates.room(name, rate)
  if rate.count > EXACT then
    return bucket_room(name, rate)
  end
  return exact_room(name, rate)
end

-- So many start now.
function Rates.count(name, rate, n)
  if rate.count > EXACT then
    bucket_count(name, rate, n)
  else
    exact_count(name, rate, n)
  end
end

-- When there is more room than now; nil if nothing has started lately.
function Rates.opens(name, rate)
  if rate.count > EXACT then
    local width = rate.per / BUCKETS
    local _, oldest = read_buckets(key.limit_buckets(name), width, rate)
    return oldest and (oldest + 1) * width + rate.per + TICK
  end
  local oldest = call('ZRANGE', key.limit_starts(name), 0, 0, 'WITHSCORES')
  return oldest[2] and tonumber(oldest[2]) + rate.per + TICK
end

-- How many have started in the window that ends now. (Writes nothing.)
function Rates.used(name, rate)
  if rate.count > EXACT then
    return (read_buckets(key.limit_buckets(name), rate.per / BUCKETS, rate))
  end
  return call('ZCOUNT', key.limit_starts(name), text(scope.now - rate.per), '+inf')
end
