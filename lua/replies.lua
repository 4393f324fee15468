-- Repeatable requests: a call whose reply was lost is sent again and gets the same reply.
--
-- The last reply of each client is a field of meta, which each call reads and writes anyhow: when the request was
-- made in whole seconds, its number, the reply packed.

local match, sub, floor = string.match, string.sub, math.floor

local SECONDS = 600 -- for which a reply is kept

-- Who adds a field looks at so many others, and takes away what is too old: so at most about a third is.
local LOOKED_AT = 3

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

-- Notes who sends a request (scope.client); '' is none.
function Replies.announce(request)
  if request == '' then
    return
  end
  local client, number = match(request, '^([%w_.~-]+):(%d+)$')
  if not client or #client > 128 then
    Errors.raise('BADARG', 'request must be <client>:<number>, not ' .. Errors.value(request))
  end
  scope.client, scope.number = client, number
end

-- The field of meta with the client's last reply.
function Replies.field()
  return 'reply:' .. (scope.client or '')
end

-- -> true and the earlier reply if this request was served before. `stored` is what stands in the field.
function Replies.recall(stored)
  if not stored then
    return false
  end
  local second, last, packed = match(stored, '^(%-?%d+) (%d+) (.*)$')
  local number = tonumber(scope.number)
  scope.answered = second
  if number > tonumber(last) then
    return false
  elseif number < tonumber(last) then
    local words = 'request %s:%s is older than the last one of its client, %s'
    Errors.raise('STALE', string.format(words, scope.client, scope.number, last))
  end
  return true, unpacked(packed)
end

-- What is kept of a reply, in the client's field.
function Replies.kept(reply)
  return NumberFormat.whole(floor(scope.now)) .. ' ' .. scope.number .. ' ' .. packed_reply(reply)
end

-- A field was added: takes away some of those that are too old, of all that there are.
function Replies.tidy()
  local name, old = key.meta(), {}
  local some = redis.pcall('HRANDFIELD', name, LOOKED_AT, 'WITHVALUES')
  for n = 1, #some, 2 do -- (nothing, where the user may not ask)
    local second = sub(some[n], 1, 6) == 'reply:' and match(some[n + 1], '^%-?%d+')
    if second and math.abs(scope.now - tonumber(second)) > SECONDS then
      old[#old + 1] = some[n]
    end
  end
  if #old > 0 then
    call('HDEL', name, unpack(old))
  end
end
