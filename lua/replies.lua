-- Repeatable requests: a call whose reply was lost is sent again and gets the same reply.

local match, sub = string.match, string.sub

Replies.seconds = '600'

-- What makes a reply again of what was kept in its place.
local REBUILD = {
  settle = function(kept)
    return Settle.rebuild(kept)
  end,
  pop = function(jids)
    return Job.show_all(jids)
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

-- -> true and the earlier reply if this request was served before. Notes who sends it (scope.client).
function Replies.recall(request)
  if request == '' then
    return false
  end
  local client, number = match(request, '^([%w_.~-]+):(%d+)$')
  if not client or #client > 128 then
    Errors.raise('BADARG', 'request must be <client>:<number>, not ' .. Errors.name(request))
  end
  scope.client, scope.number = client, number
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
  call('SET', key.reply(scope.client), scope.number .. ' ' .. packed_reply(reply), 'EX', Replies.seconds)
end
