"""What is kept of a failure: the group it belongs to and the message for people."""

from __future__ import annotations

import signal
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from django_qless.exceptions import Fail, Retry

UNKNOWN_JOB = "unknown-job"
WORKER_CRASH = "worker-crash"
BAD_RESULT = "bad-result"
REFUSED = "settlement-refused"
TIMEOUT = "timeout"

MOST_BYTES = 64 * 1024
MOST_IN_LINE = 1000
CUT = "[the beginning is left out]\n"


def group_of(error: BaseException) -> str:
    """Return the failure group of an exception: its class's name, or its own choice."""
    group = getattr(error, "group", None)
    return group if isinstance(group, str) and group else type(error).__name__


def message_of(error: BaseException) -> str:
    """Return the exception's traceback, from the job's own code on, cut to fit."""
    try:
        lines = traceback.format_exception(
            type(error), error, own_code(error.__traceback__)
        )
    except Exception as trouble:  # noqa: BLE001  a hostile __str__, no memory…
        lines = [f"{type(error).__name__}, which cannot be shown: {trouble!r}"]
    return fitting("".join(lines))


def wish_of(wish: Fail | Retry) -> str:
    """Return what a job said that ended itself so, with the cause if it gave one."""
    try:
        said = str(wish)
    except Exception as trouble:  # noqa: BLE001  Fail("group", 404), say
        said = f"{type(wish).__name__}, which cannot be shown: {trouble!r}"
    if wish.__cause__ is not None:
        said = f"{said}\n\n{message_of(wish.__cause__)}"
    return fitting(said)


def line_of(error: BaseException) -> str:
    """Return the exception in one line, cut to fit: its class, and what it says."""
    try:
        said = str(error)
    except Exception as trouble:  # noqa: BLE001  a hostile __str__
        said = f"cannot be shown: {type(trouble).__name__}"
    line = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return line if len(line) <= MOST_IN_LINE else f"{line[:MOST_IN_LINE]}…"


def own_code(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the job's own code on.

    That begins after the frame in which jobs may be interrupted, without the frames of
    django_qless that follow.
    """
    inner = trace
    for frame in _frames(trace):
        if _module(frame) == "django_qless.worker.interrupt":
            inner = frame
            break
    while inner and _module(inner).startswith("django_qless."):
        inner = inner.tb_next
    return inner or trace


def _frames(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace:
        yield trace
        trace = trace.tb_next


def _module(frame: TracebackType) -> str:
    name: str = frame.tb_frame.f_globals.get("__name__", "")
    return name


def fitting(message: str) -> str:
    """Return the message as a failure may hold it: 64 KiB of UTF-8, the end kept."""
    encoded = message.encode("utf-8", "backslashreplace")
    if len(encoded) > MOST_BYTES:
        end = encoded[-(MOST_BYTES - len(CUT)) :]
        return CUT + end.decode("utf-8", "ignore")
    return encoded.decode()


def death_of(process: int, status: int) -> str:
    """Say how a process died; `status` is what waitpid returned, decoded.

    That is an exit code, or the number of a signal below zero.
    """
    if status >= 0:
        return f"The process {process} that ran the job exited with code {status}."
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = "unknown"
    hint = " Out of memory?" if -status == signal.SIGKILL else ""
    return (
        f"The process {process} that ran the job was killed by signal {-status} "
        f"({name}).{hint}"
    )


def overrun(seconds: float) -> str:
    """Say that a job was killed because of its hard timeout."""
    return (
        f"The job ran longer than its hard timeout of {seconds:g} s, and its process "
        "was killed."
    )
