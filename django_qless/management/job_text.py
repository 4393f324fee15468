"""A job as plain data, as a line, and as a page of text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django_qless.management.words import moment
from django_qless.redaction import HIDDEN, may_show_result, redact

if TYPE_CHECKING:
    from django_qless.handle import JobHandle


def as_data(handle: JobHandle[Any]) -> dict[str, Any]:
    """Return what JSON can carry."""
    failure = handle.failure
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
        "history": handle.history,
    }


def shown_data(handle: JobHandle[Any]) -> str:
    """Return what a job carries, without what is sensitive."""
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
    if handle.failure:
        failure = handle.failure
        text += [
            "",
            f"failed in {failure.group!r} at {moment(failure.when)}:",
            *(f"  {line}" for line in failure.message.splitlines()),
        ]
    return "\n".join(text)


def _progress(progress: tuple[float, str] | None) -> str:
    return f"{progress[0]:.0%} {progress[1]}".strip() if progress else ""


def _event(event: dict[str, Any]) -> str:
    """Return an entry of the history."""
    names = ("when", "what")
    rest = [f"{name}={event[name]}" for name in event if name not in names]
    return "  ".join(["", moment(event["when"]), str(event["what"]), *rest])
