-- The commands of qless-core's protocol, by name.
local Q = Qless
local Api = {}
Qless.Api = Api

Api['put'] = Q.Put.put
Api['requeue'] = Q.Put.requeue
Api['pop'] = Q.Pop.pop
Api['peek'] = Q.Queue.peek
Api['complete'] = Q.Outcome.complete
Api['fail'] = Q.Outcome.fail
Api['retry'] = Q.Outcome.retry
Api['heartbeat'] = Q.Lock.heartbeat
Api['get'] = Q.Job.get
Api['multiget'] = Q.Job.multiget
Api['cancel'] = Q.Job.cancel
Api['timeout'] = Q.Job.timeout
Api['depends'] = Q.Links.depends
Api['priority'] = Q.Job.priority
Api['tag'] = Q.Tags.command
Api['track'] = Q.Job.track
Api['failed'] = Q.Failures.show
Api['unfail'] = Q.Revive.unfail
Api['jobs'] = Q.Queue.jobs
Api['queues'] = Q.Queue.show
Api['stats'] = Q.Stats.show
Api['workers'] = Q.Worker.show
Api['worker.deregister'] = Q.Worker.deregister
Api['pause'] = Q.Pausing.pause
Api['unpause'] = Q.Pausing.unpause
Api['queue.forget'] = Q.Queue.forget
Api['length'] = Q.Queue.length
Api['log'] = Q.History.log
Api['config.get'] = Q.Config.show
Api['config.set'] = Q.Config.set
Api['config.unset'] = Q.Config.unset
Api['recur'] = Q.Recurring.recur
Api['recur.get'] = Q.Recurring.get
Api['recur.update'] = Q.Recurring.update
Api['recur.tag'] = Q.Recurring.tag
Api['recur.untag'] = Q.Recurring.untag
Api['unrecur'] = Q.Recurring.unrecur

-- Those that only read. (Without KEYS some of them move what is due; with KEYS none writes.)
Q.READS = {
  ['peek'] = true,
  ['get'] = true,
  ['multiget'] = true,
  ['failed'] = true,
  ['jobs'] = true,
  ['queues'] = true,
  ['stats'] = true,
  ['workers'] = true,
  ['length'] = true,
  ['config.get'] = true,
  ['recur.get'] = true,
}
