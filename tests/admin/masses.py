"""A namespace as large as the pages have to bear, or the same in small.

Some of it is larger than the rest: a queue, a failure group, a tag, a worker's hands, the
dependents of a job, the data and the traceback of another. Those are what pages may
stumble over, so `Masses` names them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from django_qless.core import Put, Settlement
from django_qless.core.commands.entities import Payload
from tests.admin.content import ENTITY

if TYPE_CHECKING:
    from django_qless.core import Client
    from tests.jobs_app.models import Feed

DATA = '{"v":1,"args":[1,"ann@example.org"],"kwargs":{"template":"short"}}'
FRAME = '  File "/srv/shop/orders/jobs.py", line 87, in charge\n    gateway.charge()\n'
HEAD = "Traceback (most recent call last):\n"
ERROR = "shop.payment.gateway.Declined: insufficient funds\n"

LARGEST_DATA = 512 * 1024
LARGEST_MESSAGE = 64 * 1024
LARGEST_RESULT = 64 * 1024

"""Bytes of names."""


class Size(NamedTuple):
    """How many there are of each."""

    jobs: int
    failed: int
    groups: int = 1_000
    queues: int = 500
    workers: int = 200
    held: int = 10
    """Jobs in the hands of each worker."""
    complete: int = 40_000
    dependents: int = 100_000
    """Of one job."""
    rows: int = 2_000
    """Jobs of one row of a model."""
    schedules: int = 1_000
    tracked: int = 2_500
    entities: int = 10_000
    """Of one queue, a quarter of them dead; some more are of many other queues."""
    entity_queues: int = 300


LARGE = Size(1_000_000, 100_000)
SMALL = Size(
    *(14_000, 3_000),
    held=2,
    complete=1_000,
    dependents=2_500,
    rows=300,
    schedules=300,
    tracked=250,
    entities=600,
    entity_queues=60,
)


class Masses:
    """Fills an empty namespace through the core's calls; `load()` does it all."""

    def __init__(self, client: Client, size: Size = LARGE) -> None:
        self.client, self.size = client, size
        self.large_queue = "shop-imports-of-suppliers"
        self.large_group = "shop.payment.gateway.Declined-charge"
        self.some_group = "shop.errors.Trouble-001"
        self.large_tag = "nightly"
        self.busy_worker = "busy-01.example.org-900-f3a2"
        self.entity_queue = "shop-entities-of-orders"
        self.large_entity = "order-of-many-payloads"
        self.popular, self.eager, self.heavy = "popular", "eager", "heavy"
        self.rich = "complete-0"
        """The id of a job with a result as large as may be."""
        self.running = "held-0-0"
        self.queues = [
            self.large_queue,
            *(f"shop-queue-{number:03}" for number in range(1, size.queues)),
        ]
        self.workers = [
            self.busy_worker,
            *(f"web-{n:03}.example.org-ab12" for n in range(1, size.workers)),
        ]

    def schedule(self, number: int) -> str:
        """Return the id of a schedule: of an interval if even, else of cron."""
        return f"recurring-{number}"

    def __str__(self) -> str:
        """What the server says that there is."""
        states = ("waiting", "running", "scheduled", "depends", "complete")
        counts = dict.fromkeys(states, 0)
        queues = self.client.queues()
        for queue in queues:
            for state in states[:-1]:
                counts[state] += getattr(queue, state)
        counts["complete"] = self.client.completed_count()
        groups = self.client.failure_groups(0, 0)
        counts["failed"] = groups.total_jobs
        counts["in all"] = sum(counts.values())
        counts["failure groups"] = groups.total_groups
        counts["queues"] = len(queues)
        counts["workers"] = self.client.worker_views(0, 1).total
        return ", ".join(f"{number:,} {what}" for what, number in counts.items())

    def load(self, feed: Feed, other: Feed) -> None:
        """Make everything; most jobs on rows are of `other`, few of `feed`."""
        self.fail_jobs()
        self.fail_a_heavy_one()
        self.complete_jobs()
        self.put_dependents()
        self.hold_jobs()
        self.put_on_rows(feed, other)
        self.put_the_rest()
        self.make_schedules()
        self.keep_minutes()
        self.push_to_entities()
        self.do_the_rest()

    def put(self, jids: Iterable[str], queue: str, klass: str, **options: Any) -> None:
        """Put jobs, a thousand at a time."""
        data = options.pop("data", DATA)
        rest = iter(jids)
        while some := list(islice(rest, 1_000)):
            puts = [Put(jid, queue, klass, data, **options) for jid in some]
            self.client.put_many("", puts)

    def end(
        self, queue: str, endings: Iterator[tuple[str, tuple[str | int, ...]]]
    ) -> None:
        """Let a worker take all that a queue has and end it as the next one says."""
        ended: list[Settlement] = []
        while True:
            held = self.client.settle("loader", ended, 250, [queue]).jobs
            if not held:
                return
            ended = [Settlement(job.jid, job.token, *next(endings)) for job in held]

    def groups(self) -> Iterator[str]:
        """Yield the group of each failed job: one is large, half of the others small."""
        usual = max(1, self.size.failed // self.size.groups)
        rest = self.size.failed
        for number in range(1, self.size.groups):
            count = usual if number <= self.size.groups // 2 else max(1, usual // 10)
            yield from [f"shop.errors.Trouble-{number:03}"] * count
            rest -= count
        yield from [self.large_group] * rest

    def fail_jobs(self) -> None:
        """Let jobs of all queues fail in groups of different sizes."""
        message = HEAD + FRAME * 12 + ERROR
        endings = (("fail", (group, message)) for group in self.groups())
        self._through_all("failed", self.size.failed, endings)

    def complete_jobs(self) -> None:
        """Let jobs of all queues complete; their results are kept for an hour."""
        results = [json.dumps(["<&'>" * ((LARGEST_RESULT - 4) // 4)])]
        results += ['{"sent":true}'] * (self.size.complete - 1)
        endings = (("complete", (result, 3_600)) for result in results)
        self._through_all("complete", self.size.complete, endings)

    def _through_all(
        self,
        prefix: str,
        number: int,
        endings: Iterator[tuple[str, tuple[str | int, ...]]],
    ) -> None:
        share = -(-number // min(len(self.queues), 1 + number // 500))
        for turn, start in enumerate(range(0, number, share)):
            queue = self.queues[turn % len(self.queues)]
            jids = (f"{prefix}-{n}" for n in range(start, min(number, start + share)))
            self.put(jids, queue, "shop.orders.jobs.charge")
            self.end(queue, endings)

    def fail_a_heavy_one(self) -> None:
        """Let a job fail whose data, context and traceback are as large as may be."""
        fill = "The quick brown fox, <b>jumping</b> & 'resting'. "
        data = json.dumps(
            {
                "v": 1,
                "args": [
                    fill * 1_000,
                    [{"row": n, "text": fill} for n in range(2_000)],
                ],
                "kwargs": {f"name-{n}": fill * 4 for n in range(1_200)},
            }
        )
        data = data[:-1] + " " * (LARGEST_DATA - len(data)) + "}"
        assert len(data) == LARGEST_DATA
        heavy_queue = "shop-heavy"
        tags = [f"tag-{number}" for number in range(32)]
        self.put(
            ["heavy"], heavy_queue, "shop.orders.jobs.import", data=data, tags=tags
        )
        (held,) = self.client.settle("loader", [], 1, [heavy_queue]).jobs
        for number in range(150):
            details = json.dumps({"line": number, "text": fill * 8})
            self.client.log(self.heavy, f"read line {number}", details)
        frames = FRAME * (LARGEST_MESSAGE // len(FRAME))
        message = (HEAD + frames)[: LARGEST_MESSAGE - len(ERROR)] + ERROR
        ending = Settlement(self.heavy, held.token, "fail", (self.large_group, message))
        refused = self.client.settle("loader", [ending], 0, ["-"]).refused
        assert not refused, refused

    def put_dependents(self) -> None:
        """Put a job that very many wait for, and one that waits for a thousand."""
        self.put(["popular"], self.large_queue, "shop.orders.jobs.first", priority=-5)
        jids = [f"dependent-{number}" for number in range(self.size.dependents)]
        self.put(
            jids, self.large_queue, "shop.orders.jobs.then", depends=[self.popular]
        )
        self.put(
            ["eager"],
            self.large_queue,
            "shop.orders.jobs.last",
            depends=jids[:1_000],
        )

    def hold_jobs(self) -> None:
        """Let every worker say what workers say, and hold jobs."""
        for number, worker in enumerate(self.workers):
            queue = self.queues[number + 1]
            info = {
                "host": worker[:15],
                "pid": 4000 + number,
                "pool": "prefork",
                "queues": [queue, "shop-queue-*"],
                "exclude": [],
                "version": "0.1.0",
                "memory": 123_456_789,
                "concurrency": 16,
                "processes": 17,
                "state": "running",
                "started": 1_700_000_000,
            }
            self.client.beat(worker, json.dumps(info), [])
            count = 250 if worker == self.busy_worker else self.size.held
            jids = [f"held-{number}-{n}" for n in range(count)]
            self.put(jids, queue, "shop.orders.jobs.export")
            held = self.client.settle(worker, [], count, [queue]).jobs
            assert len(held) == count

    def put_on_rows(self, feed: Feed, other: Feed) -> None:
        """Put jobs on rows of a model, which are found by looking through all of them."""
        jid = other.check_now.delay().jid
        job = self.client.get(jid)
        assert job is not None
        jids = (f"of-a-row-{number}" for number in range(self.size.rows))
        self.put(jids, job.queue, job.klass, data=job.data)
        for _ in range(60):
            feed.check_now.delay()

    def put_the_rest(self) -> None:
        """Put jobs until there are as many as wanted: a third of them in one queue."""
        size = self.size
        rest = size.jobs - size.failed - size.complete - size.dependents - size.rows
        for turn, start in enumerate(range(0, rest, 500)):
            queue = (
                self.large_queue if turn % 3 == 0 else self.queues[turn % size.queues]
            )
            kind = turn % 10
            jids = (f"job-{number}" for number in range(start, start + 500))
            tags = [
                f"customer-{start}",
                *([self.large_tag] if kind in (3, 6) else []),
            ]
            delay = 86_400 if kind >= 8 else 0
            self.put(jids, queue, f"shop.orders.jobs.do{kind}", delay=delay, tags=tags)
        for number, queue in enumerate(self.queues):  # None is empty.
            self.put([f"last-{number}"], queue, "shop.orders.jobs.do")

    def make_schedules(self) -> None:
        """Let jobs recur, by intervals and by cron, many of them in one queue."""
        for number in range(self.size.schedules):
            queue = self.large_queue if number % 3 == 0 else self.queues[number % 500]
            times: dict[str, Any] = {"every": 3_600 + number, "offset": 600}
            if number % 2:
                times = {"cron": "0 3 * * 1", "timezone": "Europe/Berlin"}
            self.client.schedule_set(
                self.schedule(number),
                *(queue, "shop.orders.jobs.tick", DATA),
                **times,
            )

    def keep_minutes(self) -> None:
        """Fill the counters of every minute of a day, as days of work would."""
        now = int(float(self.client.meta()["now"]) // 60)
        pipe = self.client.redis.pipeline(transaction=False)
        for queue in ("", self.large_queue):
            for minute in range(now - 1_440, now):
                for kind in ("put", "started", "completed", "failed"):
                    key = f"ql:m:{queue}:{minute // 60}:{kind}"
                    pipe.hset(key, str(minute % 60), minute % 3_000)
        pipe.execute()

    def push_to_entities(self) -> None:
        """Push for entities of many queues; of one, some are dead, retrying, running."""
        queue, size = self.entity_queue, self.size
        message = HEAD + FRAME * (LARGEST_MESSAGE // len(FRAME) - 2) + ERROR
        names = [f"order-{number}" for number in range(size.entities)]
        names[0] = ENTITY
        for ending, part in (
            ("fail", names[: size.entities // 4]),
            ("retry", names[size.entities // 4 : size.entities // 2]),
        ):
            self._push(queue, [(name, '{"total":5}') for name in part])
            args: tuple[str | int, ...] = (self.large_group, message)
            args = args if ending == "fail" else (86_400, *args)
            self.end(queue, ((ending, args) for _ in part))
        self._push(queue, [(name, "[1]") for name in names[-100:]])
        self.client.settle(self.busy_worker, [], 100, [queue])
        texts = [json.dumps(f"{number}" + "<&'>" * 15_000) for number in range(60)]
        self._push(queue, [(self.large_entity, text) for text in texts])
        fresh = [*names[size.entities // 2 :], ENTITY]
        self._push(queue, [(name, '"<b>"') for name in fresh])
        for number in range(size.entity_queues):
            self._push(f"shop-entities-{number:03}", [("1", "null")])

    def _push(self, queue: str, pushed: list[tuple[str, str]]) -> None:
        payloads = [
            Payload(entity, json.dumps({"v": 1, "entity": entity}), text)
            for entity, text in pushed
        ]
        self.client.push("", queue, "shop.orders.jobs.sync", payloads)

    def do_the_rest(self) -> None:
        """Follow jobs, pause queues, set options."""
        jids = [f"last-{n}" for n in range(self.size.queues)]
        jids += [f"job-{n}" for n in range(self.size.tracked - len(jids))]
        for start in range(0, min(len(jids), self.size.tracked), 250):
            self.client.track_each(jids[start : start + 250])
        self.client.pause(self.queues[2:40], reason="the provider is down", by="demo")
        for queue in self.queues:
            self.client.config_set(f"{queue}-heartbeat", 120)
            self.client.config_set(f"{queue}-max-concurrency", 50)
