-- Commands on several jobs, each for itself: what is refused of one does not stop the others.
--
-- The command on one job is the one that exists; it refuses before it writes.

local MOST = 250 -- jobs
local ROUNDS = 10 -- in which jobs are tried again that were refused because of others

-- -> why it was refused, in words, or nil
local function attempt(act, jid, args, i)
  local fine, problem = pcall(act, jid, args, i)
  if fine then
    return nil
  elseif Errors.is_refusal(problem) then
    return string.gsub(problem.text, '^[%w.]+%(%): ', '', 1)
  end
  error(problem, 0)
end

-- The jids that begin at this place, each once.
local function jids_from(command, args, i)
  Arguments.given(command, 'jid', args[i])
  if #args - i + 1 > MOST then
    Errors.raise('TOOBIG', command .. '(): ' .. #args - i + 1 .. ' jobs in one call, at most ' .. MOST)
  end
  local jids, seen = {}, {}
  for n = i, #args do
    if not seen[args[n]] then
      seen[args[n]] = true
      jids[#jids + 1] = args[n]
    end
  end
  return jids
end

-- What was done, and what refused: { jids, { jid, words … } }
local function outcome(jids, refused)
  local done, others = {}, {}
  for _, jid in ipairs(jids) do
    if refused[jid] then
      others[#others + 1], others[#others + 2] = jid, refused[jid]
    else
      done[#done + 1] = jid
    end
  end
  return { done, others }
end

-- Makes <command> [argument...] jid... of what acts on one job; `check` looks at the arguments, of
-- which there are `number`.
local function each(command, number, act, check)
  return function(args, i)
    local jids, refused = jids_from(command, args, i + number), {}
    if check then
      check(args, i)
    end
    for _, jid in ipairs(jids) do
      refused[jid] = attempt(act, jid, args, i)
    end
    return outcome(jids, refused)
  end
end

local function state_of(command, jid)
  return Job.state_now(jid) or Errors.no_job(command, jid)
end

Bulk.revive = each('revive.each', 0, function(jid)
  local state = state_of('revive.each', jid)
  local unique = call('HGET', key.job(jid), 'unique')
  if state ~= 'failed' then
    Errors.raise('STATE', 'Job ' .. Errors.name(jid) .. ' has not failed: it is ' .. Errors.state(state))
  end
  local other, its_state = Unique.other(jid, unique)
  if other then
    Unique.refuse('revive.each', { jid = jid, unique = Unique.shown(unique) }, other, its_state)
  end
  Revive.revive({ jid }, 1)
end)

Bulk.move = each('move.each', 2, function(jid, args, i)
  local klass, data, context = Hash.values(key.job(jid), 'klass', 'data', 'context')
  if not klass then
    Errors.no_job('move.each', jid)
  end
  local put = { '', args[i], jid, klass, data or '', args[i + 1] }
  if Record.text('context', context) then
    put[#put + 1], put[#put + 2] = 'context', context
  end
  Put.requeue(put, 1)
end, function(args, i)
  Arguments.queue('move.each', args[i])
  Arguments.number('move.each', 'delay', args[i + 1])
end)

Bulk.priority = each('priority.each', 1, function(jid, args, i)
  Job.priority({ jid, args[i] }, 1)
end, function(args, i)
  Arguments.number('priority.each', 'priority', args[i])
end)

Bulk.timeout = each('timeout.each', 0, function(jid)
  Job.timeout({ jid }, 1)
end)

Bulk.tag = each('tag.each', 1, function(jid, args, i)
  Tags.command({ 'add', jid, args[i] }, 1)
end)

Bulk.untag = each('untag.each', 1, function(jid, args, i)
  Tags.command({ 'remove', jid, args[i] }, 1)
end)

Bulk.track = each('track.each', 0, function(jid)
  Tracking.track({ 'track', jid }, 1)
end)

-- (Also what is gone: otherwise it would be listed for ever.)
Bulk.untrack = each('untrack.each', 0, function(jid)
  if call('EXISTS', key.job(jid)) == 1 or call('ZREM', key.tracked(), jid) == 0 then
    Tracking.track({ 'untrack', jid }, 1)
  end
end)

local function cancel(jid)
  if state_of('cancel.each', jid) == 'complete' then
    Errors.raise('STATE', 'Job ' .. Errors.name(jid) .. ' is complete')
  end
  Job.cancel({ jid }, 1)
end

-- Tries each of the jids, from the last to the first if `backwards`. -> those that were refused
local function try(jids, backwards, refused)
  local left, first, last, step = {}, 1, #jids, 1
  if backwards then
    first, last, step = #jids, 1, -1
  end
  for n = first, last, step do
    local jid = jids[n]
    refused[jid] = attempt(cancel, jid)
    if refused[jid] then
      table.insert(left, backwards and 1 or #left + 1, jid)
    end
  end
  return left
end

-- Is the job gone that was there before: canceled with another one of the call?
local function went_with_others(jid, there)
  return there[jid] and call('EXISTS', key.job(jid)) == 0
end

-- cancel.each jid...: a job goes after those that wait for it, whatever the order given
function Bulk.cancel(args, i)
  local jids, refused, there = jids_from('cancel.each', args, i), {}, {}
  for _, jid in ipairs(jids) do
    there[jid] = call('EXISTS', key.job(jid)) == 1
  end
  local left, round = jids, 0
  repeat
    local before = #left
    round = round + 1
    left = try(left, round % 2 == 1, refused)
  until #left == 0 or #left == before or round == ROUNDS
  for _, jid in ipairs(left) do
    if went_with_others(jid, there) then
      refused[jid] = nil
    end
  end
  return outcome(jids, refused)
end
