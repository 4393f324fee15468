"""A job as plain data, as a line, and as a page of text."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from django_qless.core.attempts import Attempts, read_attempts
from django_qless.management.words import moment, span
from django_qless.redaction import HIDDEN, may_show_result, redact

if TYPE_CHECKING:
    from django_qless.core.attempts import Attempt
    from django_qless.handle import JobHandle


def as_data(handle: JobHandle[Any]) -> dict[str, Any]:
    """Return what JSON can carry."""
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
        "data": shown_data(handle),
        "progress": handle.progress,
        "dependencies": handle.dependencies,
        "dependents": handle.dependents,
        "failure": failure._asdict() if failure else None,
        "canceled": canceled._asdict() if canceled else None,
        "history": handle.history,
    }


def shown_data(handle: JobHandle[Any]) -> str:
    """Return what a job carries, without what is sensitive."""
    if handle.canceled and handle.canceled.left_out:
        return f"{handle.canceled.left_out:,} bytes, not kept"
    return redact(handle.name, handle.data, handle.alias, indent=None).text


def shown_result(handle: JobHandle[Any], result: Any) -> Any:
    """Return what a job has returned, or what stands for it if that is sensitive."""
    if result is None or may_show_result(handle.name, handle.data, handle.alias):
        return result
    return HIDDEN


def as_line(handle: JobHandle[Any]) -> list[str]:
    """Return the cells of a table's row."""
    return [
        handle.jid,
        handle.name,
        handle.queue,
        handle.state,
        str(handle.priority),
        str(handle.remaining),
        " ".join(handle.tags),
    ]


def as_text(handle: JobHandle[Any], result: Any) -> str:
    """Return all that is known of a job, for people."""
    lines = [
        ("job", handle.name),
        ("jid", handle.jid),
        ("state", handle.state),
        ("canceled", _canceled(handle)),
        ("queue", handle.queue),
        ("priority", str(handle.priority)),
        ("retries left", f"{handle.remaining} of {handle.retries}"),
        ("worker", handle.worker),
        ("tags", " ".join(handle.tags)),
        ("data", shown_data(handle)),
        ("result", "" if result is None else json.dumps(result, ensure_ascii=False)),
        ("progress", _progress(handle.progress)),
        ("depends on", " ".join(handle.dependencies)),
        ("dependents", " ".join(handle.dependents)),
    ]
    text = [f"{name + ':':14}{value}" for name, value in lines if value]
    text += ["", "history:", *map(_event, handle.history)]
    found = attempts(handle, time.time()).attempts
    if found:
        text += ["", "attempts:", *(_attempt(*each) for each in enumerate(found, 1))]
    if handle.failure:
        failure = handle.failure
        text += [
            "",
            f"failed in {failure.group!r} at {moment(failure.when)}:",
            *(f"  {line}" for line in failure.message.splitlines()),
        ]
    return "\n".join(text)


def _canceled(handle: JobHandle[Any]) -> str:
    """Return when a job was canceled and why, "" if it was not."""
    canceled = handle.canceled
    if canceled is None:
        return ""
    reason = f", because of {canceled.why} {canceled.by}" if canceled.by else ""
    return f"{moment(canceled.when)}, when it was {canceled.was}{reason}"


def _progress(progress: tuple[float, str] | None) -> str:
    return f"{progress[0]:.0%} {progress[1]}".strip() if progress else ""


def _event(event: dict[str, Any]) -> str:
    """Return an entry of the history."""
    members = {name: event[name] for name in event if name not in ("when", "what")}
    if isinstance(members.get("until"), float):
        members["until"] = moment(members["until"])
    rest = [f"{name}={members[name]}" for name in sorted(members, key=_place)]
    return "  ".join(["", moment(event["when"]), str(event["what"]), *rest])


def _place(name: str) -> tuple[bool, str]:
    return name == "message", name


def attempts(handle: JobHandle[Any], now: float) -> Attempts:
    """Return the attempts at a job, up to now."""
    failure = handle.failure
    return read_attempts(
        handle.history,
        is_running=handle.state == "running",
        now=now,
        failed=failure.when if failure else None,
    )


def _attempt(number: int, attempt: Attempt) -> str:
    """Return an attempt: when it was started, how long it waited and ran, its end."""
    waiting, running = attempt.waiting, attempt.running
    words = [
        f"  {number}",
        moment(attempt.started),
        f"waited {span(waiting.seconds)}" if waiting else "",
        f"ran {span(running.seconds)}" if running else "",
        attempt.end or "runs",
        attempt.message or attempt.group,
    ]
    return "  ".join(word for word in words if word)
