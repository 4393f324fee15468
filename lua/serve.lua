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
    Deadline.finish()
  end
  if scope.workflows then
    Workflow.finish()
  end
  if scope.ended then
    ResultWaiters.finish()
  end
  if scope.canceled then
    Canceled.finish()
  end
  if scope.samples then
    Samples.finish()
  end
  if scope.counts then
    Stats.finish()
  end
  if scope.minutes then
    Minutes.finish()
  end
  if scope.wake then
    Wake.finish()
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
    Errors.raise('BADARG', 'KEYS must be <prefix>! and <prefix>meta')
  end
  return prefix, sharded == 's'
end

-- ARGV = command, now, request, args...
local function answered(keys, args, class)
  Serve.begin('', true)
  scope.prefix, scope.sharded = read_keys(keys)
  local command, now, request = args[1], args[2], args[3]
  local known = command and Commands.find(command)
  if not known then
    Errors.raise('NOCOMMAND', 'Unknown command ' .. Errors.name(command))
  end
  if not now or not request then
    Errors.raise('BADARG', command .. '(): now and request wanted')
  end
  local sometimes = READS_SOMETIMES[command]
  scope.reading = known.reads or sometimes ~= nil and sometimes(args)
  if class == 'read' and not scope.reading then
    Errors.raise('BADARG', command .. '() writes: call it in the write or the drain class')
  end
  Arguments.weigh(command, args)
  local answer = modules[known.module][known.what]
  if scope.reading then
    Clock.set(now)
    return answer(args, 4)
  end
  Replies.announce(request)
  local stored = Clock.set(now, Replies.field())
  local served, reply = Replies.recall(stored)
  if served then
    -- Written again, unchanged: WAIT tells which replicas have what a connection has written, and a
    -- repeat may come over another one.
    call('HSET', key.meta(), Replies.field(), stored)
    return reply
  end
  reply = answer(args, 4)
  if Clock.is_round() then
    WorkflowVerbs.carry_on()
  end
  Serve.finish()
  if scope.client then
    Clock.keep(Replies.field(), Replies.kept(reply))
  else
    Clock.keep()
  end
  if scope.client and not stored then
    Replies.tidy()
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
  elseif Errors.is_refusal(reply) then
    return redis.error_reply(reply.code .. ' ' .. reply.text)
  end
  return server_error(reply)
end
