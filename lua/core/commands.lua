-- The commands of qless-core's protocol: which function of which module answers each. Those of ours: our_commands.lua.

local find, match = string.find, string.match

local READS = {
  peek = 'QueueView.peek',
  get = 'JobView.get',
  multiget = 'JobView.multiget',
  failed = 'Failures.show',
  jobs = 'QueueView.jobs',
  queues = 'QueueView.show',
  stats = 'Stats.show',
  workers = 'Worker.show',
  length = 'QueueView.length',
  ['config.get'] = 'Config.show',
  ['recur.get'] = 'Recurring.get',
}

local WRITES = {
  put = 'Put.put',
  requeue = 'Put.requeue',
  pop = 'Take.pop',
  complete = 'Runs.complete',
  fail = 'Runs.fail',
  retry = 'Runs.retry',
  heartbeat = 'Lock.heartbeat',
  cancel = 'Cancel.cancel',
  timeout = 'Runs.timeout',
  depends = 'Links.depends',
  priority = 'Priority.set',
  tag = 'Tags.command',
  track = 'Tracking.track',
  unfail = 'Failures.unfail',
  ['worker.deregister'] = 'Worker.deregister',
  pause = 'Pause.pause',
  unpause = 'Pause.unpause',
  ['queue.forget'] = 'QueueView.forget',
  log = 'History.log',
  ['config.set'] = 'Config.set',
  ['config.unset'] = 'Config.unset',
  recur = 'Recurring.recur',
  ['recur.update'] = 'Recurring.update',
  ['recur.tag'] = 'Recurring.tag',
  ['recur.untag'] = 'Recurring.untag',
  unrecur = 'Recurring.unrecur',
}

-- Some words of these only read; their arguments stand at args[4] and behind.
local READS_SOMETIMES = {
  tag = function(args)
    return args[4] == 'get' or args[4] == 'top'
  end,
  track = function(args)
    return args[4] == nil
  end,
}

local functions = {}

local function function_of(text)
  local act = functions[text]
  if not act then
    local module, name = match(text, '^(%w+)%.([%w_]+)$')
    act = modules[module][name]
    functions[text] = act
  end
  return act
end

-- The function that answers a call with KEYS, and whether it only reads; nil if there is no such command.
function Commands.find(command, args)
  if not command or not find(command, '^[%l.]+$') then
    return nil
  end
  local text = READS[command] or OurCommands.reads[command]
  if text then
    return function_of(text), true
  end
  text = WRITES[command] or OurCommands.writes[command]
  local sometimes = READS_SOMETIMES[command]
  return text and function_of(text), sometimes ~= nil and sometimes(args)
end

-- The function that answers an old client.
function Commands.find_old(command)
  local text = READS[command] or WRITES[command]
  return text and function_of(text)
end
