-- What becomes of a put whose unique key another job holds: that one stands for it, or is enqueued again as
-- this one, or this one waits behind it.

-- What is of the job itself; the rest belongs to the one whose place it takes.
local OWN = {
  jid = true,
  given = true,
  old = true,
  was_canceled = true,
  fresh = true,
  behind = true,
  first = true,
  spare = true,
}

-- The job takes the place of one that was to be put by the same call.
local function absorb(earlier, job)
  for name in pairs(earlier) do
    if not OWN[name] then
      earlier[name] = nil
    end
  end
  for name, value in pairs(job) do
    if not OWN[name] then
      earlier[name] = value
    end
  end
  earlier.fresh = true
  Unique.push_back(earlier, earlier.first)
  job.instead = earlier.jid
end

-- The job takes the place of one that has not started: under its jid, but as if it were new.
local function replace(command, job, jid, coming)
  if coming and coming[jid] then
    Errors.argument(
      command,
      'job %s would replace %s, which is in the same batch',
      Errors.name(job.jid),
      Errors.name(jid)
    )
  end
  local old = PutStore.read_old(jid)
  job.given, job.jid, job.old, job.fresh = job.jid, jid, old, true
  job.was_canceled = nil
  Unique.push_back(job, Record.read('first', old.more.first))
  local behind = old.more.behind
  if behind and call('SISMEMBER', key.dependencies(jid), behind) == 1 then
    job.behind = behind
  end
  if coming then
    coming[job.given], coming[jid] = nil, job
  end
end

-- Who has the first of the job's keys that is held: another job of the same call; or nil, the jid of one that is
-- there already, and its state.
local function holder(job, taken)
  for _, text in ipairs(job.keys) do
    local earlier = taken[text]
    if earlier and earlier.jid ~= job.jid then
      return earlier
    end
    local jid, state = Unique.in_force(text)
    if jid then
      return nil, jid, state
    end
  end
end

-- Looks whether another job holds a key of the job, and what follows. `taken` are the jobs of the
-- same call by key.
function Conflict.settle(command, job, coming, taken)
  local earlier, jid, state = holder(job, taken)
  if earlier then
    local answer = Unique.answer(command, job, earlier.jid, 'waiting')
    if answer == 'replace' then
      absorb(earlier, job)
    elseif answer == 'keep' then
      job.instead = earlier.jid
    end
  else
    local answer = jid and jid ~= job.jid and Unique.answer(command, job, jid, state)
    if jid == job.jid and job.old and Unique.is_pending(state) then
      Unique.push_back(job, Record.read('first', job.old.more.first))
    elseif answer == 'keep' then
      job.instead, job.instead_gone = jid, not state
    elseif answer == 'replace' then
      replace(command, job, jid, coming)
    elseif answer == 'behind' then
      job.behind = jid
    end
  end
  if not job.instead then
    for _, text in ipairs(job.keys) do
      taken[text] = job
    end
  elseif coming then
    coming[job.jid] = nil
  end
end
