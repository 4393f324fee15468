"""Cleanup after jobs: transactions, connections, language, time zone."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from django.db import OperationalError, connection, transaction
from django.db import connections as databases
from django.utils import timezone, translation

from django_qless.conf.connections import connections
from django_qless.runtime import connection_cleanup
from django_qless.runtime.environment import DjangoEnvironment
from django_qless.worker.execution import Execution
from tests.jobs_app import jobs
from tests.jobs_app.models import Feed

if TYPE_CHECKING:
    from collections.abc import Callable

messes = pytest.mark.parametrize(
    ("mess", "look"),
    [
        (jobs.leaves_a_mess, jobs.surroundings),
        (jobs.aleaves_a_mess, jobs.asurroundings),
    ],
)


@messes
@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_a_job_leaves_nothing_behind(qless, each_work, mess: Any, look: Any) -> None:
    first, second = mess.delay(), look.delay()
    each_work()
    assert first.result() == "de"
    assert second.result() == ["en-us", "America/Chicago", False, "en-us"]
    assert translation.get_language() == "en-us"
    assert timezone.get_current_timezone_name() == "America/Chicago"
    assert not connection.in_atomic_block
    assert not Feed.objects.exists()


@pytest.mark.django_db
def test_a_transaction_around_the_worker_stays(qless, work) -> None:
    assert connection.in_atomic_block
    Feed.objects.create(title="kept")
    with transaction.atomic():
        handle = jobs.surroundings.using(on_commit=False).delay()
        work()
    assert handle.result()[2] is True
    assert Feed.objects.get().title == "kept"


@pytest.mark.django_db
def test_a_transaction_within_it_is_rolled_back_to_it(qless, work) -> None:
    Feed.objects.create(title="kept")
    jobs.leaves_a_mess.using(on_commit=False).delay()
    depth = len(connection.atomic_blocks)
    work()
    assert len(connection.atomic_blocks) == depth
    assert Feed.objects.get().title == "kept"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The default connection of this thread, in use, and none of an earlier test."""
    databases.close_all()
    monkeypatch.setattr(
        connection_cleanup, "opened", connection_cleanup.OpenConnections()
    )
    connection.ensure_connection()
    opened = databases["default"]
    # As with CONN_MAX_AGE=None: it is not closed after each job.
    monkeypatch.setattr(opened, "close_at", None)
    return opened


@pytest.fixture
def calls(opened: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Counts calls of the connection's methods, which do nothing but return this."""
    made: list[str] = []

    def count(name: str, result: object = None) -> list[str]:
        def instead(*args: object) -> object:
            made.append(name)
            if isinstance(result, Exception):
                raise result
            return result

        monkeypatch.setattr(opened, name, instead)
        return made

    return count


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
class TestConnections:
    def test_they_are_looked_at_around_jobs(self, qless, work, calls) -> None:
        looks = calls("close_if_unusable_or_obsolete")
        jobs.add.enqueue_many([jobs.add.args(1), jobs.add.args(2)])
        work()
        # Before the first, after each; not before the second, which follows at once.
        assert len(looks) == 3

    def test_one_that_has_rested_is_tried(self, qless, work, calls) -> None:
        made = calls("close")
        calls("is_usable", False)
        jobs.add.delay(1)
        work()
        assert made == ["is_usable", "close"]

    def test_one_that_works_stays_open(self, qless, work, calls) -> None:
        made = calls("close")
        calls("is_usable", True)
        jobs.add.delay(1)
        work()
        assert made == ["is_usable"]

    @pytest.mark.parametrize("job", [jobs.spins, jobs.asleepy])
    def test_one_whose_query_was_interrupted_is_closed(
        self, qless, work, calls, job: Any
    ) -> None:
        made = calls("close")
        job.using(retries=0).delay()
        work()
        assert made == ["close"]

    @pytest.mark.parametrize(("seconds", "closed"), [(0, 0), (30, 1)])
    def test_one_of_an_interrupted_coroutine_is_closed(
        self, qless, loop_work, monkeypatch, seconds: float, closed: int
    ) -> None:
        made: list[Any] = []
        kind = type(databases["default"])
        monkeypatch.setattr(kind, "close_if_unusable_or_obsolete", lambda self: None)
        monkeypatch.setattr(kind, "close", lambda self: made.append(self))
        jobs.aqueries.using(retries=0).delay(seconds)
        loop_work()
        assert len(made) == closed

    def test_one_in_a_job_that_swallowed_it_as_well(self, qless, work, calls) -> None:
        made = calls("close")
        handle = jobs.swallows.delay()
        work()
        assert handle.result() == "swallowed"
        assert made == ["close"]

    def test_trouble_with_one_does_not_become_the_jobs(
        self, qless, work, calls, caplog
    ) -> None:
        made = calls("close", OperationalError("away"))
        calls("close_if_unusable_or_obsolete", OperationalError("broken"))
        handle = jobs.add.delay(1)
        work()
        assert handle.result() == 1
        assert "close" in made
        assert "the connection to default is closed" in caplog.text

    def test_a_rollback_that_fails_closes_it(
        self, qless, work, monkeypatch, calls
    ) -> None:
        def fail(self: Any, *args: Any) -> None:
            raise OperationalError("the server has gone")

        made = calls("close")
        handle = jobs.leaves_a_mess.delay()
        with monkeypatch.context() as patched:
            patched.setattr(transaction.Atomic, "__exit__", fail)
            work()
        connection.atomic_blocks[-1].__exit__(ValueError, ValueError(), None)
        assert handle.result() == "de"
        assert made == ["close"]

    def test_queries_are_not_kept(self, qless, work, opened, settings) -> None:
        settings.DEBUG = True
        jobs.surroundings.delay()
        Feed.objects.exists()
        assert opened.queries_log
        work()
        assert not opened.queries_log

    def test_without_any_nothing_is_looked_at(self, qless, work, monkeypatch) -> None:
        opened = connection_cleanup.OpenConnections()
        opened.databases.clear()
        monkeypatch.setattr(connection_cleanup, "opened", opened)
        monkeypatch.setattr(connection_cleanup, "_close_if_unusable", None)
        handle = jobs.add.delay(1)
        work()
        assert handle.result() == 1

    def test_a_job_that_connects_is_noticed(self, qless, each_work) -> None:
        """Whatever thread it runs in, and though nothing was open before."""
        databases.close_all()
        looks: list[str] = []

        def look(database: Any, **given: Any) -> None:
            looks.append(database.alias)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(connection_cleanup, "_close_if_unusable", look)
            handle = jobs.connects.delay()
            each_work()
        assert handle.result() == "other"
        assert "other" in looks


def test_before_a_fork_everything_is_closed(qless, monkeypatch) -> None:
    closed: list[str] = []
    environment = DjangoEnvironment()
    monkeypatch.setattr(databases, "close_all", lambda: closed.append("databases"))
    monkeypatch.setattr(connections, "close_all", lambda: closed.append("clients"))
    environment.before_fork()
    assert sorted(closed) == ["clients", "databases"]
    monkeypatch.setattr(connection_cleanup.opened, "databases", [])
    environment.leave_thread()
    assert closed[2:] == []
    monkeypatch.setattr(connection_cleanup.opened, "databases", [databases["default"]])
    environment.leave_thread()
    assert closed[2:] == ["databases"]


class TestThreadsOfALoop:
    """Jobs in an event loop reach databases through threads of their own."""

    @pytest.fixture
    def run_all(self, qless, django_db_blocker) -> Any:
        """Run all waiting jobs at the same time; return their results."""

        def run_all(*handles: Any) -> list[Any]:
            reserved = qless.settle("w", [], 100, ["*"]).jobs
            execution = Execution(DjangoEnvironment(), qless, "w")

            async def main() -> list[Any]:
                return await asyncio.gather(*map(execution.aperform, reserved))

            with django_db_blocker.unblock():
                qless.settle("w", asyncio.run(main()), 0, ())
            return [handle.result() for handle in handles]

        return run_all

    def test_jobs_at_the_same_time_have_different_ones(self, run_all) -> None:
        jobs.meeting = threading.Barrier(2)
        first, second = run_all(jobs.meets.delay(), jobs.meets.delay())
        assert first != second
        assert threading.get_ident() not in (first, second)

    def test_coroutines_at_the_same_time_as_well(self, run_all) -> None:
        jobs.meeting = threading.Barrier(3)
        handles = [jobs.ameets.delay(), jobs.ameets.delay(), jobs.meets.delay()]
        assert len(set(run_all(*handles))) == 3

    def test_one_after_the_other_they_use_the_same(self, qless, loop_work) -> None:
        jobs.meeting = threading.Barrier(1)
        handles = [jobs.ameets.delay(), jobs.meets.delay(), jobs.ameets.delay()]
        loop_work()
        assert len({handle.result() for handle in handles}) == 1

    def test_jobs_that_do_not_need_one_start_none(self, run_all) -> None:
        def known() -> set[threading.Thread]:
            return {each for each in threading.enumerate() if "qless" in each.name}

        before = known()
        assert run_all(*[jobs.aadd.delay(n, n) for n in range(9)]) == [*range(0, 18, 2)]
        assert known() <= before

    def test_context_variables_are_each_jobs_own(self, run_all) -> None:
        handles = [jobs.atranslates.delay(code) for code in ("de", "fr", "it")]
        assert run_all(*handles) == ["de", "fr", "it"]
        assert translation.get_language() == "en-us"
