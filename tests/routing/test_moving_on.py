"""Running jobs that move themselves into a queue of another namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import redis

from django_qless import current_job, job, jobs
from django_qless.core import Client
from django_qless.core.settle import Settlement
from django_qless.exceptions import InvalidOption
from django_qless.operations.crossing import carry_all
from django_qless.testing import run_jobs
from tests.core.cutter import Cutter
from tests.jobs_app.jobs import add
from tests.routing.conftest import DEFAULT, MAIL, NAMES, REPORTS

if TYPE_CHECKING:
    from tests.routing.conftest import Places

ran: list[tuple[str, int]] = []


@pytest.fixture(autouse=True)
def forgetful(places: Places) -> None:
    """Let records go at once."""
    ran.clear()
    for name in NAMES:
        places[name].config_set("jobs-history-count", 1)


@job
def step(*queues: str) -> None:
    """Go through these queues: the arguments stay, so what is done is in the list."""
    now = current_job()
    ran.append((now.queue, now.attempt))
    done = [queue for queue, _ in ran]
    left = [queue for queue in queues if queue not in done]
    if left:
        now.move_to(left[0])


@job
def bound(queue: str) -> None:
    """Wait there for others."""
    with pytest.raises(InvalidOption, match=r"depends=.*using\(after="):
        current_job().move_to(queue, depends=["other"])
    current_job().move_to(queue, delay=60)


def sound(places: Places) -> None:
    for name in NAMES:
        assert places[name].audit().violations == []


def test_a_job_goes_through_three_namespaces_on_two_servers(places: Places) -> None:
    handle = step.using(queue="q", retries=2).delay("report.x", "mail", "q2")
    run_jobs()
    assert ran == [("q", 1), ("report.x", 1), ("mail", 1), ("q2", 1)]
    assert jobs[handle.jid].alias == DEFAULT
    assert handle.refresh().state == "complete"
    sound(places)


def test_handles_follow_it(places: Places) -> None:
    handle = step.using(queue="q").delay("report.x")
    run_jobs("q")
    carry_all("default")
    now = handle.refresh()
    assert (now.alias, now.queue, now.state) == (REPORTS, "report.x", "waiting")


def test_its_delay_and_its_dependencies(places: Places) -> None:
    handle = bound.using(queue="q").delay("mail")
    run_jobs("q")
    carry_all("default")
    assert (handle.refresh().alias, handle.refresh().state) == (MAIL, "scheduled")


def test_what_has_to_do_with_others_here_fails_with_the_reason(places: Places) -> None:
    first = step.using(queue="q").delay("report.x")
    add.using(queue="q", after=first).delay(1, 2)
    [run] = run_jobs("q", raise_failures=False)
    assert (run.outcome, run.group) == ("failed", "settlement-refused")
    failure = first.refresh().failure
    assert failure is not None
    assert failure.group == "settlement-refused"
    assert "has dependents" in failure.message
    assert "with .delay()" in failure.message
    assert places[DEFAULT].crossing_waiting() == []
    sound(places)


def test_a_reply_that_is_lost_neither_loses_nor_doubles_it(places: Places) -> None:
    handle = add.using(queue="q").delay(1, 2)
    with Cutter(places.here.socket) as cutter:
        server = redis.Redis(unix_socket_path=cutter.path, decode_responses=True)
        with server, Client(server) as client:
            [held] = client.settle("w", [], 1, ["q"]).jobs
            args = ("report.x", 0, "[]", REPORTS)
            end = Settlement(held.jid, held.token, "move", args)
            cutter.cut("settle", times=2)
            assert client.settle("w", [end], 0, []).refused == []
            assert cutter.cuts == 2
    assert places[DEFAULT].crossing_waiting()[0][:2] == (REPORTS, 1)
    places.there.kill()
    assert carry_all("default") == 0
    places.there.start()
    assert carry_all("default") == 1
    assert (handle.refresh().alias, handle.refresh().state) == (REPORTS, "waiting")
    assert places[REPORTS].queue_counts("report.x").waiting == 1
    sound(places)
