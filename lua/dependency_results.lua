-- What a job was made to depend on, in order, kept beyond the links: its results are wanted later.

-- The namespace has such lists: what deletes records looks for them from now on.
local function say()
  if not scope.has_lists then
    call('HSET', key.meta(), 'lists', '1')
    scope.has_lists = true
  end
end

function DependencyResults.exist()
  return scope.has_lists or call('HGET', key.meta(), 'lists') == '1'
end

function DependencyResults.add(jid, jids)
  if jids and #jids > 0 then
    say()
    SortedSet.append(key.needs(jid), jids)
  end
end

-- Kept as long as results are, at least: who depends on the job may start long after its end.
local KEPT = 7 * 86400 -- seconds

function DependencyResults.add_offspring(jid, jids)
  if #jids > 0 then
    say()
    SortedSet.append(key.offspring(jid), jids)
    call('EXPIRE', key.offspring(jid), KEPT)
  end
end

function DependencyResults.forget(jid)
  if scope.live then
    call('DEL', key.needs(jid))
  end
end

local function page(command, name, args, i)
  local offset, count = Arguments.offset(command, args[i]), Arguments.count(command, args[i + 1], 25)
  local flat = {}
  if count > 0 then
    for _, jid in ipairs(call('LRANGE', name, offset, offset + count - 1)) do
      flat[#flat + 1] = jid
      flat[#flat + 1] = call('LLEN', key.offspring(jid))
    end
  end
  return flat
end

-- needs jid [offset count] -> jid, how many jobs that one has spawned …
function DependencyResults.show(args, i)
  return page('needs', key.needs(Arguments.name('needs', 'jid', args[i])), args, i + 1)
end

-- offspring jid [offset count] -> the same of the jobs that this one has spawned
function DependencyResults.offspring(args, i)
  return page('offspring', key.offspring(Arguments.name('offspring', 'jid', args[i])), args, i + 1)
end
