"""Job states and the lists of jobs."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, get_args


class JobState(StrEnum):
    """A job's state, equal to the text that the core sends for it."""

    WAITING = "waiting"
    RUNNING = "running"
    #: Held by a worker whose lock has expired.
    STALLED = "stalled"
    SCHEDULED = "scheduled"
    #: Waiting for other jobs.
    DEPENDS = "depends"
    FAILED = "failed"
    COMPLETE = "complete"
    #: Remembered for a while after it was canceled.
    CANCELED = "canceled"

    __str__ = str.__str__


#: A worker has the job.
HELD = (JobState.RUNNING, JobState.STALLED)

#: The job does not go on by itself.
ENDED = (JobState.COMPLETE, JobState.FAILED, JobState.CANCELED)

#: The lists of a queue: its jobs by state, and the schedules that put jobs into it.
QueueState = Literal[
    "waiting", "running", "stalled", "scheduled", "depends", "recurring"
]
QUEUE_STATES: tuple[QueueState, ...] = get_args(QueueState)

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

#: The states in which a queue has jobs, each with its own list.
IN_QUEUE: tuple[ListKind, ...] = get_args(QueueState)[:-1]

#: Kinds of lists that a namespace has once, so that they have no name.
NAMELESS = (JobState.COMPLETE.value, JobState.CANCELED.value, "tracked")
LIST_KINDS: tuple[ListKind, ...] = get_args(ListKind)
