"""One process that runs jobs in threads."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.worker.pools import shared_state
from django_qless.worker.pools.shared_state import SharedState
from django_qless.worker.pools.threads import Threads
from tests.worker.declare import job
from tests.worker.inside.plain import PlainEnvironment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.worker.inside.executors import LoneChild
    from tests.worker.stage import Stage

    Start = Callable[..., LoneChild]


# pytest-xdist has threads, which the children here do not touch.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


@pytest.fixture
def pool() -> str:
    return "threads"


@job()
def name_thread() -> str:
    return threading.current_thread().name


@job()
def spin(latch: str) -> int:
    """Compute until there is this file."""
    turns = 0
    while not os.path.exists(latch):
        turns += sum(range(1000)) > 0
    return turns


@job()
def signal_mask() -> list[int]:
    import signal

    return sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ()))


def test_no_job_runs_in_the_main_thread(start: Start) -> None:
    """It is to hear signals, and to settle, whatever jobs do."""
    child = start(concurrency=2)
    jids = [child.put("name_thread") for _ in range(20)]
    for jid in jids:
        child.when(jid, "complete")
    names = {child.client.result(jid) for jid in jids}
    assert names <= {"job thread 1", "job thread 2"}


class CountedCalls(Threads):
    """Threads that are only counted."""

    def __init__(self, child: Any) -> None:
        super().__init__(child)
        self.called: list[int] = []

    def _call(self, count: int) -> None:
        self.called.append(count)


class Calm:
    """A child as its threads see it: jobs that wait, and a clock that the test turns."""

    def __init__(
        self, shared: SharedState, *, waiting: int, each: float | None
    ) -> None:
        self.capacity = [10]
        self.shared = shared
        self.buffer = SimpleNamespace(waiting=[None] * waiting, ended=0)
        self.prefetch = SimpleNamespace(each=each)
        self.loop = self
        self.later: list[Callable[[], None]] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self.later.append(call)


class TestCalls:
    @pytest.mark.parametrize(
        ("waiting", "each", "called"),
        [
            (0, None, []),
            (4, None, [4]),
            (4, 0.1, [4]),
            (40, 0.1, [10]),
            (40, 1e-5, [1]),
        ],
    )
    def test_short_jobs_are_for_one_thread(
        self, waiting: int, each: float | None, called: list[int]
    ) -> None:
        executor = CountedCalls(Calm(SharedState(), waiting=waiting, each=each))
        executor.start_waiting()
        assert executor.called == called

    def test_the_others_are_called_if_one_gets_stuck(self) -> None:
        child = Calm(SharedState(), waiting=40, each=1e-5)
        executor = CountedCalls(child)
        executor.start_waiting()
        # It gets on, …
        child.buffer.ended += 100
        child.later.pop()()
        assert executor.called == [1]
        # … and now it does not.
        child.later.pop()()
        assert executor.called == [1, 10]
        assert not child.later

    def test_no_thread_is_called_when_all_is_done(self) -> None:
        child = Calm(SharedState(), waiting=40, each=1e-5)
        executor = CountedCalls(child)
        executor.start_waiting()
        child.buffer.waiting.clear()
        child.later.pop()()
        assert executor.called == [1]
        assert not child.later


def test_a_long_job_among_short_ones_is_overtaken(start: Start) -> None:
    """The thread that does the short ones alone gets stuck: others are called."""
    child = start(concurrency=3)
    child.command(shared_state.QUIET)
    short = [child.put("name_thread", priority=2) for _ in range(300)]
    long = child.put("wait_for", child.latch, priority=1)
    after = [child.put("name_thread") for _ in range(300)]
    child.command(shared_state.QUIET, 0)
    for jid in [*short, *after]:
        child.when(jid, "complete")
    assert child.when(long, "running")
    child.open()
    child.when(long, "complete")


def test_jobs_that_wait_do_so_at_the_same_time(start: Start) -> None:
    """Also when they are the first after many short ones."""
    child = start(concurrency=8)
    for jid in [child.put("name_thread") for _ in range(300)]:
        child.when(jid, "complete")
    for _ in range(8):
        child.put("wait_for", child.latch)
    child.running(8)


def test_jobs_that_compute_do_not_keep_the_others_from_being_settled(
    start: Start,
) -> None:
    child = start(concurrency=4)
    spinning = [child.put("spin", child.latch) for _ in range(2)]
    child.running(2)
    for jid in [child.put("give", n) for n in range(10)]:
        child.when(jid, "complete")
    child.running(2)
    child.open()
    for jid in spinning:
        child.when(jid, "complete")


def test_each_thread_closes_what_it_has_open_at_the_end(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / "left"

    def leave_thread(environment: PlainEnvironment) -> None:
        with left.open("a") as file:
            file.write(f"{threading.current_thread().name}\n")

    monkeypatch.setattr(PlainEnvironment, "leave_thread", leave_thread)
    child = start(concurrency=3)
    for _ in range(3):
        child.put("wait_for", child.latch)
    child.running(3)
    child.command(shared_state.STOP)
    child.open()
    assert child.wait() == 0
    threads = [name for name in left.read_text().split("\n") if "job thread" in name]
    assert sorted(threads) == ["job thread 1", "job thread 2", "job thread 3"]


def test_what_a_job_starts_hears_signals(start: Start) -> None:
    """A process inherits the signals that are blocked where it is started."""
    child = start()
    jid = child.put("signal_mask")
    child.when(jid, "complete")
    assert child.client.result(jid) == []


def test_an_error_of_ones_own_ends_the_process(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that ended would keep its job for ever."""

    def begin(shared: SharedState, slot: int, now: float) -> None:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(SharedState, "begin", begin)
    child = start(concurrency=2)
    child.has_defect = True
    child.put("give", 1)
    assert child.wait() != 0
    assert "a mistake" in child.output
    assert child.shared.held_jobs().all


def test_a_job_that_forks_returns_once(stage: Stage) -> None:
    from tests.worker.ledger import Ledger

    ledger = Ledger(stage.folder / "ledger")
    try:
        jid = stage.put("fork_and_return", ledger.path)
        stage.start(concurrency=2)
        ledger.wait_for("returned 0")
        stage.job_when(jid, "complete")
        after = stage.put("answer", 1)
        stage.job_when(after, "complete")
        assert ledger.all() == ["returned 0"]
    finally:
        ledger.close()
