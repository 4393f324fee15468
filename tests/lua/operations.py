"""Random operations on a namespace: which are made, how often, on what.

An operation is written down with names instead of tokens (`Token('j3')`: whatever
token `j3` has then), so that a run can be repeated with some of its operations left
out.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.lua.keyed import settlement

JIDS = [f"j{n:02}" for n in range(24)]
QUEUES = ["a", "b", "c"]
OLD_WORKERS = ["old-1", "old-2"]
OUR_WORKERS = ["our-1", "our-2", "our-3"]
TAGS = ["red", "green", "blue", "x"]
GROUPS = ["broken", "slow", "other"]
CRONS = ["cron-x", "cron-y"]


class Token(NamedTuple):
    """Stands for the token that a job has when the operation is made."""

    jid: str


class Holder(NamedTuple):
    """Stands for the worker that holds a job when the operation is made."""

    jid: str


class QueueOf(NamedTuple):
    """Stands for the queue that a job is in when the operation is made."""

    jid: str


FIELD = {Token: "token", Holder: "worker", QueueOf: "queue"}


class Operation(NamedTuple):
    """One call: with KEYS or without, when, perhaps as a repeatable request."""

    keyed: bool
    now: float
    command: str
    args: tuple[Any, ...]
    request: str = ""

    def __str__(self) -> str:
        kind = "ours" if self.keyed else "old"
        shown = ", ".join(map(repr, (self.command, *self.args)))
        return f"{self.now:.3f} {kind}({shown}) {self.request}".rstrip()


class Generator:
    """Draws operations; what it draws depends on the seed and on who holds what."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 1_700_000_000.0
        self.requests = 0
        self.running: list[str] = []
        names, weights = zip(*WEIGHTS.items(), strict=True)
        self.names: list[str] = list(names)
        self.weights: list[int] = list(weights)

    def draw(self, running: list[str]) -> Operation:
        """Return the next operation, given the jids that are running."""
        self.running = running
        self.advance()
        name = self.random.choices(self.names, self.weights)[0]
        made: Operation = getattr(self, name)()
        return made

    def advance(self) -> None:
        """Let some time pass, seldom much."""
        dice = self.random.random()
        if dice < 0.80:
            self.now += self.random.choice([0, 0.001, 0.5, 1, 3])
        elif dice < 0.985:
            self.now += self.random.choice([10, 30, 61, 75])
        elif dice < 0.998:
            self.now += 3600
        else:
            self.now += 86400
        self.now = round(self.now, 3)

    # How an operation is made.

    def old(self, command: str, *args: Any) -> Operation:
        """Without KEYS, by a client whose clock may be behind or ahead."""
        skew = self.random.choice([0] * 12 + [-0.5, -20, -200, 15])
        return Operation(False, round(self.now + skew, 3), command, args)

    def ours(self, command: str, *args: Any) -> Operation:
        """With KEYS, often as a repeatable request."""
        self.requests += 1
        request = f"client:{self.requests}" if self.random.random() < 0.2 else ""
        return Operation(True, self.now, command, args, request)

    def either(self, command: str, *args: Any) -> Operation:
        """By an old client or one of ours."""
        return self.random.choice([self.old, self.ours])(command, *args)

    # What it is made of.

    def jid(self) -> str:
        return self.random.choice(JIDS)

    def some(self, names: list[str], most: int = 3) -> list[str]:
        return self.random.sample(names, self.random.randint(1, min(most, len(names))))

    def queue(self) -> str:
        return self.random.choice(QUEUES)

    def held(self) -> str:
        """A running job, seldom any."""
        if self.running and self.random.random() < 0.95:
            return self.random.choice(self.running)
        return self.jid()

    def token(self, jid: str) -> Any:
        return Token(jid) if self.random.random() < 0.95 else "1"

    def delay(self) -> Any:
        return self.random.choice([0, 0, 0, 0, 5, 60.5, 4000, -3])

    def pairs(self, keyed: bool) -> list[Any]:
        """Options of put."""
        chosen: list[Any] = []
        if self.random.random() < 0.5:
            chosen += ["priority", self.random.choice([-100, 0, 1, 10, 1.5])]
        if self.random.random() < 0.4:
            chosen += ["tags", json.dumps(self.random.choices(TAGS, k=2))]
        if self.random.random() < 0.3:
            chosen += ["retries", self.random.choice([0, 1, 5])]
        if self.random.random() < 0.3:
            chosen += ["depends", json.dumps(self.some(JIDS))]
        if keyed and self.random.random() < 0.2:
            chosen += ["absent", "1"]
        if keyed and self.random.random() < 0.15:
            chosen += ["open", "1"]
        if keyed and self.random.random() < 0.2:
            chosen += ["context", '{"a": [1]}']
        return chosen

    # The operations.

    def put(self) -> Operation:
        command = "requeue" if self.random.random() < 0.15 else "put"
        worker = self.random.choice(OLD_WORKERS + OUR_WORKERS)
        keyed = self.random.random() < 0.5
        call = self.ours if keyed else self.old
        data = json.dumps({"n": self.random.randint(0, 9)})
        args = (worker, self.queue(), self.jid(), "klass", data, self.delay())
        return call(command, *args, *self.pairs(keyed))

    def put_many(self) -> Operation:
        args: list[Any] = []
        for jid in self.some(JIDS, 5):
            pairs = self.pairs(True)
            args += [jid, self.queue(), "klass", "[]", self.delay(), len(pairs) // 2]
            args += pairs
        return self.ours("put.many", "worker", *args)

    def pop(self) -> Operation:
        count = self.random.choice([1, 1, 2, 5])
        return self.old("pop", self.queue(), self.random.choice(OLD_WORKERS), count)

    def pop_ours(self) -> Operation:
        return self.ours("pop", self.queue(), self.random.choice(OUR_WORKERS), 2)

    def settle(self) -> Operation:
        ends = [
            self.settlement() for _ in range(self.random.choice([0, 0, 1, 1, 2, 3]))
        ]
        queues = self.random.choice([["a"], ["b", "a"], ["*"], ["c", "?"]])
        args = [len(ends), *(part for end in ends for part in end)]
        args += [self.random.choice([0, 1, 2, 4]), len(queues), *queues]
        if self.random.random() < 0.3:
            args += ["wait", 30]
        if self.random.random() < 0.3:
            args += ["turns", 1]
        return self.ours("settle", self.random.choice(OUR_WORKERS), *args)

    def settlement(self) -> list[Any]:
        jid, choose = self.held(), self.random.choice
        group, message = choose(GROUPS), "message"
        verb = choose(
            [("complete",)] * 5
            + [
                ("complete", '{"r":1}', 60),
                ("complete", "", 0, '"new"'),
                ("fail", group, message),
                ("retry", self.delay(), choose([group, ""]), message),
                ("release", self.delay()),
                ("unknown", 100),
                ("crash", 1, "worker-crash", message),
                ("move", self.queue(), self.delay()),
                ("move", self.queue(), 0, json.dumps(self.some(JIDS, 2))),
            ]
        )
        return settlement(jid, self.token(jid), *verb)

    def beat(self) -> Operation:
        held = [part for _ in range(2) for part in self.one_held()]
        info = self.random.choice(["", '{"pid":1}'])
        return self.ours("beat", self.random.choice(OUR_WORKERS), info, 2, *held)

    def one_held(self) -> tuple[str, Any]:
        jid = self.held()
        return jid, self.token(jid)

    def finish_old(self) -> Operation:
        jid, choose = self.held(), self.random.choice
        who, where = Holder(jid), QueueOf(jid)
        return self.old(*choose([
            ("complete", jid, who, where, "{}"),
            ("complete", jid, who, where, "{}"),
            ("complete", jid, who, where, "[]", "next", self.queue()),
            ("complete", jid, who, where, "{}", "next", self.queue(), "delay",
             self.delay(), "depends", json.dumps(self.some(JIDS, 2))),
            ("fail", jid, who, choose(GROUPS), "message"),
            ("retry", jid, where, who),
            ("retry", jid, self.queue(), who, self.delay(), "slow", "message"),
            ("heartbeat", jid, who),
            ("heartbeat", jid, who, "[7]"),
        ]))  # fmt: skip

    def finish_ours(self) -> Operation:
        jid, choose = self.held(), self.random.choice
        token, where = self.token(jid), QueueOf(jid)
        return self.ours(*choose([
            ("complete", jid, token, where, "{}"),
            ("complete", jid, token, where, "{}", "result", "[1]", "result_ttl", 60),
            ("complete", jid, token, where, "{}", "next", self.queue(), "delay", 7),
            ("fail", jid, token, choose(GROUPS), "message"),
            ("retry", jid, self.queue(), token, self.delay(), "slow", "message"),
            ("heartbeat", jid, token),
            ("release", jid, token, self.delay()),
            ("progress", jid, token, '[0.5,"half"]'),
        ]))  # fmt: skip

    def cancel(self) -> Operation:
        return self.either("cancel", *self.some(JIDS, 4))

    def change(self) -> Operation:
        jid, choose = self.jid(), self.random.choice
        return self.either(*choose([
            ("timeout", self.held()),
            ("priority", jid, choose([-5, 0, 3])),
            ("tag", "add", jid, *self.some(TAGS)),
            ("tag", "remove", jid, *self.some(TAGS)),
            ("track", choose(["track", "untrack"]), jid),
            ("log", jid, "message", '{"a":1}'),
            ("depends", jid, "on", *self.some(JIDS)),
            ("depends", jid, "off", *self.some(JIDS, 6)),
            ("depends", jid, "off", "all"),
        ]))  # fmt: skip

    def seal(self) -> Operation:
        return self.ours("seal", self.jid())

    def unfail(self) -> Operation:
        count = self.random.choice([1, 25])
        return self.either("unfail", self.queue(), self.random.choice(GROUPS), count)

    def look(self) -> Operation:
        return self.either(*self.random.choice([
            ("queues",), ("queues", self.queue()), ("jobs", "scheduled", self.queue()),
            ("peek", self.queue(), 3), ("workers",), ("multiget", *self.some(JIDS)),
            ("jobs", "running", self.queue()), ("track",), ("failed",), ("tag", "top"),
        ]))  # fmt: skip

    def recur(self) -> Operation:
        jid, choose = self.random.choice(CRONS), self.random.choice
        return self.either(*choose([
            ("recur", self.queue(), jid, "klass", "{}", "interval", choose([30, 600]),
             choose([0, 10, -50]), "tags", '["red"]', "backlog", choose([0, 1, 2])),
            ("recur.update", jid, "queue", self.queue()),
            ("recur.update", jid, "interval", choose([20, 700])),
            ("recur.tag", jid, "green"), ("recur.untag", jid, "red"), ("unrecur", jid),
        ]))  # fmt: skip

    def configure(self) -> Operation:
        choose = self.random.choice
        option, values = choose([
            ("heartbeat", [30, 60]), ("grace-period", [0, 10]), ("a-heartbeat", [5, 90]),
            ("b-max-concurrency", [0, 1, 3]), ("jobs-history", [-1, 60, 604800]),
            ("jobs-history-count", [0, 2, 50000]), ("max-job-history", [3, 100]),
            ("max-worker-age", [100, 86400]), ("a-weight", [0, 2.5]),
        ])  # fmt: skip
        if self.random.random() < 0.3:
            return self.either("config.unset", option)
        return self.either("config.set", option, choose(values))

    def administer(self) -> Operation:
        return self.either(*self.random.choice([
            ("pause", *self.some(QUEUES, 1)), ("unpause", *QUEUES),
            ("unpause", *QUEUES), ("queue.forget", self.queue()),
            ("worker.deregister", self.random.choice(OLD_WORKERS + OUR_WORKERS)),
        ]))  # fmt: skip

    def ask(self) -> Operation:
        worker = self.random.choice(OUR_WORKERS)
        return self.ours(*self.random.choice([
            ("order", worker, self.random.choice(["quiet", "resume", "stop", "dump"])),
            ("stacks", worker), ("stacks", worker, "text"),
            ("survey",), ("survey", *self.some(QUEUES)), ("lag", *self.some(QUEUES)),
        ]))  # fmt: skip


WEIGHTS = {
    "put": 20, "put_many": 4, "pop": 9, "pop_ours": 3, "settle": 18, "beat": 3,
    "finish_old": 10, "finish_ours": 7, "cancel": 3, "change": 12, "seal": 2,
    "unfail": 2, "look": 4, "recur": 2, "configure": 1, "administer": 1, "ask": 1,
}  # fmt: skip

Draw = Callable[[list[str]], Operation]
