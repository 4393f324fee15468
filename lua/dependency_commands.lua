-- The commands that change what a job waits for: depends, seal.

-- -> the job's policy for failures of what it depends on, and whether it may have rare fields
local function in_depends(jid)
  local state, on_failure, rare = Hash.values(key.job(jid), 'state', 'on_failure', 'rare')
  if state ~= 'depends' then
    Errors.raise('STATE', 'depends(): Job ' .. Errors.name(jid) .. ' is not in the depends state')
  end
  return on_failure, rare
end

local function add(jid, jids, policy, met)
  local known = met and Dependencies.without_met(jids, met) or jids
  local open, beyond = Dependencies.open('depends', known, nil, policy, nil, jid)
  CycleDetection.refuse('depends', jid, open)
  Dependencies.link(jid, open, policy)
  DependencyResults.add(jid, jids)
  for _, spawner in ipairs(Record.read('beyond', beyond, {})) do
    Spawned.look_beyond(jid, spawner)
  end
end

-- depends jid on|off jid...   depends jid off all
-- depends jid met n jid... jid...: as `on`, and the first n name those of the others that are known to be complete
function DependencyCommands.depends(args, i)
  local jid = Arguments.name('depends', 'jid', args[i])
  local word = Arguments.given('depends', 'on or off', args[i + 1])
  if word ~= 'on' and word ~= 'off' and word ~= 'met' then
    Errors.argument('depends', 'Argument "on" or "off" wanted, not ' .. Errors.value(word))
  end
  local policy, rare = in_depends(jid)
  local jids, met, first = {}, nil, i + 2
  if word == 'met' then
    local number = Arguments.whole('depends', 'number of met', args[first], 0)
    Arguments.bounded('depends', number)
    first = first + 1 + number
    met = Dependencies.set_of({ unpack(args, i + 3, math.min(first - 1, #args)) })
  end
  for n = first, #args do
    jids[#jids + 1] = args[n]
  end
  Arguments.bounded('depends', #jids)
  if word ~= 'off' then
    add(jid, jids, policy, met)
    return 1
  end
  local all = jids[1] == 'all'
  if all then
    Dependencies.unlink_all(jid)
  else
    Dependencies.unlink(jid, jids)
  end
  if rare then
    Spawned.forget_beyond(jid, not all and jids or nil)
  end
  Dependencies.free_if_last(jid)
  return 1
end

-- seal jid: a job that was put open gains no more dependencies and may become ready.
function DependencyCommands.seal(args, i)
  local jid = Arguments.name('seal', 'jid', args[i])
  if call('HEXISTS', key.job(jid), 'state') == 0 then
    Errors.no_job('seal', jid)
  end
  if call('HDEL', key.job(jid), 'open') == 1 then
    Dependencies.free_if_last(jid)
  end
  return 1
end
