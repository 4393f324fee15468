"""The process that forks the jobs' processes."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from django_qless.core import Reserved, Settlement
from django_qless.worker.pools.fork import packed, unpacked
from django_qless.worker.pools.zygote import HEAD, Zygote
from tests.servers import poll
from tests.worker.conftest import is_alive

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
def zygote() -> Iterator[Zygote]:
    zygote = Zygote(work)
    yield zygote
    # A test that failed may have left a child, for whose end the zygote waits.
    zygote.signal(signal.SIGKILL)
    zygote.close()


def wait_for(zygote: Zygote, is_true: Callable[[], object]) -> None:
    """Hear the zygote until this is true."""
    while not is_true():
        assert select.select(zygote.sources, [], [], 30)[0], "it says nothing"
        zygote.hear()


def done(zygote: Zygote, order: bytes) -> bytes | None:
    """Have this done; return the result."""
    zygote.order(order)
    wait_for(zygote, lambda: zygote.status is not None)
    return zygote.result


def test_each_order_is_done_by_a_new_process_in_a_group_of_its_own(
    zygote: Zygote,
) -> None:
    results = [done(zygote, b"group") for _ in range(5)]
    pids = [int((result or b"").split()[0]) for result in results]
    assert results == [b"%d %d" % (pid, pid) for pid in pids]
    assert len(set(pids)) == 5
    assert os.getpid() not in pids
    assert zygote.child == 0


@pytest.mark.parametrize("size", [0, 1, 65536, 3_000_000])
def test_orders_and_results_may_be_long(zygote: Zygote, size: int) -> None:
    order = os.urandom(size)
    assert done(zygote, order) == order
    assert done(zygote, b"next") == b"next"


@pytest.mark.parametrize(
    ("order", "status"), [(b"exit", 7), (b"segfault", -11), (b"raise", 70)]
)
def test_who_dies_has_no_result(zygote: Zygote, order: bytes, status: int) -> None:
    assert done(zygote, order) is None
    assert zygote.status == status
    assert done(zygote, b"next") == b"next"


def test_half_a_result_of_the_dead_is_not_taken_for_the_next_ones(
    zygote: Zygote,
) -> None:
    zygote.order(b"wait")
    poll(lambda: zygote.child, what="the child has begun")
    half = os.open(f"/proc/{zygote.child}/fd/{tells_of(zygote)}", os.O_WRONLY)
    os.write(half, (100).to_bytes(HEAD, "big") + b"half")
    os.close(half)
    zygote.signal(signal.SIGKILL)
    wait_for(zygote, lambda: zygote.status is not None)
    assert zygote.result is None
    assert done(zygote, b"next") == b"next"


def tells_of(zygote: Zygote) -> int:
    """Return the number of the child's end of the pipe for results."""
    wanted = os.readlink(f"/proc/self/fd/{zygote.sources[0]}")
    folder = f"/proc/{zygote.child}/fd"
    numbers = []
    for name in os.listdir(folder):
        # A child that has just begun closes what it does not need.
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(f"{folder}/{name}") == wanted:
                numbers.append(int(name))
    (number,) = numbers
    return number


def test_what_was_left_behind_is_ended(zygote: Zygote) -> None:
    left = int(done(zygote, b"leave") or 0)
    poll(lambda: not is_alive(left), what="what the child has left is gone")


def test_a_suspended_child_is_noticed(zygote: Zygote) -> None:
    zygote.order(b"wait")
    poll(lambda: zygote.child, what="the child has begun")
    zygote.signal(signal.SIGSTOP)
    wait_for(zygote, lambda: zygote.is_suspended)
    zygote.signal(signal.SIGCONT)
    wait_for(zygote, lambda: not zygote.is_suspended)
    assert zygote.status is None
    zygote.signal(signal.SIGKILL)
    wait_for(zygote, lambda: zygote.status is not None)
    assert zygote.status == -9


def test_without_the_zygote_there_is_nothing_to_wait_for(zygote: Zygote) -> None:
    zygote.order(b"wait")
    child = poll(lambda: zygote.child, what="the child has begun")
    os.kill(zygote.pid, signal.SIGKILL)
    with pytest.raises(EOFError):
        wait_for(zygote, lambda: False)
    os.kill(child, signal.SIGKILL)
    poll(lambda: not is_alive(child), what="the child is gone")
    with pytest.raises(EOFError):
        zygote.order(b"next")


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
