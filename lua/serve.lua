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

-- What most calls leave as it is.
local function reset_touched()
  Qless.Awaiting.reset()
  Qless.Circles.reset()
  Qless.Workflow.reset()
  Qless.WorkflowVerbs.reset()
  Qless.Cascade.reset()
  Qless.Needs.reset()
  Qless.Canceled.reset()
  Qless.Pop.reset()
  Qless.Kept.reset()
  scope.touched = false
end

-- Functions keep their state from call to call.
local function reset(prefix, keyed)
  scope.prefix, scope.now, scope.keyed, scope.live, scope.reading = prefix, 0, keyed, keyed, false
  Texts.begin()
  Absence.reset()
  Clock.reset()
  Config.reset()
  Replies.reset()
  Qless.Dependencies.reset()
  Qless.Skews.reset()
  if scope.touched then
    reset_touched()
  end
  Wake.reset()
  Minutes.reset()
  Stats.reset()
  Samples.reset()
end

local function flush()
  if scope.touched then
    Qless.Workflow.flush()
    Qless.Awaiting.flush()
    Qless.Kept.flush()
    Qless.Canceled.flush()
  end
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
  Qless.WorkflowVerbs.carry_on_sometimes()
  Qless.Kept.tidy_sometimes()
  Qless.Skews.carry_on()
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
  end
  -- Servers before 7 raise texts.
  local text = type(reply) == 'table' and reply.err or tostring(reply)
  return redis.error_reply(Qless.Permissions.explained(text))
end
