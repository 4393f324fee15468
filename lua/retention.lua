-- Data kept for a while after its job is gone: their results, and the lists of what they have spawned. How much is
-- kept is limited by number and by bytes: the oldest go first, but nothing of the last minutes.

local floor, format, min, max = math.floor, string.format, math.min, math.max

-- Each has an entry in two sorted sets: in `results` by when it was kept, in `results_until` by when it
-- expires by itself, together with its size: seconds * SIZES + bytes. So what has expired is found without a
-- look at the others, and what it took is known when it is gone. All that they take is the score of TOTAL
-- there, below 0. Both sets expire when nothing can be left. (A foreign copy of the core makes no entries.)
local SIZES, LATEST, TOTAL = 2 ^ 20, 2 ^ 33 - 1, ''

-- Seconds for which the sets outlive their last entry, as not each call that makes one looks.
local LONGER = 86400

-- Seconds for which all is kept, however much it is: a caller may be waiting for it.
local FOR_SURE = 300

-- Entries dropped by one call beyond twice those that it makes; which part of a limit a cut goes below it.
local DROPPED, MARGIN = 500, 100

-- Takes note of a key that the call has made and that expires after `ttl` seconds: in scope.kept, written down
-- at the end of the call.
-- -> when that is
function Retention.note(entry, bytes, ttl)
  local fresh, time = scope.kept or {}, min(floor(scope.now) + ttl + 1, LATEST)
  fresh[#fresh + 1] = { entry = entry, time = time, bytes = min(bytes, SIZES - 1) }
  scope.kept = fresh
  return time
end

-- What an entry takes, by its score; 0 if there is none.
local function bytes_of(score)
  return score and tonumber(score) % SIZES or 0
end
Retention.bytes_of = bytes_of

-- Is an entry with this score kept beyond a time?
function Retention.outlives(score, time)
  return floor(tonumber(score) / SIZES) > time
end

function Retention.bytes(entry)
  return bytes_of(call('ZSCORE', key.results_until(), entry))
end

local function count_bytes(number)
  return -tonumber(call('ZINCRBY', key.results_until(), NumberFormat.whole(-number), TOTAL))
end

function Retention.total_bytes()
  return -(tonumber(call('ZSCORE', key.results_until(), TOTAL) or nil) or 0)
end

-- Takes entries out of the books; `scores` are those in `results_until`.
local function strike(entries, scores)
  local bytes = 0
  for n = 1, #entries do
    bytes = bytes + bytes_of(scores[n])
  end
  SortedSet.remove(key.results(), entries)
  SortedSet.remove(key.results_until(), entries)
  local total = count_bytes(-bytes)
  if total == 0 and call('EXISTS', key.results()) == 0 then
    call('DEL', key.results_until())
  end
  return total
end

-- The key of an entry is gone.
function Retention.forget(entry)
  local score = scope.live and call('ZSCORE', key.results_until(), entry)
  if score then
    strike({ entry }, { score })
  end
end

local function drop(entries, scores)
  local names = {}
  for n = 1, #entries do
    names[n] = scope.prefix .. entries[n]
  end
  for first = 1, #names, 1000 do
    call('DEL', unpack(names, first, min(first + 999, #names)))
  end
  return strike(entries, scores)
end

-- Entries and their scores, from a flat list.
local function parted(flat)
  local entries, scores = {}, {}
  for n = 1, #flat, 2 do
    entries[#entries + 1], scores[#scores + 1] = flat[n], flat[n + 1]
  end
  return entries, scores
end

-- -> the bytes that are left, if any went
local function drop_expired(most)
  local beyond = '(' .. format('%.0f', (floor(scope.now) + 1) * SIZES)
  local flat = call(
    'ZRANGEBYSCORE',
    key.results_until(),
    '(0',
    beyond,
    'WITHSCORES',
    'LIMIT',
    '0',
    NumberFormat.whole(most)
  )
  if #flat > 0 then
    return drop(parted(flat))
  end
end

-- The list of what a job has spawned is wanted until that, and the job itself, has ended.
local function is_wanted(entry)
  local spawner = string.match(entry, '^offspring:(.*)$')
  if not spawner then
    return false
  end
  local state, token = Hash.values(key.job(spawner), 'state', 'token')
  if state and state ~= 'complete' and state ~= 'failed' then
    return true
  elseif Spawned.has_unfinished(spawner) then
    return true
  elseif state then
    call('HSET', key.job(spawner), 'cut', token or '')
  end
  return false
end

-- Drops the oldest entries until there are no more than so many, of no more than so many bytes.
local function cut(count, bytes, most)
  local before = NumberFormat.whole(floor(scope.now) - FOR_SURE)
  local oldest = call('ZRANGEBYSCORE', key.results(), '-inf', before, 'LIMIT', '0', NumberFormat.whole(most))
  if #oldest == 0 then
    return
  end
  local scores, dropped, theirs, wanted = call('ZMSCORE', key.results_until(), unpack(oldest)), {}, {}, {}
  for n = 1, #oldest do
    if count <= 0 and bytes <= 0 then
      break
    elseif is_wanted(oldest[n]) then
      wanted[#wanted + 1] = oldest[n]
    else
      count, bytes = count - 1, bytes - bytes_of(scores[n])
      dropped[#dropped + 1], theirs[#theirs + 1] = oldest[n], scores[n]
    end
  end
  SortedSet.add(key.results(), NumberFormat.second(), wanted) -- looked at again later
  if #dropped > 0 then
    drop(dropped, theirs)
    call('HSET', key.meta(), 'results_cut', NumberFormat.now())
  end
end

-- How much there is above a limit, and a little more, so that not each call has to cut.
local function surplus(number, option)
  local most = max(0, Config.whole(option))
  return number > most and number - most + floor(most / MARGIN) or 0
end

local function outlive_all()
  local last = call('ZREVRANGE', key.results_until(), '0', '0', 'WITHSCORES')[2]
  if last then
    local rest = NumberFormat.whole(max(0, floor(tonumber(last) / SIZES) - floor(scope.now)) + LONGER)
    call('EXPIRE', key.results(), rest)
    call('EXPIRE', key.results_until(), rest)
  end
end

-- Drops what has expired and what is too much, a bounded number.
local function tidy(total, most)
  outlive_all()
  total = drop_expired(most) or total
  local count = surplus(call('ZCARD', key.results()), 'results-count')
  local bytes = surplus(total, 'results-bytes')
  if count > 0 or bytes > 0 then
    cut(count, bytes, min(most, Arguments.most))
  end
end

-- Writes down what the call has kept.
function Retention.finish()
  local now, number, bytes = NumberFormat.second(), #scope.kept, 0
  local names, kept, expiring = {}, {}, {}
  for n, fresh in ipairs(scope.kept) do
    names[n] = fresh.entry
    kept[2 * n - 1], kept[2 * n] = now, fresh.entry
    expiring[2 * n - 1], expiring[2 * n] = format('%.0f', fresh.time * SIZES + fresh.bytes), fresh.entry
    bytes = bytes + fresh.bytes
  end
  if call('ZADD', key.results(), unpack(kept)) < number then
    for _, score in ipairs(call('ZMSCORE', key.results_until(), unpack(names))) do
      bytes = bytes - bytes_of(score)
    end
  end
  call('ZADD', key.results_until(), unpack(expiring))
  local total = count_bytes(bytes)
  if number > 1 or total == bytes or Clock.is_round() then
    tidy(total, DROPPED + 2 * number)
  end
end

-- The same for calls that keep nothing. (Not each of them looks.)
function Retention.tidy()
  if not scope.kept and call('EXISTS', key.results()) == 1 then
    tidy(Retention.total_bytes(), DROPPED)
  end
end

-- results.kept -> how many there are, their bytes, when some were last dropped before their time, since when
-- the oldest is kept (null: never, none)
function Retention.show()
  local oldest = call('ZRANGE', key.results(), '0', '0', 'WITHSCORES')[2]
  return cjson.encode({
    number = call('ZCARD', key.results()),
    bytes = Retention.total_bytes(),
    cut = tonumber(call('HGET', key.meta(), 'results_cut') or nil) or cjson.null,
    oldest = tonumber(oldest) or cjson.null,
  })
end

-- The seconds that were left of the time for which the result of a complete job is kept, by its record; nil
-- if it has returned nothing. (The run must be the last: an old copy of the core leaves the field.)
function Retention.left(returned, token)
  local time, run = string.match(returned or '', '^(%d+) (.*)$')
  if time and run == (token or '') then
    return tonumber(time) - scope.now
  end
end

local function is_gone(jid)
  local state, token, returned, was_cut = Hash.values(key.job(jid), 'state', 'token', 'returned', 'cut')
  if was_cut and was_cut == (token or '') then
    return true
  end
  return state == 'complete' and Retention.left(returned, token) and call('EXISTS', key.result(jid)) == 0
end

-- results.cut jid... -> those of which a result, or the list of what they have spawned, is gone: its time is over, or
-- it was dropped before
function Retention.cut(args, i)
  Arguments.given('results.cut', 'jid', args[i])
  Arguments.bounded('results.cut', #args - i + 1)
  local jids = {}
  for n = i, #args do
    if is_gone(args[n]) then
      jids[#jids + 1] = args[n]
    end
  end
  return jids
end
