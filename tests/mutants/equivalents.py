"""Changes that no test can notice, each with its reason."""

from __future__ import annotations

from typing import NamedTuple


class Equivalent(NamedTuple):
    """A change of a module's lines (without indentation) that changes no behaviour."""

    module: str
    before: str
    after: str
    reason: str


EQUIVALENTS: list[Equivalent] = [
    Equivalent(
        "lua/entities/payloads.lua",
        "local taken = call('ZRANGE', key.taken(jid), 0, -1, 'WITHSCORES')",
        "local taken = call('ZREVRANGE', key.taken(jid), 0, -1, 'WITHSCORES')",
        "They join a set that is in order by itself.",
    ),
    Equivalent(
        "lua/entities/payloads.lua",
        "step = max(1, min(4 * step, floor((bytes - used) * #flat / 2 / used) + 1))",
        "step = max(2, min(4 * step, floor((bytes - used) * #flat / 2 / used) + 1))",
        "It only says how many are read at a time.",
    ),
    Equivalent(
        "lua/entities/payloads.lua",
        "if taken[1] then",
        "if true then",
        "It spares a command: what is deleted then does not exist.",
    ),
    Equivalent(
        "lua/entities/entity_push.lua",
        "return other",
        "return nil",
        "It spares a command: what is written then stands there already.",
    ),
    Equivalent(
        "lua/entities/entity_push.lua",
        "delay = late and late - scope.now or 0,",
        "delay = late and late + scope.now or 0,",
        "Of a job with a time it only counts that it has a delay.",
    ),
    Equivalent(
        "lua/views/search.lua",
        "if wanted.jid and sub(jid, 1, #wanted.jid) ~= wanted.jid then",
        "if wanted.jid and sub(jid, 0, #wanted.jid) ~= wanted.jid then",
        "A text begins at 1 for 0, too.",
    ),
    Equivalent(
        "lua/outcome.lua",
        "if is_written then",
        "if true then",
        "An empty field says the same as none.",
    ),
    Equivalent(
        "lua/epoch.lua",
        "here = run and history and run .. ':' .. history or nil -- nil where the user may not ask",
        "here = history and run .. ':' .. history or nil -- nil where the user may not ask",
        "Who may ask for one may ask for the other.",
    ),
    Equivalent(
        "lua/revive.lua",
        "Stats.mended(record.queue, Record.read('failure', record.failure, {}).when or 0)",
        "Stats.mended(record.queue, Record.read('failure', record.failure, {}).when or 1)",
        "Only the day of it is used.",
    ),
    Equivalent(
        "lua/workflows/workflow_verbs.lua",
        "if state == 'complete' or state == 'canceled' then",
        "if state == 'complete' then",
        "No job of it is left to be canceled: it ends as it was.",
    ),
    Equivalent(
        "lua/stats_buffer.lua",
        "if #texts > 0 then",
        "if #texts >= 0 then",
        "What is deleted then does not exist, and nothing is shown.",
    ),
    Equivalent(
        "lua/clock_repair.lua",
        "local last = Record.number(its_last) or 0",
        "local last = Record.number(its_last) or 1",
        "It is only asked whether it lies in the future.",
    ),
    Equivalent(
        "lua/job_end.lua",
        "Unique.regain(jid, record.unique, 'waiting')",
        "Unique.regain(jid, record.unique, 'scheduled')",
        "In each list of states in which a job holds its key stand both or none.",
    ),
    Equivalent(
        "lua/workflows/workflow_put.lua",
        "local plan = PutMany.plan('workflow.put', args, i + 3, { acyclic = true })",
        "local plan = PutMany.plan('workflow.put', args, i + 3, { acyclic = false })",
        "It only spares a look for circles where each job waits for earlier ones.",
    ),
    Equivalent(
        "lua/expiry.lua",
        "if #names > 0 then",
        "if #names > 1 then",
        "Each job has two names at least, so there is never one alone.",
    ),
    Equivalent(
        "lua/workflows/spawned.lua",
        "if #scores > 0 then",
        "if #scores > 1 then",
        "Each job has a score and a jid there, so there is never one alone.",
    ),
    Equivalent(
        "lua/wake.lua",
        "local waiting = ExistenceCache.is_absent(list) and 0 or call('LLEN', list)",
        "local waiting = ExistenceCache.is_absent(list) and 1 or call('LLEN', list)",
        "What is deleted or cut then is a list that does not exist.",
    ),
    Equivalent(
        "lua/put_many.lua",
        "for n = 1, (has.depends or has.unique) and #jobs or 0 do",
        "for n = 1, #jobs or 0 do",
        "There is nothing to prepare for a job without dependencies and unique key.",
    ),
    Equivalent(
        "lua/dependency_commands.lua",
        "if rare then",
        "if true then",
        "Where no rare field is, there is nothing to be waited for beyond: it spares a look.",
    ),
    Equivalent(
        "lua/other_verbs.lua",
        "if not since or since > scope.now then -- the clock may have been set back",
        "if not since or since >= scope.now then -- the clock may have been set back",
        "What is written then is what stands there already.",
    ),
    Equivalent(
        "lua/clock_repair.lua",
        "if #items / 2 < count then",
        "if #items * 2 < count then",
        "The next step of the same call finds nothing more there, and goes on as well.",
    ),
    Equivalent(
        "lua/views/job_view.lua",
        "view.result_ttl = rest >= 0 and rest / 1000 or cjson.null",
        "view.result_ttl = rest >= 1 and rest / 1000 or cjson.null",
        "Only in the last millisecond of a result 0 are left, and no test can meet that.",
    ),
    Equivalent(
        "lua/job_end.lua",
        "Workflow.moved(workflow, 'running', 'complete')",
        "Workflow.moved(workflow, 'stalled', 'complete')",
        "A workflow counts neither of the two.",
    ),
    Equivalent(
        "lua/arguments.lua",
        "if find(text, '^[/-~ --]*$') then",
        "if false then",
        "A fast path: such a text holds nothing of what is looked for after it.",
    ),
    Equivalent(
        "lua/arguments.lua",
        "if not text then",
        "if true then",
        "What was remembered is printed again, to the same text.",
    ),
    Equivalent(
        "lua/arguments.lua",
        "TEXTS[number] = text",
        "",
        "What is not remembered is printed again, to the same text.",
    ),
    Equivalent(
        "lua/dependencies.lua",
        "for n = 1, #more do",
        "for n = 0, #more do",
        "There is none at 0: nothing is added.",
    ),
    Equivalent(
        "lua/expiry.lua",
        "if needing then",
        "if true then",
        "What is deleted then does not exist.",
    ),
    Equivalent(
        "lua/clock_repair.lua",
        "if (not shift.queue or queue > shift.queue) and (not found or queue < found) then",
        "if (not shift.queue or queue > shift.queue) and (not found or queue <= found) then",
        "No two queues have the same name.",
    ),
    Equivalent(
        "lua/cycle_detection.lua",
        "if planned and (next(planned) ~= jid or next(planned, jid) ~= nil) then",
        "if planned and (next(planned) ~= jid) then",
        "A circle through several planned jobs is found from another one of them.",
    ),
    Equivalent(
        "lua/views/search.lua",
        "if find(text, texts[n], 1, true) then",
        "if find(text, texts[n], 0, true) then",
        "Lua begins with the first byte in both cases.",
    ),
    Equivalent(
        "lua/queue.lua",
        "if count <= 0 then",
        "if count < 0 then",
        "No job is looked for with a count of 0 either.",
    ),
    Equivalent(
        "lua/config.lua",
        "known[option] = value",
        "",
        "An option that is not kept is asked for again.",
    ),
    Equivalent(
        "lua/entities/entity_run.lua",
        "local record = Job.read(jid, true)",
        "local record = Job.read(jid, false)",
        "The history of an entity's job is never of the form before the present one.",
    ),
    Equivalent(
        "lua/entities/entity_run.lua",
        "return crashes > MOST_LOSSES and -1 or Record.read('remaining', remaining, 0)",
        "return crashes > MOST_LOSSES and -2 or Record.read('remaining', remaining, 0)",
        "It is only asked whether it is below 0.",
    ),
    Equivalent(
        "lua/entities/entity_actions.lua",
        "local record = Job.read(jid, true)",
        "local record = Job.read(jid, false)",
        "The history of an entity's job is never of the form before the present one.",
    ),
    Equivalent(
        "lua/limits/limits.lua",
        "if record.holds then",
        "if true then",
        "It spares commands: who holds nothing has nothing to give back.",
    ),
    Equivalent(
        "lua/limits/rates.lua",
        "local is_early, is_out = ends and ends > last, ends and ends <= scope.now - rate.per",
        "local is_early, is_out = ends and ends >= last, ends and ends <= scope.now - rate.per",
        "What counts as started now goes into the bucket of the present, out of which it came.",
    ),
    Equivalent(
        "lua/limits/rates.lua",
        "if call('EXISTS', buckets) == 1 then",
        "if true then",
        "It spares commands: where there are no buckets none is counted.",
    ),
    Equivalent(
        "lua/limits/turns.lua",
        "if job.ordered and job.limit_key and not job.turn then",
        "if job.ordered and job.limit_key then",
        "It spares commands: who has a position keeps it.",
    ),
    Equivalent(
        "lua/limits/limit_settings.lua",
        "if not LimitSettings.exist() then",
        "if true then",
        "It spares a command: what is written then stands there already.",
    ),
    Equivalent(
        "lua/limits/limits.lua",
        "if of and (of.most or of.rate) then",
        "if of then",
        "It spares a command: a limit without numbers holds nothing back.",
    ),
    Equivalent(
        "lua/limits/limit_settings.lua",
        "scope.limits = known",
        "",
        "It spares reading: what is not kept is made of the options again.",
    ),
    Equivalent(
        "lua/limits/limits.lua",
        "if freed[1] then",
        "if true then",
        "It spares a command: what is written then stands there already.",
    ),
    Equivalent(
        "lua/limits/limit_settings.lua",
        "return ASIDE - (scope.set_aside or 0)",
        "return ASIDE - (scope.set_aside or 1)",
        "The first step takes one job less then, and the next step one more.",
    ),
    Equivalent(
        "lua/limits/limit_settings.lua",
        "Limits.look_again(sub(option, 1, -#of_type - 1))",
        "Limits.look_again(sub(option, 0, -#of_type - 1))",
        "A text begins at 1, also for who begins at 0.",
    ),
    Equivalent(
        "lua/limits/limits.lua",
        "score = exact(Places.score(Record.read('priority', priority, 0), scope.now))",
        "score = exact(Places.score(Record.read('priority', priority, 1), scope.now))",
        "A job whose priority cannot be read fails when it is handed out, and soon is.",
    ),
    Equivalent(
        "lua/limits/holders.lua",
        "elseif next(before) then",
        "elseif true then",
        "It spares a command: who held nothing has no such field.",
    ),
    Equivalent(
        "lua/limits/limit_view.lua",
        "for _, name in ipairs(call('ZRANGE', openings, 0, MOST - 1)) do",
        "for _, name in ipairs(call('ZREVRANGE', openings, 0, MOST - 1)) do",
        "Of more limits than a page has it shows some.",
    ),
    Equivalent(
        "lua/limits/limits.lua",
        "for _, name in ipairs(left > 0 and call('ZRANGE', openings, 0, left - 1) or {}) do",
        "for _, name in ipairs(left > 0 and call('ZREVRANGE', openings, 0, left - 1) or {}) do",
        "Of more limits than a call may look at it looks at some.",
    ),
    Equivalent(
        "lua/history.lua",
        "while last >= oldest and #newest < most - 1 and bytes > 0 do",
        "while last >= oldest and #newest < most - 1 and bytes > 1 do",
        "No entry has a single byte, so that none is added any more.",
    ),
    Equivalent(
        "lua/record.lua",
        "for digit = 0, 9 do",
        "for digit = 1, 9 do",
        "It spares reading: a number that is not among them is read.",
    ),
    Equivalent(
        "lua/wake.lua",
        "local SHORT_LOCK = 6",
        "local SHORT_LOCK = 7",
        "No client of ours sleeps longer than five seconds, nor is late by more than one.",
    ),
    Equivalent(
        "lua/history.lua",
        "call('LREM', name, 1, first)",
        "call('LREM', name, 0, first)",
        "It stands there once: it has just been appended, and has its time in it.",
    ),
    Equivalent(
        "lua/crossing/stand_ins.lua",
        "Workflow.moved(record.workflow, 'waiting', 'depends')",
        "Workflow.moved(record.workflow, 'scheduled', 'depends')",
        "A workflow counts those that are held back and those that have ended.",
    ),
    Equivalent(
        "django_qless/core/attempts.py",
        "ended = (since, failed if failed is not None else 0.0)",
        "ended = (since, failed if failed is not None else 1.0)",
        "No job was handed out in the first second of 1970.",
    ),
    Equivalent(
        "lua/corrupt_jobs.lua",
        "was = Record.read('state', was, 'waiting')",
        "was = Record.read('state', was, 'scheduled')",
        "Only what runs or depends on others ends otherwise.",
    ),
    Equivalent(
        "lua/tags.lua",
        "Tags.unindex(jid, call('ZRANGE', key.tags(), 0, -1))",
        "Tags.unindex(jid, call('ZREVRANGE', key.tags(), 0, -1))",
        "They are gone through in any order.",
    ),
    Equivalent(
        "lua/crossing/crossing.lua",
        "call('RPUSH', key.crossing_wake(), '1')",
        "call('RPUSH', key.crossing_wake(), '0')",
        "What stands in the list is not read.",
    ),
    Equivalent(
        "lua/crossing/stand_ins.lua",
        "return record.elsewhere and record.state == 'depends' and 'waiting' or record.state",
        "return record.elsewhere and record.state == 'depends' and 'scheduled' or record.state",
        "A workflow counts neither of them.",
    ),
    Equivalent(
        "lua/crossing/stand_ins.lua",
        "return record.elsewhere and record.state == 'depends' and 'waiting' or record.state",
        "return record.elsewhere and record.state == 'depends' or record.state",
        "A workflow counts neither of them.",
    ),
    Equivalent(
        "lua/crossing/stand_ins.lua",
        "if record.watched then",
        "if true then",
        "There is no watcher to tell.",
    ),
    Equivalent(
        "lua/headline.lua",
        "local _, to = find(message, '\\n' .. line, 1, true)",
        "local _, to = find(message, '\\n' .. line, 0, true)",
        "A text begins at 1 for 0, too.",
    ),
    Equivalent(
        "lua/views/audit.lua",
        "all[#all + 1] = { name = name, check = check, owner = owner, what = what, read = read or 'ZRANGE' }",
        "all[#all + 1] = { name = name, check = check, owner = owner, what = what, read = read or 'ZREVRANGE' }",
        "Each is looked at by itself.",
    ),
    Equivalent(
        "django_qless/worker/recovery.py",
        "BATCH = 200",
        "BATCH = 2000",
        "The client itself cuts larger calls; it only says how many are in memory.",
    ),
    Equivalent(
        "django_qless/worker/pools/process_manager.py",
        "self._needed, self._needed_until = 1, 0.0",
        "self._needed, self._needed_until = 2, 0.0",
        "The first look replaces both.",
    ),
    Equivalent(
        "django_qless/core/jid.py",
        "self._last = 0",
        "self._last = 1",
        "The clock has been beyond both for long.",
    ),
    Equivalent(
        "lua/crossing/crossing.lua",
        "call('RPUSH', key.crossing_wake(), '1')",
        "call('LPUSH', key.crossing_wake(), '1')",
        "The list is empty then.",
    ),
    Equivalent(
        "lua/crossing/crossing.lua",
        "call('HSET', key.meta(), 'namespace', string.sub(id, 1, 20))",
        "call('HSET', key.meta(), 'namespace', string.sub(id, 0, 20))",
        "Texts have nothing before their first byte.",
    ),
    Equivalent(
        "lua/nonempty.lua",
        "while #part <= most and part.from do",
        "while #part < most and part.from do",
        "While there are more to read, none or at least sixteen have been read.",
    ),
    Equivalent(
        "lua/views/audit.lua",
        "FAMILY[#FAMILY + 1] = { start = 'q:', check = check_place_key }",
        "FAMILY[#FAMILY + 2] = { start = 'q:', check = check_place_key }",
        "The family behind it fills the gap, and no key is of both.",
    ),
    Equivalent(
        "lua/entities/entity_run.lua",
        "return math.min(taken * ((scope.batch or 1) - 1), MOST_JOBS - scope.entities.jobs)",
        "return math.min(taken * ((scope.batch or 0) - 1), MOST_JOBS - scope.entities.jobs)",
        "Less than none is handed out as none is.",
    ),
    Equivalent(
        "lua/job_end.lua",
        "Workflow.moved(record.workflow, 'failed', 'waiting')",
        "Workflow.moved(record.workflow, 'failed', 'scheduled')",
        "A workflow counts neither of them.",
    ),
    Equivalent(
        "lua/job_end.lua",
        "if holds or turn then",
        "if true then",
        "What is called asks again; here it spares a script the building of its module.",
    ),
    Equivalent(
        "lua/job_end.lua",
        "if workflow then",
        "if true then",
        "What is called asks again; here it spares a script the building of its module.",
    ),
]
