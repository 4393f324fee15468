-- The commands on a single run, by its token: complete, fail, retry, release, progress, timeout. (Workers of ours settle.)

local rcall = redis.call

local COMPLETE_OPTIONS =
  { next = true, delay = true, depends = true, result = true, result_ttl = true, held = true }

-- complete jid worker queue data [pairs] -> its new state
function Runs.complete(call, args, i)
  local jid, proof = Arguments.name(call, 'jid', args[i]), args[i + 1]
  local queue, data = Arguments.name(call, 'queue', args[i + 2]), args[i + 3]
  Arguments.proof(call, proof)
  Arguments.json(call, 'data', data)
  local given = Arguments.options(call, args, i + 4, COMPLETE_OPTIONS)
  local to = given.next
  if not to and (given.delay or given.depends) then
    Errors.argument(call, 'delay and depends can only be used with next')
  end
  given.data = data
  given.delay = given.delay and Arguments.number(call, 'delay', given.delay) or 0
  given.needs = given.depends and Arguments.names(call, 'depends', given.depends) or {}
  if given.result and given.result ~= '' then
    Arguments.json(call, 'result', given.result, Arguments.text_bytes)
    given.ttl = Arguments.whole(call, 'result_ttl', given.result_ttl or '3600', 1)
  end
  given.held = Arguments.held(call, given.held)
  local run = Lock.holder(call, jid, proof)
  if run.queue ~= queue then
    local words = 'Job %s is running in another queue: %s'
    Errors.refuse(call, 'STATE', words, Errors.name(jid), Errors.name(run.queue))
  end
  if not to then
    Finish.complete(call, run, given)
    return 'complete'
  end
  Arguments.queue(call, to)
  if run.entity then
    Errors.raise(Entities.no_move(call, jid))
  end
  given.depends = Links.open_for_move(call, jid, given.needs)
  Cycles.refuse(call, jid, given.depends)
  return Finish.advance(call, run, to, given)
end

-- fail jid worker group message [data]; with KEYS also [data [held]], where '' is no data
function Runs.fail(call, args, i)
  local jid, proof = Arguments.name(call, 'jid', args[i]), args[i + 1]
  Arguments.proof(call, proof)
  local given = { group = Arguments.given(call, 'group', args[i + 2]) }
  given.message = Arguments.message(call, args[i + 3])
  given.held = Arguments.held(call, args[i + 5])
  given.data = args[i + 4]
  if given.data == '' and args[i + 5] and not call.old then
    given.data = nil
  end
  if given.data then
    Arguments.json(call, 'data', given.data)
  end
  Finish.fail(call, Lock.holder(call, jid, proof), given)
  return jid
end

-- retry jid queue worker [delay] [group] [message]; with KEYS also [held], where group and message may both be ''
function Runs.retry(call, args, i)
  local jid = Arguments.name(call, 'jid', args[i])
  local queue = Arguments.name(call, 'queue', args[i + 1])
  Arguments.plain(call, 'queue', queue)
  local proof = Arguments.proof(call, args[i + 2])
  local given = { delay = Arguments.number(call, 'delay', args[i + 3] or '0') }
  given.group, given.message = args[i + 4], args[i + 5]
  given.held = Arguments.held(call, args[i + 6])
  if given.held and given.group == '' and given.message == '' then
    given.group, given.message = nil, nil
  end
  if given.message then
    Arguments.message(call, given.message)
  end
  local run = Lock.holder(call, jid, proof)
  Arguments.queue(call, queue)
  return Finish.retry(call, run, run.entity and run.queue or queue, given)
end

-- release jid token [delay [held]]: back into its queue and its place there, no retry used up
function Runs.release(call, args, i)
  local given = { what = 'returned', first = true }
  given.delay = Arguments.number(call, 'delay', args[i + 2] or '0')
  given.held = Arguments.held(call, args[i + 3])
  local run = Lock.holder(call, args[i], args[i + 1])
  run.not_started = not given.held
  Finish.give_back(call, run, given)
  return 1
end

-- progress jid token json
function Runs.progress(call, args, i)
  local jid, text = Arguments.name(call, 'jid', args[i]), args[i + 2]
  Arguments.json(call, 'progress', text, Arguments.text_bytes)
  if not string.find(text, '^%s*%[') then
    Errors.argument(call, 'progress must be a JSON list, [fraction, text]')
  end
  local run = Lock.holder(call, jid, args[i + 1])
  rcall('HSET', run.key, 'progress', text)
  return 1
end

-- Who holds what is to be taken from its worker.
local function running(call, jid)
  local run = Lock.read(call, Arguments.name(call, 'jid', jid))
  if not run.state then
    Errors.no_job(call, jid)
  elseif run.state ~= 'running' then
    local state = Job.state_now(call, jid, run.queue, run.state)
    Errors.refuse(call, 'STATE', 'Job ' .. Errors.name(jid) .. ' not running but ' .. Errors.state(state))
  end
  run.letters = Features.letters(call, run.more)
  if run.letters then
    Features.read(run)
  end
  return run
end

-- timeout jid...: takes the job from its worker and puts it before all others.
function Runs.timeout(call, args, i)
  local jids, runs = Pieces.rest(args, i), {}
  Arguments.bounded(call, #jids)
  for n, jid in ipairs(jids) do
    runs[n] = running(call, jid)
  end
  for _, run in ipairs(runs) do
    if rcall('HGET', run.key, 'state') == 'running' then
      Finish.run(call, run, { what = 'timed-out', state = 'stalled' })
      Events.lock_lost(call, run.jid, run.worker)
    end
  end
end
