-- Pausing queues: none of their jobs are handed out; and why, for people.

local REASON, BY = 500, 255 -- bytes

-- Those that clear away take the names of whatever there may be; the others check them first.
local function check_names(command, args, i)
  for n = i, #args do
    Arguments.name(command, 'queue', args[n])
  end
end

-- Does it for each queue named, when all of the names are looked at.
function Pause.each_queue(command, args, i, act)
  Arguments.given(command, 'queue', args[i])
  Arguments.bounded(command, #args - i + 1)
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
  return Record.read('meta', text)
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
  Arguments.given('queue.pause', what, text)
  if #text > most then
    Errors.raise('TOOBIG', 'queue.pause(): ' .. what .. ' has ' .. #text .. ' bytes, at most ' .. most)
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
    Wake.ready(queue)
  end)
end
