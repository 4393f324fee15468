-- The commands, one line each: by which function of which module it is answered.
--
-- (They stand in texts, as tables of them would be made again in each call of a script.)

-- Those of qless-core's protocol that only read. (Without KEYS some of them move what is due; with KEYS none
-- writes.)
local READS = [[

peek Queue.peek
get Job.get
multiget Job.multiget
failed Failures.show
jobs Queue.jobs
queues Queue.show
stats Stats.show
workers Worker.show
length Queue.length
config.get Config.show
recur.get Recurring.get
]]

-- Some words of tag and of track only read: see Serve.
local WRITES = [[

put Put.put
requeue Put.requeue
pop Pop.pop
complete Outcome.complete
fail Outcome.fail
retry Outcome.retry
heartbeat Lock.heartbeat
cancel Job.cancel
timeout Job.timeout
depends DependencyCommands.depends
priority Job.priority
tag Tags.command
track Tracking.track
unfail Revive.unfail
worker.deregister Worker.deregister
pause Pause.pause
unpause Pause.unpause
queue.forget Queue.forget
log History.log
config.set Config.set
config.unset Config.unset
recur Recurring.recur
recur.update Recurring.update
recur.tag Recurring.tag
recur.untag Recurring.untag
unrecur Recurring.unrecur
]]

-- Those that exist with KEYS only.
local OUR_READS = [[

needs DependencyResults.show
offspring DependencyResults.offspring
results Results.show
results.gone Results.gone
result Job.result
jobs.count Queue.count_jobs
schedule.get ScheduleView.get
schedule.list ScheduleView.list
schedule.declared ScheduleView.declared
schedule.marks ScheduleView.marks
queues.part Queue.show_part
lag QueueStats.lag
due QueueStats.due
limits LimitView.show
survey QueueStats.survey
minutes Minutes.show
throughput Throughput.show
failed.of Throughput.failed
stats.counters Stats.counters
brief JobSummary.brief
briefs JobSummary.briefs
search Search.search
job.view JobView.show
failure.groups FailureGroups.list
failure.group FailureGroups.show
worker.views WorkerView.list
tag.counts Tags.counts
schedules.of ScheduleView.of
schedules.next ScheduleView.next
schedules.in QueueSchedules.list
schedules.count QueueSchedules.numbers
tracked.jids JobSummary.tracked
meta Clock.show
workflow.get WorkflowVerbs.get
entity.show EntityView.show
entities.list EntityView.list
entities.counts EntityView.counts
workflow.jobs WorkflowVerbs.jobs
detached.get Detached.get
]]

local OUR_WRITES = [[

put.many PutMany.many
put.once PutMany.once
spawn Spawn.spawn
settle Settle.settle
beat Worker.beat
release Outcome.release
progress Job.progress
order WorkerControl.order
revive Revive.revive
schedule.set Schedules.set
schedule.update Schedules.update
schedule.pause Schedules.pause
schedule.resume Schedules.resume
schedule.run Schedules.run
schedule.remove Schedules.remove
schedule.mark ScheduleView.mark
schedule.due Cron.due
schedule.tick Cron.tick
schedule.trouble Cron.trouble
queue.pause Pause.pause_with
queue.forget.empty Queue.forget_empty
cancel.each Bulk.cancel
revive.each Bulk.revive
move.each Bulk.move
priority.each Bulk.priority
timeout.each Bulk.timeout
tag.each Bulk.tag
untag.each Bulk.untag
track.each Bulk.track
untrack.each Bulk.untrack
await ResultWaiters.await
push EntityPush.push
dead.back Dead.back
dead.delete Dead.delete
entities.run EntityActions.run
entities.kill EntityActions.kill
entities.drop EntityActions.drop
workflow.put WorkflowPut.put
workflow.stage WorkflowPut.stage
workflow.release WorkflowPut.release
workflow.carry WorkflowVerbs.carry
workflow.cancel WorkflowVerbs.cancel
workflow.retry WorkflowVerbs.retry
detached.keep Detached.keep
forget Detached.forget
deliver Deliveries.deliver
deliver.forget Deliveries.forget
]]

local function line_of(command, lines)
  local _, last = string.find(lines, '\n' .. command .. ' ', 1, true)
  if last then
    return string.match(lines, '^(%w+)%.([%w_]+)', last + 1)
  end
end

local function look(command)
  for n, lines in ipairs({ READS, WRITES, OUR_READS, OUR_WRITES }) do
    local module, what = line_of(command, lines)
    if module then
      return { reads = n % 2 == 1, is_ours = n > 2, module = module, what = what }
    end
  end
end

local found = {}

-- What is known of a command: whether it `reads` only, whether it `is_ours`, the module and the function that
-- answer it. nil if there is no such command.
function Commands.find(command)
  local known = found[command]
  if not known and string.find(command, '^[%l.]+$') then
    known = look(command)
    found[command] = known
  end
  return known
end
