"""The heartbeat of a worker: for which jobs, and what its answer means for each child."""

from __future__ import annotations

import logging
import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import Beat
from django_qless.worker.pools import locks, shared_state
from django_qless.worker.pools.locks import LockRenewal, LockTerm, ServerClock
from django_qless.worker.pools.shared_state import RUNNING, HeldJob, SharedState
from tests.worker.inside.test_locks import settled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NOW = 1000.0


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "boottime", lambda: NOW)


class Beats:
    """A heartbeat without a server."""

    def __init__(self) -> None:
        self.due, self.interval, self.is_failing = 0.0, 10.0, False
        self.lost: list[str] = []
        self.canceled: list[str] = []
        self.known: dict[str, str] = {}
        self.sent: list[list[tuple[str, str, float | None]]] = []
        self.lengths: list[float] = []
        self.shortened: list[float] = []

    def beat(self, held: Iterable[tuple[str, str, float | None]]) -> Beat:
        self.sent.append(sorted(held))
        return Beat(self.lost, ["quiet"])

    def set_interval(self, lengths: Iterable[float]) -> None:
        self.lengths = list(lengths)
        self.interval = 7.0

    def shorten_interval(self, length: float) -> None:
        self.shortened.append(length)
        self.interval = 3.0

    def held(self) -> dict[str, str]:
        return self.known

    def is_canceled(self, jid: str) -> bool:
        return jid in self.canceled


class Member:
    """A child as its parent knows it."""

    is_working = True

    def __init__(self, pid: int, lock: float = 0.0) -> None:
        self.pid, self.shared = pid, SharedState(slots=8)
        self.shared.floats[shared_state.LOCK_SECONDS] = lock
        self.killed: dict[str, None] | None = None
        self.dropped: set[str] | None = None

    def hold(self, jid: str, token: str, *, runs: bool = True) -> int:
        slot = self.shared.take(jid, token, 10.0)
        if runs:
            self.shared.begin(slot, 12.5)
        return slot

    def drop(self, tokens: set[str]) -> None:
        self.dropped = tokens

    def kill(self, outcomes: dict[str, None]) -> None:
        self.killed = outcomes

    @property
    def renewed(self) -> float:
        return self.shared.floats[shared_state.LOCKS_RENEWED]

    @property
    def interval(self) -> float:
        return self.shared.floats[shared_state.HEARTBEAT_INTERVAL]


class Members(list[Member]):
    """All children of a pool."""

    def __init__(self, *, one_job_each: bool = True) -> None:
        super().__init__(Member(pid, lock=pid / 10) for pid in (1, 2))
        self.pool = SimpleNamespace(one_job_each=one_job_each)


class Apart:
    """The detached runs of a worker."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = set(tokens)
        self.dropped: set[str] | None = None
        self.told: tuple[set[str], float] | None = None

    def held_jobs(self) -> list[HeldJob]:
        return [
            HeldJob(0, RUNNING, f"apart-{token}", token, 0.0, 0.0, 0.0)
            for token in self.tokens
        ]

    def lock_lengths(self) -> list[float]:
        return [60.0]

    def drop(self, tokens: set[str]) -> None:
        self.dropped = tokens

    def renewed(self, tokens: set[str], sent: float) -> None:
        self.told = tokens, sent


@pytest.fixture
def heartbeat() -> Beats:
    return Beats()


@pytest.fixture
def members() -> Iterator[Members]:
    members = Members()
    yield members
    for member in members:
        member.shared.close()


def renewal(
    heartbeat: Beats, members: Members, apart: Apart | None = None
) -> LockRenewal:
    either: Any = (heartbeat, members, apart)
    return LockRenewal(*either)


class TestBeat:
    def test_before_its_time_nothing_is_sent(
        self, heartbeat: Beats, members: Members
    ) -> None:
        heartbeat.due = math.inf
        assert renewal(heartbeat, members).beat() == ()
        assert not heartbeat.sent
        heartbeat.due = 0.0
        assert renewal(heartbeat, members).beat() == ["quiet"]
        assert heartbeat.sent == [[]]

    def test_it_is_for_what_runs_and_waits(
        self, heartbeat: Beats, members: Members
    ) -> None:
        members[0].hold("a", "1")
        members[0].hold("b", "2", runs=False)
        members[0].shared.finish(members[0].hold("c", "3"))
        members[1].hold("d", "4")
        renewal(heartbeat, members).beat()
        # With the seconds for which they were held before they ran.
        assert heartbeat.sent == [[("a", "1", 2.5), ("b", "2", None), ("d", "4", 2.5)]]
        assert [member.renewed for member in members] == [NOW, NOW]

    @pytest.mark.parametrize("tokens", [("9", "10"), ("10", "9")])
    def test_of_a_job_that_two_hold_the_later_lock_is_renewed(
        self, heartbeat: Beats, members: Members, tokens: tuple[str, str]
    ) -> None:
        """The other child has lost its own, whichever is asked first."""
        for member, token in zip(members, tokens, strict=True):
            member.hold("a", token)
        renewal(heartbeat, members).beat()
        assert heartbeat.sent == [[("a", "10", 2.5)]]
        expected = [NOW if token == "10" else 0.0 for token in tokens]
        assert [member.renewed for member in members] == expected

    def test_a_lost_lock_concerns_one_child(
        self, heartbeat: Beats, members: Members
    ) -> None:
        members[0].hold("a", "1")
        members[1].hold("b", "2")
        heartbeat.lost = ["unknown", "b"]
        renewal(heartbeat, members).beat()
        assert [member.killed for member in members] == [None, {"2": None}]
        assert [member.renewed for member in members] == [NOW, 0.0]

    @pytest.mark.parametrize("is_failing", [False, True])
    def test_detached_runs_are_told_as_well(
        self, heartbeat: Beats, members: Members, *, is_failing: bool
    ) -> None:
        apart = Apart("7", "8")
        members[0].hold("a", "1")
        heartbeat.is_failing, heartbeat.lost = is_failing, ["apart-8"]
        renewal(heartbeat, members, apart).beat()
        assert heartbeat.sent == [
            [("a", "1", 2.5), ("apart-7", "7", None), ("apart-8", "8", None)]
        ]
        if is_failing:
            assert (apart.dropped, apart.told) == (None, None)
        else:
            assert (apart.dropped, apart.told) == ({"8"}, ({"1", "7"}, NOW))

    def test_what_a_child_has_reserved_and_not_read_for_long_is_told_as_well(
        self, heartbeat: Beats, members: Members
    ) -> None:
        members[0].hold("a", "1")
        heartbeat.known = {"a": "1", "b": "2", "apart-7": "7"}
        lock_renewal = renewal(heartbeat, members, Apart("7"))
        for call in (1, 1, 3, 0):
            members[0].shared.ints[shared_state.PENDING_CALL] = call
            lock_renewal.beat()
        known = [("a", "1", 2.5), ("apart-7", "7", None)]
        assert heartbeat.sent == [known, [*known, ("b", "2", None)], known, known]


class TestInterval:
    def test_it_is_for_the_locks_of_those_that_hold_jobs(
        self, heartbeat: Beats, members: Members
    ) -> None:
        members[1].hold("a", "1", runs=False)
        renewal(heartbeat, members, Apart()).beat()
        assert heartbeat.lengths == heartbeat.shortened == [60.0, 0.2]

    def test_all_children_know_it(self, heartbeat: Beats, members: Members) -> None:
        lock_renewal = renewal(heartbeat, members)
        lock_renewal.beat()
        assert [member.interval for member in members] == [7.0, 7.0]
        members[0].hold("a", "1")
        lock_renewal.hurry()
        assert heartbeat.shortened == [0.1]
        assert [member.interval for member in members] == [3.0, 3.0]


class TestLostJobs:
    @pytest.mark.parametrize("canceled", [True, False])
    def test_a_process_for_one_job_is_killed_if_that_runs(
        self,
        heartbeat: Beats,
        members: Members,
        caplog: pytest.LogCaptureFixture,
        *,
        canceled: bool,
    ) -> None:
        members[0].hold("a", "1")
        members[0].hold("b", "2", runs=False)
        members[0].hold("c", "3", runs=False)
        members[1].hold("d", "4")
        heartbeat.canceled = ["a"] if canceled else []
        with caplog.at_level(logging.DEBUG, "django_qless.worker"):
            renewal(heartbeat, members).drop_lost_jobs({"1", "3", "9"})
        # What else it held goes back to its queue.
        assert members[0].killed == {"1": None, "3": None}
        assert members[1].killed is None
        assert [member.dropped for member in members] == [None, None]
        # It was asked for: no reason to worry.
        level = logging.INFO if canceled else logging.WARNING
        assert [record.levelno for record in caplog.records] == [level]

    @pytest.mark.parametrize(
        ("one_job_each", "lost"), [(True, {"2"}), (False, {"1", "2"}), (False, {"1"})]
    )
    def test_others_are_told_which(
        self, heartbeat: Beats, members: Members, *, one_job_each: bool, lost: set[str]
    ) -> None:
        members.pool.one_job_each = one_job_each
        members[0].hold("a", "1")
        members[0].hold("b", "2", runs=False)
        members[1].hold("c", "3")
        renewal(heartbeat, members).drop_lost_jobs({*lost, "9"})
        assert [member.dropped for member in members] == [lost, None]
        assert [member.killed for member in members] == [None, None]

    def test_what_is_finished_is_lost_no_more(
        self, heartbeat: Beats, members: Members
    ) -> None:
        members[0].shared.finish(members[0].hold("a", "1"))
        renewal(heartbeat, members).drop_lost_jobs({"1"})
        assert members[0].dropped is None
        assert members[0].killed is None


class TestTerm:
    """Beside what `test_locks.py` has of it."""

    def test_a_job_without_a_lock_is_always_one_s_own(self, members: Members) -> None:
        assert LockTerm().holds(members[0].shared)

    def test_a_renewal_prolongs_it_by_its_length(
        self, members: Members, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shared = members[0].shared
        shared.floats[shared_state.LOCKS_RENEWED] = NOW
        term = LockTerm(NOW, 30.0, shown=NOW)
        for now, holds in ((NOW, True), (NOW + 29.9, True), (NOW + 30, False)):
            monkeypatch.setattr(locks, "boottime", lambda now=now: now)
            assert term.holds(shared) is holds
        assert LockTerm(*term.values).values == (NOW, 30.0, NOW)

    def test_without_jobs_it_has_no_length(self) -> None:
        term = ServerClock().term(settled(now=500), 990.0, waited=False)
        assert (term.until, term.length) == (990.0, 0.0)

    def test_only_a_call_that_did_not_wait_tells_the_difference_of_the_clocks(
        self,
    ) -> None:
        clock = ServerClock()
        for now, sent, waited in ((500, 900.0, False), (540, 910.0, True)):
            clock.term(settled(now=now), sent, waited=waited)
        assert clock.term(settled(580, now=550), 920.0, waited=True).until == 980.0
        # The latest of those calls is the one that counts.
        clock.term(settled(now=560), 970.0, waited=False)
        assert clock.term(settled(600, now=570), 975.0, waited=True).until == 1010.0
