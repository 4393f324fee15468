"""QlessTestMixin: the helpers as methods, and a clean namespace for each test."""

from __future__ import annotations

import unittest
from unittest import IsolatedAsyncioTestCase
from urllib.request import urlopen

import pytest
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.test import LiveServerTestCase, SimpleTestCase, TestCase, override_settings
from django.urls import path

from django_qless import queues
from django_qless.testing import QlessTestMixin, enqueued_jobs
from tests.jobs_app.models import Feed
from tests.testing.jobs import done, note


class Methods(QlessTestMixin, TestCase):
    def test_assertions(self) -> None:
        handle = note.delay("x")
        assert self.assertEnqueued(note, "x", times=1).handle is handle
        self.assertEnqueuedCount(1, queue="notes")
        self.assertNotEnqueued(note, "y")
        assert self.enqueued_jobs == enqueued_jobs()
        for wrong in (
            lambda: self.assertEnqueued(note, "y"),
            lambda: self.assertEnqueued(note, "x", times=2),
            lambda: self.assertNotEnqueued(note),
            lambda: self.assertNotEnqueued(),
            lambda: self.assertEnqueuedCount(2),
        ):
            with pytest.raises(self.failureException):
                wrong()

    def test_blocks(self) -> None:
        with self.captured_jobs() as jobs:
            note.delay("captured")
        with self.inline_jobs() as runs:
            note.delay("inline")
        note.delay("later")
        assert len(jobs) == 1
        assert len(runs) == 1
        assert self.run_jobs().only.args == ["later"]

    async def test_in_asynchronous_tests(self) -> None:
        await note.aenqueue("x")
        assert len(await self.arun_jobs("notes")) == 1


class Overriding(QlessTestMixin, TestCase):
    """Classes that set up and tear down without a word to their parents."""

    @classmethod
    def setUpTestData(cls) -> None:
        note.delay("for the class")

    def setUp(self) -> None:
        note.delay("setUp")

    def tearDown(self) -> None:
        pass

    def test_one(self) -> None:
        self.assertEnqueuedCount(1)

    def test_another(self) -> None:
        self.assertEnqueuedCount(1)
        assert queues["notes"].counts().waiting == 1


class WithoutDatabase(QlessTestMixin, SimpleTestCase):
    def test_it(self) -> None:
        with self.captured_jobs() as jobs:
            note.using(on_commit=False).delay("x")
        assert len(jobs) == 1


class OfAsyncio(QlessTestMixin, IsolatedAsyncioTestCase):
    async def test_it(self) -> None:
        async with self.captured_jobs() as jobs:
            await note.using(on_commit=False).aenqueue("x")
        assert len(jobs) == 1


@override_settings(ROOT_URLCONF=__name__, STATIC_URL="/static/", ALLOWED_HOSTS=["*"])
class Live(QlessTestMixin, LiveServerTestCase):
    """The server's threads share the process, and so what becomes of jobs."""

    def test_it(self) -> None:
        done.clear()
        with self.captured_jobs() as jobs:
            assert self.visit() == 200
        assert jobs.names == [note.name]
        with self.inline_jobs():
            assert self.visit() == 200
        assert len(done) == 1

    def visit(self) -> int:
        with urlopen(f"{self.live_server_url}/put") as response:
            return int(response.status)


def put(request: HttpRequest) -> HttpResponse:
    """Enqueue a job for a new row, in a transaction."""
    with transaction.atomic():
        feed = Feed.objects.create(title="x")
        note.delay(feed.pk)
    return HttpResponse("put")


urlpatterns = [path("put", put)]


class Single(QlessTestMixin, SimpleTestCase):
    def test_it(self) -> None:
        self.assertEnqueuedCount(0)
        note.using(on_commit=False).delay("x")
        self.assertEnqueuedCount(1)


def test_what_others_have_enqueued_is_gone_before_and_after() -> None:
    for _ in range(2):
        note.using(on_commit=False).delay("from a test without the mixin")
        assert queues["notes"].counts().waiting == 1
        outcome = unittest.TestResult()
        Single("test_it").run(outcome)
        assert outcome.wasSuccessful(), outcome.failures + outcome.errors
        assert queues["notes"].counts().waiting == 0
        assert len(enqueued_jobs()) == 0
