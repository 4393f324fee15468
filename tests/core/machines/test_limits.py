"""The machine of limits: types, keys, rates, queues and tenants; entities among the jobs."""

from __future__ import annotations

import itertools
import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize

from tests.core.caller import Core, entity_jid
from tests.core.machines.entities import Entities, ordered
from tests.core.machines.job import Job, Put
from tests.core.machines.machine import Lists, decoded, run
from tests.core.machines.runs import End, Runner

JIDS = [f"j{n}" for n in range(12)]
QUEUES = ["x", "y", "t", "e"]
ENTITIES = ["o1", "o2", "o3"]
OPTIONS = {
    "A-max-concurrency-of-type": [0, 1, 2], "A-max-concurrency-per-key": [1, 2, 0],
    "A-rate-of-type": ["0", "2/20s", "4/20s"],
    "B-max-concurrency-of-type": [0, 1], "B-rate-of-type": ["0", "1/30s", "2/30s"],
    "B-rate-per-key": ["0", "1/10s"],
    "sync-max-concurrency-of-type": [0, 1, 2], "sync-rate-of-type": ["0", "2/10s"],
    "x-max-concurrency": [0, 2, 3], "y-rate": ["0", "3/15s"],
}  # fmt: skip
SLOW = 6  # seconds after which room is not kept for a job whose queue hands out none

one_of = st.sampled_from
names = one_of([["x"], ["y"], ["t"], ["e"], ["y", "x"], ["*"], ["*"]])
workers, delays = one_of(["w1", "w2"]), one_of([0, 0, 5, 20])
prefixes = itertools.count()


class Limits(Runner):
    """Jobs under limits in two queues, tenants in a third, entities in a fourth."""

    model: Entities
    all_queues = sorted(QUEUES)
    tick = 0.25
    weights = {
        "put": 6, "put_for_tenants": 3, "push": 3, "reserve": 8, "settle": 5, "complete": 6,
        "beat": 1, "change": 3, "configure": 3, "operate": 2, "time_passes": 3, "drain": 3,
    }  # fmt: skip
    verbs = st.one_of(
        st.just(("complete",)),
        st.tuples(st.just("fail"), one_of(["broken", "row-gone"]), st.just("why")),
        st.tuples(st.just("retry"), delays, st.just("slow"), st.just("why")),
        st.tuples(st.just("release"), st.just(0)),
        st.tuples(st.just("release"), delays),
        st.tuples(st.just("crash"), one_of([0, 1]), st.just("died"), st.just("why")),
        st.tuples(st.just("move"), one_of(["x", "y"]), delays),
    )

    def __init__(self, core: Core) -> None:
        prefix = f"limits{next(prefixes)}:"
        super().__init__(Core(core.server, core.library, prefix))

    def start(self) -> None:
        self.model = Entities()
        super().start()

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        for _ in range(3):
            self.configure(data)
        for _ in range(4):
            self.put(data)

    def time_passes(self, data: st.DataObject) -> None:
        self.pass_time(data.draw(one_of([1, 5, 10, 15, 30, 61, 75])))

    def configure(self, data: st.DataObject) -> None:
        option = data.draw(one_of(list(OPTIONS)))
        value = str(data.draw(one_of(OPTIONS[option])))
        self.wire.call("config.set", option, value)
        self.model.options[option] = value

    # Putting.

    def draw_new(self, data: st.DataObject) -> str:
        """Draw the id of a job, mostly of none that is there."""
        ended = ("complete", "failed")
        there = {job.jid for job in self.model if job.state not in ended}
        jid: str = data.draw(one_of([j for j in JIDS if j not in there] * 4 + JIDS))
        return jid

    def put(self, data: st.DataObject) -> None:
        put = Put(self.draw_new(data), data.draw(one_of(["x", "x", "y"])))
        put.klass = data.draw(one_of("AB"))
        put.limit_key = data.draw(one_of([None, "k1", "k1", "k2"]))
        put.priority = data.draw(one_of([0, 0, 5]))
        put.delay = data.draw(one_of([0, 0, 0, 10]))
        put.retries = data.draw(one_of([5, 0]))
        self.send(put)

    def put_for_tenants(self, data: st.DataObject) -> None:
        for tenant in data.draw(one_of(["bb", "bs", "bbs", "sb", "o"])):
            put = Put(self.draw_new(data), "t", "C", priority=0, fair_by=tenant)
            self.send(put)

    def send(self, put: Put) -> None:
        self.model.disturb(put.jid)
        call = put.arguments("w1")
        self.agree(lambda: self.model.put(put), lambda: self.wire.call("put", *call))

    def push(self, data: st.DataObject) -> None:
        texts, scores = one_of(["1", "2", '"a"', '"b"']), one_of([1.0, 2.0, 3.5])
        items = data.draw(
            st.lists(st.tuples(one_of(ENTITIES), texts, scores), min_size=1, max_size=4)
        )
        due = data.draw(one_of([None, None, self.wire.now + 10]))
        retries = data.draw(one_of([0, 2]))
        parts: list[Any] = []
        for name, text, score in items:
            parts += [name, f'{{"entity":"{name}"}}', text, score, due or ""]
        self.agree(
            lambda: self.model.push(items, due, retries),
            lambda: self.wire.call("push", "", "e", "sync", len(items), *parts, "retries", retries),
        )  # fmt: skip

    # Running.

    def reserve(self, data: st.DataObject) -> None:
        count = data.draw(one_of([1, 1, 1, 2, 5]))
        self.round([], count, data.draw(names), data.draw(workers))

    def settle(self, data: st.DataObject) -> None:
        if self.running():
            ends = [self.draw_end(data) for _ in range(data.draw(one_of([1, 2])))]
            count = data.draw(one_of([0, 1, 3]))
            self.round(ends, count, data.draw(names), data.draw(workers))

    def complete(self, data: st.DataObject) -> None:
        if self.running():
            jid, token, _ = self.draw_end(data)
            count = data.draw(one_of([0, 1]))
            end = End(jid, token, ("complete",))
            self.round([end], count, data.draw(names), data.draw(workers))

    def refusal(self, job: Job, verb: tuple[Any, ...]) -> str | None:
        """An entity stays in its queue."""
        return "STATE" if self.model.of(job) and verb[0] == "move" else None

    def told_data(self, job: Job) -> str:
        entity = self.model.of(job)
        if entity is None:
            return job.data
        texts = ",".join(text for _, text in ordered(entity.running))
        return f'{job.data[:-1]},"payloads":[{texts}]}}'

    def drain(self, data: st.DataObject) -> None:
        """Take all that can start: nothing may wait that has all the room it needs.

        Where a queue hands out none, room may be kept for its jobs for some seconds.
        """
        self.take_all(data)
        for _ in range(2):
            if self.model.is_any_closed():
                self.pass_time(SLOW)
                self.take_all(data)
        assert self.model.forgotten() == []

    def take_all(self, data: st.DataObject) -> None:
        started, worker = -1, data.draw(workers)
        while started != self.model.last_token:
            started = self.model.last_token
            self.round([], 50, ["*"], worker)
            self.compare_jobs()

    def beat(self, data: st.DataObject) -> None:
        if self.running():
            jid, token, _ = self.draw_end(data)
            job = self.model.jobs.get(jid, Job(jid))
            reply = self.wire.call("beat", job.worker or "w1", "", 1, jid, token, "")
            assert reply[0] == ([] if self.is_held(jid, token) else [jid])
            if not reply[0]:
                self.model.beat(job)

    # Changing.

    def change(self, data: st.DataObject) -> None:
        model = self.model
        for queue in sorted(model.paused):
            self.wire.call("unpause", queue)
        model.paused.clear()
        what = data.draw(one_of(["cancel", "move", "priority", "timeout", "pause", "unfail"]))  # fmt: skip
        jids = [job.jid for job in model if job.state == "waiting"]
        jid = data.draw(one_of(jids * 3 + [*JIDS, entity_jid("e", "o1")]))
        model.disturb(jid)
        if what == "cancel":
            call: tuple[Any, ...] = ("cancel", jid)
            self.agree(lambda: model.cancel([jid]), lambda: self.wire.call(*call))
        elif what == "move":
            self.move(data, jid)
        elif what == "priority":
            self.change_priority(jid, data.draw(one_of([0, 5, 9])))
        elif what == "timeout":
            jid = data.draw(one_of([*[job.jid for job in self.running()], jid]))
            model.disturb(jid)
            self.agree(lambda: model.timeout(jid), lambda: self.wire.call(what, jid))
        elif what == "pause":
            queue = data.draw(one_of(QUEUES))
            self.agree(lambda: model.paused.add(queue), lambda: self.wire.call(what, queue))  # fmt: skip
        else:
            for group in ("broken", "failed-retries-x"):
                call = ("unfail", "x", group, 25)
                self.agree(lambda: model.unfail("x", group, 25), lambda: self.wire.call(*call))  # noqa: B023  # fmt: skip

    def move(self, data: st.DataObject, jid: str) -> None:
        job = self.model.jobs.get(jid)
        put = Put(jid, data.draw(one_of(["x", "y"])), job.klass if job else "A")
        call = ("requeue", *put.arguments(""))
        if job and self.model.of(job):
            self.refused(("STATE",), lambda: self.wire.call(*call))
            return
        self.agree(
            lambda: self.model.put(put, requeue=True), lambda: self.wire.call(*call)
        )

    def change_priority(self, jid: str, priority: int) -> None:
        def expect() -> int:
            self.model.existing(jid).priority = priority
            return priority

        self.agree(expect, lambda: self.wire.call("priority", jid, priority))

    def operate(self, data: st.DataObject) -> None:
        """What operators do to entities."""
        chosen = data.draw(st.lists(one_of(ENTITIES), min_size=1, max_size=2, unique=True))  # fmt: skip
        command, expect = data.draw(one_of([
            ("dead.back", self.model.dead_back), ("dead.back", self.model.dead_back),
            ("dead.delete", self.model.dead_delete), ("entities.kill", self.model.kill),
            ("entities.drop", self.model.drop),
        ]))  # fmt: skip
        call = (command, "e", *chosen)
        self.agree(lambda: expect(chosen), lambda: self.wire.call(*call))

    # Comparing.

    def compare_jobs(self) -> None:
        super().compare_jobs()
        jids = list(self.model.entities)
        calls = [("entity.show", "e", self.model.entities[jid].name) for jid in jids]
        for jid, reply in zip(jids, self.wire.ask(calls), strict=True):
            shown, expected = json.loads(reply), self.model.shown(jid)
            for part in ("waiting", "running", "dying"):
                told = [(float(score), json.dumps(text)) for score, text in shown[part]]  # fmt: skip
                assert told == expected[part], f"{part} of {jid}: {shown}"
            job = shown["job"] and (shown["job"]["state"], shown["job"]["count"])
            assert job == expected["job"]

    def lists(self) -> Lists:
        for queue in QUEUES:
            yield from self.lists_of(queue)
        failed = {group: len(jids) for group, jids in self.model.groups.items()}
        yield ("failed",), lambda reply: decoded(reply) or {}, failed
        entities = self.model.entities.values()
        dead = sorted(entity.name for entity in entities if entity.dying)
        yield ("entities.list", "dead", "e"), names_of, dead


def names_of(reply: str) -> list[str]:
    return sorted(row["entity"] for row in json.loads(reply)["entities"])


def test_limits_and_entities(core: Core) -> None:
    run(lambda: Limits(core), 100)
