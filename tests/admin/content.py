"""Jobs in every state, and all else that pages show, made through the core's calls.

Each text that an outsider can choose comes from a `Words`: plain ones to look at, or
hostile ones to see what becomes of them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from django_qless.core import Client, Put, Settlement
from django_qless.core.commands.entities import Payload

if TYPE_CHECKING:
    from django_qless.core import Reserved

TRACEBACK = """Traceback (most recent call last):
  File "/srv/shop/orders/jobs.py", line 87, in charge
    gateway.charge(order.card, order.total)
  File "/srv/shop/payment/gateway.py", line 31, in charge
    raise Declined(answer["reason"])
shop.payment.gateway.Declined: {}
"""

ENTITY = "o-1"
"""An entity that is queued, and has dead payloads."""

Words = Callable[[str], str]
"""Returns the text for a field, such as "queue" or "tag"."""


def plain(of: str) -> str:
    """Return the words that a well-behaved project would use."""
    return PLAIN.get(of, f"{of} of a job")


PLAIN = {
    "queue": "mail",
    "jid": "4f1c2e",
    "klass": "tests.jobs_app.jobs.add",
    "tag": "customer:12",
    "group": "ValueError-mail",
    "worker": "web-1-4711-aa",
    "schedule": "nightly-report",
    "schedule name": "The nightly report",
    "reason": "the mail provider is down until noon",
    "message": TRACEBACK.format("insufficient funds"),
    "log": "asked the gateway",
    "progress": "page 12 of 40",
    "unique": "order:12",
    "workflow": "import-2026",
    "by": "demo",
    "option": "app-colour",
    "value": "green",
}


@dataclass
class Content:
    """What has been made: by kind, the names that URLs can name."""

    queues: list[str] = field(default_factory=list)
    jobs: dict[str, str] = field(default_factory=dict)
    """By state, and by what else is special about one."""
    groups: list[str] = field(default_factory=list)
    workers: list[str] = field(default_factory=list)
    schedules: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)
    tokens: dict[str, str] = field(default_factory=dict)
    entity_queues: list[str] = field(default_factory=list)
    entities: list[str] = field(default_factory=list)


class Filler:
    """Fills a namespace. Its parts can be called alone, in this order."""

    def __init__(self, client: Client, words: Words = plain) -> None:
        self.client, self.words = client, words
        self.content = Content()
        self.queue, self.worker = words("queue"), words("worker")
        self.tag = words("tag")
        self.data = json.dumps(
            {
                "v": 1,
                "args": [12, words("argument")],
                "kwargs": {words("keyword"): words("value"), "deep": [{"x": [1]}]},
            }
        )

    def everything(self) -> Content:
        """Fill the namespace with all there is."""
        self.worker_alive()
        self.ended()
        self.held()
        self.ahead()
        self.linked()
        self.schedules()
        self.entities()
        self.rest()
        return self.content

    def put(self, what: str, queue: str | None = None, **options: object) -> str:
        """Put a job that is special by `what`; return its jid."""
        jid = f"{self.words('jid')}.{what}"
        item = Put(
            jid,
            queue or self.queue,
            self.words("klass"),
            self.data,
            **{"tags": [self.tag, "common"], **options},  # type: ignore[arg-type]
        )
        self.client.put_many("", [item])
        self.content.jobs[what] = jid
        return jid

    def take(self, what: str, **options: object) -> Reserved:
        """Put a job and let the worker take it; jobs put before must not be ready."""
        jid = self.put(what, priority=1_000_000, **options)
        (held,) = self.client.settle(self.worker, [], 1, [self.queue]).jobs
        assert held.jid == jid
        self.content.tokens[jid] = held.token
        return held

    def settle(self, held: Reserved, verb: str, *args: str | int | float) -> None:
        """End a job as a worker does."""
        ended = Settlement(held.jid, held.token, verb, args)
        refused = self.client.settle(self.worker, [ended], 0, ["-"]).refused
        assert not refused, refused

    def worker_alive(self) -> None:
        """Let a worker say what workers say."""
        info = {
            "host": self.words("host"),
            "pid": 4711,
            "pool": "prefork",
            "queues": [self.queue, self.words("queue 2")],
            "version": "0.1.0",
            "memory": 123_456_789,
            "concurrency": 4,
            "state": "running",
            "started": 1_700_000_000,
        }
        self.client.beat(self.worker, json.dumps(info), [])
        self.client.beat(self.words("worker 2"), "", [])
        self.content.workers += [self.worker, self.words("worker 2")]

    def ended(self) -> None:
        """Let jobs complete and fail."""
        result = json.dumps({"sent": self.words("result"), "number": 12})
        self.settle(self.take("complete"), "complete", result, 3600)
        group = self.words("group")
        self.settle(self.take("failed"), "fail", group, self.words("message"))
        message = self.words("message 2")
        self.settle(self.take("failed 2"), "fail", self.words("group 2"), message)
        self.content.groups += [group, self.words("group 2")]
        canceled = self.take("canceled")
        self.client.log(canceled.jid, self.words("log"))
        self.client.cancel([canceled.jid])
        again = self.take("retried", retries=3)
        self.settle(again, "retry", 3600, group, self.words("message"))

    def held(self) -> None:
        """Let a worker hold jobs, one of them for too long."""
        running = self.take("running")
        text = self.words("progress")
        self.client.progress(running.jid, running.token, 0.3, text)
        details = json.dumps({self.words("detail"): self.words("detail value")})
        # A history counts milliseconds: some are to pass before this entry.
        time.sleep(0.005)
        self.client.log(running.jid, self.words("log"), details)
        stalled = self.take("stalled")
        # As it is when a lock has ended, without waiting for the end of one.
        client, long_ago = self.client, 1
        prefix, jid = client.prefix, stalled.jid
        client.redis.zadd(f"{prefix}q:{self.queue}-locks", {jid: long_ago})
        client.redis.zadd(f"{prefix}w:{self.worker}:jobs", {jid: long_ago})
        client.redis.hset(f"{prefix}j:{jid}", "expires", long_ago)

    def ahead(self) -> None:
        """Put jobs that have yet to run."""
        context = json.dumps({self.words("context"): self.words("context value")})
        self.put("waiting", priority=5, context=context)
        self.put("scheduled", delay=3600)
        self.put("unique", unique=self.words("unique"), delay=7200)
        self.put("expires", expires=86_400, delay=60)
        for number in range(3):
            self.put(f"other {number}", self.words("queue 2"))
        self.content.queues += [self.queue, self.words("queue 2")]

    def linked(self) -> None:
        """Put jobs that depend on others, some of them as a workflow."""
        waiting = self.content.jobs["waiting"]
        self.put("depends", depends=[waiting])
        self.put("depends 2", depends=[waiting, self.content.jobs["depends"]])
        first, last = (f"{self.words('jid')}.{name}" for name in ("first", "last"))
        self.client.put_workflow(
            "",
            plain("workflow"),  # There is not much that such an id may hold.
            [
                Put(first, self.words("queue 3"), self.words("klass"), self.data),
                Put(
                    last,
                    self.words("queue 3"),
                    self.words("klass"),
                    self.data,
                    depends=[first],
                ),
            ],
            json.dumps({"name": self.words("workflow name")}),
        )
        self.content.jobs |= {"first": first, "last": last}
        self.content.queues.append(self.words("queue 3"))

    def schedules(self) -> None:
        """Let jobs recur, by an interval and by cron, one of them paused."""
        name = self.words("schedule")
        klass = self.words("klass")
        more = {"name": self.words("schedule name"), "tags": [self.tag]}
        ids = [f"{name}{end}" for end in (".every", ".cron", ".paused")]
        set_ = self.client.schedule_set
        set_(ids[0], self.queue, klass, self.data, every=600, offset=60, **more)
        cron = {"cron": "0 3 * * 1", "timezone": "Europe/Berlin"}
        set_(ids[1], self.queue, klass, self.data, **cron, **more)
        set_(ids[2], self.queue, klass, self.data, cron="5 4 * * *", **more)
        self.client.schedule_pause(ids[2])
        self.client.schedule_run(ids[0])
        self.content.schedules += ids

    def entities(self) -> None:
        """Push payloads for entities, which are dead, retrying, running and fresh."""
        queue, error = (
            self.words("queue 5"),
            (self.words("group"), self.words("message")),
        )
        both, retried, running = ENTITY, self.words("entity"), self.words("entity 2")

        def push(entity: str, *scores: float) -> None:
            head = json.dumps({"v": 1, "entity": entity})
            text = json.dumps({self.words("payload"): [1, self.words("value")]})
            pushed = [Payload(entity, head, text, score) for score in scores]
            self.client.push("", queue, self.words("klass"), pushed, retries=5)

        def end(verb: str, *args: str | int) -> None:
            for held in self.client.settle(self.worker, [], 2, [queue]).jobs:
                self.settle(held, verb, *args)

        push(both, 1)
        end("fail", *error)
        push(both, 2)
        push(retried, 3, 1.5)
        end("retry", 3600, *error)
        push(running, 1)
        self.client.settle(self.worker, [], 1, [queue])
        push(running, 2)
        push(self.words("entity 3"), 1)
        self.content.entities += [both, retried, running]
        self.content.entity_queues.append(queue)

    def rest(self) -> None:
        """Pause a queue, follow a job, set options."""
        reason, by = self.words("reason"), self.words("by")
        self.client.pause([self.queue], reason=reason, by=by)
        self.client.track(self.content.jobs["failed"])
        self.client.track(self.content.jobs["waiting"])
        option = self.words("option")
        self.client.config_set(option, self.words("value"))
        self.client.config_set(f"{self.queue}-heartbeat", 120)
        self.content.options += [option, "heartbeat"]
        self.content.tags += [self.tag, "common"]


def fill(client: Client, words: Words = plain) -> Content:
    """Fill an empty namespace with all that pages show; return what can be named."""
    return Filler(client, words).everything()
