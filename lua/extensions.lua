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
Extensions['lag'] = Q.Queue.lag
Extensions['minutes'] = Q.Minutes.show
Extensions['meta'] = Q.Clock.show
Extensions['audit'] = Q.Audit.audit

for _, name in ipairs({ 'result', 'lag', 'minutes', 'meta', 'audit' }) do
  Q.READS[name] = true
end

-- Some words of a command read, others write.
function Q.is_read(command, word)
  if command == 'tag' then
    return word == 'get' or word == 'top'
  elseif command == 'track' then
    return word == nil
  end
  return Q.READS[command] or false
end
