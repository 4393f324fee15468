"""What the state machines share: a namespace for each example, a clock, comparisons.

By day each machine runs a fixed number of examples, always the same. Longer runs:

    QLESS_MACHINES_HOURS=1      for that long, from one seed after the other
    QLESS_MACHINES_SEED=7       from this seed on
    QLESS_MACHINES_AUDIT=0      without the invariants of the keys
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import redis
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests import drawing
from tests.core.caller import Core, call_class, listed
from tests.core.invariants import violations
from tests.core.keyed import Keyed
from tests.core.keyspace import digest
from tests.core.machines.job import Job, Refused
from tests.core.machines.jobs import Jobs

#: Calls, how their replies are read, and what they must say.
Lists = Iterator[tuple[tuple[Any, ...], Callable[[Any], Any], Any]]

HOURS = float(os.environ.get("QLESS_MACHINES_HOURS") or 0)
SEED = int(os.environ.get("QLESS_MACHINES_SEED") or 0)
AUDIT = os.environ.get("QLESS_MACHINES_AUDIT", "1") != "0"
STEPS = 50
PHASES = (Phase.generate, Phase.shrink)
BATCH = 100  # examples from one seed of a longer run
NIGHTLY = 10  # times as many examples as by day

#: What errors say to old clients, by the codes of those with KEYS.
WORDS = {
    "NOJOB": "does not exist",
    "LOCKLOST": "not currently running|another worker",
    "CYCLE": "would wait for itself",
    "DEPENDENTS": "is a dependency",
    "STATE": "unique key|in the depends state|not running",
}


def run(machine: Callable[[], Machine], examples: int) -> None:
    """Run this number of examples (at night more), or as long as HOURS says."""
    end, seed = time.monotonic() + HOURS * 3600, SEED
    number = BATCH if HOURS else examples * (NIGHTLY if drawing.ALL else 1)
    while True:
        print(f"seed {seed}", flush=True)
        chosen = settings(
            max_examples=number,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=PHASES,
            print_blob=False,
        )
        factory: Any = hypothesis.seed(seed)(lambda: machine())
        run_state_machine_as_test(factory, settings=chosen)
        seed += 1
        if time.monotonic() >= end:
            return


class Wire(Keyed):
    """A namespace, called at the time and in the name of the client that were set."""

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self.now = 1000.0
        self.client = ""
        self.requests = 0
        #: The last request of each client: its number, command, arguments, reply, time.
        self.last: dict[str, tuple[Any, ...]] = {}
        self.call = self.send

    def send(self, command: str, *args: Any, now: Any = 0, request: str = "") -> Any:
        """Call a command with KEYS; a client that was named sends each request twice."""
        if call_class(command, args) != "read":
            note(f"  {self.now}: {command} {args}")
        if not self.client or call_class(command, args) == "read":
            return self.core.ours(command, *args, now=self.now)
        self.requests += 1
        request = f"{self.client}:{self.requests}"
        reply = self.core.ours(command, *args, now=self.now, request=request)
        again = self.core.ours(command, *args, now=self.now, request=request)
        assert again == reply, f"repeated, {command} {args} answered {again}: {reply}"
        self.last[self.client] = (self.requests, command, args, reply, self.now)
        return reply

    def ask(self, calls: list[tuple[Any, ...]]) -> list[Any]:
        """Call commands that read, all in one round trip."""
        prefix, pipe = self.core.prefix, self.server.pipeline(transaction=False)
        for command, *args in calls:
            keys = (f"{prefix}!", f"{prefix}meta")
            pipe.fcall(f"{self.core.library.name}_read", 2, *keys, command, self.now, "", *args)  # fmt: skip
        replies: list[Any] = pipe.execute()
        return replies

    def old(self, command: str, *args: Any) -> Any:
        """Call a command without KEYS."""
        note(f"  {self.now}: old {command} {args}")
        return self.core.old(command, self.now, *args)

    def either(self, old: bool, command: str, *args: Any) -> Any:
        return self.old(command, *args) if old else self.call(command, *args)


class Machine(RuleBasedStateMachine):
    """A namespace on a running server, and the model beside it."""

    model: Jobs
    all_queues: list[str]
    #: The steps, by the names of methods, and how often each is drawn. (They are no rules:
    #: Hypothesis leaves each rule out of half of the examples.)
    weights: dict[str, int]
    #: Seconds that pass with each.
    tick = 0.0

    def __init__(self, core: Core) -> None:
        super().__init__()
        self.wire = Wire(core)
        self.start()
        self.model.now = self.wire.now
        self.steps = 0
        # Namespaces without any call with KEYS, and their difference, are not judged here.
        self.wire.call("beat", "w", "", 0)

    def start(self) -> None:
        """Make the model."""
        raise NotImplementedError

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        steps = [name for name, weight in self.weights.items() for _ in range(weight)]
        getattr(self, data.draw(st.sampled_from(steps)))(data)
        self.pass_time(self.tick)

    def teardown(self) -> None:
        server = self.wire.server
        for name in server.scan_iter(f"{self.wire.core.prefix}*", count=10_000):
            server.unlink(name)

    def pass_time(self, seconds: float) -> None:
        self.wire.now += seconds
        self.model.now = self.wire.now

    def agree(
        self, expect: Callable[[], Any], call: Callable[[], Any], *, old: bool = False
    ) -> Any:
        """See that the model and the core answer the same, or both refuse the call."""
        try:
            expected = expect()
        except Refused as refusal:
            self.refused(refusal.codes, call, old=old)
            return None
        reply = call()
        assert reply == expected, f"answered {reply!r} instead of {expected!r}"
        return reply

    def refused(
        self, codes: tuple[str, ...], call: Callable[[], Any], *, old: bool = False
    ) -> None:
        """See that a call is refused with one of these codes, and changes nothing."""
        before = digest(self.wire.server)
        try:
            reply = call()
        except redis.ResponseError as error:
            text = str(error)
        else:
            raise AssertionError(f"answered {reply!r} instead of {codes}")
        fits = [re.search(WORDS[code], text) for code in codes if old]
        assert any(fits) if old else text.split()[0] in codes, f"{text}, not {codes}"
        assert digest(self.wire.server) == before, f"refused, but it wrote: {text}"

    # Comparisons.

    @invariant()
    def compare(self) -> None:
        """Compare all jobs after each step; now and then all that is kept."""
        self.compare_jobs()
        if self.steps % 5 == 4:
            self.compare_lists()
        if AUDIT and self.steps % 25 == 24:
            found = violations(self.wire.server, self.wire.core.prefix)
            assert found == []
        self.steps += 1

    def compare_jobs(self) -> None:
        model = self.model
        jids = sorted(model.jobs.keys() | model.canceled.keys())
        shown = {job["jid"]: job for job in self.wire.json("multiget", *jids)}
        for jid in jids:
            if job := model.jobs.get(jid):
                told, wanted = self.told(shown.get(jid)), self.wanted(job)
                assert {k: told.get(k) for k in wanted} == wanted, f"{jid}: {told}"
            elif model.now - model.canceled[jid] < 3600:
                assert shown[jid]["state"] == "canceled", f"{jid}: {shown[jid]}"

    def wanted(self, job: Job) -> dict[str, Any]:
        return self.model.dump(job)

    def told(self, shown: dict[str, Any] | None) -> dict[str, Any]:
        """Return what `get` says of a job as the model has it."""
        assert shown is not None, "it does not exist"
        lists = {n: sorted(listed(shown[n])) for n in ("dependencies", "dependents")}
        failure = (shown["failure"] or {}).get("group")
        return {**shown, **lists, "tags": listed(shown["tags"]), "failure": failure}

    def compare_lists(self) -> None:
        lists = list(self.lists())
        replies = self.wire.ask([call for call, _, _ in lists])
        for (call, read, expected), reply in zip(lists, replies, strict=True):
            found = read(reply)
            assert found == expected, f"{call}: {found} instead of {expected}"

    def lists(self) -> Lists:
        """Yield what is asked for, how the reply is read, and what it must say."""
        raise NotImplementedError

    def lists_of(self, queue: str) -> Lists:
        """The lists of a queue, and their lengths."""
        model = self.model
        held = model.in_state("running", queue)
        lists = {
            state: [j.jid for j in model if (model.state(j), j.queue) == (state, queue)]
            for state in ("waiting", "scheduled", "depends")
        }
        lists["running"] = [job.jid for job in held if job.lock >= model.now]
        lists["stalled"] = [job.jid for job in held if job.lock <= model.now]
        for state, jids in lists.items():
            yield ("jobs", state, queue, 0, 1000), sorted, sorted(jids)
        expected: dict[str, Any] = {state: len(jids) for state, jids in lists.items()}
        expected["running"] = len(held) - expected["stalled"]
        expected["paused"] = queue in model.paused
        yield (
            ("queues", queue),
            lambda r: {k: decoded(r)[k] for k in expected},
            expected,
        )


def decoded(text: Any) -> Any:
    """Return the value of a JSON reply; the server's `{}` may be an empty list."""
    return listed(json.loads(text))
