-- What mostly is not there, asked for once: one question for many keys.
local Absence = {}
Qless.Absence = Absence

local call = redis.call

local MOST = 200 -- keys remembered

-- key -> the call that saw that it did not exist
local seen, count, present = {}, 0, 0

function Absence.reset()
  present = present + 1
  if count > MOST then
    seen, count = {}, 0
  end
end

-- Asks for keys. If none exists, is_absent says so of each. -> whether none exists
function Absence.look_for(names)
  if call('EXISTS', unpack(names)) > 0 then
    return false
  end
  count = count + #names
  for n = 1, #names do
    seen[names[n]] = present
  end
  return true
end

-- The call has made the key, or is about to.
function Absence.forget(name)
  seen[name] = nil
end

-- Is the key known not to exist? (What makes one has to say so: forget.)
function Absence.is_absent(name)
  return seen[name] == present
end
