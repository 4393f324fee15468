"""Restart backoff, crash isolation and the idle timer."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest

from django_qless.core import Settlement
from django_qless.worker.pools import POOLS, shared_state
from django_qless.worker.pools.process_manager import (
    ISOLATED,
    ISOLATION_PAUSE,
    CrashIsolation,
    IdleTimer,
    ProcessManager,
    RestartBackoff,
    crashed_jobs,
)
from django_qless.worker.pools.shared_state import SharedState

NOW = 1000.0


class DeadChild:
    """What a restart_backoff looks at."""

    killed_outcomes = None
    pid = 1
    has_ended = True

    def __init__(self, *, was_ready: bool, age: float, status: int = 0) -> None:
        self.shared = SharedState()
        self.shared.ints[shared_state.READY] = was_ready
        self.began = NOW - age
        self.status = status

    def command(self, field: int, value: int = 1) -> None:
        """Take a command."""
        self.shared.command(field, value)

    def watch(self) -> bool:
        """Return whether it has ended."""
        return self.has_ended

    def close(self) -> None:
        """Release its memory."""
        self.shared.close()


def test_the_runs_of_children_that_have_ended_still_count() -> None:
    """Else a worker whose child was replaced would seem idle."""
    manager = ProcessManager(POOLS["prefork"], 2)
    children: list[Any] = [DeadChild(was_ready=True, age=9.0) for _ in range(2)]
    dead, alive = children
    dead.shared.ints[shared_state.RUNS], alive.shared.ints[shared_state.RUNS] = 3, 2
    alive.has_ended = False
    manager._children.extend(children)
    assert [*manager.dead()] == [dead]
    assert (manager.runs, [*manager]) == (5, [alive])


def test_while_jobs_run_alone_it_looks_soon_whether_they_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("time.monotonic", lambda: NOW)
    manager = ProcessManager(POOLS["prefork"], 2)
    assert manager.due == math.inf
    manager._isolation.record_crash(["a", "b"], NOW)
    assert manager.due == NOW + ISOLATION_PAUSE


def test_jobs_of_a_child_that_leaves_count_among_those_that_run_at_once() -> None:
    manager = ProcessManager(POOLS["threads"], 2)
    leaving, successor = (DeadChild(was_ready=True, age=0.0) for _ in range(2))
    manager._children.extend([leaving, successor])  # type: ignore[list-item]
    leaving.shared.ints[shared_state.LEAVING] = 1
    slots = [leaving.shared.take("jid", token, NOW) for token in "123"]
    for slot in slots:
        leaving.shared.begin(slot, NOW)
    capacities = []
    for slot in slots:
        manager.rebalance()
        capacities.append(successor.shared.ints[shared_state.CAPACITY])
        leaving.shared.finish(slot)
    assert capacities == [0, 0, 1]


def test_after_a_crash_of_several_jobs_each_child_runs_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("time.monotonic", lambda: NOW)
    for concurrency, wanted in ((1, 1), (2, 2), (1000, ISOLATED)):
        manager = ProcessManager(POOLS["threads"], concurrency)
        assert manager.wanted == 1
        manager._isolation.record_crash(["a", "b"], NOW)
        assert manager.wanted == wanted
        children = [DeadChild(was_ready=True, age=0.0) for _ in range(wanted)]
        manager._children.extend(children)  # type: ignore[arg-type]
        manager.rebalance()
        capacities = [each.shared.ints[shared_state.CAPACITY] for each in children]
        assert capacities == [1] * wanted


@pytest.mark.parametrize(
    ("status", "runs", "waits"), [(0, 3, False), (0, 0, True), (1, 3, True)]
)
def test_only_a_child_that_left_after_its_work_is_replaced_at_once(
    status: int, runs: int, waits: bool
) -> None:
    manager = ProcessManager(POOLS["prefork"], 1)
    dead = DeadChild(was_ready=False, age=0.0, status=status)
    dead.shared.ints[shared_state.LEAVING] = 1
    dead.shared.ints[shared_state.RUNS] = runs
    manager._record_end(dead, NOW)  # type: ignore[arg-type]
    assert (manager.restart_backoff.due > NOW) == waits


@pytest.mark.parametrize(
    ("killed", "crashed"),
    [
        (None, ["a", "b"]),
        ({}, []),
        ({"1": Settlement("a", "1", "crash"), "2": None}, ["a"]),
        ({"1": Settlement("a", "1", "retry")}, []),
    ],
)
def test_of_a_killed_child_only_those_to_blame_have_crashed(
    killed: dict[str, Settlement | None] | None, crashed: list[str]
) -> None:
    dead: Any = DeadChild(was_ready=True, age=0.0)
    for jid, token in (("a", "1"), ("b", "2")):
        dead.shared.begin(dead.shared.take(jid, token, NOW), NOW)
    dead.shared.take("waits", "3", NOW)
    dead.killed_outcomes = killed
    assert crashed_jobs(dead) == crashed


class TestRestartBackoff:
    def pauses(self, *deaths: DeadChild) -> list[float]:
        """Return how long each of these deaths in a row has the next child wait."""
        restart_backoff, pauses = RestartBackoff(), []
        for dead in deaths:
            restart_backoff.due = NOW
            restart_backoff.record_death(dead, NOW)  # type: ignore[arg-type]
            pauses.append(restart_backoff.due - NOW)
        return pauses

    def test_what_cannot_start_waits_longer_and_longer(self) -> None:
        dead = DeadChild(was_ready=False, age=0.0)
        pauses = self.pauses(*[dead] * 20)
        assert pauses[:3] == pytest.approx([0.1, 0.2, 0.4])
        assert all(before < after for before, after in pairwise(pauses[:8]))
        assert pauses[-1] == 30

    def test_what_a_job_killed_is_replaced_at_once(self) -> None:
        dead = DeadChild(was_ready=True, age=0.0)
        assert self.pauses(*[dead] * 5) == [0] * 5

    def test_very_many_in_a_row_are_slowed_down_a_little(self) -> None:
        dead = DeadChild(was_ready=True, age=0.49)
        assert self.pauses(*[dead] * 12) == [0.0] * 10 + [0.5] * 2
        grown_up = DeadChild(was_ready=True, age=0.5)
        assert self.pauses(*[grown_up] * 12) == [0.0] * 12

    def test_a_start_that_works_forgives_the_others(self) -> None:
        bad, good = (DeadChild(was_ready=ready, age=9) for ready in (False, True))
        pauses = self.pauses(*[bad] * 6, good, bad)
        assert pauses[6] == 0
        assert pauses[7] == pytest.approx(0.1)


class TestIdleTimer:
    def test_without_a_limit_it_never_looks(self) -> None:
        assert IdleTimer(None).due == math.inf

    def test_it_is_over_when_nothing_has_run_for_so_long(self) -> None:
        idle_timer = IdleTimer(10)
        assert not idle_timer.look(NOW, runs=0, busy=False)
        assert NOW < idle_timer.due <= NOW + 1
        assert not idle_timer.look(NOW + 9, runs=0, busy=False)
        assert idle_timer.due == pytest.approx(NOW + 9.5)
        assert idle_timer.look(NOW + 10, runs=0, busy=False)

    def test_a_run_between_two_looks_counts(self) -> None:
        idle_timer = IdleTimer(10)
        idle_timer.look(NOW, runs=0, busy=False)
        assert not idle_timer.look(NOW + 10, runs=1, busy=False)
        assert idle_timer.look(NOW + 20, runs=1, busy=False)

    def test_who_is_busy_is_not_idle(self) -> None:
        idle_timer = IdleTimer(10)
        idle_timer.look(NOW, runs=1, busy=False)
        assert not idle_timer.look(NOW + 10, runs=1, busy=True)
        assert not idle_timer.look(NOW + 19, runs=1, busy=False)
        assert idle_timer.look(NOW + 20, runs=1, busy=False)


class TestCrashIsolation:
    def test_one_job_alone_is_no_riddle(self) -> None:
        suspicion = CrashIsolation()
        suspicion.record_crash(["a"], NOW)
        suspicion.record_crash([], NOW)
        assert not suspicion

    def test_it_lasts_until_all_have_run_again_to_the_end(self) -> None:
        suspicion = CrashIsolation()
        suspicion.record_crash(["a", "b"], NOW)
        for running in ((), ("c",), ("a",), ("c",), ("b",)):
            suspicion.look(running, NOW + 1)
            assert suspicion
        suspicion.look((), NOW + 1)
        assert not suspicion

    def test_who_dies_again_stays_suspect(self) -> None:
        suspicion = CrashIsolation()
        suspicion.record_crash(["a", "b"], NOW)
        suspicion.look(("a", "b"), NOW + 1)
        suspicion.record_crash(["a"], NOW + 2)
        suspicion.look((), NOW + 3)
        assert suspicion
        suspicion.look(("a",), NOW + 4)
        suspicion.look((), NOW + 5)
        assert not suspicion

    def test_it_does_not_last_for_ever(self) -> None:
        suspicion = CrashIsolation()
        suspicion.record_crash(["a", "b"], NOW)
        suspicion.look(("a",), NOW + 29)
        assert suspicion
        suspicion.look(("a",), NOW + 30)
        assert not suspicion
