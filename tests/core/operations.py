"""Random operations on a namespace: which are made, how often, on what.

An operation is written down with names instead of tokens (`Token('j3')`: the
token `j3` has then), so that a run can be repeated with some of its operations left
out.
"""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

from tests.core.caller import call_class, entity_jid
from tests.core.every_call import KEYED, OLD
from tests.core.keyed import settlement

JIDS = [f"j{n:02}" for n in range(24)]
QUEUES = ["a", "b", "c"]
OLD_WORKERS = ["old-1", "old-2"]
OUR_WORKERS = ["our-1", "our-2", "our-3"]
KEYS = ["k1", "k2", "k3"]
TAGS = ["red", "green", "blue", "x"]
GROUPS = ["broken", "slow", "other"]
CRONS = ["cron-x", "cron-y"]
TIMERS = ["timer-x", "timer-y"]
SCHEDULES = [*CRONS, *TIMERS]
ENTITIES = ["o1", "o2", "o3", "o4"]
LOOKS = [call for call in KEYED if call_class(call[0], call[1:]) == "read"]
#: What stands here for the names of the good calls.
NAMES = {
    **dict.fromkeys(["run", "waiting", "failed", "dependent"], JIDS),
    **dict.fromkeys(["queue", "side"], QUEUES),
    **dict.fromkeys(["cron", "minutely"], SCHEDULES),
    "w": OUR_WORKERS, "group": GROUPS, "t": TAGS, "flow": ["f1", "f2", "f9", "s1", "s2"],
}  # fmt: skip
#: A token that no run draws: those of a given time count up from 1.
NOT_DRAWN = "999999999"


class Token(NamedTuple):
    """Stands for the token that a job has when the operation is made."""

    jid: str


class Holder(NamedTuple):
    """Stands for the worker that holds a job when the operation is made."""

    jid: str


class QueueOf(NamedTuple):
    """Stands for the queue that a job is in when the operation is made."""

    jid: str


class Score(NamedTuple):
    """Stands for what a cron schedule has as its next tick when the operation is made."""

    id: str


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

    def __init__(self, seed: int, weights: dict[str, int] | None = None) -> None:
        self.random = random.Random(seed)
        self.now = 1_700_000_000.0
        self.requests = 0
        self.flows = 0
        self.begun = 0
        self.running: list[str] = []
        chosen = weights or WITH_ENTITIES
        self.names = list(chosen)
        self.weights = list(chosen.values())

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
        return Token(jid) if self.random.random() < 0.95 else NOT_DRAWN

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
        if keyed and self.random.random() < 0.2:
            chosen += ["context", '{"a": [1]}']
        if keyed and self.random.random() < 0.5:
            chosen += self.rare_pairs()
        return chosen

    def rare_pairs(self) -> list[Any]:
        """Options of put that few jobs have."""
        chosen: list[Any] = []
        choose, dice = self.random.choice, self.random.random
        if dice() < 0.5:
            chosen += ["on_failure", choose(["", "block", "cancel", "run", "run"])]
        if dice() < 0.5:
            chosen += ["unique", choose(KEYS)]
            if dice() < 0.3:
                chosen += ["unique_aliases", json.dumps([choose(KEYS)])]
            if dice() < 0.7:
                chosen += ["unique_until", choose(["start", "end", "end", 3600])]
            if dice() < 0.8:
                chosen += ["conflict", choose(["keep", "replace", "take"])]
            if dice() < 0.2:
                chosen += ["debounce", choose([0, 5, 60.5])]
        if dice() < 0.2:
            chosen += ["expires", choose([-1, 1, 50, 4000])]
        elif dice() < 0.2:
            chosen += ["expires_at", choose([0, 50, 10**10])]
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
        return self.ours("put.many", "worker", *self.batch())

    def batch(self) -> list[Any]:
        args: list[Any] = []
        for jid in self.some(JIDS, 5):
            pairs = self.pairs(True)
            args += [jid, self.queue(), "klass", "[]", self.delay(), len(pairs) // 2]
            args += pairs
        return args

    def spawn(self) -> Operation:
        jid = self.held()
        return self.ours("spawn", jid, self.token(jid), "worker", *self.batch())

    def workflow_put(self) -> Operation:
        self.flows += 1
        flow = f"f{self.flows}"
        return self.ours("workflow.put", flow, "worker", "{}", *self.graph(flow))

    def graph(self, flow: str, first: int = 0) -> list[Any]:
        """Jobs of a workflow, each behind those that it depends on."""
        args: list[Any] = []
        before = [f"{flow}-{n}" for n in range(1, first)]
        for n in range(first, first + self.random.randint(1, 4)):
            pairs = ["workflow", flow]
            some = [jid for jid in before if self.random.random() < 0.5]
            if self.random.random() < 0.2:
                some.append(self.jid())
            if some:
                pairs += ["depends", json.dumps(some)]
            if self.random.random() < 0.5:
                pairs += ["on_failure", self.random.choice(["cancel", "run", "block"])]
            if self.random.random() < 0.2:
                pairs += ["unique", self.random.choice(KEYS)]
                pairs += ["conflict", self.random.choice(["take", "keep"])]
            before.append(f"{flow}-{n}")
            args += [before[-1], self.queue(), "k", "[]", 0, len(pairs) // 2, *pairs]
        return args

    def workflow_in_parts(self) -> Operation:
        choose, flow = self.random.choice, f"s{self.begun}"
        step = self.random.random()
        if step < 0.3:
            return self.ours("workflow.begin", flow, "{}")
        if step < 0.7:
            return self.ours("put.many", "worker", *self.graph(flow, choose([1, 1, 6])))
        if step < 0.8:
            word = choose(["on", "on", "met", "off"])
            return self.ours("depends", f"{flow}-{choose([1, 6])}", word, self.jid())
        self.begun += 1
        return self.ours("workflow.release", flow, choose([0, 0, 1, 9]))

    def workflow(self) -> Operation:
        choose, back = self.random.choice, self.random.randint(0, 3)
        flow = choose([f"f{self.flows - back}", f"s{self.begun - back}"])
        own = f"{flow}-{choose([0, 1, 1, 2])}"
        return self.ours(*choose([
            ("workflow.release", flow, 0), ("workflow.cancel", flow), ("workflow.get", flow),
            ("workflow.retry", flow, 0), ("workflow.retry", flow, 0),
            ("workflow.jobs", flow, 0, 5), ("cancel", own),
            ("put", "worker", self.queue(), self.jid(), "klass", "[]", 0, "workflow",
             flow, *choose([[], ["depends", json.dumps([own])]])),
            ("requeue", "worker", self.queue(), own, "klass", "[]", 0),
            ("await", "me", choose([0, 10]), "workflow", flow),
            ("await", choose(["me", "you"]), choose([0, 10]), "job", *self.some(JIDS)),
        ]))  # fmt: skip

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
        return settlement(jid, self.token(jid), *verb, held=self.lay())

    def lay(self) -> Any:
        """Return for how long a job lay in its worker's hands, or that it was not run."""
        return self.random.choice(["", 0, 0.25, 3])

    def beat(self) -> Operation:
        held = [part for _ in range(2) for part in (*self.one_held(), self.lay())]
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
            ("complete", jid, token, where, "{}", "result", "[1]", "result_ttl", 3600),
            ("complete", jid, token, where, "{}", "next", self.queue(), "delay", 7),
            ("fail", jid, token, choose(GROUPS), "message"),
            ("retry", jid, self.queue(), token, self.delay(), "slow", "message"),
            ("heartbeat", jid, token),
            ("release", jid, token, self.delay()),
            ("progress", jid, token, '[0.5,"half"]'),
            ("detached.keep", self.random.choice(OUR_WORKERS), jid, token, '{"pid":7}'),
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

    def unfail(self) -> Operation:
        count = self.random.choice([1, 25])
        return self.either("unfail", self.queue(), self.random.choice(GROUPS), count)

    def look(self) -> Operation:
        """What pages ask for, or old clients."""
        command, *args = self.random.choice(LOOKS)
        drawn = [self.name_like(part) if part in NAMES else part for part in args]
        call = self.either if command in OLD else self.ours
        return call(command, *drawn)

    def name_like(self, name: str) -> str:
        """Return a name that is here what this one is among the good calls."""
        return self.random.choice(NAMES[name])

    def recur(self) -> Operation:
        jid, choose = self.random.choice(CRONS), self.random.choice
        return self.either(*choose([
            ("recur", self.queue(), jid, "klass", "{}", "interval", choose([30, 600]),
             choose([0, 10, -50]), "tags", '["red"]', "backlog", choose([0, 1, 2])),
            ("recur.update", jid, "queue", self.queue()),
            ("recur.update", jid, "interval", choose([20, 700])),
            ("recur.tag", jid, "green"), ("recur.untag", jid, "red"), ("unrecur", jid),
        ]))  # fmt: skip

    def schedule(self) -> Operation:
        """Schedules of both kinds; the ids of interval ones also belong to old clients."""
        which, choose = self.random.choice(SCHEDULES), self.random.choice
        made = ("schedule.set", which, self.queue(), "klass", "[1]")
        more = choose([(), ("missed", choose(["all", "last", "none"])), ("unique", "tick"),
                       ("owner", "code"), ("expires", 50)])  # fmt: skip
        second = int(self.now)
        return self.ours(*choose([
            (*made, "interval", choose([30, 600]), "offset", choose([0, 10]), *more),
            (*made, "cron", choose(["* * * * *", "0 * * * *"]), "tags", '["x"]', *more),
            ("schedule.update", which, "queue", self.queue()),
            ("schedule.update", which, *choose([("interval", 45), ("cron", "1 * * * *")])),
            ("schedule.pause", *self.some(SCHEDULES, 2)), ("schedule.pause", which),
            ("schedule.resume", *self.some(SCHEDULES, 2)), ("schedule.resume", which),
            ("schedule.run", which), ("schedule.remove", which), ("schedule.list",),
            ("schedule.due", choose(OUR_WORKERS), 2), ("schedule.get", which),
            ("schedule.tick", which, Score(which), "", "", second + 60, ""),
            ("schedule.tick", which, Score(which), second - 60, second + 5, second + 60, ""),
            ("schedule.tick", which, Score(which), second, "", second + 60, ""),
            ("schedule.tick", which, Score(which), "", "", "", "trouble"),
        ]))  # fmt: skip

    def configure(self) -> Operation:
        choose = self.random.choice
        option, values = choose([
            ("heartbeat", [30, 60]), ("grace-period", [0, 10]), ("a-heartbeat", [5, 90]),
            ("b-max-concurrency", [0, 1, 3]), ("jobs-history", [-1, 60, 604800]),
            ("jobs-history-count", [0, 2, 50000]), ("max-job-history", [3, 100]),
            ("max-worker-age", [100, 86400]), ("a-weight", [0, 2.5]),
            ("canceled-history", [0, 60, 86400]),
            ("a-failed-queue", ["b", "c"]), ("b-failed-queue", ["a", "c"]),
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

    def each(self) -> Operation:
        """Several jobs, each for itself; and pauses with a reason."""
        jids, choose = self.some(JIDS, 6), self.random.choice
        return self.ours(*choose([
            ("each", "cancel", *jids), ("each", "revive", *JIDS), ("each", "revive", *jids),
            ("each", "move", self.queue(), self.delay(), *jids),
            ("each", "priority", choose([-5, 0, 3]), *jids), ("each", "timeout", *jids),
            ("each", "tag", choose(TAGS), *jids), ("each", "untag", choose(TAGS), *jids),
            ("each", "track", *jids), ("each", "untrack", *jids),
            ("queue.pause", choose(["", "why"]), "me", *self.some(QUEUES, 1)),
            ("queue.forget.empty", self.queue()),
        ]))  # fmt: skip

    def entity(self) -> Operation:
        """Entities of queue `a`, and of one of their own."""
        choose, queue = self.random.choice, self.random.choice(["a", "e", "e"])
        ids = self.some(ENTITIES, 3)
        items = [
            part
            for entity in self.random.choices(ENTITIES, k=choose([1, 1, 3, 6]))
            for part in (entity, '{"v":1}', choose(["1", "2", "[3]", '{"a":4}']),
                         choose(["", 1, 5]), choose(["", "", int(self.now) + 50]))
        ]  # fmt: skip
        pairs = choose([[], ["retries", choose([0, 1])], ["batch", 3]])
        push = ("push", "", queue, "entities", len(items) // 5, *items, *pairs)
        take = (choose(OUR_WORKERS), 0, choose([1, 2]), 2, "e", queue)
        return self.ours(*choose([
            push, push, push, push, ("settle", *take), ("settle", *take),
            ("dead.back", queue, *ids), ("dead.delete", queue, *ids),
            ("each", "run", *(entity_jid(queue, each) for each in ids)),
            ("entities.kill", queue, *choose([[], ids])),
            ("entities.drop", queue, *choose([[], ids])),
            ("cancel", entity_jid(queue, ids[0])), ("each", "timeout", entity_jid(queue, ids[0])),
            ("put", "w", self.queue(), entity_jid(queue, ids[0]), "klass", "[]", 0),
            ("each", "revive", entity_jid(queue, ids[0])),
        ]))  # fmt: skip

    def ask(self) -> Operation:
        worker = self.random.choice(OUR_WORKERS)
        return self.ours(*self.random.choice([
            ("order", worker, self.random.choice(["quiet", "resume", "stop"])),
            ("forget", self.jid()), ("revive", *self.some(JIDS)),
        ]))  # fmt: skip


class Limited(Generator):
    """Draws operations in which most jobs are under some limit."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, {**WEIGHTS, "configure": 6})

    def old(self, command: str, *args: Any) -> Operation:
        """By a client whose clock is right: looks are judged by the time of the last call."""
        return Operation(False, self.now, command, args)

    def pairs(self, keyed: bool) -> list[Any]:
        chosen, choose = super().pairs(keyed), self.random.choice
        if keyed and self.random.random() < 0.6:
            chosen += ["limit_key", choose(["x", "y"])]
        if keyed and self.random.random() < 0.3:
            chosen += ["fair_by", choose(["big", "small"])]
        return chosen

    def configure(self) -> Operation:
        choose = self.random.choice
        if self.random.random() < 0.3:
            return super().configure()
        option, values = choose([
            ("klass-max-concurrency-of-type", [0, 1, 3]),
            ("klass-max-concurrency-per-key", [1, 1, 2]),
            ("klass-rate-of-type", ["0", "3/m", "20/h", "2/2s"]),
            ("klass-rate-per-key", ["2/30s", "1/m", "1/s"]), ("k-max-concurrency-of-type", [1]),
            ("a-rate", ["5/m", "900/h"]), ("b-rate", ["1/s"]),
        ])  # fmt: skip
        if self.random.random() < 0.3:
            return self.either("config.unset", option)
        return self.either("config.set", option, choose(values))


WEIGHTS = {
    "put": 20, "put_many": 4, "pop": 9, "pop_ours": 3, "settle": 18, "beat": 3,
    "finish_old": 10, "finish_ours": 7, "cancel": 3, "change": 12,
    "unfail": 2, "look": 6, "recur": 2, "schedule": 4, "configure": 1, "administer": 1, "ask": 1,
    "spawn": 4, "each": 3,
    "workflow_put": 2, "workflow_in_parts": 6, "workflow": 5,
}  # fmt: skip

#: The same with entities.
WITH_ENTITIES = {**WEIGHTS, "entity": 25}
