-- Claims: who has a unique key in all namespaces of an alias, kept in the one namespace that the key names.
--
-- A job is put by a later call, in its own namespace, which may never be made; and its end is told here by the
-- outbox of that namespace. So a claim lapses some seconds after it was made. Whoever comes then asks the namespace
-- of the job, which knows better (ClaimHolder), and may take the claim if that says so. `since`, when it was made,
-- tells a claim from any other.

local LONGEST = 2 ^ 31 -- seconds; the server refuses times to live that it cannot count
local FIELDS = 5

local function read(text)
  local jid, home, since, lapses = Hash.values(key.claim(text), 'jid', 'home', 'since', 'lapses')
  if jid then
    return { jid = jid, home = home, since = since, lapses = tonumber(lapses) or 0 }
  end
end

local function seconds(what, text)
  local number = Arguments.number('claim', what, text)
  if number <= 0 then
    Errors.argument('claim', what .. ' must be above 0, not ' .. Errors.name(text))
  end
  return math.min(number, LONGEST)
end

-- The claims that a call asks for: key jid home period instead each.
local function parse(args, i)
  local wanted = {}
  Arguments.bounded('claim', (#args - i + 1) / FIELDS)
  for n = i, #args, FIELDS do
    local period = Arguments.given('claim', 'period', args[n + 3])
    wanted[#wanted + 1] = {
      text = Arguments.name('claim', 'key', args[n]),
      jid = Arguments.name('claim', 'jid', args[n + 1]),
      home = Arguments.name('claim', 'home', args[n + 2]),
      period = period ~= '' and seconds('period', period) or nil,
      instead = Arguments.given('claim', 'instead', args[n + 4]),
    }
  end
  return wanted
end

local function write(claim, since, lapses)
  local name = key.claim(claim.text)
  call('DEL', name)
  call('HSET', name, 'jid', claim.jid, 'home', claim.home, 'since', since, 'lapses', lapses)
  if claim.period then
    call('PEXPIRE', name, string.format('%d', math.ceil(claim.period * 1000)))
  end
end

-- claim lease (key jid home period instead)*: the job with this jid is to be put in the namespace `home`, and claims
-- its key for as long as it counts or, if `period` is not '', for so many seconds. `instead` is '', or the `since` of
-- a claim whose place this one takes. -> of each: { since } if it is claimed, or of the claim that is in the way
-- { since, jid, home, 1 if it has lapsed }
function Claims.claim(args, i)
  local lease = seconds('lease', args[i])
  local wanted, since, replies = parse(args, i + 1), NumberFormat.time(), {}
  for n, claim in ipairs(wanted) do
    local old = read(claim.text)
    local is_own = old and old.jid == claim.jid and old.home == claim.home
    if old and not is_own and old.since ~= claim.instead then
      replies[n] = { old.since, old.jid, old.home, old.lapses <= scope.now and 1 or 0 }
    else
      write(claim, since, NumberFormat.later(lease))
      replies[n] = { since }
    end
  end
  return replies
end

-- claim.release (key jid home)*: the jobs do not count any longer. What others have claimed is left to them.
-- -> how many claims were released
function Claims.release(args, i)
  local released = 0
  Arguments.bounded('claim.release', (#args - i + 1) / 3)
  for n = i, #args, 3 do
    local text = Arguments.name('claim.release', 'key', args[n])
    local jid = Arguments.name('claim.release', 'jid', args[n + 1])
    local home = Arguments.name('claim.release', 'home', args[n + 2])
    local old = read(text)
    if old and old.jid == jid and old.home == home then
      released = released + call('DEL', key.claim(text))
    end
  end
  return released
end

-- claim.regain key jid home: the job counts again, or has come to this namespace. -> whether the claim is its own
function Claims.regain(args, i)
  local text = Arguments.name('claim.regain', 'key', args[i])
  local jid = Arguments.name('claim.regain', 'jid', args[i + 1])
  local home = Arguments.name('claim.regain', 'home', args[i + 2])
  local old = read(text)
  if old and old.jid ~= jid then
    return 0
  end
  local since = old and old.since or NumberFormat.time()
  write({ text = text, jid = jid, home = home }, since, NumberFormat.time())
  return 1
end
