"""Output for terminals: times, tables, and jobs as data, rows and text."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.utils.timezone import get_current_timezone

from django_qless.core.attempts import read_attempts
from django_qless.job_types.redaction import HIDDEN, may_show_result, redact
from django_qless.operations.durations import duration_text

if TYPE_CHECKING:
    from django_qless.core.attempts import Attempt
    from django_qless.job_types.handle import JobHandle
    from django_qless.operations.bulk import BulkRun

#: Jobs that were not canceled and are printed with the reason.
REFUSALS = 5

JOB_COLUMNS = ("jid", "job", "queue", "state", "priority", "retries left", "tags")


def format_time(seconds: float) -> str:
    """Return a time of the epoch in the project's time zone."""
    local = datetime.fromtimestamp(seconds, get_current_timezone())
    return local.strftime("%Y-%m-%d %H:%M:%S")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 job`, `2 jobs`, `1,000 jobs`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def changed_text(run: BulkRun, done: str) -> str:
    """Return how many jobs a finished run has `done`, and why it left others."""
    lines = [f"{done}: {counted(run.done, 'job')}"]
    lines += [f"not {done}: {why}" for _jid, why in run.reasons[:REFUSALS]]
    if run.refused > REFUSALS:
        lines.append(f"… and {run.refused - REFUSALS:,} more")
    return "\n".join(lines)


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], placeholder: str = ""
) -> str:
    """Return rows in columns, or the placeholder if there are none."""
    if not rows:
        return placeholder
    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def job_data(handle: JobHandle[Any]) -> dict[str, Any]:
    """Return a job as JSON values."""
    failure, canceled = handle.failure, handle.canceled
    return {
        "jid": handle.jid,
        "job": handle.name,
        "queue": handle.queue,
        "state": handle.state,
        "priority": handle.priority,
        "retries": handle.retries,
        "remaining": handle.remaining,
        "worker": handle.worker,
        "tags": handle.tags,
        "data": displayed_data(handle),
        "progress": handle.progress,
        "dependencies": handle.dependencies,
        "dependents": handle.dependents,
        "failure": failure._asdict() if failure else None,
        "failed_from": handle.failed_from,
        "canceled": canceled._asdict() if canceled else None,
        "history": handle.history,
    }


def displayed_data(handle: JobHandle[Any]) -> str:
    """Return a job's data with sensitive values hidden."""
    if handle.canceled and handle.canceled.left_out:
        return f"{handle.canceled.left_out:,} bytes, not kept"
    return redact(handle.name, handle.data, indent=None).text


def displayed_result(handle: JobHandle[Any], result: Any) -> Any:
    """Return the result of a job, or a placeholder if it is sensitive."""
    if result is None or may_show_result(handle.name, handle.data):
        return result
    return HIDDEN


def job_row(handle: JobHandle[Any]) -> list[str]:
    """Return a job as cells of a table, by JOB_COLUMNS."""
    return [
        handle.jid,
        handle.name,
        handle.queue,
        handle.state,
        str(handle.priority),
        _retries_left(handle),
        " ".join(handle.tags),
    ]


def job_text(handle: JobHandle[Any], result: Any) -> str:
    """Return all details of a job as text."""
    lines = [
        ("job", handle.name),
        ("jid", handle.jid),
        ("state", handle.state),
        ("canceled", _canceled(handle)),
        ("queue", handle.queue),
        ("failed in", handle.failed_from or ""),
        ("priority", str(handle.priority)),
        ("retries left", _retries_left(handle, f" of {handle.retries}")),
        ("worker", handle.worker),
        ("tags", " ".join(handle.tags)),
        ("data", displayed_data(handle)),
        ("result", "" if result is None else json.dumps(result, ensure_ascii=False)),
        ("progress", _progress(handle.progress)),
        ("depends on", " ".join(handle.dependencies)),
        ("dependents", " ".join(handle.dependents)),
    ]
    text = [f"{name + ':':14}{value}" for name, value in lines if value]
    text += ["", "history:", *map(_event, handle.history)]
    attempts = read_attempts(
        handle.history,
        is_running=handle.state == "running",
        now=time.time(),
        failed=handle.failure.when if handle.failure else None,
    ).attempts
    if attempts:
        text += ["", "attempts:"]
        text += [_attempt(*each) for each in enumerate(attempts, 1)]
    if handle.failure:
        failure = handle.failure
        text += [
            "",
            f"failed in {failure.group!r} at {format_time(failure.when)}:",
            *(f"  {line}" for line in failure.message.splitlines()),
        ]
    return "\n".join(text)


def _retries_left(handle: JobHandle[Any], of: str = "") -> str:
    """Return how many retries are left; "" if the job is complete and has all again."""
    return "" if handle.state == "complete" else f"{handle.remaining}{of}"


def _canceled(handle: JobHandle[Any]) -> str:
    """Return when and why a job was canceled, "" if it was not."""
    canceled = handle.canceled
    if canceled is None:
        return ""
    reason = f", because of {canceled.why} {canceled.by}" if canceled.by else ""
    return f"{format_time(canceled.when)}, when it was {canceled.was}{reason}"


def _progress(progress: tuple[float, str] | None) -> str:
    return f"{progress[0]:.0%} {progress[1]}".strip() if progress else ""


def _event(event: dict[str, Any]) -> str:
    """Return an entry of the history. (How long it was held, the attempts say.)"""
    said = "when", "what", "held"
    members = {name: event[name] for name in event if name not in said}
    if isinstance(members.get("until"), (int, float)):
        members["until"] = format_time(members["until"])
    # A message may be long: it comes last.
    names = sorted(members, key=lambda name: (name == "message", name))
    rest = [f"{name}={members[name]}" for name in names]
    return "  ".join(["", format_time(event["when"]), str(event["what"]), *rest])


def _attempt(number: int, attempt: Attempt) -> str:
    """Return an attempt: its start, how long it waited and ran, its end."""
    waiting, running = attempt.waiting, attempt.running
    words = [
        f"  {number}",
        format_time(attempt.started),
        f"waited {duration_text(waiting.seconds)}" if waiting else "",
        f"ran {duration_text(running.seconds)}" if running else "",
        attempt.end or "runs",
        attempt.message or attempt.group,
    ]
    return "  ".join(word for word in words if word)
