"""Running jobs that spawn jobs of other namespaces."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from django_qless import current_job, job, jobs, workflow
from django_qless.exceptions import InvalidOption
from django_qless.operations.crossing import Carrier, carry_all
from django_qless.testing import captured_jobs, run_jobs
from tests.jobs_app.jobs import add, failing
from tests.routing.conftest import DEFAULT, MAIL, NAMES, REPORTS

if TYPE_CHECKING:
    from tests.routing.conftest import Places

seen: list[Any] = []
handles: list[Any] = []


@pytest.fixture(autouse=True)
def forgetful(places: Places) -> None:
    """Let records go at once."""
    seen.clear()
    handles.clear()
    for name in NAMES:
        places[name].config_set("jobs-history-count", 1)


def sound(places: Places) -> None:
    for name in NAMES:
        assert places[name].audit().violations == []


@job
def fan_out(*queues: str) -> int:
    """Spawn a job in each of these queues."""
    now = current_job()
    assert now is not None
    handles[:] = now.spawn(
        add.using(queue=queue).args(n, 10) for n, queue in enumerate(queues)
    )
    return -1


@job
async def afan_out(queue: str) -> None:
    now = current_job()
    assert now is not None
    handles[:] = await now.aspawn([add.using(queue=queue).args(1, 10)])


@job
def fan_out_twice(queue: str) -> None:
    """Spawn the same job in each of two runs."""
    now = current_job()
    assert now is not None
    now.spawn([note.using(jid=f"{now.jid}-1").args(queue)])
    if now.attempt == 1:
        raise ValueError("once more")


@job("report.x")
def note(what: str) -> None:
    seen.append(what)


@job
def spawn_unique() -> None:
    now = current_job()
    assert now is not None
    now.spawn([add.using(queue="mail").args(1, 2), once.args()])


@job("report.x", unique=True)
def once() -> None:
    """Is unique."""


@job
def spawn_bad() -> None:
    now = current_job()
    assert now is not None
    now.spawn([failing.using(queue="mail").args("g", "m")])


@job
def spawn_after(first: str) -> None:
    """Spawn a job there that waits for jobs of three namespaces."""
    now = current_job()
    assert now is not None
    now.spawn([collect.using(queue="mail", after=jobs[first]).args()])


@job
def collect() -> None:
    now = current_job()
    assert now is not None
    seen.append(sorted(filter(None, now.dependency_results().values())))


def test_what_comes_after_waits_for_jobs_of_three_namespaces(places: Places) -> None:
    first = fan_out.using(queue="q").delay("mail", "report.x", "q2")
    collect.using(queue="q", after=first).delay()
    run_jobs("q", alias="default/")
    assert [each.queue for each in handles] == ["mail", "report.x", "q2"]
    assert [each.created for each in handles] == [True] * 3
    carry_all("default")
    now = [each.refresh() for each in handles]
    assert [each.alias for each in now] == [MAIL, REPORTS, DEFAULT]
    assert [each.state for each in now] == ["waiting"] * 3
    assert [jobs[each.jid].alias for each in handles] == [MAIL, REPORTS, DEFAULT]
    assert seen == []
    run_jobs()
    assert seen == [[-1, 10, 11, 12]]
    sound(places)


def test_from_another_server_and_in_coroutines(places: Places) -> None:
    first = afan_out.using(queue="report.y").delay("q")
    collect.using(queue="report.y", after=first).delay()
    run_jobs()
    assert seen == [[11]]
    sound(places)


def test_spawned_jobs_belong_to_the_workflow(places: Places) -> None:
    with workflow() as flow:
        first = flow.add(fan_out.using(queue="q").args("mail", "report.x"))
        flow.add(collect.using(queue="q").args(), after=[first])
    assert flow.handle is not None
    run_jobs("q", alias="default/")
    assert flow.handle.refresh().progress.total == 4
    run_jobs()
    assert flow.handle.refresh().state == "complete"
    assert seen == [[-1, 10, 11]]
    sound(places)


def test_canceling_the_workflow_reaches_them(places: Places) -> None:
    with workflow() as flow:
        first = flow.add(fan_out.using(queue="q").args("report.x"))
        flow.add(collect.using(queue="q").args(), after=[first])
    assert flow.handle is not None
    run_jobs("q", alias="default/")
    carry_all("default")
    flow.handle.cancel()
    carry_all("default")
    assert handles[0].refresh().state == "canceled"
    run_jobs()
    assert seen == []
    sound(places)


def test_a_failure_there_holds_up_what_comes_after(places: Places) -> None:
    first = spawn_bad.using(queue="q").delay()
    waits = collect.using(queue="q", after=first).delay()
    runs = collect.using(queue="q", after=first, on_failure="run").delay()
    run_jobs(raise_failures=False)
    assert (waits.refresh().state, runs.refresh().state) == ("depends", "complete")
    sound(places)


def test_a_run_that_is_repeated_spawns_the_same_job(places: Places) -> None:
    fan_out_twice.using(queue="q", retries=1, backoff=0).delay("x")
    runs = run_jobs("q", alias="default/", raise_failures=False)
    assert [run.outcome for run in runs] == ["retried", "complete"]
    carry_all("default")
    assert places.waiting("report.x") == [0, 0, 1]
    run_jobs()
    assert seen == ["x"]
    sound(places)


def test_a_deliverer_that_dies_after_each_call_makes_no_second_one(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(BaseException):
        """It was killed here."""

    deliver, deaths = Carrier._deliver, []

    def die_after(self: Any, *args: Any) -> None:
        deliver(self, *args)
        deaths.append(args)
        if len(deaths) % 3:
            raise Died

    monkeypatch.setattr(Carrier, "_deliver", die_after)
    first = fan_out.using(queue="q").delay("mail", "report.x")
    last = collect.using(queue="q", after=first).delay()
    for _ in range(40):
        try:
            run_jobs()
        except Died:
            continue
        if last.refresh().state == "complete":
            break
    assert seen == [[-1, 10, 11]]
    assert len(deaths) > 4
    sound(places)


def test_they_may_wait_for_jobs_of_other_namespaces(places: Places) -> None:
    report = add.using(queue="report.x").delay(3, 4)
    spawn_after.using(queue="q").delay(report.jid)
    run_jobs()
    assert seen == [[7]]
    sound(places)


def test_unique_jobs_of_other_namespaces_are_refused(places: Places) -> None:
    spawn_unique.using(queue="q", retries=0).delay()
    [run] = run_jobs("q", raise_failures=False).failures
    assert isinstance(run.exception, InvalidOption)
    for words in ("once is in namespace 'default/report.*'", "unique", ".delay()"):
        assert words in str(run.exception)
    assert places[DEFAULT].crossing_waiting() == []


def test_in_isolation_they_are_ordinary_jobs(places: Places) -> None:
    with captured_jobs() as captured:
        fan_out.using(queue="q").delay("mail", "q2")
        captured[0].run()
    assert [(each.alias, each.queue) for each in captured[1:]] == [
        (MAIL, "mail"),
        (DEFAULT, "q2"),
    ]


def test_from_asynchronous_code_the_handle_follows(places: Places) -> None:
    afan_out.using(queue="q").delay("report.x")
    run_jobs("q", alias="default/")
    carry_all("default")

    async def body() -> str:
        return str((await handles[0].arefresh()).alias)

    assert asyncio.run(body()) == REPORTS
