-- Calls without KEYS: qless-core's protocol to the letter. The prefix is 'ql:', the time is the caller's, a
-- worker's name is the proof of its lock, and errors are raised. All that they do otherwise than calls with KEYS
-- stands here: for each module the functions that are changed for them, when the module is made.

local floor = math.floor

local function nothing() end

local function no()
  return false
end

local function encoded(shown)
  return cjson.encode(shown)
end

-- ARGV = command, now, args...
function Legacy.serve(args)
  Serve.begin('ql:', false)
  local command = Arguments.given('qless', 'command', args[1])
  local known = Commands.find(command)
  if not known or known.is_ours then
    error('Unknown command ' .. Errors.name(command))
  end
  scope.now = Arguments.number(command, 'now', args[2])
  scope.live = call('EXISTS', key.meta()) == 1
  local reply = modules[known.module][known.what](args, 3)
  Serve.finish()
  return reply
end

function Legacy.Errors()
  function Errors.raise(_, words, ...)
    error(Errors.worded(words, ...), 2)
  end
end

-- What a call may say.

function Legacy.Arguments()
  Arguments.decimal = '^%s*[%d.eE+-]+%s*$'

  Arguments.name, Arguments.proof = Arguments.given, Arguments.asking

  function Arguments.message(command, message)
    return Arguments.given(command, 'message', message)
  end

  function Arguments.few_tags(_, tags)
    return tags
  end

  Arguments.held, Arguments.plain, Arguments.unknown = nothing, nothing, nothing
end

function Legacy.PutOptions()
  PutOptions.known = { priority = true, tags = true, retries = true, depends = true }
end

function Legacy.Config()
  Config.is_ours, Config.is_whole, Config.names_queue = no, no, no
end

-- Whose lock it is.

function Legacy.Lock()
  function Lock.holds(proof, state, worker)
    return state == 'running' and proof == worker
  end

  function Lock.another(worker)
    return 'another worker: ' .. Errors.name(worker)
  end
end

-- A token, where meta is not read in advance. The caller's time says nothing about it.
function Legacy.Clock()
  local draw = Clock.draw

  function Clock.draw()
    local name = key.meta()
    scope.clock = scope.clock
      or { token = tonumber(call('HGET', name, 'token') or nil) or 0, time = call('TIME') }
    local token = draw()
    call('HSET', name, 'token', token)
    return token
  end
end

function Legacy.Pop()
  Pop.most_due = 0
end

-- What becomes of a job.

function Legacy.Outcome()
  -- The last worker, its lock and its start stay to be seen on a waiting job.
  Outcome.unheld, Outcome.count_retried = nothing, nothing
end

function Legacy.Places()
  function Places.state_now(_, _, state)
    return state
  end

  -- The time of a job is that of its put, but for entities, which are ours.
  local ready_since = Places.ready_since
  function Places.ready_since(jid, time, entity)
    if entity then
      ready_since(jid, time)
    end
  end

  function Places.register(queue)
    if scope.live then
      Nonempty.add(queue)
    end
    Places.make_known(queue)
  end
end

function Legacy.Job()
  Job.with_ours, Job.can_lose = encoded, no

  function Job.cancel_unknown(jid)
    Events.canceled(jid, false, false)
    if Tracking.is_tracked(jid) then
      Events.tracked('canceled', jid)
    end
  end
end

function Legacy.Dependencies()
  Dependencies.unknown, Dependencies.follows_spawned = nothing, false
end

-- What is kept beside the job is ours, and so is the work that is left for a later call.

function Legacy.DependencyResults()
  DependencyResults.add = nothing
end

function Legacy.Expiry()
  Expiry.can_wait = no
end

function Legacy.Samples()
  Samples.can_wait = no

  function Samples.length(seconds)
    return seconds
  end
end

-- The caller's clock says nothing about when a client of ours has gone away, or when a job was canceled.

function Legacy.ResultWaiters()
  function ResultWaiters.since()
    return '-inf'
  end
end

function Legacy.Canceled()
  function Canceled.time()
    return call('HGET', key.meta(), 'clock') or NumberFormat.now()
  end

  Canceled.show = nothing
end

-- History in whole seconds, with what the protocol knows.
function Legacy.History()
  local failed = History.failed

  function History.time(when)
    return when and NumberFormat.whole(floor(when)) or NumberFormat.second()
  end

  function History.begin(jid, queue)
    History.put(jid, queue)
  end

  function History.popped(jid, worker, put)
    History.add_popped(jid, worker, put)
    return ''
  end

  function History.failed(jid, group, worker)
    failed(jid, group, worker)
  end

  function History.ended(jid, what, job, group)
    if what == 'done' then
      History.done(jid, job.held)
    elseif what == 'failed' then
      failed(jid, group, job.worker)
    elseif what == 'timed-out' then
      History.add(jid, what)
    elseif scope.live then
      History.write_late(jid) -- while the record names the worker
    end
  end

  function History.exhausted(job, group)
    failed(job.jid, group)
  end

  History.when = floor
end

-- What is shown.

function Legacy.Queue()
  Queue.is_by_due = false

  -- Locks that expired before 1970 are not seen as stalled.
  Queue.oldest_lock = 0

  local jobs = Queue.jobs

  function Queue.jobs(args, i)
    if args[i] == 'canceled' or args[i] == 'waiting' then
      Queue.unknown(args[i])
    end
    return jobs(args, i)
  end
end

function Legacy.Pause()
  Pause.known = nothing
end

function Legacy.Stats()
  Stats.shows_ours = false
end

function Legacy.Worker()
  Worker.with_info = encoded
end
