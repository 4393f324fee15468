-- What a put may say of a job: each option checked, before anything is written.

PutOptions.known = {
  priority = true,
  tags = true,
  retries = true,
  depends = true,
  context = true,
  absent = true,
  spare = true,
}

-- Those that few jobs have.
local RARE = {}
for _, name in ipairs({
  'on_failure',
  'unique',
  'unique_until',
  'unique_aliases',
  'conflict',
  'debounce',
  'expires',
  'at',
  'since',
  'expires_at',
  'workflow',
  'limit_key',
  'fair_by',
  'met',
}) do
  PutOptions.known[name], RARE[name] = true, true
end

local POLICIES = { [''] = 'block', block = 'block', cancel = 'cancel', run = 'run' }

-- The keys of limits.
local function check_keys(command, job)
  for _, name in ipairs({ 'limit_key', 'fair_by' }) do
    local text = job[name]
    if text and (text == '' or #text > 255) then
      Errors.argument(command, name .. ' must have 1 to 255 bytes, not ' .. #text)
    end
  end
end

-- (`since` is when the tick was of a job that recurs: what is counted from the put is counted from then.)
local function check_rare(command, job)
  if job.on_failure then
    local policy = POLICIES[job.on_failure]
    if not policy then
      Errors.argument(
        command,
        'on_failure must be block, cancel or run, not ' .. Errors.value(job.on_failure)
      )
    end
    job.on_failure = policy
  end
  if job.since then
    job.since = math.min(Arguments.number(command, 'since', job.since), scope.now)
    job.delay = math.max(0, job.delay - (scope.now - job.since))
  end
  if job.at then
    if job.delay ~= 0 then
      Errors.argument(command, 'at says when the job is due: delay must be 0 with it')
    end
    local at = Arguments.number(command, 'at', job.at)
    job.at, job.delay = at > scope.now and at or nil, math.max(0, at - scope.now)
  end
  job.met = job.met and Dependencies.set_of(Arguments.names(command, 'met', job.met))
  Unique.check(command, job)
  check_keys(command, job)
  if job.expires_at then
    if job.expires then
      Errors.argument(command, 'expires and expires_at exclude each other')
    end
    job.deadline = Arguments.number(command, 'expires_at', job.expires_at)
  elseif job.expires then
    job.deadline = (job.since or scope.now) + Arguments.number(command, 'expires', job.expires)
  end
  if job.workflow then
    if job.workflow == '' or #job.workflow > 255 then
      Errors.argument(command, 'workflow must have 1 to 255 bytes, not ' .. #job.workflow)
    end
    Workflow.check(command, job.workflow)
  end
end

local function check_common(command, job)
  if job.priority then
    job.priority = Arguments.number(command, 'priority', job.priority)
  end
  if job.retries then
    job.retries = Arguments.whole(command, 'retries', job.retries, 0)
  end
  job.tags = job.tags and Arguments.tag_list(command, job.tags)
  job.depends = job.depends and Arguments.names(command, 'depends', job.depends)
  if job.depends then
    Arguments.bounded(command, #job.depends)
    -- (It may be complete or not there yet: then its dependency on itself would seem to be satisfied.)
    CycleDetection.refuse_self(command, job.jid, job.depends)
  end
  if job.context then
    Arguments.object(command, 'context', job.context)
  end
end

-- Checks one job's arguments from args[i] on; options stand at args[from .. to].
function PutOptions.parse(command, args, i, from, to)
  local job = {
    queue = Arguments.queue(command, args[i]),
    jid = Arguments.jid(command, args[i + 1]),
    klass = Arguments.given(command, 'klass', args[i + 2]),
    data = args[i + 3],
    delay = Arguments.number(command, 'delay', args[i + 4]),
    priority = nil,
    retries = nil,
    tags_text = '{}',
  }
  Arguments.json(command, 'data', job.data)
  if from > to then
    return job
  end
  local known, rare = PutOptions.known, false
  for n = from, to, 2 do
    local name, value = args[n], args[n + 1]
    if known[name] then
      job[name] = value
      rare = rare or RARE[name]
    else
      Arguments.unknown(command, name)
    end
  end
  check_common(command, job)
  if rare then
    job.rare = true
    check_rare(command, job)
  end
  return job
end
