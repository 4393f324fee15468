-- The on_failure policy of jobs whose dependency has failed or was canceled.
--   block   waits on for what has failed; fails itself when it was canceled
--   cancel  is canceled
--   run     waits for it no longer, as if it had been completed

local GROUP = 'dependency-canceled'

-- Dependents looked at together: how much work they are shows only then.
local PART = 50

-- What a dependent does when a dependency ends otherwise than complete; and the jid of the one behind
-- which it was put, if any, whose end is enough.
function Cascade.policy(jid)
  local on_failure, behind = Hash.values(key.job(jid), 'on_failure', 'behind')
  return on_failure or 'block', behind
end

local function policy_of(jid, other)
  local policy, behind = Cascade.policy(jid)
  return behind == other and 'run' or policy
end

-- Cancels a job with all that belongs to it, and what hangs on it by its policy: because of the
-- `dependency` or the `workflow` of this jid or id.
function Cascade.cancel(jid, why, by)
  local record = Job.read(jid)
  if record then
    Job.remove(jid, record, why, by)
    Cascade.follow(jid, 'gone')
  end
end

-- (A foreign client may have written the name of what is no job, or taken the queue out of its record.)
local function fail(jid, other)
  local its_state, its_queue, its_rare = Hash.values(key.job(jid), 'state', 'queue', 'rare')
  local queue = its_queue or ''
  if not its_state then
    return
  end
  local message = 'Job ' .. other .. ', on which this one depended, was canceled'
  Dependencies.unlink_all(jid)
  Places.leave(jid, queue)
  call('HDEL', key.job(jid), 'scheduled', 'beyond', 'behind')
  History.failed(jid, GROUP, nil, message)
  Outcome.write_failed(
    { jid = jid, queue = queue, rare = its_rare, state = 'depends' },
    GROUP,
    message,
    math.floor(scope.now)
  )
  if Tracking.is_tracked(jid) then
    Events.tracked('failed', jid)
  end
  Events.failed(jid, GROUP, message, '')
end

-- The job's record is gone: all its dependents have to do without it.
local function visit_gone(jid)
  local dependents
  repeat
    dependents = Dependencies.take_some(jid, key.cascading(), PART)
    for _, dependent in ipairs(dependents) do
      local policy = policy_of(dependent, jid)
      if policy == 'run' then
        Dependencies.free_if_last(dependent)
      elseif policy == 'cancel' then
        Cascade.cancel(dependent, 'dependency', jid)
      else
        fail(dependent, jid)
      end
    end
  until #dependents < PART or Dependencies.left() <= 0
end

-- -> whether the call could deal with all of these dependents of a failed job
local function follow_some(jid, dependents)
  for _, dependent in ipairs(dependents) do
    if Dependencies.left() <= 0 then
      return false
    end
    Dependencies.spend(1)
    local policy = policy_of(dependent, jid)
    if policy == 'run' then
      Dependencies.unlink(dependent, { jid })
      Dependencies.free_if_last(dependent)
    elseif policy == 'cancel' then
      Cascade.cancel(dependent, 'dependency', jid)
    end
  end
  return true
end

-- The job has failed: those that block stay where they are, so the rest is found by a cursor.
local function visit_failed(jid)
  local name = key.job(jid)
  local cursor = Record.text('cascade', call('HGET', name, 'cascade'), '0')
  local done
  repeat
    local part = math.min(PART, Dependencies.left())
    local reply = call('SSCAN', key.dependents(jid), cursor, 'COUNT', part)
    if not follow_some(jid, reply[2]) then
      break -- the same part again: those that were dealt with are no members any more
    end
    cursor = reply[1]
    done = cursor == '0'
  until done or Dependencies.left() <= 0
  if done then
    call('HDEL', name, 'cascade')
    call('ZREM', key.cascading(), jid)
  else
    call('HSET', name, 'cascade', cursor)
    call('ZADD', key.cascading(), scope.now, jid)
  end
end

local VISIT = { gone = visit_gone, failed = visit_failed }

-- A job has failed, or is gone: its dependents follow by their policies, and theirs in turn, as many
-- as the call may deal with; the others are noted. (What a visit finds is followed after it, by the loop that
-- is at work: scope.following.)
function Cascade.follow(jid, kind)
  local line = scope.following
  if line then
    line[#line + 1] = { jid, kind }
    return
  end
  line = { { jid, kind } }
  scope.following = line
  local n = 1
  while line[n] do
    local name = line[n][1]
    if Dependencies.left() > 0 then
      VISIT[line[n][2]](name)
    elseif call('EXISTS', key.dependents(name)) == 1 then
      call('ZADD', key.cascading(), scope.now, name)
    end
    n = n + 1
  end
  scope.following = nil
end

-- Takes up what an earlier call had to leave of this job.
function Cascade.carry_on(jid)
  local state = call('HGET', key.job(jid), 'state')
  if not state then
    Cascade.follow(jid, 'gone')
  elseif state == 'failed' then
    Cascade.follow(jid, 'failed')
  else
    -- It was put again, or goes on: the rest waits for its new run.
    call('ZREM', key.cascading(), jid)
    call('HDEL', key.job(jid), 'cascade')
    call('HSET', key.job(jid), 'followed', '1', 'rare', '1')
  end
end
