"""The helpers for users' tests know the outbox."""

from __future__ import annotations

import pytest
from django.db import transaction
from django.test import TestCase

from django_qless import workflow
from django_qless.outbox.models import Entry
from django_qless.testing import (
    QlessTestMixin,
    captured_jobs,
    enqueued_jobs,
    inline_jobs,
    run_jobs,
)
from django_qless.testing.dispatcher import clean
from tests.jobs_app import jobs
from tests.jobs_app.models import Feed

kept = jobs.add.using(on_commit="outbox")


@pytest.fixture(autouse=True)
def clean_server():
    clean()
    yield
    clean()


class InTestCase(QlessTestMixin, TestCase):
    def test_it_is_enqueued_where_the_transaction_would_commit(self) -> None:
        with transaction.atomic():
            handle = kept.delay(1)
            assert handle.pending
            assert Entry.objects.count() == 1
        assert not handle.pending
        assert not Entry.objects.exists()
        self.assertEnqueued(jobs.add, 1)
        assert run_jobs().only.result == 1

    def test_a_rollback_enqueues_nothing(self) -> None:
        with transaction.atomic():
            kept.delay(1)
            transaction.set_rollback(True)
        assert enqueued_jobs() == []
        assert not Entry.objects.exists()

    def test_captured_jobs_leave_nothing_in_the_table(self) -> None:
        with captured_jobs() as found, transaction.atomic():
            kept.delay(1)
            kept.enqueue_many([kept.args(2), kept.args(3)])
            flow = workflow(on_commit="outbox")
            flow.add(jobs.add.args(4))
            flow.enqueue()
            assert found == []
        assert [each.args for each in found] == [[1], [2], [3], [4]]
        assert not Entry.objects.exists()

    def test_inline_jobs_run(self) -> None:
        feed = Feed.objects.create(title="old")
        with inline_jobs() as runs, transaction.atomic():
            Feed.rename.using(on_commit="outbox").delay(feed, "new")
        assert len(runs) == 1
        feed.refresh_from_db()
        assert feed.title == "new"
        assert not Entry.objects.exists()

    def test_the_hooks_of_django_find_it(self) -> None:
        with (
            self.captureOnCommitCallbacks(execute=True) as callbacks,
            transaction.atomic(),
        ):
            handle = kept.delay(1)
        assert len(callbacks) == 1
        assert handle.created
