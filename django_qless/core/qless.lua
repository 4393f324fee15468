-- Generated from lua/ by lua/build.py: change it there.
local function build()
-- A module is an empty table until something of it is wanted; then its file fills it.
local make
local unmade = {}
unmade.__index = function(module, field)
  setmetatable(module, nil)
  make(module[1])(module)
  return module[field]
end
local modules = setmetatable({}, {
  __index = function(modules, name)
    local module = setmetatable({ name }, unmade)
    modules[name] = module
    return module
  end,
})
make = function(module_name)
local initial = string.byte(module_name)
if initial < 76 then
if initial < 70 then
if initial < 67 then
if initial < 66 then
if module_name == 'Arguments' then
return function(Arguments)
local Errors, Keys =
modules.Errors, modules.Keys
-- core/arguments.lua
-- Arguments: numbers, JSON texts, names and option pairs, checked once and in one wording.

local find, gsub, floor = string.find, string.gsub, math.floor
local HUGE = math.huge
local MOST = 1e300 -- sums of what is not beyond it are finite

Arguments.most = 1000 -- items one call may name
Arguments.data_bytes = 512 * 1024
Arguments.text_bytes = 64 * 1024
Arguments.tags = 32

local function refuse(call, what, value, wanted)
  Errors.argument(call, what .. ' ' .. wanted .. ', not ' .. Errors.value(value))
end

-- A required argument as it came.
function Arguments.given(call, what, value)
  if value == nil then
    Errors.argument(call, 'Arg "' .. what .. '" missing')
  end
  return value
end

-- A name under which something is stored, or taken. (No name at all stands for "none" in records.)
function Arguments.real_name(call, what, value)
  if value == '' then
    Errors.argument(call, what .. ' must not be empty')
  end
  return Arguments.given(call, what, value)
end

-- The name of something that may be there. Old clients may send '' back, as records say it.
function Arguments.name(call, what, value)
  if call.old then
    return Arguments.given(call, what, value)
  end
  return Arguments.real_name(call, what, value)
end

-- What shows that the caller holds a job: its token, of old clients the worker's name.
function Arguments.proof(call, value)
  return Arguments.given(call, call.old and 'worker' or 'token', value)
end

-- Most numbers are small and whole: these need no second look.
local SMALL = {}

local DECIMAL, OLD_DECIMAL = '^[%d.eE+-]+$', '^%s*[%d.eE+-]+%s*$'

-- A finite decimal number. (tonumber alone takes 0x10, nan and inf.)
function Arguments.number(call, what, value)
  local small = SMALL[value]
  if small then
    return small
  end
  Arguments.given(call, what, value)
  local plain = find(value, call.old and OLD_DECIMAL or DECIMAL)
  local number = plain and tonumber(value)
  if not number or number ~= number or number == HUGE or number == -HUGE then
    refuse(call, what, value, 'must be a finite decimal number')
  elseif number > MOST or number < -MOST then
    refuse(call, what, value, 'must be a number between -1e300 and 1e300')
  end
  number = number + 0 -- no command takes -0
  if #value == 1 then
    SMALL[value] = number
  end
  return number
end

function Arguments.whole(call, what, value, least)
  local small = SMALL[value]
  if small and small >= (least or 0) then
    return small
  end
  local number = Arguments.number(call, what, value)
  if number ~= floor(number) or number < (least or -HUGE) or number > 2 ^ 53 then
    local wanted = 'must be a whole number'
    if least then
      wanted = wanted .. ' of at least ' .. least
    end
    refuse(call, what, value, wanted)
  end
  return number
end

-- Seconds that a job lay in its worker's hands before it was started; nil for '' or nothing.
function Arguments.held(call, value)
  return value and value ~= '' and not call.old and math.max(0, Arguments.number(call, 'held', value)) or nil
end

-- How many items are wanted: never more than a call may handle.
function Arguments.count(call, value, default)
  if value == nil then
    return default
  end
  return math.max(math.min(floor(Arguments.number(call, 'count', value)), Arguments.most), -Arguments.most)
end

function Arguments.offset(call, value)
  if value == nil then
    return 0
  end
  return math.max(math.min(floor(Arguments.number(call, 'offset', value)), 2 ^ 40), -2 ^ 40)
end

-- From which item to which, as LRANGE and ZRANGE count them (from the end if negative), for a list of
-- `total`: never more than a call may handle.
function Arguments.range(offset, count, total)
  local last = offset + count - 1
  local first = offset < 0 and math.max(0, total + offset) or offset
  last = last < 0 and total + last or last
  return first, math.min(last, first + Arguments.most - 1)
end

-- A number of items named by the caller.
function Arguments.bounded(call, number)
  if number > Arguments.most then
    Errors.refuse(call, 'TOOBIG', '%s items in one call, at most %s', number, Arguments.most)
  end
end

Arguments.bytes = 1024 * 1024

-- What one call may carry in all.
function Arguments.weigh(call, args)
  local bytes = 0
  for n = 1, #args do
    bytes = bytes + #args[n]
  end
  if bytes > Arguments.bytes then
    Errors.refuse(call, 'TOOBIG', '%s bytes of arguments in one call, at most %s', bytes, Arguments.bytes)
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
function Arguments.json(call, what, text, bytes)
  Arguments.given(call, what, text)
  if #text > (bytes or Arguments.data_bytes) then
    Errors.refuse(call, 'TOOBIG', '%s has %s bytes, at most %s', what, #text, bytes or Arguments.data_bytes)
  end
  local fine, value = pcall(decode, text)
  if not fine then
    Errors.argument(call, what .. ' is not JSON: ' .. Errors.name(text))
  end
  local wrong = lax(text)
  if wrong then
    Errors.argument(call, what .. ' is not JSON, it has ' .. wrong)
  end
  return value
end

function Arguments.object(call, what, text)
  local value = Arguments.json(call, what, text, Arguments.text_bytes)
  if type(value) ~= 'table' or find(text, '^%s*%[') then
    Errors.argument(call, what .. ' must be a JSON object')
  end
  return value
end

-- A JSON list of names, in order and without repetition.
function Arguments.names(call, what, text)
  local list, seen, names = Arguments.json(call, what, text), {}, {}
  if type(list) ~= 'table' or (#list == 0 and next(list) ~= nil) then
    Errors.argument(call, what .. ' must be a JSON list')
  end
  for _, name in ipairs(list) do
    if type(name) == 'number' then
      name = string.format('%.14g', name)
    end
    if type(name) ~= 'string' then
      Errors.argument(call, what .. ' must be a JSON list of strings')
    end
    if not seen[name] then
      seen[name] = true
      names[#names + 1] = name
    end
  end
  return names
end

function Arguments.tag_list(call, text)
  local tags = Arguments.names(call, 'tags', text)
  return Arguments.few_tags(call, tags)
end

function Arguments.few_tags(call, tags)
  if #tags > Arguments.tags and not call.old then
    Errors.refuse(call, 'TOOBIG', '%s tags, at most %s', #tags, Arguments.tags)
  end
  return tags
end

-- What a new name may be.
function Arguments.plain(call, what, name)
  if call.old then
    return
  end
  if what == 'queue' and (#name > 255 or find(name, '[*?]')) then
    Errors.argument(call, 'queue must have 1 to 255 bytes and neither * nor ?, not ' .. Errors.value(name))
  elseif #name > 255 then
    Errors.argument(call, what .. ' must have 1 to 255 bytes')
  end
end

-- A message: its end is what tells the most.
function Arguments.message(call, message)
  Arguments.given(call, 'message', message)
  if not call.old and #message > Arguments.text_bytes then
    Errors.refuse(call, 'TOOBIG', 'message has %s bytes, at most %s', #message, Arguments.text_bytes)
  end
  return message
end

-- The id of a job to be made: it may be none that there cannot be.
function Arguments.jid(call, jid)
  Arguments.real_name(call, 'jid', jid)
  local ending = Keys.list_ending(jid)
  if ending then
    Errors.argument(call, 'jid must not end in ' .. ending .. ': ' .. Errors.name(jid))
  end
  Arguments.plain(call, 'jid', jid)
  return jid
end

function Arguments.queue(call, queue)
  Arguments.real_name(call, 'queue', queue)
  Arguments.plain(call, 'queue', queue)
  return queue
end

-- An option that there is not. (Old clients may send such.)
function Arguments.unknown(call, name)
  if not call.old then
    Errors.argument(call, 'Unknown option ' .. Errors.name(name))
  end
end

-- name, value, name, value … as a table.
function Arguments.options(call, args, first, known)
  local options = {}
  if (#args - first + 1) % 2 ~= 0 then
    Errors.argument(call, 'Odd number of additional args')
  end
  for i = first, #args, 2 do
    local name = args[i]
    if known[name] then
      options[name] = args[i + 1]
    else
      Arguments.unknown(call, name)
    end
  end
  return options
end
end
end
else
if module_name == 'Bulk' then
return function(Bulk)
local Arguments, Cancel, Errors, Failures, Job, Json, Keys, Priority, Put, Queue, Rows, Runs, Tags,
Tracking, Unique =
modules.Arguments, modules.Cancel, modules.Errors, modules.Failures, modules.Job, modules.Json,
modules.Keys, modules.Priority, modules.Put, modules.Queue, modules.Rows, modules.Runs,
modules.Tags, modules.Tracking, modules.Unique
-- core/bulk.lua
-- each: a command on several jobs, each for itself; what is refused of one does not stop the others.
--
-- The command on one job is the one that exists; it refuses before it writes.

local rcall = redis.call

local MOST = 250 -- jobs
local ROUNDS = 10 -- in which jobs are tried again that were refused because of others

local function state_of(call, jid)
  local state, queue = unpack(rcall('HMGET', Keys.job(call, jid), 'state', 'queue'))
  if not state then
    Errors.no_job(call, jid)
  end
  return (Job.state_now(call, jid, queue or '', state))
end

-- How many arguments a command has, before the jids, and how they are checked before anything is done.
local TAKES = { move = 2, priority = 1, tag = 1, untag = 1 }

local CHECK = {
  move = function(call, args, i)
    Arguments.queue(call, args[i])
    Arguments.number(call, 'delay', args[i + 1])
  end,
  priority = function(call, args, i)
    Arguments.number(call, 'priority', args[i])
  end,
}

-- What each command does with one job; its own arguments stand behind the jid.
local COMMANDS = {}

function COMMANDS.cancel(call, jid)
  if state_of(call, jid) == 'complete' then
    Errors.refuse(call, 'STATE', 'Job %s is complete', Errors.name(jid))
  end
  Cancel.cancel(call, { jid }, 1)
end

function COMMANDS.revive(call, jid)
  local state = state_of(call, jid)
  if state ~= 'failed' then
    local words = 'Job %s has not failed: it is %s'
    Errors.refuse(call, 'STATE', words, Errors.name(jid), Errors.state(state))
  end
  Unique.refuse_if_taken(call, Job.read(call, jid))
  Failures.revive(call, { jid }, 1)
end

-- (Of a job that waits for its time.)
function COMMANDS.run(call, jid)
  local state = state_of(call, jid)
  if state ~= 'scheduled' then
    local words = 'Job %s is not delayed: it is %s'
    Errors.refuse(call, 'STATE', words, Errors.name(jid), Errors.state(state))
  end
  local job = Job.read(call, jid)
  Queue.run_now(call, Keys.queue(call, job.queue), job)
end

function COMMANDS.move(call, jid, queue, delay)
  local job = Job.must_read(call, jid)
  local context = job.context and pcall(Json.stored, job.context) and job.context or nil
  local given = {
    queue = queue,
    jid = jid,
    klass = job.klass or '',
    data = job.data or '',
    delay = delay,
    context = context,
  }
  Put.carry_out(call, Put.check(call, { jobs = { Rows.job(call, given) } }), '')
end

function COMMANDS.priority(call, jid, priority)
  Priority.set(call, { jid, priority }, 1)
end

function COMMANDS.timeout(call, jid)
  Runs.timeout(call, { jid }, 1)
end

function COMMANDS.tag(call, jid, tag)
  Tags.command(call, { 'add', jid, tag }, 1)
end

function COMMANDS.untag(call, jid, tag)
  Tags.command(call, { 'remove', jid, tag }, 1)
end

function COMMANDS.track(call, jid)
  Tracking.track(call, { 'track', jid }, 1)
end

function COMMANDS.untrack(call, jid)
  if rcall('ZSCORE', call.keys.tracked, jid) then -- also what is gone: it would be listed for ever
    Tracking.untrack(call, jid)
  else
    Tracking.track(call, { 'untrack', jid }, 1)
  end
end

-- The jids that begin at args[i], each once.
local function jids_from(call, args, i)
  Arguments.given(call, 'jid', args[i])
  if #args - i + 1 > MOST then
    Errors.refuse(call, 'TOOBIG', '%s jobs in one call, at most %s', #args - i + 1, MOST)
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

-- Tries each of the jids, from the last to the first if `backwards`. -> those that were refused, in their order; why goes
-- to refused[jid]
local function try(jids, backwards, attempt, refused)
  local left, first, last, step = {}, 1, #jids, 1
  if backwards then
    first, last, step = #jids, 1, -1
  end
  for n = first, last, step do
    local jid = jids[n]
    local fine, problem = pcall(attempt, jid)
    if fine then
      refused[jid] = nil
    elseif Errors.is_refusal(problem) then
      refused[jid] = string.gsub(problem.text, '^[%w.]+%(%): ', '', 1)
      table.insert(left, backwards and 1 or #left + 1, jid)
    else
      error(problem, 0)
    end
  end
  return left
end

-- The same until no further one goes. One that has gone with another one is not refused.
local function try_in_rounds(call, jids, attempt, refused)
  local left, there, round = jids, {}, 0
  for _, jid in ipairs(jids) do
    there[jid] = rcall('EXISTS', Keys.job(call, jid)) == 1
  end
  repeat
    local before = #left
    round = round + 1
    left = try(left, round % 2 == 1, attempt, refused)
  until #left == 0 or #left == before or round == ROUNDS
  for _, jid in ipairs(left) do
    if there[jid] and rcall('EXISTS', Keys.job(call, jid)) == 0 then
      refused[jid] = nil
    end
  end
end

-- each <command> [argument...] jid... -> { jids with which it was done, { jid, why it was refused … } }
function Bulk.each(call, args, i)
  local name = args[i] or ''
  local command = COMMANDS[name]
  if not command then
    Errors.argument(call, 'Unknown command ' .. Errors.value(name))
  end
  local jids, refused = jids_from(call, args, i + 1 + (TAKES[name] or 0)), {}
  if CHECK[name] then
    CHECK[name](call, args, i + 1)
  end
  local function attempt(jid)
    command(call, jid, args[i + 1], args[i + 2])
  end
  if name == 'cancel' then -- a job goes after those that wait for it, in any order of arguments
    try_in_rounds(call, jids, attempt, refused)
  else
    try(jids, false, attempt, refused)
  end
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
end
end
end
else
if initial < 68 then
if module_name == 'Call' then
return function(Call)
local Arguments, Commands, Errors, Features, JobView, Keys, Minutes, Samples, Settle, Times, Wake =
modules.Arguments, modules.Commands, modules.Errors, modules.Features, modules.JobView,
modules.Keys, modules.Minutes, modules.Samples, modules.Settle, modules.Times, modules.Wake
-- core/call.lua
-- A call: its context, which every function has as its first argument; the clock, repeatable requests, and dispatch.
--
-- The context, `call`, has
--   command      as it was given, for messages
--   prefix,keys  of the namespace's keys
--   now          seconds since the epoch, the only clock there is; `text` is the same with all digits
--   second       the whole seconds of it, as text; `fraction` the rest: '.123456'
--   old          the call came without KEYS
--   reading      the call must not write
--   sharded      events go to sharded channels, which a cluster keeps with the keys
--   has          a set of letters: what the namespace has, see features.lua
-- and what modules have to remember until its end, in fields of their own.

local find, match, format, floor = string.find, string.match, string.format, math.floor
local rep, sub = string.rep, string.sub
local rcall = redis.call

local FORMAT = '2' -- of what is stored; raise it when an older build would lose jobs, or break, on what this one stores
local MOST_EXACT = 10 -- seconds
local TOO_FAR = 60 -- seconds; a clock further ahead than this is no drift, but was set wrong
local REPLY_KEPT, ONCE_KEPT = '600', '604800' -- seconds

-- With every ROUND-th token, and in the first call of a second, it is time for what has to be done now and then.
local ROUND = 64

local function check_format(stored)
  if stored and stored ~= FORMAT then
    Errors.raise(
      'FORMAT',
      'the namespace stores format %s, this build of django_qless reads %s: drain it with workers of the build that '
        .. 'has written it, or upgrade the processes that still run this one',
      Errors.name(stored),
      FORMAT
    )
  end
end

-- Sets the time of the call from what TIME replies, but never to an earlier one than that which was kept.
local function take_server_time(call, time, kept)
  local second, rest = time[1], time[2]
  local fraction = '.' .. (#rest < 6 and rep('0', 6 - #rest) or '') .. rest
  local text = second .. fraction
  call.now, call.text, call.second, call.fraction =
    tonumber(second) + tonumber(rest) / 1e6, text, second, fraction
  if not kept or #kept == #text and kept <= text then
    return -- (Texts of one length compare as their numbers do.)
  end
  local ahead = Times.number(kept) - call.now
  if ahead > TOO_FAR then
    call.skewed = true
  elseif ahead > 0 then
    call.now, call.text, call.second, call.fraction = Times.number(kept), kept, nil, nil
  end
end

local function take_given_time(call, text)
  call.now = Arguments.number(call, 'now', text)
  call.text = format('%.17g', call.now)
  call.given = true
end

-- Whole seconds of the present time, as text.
function Call.second(call)
  call.second = call.second or Times.whole(floor(call.now))
  return call.second
end

-- The present time cut to thousandths of a second, as text. (Without arithmetic: printing a fraction is dear.)
function Call.thousandths(call)
  if not call.thousandths then
    call.thousandths = call.fraction and call.second .. sub(call.fraction, 1, 4)
      or Times.thousandths(call.now)
  end
  return call.thousandths
end

-- The present time in whole milliseconds, as text.
function Call.milliseconds(call)
  if call.fraction then
    return call.second .. sub(call.fraction, 2, 4)
  end
  return Times.whole(floor(call.now * 1000 + 0.001))
end

-- When a lock of that number of seconds ends, as text: cut to whole seconds, unless these are few.
-- (The server keeps a whole score in a few bytes; others, in a short list, it reads as texts each time it passes them.)
function Call.later(call, seconds)
  local time = call.now + seconds
  if seconds < MOST_EXACT or call.old then
    return format('%.17g', time)
  end
  return Times.whole(floor(time))
end

-- Draws a token for a run: the server's time in microseconds, or one more than the last token if that is more. So a
-- server that has lost its last writes, or a replica that lacked them, draws none of those again.
function Call.draw(call)
  local last = call.token
  if not call.drawn then
    local time = call.time or (call.old and rcall('TIME'))
    last = time and math.max(last, tonumber(time[1]) * 1e6 + tonumber(time[2]) - 1) or last
  end
  call.token = last + 1
  call.drawn = Times.whole(call.token)
  return call.drawn
end

-- Is it time for what has to be done, but not at each call?
function Call.is_round(call)
  return call.token % ROUND == 0 or not call.kept or find(call.kept, Call.second(call), 1, true) ~= 1
end

-- Has a function called with the context when the command has been carried out. It may add others.
function Call.at_end(call, act)
  local line = call.at_end
  if not line then
    line = {}
    call.at_end = line
  end
  line[#line + 1] = act
end

local function begin(call)
  local known = rcall('HMGET', call.keys.meta, 'clock', 'token', 'format', 'uses')
  check_format(known[3])
  call.kept, call.token, call.is_new = known[1], tonumber(known[2]) or 0, not known[3]
  Features.begin(call, known[4] or '')
end

-- Carries out what was left for the end. Nothing is refused any more.
local function finish(call)
  local line, n = call.at_end, 1
  while line and line[n] do
    line[n](call)
    n = n + 1
  end
  if call.ready or call.changed or call.due then
    Wake.finish(call)
  end
  if call.samples then
    Samples.keep(call)
  end
  if call.minutes then
    Minutes.keep(call)
  end
end

-- Written only when the call has succeeded: a refused call does not advance the clock.
local function keep(call)
  local meta, fields = call.keys.meta, {}
  if not call.given then
    fields[1], fields[2] = 'clock', call.text
  end
  if call.drawn then
    fields[#fields + 1], fields[#fields + 2] = 'token', call.drawn
  end
  if call.is_new then
    fields[#fields + 1], fields[#fields + 2] = 'format', FORMAT
  end
  if call.uses_changed then
    fields[#fields + 1], fields[#fields + 2] = 'uses', call.uses
  end
  if #fields > 0 then
    rcall('HSET', meta, unpack(fields))
  end
  if call.skewed then
    rcall('HINCRBY', meta, 'skews', 1)
  end
end

-- A request is '<client>:<number>' or 'once:<id>'; '' if it will not be repeated. -> the key of its reply, the number
local function request_of(call, request)
  if request == '' then
    return nil
  end
  local client, number = match(request, '^([%w_.~-]+):(.+)$')
  if client == 'once' and #number <= 128 and match(number, '^[%w_.~/-]+$') then
    return Keys.once(call, number), number
  elseif not client or #client > 128 or not match(number, '^%d+$') then
    Errors.raise('BADARG', 'request must be <client>:<number> or once:<id>, not ' .. Errors.value(request))
  end
  call.client = client
  return Keys.reply(call, client), number
end

-- Most replies are a jid or nothing; only the others need to be packed.
local function packed(reply)
  if type(reply) == 'string' then
    return 's' .. reply
  elseif not reply then
    return 'n'
  end
  return 'm' .. cmsgpack.pack(reply)
end

-- Of some commands less is kept than they reply: what makes the reply again from that.
local REBUILD = {
  settle = function(call, kept)
    return Settle.rebuild(call, kept)
  end,
  pop = function(call, kept)
    return JobView.list(call, kept)
  end,
}

local function unpacked(call, text)
  local kind, rest = sub(text, 1, 1), sub(text, 2)
  if kind == 's' then
    return rest
  elseif kind == 'n' then
    return false
  end
  local value = cmsgpack.unpack(rest)
  if kind == 'b' or kind == 'w' then
    return REBUILD[call.command](call, value)
  end
  return value
end

-- A repeat needs no more than this, of which REBUILD makes the reply again. (That of a worker that is about to wait is
-- marked with w, so that its next call has `has_waited`.)
function Call.keep_for_repeat(call, value)
  call.short = value
end

-- -> the stored text if this request was served before
local function stored_reply(call, name, number)
  local stored = rcall('GET', name)
  if not stored then
    return nil
  end
  local last, text = match(stored, '^(%S+) (.*)$')
  if last == number then
    return text, stored
  end
  call.has_waited = sub(text, 1, 1) == 'w'
  if tonumber(number) < tonumber(last) then
    local words = 'request %s:%s is older than the last one of its client, %s'
    Errors.raise('STALE', words, call.client, number, last)
  end
end

local function store_reply(call, name, number, reply)
  local text = call.short and (call.waits and 'w' or 'b') .. cmsgpack.pack(call.short) or packed(reply)
  rcall('SET', name, number .. ' ' .. text, 'EX', call.client and REPLY_KEPT or ONCE_KEPT)
end

-- The first key never exists: so each node of a cluster refuses the call while the slot is moved. An s at its end
-- says that the caller's subscribers are on sharded channels.
local function read_keys(call, keys)
  local prefix, sharded = match(keys[1], '^(.*)!(s?)$')
  if not prefix or #keys ~= 2 or keys[2] ~= prefix .. 'meta' then
    Errors.raise('BADARG', 'KEYS must be <prefix>! and <prefix>meta')
  end
  call.prefix, call.sharded, call.keys = prefix, sharded == 's', Keys.of_namespace(prefix)
end

local function write(call, request, act, args)
  local name, number = request_of(call, request)
  local text, stored
  if name then
    text, stored = stored_reply(call, name, number)
  end
  if text then
    -- Written again: WAIT tells which replicas have what its own connection has written.
    rcall('SET', name, stored, 'KEEPTTL')
    return unpacked(call, text)
  end
  local reply = act(call, args, 4)
  finish(call)
  keep(call)
  if name then
    store_reply(call, name, number, reply)
  end
  return reply
end

-- A context with room for what it mostly gets: a table that grows is copied.
local function new()
  return {
    command = nil,
    prefix = nil,
    keys = nil,
    sharded = nil,
    reading = nil,
    kept = nil,
    token = nil,
    is_new = nil,
    uses = nil,
    has = nil,
    time = nil,
    now = nil,
    text = nil,
    second = nil,
    fraction = nil,
    client = nil,
    for_all = nil,
    drawn = nil,
    at_end = nil,
    samples = nil,
    minutes = nil,
    ready = nil,
    changed = nil,
    due = nil,
    score = nil,
    short = nil,
    completed = nil,
    thousandths = nil,
    links_left = nil,
  }
end

-- ARGV = command, now, request, args...
local function answered(keys, args, class)
  local call = new()
  read_keys(call, keys)
  local command, now, request = args[1], args[2], args[3]
  call.command = command
  local act, reads = Commands.find(command, args)
  if not act then
    Errors.raise('NOCOMMAND', 'Unknown command ' .. Errors.name(command))
  elseif not now or not request then
    Errors.argument(call, 'now and request wanted')
  elseif class == 'read' and not reads then
    Errors.argument(call, 'it writes: call it in the write or the drain class')
  end
  call.reading = reads
  Arguments.weigh(call, args)
  begin(call)
  if now == '*' then
    call.time = rcall('TIME')
    take_server_time(call, call.time, call.kept)
  else
    take_given_time(call, now)
  end
  if reads then
    return act(call, args, 4)
  end
  return write(call, request, act, args)
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

-- Serves a call with KEYS. A refusal becomes a reply whose first word is its code.
function Call.serve(keys, args, class)
  local fine, reply = pcall(answered, keys, args, class)
  if fine then
    return reply
  elseif Errors.is_refusal(reply) then
    return redis.error_reply(reply.code .. ' ' .. reply.text)
  end
  return server_error(reply)
end

-- ARGV = command, now, args...
local function answered_old(args)
  local call = { old = true, prefix = 'ql:', keys = Keys.of_namespace('ql:'), command = 'qless' }
  call.command = Arguments.given(call, 'command', args[1])
  local act = Commands.find_old(call.command)
  if not act then
    Errors.raise('NOCOMMAND', 'Unknown command ' .. Errors.name(call.command))
  end
  begin(call)
  take_given_time(call, args[2])
  local reply = act(call, args, 3)
  finish(call)
  keep(call)
  return reply
end

-- Serves a call without KEYS: errors are raised.
function Call.serve_old(args)
  local fine, reply = pcall(answered_old, args)
  if fine then
    return reply
  elseif Errors.is_refusal(reply) then
    error(reply.text)
  end
  error(reply, 0)
end
end
end
if module_name == 'Cancel' then
return function(Cancel)
local Arguments, Call, Config, Errors, Events, Expiry, Failures, Features, History, Job, Keys, Links,
Pieces, Queue, Spawned, Times =
modules.Arguments, modules.Call, modules.Config, modules.Errors, modules.Events, modules.Expiry,
modules.Failures, modules.Features, modules.History, modules.Job, modules.Keys, modules.Links,
modules.Pieces, modules.Queue, modules.Spawned, modules.Times
-- core/cancel.lua
-- Cancelling: a job is taken away with all that belongs to it. Its record is kept for a while for those who ask for it;
-- for everything else the job does not exist.

local rcall = redis.call

local MOST = 5000 -- records of canceled jobs that are kept
local BYTES = 16 * 1024 -- of data and context; more is not kept: a full server is emptied by canceling
local SURPLUS = 200 -- old ones removed by one call beyond twice those that it adds

-- Records that are too old or too many go.
local function tidy(call)
  local name, age = call.keys.canceled, Config.whole(call, 'canceled-history')
  local most = SURPLUS + 2 * call.canceled
  local old = rcall('ZRANGEBYSCORE', name, '-inf', Times.text(call.now - age), 'LIMIT', '0', most)
  local surplus = rcall('ZCARD', name) - #old - MOST
  if surplus > 0 and #old < most then
    for _, jid in ipairs(rcall('ZRANGE', name, #old, #old + math.min(surplus, most - #old) - 1)) do
      old[#old + 1] = jid
    end
  end
  for _, jid in ipairs(old) do
    rcall('DEL', Keys.canceled_job(call, jid), Keys.canceled_history(call, jid))
    rcall('ZREM', name, jid)
  end
  if rcall('EXISTS', name) == 0 then
    Features.forget(call, 'X')
  end
end

-- Takes the data and the context out of a record if they are long.
local function shorten(name)
  local bytes = rcall('HSTRLEN', name, 'data') + rcall('HSTRLEN', name, 'context')
  if bytes > BYTES then
    rcall('HDEL', name, 'data', 'context')
    rcall('HSET', name, 'left_out', bytes)
  end
end

-- Keeps the record and the history of a job that is about to be erased. `why` is call, dependency or workflow, `by` the
-- jid or id.
local function keep(call, job, why, by)
  local age = Config.whole(call, 'canceled-history')
  if age < 1 then
    return
  end
  local name, history = Keys.canceled_job(call, job.jid), Keys.canceled_history(call, job.jid)
  local more = { was = job.state, why = why, by = by }
  History.note_run(call, job)
  History.add(call, job.jid, 'canceled', cjson.encode(more))
  rcall('RENAME', job.key, name)
  shorten(name)
  -- (The clock of an old client may be anywhere.)
  local when = call.old and call.kept or call.text
  rcall('HSET', name, 'canceled', when, 'why', why, 'by', by or '')
  rcall('EXPIRE', name, age)
  rcall('RENAME', Keys.history(call, job.jid), history)
  rcall('EXPIRE', history, age)
  rcall('ZADD', call.keys.canceled, when, job.jid)
  if not call.canceled then
    Features.note(call, 'X')
    call.canceled = 0
    Call.at_end(call, tidy)
  end
  call.canceled = call.canceled + 1
end

-- The job of this jid is put again: its own record says what became of it.
function Cancel.forget(call, jid)
  if rcall('DEL', Keys.canceled_job(call, jid), Keys.canceled_history(call, jid)) > 0 then
    rcall('ZREM', call.keys.canceled, jid)
  end
end

-- Takes away the job with this record, which is not complete; its dependents stay. `why` and `by`: see keep; no `why`: it
-- was not canceled, its schedule takes it back.
function Cancel.erase(call, job, why, by)
  local jid, queue = job.jid, Keys.queue(call, job.queue)
  if why then
    Events.canceled(call, jid, job.queue, job.worker or '')
  end
  Job.unhold(call, jid, job.worker)
  Queue.leave(call, queue, jid)
  Links.remove_all(call, jid)
  if job.state == 'failed' or not Job.is_state(job.state) then
    Failures.remove(call, job)
    rcall('ZREM', call.keys.completed, jid)
  end
  if why then
    Job.tell_trackers(call, 'canceled', jid)
  end
  if job.letters then
    Features.at('gone', call, job, why and 'canceled' or 'withdrawn')
  end
  if why then
    keep(call, job, why, by)
  end
  Job.erase(call, job)
end

-- The same, and what hangs on it follows by its policy.
function Cancel.remove(call, jid, why, by)
  local job = Job.read(call, jid)
  if job then
    Cancel.erase(call, job, why, by)
    Links.follow(call, jid, 'gone')
  end
end

-- Would canceling these strand a job that is not canceled with them?
local function refuse_stranding(call, jids)
  local named, known = {}, {}
  for _, jid in ipairs(jids) do
    named[jid] = true
  end
  for _, jid in ipairs(jids) do
    -- The call names `most` with the job itself, so of this many dependents one at least is not named.
    for _, dependent in ipairs(rcall('SRANDMEMBER', Keys.dependents(call, jid), Arguments.most)) do
      if not named[dependent] and not Links.can_lose(call, dependent, jid, known) then
        Errors.refuse(
          call,
          'DEPENDENTS',
          '%s is a dependency of %s but is not mentioned to be canceled',
          Errors.name(jid),
          Errors.name(dependent)
        )
      end
    end
  end
end

-- -> whether there was something to cancel
local function cancel(call, jid)
  local job = Job.read(call, jid)
  if job and job.state ~= 'complete' then
    Cancel.erase(call, job, 'call')
    return true
  elseif not job and call.old then
    Events.canceled(call, jid, false, false)
    Job.tell_trackers(call, 'canceled', jid)
  end
  return false
end

-- cancel jid...
function Cancel.cancel(call, args, i)
  local jids, gone = Pieces.rest(args, i), {}
  Arguments.bounded(call, #jids)
  refuse_stranding(call, jids)
  for _, jid in ipairs(jids) do
    gone[#gone + 1] = cancel(call, jid) and jid or nil
  end
  -- Those that were canceled with them are no dependents any more.
  for _, jid in ipairs(gone) do
    Links.follow(call, jid, 'gone')
  end
  return jids
end

local function too_old(call)
  return '(' .. string.format('%.17g', call.now - Config.whole(call, 'canceled-history'))
end

-- The jids of a part of the list, the last canceled first.
function Cancel.part(call, offset, count)
  count = count < 0 and Arguments.most or count
  return rcall('ZREVRANGEBYSCORE', call.keys.canceled, '+inf', too_old(call), 'LIMIT', offset, count)
end

function Cancel.count(call)
  return rcall('ZCOUNT', call.keys.canceled, too_old(call), '+inf')
end

-- Is there the record of a canceled job of this jid?
function Cancel.exists(call, jid)
  return rcall('EXISTS', Keys.canceled_job(call, jid)) == 1
end

-- forget jid: deletes an ended job with its result, its failure and its output. -> whether there was anything
function Cancel.forget_ended(call, args, i)
  local jid = Arguments.name(call, 'jid', args[i])
  local job = Job.read(call, jid)
  if job and job.state == 'failed' then
    Cancel.cancel(call, { jid }, 1)
    Cancel.forget(call, jid)
  elseif job and job.state == 'complete' then
    if Spawned.standing(call, jid) then
      Errors.refuse(call, 'STATE', 'Job ' .. Errors.name(jid) .. ' has spawned jobs that have not ended')
    end
    Expiry.forget(call, jid)
  elseif job then
    local now = Job.state_now(call, jid, job.queue, job.state)
    Errors.refuse(call, 'STATE', 'Job ' .. Errors.name(jid) .. ' has not ended: ' .. now)
  end
  local gone = rcall('DEL', Keys.result(call, jid), Keys.detached(call, jid))
  return (gone > 0 or job) and 1 or 0
end
end
end
if module_name == 'Commands' then
return function(Commands)
local OurCommands =
modules.OurCommands
-- core/commands.lua
-- The commands of qless-core's protocol: which function of which module answers each. Those of ours: our_commands.lua.

local find, match = string.find, string.match

local READS = {
  peek = 'QueueView.peek',
  get = 'JobView.get',
  multiget = 'JobView.multiget',
  failed = 'Failures.show',
  jobs = 'QueueView.jobs',
  queues = 'QueueView.show',
  stats = 'Stats.show',
  workers = 'Worker.show',
  length = 'QueueView.length',
  ['config.get'] = 'Config.show',
  ['recur.get'] = 'Recurring.get',
}

local WRITES = {
  put = 'Put.put',
  requeue = 'Put.requeue',
  pop = 'Take.pop',
  complete = 'Runs.complete',
  fail = 'Runs.fail',
  retry = 'Runs.retry',
  heartbeat = 'Lock.heartbeat',
  cancel = 'Cancel.cancel',
  timeout = 'Runs.timeout',
  depends = 'Links.depends',
  priority = 'Priority.set',
  tag = 'Tags.command',
  track = 'Tracking.track',
  unfail = 'Failures.unfail',
  ['worker.deregister'] = 'Worker.deregister',
  pause = 'Pause.pause',
  unpause = 'Pause.unpause',
  ['queue.forget'] = 'QueueView.forget',
  log = 'History.log',
  ['config.set'] = 'Config.set',
  ['config.unset'] = 'Config.unset',
  recur = 'Recurring.recur',
  ['recur.update'] = 'Recurring.update',
  ['recur.tag'] = 'Recurring.tag',
  ['recur.untag'] = 'Recurring.untag',
  unrecur = 'Recurring.unrecur',
}

-- Some words of these only read; their arguments stand at args[4] and behind.
local READS_SOMETIMES = {
  tag = function(args)
    return args[4] == 'get' or args[4] == 'top'
  end,
  track = function(args)
    return args[4] == nil
  end,
}

local functions = {}

local function function_of(text)
  local act = functions[text]
  if not act then
    local module, name = match(text, '^(%w+)%.([%w_]+)$')
    act = modules[module][name]
    functions[text] = act
  end
  return act
end

-- The function that answers a call with KEYS, and whether it only reads; nil if there is no such command.
function Commands.find(command, args)
  if not command or not find(command, '^[%l.]+$') then
    return nil
  end
  local text = READS[command] or OurCommands.reads[command]
  if text then
    return function_of(text), true
  end
  text = WRITES[command] or OurCommands.writes[command]
  local sometimes = READS_SOMETIMES[command]
  return text and function_of(text), sometimes ~= nil and sometimes(args)
end

-- The function that answers an old client.
function Commands.find_old(command)
  local text = READS[command] or WRITES[command]
  return text and function_of(text)
end
end
end
if module_name == 'Config' then
return function(Config)
local Arguments, Errors, Events, Features, LimitSettings, Pieces =
modules.Arguments, modules.Errors, modules.Events, modules.Features, modules.LimitSettings,
modules.Pieces
-- core/config.lua
-- Options of the namespace: defaults, values, and what a value may be.

local find, sub = string.find, string.sub
local rcall = redis.call

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

local FAILED_QUEUE = '-failed-queue'

local MOST = 1e12 -- sums with times stay exact enough

-- Options that most calls want: read together with the first of them.
local COMMON = { 'heartbeat', 'grace-period', 'jobs-history', 'jobs-history-count', 'max-job-history' }

-- Those of a queue, which go behind its name.
local OF_QUEUE = { '-heartbeat', '-max-concurrency', FAILED_QUEUE }

-- Reads options into call.options, where false stands for one that is not set.
local function read(call, names)
  local options = call.options or {}
  call.options = options
  for n, value in ipairs(rcall('HMGET', call.keys.config, unpack(names))) do
    options[names[n]] = value
  end
end

-- The text of an option, or nil if it is not set. (Where none is, nothing is asked.)
function Config.get(call, option)
  if not call.has.C then
    return nil
  end
  if not call.options then
    read(call, COMMON)
  end
  if call.options[option] == nil then
    read(call, { option })
  end
  return call.options[option] or nil
end

-- The same of an option of a queue; `ending` is one of OF_QUEUE.
local function of_queue(call, queue, ending)
  if not call.has.C then
    return nil
  end
  local option = queue .. ending
  if not call.options or call.options[option] == nil then
    local names = {}
    for n = 1, #OF_QUEUE do
      names[n] = queue .. OF_QUEUE[n]
    end
    for n = 1, call.options and 0 or #COMMON do
      names[#names + 1] = COMMON[n]
    end
    read(call, names)
  end
  return call.options[option] or nil
end

local function decimal(text)
  local number = tonumber(text)
  if number and number == number then
    return math.max(-MOST, math.min(number, MOST))
  end
end

-- The value of an option that is a number.
function Config.number(call, option)
  return decimal(Config.get(call, option)) or DEFAULTS[option] or UNLISTED[option]
end

function Config.whole(call, option)
  return math.floor(Config.number(call, option))
end

-- How long a lock of the queue lasts, in seconds.
function Config.heartbeat(call, queue)
  return decimal(of_queue(call, queue, '-heartbeat')) or Config.number(call, 'heartbeat')
end

-- How many locks the queue may have at once; 0 for no limit.
function Config.concurrency(call, queue)
  return math.ceil(decimal(of_queue(call, queue, '-max-concurrency')) or 0)
end

-- How often a lottery draws the queue, beside the others; 0 for never.
function Config.weight(call, queue)
  return math.max(0, decimal(Config.get(call, queue .. '-weight')) or 1)
end

-- The queue in which jobs of this one go on when they have no retry left, or nil.
function Config.failed_queue(call, queue)
  local to = of_queue(call, queue, FAILED_QUEUE)
  -- (Old clients may have set anything.)
  if to and to ~= '' and to ~= queue and #to <= 255 and not find(to, '[*?]') then
    return to
  end
end

-- Seconds after which a silent worker is forgotten, as times to live want them.
function Config.worker_age(call)
  return math.max(1, math.ceil(Config.number(call, 'max-worker-age')))
end

local function is_weight(option)
  return find(option, '%-weight$') ~= nil
end

local function is_numeric(call, option)
  return type(DEFAULTS[option]) == 'number'
    or UNLISTED[option] ~= nil
    or (is_weight(option) and not call.old)
    or find(option, '%-heartbeat$') ~= nil
    or LimitSettings.is_number(option)
end

-- config.get [option]
function Config.show(call, args, i)
  local option = args[i]
  if option then
    return rcall('HGET', call.keys.config, option) or DEFAULTS[option] or false
  end
  local shown = {}
  for name, value in pairs(DEFAULTS) do
    shown[name] = value
  end
  for name, value in pairs(Pieces.hash(call.keys.config)) do
    shown[name] = value
  end
  return cjson.encode(shown)
end

local function check_number(call, option, value)
  local number = Arguments.number(call, option, value)
  if call.old then
    return
  end
  if number < 0 and is_weight(option) then
    Errors.argument(call, option .. ' must not be below 0, as ' .. value .. ' is')
  elseif (number < 0 or number % 1 ~= 0) and LimitSettings.is_number(option) then
    Errors.argument(call, option .. ' must be a whole number of jobs, or 0 for any number, not ' .. value)
  end
end

-- The queue for failed jobs must be one, and another one.
local function check_failed_queue(call, option, value)
  Arguments.queue(call, value)
  if option == value .. FAILED_QUEUE then
    Errors.argument(call, option .. ' must be another queue than ' .. Errors.name(value) .. ' itself')
  end
end

local function check(call, option, value)
  if is_numeric(call, option) then
    check_number(call, option, value)
  end
  if sub(option, -#FAILED_QUEUE) == FAILED_QUEUE and not call.old then
    check_failed_queue(call, option, value)
  end
  LimitSettings.check(call, option, value)
  if #option > 512 or #value > Arguments.text_bytes then
    Errors.refuse(call, 'TOOBIG', 'Option or value is too long')
  end
end

local function changed(call, option)
  call.options = nil
  LimitSettings.changed(call, option)
end

-- config.set option value
function Config.set(call, args, i)
  local option = Arguments.given(call, 'option', args[i])
  local value = Arguments.given(call, 'value', args[i + 1])
  check(call, option, value)
  rcall('HSET', call.keys.config, option, value)
  if option ~= 'declared' and sub(option, 1, 9) ~= 'declared:' then -- (what code has declared changes nothing)
    Features.note(call, 'C')
  end
  changed(call, option)
  Events.config_set(call, option, value)
end

-- config.unset option
function Config.unset(call, args, i)
  local option = Arguments.given(call, 'option', args[i])
  rcall('HDEL', call.keys.config, option)
  if rcall('EXISTS', call.keys.config) == 0 then
    Features.forget(call, 'C')
  end
  changed(call, option)
  Events.config_unset(call, option)
end
end
end
if module_name == 'Corrupt' then
return function(Corrupt)
local Errors, Events, Finish, Job, Keys, Links, Lock, Queue =
modules.Errors, modules.Events, modules.Finish, modules.Job, modules.Keys, modules.Links,
modules.Lock, modules.Queue
-- core/corrupt.lua
-- Jobs whose records cannot be read: they fail as such, with their data and the error, so that neither they nor their
-- queue are lost; and can be enqueued again.

local rcall = redis.call

local GROUP = 'corrupt-record'

-- Calls act(call, jid), which only reads. If the record cannot be read the job fails. -> what act returns, or nil
function Corrupt.guard(call, jid, queue, act)
  local fine, result = pcall(act, call, jid)
  if fine then
    return result
  elseif Errors.is_refusal(result) then
    error(result)
  end
  Corrupt.fail(call, jid, queue, result)
end

-- What pcall has caught, in words: Lua's without where they come from.
function Corrupt.words(problem)
  if Errors.is_refusal(problem) then
    return problem.text
  end
  return (string.gsub(tostring(problem), '^[%w_@]+:%d+: ', ''))
end

-- Fails a job that has not ended, in whose place `queue` it was met.
function Corrupt.fail(call, jid, queue, problem)
  local run = Lock.read(call, jid)
  local message = 'The record of the job cannot be read: ' .. Corrupt.words(problem)
  Queue.leave(call, queue, jid)
  if run.queue ~= '' and run.queue ~= queue.name then
    Queue.leave(call, Keys.queue(call, run.queue), jid)
  end
  if run.queue == '' then
    run.queue = queue.name
    rcall('HSET', run.key, 'queue', queue.name)
  end
  Job.unhold(call, jid, run.worker)
  if run.state == 'running' then
    Events.lock_lost(call, jid, run.worker)
  elseif run.state == 'depends' then
    Links.remove_all(call, jid)
  end
  Finish.fail_unstarted(call, run, GROUP, message)
end
end
end
if module_name == 'Cycles' then
return function(Cycles)
local Errors, Keys, Spawned =
modules.Errors, modules.Keys, modules.Spawned
-- core/cycles.lua
-- Cycle detection: no job may come to wait for itself, directly or through others.
--
-- Who waits for a job waits for ALL of it, which is its run and its children; a job below it waits for its RUN alone.
-- What is searched are nodes: one of these letters, and a jid.

local sub = string.sub
local rcall = redis.call

local ALL, RUN = 'a', 'r'

local MOST = 1000 -- jobs behind a job that are looked at before links are refused
local FAR = 10000 -- links that one call follows where links may not be refused any more

-- What of the other job a job waits for that depends on it.
local function node_of(call, jid, other)
  return (Spawned.is_below(call, jid, other) and RUN or ALL) .. other
end

-- The nodes that a node waits for; `planned` are links that are not written yet: jid -> jids.
local function awaited(call, node, planned)
  local jid, nodes = sub(node, 2), {}
  for _, other in ipairs(planned and planned[jid] or rcall('SMEMBERS', Keys.dependencies(call, jid))) do
    nodes[#nodes + 1] = node_of(call, jid, other)
  end
  for _, child in ipairs(call.has.S and sub(node, 1, 1) == ALL and Spawned.children(call, jid, MOST) or {}) do
    nodes[#nodes + 1] = ALL .. child
  end
  return nodes
end

-- The nodes that wait for a node. (Who waits for the run waits for all of it.)
local function waiters(call, node)
  local jid, nodes = sub(node, 2), {}
  local parent = call.has.S and Spawned.parent_of(call, jid)
  if parent then
    nodes[1] = ALL .. parent
  end
  for _, dependent in ipairs(rcall('SMEMBERS', Keys.dependents(call, jid))) do
    if sub(node, 1, 1) == RUN or not Spawned.is_below(call, dependent, jid) then
      nodes[#nodes + 1] = RUN .. dependent
    end
  end
  return nodes
end

-- Who waits for a node, directly or through others: mostly few. -> a set of nodes with its own; nil if they are too many
local function waiting_for(call, node)
  local waiting, line, n = { [node] = true }, { node }, 1
  while line[n] do
    if #line + rcall('SCARD', Keys.dependents(call, sub(line[n], 2))) > MOST then
      return nil
    end
    for _, waiter in ipairs(waiters(call, line[n])) do
      if not waiting[waiter] then
        waiting[waiter] = true
        line[#line + 1] = waiter
      end
    end
    n = n + 1
  end
  return waiting
end

-- Is it certain that none of the nodes waits for the other one? However much is behind them.
local function is_harmless(call, target, nodes, planned)
  local jid = sub(target, 2)
  if planned and (next(planned) ~= jid or next(planned, jid) ~= nil) then
    return false -- links of others are not written yet
  end
  local waiting = waiting_for(call, target)
  for n = 1, waiting and #nodes or 0 do
    if waiting[nodes[n]] or waiting[RUN .. sub(nodes[n], 2)] then
      return false
    end
  end
  return waiting ~= nil
end

local function refuse(call, jid, path)
  local words = 'Job %s would wait for itself: %s'
  Errors.refuse(call, 'CYCLE', words, Errors.name(jid), table.concat(path, ' waits for '))
end

-- Refuses the link that makes the shortest cycle.
function Cycles.refuse_self(call, jid, jids)
  for n = 1, #jids do
    if jids[n] == jid then
      refuse(call, jid, { Errors.name(jid), Errors.name(jid) })
    end
  end
end

-- Refuses that a node comes to wait for these, if one of them waits for it.
local function search(call, target, nodes, planned)
  if #nodes == 0 or is_harmless(call, target, nodes, planned) then
    return
  end
  local jid, visited = sub(target, 2), 0
  local seen, path = {}, { Errors.name(jid) }
  local function walk(node)
    if node == target or node == ALL .. jid then
      path[#path + 1] = Errors.name(jid)
      refuse(call, jid, path)
    elseif seen[node] then
      return
    end
    seen[node] = true
    visited = visited + 1
    if visited > MOST then
      local words = 'more than %s jobs behind the dependencies of %s'
      Errors.refuse(call, 'TOOBIG', words, MOST, Errors.name(jid))
    end
    path[#path + 1] = Errors.name(sub(node, 2))
    for _, further in ipairs(awaited(call, node, planned)) do
      walk(further)
    end
    path[#path] = nil
  end
  for _, node in ipairs(nodes) do
    walk(node)
  end
end

local function nodes_of(call, jid, jids)
  local nodes = {}
  for n = 1, #jids do
    nodes[n] = node_of(call, jid, jids[n])
  end
  return nodes
end

-- Refuses links that would make a job wait for itself. `planned` are links not yet written: jid -> jids.
function Cycles.refuse(call, jid, jids, planned)
  search(call, RUN .. jid, nodes_of(call, jid, jids), planned)
end

-- Refuses children of a job that runs. `jids` are what they wait for, or children that are there already.
function Cycles.refuse_children(call, jid, jids, planned)
  search(call, ALL .. jid, nodes_of(call, jid, jids), planned)
end

-- Those of the jids that a job may wait for, because they do not wait for it. What is too far for one call to see
-- counts as harmless.
function Cycles.harmless(call, jid, jids)
  local waits, followed = { [RUN .. jid] = true, [ALL .. jid] = true }, 0
  local function walk(node)
    if waits[node] == nil then
      waits[node] = false
      local others = awaited(call, node)
      followed = followed + #others
      for n = 1, #others do
        if followed <= FAR and walk(others[n]) then
          waits[node] = true
          break
        end
      end
    end
    return waits[node]
  end
  local harmless = {}
  for _, other in ipairs(jids) do
    if not walk(node_of(call, jid, other)) then
      harmless[#harmless + 1] = other
    end
  end
  return harmless
end
end
end
if module_name == 'CanceledView' then
return function(CanceledView)
local History, Job, Json, Keys, Pieces, Times, Unique =
modules.History, modules.Job, modules.Json, modules.Keys, modules.Pieces, modules.Times,
modules.Unique
-- views/canceled_view.lua
-- A canceled job as get shows it.

local rcall = redis.call

-- The record that is kept of a canceled job, or nil.
function CanceledView.read(call, jid)
  local record = Pieces.hash(Keys.canceled_job(call, jid))
  if not record.canceled then
    return nil
  end
  record.jid = jid
  return record
end

-- The texts of its history's entries.
function CanceledView.history(call, jid)
  return rcall('LRANGE', Keys.canceled_history(call, jid), 0, -1)
end

-- The object that get shows, as JSON, or nil; its state is `canceled`.
function CanceledView.show(call, jid)
  local record = CanceledView.read(call, jid)
  if not record then
    return nil
  end
  local shown = cjson.encode({
    jid = jid,
    klass = record.klass or '',
    state = 'canceled',
    queue = record.queue or '',
    worker = '',
    tracked = Job.is_tracked(call, jid),
    priority = Times.finite(record.priority, 0),
    expires = 0,
    retries = Times.finite(record.retries, 0),
    remaining = math.floor(Times.finite(record.remaining, 0)),
    data = record.data or 'null',
    tags = Json.shown(record.tags),
    history = History.shown(call, CanceledView.history(call, jid)),
    failure = Json.shown(record.failure),
    spawned_from_jid = record.spawned_from_jid or false,
    dependents = {},
    dependencies = {},
    token = '',
    crashes = Times.finite(record.crashes, 0),
    unique = Unique.shown(record),
    workflow = record.workflow,
    on_failure = record.on_failure,
    canceled = {
      when = tonumber(record.canceled),
      was = record.state,
      why = record.why,
      by = record.by or '',
      worker = record.state == 'running' and record.worker or '',
      left_out = tonumber(record.left_out) or 0,
    },
  })
  return Json.with(shown, 'context', Json.text(record.context), 'progress', 'null')
end

-- A row of a list, as a brief has it, but for the last places; or false.
function CanceledView.row(call, jid)
  local row = rcall(
    'HMGET',
    Keys.canceled_job(call, jid),
    'klass',
    'queue',
    'state',
    'priority',
    'retries',
    'remaining',
    'tags',
    'worker',
    'canceled',
    'expires',
    'spawned_from_jid',
    'workflow'
  )
  row[1], row[2] = row[1] or '', row[2] or ''
  return row[3] and row
end
end
end
else
if initial < 69 then
if module_name == 'Dead' then
return function(Dead)
local Arguments, Entities, EntityPush, Errors, Job, Json, Keys, Payloads, Pieces, Put, Queue, Times =
modules.Arguments, modules.Entities, modules.EntityPush, modules.Errors, modules.Job, modules.Json,
modules.Keys, modules.Payloads, modules.Pieces, modules.Put, modules.Queue, modules.Times
-- features/dead.lua
-- The dead of a queue: payloads that have failed and will not run again, by entity, with the error.

local rcall = redis.call

local MOST = 250 -- entities named by one call

-- The fields of a job by which it can be made again.
local SAME = { 'klass', 'data', 'priority', 'retries', 'tags', 'context', 'batch', 'entity' }

-- Payloads (score, text …) of the entity with this record, and with `home`, are dead from now on; the caller moves them.
function Dead.add(call, record, failure, flat)
  if not flat[1] then
    return
  end
  local name, queue = Keys.dead_entity(call, record.jid), record.home
  local fields = { 'jid', record.jid, 'queue', queue, 'when', call.text }
  fields[7], fields[8], fields[9], fields[10] = 'group', failure.group, 'message', failure.message
  for _, field in ipairs(SAME) do
    if record[field] then
      fields[#fields + 1], fields[#fields + 2] = field, record[field]
    end
  end
  rcall('DEL', name)
  rcall('HSET', name, unpack(fields))
  rcall('ZADD', Keys.dead(call, queue), call.text, record.entity)
end

-- queue entity... -> the queue, the entities
function Dead.named(call, args, i)
  local queue, entities = Arguments.queue(call, args[i]), Pieces.rest(args, i + 1)
  if #entities > MOST then
    Errors.refuse(call, 'TOOBIG', '%s entities in one call, at most %s', #entities, MOST)
  end
  for _, entity in ipairs(entities) do
    Entities.id(call, entity)
  end
  return queue, entities
end

local function forget(call, jid, queue, entity)
  rcall('DEL', Keys.dead_entity(call, jid))
  rcall('ZREM', Keys.dead(call, queue), entity)
end

-- Puts an entity that is in no place into its queue, with a retry count of 0. -> the retries that remain
local function put(call, queue, jid, dead)
  local job = EntityPush.job(
    call,
    queue,
    { entity = dead.entity, jid = jid, data = dead.data, due = call.now },
    {
      klass = dead.klass,
      priority = tonumber(dead.priority) or 0,
      retries = tonumber(dead.retries) or 0,
      tag_list = Json.shown(dead.tags),
      context = dead.context,
      batch = dead.batch,
    }
  )
  Put.carry_out(call, Put.check(call, { jobs = { job } }), '')
  local remaining = Times.text(math.max(0, job.retries - 1))
  rcall('HSET', job.key, 'remaining', remaining)
  Entities.list(call, job)
  return remaining
end

local WAITING = { waiting = true, scheduled = true, stalled = true }

-- Makes the entity run now: one that waits as though it had never failed. An earlier call may have brought a part of the
-- dead back, and the entity still waits with that: the count is then as that call has set it. -> the retries that remain to
-- one that was in no place
local function run_now(call, queue, jid, dead)
  local job = Job.read(call, jid)
  if not job or job.state == 'complete' then
    return put(call, queue, jid, dead)
  elseif WAITING[job.state] then
    if Times.text(job.remaining) ~= dead.back then
      rcall('HSET', job.key, 'remaining', job.retries)
      rcall('ZREM', Keys.retrying(call, queue), jid)
    end
    Queue.run_now(call, Keys.queue(call, queue), job)
  end
end

-- dead.back queue entity... -> those that are dead no more: a call moves 1,000 payloads at most, and leaves the rest
function Dead.back(call, args, i)
  local queue, entities = Dead.named(call, args, i)
  local done, left = {}, Payloads.most
  for _, entity in ipairs(entities) do
    local jid = Entities.jid(queue, entity)
    local dead, name = Pieces.hash(Keys.dead_entity(call, jid)), Keys.dead_payloads(call, jid)
    if not dead.entity then
      done[#done + 1] = entity
    elseif left > 0 and not Entities.is_in_the_way(call, jid) then
      local flat = Payloads.lowest(name, left, Payloads.bytes * 8)
      left = left - #flat / 2
      local is_all = Payloads.move(name, Keys.payloads(call, jid), flat)
      local remaining = run_now(call, queue, jid, dead)
      Queue.register(call, Keys.queue(call, queue))
      if is_all then
        forget(call, jid, queue, entity)
        done[#done + 1] = entity
      elseif remaining then
        rcall('HSET', Keys.dead_entity(call, jid), 'back', remaining)
      end
    end
  end
  return done
end

-- dead.delete queue entity... -> how many were dead
function Dead.delete(call, args, i)
  local queue, entities = Dead.named(call, args, i)
  local number = 0
  for _, entity in ipairs(entities) do
    local jid = Entities.jid(queue, entity)
    number = number + rcall('EXISTS', Keys.dead_entity(call, jid))
    rcall('UNLINK', Keys.dead_payloads(call, jid))
    forget(call, jid, queue, entity)
  end
  return number
end
end
end
if module_name == 'Deadlines' then
return function(Deadlines)
local Arguments, Call, Errors, Finish, Job, Keys =
modules.Arguments, modules.Call, modules.Errors, modules.Finish, modules.Job, modules.Keys
-- features/deadlines.lua
-- Deadlines: a job that has not started by its own (`expires`) can no longer start, so it holds nothing: the call that meets
-- it fails it. A run that goes on in another queue has none any more.

local rcall = redis.call

Deadlines.fields = { 'deadline' }
Deadlines.options = { 'expires', 'expires_at' }

local GROUP = 'expired'

function Deadlines.check(call, job)
  local options, old = job.options or {}, job.old
  if options.expires_at then
    if options.expires then
      Errors.argument(call, 'expires and expires_at exclude each other')
    end
    job.deadline = Arguments.number(call, 'expires_at', options.expires_at)
  elseif options.expires then
    job.deadline = (job.since or call.now) + Arguments.number(call, 'expires', options.expires)
  elseif old and not job.fresh and old.state ~= 'failed' and old.state ~= 'complete' then
    job.deadline = tonumber(old.deadline)
  end
  job.deadline = job.deadline and string.format('%.6f', job.deadline)
end

-- Is this the deadline of a job in this state, which has missed it?
function Deadlines.is_missed(call, state, deadline)
  return Job.PENDING[state] and (tonumber(deadline or nil) or math.huge) <= call.now
end

local function message(call, job, words)
  return string.format(words, string.format('%.1f', call.now - tonumber(job.deadline)))
end

function Deadlines.admit(call, job)
  if job.deadline and (tonumber(job.deadline) or math.huge) <= call.now then
    return 'fail', GROUP, message(call, job, 'Its turn came %s seconds after the time when it expired')
  end
end

-- Fails the jobs that the call has met.
local function fail_noted(call)
  for _, jid in ipairs(call.overdue) do
    local job = Job.read(call, jid)
    if job and Deadlines.is_missed(call, job.state, job.deadline) then
      local text = message(call, job, 'It expired %s seconds ago and had not started')
      Finish.fail_waiting(call, job, Keys.queue(call, job.queue), GROUP, text)
    end
  end
end

-- The call has met a job that is too late, which fails at its end: then it is not refused any more.
function Deadlines.note(call, jid)
  if not call.overdue then
    call.overdue = {}
    Call.at_end(call, fail_noted)
  end
  call.overdue[#call.overdue + 1] = jid
end

function Deadlines.ended(_, job)
  if job.moved and job.deadline then
    rcall('HDEL', job.key, 'deadline')
  end
end

function Deadlines.revived(_, job)
  rcall('HDEL', job.key, 'deadline')
end
end
end
if module_name == 'Detached' then
return function(Detached)
local Arguments, Call, Config, Job, Keys, Lock =
modules.Arguments, modules.Call, modules.Config, modules.Job, modules.Keys, modules.Lock
-- features/detached.lua
-- Detached jobs, whose processes outlive the worker that has started them: who watches a run, and its output.

local rcall = redis.call

local KEPT = 86400 -- seconds, since the run was last told about

-- detached.keep worker jid token told -> for how many seconds the lock holds, which it renews
-- From now on the worker holds the job, if another one did before. `told` is a JSON object: host, pid, when the run
-- began, the end of its output.
function Detached.keep(call, args, i)
  local worker, told = Arguments.name(call, 'worker', args[i]), args[i + 3]
  Arguments.object(call, 'told', told)
  local run = Lock.holder(call, args[i + 1], args[i + 2])
  if run.worker ~= worker then
    Job.unhold(call, run.jid, run.worker)
    rcall('HSET', run.key, 'worker', worker)
    run.worker = worker
  end
  local seconds = Config.heartbeat(call, run.queue)
  Lock.extend(call, run, Call.later(call, seconds))
  rcall('ZADD', call.keys.workers, call.text, worker)
  rcall('SET', Keys.detached(call, run.jid), told, 'EX', KEPT)
  return tostring(seconds)
end

-- detached.get jid -> what is kept of the job's latest run, JSON
function Detached.get(call, args, i)
  return rcall('GET', Keys.detached(call, Arguments.name(call, 'jid', args[i])))
end
end
end
else
if module_name == 'Errors' then
return function(Errors)
-- core/errors.lua
-- How a call is refused: by a reply 'CODE text'; without KEYS by an error with the text alone.

local MOST = 200 -- bytes of a value in a message

-- The first bytes of a text, `most` at most. No character is cut in two: a reader of UTF-8 would fail.
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

-- Ends the call, or the part of it that is guarded by pcall. The text begins with a word character: old clients look
-- for that.
function Errors.raise(code, words, ...)
  error({ code = code, text = Errors.worded(words, ...) })
end

-- Raises an error about the command itself: `settle(): …`.
function Errors.refuse(call, code, words, ...)
  error({ code = code, text = call.command .. '(): ' .. Errors.worded(words, ...) })
end

function Errors.argument(call, words, ...)
  Errors.refuse(call, 'BADARG', words, ...)
end

function Errors.no_job(call, jid)
  Errors.refuse(call, 'NOJOB', 'Job ' .. Errors.name(jid) .. ' does not exist')
end

-- Is what pcall has caught a refusal? All other errors, also those of the server, are texts there.
function Errors.is_refusal(problem)
  return type(problem) == 'table' and problem.code ~= nil
end
end
end
if module_name == 'Events' then
return function(Events)
-- core/events.lua
-- What is published, byte for byte: members in a fixed order, no spaces.

local quote = cjson.encode
local rcall = redis.call

local function publish(call, channel, text)
  if call.sharded then
    rcall('SPUBLISH', call.prefix .. channel, text)
  else
    rcall('PUBLISH', call.prefix .. channel, text)
  end
end

local function log(call, text)
  publish(call, 'log', text)
end

local function tell(call, worker, text)
  publish(call, 'w:' .. worker, text)
end

-- Bare jids, for tracked jobs: put popped completed failed canceled stalled track untrack.
function Events.tracked(call, what, jid)
  publish(call, what, jid)
end

-- (`queue` is that of Keys.queue.)
function Events.put(call, jid, queue)
  log(call, '{"jid":' .. quote(jid) .. ',"event":"put","queue":' .. queue.quoted .. '}')
end

function Events.completed(call, jid, queue)
  log(call, '{"jid":' .. quote(jid) .. ',"event":"completed","queue":' .. queue.quoted .. '}')
end

function Events.advanced(call, jid, queue, to)
  log(
    call,
    '{"jid":' .. quote(jid) .. ',"to":' .. quote(to) .. ',"event":"advanced","queue":' .. quote(queue) .. '}'
  )
end

function Events.failed(call, jid, group, message, worker)
  log(
    call,
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

function Events.canceled(call, jid, queue, worker)
  local text = '{"jid":'
    .. quote(jid)
    .. ',"queue":'
    .. quote(queue)
    .. ',"event":"canceled","worker":'
    .. quote(worker)
    .. '}'
  log(call, text)
  if worker and worker ~= '' then
    tell(call, worker, text)
  end
end

local function lock_lost(jid, worker)
  return '{"jid":' .. quote(jid) .. ',"event":"lock_lost","worker":' .. quote(worker) .. '}'
end

-- The worker hears it first, if it is known.
function Events.lock_lost(call, jid, worker)
  if worker and worker ~= '' then
    local text = lock_lost(jid, worker)
    tell(call, worker, text)
    log(call, text)
  end
end

function Events.order(call, worker, order)
  tell(call, worker, '{"event":"order","order":' .. quote(order) .. ',"worker":' .. quote(worker) .. '}')
end

-- For the worker that serves schedules: one has changed.
function Events.schedules(call, worker)
  if worker then
    tell(call, worker, '{"event":"schedules","worker":' .. quote(worker) .. '}')
  end
end

function Events.config_set(call, option, value)
  log(call, '{"option":' .. quote(option) .. ',"event":"config_set","value":' .. quote(value) .. '}')
end

function Events.config_unset(call, option)
  log(call, '{"event":"config_unset","option":' .. quote(option) .. '}')
end
end
end
if module_name == 'Expiry' then
return function(Expiry)
local Call, Config, Features, Keys, Tags, Times =
modules.Call, modules.Config, modules.Features, modules.Keys, modules.Tags, modules.Times
-- core/expiry.lua
-- Completed jobs are forgotten when they are too old or too many.

local rcall = redis.call

-- Completed jobs that one call forgets beyond twice those that it completes.
local EXPIRED = 200

-- Where this many jobs, or for this many seconds, are kept, completions leave it to a later one.
local MANY, LONG = 1000, 60

-- Deletes a completed job, which has no links any more; unless a feature says that it `stays`.
local function delete(call, jid)
  local name = Keys.job(call, jid)
  local tags, more = unpack(rcall('HMGET', name, 'tags', 'more'))
  local letters = Features.letters(call, more or nil)
  if letters then
    local job = { jid = jid, key = name, state = 'complete', more = more or nil, letters = letters }
    Features.read(job)
    Features.at('gone', call, job, 'expired')
    if job.stays then
      rcall('ZADD', call.keys.completed, call.text, jid) -- out of the way of those behind it
      return
    end
  end
  Tags.unindex_all(call, jid, tags or nil)
  rcall('ZREM', call.keys.completed, jid)
  if call.has.N then
    rcall('DEL', name, Keys.history(call, jid), Keys.needs(call, jid))
  else
    rcall('DEL', name, Keys.history(call, jid))
  end
end

-- Forgets a completed job at once.
function Expiry.forget(call, jid)
  delete(call, jid)
end

local function forget_some(call)
  local age, count = Config.number(call, 'jobs-history'), Config.whole(call, 'jobs-history-count')
  local completed, most = call.keys.completed, EXPIRED + 2 * call.completed
  local before = Times.text(call.now - age)
  local old = rcall('ZRANGEBYSCORE', completed, '-inf', before, 'LIMIT', '0', most)
  local surplus = rcall('ZCARD', completed) - #old - count
  if surplus > 0 and #old < most then
    for _, jid in ipairs(rcall('ZRANGE', completed, #old, #old + math.min(surplus, most - #old) - 1)) do
      old[#old + 1] = jid
    end
  end
  for n = 1, #old do
    delete(call, old[n])
  end
end

-- Are so few kept, or for so short, that each completion has to look?
local function keeps_little(call)
  return Config.whole(call, 'jobs-history-count') < MANY or Config.number(call, 'jobs-history') < LONG
end

-- A job was completed: at the end of the call some that are too old or too many are forgotten.
function Expiry.after(call)
  if call.completed then
    call.completed = call.completed + 1
  elseif call.old or Call.is_round(call) or call.has.C and keeps_little(call) then
    call.completed = 1
    Call.at_end(call, forget_some)
  else
    call.completed = 1
  end
end
end
end
if module_name == 'Entities' then
return function(Entities)
local Arguments, Call, Dead, Errors, Features, History, Job, Json, Keys, Links, Minutes, Payloads, Queue,
Stats =
modules.Arguments, modules.Call, modules.Dead, modules.Errors, modules.Features, modules.History,
modules.Job, modules.Json, modules.Keys, modules.Links, modules.Minutes, modules.Payloads,
modules.Queue, modules.Stats
-- features/entities.lua
-- Entities: payloads are pushed onto them, and each is carried by one job, which is queued while payloads wait and handed
-- to one worker at a time. Its record has
--   entity   its id                 home   its queue                 batch   how many may run together
--
-- A run takes the payloads with the lowest scores. If it is completed they are done; else they wait again, with all that
-- has been pushed meanwhile. When its retries are used up the one with the lowest score goes to the dead of the queue, with
-- the error, and the others go on at once.

local rcall = redis.call

Entities.fields = { 'entity', 'home', 'batch' }

-- What one call hands out: entities, and payloads and their bytes after which it hands out no further entity.
local MOST, ENOUGH, ENOUGH_BYTES = 250, 4000, 4 * 1024 * 1024

local MOST_LOSSES = 3 -- locks lost and crashes in a row that one payload may cause

-- These are no failures of a run: no payload of the entity can be processed.
local OF_ALL = { ['unknown-job'] = true, ['row-gone'] = true, ['corrupt-record'] = true }

-- The id of the job that carries an entity of a queue.
function Entities.jid(queue, entity)
  return 'entity-' .. redis.sha1hex(queue .. '\0' .. entity)
end

-- An argument that names an entity.
function Entities.id(call, value)
  Arguments.real_name(call, 'entity', value)
  if #value > 255 then
    Errors.argument(call, 'entity must have 1 to 255 bytes, not ' .. #value)
  end
  return value
end

-- Is there a job of this id that carries no entity? It was put by other means.
function Entities.is_in_the_way(call, jid)
  local state, entity = unpack(rcall('HMGET', Keys.job(call, jid), 'state', 'entity'))
  return state and not entity
end

local function about(jid)
  return 'Job ' .. Errors.name(jid) .. ' carries an entity'
end

-- The job of an entity belongs to its queue. -> code, text
function Entities.no_move(call, jid)
  return 'STATE', call.command .. '(): ' .. about(jid) .. ', which stays in its queue'
end

function Entities.check(_, job)
  if not job.pushed then
    Errors.raise('STATE', about(job.jid) .. ': push payloads to it instead')
  end
end

-- Only a worker that settles gets payloads: others get no entity.
function Entities.admit(call)
  local handed = call.handed
  local is_enough = handed
    and (handed.jobs >= MOST or handed.payloads >= ENOUGH or handed.bytes >= ENOUGH_BYTES)
  return (is_enough or call.command ~= 'settle') and 'stay' or nil
end

-- What a worker gets of a run: the job's data with the payloads, and how many may run together.
local function tell(job, payloads)
  local data = job.data
  if not data or not string.find(data, '^{.+}$') then
    data = '{"v":1,"entity":' .. cjson.encode(job.entity) .. '}'
  end
  job.data = Json.with(data, 'payloads', '[' .. table.concat(payloads, ',') .. ']')
  job.together = job.batch or '1'
end

-- The same for a reply that is given again.
function Entities.restore(call, job)
  tell(job, rcall('ZRANGE', Keys.taken(call, job.jid), 0, -1))
end

-- (`call.handed` is what the call has handed out of entities.)
function Entities.started(call, job, want)
  local handed = call.handed or { jobs = 0, payloads = 0, bytes = 0 }
  local payloads, bytes = Payloads.take(call, job.jid)
  call.handed = handed
  handed.jobs, handed.payloads, handed.bytes =
    handed.jobs + 1, handed.payloads + #payloads, handed.bytes + bytes
  if job.remaining ~= job.retries then
    rcall('ZREM', Keys.retrying(call, job.queue), job.jid)
  end
  tell(job, payloads)
  local further = (tonumber(job.batch) or 1) - 1
  want.together = function(runs)
    return math.min(runs * further, MOST - handed.jobs)
  end
end

-- An entity is back in its queue: if its last run has failed, so it is listed, by when it is due.
local function list(call, job)
  local queue = Keys.queue(call, job.home or job.queue)
  local remaining, retries = unpack(rcall('HMGET', job.key, 'remaining', 'retries'))
  if (tonumber(remaining) or 0) < (tonumber(retries) or 0) then
    local due = rcall('ZSCORE', queue.scheduled, job.jid) or call.text
    rcall('ZADD', Keys.retrying(call, queue.name), due, job.jid)
  end
end
Entities.list = list

-- The entity is in no place, and goes on at once as though it had never failed.
local function go_on(call, job)
  local queue = Keys.queue(call, job.home or job.queue)
  rcall('ZREM', call.keys.completed, job.jid)
  rcall('HDEL', job.key, 'crashes', 'unknown', 'grace', 'progress', 'returned')
  rcall(
    'HSET',
    job.key,
    'state',
    'waiting',
    'worker',
    '',
    'expires',
    '0',
    'queue',
    queue.name,
    'remaining',
    job.retries,
    'failure',
    '{}'
  )
  Queue.ready_since(call, job)
  History.put(call, job.jid, queue.name)
  Queue.push(call, queue, job.jid, job.priority)
  Queue.register(call, queue)
  job.state = 'waiting'
end

-- Takes away the job of an entity that has no payloads, and is in no place.
local function erase(call, job)
  Features.at('gone', call, job, 'withdrawn')
  Job.erase(call, job)
  Links.follow(call, job.jid, 'gone')
end
Entities.erase = erase

local function erase_noted(call)
  for _, jid in ipairs(call.died) do
    erase(call, Job.read(call, jid))
  end
end

-- (The other features of the job have to see its end before its record goes.)
local function erase_at_end(call, jid)
  if not call.died then
    call.died = {}
    Call.at_end(call, erase_noted)
  end
  call.died[#call.died + 1] = jid
end

-- The job was to be filed as failed.
local function failed(call, job)
  local jid, record = job.jid, Job.read(call, job.jid)
  local queue, failure = job.home or job.queue, Json.shown(record.failure)
  local waiting, dead = Keys.payloads(call, jid), Keys.dead_payloads(call, jid)
  record.home = queue
  Payloads.give_back(call, jid)
  local flat = Payloads.lowest(waiting, OF_ALL[failure.group] and Payloads.most or 1, Payloads.bytes)
  Dead.add(call, record, failure, flat)
  Stats.count(call, queue, 'failures', 1)
  Minutes.add(call, queue, 'failed', 1)
  rcall('ZREM', Keys.retrying(call, queue), jid)
  if Payloads.move(waiting, dead, flat) then
    job.state = 'canceled'
    erase_at_end(call, jid)
  else
    job.priority, job.retries = record.priority, record.retries
    go_on(call, job)
  end
end

function Entities.ended(call, job, was)
  if job.state == 'failed' then
    failed(call, job)
  elseif job.state == 'complete' then
    rcall('DEL', Keys.taken(call, job.jid))
    if rcall('EXISTS', Keys.payloads(call, job.jid)) == 1 then
      go_on(call, job)
    end
  elseif was == 'running' then
    Payloads.give_back(call, job.jid)
    list(call, job)
  end
end

function Entities.gone(call, job, why)
  if why ~= 'replaced' then
    rcall('UNLINK', Keys.payloads(call, job.jid)) -- there may be very many: their memory is freed in the background
    rcall('DEL', Keys.taken(call, job.jid))
    rcall('ZREM', Keys.retrying(call, job.home or job.queue), job.jid)
  end
end

-- The lock of a run was lost, which uses no retry up. -> the retries that remain; below 0 if that has happened too often in
-- a row
function Entities.lost(_, run)
  local crashes = rcall('HINCRBY', run.key, 'crashes', 1)
  return crashes > MOST_LOSSES and -1 or run.remaining
end

-- The group and the words for that.
function Entities.words_of_loss()
  return 'worker-crash',
    'Its lock was lost ' .. MOST_LOSSES + 1 .. ' times, each time with this payload first'
end
end
end
if module_name == 'EntityCommands' then
return function(EntityCommands)
local Cancel, Dead, Entities, Job, Json, Keys, Payloads, Queue =
modules.Cancel, modules.Dead, modules.Entities, modules.Job, modules.Json, modules.Keys,
modules.Payloads, modules.Queue
-- features/entity_commands.lua
-- What operators do to entities that are in no worker's hands: those named, or the first ones whose last run has failed.

local rcall = redis.call

local MOST = 250 -- entities changed by one call

local KILLED = { group = 'killed', message = 'It was killed before its retries were used up' }

local WAITING = { waiting = true, scheduled = true, stalled = true }

-- Changes those that are named, or the first of the list. -> how many of them wait
local function each_waiting(call, args, i, change)
  local queue, entities = Dead.named(call, args, i)
  local jids, number = {}, 0
  for n, entity in ipairs(entities) do
    jids[n] = Entities.jid(queue, entity)
  end
  if #entities == 0 then
    jids = rcall('ZRANGE', Keys.retrying(call, queue), 0, MOST - 1)
  end
  for _, jid in ipairs(jids) do
    local job = Job.read(call, jid)
    if job and job.entity and WAITING[job.state] and change(job) then
      number = number + 1
    end
  end
  return number
end

-- entities.kill queue [entity...] -> how many were changed: their payloads go to the dead, as many as one call may move
function EntityCommands.kill(call, args, i)
  local left = Payloads.most
  return each_waiting(call, args, i, function(job)
    if left <= 0 then
      return false
    end
    local waiting, failure = Keys.payloads(call, job.jid), Json.shown(job.failure)
    local flat = Payloads.lowest(waiting, left, Payloads.bytes * 8)
    left = left - #flat / 2
    Dead.add(call, job, failure.group and failure or KILLED, flat)
    if Payloads.move(waiting, Keys.dead_payloads(call, job.jid), flat) then
      Queue.leave(call, Keys.queue(call, job.queue), job.jid)
      Entities.erase(call, job)
    end
    return true
  end)
end

-- entities.drop queue [entity...] -> how many were deleted, with their payloads
function EntityCommands.drop(call, args, i)
  return each_waiting(call, args, i, function(job)
    Cancel.remove(call, job.jid, 'call')
    return true
  end)
end
end
end
if module_name == 'EntityPush' then
return function(EntityPush)
local Arguments, Entities, Errors, Keys, Payloads, Put, Queue, Times =
modules.Arguments, modules.Entities, modules.Errors, modules.Keys, modules.Payloads, modules.Put,
modules.Queue, modules.Times
-- features/entity_push.lua
-- Pushing payloads: onto an entity that is in its queue, or one that is put there with them.

local rcall = redis.call

local OPTIONS = { priority = true, retries = true, tags = true, context = true, batch = true, known = true }

-- A queue has entities of one job type, which may have had other names. When it is empty another may take it over.
local function check_type(call, queue, klass, known)
  local other = rcall('HGET', call.keys.entity_types, queue.name)
  if not other or other == klass then
    return
  end
  local places = { queue.work, queue.parked, queue.scheduled, queue.locks, Keys.dead(call, queue.name) }
  if rcall('EXISTS', unpack(places)) == 0 then
    return
  end
  for _, name in ipairs(known) do
    if name == other then
      return
    end
  end
  Errors.refuse(
    call,
    'STATE',
    'Queue %s has the entities of %s, and cannot have those of %s: give each job type its own queue',
    Errors.name(queue.name),
    Errors.name(other),
    Errors.name(klass)
  )
end

-- What the jobs of the call have in common.
local function read_options(call, args, first)
  local given = Arguments.options(call, args, first, OPTIONS)
  if given.context then
    Arguments.object(call, 'context', given.context)
  end
  return {
    known = given.known and Arguments.names(call, 'known', given.known) or {},
    priority = Arguments.number(call, 'priority', given.priority or '0'),
    retries = Arguments.whole(call, 'retries', given.retries or '5', 0),
    tag_list = given.tags and Arguments.tag_list(call, given.tags) or nil,
    context = given.context,
    batch = Times.text(Arguments.whole(call, 'batch', given.batch or '1', 1)),
  }
end

-- The default score: by the server's time, in the order of the call.
local function score_of(call, text, n)
  local score = text == '' and call.now + n * 1e-6 or Arguments.number(call, 'score', text)
  return string.format('%.17g', score)
end

-- A first payload of an entity: what the call says of its job.
local function read_item(call, args, at, queue)
  local item = { entity = Entities.id(call, args[at]), data = args[at + 1], flat = {} }
  item.jid = Entities.jid(queue, item.entity)
  Arguments.object(call, 'data', item.data)
  if not string.find(item.data, '^{.+}$') then
    Errors.argument(call, 'data must be an object with members, not ' .. Errors.value(item.data))
  end
  item.due = args[at + 4] ~= '' and Arguments.number(call, 'due', args[at + 4]) or call.now
  return item
end

-- entity data payload score due, `count` times from args[i] on -> the entities in order, each with its payloads
local function read_items(call, args, i, count, queue)
  local items, order = {}, {}
  for n = 0, count - 1 do
    local at = i + 5 * n
    local item = items[args[at]]
    if not item then
      item = read_item(call, args, at, queue)
      items[item.entity], order[#order + 1] = item, item
    end
    Arguments.json(call, 'payload', args[at + 2], Payloads.each)
    local flat = item.flat
    flat[#flat + 1], flat[#flat + 2] = score_of(call, args[at + 3], n), args[at + 2]
  end
  return order
end

-- The job of an entity that is in no place, as a put has it. `more` is what the job has beside entity, jid, data and due.
function EntityPush.job(call, queue, item, more)
  local late = item.due > call.now
  return {
    pushed = true,
    queue = queue,
    jid = item.jid,
    key = Keys.job(call, item.jid),
    klass = more.klass,
    data = item.data,
    delay = late and item.due - call.now or 0,
    at = late and item.due or nil,
    priority = more.priority,
    retries = more.retries,
    tag_list = more.tag_list,
    context = more.context,
    letters = 'e',
    entity = item.entity,
    home = queue,
    batch = more.batch,
  }
end

local QUEUED = { waiting = true, stalled = true, running = true, scheduled = true }

-- push worker queue klass n (entity data payload score due)*n [pairs] -> how many payloads are new
function EntityPush.push(call, args, i)
  local worker, name = Arguments.given(call, 'worker', args[i]), Arguments.queue(call, args[i + 1])
  local klass, queue = Arguments.name(call, 'klass', args[i + 2]), Keys.queue(call, name)
  local count = Arguments.whole(call, 'number of payloads', args[i + 3], 1)
  Arguments.bounded(call, count)
  if i + 3 + 5 * count > #args then
    Errors.argument(call, 'Fewer payloads than announced')
  end
  local more = read_options(call, args, i + 4 + 5 * count)
  more.klass = klass
  local items, jobs = read_items(call, args, i + 4, count, name), {}
  check_type(call, queue, klass, more.known)
  for _, item in ipairs(items) do
    if Entities.is_in_the_way(call, item.jid) then
      Errors.refuse(call, 'STATE', 'Job %s is in the way: it carries no entity', Errors.name(item.jid))
    elseif not QUEUED[rcall('HGET', Keys.job(call, item.jid), 'state')] then
      jobs[#jobs + 1] = EntityPush.job(call, name, item, more)
    end
  end
  local plan, new = Put.check(call, { jobs = jobs }), 0
  rcall('HSET', call.keys.entity_types, name, klass)
  for _, item in ipairs(items) do
    new = new + Payloads.join(Keys.payloads(call, item.jid), item.flat)
  end
  Put.carry_out(call, plan, worker)
  Queue.register(call, queue)
  return new
end
end
end
if module_name == 'EntityView' then
return function(EntityView)
local Arguments, Entities, Errors, Headline, Job, Json, Keys, Minutes, Pieces, Queue, QueueStats,
QueueView =
modules.Arguments, modules.Entities, modules.Errors, modules.Headline, modules.Job, modules.Json,
modules.Keys, modules.Minutes, modules.Pieces, modules.Queue, modules.QueueStats, modules.QueueView
-- views/entity_view.lua
-- Entities as pages and handles show them; nothing here writes.

local rcall = redis.call

local SHOWN = 256 * 1024 -- bytes of payloads in one reply
local PIECE, MOST = 100, 5000 -- jobs of a queue looked at together, and by one call

-- A part of a set of payloads: [[score, text] …], as JSON.
local function payloads(name, offset, count)
  local flat, shown, bytes = rcall('ZRANGE', name, offset, offset + count - 1, 'WITHSCORES'), {}, 0
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
  return is_row and type(message) == 'string' and Headline.of(message) or message
end

-- What of an entity is dead, or nil.
local function of_dead(call, jid, is_row)
  local dead = Pieces.hash(Keys.dead_entity(call, jid))
  return dead.entity
    and {
      entity = dead.entity,
      jid = jid,
      klass = dead.klass or '',
      data = dead.data or '',
      group = dead.group or '',
      message = shortened(dead.message or '', is_row),
      when = tonumber(dead.when) or 0,
      payloads = rcall('ZCARD', Keys.dead_payloads(call, jid)),
    }
end

-- The job that carries an entity, or nil.
local function of_job(call, jid, is_row)
  local job = Job.read(call, jid)
  if not job or not job.entity then
    return nil
  end
  local state, due = Job.state_now(call, jid, job.queue, job.state)
  local failure = Json.shown(job.failure)
  failure.message = shortened(failure.message, is_row)
  return {
    entity = job.entity,
    jid = jid,
    klass = job.klass or '',
    data = job.data or '',
    state = state,
    worker = job.worker or '',
    retries = job.retries,
    count = job.retries - job.remaining - 1,
    due = tonumber(due) or job.time,
    payloads = rcall('ZCARD', Keys.payloads(call, jid)),
    taken = rcall('ZCARD', Keys.taken(call, jid)),
    failure = failure,
    crashes = job.crashes,
  }
end

-- entity.show queue entity [offset count] -> what there is of it: its job, its payloads, what of it is dead
function EntityView.show(call, args, i)
  local queue, entity = Arguments.queue(call, args[i]), Entities.id(call, args[i + 1])
  local offset = math.max(0, Arguments.offset(call, args[i + 2]))
  local count = math.max(1, Arguments.count(call, args[i + 3], 25))
  local jid = Entities.jid(queue, entity)
  local job, dead = of_job(call, jid), of_dead(call, jid)
  return Json.with(
    cjson.encode({ entity = entity, jid = jid, queue = queue }),
    'job',
    job and cjson.encode(job) or 'null',
    'dead',
    dead and cjson.encode(dead) or 'null',
    'waiting',
    payloads(Keys.payloads(call, jid), offset, count),
    'running',
    payloads(Keys.taken(call, jid), offset, count),
    'dying',
    payloads(Keys.dead_payloads(call, jid), offset, count)
  )
end

-- How many jobs of a queue wait, or are delayed.
local function count_queued(call, queue)
  return rcall('ZCARD', queue.work) + Queue.count_parked(call, queue) + rcall('ZCARD', queue.scheduled)
end

local function count_retrying(call, queue)
  return rcall('ZCARD', Keys.retrying(call, queue.name))
end

-- Shows the jobs of a queue that wait or are delayed, in the order in which they are handed out, until visit(jid) says
-- that it is enough.
local function each_queued(call, queue, visit)
  for _, state in ipairs({ 'waiting', 'scheduled' }) do
    local at = 0
    repeat
      local jids = QueueView.jids(call, state, queue, { offset = at, count = PIECE })
      for _, jid in ipairs(jids) do
        if visit(jid) then
          return
        end
      end
      at = at + #jids
    until #jids < PIECE or at >= MOST
  end
end

-- Those of them whose last run has not failed. -> how many there are, some
local function fresh(call, queue, offset, count)
  local jids, retrying = {}, Keys.retrying(call, queue.name)
  each_queued(call, queue, function(jid)
    if not rcall('ZSCORE', retrying, jid) then
      offset = offset - 1
      jids[#jids + 1] = offset < 0 and jid or nil
    end
    return #jids == count
  end)
  return count_queued(call, queue) - count_retrying(call, queue), jids
end

-- The key of a list, and whether the last come first; nil if there is no such list.
local function key_of(call, list, queue)
  if list == 'retrying' then
    return Keys.retrying(call, queue.name), false
  elseif list == 'running' then
    return queue.locks, false
  elseif list == 'dead' or list == 'oldest-dead' then
    return Keys.dead(call, queue.name), list == 'dead'
  end
end

-- entities.list fresh|retrying|running|dead|oldest-dead queue [offset count] -> how many there are, and some: the next to
-- run first; of the dead the latest first, or the oldest. (Other jobs of the queue are counted, and not shown.)
function EntityView.list(call, args, i)
  local list = Arguments.given(call, 'list', args[i])
  local queue = Keys.queue(call, Arguments.queue(call, args[i + 1]))
  local offset = math.max(0, Arguments.offset(call, args[i + 2]))
  local count = math.max(1, Arguments.count(call, args[i + 3], 25))
  local total, members
  if list == 'fresh' then
    total, members = fresh(call, queue, offset, count)
  else
    local name, last_first = key_of(call, list, queue)
    if not name then
      Errors.argument(call, 'Unknown list ' .. Errors.name(list))
    end
    total = rcall('ZCARD', name)
    members = rcall(last_first and 'ZREVRANGE' or 'ZRANGE', name, offset, offset + count - 1)
  end
  local texts = {}
  for _, member in ipairs(members) do
    local row
    if list == 'dead' or list == 'oldest-dead' then
      row = of_dead(call, Entities.jid(queue.name, member), true)
    else
      row = of_job(call, member, true)
    end
    texts[#texts + 1] = row and cjson.encode(row)
  end
  return '{"total":' .. total .. ',"entities":[' .. table.concat(texts, ',') .. ']}'
end

-- What the queue has completed and failed in the last hour.
local function of_last_hour(call, queue)
  local minute = math.floor(call.now / 60)
  local sums = { completed = 0, failed = 0 }
  Minutes.each(call, queue.name, { from = minute - 59, to = minute, kinds = sums }, function(kind, _, n)
    sums[kind] = sums[kind] + n
  end)
  return sums
end

local function counts(call, queue, klass)
  local retrying, done = count_retrying(call, queue), of_last_hour(call, queue)
  local number = count_queued(call, queue)
  return {
    queue = queue.name,
    klass = klass or '',
    queued = number,
    fresh = number - retrying,
    retries = retrying,
    delayed = rcall('ZCOUNT', queue.scheduled, '(' .. call.text, '+inf'),
    busy = rcall('ZCARD', queue.locks),
    dead = rcall('ZCARD', Keys.dead(call, queue.name)),
    lag = QueueStats.lag_of(call, queue),
    processed = done.completed,
    failed = done.failed,
  }
end

-- entities.counts [queue...] -> of each queue with entities: its name and job type, how many are queued (of these fresh and
-- retrying, and delayed), running, dead, the lag in seconds; what was processed and has died in the last hour
function EntityView.counts(call, args, i)
  local types, names, shown = Pieces.hash(call.keys.entity_types), Pieces.rest(args, i), {}
  Arguments.bounded(call, #names)
  if #names == 0 then
    for name in pairs(types) do
      names[#names + 1] = name
    end
    table.sort(names)
  end
  for n = 1, math.min(#names, Arguments.most) do
    shown[n] = cjson.encode(counts(call, Keys.queue(call, names[n]), types[names[n]]))
  end
  return '[' .. table.concat(shown, ',') .. ']'
end
end
end
end
end
end
else
if initial < 72 then
if initial < 71 then
if module_name == 'Failures' then
return function(Failures)
local Arguments, Features, History, Job, Json, Keys, Links, Minutes, Pieces, Queue, Stats, Unique =
modules.Arguments, modules.Features, modules.History, modules.Job, modules.Json, modules.Keys,
modules.Links, modules.Minutes, modules.Pieces, modules.Queue, modules.Stats, modules.Unique
-- core/failures.lua
-- Failed jobs by group: the set of groups, a list of jids for each; and enqueueing them again.

local rcall = redis.call

-- The number of groups is bounded: further ones share the list OTHER.
local MOST_GROUPS, OTHER = 1000, 'other'

local function list_of(call, group)
  if not call.old and rcall('SISMEMBER', call.keys.failures, group) == 0 then
    if rcall('SCARD', call.keys.failures) >= MOST_GROUPS then
      return OTHER
    end
  end
  return group
end

-- Files a failed job under its group and counts it.
function Failures.add(call, jid, queue, group)
  local list = list_of(call, group)
  rcall('SADD', call.keys.failures, list)
  rcall('LPUSH', Keys.group(call, list), jid)
  Stats.count(call, queue, 'failures', 1)
  Stats.count(call, queue, 'failed', 1)
  Minutes.add(call, queue, 'failed', 1)
end

-- Looks from the newest on, or from the oldest on: where the job is likely to be. -> whether it was there
local function take(call, jid, list, oldest_first)
  local found = rcall('LREM', Keys.group(call, list), oldest_first and -1 or 1, jid)
  if rcall('LLEN', Keys.group(call, list)) == 0 then
    rcall('SREM', call.keys.failures, list)
  end
  return found > 0
end

-- Nothing says in which group the job is: it is in one of them.
local function take_anywhere(call, jid)
  for _, list in ipairs(rcall('SMEMBERS', call.keys.failures)) do
    if take(call, jid, list) then
      return
    end
  end
end

-- A job that was failed is so no longer; `queue` is where it goes, which old clients count by.
function Failures.remove(call, job, oldest_first, queue)
  local failure = Json.shown(job.failure)
  if type(failure.group) ~= 'string' then
    take_anywhere(call, job.jid)
  elseif not take(call, job.jid, failure.group, oldest_first) then
    take(call, job.jid, OTHER, oldest_first)
  end
  Stats.mended(call, queue or job.queue, tonumber(failure.when) or 0)
end

-- failed [group [start limit]]
function Failures.show(call, args, i)
  local group = args[i]
  if not group then
    local counts = {}
    for _, name in ipairs(rcall('SMEMBERS', call.keys.failures)) do
      counts[name] = rcall('LLEN', Keys.group(call, name))
    end
    return cjson.encode(counts)
  end
  local start, limit = Arguments.offset(call, args[i + 1]), Arguments.count(call, args[i + 2], 25)
  local total = rcall('LLEN', Keys.group(call, group))
  return cjson.encode({
    total = total,
    jobs = rcall('LRANGE', Keys.group(call, group), Arguments.range(start, limit, total)),
  })
end

-- What takes the place of what cannot be read in the record of a job that goes on; nothing: the field goes.
local JSON_FIELDS = { tags = '{}', failure = '{}', context = false, progress = false }

local function mend(call, job)
  local mended = {}
  if not Job.is_state(job.state) then
    mended[1] = 'state'
  end
  for field, default in pairs(JSON_FIELDS) do
    if not pcall(Json.stored, job[field]) then
      mended[#mended + 1] = field
      job[field] = default or nil
      if default then
        rcall('HSET', job.key, field, default)
      else
        rcall('HDEL', job.key, field)
      end
    end
  end
  if #mended > 0 then
    History.add(call, job.jid, 'mended', cjson.encode({ fields = mended }))
  end
end

-- Puts a failed job, which is in no group any more, into a queue, with all of its retries.
local function revive(call, job, queue)
  mend(call, job)
  History.put(call, job.jid, queue.name)
  local waits = rcall('SCARD', Keys.dependencies(call, job.jid)) > 0 or Links.at_gate(call, job)
  job.was, job.state = 'failed', waits and 'depends' or 'waiting'
  rcall(
    'HSET',
    job.key,
    'state',
    job.state,
    'worker',
    '',
    'expires',
    '0',
    'queue',
    queue.name,
    'retries',
    job.retries,
    'remaining',
    job.retries
  )
  if not call.old then -- (Old clients count on from the start of the run that failed.)
    Queue.ready_since(call, job)
  end
  rcall('HDEL', job.key, 'crashes', 'unknown')
  job.queue = queue.name
  if job.state == 'depends' then
    Queue.hold(call, queue, job.jid)
  else
    Queue.push(call, queue, job.jid, job.priority)
  end
  if job.letters then
    Features.at('revived', call, job)
  end
end

-- Does no other job have by now what the failed job needs to go on?
local function may_go_on(call, job)
  return not job.unique or not Unique.other(call, job)
end

-- Lets a failed job that may go on wait for what it waited for. -> whether it is still there: one that goes with a job
-- that has failed is cancelled, as a failed job
local function waits_again(call, job)
  if job.deadline and Json.shown(job.failure).group == 'expired' then
    Links.add_again(call, job, rcall('LRANGE', Keys.needs(call, job.jid), 0, Arguments.most - 1))
  end
  return rcall('EXISTS', job.key) == 1
end

local function home(call, job, queue)
  return Keys.queue(call, job.home or queue)
end

-- unfail queue group [count] -> how many. (Others take the places of those that have to stay.)
function Failures.unfail(call, args, i)
  local queue = Arguments.queue(call, args[i])
  local group = Arguments.given(call, 'group', args[i + 1])
  local count = Arguments.count(call, args[i + 2], 25)
  local list, revived, left, looked = Keys.group(call, group), 0, {}, 0
  while count > 0 and looked < Arguments.most do
    local jids, stay = rcall('LRANGE', list, -count, -1), 0
    rcall('LTRIM', list, 0, -#jids - 1)
    for n = #jids, 1, -1 do
      local job = Job.read(call, jids[n])
      if job and job.state == 'failed' then
        if not may_go_on(call, job) then
          stay = stay + 1
          table.insert(left, 1, jids[n])
        elseif waits_again(call, job) then
          Stats.mended(call, job.queue, tonumber(Json.shown(job.failure).when) or 0)
          revive(call, job, home(call, job, queue))
          revived = revived + 1
        end
      end
    end
    looked, count = looked + #jids, stay
  end
  Pieces.run('RPUSH', list, left)
  -- (A job that was cancelled has taken a group off that seemed to be empty.)
  rcall(rcall('EXISTS', list) == 1 and 'SADD' or 'SREM', call.keys.failures, group)
  if revived > 0 then
    Queue.register(call, Keys.queue(call, queue))
  end
  return revived
end

-- revive jid...: each into its own queue, quickest with the oldest of a group first; what has not failed is left alone, and
-- so is a job whose unique key another one has by now -> how many
function Failures.revive(call, args, i)
  Arguments.bounded(call, #args - i + 1)
  local revived = 0
  for n = i, #args do
    local job = Job.read(call, Arguments.given(call, 'jid', args[n]))
    local is_failed = job and job.state == 'failed' and job.queue ~= ''
    if is_failed and may_go_on(call, job) and waits_again(call, job) then
      local queue = home(call, job, job.queue)
      Failures.remove(call, job, true)
      revive(call, job, queue)
      Queue.register(call, queue)
      revived = revived + 1
    end
  end
  return revived
end
end
end
if module_name == 'Features' then
return function(Features)
local Keys =
modules.Keys
-- core/features.lua
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
end
end
if module_name == 'Finish' then
return function(Finish)
local Config, Entities, Events, Expiry, Failures, Features, History, Job, Keys, Links, Minutes, Queue,
Samples, Stats, Take, Times, Wake =
modules.Config, modules.Entities, modules.Events, modules.Expiry, modules.Failures,
modules.Features, modules.History, modules.Job, modules.Keys, modules.Links, modules.Minutes,
modules.Queue, modules.Samples, modules.Stats, modules.Take, modules.Times, modules.Wake
-- core/finish.lua
-- How a run ends: there is one way for all commands and verbs, Finish.run, and what differs is in its table `how`:
--   what      the word for the history, see history.lua; nil: it is not told of
--   state     the job's state afterwards
--   queue     where it goes on (nil: in its queue), after `delay` seconds; `first`: at its old place, before its equals
--   remaining, failure, data, returned   fields of the record, where they change
--   group, message, held, exhausted      for the history
-- `run` is what Lock.claim gives.

local floor = math.floor
local rcall = redis.call

-- Bytes of data of jobs with lost locks that one call tells its worker about.
local ENOUGH = 4 * 1024 * 1024

local LONGEST_TTL = 2 ^ 31 -- seconds; the server refuses times to live that it cannot count in milliseconds

-- Marks of a run that go with it. `unknown` stays only from one unknown name to the next.
local function forget_marks(run, how)
  if not (run.grace or run.progress or run.unknown) then
    return
  end
  local gone = {}
  for _, field in ipairs({ 'grace', 'progress', 'unknown' }) do
    if run[field] and not (field == 'unknown' and how.unknown) then
      gone[#gone + 1] = field
    end
  end
  if #gone > 0 then
    rcall('HDEL', run.key, unpack(gone))
  end
end

-- Fields that an end changes only where `how` says so.
local CHANGED = { 'queue', 'remaining', 'failure', 'data', 'returned' }

-- The names and values of the fields that the end of a run changes.
local function changes(call, run, how)
  local state, fields = how.state
  if state == 'complete' then
    -- (One list: it would be copied when it grows.)
    local now, retries = call.text, Times.text(run.retries)
    fields = {
      'state',
      state,
      'worker',
      '',
      'expires',
      '0',
      'time',
      now,
      'remaining',
      retries,
      'queue',
      '',
      'failure',
      '{}',
    }
  elseif state == 'failed' then
    fields = { 'state', state, 'worker', '', 'expires', '' }
  elseif call.old and how.what == 'retried' then -- Old clients see who had it last.
    fields = { 'state', state }
  else
    local worker = call.old and how.what == 'timed-out' and run.worker or ''
    fields = { 'state', state, 'worker', worker, 'expires', '0', 'time', call.text }
  end
  for n = 1, #CHANGED do
    local value = how[CHANGED[n]]
    if value then
      fields[#fields + 1], fields[#fields + 2] = CHANGED[n], value
    end
  end
  return fields
end

local function place(call, run, how)
  if how.state == 'complete' then
    rcall('ZADD', call.keys.completed, call.text, run.jid)
    return
  end
  local queue = Keys.queue(call, how.queue or run.queue)
  if how.state == 'waiting' then
    if how.first then
      Queue.push_first(call, queue, run.jid, run.priority)
    else
      Queue.push(call, queue, run.jid, run.priority)
    end
  elseif how.state == 'scheduled' then
    Queue.schedule(call, queue, run.jid, call.now + how.delay)
  elseif how.state == 'stalled' then
    rcall('ZADD', queue.work, '+inf', run.jid)
    Wake.set(call, queue)
  elseif how.state == 'depends' then
    Queue.hold(call, queue, run.jid)
  end
  if how.queue and how.queue ~= run.queue then
    Queue.register(call, queue)
  end
end

-- Ends a run.
function Finish.run(call, run, how)
  local queue, fields = Keys.queue(call, run.queue), changes(call, run, how)
  local entry = how.what and History.attempt(call, run, how)
  local put = entry and History.append(call, run, entry)
  if put then
    fields[#fields + 1], fields[#fields + 2] = 'put', put
  end
  rcall('HSET', run.key, unpack(fields))
  forget_marks(run, how)
  rcall('ZREM', queue.locks, run.jid)
  Job.unhold(call, run.jid, run.worker)
  if call.has.C then
    Wake.freed(call, queue)
  end
  place(call, run, how)
  local was = run.state
  run.state = how.state
  if run.letters then
    Features.at('ended', call, run, was)
  end
  if run.state == 'failed' then
    Failures.add(call, run.jid, run.queue, how.group)
    Links.follow(call, run.jid, 'failed')
  elseif run.state == 'complete' then
    if run.open then -- A feature says that there is something left for which its dependents wait.
      Links.follow(call, run.jid, 'open')
    elseif call.has.D then
      Links.release(call, run.jid)
    end
    Expiry.after(call)
  end
end

-- A word for the history about a run that goes on.
function Finish.note(call, run, what)
  local entry = History.attempt(call, run, { what = what })
  if entry then
    local put = History.append(call, run, entry)
    run.noted = run.token
    rcall('HSET', run.key, 'noted', run.token or '', 'put', put or run.put or '')
  end
end

-- How long a run took, without the time that it lay in its worker's hands before it was started.
local function sample(call, run, held)
  local began = run.time and Times.number(run.time) or call.now
  Samples.add(call, 'run', run.queue, call.now - began - (held or 0))
end

-- Keeps what a run has returned for `ttl` seconds. -> what the record of the complete job says about it: when it
-- expires, and which run returned it; nil if there is nothing
local function keep_result(call, run, result, ttl)
  if not result or result == '' then
    return nil
  end
  ttl = math.min(ttl, LONGEST_TTL)
  rcall('SET', Keys.result(call, run.jid), result, 'EX', Times.text(ttl))
  return result ~= 'null' and string.format('%.0f %s', floor(call.now) + ttl + 1, run.token or '') or nil
end

-- The run is complete. `given` may have data, result, ttl, held.
function Finish.complete(call, run, given)
  sample(call, run, given.held)
  local returned = keep_result(call, run, given.result, given.ttl)
  if call.has.T then
    Job.tell_trackers(call, 'completed', run.jid)
  end
  Events.completed(call, run.jid, Keys.queue(call, run.queue))
  Finish.run(call, run, {
    what = 'done',
    state = 'complete',
    data = given.data,
    returned = returned,
    held = given.held,
  })
end

-- The run is complete, and the job goes on in the queue `to`, when what is open of what it `needs` is complete: `depends`.
-- -> its new state
function Finish.advance(call, run, to, given)
  sample(call, run, given.held)
  local depends = given.depends or {}
  run.moved = true
  local how = { what = 'done', queue = to, delay = given.delay, remaining = run.retries, failure = '{}' }
  how.state = #depends > 0 and 'depends' or given.delay > 0 and 'scheduled' or 'waiting'
  how.data, how.held = given.data, given.held
  Job.tell_trackers(call, 'completed', run.jid)
  Events.advanced(call, run.jid, run.queue, to)
  Finish.run(call, run, how)
  History.put(call, run.jid, to)
  if how.state == 'depends' then
    Links.add(call, run.jid, depends)
    if given.delay > 0 then
      rcall('HSET', run.key, 'scheduled', Times.text(call.now + given.delay))
    end
  end
  Links.add_needs(call, run.jid, given.needs)
  return how.state
end

local function failure_of(call, group, message, worker, when)
  return cjson.encode({ group = group, message = message, when = when or floor(call.now), worker = worker })
end

-- A run has failed, and no retry is left: the job is filed as failed, unless it goes on in the queue for such jobs of its queue.
local function fail_for_good(call, run, how)
  local to = not run.entity and Config.failed_queue(call, run.queue)
  if not to or rcall('HEXISTS', run.key, 'failed_from') == 1 then
    how.state = 'failed'
    Finish.run(call, run, how)
    return
  end
  Stats.count(call, run.queue, 'failures', 1)
  Minutes.count(call, run.queue, 'failed', 1)
  rcall('HSET', run.key, 'failed_from', run.queue)
  rcall('HDEL', run.key, 'crashes')
  how.state, how.queue, how.remaining = 'waiting', to, run.retries
  Finish.run(call, run, how)
  History.put(call, run.jid, to)
  Events.put(call, run.jid, Keys.queue(call, to))
end

function Finish.fail(call, run, given)
  Events.failed(call, run.jid, given.group, given.message, run.worker)
  Job.tell_trackers(call, 'failed', run.jid)
  fail_for_good(call, run, {
    what = 'failed',
    group = given.group,
    message = given.message,
    held = given.held,
    failure = failure_of(call, given.group, given.message, run.worker),
    data = given.data,
  })
end

-- One retry less: back into the queue `to`, or failed when none is left. -> what remains
function Finish.retry(call, run, to, given)
  local remaining = run.remaining - 1
  local how = { what = 'retried', group = given.group, message = given.message, held = given.held }
  if remaining >= 0 then
    how.state = given.delay > 0 and 'scheduled' or 'waiting'
    how.queue, how.delay, how.remaining = to, given.delay, remaining
    if given.message then
      how.failure = failure_of(call, given.group or '', given.message, run.worker)
    end
    if not call.old then
      Stats.count(call, run.queue, 'retried', 1)
    end
    Finish.run(call, run, how)
    return remaining
  end
  how.what, how.exhausted, how.remaining = 'failed', true, -1
  how.group = given.group or 'failed-retries-' .. to
  if given.message then
    how.failure = failure_of(call, how.group, given.message, run.worker)
  else
    local message = 'Job exhausted retries in queue "' .. run.queue .. '"'
    how.failure = failure_of(call, how.group, message, '', call.now)
  end
  Job.tell_trackers(call, 'failed', run.jid)
  fail_for_good(call, run, how)
  return -1
end

-- Back into its queue, with no retry used up. `given` has what, delay, held, and may have first, group, message, unknown.
function Finish.give_back(call, run, given)
  given.state = given.delay > 0 and 'scheduled' or 'waiting'
  Finish.run(call, run, given)
end

-- A job in no worker's hands, whose lock was lost, is not handed out after all: it waits.
function Finish.give_up_lost(call, job, queue)
  rcall('HSET', job.key, 'state', 'waiting', 'worker', '', 'expires', '0')
  rcall('HDEL', job.key, 'token')
  rcall('ZREM', queue.locks, job.jid)
  job.state = 'waiting'
  if job.letters then
    Features.at('ended', call, job, 'running')
  end
end

-- Tells who has asked for it of a job whose last lock was lost, as it still is: group, message, and its reservation.
local function tell_exhausted(call, run, group, message)
  if call.asks_exhausted then
    local told, reserved = call.exhausted or {}, Take.reservation(call, run.jid)
    told[#told + 1] = { group, message, reserved }
    call.exhausted, call.exhausted_bytes = told, (call.exhausted_bytes or 0) + #reserved[4]
  end
end

-- Are further ones left to the next call?
function Finish.has_told_enough(call)
  return (call.exhausted_bytes or 0) >= ENOUGH
end

-- The grace after a lost lock is over. -> whether the job may be handed out again
function Finish.lost(call, run, queue)
  local remaining = run.remaining - 1
  if run.entity then
    remaining = Entities.lost(call, run)
  end
  if not call.old then
    Finish.note(call, run, 'lost')
  else
    History.note_run(call, run)
  end
  if remaining >= 0 then
    rcall('HSET', run.key, 'remaining', remaining)
    Queue.ready_since(call, run)
    rcall('HDEL', run.key, 'grace', 'progress')
    return true
  end
  local group = 'failed-retries-' .. queue.name
  local message = 'Job exhausted retries in queue "' .. queue.name .. '"'
  if run.entity then
    group, message = Entities.words_of_loss()
  end
  tell_exhausted(call, run, group, message)
  Job.tell_trackers(call, 'failed', run.jid)
  Events.failed(call, run.jid, group, message, run.worker or '')
  run.worker = '' -- the attempt has ended already
  fail_for_good(call, run, {
    what = 'failed',
    exhausted = true,
    group = group,
    message = message,
    remaining = -1,
    failure = failure_of(call, group, message, '', call.now),
  })
  return false
end

-- A job that does not run fails: `job` has jid, key, state, queue, and its letters with their fields.
function Finish.fail_unstarted(call, job, group, message)
  local was = job.state
  if not job.letters then
    job.letters = Features.letters(call, job.more)
    if job.letters then
      Features.read(job)
    end
  end
  job.put = job.put or rcall('HGET', job.key, 'put')
  rcall('HDEL', job.key, 'token', 'scheduled', 'grace', 'progress')
  History.failed(call, job, group, message)
  rcall(
    'HSET',
    job.key,
    'state',
    'failed',
    'worker',
    '',
    'expires',
    '',
    'failure',
    failure_of(call, group, message, '')
  )
  job.state = 'failed'
  if job.letters then
    Features.at('ended', call, job, was)
  end
  Job.tell_trackers(call, 'failed', job.jid)
  Events.failed(call, job.jid, group, message, job.worker or '')
  if job.state == 'failed' then
    Failures.add(call, job.jid, job.queue, group)
    Links.follow(call, job.jid, 'failed')
  end
end

-- The same of one that leaves a place of its queue for that.
function Finish.fail_waiting(call, job, queue, group, message)
  Queue.leave(call, queue, job.jid)
  if job.state == 'depends' then
    Links.remove_all(call, job.jid)
    rcall('HDEL', job.key, 'behind')
  end
  Finish.fail_unstarted(call, job, group, message)
end
end
end
if module_name == 'Fairness' then
return function(Fairness)
local Job, Keys, Limits, Pieces, Queue, Times =
modules.Job, modules.Keys, modules.Limits, modules.Pieces, modules.Queue, modules.Times
-- features/fairness.lua
-- Turns between the tenants of a queue (`fair_by`): of each tenant one job stands in the work. When it is taken the next
-- one comes, behind those of the other tenants; the rest is parked.

local rcall = redis.call

Fairness.fields = { 'fair_by' }
Fairness.options = { 'fair_by' }

local LATEST = 60 -- seconds until a tenant is looked at whose jobs wait: starts bring the next ones

-- What parks the jobs of a tenant that wait for their turn, as limits do.
local function name_of(job)
  return 'fair:' .. job.queue .. ':' .. job.fair_by
end

function Fairness.is_turn(name)
  return string.sub(name, 1, 5) == 'fair:'
end

function Fairness.check(call, job)
  Limits.check_key(call, job, 'fair_by')
end

-- The job stands in the work for its tenant.
function Fairness.stand(call, job)
  if job.fair_by then
    rcall('ZADD', Keys.limit_order(call, name_of(job)), call.text, job.jid)
  end
end

-- Does another job stand for the tenant, so that this one waits for its turn?
local function waits(call, job)
  if not job.fair_by then -- It took the place of one of a tenant.
    return false
  end
  local order = Keys.limit_order(call, name_of(job))
  return rcall('EXISTS', order) == 1 and not rcall('ZSCORE', order, job.jid)
end

-- The next one stands in the work, if there is none.
local function bring_next(call, name)
  if rcall('EXISTS', Keys.limit_order(call, name)) == 1 then
    return
  end
  local jid, score = Pieces.last(Keys.limit_parked(call, name))
  if jid then
    if score < math.huge then -- It was not taken from its worker.
      score = Queue.score(tonumber(rcall('HGET', Keys.job(call, jid), 'priority') or 0) or 0, call.now)
    end
    Limits.bring(call, name, jid, Times.text(score))
    Limits.note_look(call, name, call.now + LATEST)
  end
end

-- The job stands for its tenant no longer.
function Fairness.step_down(call, job)
  local name = job.fair_by and name_of(job)
  if name and rcall('ZREM', Keys.limit_order(call, name), job.jid) == 1 then
    bring_next(call, name)
  end
end

-- (What becomes ready otherwise takes its turn when it is met.)
function Fairness.stored(call, job)
  if job.state ~= 'waiting' then
    return
  elseif not waits(call, job) then
    return Fairness.stand(call, job)
  end
  local work = Keys.queue(call, job.queue).work
  job.score = rcall('ZSCORE', work, job.jid)
  rcall('ZREM', work, job.jid)
  Limits.park(call, job, name_of(job))
end

function Fairness.revived(call, job)
  Fairness.stored(call, job)
end

function Fairness.admit(call, job)
  if waits(call, job) then
    return 'park', name_of(job)
  end
end

function Fairness.started(call, job)
  Fairness.step_down(call, job)
end

function Fairness.ended(call, job, was)
  if was ~= 'running' and not Job.PENDING[job.state] then
    Fairness.step_down(call, job)
  end
end

function Fairness.gone(call, job)
  if job.state == 'waiting' or job.state == 'stalled' then
    Fairness.step_down(call, job)
  end
end

-- A tenant waits long for its turn: what stands for it must stand in the work.
function Fairness.look(call, name)
  local order = Keys.limit_order(call, name)
  local jid = Pieces.first(order)
  local queue = jid and rcall('HGET', Keys.job(call, jid), 'queue')
  if jid and not (queue and rcall('ZSCORE', Keys.queue(call, queue).work, jid)) then
    rcall('ZREM', order, jid)
  end
  Limits.note_look(call, name, call.now + LATEST)
  bring_next(call, name)
end
end
end
if module_name == 'FailureGroups' then
return function(FailureGroups)
local Arguments, Errors, JobSummary, Json, Keys =
modules.Arguments, modules.Errors, modules.JobSummary, modules.Json, modules.Keys
-- views/failure_groups.lua
-- Failure groups as pages show them: how many jobs, since when, and the latest of them as a sample.

local sub, byte = string.sub, string.byte
local rcall = redis.call

local MOST = 250 -- groups of one page: each shows the beginning of a message that may be long
local HEAD = 300 -- bytes of it

local NEWLINE, SPACE = 10, 32
local TAIL = 1000 -- bytes in which the last line is looked for

-- The last line of a text that says something: the error itself, below a traceback. What is longer than the tail begins
-- where that begins, at a character of UTF-8.
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
  return Errors.cut(sub(text, first, last), HEAD)
end

-- When a job has failed.
local function failed_at(call, jid)
  return tonumber((JobSummary.failure(call, jid))) or 0
end

-- name, count, first, last, jid, klass, queue, the message's head and its last line
local function shown(call, name, count)
  local list = Keys.group(call, name)
  local newest, oldest = rcall('LINDEX', list, 0), rcall('LINDEX', list, -1)
  local klass, queue, failure = unpack(rcall('HMGET', Keys.job(call, newest), 'klass', 'queue', 'failure'))
  local message = Json.shown(failure).message or ''
  return {
    name,
    count,
    failed_at(call, oldest),
    failed_at(call, newest),
    newest,
    klass or '',
    queue or '',
    Errors.cut(message, HEAD),
    last_line(message),
  }
end

-- By what groups are sorted: the highest comes first.
local ORDERS = {
  count = function(_, group)
    return group.count
  end,
  last = function(call, group)
    return failed_at(call, rcall('LINDEX', Keys.group(call, group.name), 0))
  end,
}

-- failure.groups count|last offset count -> total_groups, total_jobs and groups
function FailureGroups.list(call, args, i)
  local order = Arguments.given(call, 'order', args[i])
  local rank = ORDERS[order]
  if not rank then
    Errors.argument(call, 'order must be count or last, not ' .. Errors.value(order))
  end
  local offset = Arguments.whole(call, 'offset', args[i + 1], 0)
  local count = math.min(Arguments.whole(call, 'count', args[i + 2], 0), MOST)
  local all, total = {}, 0
  for n, name in ipairs(rcall('SMEMBERS', call.keys.failures)) do
    local group = { name = name, count = rcall('LLEN', Keys.group(call, name)) }
    group.rank, all[n] = rank(call, group), group
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
    groups[#groups + 1] = shown(call, all[n].name, all[n].count)
  end
  return cjson.encode({ total_groups = #all, total_jobs = total, groups = groups })
end

-- failure.group name -> the group, or nil if no job is in it
function FailureGroups.show(call, args, i)
  local name = Arguments.given(call, 'name', args[i])
  local count = rcall('LLEN', Keys.group(call, name))
  return count > 0 and cjson.encode(shown(call, name, count)) or nil
end
end
end
else
if module_name == 'GlobWaits' then
return function(GlobWaits)
local Features, Keys, Queues =
modules.Features, modules.Keys, modules.Queues
-- core/glob_waits.lua
-- Idle workers of globs, or of very many queues. All with the same choice of queues block on one marker, whose name is
-- the text of that choice. (Workers with another choice must not take it from them: they could not start the job.) The
-- texts are listed in glob_waits, which there is only while the letter W is among those of the namespace.

local rcall = redis.call

local MOST = 100 -- texts that are looked at; workers of others look by themselves

-- Seconds beyond the time that a worker waits: for which its text is listed, and the list kept.
local LATE, KEPT = 1, 60

local NONE = {}

local function marker(call, text)
  return { name = text, wake = Keys.wake(call, text), timer = Keys.timer(call, text) }
end

-- The markers of all that is listed, the last to wait first.
function GlobWaits.all(call)
  if not call.has.W then
    return NONE
  elseif not call.glob_waits then
    local texts = rcall('ZREVRANGE', call.keys.glob_waits, 0, MOST - 1)
    for n = 1, #texts do
      texts[n] = marker(call, texts[n])
    end
    call.glob_waits = texts
  end
  return call.glob_waits
end

-- Those of choices that have this queue.
function GlobWaits.of(call, queue)
  if not call.has.W then
    return NONE
  end
  local found = {}
  for _, one in ipairs(GlobWaits.all(call)) do
    found[#found + 1] = Queues.text_has(one.name, queue.name) and one or nil
  end
  return found
end

-- A worker waits for that number of seconds. -> the marker of its queues
function GlobWaits.add(call, choice, seconds)
  local name, text = call.keys.glob_waits, Queues.text(choice)
  rcall('ZREMRANGEBYSCORE', name, '-inf', call.text)
  rcall('ZADD', name, 'GT', call.now + seconds + LATE, text)
  rcall('EXPIRE', name, math.ceil(seconds) + KEPT)
  Features.note(call, 'W')
  call.glob_waits = nil
  return marker(call, text)
end

-- Drops the letter when none waits any longer.
function GlobWaits.tidy(call)
  if call.has.W then
    rcall('ZREMRANGEBYSCORE', call.keys.glob_waits, '-inf', call.text)
    if rcall('EXISTS', call.keys.glob_waits) == 0 then
      Features.forget(call, 'W')
    end
  end
end
end
end
end
else
if initial < 74 then
if module_name == 'Headline' then
return function(Headline)
-- core/headline.lua
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
end
if module_name == 'History' then
return function(History)
local Arguments, Call, Config, Errors, Headline, Keys, Times =
modules.Arguments, modules.Call, modules.Config, modules.Errors, modules.Headline, modules.Keys,
modules.Times
-- core/history.lua
-- What happened to a job: a list of [when, what, more], the first and the newest kept. How attempts end:
--   done       it was completed
--   failed     it failed, and will not run again
--   retried    it failed and will run again
--   returned   it was handed back, which uses no retry up
--   crashed    its process died
--   timed-out  its lock was taken from it, or has run out and the worker has got notice of that
--   lost       the grace after such a notice is over: the worker holds the job no more
--
-- Most jobs are put, handed out and completed once. So the first entry, that it was put, stands in the record's field
-- `put` until there is another one; and an attempt is one entry, which has when it began in `started` and is shown as
-- two: popped, and how it ended. (Where something has to be told while a job runs, its popped is written before that:
-- the record's `noted` is the token of that run.)

local quote, format, sub, floor = cjson.encode, string.format, string.sub, math.floor
local rcall = redis.call

local SHORTEST = 0.001 -- seconds that a job was held, to be worth a word
local PIECE = 20 -- entries read at a time where they may be long

-- The text of a time, cut to thousandths of a second; of the present one if none is given.
local function time_of(call, when)
  if not when then
    return Call.thousandths(call)
  elseif type(when) == 'number' then
    return Times.thousandths(when)
  end
  return #when == 17 and sub(when, 1, 14) or Times.thousandths(tonumber(when) or call.now)
end

-- An entry; `more` is the text of a JSON object.
function History.entry(call, what, more, when)
  return '[' .. time_of(call, when) .. ',' .. quote(what) .. (more and ',' .. more or '') .. ']'
end

-- The time that the field `put` tells, as text.
local function put_time(put)
  if #put == 13 then -- like all but those of a given time
    local second, rest = sub(put, 1, 10), sub(put, 11)
    return rest == '000' and second or second .. '.' .. rest
  end
  return Times.thousandths((tonumber(put) or 0) / 1000)
end

local function put_entry(time, queue)
  return '[' .. time .. ',"put",{"q":' .. quote(queue) .. '}]'
end

-- Keeps the first entry and the newest.
local function shorten(call, name, length)
  local limit = Config.whole(call, 'max-job-history')
  if limit > 0 and limit ~= 2 and length > limit then
    local first = rcall('LPOP', name)
    rcall('LTRIM', name, -math.max(limit - 1, 1), -1)
    rcall('LPUSH', name, first)
  end
end

-- Appends an entry to the history of a job of which put and queue are known.
local function append(call, job, text)
  local name = Keys.history(call, job.jid)
  local length
  if job.put and job.put ~= '' then
    length = rcall('RPUSH', name, put_entry(put_time(job.put), job.queue or ''), text)
    rcall('HSET', job.key, 'put', '')
    job.put = ''
  else
    length = rcall('RPUSH', name, text)
  end
  if length > 2 then
    shorten(call, name, length)
  end
end

-- The same for the one who writes the record at once, with the field `put` that this returns (nil: it stays).
function History.append(call, job, text)
  local name = Keys.history(call, job.jid)
  if job.put and job.put ~= '' then
    rcall('RPUSH', name, put_entry(put_time(job.put), job.queue or ''), text)
    job.put = ''
    return ''
  end
  shorten(call, name, rcall('RPUSH', name, text))
end

-- Has the history told of the present run of a job?
local function is_noted(job)
  return job.noted and job.noted == job.token
end

-- Something is about to be told that happened while the job runs.
local function note_run(call, job)
  if job.state == 'running' and not is_noted(job) then
    append(
      call,
      job,
      '[' .. time_of(call, job.time) .. ',"popped",{"worker":' .. quote(job.worker or '') .. '}]'
    )
    job.noted = job.token
    if job.token then
      rcall('HSET', job.key, 'noted', job.token)
    end
  end
end
History.note_run = note_run

local READ = { 'state', 'queue', 'worker', 'time', 'token', 'put', 'noted' }

-- A job with what has to be known of it here.
local function job_of(call, jid)
  local job = { jid = jid, key = Keys.job(call, jid) }
  local values = rcall('HMGET', job.key, unpack(READ))
  for n = 1, #READ do
    job[READ[n]] = values[n] or nil
  end
  return job
end

-- Adds an entry; `more` is the text of a JSON object.
function History.add(call, jid, what, more, when)
  local job = job_of(call, jid)
  note_run(call, job)
  append(call, job, History.entry(call, what, more, when))
end

-- The job is put again, or moves on to a queue.
function History.put(call, jid, queue)
  History.add(call, jid, 'put', '{"q":' .. quote(queue) .. '}')
end

-- Ends of attempts that are shown with the worker. (Of the others the popped tells it.)
local SAYS_WORKER =
  { failed = true, retried = true, returned = true, crashed = true, lost = true, ['timed-out'] = true }

-- An object of those of these members that there are. (Lists of jobs look for the group before
-- what may stand in the message.)
local function members(job, how, ready)
  local texts = {}
  if how.started then
    texts[1] = '"started":' .. how.started
  end
  if job.worker and job.worker ~= '' and (how.started or SAYS_WORKER[how.what]) then
    texts[#texts + 1] = '"worker":' .. quote(job.worker)
  end
  if how.group then
    texts[#texts + 1] = '"group":' .. quote(how.group)
  end
  if how.held and (how.what == 'returned' or how.held >= SHORTEST) then
    texts[#texts + 1] = '"held":' .. format('%.3f', how.held)
  end
  if ready then
    texts[#texts + 1] = '"until":' .. Times.thousandths(ready)
  end
  if how.message and how.message ~= '' then
    texts[#texts + 1] = '"message":' .. quote(Headline.of(how.message))
  end
  return #texts > 0 and '{' .. table.concat(texts, ',') .. '}' or nil
end

-- Old clients are told of fewer things, and less of them.
local OLD = { done = true, failed = true, ['timed-out'] = true }

local function ended_old(call, job, how)
  if not OLD[how.what] then
    note_run(call, job)
    return nil
  elseif how.what == 'timed-out' then
    note_run(call, job)
    return History.entry(call, how.what)
  elseif how.exhausted then
    note_run(call, job)
    return History.entry(call, 'failed', '{"group":' .. quote(how.group) .. '}')
  end
  local group = how.what == 'failed' and how.group or nil
  return History.entry(
    call,
    how.what,
    members(job, { what = how.what, started = how.started, group = group })
  )
end

-- The entry of an attempt that ended so; nil if there is none. `how` has what, and may have group, message, held, delay.
-- `job` is the run: jid, key, queue, worker, time, token, put, noted.
function History.attempt(call, job, how)
  local started = not is_noted(job) and job.time and time_of(call, job.time) or nil
  if how.what == 'done' and started and job.worker then -- like most
    local held = how.held and how.held >= SHORTEST and format(',"held":%.3f', how.held) or ''
    local text = '{"started":' .. started .. ',"worker":' .. quote(job.worker) .. held .. '}'
    return '[' .. Call.thousandths(call) .. ',"done",' .. text .. ']'
  end
  how.started = started
  if call.old then
    return ended_old(call, job, how)
  end
  if how.exhausted and not how.message then
    how = { what = how.what, started = how.started, group = how.group, held = how.held }
  end
  local ready = how.delay and how.delay > 0 and call.now + how.delay
  return History.entry(call, how.what, members(job, how, ready))
end

-- A job that has not run failed.
function History.failed(call, job, group, message)
  local more = '{"group":' .. quote(group)
  if not call.old or message then
    more = more .. ',"message":' .. quote(Headline.of(message or ''))
  end
  append(call, job, History.entry(call, 'failed', more .. '}'))
end

local function shown_entry(call, triple)
  local shown = triple[3] or {}
  shown.when, shown.what = call.old and floor(triple[1]) or triple[1], triple[2]
  return shown
end

-- Shows an entry: as one, or as two if it is of a whole attempt.
local function show(call, text, entries)
  local fine, triple = pcall(cjson.decode, text)
  if not fine or type(triple) ~= 'table' or type(triple[1]) ~= 'number' or type(triple[2]) ~= 'string' then
    entries[#entries + 1] = { when = 0, what = 'unreadable', text = Errors.cut(text, 60) }
    return
  end
  local more = type(triple[3]) == 'table' and triple[3] or {}
  triple[3] = more
  if more.started then
    entries[#entries + 1] = shown_entry(call, { more.started, 'popped', { worker = more.worker or '' } })
    more.started = nil
    more.worker = SAYS_WORKER[triple[2]] and more.worker or nil
  end
  entries[#entries + 1] = shown_entry(call, triple)
end

-- The entries that stand in the record: that the job was put, and that it runs. -> texts, nil where there are none
local function unwritten(call, job)
  local first = job.put and job.put ~= '' and put_entry(put_time(job.put), job.queue or '') or nil
  local last
  if job.state == 'running' and not is_noted(job) then
    last = '[' .. time_of(call, job.time) .. ',"popped",{"worker":' .. quote(job.worker or '') .. '}]'
  end
  return first, last
end

-- Texts of entries as objects with when, what and the members of their third part.
function History.shown(call, texts)
  local entries = {}
  for n = 1, #texts do
    show(call, texts[n], entries)
  end
  return entries
end

-- All entries of the job with this record.
function History.read(call, job)
  local texts = rcall('LRANGE', Keys.history(call, job.jid), 0, -1)
  local first, last = unwritten(call, job)
  if first then
    table.insert(texts, 1, first)
  end
  texts[#texts + 1] = last
  return History.shown(call, texts)
end

-- When the first entry was made that the field `put` tells of, or a list that begins with it; false if none does.
function History.begun(list, put)
  if put and put ~= '' then
    return put_time(put)
  end
  return string.match(rcall('LINDEX', list, 0) or '', '^%[([%d.]+),') or false
end

-- The first entry and the newest: `most` at most, with that many bytes. -> their texts, how many there are
function History.texts(call, job, most, bytes)
  local name = Keys.history(call, job.jid)
  local first, running = unwritten(call, job)
  local total, newest = rcall('LLEN', name), { running }
  local last, oldest = total - 1, first and 0 or 1
  bytes = bytes - #(running or '')
  while last >= oldest and #newest < most - 1 and bytes > 0 do
    local from = math.max(oldest, last - PIECE + 1, last - (most - 1 - #newest) + 1)
    local part = rcall('LRANGE', name, from, last)
    for n = #part, 1, -1 do
      bytes = bytes - #part[n]
      if bytes > 0 then
        newest[#newest + 1] = part[n]
      end
    end
    last = from - 1
  end
  local texts = first and { first } or rcall('LRANGE', name, 0, 0)
  for n = #newest, 1, -1 do
    texts[#texts + 1] = newest[n]
  end
  return texts, total + (first and 1 or 0) + (running and 1 or 0)
end

-- The same as objects. (Those that are left out count as one each.)
function History.some(call, job, most, bytes)
  local texts, total = History.texts(call, job, most, bytes)
  local entries = History.shown(call, texts)
  return entries, total - #texts + #entries
end

-- log jid message [data]
function History.log(call, args, i)
  local jid = Arguments.name(call, 'jid', args[i])
  local message = Arguments.message(call, args[i + 1])
  local data = args[i + 2]
  if data then
    Arguments.object(call, 'data', data)
  end
  if rcall('EXISTS', Keys.job(call, jid)) == 0 then
    Errors.no_job(call, jid)
  end
  History.add(call, jid, message, data)
end
end
end
else
if initial < 75 then
if module_name == 'Job' then
return function(Job)
local Arguments, Errors, Events, Features, Keys, Tags, Times =
modules.Arguments, modules.Errors, modules.Events, modules.Features, modules.Keys, modules.Tags,
modules.Times
-- core/job.lua
-- A job's record: reading it, and deleting what belongs to it.

local rcall = redis.call

-- The fields that any job may have. Features have further ones: see features.lua.
local FIELDS = {
  'state',
  'queue',
  'worker',
  'expires',
  'time',
  'retries',
  'remaining',
  'priority',
  'klass',
  'data',
  'tags',
  'failure',
  'put',
  'noted',
  'grace',
  'scheduled',
  'token',
  'context',
  'progress',
  'crashes',
  'unknown',
  'spawned_from_jid',
  'returned',
  'failed_from',
  'on_failure',
  'behind',
  'more',
}

local STATES = {
  waiting = true,
  running = true,
  stalled = true,
  scheduled = true,
  depends = true,
  failed = true,
  complete = true,
}

-- Is this the name of a state?
function Job.is_state(text)
  return STATES[text or ''] or false
end

-- In which a job has not started, or will start again.
Job.PENDING = { waiting = true, scheduled = true, depends = true, stalled = true }

-- The whole record of a job as a table with its fields, jid, key, and letters if it uses features; nil if there is none.
-- Numbers are numbers; what cannot be read as one is its default.
function Job.read(call, jid)
  local name = Keys.job(call, jid)
  local values = rcall('HMGET', name, unpack(FIELDS))
  if not values[1] and not values[9] then
    return nil
  end
  local job = { jid = jid, key = name }
  for n = 1, #FIELDS do
    job[FIELDS[n]] = values[n] or nil
  end
  job.state, job.queue = job.state or '', job.queue or ''
  job.time = Times.finite(job.time, call.now)
  job.priority = Times.finite(job.priority, 0)
  job.retries = Times.finite(job.retries, 5)
  job.remaining = Times.finite(job.remaining, job.retries)
  job.crashes = Times.finite(job.crashes, 0)
  job.letters = Features.letters(call, job.more)
  if job.letters then
    Features.read(job)
  end
  return job
end

-- The same of a job that must be there.
function Job.must_read(call, jid)
  local job = Job.read(call, Arguments.name(call, 'jid', jid))
  if not job then
    Errors.no_job(call, jid)
  end
  return job
end

-- A delayed job counts as waiting from its time on, though it stands among the delayed ones until a call moves it that
-- writes; and so does one that was taken from its worker: the record says 'stalled'. -> its state now, when it falls due
function Job.state_now(call, jid, queue, state)
  if state == 'stalled' and not call.old then
    return 'waiting'
  elseif state ~= 'scheduled' or call.old then
    return state
  end
  local due = rcall('ZSCORE', Keys.queue(call, queue or '').scheduled, jid)
  return due and tonumber(due) <= call.now and 'waiting' or state, due
end

-- Is the job tracked?
function Job.is_tracked(call, jid)
  return call.has.T and rcall('ZSCORE', call.keys.tracked, jid) and true or false
end

-- Publishes what happened to a job if it is tracked.
function Job.tell_trackers(call, what, jid)
  if call.has.T and rcall('ZSCORE', call.keys.tracked, jid) then
    Events.tracked(call, what, jid)
  end
end

-- Takes a job out of its worker's hands, in the books.
function Job.unhold(call, jid, worker)
  if worker and worker ~= '' then
    rcall('ZREM', Keys.held(call, worker), jid)
  end
end

-- Deletes the record of a job that is in no place any longer, and what belongs to it, but for its dependents.
function Job.erase(call, job)
  local jid = job.jid
  Tags.unindex_all(call, jid, job.tags)
  rcall(
    'DEL',
    job.key,
    Keys.history(call, jid),
    Keys.dependencies(call, jid),
    Keys.result(call, jid),
    Keys.needs(call, jid)
  )
end
end
end
if module_name == 'Json' then
return function(Json)
local Errors =
modules.Errors
-- core/json.lua
-- JSON texts that are shown as they came: decoding and encoding would change [] and long numbers.

-- An object's text with members added whose values are JSON texts already: name, text, …
function Json.with(object, ...)
  local parts, more = { string.sub(object, 1, -2) }, { ... }
  local separator = object == '{}' and '' or ','
  for n = 1, #more, 2 do
    parts[#parts + 1] = separator .. '"' .. more[n] .. '":' .. more[n + 1]
    separator = ','
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

-- The value of a stored text that must be a table; an empty one if there is none. Raises an error if it cannot be read.
function Json.stored(text)
  if not text or text == '' or text == '{}' then
    return {}
  end
  local value = cjson.decode(text)
  if type(value) ~= 'table' then
    error('a list or an object was expected, not ' .. Errors.value(text))
  end
  return value
end

-- The same for who only shows it: an empty one, too, if it cannot be read.
function Json.shown(text)
  local fine, value = pcall(Json.stored, text)
  return fine and value or {}
end

-- A stored text as it may stand inside another one: null if there is none, or if it cannot be read.
function Json.text(text)
  return text and text ~= '' and pcall(Json.stored, text) and text or 'null'
end
end
end
if module_name == 'JobPage' then
return function(JobPage)
local Arguments, CanceledView, History, Job, JobSummary, JobView, Json, Keys =
modules.Arguments, modules.CanceledView, modules.History, modules.Job, modules.JobSummary,
modules.JobView, modules.Json, modules.Keys
-- views/job_page.lua
-- All that a page shows of one job, however many others it has to do with and however long it goes on.

local rcall = redis.call

local MOST_LINKS = 250 -- of one kind
local HISTORY_BYTES = 256 * 1024

-- Some members of a set, sorted: about as many are read as are wanted. -> these, how many there are
local function some(name, most)
  local total, cursor, members = rcall('SCARD', name), '0', {}
  repeat
    local reply = rcall('SSCAN', name, cursor, 'COUNT', math.max(most, 1))
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
  for _, jid in ipairs(most > 0 and rcall('LRANGE', name, 0, most - 1) or {}) do
    if not seen[jid] then
      seen[jid] = true
      found[#found + 1] = jid
    end
  end
  return found, rcall('LLEN', name)
end

-- The job that has spawned it, as a list.
local function spawners(call, record, links)
  return JobSummary.rows(call, links > 0 and { record.parent } or {})
end

local function add_spawned(call, view, jid, links)
  local jids, total = first(Keys.offspring(call, jid), links)
  view.spawned, view.spawned_total = JobSummary.rows(call, jids), total
end

-- Adds the result and the latest run of a detached job.
local function add_outcome(call, view, jid)
  view.result = rcall('GET', Keys.result(call, jid)) or cjson.null
  local rest = rcall('PTTL', Keys.result(call, jid))
  view.result_ttl = rest >= 0 and rest / 1000 or cjson.null
  view.detached = rcall('GET', Keys.detached(call, jid)) or cjson.null
end

-- The page of a canceled job, of which less is known.
local function canceled(call, jid, view, links)
  local record = CanceledView.read(call, jid)
  for _, list in ipairs({ 'dependents', 'dependencies', 'needs' }) do
    view[list], view[list .. '_total'] = {}, 0
  end
  add_spawned(call, view, jid, links)
  view.spawners = spawners(call, record, links)
  view.history_total = #History.shown(call, CanceledView.history(call, jid))
  view.result, view.result_ttl, view.detached = cjson.null, cjson.null, cjson.null
  return Json.with(cjson.encode(view), 'job', CanceledView.show(call, jid))
end

-- job.view jid links history -> the job as get shows it, those it has to do with in brief, its result
function JobPage.show(call, args, i)
  local jid = Arguments.name(call, 'jid', args[i])
  local links = math.min(Arguments.whole(call, 'links', args[i + 1], 0), MOST_LINKS)
  local entries = math.min(Arguments.whole(call, 'history', args[i + 2], 1), Arguments.most)
  local brief, job = JobSummary.row(call, jid), Job.read(call, jid)
  if not brief then
    return nil
  elseif not job then
    return canceled(call, jid, { brief = brief }, links)
  end
  local lists, view = {}, { brief = brief }
  for _, list in ipairs({ 'dependents', 'dependencies' }) do
    lists[list], view[list .. '_total'] = some(Keys[list](call, jid), links)
    view[list] = JobSummary.rows(call, lists[list])
  end
  local needs, number = first(Keys.needs(call, jid), links)
  view.needs, view.needs_total = JobSummary.rows(call, needs), number
  add_spawned(call, view, jid, links)
  view.spawners = spawners(call, job, links)
  lists.history, view.history_total = History.some(call, job, entries, HISTORY_BYTES)
  add_outcome(call, view, jid)
  return Json.with(cjson.encode(view), 'job', JobView.of(call, job, lists))
end
end
end
if module_name == 'JobSummary' then
return function(JobSummary)
local Arguments, Cancel, CanceledView, Errors, History, Job, Json, Keys, Pieces, QueueView, Times =
modules.Arguments, modules.Cancel, modules.CanceledView, modules.Errors, modules.History,
modules.Job, modules.Json, modules.Keys, modules.Pieces, modules.QueueView, modules.Times
-- views/job_summary.lua
-- Jobs in brief: what a line of a list shows of each, and parts of all the lists that there are.

local match = string.match
local rcall = redis.call

-- The places in a row. The first eleven are fields of the record as they are.
local KLASS, QUEUE, STATE, PRIORITY, RETRIES, REMAINING, TAGS, WORKER, SINCE, EXPIRES =
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local DUE, GROUP, PROGRESS, WORKFLOW, TRACKED, PUT, JID = 12, 13, 14, 15, 16, 17, 18

local NUMBERS = { PRIORITY, RETRIES, REMAINING, SINCE, EXPIRES }

-- (Naming the fields one by one is a sixth quicker than unpacking a list of them.)
local function read(call, jid)
  return rcall(
    'HMGET',
    Keys.job(call, jid),
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
    'put',
    'progress',
    'workflow'
  )
end

-- What cannot be read is not shown.
local function judge(row)
  for n = 1, #NUMBERS do
    local place = NUMBERS[n]
    row[place] = Times.finite(row[place]) and row[place] or false
  end
  if not pcall(Json.stored, row[TAGS]) then
    row[TAGS] = false
  end
  if row[PROGRESS] == '' or not pcall(Json.stored, row[PROGRESS]) then
    row[PROGRESS] = false
  end
end

-- A running job whose lock has ended is stalled. (The queue's list knows whether there was a notice, which prolongs it.)
local function see_lock(call, row, jid)
  local lock = rcall('ZSCORE', Keys.queue(call, row[QUEUE]).locks, jid)
  if lock and tonumber(lock) <= call.now then
    row[STATE], row[SINCE] = 'stalled', lock
  end
end

local function see_due(call, row, jid)
  local state, due = Job.state_now(call, jid, row[QUEUE], row[STATE])
  if state == 'waiting' then
    row[STATE], row[SINCE] = state, due
  else
    row[DUE] = due
  end
end

-- When and in which group a job has failed: mostly the last line of its history says so, which is shorter than the
-- record's text with the whole message. -> when, group
function JobSummary.failure(call, jid)
  local last = rcall('LINDEX', Keys.history(call, jid), -1) or ''
  local when, more = match(last, '^%[([%d.]+),"failed",(.*)%]$')
  if when then
    return when, match(more, '"group":"([^"\\]*)"') or Json.shown(more).group
  end
  local failure = Json.shown(rcall('HGET', Keys.job(call, jid), 'failure'))
  when = tonumber(failure.when)
  return when and string.format('%.17g', when), failure.group
end

local function see_failure(call, row, jid)
  local when, group = JobSummary.failure(call, jid)
  row[SINCE], row[GROUP] = when or row[SINCE], group or false
end

local SEE = {
  running = function(call, row, jid)
    if (tonumber(row[EXPIRES]) or 0) <= call.now then
      see_lock(call, row, jid)
    end
  end,
  scheduled = see_due,
  stalled = see_due,
  failed = see_failure,
}

-- What became of a canceled job, as a row; or false.
local function row_of_canceled(call, jid)
  local row = CanceledView.row(call, jid)
  if row then
    row[WORKFLOW], row[DUE], row[GROUP], row[PROGRESS] = row[DUE], false, false, false
    row[STATE], row[WORKER] = 'canceled', ''
    row[TRACKED], row[JID] = Job.is_tracked(call, jid), jid
    row[PUT] = History.begun(Keys.canceled_history(call, jid))
  end
  return row
end

-- The row of one job, or false if there is no such job.
function JobSummary.row(call, jid)
  local row = read(call, jid)
  local state, put, progress, workflow = row[STATE], row[12], row[13], row[14]
  if not (state or row[KLASS] or row[QUEUE]) then
    return row_of_canceled(call, jid)
  end
  row[STATE], row[KLASS], row[QUEUE] = state or '', row[KLASS] or '', row[QUEUE] or ''
  row[WORKER], row[EXPIRES] = row[WORKER] or '', row[EXPIRES] or '0'
  row[DUE], row[GROUP], row[PROGRESS], row[WORKFLOW] = false, false, progress, workflow
  judge(row)
  if SEE[state] then
    SEE[state](call, row, jid)
  end
  row[TRACKED], row[JID] = Job.is_tracked(call, jid), jid
  row[PUT] = History.begun(Keys.history(call, jid), put)
  return row
end

-- The rows of jobs, with false for each that is gone.
function JobSummary.rows(call, jids)
  local rows = {}
  for n = 1, #jids do
    rows[n] = JobSummary.row(call, jids[n])
  end
  return rows
end

-- brief jid... -> the rows as JSON
function JobSummary.brief(call, args, i)
  local jids = Pieces.rest(args, i)
  Arguments.bounded(call, #jids)
  return cjson.encode(JobSummary.rows(call, jids))
end

local function newest_first(name, start, count)
  return rcall('ZREVRANGE', name, start, start + count - 1)
end

-- Lists beside those of queues: `count` jids from a place on.
local LISTS = {
  group = function(call, name, start, count)
    return rcall('LRANGE', Keys.group(call, name), start, start + count - 1)
  end,
  tag = function(call, name, start, count)
    return rcall('ZRANGE', Keys.tag(call, name), start, start + count - 1)
  end,
  worker = function(call, name, start, count)
    return newest_first(Keys.held(call, name), start, count)
  end,
  complete = function(call, _, start, count)
    return newest_first(call.keys.completed, start, count)
  end,
  canceled = function(call, _, start, count)
    return Cancel.part(call, start, count)
  end,
  tracked = function(call, _, start, count)
    return newest_first(call.keys.tracked, start, count)
  end,
}

-- The parts of lists, (kind name start count)... from args[i] on.
function JobSummary.parts(call, args, i)
  Arguments.bounded(call, (#args - i + 1) / 4)
  local parts = {}
  for n = i, #args, 4 do
    local kind = args[n]
    if not LISTS[kind] and (not QueueView.is_list(kind) or kind == 'recurring') then
      Errors.argument(call, 'Unknown kind of list ' .. Errors.name(kind))
    end
    parts[#parts + 1] = {
      kind = kind,
      name = Arguments.given(call, 'name', args[n + 1]),
      start = Arguments.whole(call, 'start', args[n + 2], 0),
      count = Arguments.whole(call, 'count', args[n + 3], 0),
    }
  end
  return parts
end

-- The jids of a part: `most` at most.
function JobSummary.jids(call, part, most)
  local count = math.min(part.count, most)
  if count < 1 then
    return {}
  elseif LISTS[part.kind] then
    return LISTS[part.kind](call, part.name, part.start, count)
  end
  return QueueView.jids(call, part.kind, Keys.queue(call, part.name), { offset = part.start, count = count })
end

-- briefs most (kind name start count)... -> the rows as JSON
function JobSummary.briefs(call, args, i)
  local most = Arguments.whole(call, 'most', args[i], 0)
  Arguments.bounded(call, most)
  local jids = {}
  for _, part in ipairs(JobSummary.parts(call, args, i + 1)) do
    for _, jid in ipairs(JobSummary.jids(call, part, most - #jids)) do
      jids[#jids + 1] = jid
    end
  end
  return cjson.encode(JobSummary.rows(call, jids))
end

-- tracked.jids offset count -> total and jids, the last first; some may be gone
function JobSummary.tracked(call, args, i)
  local offset = Arguments.whole(call, 'offset', args[i], 0)
  local count = math.min(Arguments.whole(call, 'count', args[i + 1], 0), Arguments.most)
  local jids = count > 0 and newest_first(call.keys.tracked, offset, count) or {}
  return cjson.encode({ total = rcall('ZCARD', call.keys.tracked), jobs = jids })
end
end
end
if module_name == 'JobView' then
return function(JobView)
local Arguments, CanceledView, History, Job, Json, Keys, LimitView, Pieces, Results, Times, Unique =
modules.Arguments, modules.CanceledView, modules.History, modules.Job, modules.Json, modules.Keys,
modules.LimitView, modules.Pieces, modules.Results, modules.Times, modules.Unique
-- views/job_view.lua
-- A job as get, pop and peek show it.

local rcall = redis.call

-- What is shown to our own clients only.
local function with_ours(call, shown, job)
  shown.token = job.state == 'running' and job.token or ''
  shown.crashes = job.crashes
  shown.failed_from = job.failed_from
  shown.on_failure = job.on_failure
  if job.returned and job.state == 'complete' then
    shown.returned = Results.left(call, job)
  end
  if job.letters then
    shown.unique, shown.workflow, shown.deadline = Unique.shown(job), job.workflow, Times.finite(job.deadline)
    shown.limits = LimitView.of_job(job)
  end
  return Json.with(
    cjson.encode(shown),
    'context',
    Json.text(job.context),
    'progress',
    Json.text(job.progress)
  )
end

-- The object that shows a job with this record, as JSON. `some` has what is shown of the lists that belong to it (history,
-- dependents, dependencies) in place of all of it.
function JobView.of(call, job, some)
  local jid = job.jid
  local shown = {
    jid = jid,
    klass = job.klass or '',
    state = Job.state_now(call, jid, job.queue, job.state),
    queue = job.queue,
    worker = job.worker or '',
    tracked = Job.is_tracked(call, jid),
    priority = job.priority,
    expires = Times.finite(job.expires, 0),
    retries = job.retries,
    remaining = job.remaining,
    data = job.data or '',
    tags = Json.shown(job.tags),
    history = some and some.history or History.read(call, job),
    failure = Json.shown(job.failure),
    spawned_from_jid = job.spawned_from_jid or false,
    dependents = some and some.dependents or rcall('SMEMBERS', Keys.dependents(call, jid)),
    dependencies = some and some.dependencies or rcall('SMEMBERS', Keys.dependencies(call, jid)),
  }
  return call.old and cjson.encode(shown) or with_ours(call, shown, job)
end

-- The same of the job of this jid, or nil.
function JobView.show(call, jid, some)
  local job = Job.read(call, jid)
  return job and JobView.of(call, job, some)
end

-- A job, or what became of it if it was canceled; or nil.
local function found(call, jid)
  local shown = JobView.show(call, jid)
  if shown or call.old then
    return shown
  end
  return CanceledView.show(call, jid)
end

local function list(call, jids, show)
  local shown = {}
  for n = 1, #jids do
    shown[#shown + 1] = show(call, jids[n])
  end
  return Json.list(shown)
end

-- The jobs of these jids that there are, as a JSON list.
function JobView.list(call, jids)
  return list(call, jids, JobView.show)
end

-- get jid
function JobView.get(call, args, i)
  return found(call, Arguments.name(call, 'jid', args[i]))
end

-- multiget jid...
function JobView.multiget(call, args, i)
  local jids = Pieces.rest(args, i)
  Arguments.bounded(call, #jids)
  return list(call, jids, found)
end
end
end
else
if module_name == 'Keys' then
return function(Keys)
-- core/keys.lua
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
end
end
end
end
end
end
else
if initial < 82 then
if initial < 79 then
if initial < 77 then
if module_name == 'Links' then
return function(Links)
local Arguments, Cancel, Corrupt, Cycles, Deadlines, Errors, Features, Finish, Job, Keys, Pieces, Queue,
Spawned, Workflows =
modules.Arguments, modules.Cancel, modules.Corrupt, modules.Cycles, modules.Deadlines,
modules.Errors, modules.Features, modules.Finish, modules.Job, modules.Keys, modules.Pieces,
modules.Queue, modules.Spawned, modules.Workflows
-- core/links.lua
-- Dependencies: symmetric links between jobs, the release of those that waited, and what follows when a job fails or is gone.
--
-- What a job does when one that it depends on fails or is canceled is its `on_failure`:
--   block   waits on for what has failed; fails itself when it was canceled
--   cancel  is canceled
--   run     waits for it no longer, as if it had been completed
-- A job may also be put `behind` another one, whose end is enough.
--
-- A complete job whose children are open (see spawned.lua) is not done with: its dependents wait on.

local rcall = redis.call

local MOST = 1000 -- dependents dealt with by one call
local LIGHT = 20 -- links cut off that count as much as one
local FEW = 50 -- jobs whose dependents one call takes up again at most
local PART = 50 -- dependents looked at together: how much work they are shows only then

local GROUP = 'dependency-canceled'

local NONE = {}

-- How many dependents this call may still deal with.
function Links.left(call)
  return call.links_left or MOST
end

function Links.spend(call, n)
  call.links_left = Links.left(call) - n
end

-- Does this job hold back one that depends on it?
local function holds_back(call, job, other)
  local state, deadline = unpack(rcall('HMGET', Keys.job(call, other), 'state', 'deadline'))
  local failed = other
  if deadline and Deadlines.is_missed(call, state, deadline) then
    Deadlines.note(call, other)
    state = 'failed'
  elseif state == 'complete' and not call.old then
    state, failed = Spawned.state_for(call, job, other)
  end
  if not state then
    if not (call.old or job.lenient) then
      Errors.no_job(call, other)
    end
    return false
  elseif state ~= 'failed' then
    return state ~= 'complete'
  elseif job.on_failure == 'run' then
    return false
  elseif job.on_failure ~= 'cancel' then
    return true
  elseif job.lenient then
    call.failed_links = call.failed_links or {}
    table.insert(call.failed_links, other)
    return true
  end
  local words = 'Job %s has failed already, so what is to be canceled with it cannot wait for it'
  Errors.refuse(call, 'STATE', words, Errors.name(failed))
end

-- Which of the jids hold back a job, of which jid and on_failure are given, and `parent` if it is to be spawned; unknown
-- ones are refused, unless it is `lenient`. `coming` are the jobs by jid that the same call is about to put.
function Links.open(call, job, jids, coming)
  local open = {}
  for n = 1, #jids do
    local other = jids[n]
    if coming and coming[other] or holds_back(call, job, other) then
      open[#open + 1] = other
    end
  end
  return open
end

-- The same of a job that is there, and goes on when they are complete.
function Links.open_for_move(call, jid, jids, lenient)
  local policy = #jids > 0 and rcall('HGET', Keys.job(call, jid), 'on_failure') or nil
  return Links.open(call, { jid = jid, on_failure = policy, lenient = lenient }, jids)
end

-- A job waits for others.
function Links.add(call, jid, jids)
  if #jids > 0 then
    Features.note(call, 'D')
  end
  for n = 1, #jids do
    rcall('SADD', Keys.dependents(call, jids[n]), jid)
  end
  Pieces.run('SADD', Keys.dependencies(call, jid), jids)
end

-- Remembers what a job was made to depend on, in order, beyond the links: its results are wanted later.
function Links.add_needs(call, jid, jids)
  if jids and #jids > 0 and not call.old then
    Features.note(call, 'N')
    Pieces.run('RPUSH', Keys.needs(call, jid), jids)
  end
end

function Links.remove(call, jid, jids)
  for n = 1, #jids do
    rcall('SREM', Keys.dependents(call, jids[n]), jid)
    rcall('SREM', Keys.dependencies(call, jid), jids[n])
  end
end

function Links.remove_all(call, jid)
  local others = rcall('SMEMBERS', Keys.dependencies(call, jid))
  for n = 1, #others do
    rcall('SREM', Keys.dependents(call, others[n]), jid)
  end
  rcall('DEL', Keys.dependencies(call, jid))
  Links.spend(call, math.floor(#others / LIGHT))
end

local function read_dependent(call, jid)
  local job = { jid = jid, key = Keys.job(call, jid) }
  local state, queue, priority, scheduled, more =
    unpack(rcall('HMGET', job.key, 'state', 'queue', 'priority', 'scheduled', 'more'))
  if state and not Job.is_state(state) then
    error('the state of the job is ' .. Errors.value(state))
  end
  job.state, job.queue, job.priority = state, queue or '', tonumber(priority) or 0
  job.scheduled, job.more = tonumber(scheduled or nil), more or nil
  job.letters = Features.letters(call, job.more)
  if job.letters then
    Features.read(job)
  end
  return job
end

-- Does its workflow hold the job back, as it is not all there, or is being cancelled? Then that knows it.
function Links.at_gate(call, job)
  return job.workflow ~= nil and Workflows.holds(call, job)
end

-- Nothing holds the job back any longer: it becomes ready, or waits for its time.
function Links.free(call, jid)
  local job = Corrupt.guard(
    call,
    jid,
    Keys.queue(call, rcall('HGET', Keys.job(call, jid), 'queue') or ''),
    read_dependent
  )
  if not job or job.state ~= 'depends' or Links.at_gate(call, job) then
    return
  end
  local queue = Keys.queue(call, job.queue)
  rcall('ZREM', queue.depends, jid)
  job.state = job.scheduled and 'scheduled' or 'waiting'
  rcall('HSET', job.key, 'state', job.state)
  if job.scheduled then
    rcall('HDEL', job.key, 'scheduled')
    Queue.schedule(call, queue, jid, job.scheduled)
  else
    Queue.ready_since(call, job)
    Queue.push(call, queue, jid, job.priority)
  end
  if job.letters then
    Features.at('ended', call, job, 'depends')
  end
end

-- The same if the last dependency is gone.
function Links.free_if_last(call, jid)
  if rcall('SCARD', Keys.dependencies(call, jid)) == 0 then
    Links.free(call, jid)
  end
end

-- What of a job's dependents is left to later calls.
function Links.leave(call, list, jid)
  rcall('ZADD', list, call.text, jid)
  Features.note(call, 'R')
end

-- Up to as many of the dependents of a job that is done with as the call may still deal with (or `most`, if that is
-- less); they are no members any more. What is left is noted in the list `later`.
local function take_some(call, jid, later, most)
  local name = Keys.dependents(call, jid)
  local dependents, number = NONE, rcall('SCARD', name)
  if number == 0 and not call.has.R then
    return NONE -- like most
  end
  most = math.min(Links.left(call), most or MOST)
  if number > most then
    dependents = most > 0 and rcall('SPOP', name, most) or NONE
    Links.leave(call, later, jid)
  else
    if number > 0 then
      dependents = rcall('SMEMBERS', name)
      rcall('DEL', name)
    end
    if call.has.R then
      rcall('ZREM', later, jid)
    end
  end
  Links.spend(call, #dependents)
  for n = 1, #dependents do
    rcall('SREM', Keys.dependencies(call, dependents[n]), jid)
  end
  return dependents
end

-- The job is complete, with all that it has spawned: frees what waited for it, a bounded number at a time.
function Links.release(call, jid)
  local dependents = take_some(call, jid, call.keys.releasing)
  for n = 1, #dependents do
    Links.free_if_last(call, dependents[n])
  end
end

-- What a dependent of the job `other` does when that ends otherwise than complete.
local function policy_of(call, jid, other)
  local policy, behind = unpack(rcall('HMGET', Keys.job(call, jid), 'on_failure', 'behind'))
  return behind == other and 'behind' or policy or 'block'
end

-- Does a dependent go its own way when this job is canceled, rather than fail? (Many jobs may have the same dependents:
-- `known` are their policies.)
function Links.can_lose(call, dependent, jid, known)
  if call.old then
    return false
  end
  known[dependent] = known[dependent] or policy_of(call, dependent, jid)
  return known[dependent] ~= 'block'
end

local function fail_dependent(call, jid, other)
  local job = Job.read(call, jid)
  if job then
    local message = 'Job ' .. other .. ', on which this one depended, was canceled'
    Finish.fail_waiting(call, job, Keys.queue(call, job.queue), GROUP, message)
  end
end

-- The job's record is gone: all its dependents have to do without it.
local function visit_gone(call, jid)
  local dependents
  repeat
    dependents = take_some(call, jid, call.keys.cascading, PART)
    for _, dependent in ipairs(dependents) do
      local policy = policy_of(call, dependent, jid)
      if policy == 'run' or policy == 'behind' then
        Links.free_if_last(call, dependent)
      elseif policy == 'cancel' then
        Cancel.remove(call, dependent, 'dependency', jid)
      else
        fail_dependent(call, dependent, jid)
      end
    end
  until #dependents < PART or Links.left(call) <= 0
end

-- How a job stands to its dependents that has failed, or is complete: see spawned.lua; nil if it is done with.
local function standing_of(call, jid, state)
  return state ~= 'complete' and Spawned.FAILED or Spawned.standing(call, jid)
end

-- What the job's standing means to one of its dependents. (One that is below a complete job waits for its run alone.)
local function visit_one(call, dependent, jid, job)
  local policy = policy_of(call, dependent, jid)
  if
    policy == 'behind'
    or policy == 'run' and job.standing == Spawned.FAILED
    or job.state == 'complete' and Spawned.is_below(call, dependent, jid)
  then
    Links.remove(call, dependent, { jid })
    Links.free_if_last(call, dependent)
  elseif policy == 'cancel' and job.standing > Spawned.OPEN then
    Cancel.remove(call, dependent, 'dependency', jid)
  end
end

-- The same for some of them. -> where to go on: here again, if the call could not deal with all of these, as those that
-- were dealt with are no members any more
local function visit_page(call, jid, job, cursor)
  local page = rcall('SSCAN', Keys.dependents(call, jid), cursor, 'COUNT', PART)
  for _, dependent in ipairs(page[2]) do
    if Links.left(call) <= 0 then
      return cursor, false
    end
    Links.spend(call, 1)
    visit_one(call, dependent, jid, job)
  end
  return page[1], page[1] == '0'
end

-- The job has failed, or is complete and has open children: most dependents stay where they are, so the rest is found by
-- a cursor.
local function visit_staying(call, jid)
  local name = Keys.job(call, jid)
  local job, is_done = {}
  job.state, job.cascade = unpack(rcall('HMGET', name, 'state', 'cascade'))
  job.standing = standing_of(call, jid, job.state)
  if not job.standing then
    return Links.release(call, jid)
  end
  local cursor = job.cascade or '0'
  repeat
    cursor, is_done = visit_page(call, jid, job, cursor)
  until is_done or Links.left(call) <= 0
  if is_done then
    rcall('HDEL', name, 'cascade')
    rcall('ZREM', call.keys.cascading, jid)
  else
    rcall('HSET', name, 'cascade', cursor)
    Links.leave(call, call.keys.cascading, jid)
  end
end

local VISIT = { gone = visit_gone, failed = visit_staying, open = visit_staying }

-- A job has `failed`, is `gone`, or is complete and has `open` children: its dependents follow by their policies, and
-- theirs in turn, as many as the call may deal with. (What a visit finds is followed after it, by the loop that is at work.)
function Links.follow(call, jid, kind)
  if rcall('EXISTS', Keys.dependents(call, jid)) == 0 then
    return
  end
  local line = call.following
  if line then
    line[#line + 1] = { jid, kind }
    return
  end
  line = { { jid, kind } }
  call.following = line
  local n = 1
  while line[n] do
    local name = line[n][1]
    if Links.left(call) > 0 then
      VISIT[line[n][2]](call, name)
    elseif rcall('EXISTS', Keys.dependents(call, name)) == 1 then
      Links.leave(call, call.keys.cascading, name)
    end
    n = n + 1
  end
  call.following = nil
end

-- Those that had failed when a job was made to wait for them, where nothing could be refused: the links are there now.
function Links.follow_failed(call)
  local failed = call.failed_links or {}
  call.failed_links = nil
  for n = 1, #failed do
    Links.follow(call, failed[n], 'failed')
  end
end

-- Takes up what an earlier call had to leave of the dependents of this job.
local function go_on_cascading(call, jid)
  local state = rcall('HGET', Keys.job(call, jid), 'state')
  rcall('ZREM', call.keys.cascading, jid)
  if not state then
    Links.follow(call, jid, 'gone')
  elseif state == 'failed' or state == 'complete' then
    Links.follow(call, jid, 'failed')
  else
    rcall('HDEL', Keys.job(call, jid), 'cascade') -- It goes on: the rest waits for its new end.
  end
end

local function go_on_releasing(call, jid)
  local state = rcall('HGET', Keys.job(call, jid), 'state') or 'complete'
  rcall('ZREM', call.keys.releasing, jid)
  if state == 'complete' then -- Its record may have expired meanwhile.
    Spawned.go_on(call, jid)
  end
end

local function go_on(call, list, act)
  for _ = 1, FEW do
    local jid = Links.left(call) > 0 and rcall('ZRANGE', list, '0', '0')[1]
    if not jid then
      return
    end
    act(call, jid)
  end
end

-- Carries on with what earlier calls had to leave. -> whether there is more of it
function Links.carry_on(call)
  if not call.has.R then
    return false
  end
  go_on(call, call.keys.releasing, go_on_releasing)
  go_on(call, call.keys.cascading, go_on_cascading)
  Workflows.carry_on(call)
  if rcall('EXISTS', call.keys.releasing, call.keys.cascading, call.keys.workflows) == 0 then
    Features.forget(call, 'R')
    return false
  end
  return true
end

-- A job waits again for what is open of these; nothing is refused. What waits for it is left out.
function Links.add_again(call, job, jids)
  job.lenient = true
  local open = Links.open(call, job, jids)
  Links.add(call, job.jid, Cycles.harmless(call, job.jid, open))
  Links.follow_failed(call)
end

local function in_depends(call, jid)
  local state, on_failure, workflow =
    unpack(rcall('HMGET', Keys.job(call, jid), 'state', 'on_failure', 'workflow'))
  if state ~= 'depends' then
    Errors.refuse(call, 'STATE', 'Job ' .. Errors.name(jid) .. ' is not in the depends state')
  end
  return { jid = jid, on_failure = on_failure or nil, workflow = workflow or nil }
end

-- depends jid on|off|met jid...   depends jid off all
-- What is `met` is known to be complete: it may be gone.
function Links.depends(call, args, i)
  local jid = Arguments.name(call, 'jid', args[i])
  local word = Arguments.given(call, 'on or off', args[i + 1])
  if word ~= 'on' and word ~= 'off' and (word ~= 'met' or call.old) then
    Errors.argument(call, 'Argument "on" or "off" wanted, not ' .. Errors.value(word))
  end
  local job, jids = in_depends(call, jid), Pieces.rest(args, i + 2)
  Arguments.bounded(call, #jids)
  if word ~= 'off' then
    job.lenient = word == 'met'
    local open = Links.open(call, job, jids)
    Cycles.refuse(call, jid, open)
    Links.add(call, jid, open)
    Links.add_needs(call, jid, jids)
    Links.follow_failed(call)
    if job.workflow then
      Workflows.count_given(call, job.workflow, #jids)
    end
    return 1
  end
  if jids[1] == 'all' then
    Links.remove_all(call, jid)
  else
    Links.remove(call, jid, jids)
  end
  Links.free_if_last(call, jid)
  return 1
end

local function page_of_list(call, name, args, i)
  local offset, count = Arguments.offset(call, args[i]), Arguments.count(call, args[i + 1], 25)
  local flat = {}
  if count > 0 then
    for _, jid in ipairs(rcall('LRANGE', name, offset, offset + count - 1)) do
      flat[#flat + 1] = jid
      flat[#flat + 1] = rcall('LLEN', Keys.offspring(call, jid))
    end
  end
  return flat
end

-- needs jid [offset count] -> jid, how many jobs that one has spawned …
function Links.needs(call, args, i)
  return page_of_list(call, Keys.needs(call, Arguments.name(call, 'jid', args[i])), args, i + 1)
end

-- offspring jid [offset count] -> the same of the jobs that this one has spawned
function Links.offspring(call, args, i)
  return page_of_list(call, Keys.offspring(call, Arguments.name(call, 'jid', args[i])), args, i + 1)
end
end
end
if module_name == 'Lock' then
return function(Lock)
local Arguments, Call, Config, Corrupt, Errors, Events, Features, Finish, Job, Keys, Stats, Times, Wake =
modules.Arguments, modules.Call, modules.Config, modules.Corrupt, modules.Errors, modules.Events,
modules.Features, modules.Finish, modules.Job, modules.Keys, modules.Stats, modules.Times,
modules.Wake
-- core/lock.lua
-- The lock of a running job: who holds it, renewing it, and what becomes of one that has expired.

local rcall = redis.call

-- What is read of a run that ends.
local RUN = {
  'state',
  'worker',
  'queue',
  'token',
  'time',
  'retries',
  'remaining',
  'priority',
  'grace',
  'progress',
  'put',
  'noted',
  'unknown',
  'more',
}

-- Does the caller hold the job? Its token shows that; of old clients the worker's name.
local function holds(call, proof, run)
  if run.state ~= 'running' then
    return false
  elseif call.old then
    return proof == run.worker
  end
  return proof == run.token
end

-- Why it does not. -> code, text
local function refusal(call, run)
  local about = call.command .. '(): Job ' .. Errors.name(run.jid)
  if not run.state or not run.worker and run.state == 'running' then
    return 'NOJOB', about .. ' does not exist'
  elseif run.state ~= 'running' then
    local state = Job.state_now(call, run.jid, run.queue, run.state)
    return 'LOCKLOST', about .. ' is not currently running: ' .. state
  end
  local other = call.old and ': ' .. Errors.name(run.worker) or ''
  return 'LOCKLOST', about .. ' was given out to another worker' .. other
end

-- Reads what is known of a run. (No field but the state has to be there.)
function Lock.read(call, jid)
  local name = Keys.job(call, jid)
  local values = rcall('HMGET', name, unpack(RUN))
  return {
    jid = jid,
    key = name,
    state = values[1] or nil,
    worker = values[2] or nil,
    queue = values[3] or '',
    token = values[4] or nil,
    time = values[5] or nil,
    retries = Times.finite(values[6], 0),
    remaining = Times.finite(values[7], 0),
    priority = Times.finite(values[8], 0),
    grace = values[9] or nil,
    progress = values[10] or nil,
    put = values[11] or nil,
    noted = values[12] or nil,
    unknown = values[13] or nil,
    more = values[14] or nil,
  }
end

local function with_features(call, run)
  local letters = Features.letters(call, run.more)
  if letters then
    run.letters = letters
    Features.read(run)
  end
  return run
end

-- The run of a job, if `proof` shows that the caller holds it. -> nil, code, text if not
function Lock.claim(call, jid, proof)
  local run = Lock.read(call, jid)
  if not holds(call, proof, run) then
    return nil, refusal(call, run)
  end
  return with_features(call, run)
end

-- The same, or an error.
function Lock.holder(call, jid, proof)
  Arguments.name(call, 'jid', jid)
  Arguments.proof(call, proof)
  local run, code, text = Lock.claim(call, jid, proof)
  if not run then
    Errors.raise(code, text)
  end
  return run
end

-- Renews a lock. The next loss of it gets another notice.
function Lock.extend(call, run, expires)
  rcall('HSET', run.key, 'expires', expires)
  if run.grace then
    rcall('HDEL', run.key, 'grace')
  end
  rcall('ZADD', Keys.held(call, run.worker), expires, run.jid)
  if run.queue ~= '' then -- a damaged record names none
    rcall('ZADD', Keys.queue(call, run.queue).locks, expires, run.jid)
  end
  if run.letters then
    Features.at('renewed', call, run, tonumber(expires))
  end
end

-- heartbeat jid worker [data] -> the new expiry
function Lock.heartbeat(call, args, i)
  local jid, proof, data = args[i], args[i + 1], args[i + 2]
  if data then
    Arguments.json(call, 'data', data)
  end
  local run = Lock.holder(call, jid, proof)
  local expires = Call.later(call, Config.heartbeat(call, run.queue))
  if data then
    rcall('HSET', run.key, 'data', data)
  end
  Lock.extend(call, run, expires)
  rcall('ZADD', call.keys.workers, call.text, run.worker)
  return tonumber(expires)
end

-- Locks looked at by one call, beyond those that it frees: whose loss is only noticed costs no place.
local LOOKED = 250

-- The first loss of a lock is a notice to its owner, who has the grace period to end the job.
local function notice(call, run, queue, grace)
  Job.tell_trackers(call, 'stalled', run.jid)
  run.grace = '1'
  rcall('HSET', run.key, 'grace', '1')
  Finish.note(call, run, 'timed-out')
  Events.lock_lost(call, run.jid, run.worker)
  rcall('ZADD', queue.locks, Times.text(call.now + grace), run.jid)
  if run.letters then -- The grace begins now, however late it is: what it holds lasts as long.
    Features.at('renewed', call, run, call.now)
  end
  Stats.count(call, queue.name, 'retries', 1)
  if grace > 0 then
    Wake.due(call, queue, call.now + grace)
  end
end

-- The run of a job in the locks; false if it does not run.
local function read_running(call, jid)
  local run = Lock.read(call, jid)
  if run.state == 'running' then
    return with_features(call, run)
  elseif run.state and not Job.is_state(run.state) then
    error('the state of the job is ' .. Errors.value(run.state))
  end
  return false
end

-- Ends the run under an expired lock, or gives notice first. -> whether the job may be handed out again
local function expire(call, jid, queue, grace)
  local run = Corrupt.guard(call, jid, queue, read_running)
  if not run then
    rcall('ZREM', queue.locks, jid)
    return false
  end
  Job.unhold(call, jid, run.worker)
  if run.grace ~= '1' then
    notice(call, run, queue, grace)
    if grace > 0 then
      return false
    end
  end
  return Finish.lost(call, run, queue)
end

-- -> up to `count` jids of a queue whose locks have expired and that may be handed out again
function Lock.expired(call, queue, count)
  local freed = {}
  local most = count + (call.old and 0 or LOOKED)
  local jids = rcall('ZRANGEBYSCORE', queue.locks, '-inf', call.text, 'LIMIT', '0', most)
  if #jids == 0 then
    return freed
  end
  local grace = Config.number(call, 'grace-period')
  for _, jid in ipairs(jids) do
    if #freed == count or Finish.has_told_enough(call) then
      break
    end
    if expire(call, jid, queue, grace) then
      freed[#freed + 1] = jid
    end
  end
  return freed
end
end
end
if module_name == 'LimitSettings' then
return function(LimitSettings)
local Config, Errors, Features, Keys, Limits, Pieces, Wake =
modules.Config, modules.Errors, modules.Features, modules.Keys, modules.Limits, modules.Pieces,
modules.Wake
-- features/limit_settings.lua
-- Which limits there are: what the options of the namespace say of job types, of their keys, and of queues.

local match, sub = string.match, string.sub
local rcall = redis.call

-- What stands behind the name of a job type: limits of all its jobs, of those of each key, and its name by now.
local MOST, RATE = '-max-concurrency-of-type', '-rate-of-type'
local KEY_MOST, KEY_RATE = '-max-concurrency-per-key', '-rate-per-key'
local RENAMED = '-renamed-to'

-- What stands behind the name of a queue.
local QUEUE_RATE, QUEUE_MOST = '-rate', '-max-concurrency'

local OF_TYPES = { MOST, RATE, KEY_MOST, KEY_RATE }
local LIMITS = { QUEUE_RATE, MOST, RATE, KEY_MOST, KEY_RATE } -- of jobs, rather than of locks
local RATES = { QUEUE_RATE, RATE, KEY_RATE }
local NUMBERS = { QUEUE_MOST, MOST, KEY_MOST }

local UNITS = { s = 1, m = 60, h = 3600, d = 86400 }

-- Starts that a window may hold, each of which is kept; seconds that a window may last.
local MOST_STARTS, LONGEST = 10000, 366 * 86400

local function ending_of(option, endings)
  for _, ending in ipairs(endings) do
    if #option > #ending and sub(option, -#ending) == ending then
      return ending
    end
  end
end

-- '100/m', '5/10s' -> starts, seconds; nil: it cannot be read, or there are none
local function parse(text)
  local count, number, unit = match(text or '', '^(%d+)/(%d*%.?%d*)([smhd])$')
  local per = unit and (number == '' and 1 or tonumber(number) or 0) * UNITS[unit]
  count = tonumber(count)
  if count and count >= 1 and per > 0 and per <= LONGEST then
    return count, per
  end
end

-- A rate: { count = starts, per = seconds }; nil for none. (More starts than can be counted were set by other means.)
local function rate_of(text)
  local count, per = parse(text)
  return count and { count = math.min(count, MOST_STARTS), per = per } or nil
end

local function whole(text)
  local number = tonumber(text or nil)
  return number and number > 0 and math.ceil(number) or nil
end

-- Is it an option that is a number of jobs?
function LimitSettings.is_number(option)
  return ending_of(option, NUMBERS) ~= nil
end

-- Checks the value of an option, which may be a rate.
function LimitSettings.check(call, option, value)
  if value == '0' or not ending_of(option, RATES) then
    return
  end
  local count = parse(value)
  local name = Errors.name(option)
  if not count then
    local words = '%s must be a rate as 100/m or 5/10s (s, m, h or d), or 0 for none, not %s'
    Errors.argument(call, words, name, Errors.value(value))
  elseif count > MOST_STARTS then
    local words = '%s must be a rate of at most %d starts in a window: give a rate per second instead of %s'
    Errors.argument(call, words, name, MOST_STARTS, Errors.value(value))
  end
end

-- Do the options say anything of limits?
local function exist(call)
  for option in pairs(Pieces.hash(call.keys.config)) do
    if ending_of(option, LIMITS) then
      return true
    end
  end
  return false
end

-- An option was set or taken away, which may be a limit: what it holds back is looked at.
function LimitSettings.changed(call, option)
  local of_type = ending_of(option, OF_TYPES) or ending_of(option, { RENAMED })
  local of_queue = ending_of(option, { QUEUE_RATE, QUEUE_MOST })
  if not of_type and not of_queue then
    return
  end
  call.limits = nil
  if ending_of(option, LIMITS) and rcall('HEXISTS', call.keys.config, option) == 1 then
    Features.note(call, 'L')
  elseif not exist(call) then
    Features.forget(call, 'L')
  end
  if of_type then
    Limits.look_again(call, sub(option, 1, -#of_type - 1))
  else
    Wake.set(call, Keys.queue(call, sub(option, 1, -#of_queue - 1)))
  end
end

local function read(call, klass)
  local values = rcall(
    'HMGET',
    call.keys.config,
    klass .. RENAMED,
    klass .. MOST,
    klass .. RATE,
    klass .. KEY_MOST,
    klass .. KEY_RATE
  )
  local found = { klass = klass, most = whole(values[2]), rate = rate_of(values[3]) }
  found.key_most, found.key_rate = whole(values[4]), rate_of(values[5])
  return found, values[1]
end

-- The limits of a job type and of its keys, under the name that the type has by now (`klass`); false if there are none.
-- Read once in a call.
function LimitSettings.of(call, klass)
  local known = call.limits or {}
  call.limits = known
  local found = known[klass]
  if found == nil then
    local renamed
    found, renamed = read(call, klass)
    if renamed and renamed ~= klass then
      found = read(call, renamed)
    end
    found = (found.most or found.rate or found.key_most or found.key_rate) and found or false
    known[klass] = found
  end
  return found
end

-- The rate of a queue as a limit, or nil.
function LimitSettings.of_queue(call, queue)
  local rate = call.has.L and rate_of(Config.get(call, queue .. QUEUE_RATE))
  return rate and { name = 'queue:' .. queue, rate = rate } or nil
end
end
end
if module_name == 'Limits' then
return function(Limits)
local Arguments, Config, Errors, Fairness, Features, Finish, Job, Json, Keys, LimitSettings, Queue, Rates,
Times, Wake =
modules.Arguments, modules.Config, modules.Errors, modules.Fairness, modules.Features,
modules.Finish, modules.Job, modules.Json, modules.Keys, modules.LimitSettings, modules.Queue,
modules.Rates, modules.Times, modules.Wake
-- features/limits.lua
-- Limits: how many jobs of a type, or of a key of it, run at once, and how often they start.
--
-- A job that is met and has no room under one of its limits is parked: it leaves the work, and stands in the list of that
-- limit by its score in the work. When a slot is freed, or a window opens, the limit brings back as many of its jobs as it
-- has room for; these are met again like others. No room is kept for them: what is met first takes it, and who comes later
-- is parked again. So that no job sleeps behind one that cannot start, who leaves the work without a start makes each of
-- its limits bring back the next one.
--
-- When a limit that holds something back is to be looked at next stands in the set `parked`: when a window opens, or the
-- first hold lapses; soon if there is room, as what was brought back may be in a queue that is not served.
--
-- A run holds its limits until its lock and the grace behind it end: the field `holds` of the record says which, and how
-- many runs each allowed. A hold that has lapsed is dropped by the next start.

local format = string.format
local rcall = redis.call

Limits.fields = { 'limit_key', 'holds', 'parked' }
Limits.options = { 'limit_key' }

-- Limits looked at by one call; jobs of a queue whose limits it looks at; jobs that it brings back.
local LOOKED, HEADS, BROUGHT = 20, 20, 250

-- Seconds until a limit is looked at again that has room; and at the latest.
local SOON, LATEST = 5, 60

local NONE = {}

-- A key of limits or turns, which a put may give. What it leaves open is as it was.
function Limits.check_key(call, job, name)
  local old, text = job.old, (job.options or NONE)[name]
  if text and (text == '' or #text > 255) then
    Errors.argument(call, name .. ' must have 1 to 255 bytes, not ' .. #text)
  end
  job[name] = text or old and not job.fresh and old[name] or nil
end

function Limits.check(call, job)
  Limits.check_key(call, job, 'limit_key')
end

-- The limits of a job: of its key, then of its type. Each has `name`, and `most` or `rate`, or both.
local function limits_of(call, job)
  if not call.has.L then
    return NONE
  end
  job.klass = job.klass or rcall('HGET', job.key, 'klass') or ''
  local of = LimitSettings.of(call, job.klass)
  if not of then
    return NONE
  end
  local limits = {}
  if job.limit_key and (of.key_most or of.key_rate) then
    limits[1] = { name = 'key:' .. of.klass .. ':' .. job.limit_key, most = of.key_most, rate = of.key_rate }
  end
  if of.most or of.rate then
    limits[#limits + 1] = { name = 'type:' .. of.klass, most = of.most, rate = of.rate }
  end
  return limits
end

-- The limit of this name, of which a job is at hand. (What was taken away, or has another name by now, has no numbers.)
function Limits.named(call, name, jid)
  local job = { key = Keys.job(call, jid) }
  job.klass, job.limit_key = unpack(rcall('HMGET', job.key, 'klass', 'limit_key'))
  local limits = limits_of(call, job)
  for n = 1, #limits do
    if limits[n].name == name then
      return limits[n]
    end
  end
  return { name = name }
end

-- How many run under a limit.
function Limits.count(call, name)
  return rcall('ZCOUNT', Keys.limit_holders(call, name), '(' .. call.text, '+inf')
end

-- How many more jobs may start under a limit.
local function room_of(call, limit)
  local room = limit.most and limit.most - Limits.count(call, limit.name) or math.huge
  if limit.rate and room > 0 then
    room = math.min(room, Rates.room(call, limit))
  end
  return room
end

-- When a limit with this room is to be looked at next: when a hold lapses, or a window opens.
local function next_look(call, limit, room)
  local look = call.now + (room > 0 and SOON or LATEST)
  if limit.most and room < 1 then
    local holders = Keys.limit_holders(call, limit.name)
    local first = rcall('ZRANGEBYSCORE', holders, '(' .. call.text, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    look = math.min(look, tonumber(first[2] or nil) or look)
  end
  local opens = limit.rate and Rates.opens(call, limit)
  return math.min(look, opens or look)
end

-- A limit that holds something back is to be looked at by that time (nil: as before); `sooner`: but no later than before.
function Limits.note_look(call, name, time, sooner)
  local parked = call.keys.limits_parked
  if rcall('EXISTS', Keys.limit_parked(call, name)) == 1 then
    if time and sooner then
      rcall('ZADD', parked, 'LT', format('%.17g', time), name)
    elseif time then
      rcall('ZADD', parked, format('%.17g', time), name)
    end
  elseif rcall('ZREM', parked, name) == 1 and rcall('EXISTS', parked) == 0 then
    Features.forget(call, 'H')
  end
end

-- Brings a job back into the work that the limit of this name has parked with this score.
function Limits.bring(call, name, jid, score)
  local job = { jid = jid, key = Keys.job(call, jid) }
  rcall('ZREM', Keys.limit_parked(call, name), jid)
  job.queue, job.fair_by = unpack(rcall('HMGET', job.key, 'queue', 'fair_by'))
  if job.queue then
    local queue = Keys.queue(call, job.queue)
    rcall('ZREM', queue.parked, jid)
    rcall('HDEL', job.key, 'parked')
    rcall('ZADD', queue.work, score, jid)
    Wake.set(call, queue)
    Fairness.stand(call, job)
  end
end

-- A limit may have room again: brings back up to `count` of its jobs, the next first. (If these are not all for which there
-- is room, it is still to be looked at when it was to be.)
local function refill(call, name, count)
  local parked = Keys.limit_parked(call, name)
  local first = rcall('ZREVRANGE', parked, 0, 0)[1]
  if not first then
    return
  end
  local limit = Limits.named(call, name, first)
  local room = room_of(call, limit)
  local look, wanted = next_look(call, limit, room), math.min(room, count)
  local most = math.min(wanted, BROUGHT - (call.brought or 0))
  local jobs = most > 0 and rcall('ZREVRANGE', parked, 0, most - 1, 'WITHSCORES') or NONE
  for n = 1, #jobs, 2 do
    Limits.bring(call, name, jobs[n], jobs[n + 1])
  end
  call.brought = (call.brought or 0) + #jobs / 2
  Limits.note_look(call, name, most < wanted and call.now or look, count < room)
end

-- The limits of these names have a slot more.
local function refill_each(call, names)
  if call.has.H then
    for name in pairs(names) do
      refill(call, name, 1)
    end
  end
end

-- The job has left the work without a start: the limits that it is under, but for the one that parks it, bring back the
-- next.
local function refill_others(call, job, parking)
  local limits = call.has.H and limits_of(call, job) or NONE
  for n = 1, #limits do
    if limits[n].name ~= parking then
      refill(call, limits[n].name, 1)
    end
  end
end

function Limits.admit(call, job)
  local limits = limits_of(call, job)
  for n = 1, #limits do
    local room = room_of(call, limits[n])
    if room < 1 then
      return 'park', limits[n].name, next_look(call, limits[n], room)
    end
  end
end

-- Parks a job, which is in no place, because of the limit of that name, which is to be looked at by the time `look` (nil:
-- nothing is to be expected). The job may be one whose lock was lost.
function Limits.park(call, job, name, look)
  local queue = Keys.queue(call, job.queue)
  local score = job.score or Times.text(Queue.score(tonumber(job.priority) or 0, call.now))
  look = look or call.now + LATEST
  if job.state == 'running' then
    Finish.give_up_lost(call, job, queue)
  end
  Features.add(call, job, 'l')
  rcall('ZADD', queue.parked, score, job.jid)
  rcall('ZADD', Keys.limit_parked(call, name), score, job.jid)
  rcall('ZADD', call.keys.limits_parked, 'LT', format('%.17g', look), name)
  rcall('HSET', job.key, 'parked', name)
  Features.note(call, 'H')
  Wake.due(call, queue, look)
  refill_others(call, job, name)
  Fairness.step_down(call, job)
end

-- Drops what a run holds. -> the names of these limits
local function drop(call, job)
  local held = job.holds and Json.shown(job.holds) or NONE
  for name in pairs(held) do
    rcall('ZREM', Keys.limit_holders(call, name), job.jid)
  end
  if job.holds then
    rcall('HDEL', job.key, 'holds')
    job.holds = nil
  end
  return held
end

-- When a hold lapses whose lock ends at that time.
local function lapse(call, expires)
  return format('%.17g', tonumber(expires) + Config.number(call, 'grace-period'))
end

function Limits.started(call, job)
  drop(call, job) -- what it held by a lock that was lost
  local limits, holds = limits_of(call, job), nil
  for n = 1, #limits do
    local limit = limits[n]
    if limit.most then
      local holders = Keys.limit_holders(call, limit.name)
      rcall('ZREMRANGEBYSCORE', holders, '-inf', call.text)
      rcall('ZADD', holders, lapse(call, job.expires), job.jid)
      holds = holds or {}
      holds[limit.name] = limit.most
    end
    if limit.rate then
      Rates.count(call, limit, job.token, 1)
    end
  end
  if holds then
    job.holds = cjson.encode(holds)
    Features.add(call, job, 'l')
    rcall('HSET', job.key, 'holds', job.holds)
  end
end

-- (A hold that has lapsed and was dropped is not taken again: another one may have its slot.)
function Limits.renewed(call, job, expires)
  for name in pairs(job.holds and Json.shown(job.holds) or NONE) do
    rcall('ZADD', Keys.limit_holders(call, name), 'XX', lapse(call, expires), job.jid)
  end
end

-- What was handed out and has not started leaves the windows of its rates.
local function take_back_start(call, job)
  local limits = { LimitSettings.of_queue(call, job.queue), unpack(limits_of(call, job)) }
  for _, limit in pairs(limits) do
    if limit.rate then
      Rates.uncount(call, limit, job.token)
    end
  end
  refill_others(call, job)
end

-- The job leaves the work, or where it is parked, and has not started.
local function leave(call, job)
  if not job.parked then
    return refill_others(call, job)
  end
  rcall('ZREM', Keys.queue(call, job.queue).parked, job.jid)
  rcall('ZREM', Keys.limit_parked(call, job.parked), job.jid)
  rcall('HDEL', job.key, 'parked')
  Limits.note_look(call, job.parked)
  job.parked = nil
end

function Limits.ended(call, job, was)
  local freed = drop(call, job)
  if job.not_started then
    take_back_start(call, job)
  elseif was ~= 'running' and not Job.PENDING[job.state] then
    leave(call, job)
  end
  refill_each(call, freed)
end

function Limits.gone(call, job)
  local freed = drop(call, job)
  if job.state == 'waiting' or job.state == 'stalled' then
    leave(call, job)
  end
  refill_each(call, freed)
end

-- Looks at the limits for which it is time, once in a call. (A beat does so as well, though it takes no jobs.)
function Limits.look(call)
  if call.looked_at_limits or not call.has.H then
    return
  end
  call.looked_at_limits = true
  local due = rcall('ZRANGEBYSCORE', call.keys.limits_parked, '-inf', call.text, 'LIMIT', 0, LOOKED)
  for n = 1, #due do
    if Fairness.is_turn(due[n]) then
      Fairness.look(call, due[n])
    else
      refill(call, due[n], math.huge)
    end
  end
end

-- The limits of a job type have changed: looks at those that hold something back, now or by the next calls.
function Limits.look_again(call, klass)
  if not call.has.H then
    return
  end
  local type, of_keys = 'type:' .. klass, 'key:' .. klass .. ':'
  for _, name in ipairs(rcall('ZRANGE', call.keys.limits_parked, 0, Arguments.most - 1)) do
    if name == type or string.sub(name, 1, #of_keys) == of_keys then
      rcall('ZADD', call.keys.limits_parked, call.text, name)
    end
  end
  Limits.look(call)
end

-- A worker of the queue has room for more: brings back those of its jobs, among the first, whose limits have room. ->
-- whether there are any. (`call.looks`: by queue, when the first of these limits is to be looked at.)
function Limits.bring_own(call, queue)
  if not call.has.H then
    return false
  end
  local heads = rcall('ZREVRANGE', queue.parked, 0, HEADS - 1, 'WITHSCORES')
  local seen, brought, first = {}, false, nil
  for n = 1, #heads, 2 do
    local name = rcall('HGET', Keys.job(call, heads[n]), 'parked')
    if name and not seen[name] and not Fairness.is_turn(name) then
      seen[name] = true
      local limit = Limits.named(call, name, heads[n])
      local room = room_of(call, limit)
      local look = next_look(call, limit, room)
      if room > 0 then
        Limits.bring(call, name, heads[n], heads[n + 1])
        Limits.note_look(call, name, look)
        brought = true
      end
      first = math.min(first or look, look)
    end
  end
  call.looks = call.looks or {}
  call.looks[queue.name] = first
  return brought
end

-- When limits have something to do for a queue next, or nil.
function Limits.next_look(call, queue)
  local first = call.looks and call.looks[queue.name]
  local limit = LimitSettings.of_queue(call, queue.name)
  if limit and rcall('EXISTS', queue.work) == 1 then
    local opens = Rates.room(call, limit) < 1 and Rates.opens(call, limit)
    first = opens and math.min(first or opens, opens) or first
  end
  return first
end

-- How many more jobs of a queue may start by its rate.
function Limits.room_of_queue(call, queue)
  local limit = LimitSettings.of_queue(call, queue)
  return limit and Rates.room(call, limit) or math.huge
end

-- A number of jobs of the queue were just handed out.
function Limits.count_of_queue(call, queue, runs)
  local limit = LimitSettings.of_queue(call, queue)
  if limit then
    Rates.count(call, limit, call.token, runs)
    if Rates.room(call, limit) < 1 then
      Wake.due(call, Keys.queue(call, queue), Rates.opens(call, limit))
    end
  end
end
end
end
if module_name == 'LimitView' then
return function(LimitView)
local Arguments, Config, Json, Keys, LimitSettings, Limits, Pieces, Queue, Rates =
modules.Arguments, modules.Config, modules.Json, modules.Keys, modules.LimitSettings,
modules.Limits, modules.Pieces, modules.Queue, modules.Rates
-- views/limit_view.lua
-- Limits as pages show them: what holds jobs back, by how much, and until when.

local rcall = redis.call

-- Jobs of a queue whose limits a page shows, and limits of one page.
local LOOKED, MOST = 1000, 100

-- What holds a job back, for people: its kind, the job type it belongs to, and the key or tenant it counts for.
local function described(name, job)
  local kind = string.match(name, '^%l+')
  return {
    kind = kind,
    type = kind ~= 'fair' and job.klass or nil,
    key = (kind == 'key' and job.limit_key) or (kind == 'fair' and job.fair_by) or nil,
  }
end

-- The limits of a job with this record, as get shows them, or nil.
function LimitView.of_job(job)
  if not (job.limit_key or job.fair_by or job.parked or job.holds) then
    return nil
  end
  local shown = { key = job.limit_key, fair_by = job.fair_by }
  shown.held_back_by = job.parked and described(job.parked, job) or nil
  return shown
end

-- A limit that holds back jobs, with its figures.
local function one(call, name)
  local parked = Keys.limit_parked(call, name)
  local jid, job = Pieces.last(parked), {}
  job.klass, job.limit_key, job.fair_by =
    unpack(rcall('HMGET', Keys.job(call, jid), 'klass', 'limit_key', 'fair_by'))
  local shown, limit = described(name, job), Limits.named(call, name, jid)
  shown.first, shown.held_back = jid, rcall('ZCARD', parked)
  shown.look = tonumber(rcall('ZSCORE', call.keys.limits_parked, name) or nil)
  if limit.most then
    shown.running, shown.most = Limits.count(call, name), limit.most
  end
  if limit.rate then
    shown.started, shown.rate = Rates.used(call, limit), limit.rate
  end
  return shown
end

-- The limit of the whole queue, if it has one.
local function of_queue(call, queue)
  local most, limit = Config.concurrency(call, queue.name), LimitSettings.of_queue(call, queue.name)
  if most < 1 and not limit then
    return nil
  end
  local shown = { kind = 'queue' }
  if most > 0 then
    shown.most, shown.running = most, rcall('ZCARD', queue.locks)
  end
  if limit then
    shown.rate, shown.started = limit.rate, Rates.used(call, limit)
  end
  return shown
end

-- The names of what holds back jobs of a queue, those of its first jobs.
local function names_in(call, queue)
  local seen, names = {}, {}
  for _, jid in ipairs(rcall('ZREVRANGE', queue.parked, 0, LOOKED - 1)) do
    local name = rcall('HGET', Keys.job(call, jid), 'parked')
    if name and not seen[name] then
      seen[name] = true
      names[#names + 1] = name
    end
  end
  return names
end

-- limits queue -> the limit of the queue, those that hold back jobs of it (some of them), how many these are, and how
-- many jobs they hold back
function LimitView.show(call, args, i)
  local queue = Keys.queue(call, Arguments.name(call, 'queue', args[i]))
  local names, limits = names_in(call, queue), {}
  for n = 1, math.min(#names, MOST) do
    limits[n] = one(call, names[n])
  end
  table.sort(limits, function(a, b)
    return a.held_back > b.held_back or (a.held_back == b.held_back and a.first < b.first)
  end)
  local shown = { queue = of_queue(call, queue), total = #names, held_back = Queue.count_parked(call, queue) }
  return Json.with(cjson.encode(shown), 'limits', limits[1] and cjson.encode(limits) or '[]')
end
end
end
else
if module_name == 'Minutes' then
return function(Minutes)
local Arguments, Errors, Keys, Pieces, Samples, Times =
modules.Arguments, modules.Errors, modules.Keys, modules.Pieces, modules.Samples, modules.Times
-- core/minutes.lua
-- Counters per queue and minute of what was put, started, completed and failed. Those of the whole namespace stand under
-- a name that no queue has, ''.

local floor, format = math.floor, string.format
local rcall = redis.call

local KINDS = { 'put', 'started', 'completed', 'failed' }
local TOTALLED = { started = true, completed = true, failed = true }
local KEPT = 26 * 3600 -- an hour's counters are kept until its last minute is 25 hours old
local LONGEST = 25 * 60

Minutes.kinds, Minutes.longest = KINDS, LONGEST

local function add(call, queue, kind, minute, n)
  local name = Keys.minutes(call, queue, Times.whole(floor(minute / 60)), kind)
  if rcall('HINCRBY', name, Times.text(minute % 60), n) == n then
    rcall('EXPIRE', name, KEPT)
  end
end

-- Adds to the counters of one minute of the epoch.
function Minutes.write(call, queue, kind, minute, n)
  add(call, queue, kind, minute, n)
  if TOTALLED[kind] then
    add(call, '', kind, minute, n)
  end
end

-- Counts for the present minute, at the end of the call.
function Minutes.add(call, queue, kind, n)
  local counts = call.minutes
  if not counts then
    counts = {}
    call.minutes = counts
  end
  local of_kind = counts[kind]
  if not of_kind then
    of_kind = {}
    counts[kind] = of_kind
  end
  of_kind[queue] = (of_kind[queue] or 0) + n
end
Minutes.count = Minutes.add

function Minutes.keep(call)
  local minute = floor(call.now / 60)
  for kind, of_kind in pairs(call.minutes) do
    for queue, n in pairs(of_kind) do
      Minutes.write(call, queue, kind, minute, n)
    end
  end
end

-- Shows the counters of a queue, or of the whole namespace (''), in a span of minutes: visit(kind, minute, n). The kinds
-- are the keys of span.kinds. What the statistics do not have yet is among them.
function Minutes.each(call, queue, span, visit)
  local function count(kind, minute, n)
    if minute >= span.from and minute <= span.to and span.kinds[kind] then
      visit(kind, minute, n)
    end
  end
  for kind in pairs(span.kinds) do
    for hour = floor(span.from / 60), floor(span.to / 60) do
      for minute, n in pairs(Pieces.hash(Keys.minutes(call, queue, format('%.0f', hour), kind))) do
        count(kind, hour * 60 + tonumber(minute), tonumber(n))
      end
    end
  end
  Samples.each(call, function(second, kind, _, n, its_queue)
    if queue == '' or its_queue == queue then
      count(Samples.counted_as[kind], floor(second / 60), n)
    end
  end)
end

-- minutes queue from to -> by kind: minute of the epoch -> number
function Minutes.show(call, args, i)
  local queue = Arguments.queue(call, args[i])
  local from = Arguments.whole(call, 'from', args[i + 1], 0)
  local to = Arguments.whole(call, 'to', args[i + 2], 0)
  if to - from > LONGEST then
    Errors.refuse(call, 'TOOBIG', '%s minutes, at most %s', to - from, LONGEST)
  end
  local shown = {}
  for _, kind in ipairs(KINDS) do
    shown[kind] = {}
  end
  Minutes.each(call, queue, { from = from, to = to, kinds = shown }, function(kind, minute, n)
    local field = format('%.0f', minute)
    shown[kind][field] = (shown[kind][field] or 0) + n
  end)
  return cjson.encode(shown)
end
end
end
if module_name == 'Meta' then
return function(Meta)
local Pieces =
modules.Pieces
-- views/meta.lua
-- What the namespace says about itself.

-- meta -> now, clock, token, format, uses, and skews if there were any
function Meta.show(call)
  local shown = Pieces.hash(call.keys.meta)
  shown.now = string.format('%.6f', call.now)
  return cjson.encode(shown)
end
end
end
end
else
if initial < 80 then
if module_name == 'Once' then
return function(Once)
local Arguments, Keys =
modules.Arguments, modules.Keys
-- core/once.lua
-- Requests that are carried out once, however late they are repeated: once:<id>. Their replies are kept for a week.

local rcall = redis.call

local GRACE = 60 -- seconds; who has read a row of an outbox before it was deleted may still send its request

-- once.forget id... : nothing repeats these requests any more, but for the time of grace -> how many were kept
function Once.forget(call, args, i)
  Arguments.given(call, 'id', args[i])
  Arguments.bounded(call, #args - i + 1)
  local kept = 0
  for n = i, #args do
    kept = kept + rcall('EXPIRE', Keys.once(call, args[n]), GRACE)
  end
  return kept
end
end
end
if module_name == 'OurCommands' then
return function(OurCommands)
-- core/our_commands.lua
-- The commands that exist with KEYS only.

OurCommands.reads = {
  needs = 'Links.needs',
  offspring = 'Links.offspring',
  results = 'Results.show',
  ['results.gone'] = 'Results.gone',
  result = 'Results.one',
  ['jobs.count'] = 'QueueView.count_jobs',
  ['schedule.get'] = 'ScheduleView.get',
  ['schedule.list'] = 'ScheduleView.list',
  ['schedule.declared'] = 'ScheduleView.declared',
  ['queues.part'] = 'QueueView.part',
  lag = 'QueueStats.lag',
  due = 'QueueStats.due',
  limits = 'LimitView.show',
  survey = 'QueueStats.survey',
  minutes = 'Minutes.show',
  throughput = 'Throughput.show',
  ['failed.of'] = 'Throughput.failed',
  ['stats.counters'] = 'Stats.counters',
  brief = 'JobSummary.brief',
  briefs = 'JobSummary.briefs',
  search = 'Search.search',
  ['job.view'] = 'JobPage.show',
  ['failure.groups'] = 'FailureGroups.list',
  ['failure.group'] = 'FailureGroups.show',
  ['worker.views'] = 'WorkerView.list',
  ['tag.counts'] = 'Tags.counts',
  ['schedules.of'] = 'ScheduleView.of',
  ['schedules.next'] = 'ScheduleView.next',
  ['schedules.in'] = 'QueueSchedules.list',
  ['schedules.count'] = 'QueueSchedules.numbers',
  ['tracked.jids'] = 'JobSummary.tracked',
  meta = 'Meta.show',
  ['workflow.get'] = 'WorkflowCommands.get',
  ['workflow.jobs'] = 'WorkflowCommands.jobs',
  ['entity.show'] = 'EntityView.show',
  ['entities.list'] = 'EntityView.list',
  ['entities.counts'] = 'EntityView.counts',
  ['detached.get'] = 'Detached.get',
}

OurCommands.writes = {
  ['put.many'] = 'Put.many',
  ['put.once'] = 'PutOnce.put',
  spawn = 'Spawned.spawn',
  settle = 'Settle.settle',
  beat = 'Worker.beat',
  release = 'Runs.release',
  progress = 'Runs.progress',
  order = 'Worker.order',
  revive = 'Failures.revive',
  ['schedule.set'] = 'Schedules.set',
  ['schedule.update'] = 'Schedules.update',
  ['schedule.pause'] = 'Schedules.pause',
  ['schedule.resume'] = 'Schedules.resume',
  ['schedule.run'] = 'Schedules.run',
  ['schedule.remove'] = 'Schedules.remove',
  ['schedule.due'] = 'Ticks.due',
  ['schedule.tick'] = 'Ticks.tick',
  ['queue.pause'] = 'Pause.pause_with',
  ['queue.forget.empty'] = 'QueueView.forget_empty',
  each = 'Bulk.each',
  await = 'Waiters.await',
  push = 'EntityPush.push',
  ['dead.back'] = 'Dead.back',
  ['dead.delete'] = 'Dead.delete',
  ['entities.kill'] = 'EntityCommands.kill',
  ['entities.drop'] = 'EntityCommands.drop',
  ['workflow.put'] = 'WorkflowCommands.put',
  ['workflow.begin'] = 'WorkflowCommands.begin',
  ['workflow.release'] = 'WorkflowCommands.release',
  ['workflow.cancel'] = 'WorkflowCommands.cancel',
  ['workflow.retry'] = 'WorkflowCommands.retry',
  ['detached.keep'] = 'Detached.keep',
  forget = 'Cancel.forget_ended',
  ['once.forget'] = 'Once.forget',
}
end
end
else
if initial < 81 then
if module_name == 'Pause' then
return function(Pause)
local Arguments, Errors, Features, Json, Keys, Pieces, Wake =
modules.Arguments, modules.Errors, modules.Features, modules.Json, modules.Keys, modules.Pieces,
modules.Wake
-- core/pause.lua
-- Pausing queues: none of their jobs are handed out; and why, for people.

local rcall = redis.call

local REASON, BY = 500, 255 -- bytes

-- The queues that a command names.
function Pause.names(call, args, i)
  Arguments.given(call, 'queue', args[i])
  Arguments.bounded(call, #args - i + 1)
  return Pieces.rest(args, i)
end

local function checked_names(call, args, i)
  for n = i, #args do
    Arguments.name(call, 'queue', args[n])
  end
  return Pause.names(call, args, i)
end

-- What is known of the pause of a paused queue: reason, by, at.
function Pause.known(call, queue)
  local known = Json.shown(rcall('HGET', call.keys.paused_reasons, queue) or nil)
  return next(known) and known or nil
end

-- -> whether the queue was not paused
local function pause(call, queue)
  local is_new = rcall('SADD', call.keys.paused_queues, queue) == 1
  Features.note(call, 'P')
  return is_new
end

-- pause queue...
function Pause.pause(call, args, i)
  for _, queue in ipairs(checked_names(call, args, i)) do
    pause(call, queue)
  end
end

local function short(call, what, text, most)
  Arguments.given(call, what, text)
  if #text > most then
    Errors.refuse(call, 'TOOBIG', '%s has %s bytes, at most %s', what, #text, most)
  end
  return text
end

-- queue.pause reason by queue...: a queue that is paused keeps its reason unless there is a new one
function Pause.pause_with(call, args, i)
  local reason, by = short(call, 'reason', args[i], REASON), short(call, 'by', args[i + 1], BY)
  local text = cjson.encode({ reason = reason, by = by, at = call.now })
  for _, queue in ipairs(checked_names(call, args, i + 2)) do
    if pause(call, queue) or reason ~= '' then
      rcall('HSET', call.keys.paused_reasons, queue, text)
    end
  end
end

-- unpause queue...
function Pause.unpause(call, args, i)
  for _, name in ipairs(Pause.names(call, args, i)) do
    local queue = Keys.queue(call, name)
    rcall('HDEL', call.keys.paused_reasons, name)
    if rcall('SREM', call.keys.paused_queues, name) == 1 then
      Wake.set(call, queue)
    end
  end
  if rcall('EXISTS', call.keys.paused_queues) == 0 then
    Features.forget(call, 'P')
  end
end
end
end
if module_name == 'Pieces' then
return function(Pieces)
-- core/pieces.lua
-- Commands with many values, in pieces: Lua cannot unpack more than some thousand.

local rcall = redis.call

local PIECE = 1000

-- Runs a command of a key over all of the values.
function Pieces.run(command, name, values)
  local n = #values
  if n == 0 then
    return
  end
  if n <= PIECE then
    rcall(command, name, unpack(values))
    return
  end
  for first = 1, n, PIECE do
    rcall(command, name, unpack(values, first, math.min(first + PIECE - 1, n)))
  end
end

-- Adds all members to a sorted set with one score, a text.
function Pieces.add(name, score, members)
  local values = {}
  for n = 1, #members do
    values[2 * n - 1] = score
    values[2 * n] = members[n]
  end
  Pieces.run('ZADD', name, values)
end

-- The member of a sorted set with the lowest score, and the score; nil if there is none.
function Pieces.first(name)
  local found = rcall('ZRANGE', name, '0', '0', 'WITHSCORES')
  return found[1], tonumber(found[2])
end

-- The same with the highest score.
function Pieces.last(name)
  local found = rcall('ZREVRANGE', name, '0', '0', 'WITHSCORES')
  return found[1], tonumber(found[2])
end

-- The fields of a hash in a table by their names.
function Pieces.hash(name)
  local flat, record = rcall('HGETALL', name), {}
  for n = 1, #flat, 2 do
    record[flat[n]] = flat[n + 1]
  end
  return record
end

-- The arguments from args[i] on.
function Pieces.rest(args, i)
  local rest = {}
  for n = i, #args do
    rest[#rest + 1] = args[n]
  end
  return rest
end
end
end
if module_name == 'Priority' then
return function(Priority)
local Arguments, Job, Keys, Times =
modules.Arguments, modules.Job, modules.Keys, modules.Times
-- core/priority.lua
-- The priority of a single job.

local rcall = redis.call

-- priority jid p
function Priority.set(call, args, i)
  local jid = Arguments.name(call, 'jid', args[i])
  local priority = Arguments.number(call, 'priority', args[i + 1])
  local job = Job.must_read(call, jid)
  local queue = Keys.queue(call, job.queue)
  for _, place in ipairs({ queue.work, queue.parked }) do
    local score = job.state == 'waiting' and rcall('ZSCORE', place, jid)
    if score then
      local text = Times.text(tonumber(score) - job.priority + priority)
      rcall('ZADD', place, text, jid)
      if job.parked then
        rcall('ZADD', Keys.limit_parked(call, job.parked), text, jid)
      end
    end
  end
  rcall('HSET', job.key, 'priority', Times.text(priority))
  return priority
end
end
end
if module_name == 'Put' then
return function(Put)
local Arguments, Call, Cancel, Cycles, Errors, Events, Failures, Features, History, Job, Json, Keys,
Links, Minutes, Queue, Rows, Tags, Times =
modules.Arguments, modules.Call, modules.Cancel, modules.Cycles, modules.Errors, modules.Events,
modules.Failures, modules.Features, modules.History, modules.Job, modules.Json, modules.Keys,
modules.Links, modules.Minutes, modules.Queue, modules.Rows, modules.Tags, modules.Times
-- core/put.lua
-- Putting jobs: new ones, or old ones again (which moves or revives them). One is a batch of one.

local rcall = redis.call

-- Is the job left alone, as it is there already?
local function is_left_alone(call, job, plan)
  if job.old and job.absent == '1' then
    return true
  end
  return plan.leaves ~= nil and plan.leaves(call, job)
end

-- Reads the record that there is of a job. What it uses of features goes on.
local function look(call, job, plan)
  job.old = rcall('EXISTS', job.key) == 1 and Job.read(call, job.jid) or nil -- mostly there is none
  job.left_alone = is_left_alone(call, job, plan)
  if job.left_alone then
    plan.coming[job.jid] = nil
    return
  end
  local old = job.old
  if old and old.letters and old.more then
    Features.use(job, old.more)
  end
end

-- What is of the job itself; the rest belongs to the one whose place it takes.
local OWN = { jid = true, key = true, given = true, old = true, fresh = true, behind = true, spare = true }
for _, field in ipairs({ 'parent', 'spawned', 'spawns', 'adopted' }) do -- see spawned.lua
  OWN[field] = true
end

-- The job takes the place of one that was to be put by the same call, which keeps its jid.
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
  if earlier.old and earlier.old.more then
    Features.use(earlier, earlier.old.more)
  end
  job.instead = earlier.jid
end

-- The job takes the place of one that has not started: under its jid, but as if it were new.
local function replace(call, job, jid, plan)
  if plan.coming[jid] then
    local words = 'job %s would replace %s, which is in the same batch'
    Errors.argument(call, words, Errors.name(job.jid), Errors.name(jid))
  end
  job.given, job.jid, job.key = job.jid, jid, Keys.job(call, jid)
  job.old, job.fresh = Job.read(call, jid), true
  if job.old and job.old.more then
    Features.use(job, job.old.more)
  end
  plan.coming[job.given], plan.coming[jid] = nil, job
  Features.check(call, job) -- again, as one that is `fresh`
end

-- Asks the features of a job, and does as they say.
local function check_features(call, job, plan)
  job.plan = plan
  local answer, other = Features.check(call, job)
  if answer == 'instead' then
    job.instead = other
  elseif answer == 'absorb' then
    absorb(other, job)
  elseif answer == 'replace' then
    replace(call, job, other, plan)
  elseif answer == 'behind' then
    job.behind = other
  elseif answer == 'leave' then
    job.left_alone = true
  end
  if job.instead or job.left_alone then
    plan.coming[job.jid] = nil
  end
  job.plan = nil
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
local function leave_spare_ones(plan)
  local wanted = {}
  for n = #plan.jobs, 1, -1 do
    local job = plan.jobs[n]
    if plan.coming[job.jid] == job then
      if job.spare == '1' and not wanted[job.jid] then
        job.left_alone, plan.coming[job.jid] = true, nil
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

-- The dependencies of a batch, by jid, if they could make a cycle: jobs that are all new, and of which each waits for
-- earlier ones only, cannot.
local function links_of(plan)
  local planned, earlier, harmless = nil, {}, true
  for _, job in ipairs(plan.jobs) do
    if plan.coming[job.jid] == job then
      if job.depends and #job.depends > 0 then
        planned = planned or {}
        planned[job.jid] = job.depends
        for _, other in ipairs(job.depends) do
          harmless = harmless and (not plan.coming[other] or earlier[other])
        end
      end
      harmless = harmless and not job.old
      earlier[job.jid] = true
    end
  end
  return not harmless and planned or nil
end

-- The jids without those known to be complete that have no record any more.
local function without_met(call, job, coming)
  local rest = {}
  for _, jid in ipairs(job.depends) do
    if not job.met[jid] or coming[jid] or rcall('EXISTS', Keys.job(call, jid)) == 1 then
      rest[#rest + 1] = jid
    end
  end
  return rest
end

-- Looks which of its dependencies hold a job back, and refuses cycles.
local function check_dependencies(call, job, plan, planned)
  if job.fresh or job.behind then
    job.depends = job.depends or {}
    job.replaces_links = true
  end
  if job.depends and #job.depends > 0 then
    job.replaces_links, job.needs = true, job.depends
    if job.met then
      job.depends = without_met(call, job, plan.coming)
    end
    local one = { jid = job.jid, on_failure = job.on_failure, lenient = plan.lenient, parent = job.parent }
    job.depends = Links.open(call, one, job.depends, plan.coming)
  end
  if job.behind then
    job.depends = { job.behind, unpack(job.depends) } -- (the list may be the one of a shape)
  end
  if not job.replaces_links or plan.acyclic then
    return
  end
  if planned then
    planned[job.jid] = job.depends
  end
  if job.old or planned then
    Cycles.refuse(call, job.jid, job.depends, planned)
  end
end

-- Checks jobs that have been parsed, and writes nothing. A plan has `jobs`, and may say that jobs not there yet make no
-- cycle (`acyclic`), that unknown dependencies are satisfied (`lenient`), and which jobs are left alone (`leaves`).
function Put.check(call, plan)
  local jobs, coming, stands = plan.jobs, {}, nil
  plan.coming = coming
  for n = 1, #jobs do
    local job = jobs[n]
    if coming[job.jid] then
      Errors.argument(call, 'jid ' .. Errors.name(job.jid) .. ' twice in one batch')
    end
    coming[job.jid] = job
  end
  local has_links, has_spare = false, false
  for n = 1, #jobs do
    local job = jobs[n]
    look(call, job, plan)
    if job.letters and not job.left_alone then
      check_features(call, job, plan)
      if job.instead or job.given then
        stands = stands or {}
        stands[job.given or job.jid] = job.instead or job.jid
        if job.instead_gone then
          stands[job.jid] = false
        end
      end
    end
    has_links = has_links or job.depends or job.fresh or job.behind
    has_spare = has_spare or job.spare
  end
  for n = 1, stands and #jobs or 0 do
    translate(jobs[n], stands)
  end
  if has_spare then
    leave_spare_ones(plan)
  end
  if has_links then
    local planned = links_of(plan)
    for n = 1, #jobs do
      if coming[jobs[n].jid] == jobs[n] then
        check_dependencies(call, jobs[n], plan, planned)
      end
    end
  end
  return plan
end

-- Fields that do not go on into a new run.
local OF_ONE_RUN = {
  'grace',
  'scheduled',
  'token',
  'noted',
  'progress',
  'crashes',
  'unknown',
  'context',
  'returned',
  'failed_from',
  'behind',
  'cascade',
}

-- What the new run keeps of the old one because the put says nothing about it. A job that takes another's place
-- (`fresh`) keeps what others know it by.
local function inherit(job)
  local old = job.old
  if job.fresh then
    return
  end
  job.priority, job.retries = job.priority or old.priority, job.retries or old.retries
  job.tag_list = job.tag_list or Json.shown(old.tags)
  if not job.replaces_links then
    job.on_failure = job.on_failure or old.on_failure
    job.behind = job.behind or old.behind
  end
end

-- Undoes what the old record did outside of it.
local function clear(call, job, asking)
  local old, jid = job.old, job.jid
  local queue = Keys.queue(call, old.queue)
  Tags.unindex_all(call, jid, old.tags)
  if old.queue ~= '' then
    Queue.leave(call, queue, jid)
  end
  Job.unhold(call, jid, old.worker)
  if old.worker ~= asking then
    Events.lock_lost(call, jid, old.worker)
  end
  if old.state == 'complete' or not Job.is_state(old.state) then
    rcall('ZREM', call.keys.completed, jid)
  end
  if old.state == 'failed' or not Job.is_state(old.state) then
    Failures.remove(call, old)
  end
  if job.replaces_links then
    Links.remove_all(call, jid)
    rcall('DEL', Keys.needs(call, jid))
  end
  rcall('HDEL', old.key, unpack(OF_ONE_RUN))
  rcall('DEL', Keys.result(call, jid))
  if old.letters then
    old.new = job
    Features.at('gone', call, old, 'replaced')
    local fields = Features.fields(old.letters)
    rcall('HDEL', old.key, 'more', 'on_failure', unpack(fields))
  elseif old.on_failure then
    rcall('HDEL', old.key, 'on_failure')
  end
end

-- The fields of the record, those that change at every step first.
local function write(call, job, state)
  local retries = Times.text(job.retries)
  local fields = {
    'state',
    state,
    'put',
    job.put or '',
    'time',
    call.text,
    'remaining',
    retries,
    'klass',
    job.klass,
    'data',
    job.data,
    'priority',
    Times.text(job.priority),
    'queue',
    job.queue,
    'retries',
    retries,
  }
  if job.old then
    fields[19], fields[20], fields[21], fields[22], fields[23], fields[24] =
      'worker', '', 'expires', '0', 'tags', '{}'
  end
  if job.tag_list and #job.tag_list > 0 then
    fields[#fields + 1], fields[#fields + 2] = 'tags', cjson.encode(job.tag_list)
  end
  if job.context then
    fields[#fields + 1], fields[#fields + 2] = 'context', job.context
  end
  if job.on_failure and job.on_failure ~= 'block' then
    fields[#fields + 1], fields[#fields + 2] = 'on_failure', job.on_failure
  end
  if job.behind then
    fields[#fields + 1], fields[#fields + 2] = 'behind', job.behind
  end
  if job.spawned_from_jid then
    fields[#fields + 1], fields[#fields + 2] = 'spawned_from_jid', job.spawned_from_jid
  end
  if state == 'depends' and job.delay > 0 then
    fields[#fields + 1], fields[#fields + 2] =
      'scheduled', string.format('%.17g', job.at or call.now + job.delay)
  end
  if job.letters then
    job.more = job.letters
    fields[#fields + 1], fields[#fields + 2] = 'more', job.more
    Features.append(job, fields)
  end
  rcall('HSET', job.key, unpack(fields))
end

-- The places of the job by its state.
local function place(call, job, queue, state)
  if state == 'depends' then
    Queue.hold(call, queue, job.jid)
  elseif state == 'scheduled' then
    Queue.schedule(call, queue, job.jid, job.at or call.now + job.delay)
  elseif job.overdue then
    Queue.push(call, queue, job.jid, job.priority, job.overdue)
    Queue.ready_since(call, job, job.overdue)
  else
    Queue.push(call, queue, job.jid, job.priority)
  end
end

-- Writes down a job that Put.check has checked. `asking` is the worker that puts it. Cannot fail.
function Put.store(call, job, asking)
  local jid, queue, old = job.jid, Keys.queue(call, job.queue), job.old
  if not job.silent then
    Events.put(call, jid, queue)
  end
  if old then
    History.put(call, jid, job.queue)
    inherit(job)
    clear(call, job, asking)
  else
    job.put = job.put or Call.milliseconds(call)
    if call.has.X then
      Cancel.forget(call, jid)
    end
  end
  job.priority, job.retries = job.priority or 0, job.retries or 5
  if job.tag_list then
    Tags.index(call, jid, job.tag_list)
  end
  if job.replaces_links then
    Links.add(call, jid, job.depends)
    Links.add_needs(call, jid, job.needs)
  end
  local held_back = job.replaces_links and #job.depends > 0
    or old and rcall('SCARD', Keys.dependencies(call, jid)) > 0
    or job.gate
  local state = held_back and 'depends' or job.delay > 0 and 'scheduled' or 'waiting'
  write(call, job, state)
  place(call, job, queue, state)
  job.state = state
  if job.letters then
    Features.at('stored', call, job)
  end
  if call.has.T then
    Job.tell_trackers(call, 'put', jid)
  end
  Minutes.add(call, job.queue, 'put', 1)
end

-- Puts the jobs of a plan; cannot fail. -> the jids left alone; given jid, jid that stands for it …
function Put.carry_out(call, plan, asking)
  local left, instead, queues = {}, {}, {}
  for n = 1, #plan.jobs do
    local job = plan.jobs[n]
    if job.instead then
      instead[#instead + 1], instead[#instead + 2] = job.jid, job.instead
    elseif job.left_alone then
      left[#left + 1] = job.jid
    else
      Put.store(call, job, asking)
      queues[job.queue] = true
      if job.given then
        instead[#instead + 1], instead[#instead + 2] = job.given, job.jid
      end
    end
  end
  for queue in pairs(queues) do
    Queue.register(call, Keys.queue(call, queue))
  end
  if call.failed_links then
    Links.follow_failed(call)
  end
  return { left, instead }
end

-- put worker shape columns values… -> the jid that stands for the job; old clients: put worker queue jid klass data delay
-- [name value]…
local function put_one(call, args, i)
  local asking = Arguments.given(call, 'worker', args[i])
  local jobs = call.old and { Rows.of_old_client(call, args, i + 1) } or Rows.parse(call, args, i + 1)
  local job = jobs[1]
  if #jobs ~= 1 then
    Errors.argument(call, 'one job wanted, not ' .. #jobs .. ': put.many takes more')
  elseif job.spare then
    Errors.argument(call, 'spare can only be used in a batch')
  end
  if call.command == 'requeue' and rcall('EXISTS', job.key) == 0 then
    Errors.no_job(call, job.jid)
  end
  Put.carry_out(call, Put.check(call, { jobs = jobs }), asking)
  if job.left_alone then
    return false
  end
  return job.instead or job.jid
end
Put.put, Put.requeue = put_one, put_one

-- put.many worker shape columns values… -> as carry_out
function Put.many(call, args, i)
  local asking = Arguments.given(call, 'worker', args[i])
  return Put.carry_out(call, Put.check(call, { jobs = Rows.parse(call, args, i + 1) }), asking)
end
end
end
if module_name == 'Payloads' then
return function(Payloads)
local Keys =
modules.Keys
-- features/payloads.lua
-- The payloads of an entity: those that wait, in the order of their scores, and those that its run has taken.

local rcall = redis.call

Payloads.most = 1000 -- of one entity in a run, and moved by one call to the dead or back
Payloads.bytes = 1024 * 1024 -- of one entity in a run
Payloads.each = 64 * 1024 -- bytes of one payload

local FEW = 15 -- payloads that fit into a run however large they are
local PIECE = 50 -- payloads read at a time

-- Adds payloads: score, text, score, text … Of equal ones the lower score stays. -> how many are new
function Payloads.join(name, flat)
  local new = 0
  for first = 1, #flat, 1000 do
    new = new + rcall('ZADD', name, 'LT', unpack(flat, first, math.min(first + 999, #flat)))
  end
  return new
end

-- The payloads with the lowest scores, at most `most` and `bytes` in all (but at least one), as `join` takes them.
-- -> these, their bytes
function Payloads.lowest(name, most, bytes)
  local flat, used = {}, 0
  repeat
    local at = #flat / 2
    local part = rcall('ZRANGE', name, at, math.min(at + PIECE, most) - 1, 'WITHSCORES')
    for n = 1, #part, 2 do
      used = used + #part[n]
      if flat[1] and used > bytes then
        return flat, used - #part[n]
      end
      flat[#flat + 1], flat[#flat + 2] = part[n + 1], part[n]
    end
  until #part < 2 * PIECE
  return flat, used
end

-- Moves the payloads with the lowest scores, which `lowest` has read. -> whether none is left
function Payloads.move(from, to, flat)
  if flat[1] then
    Payloads.join(to, flat)
    rcall('ZREMRANGEBYRANK', from, 0, #flat / 2 - 1)
  end
  return rcall('EXISTS', from) == 0
end

-- What a run had taken waits again.
function Payloads.give_back(call, jid)
  local taken = Keys.taken(call, jid)
  if rcall('EXISTS', taken) == 1 then
    Payloads.move(taken, Keys.payloads(call, jid), (Payloads.lowest(taken, math.huge, math.huge)))
  end
end

-- Takes the payloads of a run, those with the lowest scores. -> their texts, their bytes
function Payloads.take(call, jid)
  local waiting, taken = Keys.payloads(call, jid), Keys.taken(call, jid)
  local number = rcall('ZCARD', waiting)
  if number > 0 and number <= FEW and rcall('EXISTS', taken) == 0 then
    rcall('RENAME', waiting, taken)
  else
    Payloads.give_back(call, jid) -- of a run that was lost
    Payloads.move(waiting, taken, (Payloads.lowest(waiting, Payloads.most, Payloads.bytes)))
  end
  local texts, used = rcall('ZRANGE', taken, 0, -1), 0
  for n = 1, #texts do
    used = used + #texts[n]
  end
  return texts, used
end
end
end
if module_name == 'PutOnce' then
return function(PutOnce)
local Arguments, Features, Keys, Lock, Put, Rows =
modules.Arguments, modules.Features, modules.Keys, modules.Lock, modules.Put, modules.Rows
-- features/put_once.lua
-- put.once: a running job puts others in several steps, each once, however often it runs. What was put under a name is
-- forgotten when the job ends well.

local rcall = redis.call

PutOnce.fields = { 'once' }

local KEPT = 604800 -- seconds for which it is remembered what a job has put that never ends

-- The jids of a plan that are remembered. (Others may come to want what is spare.)
local function jids_of(plan)
  local jids = {}
  for _, job in ipairs(plan.jobs) do
    if job.spare ~= '1' then
      jids[#jids + 1] = job.given or job.jid
    end
  end
  return jids
end

-- put.once name jid token worker (as put.many) -> as put.many. Those that were put under this name are left alone, no
-- matter what they are by now.
function PutOnce.put(call, args, i)
  local name = Arguments.name(call, 'name', args[i])
  local run = Lock.holder(call, args[i + 1], args[i + 2])
  local asking = Arguments.given(call, 'worker', args[i + 3])
  local produced = Keys.produced(call, name)
  local plan = { jobs = Rows.parse(call, args, i + 4) }
  plan.leaves = function(_, job)
    return rcall('SISMEMBER', produced, job.jid) == 1
  end
  Put.check(call, plan)
  local jids = jids_of(plan)
  local reply = Put.carry_out(call, plan, asking)
  Features.add(call, run, 'o')
  rcall('HSET', run.key, 'once', name)
  if #jids > 0 then
    rcall('SADD', produced, unpack(jids))
    rcall('EXPIRE', produced, KEPT)
  end
  return reply
end

local function forget(call, job)
  if job.once then
    rcall('UNLINK', Keys.produced(call, job.once)) -- there may be very many
  end
end

function PutOnce.ended(call, job)
  if job.state == 'complete' then
    forget(call, job)
  end
end

function PutOnce.gone(call, job, why)
  if why ~= 'expired' and why ~= 'replaced' then
    forget(call, job)
  end
end
end
end
else
if module_name == 'Queue' then
return function(Queue)
local Corrupt, Errors, Job, Keys, Wake =
modules.Corrupt, modules.Errors, modules.Job, modules.Keys, modules.Wake
-- core/queue.lua
-- The places of a queue: work, locks, scheduled, depends (and parked: see limits.lua). A job is in exactly one.
-- `queue` is that of Keys.queue everywhere.

local format = string.format
local rcall = redis.call

-- Highest first: by priority, then the longest waiting. Ties are popped in falling order of jid.
function Queue.score(priority, time)
  return priority - time / 1e10
end

-- The job may be handed out. `time`: since when, if not from now on.
function Queue.push(call, queue, jid, priority, time)
  local score
  if priority == 0 and not time then
    call.score = call.score or format('%.17g', 0 - call.now / 1e10)
    score = call.score
  else
    score = format('%.17g', Queue.score(priority, time or call.now))
  end
  rcall('ZADD', queue.work, score, jid)
  Wake.set(call, queue)
end

-- Back to where a job was taken from: the head of its priority. Its equals there have the same score, and of those the
-- one with the higher jid comes first; ours fall with time.
function Queue.push_first(call, queue, jid, priority)
  local score = Queue.score(priority, call.now)
  local head = rcall('ZREVRANGEBYSCORE', queue.work, priority, score, 'WITHSCORES', 'LIMIT', '0', '1')
  rcall('ZADD', queue.work, head[2] or score, jid)
  Wake.set(call, queue)
end

-- The job becomes ready at that time.
function Queue.schedule(call, queue, jid, time)
  rcall('ZADD', queue.scheduled, format('%.17g', time), jid)
  Wake.due(call, queue, time)
end

-- The job waits for others.
function Queue.hold(call, queue, jid)
  rcall('ZADD', queue.depends, call.text, jid)
end

-- The job leaves whichever place it is in.
function Queue.leave(call, queue, jid)
  rcall('ZREM', queue.work, jid)
  if rcall('ZREM', queue.locks, jid) == 1 then
    Wake.freed(call, queue)
  end
  rcall('ZREM', queue.depends, jid)
  rcall('ZREM', queue.scheduled, jid)
end

-- Something comes into the queue: it is known from then on.
function Queue.register(call, queue)
  if rcall('ZADD', call.keys.ready, '0', queue.name) == 1 or call.has.F then
    rcall('ZADD', call.keys.queues, 'NX', call.text, queue.name)
  end
end

-- Since when a job is ready, from which its lag is counted: a number.
function Queue.ready_since(call, job, time)
  rcall('HSET', job.key, 'time', time and format('%.17g', time) or call.text)
end

-- A job that waits for its time need not any longer. (Others stay as they are.)
function Queue.run_now(call, queue, job)
  if rcall('ZREM', queue.scheduled, job.jid) == 1 then
    rcall('HSET', job.key, 'state', 'waiting')
    Queue.ready_since(call, job)
    Queue.push(call, queue, job.jid, job.priority)
  end
end

-- Moves jobs whose time has come into the work, at most `wanted`. Their places are by when that was; old clients move
-- them as if it was now.
function Queue.move_due(call, queue, wanted)
  local due = rcall('ZRANGEBYSCORE', queue.scheduled, '-inf', call.text, 'WITHSCORES', 'LIMIT', '0', wanted)
  for n = 1, #due, 2 do
    local jid, since = due[n], tonumber(due[n + 1])
    local job = { jid = jid, key = Keys.job(call, jid) }
    local values = rcall('HMGET', job.key, 'priority', 'state', 'more')
    if Job.is_state(values[2]) then
      local by_due = not call.old or string.find(values[3] or '', 'e', 1, true)
      rcall('HSET', job.key, 'state', 'waiting')
      if by_due then
        Queue.ready_since(call, job, since)
      end
      Queue.push(call, queue, jid, tonumber(values[1]) or 0, by_due and since or nil)
    elseif values[2] or values[1] then
      Corrupt.fail(call, jid, queue, 'the state of the job is ' .. Errors.value(values[2] or ''))
    end
    rcall('ZREM', queue.scheduled, jid)
  end
end

-- How many delayed jobs count as waiting by now, and which they are.
function Queue.count_due(call, queue)
  return rcall('ZCOUNT', queue.scheduled, '-inf', call.text)
end

function Queue.list_due(call, queue, offset, count)
  return rcall('ZRANGEBYSCORE', queue.scheduled, '-inf', call.text, 'LIMIT', offset, count)
end

-- How many jobs limits hold back.
function Queue.count_parked(call, queue)
  return call.has.H and rcall('ZCARD', queue.parked) or 0
end

-- Is the queue paused?
function Queue.is_paused(call, queue)
  return call.has.P and rcall('SISMEMBER', call.keys.paused_queues, queue.name) == 1
end
end
end
if module_name == 'Queues' then
return function(Queues)
local Keys =
modules.Keys
-- core/queues.lua
-- Which queues a call serves, in what order: those that the names and globs of a worker stand for.
--
-- They are served in the order given, those of a glob in order of name. Of globs, and of many names, only queues are asked
-- that may have something: those of the key `ready`. A queue comes into it with the first thing that comes into the queue,
-- and is taken out by a call that finds nothing in any of its places. Names are read in pages: most calls find enough in
-- the first.

local find, gsub = string.find, string.gsub
local rcall = redis.call

local MANY = 64 -- names of which each is asked; of more, only those that are ready
local MOST = 1000 -- queues looked at by one call for a glob; with more than that the second half begins anywhere
local PAGE = 50
local LONGEST = 1000 -- bytes of the text of a choice

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

-- Visits queues that may have something, in order of name, until `visit` returns true. -> whether it did
local function each_ready(call, visit)
  local name, from, looked = call.keys.ready, '-', 0
  repeat
    local page = rcall('ZRANGE', name, from, '+', 'BYLEX', 'LIMIT', '0', PAGE)
    for n = 1, #page do
      if visit(page[n]) then
        return true
      end
    end
    looked = looked + #page
    from = '(' .. (page[#page] or '')
    if looked == MOST / 2 and rcall('ZCARD', name) > MOST then
      from = '[' .. rcall('ZRANDMEMBER', name)
    end
  until #page < PAGE or looked >= MOST
  return false
end

-- Those of the names that may have something, as a set.
local function ready_among(call, names)
  local found = {}
  local scores = rcall('ZMSCORE', call.keys.ready, unpack(names))
  for n = 1, #names do
    found[names[n]] = scores[n] and true
  end
  return found
end

-- A choice as text, the same in every order of its names and globs, and without names for which a glob stands: workers
-- that rank their queues send these as well. A text that would be too long stands for all queues.
function Queues.text(choice)
  local globs, names = {}, {}
  for _, name in ipairs(choice.names) do
    globs[#globs + 1] = is_glob(name) and name or nil
  end
  local patterns = patterns_of(globs)
  for _, name in ipairs(choice.names) do
    names[#names + 1] = (is_glob(name) or not matches_any(name, patterns)) and name or nil
  end
  table.sort(names)
  local text = cjson.encode({ names, choice.excluding })
  return #text <= LONGEST and text or cjson.encode({ { '*' }, {}, redis.sha1hex(text) })
end

-- Is this queue among those for which the text stands?
function Queues.text_has(text, queue)
  local names, excluded = unpack(cjson.decode(text))
  return matches_any(queue, patterns_of(names)) and not matches_any(queue, patterns_of(excluded))
end

-- The queues of a worker. Whether there are globs among the names (`globbing`), or too many names (`partly`): then only
-- queues that may have something are asked, and `queues` has those that were. `excluded` are globs.
function Queues.choose(call, names, excluded)
  local choice =
    { queues = {}, globbing = false, partly = #names > MANY, names = names, excluding = excluded }
  for n = 1, #names do
    choice.globbing = choice.globbing or is_glob(names[n])
  end
  choice.excluded = #excluded > 0 and patterns_of(excluded) or excluded
  if choice.globbing or choice.partly then
    return choice
  end
  local seen, queues = {}, choice.queues
  for n = 1, #names do
    if not seen[names[n]] and not matches_any(names[n], choice.excluded) then
      seen[names[n]] = true
      queues[#queues + 1] = Keys.queue(call, names[n])
    end
  end
  return choice
end

-- Is nothing in any place of the queue?
function Queues.is_empty(queue)
  local names = { queue.work, queue.locks, queue.scheduled, queue.recur, queue.parked, queue.depends }
  return rcall('EXISTS', unpack(names)) == 0
end

-- Visits those of the queues of a worker that may have something, each once, until `visit` returns true.
local function each_of_many(call, choice, visit)
  local seen, wanted = {}, choice.partly and ready_among(call, choice.names)
  local function visit_once(name)
    if seen[name] or matches_any(name, choice.excluded) then
      return false
    end
    seen[name] = true
    local queue = Keys.queue(call, name)
    choice.queues[#choice.queues + 1] = queue
    return visit(queue)
  end
  for _, name in ipairs(choice.names) do
    local is_enough = false
    if is_glob(name) then
      local its = pattern(name)
      is_enough = each_ready(call, function(one)
        return find(one, its) and visit_once(one)
      end)
    elseif not wanted or wanted[name] then
      is_enough = visit_once(name)
    end
    if is_enough then
      return
    end
  end
end

-- Takes up to wish.count jobs: `take` is given a queue and a number, and returns how many it has taken.
function Queues.serve(call, choice, wish, take)
  local wanted = wish.count
  if not (choice.globbing or choice.partly) then
    for n = 1, #choice.queues do
      wanted = wanted - take(choice.queues[n], wanted)
      if wanted <= 0 then
        return
      end
    end
    return
  end
  each_of_many(call, choice, function(queue)
    local taken = take(queue, wanted)
    wanted = wanted - taken
    if taken == 0 and Queues.is_empty(queue) then
      rcall('ZREM', call.keys.ready, queue.name)
    end
    return wanted <= 0
  end)
end

-- All queues that there are, in the order first seen; at most `most`, if that is given.
function Queues.names(call, most)
  return rcall('ZRANGE', call.keys.queues, 0, most and most - 1 or -1)
end
end
end
if module_name == 'QueueSchedules' then
return function(QueueSchedules)
local Arguments, Errors, Keys, Pieces, ScheduleView =
modules.Arguments, modules.Errors, modules.Keys, modules.Pieces, modules.ScheduleView
-- views/queue_schedules.lua
-- The schedules that put jobs into a queue, and its templates.

local rcall = redis.call

local QUEUES = 200 -- of which one call says how many they have

local function places(call, name)
  local queue = Keys.queue(call, name)
  return { queue.schedules, queue.recur }
end

-- How many schedules these queues have, in their order.
function QueueSchedules.count(call, names)
  local numbers = {}
  for n, name in ipairs(names) do
    local schedules, recur = unpack(places(call, name))
    numbers[n] = rcall('ZCARD', schedules) + rcall('ZCARD', recur)
  end
  return numbers
end

-- schedules.count queue... -> how many each has
function QueueSchedules.numbers(call, args, i)
  local names = Pieces.rest(args, i)
  if #names > QUEUES then
    Errors.refuse(call, 'TOOBIG', '%s queues in one call, at most %s', #names, QUEUES)
  end
  return QueueSchedules.count(call, names)
end

-- schedules.in queue offset count -> total and schedules, by id; then templates
function QueueSchedules.list(call, args, i)
  local queue = Arguments.name(call, 'queue', args[i])
  local offset = Arguments.whole(call, 'offset', args[i + 1], 0)
  local count = math.min(Arguments.whole(call, 'count', args[i + 2], 0), Arguments.most)
  return ScheduleView.part(call, places(call, queue), offset, count)
end
end
end
if module_name == 'QueueStats' then
return function(QueueStats)
local Arguments, Config, Keys, Pieces, Queue, Queues =
modules.Arguments, modules.Config, modules.Keys, modules.Pieces, modules.Queue, modules.Queues
-- views/queue_stats.lua
-- How long jobs have waited and have to wait: the lag of queues, what falls due in them, and the survey by which workers
-- choose among them.

local format, min = string.format, math.min
local rcall = redis.call

local LEVELS = 32 -- of priority that are looked at

-- When the first thing in a place falls due, or `latest` if that is not before it.
local function first_due(place, latest)
  local _, time = Pieces.first(place)
  return time and min(latest, time) or latest
end

-- Since when the oldest waiting job has been ready, at a cost that does not grow with the queue: the first of each level
-- of priority is the oldest of it. -> the time, whether there is any
local function oldest_waiting(call, queue)
  local highest, oldest, found = '+inf', call.now, false
  for _ = 1, LEVELS do
    local jid = rcall('ZREVRANGEBYSCORE', queue.work, highest, '-inf', 'LIMIT', 0, 1)[1]
    local record = jid and rcall('HMGET', Keys.job(call, jid), 'time', 'priority')
    if not record or not record[1] then
      break
    end
    found = true
    oldest = min(oldest, tonumber(record[1]) or oldest)
    -- Below all that could have been put at this priority until a day from now.
    local lowest = Queue.score(tonumber(record[2] or nil) or 0, call.now + 86400)
    highest = '(' .. format('%.17g', lowest)
  end
  return oldest, found
end

-- -> the age of the oldest ready job in seconds, whether there is one
local function lag(call, queue)
  local oldest, found = oldest_waiting(call, queue)
  local due = first_due(queue.recur, first_due(queue.scheduled, oldest))
  return call.now - due, found or due < oldest
end

-- Since when the oldest ready job of the queue has waited, in seconds.
function QueueStats.lag_of(call, queue)
  return (lag(call, queue))
end

-- The queues named from args[i] on.
local function queues_from(call, args, i)
  Arguments.given(call, 'queue', args[i])
  Arguments.bounded(call, #args - i + 1)
  local queues = {}
  for n = i, #args do
    queues[#queues + 1] = Keys.queue(call, args[n])
  end
  return queues
end

-- lag queue... -> seconds, as text, for each
function QueueStats.lag(call, args, i)
  local lags = {}
  for n, queue in ipairs(queues_from(call, args, i)) do
    lags[n] = format('%.6f', (lag(call, queue)))
  end
  return lags
end

-- due queue... -> for each: when its first scheduled job and its first recurring one fall due, as text, '' if there is
-- none
function QueueStats.due(call, args, i)
  local times = {}
  for _, queue in ipairs(queues_from(call, args, i)) do
    for _, place in ipairs({ queue.scheduled, queue.recur }) do
      times[#times + 1] = rcall('ZRANGE', place, 0, 0, 'WITHSCORES')[2] or ''
    end
  end
  return times
end

-- Are there jobs that a limit holds back which is to be looked at?
local function may_open(call, queue)
  return call.has.H
    and first_due(call.keys.limits_parked, call.now + 1) <= call.now
    and rcall('EXISTS', queue.parked) == 1
end

-- Is there anything that a pop would hand out, or has to look at? -> that, the lag
local function look(call, queue)
  if may_open(call, queue) then
    return true, (lag(call, queue))
  elseif rcall('EXISTS', queue.work, queue.scheduled, queue.recur, queue.locks) == 0 then
    return false, 0
  end
  local seconds, found = lag(call, queue)
  return found or first_due(queue.locks, call.now + 1) <= call.now, seconds
end

-- survey [queue...] -> name, ready (1 or 0), lag, weight, paused (1 or 0) of each, as texts; without names of all queues
-- that are known, as far as one call may handle them
function QueueStats.survey(call, args, i)
  local names, flat = Pieces.rest(args, i), {}
  Arguments.bounded(call, #names)
  if #names == 0 then
    names = Queues.names(call, Arguments.most)
  end
  for n, name in ipairs(names) do
    local queue = Keys.queue(call, name)
    local ready, seconds = look(call, queue)
    local at = 5 * n - 4
    flat[at], flat[at + 1] = name, ready and '1' or '0'
    flat[at + 2], flat[at + 3] = format('%.6f', seconds), format('%.17g', Config.weight(call, name))
    flat[at + 4] = Queue.is_paused(call, queue) and '1' or '0'
  end
  return flat
end
end
end
if module_name == 'QueueView' then
return function(QueueView)
local Arguments, Cancel, Errors, Features, JobView, Keys, Pause, Pieces, Queue, QueueSchedules, Queues,
Recurring =
modules.Arguments, modules.Cancel, modules.Errors, modules.Features, modules.JobView, modules.Keys,
modules.Pause, modules.Pieces, modules.Queue, modules.QueueSchedules, modules.Queues,
modules.Recurring
-- views/queue_view.lua
-- Queues as they are shown: what is in them, the lists of their jobs; and forgetting them.

local rcall = redis.call

-- Calls that must not write count what is due as waiting; the others move it.
local function counts(call, name)
  local queue, due = Keys.queue(call, name), 0
  if call.reading then
    due = Queue.count_due(call, queue)
  else
    Queue.move_due(call, queue, Arguments.most)
  end
  local paused = rcall('SISMEMBER', call.keys.paused_queues, name) == 1
  -- (Of old clients, locks that expired before 1970 are not seen as stalled.)
  local stalled = rcall('ZCOUNT', queue.locks, call.old and '0' or '-inf', call.text)
  local parked = Queue.count_parked(call, queue)
  return {
    name = name,
    waiting = rcall('ZCARD', queue.work) + parked + due,
    held_back = parked > 0 and parked or nil,
    stalled = stalled,
    running = rcall('ZCARD', queue.locks) - stalled,
    scheduled = rcall('ZCARD', queue.scheduled) - due,
    depends = rcall('ZCARD', queue.depends),
    recurring = rcall('ZCARD', queue.recur),
    paused = paused,
    pause = paused and not call.old and Pause.known(call, name) or nil,
  }
end

local MOST_COUNTED = 500

-- queues.part offset count -> counts of `count` queues (at most 500) in the order first seen
function QueueView.part(call, args, i)
  local first = Arguments.whole(call, 'offset', args[i], 0)
  local count = math.min(Arguments.whole(call, 'count', args[i + 1], 0), MOST_COUNTED)
  local all = {}
  if count > 0 then
    for n, queue in ipairs(rcall('ZRANGE', call.keys.queues, first, first + count - 1)) do
      all[n] = counts(call, queue)
    end
  end
  return cjson.encode(all)
end

-- queues [queue] (Of all queues: for old clients, as it is not bounded.)
function QueueView.show(call, args, i)
  if args[i] then
    return cjson.encode(counts(call, Arguments.name(call, 'queue', args[i])))
  end
  local all = {}
  for n, queue in ipairs(Queues.names(call)) do
    all[n] = counts(call, queue)
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
local function page(name, lowest, highest, range)
  local count = range.count < 0 and Arguments.most or range.count
  return rcall('ZRANGEBYSCORE', name, lowest, highest, 'LIMIT', range.offset, count)
end

local function extend(jids, more)
  for n = 1, #more do
    jids[#jids + 1] = more[n]
  end
end

-- What is ready, the next to be handed out first; what limits hold back; what is due and not moved yet.
local function waiting(call, queue, offset, count)
  count = count < 0 and Arguments.most or count
  local jids = count > 0 and rcall('ZREVRANGE', queue.work, offset, offset + count - 1) or {}
  local before = rcall('ZCARD', queue.work)
  local parked = Queue.count_parked(call, queue)
  if #jids < count and parked > 0 then
    local first = math.max(0, offset - before)
    extend(jids, rcall('ZREVRANGE', queue.parked, first, first + count - #jids - 1))
  end
  if #jids < count then
    local first = math.max(0, offset - before - parked)
    extend(jids, Queue.list_due(call, queue, first, count - #jids))
  end
  return jids
end

-- Is there a list of jids of this kind?
function QueueView.is_list(state)
  return state == 'waiting' or LISTS[state] ~= nil
end

-- The jids of a part of the list.
function QueueView.jids(call, state, queue, range)
  if state == 'waiting' then
    return waiting(call, queue, range.offset, range.count)
  end
  local name = queue[LISTS[state]]
  if state == 'running' then
    return page(name, call.text, '+inf', range)
  elseif state == 'stalled' then
    return page(name, '-inf', call.text, range)
  elseif state == 'scheduled' and call.reading then
    return page(name, '(' .. call.text, '+inf', range)
  elseif state == 'scheduled' then
    Queue.move_due(call, queue, Arguments.most)
  end
  return page(name, '-inf', '+inf', range)
end

local function range_of(call, args, i)
  return { offset = Arguments.offset(call, args[i]), count = Arguments.count(call, args[i + 1], 25) }
end

-- jobs complete|canceled [offset count]
-- jobs waiting|running|stalled|scheduled|depends|recurring queue [offset count]
function QueueView.jobs(call, args, i)
  local state = Arguments.given(call, 'state', args[i])
  if state == 'complete' then
    local range = range_of(call, args, i + 1)
    local count = range.count < 0 and Arguments.most or range.count
    return rcall('ZREVRANGEBYSCORE', call.keys.completed, '+inf', '-inf', 'LIMIT', range.offset, count)
  elseif state == 'canceled' and not call.old then
    local range = range_of(call, args, i + 1)
    return Cancel.part(call, range.offset, range.count)
  elseif not QueueView.is_list(state) or (state == 'waiting' and call.old) then
    Errors.argument(call, 'Unknown type ' .. Errors.name(state))
  end
  local queue = Keys.queue(call, Arguments.name(call, 'queue', args[i + 1]))
  return QueueView.jids(call, state, queue, range_of(call, args, i + 2))
end

-- jobs.count complete|canceled: how many are kept
function QueueView.count_jobs(call, args, i)
  local state = Arguments.given(call, 'state', args[i])
  if state == 'canceled' then
    return Cancel.count(call)
  elseif state ~= 'complete' then
    Errors.argument(call, 'Unknown type ' .. Errors.name(state))
  end
  return rcall('ZCARD', call.keys.completed)
end

-- length queue
function QueueView.length(call, args, i)
  local queue = Keys.queue(call, Arguments.name(call, 'queue', args[i]))
  return rcall('ZCARD', queue.locks)
    + rcall('ZCARD', queue.work)
    + Queue.count_parked(call, queue)
    + rcall('ZCARD', queue.scheduled)
end

-- (What is in a queue that is forgotten is found by workers of globs as before.)
local function forget(call, names)
  Pieces.run('ZREM', call.keys.queues, names)
  for _, name in ipairs(names) do
    if Queues.is_empty(Keys.queue(call, name)) then
      rcall('ZREM', call.keys.ready, name)
    else
      Features.note(call, 'F')
    end
  end
end

-- queue.forget queue...
function QueueView.forget(call, args, i)
  forget(call, Pause.names(call, args, i))
end

-- What is in a queue, in words.
local function contents(call, queue, schedules)
  local due = Queue.count_due(call, queue)
  local numbers = {
    { rcall('ZCARD', queue.work) + due + Queue.count_parked(call, queue), 'waiting' },
    { rcall('ZCARD', queue.locks), 'running or stalled' },
    { rcall('ZCARD', queue.scheduled) - due, 'scheduled' },
    { rcall('ZCARD', queue.depends), 'dependent' },
    { schedules, 'recurring' },
  }
  local found = {}
  for _, number in ipairs(numbers) do
    if number[1] > 0 then
      found[#found + 1] = number[1] .. ' ' .. number[2]
    end
  end
  return table.concat(found, ', ')
end

-- queue.forget.empty queue...: the same if nothing is in them and no schedule puts anything there
function QueueView.forget_empty(call, args, i)
  local names = Pause.names(call, args, i)
  local schedules = QueueSchedules.count(call, names)
  for n, name in ipairs(names) do
    local found = contents(call, Keys.queue(call, name), schedules[n])
    if found ~= '' then
      Errors.refuse(call, 'STATE', 'Queue %s is in use: %s', Errors.name(name), found)
    end
  end
  forget(call, names)
end

-- peek queue count
function QueueView.peek(call, args, i)
  local queue = Keys.queue(call, Arguments.name(call, 'queue', args[i]))
  local count = Arguments.count(call, Arguments.given(call, 'count', args[i + 1]))
  if count <= 0 then
    return '{}'
  end
  local jids = page(queue.locks, '-inf', call.text, { offset = 0, count = count })
  if #jids < count and not call.reading then
    Recurring.spawn_due(call, queue, count - #jids)
    Queue.move_due(call, queue, count - #jids)
  end
  if #jids < count then
    extend(jids, waiting(call, queue, 0, count - #jids))
  end
  return JobView.list(call, jids)
end
end
end
end
end
end
else
if initial < 84 then
if initial < 83 then
if module_name == 'Results' then
return function(Results)
local Arguments, Keys, Pieces =
modules.Arguments, modules.Keys, modules.Pieces
-- core/results.lua
-- What jobs have returned, kept for a while in keys that expire by themselves.

local rcall = redis.call

-- The seconds that were left of the time for which the result of a complete job is kept, by its record; nil if its last
-- run has returned nothing.
function Results.left(call, job)
  local time, run = string.match(job.returned or '', '^(%d+) (.*)$')
  if time and run == (job.token or '') then
    return tonumber(time) - call.now
  end
end

local function is_gone(call, jid)
  local job = { jid = jid }
  job.state, job.token, job.returned =
    unpack(rcall('HMGET', Keys.job(call, jid), 'state', 'token', 'returned'))
  return job.state == 'complete' and Results.left(call, job) and rcall('EXISTS', Keys.result(call, jid)) == 0
end

local function jids_of(call, args, i)
  Arguments.given(call, 'jid', args[i])
  Arguments.bounded(call, #args - i + 1)
  return Pieces.rest(args, i)
end

-- result jid
function Results.one(call, args, i)
  return rcall('GET', Keys.result(call, Arguments.name(call, 'jid', args[i])))
end

-- results jid... -> what each returned, JSON, or nil
function Results.show(call, args, i)
  local names = jids_of(call, args, i)
  for n, jid in ipairs(names) do
    names[n] = Keys.result(call, jid)
  end
  return rcall('MGET', unpack(names))
end

-- results.gone jid... -> those whose results have expired
function Results.gone(call, args, i)
  local jids = {}
  for _, jid in ipairs(jids_of(call, args, i)) do
    if is_gone(call, jid) then
      jids[#jids + 1] = jid
    end
  end
  return jids
end
end
end
if module_name == 'Rows' then
return function(Rows)
local Arguments, Cycles, Errors, Features, Keys =
modules.Arguments, modules.Cycles, modules.Errors, modules.Features, modules.Keys
-- core/rows.lua
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
end
end
if module_name == 'Runs' then
return function(Runs)
local Arguments, Cycles, Entities, Errors, Events, Features, Finish, Job, Links, Lock, Pieces =
modules.Arguments, modules.Cycles, modules.Entities, modules.Errors, modules.Events,
modules.Features, modules.Finish, modules.Job, modules.Links, modules.Lock, modules.Pieces
-- core/runs.lua
-- The commands on a single run, by its token: complete, fail, retry, release, progress, timeout. (Workers of ours settle.)

local rcall = redis.call

local COMPLETE_OPTIONS =
  { next = true, delay = true, depends = true, result = true, result_ttl = true, held = true }

-- complete jid worker queue data [pairs] -> its new state
function Runs.complete(call, args, i)
  local jid, proof = Arguments.name(call, 'jid', args[i]), args[i + 1]
  local queue, data = Arguments.name(call, 'queue', args[i + 2]), args[i + 3]
  Arguments.proof(call, proof)
  Arguments.json(call, 'data', data)
  local given = Arguments.options(call, args, i + 4, COMPLETE_OPTIONS)
  local to = given.next
  if not to and (given.delay or given.depends) then
    Errors.argument(call, 'delay and depends can only be used with next')
  end
  given.data = data
  given.delay = given.delay and Arguments.number(call, 'delay', given.delay) or 0
  given.needs = given.depends and Arguments.names(call, 'depends', given.depends) or {}
  if given.result and given.result ~= '' then
    Arguments.json(call, 'result', given.result, Arguments.text_bytes)
    given.ttl = Arguments.whole(call, 'result_ttl', given.result_ttl or '3600', 1)
  end
  given.held = Arguments.held(call, given.held)
  local run = Lock.holder(call, jid, proof)
  if run.queue ~= queue then
    local words = 'Job %s is running in another queue: %s'
    Errors.refuse(call, 'STATE', words, Errors.name(jid), Errors.name(run.queue))
  end
  if not to then
    Finish.complete(call, run, given)
    return 'complete'
  end
  Arguments.queue(call, to)
  if run.entity then
    Errors.raise(Entities.no_move(call, jid))
  end
  given.depends = Links.open_for_move(call, jid, given.needs)
  Cycles.refuse(call, jid, given.depends)
  return Finish.advance(call, run, to, given)
end

-- fail jid worker group message [data]; with KEYS also [data [held]], where '' is no data
function Runs.fail(call, args, i)
  local jid, proof = Arguments.name(call, 'jid', args[i]), args[i + 1]
  Arguments.proof(call, proof)
  local given = { group = Arguments.given(call, 'group', args[i + 2]) }
  given.message = Arguments.message(call, args[i + 3])
  given.held = Arguments.held(call, args[i + 5])
  given.data = args[i + 4]
  if given.data == '' and args[i + 5] and not call.old then
    given.data = nil
  end
  if given.data then
    Arguments.json(call, 'data', given.data)
  end
  Finish.fail(call, Lock.holder(call, jid, proof), given)
  return jid
end

-- retry jid queue worker [delay] [group] [message]; with KEYS also [held], where group and message may both be ''
function Runs.retry(call, args, i)
  local jid = Arguments.name(call, 'jid', args[i])
  local queue = Arguments.name(call, 'queue', args[i + 1])
  Arguments.plain(call, 'queue', queue)
  local proof = Arguments.proof(call, args[i + 2])
  local given = { delay = Arguments.number(call, 'delay', args[i + 3] or '0') }
  given.group, given.message = args[i + 4], args[i + 5]
  given.held = Arguments.held(call, args[i + 6])
  if given.held and given.group == '' and given.message == '' then
    given.group, given.message = nil, nil
  end
  if given.message then
    Arguments.message(call, given.message)
  end
  local run = Lock.holder(call, jid, proof)
  Arguments.queue(call, queue)
  return Finish.retry(call, run, run.entity and run.queue or queue, given)
end

-- release jid token [delay [held]]: back into its queue and its place there, no retry used up
function Runs.release(call, args, i)
  local given = { what = 'returned', first = true }
  given.delay = Arguments.number(call, 'delay', args[i + 2] or '0')
  given.held = Arguments.held(call, args[i + 3])
  local run = Lock.holder(call, args[i], args[i + 1])
  run.not_started = not given.held
  Finish.give_back(call, run, given)
  return 1
end

-- progress jid token json
function Runs.progress(call, args, i)
  local jid, text = Arguments.name(call, 'jid', args[i]), args[i + 2]
  Arguments.json(call, 'progress', text, Arguments.text_bytes)
  if not string.find(text, '^%s*%[') then
    Errors.argument(call, 'progress must be a JSON list, [fraction, text]')
  end
  local run = Lock.holder(call, jid, args[i + 1])
  rcall('HSET', run.key, 'progress', text)
  return 1
end

-- Who holds what is to be taken from its worker.
local function running(call, jid)
  local run = Lock.read(call, Arguments.name(call, 'jid', jid))
  if not run.state then
    Errors.no_job(call, jid)
  elseif run.state ~= 'running' then
    local state = Job.state_now(call, jid, run.queue, run.state)
    Errors.refuse(call, 'STATE', 'Job ' .. Errors.name(jid) .. ' not running but ' .. Errors.state(state))
  end
  run.letters = Features.letters(call, run.more)
  if run.letters then
    Features.read(run)
  end
  return run
end

-- timeout jid...: takes the job from its worker and puts it before all others.
function Runs.timeout(call, args, i)
  local jids, runs = Pieces.rest(args, i), {}
  Arguments.bounded(call, #jids)
  for n, jid in ipairs(jids) do
    runs[n] = running(call, jid)
  end
  for _, run in ipairs(runs) do
    if rcall('HGET', run.key, 'state') == 'running' then
      Finish.run(call, run, { what = 'timed-out', state = 'stalled' })
      Events.lock_lost(call, run.jid, run.worker)
    end
  end
end
end
end
if module_name == 'Rates' then
return function(Rates)
local Keys, Pieces =
modules.Keys, modules.Pieces
-- features/rates.lua
-- Rates: how many starts the window behind us leaves room for. Each start is kept with its time, so that no span of that
-- length ever holds more. A limit has `name` and `rate`.

local format = string.format
local rcall = redis.call

-- What is kept goes by itself when nothing has started for a window and these seconds more.
local KEPT = 60

-- Times are as exact as this.
local TICK = 1e-6

-- When the window begins. (What started then is in it yet.)
local function beginning(call, limit)
  return format('%.17g', call.now - limit.rate.per)
end

-- How many have started in the window that ends now.
function Rates.used(call, limit)
  return rcall('ZCOUNT', Keys.limit_starts(call, limit.name), beginning(call, limit), '+inf')
end

-- How many more may start.
function Rates.room(call, limit)
  return math.max(0, limit.rate.count - Rates.used(call, limit))
end

-- When more may start than now, or nil.
function Rates.opens(call, limit)
  local surplus = math.max(0, Rates.used(call, limit) - limit.rate.count) -- the rate was lowered
  local starts = Keys.limit_starts(call, limit.name)
  local first =
    rcall('ZRANGEBYSCORE', starts, beginning(call, limit), '+inf', 'WITHSCORES', 'LIMIT', surplus, 1)
  return first[2] and tonumber(first[2]) + limit.rate.per + TICK
end

-- Counts the starts of that number of `runs`, of which the last one has this token.
function Rates.count(call, limit, token, runs)
  local starts, values = Keys.limit_starts(call, limit.name), {}
  for n = 0, runs - 1 do
    values[2 * n + 1], values[2 * n + 2] = call.text, format('%.0f', token - n)
  end
  rcall('ZREMRANGEBYSCORE', starts, '-inf', '(' .. beginning(call, limit))
  Pieces.run('ZADD', starts, values)
  rcall('PEXPIRE', starts, format('%.0f', (limit.rate.per + KEPT) * 1000))
end

-- The run with this token was handed out, but has not started.
function Rates.uncount(call, limit, token)
  rcall('ZREM', Keys.limit_starts(call, limit.name), token)
end
end
end
if module_name == 'Recurring' then
return function(Recurring)
local Arguments, Corrupt, Errors, Features, Json, Keys, Pieces, Put, Queue, Schedules, Tags, Ticks, Wake =
modules.Arguments, modules.Corrupt, modules.Errors, modules.Features, modules.Json, modules.Keys,
modules.Pieces, modules.Put, modules.Queue, modules.Schedules, modules.Tags, modules.Ticks,
modules.Wake
-- features/recurring.lua
-- Recurring jobs of the protocol: templates, and the jobs that they spawn when jobs of their queue are asked for. (What
-- recurs for clients of our own are schedules, which the ticker serves: see schedules.lua.)

local format, floor = string.format, math.floor
local rcall = redis.call

local AGAIN = 60 -- seconds until a template that cannot be read is looked at again

local OPTIONS = { priority = true, tags = true, retries = true, backlog = true }

local function interval_of(call, value)
  local interval = Arguments.number(call, 'interval', value)
  if interval <= 0 then
    Errors.argument(call, 'interval must be greater than 0, not ' .. Errors.value(value))
  end
  return interval
end

local function child(jid, number)
  return jid .. '-' .. format('%.0f', number)
end

local function exists(call, jid)
  return rcall('EXISTS', Keys.job(call, jid)) == 1
end

-- A number from which on a new template counts its jobs: those of an earlier one of its jid are never overwritten.
local function last_child(call, jid)
  local last = 0
  while last < 2 ^ 30 and exists(call, child(jid, last + 1)) do
    last = last == 0 and 1 or last * 2
  end
  return last
end

-- recur queue jid klass data interval <interval> <offset> [pairs]
function Recurring.recur(call, args, i)
  local template = {
    queue = Arguments.queue(call, args[i]),
    jid = Arguments.jid(call, args[i + 1]),
    klass = Arguments.given(call, 'klass', args[i + 2]),
    data = args[i + 3],
    state = 'recur',
    type = 'interval',
  }
  local jid = template.jid
  Arguments.json(call, 'data', template.data)
  if args[i + 4] ~= 'interval' then
    Errors.argument(call, 'schedule type "interval" wanted, not ' .. Errors.value(args[i + 4]))
  end
  template.interval = interval_of(call, args[i + 5])
  local due = call.now + Arguments.number(call, 'offset', args[i + 6])
  local options = Arguments.options(call, args, i + 7, OPTIONS)
  template.priority = Arguments.number(call, 'priority', options.priority or '0')
  template.tags = cjson.encode(Arguments.tag_list(call, options.tags or '[]'))
  template.retries = Arguments.whole(call, 'retries', options.retries or '0', 0)
  template.backlog = Arguments.number(call, 'backlog', options.backlog or '0')

  local name, queue = Keys.template(call, jid), Keys.queue(call, template.queue)
  local its_queue, count = unpack(rcall('HMGET', name, 'queue', 'count'))
  if its_queue then
    rcall('ZREM', Keys.queue(call, its_queue).recur, jid)
  end
  Schedules.forget(call, jid)
  template.count = tonumber(count or nil) or last_child(call, jid)
  local values = {}
  for field, value in pairs(template) do
    values[#values + 1], values[#values + 2] = field, value
  end
  rcall('HSET', name, unpack(values))
  rcall('ZADD', queue.recur, due, jid)
  Features.note(call, 'I')
  Wake.due(call, queue, due)
  Queue.register(call, queue)
  return jid
end

local function load(call, jid)
  local record = Pieces.hash(Keys.template(call, Arguments.name(call, 'jid', jid)))
  if not next(record) then
    Errors.refuse(call, 'NOJOB', 'Recurring job ' .. Errors.name(jid) .. ' does not exist')
  end
  return record
end

-- recur.get jid
function Recurring.get(call, args, i)
  local record = Pieces.hash(Keys.template(call, Arguments.name(call, 'jid', args[i])))
  return next(record)
    and cjson.encode({
      jid = record.jid,
      klass = record.klass,
      state = record.state,
      queue = record.queue,
      priority = tonumber(record.priority),
      interval = tonumber(record.interval),
      retries = tonumber(record.retries),
      count = tonumber(record.count),
      data = record.data,
      tags = Json.shown(record.tags),
      backlog = tonumber(record.backlog) or 0,
    })
end

-- What recur.update may change, and how a value is checked: as that of any schedule, if not said here.
local CHANGES = { priority = true, retries = true, data = true, klass = true, queue = true }
CHANGES.interval = interval_of

function CHANGES.backlog(call, value)
  return Arguments.number(call, 'backlog', value)
end

local function checked(call, name, value)
  local check = CHANGES[name]
  if not check then
    Errors.argument(call, 'Unrecognized option ' .. Errors.name(name))
  end
  return (check == true and Schedules.check(name) or check)(call, value)
end

-- It goes on in another queue, when it would have in the old one.
local function move(call, record, jid, name)
  local old, queue = Keys.queue(call, record.queue or ''), Keys.queue(call, name)
  local due = rcall('ZSCORE', old.recur, jid) or call.text
  rcall('ZREM', old.recur, jid)
  rcall('ZADD', queue.recur, due, jid)
  Wake.due(call, queue, tonumber(due))
  Queue.register(call, queue)
end

-- A changed interval shifts what comes next.
local function shift(call, record, jid, interval)
  local queue = Keys.queue(call, record.queue or '')
  local by = interval - (tonumber(record.interval) or interval)
  Wake.due(call, queue, tonumber(rcall('ZINCRBY', queue.recur, by, jid)))
end

-- recur.update jid key value ...
function Recurring.update(call, args, i)
  local jid = args[i]
  local record, changes = load(call, jid), {}
  for n = i + 1, #args, 2 do
    changes[#changes + 1] = { args[n], checked(call, args[n], args[n + 1]) }
  end
  for _, change in ipairs(changes) do
    local name, value = change[1], change[2]
    if name == 'queue' then
      move(call, record, jid, value)
    elseif name == 'interval' then
      shift(call, record, jid, value)
    end
    record[name] = value
    rcall('HSET', Keys.template(call, jid), name, value)
  end
  return 1
end

local function retag(call, args, i, combine)
  local jid = args[i]
  local tags = combine(Json.shown(load(call, jid).tags), Pieces.rest(args, i + 1))
  local text = cjson.encode(Arguments.few_tags(call, tags))
  rcall('HSET', Keys.template(call, jid), 'tags', text)
  return text
end

-- recur.tag jid tag...
function Recurring.tag(call, args, i)
  return retag(call, args, i, Tags.with)
end

-- recur.untag jid tag...
function Recurring.untag(call, args, i)
  return retag(call, args, i, Tags.without)
end

-- unrecur jid
function Recurring.unrecur(call, args, i)
  Schedules.forget(call, Arguments.name(call, 'jid', args[i]))
  Recurring.remove(call, args[i])
  return 1
end

-- Deletes a template, if it is one.
function Recurring.remove(call, jid)
  local queue = rcall('HGET', Keys.template(call, jid), 'queue')
  if queue then
    rcall('ZREM', Keys.queue(call, queue).recur, jid)
    rcall('DEL', Keys.template(call, jid))
  end
end

-- The first tick that spawns a job: of those that are due as many count as the backlog says.
local function first_tick(call, record, due)
  local time, backlog = floor(due), tonumber(record.backlog) or 0 -- qless drops the fraction
  local missed = (call.now - time) / record.interval
  if backlog > 0 and missed > backlog then
    -- (What is divided by very little is infinite.)
    time = math.min(time + math.ceil(missed - backlog) * record.interval, call.now + record.interval)
  end
  return time
end

-- The jobs of a template that are due since then, at most `wanted`, checked: a plan to be carried out. Writes nothing, and
-- raises an error if the record cannot be read.
local function plan(call, record, due, wanted)
  record.interval = interval_of(call, record.interval)
  local jobs, count = {}, tonumber(record.count) or last_child(call, record.jid)
  local time = first_tick(call, record, due)
  while time <= call.now and #jobs < wanted do
    repeat
      count = count + 1
    until not exists(call, child(record.jid, count))
    jobs[#jobs + 1] = Ticks.job(call, record, child(record.jid, count), time)
    time = time + record.interval
  end
  record.count, record.due = count, time
  return Put.check(call, { jobs = jobs })
end

-- -> how many jobs it spawns
local function spawn(call, queue, jid, due, wanted)
  local record = Pieces.hash(Keys.template(call, jid))
  if not next(record) then
    rcall('ZREM', queue.recur, jid)
    return 0
  end
  record.jid = jid
  local fine, planned = pcall(plan, call, record, due, wanted)
  if not fine then
    rcall('HSET', Keys.template(call, jid), 'trouble', Corrupt.words(planned))
    rcall('ZADD', queue.recur, format('%.17g', call.now + AGAIN), jid)
    return 0
  end
  rcall('HSET', Keys.template(call, jid), 'count', format('%.0f', record.count))
  rcall('ZADD', queue.recur, format('%.17g', record.due), jid)
  if record.trouble then
    rcall('HDEL', Keys.template(call, jid), 'trouble')
  end
  Put.carry_out(call, planned)
  return #planned.jobs
end

-- Puts the jobs of a queue's templates that are due into its work, at most `wanted`.
function Recurring.spawn_due(call, queue, wanted)
  local due = rcall('ZRANGEBYSCORE', queue.recur, '-inf', call.text, 'WITHSCORES', 'LIMIT', '0', wanted)
  for n = 1, #due, 2 do
    if wanted > 0 then
      wanted = wanted - spawn(call, queue, due[n], tonumber(due[n + 1]), wanted)
    end
  end
end
end
end
else
if module_name == 'Samples' then
return function(Samples)
local Call, Minutes, Pieces, Stats, Times =
modules.Call, modules.Minutes, modules.Pieces, modules.Stats, modules.Times
-- core/samples.lua
-- How long jobs waited and ran. To write the statistics for each single job would cost more than the job: a call leaves
-- its samples in a list; when that is long, and with each beat of a worker, all of it is written. Readers add the list.

local floor, match = math.floor, string.match
local rcall = redis.call

local MOST = 100 -- entries of the list

-- kind wait: from ready to handed out; kind run: from started to complete; in seconds.
function Samples.add(call, kind, queue, seconds)
  local samples = call.samples
  if not samples then
    samples = {}
    call.samples = samples
  end
  local length = seconds > 0 and floor(seconds * 1000 + 0.5) or 0
  samples[#samples + 1] = Call.second(call) .. ' ' .. kind .. ' ' .. Times.whole(length) .. ' ' .. queue
end

local function inside(list, name)
  local inner = list[name]
  if not inner then
    inner = {}
    list[name] = inner
  end
  return inner
end

-- Shows the entries of a list, those that are equal together: visit(second, kind, seconds, n, queue).
local function show(texts, visit)
  local times = {}
  for n = 1, #texts do
    times[texts[n]] = (times[texts[n]] or 0) + 1
  end
  for text, n in pairs(times) do
    local second, kind, milliseconds, queue = match(text, '^(%-?%d+) (%a+) (%d+) (.*)$')
    if second then
      visit(tonumber(second), kind, tonumber(milliseconds) / 1000, n, queue)
    end
  end
end

-- The samples that statistics do not have yet.
function Samples.each(call, visit)
  show(rcall('LRANGE', call.keys.samples, '0', '-1'), visit)
end

local COUNTED_AS = { wait = 'started', run = 'completed' }
Samples.counted_as = COUNTED_AS

-- Writes all samples into the statistics of their days and minutes.
function Samples.write(call)
  local texts = rcall('LRANGE', call.keys.samples, '0', '-1')
  if #texts == 0 then
    return
  end
  rcall('DEL', call.keys.samples)
  local days, minutes = {}, {}
  show(texts, function(second, kind, seconds, n, queue)
    local values = inside(inside(inside(days, kind), Stats.day(second)), queue)
    values[seconds] = (values[seconds] or 0) + n
    local counts = inside(inside(minutes, kind), floor(second / 60))
    counts[queue] = (counts[queue] or 0) + n
  end)
  for kind, by_day in pairs(days) do
    for day, by_queue in pairs(by_day) do
      for queue, values in pairs(by_queue) do
        Stats.write(call, kind, day, queue, values)
      end
    end
  end
  for kind, by_minute in pairs(minutes) do
    for minute, by_queue in pairs(by_minute) do
      for queue, n in pairs(by_queue) do
        Minutes.write(call, queue, COUNTED_AS[kind], minute, n)
      end
    end
  end
end

-- The call ends: its samples go to the list.
function Samples.keep(call)
  local samples = call.samples
  if #samples > MOST then
    Pieces.run('RPUSH', call.keys.samples, samples)
    Samples.write(call)
  elseif rcall('RPUSH', call.keys.samples, unpack(samples)) >= MOST then
    Samples.write(call)
  end
end
end
end
if module_name == 'Settle' then
return function(Settle)
local Arguments, Call, Cycles, Entities, Errors, Finish, Links, Lock, Queue, Queues, Take, Wake =
modules.Arguments, modules.Call, modules.Cycles, modules.Entities, modules.Errors, modules.Finish,
modules.Links, modules.Lock, modules.Queue, modules.Queues, modules.Take, modules.Wake
-- core/settle.lua
-- settle: one round trip of a worker. It ends the jobs that the worker has finished, then hands out the next ones.

local rcall = redis.call

local SOON = 0.01 -- seconds until an idle worker comes again to carry on with what a client has left
local LONGEST_WAIT = 24 * 3600 -- seconds; a client may ask again
Settle.most = 250 -- jobs settled and reserved by one call

local UNKNOWN, NOT_KNOWN =
  'unknown-job',
  'No worker knows a job of this name. Is its app in INSTALLED_APPS, is its module called jobs or tasks, '
    .. 'was it renamed without aliases=?'

-- The verbs: the names of the arguments that each takes, how it checks them (before anything is written), and what it
-- does with a run.
local VERBS = {}

VERBS.complete = {
  takes = { 'result', 'ttl', 'data' },
  check = function(call, given)
    if given.result and given.result ~= '' then
      Arguments.json(call, 'result', given.result, Arguments.text_bytes)
      given.ttl = Arguments.whole(call, 'result_ttl', given.ttl, 1)
    end
    if given.data then
      Arguments.json(call, 'data', given.data)
    end
  end,
  act = function(call, run, given)
    Finish.complete(call, run, given)
  end,
}

VERBS.fail = {
  takes = { 'group', 'message' },
  check = function(call, given)
    Arguments.given(call, 'group', given.group)
    Arguments.message(call, given.message)
  end,
  act = function(call, run, given)
    Finish.fail(call, run, given)
  end,
}

VERBS.retry = {
  takes = { 'delay', 'group', 'message' },
  check = function(call, given)
    given.delay = Arguments.number(call, 'delay', given.delay)
    Arguments.message(call, given.message)
    given.group = given.group ~= '' and given.group or nil
  end,
  act = function(call, run, given)
    Finish.retry(call, run, run.queue, given)
  end,
}

-- What was not started has room again in the windows of its rates.
local function not_started(run, given)
  run.not_started = not given.held
end

VERBS.release = {
  takes = { 'delay' },
  check = function(call, given)
    given.delay = Arguments.number(call, 'delay', given.delay)
  end,
  act = function(call, run, given)
    not_started(run, given)
    given.what, given.first = 'returned', true
    Finish.give_back(call, run, given)
  end,
}

-- No worker knows the job's name: perhaps a deployment is under way. It comes back after as long as it has been unknown
-- already (at least a second, at most a minute), until patience ends.
VERBS.unknown = {
  takes = { 'patience' },
  check = function(call, given)
    given.patience = Arguments.number(call, 'patience', given.patience)
  end,
  act = function(call, run, given)
    local since = tonumber(run.unknown)
    if since and call.now - since >= given.patience then
      Finish.fail(call, run, { group = UNKNOWN, message = NOT_KNOWN, held = given.held })
      return
    end
    if not since or since > call.now then -- the clock may have been set back
      since = call.now
      rcall('HSET', run.key, 'unknown', string.format('%.6f', since))
    end
    not_started(run, given)
    given.what, given.unknown, given.group, given.message = 'returned', true, UNKNOWN, NOT_KNOWN
    given.delay = math.max(1, math.min(60, call.now - since))
    Finish.give_back(call, run, given)
  end,
}

-- The process died under the job: counted apart from its retries.
VERBS.crash = {
  takes = { 'limit', 'group', 'message' },
  check = function(call, given)
    given.limit = Arguments.whole(call, 'limit', given.limit, 0)
    Arguments.given(call, 'group', given.group)
    Arguments.message(call, given.message)
  end,
  act = function(call, run, given)
    local crashes = rcall('HINCRBY', run.key, 'crashes', 1)
    if crashes > given.limit then
      Finish.fail(call, run, given)
      return
    end
    given.what, given.delay = 'crashed', 0
    Finish.give_back(call, run, given)
  end,
}

VERBS.move = {
  takes = { 'queue', 'delay', 'depends' },
  check = function(call, given, jid, planned)
    Arguments.queue(call, given.queue)
    given.delay = Arguments.number(call, 'delay', given.delay or '0')
    given.needs = given.depends and Arguments.names(call, 'depends', given.depends) or {}
    Arguments.bounded(call, #given.needs)
    given.depends = Links.open_for_move(call, jid, given.needs)
    planned[jid] = given.depends -- the moves of one call must not wait for each other
    Cycles.refuse(call, jid, given.depends, planned)
  end,
  act = function(call, run, given)
    if run.entity then
      return Entities.no_move(call, run.jid)
    end
    -- Some of them may have ended by this very call.
    given.depends = Links.open_for_move(call, run.jid, given.depends, true)
    Finish.advance(call, run, given.queue, given)
    Links.follow_failed(call)
  end,
}

-- jid token held verb k arg*k, `count` times from args[i] on; `held` is for how many seconds the job lay in its worker's
-- hands before it was started, '' if it was not. -> the settlements, where the rest begins
local function parse(call, args, i, count)
  local settlements, planned = {}, {}
  for n = 1, count do
    local jid, verb = args[i], VERBS[args[i + 3] or '']
    local given = Arguments.whole(call, 'number of arguments', args[i + 4], 0)
    if not verb then
      Errors.argument(call, 'Unknown verb %s for job %s', Errors.name(args[i + 3]), Errors.name(jid))
    elseif i + 4 + given > #args then
      Errors.argument(call, 'Arguments of job %s are incomplete', Errors.name(jid))
    end
    local one = { held = Arguments.held(call, args[i + 2]) }
    for k = 1, math.min(given, #verb.takes) do
      one[verb.takes[k]] = args[i + 4 + k]
    end
    verb.check(call, one, jid, planned)
    settlements[n] = { jid = jid, token = args[i + 1], verb = verb, given = one }
    i = i + 5 + given
  end
  return settlements, i
end

-- A settlement whose lock is lost changes nothing and stops no other.
local function settle(call, settlements)
  local refused = {}
  for n = 1, #settlements do
    local one = settlements[n]
    local run, code, text = Lock.claim(call, one.jid, one.token)
    if run then
      code, text = one.verb.act(call, run, one.given)
    end
    if code then
      refused[#refused + 1] = { one.jid, code, text }
    end
  end
  return refused
end

-- count q queue*q [exclude glob | wait seconds | exhausted 1]...
local function parse_wish(call, args, i)
  local wish = { names = {}, excluded = {} }
  wish.count = Arguments.whole(call, 'count', args[i], 0)
  local named = Arguments.whole(call, 'number of queues', args[i + 1], 0)
  if i + 1 + named > #args then
    Errors.argument(call, 'Fewer queues than announced')
  end
  Arguments.bounded(call, named)
  for n = i + 2, i + 1 + named do
    wish.names[#wish.names + 1] = Arguments.name(call, 'queue', args[n])
  end
  for n = i + 2 + named, #args, 2 do
    local option, value = args[n], args[n + 1]
    if option == 'exclude' and value then
      wish.excluded[#wish.excluded + 1] = value
    elseif option == 'wait' then
      wish.wait = math.max(0, math.min(Arguments.number(call, 'wait', value), LONGEST_WAIT))
    elseif option == 'exhausted' and value == '1' then
      call.asks_exhausted = true
    else
      Errors.argument(call, 'Unknown option ' .. Errors.name(option))
    end
  end
  return wish
end

local function reserve(call, worker, wish, choice)
  local asking = { name = worker, jobs = {}, reserve = true }
  Queues.serve(call, choice, wish, function(queue, count)
    if Queue.is_paused(call, queue) then
      return 0
    end
    return Take.from(call, queue, count, asking)
  end)
  if #asking.jobs > 0 then
    rcall('ZADD', call.keys.workers, call.text, worker)
  end
  return asking.jobs
end

-- What a repeat of the request needs: jid, token, jid, token … and what does not change.
local function for_repeat(call, refused, jobs, rest)
  local held = {}
  for n = 1, #jobs do
    held[2 * n - 1], held[2 * n] = jobs[n][1], jobs[n][5]
  end
  held.refused = #refused > 0 and refused or nil
  held.rest = #rest > 0 and rest or nil
  held.exhausted = call.exhausted
  return held
end

-- settle worker s (settlement)*s count q queue*q [pairs] -> { refused, jobs, rest, now, exhausted }: what to block on if
-- there are no jobs and it was to `wait`; the time by which the locks on the jobs are measured; the jobs that have failed
-- as their last locks were lost, if these were asked for and there are any
function Settle.settle(call, args, i)
  local worker = Arguments.name(call, 'worker', args[i])
  local count = Arguments.whole(call, 'number of settlements', args[i + 1], 0)
  local settlements, rest_at = parse(call, args, i + 2, math.min(count, Settle.most + 1))
  local wish = parse_wish(call, args, rest_at)
  if count + wish.count > Settle.most then
    Errors.refuse(call, 'TOOBIG', '%s jobs in one call, at most %s', count + wish.count, Settle.most)
  end
  local refused = settle(call, settlements)
  local goes_on = Links.carry_on(call)
  local jobs, rest = {}, {}
  call.waits = call.has_waited -- as long as it takes no jobs
  if wish.count > 0 then
    local choice = Queues.choose(call, wish.names, wish.excluded)
    jobs = reserve(call, worker, wish, choice)
    local client = call.client or worker
    if #jobs > 0 then
      if call.has_waited or not call.client then
        Wake.works(call, client, choice)
      end
      call.waits = false
    elseif wish.wait then
      call.waits = true
      local seconds = goes_on and math.min(wish.wait, SOON) or wish.wait
      rest = Wake.wait(call, client, choice, seconds)
    end
  end
  local held, now = for_repeat(call, refused, jobs, rest), wish.count > 0 and call.text or nil
  held.now = now
  Call.keep_for_repeat(call, held)
  return { refused, jobs, rest, now, call.exhausted }
end

-- The reply again: of the jobs handed out, those that their worker still holds.
function Settle.rebuild(call, held)
  local jobs = {}
  for n = 1, #held, 2 do
    jobs[#jobs + 1] = Take.reservation_if_held(call, held[n], held[n + 1])
  end
  return { held.refused or {}, jobs, held.rest or {}, held.now, held.exhausted }
end
end
end
if module_name == 'Stats' then
return function(Stats)
local Arguments, Config, Keys, Pieces, Samples, Times =
modules.Arguments, modules.Config, modules.Keys, modules.Pieces, modules.Samples, modules.Times
-- core/stats.lua
-- Statistics of a queue and day: running mean and variance (Welford 1962), a histogram.

local floor = math.floor
local rcall = redis.call
local DAY = 86400

function Stats.day(time)
  return time - time % DAY
end

local function key_of(call, kind, day, queue)
  return Keys.stat(call, kind, string.format('%.0f', day), queue)
end

local function bin(seconds)
  if seconds < 60 then
    return 's' .. Times.text(floor(seconds)) -- mostly 0
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
local function begin_day(call, kind, day, queue)
  local kept = Config.whole(call, 'stats-history')
  local gone = {}
  for n = 1, LOOKED_BACK do
    gone[n] = key_of(call, kind, day - (kept + n - 1) * DAY, queue)
  end
  if kept >= 1 then
    rcall('DEL', unpack(gone))
  end
  rcall('EXPIRE', key_of(call, kind, day, queue), (math.max(0, math.min(kept, LONGEST)) + 1) * DAY)
  if kind == 'stats' then
    return
  end
  local old = key_of(call, kind, day - Config.whole(call, 'histogram-history') * DAY, queue)
  local total, mean, vk = unpack(rcall('HMGET', old, 'total', 'mean', 'vk'))
  if total then
    local rest = rcall('TTL', old)
    rcall('DEL', old)
    rcall('HSET', old, 'total', total, 'mean', mean, 'vk', vk)
    if rest > 0 then
      rcall('EXPIRE', old, rest)
    end
  end
end

-- Counts: retries (locks that were seen to be lost), failures, failed, retried (attempts that failed and run again).
function Stats.count(call, queue, field, n)
  local day = Stats.day(call.now)
  if rcall('HINCRBY', key_of(call, 'stats', day, queue), field, n) == n then
    begin_day(call, 'stats', day, queue)
  end
end

-- One job less is failed, of those that failed on that day.
function Stats.mended(call, queue, failed_at)
  local name = key_of(call, 'stats', Stats.day(failed_at), queue)
  if (tonumber(rcall('HGET', name, 'failed') or nil) or 0) > 0 then
    rcall('HINCRBY', name, 'failed', -1)
  end
end

-- How many jobs of a queue are failed, of those that failed on the last days.
function Stats.failed(call, queue, days)
  local today, sum = Stats.day(call.now), 0
  for back = 0, days - 1 do
    sum = sum
      + (tonumber(rcall('HGET', key_of(call, 'stats', today - back * DAY, queue), 'failed') or nil) or 0)
  end
  return sum
end

-- Mean and variance with more values: seconds -> how often.
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
  local function add(field, n)
    bins[field] = (bins[field] or 0) + n
  end
  for value, n in pairs(values) do
    add(bin(value), n)
    if value < 1 then
      add(fine_bin(value), n)
    end
  end
  return bins
end

-- Adds samples to a day's statistics: seconds -> how often.
function Stats.write(call, kind, day, queue, values)
  local name, bins, fields = key_of(call, kind, day, queue), by_bin(values), { 'total', 'mean', 'vk' }
  for field in pairs(bins) do
    fields[#fields + 1] = field
  end
  local old = rcall('HMGET', name, unpack(fields))
  local count, mean, vk = with(tonumber(old[1]) or 0, tonumber(old[2]) or 0, tonumber(old[3]) or 0, values)
  local written = { 'total', string.format('%.0f', count), 'mean', mean, 'vk', vk }
  for k = 4, #fields do
    written[#written + 1] = fields[k]
    written[#written + 1] = string.format('%.0f', (tonumber(old[k]) or 0) + bins[fields[k]])
  end
  rcall('HSET', name, unpack(written))
  if not old[1] then
    begin_day(call, kind, day, queue)
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

-- The samples of a queue and day that are not written yet: kind -> seconds -> how often.
local function not_yet_written(call, wanted_day, wanted_queue)
  local found = { wait = {}, run = {} }
  Samples.each(call, function(second, kind, seconds, n, queue)
    if queue == wanted_queue and Stats.day(second) == wanted_day then
      found[kind][seconds] = (found[kind][seconds] or 0) + n
    end
  end)
  return found
end

local function summary(call, kind, day, queue, more)
  local name = key_of(call, kind, day, queue)
  local total, its_mean, its_vk = unpack(rcall('HMGET', name, 'total', 'mean', 'vk'))
  local count, mean, vk = with(tonumber(total) or 0, tonumber(its_mean) or 0, tonumber(its_vk) or 0, more)
  local shown = {
    count = count,
    mean = mean,
    std = count > 1 and math.sqrt(vk / (count - 1)) or 0,
  }
  local more_bins = by_bin(more)
  local function times(bins)
    local numbers = rcall('HMGET', name, unpack(bins))
    for n, value in ipairs(numbers) do
      numbers[n] = (tonumber(value) or 0) + (more_bins[bins[n]] or 0)
    end
    return numbers
  end
  shown.histogram = times(all_bins())
  shown.below_second = not call.old and times(FINE_BINS) or nil
  return shown
end

-- stats queue date
function Stats.show(call, args, i)
  local queue = Arguments.name(call, 'queue', args[i])
  local day = Stats.day(Arguments.number(call, 'date', args[i + 1]))
  local counts = Pieces.hash(key_of(call, 'stats', day, queue))
  local more = not_yet_written(call, day, queue)
  return cjson.encode({
    retries = tonumber(counts.retries) or 0,
    failed = tonumber(counts.failed) or 0,
    failures = tonumber(counts.failures) or 0,
    retried = not call.old and (tonumber(counts.retried) or 0) or nil,
    wait = summary(call, 'wait', day, queue, more.wait),
    run = summary(call, 'run', day, queue, more.run),
  })
end

-- stats.counters date queue... -> for each queue: retried, retries, failures, failed of that day
function Stats.counters(call, args, i)
  local day = Stats.day(Arguments.number(call, 'date', args[i]))
  Arguments.bounded(call, #args - i)
  local found = {}
  for n = i + 1, #args do
    local name = key_of(call, 'stats', day, args[n])
    for _, number in ipairs(rcall('HMGET', name, 'retried', 'retries', 'failures', 'failed')) do
      found[#found + 1] = tonumber(number) or 0
    end
  end
  return found
end
end
end
if module_name == 'Schedules' then
return function(Schedules)
local Arguments, Call, Errors, Events, Features, Keys, Pieces, Put, Queue, Recurring, Ticks =
modules.Arguments, modules.Call, modules.Errors, modules.Events, modules.Features, modules.Keys,
modules.Pieces, modules.Put, modules.Queue, modules.Recurring, modules.Ticks
-- features/schedules.lua
-- Schedules: what recurs at an interval or by cron. Here they are made, changed, paused, run and removed; what becomes of
-- their ticks: see ticks.lua. Templates of the protocol (recurring.lua) are shown among them, and can be run and removed
-- like them; one that is changed or paused becomes a schedule.

local format = string.format
local rcall = redis.call

local LONGEST_ID = 200 -- bytes: its jobs' ids are longer
local LONGEST_TEXT = 255
local MOST_DECLARED = 1000 -- that have an owner
local POLICIES = { all = true, last = true, none = true }

-- How what a schedule is made of is checked, and what of it is stored; '' takes away what is optional.
local CHECKS = { queue = Arguments.queue }

for name in string.gmatch('cron timezone unique name owner', '%a+') do
  CHECKS[name] = function(call, value)
    if #value > LONGEST_TEXT then
      Errors.argument(call, name .. ' has ' .. #value .. ' bytes, at most ' .. LONGEST_TEXT)
    end
    return value
  end
end

for name in string.gmatch('offset priority interval expires', '%a+') do
  CHECKS[name] = function(call, value)
    local number = (value ~= '' or name ~= 'expires') and Arguments.number(call, name, value)
    if name == 'interval' and number < 1 then
      Errors.argument(call, 'interval must be at least 1 second, not ' .. Errors.value(value))
    end
    return number or value
  end
end

function CHECKS.klass(call, value)
  return Arguments.given(call, 'klass', value)
end

function CHECKS.data(call, value)
  Arguments.json(call, 'data', value)
  return value
end

function CHECKS.retries(call, value)
  return Arguments.whole(call, 'retries', value, 0)
end

function CHECKS.tags(call, value)
  return cjson.encode(Arguments.tag_list(call, value))
end

function CHECKS.missed(call, value)
  if not POLICIES[value] then
    Errors.argument(call, 'missed must be all, last or none, not ' .. Errors.value(value))
  end
  return value
end

function CHECKS.context(call, value)
  if value ~= '' then
    Arguments.object(call, 'context', value)
  end
  return value
end

function CHECKS.edited(_, value)
  return value == '1' and value or ''
end

function CHECKS.formerly(call, value)
  local ids = Arguments.names(call, 'formerly', value)
  Arguments.bounded(call, #ids)
  return ids
end

-- How a value of this field is checked: a function of (call, value).
function Schedules.check(field)
  return CHECKS[field]
end

local NO_OPTIONS = {
  ['schedule.set'] = { queue = true, klass = true, data = true },
  ['schedule.update'] = { owner = true, edited = true, formerly = true },
}

-- Lays option pairs from args[i] on over a definition. -> which were given
local function take_options(call, made, args, i)
  if (#args - i + 1) % 2 ~= 0 then
    Errors.argument(call, 'Odd number of additional args')
  end
  local given = {}
  for n = i, #args, 2 do
    local name, value = args[n], args[n + 1]
    if not CHECKS[name] or NO_OPTIONS[call.command][name] then
      Errors.argument(call, 'Unknown option ' .. Errors.name(name))
    end
    value = CHECKS[name](call, value)
    given[name] = true
    made[name] = value ~= '' and value or nil
  end
  return given
end

-- One at an interval has no cron, and the other way round.
local function settle_kind(call, made, given)
  if given.interval and given.cron then
    Errors.argument(call, 'either interval or cron wanted, not both')
  elseif given.cron then
    made.interval, made.offset = nil, given.offset and made.offset
  elseif given.interval then
    made.cron, made.timezone = nil, given.timezone and made.timezone
  end
  if not made.interval and not made.cron then
    Errors.argument(call, 'interval or cron wanted')
  elseif made.cron and made.offset then
    Errors.argument(call, 'offset belongs to an interval, not to cron')
  elseif made.interval and made.timezone then
    Errors.argument(call, 'timezone belongs to cron, not to an interval')
  end
  made.timezone = made.cron and (made.timezone or 'UTC')
end

local function read_template(call, id)
  local record = Pieces.hash(Keys.template(call, id))
  record.key, record.is_template = Keys.template(call, id), true
  record.place = record.queue and Keys.queue(call, record.queue).recur
  record.missed = (tonumber(record.backlog) or 0) > 0 and 'last' or 'all'
  return record.queue and record
end

-- The record of a schedule or a template; nil if there is none. Its `due` is when it goes on, unless it is paused; where that
-- has to be computed, there is `since`.
function Schedules.read(call, id)
  local record = Pieces.hash(Keys.schedule(call, id))
  record.key, record.place = Keys.schedule(call, id), call.keys.schedules
  record = record.queue and record or read_template(call, id)
  if not record then
    return nil
  end
  local since, interval = tonumber(record.since), tonumber(record.interval)
  record.jid = id
  record.due = since and interval and since + interval
    or tonumber(record.paused)
    or tonumber(rcall('ZSCORE', record.place, id) or nil)
    or call.now
  return record
end

-- Several of them, all of which must exist.
local function read_all(call, args, i)
  Arguments.given(call, 'id', args[i])
  Arguments.bounded(call, #args - i + 1)
  local records, seen = {}, {}
  for n = i, #args do
    if not seen[args[n]] then
      seen[args[n]] = true
      records[#records + 1] = Schedules.read(call, args[n])
        or Errors.refuse(call, 'NOSCHEDULE', 'Schedule %s does not exist', Errors.name(args[n]))
    end
  end
  return records
end

-- The first tick of an interval's rhythm after now.
local function after_now(call, due, interval)
  return due + math.floor((call.now - due) / interval + 1) * interval
end

-- When a changed interval goes on: it keeps its rhythm. -> that; or, if a tick is due, when it is to be computed, and since
-- when: who is about to put it goes by what was before
local function next_of_interval(call, made, old)
  if not old or old.cron or (made.offset and made.offset ~= tonumber(old.offset)) then
    return math.floor((call.now + (made.offset or 0)) * 1000) / 1000 -- ids of jobs end in thousandths
  elseif old.due <= call.now then
    return Ticks.no_tick(call.now), old.due - made.interval
  end
  local due = old.due - (tonumber(old.interval) or made.interval) + made.interval
  return due > call.now and due or after_now(call, due, made.interval)
end

-- The same by cron: unless it is as before, the next tick is to be computed.
local function next_of_cron(call, made, old)
  if old and old.cron == made.cron and old.timezone == made.timezone then
    return old.due, old.since
  end
  return Ticks.no_tick(call.now), call.now
end

local function drop(call, record)
  local id, queue = record.jid, Keys.queue(call, record.queue)
  if record.is_template then
    return Recurring.remove(call, id)
  end
  rcall('DEL', record.key)
  rcall('HDEL', call.keys.declared_schedules, id)
  for _, name in ipairs({ call.keys.schedules, call.keys.paused_schedules, queue.schedules, queue.ticks }) do
    rcall('ZREM', name, id)
  end
  if rcall('EXISTS', call.keys.schedules, call.keys.paused_schedules) == 0 then
    Features.forget(call, 'Q')
  end
end

-- The schedule falls due at that time: the ticker looks whether that is soon.
local function put_in_place(call, id, due)
  rcall('ZADD', call.keys.schedules, format('%.17g', due), id)
  Events.schedules(call, rcall('GET', call.keys.ticker))
end

local function pause(call, id, due)
  rcall('ZREM', call.keys.schedules, id)
  rcall('HSET', Keys.schedule(call, id), 'paused', format('%.17g', due))
  rcall('ZADD', call.keys.paused_schedules, call.text, id)
end

-- What is stored of a definition; the rest is how far the schedule has come: count, last, since, paused, trouble.
local DEFINED = 'queue klass data priority retries tags interval offset cron timezone missed context unique expires '
  .. 'name owner edited'

local function copy(record)
  local made = { jid = record.jid }
  for field in string.gmatch(DEFINED, '%a+') do
    made[field] = record[field]
  end
  made.interval, made.offset = tonumber(made.interval), tonumber(made.offset)
  return made
end

-- Writes what has been checked, in place of the old record, if any. None of it can fail.
local function store(call, made, old)
  local next_of, id, queue =
    made.cron and next_of_cron or next_of_interval, made.jid, Keys.queue(call, made.queue)
  local due, since = next_of(call, made, old)
  local values = { 'count', old and tonumber(old.count) or 0 }
  for field in string.gmatch(DEFINED, '%a+') do
    if made[field] then
      values[#values + 1], values[#values + 2] = field, made[field]
    end
  end
  for field, value in pairs({ since = since, last = old and old.last }) do
    values[#values + 1], values[#values + 2] = field, value
  end
  if old then
    drop(call, old)
  end
  rcall('HSET', Keys.schedule(call, id), unpack(values))
  rcall('ZADD', queue.schedules, 0, id)
  if made.owner then
    rcall('HSET', call.keys.declared_schedules, id, made.owner)
  end
  if old and old.paused then
    pause(call, id, due)
  else
    put_in_place(call, id, due)
  end
  Queue.register(call, queue)
end

-- The schedule that this one was under a former id, or nil.
local function read_former(call, made)
  for _, id in ipairs(made.formerly or {}) do
    local former = Schedules.read(call, id)
    if former then
      return former
    end
  end
end

-- schedule.set id queue klass data [pairs] -> new or changed
function Schedules.set(call, args, i)
  local made = {
    jid = Arguments.jid(call, args[i]),
    queue = CHECKS.queue(call, args[i + 1]),
    klass = CHECKS.klass(call, args[i + 2]),
    data = CHECKS.data(call, args[i + 3]),
    priority = 0,
    retries = 5,
    tags = '{}',
    missed = 'last',
  }
  if #made.jid > LONGEST_ID then
    Errors.argument(call, 'id has ' .. #made.jid .. ' bytes, at most ' .. LONGEST_ID)
  end
  settle_kind(call, made, take_options(call, made, args, i + 4))
  local old = Schedules.read(call, made.jid) or read_former(call, made)
  local is_more = made.owner and not (old and old.owner)
  if is_more and rcall('HLEN', call.keys.declared_schedules) >= MOST_DECLARED then
    Errors.refuse(call, 'TOOBIG', 'more than ' .. MOST_DECLARED .. ' declared schedules')
  end
  store(call, made, old)
  return old and 'changed' or 'new'
end

-- schedule.update id name value ...: an operator's changes
function Schedules.update(call, args, i)
  local old = read_all(call, { args[i] }, 1)[1]
  local made = copy(old)
  settle_kind(call, made, take_options(call, made, args, i + 1))
  made.edited = made.owner and '1'
  store(call, made, old)
end

-- Changes those of several schedules that are paused, or those that are not. -> how many
local function change_all(call, records, is_paused, change)
  local changed = 0
  for _, record in ipairs(records) do
    if (record.paused ~= nil) == is_paused then
      change(call, record)
      changed = changed + 1
    end
  end
  return changed
end

-- schedule.pause id... -> how many were not paused
function Schedules.pause(call, args, i)
  return change_all(
    call,
    read_all(call, args, i),
    false,
    function(_, record) -- (a template becomes a schedule)
      if record.is_template then
        store(call, copy(record), record)
      end
      pause(call, record.jid, record.due)
    end
  )
end

-- It goes on in its old rhythm; what fell due in the pause is no missed tick. (The next one is computed again: the server's
-- clock may have been set back.)
local function resume(call, record)
  local due, interval = Ticks.no_tick(call.now), tonumber(record.interval)
  if interval then
    due = after_now(call, record.due, interval)
    rcall('HDEL', record.key, 'since')
  else
    rcall('HSET', record.key, 'since', call.text)
  end
  rcall('HDEL', record.key, 'paused')
  rcall('ZREM', call.keys.paused_schedules, record.jid)
  put_in_place(call, record.jid, due)
end

-- schedule.resume id... -> how many were paused
function Schedules.resume(call, args, i)
  return change_all(call, read_all(call, args, i), true, resume)
end

-- schedule.run id -> the jid of the job that is put now, outside the rhythm
function Schedules.run(call, args, i)
  local record = read_all(call, { args[i] }, 1)[1]
  local jid = record.jid .. '@run-' .. Call.draw(call)
  local plan, why = Ticks.plan(call, record, jid, call.now)
  if not plan then
    Errors.refuse(call, 'STATE', 'Schedule %s: %s', Errors.name(record.jid), why)
  end
  Put.carry_out(call, plan)
  rcall('HSET', record.key, 'count', (tonumber(record.count) or 0) + 1)
  return jid
end

-- schedule.remove id... -> how many there were; the jobs that they have put stay
function Schedules.remove(call, args, i)
  Arguments.given(call, 'id', args[i])
  Arguments.bounded(call, #args - i + 1)
  local removed = 0
  for n = i, #args do
    local record = Schedules.read(call, args[n])
    if record then
      drop(call, record)
      removed = removed + 1
    end
  end
  return removed
end

-- A template takes the id of a schedule over, or an old client removes it.
function Schedules.forget(call, id)
  local record = Pieces.hash(Keys.schedule(call, id))
  if record.queue then
    record.jid, record.key = id, Keys.schedule(call, id)
    drop(call, record)
  end
end
end
end
if module_name == 'Spawned' then
return function(Spawned)
local Arguments, Cycles, Errors, Features, Job, Keys, Links, Lock, Pieces, Put, Rows, Workflows =
modules.Arguments, modules.Cycles, modules.Errors, modules.Features, modules.Job, modules.Keys,
modules.Links, modules.Lock, modules.Pieces, modules.Put, modules.Rows, modules.Workflows
-- features/spawned.lua
-- Spawned jobs: what a run puts by `spawn` are the children of its job, and who waits for the job waits for them, too.
-- A complete job with open children counts as a dependency that is not met, and is not forgotten; but a job below it
-- (its child, or a child of that …) waits for its run alone. A job has one parent at a time: a second spawner does not
-- wait for it.
--
-- children:<jid> has the open children, each with its standing: what it means to those that wait for its parent.

local rcall = redis.call

Spawned.OPEN = 0 -- it has not ended
Spawned.PARTLY = 1 -- it is complete, and some of its own children have failed
Spawned.FAILED = 2 -- it has failed; or is complete, and all of its own children that are open have failed

-- The record of a child has its `parent`, and in `spawned` of which life of that it is. A parent's has in `spawns` when
-- its life began to have children: a job that runs again leaves those alone, one that is put again begins with none.
Spawned.fields = { 'parent', 'spawned', 'spawns' }

local DEEPEST = 1000 -- generations that are looked at
local KEPT = 604800 -- seconds, as long as results at least: a dependent may start long after the end

-- The standing that a complete job has by its children; nil if none is open.
function Spawned.standing(call, jid)
  if not call.has.S then
    return nil
  end
  local name = Keys.children(call, jid)
  local _, most = Pieces.last(name)
  if not most or most == Spawned.OPEN then
    return most
  end
  local _, least = Pieces.first(name)
  return least == Spawned.FAILED and least or Spawned.PARTLY
end

-- The parent that the job is an open child of, or nil.
function Spawned.parent_of(call, jid)
  local parent = rcall('HGET', Keys.job(call, jid), 'parent')
  return parent and rcall('ZSCORE', Keys.children(call, parent), jid) and parent or nil
end

-- Is the job below the other one?
function Spawned.is_below(call, jid, other)
  if call.has.S then
    for _ = 1, DEEPEST do
      jid = Spawned.parent_of(call, jid)
      if not jid or jid == other then
        return jid ~= nil
      end
    end
  end
  return false
end

-- The state in which a complete job counts for one that is to depend on it; and which job it is that has failed.
function Spawned.state_for(call, job, other)
  local standing = Spawned.standing(call, other)
  if not standing or job.parent == other or Spawned.is_below(call, job.parent or job.jid, other) then
    return 'complete'
  elseif standing == Spawned.OPEN or standing == Spawned.PARTLY and job.on_failure ~= 'cancel' then
    return 'waiting'
  end
  return 'failed', (Pieces.last(Keys.children(call, other)))
end

-- Open children of a job.
function Spawned.children(call, jid, most)
  return rcall('ZRANGE', Keys.children(call, jid), 0, most)
end

-- The job has no open children any more.
local function forget(call, jid)
  if rcall('SREM', call.keys.spawners, jid) == 1 and rcall('EXISTS', call.keys.spawners) == 0 then
    Features.forget(call, 'S')
  end
end

local function add(call, parent, jid, standing)
  rcall('ZADD', Keys.children(call, parent), standing, jid)
  rcall('SADD', call.keys.spawners, parent)
  Features.note(call, 'S')
end

-- An open child has another standing; nil: it has ended. -> whether that is so
local function change(call, parent, jid, standing)
  local name = Keys.children(call, parent)
  if standing then
    return rcall('ZADD', name, 'XX', 'CH', standing, jid) == 1
  elseif rcall('ZREM', name, jid) == 0 then
    return false
  elseif rcall('EXISTS', name) == 0 then
    forget(call, parent)
  end
  return true
end

-- What the children of a complete job mean to its dependents by now.
local function apply(call, jid)
  local standing = Spawned.standing(call, jid)
  if not standing then
    Links.release(call, jid)
  elseif standing > Spawned.OPEN then
    rcall('HDEL', Keys.job(call, jid), 'cascade') -- all of them are to be looked at
    Links.follow(call, jid, 'open')
  end
  return standing
end

-- A job stands so: what that means to its parent, if that is complete, to the parent of that, and so on, as far as the
-- call may go.
local function rise(call, jid, parent, standing)
  while parent and change(call, parent, jid, standing) do
    local state, next_parent = unpack(rcall('HMGET', Keys.job(call, parent), 'state', 'parent'))
    if state ~= 'complete' then
      return
    elseif Links.left(call) <= 0 then
      Links.leave(call, call.keys.releasing, parent)
      return
    end
    Links.spend(call, 1)
    jid, parent, standing = parent, next_parent, apply(call, parent)
  end
end

-- Carries on with a complete job.
function Spawned.go_on(call, jid)
  local standing = apply(call, jid)
  rise(call, jid, rcall('HGET', Keys.job(call, jid), 'parent'), standing)
end

-- May the spawner have this job as its child, whose record names this parent?
local function may_adopt(call, spawner, jid, parent)
  return (not parent or parent == spawner or not rcall('ZSCORE', Keys.children(call, parent), jid))
    and jid ~= spawner
    and not Spawned.is_below(call, spawner, jid)
end

function Spawned.check(call, job)
  local old, plan = job.old, job.plan
  job.adopted = nil -- It is asked again if it takes the place of another one.
  if old then
    job.parent, job.spawned = old.parent, old.spawned
    -- A job that is only moved lives on.
    job.spawns = call.command == 'requeue' and old.state ~= 'complete' and old.spawns or nil
  end
  if plan.spawner and may_adopt(call, plan.spawner, job.jid, job.parent) then
    job.adopted, job.parent, job.spawned = true, plan.spawner, plan.life
  end
end

function Spawned.stored(call, job)
  if job.adopted then
    add(call, job.parent, job.jid, Spawned.OPEN)
  else
    rise(call, job.jid, job.parent, Spawned.OPEN)
  end
end

function Spawned.ended(call, job)
  if job.state == 'complete' then
    local standing = Spawned.standing(call, job.jid)
    job.open = standing ~= nil
    rise(call, job.jid, job.parent, standing)
  elseif job.state == 'failed' then
    rise(call, job.jid, job.parent, Spawned.FAILED)
  end
end

function Spawned.revived(call, job)
  rise(call, job.jid, job.parent, Spawned.OPEN)
end

-- The open children of a job that goes become those of its parent: what waits for the run alone of one above them must not
-- come to wait for all of it.
local function hand_on_children(call, jid)
  local parent = Spawned.parent_of(call, jid)
  for _, child in ipairs(parent and Spawned.children(call, jid, DEEPEST) or {}) do
    rcall('HSET', Keys.job(call, child), 'parent', parent)
    add(call, parent, child, rcall('ZSCORE', Keys.children(call, jid), child))
  end
end

function Spawned.gone(call, job, why)
  if why == 'expired' then
    job.stays = Spawned.standing(call, job.jid) ~= nil
  elseif why ~= 'replaced' then
    hand_on_children(call, job.jid)
    rcall('UNLINK', Keys.children(call, job.jid))
    forget(call, job.jid)
    rise(call, job.jid, job.parent)
  end
end

-- The jobs that are no part of the plan, as they are left alone or stand for one of it, but become children.
local function others_of(call, plan)
  local others, seen = {}, {}
  for _, job in ipairs(plan.jobs) do
    local jid = job.instead or job.left_alone and job.jid
    if jid and not plan.coming[jid] and not seen[jid] then
      seen[jid] = true
      local other = Job.read(call, jid)
      local is_open = other and (other.state ~= 'complete' or Spawned.standing(call, jid))
      if is_open and other.parent ~= plan.spawner and may_adopt(call, plan.spawner, jid, other.parent) then
        others[#others + 1] = other
      end
    end
  end
  return others
end

-- Refuses children that would wait for what waits for their parent, or for one above it: what they wait for, that is to wait
-- for. (`planned` has the links of jobs in the plan that are no children, if any.)
local function refuse_cycles(call, plan, others)
  local jids, planned, is_mixed = {}, {}, false
  local function collect(list)
    for _, jid in ipairs(list) do
      local coming = plan.coming[jid]
      if jid ~= plan.spawner and not (coming and coming.adopted) then
        jids[#jids + 1] = jid
      end
    end
  end
  for _, job in ipairs(plan.jobs) do
    if plan.coming[job.jid] == job then
      local depends = job.replaces_links and job.depends
        or rcall('SMEMBERS', Keys.dependencies(call, job.jid))
      planned[job.jid] = job.adopted and {} or depends
      if job.adopted then
        collect(depends)
        collect(job.old and Spawned.children(call, job.jid, DEEPEST) or {})
      else
        is_mixed = true
      end
    end
  end
  for _, other in ipairs(others) do
    jids[#jids + 1] = other.jid
  end
  Cycles.refuse_children(call, plan.spawner, jids, is_mixed and planned or nil)
end

local function adopt(call, job, plan)
  local standing = job.state == 'failed' and Spawned.FAILED or Spawned.OPEN
  if job.state == 'complete' then
    standing = Spawned.standing(call, job.jid)
  end
  Features.add(call, job, 'c')
  rcall('HSET', job.key, 'parent', plan.spawner, 'spawned', plan.life)
  add(call, plan.spawner, job.jid, standing)
end

-- All new children are listed for those who want the results of all.
local function list_offspring(call, plan, others)
  local jids = {}
  for _, job in ipairs(plan.jobs) do
    if plan.coming[job.jid] == job and job.adopted and not (job.old and job.old.parent == plan.spawner) then
      jids[#jids + 1] = job.jid
    end
  end
  for _, other in ipairs(others) do
    jids[#jids + 1] = other.jid
  end
  if #jids > 0 then
    Features.note(call, 'N')
    Pieces.run('RPUSH', Keys.offspring(call, plan.spawner), jids)
    rcall('EXPIRE', Keys.offspring(call, plan.spawner), KEPT)
  end
end

-- Checks what a run wants to spawn: all belong to its workflow, if it has one.
local function plan_of(call, args, i, run)
  local plan = { jobs = Rows.parse(call, args, i), spawner = run.jid, life = run.spawns or call.text }
  for _, job in ipairs(plan.jobs) do
    if job.jid == run.jid then
      Errors.argument(call, 'job ' .. Errors.name(run.jid) .. ' cannot spawn itself')
    end
    Features.use(job, 'c')
    if run.workflow then
      job.options = job.options or {}
      job.options.workflow = job.options.workflow or run.workflow
      Features.use(job, 'w')
    end
  end
  plan.leaves = function(_, job)
    local old = job.old
    return old and run.spawns and old.parent == run.jid and old.spawned == run.spawns
  end
  return Put.check(call, plan)
end

-- spawn jid token worker (as put.many) -> as put.many. What an earlier run of the job has spawned is left alone.
function Spawned.spawn(call, args, i)
  local run = Lock.holder(call, args[i], args[i + 1])
  local asking = Arguments.given(call, 'worker', args[i + 2])
  if run.workflow then
    Workflows.must_go_on(call, run.workflow)
  end
  local plan = plan_of(call, args, i + 3, run)
  local others = others_of(call, plan)
  refuse_cycles(call, plan, others)
  local reply = Put.carry_out(call, plan, asking)
  for _, other in ipairs(others) do
    adopt(call, other, plan)
  end
  list_offspring(call, plan, others)
  Features.add(call, run, 'c')
  rcall('HSET', run.key, 'spawns', plan.life)
  return reply
end
end
end
if module_name == 'ScheduleView' then
return function(ScheduleView)
local Arguments, Json, Keys, Pieces, Queues, Schedules =
modules.Arguments, modules.Json, modules.Keys, modules.Pieces, modules.Queues, modules.Schedules
-- views/schedule_view.lua
-- How schedules are shown, one by one and in lists, and templates of the protocol among them.

local rcall = redis.call

local TEXTS = 'queue klass data context unique name owner missed cron timezone trouble'
local NUMBERS = 'priority retries count last interval offset expires'

-- The next tick; nil while it is not known.
local function next_tick(record)
  local is_known = not record.paused and not record.trouble and (record.interval or not record.since)
  return is_known and record.due or nil
end

-- The text of an object.
local function shown(record)
  local view = {
    id = record.jid,
    kind = record.cron and 'cron' or 'interval',
    edited = record.edited == '1',
    paused = record.paused ~= nil,
    tags = Json.shown(record.tags),
    priority = 0,
    retries = 0,
    count = 0,
    next = next_tick(record),
  }
  for field in string.gmatch(TEXTS, '%a+') do
    view[field] = record[field]
  end
  for field in string.gmatch(NUMBERS, '%a+') do
    local number = tonumber(record[field])
    view[field] = number and number - number == 0 and number or view[field]
  end
  return cjson.encode(view)
end

-- Those of the ids that exist, as a JSON list.
function ScheduleView.list_of(call, ids)
  local found = {}
  for n = 1, #ids do
    local record = Schedules.read(call, ids[n])
    found[#found + 1] = record and shown(record)
  end
  return Json.list(found)
end

-- A part of several sorted sets of ids, one behind the other, as JSON: total and schedules.
function ScheduleView.part(call, names, offset, count)
  local total, ids = 0, {}
  for _, name in ipairs(names) do
    local first = math.max(offset - total, 0)
    if #ids < count then
      for _, id in ipairs(rcall('ZRANGE', name, first, first + count - #ids - 1)) do
        ids[#ids + 1] = id
      end
    end
    total = total + rcall('ZCARD', name)
  end
  return Json.with(cjson.encode({ total = total }), 'schedules', ScheduleView.list_of(call, ids))
end

-- schedule.get id
function ScheduleView.get(call, args, i)
  local record = Schedules.read(call, Arguments.given(call, 'id', args[i]))
  return record and shown(record)
end

-- schedule.list [offset count] -> total and schedules: by their next tick, then paused ones, then templates by queue
function ScheduleView.list(call, args, i)
  local offset = math.max(Arguments.offset(call, args[i]), 0)
  local count = math.max(Arguments.count(call, args[i + 1], 25), 0)
  local names, queues =
    { call.keys.schedules, call.keys.paused_schedules }, Queues.names(call, Arguments.most)
  table.sort(queues)
  for _, queue in ipairs(queues) do
    names[#names + 1] = Keys.queue(call, queue).recur
  end
  return ScheduleView.part(call, names, offset, count)
end

-- schedules.of id... -> those that exist
function ScheduleView.of(call, args, i)
  Arguments.bounded(call, #args - i + 1)
  return ScheduleView.list_of(call, Pieces.rest(args, i))
end

local MOST_NEXT = 100

-- schedules.next count -> those that tick next (templates are left out)
function ScheduleView.next(call, args, i)
  local count = math.min(Arguments.whole(call, 'count', args[i], 0), MOST_NEXT)
  local found = {}
  for _, id in ipairs(rcall('ZRANGE', call.keys.schedules, 0, 2 * MOST_NEXT - 1)) do
    local record = #found < count and Schedules.read(call, id)
    found[#found + 1] = record and next_tick(record) and shown(record) or nil
  end
  return Json.list(found)
end

-- schedule.declared -> id, owner, edited (1 or 0) of each that has an owner
function ScheduleView.declared(call)
  local declared, flat = rcall('HGETALL', call.keys.declared_schedules), {}
  for n = 1, #declared, 2 do
    flat[#flat + 1], flat[#flat + 2] = declared[n], declared[n + 1]
    flat[#flat + 1] = rcall('HGET', Keys.schedule(call, declared[n]), 'edited') or '0'
  end
  return flat
end
end
end
if module_name == 'Search' then
return function(Search)
local Arguments, Errors, JobSummary, Keys =
modules.Arguments, modules.Errors, modules.JobSummary, modules.Keys
-- views/search.lua
-- A search among jobs: which of those in parts of lists may be meant, and how far it has looked.

local find, sub, match = string.find, string.sub, string.match
local rcall = redis.call

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

-- A pattern of names in which `*` and `?` stand for any characters: as the texts that a name must have in this order.
-- That is less than the pattern says, but no pattern takes long.
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
  local has_tail = texts.tail == '' or sub(name, -#texts.tail) == texts.tail
  if sub(name, 1, #texts.head) ~= texts.head or not has_tail then
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

local READERS = {
  queue = function(_, wanted, text)
    wanted.queue = text
  end,
  state = function(call, wanted, text)
    wanted.states = RECORDED[text] or Errors.argument(call, 'Unknown state ' .. Errors.name(text))
  end,
  klass = function(_, wanted, text)
    wanted.klass = texts_of(text)
  end,
  jid = function(_, wanted, text)
    wanted.jid = text
  end,
  data = function(_, wanted, text)
    wanted.data = wanted.data or {}
    wanted.data[#wanted.data + 1] = text
  end,
}

-- Reads conditions, pairs of a name and a text, from args[i] on.
local function read_conditions(call, args, i, number)
  local wanted = {}
  for n = i, i + 2 * number - 1, 2 do
    local name = Arguments.given(call, 'condition', args[n])
    local reader = READERS[name]
    if not reader then
      Errors.argument(call, 'Unknown condition ' .. Errors.name(name))
    end
    reader(call, wanted, Arguments.given(call, name, args[n + 1]))
  end
  return wanted
end

-- May the job be meant? -> that, and how many bytes of data were read to know it, if any. (One field after the other is
-- read: mostly the first says no. Where one is missing, as of canceled jobs, the row is to tell.)
local function may_be(call, jid, wanted)
  if wanted.jid and sub(jid, 1, #wanted.jid) ~= wanted.jid then
    return false
  end
  local name = Keys.job(call, jid)
  if wanted.queue and (rcall('HGET', name, 'queue') or wanted.queue) ~= wanted.queue then
    return false
  end
  local state = wanted.states and rcall('HGET', name, 'state')
  if state and not wanted.states[state] then
    return false
  end
  local klass = wanted.klass and rcall('HGET', name, 'klass')
  if klass and not may_suit(klass, wanted.klass) then
    return false
  end
  local data = wanted.data and rcall('HGET', name, 'data')
  if data then
    return has_any(data, wanted.data), #data
  end
  return true
end

-- The jids in the parts, the place of each among all that the parts name, and how many places these are: at most as
-- many as a call may handle.
local function listed(call, parts)
  local jids, places, before = {}, {}, 0
  for _, part in ipairs(parts) do
    local most = Arguments.most - before
    for at, jid in ipairs(JobSummary.jids(call, part, most)) do
      jids[#jids + 1], places[#places + 1] = jid, before + at
    end
    before = before + math.min(part.count, most)
  end
  return { jids = jids, places = places, number = before }
end

-- search most conditions (name text)... (kind list start count)... -> how many places were looked at, and the rows of
-- the jobs, at most `most`. Conditions: queue, state, the pattern klass, how the jid begins, and a text that is in the
-- data, or one of several.
--
-- A few jobs too many may be among them: a pattern is not compared to the letter, locks are not looked at.
function Search.search(call, args, i)
  local most = Arguments.whole(call, 'most', args[i], 0)
  local number = Arguments.whole(call, 'conditions', args[i + 1], 0)
  Arguments.bounded(call, most)
  Arguments.bounded(call, number)
  local wanted = read_conditions(call, args, i + 2, number)
  local list = listed(call, JobSummary.parts(call, args, i + 2 + 2 * number))
  local rows, bytes, looked = {}, 0, list.number
  for n, jid in ipairs(list.jids) do
    if #rows >= most or bytes >= BYTES then
      looked = list.places[n] - 1
      break
    end
    local is_meant, read = may_be(call, jid, wanted)
    bytes = bytes + (read or 0)
    rows[#rows + 1] = is_meant and JobSummary.row(call, jid) or nil
  end
  return cjson.encode({ looked = looked, jobs = rows })
end
end
end
end
else
if initial < 85 then
if module_name == 'Tags' then
return function(Tags)
local Arguments, Errors, Features, Json, Keys, Pieces =
modules.Arguments, modules.Errors, modules.Features, modules.Json, modules.Keys, modules.Pieces
-- core/tags.lua
-- Tags: which jobs carry one, and how many do.

local rcall = redis.call

-- Counted only when the job did not carry it, so that counts stay equal to members.
function Tags.index(call, jid, tags)
  if #tags > 0 then
    Features.note(call, 'G')
  end
  for _, tag in ipairs(tags) do
    if rcall('ZADD', Keys.tag(call, tag), call.text, jid) == 1 then
      rcall('ZINCRBY', call.keys.tags, '1', tag)
    end
  end
end

local function unindex(call, jid, tags)
  for _, tag in ipairs(tags) do
    if
      rcall('ZREM', Keys.tag(call, tag), jid) == 1
      and tonumber(rcall('ZINCRBY', call.keys.tags, '-1', tag)) <= 0
    then
      rcall('ZREM', call.keys.tags, tag)
    end
  end
end

-- The tags in the text of a record; nil if it cannot be read.
local function read(text)
  local fine, tags = pcall(Json.stored, text)
  return fine and tags or nil
end

-- A job does not carry the tags in the text of its record any longer. Where that cannot be read it is looked for among all
-- tags.
function Tags.unindex_all(call, jid, text)
  if text and text ~= '{}' and text ~= '' then
    unindex(call, jid, read(text) or rcall('ZRANGE', call.keys.tags, 0, -1))
  end
end

-- The tags of both lists, in order and without repetition.
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

-- Those of the first list that are not in the second.
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

local function tags_of(call, jid)
  jid = Arguments.name(call, 'jid', jid)
  local state, text = unpack(rcall('HMGET', Keys.job(call, jid), 'state', 'tags'))
  if not state then
    Errors.no_job(call, jid)
  end
  local tags = read(text or nil)
  if not tags then
    Tags.unindex_all(call, jid, text)
  end
  return tags or {}
end

local function store(call, jid, tags)
  local text = cjson.encode(tags)
  rcall('HSET', Keys.job(call, jid), 'tags', text)
  return text
end

local WORDS = {}

function WORDS.add(call, args, i)
  local jid, more = args[i], Pieces.rest(args, i + 1)
  local tags = tags_of(call, jid)
  Arguments.bounded(call, #more)
  local all = Arguments.few_tags(call, Tags.with(tags, more))
  Tags.index(call, jid, more)
  return store(call, jid, all)
end

function WORDS.remove(call, args, i)
  local jid, less = args[i], Pieces.rest(args, i + 1)
  local tags = tags_of(call, jid)
  Arguments.bounded(call, #less)
  unindex(call, jid, less)
  return store(call, jid, Tags.without(tags, less))
end

function WORDS.get(call, args, i)
  local tag = Arguments.given(call, 'tag', args[i])
  local offset, count = Arguments.offset(call, args[i + 1]), Arguments.count(call, args[i + 2], 25)
  local total = rcall('ZCARD', Keys.tag(call, tag))
  return cjson.encode({
    total = total,
    jobs = rcall('ZRANGE', Keys.tag(call, tag), Arguments.range(offset, count, total)),
  })
end

function WORDS.top(call, args, i)
  local offset, count = Arguments.offset(call, args[i]), Arguments.count(call, args[i + 1], 25)
  count = count < 0 and Arguments.most or count
  return cjson.encode(rcall('ZREVRANGEBYSCORE', call.keys.tags, '+inf', 2, 'LIMIT', offset, count))
end

-- tag add|remove jid tag...   tag get tag [offset count]   tag top [offset count]
function Tags.command(call, args, i)
  local act = WORDS[args[i] or '']
  if not act then
    Errors.argument(call, 'First argument must be add, remove, get or top')
  end
  return act(call, args, i + 1)
end

-- tag.counts offset count -> total, and tags: each with how many jobs carry it, the commonest first
function Tags.counts(call, args, i)
  local offset = Arguments.whole(call, 'offset', args[i], 0)
  local count = math.min(Arguments.whole(call, 'count', args[i + 1], 0), Arguments.most)
  local shown = {}
  local found = count > 0 and rcall('ZREVRANGE', call.keys.tags, offset, offset + count - 1, 'WITHSCORES')
    or {}
  for n = 1, #found, 2 do
    shown[#shown + 1] = { found[n], tonumber(found[n + 1]) }
  end
  return cjson.encode({ total = rcall('ZCARD', call.keys.tags), tags = shown })
end
end
end
if module_name == 'Take' then
return function(Take)
local Arguments, Call, Config, Corrupt, Entities, Errors, Features, Finish, Job, JobView, Json, Keys,
Limits, Links, Lock, Pieces, Queue, Recurring, Samples, Ticks, Times, Wake =
modules.Arguments, modules.Call, modules.Config, modules.Corrupt, modules.Entities, modules.Errors,
modules.Features, modules.Finish, modules.Job, modules.JobView, modules.Json, modules.Keys,
modules.Limits, modules.Links, modules.Lock, modules.Pieces, modules.Queue, modules.Recurring,
modules.Samples, modules.Ticks, modules.Times, modules.Wake
-- core/take.lua
-- Handing out jobs: expired locks first, then what fell due, then the top of the work.

local rcall = redis.call

local JOB = {
  'state',
  'klass',
  'data',
  'retries',
  'remaining',
  'priority',
  'tags',
  'context',
  'time',
  'more',
}

local RUNNABLE = { waiting = true, stalled = true, running = true }

-- Jobs that turn out to be too late, or to be parked, by one call at most.
local MOST_LATE, MOST_PARKED = 1000, 100

-- What fell due comes into the work before one is chosen, so that priorities count among it.
local MOST_DUE = 1000

-- Workers read these: one that is no number must not reach them.
local NUMBERS = { 'retries', 'remaining', 'priority' }

local function check_numbers(job)
  for n = 1, #NUMBERS do
    local text = job[NUMBERS[n]]
    if text and not Times.finite(text) then
      error('its ' .. NUMBERS[n] .. ' is ' .. Errors.value(text))
    end
  end
end

-- What is known of a job that was met among those to be handed out; false if it is not to be.
local function read(call, jid)
  local name = Keys.job(call, jid)
  local values = rcall('HMGET', name, unpack(JOB))
  local job = {
    jid = jid,
    key = name,
    state = values[1] or nil,
    klass = values[2] or nil,
    data = values[3] or nil,
    retries = values[4] or nil,
    remaining = values[5] or nil,
    priority = values[6] or nil,
    tags = values[7] or nil,
    context = values[8] or nil,
    since = values[9] and Times.number(values[9]) or call.now,
    more = values[10] or nil,
    -- what comes later
    queue = nil,
    token = nil,
    expires = nil,
    score = nil,
  }
  if not RUNNABLE[job.state] then
    if job.state and not Job.is_state(job.state) or (not job.state and (job.klass or job.data)) then
      error('the state of the job is ' .. Errors.value(job.state or ''))
    end
    return false
  end
  check_numbers(job)
  Json.stored(job.tags)
  Json.stored(job.context)
  local letters = Features.letters(call, job.more)
  if letters then
    job.letters = letters
    Features.read(job)
  end
  return job
end

-- What a worker gets of a job, in the order of Reserved in the client.
local function reservation(job)
  return {
    job.jid,
    job.queue,
    job.klass or '',
    job.data or '',
    job.token or '',
    job.retries or '5',
    job.remaining or '',
    job.priority or '0',
    job.tags or '{}',
    job.context or '',
    job.expires or '',
    job.together, -- how many may run together, of entities
  }
end

local AGAIN = {
  'queue',
  'klass',
  'data',
  'token',
  'retries',
  'remaining',
  'priority',
  'tags',
  'context',
  'expires',
  'more',
}

-- The same of a job that was handed out before.
function Take.reservation(call, jid)
  local job = { jid = jid, key = Keys.job(call, jid) }
  local values = rcall('HMGET', job.key, unpack(AGAIN))
  for n = 1, #AGAIN do
    job[AGAIN[n]] = values[n] or nil
  end
  job.letters = Features.letters(call, job.more)
  if job.letters then
    Features.read(job)
  end
  if job.entity then
    Entities.restore(call, job)
  end
  return reservation(job)
end

-- The same if the job still runs with this token; nil if not.
function Take.reservation_if_held(call, jid, token)
  local found = rcall('HMGET', Keys.job(call, jid), 'state', 'token')
  return found[1] == 'running' and found[2] == token and Take.reservation(call, jid) or nil
end

-- Writes that the job was given to a worker.
local function start(call, job, want)
  job.token = Call.draw(call)
  Samples.add(call, 'wait', job.queue, call.now - job.since)
  rcall(
    'HSET',
    job.key,
    'state',
    'running',
    'worker',
    want.worker,
    'expires',
    job.expires,
    'time',
    call.text,
    'token',
    job.token
  )
end

-- Hands one job over, if it may run. -> whether it does
local function hand_over(call, jid, score, want)
  local queue = want.queue
  local job = Corrupt.guard(call, jid, queue, read)
  if not job then
    return false
  end
  job.queue, job.expires, job.score = queue.name, want.expires, score
  local letters = job.letters
  if letters then
    local answer, one, two = Features.admit(call, job)
    if answer == 'fail' then
      want.late[#want.late + 1] = { job = job, group = one, message = two }
      return false
    elseif answer == 'park' then
      call.parked = (call.parked or 0) + 1
      Limits.park(call, job, one, two)
      return false
    elseif answer == 'stay' then
      want.full = true
      want.staying[#want.staying + 1] = job
      return false
    end
  end
  start(call, job, want)
  if letters then
    Features.at('started', call, job, want)
  end
  if call.has.T then
    Job.tell_trackers(call, 'popped', jid)
  end
  want.locked[#want.locked + 1] = jid
  want.jobs[#want.jobs + 1] = want.reserve and reservation(job) or jid
  return true
end

-- A job that stays goes back to where it was: first in its queue.
local function put_back(call, want)
  if #want.staying == 0 then
    return
  end
  for n = 1, #want.staying do
    local job = want.staying[n]
    if job.state == 'running' then
      Finish.give_up_lost(call, job, want.queue)
    end
    local priority = job.state == 'stalled' and math.huge or tonumber(job.priority) or 0
    Queue.push(call, want.queue, job.jid, priority, job.since)
  end
  want.staying = {}
end

-- (Only when the others have left their places: what depends on these may become ready.)
local function fail_late(call, want)
  local late = want.late
  want.late = {}
  for n = 1, #late do
    call.late = (call.late or 0) + 1
    Finish.fail_waiting(call, late[n].job, want.queue, late[n].group, late[n].message)
  end
end

-- Writes down the locks of those that were handed over.
local function lock(call, want)
  local locked = want.locked
  if #locked == 1 then -- like most
    rcall('ZADD', want.queue.locks, want.expires, locked[1])
    rcall('ZADD', Keys.held(call, want.worker), want.expires, locked[1])
  elseif #locked > 0 then
    Pieces.add(want.queue.locks, want.expires, locked)
    Pieces.add(Keys.held(call, want.worker), want.expires, locked)
  end
  want.taken = want.taken + #locked
  want.locked = #locked > 0 and {} or locked
end

local function is_enough(call)
  return (call.late or 0) >= MOST_LATE or (call.parked or 0) >= MOST_PARKED
end

-- Takes jobs off the top of the work until there are `count`.
local function take_work(call, count, want)
  local queue, before = want.queue, want.taken
  while want.taken - before < count and not want.full and not is_enough(call) do
    local wanted = math.min(count - (want.taken - before), MOST_PARKED - (call.parked or 0))
    local popped = rcall('ZPOPMAX', queue.work, Times.text(wanted))
    if #popped == 0 then
      return
    end
    for n = 1, #popped, 2 do
      if want.full then
        rcall('ZADD', queue.work, popped[n + 1], popped[n])
      else
        hand_over(call, popped[n], popped[n + 1], want)
      end
    end
    lock(call, want)
    put_back(call, want)
    if #want.late > 0 then
      fail_late(call, want)
    end
  end
  if is_enough(call) then
    Wake.set(call, queue) -- There may be more behind them: a worker has to look again.
  end
end

-- How many jobs the queue may still hand out.
function Take.room(call, queue)
  local most = math.huge
  if call.has.L then
    most = Limits.room_of_queue(call, queue.name)
  end
  if call.has.C then
    local limit = Config.concurrency(call, queue.name)
    if limit > 0 then
      most = math.min(most, limit - rcall('ZCOUNT', queue.locks, call.text, '+inf'))
    end
  end
  return math.max(0, most)
end

local function has_due(call, place)
  return rcall('ZCOUNT', place, '-inf', call.text) > 0
end

-- Takes `count` jobs of those that have become ready.
local function take_ready(call, count, want)
  local queue = want.queue
  local most = math.max(count, call.old and 0 or MOST_DUE)
  if call.has.I and has_due(call, queue.recur) then
    Recurring.spawn_due(call, queue, most)
  end
  if has_due(call, queue.scheduled) then
    Queue.move_due(call, queue, most)
  end
  take_work(call, count, want)
end

-- Hands up to `count` jobs of a queue to a worker. `reserve`: it gets what is known of them, rather than their jids. They
-- are appended to `jobs`. -> how many (of entities that run together: how many runs)
function Take.from(call, queue, count, worker)
  if call.has.Q and rcall('EXISTS', queue.ticks) == 1 then
    Ticks.offered(call, queue)
  end
  if call.has.H then
    Limits.look(call)
  end
  local most = Take.room(call, queue)
  count = math.min(count, most)
  if count <= 0 then
    return 0
  end
  local want = {
    queue = queue,
    worker = worker.name,
    jobs = worker.jobs,
    reserve = worker.reserve,
    expires = Call.later(call, Config.heartbeat(call, queue.name)),
    taken = 0,
    locked = {},
    late = {},
    staying = {},
  }
  for _, jid in ipairs(Lock.expired(call, queue, count)) do
    hand_over(call, jid, nil, want)
  end
  lock(call, want)
  put_back(call, want)
  fail_late(call, want)
  if want.taken < count then
    take_ready(call, count - want.taken, want)
  end
  while
    call.has.H
    and want.taken < count
    and not want.full
    and not is_enough(call)
    and Limits.bring_own(call, queue)
  do
    take_work(call, count - want.taken, want)
  end
  local runs = want.taken
  if want.together then -- a feature lets several jobs run as one
    local further = math.min(most - runs, want.together(runs))
    if further > 0 then
      take_ready(call, further, want)
    end
  end
  if call.has.L and want.taken > 0 then
    Limits.count_of_queue(call, queue.name, want.taken)
  end
  if want.taken > 0 then
    Wake.taken(call, queue, tonumber(want.expires))
  end
  return runs
end

-- pop queue worker count
function Take.pop(call, args, i)
  local queue = Keys.queue(call, Arguments.real_name(call, 'queue', args[i]))
  local worker = Arguments.real_name(call, 'worker', args[i + 1])
  local count = Arguments.count(call, Arguments.given(call, 'count', args[i + 2]))
  if Queue.is_paused(call, queue) then
    return '{}'
  end
  rcall('ZADD', call.keys.workers, call.text, worker)
  if call.has.R then
    Links.carry_on(call)
  end
  local jids = {}
  if count > 0 then
    Take.from(call, queue, count, { name = worker, jobs = jids })
  end
  Call.keep_for_repeat(call, jids)
  return JobView.list(call, jids)
end
end
end
if module_name == 'Times' then
return function(Times)
-- core/times.lua
-- Numbers and times as texts. (redis.call would print a number with 17 digits each time.)

local format, byte, sub, floor = string.format, string.byte, string.sub, math.floor

-- Most numbers of a record have one digit.
local SMALL, DIGITS = {}, {}
for digit = 0, 9 do
  local text = format('%d', digit)
  SMALL[digit], DIGITS[text] = text, digit
end

-- A number as redis.call would print it.
function Times.text(number)
  return SMALL[number] or format('%.17g', number)
end

-- A whole number as text. (Printing a fraction costs as much as a small Redis command.)
function Times.whole(number)
  if number > -2 ^ 53 and number < 2 ^ 53 then
    return format('%d', number)
  end
  return format('%.0f', number)
end

-- The number of a time as text. (In two parts: the server's times have more digits than are read quickly at once.)
function Times.number(text)
  if #text == 17 and byte(text, 11) == 46 then
    return tonumber(sub(text, 1, 10)) + tonumber(sub(text, 12)) / 1e6
  end
  return tonumber(text)
end

-- The number of a stored text, or `default` if it is none. (JSON knows neither nan nor inf.)
function Times.finite(text, default)
  local number = DIGITS[text] or tonumber(text or nil)
  return number and number - number == 0 and number or default
end

-- A time cut to thousandths of a second. (What is lost in a product is less than what is added.)
function Times.thousandths(seconds)
  if seconds == floor(seconds) then
    return Times.whole(seconds)
  end
  return format('%.3f', floor(seconds * 1000 + 0.001) / 1000)
end
end
end
if module_name == 'Tracking' then
return function(Tracking)
local Arguments, Errors, Events, Features, JobView, Json, Keys =
modules.Arguments, modules.Errors, modules.Events, modules.Features, modules.JobView, modules.Json,
modules.Keys
-- core/tracking.lua
-- Tracked jobs: those whose every change is published under their ids.

local rcall = redis.call

-- The job is tracked no longer. -> 1 if it was
function Tracking.untrack(call, jid)
  Events.tracked(call, 'untrack', jid)
  local removed = rcall('ZREM', call.keys.tracked, jid)
  if rcall('EXISTS', call.keys.tracked) == 0 then
    Features.forget(call, 'T')
  end
  return removed
end

-- track [track|untrack jid]
function Tracking.track(call, args, i)
  if args[i] == nil then
    local jobs, expired = {}, {}
    for _, jid in ipairs(rcall('ZRANGE', call.keys.tracked, 0, Arguments.most - 1)) do
      local shown = JobView.show(call, jid)
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
    Errors.argument(call, 'Unknown word ' .. Errors.name(args[i]) .. ', it must be track or untrack')
  end
  local jid = Arguments.name(call, 'jid', args[i + 1])
  if rcall('EXISTS', Keys.job(call, jid)) == 0 then
    Errors.no_job(call, jid)
  end
  if word == 'untrack' then
    return cjson.encode(Tracking.untrack(call, jid))
  end
  Events.tracked(call, 'track', jid)
  Features.note(call, 'T')
  return cjson.encode(rcall('ZADD', call.keys.tracked, call.text, jid))
end
end
end
if module_name == 'Ticks' then
return function(Ticks)
local Arguments, Cancel, Corrupt, Errors, Features, Job, Json, Keys, Pieces, Put, Times =
modules.Arguments, modules.Cancel, modules.Corrupt, modules.Errors, modules.Features, modules.Job,
modules.Json, modules.Keys, modules.Pieces, modules.Put, modules.Times
-- features/ticks.lua
-- Ticks of schedules. One worker at a time is the ticker: it asks what is due (schedule.due), computes the ticks, decides by
-- the policies for missed ones which of them put a job, and says that and when the schedule goes on (schedule.tick). Here
-- it is compared and set, so that each tick puts one job, however many workers compute it.
--
-- Only here is it known whether workers ask for jobs of a queue. While none does, a schedule has one job there, that of its
-- last tick, unless it makes up for all ticks. `ticks` of the queue has those whose last job is not known to have been
-- offered to a worker.

local format = string.format
local rcall = redis.call

local LEASE = 6 -- seconds for which a worker is the ticker; it asks again in time
local AGAIN = 60 -- seconds until a schedule that cannot go on is looked at again
local LONGEST_TROUBLE = 1000 -- bytes

-- A score for about that time which is no tick: ticks of cron are whole numbers.
function Ticks.no_tick(time)
  return time == math.floor(time) and time - 2 ^ -10 or time
end

local DUE = { 'since', 'interval', 'cron', 'timezone', 'missed' }

-- What is due, at most `count`; the seconds until the next falls due, if that is soon.
local function due_now(call, count)
  local name, flat = call.keys.schedules, {}
  local due = rcall('ZRANGEBYSCORE', name, '-inf', call.text, 'WITHSCORES', 'LIMIT', '0', count)
  for n = 1, #due, 2 do
    local values = rcall('HMGET', Keys.schedule(call, due[n]), unpack(DUE))
    if values[2] or values[3] then
      flat[#flat + 1], flat[#flat + 2] = due[n], due[n + 1]
      for k = 1, #DUE do
        flat[#flat + 1] = values[k] or ''
      end
    else
      rcall('ZREM', name, due[n])
    end
  end
  if #due == 2 * count then
    return flat, 0
  end
  local later = rcall('ZRANGEBYSCORE', name, '(' .. call.text, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
  return flat, math.min(LEASE / 2, tonumber(later[2] or call.now + LEASE) - call.now)
end

-- schedule.due worker count -> seconds until it is to ask again, now, whether the worker is the ticker, and what is due: id,
-- score, since (''; or when: the ticks after it count, and the score is none), interval, cron, timezone, missed of each.
-- Nothing is due for others.
function Ticks.due(call, args, i)
  local worker = Arguments.name(call, 'worker', args[i])
  local count = math.max(Arguments.count(call, args[i + 1], 100), 1)
  local name = call.keys.ticker
  local holder, left = rcall('GET', name), rcall('PTTL', name) / 1000
  -- (A lease that lasts longer was given before the server's clock was set back.)
  if holder and holder ~= worker and left <= LEASE then
    return { format('%.3f', math.max(left, 0)), format('%.6f', call.now), 0, {} }
  end
  rcall('SET', name, worker, 'PX', LEASE * 1000)
  local due, seconds = due_now(call, count)
  return { format('%.6f', seconds), format('%.6f', call.now), 1, due }
end

-- Workers end: none of them is the ticker any longer.
function Ticks.leave(call, workers)
  local holder = rcall('GET', call.keys.ticker)
  for _, worker in ipairs(holder and workers or {}) do
    if worker == holder then
      rcall('DEL', call.keys.ticker)
    end
  end
end

-- The job of a tick at that time, as Put takes it. `record` is that of a schedule or a template; raises an error if it
-- cannot be read. Nothing is published: a client has not put it.
function Ticks.job(call, record, jid, time)
  local job = {
    jid = jid,
    key = Keys.job(call, jid),
    queue = Arguments.given(call, 'queue', record.queue),
    klass = Arguments.given(call, 'klass', record.klass),
    data = Arguments.given(call, 'data', record.data),
    priority = Arguments.number(call, 'priority', record.priority),
    retries = Arguments.whole(call, 'retries', record.retries, 0),
    tag_list = Arguments.names(call, 'tags', record.tags),
    context = Json.stored(record.context) and record.context,
    delay = 0,
    put = format('%.0f', math.floor(time * 1000 + 0.001)),
    since = time,
    overdue = time,
    spawned_from_jid = record.jid,
    silent = true,
  }
  if record.unique or record.expires then
    -- The key names the job put last, until that one has ended.
    job.options = { unique = record.unique, conflict = record.unique and 'take', expires = record.expires }
    for option in pairs(job.options) do
      Features.use(job, Features.of_option(option))
    end
  end
  return job
end

-- The same, checked: a plan to be carried out. -> nil and why, if the record cannot be read
function Ticks.plan(call, record, jid, time)
  local fine, plan = pcall(function()
    return Put.check(call, { jobs = { Ticks.job(call, record, jid, time) } })
  end)
  if fine then
    return plan
  end
  return nil, Corrupt.words(plan)
end

-- The jid of the job of a tick. (Ticks are a second apart at least.)
local function job_at(record, time)
  return record.jid .. '@' .. Times.thousandths(time)
end

-- Takes the job of a schedule's last tick back, unless a worker has taken it or a job waits for it. -> whether it did
local function take_back(call, record)
  local last = tonumber(record.last)
  local jid = last and job_at(record, last)
  local is_there = jid and rcall('ZSCORE', Keys.queue(call, record.queue).work, jid)
  local job = is_there and rcall('EXISTS', Keys.dependents(call, jid)) == 0 and Job.read(call, jid)
  if job then
    Cancel.erase(call, job)
    record.count = math.max((tonumber(record.count) or 0) - 1, 0)
    rcall('HSET', record.key, 'count', record.count)
  end
  return job
end

local function read(call, id)
  local name = Keys.schedule(call, id)
  local record = Pieces.hash(name)
  record.jid, record.key = id, name
  return record
end

-- A worker asks for jobs of the queue: what schedules have put there is offered to it, but for ticks that are missed by now,
-- of those that make up for none.
function Ticks.offered(call, queue)
  local late = rcall('ZRANGEBYSCORE', queue.ticks, '-inf', '(' .. call.text, 'LIMIT', '0', Arguments.most)
  for _, id in ipairs(late) do
    local record = read(call, id)
    if record.queue == queue.name then
      take_back(call, record)
    end
  end
  rcall('DEL', queue.ticks)
end

-- The job of a tick is about to be put where that of the last one may wait that no worker was offered.
local function replace_last(call, record, missed_at)
  local queue = Keys.queue(call, record.queue)
  if rcall('ZSCORE', queue.ticks, record.jid) then
    take_back(call, record)
  end
  rcall('ZADD', queue.ticks, missed_at and format('%.17g', missed_at) or '+inf', record.jid)
  Features.note(call, 'Q')
end

-- Puts the job of a tick, unless it is there already, or missed. -> how many; nil and why, if the schedule cannot be read
local function put(call, record, tick)
  local jid = job_at(record, tick.time)
  if rcall('EXISTS', Keys.job(call, jid)) == 1 or call.now > (tick.missed_at or math.huge) then
    return 0
  end
  local plan, why = Ticks.plan(call, record, jid, tick.time)
  if not plan then
    return nil, why
  end
  if record.missed ~= 'all' then
    replace_last(call, record, tick.missed_at)
  end
  Put.carry_out(call, plan)
  record.count, record.last = (tonumber(record.count) or 0) + 1, format('%.17g', tick.time)
  return 1
end

-- It is left for later, so that it does not stand before others. The ticks that fell due stay due.
local function put_off(call, record, score, why)
  local since = tonumber(record.since) or score - (tonumber(record.interval) or 1)
  rcall('HSET', record.key, 'trouble', why, 'since', format('%.17g', since))
  local again = Ticks.no_tick(call.now + AGAIN)
  rcall('ZADD', call.keys.schedules, format('%.17g', again), record.jid)
  return 0
end

-- -> 1 if a job was put, otherwise 0
local function carry_out(call, tick)
  local score = tonumber(rcall('ZSCORE', call.keys.schedules, tick.id) or nil)
  local record = score == tick.score and (tick.time or 0) <= call.now and read(call, tick.id)
  if not record or not record.queue then
    return 0
  end
  local number, why = 0, tick.trouble
  if not why and tick.time then
    number, why = put(call, record, tick)
  end
  if why then
    return put_off(call, record, score, why)
  end
  rcall('HDEL', record.key, 'since', 'trouble')
  if number > 0 then
    rcall('HSET', record.key, 'count', record.count, 'last', record.last)
  end
  rcall('ZADD', call.keys.schedules, format('%.17g', tick.next), tick.id)
  return number
end

local function parse(call, args, i)
  local tick = { id = Arguments.given(call, 'id', args[i]) }
  tick.score = Arguments.number(call, 'score', args[i + 1])
  local time, missed_at, trouble = args[i + 2], args[i + 3], args[i + 5]
  if trouble ~= '' then
    tick.trouble = Errors.cut(trouble, LONGEST_TROUBLE)
    return tick
  end
  tick.time = time ~= '' and Arguments.number(call, 'tick', time) or nil
  tick.missed_at = missed_at ~= '' and Arguments.number(call, 'missed_at', missed_at) or nil
  tick.next = Arguments.number(call, 'next', args[i + 4])
  if tick.next <= (tick.time or -1) then
    Errors.argument(call, 'next must come after the tick')
  end
  return tick
end

-- schedule.tick (id score tick missed_at next trouble)... -> 1 for each that put a job, otherwise 0. `score` is that of
-- schedule.due: what has changed since is left alone. `tick` is '' if none puts a job; by `missed_at` it is too late for
-- that; `next` is when the schedule goes on; `trouble` says why that cannot be computed, '' if it can.
function Ticks.tick(call, args, i)
  local given, ticks = #args - i + 1, {}
  if given % 6 ~= 0 then
    Errors.argument(call, 'id, score, tick, missed_at, next and trouble of each wanted')
  end
  Arguments.bounded(call, given / 6)
  for n = i, #args, 6 do
    ticks[#ticks + 1] = parse(call, args, n)
  end
  for n, tick in ipairs(ticks) do
    ticks[n] = carry_out(call, tick)
  end
  return ticks
end
end
end
if module_name == 'Throughput' then
return function(Throughput)
local Arguments, Config, Errors, Minutes, Pieces, Stats =
modules.Arguments, modules.Config, modules.Errors, modules.Minutes, modules.Pieces, modules.Stats
-- views/throughput.lua
-- What a queue, or the whole namespace, has done lately: the counters of minutes in longer spans.

local floor = math.floor

local QUEUES = 200 -- of which one call says how many jobs are failed
local DAYS = 10000 -- looked at by that call, of all queues together

local function zeros(number)
  local list = {}
  for n = 1, number do
    list[n] = 0
  end
  return list
end

-- throughput queue from to step -> started, completed, failed and, of a queue, put: lists of numbers. Without a queue
-- (''), of the whole namespace.
function Throughput.show(call, args, i)
  local queue = Arguments.given(call, 'queue', args[i])
  local from = Arguments.whole(call, 'from', args[i + 1], 0)
  local to = Arguments.whole(call, 'to', args[i + 2], 0)
  local step = Arguments.whole(call, 'step', args[i + 3], 1)
  if to < from then
    Errors.argument(call, 'to must not be before from, ' .. from .. ', as ' .. to .. ' is')
  elseif to - from >= Minutes.longest then
    Errors.refuse(call, 'TOOBIG', '%s minutes, at most %s', to - from + 1, Minutes.longest)
  end
  local shown = { first = from, step = step }
  local kinds = {}
  for _, kind in ipairs(Minutes.kinds) do
    if queue ~= '' or kind ~= 'put' then
      kinds[kind] = zeros(floor((to - from) / step) + 1)
    end
  end
  Minutes.each(call, queue, { from = from, to = to, kinds = kinds }, function(kind, minute, n)
    local place = floor((minute - from) / step) + 1
    kinds[kind][place] = kinds[kind][place] + n
  end)
  for _, kind in ipairs(Minutes.kinds) do
    shown[kind] = kinds[kind] or cjson.null
  end
  return cjson.encode(shown)
end

-- failed.of queue... -> of each, how many of its jobs are failed: the sum of what the days know for which statistics are
-- kept
function Throughput.failed(call, args, i)
  local names, failed = Pieces.rest(args, i), {}
  if #names > QUEUES then
    Errors.refuse(call, 'TOOBIG', '%s queues in one call, at most %s', #names, QUEUES)
  end
  local days = math.min(Config.whole(call, 'stats-history') + 1, floor(DAYS / math.max(#names, 1)))
  for n, name in ipairs(names) do
    failed[n] = Stats.failed(call, name, math.max(1, days))
  end
  return failed
end
end
end
else
if initial < 87 then
if module_name == 'Unique' then
return function(Unique)
local Arguments, Cycles, Deadlines, Errors, Job, Json, Keys =
modules.Arguments, modules.Cycles, modules.Deadlines, modules.Errors, modules.Job, modules.Json,
modules.Keys
-- features/unique.lua
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
end
end
else
if module_name == 'Wake' then
return function(Wake)
local Config, GlobWaits, Limits, Queue, Take =
modules.Config, modules.GlobWaits, modules.Limits, modules.Queue, modules.Take
-- core/wake.lua
-- Wake-ups: markers that tell idle workers to look.
--
-- The marker of a queue says that something can be started there now, or that the clock has to be looked at. Idle
-- workers block on the markers of their queues (BZPOPMIN): a marker wakes one of them, which asks for jobs. It is set by
-- each call that makes it true; by a worker that was woken, takes jobs and leaves some that can be started; and by one
-- that watches the clock and goes to work. A call that leaves nothing, or finds nothing, deletes it instead: otherwise a
-- queue that is paused or full would wake workers again and again. If a worker dies between its wake-up and its call,
-- another one finds the jobs when it looks by itself.
--
-- The timer of a marker is the time at which one idle worker looks: only what falls due sooner needs the marker.
--
-- Workers of globs, or of very many queues, block on one marker for all of them: see glob_waits.lua. A marker is a
-- queue of Keys.queue, or one of those: both have `wake`, its key, and `timer`. Its members are names of queues.

local rcall = redis.call

-- Seconds: every idle worker looks at least so often. What falls due later needs no marker.
local LOOK = 5

-- Seconds: a marker must last from the call that finds nothing until its worker blocks.
local KEPT = '60'

local NONE = {}

-- What a call has changed, by queue; the markers are set when it ends.
--   call.ready    something can be started
--   call.changed  jobs were handed out, or slots freed: can something be started now?
--   call.due      when something falls due
local function note(call, what, queue, value)
  local noted = call[what]
  if not noted then
    noted = {}
    call[what] = noted
  end
  noted[queue] = value
end

-- Jobs of the queue became ready.
function Wake.set(call, queue)
  note(call, 'ready', queue, true)
end

-- Something of the queue falls due at that time.
function Wake.due(call, queue, time)
  local known = call.due and call.due[queue]
  if time < (known or call.now + LOOK) then
    note(call, 'due', queue, time)
  end
end

-- A lock of the queue was given up: where their number is limited there may be room now.
function Wake.freed(call, queue)
  if call.has.C and Config.concurrency(call, queue.name) > 0 then
    note(call, 'changed', queue, true)
  end
end

-- Jobs of the queue were handed out, until `expires`. (A worker that was busy has been woken by no marker: the others
-- need no other one than there is.)
function Wake.taken(call, queue, expires)
  local was_woken = call.has_waited or not (call.client or call.old)
  if was_woken or call.ready and call.ready[queue] then
    note(call, 'changed', queue, true)
  else
    Wake.due(call, queue, expires)
  end
end

-- When something of the queue falls due next; of what is not due already, if `is_later`.
local function next_due(call, queue, is_later)
  local than = is_later and '(' .. call.text or '-inf'
  local first = Limits.next_look(call, queue) or math.huge
  first = is_later and first <= call.now and math.huge or first
  for _, place in ipairs({ queue.scheduled, queue.recur, queue.locks }) do
    local head = rcall('ZRANGEBYSCORE', place, than, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
    first = math.min(first, tonumber(head[2] or math.huge))
  end
  return first
end

local function set(marker, name)
  if rcall('ZADD', marker.wake, '0', name) == 1 then
    rcall('EXPIRE', marker.wake, KEPT)
  end
end

-- -> when a client looks, the client; a time long past if none does
local function read_timer(text)
  local time, client = string.match(text or '', '^(%S+) (.*)$')
  return tonumber(time) or -math.huge, client
end

-- Does no client look in time for what falls due then? `text` is the timer.
local function is_unwatched(call, text, time)
  local looks = read_timer(text)
  return looks <= call.now or looks > time
end

-- Can something be started in a queue that has changed? If not, when will it have to be looked at?
local function look_again(call, queue)
  local has_room = not Queue.is_paused(call, queue) and Take.room(call, queue) > 0
  local can_start = has_room and rcall('EXISTS', queue.work) == 1
  note(call, 'ready', queue, can_start or nil)
  if not can_start then
    rcall('DEL', queue.wake)
    for _, marker in ipairs(GlobWaits.of(call, queue)) do
      rcall('ZREM', marker.wake, queue.name)
    end
    Wake.due(call, queue, next_due(call, queue, not has_room))
  end
end

-- Sets the markers for what the call has changed.
function Wake.finish(call)
  for queue in pairs(call.changed or NONE) do
    look_again(call, queue)
  end
  for queue in pairs(call.ready or NONE) do
    set(queue, queue.name)
    for _, marker in ipairs(call.has.W and GlobWaits.of(call, queue) or NONE) do
      set(marker, queue.name)
    end
  end
  for queue, time in pairs(call.due or NONE) do
    for _, marker in ipairs({ queue, unpack(GlobWaits.of(call, queue)) }) do
      if is_unwatched(call, rcall('GET', marker.timer), time) then
        set(marker, queue.name)
      end
    end
  end
end

-- Do workers of this choice block on one marker?
local function has_one_marker(choice)
  return choice.globbing or choice.partly or #choice.queues == 0
end

local function timers_of(markers)
  local timers = {}
  for n = 1, #markers do
    timers[n] = markers[n].timer
  end
  return #timers > 0 and rcall('MGET', unpack(timers)) or timers
end

-- The client goes to work: another one has to look in its place.
function Wake.works(call, client, choice)
  local markers = has_one_marker(choice) and GlobWaits.all(call) or choice.queues
  for n, text in ipairs(timers_of(markers)) do
    local _, looking = read_timer(text)
    if looking == client then
      rcall('DEL', markers[n].timer)
      if not (call.changed and call.changed[markers[n]]) then
        set(markers[n], markers[n].name)
      end
    end
  end
end

-- When something of these queues falls due next. What is due already cannot be started: the call has tried.
local function due_later(call, queues)
  local first, due = math.huge, call.due or {}
  for _, queue in ipairs(queues) do
    first = math.min(first, next_due(call, queue, true))
    due[queue] = due[queue] and due[queue] > call.now and due[queue] or nil
  end
  return first
end

-- The client has found nothing. -> for how many seconds to block, then the markers to block on
function Wake.wait(call, client, choice, asked)
  local is_one = has_one_marker(choice)
  local markers = is_one and { GlobWaits.add(call, choice, asked) } or choice.queues
  local timers, seconds, rest = timers_of(markers), asked, { '' }
  for n, marker in ipairs(markers) do
    local time = due_later(call, is_one and choice.queues or { marker })
    local left, _, looking = time - call.now, read_timer(timers[n])
    if left < asked and (looking == client or is_unwatched(call, timers[n], time)) then
      seconds = math.min(seconds, left)
      local text = string.format('%.6f %s', time, client)
      rcall('SET', marker.timer, text, 'PX', math.ceil(left * 1000) + 1000) -- a second more, for who is late
    elseif looking == client then
      rcall('DEL', marker.timer)
    end
    rest[n + 1] = marker.wake
  end
  rcall('DEL', unpack(rest, 2))
  rest[1] = string.format('%.3f', math.max(0.001, math.min(seconds + 0.0005, asked)))
  return rest
end
end
end
if module_name == 'Worker' then
return function(Worker)
local Arguments, Call, Config, Errors, Events, Features, GlobWaits, Json, Keys, Limits, Lock, Pieces,
Samples, Ticks, Times, Workflows =
modules.Arguments, modules.Call, modules.Config, modules.Errors, modules.Events, modules.Features,
modules.GlobWaits, modules.Json, modules.Keys, modules.Limits, modules.Lock, modules.Pieces,
modules.Samples, modules.Ticks, modules.Times, modules.Workflows
-- core/worker.lua
-- Workers: what they say about themselves, what they hold, one heartbeat for all of it, and what operators ask of them.

local rcall = redis.call

local FAR = 8640000 -- seconds; no lock is longer

-- Workers silent for too long are forgotten, unless a lock of theirs is still good.
local function forget_silent(call)
  local before = Times.text(call.now - Config.number(call, 'max-worker-age'))
  local silent = rcall('ZRANGEBYSCORE', call.keys.workers, '-inf', before, 'LIMIT', 0, Arguments.most)
  for _, worker in ipairs(silent) do
    if rcall('ZCOUNT', Keys.held(call, worker), '(' .. call.text, '+inf') == 0 then
      rcall('DEL', Keys.held(call, worker))
      rcall('ZREM', call.keys.workers, worker)
    end
  end
end

-- A worker is shown with what it says about itself, but not to old clients.
local function with_info(call, shown, worker, seen)
  if call.old then
    return cjson.encode(shown)
  end
  shown.beat = tonumber(seen)
  return Json.with(cjson.encode(shown), 'info', rcall('GET', Keys.worker(call, worker)) or 'null')
end

-- Workers that gave a sign of life lately (where silent ones are forgotten: those that are left), the latest first, and
-- when: some of them, or all. -> these, how many there are
function Worker.seen(call, offset, count)
  local since = '-inf'
  if call.reading then
    since = '(' .. Times.text(call.now - Config.number(call, 'max-worker-age'))
  end
  local name = call.keys.workers
  local total = rcall('ZCOUNT', name, since, '+inf')
  offset, count = offset or 0, count or total
  return rcall('ZREVRANGEBYSCORE', name, '+inf', since, 'WITHSCORES', 'LIMIT', offset, count), total
end

-- One of them, as JSON.
function Worker.shown(call, worker, seen)
  local held = Keys.held(call, worker)
  return with_info(call, {
    name = worker,
    jobs = rcall('ZCOUNT', held, call.text, Times.text(call.now + FAR)),
    stalled = rcall('ZCOUNT', held, 0, call.text),
  }, worker, seen)
end

-- workers [worker]
function Worker.show(call, args, i)
  local worker = args[i] and Arguments.name(call, 'worker', args[i])
  if not call.reading then
    forget_silent(call)
  end
  if worker then
    local held = Keys.held(call, worker)
    local shown = {
      jobs = rcall('ZREVRANGEBYSCORE', held, Times.text(call.now + FAR), call.text),
      stalled = rcall('ZREVRANGEBYSCORE', held, call.text, 0),
    }
    return with_info(call, shown, worker, rcall('ZSCORE', call.keys.workers, worker) or nil)
  end
  local all, seen = {}, Worker.seen(call)
  for n = 1, #seen, 2 do
    all[#all + 1] = Worker.shown(call, seen[n], seen[n + 1])
  end
  return Json.list(all)
end

-- worker.deregister worker...
function Worker.deregister(call, args, i)
  local workers = Pieces.rest(args, i)
  Arguments.bounded(call, #workers)
  for _, worker in ipairs(workers) do
    rcall('ZREM', call.keys.workers, worker)
    rcall('DEL', Keys.worker(call, worker), Keys.orders(call, worker))
  end
  Ticks.leave(call, workers)
end

local KNOWN = { quiet = true, resume = true, stop = true }
local MOST_ORDERS = 20 -- kept for a worker that does not fetch them; the latest are

-- order worker quiet|resume|stop: for the worker's next beat
function Worker.order(call, args, i)
  local worker, order = Arguments.name(call, 'worker', args[i]), args[i + 1]
  if not KNOWN[Arguments.given(call, 'order', order)] then
    Errors.argument(call, 'order must be quiet, resume or stop, not ' .. Errors.value(order))
  elseif
    not rcall('ZSCORE', call.keys.workers, worker) and rcall('EXISTS', Keys.worker(call, worker)) == 0
  then
    Errors.refuse(call, 'NOWORKER', 'Worker ' .. Errors.name(worker) .. ' is not known')
  end
  local name = Keys.orders(call, worker)
  rcall('RPUSH', name, order)
  rcall('LTRIM', name, -MOST_ORDERS, -1)
  rcall('EXPIRE', name, Config.worker_age(call))
  Events.order(call, worker, order)
end

-- What was asked of a worker, the first first: each is given out once.
local function take_orders(call, worker)
  local name = Keys.orders(call, worker)
  local orders = rcall('LRANGE', name, 0, -1)
  if #orders > 0 then
    rcall('DEL', name)
  end
  return orders
end

local HELD = { 'state', 'worker', 'token', 'queue', 'grace', 'more' }

-- Renews the lock of a run that the worker still holds. -> whether it does
local function renew(call, worker, jid, token)
  local run = { jid = jid, key = Keys.job(call, jid) }
  local values = rcall('HMGET', run.key, unpack(HELD))
  for n = 1, #HELD do
    run[HELD[n]] = values[n] or nil
  end
  if run.state ~= 'running' or run.worker ~= worker or run.token ~= token then
    return false
  end
  run.queue = run.queue or ''
  run.letters = Features.letters(call, run.more)
  if run.letters then
    Features.read(run)
  end
  Lock.extend(call, run, Call.later(call, Config.heartbeat(call, run.queue)))
  return true
end

-- beat worker info n (jid token held)*n -> { jids of lost jobs, orders }
-- It also writes the samples of all workers, so that statistics are never much older, and does what has to be done
-- now and then.
function Worker.beat(call, args, i)
  local worker, said = Arguments.name(call, 'worker', args[i]), args[i + 1]
  if Arguments.given(call, 'info', said) ~= '' then
    Arguments.object(call, 'info', said)
  end
  local count = Arguments.whole(call, 'number of jobs', args[i + 2], 0)
  Arguments.bounded(call, count)
  if #args - i - 2 ~= 3 * count then
    Errors.argument(call, 'jid, token and held of ' .. count .. ' jobs wanted')
  end
  for n = i + 5, #args, 3 do
    Arguments.held(call, args[n])
  end
  local lost = {}
  for n = i + 3, #args, 3 do
    if not renew(call, worker, args[n], args[n + 1]) then
      lost[#lost + 1] = args[n]
    end
  end
  rcall('ZADD', call.keys.workers, call.text, worker)
  if said ~= '' then
    rcall('SET', Keys.worker(call, worker), said, 'EX', Config.worker_age(call))
  end
  forget_silent(call)
  Samples.write(call)
  GlobWaits.tidy(call)
  Limits.look(call)
  Workflows.repair(call)
  return { lost, take_orders(call, worker) }
end
end
end
if module_name == 'Waiters' then
return function(Waiters)
local Arguments, Cancel, Errors, Features, Job, Keys, Pieces =
modules.Arguments, modules.Cancel, modules.Errors, modules.Features, modules.Job, modules.Keys,
modules.Pieces
-- features/waiters.lua
-- Waiting for jobs and workflows: a waiter blocks on a list that the end of the job feeds. A job for which one waits has
-- the letter of this feature.

local match = string.match
local rcall = redis.call

local MOST = 1000 -- waiters of one end; the others see it when they look again
local KEPT = 60 -- seconds for which an answer is kept for a waiter that may be gone
local MARGIN = 5 -- seconds between the answer and the moment in which a client really blocks
local LONGEST_WAIT = 24 * 3600 -- seconds; a client may ask again

-- What is waited for has ended: `job:<jid>` or `workflow:<id>`.
function Waiters.tell(call, target)
  local name = Keys.awaiting(call, target)
  local since = call.old and '-inf' or call.text
  local waiters = rcall('ZRANGEBYSCORE', name, since, '+inf', 'LIMIT', '0', MOST)
  for _, waiter in ipairs(waiters) do
    local list = Keys.ended(call, waiter)
    rcall('RPUSH', list, '1')
    rcall('EXPIRE', list, KEPT)
  end
  if #waiters < MOST then
    rcall('DEL', name)
  else
    rcall('ZREM', name, unpack(waiters))
  end
end

local ENDED = { complete = true, failed = true, canceled = true }

function Waiters.ended(call, job)
  if ENDED[job.state] then
    Waiters.tell(call, 'job:' .. job.jid)
  end
end

function Waiters.gone(call, job, why)
  if why == 'canceled' then
    Waiters.tell(call, 'job:' .. job.jid)
  end
end

local function register(call, waiter, kind, id, seconds)
  if kind == 'job' then
    local job = { jid = id, key = Keys.job(call, id) }
    job.more = rcall('HGET', job.key, 'more') or nil
    Features.add(call, job, 'a')
  end
  local name, kept = Keys.awaiting(call, kind .. ':' .. id), math.ceil(seconds) + KEPT
  rcall('ZADD', name, string.format('%.6f', call.now + seconds + MARGIN), waiter)
  rcall('ZREMRANGEBYSCORE', name, '-inf', call.text)
  -- Another waiter may wait longer.
  if rcall('TTL', name) < kept then
    rcall('EXPIRE', name, kept)
  end
end

local LOOK = {
  job = function(call, jid)
    local state, queue = unpack(rcall('HMGET', Keys.job(call, jid), 'state', 'queue'))
    if state then
      return Job.state_now(call, jid, queue or '', state)
    end
    return Cancel.exists(call, jid) and 'canceled' or nil
  end,
  workflow = function(call, id)
    return rcall('HGET', Keys.workflow(call, id), 'state') or nil
  end,
}

-- The first of the others is waited for: what comes behind it is looked at when it has ended.
local function wait_for_first(call, reply, wish)
  for _, id in ipairs(wish.ids) do
    local state = LOOK[wish.kind](call, id) or ''
    if state ~= '' and not ENDED[state] then
      register(call, wish.waiter, wish.kind, id, wish.seconds)
      return reply
    end
    reply[#reply + 1] = state
  end
  rcall('DEL', reply[1])
  return reply
end

-- await waiter seconds job|workflow id... -> the key to block on for at most that time, and the states of the first of
-- them, as far as they have ended; '' for what does not exist. The list is fed when the next one ends. With 0 seconds:
-- the states of all, without waiting.
function Waiters.await(call, args, i)
  local wish = { waiter = Arguments.given(call, 'waiter', args[i]) }
  if not match(wish.waiter, '^[%w_.~-]+$') or #wish.waiter > 128 then
    local words = 'waiter must be 1 to 128 letters, digits and _ . ~ -, not %s'
    Errors.argument(call, words, Errors.value(wish.waiter))
  end
  wish.seconds = math.max(0, math.min(Arguments.number(call, 'seconds', args[i + 1]), LONGEST_WAIT))
  wish.kind = args[i + 2]
  if not LOOK[wish.kind or ''] then
    Errors.argument(call, 'what to wait for must be job or workflow, not ' .. Errors.value(wish.kind))
  end
  Arguments.given(call, 'id', args[i + 3])
  wish.ids = Pieces.rest(args, i + 3)
  Arguments.bounded(call, #wish.ids)
  local reply = { Keys.ended(call, wish.waiter) }
  if wish.seconds > 0 then
    return wait_for_first(call, reply, wish)
  end
  for n, id in ipairs(wish.ids) do
    reply[n + 1] = LOOK[wish.kind](call, id) or ''
  end
  return reply
end
end
end
if module_name == 'WorkflowCommands' then
return function(WorkflowCommands)
local Arguments, Errors, Json, Keys, Pieces, Put, Rows, Workflows =
modules.Arguments, modules.Errors, modules.Json, modules.Keys, modules.Pieces, modules.Put,
modules.Rows, modules.Workflows
-- features/workflow_commands.lua
-- What may be done with a workflow as a whole: put it, by one call or by several; look at it; cancel it; retry what has
-- failed in it.

local rcall = redis.call

-- The id of a workflow that is to be made. (No colon: that is how its keys are told apart.) One that is being put may
-- be begun again.
local function new_id(call, id)
  Arguments.given(call, 'workflow', id)
  if not string.match(id, '^[%w_.~-]+$') or #id > 128 then
    local words = 'workflow must be 1 to 128 letters, digits and _ . ~ -, not '
    Errors.argument(call, words .. Errors.value(id))
  end
  local chore = Workflows.chore(call, id)
  if chore and not (chore == 'unpacking' and call.command == 'workflow.begin') then
    Errors.refuse(call, 'STATE', 'Workflow ' .. Errors.name(id) .. ' exists already')
  end
  return id
end

local function known_id(call, id)
  if not Workflows.chore(call, Arguments.given(call, 'workflow', id)) then
    Errors.refuse(call, 'NOJOB', 'Workflow ' .. Errors.name(id) .. ' does not exist')
  end
  return id
end

-- Each job is new, belongs to the workflow and stands behind those that it depends on: so there can be no cycle.
local function check_members(call, id, jobs)
  local at, links = {}, 0
  for n, job in ipairs(jobs) do
    at[job.given or job.jid] = n
  end
  if #jobs == 0 then
    Errors.argument(call, 'a workflow needs at least one job')
  end
  for n, job in ipairs(jobs) do
    local jid = job.given or job.jid
    if not job.options or job.options.workflow ~= id then
      Errors.argument(call, 'Job ' .. Errors.name(jid) .. ' does not name its workflow')
    elseif rcall('EXISTS', Keys.job(call, jid)) == 1 then
      Errors.refuse(call, 'STATE', 'Job ' .. Errors.name(jid) .. ' exists already')
    end
    for _, other in ipairs(job.depends or {}) do
      links = links + 1
      if (at[other] or 0) >= n then
        local words = 'Job %s must stand behind %s, on which it depends'
        Errors.refuse(call, 'CYCLE', words, Errors.name(jid), Errors.name(other))
      end
    end
  end
  Arguments.bounded(call, links)
end

local function begin(call, id, meta)
  local counters = { 'total', 0, 'complete', 0, 'failed', 0, 'canceled', 0, 'held', 0 }
  rcall(
    'HSET',
    Keys.workflow(call, id),
    'state',
    'running',
    'meta',
    meta,
    'created',
    call.text,
    unpack(counters)
  )
end

-- workflow.put id worker meta (item)... -> id; the items as those of put.many
function WorkflowCommands.put(call, args, i)
  local id = new_id(call, args[i])
  local asking = Arguments.given(call, 'worker', args[i + 1])
  Arguments.object(call, 'meta', args[i + 2])
  call.workflows[id] = ''
  local jobs = Rows.parse(call, args, i + 3)
  local plan = Put.check(call, { jobs = jobs, acyclic = true })
  check_members(call, id, jobs)
  begin(call, id, args[i + 2])
  Workflows.look_again(call, id) -- others may stand for all of its jobs
  Put.carry_out(call, plan, asking)
  return id
end

-- workflow.begin id meta -> id. The jobs of what is too large for one call come by put.many, and name it; none of them
-- starts before workflow.release.
function WorkflowCommands.begin(call, args, i)
  local id = new_id(call, args[i])
  Arguments.object(call, 'meta', args[i + 1])
  if not Workflows.chore(call, id) then
    begin(call, id, args[i + 1])
  end
  Workflows.set_chore(call, id, 'unpacking')
  return id
end

-- workflow.release id given -> how many jobs later calls let in. `given`: how many jobs, and further dependencies of them,
-- must have come. (What was refused of them may be unknown to the caller.)
function WorkflowCommands.release(call, args, i)
  local id = known_id(call, args[i])
  local given = Arguments.whole(call, 'given', args[i + 1], 0)
  local state, reason, there = unpack(rcall('HMGET', Keys.workflow(call, id), 'state', 'reason', 'given'))
  there = tonumber(there or nil) or 0
  Workflows.must_go_on(call, id)
  if state == 'canceled' and reason then
    Errors.refuse(call, 'STATE', 'Workflow %s was canceled: %s', Errors.name(id), reason)
  elseif there < given then
    local words = '%s of %s jobs and further dependencies of workflow %s are there'
    Errors.refuse(call, 'STATE', words, there, given, Errors.name(id))
  elseif Workflows.chore(call, id) == 'unpacking' then
    Workflows.set_chore(call, id, nil)
  end
  return Workflows.step(call, id)
end

-- workflow.get id -> its record as JSON, or nothing
function WorkflowCommands.get(call, args, i)
  local id = Arguments.given(call, 'workflow', args[i])
  local record = Pieces.hash(Keys.workflow(call, id))
  if not record.state then
    return nil
  end
  local shown = { id = id, state = record.state, reason = record.reason }
  for _, field in ipairs({ 'total', 'complete', 'failed', 'canceled', 'held', 'created', 'finished' }) do
    shown[field] = tonumber(record[field])
  end
  local meta = pcall(Json.stored, record.meta) and record.meta or '{}'
  return Json.with(cjson.encode(shown), 'meta', meta)
end

-- workflow.jobs id [offset count] -> how many, and the jids of some of them
function WorkflowCommands.jobs(call, args, i)
  local id = Arguments.given(call, 'workflow', args[i])
  local offset = Arguments.offset(call, args[i + 1])
  local count = Arguments.count(call, args[i + 2], 25)
  local name = Keys.workflow_jobs(call, id)
  return cjson.encode({
    total = rcall('LLEN', name),
    jobs = count > 0 and rcall('LRANGE', name, offset, offset + count - 1) or {},
  })
end

-- workflow.cancel id -> how many jobs are still to be looked at. The next such call goes on; so do others.
function WorkflowCommands.cancel(call, args, i)
  local id = known_id(call, args[i])
  if Workflows.chore(call, id) ~= 'canceling' then
    local state = rcall('HGET', Keys.workflow(call, id), 'state')
    if state == 'complete' or state == 'canceled' then
      return 0
    end
    Workflows.cancel(call, id)
  end
  return Workflows.step(call, id)
end

-- workflow.retry id from -> where to go on (0: that was all), how many were put back since the last such call
function WorkflowCommands.retry(call, args, i)
  local id = known_id(call, args[i])
  local from = Arguments.whole(call, 'from', args[i + 1], 0)
  Workflows.must_go_on(call, id)
  local name = Keys.workflow(call, id)
  if from == 0 then
    rcall('HSET', name, 'retry_at', 0, 'retried', 0)
    Workflows.leave(call, id)
  end
  Workflows.step(call, id)
  local at, retried = unpack(rcall('HMGET', name, 'retry_at', 'retried'))
  rcall('HDEL', name, 'retried')
  return { tonumber(at or nil) or 0, tonumber(retried or nil) or 0 }
end
end
end
if module_name == 'Workflows' then
return function(Workflows)
local Call, Cancel, Config, Errors, Failures, Keys, Links, Pieces, Waiters =
modules.Call, modules.Cancel, modules.Config, modules.Errors, modules.Failures, modules.Keys,
modules.Links, modules.Pieces, modules.Waiters
-- features/workflows.lua
-- Workflows: jobs that were put together, how many of them have ended, and how.
--
-- The record's `chore` says that none of its jobs may start: `unpacking` while it is being put, `canceling`. What then
-- nothing else holds back stands at its gate. Steps that are left to later calls (of the workflows in the key of that
-- name): to cancel, from `cancel_at` down; to empty the gate; to retry, from `retry_at` on.

local rcall = redis.call

Workflows.fields = { 'workflow' }
Workflows.options = { 'workflow' }

local STEP = 250 -- jobs canceled or retried by one call
local PATIENCE = 3600 -- seconds since the last put, after which what is not released is canceled
local REASON = 'it was not released within an hour of the last put'

-- `given` counts the jobs, and further dependencies of them, that came while it was being put.
local NUMBERS = { 'total', 'complete', 'failed', 'canceled', 'held', 'given' }

-- What a workflow of which the call hears is at: its chore or '', nil if there is none. It is remembered in
-- call.workflows.
function Workflows.chore(call, id)
  call.workflows = call.workflows or {}
  local chore = call.workflows[id]
  if not chore then
    local state, its_chore = unpack(rcall('HMGET', Keys.workflow(call, id), 'state', 'chore'))
    chore = state and (its_chore or '') or nil
    call.workflows[id] = chore
  end
  return chore
end

-- What changed is in call.flows until its end: id -> by how much each counter, and the jids that joined.
local finish

local function change(call, id)
  if not call.flows then
    call.flows = {}
    Call.at_end(call, finish)
  end
  local mine = call.flows[id]
  if not mine then
    mine = { total = 0, complete = 0, failed = 0, canceled = 0, held = 0, given = 0, jids = {} }
    call.flows[id] = mine
  end
  return mine
end

-- Has the state of a workflow judged at the end of the call.
function Workflows.look_again(call, id)
  change(call, id)
end

local COUNTER = { complete = 'complete', failed = 'failed', canceled = 'canceled', depends = 'held' }

local function moved(call, job, was, is)
  local from, to = COUNTER[was], COUNTER[is]
  if job.workflow and from ~= to then
    local mine = change(call, job.workflow)
    if from then
      mine[from] = mine[from] - 1
    end
    if to then
      mine[to] = mine[to] + 1
    end
  end
end

-- What the counters say of the whole.
local function judged(record)
  local left = record.total - record.complete - record.failed - record.canceled
  if record.chore then
    return record.chore
  elseif left == 0 then
    return record.failed > 0 and 'failed' or record.canceled > 0 and 'canceled' or 'complete'
  end
  -- What is left waits for what has failed?
  return record.failed > 0 and left == record.held and 'failed' or 'running'
end

local ENDED = { complete = true, failed = true, canceled = true }

-- Writes down the state of a workflow, and tells who waits for its end. One that has ended well is forgotten as completed
-- jobs are.
local function judge(call, id)
  local name, list = Keys.workflow(call, id), Keys.workflow_jobs(call, id)
  local record = Pieces.hash(name)
  for _, field in ipairs(NUMBERS) do
    record[field] = tonumber(record[field]) or 0
  end
  local is = judged(record)
  if is == record.state then
    return
  end
  rcall('HSET', name, 'state', is)
  if ENDED[is] then
    rcall('HSET', name, 'finished', call.text)
    Waiters.tell(call, 'workflow:' .. id)
  else
    rcall('HDEL', name, 'finished')
  end
  local seconds = math.max(0, Config.whole(call, 'jobs-history'))
  for _, key in ipairs({ name, list }) do
    if is == 'complete' or is == 'canceled' then
      rcall('EXPIRE', key, seconds)
    else
      rcall('PERSIST', key)
    end
  end
end

function finish(call)
  local flows = call.flows
  call.flows = nil
  for id, mine in pairs(flows) do
    local name = Keys.workflow(call, id)
    if rcall('EXISTS', name) == 1 then
      for _, field in ipairs(NUMBERS) do
        if mine[field] ~= 0 then
          redis.pcall('HINCRBY', name, field, mine[field]) -- A counter that is no number stays as it is.
        end
      end
      Pieces.run('RPUSH', Keys.workflow_jobs(call, id), mine.jids)
      if mine.given > 0 then
        rcall('ZADD', call.keys.open_gates, 'XX', call.text, id)
      end
      judge(call, id)
    end
  end
end

-- Refuses a workflow that is being canceled: what joins it now would be overlooked. -> its chore, nil if there is none
function Workflows.must_go_on(call, id)
  local chore = Workflows.chore(call, id)
  if chore == 'canceling' then
    Errors.refuse(call, 'STATE', 'Workflow ' .. Errors.name(id) .. ' is being canceled')
  end
  return chore
end

-- Something of a workflow that is being put has come.
function Workflows.count_given(call, id, number)
  if Workflows.chore(call, id) == 'unpacking' then
    local mine = change(call, id)
    mine.given = mine.given + number
  end
end

-- Checks the workflow that a put names. While that is being put, its jobs are new, or were put by an earlier attempt.
-- -> whether that is so
local function check_named(call, job, id)
  if id == '' or #id > 255 then
    Errors.argument(call, 'workflow must have 1 to 255 bytes, not ' .. #id)
  elseif not Workflows.must_go_on(call, id) then
    Errors.refuse(call, 'NOJOB', 'Workflow ' .. Errors.name(id) .. ' does not exist')
  end
  if job.fresh or Workflows.chore(call, id) ~= 'unpacking' then
    return false
  elseif job.old and job.old.workflow ~= id then
    Errors.refuse(call, 'STATE', 'Job ' .. Errors.name(job.jid) .. ' exists already')
  elseif not job.old then
    Workflows.count_given(call, id, 1)
  end
  return job.old ~= nil
end

-- (A job that takes another's place is where that was.)
function Workflows.check(call, job)
  local named, former = job.options and job.options.workflow, job.old and job.old.workflow
  if named and check_named(call, job, named) then
    return 'leave'
  end
  job.workflow = job.fresh and former or named or former
  job.gate = job.workflow and (Workflows.chore(call, job.workflow) or '') ~= ''
end

-- Does its chore hold the job back? Then it stands at the gate from now on.
function Workflows.holds(call, job)
  if (Workflows.chore(call, job.workflow) or '') == '' then
    return false
  end
  rcall('SADD', Keys.gate(call, job.workflow), job.jid)
  return true
end

function Workflows.stored(call, job)
  if job.old and job.old.workflow == job.workflow then
    moved(call, job, job.old.state, job.state)
  elseif job.workflow then
    local mine = change(call, job.workflow)
    mine.jids[#mine.jids + 1] = job.jid
    mine.total = mine.total + 1
    moved(call, job, nil, job.state)
  end
  if job.gate and rcall('SCARD', Keys.dependencies(call, job.jid)) == 0 then
    Workflows.holds(call, job)
  end
end

function Workflows.ended(call, job, was)
  moved(call, job, was, job.state)
end

function Workflows.revived(call, job)
  moved(call, job, 'failed', job.state)
end

-- (What is forgotten after its completion stays counted.)
function Workflows.gone(call, job, why)
  if why ~= 'expired' and not (why == 'replaced' and job.new.workflow == job.workflow) then
    moved(call, job, job.state, 'canceled')
  end
end

-- A workflow begins, or ends, a chore; later calls carry on with what is left to be done.
function Workflows.set_chore(call, id, chore)
  local name = Keys.workflow(call, id)
  if chore == 'unpacking' then
    rcall('ZADD', call.keys.open_gates, call.text, id)
  else
    rcall('ZREM', call.keys.open_gates, id)
    Workflows.leave(call, id)
  end
  if chore then
    rcall('HSET', name, 'chore', chore)
  else
    rcall('HDEL', name, 'chore', 'cancel_at')
  end
  call.workflows[id] = chore or ''
  Workflows.look_again(call, id)
end

-- There are steps left of it.
function Workflows.leave(call, id)
  Links.leave(call, call.keys.workflows, id)
end

-- From the last to the first: what depends on others goes before them. -> how many are left
local function cancel_some(call, id)
  local name, list = Keys.workflow(call, id), Keys.workflow_jobs(call, id)
  local stop = tonumber(rcall('HGET', name, 'cancel_at')) or 0
  local start = math.max(0, stop - STEP)
  local jids = stop > 0 and rcall('LRANGE', list, start, stop - 1) or {}
  local at = #jids
  while at > 0 and (at == #jids or Links.left(call) > 0) do
    local workflow, state = unpack(rcall('HMGET', Keys.job(call, jids[at]), 'workflow', 'state'))
    if workflow == id and state ~= 'complete' then
      Cancel.remove(call, jids[at], 'workflow', id)
    end
    at = at - 1
  end
  rcall('HSET', name, 'cancel_at', start + at)
  if start + at == 0 then
    Workflows.set_chore(call, id, nil)
  end
  return start + at
end

-- Lets in those that stand at the gate. -> how many are left there
local function let_in_some(call, id)
  local gate, most = Keys.gate(call, id), Links.left(call)
  local jids = most > 0 and rcall('SPOP', gate, most) or {}
  Links.spend(call, #jids)
  for n = 1, #jids do
    Links.free_if_last(call, jids[n])
  end
  return rcall('SCARD', gate)
end

-- Enqueues some failed jobs again; their number is kept in `retried` for the one who has asked for it.
local function retry_some(call, id)
  local name = Keys.workflow(call, id)
  local from = tonumber(rcall('HGET', name, 'retry_at') or nil)
  if not from then
    return 0
  end
  local jids, failed = rcall('LRANGE', Keys.workflow_jobs(call, id), from, from + STEP - 1), {}
  for _, jid in ipairs(jids) do
    local workflow, state = unpack(rcall('HMGET', Keys.job(call, jid), 'workflow', 'state'))
    if workflow == id and state == 'failed' then
      failed[#failed + 1] = jid
    end
  end
  rcall('HINCRBY', name, 'retried', Failures.revive(call, failed, 1))
  if #jids < STEP then
    rcall('HDEL', name, 'retry_at')
    return 0
  end
  rcall('HSET', name, 'retry_at', from + STEP)
  return from + STEP
end

-- Does the next step of what is to be done with a workflow. -> how much is left of that
function Workflows.step(call, id)
  local left = 0
  if Workflows.chore(call, id) == 'canceling' then
    left = cancel_some(call, id)
  end
  if Workflows.chore(call, id) == '' then
    left = left + let_in_some(call, id)
  end
  left = left + retry_some(call, id)
  if left == 0 then
    rcall('ZREM', call.keys.workflows, id)
  end
  return left
end

-- Carries on with what a client has begun and perhaps left.
function Workflows.carry_on(call)
  local id = Pieces.first(call.keys.workflows)
  if id then
    Workflows.step(call, id)
  end
end

-- Begins to cancel a workflow. `reason`: why, if that was not asked for.
function Workflows.cancel(call, id, reason)
  local name = Keys.workflow(call, id)
  rcall('HDEL', name, 'retry_at')
  rcall('HSET', name, 'cancel_at', rcall('LLEN', Keys.workflow_jobs(call, id)))
  if reason then
    rcall('HSET', name, 'reason', reason)
  end
  Workflows.set_chore(call, id, 'canceling')
end

-- For each worker's beat: cancels what a client has begun to put, and left; and carries on.
function Workflows.repair(call)
  local id, since = Pieces.first(call.keys.open_gates)
  if id and since < call.now - PATIENCE and Workflows.chore(call, id) then
    Workflows.cancel(call, id, REASON)
  end
  Workflows.carry_on(call)
end
end
end
if module_name == 'WorkerView' then
return function(WorkerView)
local Arguments, JobSummary, Json, Keys, Worker =
modules.Arguments, modules.JobSummary, modules.Json, modules.Keys, modules.Worker
-- views/worker_view.lua
-- Workers with the jobs that they hold, for a page.

local rcall = redis.call

local SHOWN = 5 -- jobs of a worker
local LOOKED_AT = 100 -- of those that it holds, to find the longest running; …
local IN_ALL = 5000 -- … and of all workers of a call

-- The jobs that a worker has held for the longest time, of the first to expire.
local function longest_held(call, worker, looked_at)
  local held = {}
  for n, jid in ipairs(rcall('ZRANGE', Keys.held(call, worker), 0, looked_at - 1)) do
    held[n] = { jid = jid, since = tonumber(rcall('HGET', Keys.job(call, jid), 'time') or nil) or 0 }
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
function WorkerView.list(call, args, i)
  local offset = Arguments.whole(call, 'offset', args[i], 0)
  local count = math.min(Arguments.whole(call, 'count', args[i + 1], 0), Arguments.most)
  local looked_at = math.max(SHOWN, math.min(LOOKED_AT, math.floor(IN_ALL / math.max(count, 1))))
  local shown, seen, total = {}, Worker.seen(call, offset, count)
  for n = 1, #seen, 2 do
    local rows = JobSummary.rows(call, longest_held(call, seen[n], looked_at))
    local jobs = cjson.encode({ jobs = rows })
    shown[#shown + 1] = Json.with(jobs, 'worker', Worker.shown(call, seen[n], seen[n + 1]))
  end
  return Json.with(cjson.encode({ total = total }), 'workers', Json.list(shown))
end
end
end
end
end
end
end
end
error('no module ' .. tostring(module_name))
end
return modules
end

-- lua/main.lua
-- The way in: functions of a library for calls with KEYS, a script for calls without. While a library is loaded it may
-- do nothing but register functions, so the modules are made by the first call.
local modules

local function serve(class)
  return function(keys, args)
    if #keys == 0 then
      return redis.error_reply('BADARG a call without KEYS is made by EVALSHA, not by FCALL')
    end
    modules = modules or build()
    return modules.Call.serve(keys, args, class)
  end
end

local function register(name, class, flags)
  redis.register_function({ function_name = name .. '_' .. class, callback = serve(class), flags = flags })
end

-- The loader of a library calls this with the library's name.
local Qless = {
  register = function(library)
    register(library, 'read', { 'no-writes' })
    register(library, 'write', {})
    register(library, 'drain', { 'allow-oom' })
  end,
}

if not redis.register_function then
  if #KEYS > 0 then
    return redis.error_reply('BADARG a call with KEYS is made by FCALL, not by EVALSHA')
  end
  return build().Call.serve_old(ARGV)
end
