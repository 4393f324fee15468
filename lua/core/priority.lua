-- The priority of a single job.

local rcall = redis.call

-- priority jid p
function Priority.set(call, args, i)
  local jid = Arguments.name(call, 'jid', args[i])
  local priority = Arguments.number(call, 'priority', args[i + 1])
  local job = Job.must_read(call, jid)
  local queue = Keys.queue(call, job.queue)
  for _, place in ipairs({ queue.work, queue.parked }) do
    local score = job.state == 'waiting' and rcall('ZSCORE', place, jid)
    if score then
      local text = Times.text(tonumber(score) - job.priority + priority)
      rcall('ZADD', place, text, jid)
      if job.parked then
        rcall('ZADD', Keys.limit_parked(call, job.parked), text, jid)
      end
    end
  end
  rcall('HSET', job.key, 'priority', Times.text(priority))
  return priority
end
