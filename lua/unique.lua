-- Unique keys: each names one job, which stands for all that are put with the key meanwhile. A job whose type was
-- renamed has its key under each of the type's names.

local sub, floor = string.sub, math.floor

local LONGEST = 2 ^ 31 -- seconds; the server refuses times to live that it cannot count

-- A debounced job starts at the latest after this many times its debounce.
local MOST_DEBOUNCES = 10

local LETTERS = { ['start'] = 's', ['end'] = 'e' }

local PENDING = { waiting = true, scheduled = true, depends = true }

-- In which states a job counts as the holder of its keys, by the first letter of its field
-- `unique`: until it starts, or until it has ended. (Behind the letter stand the keys, a JSON list.)
local COUNTS = {
  s = PENDING,
  e = { waiting = true, scheduled = true, depends = true, stalled = true, running = true },
}

local function counts(field, state)
  local states = COUNTS[sub(field, 1, 1)]
  return states and states[state]
end

-- The keys in a record's field, the one under the present name of the job type first.
function Unique.keys(field)
  return Record.read('unique', field, {})
end

-- The field of a job that has these keys until its 'start' or its 'end'; nil for another text.
function Unique.field(until_when, keys)
  local letter = LETTERS[until_when]
  return letter and letter .. cjson.encode(keys)
end

local function has(field, text)
  for _, own in ipairs(Unique.keys(field)) do
    if own == text then
      return true
    end
  end
  return false
end

local ANSWERS = { keep = true, replace = true, take = true }

local function check_until(command, job)
  local until_when = job.unique_until or 'end'
  job.unique_field = Unique.field(until_when, job.keys)
  if job.unique_field then
    return
  end
  local seconds = tonumber(until_when) and Arguments.number(command, 'unique_until', until_when)
  if not seconds or seconds <= 0 then
    Errors.argument(
      command,
      'unique_until must be start, end or seconds above 0, not %s',
      Errors.value(until_when)
    )
  end
  job.period = math.min(seconds, LONGEST) - (scope.now - (job.since or scope.now))
end

local function check_debounce(command, job)
  if job.delay ~= 0 then
    Errors.argument(command, 'debounce says when the job is due: delay must be 0 with it')
  elseif job.conflict == 'take' then
    Errors.argument(command, 'debounce moves the job that holds the key: conflict must not be take')
  end
  local seconds = Arguments.number(command, 'debounce', job.debounce)
  if seconds < 0 then
    Errors.argument(command, 'debounce must not be below 0, as ' .. job.debounce .. ' is')
  end
  job.debounce = seconds
  job.first = job.since or scope.now
  job.delay = math.max(0, job.first + seconds - scope.now)
end

-- Checks the options of a put that have to do with its key, as the call gave them.
function Unique.check(command, job)
  if not job.unique then
    for _, name in ipairs({ 'unique_until', 'conflict', 'debounce', 'unique_aliases' }) do
      if job[name] then
        Errors.argument(command, name .. ' can only be used with unique')
      end
    end
    return
  end
  if job.unique == '' or #job.unique > 255 then
    Errors.argument(command, 'unique must have 1 to 255 bytes, not ' .. #job.unique)
  end
  job.keys = { job.unique }
  if job.unique_aliases then
    for _, text in ipairs(Arguments.names(command, 'unique_aliases', job.unique_aliases)) do
      job.keys[#job.keys + 1] = text
    end
  end
  job.conflict = job.conflict or 'keep'
  if not ANSWERS[job.conflict] then
    Errors.argument(command, 'conflict must be keep, replace or take, not %s', Errors.value(job.conflict))
  end
  check_until(command, job)
  if job.debounce then
    check_debounce(command, job)
  end
end

-- Who holds the key, or nil: the jid, its state if it still exists, whether it is held for a period. A job that has ended or
-- is gone holds nothing, unless the key was given for a period.
function Unique.holder(text)
  local name = key.unique(text)
  local jid = call('GET', name)
  if not jid then
    return nil
  end
  local state, field = Hash.values(key.job(jid), 'state', 'unique')
  if call('PTTL', name) > 0 then
    return jid, state, true
  elseif field and counts(field, state) and has(field, text) then
    return jid, state
  end
  return nil
end

-- The same for who wants to have the key: a job that can no longer start does not hold it, and ends. (One for a period
-- is held whatever becomes of the job.)
function Unique.in_force(text)
  local jid, state, is_for_period = Unique.holder(text)
  if jid and not is_for_period then
    if Deadline.is_missed(state, call('HGET', key.job(jid), 'deadline')) then
      Deadline.note(jid)
      return nil
    end
  end
  return jid, state
end

-- The keys name this job from now on. `period` in seconds, or nil: as long as it counts.
function Unique.take(jid, keys, period)
  for _, text in ipairs(keys) do
    if period then
      call('SET', key.unique(text), jid, 'PX', string.format('%d', math.max(1, floor(period * 1000))))
    else
      call('SET', key.unique(text), jid)
    end
  end
end

-- A job with this field is in a state in which it may count again: it gets its keys back, but for those that
-- another holds now.
function Unique.regain(jid, field, state)
  for _, text in ipairs(field and counts(field, state) and Unique.keys(field) or {}) do
    local name = key.unique(text)
    local is_free = call('SET', name, jid, 'NX')
    if not is_free and call('GET', name) ~= jid and not Unique.in_force(text) then
      call('SET', name, jid)
    end
  end
end

-- Who has a key of a job with this field that has ended, and would need it to go on. -> jid, state; nil: nobody, or
-- one that waits for this job
function Unique.other(jid, field)
  for _, text in ipairs(Unique.keys(field)) do
    local other, state = Unique.in_force(text)
    local waits = state == 'depends' and #CycleDetection.harmless(jid, { other }) == 0
    if other and other ~= jid and not waits then
      return other, state
    end
  end
end

-- The job does not count any longer. What another has taken is left to it.
function Unique.free(jid, field)
  for _, text in ipairs(Unique.keys(field)) do
    local name = key.unique(text)
    if call('GET', name) == jid then
      call('DEL', name)
    end
  end
end

-- A job starts: some count no longer.
function Unique.started(jid, field)
  if field and sub(field, 1, 1) == 's' then
    Unique.free(jid, field)
  end
end

-- The key in a record's field as it is shown, or nil.
function Unique.shown(field)
  return Unique.keys(field)[1]
end

-- Is a job in this state still to start?
function Unique.is_pending(state)
  return PENDING[state] or state == 'stalled'
end

-- Refuses a job that would take its key again, of which jid and unique are known.
function Unique.refuse(command, job, jid, state)
  Errors.raise(
    'STATE',
    '%s(): The unique key %s of job %s belongs to job %s%s',
    command,
    Errors.name(job.unique),
    Errors.name(job.jid),
    Errors.name(jid),
    state and ', which is ' .. state or ''
  )
end

-- What becomes of a job whose key another one holds: 'keep' that one, 'replace' it (it has not
-- started), or put the new one 'behind' it (it runs); nil: put the new one as if there were none.
function Unique.answer(command, job, jid, state)
  local pending = Unique.is_pending(state)
  if job.conflict == 'take' then
    return nil
  elseif job.debounce and pending then
    return 'replace'
  elseif job.conflict == 'keep' then
    return 'keep'
  elseif job.regains then
    Unique.refuse(command, job, jid, state)
  elseif pending then
    return 'replace'
  elseif state == 'running' then
    return 'behind'
  end
  return nil
end

-- When a debounced job is due that was first put then. One that is due already keeps its place among
-- those that wait: `overdue` says since when, so that further puts do not hold it back for ever.
function Unique.push_back(job, first)
  if job.debounce and first then
    job.first = math.min(first, scope.now) -- the clock may have been set back
    local due = math.min((job.since or scope.now) + job.debounce, first + MOST_DEBOUNCES * job.debounce)
    job.delay = math.max(0, due - scope.now)
    job.overdue = due < scope.now and due or nil
  end
end
