-- The commands of qless-core's protocol, by name: which function of which module answers.

-- Those that only read. (Without KEYS some of them move what is due; with KEYS none writes.)
Api.reads = {
  peek = 'Queue.peek',
  get = 'Job.get',
  multiget = 'Job.multiget',
  failed = 'Failures.show',
  jobs = 'Queue.jobs',
  queues = 'Queue.show',
  stats = 'Stats.show',
  workers = 'Worker.show',
  length = 'Queue.length',
  ['config.get'] = 'Config.show',
  ['recur.get'] = 'Recurring.get',
}

-- Some words of tag and of track only read: see Serve.
Api.writes = {
  put = 'Put.put',
  requeue = 'Put.requeue',
  pop = 'Pop.pop',
  complete = 'Outcome.complete',
  fail = 'Outcome.fail',
  retry = 'Outcome.retry',
  heartbeat = 'Lock.heartbeat',
  cancel = 'Job.cancel',
  timeout = 'Job.timeout',
  depends = 'Links.depends',
  priority = 'Job.priority',
  tag = 'Tags.command',
  track = 'Job.track',
  unfail = 'Revive.unfail',
  ['worker.deregister'] = 'Worker.deregister',
  pause = 'Pausing.pause',
  unpause = 'Pausing.unpause',
  ['queue.forget'] = 'Queue.forget',
  log = 'History.log',
  ['config.set'] = 'Config.set',
  ['config.unset'] = 'Config.unset',
  recur = 'Recurring.recur',
  ['recur.update'] = 'Recurring.update',
  ['recur.tag'] = 'Recurring.tag',
  ['recur.untag'] = 'Recurring.untag',
  unrecur = 'Recurring.unrecur',
}
