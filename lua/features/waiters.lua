-- Waiting for jobs and workflows: a waiter blocks on a list that the end of the job feeds. A job for which one waits has
-- the letter of this feature.

local match = string.match
local rcall = redis.call

local MOST = 1000 -- waiters of one end; the others see it when they look again
local KEPT = 60 -- seconds for which an answer is kept for a waiter that may be gone
local MARGIN = 5 -- seconds between the answer and the moment in which a client really blocks
local LONGEST_WAIT = 24 * 3600 -- seconds; a client may ask again

-- What is waited for has ended: `job:<jid>` or `workflow:<id>`.
function Waiters.tell(call, target)
  local name = Keys.awaiting(call, target)
  local since = call.old and '-inf' or call.text
  local waiters = rcall('ZRANGEBYSCORE', name, since, '+inf', 'LIMIT', '0', MOST)
  for _, waiter in ipairs(waiters) do
    local list = Keys.ended(call, waiter)
    rcall('RPUSH', list, '1')
    rcall('EXPIRE', list, KEPT)
  end
  if #waiters < MOST then
    rcall('DEL', name)
  else
    rcall('ZREM', name, unpack(waiters))
  end
end

local ENDED = { complete = true, failed = true, canceled = true }

function Waiters.ended(call, job)
  if ENDED[job.state] then
    Waiters.tell(call, 'job:' .. job.jid)
  end
end

function Waiters.gone(call, job, why)
  if why == 'canceled' then
    Waiters.tell(call, 'job:' .. job.jid)
  end
end

local function register(call, waiter, kind, id, seconds)
  if kind == 'job' then
    local job = { jid = id, key = Keys.job(call, id) }
    job.more = rcall('HGET', job.key, 'more') or nil
    Features.add(call, job, 'a')
  end
  local name, kept = Keys.awaiting(call, kind .. ':' .. id), math.ceil(seconds) + KEPT
  rcall('ZADD', name, string.format('%.6f', call.now + seconds + MARGIN), waiter)
  rcall('ZREMRANGEBYSCORE', name, '-inf', call.text)
  -- Another waiter may wait longer.
  if rcall('TTL', name) < kept then
    rcall('EXPIRE', name, kept)
  end
end

local LOOK = {
  job = function(call, jid)
    local state, queue = unpack(rcall('HMGET', Keys.job(call, jid), 'state', 'queue'))
    if state then
      return Job.state_now(call, jid, queue or '', state)
    end
    return Cancel.exists(call, jid) and 'canceled' or nil
  end,
  workflow = function(call, id)
    return rcall('HGET', Keys.workflow(call, id), 'state') or nil
  end,
}

-- The first of the others is waited for: what comes behind it is looked at when it has ended.
local function wait_for_first(call, reply, wish)
  for _, id in ipairs(wish.ids) do
    local state = LOOK[wish.kind](call, id) or ''
    if state ~= '' and not ENDED[state] then
      register(call, wish.waiter, wish.kind, id, wish.seconds)
      return reply
    end
    reply[#reply + 1] = state
  end
  rcall('DEL', reply[1])
  return reply
end

-- await waiter seconds job|workflow id... -> the key to block on for at most that time, and the states of the first of
-- them, as far as they have ended; '' for what does not exist. The list is fed when the next one ends. With 0 seconds:
-- the states of all, without waiting.
function Waiters.await(call, args, i)
  local wish = { waiter = Arguments.given(call, 'waiter', args[i]) }
  if not match(wish.waiter, '^[%w_.~-]+$') or #wish.waiter > 128 then
    local words = 'waiter must be 1 to 128 letters, digits and _ . ~ -, not %s'
    Errors.argument(call, words, Errors.value(wish.waiter))
  end
  wish.seconds = math.max(0, math.min(Arguments.number(call, 'seconds', args[i + 1]), LONGEST_WAIT))
  wish.kind = args[i + 2]
  if not LOOK[wish.kind or ''] then
    Errors.argument(call, 'what to wait for must be job or workflow, not ' .. Errors.value(wish.kind))
  end
  Arguments.given(call, 'id', args[i + 3])
  wish.ids = Pieces.rest(args, i + 3)
  Arguments.bounded(call, #wish.ids)
  local reply = { Keys.ended(call, wish.waiter) }
  if wish.seconds > 0 then
    return wait_for_first(call, reply, wish)
  end
  for n, id in ipairs(wish.ids) do
    reply[n + 1] = LOOK[wish.kind](call, id) or ''
  end
  return reply
end
