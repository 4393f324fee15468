-- Tracked jobs: those whose every change is published under their ids.

local rcall = redis.call

-- The job is tracked no longer. -> 1 if it was
function Tracking.untrack(call, jid)
  Events.tracked(call, 'untrack', jid)
  local removed = rcall('ZREM', call.keys.tracked, jid)
  if rcall('EXISTS', call.keys.tracked) == 0 then
    Features.forget(call, 'T')
  end
  return removed
end

-- track [track|untrack jid]
function Tracking.track(call, args, i)
  if args[i] == nil then
    local jobs, expired = {}, {}
    for _, jid in ipairs(rcall('ZRANGE', call.keys.tracked, 0, Arguments.most - 1)) do
      local shown = JobView.show(call, jid)
      if shown then
        jobs[#jobs + 1] = shown
      else
        expired[#expired + 1] = jid
      end
    end
    return Json.with(cjson.encode({ expired = expired }), 'jobs', Json.list(jobs))
  end
  local word = string.lower(args[i])
  if word ~= 'track' and word ~= 'untrack' then
    Errors.argument(call, 'Unknown word ' .. Errors.name(args[i]) .. ', it must be track or untrack')
  end
  local jid = Arguments.name(call, 'jid', args[i + 1])
  if rcall('EXISTS', Keys.job(call, jid)) == 0 then
    Errors.no_job(call, jid)
  end
  if word == 'untrack' then
    return cjson.encode(Tracking.untrack(call, jid))
  end
  Events.tracked(call, 'track', jid)
  Features.note(call, 'T')
  return cjson.encode(rcall('ZADD', call.keys.tracked, call.text, jid))
end
