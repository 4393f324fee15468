-- The payloads of an entity: those that wait, in order, and those that a run has taken.
--
-- An entity is carried by an ordinary job, whose record has the fields `entity` (its id as text) and `home` (its
-- queue). What has been pushed for it stands in `payloads`; what the present run has taken, in `taken`.

local floor, min, max = math.floor, math.min, math.max

Payloads.most = 1000 -- of one entity in a run, and moved by one call for the dead
Payloads.bytes = 1024 * 1024 -- of one entity in a run
Payloads.each = 64 * 1024 -- bytes of one payload

-- Payloads read at first; then four times as many as before, as far as they are likely to fit.
local FIRST = 16

-- Adds payloads: score, text, score, text … Of equal ones the lower score stays. -> how many are new
function Payloads.join(name, flat)
  local new = 0
  for first = 1, #flat, 1000 do
    new = new + call('ZADD', name, 'LT', unpack(flat, first, min(first + 999, #flat)))
  end
  return new
end

-- Appends members with their scores (payload, score …), as they are read, to a list as they are written.
local function turn(flat, part)
  for n = 1, #part, 2 do
    flat[#flat + 1], flat[#flat + 2] = part[n + 1], part[n]
  end
  return flat
end

-- The payloads with the lowest scores, at most so many and so many bytes (but at least one).
-- -> score, text …, as `join` takes them; their bytes
function Payloads.lowest(name, most, bytes)
  local flat, used, step = {}, 0, FIRST
  while #flat < 2 * most do
    local at = #flat / 2
    local part = call('ZRANGE', name, at, at + min(step, most - at) - 1, 'WITHSCORES')
    for n = 1, #part, 2 do
      local size = #part[n]
      if flat[1] and used + size > bytes then
        return flat, used
      end
      flat[#flat + 1], flat[#flat + 2] = part[n + 1], part[n]
      used = used + size
    end
    if #part < 2 * step then
      break
    end
    step = max(1, min(4 * step, floor((bytes - used) * #flat / 2 / used) + 1))
  end
  return flat, used
end

-- Moves the payloads with the lowest scores, which `lowest` has read.
function Payloads.move(from, to, flat)
  if flat[1] then
    Payloads.join(to, flat)
    call('ZREMRANGEBYRANK', from, 0, #flat / 2 - 1)
  end
end

-- The same. -> whether none is left
function Payloads.move_all(from, to, flat)
  Payloads.move(from, to, flat)
  return call('EXISTS', from) == 0
end

-- Takes the payloads of a run, those with the lowest scores. -> their texts, their bytes
function Payloads.take(jid)
  local waiting, taken = key.payloads(jid), key.taken(jid)
  local texts, used = call('ZRANGE', waiting, 0, FIRST - 1), 0
  -- Mostly there are few, which fit into a run however large they are, and nothing is left of a run that was lost.
  if texts[1] and #texts < FIRST and call('RENAMENX', waiting, taken) == 1 then
    for n = 1, #texts do
      used = used + #texts[n]
    end
    return texts, used
  end
  Payloads.give_back(jid)
  local flat
  flat, used = Payloads.lowest(waiting, Payloads.most, Payloads.bytes)
  Payloads.move(waiting, taken, flat)
  texts = {}
  for n = 2, #flat, 2 do
    texts[n / 2] = flat[n]
  end
  return texts, used
end

-- What a run had taken waits again.
function Payloads.give_back(jid)
  local taken = call('ZRANGE', key.taken(jid), 0, -1, 'WITHSCORES')
  if taken[1] then
    Payloads.join(key.payloads(jid), turn({}, taken))
    call('DEL', key.taken(jid))
  end
end
