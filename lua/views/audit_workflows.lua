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
    AuditJobs.complain(report, 'workflow %s: its counter %s cannot be read', id, record.bad)
    return
  end
  local counted = record.complete + record.failed + record.canceled + record.held
  for _, field in ipairs({ 'complete', 'failed', 'canceled', 'held' }) do
    if record[field] < 0 then
      AuditJobs.complain(report, 'workflow %s counts %s jobs %s', id, record[field], field)
    end
  end
  if counted > record.total then
    AuditJobs.complain(report, 'workflow %s counts %s of %s jobs', id, counted, record.total)
  end
  if record.state ~= Workflow.judged(record) then
    AuditJobs.complain(
      report,
      'workflow %s is %s and should be %s',
      id,
      tostring(record.state),
      Workflow.judged(record)
    )
  end
  local listed = call('ZSCORE', key.workflows(), id)
  if record.chore and not listed then
    AuditJobs.complain(report, 'workflow %s is %s and nothing carries it on', id, record.chore)
  end
  if not record.chore and call('LLEN', key.workflow_jobs(id)) > record.total then
    AuditJobs.complain(report, 'workflow %s lists more jobs than it counts', id)
  end
end

-- workflow:<id> and workflow:<id>:jobs
function AuditWorkflows.check(report, name)
  local id = match(name, '^(.*):jobs$')
  if not id then
    check_record(report, name)
  elseif call('EXISTS', key.workflow(id)) == 0 then
    AuditJobs.complain(report, 'there is a list of jobs of workflow %s, but no record', id)
  end
end

-- staged:<id>, staged:<id>:jids and staged:<id>:instead
function AuditWorkflows.check_staged(report, name)
  local id = match(name, '^[^:]*')
  if call('TTL', key.staged(name)) < 0 and call('HGET', key.workflow(id), 'chore') ~= 'unpacking' then
    AuditJobs.complain(report, 'what was staged for workflow %s stays for ever', id)
  end
end
