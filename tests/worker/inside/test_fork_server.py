"""The process that forks the jobs' processes."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from django_qless.core import Reserved, Settlement
from django_qless.worker.pools.fork import packed, unpacked
from django_qless.worker.pools.fork_server import HEAD, ForkServer
from tests.real_servers import poll
from tests.worker.processes import children_of, is_alive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# pytest-xdist has threads, which the children here do not touch.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


def work(order: bytes) -> bytes:
    """Do what the order says."""
    if order == b"exit":
        os._exit(7)
    if order == b"segfault":
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGSEGV)
    if order == b"raise":
        raise ValueError("an error in the work itself")
    if order == b"wait":
        signal.pause()
    if order == b"group":
        return b"%d %d" % (os.getpid(), os.getpgrp())
    if order == b"leave":
        return b"%d" % subprocess.Popen(["sleep", "1000"]).pid
    return order


@pytest.fixture
def fork_server() -> Iterator[ForkServer]:
    fork_server = ForkServer(work)
    yield fork_server
    # A test that failed may have left a child, for whose end the fork_server waits.
    fork_server.signal(signal.SIGKILL)
    fork_server.close()


def wait_for(fork_server: ForkServer, is_true: Callable[[], object]) -> None:
    """Hear the fork_server until this is true."""
    while not is_true():
        assert select.select(fork_server.sources, [], [], 30)[0], "it says nothing"
        fork_server.read()


def done(fork_server: ForkServer, order: bytes) -> bytes | None:
    """Have this done; return the result."""
    fork_server.order(order)
    wait_for(fork_server, lambda: fork_server.status is not None)
    return fork_server.result


def test_each_order_is_done_by_a_new_process_in_a_group_of_its_own(
    fork_server: ForkServer,
) -> None:
    results = [done(fork_server, b"group") for _ in range(5)]
    pids = [int((result or b"").split()[0]) for result in results]
    assert results == [b"%d %d" % (pid, pid) for pid in pids]
    assert len(set(pids)) == 5
    assert os.getpid() not in pids
    assert fork_server.job_process == 0


@pytest.mark.parametrize("size", [0, 1, 65536, 3_000_000])
def test_orders_and_results_may_be_long(fork_server: ForkServer, size: int) -> None:
    order = os.urandom(size)
    assert done(fork_server, order) == order
    assert done(fork_server, b"next") == b"next"


@pytest.mark.parametrize(
    ("order", "status"), [(b"exit", 7), (b"segfault", -11), (b"raise", 70)]
)
def test_who_dies_has_no_result(
    fork_server: ForkServer, order: bytes, status: int
) -> None:
    assert done(fork_server, order) is None
    assert fork_server.status == status
    assert done(fork_server, b"next") == b"next"


def test_half_a_result_of_the_dead_is_not_taken_for_the_next_ones(
    fork_server: ForkServer,
) -> None:
    fork_server.order(b"wait")
    poll(lambda: fork_server.job_process, what="the child has begun")
    half = os.open(
        f"/proc/{fork_server.job_process}/fd/{result_writer_of(fork_server)}",
        os.O_WRONLY,
    )
    os.write(half, (100).to_bytes(HEAD, "big") + b"half")
    os.close(half)
    fork_server.signal(signal.SIGKILL)
    wait_for(fork_server, lambda: fork_server.status is not None)
    assert fork_server.result is None
    assert done(fork_server, b"next") == b"next"


def result_writer_of(fork_server: ForkServer) -> int:
    """Return the number of the child's end of the pipe for results."""
    wanted = os.readlink(f"/proc/self/fd/{fork_server.sources[0]}")
    folder = f"/proc/{fork_server.job_process}/fd"
    numbers = []
    for name in os.listdir(folder):
        # A child that has just begun closes what it does not need.
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(f"{folder}/{name}") == wanted:
                numbers.append(int(name))
    (number,) = numbers
    return number


def test_what_was_left_behind_is_ended(fork_server: ForkServer) -> None:
    left = int(done(fork_server, b"leave") or 0)
    poll(lambda: not is_alive(left), what="what the child has left is gone")


def test_a_suspended_child_is_noticed(fork_server: ForkServer) -> None:
    fork_server.order(b"wait")
    poll(lambda: fork_server.job_process, what="the child has begun")
    fork_server.signal(signal.SIGSTOP)
    wait_for(fork_server, lambda: fork_server.is_suspended)
    fork_server.signal(signal.SIGCONT)
    wait_for(fork_server, lambda: not fork_server.is_suspended)
    assert fork_server.status is None
    fork_server.signal(signal.SIGKILL)
    wait_for(fork_server, lambda: fork_server.status is not None)
    assert fork_server.status == -9


def test_without_the_fork_server_there_is_nothing_to_wait_for(
    fork_server: ForkServer,
) -> None:
    fork_server.order(b"wait")
    child = poll(lambda: fork_server.job_process, what="the child has begun")
    ahead = ahead_of(fork_server)
    os.kill(fork_server.pid, signal.SIGKILL)
    with pytest.raises(EOFError):
        wait_for(fork_server, lambda: False)
    poll(lambda: not is_alive(ahead), what="the process ahead is gone")
    # The job that still runs reads no orders.
    with pytest.raises(EOFError):
        fork_server.order(b"next")
    os.kill(child, signal.SIGKILL)
    poll(lambda: not is_alive(child), what="the child is gone")
    with pytest.raises(EOFError):
        fork_server.order(b"next")


def ahead_of(fork_server: ForkServer) -> int:
    """Return the process that waits for the next order, once it is there."""

    def waiting() -> list[int]:
        return [
            one
            for one in children_of(fork_server.pid)
            if one != fork_server.job_process
        ]

    poll(waiting, what="the next job process is there")
    (one,) = waiting()
    return one


def test_the_next_process_is_there_before_its_order(fork_server: ForkServer) -> None:
    ahead = ahead_of(fork_server)
    assert done(fork_server, b"group") == b"%d %d" % (ahead, ahead)
    fork_server.order(b"wait")
    poll(lambda: fork_server.job_process, what="the order is handed over")
    ahead = ahead_of(fork_server)
    fork_server.signal(signal.SIGKILL)
    wait_for(fork_server, lambda: fork_server.status is not None)
    assert is_alive(ahead)


@pytest.mark.parametrize("size", [0, 3_000_000])
def test_an_order_does_not_get_lost_with_a_process_that_was_killed_before(
    fork_server: ForkServer, size: int
) -> None:
    ahead = ahead_of(fork_server)
    os.kill(ahead, signal.SIGKILL)
    poll(lambda: not is_alive(ahead), what="the process ahead is gone")
    result = done(fork_server, b"x" * size)
    assert (fork_server.status, result) == (0, b"x" * size)


@pytest.fixture
def without_forks(fork_server: ForkServer) -> Iterator[Callable[[bool], None]]:
    """Keeps the fork server from having further processes: it may open no pipe."""
    if sys.platform != "linux":
        pytest.skip("the limits of another process are Linux's")
    soft, hard = resource.prlimit(fork_server.pid, resource.RLIMIT_NOFILE)

    def limit(on: bool) -> None:
        limits = (3 if on else soft, hard)
        resource.prlimit(fork_server.pid, resource.RLIMIT_NOFILE, limits)

    yield limit
    limit(False)


def test_an_order_for_which_there_can_be_no_process_is_refused(
    fork_server: ForkServer, without_forks: Callable[[bool], None]
) -> None:
    ahead = ahead_of(fork_server)
    without_forks(True)
    os.kill(ahead, signal.SIGKILL)
    poll(lambda: not is_alive(ahead), what="the process ahead is gone")
    for _ in range(2):
        with pytest.raises(OSError, match="no process for a job: Too many open files"):
            done(fork_server, b"order")
        assert fork_server.status is None
    without_forks(False)
    assert done(fork_server, b"next") == b"next"


def test_without_a_process_ahead_the_next_order_has_one_all_the_same(
    fork_server: ForkServer, without_forks: Callable[[bool], None]
) -> None:
    ahead_of(fork_server)
    without_forks(True)
    assert done(fork_server, b"last") == b"last"
    assert children_of(fork_server.pid) == []
    without_forks(False)
    assert done(fork_server, b"next") == b"next"


def test_a_process_that_died_over_its_order_is_not_signalled(
    fork_server: ForkServer, without_forks: Callable[[bool], None]
) -> None:
    """Its id may soon be that of a process of another program."""
    ahead = ahead_of(fork_server)
    os.kill(ahead, signal.SIGSTOP)
    # More than fits into the pipe of a process that reads nothing.
    fork_server.order(b"x" * 3_000_000)
    poll(lambda: fork_server.job_process == ahead, what="it is given the order")
    without_forks(True)
    os.kill(ahead, signal.SIGKILL)
    with pytest.raises(OSError, match="no process"):
        wait_for(fork_server, lambda: False)
    assert fork_server.job_process == 0


def test_the_process_ahead_ends_with_the_fork_server(fork_server: ForkServer) -> None:
    ahead = ahead_of(fork_server)
    os.kill(fork_server.pid, signal.SIGKILL)
    poll(lambda: not is_alive(ahead), what="the process ahead is gone")


def test_the_process_ahead_ends_when_the_fork_server_is_closed() -> None:
    fork_server = ForkServer(work)
    ahead = ahead_of(fork_server)
    fork_server.close()
    assert not is_alive(ahead)


def test_settlements_travel_as_they_are() -> None:
    job = Reserved("j", "q", "k", "{}", "t", 3, 3, 0, "[]", "", 0.0)
    for verb, args in (
        ("complete", ()),
        ("complete", ('{"é": "🐌"}', 60, b"\x00\xff {}")),
        ("retry", (0.1, "ValueError", "lone \udce9 and \x00")),
        ("fail", ("group", "x" * 65536)),
        ("move", ("other", 2.5, '["a"]')),
        ("release", (0,)),
        ("unknown", (600,)),
    ):
        settlement = Settlement("j", "t", verb, args, 0.0)
        assert unpacked(job, packed(settlement)) == settlement
    unstarted = Settlement("j", "t", "release", (0,))
    assert unpacked(job, packed(unstarted)) == unstarted


@pytest.mark.parametrize(
    "message",
    [b"", b"rubbish", b"3", b'["complete"]', b"[1, 2]", b'["release", [0], "x"]'],
)
def test_what_is_no_settlement_is_none(message: bytes) -> None:
    job = Reserved("j", "q", "k", "{}", "t", 3, 3, 0, "[]", "", 0.0)
    assert unpacked(job, message) is None
