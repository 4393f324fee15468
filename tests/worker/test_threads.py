"""One process that runs jobs in threads."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.worker.pools import board as boards
from django_qless.worker.pools.board import Board
from django_qless.worker.pools.threads import Threads
from tests.servers import poll
from tests.worker.crews import LoneCrew
from tests.worker.plain import PlainEnvironment, job
from tests.worker.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.servers import Server

    Start = Callable[..., LoneCrew]

# pytest-xdist has threads, which the children here do not touch.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


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


@pytest.fixture
def start(server: Server, tmp_path: Path) -> Iterator[Start]:
    crews: list[LoneCrew] = []

    def start(**options: object) -> LoneCrew:
        crews.append(LoneCrew(server, tmp_path, "threads", **options))
        return crews[-1]

    yield start
    for crew in crews:
        crew.close()


@pytest.fixture
def stage(server: Server, tmp_path: Path) -> Iterator[Stage]:
    with Stage(server, tmp_path, "threads") as stage:
        yield stage


def test_no_job_runs_in_the_main_thread(start: Start) -> None:
    """It is to hear signals, and to settle, whatever jobs do."""
    crew = start(concurrency=2)
    jids = [crew.put("name_thread") for _ in range(20)]
    for jid in jids:
        crew.when(jid, "complete")
    names = {crew.client.result(jid) for jid in jids}
    assert names <= {"hand 1", "hand 2"}


class Calls(Threads):
    """Hands that count how many are called, and do nothing."""

    def __init__(self, crew: Any) -> None:
        super().__init__(crew)
        self.called: list[int] = []

    def _call(self, hands: int) -> None:
        self.called.append(hands)


class Calm:
    """What hands see of a crew: jobs that wait, and a clock that the test turns."""

    def __init__(self, board: Board, *, waiting: int, each: float | None) -> None:
        board.words[boards.ROOM] = 10
        self.board = board
        self.stock = SimpleNamespace(waiting=[None] * waiting, ended=0)
        self.appetite = SimpleNamespace(each=each)
        self.loop = self
        self.later: list[Callable[[], None]] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self.later.append(call)


class TestHands:
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
    def test_short_jobs_are_for_one_hand(
        self, waiting: int, each: float | None, called: list[int]
    ) -> None:
        hands = Calls(Calm(Board(), waiting=waiting, each=each))
        hands.attend()
        assert hands.called == called

    def test_the_others_are_called_if_one_gets_stuck(self) -> None:
        crew = Calm(Board(), waiting=40, each=1e-5)
        hands = Calls(crew)
        hands.attend()
        # It gets on, …
        crew.stock.ended += 100
        crew.later.pop()()
        assert hands.called == [1]
        # … and now it does not.
        crew.later.pop()()
        assert hands.called == [1, 10]
        assert not crew.later

    def test_nobody_is_called_when_all_is_done(self) -> None:
        crew = Calm(Board(), waiting=40, each=1e-5)
        hands = Calls(crew)
        hands.attend()
        crew.stock.waiting.clear()
        crew.later.pop()()
        assert hands.called == [1]
        assert not crew.later


def test_a_long_job_among_short_ones_is_overtaken(start: Start) -> None:
    """The thread that does the short ones alone gets stuck: others are called."""
    crew = start(concurrency=3)
    crew.order(boards.QUIET)
    short = [crew.put("name_thread", priority=2) for _ in range(300)]
    long = crew.put("wait_for", crew.latch, priority=1)
    after = [crew.put("name_thread") for _ in range(300)]
    crew.order(boards.QUIET, 0)
    for jid in [*short, *after]:
        crew.when(jid, "complete")
    assert crew.when(long, "running")
    crew.open()
    crew.when(long, "complete")


def test_jobs_that_wait_do_so_at_the_same_time(start: Start) -> None:
    """Also when they are the first after many short ones."""
    crew = start(concurrency=8)
    for jid in [crew.put("name_thread") for _ in range(300)]:
        crew.when(jid, "complete")
    for _ in range(8):
        crew.put("wait_for", crew.latch)
    crew.running(8)


def test_jobs_that_compute_do_not_keep_the_others_from_being_settled(
    start: Start,
) -> None:
    crew = start(concurrency=4)
    spinning = [crew.put("spin", crew.latch) for _ in range(2)]
    crew.running(2)
    for jid in [crew.put("give", n) for n in range(10)]:
        crew.when(jid, "complete")
    crew.running(2)
    crew.open()
    for jid in spinning:
        crew.when(jid, "complete")


def test_each_thread_closes_what_it_has_open_at_the_end(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / "left"

    def leave_thread(environment: PlainEnvironment) -> None:
        with left.open("a") as file:
            file.write(f"{threading.current_thread().name}\n")

    monkeypatch.setattr(PlainEnvironment, "leave_thread", leave_thread)
    crew = start(concurrency=3)
    for _ in range(3):
        crew.put("wait_for", crew.latch)
    crew.running(3)
    crew.order(boards.STOP)
    crew.open()
    assert crew.wait() == 0
    hands = [name for name in left.read_text().split("\n") if "hand" in name]
    assert sorted(hands) == ["hand 1", "hand 2", "hand 3"]


def test_what_a_job_starts_hears_signals(start: Start) -> None:
    """A process inherits the signals that are blocked where it is started."""
    crew = start()
    jid = crew.put("signal_mask")
    crew.when(jid, "complete")
    assert crew.client.result(jid) == []


def test_an_error_of_ones_own_ends_the_process(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that ended would keep its job for ever."""

    def begin(board: Board, slot: int, now: float) -> None:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(Board, "begin", begin)
    crew = start(concurrency=2)
    crew.put("give", 1)
    assert crew.wait() != 0
    assert "a mistake" in crew.output
    assert crew.board.holdings().all


def test_a_job_that_forks_returns_once(stage: Stage) -> None:
    from tests.worker.ledger import Ledger

    ledger = Ledger(stage.folder / "ledger")
    try:
        jid = stage.put("fork_and_return", ledger.path)
        stage.start(concurrency=2)
        ledger.wait_for("returned")
        stage.job_when(jid, "complete")
        after = stage.put("answer", 1)
        stage.job_when(after, "complete")
        assert ledger.all() == ["returned"]
    finally:
        ledger.close()


def test_a_long_sleep_of_the_server_loses_nothing(stage: Stage) -> None:
    """Jobs end while nobody can hear of it, and thousands are still to come."""
    names = [str(n) for n in range(400)]
    stage.put_records(names, seconds=0.002)
    stage.start(concurrency=20)
    poll(lambda: len(stage.runs.ended()) > 40, what="some have run")
    stage.client.redis.execute_command("CLIENT", "PAUSE", "700", "ALL")
    poll(lambda: len(stage.runs.ended()) >= 400, what="all have run")
    runs = stage.runs.all()
    assert sorted(run.name for run in runs) == sorted(names)
