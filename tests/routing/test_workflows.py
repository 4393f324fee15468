"""Workflows over three namespaces, on two servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

from django_qless import batch, job, workflow
from django_qless.exceptions import InvalidOption
from django_qless.operations.crossing import Carrier, carry_all
from django_qless.testing import run_jobs
from tests.jobs_app.jobs import add, failing, send_welcome
from tests.routing.conftest import DEFAULT, MAIL, NAMES, REPORTS

if TYPE_CHECKING:
    from tests.routing.conftest import Places

seen: list[Any] = []


@job
def collect() -> int:
    """Note the results of what it depends on; return their sum."""
    from django_qless import current_job

    found = list(current_job().dependency_results().values())
    seen.append(found)
    return sum(found)


@pytest.fixture(autouse=True)
def forgetful(places: Places) -> None:
    """Let records go at once."""
    seen.clear()
    for name in NAMES:
        places[name].config_set("jobs-history-count", 1)


def sound(places: Places) -> None:
    for name in NAMES:
        assert places[name].audit().violations == []


def three(name: str = "three") -> Any:
    """Return a workflow through three namespaces and back."""
    flow = workflow(name)
    first = flow.add(add.using(queue="q").args(1, 2))
    letters = flow.add(collect.using(queue="mail").args(), after=[first])
    report = flow.add(collect.using(queue="report.x").args(), after=[first, letters])
    flow.add(collect.using(queue="q").args(), after=[report])
    return flow


def test_a_workflow_over_three_namespaces_passes_results_on(places: Places) -> None:
    handle = three().enqueue()
    assert handle.alias == DEFAULT
    assert places.waiting("mail") == places.waiting("report.x") == [0, 0, 0]
    run_jobs()
    assert seen == [[3], [3, 3], [6]]
    assert handle.refresh().state == "complete"
    sound(places)


def test_each_step_becomes_visible_in_its_turn(places: Places) -> None:
    flow = three()
    letters = flow._nodes[1].handle
    flow.enqueue()
    assert letters.refresh().state == "depends"
    run_jobs("q")
    assert letters.refresh().alias == MAIL
    assert letters.refresh().state == "waiting"


def test_a_deliverer_that_dies_after_each_call_changes_nothing(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(BaseException):
        """It was killed here."""

    handle = three().enqueue()
    deliver, deaths = Carrier._deliver, []

    def die_after(self: Any, *args: Any) -> None:
        deliver(self, *args)
        if len(deaths) % 3 < 2:
            deaths.append(args)
            raise Died
        deaths.append(args)

    monkeypatch.setattr(Carrier, "_deliver", die_after)
    for _ in range(40):
        try:
            run_jobs()
        except Died:
            continue
        if handle.refresh().state == "complete":
            break
    assert handle.refresh().state == "complete"
    assert seen == [[3], [3, 3], [6]]
    assert len(deaths) >= 10
    sound(places)


def test_a_job_elsewhere_that_awaits_a_commit_cannot_be_waited_for(
    places: Places, django_db_blocker: Any
) -> None:
    with django_db_blocker.unblock(), transaction.atomic():
        mail = add.using(queue="mail").delay(1, 2)
        assert mail.pending
        flow = workflow()
        with pytest.raises(InvalidOption, match="enqueue it at once, with on_commit=F"):
            flow.add(add.using(queue="q").args(1, 2), after=[mail])
        transaction.set_rollback(True)


def test_a_step_that_its_namespace_refuses_fails(places: Places) -> None:
    flow = three()
    letters = flow._nodes[1].handle
    handle = flow.enqueue()
    # (A clash of ids, which nothing that we draw can have.)
    here = places.here.client()
    places[MAIL].put("", "mail", "other", "k", "[]")
    record = here.hgetall("ql-mail:j:other")
    here.hset(
        f"ql-mail:j:{letters.jid}", mapping={**record, "entity": "e", "rare": "1"}
    )
    places[MAIL].cancel("other")
    run_jobs()
    job = places[DEFAULT].get(letters.jid)
    assert job is not None
    assert (job.state, job.failure.group) == ("failed", "refused")
    assert "entity" in job.failure.message
    assert handle.refresh().progress.failed == 1


def test_a_server_that_is_away_keeps_the_workflow_waiting(places: Places) -> None:
    handle = three().enqueue()
    places.there.kill()
    carriers = [Carrier(DEFAULT), Carrier(MAIL)]
    for _ in range(5):
        run_jobs("q", alias="default/")
        run_jobs("mail", alias=MAIL)
        for carrier in carriers:
            carrier.carry(places[carrier.name].crossing_due().targets)
    assert handle.refresh().progress.complete == 2
    places.there.start()
    run_jobs()
    assert handle.refresh().state == "complete"
    assert seen == [[3], [3, 3], [6]]


def test_canceling_reaches_all_namespaces(places: Places) -> None:
    flow = three()
    flow.enqueue()
    run_jobs("q")
    letters = flow._nodes[1].handle
    assert letters.refresh().alias == MAIL
    flow.handle.cancel()
    carry_all("default")
    assert letters.refresh().state == "canceled"
    assert flow.handle.refresh().state == "canceled"
    run_jobs()
    assert seen == []
    sound(places)


def test_a_failure_elsewhere_is_retried(places: Places) -> None:
    with workflow() as flow:
        bad = flow.add(failing.using(queue="report.x").args("g", "m"))
        flow.add(add.using(queue="q").args(1, 2), after=[bad])
    assert flow.handle is not None
    assert flow.handle.alias == REPORTS
    with workflow() as flow:
        first = flow.add(add.using(queue="q").args(1, 2))
        bad = flow.add(failing.using(queue="report.x").args("g", "m"), after=[first])
    run_jobs(raise_failures=False)
    assert flow.handle.refresh().state == "failed"
    assert flow.handle.retry() == 1
    assert flow.handle.refresh().state == "running"
    run_jobs(raise_failures=False)
    assert flow.handle.refresh().state == "failed"
    assert bad.handle.refresh().attempt >= 1
    sound(places)


def test_a_batch_over_namespaces(places: Places) -> None:
    jobs = [add.using(queue=queue).args(1, 2) for queue in ("q", "mail", "report.x")]
    handle = batch(jobs, on_success=collect.args()).enqueue()
    run_jobs()
    assert seen == [[3, 3, 3]]
    assert handle.refresh().state == "complete"


def test_a_workflow_may_wait_for_a_job_of_another_namespace(places: Places) -> None:
    outside = add.using(queue="report.x").delay(3, 4)
    with workflow() as flow:
        flow.add(collect.using(queue="q").args(), after=[outside])
        flow.add(collect.using(queue="mail", after=outside).args())
    run_jobs()
    assert seen == [[7], [7]]
    assert flow.handle is not None
    assert flow.handle.refresh().state == "complete"
    sound(places)


def test_a_large_workflow_is_staged(places: Places) -> None:
    with workflow() as flow:
        first = flow.add(add.using(queue="q").args(1, 2))
        for _ in range(600):
            flow.add(add.using(queue="mail").args(1, 2), after=[first])
        for _ in range(600):
            flow.add(add.using(queue="report.x").args(1, 2))
    assert flow.handle is not None
    run_jobs()
    assert flow.handle.refresh().progress.complete == 1201
    sound(places)


def test_unique_jobs_elsewhere_are_refused(places: Places) -> None:
    flow = workflow()
    flow.add(add.using(queue="q").args(1, 2))
    unique = send_welcome.using(unique=True, on_conflict="refuse")
    with pytest.raises(InvalidOption, match="and unique"):
        flow.add(unique.args(1))
