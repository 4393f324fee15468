-- Turns between the tenants of a queue (`fair_by`): of each tenant one job stands in the work. When it is taken the next
-- one comes, behind those of the other tenants; the rest is parked.

local rcall = redis.call

Fairness.fields = { 'fair_by' }
Fairness.options = { 'fair_by' }

local LATEST = 60 -- seconds until a tenant is looked at whose jobs wait: starts bring the next ones

-- What parks the jobs of a tenant that wait for their turn, as limits do.
local function name_of(job)
  return 'fair:' .. job.queue .. ':' .. job.fair_by
end

function Fairness.is_turn(name)
  return string.sub(name, 1, 5) == 'fair:'
end

function Fairness.check(call, job)
  Limits.check_key(call, job, 'fair_by')
end

-- The job stands in the work for its tenant.
function Fairness.stand(call, job)
  if job.fair_by then
    rcall('ZADD', Keys.limit_order(call, name_of(job)), call.text, job.jid)
  end
end

-- Does another job stand for the tenant, so that this one waits for its turn?
local function waits(call, job)
  if not job.fair_by then -- It took the place of one of a tenant.
    return false
  end
  local order = Keys.limit_order(call, name_of(job))
  return rcall('EXISTS', order) == 1 and not rcall('ZSCORE', order, job.jid)
end

-- The next one stands in the work, if there is none.
local function bring_next(call, name)
  if rcall('EXISTS', Keys.limit_order(call, name)) == 1 then
    return
  end
  local jid, score = Pieces.last(Keys.limit_parked(call, name))
  if jid then
    if score < math.huge then -- It was not taken from its worker.
      score = Queue.score(tonumber(rcall('HGET', Keys.job(call, jid), 'priority') or 0) or 0, call.now)
    end
    Limits.bring(call, name, jid, Times.text(score))
    Limits.note_look(call, name, call.now + LATEST)
  end
end

-- The job stands for its tenant no longer.
function Fairness.step_down(call, job)
  local name = job.fair_by and name_of(job)
  if name and rcall('ZREM', Keys.limit_order(call, name), job.jid) == 1 then
    bring_next(call, name)
  end
end

-- (What becomes ready otherwise takes its turn when it is met.)
function Fairness.stored(call, job)
  if job.state ~= 'waiting' then
    return
  elseif not waits(call, job) then
    return Fairness.stand(call, job)
  end
  local work = Keys.queue(call, job.queue).work
  job.score = rcall('ZSCORE', work, job.jid)
  rcall('ZREM', work, job.jid)
  Limits.park(call, job, name_of(job))
end

function Fairness.revived(call, job)
  Fairness.stored(call, job)
end

function Fairness.admit(call, job)
  if waits(call, job) then
    return 'park', name_of(job)
  end
end

function Fairness.started(call, job)
  Fairness.step_down(call, job)
end

function Fairness.ended(call, job, was)
  if was ~= 'running' and not Job.PENDING[job.state] then
    Fairness.step_down(call, job)
  end
end

function Fairness.gone(call, job)
  if job.state == 'waiting' or job.state == 'stalled' then
    Fairness.step_down(call, job)
  end
end

-- A tenant waits long for its turn: what stands for it must stand in the work.
function Fairness.look(call, name)
  local order = Keys.limit_order(call, name)
  local jid = Pieces.first(order)
  local queue = jid and rcall('HGET', Keys.job(call, jid), 'queue')
  if jid and not (queue and rcall('ZSCORE', Keys.queue(call, queue).work, jid)) then
    rcall('ZREM', order, jid)
  end
  Limits.note_look(call, name, call.now + LATEST)
  bring_next(call, name)
end
