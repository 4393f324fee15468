"""Failure groups, and failure messages for people."""

from __future__ import annotations

import signal
import traceback
from typing import TYPE_CHECKING

from django_qless.worker.exception_groups import decisive, leaves_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from django_qless.exceptions import Fail, Retry

WORKER_CRASH = "worker-crash"
BAD_RESULT = "bad-result"
REFUSED = "settlement-refused"
TIMEOUT = "timeout"

MAX_BYTES = 64 * 1024
MAX_SUMMARY = 1000
TRUNCATED = "[the beginning is left out]\n"


def group_of(error: BaseException) -> str:
    """Return the failure group of an exception: its `group`, else its class's name.

    An exception group without a `group` has that of what is in it.
    """
    deciding = decisive(error)
    for each in (error, deciding):
        try:
            group = getattr(each, "group", None)
        except Exception:  # noqa: BLE001  a hostile property, an endless __getattr__
            continue
        if isinstance(group, str) and group:
            return group
    return type(deciding).__name__


def message_of(error: BaseException) -> str:
    """Return the exception's traceback, from the job's own code on, cut to fit."""
    try:
        lines = traceback.format_exception(
            type(error), error, job_traceback(error.__traceback__)
        )
    except Exception as trouble:  # noqa: BLE001  a hostile __str__, no memory…
        why = summary_of(trouble)
        lines = [f"{type(error).__name__}, which cannot be shown: {why}"]
    return truncate("".join(lines))


def message_from_job(request: Fail | Retry, error: BaseException | None = None) -> str:
    """Return the text of a Fail or Retry, its cause, and what was raised together with it.

    `error` is the exception group that the job has raised.
    """
    try:
        text = str(request)
    except Exception as trouble:  # noqa: BLE001  Fail("group", 404), say
        why = summary_of(trouble)
        text = f"{type(request).__name__}, which cannot be shown: {why}"
    if request.__cause__ is not None:
        text = f"{text}\n\n{message_of(request.__cause__)}"
    if error is not None and len(leaves_of(error)) > 1:
        text = f"{text}\n\n{message_of(error)}"
    return truncate(text)


def refusal(verb: str, why: object) -> tuple[str, str]:
    """Return group and message of a job whose end the server refuses, and that is held."""
    return REFUSED, truncate(f"The server refused {verb}: {why}")


def summary_of(error: BaseException) -> str:
    """Return the exception in one line, cut to fit: its class and its text."""
    error = decisive(error)
    try:
        text = str(error)
    except Exception as trouble:  # noqa: BLE001  a hostile __str__
        text = f"cannot be shown: {type(trouble).__name__}"
    line = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return line if len(line) <= MAX_SUMMARY else f"{line[:MAX_SUMMARY]}…"


def job_traceback(trace: TracebackType | None) -> TracebackType | None:
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


def truncate(message: str) -> str:
    """Return the last 64 KiB of a message, as the server accepts it."""
    encoded = message.encode("utf-8", "backslashreplace")
    if len(encoded) > MAX_BYTES:
        end = encoded[-(MAX_BYTES - len(TRUNCATED)) :]
        return TRUNCATED + end.decode("utf-8", "ignore")
    return encoded.decode()


def crash_message(pid: int, status: int) -> str:
    """Describe how a process died.

    `status` is an exit code, or the number of a signal below zero.
    """
    if status >= 0:
        return f"The process {pid} that ran the job exited with code {status}."
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = "unknown"
    hint = " Out of memory?" if -status == signal.SIGKILL else ""
    return (
        f"The process {pid} that ran the job was killed by signal {-status} "
        f"({name}).{hint}"
    )


def overrun_message(seconds: float) -> str:
    """Describe that a job was killed because of its hard timeout."""
    return (
        f"The job ran longer than its hard timeout of {seconds:g} s, and its process "
        "was killed."
    )
