"""The pools: how many jobs run at once, in which processes, and how isolated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from django_qless.worker.child import Child, Prefork
from django_qless.worker.coroutines import Coroutines
from django_qless.worker.threads import Threads


class Pool(NamedTuple):
    """A kind of pool."""

    #: For people, in --help.
    description: str
    #: Makes what runs the jobs in a child.
    child: Callable[..., Child]
    #: True if each child runs one job at a time, so that there are as many as jobs may run
    #: at once, and one whose job loses its lock is killed. Else one child runs all of them.
    one_job_each: bool
    #: True if a child ends after its first job.
    one_job_only: bool = False


POOLS = {
    "prefork": Pool("long-lived processes", Prefork, one_job_each=True),
    "fork": Pool(
        "one process per job",
        partial(Prefork, most_runs=1),
        one_job_each=True,
        one_job_only=True,
    ),
    "threads": Pool("threads of one process", Threads, one_job_each=False),
    "coroutines": Pool(
        "coroutines in the event loop of one process", Coroutines, one_job_each=False
    ),
}
