-- THE KEYS: what each is called behind the namespace's prefix, its type, and what its scores mean.
--
-- `call.keys.meta` is a key that there is once. `Keys.job(call, jid)` is one of a family: <> stands for what is given.

local sub, find, byte = string.sub, string.find, string.byte
local quote = cjson.encode

local PATTERNS = {
  config = 'config', --                 hash   option -> value, only what was set
  queues = 'queues', --                 zset   queue -> when it was first seen
  paused_queues = 'paused_queues', --   set    names of paused queues
  paused_reasons = 'paused_reasons', -- hash   paused queue -> why, by whom and when, JSON
  workers = 'workers', --               zset   worker -> last pop or heartbeat
  failures = 'failures', --             set    failure groups that are not empty
  tracked = 'tracked', --               zset   jid -> when tracking began
  tags = 'tags', --                     zset   tag -> number of jobs that carry it
  completed = 'completed', --           zset   jid -> when it was completed
  canceled = 'canceled', --             zset   canceled jid of which a record is left -> when

  -- clock (the last time given out), token (the last one drawn), format (of what is stored), uses (letters of the
  -- features in use: see features.lua), skews (how often the clock was set back by more than a minute)
  meta = 'meta', --                     hash
  reply = 'reply:<>', --                string the last request of a client, and the reply; expires
  once = 'once:<>', --                  string the reply to a request of this name; expires

  -- A job. Its record has the fields of the protocol, what few jobs have (context, progress, crashes), and:
  --   token   of the run that holds it
  --   put     when it was put, in milliseconds, while its history has not begun
  --   noted   the start of the run that history tells of already
  --   more    the letters of the features that it uses; each has further fields
  job = 'j:<>', --                      hash
  history = 'j:<>-history', --          list   JSON triples [when, what, more], oldest first: see history.lua
  dependencies = 'j:<>-dependencies', -- set   jids this job still waits for
  dependents = 'j:<>-dependents', --    set    jids that wait for this job
  needs = 'needs:<>', --                list   jids the job was ever made to depend on, in order
  result = 'result:<>', --              string what the job returned, JSON; expires
  canceled_job = 'canceled:<>', --      hash   the record of a canceled job; expires
  canceled_history = 'canceled_history:<>', -- list  its history; expires
  template = 'r:<>', --                 hash   a recurring job's template
  held = 'w:<>:jobs', --                zset   jids the worker holds -> when the lock expires
  group = 'f:<>', --                    list   jids failed in the group, newest first
  tag = 't:<>', --                      zset   jids that carry the tag -> when it was given
  releasing = 'releasing', --           zset   completed jid with dependents still to be released -> when
  cascading = 'cascading', --           zset   failed or canceled jid with dependents still to be looked at -> when

  -- Queues. Each has these places:
  --   work       waiting jobs -> priority - time / 10^10, highest first
  --   locks      running jobs -> when the lock expires
  --   scheduled  delayed jobs -> when they become ready
  --   depends    jobs that wait for others -> when they were put there
  --   recur      templates -> when the next job is due
  --   parked     jobs that a limit holds back -> as in work
  --   schedules  schedules that put jobs into it -> 0
  --   ticks      those of them whose last job no worker has been offered -> by when it is missed
  place = 'q:<>-<>', --                 zset
  ready = 'ready', --                   zset   queue that may have something -> 0: see queues.lua
  wake = 'wake:<>', --                  zset   the marker of a queue, or of a choice of them: see wake.lua
  glob_waits = 'glob_waits', --         zset   choice of queues for which workers wait -> until when; expires
  timer = 'timer:<>', --                string when an idle worker looks at the queue next; expires

  -- Limits. (What <> is: type:<klass>, key:<klass>:<key>, fair:<queue>:<tenant>, or queue:<queue>, which has a rate only.)
  limit_parked = 'limit:<>:parked', --   zset   jid that the limit holds back -> its score in the work
  limit_holders = 'limit:<>:holders', -- zset   jid that runs under the limit -> when its lock and the grace behind it end
  limit_starts = 'limit:<>:starts', --   zset   token of a run that started in the window behind us -> when; expires
  limit_order = 'limit:<>:order', --     zset   jid of a tenant that stands in the work -> since when
  limits_parked = 'parked', --           zset   limits that hold something back -> when to look at them

  -- Workflows and spawned jobs.
  workflow = 'workflow:<>', --          hash   a workflow's record
  workflow_jobs = 'workflow:<>:jobs', -- list  the jids of its jobs, each behind those that it depends on
  gate = 'gate:<>', --                  set    jids that nothing but their workflow holds back: see workflows.lua
  open_gates = 'open_gates', --         zset   workflow that is not released yet -> when something was last put
  workflows = 'workflows', --           zset   workflow with steps left to be carried on -> since when
  children = 'children:<>', --          zset   jid that the job has spawned and that has not ended -> 0 to 2: see spawned.lua
  spawners = 'spawners', --             set    jobs with such children
  offspring = 'offspring:<>', --        list   all jids that the job has spawned, in order; expires
  produced = 'produced:<>', --          set    jids that were put once under this name; expires

  -- Entities: see entities.lua.
  payloads = 'payloads:<>', --          zset   payload that waits (JSON) -> its score; of the job of an entity
  taken = 'taken:<>', --                zset   the same of those that its run has taken
  retrying = 'retrying:<>', --          zset   job of an entity of the queue that waits after a failed run -> when it is due
  entity_types = 'entity_types', --     hash   queue with entities -> the job type that they belong to
  dead = 'dead:<>', --                  zset   dead entity of the queue -> when it died last
  dead_entity = 'dead_entity:<>', --    hash   the last error of a dead entity, and what its job was; by its jid
  dead_payloads = 'dead_payloads:<>', -- zset  payload that is dead -> its score

  -- Schedules.
  schedules = 'schedules', --           zset   schedule -> its next tick, or when that is to be computed
  schedule = 'schedule:<>', --          hash   what its jobs are, when they come, how many came
  paused_schedules = 'paused_schedules', -- zset schedule -> when it was paused
  declared_schedules = 'declared_schedules', -- hash schedule -> its owner, the code that declares it
  ticker = 'ticker', --                 string the worker that serves schedules; expires

  -- Workers and other clients.
  worker = 'worker:<>', --              string what a worker says about itself, JSON; expires
  orders = 'orders:<>', --              list   what is asked of a worker, the oldest first; expires
  detached = 'detached:<>', --          string a detached job's latest run, JSON; expires
  awaiting = 'awaiting:<>', --          zset   waiter -> until when; of job:<jid> or workflow:<id>
  ended = 'ended:<>', --                list   an element when what the waiter waits for has ended
  unique = 'unique:<>', --              string the jid that holds the key; expires if it was given for a period

  -- Statistics: s:wait and s:run have total, mean, vk and a histogram (the bins ms0 to ms500 are ours), s:stats has counters
  stat = 's:<>:<>:<>', --               hash   by kind, day and queue
  minutes = 'm:<>:<>:<>', --            hash   by queue, hour and kind: minute of the hour -> jobs
  samples = 'samples', --               list   timings that the statistics do not have yet
}

-- What <> is given for: one, two or three parts.
local function family(pattern)
  local parts, from = {}, 1
  local at, to = find(pattern, '<>', 1, true)
  while at do
    parts[#parts + 1] = sub(pattern, from, at - 1)
    from = to + 1
    at, to = find(pattern, '<>', from, true)
  end
  local first, second, third, last = parts[1], parts[2], parts[3], sub(pattern, from)
  if third then
    return function(call, one, two, three)
      return call.prefix .. first .. one .. second .. two .. third .. three .. last
    end
  elseif second then
    return function(call, one, two)
      return call.prefix .. first .. one .. second .. two .. last
    end
  end
  return function(call, one)
    return call.prefix .. first .. one .. last
  end
end

setmetatable(Keys, {
  __index = function(_, name)
    local made = family(PATTERNS[name] or error('no key ' .. name))
    Keys[name] = made
    return made
  end,
})

-- What is behind the record's key in those of a job's lists.
local LIST_ENDINGS = { '-history', '-dependencies', '-dependents' }

-- The end of a jid that no job may have, because its record would be a list of another job; or nil.
function Keys.list_ending(jid)
  local last = byte(jid, -1)
  if last ~= 121 and last ~= 115 then
    return nil -- neither y nor s, like nearly all
  end
  for _, ending in ipairs(LIST_ENDINGS) do
    if sub(jid, -#ending) == ending then
      return ending
    end
  end
end

-- A job's record. (What would name a list of another job gets a key that never exists: there is no such job.)
function Keys.job(call, jid)
  if Keys.list_ending(jid) then
    return call.prefix .. '!' .. jid
  end
  return call.prefix .. 'j:' .. jid
end

-- Namespaces and queues whose keys are kept as texts for later calls.
local MOST_KEPT = 2000
local namespaces, queues, kept = {}, {}, 0

local function namespace(prefix)
  local keys = setmetatable({}, {
    __index = function(keys, name)
      local text = prefix .. PATTERNS[name]
      keys[name] = text
      return text
    end,
  })
  return keys
end

local function make_room()
  kept = kept + 1
  if kept > MOST_KEPT then
    namespaces, queues, kept = {}, {}, 1
  end
end

-- The keys that there are once in the namespace.
function Keys.of_namespace(prefix)
  local keys = namespaces[prefix]
  if not keys then
    make_room()
    keys = namespace(prefix)
    namespaces[prefix] = keys
  end
  return keys
end

-- A queue: its `name`, the keys of its places, of its marker (`wake`) and `timer`, its name as JSON (`quoted`).
function Keys.queue(call, name)
  local of_prefix = queues[call.prefix]
  if not of_prefix then
    of_prefix = {}
    queues[call.prefix] = of_prefix
  end
  local queue = of_prefix[name]
  if queue then
    return queue
  end
  make_room()
  local place = call.prefix .. 'q:' .. name .. '-'
  queue = {
    name = name,
    quoted = quote(name),
    work = place .. 'work',
    locks = place .. 'locks',
    scheduled = place .. 'scheduled',
    depends = place .. 'depends',
    recur = place .. 'recur',
    parked = place .. 'parked',
    schedules = place .. 'schedules',
    ticks = place .. 'ticks',
    wake = call.prefix .. 'wake:' .. name,
    timer = call.prefix .. 'timer:' .. name,
  }
  of_prefix[name] = queue
  return queue
end
