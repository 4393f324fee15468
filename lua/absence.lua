-- What mostly is not there, asked for once: one question for many keys.

-- Asks for keys. If none exists, is_absent says so of each. -> whether none exists
function Absence.look_for(names)
  if call('EXISTS', unpack(names)) > 0 then
    return false
  end
  local absent = scope.absent or {}
  for n = 1, #names do
    absent[names[n]] = true
  end
  scope.absent = absent
  return true
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
