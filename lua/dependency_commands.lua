-- The command that changes what a job waits for.

-- -> the job's policy for failures of what it depends on, and whether it may have rare fields
local function in_depends(jid)
  local state, on_failure, rare = Hash.values(key.job(jid), 'state', 'on_failure', 'rare')
  if state ~= 'depends' then
    Errors.raise('STATE', 'depends(): Job ' .. Errors.name(jid) .. ' is not in the depends state')
  end
  return on_failure, rare
end

local function add(jid, jids, policy)
  local open, beyond = Dependencies.open('depends', jids, nil, policy, nil, jid)
  CycleDetection.refuse('depends', jid, open)
  Dependencies.link(jid, open, policy)
  DependencyResults.add(jid, jids)
  for _, spawner in ipairs(Record.read('beyond', beyond, {})) do
    Spawned.look_beyond(jid, spawner)
  end
end

-- depends jid on|off jid...   depends jid off all
function DependencyCommands.depends(args, i)
  local jid = Arguments.name('depends', 'jid', args[i])
  local word = Arguments.given('depends', 'on or off', args[i + 1])
  if word ~= 'on' and word ~= 'off' then
    Errors.argument('depends', 'Argument "on" or "off" wanted, not ' .. Errors.value(word))
  end
  local policy, rare = in_depends(jid)
  local jids = {}
  for n = i + 2, #args do
    jids[#jids + 1] = args[n]
  end
  Arguments.bounded('depends', #jids)
  if word ~= 'off' then
    add(jid, jids, policy)
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
