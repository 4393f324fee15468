-- Cancelling: a job is taken away with all that belongs to it. Its record is kept for a while for those who ask for it;
-- for everything else the job does not exist.

local rcall = redis.call

local MOST = 5000 -- records of canceled jobs that are kept
local BYTES = 16 * 1024 -- of data and context; more is not kept: a full server is emptied by canceling
local SURPLUS = 200 -- old ones removed by one call beyond twice those that it adds

-- Records that are too old or too many go.
local function tidy(call)
  local name, age = call.keys.canceled, Config.whole(call, 'canceled-history')
  local most = SURPLUS + 2 * call.canceled
  local old = rcall('ZRANGEBYSCORE', name, '-inf', Times.text(call.now - age), 'LIMIT', '0', most)
  local surplus = rcall('ZCARD', name) - #old - MOST
  if surplus > 0 and #old < most then
    for _, jid in ipairs(rcall('ZRANGE', name, #old, #old + math.min(surplus, most - #old) - 1)) do
      old[#old + 1] = jid
    end
  end
  for _, jid in ipairs(old) do
    rcall('DEL', Keys.canceled_job(call, jid), Keys.canceled_history(call, jid))
    rcall('ZREM', name, jid)
  end
  if rcall('EXISTS', name) == 0 then
    Features.forget(call, 'X')
  end
end

-- Takes the data and the context out of a record if they are long.
local function shorten(name)
  local bytes = rcall('HSTRLEN', name, 'data') + rcall('HSTRLEN', name, 'context')
  if bytes > BYTES then
    rcall('HDEL', name, 'data', 'context')
    rcall('HSET', name, 'left_out', bytes)
  end
end

-- Keeps the record and the history of a job that is about to be erased. `why` is call, dependency or workflow, `by` the
-- jid or id.
local function keep(call, job, why, by)
  local age = Config.whole(call, 'canceled-history')
  if age < 1 then
    return
  end
  local name, history = Keys.canceled_job(call, job.jid), Keys.canceled_history(call, job.jid)
  local more = { was = job.state, why = why, by = by }
  History.note_run(call, job)
  History.add(call, job.jid, 'canceled', cjson.encode(more))
  rcall('RENAME', job.key, name)
  shorten(name)
  -- (The clock of an old client may be anywhere.)
  local when = call.old and call.kept or call.text
  rcall('HSET', name, 'canceled', when, 'why', why, 'by', by or '')
  rcall('EXPIRE', name, age)
  rcall('RENAME', Keys.history(call, job.jid), history)
  rcall('EXPIRE', history, age)
  rcall('ZADD', call.keys.canceled, when, job.jid)
  if not call.canceled then
    Features.note(call, 'X')
    call.canceled = 0
    Call.at_end(call, tidy)
  end
  call.canceled = call.canceled + 1
end

-- The job of this jid is put again: its own record says what became of it.
function Cancel.forget(call, jid)
  if rcall('DEL', Keys.canceled_job(call, jid), Keys.canceled_history(call, jid)) > 0 then
    rcall('ZREM', call.keys.canceled, jid)
  end
end

-- Takes away the job with this record, which is not complete; its dependents stay. `why` and `by`: see keep; no `why`: it
-- was not canceled, its schedule takes it back.
function Cancel.erase(call, job, why, by)
  local jid, queue = job.jid, Keys.queue(call, job.queue)
  if why then
    Events.canceled(call, jid, job.queue, job.worker or '')
  end
  Job.unhold(call, jid, job.worker)
  Queue.leave(call, queue, jid)
  Links.remove_all(call, jid)
  if job.state == 'failed' or not Job.is_state(job.state) then
    Failures.remove(call, job)
    rcall('ZREM', call.keys.completed, jid)
  end
  if why then
    Job.tell_trackers(call, 'canceled', jid)
  end
  if job.letters then
    Features.at('gone', call, job, why and 'canceled' or 'withdrawn')
  end
  if why then
    keep(call, job, why, by)
  end
  Job.erase(call, job)
end

-- The same, and what hangs on it follows by its policy.
function Cancel.remove(call, jid, why, by)
  local job = Job.read(call, jid)
  if job then
    Cancel.erase(call, job, why, by)
    Links.follow(call, jid, 'gone')
  end
end

-- Would canceling these strand a job that is not canceled with them?
local function refuse_stranding(call, jids)
  local named, known = {}, {}
  for _, jid in ipairs(jids) do
    named[jid] = true
  end
  for _, jid in ipairs(jids) do
    -- The call names `most` with the job itself, so of this many dependents one at least is not named.
    for _, dependent in ipairs(rcall('SRANDMEMBER', Keys.dependents(call, jid), Arguments.most)) do
      if not named[dependent] and not Links.can_lose(call, dependent, jid, known) then
        Errors.refuse(
          call,
          'DEPENDENTS',
          '%s is a dependency of %s but is not mentioned to be canceled',
          Errors.name(jid),
          Errors.name(dependent)
        )
      end
    end
  end
end

-- -> whether there was something to cancel
local function cancel(call, jid)
  local job = Job.read(call, jid)
  if job and job.state ~= 'complete' then
    Cancel.erase(call, job, 'call')
    return true
  elseif not job and call.old then
    Events.canceled(call, jid, false, false)
    Job.tell_trackers(call, 'canceled', jid)
  end
  return false
end

-- cancel jid...
function Cancel.cancel(call, args, i)
  local jids, gone = Pieces.rest(args, i), {}
  Arguments.bounded(call, #jids)
  refuse_stranding(call, jids)
  for _, jid in ipairs(jids) do
    gone[#gone + 1] = cancel(call, jid) and jid or nil
  end
  -- Those that were canceled with them are no dependents any more.
  for _, jid in ipairs(gone) do
    Links.follow(call, jid, 'gone')
  end
  return jids
end

local function too_old(call)
  return '(' .. string.format('%.17g', call.now - Config.whole(call, 'canceled-history'))
end

-- The jids of a part of the list, the last canceled first.
function Cancel.part(call, offset, count)
  count = count < 0 and Arguments.most or count
  return rcall('ZREVRANGEBYSCORE', call.keys.canceled, '+inf', too_old(call), 'LIMIT', offset, count)
end

function Cancel.count(call)
  return rcall('ZCOUNT', call.keys.canceled, too_old(call), '+inf')
end

-- Is there the record of a canceled job of this jid?
function Cancel.exists(call, jid)
  return rcall('EXISTS', Keys.canceled_job(call, jid)) == 1
end

-- forget jid: deletes an ended job with its result, its failure and its output. -> whether there was anything
function Cancel.forget_ended(call, args, i)
  local jid = Arguments.name(call, 'jid', args[i])
  local job = Job.read(call, jid)
  if job and job.state == 'failed' then
    Cancel.cancel(call, { jid }, 1)
    Cancel.forget(call, jid)
  elseif job and job.state == 'complete' then
    if Spawned.standing(call, jid) then
      Errors.refuse(call, 'STATE', 'Job ' .. Errors.name(jid) .. ' has spawned jobs that have not ended')
    end
    Expiry.forget(call, jid)
  elseif job then
    local now = Job.state_now(call, jid, job.queue, job.state)
    Errors.refuse(call, 'STATE', 'Job ' .. Errors.name(jid) .. ' has not ended: ' .. now)
  end
  local gone = rcall('DEL', Keys.result(call, jid), Keys.detached(call, jid))
  return (gone > 0 or job) and 1 or 0
end
