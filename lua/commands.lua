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
depends Links.depends
priority Job.priority
tag Tags.command
track Job.track
unfail Revive.unfail
worker.deregister Worker.deregister
pause Pausing.pause
unpause Pausing.unpause
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

needs Needs.show
offspring Needs.offspring
results Needs.results
results.kept Kept.show
results.cut Kept.cut
result Job.result
jobs.count Queue.count_jobs
schedule.get ScheduleView.get
schedule.list ScheduleView.list
schedule.declared ScheduleView.declared
schedule.marks ScheduleView.marks
lag Survey.lag
due Survey.due
survey Survey.survey
minutes Minutes.show
throughput Throughput.show
failed.of Throughput.failed
stats.counters Stats.counters
brief Brief.brief
briefs Brief.briefs
search Search.search
job.view JobView.show
failure.groups Groups.list
failure.group Groups.show
worker.views WorkerView.list
tag.counts Tags.counts
schedules.of ScheduleView.of
schedules.next ScheduleView.next
schedules.in QueueSchedules.list
schedules.count QueueSchedules.numbers
tracked.jids Brief.tracked
meta Clock.show
permissions Permissions.show
audit Audit.audit
workflow.get WorkflowVerbs.get
workflow.jobs WorkflowVerbs.jobs
]]

-- (stacks without its second argument only reads: see Serve.)
local OUR_WRITES = [[

put.many Batch.many
spawn Spawn.spawn
settle Settle.settle
beat Worker.beat
release Outcome.release
progress Job.progress
seal Links.seal
order Orders.order
stacks Orders.stacks
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
schedule.mend Cron.mend
queue.pause Pausing.pause_with
queue.forget.empty Queue.forget_empty
cancel.each Each.cancel
revive.each Each.revive
move.each Each.move
priority.each Each.priority
timeout.each Each.timeout
tag.each Each.tag
untag.each Each.untag
track.each Each.track
untrack.each Each.untrack
await Awaiting.await
workflow.put WorkflowPut.put
workflow.stage WorkflowPut.stage
workflow.release WorkflowPut.release
workflow.carry WorkflowVerbs.carry
workflow.cancel WorkflowVerbs.cancel
workflow.retry WorkflowVerbs.retry
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
