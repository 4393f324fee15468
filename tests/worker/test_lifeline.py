"""A child ends with its parent, with the kernel's help or without."""

from __future__ import annotations

import os
import signal

import pytest

from django_qless.worker.pools.lifeline import Lifeline
from tests.servers import poll
from tests.worker.conftest import is_alive


@pytest.mark.parametrize("kernel_helps", [True, False])
def test_the_end_of_the_parent_ends_the_group(
    monkeypatch: pytest.MonkeyPatch, kernel_helps: bool
) -> None:
    if not kernel_helps:
        monkeypatch.setattr(Lifeline, "_ask_kernel", lambda self: False)
    told, tell = os.pipe()
    parent = os.fork()
    if parent == 0:
        lifeline = Lifeline()
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            lifeline.tie()
            grandchild = os.fork()
            if grandchild:
                os.write(tell, f"{os.getpid()} {grandchild}\n".encode())
        while True:
            signal.pause()
    pids = [int(word) for word in os.read(told, 100).split()]
    assert all(map(is_alive, pids))
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    for pid in pids:
        poll(lambda pid=pid: not is_alive(pid), what=f"{pid} is gone")


def test_a_parent_that_is_gone_already_ends_the_child() -> None:
    lifeline = Lifeline()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        lifeline.tie()
        while True:
            signal.pause()
    # Nobody but this process holds the other end.
    lifeline.cut()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    lifeline.forget()
