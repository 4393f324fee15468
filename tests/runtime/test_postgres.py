"""Connections that a server can end, and that can be seen from its other side."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections as databases

from django_qless.runtime import connection_cleanup
from django_qless.runtime.environment import DjangoEnvironment
from django_qless.signals import job_started
from django_qless.worker.execution import Execution
from tests.in_process import in_thread
from tests.jobs_app import jobs
from tests.outbox.project import Project
from tests.postgres import Postgres
from tests.real_servers import poll

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENQUEUE = """
import django; django.setup()
from tests.outbox.shop.models import tell_backend
for _ in range(80):
    tell_backend.delay()
"""

OPEN = "SELECT state FROM pg_stat_activity WHERE application_name = 'jobs'"


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    server = Postgres()
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture(autouse=True)
def alias(postgres: Postgres) -> Iterator[None]:
    """The database alias "postgres", whose connections stay open between jobs."""
    settings: dict[str, Any] = {**postgres.database, "CONN_MAX_AGE": None}
    settings["OPTIONS"] = {"application_name": "jobs"}
    known = {"default": databases.settings["default"], "postgres": settings}
    databases.configure_settings(known)
    databases.settings["postgres"] = settings
    yield
    databases["postgres"].close()
    del databases["postgres"]
    del databases.settings["postgres"]
    end_all(postgres)


def end_all(postgres: Postgres) -> None:
    """End all connections of jobs, as a proxy or a restart does."""
    words = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE"
    postgres.ask(f"{words} application_name = 'jobs'")
    poll(lambda: not postgres.ask(OPEN), what="the connections are closed")


def test_a_connection_serves_one_job_after_the_other(qless, loop_work, work) -> None:
    for way in (loop_work, work):
        handles = [jobs.query.delay("SELECT pg_backend_pid()") for _ in range(3)]
        handles += [jobs.aquery.delay("SELECT pg_backend_pid()") for _ in range(3)]
        way()
        assert len({handle.result() for handle in handles}) == 1


def test_one_that_was_ended_between_two_jobs_is_replaced(
    qless, each_work, postgres, monkeypatch
) -> None:
    # A look before each job, as if the worker had rested.
    monkeypatch.setattr(connection_cleanup, "FRESH_SECONDS", 0.0)

    def end(**details: Any) -> None:
        end_all(postgres)

    handles = [jobs.query.using(retries=0).delay("SELECT 1") for _ in range(3)]
    job_started.connect(end)
    try:
        each_work()
    finally:
        job_started.disconnect(end)
    assert [handle.result() for handle in handles] == [1, 1, 1]


def test_one_that_was_ended_under_a_job_is_replaced(qless, each_work) -> None:
    broken = jobs.query.using(retries=0).delay(
        "SELECT pg_terminate_backend(pg_backend_pid())"
    )
    fine = jobs.query.delay("SELECT 1")
    each_work()
    assert broken.refresh().failure.group == "OperationalError"
    assert fine.result() == 1


@pytest.mark.parametrize("job", [jobs.begins, jobs.abegins])
def test_a_transaction_that_a_job_left_open_is_rolled_back(
    qless, each_work, postgres, job: Any
) -> None:
    postgres.ask("CREATE TABLE IF NOT EXISTS kept (n int)")
    handle = job.delay("INSERT INTO kept VALUES (1)")
    each_work()
    assert handle.result() == "begun"
    # Seen from outside: nothing is locked, and nothing was kept.
    assert ("idle in transaction",) not in postgres.ask(OPEN)
    assert postgres.ask("SELECT count(*) FROM kept") == [(0,)]


def test_a_query_is_interrupted_in_the_main_thread(qless, work, postgres) -> None:
    slow = jobs.query.using(timeout=0.1, retries=0).delay("SELECT pg_sleep(30)")
    fine = jobs.query.delay("SELECT 1")
    work()
    assert slow.refresh().failure.group == "timeout"
    assert fine.result() == 1


def test_before_a_fork_all_are_closed(qless, work, postgres) -> None:
    jobs.query.delay("SELECT 1")
    work()
    assert postgres.ask(OPEN) == [("idle",)]
    DjangoEnvironment().before_fork()
    poll(lambda: not postgres.ask(OPEN), what="it is closed")


def test_a_thread_that_ends_closes_its_own(qless, postgres, django_db_blocker) -> None:
    jobs.query.delay("SELECT 1")
    [reserved] = qless.settle("w", [], 1, ["*"]).jobs
    with django_db_blocker.unblock():
        outcome = in_thread(Execution(DjangoEnvironment(), qless, "w"), reserved)
    assert outcome.args[0] == "1"
    poll(lambda: not postgres.ask(OPEN), what="it is closed")


@pytest.mark.parametrize("pool", ["prefork", "fork"])
def test_pooled_connections_are_not_shared_by_processes(
    server, postgres, tmp_path: Path, pool: str
) -> None:
    """The check of the outbox and a middleware use pools before there are jobs."""
    database = {**postgres.database, "OPTIONS": {"pool": {"min_size": 2}}}
    middleware = ["tests.outbox.shop.models.asks_early"]
    project = Project(tmp_path, database, server.url, MIDDLEWARE=middleware)
    project.run("-c", ENQUEUE)
    burst = ("--burst", "--concurrency", "4", "--pool", pool)
    with project.worker(*burst) as worker:
        assert worker.wait(60) == 0
    runs = project.runs()
    users = Counter(backend for _, backend in set(runs))
    assert len(runs) == 80
    assert len({process for process, _ in runs}) >= 4
    assert set(users.values()) == {1}
