-- Which server draws the tokens. One that has forgotten some (a replica that lagged when it was promoted, a
-- server whose last writes were lost) must not draw them again: it begins an epoch.
--
-- A token is the number of its epoch * TOKENS + how many were drawn. Numbers of epochs are drawn from 2^25, by a
-- hash of what is known of the server and the time; the first is 0.

local TOKENS, EPOCHS = 2 ^ 28, 2 ^ 25

-- The server's run and its history. Functions ask once: with the data of another server they are loaded
-- anew. Scripts ask in each call that draws.
local here

local function asked(section, field)
  local info = redis.pcall('INFO', section)
  return type(info) == 'string' and string.match(info, '[\r\n]' .. field .. ':(%w+)')
end

local function this_server()
  if not here then
    local run, history = asked('server', 'run_id'), asked('replication', 'master_replid')
    here = run and history and run .. ':' .. history or nil -- nil where the user may not ask
  end
  return here
end

-- The field of meta with the server on which this build drew last. Other builds may have asked at another time.
function Epoch.field()
  return 'server:' .. (scope.library or 'script')
end

-- Is it another server than the one that this build knew? -> what meta is to say of it, or nil
function Epoch.newcomer(known)
  local server = this_server()
  return server and server ~= known and server or nil
end

-- The last token before a new epoch, where this was the last one drawn.
function Epoch.begin(token)
  -- A replica that was promoted may lack the very first token.
  if token == 0 and not asked('replication', 'second_repl_offset') then
    return 0
  end
  local time = call('TIME')
  local hash =
    redis.sha1hex(table.concat({ this_server(), time[1], time[2], NumberFormat.whole(token) }, ' '))
  local epoch = 1 + tonumber(string.sub(hash, 1, 8), 16) % (EPOCHS - 1)
  return epoch * TOKENS + token % TOKENS
end
