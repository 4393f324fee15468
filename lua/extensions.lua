-- The commands that exist with KEYS only, by name.
local Q = Qless
local Extensions = {}
Qless.Extensions = Extensions

Extensions['put.many'] = Q.Put.many
Extensions['spawn'] = Q.Spawn.spawn
Extensions['needs'] = Q.Needs.show
Extensions['offspring'] = Q.Needs.offspring
Extensions['results'] = Q.Needs.results
Extensions['results.kept'] = Q.Kept.show
Extensions['results.cut'] = Q.Kept.cut
Extensions['settle'] = Q.Settle.settle
Extensions['beat'] = Q.Worker.beat
Extensions['release'] = Q.Outcome.release
Extensions['progress'] = Q.Job.progress
Extensions['seal'] = Q.Links.seal
Extensions['result'] = Q.Job.result
Extensions['order'] = Q.Orders.order
Extensions['stacks'] = Q.Orders.stacks
Extensions['revive'] = Q.Revive.revive
Extensions['jobs.count'] = Q.Queue.count_jobs
Extensions['schedule.set'] = Q.Schedules.set
Extensions['schedule.update'] = Q.Schedules.update
Extensions['schedule.pause'] = Q.Schedules.pause
Extensions['schedule.resume'] = Q.Schedules.resume
Extensions['schedule.run'] = Q.Schedules.run
Extensions['schedule.remove'] = Q.Schedules.remove
Extensions['schedule.get'] = Q.ScheduleView.get
Extensions['schedule.list'] = Q.ScheduleView.list
Extensions['schedule.declared'] = Q.ScheduleView.declared
Extensions['schedule.mark'] = Q.ScheduleView.mark
Extensions['schedule.marks'] = Q.ScheduleView.marks
Extensions['schedule.due'] = Q.Cron.due
Extensions['schedule.tick'] = Q.Cron.tick
Extensions['schedule.trouble'] = Q.Cron.trouble
Extensions['schedule.mend'] = Q.Cron.mend
Extensions['lag'] = Q.Survey.lag
Extensions['due'] = Q.Survey.due
Extensions['survey'] = Q.Survey.survey
Extensions['minutes'] = Q.Minutes.show
Extensions['throughput'] = Q.Throughput.show
Extensions['failed.of'] = Q.Throughput.failed
Extensions['stats.counters'] = Q.Stats.counters
Extensions['queue.pause'] = Q.Pausing.pause_with
Extensions['queue.forget.empty'] = Q.Queue.forget_empty
Extensions['brief'] = Q.Brief.brief
Extensions['briefs'] = Q.Brief.briefs
Extensions['search'] = Q.Search.search
Extensions['job.view'] = Q.JobView.show
Extensions['failure.groups'] = Q.Groups.list
Extensions['failure.group'] = Q.Groups.show
Extensions['worker.views'] = Q.WorkerView.list
Extensions['tag.counts'] = Q.Tags.counts
Extensions['schedules.of'] = Q.ScheduleView.of
Extensions['schedules.next'] = Q.ScheduleView.next
Extensions['schedules.in'] = Q.QueueSchedules.list
Extensions['schedules.count'] = Q.QueueSchedules.numbers
Extensions['tracked.jids'] = Q.Brief.tracked
Extensions['cancel.each'] = Q.Each.cancel
Extensions['revive.each'] = Q.Each.revive
Extensions['move.each'] = Q.Each.move
Extensions['priority.each'] = Q.Each.priority
Extensions['timeout.each'] = Q.Each.timeout
Extensions['tag.each'] = Q.Each.tag
Extensions['untag.each'] = Q.Each.untag
Extensions['track.each'] = Q.Each.track
Extensions['untrack.each'] = Q.Each.untrack
Extensions['meta'] = Q.Clock.show
Extensions['permissions'] = Q.Permissions.show
Extensions['audit'] = Q.Audit.audit
Extensions['await'] = Q.Awaiting.await
Extensions['workflow.put'] = Q.WorkflowPut.put
Extensions['workflow.stage'] = Q.WorkflowPut.stage
Extensions['workflow.release'] = Q.WorkflowPut.release
Extensions['workflow.carry'] = Q.WorkflowVerbs.carry
Extensions['workflow.get'] = Q.WorkflowVerbs.get
Extensions['workflow.jobs'] = Q.WorkflowVerbs.jobs
Extensions['workflow.cancel'] = Q.WorkflowVerbs.cancel
Extensions['workflow.retry'] = Q.WorkflowVerbs.retry

for _, name in ipairs({
  'result',
  'results',
  'results.kept',
  'results.cut',
  'needs',
  'offspring',
  'jobs.count',
  'lag',
  'due',
  'survey',
  'minutes',
  'throughput',
  'failed.of',
  'stats.counters',
  'brief',
  'briefs',
  'search',
  'job.view',
  'failure.groups',
  'failure.group',
  'worker.views',
  'tag.counts',
  'schedules.of',
  'schedules.next',
  'schedules.in',
  'schedules.count',
  'tracked.jids',
  'meta',
  'permissions',
  'audit',
  'schedule.get',
  'schedule.list',
  'schedule.declared',
  'schedule.marks',
  'workflow.get',
  'workflow.jobs',
}) do
  Q.READS[name] = true
end

-- Some words of a command read, others write; its arguments stand at args[4] and behind.
function Q.is_read(command, args)
  if command == 'tag' then
    return args[4] == 'get' or args[4] == 'top'
  elseif command == 'track' then
    return args[4] == nil
  elseif command == 'stacks' then
    return args[5] == nil
  end
  return Q.READS[command] or false
end
