"""An exception at any instruction of a call: no later call gets a reply that is not its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from types import FrameType
from typing import TYPE_CHECKING, Any

import pytest

from tests.client.jobs import Make

if TYPE_CHECKING:
    from tests.real_servers import Server


class Interruption(BaseException):
    """What a signal handler raises."""


# Finalizers, and what a WeakSet does when a member is gone.
FINALIZERS = ("__del__", "_remove")


def is_in_finalizer(frame: FrameType | None) -> bool:
    """Return whether a finalizer is at work here, or has called what is."""
    while frame is not None and frame.f_code.co_name not in FINALIZERS:
        frame = frame.f_back
    return frame is not None


def interrupted(call: Callable[[], object], instruction: int) -> bool:
    """Make a call that is broken off before its n-th instruction; return whether it was."""
    left = instruction

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if event == "call" and is_in_finalizer(frame):
            return None  # (What is raised there is only printed.)
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left < 0:
                raise Interruption
        return trace

    def run() -> bool:
        sys.settrace(trace)
        try:
            call()
        except Interruption:
            return True
        finally:
            sys.settrace(None)
        return False

    # Broken off where no signal comes, Python may go on handling an exception for ever: so
    # in a thread that ends.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()


@pytest.mark.parametrize("opening", [False, True], ids=["open", "opening"])
def test_a_call_that_is_broken_off_anywhere(
    valkey: Make, server: Server, opening: bool
) -> None:
    options = {"client_name": "broken", "username": "default", "password": "any"}
    client = valkey(options=options, patience=5)
    for jid in ("a", "b"):
        client.put("", "q", jid, "k", "{}")

    def read(jid: str) -> None:
        job = client.get(jid)
        assert job is not None
        assert job.jid == jid

    step = 3 if opening else 1
    for instruction in count(0, step):
        if opening:
            client.close()
        if not interrupted(lambda: client.get("a"), instruction):
            break
        read("b")
        read("a")
    assert instruction > 300
    # None was lost, and none is open that nobody uses.
    assert len(client.pool) == 1
    with server.client() as probe:
        assert sum(each["name"] == "broken" for each in probe.client_list()) == 1
    assert sys.exc_info() == (None, None, None)
