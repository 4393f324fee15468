"""When a job is put: at the commit of its database, or at once."""

from __future__ import annotations

import asyncio

import pytest
from django.db import transaction
from django.test import TestCase

from django_qless.exceptions import NotPut
from tests.jobs_app import jobs
from tests.jobs_app.models import Feed

BOTH = ["default", "other"]
pytestmark = pytest.mark.django_db(transaction=True, databases=BOTH)


def test_outside_a_transaction_at_once(qless) -> None:
    handle = jobs.add.delay(1)
    assert not handle.pending
    assert qless.get(handle.jid)


def test_inside_one_at_its_commit(qless, work) -> None:
    with transaction.atomic():
        handle = jobs.add.delay(1)
        assert handle.pending
        assert handle.state == "pending"
        assert len(handle.jid) == 20
        assert qless.get(handle.jid) is None
        for ask in (handle.refresh, handle.result, handle.cancel):
            with pytest.raises(NotPut, match=rf"Job {handle.jid} .* is not put yet"):
                ask()
    assert not handle.pending
    assert handle.state == handle.refresh().state == "waiting"
    work()
    assert handle.result() == 1


def test_a_rollback_puts_nothing(qless) -> None:
    feed = Feed.objects.create()
    with transaction.atomic():
        first = jobs.add.delay(1)
        jobs.add.using(after=[first]).delay(2)
        jobs.add.enqueue_many([jobs.add.args(3)])
        feed.rename.delay("x")
        transaction.set_rollback(True)
    assert qless.queues() == []
    assert first.pending


def test_savepoints_are_respected(qless) -> None:
    with transaction.atomic():
        kept = jobs.add.delay(1)
        with transaction.atomic():
            undone = jobs.add.delay(2)
            transaction.set_rollback(True)
        with transaction.atomic():
            inner = jobs.add.delay(3)
        assert qless.queues() == []
    waiting = [job.jid for job in qless.peek("default", 9)]
    assert waiting == [kept.jid, inner.jid]
    assert undone.pending


def test_many_and_after_wait_as_well(qless, work) -> None:
    with transaction.atomic():
        many = jobs.add.enqueue_many(jobs.add.args(i) for i in range(1_500))
        last = jobs.add.using(after=many, queue="last").delay(7)
        none = jobs.add.enqueue_many([])
        assert none == []
        assert qless.queues() == []
    assert qless.queue_counts("default").waiting == 1_500
    assert len(last.refresh().dependencies) == 1_500


def test_each_database_has_its_own_commit(qless) -> None:
    with transaction.atomic(using="other"):
        at_once = jobs.add.delay(1)
        later = jobs.add.using(on_commit="other").delay(2)
        with transaction.atomic():
            default = jobs.add.delay(3)
            assert (at_once.pending, later.pending, default.pending) == (
                False,
                True,
                True,
            )
        assert (later.pending, default.pending) == (True, False)
    assert not later.pending


def test_false_puts_at_once(qless) -> None:
    with transaction.atomic():
        handle = jobs.add.using(on_commit=False).delay(1)
        assert qless.get(handle.jid)
        transaction.set_rollback(True)
    assert qless.get(handle.jid)


def test_what_would_be_put_before_its_dependency_is_refused(qless) -> None:
    with transaction.atomic():
        first = jobs.add.delay(1)
        with pytest.raises(NotPut, match=f"put before job {first.jid}"):
            jobs.add.using(after=[first], on_commit=False).delay(2)
    jobs.add.using(after=[first], on_commit=False).delay(2)


def test_the_delay_counts_from_the_commit(qless) -> None:
    with transaction.atomic():
        handle = jobs.add.using(delay=60).delay(1)
        assert handle.state == "pending"
    assert handle.state == "scheduled"


def test_from_asynchronous_code(qless) -> None:
    async def put():
        return await jobs.add.aenqueue(1)

    assert qless.get(asyncio.run(put()).jid)


class InsideTestCase(TestCase):
    """As in users' own tests: a transaction around each, whose commit never comes."""

    @pytest.fixture(autouse=True)
    def _qless(self, qless) -> None:
        self.qless = qless

    def test_nothing_is_put_by_itself(self) -> None:
        handle = jobs.add.delay(1)
        assert handle.pending
        assert self.qless.queues() == []

    def test_captured_callbacks_put_it(self) -> None:
        with self.captureOnCommitCallbacks(execute=True) as callbacks:
            handle = jobs.add.delay(1)
        assert len(callbacks) == 1
        assert self.qless.get(handle.jid)
