-- An existence cache for optional keys: one question tells for many that they are absent.

-- These keys do not exist.
function ExistenceCache.note(names)
  local absent = scope.absent or {}
  for n = 1, #names do
    absent[names[n]] = true
  end
  scope.absent = absent
end

-- Asks for two lists of keys: for all at once, and if there are any, for the first alone. is_absent says of each key of
-- a list of which none exists that it does not. -> whether none of the first exists
-- (Whether options are set is asked with them: mostly none are, or nothing else is there.)
function ExistenceCache.look_for(names, others)
  local all = { key.config(), unpack(names) }
  for n = 1, #others do
    all[#all + 1] = others[n]
  end
  local found = call('EXISTS', unpack(all))
  if found == 0 then
    Config.note_none()
  elseif Config.is_set() then
    found = found - 1
  end
  local of_names = found > 0 and #others > 0 and call('EXISTS', unpack(names)) or found
  if of_names == 0 then
    ExistenceCache.note(names)
  end
  if of_names == found then
    ExistenceCache.note(others)
  end
  return of_names == 0
end

-- The call has made the key, or is about to.
function ExistenceCache.forget(name)
  if scope.absent then
    scope.absent[name] = nil
  end
end

-- Is the key known not to exist? (What makes one has to say so: forget.)
function ExistenceCache.is_absent(name)
  return scope.absent and scope.absent[name] or false
end

ExistenceCache.many = 8 -- From so many queues in a call on, they are first asked whether they are bare.

-- Is there nothing in the queue that could be handed out, now or later? One question instead of ten.
function ExistenceCache.is_bare(queue)
  local work, locks, scheduled =
    key.place(queue, 'work'), key.place(queue, 'locks'), key.place(queue, 'scheduled')
  return call('EXISTS', work, locks, scheduled, key.place(queue, 'recur'), key.place(queue, 'openings')) == 0
end
