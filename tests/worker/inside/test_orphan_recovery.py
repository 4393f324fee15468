"""The jobs of a child that died in the moment in which it was given some."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import Settlement
from django_qless.worker.crash_reports import CrashReport
from django_qless.worker.pools import shared_state
from django_qless.worker.pools.orphan_recovery import (
    LATER,
    MOST,
    MOST_CRASH_REPORTS,
    SOON,
    OrphanRecovery,
)
from django_qless.worker.pools.shared_state import SharedState

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Client, Job

    Put = Callable[..., str]


class Member:
    """A child as its parent knows it."""

    def __init__(self, *, calls: int = 0, status: int | None = None) -> None:
        self.shared = SharedState(slots=4)
        self.shared.ints[shared_state.CALLS] = calls
        self.pid, self.status = 7, status
        self.killed_outcomes: dict[str, Settlement | None] | None = None
        self.looks = 0

    def request_attention(self) -> None:
        self.looks += 1

    def stacks(self) -> str:
        return "the stacks"

    def hold(self, job: Job, state: int, token: str = "") -> None:
        """Show a job in this state."""
        slot = self.shared.take(job.jid, token or job.token, 10.0)
        if state >= shared_state.RUNNING:
            self.shared.begin(slot, 12.5)
        if state == shared_state.FINISHED:
            self.shared.finish(slot)


@pytest.fixture
def jids(client: Client, put: Put) -> list[str]:
    """Jobs that the worker holds."""
    made = [put("give", n) for n in range(3)]
    client.settle("w", [], 3, ["q"])
    return made


def states(client: Client, jids: list[str]) -> list[str]:
    return [job.state for job in client.multiget(jids)]


def test_what_no_child_knows_is_returned(client: Client, jids: list[str]) -> None:
    alive: Any = Member()
    dead: Any = Member(calls=1, status=-9)
    known, apart, _ = client.multiget(jids)
    alive.shared.take(known.jid, known.token, 0.0)
    orphans = OrphanRecovery(client, "w")
    orphans.take_over(dead)
    orphans.settle([alive], {apart.token})
    assert orphans.is_done
    assert states(client, jids) == ["running", "running", "waiting"]
    assert client.multiget(jids)[2].remaining == known.remaining


def test_a_child_in_a_call_may_be_about_to_know_them(
    client: Client, jids: list[str]
) -> None:
    """It is woken from what may be a long wait, and asked for again soon."""
    calling: Any = Member(calls=5)
    dead: Any = Member(calls=1, status=-9)
    orphans = OrphanRecovery(client, "w")
    orphans.take_over(dead)
    for looks in (1, 2):
        orphans.settle([calling])
        assert not orphans.is_done
        assert orphans.due < time.monotonic() + 60
        assert calling.looks == looks
        assert states(client, jids) == ["running"] * 3
    calling.shared.ints[shared_state.CALLS] += 1
    orphans.settle([calling])
    assert orphans.is_done
    assert states(client, jids) == ["waiting"] * 3


def test_a_child_that_died_outside_of_a_call_needs_no_search(client: Client) -> None:
    dead: Any = Member(calls=2, status=-9)
    orphans = OrphanRecovery(client, "w")
    orphans.take_over(dead)
    assert orphans.is_done


@pytest.mark.parametrize(("status", "why"), [(-11, "SIGSEGV"), (0, "code 0")])
def test_of_a_child_that_dies_by_itself_only_what_ran_has_crashed(
    client: Client, jids: list[str], status: int, why: str
) -> None:
    dead: Any = Member(status=status)
    states_of = (shared_state.FINISHED, shared_state.RUNNING, shared_state.WAITING)
    jobs = client.multiget(jids)
    for job, state in zip(jobs, states_of, strict=True):
        dead.hold(job, state)
    orphans = OrphanRecovery(client, "w")
    orphans.take_over(dead)
    assert not orphans.is_done
    assert orphans.due <= time.monotonic()
    orphans.settle([])
    assert orphans.is_done
    assert states(client, jids) == ["waiting"] * 3
    assert [job.crashes for job in client.multiget(jids)] == [0, 1, 0]
    (report,) = orphans.crash_reports
    assert report[:3] == (jids[1], jobs[1].token, "worker-crash")
    assert "process 7" in report.message
    assert why in report.message
    assert report.message.endswith("the stacks")
    assert report.delay == 0.0


def test_of_a_child_that_was_killed_it_is_known_who_was_to_blame(
    client: Client, jids: list[str]
) -> None:
    late, lost, other = client.multiget(jids)
    dead: Any = Member(status=-9)
    for job in (late, lost, other):
        dead.hold(job, shared_state.RUNNING)
    retry = Settlement(late.jid, late.token, "retry", (60.0, "timeout", "too long"))
    dead.killed_outcomes = {late.token: retry, lost.token: None}
    orphans = OrphanRecovery(client, "w")
    orphans.take_over(dead)
    orphans.settle([])
    assert states(client, jids) == ["scheduled", "running", "waiting"]
    assert client.multiget(jids)[2].remaining == other.remaining
    assert orphans.crash_reports == [
        CrashReport(lost.jid, lost.token, "", "The lock was lost."),
        CrashReport(late.jid, late.token, "timeout", "too long", 60.0),
    ]


def test_a_crash_of_a_job_that_another_has_is_not_told(
    client: Client, jids: list[str]
) -> None:
    mine, other = client.multiget(jids[:2])
    dead: Any = Member(status=1)
    dead.hold(mine, shared_state.RUNNING)
    dead.hold(other, shared_state.RUNNING, token="99")
    orphans = OrphanRecovery(client, "w")
    orphans.take_over(dead)
    orphans.settle([])
    assert [report.jid for report in orphans.crash_reports] == [mine.jid]
    assert states(client, jids) == ["waiting", "running", "running"]


def test_there_are_not_endlessly_many_reports(client: Client) -> None:
    orphans = OrphanRecovery(client, "w")
    for n in range(MOST_CRASH_REPORTS + 2):
        orphans.report(CrashReport(str(n), "1", "g", "m"))
    kept = [int(report.jid) for report in orphans.crash_reports]
    assert kept == list(range(2, MOST_CRASH_REPORTS + 2))


def test_very_many_jobs_are_settled_in_several_calls(client: Client, put: Put) -> None:
    jids = [put("give", n) for n in range(MOST + 1)]
    for _ in range(3):
        client.settle("w", [], 100, ["q"])
    dead: Any = Member(calls=1, status=-9)
    orphans = OrphanRecovery(client, "w")
    orphans.take_over(dead)
    orphans.settle([])
    assert orphans.is_done
    assert set(states(client, jids)) == {"waiting"}


def test_what_is_about_to_be_settled_is_not_found_as_well(
    client: Client, jids: list[str], put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is a job that fits into no slot: it may run in a child that lives."""
    monkeypatch.setattr(shared_state, "TEXT_BYTES", 99)
    crashed, *_ = client.multiget(jids)
    long = put("give", 4, jid="x" * 99)
    client.settle("w", [], 1, ["q"])
    dead: Any = Member(calls=1, status=-9)
    dead.hold(crashed, shared_state.RUNNING)
    orphans = OrphanRecovery(client, "w")
    orphans.take_over(dead)
    orphans.settle([])
    assert states(client, [*jids, long]) == ["waiting"] * 3 + ["running"]
    assert [job.crashes for job in client.multiget(jids)] == [1, 0, 0]
    # A second settlement would be refused, and the first count as refused with it.
    assert [report.jid for report in orphans.crash_reports] == [crashed.jid]


def test_while_a_child_calls_it_is_searched_less_and_less_often(
    client: Client, jids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    calling: Any = Member(calls=5)
    dead: Any = Member(calls=1, status=-9)
    orphans = OrphanRecovery(client, "w")

    def pauses(count: int) -> list[float]:
        orphans.take_over(dead)
        found = [orphans.due - now]
        for _ in range(count):
            orphans.settle([calling])
            found.append(orphans.due - now)
        return found

    expected = [SOON, 2 * SOON, 4 * SOON, 8 * SOON]
    assert pauses(3) == pytest.approx(expected)
    assert pauses(5)[-1] == LATER
    orphans.settle([])
    assert orphans.is_done
    # The next time it starts over.
    assert pauses(3) == pytest.approx(expected)
