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
