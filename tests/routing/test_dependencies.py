"""Jobs that depend on jobs of other namespaces."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from django.db import transaction
from django.test import override_settings

from django_qless import job, jobs
from django_qless.conf.connections import connections
from django_qless.core import NotPermitted
from django_qless.exceptions import InvalidOption
from django_qless.operations.crossing import Carrier, carry_all
from django_qless.runtime import crossing
from django_qless.testing import run_jobs
from tests.jobs_app.jobs import add, failing
from tests.routing.conftest import DEFAULT, MAIL, NAMES, REPORTS, namespaces

if TYPE_CHECKING:
    from tests.routing.conftest import Places

seen: list[object] = []


@job
def total(context: object = None) -> None:
    """Note the results of what it depends on."""
    from django_qless import current_job

    seen.append(current_job().dependency_results())


def run_everywhere() -> None:
    """Run jobs and deliver, until nothing is left to do."""
    run_jobs(raise_failures=False)


def sound(places: Places) -> None:
    for name in NAMES:
        assert places[name].audit().violations == []


def test_a_job_waits_for_jobs_of_two_other_namespaces(places: Places) -> None:
    for name in (DEFAULT, MAIL, REPORTS):
        places[name].config_set("jobs-history-count", 1)
    seen.clear()
    mail = add.using(queue="mail").delay(1, 2)
    report = add.using(queue="report.x").delay(3, 4)
    last = total.using(after=[mail, report]).delay()
    assert last.state == "depends"
    sound(places)
    # The job is the real one, wherever it is looked for.
    assert jobs[report.jid].alias == REPORTS
    assert (report.refresh().alias, report.refresh().state) == (REPORTS, "waiting")
    run_everywhere()
    assert seen == [{mail.jid: 3, report.jid: 7}]
    sound(places)


def test_a_failure_elsewhere_is_seen_here(places: Places) -> None:
    first = failing.using(queue="report.x").delay("g", "m")
    waiting = add.using(after=first).delay(1, 2)
    canceled = add.using(after=first, on_failure="cancel").delay(1, 2)
    runs = add.using(after=first, on_failure="run").delay(1, 2)
    run_everywhere()
    states = [each.refresh().state for each in (waiting, canceled, runs)]
    assert states == ["depends", "canceled", "complete"]
    sound(places)


def test_canceling_there_tells_here(places: Places) -> None:
    first = add.using(queue="report.x").delay(1, 2)
    runs = add.using(after=first, on_failure="run").delay(1, 2)
    carry_all("default")
    jobs[first.jid].cancel()
    run_everywhere()
    assert runs.refresh().state == "complete"
    sound(places)


def test_a_server_that_is_away_keeps_only_what_depends_on_it(places: Places) -> None:
    first = add.using(queue="report.x").delay(1, 2)
    places.there.kill()
    second = add.using(after=first).delay(1, 2)
    other = add.delay(1, 2)
    carry_all("default")
    run_jobs("default")
    assert (second.refresh().state, other.refresh().state) == ("depends", "complete")
    assert places[DEFAULT].crossing_waiting()[0][:2] == (REPORTS, 1)


def test_a_worker_that_ends_waits_for_a_server_that_comes_back(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = add.using(queue="report.x").delay(1, 2)
    add.using(after=first).delay(1, 2)
    places.there.kill()

    def come_back(seconds: float) -> None:
        monkeypatch.undo()
        places.there.start()

    clock = SimpleNamespace(monotonic=time.monotonic, sleep=come_back)
    monkeypatch.setattr(crossing, "time", clock)
    crossing.carry_rest(DEFAULT)
    assert places.there.running
    assert places[DEFAULT].crossing_waiting() == []


def test_a_user_that_may_not_wait_for_the_outbox_is_told(places: Places) -> None:
    with places.here.client() as admin:
        admin.execute_command(
            *("ACL", "SETUSER", "hasty", "reset", "on", ">x", "~*", "&*", "+@all"),
            "-blpop",
        )
    setting = namespaces(f"unix://hasty:x@{places.here.socket}", places.there.url)
    with override_settings(QLESS={"default": setting}):
        due = connections[DEFAULT].crossing_due()
        with pytest.raises(NotPermitted, match=r"\+blpop adds it"):
            crossing._carry(Carrier(DEFAULT), due)
        connections.forget()


@pytest.mark.django_db(transaction=True)
def test_what_is_not_enqueued_yet_is_refused(places: Places) -> None:
    with transaction.atomic():
        first = add.using(queue="report.x").delay(1, 2)
        with pytest.raises(InvalidOption, match="not enqueued yet"):
            add.using(after=first).delay(1, 2)


def test_handle_that_says_complete_is_met_without_a_record_there(
    places: Places,
) -> None:
    seen.clear()
    first = add.using(queue="report.x").delay(3, 4)
    run_everywhere()
    first = first.refresh()
    places[REPORTS].config_set("jobs-history-count", 1)
    add.using(queue="report.x").delay(1, 2)
    run_everywhere()
    assert places[REPORTS].get(first.jid) is None
    total.using(after=first).delay()
    run_everywhere()
    assert seen == [{first.jid: 7}]
    sound(places)
