"""A job whose time has come is waiting on every page, in each command, on its handle."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.urls import reverse

from django_qless import jobs, queues
from django_qless.conf.connections import connections
from django_qless.operations.job_query import JobQuery
from django_qless.testing import clock
from tests.jobs_app.jobs import add

if TYPE_CHECKING:
    from django.test import Client as Browser

    from django_qless.core import Client


def data(*arguments: str) -> Any:
    """Return what a command prints as JSON."""
    output = io.StringIO()
    call_command(*arguments, "--json", stdout=output)
    return json.loads(output.getvalue())


@pytest.mark.parametrize(
    ("seconds", "expected", "other"),
    [(59, "scheduled", "waiting"), (61, "waiting", "scheduled")],
)
def test_a_delayed_job_in_every_place(
    admin_browser: Browser,
    qless: Client,
    seconds: int,
    expected: str,
    other: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = add.using(queue="mail", delay=60).delay(1)
    moment = clock.now("default") + seconds
    monkeypatch.setattr(connections.impatient("default").script, "now", moment)
    with clock.travel_to("default", moment):
        refreshed = handle.refresh()
        assert refreshed.state == expected
        assert f"add {expected}>" in repr(refreshed)
        assert jobs[handle.jid].state == expected
        assert data("qless_jobs", "show", handle.jid)["state"] == expected
        for state, jids in {expected: [handle.jid], other: []}.items():
            listed = data("qless_jobs", "list", "--state", state)["jobs"]
            assert [job["jid"] for job in listed] == jids
            assert {job["state"] for job in listed} <= {expected}
            found = JobQuery(state=state).page(connections["default"]).jobs
            assert [(job.jid, job.state) for job in found] == [
                (jid, expected) for jid in jids
            ]
            search = reverse("admin:django_qless_job_changelist")
            rows = admin_browser.get(f"{search}?state={state}").context["listing"].rows
            assert [(row.brief.jid, row.brief.state) for row in rows] == [
                (jid, expected) for jid in jids
            ]
        [shown] = data("qless_status")["queues"]
        assert (shown[expected], shown[other]) == (1, 0)
        page = admin_browser.get(
            reverse("admin:django_qless_job_change", args=[handle.jid])
        )
        assert page.context["brief"].state == expected
        assert f"qless-badge qless-{expected}" in page.content.decode()
        [row] = (
            admin_browser.get(reverse("admin:django_qless_queue_changelist"))
            .context["listing"]
            .rows
        )
        numbers = {each.state: each.number for each in row.states}
        assert (numbers[expected], numbers[other]) == (1, 0)
        [counts] = queues.counts()
        assert (getattr(counts, expected), getattr(counts, other)) == (1, 0)
