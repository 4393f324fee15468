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
