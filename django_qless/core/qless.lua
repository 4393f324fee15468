-- Generated from lua/ by lua/build.py: change it there.
local function build()
-- head.lua
-- The namespace table, the state of the present call, and THE KEY GLOSSARY.
--
-- A job queue whose every change of state is one atomic call of this script. Called
-- without KEYS it speaks the wire protocol of qless-core; called with KEYS it has the
-- server's clock, fencing tokens, repeatable requests and batches.
local Qless = {}

-- What every module needs to know of the call that is being served; reset by main.lua.
--   prefix   of every key ('ql:' without KEYS)
--   now      seconds since the epoch, the only clock there is
--   keyed    the call came with KEYS
--   live     the namespace has seen a call with KEYS, so tokens and wake-ups are kept
--   reading  the call must not write
local scope = { prefix = 'ql:', now = 0, keyed = false, live = false, reading = false }
Qless.scope = scope

local key = {}
Qless.key = key

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
-- meta            hash   clock (the last time given out), token (the last one drawn), skews
-- releasing       zset   completed jid with dependents still to be released -> when
-- idle            zset   client waiting for queues it has not seen yet -> until when
-- wake            list   one element for each such client to be woken
-- journal         list   samples that the statistics do not have yet
for _, name in ipairs({ 'meta', 'releasing', 'idle', 'wake', 'journal' }) do
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

-- j:<jid>               hash   the job's record
function key.job(jid)
  return scope.prefix .. 'j:' .. jid
end

-- j:<jid>-history       list   JSON triples [when, what, more], oldest first
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

-- s:<kind>:<day>:<queue>  hash  kind wait, run: total, mean, vk and a histogram;
--                               kind stats: retries, failures, failed
function key.stat(kind, day, queue)
  return scope.prefix .. 's:' .. kind .. ':' .. Qless.Texts.whole(day) .. ':' .. queue
end

-- Ours again.
-- result:<jid>          string what the job returned, JSON; expires by itself
function key.result(jid)
  return scope.prefix .. 'result:' .. jid
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

-- m:<queue>:<hour>:<kind>  hash  minute of the hour -> jobs put, started, completed or failed
function key.minutes(queue, hour, kind)
  return scope.prefix .. 'm:' .. queue .. ':' .. Qless.Texts.whole(hour) .. ':' .. kind
end

-- idle:<queue>          zset   client that waits for a job of this queue -> until when
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

-- texts.lua
do
-- Texts that are made once: of the present time, and of names that come again and again.
-- (Printing a number costs as much as a small Redis command, and so does looking at a text.)
local scope = Qless.scope

local Texts = {}
Qless.Texts = Texts

local format, floor = string.format, math.floor

local KEPT = 500 -- texts of one kind

-- Remembers from call to call what `make` makes of a name; of what else it depends on, nothing.
function Texts.remembered(make)
  local made, count = {}, 0
  return function(name)
    local text = made[name]
    if text == nil then
      if count == KEPT then
        made, count = {}, 0
      end
      text = make(name)
      made[name], count = text, count + 1
    end
    return text
  end
end

-- A whole number: much cheaper than with a fraction.
function Texts.whole(number)
  if number > -2 ^ 53 and number < 2 ^ 53 then
    return format('%d', number)
  end
  return format('%.0f', number)
end

-- The present time: its whole seconds and their fraction as the server told them, if it did.
local second, fraction, now, time

-- A new call: the time is scope.now, in the server's words `seconds` and `rest` ('.123456').
function Texts.begin(seconds, rest)
  second, fraction, now, time = seconds, rest, nil, nil
end

-- The present time, at least as exact as redis.call would print it.
function Texts.now()
  if not now then
    now = fraction and second .. fraction or format('%.17g', scope.now)
  end
  return now
end

-- The same as job records keep it.
function Texts.time()
  if not time then
    time = fraction and Texts.now() .. '00000000000000' or format('%.20f', scope.now)
  end
  return time
end

function Texts.second()
  if not second then
    second = Texts.whole(floor(scope.now))
  end
  return second
end

-- The time so many seconds from now.
function Texts.later(seconds)
  if fraction and seconds == floor(seconds) then
    return Texts.whole(floor(scope.now) + seconds) .. fraction
  end
  return format('%.17g', scope.now + seconds)
end
end

-- absence.lua
do
-- What mostly is not there, asked for once: one question for many keys.
local Absence = {}
Qless.Absence = Absence

local call = redis.call

local MOST = 200 -- keys remembered

-- key -> the call that saw that it did not exist
local seen, count, present = {}, 0, 0

function Absence.reset()
  present = present + 1
  if count > MOST then
    seen, count = {}, 0
  end
end

-- Asks for keys. If none exists, is_absent says so of each.
function Absence.look_for(names)
  if call('EXISTS', unpack(names)) == 0 then
    count = count + #names
    for n = 1, #names do
      seen[names[n]] = present
    end
  end
end

-- The call has made the key, or is about to.
function Absence.forget(name)
  seen[name] = nil
end

-- Is the key known not to exist? (What makes one has to say so: forget.)
function Absence.is_absent(name)
  return seen[name] == present
end
end

-- errors.lua
do
-- How a call is refused: a plain Lua error without KEYS, a reply 'CODE text' with them.
local scope = Qless.scope

local Errors = {}
Qless.Errors = Errors

local MOST = 200

-- Names in messages are cut, so that a hostile jid cannot fill a log.
function Errors.name(value)
  value = tostring(value)
  if #value > MOST then
    return string.sub(value, 1, MOST) .. '…'
  end
  return value
end

-- Text begins with a word character: old clients look for that.
function Errors.raise(code, text)
  if scope.keyed then
    error({ code = code, text = text })
  end
  error(text, 2)
end

function Errors.argument(command, text)
  Errors.raise('BADARG', command .. '(): ' .. text)
end

function Errors.no_job(command, jid)
  Errors.raise('NOJOB', command .. '(): Job ' .. Errors.name(jid) .. ' does not exist')
end
end

-- json.lua
do
-- JSON texts that are shown as they came: decoding and encoding would change [] and long numbers.
local Json = {}
Qless.Json = Json

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

-- arguments.lua
do
-- Arguments: numbers, JSON texts, names and option pairs, checked once and in one wording.
local Errors, scope = Qless.Errors, Qless.scope

local Arguments = {}
Qless.Arguments = Arguments

local find, gsub, floor = string.find, string.gsub, math.floor
local HUGE = math.huge

Arguments.most = 1000 -- items one call may name
Arguments.data_bytes = 512 * 1024
Arguments.text_bytes = 64 * 1024
Arguments.tags = 32

local function refuse(command, what, value, wanted)
  Errors.argument(command, what .. ' ' .. wanted .. ', not ' .. Errors.name(value))
end

-- A required argument as it came.
function Arguments.given(command, what, value)
  if value == nil then
    Errors.argument(command, 'Arg "' .. what .. '" missing')
  end
  return value
end

-- Most numbers are small and whole: these need no second look, and no printing (redis.call
-- prints a number with 17 digits each time).
local SMALL, TEXTS = {}, {}
for number = 0, 60 do
  local text = tostring(number)
  SMALL[text], TEXTS[number] = number, text
end

-- A number as redis.call would print it.
function Arguments.text_of(number)
  return TEXTS[number] or string.format('%.17g', number)
end

-- A finite decimal number. tonumber alone takes 0x10, nan, inf and blanks.
function Arguments.number(command, what, value)
  local small = SMALL[value]
  if small then
    return small
  end
  Arguments.given(command, what, value)
  local number = not find(value, '[^%d.eE+-]') and tonumber(value)
  if not number or number ~= number or number == HUGE or number == -HUGE then
    refuse(command, what, value, 'must be a finite decimal number')
  end
  return number + 0 -- no command takes -0
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

-- A number of items named by the caller.
function Arguments.bounded(command, number)
  if number > Arguments.most then
    Errors.raise('TOOBIG', command .. '(): ' .. number .. ' items in one call, at most ' .. Arguments.most)
  end
end

Arguments.bytes = 1024 * 1024

-- What one call may carry in all.
function Arguments.weigh(command, args)
  local bytes = #table.concat(args)
  if bytes > Arguments.bytes then
    Errors.raise(
      'TOOBIG',
      command .. '(): ' .. bytes .. ' bytes of arguments in one call, at most ' .. Arguments.bytes
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
    Errors.raise(
      'TOOBIG',
      command .. '(): ' .. what .. ' has ' .. #text .. ' bytes, at most ' .. (bytes or Arguments.data_bytes)
    )
  end
  local fine, value = pcall(decode, text)
  if not fine then
    Errors.argument(command, what .. ' is not JSON: ' .. Errors.name(text))
  end
  local wrong = lax(text)
  if wrong then
    Errors.argument(command, what .. ' is not JSON, it has ' .. wrong)
  end
  return value
end

function Arguments.object(command, what, text)
  local value = Arguments.json(command, what, text, Arguments.text_bytes)
  if type(value) ~= 'table' or find(text, '^%s*%[') then
    Errors.argument(command, what .. ' must be a JSON object')
  end
  return value
end

-- A JSON list of names, in order and without repetition.
function Arguments.names(command, what, text)
  local list, seen, names = Arguments.json(command, what, text), {}, {}
  if type(list) ~= 'table' or (#list == 0 and next(list) ~= nil) then
    Errors.argument(command, what .. ' must be a JSON list')
  end
  for _, name in ipairs(list) do
    if type(name) == 'number' then
      name = string.format('%.14g', name)
    end
    if type(name) ~= 'string' then
      Errors.argument(command, what .. ' must be a JSON list of strings')
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
  if scope.keyed and #tags > Arguments.tags then
    Errors.raise('TOOBIG', command .. '(): ' .. #tags .. ' tags, at most ' .. Arguments.tags)
  end
  return tags
end

-- These endings would make a job's record collide with another job's lists.
local RESERVED = { 'history', 'dependencies', 'dependents' }

function Arguments.jid(command, jid)
  Arguments.given(command, 'jid', jid)
  if find(jid, '-', 1, true) then
    for _, ending in ipairs(RESERVED) do
      if string.sub(jid, -#ending - 1) == '-' .. ending then
        Errors.argument(command, 'jid must not end in -' .. ending .. ': ' .. Errors.name(jid))
      end
    end
  end
  if scope.keyed and (jid == '' or #jid > 255) then
    Errors.argument(command, 'jid must have 1 to 255 bytes')
  end
  return jid
end

function Arguments.queue(command, queue)
  Arguments.given(command, 'queue', queue)
  if scope.keyed and (queue == '' or #queue > 255 or find(queue, '[*?]')) then
    Errors.argument(command, 'queue must have 1 to 255 bytes and neither * nor ?, not ' .. Errors.name(queue))
  end
  return queue
end

-- name, value, name, value … as a table. Calls with KEYS may only use known names.
function Arguments.options(command, args, first, known)
  local options = {}
  if (#args - first + 1) % 2 ~= 0 then
    Errors.argument(command, 'Odd number of additional args')
  end
  for i = first, #args, 2 do
    local name = args[i]
    if known[name] then
      options[name] = args[i + 1]
    elseif scope.keyed then
      Errors.argument(command, 'Unknown option ' .. Errors.name(name))
    end
  end
  return options
end
end

-- events.lua
do
-- What is published, byte for byte: members in a fixed order, no spaces.
local Texts, scope = Qless.Texts, Qless.scope

local Events = {}
Qless.Events = Events

local call, quote = redis.call, cjson.encode

local function log(text)
  call('PUBLISH', scope.prefix .. 'log', text)
end

local function tell(worker, text)
  call('PUBLISH', scope.prefix .. 'w:' .. worker, text)
end

-- Bare jids, for tracked jobs: put popped completed failed canceled stalled track untrack.
function Events.tracked(what, jid)
  call('PUBLISH', scope.prefix .. what, jid)
end

-- What stands behind the jid, the same for all jobs of a queue.
local put_into = Texts.remembered(function(queue)
  return ',"event":"put","queue":' .. quote(queue) .. '}'
end)

local completed_in = Texts.remembered(function(queue)
  return ',"event":"completed","queue":' .. quote(queue) .. '}'
end)

function Events.put(jid, queue)
  log('{"jid":' .. quote(jid) .. put_into(queue))
end

function Events.completed(jid, queue)
  log('{"jid":' .. quote(jid) .. completed_in(queue))
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

-- Whom it concerns hears it first.
function Events.lock_lost(jid, worker)
  local text = lock_lost(jid, worker)
  tell(worker, text)
  log(text)
end

function Events.order(worker, order)
  tell(worker, '{"event":"order","order":' .. quote(order) .. ',"worker":' .. quote(worker) .. '}')
end

function Events.config_set(option, value)
  log('{"option":' .. quote(option) .. ',"event":"config_set","value":' .. quote(value) .. '}')
end

function Events.config_unset(option)
  log('{"event":"config_unset","option":' .. quote(option) .. '}')
end
end

-- config.lua
do
-- Options of the namespace: defaults, values, and what a value may be.
local Errors, Arguments, Events, scope, key =
  Qless.Errors, Qless.Arguments, Qless.Events, Qless.scope, Qless.key

local Config = {}
Qless.Config = Config

local call, find = redis.call, string.find

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
local UNLISTED = { ['max-worker-age'] = 86400, ['max-job-history'] = 100 }

-- Options are read together when the first is wanted, unless very many are set.
local FEW = 100
local NONE = {}

-- What is set, as far as this call has read it; `all` if it has read everything.
local known, all

function Config.reset()
  known, all = nil, false
end

local function read()
  local count = call('HLEN', key.config())
  known, all = NONE, true
  if count > FEW then
    known, all = {}, false
  elseif count > 0 then
    known = {}
    local set = call('HGETALL', key.config())
    for n = 1, #set, 2 do
      known[set[n]] = set[n + 1]
    end
  end
end

-- Is nothing set at all? Then queues have no options of their own either.
local function untouched()
  if not known then
    read()
  end
  return known == NONE
end

function Config.get(option)
  if not known then
    read()
  end
  local value = known[option]
  if value == nil and not all then
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

-- Seconds after which a silent worker is forgotten, as times to live want them.
function Config.worker_age()
  return math.max(1, math.ceil(Config.number('max-worker-age')))
end

local function is_weight(option)
  return scope.keyed and find(option, '%-weight$')
end

local function numeric(option)
  return type(DEFAULTS[option]) == 'number'
    or UNLISTED[option]
    or is_weight(option)
    or find(option, '%-heartbeat$')
    or find(option, '%-max%-concurrency$')
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
  local set = call('HGETALL', key.config())
  for n = 1, #set, 2 do
    shown[set[n]] = set[n + 1]
  end
  return cjson.encode(shown)
end

-- config.set option value
function Config.set(args, i)
  local option = Arguments.given('config.set', 'option', args[i])
  local value = Arguments.given('config.set', 'value', args[i + 1])
  if numeric(option) then
    local number = Arguments.number('config.set', option, value)
    if number < 0 and is_weight(option) then
      Errors.argument('config.set', option .. ' must not be below 0, as ' .. value .. ' is')
    end
  end
  if #option > 512 or #value > Arguments.text_bytes then
    Errors.raise('TOOBIG', 'config.set(): Option or value is too long')
  end
  call('HSET', key.config(), option, value)
  Events.config_set(option, value)
end

-- config.unset option
function Config.unset(args, i)
  local option = Arguments.given('config.unset', 'option', args[i])
  call('HDEL', key.config(), option)
  Events.config_unset(option)
end
end

-- sorted_set.lua
do
-- Variadic commands in pieces: Lua cannot unpack more than some thousand values.
local SortedSet = {}
Qless.SortedSet = SortedSet

local call = redis.call
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

function SortedSet.add_to_set(name, members)
  in_pieces('SADD', name, members)
end
end

-- clock.lua
do
-- The server's clock, and the record of the namespace that keeps it: meta.
local Texts, Arguments, scope, key = Qless.Texts, Qless.Arguments, Qless.scope, Qless.key

local Clock = {}
Qless.Clock = Clock

local call, format, rep, floor = redis.call, string.format, string.rep, math.floor

-- A kept time this far ahead of the server is not drift but a failover to a skewed replica.
local TOO_FAR = 60

local EVERY = 64

-- kept and token as meta has them; last: the last token drawn, as text
local kept, token, drawn, last, server, skewed

function Clock.reset()
  kept, token, drawn, last, server, skewed = nil, nil, 0, nil, false, false
end

-- What stands before the microseconds, by how many digits they have.
local BEFORE = {}
for digits = 1, 6 do
  BEFORE[digits] = '.' .. rep('0', 6 - digits)
end

local function take_server_time()
  local time = call('TIME')
  local second, rest = time[1], BEFORE[#time[2]] .. time[2]
  scope.now = tonumber(second .. rest)
  Texts.begin(second, rest)
end

-- Sets the time of a call with KEYS. Within a namespace the server's clock never goes back.
function Clock.set(text)
  local meta = call('HMGET', key.meta(), 'clock', 'token')
  kept, token = tonumber(meta[1]), tonumber(meta[2]) or 0
  if text ~= '*' then
    scope.now = Arguments.number('now', 'now', text)
    return
  end
  server = true
  take_server_time()
  local ahead = kept and kept - scope.now or 0
  if ahead > TOO_FAR then
    skewed = true
  elseif ahead > 0 then
    scope.now = kept
    Texts.begin()
  end
end

-- A new fencing token: rises for ever, whatever becomes of the jobs.
function Clock.draw()
  if scope.keyed then
    drawn = drawn + 1
    last = Texts.whole(token + drawn)
    return last
  end
  return call('HINCRBY', key.meta(), 'token', 1)
end

-- Is it time for what has to be looked after, but not at each call? So in the first call of a
-- second, and for one in EVERY tokens.
function Clock.is_round()
  return token % EVERY == 0 or not kept or floor(kept) ~= floor(scope.now)
end

-- Written only when the call has succeeded: a refused call does not advance the clock.
function Clock.keep()
  local name = key.meta()
  if not last and not kept then
    last = Texts.whole(token)
  end
  if server and last then
    call('HSET', name, 'clock', Texts.now(), 'token', last)
  elseif server then
    call('HSET', name, 'clock', Texts.now())
  elseif last then
    call('HSET', name, 'token', last)
  end
  if skewed then
    call('HINCRBY', name, 'skews', 1)
  end
end

-- meta
function Clock.show()
  local fields, record = call('HGETALL', key.meta()), { now = format('%.6f', scope.now) }
  for i = 1, #fields, 2 do
    record[fields[i]] = fields[i + 1]
  end
  return cjson.encode(record)
end
end

-- replies.lua
do
-- Repeatable requests: a call whose reply was lost is sent again and gets the same reply.
local Errors, key = Qless.Errors, Qless.key

local Replies = {}
Qless.Replies = Replies

local call, match, sub = redis.call, string.match, string.sub

Replies.seconds = '600'

-- The request that is being served.
local client, number

-- What a repeat needs in place of a long reply: commands put it here and name who rebuilds.
local short, rebuild

function Replies.reset()
  short, client = nil, nil
end

-- The reply is rebuilt from `value` by the function registered under `name`.
function Replies.shorten(name, value)
  short = { name, value }
end

-- Who sends the request, or nil.
function Replies.client()
  return client
end

function Replies.builders(builders)
  rebuild = builders
end

-- Most replies are a jid or nothing; only the others need to be packed.
local function packed_reply(reply)
  if short then
    return 'b' .. cmsgpack.pack(short)
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
    return rebuild[built[1]](built[2])
  elseif kind == 's' then
    return rest
  elseif kind == 'm' then
    return cmsgpack.unpack(rest)
  end
  return false
end

-- -> true and the earlier reply if this request was served before.
function Replies.recall(request)
  if request == '' then
    return false
  end
  client, number = match(request, '^([%w_.~-]+):(%d+)$')
  if not client or #client > 128 then
    Errors.raise('BADARG', 'request must be <client>:<number>, not ' .. Errors.name(request))
  end
  local stored = call('GET', key.reply(client))
  if not stored then
    return false
  end
  local last, packed = match(stored, '^(%d+) (.*)$')
  if tonumber(number) > tonumber(last) then
    return false
  end
  if tonumber(number) < tonumber(last) then
    Errors.raise('STALE', 'request ' .. request .. ' is older than the last one of its client, ' .. last)
  end
  return true, unpacked(packed)
end

function Replies.keep(request, reply)
  if request == '' then
    return
  end
  call('SET', key.reply(client), number .. ' ' .. packed_reply(reply), 'EX', Replies.seconds)
end
end

-- wake.lua
do
-- Wake-ups: idle workers block on lists, and whoever makes work ready feeds the lists.
local Texts, Absence, scope, key = Qless.Texts, Qless.Absence, Qless.scope, Qless.key

local Wake = {}
Qless.Wake = Wake

local call, match, format = redis.call, string.match, string.format

-- An unused wake-up must not outlive the workers it was meant for by long.
local KEPT = 60

local ready, due, seen, popped

function Wake.reset()
  ready, due, seen, popped = nil, nil, nil, false
end

-- n jobs of the queue became ready.
function Wake.ready(queue, n)
  if scope.live then
    ready = ready or {}
    ready[queue] = (ready[queue] or 0) + n
  end
end

-- Something of the queue falls due at that time.
function Wake.due(queue, time)
  if scope.live then
    due = due or {}
    due[queue] = math.min(due[queue] or time, time)
  end
end

-- A queue was seen for the first time.
function Wake.seen()
  seen = scope.live
end

-- How many clients wait there; those whose time is over have gone away without a word.
-- (An old client's clock says nothing about that.)
local function waiting_at(name)
  if call('ZCARD', name) == 0 then
    return 0 -- mostly, and cheaper to ask
  end
  return call('ZCOUNT', name, scope.keyed and Texts.now() or '-inf', '+inf')
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

function Wake.flush()
  if ready then
    for queue, n in pairs(ready) do
      local idle = waiting_at(key.idle_at(queue))
      if idle > 0 then
        if popped then
          -- Some of what became ready may have been taken by this very call.
          n = math.min(n, call('ZCARD', key.place(queue, 'work')))
        end
        feed(key.wake_at(queue), idle, n)
      end
    end
  end
  if due then
    for queue, time in pairs(due) do
      local idle = waiting_at(key.idle_at(queue))
      if idle > 0 and time < (timer_of(queue) or math.huge) then
        feed(key.wake_at(queue), idle, 1)
      end
    end
  end
  if seen then
    feed(key.wake(), waiting_at(key.idle()), Qless.Arguments.most)
  end
end

-- How many jobs of the queue are ready without having been announced: their time has come.
local function ripe(queue)
  return call('ZCOUNT', key.place(queue, 'locks'), '-inf', Texts.now())
    + call('ZCOUNT', key.place(queue, 'scheduled'), '-inf', Texts.now())
end

-- Takes back what a pop has made pointless: no more wake-ups than jobs are left.
function Wake.taken(queue)
  popped = true
  local list = key.wake_at(queue)
  local waiting = Absence.is_absent(list) and 0 or call('LLEN', list)
  if waiting > 0 then
    local left = call('ZCARD', key.place(queue, 'work')) + ripe(queue)
    if left == 0 then
      call('DEL', list)
    elseif left < waiting then
      call('LTRIM', list, 0, left - 1)
    end
  end
end

-- When the next thing of the queue falls due, or nil.
local function next_due(queue)
  local first
  for _, place in ipairs({ 'scheduled', 'recur', 'locks' }) do
    local head = call('ZRANGE', key.place(queue, place), 0, 0, 'WITHSCORES')
    if head[2] then
      first = math.min(first or math.huge, tonumber(head[2]))
    end
  end
  return first
end

-- A client goes to work that was idle at the queue. If it held the timer, somebody else has to look
-- after what falls due; and if several jobs fell due at once, for each of them somebody.
local function hand_on(client, queue)
  local wanted, _, holder = ripe(queue), timer_of(queue)
  if holder == client then
    call('DEL', key.timer(queue))
    wanted = math.max(wanted, 1)
  end
  if wanted > 0 then
    feed(key.wake_at(queue), waiting_at(key.idle_at(queue)), wanted)
  end
end

-- The caller has asked and is idle no longer.
function Wake.busy(client, queues, globbing, working)
  if globbing then
    call('ZREM', key.idle(), client)
  end
  for n = 1, #queues do
    local idle = key.idle_at(queues[n])
    if not Absence.is_absent(idle) and call('ZREM', idle, client) == 1 and working then
      hand_on(client, queues[n])
    end
  end
end

local function register(name, client, seconds)
  call('ZREMRANGEBYSCORE', name, '-inf', scope.now)
  call('ZADD', name, scope.now + seconds + 1, client)
  call('EXPIRE', name, math.ceil(seconds) + KEPT)
end

-- Registers an idle client. -> the seconds it may block and the keys to block on.
-- Only one client per queue holds the timer for what falls due; the others sleep on.
function Wake.wait(client, queues, seconds, globbing)
  local rest = { seconds }
  for _, queue in ipairs(queues) do
    register(key.idle_at(queue), client, seconds)
    rest[#rest + 1] = key.wake_at(queue)
    local time = next_due(queue)
    -- What is due already could not be taken: the queue is paused, or full.
    if time and time > scope.now and time < scope.now + seconds then
      local taken, holder = timer_of(queue)
      if not taken or holder == client or time < taken or taken <= scope.now then
        local left = math.max(time - scope.now, 0.001)
        call(
          'SET',
          key.timer(queue),
          format('%.6f', time) .. ' ' .. client,
          'PX',
          math.ceil(left * 1000) + 1000
        )
        rest[1] = math.min(rest[1], left)
      end
    end
  end
  if globbing or #queues == 0 then
    register(key.idle(), client, seconds)
    rest[#rest + 1] = key.wake()
  end
  rest[1] = format('%.3f', rest[1] + 0.0005)
  return rest
end
end

-- journal.lua
do
-- Samples that the statistics do not have yet: few at a time are only appended here.
local Texts, Arguments, key = Qless.Texts, Qless.Arguments, Qless.key

local Journal = {}
Qless.Journal = Journal

local call, match, text_of = redis.call, string.match, Arguments.text_of

-- An entry: when (in whole seconds), wait or run, how many seconds, how often, the queue.
function Journal.entry(kind, seconds, n, queue)
  return Texts.second() .. ' ' .. kind .. ' ' .. text_of(seconds) .. ' ' .. text_of(n) .. ' ' .. queue
end

-- -> how many entries there are now
function Journal.append(...)
  return call('RPUSH', key.journal(), ...)
end

-- Shows all entries to `visit(second, kind, seconds, n, queue)`. Jobs that come quickly one after
-- the other leave the same entry many times: those come as one.
local function show(texts, visit)
  local times = {}
  for n = 1, #texts do
    times[texts[n]] = (times[texts[n]] or 0) + 1
  end
  for text, often in pairs(times) do
    local second, kind, seconds, n, queue = match(text, '^(%S+) (%a+) (%S+) (%S+) (.*)$')
    visit(tonumber(second), kind, tonumber(seconds), tonumber(n) * often, queue)
  end
end

function Journal.read(visit)
  show(call('LRANGE', key.journal(), '0', '-1'), visit)
end

-- The same, and forgets them.
function Journal.take(visit)
  local texts = call('LRANGE', key.journal(), '0', '-1')
  if #texts > 0 then
    call('DEL', key.journal())
    show(texts, visit)
  end
end
end

-- minutes.lua
do
-- Counters per queue and minute of what was put, started, completed and failed.
local Arguments, Errors, Journal, scope, key =
  Qless.Arguments, Qless.Errors, Qless.Journal, Qless.scope, Qless.key

local Minutes = {}
Qless.Minutes = Minutes

local call, floor, text_of = redis.call, math.floor, Arguments.text_of

local KINDS = { 'put', 'started', 'completed', 'failed' }
local KEPT = 26 * 3600 -- an hour's counters are kept until its last minute is 25 hours old
local LONGEST = 25 * 60

-- What this call counted: queues, kinds and numbers side by side, as a call counts few.
local counted, queues, kinds, numbers = 0, {}, {}, {}

function Minutes.reset()
  counted = 0
end

function Minutes.count(queue, kind, n)
  if not scope.live then
    return
  end
  for place = 1, counted do
    if queues[place] == queue and kinds[place] == kind then
      numbers[place] = numbers[place] + n
      return
    end
  end
  counted = counted + 1
  queues[counted], kinds[counted], numbers[counted] = queue, kind, n
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

function Minutes.flush()
  for place = 1, counted do
    Minutes.write(queues[place], kinds[place], floor(scope.now / 60), numbers[place])
  end
end

local JOURNALLED = { wait = 'started', run = 'completed' }

-- Adds what the statistics do not have yet.
local function count_journal(shown, wanted_queue, from, to)
  Journal.read(function(second, kind, _, n, queue)
    local minute = floor(second / 60)
    if queue == wanted_queue and minute >= from and minute <= to then
      local list, field = shown[JOURNALLED[kind]], string.format('%.0f', minute)
      list[field] = (list[field] or 0) + n
    end
  end)
end

-- minutes queue from to
function Minutes.show(args, i)
  local queue = Arguments.queue('minutes', args[i])
  local from = Arguments.whole('minutes', 'from', args[i + 1], 0)
  local to = Arguments.whole('minutes', 'to', args[i + 2], 0)
  if to - from > LONGEST then
    Errors.raise('TOOBIG', 'minutes(): ' .. to - from .. ' minutes, at most ' .. LONGEST)
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
  count_journal(shown, queue, from, to)
  return cjson.encode(shown)
end
end

-- stats.lua
do
-- Statistics of a queue and day: running mean and variance (Welford 1962), a histogram.
local Texts, Config, Arguments, Journal, scope, key =
  Qless.Texts, Qless.Config, Qless.Arguments, Qless.Journal, Qless.scope, Qless.key

local Stats = {}
Qless.Stats = Stats

local call, floor = redis.call, math.floor
local DAY = 86400

-- Counts of this call: written once, at its end.
local counts

function Stats.reset()
  counts = nil
end

function Stats.day(time)
  return time - time % DAY
end

function Stats.count(queue, field, n)
  counts = counts or {}
  local fields = counts[queue]
  if not fields then
    fields = {}
    counts[queue] = fields
  end
  fields[field] = (fields[field] or 0) + n
end

-- One job less is failed, of those that failed on that day.
function Stats.mended(queue, failed_at)
  local name = key.stat('stats', Stats.day(failed_at), queue)
  if (tonumber(call('HGET', name, 'failed')) or 0) > 0 then
    call('HINCRBY', name, 'failed', -1)
  end
end

local function bin(seconds)
  if seconds < 60 then
    return 's' .. seconds
  elseif seconds < 3600 then
    return 'm' .. floor(seconds / 60)
  elseif seconds < DAY then
    return 'h' .. floor(seconds / 3600)
  end
  return 'd' .. floor(seconds / DAY)
end

-- Days looked back when a day begins, for days on which the queue did nothing.
local LOOKED_BACK = 10
local LONGEST = 36500 -- days a time to live may have

-- Days end: summaries are kept stats-history days, histograms histogram-history days.
local function begin_day(kind, day, queue)
  local kept = Config.whole('stats-history')
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
  local old = key.stat(kind, day - Config.whole('histogram-history') * DAY, queue)
  local summary = call('HMGET', old, 'total', 'mean', 'vk')
  if summary[1] then
    local rest = call('TTL', old)
    call('DEL', old)
    call('HSET', old, 'total', summary[1], 'mean', summary[2], 'vk', summary[3])
    if rest > 0 then
      call('EXPIRE', old, rest)
    end
  end
end

-- Mean and variance with more values: whole seconds -> how often.
local function with(count, mean, vk, values)
  for value, n in pairs(values) do
    local away, before = value - mean, count
    count = count + n
    mean = mean + away * n / count
    vk = vk + away * away * before * n / count
  end
  return count, mean, vk
end

local function by_bin(values)
  local bins = {}
  for value, n in pairs(values) do
    local field = bin(value)
    bins[field] = (bins[field] or 0) + n
  end
  return bins
end

-- Adds samples to a day's statistics: whole seconds -> how often.
function Stats.write(kind, day, queue, values)
  local name, bins, fields = key.stat(kind, day, queue), by_bin(values), { 'total', 'mean', 'vk' }
  for field in pairs(bins) do
    fields[#fields + 1] = field
  end
  local old = call('HMGET', name, unpack(fields))
  local count, mean, vk = with(tonumber(old[1]) or 0, tonumber(old[2]) or 0, tonumber(old[3]) or 0, values)
  local written = { 'total', Texts.whole(count), 'mean', mean, 'vk', vk }
  for k = 4, #fields do
    written[#written + 1] = fields[k]
    written[#written + 1] = Texts.whole((tonumber(old[k]) or 0) + bins[fields[k]])
  end
  call('HSET', name, unpack(written))
  if not old[1] then
    begin_day(kind, day, queue)
  end
end

function Stats.flush()
  if counts then
    local day = Stats.day(scope.now)
    for queue, fields in pairs(counts) do
      local name = key.stat('stats', day, queue)
      for field, n in pairs(fields) do
        if call('HINCRBY', name, field, n) == n then
          begin_day('stats', day, queue)
        end
      end
    end
  end
end

local BINS = {}
for _, part in ipairs({ { 's', 0, 59 }, { 'm', 1, 59 }, { 'h', 1, 23 }, { 'd', 1, 6 } }) do
  for n = part[2], part[3] do
    BINS[#BINS + 1] = part[1] .. n
  end
end

-- What the journal has of a queue and day: kind -> whole seconds -> how often.
local function not_yet_written(wanted_day, wanted_queue)
  local found = { wait = {}, run = {} }
  if scope.live then
    Journal.read(function(second, kind, seconds, n, queue)
      if queue == wanted_queue and Stats.day(second) == wanted_day then
        found[kind][seconds] = (found[kind][seconds] or 0) + n
      end
    end)
  end
  return found
end

local function summary(kind, day, queue, more)
  local name = key.stat(kind, day, queue)
  local head = call('HMGET', name, 'total', 'mean', 'vk')
  local count, mean, vk = with(tonumber(head[1]) or 0, tonumber(head[2]) or 0, tonumber(head[3]) or 0, more)
  local shown = {
    count = count,
    mean = mean,
    std = count > 1 and math.sqrt(vk / (count - 1)) or 0,
    histogram = {},
  }
  local bins = by_bin(more)
  for n, value in ipairs(call('HMGET', name, unpack(BINS))) do
    shown.histogram[n] = (tonumber(value) or 0) + (bins[BINS[n]] or 0)
  end
  return shown
end

-- stats queue date
function Stats.show(args, i)
  local queue = Arguments.given('stats', 'queue', args[i])
  local day = Stats.day(Arguments.number('stats', 'date', args[i + 1]))
  local head = call('HMGET', key.stat('stats', day, queue), 'retries', 'failed', 'failures')
  local more = not_yet_written(day, queue)
  return cjson.encode({
    retries = tonumber(head[1]) or 0,
    failed = tonumber(head[2]) or 0,
    failures = tonumber(head[3]) or 0,
    wait = summary('wait', day, queue, more.wait),
    run = summary('run', day, queue, more.run),
  })
end
end

-- samples.lua
do
-- How long jobs waited and ran: the samples of a call, and their way into statistics and minutes.
--
-- To write the statistics for each single job would cost more than the job. A call with few
-- samples leaves them in the journal; when that is long, and with each beat of a worker, all of
-- it is written. Whoever reads statistics counts the journal in.
local Journal, Minutes, Stats, scope = Qless.Journal, Qless.Minutes, Qless.Stats, Qless.scope

local Samples = {}
Qless.Samples = Samples

local floor = math.floor

local FEW = 4 -- samples of one call
local MOST = 100 -- entries of the journal
local LOOKED_BACK = 3

-- The samples of this call side by side: kind, queue, whole seconds, how often.
local count, kinds, queues, values, numbers = 0, {}, {}, {}, {}

function Samples.reset()
  count = 0
end

-- kind wait: from ready to popped; kind run: from popped to complete; in seconds.
function Samples.add(kind, queue, seconds)
  local value = seconds < 1 and 0 or floor(seconds)
  -- The jobs of a batch mostly have the same: what is missed here is added up later.
  for place = count, math.max(1, count - LOOKED_BACK), -1 do
    if values[place] == value and queues[place] == queue and kinds[place] == kind then
      numbers[place] = numbers[place] + 1
      return
    end
  end
  count = count + 1
  kinds[count], queues[count], values[count], numbers[count] = kind, queue, value, 1
end

local COUNTED_AS = { wait = 'started', run = 'completed' }

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
    local list = inside(inside(days[kind], Stats.day(second)), queue)
    list[seconds] = (list[seconds] or 0) + n
    list = inside(minutes[kind], floor(second / 60))
    list[queue] = (list[queue] or 0) + n
  end
  local function write()
    for kind, by_day in pairs(days) do
      for day, by_queue in pairs(by_day) do
        for queue, list in pairs(by_queue) do
          Stats.write(kind, day, queue, list)
        end
      end
    end
    for kind, by_minute in pairs(minutes) do
      for minute, by_queue in pairs(by_minute) do
        for queue, n in pairs(by_queue) do
          Minutes.write(queue, COUNTED_AS[kind], minute, n)
        end
      end
    end
  end
  return add, write
end

-- Writes what the journal has.
function Samples.settle()
  local add, write = book()
  Journal.take(add)
  write()
end

local function leave_in_journal()
  local entries = {}
  for place = 1, count do
    entries[place] = Journal.entry(kinds[place], values[place], numbers[place], queues[place])
  end
  if Journal.append(unpack(entries)) >= MOST then
    Samples.settle()
  end
end

function Samples.flush()
  if count == 0 then
    return
  elseif scope.keyed and count <= FEW then
    leave_in_journal()
    return
  end
  local add, write = book()
  for place = 1, count do
    add(scope.now, kinds[place], values[place], numbers[place], queues[place])
  end
  write()
end
end

-- tags.lua
do
-- Tags: which jobs carry one, and how many do.
local Errors, Arguments, scope, key = Qless.Errors, Qless.Arguments, Qless.scope, Qless.key

local Tags = {}
Qless.Tags = Tags

local call = redis.call

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
  jid = Arguments.given('tag', 'jid', jid)
  local record = call('HMGET', key.job(jid), 'jid', 'tags')
  if not record[1] then
    Errors.no_job('tag', jid)
  end
  return cjson.decode(record[2] or '{}')
end

local function store(jid, tags)
  local text = Tags.text(tags)
  call('HSET', key.job(jid), 'tags', text)
  return text
end

local function page(args, i)
  local offset, count = Arguments.offset('tag', args[i]), Arguments.count('tag', args[i + 1], 25)
  return offset, count
end

local commands = {
  add = function(args, i)
    local jid = args[i]
    local tags = load(jid)
    local more = Tags.rest(args, i + 1)
    Arguments.bounded('tag', #more)
    local all = Arguments.few_tags('tag', Tags.with(tags, more))
    Tags.index(jid, more)
    return store(jid, all)
  end,
  remove = function(args, i)
    local jid = args[i]
    local tags = load(jid)
    local less = Tags.rest(args, i + 1)
    Arguments.bounded('tag', #less)
    Tags.unindex(jid, less)
    return store(jid, Tags.without(tags, less))
  end,
  get = function(args, i)
    local tag = Arguments.given('tag', 'tag', args[i])
    local offset, count = page(args, i + 1)
    return cjson.encode({
      total = call('ZCARD', key.tag(tag)),
      jobs = call('ZRANGE', key.tag(tag), offset, offset + count - 1),
    })
  end,
  top = function(args, i)
    local offset, count = page(args, i)
    return cjson.encode(call('ZREVRANGEBYSCORE', key.tags(), '+inf', 2, 'LIMIT', offset, count))
  end,
}

-- tag add|remove jid tag...   tag get tag [offset count]   tag top [offset count]
function Tags.command(args, i)
  local command = commands[args[i]]
  if not command then
    Errors.argument('tag', 'First argument must be add, remove, get or top')
  end
  return command(args, i + 1)
end
end

-- failures.lua
do
-- Failed jobs by group: the set of groups, a list of jids for each.
local Arguments, Stats, Minutes, scope, key =
  Qless.Arguments, Qless.Stats, Qless.Minutes, Qless.scope, Qless.key

local Failures = {}
Qless.Failures = Failures

local call = redis.call

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
  Stats.count(queue, 'failures', 1)
  Stats.count(queue, 'failed', 1)
  Minutes.count(queue, 'failed', 1)
end

local function take(jid, list)
  local found = call('LREM', key.group(list), 1, jid)
  if call('LLEN', key.group(list)) == 0 then
    call('SREM', key.failures(), list)
  end
  return found > 0
end

-- A job that was failed is so no longer.
function Failures.remove(jid, queue, failure)
  local known = cjson.decode(failure or '{}')
  if not known.group then
    return
  end
  if not take(jid, known.group) then
    take(jid, 'other')
  end
  Stats.mended(queue, tonumber(known.when) or 0)
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
  local start, limit = Arguments.offset('failed', args[i + 1]), Arguments.count('failed', args[i + 2], 25)
  return cjson.encode({
    total = call('LLEN', key.group(group)),
    jobs = call('LRANGE', key.group(group), start, start + limit - 1),
  })
end
end

-- history.lua
do
-- What happened to a job: a list of [when, what, more], the first and the newest kept.
local Texts, Config, Arguments, Errors, scope, key =
  Qless.Texts, Qless.Config, Qless.Arguments, Qless.Errors, Qless.scope, Qless.key

local History = {}
Qless.History = History

local call, quote, floor = redis.call, cjson.encode, math.floor

-- An entry; `more` is the text of a JSON object, `when` defaults to now.
local function entry(what, more, when)
  local second = when and Texts.whole(floor(when)) or Texts.second()
  return '[' .. second .. ',' .. quote(what) .. (more and ',' .. more or '') .. ']'
end

local function append(jid, text, putting)
  local name = key.history(jid)
  local length = call('RPUSH', name, text)
  if length < 3 then
    if length == 1 and not putting then
      History.modernise_late(jid)
    end
    return
  end
  local limit = Config.whole('max-job-history')
  if limit > 0 and limit ~= 2 and length > limit then
    local first = call('LPOP', name)
    call('LTRIM', name, -math.max(limit - 1, 1), -1)
    call('LPUSH', name, first)
  end
end

function History.add(jid, what, more, when)
  append(jid, entry(what, more, when))
end

-- What stands behind the time, the same for all jobs of a queue or a worker.
local put_into = Texts.remembered(function(queue)
  return ',"put",{"q":' .. quote(queue) .. '}]'
end)

local popped_by = Texts.remembered(function(worker)
  return ',"popped",{"worker":' .. quote(worker) .. '}]'
end)

function History.put(jid, queue, when)
  local second = when and Texts.whole(floor(when)) or Texts.second()
  append(jid, '[' .. second .. put_into(queue), true)
end

function History.popped(jid, worker)
  append(jid, '[' .. Texts.second() .. popped_by(worker))
end

function History.done(jid)
  append(jid, '[' .. Texts.second() .. ',"done"]')
end

function History.failed(jid, group, worker)
  if worker then
    History.add(jid, 'failed', '{"worker":' .. quote(worker) .. ',"group":' .. quote(group) .. '}')
  else
    History.add(jid, 'failed', '{"group":' .. quote(group) .. '}')
  end
end

-- The entries as objects with when, what and the members of their third part.
function History.read(jid)
  local entries = {}
  for n, text in ipairs(call('LRANGE', key.history(jid), 0, -1)) do
    local triple = cjson.decode(text)
    local shown = triple[3] or {}
    shown.when, shown.what = triple[1], triple[2]
    entries[n] = shown
  end
  return entries
end

-- Records of the earliest versions carry their history in a field of the hash.
function History.modernise(jid, text)
  for _, old in ipairs(cjson.decode(text)) do
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
  call('HDEL', key.job(jid), 'history')
end

-- The first entry of a list was not a put: the record may be of the earliest versions.
function History.modernise_late(jid)
  local text = call('HGET', key.job(jid), 'history')
  if text then
    local newest = call('LPOP', key.history(jid))
    History.modernise(jid, text)
    call('RPUSH', key.history(jid), newest)
  end
end

-- log jid message [data]
function History.log(args, i)
  local jid = Arguments.given('log', 'jid', args[i])
  local message = Arguments.given('log', 'message', args[i + 1])
  local data = args[i + 2]
  if data then
    Arguments.object('log', 'data', data)
  end
  if scope.keyed and #message > Arguments.text_bytes then
    Errors.raise('TOOBIG', 'log(): message has ' .. #message .. ' bytes, at most ' .. Arguments.text_bytes)
  end
  if call('EXISTS', key.job(jid)) == 0 then
    Errors.no_job('log', jid)
  end
  History.add(jid, message, data)
end
end

-- place.lua
do
-- The places of a queue: work, locks, scheduled, depends. A job is in exactly one.
local Wake, scope, key = Qless.Wake, Qless.scope, Qless.key

local Place = {}
Qless.Place = Place

local call = redis.call

-- Highest first: by priority, then the longest waiting. Ties are popped in falling order of jid.
function Place.score(priority, time)
  return priority - time / 1e10
end

function Place.work(jid, queue, priority, time)
  call('ZADD', key.place(queue, 'work'), Place.score(priority, time or scope.now), jid)
  Wake.ready(queue, 1)
end

-- Back to where a job was taken from: the head of its priority. Its equals there have the same
-- score, and of those the one with the higher jid comes first; ours fall with time.
function Place.work_again(jid, queue, priority)
  local work, score = key.place(queue, 'work'), Place.score(priority, scope.now)
  local head = call('ZREVRANGEBYSCORE', work, priority, score, 'WITHSCORES', 'LIMIT', '0', '1')
  call('ZADD', work, head[2] or score, jid)
  Wake.ready(queue, 1)
end

-- The scores of jobs that become ready now, as texts by priority: a batch has few different ones.
function Place.scores()
  return setmetatable({}, {
    __index = function(texts, priority)
      local text = string.format('%.17g', Place.score(priority, scope.now))
      texts[priority] = text
      return text
    end,
  })
end

-- Many jobs at once: score, jid, score, jid …
function Place.work_many(queue, list)
  local name = key.place(queue, 'work')
  for first = 1, #list, 1000 do
    call('ZADD', name, unpack(list, first, math.min(first + 999, #list)))
  end
  Wake.ready(queue, #list / 2)
end

function Place.scheduled(jid, queue, time)
  call('ZADD', key.place(queue, 'scheduled'), time, jid)
  Wake.due(queue, time)
end

function Place.depends(jid, queue)
  call('ZADD', key.place(queue, 'depends'), scope.now, jid)
end

-- What lags is counted from when a job became ready. (Old clients count from its put.)
function Place.ready_since(jid, time)
  if scope.keyed then
    call('HSET', key.job(jid), 'time', string.format('%.20f', time))
  end
end

function Place.leave(jid, queue)
  call('ZREM', key.place(queue, 'work'), jid)
  call('ZREM', key.place(queue, 'locks'), jid)
  call('ZREM', key.place(queue, 'depends'), jid)
  call('ZREM', key.place(queue, 'scheduled'), jid)
end

-- A queue is known from its first job on.
function Place.register(queue)
  if call('ZADD', key.queues(), 'NX', scope.now, queue) == 1 then
    Wake.seen()
  end
end
end

-- dependencies.lua
do
-- Dependencies: symmetric links between jobs, and the release of those that waited.
local Absence, Errors, Arguments, Place, SortedSet, scope, key =
  Qless.Absence, Qless.Errors, Qless.Arguments, Qless.Place, Qless.SortedSet, Qless.scope, Qless.key

local Dependencies = {}
Qless.Dependencies = Dependencies

local call = redis.call

-- Links followed at most when a circle is looked for, and dependents released by one call.
local MOST = 1000

-- What this call may still release.
local budget

function Dependencies.reset()
  budget = MOST
end

-- Which of the jids hold a job back. Without KEYS unknown ones are ignored, with KEYS refused;
-- `coming` are the jids that the same call is about to put.
function Dependencies.open(command, jids, coming)
  local open = {}
  for _, jid in ipairs(jids) do
    local state = coming and coming[jid] and 'waiting' or call('HGET', key.job(jid), 'state')
    if not state and scope.keyed then
      Errors.no_job(command, jid)
    end
    if state and state ~= 'complete' then
      open[#open + 1] = jid
    end
  end
  return open
end

-- Refuses links that would make a job wait for itself. `planned` are links not yet written.
function Dependencies.no_circle(command, jid, jids, planned)
  local seen, path, visited = {}, {}, 0
  local function walk(current)
    if current == jid then
      path[#path + 1] = Errors.name(current)
      Errors.raise(
        'CYCLE',
        command
          .. '(): Job '
          .. Errors.name(jid)
          .. ' would wait for itself: '
          .. table.concat(path, ' waits for ')
      )
    end
    if seen[current] then
      return
    end
    seen[current] = true
    visited = visited + 1
    if visited > MOST then
      Errors.raise(
        'TOOBIG',
        command .. '(): more than ' .. MOST .. ' jobs behind the dependencies of ' .. Errors.name(jid)
      )
    end
    path[#path + 1] = Errors.name(current)
    for _, further in ipairs(planned and planned[current] or call('SMEMBERS', key.dependencies(current))) do
      walk(further)
    end
    path[#path] = nil
  end
  path[1] = Errors.name(jid)
  for _, other in ipairs(jids) do
    walk(other)
  end
end

function Dependencies.link(jid, jids)
  for _, other in ipairs(jids) do
    local name = key.dependents(other)
    Absence.forget(name)
    call('SADD', name, jid)
  end
  SortedSet.add_to_set(key.dependencies(jid), jids)
end

function Dependencies.unlink(jid, jids)
  for _, other in ipairs(jids) do
    call('SREM', key.dependents(other), jid)
    call('SREM', key.dependencies(jid), other)
  end
end

function Dependencies.unlink_all(jid)
  for _, other in ipairs(call('SMEMBERS', key.dependencies(jid))) do
    call('SREM', key.dependents(other), jid)
  end
  call('DEL', key.dependencies(jid))
end

-- Nothing holds the job back any longer: it becomes ready, or waits for its time.
function Dependencies.free(jid)
  local record = call('HMGET', key.job(jid), 'state', 'queue', 'priority', 'scheduled', 'open')
  if record[1] ~= 'depends' or record[5] == '1' then
    return
  end
  local queue = record[2]
  call('ZREM', key.place(queue, 'depends'), jid)
  local time = tonumber(record[4])
  if time then
    call('HDEL', key.job(jid), 'scheduled')
    call('HSET', key.job(jid), 'state', 'scheduled')
    Place.scheduled(jid, queue, time)
  else
    call('HSET', key.job(jid), 'state', 'waiting')
    Place.ready_since(jid, scope.now)
    Place.work(jid, queue, tonumber(record[3]) or 0)
  end
end

local function release_some(jid)
  local name = key.dependents(jid)
  local dependents
  if call('SCARD', name) <= budget then
    dependents = call('SMEMBERS', name)
    call('DEL', name)
    call('ZREM', key.releasing(), jid)
  else
    dependents = call('SPOP', name, budget)
    call('ZADD', key.releasing(), scope.now, jid)
  end
  for _, dependent in ipairs(dependents) do
    call('SREM', key.dependencies(dependent), jid)
    if call('SCARD', key.dependencies(dependent)) == 0 then
      Dependencies.free(dependent)
    end
  end
  budget = budget - #dependents
end

-- After the jobs were completed: frees what waited for them, a bounded number at a time.
function Dependencies.release(jids)
  if #jids == 1 and Absence.is_absent(key.dependents(jids[1])) then
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
      if budget > 0 then
        release_some(jid)
      else
        call('ZADD', key.releasing(), scope.now, jid)
      end
    end
  end
end

-- Carries on with what earlier calls had to leave.
function Dependencies.carry_on()
  local releasing = key.releasing()
  if budget <= 0 or Absence.is_absent(releasing) or call('EXISTS', releasing) == 0 then
    return
  end
  local jid = call('ZRANGE', key.releasing(), 0, 0)[1]
  -- Its record may have expired meanwhile; if it was put again, the rest waits for its new run.
  if (call('HGET', key.job(jid), 'state') or 'complete') == 'complete' then
    release_some(jid)
  else
    call('ZREM', key.releasing(), jid)
  end
end

local function in_depends(jid)
  if call('HGET', key.job(jid), 'state') ~= 'depends' then
    Errors.raise('STATE', 'depends(): Job ' .. Errors.name(jid) .. ' is not in the depends state')
  end
end

local function free_if_last(jid)
  if call('SCARD', key.dependencies(jid)) == 0 then
    Dependencies.free(jid)
  end
end

-- depends jid on|off jid...   depends jid off all
function Dependencies.command(args, i)
  local jid = Arguments.given('depends', 'jid', args[i])
  local word = Arguments.given('depends', 'on or off', args[i + 1])
  if word ~= 'on' and word ~= 'off' then
    Errors.argument('depends', 'Argument "on" or "off" wanted, not ' .. Errors.name(word))
  end
  in_depends(jid)
  local jids = {}
  for n = i + 2, #args do
    jids[#jids + 1] = args[n]
  end
  Arguments.bounded('depends', #jids)
  if word == 'on' then
    local open = Dependencies.open('depends', jids)
    Dependencies.no_circle('depends', jid, open)
    Dependencies.link(jid, open)
  elseif jids[1] == 'all' then
    Dependencies.unlink_all(jid)
    free_if_last(jid)
  else
    Dependencies.unlink(jid, jids)
    free_if_last(jid)
  end
  return 1
end

-- seal jid: a job that was put open gains no more dependencies and may become ready.
function Dependencies.seal(args, i)
  local jid = Arguments.given('seal', 'jid', args[i])
  if call('EXISTS', key.job(jid)) == 0 then
    Errors.no_job('seal', jid)
  end
  if call('HDEL', key.job(jid), 'open') == 1 then
    free_if_last(jid)
  end
  return 1
end
end

-- job.lua
do
-- A job's record: reading it, showing it, and the commands on a single job.
local Errors, Json, Arguments, Events, History, Place, Tags, Failures, Dependencies, scope, key =
  Qless.Errors,
  Qless.Json,
  Qless.Arguments,
  Qless.Events,
  Qless.History,
  Qless.Place,
  Qless.Tags,
  Qless.Failures,
  Qless.Dependencies,
  Qless.scope,
  Qless.key

local Job = {}
Qless.Job = Job

local call = redis.call

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
  'open',
  'history',
}

-- The whole record as a table, or nil.
function Job.read(jid)
  local values = call('HMGET', key.job(jid), unpack(FIELDS))
  if not values[1] then
    return nil
  end
  local record = {}
  for n, field in ipairs(FIELDS) do
    record[field] = values[n] or nil
  end
  if record.history and not scope.reading then
    History.modernise(jid, record.history)
  end
  return record
end

function Job.must(command, jid)
  local record = Job.read(Arguments.given(command, 'jid', jid))
  if not record then
    Errors.no_job(command, jid)
  end
  return record
end

function Job.is_tracked(jid)
  return call('ZSCORE', key.tracked(), jid) and true or false
end

-- The jobs of a batch that are tracked; mostly there are none at all.
function Job.tracked_among(jids)
  local tracked, name = {}, key.tracked()
  if not Qless.Absence.is_absent(name) and call('EXISTS', name) == 1 then
    for _, jid in ipairs(jids) do
      tracked[jid] = Job.is_tracked(jid)
    end
  end
  return tracked
end

-- The object that get, pop and peek show, as JSON, or nil.
function Job.show(jid)
  local record = Job.read(jid)
  if not record then
    return nil
  end
  local shown = {
    jid = record.jid,
    klass = record.klass,
    state = record.state,
    queue = record.queue,
    worker = record.worker or '',
    tracked = Job.is_tracked(jid),
    priority = tonumber(record.priority),
    expires = tonumber(record.expires) or 0,
    retries = tonumber(record.retries),
    remaining = math.floor(tonumber(record.remaining) or 0),
    data = record.data,
    tags = cjson.decode(record.tags or '{}'),
    history = History.read(jid),
    failure = cjson.decode(record.failure or '{}'),
    spawned_from_jid = record.spawned_from_jid or false,
    dependents = call('SMEMBERS', key.dependents(jid)),
    dependencies = call('SMEMBERS', key.dependencies(jid)),
  }
  if not scope.keyed then
    return cjson.encode(shown)
  end
  shown.token = record.state == 'running' and record.token or ''
  shown.crashes = tonumber(record.crashes) or 0
  shown.open = record.open == '1'
  local context, progress = record.context or 'null', record.progress or 'null'
  return Json.with(cjson.encode(shown), 'context', context, 'progress', progress)
end

function Job.show_all(jids)
  local shown = {}
  for _, jid in ipairs(jids) do
    shown[#shown + 1] = Job.show(jid)
  end
  return Json.list(shown)
end

-- get jid
function Job.get(args, i)
  return Job.show(Arguments.given('get', 'jid', args[i]))
end

-- multiget jid...
function Job.multiget(args, i)
  local jids = Tags.rest(args, i)
  Arguments.bounded('multiget', #jids)
  return Job.show_all(jids)
end

-- Takes a job out of its worker's hands, in the books.
function Job.unhold(jid, worker)
  if worker and worker ~= '' then
    call('ZREM', key.held(worker), jid)
  end
end

-- Deletes all that is kept of a job that is in no place any longer.
function Job.erase(jid, tags)
  Tags.unindex(jid, tags)
  call('DEL', key.job(jid), key.history(jid), key.dependencies(jid), key.dependents(jid))
  if scope.live then
    call('DEL', key.result(jid))
  end
end

-- priority jid p
function Job.priority(args, i)
  local jid = Arguments.given('priority', 'jid', args[i])
  local priority = Arguments.number('priority', 'priority', args[i + 1])
  local record = call('HMGET', key.job(jid), 'queue', 'priority', 'state')
  if not record[3] then
    Errors.no_job('priority', jid)
  end
  local work = key.place(record[1] or '', 'work')
  local score = call('ZSCORE', work, jid)
  if score and record[3] == 'waiting' then
    call('ZADD', work, priority + (tonumber(score) - tonumber(record[2])), jid)
  end
  call('HSET', key.job(jid), 'priority', priority)
  return priority
end

-- track [track|untrack jid]
function Job.track(args, i)
  if args[i] == nil then
    local jobs, expired = {}, {}
    for _, jid in ipairs(call('ZRANGE', key.tracked(), 0, Arguments.most - 1)) do
      local shown = Job.show(jid)
      if shown then
        jobs[#jobs + 1] = shown
      else
        expired[#expired + 1] = jid
      end
    end
    return Json.with(cjson.encode({ expired = expired }), 'jobs', Json.list(jobs))
  end
  local word = string.lower(args[i])
  if word ~= 'track' and word ~= 'untrack' then
    Errors.argument('track', 'Unknown word ' .. Errors.name(args[i]) .. ', it must be track or untrack')
  end
  local jid = Arguments.given('track', 'jid', args[i + 1])
  if call('EXISTS', key.job(jid)) == 0 then
    Errors.no_job('track', jid)
  end
  Events.tracked(word, jid)
  if word == 'track' then
    return cjson.encode(call('ZADD', key.tracked(), scope.now, jid))
  end
  return cjson.encode(call('ZREM', key.tracked(), jid))
end

-- Would canceling these strand a job that is not canceled with them?
local function no_dependents_left(jids)
  local named = {}
  for _, jid in ipairs(jids) do
    named[jid] = true
  end
  for _, jid in ipairs(jids) do
    -- More than this call may name: some of them show it as well as all.
    for _, dependent in ipairs(call('SRANDMEMBER', key.dependents(jid), Arguments.most + 1)) do
      if not named[dependent] then
        Errors.raise(
          'DEPENDENTS',
          'cancel(): '
            .. Errors.name(jid)
            .. ' is a dependency of '
            .. Errors.name(dependent)
            .. ', which is not canceled'
        )
      end
    end
  end
end

local function cancel(jid)
  local record = Job.read(jid)
  if not record then
    if not scope.keyed then
      Events.canceled(jid, false, false)
    end
    return
  end
  if record.state == 'complete' then
    return
  end
  local queue, worker = record.queue, record.worker or ''
  Events.canceled(jid, queue, worker)
  Job.unhold(jid, worker)
  Place.leave(jid, queue)
  Dependencies.unlink_all(jid)
  if record.state == 'failed' then
    Failures.remove(jid, queue, record.failure)
  end
  if Job.is_tracked(jid) then
    Events.tracked('canceled', jid)
  end
  Job.erase(jid, cjson.decode(record.tags or '{}'))
end

-- cancel jid...
function Job.cancel(args, i)
  local jids = Tags.rest(args, i)
  Arguments.bounded('cancel', #jids)
  no_dependents_left(jids)
  for _, jid in ipairs(jids) do
    cancel(jid)
  end
  return jids
end

-- timeout jid...: takes the job from its worker and puts it before all others.
function Job.timeout(args, i)
  local jids = Tags.rest(args, i)
  Arguments.bounded('timeout', #jids)
  local records = {}
  for n, jid in ipairs(jids) do
    records[n] = Job.must('timeout', jid)
    if records[n].state ~= 'running' then
      Errors.raise('STATE', 'timeout(): Job ' .. Errors.name(jid) .. ' not running but ' .. records[n].state)
    end
  end
  for n, jid in ipairs(jids) do
    local record = records[n]
    if call('HGET', key.job(jid), 'state') == 'running' then
      History.add(jid, 'timed-out')
      call('ZREM', key.place(record.queue, 'locks'), jid)
      call('ZADD', key.place(record.queue, 'work'), '+inf', jid)
      Qless.Wake.ready(record.queue, 1)
      Job.unhold(jid, record.worker)
      call('HSET', key.job(jid), 'state', 'stalled', 'expires', 0)
      call('HDEL', key.job(jid), 'grace')
      Events.lock_lost(jid, record.worker)
    end
  end
end

-- progress jid token json
function Job.progress(args, i)
  local jid = Arguments.given('progress', 'jid', args[i])
  local text = args[i + 2]
  Arguments.json('progress', 'progress', text, Arguments.text_bytes)
  if not string.find(text, '^%s*%[') then
    Errors.argument('progress', 'progress must be a JSON list, [fraction, text]')
  end
  Qless.Lock.holder('progress', jid, args[i + 1])
  call('HSET', key.job(jid), 'progress', text)
  return 1
end

-- result jid
function Job.result(args, i)
  return call('GET', key.result(Arguments.given('result', 'jid', args[i])))
end
end

-- put.lua
do
-- Putting jobs: new ones, and old ones again (which moves or revives them).
local Texts, Errors, Arguments, Events, History, Place, Tags, Failures, Dependencies, Job, Minutes, scope, key =
  Qless.Texts,
  Qless.Errors,
  Qless.Arguments,
  Qless.Events,
  Qless.History,
  Qless.Place,
  Qless.Tags,
  Qless.Failures,
  Qless.Dependencies,
  Qless.Job,
  Qless.Minutes,
  Qless.scope,
  Qless.key

local Put = {}
Qless.Put = Put

local call, format, text_of = redis.call, string.format, Arguments.text_of

local OPTIONS = { priority = true, tags = true, retries = true, depends = true }
local KEYED_OPTIONS = {
  priority = true,
  tags = true,
  retries = true,
  depends = true,
  context = true,
  absent = true,
  open = true,
}

-- What of an old record a put needs.
local function read_old(jid)
  local old = call(
    'HMGET',
    key.job(jid),
    'state',
    'queue',
    'worker',
    'priority',
    'tags',
    'retries',
    'failure',
    'history',
    'scheduled',
    'open'
  )
  return old[1] and old
end

-- Checks one job's arguments from args[i] on; options stand at args[from .. to].
local function parse(command, args, i, from, to)
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
  local known = scope.keyed and KEYED_OPTIONS or OPTIONS
  for n = from, to, 2 do
    local name, value = args[n], args[n + 1]
    if known[name] then
      job[name] = value
    elseif scope.keyed then
      Errors.argument(command, 'Unknown option ' .. Errors.name(name))
    end
  end
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
  end
  if job.context then
    Arguments.object(command, 'context', job.context)
  end
  return job
end

-- Reads the old record: an existing job may be left alone.
local function look(job)
  if job.old == nil then
    -- Mostly there is none, and that is quickly asked.
    job.old = call('EXISTS', key.job(job.jid)) == 1 and read_old(job.jid)
  end
  job.left_alone = job.absent == '1' and job.old and true
end

-- Settles what may still be refused.
local function prepare(command, job, coming, planned)
  if job.left_alone then
    return
  end
  if job.depends and #job.depends > 0 then
    job.depends = Dependencies.open(command, job.depends, coming)
    if job.old or planned then
      Dependencies.no_circle(command, job.jid, job.depends, planned)
    else
      for _, other in ipairs(job.depends) do
        if other == job.jid then
          Dependencies.no_circle(command, job.jid, job.depends)
        end
      end
    end
    job.replacing = true
  end
end

-- Undoes what the old record did elsewhere. -> whether old dependencies still hold it back
local function clear_old(job, old, asking)
  local jid, queue, worker = job.jid, old[2], old[3]
  Tags.unindex(jid, cjson.decode(old[5] or '{}'))
  if queue and queue ~= '' then
    Place.leave(jid, queue)
  end
  if worker and worker ~= '' then
    Job.unhold(jid, worker)
    if worker ~= asking then
      Events.lock_lost(jid, worker)
    end
  end
  if old[1] == 'complete' then
    call('ZREM', key.completed(), jid)
    call('ZREM', key.releasing(), jid)
  elseif old[1] == 'failed' then
    Failures.remove(jid, queue, old[7])
  end
  if job.replacing then
    Dependencies.unlink_all(jid)
  end
  call(
    'HDEL',
    key.job(jid),
    'grace',
    'scheduled',
    'token',
    'progress',
    'crashes',
    'unknown',
    'open',
    'context'
  )
  if scope.live then
    call('DEL', key.result(jid))
  end
end

-- The record of a new job, in one command. Fields that change at every step come first.
local function write(job, state)
  local jid, retries = job.jid, text_of(job.retries)
  local name = key.job(jid)
  call(
    'HSET',
    name,
    'state',
    state,
    'worker',
    '',
    'expires',
    '0',
    'time',
    Texts.time(),
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
  if job.context then
    call('HSET', name, 'context', job.context)
  end
  if job.open == '1' then
    call('HSET', name, 'open', '1')
  end
  if state == 'depends' and job.delay > 0 then
    call('HSET', name, 'scheduled', format('%.17g', scope.now + job.delay))
  end
end

-- Puts a prepared job. -> nothing; writes only, and none of it can fail.
local function store(job, asking, tracked, batch)
  local jid, queue, old = job.jid, job.queue, job.old
  Events.put(jid, queue)
  if old and old[8] then
    History.modernise(jid, old[8])
  end
  History.put(jid, queue)
  job.priority = job.priority or (old and tonumber(old[4])) or 0
  job.retries = job.retries or (old and tonumber(old[6])) or 5
  if not job.tags and old then
    job.tags = cjson.decode(old[5] or '{}')
  end
  job.tags_text = job.tags and #job.tags > 0 and Tags.text(job.tags) or '{}'
  local held_back = job.open == '1'
  if old then
    clear_old(job, old, asking)
    held_back = held_back or call('SCARD', key.dependencies(jid)) > 0
  end
  if job.tags then
    Tags.index(jid, job.tags)
  end
  if job.replacing then
    Dependencies.link(jid, job.depends)
    held_back = held_back or #job.depends > 0
  end
  if held_back then
    write(job, 'depends')
    Place.depends(jid, queue)
  elseif job.delay > 0 then
    write(job, 'scheduled')
    Place.scheduled(jid, queue, scope.now + job.delay)
  else
    write(job, 'waiting')
    if batch then
      batch(job)
    else
      Place.work(jid, queue, job.priority)
    end
  end
  if tracked then
    Events.tracked('put', jid)
  end
end

local function one(command, args, i)
  Arguments.given(command, 'worker', args[i])
  if (#args - i - 5) % 2 ~= 0 and #args > i + 5 then
    Errors.argument(command, 'Odd number of additional args')
  end
  local job = parse(command, args, i + 1, i + 6, #args)
  look(job)
  prepare(command, job)
  return job
end

-- put worker queue jid klass data delay [pairs]
function Put.put(args, i)
  local job = one('put', args, i)
  if job.left_alone then
    return false
  end
  store(job, args[i], Job.is_tracked(job.jid))
  Minutes.count(job.queue, 'put', 1)
  Place.register(job.queue)
  return job.jid
end

-- requeue worker queue jid klass data delay [pairs]
function Put.requeue(args, i)
  local job = one('requeue', args, i)
  if not job.old then
    Errors.no_job('requeue', job.jid)
  end
  store(job, args[i], Job.is_tracked(job.jid))
  Minutes.count(job.queue, 'put', 1)
  Place.register(job.queue)
  return job.jid
end

-- The jobs of a batch: jid queue klass data delay k (name value)*k each.
local function parse_many(args, i)
  local jobs, jids, coming = {}, {}, {}
  local total, n = #args, 0
  while i <= total do
    local pairs_given = Arguments.whole('put.many', 'number of options', args[i + 5], 0)
    local last = i + 5 + 2 * pairs_given
    if last > total then
      Errors.argument('put.many', 'Arguments of job ' .. Errors.name(args[i]) .. ' are incomplete')
    end
    args[i], args[i + 1] = args[i + 1], args[i] -- a single put names the queue first
    local job = parse('put.many', args, i, i + 6, last)
    if coming[job.jid] then
      Errors.argument('put.many', 'jid ' .. Errors.name(job.jid) .. ' twice in one batch')
    end
    coming[job.jid] = job
    n = n + 1
    jobs[n], jids[n] = job, job.jid
    i = last + 1
  end
  Arguments.bounded('put.many', n)
  return jobs, jids, coming
end

-- Is none of the jobs there yet? Mostly so, and then one question answers for all.
local function all_new(jids)
  local names = {}
  for n, jid in ipairs(jids) do
    names[n] = key.job(jid)
  end
  return #names == 0 or call('EXISTS', unpack(names)) == 0
end

-- put.many worker (jid queue klass data delay k (name value)*k)... -> the jids left alone
function Put.many(args, i)
  local worker = Arguments.given('put.many', 'worker', args[i])
  local jobs, jids, coming = parse_many(args, i + 1)
  local fresh, planned = all_new(jids), nil
  for _, job in ipairs(jobs) do
    if fresh then
      job.old = false
    end
    look(job)
    if job.left_alone then
      coming[job.jid] = nil
    elseif job.depends and #job.depends > 0 then
      planned = planned or {}
      planned[job.jid] = job.depends
    end
  end
  for _, job in ipairs(jobs) do
    prepare('put.many', job, coming, planned)
  end
  local tracked, left, counts, ready = Job.tracked_among(jids), {}, {}, {}
  local scores = Place.scores()
  local function batch(job)
    local queue, priority = job.queue, job.priority
    local list = ready[queue]
    if not list then
      list = {}
      ready[queue] = list
    end
    local n = #list
    list[n + 1], list[n + 2] = scores[priority], job.jid
  end
  for n = 1, #jobs do
    local job = jobs[n]
    if job.left_alone then
      left[#left + 1] = job.jid
    else
      store(job, worker, tracked[job.jid], batch)
      counts[job.queue] = (counts[job.queue] or 0) + 1
    end
  end
  for queue, list in pairs(ready) do
    Place.work_many(queue, list)
  end
  for queue, count in pairs(counts) do
    Minutes.count(queue, 'put', count)
    Place.register(queue)
  end
  return left
end
end

-- lock.lua
do
-- The lock of a running job: who holds it, renewing it, taking it away.
local Errors, Arguments, Config, Job, scope, key =
  Qless.Errors, Qless.Arguments, Qless.Config, Qless.Job, Qless.scope, Qless.key

local Lock = {}
Qless.Lock = Lock

local call = redis.call

-- What ends a run: the fields that every end needs, then those that only a completion can spare.
local ENDING = { 'worker', 'state', 'queue', 'token', 'time', 'retries', 'grace', 'progress' }
local ENDING_OTHERWISE = {
  'worker',
  'state',
  'queue',
  'token',
  'time',
  'retries',
  'grace',
  'progress',
  'remaining',
  'priority',
  'crashes',
}

-- Reads the running job's record, if `proof` shows that the caller holds it: the worker's name
-- without KEYS, the token of the pop with them. -> its key, the values, or code and text
function Lock.read(command, jid, proof, completing)
  local name = key.job(jid)
  local values = call('HMGET', name, unpack(completing and ENDING or ENDING_OTHERWISE))
  local worker, state = values[1], values[2]
  if not worker then
    return nil, nil, 'NOJOB', command .. '(): Job ' .. Errors.name(jid) .. ' does not exist'
  end
  if state ~= 'running' then
    return nil,
      nil,
      'LOCKLOST',
      command .. '(): Job ' .. Errors.name(jid) .. ' is not currently running: ' .. state
  end
  if scope.keyed then
    if proof ~= values[4] then
      return nil,
        nil,
        'LOCKLOST',
        command .. '(): Job ' .. Errors.name(jid) .. ' was given out to another worker'
    end
  elseif proof ~= worker then
    return nil,
      nil,
      'LOCKLOST',
      command .. '(): Job ' .. Errors.name(jid) .. ' was given out to another worker: ' .. Errors.name(worker)
  end
  return name, values
end

-- The same as a table by name. -> nil, code, text if refused
function Lock.claim(command, jid, proof)
  local name, values, code, text = Lock.read(command, jid, proof)
  if code then
    return nil, code, text
  end
  return {
    jid = jid,
    key = name,
    worker = values[1],
    queue = values[3],
    time = tonumber(values[5]) or scope.now,
    retries = values[6] or '0',
    marked = values[7] or values[8],
    remaining = tonumber(values[9]) or 0,
    priority = tonumber(values[10]) or 0,
    crashes = tonumber(values[11]) or 0,
  }
end

function Lock.holder(command, jid, proof)
  Arguments.given(command, 'jid', jid)
  Arguments.given(command, scope.keyed and 'token' or 'worker', proof)
  local job, code, text = Lock.claim(command, jid, proof)
  if not job then
    Errors.raise(code, text)
  end
  return job
end

-- Takes the job out of the hands of its worker and out of the running ones.
function Lock.release(job)
  call('ZREM', key.place(job.queue, 'locks'), job.jid)
  Job.unhold(job.jid, job.worker)
end

-- heartbeat jid worker [data] -> the new expiry
function Lock.heartbeat(args, i)
  local jid, proof, data = args[i], args[i + 1], args[i + 2]
  if data then
    Arguments.json('heartbeat', 'data', data)
  end
  local job = Lock.holder('heartbeat', jid, proof)
  local expires = scope.now + Config.heartbeat(job.queue)
  if data then
    call('HSET', key.job(jid), 'data', data)
  end
  Lock.extend(job, expires)
  call('ZADD', key.workers(), scope.now, job.worker)
  return expires
end

-- Renews a lock. The next loss of it gets a notice of its own.
function Lock.extend(job, expires)
  call('HSET', key.job(job.jid), 'expires', expires)
  call('HDEL', key.job(job.jid), 'grace')
  call('ZADD', key.held(job.worker), expires, job.jid)
  call('ZADD', key.place(job.queue, 'locks'), expires, job.jid)
end
end

-- expiry.lua
do
-- Completed jobs are forgotten when they are too old or too many.
local Clock, Config, Tags, scope, key = Qless.Clock, Qless.Config, Qless.Tags, Qless.scope, Qless.key

local Expiry = {}
Qless.Expiry = Expiry

local call = redis.call

-- Completed jobs expired by one call beyond twice those it completes.
local EXPIRED = 200

-- Where so many jobs, or for so many seconds, are kept, single completions leave it to later ones.
local MANY, LONG, FEW = 1000, 60, 8

local function expire(jids)
  local names, tagged = {}, call('EXISTS', key.tags()) == 1
  for n, jid in ipairs(jids) do
    local tags = tagged and call('HGET', key.job(jid), 'tags')
    if tags and tags ~= '{}' then
      Tags.unindex(jid, cjson.decode(tags))
    end
    -- A job that was completed has no links any more.
    names[2 * n - 1], names[2 * n] = key.job(jid), key.history(jid)
  end
  if #names > 0 then
    call('DEL', unpack(names))
  end
end

-- Forgets completed jobs that are too old or too many, a bounded number per call.
function Expiry.after(just_completed)
  local age, count = Config.number('jobs-history'), Config.whole('jobs-history-count')
  local can_wait = scope.keyed and just_completed <= FEW and count >= MANY and age >= LONG
  if can_wait and not Clock.is_round() then
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

-- outcome.lua
do
-- How a run ends: complete, advance, fail, retry, give back.
local Errors, Arguments, Events, Samples, Failures, History, Place, Dependencies, Job, Lock, Expiry, scope, key =
  Qless.Errors,
  Qless.Arguments,
  Qless.Events,
  Qless.Samples,
  Qless.Failures,
  Qless.History,
  Qless.Place,
  Qless.Dependencies,
  Qless.Job,
  Qless.Lock,
  Qless.Expiry,
  Qless.scope,
  Qless.key

local Outcome = {}
Qless.Outcome = Outcome

local call, floor = redis.call, math.floor

-- The record of a completed job.
function Outcome.write_complete(name, retries, data)
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
    Qless.Texts.time(),
    'remaining',
    retries,
    'queue',
    '',
    'failure',
    '{}'
  )
  if data then
    call('HSET', name, 'data', data)
  end
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
    call('HDEL', key.job(job.jid), 'grace', 'progress')
  else
    call('HDEL', key.job(job.jid), 'grace', 'progress', 'unknown')
  end
end

local function finish(job, data)
  Outcome.write_complete(job.key, job.retries, data)
  call('ZADD', key.completed(), scope.now, job.jid)
  Expiry.after(1)
  Dependencies.release({ job.jid })
end

-- Completes a job that goes on in another queue. -> its new state
function Outcome.advance(job, to, delay, depends, data)
  local jid = job.jid
  History.put(jid, to)
  Place.register(to)
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
    Qless.Texts.time()
  )
  if data then
    call('HSET', key.job(jid), 'data', data)
  end
  Outcome.forget_run(job)
  if state == 'depends' then
    Dependencies.link(jid, depends)
    if delay > 0 then
      call('HSET', key.job(jid), 'scheduled', scope.now + delay)
    end
    Place.depends(jid, to)
  elseif state == 'scheduled' then
    Place.scheduled(jid, to, scope.now + delay)
  else
    Place.work(jid, to, job.priority)
  end
  return state
end

local COMPLETE_OPTIONS = { next = true, delay = true, depends = true, result = true, result_ttl = true }

-- Seconds; the server refuses times to live that it cannot count in milliseconds.
local LONGEST_TTL = 2 ^ 31

function Outcome.keep_result(jid, result, ttl)
  if result and result ~= '' then
    call('SET', key.result(jid), result, 'EX', math.min(ttl, LONGEST_TTL))
  end
end

-- complete jid worker queue data [pairs]
function Outcome.complete(args, i)
  local jid, proof = Arguments.given('complete', 'jid', args[i]), args[i + 1]
  local queue, data = Arguments.given('complete', 'queue', args[i + 2]), args[i + 3]
  Arguments.given('complete', 'worker', proof)
  Arguments.json('complete', 'data', data)
  local options = Arguments.options('complete', args, i + 4, COMPLETE_OPTIONS)
  local to, delay, depends = options.next, options.delay, options.depends
  if not to and (delay or depends) then
    Errors.argument('complete', 'delay and depends can only be used with next')
  end
  delay = delay and Arguments.number('complete', 'delay', delay) or 0
  depends = depends and Arguments.names('complete', 'depends', depends) or {}
  local result, ttl = options.result, nil
  if result and result ~= '' then
    Arguments.json('complete', 'result', result, Arguments.text_bytes)
    ttl = Arguments.whole('complete', 'result_ttl', options.result_ttl or '86400', 1)
  end
  local job = Lock.holder('complete', jid, proof)
  if job.queue ~= queue then
    Errors.raise(
      'STATE',
      'complete(): Job ' .. Errors.name(jid) .. ' is running in another queue: ' .. Errors.name(job.queue)
    )
  end
  if to then
    Arguments.queue('complete', to)
    depends = Dependencies.open('complete', depends)
    Dependencies.no_circle('complete', jid, depends)
  end

  History.done(jid)
  Lock.release(job)
  Samples.add('run', job.queue, scope.now - job.time)
  Outcome.keep_result(jid, result, ttl)
  if Job.is_tracked(jid) then
    Events.tracked('completed', jid)
  end
  if to then
    Events.advanced(jid, job.queue, to)
    return Outcome.advance(job, to, delay, depends, data)
  end
  Events.completed(jid, job.queue)
  Outcome.forget_run(job)
  finish(job, data)
  return 'complete'
end

-- Files a job as failed. `failing` is the worker whose run failed it, or nil.
function Outcome.write_failed(job, group, message, when, failing)
  local failure = cjson.encode({ group = group, message = message, when = when, worker = failing or '' })
  call('HSET', key.job(job.jid), 'state', 'failed', 'worker', '', 'expires', '', 'failure', failure)
  forget_all(job)
  Failures.add(job.jid, job.queue, group)
end

-- A message of at most 64 KiB: its end is what tells the most.
function Outcome.message(command, message)
  Arguments.given(command, 'message', message)
  if #message > Arguments.text_bytes and scope.keyed then
    Errors.raise(
      'TOOBIG',
      command .. '(): message has ' .. #message .. ' bytes, at most ' .. Arguments.text_bytes
    )
  end
  return message
end

function Outcome.fail_now(job, group, message)
  local jid = job.jid
  Events.failed(jid, group, message, job.worker)
  if Job.is_tracked(jid) then
    Events.tracked('failed', jid)
  end
  Lock.release(job)
  History.failed(jid, group, job.worker)
  Outcome.write_failed(job, group, message, floor(scope.now), job.worker)
end

-- fail jid worker group message [data]
function Outcome.fail(args, i)
  local jid, proof = Arguments.given('fail', 'jid', args[i]), args[i + 1]
  Arguments.given('fail', 'worker', proof)
  local group = Arguments.given('fail', 'group', args[i + 2])
  local message, data = Outcome.message('fail', args[i + 3]), args[i + 4]
  if data then
    Arguments.json('fail', 'data', data)
  end
  local job = Lock.holder('fail', jid, proof)
  Outcome.fail_now(job, group, message)
  if data then
    call('HSET', key.job(jid), 'data', data)
  end
  return jid
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
  if scope.keyed then
    -- Old clients see the last worker, its lock and its start on a waiting job.
    fields[#fields + 1] = 'time'
    fields[#fields + 1] = Qless.Texts.time()
    fields[#fields + 1] = 'worker'
    fields[#fields + 1] = ''
    fields[#fields + 1] = 'expires'
    fields[#fields + 1] = 0
  end
  if failure then
    fields[#fields + 1] = 'failure'
    fields[#fields + 1] = failure
  end
  call(unpack(fields))
  forget_all(job)
  if state == 'scheduled' then
    Place.scheduled(jid, queue, scope.now + delay)
  elseif again then
    Place.work_again(jid, queue, job.priority)
  else
    Place.work(jid, queue, job.priority)
  end
  if queue ~= job.queue then
    Place.register(queue)
  end
end

-- One retry less: back into the queue, or failed when none is left. -> what remains
function Outcome.retry_now(job, queue, delay, group, message)
  local jid = job.jid
  job.remaining = job.remaining - 1
  Lock.release(job)
  if job.remaining >= 0 then
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
  group = group or 'failed-retries-' .. job.queue
  History.failed(jid, group)
  if Job.is_tracked(jid) then
    Events.tracked('failed', jid)
  end
  if message then
    Outcome.write_failed(job, group, message, floor(scope.now), job.worker)
  else
    Outcome.write_failed(job, group, 'Job exhausted retries in queue "' .. job.queue .. '"', scope.now)
  end
  return -1
end

-- retry jid queue worker [delay] [group] [message]
function Outcome.retry(args, i)
  local jid = Arguments.given('retry', 'jid', args[i])
  local queue = Arguments.queue('retry', args[i + 1])
  local proof = Arguments.given('retry', 'worker', args[i + 2])
  local delay = Arguments.number('retry', 'delay', args[i + 3] or '0')
  local group, message = args[i + 4], args[i + 5]
  if message then
    Outcome.message('retry', message)
  end
  local job = Lock.holder('retry', jid, proof)
  return Outcome.retry_now(job, queue, delay, group, message)
end

-- release jid token [delay]: back into its queue and its place there, no retry used up
function Outcome.release(args, i)
  local delay = Arguments.number('release', 'delay', args[i + 2] or '0')
  local job = Lock.holder('release', args[i], args[i + 1])
  Lock.release(job)
  Outcome.back(job, job.queue, delay, nil, true)
  return 1
end
end

-- recurring.lua
do
-- Recurring jobs: templates, and the jobs they spawn when their time comes.
local Errors, Arguments, Place, Tags, History, Minutes, scope, key =
  Qless.Errors, Qless.Arguments, Qless.Place, Qless.Tags, Qless.History, Qless.Minutes, Qless.scope, Qless.key

local Recurring = {}
Qless.Recurring = Recurring

local call, format, floor = redis.call, string.format, math.floor

local OPTIONS = { priority = true, tags = true, retries = true, backlog = true }

local function interval_of(command, value)
  local interval = Arguments.number(command, 'interval', value)
  if interval <= 0 then
    Errors.argument(command, 'interval must be greater than 0, not ' .. Errors.name(value))
  end
  return interval
end

-- The last number a template of this jid may have given away: children are never overwritten.
local function last_child(jid)
  local last = 0
  while call('EXISTS', key.job(jid .. '-' .. format('%.0f', last + 1))) == 1 and last < 2 ^ 30 do
    last = last == 0 and 1 or last * 2
  end
  return last
end

-- recur queue jid klass data interval <interval> <offset> [pairs]
function Recurring.recur(args, i)
  local queue = Arguments.queue('recur', args[i])
  local jid = Arguments.jid('recur', args[i + 1])
  local klass = Arguments.given('recur', 'klass', args[i + 2])
  local data = args[i + 3]
  Arguments.json('recur', 'data', data)
  if args[i + 4] ~= 'interval' then
    Errors.argument('recur', 'schedule type "interval" wanted, not ' .. Errors.name(args[i + 4]))
  end
  local interval = interval_of('recur', args[i + 5])
  local offset = Arguments.number('recur', 'offset', args[i + 6])
  local options = Arguments.options('recur', args, i + 7, OPTIONS)
  local priority = Arguments.number('recur', 'priority', options.priority or '0')
  local tags = Arguments.tag_list('recur', options.tags or '[]')
  local retries = Arguments.whole('recur', 'retries', options.retries or '0', 0)
  local backlog = Arguments.number('recur', 'backlog', options.backlog or '0')

  local old = call('HMGET', key.template(jid), 'queue', 'count')
  if old[1] then
    call('ZREM', key.place(old[1], 'recur'), jid)
  end
  call(
    'HSET',
    key.template(jid),
    'jid',
    jid,
    'klass',
    klass,
    'data',
    data,
    'priority',
    priority,
    'tags',
    Tags.text(tags),
    'state',
    'recur',
    'queue',
    queue,
    'type',
    'interval',
    'count',
    old[2] or last_child(jid),
    'interval',
    interval,
    'retries',
    retries,
    'backlog',
    backlog
  )
  local due = scope.now + offset
  call('ZADD', key.place(queue, 'recur'), due, jid)
  Qless.Wake.due(queue, due)
  Place.register(queue)
  return jid
end

local function load(command, jid)
  Arguments.given(command, 'jid', jid)
  local record, fields = {}, call('HGETALL', key.template(jid))
  if #fields == 0 then
    Errors.raise('NOJOB', command .. '(): Recurring job ' .. Errors.name(jid) .. ' does not exist')
  end
  for n = 1, #fields, 2 do
    record[fields[n]] = fields[n + 1]
  end
  return record
end

-- recur.get jid
function Recurring.get(args, i)
  local jid = Arguments.given('recur.get', 'jid', args[i])
  if call('EXISTS', key.template(jid)) == 0 then
    return nil
  end
  local record = load('recur.get', jid)
  return cjson.encode({
    jid = record.jid,
    klass = record.klass,
    state = record.state,
    queue = record.queue,
    priority = tonumber(record.priority),
    interval = tonumber(record.interval),
    retries = tonumber(record.retries),
    count = tonumber(record.count),
    data = record.data,
    tags = cjson.decode(record.tags),
    backlog = tonumber(record.backlog or '0'),
  })
end

-- What recur.update may change, and how a value is checked.
local CHANGES = {
  priority = function(value)
    return Arguments.number('recur.update', 'priority', value)
  end,
  interval = function(value)
    return interval_of('recur.update', value)
  end,
  retries = function(value)
    return Arguments.whole('recur.update', 'retries', value, 0)
  end,
  backlog = function(value)
    return Arguments.number('recur.update', 'backlog', value)
  end,
  data = function(value)
    Arguments.json('recur.update', 'data', value)
    return value
  end,
  klass = function(value)
    return value
  end,
  queue = function(value)
    return Arguments.queue('recur.update', value)
  end,
}

local function move(record, jid, queue)
  local due = call('ZSCORE', key.place(record.queue, 'recur'), jid)
  call('ZREM', key.place(record.queue, 'recur'), jid)
  call('ZADD', key.place(queue, 'recur'), due or scope.now, jid)
  Qless.Wake.due(queue, tonumber(due) or scope.now)
  Place.register(queue)
  record.queue = queue
end

-- recur.update jid key value ...
function Recurring.update(args, i)
  local jid = args[i]
  local record = load('recur.update', jid)
  local changes = {}
  for n = i + 1, #args, 2 do
    local name, value = args[n], args[n + 1]
    if not CHANGES[name] then
      Errors.argument('recur.update', 'Unrecognized option ' .. Errors.name(name))
    end
    changes[#changes + 1] = { name, CHANGES[name](Arguments.given('recur.update', name, value)) }
  end
  for _, change in ipairs(changes) do
    local name, value = change[1], change[2]
    if name == 'queue' then
      move(record, jid, value)
    elseif name == 'interval' then
      local due = call('ZINCRBY', key.place(record.queue, 'recur'), value - tonumber(record.interval), jid)
      record.interval = value
      Qless.Wake.due(record.queue, tonumber(due))
    end
    call('HSET', key.template(jid), name, value)
  end
  return 1
end

local function retag(command, args, i, combine)
  local jid = args[i]
  local record = load(command, jid)
  local tags = Arguments.few_tags(command, combine(cjson.decode(record.tags), Tags.rest(args, i + 1)))
  local text = Tags.text(tags)
  call('HSET', key.template(jid), 'tags', text)
  return text
end

-- recur.tag jid tag...
function Recurring.tag(args, i)
  return retag('recur.tag', args, i, Tags.with)
end

-- recur.untag jid tag...
function Recurring.untag(args, i)
  return retag('recur.untag', args, i, Tags.without)
end

-- unrecur jid
function Recurring.unrecur(args, i)
  local jid = Arguments.given('unrecur', 'jid', args[i])
  local queue = call('HGET', key.template(jid), 'queue')
  if queue then
    call('ZREM', key.place(queue, 'recur'), jid)
    call('DEL', key.template(jid))
  end
  return 1
end

-- The jid of the next child: a number that no job bears.
local function next_child(jid, count)
  repeat
    count = count + 1
  until call('EXISTS', key.job(jid .. '-' .. format('%.0f', count))) == 0
  return jid .. '-' .. format('%.0f', count), count
end

local function spawn_one(record, jid, time)
  local child, count = next_child(jid, tonumber(record.count))
  record.count = count
  local tags = cjson.decode(record.tags)
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
    jid
  )
  if #tags > 0 then
    Tags.index(child, tags)
  end
  History.put(child, record.queue, time)
  Place.work(child, record.queue, tonumber(record.priority), time)
  Minutes.count(record.queue, 'put', 1)
end

-- Spawns what is due of one template, at most `wanted` jobs. -> how many
local function spawn(queue, jid, due, wanted)
  local record = load('pop', jid)
  local interval, backlog = tonumber(record.interval), tonumber(record.backlog) or 0
  local time, spawned = floor(due), 0
  if backlog > 0 then
    local missed = (scope.now - time) / interval
    if missed > backlog then
      time = time + math.ceil(missed - backlog) * interval
    end
  end
  while time <= scope.now and spawned < wanted do
    spawn_one(record, jid, time)
    spawned = spawned + 1
    time = time + interval
  end
  call('HSET', key.template(jid), 'count', record.count)
  call('ZADD', key.place(queue, 'recur'), time, jid)
  return spawned
end

-- Puts the jobs of a queue's templates that are due into its work, at most `wanted`.
function Recurring.spawn_due(queue, wanted)
  local name = key.place(queue, 'recur')
  if Qless.Absence.is_absent(name) then
    return
  end
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

-- queue.lua
do
-- Queues: what is in them, how long it has waited, pausing, and reviving what failed.
local Errors, Arguments, History, Place, Job, Stats, Recurring, scope, key =
  Qless.Errors,
  Qless.Arguments,
  Qless.History,
  Qless.Place,
  Qless.Job,
  Qless.Stats,
  Qless.Recurring,
  Qless.scope,
  Qless.key

local Queue = {}
Qless.Queue = Queue

local call = redis.call

-- Moves jobs whose time has come into work, at most `wanted`.
function Queue.move_due(queue, wanted)
  local name = key.place(queue, 'scheduled')
  local due = Qless.Absence.is_absent(name) and {}
    or call('ZRANGEBYSCORE', name, '-inf', scope.now, 'WITHSCORES', 'LIMIT', 0, wanted)
  if #due == 0 then
    return
  end
  local moved = {}
  for n = 1, #due, 2 do
    local jid = due[n]
    local record = call('HMGET', key.job(jid), 'priority', 'state')
    if record[2] then
      call('HSET', key.job(jid), 'state', 'waiting')
      Place.ready_since(jid, tonumber(due[n + 1]))
      Place.work(jid, queue, tonumber(record[1]) or 0)
    end
    moved[#moved + 1] = jid
  end
  Qless.SortedSet.remove(name, moved)
end

-- Calls that must not write count what is due as waiting; the others move it.
local function counts(queue)
  local due = 0
  if scope.reading then
    due = call('ZCOUNT', key.place(queue, 'scheduled'), '-inf', scope.now)
  else
    Queue.move_due(queue, Arguments.most)
  end
  -- Old clients do not see locks that expired before 1970 as stalled.
  local stalled = call('ZCOUNT', key.place(queue, 'locks'), scope.keyed and '-inf' or 0, scope.now)
  return {
    name = queue,
    waiting = call('ZCARD', key.place(queue, 'work')) + due,
    stalled = stalled,
    running = call('ZCARD', key.place(queue, 'locks')) - stalled,
    scheduled = call('ZCARD', key.place(queue, 'scheduled')) - due,
    depends = call('ZCARD', key.place(queue, 'depends')),
    recurring = call('ZCARD', key.place(queue, 'recur')),
    paused = call('SISMEMBER', key.paused_queues(), queue) == 1,
  }
end

-- In the order first seen; at most so many, if a number is given.
function Queue.names(most)
  return call('ZRANGE', key.queues(), 0, most and most - 1 or -1)
end

-- queues [queue]
function Queue.show(args, i)
  if args[i] then
    return cjson.encode(counts(args[i]))
  end
  local all = {}
  for n, queue in ipairs(Queue.names()) do
    all[n] = counts(queue)
  end
  return cjson.encode(all)
end

-- Every list of jids, by state: the place, and the range of its scores.
local LISTS = {
  running = { 'locks', true },
  stalled = { 'locks', false },
  scheduled = { 'scheduled' },
  depends = { 'depends' },
  recurring = { 'recur' },
}

-- A negative count asks for all, which is never more than a call may handle.
local function page(name, lowest, highest, offset, count)
  if count < 0 then
    count = Arguments.most
  end
  return call('ZRANGEBYSCORE', name, lowest, highest, 'LIMIT', offset, count)
end

-- jobs complete [offset count]   jobs running|stalled|scheduled|depends|recurring queue [offset count]
function Queue.jobs(args, i)
  local state = Arguments.given('jobs', 'state', args[i])
  if state == 'complete' then
    local offset, count = Arguments.offset('jobs', args[i + 1]), Arguments.count('jobs', args[i + 2], 25)
    return call('ZREVRANGEBYSCORE', key.completed(), '+inf', '-inf', 'LIMIT', offset, count)
  end
  local list = LISTS[state]
  if not list then
    Errors.argument('jobs', 'Unknown type ' .. Errors.name(state))
  end
  local queue = Arguments.given('jobs', 'queue', args[i + 1])
  local offset, count = Arguments.offset('jobs', args[i + 2]), Arguments.count('jobs', args[i + 3], 25)
  local name = key.place(queue, list[1])
  if state == 'running' then
    return page(name, scope.now, '+inf', offset, count)
  elseif state == 'stalled' then
    return page(name, '-inf', scope.now, offset, count)
  elseif state == 'scheduled' then
    if not scope.reading then
      Queue.move_due(queue, Arguments.most)
    end
    return page(
      name,
      scope.reading and '(' .. string.format('%.17g', scope.now) or '-inf',
      '+inf',
      offset,
      count
    )
  end
  return page(name, '-inf', '+inf', offset, count)
end

-- length queue
function Queue.length(args, i)
  local queue = Arguments.given('length', 'queue', args[i])
  return call('ZCARD', key.place(queue, 'locks'))
    + call('ZCARD', key.place(queue, 'work'))
    + call('ZCARD', key.place(queue, 'scheduled'))
end

local function each_queue(command, args, i, act)
  Arguments.given(command, 'queue', args[i])
  Arguments.bounded(command, #args - i + 1)
  for n = i, #args do
    act(args[n])
  end
end

-- pause queue...
function Queue.pause(args, i)
  each_queue('pause', args, i, function(queue)
    call('SADD', key.paused_queues(), queue)
  end)
end

-- unpause queue...
function Queue.unpause(args, i)
  each_queue('unpause', args, i, function(queue)
    call('SREM', key.paused_queues(), queue)
    local waiting = call('ZCARD', key.place(queue, 'work'))
    Qless.Wake.ready(queue, waiting)
    Qless.Wake.due(queue, scope.now)
  end)
end

-- queue.forget queue...
function Queue.forget(args, i)
  each_queue('queue.forget', args, i, function(queue)
    call('ZREM', key.queues(), queue)
  end)
end

-- peek queue count
function Queue.peek(args, i)
  local queue = Arguments.given('peek', 'queue', args[i])
  local count = Arguments.count('peek', Arguments.given('peek', 'count', args[i + 1]))
  if count <= 0 then
    return '{}'
  end
  local jids = page(key.place(queue, 'locks'), '-inf', scope.now, 0, count)
  if #jids < count then
    local wanted = count - #jids
    if not scope.reading then
      Recurring.spawn_due(queue, wanted)
      Queue.move_due(queue, wanted)
    end
    for _, jid in ipairs(call('ZREVRANGE', key.place(queue, 'work'), 0, wanted - 1)) do
      jids[#jids + 1] = jid
    end
    if scope.reading and #jids < count then
      for _, jid in ipairs(page(key.place(queue, 'scheduled'), '-inf', scope.now, 0, count - #jids)) do
        jids[#jids + 1] = jid
      end
    end
  end
  return Job.show_all(jids)
end

-- unfail queue group [count] -> how many
function Queue.unfail(args, i)
  local queue = Arguments.queue('unfail', args[i])
  local group = Arguments.given('unfail', 'group', args[i + 1])
  local count = Arguments.count('unfail', args[i + 2], 25)
  if count <= 0 then
    return 0
  end
  local jids, revived = call('LRANGE', key.group(group), -count, -1), 0
  for n = #jids, 1, -1 do
    local jid = jids[n]
    local record = Job.read(jid)
    if record and record.state == 'failed' then
      Stats.mended(record.queue, tonumber(cjson.decode(record.failure or '{}').when) or 0)
      History.put(jid, queue)
      call(
        'HSET',
        key.job(jid),
        'state',
        'waiting',
        'worker',
        '',
        'expires',
        0,
        'queue',
        queue,
        'remaining',
        record.retries,
        'time',
        string.format('%.20f', scope.now)
      )
      call('HDEL', key.job(jid), 'crashes', 'unknown')
      Place.work(jid, queue, tonumber(record.priority) or 0)
      revived = revived + 1
    end
  end
  call('LTRIM', key.group(group), 0, -#jids - 1)
  if call('LLEN', key.group(group)) == 0 then
    call('SREM', key.failures(), group)
  end
  if revived > 0 then
    Place.register(queue)
  end
  return revived
end
end

-- pop.lua
do
-- Handing out jobs: expired locks first, then what fell due, then the top of the work.
local Texts, Absence, Arguments, Config, Events, History, Job, Outcome, Stats, Samples =
  Qless.Texts,
  Qless.Absence,
  Qless.Arguments,
  Qless.Config,
  Qless.Events,
  Qless.History,
  Qless.Job,
  Qless.Outcome,
  Qless.Stats,
  Qless.Samples
local SortedSet, Clock, Wake, Dependencies, Queue, Recurring, scope, key =
  Qless.SortedSet,
  Qless.Clock,
  Qless.Wake,
  Qless.Dependencies,
  Qless.Queue,
  Qless.Recurring,
  Qless.scope,
  Qless.key

local Pop = {}
Qless.Pop = Pop

local call, text_of = redis.call, Arguments.text_of

-- What a worker is told of a job, after its jid and queue; `time` and `state` are for us.
local FIELDS = { 'klass', 'data', 'retries', 'remaining', 'priority', 'tags', 'context', 'time', 'state' }

-- The first loss of a lock is a notice to its owner, who has the grace period to end the job.
local function notice(jid, queue, worker, grace)
  if Job.is_tracked(jid) then
    Events.tracked('stalled', jid)
  end
  History.add(jid, 'timed-out')
  call('HSET', key.job(jid), 'grace', 1)
  Events.lock_lost(jid, worker)
  call('ZADD', key.place(queue, 'locks'), scope.now + grace, jid)
  Stats.count(queue, 'retries', 1)
  if grace > 0 then
    Wake.due(queue, scope.now + grace)
  end
end

local function exhausted(jid, queue, worker)
  local group = 'failed-retries-' .. queue
  local message = 'Job exhausted retries in queue "' .. queue .. '"'
  call('ZREM', key.place(queue, 'locks'), jid)
  call('HSET', key.job(jid), 'remaining', -1)
  History.failed(jid, group)
  Outcome.write_failed({ jid = jid, queue = queue, marked = true }, group, message, scope.now)
  if Job.is_tracked(jid) then
    Events.tracked('failed', jid)
  end
  Events.failed(jid, group, message, worker)
end

-- Locks looked at by one pop, beyond those that it frees: whose loss is only noticed costs no place.
local LOOKED = 250

-- Ends the run under an expired lock, or gives notice first. -> whether the job may be handed out
local function expire(jid, queue, locks, grace)
  local record = call('HMGET', key.job(jid), 'worker', 'grace', 'remaining', 'state')
  local worker = record[1] or ''
  if record[4] ~= 'running' then
    call('ZREM', locks, jid)
    return false
  end
  Job.unhold(jid, worker)
  local noticed = record[2] == '1'
  if not noticed then
    notice(jid, queue, worker, grace)
    if grace > 0 then
      return false
    end
  end
  local remaining = (tonumber(record[3]) or 0) - 1
  if remaining < 0 then
    exhausted(jid, queue, worker)
    return false
  end
  call('HSET', key.job(jid), 'remaining', remaining)
  call('HDEL', key.job(jid), 'grace', 'progress')
  return true
end

-- -> up to `count` jids whose locks have expired and that may be handed out again
local function expired(queue, count)
  local locks, freed = key.place(queue, 'locks'), {}
  if call('ZCOUNT', locks, '-inf', Texts.now()) == 0 then
    return freed -- mostly, and cheaper to ask
  end
  local jids =
    call('ZRANGEBYSCORE', locks, '-inf', Texts.now(), 'LIMIT', '0', count + (scope.live and LOOKED or 0))
  local grace = Config.number('grace-period')
  for _, jid in ipairs(jids) do
    if #freed == count then
      break
    end
    if expire(jid, queue, locks, grace) then
      freed[#freed + 1] = jid
    end
  end
  return freed
end

local RUNNABLE = { waiting = true, stalled = true, running = true }

-- Hands over the jids whose records say that they may run; others are dropped. `visit` sees
-- each: its jid, the values of FIELDS, its token, when its lock expires (as text). -> how many
local function hand_over(queue, worker, jids, visit)
  local now, time, expires = scope.now, Texts.time(), Texts.later(Config.heartbeat(queue))
  local tracked, taken = Job.tracked_among(jids), {}
  for n = 1, #jids do
    local jid = jids[n]
    local name = key.job(jid)
    local values = call('HMGET', name, unpack(FIELDS))
    if RUNNABLE[values[9]] then
      local token = ''
      History.popped(jid, worker)
      Samples.add('wait', queue, now - (tonumber(values[8]) or now))
      if scope.live then
        token = Clock.draw()
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
          token
        )
      else
        call('HSET', name, 'state', 'running', 'worker', worker, 'expires', expires, 'time', time)
      end
      if tracked[jid] then
        Events.tracked('popped', jid)
      end
      taken[#taken + 1] = jid
      visit(jid, values, token, expires)
    end
  end
  SortedSet.add(key.held(worker), expires, taken)
  SortedSet.add(key.place(queue, 'locks'), expires, taken)
  return #taken
end

-- Takes up to `count` jobs off the top of the work. -> how many
local function take_work(queue, worker, count, visit)
  local work, taken = key.place(queue, 'work'), 0
  while taken < count do
    local jids = call('ZREVRANGE', work, '0', text_of(count - taken - 1))
    if #jids == 0 then
      break
    end
    taken = taken + hand_over(queue, worker, jids, visit)
    call('ZREMRANGEBYRANK', work, '-' .. text_of(#jids), '-1') -- the first to go are the last by score
  end
  return taken
end

-- How many of `count` jobs the queue may still hand out.
local function allowed(queue, count)
  local limit = Config.concurrency(queue)
  if limit > 0 then
    local running = call('ZCOUNT', key.place(queue, 'locks'), Texts.now(), '+inf')
    return math.min(count, math.max(0, limit - running))
  end
  return count
end

-- Hands up to `count` jobs of a queue to a worker; `visit` sees each. -> how many
function Pop.take(queue, worker, count, visit)
  count = allowed(queue, count)
  if count <= 0 then
    return 0
  end
  local taken = 0
  local freed = expired(queue, count)
  if #freed > 0 then
    taken = hand_over(queue, worker, freed, visit)
  end
  if taken < count then
    Recurring.spawn_due(queue, count - taken)
    Queue.move_due(queue, count - taken)
    taken = taken + take_work(queue, worker, count - taken, visit)
  end
  if taken > 0 and scope.live then
    Wake.taken(queue)
  end
  return taken
end

function Pop.is_paused(queue)
  local name = key.paused_queues()
  return not Absence.is_absent(name) and call('SISMEMBER', name, queue) == 1
end

-- pop queue worker count
function Pop.pop(args, i)
  local queue = Arguments.given('pop', 'queue', args[i])
  local worker = Arguments.given('pop', 'worker', args[i + 1])
  local count = Arguments.count('pop', Arguments.given('pop', 'count', args[i + 2]))
  if Pop.is_paused(queue) then
    return '{}'
  end
  call('ZADD', key.workers(), scope.now, worker)
  Dependencies.carry_on()
  local jids = {}
  Pop.take(queue, worker, count, function(jid)
    jids[#jids + 1] = jid
  end)
  Qless.Replies.shorten('pop', jids)
  return Job.show_all(jids)
end
end

-- verbs.lua
do
-- What may become of a job that a worker held: each verb of settle, its arguments and its effect.
local Arguments, Events, SortedSet, Samples, History, Dependencies, Lock, Expiry, Outcome, scope, key =
  Qless.Arguments,
  Qless.Events,
  Qless.SortedSet,
  Qless.Samples,
  Qless.History,
  Qless.Dependencies,
  Qless.Lock,
  Qless.Expiry,
  Qless.Outcome,
  Qless.scope,
  Qless.key

local Verbs = {}
Qless.Verbs = Verbs

local call = redis.call

-- What the completed jobs of a call have in common is written once, at the end.
function Verbs.finish(completed)
  if #completed.jids == 0 then
    return
  end
  for queue, list in pairs(completed.queues) do
    SortedSet.remove(key.place(queue, 'locks'), list)
  end
  for worker, list in pairs(completed.workers) do
    SortedSet.remove(key.held(worker), list)
  end
  SortedSet.add(key.completed(), Qless.Texts.now(), completed.jids)
  Expiry.after(#completed.jids)
  Dependencies.release(completed.jids)
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
local VERBS = {}
Verbs.by_name = VERBS

VERBS.complete = {
  check = function(args, a, n)
    if n == 0 then
      return
    end
    if args[a] ~= '' then
      Arguments.json('settle', 'result', args[a], Arguments.text_bytes)
      args[a + 1] = Arguments.whole('settle', 'result_ttl', n > 1 and args[a + 1] or nil, 1)
    end
    if n > 2 then
      Arguments.json('settle', 'data', args[a + 2])
    end
  end,
  act = function(jid, token, args, a, n, completed, tracked)
    local name, values, code, text = Lock.read('settle', jid, token, true)
    if code then
      return code, text
    end
    local worker, queue = values[1], values[3]
    History.done(jid)
    Samples.add('run', queue, scope.now - (tonumber(values[5]) or scope.now))
    if n > 1 then
      Outcome.keep_result(jid, args[a], args[a + 1])
    end
    if tracked[jid] then
      Events.tracked('completed', jid)
    end
    Events.completed(jid, queue)
    Outcome.write_complete(name, values[6] or '0', n > 2 and args[a + 2])
    if values[7] or values[8] then
      Outcome.forget_marks(name)
    end
    append(completed.queues, queue, jid)
    append(completed.workers, worker, jid)
    completed.jids[#completed.jids + 1] = jid
  end,
}

-- The other verbs take their arguments as a list of their own, and the whole record.
local RARE = {}

RARE.fail = {
  check = function(s)
    Arguments.given('settle', 'group', s[1])
    Outcome.message('settle', s[2])
  end,
  act = function(job, s)
    Outcome.fail_now(job, s[1], s[2])
  end,
}

RARE.retry = {
  check = function(s)
    s[1] = Arguments.number('settle', 'delay', s[1])
    Outcome.message('settle', s[3])
  end,
  act = function(job, s)
    local group = s[2] ~= '' and s[2] or nil
    Outcome.retry_now(job, job.queue, s[1], group, s[3])
  end,
}

RARE.release = {
  check = function(s)
    s[1] = Arguments.number('settle', 'delay', s[1])
  end,
  act = function(job, s)
    Lock.release(job)
    Outcome.back(job, job.queue, s[1], nil, true)
  end,
}

-- No worker knows the job's name: perhaps a deployment is under way. It comes back after as long
-- as it has been unknown already (at least a second, at most a minute), until patience ends.
RARE.unknown = {
  check = function(s)
    s[1] = Arguments.number('settle', 'patience', s[1])
  end,
  act = function(job, s)
    local since = tonumber(call('HGET', key.job(job.jid), 'unknown'))
    if since and scope.now - since >= s[1] then
      call('HDEL', key.job(job.jid), 'unknown')
      Outcome.fail_now(job, 'unknown-job', 'No worker knows a job of this name')
      return
    end
    if not since then
      since = scope.now
      call('HSET', key.job(job.jid), 'unknown', string.format('%.6f', since))
    end
    job.unknown = true
    Lock.release(job)
    Outcome.back(job, job.queue, math.max(1, math.min(60, scope.now - since)))
  end,
}

-- The process died under the job: counted apart from its retries.
RARE.crash = {
  check = function(s)
    s[1] = Arguments.whole('settle', 'limit', s[1], 0)
    Arguments.given('settle', 'group', s[2])
    Outcome.message('settle', s[3])
  end,
  act = function(job, s)
    local crashes = job.crashes + 1
    call('HSET', key.job(job.jid), 'crashes', crashes)
    if crashes > s[1] then
      Outcome.fail_now(job, s[2], s[3])
      return
    end
    History.add(job.jid, 'crashed', '{"worker":' .. cjson.encode(job.worker) .. '}')
    Lock.release(job)
    Outcome.back(job, job.queue, 0)
  end,
}

RARE.move = {
  check = function(s, jid, planned)
    Arguments.queue('settle', s[1])
    s[2] = Arguments.number('settle', 'delay', s[2] or '0')
    s[3] = s[3] and Arguments.names('settle', 'depends', s[3]) or {}
    Arguments.bounded('settle', #s[3])
    s[3] = Dependencies.open('settle', s[3])
    planned[jid] = s[3] -- the moves of one call must not wait for each other
    Dependencies.no_circle('settle', jid, s[3], planned)
  end,
  act = function(job, s, _, tracked)
    local jid = job.jid
    History.done(jid)
    Lock.release(job)
    Samples.add('run', job.queue, scope.now - job.time)
    if tracked[jid] then
      Events.tracked('completed', jid)
    end
    Events.advanced(jid, job.queue, s[1])
    Outcome.advance(job, s[1], s[2], s[3])
  end,
}

for name, verb in pairs(RARE) do
  VERBS[name] = {
    check = function(args, a, n, jid, planned)
      local list = {}
      for k = 1, n do
        list[k] = args[a + k - 1]
      end
      verb.check(list, jid, planned)
      args['list' .. a] = list
    end,
    act = function(jid, token, args, a, _, completed, tracked)
      local job, code, text = Lock.claim('settle', jid, token)
      if not job then
        return code, text
      end
      verb.act(job, args['list' .. a], completed, tracked)
    end,
  }
end
end

-- settle.lua
do
-- One round trip of a worker: the jobs it has finished, then the next ones to run.
local Texts, Absence, Errors, Arguments, Dependencies, Job, Verbs, Wake, Queue, Pop, Replies, key =
  Qless.Texts,
  Qless.Absence,
  Qless.Errors,
  Qless.Arguments,
  Qless.Dependencies,
  Qless.Job,
  Qless.Verbs,
  Qless.Wake,
  Qless.Queue,
  Qless.Pop,
  Qless.Replies,
  Qless.key

local Settle = {}
Qless.Settle = Settle

local call, VERBS = redis.call, Verbs.by_name

local MANY = 8 -- queues

local LONGEST_WAIT = 24 * 3600 -- seconds; a client may ask again
Settle.most = 250 -- jobs settled and reserved by one call

-- jid token verb k arg*k, `count` times from args[i] on.
-- -> where each begins, their jids, where the rest begins
local function parse(args, i, count)
  local starts, jids, planned = {}, {}, {}
  for n = 1, count do
    local verb, given = VERBS[args[i + 2]], Arguments.whole('settle', 'number of arguments', args[i + 3], 0)
    if not verb then
      Errors.argument(
        'settle',
        'Unknown verb ' .. Errors.name(args[i + 2]) .. ' for job ' .. Errors.name(args[i])
      )
    end
    if i + 3 + given > #args then
      Errors.argument('settle', 'Arguments of job ' .. Errors.name(args[i]) .. ' are incomplete')
    end
    args[i + 3] = given
    verb.check(args, i + 4, given, args[i], planned)
    starts[n], jids[n] = i, args[i]
    i = i + 4 + given
  end
  return starts, jids, i
end

-- A settlement whose lock is lost changes nothing and stops no other.
local function settle(args, starts, jids)
  local refused, completed = {}, { jids = {}, queues = {}, workers = {} }
  local tracked = Job.tracked_among(jids)
  for n = 1, #starts do
    local i = starts[n]
    local code, text =
      VERBS[args[i + 2]].act(args[i], args[i + 1], args, i + 4, args[i + 3], completed, tracked)
    if code then
      refused[#refused + 1] = args[i]
      refused[#refused + 1] = code
      refused[#refused + 1] = text
    end
  end
  Verbs.finish(completed)
  return refused
end

-- A glob with * and ? as a Lua pattern.
local function pattern(glob)
  local escaped = string.gsub(glob, '[%^%$%(%)%%%.%[%]%+%-]', '%%%0')
  return '^' .. string.gsub(string.gsub(escaped, '%*', '.*'), '%?', '.') .. '$'
end

local function is_excluded(queue, excluded)
  for _, glob in ipairs(excluded) do
    if string.find(queue, pattern(glob)) then
      return true
    end
  end
  return false
end

-- The queues that names and globs stand for, in the order given. -> queues, whether there are globs
local function expand(names, excluded)
  if #names == 1 and #excluded == 0 and not string.find(names[1], '[*?]') then
    return names, false
  end
  local queues, seen, globbing = {}, {}, false
  local function add(queue)
    if not seen[queue] and not is_excluded(queue, excluded) then
      seen[queue] = true
      queues[#queues + 1] = queue
    end
  end
  local known
  for _, name in ipairs(names) do
    if string.find(name, '[*?]') then
      globbing = true
      if not known then
        known = Queue.names()
        table.sort(known)
      end
      local wanted = pattern(name)
      for _, queue in ipairs(known) do
        if string.find(queue, wanted) then
          add(queue)
        end
      end
    else
      add(name)
    end
  end
  return queues, globbing
end

-- A job as the reply holds it: 11 texts behind flat[n].
local function flatten(flat, n, jid, queue, values, token, expires)
  flat[n + 1], flat[n + 2], flat[n + 3], flat[n + 4] = jid, queue, values[1] or '', values[2] or ''
  flat[n + 5], flat[n + 6], flat[n + 7], flat[n + 8] =
    token, values[3] or '', values[4] or '', values[5] or ''
  flat[n + 9], flat[n + 10], flat[n + 11] = values[6] or '', values[7] or '', expires
end

-- What mostly does not exist, asked for once for all jobs of the call.
local function look_around(jids, queues, wanted)
  local names = { key.releasing(), key.tracked(), key.paused_queues() }
  if #jids == 1 then
    names[4] = key.dependents(jids[1])
  end
  Absence.look_for(names)
  if wanted == 0 or #queues > MANY then
    return
  end
  names = {}
  for n = 1, #queues do
    local queue, at = queues[n], 4 * n
    names[at - 3], names[at - 2] = key.place(queue, 'scheduled'), key.place(queue, 'recur')
    names[at - 1], names[at] = key.idle_at(queue), key.wake_at(queue)
  end
  if #names > 0 then
    Absence.look_for(names)
  end
end

-- One queue after the other, until there are `count` jobs.
local function one_by_one(queues, count, take)
  for n = 1, #queues do
    if count <= 0 then
      return
    end
    count = count - take(queues[n], count)
  end
end

-- As if single jobs were taken from each queue in turn: in each round an equal part from each
-- that has not shown to be empty.
local function in_turns(queues, count, take)
  while count > 0 and #queues > 0 do
    local part, going_on = math.max(1, math.floor(count / #queues)), {}
    for n = 1, #queues do
      local taken = take(queues[n], part)
      count = count - taken
      if taken == part then
        going_on[#going_on + 1] = queues[n]
      end
      if count == 0 then
        return
      end
    end
    queues = going_on
  end
end

local function reserve(queues, worker, wish)
  local flat, taken, queue = {}, 0, nil
  local function visit(jid, values, token, expires)
    flatten(flat, 11 * taken, jid, queue, values, token, expires)
    taken = taken + 1
  end
  local function take(name, count)
    queue = name
    return Pop.is_paused(name) and 0 or Pop.take(name, worker, count, visit)
  end
  local serve = wish.turns and in_turns or one_by_one
  serve(queues, wish.count, take)
  if taken > 0 then
    call('ZADD', key.workers(), Texts.now(), worker)
  end
  return flat, taken
end

-- count q queue*q [exclude glob | wait seconds | turns 1]...
local function parse_wish(args, i)
  local wish = { names = {}, excluded = {} }
  wish.count = Arguments.whole('settle', 'count', args[i], 0)
  local named = Arguments.whole('settle', 'number of queues', args[i + 1], 0)
  if i + 1 + named > #args then
    Errors.argument('settle', 'Fewer queues than announced')
  end
  Arguments.bounded('settle', named)
  for n = i + 2, i + 1 + named do
    wish.names[#wish.names + 1] = args[n]
  end
  for n = i + 2 + named, #args, 2 do
    if args[n] == 'exclude' and args[n + 1] then
      wish.excluded[#wish.excluded + 1] = args[n + 1]
    elseif args[n] == 'wait' then
      wish.wait = math.max(0, math.min(Arguments.number('settle', 'wait', args[n + 1]), LONGEST_WAIT))
    elseif args[n] == 'turns' and args[n + 1] == '1' then
      wish.turns = true
    else
      Errors.argument('settle', 'Unknown option ' .. Errors.name(args[n]))
    end
  end
  return wish
end

-- What a repeat of the request needs: jids and tokens, and the rest if there is any.
local function remember(refused, jobs, rest)
  local held, n = {}, 0
  for place = 1, #jobs, 11 do
    held[n + 1], held[n + 2] = jobs[place], jobs[place + 4]
    n = n + 2
  end
  held.refused = #refused > 0 and refused or nil
  held.rest = #rest > 0 and rest or nil
  Replies.shorten('settle', held)
end

-- settle worker s (settlement)*s count q queue*q [pairs] -> { refused, jobs, rest }
function Settle.settle(args, i)
  local worker = Arguments.given('settle', 'worker', args[i])
  local count = Arguments.whole('settle', 'number of settlements', args[i + 1], 0)
  local starts, jids, rest_at = parse(args, i + 2, math.min(count, Settle.most + 1))
  local wish = parse_wish(args, rest_at)
  if count + wish.count > Settle.most then
    Errors.raise('TOOBIG', 'settle(): ' .. count + wish.count .. ' jobs in one call, at most ' .. Settle.most)
  end
  local queues, globbing = expand(wish.names, wish.excluded)
  look_around(jids, queues, wish.count)
  local refused = settle(args, starts, jids)
  Dependencies.carry_on()
  local jobs, rest = {}, {}
  if wish.count > 0 then
    local taken
    jobs, taken = reserve(queues, worker, wish)
    local client = Replies.client() or worker
    Wake.busy(client, queues, globbing, taken > 0)
    if taken == 0 and wish.wait then
      rest = Wake.wait(client, queues, wish.wait, globbing)
    end
  end

  remember(refused, jobs, rest)
  return { refused, jobs, rest }
end

-- The reply again: of the jobs handed out, those that their worker still holds.
function Settle.rebuild(held)
  local flat = {}
  for n = 1, #held, 2 do
    local jid, token = held[n], held[n + 1]
    local values = call(
      'HMGET',
      key.job(jid),
      'klass',
      'data',
      'retries',
      'remaining',
      'priority',
      'tags',
      'context',
      'queue',
      'state',
      'token',
      'expires'
    )
    if values[9] == 'running' and values[10] == token then
      flatten(flat, #flat, jid, values[8], values, token, values[11])
    end
  end
  return { held.refused or {}, flat, held.rest or {} }
end

Replies.builders({ settle = Settle.rebuild, pop = Job.show_all })
end

-- survey.lua
do
-- How long jobs have waited: the lag of queues, and the survey by which workers choose among them.
local Arguments, Config, Place, Queue, scope, key =
  Qless.Arguments, Qless.Config, Qless.Place, Qless.Queue, Qless.scope, Qless.key

local Survey = {}
Qless.Survey = Survey

local call, format, min = redis.call, string.format, math.min

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
    oldest = min(oldest, tonumber(record[1]) or oldest)
    -- Below all that could have been put at this priority until a day from now.
    highest = '(' .. format('%.17g', Place.score(tonumber(record[2]), scope.now + 86400))
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
function Survey.lag(args, i)
  Arguments.given('lag', 'queue', args[i])
  Arguments.bounded('lag', #args - i + 1)
  local lags = {}
  for n = i, #args do
    lags[#lags + 1] = format('%.6f', (lag(args[n])))
  end
  return lags
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
  if is_empty(queue) then
    return false, 0
  end
  local seconds, found = lag(queue)
  return found or first_due(queue, 'locks', scope.now + 1) <= scope.now, seconds
end

-- survey [queue...] -> name, ready (1 or 0), lag, weight, paused (1 or 0) of each, as texts;
-- without names of all queues that are known, as far as one call may handle them
function Survey.survey(args, i)
  Arguments.bounded('survey', #args - i + 1)
  local queues, paused, flat = {}, {}, {}
  for n = i, #args do
    queues[#queues + 1] = args[n]
  end
  if #queues == 0 then
    queues = Queue.names(Arguments.most)
  end
  for _, queue in ipairs(call('SMEMBERS', key.paused_queues())) do
    paused[queue] = true
  end
  for n, queue in ipairs(queues) do
    local ready, seconds = look(queue)
    local at = 5 * n - 4
    flat[at], flat[at + 1] = queue, ready and '1' or '0'
    flat[at + 2], flat[at + 3] = format('%.6f', seconds), format('%.17g', Config.weight(queue))
    flat[at + 4] = paused[queue] and '1' or '0'
  end
  return flat
end
end

-- orders.lua
do
-- What operators ask of a worker, and the stack dump that it leaves for them.
local Errors, Arguments, Config, Events, key =
  Qless.Errors, Qless.Arguments, Qless.Config, Qless.Events, Qless.key

local Orders = {}
Qless.Orders = Orders

local call = redis.call

local KNOWN = { quiet = true, resume = true, stop = true, dump = true }
local MOST = 20 -- orders kept for a worker that does not fetch them; the latest are
local STACKS_KEPT = 86400 -- seconds

local function must_be_known(worker)
  if not call('ZSCORE', key.workers(), worker) and call('EXISTS', key.worker(worker)) == 0 then
    Errors.raise('NOWORKER', 'order(): Worker ' .. Errors.name(worker) .. ' is not known')
  end
end

-- order worker quiet|resume|stop|dump: for the worker's next beat
function Orders.order(args, i)
  local worker, order = Arguments.given('order', 'worker', args[i]), args[i + 1]
  if not KNOWN[Arguments.given('order', 'order', order)] then
    Errors.argument('order', 'order must be quiet, resume, stop or dump, not ' .. Errors.name(order))
  end
  must_be_known(worker)
  local name = key.orders(worker)
  call('RPUSH', name, order)
  call('LTRIM', name, -MOST, -1)
  call('EXPIRE', name, Config.worker_age())
  Events.order(worker, order)
end

-- The orders of a worker, the first first: each is given out once.
function Orders.take(worker)
  local name = key.orders(worker)
  local orders = call('LRANGE', name, 0, -1)
  if #orders > 0 then
    call('DEL', name)
  end
  return orders
end

function Orders.forget(worker)
  call('DEL', key.orders(worker))
end

-- stacks worker [text]: the last stack dump of a worker, or keeps a new one
function Orders.stacks(args, i)
  local worker, text = Arguments.given('stacks', 'worker', args[i]), args[i + 1]
  if not text then
    return call('GET', key.stacks(worker))
  end
  if #text > Arguments.text_bytes then
    Errors.raise('TOOBIG', 'stacks(): text has ' .. #text .. ' bytes, at most ' .. Arguments.text_bytes)
  end
  call('SET', key.stacks(worker), text, 'EX', STACKS_KEPT)
end
end

-- worker.lua
do
-- Workers: what they say of themselves, what they hold, and one heartbeat for all of it.
local Errors, Json, Arguments, Config, SortedSet, Tags, Orders, Samples, scope, key =
  Qless.Errors,
  Qless.Json,
  Qless.Arguments,
  Qless.Config,
  Qless.SortedSet,
  Qless.Tags,
  Qless.Orders,
  Qless.Samples,
  Qless.scope,
  Qless.key

local Worker = {}
Qless.Worker = Worker

local call = redis.call

local FAR = 8640000 -- seconds; no lock is longer

-- Workers silent for too long are forgotten.
local function forget_silent()
  local before = scope.now - Config.number('max-worker-age')
  local silent = call('ZRANGEBYSCORE', key.workers(), '-inf', before, 'LIMIT', 0, Arguments.most)
  for _, worker in ipairs(silent) do
    call('DEL', key.held(worker))
  end
  SortedSet.remove(key.workers(), silent)
end

-- With KEYS a worker is shown with what it says of itself.
local function with_info(shown, worker, seen)
  if not scope.keyed then
    return cjson.encode(shown)
  end
  shown.beat = tonumber(seen)
  return Json.with(cjson.encode(shown), 'info', call('GET', key.worker(worker)) or 'null')
end

local function overview()
  local since = '(' .. string.format('%.17g', scope.now - Config.number('max-worker-age'))
  local all, seen = {}, call('ZREVRANGEBYSCORE', key.workers(), '+inf', since, 'WITHSCORES')
  for n = 1, #seen, 2 do
    local worker = seen[n]
    local shown = {
      name = worker,
      jobs = call('ZCOUNT', key.held(worker), scope.now, scope.now + FAR),
      stalled = call('ZCOUNT', key.held(worker), 0, scope.now),
    }
    all[#all + 1] = with_info(shown, worker, seen[n + 1])
  end
  return Json.list(all)
end

-- workers [worker]
function Worker.show(args, i)
  if not scope.reading then
    forget_silent()
  end
  local worker = args[i]
  if not worker then
    return overview()
  end
  local shown = {
    jobs = call('ZREVRANGEBYSCORE', key.held(worker), scope.now + FAR, scope.now),
    stalled = call('ZREVRANGEBYSCORE', key.held(worker), scope.now, 0),
  }
  return with_info(shown, worker, call('ZSCORE', key.workers(), worker) or nil)
end

-- worker.deregister worker...
function Worker.deregister(args, i)
  local workers = Tags.rest(args, i)
  Arguments.bounded('worker.deregister', #workers)
  SortedSet.remove(key.workers(), workers)
  if scope.live then
    for _, worker in ipairs(workers) do
      call('DEL', key.worker(worker))
      Orders.forget(worker)
    end
  end
end

-- The jobs of a heartbeat that their worker still holds, by queue, and those it has lost.
local function sort_out(worker, args, i, count)
  local queues, lost = {}, {}
  for n = i, i + 2 * count - 1, 2 do
    local jid, token = args[n], args[n + 1]
    local record = call('HMGET', key.job(jid), 'state', 'worker', 'token', 'queue', 'grace')
    if record[1] == 'running' and record[2] == worker and record[3] == token then
      queues[record[4]] = queues[record[4]] or {}
      table.insert(queues[record[4]], jid)
      if record[5] then
        call('HDEL', key.job(jid), 'grace')
      end
    else
      lost[#lost + 1] = jid
    end
  end
  return queues, lost
end

-- beat worker info n (jid token)*n -> { jids of lost jobs, orders }
-- It also writes the samples of all workers, so that statistics are never much older.
function Worker.beat(args, i)
  local worker, said = Arguments.given('beat', 'worker', args[i]), args[i + 1]
  if Arguments.given('beat', 'info', said) ~= '' then
    Arguments.object('beat', 'info', said)
  end
  local count = Arguments.whole('beat', 'number of jobs', args[i + 2], 0)
  Arguments.bounded('beat', count)
  if #args - i - 2 ~= 2 * count then
    Errors.argument('beat', 'jid and token of ' .. count .. ' jobs wanted')
  end
  local queues, lost = sort_out(worker, args, i + 3, count)
  for queue, jids in pairs(queues) do
    local expires = Qless.Texts.later(Config.heartbeat(queue))
    for _, jid in ipairs(jids) do
      call('HSET', key.job(jid), 'expires', expires)
    end
    SortedSet.add(key.held(worker), expires, jids)
    SortedSet.add(key.place(queue, 'locks'), expires, jids)
  end
  call('ZADD', key.workers(), scope.now, worker)
  if said ~= '' then
    call('SET', key.worker(worker), said, 'EX', Config.worker_age())
  end
  Samples.settle()
  return { lost, Orders.take(worker) }
end
end

-- audit_jobs.lua
do
-- The invariants of a job's record: what an audit asks of each.
local Errors, Arguments, scope, key = Qless.Errors, Qless.Arguments, Qless.scope, Qless.key

local AuditJobs = {}
Qless.AuditJobs = AuditJobs

local call = redis.call

-- Violations told in one step: the first of them say what is wrong.
local TOLD = 100

function AuditJobs.complain(report, text)
  if #report.violations < TOLD then
    report.violations[#report.violations + 1] = Errors.name(text)
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

local function check_running(report, jid, record)
  local expires, score = tonumber(record.expires) or 0, call('ZSCORE', key.place(record.queue, 'locks'), jid)
  local held = call('ZSCORE', key.held(record.worker), jid)
  if record.grace == '1' then
    if held then
      AuditJobs.complain(
        report,
        'job ' .. jid .. ' has lost its lock and is on the list of worker ' .. record.worker
      )
    end
    return
  end
  if expires == 0 then
    AuditJobs.complain(report, 'job ' .. jid .. ' is running and never expires')
  end
  if score and math.abs(tonumber(score) - expires) > 1e-4 then
    AuditJobs.complain(report, 'job ' .. jid .. ' expires at ' .. expires .. ', its lock at ' .. score)
  end
  if held and math.abs(tonumber(held) - expires) > 1e-4 then
    AuditJobs.complain(
      report,
      'job ' .. jid .. ' expires at ' .. expires .. ', on the list of its worker at ' .. held
    )
  end
  -- A worker that was silent for too long has been forgotten, and its list with it.
  if not held and expires > scope.now and call('ZSCORE', key.workers(), record.worker) then
    AuditJobs.complain(report, 'job ' .. jid .. ' is running but not on the list of worker ' .. record.worker)
  end
end

local function check_depends(report, jid, record)
  if record.open == '1' then
    return
  end
  local others = call('SRANDMEMBER', key.dependencies(jid), Arguments.most)
  if #others == 0 then
    AuditJobs.complain(report, 'job ' .. jid .. ' depends on nothing')
  end
  for _, other in ipairs(others) do
    local state = call('HGET', key.job(other), 'state')
    if (state or 'complete') == 'complete' and not call('ZSCORE', key.releasing(), other) then
      AuditJobs.complain(
        report,
        'job ' .. jid .. ' waits for ' .. other .. ', which is ' .. (state or 'gone')
      )
    elseif call('SISMEMBER', key.dependents(other), jid) == 0 then
      AuditJobs.complain(report, 'job ' .. other .. ' does not know its dependent ' .. jid)
    end
  end
end

local function check_dependents(report, jid)
  for _, other in ipairs(call('SRANDMEMBER', key.dependents(jid), Arguments.most)) do
    if call('SISMEMBER', key.dependencies(other), jid) == 0 then
      AuditJobs.complain(report, 'job ' .. other .. ' does not know that it waits for ' .. jid)
    end
  end
end

-- Finding a job in a failure group is linear: done in short ones only.
local SEARCHED = 200

local function check_failed(report, jid, record)
  local group = cjson.decode(record.failure or '{}').group
  if not group then
    AuditJobs.complain(report, 'job ' .. jid .. ' failed without a group')
  elseif
    call('SISMEMBER', key.failures(), group) == 0 and call('SISMEMBER', key.failures(), 'other') == 0
  then
    AuditJobs.complain(report, 'failure group ' .. group .. ' of job ' .. jid .. ' is not listed')
  elseif call('LLEN', key.group(group)) <= SEARCHED then
    local times = #call('LPOS', key.group(group), jid, 'COUNT', 0)
    if times ~= 1 and call('SISMEMBER', key.failures(), 'other') == 0 then
      AuditJobs.complain(report, 'job ' .. jid .. ' is ' .. times .. ' times in its failure group ' .. group)
    end
  end
end

local function check_places(report, jid, record)
  local wanted = AuditJobs.place[record.state]
  for _, place in ipairs({ 'work', 'locks', 'scheduled', 'depends' }) do
    local there = call('ZSCORE', key.place(record.queue, place), jid)
    if there and place ~= wanted then
      AuditJobs.complain(
        report,
        'job ' .. jid .. ' is ' .. record.state .. ' and in ' .. place .. ' of ' .. record.queue
      )
    elseif not there and place == wanted then
      AuditJobs.complain(
        report,
        'job ' .. jid .. ' is ' .. record.state .. ' but not in ' .. place .. ' of ' .. record.queue
      )
    end
  end
  local completed = call('ZSCORE', key.completed(), jid)
  if record.state == 'complete' and not completed then
    AuditJobs.complain(report, 'job ' .. jid .. ' is complete but not among the completed')
  elseif completed and record.state ~= 'complete' then
    AuditJobs.complain(report, 'job ' .. jid .. ' is ' .. record.state .. ' and among the completed')
  elseif not wanted and record.state ~= 'complete' and record.state ~= 'failed' then
    AuditJobs.complain(report, 'job ' .. jid .. ' has no such state: ' .. tostring(record.state))
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
}

local function check_numbers(report, jid, record)
  local last = tonumber(call('HGET', key.meta(), 'token')) or 0
  if record.token and tonumber(record.token) > last then
    AuditJobs.complain(
      report,
      'token ' .. record.token .. ' of job ' .. jid .. ' is above the last one drawn'
    )
  end
  local remaining = tonumber(record.remaining)
  if
    not remaining
    or remaining < -1
    or remaining ~= math.floor(remaining)
    or remaining > (tonumber(record.retries) or -1)
  then
    AuditJobs.complain(
      report,
      'job '
        .. jid
        .. ' has '
        .. tostring(record.remaining)
        .. ' of '
        .. tostring(record.retries)
        .. ' retries left'
    )
  end
end

function AuditJobs.check(report, jid)
  local values, record = call('HMGET', key.job(jid), unpack(FIELDS)), {}
  for n, field in ipairs(FIELDS) do
    record[field] = values[n] or nil
  end
  if record.jid ~= jid or not record.state or not record.queue or not record.worker then
    AuditJobs.complain(report, 'record of job ' .. jid .. ' is damaged')
    return
  end
  if call('EXISTS', key.history(jid)) == 0 then
    AuditJobs.complain(report, 'job ' .. jid .. ' has no history')
  end
  check_places(report, jid, record)
  check_numbers(report, jid, record)
  check_dependents(report, jid)
  for _, tag in ipairs(cjson.decode(record.tags or '{}')) do
    if not call('ZSCORE', key.tag(tag), jid) then
      AuditJobs.complain(report, 'tag ' .. tag .. ' does not know job ' .. jid)
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
end

-- audit.lua
do
-- The invariants of a namespace, checked in steps; each step judges only what one call saw.
-- First every key is visited (SCAN), then every list of jids, so that links are seen from both ends.
local Errors, Arguments, AuditJobs, scope, key =
  Qless.Errors, Qless.Arguments, Qless.AuditJobs, Qless.scope, Qless.key

local Audit = {}
Qless.Audit = Audit

local call, match, sub = redis.call, string.match, string.sub

local complain = AuditJobs.complain

local function check_job_key(report, name)
  local jid, part = match(name, '^(.*)%-(history)$')
  if not jid then
    jid, part = match(name, '^(.*)%-(dependencies)$')
  end
  if not jid then
    jid, part = match(name, '^(.*)%-(dependents)$')
  end
  if not jid then
    AuditJobs.check(report, name)
  elseif
    call('EXISTS', key.job(jid)) == 0 and not (part == 'dependents' and call('ZSCORE', key.releasing(), jid))
  then
    complain(report, 'there is a ' .. part .. ' of job ' .. jid .. ', but no record')
  elseif part == 'dependencies' and call('HGET', key.job(jid), 'state') ~= 'depends' then
    complain(report, 'job ' .. jid .. ' has dependencies but does not wait for them')
  end
end

local function check_template(report, jid)
  local queue = call('HGET', key.template(jid), 'queue')
  if not queue or not call('ZSCORE', key.place(queue, 'recur'), jid) then
    complain(report, 'recurring job ' .. jid .. ' is in no queue')
  end
end

local function check_group(report, group)
  if call('SISMEMBER', key.failures(), group) == 0 then
    complain(report, 'failure group ' .. group .. ' is not listed')
  end
end

local function check_tag(report, tag)
  local members, counted = call('ZCARD', key.tag(tag)), tonumber(call('ZSCORE', key.tags(), tag) or '0')
  if members ~= counted then
    complain(report, 'tag ' .. tag .. ' is on ' .. members .. ' jobs, counted ' .. counted)
  end
end

-- Keys that need no look of their own, and those that do, by the text after the prefix.
local ALONE = {}
for _, name in ipairs({
  'config',
  'queues',
  'paused_queues',
  'workers',
  'failures',
  'tracked',
  'tags',
  'completed',
  'meta',
  'releasing',
  'idle',
  'wake',
  'journal',
}) do
  ALONE[name] = true
end
local FAMILY = {
  { 'j:', check_job_key },
  { 'r:', check_template },
  { 'f:', check_group },
  { 't:', check_tag },
}
for _, start in ipairs({
  's:',
  'm:',
  'result:',
  'reply:',
  'worker:',
  'orders:',
  'stacks:',
  'idle:',
  'wake:',
  'timer:',
}) do
  FAMILY[#FAMILY + 1] = { start }
end

local function check_key(report, name)
  if ALONE[name] then
    return
  end
  for _, family in ipairs(FAMILY) do
    local start = family[1]
    if sub(name, 1, #start) == start then
      if family[2] then
        family[2](report, sub(name, #start + 1))
      end
      return
    end
  end
  complain(report, 'key ' .. scope.prefix .. name .. ' is none of ours')
end

-- What a member of a queue's place, of a worker's list and so on must be.
local function member_of_place(place)
  return function(report, jid, queue)
    local record = call('HMGET', key.job(jid), 'state', 'queue')
    if not record[1] then
      complain(report, 'job ' .. jid .. ' is in ' .. place .. ' of ' .. queue .. ', but has no record')
    elseif AuditJobs.place[record[1]] ~= place or record[2] ~= queue then
      complain(
        report,
        'job ' .. jid .. ' is in ' .. place .. ' of ' .. queue .. ', but ' .. record[1] .. ' in ' .. record[2]
      )
    end
  end
end

local function member_of_recur(report, jid, queue)
  if call('HGET', key.template(jid), 'queue') ~= queue then
    complain(report, 'recurring job ' .. jid .. ' in queue ' .. queue .. ' has no template there')
  end
end

local function member_of_worker(report, jid, worker)
  local record = call('HMGET', key.job(jid), 'state', 'worker')
  if record[1] ~= 'running' or record[2] ~= worker then
    complain(report, 'job ' .. jid .. ' is on the list of worker ' .. worker .. ', which does not run it')
  end
end

-- Lists whose owner is not listed (any more) are checked when their key is met, as far as
-- one step goes; those of listed owners in the second part.
local function check_place_key(report, name)
  local queue, place = match(name, '^(.*)%-(%a+)$')
  if not queue or call('ZSCORE', key.queues(), queue) then
    return
  end
  local check = place == 'recur' and member_of_recur or member_of_place(place)
  for _, jid in ipairs(call('ZRANGE', key.place(queue, place), 0, Arguments.most - 1)) do
    check(report, jid, queue)
  end
end

local function check_held_key(report, name)
  local worker = match(name, '^(.*):jobs$')
  if worker and not call('ZSCORE', key.workers(), worker) then
    for _, jid in ipairs(call('ZRANGE', key.held(worker), 0, Arguments.most - 1)) do
      member_of_worker(report, jid, worker)
    end
  end
end

FAMILY[#FAMILY + 1] = { 'q:', check_place_key }
FAMILY[#FAMILY + 1] = { 'w:', check_held_key }

local function member_of_group(report, jid, group)
  local record = call('HMGET', key.job(jid), 'state', 'failure')
  local filed = record[1] == 'failed' and cjson.decode(record[2] or '{}').group
  if not filed or (filed ~= group and group ~= 'other') then
    complain(report, 'job ' .. jid .. ' is in failure group ' .. group .. ', but has not failed in it')
  end
end

local function member_of_tag(report, jid, tag)
  local tags = call('HGET', key.job(jid), 'tags')
  for _, name in ipairs(cjson.decode(tags or '{}')) do
    if name == tag then
      return
    end
  end
  complain(report, 'tag ' .. tag .. ' lists job ' .. jid .. ', which does not carry it')
end

local function member_of_completed(report, jid)
  if call('HGET', key.job(jid), 'state') ~= 'complete' then
    complain(report, 'job ' .. jid .. ' is among the completed, but is not complete')
  end
end

local function range(name, first, last)
  return call('ZRANGE', name, first, last)
end

-- Every list of jids, in an order that two steps see alike.
local function lists()
  local all = { { key.completed(), '', member_of_completed } }
  local queues = call('ZRANGE', key.queues(), 0, -1)
  table.sort(queues)
  for _, queue in ipairs(queues) do
    for _, place in ipairs({ 'work', 'locks', 'scheduled', 'depends' }) do
      all[#all + 1] = { key.place(queue, place), queue, member_of_place(place) }
    end
    all[#all + 1] = { key.place(queue, 'recur'), queue, member_of_recur }
  end
  for _, worker in ipairs(call('ZRANGE', key.workers(), 0, -1)) do
    all[#all + 1] = { key.held(worker), worker, member_of_worker }
  end
  local groups = call('SMEMBERS', key.failures())
  table.sort(groups)
  for _, group in ipairs(groups) do
    all[#all + 1] = { key.group(group), group, member_of_group, true }
  end
  for _, tag in ipairs(call('ZRANGE', key.tags(), 0, -1)) do
    all[#all + 1] = { key.tag(tag), tag, member_of_tag }
  end
  return all
end

-- Checks up to `count` members from the list and the offset on. -> the next cursor
local function check_lists(report, at, offset, count)
  local all = lists()
  while at <= #all and count > 0 do
    local list = all[at]
    local name, owner, check = list[1], list[2], list[3]
    local members = list[4] and call('LRANGE', name, offset, offset + count - 1)
      or range(name, offset, offset + count - 1)
    if offset == 0 and #members == 0 and (list[4] or check == member_of_tag) then
      complain(report, (list[4] and 'failure group ' or 'tag ') .. owner .. ' is listed but empty')
    end
    for _, jid in ipairs(members) do
      check(report, jid, owner)
    end
    report.checked = report.checked + #members
    count = count - math.max(#members, 1)
    if #members == 0 or count > 0 then
      at, offset = at + 1, 0
    else
      offset = offset + #members
    end
  end
  return at > #all and '0' or 'list:' .. at .. ':' .. offset
end

local function check_keys(report, cursor, count)
  local glob = string.gsub(scope.prefix, '[%*%?%[%]%\\]', '\\%0') .. '*'
  local reply = call('SCAN', cursor, 'MATCH', glob, 'COUNT', count)
  for _, name in ipairs(reply[2]) do
    check_key(report, sub(name, #scope.prefix + 1))
  end
  report.checked = report.checked + #reply[2]
  return reply[1] == '0' and 'list:1:0' or 'key:' .. reply[1]
end

-- audit cursor [count]: begins with cursor 0, has ended when it answers 0
function Audit.audit(args, i)
  local cursor = Arguments.given('audit', 'cursor', args[i])
  local count = math.max(Arguments.count('audit', args[i + 1], Arguments.most), 1)
  local report = { checked = 0, violations = {} }
  local at, offset = match(cursor, '^list:(%d+):(%d+)$')
  if at then
    report.cursor = check_lists(report, tonumber(at), tonumber(offset), count)
  else
    local scan = cursor == '0' and '0' or match(cursor, '^key:(%d+)$')
    if not scan then
      Errors.argument('audit', 'cursor must be 0 or what the last step answered, not ' .. Errors.name(cursor))
    end
    report.cursor = check_keys(report, scan, count)
  end
  return cjson.encode(report)
end
end

-- api.lua
do
-- The commands of qless-core's protocol, by name.
local Q = Qless
local Api = {}
Qless.Api = Api

Api['put'] = Q.Put.put
Api['requeue'] = Q.Put.requeue
Api['pop'] = Q.Pop.pop
Api['peek'] = Q.Queue.peek
Api['complete'] = Q.Outcome.complete
Api['fail'] = Q.Outcome.fail
Api['retry'] = Q.Outcome.retry
Api['heartbeat'] = Q.Lock.heartbeat
Api['get'] = Q.Job.get
Api['multiget'] = Q.Job.multiget
Api['cancel'] = Q.Job.cancel
Api['timeout'] = Q.Job.timeout
Api['depends'] = Q.Dependencies.command
Api['priority'] = Q.Job.priority
Api['tag'] = Q.Tags.command
Api['track'] = Q.Job.track
Api['failed'] = Q.Failures.show
Api['unfail'] = Q.Queue.unfail
Api['jobs'] = Q.Queue.jobs
Api['queues'] = Q.Queue.show
Api['stats'] = Q.Stats.show
Api['workers'] = Q.Worker.show
Api['worker.deregister'] = Q.Worker.deregister
Api['pause'] = Q.Queue.pause
Api['unpause'] = Q.Queue.unpause
Api['queue.forget'] = Q.Queue.forget
Api['length'] = Q.Queue.length
Api['log'] = Q.History.log
Api['config.get'] = Q.Config.show
Api['config.set'] = Q.Config.set
Api['config.unset'] = Q.Config.unset
Api['recur'] = Q.Recurring.recur
Api['recur.get'] = Q.Recurring.get
Api['recur.update'] = Q.Recurring.update
Api['recur.tag'] = Q.Recurring.tag
Api['recur.untag'] = Q.Recurring.untag
Api['unrecur'] = Q.Recurring.unrecur

-- Those that only read. (Without KEYS some of them move what is due; with KEYS none writes.)
Q.READS = {
  ['peek'] = true,
  ['get'] = true,
  ['multiget'] = true,
  ['failed'] = true,
  ['jobs'] = true,
  ['queues'] = true,
  ['stats'] = true,
  ['workers'] = true,
  ['length'] = true,
  ['config.get'] = true,
  ['recur.get'] = true,
}
end

-- extensions.lua
do
-- The commands that exist with KEYS only, by name.
local Q = Qless
local Extensions = {}
Qless.Extensions = Extensions

Extensions['put.many'] = Q.Put.many
Extensions['settle'] = Q.Settle.settle
Extensions['beat'] = Q.Worker.beat
Extensions['release'] = Q.Outcome.release
Extensions['progress'] = Q.Job.progress
Extensions['seal'] = Q.Dependencies.seal
Extensions['result'] = Q.Job.result
Extensions['order'] = Q.Orders.order
Extensions['stacks'] = Q.Orders.stacks
Extensions['lag'] = Q.Survey.lag
Extensions['survey'] = Q.Survey.survey
Extensions['minutes'] = Q.Minutes.show
Extensions['meta'] = Q.Clock.show
Extensions['audit'] = Q.Audit.audit

for _, name in ipairs({ 'result', 'lag', 'survey', 'minutes', 'meta', 'audit' }) do
  Q.READS[name] = true
end

-- Some words of a command read, others write; its arguments stand at args[4] and behind.
function Q.is_read(command, args)
  if command == 'tag' then
    return args[4] == 'get' or args[4] == 'top'
  elseif command == 'track' then
    return args[4] == nil
  elseif command == 'stacks' then
    return args[5] == nil
  end
  return Q.READS[command] or false
end
end

-- serve.lua
do
-- Dispatch: qless-core's protocol without KEYS, ours with them.
local Texts, Absence, Errors, Arguments, Clock, Config, Replies, Wake, Minutes, Stats, Samples, scope =
  Qless.Texts,
  Qless.Absence,
  Qless.Errors,
  Qless.Arguments,
  Qless.Clock,
  Qless.Config,
  Qless.Replies,
  Qless.Wake,
  Qless.Minutes,
  Qless.Stats,
  Qless.Samples,
  Qless.scope

local call = redis.call

-- Functions keep their state from call to call.
local function reset(prefix, keyed)
  scope.prefix, scope.now, scope.keyed, scope.live, scope.reading = prefix, 0, keyed, keyed, false
  Texts.begin()
  Absence.reset()
  Clock.reset()
  Config.reset()
  Replies.reset()
  Qless.Dependencies.reset()
  Wake.reset()
  Minutes.reset()
  Stats.reset()
  Samples.reset()
end

local function flush()
  Samples.flush()
  Stats.flush()
  Minutes.flush()
  Wake.flush()
end

-- ARGV = command, now, args...
local function without_keys(args)
  reset('ql:', false)
  local command = Arguments.given('qless', 'command', args[1])
  local handler = Qless.Api[command]
  if not handler then
    error('Unknown command ' .. Errors.name(command))
  end
  scope.now = Arguments.number(command, 'now', args[2])
  scope.live = call('EXISTS', Qless.key.meta()) == 1
  local reply = handler(args, 3)
  flush()
  return reply
end

-- The keys of the last call: mostly those of this one as well.
local known_keys, known_prefix = {}, nil

local function prefix_of(keys)
  if keys[1] == known_keys[1] and keys[2] == known_keys[2] and #keys == 2 then
    return known_prefix
  end
  local prefix = string.match(keys[1], '^(.*)!$')
  if not prefix or #keys ~= 2 or keys[2] ~= prefix .. 'meta' then
    Errors.raise('BADARG', 'KEYS must be <prefix>! and <prefix>meta')
  end
  known_keys, known_prefix = { keys[1], keys[2] }, prefix
  return prefix
end

-- ARGV = command, now, request, args...
local function with_keys(keys, args, class)
  reset('', true)
  scope.prefix = prefix_of(keys)
  local command, now, request = args[1], args[2], args[3]
  local handler = command and (Qless.Api[command] or Qless.Extensions[command])
  if not handler then
    Errors.raise('NOCOMMAND', 'Unknown command ' .. Errors.name(command))
  end
  if not now or not request then
    Errors.raise('BADARG', command .. '(): now and request wanted')
  end
  scope.reading = Qless.is_read(command, args)
  if class == 'read' and not scope.reading then
    Errors.raise('BADARG', command .. '() writes: call it in the write or the drain class')
  end
  Arguments.weigh(command, args)
  Clock.set(now)
  if scope.reading then
    return handler(args, 4, '')
  end
  local served, reply = Replies.recall(request)
  if served then
    return reply
  end
  reply = handler(args, 4, request)
  flush()
  Clock.keep()
  Replies.keep(request, reply)
  return reply
end

-- A refusal becomes a reply whose first word is its code.
function Qless.serve(keys, args, class)
  if #keys == 0 then
    return without_keys(args)
  end
  local fine, reply = pcall(with_keys, keys, args, class)
  if fine then
    return reply
  elseif type(reply) == 'table' and reply.code then
    return redis.error_reply(reply.code .. ' ' .. reply.text)
  elseif type(reply) == 'table' and reply.err then
    return redis.error_reply(reply.err)
  end
  return redis.error_reply(tostring(reply))
end
end
return Qless
end

-- main.lua
-- The way in: three functions of a library, or one script. What a library may do while it is
-- loaded is to register functions, nothing else; so the modules are built by the first call.
local built

local function serve(keys, args, class)
  built = built or build()
  return built.serve(keys, args, class)
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
  return serve(KEYS, ARGV)
end
