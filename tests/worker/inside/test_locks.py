"""Jobs in the executor of a process that was suspended: are they still its own?"""

from __future__ import annotations

import marshal
from typing import TYPE_CHECKING

import pytest

from django_qless.core import Beat, Reserved, Settled
from django_qless.worker.options import WorkerOptions
from django_qless.worker.pools import locks, shared_state
from django_qless.worker.pools.fork import ForkChild
from django_qless.worker.pools.locks import LockRenewal, LockTerm, ServerClock
from django_qless.worker.pools.shared_state import SharedState
from django_qless.worker.worker import Worker
from tests.worker.inside.plain import PlainEnvironment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.real_servers import Server
    from tests.worker.conftest import WorkerProcess
    from tests.worker.ledger import Ledger

    Put = Callable[..., str]
    StartWorker = Callable[..., WorkerProcess]


@pytest.fixture
def shared() -> Iterator[SharedState]:
    shared = SharedState()
    yield shared
    shared.close()


class Clock:
    """The clock of the machine, as the test sets it."""

    now = 1000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(locks, "boottime", lambda: clock.now)
    return clock


def settled(*expires: float, now: float) -> Settled:
    """Return what has come at that time of the server, with locks until then."""
    job = Reserved("jid", "q", "k", "{}", "1", 3, 3, 0, "{}", "", 0.0)
    jobs = [job._replace(expires=until) for until in expires]
    return Settled([], jobs, now=now)


class TestTerm:
    def test_it_counts_from_when_the_request_was_sent(
        self, shared: SharedState, clock: Clock
    ) -> None:
        clock.now = 1020.0
        term = ServerClock().term(settled(560, 530, now=500), 1005.0, waited=False)
        for clock.now in (1020.0, 1034.9):
            assert term.holds(shared)
        clock.now = 1035.0
        assert not term.holds(shared)

    def test_what_waited_at_the_server_counts_from_when_it_was_answered(
        self, shared: SharedState, clock: Clock
    ) -> None:
        """As the call before tells, and not from when the reply was seen."""
        times = ServerClock()
        times.term(settled(now=500), 999.0, waited=False)
        clock.now = 1010.0
        term = times.term(settled(506, now=504), 1000.0, waited=True)
        clock.now = 1004.9
        assert term.holds(shared)
        clock.now = 1005.0
        assert not term.holds(shared)

    def test_it_never_counts_from_later_than_the_reply(
        self, shared: SharedState, clock: Clock
    ) -> None:
        """The clock of the server has gone ahead meanwhile."""
        times = ServerClock()
        times.term(settled(now=500), 999.0, waited=False)
        term = times.term(settled(4110, now=4100), 1000.0, waited=True)
        clock.now = 1010.0
        assert not term.holds(shared)

    def test_a_first_call_that_waited_counts_from_when_it_was_sent(
        self, shared: SharedState, clock: Clock
    ) -> None:
        term = ServerClock().term(settled(506, now=504), 1000.0, waited=True)
        clock.now = 1001.9
        assert term.holds(shared)
        clock.now = 1002.0
        assert not term.holds(shared)

    def test_heartbeats_for_what_they_have_seen_prolong_it(
        self, shared: SharedState, clock: Clock
    ) -> None:
        term = LockTerm(1030.0, 30.0, shown=1001.0)
        clock.now = 1040.0
        for renewed, holds in ((1000.0, False), (1001.0, False), (1020.0, True)):
            shared.floats[shared_state.LOCKS_RENEWED] = renewed
            assert term.holds(shared) == holds


class Beats:
    """A heartbeat without a server."""

    due = interval = 0.0

    def __init__(self) -> None:
        self.is_failing = False
        self.lost: list[str] = []

    def beat(self, held: object) -> Beat:
        return Beat(self.lost, [])

    def set_interval(self, locks: object) -> None: ...

    def shorten_interval(self, lock: float) -> None: ...


class Beaten:
    """A child with two jobs, of which one may be elsewhere as well."""

    is_working = True
    pid = 1

    def __init__(self, shared: SharedState) -> None:
        self.shared = shared

    def drop(self, tokens: set[str]) -> None:
        self.shared.drop(tokens)


class TestRenewal:
    @pytest.mark.parametrize(
        "way", ["well", "failing", "suspended", "superseded", "lost"]
    )
    def test_the_child_is_told_when_all_of_its_locks_were_renewed(
        self, shared: SharedState, clock: Clock, way: str
    ) -> None:
        heartbeat, child = Beats(), Beaten(shared)
        children = [child]
        for jid, token in (("a", "1"), ("b", "2")):
            shared.take(jid, token, 0.0)
        if way == "superseded":
            other = Beaten(SharedState())
            other.shared.take("a", "3", 0.0)
            children.append(other)
        heartbeat.lost = ["b"] if way == "lost" else []
        heartbeat.is_failing, child.is_working = way == "failing", way != "suspended"
        LockRenewal(heartbeat, children).beat()  # type: ignore[arg-type]
        expected = clock.now if way == "well" else 0.0
        assert shared.floats[shared_state.LOCKS_RENEWED] == expected


def test_the_process_of_a_job_looks_as_well(
    server: Server, shared: SharedState
) -> None:
    """It was suspended itself, after the order to run the job."""
    options = WorkerOptions(queues=("q",), pool="fork")
    child = ForkChild(Worker(PlainEnvironment(server.url), options), shared, 0)
    job = settled(0.0, now=0.0).jobs[0]
    order = (shared.nowhere, tuple(job), False, LockTerm(0.0).values)
    assert child.do(marshal.dumps(order)) == b'["release", [0], null]'


def suspended(ledger: Ledger) -> list[int]:
    """Return the processes that were suspended so far."""
    return list(map(int, ledger.starting_with("suspended")))
