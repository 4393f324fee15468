"""Operations for records with what the plain random runs make seldom, or not at all.

Each theme is a part of the core: entities, limits, jobs and claims of other namespaces, what
outlives its worker.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any, NamedTuple

from tests.lua.inquiries import DRAWN, THEMES, Inquirer
from tests.lua.operations import (
    ENTITIES,
    GROUPS,
    JIDS,
    KEYS,
    OUR_WORKERS,
    TAGS,
    Operation,
    QueueOf,
    Token,
    entity_jid,
)

NEWER: dict[str, dict[str, int]] = {
    "entities": {
        "entities": 110,
        "read_entities": 35,
        "keep": 30,
        "times": 15,
        "audit": 6,
    },
    "limits": {
        "limited": 90,
        "limit": 25,
        "read_limits": 20,
        "keep": 40,
        "settle": 25,
        "audit": 6,
    },
    "crossing": {"crossing": 110, "exchange": 70, "bound": 25, "keep": 30, "audit": 8},
    "claims": {"claims": 90, "crossing": 15, "exchange": 40, "keep": 20},
    "endings": {"endings": 90, "put_many": 15, "keep": 30, "configure": 10},
}

#: The prefix of the other namespace.
OTHER = "there:"

HERE, THERE, FURTHER = "default/here", "default/there", "other/further"


class Home(NamedTuple):
    """A namespace, and the one that it exchanges jobs with."""

    prefix: str
    name: str
    other: str


HOMES = [Home("", HERE, THERE), Home(OTHER, THERE, HERE)]


def choose_home(random: Random) -> Home:
    """Return mostly the first one."""
    return HOMES[0] if random.random() < 0.7 else HOMES[1]


CLASSES = ["klass", "klass", "k"]


class NewerInquirer(Inquirer):
    """Draws the operations of one of these themes, and some of all others."""

    def __init__(self, theme: str, number: int, leaping: bool) -> None:
        super().__init__(len(THEMES) * (number + 1), leaping)
        few = {name: max(1, weight // 4) for name, weight in DRAWN.items()}
        weights = {**few, **NEWER[theme]}
        self.names, self.weights = list(weights), list(weights.values())
        self.jids = JIDS[:9]
        self.entries: dict[str, list[list[Any]]] = {home.prefix: [] for home in HOMES}
        self.delivered: dict[str, list[list[Any]]] = {home.prefix: [] for home in HOMES}
        self.sources: dict[str, str] = {}
        self.claimed = "1"

    def answered(self, operation: Operation, reply: Any) -> None:
        super().answered(operation, reply)
        if not isinstance(reply, list):
            return
        if operation.command == "crossing.read" and len(reply) > 1:
            place = operation.prefix
            self.sources[place], *entries = reply
            if operation.args != (FURTHER,):
                self.entries[place] = [
                    each for each in entries if isinstance(each, list)
                ]
        elif operation.command == "claim":
            self.claimed = reply[0][0]

    # Entities.

    def entity_queue(self) -> str:
        return self.random.choice(["e", "e", "e", "a"])

    def entities(self) -> Operation:
        choose, queue = self.random.choice, self.entity_queue()
        ids, jid = self.some(ENTITIES), entity_jid(queue, choose(ENTITIES))
        held = self.held()
        if self.random.random() < 0.01:
            return self.ours("put", "w", self.queue(), jid, "klass", "[]", 0)
        return self.ours(*choose([
            self.push(queue), self.push(queue), self.push(queue), self.push(queue),
            ("settle", choose(OUR_WORKERS), 0, choose([1, 1, 2, 4]), 2, "e", queue),
            ("settle", choose(OUR_WORKERS), 0, 2, 1, "*", "exhausted", 1),
            ("pop", queue, choose(OUR_WORKERS), choose([1, 2, 3])),
            ("complete", held, self.token(held), QueueOf(held), "{}"),
            ("retry", held, QueueOf(held), self.token(held), choose([0, 5]), "slow", self.message()),
            ("fail", held, self.token(held), choose(GROUPS), self.message()),
            ("dead.back", queue, *ids), ("dead.delete", queue, *ids),
            ("entities.run", queue, *choose([[], ids])), ("entities.kill", queue, *choose([[], ids])),
            ("entities.drop", queue, *choose([[], ids])), ("cancel", jid), ("timeout.each", jid),
            ("revive.each", jid), ("move.each", "b", 0, jid), ("unfail", queue, choose(GROUPS), 3),
            ("priority.each", choose([0, 4]), jid), ("forget", jid), ("tag.each", choose(TAGS), jid),
            ("depends", self.jid(), "on", jid),
            ("config.set", choose(["e-heartbeat", "heartbeat"]), choose([5, 30])),
            ("config.set", "e-max-concurrency", choose([0, 1, 2])),
            ("config.set", "grace-period", choose([0, 0, 10])),
        ]))  # fmt: skip

    def push(self, queue: str) -> tuple[Any, ...]:
        choose, dice = self.random.choice, self.random.random
        now = int(self.now)
        items = [
            part for _ in range(choose([1, 1, 2, 5]))
            for part in (
                choose(ENTITIES), choose(['{"v":1}', '{"v":2,"w":[]}']),
                choose(["1", "2", "3", "[4]", '{"a":5}', f'"{"p" * 40}"']),
                choose(["", "", 1, 5, -2]), choose(["", "", "", now + 5, now + 50, now - 1]),
            )
        ]  # fmt: skip
        pairs = [
            part for name, values in (
                ("retries", [0, 1, 2]), ("batch", [1, 2, 3]), ("priority", [-1, 3]),
                ("tags", ['["red"]', "[]"]), ("context", ["{}", '{"a":1}']),
                ("known", ['["k","klass"]', '["old"]']),
            ) if dice() < 0.3 for part in (name, choose(values))
        ]  # fmt: skip
        klass = choose(["klass"] * 6 + ["k"])
        return (
            "push",
            choose(["", "w"]),
            queue,
            klass,
            len(items) // 5,
            *items,
            *pairs,
        )

    def read_entities(self) -> Operation:
        choose, queue = self.random.choice, self.entity_queue()
        jid = entity_jid(queue, choose(ENTITIES))
        lists = ["fresh", "retrying", "running", "dead", "dead-ids"]
        return self.ours(*choose([
            ("entity.show", queue, choose(ENTITIES), *self.page()),
            ("entity.show", queue, choose(ENTITIES)), ("entities.counts",),
            ("entities.counts", *choose([["e"], ["a", "e"], ["e", "x"]])),
            ("entities.list", choose(lists), queue, *self.page()),
            ("entities.list", choose(lists), queue), ("job.view", jid, 3, 3), ("get", jid),
            ("lag", "e", "a"), ("due", "e"), ("survey", "e"), ("audit", "0", 1000),
            ("minutes", "e", self.minute() - 3, self.minute()), ("stats", "e", self.now),
            ("briefs", 9, "waiting", "e", 0, 9, "running", "e", 0, 9, "scheduled", "e", 0, 9),
        ]))  # fmt: skip

    # Limits.

    def limited_pairs(self) -> list[Any]:
        choose, pairs = self.random.choice, []
        kind = choose(["key", "ordered", "ordered", "fair", "both", "none"])
        if kind in ("key", "ordered", "both"):
            pairs += ["limit_key", choose(KEYS)]
        if kind in ("ordered", "both"):
            pairs += ["ordered", "1"]
        if kind in ("fair", "both"):
            pairs += ["fair_by", choose(["t1", "t2"])]
        if self.random.random() < 0.3:
            pairs += choose([
                ["priority", choose([-1, 5])], ["expires", choose([1, 30])],
                ["depends", json.dumps(self.some(JIDS, 2))], ["retries", 0],
                ["unique", choose(KEYS), "conflict", choose(["keep", "replace", "take"])],
            ])  # fmt: skip
        return pairs

    def limited(self) -> Operation:
        choose, held, pairs = self.random.choice, self.held(), self.limited_pairs()
        many = [
            part for jid in self.some(JIDS, 5)
            for part in (jid, self.queue(), choose(CLASSES), "{}", choose([0, 0, 3]),
                         len(pairs) // 2, *pairs)
        ]  # fmt: skip
        put = (self.queue(), self.jid(), choose(CLASSES), "{}", choose([0, 0, 0, 3]))
        queues = choose([["a"], ["a", "b"], ["*"]])
        return self.ours(*choose([
            (choose(["put", "put", "requeue"]), "w", *put, *pairs), ("put.many", "w", *many),
            ("put", "w", "a", *put[1:], *pairs), ("put", "w", "a", *put[1:], *pairs),
            ("settle", choose(OUR_WORKERS), 0, choose([1, 2, 4]), len(queues), *queues, "wait", 30),
            ("settle", choose(OUR_WORKERS), 0, choose([1, 2, 4]), len(queues), *queues),
            ("pop", "a", choose(OUR_WORKERS), choose([1, 2, 4])),
            ("complete", held, self.token(held), QueueOf(held), "{}", *choose([[], ["next", "b"]])),
            ("complete", held, self.token(held), QueueOf(held), "{}"),
            ("retry", held, QueueOf(held), self.token(held), choose([0, 5]), "slow", "m"),
            ("release", held, self.token(held), choose([0, 5])), ("timeout.each", held),
            ("cancel.each", *self.some(JIDS)), ("move.each", self.queue(), 0, *self.some(JIDS)),
            ("priority.each", choose([-5, 9]), *self.some(JIDS)), ("revive.each", *self.some(JIDS, 6)),
            ("spawn", held, self.token(held), "w", *many), ("pause", "a"), ("unpause", "a", "b"),
        ]))  # fmt: skip

    def limit(self) -> Operation:
        choose, klass = self.random.choice, self.random.choice(CLASSES)
        number, rate = (
            choose([0, 1, 1, 2]),
            choose(["0", "1/s", "2/10s", "3/m", "200/m", "5/0.5s"]),
        )
        option, value = choose([
            (f"{klass}-max-concurrency-of-type", number), (f"{klass}-rate-of-type", rate),
            (f"{klass}-max-concurrency-per-key", number), (f"{klass}-rate-per-key", rate),
            (f"{self.queue()}-max-concurrency", number), (f"{self.queue()}-rate", rate),
            ("heartbeat", choose([5, 30])), ("grace-period", choose([0, 10])),
        ])  # fmt: skip
        made = ("config.set", option, value)
        return self.ours(*choose([made, made, made, ("config.unset", option)]))

    def read_limits(self) -> Operation:
        choose = self.random.choice
        return self.ours(*choose([
            ("limits", self.queue()), ("limits", "a"), ("get", self.jid()), ("audit", "0", 1000),
            ("job.view", self.jid(), 3, 3), ("brief", *self.some(JIDS, 5)), ("queues", "a"),
            ("jobs", "waiting", "a", *self.page()), ("lag", "a"), ("due", *self.some(["a", "b", "c"])),
            ("peek", "a", choose([1, 2, 9])), ("length", "a"), ("survey", "a"), ("config.get",),
        ]))  # fmt: skip

    # Other namespaces.

    def crossing(self) -> Operation:
        choose, jid, home = self.random.choice, self.jid(), choose_home(self.random)
        name = choose([home.other, home.other, home.other, FURTHER])
        stand_ins = {"home": home.name, "jobs": {
            each: [name, self.queue(), choose(CLASSES)] for each in self.some(JIDS, 2)
        }}  # fmt: skip
        behind = [
            "stand_ins", json.dumps(stand_ins), "depends", json.dumps(list(stand_ins["jobs"])),
            *choose([[], ["on_failure", choose(["run", "cancel"])], ["open", "1"]]),
        ]  # fmt: skip
        more = choose([[], self.pairs(True), self.limited_pairs()])
        put = (
            "put",
            "w",
            self.queue(),
            self.jid(),
            choose(CLASSES),
            "{}",
            choose([0, 0, 5]),
        )
        ended = choose([
            (jid, "complete", '{"r":1}', choose([1, 60])), (jid, "complete", "", 1), (jid, "complete"),
            (jid, "failed", choose(GROUPS), self.message()), (jid, "canceled"), (jid, "other"),
        ])  # fmt: skip
        handed = choose(
            [
                ("ended", *ended),
                ("watch", jid, name),
                ("withdraw", jid),
                ("revive", jid),
            ]
        )
        self.requests += 1
        send = (
            "send.each",
            name,
            self.queue(),
            choose(["", "", 0, 5]),
            *self.some(JIDS, 4),
        )
        return self.made_in(home, choose([
            send, send, send, (*put, *behind), (*put, *behind), (*put, *more), (*put, *more),
            ("put.many", "w", self.jid(), "a", "k", "[]", 0, len(behind) // 2, *behind),
            ("deliver", f"direct:{self.requests}", 0, *handed), handed,
            ("crossing.due",), ("crossing.waiting",), ("moved", *self.some(JIDS, 5)),
            ("crossing.read", FURTHER), ("cancel.each", *self.some(JIDS)), ("track.each", jid),
            ("get", jid), ("job.view", jid, 3, 3), ("needs", jid), ("audit", "0", 1000),
            ("await", "me", choose([0, 10]), "job", *self.some(JIDS)),
            *[("settle", "our-1", 0, choose([1, 4]), 3, "a", "b", "c")] * 3,
            ("complete", jid, Token(jid), QueueOf(jid), "{}", "result", "[1]", "result_ttl", 60),
            ("complete", jid, Token(jid), QueueOf(jid), "{}"), ("retry", jid, QueueOf(jid), Token(jid), 0, "", ""),
            ("fail", jid, Token(jid), "broken", self.message()), ("release", jid, Token(jid), 0),
            ("revive.each", *self.some(JIDS, 5)), ("results", *self.some(JIDS)),
        ]))  # fmt: skip

    def made_in(self, home: Home, call: tuple[Any, ...]) -> Operation:
        return self.ours(*call)._replace(prefix=home.prefix)

    def exchange(self) -> Operation:
        """What waits in one namespace comes to the other; sometimes what came already."""
        choose, dice = self.random.choice, self.random.random()
        home = choose(HOMES)
        there = next(each for each in HOMES if each is not home)
        waiting, delivered = self.entries[home.prefix], self.delivered[home.prefix]
        if dice < 0.1 and delivered:
            number, command, args = choose(delivered[-3:])
        elif dice < 0.2 and delivered:
            number = choose(delivered[-2:])[0]
            return self.made_in(home, ("crossing.delivered", there.name, number))
        elif waiting:
            number, command, args = waiting.pop(0)
            delivered.append([number, command, args])
        else:
            return Operation(
                True, self.now, "crossing.read", (there.name,), "", home.prefix
            )
        handed = ("deliver", f"{self.sources[home.prefix]}:{number}", 0, command, *args)
        return self.made_in(there, handed)

    def bound(self) -> Operation:
        """Jobs of a workflow, or of a run, that run in another namespace."""
        choose, held = self.random.choice, self.held()
        name = choose([THERE, THERE, THERE, FURTHER])
        there = ["bound", json.dumps({"home": HERE, "namespace": name})]
        flow = f"b{self.flows}"
        if self.random.random() < 0.4:
            self.flows += 1
            flow = f"b{self.flows}"
            args: list[Any] = []
            for n in range(choose([1, 2, 3])):
                pairs = ["workflow", flow, *choose([there, there, []])]
                if n:
                    pairs += ["depends", json.dumps([f"{flow}-{n - 1}"])]
                    pairs += choose([[], ["on_failure", choose(["run", "cancel"])]])
                args += [
                    f"{flow}-{n}",
                    self.queue(),
                    "k",
                    "[]",
                    0,
                    len(pairs) // 2,
                    *pairs,
                ]
            return self.ours("workflow.put", flow, "w", "{}", *args)
        job = (self.jid(), self.queue(), "klass", "{}", choose([0, 0, 5]))
        own = f"{flow}-{choose([0, 1, 2])}"
        pairs = [
            *there,
            *choose([[], ["retries", 1], ["limit_key", "k1"], ["tags", '["red"]']]),
        ]
        spawn = ("spawn", held, self.token(held), "w", *job, len(pairs) // 2, *pairs)
        self.requests += 1
        ended = choose(
            [
                ("complete", "[7]", 60),
                ("complete", "", 1),
                ("failed", "broken", "m"),
                ("canceled",),
            ]
        )
        call = choose([
            spawn, spawn, ("deliver", f"own:{self.requests}", 0, "ended", choose([own, self.jid()]), *ended),
            ("workflow.get", flow), ("workflow.jobs", flow, 0, 9), ("workflow.cancel", flow),
            ("workflow.retry", flow, choose([0, 1])), ("workflow.carry", flow), ("cancel", own),
            ("revive.each", own), ("offspring", held), ("get", own), ("job.view", own, 3, 3),
            ("complete", held, self.token(held), QueueOf(held), "{}", "result", "[1]", "result_ttl", 60),
        ])  # fmt: skip
        over_there = choose([
            ("settle", "our-2", 0, 4, 1, "*"), ("fail", own, Token(own), "broken", "m"),
            ("complete", own, Token(own), QueueOf(own), "{}", "result", "[2]", "result_ttl", 60),
            ("complete", own, Token(own), QueueOf(own), "{}"), ("get", own), ("cancel", own),
        ])  # fmt: skip
        if self.random.random() < 0.4:
            return self.made_in(HOMES[1], over_there)
        return self.ours(*call)

    # Unique keys of an alias.

    def claims(self) -> Operation:
        choose, text, jid = self.random.choice, self.random.choice(KEYS), self.jid()
        name = choose([HERE, THERE])
        period, instead = choose(["", "", "5", "60"]), choose(["", "", self.claimed])
        since = choose([self.claimed, self.claimed, "1"])
        claim = ["claim", f"{since} {THERE}\n{choose([HERE, HERE, FURTHER])}"]
        key = ["unique", text, "unique_until", choose(["start", "end", "end"]),
               "conflict", choose(["keep", "replace", "refuse", "take"])]  # fmt: skip
        held, lease = self.held(), choose(["0.5", "5", "60"])
        return self.ours(*choose([
            ("claim", lease, text, jid, name, period, instead),
            ("claim", lease, text, jid, name, period, instead),
            ("claim", lease, text, jid, HERE, "", "", choose(KEYS), self.jid(), THERE, period, instead),
            ("put", "w", self.queue(), jid, "klass", "{}", choose([0, 0, 5]), *key, *claim),
            ("put", "w", self.queue(), jid, "klass", "{}", 0, *key, *claim),
            ("put.many", "w", jid, "a", "k", "[]", 0, 4, *key, *claim),
            ("claim.release", text, jid, name), ("claim.release", text, jid, HERE, choose(KEYS), self.jid(), name),
            ("claim.regain", text, jid, name), ("claim.check", text, jid, since, choose(["", "1"])),
            ("claim.check", text, jid, since, "1", choose(KEYS), self.jid(), "2", ""),
            ("settle", "our-1", 0, choose([1, 3]), 1, "*"), ("revive.each", *self.some(JIDS, 5)),
            ("cancel.each", *self.some(JIDS)), ("complete", held, self.token(held), QueueOf(held), "{}"),
            ("fail", held, self.token(held), "broken", "m"), ("get", jid), ("audit", "0", 1000),
            ("put", "w", self.queue(), jid, "klass", "{}", 0, *key), ("job.view", jid, 3, 3),
        ]))  # fmt: skip

    # What comes after a run, or instead of its end.

    def endings(self) -> Operation:
        choose, held = self.random.choice, self.held()
        token: Any = Token(held)
        told = choose(['{"pid":1}', '{"pid":2,"output":"x"}', "{}"])
        name, queue = choose(OUR_WORKERS), self.queue()
        marks = [f"d:{n}" for n in range(6)]
        gone = choose([[], [], self.some(marks)])
        return self.ours(*choose([
            ("settle", name, 0, choose([1, 2]), 1, "*", "exhausted", "1"),
            ("settle", name, 0, 2, 2, "a", "b", "exhausted", "1", "wait", 5),
            ("put", "w", queue, self.jid(), "klass", "{}", 0, "retries", choose([0, 0, 1])),
            ("put", "w", queue, self.jid(), "k", "{}", 0, "retries", 0, "on_failure", "run"),
            ("heartbeat", held, token), ("beat", name, told, 1, held, token, choose(["", 1])),
            ("detached.keep", name, held, token, told), ("detached.get", held), ("forget", self.jid()),
            ("detached.keep", name, held, token, told), ("detached.get", self.jid()),
            ("fail", held, token, choose(GROUPS), self.message()), ("timeout.each", held),
            ("fail", held, token, choose(GROUPS), self.message(), "", choose([0, 3])),
            ("unfail", queue, choose(GROUPS), choose([1, 9])), ("worker.deregister", name),
            ("revive.each", *self.some(JIDS, 5)), ("cancel.each", *self.some(JIDS)),
            ("config.set", f"{queue}-failed-queue", choose(["a", "b", "c"])),
            ("config.unset", f"{queue}-failed-queue"), ("failure.group", choose(GROUPS)),
            ("config.set", "grace-period", choose([0, 0, 10])), ("config.set", "heartbeat", choose([1, 5, 60])),
            ("config.set", "max-worker-age", choose([5, 86400])), ("jobs", "canceled", *self.page()),
            ("config.set", choose(["canceled-history", "jobs-history"]), choose([0, 5, 100])),
            ("deliver", choose(marks), len(gone), *gone, "put", "w", queue, self.jid(), "klass", "{}", 0),
            ("deliver.forget", *self.some(marks)),
            ("failed.of", *self.some(["a", "b", "c"])), ("job.view", held, 3, 3), ("get", self.jid()),
            ("failure.groups", choose(["count", "last"]), 0, 5), ("worker.views", 0, 9), ("workers", name),
        ]))  # fmt: skip
