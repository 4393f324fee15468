-- How modules come about, the state of the present call, and THE KEY GLOSSARY.
--
-- A job queue whose every change of state is one atomic call of this script. Called
-- without KEYS it speaks the wire protocol of qless-core; called with KEYS it has the
-- server's clock, fencing tokens, repeatable requests and batches.

-- A module is a table that is made when something of it is first wanted: lua/build.py makes a function of each
-- file, which does that, under the file's name in camel case; `maker_of` returns it. So a script pays only for what
-- its call runs, and the order of the files means nothing. (In the built file `Job.get` is `modules.Job.get`
-- elsewhere.) All of this exists twice, for calls with KEYS and for those without (`without_keys`): there Legacy
-- changes some functions of a module as soon as it is made.
local maker_of

local modules = setmetatable({}, {
  __index = function(modules, name)
    maker_of(name)()
    if without_keys and modules.Legacy[name] then
      modules.Legacy[name]()
    end
    return rawget(modules, name)
  end,
})

local call = redis.call

-- All that is known of the call that is being served; Serve begins it empty, so that nothing is left of the
-- call before. Modules keep what they have to remember until the end of the call in fields of their own.
--   prefix   of every key ('ql:' without KEYS)
--   now      seconds since the epoch, the only clock there is
--   live     the namespace has seen a call with KEYS, so tokens and wake-ups are kept
--   reading  the call must not write
--   sharded  events go to sharded channels, which a cluster keeps with the keys
local scope = {}

-- THE KEYS: what each is called behind the prefix, where <> stands for what the function of its name is given,
-- its type, and what its score means. The names `queue` and `job` in the comments stand for such.
--
-- Those that many calls use:
local PATTERNS = {
  config = 'config', --                 hash   option -> value, only what was set
  queues = 'queues', --                 zset   queue -> when it was first seen
  paused_queues = 'paused_queues', --   set    names of paused queues
  workers = 'workers', --               zset   worker -> last pop or heartbeat
  failures = 'failures', --             set    failure groups that are not empty
  tracked = 'tracked', --               zset   jid -> when tracking began
  tags = 'tags', --                     zset   tag -> number of jobs that carry it
  completed = 'completed', --           zset   jid -> when it was completed

  -- The jids of a queue, of which <> is the place:
  --   work       waiting      priority - time / 10^10, highest first
  --   locks      running      when the lock expires
  --   scheduled  delayed      when it becomes ready
  --   depends    dependent    when it was put there
  --   recur      templates    when the next job is due
  --   aside      waiting      as in work: jobs that a limit holds back
  --   ticks      schedules    from when on a tick of cron is missed (+inf: it is made up for), whose job nobody who
  --                           serves the queue has been offered yet
  --   openings   limits       when to look whether there is room for those they hold back in this queue
  place = 'q:<>-<>', --                 zset

  -- (A job's record is j:<jid>: see key.job.)
  history = 'j:<>-history', --          list   JSON triples [when, what, more], oldest first; see history.lua
  dependencies = 'j:<>-dependencies', -- set   jids this job still waits for
  dependents = 'j:<>-dependents', --    set    jids that wait for this job
  template = 'r:<>', --                 hash   a recurring job's template
  held = 'w:<>:jobs', --                zset   jids the worker holds -> when the lock expires
  group = 'f:<>', --                    list   jids failed in the group, newest first
  tag = 't:<>', --                      zset   jids that carry the tag -> when it was given

  -- What follows exists only where calls with KEYS are made: clients of qless-core know nothing of it.

  -- clock (the last time given out), token (the last one drawn), format (of what is stored), skews (how often
  -- the clock was set back by more than a minute), looked (when the index of queues was compared with them) and
  -- reply:<client> (its last request and the reply)
  meta = 'meta', --                     hash
  releasing = 'releasing', --           zset   completed jid with dependents still to be released -> when
  cascading = 'cascading', --           zset   failed or canceled jid with dependents still to be told -> when
  canceled = 'canceled', --             zset   canceled jid of which there is a record -> when; expires by itself
  canceled_job = 'canceled:<>', --      hash   what is known of a canceled job; expires by itself
  paused_reasons = 'paused_reasons', -- hash   paused queue -> why, by whom and when, JSON
  unique = 'unique:<>', --              string the jid that holds the key; expires if it was given for a period
  needs = 'needs:<>', --                list   what the job was ever made to depend on, in order
  workflows = 'workflows', --           zset   workflow with steps left to be carried on -> since when
  result = 'result:<>', --              string what the job returned, JSON; expires by itself

  nonempty = 'nonempty', --             zset   queue that may have something -> 0: see nonempty.lua

  -- Clients that wait for work.
  marker = 'marker:<>', --              zset   queue that has something for an idle worker -> 0; of that queue, or
  --                                           of all that workers of globs serve; expires by itself
  timer = 'timer:<>', --                string '<due> <client>': when something falls due of what <> stands for, and
  --                                           the idle client that looks then; expires by itself
  glob_waits = 'glob_waits', --         zset   names and globs that idle workers serve, JSON -> until when one waits
  --                                           at the marker for all of these; expires by itself

  -- Statistics. (Those of days and minutes: see key.stat and key.minutes.)
  journal = 'journal', --               list   samples that the statistics do not have yet
}

-- Those that few calls use. (A script would make their table anew in each call.)
local function more_patterns()
  return {
    -- Schedules.
    schedules = 'schedules', --           zset   cron schedule -> its next tick
    schedule = 'schedule:<>', --          hash   a cron schedule: what its jobs are, cron, timezone, count, last;
    --                                           `since` when the ticks after that time count, as none was looked at
    paused_schedules = 'paused_schedules', --      zset   schedule of either kind -> when it was paused
    declared_schedules = 'declared_schedules', --  hash   schedule of either kind -> what its declaration says
    schedule_marks = 'schedule_marks', -- hash   who declares -> what it has applied
    ticker = 'ticker', --                 string the worker that looks after cron schedules; expires by itself

    -- Calls that an outbox has handed over -> until when that is remembered: see deliveries.lua.
    deliveries = 'deliveries', --         zset

    -- Limits. (What <> is: type:<klass>, key:<klass>:<key>, fair:<queue>:<tenant>, or queue:<queue>, which has a
    -- rate only.)
    limit_aside = 'limit:<>:aside', --     zset   jid that the limit holds back -> its score in the work
    limit_called = 'limit:<>:called', --   zset   jid for which there is room, still to be handed out -> since when;
    --                                            +inf: another limit holds it back
    limit_holders = 'limit:<>:holders', -- zset   jid that runs under the limit -> when to look whether it still does
    limit_starts = 'limit:<>:starts', --   zset   start in the window behind us -> when; expires by itself
    -- When a part of the window ends -> starts in it; `rate` when it last counted. For rates above 10,000; expires by
    -- itself
    limit_buckets = 'limit:<>:buckets', -- hash

    -- What outlives jobs.
    offspring = 'offspring:<>', --        list   all jids that the job has spawned, in order; expires by itself
    spawned = 'spawned:<>', --            zset   jids that the job has spawned and that are not complete -> 1 if
    --                                           failed

    -- What a job has put that puts others in several steps (its record names it in `once`).
    once = 'once:<>', --                  set    jids that it has put; expires by itself

    -- Entities: see payloads.lua.
    payloads = 'payloads:<>', --           zset   payload that waits (JSON) -> its score; of the job of an entity
    taken = 'taken:<>', --                 zset   the same of those that its run has taken
    fresh = 'fresh:<>', --                 zset   jid of an entity that waits in the queue -> when it is due
    retrying = 'retrying:<>', --           zset   the same of those whose last run has failed
    entity_types = 'entity_types', --      hash   queue with entities -> the job type that they belong to
    dead = 'dead:<>', --                   zset   dead entity of the queue -> when it died last
    dead_ids = 'dead_ids:<>', --           zset   the same, in the order of their ids -> 0
    dead_entity = 'dead_entity:<>', --     hash   the last error of a dead entity, and what its job was; by its jid
    dead_payloads = 'dead_payloads:<>', -- zset   payload that is dead -> its score

    -- Workers and other clients.
    worker = 'worker:<>', --              string what a worker says of itself, JSON; expires by itself
    orders = 'orders:<>', --              list   what is asked of a worker and not yet told to it, the oldest first;
    --                                           expires by itself
    -- A detached job's latest run, JSON: host, pid, when it began and ended, the end of its output; expires by itself
    detached = 'detached:<>', --          string
    awaiting = 'awaiting:<>', --          zset   waiter -> until when; of job:<jid> or workflow:<id>
    ended = 'ended:<>', --                list   an element when what the waiter waits for has ended

    -- Workflows.
    workflow = 'workflow:<>', --          hash   a workflow's record: its counters (total, complete, failed, canceled,
    --                                           held back by dependencies), state, name, created, finished
    workflow_jobs = 'workflow:<>:jobs', -- list  the jids of its jobs, each behind those that it depends on
    staged = 'staged:<>', --              list   packed jobs and links of a workflow that is not put yet
    staged_jids = 'staged:<>:jids', --    zset   the jids of these jobs -> their places in the order
    staged_instead = 'staged:<>:instead', -- hash those of these jids for which other jobs stand -> their jids
  }
end

local function maker(name)
  local from, to = string.find(name, '<>', 1, true)
  if not from then
    return function()
      return scope.prefix .. name
    end
  end
  local first, rest = string.sub(name, 1, from - 1), string.sub(name, to + 1)
  from, to = string.find(rest, '<>', 1, true)
  if not from then
    return function(what)
      return scope.prefix .. first .. what .. rest
    end
  end
  local second, third = string.sub(rest, 1, from - 1), string.sub(rest, to + 1)
  return function(what, more)
    return scope.prefix .. first .. what .. second .. more .. third
  end
end

-- The functions that give keys, each made when first wanted.
local key = setmetatable({}, {
  __index = function(key, name)
    key[name] = maker(PATTERNS[name] or more_patterns()[name])
    return key[name]
  end,
})

-- What the keys of a job's lists have behind those of records.
local LIST_ENDINGS = { '-history', '-dependencies', '-dependents' }

-- The end of a jid that no job may have, because its record would be a list of another job; or nil.
function key.list_ending(jid)
  local last = string.byte(jid, -1)
  if last ~= 121 and last ~= 115 then
    return nil -- no y and no s, like nearly all
  end
  for _, ending in ipairs(LIST_ENDINGS) do
    if string.sub(jid, -#ending) == ending then
      return ending
    end
  end
end

-- j:<jid>               hash   the job's record. Of ours are `waited` (how many milliseconds the job
--                              waited before it was handed out, then '+' and how many it lay in its
--                              worker's hands, if it is known to have been started; '' if its start was
--                              counted when it was handed out) and `put` (when it was put, in milliseconds,
--                              and, after a space, when it was handed out, as an entry has it: the first
--                              entries of its history, which are not written yet; '' if they are);
--                              `spawns` is when the job spawned others first since it was put;
--                              `failed_from` is the queue in which the job failed for good before it
--                              came into this one;
--                              of limits: `limit_key`, `fair_by` (as put), `holds` (limits under which it
--                              runs, and how many each allowed when it took them, JSON), `aside` (the limit
--                              that holds it back), `called` (limits that have room for it, JSON)
-- (What would name a list of another job gets a key that never exists, so that no call takes the list
-- for a record: there is no such job.)
function key.job(jid)
  return scope.prefix .. (key.list_ending(jid) and '!' or 'j:') .. jid
end

-- s:<kind>:<day>:<queue>  hash  kind wait, run: total, mean, vk and a histogram, of which ms0 to ms500
--                               (how often at least so many milliseconds) are ours: they tell s0 apart;
--                               kind stats: retries (locks that were seen to be lost), failures,
--                               failed, and ours: retried (attempts that failed and run again)
function key.stat(kind, day, queue)
  return scope.prefix .. 's:' .. kind .. ':' .. string.format('%.0f', day) .. ':' .. queue
end

-- m:<queue>:<hour>:<kind>  hash  minute of the hour -> jobs put, started, completed or failed; of
--                                entities alone: runs processed, payloads died;
--                                without a queue (''), jobs of the whole namespace, but for put
function key.minutes(queue, hour, kind)
  return scope.prefix .. 'm:' .. queue .. ':' .. string.format('%.0f', hour) .. ':' .. kind
end
