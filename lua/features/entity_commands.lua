-- What operators do to entities that are in no worker's hands: those named, or the first ones whose last run has failed.

local rcall = redis.call

local MOST = 250 -- entities changed by one call

local KILLED = { group = 'killed', message = 'It was killed before its retries were used up' }

local WAITING = { waiting = true, scheduled = true, stalled = true }

-- Changes those that are named, or the first of the list. -> how many of them wait
local function each_waiting(call, args, i, change)
  local queue, entities = Dead.named(call, args, i)
  local jids, number = {}, 0
  for n, entity in ipairs(entities) do
    jids[n] = Entities.jid(queue, entity)
  end
  if #entities == 0 then
    jids = rcall('ZRANGE', Keys.retrying(call, queue), 0, MOST - 1)
  end
  for _, jid in ipairs(jids) do
    local job = Job.read(call, jid)
    if job and job.entity and WAITING[job.state] and change(job) then
      number = number + 1
    end
  end
  return number
end

-- entities.kill queue [entity...] -> how many were changed: their payloads go to the dead, as many as one call may move
function EntityCommands.kill(call, args, i)
  local left = Payloads.most
  return each_waiting(call, args, i, function(job)
    if left <= 0 then
      return false
    end
    local waiting, failure = Keys.payloads(call, job.jid), Json.shown(job.failure)
    local flat = Payloads.lowest(waiting, left, Payloads.bytes * 8)
    left = left - #flat / 2
    Dead.add(call, job, failure.group and failure or KILLED, flat)
    if Payloads.move(waiting, Keys.dead_payloads(call, job.jid), flat) then
      Queue.leave(call, Keys.queue(call, job.queue), job.jid)
      Entities.erase(call, job)
    end
    return true
  end)
end

-- entities.drop queue [entity...] -> how many were deleted, with their payloads
function EntityCommands.drop(call, args, i)
  return each_waiting(call, args, i, function(job)
    Cancel.remove(call, job.jid, 'call')
    return true
  end)
end
