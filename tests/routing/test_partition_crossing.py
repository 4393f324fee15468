"""Jobs of a queue that is split, and jobs of other queues: moved on, spawned, awaited."""

from __future__ import annotations

from typing import Any

import pytest

from django_qless import current_job, job, jobs
from django_qless.conf import routing
from django_qless.conf.connections import connections
from django_qless.core import JobNotFound
from django_qless.testing import run_jobs
from tests.routing.conftest import PARTITIONS

pytestmark = pytest.mark.usefixtures("split")

ran: list[Any] = []


@pytest.fixture(autouse=True)
def _empty() -> None:
    ran.clear()


@job
def go_through(*queues: str) -> None:
    """Go through these queues."""
    now = current_job()
    assert now is not None
    ran.append(now.queue)
    if len(ran) <= len(queues):
        now.move_to(queues[len(ran) - 1])


@job("events")
def count(number: int = 0) -> int:
    return number


@job
def spread(queue: str) -> None:
    """Spawn jobs there."""
    now = current_job()
    assert now is not None
    now.spawn(count.using(queue=queue).args(n) for n in range(8))


@job
def total() -> None:
    now = current_job()
    assert now is not None
    ran.append(sum(filter(None, now.dependency_results().values())))


def sound() -> None:
    for name in ("default", *PARTITIONS):
        assert connections[name].audit().violations == []


def test_a_job_moves_on_into_a_partition_and_out_of_it() -> None:
    handle = go_through.using(queue="q").delay("events", "q2", "events")
    home = routing.job_namespace("default", "events", jid=handle.jid)
    run_jobs()
    assert ran == ["q", "events", "q2", "events"]
    found = jobs[handle.jid]
    assert (found.alias, found.state) == (home, "complete")
    sound()


def test_spawned_jobs_go_to_all_partitions_and_out_of_one() -> None:
    total.using(after=spread.using(queue="q").delay("events")).delay()
    run_jobs("q", alias="default/")
    run_jobs()
    assert ran == [sum(range(8))]
    spread.using(queue="events").delay("q")
    run_jobs()
    assert connections["default"].queue_counts("q").waiting == 0
    sound()


def test_a_job_of_another_queue_waits_for_ids_of_partitions() -> None:
    first = count.enqueue_many(count.args(n) for n in range(8))
    assert len({each.alias for each in first}) > 1
    total.using(queue="q", after_jids=[each.jid for each in first]).delay()
    run_jobs()
    assert ran == [sum(range(8))]
    sound()


def test_a_job_of_a_partition_cannot_wait_for_one_elsewhere() -> None:
    other = total.using(queue="q").delay()
    with pytest.raises(JobNotFound, match=r"in namespace 'default' \(queue 'q'\)"):
        count.using(after_jids=[other.jid]).delay()
