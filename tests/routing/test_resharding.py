"""Jobs that wait when the routes change: `qless_reshard` moves them to where they belong."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from django_qless import job, jobs, workflow
from django_qless.conf.connections import connections
from django_qless.operations import crossing, resharding
from django_qless.operations.audit import audit_namespace
from django_qless.testing import run_jobs
from tests.jobs_app.jobs import add
from tests.routing.conftest import DEFAULT, MAIL, NAMES, REPORTS, Places

pytestmark = pytest.mark.usefixtures("places")

ran: list[int] = []


@job("mail")
def note(number: int) -> None:
    ran.append(number)


@job("mail", retries=0)
def fails() -> None:
    raise ValueError("broken")


@contextmanager
def before(places: Places) -> Iterator[None]:
    """The setting of before: all queues are in one namespace."""
    with override_settings(QLESS={"default": {"LOCATION": places.here.url}}):
        yield


def reshard(**options: Any) -> list[dict[str, Any]]:
    """Return what the command prints as JSON."""
    out = io.StringIO()
    try:
        call_command("qless_reshard", json=True, stdout=out, **options)
    finally:
        connections.close_all()
    found: list[dict[str, Any]] = json.loads(out.getvalue())
    return found


def sound(places: Places) -> None:
    for name in NAMES:
        assert audit_namespace(places[name], 250).violations == []


def test_jobs_go_to_the_namespace_that_has_their_queue_now(places: Places) -> None:
    with before(places):
        waiting = [note.delay(n) for n in range(250)]
        later = note.using(delay=3600).delay(-1)
        failed = fails.delay()
        other = add.delay(1)
        report = add.using(queue="report.x").delay(2)
        run_jobs("mail", "no such queue") if False else None
    new = note.delay(250)
    found = {(each["namespace"], each["queue"]): each for each in reshard()}
    assert found.keys() == {(DEFAULT, "mail"), (DEFAULT, "report.x")}
    assert found[DEFAULT, "mail"]["moved"] == {MAIL: 252}
    assert found[DEFAULT, "report.x"]["moved"] == {REPORTS: 1}
    assert places.waiting("mail") == [0, 252, 0]
    assert places.waiting("default") == [1, 0, 0]
    assert (report.refresh().alias, other.refresh().alias) == (REPORTS, DEFAULT)
    assert (later.refresh().state, later.refresh().alias) == ("scheduled", MAIL)
    assert jobs[failed.jid].alias == MAIL
    assert [each.name for each in places[DEFAULT].queues()] == ["default"]
    sound(places)
    # They run in the order in which they were put, before what came later.
    taken = [each.jid for each in places[MAIL].peek("mail", 250)]
    assert taken == [each.jid for each in waiting]
    assert new.refresh().state == "waiting"
    assert reshard() == []
