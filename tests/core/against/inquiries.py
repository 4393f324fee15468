"""What builds are compared by: operations that random runs make seldom, or not at all.

All commands come with all of their options, and numbers that lie at bounds. Seldom an argument is
replaced by one that may not stand there.
"""

from __future__ import annotations

import json
from typing import Any

from tests.core.operations import (
    CRONS,
    GROUPS,
    JIDS,
    KEYS,
    NOT_DRAWN,
    OLD_WORKERS,
    OUR_WORKERS,
    QUEUES,
    TAGS,
    TIMERS,
    WEIGHTS,
    Generator,
    Operation,
    QueueOf,
    Score,
)  # fmt: skip

#: Reads are made more often than by random runs, for their replies are looked at.
DRAWN = {
    **WEIGHTS, "look": 6, "view": 8, "ask": 4, "needs": 3, "configure": 3, "schedule": 8,
    "read_queue": 7, "read_jobs": 8, "read_schedules": 3, "read_figures": 5, "read_places": 5,
    "admin": 3, "job_options": 7, "times": 5, "keep": 3, "flowing": 3, "many": 4,
}  # fmt: skip

#: What some seeds make most of, so that one thing comes after the other.
THEMES: list[dict[str, int]] = [
    {},
    {"schedule": 90, "read_schedules": 12, "settle": 15, "admin": 4},
    {"many": 50, "put": 10, "spawn": 15, "settle": 40, "change": 25, "cancel": 6, "unfail": 6},
    {"workflow_put": 15, "filling": 40, "workflow": 15, "flowing": 30, "settle": 40, "pop_ours": 20},
    {"keep": 60, "spawn": 20, "settle": 25, "read_jobs": 25, "configure": 12, "times": 25, "needs": 8},
    {"job_options": 70, "put_many": 15, "settle": 25, "times": 10, "each": 10, "cancel": 5},
    {"waiting": 60, "finish_ours": 12, "keep": 4, "times": 4, "recur": 3, "admin": 4, "configure": 1, "cancel": 3},
    {"days": 10, "read_figures": 30, "settle": 30, "keep": 10, "finish_old": 10, "unfail": 5},
    {"put": 40, "finish_old": 40, "pop": 40, "recur": 10, "cancel": 10, "read_queue": 30},
]  # fmt: skip

#: The themes in which only clients of the original take part, in which time goes by slowly, and of
#: whose jobs there are few.
ORIGINAL, SLOW, FEW = 8, 6, (2, 5)

SCHEDULES = [*CRONS, *TIMERS]
CLIENTS = ["client", "one", "two", "three", "four", "five"]
WORKERS = [*OUR_WORKERS, "host-1-a", "host-2-b", "other-3-c"]
STATES = ["waiting", "running", "stalled", "scheduled", "depends"]
PLACES = [*STATES, "complete", "canceled", "tracked", "group", "tag", "worker"]

#: What is no argument, or one at a bound.
ODD = [
    "", "x", "-1", "0", "1", "2", "-0", "1.5", "nan", "1e400", "1e301", "9007199254740993", "[]",
    "{}", "[1]", '["j01","j01"]', '{"a":1}', "[", '"t"', '[{"a":[]}]', "-j", "j01-history", "*",
    "a\x01", '"\x01"', "1.", '[1.]', '["\t"]', '["é"]', '[-.5]', "ä" * 200, "k" * 256, "0x10",
    "null", '["a","b","c","d"]', "all", "5:5", "0:0", "1:0",
]  # fmt: skip

#: What jobs fail with: of several lines one is their headline.
MESSAGE = [
    "message", "", "Traceback:\n  File x\nValueError: wrong\n", "a\n  + Exception Group\nb\nc",
    "E" * 30 + "\nlast", "\n\n", "one\ntwo\n  three", "ü" * 40,
    "Traceback (most recent call last):\n  File\n    raise\nKeyError: 'x'",
    "x\n\nDuring handling\n\nTraceback (most recent call last):\n  y\nOSError: z\nnote",
    "  + Exception Group Traceback (most recent call last):\n  | ExceptionGroup: seve (2)\n  +-+--",
]  # fmt: skip


class Inquirer(Generator):
    """Draws these operations too."""

    def __init__(self, seed: int) -> None:
        self.theme = seed % len(THEMES)
        theme = THEMES[self.theme]
        super().__init__(seed, theme if self.theme == SLOW else {**DRAWN, **theme})
        self.repeatable: list[Operation] = []
        self.jids = JIDS[:9] if self.theme in FEW else JIDS

    def ours(self, command: str, *args: Any) -> Operation:
        made = super().ours(command, *args)
        if made.request:
            client = self.random.choice(CLIENTS)
            made = made._replace(request=f"{client}:{self.requests}")
            self.repeatable.append(made)
        return made

    def jid(self) -> str:
        return self.random.choice(self.jids)

    def some(self, names: list[str], most: int = 3) -> list[str]:
        return super().some(self.jids if names is JIDS else names, most)

    def advance(self) -> None:
        if self.theme == SLOW:
            step = self.random.choice([0, 0, 0.001, 0.05, 0.1, 0.15, 0.3, 1, 3])
            self.now = round(self.now + step, 3)
        else:
            super().advance()

    def draw(self, running: list[str]) -> Operation:
        operation = super().draw(running)
        while self.theme == ORIGINAL and operation.keyed:
            operation = super().draw(running)
        if self.repeatable and self.random.random() < 0.02:
            again = self.random.choice(self.repeatable[-3:])
            return again._replace(now=self.now)
        if operation.args and self.random.random() < 0.04:
            args = list(operation.args)
            at = self.random.randrange(len(args))
            dice = self.random.random()
            if dice < 0.7:
                args[at] = self.random.choice(ODD)
            elif dice < 0.85:
                args.pop()
            else:
                args.append(self.random.choice(ODD))
            operation = operation._replace(args=tuple(args))
        return operation

    # What it is made of.

    def page(self) -> list[Any]:
        choose = self.random.choice
        return choose([
            [], [0], [0, 5], [0, choose([0, 1, 2, 7, 8])], [choose([1, 2, 5]), choose([1, 2, 3])],
        ])  # fmt: skip

    def old_page(self) -> list[Any]:
        """With the negative numbers that qless takes."""
        choose = self.random.choice
        return choose([
            self.page(), [choose([-1, -2, -3]), choose([1, 2, 3])], [0, choose([-1, -2])], [1.5, 2.5],
            [choose([-2, 1]), -1],
        ])  # fmt: skip

    def part(self) -> list[Any]:
        """A part of a list of jobs."""
        choose = self.random.choice
        kind = choose(PLACES)
        name = {
            "group": choose(GROUPS),
            "tag": choose(TAGS),
            "worker": choose(OUR_WORKERS),
        }
        return [
            kind,
            name.get(kind, self.queue()),
            choose([0, 0, 1, 2]),
            choose([0, 1, 3, 7]),
        ]

    def parts(self, most: int = 3) -> list[Any]:
        return [
            each for _ in range(self.random.randint(1, most)) for each in self.part()
        ]

    def flow(self) -> str:
        back, choose = self.random.randint(0, 3), self.random.choice
        return choose([f"f{self.flows - back}", f"s{self.begun - back}"])

    def minute(self) -> int:
        return int(self.now // 60)

    def message(self) -> str:
        return self.random.choice(MESSAGE)

    # The operations.

    def read_queue(self) -> Operation:
        choose, queue = self.random.choice, self.queue()
        return self.either(*choose([
            ("jobs", "complete", *self.old_page()), ("jobs", choose([*STATES[1:], "recurring"]), queue, *self.old_page()),
            ("jobs", choose(STATES), queue, *self.old_page()), ("jobs", "canceled", *self.old_page()),
            ("length", queue), ("failed", choose(GROUPS), *self.old_page()), ("failed",),
            ("tag", "get", choose(TAGS), *self.old_page()), ("tag", "top", *self.old_page()),
            ("stats", queue, self.now - choose([0, 0, 0, 3600, 86400, 8 * 86400])),
            ("workers", choose([*OLD_WORKERS, *OUR_WORKERS])), ("workers",), ("recur.get", choose(SCHEDULES)),
            ("config.get",), ("config.get", choose(["heartbeat", "a-heartbeat", "application", "x"])),
            ("peek", queue, choose([0, 1, 2, 9])), ("queues",), ("queues", queue), ("track",),
            ("jobs.count", choose(["complete", "canceled"])), ("get", self.jid()),
        ]))  # fmt: skip

    def read_jobs(self) -> Operation:
        choose, jid = self.random.choice, self.jid()
        return self.ours(*choose([
            ("job.view", jid, choose([0, 1, 2, 3, 9]), choose([0, 1, 2, 50])), ("job.view", jid, 3, 3),
            ("needs", jid, *self.page()), ("offspring", jid, *self.page()), ("results", *self.some(JIDS, 4)),
            ("result", jid), ("results.gone", *self.some(JIDS, 6)), ("get", jid),
            ("multiget", *self.some(JIDS, 4)), ("brief", *self.some(JIDS, 7)), ("tracked.jids", *choose([[0, 3], [1, 2], [0, 0]])),
            ("workflow.get", self.flow()), ("workflow.jobs", self.flow(), *self.page()),
            ("await", choose(["me", "you"]), choose([0, 0, 5.5]), *choose([("job", *self.some(JIDS)), ("workflow", self.flow())])),
        ]))  # fmt: skip

    def read_schedules(self) -> Operation:
        choose, queue = self.random.choice, self.queue()
        return self.ours(*choose([
            ("schedule.list", *self.page()), ("schedule.get", choose(SCHEDULES)), ("schedule.declared",),
            ("schedules.of", *self.some(SCHEDULES, 4)), ("schedules.next", choose([0, 1, 2, 9])),
            ("schedules.in", queue, choose([0, 1]), choose([0, 1, 2, 7])), ("schedules.count", *self.some(QUEUES)),
            ("recur.get", choose(SCHEDULES)), ("jobs", "recurring", queue),
        ]))  # fmt: skip

    def read_figures(self) -> Operation:
        choose, queue, minute = self.random.choice, self.queue(), self.minute()
        since = choose([0, 1, 8, 9, 59, 61, 1440])
        return self.ours(*choose([
            ("minutes", queue, minute - since, minute), ("minutes", queue, minute - since, minute - choose([0, 1])),
            ("throughput", choose(["", queue]), minute - since, minute, choose([1, 2, 5, 60])),
            ("throughput", choose(["", queue]), minute, minute - since, 1), ("failed.of", *self.some(QUEUES)),
            ("stats.counters", self.now, *self.some(QUEUES)), ("lag", *self.some(QUEUES)), ("due", *self.some(QUEUES)),
            ("survey", *self.some(QUEUES)), ("survey",), ("tag.counts", choose([0, 1]), choose([0, 1, 2, 9])),
            ("failure.groups", choose(["count", "last"]), choose([0, 1, 2]), choose([0, 1, 2, 9])),
            ("failure.group", choose(GROUPS)), ("worker.views", choose([0, 1]), choose([0, 1, 2, 9])), ("meta",),
            ("stats", queue, self.now), ("stats", queue, self.now - 86400),
        ]))  # fmt: skip

    def read_places(self) -> Operation:
        choose = self.random.choice
        conditions = [choose([
            ("queue", self.queue()), ("state", choose([*STATES, "complete", "failed", "canceled"])),
            ("klass", choose(["k", "klass", "*", "k*", "?", "*ass", "kl*ss", "x*"])), ("jid", choose(["j", "j0", "f1", "x", "j03"])),
            ("data", choose(["n", "9", "5", "[]", "zz"])), ("data", choose(["1", "2"])), ("tag", "red"),
        ]) for _ in range(choose([0, 1, 1, 2, 3]))]  # fmt: skip
        flat = [each for pair in conditions for each in pair]
        return self.ours(*choose([
            ("search", choose([0, 1, 2, 7]), len(conditions), *flat, *self.parts()),
            ("search", 7, len(conditions), *flat, *self.parts()),
            ("briefs", choose([0, 1, 2, 7]), *self.parts()), ("briefs", 7, *self.parts()),
        ]))  # fmt: skip

    def admin(self) -> Operation:
        choose, worker = (
            self.random.choice,
            self.random.choice([*OLD_WORKERS, *OUR_WORKERS]),
        )
        return self.ours(*choose([
            ("queue.pause", choose(["", "why", "w" * 501]), choose(["", "me"]), *self.some(QUEUES)),
            ("unpause", *self.some(QUEUES)), ("pause", *self.some(QUEUES)), ("queue.forget.empty", *self.some(QUEUES)),
            ("queue.forget", *self.some(QUEUES)), ("worker.deregister", *self.some([*OLD_WORKERS, *OUR_WORKERS])),
            ("order", worker, choose(["quiet", "resume", "stop"])),
            ("beat", worker, choose(["", '{"pid":2}']), 0), ("schedule.due", worker, choose([1, 2, 9])),
            ("unpause", *QUEUES), ("each", "tag", choose(TAGS), *self.some(JIDS, 9)), ("each", "track", *self.some(JIDS, 9)),
            ("each", "cancel", *self.some(JIDS, 9)), ("unfail", self.queue(), choose(GROUPS), choose([0, 1, 2, 25])),
            ("each", "revive", *JIDS), ("each", "move", self.queue(), 0, *self.some(JIDS, 9)), ("revive", *self.some(JIDS, 7)),
        ]))  # fmt: skip

    def job_options(self) -> Operation:
        """One job, with each of the options at its bounds."""
        choose, dice = self.random.choice, self.random.random
        at = (
            []
            if dice() < 0.7
            else ["at", choose([self.now, self.now + 5, self.now - 5, self.now + 4000])]
        )
        more = [*at, *self.pairs(True)]
        more += choose([
            [], [], ["tags", json.dumps(self.random.choices([*TAGS, "t5"], k=choose([0, 1, 3, 4])))], ["context", "{}"],
            ["workflow", self.flow()], ["on_failure", choose(["run", "cancel"]), "depends", json.dumps(self.some(JIDS, 5))],
            ["unique", choose(KEYS), "unique_until", choose(["start", "end", 0.5, 30, 3600]), "conflict", choose(["keep", "replace", "take"])],
            ["unique", choose(KEYS), "debounce", choose([0, 5, 100])],
            ["expires", choose([0, 0.001, 3, 61])], ["priority", choose([2**53, -0.5, 1e300])],
        ])  # fmt: skip
        job = (
            self.queue(),
            self.jid(),
            choose(["klass", "k", "other.klass"]),
            choose(["{}", '{"n":5}', "[1,2]", '"é"']),
        )
        return self.ours(
            choose(["put", "put", "requeue"]),
            choose(OUR_WORKERS),
            *job,
            0 if at else self.delay(),
            *more,
        )

    def times(self) -> Operation:
        """What is due, or ends, just now."""
        choose, jid = self.random.choice, self.held()
        token, queue = self.token(jid), QueueOf(jid)
        return self.ours(*choose([
            ("pop", self.queue(), choose(OUR_WORKERS), choose([0, 1, 3, 7])), ("heartbeat", jid, token, *choose([[], ["[7]"]])),
            ("timeout", jid), ("complete", jid, token, queue, "{}", "result", '{"r":2}', "result_ttl", choose([0, 1, 50, 3600])),
            ("complete", jid, token, queue, "{}", "next", self.queue(), "delay", choose([0, 5]), "depends", json.dumps(self.some(JIDS, 3))),
            ("fail", jid, token, choose(GROUPS), self.message(), *choose([[], ["{}"], ["", 3], ['{"d":1}', 0.001]])),
            ("retry", jid, queue, token, choose([0, 5]), choose(["", "slow"]), self.message(), *choose([[], [2]])),
            ("release", jid, token, *choose([[], [0], [5], [0, 0.0005], [0, 3]])), ("progress", jid, token, choose(["[1,null]", "{}"])),
            ("put", "w", self.queue(), self.jid(), "klass", "{}", choose([0.001, 1, 3, 10, 30])),
        ]))  # fmt: skip

    def keep(self) -> Operation:
        """Settle what returns something, or spawns, or moves on."""
        choose, ends = self.random.choice, []
        for _ in range(choose([1, 2, 3])):
            jid = self.held()
            verb = choose([
                ("complete", '{"r":1}', choose([0, 1, 100, 3600])), ("complete", json.dumps("r" * choose([1, 30])), 3600),
                ("fail", choose(GROUPS), self.message()), ("retry", choose([0, 5]), choose([*GROUPS, ""]), self.message()),
                ("crash", choose([0, 1, 2]), "worker-crash", self.message()), ("unknown", choose([0, 30, 100])),
                ("move", self.queue(), choose([0, 5]), json.dumps(self.some(JIDS, 4))), ("release", 0), ("complete",),
            ])  # fmt: skip
            ends += [
                jid,
                self.token(jid),
                self.lay(),
                verb[0],
                len(verb) - 1,
                *verb[1:],
            ]
        count = sum(
            1
            for each in ends
            if each
            in ("complete", "fail", "retry", "crash", "unknown", "move", "release")
        )
        queues = choose(
            [["a"], ["a", "b", "c"], ["*"], ["[ab]", "c"], ["a", "a", "b"], ["?", "*"]]
        )
        more = choose(
            [
                [],
                ["exclude", "b"],
                ["wait", choose([0, 1, 90000])],
                ["wait", 30],
                ["exclude", "*"],
            ]
        )
        return self.ours(
            "settle",
            choose(OUR_WORKERS),
            count,
            *ends,
            choose([0, 1, 2, 3]),
            len(queues),
            *queues,
            *more,
        )

    def waiting(self) -> Operation:
        """Workers that wait for something to do, and what falls due before they would come again."""
        choose, client, dice = (
            self.random.choice,
            self.random.choice(CLIENTS),
            self.random.random(),
        )
        queue = choose(["a", "a", "a", "b"])
        if dice < 0.2:
            delay = choose([0, 0.05, 0.2, 0.7, 1, 3, 10])
            return self.either(
                "put", choose(WORKERS), queue, self.jid(), "klass", "{}", delay
            )
        if dice < 0.25:
            return self.ours("put.many", "w", *[
                part for jid in self.some(JIDS, 5) for part in (jid, queue, "klass", "{}", choose([0, 0, 1]), 0)
            ])  # fmt: skip
        if dice < 0.3:
            return self.either("pop", queue, choose(WORKERS), choose([1, 2, 5]))
        self.requests += 1
        queues = choose(
            [["a"], ["a"], ["a"], ["b"], ["a", "b"], ["*"], ["a", "b", "c"], []]
        )
        seconds = choose([0, 0.2, 0.5, 1, 5, 30, 30, 70])
        args = (
            choose(WORKERS),
            0,
            choose([1, 1, 2, 5]),
            len(queues),
            *queues,
            "wait",
            seconds,
        )
        return Operation(True, self.now, "settle", args, f"{client}:{self.requests}")

    def days(self) -> Operation:
        """A day later, or nearly."""
        self.now += self.random.choice([86399, 86400, 86401, 3600, 2 * 86400])
        option = self.random.choice(
            ["stats-history", "histogram-history", "jobs-history", "max-worker-age"]
        )
        return self.either("config.set", option, self.random.choice([0, 1, 2, 3, 100]))

    def filling(self) -> Operation:
        """Have jobs wait for the rest of their workflow."""
        graph = self.graph(f"s{self.begun}", 1)
        return self.ours("put.many", "w", *graph)

    def flowing(self) -> Operation:
        choose, flow = self.random.choice, self.flow()
        return self.ours(*choose([
            ("workflow.get", flow), ("workflow.jobs", flow, *self.page()), ("workflow.release", flow, 0),
            ("workflow.retry", flow, choose([0, 1, 2])), ("workflow.cancel", flow), ("cancel", *self.some([f"{flow}-{n}" for n in range(5)])),
            ("job.view", f"{flow}-{choose([0, 1, 2])}", 3, 9), ("await", "me", choose([0, 30]), "workflow", flow),
            ("settle", choose(OUR_WORKERS), 0, 4, 3, *QUEUES), ("depends", f"{flow}-{choose([1, 2])}", "on", f"{flow}-0"),
            ("revive", *[f"{flow}-{n}" for n in range(5)]), ("requeue", "w", self.queue(), f"{flow}-1", "k", "{}", 0, "workflow", flow),
            ("workflow.begin", f"s{self.begun}", "{}"), ("depends", f"s{self.begun}-1", "on", *self.some(JIDS)),
            ("spawn", self.held(), NOT_DRAWN, "worker", *self.batch()), ("put.many", "w", *self.batch()),
        ]))  # fmt: skip

    def many(self) -> Operation:
        """Chains and fans of jobs, so that there is more to do than one call does."""
        choose, queue = self.random.choice, self.queue()
        jids = self.random.sample(JIDS, choose([3, 5, 7]))
        policy = choose([[], ["on_failure", choose(["cancel", "run", "block"])]])
        kind, args, before = choose(["chain", "fan", "join"]), [], ""
        for n, jid in enumerate(jids):
            others = {"chain": [before], "fan": [jids[0]], "join": jids[:-1]}[kind]
            depends = others if n and (kind != "join" or n == len(jids) - 1) else []
            pairs = [
                *(["depends", json.dumps(depends)] if depends else []),
                *policy,
                "tags",
                '["red"]',
            ]
            args += [jid, queue, "klass", "{}", 0, len(pairs) // 2, *pairs]
            before = jid
        held = self.held()
        return self.ours(*choose([
            ("put.many", "w", *args), ("put.many", "w", *args), ("spawn", held, self.token(held), "w", *args),
            ("cancel", *self.random.sample(JIDS, 7)), ("depends", jids[0], "on", *jids[1:]), ("depends", jids[0], "off", "all"),
            ("each", "track", *jids), ("fail", held, self.token(held), "broken", "m"), ("complete", held, self.token(held), QueueOf(held), "{}"),
        ]))  # fmt: skip

    def schedule(self) -> Operation:
        """The same as at random, and all that a schedule may have."""
        choose, dice, which = (
            self.random.choice,
            self.random.random,
            self.random.choice(SCHEDULES),
        )
        if dice() < 0.4:
            return super().schedule()
        more = [part for pair in (
            ("priority", choose([1, -2])), ("retries", choose([0, 2])), ("offset", choose([0, 5])),
            ("context", choose(["", '{"a":1}'])), ("expires", choose(["", 5, 4000])), ("unique", choose(["", "tick"])),
            ("name", "n"), ("owner", choose(["", "code"])), ("declared", choose(["", "x", "y"])), ("timezone", choose(["UTC", "Europe/Berlin"])),
            ("missed", choose(["all", "last", "none"])), ("tags", choose(["[]", '["red","x"]'])),
            ("force", "1"), ("data", "[2]"), ("klass", "other"), ("queue", self.queue()),
        ) if dice() < 0.2 for part in pair]  # fmt: skip
        kind = choose(
            [
                ("interval", choose([1, 30, 600, 4000])),
                ("cron", choose(["* * * * *", "0 * * * *"])),
            ]
        )
        tick, second = Score(which), int(self.now)
        first = choose([second, second - 60, second - 1, second + 1])
        return self.ours(*choose([
            ("schedule.set", which, self.queue(), "klass", "[1]", *kind, *more),
            ("schedule.set", which, "a", "klass", "[1]", *kind, "owner", "code", *choose([[], ["edited", "1"]])),
            ("schedule.update", which, *more), ("schedule.update", which, *kind), ("schedule.run", which),
            ("recur", self.queue(), which, "klass", "{}", "interval", choose([1, 30, 600, 0.5]), choose([0, -100, 30]),
             "backlog", choose([0, 1, 2, 1000]), "priority", choose([0, 3]), "retries", choose([0, 2]), "tags", '["red","x"]'),
            ("recur.update", which, *choose([("priority", 4), ("retries", 1), ("backlog", 3), ("data", "[9]"), ("klass", "kk"), ("interval", 10, "queue", "b")])),
            ("schedule.tick", which, tick, first, choose(["", first + 30]), first + choose([1, 61, 180]), ""),
            ("schedule.tick", which, tick, second, "", second + 60, "", choose(CRONS), 1, "", "", second, ""),
            ("schedule.tick", which, tick, "", "", "", choose(["trouble", "t" * 1001])),
            ("schedule.due", choose(OUR_WORKERS), 9), ("schedule.remove", *self.some(SCHEDULES, 2)),
            ("schedule.pause", which), ("schedule.resume", which), ("schedule.resume", *SCHEDULES), ("unrecur", which),
            ("pop", self.queue(), "our-1", 7), ("settle", "our-1", 0, 4, 3, *QUEUES), ("recur.tag", which, *self.some(TAGS)),
        ]))  # fmt: skip

    def configure(self) -> Operation:
        choose, dice = self.random.choice, self.random.random
        if dice() < 0.5:
            return super().configure()
        option = choose([
            "heartbeat", "grace-period", "a-heartbeat", "b-heartbeat", "a-max-concurrency", "b-max-concurrency", "jobs-history",
            "jobs-history-count", "max-job-history", "max-worker-age", "a-weight", "b-weight", "canceled-history",
            "stats-history", "histogram-history", "application",
        ])  # fmt: skip
        value = choose([0, 1, 2, 3, 5, 10, 30, 60, 61, 100, 86400, -1, 0.5, 2.5, "x"])
        return self.ours(*choose([
            ("config.set", option, value), ("config.set", option, value), ("config.unset", option), ("config.set", "own", "x"),
        ]))  # fmt: skip
