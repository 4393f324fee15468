"""What type checkers make of `@job`: mypy and pyright must both agree with this file.

A comment that ignores an error is needed there: where there is none, checkers complain.
"""

from __future__ import annotations

from typing import Any, assert_type

from django.db import models

from django_qless import config, failures, job, jobs, queues, tags, tracked, workers
from django_qless.core import AsyncJob, Job
from django_qless.job_types.handle import JobHandle


@job
def add(a: int, *, b: int = 2) -> int:
    return a + b


@job("mail", retries=3, tags=["x"])
async def double(a: int) -> int:
    return 2 * a


@job
def anything(value: object, times: int) -> str:
    return str(value) * times


@job
def send(address: str) -> None: ...


@job
def forget(user_id: str) -> None: ...


class Feed(models.Model):
    class Meta:
        app_label = "static_types"

    def __str__(self) -> str:
        return "feed"

    @job
    def refresh(self, n: int) -> str:
        return str(n)

    @job(timeout=5)
    async def arefresh(self, n: int) -> str:
        return str(n)

    @classmethod
    @job
    def count(cls, n: int) -> int:
        return n

    @classmethod
    @job("reports", cron="@daily")
    async def acount(cls, n: int) -> int:
        return n

    @staticmethod
    @job
    def ping(n: int) -> bool:
        return bool(n)


class Podcast(Feed):
    def __str__(self) -> str:
        return "podcast"


@job("first")
class Steps:
    @staticmethod
    def first(running: Any) -> None: ...


def functions() -> None:
    assert_type(add(1), int)
    assert_type(add.delay(1, b=3), JobHandle[int])
    assert_type(add.using(priority=3, queue="bulk").delay(1).result(), int)
    assert_type(add.enqueue_many([add.args(1)]), list[JobHandle[int]])
    assert_type(anything.delay(1, 2), JobHandle[str])
    add.delay("x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    add.delay()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    add.using(prioritty=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    add.using(retries="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    job("mail", retriess=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


async def coroutines() -> None:
    assert_type(await double(1), int)
    assert_type(double.delay(1), JobHandle[int])
    assert_type(await double.adelay(1), JobHandle[int])
    assert_type(await (await double.using(delay=5).aenqueue(1)).aresult(), int)


def methods(feed: Feed) -> None:
    assert_type(feed.refresh(1), str)
    assert_type(feed.refresh.delay(1), JobHandle[str])
    assert_type(feed.arefresh.delay(1).result(), str)
    assert_type(Feed.refresh.delay(feed, 1), JobHandle[str])
    assert_type(Feed.count(1), int)
    assert_type(Feed.count.delay(1), JobHandle[int])
    assert_type(Feed.acount.delay(1).result(), int)
    assert_type(Podcast.count.using(delay=5).delay(1), JobHandle[int])
    assert_type(Feed.ping.delay(1), JobHandle[bool])
    Feed.count.delay()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    feed.refresh.delay("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def batches(feed: Feed) -> None:
    add.enqueue_many([add.args(n) for n in range(3)])
    add.enqueue_many([add.using(priority=3).args(1)])
    add.enqueue_many(map(add.args, [1, 2]))
    batch = [anything.args("x", 2), anything.args(None, times=2)]
    anything.enqueue_many(batch)
    Feed.refresh.enqueue_many([Feed.refresh.args(feed, 1)])
    Feed.refresh.enqueue_many(each.refresh.args(1) for each in [feed])
    Feed.count.enqueue_many([Feed.count.args(1)])
    Feed.ping.enqueue_many([Feed.ping.args(1)])
    add.enqueue_many([anything.args(1, 2)])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    send.enqueue_many([forget.args("ada")])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    send.enqueue_many([send.args("ada"), forget.args("ada")])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    send.using(priority=3).enqueue_many(forget.args("ada") for _ in range(3))  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    feed.refresh.enqueue_many([add.args(1)])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]


async def batches_in_asyncio(feed: Feed) -> None:
    await double.aenqueue_many([double.args(1)])
    await Feed.arefresh.aenqueue_many([feed.arefresh.args(1)])
    await double.aenqueue_many([send.args("ada")])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]


def classes() -> None:
    assert_type(Steps, type[Steps])


def operators_objects() -> None:
    assert_type(queues["mail"].length(), int)
    assert_type(queues["mail"].peek(2), list[Job])
    assert_type([each.name for each in workers.counts()], list[str])
    assert_type(failures.groups(), dict[str, int])
    assert_type(failures.using_alias("other").jobs("group", limit=5).jids, list[str])
    assert_type(tags.top(), list[str])
    assert_type(tracked.jobs().jobs, list[Job])
    assert_type(jobs.list(state="failed").handles, list[JobHandle[Any]])
    queues["mail"].pause(4)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    workers.order("worker", "sleep")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    config.sett("heartbeat", 30)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


async def operators_objects_in_asyncio() -> None:
    assert_type(await queues["mail"].alength(), int)
    assert_type(await queues["mail"].apeek(2), list[AsyncJob])
    assert_type((await tracked.ajobs()).jobs, list[AsyncJob])
    await config.aset("heartbeat", 30)
    await queues["mail"].apause(4)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
