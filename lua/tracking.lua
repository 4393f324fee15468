-- Tracked jobs: those whose every change is published under their ids.

-- Is the job tracked?
function Tracking.is_tracked(jid)
  local name = key.tracked()
  return not ExistenceCache.is_absent(name) and call('ZSCORE', name, jid) and true or false
end

-- The jobs of a batch that are tracked; mostly there are none at all.
function Tracking.among(jids)
  local tracked, name = {}, key.tracked()
  if not ExistenceCache.is_absent(name) and call('EXISTS', name) == 1 then
    for _, jid in ipairs(jids) do
      tracked[jid] = Tracking.is_tracked(jid)
    end
  end
  return tracked
end

-- track [track|untrack jid]
function Tracking.track(args, i)
  if args[i] == nil then
    local jobs, expired = {}, {}
    for _, jid in ipairs(SortedSet.head(key.tracked())) do
      local shown = Job.show(jid)
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
    Errors.argument('track', 'Unknown word ' .. Errors.name(args[i]) .. ', it must be track or untrack')
  end
  local jid = Arguments.name('track', 'jid', args[i + 1])
  if call('EXISTS', key.job(jid)) == 0 then
    Errors.no_job('track', jid)
  end
  Events.tracked(word, jid)
  if word == 'track' then
    return cjson.encode(call('ZADD', key.tracked(), scope.now, jid))
  end
  return cjson.encode(call('ZREM', key.tracked(), jid))
end
