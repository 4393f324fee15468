"""The machine of schedules and workflows, of spawned jobs, and of what failures entail."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize

from tests.core.caller import Core, flat
from tests.core.machines.calls import items, serve_ticks
from tests.core.machines.job import Job, Put
from tests.core.machines.machine import Lists, decoded, run
from tests.core.machines.runs import End, Runner
from tests.core.machines.schedules import Schedules, Template

JIDS = [f"j{n}" for n in range(6)]
SPAWNERS = ["s0", "s1"]
QUEUES, DECLARED = ["a", "b"], "d"
CRONS, INTERVALS = ["cron0", "cron1"], ["every0", "every1"]
PATIENCE = 3000  # seconds after which a workflow that was begun is released

one_of = st.sampled_from
queues, workers = one_of(["a", "a", "b"]), one_of(["w1", "w2"])
names = one_of([["a"], ["b"], ["a", "b"]])
delays, policies = one_of([0, 0, 5]), one_of([None, "cancel", "cancel", "run"])


class FlowsAndSchedules(Runner):
    """Jobs of two queues, which depend on each other; a third one for schedules."""

    model: Schedules
    all_queues = QUEUES
    weights = {
        "complete": 6, "settle": 6, "reserve": 6, "put": 5, "spawn": 4, "change": 4,
        "put_flow": 2, "add_to_flow": 2, "release_flow": 2, "join_flow": 3, "change_flow": 2,
        "recur": 2, "declare": 2, "operate": 2, "ticks": 4, "time_passes": 3,
    }  # fmt: skip
    tick = 0.5
    verbs = st.one_of(
        st.just(("complete",)),
        st.just(("complete", "[7]", 600)),
        st.tuples(st.just("fail"), st.just("broken"), st.just("why")),
        st.tuples(st.just("fail"), st.just("broken"), st.just("why")),
        st.tuples(st.just("retry"), delays, st.just("slow"), st.just("why")),
        st.tuples(st.just("release"), delays),
        st.tuples(st.just("crash"), one_of([0, 1]), st.just("died"), st.just("why")),
        st.tuples(st.just("move"), queues, delays),
        st.tuples(st.just("move"), queues, delays, st.lists(one_of(JIDS), max_size=2, unique=True)),
    )  # fmt: skip

    def start(self) -> None:
        self.model = Schedules()
        self.batches: dict[str, int] = {}  # how many jobs of workflows were begun with
        self.since: dict[str, float] = {}  # the last put of each of these
        self.numbers = itertools.count()
        self.removed = 0  # schedules
        super().start()

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        for _ in range(3):
            self.put(data)

    def time_passes(self, data: st.DataObject) -> None:
        for flow in sorted(self.model.gated):
            if self.wire.now - self.since[flow] > PATIENCE:
                self.release(flow)
        self.pass_time(data.draw(one_of([1, 10, 30, 61, 75, 150, 400])))

    # Putting.

    def draw_put(self, data: st.DataObject, jid: str, others: list[str]) -> Put:
        put = Put(jid, data.draw(queues), on_failure=data.draw(policies))
        put.retries = data.draw(one_of([0, 5]))
        put.delay = data.draw(one_of([0, 0, 0, 5]))
        if others and data.draw(one_of([True, True, False])):
            number = 1 if put.on_failure == "cancel" else data.draw(one_of([1, 2]))
            drawn = [data.draw(one_of(others)) for _ in range(number)]
            put.depends = list(dict.fromkeys(drawn))
        return put

    def others(self) -> list[str]:
        """Return jobs on which one may depend, mostly those that have not ended."""
        states = {"complete": 1, "failed": 2}
        return [
            job.jid
            for job in self.model
            for _ in range(states.get(job.state, 3))
            if job.jid not in self.model.parents
        ]

    def put(self, data: st.DataObject) -> None:
        known, model = self.model.offspring.keys(), self.model
        able = [jid for jid in [*SPAWNERS, *JIDS] if jid not in known]
        jid = data.draw(one_of([j for j in able if j not in model.jobs] * 4 + able))
        self.send(self.draw_put(data, jid, self.others() if jid in JIDS else []))

    def send(self, put: Put) -> None:
        model = self.model
        kept = model.jobs[put.jid].depends if put.jid in model.jobs else set()
        if any(jid in model.jobs and model.jobs[jid].state == "failed" for jid in kept):
            put.on_failure = None  # What has failed already would not be judged again.
        call = put.arguments("w1")
        self.agree(lambda: model.put(put), lambda: self.wire.call("put", *call))

    def draw_members(self, data: st.DataObject, flow: str, first: int) -> list[Put]:
        """Draw members of a workflow, which depend on earlier ones; the first, on others."""
        members = [f"{flow}-{n}" for n in range(first + data.draw(one_of([1, 2, 3])))]
        outside = [j.jid for j in self.model if j.jid in JIDS and j.workflow is None]
        return [
            self.draw_put(data, jid, members[:n] or outside)
            for n, jid in enumerate(members)
            if n >= first
        ]

    def put_flow(self, data: st.DataObject) -> None:
        flow = f"f{next(self.numbers)}"
        puts = self.draw_members(data, flow, 0)
        for put in puts:
            put.workflow = flow
        call = ("workflow.put", flow, "w1", "{}", *items(puts))
        self.agree(
            lambda: self.model.put_flow(flow, puts), lambda: self.wire.call(*call)
        )

    def add_to_flow(self, data: st.DataObject) -> None:
        """Begin a workflow, or add to one; nothing of it runs before it is released."""
        begun = sorted(self.model.gated)
        flow = data.draw(one_of([*begun, f"g{next(self.numbers)}"]))
        if flow not in begun:
            call = ("workflow.begin", flow, "{}")
            self.agree(
                lambda: self.model.begin_flow(flow), lambda: self.wire.call(*call)
            )
            self.batches[flow] = 0
        puts = self.draw_members(data, flow, self.batches[flow])
        for put in puts:
            put.workflow = flow
        self.batches[flow] += len(puts)
        self.since[flow] = self.wire.now
        call = ("put.many", "w1", *items(puts))
        self.agree(lambda: self.model.add_to_flow(puts), lambda: self.wire.call(*call))

    def release_flow(self, data: st.DataObject) -> None:
        if self.model.gated:
            self.release(data.draw(one_of(sorted(self.model.gated))))

    def release(self, flow: str) -> None:
        given = len(self.model.flows[flow].joined)
        self.agree(
            lambda: self.model.release_flow(flow),
            lambda: self.wire.call("workflow.release", flow, given),
        )

    def join_flow(self, data: st.DataObject) -> None:
        flow = data.draw(one_of([*self.model.flows, "nothing"]))
        jid = data.draw(one_of([f"{flow}-more0", f"{flow}-more1", *JIDS[:2]]))
        if jid in self.model.offspring:
            return
        members = [j for j in self.others() if j.startswith(f"{flow}-") and j != jid]
        put = self.draw_put(data, jid, members)
        put.workflow = flow
        self.send(put)

    def spawn(self, data: st.DataObject) -> None:
        """Let a running job spawn others, perhaps again those of an earlier run."""
        parents, model = self.model.parents, self.model
        able = [
            job
            for job in self.running()
            if job.jid not in JIDS and self.is_complete(parents.get(job.jid))
            if all(j.on_failure != "cancel" for j in model.waiting_through(job.jid))
        ]
        if not able:
            return
        job = data.draw(one_of(able))
        number = data.draw(one_of([1, 2]))
        puts = [Put(f"{job.jid}.{n}", data.draw(queues)) for n in range(number)]
        puts[0].retries = data.draw(one_of([0, 5]))
        token = data.draw(one_of([job.token] * 9 + ["999"]))
        call = ("spawn", job.jid, token, "w1", *items(puts))

        def reply() -> tuple[list[str], dict[str, str]]:
            left, instead = self.wire.call(*call)
            return left, dict(zip(instead[::2], instead[1::2], strict=True))

        self.agree(lambda: self.model.spawn(job.jid, token, puts), reply)

    def draw_end(self, data: st.DataObject) -> End:
        """Children, and those for which others wait through them, move behind none."""
        end = super().draw_end(data)
        related = self.model.parents.keys() | self.model.offspring.keys()
        if len(end.verb) == 4 and end.verb[0] == "move" and end.jid in related:
            return End(end.jid, end.token, (*end.verb[:3], []))
        return end

    def end_run(self, job: Job, verb: tuple[Any, ...], links: list[str]) -> None:
        super().end_run(job, verb, links)
        if verb[0] == "move" and verb[3:] not in ((), ([],)):
            self.model.needs.setdefault(job.jid, []).extend(verb[3])

    def is_complete(self, jid: str | None) -> bool:
        job = self.model.jobs.get(jid) if jid else None
        return jid is None or (job is not None and job.state == "complete")

    # Running.

    def reserve(self, data: st.DataObject) -> None:
        count = data.draw(one_of([1, 3, 9]))
        self.round([], count, data.draw(names), data.draw(workers))

    def settle(self, data: st.DataObject) -> None:
        if self.running():
            ends = [self.draw_end(data) for _ in range(data.draw(one_of([1, 1, 2])))]
            self.round(ends, 1, data.draw(names), data.draw(workers))

    def complete(self, data: st.DataObject) -> None:
        if self.running():
            jid, token, _ = self.draw_end(data)
            end = End(jid, token, ("complete",))
            self.round([end], 2, data.draw(names), data.draw(workers))

    # Changing.

    def change(self, data: st.DataObject) -> None:
        model = self.model
        what = data.draw(one_of(["cancel", "cancel", "unfail", "depends", "timeout"]))
        passed = {job.jid for job in model if job.state == "complete"}
        passed &= model.offspring.keys()  # They are waited for no longer: others are.
        jids = [job.jid for job in model if not model.waiting_through(job.jid)]
        jids = [jid for jid in jids if jid not in passed]
        jid = data.draw(one_of([*jids, "nothing"]))
        if what == "cancel":
            self.agree(lambda: model.cancel([jid]), lambda: self.wire.call(what, jid))
        elif what == "timeout":
            jid = data.draw(one_of([*[job.jid for job in self.running()], jid]))
            self.agree(lambda: model.timeout(jid), lambda: self.wire.call(what, jid))
        elif what == "unfail":
            group = data.draw(one_of([*sorted(model.groups), "nothing"]))
            call: tuple[Any, ...] = (what, "a", group, 25)
            self.agree(
                lambda: model.unfail("a", group, 25), lambda: self.wire.call(*call)
            )
        else:
            self.depend(data)

    def depend(self, data: st.DataObject) -> None:
        held = [
            j for j in self.model if j.state == "depends" and j.on_failure != "cancel"
        ]
        jids = [job.jid for job in held if job.workflow is None]
        others = self.others()
        if not jids or not others:
            return
        call = [data.draw(one_of(jids)), *data.draw(one_of([["on"], ["off", "all"]]))]
        if call[1] == "on":
            call.append(data.draw(one_of(others)))

        def expect() -> int:
            self.model.depend(call[0], call[1], call[2:], old=False)
            return 1

        self.agree(expect, lambda: self.wire.call("depends", *call))

    def change_flow(self, data: st.DataObject) -> None:
        flow = data.draw(one_of([*self.model.flows, "nothing"]))
        if data.draw(st.booleans()):
            self.agree(
                lambda: self.model.cancel_flow(flow),
                lambda: self.wire.call("workflow.cancel", flow),
            )
        else:
            self.agree(
                lambda: self.model.retry_flow(flow),
                lambda: self.wire.call("workflow.retry", flow, 0),
            )

    # Schedules.

    def recur(self, data: st.DataObject) -> None:
        """Recurring jobs of the protocol: the ids of those that end do not come again."""
        old, model = data.draw(st.booleans()), self.model
        what = data.draw(one_of(["recur", "recur", "update", "tag", "unrecur"]))
        jid = data.draw(one_of([*model.templates, f"r{next(self.numbers)}"]))
        if what == "recur" and len(model.templates) < 3:
            made = Template(
                jid, data.draw(queues), self.wire.now + data.draw(one_of([0, 10, -50])),
                data.draw(one_of([60, 150])), data.draw(one_of([0, 2])),
                priority=data.draw(one_of([0, 5])),
            )  # fmt: skip
            if jid in model.templates:
                made.count = model.templates[jid].count
            call: tuple[Any, ...] = (
                "recur", made.queue, jid, "klass", "{}", "interval", made.interval,
                made.due - self.wire.now, "priority", made.priority, "backlog", made.backlog,
            )  # fmt: skip
            self.agree(lambda: jid, lambda: self.wire.either(old, *call))
            model.templates[jid] = made
        elif what == "update":
            interval = data.draw(one_of([60, 100]))

            def expect() -> int:
                template = model.template(jid)
                template.due += interval - template.interval
                template.interval = interval
                return 1

            call = ("recur.update", jid, "interval", interval)
            self.agree(expect, lambda: self.wire.either(old, *call), old=old)
        elif what == "tag":

            def tags() -> str:
                template = model.template(jid)
                template.tags = ["red"]
                return '["red"]'

            call = ("recur.tag", jid, "red")
            self.agree(tags, lambda: self.wire.either(old, *call), old=old)
        elif what == "unrecur":
            model.templates.pop(jid, None)
            assert self.wire.either(old, what, jid) == 1

    def declare(self, data: st.DataObject) -> None:
        jid = data.draw(one_of([*CRONS, *INTERVALS]))
        jid += f"v{self.removed}"  # What is declared anew under its id may count on.
        missed = data.draw(one_of(["all", "last", "none"]))
        if jid.startswith("cron"):
            minutes = data.draw(one_of([1, 1, 2]))
            every, offset = 60 * minutes, 0
            rhythm = {"cron": "* * * * *" if minutes == 1 else f"*/{minutes} * * * *"}
        else:
            every, offset = data.draw(one_of([30, 100])), 10
            rhythm = {"interval": every, "offset": offset}
        call = ("schedule.set", jid, DECLARED, "klass", "[1]", *flat({**rhythm, "missed": missed}))  # fmt: skip
        self.agree(
            lambda: self.model.declare(jid, every, offset, missed),
            lambda: self.wire.call(*call),
        )

    def operate(self, data: st.DataObject) -> None:
        """What operators do to schedules."""
        model = self.model
        jid = data.draw(one_of([*model.schedules, *CRONS[:1]]))
        what = data.draw(one_of(["pause", "resume", "resume", "run", "remove"]))
        if what in ("pause", "resume"):
            expect = model.pause if what == "pause" else model.resume
            self.agree(
                lambda: expect(jid), lambda: self.wire.call(f"schedule.{what}", jid)
            )
        elif what == "remove":
            there = int(jid in model.schedules)
            model.schedules.pop(jid, None)
            self.removed += there
            assert self.wire.call("schedule.remove", jid) == there
        elif jid in model.schedules:
            self.ticks(data)
            child = self.wire.call("schedule.run", jid)
            model.schedules[jid].count += 1
            assert self.take_declared() == Counter([jid]), child

    def ticks(self, _: st.DataObject) -> None:
        """Serve the ticks that are due, and run their jobs."""
        every = {jid: s.every for jid, s in self.model.schedules.items()}
        serve_ticks(self.wire, "w1", every)
        due = {jid: len(times) for jid, times in self.model.due_now().items()}
        assert self.take_declared() == Counter(due)

    def take_declared(self) -> Counter[str]:
        """Reserve the jobs of schedules, and return how many each has put."""
        jobs = self.wire.settle([], 50, [DECLARED], worker="w1").jobs
        shown = self.wire.json("multiget", *[job["jid"] for job in jobs])
        ends = [End(job["jid"], job["token"], ("complete",)) for job in jobs]
        for job in jobs:
            assert job["jid"] not in self.model.jobs, f"{job['jid']} ran already"
            made = Job(job["jid"], DECLARED, "klass", "[1]", since=self.wire.now)
            self.model.jobs[made.jid] = made
            self.model.start(made, "w1", job["token"])
        if ends:
            self.round(ends, 0, [DECLARED], "w1")
        return Counter(job["spawned_from_jid"] for job in shown)

    # Comparing.

    def wanted(self, job: Job) -> dict[str, Any]:
        """Which jobs one waits for that others have spawned is the core's own affair."""
        wanted, families = super().wanted(job), self.model.offspring
        if any(jid in families for jid in job.depends):
            del wanted["dependencies"]
        if job.jid in families or job.jid in self.model.parents:
            del wanted["dependents"]
        return wanted

    def lists(self) -> Lists:
        model = self.model
        for queue in QUEUES:
            yield from self.lists_of(queue)
            recurring = [t.jid for t in model.templates.values() if t.queue == queue]
            yield ("jobs", "recurring", queue), sorted, sorted(recurring)
        counts = {group: len(jids) for group, jids in model.groups.items()}
        yield ("failed",), lambda reply: decoded(reply) or {}, counts
        for flow in model.flows:
            expected = model.counts(flow)
            yield ("workflow.get", flow), part_of(expected), expected
            joined = sorted(model.flows[flow].joined)
            yield ("workflow.jobs", flow, 0, 99), members_of, joined
        for jid, needs in model.needs.items():
            yield ("needs", jid), lambda flat: flat[::2], needs
        for jid, children in model.offspring.items():
            yield ("offspring", jid), lambda flat: set(flat[::2]), set(children)
        done = [job for job in model if job.state == "complete"]
        if done:
            jids = [job.jid for job in done]
            yield ("results", *jids), list, [job.result for job in done]
        for schedule in model.schedules.values():
            shown = model.shown(schedule)
            yield ("schedule.get", schedule.jid), part_of(shown), shown
        for template in model.templates.values():
            parts = {
                n: vars(template)[n] for n in ("queue", "interval", "backlog", "count")
            }
            yield ("recur.get", template.jid), part_of(parts), parts
            due = {"next": template.due}
            yield ("schedule.get", template.jid), part_of(due), due


def part_of(expected: dict[str, Any]) -> Any:
    """Return what reads of a JSON object the members that are expected."""

    def read(reply: str) -> dict[str, Any]:
        shown = json.loads(reply)
        return {name: shown.get(name) for name in expected}

    return read


def members_of(reply: str) -> list[str]:
    return sorted(decoded(reply)["jobs"] or ())


def test_schedules_and_workflows(core: Core) -> None:
    run(lambda: FlowsAndSchedules(core), 220)
