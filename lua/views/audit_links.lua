-- The invariants of what hangs on jobs: unique keys, what was needed, what was spawned, what was delivered.

local complain = AuditJobs.complain

-- A key that does not expire names a job that counts as its holder.
function AuditLinks.check_unique(report, text)
  local name = key.unique(text)
  if call('PTTL', name) == -1 and not Unique.holder(text) then
    complain(report, 'unique key %s names job %s, which does not hold it', text, call('GET', name))
  end
end

function AuditLinks.check_needs(report, jid)
  if call('EXISTS', key.job(jid)) == 0 then
    complain(report, 'there is a list of what job %s needs, but no record', jid)
  end
end

-- What was spawned and is not complete knows its spawner, and is known to have failed or not.
function AuditLinks.check_spawned(report, spawner)
  local list = SortedSet.head(key.spawned(spawner), 'WITHSCORES')
  for n = 1, #list, 2 do
    local jid, failed = list[n], list[n + 1] == '1'
    local record, known = call('HMGET', key.job(jid), 'state', 'spawners', 'rare'), false
    for _, one in ipairs(Record.read('spawners', record[2], {})) do
      known = known or one == spawner
    end
    known = known or Record.is_bad('spawners', record[2]) -- Which is said where its record is checked.
    if not known or not record[3] then
      complain(report, 'job %s does not know that job %s has spawned it', jid, spawner)
    elseif record[1] == 'complete' or (record[1] == 'failed') ~= failed then
      complain(report, 'job %s, spawned by %s, is %s, but listed otherwise', jid, spawner, record[1])
    end
  end
end

-- Marks of deliveries go by themselves, and are not too many.
function AuditLinks.check_deliveries(report)
  local id, many = Deliveries.never_ending(), Deliveries.too_many()
  if id then
    complain(report, 'delivery %s is remembered for more than a week', id)
  end
  if many > 0 then
    complain(report, '%s deliveries more are remembered than is allowed', tostring(many))
  end
end
