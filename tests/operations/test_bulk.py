"""One change to many chosen jobs: chunks, passes, refusals."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import Put, Settlement
from django_qless.operations.bulk import (
    CHUNK,
    MOST_REASONS,
    BulkRun,
    Counted,
    change_jobs,
    count,
)
from django_qless.operations.job_query import JobQuery

if TYPE_CHECKING:
    from django_qless.core import Client


def chain(client: Client, length: int) -> list[str]:
    """Put jobs each of which depends on the one before it; return their ids."""
    jids = [f"j{n}" for n in range(length)]
    client.put_many(
        "",
        [
            Put(jid, "q", "shop.Send", "{}", depends=jids[max(n - 1, 0) : n])
            for n, jid in enumerate(jids)
        ],
    )
    return jids


def test_a_chain_is_canceled_from_its_end(qless) -> None:
    jids = chain(qless, 2 * CHUNK + 10)
    run = change_jobs(qless, "cancel", jids)
    assert (run.done, run.refused, run.passes) == (len(jids), 0, 0)
    assert qless.canceled_count() == len(jids)


def test_jobs_refused_because_of_others_are_tried_again(qless) -> None:
    """Backwards each chunk but the last is refused, until the next one is gone."""
    jids = chain(qless, 2 * CHUNK + 10)
    run = change_jobs(qless, "cancel", jids[::-1])
    assert (run.done, run.refused, run.reasons) == (len(jids), 0, [])
    assert run.passes == 2


def test_what_stays_refused_is_told_once(qless) -> None:
    jids = chain(qless, CHUNK + 10)
    run = change_jobs(qless, "cancel", [*jids[:-1], "gone", "gone"])
    assert run.number == len(jids)
    assert (run.done, run.refused) == (0, len(jids))
    assert (run.finished, len(run.reasons)) == (True, MOST_REASONS)


def test_one_call_is_not_repeated(qless) -> None:
    chain(qless, 2)
    run = BulkRun.on_jobs("cancel", ["j0", "gone"], now=1.0)
    run = run.step(qless, 1.0)
    assert (run.finished, run.done, run.refused) == (True, 0, 2)


def test_other_changes_take_the_jobs_in_order_and_once(qless) -> None:
    jids = chain(qless, CHUNK + 10)
    run = BulkRun.on_jobs("track", [*jids, "gone"], now=1.0)
    run = run.step(qless, 1.0)
    assert run.lately == jids[:CHUNK]
    run = run.step(qless, 2.0)
    assert (run.finished, run.done, run.refused) == (True, len(jids), 1)


def test_a_run_goes_on_from_its_data(qless) -> None:
    jids = chain(qless, 2 * CHUNK + 10)[::-1]
    run = BulkRun.on_jobs("cancel", jids, now=1.0)
    while not run.ended:
        run = BulkRun(**run.step(qless, 1.0).as_dict())
    assert run.done == len(jids)


def test_no_jobs_are_done_at_once(qless) -> None:
    assert change_jobs(qless, "cancel", []).finished


def test_a_list_of_the_server_is_counted_whole(
    qless: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_qless.operations.bulk.COUNTED", 2)
    for jid in ("a", "b", "c"):
        qless.put("", "q", jid, "k", "{}")
    assert count(qless, JobQuery(queue="q", state="waiting")) == Counted(3, True, 3)
    assert count(qless, JobQuery(klass="k", state="waiting")) == Counted(2, False, 3)
    for _ in range(3):
        (job,) = qless.settle("w", [], 1, ["q"]).jobs
        qless.settle("w", [Settlement(job.jid, job.token, "complete", ("", 0))], 0, [])
    # Completed jobs are in no queue any more.
    assert count(qless, JobQuery(state="complete")) == Counted(3, True, 3)
    assert count(qless, JobQuery(queue="q", state="waiting")) == Counted(0, True, 0)


def test_only_jobs_of_the_class_are_counted(qless: Client) -> None:
    for jid, klass in (("a", "k"), ("b", "other"), ("c", "k")):
        qless.put("", "q", jid, klass, "{}")
    assert count(qless, JobQuery(klass="k")) == Counted(2, True, 3)
    assert count(qless, JobQuery(queue="q", state="waiting")) == Counted(3, True, 3)


def selected(change: str, **options: Any) -> BulkRun:
    """Return a run on the jobs that match, which began at 5.0."""
    given = {"selection": {"tag": "t"}, "jids": [], "value": 1, **options}
    return BulkRun(change, number=1, exact=True, total=1, before=5.0, **given)


@pytest.mark.parametrize(
    ("rate", "at", "now", "allowed", "pause"),
    [
        (None, 9.0, 9.0, CHUNK, 0.0),
        (10, 0.0, 9.0, 10, 1.0),
        (1000, 0.0, 9.0, CHUNK, 0.25),
        (10, 9.0, 9.5, 5, 1.0),
        # A clock that was set back, and one that has stood still for long.
        (10, 9.0, 8.0, 0, 1.0),
        (10, 9.0, 99.0, 100, 1.0),
        (1000, 9.0, 99.0, CHUNK, 0.25),
    ],
)
def test_how_many_jobs_a_rate_allows(
    rate: int | None, at: float, now: float, allowed: int, pause: float
) -> None:
    run = selected("tag", rate=rate, at=at)
    assert (run._allowance(now), run.pause) == (allowed, pause)


@pytest.mark.parametrize(
    ("change", "filters", "put", "since", "wanted"),
    [
        ("priority", {"tag": "t"}, 5.0, 9.0, True),
        ("priority", {"tag": "t"}, 5.1, 1.0, False),
        ("priority", {"tag": "t"}, None, 9.0, True),
        # Jobs enter such a list when their state changes, and a moved one is like new.
        ("priority", {"state": "waiting"}, 9.0, 5.0, True),
        ("priority", {"state": "waiting"}, 1.0, 5.1, False),
        ("priority", {"group": "g"}, 1.0, 5.1, False),
        ("move", {"tag": "t"}, 9.0, 5.0, True),
        ("move", {"tag": "t"}, 1.0, 5.1, False),
    ],
)
def test_jobs_that_came_later_are_left_alone(
    change: str, filters: dict[str, str], put: float, since: float, wanted: bool
) -> None:
    job: Any = SimpleNamespace(put=put, since=since, priority=0)
    run = selected(change, selection=filters)
    assert run._wants(job) is wanted
    done: Any = SimpleNamespace(put=1.0, since=1.0, priority=1)
    assert run._wants(done) is (change == "move")
