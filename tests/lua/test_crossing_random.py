"""Random calls in three namespaces, and deliveries between them that are lost and repeated."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.lua.keyed import Keyed, settlement

NAMES = ("one", "two", "three")
STEPS = 120


class Run:
    """Three namespaces, and what was done with their jobs."""

    def __init__(self, keyed: Keyed, seed: int) -> None:
        self.random = random.Random(seed)
        self.places = {
            name: Keyed(keyed.core.with_prefix(f"{name}:")) for name in NAMES
        }
        self.now = 0
        self.completed: list[str] = []
        self.put: dict[str, str] = {}
        for place in self.places.values():
            place.call("config.set", "jobs-history-count", 1, now=0)

    def step(self) -> None:
        """Do something anywhere."""
        self.now += 1
        acts = (self.put_one, self.put_after, self.put_flow, self.move, self.run)
        act = self.random.choices(
            (*acts, self.cancel, self.deliver), (3, 4, 2, 3, 8, 1, 9)
        )
        act[0](self.random.choice(NAMES))

    def new(self, name: str) -> str:
        """Return a jid whose job is put there now."""
        jid = f"j{len(self.put):03}"
        self.put[jid] = name
        return jid

    def put_one(self, name: str) -> None:
        self.places[name].put(self.new(name), self.now, retries=1)

    def put_after(self, name: str) -> None:
        """Put a job that depends on one of another namespace, wherever that is by now."""
        others = [jid for jid, home in self.put.items() if home != name]
        if others:
            other = self.random.choice(others)
            place = [self.put[other], "queue", "klass"]
            if self.places[name].call("get", other, now=self.now):
                return  # It was moved here.
            self.places[name].put(
                self.new(name), self.now, depends=json.dumps([other]),
                on_failure=self.random.choice(("block", "cancel", "run")),
                stand_ins=json.dumps({"home": name, "jobs": {other: place}}),
            )  # fmt: skip

    def put_flow(self, name: str) -> None:
        items: list[Any] = []
        before: list[str] = []
        flow = f"f{len(self.put)}"
        for target in self.random.choices(NAMES, k=3):
            jid, pairs = self.new(name), ["workflow", flow, "retries", 1]
            if target != name:
                bound = {"home": name, "namespace": target}
                pairs += ["bound", json.dumps(bound)]
            if before:
                pairs += ["depends", json.dumps(before[-1:])]
            items += [jid, "queue", "k", "{}", 0, len(pairs) // 2, *pairs]
            before.append(jid)
        self.places[name].call("workflow.put", flow, "w", "{}", *items, now=self.now)

    def move(self, name: str) -> None:
        target = self.random.choice([other for other in NAMES if other != name])
        # (What is complete would run again there.)
        left = sorted(set(self.put).difference(self.completed))
        jids = self.random.sample(left, min(len(left), 4))
        if jids:
            self.places[name].call("send.each", target, "queue", 0, *jids, now=self.now)

    def run(self, name: str) -> None:
        place = self.places[name]
        for job in place.take(2, now=self.now):
            if self.random.random() < 0.1:
                self.spawn(name, job)
            how = self.random.random()
            if how < 0.8:
                more = ("result", json.dumps(job["jid"]))
                place.call("complete", job["jid"], job["token"], "queue", "{}", *more,
                           now=self.now)  # fmt: skip
                self.completed.append(job["jid"])
            elif how < 0.87:
                args = (job["jid"], job["token"], "group", "message")
                place.call("fail", *args, now=self.now)
            elif how < 0.94:
                self.move_on(name, job)
            else:
                args = (job["jid"], "queue", job["token"])
                place.call("retry", *args, now=self.now)

    def spawn(self, name: str, job: dict[str, str]) -> None:
        """Let a job spawn others, of this namespace and of another one."""
        items: list[Any] = []
        for target in (name, self.random.choice(NAMES)):
            pairs = ["retries", 1]
            if target != name:
                pairs += ["bound", json.dumps({"home": name, "namespace": target})]
            items += [self.new(name), "queue", "k", "{}", 0, len(pairs) // 2, *pairs]
        args = (job["jid"], job["token"], "w", *items)
        self.places[name].call("spawn", *args, now=self.now)

    def move_on(self, name: str, job: dict[str, str]) -> None:
        """Let a run end with a move to another namespace, or fail if it cannot."""
        target = self.random.choice([other for other in NAMES if other != name])
        end = settlement(job["jid"], job["token"], "move", "queue", 0, "[]", target)
        refused = self.places[name].settle([end], now=self.now).refused
        if refused:
            assert "could end here" in refused[0][2]
            end = settlement(job["jid"], job["token"], "fail", "group", "message")
            assert self.places[name].settle([end], now=self.now).refused == []

    def cancel(self, name: str) -> None:
        if self.put:
            jid = self.random.choice(sorted(self.put))
            self.places[name].call("cancel.each", jid, now=self.now)

    def deliver(self, name: str, *, always: bool = False) -> int:
        """Make some calls; die before or after, or not at all."""
        source = self.places[name]
        done = 0
        for target, _, _ in source.call("crossing.due", now=self.now)[1]:
            namespace, *entries = source.call("crossing.read", target, now=self.now)
            if not always:
                entries = entries[: self.random.randint(0, len(entries))]
            for number, command, args in entries:
                handed = (f"{namespace}:{number}", 0, command, *args)
                self.places[target].call("deliver", *handed, now=self.now)
                done += 1
            if entries and (always or self.random.random() < 0.6):
                last = entries[-1][0]
                source.call("crossing.delivered", target, last, now=self.now)
        return done

    def audit(self) -> None:
        for place in self.places.values():
            assert place.violations(self.now) == []

    def finish(self) -> None:
        """Complete and deliver all that is left."""
        while sum(self.deliver(name, always=True) for name in NAMES) or self.ready():
            self.now += 1
            for name in NAMES:
                self.run(name)

    def ready(self) -> bool:
        return any(place.server.zcard(f"{name}:q:queue-work")
                   for name, place in self.places.items())  # fmt: skip

    def stuck(self) -> list[str]:
        """Return the stand-ins that still wait, though what they stand for has ended."""
        found = []
        for name, place in self.places.items():
            for jid in place.server.zrange(f"{name}:q:queue-depends", 0, -1):
                target = place.server.hget(f"{name}:j:{jid}", "elsewhere")
                if target and self.state(jid, target) not in ("failed", "depends"):
                    found.append(f"{jid} in {name} for {target}")
        return found

    def state(self, jid: str, name: str) -> str | None:
        found = self.places[name].call("get", jid, now=self.now)
        return json.loads(found)["state"] if found else None


@pytest.mark.parametrize("seed", range(6))
def test_what_crosses_happens_once_and_to_its_end(keyed: Keyed, seed: int) -> None:
    run = Run(keyed, seed)
    for number in range(STEPS):
        run.step()
        if number % 10 == 0:
            run.audit()
    run.finish()
    run.audit()
    assert sorted(run.completed) == sorted(set(run.completed))
    assert len(run.completed) > STEPS // 10
    assert run.stuck() == []
    for place in run.places.values():
        assert place.call("crossing.waiting", now=run.now)[1] == []
