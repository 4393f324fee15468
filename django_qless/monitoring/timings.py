"""Histograms of runs and waits by queue and job type, of the workers of one host.

    "MIDDLEWARE": ["django_qless.monitoring.timings.measure_runs"]

Each process of a worker counts in a file of PROMETHEUS_MULTIPROC_DIR, as prometheus-client
does it for several processes: nothing is sent to the server, and nothing is lost when a
process is killed. The URL `timings` adds the files up. The counters never begin again
while the folder is kept.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.core.exceptions import MiddlewareNotUsed
from django.utils.decorators import sync_and_async_middleware
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.multiprocess import MultiProcessCollector

from django_qless.core.attempts import read_attempts
from django_qless.core.exceptions import QlessError
from django_qless.monitoring.collector import OTHERS
from django_qless.monitoring.snapshot import MOST_QUEUES

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from django_qless.job_types.current import CurrentJob
    from django_qless.runtime.middleware import Run

logger = logging.getLogger("django_qless.worker")

FOLDER = "PROMETHEUS_MULTIPROC_DIR"

PREFIX = "qless_job_"

#: Upper bounds in seconds.
BUCKETS = (
    *(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30),
    *(60, 120, 300, 600, 1800, 3600, 21600),
)

#: In no registry of the process: only the files are read.
_registry = CollectorRegistry()
_labels = ("queue", "job")

runs = Histogram(
    f"{PREFIX}run_seconds",
    "Seconds that attempts at jobs took, however they ended.",
    _labels,
    buckets=BUCKETS,
    registry=_registry,
)
waits = Histogram(
    f"{PREFIX}wait_seconds",
    "Seconds from ready to handed to a worker, of each attempt.",
    _labels,
    buckets=BUCKETS,
    registry=_registry,
)
exceptions = Counter(
    f"{PREFIX}exceptions",
    "Attempts that raised an exception, retries among them.",
    _labels,
    registry=_registry,
)

_queues: set[str] = set()


@sync_and_async_middleware
def measure_runs(run: Run) -> Run:
    """Count how long runs take, and how many raise an exception."""
    _check_folder("measure_runs")
    if not iscoroutinefunction(run):

        def around(job: CurrentJob) -> Any:
            with _measured(job):
                return run(job)

        return around

    async def aaround(job: CurrentJob) -> Any:
        with _measured(job):
            return await run(job)

    return aaround


@sync_and_async_middleware
def measure_waits(run: Run) -> Run:
    """Count how long jobs waited; asks the server once for each run."""
    _check_folder("measure_waits")
    if not iscoroutinefunction(run):

        def around(job: CurrentJob) -> Any:
            count_wait(job)
            return run(job)

        return around

    acount: Callable[[CurrentJob], Awaitable[None]] = sync_to_async(
        count_wait, thread_sensitive=False
    )

    async def aaround(job: CurrentJob) -> Any:
        await acount(job)
        return await run(job)

    return aaround


@contextmanager
def _measured(job: CurrentJob) -> Iterator[None]:
    began = time.perf_counter()
    try:
        yield
    except BaseException:
        exceptions.labels(*labels_of(job)).inc()
        raise
    finally:
        runs.labels(*labels_of(job)).observe(time.perf_counter() - began)


def count_wait(job: CurrentJob) -> None:
    """Count the wait of the present attempt, as the job's history has it."""
    with suppress(QlessError):
        found = job.client.get(job.jid)
        if found is None:
            return
        life = read_attempts(found.history, is_running=True, now=time.time())
        waiting = life.attempts[-1].waiting if life.attempts else None
        if waiting:
            waits.labels(*labels_of(job)).observe(max(0.0, waiting.seconds))


def labels_of(job: CurrentJob) -> tuple[str, str]:
    """Return the labels of a job; queues beyond MOST_QUEUES share one."""
    if job.queue not in _queues:
        if len(_queues) >= MOST_QUEUES:
            return OTHERS, job.name
        _queues.add(job.queue)
    return job.queue, job.name


def _check_folder(what: str) -> None:
    if not os.path.isdir(os.environ.get(FOLDER, "")):
        logger.warning("%s counts nothing: %s names no folder", what, FOLDER)
        raise MiddlewareNotUsed


class HostTimings:
    """The timings of all worker processes of this host, also of those that ended."""

    def collect(self) -> Iterator[Metric]:
        """Yield them; nothing if there is no folder."""
        if os.path.isdir(os.environ.get(FOLDER, "")):
            files: Any = MultiProcessCollector(None)  # type: ignore[no-untyped-call]
            for metric in files.collect():
                if metric.name.startswith(PREFIX):
                    yield metric
