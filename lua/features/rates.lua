-- Rates: how many starts the window behind us leaves room for. Each start is kept with its time, so that no span of that
-- length ever holds more. A limit has `name` and `rate`.

local format = string.format
local rcall = redis.call

-- What is kept goes by itself when nothing has started for a window and these seconds more.
local KEPT = 60

-- Times are as exact as this.
local TICK = 1e-6

-- When the window begins. (What started then is in it yet.)
local function beginning(call, limit)
  return format('%.17g', call.now - limit.rate.per)
end

-- How many have started in the window that ends now.
function Rates.used(call, limit)
  return rcall('ZCOUNT', Keys.limit_starts(call, limit.name), beginning(call, limit), '+inf')
end

-- How many more may start.
function Rates.room(call, limit)
  return math.max(0, limit.rate.count - Rates.used(call, limit))
end

-- When more may start than now, or nil.
function Rates.opens(call, limit)
  local surplus = math.max(0, Rates.used(call, limit) - limit.rate.count) -- the rate was lowered
  local starts = Keys.limit_starts(call, limit.name)
  local first =
    rcall('ZRANGEBYSCORE', starts, beginning(call, limit), '+inf', 'WITHSCORES', 'LIMIT', surplus, 1)
  return first[2] and tonumber(first[2]) + limit.rate.per + TICK
end

-- Counts the starts of that number of `runs`, of which the last one has this token.
function Rates.count(call, limit, token, runs)
  local starts, values = Keys.limit_starts(call, limit.name), {}
  for n = 0, runs - 1 do
    values[2 * n + 1], values[2 * n + 2] = call.text, format('%.0f', token - n)
  end
  rcall('ZREMRANGEBYSCORE', starts, '-inf', '(' .. beginning(call, limit))
  Pieces.run('ZADD', starts, values)
  rcall('PEXPIRE', starts, format('%.0f', (limit.rate.per + KEPT) * 1000))
end

-- The run with this token was handed out, but has not started.
function Rates.uncount(call, limit, token)
  rcall('ZREM', Keys.limit_starts(call, limit.name), token)
end
