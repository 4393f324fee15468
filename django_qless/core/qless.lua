-- Generated from lua/ by lua/build.py: change it there.
local function build(without_keys)
-- head.lua
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
  idle = 'idle', --                     zset   client and host, waiting for queues not seen yet -> a second after
  --                                           its next look
  wake = 'wake', --                     list   one element for each such client to be woken
  idle_at = 'idle:<>', --               zset   the same, waiting for a job of this queue
  wake_at = 'wake:<>', --               list   one element for each client in idle:<> to be woken
  timer = 'timer:<>', --                string '<due> <client>': who wakes by itself for what falls due next

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

function maker_of(module_name)
if module_name == 'Arguments' then
return function()
local Arguments = {
most = 0, data_bytes = 0, text_bytes = 0, tags = 0, given = 0, real_name = 0, name = 0, asking = 0,
proof = 0, text_of = 0, decimal = 0, number = 0, whole = 0, held = 0, count = 0, offset = 0, range =
0, bounded = 0, bytes = 0, weigh = 0, json = 0, object = 0, names = 0, tag_list = 0, few_tags = 0,
plain = 0, message = 0, jid = 0, queue = 0, unknown = 0, options = 0
}
modules.Arguments = Arguments
-- arguments.lua
-- Arguments: numbers, JSON texts, names and option pairs, checked once and in one wording.

local find, gsub, floor = string.find, string.gsub, math.floor
local HUGE = math.huge
local MOST = 1e300 -- sums of what is not beyond it are finite

Arguments.most = 1000 -- items one call may name
Arguments.data_bytes = 512 * 1024
Arguments.text_bytes = 64 * 1024
Arguments.tags = 32

local function refuse(command, what, value, wanted)
  modules.Errors.argument(command, what .. ' ' .. wanted .. ', not ' .. modules.Errors.value(value))
end

-- A required argument as it came.
function Arguments.given(command, what, value)
  if value == nil then
    modules.Errors.argument(command, 'Arg "' .. what .. '" missing')
  end
  return value
end

-- A name under which a job is stored, or taken. (No name at all stands for "none" in records.)
function Arguments.real_name(command, what, value)
  if value == '' then
    modules.Errors.argument(command, what .. ' must not be empty')
  end
  return Arguments.given(command, what, value)
end

-- The name of a queue, a worker or a job that may be there. (Without KEYS it may be empty: old clients send back what
-- records say.)
Arguments.name = Arguments.real_name

-- Who puts jobs: perhaps no worker that a lock could be lost to, ''.
function Arguments.asking(command, worker)
  return Arguments.given(command, 'worker', worker)
end

-- What shows that the caller holds a job: its token.
function Arguments.proof(command, value)
  return Arguments.given(command, 'token', value)
end

-- Most numbers are small and whole: these need no second look, and no second printing (redis.call
-- prints a number with 17 digits each time).
local SMALL, TEXTS = {}, {}

-- A number as redis.call would print it.
function Arguments.text_of(number)
  local text = TEXTS[number]
  if not text then
    text = string.format('%.17g', number)
    if #text == 1 then
      TEXTS[number] = text
    end
  end
  return text
end

Arguments.decimal = '^[%d.eE+-]+$'

-- A finite decimal number. (tonumber alone takes 0x10, nan and inf.)
function Arguments.number(command, what, value)
  local small = SMALL[value]
  if small then
    return small
  end
  Arguments.given(command, what, value)
  local plain = find(value, Arguments.decimal)
  local number = plain and tonumber(value)
  if not number or number ~= number or number == HUGE or number == -HUGE then
    refuse(command, what, value, 'must be a finite decimal number')
  elseif number > MOST or number < -MOST then
    refuse(command, what, value, 'must be a number between -1e300 and 1e300')
  end
  number = number + 0 -- no command takes -0
  if #value == 1 then
    SMALL[value] = number
  end
  return number
end

function Arguments.whole(command, what, value, least)
  local small = SMALL[value]
  if small and small >= (least or 0) then
    return small
  end
  local number = Arguments.number(command, what, value)
  if number ~= floor(number) or number < (least or -HUGE) or number > 2 ^ 53 then
    local wanted = 'must be a whole number'
    if least then
      wanted = wanted .. ' of at least ' .. least
    end
    refuse(command, what, value, wanted)
  end
  return number
end

-- Seconds that a job lay in its worker's hands before it was started; nil for '' or nothing.
function Arguments.held(command, value)
  return value and value ~= '' and math.max(0, Arguments.number(command, 'held', value)) or nil
end

-- How many items are wanted: never more than a call may handle.
function Arguments.count(command, value, default)
  if value == nil then
    return default
  end
  return math.max(math.min(floor(Arguments.number(command, 'count', value)), Arguments.most), -Arguments.most)
end

function Arguments.offset(command, value)
  if value == nil then
    return 0
  end
  return math.max(math.min(floor(Arguments.number(command, 'offset', value)), 2 ^ 40), -2 ^ 40)
end

-- From which item to which, as LRANGE and ZRANGE count them (from the end if negative), for a list of
-- so many: never more than a call may handle.
function Arguments.range(offset, count, total)
  local last = offset + count - 1
  local first = offset < 0 and math.max(0, total + offset) or offset
  last = last < 0 and total + last or last
  return first, math.min(last, first + Arguments.most - 1)
end

-- A number of items named by the caller.
function Arguments.bounded(command, number)
  if number > Arguments.most then
    modules.Errors.raise('TOOBIG', command .. '(): ' .. number .. ' items in one call, at most ' .. Arguments.most)
  end
end

Arguments.bytes = 1024 * 1024

-- What one call may carry in all.
function Arguments.weigh(command, args)
  local bytes = 0
  for n = 1, #args do
    bytes = bytes + #args[n]
  end
  if bytes > Arguments.bytes then
    modules.Errors.raise(
      'TOOBIG',
      '%s(): %s bytes of arguments in one call, at most %s',
      command,
      bytes,
      Arguments.bytes
    )
  end
end

-- A decoder that takes neither NaN nor 0x10 nor 01, as cjson's own would.
local decoder = cjson.new()
decoder.decode_invalid_numbers(false)
local decode = decoder.decode

-- RFC 8259 is stricter than the decoder in four things: '1.', '-.5', control characters
-- inside strings, bytes that are not UTF-8. Each is looked for outside the fast path only.
local function lax(text)
  if find(text, '^[/-~ --]*$') then
    return
  end
  if find(text, '[%z\1-\8\11\12\14-\31]') then
    return 'a control character'
  end
  if find(text, '%.%D') or find(text, '%.$') or find(text, '-%.') or find(text, '[\t\n\r]') then
    local bare = gsub(text, '\\.', '')
    for inside in string.gmatch(bare, '"([^"]*)"') do
      if find(inside, '[\t\n\r]') then
        return 'a control character'
      end
    end
    bare = gsub(bare, '"[^"]*"', '0')
    if find(bare, '%.%D') or find(bare, '%.$') or find(bare, '-%.') then
      return 'a number without digits beside its point'
    end
  end
  if find(text, '[\128-\255]') then
    local rest = gsub(text, '[\194-\223][\128-\191]', ' ')
    rest = gsub(rest, '\224[\160-\191][\128-\191]', ' ')
    rest = gsub(rest, '\237[\128-\159][\128-\191]', ' ')
    rest = gsub(rest, '[\225-\236\238\239][\128-\191][\128-\191]', ' ')
    rest = gsub(rest, '\240[\144-\191][\128-\191][\128-\191]', ' ')
    rest = gsub(rest, '[\241-\243][\128-\191][\128-\191][\128-\191]', ' ')
    rest = gsub(rest, '\244[\128-\143][\128-\191][\128-\191]', ' ')
    if find(rest, '[\128-\255]') then
      return 'bytes that are not UTF-8'
    end
  end
end

-- The value of a JSON text (RFC 8259).
function Arguments.json(command, what, text, bytes)
  Arguments.given(command, what, text)
  if #text > (bytes or Arguments.data_bytes) then
    modules.Errors.raise(
      'TOOBIG',
      '%s(): %s has %s bytes, at most %s',
      command,
      what,
      #text,
      bytes or Arguments.data_bytes
    )
  end
  local fine, value = pcall(decode, text)
  if not fine then
    modules.Errors.argument(command, what .. ' is not JSON: ' .. modules.Errors.name(text))
  end
  local wrong = lax(text)
  if wrong then
    modules.Errors.argument(command, what .. ' is not JSON, it has ' .. wrong)
  end
  return value
end

function Arguments.object(command, what, text)
  local value = Arguments.json(command, what, text, Arguments.text_bytes)
  if type(value) ~= 'table' or find(text, '^%s*%[') then
    modules.Errors.argument(command, what .. ' must be a JSON object')
  end
  return value
end

-- A JSON list of names, in order and without repetition.
function Arguments.names(command, what, text)
  local list, seen, names = Arguments.json(command, what, text), {}, {}
  if type(list) ~= 'table' or (#list == 0 and next(list) ~= nil) then
    modules.Errors.argument(command, what .. ' must be a JSON list')
  end
  for _, name in ipairs(list) do
    if type(name) == 'number' then
      name = string.format('%.14g', name)
    end
    if type(name) ~= 'string' then
      modules.Errors.argument(command, what .. ' must be a JSON list of strings')
    end
    if not seen[name] then
      seen[name] = true
      names[#names + 1] = name
    end
  end
  return names
end

function Arguments.tag_list(command, text)
  local tags = Arguments.names(command, 'tags', text)
  return Arguments.few_tags(command, tags)
end

function Arguments.few_tags(command, tags)
  if #tags > Arguments.tags then
    modules.Errors.raise('TOOBIG', command .. '(): ' .. #tags .. ' tags, at most ' .. Arguments.tags)
  end
  return tags
end

-- What a new name may be.
function Arguments.plain(command, what, name)
  if what == 'queue' and (#name > 255 or find(name, '[*?]')) then
    modules.Errors.argument(command, 'queue must have 1 to 255 bytes and neither * nor ?, not ' .. modules.Errors.value(name))
  elseif #name > 255 then
    modules.Errors.argument(command, what .. ' must have 1 to 255 bytes')
  end
end

-- A message: its end is what tells the most.
function Arguments.message(command, message)
  Arguments.given(command, 'message', message)
  if #message > Arguments.text_bytes then
    modules.Errors.raise('TOOBIG', '%s(): message has %s bytes, at most %s', command, #message, Arguments.text_bytes)
  end
  return message
end

-- The id of a job to be made: it may be none that there cannot be.
function Arguments.jid(command, jid)
  Arguments.real_name(command, 'jid', jid)
  local ending = key.list_ending(jid)
  if ending then
    modules.Errors.argument(command, 'jid must not end in ' .. ending .. ': ' .. modules.Errors.name(jid))
  end
  Arguments.plain(command, 'jid', jid)
  return jid
end

function Arguments.queue(command, queue)
  Arguments.real_name(command, 'queue', queue)
  Arguments.plain(command, 'queue', queue)
  return queue
end

function Arguments.unknown(command, name)
  modules.Errors.argument(command, 'Unknown option ' .. modules.Errors.name(name))
end

-- name, value, name, value … as a table.
function Arguments.options(command, args, first, known)
  local options = {}
  if (#args - first + 1) % 2 ~= 0 then
    modules.Errors.argument(command, 'Odd number of additional args')
  end
  for i = first, #args, 2 do
    local name = args[i]
    if known[name] then
      options[name] = args[i + 1]
    else
      Arguments.unknown(command, name)
    end
  end
  return options
end
end
elseif module_name == 'Errors' then
return function()
local Errors = {
cut = 0, name = 0, value = 0, state = 0, worded = 0, raise = 0, is_refusal = 0, argument = 0, no_job
= 0
}
modules.Errors = Errors
-- errors.lua
-- How a call is refused: by a reply 'CODE text'.

local MOST = 200

-- At most so many bytes of a text. No character is cut in two: who reads it as UTF-8 would fail.
function Errors.cut(text, most)
  local last = most
  while last > most - 3 and string.find(text, '^[\128-\191]', last + 1) do
    last = last - 1
  end
  return string.sub(text, 1, last)
end

-- Names in messages are cut, so that a hostile jid cannot fill a log.
function Errors.name(value)
  value = tostring(value)
  if #value > MOST then
    return Errors.cut(value, MOST) .. '…'
  end
  return value
end

-- The same of a value that is refused.
function Errors.value(value)
  return value == '' and 'an empty text' or Errors.name(value)
end

-- A job's state as people read it behind `is`.
function Errors.state(state)
  return state == 'depends' and 'waiting for other jobs' or state
end

-- Words as string.format takes them, if there is anything to be put in their places.
function Errors.worded(words, ...)
  return select('#', ...) > 0 and string.format(words, ...) or words
end

-- The text begins with a word character: old clients look for that.
function Errors.raise(code, words, ...)
  error({ code = code, text = Errors.worded(words, ...) })
end

-- Is what pcall has caught such a refusal? All other errors, also those of the server, are texts there.
function Errors.is_refusal(problem)
  return type(problem) == 'table'
end

function Errors.argument(command, words, ...)
  Errors.raise('BADARG', command .. '(): ' .. Errors.worded(words, ...))
end

function Errors.no_job(command, jid)
  Errors.raise('NOJOB', command .. '(): Job ' .. Errors.name(jid) .. ' does not exist')
end
end
elseif module_name == 'Record' then
return function()
local Record = {
whole = 0, fields = 0, read = 0, is_bad = 0, is_state = 0, ready_time = 0, text = 0, first_bad = 0,
entry_of = 0, entry_texts = 0, words = 0, number = 0, bad_schedule = 0
}
modules.Record = Record
-- record.lua
-- Reads the fields of records: jobs, recurring templates, schedules, workflows. Nothing here raises.
-- A field that is not there has its default; so has one that cannot be read, and who must not go on
-- with a default asks which it is.

local find, gsub = string.find, string.gsub
local HUGE = math.huge

local SHOWN = 60 -- bytes of a value in a message

local function decimal(text)
  local number = tonumber(text)
  if number and number == number and number < HUGE and number > -HUGE then
    return number
  end
  return false
end

-- As clients read it as well: neither 0x10 nor blanks.
local function number(text)
  return find(text, '^[-+]?[%d.][%d.eE+-]*$') and decimal(text)
end

local MOST = 2 ^ 53 -- the largest whole number that commands take

local function whole(text)
  local value = find(text, '^-?%d+$') and decimal(text)
  return value and value <= MOST and value >= -MOST and value
end
Record.whole = whole

-- '' where there is none.
local function decimal_or_none(text)
  return text == '' and 0 or decimal(text)
end

local STATES = {
  waiting = true,
  running = true,
  stalled = true,
  scheduled = true,
  depends = true,
  failed = true,
  complete = true,
}

local function state(text)
  return STATES[text] and text
end

-- How the fields are read that every run has to do with. -> what is read, or false
local READ = {
  state = state,
  priority = number,
  retries = whole,
  remaining = whole,
  crashes = whole,
  token = whole,
  time = decimal,
  expires = decimal_or_none,
  deadline = decimal,
  scheduled = decimal,
  first = decimal,
  unknown = decimal,
  cascade = whole,
}

local function reader_of(field)
  return READ[field] or modules.RecordTexts.of_jobs[field] or modules.RecordTexts.elsewhere[field]
end

-- The fields of a job's record that may be impossible to read, by name.
function Record.fields()
  local fields = {}
  for field in pairs(READ) do
    fields[#fields + 1] = field
  end
  for field in pairs(modules.RecordTexts.of_jobs) do
    fields[#fields + 1] = field
  end
  table.sort(fields)
  return fields
end

-- The value of a field whose text was read, or the default.
function Record.read(field, text, default)
  if not text then
    return default
  end
  local value = reader_of(field)(text)
  if value == false or value == nil then
    return default
  end
  return value
end

-- Is there a text that cannot be read?
function Record.is_bad(field, text)
  local reader = type(text) == 'string' and reader_of(field)
  return reader and not reader(text) or false
end

-- Is this the name of a state?
function Record.is_state(text)
  return STATES[text or ''] or false
end

-- Numbers of one digit, which nearly all of these are, need not be read again.
local DIGITS = {}
for digit = 0, 9 do
  DIGITS[string.format('%d', digit)] = true
end

-- May a job with these fields, without which nothing runs, be handed out? -> since when it has been
-- ready (now, if the record does not say), or nil. All jobs come here, and most have no tags ('{}').
function Record.ready_time(retries, remaining, priority, tags, context, time, now)
  if
    retries
    and (DIGITS[retries] or whole(retries))
    and remaining
    and (DIGITS[remaining] or whole(remaining))
    and priority
    and (DIGITS[priority] or number(priority))
    and (not tags or tags == '{}' or modules.RecordTexts.is_good('tags', tags))
    and (not context or modules.RecordTexts.is_good('context', context))
  then
    return not time and now or decimal(time) or nil
  end
end

-- The text, or the default in its place.
function Record.text(field, text, default)
  if not text or Record.is_bad(field, text) then
    return default
  end
  return text
end

-- The first of these fields that cannot be read. -> its name and its text, or nil
function Record.first_bad(fields, texts)
  for n = 1, #fields do
    local text = texts[n]
    local reader = text and reader_of(fields[n])
    if reader and not reader(text) then
      return fields[n], text
    end
  end
end

-- A readable form of a value that cannot be read.
local function shorten(text)
  local shown = gsub(text, '[^\32-\126]', '?')
  return #shown > SHOWN and modules.Errors.cut(shown, SHOWN) .. '...' or shown
end

-- An entry of a job's history as a list: when, what, more. One that cannot be read is shown as what it
-- is. -> the entry, whether it cannot be read
function Record.entry_of(text)
  local triple = modules.RecordTexts.entry(text)
  if triple then
    return triple, false
  end
  return { 0, 'unreadable', { text = shorten(text) } }, true
end

-- The texts of such entries, all of which can be read.
function Record.entry_texts(texts)
  for n, text in ipairs(texts) do
    local entry, is_bad = Record.entry_of(text)
    texts[n] = is_bad and cjson.encode(entry) or text
  end
  return texts
end

-- What is said of a field that cannot be read.
function Record.words(field, text)
  return 'Its field ' .. field .. ' cannot be read: ' .. (text == '' and 'it is empty' or shorten(text))
end

-- A number, or nil.
function Record.number(text)
  return text and decimal(text) or nil
end

local NEEDED = { 'queue', 'klass', 'data', 'priority', 'retries', 'tags' }
local JUDGED = { 'priority', 'retries', 'tags', 'context', 'interval', 'backlog', 'count' }

-- What of a schedule's record cannot be read and keeps it from putting jobs. -> its name and its text,
-- or nil
function Record.bad_schedule(record)
  for _, field in ipairs(NEEDED) do
    if not record[field] then
      return field, ''
    end
  end
  if not record.cron and not (record.interval and record.count) then
    return record.interval and 'count' or 'interval', ''
  end
  for _, field in ipairs(JUDGED) do
    if Record.is_bad(field, record[field]) then
      return field, record[field]
    end
  end
  if record.expires and not decimal(record.expires) then
    return 'expires', record.expires
  end
end
end
elseif module_name == 'Hash' then
return function()
local Hash = {
values = 0, read = 0, all = 0, write = 0
}
modules.Hash = Hash
-- hash.lua
-- The fields of a hash, by their names.

-- -> what stands in each of these fields, in this order; false where there is nothing
function Hash.values(name, ...)
  return unpack(call('HMGET', name, ...))
end

-- -> the same in a table, by the names of the fields
function Hash.read(name, fields)
  local values, record = call('HMGET', name, unpack(fields)), {}
  for n = 1, #fields do
    record[fields[n]] = values[n]
  end
  return record
end

-- -> all that there is in a table, by the names of the fields; empty if there is nothing
function Hash.all(name)
  local fields, record = call('HGETALL', name), {}
  for n = 1, #fields, 2 do
    record[fields[n]] = fields[n + 1]
  end
  return record
end

-- Sets the fields of this table, by name. (Where each call comes, the list is written out: a table costs more.)
function Hash.write(name, fields)
  local list = {}
  for field, value in pairs(fields) do
    list[#list + 1] = field
    list[#list + 1] = value
  end
  call('HSET', name, unpack(list))
end
end
elseif module_name == 'NumberFormat' then
return function()
local NumberFormat = {
whole = 0, now = 0, time = 0, second = 0, thousandths = 0, thousandth = 0, milliseconds = 0, later =
0
}
modules.NumberFormat = NumberFormat
-- number_format.lua
-- Numbers and times as texts; the text of the present time is made once per call. (Printing a number costs as much as a small
-- Redis command.)

local format, floor = string.format, math.floor

-- A whole number: much cheaper than with a fraction.
function NumberFormat.whole(number)
  if number > -2 ^ 53 and number < 2 ^ 53 then
    return format('%d', number)
  end
  return format('%.0f', number)
end

-- The time is scope.now. In the server's words it is scope.second and scope.fraction ('.123456'), if it told them.

-- The present time, at least as exact as redis.call would print it.
function NumberFormat.now()
  local text = scope.now_text
  if not text then
    text = scope.fraction and scope.second .. scope.fraction or format('%.17g', scope.now)
    scope.now_text = text
  end
  return text
end

-- The same as job records keep it.
function NumberFormat.time()
  local text = scope.time_text
  if not text then
    text = scope.fraction and NumberFormat.now() or format('%.20f', scope.now)
    scope.time_text = text
  end
  return text
end

function NumberFormat.second()
  scope.second = scope.second or NumberFormat.whole(floor(scope.now))
  return scope.second
end

-- A time cut to thousandths of a second. (What is lost in a product is less than what is added.)
function NumberFormat.thousandths(seconds)
  if seconds == floor(seconds) then
    return NumberFormat.whole(seconds)
  end
  return format('%.3f', floor(seconds * 1000 + 0.001) / 1000)
end

-- The present time in thousandths of a second.
function NumberFormat.thousandth()
  local text = scope.thousandth
  if not text then
    text = scope.fraction and scope.second .. string.sub(scope.fraction, 1, 4)
      or NumberFormat.thousandths(scope.now)
    scope.thousandth = text
  end
  return text
end

-- The present time in whole milliseconds.
function NumberFormat.milliseconds()
  if scope.fraction then
    return scope.second .. string.sub(scope.fraction, 2, 4)
  end
  return NumberFormat.whole(floor(scope.now * 1000 + 0.001))
end

-- The time so many seconds from now.
function NumberFormat.later(seconds)
  if scope.fraction and seconds == floor(seconds) then
    return NumberFormat.whole(floor(scope.now) + seconds) .. scope.fraction
  end
  return format('%.17g', scope.now + seconds)
end
end
elseif module_name == 'Places' then
return function()
local Places = {
score = 0, work = 0, work_again = 0, scores = 0, work_many = 0, scheduled = 0, depends = 0,
state_now = 0, count_due = 0, list_due = 0, count_aside = 0, ready_since = 0, leave = 0, make_known
= 0, register = 0
}
modules.Places = Places
-- places.lua
-- The places of a queue: work, locks, scheduled, depends, and aside (see limits). A job is in exactly one.

-- Highest first: by priority, then the longest waiting. Ties are popped in falling order of jid.
function Places.score(priority, time)
  return priority - time / 1e10
end

function Places.work(jid, queue, priority, time)
  call('ZADD', key.place(queue, 'work'), Places.score(priority, time or scope.now), jid)
  modules.Wake.ready(queue, 1)
end

-- Back to where a job was taken from: the head of its priority. Its equals there have the same
-- score, and of those the one with the higher jid comes first; ours fall with time.
function Places.work_again(jid, queue, priority)
  local work, score = key.place(queue, 'work'), Places.score(priority, scope.now)
  local head = call('ZREVRANGEBYSCORE', work, priority, score, 'WITHSCORES', 'LIMIT', '0', '1')
  call('ZADD', work, head[2] or score, jid)
  modules.Wake.ready(queue, 1)
end

-- The scores of jobs that become ready now, as texts by priority: a batch has few different ones.
function Places.scores()
  return setmetatable({}, {
    __index = function(texts, priority)
      local text = string.format('%.17g', Places.score(priority, scope.now))
      texts[priority] = text
      return text
    end,
  })
end

-- Many jobs at once: score, jid, score, jid …
function Places.work_many(queue, list)
  local name = key.place(queue, 'work')
  for first = 1, #list, 1000 do
    call('ZADD', name, unpack(list, first, math.min(first + 999, #list)))
  end
  modules.Wake.ready(queue, #list / 2)
end

function Places.scheduled(jid, queue, time)
  local name = key.place(queue, 'scheduled')
  modules.ExistenceCache.forget(name) -- its time may have come already, if it waited for others
  call('ZADD', name, time, jid)
  modules.Wake.due(queue, time)
end

function Places.depends(jid, queue)
  call('ZADD', key.place(queue, 'depends'), scope.now, jid)
end

-- A delayed job counts as waiting from its time on, though it stands among the delayed ones until a
-- call moves it that writes; and so does one that was taken from its worker: the record says 'stalled', but no
-- worker has it. -> its state now, when it falls due
function Places.state_now(jid, queue, state)
  if state == 'stalled' then
    return 'waiting'
  elseif state ~= 'scheduled' then
    return state
  end
  local due = call('ZSCORE', key.place(queue, 'scheduled'), jid)
  return due and tonumber(due) <= scope.now and 'waiting' or state, due
end

-- How many delayed jobs of a queue count as waiting, and which they are.
function Places.count_due(queue)
  return call('ZCOUNT', key.place(queue, 'scheduled'), '-inf', scope.now)
end

function Places.list_due(queue, offset, count)
  return call('ZRANGEBYSCORE', key.place(queue, 'scheduled'), '-inf', scope.now, 'LIMIT', offset, count)
end

-- How many jobs of a queue limits hold back.
function Places.count_aside(queue)
  return modules.LimitSettings.exist() and call('ZCARD', key.place(queue, 'aside')) or 0
end

-- What lags is counted from when a job became ready. (Calls without KEYS want to know whether it carries an entity.)
function Places.ready_since(jid, time)
  local text = time == scope.now and modules.NumberFormat.time() or string.format('%.20f', time)
  call('HSET', key.job(jid), 'time', text)
end

function Places.leave(jid, queue)
  call('ZREM', key.place(queue, 'work'), jid)
  if call('ZREM', key.place(queue, 'locks'), jid) == 1 then
    modules.Wake.freed(queue, 1)
  end
  call('ZREM', key.place(queue, 'depends'), jid)
  call('ZREM', key.place(queue, 'scheduled'), jid)
end

-- A queue is known from its first job on.
function Places.make_known(queue)
  if call('ZADD', key.queues(), 'NX', scope.now, queue) == 1 then
    modules.Wake.seen()
  end
end

-- Something comes into the queue from outside. (One of which that is known already is mostly known itself; only a
-- foreign script may have forgotten it.)
function Places.register(queue)
  if modules.Nonempty.add(queue) or modules.Clock.is_round() then
    Places.make_known(queue)
  end
end
end
elseif module_name == 'Config' then
return function()
local Config = {
note_none = 0, changed = 0, is_set = 0, get = 0, number = 0, whole = 0, heartbeat = 0, concurrency =
0, weight = 0, failed_queue = 0, worker_age = 0, is_ours = 0, is_whole = 0, names_queue = 0, show =
0, set = 0, unset = 0
}
modules.Config = Config
-- config.lua
-- Options of the namespace: defaults, values, and what a value may be.

local find = string.find

local DEFAULTS = {
  application = 'qless',
  heartbeat = 60,
  ['grace-period'] = 10,
  ['stats-history'] = 30,
  ['histogram-history'] = 7,
  ['jobs-history-count'] = 50000,
  ['jobs-history'] = 604800,
}

-- Used when unset, but not listed among the options.
local UNLISTED = {
  ['max-worker-age'] = 86400,
  ['max-job-history'] = 100,
  ['canceled-history'] = 86400,
}

-- What stands behind a queue's name in the option for its failed jobs.
local FAILED_QUEUE = '-failed-queue'

-- Options are read together when the first is wanted, unless very many are set.
local FEW = 100
local NONE = {}

-- What is set, as far as this call has read it: scope.config. (Or all of it, if those are few.)
local function read()
  local count, known = call('HLEN', key.config()), NONE
  if count > 0 then
    known = {}
  end
  if count > 0 and count <= FEW then
    known = modules.Hash.all(key.config())
  end
  scope.config, scope.knows_config = known, count <= FEW
  return known
end

-- Nothing is set, as the call knows already.
function Config.note_none()
  scope.config, scope.knows_config = NONE, true
end

-- Is nothing set at all? Then queues have no options of their own either.
local function untouched()
  return (scope.config or read()) == NONE
end

-- The call has set an option itself: what is set is read again.
function Config.changed()
  scope.config = nil
end

function Config.is_set()
  return not untouched()
end

function Config.get(option)
  local known = scope.config or read()
  local value = known[option]
  if value == nil and not scope.knows_config then
    value = call('HGET', key.config(), option)
    known[option] = value
  end
  return value or DEFAULTS[option]
end

-- Beyond that neither days nor milliseconds can be counted.
local MOST = 2 ^ 40

-- A foreign script may have set anything.
local function decimal(text)
  local number = tonumber(text)
  if number and number == number then
    return math.max(-MOST, math.min(number, MOST))
  end
end

function Config.number(option)
  if untouched() then
    return DEFAULTS[option] or UNLISTED[option]
  end
  return decimal(Config.get(option)) or DEFAULTS[option] or UNLISTED[option]
end

function Config.whole(option)
  return math.floor(Config.number(option))
end

-- How long a lock of the queue lasts, in seconds.
function Config.heartbeat(queue)
  if untouched() then
    return DEFAULTS.heartbeat
  end
  return decimal(Config.get(queue .. '-heartbeat')) or Config.number('heartbeat')
end

-- How many locks the queue may have at once; 0 for no limit.
function Config.concurrency(queue)
  if untouched() then
    return 0
  end
  return math.ceil(decimal(Config.get(queue .. '-max-concurrency')) or 0)
end

-- How often a lottery draws the queue, beside the others; 0 for never.
function Config.weight(queue)
  if untouched() then
    return 1
  end
  return math.max(0, decimal(Config.get(queue .. '-weight')) or 1)
end

-- The queue in which jobs of this one go on that have failed for good, or nil.
function Config.failed_queue(queue)
  if untouched() then
    return nil
  end
  local to = Config.get(queue .. FAILED_QUEUE)
  -- (Foreign clients may have set anything.)
  if to and to ~= '' and to ~= queue and #to <= 255 and not find(to, '[*?]') then
    return to
  end
end

-- Seconds after which a silent worker is forgotten, as times to live want them.
function Config.worker_age()
  return math.max(1, math.ceil(Config.number('max-worker-age')))
end

function Config.is_ours(option)
  return find(option, '%-weight$')
end

-- Is this a number of jobs that is checked?
function Config.is_whole(option)
  return modules.LimitSettings.is_number(option)
end

-- Is this an option of ours whose value names a queue?
function Config.names_queue(option)
  return string.sub(option, -#FAILED_QUEUE) == FAILED_QUEUE
end

local function numeric(option)
  return type(DEFAULTS[option]) == 'number'
    or UNLISTED[option]
    or Config.is_ours(option)
    or find(option, '%-heartbeat$')
    or modules.LimitSettings.is_number(option)
end

-- config.get [option]
function Config.show(args, i)
  local option = args[i]
  if option then
    return Config.get(option)
  end
  local shown = {}
  for name, value in pairs(DEFAULTS) do
    shown[name] = value
  end
  for name, value in pairs(modules.Hash.all(key.config())) do
    shown[name] = not modules.LimitSettings.is_mark(name) and value or nil
  end
  return cjson.encode(shown)
end

-- The queue for failed jobs must be one, and another one.
local function check_failed_queue(option, value)
  modules.Arguments.queue('config.set', value)
  if option == value .. FAILED_QUEUE then
    modules.Errors.argument('config.set', option .. ' must be another queue than ' .. modules.Errors.name(value) .. ' itself')
  end
end

local function check_number(option, value)
  local number = modules.Arguments.number('config.set', option, value)
  if number < 0 and Config.is_ours(option) then
    modules.Errors.argument('config.set', option .. ' must not be below 0, as ' .. value .. ' is')
  elseif (number < 0 or number % 1 ~= 0) and Config.is_whole(option) then
    local wanted = ' must be a whole number of jobs, or 0 for any number, not '
    modules.Errors.argument('config.set', option .. wanted .. value)
  end
end

-- config.set option value
function Config.set(args, i)
  local option = modules.Arguments.given('config.set', 'option', args[i])
  local value = modules.Arguments.given('config.set', 'value', args[i + 1])
  if numeric(option) then
    check_number(option, value)
  end
  if Config.names_queue(option) then
    check_failed_queue(option, value)
  end
  if modules.LimitSettings.is_rate(option) then
    modules.LimitSettings.check_rate('config.set', option, value)
  end
  if #option > 512 or #value > modules.Arguments.text_bytes then
    modules.Errors.raise('TOOBIG', 'config.set(): Option or value is too long')
  end
  call('HSET', key.config(), option, value)
  modules.LimitSettings.changed(option)
  modules.Events.config_set(option, value)
end

-- config.unset option
function Config.unset(args, i)
  local option = modules.Arguments.given('config.unset', 'option', args[i])
  call('HDEL', key.config(), option)
  modules.LimitSettings.changed(option)
  modules.Events.config_unset(option)
end
end
elseif module_name == 'Dependencies' then
return function()
local Dependencies = {
left = 0, spend = 0, unknown = 0, follows_spawned = 0, set_of = 0, without_met = 0, open = 0,
open_for = 0, link = 0, follow = 0, link_again = 0, attach = 0, follow_failed = 0, unlink = 0,
unlink_all = 0, free = 0, free_if_last = 0, take_some = 0, release = 0, carry_on = 0
}
modules.Dependencies = Dependencies
-- dependencies.lua
-- Dependencies: symmetric links between jobs, and the release of those that waited.

-- Links followed at most when a cycle is looked for, and dependents dealt with by one call.
local MOST = 1000

-- Links cut off that count as much as a dependent dealt with.
local LIGHT = 20

-- Jobs whose dependents one call takes up again at most.
local FEW = 50

-- How many dependents this call may still deal with.
function Dependencies.left()
  return scope.dependents_left or MOST
end

function Dependencies.spend(n)
  scope.dependents_left = Dependencies.left() - n
end

-- What has failed already would cancel its dependent: refused, or where nothing may be refused any
-- more, noted.
local function meet_failed(command, jid, how)
  if how and how.lenient then
    how.failed = how.failed or {}
    how.failed[#how.failed + 1] = jid
    return
  end
  modules.Errors.raise(
    'STATE',
    '%s(): Job %s has failed already, so what is to be canceled with it cannot wait for it',
    command,
    modules.Errors.name(jid)
  )
end

function Dependencies.unknown(command, jid, how)
  if not (how and how.lenient) then
    modules.Errors.no_job(command, jid)
  end
end

-- Does a job also wait for what those have spawned that it depends on?
Dependencies.follows_spawned = true

function Dependencies.set_of(jids)
  local set = {}
  for _, jid in ipairs(jids) do
    set[jid] = true
  end
  return set
end

-- The jids without those of the set `met`, known to be complete, that have no record any more. A job for which `awaited`
-- holds is not looked for.
function Dependencies.without_met(jids, met, awaited)
  local left = {}
  for _, jid in ipairs(jids) do
    if not met[jid] or (awaited and awaited[jid]) or call('EXISTS', key.job(jid)) == 1 then
      left[#left + 1] = jid
    end
  end
  return left
end

-- Which of the jids hold a job back. Unknown ones are refused; `coming` are the jids that the same call is
-- about to put. What has failed holds back by the job's policy for failures; `how` is that of PutMany.plan, `one`
-- the job itself if it is there already (what is spawned does not wait for its siblings). -> the jids; the jobs
-- that still have spawned ones to be waited for, as the field `beyond` names them, or nil
function Dependencies.open(command, jids, coming, policy, how, one)
  local open, beyond = {}, nil
  for _, jid in ipairs(jids) do
    local is_coming = coming and coming[jid] or (how and how.known and how.known(jid))
    local record = is_coming and { 'waiting' } or call('HMGET', key.job(jid), 'state', 'rare', 'deadline')
    local state = record[1]
    if record[3] and modules.Deadline.is_missed(state, record[3]) then
      modules.Deadline.note(jid)
      state = 'failed'
    end
    if not state then
      Dependencies.unknown(command, jid, how)
    elseif state == 'complete' then
      if record[2] and Dependencies.follows_spawned and not (one and modules.Spawned.is_one(jid, one)) then
        local more, failed = modules.Spawned.unfinished(jid, policy, MOST - #open)
        if failed and policy == 'cancel' then
          meet_failed(command, failed, how)
        end
        if #more > 0 then
          beyond = beyond or {}
          beyond[#beyond + 1] = jid
          for n = 1, #more do
            open[#open + 1] = more[n]
          end
        end
      end
    elseif not (state == 'failed' and policy == 'run') then
      if state == 'failed' and policy == 'cancel' then
        meet_failed(command, jid, how)
      end
      open[#open + 1] = jid
    end
  end
  return open, beyond and cjson.encode(beyond)
end

-- The same for a job that exists and that keeps its policy.
function Dependencies.open_for(command, jid, jids)
  if #jids == 0 then
    return jids
  end
  return Dependencies.open(command, jids, nil, call('HGET', key.job(jid), 'on_failure'), nil, jid)
end

-- A job waits for others. If it has a policy for their failures, they must know that: `followed`.
function Dependencies.link(jid, jids, policy)
  local followed = policy and policy ~= 'block'
  for _, other in ipairs(jids) do
    local name = key.dependents(other)
    modules.ExistenceCache.forget(name)
    call('SADD', name, jid)
    if followed then
      call('HSET', key.job(other), 'followed', '1', 'rare', '1')
    end
  end
  modules.SortedSet.add_to_set(key.dependencies(jid), jids)
end

-- A job has another policy than before, and waits for the same others. (A gate has no record.)
function Dependencies.follow(jid, policy)
  for _, other in ipairs(policy ~= 'block' and call('SMEMBERS', key.dependencies(jid)) or {}) do
    if call('EXISTS', key.job(other)) == 1 then
      call('HSET', key.job(other), 'followed', '1', 'rare', '1')
    end
  end
end

-- A job waits for what is open of these; nothing is refused. What is seen to wait for it is left out.
function Dependencies.link_again(jid, jids)
  local policy, how = call('HGET', key.job(jid), 'on_failure'), { lenient = true }
  local open, beyond = Dependencies.open('depends', jids, nil, policy, how, jid)
  local harmless, tired = modules.CycleDetection.harmless(jid, open)
  Dependencies.link(jid, tired and open or harmless, policy)
  for _, spawner in ipairs(modules.Record.read('beyond', beyond, {})) do
    modules.Spawned.look_beyond(jid, spawner)
  end
  Dependencies.follow_failed(how)
end

-- A job that depends on others gains dependencies.
function Dependencies.attach(jid, jids)
  modules.DependencyResults.add(jid, jids)
  Dependencies.link_again(jid, jids)
end

-- Those that `open` has noted: now that the links are there, they have their effect.
function Dependencies.follow_failed(how)
  for _, jid in ipairs(how and how.failed or {}) do
    modules.Cascade.follow(jid, 'failed')
  end
end

function Dependencies.unlink(jid, jids)
  for _, other in ipairs(jids) do
    call('SREM', key.dependents(other), jid)
    call('SREM', key.dependencies(jid), other)
  end
end

function Dependencies.unlink_all(jid)
  local others = call('SMEMBERS', key.dependencies(jid))
  for _, other in ipairs(others) do
    call('SREM', key.dependents(other), jid)
  end
  call('DEL', key.dependencies(jid))
  Dependencies.spend(math.floor(#others / LIGHT))
end

-- Is there nothing that holds the job back but what it does not know of yet?
local function free_rare(jid)
  local beyond, workflow, on_failure = modules.Hash.values(key.job(jid), 'beyond', 'workflow', 'on_failure')
  if modules.Record.is_bad('beyond', beyond) then
    modules.CorruptJobs.fail(jid, 'beyond', beyond)
    return false
  end
  if beyond and modules.Spawned.holds_back(jid, beyond, on_failure) then
    return false
  end
  return true, workflow
end

-- Nothing holds the job back any longer: it becomes ready, or waits for its time.
function Dependencies.free(jid)
  local state, queue, priority, scheduled, rare =
    modules.Hash.values(key.job(jid), 'state', 'queue', 'priority', 'scheduled', 'rare')
  if state ~= 'depends' then
    modules.CorruptJobs.look_at_state(jid, state, queue)
    return
  elseif modules.Record.is_bad('scheduled', scheduled) then
    modules.CorruptJobs.fail(jid, 'scheduled', scheduled)
    return
  end
  local workflow
  if rare then
    local is_free
    is_free, workflow = free_rare(jid)
    if not is_free then
      return
    end
  end
  call('ZREM', key.place(queue, 'depends'), jid)
  local time = modules.Record.read('scheduled', scheduled)
  if time then
    call('HDEL', key.job(jid), 'scheduled')
    call('HSET', key.job(jid), 'state', 'scheduled')
    modules.Places.scheduled(jid, queue, time)
  else
    call('HSET', key.job(jid), 'state', 'waiting')
    modules.Places.ready_since(jid, scope.now)
    modules.Places.work(jid, queue, modules.Record.read('priority', priority, 0))
  end
  if workflow then
    modules.Workflow.moved(workflow, 'depends', time and 'scheduled' or 'waiting')
  end
end

function Dependencies.free_if_last(jid)
  if call('SCARD', key.dependencies(jid)) == 0 then
    Dependencies.free(jid)
  end
end

-- Up to as many of the dependents of a job that is done with as the call may still deal with (or
-- `most`, if that is less); they are no members any more. What is left is noted in the list `later`.
function Dependencies.take_some(jid, later, most)
  local name = key.dependents(jid)
  local dependents, number = {}, call('SCARD', name)
  local left = Dependencies.left()
  most = math.min(left, most or left)
  if number > most then
    dependents = call('SPOP', name, most)
    call('ZADD', later, scope.now, jid)
  else
    if number > 0 then
      dependents = call('SMEMBERS', name)
      call('DEL', name)
    end
    call('ZREM', later, jid)
  end
  Dependencies.spend(#dependents)
  for _, dependent in ipairs(dependents) do
    call('SREM', key.dependencies(dependent), jid)
  end
  return dependents
end

local function release_some(jid, spawner)
  spawner = spawner and modules.Spawned.has_unfinished(jid)
  for _, dependent in ipairs(Dependencies.take_some(jid, key.releasing())) do
    if spawner then
      modules.Spawned.look_beyond(dependent, jid)
    end
    Dependencies.free_if_last(dependent)
  end
end

-- After the jobs were completed: frees what waited for them, a bounded number at a time. `rare` are
-- those of them that may have spawned others.
function Dependencies.release(jids, rare)
  if #jids == 1 and modules.ExistenceCache.is_absent(key.dependents(jids[1])) then
    return
  end
  local names = {}
  for n, jid in ipairs(jids) do
    names[n] = key.dependents(jid)
  end
  if #names == 0 or call('EXISTS', unpack(names)) == 0 then
    return
  end
  for n, jid in ipairs(jids) do
    if call('EXISTS', names[n]) == 1 then
      if Dependencies.left() > 0 then
        release_some(jid, rare and rare[jid])
      else
        call('ZADD', key.releasing(), scope.now, jid)
      end
    end
  end
end

-- The first job of a list, or nil; mostly there is no such list.
local function first_of(name)
  if Dependencies.left() <= 0 or modules.ExistenceCache.is_absent(name) or call('EXISTS', name) == 0 then
    return nil
  end
  return call('ZRANGE', name, 0, 0)[1]
end

local function go_on_releasing(jid)
  -- Its record may have expired meanwhile; if it was put again, the rest waits for its new run.
  if (call('HGET', key.job(jid), 'state') or 'complete') == 'complete' then
    release_some(jid, true)
  else
    call('ZREM', key.releasing(), jid)
  end
end

local function go_on(name, act)
  for _ = 1, FEW do
    local jid = first_of(name)
    if not jid then
      return
    end
    act(jid)
  end
end

-- Carries on with what earlier calls had to leave.
function Dependencies.carry_on()
  go_on(key.releasing(), go_on_releasing)
  go_on(key.cascading(), function(jid)
    modules.Cascade.carry_on(jid)
  end)
end
end
elseif module_name == 'Job' then
return function()
local Job = {
read = 0, state_now = 0, show = 0, with_ours = 0, show_all = 0, get = 0, multiget = 0, unhold = 0,
erase = 0, priority = 0, can_lose = 0, remove = 0, cancel_unknown = 0, cancel = 0, timeout = 0,
progress = 0, result = 0
}
modules.Job = Job
-- job.lua
-- A job's record: reading it, showing it, and the commands on a single job.

local FIELDS = {
  'jid',
  'klass',
  'state',
  'queue',
  'worker',
  'priority',
  'expires',
  'retries',
  'remaining',
  'data',
  'tags',
  'failure',
  'spawned_from_jid',
  'time',
  'grace',
  'scheduled',
  'token',
  'context',
  'progress',
  'crashes',
  'history',
  'rare',
  'unique',
  'workflow',
  'on_failure',
  'deadline',
  'spawners',
  'returned',
  'waited',
  'put',
  'failed_from',
  'limit_key',
  'fair_by',
  'aside',
  'called',
  'holds',
  'entity',
  'home',
  'batch',
}

-- The whole record as a table, or nil. One of the earliest versions is made a record of today, if
-- not only a look at it is wanted.
function Job.read(jid, looking)
  local values = call('HMGET', key.job(jid), unpack(FIELDS))
  if not values[1] then
    return nil
  end
  local record = {}
  for n, field in ipairs(FIELDS) do
    record[field] = values[n] or nil
  end
  record.state, record.queue = record.state or '', record.queue or ''
  if record.history and not looking and not scope.reading then
    modules.History.modernise(jid, record.history)
  end
  return record
end

local function must_look(command, jid)
  local record = Job.read(modules.Arguments.name(command, 'jid', jid), true)
  if not record then
    modules.Errors.no_job(command, jid)
  end
  return record
end

-- A job's state as it is now, or nil.
function Job.state_now(jid)
  local state, queue = modules.Hash.values(key.job(jid), 'state', 'queue')
  return state and modules.Places.state_now(jid, queue, state) or nil
end

-- The object that get, pop and peek show, as JSON, or nil. `some` has what is shown of the lists that
-- belong to a job (history, dependents, dependencies) in place of all of it.
function Job.show(jid, some)
  local record = Job.read(jid)
  if not record then
    return nil
  end
  local shown = {
    jid = record.jid,
    klass = record.klass or '',
    state = modules.Places.state_now(jid, record.queue, record.state),
    queue = record.queue,
    worker = record.worker or '',
    tracked = modules.Tracking.is_tracked(jid),
    priority = modules.Record.read('priority', record.priority, 0),
    expires = modules.Record.read('expires', record.expires, 0),
    retries = modules.Record.read('retries', record.retries, 0),
    remaining = modules.Record.read('remaining', record.remaining, 0),
    data = record.data or '',
    tags = modules.Record.read('tags', record.tags, {}),
    history = some and some.history or modules.History.read(jid, record),
    failure = modules.Record.read('failure', record.failure, {}),
    spawned_from_jid = record.spawned_from_jid or false,
    dependents = some and some.dependents or call('SMEMBERS', key.dependents(jid)),
    dependencies = some and some.dependencies or call('SMEMBERS', key.dependencies(jid)),
  }
  return Job.with_ours(shown, record)
end

-- The object with what the protocol does not have, as JSON.
function Job.with_ours(shown, record)
  shown.token = record.state == 'running' and record.token or ''
  shown.crashes = modules.Record.read('crashes', record.crashes, 0)
  shown.failed_from = record.failed_from
  if record.returned and record.state == 'complete' then
    shown.returned = modules.Results.left(record.returned, record.token)
  end
  if record.rare then
    shown.unique = modules.Unique.shown(record.unique)
    shown.workflow, shown.on_failure = record.workflow, record.on_failure
    shown.deadline = modules.Record.read('deadline', record.deadline)
    shown.limits = modules.LimitView.of_job(record)
  end
  local context = modules.Record.text('context', record.context, 'null')
  local progress = modules.Record.text('progress', record.progress, 'null')
  return modules.Json.with(cjson.encode(shown), 'context', context, 'progress', progress)
end

local function all(jids, show)
  local shown = {}
  for _, jid in ipairs(jids) do
    shown[#shown + 1] = show(jid)
  end
  return modules.Json.list(shown)
end

function Job.show_all(jids)
  return all(jids, Job.show)
end

-- A job, or what became of it if it was canceled.
local function found(jid)
  return Job.show(jid) or modules.Canceled.show(jid)
end

-- get jid
function Job.get(args, i)
  return found(modules.Arguments.name('get', 'jid', args[i]))
end

-- multiget jid...
function Job.multiget(args, i)
  local jids = modules.Tags.rest(args, i)
  modules.Arguments.bounded('multiget', #jids)
  return all(jids, found)
end

-- Takes a job out of its worker's hands, in the books.
function Job.unhold(jid, worker)
  if worker and worker ~= '' then
    call('ZREM', key.held(worker), jid)
  end
end

-- Deletes all that is kept of a job that is in no place any longer, but for its dependents. `tags` is
-- the text in its record.
function Job.erase(jid, tags)
  modules.Tags.unindex_all(jid, tags)
  call('DEL', key.job(jid), key.history(jid), key.dependencies(jid))
  if scope.live then
    call('DEL', key.result(jid), key.needs(jid))
  end
end

-- priority jid p
function Job.priority(args, i)
  local jid = modules.Arguments.name('priority', 'jid', args[i])
  local priority = modules.Arguments.number('priority', 'priority', args[i + 1])
  local queue, its_priority, state, aside = modules.Hash.values(key.job(jid), 'queue', 'priority', 'state', 'aside')
  if not state then
    modules.Errors.no_job('priority', jid)
  end
  local work = key.place(queue or '', aside and 'aside' or 'work')
  local score = call('ZSCORE', work, jid)
  if score and state == 'waiting' then
    local before = modules.Record.read('priority', its_priority)
    local rest = before and tonumber(score) - before or modules.Places.score(0, scope.now)
    call('ZADD', work, priority + rest, jid)
    if aside then
      call('ZADD', key.limit_aside(aside), priority + rest, jid)
    end
  end
  call('HSET', key.job(jid), 'priority', priority)
  return priority
end

-- May a job that this one depends on be canceled without it? Its policy says so. (Many jobs may have the same
-- dependents: `known` are their policies.)
function Job.can_lose(dependent, jid, known)
  known[dependent] = known[dependent] or { modules.Cascade.policy(dependent) }
  return known[dependent][1] ~= 'block' or known[dependent][2] == jid
end

-- Would canceling these strand a job that is not canceled with them?
local function no_dependents_left(jids)
  local named, known = {}, {}
  for _, jid in ipairs(jids) do
    named[jid] = true
  end
  for _, jid in ipairs(jids) do
    -- The call names `most` with the job itself, so of this many dependents one at least is not named. Beyond
    -- that a dependent that can lose it may hide one that cannot, which fails then.
    for _, dependent in ipairs(call('SRANDMEMBER', key.dependents(jid), modules.Arguments.most)) do
      if not named[dependent] and not Job.can_lose(dependent, jid, known) then
        modules.Errors.raise(
          'DEPENDENTS',
          'cancel(): %s is a dependency of %s but is not mentioned to be canceled',
          modules.Errors.name(jid),
          modules.Errors.name(dependent)
        )
      end
    end
  end
end

-- Takes a job that is not complete away with all that belongs to it. Its dependents stay. `why` and `by` are
-- those of Canceled.keep; nil: it was not canceled, its schedule takes it back.
function Job.remove(jid, record, why, by)
  local queue, worker = record.queue, record.worker or ''
  if why then
    modules.Canceled.keep(jid, record, why, by)
    modules.Events.canceled(jid, queue, worker)
  end
  Job.unhold(jid, worker)
  modules.Places.leave(jid, queue)
  modules.Dependencies.unlink_all(jid)
  if record.state == 'running' then
    modules.Samples.taken_away(queue, record.time, record.waited)
  elseif record.state == 'failed' or not modules.Record.is_state(record.state) then
    modules.Failures.remove(jid, queue, record.failure)
    call('ZREM', key.completed(), jid)
  end
  if why and modules.Tracking.is_tracked(jid) then
    modules.Events.tracked('canceled', jid)
  end
  Job.erase(jid, record.tags)
  modules.JobEnd.canceled(jid, record)
end

function Job.cancel_unknown() end

-- -> whether there was something to cancel
local function cancel(jid)
  local record = Job.read(jid)
  if not record then
    Job.cancel_unknown(jid)
  elseif record.state ~= 'complete' then
    Job.remove(jid, record, 'call')
    return true
  end
  return false
end

-- cancel jid...
function Job.cancel(args, i)
  local jids = modules.Tags.rest(args, i)
  modules.Arguments.bounded('cancel', #jids)
  no_dependents_left(jids)
  local gone = {}
  for _, jid in ipairs(jids) do
    gone[#gone + 1] = cancel(jid) and jid or nil
  end
  -- Those that were canceled with them are no dependents any more.
  for _, jid in ipairs(gone) do
    modules.Cascade.follow(jid, 'gone')
  end
  return jids
end

-- timeout jid...: takes the job from its worker and puts it before all others.
function Job.timeout(args, i)
  local jids = modules.Tags.rest(args, i)
  modules.Arguments.bounded('timeout', #jids)
  local records = {}
  for n, jid in ipairs(jids) do
    records[n] = must_look('timeout', jid)
    if records[n].state ~= 'running' then
      local state = modules.Places.state_now(jid, records[n].queue, records[n].state)
      modules.Errors.raise(
        'STATE',
        'timeout(): Job ' .. modules.Errors.name(jid) .. ' not running but ' .. modules.Errors.state(state)
      )
    end
  end
  for n, jid in ipairs(jids) do
    local record = records[n]
    if call('HGET', key.job(jid), 'state') == 'running' then
      record.held = modules.Samples.held(record.waited)
      modules.Samples.taken_away(record.queue, record.time, record.waited)
      modules.History.ended(jid, 'timed-out', record)
      call('ZREM', key.place(record.queue, 'locks'), jid)
      call('ZADD', key.place(record.queue, 'work'), '+inf', jid)
      modules.Wake.ready(record.queue, 1)
      Job.unhold(jid, record.worker)
      call('HSET', key.job(jid), 'state', 'stalled', 'expires', 0)
      modules.Places.ready_since(jid, scope.now, record.entity)
      call('HDEL', key.job(jid), 'grace', 'waited')
      if record.holds then
        modules.Limits.call_again(jid, record.holds)
      end
      if record.entity then
        modules.Entity.returned(jid, record.queue)
      end
      modules.Events.lock_lost(jid, record.worker)
    end
  end
end

-- progress jid token json
function Job.progress(args, i)
  local jid = modules.Arguments.name('progress', 'jid', args[i])
  local text = args[i + 2]
  modules.Arguments.json('progress', 'progress', text, modules.Arguments.text_bytes)
  if not string.find(text, '^%s*%[') then
    modules.Errors.argument('progress', 'progress must be a JSON list, [fraction, text]')
  end
  local job = modules.Lock.holder('progress', jid, args[i + 1])
  call('HSET', key.job(jid), 'progress', text, 'rare', job.rare or '0')
  return 1
end

-- result jid
function Job.result(args, i)
  return call('GET', key.result(modules.Arguments.name('result', 'jid', args[i])))
end
end
elseif module_name == 'History' then
return function()
local History = {
time = 0, entry = 0, add = 0, put = 0, begin = 0, unwritten = 0, popped = 0, add_popped = 0, done =
0, done_with = 0, failed = 0, ended = 0, exhausted = 0, when = 0, shown = 0, read = 0, texts = 0,
some = 0, modernise = 0, write_late = 0, begin_late = 0, log = 0
}
modules.History = History
-- history.lua
-- What happened to a job: a list of [when, what, more], the first and the newest kept, and how each attempt
-- ended:
--   done       it was completed
--   failed     it failed for good
--   retried    it failed and will run again
--   returned   it was handed back, which uses no retry up
--   crashed    its process died
--   timed-out  its lock was taken from it, or has run out and the worker has got notice of that
--   lost       the grace after such a notice is over: the worker holds the job no more
--
-- The first entries of a job, that it was put and then handed out, are not written before there is another one: a list
-- would take a third of what a waiting job takes, and most jobs are run once, so that one command writes all of theirs.
-- Until then the record's field `put` has their times.

local quote, format, find, match, sub = cjson.encode, string.format, string.find, string.match, string.sub

-- A time as an entry has it; defaults to now.
function History.time(when)
  return when and modules.NumberFormat.thousandths(when) or modules.NumberFormat.thousandth()
end

-- An entry; `more` is the text of a JSON object.
function History.entry(what, more, when)
  return '[' .. History.time(when) .. ',' .. quote(what) .. (more and ',' .. more or '') .. ']'
end

-- Keeps the first entry and the newest.
local function shorten(name, length)
  local limit = modules.Config.whole('max-job-history')
  if limit > 0 and limit ~= 2 and length > limit then
    local first = call('LPOP', name)
    call('LTRIM', name, -math.max(limit - 1, 1), -1)
    call('LPUSH', name, first)
  end
end

local function append(jid, text, putting)
  local name = key.history(jid)
  local length = call('RPUSH', name, text)
  if length == 1 and not putting then
    History.begin_late(jid)
  elseif length >= 3 then
    shorten(name, length)
  end
end

function History.add(jid, what, more, when)
  append(jid, History.entry(what, more, when))
end

local function put_entry(time, queue)
  return '[' .. time .. ',"put",{"q":' .. quote(queue) .. '}]'
end

function History.put(jid, queue, when)
  append(jid, put_entry(History.time(when), queue), true)
end

-- The same of a job that there was not. -> what its record says in place of the entry
function History.begin()
  return modules.NumberFormat.milliseconds()
end

local function popped_entry(time, worker)
  return '[' .. time .. ',"popped",{"worker":' .. quote(worker) .. '}]'
end

-- When a job was put, as an entry has it, by the milliseconds that its record has. (Without arithmetic: printing a
-- fraction is dear.)
local function put_time(milliseconds)
  local second, rest = match(milliseconds, '^(%d+)(%d%d%d)$')
  if second then
    return rest == '000' and second or second .. '.' .. rest
  end
  local number = tonumber(milliseconds)
  return number and modules.NumberFormat.thousandths(number / 1000)
end

-- The entries in place of which the record of a job in this queue, with this worker, has this field `put`: that it was
-- put, that it was handed out. -> the first or nil, the second or nil
function History.unwritten(put, queue, worker)
  local space = put and find(put, ' ', 1, true)
  local time = put and put_time(space and sub(put, 1, space - 1) or put)
  if time then
    return put_entry(time, queue or ''), space and popped_entry(sub(put, space + 1), worker or '') or nil
  end
end

-- A worker has a job, with this field `put`. -> what its record says in place of entries
function History.popped(jid, worker, put)
  if put and put ~= '' and not find(put, ' ', 1, true) then
    return put .. ' ' .. History.time()
  end
  History.add_popped(jid, worker, put)
  return ''
end

-- The same, written at once.
function History.add_popped(jid, worker, put)
  if put and put ~= '' then
    History.write_late(jid)
  end
  append(jid, popped_entry(History.time(), worker))
end

local SHORTEST = 0.001 -- seconds that a job was held, to be worth a word

local function done_entry(held)
  if held and held >= SHORTEST then
    return '[' .. History.time() .. ',"done",{"held":' .. format('%.3f', held) .. '}]'
  end
  return '[' .. History.time() .. ',"done"]'
end

-- `held`: for how long the job lay in its worker's hands before it was started, if that is known.
function History.done(jid, held)
  append(jid, done_entry(held))
end

-- The same of a job with this field `put`, in this queue, and with this worker. -> whether nothing stands in place of
-- entries any longer, which the caller has to write
function History.done_with(jid, held, put, queue, worker)
  local first, second = History.unwritten(put, queue, worker)
  if not second then
    History.done(jid, held)
    return false
  end
  local name = key.history(jid)
  local length = call('RPUSH', name, first, second, done_entry(held))
  if length > 3 then
    -- Another library has begun the list.
    call('LREM', name, 1, first)
    call('LPUSH', name, first)
  end
  shorten(name, length)
  return true
end

-- An object of those of these members that there are. (Lists of jobs look for the group before what
-- anybody may have written into the message.) `telling`: `held` is told however short it was.
local function members(worker, group, held, ready, message, telling)
  local texts = {}
  if worker then
    texts[#texts + 1] = '"worker":' .. quote(worker)
  end
  if group then
    texts[#texts + 1] = '"group":' .. quote(group)
  end
  if held and (telling or held >= SHORTEST) then
    texts[#texts + 1] = '"held":' .. format('%.3f', held)
  end
  if ready then
    texts[#texts + 1] = '"until":' .. modules.NumberFormat.thousandths(ready)
  end
  if message and message ~= '' then
    texts[#texts + 1] = '"message":' .. quote(modules.Headline.of(message))
  end
  return #texts > 0 and '{' .. table.concat(texts, ',') .. '}' or nil
end

-- What is not run at all may fail as well: then there is no worker.
function History.failed(jid, group, worker, message)
  History.add(jid, 'failed', members(worker, group, nil, nil, message))
end

-- An attempt at `job` (worker, held) ended so. It will be ready again after `delay` seconds, if that is
-- given.
function History.ended(jid, what, job, group, message, delay)
  if what == 'done' then
    History.done(jid, job.held)
    return
  end
  local ready = delay and delay > 0 and scope.now + delay
  -- What was handed back has run if it says for how long it was held before.
  History.add(jid, what, members(job.worker, group, job.held, ready, message, what == 'returned'))
end

-- The last attempt failed that the job had.
function History.exhausted(job, group, message)
  History.ended(job.jid, 'failed', job, group, message)
end

function History.when(time)
  return time
end

-- Triples as objects with when, what and the members of their third part.
function History.shown(triples)
  local entries = {}
  for n, triple in ipairs(triples) do
    local entry_shown = triple[3] or {}
    entry_shown.when = History.when(triple[1])
    entry_shown.what = triple[2]
    entries[n] = entry_shown
  end
  return entries
end

local function shown(texts)
  local triples = {}
  for n, text in ipairs(texts) do
    triples[n] = modules.Record.entry_of(text)
  end
  return History.shown(triples)
end

-- Those of the job with this record.
function History.read(jid, record)
  local texts = call('LRANGE', key.history(jid), 0, -1)
  local first, second = History.unwritten(record.put, record.queue, record.worker)
  if first then
    table.insert(texts, 1, first)
    texts[#texts + 1] = second
  end
  return shown(texts)
end

local PIECE = 20 -- entries read at a time where they may be long

-- The first entry and the newest: at most so many, with so many bytes. -> their texts, how many there are
function History.texts(jid, most, bytes)
  local name = key.history(jid)
  local first, second = History.unwritten(modules.Hash.values(key.job(jid), 'put', 'queue', 'worker'))
  local total, newest = call('LLEN', name), { second }
  local last, oldest = total - 1, first and 0 or 1
  bytes = bytes - #(second or '')
  while last >= oldest and #newest < most - 1 and bytes > 0 do
    local from = math.max(oldest, last - PIECE + 1, last - (most - 1 - #newest) + 1)
    local part = call('LRANGE', name, from, last)
    for n = #part, 1, -1 do
      bytes = bytes - #part[n]
      if bytes > 0 then
        newest[#newest + 1] = part[n]
      end
    end
    last = from - 1
  end
  local texts = first and { first } or call('LRANGE', name, 0, 0)
  for n = #newest, 1, -1 do
    texts[#texts + 1] = newest[n]
  end
  return texts, total + (first and 1 or 0) + (second and 1 or 0)
end

-- The same as objects.
function History.some(jid, most, bytes)
  local texts, total = History.texts(jid, most, bytes)
  return shown(texts), total
end

-- Records of the earliest versions carry their history in a field of the hash.
function History.modernise(jid, text)
  local entries = modules.Record.read('history', text)
  for _, old in ipairs(entries or {}) do
    if old.put then
      History.put(jid, old.q, tonumber(old.put))
    end
    if old.popped then
      History.add(jid, 'popped', '{"worker":' .. quote(old.worker or '') .. '}', tonumber(old.popped))
    end
    if old.failed then
      History.add(jid, 'failed', nil, tonumber(old.failed))
    end
    if old.done then
      History.add(jid, 'done', nil, tonumber(old.done))
    end
  end
  if entries then
    call('HDEL', key.job(jid), 'history')
  end
end

-- Writes what stands in the record in place of the first entries, before all others.
function History.write_late(jid)
  local first, second = History.unwritten(modules.Hash.values(key.job(jid), 'put', 'queue', 'worker'))
  if second then
    call('LPUSH', key.history(jid), second, first)
  elseif first then
    call('LPUSH', key.history(jid), first)
  end
  if first then
    call('HSET', key.job(jid), 'put', '')
  end
  return first ~= nil
end

-- A list has just begun with an entry that is not the first: what comes before it stands in the record, there perhaps
-- in the form of the earliest versions.
function History.begin_late(jid)
  if History.write_late(jid) then
    return
  end
  local text = call('HGET', key.job(jid), 'history')
  if text then
    local newest = call('LPOP', key.history(jid))
    History.modernise(jid, text)
    call('RPUSH', key.history(jid), newest)
  end
end

-- log jid message [data]
function History.log(args, i)
  local jid = modules.Arguments.name('log', 'jid', args[i])
  local message = modules.Arguments.message('log', args[i + 1])
  local data = args[i + 2]
  if data then
    modules.Arguments.object('log', 'data', data)
  end
  if call('EXISTS', key.job(jid)) == 0 then
    modules.Errors.no_job('log', jid)
  end
  History.add(jid, message, data)
end
end
elseif module_name == 'SortedSet' then
return function()
local SortedSet = {
remove = 0, add = 0, head = 0, first = 0, last = 0, add_to_set = 0, append = 0
}
modules.SortedSet = SortedSet
-- sorted_set.lua
-- Variadic commands in pieces: Lua cannot unpack more than some thousand values.

local PIECE = 1000

local function in_pieces(command, name, values)
  local n = #values
  if n == 0 then
    return
  end
  if n <= PIECE then
    call(command, name, unpack(values))
    return
  end
  for first = 1, n, PIECE do
    call(command, name, unpack(values, first, math.min(first + PIECE - 1, n)))
  end
end

function SortedSet.remove(name, members)
  if #members == 1 then
    call('ZREM', name, members[1])
    return
  end
  in_pieces('ZREM', name, members)
end

-- All members with one score, as text: as a number it would be printed for each member.
function SortedSet.add(name, score, members)
  if #members == 1 then
    call('ZADD', name, score, members[1])
    return
  end
  local values = {}
  for i = 1, #members do
    values[2 * i - 1] = score
    values[2 * i] = members[i]
  end
  in_pieces('ZADD', name, values)
end

-- The first members of a set, as many as one call may name; or with their scores.
function SortedSet.head(name, ...)
  return call('ZRANGE', name, 0, modules.Arguments.most - 1, ...)
end

-- The member with the lowest score, and the score; nil if there is none.
function SortedSet.first(name)
  local found = call('ZRANGE', name, 0, 0, 'WITHSCORES')
  return found[1], tonumber(found[2])
end

-- The member with the highest score, and the score; nil if there is none.
function SortedSet.last(name)
  local found = call('ZREVRANGE', name, 0, 0, 'WITHSCORES')
  return found[1], tonumber(found[2])
end

function SortedSet.add_to_set(name, members)
  in_pieces('SADD', name, members)
end

function SortedSet.append(name, elements)
  in_pieces('RPUSH', name, elements)
end
end
elseif module_name == 'Events' then
return function()
local Events = {
tracked = 0, put = 0, completed = 0, advanced = 0, failed = 0, canceled = 0, lock_lost = 0, order =
0, schedules = 0, config_set = 0, config_unset = 0
}
modules.Events = Events
-- events.lua
-- What is published, byte for byte: members in a fixed order, no spaces.

local quote = cjson.encode

local function publish(channel, text)
  if scope.sharded then
    call('SPUBLISH', scope.prefix .. channel, text)
  else
    call('PUBLISH', scope.prefix .. channel, text)
  end
end

local function log(text)
  publish('log', text)
end

local function tell(worker, text)
  publish('w:' .. worker, text)
end

-- Bare jids, for tracked jobs: put popped completed failed canceled stalled track untrack.
function Events.tracked(what, jid)
  publish(what, jid)
end

function Events.put(jid, queue)
  log('{"jid":' .. quote(jid) .. ',"event":"put","queue":' .. quote(queue) .. '}')
end

function Events.completed(jid, queue)
  log('{"jid":' .. quote(jid) .. ',"event":"completed","queue":' .. quote(queue) .. '}')
end

function Events.advanced(jid, queue, to)
  log(
    '{"jid":' .. quote(jid) .. ',"to":' .. quote(to) .. ',"event":"advanced","queue":' .. quote(queue) .. '}'
  )
end

function Events.failed(jid, group, message, worker)
  log(
    '{"message":'
      .. quote(message)
      .. ',"jid":'
      .. quote(jid)
      .. ',"group":'
      .. quote(group)
      .. ',"event":"failed","worker":'
      .. quote(worker)
      .. '}'
  )
end

function Events.canceled(jid, queue, worker)
  local text = '{"jid":'
    .. quote(jid)
    .. ',"queue":'
    .. quote(queue)
    .. ',"event":"canceled","worker":'
    .. quote(worker)
    .. '}'
  log(text)
  if worker and worker ~= '' then
    tell(worker, text)
  end
end

local function lock_lost(jid, worker)
  return '{"jid":' .. quote(jid) .. ',"event":"lock_lost","worker":' .. quote(worker) .. '}'
end

-- Whom it concerns hears it first; if it is not known who that was, nobody.
function Events.lock_lost(jid, worker)
  if worker and worker ~= '' then
    local text = lock_lost(jid, worker)
    tell(worker, text)
    log(text)
  end
end

function Events.order(worker, order)
  tell(worker, '{"event":"order","order":' .. quote(order) .. ',"worker":' .. quote(worker) .. '}')
end

-- Who looks after cron schedules is told that one has changed.
function Events.schedules(worker)
  if worker then
    tell(worker, '{"event":"schedules","worker":' .. quote(worker) .. '}')
  end
end

function Events.config_set(option, value)
  log('{"option":' .. quote(option) .. ',"event":"config_set","value":' .. quote(value) .. '}')
end

function Events.config_unset(option)
  log('{"event":"config_unset","option":' .. quote(option) .. '}')
end
end
elseif module_name == 'Wake' then
return function()
local Wake = {
ready = 0, freed = 0, due = 0, seen = 0, since = 0, finish = 0, taken = 0, locked = 0, busy = 0,
wait = 0
}
modules.Wake = Wake
-- wake.lua
-- Wake-ups: idle workers block on lists, and every call that makes work ready feeds the lists.

local match, gsub, format = string.match, string.gsub, string.format

-- An unused wake-up must not outlive the workers it was meant for by long.
local KEPT = 60

-- What falls due is looked after by a line of clients: one looks at that very time, the others REACH
-- seconds later at most, STEP seconds apart, and find it still there if those before them have died.
local LINE, STEP, REACH = 3, 0.15, 0.75

-- Seconds: a client is counted as idle so long beyond its next look, for it may be late.
local LATE = 1

-- Seconds: idle clients of ours come back in time for longer locks by themselves.
local SHORT_LOCK = 6

-- What a call tells is kept in scope.wake and looked at when it ends: `ready`, `due` and `freed` by
-- queue, `seen`, `popped`.
local function noted()
  local wake = scope.wake
  if not wake then
    wake = { ready = {}, due = {}, freed = {} }
    scope.wake = wake
  end
  return wake
end

-- n jobs of the queue became ready.
function Wake.ready(queue, n)
  if scope.live then
    local ready = noted().ready
    ready[queue] = (ready[queue] or 0) + n
  end
end

-- n locks of the queue were given up: there may be room under its max-concurrency for others that are ready.
function Wake.freed(queue, n)
  if scope.live and modules.Config.concurrency(queue) > 0 then
    local freed = noted().freed
    freed[queue] = (freed[queue] or 0) + n
  end
end

-- Something of the queue falls due at that time.
function Wake.due(queue, time)
  if scope.live then
    local due = noted().due
    due[queue] = math.min(due[queue] or time, time)
  end
end

-- A queue was seen for the first time.
function Wake.seen()
  if scope.live then
    noted().seen = true
  end
end

-- Clients that wait until an earlier time have gone away without a word.
function Wake.since()
  return modules.NumberFormat.now()
end

-- How many clients wait there.
local function waiting_at(name)
  if call('ZCARD', name) == 0 then
    return 0 -- mostly, and cheaper to ask
  end
  return call('ZCOUNT', name, Wake.since(), '+inf')
end

-- Feeds a list with up to n elements, never more than there are idle clients.
local function feed(list, idle, n)
  if idle == 0 then
    return
  end
  local missing = math.min(n, idle - call('LLEN', list))
  if missing > 0 then
    local elements = {}
    for i = 1, math.min(missing, 1000) do
      elements[i] = '1'
    end
    if call('RPUSH', list, unpack(elements)) == #elements then
      call('EXPIRE', list, KEPT)
    end
  end
end

local function timer_of(queue)
  local text = call('GET', key.timer(queue))
  if text then
    local time, client = match(text, '^(%S+) (.*)$')
    return tonumber(time), client
  end
end

local function text_of(time)
  return format('%.17g', time)
end

-- How many of so many idle clients are to be woken, so that what falls due then is looked after. (The list
-- wakes those that have waited longest, who may be those that would have come in time: so a whole line.)
local function missing(queue, time, idle)
  local too_late = '(' .. text_of(time + REACH + LATE)
  local sleeping = idle > 0 and call('ZCOUNT', key.idle_at(queue), too_late, '+inf') or 0
  if sleeping == 0 then
    return 0
  elseif idle - sleeping < LINE then
    return LINE
  end
  local taken = timer_of(queue)
  return (not taken or time < taken or taken <= scope.now) and 1 or 0
end

-- What this call has freed and not taken again is ready for others.
local function pass_on_freed(wake)
  for queue, n in pairs(wake.freed) do
    local running = call('ZCOUNT', key.place(queue, 'locks'), modules.NumberFormat.now(), '+inf')
    local room = modules.Config.concurrency(queue) - running
    n = math.min(n, room, call('ZCARD', key.place(queue, 'work')))
    if n > 0 then
      wake.ready[queue] = math.max(wake.ready[queue] or 0, n)
    end
  end
end

function Wake.finish()
  local wake = scope.wake
  pass_on_freed(wake)
  for queue, n in pairs(wake.ready) do
    local idle = waiting_at(key.idle_at(queue))
    if idle > 0 then
      if wake.popped then
        -- Some of what became ready may have been taken by this very call, and some have woken others when it fell due.
        n = math.min(n, call('ZCARD', key.place(queue, 'work')) - call('LLEN', key.wake_at(queue)))
      end
      feed(key.wake_at(queue), idle, n)
    end
  end
  for queue, time in pairs(wake.due) do
    local idle = waiting_at(key.idle_at(queue))
    if idle > 0 then
      feed(key.wake_at(queue), idle, missing(queue, time, idle))
    end
  end
  if wake.seen then
    feed(key.wake(), waiting_at(key.idle()), modules.Arguments.most)
  end
end

-- How many jobs of the queue are ready without having been announced: their time has come.
local function ripe(queue)
  local openings = modules.Limits.next_due(queue)
  return call('ZCOUNT', key.place(queue, 'locks'), '-inf', modules.NumberFormat.now())
    + call('ZCOUNT', key.place(queue, 'scheduled'), '-inf', modules.NumberFormat.now())
    + (openings and openings <= scope.now and 1 or 0)
end

-- When the next thing of the queue falls due, or nil.
local function next_due(queue)
  local first = modules.Limits.next_due(queue)
  for _, place in ipairs({ 'scheduled', 'recur', 'locks' }) do
    local head = call('ZRANGE', key.place(queue, place), 0, 0, 'WITHSCORES')
    if head[2] then
      first = math.min(first or math.huge, tonumber(head[2]))
    end
  end
  return first
end

-- Takes back what a pop has made pointless: no more wake-ups than jobs are left, and than are needed for
-- what falls due next.
function Wake.taken(queue)
  noted().popped = true
  local list = key.wake_at(queue)
  local waiting = modules.ExistenceCache.is_absent(list) and 0 or call('LLEN', list)
  if waiting > 0 then
    local left, time = call('ZCARD', key.place(queue, 'work')) + ripe(queue), next_due(queue)
    if left < waiting and time and time > scope.now then
      left = math.max(left, missing(queue, time, waiting_at(key.idle_at(queue))))
    end
    if left == 0 then
      call('DEL', list)
    elseif left < waiting then
      call('LTRIM', list, 0, left - 1)
    end
  end
end

-- Jobs of the queue were handed out, under locks of so many seconds. Whose look is later has to know.
function Wake.locked(queue, seconds)
  if seconds < SHORT_LOCK then
    Wake.due(queue, scope.now + seconds)
  end
end

-- A client goes to work that was idle at the queue. Another worker has to watch what falls due next;
-- and if several jobs fell due at once, one worker for each of them.
local function hand_on(client, queue)
  local time, _, holder = next_due(queue), timer_of(queue)
  local idle = time and waiting_at(key.idle_at(queue)) or 0
  if holder == client then
    call('DEL', key.timer(queue))
  end
  if idle > 0 then
    local wanted = time <= scope.now and ripe(queue) or missing(queue, time, idle)
    feed(key.wake_at(queue), idle, math.max(wanted, holder == client and 1 or 0))
  end
end

-- Clients of one host may all be gone at once: so the host is named beside them. It stands in the names
-- that workers have by default, and otherwise each worker counts as a host.
local function host_of(worker)
  return (gsub(match(worker, '^(.+)%-%d+%-%x+$') or worker, '%s', '_'))
end

local function named(client, worker)
  return client .. ' ' .. host_of(worker)
end

-- Queues whose idle clients are asked for at once, where many are served.
local TOGETHER = 100

-- Mostly no client waits at any of very many queues.
local function note_where_none_wait(queues)
  for first = 1, #queues, TOGETHER do
    local names = {}
    for n = first, math.min(first + TOGETHER - 1, #queues) do
      names[#names + 1] = key.idle_at(queues[n])
    end
    if call('EXISTS', unpack(names)) == 0 then
      modules.ExistenceCache.note(names)
    end
  end
end

-- The caller has asked and is idle no longer. `working`: it has got jobs.
function Wake.busy(client, worker, choice, working)
  local member = named(client, worker)
  -- Whoever waits at all queues waits here, too: so a busy client need not be looked for at thousands of them.
  local everywhere = choice.globbing and key.idle()
  if everywhere and (modules.ExistenceCache.is_absent(everywhere) or call('ZREM', everywhere, member) == 0) then
    return
  end
  local queues = modules.QueueChoice.all(choice)
  if choice.indexed and not choice.globbing then
    note_where_none_wait(queues)
  end
  for n = 1, #queues do
    local idle = key.idle_at(queues[n])
    if not modules.ExistenceCache.is_absent(idle) and call('ZREM', idle, member) == 1 and working then
      hand_on(client, queues[n])
    end
  end
end

local function register(name, member, seconds)
  call('ZREMRANGEBYSCORE', name, '-inf', scope.now)
  call('ZADD', name, text_of(scope.now + seconds + LATE), member)
  call('EXPIRE', name, math.ceil(seconds) + KEPT)
end

-- Whom else what falls due then can rely on: how many clients look then or shortly after, and the host
-- of them all if it is one.
local function line_up(queue, time)
  local first, last = text_of(time + LATE), text_of(time + REACH + LATE)
  local members = call('ZRANGEBYSCORE', key.idle_at(queue), first, last, 'LIMIT', 0, 4 * LINE)
  local only
  for n, member in ipairs(members) do
    local host = match(member, ' (%S*)$') or member
    only = (n == 1 or only == host) and host
  end
  return #members, only
end

-- When the client is to look after what of the queue falls due at that time; nil: others do.
local function place_in_line(client, worker, queue, time)
  local taken, holder = timer_of(queue)
  if not taken or holder == client or time < taken or taken <= scope.now then
    local left = math.max(time - scope.now, 0.001)
    local text = format('%.6f', time) .. ' ' .. client
    call('SET', key.timer(queue), text, 'PX', math.ceil(left * 1000) + 1000)
    return left
  end
  local others, host = line_up(queue, time)
  if others < LINE or (host and host ~= host_of(worker)) then
    return time - scope.now + math.min(STEP * (math.max(others, 1) + 1), REACH)
  end
end

-- Registers an idle client. -> the seconds it may block and the keys to block on.
-- One client per queue holds the timer for what falls due, a few stand in line behind it; the others
-- sleep on.
function Wake.wait(client, worker, choice, seconds)
  local member, rest, asked = named(client, worker), { seconds }, seconds
  local queues = modules.QueueChoice.all(choice)
  for _, queue in ipairs(queues) do
    rest[#rest + 1] = key.wake_at(queue)
    local time = not (choice.indexed and modules.Nonempty.is_bare(queue)) and next_due(queue)
    -- What is due already could not be taken: the queue is paused, or full.
    if time and time > scope.now and time < scope.now + asked then
      seconds = math.min(seconds, place_in_line(client, worker, queue, time) or seconds)
    end
  end
  for _, queue in ipairs(queues) do
    register(key.idle_at(queue), member, seconds)
  end
  if choice.globbing or #queues == 0 then
    register(key.idle(), member, seconds)
    rest[#rest + 1] = key.wake()
  end
  rest[1] = format('%.3f', seconds + 0.0005)
  return rest
end
end
elseif module_name == 'Json' then
return function()
local Json = {
with = 0, list = 0
}
modules.Json = Json
-- json.lua
-- JSON texts that are shown as they came: decoding and encoding would change [] and long numbers.

-- An object's text with members added whose values are JSON texts already: name, text, …
function Json.with(object, ...)
  local parts, more = { string.sub(object, 1, -2) }, { ... }
  for n = 1, #more, 2 do
    parts[#parts + 1] = ',"' .. more[n] .. '":' .. more[n + 1]
  end
  return table.concat(parts) .. '}'
end

-- A list of texts.
function Json.list(texts)
  if #texts == 0 then
    return '{}' -- as cjson writes it, and as old clients expect it
  end
  return '[' .. table.concat(texts, ',') .. ']'
end
end
elseif module_name == 'Tracking' then
return function()
local Tracking = {
is_tracked = 0, among = 0, track = 0
}
modules.Tracking = Tracking
-- tracking.lua
-- Tracked jobs: those whose every change is published under their ids.

-- Is the job tracked?
function Tracking.is_tracked(jid)
  local name = key.tracked()
  return not modules.ExistenceCache.is_absent(name) and call('ZSCORE', name, jid) and true or false
end

-- The jobs of a batch that are tracked; mostly there are none at all.
function Tracking.among(jids)
  local tracked, name = {}, key.tracked()
  if not modules.ExistenceCache.is_absent(name) and call('EXISTS', name) == 1 then
    for _, jid in ipairs(jids) do
      tracked[jid] = Tracking.is_tracked(jid)
    end
  end
  return tracked
end

-- track [track|untrack jid]
function Tracking.track(args, i)
  if args[i] == nil then
    local jobs, expired = {}, {}
    for _, jid in ipairs(modules.SortedSet.head(key.tracked())) do
      local shown = modules.Job.show(jid)
      if shown then
        jobs[#jobs + 1] = shown
      else
        expired[#expired + 1] = jid
      end
    end
    return modules.Json.with(cjson.encode({ expired = expired }), 'jobs', modules.Json.list(jobs))
  end
  local word = string.lower(args[i])
  if word ~= 'track' and word ~= 'untrack' then
    modules.Errors.argument('track', 'Unknown word ' .. modules.Errors.name(args[i]) .. ', it must be track or untrack')
  end
  local jid = modules.Arguments.name('track', 'jid', args[i + 1])
  if call('EXISTS', key.job(jid)) == 0 then
    modules.Errors.no_job('track', jid)
  end
  modules.Events.tracked(word, jid)
  if word == 'track' then
    return cjson.encode(call('ZADD', key.tracked(), scope.now, jid))
  end
  return cjson.encode(call('ZREM', key.tracked(), jid))
end
end
elseif module_name == 'Unique' then
return function()
local Unique = {
keys = 0, field = 0, check = 0, holder = 0, in_force = 0, take = 0, regain = 0, other = 0, free = 0,
started = 0, shown = 0, is_pending = 0, refuse = 0, answer = 0, push_back = 0
}
modules.Unique = Unique
-- unique.lua
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
  return modules.Record.read('unique', field, {})
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
  local seconds = tonumber(until_when) and modules.Arguments.number(command, 'unique_until', until_when)
  if not seconds or seconds <= 0 then
    modules.Errors.argument(
      command,
      'unique_until must be start, end or seconds above 0, not %s',
      modules.Errors.value(until_when)
    )
  end
  job.period = math.min(seconds, LONGEST) - (scope.now - (job.since or scope.now))
end

local function check_debounce(command, job)
  if job.delay ~= 0 then
    modules.Errors.argument(command, 'debounce says when the job is due: delay must be 0 with it')
  elseif job.conflict == 'take' then
    modules.Errors.argument(command, 'debounce moves the job that holds the key: conflict must not be take')
  end
  local seconds = modules.Arguments.number(command, 'debounce', job.debounce)
  if seconds < 0 then
    modules.Errors.argument(command, 'debounce must not be below 0, as ' .. job.debounce .. ' is')
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
        modules.Errors.argument(command, name .. ' can only be used with unique')
      end
    end
    return
  end
  if job.unique == '' or #job.unique > 255 then
    modules.Errors.argument(command, 'unique must have 1 to 255 bytes, not ' .. #job.unique)
  end
  job.keys = { job.unique }
  if job.unique_aliases then
    for _, text in ipairs(modules.Arguments.names(command, 'unique_aliases', job.unique_aliases)) do
      job.keys[#job.keys + 1] = text
    end
  end
  job.conflict = job.conflict or 'keep'
  if not ANSWERS[job.conflict] then
    modules.Errors.argument(command, 'conflict must be keep, replace or take, not %s', modules.Errors.value(job.conflict))
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
  local state, field = modules.Hash.values(key.job(jid), 'state', 'unique')
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
    if modules.Deadline.is_missed(state, call('HGET', key.job(jid), 'deadline')) then
      modules.Deadline.note(jid)
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
    local waits = state == 'depends' and #modules.CycleDetection.harmless(jid, { other }) == 0
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
  modules.Errors.raise(
    'STATE',
    '%s(): The unique key %s of job %s belongs to job %s%s',
    command,
    modules.Errors.name(job.unique),
    modules.Errors.name(job.jid),
    modules.Errors.name(jid),
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
end
elseif module_name == 'Canceled' then
return function()
local Canceled = {
time = 0, keep = 0, forget = 0, among = 0, finish = 0, part = 0, count = 0, exists = 0, show = 0,
more = 0, row = 0
}
modules.Canceled = Canceled
-- canceled.lua
-- A short record of a canceled job, kept for a while for those who ask for it. For everything else the
-- job does not exist.

local sub = string.sub

-- Bytes of data and context, of a failure, of a history: what is longer is left out, or cut. A full
-- server is emptied by canceling, and most records are never read.
local BYTES = 16 * 1024
local ENTRIES = 20 -- of the history
local LIST = 4 * 1024 -- bytes of the jids that spawned it

local MOST = 5000 -- records that are kept
local SURPLUS = 200 -- old records removed by one call beyond twice those it adds

-- What of a job's record is kept as it is.
local SAME = {
  'klass',
  'queue',
  'priority',
  'retries',
  'remaining',
  'tags',
  'worker',
  'crashes',
  'spawned_from_jid',
  'unique',
  'workflow',
  'on_failure',
}

-- (The end of a traceback tells most.)
local function shortened(failure)
  if #failure <= BYTES then
    return failure
  end
  local known = cjson.decode(failure)
  known.message = string.gsub(sub(tostring(known.message), -BYTES), '^[\128-\191]+', '', 1)
  return cjson.encode(known)
end

function Canceled.time()
  return modules.NumberFormat.now()
end

-- Fields and values of what is kept. `why` is call, dependency or workflow, `by` the jid or id.
local function fields_of(jid, record, why, by)
  local fields = { 'was', record.state, 'when', Canceled.time(), 'why', why }
  local function add(name, value)
    if value and value ~= '' then
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
  end
  add('by', by)
  for _, name in ipairs(SAME) do
    add(name, modules.Record.text(name, record[name]))
  end
  local data, context = record.data or '', modules.Record.text('context', record.context, '')
  if #data + #context <= BYTES then
    add('data', data)
    add('context', context)
  else
    add('left_out', #data + #context)
  end
  local failure, spawners = modules.Record.text('failure', record.failure), modules.Record.text('spawners', record.spawners)
  add('failure', failure and shortened(failure))
  if spawners and #spawners <= LIST then
    add('spawners', spawners)
  end
  local entries, total = modules.History.texts(jid, ENTRIES, BYTES)
  entries = modules.Record.entry_texts(entries)
  local more = { was = record.state, why = why, by = by }
  entries[#entries + 1] = modules.History.entry('canceled', cjson.encode(more), tonumber(fields[4]))
  add('history', modules.Json.list(entries))
  add('history_total', total + 1)
  return fields
end

-- Keeps what is known of a job that is about to be taken away.
function Canceled.keep(jid, record, why, by)
  local age = modules.Config.whole('canceled-history')
  if not scope.live or age < 1 then
    return
  end
  local name, fields = key.canceled_job(jid), fields_of(jid, record, why, by)
  call('DEL', name)
  call('HSET', name, unpack(fields))
  call('EXPIRE', name, age)
  call('ZADD', key.canceled(), fields[4], jid)
  scope.canceled = (scope.canceled or 0) + 1
end

-- The job of this jid is put again: its record says what became of it.
function Canceled.forget(jid)
  if scope.live and call('DEL', key.canceled_job(jid)) == 1 then
    call('ZREM', key.canceled(), jid)
  end
end

-- Which of these jids have such records, as a set.
function Canceled.among(jids)
  local found, times = {}, call('ZMSCORE', key.canceled(), unpack(jids))
  for n, jid in ipairs(jids) do
    found[jid] = times[n] and true or nil
  end
  return found
end

local function too_old()
  return '(' .. string.format('%.17g', scope.now - modules.Config.whole('canceled-history'))
end

-- The call has added records: those that are too old or too many go, and the list lasts as long as they.
function Canceled.finish()
  local name, most = key.canceled(), SURPLUS + 2 * scope.canceled
  local age = modules.Config.whole('canceled-history')
  local old = call('ZRANGEBYSCORE', name, '-inf', scope.now - age, 'LIMIT', 0, most)
  local surplus = call('ZCARD', name) - #old - MOST
  if surplus > 0 and #old < most then
    for _, jid in ipairs(call('ZRANGE', name, #old, #old + math.min(surplus, most - #old) - 1)) do
      old[#old + 1] = jid
    end
  end
  if #old > 0 then
    call('ZREMRANGEBYRANK', name, 0, #old - 1) -- the oldest are the first
    for n, jid in ipairs(old) do
      old[n] = key.canceled_job(jid)
    end
    call('DEL', unpack(old))
  end
  if call('PTTL', name) < age * 1000 then
    call('EXPIRE', name, age)
  end
end

-- The jids of a part, the last canceled first.
function Canceled.part(offset, count)
  if count < 0 then
    count = modules.Arguments.most
  end
  return call('ZREVRANGEBYSCORE', key.canceled(), '+inf', too_old(), 'LIMIT', offset, count)
end

function Canceled.count()
  return call('ZCOUNT', key.canceled(), too_old(), '+inf')
end

function Canceled.exists(jid)
  return call('EXISTS', key.canceled_job(jid)) == 1
end

local function read(jid)
  local record = modules.Hash.all(key.canceled_job(jid))
  return record.was and record
end

-- The object that get shows, as JSON, or nil; its state is `canceled`.
function Canceled.show(jid)
  local record = read(jid)
  if not record then
    return nil
  end
  local shown = cjson.encode({
    jid = jid,
    klass = record.klass or '',
    state = 'canceled',
    queue = record.queue or '',
    worker = '',
    tracked = call('ZSCORE', key.tracked(), jid) and true or false,
    priority = tonumber(record.priority) or 0,
    expires = 0,
    retries = tonumber(record.retries) or 0,
    remaining = math.floor(tonumber(record.remaining) or 0),
    data = record.data or 'null',
    tags = modules.Record.read('tags', record.tags, {}),
    history = modules.History.shown(modules.Record.read('entries', record.history, {})),
    failure = modules.Record.read('failure', record.failure, {}),
    spawned_from_jid = record.spawned_from_jid or false,
    dependents = {},
    dependencies = {},
    token = '',
    crashes = tonumber(record.crashes) or 0,
    unique = modules.Unique.shown(record.unique),
    workflow = record.workflow,
    on_failure = record.on_failure,
    canceled = {
      when = tonumber(record.when),
      was = record.was,
      why = record.why,
      by = record.by or '',
      worker = record.was == 'running' and record.worker or '',
      left_out = tonumber(record.left_out) or 0,
    },
  })
  return modules.Json.with(shown, 'context', record.context or 'null', 'progress', 'null')
end

-- How many entries the history had, and what spawned the job.
function Canceled.more(jid)
  local history_total, spawners = modules.Hash.values(key.canceled_job(jid), 'history_total', 'spawners')
  return modules.Record.read('count', history_total, 0), modules.Record.read('spawners', spawners, {})
end

-- A row of a list, as Brief has it, but for the last places; or false.
function Canceled.row(jid)
  local row = call(
    'HMGET',
    key.canceled_job(jid),
    'klass',
    'queue',
    'was',
    'priority',
    'retries',
    'remaining',
    'tags',
    'worker',
    'when',
    'expires',
    'spawned_from_jid',
    'workflow',
    'history'
  )
  row[1], row[2] = row[1] or '', row[2] or ''
  return row[3] and row
end
end
elseif module_name == 'Limits' then
return function()
local Limits = {
set_aside = 0, note_called = 0, uncall = 0, bring = 0, call_up = 0, admit = 0, not_started = 0,
release = 0, call_again = 0, leave = 0, look = 0, look_again = 0, room_of_queue = 0, count_of_queue
= 0, next_due = 0
}
modules.Limits = Limits
-- limits/limits.lua
-- Limits: what a job needs before it is handed out; who lacks it is set aside, and called when there is room.
--
-- A job that is set aside stands in the place `aside` of its queue and in the list of the limit that holds it back,
-- with its score in the work; its state stays waiting. When a limit has room it calls as many of its jobs as
-- there is room for: these are back in the work, and what they need is looked at again when they are taken. Room
-- that was called for is not given to those who come later, until the called are late.

-- Jobs called by one call of a client; limits looked at by one.
local CALLED, LOOKED = 250, 50

-- How many of those that are next have their queues look whether the called are late.
local NEXT = 5

-- Seconds: after which a called job that is not taken counts no longer (its queue may be paused), and between
-- two looks at a limit that holds something back, whatever happens.
local LATE, EVERY = 5, 60

local function exact(time)
  return string.format('%.17g', time)
end

-- How many more jobs may run under the limit, of which one `holds` it already (as one whose lock was lost).
local function room_of(limit, holds)
  local room = math.huge
  if limit.most then
    room = limit.most - modules.Holders.count(limit.name) + (holds and 1 or 0)
  end
  if room > 0 and limit.rate then
    room = math.min(room, (modules.Rates.room(limit.name, limit.rate)))
  end
  return room
end

-- The same without those that are called already. -> room, whether there is none, whatever is called
local function uncalled_room(limit, holds)
  local room = room_of(limit, holds)
  if room < 1 then
    return 0, true
  end
  return room - call('ZCOUNT', key.limit_called(limit.name), exact(scope.now - LATE), '+inf')
end

-- When a limit that holds something back, and has no room, is to be looked at again.
local function next_look(limit)
  local look = scope.now + EVERY
  local _, called = modules.SortedSet.first(key.limit_called(limit.name))
  look = called and math.min(look, called + LATE) or look
  if limit.rate then
    look = math.min(look, modules.Rates.opens(limit.name, limit.rate) or look)
  end
  if limit.most then
    look = math.min(look, modules.Holders.next_look(limit.name) or look)
  end
  return math.max(look, scope.now)
end

-- Notes when a limit, by name, is to be looked at by those who serve the queue.
local function look_at(name, queue, time)
  call('ZADD', key.place(queue, 'openings'), 'LT', exact(time), name)
  modules.Wake.due(queue, time)
end

-- Those that are next have their queues look after so many seconds: whether the called are late, or for further ones.
local function look_after(name, seconds)
  for _, jid in ipairs(call('ZREVRANGE', key.limit_aside(name), 0, NEXT - 1)) do
    look_at(name, call('HGET', key.job(jid), 'queue') or '', scope.now + seconds)
  end
end

-- Sets a job aside, which is in no place. `job` has state, rare, called. `look` is when the limit is looked at again.
function Limits.set_aside(jid, queue, name, score, look, job)
  scope.set_aside = (scope.set_aside or 0) + 1
  modules.LimitSettings.mark()
  call('ZADD', key.place(queue, 'aside'), score, jid)
  call('ZADD', key.limit_aside(name), score, jid)
  call('HSET', key.job(jid), 'aside', name, 'rare', '1')
  if job.state == 'running' then -- its lock was lost
    call('HSET', key.job(jid), 'state', 'waiting', 'worker', '', 'expires', 0)
    call('HDEL', key.job(jid), 'token')
    call('ZREM', key.place(queue, 'locks'), jid)
    modules.JobEnd.goes_on({ jid = jid, rare = job.rare }, 'waiting')
  end
  look_at(name, queue, math.max(math.min(look or math.huge, scope.now + EVERY), scope.now))
end

local function note_called(jid, names)
  if names[1] then
    call('HSET', key.job(jid), 'called', cjson.encode(names), 'rare', '1')
  else
    call('HDEL', key.job(jid), 'called')
  end
end

-- The job counts among those that the limit has called: from now on, or for as long as it waits for another one.
function Limits.note_called(jid, called, name, time)
  call('ZADD', key.limit_called(name), time, jid)
  for _, other in ipairs(called) do
    if other == name then
      return
    end
  end
  called[#called + 1] = name
  note_called(jid, called)
end

-- It is handed out, held back by this limit (`name`), or gone: it is not called any longer. Others may be.
function Limits.uncall(jid, called, klass, name)
  local rest, freed = {}, {}
  for _, other in ipairs(called) do
    if not name or other == name or modules.Turns.is_tenant(other) then
      call('ZREM', key.limit_called(other), jid)
      freed[#freed + 1] = other
    else
      rest[#rest + 1] = other
    end
  end
  if freed[1] then
    note_called(jid, rest)
  end
  for _, other in ipairs(freed) do
    if other ~= name then
      Limits.call_up(other, klass)
    end
  end
end

-- Takes a job out of where it was set aside.
local function leave_aside(jid, queue, name)
  call('ZREM', key.place(queue or '', 'aside'), jid)
  call('ZREM', key.limit_aside(name), jid)
  call('HDEL', key.job(jid), 'aside')
end

-- Brings a job back into the work that the limit has set aside. -> whether it was not there for nothing
function Limits.bring(jid, name, score, afresh)
  local queue, state, priority, aside, its_called =
    modules.Hash.values(key.job(jid), 'queue', 'state', 'priority', 'aside', 'called')
  if not queue or aside ~= name or (state ~= 'waiting' and state ~= 'stalled') then
    call('ZREM', key.limit_aside(name), jid) -- another core has moved it
    call('ZREM', key.place(queue or '', 'aside'), jid)
    return false
  end
  leave_aside(jid, queue, name)
  if afresh and score ~= 'inf' then
    score = exact(modules.Places.score(modules.Record.read('priority', priority, 0), scope.now))
  end
  call('ZADD', key.place(queue, 'work'), score, jid)
  modules.Wake.ready(queue, 1)
  local called = modules.Record.read('called', its_called, {})
  for _, other in ipairs(called) do
    call('ZADD', key.limit_called(other), 'XX', modules.NumberFormat.now(), jid)
    look_after(other, LATE)
  end
  Limits.note_called(jid, called, name, modules.NumberFormat.now())
  return true
end

-- The limit of that name: how much room it has is known by the job types of those it holds back.
local function limit_of(name, klass)
  if modules.Turns.is_tenant(name) then
    return nil
  end
  if not klass then
    local jid = modules.SortedSet.last(key.limit_aside(name))
    klass = jid and call('HGET', key.job(jid), 'klass') or ''
  end
  return modules.LimitSettings.named(name, klass) or { name = name }
end

-- Calls as many jobs as the limit has room for, a bounded number at a time.
local function call_some(limit)
  local room, full = uncalled_room(limit)
  if room < 1 then
    -- A called one has started, perhaps the last: until then it was not known when the window opens. (Of a long one
    -- that is after the called are late, when it is looked at anyway.)
    if limit.rate and (full or limit.rate.per < LATE) then
      look_after(limit.name, next_look(limit) - scope.now)
    end
    return
  end
  local most = math.min(room, CALLED - (scope.called or 0))
  local list = most > 0 and call('ZREVRANGE', key.limit_aside(limit.name), 0, most - 1, 'WITHSCORES') or {}
  scope.called = (scope.called or 0) + #list / 2
  for n = 1, #list, 2 do
    Limits.bring(list[n], limit.name, list[n + 1])
  end
  look_after(limit.name, most < room and 0 or LATE)
end

-- There may be room under the limit of that name, of which a job of the type `klass` was met.
function Limits.call_up(name, klass)
  if call('EXISTS', key.limit_aside(name)) == 0 then
    return
  elseif modules.Turns.is_tenant(name) then
    modules.Turns.next_of_tenant(name)
  else
    call_some(limit_of(name, klass))
  end
end

-- Does the limit keep a job back that it has not called? -> when it is to be looked at again
local function full(limit, called, holds)
  local is_called = false
  for _, name in ipairs(called) do
    is_called = is_called or name == limit.name
  end
  local held = holds[limit.name]
  local room = is_called and room_of(limit, held) or uncalled_room(limit, held)
  return room < 1 and next_look(limit)
end

-- The limits of a job that have numbers: of its key, then of its type.
local function limits_of(klass, text)
  local of, limits = modules.LimitSettings.exist() and modules.LimitSettings.of(klass), {}
  if of and text and (of.key_most or of.key_rate) then
    limits[1] = { name = modules.LimitSettings.of_key(klass, text), most = of.key_most, rate = of.key_rate }
  end
  if of and (of.most or of.rate) then
    limits[#limits + 1] = { name = modules.LimitSettings.of_type(klass), most = of.most, rate = of.rate }
  end
  return limits
end

-- What holds the job back that is to be handed out. -> name, when to look again; nil: nothing
local function obstacle(jid, queue, job, limits, called, holds)
  local tenant = modules.Turns.obstacle(queue, job, #called > 0)
  if tenant then
    return tenant
  end
  for n, limit in ipairs(limits) do
    local look = full(limit, called, holds)
    if look then
      -- Those before have room for it: it is their next, whatever this one takes.
      for before = 1, n - 1 do
        Limits.note_called(jid, called, limits[before].name, '+inf')
      end
      return limit.name, look
    end
  end
end

-- May a job be handed out that was taken from its place? If so it takes what it needs of its limits, until it leaves
-- its worker; else it is set aside. `job` has limit_key, fair_by, called, holds, state, rare, and a priority that can
-- be read.
function Limits.admit(jid, queue, klass, job, score, expires)
  local limits = limits_of(klass, job.limit_key or nil)
  if #limits == 0 and not (job.called or job.fair_by or job.holds) then
    return true
  end
  local called = modules.Record.read('called', job.called or nil, {})
  local holds = modules.Record.read('holds', job.holds or nil, {})
  local name, look = obstacle(jid, queue, job, limits, called, holds)
  if name then
    score = score or exact(modules.Places.score(modules.Record.number(job.priority), scope.now))
    Limits.set_aside(jid, queue, name, score, look, job)
    Limits.uncall(jid, called, klass, name)
    return false
  end
  modules.Holders.take(jid, limits, expires, holds)
  Limits.uncall(jid, called, klass)
  return true
end

-- A job goes back that was handed out. If it was not started, the windows of its rates have room for another one.
function Limits.not_started(job)
  if job.held or not modules.LimitSettings.exist() then
    return
  end
  local klass, limit_key = modules.Hash.values(job.key, 'klass', 'limit_key')
  for _, limit in ipairs(limits_of(klass or '', limit_key or nil)) do
    if limit.rate then
      modules.Rates.uncount(limit.name, job.time)
      look_after(limit.name, LATE)
    end
  end
  if modules.LimitSettings.of_queue(job.queue) then
    modules.Rates.uncount('queue:' .. job.queue, job.time)
  end
end

-- The job holds nothing any more: its worker has it no longer. `holds` is the text in its record.
function Limits.release(jid, holds)
  for name in pairs(modules.Holders.drop(jid, holds)) do
    Limits.call_up(name)
  end
end

-- A job was taken from its worker and is the next to be handed out: there is room for it first.
function Limits.call_again(jid, holds)
  local called = {}
  for name in pairs(modules.Holders.drop(jid, holds)) do
    Limits.note_called(jid, called, name, modules.NumberFormat.now())
    look_after(name, LATE)
  end
end

-- The job has ended or is gone, or goes on elsewhere. `record` may have holds, aside, called, queue.
function Limits.leave(jid, record)
  if record.aside then
    leave_aside(jid, record.queue, record.aside)
  end
  if record.holds then
    Limits.release(jid, record.holds)
  end
  if record.called then
    Limits.uncall(jid, modules.Record.read('called', record.called, {}), record.klass)
  end
end

-- Drops those from the lists of the limit that are there for nothing: another core may have ended them. Who was
-- called at a time that is yet to come, before the clock was set back, is called now.
local function heal(limit)
  modules.Holders.heal(limit.name)
  local called, now = key.limit_called(limit.name), modules.NumberFormat.now()
  call('ZREMRANGEBYSCORE', called, '-inf', '(' .. exact(scope.now - EVERY))
  for _, jid in ipairs(call('ZRANGEBYSCORE', called, '(' .. now, '(+inf', 'LIMIT', 0, CALLED)) do
    call('ZADD', called, now, jid)
  end
  for _, jid in ipairs(call('ZRANGEBYSCORE', called, '+inf', '+inf', 'LIMIT', 0, CALLED)) do
    if not call('HGET', key.job(jid), 'aside') then
      call('ZADD', called, now, jid)
    end
  end
end

-- A limit has to be looked at: whether there is room, and when to look again.
local function look(name, queue)
  local openings = key.place(queue, 'openings')
  call('ZREM', openings, name)
  local limit = limit_of(name)
  if not limit then
    modules.Turns.look(name)
  else
    heal(limit)
    call_some(limit)
  end
  if call('EXISTS', key.limit_aside(name)) == 1 then
    look_at(name, queue, limit and next_look(limit) or scope.now + EVERY)
  end
end

-- Looks at the limits of the queue for which it is time.
function Limits.look(queue)
  local name = key.place(queue, 'openings')
  for _, limit in ipairs(call('ZRANGEBYSCORE', name, '-inf', modules.NumberFormat.now(), 'LIMIT', 0, LOOKED)) do
    look(limit, queue)
  end
end

-- The limits of a job type have changed: what they hold back is looked at by the next calls.
function Limits.look_again(klass)
  local type, of_keys = modules.LimitSettings.of_type(klass), modules.LimitSettings.of_key(klass, '')
  local left = modules.Arguments.most
  for _, queue in ipairs(modules.Queue.names(modules.Arguments.most)) do
    local openings = key.place(queue, 'openings')
    for _, name in ipairs(left > 0 and call('ZRANGE', openings, 0, left - 1) or {}) do
      left = left - 1
      if name == type or string.sub(name, 1, #of_keys) == of_keys then
        look_at(name, queue, scope.now)
      end
    end
  end
end

-- How many more jobs of a queue may start by its rate. If none, it is looked at again when one may.
function Limits.room_of_queue(queue)
  local rate = modules.LimitSettings.exist() and modules.LimitSettings.of_queue(queue)
  if not rate then
    return math.huge
  end
  return modules.Rates.room('queue:' .. queue, rate)
end

-- So many jobs of the queue were handed out.
function Limits.count_of_queue(queue, n)
  local rate = n > 0 and modules.LimitSettings.exist() and modules.LimitSettings.of_queue(queue)
  if rate then
    modules.Rates.count('queue:' .. queue, rate, n)
  end
end

-- When limits have something to do for the queue next, or nil.
function Limits.next_due(queue)
  if not modules.LimitSettings.exist() then
    return nil
  end
  local _, first = modules.SortedSet.first(key.place(queue, 'openings'))
  local rate = modules.LimitSettings.of_queue(queue)
  if rate and call('EXISTS', key.place(queue, 'work')) == 1 then
    local room, opens = modules.Rates.room('queue:' .. queue, rate)
    first = room < 1 and math.min(first or opens, opens) or first
  end
  return first
end
end
elseif module_name == 'Minutes' then
return function()
local Minutes = {
kinds = 0, count = 0, write = 0, write_total = 0, finish = 0, buffered = 0, show = 0
}
modules.Minutes = Minutes
-- minutes.lua
-- Counters per queue and minute of what was put, started, completed and failed.

local floor, text_of = math.floor, modules.Arguments.text_of

local KINDS = { 'put', 'started', 'completed', 'failed' }
local TOTALLED = { started = true, completed = true, failed = true }
local KEPT = 26 * 3600 -- an hour's counters are kept until its last minute is 25 hours old
local LONGEST = 25 * 60

Minutes.kinds, Minutes.longest = KINDS, LONGEST

-- The counters of the whole namespace stand under a name that no queue has. What is put is not
-- counted there: it would cost each put as much as its own counter. Nor are the entities' own.
local ALL = ''

-- What a call counts is written at its end: scope.minutes, a list, as a call counts few.
function Minutes.count(queue, kind, n)
  if not scope.live then
    return
  end
  local counted = scope.minutes or {}
  for place = 1, #counted do
    local one = counted[place]
    if one.queue == queue and one.kind == kind then
      one.n = one.n + n
      return
    end
  end
  counted[#counted + 1] = { queue = queue, kind = kind, n = n }
  scope.minutes = counted
end

-- Adds to the counter of one minute of the epoch.
function Minutes.write(queue, kind, minute, n)
  if scope.live then
    local name = key.minutes(queue, floor(minute / 60), kind)
    if call('HINCRBY', name, text_of(minute % 60), text_of(n)) == n then
      call('EXPIRE', name, KEPT)
    end
  end
end

-- The same for the whole namespace.
function Minutes.write_total(kind, minute, n)
  Minutes.write(ALL, kind, minute, n)
end

function Minutes.finish()
  local minute = floor(scope.now / 60)
  for _, one in ipairs(scope.minutes) do
    Minutes.write(one.queue, one.kind, minute, one.n)
    if TOTALLED[one.kind] then
      Minutes.write_total(one.kind, minute, one.n)
    end
  end
end

local BUFFERED = { wait = 'started', run = 'completed' }
Minutes.buffered = BUFFERED

-- Adds what the statistics do not have yet.
local function count_buffered(shown, wanted_queue, from, to)
  modules.StatsBuffer.read(function(second, kind, _, n, queue)
    local minute = floor(second / 60)
    if queue == wanted_queue and minute >= from and minute <= to then
      local list, field = shown[BUFFERED[kind]], string.format('%.0f', minute)
      list[field] = (list[field] or 0) + n
    end
  end)
end

-- minutes queue from to
function Minutes.show(args, i)
  local queue = modules.Arguments.queue('minutes', args[i])
  local from = modules.Arguments.whole('minutes', 'from', args[i + 1], 0)
  local to = modules.Arguments.whole('minutes', 'to', args[i + 2], 0)
  if to - from > LONGEST then
    modules.Errors.raise('TOOBIG', 'minutes(): ' .. to - from .. ' minutes, at most ' .. LONGEST)
  end
  local shown = {}
  for _, kind in ipairs(KINDS) do
    shown[kind] = {}
    for hour = floor(from / 60), floor(to / 60) do
      local found = call('HGETALL', key.minutes(queue, hour, kind))
      for n = 1, #found, 2 do
        local minute = hour * 60 + tonumber(found[n])
        if minute >= from and minute <= to then
          shown[kind][string.format('%.0f', minute)] = tonumber(found[n + 1])
        end
      end
    end
  end
  count_buffered(shown, queue, from, to)
  return cjson.encode(shown)
end
end
elseif module_name == 'Entity' then
return function()
local Entity = {
jid = 0, is_jid = 0, id = 0, is_in_the_way = 0, no_move = 0, refuse_move = 0, refuse_put = 0, listed
= 0, unlisted = 0, returned = 0, again = 0, completed = 0, gone = 0
}
modules.Entity = Entity
-- entities/entity.lua
-- Entities: the job that carries one, and the places where it is listed.

-- The id of the job that carries an entity of a queue.
function Entity.jid(queue, entity)
  return 'entity-' .. redis.sha1hex(queue .. '\0' .. entity)
end

-- Does a job of this id carry an entity? (As far as its id tells.)
function Entity.is_jid(jid)
  return #jid == 47 and string.find(jid, '^entity%-%x+$') ~= nil
end

-- An argument that names an entity.
function Entity.id(command, value)
  modules.Arguments.name(command, 'entity', value)
  if #value > 255 then
    modules.Errors.argument(command, 'entity must have 1 to 255 bytes, not ' .. #value)
  end
  return value
end

-- Is there a job of this id that carries no entity? It was put by other means.
function Entity.is_in_the_way(jid)
  local state, entity = modules.Hash.values(key.job(jid), 'state', 'entity')
  return state and not entity
end

-- The job of an entity belongs to its queue.
function Entity.no_move(command, jid)
  return 'STATE', command .. '(): Job ' .. modules.Errors.name(jid) .. ' carries an entity, which stays in its queue'
end

function Entity.refuse_move(command, job)
  if job.entity then
    modules.Errors.raise(Entity.no_move(command, job.jid))
  end
end

function Entity.refuse_put(jid)
  modules.Errors.raise('STATE', 'Job ' .. modules.Errors.name(jid) .. ' carries an entity: push payloads to it instead')
end

-- The entity, which is in no list, waits from `due` on: it is listed as fresh, or as one whose last run has failed.
function Entity.listed(jid, queue, due, remaining, retries)
  local list = remaining < retries and key.retrying(queue) or key.fresh(queue)
  call('ZADD', list, string.format('%.17g', due), jid)
end

-- The entity does not wait any longer. (It was in one list, mostly that of the fresh ones.)
function Entity.unlisted(jid, queue)
  if call('ZREM', key.fresh(queue), jid) == 0 then
    call('ZREM', key.retrying(queue), jid)
  end
end

-- What was in a run's hands is in its queue again, with all that has been pushed meanwhile.
function Entity.returned(jid, queue)
  modules.Payloads.give_back(jid)
  local remaining, retries, time = modules.Hash.values(key.job(jid), 'remaining', 'retries', 'time')
  local due = call('ZSCORE', key.place(queue, 'scheduled'), jid) or modules.Record.read('time', time, scope.now)
  retries = modules.Record.read('retries', retries, 0)
  Entity.listed(jid, queue, tonumber(due), modules.Record.read('remaining', remaining, retries), retries)
end

-- The entity is in no place, and goes on at once as though it had never failed; the record may be in any state.
function Entity.again(jid, queue)
  local priority, retries = modules.Hash.values(key.job(jid), 'priority', 'retries')
  priority, retries = modules.Record.read('priority', priority, 0), modules.Record.text('retries', retries, '0')
  call('ZREM', key.completed(), jid)
  call(
    'HSET',
    key.job(jid),
    'state',
    'waiting',
    'worker',
    '',
    'expires',
    '0',
    'queue',
    queue,
    'remaining',
    retries,
    'time',
    modules.NumberFormat.time()
  )
  call('HDEL', key.job(jid), 'crashes', 'unknown', 'grace', 'progress', 'waited', 'returned')
  modules.History.put(jid, queue)
  modules.Places.work(jid, queue, priority)
  call('ZADD', key.fresh(queue), modules.NumberFormat.now(), jid)
end

-- The runs of these jobs are complete, and their payloads are done. What was pushed meanwhile is next.
function Entity.completed(jids)
  local taken, payloads = {}, {}
  for n, jid in ipairs(jids) do
    taken[n], payloads[n] = key.taken(jid), key.payloads(jid)
  end
  call('DEL', unpack(taken))
  if call('EXISTS', unpack(payloads)) == 0 then
    return
  end
  for n, jid in ipairs(jids) do
    if call('EXISTS', payloads[n]) == 1 then
      Entity.again(jid, call('HGET', key.job(jid), 'home'))
    end
  end
end

-- The job was canceled, or is erased: so are its payloads.
function Entity.gone(jid, queue)
  call('UNLINK', key.payloads(jid)) -- there may be very many: their memory is freed in the background
  call('DEL', key.taken(jid))
  Entity.unlisted(jid, queue)
end
end
elseif module_name == 'ExistenceCache' then
return function()
local ExistenceCache = {
note = 0, look_for = 0, forget = 0, is_absent = 0, many = 0, is_bare = 0
}
modules.ExistenceCache = ExistenceCache
-- existence_cache.lua
-- An existence cache for optional keys: one question tells for many that they are absent.

-- These keys do not exist.
function ExistenceCache.note(names)
  local absent = scope.absent or {}
  for n = 1, #names do
    absent[names[n]] = true
  end
  scope.absent = absent
end

-- Asks for two lists of keys: for all at once, and if there are any, for the first alone. is_absent says of each key of
-- a list of which none exists that it does not. -> whether none of the first exists
-- (Whether options are set is asked with them: mostly none are, or nothing else is there.)
function ExistenceCache.look_for(names, others)
  local all = { key.config(), unpack(names) }
  for n = 1, #others do
    all[#all + 1] = others[n]
  end
  local found = call('EXISTS', unpack(all))
  if found == 0 then
    modules.Config.note_none()
  elseif modules.Config.is_set() then
    found = found - 1
  end
  local of_names = found > 0 and #others > 0 and call('EXISTS', unpack(names)) or found
  if of_names == 0 then
    ExistenceCache.note(names)
  end
  if of_names == found then
    ExistenceCache.note(others)
  end
  return of_names == 0
end

-- The call has made the key, or is about to.
function ExistenceCache.forget(name)
  if scope.absent then
    scope.absent[name] = nil
  end
end

-- Is the key known not to exist? (What makes one has to say so: forget.)
function ExistenceCache.is_absent(name)
  return scope.absent and scope.absent[name] or false
end

ExistenceCache.many = 8 -- From so many queues in a call on, they are first asked whether they are bare.

-- Is there nothing in the queue that could be handed out, now or later? One question instead of ten.
function ExistenceCache.is_bare(queue)
  local work, locks, scheduled =
    key.place(queue, 'work'), key.place(queue, 'locks'), key.place(queue, 'scheduled')
  return call('EXISTS', work, locks, scheduled, key.place(queue, 'recur'), key.place(queue, 'openings')) == 0
end
end
elseif module_name == 'Samples' then
return function()
local Samples = {
length = 0, add = 0, waited = 0, waited_in_hands = 0, held = 0, started = 0, taken_away = 0, settle
= 0, can_wait = 0, finish = 0
}
modules.Samples = Samples
-- samples.lua
-- How long jobs waited and ran: the samples of a call, and their way into statistics and minutes.
--
-- To write the statistics for each single job would cost more than the job. A call with few
-- samples leaves them in the buffer; when that is long, and with each beat of a worker, all of
-- it is written. Readers of statistics add the buffer.

local floor, match = math.floor, string.match

local FEW = 8 -- samples of one call
local MOST = 100 -- entries of the buffer
local LOOKED_BACK = 3

-- Milliseconds are kept, so that many are equal.
function Samples.length(seconds)
  return floor(seconds * 1000 + 0.5) / 1000
end

-- kind wait: from ready to started; kind run: from started to complete; in seconds. It counts for the
-- time `at` (now, if none is given).
function Samples.add(kind, queue, seconds, at)
  local value, second = Samples.length(seconds > 0 and seconds or 0), floor(at or scope.now)
  -- The jobs of a batch mostly have the same: what is missed here is added up later.
  local samples = scope.samples or {}
  local count = #samples
  for place = count, math.max(1, count - LOOKED_BACK), -1 do
    local one = samples[place]
    if one.value == value and one.second == second and one.queue == queue and one.kind == kind then
      one.n = one.n + 1
      return
    end
  end
  samples[count + 1] = { second = second, kind = kind, queue = queue, value = value, n = 1 }
  scope.samples = samples
end

-- What a record says of how long its job waited before it was handed out, in milliseconds, and then in
-- its worker's hands: its field `waited`. -> nil if its wait was counted when it was handed out; nil if
-- it is not known to have been started
local function waits_of(waited)
  local before, held = match(waited or '', '^(%d+)%+?(%d*)$')
  return tonumber(before), tonumber(held)
end

-- The field `waited` of a job that has been handed out now, and has been ready `since`.
function Samples.waited(since)
  return modules.NumberFormat.whole(floor(math.max(0, scope.now - since) * 1000 + 0.5))
end

-- The same of a job that was started after `held` seconds, or nil if it says so already.
function Samples.waited_in_hands(waited, held)
  local before, known = waits_of(waited)
  return before and not known and waited .. '+' .. modules.NumberFormat.whole(floor(held * 1000 + 0.5))
end

-- Seconds that a job lay in its worker's hands before it was started, as far as its record knows.
function Samples.held(waited)
  local _, held = waits_of(waited)
  return held and held / 1000
end

-- Counts that a job was started that was handed out at the time `popped` and then lay for `held` seconds
-- in its worker's hands. -> when it was started
function Samples.started(queue, popped, waited, held)
  local before, start = waits_of(waited), math.min(popped + held, scope.now)
  if before then
    Samples.add('wait', queue, before / 1000 + start - popped, start)
  end
  return start
end

-- The same of a job that is taken from its worker, if it is known to have been started.
function Samples.taken_away(queue, popped, waited)
  local held = Samples.held(waited)
  if held then
    Samples.started(queue, modules.Record.read('time', popped, scope.now), waited, held)
  end
end

local COUNTED_AS = modules.Minutes.buffered

local function inside(list, name)
  local inner = list[name]
  if not inner then
    inner = {}
    list[name] = inner
  end
  return inner
end

-- Adds up samples by what has to be written: -> add(second, kind, seconds, n, queue), write()
local function book()
  local days, minutes = { wait = {}, run = {} }, { wait = {}, run = {} }
  local function add(second, kind, seconds, n, queue)
    local list = inside(inside(days[kind], modules.Stats.day(second)), queue)
    list[seconds] = (list[seconds] or 0) + n
    list = inside(minutes[kind], floor(second / 60))
    list[queue] = (list[queue] or 0) + n
  end
  local function write()
    for kind, by_day in pairs(days) do
      for day, by_queue in pairs(by_day) do
        for queue, list in pairs(by_queue) do
          modules.Stats.write(kind, day, queue, list)
        end
      end
    end
    for kind, by_minute in pairs(minutes) do
      for minute, by_queue in pairs(by_minute) do
        local total = 0
        for queue, n in pairs(by_queue) do
          modules.Minutes.write(queue, COUNTED_AS[kind], minute, n)
          total = total + n
        end
        modules.Minutes.write_total(COUNTED_AS[kind], minute, total)
      end
    end
  end
  return add, write
end

-- Writes the buffer into the statistics.
function Samples.settle()
  local add, write = book()
  modules.StatsBuffer.take(add)
  write()
end

local function leave_in_buffer()
  local entries = {}
  for place, one in ipairs(scope.samples) do
    entries[place] = modules.StatsBuffer.entry(one.second, one.kind, one.value, one.n, one.queue)
  end
  if modules.StatsBuffer.append(unpack(entries)) >= MOST then
    Samples.settle()
  end
end

-- May they be written later?
function Samples.can_wait()
  return #scope.samples <= FEW
end

function Samples.finish()
  if Samples.can_wait() then
    leave_in_buffer()
    return
  end
  local add, write = book()
  for _, one in ipairs(scope.samples) do
    add(one.second, one.kind, one.value, one.n, one.queue)
  end
  write()
end
end
elseif module_name == 'Stats' then
return function()
local Stats = {
day = 0, count = 0, mended = 0, write = 0, finish = 0, shows_ours = 0, show = 0, counters = 0
}
modules.Stats = Stats
-- stats.lua
-- Statistics of a queue and day: running mean and variance (Welford 1962), a histogram.

local floor = math.floor
local DAY = 86400

function Stats.day(time)
  return time - time % DAY
end

-- What a call counts is written once, at its end: scope.counts, queue -> field -> number.
function Stats.count(queue, field, n)
  local counts = scope.counts or {}
  scope.counts = counts
  local fields = counts[queue]
  if not fields then
    fields = {}
    counts[queue] = fields
  end
  fields[field] = (fields[field] or 0) + n
end

-- One job less is failed, of those that failed on that day.
function Stats.mended(queue, failed_at)
  local fields = scope.counts and scope.counts[queue]
  if fields and (fields.failed or 0) > 0 and Stats.day(failed_at) == Stats.day(scope.now) then
    fields.failed = fields.failed - 1 -- It failed in this very call, perhaps.
    return
  end
  local name = key.stat('stats', Stats.day(failed_at), queue)
  if (tonumber(call('HGET', name, 'failed')) or 0) > 0 then
    call('HINCRBY', name, 'failed', -1)
  end
end

local function bin(seconds)
  if seconds < 60 then
    return 's' .. modules.Arguments.text_of(floor(seconds)) -- mostly 0
  elseif seconds < 3600 then
    return 'm' .. floor(seconds / 60)
  elseif seconds < DAY then
    return 'h' .. floor(seconds / 3600)
  end
  return 'd' .. floor(seconds / DAY)
end

-- Where the bins below a second begin, in milliseconds.
local BELOW_SECOND = { 0, 1, 2, 5, 10, 20, 50, 100, 200, 500 }

local FINE_BINS = {}
for n, edge in ipairs(BELOW_SECOND) do
  FINE_BINS[n] = 'ms' .. edge
end

-- The bin of ours that a length below a second belongs to as well.
local function fine_bin(seconds)
  local milliseconds, n = floor(seconds * 1000 + 0.5), #BELOW_SECOND
  while milliseconds < BELOW_SECOND[n] do
    n = n - 1
  end
  return FINE_BINS[n]
end

-- Days looked back when a day begins, for days on which the queue did nothing.
local LOOKED_BACK = 10
local LONGEST = 36500 -- days a time to live may have

-- Days end: summaries are kept stats-history days, histograms histogram-history days.
local function begin_day(kind, day, queue)
  local kept = modules.Config.whole('stats-history')
  local gone = {}
  for n = 1, LOOKED_BACK do
    gone[n] = key.stat(kind, day - (kept + n - 1) * DAY, queue)
  end
  if kept >= 1 then
    call('DEL', unpack(gone))
  end
  if scope.live then
    call('EXPIRE', key.stat(kind, day, queue), (math.max(0, math.min(kept, LONGEST)) + 1) * DAY)
  end
  if kind == 'stats' then
    return
  end
  local old = key.stat(kind, day - modules.Config.whole('histogram-history') * DAY, queue)
  local total, mean, vk = modules.Hash.values(old, 'total', 'mean', 'vk')
  if total then
    local rest = call('TTL', old)
    call('DEL', old)
    call('HSET', old, 'total', total, 'mean', mean, 'vk', vk)
    if rest > 0 then
      call('EXPIRE', old, rest)
    end
  end
end

-- Mean and variance with more values: seconds -> how often. (Texts are whole seconds of which no
-- more is known.)
local function with(count, mean, vk, values)
  for value, n in pairs(values) do
    local away, before = tonumber(value) - mean, count
    count = count + n
    mean = mean + away * n / count
    vk = vk + away * away * before * n / count
  end
  return count, mean, vk
end

local function by_bin(values)
  local bins = {}
  local function add(field, n)
    bins[field] = (bins[field] or 0) + n
  end
  for value, n in pairs(values) do
    add(bin(tonumber(value)), n)
    if scope.live and type(value) == 'number' and value < 1 then
      add(fine_bin(value), n)
    end
  end
  return bins
end

-- Adds samples to a day's statistics: seconds -> how often.
function Stats.write(kind, day, queue, values)
  local name, bins, fields = key.stat(kind, day, queue), by_bin(values), { 'total', 'mean', 'vk' }
  for field in pairs(bins) do
    fields[#fields + 1] = field
  end
  local old = call('HMGET', name, unpack(fields))
  local count, mean, vk = with(tonumber(old[1]) or 0, tonumber(old[2]) or 0, tonumber(old[3]) or 0, values)
  local written = { 'total', modules.NumberFormat.whole(count), 'mean', mean, 'vk', vk }
  for k = 4, #fields do
    written[#written + 1] = fields[k]
    written[#written + 1] = modules.NumberFormat.whole((tonumber(old[k]) or 0) + bins[fields[k]])
  end
  call('HSET', name, unpack(written))
  if not old[1] then
    begin_day(kind, day, queue)
  end
end

function Stats.finish()
  local day = Stats.day(scope.now)
  for queue, fields in pairs(scope.counts) do
    local name = key.stat('stats', day, queue)
    for field, n in pairs(fields) do
      if call('HINCRBY', name, field, n) == n then
        begin_day('stats', day, queue)
      end
    end
  end
end

-- The protocol's bins, in order.
local function all_bins()
  local bins = {}
  for _, part in ipairs({ { 's', 0, 59 }, { 'm', 1, 59 }, { 'h', 1, 23 }, { 'd', 1, 6 } }) do
    for n = part[2], part[3] do
      bins[#bins + 1] = part[1] .. n
    end
  end
  return bins
end

-- The buffered samples of a queue and day: kind -> seconds -> how often.
local function not_yet_written(wanted_day, wanted_queue)
  local found = { wait = {}, run = {} }
  if scope.live then
    modules.StatsBuffer.read(function(second, kind, seconds, n, queue)
      if queue == wanted_queue and Stats.day(second) == wanted_day then
        found[kind][seconds] = (found[kind][seconds] or 0) + n
      end
    end)
  end
  return found
end

-- Are those figures shown that the protocol does not have?
Stats.shows_ours = true

local function summary(kind, day, queue, more)
  local name = key.stat(kind, day, queue)
  local total, its_mean, its_vk = modules.Hash.values(name, 'total', 'mean', 'vk')
  local count, mean, vk = with(tonumber(total) or 0, tonumber(its_mean) or 0, tonumber(its_vk) or 0, more)
  local shown = {
    count = count,
    mean = mean,
    std = count > 1 and math.sqrt(vk / (count - 1)) or 0,
  }
  local more_bins = by_bin(more)
  local function times(bins)
    local numbers = call('HMGET', name, unpack(bins))
    for n, value in ipairs(numbers) do
      numbers[n] = (tonumber(value) or 0) + (more_bins[bins[n]] or 0)
    end
    return numbers
  end
  shown.histogram = times(all_bins())
  shown.below_second = Stats.shows_ours and times(FINE_BINS) or nil
  return shown
end

-- stats queue date
function Stats.show(args, i)
  local queue = modules.Arguments.name('stats', 'queue', args[i])
  local day = Stats.day(modules.Arguments.number('stats', 'date', args[i + 1]))
  local its_retries, its_failed, its_failures, its_retried =
    modules.Hash.values(key.stat('stats', day, queue), 'retries', 'failed', 'failures', 'retried')
  local more = not_yet_written(day, queue)
  return cjson.encode({
    retries = tonumber(its_retries) or 0,
    failed = tonumber(its_failed) or 0,
    failures = tonumber(its_failures) or 0,
    retried = Stats.shows_ours and (tonumber(its_retried) or 0) or nil,
    wait = summary('wait', day, queue, more.wait),
    run = summary('run', day, queue, more.run),
  })
end

-- stats.counters date queue... -> for each queue: retried, retries, failures, failed of that day
function Stats.counters(args, i)
  local day = Stats.day(modules.Arguments.number('stats.counters', 'date', args[i]))
  modules.Arguments.bounded('stats.counters', #args - i)
  local found = {}
  for n = i + 1, #args do
    local name = key.stat('stats', day, args[n])
    for _, number in ipairs(call('HMGET', name, 'retried', 'retries', 'failures', 'failed')) do
      found[#found + 1] = tonumber(number) or 0
    end
  end
  return found
end
end
elseif module_name == 'Outcome' then
return function()
local Outcome = {
write_complete = 0, write_returned = 0, forget_run = 0, forget_marks = 0, advance = 0, keep_result =
0, complete = 0, end_failed = 0, write_failed = 0, fail_now = 0, fail = 0, unheld = 0, back = 0,
count_retried = 0, retry_now = 0, retry = 0, release = 0
}
modules.Outcome = Outcome
-- outcome.lua
-- How a run ends: complete, advance, fail, retry, give back.

local floor = math.floor

-- The record of a completed job; `returned` is what keep_result says, `is_written` what History.done_with does.
function Outcome.write_complete(name, retries, data, returned, is_written)
  if returned then
    return Outcome.write_returned(name, retries, data, returned, is_written)
  end
  call(
    'HSET',
    name,
    'state',
    'complete',
    'worker',
    '',
    'expires',
    '0',
    'time',
    modules.NumberFormat.time(),
    'remaining',
    retries,
    'queue',
    '',
    'failure',
    '{}',
    is_written and 'put' or 'failure', -- What is named twice is written once.
    is_written and '' or '{}'
  )
  if data then
    call('HSET', name, 'data', data)
  end
end

-- The same in one command for a job that has returned something: a command more would cost more than a table.
function Outcome.write_returned(name, retries, data, returned, is_written)
  local fields = { 'state', 'complete', 'worker', '', 'expires', '0', 'time', modules.NumberFormat.time() }
  fields[9], fields[10], fields[11], fields[12] = 'remaining', retries, 'queue', ''
  fields[13], fields[14], fields[15], fields[16] = 'failure', '{}', 'returned', returned
  if data then
    fields[17], fields[18] = 'data', data
  end
  if is_written then
    fields[#fields + 1] = 'put'
    fields[#fields + 1] = ''
  end
  call('HSET', name, unpack(fields))
end

-- Forgets what belongs to a run that was completed. (Its token is stale by the job's new state.)
function Outcome.forget_run(job)
  if job.marked then
    Outcome.forget_marks(key.job(job.jid))
  end
end

function Outcome.forget_marks(name)
  call('HDEL', name, 'grace', 'progress')
end

-- The same for a run that was not. `unknown` stays only from one unknown name to the next.
local function forget_all(job)
  if job.unknown then
    call('HDEL', key.job(job.jid), 'grace', 'progress', 'waited')
  else
    call('HDEL', key.job(job.jid), 'grace', 'progress', 'waited', 'unknown')
  end
end

local function finish(job, data, returned)
  Outcome.write_complete(job.key, job.retries, data, returned)
  call('ZADD', key.completed(), scope.now, job.jid)
  modules.JobEnd.completed({ job.jid }, { job.rare and job.jid }) -- which reads the record, so before it may go
  modules.Expiry.after(1)
end

-- Completes a job that goes on in another queue, where it waits for what is open of what it
-- `needs`. -> its new state
function Outcome.advance(job, to, delay, depends, data, needs, beyond)
  local jid = job.jid
  modules.History.put(jid, to)
  modules.Places.register(to)
  local open = depends and #depends > 0
  local state = open and 'depends' or delay > 0 and 'scheduled' or 'waiting'
  call(
    'HSET',
    key.job(jid),
    'state',
    state,
    'worker',
    '',
    'failure',
    '{}',
    'queue',
    to,
    'expires',
    0,
    'remaining',
    job.retries,
    'time',
    modules.NumberFormat.time()
  )
  if data then
    call('HSET', key.job(jid), 'data', data)
  end
  Outcome.forget_run(job)
  if state == 'depends' then
    modules.Dependencies.link(jid, depends, job.rare and call('HGET', key.job(jid), 'on_failure'))
    if beyond then
      call('HSET', key.job(jid), 'beyond', beyond, 'rare', '1')
    end
    if delay > 0 then
      call('HSET', key.job(jid), 'scheduled', scope.now + delay)
    end
    modules.Places.depends(jid, to)
  elseif state == 'scheduled' then
    modules.Places.scheduled(jid, to, scope.now + delay)
  else
    modules.Places.work(jid, to, job.priority)
  end
  modules.DependencyResults.add(jid, needs)
  modules.JobEnd.goes_on(job, state, true)
  return state
end

local COMPLETE_OPTIONS =
  { next = true, delay = true, depends = true, result = true, result_ttl = true, held = true }

-- Seconds; the server refuses times to live that it cannot count in milliseconds.
local LONGEST_TTL = 2 ^ 31

-- -> what the record says of it, that of a complete job for as long as it is complete: when it expires, which
-- run returned it; nil if there is nothing
function Outcome.keep_result(jid, token, result, ttl)
  if not result or result == '' then
    return nil
  end
  ttl = math.min(ttl, LONGEST_TTL)
  call('SET', key.result(jid), result, 'EX', ttl)
  return result ~= 'null' and modules.NumberFormat.whole(math.floor(scope.now) + ttl + 1) .. ' ' .. token or nil
end

-- For how many seconds the result that a completion brings is kept; nil if it brings none.
local function ttl_of(options)
  local result = options.result
  if result and result ~= '' then
    modules.Arguments.json('complete', 'result', result, modules.Arguments.text_bytes)
    return modules.Arguments.whole('complete', 'result_ttl', options.result_ttl or '3600', 1)
  end
end

-- With KEYS these commands may be told for how many seconds the job lay in its worker's hands before it
-- was started, as settle is.

-- complete jid worker queue data [pairs]
function Outcome.complete(args, i)
  local jid, proof = modules.Arguments.name('complete', 'jid', args[i]), args[i + 1]
  local queue, data = modules.Arguments.name('complete', 'queue', args[i + 2]), args[i + 3]
  modules.Arguments.proof('complete', proof)
  modules.Arguments.json('complete', 'data', data)
  local options = modules.Arguments.options('complete', args, i + 4, COMPLETE_OPTIONS)
  local to, delay, depends = options.next, options.delay, options.depends
  if not to and (delay or depends) then
    modules.Errors.argument('complete', 'delay and depends can only be used with next')
  end
  delay = delay and modules.Arguments.number('complete', 'delay', delay) or 0
  depends = depends and modules.Arguments.names('complete', 'depends', depends) or {}
  local needs, beyond
  local ttl = ttl_of(options)
  local held = modules.Arguments.held('complete', options.held)
  local job = modules.Lock.holder('complete', jid, proof)
  if job.queue ~= queue then
    modules.Errors.raise(
      'STATE',
      'complete(): Job %s is running in another queue: %s',
      modules.Errors.name(jid),
      modules.Errors.name(job.queue)
    )
  end
  if to then
    modules.Arguments.queue('complete', to)
    modules.Entity.refuse_move('complete', job)
    needs = depends
    depends, beyond = modules.Dependencies.open_for('complete', jid, depends)
    modules.CycleDetection.refuse('complete', jid, depends)
    if job.bad then
      modules.CorruptJobs.fail(jid, job.bad, job.bad_text)
      return 'failed'
    end
  end

  modules.Lock.count_start(job, held, true)
  modules.History.ended(jid, 'done', job)
  modules.Lock.release(job)
  modules.Samples.add('run', job.queue, scope.now - job.start)
  local returned = Outcome.keep_result(jid, proof, options.result, ttl)
  if modules.Tracking.is_tracked(jid) then
    modules.Events.tracked('completed', jid)
  end
  if to then
    modules.Events.advanced(jid, job.queue, to)
    return Outcome.advance(job, to, delay, depends, data, needs, beyond)
  end
  modules.Events.completed(jid, job.queue)
  Outcome.forget_run(job)
  finish(job, data, returned)
  return 'complete'
end

-- A run of the job has failed it for good: files it as failed, unless it goes on in the queue for such jobs. (What has
-- failed of an entity is kept with its queue's dead.)
-- `failing` is the worker whose run failed it, or nil.
function Outcome.end_failed(job, group, message, when, failing)
  local to = not (job.bad or job.entity) and modules.FailedQueue.of(job.jid, job.queue)
  if to then
    modules.FailedQueue.move(job, to, group, message, when, failing)
  else
    Outcome.write_failed(job, group, message, when, failing)
  end
end

-- Files a job as failed, which ran unless `job.state` says otherwise.
function Outcome.write_failed(job, group, message, when, failing)
  if job.entity and modules.EntityRun.failed(job, group, message) then
    return
  end
  local failure = cjson.encode({ group = group, message = message, when = when, worker = failing or '' })
  call('HSET', key.job(job.jid), 'state', 'failed', 'worker', '', 'expires', '', 'failure', failure)
  forget_all(job)
  modules.Failures.add(job.jid, job.queue, group)
  modules.JobEnd.failed(job.jid, job.state or 'running', job.rare)
end

function Outcome.fail_now(job, group, message)
  local jid = job.jid
  modules.Events.failed(jid, group, message, job.worker)
  if modules.Tracking.is_tracked(jid) then
    modules.Events.tracked('failed', jid)
  end
  modules.Lock.release(job)
  modules.History.ended(jid, 'failed', job, group, message)
  Outcome.end_failed(job, group, message, floor(scope.now), job.worker)
end

-- fail jid worker group message [data]; with KEYS also [data [held]], where '' is no data
function Outcome.fail(args, i)
  local jid, proof = modules.Arguments.name('fail', 'jid', args[i]), args[i + 1]
  modules.Arguments.proof('fail', proof)
  local group = modules.Arguments.given('fail', 'group', args[i + 2])
  local message, data = modules.Arguments.message('fail', args[i + 3]), args[i + 4]
  local held = modules.Arguments.held('fail', args[i + 5])
  if held and data == '' then
    data = nil
  end
  if data then
    modules.Arguments.json('fail', 'data', data)
  end
  local job = modules.Lock.holder('fail', jid, proof)
  if data then
    call('HSET', key.job(jid), 'data', data)
  end
  modules.Lock.count_start(job, held, true)
  Outcome.fail_now(job, group, message)
  return jid
end

-- The fields of a job that has left its worker.
function Outcome.unheld(fields)
  local last = #fields
  fields[last + 1], fields[last + 2] = 'time', modules.NumberFormat.time()
  fields[last + 3], fields[last + 4] = 'worker', ''
  fields[last + 5], fields[last + 6] = 'expires', 0
end

-- Puts a job that was running back into a queue, at once or after a delay; with `again` it keeps
-- its place before its equals.
function Outcome.back(job, queue, delay, failure, again)
  local jid = job.jid
  local state = delay > 0 and 'scheduled' or 'waiting'
  local fields = {
    'HSET',
    key.job(jid),
    'state',
    state,
    'queue',
    queue,
    'remaining',
    job.remaining,
  }
  Outcome.unheld(fields)
  if failure then
    fields[#fields + 1] = 'failure'
    fields[#fields + 1] = failure
  end
  call(unpack(fields))
  forget_all(job)
  if state == 'scheduled' then
    modules.Places.scheduled(jid, queue, scope.now + delay)
  elseif again then
    modules.Places.work_again(jid, queue, job.priority)
  else
    modules.Places.work(jid, queue, job.priority)
  end
  if queue ~= job.queue then
    modules.Places.register(queue)
  end
  modules.JobEnd.goes_on(job, state)
end

function Outcome.count_retried(queue)
  modules.Stats.count(queue, 'retried', 1)
end

-- One retry less: back into the queue, or failed when none is left. -> what remains
function Outcome.retry_now(job, queue, delay, group, message)
  local jid = job.jid
  job.remaining = job.remaining - 1
  modules.Lock.release(job)
  if job.remaining >= 0 then
    modules.History.ended(jid, 'retried', job, group, message, delay)
    Outcome.count_retried(job.queue)
    local failure = message
      and cjson.encode({
        group = group or '',
        message = message,
        when = floor(scope.now),
        worker = job.worker,
      })
    Outcome.back(job, queue, delay, failure)
    return job.remaining
  end
  call('HSET', key.job(jid), 'remaining', -1)
  group = group or 'failed-retries-' .. queue
  modules.History.exhausted(job, group, message)
  if modules.Tracking.is_tracked(jid) then
    modules.Events.tracked('failed', jid)
  end
  if message then
    Outcome.end_failed(job, group, message, floor(scope.now), job.worker)
  else
    Outcome.end_failed(job, group, 'Job exhausted retries in queue "' .. job.queue .. '"', scope.now)
  end
  return -1
end

-- retry jid queue worker [delay] [group] [message]; with KEYS also [held], where group and message may
-- both be ''
function Outcome.retry(args, i)
  local jid = modules.Arguments.name('retry', 'jid', args[i])
  local queue = modules.Arguments.name('retry', 'queue', args[i + 1])
  modules.Arguments.plain('retry', 'queue', queue)
  local proof = modules.Arguments.proof('retry', args[i + 2])
  local delay = modules.Arguments.number('retry', 'delay', args[i + 3] or '0')
  local group, message = args[i + 4], args[i + 5]
  local held = modules.Arguments.held('retry', args[i + 6])
  if held and group == '' and message == '' then
    group, message = nil, nil
  end
  if message then
    modules.Arguments.message('retry', message)
  end
  local job = modules.Lock.holder('retry', jid, proof)
  modules.Arguments.queue('retry', queue)
  if job.bad then
    modules.CorruptJobs.fail(jid, job.bad, job.bad_text)
    return -1
  end
  modules.Lock.count_start(job, held, true)
  queue = job.entity and job.queue or queue -- an entity stays in its queue
  return Outcome.retry_now(job, queue, delay, group, message)
end

-- release jid token [delay [held]]: back into its queue and its place there, no retry used up
function Outcome.release(args, i)
  local delay = modules.Arguments.number('release', 'delay', args[i + 2] or '0')
  local held = modules.Arguments.held('release', args[i + 3])
  local job = modules.Lock.holder('release', args[i], args[i + 1])
  if job.bad then
    modules.CorruptJobs.fail(job.jid, job.bad, job.bad_text)
    return 1
  end
  modules.Lock.count_start(job, held)
  modules.Limits.not_started(job)
  modules.History.ended(job.jid, 'returned', job, nil, nil, delay)
  modules.Lock.release(job)
  Outcome.back(job, job.queue, delay, nil, true)
  return 1
end
end
elseif module_name == 'Tags' then
return function()
local Tags = {
index = 0, unindex = 0, unindex_all = 0, text = 0, with = 0, without = 0, rest = 0, counts = 0,
command = 0
}
modules.Tags = Tags
-- tags.lua
-- Tags: which jobs carry one, and how many do.

-- Counted only when the job did not carry it, so that counts stay equal to members.
function Tags.index(jid, tags)
  for _, tag in ipairs(tags) do
    if call('ZADD', key.tag(tag), scope.now, jid) == 1 then
      call('ZINCRBY', key.tags(), 1, tag)
    end
  end
end

function Tags.unindex(jid, tags)
  for _, tag in ipairs(tags) do
    if call('ZREM', key.tag(tag), jid) == 1 then
      if tonumber(call('ZINCRBY', key.tags(), -1, tag)) <= 0 then
        call('ZREM', key.tags(), tag)
      end
    end
  end
end

-- The same with the text of a record. Where that cannot be read, the job is looked for among all tags.
function Tags.unindex_all(jid, text)
  if modules.Record.is_bad('tags', text) then
    Tags.unindex(jid, call('ZRANGE', key.tags(), 0, -1))
  elseif text then
    Tags.unindex(jid, modules.Record.read('tags', text, {}))
  end
end

-- The stored text of a list; an empty one is {} as cjson writes it.
function Tags.text(tags)
  return cjson.encode(tags)
end

-- The tags after adding or removing some, in order of application.
function Tags.with(tags, more)
  local all, seen = {}, {}
  for _, list in ipairs({ tags, more }) do
    for _, tag in ipairs(list) do
      if not seen[tag] then
        seen[tag] = true
        all[#all + 1] = tag
      end
    end
  end
  return all
end

function Tags.without(tags, less)
  local gone, left = {}, {}
  for _, tag in ipairs(less) do
    gone[tag] = true
  end
  for _, tag in ipairs(tags) do
    if not gone[tag] then
      left[#left + 1] = tag
    end
  end
  return left
end

function Tags.rest(args, i)
  local tags = {}
  for n = i, #args do
    tags[#tags + 1] = args[n]
  end
  return tags
end

local function load(jid)
  jid = modules.Arguments.name('tag', 'jid', jid)
  local its_jid, tags = modules.Hash.values(key.job(jid), 'jid', 'tags')
  if not its_jid then
    modules.Errors.no_job('tag', jid)
  end
  if modules.Record.is_bad('tags', tags) then
    Tags.unindex_all(jid, tags)
  end
  return modules.Record.read('tags', tags, {})
end

local function store(jid, tags)
  local text = Tags.text(tags)
  call('HSET', key.job(jid), 'tags', text)
  return text
end

local function page(args, i)
  local offset, count = modules.Arguments.offset('tag', args[i]), modules.Arguments.count('tag', args[i + 1], 25)
  return offset, count
end

local commands = {
  add = function(args, i)
    local jid = args[i]
    local tags = load(jid)
    local more = Tags.rest(args, i + 1)
    modules.Arguments.bounded('tag', #more)
    local all = modules.Arguments.few_tags('tag', Tags.with(tags, more))
    Tags.index(jid, more)
    return store(jid, all)
  end,
  remove = function(args, i)
    local jid = args[i]
    local tags = load(jid)
    local less = Tags.rest(args, i + 1)
    modules.Arguments.bounded('tag', #less)
    Tags.unindex(jid, less)
    return store(jid, Tags.without(tags, less))
  end,
  get = function(args, i)
    local tag = modules.Arguments.given('tag', 'tag', args[i])
    local offset, count = page(args, i + 1)
    local total = call('ZCARD', key.tag(tag))
    return cjson.encode({
      total = total,
      jobs = call('ZRANGE', key.tag(tag), modules.Arguments.range(offset, count, total)),
    })
  end,
  top = function(args, i)
    local offset, count = page(args, i)
    count = count < 0 and modules.Arguments.most or count
    return cjson.encode(call('ZREVRANGEBYSCORE', key.tags(), '+inf', 2, 'LIMIT', offset, count))
  end,
}

-- tag.counts offset count -> total, and tags: each with how many jobs carry it, the commonest first
function Tags.counts(args, i)
  local offset = modules.Arguments.whole('tag.counts', 'offset', args[i], 0)
  local count = math.min(modules.Arguments.whole('tag.counts', 'count', args[i + 1], 0), modules.Arguments.most)
  local shown = {}
  local found = count > 0 and call('ZREVRANGE', key.tags(), offset, offset + count - 1, 'WITHSCORES') or {}
  for n = 1, #found, 2 do
    shown[#shown + 1] = { found[n], tonumber(found[n + 1]) }
  end
  return cjson.encode({ total = call('ZCARD', key.tags()), tags = shown })
end

-- tag add|remove jid tag...   tag get tag [offset count]   tag top [offset count]
function Tags.command(args, i)
  local command = commands[args[i]]
  if not command then
    modules.Errors.argument('tag', 'First argument must be add, remove, get or top')
  end
  return command(args, i + 1)
end
end
elseif module_name == 'CycleDetection' then
return function()
local CycleDetection = {
intend = 0, refuse_self = 0, refuse = 0, is_fresh = 0, harmless = 0
}
modules.CycleDetection = CycleDetection
-- cycle_detection.lua
-- Cycle detection: no job may come to wait for itself, directly or through others.

local MOST = 1000 -- jobs behind a job that are looked at before links are refused
local FAR = 10000 -- links that one call follows where links may not be refused any more

-- Links that this call has checked and is going to make, by jid.
function CycleDetection.intend(planned)
  scope.intended = planned
end

-- How many links this call has followed.
local function followed()
  return scope.links_followed or 0
end

-- Who waits for a job, directly or through others: mostly few. -> a set of jids with its own; nil if
-- they are too many
local function waiting_for(jid)
  local waiting, line = { [jid] = true }, { jid }
  local n = 1
  while line[n] do
    local name = key.dependents(line[n])
    if #line + call('SCARD', name) > MOST then
      return nil
    end
    for _, dependent in ipairs(call('SMEMBERS', name)) do
      if not waiting[dependent] then
        waiting[dependent] = true
        line[#line + 1] = dependent
      end
    end
    n = n + 1
  end
  return waiting
end

-- Is it certain that none of the jids waits for the job? However much is behind them.
local function is_harmless(jid, jids, planned)
  if planned and (next(planned) ~= jid or next(planned, jid) ~= nil) then
    return false -- links of others are not written yet
  end
  local waiting = waiting_for(jid)
  for n = 1, waiting and #jids or 0 do
    if waiting[jids[n]] then
      return false
    end
  end
  return waiting ~= nil
end

local function refuse(command, jid, path)
  modules.Errors.raise(
    'CYCLE',
    '%s(): Job %s would wait for itself: %s',
    command,
    modules.Errors.name(jid),
    table.concat(path, ' waits for ')
  )
end

-- Refuses the link that makes the shortest cycle.
function CycleDetection.refuse_self(command, jid, jids)
  for n = 1, jids and #jids or 0 do
    if jids[n] == jid then
      refuse(command, jid, { modules.Errors.name(jid), modules.Errors.name(jid) })
    end
  end
end

-- Refuses links that would make a job wait for itself. `planned` are links not yet written.
function CycleDetection.refuse(command, jid, jids, planned)
  if is_harmless(jid, jids, planned) then
    return
  end
  local seen, path, visited = {}, { modules.Errors.name(jid) }, 0
  local function walk(current)
    if current == jid then
      path[#path + 1] = modules.Errors.name(current)
      refuse(command, jid, path)
    end
    if seen[current] then
      return
    end
    seen[current] = true
    visited = visited + 1
    if visited > MOST then
      modules.Errors.raise(
        'TOOBIG',
        '%s(): more than %s jobs behind the dependencies of %s',
        command,
        MOST,
        modules.Errors.name(jid)
      )
    end
    path[#path + 1] = modules.Errors.name(current)
    for _, further in ipairs(planned and planned[current] or call('SMEMBERS', key.dependencies(current))) do
      walk(further)
    end
    path[#path] = nil
  end
  for _, other in ipairs(jids) do
    walk(other)
  end
end

-- What a job waits for, or is going to.
local function behind(jid)
  local jids = call('SMEMBERS', key.dependencies(jid))
  for _, other in ipairs(scope.intended and scope.intended[jid] or {}) do
    jids[#jids + 1] = other
  end
  return jids
end

-- Has this call followed none yet, so that it can see as far as any?
function CycleDetection.is_fresh()
  return followed() == 0
end

-- Those of the jids that a job may wait for, because they do not wait for it. Refuses nothing: what is
-- too far for one call to see is not harmless. -> the jids, and whether there was such
function CycleDetection.harmless(jid, jids)
  if not scope.intended and call('EXISTS', key.dependents(jid)) == 0 then
    local others = {}
    for _, other in ipairs(jids) do
      others[#others + 1] = other ~= jid and other or nil
    end
    return others, false
  end
  local tired, waits = false, { [jid] = true }
  -- Does a job wait for the one, or is it too far to see?
  local function walk(current)
    if waits[current] == nil then
      local others = behind(current)
      waits[current] = false
      scope.links_followed = followed() + #others
      tired = followed() > FAR
      for n = 1, #others do
        if tired or walk(others[n]) then
          waits[current] = true
          break
        end
      end
    end
    return waits[current]
  end
  local harmless = {}
  for _, other in ipairs(jids) do
    if not walk(other) then
      harmless[#harmless + 1] = other
    end
  end
  return harmless, tired
end
end
elseif module_name == 'LimitSettings' then
return function()
local LimitSettings = {
rate = 0, exist = 0, mark = 0, is_mark = 0, is_rate = 0, is_number = 0, check_rate = 0, changed = 0,
of = 0, of_queue = 0, left = 0, of_type = 0, of_key = 0, of_tenant = 0, named = 0
}
modules.LimitSettings = LimitSettings
-- limits/limit_settings.lua
-- Which limits there are: what the options of the namespace say of job types, of their keys and of queues.

local match, find, sub = string.match, string.find, string.sub

-- Jobs set aside by one call at most.
local ASIDE = 100

-- Stands among the options from the first limit on, so that namespaces without any need not look for them.
local MARK = 'limits'

-- What stands behind the name of a job type, or of a queue, and a hyphen.
local OF_TYPES = {
  most = '-max-concurrency-of-type',
  rate = '-rate-of-type',
  key_most = '-max-concurrency-per-key',
  key_rate = '-rate-per-key',
}
local RATES = { '-rate', '-rate-of-type', '-rate-per-key' }
local NUMBERS = { '-max-concurrency', '-max-concurrency-of-type', '-max-concurrency-per-key' }

local UNITS = { s = 1, m = 60, h = 3600, d = 86400 }

-- Starts and seconds that a rate may name.
local MOST, LONGEST = 10 ^ 9, 366 * 86400

-- A rate: '100/m', '5/10s'. -> { count = starts, per = seconds }; nil for none ('0') and for what cannot be read
function LimitSettings.rate(text)
  local count, number, unit = match(text or '', '^(%d+)/(%d*%.?%d*)([smhd])$')
  local per = unit and (number == '' and 1 or tonumber(number) or 0) * UNITS[unit]
  count = tonumber(count)
  if count and count >= 1 and count <= MOST and per > 0 and per <= LONGEST then
    return { count = count, per = per }
  end
end

-- Have there ever been limits?
function LimitSettings.exist()
  return modules.Config.is_set() and modules.Config.get(MARK) ~= nil
end

function LimitSettings.mark()
  if not LimitSettings.exist() then
    call('HSET', key.config(), MARK, '1')
    modules.Config.changed()
  end
end

function LimitSettings.is_mark(option)
  return option == MARK
end

local function ends_with(option, endings)
  for _, ending in ipairs(endings) do
    if #option > #ending and sub(option, -#ending) == ending then
      return ending
    end
  end
end

-- Is an option of this name a rate?
function LimitSettings.is_rate(option)
  return ends_with(option, RATES) ~= nil
end

-- Is it a number of jobs?
function LimitSettings.is_number(option)
  return ends_with(option, NUMBERS) ~= nil
end

-- A value for such an option is checked.
function LimitSettings.check_rate(command, option, value)
  if value ~= '0' and not LimitSettings.rate(value) then
    modules.Errors.argument(
      command,
      '%s must be a rate as 100/m or 5/10s (s, m, h or d; at most 10^9 starts), or 0 for none, not %s',
      modules.Errors.name(option),
      modules.Errors.value(value)
    )
  end
end

-- An option was changed that may be a limit: what it holds back is looked at again.
function LimitSettings.changed(option)
  local of_type = ends_with(option, { OF_TYPES.most, OF_TYPES.rate, OF_TYPES.key_most, OF_TYPES.key_rate })
  local of_queue = ends_with(option, { '-rate', '-max-concurrency' })
  if of_type then
    LimitSettings.mark()
    modules.Limits.look_again(sub(option, 1, -#of_type - 1))
  elseif of_queue then
    local queue = sub(option, 1, -#of_queue - 1)
    if of_queue == '-rate' then
      LimitSettings.mark()
    end
    modules.Wake.due(queue, scope.now)
  end
end

local function whole(text)
  local number = modules.Record.number(text or nil)
  return number and number > 0 and math.ceil(number) or nil
end

-- The name under which the limits of a job type are kept: jobs that were put before it got another name count with the
-- others.
local function current(klass)
  return modules.Config.get(klass .. '-renamed-to') or klass
end

-- The limits of a job type and of each of its keys; false if there are none.
function LimitSettings.of(klass)
  klass = current(klass)
  local known = scope.limits or {}
  scope.limits = known
  if known[klass] == nil then
    local found = {
      most = whole(modules.Config.get(klass .. OF_TYPES.most)),
      rate = LimitSettings.rate(modules.Config.get(klass .. OF_TYPES.rate)),
      key_most = whole(modules.Config.get(klass .. OF_TYPES.key_most)),
      key_rate = LimitSettings.rate(modules.Config.get(klass .. OF_TYPES.key_rate)),
    }
    known[klass] = next(found) ~= nil and found
  end
  return known[klass]
end

-- The rate of a queue, or nil.
function LimitSettings.of_queue(queue)
  return LimitSettings.rate(modules.Config.get(queue .. '-rate'))
end

-- How many jobs this call may still set aside.
function LimitSettings.left()
  return ASIDE - (scope.set_aside or 0)
end

-- The names of limits. What is behind the first colon is only compared, never taken apart.
function LimitSettings.of_type(klass)
  return 'type:' .. current(klass)
end

function LimitSettings.of_key(klass, text)
  return 'key:' .. current(klass) .. ':' .. text
end

function LimitSettings.of_tenant(queue, text)
  return 'fair:' .. queue .. ':' .. text
end

-- The limit of that name, of which a job is at hand: most, rate; or nil if there is none (any more).
function LimitSettings.named(name, klass)
  local of = LimitSettings.of(klass)
  if not of then
    return nil
  elseif find(name, '^type:') then
    return { name = name, most = of.most, rate = of.rate }
  elseif find(name, '^key:') then
    return { name = name, most = of.key_most, rate = of.key_rate }
  end
end
end
elseif module_name == 'Lock' then
return function()
local Lock = {
holds = 0, another = 0, completed = 0, claim = 0, count_start = 0, holder = 0, release = 0,
heartbeat = 0, extend = 0
}
modules.Lock = Lock
-- lock.lua
-- The lock of a running job: who holds it, renewing it, taking it away.

-- What is read of a run that ends.
local ENDING = {
  'worker',
  'state',
  'queue',
  'token',
  'time',
  'retries',
  'grace',
  'progress',
  'rare',
  'remaining',
  'priority',
  'crashes',
  'waited',
  'entity',
}

-- Does the caller hold the job with this state, of this worker and token? (The token is false if a foreign
-- script has handed it out.)
function Lock.holds(proof, state, worker, token)
  return worker and state == 'running' and proof == token
end

-- How the worker that holds a job is named to another one.
function Lock.another()
  return 'another worker'
end

-- Why it does not. -> code, text
local function refusal(command, jid)
  local worker, state, queue = modules.Hash.values(key.job(jid), 'worker', 'state', 'queue')
  local about = command .. '(): Job ' .. modules.Errors.name(jid)
  if not worker then
    return 'NOJOB', about .. ' does not exist'
  elseif state ~= 'running' then
    return 'LOCKLOST', about .. ' is not currently running: ' .. modules.Places.state_now(jid, queue, state)
  end
  return 'LOCKLOST', about .. ' was given out to ' .. Lock.another(worker)
end

-- What a completion by its token has to know of a job: worker, queue, time, retries, rare, waited, put. -> nil, code, text
-- if the token is not that of the run. (All jobs come here, so it reads no more, and makes no table.)
function Lock.completed(jid, token)
  local worker, state, queue, its_token, time, retries, rare, waited, put =
    modules.Hash.values(key.job(jid), 'worker', 'state', 'queue', 'token', 'time', 'retries', 'rare', 'waited', 'put')
  if not Lock.holds(token, state, worker, its_token) then
    return nil, refusal('settle', jid)
  end
  return worker, queue or '', time, retries, rare, waited, put
end

-- The running job, if `proof` shows that the caller holds it. `bad` is the field that keeps the job from being
-- run again, because it cannot be read, and `bad_text` what stands there. -> nil, code, text if refused
function Lock.claim(command, jid, proof)
  local name = key.job(jid)
  local texts = call('HMGET', name, unpack(ENDING))
  local worker, state, queue, token, time, retries, grace, progress, rare, remaining, priority, crashes, waited, entity =
    unpack(texts)
  if not Lock.holds(proof, state, worker, token) then
    return nil, refusal(command, jid)
  end
  local bad, bad_text = modules.Record.first_bad(ENDING, texts)
  if (queue or '') == '' then
    bad, bad_text = 'queue', ''
  end
  return {
    jid = jid,
    key = name,
    bad = bad,
    bad_text = bad_text,
    worker = worker,
    queue = queue or '',
    time = modules.Record.read('time', time, scope.now),
    retries = modules.Record.text('retries', retries, '0'),
    marked = grace or progress,
    rare = rare or nil,
    remaining = modules.Record.read('remaining', remaining, 0),
    priority = modules.Record.read('priority', priority, 0),
    crashes = modules.Record.read('crashes', crashes, 0),
    waited = waited or nil,
    entity = entity or nil,
  }
end

-- The run of a claimed job ends: counts that it was started, if it was. Then the job lay for `held`
-- seconds in its worker's hands before; how long is not known if it only `runs` for certain.
function Lock.count_start(job, held, runs)
  job.held = held or modules.Samples.held(job.waited)
  if job.held or runs then
    job.start = modules.Samples.started(job.queue, job.time, job.waited, job.held or 0)
  end
end

function Lock.holder(command, jid, proof)
  modules.Arguments.name(command, 'jid', jid)
  modules.Arguments.proof(command, proof)
  local job, code, text = Lock.claim(command, jid, proof)
  if not job then
    modules.Errors.raise(code, text)
  end
  return job
end

-- Takes the job out of the hands of its worker and out of the running ones.
function Lock.release(job)
  call('ZREM', key.place(job.queue, 'locks'), job.jid)
  modules.Job.unhold(job.jid, job.worker)
  modules.Wake.freed(job.queue, 1)
end

-- heartbeat jid worker [data] -> the new expiry
function Lock.heartbeat(args, i)
  local jid, proof, data = args[i], args[i + 1], args[i + 2]
  if data then
    modules.Arguments.json('heartbeat', 'data', data)
  end
  local job = Lock.holder('heartbeat', jid, proof)
  local expires = scope.now + modules.Config.heartbeat(job.queue)
  if data then
    call('HSET', key.job(jid), 'data', data)
  end
  Lock.extend(job, expires)
  call('ZADD', key.workers(), scope.now, job.worker)
  return expires
end

-- Renews a lock. The next loss of it gets another notice.
function Lock.extend(job, expires)
  call('HSET', key.job(job.jid), 'expires', expires)
  call('HDEL', key.job(job.jid), 'grace')
  call('ZADD', key.held(job.worker), expires, job.jid)
  if job.queue ~= '' then -- a damaged record names none
    call('ZADD', key.place(job.queue, 'locks'), expires, job.jid)
  end
end
end
elseif module_name == 'Workflow' then
return function()
local Workflow = {
count = 0, moved = 0, joined = 0, must_go_on = 0, check = 0, will_take = 0, judged = 0, read = 0,
finish = 0
}
modules.Workflow = Workflow
-- workflows/workflow.lua
-- Workflows: jobs that were put together, how many of them have ended, and how.

-- What changed in this call is in scope.workflows: id -> by how much each counter, and the jids that joined.
-- The workflows that are known to take jobs are in scope.open_workflows.
local function change(id)
  local changes = scope.workflows or {}
  scope.workflows = changes
  local mine = changes[id]
  if not mine then
    mine = { complete = 0, failed = 0, canceled = 0, held = 0, total = 0, jids = {} }
    changes[id] = mine
  end
  return mine
end

-- complete, failed, canceled: jobs that ended so; held: jobs that depend on others.
function Workflow.count(id, what, by)
  if id and id ~= '' then
    local mine = change(id)
    mine[what] = mine[what] + by
  end
end

local COUNTER = { complete = 'complete', failed = 'failed', depends = 'held' }

-- A job of the workflow went from a state into another; false: its record is gone. (What is
-- forgotten after its completion stays counted: no call for that.)
function Workflow.moved(id, was, is)
  local from, to = COUNTER[was], COUNTER[is] or not is and 'canceled'
  if from then
    Workflow.count(id, from, -1)
  end
  if to then
    Workflow.count(id, to, 1)
  end
end

-- A new job of the workflow, in the state in which it was put.
function Workflow.joined(id, jid, state)
  local mine = change(id)
  mine.jids[#mine.jids + 1] = jid
  mine.total = mine.total + 1
  if state == 'depends' then
    mine.held = mine.held + 1
  end
end

-- Refuses a workflow that is being cancelled: what joins it now would be overlooked.
-- -> its state, nil if there is none
function Workflow.must_go_on(command, id)
  local state = call('HGET', key.workflow(id), 'state')
  if state == 'canceling' then
    modules.Errors.raise('STATE', command .. '(): Workflow ' .. modules.Errors.name(id) .. ' is being canceled')
  end
  return state
end

-- Refuses what names a workflow that takes no jobs.
function Workflow.check(command, id)
  if scope.open_workflows and scope.open_workflows[id] then
    return
  elseif not Workflow.must_go_on(command, id) then
    modules.Errors.raise('NOJOB', command .. '(): Workflow ' .. modules.Errors.name(id) .. ' does not exist')
  end
  Workflow.will_take(id)
end

-- The call is about to make this workflow.
function Workflow.will_take(id)
  scope.open_workflows = scope.open_workflows or {}
  scope.open_workflows[id] = true
end

-- What the counters say of the whole.
function Workflow.judged(record)
  if record.chore then
    return record.chore
  end
  local left = record.total - record.complete - record.failed - record.canceled
  if left == 0 then
    return record.failed > 0 and 'failed' or record.canceled > 0 and 'canceled' or 'complete'
  elseif record.failed > 0 and left == record.held then
    return 'failed' -- What is left waits for what has failed.
  end
  return 'running'
end

-- A workflow of which nothing is left but its record is forgotten as completed jobs are.
local function forget_later(id)
  local seconds = math.floor(modules.Config.number('jobs-history'))
  for _, name in ipairs({ key.workflow(id), key.workflow_jobs(id) }) do
    call('EXPIRE', name, math.max(seconds, 0))
  end
end

local function keep(id)
  call('PERSIST', key.workflow(id))
  call('PERSIST', key.workflow_jobs(id))
end

local NUMBERS = { 'total', 'complete', 'failed', 'canceled', 'held' }

-- Its counters, its state, and what is being done with it.
function Workflow.read(id)
  local values = call('HMGET', key.workflow(id), 'state', 'chore', unpack(NUMBERS))
  local record = { state = values[1], chore = values[2] or nil }
  for n, field in ipairs(NUMBERS) do
    record[field] = modules.Record.read('count', values[n + 2], 0)
    record.bad = record.bad or (modules.Record.is_bad('count', values[n + 2]) and field) or nil
  end
  return record
end

-- Writes down the state that follows from the counters, and tells who waits for the end.
local function judge(id)
  local name, record = key.workflow(id), Workflow.read(id)
  local was, is = record.state, Workflow.judged(record)
  if is == was then
    return
  end
  call('HSET', name, 'state', is)
  if is == 'complete' or is == 'failed' or is == 'canceled' then
    call('HSET', name, 'finished', modules.NumberFormat.now())
    modules.ResultWaiters.ended_workflow(id)
  else
    call('HDEL', name, 'finished')
  end
  if is == 'complete' or is == 'canceled' then
    forget_later(id)
  elseif was == 'complete' or was == 'canceled' then
    keep(id)
  end
end

function Workflow.finish()
  for id, mine in pairs(scope.workflows) do
    local name = key.workflow(id)
    if call('EXISTS', name) == 1 then
      for _, field in ipairs(NUMBERS) do
        if mine[field] ~= 0 then
          redis.pcall('HINCRBY', name, field, mine[field]) -- A counter that is no number stays as it is.
        end
      end
      modules.SortedSet.append(key.workflow_jobs(id), mine.jids)
      judge(id)
    end
  end
end
end
elseif module_name == 'Cascade' then
return function()
local Cascade = {
policy = 0, cancel = 0, follow = 0, carry_on = 0
}
modules.Cascade = Cascade
-- cascade.lua
-- The on_failure policy of jobs whose dependency has failed or was canceled.
--   block   waits on for what has failed; fails itself when it was canceled
--   cancel  is canceled
--   run     waits for it no longer, as if it had been completed

local GROUP = 'dependency-canceled'

-- Dependents looked at together: how much work they are shows only then.
local PART = 50

-- What a dependent does when a dependency ends otherwise than complete; and the jid of the one behind
-- which it was put, if any, whose end is enough.
function Cascade.policy(jid)
  local on_failure, behind = modules.Hash.values(key.job(jid), 'on_failure', 'behind')
  return on_failure or 'block', behind
end

local function policy_of(jid, other)
  local policy, behind = Cascade.policy(jid)
  return behind == other and 'run' or policy
end

-- Cancels a job with all that belongs to it, and what hangs on it by its policy: because of the
-- `dependency` or the `workflow` of this jid or id.
function Cascade.cancel(jid, why, by)
  local record = modules.Job.read(jid)
  if record then
    modules.Job.remove(jid, record, why, by)
    Cascade.follow(jid, 'gone')
  end
end

-- (A foreign client may have written the name of what is no job, or taken the queue out of its record.)
local function fail(jid, other)
  local its_state, its_queue, its_rare = modules.Hash.values(key.job(jid), 'state', 'queue', 'rare')
  local queue = its_queue or ''
  if not its_state then
    return
  end
  local message = 'Job ' .. other .. ', on which this one depended, was canceled'
  modules.Dependencies.unlink_all(jid)
  modules.Places.leave(jid, queue)
  call('HDEL', key.job(jid), 'scheduled', 'beyond', 'behind')
  modules.History.failed(jid, GROUP, nil, message)
  modules.Outcome.write_failed(
    { jid = jid, queue = queue, rare = its_rare, state = 'depends' },
    GROUP,
    message,
    math.floor(scope.now)
  )
  if modules.Tracking.is_tracked(jid) then
    modules.Events.tracked('failed', jid)
  end
  modules.Events.failed(jid, GROUP, message, '')
end

-- The job's record is gone: all its dependents have to do without it.
local function visit_gone(jid)
  local dependents
  repeat
    dependents = modules.Dependencies.take_some(jid, key.cascading(), PART)
    for _, dependent in ipairs(dependents) do
      local policy = policy_of(dependent, jid)
      if policy == 'run' then
        modules.Dependencies.free_if_last(dependent)
      elseif policy == 'cancel' then
        Cascade.cancel(dependent, 'dependency', jid)
      else
        fail(dependent, jid)
      end
    end
  until #dependents < PART or modules.Dependencies.left() <= 0
end

-- -> whether the call could deal with all of these dependents of a failed job
local function follow_some(jid, dependents)
  for _, dependent in ipairs(dependents) do
    if modules.Dependencies.left() <= 0 then
      return false
    end
    modules.Dependencies.spend(1)
    local policy = policy_of(dependent, jid)
    if policy == 'run' then
      modules.Dependencies.unlink(dependent, { jid })
      modules.Dependencies.free_if_last(dependent)
    elseif policy == 'cancel' then
      Cascade.cancel(dependent, 'dependency', jid)
    end
  end
  return true
end

-- The job has failed: those that block stay where they are, so the rest is found by a cursor.
local function visit_failed(jid)
  local name = key.job(jid)
  local cursor = modules.Record.text('cascade', call('HGET', name, 'cascade'), '0')
  local done
  repeat
    local part = math.min(PART, modules.Dependencies.left())
    local reply = call('SSCAN', key.dependents(jid), cursor, 'COUNT', part)
    if not follow_some(jid, reply[2]) then
      break -- the same part again: those that were dealt with are no members any more
    end
    cursor = reply[1]
    done = cursor == '0'
  until done or modules.Dependencies.left() <= 0
  if done then
    call('HDEL', name, 'cascade')
    call('ZREM', key.cascading(), jid)
  else
    call('HSET', name, 'cascade', cursor)
    call('ZADD', key.cascading(), scope.now, jid)
  end
end

local VISIT = { gone = visit_gone, failed = visit_failed }

-- A job has failed, or is gone: its dependents follow by their policies, and theirs in turn, as many
-- as the call may deal with; the others are noted. (What a visit finds is followed after it, by the loop that
-- is at work: scope.following.)
function Cascade.follow(jid, kind)
  local line = scope.following
  if line then
    line[#line + 1] = { jid, kind }
    return
  end
  line = { { jid, kind } }
  scope.following = line
  local n = 1
  while line[n] do
    local name = line[n][1]
    if modules.Dependencies.left() > 0 then
      VISIT[line[n][2]](name)
    elseif call('EXISTS', key.dependents(name)) == 1 then
      call('ZADD', key.cascading(), scope.now, name)
    end
    n = n + 1
  end
  scope.following = nil
end

-- Takes up what an earlier call had to leave of this job.
function Cascade.carry_on(jid)
  local state = call('HGET', key.job(jid), 'state')
  if not state then
    Cascade.follow(jid, 'gone')
  elseif state == 'failed' then
    Cascade.follow(jid, 'failed')
  else
    -- It was put again, or goes on: the rest waits for its new run.
    call('ZREM', key.cascading(), jid)
    call('HDEL', key.job(jid), 'cascade')
    call('HSET', key.job(jid), 'followed', '1', 'rare', '1')
  end
end
end
elseif module_name == 'DependencyResults' then
return function()
local DependencyResults = {
exist = 0, add = 0, add_offspring = 0, forget = 0, show = 0, offspring = 0
}
modules.DependencyResults = DependencyResults
-- dependency_results.lua
-- What a job was made to depend on, in order, kept beyond the links: its results are wanted later.

-- The namespace has such lists: what deletes records looks for them from now on.
local function say()
  if not scope.has_lists then
    call('HSET', key.meta(), 'lists', '1')
    scope.has_lists = true
  end
end

function DependencyResults.exist()
  return scope.has_lists or call('HGET', key.meta(), 'lists') == '1'
end

function DependencyResults.add(jid, jids)
  if jids and #jids > 0 then
    say()
    modules.SortedSet.append(key.needs(jid), jids)
  end
end

-- Kept as long as results are, at least: who depends on the job may start long after its end.
local KEPT = 7 * 86400 -- seconds

function DependencyResults.add_offspring(jid, jids)
  if #jids > 0 then
    say()
    modules.SortedSet.append(key.offspring(jid), jids)
    call('EXPIRE', key.offspring(jid), KEPT)
  end
end

function DependencyResults.forget(jid)
  if scope.live then
    call('DEL', key.needs(jid))
  end
end

local function page(command, name, args, i)
  local offset, count = modules.Arguments.offset(command, args[i]), modules.Arguments.count(command, args[i + 1], 25)
  local flat = {}
  if count > 0 then
    for _, jid in ipairs(call('LRANGE', name, offset, offset + count - 1)) do
      flat[#flat + 1] = jid
      flat[#flat + 1] = call('LLEN', key.offspring(jid))
    end
  end
  return flat
end

-- needs jid [offset count] -> jid, how many jobs that one has spawned …
function DependencyResults.show(args, i)
  return page('needs', key.needs(modules.Arguments.name('needs', 'jid', args[i])), args, i + 1)
end

-- offspring jid [offset count] -> the same of the jobs that this one has spawned
function DependencyResults.offspring(args, i)
  return page('offspring', key.offspring(modules.Arguments.name('offspring', 'jid', args[i])), args, i + 1)
end
end
elseif module_name == 'JobEnd' then
return function()
local JobEnd = {
mark = 0, completed = 0, failed = 0, revived = 0, goes_on = 0, canceled = 0
}
modules.JobEnd = JobEnd
-- job_end.lua
-- Cleaning up when a job ends, moves on or is deleted: its unique key, its workflow, those that
-- wait for its end, those that depend on it.

-- The record has something to do with what is done here: `rare`. It is never taken away, so it may
-- be there for nothing.
function JobEnd.mark(jid)
  call('HSET', key.job(jid), 'rare', '1')
end

-- A job that has put others in several steps does not go on.
local function forget_put(once)
  if once then
    call('UNLINK', key.once(once)) -- there may be very many: their memory is freed in the background
  end
end

-- These jobs are complete. `rare` lists those of them whose records have the field of this name.
function JobEnd.completed(jids, rare)
  local is_rare
  local entities = {}
  for n = 1, #rare do
    local jid = rare[n]
    modules.ResultWaiters.ended(jid)
    local unique, workflow, spawners, holds, entity, home, grace, progress, once = modules.Hash.values(
      key.job(jid),
      'unique',
      'workflow',
      'spawners',
      'holds',
      'entity',
      'home',
      'grace',
      'progress',
      'once'
    )
    forget_put(once)
    modules.Unique.free(jid, unique)
    if grace or progress then
      modules.Outcome.forget_marks(key.job(jid))
    end
    if workflow then
      modules.Workflow.moved(workflow, 'running', 'complete')
    end
    if holds then
      modules.Limits.leave(jid, { holds = holds })
    end
    modules.Spawned.done(jid, spawners)
    if entity then
      entities[#entities + 1] = jid
      modules.Minutes.count(home or '', 'processed', 1)
    end
    is_rare = is_rare or {}
    is_rare[jid] = true
  end
  if #entities > 0 then
    modules.Entity.completed(entities)
  end
  modules.Dependencies.release(jids, is_rare)
end

local FAILED = {
  'unique',
  'workflow',
  'spawners',
  'followed',
  'holds',
  'aside',
  'called',
  'queue',
  'klass',
}

-- The job, which was in this state, has failed.
function JobEnd.failed(jid, was, rare)
  if not rare then
    return
  end
  modules.ResultWaiters.ended(jid)
  local job = modules.Hash.read(key.job(jid), FAILED)
  modules.Unique.free(jid, job.unique)
  if job.workflow then
    modules.Workflow.moved(job.workflow, was, 'failed')
  end
  modules.Limits.leave(jid, job)
  modules.Spawned.failed(jid, job.spawners)
  if job.followed then
    modules.Cascade.follow(jid, 'failed')
  end
end

-- The job had failed and is in this state now. Its time is over if it had one, but not its claim
-- to its key, unless another has taken that.
function JobEnd.revived(jid, record, state)
  if not record.rare then
    return
  end
  modules.Unique.regain(jid, record.unique, state)
  if record.workflow then
    modules.Workflow.moved(record.workflow, 'failed', state)
  end
  modules.Spawned.goes_on(jid, record.spawners)
  if record.entity then
    modules.Entity.returned(jid, record.home)
  end
  call('HDEL', key.job(jid), 'deadline', 'cascade')
end

-- The job ran and goes on in this state: tried again, given back, or `moved` on to its next step.
function JobEnd.goes_on(job, state, moved)
  if not job.rare then
    return
  end
  local unique, workflow, holds, entity =
    modules.Hash.values(key.job(job.jid), 'unique', 'workflow', 'holds', 'entity')
  modules.Unique.regain(job.jid, unique, state)
  if entity then
    modules.Entity.returned(job.jid, job.queue)
  end
  if workflow then
    modules.Workflow.moved(workflow, 'running', state)
  end
  if holds then
    modules.Limits.leave(job.jid, { holds = holds })
  end
  if moved then
    call('HDEL', key.job(job.jid), 'deadline')
  end
end

-- The job with this record was canceled.
function JobEnd.canceled(jid, record)
  if record.rare then
    modules.ResultWaiters.ended(jid)
    modules.Unique.free(jid, record.unique)
    forget_put(record.once)
    if record.workflow then
      modules.Workflow.moved(record.workflow, record.state, false)
    end
    modules.Spawned.done(jid, record.spawners)
    modules.Limits.leave(jid, record)
    if record.entity then
      modules.Entity.gone(jid, record.home)
    end
  end
end
end
elseif module_name == 'Nonempty' then
return function()
local Nonempty = {
looked = 0, add = 0, remove = 0, is_stale = 0, begin = 0, at = 0, all = 0, may_have = 0, is_bare =
0, look_at = 0
}
modules.Nonempty = Nonempty
-- nonempty.lua
-- Which queues may have something: an index, so that a call that serves very many need not ask each.
--
-- Each queue with something in one of its places (PLACES) is in it, and perhaps some that have nothing: a queue is
-- added when something comes into it from outside (Places.register), and taken out by a call that serves many queues
-- and finds it bare. A foreign script adds none. So all queues are looked at from time to time, and whenever a call
-- has found nothing: the index never hides a job from a worker that has nothing else to do.

local PLACES = { 'work', 'locks', 'scheduled', 'recur', 'openings', 'aside', 'depends' }

-- Seconds from one look at all queues (of more than MOST, at the next part of them) to the next: so long may a job that
-- a foreign script has put into a queue stand behind those of queues that are served after it.
local EVERY = 5

-- The field of meta that says when that was done last.
Nonempty.looked = 'looked'

-- Queues read at a time, at first and at most; queues asked for at once whether there is anything in them.
local FEW, MOST, TOGETHER = 16, 1000, 64

-- As texts: a number costs more.
local AT_ONCE = {}
for _, size in ipairs({ 16, 64, 256, 1000 }) do
  AT_ONCE[size] = modules.NumberFormat.whole(size)
end

-- What the call knows of the index, in scope.nonempty:
--   parts    by prefix: the queues in it whose names begin so, in order of name, as far as they are read; `from` is where
--            the others begin, nil if there are none, `size` how many are read next
--   size     how many names the next question is for
--   has      by queue: is it to be asked? (nil: not known)
--   unknown  by queue: nothing says that there is one of this name
--   bare     by queue: the call has found it so
--   stale    the call has added some that it may have passed over
-- (Mostly few of these tables are ever needed, so they are made when something comes into them.)
local NOTHING = {}

local function fresh()
  return { parts = NOTHING, size = FEW, has = NOTHING, bare = NOTHING, unknown = NOTHING, stale = false }
end

local function note(index, table, name, value)
  if index[table] == NOTHING then
    index[table] = {}
  end
  index[table][name] = value
end

-- -> whether the queue was not in the index
function Nonempty.add(queue)
  local index, is_new = scope.nonempty, call('ZADD', key.nonempty(), 'NX', '0', queue) == 1
  if index then
    note(index, 'bare', queue, nil)
    index.stale = index.stale or is_new
  end
  return is_new
end

function Nonempty.remove(queues)
  modules.SortedSet.remove(key.nonempty(), queues)
end

-- Is there nothing in any place of these queues?
local function are_bare(queues, first, last)
  local names = {}
  for n = first, last do
    for _, place in ipairs(PLACES) do
      names[#names + 1] = key.place(queues[n], place)
    end
  end
  return call('EXISTS', unpack(names)) == 0
end

-- Those of the queues that have something, asked for together, as mostly none has; notes the others.
local function with_something(queues, index)
  local found = {}
  for first = 1, #queues, TOGETHER do
    local last = math.min(first + TOGETHER - 1, #queues)
    local none = are_bare(queues, first, last)
    for n = first, last do
      if none or are_bare(queues, n, n) then
        note(index, 'bare', queues[n], true)
      else
        found[#found + 1] = queues[n]
      end
    end
  end
  return found
end

-- Those of the members of a set that another one does not have; of very many, some of them, and others the next time.
local function missing_in(other, name, first)
  local missing, queues = {}, call('ZRANGE', name, first, first + MOST - 1)
  local scores = #queues > 0 and call('ZMSCORE', other, unpack(queues)) or {}
  for n, score in ipairs(scores) do
    missing[#missing + 1] = not score and queues[n] or nil
  end
  return missing
end

-- In which parts the members of a set are looked at: the ranks where they begin. -> the first of them, the last
local function parts_of(name, is_first)
  local last = math.max(0, math.ceil(call('ZCARD', name) / MOST) - 1)
  if is_first then
    return 0, last * MOST
  end
  local part = math.floor(scope.now / EVERY) % (last + 1)
  return part * MOST, part * MOST
end

-- Queues with something that are known, but not in the index.
local function add_missing(index, is_first)
  local first, last = parts_of(key.queues(), is_first)
  for from = first, last, MOST do
    local missing = missing_in(key.nonempty(), key.queues(), from)
    modules.SortedSet.add(key.nonempty(), '0', with_something(missing, index))
  end
end

-- Queues in the index that a foreign script has forgotten: if there is anything in them, they are known again.
local function know_again(index)
  local queues = missing_in(key.queues(), key.nonempty(), (parts_of(key.nonempty())))
  for _, queue in ipairs(with_something(queues, index)) do
    call('ZADD', key.queues(), 'NX', scope.now, queue)
  end
  local gone = {}
  for _, queue in ipairs(queues) do
    gone[#gone + 1] = index.bare[queue] and queue or nil
  end
  Nonempty.remove(gone)
end

-- Looks at all queues, or at some of very many; at all of them if it is the first look.
local function look(is_first)
  local index = fresh()
  add_missing(index, is_first)
  know_again(index)
  scope.clock.looked = modules.NumberFormat.second()
  call('HSET', key.meta(), Nonempty.looked, modules.NumberFormat.second())
  return index
end

function Nonempty.is_stale()
  return scope.nonempty.stale or false
end

-- Are the queues to be looked at, by when that was done last?
local function is_late(since)
  return since < 0 or since >= EVERY
end

-- Begins to read the index.
function Nonempty.begin()
  local time = tonumber(scope.clock.looked or nil)
  scope.nonempty = (not time or is_late(scope.now - time)) and look(not time) or fresh()
end

-- The part of the index with this prefix.
local function part_of(prefix)
  local index = scope.nonempty
  local part = index.parts[prefix]
  if not part then
    part = { from = '[' .. prefix, size = FEW }
    note(index, 'parts', prefix, part)
  end
  return part
end

local function read_on(part, prefix)
  local read = call('ZRANGE', key.nonempty(), part.from, '+', 'BYLEX', 'LIMIT', '0', AT_ONCE[part.size])
  part.from = #read == part.size and '(' .. read[#read] or nil
  part.size = math.min(4 * part.size, MOST)
  for n = 1, #read do
    if string.sub(read[n], 1, #prefix) ~= prefix then
      part.from = nil
      break
    end
    part[#part + 1] = read[n]
  end
end

-- The n-th queue of the index whose name begins so, in order of name; nil behind the last one.
function Nonempty.at(prefix, n)
  local part = part_of(prefix)
  if n > #part and part.from then
    read_on(part, prefix)
  end
  return part[n]
end

-- All queues of the index if they are not more than so many, or nil.
function Nonempty.all(most)
  local part = part_of('')
  while #part <= most and part.from do
    read_on(part, '')
  end
  return #part <= most and part or nil
end

-- Asks for some of the names from the i-th on, more each time. Who is not known may have been forgotten with all its
-- jobs, and is to be asked as well.
local function ask(names, i)
  local index = scope.nonempty
  local some = { unpack(names, i, math.min(i + index.size - 1, #names)) }
  index.size = math.min(4 * index.size, MOST)
  local missing = {}
  for n, score in ipairs(call('ZMSCORE', key.nonempty(), unpack(some))) do
    note(index, 'has', some[n], score and true or false)
    if not score then
      missing[#missing + 1] = some[n]
    end
  end
  local known = #missing > 0 and call('ZMSCORE', key.queues(), unpack(missing)) or {}
  for n, score in ipairs(known) do
    note(index, 'has', missing[n], not score)
    note(index, 'unknown', missing[n], not score)
  end
end

-- Is the i-th of these names to be asked?
function Nonempty.may_have(names, i)
  local index = scope.nonempty
  if index.has[names[i]] == nil then
    ask(names, i)
  end
  return index.has[names[i]]
end

local function take_out(index, queue)
  if call('EXISTS', key.place(queue, 'aside'), key.place(queue, 'depends')) == 0 then
    note(index, 'bare', queue, true)
    call('ZREM', key.nonempty(), queue)
  end
end

-- Is there nothing in the queue that could be handed out, now or later? If there is nothing at all in one that the
-- index has, it is taken out.
function Nonempty.is_bare(queue)
  local index = scope.nonempty
  if index and index.bare[queue] then
    return true
  elseif not modules.ExistenceCache.is_bare(queue) then
    return false
  end
  if index and not index.unknown[queue] then
    take_out(index, queue)
  end
  return true
end

-- Looks at these queues, as the call has found nothing. (Those that are not known were asked.) -> whether some were
-- added
function Nonempty.look_at(queues)
  local index, missing = scope.nonempty, {}
  for first = 1, #queues, MOST do
    local some = { unpack(queues, first, math.min(first + MOST - 1, #queues)) }
    for n, score in ipairs(call('ZMSCORE', key.nonempty(), unpack(some))) do
      missing[#missing + 1] = not score and not index.bare[some[n]] and some[n] or nil
    end
  end
  local found = {}
  for _, queue in ipairs(with_something(missing, index)) do
    found[#found + 1] = call('ZSCORE', key.queues(), queue) and queue or nil
  end
  modules.SortedSet.add(key.nonempty(), '0', found)
  return #found > 0
end
end
elseif module_name == 'Queue' then
return function()
local Queue = {
is_by_due = 0, move_due = 0, oldest_lock = 0, names = 0, show_part = 0, show = 0, is_list = 0, part
= 0, unknown = 0, jobs = 0, count_jobs = 0, length = 0, forget = 0, forget_empty = 0, peek = 0
}
modules.Queue = Queue
-- queue.lua
-- Queues: what is in them, the lists of their jobs, forgetting them.

-- The place of a job whose time has come is by when that was. (Without KEYS by when it is moved, but for entities.)
Queue.is_by_due = true

-- Moves jobs whose time has come into work, at most `wanted`.
function Queue.move_due(queue, wanted)
  local name = key.place(queue, 'scheduled')
  local due = call('ZRANGEBYSCORE', name, '-inf', scope.now, 'WITHSCORES', 'LIMIT', 0, wanted)
  if #due == 0 then
    return
  end
  local moved = {}
  for n = 1, #due, 2 do
    local jid = due[n]
    local priority, state, entity = modules.Hash.values(key.job(jid), 'priority', 'state', 'entity')
    if modules.Record.is_state(state) then
      local since = tonumber(due[n + 1])
      call('HSET', key.job(jid), 'state', 'waiting')
      modules.Places.ready_since(jid, since, entity)
      modules.Places.work(jid, queue, modules.Record.read('priority', priority, 0), (entity or Queue.is_by_due) and since)
    else
      modules.CorruptJobs.look_at_state(jid, state, queue)
    end
    moved[#moved + 1] = jid
  end
  modules.SortedSet.remove(name, moved)
end

Queue.oldest_lock = '-inf'

-- Calls that must not write count what is due as waiting; the others move it.
local function counts(queue)
  local due = 0
  if scope.reading then
    due = modules.Places.count_due(queue)
  else
    Queue.move_due(queue, modules.Arguments.most)
  end
  local paused = modules.Pause.is_paused(queue)
  local stalled = call('ZCOUNT', key.place(queue, 'locks'), Queue.oldest_lock, scope.now)
  local aside = modules.Places.count_aside(queue)
  return {
    name = queue,
    waiting = call('ZCARD', key.place(queue, 'work')) + aside + due,
    held_back = aside > 0 and aside or nil,
    stalled = stalled,
    running = call('ZCARD', key.place(queue, 'locks')) - stalled,
    scheduled = call('ZCARD', key.place(queue, 'scheduled')) - due,
    depends = call('ZCARD', key.place(queue, 'depends')),
    recurring = call('ZCARD', key.place(queue, 'recur')),
    paused = paused,
    pause = paused and modules.Pause.known(queue) or nil,
  }
end

-- In the order first seen; at most so many, if a number is given.
function Queue.names(most)
  return call('ZRANGE', key.queues(), 0, most and most - 1 or -1)
end

local MOST_COUNTED = 500

-- queues.part offset count -> counts of so many queues in the order first seen, 500 at most
function Queue.show_part(args, i)
  local first = modules.Arguments.whole('queues.part', 'offset', args[i], 0)
  local count = math.min(modules.Arguments.whole('queues.part', 'count', args[i + 1], 0), MOST_COUNTED)
  local all = {}
  if count > 0 then
    for n, queue in ipairs(call('ZRANGE', key.queues(), first, first + count - 1)) do
      all[n] = counts(queue)
    end
  end
  return cjson.encode(all)
end

-- queues [queue] (Of all queues: for clients without KEYS, as it is not bounded.)
function Queue.show(args, i)
  if args[i] then
    return cjson.encode(counts(modules.Arguments.name('queues', 'queue', args[i])))
  end
  local all = {}
  for n, queue in ipairs(Queue.names()) do
    all[n] = counts(queue)
  end
  return cjson.encode(all)
end

-- The place of each list of jids, by state.
local LISTS = {
  running = 'locks',
  stalled = 'locks',
  scheduled = 'scheduled',
  depends = 'depends',
  recurring = 'recur',
}

-- A negative count asks for all, which is never more than a call may handle.
local function page(name, lowest, highest, offset, count)
  if count < 0 then
    count = modules.Arguments.most
  end
  return call('ZRANGEBYSCORE', name, lowest, highest, 'LIMIT', offset, count)
end

-- What limits hold back, as what is listed behind what is ready. (Mostly there are no limits.)
local function add_aside(queue, jids, offset, count)
  if count > #jids and modules.LimitSettings.exist() then
    local first = math.max(0, offset)
    for _, jid in ipairs(call('ZREVRANGE', key.place(queue, 'aside'), first, first + count - #jids - 1)) do
      jids[#jids + 1] = jid
    end
  end
end

-- What is ready, the next to be handed out first; what limits hold back; what is due and not moved yet.
local function waiting(queue, offset, count)
  count = count < 0 and modules.Arguments.most or count
  local work = key.place(queue, 'work')
  local jids = count > 0 and call('ZREVRANGE', work, offset, offset + count - 1) or {}
  local missing = count - #jids
  if missing > 0 then
    local ready = call('ZCARD', work)
    add_aside(queue, jids, offset - ready, count)
    missing = count - #jids
    local before = math.max(0, offset - ready - modules.Places.count_aside(queue))
    for _, jid in ipairs(modules.Places.list_due(queue, before, missing)) do
      jids[#jids + 1] = jid
    end
  end
  return jids
end

-- Is there a list of jids of this kind?
function Queue.is_list(state)
  return state == 'waiting' or LISTS[state] ~= nil
end

-- The jids of a part of such a list.
function Queue.part(state, queue, offset, count)
  if state == 'waiting' then
    return waiting(queue, offset, count)
  end
  local name = key.place(queue, LISTS[state])
  if state == 'running' then
    return page(name, scope.now, '+inf', offset, count)
  elseif state == 'stalled' then
    return page(name, '-inf', scope.now, offset, count)
  elseif state == 'scheduled' and scope.reading then
    return page(name, '(' .. string.format('%.17g', scope.now), '+inf', offset, count)
  elseif state == 'scheduled' then
    Queue.move_due(queue, modules.Arguments.most)
  end
  return page(name, '-inf', '+inf', offset, count)
end

function Queue.unknown(state)
  modules.Errors.argument('jobs', 'Unknown type ' .. modules.Errors.name(state))
end

-- jobs complete|canceled [offset count]
-- jobs waiting|running|stalled|scheduled|depends|recurring queue [offset count]
function Queue.jobs(args, i)
  local state = modules.Arguments.given('jobs', 'state', args[i])
  if state == 'complete' or state == 'canceled' then
    local offset, count = modules.Arguments.offset('jobs', args[i + 1]), modules.Arguments.count('jobs', args[i + 2], 25)
    if state == 'canceled' then
      return modules.Canceled.part(offset, count)
    end
    count = count < 0 and modules.Arguments.most or count
    return call('ZREVRANGEBYSCORE', key.completed(), '+inf', '-inf', 'LIMIT', offset, count)
  end
  if not Queue.is_list(state) then
    Queue.unknown(state)
  end
  local queue = modules.Arguments.name('jobs', 'queue', args[i + 1])
  local offset, count = modules.Arguments.offset('jobs', args[i + 2]), modules.Arguments.count('jobs', args[i + 3], 25)
  return Queue.part(state, queue, offset, count)
end

-- jobs.count complete|canceled: how many are kept
function Queue.count_jobs(args, i)
  local state = modules.Arguments.given('jobs.count', 'state', args[i])
  if state == 'canceled' then
    return modules.Canceled.count()
  elseif state ~= 'complete' then
    modules.Errors.argument('jobs.count', 'Unknown type ' .. modules.Errors.name(state))
  end
  return call('ZCARD', key.completed())
end

-- length queue
function Queue.length(args, i)
  local queue = modules.Arguments.name('length', 'queue', args[i])
  return call('ZCARD', key.place(queue, 'locks'))
    + call('ZCARD', key.place(queue, 'work'))
    + modules.Places.count_aside(queue)
    + call('ZCARD', key.place(queue, 'scheduled'))
end

-- queue.forget queue...
function Queue.forget(args, i)
  local queues = {}
  modules.Pause.each_queue('queue.forget', args, i, function(queue)
    queues[#queues + 1] = queue
  end)
  modules.SortedSet.remove(key.queues(), queues)
  if scope.live then
    modules.Nonempty.remove(queues)
  end
end

local PLACES = { 'work', 'locks', 'scheduled', 'depends' }
local IN_PLACE = {
  work = 'waiting',
  locks = 'running or stalled',
  scheduled = 'scheduled',
  depends = 'dependent',
}

local function refuse_if_used(queue, schedules)
  local found, due = {}, modules.Places.count_due(queue)
  local moved = { work = due + modules.Places.count_aside(queue), scheduled = -due }
  for _, place in ipairs(PLACES) do
    local number = call('ZCARD', key.place(queue, place)) + (moved[place] or 0)
    if number > 0 then
      found[#found + 1] = number .. ' ' .. IN_PLACE[place]
    end
  end
  if schedules > 0 then
    found[#found + 1] = schedules .. ' recurring'
  end
  if #found > 0 then
    modules.Errors.raise(
      'STATE',
      'queue.forget.empty(): Queue %s is in use: %s',
      modules.Errors.name(queue),
      table.concat(found, ', ')
    )
  end
end

-- queue.forget.empty queue...: the same if nothing is in them and no schedule puts anything there
function Queue.forget_empty(args, i)
  local queues = {}
  modules.Pause.each_queue('queue.forget.empty', args, i, function(queue)
    queues[#queues + 1] = queue
  end)
  local schedules = modules.QueueSchedules.count(queues)
  for n, queue in ipairs(queues) do
    refuse_if_used(queue, schedules[n])
  end
  Queue.forget(args, i)
end

-- peek queue count
function Queue.peek(args, i)
  local queue = modules.Arguments.name('peek', 'queue', args[i])
  local count = modules.Arguments.count('peek', modules.Arguments.given('peek', 'count', args[i + 1]))
  if count <= 0 then
    return '{}'
  end
  local jids = page(key.place(queue, 'locks'), '-inf', scope.now, 0, count)
  if #jids < count then
    local wanted = count - #jids
    if not scope.reading then
      modules.Recurring.spawn_due(queue, wanted)
      Queue.move_due(queue, wanted)
    end
    for _, jid in ipairs(call('ZREVRANGE', key.place(queue, 'work'), 0, wanted - 1)) do
      jids[#jids + 1] = jid
    end
    add_aside(queue, jids, 0, count)
    if scope.reading and #jids < count then
      for _, jid in ipairs(modules.Places.list_due(queue, 0, count - #jids)) do
        jids[#jids + 1] = jid
      end
    end
  end
  return modules.Job.show_all(jids)
end
end
elseif module_name == 'Clock' then
return function()
local Clock = {
set = 0, draw = 0, is_round = 0, keep = 0, show = 0
}
modules.Clock = Clock
-- clock.lua
-- The server's clock, and the record of the namespace that keeps it: meta.

local format, rep, floor, max = string.format, string.rep, math.floor, math.max

-- A kept time this far ahead of the server is not drift but a failover to a skewed replica.
local TOO_FAR = 60

local EVERY = 64

-- The number in meta says what a build must understand to work on what is stored. This build reads the
-- formats from OLDEST to NEWEST and continues them; NEWEST is the one that it writes. A namespace
-- without a number has format 1.
-- Raise NEWEST when a build that reads only the number before would lose jobs, or break, on what this one
-- stores: a field that means something else, a key of another type or name. Fields and keys that it
-- does not know, and need not know, are no reason. From then on its workers are refused as soon as one new
-- worker writes. Raise OLDEST when the code that reads the old forms is taken out.
local OLDEST, NEWEST = 1, 1
local WRITTEN = format('%d', NEWEST)

-- Of a call, in scope.clock:
--   kept, token  as meta has them
--   drawn, last  the last token that the call has drawn; the same as text
--   looked       when all queues were looked at last, see nonempty.lua
--   older        meta does not say the format yet that this build writes
--   time         the server's time, as TIME replies; nil if the caller gives another
--   ahead        by how much the kept time was ahead of it
--   skewed       and that is no drift

-- Refuses a namespace that this build cannot work on.
local function check_format(text)
  local number = tonumber(text or 1)
  if not (number and number <= NEWEST) then
    local words = 'the namespace stores format %s, this build of django_qless reads %d to %d: '
      .. 'upgrade the workers and web processes that still run this build'
    modules.Errors.raise('FORMAT', format(words, modules.Errors.name(text), OLDEST, NEWEST))
  elseif number < OLDEST then
    local words = 'the namespace stores format %s, this build of django_qless reads %d to %d: '
      .. 'let workers of the build before drain it first'
    modules.Errors.raise('FORMAT', format(words, modules.Errors.name(text or 1), OLDEST, NEWEST))
  end
end

-- What stands before the microseconds, by how many digits they have.
local BEFORE = {}
for digits = 1, 6 do
  BEFORE[digits] = '.' .. rep('0', 6 - digits)
end

-- Sets the time of the call to that of the server.
local function take_server_time(time)
  local second, rest = time[1], BEFORE[#time[2]] .. time[2]
  scope.now, scope.second, scope.fraction = tonumber(second .. rest), second, rest
end

-- Sets the time of a call with KEYS. Within a namespace the server's clock never goes back. -> what stands in
-- another field of meta
function Clock.set(text, field)
  field = field or 'clock'
  local kept, token, written, looked, value =
    modules.Hash.values(key.meta(), 'clock', 'token', 'format', modules.Nonempty.looked, field)
  local clock = { kept = tonumber(kept), token = tonumber(token) or 0, looked = looked }
  scope.clock = clock
  if written ~= WRITTEN then
    clock.older = true
    check_format(written)
  end
  if text ~= '*' then
    scope.now = modules.Arguments.number('now', 'now', text)
    return value
  end
  clock.time = call('TIME')
  take_server_time(clock.time)
  clock.ahead = clock.kept and clock.kept - scope.now or 0
  if clock.ahead > TOO_FAR then
    clock.skewed = true
  elseif clock.ahead > 0 then
    scope.now, scope.second, scope.fraction = clock.kept, nil, nil
  end
  return value
end

-- The last number that the first token of a call must exceed.
local function floor_of_tokens(clock)
  local time = clock.time
  local microseconds = time and tonumber(time[1]) * 1e6 + tonumber(time[2]) or 0
  return max(clock.token, microseconds - 1)
end

-- Draws a fencing token: the server's time in microseconds, or one more than the last token if that is more.
-- So a server that has lost its last writes, or a replica that lacked them, draws none of those again.
function Clock.draw()
  local clock = scope.clock
  clock.drawn = (clock.drawn or floor_of_tokens(clock)) + 1
  clock.last = modules.NumberFormat.whole(clock.drawn)
  return clock.last
end

-- Is it time for what has to be looked after, but not at each call? So in the first call of a
-- second, and for one in EVERY tokens.
function Clock.is_round()
  local token, kept = scope.clock.token, scope.clock.kept
  return token > 0 and token % EVERY == 0 or not kept or floor(kept) ~= floor(scope.now)
end

-- Written only when the call has succeeded: a refused call does not advance the clock. Other fields of meta and
-- their values may be given, which are written with it.
function Clock.keep(...)
  local name, clock = key.meta(), scope.clock
  local last = clock.last
  if not last and not clock.kept then
    last = modules.NumberFormat.whole(clock.token)
  end
  if clock.time and last then
    call('HSET', name, 'clock', modules.NumberFormat.now(), 'token', last, ...)
  elseif clock.time then
    call('HSET', name, 'clock', modules.NumberFormat.now(), ...)
  elseif last then
    call('HSET', name, 'token', last, ...)
  elseif ... then
    call('HSET', name, ...)
  end
  if clock.older then
    call('HSET', name, 'format', WRITTEN)
  end
  if clock.skewed then
    call('HINCRBY', name, 'skews', 1)
  end
end

-- meta
function Clock.show()
  local shown = { now = format('%.6f', scope.now) }
  for field, value in pairs(modules.Hash.all(key.meta())) do
    if not string.find(field, '^reply:') then
      shown[field] = value
    end
  end
  return cjson.encode(shown)
end
end
elseif module_name == 'CorruptJobs' then
return function()
local CorruptJobs = {
fail = 0, look_at_state = 0, mend = 0
}
modules.CorruptJobs = CorruptJobs
-- corrupt_jobs.lua
-- Jobs whose records cannot be read: they fail as such, with all that is known of them, so that neither
-- they nor their queue are lost; and can be enqueued again, with defaults.

local GROUP = 'corrupt-record'

-- Fails a job, which must not have ended, because of this field with this text. `place` is the queue in whose
-- hands it was, if the caller knows that.
function CorruptJobs.fail(jid, field, text, place)
  local its_state, its_queue, its_worker, its_rare, its_entity =
    modules.Hash.values(key.job(jid), 'state', 'queue', 'worker', 'rare', 'entity')
  local was, queue, worker = its_state, its_queue or place or '', its_worker or ''
  was = modules.Record.read('state', was, 'waiting')
  local message = modules.Record.words(field, text or '')
  modules.Places.leave(jid, queue)
  if place and place ~= queue then
    modules.Places.leave(jid, place)
  end
  modules.Job.unhold(jid, worker)
  if was == 'running' then
    modules.Events.lock_lost(jid, worker)
  elseif was == 'depends' then
    modules.Dependencies.unlink_all(jid)
  end
  call('HSET', key.job(jid), 'queue', queue)
  call('HDEL', key.job(jid), 'token')
  modules.History.failed(jid, GROUP, worker ~= '' and worker or nil, message)
  modules.Outcome.write_failed(
    { jid = jid, queue = queue, rare = its_rare, state = was, entity = its_entity },
    GROUP,
    message,
    math.floor(scope.now)
  )
  if modules.Tracking.is_tracked(jid) then
    modules.Events.tracked('failed', jid)
  end
  modules.Events.failed(jid, GROUP, message, worker)
end

-- A job was met in the hands of a queue, with this text as its state (or none). If that is no state
-- at all it fails.
function CorruptJobs.look_at_state(jid, state, queue)
  if not modules.Record.is_state(state) and call('EXISTS', key.job(jid)) == 1 then
    CorruptJobs.fail(jid, 'state', state, queue)
  end
end

-- What takes the place of what cannot be read; of the others nothing does.
local DEFAULTS = { priority = '0', retries = '5', remaining = '0', tags = '{}', failure = '{}', time = '0' }

local OTHERS = { 'beyond', 'first', 'unknown', 'cascade' }

-- A failed job is enqueued again: puts defaults in the place of what cannot be read, in its record and
-- in the one given, which Job.read has made.
function CorruptJobs.mend(record)
  local jid, mended = record.jid, {}
  if record.rare then
    for n, text in ipairs(call('HMGET', key.job(jid), unpack(OTHERS))) do
      record[OTHERS[n]] = text or nil
    end
  end
  for _, field in ipairs(modules.Record.fields()) do
    if modules.Record.is_bad(field, record[field]) then
      mended[#mended + 1] = cjson.encode(field)
      if field == 'tags' then
        modules.Tags.unindex_all(jid, record.tags)
      end
      record[field] = DEFAULTS[field]
      if DEFAULTS[field] then
        call('HSET', key.job(jid), field, DEFAULTS[field])
      else
        call('HDEL', key.job(jid), field)
      end
    end
  end
  if #mended > 0 then
    modules.History.add(jid, 'mended', '{"fields":[' .. table.concat(mended, ',') .. ']}')
  end
end
end
elseif module_name == 'Spawned' then
return function()
local Spawned = {
is_one = 0, has_unfinished = 0, unfinished = 0, look_beyond = 0, forget_beyond = 0, holds_back = 0,
is_known = 0, adopt = 0, done = 0, failed = 0, goes_on = 0
}
modules.Spawned = Spawned
-- workflows/spawned.lua
-- Jobs that a job has spawned: its dependents wait for them as well.
--
-- The links are made late. A dependent waits for the spawner; when that is complete, for those of
-- its spawned jobs that are not (as many at a time as a call may link); when nothing is left, it is free.
-- It does not wait for a spawned job that waits for it at that time: so there is no cycle.

-- spawned:<jid> has 0 for jobs that are on their way, 1 for those that have failed.
local ON_ITS_WAY, FAILED = '0', '1'

local FEW = 10 -- spawned jobs that are looked at one by one

local function list_of(text)
  return modules.Record.read('spawners', text, {})
end

local function has(list, jid)
  for _, one in ipairs(list) do
    if one == jid then
      return true
    end
  end
  return false
end

-- Has the spawner spawned this job, which is not complete?
function Spawned.is_one(spawner, jid)
  return call('ZSCORE', key.spawned(spawner), jid) and true or false
end

function Spawned.has_unfinished(spawner)
  return call('EXISTS', key.spawned(spawner)) == 1
end

-- Those of the jids that do not wait for the dependent; if there are none, one of the first thousand.
local function harmless(dependent, name, jids, most)
  local good, tired = modules.CycleDetection.harmless(dependent, jids)
  if #good == 0 and #jids == most and most < modules.Arguments.most then
    jids = call('ZRANGEBYSCORE', name, ON_ITS_WAY, ON_ITS_WAY, 'LIMIT', '0', modules.Arguments.most)
    good, tired = modules.CycleDetection.harmless(dependent, jids)
    good = { good[1] }
  end
  return good, tired
end

-- The few that are left may be there for nothing: a job whose field `spawners` could not be read has not
-- said that it has ended.
local function without_ended(name, jids)
  local left = {}
  for _, jid in ipairs(jids) do
    if (call('HGET', key.job(jid), 'state') or 'complete') ~= 'complete' then
      left[#left + 1] = jid
    elseif not scope.reading then
      call('ZREM', name, jid)
    end
  end
  return left
end

-- What a dependent of the spawner has to wait for: at most so many jids (one is enough: there is
-- another look when they are done). And one that has failed, if any. With `dependent` only what does not
-- wait for that; and whether there is more than this call can see.
function Spawned.unfinished(spawner, policy, most, dependent)
  local name, tired = key.spawned(spawner), false
  most = math.max(1, math.min(most, modules.Arguments.most))
  local jids = call('ZRANGEBYSCORE', name, ON_ITS_WAY, ON_ITS_WAY, 'LIMIT', '0', most)
  if #jids <= FEW then
    jids = without_ended(name, jids)
  end
  if dependent and #jids > 0 then
    jids, tired = harmless(dependent, name, jids, most)
  end
  local failed = call('ZRANGEBYSCORE', name, FAILED, FAILED, 'LIMIT', '0', '1')[1]
  if failed and #jids == 0 and policy ~= 'run' then
    jids[1] = failed
  end
  return jids, failed, tired
end

-- The spawner is complete: its dependent waits for what it has spawned, unless it is one of those.
function Spawned.look_beyond(jid, spawner)
  local its_beyond, spawners = modules.Hash.values(key.job(jid), 'beyond', 'spawners')
  local beyond = list_of(its_beyond)
  if not has(beyond, spawner) and not has(list_of(spawners), spawner) then
    beyond[#beyond + 1] = spawner
    call('HSET', key.job(jid), 'beyond', cjson.encode(beyond), 'rare', '1')
  end
end

local function write_beyond(jid, beyond)
  if #beyond > 0 then
    call('HSET', key.job(jid), 'beyond', cjson.encode(beyond))
  else
    call('HDEL', key.job(jid), 'beyond')
  end
end

-- A job waits for these spawners' jobs no longer; nil: for none.
function Spawned.forget_beyond(jid, spawners)
  local text = call('HGET', key.job(jid), 'beyond')
  if text then
    local rest = {}
    for _, spawner in ipairs(list_of(text)) do
      if spawners and not has(spawners, spawner) then
        rest[#rest + 1] = spawner
      end
    end
    write_beyond(jid, rest)
  end
end

-- This call has looked so far for others that it cannot say what the job has to wait for: a later one
-- does, as if the spawner were complete only then. -> whether that can be
local function put_off(jid, spawner)
  if (call('HGET', key.job(spawner), 'state') or 'complete') ~= 'complete' then
    return false
  end
  modules.Dependencies.link(jid, { spawner })
  modules.Dependencies.spend(modules.Dependencies.left())
  call('ZADD', key.releasing(), scope.now, spawner)
  return true
end

-- Nothing else holds the job back: is there something spawned? Then it waits for that, or is
-- canceled with what has failed of it. -> whether it must not start
function Spawned.holds_back(jid, text, policy)
  local beyond, open, fresh = {}, {}, modules.CycleDetection.is_fresh()
  for _, spawner in ipairs(list_of(text)) do
    local jids, failed, tired = Spawned.unfinished(spawner, policy, modules.Dependencies.left(), jid)
    if tired and not fresh and #jids == 0 and put_off(jid, spawner) then
      return true
    elseif failed and policy == 'cancel' then
      modules.Cascade.cancel(jid, 'dependency', failed)
      return true
    elseif #jids > 0 then
      beyond[#beyond + 1] = spawner
      modules.Dependencies.spend(#jids)
      for n = 1, #jids do
        open[#open + 1] = jids[n]
      end
    end
  end
  write_beyond(jid, beyond)
  modules.Dependencies.link(jid, open, policy)
  return #open > 0
end

-- Leaves out the first of a job's spawners, those that have seen its end: a jid that is put again and
-- again would collect them for ever.
local function without_former(spawners, jid)
  local first, rest = 1, {}
  while first <= math.min(#spawners, modules.Arguments.most) and not Spawned.is_one(spawners[first], jid) do
    first = first + 1
  end
  for n = first, #spawners do
    rest[#rest + 1] = spawners[n]
  end
  return rest
end

-- Has this job spawned the one with this record since it was put? It did so `since` then for the first time.
function Spawned.is_known(spawner, since, record)
  return has(list_of(record.more.spawners), spawner) and modules.Record.read('time', record.time, 0) >= since
end

-- The job takes these under its wings: jid and state of each. (`since` is false if it has none yet since it was put.)
function Spawned.adopt(spawner, jobs, since)
  local name, scores, new = key.spawned(spawner), {}, {}
  for _, job in ipairs(jobs) do
    local spawners = list_of(call('HGET', key.job(job.jid), 'spawners'))
    if not has(spawners, spawner) then
      spawners = without_former(spawners, job.jid)
      spawners[#spawners + 1] = spawner
      call('HSET', key.job(job.jid), 'spawners', cjson.encode(spawners), 'rare', '1')
      new[#new + 1] = job.jid
    end
    if job.state ~= 'complete' then
      scores[#scores + 1] = job.state == 'failed' and FAILED or ON_ITS_WAY
      scores[#scores + 1] = job.jid
    end
  end
  if #scores > 0 then
    call('ZADD', name, unpack(scores))
  end
  call('HSET', key.job(spawner), 'rare', '1', 'spawns', since or modules.NumberFormat.time())
  modules.DependencyResults.add_offspring(spawner, new)
end

local function each(text, act)
  for _, spawner in ipairs(list_of(text)) do
    act(key.spawned(spawner))
  end
end

-- A job with this field `spawners` is complete, or gone.
function Spawned.done(jid, text)
  each(text, function(name)
    call('ZREM', name, jid)
  end)
end

function Spawned.failed(jid, text)
  each(text, function(name)
    call('ZADD', name, 'XX', FAILED, jid)
  end)
end

-- It had failed, and goes on.
function Spawned.goes_on(jid, text)
  each(text, function(name)
    call('ZADD', name, 'XX', ON_ITS_WAY, jid)
  end)
end
end
elseif module_name == 'Deadline' then
return function()
local Deadline = {
is_missed = 0, fail = 0, note = 0, finish = 0, link_again = 0
}
modules.Deadline = Deadline
-- deadline.lua
-- Deadlines: a job that has not started by its own (`expires`) can no longer start, so it holds nothing: whoever meets
-- it fails it.

-- Is this the deadline of a job in this state, which has missed it?
function Deadline.is_missed(state, deadline)
  return deadline and modules.Unique.is_pending(state) and modules.Record.read('deadline', deadline, math.huge) <= scope.now
end

-- The job has missed its deadline. `words` say how that was found, %s stands for for how many seconds.
function Deadline.fail(jid, queue, state, words)
  local since = scope.now - modules.Record.read('deadline', call('HGET', key.job(jid), 'deadline'), scope.now)
  local message = string.format(words, string.format('%.1f', since))
  modules.Places.leave(jid, queue)
  if state == 'depends' then
    modules.Dependencies.unlink_all(jid)
    call('HDEL', key.job(jid), 'scheduled', 'beyond', 'behind')
  end
  call('HDEL', key.job(jid), 'token')
  modules.History.failed(jid, 'expired', nil, message)
  modules.Outcome.write_failed(
    { jid = jid, queue = queue, rare = true, state = state },
    'expired',
    message,
    math.floor(scope.now)
  )
  if modules.Tracking.is_tracked(jid) then
    modules.Events.tracked('failed', jid)
  end
  modules.Events.failed(jid, 'expired', message, '')
end

-- The call has met such a job. It fails at the end of the call, which is not refused any more then.
function Deadline.note(jid)
  scope.overdue = scope.overdue or {}
  scope.overdue[#scope.overdue + 1] = jid
end

function Deadline.finish()
  for _, jid in ipairs(scope.overdue) do
    local state, queue, deadline = modules.Hash.values(key.job(jid), 'state', 'queue', 'deadline')
    if Deadline.is_missed(state, deadline) then
      Deadline.fail(jid, queue or '', state, 'It expired %s seconds ago and had not started')
    end
  end
end

-- What a job that has failed so waited for and is still open: it waits for it again.
function Deadline.link_again(record)
  if modules.Record.read('failure', record.failure, {}).group == 'expired' then
    local needs = call('LRANGE', key.needs(record.jid), 0, modules.Arguments.most - 1)
    modules.Dependencies.link_again(record.jid, needs)
  end
end
end
elseif module_name == 'Payloads' then
return function()
local Payloads = {
most = 0, bytes = 0, each = 0, join = 0, lowest = 0, move = 0, move_all = 0, take = 0, give_back = 0
}
modules.Payloads = Payloads
-- entities/payloads.lua
-- The payloads of an entity: those that wait, in order, and those that a run has taken.
--
-- An entity is carried by an ordinary job, whose record has the fields `entity` (its id as text) and `home` (its
-- queue). What has been pushed for it stands in `payloads`; what the present run has taken, in `taken`.

local floor, min, max = math.floor, math.min, math.max

Payloads.most = 1000 -- of one entity in a run, and moved by one call for the dead
Payloads.bytes = 1024 * 1024 -- of one entity in a run
Payloads.each = 64 * 1024 -- bytes of one payload

-- Payloads read at first; then four times as many as before, as far as they are likely to fit.
local FIRST = 16

-- Adds payloads: score, text, score, text … Of equal ones the lower score stays. -> how many are new
function Payloads.join(name, flat)
  local new = 0
  for first = 1, #flat, 1000 do
    new = new + call('ZADD', name, 'LT', unpack(flat, first, min(first + 999, #flat)))
  end
  return new
end

-- Appends members with their scores (payload, score …), as they are read, to a list as they are written.
local function turn(flat, part)
  for n = 1, #part, 2 do
    flat[#flat + 1], flat[#flat + 2] = part[n + 1], part[n]
  end
  return flat
end

-- The payloads with the lowest scores, at most so many and so many bytes (but at least one).
-- -> score, text …, as `join` takes them; their bytes
function Payloads.lowest(name, most, bytes)
  local flat, used, step = {}, 0, FIRST
  while #flat < 2 * most do
    local at = #flat / 2
    local part = call('ZRANGE', name, at, at + min(step, most - at) - 1, 'WITHSCORES')
    for n = 1, #part, 2 do
      local size = #part[n]
      if flat[1] and used + size > bytes then
        return flat, used
      end
      flat[#flat + 1], flat[#flat + 2] = part[n + 1], part[n]
      used = used + size
    end
    if #part < 2 * step then
      break
    end
    step = max(1, min(4 * step, floor((bytes - used) * #flat / 2 / used) + 1))
  end
  return flat, used
end

-- Moves the payloads with the lowest scores, which `lowest` has read.
function Payloads.move(from, to, flat)
  if flat[1] then
    Payloads.join(to, flat)
    call('ZREMRANGEBYRANK', from, 0, #flat / 2 - 1)
  end
end

-- The same. -> whether none is left
function Payloads.move_all(from, to, flat)
  Payloads.move(from, to, flat)
  return call('EXISTS', from) == 0
end

-- Takes the payloads of a run, those with the lowest scores. -> their texts, their bytes
function Payloads.take(jid)
  local waiting, taken = key.payloads(jid), key.taken(jid)
  local texts, used = call('ZRANGE', waiting, 0, FIRST - 1), 0
  -- Mostly there are few, which fit into a run however large they are, and nothing is left of a run that was lost.
  if texts[1] and #texts < FIRST and call('RENAMENX', waiting, taken) == 1 then
    for n = 1, #texts do
      used = used + #texts[n]
    end
    return texts, used
  end
  Payloads.give_back(jid)
  local flat
  flat, used = Payloads.lowest(waiting, Payloads.most, Payloads.bytes)
  Payloads.move(waiting, taken, flat)
  texts = {}
  for n = 2, #flat, 2 do
    texts[n / 2] = flat[n]
  end
  return texts, used
end

-- What a run had taken waits again.
function Payloads.give_back(jid)
  local taken = call('ZRANGE', key.taken(jid), 0, -1, 'WITHSCORES')
  if taken[1] then
    Payloads.join(key.payloads(jid), turn({}, taken))
    call('DEL', key.taken(jid))
  end
end
end
elseif module_name == 'Ticks' then
return function()
local Ticks = {
policies = 0, choose = 0, none_yet = 0, put = 0, put_next = 0, serve = 0, keep = 0, carry_out = 0,
put_off = 0
}
modules.Ticks = Ticks
-- schedules/ticks.lua
-- Ticks of a schedule of either kind: which missed ones are caught up, the job that one puts, and how it goes on.
-- Which tick comes next those say who look: Recurring by the interval, for cron a worker (Cron).

local format, min = string.format, math.min

local AGAIN = 60 -- seconds until a schedule that cannot go on is looked at again

-- What may become of missed ticks: all are caught up, the last one, or none.
Ticks.policies = { all = true, last = true, none = true }

-- A tick is missed when it is late by more than this: half the time to the tick after it, at most
-- so many seconds.
local GRACE = 60

-- The last moment at which the tick is not missed yet.
local function in_time(tick, following)
  return tick + min(GRACE, (following - tick) / 2)
end

-- Ticks are due: `first`, which `following` comes after, to `last`, which `next` comes after.
-- -> the tick that puts a job now, or nil; and the tick to go on with
function Ticks.choose(policy, first, following, last, next)
  if policy == 'all' then
    return first, following
  elseif policy == 'none' and scope.now > in_time(last, next) then
    return nil, next
  end
  return last, next
end

-- A score for cron schedules that is due now and that cannot be a tick, which is a whole number.
function Ticks.none_yet(time)
  return time == math.floor(time) and time - 2 ^ -10 or time
end

-- What few jobs have; `rare` says that there is some of it. What is counted from the put is counted from the tick.
local function write_rare(record, child, time)
  local name = key.job(child)
  if record.context then
    call('HSET', name, 'context', record.context)
  end
  if record.expires then
    call('HSET', name, 'deadline', format('%.17g', time + modules.Record.number(record.expires)), 'rare', '1')
  end
  if record.unique then
    -- The key names the job put last, until that one has ended.
    local keys = { record.unique }
    call('HSET', name, 'unique', modules.Unique.field('end', keys), 'rare', '1')
    modules.Unique.take(child, keys)
  end
end

-- Puts the job of a tick, without a word. `record` is that of the schedule, in which everything can be
-- read (Record.bad_schedule).
function Ticks.put(record, child, time)
  modules.Canceled.forget(child)
  call(
    'HSET',
    key.job(child),
    'state',
    'waiting',
    'worker',
    '',
    'expires',
    0,
    'time',
    format('%.20f', time),
    'remaining',
    record.retries,
    'jid',
    child,
    'klass',
    record.klass,
    'data',
    record.data,
    'priority',
    record.priority,
    'tags',
    record.tags,
    'queue',
    record.queue,
    'retries',
    record.retries,
    'spawned_from_jid',
    record.jid
  )
  if record.context or record.expires or record.unique then
    write_rare(record, child, time)
  end
  local tags = modules.Record.read('tags', record.tags, {})
  if #tags > 0 then
    modules.Tags.index(child, tags)
  end
  modules.History.put(child, record.queue, time)
  modules.Places.work(child, record.queue, modules.Record.number(record.priority), time)
  modules.Minutes.count(record.queue, 'put', 1)
end

-- Puts the job of an interval's tick, under the next number that no job bears.
function Ticks.put_next(record, time)
  local count = modules.Record.number(record.count)
  repeat
    count = count + 1
  until call('EXISTS', key.job(record.jid .. '-' .. format('%.0f', count))) == 0
  record.count, record.last = count, time
  Ticks.put(record, record.jid .. '-' .. format('%.0f', count), time)
end

-- The job of a time of cron.
local function child_at(record, time)
  return record.jid .. '@' .. format('%.0f', time)
end

-- Takes away the job that a cron schedule put last, if no worker has been offered it and nothing waits for it: its
-- tick is missed. -> whether it did
local function take_back(record)
  local last = modules.Record.number(record.last)
  local child = last and child_at(record, last)
  local is_there = child and call('ZSCORE', key.place(record.queue, 'work'), child)
  local job = is_there and call('EXISTS', key.dependents(child)) == 0 and modules.Job.read(child)
  if not job then
    return false
  end
  modules.Job.remove(child, job)
  record.count = math.max((modules.Record.number(record.count) or 0) - 1, 0)
  return true
end

-- A worker asks for jobs of the queue: what cron schedules have put there is served, but for missed ticks of
-- those that make up for none.
function Ticks.serve(queue)
  local name = key.place(queue, 'ticks')
  for _, id in
    ipairs(call('ZRANGEBYSCORE', name, '-inf', format('(%.17g', scope.now), 'LIMIT', 0, modules.Arguments.most))
  do
    local record = modules.Hash.all(key.schedule(id))
    record.jid = id
    if record.queue == queue and take_back(record) then
      call('HSET', key.schedule(id), 'count', record.count)
    end
  end
  call('DEL', name)
end

-- Puts the job of a time of cron. (It is there already if the clock was set back.) Nobody may serve the queue: that is
-- known from `ticks`, as whoever does takes the schedule out of it. Then one job stands for all ticks that are missed.
local function put_at(record, time, tick)
  local child = child_at(record, time)
  if call('EXISTS', key.job(child)) == 1 then
    return 0
  end
  local name = key.place(record.queue, 'ticks')
  if record.missed ~= 'all' then
    if call('ZSCORE', name, record.jid) then
      take_back(record)
    end
    call(
      'ZADD',
      name,
      record.missed == 'none' and format('%.17g', in_time(time, tick.next)) or '+inf',
      record.jid
    )
  end
  record.count, record.last = (modules.Record.number(record.count) or 0) + 1, format('%.0f', time)
  Ticks.put(record, child, time)
  modules.Places.register(record.queue)
  return 1
end

-- Writes how far a schedule has come, which stands at `record.key` and goes on in `record.place`.
function Ticks.keep(record, next)
  if scope.live and record.last then
    call('HSET', record.key, 'count', record.count or 0, 'last', record.last)
  else
    call('HSET', record.key, 'count', record.count or 0)
  end
  call('ZADD', record.place, format('%.17g', next), record.jid)
end

-- Puts the job of that tick which counts of those that are due, if any. `tick` has those that choose wants; without
-- `first` none is due yet. -> how many jobs were put
function Ticks.carry_out(record, tick)
  local number, chosen, next = 0, nil, tick.next
  if tick.first then
    chosen, next = Ticks.choose(record.missed, tick.first, tick.following, tick.last, tick.next)
  end
  if chosen and record.cron then
    number = put_at(record, chosen, tick)
  elseif chosen then
    Ticks.put_next(record, chosen)
    number = 1
  end
  Ticks.keep(record, next)
  return number
end

-- A schedule that cannot go on is left for later, so that it does not stand before others. What fell due `since`
-- then stays due.
function Ticks.put_off(record, since, words)
  if scope.live then
    since = modules.Record.text('since', record.since, format('%.17g', since))
    call('HSET', record.key, 'trouble', words, 'since', since)
  end
  local again = scope.now + AGAIN
  call('ZADD', record.place, format('%.17g', record.cron and Ticks.none_yet(again) or again), record.jid)
end
end
elseif module_name == 'Failures' then
return function()
local Failures = {
groups = 0, add = 0, remove = 0, show = 0
}
modules.Failures = Failures
-- failures.lua
-- Failed jobs by group: the set of groups, a list of jids for each.

Failures.groups = 1000

-- Where calls with KEYS are made the number of groups is bounded: further ones share a list.
local function list_of(group)
  if scope.live and call('SISMEMBER', key.failures(), group) == 0 then
    if call('SCARD', key.failures()) >= Failures.groups then
      return 'other'
    end
  end
  return group
end

-- Files a failed job under its group and counts it.
function Failures.add(jid, queue, group)
  local list = list_of(group)
  call('SADD', key.failures(), list)
  call('LPUSH', key.group(list), jid)
  modules.Stats.count(queue, 'failures', 1)
  modules.Stats.count(queue, 'failed', 1)
  modules.Minutes.count(queue, 'failed', 1)
end

-- Looks from the newest on, or from the oldest on: where the job is likely to be.
local function take(jid, list, oldest_first)
  local found = call('LREM', key.group(list), oldest_first and -1 or 1, jid)
  if call('LLEN', key.group(list)) == 0 then
    call('SREM', key.failures(), list)
  end
  return found > 0
end

-- Nothing says in which group the job is: it is in one of them.
local function take_anywhere(jid)
  for _, list in ipairs(call('SMEMBERS', key.failures())) do
    if take(jid, list) then
      return
    end
  end
end

-- A job that was failed is so no longer.
function Failures.remove(jid, queue, failure, oldest_first)
  local known = modules.Record.read('failure', failure)
  if not known or not known.group then
    take_anywhere(jid)
    modules.Stats.mended(queue, scope.now)
    return
  end
  if not take(jid, known.group, oldest_first) then
    take(jid, 'other', oldest_first)
  end
  modules.Stats.mended(queue, known.when or 0)
end

-- failed [group [start limit]]
function Failures.show(args, i)
  local group = args[i]
  if not group then
    local counts = {}
    for _, name in ipairs(call('SMEMBERS', key.failures())) do
      counts[name] = call('LLEN', key.group(name))
    end
    return cjson.encode(counts)
  end
  local start, limit = modules.Arguments.offset('failed', args[i + 1]), modules.Arguments.count('failed', args[i + 2], 25)
  local total = call('LLEN', key.group(group))
  return cjson.encode({
    total = total,
    jobs = call('LRANGE', key.group(group), modules.Arguments.range(start, limit, total)),
  })
end
end
elseif module_name == 'JobSummary' then
return function()
local JobSummary = {
failure = 0, any_tracked = 0, row = 0, rows = 0, brief = 0, check_parts = 0, listed = 0, tracked =
0, briefs = 0
}
modules.JobSummary = JobSummary
-- views/job_summary.lua
-- Jobs in brief: what a line of a list shows of each, and parts of all the lists that there are.

local match = string.match

-- Places in a row: the first twelve are fields of the record as they are, but for `due`, which stands
-- where `rare` stood.
local KLASS, QUEUE, STATE, WORKER, SINCE, EXPIRES, DUE = 1, 2, 3, 8, 9, 10, 12
local GROUP, PROGRESS, WORKFLOW, TRACKED, PUT, JID = 13, 14, 15, 16, 17, 18

-- The places of what is no mere text: what cannot be read is not shown.
local JUDGED = {
  [4] = 'priority',
  [5] = 'retries',
  [6] = 'remaining',
  [7] = 'tags',
  [SINCE] = 'time',
  [EXPIRES] = 'expires',
}

-- (Naming the fields one by one is a sixth quicker than unpacking a list of them.)
local function read(jid)
  return call(
    'HMGET',
    key.job(jid),
    'klass',
    'queue',
    'state',
    'priority',
    'retries',
    'remaining',
    'tags',
    'worker',
    'time',
    'expires',
    'spawned_from_jid',
    'rare',
    'put'
  )
end

-- What a running job is whose lock has ended: the queue's list knows whether there was a notice.
local function see_lock(row, jid)
  local lock = call('ZSCORE', key.place(row[QUEUE], 'locks'), jid)
  if lock and tonumber(lock) <= scope.now then
    row[STATE], row[SINCE] = 'stalled', lock
  end
end

local function see_due(row, jid)
  local state, due = modules.Places.state_now(jid, row[QUEUE], row[STATE])
  if state == 'waiting' then
    row[STATE], row[SINCE] = state, due
  else
    row[DUE] = due
  end
end

-- When and in which group a job has failed: mostly the last line of its history says so, which is
-- shorter than the record's text with the whole message. -> when, group
function JobSummary.failure(jid)
  local when, more = match(call('LINDEX', key.history(jid), -1) or '', '^%[([%d.]+),"failed",(.*)%]$')
  if when then
    return when, match(more, '"group":"([^"\\]*)"') or modules.Record.read('failure', more, {}).group
  end
  local failure = modules.Record.read('failure', call('HGET', key.job(jid), 'failure'), {})
  return failure.when and string.format('%.17g', failure.when), failure.group
end

local function see_failure(row, jid)
  local when, group = JobSummary.failure(jid)
  row[SINCE], row[GROUP] = when or row[SINCE], group or false
end

-- Are there tracked jobs at all?
function JobSummary.any_tracked()
  return call('EXISTS', key.tracked()) == 1
end

-- What became of a canceled job, as a row; or false.
local function row_of_canceled(jid, tracking)
  local row = modules.Canceled.row(jid)
  if row then
    local workflow, history = row[12], row[13]
    row[STATE], row[WORKER], row[DUE], row[GROUP], row[PROGRESS] = 'canceled', '', false, false, false
    row[WORKFLOW] = workflow
    row[TRACKED] = tracking and call('ZSCORE', key.tracked(), jid) ~= false
    row[PUT] = match(history or '', '^%[%[([%d.]+),') or false
    row[JID] = jid
  end
  return row
end

-- The row of one job, or false if there is no such job.
function JobSummary.row(jid, tracking)
  local row = read(jid)
  local state, rare = row[STATE], row[DUE]
  local first = modules.History.unwritten(row[DUE + 1], row[QUEUE])
  if not modules.Record.is_state(state) then
    if not (state or row[KLASS] or row[QUEUE]) then
      return row_of_canceled(jid, tracking)
    end
    row[STATE] = state or ''
  end
  row[KLASS], row[QUEUE] = row[KLASS] or '', row[QUEUE] or ''
  for place, field in pairs(JUDGED) do
    row[place] = modules.Record.text(field, row[place], false)
  end
  row[DUE], row[GROUP], row[PROGRESS], row[WORKFLOW] = false, false, false, false
  if rare then
    local progress, workflow = modules.Hash.values(key.job(jid), 'progress', 'workflow')
    row[PROGRESS], row[WORKFLOW] = modules.Record.text('progress', progress, false), workflow
  end
  if state == 'running' then
    if (tonumber(row[EXPIRES]) or 0) <= scope.now then
      see_lock(row, jid)
    end
  elseif state == 'scheduled' then
    see_due(row, jid)
  elseif state == 'failed' then
    see_failure(row, jid)
  elseif state == 'stalled' then
    row[STATE] = 'waiting' -- taken from its worker: it is the first to be handed out
  end
  row[TRACKED] = tracking and call('ZSCORE', key.tracked(), jid) ~= false
  row[PUT] = match(first or call('LINDEX', key.history(jid), 0) or '', '^%[([%d.]+),') or false
  row[JID] = jid
  return row
end

-- The rows of jobs, with false for each that is gone.
function JobSummary.rows(jids)
  local rows, tracking = {}, JobSummary.any_tracked()
  for n = 1, #jids do
    rows[n] = JobSummary.row(jids[n], tracking)
  end
  return rows
end

-- brief jid... -> the rows as JSON
function JobSummary.brief(args, i)
  modules.Arguments.bounded('brief', #args - i + 1)
  local jids = {}
  for n = i, #args do
    jids[#jids + 1] = args[n]
  end
  return cjson.encode(JobSummary.rows(jids))
end

local function newest_first(name, start, count)
  return call('ZREVRANGE', name, start, start + count - 1)
end

-- Lists beside those of queues: jids from a place on, so many.
local LISTS = {
  group = function(name, start, count)
    return call('LRANGE', key.group(name), start, start + count - 1)
  end,
  tag = function(name, start, count)
    return call('ZRANGE', key.tag(name), start, start + count - 1)
  end,
  worker = function(name, start, count)
    return newest_first(key.held(name), start, count)
  end,
  complete = function(_, start, count)
    return newest_first(key.completed(), start, count)
  end,
  canceled = function(_, start, count)
    return modules.Canceled.part(start, count)
  end,
  tracked = function(_, start, count)
    return newest_first(key.tracked(), start, count)
  end,
}

-- Checks parts of lists, (kind name start count)... from args[i] on.
function JobSummary.check_parts(command, args, i)
  modules.Arguments.bounded(command, (#args - i + 1) / 4)
  for n = i, #args, 4 do
    local kind = args[n]
    if not LISTS[kind] and (not modules.Queue.is_list(kind) or kind == 'recurring') then
      modules.Errors.argument(command, 'Unknown kind of list ' .. modules.Errors.name(kind))
    end
    modules.Arguments.given(command, 'name', args[n + 1])
    args[n + 2] = modules.Arguments.whole(command, 'start', args[n + 2], 0)
    args[n + 3] = modules.Arguments.whole(command, 'count', args[n + 3], 0)
  end
end

-- Jids of a part of a list.
local function part(kind, name, start, count)
  if count < 1 then
    return {}
  end
  return LISTS[kind] and LISTS[kind](name, start, count) or modules.Queue.part(kind, name, start, count)
end

-- The jids of parts that were checked, the place of each among all that the parts name, and how many
-- places these are: at most as many as a call may handle.
function JobSummary.listed(args, i)
  local jids, places, before = {}, {}, 0
  for n = i, #args, 4 do
    local count = math.min(args[n + 3], modules.Arguments.most - before)
    for at, jid in ipairs(part(args[n], args[n + 1], args[n + 2], count)) do
      jids[#jids + 1], places[#places + 1] = jid, before + at
    end
    before = before + count
  end
  return jids, places, before
end

-- tracked.jids offset count -> total and jids, the last first; some may be gone
function JobSummary.tracked(args, i)
  local offset = modules.Arguments.whole('tracked.jids', 'offset', args[i], 0)
  local count = math.min(modules.Arguments.whole('tracked.jids', 'count', args[i + 1], 0), modules.Arguments.most)
  local jids = count > 0 and newest_first(key.tracked(), offset, count) or {}
  return cjson.encode({ total = call('ZCARD', key.tracked()), jobs = jids })
end

-- briefs most (kind name start count)... -> the rows as JSON
function JobSummary.briefs(args, i)
  local most = modules.Arguments.whole('briefs', 'most', args[i], 0)
  modules.Arguments.bounded('briefs', most)
  JobSummary.check_parts('briefs', args, i + 1)
  local jids = {}
  for n = i + 1, #args, 4 do
    for _, jid in ipairs(part(args[n], args[n + 1], args[n + 2], math.min(args[n + 3], most - #jids))) do
      jids[#jids + 1] = jid
    end
  end
  return cjson.encode(JobSummary.rows(jids))
end
end
elseif module_name == 'PutStore' then
return function()
local PutStore = {
read_old = 0, store = 0
}
modules.PutStore = PutStore
-- put_store.lua
-- Writing a put: the record, its places, its links; over an old record or as a new one.

local format, text_of = string.format, modules.Arguments.text_of

local OLD = {
  'state',
  'queue',
  'worker',
  'priority',
  'tags',
  'retries',
  'failure',
  'history',
  'rare',
  'time',
  'waited',
  'put',
}

-- The fields that few records have. A record that has one of them has `rare` as well, which is never
-- taken away: where jobs end and start, the others are read only then. ('0': it has or had no more
-- than the marks of a run, `grace` and `progress`.)
local RARE = {
  'unique',
  'workflow',
  'on_failure',
  'deadline',
  'first',
  'behind',
  'beyond',
  'spawners',
  'limit_key',
  'fair_by',
  'aside',
  'called',
  'holds',
  'entity',
}

local function named(fields, values)
  local record = {}
  for n = 1, #fields do
    record[fields[n]] = values[n] or nil
  end
  return record
end

-- The fields of an old record that stay where a put says nothing of them.
local KEPT = { 'priority', 'retries', 'history' }

-- Takes out of a record what cannot be read; `old.gone` are the fields to be deleted.
local function forget_bad(record, fields, old)
  for _, field in ipairs(fields) do
    if modules.Record.is_bad(field, record[field]) then
      record[field] = nil
      old.gone = old.gone or {}
      old.gone[#old.gone + 1] = field
    end
  end
end

-- What of an old record a put needs, or false.
function PutStore.read_old(jid)
  local values = call('HMGET', key.job(jid), unpack(OLD))
  if not values[1] then
    return false
  end
  local old = named(OLD, values)
  old.more = old.rare and named(RARE, call('HMGET', key.job(jid), unpack(RARE))) or {}
  forget_bad(old.more, RARE, old)
  forget_bad(old, KEPT, old)
  return old
end

-- What the new run keeps of the old one because the put says nothing of it. A job that takes
-- another's place (`fresh`) keeps what others know it by.
local function inherit(job, old)
  local more = old.more
  if job.fresh then
    job.workflow = more.workflow or job.workflow
    return
  end
  job.workflow = job.workflow or more.workflow
  if not job.unique then
    job.unique_field, job.first = more.unique, more.first
  end
  if not job.limit_key then
    job.limit_key = more.limit_key
  end
  job.fair_by = job.fair_by or more.fair_by
  if not job.replacing then
    job.on_failure = job.on_failure or more.on_failure
    job.behind, job.beyond = more.behind, more.beyond
  end
  if old.state ~= 'failed' and old.state ~= 'complete' then
    job.deadline = job.deadline or more.deadline
  end
end

local function clear_rare(job, old)
  local jid, more = job.jid, old.more
  if more.unique and more.unique ~= job.unique_field then
    modules.Unique.free(jid, more.unique)
  end
  if old.state == 'failed' then
    modules.Spawned.goes_on(jid, more.spawners)
  end
  more.queue, more.klass = old.queue, job.klass
  modules.Limits.leave(jid, more)
  call(
    'HDEL',
    key.job(jid),
    'unique',
    'workflow',
    'on_failure',
    'deadline',
    'first',
    'behind',
    'beyond',
    'cascade',
    'limit_key',
    'fair_by'
  )
  if not job.goes_on or old.state == 'complete' then
    call('HDEL', key.job(jid), 'spawns') -- It spawns as if for the first time.
  end
end

-- Fields that do not go on into a new run.
local OF_ONE_RUN = {
  'put',
  'grace',
  'scheduled',
  'token',
  'progress',
  'waited',
  'crashes',
  'unknown',
  'context',
  'returned',
  'failed_from',
}

-- Undoes what the old record did outside of it.
local function clear_old(job, old, asking)
  local jid, queue, worker = job.jid, old.queue, old.worker
  modules.Tags.unindex_all(jid, old.tags)
  if queue and old.state ~= 'complete' then
    modules.Places.leave(jid, queue)
  end
  modules.Job.unhold(jid, worker)
  if worker ~= asking then
    modules.Events.lock_lost(jid, worker)
  end
  local is_lost = not modules.Record.is_state(old.state)
  if old.state == 'complete' or is_lost then
    call('ZREM', key.completed(), jid)
    call('ZREM', key.releasing(), jid)
  end
  if old.state == 'failed' or is_lost then
    modules.Failures.remove(jid, queue, old.failure)
  elseif old.state == 'running' then
    modules.Samples.taken_away(queue, old.time, old.waited)
  end
  if modules.Record.is_bad('failure', old.failure) then
    call('HSET', key.job(jid), 'failure', '{}')
  end
  if job.replacing then
    modules.Dependencies.unlink_all(jid)
    modules.DependencyResults.forget(jid)
  end
  call('HDEL', key.job(jid), unpack(OF_ONE_RUN))
  if old.rare then
    clear_rare(job, old)
  end
  if old.gone then
    call('HDEL', key.job(jid), unpack(old.gone))
  end
  if scope.live then
    call('DEL', key.result(jid))
  end
end

local function write_rare(job, state)
  local fields, jid = { 'rare', '1' }, job.jid
  local function add(name, value)
    if value then
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
  end
  add('unique', job.unique_field)
  add('workflow', job.workflow)
  add('on_failure', job.on_failure ~= 'block' and job.on_failure)
  add('deadline', job.deadline and format('%.6f', job.deadline))
  add('first', job.first and format('%.6f', job.first))
  add('behind', job.behind)
  add('beyond', job.beyond)
  add('limit_key', job.limit_key)
  add('fair_by', job.fair_by)
  add('entity', job.entity)
  add('home', job.entity and job.queue)
  add('batch', job.batch and text_of(tonumber(job.batch)))
  if #fields > 2 then
    call('HSET', key.job(jid), unpack(fields))
  end
  if job.unique and not job.regains then
    -- (Who is late from the start holds nothing.)
    if (tonumber(job.deadline or nil) or math.huge) > scope.now and (job.period or 1) > 0 then
      modules.Unique.take(jid, job.keys, job.period)
    end
  else
    modules.Unique.regain(jid, job.unique_field, state)
  end
end

-- A workflow counts its jobs by their states.
local function join(job, state)
  local was = job.old and job.old.more.workflow
  if was and was == job.workflow then
    modules.Workflow.moved(was, job.old.state, state)
    return
  elseif was then
    modules.Workflow.moved(was, job.old.state, false)
  end
  if job.workflow then
    modules.Workflow.joined(job.workflow, job.jid, state)
  end
end

local function due(job)
  return job.at or scope.now + job.delay
end

-- Fields that change at every step come first; those that few have last.
local function write_fields(job, state)
  local jid, retries = job.jid, text_of(job.retries)
  call(
    'HSET',
    key.job(jid),
    'state',
    state,
    job.put and 'put' or 'state', -- What is named twice is written once.
    job.put or state,
    'worker',
    '',
    'expires',
    '0',
    'time',
    modules.NumberFormat.time(),
    'remaining',
    retries,
    'jid',
    jid,
    'klass',
    job.klass,
    'data',
    job.data,
    'priority',
    text_of(job.priority),
    'tags',
    job.tags_text,
    'queue',
    job.queue,
    'retries',
    retries
  )
end

-- The record of a new job, mostly in one command.
local function write(job, state)
  local name = key.job(job.jid)
  write_fields(job, state)
  if job.context then
    call('HSET', name, 'context', job.context)
  end
  if state == 'depends' and job.delay > 0 then
    call('HSET', name, 'scheduled', format('%.17g', due(job)))
  end
  if job.rare or (job.old and job.old.rare) then
    write_rare(job, state)
    join(job, state)
  end
end

-- What a put leaves open is as it was, or as it is with new jobs.
local function complete_options(job, old)
  job.priority = job.priority or (old and modules.Record.read('priority', old.priority)) or 0
  job.retries = job.retries or (old and modules.Record.read('retries', old.retries)) or 5
  if not job.tags and old then
    job.tags = modules.Record.read('tags', old.tags, {})
  end
  job.tags_text = job.tags and #job.tags > 0 and modules.Tags.text(job.tags) or '{}'
end

-- The job may be handed out from now on, unless it waits for its turn.
local function make_ready(job, batch)
  local jid, queue = job.jid, job.queue
  if job.fair_by and modules.Turns.set_aside(jid, queue, job) then
    return
  elseif job.overdue then
    modules.Places.work(jid, queue, job.priority, job.overdue)
    modules.Places.ready_since(jid, job.overdue)
  elseif batch then
    batch(job)
  else
    modules.Places.work(jid, queue, job.priority)
  end
end

-- Writes down a job that Put has checked. `batch` takes those that are ready. Cannot fail.
function PutStore.store(job, asking, tracked, batch)
  local jid, queue, old = job.jid, job.queue, job.old
  modules.Events.put(jid, queue)
  if job.was_canceled then
    modules.Canceled.forget(jid)
  end
  if old and old.history then
    modules.History.modernise(jid, old.history)
  end
  if old then
    modules.History.put(jid, queue)
    if old.put and old.put ~= '' then
      modules.History.write_late(jid)
    end
  else
    job.put = modules.History.begin(jid, queue)
  end
  complete_options(job, not job.fresh and old)
  local held_back = false
  if old then
    inherit(job, old)
    clear_old(job, old, asking)
    held_back = call('SCARD', key.dependencies(jid)) > 0
  end
  if job.tags then
    modules.Tags.index(jid, job.tags)
  end
  if job.replacing then
    modules.Dependencies.link(jid, job.depends, job.behind or job.on_failure)
    modules.DependencyResults.add(jid, job.needs)
    held_back = held_back or #job.depends > 0
  elseif held_back and job.on_failure and job.on_failure ~= old.more.on_failure then
    modules.Dependencies.follow(jid, job.on_failure)
  end
  if job.gate then -- It has no record, and cannot fail.
    modules.Dependencies.link(jid, { job.gate })
    held_back = true
  end
  if held_back then
    write(job, 'depends')
    modules.Places.depends(jid, queue)
  elseif job.delay > 0 then
    write(job, 'scheduled')
    modules.Places.scheduled(jid, queue, due(job))
  else
    write(job, 'waiting')
    make_ready(job, batch)
  end
  if tracked then
    modules.Events.tracked('put', jid)
  end
end
end
elseif module_name == 'StatsBuffer' then
return function()
local StatsBuffer = {
entry = 0, append = 0, read = 0, take = 0
}
modules.StatsBuffer = StatsBuffer
-- stats_buffer.lua
-- Samples that the statistics do not have yet: few at a time are only appended here.

local match, format, floor = string.match, string.format, math.floor
local text_of = modules.Arguments.text_of

-- An entry: when, wait or run, how many seconds, how often, the queue. The milliseconds of the length
-- stand behind the whole seconds of the time, where libraries that count in whole seconds overlook
-- them; their own entries have none.
function StatsBuffer.entry(second, kind, seconds, n, queue)
  local whole = floor(seconds)
  return modules.NumberFormat.whole(second)
    .. format('.%03d ', floor((seconds - whole) * 1000 + 0.5))
    .. kind
    .. ' '
    .. text_of(whole)
    .. ' '
    .. text_of(n)
    .. ' '
    .. queue
end

-- -> how many entries there are now
function StatsBuffer.append(...)
  return call('RPUSH', key.journal(), ...)
end

-- Shows all entries to `visit(second, kind, seconds, n, queue)`; the seconds are a text if no more than
-- the whole ones are known. Jobs that come quickly one after the other leave the same entry many
-- times: those come as one.
local function show(texts, visit)
  local times = {}
  for n = 1, #texts do
    times[texts[n]] = (times[texts[n]] or 0) + 1
  end
  for text, often in pairs(times) do
    local second, fraction, kind, seconds, n, queue = match(text, '^(%-?%d+)(%.?%d*) (%a+) (%S+) (%S+) (.*)$')
    if (kind == 'wait' or kind == 'run') and tonumber(seconds) and tonumber(n) then
      if fraction ~= '' then
        seconds = tonumber(seconds .. fraction)
      end
      visit(tonumber(second), kind, seconds, tonumber(n) * often, queue)
    end
  end
end

function StatsBuffer.read(visit)
  show(call('LRANGE', key.journal(), '0', '-1'), visit)
end

-- The same, and forgets them.
function StatsBuffer.take(visit)
  local texts = call('LRANGE', key.journal(), '0', '-1')
  if #texts > 0 then
    call('DEL', key.journal())
    show(texts, visit)
  end
end
end
elseif module_name == 'Commands' then
return function()
local Commands = {
find = 0
}
modules.Commands = Commands
-- commands.lua
-- The commands, one line each: by which function of which module it is answered.
--
-- (They stand in texts, as tables of them would be made again in each call of a script.)

-- Those of qless-core's protocol that only read. (Without KEYS some of them move what is due; with KEYS none
-- writes.)
local READS = [[

peek Queue.peek
get Job.get
multiget Job.multiget
failed Failures.show
jobs Queue.jobs
queues Queue.show
stats Stats.show
workers Worker.show
length Queue.length
config.get Config.show
recur.get Recurring.get
]]

-- Some words of tag and of track only read: see Serve.
local WRITES = [[

put Put.put
requeue Put.requeue
pop Pop.pop
complete Outcome.complete
fail Outcome.fail
retry Outcome.retry
heartbeat Lock.heartbeat
cancel Job.cancel
timeout Job.timeout
depends DependencyCommands.depends
priority Job.priority
tag Tags.command
track Tracking.track
unfail Revive.unfail
worker.deregister Worker.deregister
pause Pause.pause
unpause Pause.unpause
queue.forget Queue.forget
log History.log
config.set Config.set
config.unset Config.unset
recur Recurring.recur
recur.update Recurring.update
recur.tag Recurring.tag
recur.untag Recurring.untag
unrecur Recurring.unrecur
]]

-- Those that exist with KEYS only.
local OUR_READS = [[

needs DependencyResults.show
offspring DependencyResults.offspring
results Results.show
results.gone Results.gone
result Job.result
jobs.count Queue.count_jobs
schedule.get ScheduleView.get
schedule.list ScheduleView.list
schedule.declared ScheduleView.declared
schedule.marks ScheduleView.marks
queues.part Queue.show_part
lag QueueStats.lag
due QueueStats.due
limits LimitView.show
survey QueueStats.survey
minutes Minutes.show
throughput Throughput.show
failed.of Throughput.failed
stats.counters Stats.counters
brief JobSummary.brief
briefs JobSummary.briefs
search Search.search
job.view JobView.show
failure.groups FailureGroups.list
failure.group FailureGroups.show
worker.views WorkerView.list
tag.counts Tags.counts
schedules.of ScheduleView.of
schedules.next ScheduleView.next
schedules.in QueueSchedules.list
schedules.count QueueSchedules.numbers
tracked.jids JobSummary.tracked
meta Clock.show
workflow.get WorkflowVerbs.get
entity.show EntityView.show
entities.list EntityView.list
entities.counts EntityView.counts
workflow.jobs WorkflowVerbs.jobs
detached.get Detached.get
]]

local OUR_WRITES = [[

put.many PutMany.many
put.once PutMany.once
spawn Spawn.spawn
settle Settle.settle
beat Worker.beat
release Outcome.release
progress Job.progress
order WorkerControl.order
revive Revive.revive
schedule.set Schedules.set
schedule.update Schedules.update
schedule.pause Schedules.pause
schedule.resume Schedules.resume
schedule.run Schedules.run
schedule.remove Schedules.remove
schedule.mark ScheduleView.mark
schedule.due Cron.due
schedule.tick Cron.tick
schedule.trouble Cron.trouble
queue.pause Pause.pause_with
queue.forget.empty Queue.forget_empty
cancel.each Bulk.cancel
revive.each Bulk.revive
move.each Bulk.move
priority.each Bulk.priority
timeout.each Bulk.timeout
tag.each Bulk.tag
untag.each Bulk.untag
track.each Bulk.track
untrack.each Bulk.untrack
await ResultWaiters.await
push EntityPush.push
dead.back Dead.back
dead.delete Dead.delete
entities.run EntityActions.run
entities.kill EntityActions.kill
entities.drop EntityActions.drop
workflow.put WorkflowPut.put
workflow.stage WorkflowPut.stage
workflow.release WorkflowPut.release
workflow.carry WorkflowVerbs.carry
workflow.cancel WorkflowVerbs.cancel
workflow.retry WorkflowVerbs.retry
detached.keep Detached.keep
forget Detached.forget
deliver Deliveries.deliver
deliver.forget Deliveries.forget
]]

local function line_of(command, lines)
  local _, last = string.find(lines, '\n' .. command .. ' ', 1, true)
  if last then
    return string.match(lines, '^(%w+)%.([%w_]+)', last + 1)
  end
end

local function look(command)
  for n, lines in ipairs({ READS, WRITES, OUR_READS, OUR_WRITES }) do
    local module, what = line_of(command, lines)
    if module then
      return { reads = n % 2 == 1, is_ours = n > 2, module = module, what = what }
    end
  end
end

local found = {}

-- What is known of a command: whether it `reads` only, whether it `is_ours`, the module and the function that
-- answer it. nil if there is no such command.
function Commands.find(command)
  local known = found[command]
  if not known and string.find(command, '^[%l.]+$') then
    known = look(command)
    found[command] = known
  end
  return known
end
end
elseif module_name == 'EntityRun' then
return function()
local EntityRun = {
data = 0, stays = 0, take = 0, taken = 0, further = 0, lost = 0, words_of_loss = 0, failed = 0,
erase = 0
}
modules.EntityRun = EntityRun
-- entities/entity_run.lua
-- Runs of entities: what a run takes, and what becomes of one that was lost or has failed for good.

local MOST_JOBS = 250 -- entities handed out by one call

-- Payloads, and their bytes, after which a call hands out no further entity. Each has as many as a run may have, so
-- one call may move a run's more.
local ENOUGH, ENOUGH_BYTES = 4000, 4 * 1024 * 1024

local MOST_LOSSES = 3 -- locks lost and crashes in a row that one payload may cause

-- These are no failures of a run: no payload of the entity can be processed.
local OF_ALL = { ['unknown-job'] = true, ['row-gone'] = true, ['corrupt-record'] = true }

-- May this call hand out one more entity? Only to who reserves: others know nothing of payloads.
local function has_room(reserved)
  local handed = scope.entities
  if not reserved or not handed then
    return reserved
  end
  return handed.jobs < MOST_JOBS and handed.payloads < ENOUGH and handed.bytes < ENOUGH_BYTES
end

-- An entity that was to be handed out stays where it was: first in its queue.
local function leave(jid, queue, state, priority, time)
  scope.full = true
  if state == 'running' then
    call('ZREM', key.place(queue, 'locks'), jid)
    call('HSET', key.job(jid), 'state', 'waiting', 'worker', '', 'expires', 0)
    modules.Entity.returned(jid, queue)
    local holds = call('HGET', key.job(jid), 'holds')
    if holds then
      modules.Limits.release(jid, holds)
    end
  end
  priority = state == 'stalled' and math.huge or modules.Record.number(priority)
  modules.Places.work(jid, queue, priority, modules.Record.read('time', time, scope.now))
end

-- What its worker is told of an entity: the data with the payloads that the run has.
function EntityRun.data(jid, entity, data, payloads)
  payloads = payloads or call('ZRANGE', key.taken(jid), 0, -1)
  if not data or not string.find(data, '^{.+}$') then
    data = '{"v":1,"entity":' .. cjson.encode(entity) .. '}'
  end
  return modules.Json.with(data, 'payloads', #payloads > 0 and '[' .. table.concat(payloads, ',') .. ']' or '[]')
end

-- An entity is about to be handed out. -> whether it stays in its queue instead, as the call hands out enough
function EntityRun.stays(jid, queue, state, priority, time, reserved)
  if has_room(reserved) then
    return false
  end
  leave(jid, queue, state, priority, time)
  return true
end

-- Takes the payloads of an entity that is handed out. -> its data for the worker
function EntityRun.take(jid, entity, data)
  local handed = scope.entities or { jobs = 0, payloads = 0, bytes = 0, listed = {} }
  scope.entities = handed
  local payloads, bytes = modules.Payloads.take(jid)
  handed.jobs, handed.payloads = handed.jobs + 1, handed.payloads + #payloads
  handed.bytes = handed.bytes + bytes
  handed.listed[#handed.listed + 1] = jid
  return EntityRun.data(jid, entity, data, payloads)
end

-- Those that were handed out of the queue since the last time wait no longer.
function EntityRun.taken(queue)
  local jids = scope.entities.listed
  if #jids > 0 and call('ZREM', key.fresh(queue), unpack(jids)) < #jids then
    call('ZREM', key.retrying(queue), unpack(jids))
  end
  scope.entities.listed = {}
end

-- How many more entities of a queue belong to the runs of `taken` ones, which have been handed out: a run has up
-- to `batch`.
function EntityRun.further(taken)
  return math.min(taken * ((scope.batch or 1) - 1), MOST_JOBS - scope.entities.jobs)
end

-- The lock of a run was lost, which uses no retry up. -> the retries that remain; below 0 if the entity has
-- caused too many losses in a row
function EntityRun.lost(jid, remaining, crashes)
  crashes = modules.Record.read('crashes', crashes, 0) + 1
  call('HSET', key.job(jid), 'crashes', crashes)
  return crashes > MOST_LOSSES and -1 or modules.Record.read('remaining', remaining, 0)
end

-- The group and the words for that.
function EntityRun.words_of_loss()
  return 'worker-crash',
    'Its lock was lost ' .. MOST_LOSSES + 1 .. ' times, each time with this payload first'
end

-- The job was to be filed as failed: instead the payload with the lowest score goes to the dead, and the
-- others go on at once. -> whether that was done
function EntityRun.failed(job, group, message)
  local jid = job.jid
  local record = modules.Job.read(jid, true)
  if not record then
    return false
  end
  local queue = record.home or job.queue
  modules.Payloads.give_back(jid)
  local flat = modules.Payloads.lowest(key.payloads(jid), OF_ALL[group] and modules.Payloads.most or 1, modules.Payloads.bytes)
  modules.Dead.add(record, queue, group, message, flat)
  modules.Stats.count(queue, 'failures', 1)
  modules.Minutes.count(queue, 'failed', 1)
  modules.Minutes.count(queue, 'died', 1)
  modules.Entity.unlisted(jid, queue)
  if modules.Payloads.move_all(key.payloads(jid), key.dead_payloads(jid), flat) then
    EntityRun.erase(record, queue)
  else
    if record.holds then
      modules.Limits.release(jid, record.holds)
    end
    modules.Entity.again(jid, queue)
  end
  return true
end

-- Takes away the job of an entity that has no payloads, and is in no place. (It never depends on others.)
function EntityRun.erase(record, queue)
  local jid = record.jid
  record.home = queue
  modules.Job.erase(jid, record.tags)
  modules.JobEnd.canceled(jid, record)
  modules.Cascade.follow(jid, 'gone')
end
end
elseif module_name == 'Expiry' then
return function()
local Expiry = {
can_wait = 0, after = 0
}
modules.Expiry = Expiry
-- expiry.lua
-- Completed jobs are forgotten when they are too old or too many.

-- Completed jobs expired by one call beyond twice those it completes.
local EXPIRED = 200

-- Where so many jobs, or for so many seconds, are kept, single completions leave it to later ones.
local MANY, LONG, FEW = 1000, 60, 8

local function expire(jids)
  local names, tagged, needing = {}, call('EXISTS', key.tags()) == 1, modules.DependencyResults.exist()
  for _, jid in ipairs(jids) do
    local tags = tagged and call('HGET', key.job(jid), 'tags')
    if tags and tags ~= '{}' then
      modules.Tags.unindex_all(jid, tags)
    end
    -- A job that was completed has no links any more.
    local at = #names
    names[at + 1], names[at + 2] = key.job(jid), key.history(jid)
    if needing then
      names[at + 3] = key.needs(jid)
    end
  end
  if #names > 0 then
    call('DEL', unpack(names))
  end
end

-- May it wait for a later call?
function Expiry.can_wait(just_completed, age, count)
  return just_completed <= FEW and count >= MANY and age >= LONG
end

-- Forgets completed jobs that are too old or too many, a bounded number per call.
function Expiry.after(just_completed)
  local age, count = modules.Config.number('jobs-history'), modules.Config.whole('jobs-history-count')
  if Expiry.can_wait(just_completed, age, count) and not modules.Clock.is_round() then
    return
  end
  local most = EXPIRED + 2 * just_completed
  local completed = key.completed()
  local old = call('ZRANGEBYSCORE', completed, '-inf', scope.now - age, 'LIMIT', 0, most)
  local surplus = call('ZCARD', completed) - #old - count
  if surplus > 0 and #old < most then
    local rest = call('ZRANGE', completed, #old, #old + math.min(surplus, most - #old) - 1)
    for _, jid in ipairs(rest) do
      old[#old + 1] = jid
    end
  end
  if #old > 0 then
    call('ZREMRANGEBYRANK', completed, 0, #old - 1) -- the oldest are the first
    expire(old)
  end
end
end
elseif module_name == 'Pop' then
return function()
local Pop = {
told = 0, told_again = 0, most_due = 0, take = 0, is_paused = 0, pop = 0
}
modules.Pop = Pop
-- pop.lua
-- Handing out jobs: expired locks first, then what fell due, then the top of the work.

local text_of = modules.Arguments.text_of

-- What decides whether a job may run: its state, then as many as are NEEDED, then the others.
local JUDGED, NEEDED = { 'state', 'retries', 'remaining', 'priority', 'tags', 'context', 'time', 'rare' }, 3

-- What is read of a job whose lock has expired.
local LOCKED = { 'worker', 'grace', 'remaining', 'state', 'rare', 'time', 'waited', 'entity', 'crashes' }

-- The first loss of a lock is a notice to its owner, who has the grace period to end the job.
local function notice(jid, queue, worker, grace, rare)
  if modules.Tracking.is_tracked(jid) then
    modules.Events.tracked('stalled', jid)
  end
  modules.History.ended(jid, 'timed-out', { worker = worker })
  call('HSET', key.job(jid), 'grace', 1)
  if scope.live and not rare then
    call('HSET', key.job(jid), 'rare', '0')
  end
  modules.Events.lock_lost(jid, worker)
  call('ZADD', key.place(queue, 'locks'), scope.now + grace, jid)
  modules.Stats.count(queue, 'retries', 1)
  if grace > 0 then
    modules.Wake.due(queue, scope.now + grace)
  end
end

-- What of a job without retries has to be readable for it to go on in another queue.
local MOVED = { 'retries', 'priority', 'tags', 'context' }

-- A job whose last lock was lost, as Outcome.end_failed takes it.
local function lost(jid, queue, rare, entity)
  local texts = call('HMGET', key.job(jid), unpack(MOVED))
  return {
    jid = jid,
    queue = queue,
    rare = rare,
    entity = entity,
    bad = modules.Record.first_bad(MOVED, texts),
    retries = modules.Record.text('retries', texts[1], '0'),
    priority = modules.Record.read('priority', texts[2], 0),
  }
end

local function exhausted(jid, queue, worker, rare, entity)
  local group = 'failed-retries-' .. queue
  local message = 'Job exhausted retries in queue "' .. queue .. '"'
  if entity then
    group, message = modules.EntityRun.words_of_loss()
  end
  modules.Exhausted.note(jid, group, message, entity)
  call('ZREM', key.place(queue, 'locks'), jid)
  call('HSET', key.job(jid), 'remaining', -1)
  modules.History.failed(jid, group, nil, message)
  if modules.Tracking.is_tracked(jid) then
    modules.Events.tracked('failed', jid)
  end
  modules.Events.failed(jid, group, message, worker)
  modules.Outcome.end_failed(lost(jid, queue, rare, entity), group, message, scope.now)
end

-- Locks looked at by one pop, beyond those that it frees: whose loss is only noticed costs no place.
local LOOKED = 250

-- Ends the run under an expired lock, or gives notice first. -> whether the job may be handed out
local function expire(jid, queue, locks, grace)
  local job = modules.Hash.read(key.job(jid), LOCKED)
  local worker = job.worker or ''
  if job.state ~= 'running' then
    modules.CorruptJobs.look_at_state(jid, job.state, queue)
    call('ZREM', locks, jid)
    return false
  elseif modules.Record.is_bad('remaining', job.remaining) then
    modules.CorruptJobs.fail(jid, 'remaining', job.remaining, queue)
    return false
  end
  modules.Job.unhold(jid, worker)
  if job.grace ~= '1' then
    notice(jid, queue, worker, grace, job.rare)
    if grace > 0 then
      return false
    end
  end
  modules.History.ended(jid, 'lost', { worker = worker, held = modules.Samples.held(job.waited) })
  modules.Samples.taken_away(queue, job.time, job.waited)
  local remaining = modules.Record.read('remaining', job.remaining, 0) - 1
  if job.entity then
    remaining = modules.EntityRun.lost(jid, job.remaining, job.crashes)
  end
  if remaining < 0 then
    exhausted(jid, queue, worker, job.rare, job.entity)
    return false
  end
  call('HSET', key.job(jid), 'remaining', remaining)
  modules.Places.ready_since(jid, scope.now, job.entity)
  call('HDEL', key.job(jid), 'grace', 'progress', 'waited')
  return true
end

-- -> up to `count` jids whose locks have expired and that may be handed out again
local function expired(queue, count)
  local locks, freed = key.place(queue, 'locks'), {}
  if call('ZCOUNT', locks, '-inf', modules.NumberFormat.now()) == 0 then
    return freed -- mostly, and cheaper to ask
  end
  local jids = call(
    'ZRANGEBYSCORE',
    locks,
    '-inf',
    modules.NumberFormat.now(),
    'LIMIT',
    '0',
    count + (scope.live and LOOKED or 0)
  )
  local grace = modules.Config.number('grace-period')
  for _, jid in ipairs(jids) do
    if #freed == count or modules.Exhausted.is_enough() then
      break
    end
    if expire(jid, queue, locks, grace) then
      freed[#freed + 1] = jid
    end
  end
  return freed
end

local RUNNABLE = { waiting = true, stalled = true, running = true }

-- Jobs that have missed their deadlines and were found by this call; it finds so many at most.
local MOST_LATE = 1000

local function late()
  return scope.late or 0
end

local FEW_HAVE = {
  'deadline',
  'unique',
  'spawners',
  'limit_key',
  'fair_by',
  'called',
  'holds',
  'entity',
  'batch',
}

-- What few jobs have to be asked before they start. -> whether they may; if not, and it is too late for that, what
-- is to become of it; if not, and nothing else, it stays in its queue: a limit holds it back, or the call hands out
-- enough of entities. `score` is that in the work, and of its record some is known. If it may, the entity
-- that it carries, and how many may run together.
local function may_start(jid, queue, klass, score, expires, reserved, state, priority, time, rare)
  local texts = call('HMGET', key.job(jid), unpack(FEW_HAVE))
  local field, text = modules.Record.first_bad(FEW_HAVE, texts)
  local deadline, unique, _, limit_key, fair_by, called, holds, entity, batch = unpack(texts)
  if field or (deadline and modules.Record.read('deadline', deadline) <= scope.now) then
    return false, { jid = jid, state = state, bad = field, text = text }
  end
  if entity and modules.EntityRun.stays(jid, queue, state, priority, time, reserved) then
    return false
  end
  if limit_key or fair_by or called or modules.LimitSettings.exist() then
    local job = { limit_key = limit_key, fair_by = fair_by, called = called }
    job.rare, job.state, job.priority, job.holds = rare, state, priority, holds
    if not modules.Limits.admit(jid, queue, klass or '', job, score, expires) then
      return false
    end
  end
  modules.Unique.started(jid, unique)
  return true, nil, entity, batch
end

-- Why a job that was met among those to be handed out cannot be: the name and the text of a field. Nothing
-- if it has no record, or has ended.
local function unreadable(jid)
  local texts = call('HMGET', key.job(jid), unpack(JUDGED))
  local state = texts[1]
  if state and modules.Record.is_state(state) then
    if not RUNNABLE[state] then
      return nil
    end
    for n = 2, NEEDED + 1 do
      texts[n] = texts[n] or ''
    end
    return modules.Record.first_bad(JUDGED, texts)
  elseif
    state
    or call('HEXISTS', key.job(jid), 'klass') == 1
    or call('HEXISTS', key.job(jid), 'data') == 1
  then
    return 'state', state or ''
  end
end

-- What a worker is told of a job, in the order of Reserved in the client.
local function told(jid, queue, klass, data, token, retries, remaining, priority, tags, context, expires)
  return {
    jid,
    queue,
    klass or '',
    data or '',
    token or '',
    retries or '',
    remaining or '',
    priority or '',
    tags or '',
    context or '',
    expires or '',
  }
end

local TOLD =
  { 'queue', 'klass', 'data', 'token', 'retries', 'remaining', 'priority', 'tags', 'context', 'expires' }

-- The same of a job that was handed out before. `batch` is for an entity.
function Pop.told(jid, entity, batch)
  local its = told(jid, modules.Hash.values(key.job(jid), unpack(TOLD)))
  if entity then
    its[4], its[12] = modules.EntityRun.data(jid, entity, its[4]), batch or '1'
  end
  return its
end

-- The same, if the job still runs with this token; nil if not.
function Pop.told_again(jid, token)
  local state, its_token, entity, batch = modules.Hash.values(key.job(jid), 'state', 'token', 'entity', 'batch')
  return state == 'running' and its_token == token and Pop.told(jid, entity, batch) or nil
end

-- Writes that the job was given to the worker, until `expires`. -> its token, if it has one
local function start(jid, queue, worker, expires, since, reserved, put)
  local name, time = key.job(jid), modules.NumberFormat.time()
  local unwritten = modules.History.popped(jid, worker, put)
  if not reserved then
    modules.Samples.add('wait', queue, scope.now - since)
  end
  if not scope.live then
    call('HSET', name, 'state', 'running', 'worker', worker, 'expires', expires, 'time', time)
    return nil -- without calls with KEYS there are no tokens
  end
  local token, waited = modules.Clock.draw(), reserved and modules.Samples.waited(since) or ''
  call(
    'HSET',
    name,
    'state',
    'running',
    'worker',
    worker,
    'expires',
    expires,
    'time',
    time,
    'token',
    token,
    'waited',
    waited,
    'put',
    unwritten
  )
  return token
end

-- How many entities may run together with this one. -> the same, as its worker is told
local function note_batch(batch)
  local number = tonumber(batch) or 1
  scope.batch = number > 1 and number or nil
  return batch or '1'
end

-- Hands one job over, if its record says that it may run. (`limited`: there are limits.) -> whether it was; what is to
-- become of it if it is to fail
local function hand_one(jid, queue, worker, expires, visit, reserved, score, limited)
  local klass, data, retries, remaining, priority, tags, context, time, state, rare, put = modules.Hash.values(
    key.job(jid),
    'klass',
    'data',
    'retries',
    'remaining',
    'priority',
    'tags',
    'context',
    'time',
    'state',
    'rare',
    'put'
  )
  local since = RUNNABLE[state]
    and modules.Record.ready_time(retries, remaining, priority, tags, context, time, scope.now)
  if not since then
    local field, text = unreadable(jid)
    return false, field and { jid = jid, state = state, bad = field, text = text }
  end
  local entity, batch
  if rare == '1' or limited then
    local may, to_fail
    may, to_fail, entity, batch =
      may_start(jid, queue, klass, score, expires, reserved, state, priority, time, rare)
    if not may then
      return false, to_fail
    end
    data = entity and modules.EntityRun.take(jid, entity, data) or data
  end
  local token = start(jid, queue, worker, expires, since, reserved, put)
  local its = reserved
    and told(jid, queue, klass, data, token, retries, remaining, priority, tags, context, expires)
  if entity then
    its[12] = note_batch(batch)
  end
  visit(jid, token, its)
  return true
end

-- Hands over the jobs whose records say that they may run; others are dropped. `visit` sees each: its jid, its token,
-- and what its worker is told of it if the jobs are `reserved`, so that it may start them later and will say when;
-- else they count as started. `popped` has them with their scores in the work. -> how many; those that are to fail,
-- or nil
local function hand_over(queue, worker, jids, visit, reserved, popped)
  local heartbeat = modules.Config.heartbeat(queue)
  local expires, tracked, taken, failing = modules.NumberFormat.later(heartbeat), modules.Tracking.among(jids), {}, nil
  local limited = modules.LimitSettings.exist()
  for n = 1, #jids do
    local jid = jids[n]
    local score = popped and popped[2 * n]
    local handed, to_fail = hand_one(jid, queue, worker, expires, visit, reserved, score, limited)
    if handed then
      taken[#taken + 1] = jid
      if tracked[jid] then
        modules.Events.tracked('popped', jid)
      end
    elseif to_fail then
      failing = failing or {}
      failing[#failing + 1] = to_fail
    end
  end
  modules.SortedSet.add(key.held(worker), expires, taken)
  modules.SortedSet.add(key.place(queue, 'locks'), expires, taken)
  if scope.entities then
    modules.EntityRun.taken(queue)
  end
  if #taken > 0 then
    modules.Wake.locked(queue, heartbeat)
  end
  return #taken, failing
end

-- (Or cannot be read.) Only when the others have left their places: what depends on these may become ready.
local function fail_all_late(queue, too_late)
  for _, job in ipairs(too_late) do
    scope.late = late() + 1
    if job.bad then
      modules.CorruptJobs.fail(job.jid, job.bad, job.text, queue)
    else
      local words = 'Its turn came %s seconds after the time when it expired'
      modules.Deadline.fail(job.jid, queue, job.state, words)
    end
  end
end

-- Takes up to `count` jobs off the top of the work. -> how many
local function take_work(queue, worker, count, visit, reserved)
  local work, taken = key.place(queue, 'work'), 0
  while taken < count and late() < MOST_LATE and modules.LimitSettings.left() > 0 and not scope.full do
    local popped, jids = call('ZPOPMAX', work, text_of(math.min(count - taken, modules.LimitSettings.left()))), {}
    if #popped == 0 then
      break
    end
    for n = 1, #popped, 2 do -- each with its score behind it
      jids[#jids + 1] = popped[n]
    end
    local handed, too_late = hand_over(queue, worker, jids, visit, reserved, popped)
    taken = taken + handed
    if too_late then
      fail_all_late(queue, too_late)
    end
  end
  if (late() >= MOST_LATE or modules.LimitSettings.left() <= 0) and taken < count then
    modules.Wake.ready(queue, 1) -- There may be more behind them: a worker has to look again.
  end
  return taken
end

-- How many of `count` jobs the queue may still hand out.
local function allowed(queue, count)
  local limit = modules.Config.concurrency(queue)
  if modules.LimitSettings.exist() then
    count = math.min(count, (modules.Limits.room_of_queue(queue)))
  end
  if limit > 0 then
    local running = call('ZCOUNT', key.place(queue, 'locks'), modules.NumberFormat.now(), '+inf')
    return math.min(count, math.max(0, limit - running))
  end
  return count
end

-- Has the time of something in this place come? Mostly not, and this is cheaper to ask.
local function is_due(queue, place)
  local name = key.place(queue, place)
  return not modules.ExistenceCache.is_absent(name) and call('ZCOUNT', name, '-inf', modules.NumberFormat.now()) > 0
end

-- Have cron schedules put jobs that nobody has been offered?
local function has_ticks(queue)
  local name = key.place(queue, 'ticks')
  return not modules.ExistenceCache.is_absent(name) and call('EXISTS', name) == 1
end

-- So many of those that fell due come into the work before one is chosen, those that have been due longest, however
-- few are taken: among them priorities count. (Without KEYS as many as are taken.)
Pop.most_due = modules.Arguments.most

-- The same with those that have just fallen due. (In the place of those that turn out to be too late others are
-- looked for, as long as one call may.)
local function take_ready(queue, worker, count, visit, reserved)
  local taken, before = 0
  if scope.live and has_ticks(queue) then
    modules.Ticks.serve(queue)
  end
  repeat
    before = late()
    local most = math.max(count - taken, Pop.most_due)
    if is_due(queue, 'recur') then
      modules.Recurring.spawn_due(queue, most)
    end
    if is_due(queue, 'scheduled') then
      modules.Queue.move_due(queue, most)
    end
    taken = taken + take_work(queue, worker, count - taken, visit, reserved)
  until taken == count or late() == before or late() >= MOST_LATE
  return taken
end

-- Hands up to `count` jobs of a queue to a worker; see hand_over. -> how many (of entities that run together: how
-- many runs)
function Pop.take(queue, worker, count, visit, reserved)
  local limited = modules.LimitSettings.exist()
  if limited then
    modules.Limits.look(queue)
  end
  count = allowed(queue, count)
  if count <= 0 then
    return 0
  end
  local taken = 0
  local freed = expired(queue, count)
  if #freed > 0 then
    local too_late
    taken, too_late = hand_over(queue, worker, freed, visit, reserved)
    if too_late then
      fail_all_late(queue, too_late)
    end
  end
  if taken < count then
    taken = taken + take_ready(queue, worker, count - taken, visit, reserved)
  end
  if scope.entities then
    local further = allowed(queue, modules.EntityRun.further(taken))
    if further > 0 then
      take_ready(queue, worker, further, visit, reserved)
    end
    scope.batch, scope.full = nil, nil
  end
  if limited then
    modules.Limits.count_of_queue(queue, taken)
  end
  if taken > 0 and scope.live then
    modules.Wake.taken(queue)
  end
  return taken
end

function Pop.is_paused(queue)
  local name = key.paused_queues()
  return not modules.ExistenceCache.is_absent(name) and call('SISMEMBER', name, queue) == 1
end

-- pop queue worker count
function Pop.pop(args, i)
  local queue = modules.Arguments.real_name('pop', 'queue', args[i])
  local worker = modules.Arguments.real_name('pop', 'worker', args[i + 1])
  local count = modules.Arguments.count('pop', modules.Arguments.given('pop', 'count', args[i + 2]))
  if Pop.is_paused(queue) then
    return '{}'
  end
  call('ZADD', key.workers(), scope.now, worker)
  modules.Dependencies.carry_on()
  local jids = {}
  Pop.take(queue, worker, count, function(jid)
    jids[#jids + 1] = jid
  end)
  modules.Replies.shorten('pop', jids)
  return modules.Job.show_all(jids)
end
end
elseif module_name == 'Put' then
return function()
local Put = {
look = 0, prepare = 0, put = 0, requeue = 0
}
modules.Put = Put
-- put.lua
-- Putting a job: a new one, or an old one again (which moves or revives it).

-- A job that has ended takes the key that it had again, or is refused if another one has it.
local function want_key(job)
  local field = job.old.more.unique
  if field and not job.unique and (job.old.state == 'failed' or job.old.state == 'complete') then
    job.keys, job.unique_field, job.regains = modules.Unique.keys(field), field, true
    job.unique = job.keys[1]
  end
end

-- Reads the old record: an existing job may be left alone, as those are that the job `how.spawner` has spawned before.
function Put.look(job, how)
  if job.old == nil then
    -- Mostly there is none, no record of a canceled one, and nothing is tracked: that is quickly asked.
    local canceled, tracked = key.canceled_job(job.jid), key.tracked()
    local is_new = call('EXISTS', key.job(job.jid), canceled, tracked) == 0
    if is_new then
      modules.ExistenceCache.note({ tracked })
    end
    job.old = not is_new and modules.PutStore.read_old(job.jid)
    job.was_canceled = not is_new and call('EXISTS', canceled) == 1
  end
  job.left_alone = job.old
    and (job.absent == '1' or (how and how.since and modules.Spawned.is_known(how.spawner, how.since, job.old)))
  if job.old and job.old.more.entity and not job.entity and not job.left_alone then
    modules.Entity.refuse_put(job.jid)
  elseif job.old and not job.left_alone then
    want_key(job)
  end
end

-- Settles what may still be refused. `how` is that of plan.
function Put.prepare(command, job, coming, planned, how)
  if job.fresh or job.behind then
    job.replacing = true
    job.depends = job.depends or {}
  end
  if job.depends and #job.depends > 0 then
    job.replacing, job.needs = true, job.depends
    if job.met then
      job.depends = modules.Dependencies.without_met(job.depends, job.met, coming)
    end
    job.depends, job.beyond =
      modules.Dependencies.open(command, job.depends, coming, job.on_failure, how, job.old and job.jid)
    job.rare = job.rare or job.beyond
  end
  if job.behind then
    job.depends[#job.depends + 1] = job.behind
  end
  if not job.replacing or (how and how.acyclic and not planned) then
    return
  end
  if planned then
    planned[job.jid] = job.depends
  end
  if job.old or planned then
    modules.CycleDetection.refuse(command, job.jid, job.depends, planned)
    return
  end
  modules.CycleDetection.refuse_self(command, job.jid, job.depends)
end

local function one(command, args, i)
  modules.Arguments.asking(command, args[i])
  if (#args - i - 5) % 2 ~= 0 and #args > i + 5 then
    modules.Errors.argument(command, 'Odd number of additional args')
  end
  local job = modules.PutOptions.parse(command, args, i + 1, i + 6, #args)
  if job.spare then
    modules.Errors.argument(command, 'spare can only be used in a batch')
  end
  Put.look(job)
  if not job.old and command == 'requeue' then
    modules.Errors.no_job('requeue', job.jid)
  end
  if job.left_alone then
    return job
  end
  job.goes_on = command == 'requeue'
  if job.unique then
    modules.Conflict.settle(command, job, nil, {})
  end
  if not job.instead then
    Put.prepare(command, job)
  end
  return job
end

local function put_one(command, args, i)
  local job = one(command, args, i)
  if job.left_alone then
    return false
  elseif job.instead then
    return job.instead
  end
  modules.PutStore.store(job, args[i], modules.Tracking.is_tracked(job.jid))
  modules.Minutes.count(job.queue, 'put', 1)
  modules.Places.register(job.queue)
  return job.jid
end

-- put worker queue jid klass data delay [pairs] -> the jid that stands for the job
function Put.put(args, i)
  return put_one('put', args, i)
end

-- requeue worker queue jid klass data delay [pairs]
function Put.requeue(args, i)
  return put_one('requeue', args, i)
end
end
elseif module_name == 'PutOptions' then
return function()
local PutOptions = {
known = 0, parse = 0
}
modules.PutOptions = PutOptions
-- put_options.lua
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
      modules.Errors.argument(command, name .. ' must have 1 to 255 bytes, not ' .. #text)
    end
  end
end

-- (`since` is when the tick was of a job that recurs: what is counted from the put is counted from then.)
local function check_rare(command, job)
  if job.on_failure then
    local policy = POLICIES[job.on_failure]
    if not policy then
      modules.Errors.argument(
        command,
        'on_failure must be block, cancel or run, not ' .. modules.Errors.value(job.on_failure)
      )
    end
    job.on_failure = policy
  end
  if job.since then
    job.since = math.min(modules.Arguments.number(command, 'since', job.since), scope.now)
    job.delay = math.max(0, job.delay - (scope.now - job.since))
  end
  if job.at then
    if job.delay ~= 0 then
      modules.Errors.argument(command, 'at says when the job is due: delay must be 0 with it')
    end
    local at = modules.Arguments.number(command, 'at', job.at)
    job.at, job.delay = at > scope.now and at or nil, math.max(0, at - scope.now)
  end
  job.met = job.met and modules.Dependencies.set_of(modules.Arguments.names(command, 'met', job.met))
  modules.Unique.check(command, job)
  check_keys(command, job)
  if job.expires_at then
    if job.expires then
      modules.Errors.argument(command, 'expires and expires_at exclude each other')
    end
    job.deadline = modules.Arguments.number(command, 'expires_at', job.expires_at)
  elseif job.expires then
    job.deadline = (job.since or scope.now) + modules.Arguments.number(command, 'expires', job.expires)
  end
  if job.workflow then
    if job.workflow == '' or #job.workflow > 255 then
      modules.Errors.argument(command, 'workflow must have 1 to 255 bytes, not ' .. #job.workflow)
    end
    modules.Workflow.check(command, job.workflow)
  end
end

local function check_common(command, job)
  if job.priority then
    job.priority = modules.Arguments.number(command, 'priority', job.priority)
  end
  if job.retries then
    job.retries = modules.Arguments.whole(command, 'retries', job.retries, 0)
  end
  job.tags = job.tags and modules.Arguments.tag_list(command, job.tags)
  job.depends = job.depends and modules.Arguments.names(command, 'depends', job.depends)
  if job.depends then
    modules.Arguments.bounded(command, #job.depends)
    -- (It may be complete or not there yet: then its dependency on itself would seem to be satisfied.)
    modules.CycleDetection.refuse_self(command, job.jid, job.depends)
  end
  if job.context then
    modules.Arguments.object(command, 'context', job.context)
  end
end

-- Checks one job's arguments from args[i] on; options stand at args[from .. to].
function PutOptions.parse(command, args, i, from, to)
  local job = {
    queue = modules.Arguments.queue(command, args[i]),
    jid = modules.Arguments.jid(command, args[i + 1]),
    klass = modules.Arguments.given(command, 'klass', args[i + 2]),
    data = args[i + 3],
    delay = modules.Arguments.number(command, 'delay', args[i + 4]),
    priority = nil,
    retries = nil,
    tags_text = '{}',
  }
  modules.Arguments.json(command, 'data', job.data)
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
      modules.Arguments.unknown(command, name)
    end
  end
  check_common(command, job)
  if rare then
    job.rare = true
    check_rare(command, job)
  end
  return job
end
end
elseif module_name == 'Rates' then
return function()
local Rates = {
room = 0, count = 0, opens = 0, used = 0, uncount = 0, last = 0, last_of_buckets = 0
}
modules.Rates = Rates
-- limits/rates.lua
-- Rates: how many starts the window behind us leaves room for.
-- Up to EXACT starts a window each is kept with its time, so that no window of that length ever holds more. Above
-- that starts are counted in buckets of a hundredth of the window, and one bucket more than a window is looked
-- at: never too many, and at most two hundredths too few. What a rate kept in the other way before it was changed
-- counts as well.
-- The clock may be set back. Who asks next finds starts that are yet to come: they count as started now. So there are
-- never too many, and no job waits longer than a window from then on.

local format, floor = string.format, math.floor

local EXACT, BUCKETS = 10000, 100

-- Beside the window itself: what is kept goes by itself when no job has started for so long.
local KEPT = 60

-- Starts are as exact as this.
local TICK = 1e-6

-- Stands among the buckets: the rate under which the last start was counted.
local RATE = 'rate'

local function text(number)
  return format('%.17g', number)
end

local function keep(name, rate)
  call('PEXPIRE', name, format('%.0f', (rate.per + KEPT) * 1000))
end

-- A rate as what is counted under it remembers it.
local function words(rate)
  return format('%d/%s', rate.count, text(rate.per))
end

-- The rate that these words stand for.
local function rate_of(of)
  local count, per = string.match(of or '', '^(%d+)/([%d.e+-]+)$')
  return tonumber(per) and { count = tonumber(count), per = tonumber(per) }
end

-- Forgets starts that are out of the window, and sets back those that are yet to come, a bounded number at a time.
local function tidy_starts(starts, rate)
  call('ZREMRANGEBYSCORE', starts, '-inf', '(' .. text(scope.now - rate.per))
  local now = modules.NumberFormat.now()
  modules.SortedSet.add(starts, now, call('ZRANGEBYSCORE', starts, '(' .. now, '+inf', 'LIMIT', 0, modules.Arguments.most))
end

local function count_starts(starts, rate, n)
  local now, of, number = modules.NumberFormat.now(), words(rate), call('ZCARD', starts)
  for _ = 1, n do
    -- One that did not start may have gone from among those of the same time.
    repeat
      number = number + 1
    until call('ZADD', starts, 'NX', now, format('%s:%05d:%s', now, number, of)) == 1
  end
  keep(starts, rate)
end

-- A bucket is known by the time when it ends.
local function bucket_of(rate, time)
  local width = rate.per / BUCKETS
  return (floor(time / width) + 1) * width
end

local function present(rate)
  return bucket_of(rate, scope.now)
end

-- -> starts in the buckets that a window ends in, when the oldest of these ends, the buckets to be forgotten (out of
-- the window, or yet to come), and how many have started in those that are yet to come
local function read_buckets(buckets, rate)
  local last, sum, oldest, gone, early = present(rate), 0, nil, {}, 0
  for bucket, count in pairs(modules.Hash.all(buckets)) do
    local ends = tonumber(bucket)
    local is_early, is_out = ends and ends > last, ends and ends <= scope.now - rate.per
    if ends and not is_out then
      sum, oldest = sum + tonumber(count), math.min(oldest or last, ends)
    end
    if is_early then
      early = early + tonumber(count)
    end
    if is_early or is_out then
      gone[#gone + 1] = bucket
    end
  end
  return sum, oldest, gone, early
end

local function tidy_buckets(buckets, rate)
  local sum, oldest, gone, early = read_buckets(buckets, rate)
  if #gone > 0 then
    call('HDEL', buckets, unpack(gone))
  end
  if early > 0 then
    call('HINCRBY', buckets, text(present(rate)), early)
  end
  return sum, oldest
end

local function count_bucket(buckets, rate, n)
  call('HINCRBY', buckets, text(present(rate)), n)
  call('HSET', buckets, RATE, words(rate))
  keep(buckets, rate)
end

-- How many more may start under this rate; if none, when the next may.
function Rates.room(name, rate)
  local starts, buckets = key.limit_starts(name), key.limit_buckets(name)
  local in_buckets, ends = 0, nil
  if call('EXISTS', buckets) == 1 then
    in_buckets, ends = tidy_buckets(buckets, rate)
  end
  tidy_starts(starts, rate)
  local count = in_buckets + call('ZCARD', starts)
  if count < rate.count then
    return rate.count - count
  end
  if ends then
    return 0, Rates.opens(name, rate)
  end
  local nth = count - rate.count
  return 0, tonumber(call('ZRANGE', starts, nth, nth, 'WITHSCORES')[2]) + rate.per + TICK
end

-- So many start now.
function Rates.count(name, rate, n)
  if rate.count > EXACT then
    count_bucket(key.limit_buckets(name), rate, n)
  else
    count_starts(key.limit_starts(name), rate, n)
  end
end

-- When there is more room than now; nil if nothing has started lately.
function Rates.opens(name, rate)
  local _, ends = read_buckets(key.limit_buckets(name), rate)
  local _, start = modules.SortedSet.first(key.limit_starts(name))
  return (ends or start) and math.min(ends or math.huge, start or math.huge) + rate.per + TICK
end

-- How many have started in the window that ends now. (Writes nothing.)
function Rates.used(name, rate)
  local in_buckets = read_buckets(key.limit_buckets(name), rate)
  return in_buckets + call('ZCOUNT', key.limit_starts(name), text(scope.now - rate.per), '+inf')
end

-- A job that was handed out at this time did not start.
function Rates.uncount(name, time)
  local starts, buckets = key.limit_starts(name), key.limit_buckets(name)
  local start = call('ZRANGEBYSCORE', starts, text(time), text(time), 'LIMIT', 0, 1)[1]
  local rate = not start and rate_of(call('HGET', buckets, RATE))
  local bucket = rate and text(bucket_of(rate, time))
  if start then
    call('ZREM', starts, start)
  elseif bucket and (tonumber(call('HGET', buckets, bucket)) or 0) > 0 then
    call('HINCRBY', buckets, bucket, -1)
  end
end

-- The rate that the last start found, and how many have started in the window that it ended. nil if nothing has, or
-- the clock was set back since.
function Rates.last(name)
  local last, start = modules.SortedSet.last(key.limit_starts(name))
  local rate = rate_of(string.match(last, '^.*:(.*)$'))
  if rate and start <= scope.now then
    return rate, call('ZCOUNT', key.limit_starts(name), text(start - rate.per), text(start))
  end
end

-- The same of buckets: all that are kept were in the window of the last start.
function Rates.last_of_buckets(name)
  local sum, newest, rate = 0, -math.huge, nil
  for bucket, count in pairs(modules.Hash.all(key.limit_buckets(name))) do
    if bucket == RATE then
      rate = rate_of(count)
    else
      sum, newest = sum + tonumber(count), math.max(newest, tonumber(bucket))
    end
  end
  if rate and newest <= present(rate) then
    return rate, sum
  end
end
end
elseif module_name == 'Recurring' then
return function()
local Recurring = {
last_child = 0, recur = 0, get = 0, update = 0, tag = 0, untag = 0, unrecur = 0, spawn_due = 0
}
modules.Recurring = Recurring
-- schedules/recurring.lua
-- Recurring jobs: templates, and the jobs they spawn when their time comes.

local format, floor = string.format, math.floor

local OPTIONS = { priority = true, tags = true, retries = true, backlog = true }

local function interval_of(command, value)
  local interval = modules.Arguments.number(command, 'interval', value)
  if interval <= 0 then
    modules.Errors.argument(command, 'interval must be greater than 0, not ' .. modules.Errors.value(value))
  end
  return interval
end

-- The last number a template of this jid may have given away: children are never overwritten.
function Recurring.last_child(jid)
  local last = 0
  while call('EXISTS', key.job(jid .. '-' .. format('%.0f', last + 1))) == 1 and last < 2 ^ 30 do
    last = last == 0 and 1 or last * 2
  end
  return last
end

-- recur queue jid klass data interval <interval> <offset> [pairs]
function Recurring.recur(args, i)
  local queue = modules.Arguments.queue('recur', args[i])
  local jid = modules.Arguments.jid('recur', args[i + 1])
  local klass = modules.Arguments.given('recur', 'klass', args[i + 2])
  local data = args[i + 3]
  modules.Arguments.json('recur', 'data', data)
  if args[i + 4] ~= 'interval' then
    modules.Errors.argument('recur', 'schedule type "interval" wanted, not ' .. modules.Errors.value(args[i + 4]))
  end
  local interval = interval_of('recur', args[i + 5])
  local offset = modules.Arguments.number('recur', 'offset', args[i + 6])
  local options = modules.Arguments.options('recur', args, i + 7, OPTIONS)
  local priority = modules.Arguments.number('recur', 'priority', options.priority or '0')
  local tags = modules.Arguments.tag_list('recur', options.tags or '[]')
  local retries = modules.Arguments.whole('recur', 'retries', options.retries or '0', 0)
  local backlog = modules.Arguments.number('recur', 'backlog', options.backlog or '0')

  local its_queue, count = modules.Hash.values(key.template(jid), 'queue', 'count')
  if its_queue then
    call('ZREM', key.place(its_queue, 'recur'), jid)
  end
  modules.Schedules.forget(jid)
  modules.Hash.write(key.template(jid), {
    jid = jid,
    klass = klass,
    data = data,
    priority = priority,
    tags = modules.Tags.text(tags),
    state = 'recur',
    queue = queue,
    type = 'interval',
    count = modules.Record.text('count', count) or Recurring.last_child(jid),
    interval = interval,
    retries = retries,
    backlog = backlog,
  })
  local due = scope.now + offset
  call('ZADD', key.place(queue, 'recur'), due, jid)
  modules.Wake.due(queue, due)
  modules.Places.register(queue)
  return jid
end

local function load(command, jid)
  modules.Arguments.name(command, 'jid', jid)
  local record = modules.Hash.all(key.template(jid))
  if not next(record) then
    modules.Errors.raise('NOJOB', command .. '(): Recurring job ' .. modules.Errors.name(jid) .. ' does not exist')
  end
  return record
end

-- recur.get jid
function Recurring.get(args, i)
  local jid = modules.Arguments.name('recur.get', 'jid', args[i])
  if call('EXISTS', key.template(jid)) == 0 then
    return nil
  end
  local record = load('recur.get', jid)
  return cjson.encode({
    jid = record.jid,
    klass = record.klass,
    state = record.state,
    queue = record.queue,
    priority = modules.Record.number(record.priority),
    interval = modules.Record.number(record.interval),
    retries = modules.Record.number(record.retries),
    count = modules.Record.number(record.count),
    data = record.data,
    tags = modules.Record.read('tags', record.tags, {}),
    backlog = modules.Record.number(record.backlog) or 0,
  })
end

-- What recur.update may change, and how a value is checked: as that of any schedule, if not said here.
local CHANGES = { priority = true, retries = true, data = true, klass = true, queue = true }

function CHANGES.interval(value)
  return interval_of('recur.update', value)
end

function CHANGES.backlog(value)
  return modules.Arguments.number('recur.update', 'backlog', value)
end

local function checked(name, value)
  local check = CHANGES[name]
  if not check then
    modules.Errors.argument('recur.update', 'Unrecognized option ' .. modules.Errors.name(name))
  end
  if check == true then
    return modules.Definition.check('recur.update', name, value)
  end
  return check(value)
end

-- A paused template is in no place, and its record says when it would go on.
local function move(record, jid, queue)
  modules.Places.register(queue)
  if record.paused then
    return
  end
  local old = key.place(record.queue or '', 'recur')
  local due = call('ZSCORE', old, jid)
  call('ZREM', old, jid)
  call('ZADD', key.place(queue, 'recur'), due or scope.now, jid)
  modules.Wake.due(queue, tonumber(due) or scope.now)
end

-- A changed interval shifts what comes next.
local function shift(record, jid, by)
  if record.paused then
    local paused = modules.Record.number(record.paused) or scope.now
    call('HSET', key.template(jid), 'paused', format('%.17g', paused + by))
    return
  end
  local due = call('ZINCRBY', key.place(record.queue or '', 'recur'), by, jid)
  modules.Wake.due(record.queue, tonumber(due))
end

-- recur.update jid key value ...
function Recurring.update(args, i)
  local jid = args[i]
  local record = load('recur.update', jid)
  local changes = {}
  for n = i + 1, #args, 2 do
    local name, value = args[n], args[n + 1]
    changes[#changes + 1] = { name = name, value = checked(name, value) }
  end
  for _, change in ipairs(changes) do
    local name, value = change.name, change.value
    if name == 'queue' then
      move(record, jid, value)
    elseif name == 'interval' then
      shift(record, jid, value - modules.Record.read('interval', record.interval, value))
    end
    record[name] = value
    call('HSET', key.template(jid), name, value)
  end
  return 1
end

local function retag(command, args, i, combine)
  local jid = args[i]
  local record = load(command, jid)
  local tags =
    modules.Arguments.few_tags(command, combine(modules.Record.read('tags', record.tags, {}), modules.Tags.rest(args, i + 1)))
  local text = modules.Tags.text(tags)
  call('HSET', key.template(jid), 'tags', text)
  return text
end

-- recur.tag jid tag...
function Recurring.tag(args, i)
  return retag('recur.tag', args, i, modules.Tags.with)
end

-- recur.untag jid tag...
function Recurring.untag(args, i)
  return retag('recur.untag', args, i, modules.Tags.without)
end

-- unrecur jid
function Recurring.unrecur(args, i)
  local jid = modules.Arguments.name('unrecur', 'jid', args[i])
  local queue = call('HGET', key.template(jid), 'queue')
  if queue then
    call('ZREM', key.place(queue, 'recur'), jid)
    call('DEL', key.template(jid))
    modules.Schedules.forget(jid)
  end
  return 1
end

-- Spawns what is due of a template without a policy for missed ticks, at most `wanted` jobs: each, or as many as
-- its backlog says. -> how many
local function spawn_each(record, due, wanted)
  local interval, backlog = modules.Record.number(record.interval), modules.Record.number(record.backlog) or 0
  local time, spawned = record.missed and due or floor(due), 0 -- qless drops the fraction
  if backlog > 0 then
    local missed = (scope.now - time) / interval
    if missed > backlog then
      -- (What is divided by very little is infinite.)
      time = math.min(time + math.ceil(missed - backlog) * interval, scope.now + interval)
    end
  end
  while time <= scope.now and spawned < wanted do
    modules.Ticks.put_next(record, time)
    spawned = spawned + 1
    time = time + interval
  end
  modules.Ticks.keep(record, time)
  return spawned
end

-- Spawns what is due of one template, at most `wanted` jobs. -> how many
local function spawn(queue, jid, due, wanted)
  local record = load('pop', jid)
  record.key, record.place = key.template(jid), key.place(queue, 'recur')
  local field, text = modules.Record.bad_schedule(record)
  if field then
    modules.Ticks.put_off(record, due, modules.Record.words(field, text))
    return 0
  elseif record.trouble then
    due = modules.Record.read('since', record.since, due)
    call('HDEL', record.key, 'trouble', 'since')
  end
  if not record.missed or record.missed == 'all' then
    return spawn_each(record, due, wanted)
  end
  local interval = modules.Record.number(record.interval)
  local last = due + floor((scope.now - due) / interval) * interval
  return modules.Ticks.carry_out(
    record,
    { first = due, following = due + interval, last = last, next = last + interval }
  )
end

-- Puts the jobs of a queue's templates that are due into its work, at most `wanted`.
function Recurring.spawn_due(queue, wanted)
  local name = key.place(queue, 'recur')
  local due = call('ZRANGEBYSCORE', name, '-inf', scope.now, 'WITHSCORES', 'LIMIT', 0, wanted)
  for n = 1, #due, 2 do
    if wanted <= 0 then
      return
    end
    if call('EXISTS', key.template(due[n])) == 1 then
      wanted = wanted - spawn(queue, due[n], tonumber(due[n + 1]), wanted)
    else
      call('ZREM', name, due[n])
    end
  end
end
end
elseif module_name == 'Replies' then
return function()
local Replies = {
shorten = 0, announce = 0, field = 0, recall = 0, kept = 0, tidy = 0
}
modules.Replies = Replies
-- replies.lua
-- Repeatable requests: a call whose reply was lost is sent again and gets the same reply.
--
-- The last reply of each client is a field of meta, which each call reads and writes anyhow: when the request was
-- made in whole seconds, its number, the reply packed.

local match, sub, floor = string.match, string.sub, math.floor

local SECONDS = 600 -- for which a reply is kept

-- Who adds a field looks at so many others, and takes away what is too old: so at most about a third is.
local LOOKED_AT = 3

-- What makes a reply again of what was kept in its place.
local REBUILD = {
  settle = function(kept)
    return modules.Settle.rebuild(kept)
  end,
  pop = function(jids)
    return modules.Job.show_all(jids)
  end,
}

-- A repeat needs no more than `value`, of which REBUILD makes the reply again.
function Replies.shorten(name, value)
  scope.short = { name, value }
end

-- Most replies are a jid or nothing; only the others need to be packed.
local function packed_reply(reply)
  if scope.short then
    return 'b' .. cmsgpack.pack(scope.short)
  elseif type(reply) == 'string' then
    return 's' .. reply
  elseif not reply then
    return 'n'
  end
  return 'm' .. cmsgpack.pack(reply)
end

local function unpacked(text)
  local kind, rest = sub(text, 1, 1), sub(text, 2)
  if kind == 'b' then
    local built = cmsgpack.unpack(rest)
    return REBUILD[built[1]](built[2])
  elseif kind == 's' then
    return rest
  elseif kind == 'm' then
    return cmsgpack.unpack(rest)
  end
  return false
end

-- Notes who sends a request (scope.client); '' is none.
function Replies.announce(request)
  if request == '' then
    return
  end
  local client, number = match(request, '^([%w_.~-]+):(%d+)$')
  if not client or #client > 128 then
    modules.Errors.raise('BADARG', 'request must be <client>:<number>, not ' .. modules.Errors.value(request))
  end
  scope.client, scope.number = client, number
end

-- The field of meta with the client's last reply.
function Replies.field()
  return 'reply:' .. (scope.client or '')
end

-- -> true and the earlier reply if this request was served before. `stored` is what stands in the field.
function Replies.recall(stored)
  if not stored then
    return false
  end
  local second, last, packed = match(stored, '^(%-?%d+) (%d+) (.*)$')
  local number = tonumber(scope.number)
  scope.answered = second
  if number > tonumber(last) then
    return false
  elseif number < tonumber(last) then
    local words = 'request %s:%s is older than the last one of its client, %s'
    modules.Errors.raise('STALE', string.format(words, scope.client, scope.number, last))
  end
  return true, unpacked(packed)
end

-- What is kept of a reply, in the client's field.
function Replies.kept(reply)
  return modules.NumberFormat.whole(floor(scope.now)) .. ' ' .. scope.number .. ' ' .. packed_reply(reply)
end

-- A field was added: takes away some of those that are too old, of all that there are.
function Replies.tidy()
  local name, old = key.meta(), {}
  local some = redis.pcall('HRANDFIELD', name, LOOKED_AT, 'WITHVALUES')
  for n = 1, #some, 2 do -- (nothing, where the user may not ask)
    local second = sub(some[n], 1, 6) == 'reply:' and match(some[n + 1], '^%-?%d+')
    if second and math.abs(scope.now - tonumber(second)) > SECONDS then
      old[#old + 1] = some[n]
    end
  end
  if #old > 0 then
    call('HDEL', name, unpack(old))
  end
end
end
elseif module_name == 'ResultWaiters' then
return function()
local ResultWaiters = {
ended = 0, ended_workflow = 0, finish = 0, await = 0
}
modules.ResultWaiters = ResultWaiters
-- result_waiters.lua
-- Waiting for jobs and workflows: a waiter blocks on a list that the end of the job feeds.

local match = string.match

local MOST = 1000 -- waiters told of one end; the others see it when they look again

-- Seconds for which an answer is kept for a waiter that may be gone.
local KEPT = 60

-- Seconds between the answer and the moment in which a client really blocks.
local MARGIN = 5

local LONGEST_WAIT = 24 * 3600 -- seconds; a client may ask again

-- What has ended in this call: scope.ended, in order.
local function note(target)
  scope.ended = scope.ended or {}
  scope.ended[#scope.ended + 1] = target
end

-- The job is complete, has failed, or is gone; called for those that are marked, as others are not
-- waited for.
function ResultWaiters.ended(jid)
  if scope.live then
    note('job:' .. jid)
  end
end

-- Nothing of the workflow goes on by itself.
function ResultWaiters.ended_workflow(id)
  note('workflow:' .. id)
end

local function tell(target)
  local name, since = key.awaiting(target), modules.Wake.since()
  local waiters = call('ZRANGEBYSCORE', name, since, '+inf', 'LIMIT', '0', MOST)
  for _, waiter in ipairs(waiters) do
    local list = key.ended(waiter)
    call('RPUSH', list, '1')
    call('EXPIRE', list, KEPT)
  end
  if #waiters < MOST then
    call('DEL', name)
  else
    call('ZREM', name, unpack(waiters))
  end
end

function ResultWaiters.finish()
  for first = 1, #scope.ended, MOST do
    local names, last = {}, math.min(first + MOST - 1, #scope.ended)
    for n = first, last do
      names[#names + 1] = key.awaiting(scope.ended[n])
    end
    if call('EXISTS', unpack(names)) > 0 then -- mostly none waits
      for n = first, last do
        tell(scope.ended[n])
      end
    end
  end
end

local function register(waiter, kind, id, seconds)
  if kind == 'job' then
    modules.JobEnd.mark(id)
  end
  local name, kept = key.awaiting(kind .. ':' .. id), math.ceil(seconds) + KEPT
  call('ZADD', name, string.format('%.6f', scope.now + seconds + MARGIN), waiter)
  call('ZREMRANGEBYSCORE', name, '-inf', modules.NumberFormat.now())
  -- Another waiter may wait longer.
  if call('TTL', name) < kept then
    call('EXPIRE', name, kept)
  end
end

local ENDED = { complete = true, failed = true, canceled = true }

local LOOK = {
  job = function(jid)
    return modules.Job.state_now(jid) or modules.Canceled.exists(jid) and 'canceled'
  end,
  workflow = function(id)
    return call('HGET', key.workflow(id), 'state')
  end,
}

-- The first of the others is waited for: what comes behind it is looked at when it has ended.
local function wait_for_first(reply, waiter, seconds, kind, args, first)
  for n = first, #args do
    local state = LOOK[kind](args[n]) or ''
    if state ~= '' and not ENDED[state] then
      register(waiter, kind, args[n], seconds)
      return reply
    end
    reply[#reply + 1] = state
  end
  call('DEL', reply[1])
  return reply
end

-- await waiter seconds job|workflow id... -> the key to block on for at most so many seconds, and
-- the states of the first of them, as far as they have ended; '' for what does not exist. The list
-- is fed when the next one ends. With 0 seconds: the states of all, without waiting.
function ResultWaiters.await(args, i)
  local waiter = modules.Arguments.given('await', 'waiter', args[i])
  if not match(waiter, '^[%w_.~-]+$') or #waiter > 128 then
    modules.Errors.argument(
      'await',
      'waiter must be 1 to 128 letters, digits and _ . ~ -, not %s',
      modules.Errors.value(waiter)
    )
  end
  local seconds = math.max(0, math.min(modules.Arguments.number('await', 'seconds', args[i + 1]), LONGEST_WAIT))
  local kind = args[i + 2]
  if not LOOK[kind or ''] then
    modules.Errors.argument('await', 'what to wait for must be job or workflow, not ' .. modules.Errors.value(kind))
  end
  modules.Arguments.given('await', 'id', args[i + 3])
  modules.Arguments.bounded('await', #args - i - 2)
  local reply = { key.ended(waiter) }
  if seconds > 0 then
    return wait_for_first(reply, waiter, seconds, kind, args, i + 3)
  end
  for n = i + 3, #args do
    reply[#reply + 1] = LOOK[kind](args[n]) or ''
  end
  return reply
end
end
elseif module_name == 'Revive' then
return function()
local Revive = {
unfail = 0, revive = 0
}
modules.Revive = Revive
-- revive.lua
-- Failed jobs enqueued again: those of a group, or those named.

-- Where the job becomes ready, it takes its place like one that is put, among those of its tenant.
local function make_ready(jid, queue, record)
  local job = { fair_by = record.fair_by, priority = modules.Record.read('priority', record.priority, 0) }
  if not (job.fair_by and modules.Turns.set_aside(jid, queue, job)) then
    modules.Places.work(jid, queue, job.priority)
  end
end

-- Puts a failed job, which is in no group any more, into a queue, with all of its retries.
local function revive(record, queue)
  local jid = record.jid
  queue = record.entity and record.home or queue
  modules.CorruptJobs.mend(record)
  local state = call('SCARD', key.dependencies(jid)) > 0 and 'depends' or 'waiting'
  modules.History.put(jid, queue)
  call(
    'HSET',
    key.job(jid),
    'state',
    state,
    'worker',
    '',
    'expires',
    0,
    'queue',
    queue,
    'remaining',
    record.retries or '5'
  )
  if scope.live then -- (Old clients count on from the start of the run that failed.)
    call('HSET', key.job(jid), 'time', string.format('%.20f', scope.now))
  end
  call('HDEL', key.job(jid), 'crashes', 'unknown')
  if state == 'depends' then
    modules.Places.depends(jid, queue)
  else
    make_ready(jid, queue, record)
  end
  modules.JobEnd.revived(jid, record, state)
end

-- Does nobody else have the unique key of the failed job by now?
local function may_go_on(record)
  return not modules.Unique.other(record.jid, record.unique)
end

-- Lets a failed job that may go on wait for what it waited for. -> whether it is still there: one that goes with a
-- job that has failed is cancelled, as a failed job
local function waits_again(record)
  modules.Deadline.link_again(record)
  return call('EXISTS', key.job(record.jid)) == 1
end

-- unfail queue group [count] -> how many. (Others take the places of those that have to stay.)
function Revive.unfail(args, i)
  local queue = modules.Arguments.queue('unfail', args[i])
  local group = modules.Arguments.given('unfail', 'group', args[i + 1])
  local count = modules.Arguments.count('unfail', args[i + 2], 25)
  local revived, left, looked = 0, {}, 0
  while count > 0 and looked < modules.Arguments.most do
    local jids, stay = call('LRANGE', key.group(group), -count, -1), 0
    call('LTRIM', key.group(group), 0, -#jids - 1)
    for n = #jids, 1, -1 do
      local record = modules.Job.read(jids[n])
      if record and record.state == 'failed' then
        if not may_go_on(record) then
          stay = stay + 1
          table.insert(left, 1, jids[n])
        elseif waits_again(record) then
          modules.Stats.mended(record.queue, modules.Record.read('failure', record.failure, {}).when or 0)
          revive(record, queue)
          revived = revived + 1
        end
      end
    end
    looked, count = looked + #jids, stay
  end
  modules.SortedSet.append(key.group(group), left)
  -- (A job that was cancelled has taken a group off that seemed to be empty.)
  call(call('EXISTS', key.group(group)) == 1 and 'SADD' or 'SREM', key.failures(), group)
  if revived > 0 then
    modules.Places.register(queue)
  end
  return revived
end

-- revive jid...: each into its own queue, quickest with the oldest of a group first; what has not
-- failed is left alone, and so is a job whose unique key another one has by now -> how many
function Revive.revive(args, i)
  modules.Arguments.bounded('revive', #args - i + 1)
  local revived = 0
  for n = i, #args do
    local record = modules.Job.read(modules.Arguments.given('revive', 'jid', args[n]))
    local is_failed = record and record.state == 'failed' and record.queue ~= ''
    if is_failed and may_go_on(record) and waits_again(record) then
      modules.Failures.remove(record.jid, record.queue, record.failure, true)
      revive(record, record.queue)
      modules.Places.register(record.queue)
      revived = revived + 1
    end
  end
  return revived
end
end
elseif module_name == 'Schedules' then
return function()
local Schedules = {
read = 0, set = 0, update = 0, pause = 0, resume = 0, run = 0, remove = 0, forget = 0
}
modules.Schedules = Schedules
-- schedules/schedules.lua
-- Schedules of both kinds: interval ones, which are recurring jobs' templates, and cron ones.
-- One id names one schedule. Here they are made, changed, paused and removed.

local format, ceil = string.format, math.ceil

local LONGEST_ID = 200 -- bytes: its jobs' ids are longer
local MOST_DECLARED = 1000

-- What a template has beyond what qless gives it.
local OURS = {
  'name',
  'owner',
  'missed',
  'context',
  'unique',
  'expires',
  'offset',
  'last',
  'paused',
  'edited',
  'declared',
  'trouble',
  'since',
}

local function unknown(command, id)
  modules.Errors.raise('NOSCHEDULE', command .. '(): Schedule ' .. modules.Errors.name(id) .. ' does not exist')
end

-- The key of a record, or nil if there is no such schedule.
local function name_of(id)
  if call('EXISTS', key.schedule(id)) == 1 then
    return key.schedule(id)
  elseif call('EXISTS', key.template(id)) == 1 then
    return key.template(id)
  end
end

-- The record of a schedule or nil. Its `due` is when it goes on, unless it is paused.
function Schedules.read(id)
  local name = name_of(id)
  if not name then
    return nil
  end
  local record = modules.Hash.all(name)
  record.jid, record.tags = id, record.tags or '{}'
  record.place = record.cron and key.schedules() or key.place(record.queue or '', 'recur')
  record.due = modules.Record.number(record.paused)
    or (record.trouble and not record.cron and modules.Record.number(record.since))
    or tonumber(call('ZSCORE', record.place, id) or scope.now)
  return record
end

local function must_read(command, id)
  return Schedules.read(modules.Arguments.given(command, 'id', id)) or unknown(command, id)
end

-- The first tick of an interval's rhythm after now.
local function after_now(due, interval)
  if due > scope.now then
    return due
  end
  local next = due + ceil((scope.now - due) / interval) * interval
  next = next > scope.now and next or next + interval
  return math.min(next, scope.now + interval) -- (what is divided by very little is infinite)
end

-- The same tick of an interval, or an earlier one of its rhythm if it is further ahead than a first tick can be: it
-- was computed before the server's clock was set back.
local function in_reach(due, interval, offset)
  local ahead = due - scope.now
  if ahead <= interval + (offset or 0) then
    return due
  end
  return math.max(scope.now + ahead % interval, scope.now) -- (what is divided by very little is infinite)
end

-- When a changed interval goes on: it keeps its rhythm, and what is due stays due.
local function next_of_interval(made, old)
  if not old or old.cron or (made.offset and made.offset ~= tonumber(old.offset)) then
    return scope.now + (made.offset or 0)
  end
  local before = modules.Record.read('interval', old.interval)
  if not before then
    return math.max(old.due, scope.now)
  end
  local due = made.force and in_reach(old.due, before, made.offset) or old.due
  if made.interval == before or due <= scope.now then
    return due
  end
  return after_now(due - before + made.interval, made.interval)
end

-- When a cron schedule goes on, and since when its ticks count if that is no tick itself: those
-- who know cron will look. A reset computes a tick that is yet to come again: the server's clock may have been
-- set back.
local function next_of_cron(made, old)
  local same = old and old.cron == made.cron and old.timezone == made.timezone
  if same and not (made.force and old.due > scope.now) then
    return old.due, old.since
  end
  return modules.Ticks.none_yet(scope.now), format('%.17g', scope.now)
end

-- Removes the record and all that refers to it.
local function drop(record)
  local id = record.jid
  call('ZREM', record.place, id)
  call('ZREM', key.place(record.queue or '', 'ticks'), id)
  call('DEL', record.cron and key.schedule(id) or key.template(id))
  call('ZREM', key.paused_schedules(), id)
  call('HDEL', key.declared_schedules(), id)
end

local FIELDS = {
  'queue',
  'klass',
  'data',
  'priority',
  'retries',
  'tags',
  'interval',
  'backlog',
  'offset',
  'cron',
  'timezone',
  'since',
  'count',
  'last',
  'name',
  'owner',
  'declared',
  'edited',
  'missed',
  'context',
  'unique',
  'expires',
  'paused',
}

local function put_in_place(record, due)
  call('ZADD', record.place, format('%.17g', due), record.jid)
  if record.cron then
    modules.Events.schedules(call('GET', key.ticker()))
  else
    modules.Wake.due(record.queue, due)
  end
end

-- Writes what has been checked, in place of the old record. None of it can fail.
local function store(made, old)
  local id, values = made.jid, {}
  local due
  if made.cron then
    due, made.since = next_of_cron(made, old)
    made.missed = made.missed or modules.Definition.defaults.missed -- an old client's template has none
  else
    due, made.since = next_of_interval(made, old), nil
    made.backlog = made.backlog or 0
  end
  made.place = made.cron and key.schedules() or key.place(made.queue, 'recur')
  made.count = old and modules.Record.text('count', old.count) or made.cron and 0 or modules.Recurring.last_child(id)
  made.last, made.paused =
    old and modules.Record.number(old.last) and old.last, old and old.paused and format('%.17g', due)
  if old then
    drop(old)
  end
  for _, field in ipairs(FIELDS) do
    if made[field] then
      values[#values + 1] = field
      values[#values + 1] = made[field]
    end
  end
  if made.cron then
    call('HSET', key.schedule(id), unpack(values))
  else
    call('HSET', key.template(id), 'jid', id, 'state', 'recur', 'type', 'interval', unpack(values))
  end
  if made.declared then
    call('HSET', key.declared_schedules(), id, made.declared)
  end
  if made.paused then
    call('ZADD', key.paused_schedules(), scope.now, id)
  else
    put_in_place(made, due)
  end
  modules.Places.register(made.queue)
end

-- Does a schedule stay as it is? Who declares leaves alone what is another's, or was edited.
local function stays(made, old)
  if not old or made.force then
    return nil
  elseif made.owner and ((old.owner or '') ~= made.owner or old.edited) then
    return 'kept'
  elseif made.declared and old.declared == made.declared then
    return 'same'
  end
end

local function refuse_too_many(made)
  if
    made.declared
    and call('HEXISTS', key.declared_schedules(), made.jid) == 0
    and call('HLEN', key.declared_schedules()) >= MOST_DECLARED
  then
    modules.Errors.raise('TOOBIG', 'schedule.set(): more than ' .. MOST_DECLARED .. ' declared schedules')
  end
end

-- What the code says of the jobs of a schedule that it has renamed, whatever else an operator has changed.
local OF_CODE = { 'klass', 'data', 'name', 'unique' }

-- The schedule has another id from now on, with all that is kept under it: its pause, its rhythm, what an operator has
-- changed.
local function rename(record, made)
  local old, id = record.jid, made.jid
  local from, to = key.template(old), key.template(id)
  if record.cron then
    from, to = key.schedule(old), key.schedule(id)
  end
  call('RENAMENX', from, to)
  for _, field in ipairs(OF_CODE) do
    if made[field] then
      call('HSET', to, field, made[field])
    else
      call('HDEL', to, field)
    end
  end
  if not record.cron then
    call('HSET', to, 'jid', id)
  end
  for _, place in ipairs({ record.place, key.paused_schedules() }) do
    local score = call('ZSCORE', place, old)
    if score then
      call('ZREM', place, old)
      call('ZADD', place, score, id)
    end
  end
  call('ZREM', key.place(record.queue or '', 'ticks'), old)
  if record.declared then
    call('HDEL', key.declared_schedules(), old)
    call('HSET', key.declared_schedules(), id, record.declared)
  end
  return Schedules.read(id)
end

-- The schedule of the same owner under a former id, or nil.
local function find_former(made)
  for _, id in ipairs(made.formerly or {}) do
    local former = Schedules.read(id)
    if former and (former.owner or '') == (made.owner or '') then
      return former
    end
  end
end

-- schedule.set id queue klass data [pairs] -> new, changed, same or kept
function Schedules.set(args, i)
  local id = modules.Arguments.jid('schedule.set', args[i])
  if #id > LONGEST_ID then
    modules.Errors.argument('schedule.set', 'id has ' .. #id .. ' bytes, at most ' .. LONGEST_ID)
  end
  local made = { jid = id }
  for n, field in ipairs({ 'queue', 'klass', 'data' }) do
    made[field] = modules.Definition.check('schedule.set', field, args[i + n])
  end
  local given =
    modules.Definition.lay_over('schedule.set', made, args, i + 4, { queue = true, klass = true, data = true })
  modules.Definition.settle_kind('schedule.set', made, given)
  for field, value in pairs(modules.Definition.defaults) do
    made[field] = made[field] or value
  end
  local old = Schedules.read(id)
  local former = not old and find_former(made)
  local reply = stays(made, old or former)
  if former then
    old = rename(former, made)
  elseif not reply then
    refuse_too_many(made)
  end
  if not reply then
    store(made, old)
    reply = old and 'changed' or 'new'
  end
  return reply
end

-- Nothing is made of a record that cannot be read.
local function refuse_unreadable(command, record, remedy)
  local field, text = modules.Record.bad_schedule(record)
  if field and field ~= 'count' then
    modules.Errors.raise(
      'STATE',
      '%s(): Schedule %s: %s%s',
      command,
      modules.Errors.name(record.jid),
      modules.Record.words(field, text),
      remedy
    )
  end
end

-- schedule.update id name value ...: an operator's changes
function Schedules.update(args, i)
  local old = must_read('schedule.update', args[i])
  local made = { jid = old.jid }
  for _, field in ipairs(FIELDS) do
    made[field] = old[field]
  end
  local given = modules.Definition.lay_over(
    'schedule.update',
    made,
    args,
    i + 1,
    { owner = true, declared = true, force = true, formerly = true }
  )
  modules.Definition.settle_kind('schedule.update', made, given)
  refuse_unreadable('schedule.update', made, ': give it anew')
  made.interval, made.offset = modules.Record.number(made.interval), modules.Record.number(made.offset)
  made.edited = made.owner and '1' or nil
  store(made, old)
end

-- Reads several schedules, all of which must exist.
local function read_all(command, args, i)
  modules.Arguments.given(command, 'id', args[i])
  modules.Arguments.bounded(command, #args - i + 1)
  local records, seen = {}, {}
  for n = i, #args do
    if not seen[args[n]] then
      seen[args[n]] = true
      records[#records + 1] = must_read(command, args[n])
    end
  end
  return records
end

local function record_name(record)
  return record.cron and key.schedule(record.jid) or key.template(record.jid)
end

-- schedule.pause id... -> how many were not paused
function Schedules.pause(args, i)
  local changed = 0
  for _, record in ipairs(read_all('schedule.pause', args, i)) do
    if not record.paused then
      call('ZREM', record.place, record.jid)
      call('HSET', record_name(record), 'paused', format('%.17g', record.due))
      call('ZADD', key.paused_schedules(), scope.now, record.jid)
      changed = changed + 1
    end
  end
  return changed
end

-- Goes on in its old rhythm; what fell due in the pause is no missed tick.
local function resume(record)
  local name, due = record_name(record), record.due
  if not record.cron then
    local interval = modules.Record.read('interval', record.interval)
    due = interval and after_now(due, interval) or scope.now
  elseif due <= scope.now then
    due = modules.Ticks.none_yet(scope.now)
    call('HSET', name, 'since', format('%.17g', scope.now))
  end
  call('HDEL', name, 'paused')
  call('ZREM', key.paused_schedules(), record.jid)
  put_in_place(record, due)
  if not record.cron then
    modules.Places.register(record.queue or '')
  end
end

-- schedule.resume id... -> how many were paused
function Schedules.resume(args, i)
  local changed = 0
  for _, record in ipairs(read_all('schedule.resume', args, i)) do
    if record.paused then
      resume(record)
      changed = changed + 1
    end
  end
  return changed
end

-- schedule.run id -> the jid of the job that is put now, outside the rhythm
function Schedules.run(args, i)
  local record = must_read('schedule.run', args[i])
  refuse_unreadable('schedule.run', record, '')
  if modules.Record.is_bad('count', record.count) then
    call('HSET', record_name(record), 'count', 0)
  end
  local child
  repeat
    child = record.jid .. '@run-' .. modules.Clock.draw()
  until call('EXISTS', key.job(child)) == 0
  modules.Ticks.put(record, child, scope.now)
  call('HINCRBY', record_name(record), 'count', 1)
  modules.Places.register(record.queue)
  return child
end

-- schedule.remove id... -> how many there were; the jobs that they have put stay
function Schedules.remove(args, i)
  modules.Arguments.given('schedule.remove', 'id', args[i])
  modules.Arguments.bounded('schedule.remove', #args - i + 1)
  local removed = 0
  for n = i, #args do
    local record = Schedules.read(args[n])
    if record then
      drop(record)
      removed = removed + 1
    end
  end
  return removed
end

-- Takes away what only calls with KEYS give: the template is replaced or removed.
function Schedules.forget(id)
  if scope.live then
    local queue = call('HGET', key.schedule(id), 'queue')
    if queue then
      call('ZREM', key.place(queue, 'ticks'), id)
    end
    call('ZREM', key.schedules(), id)
    call('DEL', key.schedule(id))
    call('ZREM', key.paused_schedules(), id)
    call('HDEL', key.declared_schedules(), id)
    call('HDEL', key.template(id), unpack(OURS))
  end
end
end
elseif module_name == 'Turns' then
return function()
local Turns = {
is_tenant = 0, next_of_tenant = 0, obstacle = 0, set_aside = 0, look = 0
}
modules.Turns = Turns
-- limits/turns.lua
-- Turns: the tenants of a queue one after the other (`fair_by`).
--
-- Of each tenant one job stands in the work of a queue; when it is taken the next one comes, behind those of
-- the other tenants that stand there.

local find = string.find

-- How many jobs of a tenant are tried, if another core has taken those that stand first.
local TRIED = 10

local function exact(time)
  return string.format('%.17g', time)
end

function Turns.is_tenant(name)
  return find(name, '^fair:') ~= nil
end

-- The tenant's next job comes to stand in the work.
function Turns.next_of_tenant(name)
  if call('EXISTS', key.limit_called(name)) == 1 then
    return
  end
  local list = call('ZREVRANGE', key.limit_aside(name), 0, TRIED - 1, 'WITHSCORES')
  for n = 1, #list, 2 do
    if modules.Limits.bring(list[n], name, list[n + 1], true) then
      return
    end
  end
end

-- The tenant for which another job stands in the work, so that this one waits for its turn; or nil. (Who was called
-- was in line already.)
function Turns.obstacle(queue, job, was_called)
  local tenant = job.fair_by and not was_called and modules.LimitSettings.of_tenant(queue, job.fair_by)
  if tenant and call('EXISTS', key.limit_called(tenant)) == 1 then
    return tenant
  end
end

-- A job becomes ready by its put: does it wait for its turn from the start? If not, it stands for its tenant.
function Turns.set_aside(jid, queue, job)
  local name = Turns.obstacle(queue, job, false)
  if name then
    modules.Limits.set_aside(jid, queue, name, exact(modules.Places.score(job.priority, scope.now)), nil, {})
    return true
  end
  modules.Limits.note_called(jid, {}, modules.LimitSettings.of_tenant(queue, job.fair_by), modules.NumberFormat.now())
  return false
end

-- Drops the job that stands in the work for its tenant if it has ended under another core.
local function heal_tenant(name)
  local jid = modules.SortedSet.first(key.limit_called(name))
  local queue = jid and call('HGET', key.job(jid), 'queue')
  if jid and not call('ZSCORE', key.place(queue or '', 'work'), jid) then
    call('ZREM', key.limit_called(name), jid)
  end
end

-- A job waits long for its turn: does it come?
function Turns.look(name)
  heal_tenant(name)
  Turns.next_of_tenant(name)
end
end
elseif module_name == 'Conflict' then
return function()
local Conflict = {
settle = 0
}
modules.Conflict = Conflict
-- conflict.lua
-- What becomes of a put whose unique key another job holds: that one stands for it, or is enqueued again as
-- this one, or this one waits behind it.

-- What is of the job itself; the rest belongs to the one whose place it takes.
local OWN = {
  jid = true,
  given = true,
  old = true,
  was_canceled = true,
  fresh = true,
  behind = true,
  first = true,
  spare = true,
}

-- The job takes the place of one that was to be put by the same call.
local function absorb(earlier, job)
  for name in pairs(earlier) do
    if not OWN[name] then
      earlier[name] = nil
    end
  end
  for name, value in pairs(job) do
    if not OWN[name] then
      earlier[name] = value
    end
  end
  earlier.fresh = true
  modules.Unique.push_back(earlier, earlier.first)
  job.instead = earlier.jid
end

-- The job takes the place of one that has not started: under its jid, but as if it were new.
local function replace(command, job, jid, coming)
  if coming and coming[jid] then
    modules.Errors.argument(
      command,
      'job %s would replace %s, which is in the same batch',
      modules.Errors.name(job.jid),
      modules.Errors.name(jid)
    )
  end
  local old = modules.PutStore.read_old(jid)
  job.given, job.jid, job.old, job.fresh = job.jid, jid, old, true
  job.was_canceled = nil
  modules.Unique.push_back(job, modules.Record.read('first', old.more.first))
  local behind = old.more.behind
  if behind and call('SISMEMBER', key.dependencies(jid), behind) == 1 then
    job.behind = behind
  end
  if coming then
    coming[job.given], coming[jid] = nil, job
  end
end

-- Who has the first of the job's keys that is held: another job of the same call; or nil, the jid of one that is
-- there already, and its state.
local function holder(job, taken)
  for _, text in ipairs(job.keys) do
    local earlier = taken[text]
    if earlier and earlier.jid ~= job.jid then
      return earlier
    end
    local jid, state = modules.Unique.in_force(text)
    if jid then
      return nil, jid, state
    end
  end
end

-- Looks whether another job holds a key of the job, and what follows. `taken` are the jobs of the
-- same call by key.
function Conflict.settle(command, job, coming, taken)
  local earlier, jid, state = holder(job, taken)
  if earlier then
    local answer = modules.Unique.answer(command, job, earlier.jid, 'waiting')
    if answer == 'replace' then
      absorb(earlier, job)
    elseif answer == 'keep' then
      job.instead = earlier.jid
    end
  else
    local answer = jid and jid ~= job.jid and modules.Unique.answer(command, job, jid, state)
    if jid == job.jid and job.old and modules.Unique.is_pending(state) then
      modules.Unique.push_back(job, modules.Record.read('first', job.old.more.first))
    elseif answer == 'keep' then
      job.instead, job.instead_gone = jid, not state
    elseif answer == 'replace' then
      replace(command, job, jid, coming)
    elseif answer == 'behind' then
      job.behind = jid
    end
  end
  if not job.instead then
    for _, text in ipairs(job.keys) do
      taken[text] = job
    end
  elseif coming then
    coming[job.jid] = nil
  end
end
end
elseif module_name == 'Dead' then
return function()
local Dead = {
add = 0, named = 0, back = 0, delete = 0
}
modules.Dead = Dead
-- entities/dead.lua
-- The dead of a queue: payloads that have failed for good, by entity, with the error.

local MOST = 250 -- entities named by one call

-- The fields of a job by which it can be made again.
local SAME = { 'klass', 'data', 'priority', 'retries', 'tags', 'context', 'batch', 'entity' }

-- Payloads (score, text …) of the entity with this record are dead from now on; they are moved by the caller.
function Dead.add(record, queue, group, message, flat)
  if not flat[1] then
    return
  end
  local jid = record.jid
  local fields =
    { 'jid', jid, 'queue', queue, 'group', group, 'message', message, 'when', modules.NumberFormat.now() }
  for _, name in ipairs(SAME) do
    local text = modules.Record.text(name, record[name])
    if text then
      fields[#fields + 1], fields[#fields + 2] = name, text
    end
  end
  call('DEL', key.dead_entity(jid))
  call('HSET', key.dead_entity(jid), unpack(fields))
  call('ZADD', key.dead(queue), modules.NumberFormat.now(), record.entity)
  call('ZADD', key.dead_ids(queue), 0, record.entity)
end

local function forget(jid, queue, entity)
  call('DEL', key.dead_entity(jid))
  call('ZREM', key.dead(queue), entity)
  call('ZREM', key.dead_ids(queue), entity)
end

-- queue entity... -> the queue, the entities
local function named(command, args, i)
  local queue = modules.Arguments.queue(command, args[i])
  if #args - i > MOST then
    modules.Errors.raise('TOOBIG', '%s(): %s entities in one call, at most %s', command, #args - i, MOST)
  end
  local entities = {}
  for n = i + 1, #args do
    entities[#entities + 1] = modules.Entity.id(command, args[n])
  end
  return queue, entities
end

Dead.named = named

-- Makes the entity run now: one that is in no place with a retry count of 0, one that waits as though it had
-- never failed. An earlier call may have brought a part of the dead back, and the entity still waits with that: the
-- count is then as that call has set it. -> the retries that remain to one that was in no place
local function run_now(queue, entity, jid, record)
  local state, remaining, retries = modules.Hash.values(key.job(jid), 'state', 'remaining', 'retries')
  if not state or state == 'complete' then
    record.queue, record.retries = queue, modules.Record.read('retries', record.retries, 0)
    record.priority, record.tags =
      modules.Record.read('priority', record.priority, 0), modules.Record.read('tags', record.tags)
    modules.EntityPush.enqueue(record, entity, jid, nil, '')
    remaining = math.max(0, record.retries - 1)
    call('HSET', key.job(jid), 'remaining', remaining)
    modules.Entity.unlisted(jid, queue)
    modules.Entity.listed(jid, queue, scope.now, remaining, record.retries)
    return remaining
  elseif state == 'waiting' or state == 'scheduled' or state == 'stalled' then
    if remaining ~= record.back then
      call('HSET', key.job(jid), 'remaining', modules.Record.text('retries', retries, '0'))
    end
    modules.EntityActions.run_now(jid, queue)
  end
end

-- dead.back queue entity... -> those that are dead no more: a call moves so many payloads, and leaves the rest
function Dead.back(args, i)
  local queue, entities = named('dead.back', args, i)
  local done, left, moved = {}, modules.Payloads.most, false
  for _, entity in ipairs(entities) do
    local jid = modules.Entity.jid(queue, entity)
    local record = modules.Hash.all(key.dead_entity(jid))
    if not record.entity then
      done[#done + 1] = entity
    elseif left > 0 and not modules.Entity.is_in_the_way(jid) then
      local flat = modules.Payloads.lowest(key.dead_payloads(jid), left, modules.Payloads.bytes * 8)
      left = left - #flat / 2
      local is_all = modules.Payloads.move_all(key.dead_payloads(jid), key.payloads(jid), flat)
      local remaining = run_now(queue, entity, jid, record)
      moved = true
      if is_all then
        forget(jid, queue, entity)
        done[#done + 1] = entity
      elseif remaining then
        call('HSET', key.dead_entity(jid), 'back', remaining)
      end
    end
  end
  if moved then
    modules.Places.register(queue)
  end
  return done
end

-- dead.delete queue entity... -> how many were dead
function Dead.delete(args, i)
  local queue, entities = named('dead.delete', args, i)
  local number = 0
  for _, entity in ipairs(entities) do
    local jid = modules.Entity.jid(queue, entity)
    number = number + call('EXISTS', key.dead_entity(jid))
    call('UNLINK', key.dead_payloads(jid))
    forget(jid, queue, entity)
  end
  return number
end
end
elseif module_name == 'Definition' then
return function()
local Definition = {
check = 0, defaults = 0, lay_over = 0, settle_kind = 0
}
modules.Definition = Definition
-- schedules/definition.lua
-- The definition of a schedule: its checks and its stored fields.

local LONGEST_TEXT = 255 -- bytes

local function short(what)
  return function(command, value)
    if #value > LONGEST_TEXT then
      modules.Errors.argument(command, what .. ' has ' .. #value .. ' bytes, at most ' .. LONGEST_TEXT)
    end
    return value
  end
end

local function number(what)
  return function(command, value)
    return modules.Arguments.number(command, what, value)
  end
end

-- How what a schedule is made of is checked, and what of it is stored; '' takes away what is optional.
local CHECKS = {
  queue = modules.Arguments.queue,
  klass = function(command, value)
    return modules.Arguments.given(command, 'klass', value)
  end,
  data = function(command, value)
    modules.Arguments.json(command, 'data', value)
    return value
  end,
  interval = function(command, value)
    local interval = modules.Arguments.number(command, 'interval', value)
    if interval < 1 then
      modules.Errors.argument(command, 'interval must be at least 1 second, not ' .. modules.Errors.value(value))
    end
    return interval
  end,
  offset = number('offset'),
  cron = short('cron'),
  timezone = short('timezone'),
  priority = number('priority'),
  retries = function(command, value)
    return modules.Arguments.whole(command, 'retries', value, 0)
  end,
  backlog = function(command, value)
    return modules.Arguments.whole(command, 'backlog', value, 0)
  end,
  tags = function(command, value)
    return modules.Tags.text(modules.Arguments.tag_list(command, value))
  end,
  missed = function(command, value)
    if not modules.Ticks.policies[value] then
      modules.Errors.argument(command, 'missed must be all, last or none, not ' .. modules.Errors.value(value))
    end
    return value
  end,
  context = function(command, value)
    if value ~= '' then
      modules.Arguments.object(command, 'context', value)
    end
    return value
  end,
  expires = function(command, value)
    return value == '' and value or modules.Arguments.number(command, 'expires', value)
  end,
  unique = short('unique'),
  name = short('name'),
  owner = short('owner'),
  declared = short('declared'),
}

-- One checked value.
function Definition.check(command, field, value)
  return CHECKS[field](command, value)
end

-- What is stored where nothing is given.
Definition.defaults = { priority = 0, retries = 5, tags = '{}', missed = 'last' }

-- What is said of a schedule and not stored.
local ALSO = { force = true, formerly = true }

-- Checks option pairs from args[i] on, and lays their values over `made`.
function Definition.lay_over(command, made, args, i, refused)
  if (#args - i + 1) % 2 ~= 0 then
    modules.Errors.argument(command, 'Odd number of additional args')
  end
  local given = {}
  for n = i, #args, 2 do
    local name, value = args[n], args[n + 1]
    if refused[name] or not (CHECKS[name] or ALSO[name]) then
      modules.Errors.argument(command, 'Unknown option ' .. modules.Errors.name(name))
    elseif name == 'force' then
      made.force = value == '1'
    elseif name == 'formerly' then
      made.formerly = modules.Arguments.names(command, 'formerly', value)
    else
      value = CHECKS[name](command, value)
      given[name] = true
      made[name] = value ~= '' and value or nil
    end
  end
  return given
end

-- An interval schedule has no cron, and the other way round.
function Definition.settle_kind(command, made, given)
  if given.interval and given.cron then
    modules.Errors.argument(command, 'either interval or cron wanted, not both')
  elseif given.cron then
    made.interval = nil
    made.backlog, made.offset = given.backlog and made.backlog, given.offset and made.offset
  elseif given.interval then
    made.cron, made.timezone = nil, given.timezone and made.timezone
  end
  if not made.interval and not made.cron then
    modules.Errors.argument(command, 'interval or cron wanted')
  elseif made.cron then
    if made.backlog or made.offset then
      modules.Errors.argument(command, 'backlog and offset belong to an interval, not to cron')
    end
    made.timezone = made.timezone or 'UTC'
  elseif made.timezone then
    modules.Errors.argument(command, 'timezone belongs to cron, not to an interval')
  end
end
end
elseif module_name == 'Headline' then
return function()
local Headline = {
of = 0
}
modules.Headline = Headline
-- headline.lua
-- The line of a failure's message that names the error.

local find, sub = string.find, string.sub

local MOST = 200 -- bytes

-- How Python's tracebacks begin, and what stands before each line of one: in those of groups, a frame
-- of lines.
local PLAIN, GROUP =
  'Traceback (most recent call last):\n', '  + Exception Group Traceback (most recent call last):\n'

-- Where the text behind the last line of this kind begins, or nil.
local function behind_last(message, line)
  local found
  if sub(message, 1, #line) == line then
    found = #line + 1
  end
  local _, to = find(message, '\n' .. line, 1, true)
  while to do
    found = to + 1
    _, to = find(message, '\n' .. line, to, true)
  end
  return found
end

-- The first line from there on that is no part of a stack: those are indented.
local function unindented(message, from, before)
  for line in string.gmatch(sub(message, from), '[^\n]+') do
    if sub(line, 1, #before) == before and find(line, '^%S', #before + 1) then
      return sub(line, #before + 1)
    end
  end
end

local function cut(line)
  if #line <= MOST then
    return line
  end
  local last = MOST
  while last > MOST - 3 and find(sub(line, last + 1, last + 1), '[\128-\191]') do
    last = last - 1
  end
  return sub(line, 1, last) .. '…'
end

-- How a message begins that is a traceback, or the end of one; or an exception that was never raised,
-- with the one that it is the cause of.
local TRACEBACKS = {
  '^Traceback %(most recent call last%):\n',
  '^  %+ Exception Group Traceback %(',
  '^%[the beginning is left out%]\n',
  '^[^\n]*\n\nThe above exception was the direct cause of the following exception:\n',
}

local function raised(message)
  for _, beginning in ipairs(TRACEBACKS) do
    if find(message, beginning) then
      local plain, group = behind_last(message, PLAIN), behind_last(message, GROUP)
      if group and group > (plain or 0) then
        return unindented(message, group, '  | ')
      end
      return unindented(message, plain or (find(message, '\n', 1, true) + 1), '')
    end
  end
end

-- What was raised at last, if the message is a traceback; else its first line.
function Headline.of(message)
  return cut(raised(message) or string.match(message, '[^\r\n]+') or '')
end
end
elseif module_name == 'Pause' then
return function()
local Pause = {
each_queue = 0, is_paused = 0, known = 0, pause = 0, pause_with = 0, unpause = 0
}
modules.Pause = Pause
-- pause.lua
-- Pausing queues: none of their jobs are handed out; and why, for people.

local REASON, BY = 500, 255 -- bytes

-- Those that clear away take the names of whatever there may be; the others check them first.
local function check_names(command, args, i)
  for n = i, #args do
    modules.Arguments.name(command, 'queue', args[n])
  end
end

-- Does it for each queue named, when all of the names are looked at.
function Pause.each_queue(command, args, i, act)
  modules.Arguments.given(command, 'queue', args[i])
  modules.Arguments.bounded(command, #args - i + 1)
  for n = i, #args do
    act(args[n])
  end
end

function Pause.is_paused(queue)
  return call('SISMEMBER', key.paused_queues(), queue) == 1
end

-- What is known of the pause of a paused queue: reason, by, at; or nil.
function Pause.known(queue)
  local text = call('HGET', key.paused_reasons(), queue)
  return modules.Record.read('meta', text)
end

-- -> whether the queue was not paused. What an earlier pause left behind (a foreign script has ended
-- that one) is not true of this one.
local function pause(queue)
  local new = call('SADD', key.paused_queues(), queue) == 1
  if new and scope.live then
    call('HDEL', key.paused_reasons(), queue)
  end
  return new
end

-- pause queue...
function Pause.pause(args, i)
  check_names('pause', args, i)
  Pause.each_queue('pause', args, i, pause)
end

local function short(what, text, most)
  modules.Arguments.given('queue.pause', what, text)
  if #text > most then
    modules.Errors.raise('TOOBIG', 'queue.pause(): ' .. what .. ' has ' .. #text .. ' bytes, at most ' .. most)
  end
  return text
end

-- queue.pause reason by queue...: a queue that is paused keeps its reason unless there is a new one
function Pause.pause_with(args, i)
  local reason, by = short('reason', args[i], REASON), short('by', args[i + 1], BY)
  check_names('queue.pause', args, i + 2)
  local text = cjson.encode({ reason = reason, by = by, at = scope.now })
  Pause.each_queue('queue.pause', args, i + 2, function(queue)
    if pause(queue) or reason ~= '' then
      call('HSET', key.paused_reasons(), queue, text)
    end
  end)
end

-- unpause queue...
function Pause.unpause(args, i)
  Pause.each_queue('unpause', args, i, function(queue)
    call('SREM', key.paused_queues(), queue)
    if scope.live then
      call('HDEL', key.paused_reasons(), queue)
    end
    modules.Wake.ready(queue, call('ZCARD', key.place(queue, 'work')))
    modules.Wake.due(queue, scope.now)
  end)
end
end
elseif module_name == 'PutMany' then
return function()
local PutMany = {
plan = 0, carry_out = 0, many = 0, once = 0
}
modules.PutMany = PutMany
-- put_many.lua
-- Putting many jobs in one call: all of them, or none.

-- The jobs of a batch: jid queue klass data delay k (name value)*k each. -> jobs, their jids, the jobs
-- by jid, and which options that concern others any of them has
local function parse_many(command, args, i)
  local jobs, jids, coming, has = {}, {}, {}, {}
  local total, n = #args, 0
  while i <= total do
    local pairs_given = modules.Arguments.whole(command, 'number of options', args[i + 5], 0)
    local last = i + 5 + 2 * pairs_given
    if last > total then
      modules.Errors.argument(command, 'Arguments of job ' .. modules.Errors.name(args[i]) .. ' are incomplete')
    end
    args[i], args[i + 1] = args[i + 1], args[i] -- a single put names the queue first
    local job = modules.PutOptions.parse(command, args, i, i + 6, last)
    if coming[job.jid] then
      modules.Errors.argument(command, 'jid ' .. modules.Errors.name(job.jid) .. ' twice in one batch')
    end
    coming[job.jid] = job
    has.unique = has.unique or job.unique
    has.depends = has.depends or job.depends
    has.spare = has.spare or job.spare
    n = n + 1
    jobs[n], jids[n] = job, job.jid
    i = last + 1
  end
  modules.Arguments.bounded(command, n)
  return jobs, jids, coming, has
end

-- Is none of the jobs there yet, and is there no canceled one at all? Mostly so, and then one question
-- answers for all. -> the first, and which of them were canceled (or nil)
local function all_new(jids)
  local names = { key.canceled() }
  for n, jid in ipairs(jids) do
    names[n + 1] = key.job(jid)
  end
  local found = #jids > 0 and call('EXISTS', unpack(names)) or 0
  if found == 0 then
    return true
  elseif found > 1 or call('EXISTS', names[1]) == 0 then
    return false
  end
  return true, modules.Canceled.among(jids)
end

-- Reads what there is of the jobs: some may be left alone. `how.once` is the key of the jids that were put before.
local function look_at_all(jobs, jids, coming, has, how)
  local once = how and how.once
  local fresh, canceled = all_new(jids)
  for n, job in ipairs(jobs) do
    if fresh then
      job.old, job.was_canceled = false, canceled and canceled[job.jid]
    end
    modules.Put.look(job, how)
    has.unique = has.unique or job.unique
    if job.left_alone or (once and call('SISMEMBER', once, jids[n]) == 1) then
      job.left_alone = true
      coming[job.jid] = nil
    end
  end
end

-- Which other job stands for a job. -> given jid -> the jid of the other, false if that is gone; or nil
local function resolve_duplicates(command, jobs, coming)
  local taken, stands = {}, nil
  for _, job in ipairs(jobs) do
    if job.unique and not job.left_alone then
      modules.Conflict.settle(command, job, coming, taken)
      if job.instead or job.given then
        stands = stands or {}
        stands[job.given or job.jid] = job.instead or job.jid
        if job.instead_gone then
          stands[job.jid] = false
        end
      end
    end
  end
  return stands
end

-- Dependencies on jobs that another one stands for are dependencies on the other one.
local function translate(job, stands)
  local depends, seen = {}, {}
  for _, jid in ipairs(job.depends or {}) do
    if stands[jid] ~= nil then
      jid = stands[jid]
    end
    if jid and not seen[jid] then
      seen[jid] = true
      depends[#depends + 1] = jid
    end
  end
  job.depends = job.depends and depends
end

-- Leaves out the spare jobs on which no job of the batch depends that is put.
local function leave_spare_ones(jobs, coming)
  local wanted = {}
  for n = #jobs, 1, -1 do
    local job = jobs[n]
    if coming[job.jid] == job then
      if job.spare == '1' and not wanted[job.jid] then
        job.left_alone, coming[job.jid] = true, nil
      else
        for _, jid in ipairs(job.depends or {}) do
          wanted[jid] = true
        end
      end
    elseif job.instead and job.spare ~= '1' then
      wanted[job.instead] = true
    end
  end
end

-- The dependencies of a batch, by jid, if they could make a cycle: jobs that are all new, and of
-- which each waits for earlier ones only, cannot.
local function links(jobs, coming)
  local planned, earlier, harmless = nil, {}, true
  for _, job in ipairs(jobs) do
    if coming[job.jid] == job then
      if job.depends and #job.depends > 0 then
        planned = planned or {}
        planned[job.jid] = job.depends
        for _, other in ipairs(job.depends) do
          harmless = harmless and (not coming[other] or earlier[other])
        end
      end
      harmless = harmless and not job.old
      earlier[job.jid] = true
    end
  end
  return not harmless and planned or nil
end

-- Checks a batch and writes nothing. `how` may say that jobs not there yet make no cycle (`acyclic`), that
-- unknown dependencies are satisfied (`lenient`), which count as open although there is no record (a
-- function `known`), for which others have come to stand before (a metatable `instead`), which job spawns these
-- (`spawner`; `since` when it has spawned others); `once`: see PutMany.once.
-- -> what carry_out wants
function PutMany.plan(command, args, i, how)
  how = how and setmetatable({}, { __index = how }) -- with what is noted on the way
  local jobs, jids, coming, has = parse_many(command, args, i)
  look_at_all(jobs, jids, coming, has, how)
  local stands = has.unique and resolve_duplicates(command, jobs, coming)
  if how and how.instead then
    stands = setmetatable(stands or {}, how.instead)
  end
  for n = 1, stands and #jobs or 0 do
    translate(jobs[n], stands)
  end
  if has.spare then
    leave_spare_ones(jobs, coming)
  end
  local planned = has.depends and links(jobs, coming) or nil
  for n = 1, (has.depends or has.unique) and #jobs or 0 do
    local job = jobs[n]
    if coming[job.jid] == job then
      modules.Put.prepare(command, job, coming, planned, how)
    end
  end
  return { jobs = jobs, jids = jids, coming = coming, how = how }
end

-- Collects jobs that are ready, to be placed together.
local function collector()
  local ready, scores = {}, modules.Places.scores()
  return ready,
    function(job)
      local queue, priority = job.queue, job.priority
      local list = ready[queue]
      if not list then
        list = {}
        ready[queue] = list
      end
      local n = #list
      list[n + 1], list[n + 2] = scores[priority], job.jid
    end
end

-- Puts the jobs of a plan; cannot fail. -> the jids left alone; given jid, jid that stands for it …
function PutMany.carry_out(plan, worker)
  local tracked, left, instead, counts = modules.Tracking.among(plan.jids), {}, {}, {}
  local ready, batch = collector()
  for n = 1, #plan.jobs do
    local job = plan.jobs[n]
    if job.left_alone then
      left[#left + 1] = job.jid
    elseif job.instead then
      instead[#instead + 1], instead[#instead + 2] = job.given or job.jid, job.instead
    else
      modules.PutStore.store(job, worker, tracked[job.jid], batch)
      counts[job.queue] = (counts[job.queue] or 0) + 1
      if job.given then
        instead[#instead + 1], instead[#instead + 2] = job.given, job.jid
      end
    end
  end
  for queue, list in pairs(ready) do
    modules.Places.work_many(queue, list)
  end
  for queue, count in pairs(counts) do
    modules.Minutes.count(queue, 'put', count)
    modules.Places.register(queue)
  end
  modules.Dependencies.follow_failed(plan.how)
  return { left, instead }
end

-- put.many worker (jid queue klass data delay k (name value)*k)... -> as carry_out
function PutMany.many(args, i)
  local worker = modules.Arguments.asking('put.many', args[i])
  return PutMany.carry_out(PutMany.plan('put.many', args, i + 1), worker)
end

-- Seconds for which it is remembered what a producer has put that never ends.
local KEPT = 7 * 86400

-- put.once name jid token worker (as put.many) -> as put.many. The job with this token puts others in several steps. It
-- may run again: those that it has put under this name are left alone then, whatever has become of them.
function PutMany.once(args, i)
  local name, jid =
    modules.Arguments.name('put.once', 'name', args[i]), modules.Arguments.name('put.once', 'jid', args[i + 1])
  local worker = modules.Arguments.asking('put.once', args[i + 3])
  modules.Lock.holder('put.once', jid, args[i + 2])
  local once, jids = key.once(name), {}
  local plan = PutMany.plan('put.once', args, i + 4, { once = once })
  for _, job in ipairs(plan.jobs) do
    jids[#jids + 1] = job.spare ~= '1' and (job.given or job.jid) or nil
  end
  local reply = PutMany.carry_out(plan, worker)
  call('HSET', key.job(jid), 'once', name, 'rare', '1')
  if #jids > 0 then
    call('SADD', once, unpack(jids))
    call('EXPIRE', once, KEPT)
  end
  return reply
end
end
elseif module_name == 'QueueChoice' then
return function()
local QueueChoice = {
all = 0, of = 0, serve = 0
}
modules.QueueChoice = QueueChoice
-- queue_choice.lua
-- Which queues a call serves, in what order: those that the names and globs of a worker stand for.
--
-- They are served in the order given, those of a glob in order of name. Of globs, and of very many names, only queues
-- are asked that may have something: see nonempty.lua.

local find, gsub, match = string.find, string.gsub, string.match

local function is_glob(name)
  return find(name, '[*?]') ~= nil
end

-- One character of UTF-8: a byte that begins one, and those that go on with it.
local CHARACTER = '[^\128-\191][\128-\191]*'

-- A glob with * and ? as a Lua pattern.
local function pattern(glob)
  local escaped = gsub(glob, '[%^%$%(%)%%%.%[%]%+%-]', '%%%0')
  return '^' .. gsub(gsub(escaped, '%*', '.*'), '%?', CHARACTER) .. '$'
end

local function matches_any(queue, patterns)
  for n = 1, #patterns do
    if find(queue, patterns[n]) then
      return true
    end
  end
  return false
end

local function patterns_of(globs)
  local patterns = {}
  for n, glob in ipairs(globs) do
    patterns[n] = pattern(glob)
  end
  return patterns
end

-- Says once of each queue whether it is met for the first time and not excluded.
local function filter(choice)
  local seen, excluded = {}, choice.excluded
  return function(queue)
    if seen[queue] or matches_any(queue, excluded) then
      return false
    end
    seen[queue] = true
    return true
  end
end

-- Queues that the glob stands for, one after the other: `at` gives the n-th of those that there are.
-- -> whether to stop
local function each_of_glob(glob, at, is_new, visit)
  local wanted, n = glob ~= '*' and pattern(glob), 1
  local queue = at(n)
  while queue do
    if (not wanted or find(queue, wanted)) and is_new(queue) and visit(queue) then
      return true
    end
    n = n + 1
    queue = at(n)
  end
  return false
end

-- All known queues, as the call has read them.
local function known(choice)
  choice.known = choice.known or modules.Queue.names()
  return choice.known
end

-- The queues that a glob stands for, in order of name.
local function gather_glob(choice, glob, is_new)
  local found, names = {}, known(choice)
  local function at(n)
    return names[n]
  end
  each_of_glob(glob, at, is_new, function(queue)
    found[#found + 1] = queue
  end)
  table.sort(found)
  return found
end

-- All queues that the names and globs stand for, whether there is anything in them or not.
function QueueChoice.all(choice)
  if choice.gathered then
    return choice.gathered
  end
  local queues, is_new = {}, filter(choice)
  for _, name in ipairs(choice.names) do
    if not is_glob(name) then
      queues[#queues + 1] = is_new(name) and name or nil
    else
      for _, queue in ipairs(gather_glob(choice, name, is_new)) do
        queues[#queues + 1] = queue
      end
    end
  end
  choice.gathered = queues
  return queues
end

-- How many they are.
local function count(choice)
  if not choice.gathered and choice.is_all then
    return call('ZCARD', key.queues())
  end
  return #QueueChoice.all(choice)
end

-- Calls `visit` with each queue that may have something, until that returns true.
local function each(choice, visit)
  local is_new, prefix = filter(choice), nil
  local function at(n)
    return modules.Nonempty.at(prefix, n)
  end
  for n, name in ipairs(choice.names) do
    prefix = is_glob(name) and match(name, '^[^*?]*')
    if prefix then
      if each_of_glob(name, at, is_new, visit) then
        return
      end
    elseif (not choice.many or modules.Nonempty.may_have(choice.names, n)) and is_new(name) and visit(name) then
      return
    end
  end
end

-- The queues to be asked if they are few, so that what is absent can be asked for at once; else there are `many`.
local function find_few(choice)
  local few = {}
  if choice.is_all then
    choice.few = modules.Nonempty.all(modules.ExistenceCache.many)
    choice.many = not choice.few
    return
  end
  choice.many = #choice.names > modules.ExistenceCache.many
  if not choice.many then
    each(choice, function(queue)
      few[#few + 1] = queue
      choice.many = #few > modules.ExistenceCache.many
      return choice.many
    end)
  end
  choice.few = not choice.many and few or nil
end

local function begin(choice)
  modules.Nonempty.begin()
  find_few(choice)
end

-- The queues of a worker; `excluded` are globs. The choice has
--   few        the queues to be asked, if they are few
--   gathered   all queues that it stands for, when they are known; mostly they need not be
--   globbing   whether there are globs
--   is_all     whether it is just `*`
--   indexed    whether only those are asked that may have something
function QueueChoice.of(names, excluded)
  local is_single, globbing = #names == 1 and #excluded == 0, false
  local is_all = is_single and names[1] == '*'
  for n = 1, #names do
    globbing = globbing or is_all or is_glob(names[n])
  end
  if is_single and not globbing then
    return { few = names, gathered = names, globbing = false }
  end
  local choice = {
    names = names,
    excluded = is_all and excluded or patterns_of(excluded),
    globbing = globbing,
    indexed = globbing or #names > modules.ExistenceCache.many,
    is_all = is_all,
    few = false,
    many = false,
  }
  if choice.indexed then
    begin(choice)
  else
    choice.few = QueueChoice.all(choice)
  end
  return choice
end

-- One queue after the other, until there are `wanted` jobs. -> how many are missing
local function one_by_one(choice, wanted, take)
  local few = choice.few
  if few then
    for n = 1, #few do
      wanted = wanted > 0 and wanted - take(few[n], wanted) or 0
    end
    return wanted
  end
  each(choice, function(queue)
    wanted = wanted - take(queue, wanted)
    return wanted <= 0
  end)
  return wanted
end

-- The part of each queue in the first round. Those have one, too, that are known to be empty; but who has more queues
-- than half of the jobs wanted need not count them.
local function first_part(choice, visit_each, wanted)
  local met = 0
  visit_each(function()
    met = met + 1
    return 2 * met > wanted
  end)
  return 2 * met > wanted and 1 or math.max(1, math.floor(wanted / math.max(1, count(choice))))
end

-- As if single jobs were taken from each queue in turn: in each round an equal part from each
-- that has not shown to be empty. -> how many are missing
local function in_turns(choice, wanted, take)
  local function visit_each(visit)
    if not choice.few then
      each(choice, visit)
      return
    end
    for n = 1, #choice.few do
      if visit(choice.few[n]) then
        return
      end
    end
  end
  local part, going_on = first_part(choice, visit_each, wanted), {}
  local function take_part(queue)
    local taken = take(queue, part)
    wanted = wanted - taken
    if taken == part then
      going_on[#going_on + 1] = queue
    end
    return wanted == 0
  end
  visit_each(take_part)
  while wanted > 0 and #going_on > 0 do
    local queues = going_on
    part, going_on = math.max(1, math.floor(wanted / #queues)), {}
    for n = 1, #queues do
      if take_part(queues[n]) then
        return wanted
      end
    end
  end
  return wanted
end

-- Has a call that has found nothing to take again?
local function may_have_missed(choice)
  if not modules.Nonempty.is_stale() and not modules.Nonempty.look_at(QueueChoice.all(choice)) then
    return false
  end
  begin(choice)
  return true
end

-- Takes up to `wanted` jobs, in turns or not: `take` is given a queue and a number, and returns how many it has taken.
function QueueChoice.serve(choice, wanted, turns, take)
  local serve = turns and in_turns or one_by_one
  if choice.indexed and modules.Nonempty.is_stale() then
    begin(choice)
  end
  local missing = serve(choice, wanted, take)
  if choice.indexed and missing == wanted and may_have_missed(choice) then
    serve(choice, wanted, take)
  end
end
end
elseif module_name == 'Worker' then
return function()
local Worker = {
with_info = 0, seen = 0, shown = 0, show = 0, deregister = 0, beat = 0
}
modules.Worker = Worker
-- worker.lua
-- Workers: what they say of themselves, what they hold, and one heartbeat for all of it.

local FAR = 8640000 -- seconds; no lock is longer

-- Workers silent for too long are forgotten, unless a lock of theirs is still good.
local function forget_silent()
  local before = scope.now - modules.Config.number('max-worker-age')
  local silent = call('ZRANGEBYSCORE', key.workers(), '-inf', before, 'LIMIT', 0, modules.Arguments.most)
  local gone, since = {}, '(' .. string.format('%.17g', scope.now)
  for _, worker in ipairs(silent) do
    if call('ZCOUNT', key.held(worker), since, '+inf') == 0 then
      call('DEL', key.held(worker))
      gone[#gone + 1] = worker
    end
  end
  modules.SortedSet.remove(key.workers(), gone)
end

-- A worker is shown with what it says of itself.
function Worker.with_info(shown, worker, seen)
  shown.beat = tonumber(seen)
  return modules.Json.with(cjson.encode(shown), 'info', call('GET', key.worker(worker)) or 'null')
end

-- Workers that gave a sign of life lately (where silent ones are forgotten: those that are left), the
-- latest first, and when: some of them, or all. -> these, how many there are
function Worker.seen(offset, count)
  local since = '-inf'
  if scope.reading then
    since = '(' .. string.format('%.17g', scope.now - modules.Config.number('max-worker-age'))
  end
  local total = call('ZCOUNT', key.workers(), since, '+inf')
  return call(
    'ZREVRANGEBYSCORE',
    key.workers(),
    '+inf',
    since,
    'WITHSCORES',
    'LIMIT',
    offset or 0,
    count or total
  ),
    total
end

-- One of them, as JSON.
function Worker.shown(worker, seen)
  return Worker.with_info({
    name = worker,
    jobs = call('ZCOUNT', key.held(worker), scope.now, scope.now + FAR),
    stalled = call('ZCOUNT', key.held(worker), 0, scope.now),
  }, worker, seen)
end

local function overview()
  local all, seen = {}, Worker.seen()
  for n = 1, #seen, 2 do
    all[#all + 1] = Worker.shown(seen[n], seen[n + 1])
  end
  return modules.Json.list(all)
end

-- workers [worker]
function Worker.show(args, i)
  local worker = args[i] and modules.Arguments.name('workers', 'worker', args[i])
  if not scope.reading then
    forget_silent()
  end
  if not worker then
    return overview()
  end
  local shown = {
    jobs = call('ZREVRANGEBYSCORE', key.held(worker), scope.now + FAR, scope.now),
    stalled = call('ZREVRANGEBYSCORE', key.held(worker), scope.now, 0),
  }
  return Worker.with_info(shown, worker, call('ZSCORE', key.workers(), worker) or nil)
end

-- worker.deregister worker...
function Worker.deregister(args, i)
  local workers = modules.Tags.rest(args, i)
  modules.Arguments.bounded('worker.deregister', #workers)
  modules.SortedSet.remove(key.workers(), workers)
  if scope.live then
    for _, worker in ipairs(workers) do
      call('DEL', key.worker(worker))
      modules.WorkerControl.forget(worker)
    end
    modules.Cron.leave(workers)
  end
end

-- The jobs of a heartbeat that their worker still holds, by queue, and those it has lost. A record learns
-- that its job was started: if the worker is heard of no more, the start is counted when the lock is lost.
local function sort_out(worker, args, i, count)
  local queues, lost = {}, {}
  for n = i, i + 3 * count - 1, 3 do
    local jid, token, held = args[n], args[n + 1], args[n + 2]
    local state, its_worker, its_token, queue, grace, its_waited =
      modules.Hash.values(key.job(jid), 'state', 'worker', 'token', 'queue', 'grace', 'waited')
    if state == 'running' and its_worker == worker and its_token == token then
      queue = queue or ''
      queues[queue] = queues[queue] or {}
      table.insert(queues[queue], jid)
      if grace then
        call('HDEL', key.job(jid), 'grace')
      end
      local waited = held and modules.Samples.waited_in_hands(its_waited, held)
      if waited then
        call('HSET', key.job(jid), 'waited', waited)
      end
    else
      lost[#lost + 1] = jid
    end
  end
  return queues, lost
end

-- beat worker info n (jid token held)*n -> { jids of lost jobs, orders }; `held` is for how many seconds
-- the job lay in its worker's hands before it was started, '' if it was not
-- It also writes the samples of all workers, so that statistics are never much older.
function Worker.beat(args, i)
  local worker, said = modules.Arguments.name('beat', 'worker', args[i]), args[i + 1]
  if modules.Arguments.given('beat', 'info', said) ~= '' then
    modules.Arguments.object('beat', 'info', said)
  end
  local count = modules.Arguments.whole('beat', 'number of jobs', args[i + 2], 0)
  modules.Arguments.bounded('beat', count)
  if #args - i - 2 ~= 3 * count then
    modules.Errors.argument('beat', 'jid, token and held of ' .. count .. ' jobs wanted')
  end
  for n = i + 5, #args, 3 do
    args[n] = modules.Arguments.held('beat', args[n]) or false
  end
  local queues, lost = sort_out(worker, args, i + 3, count)
  for queue, jids in pairs(queues) do
    local expires = modules.NumberFormat.later(modules.Config.heartbeat(queue))
    for _, jid in ipairs(jids) do
      call('HSET', key.job(jid), 'expires', expires)
    end
    modules.SortedSet.add(key.held(worker), expires, jids)
    if queue ~= '' then -- a damaged record names none
      modules.SortedSet.add(key.place(queue, 'locks'), expires, jids)
    end
  end
  call('ZADD', key.workers(), scope.now, worker)
  if said ~= '' then
    call('SET', key.worker(worker), said, 'EX', modules.Config.worker_age())
  end
  modules.Samples.settle()
  return { lost, modules.WorkerControl.take(worker) }
end
end
elseif module_name == 'WorkflowVerbs' then
return function()
local WorkflowVerbs = {
get = 0, jobs = 0, carry = 0, carry_on = 0, cancel = 0, retry = 0
}
modules.WorkflowVerbs = WorkflowVerbs
-- workflows/workflow_verbs.lua
-- What may be done with a workflow as a whole: look at it, cancel it, retry what failed in it; and
-- the steps that the next calls carry on with.

local STEP = 250 -- jobs canceled or retried by one call

local function must(command, id)
  modules.Arguments.given(command, 'workflow', id)
  if call('EXISTS', key.workflow(id)) == 0 then
    modules.Errors.raise('NOJOB', command .. '(): Workflow ' .. modules.Errors.name(id) .. ' does not exist')
  end
  return id
end

-- workflow.get id -> its record as JSON, or nothing
function WorkflowVerbs.get(args, i)
  local id = modules.Arguments.given('workflow.get', 'workflow', args[i])
  local record = modules.Hash.all(key.workflow(id))
  if not next(record) then
    return nil
  end
  local shown = { id = id, state = record.state }
  for _, field in ipairs({ 'total', 'complete', 'failed', 'canceled', 'held', 'created', 'finished' }) do
    shown[field] = modules.Record.number(record[field])
  end
  return modules.Json.with(cjson.encode(shown), 'meta', modules.Record.text('meta', record.meta, '{}'))
end

-- workflow.jobs id [offset count] -> how many, and the jids of some of them
function WorkflowVerbs.jobs(args, i)
  local id = modules.Arguments.given('workflow.jobs', 'workflow', args[i])
  local offset = modules.Arguments.offset('workflow.jobs', args[i + 1])
  local count = modules.Arguments.count('workflow.jobs', args[i + 2], 25)
  local name = key.workflow_jobs(id)
  return cjson.encode({
    total = call('LLEN', name),
    jobs = count > 0 and call('LRANGE', name, offset, offset + count - 1) or {},
  })
end

-- From the last to the first: what depends on others goes before them.
local function cancel_some(id)
  local name = key.workflow(id)
  local stop = modules.Record.read('count', call('HGET', name, 'cancel_at'), call('LLEN', key.workflow_jobs(id)))
  local start = math.max(0, stop - STEP)
  local jids = stop > 0 and call('LRANGE', key.workflow_jobs(id), start, stop - 1) or {}
  local at = #jids
  while at > 0 and (at == #jids or modules.Dependencies.left() > 0) do
    local workflow, state = modules.Hash.values(key.job(jids[at]), 'workflow', 'state')
    if workflow == id and state ~= 'complete' then
      modules.Cascade.cancel(jids[at], 'workflow', id)
    end
    at = at - 1
  end
  start = start + at
  if start == 0 then
    call('HDEL', name, 'chore', 'cancel_at')
    call('ZREM', key.workflows(), id)
    modules.Workflow.count(id, 'total', 0)
    -- Jobs of others may stand at its gate, which were put again with it.
    modules.Dependencies.release({ modules.WorkflowPut.gate(id) })
  else
    call('HSET', name, 'cancel_at', start)
  end
  return start
end

-- What was staged and is no job yet will never be one.
local function drop_staged(id)
  if call('EXISTS', key.staged(id)) == 1 then
    modules.WorkflowPut.forget_staged(id)
    local there = call('LLEN', key.workflow_jobs(id))
    modules.Workflow.count(
      id,
      'canceled',
      modules.Record.read('count', call('HGET', key.workflow(id), 'total'), there) - there
    )
  end
end

local CHORES = {
  unpacking = function(id)
    return modules.WorkflowPut.unpack(id)
  end,
  canceling = cancel_some,
}

local function step(id)
  scope.carried = true -- once is enough
  local chore = CHORES[call('HGET', key.workflow(id), 'chore') or '']
  if not chore then
    call('ZREM', key.workflows(), id)
    return 0
  end
  return chore(id)
end

-- workflow.carry id -> how much is left to be done; 0 when nothing is
function WorkflowVerbs.carry(args, i)
  local left = step(must('workflow.carry', args[i]))
  modules.Dependencies.carry_on()
  return left
end

-- Carries on with what a client has begun and perhaps left: one step, at most once per call.
-- -> whether more is left
function WorkflowVerbs.carry_on()
  local name = key.workflows()
  if scope.carried or modules.ExistenceCache.is_absent(name) then
    return false
  end
  local id = call('ZRANGE', name, 0, 0)[1]
  return id and (step(id) > 0 or call('EXISTS', name) == 1)
end

-- workflow.cancel id -> how many jobs are still to be looked at: go on with workflow.carry
function WorkflowVerbs.cancel(args, i)
  local id = must('workflow.cancel', args[i])
  local name = key.workflow(id)
  local chore, state = modules.Hash.values(name, 'chore', 'state')
  if chore ~= 'canceling' then
    if state == 'complete' or state == 'canceled' then
      return 0
    end
    drop_staged(id)
    call('HSET', name, 'chore', 'canceling', 'cancel_at', call('LLEN', key.workflow_jobs(id)))
    call('ZADD', key.workflows(), modules.NumberFormat.now(), id)
    modules.Workflow.count(id, 'total', 0)
  end
  return step(id)
end

-- workflow.retry id from -> where to go on (0: that was all), how many were put back
function WorkflowVerbs.retry(args, i)
  local id = must('workflow.retry', args[i])
  local from = modules.Arguments.whole('workflow.retry', 'from', args[i + 1], 0)
  if call('HGET', key.workflow(id), 'chore') == 'canceling' then
    modules.Errors.raise('STATE', 'workflow.retry(): Workflow ' .. id .. ' is being canceled')
  end
  local jids, failed = call('LRANGE', key.workflow_jobs(id), from, from + STEP - 1), {}
  for _, jid in ipairs(jids) do
    local state, workflow = modules.Hash.values(key.job(jid), 'state', 'workflow')
    if state == 'failed' and workflow == id then
      failed[#failed + 1] = jid
    end
  end
  local revived = #failed > 0 and modules.Revive.revive(failed, 1) or 0
  return { #jids == STEP and from + STEP or 0, revived }
end
end
elseif module_name == 'Cron' then
return function()
local Cron = {
due = 0, leave = 0, tick = 0, trouble = 0
}
modules.Cron = Cron
-- schedules/cron.lua
-- Cron schedules at work. Which time comes next is known outside; one worker at a time looks after that,
-- and here it is compared and set, so that each tick puts one job whichever worker looks.

local format = string.format

local LEASE = 6 -- seconds for which a worker is the one who looks; it asks again in time
local LONGEST_TROUBLE = 1000 -- bytes

-- What is due, at most so many; the seconds until the next falls due, if that is soon.
local function due_now(count)
  local name, flat = key.schedules(), {}
  local due = call('ZRANGEBYSCORE', name, '-inf', scope.now, 'WITHSCORES', 'LIMIT', 0, count)
  for n = 1, #due, 2 do
    local since, cron, timezone, missed =
      modules.Hash.values(key.schedule(due[n]), 'since', 'cron', 'timezone', 'missed')
    if cron then
      flat[#flat + 1] = due[n]
      flat[#flat + 1] = due[n + 1]
      flat[#flat + 1] = since and modules.Record.text('since', since, due[n + 1]) or ''
      flat[#flat + 1] = cron
      flat[#flat + 1] = timezone or 'UTC'
      flat[#flat + 1] = missed or 'last'
    else
      call('ZREM', name, due[n])
    end
  end
  local soon = LEASE / 2
  if #due == 2 * count then
    return flat, 0
  end
  local later = format('(%.17g', scope.now)
  local head = call('ZRANGEBYSCORE', name, later, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return flat, head[2] and math.min(soon, tonumber(head[2]) - scope.now) or soon
end

-- schedule.due worker count -> seconds until the next look, now, whether the worker holds the lease,
-- and what is due: id, score, since ('': the score is a tick), cron, timezone, missed of each. Nothing is due for who
-- does not hold the lease.
function Cron.due(args, i)
  local worker = modules.Arguments.name('schedule.due', 'worker', args[i])
  local count = math.max(modules.Arguments.count('schedule.due', args[i + 1], 100), 1)
  local holder, left = call('GET', key.ticker()), call('PTTL', key.ticker()) / 1000
  -- (A lease that lasts longer was given before the server's clock was set back.)
  if holder and holder ~= worker and left <= LEASE then
    return { format('%.3f', math.max(left, 0)), format('%.6f', scope.now), 0, {} }
  end
  call('SET', key.ticker(), worker, 'PX', LEASE * 1000)
  local due, seconds = due_now(count)
  return { format('%.6f', seconds), format('%.6f', scope.now), 1, due }
end

-- A worker ends, and looks no longer.
function Cron.leave(workers)
  local holder = call('GET', key.ticker())
  for _, worker in ipairs(holder and workers or {}) do
    if worker == holder then
      call('DEL', key.ticker())
    end
  end
end

-- Checks id, score, first, following, last, next. `first` is '' if no tick is due yet.
local function parse_tick(args, i)
  local tick = { id = modules.Arguments.given('schedule.tick', 'id', args[i]) }
  tick.score = modules.Arguments.number('schedule.tick', 'score', args[i + 1])
  tick.next = modules.Arguments.whole('schedule.tick', 'next', args[i + 5], 0)
  if args[i + 2] == '' then
    return tick
  end
  tick.first = modules.Arguments.whole('schedule.tick', 'first', args[i + 2], 0)
  tick.following = modules.Arguments.whole('schedule.tick', 'following', args[i + 3], 0)
  tick.last = modules.Arguments.whole('schedule.tick', 'last', args[i + 4], 0)
  if tick.first > tick.last or tick.following <= tick.first or tick.next <= tick.last then
    modules.Errors.argument('schedule.tick', 'first <= last < next and first < following wanted')
  end
  return tick
end

-- -> the record of a schedule whose next tick is still the one that was seen
local function expected(tick)
  local score = tonumber(call('ZSCORE', key.schedules(), tick.id) or nil)
  if score ~= tick.score or (tick.last and tick.last > scope.now) then
    return nil
  end
  local record = modules.Hash.all(key.schedule(tick.id))
  record.jid, record.key, record.place = tick.id, key.schedule(tick.id), key.schedules()
  return record.cron and record
end

-- -> 1 if a job was put, otherwise 0
local function carry_out(tick)
  local record = expected(tick)
  if not record then
    return 0
  end
  local field, text = modules.Record.bad_schedule(record)
  if field then
    modules.Ticks.put_off(record, tick.score - 1, modules.Record.words(field, text))
    return 0
  end
  call('HDEL', record.key, 'since', 'trouble')
  return modules.Ticks.carry_out(record, tick)
end

-- schedule.tick (id score first following last next)... -> 1 for each that put a job, otherwise 0
function Cron.tick(args, i)
  local given, ticks = #args - i + 1, {}
  if given % 6 ~= 0 then
    modules.Errors.argument('schedule.tick', 'id, score, first, following, last and next of each wanted')
  end
  modules.Arguments.bounded('schedule.tick', given / 6)
  for n = i, #args, 6 do
    ticks[#ticks + 1] = parse_tick(args, n)
  end
  for n, tick in ipairs(ticks) do
    ticks[n] = carry_out(tick)
  end
  return ticks
end

-- schedule.trouble id score text: it cannot be evaluated, and is tried again later; no tick is forgotten
function Cron.trouble(args, i)
  local id = modules.Arguments.given('schedule.trouble', 'id', args[i])
  local score = modules.Arguments.number('schedule.trouble', 'score', args[i + 1])
  local text = modules.Errors.cut(modules.Arguments.given('schedule.trouble', 'text', args[i + 2]), LONGEST_TROUBLE)
  local tick = { id = id, score = score }
  local record = expected(tick)
  if not record then
    return 0
  end
  modules.Ticks.put_off(record, score - 1, text)
  return 1
end
end
elseif module_name == 'EntityActions' then
return function()
local EntityActions = {
run_now = 0, run = 0, kill = 0, drop = 0
}
modules.EntityActions = EntityActions
-- entities/entity_actions.lua
-- What operators do to the entities of a queue: all that wait, all whose last run has failed, or those named.

local MOST = 250 -- entities changed by one call

local GROUP, MESSAGE = 'killed', 'It was killed before its retries were used up'

-- An entity that waits, or is delayed, is due now.
function EntityActions.run_now(jid, queue)
  if call('ZREM', key.place(queue, 'scheduled'), jid) == 1 then
    local priority = call('HGET', key.job(jid), 'priority')
    call('HSET', key.job(jid), 'state', 'waiting')
    modules.Places.ready_since(jid, scope.now, true)
    modules.Places.work(jid, queue, modules.Record.read('priority', priority, 0))
  end
  modules.Entity.unlisted(jid, queue)
  modules.Entity.returned(jid, queue)
end

local WAITING = { waiting = true, scheduled = true, stalled = true }

-- The jobs of the entities that are named, or the first ones of a list. -> the queue, jids
local function chosen(command, args, i, list)
  local queue, entities = modules.Dead.named(command, args, i)
  if #entities == 0 then
    return queue, list(queue)
  end
  for n, entity in ipairs(entities) do
    entities[n] = modules.Entity.jid(queue, entity)
  end
  return queue, entities
end

-- Changes those of the jobs that carry entities and are in no worker's hands. -> how many
local function each_waiting(queue, jids, change)
  local number = 0
  for _, jid in ipairs(jids) do
    local record = modules.Job.read(jid, true)
    if record and record.entity and WAITING[record.state] then
      number = number + change(record, queue)
    end
  end
  return number
end

local function retrying(queue)
  return call('ZRANGE', key.retrying(queue), 0, MOST - 1)
end

local function later(queue)
  local from = '(' .. string.format('%.17g', scope.now)
  return call('ZRANGEBYSCORE', key.place(queue, 'scheduled'), from, '+inf', 'LIMIT', 0, MOST)
end

-- entities.run queue [entity...] -> how many wait no longer; without entities of those that are delayed, as
-- many as one call may change
function EntityActions.run(args, i)
  local queue, jids = chosen('entities.run', args, i, later)
  return each_waiting(queue, jids, function(record)
    local was = record.state == 'scheduled' and 1 or 0
    EntityActions.run_now(record.jid, queue)
    return was
  end)
end

-- entities.kill queue [entity...] -> how many were changed: their payloads go to the dead, as many as one call
-- may move; without entities those of the ones whose last run has failed
function EntityActions.kill(args, i)
  local left = modules.Payloads.most
  local queue, jids = chosen('entities.kill', args, i, retrying)
  return each_waiting(queue, jids, function(record)
    if left <= 0 then
      return 0
    end
    local jid, failure = record.jid, modules.Record.read('failure', record.failure, {})
    local flat = modules.Payloads.lowest(key.payloads(jid), left, modules.Payloads.bytes * 8)
    left = left - #flat / 2
    modules.Dead.add(record, queue, failure.group or GROUP, failure.message or MESSAGE, flat)
    if modules.Payloads.move_all(key.payloads(jid), key.dead_payloads(jid), flat) then
      modules.Places.leave(jid, queue)
      modules.EntityRun.erase(record, queue)
    end
    return 1
  end)
end

-- entities.drop queue [entity...] -> how many were deleted, with their payloads; without entities of the ones
-- whose last run has failed
function EntityActions.drop(args, i)
  local queue, jids = chosen('entities.drop', args, i, retrying)
  return each_waiting(queue, jids, function(record)
    modules.Job.remove(record.jid, record, 'call')
    modules.Cascade.follow(record.jid, 'gone')
    return 1
  end)
end
end
elseif module_name == 'EntityPush' then
return function()
local EntityPush = {
enqueue = 0, push = 0
}
modules.EntityPush = EntityPush
-- entities/entity_push.lua
-- Pushing payloads: onto an entity that is in its queue, or one that is put there with them.

local OPTIONS = { priority = true, retries = true, tags = true, context = true, batch = true, known = true }

-- A queue has entities of one job type, which may have had other names. When it is empty another may take it over.
-- -> what it is now, if it may be this one
local function check_type(queue, klass, known)
  local other = call('HGET', key.entity_types(), queue)
  if not other or other == klass then
    return other
  end
  local place = key.place
  if
    call('EXISTS', place(queue, 'work'), place(queue, 'scheduled'), place(queue, 'locks'), key.dead(queue))
    == 0
  then
    return
  end
  for _, name in ipairs(known) do
    if name == other then
      return
    end
  end
  modules.Errors.raise(
    'STATE',
    'push(): Queue %s has the entities of %s, and cannot have those of %s: give each such job type a queue of its own',
    modules.Errors.name(queue),
    modules.Errors.name(other),
    modules.Errors.name(klass)
  )
end

-- What the jobs of the call have in common.
local function read_options(args, first)
  local given = modules.Arguments.options('push', args, first, OPTIONS)
  local known = given.known and modules.Arguments.names('push', 'known', given.known) or {}
  if given.context then
    modules.Arguments.object('push', 'context', given.context)
  end
  return {
    priority = modules.Arguments.number('push', 'priority', given.priority or '0'),
    retries = modules.Arguments.whole('push', 'retries', given.retries or '5', 0),
    tags = given.tags and modules.Arguments.tag_list('push', given.tags) or nil,
    context = given.context,
    batch = modules.Arguments.whole('push', 'batch', given.batch or '1', 1),
    known = known,
  }
end

-- The default score: by the server's time, in the order of the call.
local function score_of(text, n)
  return text == '' and string.format('%.17g', scope.now + n * 1e-6)
    or string.format('%.17g', modules.Arguments.number('push', 'score', text))
end

-- entity data payload score due, `count` times from args[i] on -> by entity what is pushed; the entities in
-- order
local function read_items(args, i, count, queue)
  local items, order = {}, {}
  for n = 0, count - 1 do
    local at = i + 5 * n
    local entity = modules.Entity.id('push', args[at])
    local item = items[entity]
    if not item then
      item = { entity = entity, jid = modules.Entity.jid(queue, entity), data = args[at + 1], flat = {} }
      items[entity], order[#order + 1] = item, item
      modules.Arguments.object('push', 'data', item.data)
      if not string.find(item.data, '^{.+}$') then
        modules.Errors.argument('push', 'data must be an object with members, not ' .. modules.Errors.value(item.data))
      end
      item.due = args[at + 4] ~= '' and modules.Arguments.number('push', 'due', args[at + 4]) or nil
    end
    modules.Arguments.json('push', 'payload', args[at + 2], modules.Payloads.each)
    local flat = item.flat
    flat[#flat + 1], flat[#flat + 2] = score_of(args[at + 3], n), args[at + 2]
  end
  return order
end

local QUEUED = { waiting = true, stalled = true, running = true, scheduled = true }

-- Looks at the entity's job: whether it is there, and is one.
local function look(item)
  local state, entity = modules.Hash.values(key.job(item.jid), 'state', 'entity')
  if state and not entity then
    modules.Errors.raise('STATE', 'push(): Job ' .. modules.Errors.name(item.jid) .. ' is in the way: it carries no entity')
  end
  item.state = state
end

-- Puts the job of an entity that is in no place into its queue; `more` are fields of the job.
function EntityPush.enqueue(more, entity, jid, due, worker)
  local late = due and due > scope.now and due
  local job = {
    queue = more.queue,
    jid = jid,
    klass = more.klass,
    data = more.data,
    delay = late and late - scope.now or 0,
    at = late or nil,
    priority = more.priority,
    retries = more.retries,
    tags = more.tags,
    context = more.context,
    rare = true,
    entity = entity,
    batch = more.batch,
  }
  modules.Put.look(job)
  modules.PutStore.store(job, worker, modules.Tracking.is_tracked(jid))
  modules.Minutes.count(more.queue, 'put', 1)
  modules.Entity.listed(jid, more.queue, late or scope.now, more.retries, more.retries)
end

-- push worker queue klass n (entity data payload score due)*n [pairs] -> how many payloads are new
function EntityPush.push(args, i)
  local worker = modules.Arguments.asking('push', args[i])
  local queue, klass = modules.Arguments.queue('push', args[i + 1]), modules.Arguments.name('push', 'klass', args[i + 2])
  local count = modules.Arguments.whole('push', 'number of payloads', args[i + 3], 1)
  modules.Arguments.bounded('push', count)
  if i + 3 + 5 * count > #args then
    modules.Errors.argument('push', 'Fewer payloads than announced')
  end
  local more = read_options(args, i + 4 + 5 * count)
  more.queue, more.klass = queue, klass
  local items = read_items(args, i + 4, count, queue)
  local known_type = check_type(queue, klass, more.known)
  for _, item in ipairs(items) do
    look(item)
  end
  if known_type ~= klass then
    call('HSET', key.entity_types(), queue, klass)
  end
  local new = 0
  for _, item in ipairs(items) do
    new = new + modules.Payloads.join(key.payloads(item.jid), item.flat)
    if item.state == 'failed' then -- by a core that knows no entities
      modules.Revive.revive({ item.jid }, 1)
    elseif not QUEUED[item.state] then
      more.data = item.data
      EntityPush.enqueue(more, item.entity, item.jid, item.due, worker)
    end
  end
  modules.Places.register(queue)
  return new
end
end
elseif module_name == 'Exhausted' then
return function()
local Exhausted = {
note = 0, is_enough = 0
}
modules.Exhausted = Exhausted
-- exhausted.lua
-- Jobs whose last lock was lost: they fail for good in the call that finds it out, which tells them to its worker.

local ENOUGH = 4 * 1024 * 1024 -- bytes of data told by one call

-- A job, which still is as its last worker had it, is about to fail. Who has asked for it is told: its group and
-- message, and the job as it is told to who reserves it.
function Exhausted.note(jid, group, message, entity)
  if scope.asks_exhausted then
    local batch = entity and call('HGET', key.job(jid), 'batch')
    local told, job = scope.exhausted or {}, modules.Pop.told(jid, entity, batch)
    told[#told + 1] = { group, message, job }
    scope.exhausted, scope.exhausted_bytes = told, (scope.exhausted_bytes or 0) + #job[4]
  end
end

-- Are further ones left to the next call?
function Exhausted.is_enough()
  return (scope.exhausted_bytes or 0) >= ENOUGH
end
end
elseif module_name == 'FailedQueue' then
return function()
local FailedQueue = {
of = 0, move = 0
}
modules.FailedQueue = FailedQueue
-- failed_queue.lua
-- Jobs that have failed for good go on in another queue, if theirs has the option failed-queue.

-- Where such a job of this queue goes, or nil: the queue has no such option, or has been set to itself, or the
-- job has come in this way (it fails where it is, so that queues that name each other make no circle).
function FailedQueue.of(jid, queue)
  local to = scope.live and modules.Config.failed_queue(queue)
  if to and call('HEXISTS', key.job(jid), 'failed_from') == 0 then
    return to
  end
end

-- Moves a job, which has just failed for good and is in no place, to the end of that queue: it waits there with all
-- of its retries and keeps the failure. (For those who wait for its end it goes on, as if it was tried again.)
function FailedQueue.move(job, to, group, message, when, failing)
  local jid, queue = job.jid, job.queue
  modules.Stats.count(queue, 'failures', 1)
  modules.Minutes.count(queue, 'failed', 1)
  call('HSET', key.job(jid), 'failed_from', queue)
  call('HDEL', key.job(jid), 'crashes')
  modules.History.put(jid, to)
  modules.Events.put(jid, to)
  job.remaining = job.retries
  local failure = cjson.encode({ group = group, message = message, when = when, worker = failing or '' })
  modules.Outcome.back(job, to, 0, failure)
end
end
elseif module_name == 'Holders' then
return function()
local Holders = {
count = 0, next_look = 0, take = 0, drop = 0, heal = 0
}
modules.Holders = Holders
-- limits/holders.lua
-- Who runs under limits, from the reservation until the worker has the job no longer.
-- The record of a job says which limits it holds, and of how many each when it took them. A limit is held by no more
-- than the last who took it found allowed: that stays true when less is allowed afterwards.

-- Holders looked at by one call; seconds after which one is looked at again.
local LOOKED, EVERY = 100, 60

local function exact(time)
  return string.format('%.17g', time)
end

-- Mostly when the lock is lost.
local function next_look(expires)
  return exact(math.min(tonumber(expires), scope.now + EVERY))
end

function Holders.count(name)
  return call('ZCARD', key.limit_holders(name))
end

-- When a holder is to be looked at next, or nil.
function Holders.next_look(name)
  local _, look = modules.SortedSet.first(key.limit_holders(name))
  return look
end

-- The job with a lock until `expires` takes what it needs of these limits. It held others `before`, under a lock
-- that was lost.
function Holders.take(jid, limits, expires, before)
  local holds = {}
  for _, limit in ipairs(limits) do
    if limit.most then
      call('ZADD', key.limit_holders(limit.name), next_look(expires), jid)
      holds[limit.name] = limit.most
    end
    if limit.rate then
      modules.Rates.count(limit.name, limit.rate, 1)
    end
  end
  if next(holds) then
    call('HSET', key.job(jid), 'holds', cjson.encode(holds), 'rare', '1')
  elseif next(before) then
    call('HDEL', key.job(jid), 'holds')
  end
  for name in pairs(before) do
    if not holds[name] then
      call('ZREM', key.limit_holders(name), jid)
      modules.Limits.call_up(name)
    end
  end
end

-- The job holds nothing any more. `holds` is the text in its record. -> what it held: name -> how many were allowed
function Holders.drop(jid, holds)
  local held = modules.Record.read('holds', holds, {})
  call('HDEL', key.job(jid), 'holds')
  for name in pairs(held) do
    call('ZREM', key.limit_holders(name), jid)
  end
  return held
end

local function look(name, jids)
  for _, jid in ipairs(jids) do
    local state, holds, queue = modules.Hash.values(key.job(jid), 'state', 'holds', 'queue')
    local lock = state == 'running' and holds and call('ZSCORE', key.place(queue or '', 'locks'), jid)
    if lock then
      call('ZADD', key.limit_holders(name), next_look(math.max(tonumber(lock), scope.now + 1)), jid)
    else
      call('ZREM', key.limit_holders(name), jid)
    end
  end
end

-- Drops those that hold the limit for nothing: another core has ended them. (Who is to be looked at later than
-- anybody can be was given a time before the clock was set back.)
function Holders.heal(name)
  local holders = key.limit_holders(name)
  look(name, call('ZRANGEBYSCORE', holders, '-inf', modules.NumberFormat.now(), 'LIMIT', 0, LOOKED))
  look(name, call('ZRANGEBYSCORE', holders, '(' .. exact(scope.now + EVERY), '+inf', 'LIMIT', 0, LOOKED))
end
end
elseif module_name == 'LimitView' then
return function()
local LimitView = {
of_job = 0, show = 0
}
modules.LimitView = LimitView
-- limits/limit_view.lua
-- Limits as pages show them: what holds jobs back, by how much, and until when.

local match = string.match

local MOST = 100 -- limits of one page

-- What a limit is for people: its kind, the job type it belongs to, and the key or tenant it counts for.
local function described(name, klass, limit_key, fair_by)
  local kind = match(name, '^%l+')
  return {
    kind = kind,
    type = kind ~= 'fair' and klass or nil,
    key = (kind == 'key' and limit_key) or (kind == 'fair' and fair_by) or nil,
  }
end

-- The limits of a job with this record, as get shows them, or nil.
function LimitView.of_job(record)
  if not (record.limit_key or record.fair_by or record.aside or record.holds) then
    return nil
  end
  local shown = { key = record.limit_key, fair_by = record.fair_by }
  if record.aside then
    shown.held_back_by = described(record.aside, record.klass, record.limit_key, record.fair_by)
  end
  return shown
end

-- Those who run under a limit, and what it allows.
local function with_figures(shown, name, klass)
  local limit = modules.LimitSettings.named(name, klass or '')
  shown.held_back = call('ZCARD', key.limit_aside(name))
  if limit and limit.most then
    shown.running, shown.most = call('ZCARD', key.limit_holders(name)), limit.most
  end
  if limit and limit.rate then
    shown.started, shown.rate = modules.Rates.used(name, limit.rate), limit.rate
  end
  return shown
end

local function one(name, queue)
  local jid = modules.SortedSet.last(key.limit_aside(name))
  if not jid then
    return nil
  end
  local klass, limit_key, fair_by = modules.Hash.values(key.job(jid), 'klass', 'limit_key', 'fair_by')
  local shown = with_figures(described(name, klass or nil, limit_key or nil, fair_by or nil), name, klass)
  shown.first = jid
  shown.look = tonumber(call('ZSCORE', key.place(queue, 'openings'), name))
  return shown
end

-- The limit of the whole queue, if it has one.
local function of_queue(queue)
  local most, rate = modules.Config.concurrency(queue), modules.LimitSettings.exist() and modules.LimitSettings.of_queue(queue)
  if most < 1 and not rate then
    return nil
  end
  local shown = { kind = 'queue' }
  if most > 0 then
    shown.most, shown.running = most, call('ZCARD', key.place(queue, 'locks'))
  end
  if rate then
    shown.rate, shown.started = rate, modules.Rates.used('queue:' .. queue, rate)
  end
  return shown
end

-- limits queue -> the limit of the queue, those that hold back jobs of it (some of them), how many these are, and how
-- many jobs they hold back
function LimitView.show(args, i)
  local queue = modules.Arguments.name('limits', 'queue', args[i])
  local openings, limits = key.place(queue, 'openings'), {}
  for _, name in ipairs(call('ZRANGE', openings, 0, MOST - 1)) do
    limits[#limits + 1] = one(name, queue)
  end
  table.sort(limits, function(a, b)
    return a.held_back > b.held_back or (a.held_back == b.held_back and a.first < b.first)
  end)
  local shown =
    { queue = of_queue(queue), total = call('ZCARD', openings), held_back = modules.Places.count_aside(queue) }
  return modules.Json.with(cjson.encode(shown), 'limits', limits[1] and cjson.encode(limits) or '[]')
end
end
elseif module_name == 'OtherVerbs' then
return function()
local OtherVerbs = {
by_name = 0
}
modules.OtherVerbs = OtherVerbs
-- other_verbs.lua
-- The verbs of settle but for complete. They take their arguments by the names that stand in `takes`, and the whole
-- record. Where `runs` is true only a job that was started can end so.
local RARE = {}

RARE.fail = {
  takes = { 'group', 'message' },
  runs = true,
  check = function(given)
    modules.Arguments.given('settle', 'group', given.group)
    modules.Arguments.message('settle', given.message)
  end,
  act = function(job, given)
    modules.Outcome.fail_now(job, given.group, given.message)
  end,
}

RARE.retry = {
  takes = { 'delay', 'group', 'message' },
  runs = true,
  check = function(given)
    given.delay = modules.Arguments.number('settle', 'delay', given.delay)
    modules.Arguments.message('settle', given.message)
  end,
  act = function(job, given)
    local group = given.group ~= '' and given.group or nil
    modules.Outcome.retry_now(job, job.queue, given.delay, group, given.message)
  end,
}

RARE.release = {
  takes = { 'delay' },
  check = function(given)
    given.delay = modules.Arguments.number('settle', 'delay', given.delay)
  end,
  act = function(job, given)
    modules.Limits.not_started(job)
    modules.History.ended(job.jid, 'returned', job, nil, nil, given.delay)
    modules.Lock.release(job)
    modules.Outcome.back(job, job.queue, given.delay, nil, true)
  end,
}

local UNKNOWN, NOT_KNOWN =
  'unknown-job',
  'No worker knows a job of this name. Is its app in INSTALLED_APPS, is its module called jobs or tasks, '
    .. 'was it renamed without aliases=?'

-- No worker knows the job's name: perhaps a deployment is under way. It comes back after as long
-- as it has been unknown already (at least a second, at most a minute), until patience ends.
RARE.unknown = {
  takes = { 'patience' },
  check = function(given)
    given.patience = modules.Arguments.number('settle', 'patience', given.patience)
  end,
  act = function(job, given)
    local since = modules.Record.read('unknown', call('HGET', key.job(job.jid), 'unknown'))
    if since and scope.now - since >= given.patience then
      call('HDEL', key.job(job.jid), 'unknown')
      modules.Outcome.fail_now(job, UNKNOWN, NOT_KNOWN)
      return
    end
    if not since or since > scope.now then -- the clock may have been set back
      since = scope.now
      call('HSET', key.job(job.jid), 'unknown', string.format('%.6f', since))
    end
    job.unknown = true
    local delay = math.max(1, math.min(60, scope.now - since))
    modules.History.ended(job.jid, 'returned', job, UNKNOWN, NOT_KNOWN, delay)
    modules.Limits.not_started(job)
    modules.Lock.release(job)
    modules.Outcome.back(job, job.queue, delay)
  end,
}

-- The process died under the job: counted apart from its retries.
RARE.crash = {
  takes = { 'limit', 'group', 'message' },
  check = function(given)
    given.limit = modules.Arguments.whole('settle', 'limit', given.limit, 0)
    modules.Arguments.given('settle', 'group', given.group)
    modules.Arguments.message('settle', given.message)
  end,
  act = function(job, given)
    local crashes = job.crashes + 1
    call('HSET', key.job(job.jid), 'crashes', crashes)
    if crashes > given.limit then
      modules.Outcome.fail_now(job, given.group, given.message)
      return
    end
    modules.History.ended(job.jid, 'crashed', job, given.group, given.message)
    modules.Lock.release(job)
    modules.Outcome.back(job, job.queue, 0)
  end,
}

RARE.move = {
  takes = { 'queue', 'delay', 'depends' },
  runs = true,
  check = function(given, jid, planned)
    modules.Arguments.queue('settle', given.queue)
    given.delay = modules.Arguments.number('settle', 'delay', given.delay or '0')
    given.needs = given.depends and modules.Arguments.names('settle', 'depends', given.depends) or {}
    modules.Arguments.bounded('settle', #given.needs)
    given.depends, given.beyond = modules.Dependencies.open_for('settle', jid, given.needs)
    planned[jid] = given.depends -- the moves of one call must not wait for each other
    modules.CycleDetection.intend(planned)
    modules.CycleDetection.refuse('settle', jid, given.depends, planned)
  end,
  act = function(job, given, tracked)
    modules.History.ended(job.jid, 'done', job)
    modules.Lock.release(job)
    modules.Samples.add('run', job.queue, scope.now - job.start)
    if tracked[job.jid] then
      modules.Events.tracked('completed', job.jid)
    end
    modules.Events.advanced(job.jid, job.queue, given.queue)
    modules.Outcome.advance(job, given.queue, given.delay, given.depends, nil, given.needs, given.beyond)
  end,
}

OtherVerbs.by_name = {}

for name, verb in pairs(RARE) do
  OtherVerbs.by_name[name] = {
    check = function(args, a, n, jid, planned)
      local given = {}
      for k = 1, math.min(n, #verb.takes) do
        given[verb.takes[k]] = args[a + k - 1]
      end
      verb.check(given, jid, planned)
      args['given' .. a] = given
    end,
    act = function(jid, token, held, args, a, _, _, tracked)
      local job, code, text = modules.Lock.claim('settle', jid, token)
      if not job then
        return code, text
      elseif job.bad and name ~= 'fail' then
        modules.CorruptJobs.fail(jid, job.bad, job.bad_text)
        return
      elseif job.entity and name == 'move' then
        return modules.Entity.no_move('settle', jid)
      end
      modules.Lock.count_start(job, held, verb.runs)
      verb.act(job, args['given' .. a], tracked)
    end,
  }
end
end
elseif module_name == 'QueueSchedules' then
return function()
local QueueSchedules = {
count = 0, numbers = 0, list = 0
}
modules.QueueSchedules = QueueSchedules
-- schedules/queue_schedules.lua
-- The schedules that put jobs into a queue: interval ones have their place there; cron ones and paused
-- ones are kept together for all queues, and their records say which queue is theirs.

local QUEUES = 200 -- of which one call says how many they have

-- Shows the cron schedules by their next tick, then the paused ones, with the queue of each: as many
-- of either as one call may look at.
local function each_elsewhere(visit)
  for _, id in ipairs(modules.SortedSet.head(key.schedules())) do
    visit(id, call('HGET', key.schedule(id), 'queue'))
  end
  for _, id in ipairs(modules.SortedSet.head(key.paused_schedules())) do
    visit(id, call('HGET', key.schedule(id), 'queue') or call('HGET', key.template(id), 'queue'))
  end
end

-- How many schedules these queues have, in their order.
function QueueSchedules.count(queues)
  local elsewhere, numbers = {}, {}
  each_elsewhere(function(_, queue)
    if queue then
      elsewhere[queue] = (elsewhere[queue] or 0) + 1
    end
  end)
  for n, queue in ipairs(queues) do
    numbers[n] = call('ZCARD', key.place(queue, 'recur')) + (elsewhere[queue] or 0)
  end
  return numbers
end

-- schedules.count queue... -> how many each has
function QueueSchedules.numbers(args, i)
  local queues = {}
  for n = i, #args do
    queues[#queues + 1] = args[n]
  end
  if #queues > QUEUES then
    modules.Errors.raise('TOOBIG', 'schedules.count(): ' .. #queues .. ' queues in one call, at most ' .. QUEUES)
  end
  return QueueSchedules.count(queues)
end

-- schedules.in queue offset count -> total and schedules: cron ones, paused ones, interval ones
function QueueSchedules.list(args, i)
  local queue = modules.Arguments.name('schedules.in', 'queue', args[i])
  local offset = modules.Arguments.whole('schedules.in', 'offset', args[i + 1], 0)
  local count = math.min(modules.Arguments.whole('schedules.in', 'count', args[i + 2], 0), modules.Arguments.most)
  local ids, recur = {}, key.place(queue, 'recur')
  each_elsewhere(function(id, of)
    ids[#ids + 1] = of == queue and id or nil
  end)
  local wanted, found = {}, {}
  for n = offset + 1, math.min(offset + count, #ids) do
    wanted[#wanted + 1] = ids[n]
  end
  if #wanted < count then
    local first = math.max(offset - #ids, 0)
    for _, id in ipairs(call('ZRANGE', recur, first, first + count - #wanted - 1)) do
      wanted[#wanted + 1] = id
    end
  end
  for _, id in ipairs(wanted) do
    local record = modules.Schedules.read(id)
    found[#found + 1] = record and modules.ScheduleView.shown(record)
  end
  local total = #ids + call('ZCARD', recur)
  return modules.Json.with(cjson.encode({ total = total }), 'schedules', modules.Json.list(found))
end
end
elseif module_name == 'RecordTexts' then
return function()
local RecordTexts = {
of_jobs = 0, elsewhere = 0, is_good = 0, entry = 0
}
modules.RecordTexts = RecordTexts
-- record_texts.lua
-- Fields of records that are JSON, and those that are in no job's record: how each is read. (They are apart from the
-- numbers, which each run has to do with.)

local find, decode = string.find, cjson.decode

local function table_of(text)
  local fine, value = pcall(decode, text)
  return fine and type(value) == 'table' and value or false
end

-- cjson writes an empty list and an empty object alike.
local function is_list(value, kinds)
  local count = #value
  for k, item in pairs(value) do
    if type(k) ~= 'number' or k > count or (kinds and not kinds[type(item)]) then
      return false
    end
  end
  return true
end

local NAMES = { string = true, number = true }

-- A new list each time: readers change them.
local function list_of(kinds)
  return function(text)
    local value = table_of(text)
    return value and is_list(value, kinds) and value
  end
end

local function is_text(value)
  return value == nil or type(value) == 'string'
end

local function failure(text)
  local value = table_of(text)
  local fine = value
    and #value == 0
    and is_text(value.group)
    and is_text(value.message)
    and (value.when == nil or type(value.when) == 'number')
  return fine and value
end

local function object(text)
  local value = table_of(text)
  return value and #value == 0 and value
end

-- Numbers by names.
local function counts(text)
  local value = table_of(text)
  for name, number in pairs(value or {}) do
    if type(name) ~= 'string' or type(number) ~= 'number' then
      return false
    end
  end
  return value
end

local function old_history(text)
  local value = table_of(text)
  if not value or not is_list(value, { table = true }) then
    return false
  end
  for _, entry in ipairs(value) do
    for _, when in ipairs({ 'put', 'popped', 'failed', 'done' }) do
      if entry[when] ~= nil and not tonumber(entry[when]) then
        return false
      end
    end
    if not is_text(entry.q) or not is_text(entry.worker) or (entry.put and not entry.q) then
      return false
    end
  end
  return value
end

local function is_entry(value)
  return type(value) == 'table'
    and type(value[1]) == 'number'
    and type(value[2]) == 'string'
    and (value[3] == nil or type(value[3]) == 'table')
end

local function entries(text)
  local value = table_of(text)
  for _, entry in ipairs(value or {}) do
    if not is_entry(entry) then
      return false
    end
  end
  return value and is_list(value) and value
end

local names = list_of(NAMES)

-- The keys behind the letter.
local function unique(text)
  local keys = find(text, '^[se]') and names(string.sub(text, 2))
  return keys and keys[1] and keys
end

-- Limits, and how many each allowed when the job took them. (Earlier cores wrote their names alone.)
local function holds(text)
  local listed = names(text)
  if not listed then
    return counts(text)
  end
  local found = {}
  for _, name in ipairs(listed) do
    found[name] = math.huge
  end
  return found
end

-- Those of jobs. -> what is read, or false
RecordTexts.of_jobs = {
  tags = names,
  spawners = names,
  beyond = names,
  called = names,
  holds = holds,
  failure = failure,
  context = object,
  progress = list_of(),
  history = old_history,
  unique = unique,
}

local function decimal(text)
  return modules.Record.number(text) or false
end

-- An interval: nothing goes on by steps of 0.
local function above_zero(text)
  local seconds = decimal(text)
  return seconds and seconds > 0 and seconds
end

-- What stands in the records of what recurs and of workflows, where it is another thing.
RecordTexts.elsewhere = {
  interval = above_zero,
  backlog = decimal,
  count = modules.Record.whole,
  last = decimal,
  since = decimal,
  meta = object,
  entries = entries,
}

-- Can the field be read, whose text this is?
function RecordTexts.is_good(field, text)
  return RecordTexts.of_jobs[field](text) and true
end

-- An entry of a history, or nil.
function RecordTexts.entry(text)
  local triple = table_of(text)
  return is_entry(triple) and triple or nil
end
end
elseif module_name == 'Results' then
return function()
local Results = {
left = 0, show = 0, gone = 0
}
modules.Results = Results
-- results.lua
-- What jobs have returned, kept for a while in keys that expire by themselves.

-- The seconds that were left of the time for which the result of a complete job is kept, by its record; nil
-- if it has returned nothing. (The run must be the last: an old copy of the core leaves the field.)
function Results.left(returned, token)
  local time, run = string.match(returned or '', '^(%d+) (.*)$')
  if time and run == (token or '') then
    return tonumber(time) - scope.now
  end
end

local function is_gone(jid)
  local state, token, returned = modules.Hash.values(key.job(jid), 'state', 'token', 'returned')
  return state == 'complete' and Results.left(returned, token) and call('EXISTS', key.result(jid)) == 0
end

-- results jid... -> what each returned, JSON, or nil
function Results.show(args, i)
  modules.Arguments.given('results', 'jid', args[i])
  modules.Arguments.bounded('results', #args - i + 1)
  local names = {}
  for n = i, #args do
    names[#names + 1] = key.result(args[n])
  end
  return call('MGET', unpack(names))
end

-- results.gone jid... -> those whose results have expired
function Results.gone(args, i)
  modules.Arguments.given('results.gone', 'jid', args[i])
  modules.Arguments.bounded('results.gone', #args - i + 1)
  local jids = {}
  for n = i, #args do
    if is_gone(args[n]) then
      jids[#jids + 1] = args[n]
    end
  end
  return jids
end
end
elseif module_name == 'ScheduleView' then
return function()
local ScheduleView = {
shown = 0, get = 0, list = 0, of = 0, next = 0, declared = 0, mark = 0, marks = 0
}
modules.ScheduleView = ScheduleView
-- schedules/schedule_view.lua
-- How schedules of both kinds are shown, one by one and in one list; and the marks of who declares them.

local LONGEST_NAME = 255 -- bytes
local MOST_MARKS = 100

local TEXTS = {
  'queue',
  'klass',
  'data',
  'context',
  'unique',
  'name',
  'owner',
  'declared',
  'missed',
  'cron',
  'timezone',
  'trouble',
}

local NUMBERS = { 'priority', 'retries', 'count', 'last', 'interval', 'offset', 'backlog', 'expires' }

-- The text of an object; `next` is missing while it is not known.
local function shown(record)
  local view = {
    id = record.jid,
    kind = record.cron and 'cron' or 'interval',
    edited = record.edited == '1',
    paused = record.paused ~= nil,
    tags = modules.Record.read('tags', record.tags, {}),
  }
  for _, field in ipairs(TEXTS) do
    view[field] = record[field]
  end
  for _, field in ipairs({ 'priority', 'retries', 'count' }) do
    view[field] = 0
  end
  for _, field in ipairs(NUMBERS) do
    view[field] = modules.Record.number(record[field]) or view[field]
  end
  if not record.paused and not record.since then
    view.next = record.due
  end
  return cjson.encode(view)
end

ScheduleView.shown = shown

-- schedule.get id
function ScheduleView.get(args, i)
  local record = modules.Schedules.read(modules.Arguments.given('schedule.get', 'id', args[i]))
  return record and shown(record) or nil
end

-- Every list of schedules: cron ones by their next tick, paused ones, interval ones queue by queue.
local function lists()
  local names, queues = { key.schedules(), key.paused_schedules() }, modules.Queue.names()
  table.sort(queues)
  for _, queue in ipairs(queues) do
    names[#names + 1] = key.place(queue, 'recur')
  end
  return names
end

-- schedule.list [offset count] -> total and schedules
function ScheduleView.list(args, i)
  local offset = math.max(modules.Arguments.offset('schedule.list', args[i]), 0)
  local count = modules.Arguments.count('schedule.list', args[i + 1], 25)
  local total, found = 0, {}
  for _, name in ipairs(lists()) do
    local size = call('ZCARD', name)
    local first = math.max(offset - total, 0)
    local last = math.min(offset + count - total, size) - 1
    if first <= last then
      for _, id in ipairs(call('ZRANGE', name, first, last)) do
        local record = modules.Schedules.read(id)
        found[#found + 1] = record and shown(record)
      end
    end
    total = total + size
  end
  return modules.Json.with(cjson.encode({ total = total }), 'schedules', modules.Json.list(found))
end

-- schedules.of id... -> those that exist
function ScheduleView.of(args, i)
  modules.Arguments.bounded('schedules.of', #args - i + 1)
  local found = {}
  for n = i, #args do
    local record = modules.Schedules.read(args[n])
    found[#found + 1] = record and shown(record)
  end
  return modules.Json.list(found)
end

local MOST_NEXT = 100

-- Takes a schedule in among the first `count` of those seen so far, if it belongs there.
local function take_in(first, id, due, count)
  local n = #first + 1
  while n > 1 and (due < first[n - 1].due or (due == first[n - 1].due and id < first[n - 1].id)) do
    n = n - 1
  end
  if n <= count then
    table.insert(first, n, { id = id, due = due })
    first[count + 1] = nil
  end
end

-- Is the next tick of the schedule still unknown?
local function is_not_worked_out(id)
  return call('HEXISTS', key.schedule(id), 'since') == 1
end

-- The schedules of a list, of which so many are looked at, that are among the first `count`.
local function look_through(first, name, most, count, is_left_out)
  local head = call('ZRANGE', name, 0, most - 1, 'WITHSCORES')
  for n = 1, #head, 2 do
    local due = tonumber(head[n + 1])
    if #first == count and due > first[count].due then
      return -- like all that follow
    elseif not is_left_out or not is_left_out(head[n]) then
      take_in(first, head[n], due, count)
    end
  end
end

-- schedules.next count -> those that tick next, of all queues
function ScheduleView.next(args, i)
  local count = math.min(modules.Arguments.whole('schedules.next', 'count', args[i], 0), MOST_NEXT)
  local first, found = {}, {}
  if count > 0 then
    look_through(first, key.schedules(), modules.Arguments.most, count, is_not_worked_out)
    for _, queue in ipairs(modules.Queue.names(modules.Arguments.most)) do
      look_through(first, key.place(queue, 'recur'), count, count)
    end
  end
  for _, each in ipairs(first) do
    local record = modules.Schedules.read(each.id)
    found[#found + 1] = record and shown(record)
  end
  return modules.Json.list(found)
end

-- schedule.declared -> id, declared, owner, edited (1 or 0) of each that was declared
function ScheduleView.declared()
  local declared, flat = call('HGETALL', key.declared_schedules()), {}
  for n = 1, #declared, 2 do
    local record = modules.Schedules.read(declared[n])
    if record then
      flat[#flat + 1] = declared[n]
      flat[#flat + 1] = declared[n + 1]
      flat[#flat + 1] = record.owner or ''
      flat[#flat + 1] = record.edited or '0'
    end
  end
  return flat
end

-- schedule.mark name expected text -> 1 if the mark was `expected` ('': missing) and is `text` now ('': removed)
function ScheduleView.mark(args, i)
  local name = modules.Arguments.given('schedule.mark', 'name', args[i])
  local expected = modules.Arguments.given('schedule.mark', 'expected', args[i + 1])
  local text = modules.Arguments.given('schedule.mark', 'text', args[i + 2])
  if #name > LONGEST_NAME then
    modules.Errors.argument('schedule.mark', 'name has ' .. #name .. ' bytes, at most ' .. LONGEST_NAME)
  elseif #text > modules.Arguments.data_bytes then
    modules.Errors.raise('TOOBIG', 'schedule.mark(): text has %s bytes, at most %s', #text, modules.Arguments.data_bytes)
  end
  local marks = key.schedule_marks()
  local known = call('HGET', marks, name) or ''
  if known ~= expected then
    return 0
  elseif text == '' then
    call('HDEL', marks, name)
    return 1
  elseif known == '' and call('HLEN', marks) >= MOST_MARKS then
    modules.Errors.raise('TOOBIG', 'schedule.mark(): more than ' .. MOST_MARKS .. ' marks')
  end
  call('HSET', marks, name, text)
  return 1
end

-- schedule.marks -> name, text, name, text …
function ScheduleView.marks()
  return call('HGETALL', key.schedule_marks())
end
end
elseif module_name == 'Serve' then
return function()
local Serve = {
begin = 0, finish = 0, serve = 0
}
modules.Serve = Serve
-- serve.lua
-- Dispatch of calls with KEYS; of those without, see legacy.lua.

-- Functions live from call to call; what they know of a call does not.
function Serve.begin(prefix, live)
  for field in pairs(scope) do
    scope[field] = nil
  end
  scope.prefix, scope.now, scope.live = prefix, 0, live
end

-- Writes down what was left for the end of the call. (Each may leave something for those that follow.)
function Serve.finish()
  if scope.overdue then
    modules.Deadline.finish()
  end
  if scope.workflows then
    modules.Workflow.finish()
  end
  if scope.ended then
    modules.ResultWaiters.finish()
  end
  if scope.canceled then
    modules.Canceled.finish()
  end
  if scope.samples then
    modules.Samples.finish()
  end
  if scope.counts then
    modules.Stats.finish()
  end
  if scope.minutes then
    modules.Minutes.finish()
  end
  if scope.wake then
    modules.Wake.finish()
  end
end

-- Some words of a command read, others write; its arguments stand at args[4] and behind.
local READS_SOMETIMES = {
  tag = function(args)
    return args[4] == 'get' or args[4] == 'top'
  end,
  track = function(args)
    return args[4] == nil
  end,
}

-- The first key never exists: so each node of a cluster refuses the call while the slot is moved. An s at its end
-- says that the caller's subscribers are on sharded channels.
local function read_keys(keys)
  local prefix, sharded = string.match(keys[1], '^(.*)!(s?)$')
  if not prefix or #keys ~= 2 or keys[2] ~= prefix .. 'meta' then
    modules.Errors.raise('BADARG', 'KEYS must be <prefix>! and <prefix>meta')
  end
  return prefix, sharded == 's'
end

-- ARGV = command, now, request, args...
local function answered(keys, args, class)
  Serve.begin('', true)
  scope.prefix, scope.sharded = read_keys(keys)
  local command, now, request = args[1], args[2], args[3]
  local known = command and modules.Commands.find(command)
  if not known then
    modules.Errors.raise('NOCOMMAND', 'Unknown command ' .. modules.Errors.name(command))
  end
  if not now or not request then
    modules.Errors.raise('BADARG', command .. '(): now and request wanted')
  end
  local sometimes = READS_SOMETIMES[command]
  scope.reading = known.reads or sometimes ~= nil and sometimes(args)
  if class == 'read' and not scope.reading then
    modules.Errors.raise('BADARG', command .. '() writes: call it in the write or the drain class')
  end
  modules.Arguments.weigh(command, args)
  local answer = modules[known.module][known.what]
  if scope.reading then
    modules.Clock.set(now)
    return answer(args, 4)
  end
  modules.Replies.announce(request)
  local stored = modules.Clock.set(now, modules.Replies.field())
  local served, reply = modules.Replies.recall(stored)
  if served then
    -- Written again, unchanged: WAIT tells which replicas have what a connection has written, and a
    -- repeat may come over another one.
    call('HSET', key.meta(), modules.Replies.field(), stored)
    return reply
  end
  reply = answer(args, 4)
  if modules.Clock.is_round() then
    modules.WorkflowVerbs.carry_on()
  end
  Serve.finish()
  if scope.client then
    modules.Clock.keep(modules.Replies.field(), modules.Replies.kept(reply))
  else
    modules.Clock.keep()
  end
  if scope.client and not stored then
    modules.Replies.tidy()
  end
  return reply
end

-- How servers say that the ACL refuses a command of a script: from 7.2 on, and before.
local DENIALS = { 'ACL failure in script', 'The user executing the script can\'t' }

-- An error of the server, whose code says so if its ACL has refused a command.
local function server_error(text)
  for _, phrase in ipairs(DENIALS) do
    if string.find(text, phrase, 1, true) then
      return redis.error_reply('DENIED ' .. string.gsub(text, '^ERR ', ''))
    end
  end
  return redis.error_reply(text)
end

-- A refusal becomes a reply whose first word is its code.
function Serve.serve(keys, args, class)
  local fine, reply = pcall(answered, keys, args, class)
  if fine then
    return reply
  elseif modules.Errors.is_refusal(reply) then
    return redis.error_reply(reply.code .. ' ' .. reply.text)
  end
  return server_error(reply)
end
end
elseif module_name == 'Settle' then
return function()
local Settle = {
most = 0, settle = 0, rebuild = 0
}
modules.Settle = Settle
-- settle.lua
-- One round trip of a worker: the jobs it has finished, then the next ones to run.

-- Seconds until an idle worker comes again to carry on with what a client has left.
local SOON = 0.01

local LONGEST_WAIT = 24 * 3600 -- seconds; a client may ask again
Settle.most = 250 -- jobs settled and reserved by one call

-- jid token held verb k arg*k, `count` times from args[i] on; `held` is for how many seconds the job lay
-- in its worker's hands before it was started, '' if it was not, or the time is not known.
-- -> where each begins, their jids, where the rest begins
local function parse(args, i, count)
  local starts, jids, planned = {}, {}, {}
  for n = 1, count do
    local verb, given =
      modules.SettleVerbs.named(args[i + 3]), modules.Arguments.whole('settle', 'number of arguments', args[i + 4], 0)
    if not verb then
      modules.Errors.argument('settle', 'Unknown verb %s for job %s', modules.Errors.name(args[i + 3]), modules.Errors.name(args[i]))
    end
    if i + 4 + given > #args then
      modules.Errors.argument('settle', 'Arguments of job ' .. modules.Errors.name(args[i]) .. ' are incomplete')
    end
    args[i + 2], args[i + 4] = modules.Arguments.held('settle', args[i + 2]) or false, given
    verb.check(args, i + 5, given, args[i], planned)
    starts[n], jids[n] = i, args[i]
    i = i + 5 + given
  end
  return starts, jids, i
end

-- A settlement whose lock is lost changes nothing and stops no other.
local function settle(args, starts, jids)
  local refused, completed = {}, { jids = {}, rare = {}, queues = {}, workers = {} }
  local tracked = modules.Tracking.among(jids)
  for n = 1, #starts do
    local i = starts[n]
    local code, text = modules.SettleVerbs.named(args[i + 3])
      .act(args[i], args[i + 1], args[i + 2], args, i + 5, args[i + 4], completed, tracked)
    if code then
      refused[#refused + 1] = { args[i], code, text }
    end
  end
  modules.SettleVerbs.finish(completed)
  return refused
end

-- What mostly does not exist, asked for once for all jobs of the call. -> whether nothing is left that
-- could be carried on
local function look_around(jids, choice)
  local names = { key.releasing(), key.cascading(), key.tracked(), key.paused_queues(), key.workflows() }
  if #jids == 1 then
    names[6] = key.dependents(jids[1])
  end
  local queues = choice and choice.few
  if not queues then
    return modules.ExistenceCache.look_for(names, {})
  end
  local theirs = {}
  for n = 1, #queues do
    local queue, at = queues[n], 5 * n
    theirs[at - 4], theirs[at - 3] = key.place(queue, 'scheduled'), key.place(queue, 'recur')
    theirs[at - 2], theirs[at - 1], theirs[at] =
      key.place(queue, 'ticks'), key.idle_at(queue), key.wake_at(queue)
  end
  theirs[#theirs + 1] = choice.globbing and key.idle() or nil
  return modules.ExistenceCache.look_for(names, theirs)
end

-- -> what is told of each job; and what a repeat of the request needs: jid, token, jid, token …
local function reserve(choice, worker, wish)
  local jobs, held = {}, {}
  local function visit(jid, token, told)
    jobs[#jobs + 1] = told
    held[#held + 1] = jid
    held[#held + 1] = token
  end
  local function take(queue, count)
    if (choice.many and modules.Nonempty.is_bare(queue)) or modules.Pop.is_paused(queue) then
      return 0
    end
    return modules.Pop.take(queue, worker, count, visit, true)
  end
  modules.QueueChoice.serve(choice, wish.count, wish.turns, take)
  -- Who brings a job back that it got in this second has been written down in this second.
  if #jobs > 0 and scope.seen ~= worker then
    call('ZADD', key.workers(), modules.NumberFormat.now(), worker)
  end
  return jobs, held
end

-- count q queue*q [exclude glob | wait seconds | turns 1 | exhausted 1]...
local function parse_wish(args, i)
  local wish = { names = {}, excluded = {} }
  wish.count = modules.Arguments.whole('settle', 'count', args[i], 0)
  local named = modules.Arguments.whole('settle', 'number of queues', args[i + 1], 0)
  if i + 1 + named > #args then
    modules.Errors.argument('settle', 'Fewer queues than announced')
  end
  modules.Arguments.bounded('settle', named)
  for n = i + 2, i + 1 + named do
    wish.names[#wish.names + 1] = modules.Arguments.name('settle', 'queue', args[n])
  end
  for n = i + 2 + named, #args, 2 do
    if args[n] == 'exclude' and args[n + 1] then
      wish.excluded[#wish.excluded + 1] = args[n + 1]
    elseif args[n] == 'wait' then
      wish.wait = math.max(0, math.min(modules.Arguments.number('settle', 'wait', args[n + 1]), LONGEST_WAIT))
    elseif args[n] == 'turns' and args[n + 1] == '1' then
      wish.turns = true
    elseif args[n] == 'exhausted' and args[n + 1] == '1' then
      wish.exhausted = true
    else
      modules.Errors.argument('settle', 'Unknown option ' .. modules.Errors.name(args[n]))
    end
  end
  return wish
end

-- Carries on with what earlier calls had to leave. -> whether a workflow has more of it
local function carry_on()
  modules.Dependencies.carry_on()
  return modules.WorkflowVerbs.carry_on()
end

-- settle worker s (settlement)*s count q queue*q [pairs] -> { refused, jobs, rest, now, exhausted }: the time by
-- which the locks on the jobs are measured, if jobs were asked for; those that have failed as their last locks were
-- lost, if these were asked for and there are any
function Settle.settle(args, i)
  local worker = modules.Arguments.name('settle', 'worker', args[i])
  local count = modules.Arguments.whole('settle', 'number of settlements', args[i + 1], 0)
  local starts, jids, rest_at = parse(args, i + 2, math.min(count, Settle.most + 1))
  local wish = parse_wish(args, rest_at)
  if count + wish.count > Settle.most then
    modules.Errors.raise('TOOBIG', 'settle(): ' .. count + wish.count .. ' jobs in one call, at most ' .. Settle.most)
  end
  local choice = wish.count > 0 and modules.QueueChoice.of(wish.names, wish.excluded)
  local quiet = look_around(jids, choice)
  local refused = settle(args, starts, jids)
  local goes_on = not quiet and carry_on()
  goes_on = goes_on or modules.Dependencies.left() <= 0 -- dependents may be left, for which no worker is woken
  local jobs, held, rest = {}, {}, {}
  if choice then
    scope.asks_exhausted = wish.exhausted
    jobs, held = reserve(choice, worker, wish)
    held.now = modules.NumberFormat.now()
    local client = scope.client or worker
    modules.Wake.busy(client, worker, choice, #jobs > 0)
    if #jobs == 0 and wish.wait then
      local seconds = goes_on and math.min(wish.wait, SOON) or wish.wait
      rest = modules.Wake.wait(client, worker, choice, seconds)
    end
  end

  held.refused = #refused > 0 and refused or nil
  held.rest = #rest > 0 and rest or nil
  held.exhausted = scope.exhausted
  modules.Replies.shorten('settle', held)
  return { refused, jobs, rest, held.now, held.exhausted }
end

-- The reply again: of the jobs handed out, those that their worker still holds.
function Settle.rebuild(held)
  local jobs = {}
  for n = 1, #held, 2 do
    local told = modules.Pop.told_again(held[n], held[n + 1])
    jobs[#jobs + 1] = told
  end
  return { held.refused or {}, jobs, held.rest or {}, held.now, held.exhausted }
end
end
elseif module_name == 'SettleVerbs' then
return function()
local SettleVerbs = {
finish = 0, complete = 0, named = 0
}
modules.SettleVerbs = SettleVerbs
-- settle_verbs.lua
-- The verbs of settle: what each does to a job that a worker held, and its arguments. Nearly all jobs are completed, and
-- for all of them this one is written to be fast; the others are in other_verbs.lua.

-- What the completed jobs of a call have in common is written once, at the end.
function SettleVerbs.finish(completed)
  if #completed.jids == 0 then
    return
  end
  for queue, list in pairs(completed.queues) do
    modules.SortedSet.remove(key.place(queue, 'locks'), list)
    modules.Wake.freed(queue, #list)
  end
  for worker, list in pairs(completed.workers) do
    modules.SortedSet.remove(key.held(worker), list)
  end
  modules.SortedSet.add(key.completed(), modules.NumberFormat.now(), completed.jids)
  modules.JobEnd.completed(completed.jids, completed.rare) -- which reads the records, so before they may go
  modules.Expiry.after(#completed.jids)
end

local function append(lists, name, jid)
  local list = lists[name]
  if list then
    list[#list + 1] = jid
  else
    lists[name] = { jid }
  end
end

-- How each verb checks its `n` arguments from args[a] on (before anything is written), and
-- what it then does. -> code, text if the settlement is refused
SettleVerbs.complete = {
  check = function(args, a, n)
    if n == 0 then
      return
    end
    if args[a] ~= '' then
      modules.Arguments.json('settle', 'result', args[a], modules.Arguments.text_bytes)
      args[a + 1] = modules.Arguments.whole('settle', 'result_ttl', n > 1 and args[a + 1] or nil, 1)
    end
    if n > 2 then
      modules.Arguments.json('settle', 'data', args[a + 2])
    end
  end,
  act = function(jid, token, held, args, a, n, completed, tracked)
    local worker, queue, time, retries, rare, waited, put = modules.Lock.completed(jid, token)
    if not worker then
      return queue, time -- code and text
    end
    held = held or modules.Samples.held(waited) or 0
    local is_written = modules.History.done_with(jid, held, put, queue, worker)
    local popped = modules.Record.read('time', time, scope.now)
    if math.floor(popped) == math.floor(scope.now) then
      scope.seen = worker
    end
    modules.Samples.add('run', queue, scope.now - modules.Samples.started(queue, popped, waited, held))
    local returned = n > 1 and modules.Outcome.keep_result(jid, token, args[a], args[a + 1])
    if tracked[jid] then
      modules.Events.tracked('completed', jid)
    end
    modules.Events.completed(jid, queue)
    local name = key.job(jid)
    modules.Outcome.write_complete(
      name,
      modules.Record.text('retries', retries, '0'),
      n > 2 and args[a + 2],
      returned,
      is_written
    )
    if rare and rare ~= '1' then -- of the others JobEnd knows whether there is anything to forget
      modules.Outcome.forget_marks(name)
    end
    append(completed.queues, queue, jid)
    append(completed.workers, worker, jid)
    completed.jids[#completed.jids + 1] = jid
    if rare == '1' then
      completed.rare[#completed.rare + 1] = jid
    end
  end,
}

-- The verb of this name, or nil.
function SettleVerbs.named(name)
  return name == 'complete' and SettleVerbs.complete or modules.OtherVerbs.by_name[name]
end
end
elseif module_name == 'WorkerControl' then
return function()
local WorkerControl = {
order = 0, take = 0, forget = 0
}
modules.WorkerControl = WorkerControl
-- worker_control.lua
-- What operators ask of a worker.

local KNOWN = { quiet = true, resume = true, stop = true }
local MOST = 20 -- orders kept for a worker that does not fetch them; the latest are

local function must_be_known(worker)
  if not call('ZSCORE', key.workers(), worker) and call('EXISTS', key.worker(worker)) == 0 then
    modules.Errors.raise('NOWORKER', 'order(): Worker ' .. modules.Errors.name(worker) .. ' is not known')
  end
end

-- order worker quiet|resume|stop: for the worker's next beat
function WorkerControl.order(args, i)
  local worker, order = modules.Arguments.name('order', 'worker', args[i]), args[i + 1]
  if not KNOWN[modules.Arguments.given('order', 'order', order)] then
    modules.Errors.argument('order', 'order must be quiet, resume or stop, not ' .. modules.Errors.value(order))
  end
  must_be_known(worker)
  local name = key.orders(worker)
  call('RPUSH', name, order)
  call('LTRIM', name, -MOST, -1)
  call('EXPIRE', name, modules.Config.worker_age())
  modules.Events.order(worker, order)
end

-- The orders of a worker, the first first: each is given out once.
function WorkerControl.take(worker)
  local name = key.orders(worker)
  local orders = call('LRANGE', name, 0, -1)
  if #orders > 0 then
    call('DEL', name)
  end
  return orders
end

function WorkerControl.forget(worker)
  call('DEL', key.orders(worker))
end
end
elseif module_name == 'WorkflowPut' then
return function()
local WorkflowPut = {
gate = 0, put = 0, stage = 0, release = 0, forget_staged = 0, unpack = 0
}
modules.WorkflowPut = WorkflowPut
-- workflows/workflow_put.lua
-- How workflows are put: small ones in one call, large ones staged, released and then unpacked.
-- Nothing of a workflow runs before all of it is there.

local match = string.match

-- Seconds that what was staged is kept at most without a release.
local LONGEST = 24 * 3600

-- What holds back the first jobs until the last is there: a dependency without a record.
function WorkflowPut.gate(id)
  return 'gate:' .. id
end

-- The id of a workflow that is to be made. (No colon: that is how its keys are told apart.)
local function new_id(command, id)
  modules.Arguments.given(command, 'workflow', id)
  if not match(id, '^[%w_.~-]+$') or #id > 128 then
    modules.Errors.argument(
      command,
      'workflow must be 1 to 128 letters, digits and _ . ~ -, not ' .. modules.Errors.value(id)
    )
  end
  if call('EXISTS', key.workflow(id)) == 1 then
    modules.Errors.raise('STATE', command .. '(): Workflow ' .. modules.Errors.name(id) .. ' exists already')
  end
  return id
end

local function behind(command, jid, other)
  modules.Errors.raise(
    'CYCLE',
    '%s(): Job %s must stand behind %s, on which it depends',
    command,
    modules.Errors.name(jid),
    modules.Errors.name(other)
  )
end

-- Each job is new, belongs to the workflow and stands behind those that it depends on: so there can
-- be no cycle.
local function check_members(command, id, plan)
  local at, links, names = {}, 0, {}
  for n, job in ipairs(plan.jobs) do
    at[job.jid], names[n] = n, key.job(job.jid)
  end
  if #names == 0 then
    modules.Errors.argument(command, 'a workflow needs at least one job')
  end
  local old = call('EXISTS', unpack(names)) > 0
  for n, job in ipairs(plan.jobs) do
    if job.workflow ~= id then
      modules.Errors.argument(command, 'Job ' .. modules.Errors.name(job.jid) .. ' does not name its workflow')
    elseif old and call('EXISTS', names[n]) == 1 then
      modules.Errors.raise('STATE', command .. '(): Job ' .. modules.Errors.name(job.jid) .. ' exists already')
    end
    for _, other in ipairs(job.depends or {}) do
      links = links + 1
      if (at[other] or 0) >= n then
        behind(command, job.jid, other)
      end
    end
  end
  modules.Arguments.bounded(command, links)
end

local function begin(id, meta, total, chore)
  call(
    'HSET',
    key.workflow(id),
    'state',
    chore or 'running',
    'meta',
    meta,
    'created',
    modules.NumberFormat.now(),
    'total',
    total,
    'complete',
    0,
    'failed',
    0,
    'canceled',
    0,
    'held',
    0
  )
  if chore then
    call('HSET', key.workflow(id), 'chore', chore)
    call('ZADD', key.workflows(), modules.NumberFormat.now(), id)
  end
end

-- workflow.put id worker meta (item)... -> id; the items as those of put.many
function WorkflowPut.put(args, i)
  local id = new_id('workflow.put', args[i])
  local worker = modules.Arguments.asking('workflow.put', args[i + 1])
  modules.Arguments.object('workflow.put', 'meta', args[i + 2])
  modules.Workflow.will_take(id)
  local plan = modules.PutMany.plan('workflow.put', args, i + 3, { acyclic = true })
  check_members('workflow.put', id, plan)
  begin(id, args[i + 2], 0)
  modules.Workflow.count(id, 'total', 0) -- so that its state is judged even if others stand for all its jobs
  modules.PutMany.carry_out(plan, worker)
  return id
end

-- Staged jobs are as good as there. -> what tells a jid's place among them, or nil
local function staged_before(id)
  local name = key.staged_jids(id)
  return function(jid)
    return tonumber(call('ZSCORE', name, jid) or nil)
  end
end

local function slice(args, i)
  local part, n = {}, 0
  for at = i, #args do
    n = n + 1
    part[n] = args[at]
  end
  return part
end

local STAGE = {}

-- -> the jids that come with them
function STAGE.jobs(id, args, i)
  local known = staged_before(id)
  local plan = modules.PutMany.plan('workflow.stage', args, i, { acyclic = true, known = known })
  check_members('workflow.stage', id, plan)
  local jids = {}
  for n, job in ipairs(plan.jobs) do
    if known(job.jid) then
      modules.Errors.raise('STATE', 'workflow.stage(): Job ' .. modules.Errors.name(job.jid) .. ' is staged already')
    end
    jids[n] = job.jid
  end
  return jids
end

-- Further dependencies of a job that was staged without any: jid, other...
function STAGE.links(id, args, i, are_met)
  local known, jid = staged_before(id), modules.Arguments.given('workflow.stage', 'jid', args[i])
  local place = known(jid) or modules.Errors.no_job('workflow.stage', jid)
  modules.Arguments.bounded('workflow.stage', #args - i)
  for n = i + 1, #args do
    local before = known(args[n])
    if before and before >= place then
      behind('workflow.stage', jid, args[n])
    elseif not before and not are_met and call('EXISTS', key.job(args[n])) == 0 then
      modules.Errors.no_job('workflow.stage', args[n])
    end
  end
  return {}
end

-- The same of jobs that are known to be complete: they may have no record any more.
function STAGE.met(id, args, i)
  return STAGE.links(id, args, i, true)
end

-- Their places in the order in which they were staged.
local function number(name, jids)
  local last, values = call('ZCARD', name), {}
  for n, jid in ipairs(jids) do
    values[2 * n - 1], values[2 * n] = last + n, jid
  end
  if #jids > 0 then
    call('ZADD', name, unpack(values))
  end
end

-- workflow.stage id seconds jobs (item)...   workflow.stage id seconds links|met jid other...
-- -> how many batches there are; without a release they go after so many seconds.
function WorkflowPut.stage(args, i)
  local id = new_id('workflow.stage', args[i])
  local seconds = modules.Arguments.whole('workflow.stage', 'seconds', args[i + 1], 1)
  local stage = STAGE[args[i + 2] or '']
  if not stage then
    modules.Errors.argument('workflow.stage', 'jobs or links wanted, not ' .. modules.Errors.value(args[i + 2]))
  end
  modules.Workflow.will_take(id)
  local raw = slice(args, i + 3) -- before it is read, which changes places in it
  local jids = stage(id, args, i + 3)
  local batches = call('RPUSH', key.staged(id), cmsgpack.pack({ args[i + 2], raw, #jids }))
  number(key.staged_jids(id), jids)
  call('EXPIRE', key.staged(id), math.min(seconds, LONGEST))
  call('EXPIRE', key.staged_jids(id), math.min(seconds, LONGEST))
  return batches
end

-- workflow.release id worker meta batches -> how many are to be unpacked
function WorkflowPut.release(args, i)
  local id = new_id('workflow.release', args[i])
  modules.Arguments.asking('workflow.release', args[i + 1])
  modules.Arguments.object('workflow.release', 'meta', args[i + 2])
  local batches = modules.Arguments.whole('workflow.release', 'batches', args[i + 3], 1)
  local there = call('LLEN', key.staged(id))
  if there ~= batches then
    modules.Errors.raise(
      'STATE',
      'workflow.release(): %s of %s batches of workflow %s are there: were the others staged too long ago?',
      there,
      batches,
      id
    )
  end
  call('PERSIST', key.staged(id))
  call('PERSIST', key.staged_jids(id))
  begin(id, args[i + 2], call('ZCARD', key.staged_jids(id)), 'unpacking')
  call('HSET', key.workflow(id), 'worker', args[i + 1])
  return batches
end

-- For which jobs of earlier batches others have come to stand, as what knows their jids; or nil
local function instead_of(id)
  local name = key.staged_instead(id)
  return call('EXISTS', name) == 1
    and {
      __index = function(_, jid)
        return call('HGET', name, jid) or nil
      end,
    }
end

local UNPACK = {}

-- What depends on no other job of the workflow waits at the gate.
function UNPACK.jobs(id, args, jobs)
  local known, gate = staged_before(id), WorkflowPut.gate(id)
  modules.Workflow.will_take(id)
  local how = { acyclic = true, lenient = true, instead = instead_of(id) or nil }
  local fine, plan = pcall(modules.PutMany.plan, 'workflow.carry', args, 1, how)
  if not fine then
    -- It was fine when it was staged. The present caller must not be told.
    modules.Workflow.count(id, 'canceled', jobs)
    return
  end
  for _, job in ipairs(plan.jobs) do
    local inside = false
    for _, other in ipairs(job.depends or {}) do
      inside = inside or known(other)
    end
    job.gate = not inside and gate or nil
  end
  local instead = modules.PutMany.carry_out(plan, call('HGET', key.workflow(id), 'worker') or '')[2]
  if #instead > 0 then
    call('HSET', key.staged_instead(id), unpack(instead)) -- for the batches to come
  end
  -- All of them were counted at the release.
  modules.Workflow.count(id, 'total', -#plan.jobs)
end

function UNPACK.links(id, args)
  local state, workflow = modules.Hash.values(key.job(args[1]), 'state', 'workflow')
  if state == 'depends' and workflow == id then
    local others, instead = slice(args, 2), setmetatable({}, instead_of(id) or nil)
    for n = 1, #others do
      others[n] = instead[others[n]] or others[n]
    end
    modules.Dependencies.attach(args[1], others)
  end
end

UNPACK.met = UNPACK.links

-- Takes away all that was staged. (Its jobs may be there already.)
function WorkflowPut.forget_staged(id)
  call('DEL', key.staged(id), key.staged_jids(id), key.staged_instead(id))
end

local function open_gate(id)
  WorkflowPut.forget_staged(id)
  call('ZREM', key.workflows(), id)
  call('HDEL', key.workflow(id), 'chore', 'worker')
  modules.Workflow.count(id, 'total', 0) -- so that its state is computed again
  modules.Dependencies.release({ WorkflowPut.gate(id) })
end

-- One batch of a released workflow becomes jobs; with the last one they may begin.
-- -> how many are left
function WorkflowPut.unpack(id)
  local packed = call('LPOP', key.staged(id))
  if packed then
    local fine, batch = pcall(cmsgpack.unpack, packed)
    if fine and type(batch) == 'table' and UNPACK[batch[1]] then
      UNPACK[batch[1]](id, batch[2], batch[3])
    end
  end
  local left = call('LLEN', key.staged(id))
  if left == 0 then
    open_gate(id)
  end
  return left
end
end
elseif module_name == 'Bulk' then
return function()
local Bulk = {
revive = 0, move = 0, priority = 0, timeout = 0, tag = 0, untag = 0, track = 0, untrack = 0, cancel
= 0
}
modules.Bulk = Bulk
-- bulk.lua
-- Commands on several jobs, each for itself: what is refused of one does not stop the others.
--
-- The command on one job is the one that exists; it refuses before it writes.

local MOST = 250 -- jobs
local ROUNDS = 10 -- in which jobs are tried again that were refused because of others

-- -> why it was refused, in words, or nil
local function attempt(act, jid, args, i)
  local fine, problem = pcall(act, jid, args, i)
  if fine then
    return nil
  elseif modules.Errors.is_refusal(problem) then
    return string.gsub(problem.text, '^[%w.]+%(%): ', '', 1)
  end
  error(problem, 0)
end

-- The jids that begin at this place, each once.
local function jids_from(command, args, i)
  modules.Arguments.given(command, 'jid', args[i])
  if #args - i + 1 > MOST then
    modules.Errors.raise('TOOBIG', command .. '(): ' .. #args - i + 1 .. ' jobs in one call, at most ' .. MOST)
  end
  local jids, seen = {}, {}
  for n = i, #args do
    if not seen[args[n]] then
      seen[args[n]] = true
      jids[#jids + 1] = args[n]
    end
  end
  return jids
end

-- What was done, and what refused: { jids, { jid, words … } }
local function outcome(jids, refused)
  local done, others = {}, {}
  for _, jid in ipairs(jids) do
    if refused[jid] then
      others[#others + 1], others[#others + 2] = jid, refused[jid]
    else
      done[#done + 1] = jid
    end
  end
  return { done, others }
end

-- Makes <command> [argument...] jid... of what acts on one job; `check` looks at the arguments, of
-- which there are `number`.
local function each(command, number, act, check)
  return function(args, i)
    local jids, refused = jids_from(command, args, i + number), {}
    if check then
      check(args, i)
    end
    for _, jid in ipairs(jids) do
      refused[jid] = attempt(act, jid, args, i)
    end
    return outcome(jids, refused)
  end
end

local function state_of(command, jid)
  return modules.Job.state_now(jid) or modules.Errors.no_job(command, jid)
end

Bulk.revive = each('revive.each', 0, function(jid)
  local state = state_of('revive.each', jid)
  local unique = call('HGET', key.job(jid), 'unique')
  if state ~= 'failed' then
    modules.Errors.raise('STATE', 'Job ' .. modules.Errors.name(jid) .. ' has not failed: it is ' .. modules.Errors.state(state))
  end
  local other, its_state = modules.Unique.other(jid, unique)
  if other then
    modules.Unique.refuse('revive.each', { jid = jid, unique = modules.Unique.shown(unique) }, other, its_state)
  end
  modules.Revive.revive({ jid }, 1)
end)

Bulk.move = each('move.each', 2, function(jid, args, i)
  local klass, data, context = modules.Hash.values(key.job(jid), 'klass', 'data', 'context')
  if not klass then
    modules.Errors.no_job('move.each', jid)
  end
  local put = { '', args[i], jid, klass, data or '', args[i + 1] }
  if modules.Record.text('context', context) then
    put[#put + 1], put[#put + 2] = 'context', context
  end
  modules.Put.requeue(put, 1)
end, function(args, i)
  modules.Arguments.queue('move.each', args[i])
  modules.Arguments.number('move.each', 'delay', args[i + 1])
end)

Bulk.priority = each('priority.each', 1, function(jid, args, i)
  modules.Job.priority({ jid, args[i] }, 1)
end, function(args, i)
  modules.Arguments.number('priority.each', 'priority', args[i])
end)

Bulk.timeout = each('timeout.each', 0, function(jid)
  modules.Job.timeout({ jid }, 1)
end)

Bulk.tag = each('tag.each', 1, function(jid, args, i)
  modules.Tags.command({ 'add', jid, args[i] }, 1)
end)

Bulk.untag = each('untag.each', 1, function(jid, args, i)
  modules.Tags.command({ 'remove', jid, args[i] }, 1)
end)

Bulk.track = each('track.each', 0, function(jid)
  modules.Tracking.track({ 'track', jid }, 1)
end)

-- (Also what is gone: otherwise it would be listed for ever.)
Bulk.untrack = each('untrack.each', 0, function(jid)
  if call('EXISTS', key.job(jid)) == 1 or call('ZREM', key.tracked(), jid) == 0 then
    modules.Tracking.track({ 'untrack', jid }, 1)
  end
end)

local function cancel(jid)
  if state_of('cancel.each', jid) == 'complete' then
    modules.Errors.raise('STATE', 'Job ' .. modules.Errors.name(jid) .. ' is complete')
  end
  modules.Job.cancel({ jid }, 1)
end

-- Tries each of the jids, from the last to the first if `backwards`. -> those that were refused
local function try(jids, backwards, refused)
  local left, first, last, step = {}, 1, #jids, 1
  if backwards then
    first, last, step = #jids, 1, -1
  end
  for n = first, last, step do
    local jid = jids[n]
    refused[jid] = attempt(cancel, jid)
    if refused[jid] then
      table.insert(left, backwards and 1 or #left + 1, jid)
    end
  end
  return left
end

-- Is the job gone that was there before: canceled with another one of the call?
local function went_with_others(jid, there)
  return there[jid] and call('EXISTS', key.job(jid)) == 0
end

-- cancel.each jid...: a job goes after those that wait for it, whatever the order given
function Bulk.cancel(args, i)
  local jids, refused, there = jids_from('cancel.each', args, i), {}, {}
  for _, jid in ipairs(jids) do
    there[jid] = call('EXISTS', key.job(jid)) == 1
  end
  local left, round = jids, 0
  repeat
    local before = #left
    round = round + 1
    left = try(left, round % 2 == 1, refused)
  until #left == 0 or #left == before or round == ROUNDS
  for _, jid in ipairs(left) do
    if went_with_others(jid, there) then
      refused[jid] = nil
    end
  end
  return outcome(jids, refused)
end
end
elseif module_name == 'Deliveries' then
return function()
local Deliveries = {
deliver = 0, forget = 0, never_ending = 0, too_many = 0
}
modules.Deliveries = Deliveries
-- deliveries.lua
-- Deliveries: calls that a database's outbox hands over, each of which is carried out once.
--
-- A process may die between such a call and the commit that takes it out of its outbox. Then it is handed over
-- again, however much later; the reply that is kept for repeats, and the job's record, may be gone by then. So a
-- delivery leaves a mark, which stays until its source has said that the entry is gone.

local DAY = 86400
local LONGEST = 7 * DAY -- seconds that a mark stays if its source never says so
local GRACE = 60 -- and after it has said so: who has read the entry before may still hand it over
local MOST = 100000 -- marks; beyond that those go that have the least time left
local AT_ONCE = 20 -- marks that a call takes away because their time is over
local MOST_FORGOTTEN = 100

-- The commands that an outbox may hand over.
local CARRIED = {
  put = true,
  push = true,
  ['put.many'] = true,
  ['workflow.put'] = true,
  ['workflow.stage'] = true,
  ['workflow.release'] = true,
  ['workflow.carry'] = true,
  ['schedule.set'] = true,
  ['schedule.remove'] = true,
}

local function mark_id(command, id)
  modules.Arguments.name(command, 'delivery', id)
  modules.Arguments.plain(command, 'delivery', id)
  return id
end

local function ids(command, args, first, last)
  local found = {}
  for n = first, last do
    found[#found + 1] = mark_id(command, args[n])
  end
  return found
end

-- Those that are marked stay for the time of grace yet. -> how many these are
local function forget(marks)
  local name, left = key.deliveries(), modules.NumberFormat.later(GRACE)
  local some = {}
  for _, id in ipairs(marks) do
    if call('ZSCORE', name, id) then
      some[#some + 1] = id
    end
  end
  modules.SortedSet.add(name, left, some)
  return #some
end

-- Takes away some of those whose time is over, and what is too much.
local function tidy()
  local name = key.deliveries()
  local over = call('ZRANGEBYSCORE', name, '-inf', scope.now, 'LIMIT', 0, AT_ONCE)
  modules.SortedSet.remove(name, over)
  local many = Deliveries.too_many()
  if many > 0 then
    call('ZREMRANGEBYRANK', name, 0, many - 1)
  end
end

-- The call itself, as if it had been made without an outbox.
local function carry_out(args, at)
  local command = args[at]
  if not CARRIED[command] then
    modules.Errors.argument('deliver', 'a command that enqueues is wanted, not ' .. modules.Errors.value(command))
  end
  local inner = { command, args[2], args[3] }
  for n = at + 1, #args do
    inner[#inner + 1] = args[n]
  end
  local known = modules.Commands.find(command)
  return modules[known.module][known.what](inner, 4)
end

-- deliver id count (id whose entry is gone)*count command args... -> 1 and its reply; 0 if it was delivered before
function Deliveries.deliver(args, i)
  local id = mark_id('deliver', args[i])
  local count = modules.Arguments.whole('deliver', 'count', args[i + 1], 0)
  if count > MOST_FORGOTTEN then
    modules.Errors.argument('deliver', 'at most ' .. MOST_FORGOTTEN .. ' ids at a time, not ' .. count)
  end
  local gone = ids('deliver', args, i + 2, i + 1 + count)
  local answer = { 0 }
  if not call('ZSCORE', key.deliveries(), id) then
    answer = { 1, carry_out(args, i + 2 + count) }
    call('ZADD', key.deliveries(), modules.NumberFormat.later(LONGEST), id)
  end
  forget(gone)
  tidy()
  return answer
end

-- deliver.forget id... : their entries are gone -> how many of them were marked
function Deliveries.forget(args, i)
  local gone = ids('deliver.forget', args, i, #args)
  if #gone > MOST_FORGOTTEN then
    modules.Errors.argument('deliver.forget', 'at most ' .. MOST_FORGOTTEN .. ' ids at a time, not ' .. #gone)
  end
  local marked = forget(gone)
  tidy()
  return marked
end

-- The mark that stays for longest if that is for longer than any is made for. (A clock that was set back by
-- hours makes marks stay for that much longer. There is at least one.)
function Deliveries.never_ending()
  local last = call('ZRANGE', key.deliveries(), -1, -1, 'WITHSCORES')
  return tonumber(last[2]) >= scope.now + LONGEST + DAY and last[1] or nil
end

-- How many marks there are beyond those that are kept.
function Deliveries.too_many()
  return math.max(0, call('ZCARD', key.deliveries()) - MOST)
end
end
elseif module_name == 'DependencyCommands' then
return function()
local DependencyCommands = {
depends = 0
}
modules.DependencyCommands = DependencyCommands
-- dependency_commands.lua
-- The command that changes what a job waits for.

-- -> the job's policy for failures of what it depends on, and whether it may have rare fields
local function in_depends(jid)
  local state, on_failure, rare = modules.Hash.values(key.job(jid), 'state', 'on_failure', 'rare')
  if state ~= 'depends' then
    modules.Errors.raise('STATE', 'depends(): Job ' .. modules.Errors.name(jid) .. ' is not in the depends state')
  end
  return on_failure, rare
end

local function add(jid, jids, policy)
  local open, beyond = modules.Dependencies.open('depends', jids, nil, policy, nil, jid)
  modules.CycleDetection.refuse('depends', jid, open)
  modules.Dependencies.link(jid, open, policy)
  modules.DependencyResults.add(jid, jids)
  for _, spawner in ipairs(modules.Record.read('beyond', beyond, {})) do
    modules.Spawned.look_beyond(jid, spawner)
  end
end

-- depends jid on|off jid...   depends jid off all
function DependencyCommands.depends(args, i)
  local jid = modules.Arguments.name('depends', 'jid', args[i])
  local word = modules.Arguments.given('depends', 'on or off', args[i + 1])
  if word ~= 'on' and word ~= 'off' then
    modules.Errors.argument('depends', 'Argument "on" or "off" wanted, not ' .. modules.Errors.value(word))
  end
  local policy, rare = in_depends(jid)
  local jids = {}
  for n = i + 2, #args do
    jids[#jids + 1] = args[n]
  end
  modules.Arguments.bounded('depends', #jids)
  if word ~= 'off' then
    add(jid, jids, policy)
    return 1
  end
  local all = jids[1] == 'all'
  if all then
    modules.Dependencies.unlink_all(jid)
  else
    modules.Dependencies.unlink(jid, jids)
  end
  if rare then
    modules.Spawned.forget_beyond(jid, not all and jids or nil)
  end
  modules.Dependencies.free_if_last(jid)
  return 1
end
end
elseif module_name == 'Detached' then
return function()
local Detached = {
keep = 0, get = 0, forget = 0
}
modules.Detached = Detached
-- detached.lua
-- Detached jobs, whose processes outlive the worker that has started them: who watches a run, and its output.

local KEPT = 86400 -- seconds, since the run was last told of

-- detached.keep worker jid token told -> for how many seconds the lock holds, which it renews
-- From now on the worker holds the job, if another one did before. `told` is a JSON object: host, pid, when the
-- run began, the end of its output.
function Detached.keep(args, i)
  local worker, told = modules.Arguments.name('detached.keep', 'worker', args[i]), args[i + 3]
  modules.Arguments.object('detached.keep', 'told', told)
  local job = modules.Lock.holder('detached.keep', args[i + 1], args[i + 2])
  if job.worker ~= worker then
    modules.Job.unhold(job.jid, job.worker)
    call('HSET', key.job(job.jid), 'worker', worker)
    job.worker = worker
  end
  local seconds = modules.Config.heartbeat(job.queue)
  modules.Lock.extend(job, modules.NumberFormat.later(seconds))
  call('ZADD', key.workers(), scope.now, worker)
  call('SET', key.detached(job.jid), told, 'EX', KEPT)
  return tostring(seconds)
end

-- detached.get jid -> what is kept of the job's latest run, JSON
function Detached.get(args, i)
  return call('GET', key.detached(modules.Arguments.name('detached.get', 'jid', args[i])))
end

-- forget jid: deletes an ended job with its result, its failure and its output. -> whether there was anything
function Detached.forget(args, i)
  local jid = modules.Arguments.name('forget', 'jid', args[i])
  local state, queue = modules.Hash.values(key.job(jid), 'state', 'queue')
  if state == 'failed' then
    modules.Job.cancel({ jid }, 1)
    modules.Canceled.forget(jid)
  elseif state == 'complete' then
    call('ZREM', key.completed(), jid)
    modules.Job.erase(jid, call('HGET', key.job(jid), 'tags'))
  elseif state then
    local now = modules.Places.state_now(jid, queue or '', state)
    modules.Errors.raise('STATE', 'forget(): Job ' .. modules.Errors.name(jid) .. ' has not ended: ' .. now)
  end
  return (call('DEL', key.result(jid), key.detached(jid)) > 0 or state) and 1 or 0
end
end
elseif module_name == 'EntityView' then
return function()
local EntityView = {
show = 0, list = 0, counts = 0
}
modules.EntityView = EntityView
-- views/entity_view.lua
-- Entities as pages and handles show them; nothing here writes.

local LISTS = { fresh = 'fresh', retrying = 'retrying', dead = 'dead' }
local SHOWN = 256 * 1024 -- bytes of payloads in one reply

-- A part of a set of payloads: [[score, text] …], as JSON.
local function payloads(name, offset, count)
  local flat, shown, bytes = call('ZRANGE', name, offset, offset + count - 1, 'WITHSCORES'), {}, 0
  for n = 1, #flat, 2 do
    bytes = bytes + #flat[n]
    if bytes > SHOWN and n > 1 then
      break
    end
    shown[#shown + 1] = '[' .. cjson.encode(flat[n + 1]) .. ',' .. flat[n] .. ']'
  end
  return '[' .. table.concat(shown, ',') .. ']'
end

-- In lists an error is one line: a whole one may have 64 KiB.
local function shortened(message, is_row)
  return is_row and type(message) == 'string' and modules.Headline.of(message) or message
end

local function of_dead(jid, is_row)
  local dead = modules.Hash.all(key.dead_entity(jid))
  if not dead.entity then
    return nil
  end
  return {
    entity = dead.entity,
    jid = jid,
    klass = dead.klass or '',
    data = dead.data or '',
    group = dead.group or '',
    message = shortened(dead.message or '', is_row),
    when = tonumber(dead.when) or 0,
    payloads = call('ZCARD', key.dead_payloads(jid)),
  }
end

-- The job that carries an entity, or nil.
local function of_job(jid, is_row)
  local record = modules.Job.read(jid, true)
  if not record or not record.entity then
    return nil
  end
  local state, due = modules.Places.state_now(jid, record.queue, record.state)
  local retries = modules.Record.read('retries', record.retries, 0)
  local failure = modules.Record.read('failure', record.failure, {})
  failure.message = shortened(failure.message, is_row)
  return {
    entity = record.entity,
    jid = jid,
    klass = record.klass or '',
    data = record.data or '',
    state = state,
    worker = record.worker or '',
    retries = retries,
    count = retries - modules.Record.read('remaining', record.remaining, retries) - 1,
    due = tonumber(due or modules.Record.read('time', record.time, 0)),
    payloads = call('ZCARD', key.payloads(jid)),
    taken = call('ZCARD', key.taken(jid)),
    failure = failure,
    crashes = modules.Record.read('crashes', record.crashes, 0),
  }
end

-- entity.show queue entity [offset count] -> what there is of it: its job, its payloads, what of it is dead
function EntityView.show(args, i)
  local queue, entity = modules.Arguments.queue('entity.show', args[i]), modules.Entity.id('entity.show', args[i + 1])
  local offset = math.max(0, modules.Arguments.offset('entity.show', args[i + 2]))
  local count = math.max(1, modules.Arguments.count('entity.show', args[i + 3], 25))
  local jid = modules.Entity.jid(queue, entity)
  local job, dead = of_job(jid), of_dead(jid)
  return modules.Json.with(
    cjson.encode({ entity = entity, jid = jid, queue = queue }),
    'job',
    job and cjson.encode(job) or 'null',
    'dead',
    dead and cjson.encode(dead) or 'null',
    'waiting',
    payloads(key.payloads(jid), offset, count),
    'running',
    payloads(key.taken(jid), offset, count),
    'dying',
    payloads(key.dead_payloads(jid), offset, count)
  )
end

local MOST_LOCKS = 5000 -- of a queue, that one call looks at

-- The jids of a queue's entities in workers' hands, and how many these are. (Locks beyond the first ones are taken
-- to be entities': few queues have that many, and fewer have other jobs, too.)
local function running(queue)
  local name, jids = key.place(queue, 'locks'), {}
  local locks = call('ZRANGE', name, 0, MOST_LOCKS - 1)
  for _, jid in ipairs(locks) do
    if modules.Entity.is_jid(jid) then
      jids[#jids + 1] = jid
    end
  end
  return jids, call('ZCARD', name) - #locks + #jids
end

-- entities.list fresh|retrying|running|dead|dead-ids queue [offset count] -> how many there are, and some: the
-- next to run first; of the dead the latest first, or in the order of their ids
function EntityView.list(args, i)
  local tab = modules.Arguments.given('entities.list', 'list', args[i])
  local queue = modules.Arguments.queue('entities.list', args[i + 1])
  local offset = math.max(0, modules.Arguments.offset('entities.list', args[i + 2]))
  local count = math.max(1, modules.Arguments.count('entities.list', args[i + 3], 25))
  local shown, total, last = {}, 0, offset + count - 1
  if tab == 'dead' or tab == 'dead-ids' then
    total = call('ZCARD', key.dead(queue))
    local ids = tab == 'dead' and call('ZREVRANGE', key.dead(queue), offset, last)
      or call('ZRANGE', key.dead_ids(queue), offset, last)
    for _, entity in ipairs(ids) do
      shown[#shown + 1] = of_dead(modules.Entity.jid(queue, entity), true)
    end
  elseif tab == 'running' then
    local jids
    jids, total = running(queue)
    for n = offset + 1, math.min(#jids, offset + count) do
      shown[#shown + 1] = of_job(jids[n], true)
    end
  elseif LISTS[tab] then
    local name = key[LISTS[tab]](queue)
    total = call('ZCARD', name)
    for _, jid in ipairs(call('ZRANGE', name, offset, last)) do
      shown[#shown + 1] = of_job(jid, true)
    end
  else
    modules.Errors.argument('entities.list', 'Unknown list ' .. modules.Errors.name(tab))
  end
  local texts = {}
  for n, row in ipairs(shown) do
    texts[n] = cjson.encode(row)
  end
  return '{"total":' .. total .. ',"entities":[' .. table.concat(texts, ',') .. ']}'
end

-- What of a kind was counted in these minutes.
local function counted(queue, kind, from, to)
  local number = 0
  for hour = math.floor(from / 60), math.floor(to / 60) do
    local found = call('HGETALL', key.minutes(queue, hour, kind))
    for n = 1, #found, 2 do
      local minute = hour * 60 + tonumber(found[n])
      number = number + (minute >= from and minute <= to and tonumber(found[n + 1]) or 0)
    end
  end
  return number
end

-- How long the oldest due entity has waited, in seconds.
local function lag_of(queue)
  local oldest = scope.now
  for _, list in ipairs({ key.fresh(queue), key.retrying(queue) }) do
    local head = call('ZRANGE', list, 0, 0, 'WITHSCORES')
    oldest = head[2] and math.min(oldest, tonumber(head[2])) or oldest
  end
  return scope.now - oldest
end

-- How many entities of a list may run later only.
local function delayed(list)
  return call('ZCOUNT', list, '(' .. string.format('%.17g', scope.now), '+inf')
end

-- entities.counts [queue...] -> of each queue with entities: its name and job type, how many are queued (of these
-- fresh and retrying, and delayed), running, dead, the lag in seconds; what was processed and has died in the last
-- hour. Other jobs of the queue are not counted.
function EntityView.counts(args, i)
  local types, shown, queues = modules.Hash.all(key.entity_types()), {}, {}
  modules.Arguments.bounded('entities.counts', #args - i + 1)
  for n = i, #args do
    queues[#queues + 1] = args[n]
  end
  if #queues == 0 then
    for queue in pairs(types) do
      queues[#queues + 1] = queue
    end
    table.sort(queues)
  end
  local minute = math.floor(scope.now / 60)
  for n = 1, math.min(#queues, modules.Arguments.most) do
    local queue = queues[n]
    local _, busy = running(queue)
    local fresh, retrying = call('ZCARD', key.fresh(queue)), call('ZCARD', key.retrying(queue))
    shown[n] = cjson.encode({
      queue = queue,
      klass = types[queue] or '',
      queued = fresh + retrying,
      fresh = fresh,
      retries = retrying,
      delayed = delayed(key.fresh(queue)) + delayed(key.retrying(queue)),
      busy = busy,
      dead = call('ZCARD', key.dead(queue)),
      lag = lag_of(queue),
      processed = counted(queue, 'processed', minute - 59, minute),
      failed = counted(queue, 'died', minute - 59, minute),
    })
  end
  return '[' .. table.concat(shown, ',') .. ']'
end
end
elseif module_name == 'FailureGroups' then
return function()
local FailureGroups = {
list = 0, show = 0
}
modules.FailureGroups = FailureGroups
-- views/failure_groups.lua
-- Failure groups as pages show them: how many jobs, since when, and the latest of them as a sample.

local sub, byte = string.sub, string.byte

local MOST = 250 -- groups of one page: each shows the beginning of a message that may be long
local HEAD = 300 -- bytes of it

local NEWLINE, SPACE = 10, 32
local TAIL = 1000 -- bytes in which the last line is looked for

-- The last line of a text that says something: the error itself, below a traceback. What is
-- longer than the tail begins where that begins, at a character of UTF-8.
local function last_line(text)
  local last, least = #text, math.max(1, #text - TAIL + 1)
  while last >= least and byte(text, last) <= SPACE do
    last = last - 1
  end
  local first = last + 1
  while first > least and byte(text, first - 1) ~= NEWLINE do
    first = first - 1
  end
  while first <= last and byte(text, first) >= 128 and byte(text, first) < 192 do
    first = first + 1
  end
  return modules.Errors.cut(sub(text, first, last), HEAD)
end

-- name, count, first, last, jid, klass, queue, the message's head and its last line
local function shown(name, count)
  local list = key.group(name)
  local newest, oldest = call('LINDEX', list, 0), call('LINDEX', list, -1)
  local klass, queue, its_failure = modules.Hash.values(key.job(newest), 'klass', 'queue', 'failure')
  local failure = modules.Record.read('failure', its_failure, {})
  local message = failure.message or ''
  return {
    name,
    count,
    tonumber((modules.JobSummary.failure(oldest))) or 0,
    tonumber((modules.JobSummary.failure(newest))) or 0,
    newest,
    klass or '',
    queue or '',
    modules.Errors.cut(message, HEAD),
    last_line(message),
  }
end

-- By what groups are sorted: the highest comes first.
local ORDERS = {
  count = function(group)
    return group.count
  end,
  last = function(group)
    return tonumber((modules.JobSummary.failure(call('LINDEX', key.group(group.name), 0)))) or 0
  end,
}

-- failure.groups count|last offset count -> total_groups, total_jobs and groups
function FailureGroups.list(args, i)
  local order = modules.Arguments.given('failure.groups', 'order', args[i])
  local rank = ORDERS[order]
  if not rank then
    modules.Errors.argument('failure.groups', 'order must be count or last, not ' .. modules.Errors.value(order))
  end
  local offset = modules.Arguments.whole('failure.groups', 'offset', args[i + 1], 0)
  local count = math.min(modules.Arguments.whole('failure.groups', 'count', args[i + 2], 0), MOST)
  local all, total = {}, 0
  for n, name in ipairs(call('SMEMBERS', key.failures())) do
    local group = { name = name, count = call('LLEN', key.group(name)) }
    group.rank, all[n] = rank(group), group
    total = total + group.count
  end
  table.sort(all, function(one, other)
    if one.rank ~= other.rank then
      return one.rank > other.rank
    end
    return one.name < other.name
  end)
  local groups = {}
  for n = offset + 1, math.min(offset + count, #all) do
    groups[#groups + 1] = shown(all[n].name, all[n].count)
  end
  return cjson.encode({ total_groups = #all, total_jobs = total, groups = groups })
end

-- failure.group name -> the group, or nil if no job is in it
function FailureGroups.show(args, i)
  local name = modules.Arguments.given('failure.group', 'name', args[i])
  local count = call('LLEN', key.group(name))
  return count > 0 and cjson.encode(shown(name, count)) or nil
end
end
elseif module_name == 'JobView' then
return function()
local JobView = {
show = 0
}
modules.JobView = JobView
-- views/job_view.lua
-- All that a page shows of one job, however many others it has to do with and however long it goes on.

local MOST_LINKS = 250 -- of one kind
local HISTORY_BYTES = 256 * 1024

-- Some members of a set, in an order of their own: never more are read than about so many. -> these,
-- how many there are
local function some(name, most)
  local total, cursor, members = call('SCARD', name), '0', {}
  repeat
    local reply = call('SSCAN', name, cursor, 'COUNT', math.max(most, 1))
    cursor = reply[1]
    for _, member in ipairs(reply[2]) do
      if #members == most then
        break
      end
      members[#members + 1] = member
    end
  until cursor == '0' or #members == most
  table.sort(members)
  return members, total
end

-- The first elements of a list, each once. -> these, how many the list has
local function first(name, most)
  local found, seen = {}, {}
  for _, jid in ipairs(most > 0 and call('LRANGE', name, 0, most - 1) or {}) do
    if not seen[jid] then
      seen[jid] = true
      found[#found + 1] = jid
    end
  end
  return found, call('LLEN', name)
end

-- The same of a canceled job, of which less is known.
local function canceled_view(jid, own, links)
  local total, spawners = modules.Canceled.more(jid)
  local view = {
    brief = own,
    history_total = total,
    result = cjson.null,
    result_ttl = cjson.null,
    detached = cjson.null,
  }
  for _, list in ipairs({ 'dependents', 'dependencies', 'needs' }) do
    view[list], view[list .. '_total'] = {}, 0
  end
  local spawned, number = first(key.offspring(jid), links)
  view.spawned, view.spawned_total = modules.JobSummary.rows(spawned), number
  view.spawners = modules.JobSummary.rows({ unpack(spawners, 1, math.min(#spawners, links)) })
  return modules.Json.with(cjson.encode(view), 'job', modules.Canceled.show(jid))
end

-- job.view jid links history -> the job as get shows it, those it has to do with in brief, its result
function JobView.show(args, i)
  local jid = modules.Arguments.name('job.view', 'jid', args[i])
  local links = math.min(modules.Arguments.whole('job.view', 'links', args[i + 1], 0), MOST_LINKS)
  local entries = math.min(modules.Arguments.whole('job.view', 'history', args[i + 2], 1), modules.Arguments.most)
  local own = modules.JobSummary.rows({ jid })[1]
  if not own then
    return nil
  elseif call('EXISTS', key.job(jid)) == 0 then
    return canceled_view(jid, own, links)
  end
  local lists, view = {}, { brief = own }
  for list, name in pairs({ dependents = key.dependents(jid), dependencies = key.dependencies(jid) }) do
    lists[list], view[list .. '_total'] = some(name, links)
    view[list] = modules.JobSummary.rows(lists[list])
  end
  for list, name in pairs({ needs = key.needs(jid), spawned = key.offspring(jid) }) do
    local jids, total = first(name, links)
    view[list], view[list .. '_total'] = modules.JobSummary.rows(jids), total
  end
  local spawners = modules.Record.read('spawners', call('HGET', key.job(jid), 'spawners'), {})
  view.spawners = modules.JobSummary.rows({ unpack(spawners, 1, math.min(#spawners, links)) })
  lists.history, view.history_total = modules.History.some(jid, entries, HISTORY_BYTES)
  view.result = call('GET', key.result(jid)) or cjson.null
  local rest = call('PTTL', key.result(jid))
  view.result_ttl = rest >= 0 and rest / 1000 or cjson.null
  view.detached = call('GET', key.detached(jid)) or cjson.null
  return modules.Json.with(cjson.encode(view), 'job', modules.Job.show(jid, lists))
end
end
elseif module_name == 'Legacy' then
return function()
local Legacy = {
serve = 0, Errors = 0, Arguments = 0, PutOptions = 0, Config = 0, Lock = 0, Clock = 0, Pop = 0,
Outcome = 0, Places = 0, Job = 0, Dependencies = 0, DependencyResults = 0, Expiry = 0, Samples = 0,
Wake = 0, Canceled = 0, History = 0, Queue = 0, Pause = 0, Stats = 0, Worker = 0
}
modules.Legacy = Legacy
-- legacy.lua
-- Calls without KEYS: qless-core's protocol to the letter. The prefix is 'ql:', the time is the caller's, a
-- worker's name is the proof of its lock, and errors are raised. All that they do otherwise than calls with KEYS
-- stands here: for each module the functions that are changed for them, when the module is made.

local floor = math.floor

local function nothing() end

local function no()
  return false
end

local function encoded(shown)
  return cjson.encode(shown)
end

-- ARGV = command, now, args...
function Legacy.serve(args)
  modules.Serve.begin('ql:', false)
  local command = modules.Arguments.given('qless', 'command', args[1])
  local known = modules.Commands.find(command)
  if not known or known.is_ours then
    error('Unknown command ' .. modules.Errors.name(command))
  end
  scope.now = modules.Arguments.number(command, 'now', args[2])
  scope.live = call('EXISTS', key.meta()) == 1
  local reply = modules[known.module][known.what](args, 3)
  modules.Serve.finish()
  return reply
end

function Legacy.Errors()
  function modules.Errors.raise(_, words, ...)
    error(modules.Errors.worded(words, ...), 2)
  end
end

-- What a call may say.

function Legacy.Arguments()
  modules.Arguments.decimal = '^%s*[%d.eE+-]+%s*$'

  modules.Arguments.name, modules.Arguments.proof = modules.Arguments.given, modules.Arguments.asking

  function modules.Arguments.message(command, message)
    return modules.Arguments.given(command, 'message', message)
  end

  function modules.Arguments.few_tags(_, tags)
    return tags
  end

  modules.Arguments.held, modules.Arguments.plain, modules.Arguments.unknown = nothing, nothing, nothing
end

function Legacy.PutOptions()
  modules.PutOptions.known = { priority = true, tags = true, retries = true, depends = true }
end

function Legacy.Config()
  modules.Config.is_ours, modules.Config.is_whole, modules.Config.names_queue = no, no, no
end

-- Whose lock it is.

function Legacy.Lock()
  function modules.Lock.holds(proof, state, worker)
    return state == 'running' and proof == worker
  end

  function modules.Lock.another(worker)
    return 'another worker: ' .. modules.Errors.name(worker)
  end
end

-- A token, where meta is not read in advance. The caller's time says nothing about it.
function Legacy.Clock()
  local draw = modules.Clock.draw

  function modules.Clock.draw()
    local name = key.meta()
    scope.clock = scope.clock
      or { token = tonumber(call('HGET', name, 'token') or nil) or 0, time = call('TIME') }
    local token = draw()
    call('HSET', name, 'token', token)
    return token
  end
end

function Legacy.Pop()
  modules.Pop.most_due = 0
end

-- What becomes of a job.

function Legacy.Outcome()
  -- The last worker, its lock and its start stay to be seen on a waiting job.
  modules.Outcome.unheld, modules.Outcome.count_retried = nothing, nothing
end

function Legacy.Places()
  function modules.Places.state_now(_, _, state)
    return state
  end

  -- The time of a job is that of its put, but for entities, which are ours.
  local ready_since = modules.Places.ready_since
  function modules.Places.ready_since(jid, time, entity)
    if entity then
      ready_since(jid, time)
    end
  end

  function modules.Places.register(queue)
    if scope.live then
      modules.Nonempty.add(queue)
    end
    modules.Places.make_known(queue)
  end
end

function Legacy.Job()
  modules.Job.with_ours, modules.Job.can_lose = encoded, no

  function modules.Job.cancel_unknown(jid)
    modules.Events.canceled(jid, false, false)
    if modules.Tracking.is_tracked(jid) then
      modules.Events.tracked('canceled', jid)
    end
  end
end

function Legacy.Dependencies()
  modules.Dependencies.unknown, modules.Dependencies.follows_spawned = nothing, false
end

-- What is kept beside the job is ours, and so is the work that is left for a later call.

function Legacy.DependencyResults()
  modules.DependencyResults.add = nothing
end

function Legacy.Expiry()
  modules.Expiry.can_wait = no
end

function Legacy.Samples()
  modules.Samples.can_wait = no

  function modules.Samples.length(seconds)
    return seconds
  end
end

-- The caller's clock says nothing about when a client of ours has gone away, or when a job was canceled.

function Legacy.Wake()
  function modules.Wake.since()
    return '-inf'
  end
end

function Legacy.Canceled()
  function modules.Canceled.time()
    return call('HGET', key.meta(), 'clock') or modules.NumberFormat.now()
  end

  modules.Canceled.show = nothing
end

-- History in whole seconds, with what the protocol knows.
function Legacy.History()
  local failed = modules.History.failed

  function modules.History.time(when)
    return when and modules.NumberFormat.whole(floor(when)) or modules.NumberFormat.second()
  end

  function modules.History.begin(jid, queue)
    modules.History.put(jid, queue)
  end

  function modules.History.popped(jid, worker, put)
    modules.History.add_popped(jid, worker, put)
    return ''
  end

  function modules.History.failed(jid, group, worker)
    failed(jid, group, worker)
  end

  function modules.History.ended(jid, what, job, group)
    if what == 'done' then
      modules.History.done(jid, job.held)
    elseif what == 'failed' then
      failed(jid, group, job.worker)
    elseif what == 'timed-out' then
      modules.History.add(jid, what)
    elseif scope.live then
      modules.History.write_late(jid) -- while the record names the worker
    end
  end

  function modules.History.exhausted(job, group)
    failed(job.jid, group)
  end

  modules.History.when = floor
end

-- What is shown.

function Legacy.Queue()
  modules.Queue.is_by_due = false

  -- Locks that expired before 1970 are not seen as stalled.
  modules.Queue.oldest_lock = 0

  local jobs = modules.Queue.jobs

  function modules.Queue.jobs(args, i)
    if args[i] == 'canceled' or args[i] == 'waiting' then
      modules.Queue.unknown(args[i])
    end
    return jobs(args, i)
  end
end

function Legacy.Pause()
  modules.Pause.known = nothing
end

function Legacy.Stats()
  modules.Stats.shows_ours = false
end

function Legacy.Worker()
  modules.Worker.with_info = encoded
end
end
elseif module_name == 'QueueStats' then
return function()
local QueueStats = {
lag = 0, due = 0, survey = 0
}
modules.QueueStats = QueueStats
-- views/queue_stats.lua
-- How long jobs have waited and have to wait: the lag of queues, what falls due in them, and the
-- survey by which workers choose among them.

local format, min = string.format, math.min

-- Levels of priority looked at.
local LEVELS = 32

-- When the first thing in a place falls due, or `latest` if that is not before it.
local function first_due(queue, place, latest)
  local head = call('ZRANGE', key.place(queue, place), 0, 0, 'WITHSCORES')
  return head[2] and min(latest, tonumber(head[2])) or latest
end

-- Since when the oldest waiting job has been ready, at a cost that does not grow with the queue:
-- the first of each level of priority is the oldest of it. -> the time, whether there is any
local function oldest_waiting(queue)
  local work, highest, oldest, found = key.place(queue, 'work'), '+inf', scope.now, false
  for _ = 1, LEVELS do
    local jid = call('ZREVRANGEBYSCORE', work, highest, '-inf', 'LIMIT', 0, 1)[1]
    local record = jid and call('HMGET', key.job(jid), 'time', 'priority')
    if not record or not record[1] then
      break
    end
    found = true
    oldest = min(oldest, modules.Record.read('time', record[1], oldest))
    -- Below all that could have been put at this priority until a day from now.
    highest = '(' .. format('%.17g', modules.Places.score(modules.Record.read('priority', record[2], 0), scope.now + 86400))
  end
  return oldest, found
end

-- -> the age of the oldest ready job in seconds, whether there is one
local function lag(queue)
  local oldest, found = oldest_waiting(queue)
  local due = first_due(queue, 'recur', first_due(queue, 'scheduled', oldest))
  return scope.now - due, found or due < oldest
end

-- lag queue... -> seconds, as text, for each
function QueueStats.lag(args, i)
  modules.Arguments.given('lag', 'queue', args[i])
  modules.Arguments.bounded('lag', #args - i + 1)
  local lags = {}
  for n = i, #args do
    lags[#lags + 1] = format('%.6f', (lag(args[n])))
  end
  return lags
end

-- due queue... -> for each: when its first scheduled job and its first recurring one fall due, as
-- text, '' if there is none
function QueueStats.due(args, i)
  modules.Arguments.given('due', 'queue', args[i])
  modules.Arguments.bounded('due', #args - i + 1)
  local times = {}
  for n = i, #args do
    for _, place in ipairs({ 'scheduled', 'recur' }) do
      local head = call('ZRANGE', key.place(args[n], place), 0, 0, 'WITHSCORES')
      times[#times + 1] = head[2] or ''
    end
  end
  return times
end

local function is_empty(queue)
  return call(
    'EXISTS',
    key.place(queue, 'work'),
    key.place(queue, 'scheduled'),
    key.place(queue, 'recur'),
    key.place(queue, 'locks')
  ) == 0
end

-- Is there anything that a pop would hand out, or has to look at? -> that, the lag
local function look(queue)
  if modules.LimitSettings.exist() and first_due(queue, 'openings', scope.now + 1) <= scope.now then
    return true, (lag(queue))
  elseif is_empty(queue) then
    return false, 0
  end
  local seconds, found = lag(queue)
  return found or first_due(queue, 'locks', scope.now + 1) <= scope.now, seconds
end

-- survey [queue...] -> name, ready (1 or 0), lag, weight, paused (1 or 0) of each, as texts;
-- without names of all queues that are known, as far as one call may handle them
function QueueStats.survey(args, i)
  modules.Arguments.bounded('survey', #args - i + 1)
  local queues, paused, flat = {}, {}, {}
  for n = i, #args do
    queues[#queues + 1] = args[n]
  end
  if #queues == 0 then
    queues = modules.Queue.names(modules.Arguments.most)
  end
  for _, queue in ipairs(call('SMEMBERS', key.paused_queues())) do
    paused[queue] = true
  end
  for n, queue in ipairs(queues) do
    local ready, seconds = look(queue)
    local at = 5 * n - 4
    flat[at], flat[at + 1] = queue, ready and '1' or '0'
    flat[at + 2], flat[at + 3] = format('%.6f', seconds), format('%.17g', modules.Config.weight(queue))
    flat[at + 4] = paused[queue] and '1' or '0'
  end
  return flat
end
end
elseif module_name == 'Search' then
return function()
local Search = {
search = 0
}
modules.Search = Search
-- views/search.lua
-- A search among jobs: which of those in parts of lists may be meant, and how far it has looked.

local find, sub, match = string.find, string.sub, string.match

local BYTES = 4 * 1024 * 1024 -- of jobs' data that one call reads, and those of one job more

-- Which states a record may have of a job that is shown as being in a state.
local RECORDED = {
  waiting = { waiting = true, scheduled = true, stalled = true },
  running = { running = true },
  stalled = { running = true },
  scheduled = { scheduled = true },
  depends = { depends = true },
  failed = { failed = true },
  complete = { complete = true },
}

-- A pattern of names in which `*` and `?` stand for any characters: as the texts that a name must have in
-- this order. That is less than the pattern says, but no pattern takes long.
local function texts_of(pattern)
  if not find(pattern, '[*?%[]') then
    return { whole = pattern }
  end
  local plain, texts = match(pattern, '^[^%[]*'), { head = match(pattern, '^[^*?%[]*') }
  for text in string.gmatch(plain, '[^*?]+') do
    texts[#texts + 1] = text
  end
  texts.tail = plain == pattern and match(pattern, '[^*?]*$') or ''
  return texts
end

local function may_suit(name, texts)
  if texts.whole then
    return name == texts.whole
  end
  if
    sub(name, 1, #texts.head) ~= texts.head or texts.tail ~= '' and sub(name, -#texts.tail) ~= texts.tail
  then
    return false
  end
  local from = 1
  for n = 1, #texts do
    local _, last = find(name, texts[n], from, true)
    if not last then
      return false
    end
    from = last + 1
  end
  return true
end

local function has_any(text, texts)
  for n = 1, #texts do
    if find(text, texts[n], 1, true) then
      return true
    end
  end
  return false
end

-- Reads conditions, pairs of a name and a text, from args[i] on.
local READERS = {
  queue = function(wanted, text)
    wanted.queue = text
  end,
  state = function(wanted, text)
    wanted.states = RECORDED[text] or modules.Errors.argument('search', 'Unknown state ' .. modules.Errors.name(text))
  end,
  klass = function(wanted, text)
    wanted.klass = texts_of(text)
  end,
  jid = function(wanted, text)
    wanted.jid = text
  end,
  data = function(wanted, text)
    wanted.data = wanted.data or {}
    wanted.data[#wanted.data + 1] = text
  end,
}

local function read_conditions(args, i, number)
  local wanted = {}
  for n = i, i + 2 * number - 1, 2 do
    local name = modules.Arguments.given('search', 'condition', args[n])
    local reader = READERS[name]
    if not reader then
      modules.Errors.argument('search', 'Unknown condition ' .. modules.Errors.name(name))
    end
    reader(wanted, modules.Arguments.given('search', name, args[n + 1]))
  end
  return wanted
end

-- May the job be meant? -> that, and how many bytes of data were read to know it, if any. (One field after the other
-- is read: mostly the first says no. Where one is missing, as of canceled jobs, the row is to tell.)
local function may_be(jid, wanted)
  if wanted.jid and sub(jid, 1, #wanted.jid) ~= wanted.jid then
    return false
  end
  local name = key.job(jid)
  if wanted.queue and (call('HGET', name, 'queue') or wanted.queue) ~= wanted.queue then
    return false
  end
  local state = wanted.states and call('HGET', name, 'state')
  if state and not wanted.states[state] then
    return false
  end
  local klass = wanted.klass and call('HGET', name, 'klass')
  if klass and not may_suit(klass, wanted.klass) then
    return false
  end
  local data = wanted.data and call('HGET', name, 'data')
  if data then
    return has_any(data, wanted.data), #data
  end
  return true
end

-- search most conditions (name text)... (kind list start count)... -> how many places were looked at, and
-- the rows of the jobs, at most `most`. Conditions: queue, state, the pattern klass, how the jid begins, and a
-- text that is in the data, or one of several.
--
-- A few jobs too many may be among them: a pattern is not compared to the letter, locks are not looked at.
function Search.search(args, i)
  local most = modules.Arguments.whole('search', 'most', args[i], 0)
  local number = modules.Arguments.whole('search', 'conditions', args[i + 1], 0)
  modules.Arguments.bounded('search', most)
  modules.Arguments.bounded('search', number)
  local wanted = read_conditions(args, i + 2, number)
  local first = i + 2 + 2 * number
  modules.JobSummary.check_parts('search', args, first)
  local jids, places, looked = modules.JobSummary.listed(args, first)
  local rows, bytes, tracking = {}, 0, modules.JobSummary.any_tracked()
  for n = 1, #jids do
    if #rows >= most or bytes >= BYTES then
      looked = places[n] - 1
      break
    end
    local is_meant, read = may_be(jids[n], wanted)
    bytes = bytes + (read or 0)
    rows[#rows + 1] = is_meant and modules.JobSummary.row(jids[n], tracking) or nil
  end
  return cjson.encode({ looked = looked, jobs = rows })
end
end
elseif module_name == 'Spawn' then
return function()
local Spawn = {
spawn = 0
}
modules.Spawn = Spawn
-- workflows/spawn.lua
-- spawn: a running job puts others; its dependents wait for them as well.

-- The jobs of the plan as they are now, or those that stand for them.
local function present(spawner, plan)
  local jobs, seen = {}, { [spawner] = true }
  for _, job in ipairs(plan.jobs) do
    local jid = job.instead or job.jid
    local state = call('HGET', key.job(jid), 'state')
    if state and not seen[jid] then
      seen[jid] = true
      jobs[#jobs + 1] = { jid = jid, state = state }
    end
  end
  return jobs
end

-- spawn jid token worker (as put.many) -> as put.many. What an earlier run of the job has spawned is left alone, whatever
-- it is by now.
function Spawn.spawn(args, i)
  local jid, worker = modules.Arguments.name('spawn', 'jid', args[i]), args[i + 2]
  modules.Lock.holder('spawn', jid, args[i + 1])
  modules.Arguments.asking('spawn', worker)
  local workflow, spawns = modules.Hash.values(key.job(jid), 'workflow', 'spawns')
  local plan = modules.PutMany.plan('spawn', args, i + 3, { spawner = jid, since = modules.Record.number(spawns) })
  if plan.coming[jid] then
    modules.Errors.argument('spawn', 'job ' .. modules.Errors.name(jid) .. ' cannot spawn itself')
  end
  if workflow then
    modules.Workflow.must_go_on('spawn', workflow)
  end
  for _, job in ipairs(plan.jobs) do
    if workflow and not job.workflow then
      job.workflow, job.rare = workflow, true
    end
  end
  local reply = modules.PutMany.carry_out(plan, worker)
  modules.Spawned.adopt(jid, present(jid, plan), spawns)
  return reply
end
end
elseif module_name == 'Throughput' then
return function()
local Throughput = {
show = 0, failed = 0
}
modules.Throughput = Throughput
-- views/throughput.lua
-- What a queue, or the whole namespace, has done lately: the counters of minutes in longer spans.

local floor = math.floor

local QUEUES = 200 -- of which one call says how many jobs are failed
local DAYS = 10000 -- looked at by that call, of all queues together

-- A function that adds to the spans of one kind, and these spans.
local function spans(from, to, step)
  local list = {}
  for n = 1, floor((to - from) / step) + 1 do
    list[n] = 0
  end
  return list,
    function(minute, n)
      if minute >= from and minute <= to then
        local place = floor((minute - from) / step) + 1
        list[place] = list[place] + n
      end
    end
end

local function count(queue, kind, from, to, add)
  for hour = floor(from / 60), floor(to / 60) do
    local found = call('HGETALL', key.minutes(queue, hour, kind))
    for n = 1, #found, 2 do
      add(hour * 60 + tonumber(found[n]), tonumber(found[n + 1]))
    end
  end
end

-- throughput queue from to step -> started, completed, failed and, of a queue, put: lists of numbers.
-- Without a queue (''), of the whole namespace.
function Throughput.show(args, i)
  local queue = modules.Arguments.given('throughput', 'queue', args[i])
  local from = modules.Arguments.whole('throughput', 'from', args[i + 1], 0)
  local to = modules.Arguments.whole('throughput', 'to', args[i + 2], 0)
  local step = modules.Arguments.whole('throughput', 'step', args[i + 3], 1)
  if to < from then
    modules.Errors.argument('throughput', 'to must not be before from, ' .. from .. ', as ' .. to .. ' is')
  elseif to - from >= modules.Minutes.longest then
    modules.Errors.raise('TOOBIG', 'throughput(): ' .. to - from + 1 .. ' minutes, at most ' .. modules.Minutes.longest)
  end
  local shown, adders = { first = from, step = step, put = cjson.null }, {}
  for _, kind in ipairs(modules.Minutes.kinds) do
    if queue ~= '' or kind ~= 'put' then
      shown[kind], adders[kind] = spans(from, to, step)
      count(queue, kind, from, to, adders[kind])
    end
  end
  modules.StatsBuffer.read(function(second, kind, _, n, of)
    if queue == '' or of == queue then
      adders[modules.Minutes.buffered[kind]](floor(second / 60), n)
    end
  end)
  return cjson.encode(shown)
end

-- failed.of queue... -> of each, how many of its jobs are failed: the sum of what the days know for
-- which statistics are kept
function Throughput.failed(args, i)
  local number = #args - i + 1
  if number > QUEUES then
    modules.Errors.raise('TOOBIG', 'failed.of(): ' .. number .. ' queues in one call, at most ' .. QUEUES)
  end
  local days = math.max(1, math.min(modules.Config.whole('stats-history') + 1, floor(DAYS / math.max(number, 1))))
  local today, failed = modules.Stats.day(scope.now), {}
  for n = i, #args do
    local sum = 0
    for back = 0, days - 1 do
      sum = sum + (tonumber(call('HGET', key.stat('stats', today - back * 86400, args[n]), 'failed')) or 0)
    end
    failed[#failed + 1] = sum
  end
  return failed
end
end
elseif module_name == 'WorkerView' then
return function()
local WorkerView = {
list = 0
}
modules.WorkerView = WorkerView
-- views/worker_view.lua
-- Workers with the jobs that they hold, for a page.

local SHOWN = 5 -- jobs of a worker
local LOOKED_AT = 100 -- of those that it holds, to find the longest running; …
local IN_ALL = 5000 -- … and of all workers of a call

-- The jobs that a worker has held for the longest time, of the first to expire.
local function longest_held(worker, looked_at)
  local held = {}
  for n, jid in ipairs(call('ZRANGE', key.held(worker), 0, looked_at - 1)) do
    held[n] = { jid = jid, since = modules.Record.read('time', call('HGET', key.job(jid), 'time'), 0) }
  end
  table.sort(held, function(one, other)
    if one.since ~= other.since then
      return one.since < other.since
    end
    return one.jid < other.jid
  end)
  local jids = {}
  for n = 1, math.min(SHOWN, #held) do
    jids[n] = held[n].jid
  end
  return jids
end

-- worker.views offset count -> total, and workers: each as `workers` shows it, with some of its jobs
function WorkerView.list(args, i)
  local offset = modules.Arguments.whole('worker.views', 'offset', args[i], 0)
  local count = math.min(modules.Arguments.whole('worker.views', 'count', args[i + 1], 0), modules.Arguments.most)
  local looked_at = math.max(SHOWN, math.min(LOOKED_AT, math.floor(IN_ALL / math.max(count, 1))))
  local shown, seen, total = {}, modules.Worker.seen(offset, count)
  for n = 1, #seen, 2 do
    local jobs = cjson.encode({ jobs = modules.JobSummary.rows(longest_held(seen[n], looked_at)) })
    shown[#shown + 1] = modules.Json.with(jobs, 'worker', modules.Worker.shown(seen[n], seen[n + 1]))
  end
  return modules.Json.with(cjson.encode({ total = total }), 'workers', modules.Json.list(shown))
end
end
end
end

return without_keys and modules.Legacy.serve or modules.Serve.serve
end

-- main.lua
-- The way in: the functions of a library for calls with KEYS, a script for calls without. What a library may
-- do while it is loaded is to register functions, nothing else; so the modules are built by the first call.
local with_keys

local function serve(keys, args, class)
  if #keys == 0 then
    return redis.error_reply('BADARG a call without KEYS is made by EVALSHA, not by FCALL')
  end
  with_keys = with_keys or build(false)
  return with_keys(keys, args, class)
end

-- The loader of a library calls this with the library's name.
local Qless = {
  register = function(library)
    redis.register_function({
      function_name = library .. '_read',
      callback = function(keys, args)
        return serve(keys, args, 'read')
      end,
      flags = { 'no-writes' },
    })
    redis.register_function({
      function_name = library .. '_write',
      callback = function(keys, args)
        return serve(keys, args, 'write')
      end,
    })
    redis.register_function({
      function_name = library .. '_drain',
      callback = function(keys, args)
        return serve(keys, args, 'drain')
      end,
      flags = { 'allow-oom' },
    })
  end,
}

if not redis.register_function then
  if #KEYS > 0 then
    return redis.error_reply('BADARG a call with KEYS is made by FCALL, not by EVALSHA')
  end
  return build(true)(ARGV)
end
