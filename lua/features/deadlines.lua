-- Deadlines: a job that has not started by its own (`expires`) can no longer start, so it holds nothing: the call that meets
-- it fails it. A run that goes on in another queue has none any more.

local rcall = redis.call

Deadlines.fields = { 'deadline' }
Deadlines.options = { 'expires', 'expires_at' }

local GROUP = 'expired'

function Deadlines.check(call, job)
  local options, old = job.options or {}, job.old
  if options.expires_at then
    if options.expires then
      Errors.argument(call, 'expires and expires_at exclude each other')
    end
    job.deadline = Arguments.number(call, 'expires_at', options.expires_at)
  elseif options.expires then
    job.deadline = (job.since or call.now) + Arguments.number(call, 'expires', options.expires)
  elseif old and not job.fresh and old.state ~= 'failed' and old.state ~= 'complete' then
    job.deadline = tonumber(old.deadline)
  end
  job.deadline = job.deadline and string.format('%.6f', job.deadline)
end

-- Is this the deadline of a job in this state, which has missed it?
function Deadlines.is_missed(call, state, deadline)
  return Job.PENDING[state] and (tonumber(deadline or nil) or math.huge) <= call.now
end

local function message(call, job, words)
  return string.format(words, string.format('%.1f', call.now - tonumber(job.deadline)))
end

function Deadlines.admit(call, job)
  if job.deadline and (tonumber(job.deadline) or math.huge) <= call.now then
    return 'fail', GROUP, message(call, job, 'Its turn came %s seconds after the time when it expired')
  end
end

-- Fails the jobs that the call has met.
local function fail_noted(call)
  for _, jid in ipairs(call.overdue) do
    local job = Job.read(call, jid)
    if job and Deadlines.is_missed(call, job.state, job.deadline) then
      local text = message(call, job, 'It expired %s seconds ago and had not started')
      Finish.fail_waiting(call, job, Keys.queue(call, job.queue), GROUP, text)
    end
  end
end

-- The call has met a job that is too late, which fails at its end: then it is not refused any more.
function Deadlines.note(call, jid)
  if not call.overdue then
    call.overdue = {}
    Call.at_end(call, fail_noted)
  end
  call.overdue[#call.overdue + 1] = jid
end

function Deadlines.ended(_, job)
  if job.moved and job.deadline then
    rcall('HDEL', job.key, 'deadline')
  end
end

function Deadlines.revived(_, job)
  rcall('HDEL', job.key, 'deadline')
end
