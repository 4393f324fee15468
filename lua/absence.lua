-- What mostly is not there, asked for once: one question for many keys.

local function note(absent, names)
  for n = 1, #names do
    absent[names[n]] = true
  end
end

-- Asks for two kinds of keys: for all at once, and if there are any, for each kind. is_absent says of each key of a
-- kind of which none exists that it does not. -> whether none of the first kind exists
function Absence.look_for(names, others)
  local absent, both = {}, { unpack(names) }
  scope.absent = absent
  for n = 1, others and #others or 0 do
    both[#both + 1] = others[n]
  end
  local found = call('EXISTS', unpack(both))
  local of_names = found > 0 and #both > #names and call('EXISTS', unpack(names)) or found
  if of_names == 0 then
    note(absent, names)
  end
  if others and of_names == found then
    note(absent, others)
  end
  return of_names == 0
end

-- The call has made the key, or is about to.
function Absence.forget(name)
  if scope.absent then
    scope.absent[name] = nil
  end
end

-- Is the key known not to exist? (What makes one has to say so: forget.)
function Absence.is_absent(name)
  return scope.absent and scope.absent[name] or false
end
