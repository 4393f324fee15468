-- The payloads of an entity: those that wait, in the order of their scores, and those that its run has taken.

local rcall = redis.call

Payloads.most = 1000 -- of one entity in a run, and moved by one call to the dead or back
Payloads.bytes = 1024 * 1024 -- of one entity in a run
Payloads.each = 64 * 1024 -- bytes of one payload

local FEW = 15 -- payloads that fit into a run however large they are
local PIECE = 50 -- payloads read at a time

-- Adds payloads: score, text, score, text … Of equal ones the lower score stays. -> how many are new
function Payloads.join(name, flat)
  local new = 0
  for first = 1, #flat, 1000 do
    new = new + rcall('ZADD', name, 'LT', unpack(flat, first, math.min(first + 999, #flat)))
  end
  return new
end

-- The payloads with the lowest scores, at most `most` and `bytes` in all (but at least one), as `join` takes them.
-- -> these, their bytes
function Payloads.lowest(name, most, bytes)
  local flat, used = {}, 0
  repeat
    local at = #flat / 2
    local part = rcall('ZRANGE', name, at, math.min(at + PIECE, most) - 1, 'WITHSCORES')
    for n = 1, #part, 2 do
      used = used + #part[n]
      if flat[1] and used > bytes then
        return flat, used - #part[n]
      end
      flat[#flat + 1], flat[#flat + 2] = part[n + 1], part[n]
    end
  until #part < 2 * PIECE
  return flat, used
end

-- Moves the payloads with the lowest scores, which `lowest` has read. -> whether none is left
function Payloads.move(from, to, flat)
  if flat[1] then
    Payloads.join(to, flat)
    rcall('ZREMRANGEBYRANK', from, 0, #flat / 2 - 1)
  end
  return rcall('EXISTS', from) == 0
end

-- What a run had taken waits again.
function Payloads.give_back(call, jid)
  local taken = Keys.taken(call, jid)
  if rcall('EXISTS', taken) == 1 then
    Payloads.move(taken, Keys.payloads(call, jid), (Payloads.lowest(taken, math.huge, math.huge)))
  end
end

-- Takes the payloads of a run, those with the lowest scores. -> their texts, their bytes
function Payloads.take(call, jid)
  local waiting, taken = Keys.payloads(call, jid), Keys.taken(call, jid)
  local number = rcall('ZCARD', waiting)
  if number > 0 and number <= FEW and rcall('EXISTS', taken) == 0 then
    rcall('RENAME', waiting, taken)
  else
    Payloads.give_back(call, jid) -- of a run that was lost
    Payloads.move(waiting, taken, (Payloads.lowest(waiting, Payloads.most, Payloads.bytes)))
  end
  local texts, used = rcall('ZRANGE', taken, 0, -1), 0
  for n = 1, #texts do
    used = used + #texts[n]
  end
  return texts, used
end
