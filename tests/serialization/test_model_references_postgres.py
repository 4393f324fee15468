"""Rows that are locked, and keys as PostgreSQL gives them."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Barrier, Thread
from typing import Any

import pytest
from django.db import connections as databases
from django.db import transaction

from django_qless.runtime.environment import DjangoEnvironment
from django_qless.serialization import envelope
from django_qless.worker.execution import Execution
from tests.rows_app.models import Note, Seat, Stamp
from tests.runtime.test_postgres import (
    alias,  # noqa: F401  (applies to each test)
    postgres,  # noqa: F401
)

MODELS = (Note, Seat, Stamp)


@pytest.fixture(autouse=True)
def tables(alias: None, django_db_blocker: Any) -> Iterator[None]:  # noqa: F811
    with django_db_blocker.unblock():
        with databases["postgres"].schema_editor() as editor:
            for model in MODELS:
                editor.create_model(model)
        yield
        with databases["postgres"].schema_editor() as editor:
            for model in MODELS:
                editor.delete_model(model)


def notes() -> Any:
    return Note._base_manager.using("postgres")


def test_jobs_that_lock_their_row_wait_for_each_other(qless) -> None:
    note = notes().create()
    for _ in range(8):
        note.add_one.delay()
    together = Barrier(4)

    def run() -> None:
        execution = Execution(DjangoEnvironment(), qless, "w")
        settled: list[Any] = []
        for _ in range(3):
            jobs = qless.settle("w", settled, 1, ["*"]).jobs
            together.wait(30)
            settled = [execution.perform(job) for job in jobs]
        execution.environment.leave_thread()

    threads = [Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    note.refresh_from_db()
    assert note.count == 8


def test_one_that_is_locked_while_it_is_enqueued(qless, work) -> None:
    pk = notes().create(text="n").pk
    with transaction.atomic(using="postgres"):
        note = notes().select_for_update().defer("text").get(pk=pk)
        note.count = 5
        note.save()
        handle = note.add_one.delay()
        # The commit of the row's own database is waited for.
        assert handle.pending
        assert work() == 0
    work()
    assert handle.result() == 6


def test_many_keys_of_each_kind(work) -> None:
    manager = Seat._base_manager.using("postgres")
    manager.bulk_create(Seat(row="A", number=n) for n in range(900))
    stamps = [
        Stamp._base_manager.using("postgres").create(id=bytes([n])) for n in range(3)
    ]
    given = [list(manager.all()), stamps]
    text = envelope.encode("a.job", given, {})
    found = envelope.decode(text).args
    assert found[0] == given[0]
    assert [bytes(stamp.pk) for stamp in found[1]] == [b"\0", b"\1", b"\2"]
