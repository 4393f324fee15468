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
