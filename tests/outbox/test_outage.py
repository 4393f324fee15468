"""ON_OUTAGE: what enqueueing does while the server is away."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.test import override_settings

from django_qless import conf, current_job, job, workflow
from django_qless.core import ConnectionLost
from django_qless.outbox import backlog
from django_qless.outbox.models import Entry
from tests.jobs_app import jobs
from tests.jobs_app.models import Parcel

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def waiting(qless: Any) -> list[str]:
    return [job.jid for job in qless.peek("default", 100)]


def test_it_raises_if_not_told_otherwise(qless, away) -> None:
    with away(), pytest.raises(ConnectionLost):
        jobs.add.delay(1)
    assert not Entry.objects.exists()


@job(retries=0)
def spawning_while_away() -> str:
    """Spawns a job while its server is away; returns what became of it."""
    spawn = current_job().spawn
    nowhere = {"LOCATION": "unix:///nowhere.sock", "PATIENCE": 0.01}
    with override_settings(QLESS={"default": {**nowhere, "ON_OUTAGE": "buffer"}}):
        try:
            spawn([jobs.add.args(1)])
        except ConnectionLost:
            return f"refused, {Entry.objects.count()} written"
    return "spawned"


def test_a_running_job_spawns_nothing_without_the_server(qless, work) -> None:
    handle = spawning_while_away.delay()
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


@pytest.mark.parametrize("value", ["ignore", None, True, ["raise"]])
def test_other_values_are_refused(value) -> None:
    alias = {"LOCATION": "redis://localhost:1", "ON_OUTAGE": value}
    with (
        override_settings(QLESS={"default": alias}),
        pytest.raises(ImproperlyConfigured, match='"raise" or "buffer"'),
    ):
        conf.alias("default")
