"""The process of a child: how it begins, ends, and what its parent sees of that."""

from __future__ import annotations

import errno
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.worker.pools import shared_state
from django_qless.worker.pools.child_process import CRASHED, ChildProcess
from django_qless.worker.pools.shared_state import SharedState
from tests.real_servers import poll

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Start = Callable[..., ChildProcess]

# pytest-xdist has threads, which the children here do not touch.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[ChildProcess] = []

    def start(run: Callable[[SharedState], None]) -> ChildProcess:
        child = ChildProcess(run, SharedState(slots=4), started)
        started.append(child)
        return child

    yield start
    for child in started:
        if child.status is None:
            child.kill()
            poll(child.watch, what="the child has ended")
        child.close()


def open_files() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def nothing(shared: SharedState) -> None:
    pass


@pytest.mark.skipif(
    not os.path.isdir("/proc/self/fd"), reason="open files are read from /proc"
)
@pytest.mark.parametrize("fails", ["os.fork", "os.pipe", "os.memfd_create"])
def test_a_child_that_cannot_be_forked_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """Where files or processes run out, the worker tries again and again."""

    def fail(*args: Any) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    before, mask = open_files(), signal.pthread_sigmask(signal.SIG_BLOCK, ())
    shared = SharedState(slots=4)
    with monkeypatch.context() as trouble:
        trouble.setattr(fails, fail)
        with pytest.raises(OSError, match="Too many open files"):
            ChildProcess(nothing, shared, ())
    assert open_files() == before
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask


def test_an_internal_error_is_the_end_of_a_child(start: Start) -> None:
    def fail(shared: SharedState) -> None:
        raise RuntimeError("a defect")

    child = start(fail)
    poll(child.watch, what="the child has ended")
    assert child.status == CRASHED


def test_a_child_whose_status_was_taken_by_other_code_has_ended(start: Start) -> None:
    """A library may wait for all children of a process."""
    child = start(nothing)
    os.waitpid(child.pid, 0)
    assert child.watch()
    assert child.status == CRASHED


def test_a_child_that_waits_is_woken_to_look(start: Start) -> None:
    def wait(shared: SharedState) -> None:
        signal.signal(signal.SIGTERM, lambda *_: None)
        shared.ints[shared_state.WAKEABLE] = 1
        while not shared.has_commands:
            signal.sigtimedwait((), 0.01)

    child = start(wait)
    poll(lambda: child.shared.ints[shared_state.WAKEABLE], what="it waits")
    child.request_attention()
    poll(child.watch, what="it has looked")
    assert child.status == 0
