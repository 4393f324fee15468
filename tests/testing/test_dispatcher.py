"""Dispatch inside of TestCase's transactions, and inside of the project's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from django.db import DatabaseError, transaction
from django.test import TestCase, TransactionTestCase

from django_qless import queues
from django_qless.exceptions import JobGone, NotPut
from django_qless.testing import (
    assert_enqueued,
    assert_enqueued_count,
    assert_not_enqueued,
    captured_jobs,
    enqueued_jobs,
    inline_jobs,
)
from tests.jobs_app.models import Feed
from tests.testing.jobs import creates, done, hopeless, note


def waiting() -> int:
    return queues["notes"].counts().waiting


class Undone(Exception):
    """Rolls a transaction back."""


@contextmanager
def rolled_back(**options: Any) -> Iterator[None]:
    """Do something in a transaction that is rolled back."""
    with suppress(Undone), transaction.atomic(**options):
        yield
        raise Undone


class InTestCase(TestCase):
    databases = {"default", "other"}

    def setUp(self) -> None:
        done.clear()

    def test_the_tests_own_transactions_do_not_count(self) -> None:
        handle = note.delay("x")
        assert not handle.pending
        assert handle.refresh().state == "waiting"

    def test_the_projects_own_does(self) -> None:
        with transaction.atomic():
            with transaction.atomic():
                handle = note.delay("x")
            assert handle.pending
            with pytest.raises(NotPut):
                handle.refresh()
            assert_not_enqueued()
        assert not handle.pending
        assert waiting() == 1
        assert_enqueued(note, "x", times=1)

    def test_a_rollback_enqueues_nothing(self) -> None:
        with rolled_back():
            handle = note.delay("x")
        with transaction.atomic():
            note.delay("after")
            transaction.set_rollback(True)
        with transaction.atomic():
            pass
        assert handle.state == "rolled back"
        with pytest.raises(JobGone):
            handle.refresh()
        assert_not_enqueued()
        assert waiting() == 0

    def test_captured_callbacks_have_not_been_rolled_back(self) -> None:
        with self.captureOnCommitCallbacks() as callbacks, transaction.atomic():
            with rolled_back():
                undone = note.delay("x")
            handle = note.delay("y")
            assert (undone.state, handle.state) == ("rolled back", "pending")
        assert len(callbacks) == 1
        assert handle.state == "waiting"

    def test_savepoints_are_respected(self) -> None:
        with transaction.atomic():
            note.delay("first")
            with rolled_back():
                note.delay("undone")
            with transaction.atomic():
                note.delay("second")
        assert [job.args for job in enqueued_jobs()] == [["first"], ["second"]]
        assert waiting() == 2

    def test_a_block_without_a_savepoint(self) -> None:
        with transaction.atomic(savepoint=False):
            note.delay("kept")
            assert waiting() == 0
        assert waiting() == 1
        with rolled_back(savepoint=False):
            note.delay("undone")
        assert waiting() == 1
        transaction.set_rollback(False)
        with transaction.atomic():
            note.delay("later")
        assert [job.args for job in enqueued_jobs()] == [["kept"], ["later"]]

    def test_a_durable_block(self) -> None:
        with transaction.atomic(durable=True):
            note.delay("x")
            assert waiting() == 0
        assert waiting() == 1

    def test_another_database(self) -> None:
        with transaction.atomic(using="other"):
            note.delay("default")
            assert waiting() == 1
            note.using(on_commit="other").delay("other")
            assert waiting() == 1
        assert waiting() == 2

    def test_captured_callbacks_enqueue_it_once(self) -> None:
        with self.captureOnCommitCallbacks(execute=True) as callbacks:
            with transaction.atomic():
                note.delay("x")
            transaction.on_commit(lambda: note.delay("called back") and None)
        assert len(callbacks) == 2
        assert [job.args for job in enqueued_jobs()] == [["x"], ["called back"]]
        assert waiting() == 2

    def test_captured(self) -> None:
        with captured_jobs() as jobs:
            with transaction.atomic():
                note.delay("x")
                assert jobs == []
            assert jobs.only.args == ["x"]
            with rolled_back():
                note.delay("undone")
            assert len(jobs) == 1
        assert waiting() == 0

    def test_what_is_captured_is_decided_when_it_is_enqueued(self) -> None:
        with transaction.atomic():
            with captured_jobs() as jobs:
                note.delay("captured")
            note.delay("put")
        assert jobs.only.args == ["captured"]
        assert waiting() == 1

    def test_inline(self) -> None:
        with inline_jobs():
            with transaction.atomic():
                feed = Feed.objects.create(title="old")
                feed.rename.delay("new")
                feed.refresh_from_db()
                assert feed.title == "old"
            feed.refresh_from_db()
            assert feed.title == "new"

    def test_a_job_that_has_a_transaction_of_its_own(self) -> None:
        with inline_jobs() as runs, transaction.atomic():
            creates.delay("once")
            note.delay("next")
        assert [feed.title for feed in Feed.objects.all()] == ["once"]
        assert done == ["next"]
        assert len(runs) == 2

    def test_two_databases(self) -> None:
        feed = Feed.objects.using("other").create(title="elsewhere")
        with transaction.atomic(using="other"):
            with transaction.atomic(), captured_jobs() as jobs:
                feed.rename.delay("new")
            assert jobs == []
        assert len(jobs) == 1
        assert queues["feeds"].counts().waiting == 0

    def test_what_a_job_raises_at_the_commit(self) -> None:
        @transaction.atomic
        def sign_up() -> None:
            Feed.objects.create(title="kept")
            note.delay("first")
            hopeless.delay()
            note.delay("lost, as Django's own callbacks are")

        with inline_jobs(), pytest.raises(LookupError):
            sign_up()
        assert Feed.objects.filter(title="kept").exists()
        with inline_jobs(), transaction.atomic():
            note.delay("second")
        assert done == ["first", "second"]

    def test_an_error_of_the_database_breaks_nothing(self) -> None:
        with suppress(DatabaseError), transaction.atomic():
            note.delay("undone")
            Feed.objects.raw("select nonsense")[0]
            raise AssertionError("the database takes everything")
        note.delay("x")
        assert_enqueued_count(1)


class InTransactionTestCase(TransactionTestCase):
    """Transactions commit, as in production."""

    def test_commit_and_rollback(self) -> None:
        with captured_jobs() as jobs:
            with transaction.atomic():
                note.delay("x")
                assert jobs == []
            assert len(jobs) == 1
            with rolled_back():
                note.delay("undone")
            with transaction.atomic(), rolled_back():
                note.delay("undone")
        assert len(jobs) == 1

    def test_inline(self) -> None:
        with inline_jobs(), transaction.atomic():
            feed = Feed.objects.create(title="old")
            feed.rename.delay("new")
        feed.refresh_from_db()
        assert feed.title == "new"


@pytest.mark.django_db
def test_with_the_fixture_of_pytest_django() -> None:
    with transaction.atomic():
        note.delay("x")
        assert waiting() == 0
    assert waiting() == 1
