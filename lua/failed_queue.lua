-- Jobs that have failed for good go on in another queue, if theirs has the option failed-queue.

-- Where such a job of this queue goes, or nil: the queue has no such option, or has been set to itself, or the
-- job has come in this way (it fails where it is, so that queues that name each other make no circle).
function FailedQueue.of(jid, queue)
  local to = scope.live and Config.failed_queue(queue)
  if to and call('HEXISTS', key.job(jid), 'failed_from') == 0 then
    return to
  end
end

-- Moves a job, which has just failed for good and is in no place, to the end of that queue: it waits there with all
-- of its retries and keeps the failure. (For those who wait for its end it goes on, as if it was tried again.)
function FailedQueue.move(job, to, group, message, when, failing)
  local jid, queue = job.jid, job.queue
  Stats.count(queue, 'failures', 1)
  Minutes.count(queue, 'failed', 1)
  call('HSET', key.job(jid), 'failed_from', queue)
  call('HDEL', key.job(jid), 'crashes')
  History.put(jid, to)
  Events.put(jid, to)
  job.remaining = job.retries
  local failure = cjson.encode({ group = group, message = message, when = when, worker = failing or '' })
  Outcome.back(job, to, 0, failure)
end
