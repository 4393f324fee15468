-- The invariants of a job's record: what an audit asks of each.

-- Violations told in one step: the first of them say what is wrong.
local TOLD = 100

function AuditJobs.complain(report, ...)
  if #report.violations < TOLD then
    report.violations[#report.violations + 1] = Errors.name(Errors.worded(...))
  end
end

-- Where a job must be, by its state.
AuditJobs.place = {
  waiting = 'work',
  stalled = 'work',
  running = 'locks',
  scheduled = 'scheduled',
  depends = 'depends',
}

-- Are there dependents of the job that its end has not reached yet?
function AuditJobs.is_told_later(jid)
  return call('ZSCORE', key.releasing(), jid) or call('ZSCORE', key.cascading(), jid)
end

-- Some of a job's set of others; none of what is no set, which is told where its key is met.
local function some(name)
  local members = redis.pcall('SRANDMEMBER', name, Arguments.most)
  return members.err and {} or members
end

local function is_member(name, jid)
  return redis.pcall('SISMEMBER', name, jid) == 1
end

local RARE = {
  'unique',
  'workflow',
  'on_failure',
  'deadline',
  'fixed',
  'first',
  'behind',
  'beyond',
  'spawners',
  'spawns',
  'followed',
  'limit_key',
  'fair_by',
  'turn',
  'aside',
  'called',
  'holds',
  'entity',
}

local function check_rare(report, jid, record)
  if record.entity then
    AuditEntities.check_job(report, jid)
  end
  if record.rare == '1' then
    AuditLimits.check_job(report, jid)
    return
  end
  for n, value in ipairs(call('HMGET', key.job(jid), unpack(RARE))) do
    if value then
      AuditJobs.complain(report, 'job %s has an unexpected field %s', jid, RARE[n])
    end
  end
end

local function check_running(report, jid, record)
  local expires, score =
    Record.read('expires', record.expires, 0), call('ZSCORE', key.place(record.queue, 'locks'), jid)
  local held = call('ZSCORE', key.held(record.worker), jid)
  if record.grace == '1' then
    if held then
      AuditJobs.complain(
        report,
        'job %s has lost its lock and is on the list of worker %s',
        jid,
        record.worker
      )
    end
    return
  end
  if expires == 0 then
    AuditJobs.complain(report, 'job %s is running and never expires', jid)
  end
  if score and math.abs(tonumber(score) - expires) > 1e-4 then
    AuditJobs.complain(report, 'job %s expires at %s, its lock at %s', jid, expires, score)
  end
  if held and math.abs(tonumber(held) - expires) > 1e-4 then
    AuditJobs.complain(report, 'job %s expires at %s, on the list of its worker at %s', jid, expires, held)
  end
  -- A worker that was silent for too long has been forgotten, and its list with it.
  if not held and expires > scope.now and call('ZSCORE', key.workers(), record.worker) then
    AuditJobs.complain(report, 'job %s is running but not on the list of worker %s', jid, record.worker)
  end
end

local function check_depends(report, jid, record)
  if record.open == '1' then
    return
  end
  local others = some(key.dependencies(jid))
  if #others == 0 then
    AuditJobs.complain(report, 'job %s depends on nothing', jid)
  end
  for _, other in ipairs(others) do
    local state = call('HGET', key.job(other), 'state')
    if
      (state or 'complete') == 'complete'
      and not AuditJobs.is_told_later(other)
      and not AuditWorkflows.is_gate(other)
    then
      AuditJobs.complain(report, 'job %s waits for %s, which is %s', jid, other, state or 'gone')
    elseif not is_member(key.dependents(other), jid) then
      AuditJobs.complain(report, 'job %s does not know its dependent %s', other, jid)
    end
  end
end

local function check_dependents(report, jid)
  for _, other in ipairs(some(key.dependents(jid))) do
    if not is_member(key.dependencies(other), jid) then
      AuditJobs.complain(report, 'job %s does not know that it waits for %s', other, jid)
    end
  end
end

-- Finding a job in a failure group is linear: done in short ones only.
local SEARCHED = 200

local function check_failed(report, jid, record)
  local group = Record.read('failure', record.failure, {}).group
  if not group then
    AuditJobs.complain(report, 'job %s failed without a group', jid)
  elseif
    call('SISMEMBER', key.failures(), group) == 0 and call('SISMEMBER', key.failures(), 'other') == 0
  then
    AuditJobs.complain(report, 'failure group %s of job %s is not listed', group, jid)
  elseif call('LLEN', key.group(group)) <= SEARCHED then
    local times = #call('LPOS', key.group(group), jid, 'COUNT', 0)
    if times ~= 1 and call('SISMEMBER', key.failures(), 'other') == 0 then
      AuditJobs.complain(report, 'job %s is %s times in its failure group %s', jid, times, group)
    end
  end
end

local function check_places(report, jid, record)
  local wanted = AuditJobs.place[record.state]
  if wanted == 'work' and record.aside then
    wanted = 'aside'
  end
  for _, place in ipairs({ 'work', 'locks', 'scheduled', 'depends', 'aside' }) do
    local there = call('ZSCORE', key.place(record.queue, place), jid)
    if there and place ~= wanted then
      AuditJobs.complain(report, 'job %s is %s and in %s of %s', jid, record.state, place, record.queue)
    elseif not there and place == wanted then
      AuditJobs.complain(report, 'job %s is %s but not in %s of %s', jid, record.state, place, record.queue)
    end
  end
  local completed = call('ZSCORE', key.completed(), jid)
  if record.state == 'complete' and not completed then
    AuditJobs.complain(report, 'job %s is complete but not among the completed', jid)
  elseif completed and record.state ~= 'complete' then
    AuditJobs.complain(report, 'job %s is %s and among the completed', jid, record.state)
  elseif not wanted and record.state ~= 'complete' and record.state ~= 'failed' then
    AuditJobs.complain(report, 'job %s has no such state: %s', jid, tostring(record.state))
  end
end

local FIELDS = {
  'jid',
  'state',
  'queue',
  'worker',
  'expires',
  'grace',
  'failure',
  'tags',
  'open',
  'token',
  'remaining',
  'retries',
  'rare',
  'aside',
  'entity',
}

local function check_numbers(report, jid, record)
  local last = Record.number(call('HGET', key.meta(), 'token')) or 0
  if Record.read('token', record.token, 0) > last then
    AuditJobs.complain(report, 'token %s of job %s is above the last one drawn', record.token, jid)
  end
  local remaining, retries =
    Record.read('remaining', record.remaining), Record.read('retries', record.retries)
  if
    not (record.remaining and record.retries)
    or (remaining and (remaining < -1 or remaining > (retries or remaining)))
  then
    AuditJobs.complain(
      report,
      'job %s has %s of %s retries left',
      jid,
      tostring(record.remaining),
      tostring(record.retries)
    )
  end
end

-- Everything in the record that is more than a text, and every line of its history.
local function check_readable(report, jid)
  local fields = Record.fields()
  for n, text in ipairs(call('HMGET', key.job(jid), unpack(fields))) do
    if Record.is_bad(fields[n], text) then
      AuditJobs.complain(report, 'job %s: %s', jid, Record.words(fields[n], text))
    end
  end
  local entries = redis.pcall('LRANGE', key.history(jid), 0, Arguments.most - 1)
  if entries.err then
    return -- It is no list, which is told where its key is met.
  end
  if #entries == 0 and not History.unwritten(call('HGET', key.job(jid), 'put')) then
    AuditJobs.complain(report, 'job %s has no history', jid)
  end
  for n, text in ipairs(entries) do
    local entry, is_bad = Record.entry_of(text)
    if is_bad then
      AuditJobs.complain(report, 'job %s: line %s of its history cannot be read: %s', jid, n, entry[3].text)
    end
  end
end

function AuditJobs.check(report, jid)
  local values, record = call('HMGET', key.job(jid), unpack(FIELDS)), {}
  for n, field in ipairs(FIELDS) do
    record[field] = values[n] or nil
  end
  check_readable(report, jid)
  if record.jid ~= jid or not record.state or not record.queue or not record.worker then
    AuditJobs.complain(report, 'record of job %s is damaged', jid)
    return
  end
  check_places(report, jid, record)
  check_numbers(report, jid, record)
  check_rare(report, jid, record)
  check_dependents(report, jid)
  for _, tag in ipairs(Record.read('tags', record.tags, {})) do
    if not call('ZSCORE', key.tag(tag), jid) then
      AuditJobs.complain(report, 'tag %s does not know job %s', tag, jid)
    end
  end
  if record.state == 'running' then
    check_running(report, jid, record)
  elseif record.state == 'depends' then
    check_depends(report, jid, record)
  elseif record.state == 'failed' then
    check_failed(report, jid, record)
  end
end
