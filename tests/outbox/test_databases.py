"""The outbox in PostgreSQL, whose locks keep two sweeps apart."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections as databases
from django.db import transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_qless.core.client import BaseClient
from django_qless.outbox import sweep as sweeping
from django_qless.outbox import tables, waiting
from django_qless.outbox.entries import INSERT_BYTES
from django_qless.outbox.models import Entry
from django_qless.outbox.sweep import sweep
from django_qless.runtime.outboxes import sweep_all
from tests.jobs_app.models import Feed
from tests.outbox.databases import SERVERS
from tests.postgres import Postgres

NAME = "real"

#: A row of that database: its job is written into the outbox there.
row = Feed(pk=1)
row._state.db, row._state.adding = NAME, False

kept = Feed.rename.using(on_commit="outbox", queue="default")


@pytest.fixture(scope="module", params=sorted(SERVERS))
def database_server(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    server = SERVERS[request.param]()
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture(autouse=True)
def database(database_server: Postgres, django_db_blocker: Any) -> Iterator[None]:
    """A database alias "real", with the table and nothing in it."""
    known = {"default": databases.settings["default"], NAME: database_server.database}
    databases.configure_settings(known)
    databases.settings[NAME] = known[NAME]
    with django_db_blocker.unblock():
        call_command("migrate", "django_qless_outbox", database=NAME, verbosity=0)
        yield
        tables.entries(NAME).all().delete()
        databases[NAME].close()
    del databases[NAME]
    del databases.settings[NAME]
    tables._migrated.discard(NAME)


@pytest.fixture
def left(qless: Any, away: Any) -> list[str]:
    """The jids of twenty jobs that wait, and belong to nobody."""
    jids = []
    for number in range(20):
        with away(), transaction.atomic(using=NAME):
            jids.append(kept.delay(row, f"{number}").jid)
    make_old()
    return jids


def make_old() -> None:
    tables.entries(NAME).update(created="2020-01-01T00:00:00Z")


def queued(qless: Any) -> list[str]:
    return [job.jid for job in qless.peek("default", 100)]


def test_it_is_delivered_at_the_commit(qless: Any) -> None:
    with transaction.atomic(using=NAME):
        handle = kept.delay(row, "1")
        many = kept.enqueue_many([kept.args(row, "2"), kept.args(row, "3")])
        assert tables.entries(NAME).count() == 2
    assert queued(qless) == [handle.jid, *(each.jid for each in many)]
    assert not tables.entries(NAME).exists()


def test_what_is_left_is_swept_up_in_its_order(qless: Any, left: list[str]) -> None:
    [found] = [each for each in waiting.waiting("default") if each.database == NAME]
    assert (found.entries, found.jobs, found.is_late) == (20, 20, True)
    assert waiting.Waiting(NAME) in waiting.waiting("other")
    assert sweep_all(NAME, "default") == 20
    assert queued(qless) == left


def test_young_entries_belong_to_their_process(qless: Any, away: Any) -> None:
    with away(), transaction.atomic(using=NAME):
        kept.delay(row, "1")
    assert sweep(NAME, "default").entries == 0
    [found] = [each for each in waiting.waiting("default") if each.database == NAME]
    assert 0 <= found.oldest < 3600


def in_thread(call: Any) -> Any:
    """Return what a call returns in a thread, which has a connection of its own."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(call())
        finally:
            databases.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return results[0]


def test_two_sweeps_do_no_harm(
    qless: Any, left: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    original, others = sweeping._deliver, []

    def deliver(client: Any, row: Any) -> None:
        if len(others) < 3:
            others.append(in_thread(lambda: sweep(NAME, "default")))
        original(client, row)

    monkeypatch.setattr(sweeping, "_deliver", deliver)
    assert sweep(NAME, "default").entries == 20
    # The others have kept their hands off: what is first comes first.
    assert [other.entries for other in others] == [0, 0, 0]
    assert all(other.error for other in others)
    assert queued(qless) == left


def test_a_database_that_lost_the_delete_delivers_nothing_twice(
    qless: Any, left: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise RuntimeError("dies before its commit")

    with monkeypatch.context() as patch:
        patch.setattr(sweeping, "_deliver_all", after(sweeping._deliver_all, fail))
        with pytest.raises(RuntimeError):
            sweep(NAME, "default")
    assert queued(qless) == left
    for jid in left:
        qless.cancel(jid)
    qless.config_set("canceled-history", 0)
    assert sweep(NAME, "default").entries == 20
    assert queued(qless) == []


def after(call: Any, then: Any) -> Any:
    """Return what makes a call, and then another one."""

    def both(*args: Any) -> Any:
        call(*args)
        return then(*args)

    return both


def test_the_database_closes_the_connection_of_a_sweep(
    qless: Any, left: list[str], database_server: Postgres
) -> None:
    assert sweep(NAME, "default", most=1).entries == 1
    database_server.end_connections()
    # This pass may notice it; the next one has a new connection.
    assert sweep_all(NAME, "default") + sweep_all(NAME, "default") == 19
    assert queued(qless) == left


def test_the_patience_of_a_sweep_is_short(
    qless: Any, left: list[str], away: Any
) -> None:
    seen: list[float] = []
    original = BaseClient.steps

    def steps(client: Any, request: Any) -> Any:
        seen.append(client.patience)
        return original(client, request)

    BaseClient.steps = steps  # type: ignore[method-assign]
    try:
        sweep(NAME, "default")
    finally:
        BaseClient.steps = original  # type: ignore[method-assign]
    assert max(seen[:20]) <= 1.0


def test_much_is_written_with_one_insert_for_each_7_mib(qless: Any, away: Any) -> None:
    # Nothing takes more room than quotes.
    text = '"' * 120_000
    made = CaptureQueriesContext(databases[NAME])
    with made, away(), transaction.atomic(using=NAME):
        handles = kept.enqueue_many([kept.args(row, text) for _ in range(50)])
    size = sum(len(row.command) for row in tables.entries(NAME).all())
    inserts = [each for each in made.captured_queries if "INSERT" in each["sql"]]
    assert len(inserts) == -(-size // INSERT_BYTES) == 4
    make_old()
    assert sweep(NAME, "default").error is None
    assert queued(qless) == [handle.jid for handle in handles]


def test_the_time_of_an_entry_is_in_utc(
    qless: Any, away: Any, database_server: Postgres
) -> None:
    databases[NAME].close()
    database_server.set_time_zone("-05:00")
    try:
        with away(), transaction.atomic(using=NAME):
            kept.delay(row, "1")
        [entry] = tables.entries(NAME).all()
        assert abs(entry.created - timezone.now()) < timedelta(hours=1)
        [found] = [each for each in waiting.waiting("default") if each.database == NAME]
        assert 0 <= found.oldest < 3600
        assert sweep(NAME, "default").entries == 0
    finally:
        databases[NAME].close()
        database_server.set_time_zone("+00:00")


def test_a_sweep_is_one_query_on_an_index(qless: Any) -> None:
    with CaptureQueriesContext(databases[NAME]) as made:
        sweep(NAME, "default")
    [query] = [each["sql"] for each in made.captured_queries if "SELECT" in each["sql"]]
    # A planner that finds an empty table may do as it likes: this is what it could use.
    with databases[NAME].cursor() as cursor:
        indexes = databases[NAME].introspection.get_constraints(
            cursor, Entry._meta.db_table
        )
    assert ["alias", "id"] in [each["columns"] for each in indexes.values()]
    assert "NOWAIT" in query
