"""A job in brief: what a line of a list shows of it, without data, history or message."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

#: The lists of jobs that can be read in parts: those of a queue, of a failure group, of a
#: tag, of a worker, and those of the whole namespace.
ListKind = Literal[
    "waiting",
    "running",
    "stalled",
    "scheduled",
    "depends",
    "group",
    "tag",
    "worker",
    "complete",
    "canceled",
    "tracked",
]
LIST_KINDS: tuple[ListKind, ...] = (
    *("waiting", "running", "stalled", "scheduled", "depends"),
    *("group", "tag", "worker", "complete", "canceled", "tracked"),
)

#: Kinds of which a namespace has one list, so that it has no name.
NAMELESS: tuple[ListKind, ...] = ("complete", "canceled", "tracked")

#: A part of a list: which, the name of its queue, group, tag or worker ("" if it has none),
#: from which place on, how many.
Part = tuple[ListKind, str, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """What a list shows of a job. Times are in seconds of the epoch."""

    jid: str
    klass: str
    #: "" once the job is complete.
    queue: str
    #: As it is now: stalled when the lock has expired, waiting when its time has come, or
    #: when it was taken from its worker; canceled while that is remembered.
    state: str
    priority: int | float
    #: How often the job may be tried again; remaining: how often it still may.
    retries: int
    remaining: int
    tags: tuple[str, ...]
    #: Who holds the job, or "".
    worker: str
    #: When it was first put; None if its history does not say.
    put: float | None
    #: When it came into its present state: was put, fell due, was popped, stalled, failed,
    #: was completed or canceled.
    since: float
    #: When a scheduled job falls due; None for all others.
    due: float | None
    #: When the lock ends; 0 without a lock.
    expires: float
    #: The failure group of a failed job, else None.
    group: str | None
    #: How far the job is, from 0 to 1, and a text; None if it did not say.
    progress: tuple[float, str] | None
    #: The id of the workflow that it is part of, or None.
    workflow: str | None
    #: The recurring job that put this one, or None.
    spawned_from: str | None
    tracked: bool

    @classmethod
    def read(cls, row: Sequence[Any]) -> Brief:
        """Return the brief for a row of the core's JSON."""
        (
            klass,
            queue,
            state,
            priority,
            retries,
            remaining,
            tags,
            worker,
            since,
            expires,
            spawned_from,
            due,
            group,
            progress,
            workflow,
            tracked,
            put,
            jid,
        ) = row
        return cls(
            jid=jid,
            klass=klass,
            queue=queue or "",
            state=state,
            priority=number(priority or "0"),
            retries=int(float(retries or 0)),
            remaining=int(float(remaining or 0)),
            tags=() if tags in ("{}", False) else tuple(json.loads(tags)),
            worker=worker or "",
            put=float(put) if put else None,
            since=float(since or 0),
            due=float(due) if due else None,
            expires=float(expires or 0),
            group=None if group is False else group,
            progress=_progress(progress),
            workflow=workflow or None,
            spawned_from=spawned_from or None,
            tracked=tracked,
        )


def number(text: str) -> int | float:
    """Read a number; a whole one as an int."""
    value = float(text)
    return int(value) if value.is_integer() else value


def read_rows(rows: Any) -> list[Brief]:
    """Read the briefs of those jobs that exist; the server writes an empty list as {}."""
    return [Brief.read(row) for row in rows or () if row]


def _progress(text: str | Literal[False]) -> tuple[float, str] | None:
    if not text:
        return None
    said = json.loads(text)
    return (float(said[0]), str(said[1]) if len(said) > 1 else "") if said else None
