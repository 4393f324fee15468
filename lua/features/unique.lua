-- Unique keys: each names one job, which stands for all that are put with the key meanwhile. A job whose type was
-- renamed has its key under each of the type's names.
--
-- The record's field `unique` is a letter, for until when the job holds its keys (s: until it starts, e: until it has
-- ended), and a JSON list of the keys. A key may also be held for a period, even after the job has ended.

local sub, floor = string.sub, math.floor
local rcall = redis.call

Unique.fields = { 'unique', 'first' }
Unique.options = { 'unique', 'unique_until', 'unique_aliases', 'conflict', 'debounce' }

local LONGEST = 2 ^ 31 -- seconds; the server refuses times to live that it cannot count

-- A debounced job starts at the latest after this many times its debounce.
local MOST_DEBOUNCES = 10

local LETTERS = { ['start'] = 's', ['end'] = 'e' }
local POLICIES = { keep = true, replace = true, take = true }
local PENDING = Job.PENDING

-- Does a job with this field hold its keys in this state?
local function counts(field, state)
  local letter = sub(field or '', 1, 1)
  if letter == 's' then
    return PENDING[state] and state ~= 'stalled'
  end
  return letter == 'e' and (PENDING[state] or state == 'running')
end

-- The keys in a record's field, the one under the present name of the job type first.
local function keys_of(field)
  return Json.shown(field and sub(field, 2))
end

local function has(field, text)
  for _, own in ipairs(keys_of(field)) do
    if own == text then
      return true
    end
  end
  return false
end

local function check_until(call, job, options)
  local text = options.unique_until or 'end'
  if LETTERS[text] then
    job.unique = LETTERS[text] .. cjson.encode(job.unique_keys)
    return
  end
  local seconds = tonumber(text) and Arguments.number(call, 'unique_until', text)
  if not seconds or seconds <= 0 then
    local words = 'unique_until must be start, end or seconds above 0, not %s'
    Errors.argument(call, words, Errors.value(text))
  end
  job.period = math.min(seconds, LONGEST) - (call.now - (job.since or call.now))
end

local function check_debounce(call, job, options)
  if job.delay ~= 0 and not job.debounce then
    Errors.argument(call, 'debounce says when the job is due: delay must be 0 with it')
  elseif options.conflict == 'take' then
    Errors.argument(call, 'debounce moves the job that holds the key: conflict must not be take')
  end
  local seconds = Arguments.number(call, 'debounce', options.debounce)
  if seconds < 0 then
    Errors.argument(call, 'debounce must not be below 0, as ' .. options.debounce .. ' is')
  end
  job.debounce = seconds
  job.first = job.since or call.now
  job.delay = math.max(0, job.first + seconds - call.now)
end

-- Checks the options of a put, as the call gave them.
local function check_options(call, job)
  local options = job.options or {}
  if not options.unique then
    for _, name in ipairs({ 'unique_until', 'conflict', 'debounce', 'unique_aliases' }) do
      if options[name] then
        Errors.argument(call, name .. ' can only be used with unique')
      end
    end
    return false
  end
  if options.unique == '' or #options.unique > 255 then
    Errors.argument(call, 'unique must have 1 to 255 bytes, not ' .. #options.unique)
  end
  job.unique_keys = { options.unique }
  if options.unique_aliases then
    for _, text in ipairs(Arguments.names(call, 'unique_aliases', options.unique_aliases)) do
      job.unique_keys[#job.unique_keys + 1] = text
    end
  end
  job.conflict = options.conflict or 'keep'
  if not POLICIES[job.conflict] then
    local words = 'conflict must be keep, replace or take, not %s'
    Errors.argument(call, words, Errors.value(job.conflict))
  end
  check_until(call, job, options)
  if options.debounce then
    check_debounce(call, job, options)
  end
  return true
end

-- Which job holds a key: its jid, its state, whether for a period; nil if none does. A job that can no longer start holds
-- nothing, and ends.
local function holder(call, text)
  local name = Keys.unique(call, text)
  local jid = rcall('GET', name)
  if not jid then
    return nil
  end
  local state, field, deadline = unpack(rcall('HMGET', Keys.job(call, jid), 'state', 'unique', 'deadline'))
  if rcall('PTTL', name) > 0 then
    return jid, state or nil, true
  elseif not field or not counts(field, state) or not has(field, text) then
    return nil
  elseif Deadlines.is_missed(call, state, deadline) then
    Deadlines.note(call, jid)
    return nil
  end
  return jid, state
end

-- When a debounced job is due that was put `first` then. One that is due already keeps its place among those that wait:
-- `overdue` says since when, so that further puts do not hold it back for ever.
local function push_back(call, job, first)
  first = tonumber(first)
  if job.debounce and first then
    job.first = math.min(first, call.now) -- the clock may have been set back
    local due = math.min((job.since or call.now) + job.debounce, first + MOST_DEBOUNCES * job.debounce)
    job.delay = math.max(0, due - call.now)
    job.overdue = due < call.now and due or nil
  end
end

local function refuse(call, job, jid, state)
  Errors.refuse(
    call,
    'STATE',
    'The unique key %s of job %s belongs to job %s%s',
    Errors.name(job.unique_keys[1]),
    Errors.name(job.jid),
    Errors.name(jid),
    state and ', which is ' .. state or ''
  )
end

-- What becomes of a job whose key another one holds: 'instead', 'replace' or 'behind' that one; nil: it is put as if there
-- were none.
local function answer(call, job, jid, state)
  if job.conflict == 'take' then
    return nil
  elseif job.debounce and PENDING[state] then
    return 'replace'
  elseif job.conflict == 'keep' then
    return 'instead'
  elseif job.regains then
    refuse(call, job, jid, state)
  elseif PENDING[state] then
    return 'replace'
  end
  return state == 'running' and 'behind' or nil
end

-- Which job has the first of the job's keys that is held: one of the same call; or nil, the jid of another, its state.
local function first_holder(call, job, taken)
  for _, text in ipairs(job.unique_keys) do
    local earlier = taken[text]
    if earlier and earlier.jid ~= job.jid then
      return earlier
    end
    local jid, state = holder(call, text)
    if jid then
      return nil, jid, state
    end
  end
end

-- Looks whether another job holds a key of the job, and what follows.
local function resolve(call, job, taken)
  local earlier, jid, state = first_holder(call, job, taken)
  if earlier then
    local its_answer = answer(call, job, earlier.jid, 'waiting')
    if its_answer == 'replace' then
      push_back(call, job, earlier.first)
      return 'absorb', earlier
    end
    return its_answer, earlier.jid
  elseif not jid then
    return nil
  elseif jid == job.jid then
    if job.old and PENDING[state] then
      push_back(call, job, job.old.first)
    end
    return nil
  end
  local its_answer = answer(call, job, jid, state)
  job.instead_gone = its_answer == 'instead' and not state or nil
  return its_answer, jid
end

-- A job that is put again without a key has the one that it had; if it has ended it takes it again, or is refused if
-- another one has it.
local function inherit(job)
  local old = job.old
  if not old or job.fresh or not old.unique then
    return false
  end
  job.unique, job.first = old.unique, old.first
  if old.state ~= 'failed' and old.state ~= 'complete' then
    return false
  end
  job.unique_keys, job.regains = keys_of(old.unique), true
  return true
end

function Unique.check(call, job)
  if job.fresh and job.old then -- it has taken the place of another one
    push_back(call, job, job.old.first)
    local behind = job.old.behind
    if behind and rcall('SISMEMBER', Keys.dependencies(call, job.jid), behind) == 1 then
      job.behind = behind
    end
    return
  elseif not check_options(call, job) and not inherit(job) then
    return
  end
  local plan = job.plan
  plan.keys = plan.keys or {}
  local its_answer, other = resolve(call, job, plan.keys)
  if its_answer ~= 'instead' and its_answer ~= 'absorb' then
    for _, text in ipairs(job.unique_keys) do
      plan.keys[text] = job
    end
  end
  return its_answer, other
end

-- The keys name this job from now on, for a period or as long as it counts.
local function take(call, job)
  for _, text in ipairs(job.unique_keys) do
    local name = Keys.unique(call, text)
    if job.period then
      rcall('SET', name, job.jid, 'PX', string.format('%d', math.max(1, floor(job.period * 1000))))
    else
      rcall('SET', name, job.jid)
    end
  end
end

-- A job is in a state in which it may count again: it gets its keys back, but for those that another holds now.
local function regain(call, job)
  if not counts(job.unique, job.state) then
    return
  end
  for _, text in ipairs(keys_of(job.unique)) do
    local name = Keys.unique(call, text)
    if not rcall('SET', name, job.jid, 'NX') and not holder(call, text) then
      rcall('SET', name, job.jid)
    end
  end
end

-- The job does not count any longer. What another has taken is left to it.
local function free(call, job)
  for _, text in ipairs(keys_of(job.unique)) do
    local name = Keys.unique(call, text)
    if rcall('GET', name) == job.jid then
      rcall('DEL', name)
    end
  end
end

function Unique.stored(call, job)
  if not job.unique_keys or job.regains then
    regain(call, job)
  elseif (tonumber(job.deadline or nil) or math.huge) > call.now and (job.period or 1) > 0 then
    take(call, job) -- (One that is late from the start holds nothing.)
  end
end

function Unique.started(call, job)
  if not counts(job.unique, 'running') then
    free(call, job)
  end
end

function Unique.ended(call, job, was)
  if job.state == 'complete' or job.state == 'failed' then
    free(call, job)
  elseif was == 'running' then
    regain(call, job)
  end
end

function Unique.revived(call, job)
  regain(call, job)
end

function Unique.gone(call, job, why)
  if why ~= 'replaced' or job.new.unique ~= job.unique then
    free(call, job)
  end
end

-- Which job has a key of a failed one, and would have to end for that to go on. -> jid, state; nil: none, or one that waits
-- for this job
function Unique.other(call, job)
  for _, text in ipairs(keys_of(job.unique)) do
    local jid, state = holder(call, text)
    local waits = jid and state == 'depends' and #Cycles.harmless(call, job.jid, { jid }) == 0
    if jid and jid ~= job.jid and not waits then
      return jid, state
    end
  end
end

-- Refuses to let a failed job go on whose key another one has by now.
function Unique.refuse_if_taken(call, job)
  local other, state = Unique.other(call, job)
  if other then
    job.unique_keys = keys_of(job.unique)
    refuse(call, job, other, state)
  end
end

-- The key of a record as it is shown, or nil.
function Unique.shown(record)
  return keys_of(record.unique)[1]
end
