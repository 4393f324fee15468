-- THE SEAM. What few jobs use is a feature: a file, a letter, and functions for some of eight points in a job's life.
--
-- A job's record has the letters of the features that it uses in the field `more`. The straight path (put, take,
-- finish) calls the features of a job's letters at each point, in the order below, and knows no feature by name. A
-- feature has
--   fields     the fields of a record that belong to it: read and written where the job has the letter
--   options    the options of a put that belong to it
-- and of these functions those that it needs, each called with (call, job, …):
--   check      a put: checks job.options and sets its fields of the job; what they leave open goes on as in job.old, the
--              record that there is, if any. It writes nothing. -> nil; 'instead', jid: that job stands for this one;
--              'replace', jid: this one takes the place of that one, which has not started (then it is checked once more,
--              as `fresh`); 'absorb', job: of one that the same call puts; 'behind', jid: it waits for the end of that one;
--              'leave': it is left alone, as it is there already
--   stored     the job was put, or was enqueued again; job.state is its state now, job.old the record before, if any
--   admit      the job is about to be handed out; writes nothing. -> nil if it may; 'park', name of a limit, when to look
--              again; 'fail', group, message; 'stay': it goes back to where it was, and so do those behind it
--   started    it is handed out, until job.expires
--   renewed    its lock holds until job.expires now
--   ended      it left its worker, or ended without a run; (call, job, was): job.state is its state now, `was` the one before
--   revived    it had failed and is enqueued again: job.state is its state now
--   gone       its record is about to go, or to be put again; (call, job, why): 'canceled', 'expired' or 'replaced'

local find, sub = string.find, string.sub
local rcall = redis.call

-- In the order in which they are asked.
local FEATURES = {
  { 'd', 'Deadlines' },
  { 'u', 'Unique' },
  { 'e', 'Entities' },
  { 'l', 'Limits' },
  { 'f', 'Fairness' },
  { 'w', 'Workflows' },
  { 'c', 'Spawned' },
  { 'o', 'PutOnce' },
  { 'a', 'Waiters' },
  { 't', 'Detached' },
}

local POINTS = { 'check', 'stored', 'admit', 'started', 'renewed', 'ended', 'revived', 'gone' }

-- Letters of `uses` in capitals stand for what the namespace has, rather than for a feature of jobs:
--   D  jobs depend on others: set once, for ever
--   C  options are set      G  tags               H  jobs that limits hold back    I  templates         L  limits are set
--   N  lists of needs       P  paused queues      S  spawned jobs                  T  tracked jobs
--   F  a queue was forgotten that was in use      Q  schedules whose jobs may wait in queues that no worker asks for jobs
--   R  dependents to be carried on                W  workers that wait for any queue
--   X  records of canceled jobs
-- Some make all jobs subject to a feature:
local FOR_ALL = { L = 'l' }

local orders = {}
for n, feature in ipairs(FEATURES) do
  orders[feature[1]] = n
end

-- Letters in order and without repetition.
local function sorted(letters)
  local text = ''
  for _, feature in ipairs(FEATURES) do
    if find(letters, feature[1], 1, true) then
      text = text .. feature[1]
    end
  end
  return text
end

-- What is known of a set of letters: the fields, and for each point the functions. There are few such sets.
local known = {}

local function learn(letters)
  local set = { fields = {} }
  for _, point in ipairs(POINTS) do
    set[point] = {}
  end
  for letter in string.gmatch(sorted(letters), '.') do
    local feature = modules[FEATURES[orders[letter]][2]]
    for _, field in ipairs(feature.fields or {}) do
      set.fields[#set.fields + 1] = field
    end
    for _, point in ipairs(POINTS) do
      local list = set[point]
      list[#list + 1] = feature[point]
    end
  end
  return set
end

local function set_of(letters)
  local set = known[letters]
  if not set then
    set = learn(letters)
    known[letters] = set
  end
  return set
end

-- The letters of a job with this field `more`, and of those that all jobs of the namespace have; nil for none.
function Features.letters(call, more)
  local all = call.for_all
  if all == nil then
    all = false
    for capital, letter in pairs(FOR_ALL) do
      if call.has[capital] then
        all = (all or '') .. letter
      end
    end
    call.for_all = all
  end
  if not all then
    return more and more ~= '' and more or nil
  elseif more and find(more, all, 1, true) then
    return more
  end
  return (more or '') .. all
end

-- Reads the fields of a job's features into its table: of those that its record names (`more`).
function Features.read(job)
  local fields = set_of(job.more or '').fields
  if #fields > 0 then
    local values = rcall('HMGET', job.key, unpack(fields))
    for n = 1, #fields do
      job[fields[n]] = values[n] or nil
    end
  end
end

-- The names and values of the fields of a job's features, appended to a list.
function Features.append(job, list)
  local fields = set_of(job.letters).fields
  for n = 1, #fields do
    local value = job[fields[n]]
    if value then
      list[#list + 1], list[#list + 2] = fields[n], value
    end
  end
end

-- The fields of these letters.
function Features.fields(letters)
  return set_of(letters).fields
end

-- Lets all features of a job check it. -> the first answer
function Features.check(call, job)
  local functions, answer, other = set_of(job.letters).check, nil, nil
  for n = 1, #functions do
    local its_answer, its_other = functions[n](call, job)
    if not answer then
      answer, other = its_answer, its_other
    end
  end
  return answer, other
end

-- Calls the features of a job at a point, but for admit and check.
function Features.at(point, call, job, more)
  local functions = set_of(job.letters)[point]
  for n = 1, #functions do
    functions[n](call, job, more)
  end
end

-- Asks the features of a job whether it may start: the first answer counts.
function Features.admit(call, job)
  local functions = set_of(job.letters).admit
  for n = 1, #functions do
    local answer, one, two = functions[n](call, job)
    if answer then
      return answer, one, two
    end
  end
end

local options

-- The letter of the feature that an option of a put belongs to, or nil.
function Features.of_option(name)
  if not options then
    options = {}
    for _, feature in ipairs(FEATURES) do
      for _, option in ipairs(modules[feature[2]].options or {}) do
        options[option] = feature[1]
      end
    end
  end
  return options[name]
end

-- A job that is being put uses the feature of this letter.
function Features.use(job, letter)
  job.letters = sorted((job.letters or '') .. letter)
end

-- A stored job uses the feature from now on.
function Features.add(call, job, letter)
  if not find(job.more or '', letter, 1, true) then
    job.more = sorted((job.more or '') .. letter)
    job.letters = Features.letters(call, job.more)
    rcall('HSET', job.key or Keys.job(call, job.jid), 'more', job.more)
  end
end

-- Sets of letters by their texts: there are few.
local sets = {}

-- The letters in use as a set, `call.has`.
function Features.begin(call, uses)
  local set = sets[uses]
  if not set then
    set = {}
    for letter in string.gmatch(uses, '.') do
      set[letter] = true
    end
    sets[uses] = set
  end
  call.uses, call.has, call.for_all = uses, set, nil
end

-- The namespace has what this letter stands for from now on.
function Features.note(call, letter)
  if not call.has[letter] then
    Features.begin(call, call.uses .. letter)
    call.uses_changed = true
  end
end

-- It has it no longer.
function Features.forget(call, letter)
  if call.has[letter] then
    local at = find(call.uses, letter, 1, true)
    Features.begin(call, sub(call.uses, 1, at - 1) .. sub(call.uses, at + 1))
    call.uses_changed = true
  end
end
