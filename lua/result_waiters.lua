-- Waiting for jobs and workflows: a waiter blocks on a list that the end of the job feeds.

local match = string.match

local MOST = 1000 -- waiters told of one end; the others see it when they look again

-- Seconds for which an answer is kept for a waiter that may be gone.
local KEPT = 60

-- Seconds between the answer and the moment in which a client really blocks.
local MARGIN = 5

local LONGEST_WAIT = 24 * 3600 -- seconds; a client may ask again

-- What has ended in this call: scope.ended, in order.
local function note(target)
  scope.ended = scope.ended or {}
  scope.ended[#scope.ended + 1] = target
end

-- The job is complete, has failed, or is gone; called for those that are marked, as others are not
-- waited for.
function ResultWaiters.ended(jid)
  if scope.live then
    note('job:' .. jid)
  end
end

-- Nothing of the workflow goes on by itself.
function ResultWaiters.ended_workflow(id)
  note('workflow:' .. id)
end

-- Waiters until an earlier time have gone away without a word.
function ResultWaiters.since()
  return NumberFormat.now()
end

local function tell(target)
  local name, since = key.awaiting(target), ResultWaiters.since()
  local waiters = call('ZRANGEBYSCORE', name, since, '+inf', 'LIMIT', '0', MOST)
  for _, waiter in ipairs(waiters) do
    local list = key.ended(waiter)
    call('RPUSH', list, '1')
    call('EXPIRE', list, KEPT)
  end
  if #waiters < MOST then
    call('DEL', name)
  else
    call('ZREM', name, unpack(waiters))
  end
end

function ResultWaiters.finish()
  for first = 1, #scope.ended, MOST do
    local names, last = {}, math.min(first + MOST - 1, #scope.ended)
    for n = first, last do
      names[#names + 1] = key.awaiting(scope.ended[n])
    end
    if call('EXISTS', unpack(names)) > 0 then -- mostly none waits
      for n = first, last do
        tell(scope.ended[n])
      end
    end
  end
end

local function register(waiter, kind, id, seconds)
  if kind == 'job' then
    JobEnd.mark(id)
  end
  local name, kept = key.awaiting(kind .. ':' .. id), math.ceil(seconds) + KEPT
  call('ZADD', name, string.format('%.6f', scope.now + seconds + MARGIN), waiter)
  call('ZREMRANGEBYSCORE', name, '-inf', NumberFormat.now())
  -- Another waiter may wait longer.
  if call('TTL', name) < kept then
    call('EXPIRE', name, kept)
  end
end

local ENDED = { complete = true, failed = true, canceled = true }

local LOOK = {
  job = function(jid)
    return Job.state_now(jid) or Canceled.exists(jid) and 'canceled'
  end,
  workflow = function(id)
    return call('HGET', key.workflow(id), 'state')
  end,
}

-- The first of the others is waited for: what comes behind it is looked at when it has ended.
local function wait_for_first(reply, waiter, seconds, kind, args, first)
  for n = first, #args do
    local state = LOOK[kind](args[n]) or ''
    if state ~= '' and not ENDED[state] then
      register(waiter, kind, args[n], seconds)
      return reply
    end
    reply[#reply + 1] = state
  end
  call('DEL', reply[1])
  return reply
end

-- await waiter seconds job|workflow id... -> the key to block on for at most so many seconds, and
-- the states of the first of them, as far as they have ended; '' for what does not exist. The list
-- is fed when the next one ends. With 0 seconds: the states of all, without waiting.
function ResultWaiters.await(args, i)
  local waiter = Arguments.given('await', 'waiter', args[i])
  if not match(waiter, '^[%w_.~-]+$') or #waiter > 128 then
    Errors.argument(
      'await',
      'waiter must be 1 to 128 letters, digits and _ . ~ -, not %s',
      Errors.value(waiter)
    )
  end
  local seconds = math.max(0, math.min(Arguments.number('await', 'seconds', args[i + 1]), LONGEST_WAIT))
  local kind = args[i + 2]
  if not LOOK[kind or ''] then
    Errors.argument('await', 'what to wait for must be job or workflow, not ' .. Errors.value(kind))
  end
  Arguments.given('await', 'id', args[i + 3])
  Arguments.bounded('await', #args - i - 2)
  local reply = { key.ended(waiter) }
  if seconds > 0 then
    return wait_for_first(reply, waiter, seconds, kind, args, i + 3)
  end
  for n = i + 3, #args do
    reply[#reply + 1] = LOOK[kind](args[n]) or ''
  end
  return reply
end
