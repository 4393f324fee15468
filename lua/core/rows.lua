-- The jobs of a put, as they come: a shape, which says what they have in common; columns, the names of what differs; then
-- the values of each job, a row. One job is a batch of one row.

local POLICIES = { [''] = 'block', block = 'block', cancel = 'cancel', run = 'run' }

local function set_of(jids)
  local set = {}
  for _, jid in ipairs(jids) do
    set[jid] = true
  end
  return set
end

-- What a put may say of a job: how each text is checked, and what of the job it sets. (Features have further options.)
local CHECKS = {}

function CHECKS.jid(call, job, text)
  job.jid = Arguments.jid(call, text)
  job.key = Keys.job(call, text)
end

function CHECKS.queue(call, job, text)
  job.queue = Arguments.queue(call, text)
end

function CHECKS.klass(call, job, text)
  job.klass = Arguments.given(call, 'klass', text)
end

function CHECKS.data(call, job, text)
  Arguments.json(call, 'data', text)
  job.data = text
end

function CHECKS.delay(call, job, text)
  job.delay = Arguments.number(call, 'delay', text)
end

function CHECKS.priority(call, job, text)
  job.priority = Arguments.number(call, 'priority', text)
end

function CHECKS.retries(call, job, text)
  job.retries = Arguments.whole(call, 'retries', text, 0)
end

function CHECKS.tags(call, job, text)
  job.tag_list = Arguments.tag_list(call, text)
end

function CHECKS.depends(call, job, text)
  job.depends = Arguments.names(call, 'depends', text)
  Arguments.bounded(call, #job.depends)
end

function CHECKS.context(call, job, text)
  Arguments.object(call, 'context', text)
  job.context = text
end

function CHECKS.on_failure(call, job, text)
  job.on_failure = POLICIES[text]
  if not job.on_failure then
    Errors.argument(call, 'on_failure must be block, cancel or run, not ' .. Errors.value(text))
  end
end

function CHECKS.met(call, job, text)
  job.met = set_of(Arguments.names(call, 'met', text))
end

function CHECKS.at(call, job, text)
  job.at = Arguments.number(call, 'at', text)
end

function CHECKS.since(call, job, text)
  job.since = Arguments.number(call, 'since', text)
end

function CHECKS.absent(_, job, text)
  job.absent = text
end

function CHECKS.spare(_, job, text)
  job.spare = text
end

-- Those of old clients; others that they send are ignored.
local OLD = { priority = true, retries = true, tags = true, depends = true }

-- Checks what is said of a job under this name.
local function take(call, job, name, text)
  local check = CHECKS[name]
  if check then
    return check(call, job, text)
  end
  local letter = Features.of_option(name)
  if not letter then
    Arguments.unknown(call, name)
  end
  job.options = job.options or {}
  job.options[name] = text
  Features.use(job, letter)
end

-- When the job is due: `delay` seconds after now, or after `since` (when the tick was of a job that recurs), or `at` a time.
local function check_time(call, job)
  if job.since then
    job.since = math.min(job.since, call.now)
    job.delay = math.max(0, job.delay - (call.now - job.since))
  end
  if job.at then
    if job.delay ~= 0 then
      Errors.argument(call, 'at says when the job is due: delay must be 0 with it')
    end
    local at = job.at
    job.at, job.delay = at > call.now and at or nil, math.max(0, at - call.now)
  end
end

-- Checks what belongs together of a job whose parts are checked.
local function complete(call, job)
  Arguments.given(call, 'jid', job.jid)
  Arguments.given(call, 'queue', job.queue)
  Arguments.given(call, 'klass', job.klass)
  Arguments.given(call, 'data', job.data)
  job.delay = job.delay or 0
  if job.since or job.at then
    check_time(call, job)
  end
  if job.depends then
    -- (It may be complete or not there yet: then its dependency on itself would seem to be satisfied.)
    Cycles.refuse_self(call, job.jid, job.depends)
  end
  return job
end

-- Shapes and columns by their texts, as they were read: there are few, and they say the same each time. (Long ones are
-- not kept: together they would take much memory.)
local MOST_KEPT, LONGEST = 500, 1000
local shapes, columns, kept = {}, {}, 0

local function keep(list, text, value)
  if #text > LONGEST then
    return value
  end
  kept = kept + 1
  if kept > MOST_KEPT then
    shapes, columns, kept = {}, {}, 1
    list = nil
  end
  if list then
    list[text] = value
  end
  return value
end

-- What jobs have in common: a JSON object of texts. -> a job without the rest
local function shape_of(call, text)
  if shapes[text] then
    return shapes[text]
  end
  local shape = {}
  for name, value in pairs(Arguments.object(call, 'shape', text)) do
    if type(value) ~= 'string' then
      Errors.argument(call, 'shape must be a JSON object of texts, but ' .. Errors.name(name) .. ' is none')
    end
    take(call, shape, name, value)
  end
  return keep(shapes, text, shape)
end

-- The names of what differs, separated by spaces.
local function columns_of(call, text)
  if columns[text] then
    return columns[text]
  end
  local names, seen = {}, {}
  for name in string.gmatch(text, '[^ ]+') do
    if seen[name] then
      Errors.argument(call, 'columns names ' .. Errors.name(name) .. ' twice')
    end
    names[#names + 1], seen[name] = name, true
  end
  if not seen.jid then
    Errors.argument(call, 'columns must name the jid, not only ' .. Errors.value(text))
  end
  return keep(columns, text, names)
end

-- What must be given where there is a column for it. (Elsewhere an empty value says nothing.)
local ALWAYS = { jid = true, queue = true, klass = true, data = true }

-- One row: the values args[at …] of these columns.
local function parse_row(call, shape, names, args, at)
  -- With room for what it mostly gets: a table that grows is copied.
  local job = {
    jid = nil,
    key = nil,
    queue = nil,
    klass = nil,
    data = nil,
    delay = nil,
    priority = nil,
    retries = nil,
    tag_list = nil,
    old = nil,
    put = nil,
    state = nil,
    left_alone = nil,
  }
  for name, value in pairs(shape) do
    job[name] = value
  end
  if job.options then
    job.options = {}
    for name, value in pairs(shape.options) do
      job.options[name] = value
    end
  end
  for n = 1, #names do
    local name, value = names[n], args[at + n - 1]
    if value ~= '' or ALWAYS[name] then
      take(call, job, name, value)
    end
  end
  return complete(call, job)
end

-- Checks the jobs of a put: args[i] is their shape, then columns, then the values of each job. -> the jobs
function Rows.parse(call, args, i)
  local shape = shape_of(call, Arguments.given(call, 'shape', args[i]))
  local names = columns_of(call, Arguments.given(call, 'columns', args[i + 1]))
  local jobs, width = {}, #names
  if (#args - i - 1) % width ~= 0 then
    Errors.argument(call, 'the values of the last job are incomplete: ' .. width .. ' columns')
  end
  Arguments.bounded(call, (#args - i - 1) / width)
  for at = i + 2, #args, width do
    jobs[#jobs + 1] = parse_row(call, shape, names, args, at)
  end
  return jobs
end

-- A job of which all is given as texts by name.
function Rows.job(call, given)
  local job = {}
  for name, text in pairs(given) do
    take(call, job, name, text)
  end
  return complete(call, job)
end

-- The job of an old client's put: queue jid klass data delay [name value]...
function Rows.of_old_client(call, args, i)
  local job = {}
  if (#args - i - 4) % 2 ~= 0 and #args > i + 4 then
    Errors.argument(call, 'Odd number of additional args')
  end
  for n, name in ipairs({ 'queue', 'jid', 'klass', 'data', 'delay' }) do
    take(call, job, name, Arguments.given(call, name, args[i + n - 1]))
  end
  for n = i + 5, #args, 2 do
    if OLD[args[n]] then
      take(call, job, args[n], args[n + 1])
    end
  end
  return complete(call, job)
end
