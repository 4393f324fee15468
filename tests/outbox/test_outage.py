"""ON_OUTAGE: what enqueueing does while the server is away."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.test import override_settings
from django.utils import timezone

from django_qless import Fail, conf, current_job, job, workflow
from django_qless.core import ConnectionLost
from django_qless.exceptions import CannotRunInline
from django_qless.outbox import backlog
from django_qless.outbox.models import Entry
from tests.jobs_app import jobs, secret
from tests.jobs_app.models import Feed, Parcel

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def waiting(qless: Any) -> list[str]:
    return [job.jid for job in qless.peek("default", 100)]


def test_it_raises_if_not_told_otherwise(qless, away) -> None:
    with away(), pytest.raises(ConnectionLost):
        jobs.add.delay(1)
    assert not Entry.objects.exists()


@job(retries=0)
def spawning_while_away(policy: str) -> str:
    """Spawns a job while its server is away; returns what became of it."""
    spawn = current_job().spawn
    nowhere = {"LOCATION": "unix:///nowhere.sock", "PATIENCE": 0.01}
    with override_settings(QLESS={"default": {**nowhere, "ON_OUTAGE": policy}}):
        try:
            spawn([jobs.add.args(1)])
        except ConnectionLost:
            return f"refused, {Entry.objects.count()} written"
    return "spawned"


@pytest.mark.parametrize("policy", ["buffer", "inline"])
def test_a_running_job_spawns_nothing_without_the_server(qless, work, policy) -> None:
    handle = spawning_while_away.delay(policy)
    assert work() == 1
    assert handle.result() == "refused, 0 written"


def test_buffer_writes_also_outside_of_transactions(qless, away, sweep_all) -> None:
    parcel = Parcel.objects.create()
    with away(ON_OUTAGE="buffer"):
        one = jobs.add.delay(1)
        many = jobs.add.enqueue_many(jobs.add.args(i) for i in range(3))
        flow = workflow("flow")
        node = flow.add(jobs.add.args(5))
        flow.enqueue()
        jobs.add.recur(6, every=60)
        parcel.track.push({"n": 1})
        at_once = asyncio.run(jobs.add.adelay(7))
    assert one.pending
    assert at_once.pending
    assert Entry.objects.count() == 6
    assert sweep_all().entries == 6
    jids = [one.jid, *(each.jid for each in many), node.jid, at_once.jid]
    assert [jid for jid in waiting(qless) if "recur" not in jid] == jids
    assert qless.schedule_list().schedules


def test_more_dependencies_than_a_call_takes_are_delivered(
    qless, away, sweep_all
) -> None:
    first = jobs.add.enqueue_many(jobs.add.args(n) for n in range(1_200))
    jids = [each.jid for each in first]
    with away(ON_OUTAGE="buffer"):
        handle = jobs.add.using(after_jids=jids).delay(7)
    assert sweep_all().error is None
    job = qless.get(handle.jid)
    assert (job.state, sorted(job.dependencies)) == ("depends", sorted(jids))


def test_buffer_writes_from_asynchronous_code_too(qless, away, sweep_all) -> None:
    with away(ON_OUTAGE="buffer"):
        handle = asyncio.run(jobs.add.adelay(1))
    assert handle.pending
    assert Entry.objects.count() == sweep_all().entries == 1
    assert waiting(qless) == [handle.jid]


def test_asynchronous_code_writes_nothing_while_the_server_is_there(
    qless, server
) -> None:
    alias = {"LOCATION": server.url, "ON_OUTAGE": "buffer"}
    with override_settings(QLESS={"default": alias}):
        handle = asyncio.run(jobs.add.adelay(1))
    assert (handle.pending, handle.created) == (False, True)
    assert waiting(qless) == [handle.jid]
    assert not Entry.objects.exists()


def test_buffer_writes_what_waited_for_a_commit(qless, away, sweep_all) -> None:
    with away(ON_OUTAGE="buffer"), transaction.atomic():
        first = jobs.add.delay(1)
        second = jobs.add.delay(2)
        assert not Entry.objects.exists()
    assert Entry.objects.count() == 2
    sweep_all()
    assert waiting(qless) == [first.jid, second.jid]


def test_buffer_keeps_the_order_when_the_server_is_back(qless, away, server) -> None:
    with away(ON_OUTAGE="buffer"):
        jids = [jobs.add.delay(number).jid for number in range(3)]
    with override_settings(
        QLESS={"default": {"LOCATION": server.url, "ON_OUTAGE": "buffer"}}
    ):
        backlog._behind["default", "default"] = 0.0
        last = jobs.add.delay(7)
        assert (last.pending, last.created) == (False, True)
    assert waiting(qless) == [*jids, last.jid]
    assert not Entry.objects.exists()


def test_buffer_waits_on_when_a_delivery_meets_the_outage_again(
    qless, away, sweep_all, caplog
) -> None:
    caplog.set_level(logging.INFO)
    with away(ON_OUTAGE="buffer"):
        first = jobs.add.delay(1)
        backlog._behind["default", "default"] = 0.0
        second = jobs.add.delay(2)
        assert (first.pending, second.pending) == (True, True)
        assert backlog._behind["default", "default"] > 0.0
    assert "nothing waits any more" not in caplog.text
    assert sweep_all().entries == 2
    assert waiting(qless) == [first.jid, second.jid]


def test_with_the_server_there_nothing_is_written(
    server, django_assert_num_queries
) -> None:
    alias = {"LOCATION": server.url, "ON_OUTAGE": "buffer"}
    with override_settings(QLESS={"default": alias}), django_assert_num_queries(0):
        assert jobs.add.delay(1).created


def test_a_call_of_which_only_the_reply_was_lost_is_not_done_again(
    qless, server, sweep_all, monkeypatch
) -> None:
    from django_qless.enqueue.request import EnqueueBatch

    original = EnqueueBatch.send

    def send(batch: Any) -> None:
        original(batch)
        raise ConnectionLost("the reply is lost")

    alias = {"LOCATION": server.url, "ON_OUTAGE": "buffer"}
    with override_settings(QLESS={"default": alias}):
        with monkeypatch.context() as patch:
            patch.setattr(EnqueueBatch, "send", send)
            handle = jobs.add.delay(1)
        assert Entry.objects.count() == 1
        assert qless.cancel(handle.jid)
        qless.config_set("canceled-history", 0)
        assert sweep_all().entries == 1
    assert waiting(qless) == []


def test_inline_runs_the_job_here_and_now(qless, away, caplog) -> None:
    feed = Feed.objects.create(title="old")
    with away(ON_OUTAGE="inline"):
        handle = feed.rename.delay("new")
    feed.refresh_from_db()
    assert feed.title == "new"
    assert (handle.pending, handle.created) == (False, False)
    assert "the server is away: the job runs inline" in caplog.text
    assert handle.jid in caplog.text


def test_inline_raises_what_the_job_raises(qless, away) -> None:
    with away(ON_OUTAGE="inline"), pytest.raises(Fail):
        jobs.failing.delay("group", "why")


def test_inline_on_commit_logs_what_the_job_raises(qless, away, caplog) -> None:
    feed = Feed.objects.create(title="old")
    with away(ON_OUTAGE="inline"), transaction.atomic():
        jobs.failing.delay("group", "why")
        feed.rename.delay("new")
    assert "a job that ran inline on commit has failed" in caplog.text
    assert "why" in caplog.text
    feed.refresh_from_db()
    assert feed.title == "new"


def test_inline_on_commit_logs_no_frames_with_sensitive_arguments(
    qless, away, caplog
) -> None:
    with away(ON_OUTAGE="inline"), transaction.atomic():
        secret.turn_away.delay("Ann", "hush")
    assert "PermissionError: Ann may not" in caplog.text
    assert [record.exc_info for record in caplog.records] == [None, None]


def test_of_many_inline_on_commit_one_that_fails_keeps_no_other_from_its_run(
    qless, away, caplog
) -> None:
    feed = Feed.objects.create(title="old")
    with away(ON_OUTAGE="inline"), transaction.atomic():
        handles = Feed.rename.enqueue_many(
            [Feed.rename.args(feed, None), Feed.rename.args(feed, "new")]
        )
    assert "a job that ran inline on commit has failed" in caplog.text
    feed.refresh_from_db()
    assert feed.title == "new"
    assert not any(handle.pending for handle in handles)


def test_what_cannot_run_inline_on_commit_is_told_by_the_commit(qless, away) -> None:
    with (
        away(ON_OUTAGE="inline"),
        pytest.raises(CannotRunInline, match="run later"),
        transaction.atomic(),
    ):
        handle = jobs.add.using(delay=5).delay(1)
    assert handle.pending
    assert waiting(qless) == []


def test_inline_from_asynchronous_code(qless, away) -> None:
    feed = Feed.objects.create(title="old")

    async def enqueue() -> None:
        await feed.rename.adelay("new")
        await jobs.aadd.adelay(1, 2)
        await sync_to_async(feed.refresh_from_db)()

    with away(ON_OUTAGE="inline"):
        asyncio.run(enqueue())
    assert feed.title == "new"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"delay": 5}, "run later"),
        ({"run_at": timezone.now() + timedelta(days=1)}, "run later"),
        ({"after_jids": ["other"]}, "waits for other jobs"),
        ({"unique": "key"}, "unique"),
    ],
)
def test_what_cannot_run_inline_is_refused(qless, away, options, words) -> None:
    with away(ON_OUTAGE="inline"), pytest.raises(CannotRunInline, match=words) as told:
        jobs.add.using(**options).delay(1)
    assert "ON_OUTAGE" in str(told.value)
    assert isinstance(told.value.__cause__, ConnectionLost)


def test_neither_workflows_nor_schedules_nor_pushes_run_inline(qless, away) -> None:
    flow = workflow("flow")
    flow.add(jobs.add.args(1))
    parcel = Parcel.objects.create()
    with away(ON_OUTAGE="inline"):
        for enqueue in (
            flow.enqueue,
            lambda: jobs.add.recur(1, every=60),
            lambda: parcel.track.push(1),
        ):
            with pytest.raises(CannotRunInline):
                enqueue()


def test_none_of_many_runs_if_one_cannot(qless, away) -> None:
    feed = Feed.objects.create(title="old")
    with away(ON_OUTAGE="inline"), pytest.raises(CannotRunInline):
        Feed.rename.enqueue_many(
            [
                Feed.rename.args(feed, "new"),
                Feed.rename.using(delay=5).args(feed, "newer"),
            ]
        )
    feed.refresh_from_db()
    assert feed.title == "old"


@pytest.mark.parametrize("value", ["ignore", None, True, ["raise"]])
def test_other_values_are_refused(value) -> None:
    alias = {"LOCATION": "redis://localhost:1", "ON_OUTAGE": value}
    with (
        override_settings(QLESS={"default": alias}),
        pytest.raises(ImproperlyConfigured, match='"raise", "buffer" or "inline"'),
    ):
        conf.alias("default")
