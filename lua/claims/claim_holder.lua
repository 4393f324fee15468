-- What the namespace of a job says of the claim to its unique key, which is kept elsewhere: see Claims.

local DAY = 86400 -- seconds for which a put is refused whose claim another may have taken

local FIELDS = 4

-- What a put says of its claim: since when, in which namespace, and which namespace this is.
function ClaimHolder.check(command, job)
  local since, claimed = string.match(job.claim, '^(%S+) ([^\n]+\n[^\n]+)$')
  if not since then
    Errors.argument(command, 'claim must be a time and two namespaces, not ' .. Errors.name(job.claim))
  elseif call('GET', key.claim_lost(job.jid)) == since then
    local words = '%s(): Another job may have the unique key of job %s, which came too late: enqueue it again'
    Errors.raise('STATE', words, command, Errors.name(job.jid))
  end
  job.claimed = claimed
end

-- Does the job hold the key here, or will it? Until the claim has lapsed it may still be on its way; and if it was moved,
-- the claim will hear where it is. What is free may be claimed by others, so that a put with this claim, however late, is
-- refused.
local function answer(text, jid, since, lapsed)
  local holder, state = Unique.in_force(text)
  if holder == jid then
    return 'held', state or ''
  elseif call('EXISTS', key.job(jid), key.canceled_job(jid)) == 0 then
    if not lapsed or call('EXISTS', key.moved_to(jid)) == 1 then
      return 'held', ''
    end
  end
  call('SET', key.claim_lost(jid), since, 'EX', DAY)
  return 'free', ''
end

-- claim.check (key jid since lapsed)*: do the jobs with these claims hold their keys? -> 'held' or 'free', and the
-- state ('' if it is not known), of each
function ClaimHolder.answer(args, i)
  local replies = {}
  Arguments.bounded('claim.check', (#args - i + 1) / FIELDS)
  for n = i, #args, FIELDS do
    local text = Arguments.name('claim.check', 'key', args[n])
    local jid = Arguments.name('claim.check', 'jid', args[n + 1])
    local since = Arguments.given('claim.check', 'since', args[n + 2])
    local lapsed = Arguments.given('claim.check', 'lapsed', args[n + 3]) == '1'
    local state
    replies[#replies + 1], state = answer(text, jid, since, lapsed)
    replies[#replies + 1] = state
  end
  return replies
end
