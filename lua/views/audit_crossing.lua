-- The invariants of what goes into other namespaces: entries of the outbox, notes of jobs that were moved.

local complain = AuditJobs.complain

-- A target is listed while entries wait for it, and no longer.
function AuditCrossing.check_targets(report)
  for _, target in ipairs(call('ZRANGE', key.crossing(), 0, -1)) do
    if call('EXISTS', key.crossing_to(target)) == 0 then
      complain(report, 'nothing waits for namespace %s, but it is listed', target)
    end
  end
end

-- Entries are in the order of their numbers, none above the last that was drawn, and their namespace has an id.
function AuditCrossing.check_entries(report, target)
  local last, id = Hash.values(key.meta(), 'crossed', 'namespace')
  local before = 0
  if not call('ZSCORE', key.crossing(), target) then
    complain(report, 'entries wait for namespace %s, which is not listed', target)
  end
  if not id then
    complain(report, 'entries wait for namespace %s, and their own has no id', target)
  end
  for _, packed in ipairs(call('LRANGE', key.crossing_to(target), 0, Arguments.most - 1)) do
    local fine, sequence = pcall(Crossing.sequence_of, packed)
    if not fine or not sequence then
      complain(report, 'an entry for namespace %s is damaged', target)
    elseif sequence <= before or sequence > (tonumber(last or nil) or 0) then
      complain(report, 'entry %s for namespace %s is not in order', string.format('%.0f', sequence), target)
    end
    before = fine and sequence or before
  end
end

-- A job that stands for another one is open until that has ended.
function AuditCrossing.check_stand_in(report, jid, record)
  if record.state == 'depends' and record.open ~= '1' then
    complain(report, 'job %s stands for one in namespace %s, but could be handed out', jid, record.elsewhere)
  elseif not ({ depends = true, complete = true, failed = true })[record.state] then
    complain(report, 'job %s stands for one in namespace %s, but is %s', jid, record.elsewhere, record.state)
  end
end

-- A job that others watch knows it, and has not ended for good.
function AuditCrossing.check_watchers(report, jid)
  local state, watched = Hash.values(key.job(jid), 'state', 'watched')
  if not watched or state == 'complete' then
    complain(report, 'job %s is watched, but %s', jid, watched and 'complete' or 'does not know it')
  end
end

-- Where a job went is listed, and forgotten by itself.
function AuditCrossing.check_moved(report, jid)
  if not call('ZSCORE', key.moved(), jid) or call('TTL', key.moved_to(jid)) < 0 then
    complain(report, 'where job %s was moved is not listed, or kept for ever', jid)
  end
end

function AuditCrossing.check_number(report)
  local many = Moving.too_many()
  if many > 0 then
    complain(report, '%s jobs more are remembered as moved than is allowed', tostring(many))
  end
end
