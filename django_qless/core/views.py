"""What pages show of failures, throughput, tags, workers and one job, at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from .brief import Brief

if TYPE_CHECKING:
    from .commands.operations import WorkerCounts

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
    #: Its last line that says something, as far: of a traceback, the error itself.
    message_end: str


class FailureGroups(NamedTuple):
    """Some of the failure groups, and how many groups and jobs there are in all."""

    total_groups: int
    total_jobs: int
    groups: list[FailureGroup]


class SearchFound(NamedTuple):
    """What a look at parts of lists has found, and how many places were looked at."""

    looked: int
    jobs: list[Brief]


class Throughput(NamedTuple):
    """What was counted in spans of `step` minutes, from a minute of the epoch on."""

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
    """Some of the workers, the latest sign of life first, and how many there are."""

    total: int
    workers: list[WorkerView]


@dataclass(frozen=True, slots=True)
class JobView(Generic[J]):
    """All that a page shows of a job. Lists of others have so many as were asked for."""

    #: As `get` returns it, but with no more links and history than were asked for.
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
    #: The JSON text of what the job returned; None if there is nothing (any more).
    result: str | None
    #: For how many seconds the result is still kept; None without one.
    result_ttl: float | None
