-- The commands that exist with KEYS only, by name.
local Q = Qless
local Extensions = {}
Qless.Extensions = Extensions

Extensions['put.many'] = Q.Put.many
Extensions['settle'] = Q.Settle.settle
Extensions['beat'] = Q.Worker.beat
Extensions['release'] = Q.Outcome.release
Extensions['progress'] = Q.Job.progress
Extensions['seal'] = Q.Dependencies.seal
Extensions['result'] = Q.Job.result
Extensions['order'] = Q.Orders.order
Extensions['stacks'] = Q.Orders.stacks
Extensions['lag'] = Q.Survey.lag
Extensions['survey'] = Q.Survey.survey
Extensions['minutes'] = Q.Minutes.show
Extensions['meta'] = Q.Clock.show
Extensions['audit'] = Q.Audit.audit

for _, name in ipairs({ 'result', 'lag', 'survey', 'minutes', 'meta', 'audit' }) do
  Q.READS[name] = true
end

-- Some words of a command read, others write; its arguments stand at args[4] and behind.
function Q.is_read(command, args)
  if command == 'tag' then
    return args[4] == 'get' or args[4] == 'top'
  elseif command == 'track' then
    return args[4] == nil
  elseif command == 'stacks' then
    return args[5] == nil
  end
  return Q.READS[command] or false
end
