"""Content of lists and pages: job summaries, failures, throughput, tags and workers.

All of it is as it was at one moment.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from .states import ListKind

if TYPE_CHECKING:
    from .commands.operations import WorkerCounts

#: A part of a list: which, the name of its queue, group, tag or worker ("" if it has none),
#: from which place on, how many.
Part = tuple[ListKind, str, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """A job summary: no data, history or message. Times are in seconds of the epoch."""

    jid: str
    klass: str
    #: "" once the job is complete.
    queue: str
    #: A JobState, now: stalled when the lock has expired, waiting when its time has come, or
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
        """Return the summary for a row of JSON, where False means no value."""
        found = dict(zip(_BRIEF, row, strict=True))
        due, put, group = found["due"], found["put"], found["group"]
        return cls(
            jid=found["jid"],
            klass=found["klass"],
            queue=found["queue"] or "",
            state=found["state"],
            priority=_number(found["priority"] or 0),
            retries=int(float(found["retries"] or 0)),
            remaining=int(float(found["remaining"] or 0)),
            tags=tuple(json.loads(found["tags"] or "[]") or ()),
            worker=found["worker"] or "",
            put=float(put) if put else None,
            since=float(found["since"] or 0),
            due=float(due) if due else None,
            expires=float(found["expires"] or 0),
            group=None if group is False else group,
            progress=_progress(found["progress"]),
            workflow=found["workflow"] or None,
            spawned_from=found["spawned_from"] or None,
            tracked=found["tracked"],
        )


# The fields of a summary in the order in which the core sends them.
_BRIEF = (
    *("klass", "queue", "state", "priority", "retries", "remaining", "tags", "worker"),
    *("since", "expires", "spawned_from", "due", "group", "progress", "workflow"),
    *("tracked", "put", "jid"),
)


def _number(text: str | int) -> int | float:
    value = float(text)
    return int(value) if value.is_integer() else value


def _progress(text: str | Literal[False]) -> tuple[float, str] | None:
    said = json.loads(text) if text else None
    return (float(said[0]), str(said[1]) if len(said) > 1 else "") if said else None


def read_rows(rows: Any) -> list[Brief]:
    """Read the summaries of existing jobs; an empty list is written as {}."""
    return [Brief.read(row) for row in rows or () if row]


J = TypeVar("J")  # the class of jobs: Job or AsyncJob


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Jobs that failed for one reason, and the one of them that failed last."""

    name: str
    #: How many jobs there are.
    count: int
    #: When the first and the last of them failed, seconds of the epoch.
    first: float
    last: float
    #: The job that failed last.
    jid: str
    klass: str
    queue: str
    #: How its message begins: at most 300 bytes, whole characters.
    message_head: str
    #: Its last line with content, as long: of a traceback, the error itself.
    message_end: str


class FailureGroups(NamedTuple):
    """Some of the failure groups, and the total numbers of groups and jobs."""

    total_groups: int
    total_jobs: int
    groups: list[FailureGroup]


class SearchFound(NamedTuple):
    """The jobs that a search has found, and the number of places searched."""

    looked: int
    jobs: list[Brief]


class Throughput(NamedTuple):
    """Counters for consecutive spans of `step` minutes."""

    first: int
    step: int
    #: None for a whole namespace, which does not count what is put.
    put: list[int] | None
    started: list[int]
    completed: list[int]
    failed: list[int]


class TagCount(NamedTuple):
    """A tag, and how many jobs carry it."""

    tag: str
    number: int


class TagCounts(NamedTuple):
    """Some of the tags, the commonest first, and how many there are in all."""

    total: int
    tags: list[TagCount]


class WorkerView(NamedTuple):
    """A worker, and some of the jobs that it holds, the longest running first."""

    counts: WorkerCounts
    jobs: list[Brief]


class WorkerViews(NamedTuple):
    """Some of the workers, the most recently active first, and the total number."""

    total: int
    workers: list[WorkerView]


class DetachedRun(NamedTuple):
    """The latest run of a detached job, as the worker that watches it has told."""

    host: str
    #: The process that runs the job; 0 as long as it is being started.
    pid: int
    #: When it began and ended, in seconds of the epoch; None: not yet.
    started: float
    ended: float | None
    #: The end of what it has written to its standard output and error.
    output: str
    #: How it ended, in words; "" as long as it runs.
    end: str = ""

    @classmethod
    def read(cls, text: str | None) -> DetachedRun | None:
        """Return the run that the JSON text of an object tells of."""
        if not text:
            return None
        members = json.loads(text)
        return cls(
            host=str(members.get("host", "")),
            pid=int(members.get("pid") or 0),
            started=float(members.get("started") or 0),
            ended=members.get("ended"),
            output=str(members.get("output", "")),
            end=str(members.get("end", "")),
        )


@dataclass(frozen=True, slots=True)
class JobView(Generic[J]):
    """The content of a job's page. Lists of other jobs are limited by the request."""

    #: As `get` returns it, but with limited links and history.
    job: J
    brief: Brief
    #: How many entries its history has.
    history_total: int
    #: Jobs that wait for this one.
    dependents: list[Brief]
    dependents_total: int
    #: Jobs that this one still waits for.
    dependencies: list[Brief]
    dependencies_total: int
    #: Jobs that this one was ever made to wait for, and that still exist.
    needs: list[Brief]
    needs_total: int
    #: Jobs that this one has spawned, and that still exist.
    spawned: list[Brief]
    spawned_total: int
    #: Jobs that have spawned this one.
    spawners: list[Brief]
    #: The JSON text of the job's result; None if there is none (any more).
    result: str | None
    #: For how many seconds the result is still kept; None without one.
    result_ttl: float | None
    #: The latest run, if the job is a detached one.
    detached: DetachedRun | None
