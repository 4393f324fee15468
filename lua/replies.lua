-- Repeatable requests: a call whose reply was lost is sent again and gets the same reply.
local Errors, scope, key = Qless.Errors, Qless.scope, Qless.key

local Replies = {}
Qless.Replies = Replies

local call, match = redis.call, string.match

Replies.seconds = 600

-- What a repeat needs in place of a long reply: commands put it here and name who rebuilds.
local short, rebuild

function Replies.reset()
  short = nil
end

-- The reply is rebuilt from `value` by the function registered under `name`.
function Replies.shorten(name, value)
  short = { name, value }
end

function Replies.builders(builders)
  rebuild = builders
end

-- -> true and the earlier reply if this request was served before.
function Replies.recall(request)
  if request == '' then
    return false
  end
  local client, number = match(request, '^([%w_.~-]+):(%d+)$')
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
    Errors.raise(
      'STALE',
      'request ' .. request .. ' is older than the last one of its client, ' .. last
    )
  end
  local kind, value = unpack(cmsgpack.unpack(packed))
  if kind ~= '' then
    return true, rebuild[kind](value)
  end
  return true, value
end

function Replies.keep(request, reply)
  if request == '' then
    return
  end
  local client, number = match(request, '^(.+):(%d+)$')
  local packed = cmsgpack.pack(short or { '', reply == nil and false or reply })
  call('SET', key.reply(client), number .. ' ' .. packed, 'EX', Replies.seconds)
end
