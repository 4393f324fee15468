"""What is kept of a failure: the group it belongs to and the message for people."""

from __future__ import annotations

import signal
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from django_qless.exceptions import Fail, Retry

UNKNOWN_JOB = "unknown-job"
WORKER_CRASH = "worker-crash"
BAD_RESULT = "bad-result"
REFUSED = "settlement-refused"

MOST_BYTES = 64 * 1024
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
    said = str(wish)
    if wish.__cause__ is not None:
        said = f"{said}\n\n{message_of(wish.__cause__)}"
    return fitting(said)


def own_code(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback without the frames of django_qless at its beginning."""
    inner = trace
    while inner and inner.tb_frame.f_globals.get("__name__", "").startswith(
        "django_qless."
    ):
        inner = inner.tb_next
    return inner or trace


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
