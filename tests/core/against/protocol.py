"""Draws calls of qless-core's protocol: all its commands and options, and how clients
may spell them; some as no client should.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from tests.core.against import words
from tests.core.operations import Holder, Operation, QueueOf


class Protocol:
    """Draws calls without KEYS; depends on the seed, and on which jobs are running."""

    def __init__(self, chance: random.Random, now: float, oddity: float = 0.1) -> None:
        self.random = chance
        self.now = now
        self.oddity = oddity
        self.running: list[str] = []
        self.drawn = 0

    def draw(self, running: list[str]) -> Operation:
        """Return the next call, given the jids that are running."""
        self.running = running
        self.drawn += 1
        self.advance()
        command = self.random.choices([*COMMANDS], [*COMMANDS.values()])[0]
        if self.drawn < words.FIRST and self.dice(0.5):
            command = Protocol.put
        elif command in HOLDERS and not self.running and self.dice(0.85):
            command = Protocol.pop
        name, *args = command(self)
        if self.dice(self.oddity):
            return self.spoiled(name, args)
        return Operation(False, self.spelled(self.clock()), name, tuple(args))

    def spoiled(self, name: str, args: list[Any]) -> Operation:
        """Return a call as no client should make it."""
        now: Any = self.clock()
        if self.dice(0.1):
            now = self.random.choice([None, *words.ODD])
        if self.dice(0.05):
            name = self.random.choice(["", "Put", "nosuch", "put ", "settle", "beat"])
        return Operation(False, now, name, tuple(words.spoiled(self.random, args)))

    def dice(self, chance: float) -> bool:
        """Return True with this probability."""
        return self.random.random() < chance

    def advance(self) -> None:
        """Let time go on, seldom by much."""
        choose = self.random.choice
        if self.dice(0.8):
            self.now += choose([0, 0, 0.001, 0.5, 1, 3])
        elif self.dice(0.95):
            self.now += choose([5, 10, 11, 30, 61, 75])
        else:
            self.now += choose([3600, 86400, 700_000])
        self.now = round(self.now, 3)

    def clock(self) -> float:
        """Return a client's time: its clock may be ahead or behind."""
        skew = self.random.choice([0] * 14 + [-0.25, -20, -200, -90_000, 15])
        return round(self.now + skew, 3)

    # What calls are made of.

    def of(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def jid(self) -> str:
        return self.of(*words.JIDS)

    def held(self) -> str:
        """A running job, seldom any."""
        if self.running and self.dice(0.9):
            return self.of(*self.running)
        return self.jid()

    def jids(self, most: int = 3) -> list[str]:
        return self.random.choices(words.JIDS, k=self.random.randint(1, most))

    def queue(self) -> str:
        return self.of(*words.QUEUES)

    def worker(self) -> str:
        return self.of(*words.WORKERS)

    def owner(self, jid: str) -> Any:
        return Holder(jid) if self.dice(0.9) else self.worker()

    def place(self, jid: str) -> Any:
        return QueueOf(jid) if self.dice(0.9) else self.queue()

    def data(self) -> str:
        return self.of("{}", "{}", *words.DATA)

    def number(self, *choices: float) -> Any:
        return self.spelled(self.of(*choices))

    def spelled(self, number: float) -> Any:
        """Return a number in one of the ways in which it can be written."""
        if self.dice(0.85):
            return number
        ways = [
            "{} ",
            " {}",
            "\t{}\n",
            "{}e0",
            "0{}" if number >= 0 else "{}",
            "{:.6f}",
        ]
        whole = ["{}.0", "{}."] if number == int(number) else []
        shown = int(number) if number == int(number) else number
        return self.of(*ways, *whole).format(shown)

    def delay(self) -> Any:
        return self.number(0, 0, 0, 0, 5, 60.5, 4000, -3)

    def names(self, choices: list[str]) -> str:
        """Return a JSON list of some of these, perhaps with repetitions."""
        some = self.random.choices(choices, k=self.of(0, 1, 1, 2, 3))
        return json.dumps(some, ensure_ascii=self.dice(0.5))

    def some_jids(self) -> str:
        return self.names(words.JIDS)

    def some_pairs(self, **choices: Callable[[], Any]) -> list[Any]:
        """Return some of these options with values, in any order."""
        names = [name for name in choices if self.dice(0.4)]
        self.random.shuffle(names)
        pairs = [part for name in names for part in (name, choices[name]())]
        return pairs + (["unknown", "1"] if self.dice(0.03) else [])

    def window(self) -> list[Any]:
        """Return an offset and a count, or fewer."""
        full = [self.number(0, 0, 1, 2, -2), self.number(1, 2, 25, -1, 0, 2000)]
        return full[: self.of(0, 1, 2, 2)]

    # The commands, with their arguments.

    def put(self) -> tuple[Any, ...]:
        name = "requeue" if self.dice(0.15) else "put"
        pairs = self.some_pairs(
            priority=lambda: self.number(-100, 0, 1, 10, 1.5, 10**12),
            tags=lambda: self.names(words.TAGS),
            retries=lambda: self.number(0, 0, 1, 5),
            depends=self.some_jids,
        )
        job = (self.worker(), self.queue(), self.jid(), self.of("k", "a.b.C"))
        return (name, *job, self.data(), self.delay(), *pairs)

    def pop(self) -> tuple[Any, ...]:
        return "pop", self.queue(), self.worker(), self.number(1, 1, 2, 5, 0, 1.5, -1)

    def peek(self) -> tuple[Any, ...]:
        return "peek", self.queue(), self.number(0, 1, 3, 25)

    def complete(self) -> tuple[Any, ...]:
        jid, pairs = self.held(), []
        if self.dice(0.35):
            more = self.some_pairs(delay=self.delay, depends=self.some_jids)
            pairs = ["next", self.queue(), *more]
        elif self.dice(0.1):
            pairs = [*self.of(("delay", 0), ("depends", "[]"), ("next", ""))]
        return ("complete", jid, self.owner(jid), self.place(jid), self.data(), *pairs)

    def fail(self) -> tuple[Any, ...]:
        jid, more = self.held(), [self.data()] if self.dice(0.3) else []
        why = (self.of(*words.GROUPS), self.of("message", 'é "x"\n', ""))
        return ("fail", jid, self.owner(jid), *why, *more)

    def retry(self) -> tuple[Any, ...]:
        jid = self.held()
        more = [self.delay(), self.of(*words.GROUPS), "message"][
            : self.of(0, 0, 1, 2, 3)
        ]
        return ("retry", jid, self.place(jid), self.owner(jid), *more)

    def heartbeat(self) -> tuple[Any, ...]:
        jid, more = self.held(), [self.data()] if self.dice(0.4) else []
        return ("heartbeat", jid, self.owner(jid), *more)

    def get(self) -> tuple[Any, ...]:
        return self.of(("get", self.jid()), ("multiget", *self.jids(5)))

    def cancel(self) -> tuple[Any, ...]:
        return ("cancel", *self.jids())

    def timeout(self) -> tuple[Any, ...]:
        return ("timeout", self.held(), *self.of([], [], self.jids(1)))

    def depends(self) -> tuple[Any, ...]:
        how = self.of(
            ("on", *self.jids()), ("off", *self.jids()), ("off", "all"), ("up",)
        )
        return ("depends", self.jid(), *how)

    def priority(self) -> tuple[Any, ...]:
        return "priority", self.jid(), self.number(-5, 0, 3, 2.5, 10**9)

    def tag(self) -> tuple[Any, ...]:
        some = self.random.choices(words.TAGS, k=self.of(0, 1, 2, 3))
        return self.of(
            ("tag", "add", self.jid(), *some), ("tag", "remove", self.jid(), *some),
            ("tag", "get", self.of(*words.TAGS), *self.window()), ("tag", "top", *self.window()),
        )  # fmt: skip

    def track(self) -> tuple[Any, ...]:
        word = self.of("track", "track", "untrack", "TRACK", "Untrack", "other")
        return self.of(
            ("track",), ("track", word, self.jid()), ("track", word, self.jid())
        )

    def failed(self) -> tuple[Any, ...]:
        return self.of(("failed",), ("failed", self.of(*words.GROUPS), *self.window()))

    def unfail(self) -> tuple[Any, ...]:
        more = [self.number(1, 2, 25, 0)] if self.dice(0.5) else []
        return ("unfail", self.queue(), self.of(*words.GROUPS), *more)

    def jobs(self) -> tuple[Any, ...]:
        if self.dice(0.3):
            return ("jobs", "complete", *self.window())
        return ("jobs", self.of(*words.STATES), self.queue(), *self.window())

    def queues(self) -> tuple[Any, ...]:
        return self.of(("queues",), ("queues", self.queue()), ("length", self.queue()))

    def stats(self) -> tuple[Any, ...]:
        date = self.of(0, -86400, 86400) + self.now
        return "stats", self.queue(), self.spelled(round(date, 3))

    def workers(self) -> tuple[Any, ...]:
        return self.of(
            ("workers",), ("workers", self.worker()), ("workers", "nosuch"),
            ("worker.deregister", self.worker()),
            ("worker.deregister", self.worker(), self.worker()),
        )  # fmt: skip

    def pause(self) -> tuple[Any, ...]:
        some = self.random.choices(words.QUEUES, k=self.of(1, 1, 2, 0))
        word = self.of("pause", "unpause", "unpause", "unpause", "queue.forget")
        return (word, *some)

    def log(self) -> tuple[Any, ...]:
        more = self.of([], ['{"a": 1}'], ['{"b":[],"what":"x"}'], ["[1]"], ["{}"])
        return ("log", self.jid(), self.of("message", "put", "é"), *more)

    def config(self) -> tuple[Any, ...]:
        option, values = self.of(*words.OPTIONS)
        value = self.of(*values)
        shown = value if isinstance(value, str) else self.spelled(value)
        return self.of(
            ("config.get",), ("config.get", option), ("config.unset", option),
            ("config.unset", option), ("config.set", option, shown),
        )  # fmt: skip

    def recur(self) -> tuple[Any, ...]:
        pairs = self.some_pairs(
            priority=lambda: self.number(-1, 0, 7),
            tags=lambda: self.names(words.TAGS),
            retries=lambda: self.number(0, 3),
            backlog=lambda: self.number(0, 1, 2),
        )
        job = (self.queue(), self.of(*words.RECURRING), "k", self.data())
        times = (self.number(10, 60, 0.5, 600, 0), self.number(0, 0, 10, -50, 1.5))
        return ("recur", *job, self.of(*["interval"] * 9, "cron"), *times, *pairs)

    def recurring(self) -> tuple[Any, ...]:
        jid = self.of(*words.RECURRING)
        pairs = self.some_pairs(
            priority=lambda: self.number(2, -2),
            interval=lambda: self.number(7, 90, 0, 2.5),
            retries=lambda: self.number(0, 4),
            data=self.data,
            klass=lambda: self.of("k2", ""),
            queue=self.queue,
            backlog=lambda: self.number(0, 2),
        )
        return self.of(
            ("recur.get", jid), ("recur.update", jid, *pairs), ("recur.update", jid, *pairs),
            ("recur.tag", jid, *words.TAGS[: self.of(0, 1, 3)]),
            ("recur.untag", jid, *words.TAGS[self.of(0, 1, 3) :]), ("unrecur", jid),
        )  # fmt: skip


P = Protocol
COMMANDS: dict[Callable[[Protocol], tuple[Any, ...]], int] = {
    P.put: 24, P.pop: 16, P.peek: 3, P.complete: 12, P.fail: 4, P.retry: 4, P.heartbeat: 4,
    P.get: 5, P.cancel: 4, P.timeout: 2, P.depends: 3, P.priority: 2, P.tag: 5, P.track: 4,
    P.failed: 2, P.unfail: 3, P.jobs: 5, P.queues: 4, P.stats: 2, P.workers: 3, P.pause: 2,
    P.log: 2, P.config: 4, P.recur: 4, P.recurring: 4,
}  # fmt: skip
#: Those of who holds a job.
HOLDERS = {P.complete, P.fail, P.retry, P.heartbeat, P.timeout}
