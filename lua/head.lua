-- How modules come about, the state of the present call, and THE KEY GLOSSARY.
--
-- A job queue whose every change of state is one atomic call of this script. Called
-- without KEYS it speaks the wire protocol of qless-core; called with KEYS it has the
-- server's clock, fencing tokens, repeatable requests and batches.

-- A module is a table that is filled when something of it is first wanted: lua/build.py makes a function of each
-- file, which does that, under the file's name in camel case. So a script pays only for what its call runs, and
-- the order of the files means nothing.
local builders, module_names = {}, {}

local UNBUILT = {
  __index = function(module, what)
    setmetatable(module, nil)
    builders[module_names[module]]()
    return module[what]
  end,
}

local modules = setmetatable({}, {
  __index = function(modules, name)
    local module = setmetatable({}, UNBUILT)
    modules[name], module_names[module] = module, name
    return module
  end,
})

local call = redis.call

-- All that is known of the call that is being served; Serve begins it empty, so that nothing is left of the
-- call before. Modules keep what they have to remember until the end of the call in fields of their own.
--   prefix   of every key ('ql:' without KEYS)
--   now      seconds since the epoch, the only clock there is
--   keyed    the call came with KEYS
--   live     the namespace has seen a call with KEYS, so tokens and wake-ups are kept
--   reading  the call must not write
--   library  the name of the library that was called; nil for a script
local scope = {}

local key = {}

local function fixed(name)
  key[name] = function()
    return scope.prefix .. name
  end
end

-- config          hash   option -> value, only what was set
-- queues          zset   queue -> when it was first seen
-- paused_queues   set    names of paused queues
-- workers         zset   worker -> last pop or heartbeat
-- failures        set    failure groups that are not empty
-- tracked         zset   jid -> when tracking began
-- tags            zset   tag -> number of jobs that carry it
-- completed       zset   jid -> when it was completed
for _, name in ipairs({
  'config',
  'queues',
  'paused_queues',
  'workers',
  'failures',
  'tracked',
  'tags',
  'completed',
}) do
  fixed(name)
end

-- Ours: they exist only where calls with KEYS are made.
-- meta            hash   clock (the last time given out), token (the last one drawn), server:<build> (on
--                        which that build drew last), format (of what is stored), skews (how often the
--                        clock was set back), mended (after how many of them schedules were), shifts (what
--                        they have left to set back, JSON) and leap (from when to when the clock went ahead
--                        by much last, or nobody called)
-- releasing       zset   completed jid with dependents still to be released -> when
-- cascading       zset   failed or canceled jid with dependents still to be told -> when
-- idle            zset   client and host, waiting for queues not seen yet -> a second after its next look
-- wake            list   one element for each such client to be woken
-- journal         list   samples that the statistics do not have yet
-- workflows       zset   workflow with steps left to be carried on -> since when
-- results         zset   result:<jid> or offspring:<jid> that is kept -> since when
-- results_until   zset   the same -> when it expires by itself, in seconds, * 2^20 + how many bytes it takes;
--                        '' -> minus the bytes that all take. (Both sets expire when nothing can be left.)
-- canceled        zset   canceled jid of which there is a record -> when; expires by itself
-- paused_reasons  hash   paused queue -> why, by whom and when, JSON
for _, name in ipairs({
  'meta',
  'releasing',
  'cascading',
  'idle',
  'wake',
  'journal',
  'workflows',
  'results',
  'results_until',
  'canceled',
  'paused_reasons',
}) do
  fixed(name)
end

-- Schedules, where any were made.
-- schedules       zset   cron schedule -> its next tick
-- paused_schedules    zset   schedule of either kind -> when it was paused
-- declared_schedules  hash   schedule of either kind -> what its declaration says of itself
-- schedule_marks      hash   who declares -> what it has applied
-- ticker          string the worker that looks after cron schedules; expires by itself
for _, name in ipairs({ 'schedules', 'paused_schedules', 'declared_schedules', 'schedule_marks', 'ticker' }) do
  fixed(name)
end

-- q:<queue>-<place>     zset   the jids of a queue:
--   work       waiting      priority - time / 10^10, highest first
--   locks      running      when the lock expires
--   scheduled  delayed      when it becomes ready
--   depends    dependent    when it was put there
--   recur      templates    when the next job is due
function key.place(queue, place)
  return scope.prefix .. 'q:' .. queue .. '-' .. place
end

-- What the keys of a job's lists have behind those of records.
local LIST_ENDINGS = { '-history', '-dependencies', '-dependents' }
local LAST_BYTES = { [string.byte('y')] = true, [string.byte('s')] = true }

-- The end of a jid that no job may have, because its record would be a list of another job; or nil.
function key.list_ending(jid)
  if not LAST_BYTES[string.byte(jid, -1)] then
    return nil -- like nearly all, and quickly seen
  end
  for _, ending in ipairs(LIST_ENDINGS) do
    if string.sub(jid, -#ending) == ending then
      return ending
    end
  end
end

-- j:<jid>               hash   the job's record. Of ours are `at` (a delayed job's time, if it was given as
--                              a time), `fixed` (so was its deadline), `shifted` (by which skew its
--                              times were set back last) and `waited` (how many milliseconds the job
--                              waited before it was handed out, then '+' and how many it lay in its
--                              worker's hands, if it is known to have been started; '' if its start was
--                              counted when it was handed out)
-- (What would name a list of another job gets a key that never exists, so that nobody takes the list
-- for a record: there is no such job.)
function key.job(jid)
  if LAST_BYTES[string.byte(jid, -1)] and key.list_ending(jid) then
    return scope.prefix .. '!' .. jid
  end
  return scope.prefix .. 'j:' .. jid
end

-- j:<jid>-history       list   JSON triples [when, what, more], oldest first; history.lua has the words
function key.history(jid)
  return scope.prefix .. 'j:' .. jid .. '-history'
end

-- j:<jid>-dependencies  set    jids this job still waits for
function key.dependencies(jid)
  return scope.prefix .. 'j:' .. jid .. '-dependencies'
end

-- j:<jid>-dependents    set    jids that wait for this job
function key.dependents(jid)
  return scope.prefix .. 'j:' .. jid .. '-dependents'
end

-- r:<jid>               hash   a recurring job's template
function key.template(jid)
  return scope.prefix .. 'r:' .. jid
end

-- schedule:<id>         hash   a cron schedule: what its jobs are, cron, timezone, count, last; `since`
--                              when the ticks after that time count, as nobody has looked yet
function key.schedule(id)
  return scope.prefix .. 'schedule:' .. id
end

-- w:<worker>:jobs       zset   jids the worker holds -> when the lock expires
function key.held(worker)
  return scope.prefix .. 'w:' .. worker .. ':jobs'
end

-- f:<group>             list   jids failed in the group, newest first
function key.group(group)
  return scope.prefix .. 'f:' .. group
end

-- t:<tag>               zset   jids that carry the tag -> when it was given
function key.tag(tag)
  return scope.prefix .. 't:' .. tag
end

-- s:<kind>:<day>:<queue>  hash  kind wait, run: total, mean, vk and a histogram, of which ms0 to ms500
--                               (how often at least so many milliseconds) are ours: they tell s0 apart;
--                               kind stats: retries (locks that were seen to be lost), failures,
--                               failed, and ours: retried (attempts that failed and run again)
function key.stat(kind, day, queue)
  return scope.prefix .. 's:' .. kind .. ':' .. string.format('%.0f', day) .. ':' .. queue
end

-- Ours again.
-- result:<jid>          string what the job returned, JSON; expires by itself
function key.result(jid)
  return scope.prefix .. 'result:' .. jid
end

-- canceled:<jid>        hash   what is known of a canceled job; expires by itself
function key.canceled_job(jid)
  return scope.prefix .. 'canceled:' .. jid
end

-- unique:<key>          string the jid that holds the key; expires if it was given for a period
function key.unique(text)
  return scope.prefix .. 'unique:' .. text
end

-- needs:<jid>           list   what the job was ever made to depend on, in order
function key.needs(jid)
  return scope.prefix .. 'needs:' .. jid
end

-- spawned:<jid>         zset   jids that the job has spawned and that are not complete -> 1 if failed
function key.spawned(jid)
  return scope.prefix .. 'spawned:' .. jid
end

-- offspring:<jid>       list   all jids that the job has spawned, in order; expires by itself
function key.offspring(jid)
  return scope.prefix .. 'offspring:' .. jid
end

-- reply:<client>        string the last request of a client and its reply; expires by itself
function key.reply(client)
  return scope.prefix .. 'reply:' .. client
end

-- worker:<worker>       string what a worker says of itself, JSON; expires by itself
function key.worker(worker)
  return scope.prefix .. 'worker:' .. worker
end

-- orders:<worker>       list   what is asked of a worker and not yet told to it, the oldest first;
--                              expires by itself
function key.orders(worker)
  return scope.prefix .. 'orders:' .. worker
end

-- stacks:<worker>       string the last stack dump of a worker; expires by itself
function key.stacks(worker)
  return scope.prefix .. 'stacks:' .. worker
end

-- m:<queue>:<hour>:<kind>  hash  minute of the hour -> jobs put, started, completed or failed;
--                                 without a queue (''), of the whole namespace, but for put
function key.minutes(queue, hour, kind)
  return scope.prefix .. 'm:' .. queue .. ':' .. string.format('%.0f', hour) .. ':' .. kind
end

-- idle:<queue>          zset   client and host, waiting for a job of this queue -> a second after its
--                              next look
function key.idle_at(queue)
  return scope.prefix .. 'idle:' .. queue
end

-- wake:<queue>          list   one element for each waiting client to be woken
function key.wake_at(queue)
  return scope.prefix .. 'wake:' .. queue
end

-- timer:<queue>         string '<due> <client>': who wakes by itself for what falls due next
function key.timer(queue)
  return scope.prefix .. 'timer:' .. queue
end

-- awaiting:<target>     zset   waiter -> until when; the target is job:<jid> or workflow:<id>
function key.awaiting(target)
  return scope.prefix .. 'awaiting:' .. target
end

-- ended:<waiter>        list   an element when what the waiter waits for has ended
function key.ended(waiter)
  return scope.prefix .. 'ended:' .. waiter
end

-- workflow:<id>         hash   a workflow's record: its counters (total, complete, failed, canceled,
--                              held back by dependencies), state, name, created, finished
function key.workflow(id)
  return scope.prefix .. 'workflow:' .. id
end

-- workflow:<id>:jobs    list   the jids of its jobs, each behind those that it depends on
function key.workflow_jobs(id)
  return scope.prefix .. 'workflow:' .. id .. ':jobs'
end

-- staged:<id>           list   packed jobs and links of a workflow that is not put yet
function key.staged(id)
  return scope.prefix .. 'staged:' .. id
end

-- staged:<id>:jids      zset   the jids of these jobs -> their places in the order
function key.staged_jids(id)
  return scope.prefix .. 'staged:' .. id .. ':jids'
end

-- staged:<id>:instead   hash   those of these jids for which other jobs stand -> their jids
function key.staged_instead(id)
  return scope.prefix .. 'staged:' .. id .. ':instead'
end
