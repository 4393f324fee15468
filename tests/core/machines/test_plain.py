"""The machine of plain jobs: puts, runs, dependencies, keys, old clients among ours."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize

from tests.core.caller import Core, flat
from tests.core.machines.job import Job, Put
from tests.core.machines.jobs import OLD, OURS, Jobs
from tests.core.machines.machine import Lists, decoded, run
from tests.core.machines.runs import End, Runner

JIDS = [f"j{n}" for n in range(9)]
QUEUES = ["a", "b"]
GROUPS = ["broken", "slow"]
KEPT = 500  # seconds for which a reply is kept, at least

one_of = st.sampled_from
queues, workers = one_of(["a", "a", "b"]), one_of(OURS)
delays, priorities = one_of([0, 0, 0, 5, 60, -3]), one_of([0, 0, 5, -2.5])
names = one_of([["a"], ["b"], ["b", "a"], ["*"]])
some_jids = st.lists(one_of(JIDS), min_size=1, max_size=3, unique=True)
options = st.fixed_dictionaries({}, optional={
    "data": st.just("[1]"), "delay": one_of([5, 60, -3]), "priority": priorities,
    "retries": one_of([0, 1, 3]), "tags": one_of([["red"], ["red", "green"], []]),
})  # fmt: skip
keys = st.fixed_dictionaries({
    "unique": one_of(["k", "l"]),
    "conflict": one_of(["keep", "replace", "replace", "take"]),
    "unique_until": one_of(["start", "end", "end"]),
})  # fmt: skip
CHANGES = ["cancel", "priority", "priority", "tag", "timeout", "depends", "depends", "unfail", "pause"]  # fmt: skip


class Plain(Runner):
    """Jobs of two queues."""

    all_queues = QUEUES
    weights = {
        "reserve": 5, "settle": 5, "complete": 3, "pop": 3, "beat": 2, "finish": 2,
        "put": 5, "put_with_key": 2, "put_again": 2, "put_several": 2, "change": 4,
        "time_passes": 4, "repeat": 2,
    }  # fmt: skip
    verbs = st.one_of(
        st.just(("complete",)),
        st.just(("complete", "[7]", 600)),
        st.tuples(st.just("fail"), one_of(GROUPS), st.just("why")),
        st.tuples(st.just("retry"), delays, one_of([*GROUPS, ""]), st.just("why")),
        st.tuples(st.just("release"), delays),
        st.tuples(st.just("crash"), one_of([0, 1]), st.just("died"), st.just("why")),
        st.tuples(st.just("move"), queues, delays),
        st.tuples(st.just("move"), queues, delays, some_jids),
    )

    def start(self) -> None:
        self.model = Jobs()
        super().start()

    def draw_jid(self, data: st.DataObject, *states: str) -> str:
        """Draw a job, mostly one in these states."""
        fit = [job.jid for job in self.model if job.state in states]
        jid: str = data.draw(one_of(fit * 3 + JIDS))
        return jid

    # Time and clients.

    def time_passes(self, data: st.DataObject) -> None:
        self.pass_time(data.draw(one_of([0.5, 1, 5, 10, 61, 61, 75, 300])))

    def repeat(self, data: st.DataObject) -> None:
        """Repeat the last request of a client, which makes the next ones, too."""
        client = self.wire.client = data.draw(one_of(["", "c1", "c2"]))
        number, command, args, reply, made = self.wire.last.get(client, (0,) * 5)
        if not number or self.wire.now - made > KEPT:
            return

        def call(number: int) -> Any:
            request, now = f"{client}:{number}", self.wire.now
            return self.wire.core.ours(command, *args, now=now, request=request)

        if data.draw(one_of([False, False, True])):
            self.refused(("STALE",), lambda: call(number - 1))
            return
        again = call(number)
        if command == "settle":
            assert again[0] == reply[0]
            held = [job[4] for job in reply[1] if self.is_held(job[0], job[4])]
            assert [job[4] for job in again[1]] == held
        elif command == "pop":
            there = [j["jid"] for j in decoded(reply) if j["jid"] in self.model.jobs]
            assert [job["jid"] for job in decoded(again)] == there
        else:
            assert again == reply

    # Putting.

    @initialize(data=st.data(), number=st.integers(3, 5))
    def begin(self, data: st.DataObject, number: int) -> None:
        for jid in JIDS[:number]:
            self.send_put(Put(jid, "a", **data.draw(options)))

    def put(self, data: st.DataObject) -> None:
        """Put a job, mostly a new one; sometimes leave one alone that exists."""
        gone = [jid for jid in JIDS if jid not in self.model.jobs]
        jid, old = data.draw(one_of(gone * 3 + JIDS)), data.draw(st.booleans())
        absent = data.draw(one_of([None, 1])) if jid not in gone and not old else None
        self.send_put(self.draw_put(data, jid, absent=absent), old=old)

    def put_with_key(self, data: st.DataObject) -> None:
        self.send_put(self.draw_put(data, data.draw(one_of(JIDS)), **data.draw(keys)))

    def put_again(self, data: st.DataObject) -> None:
        jid = self.draw_jid(data, "depends", "running", "failed", "scheduled")
        self.send_put(self.draw_put(data, jid), "requeue", old=data.draw(st.booleans()))

    def draw_put(self, data: st.DataObject, jid: str, **more: Any) -> Put:
        put = Put(jid, data.draw(queues), **data.draw(options), **more)
        if data.draw(one_of([True, False, False])):
            states = ("waiting", "depends", "running", "scheduled")
            number = data.draw(one_of([1, 1, 2]))
            jids = [self.draw_jid(data, *states) for _ in range(number)]
            put.depends = list(dict.fromkeys(jids))
        return put

    def send_put(self, put: Put, command: str = "put", *, old: bool = False) -> None:
        requeue = command == "requeue"
        call = (command, *put.arguments("old1" if old else "w1"))
        self.agree(
            lambda: self.model.put(put, old=old, requeue=requeue),
            lambda: self.wire.either(old, *call),
            old=old,
        )

    def put_several(self, data: st.DataObject) -> None:
        jids, key = data.draw(some_jids), data.draw(st.none() | keys)
        absent = one_of([None, None, 1])
        batch = [
            self.draw_put(data, jid, absent=data.draw(absent))
            for jid in jids
            if not self.had_key(jid)
        ]
        holder = self.model.holder(key["unique"]) if key else None
        if batch and key and holder not in jids:
            vars(batch[0]).update(key, depends=None)
            for put in batch[1:]:
                others = [
                    j for j in put.depends or () if j not in (batch[0].jid, holder)
                ]
                put.depends = others or None

        def call() -> Any:
            items = [{**vars(put), **put.options()} for put in batch]
            given = [{k: v for k, v in i.items() if v is not None} for i in items]
            left = self.wire.put_many(given)
            return left, self.wire.instead

        self.agree(lambda: self.model.put_many(batch), call)

    def had_key(self, jid: str) -> bool:
        """Return whether the job has ended with a key, which a put gives back to it."""
        job = self.model.jobs.get(jid)
        return job is not None and job.unique is not None and not job.counts()

    # Running.

    def reserve(self, data: st.DataObject) -> None:
        self.round(
            [], data.draw(one_of([1, 2, 5])), data.draw(names), data.draw(workers)
        )

    def settle(self, data: st.DataObject) -> None:
        ends = [self.draw_end(data) for _ in range(data.draw(one_of([1, 1, 2, 3])))]
        count = data.draw(one_of([0, 1, 1, 2]))
        self.round(ends, count, data.draw(names), data.draw(workers))

    def complete(self, data: st.DataObject) -> None:
        jid, token, _ = self.draw_end(data)
        end = End(jid, token, ("complete",))
        self.round([end], 1, data.draw(names), data.draw(workers))

    def pop(self, data: st.DataObject) -> None:
        queue, count = data.draw(queues), data.draw(one_of([1, 2, 5]))
        old = data.draw(st.booleans())
        worker = (OLD if old else OURS)[0]
        popped = decoded(self.wire.either(old, "pop", queue, worker, count))
        jids = [job["jid"] for job in popped]
        shown = self.wire.json("multiget", *jids)
        told = [(job["jid"], job["token"]) for job in shown]
        self.hand_out([queue], count, worker, told, old=old)

    def beat(self, data: st.DataObject) -> None:
        old = data.draw(st.booleans())
        jid, token, _ = self.draw_end(data)
        job = self.model.jobs.get(jid, Job(jid))
        worker = job.worker or "w1"
        if not old:
            lost = self.wire.call("beat", worker, "", 1, jid, token, "")[0]
            assert lost == ([] if self.is_held(jid, token) else [jid])
            if not lost:
                self.model.beat(job)
            return

        def expect() -> int:
            self.model.beat(self.model.held(jid, worker=worker), old=True)
            return int(job.expires)

        self.agree(expect, lambda: self.wire.old("heartbeat", jid, worker), old=True)

    def finish(self, data: st.DataObject) -> None:
        """End a run by a command of the protocol."""
        old = data.draw(st.booleans())
        jid, token, _ = self.draw_end(data)
        what = data.draw(one_of(["complete", "next", "fail", "retry"]))
        queue, delay = data.draw(queues), data.draw(delays)
        others = data.draw(st.just([]) | some_jids)
        job = self.model.jobs.get(jid, Job(jid))
        proof = job.worker or "w1" if old else token

        def expect() -> Any:
            run = self.model.held(jid, **{"worker" if old else "token": proof})
            links = []
            if what == "next":
                links = self.model.open(others, job.on_failure, old=old)
                self.model.refuse_cycle({jid: links})
            self.stale.append((jid, run.token))
            if what == "complete":
                self.model.complete(run)
                self.model.release([run])
                return "complete"
            if what == "next":
                return self.model.advance(run, queue, delay, links)
            if what == "fail":
                self.model.fail(run, "broken")
                return jid
            return self.model.retry(run, delay, None, queue)

        where = job.queue or "a"
        more = ("next", queue, "delay", delay, *flat({"depends": others}))
        calls: dict[str, tuple[Any, ...]] = {
            "complete": ("complete", jid, proof, where, job.data),
            "next": ("complete", jid, proof, where, job.data, *more),
            "fail": ("fail", jid, proof, "broken", "why"),
            "retry": ("retry", jid, queue, proof, delay),
        }
        self.agree(expect, lambda: self.wire.either(old, *calls[what]), old=old)

    # Changing.

    def change(self, data: st.DataObject) -> None:
        old, what = data.draw(st.booleans()), data.draw(one_of(CHANGES))
        for queue in sorted(self.model.paused):
            self.wire.either(old, "unpause", queue)
        self.model.paused.clear()
        expect, *call = getattr(self, f"draw_{what}")(data, old)
        self.agree(expect, lambda: self.wire.either(old, what, *call), old=old)

    def draw_cancel(self, data: st.DataObject, old: bool) -> Any:
        first = self.draw_jid(data, data.draw(one_of(["failed", "depends", "running"])))
        more = data.draw(st.lists(one_of(JIDS), max_size=2))
        jids = list(dict.fromkeys([*more, first]))
        return lambda: self.model.cancel(jids, old=old), *jids

    def draw_priority(self, data: st.DataObject, _: bool) -> Any:
        jid, priority = self.draw_jid(data, "waiting"), data.draw(one_of([0, 5, -2]))

        def expect() -> int:
            self.model.existing(jid).priority = priority
            return priority

        return expect, jid, priority

    def draw_depends(self, data: st.DataObject, old: bool) -> Any:
        jid = self.draw_jid(data, "depends")
        word, *names = data.draw(one_of([["on"], ["on"], ["off"], ["off", "all"]]))
        names = names or data.draw(some_jids)

        def expect() -> int:
            self.model.depend(jid, word, names, old=old)
            return 1

        return expect, jid, word, *names

    def draw_pause(self, data: st.DataObject, _: bool) -> Any:
        queue = data.draw(queues)
        return lambda: self.model.paused.add(queue), queue

    def draw_unfail(self, data: st.DataObject, _: bool) -> Any:
        group = data.draw(one_of([*sorted(self.model.groups), "nothing"]))
        queue, count = data.draw(queues), data.draw(one_of([1, 25]))
        return lambda: self.model.unfail(queue, group, count), queue, group, count

    def draw_timeout(self, data: st.DataObject, _: bool) -> Any:
        jid = self.draw_jid(data, "running")
        return lambda: self.model.timeout(jid), jid

    def draw_tag(self, data: st.DataObject, _: bool) -> Any:
        jid, tag = self.draw_jid(data, "waiting"), data.draw(one_of(["red", "green"]))
        word = data.draw(one_of(["add", "remove"]))

        def expect() -> str:
            job = self.model.existing(jid)
            kept = [t for t in job.tags if word == "add" or t != tag]
            job.tags = [*dict.fromkeys([*kept, *[tag] * (word == "add")])]
            return json.dumps(job.tags, separators=(",", ":")) if job.tags else "{}"

        return expect, word, jid, tag

    # All that is kept, by the lists that show it.

    def lists(self) -> Lists:
        model = self.model
        for queue in QUEUES:
            yield from self.lists_of(queue)
        counts = {group: len(jids) for group, jids in model.groups.items()}
        yield ("failed",), lambda reply: decoded(reply) or {}, counts
        for group, failed in model.groups.items():
            yield ("failed", group), lambda r: decoded(r)["jobs"], failed[::-1]
        done = [job for job in model if job.state == "complete"]
        yield ("jobs", "complete"), sorted, sorted(job.jid for job in done)
        if done:
            jids = [job.jid for job in done]
            yield ("results", *jids), list, [job.result for job in done]
        for worker in [*OURS, *OLD]:
            held = [j for j in self.running() if j.worker == worker and not j.noticed]
            kept = sorted(job.jid for job in held if job.expires >= model.now)
            lost = sorted(job.jid for job in held if job.expires <= model.now)
            yield ("workers", worker), jobs_of_worker, (kept, lost)
        for tag in ("red", "green"):
            tagged = sorted(job.jid for job in model if tag in job.tags)
            yield ("tag", "get", tag), jids_of_tag, tagged


def jobs_of_worker(reply: str) -> tuple[list[str], list[str]]:
    shown = decoded(reply)
    return sorted(shown["jobs"] or ()), sorted(shown["stalled"] or ())


def jids_of_tag(reply: str) -> list[str]:
    return sorted(decoded(reply)["jobs"] or ())


def test_plain_jobs(core: Core) -> None:
    run(lambda: Plain(core), 150)
