-- Jobs whose records cannot be read: they fail as such, with their data and the error, so that neither they nor their
-- queue are lost; and can be enqueued again.

local rcall = redis.call

local GROUP = 'corrupt-record'

-- Calls act(call, jid), which only reads. If the record cannot be read the job fails. -> what act returns, or nil
function Corrupt.guard(call, jid, queue, act)
  local fine, result = pcall(act, call, jid)
  if fine then
    return result
  elseif Errors.is_refusal(result) then
    error(result)
  end
  Corrupt.fail(call, jid, queue, result)
end

-- What pcall has caught, in words: Lua's without where they come from.
function Corrupt.words(problem)
  if Errors.is_refusal(problem) then
    return problem.text
  end
  return (string.gsub(tostring(problem), '^[%w_@]+:%d+: ', ''))
end

-- Fails a job that has not ended, in whose place `queue` it was met.
function Corrupt.fail(call, jid, queue, problem)
  local run = Lock.read(call, jid)
  local message = 'The record of the job cannot be read: ' .. Corrupt.words(problem)
  Queue.leave(call, queue, jid)
  if run.queue ~= '' and run.queue ~= queue.name then
    Queue.leave(call, Keys.queue(call, run.queue), jid)
  end
  if run.queue == '' then
    run.queue = queue.name
    rcall('HSET', run.key, 'queue', queue.name)
  end
  Job.unhold(call, jid, run.worker)
  if run.state == 'running' then
    Events.lock_lost(call, jid, run.worker)
  elseif run.state == 'depends' then
    Links.remove_all(call, jid)
  end
  Finish.fail_unstarted(call, run, GROUP, message)
end
