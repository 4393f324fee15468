"""Jobs in the hands of a process that was suspended: are they still its own?"""

from __future__ import annotations

import marshal
import os
import signal
from typing import TYPE_CHECKING

import pytest

from django_qless.core import Beat, Client, Reserved, Settled
from django_qless.worker.options import WorkerOptions
from django_qless.worker.pools import board as boards
from django_qless.worker.pools import lock_expiry, renewal
from django_qless.worker.pools.board import Board
from django_qless.worker.pools.fork import Keeper
from django_qless.worker.pools.lock_expiry import ServerTime, Term
from django_qless.worker.pools.renewal import Renewal
from django_qless.worker.worker import Worker
from tests.servers import poll
from tests.worker import process_jobs
from tests.worker.plain import PlainEnvironment
from tests.worker.processes import is_suspended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.servers import Server
    from tests.worker.conftest import WorkerProcess
    from tests.worker.ledger import Ledger

    Put = Callable[..., str]
    StartWorker = Callable[..., WorkerProcess]


@pytest.fixture
def board() -> Iterator[Board]:
    board = Board()
    yield board
    board.close()


class Clock:
    """The clock of the machine, as the test sets it."""

    now = 1000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (lock_expiry, renewal):
        monkeypatch.setattr(module, "boottime", lambda: clock.now)
    return clock


def settled(*expires: float, now: float) -> Settled:
    """Return what has come at that time of the server, with locks until then."""
    job = Reserved("jid", "q", "k", "{}", "1", 3, 3, 0, "{}", "", 0.0)
    jobs = [job._replace(expires=until) for until in expires]
    return Settled([], jobs, now=now)


class TestTerm:
    def test_it_counts_from_when_the_request_was_sent(
        self, board: Board, clock: Clock
    ) -> None:
        clock.now = 1020.0
        term = ServerTime().term(settled(560, 530, now=500), 1005.0, waited=False)
        for clock.now in (1020.0, 1034.9):
            assert term.holds(board)
        clock.now = 1035.0
        assert not term.holds(board)

    def test_what_waited_at_the_server_counts_from_when_it_was_answered(
        self, board: Board, clock: Clock
    ) -> None:
        """As the call before tells, and not from when the reply was seen."""
        times = ServerTime()
        times.term(settled(now=500), 999.0, waited=False)
        clock.now = 1010.0
        term = times.term(settled(506, now=504), 1000.0, waited=True)
        clock.now = 1004.9
        assert term.holds(board)
        clock.now = 1005.0
        assert not term.holds(board)

    def test_it_never_counts_from_later_than_the_reply(
        self, board: Board, clock: Clock
    ) -> None:
        """The clock of the server has gone ahead meanwhile."""
        times = ServerTime()
        times.term(settled(now=500), 999.0, waited=False)
        term = times.term(settled(4110, now=4100), 1000.0, waited=True)
        clock.now = 1010.0
        assert not term.holds(board)

    def test_heartbeats_for_what_they_have_seen_prolong_it(
        self, board: Board, clock: Clock
    ) -> None:
        term = Term(1030.0, 30.0, shown=1001.0)
        clock.now = 1040.0
        for renewed, holds in ((1000.0, False), (1001.0, False), (1020.0, True)):
            board.seconds[boards.RENEWED] = renewed
            assert term.holds(board) == holds


class Beats:
    """A heartbeat without a server."""

    due = pace = 0.0

    def __init__(self) -> None:
        self.is_failing = False
        self.lost: list[str] = []

    def beat(self, held: object) -> Beat:
        return Beat(self.lost, [])

    def relax(self, locks: object) -> None: ...

    def hurry(self, lock: float) -> None: ...


class Beaten:
    """A child with two jobs, of which one may be elsewhere as well."""

    works = True
    pid = 1

    def __init__(self, board: Board) -> None:
        self.board = board

    def drop(self, tokens: set[str]) -> None:
        self.board.order_drop(tokens)


class TestRenewal:
    @pytest.mark.parametrize(
        "way", ["well", "failing", "suspended", "superseded", "lost"]
    )
    def test_the_child_is_told_when_all_of_its_locks_were_renewed(
        self, board: Board, clock: Clock, way: str
    ) -> None:
        heartbeat, child = Beats(), Beaten(board)
        children = [child]
        for jid, token in (("a", "1"), ("b", "2")):
            board.take(jid, token, 0.0)
        if way == "superseded":
            other = Beaten(Board())
            other.board.take("a", "3", 0.0)
            children.append(other)
        heartbeat.lost = ["b"] if way == "lost" else []
        heartbeat.is_failing, child.works = way == "failing", way != "suspended"
        Renewal(heartbeat, children).beat()  # type: ignore[arg-type]
        expected = clock.now if way == "well" else 0.0
        assert board.seconds[boards.RENEWED] == expected


def test_the_process_of_a_job_looks_as_well(server: Server, board: Board) -> None:
    """It was suspended itself, after the order to run the job."""
    options = WorkerOptions(queues=("q",), pool="fork")
    keeper = Keeper(Worker(PlainEnvironment(server.url), options), board, 0)
    job = settled(0.0, now=0.0).jobs[0]
    order = (board.nowhere, tuple(job), False, Term(0.0).values)
    assert keeper.do(marshal.dumps(order)) == b'["release", [0], null]'


@pytest.mark.parametrize("pool", ["prefork", "threads", "coroutines"])
@pytest.mark.parametrize("what", ["child", "machine"])
def test_what_it_held_too_long_is_not_started(
    start_worker: StartWorker,
    put: Put,
    ledger: Ledger,
    client: Client,
    tmp_path: Path,
    pool: str,
    what: str,
) -> None:
    """A job suspends its process; meanwhile all others go to somebody else."""
    client.config_set("heartbeat", 1)
    client.config_set("grace-period", 0)
    flag = tmp_path / "flag"
    for n in range(3000):
        put("be_suspended", ledger.path, n, str(flag), jid=f"j{n}", retries=9)
    # Beside several threads, others may have begun a job of which nothing is to be seen yet.
    more = {"concurrency": 1} if pool == "threads" else {}
    worker = start_worker(queues=["q"], pool=pool, module=process_jobs.MODULE, **more)
    pid, held = suspended_with_jobs(client, ledger, flag)
    if what == "machine":
        worker.signal("STOP")
    client.config_set("heartbeat", 3600)
    taken: set[str] = set()
    while not held <= taken:
        settled = client.settle("other", [], 250, ["q"])
        taken |= {job.jid for job in settled.jobs}
    put("be_suspended", ledger.path, "after", str(flag))
    os.kill(pid, signal.SIGCONT)
    ledger.wait_for("ran after")
    worker.signal("CONT")
    assert sorted(held & ran(ledger)) == []


def suspended_with_jobs(
    client: Client, ledger: Ledger, flag: Path
) -> tuple[int, set[str]]:
    """Have a process be suspended; return its id and the jids that are in its hands."""
    before: list[int] = []
    while True:
        # Many are held once they have shown to be short.
        ledger.wait_until(len(ledger.lines) + 200)
        flag.touch()
        stops = len(before) + 1
        pid = poll(lambda n=stops: suspended(ledger)[n - 1 : n], what="a job stops")[0]
        poll(lambda pid=pid: is_suspended(pid), what="its process is suspended")
        locked = client.jobs("running", "q", 0, 999)
        held = {*locked, *client.jobs("stalled", "q", 0, 999)} - ran(ledger)
        if held:
            return pid, held
        before.append(pid)
        os.kill(pid, signal.SIGCONT)


def suspended(ledger: Ledger) -> list[int]:
    """Return the processes that were suspended so far."""
    return list(map(int, ledger.starting_with("suspended")))


def ran(ledger: Ledger) -> set[str]:
    """Return the jids of the jobs that have been started so far."""
    return {f"j{name}" for name in ledger.starting_with("ran")}
