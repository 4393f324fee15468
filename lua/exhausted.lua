-- Jobs whose last lock was lost: they fail for good in the call that finds it out, which tells them to its worker.

local ENOUGH = 4 * 1024 * 1024 -- bytes of data told by one call

-- A job, which still is as its last worker had it, is about to fail. Who has asked for it is told: its group and
-- message, and the job as it is told to who reserves it.
function Exhausted.note(jid, group, message, entity)
  if scope.asks_exhausted then
    local batch = entity and call('HGET', key.job(jid), 'batch')
    local told, job = scope.exhausted or {}, Pop.told(jid, entity, batch)
    told[#told + 1] = { group, message, job }
    scope.exhausted, scope.exhausted_bytes = told, (scope.exhausted_bytes or 0) + #job[4]
  end
end

-- Are further ones left to the next call?
function Exhausted.is_enough()
  return (scope.exhausted_bytes or 0) >= ENOUGH
end
