-- The invariants of workflows: what their counters say together, and what is kept beside them.

local match = string.match

-- The gate of a workflow that is being unpacked is a dependency without a record.
function AuditWorkflows.is_gate(jid)
  local id = match(jid, '^gate:(.*)$')
  return id and call('HGET', key.workflow(id), 'chore') == 'unpacking'
end

local function check_record(report, id)
  local record = Workflow.read(id)
  if record.bad then
    AuditJobs.complain(report, 'workflow ' .. id .. ': its counter ' .. record.bad .. ' cannot be read')
    return
  end
  local counted = record.complete + record.failed + record.canceled + record.held
  for _, field in ipairs({ 'complete', 'failed', 'canceled', 'held' }) do
    if record[field] < 0 then
      AuditJobs.complain(report, 'workflow ' .. id .. ' counts ' .. record[field] .. ' jobs ' .. field)
    end
  end
  if counted > record.total then
    AuditJobs.complain(
      report,
      'workflow ' .. id .. ' counts ' .. counted .. ' of ' .. record.total .. ' jobs'
    )
  end
  if record.state ~= Workflow.judged(record) then
    AuditJobs.complain(
      report,
      'workflow ' .. id .. ' is ' .. tostring(record.state) .. ' and should be ' .. Workflow.judged(record)
    )
  end
  local listed = call('ZSCORE', key.workflows(), id)
  if record.chore and not listed then
    AuditJobs.complain(report, 'workflow ' .. id .. ' is ' .. record.chore .. ' and nobody carries on')
  end
  if not record.chore and call('LLEN', key.workflow_jobs(id)) > record.total then
    AuditJobs.complain(report, 'workflow ' .. id .. ' lists more jobs than it counts')
  end
end

-- workflow:<id> and workflow:<id>:jobs
function AuditWorkflows.check(report, name)
  local id = match(name, '^(.*):jobs$')
  if not id then
    check_record(report, name)
  elseif call('EXISTS', key.workflow(id)) == 0 then
    AuditJobs.complain(report, 'there is a list of jobs of workflow ' .. id .. ', but no record')
  end
end

-- staged:<id>, staged:<id>:jids and staged:<id>:instead
function AuditWorkflows.check_staged(report, name)
  local id = match(name, '^[^:]*')
  if call('TTL', key.staged(name)) < 0 and call('HGET', key.workflow(id), 'chore') ~= 'unpacking' then
    AuditJobs.complain(report, 'what was staged for workflow ' .. id .. ' stays for ever')
  end
end
