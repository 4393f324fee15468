"""What an environment announces: events of jobs, batches and workers, by signals."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any

from django.db import connections as databases

from django_qless import signals
from django_qless.job_types.current import CurrentJob
from django_qless.job_types.registry import JobType, registry
from django_qless.runtime import connection_cleanup
from django_qless.runtime.job_threads import JobThreads
from django_qless.tasks import attempt as tasks
from django_qless.tasks import known_tasks

logger = logging.getLogger("django_qless.worker")

SIGNALS = {
    "started": signals.job_started,
    "completed": signals.job_completed,
    "failed": signals.job_failed,
    "retried": signals.job_retried,
    "lost": signals.job_lost,
}

BATCH_SIGNALS = {
    "started": signals.batch_started,
    "finished": signals.batch_finished,
}

WORKER_SIGNALS = {
    "started": signals.worker_started,
    "process_started": signals.worker_process_started,
    "stopped": signals.worker_stopped,
}


class Announcements:
    """The part of an environment that sends signals. Receivers stop nothing."""

    alias: str
    _threads: JobThreads
    #: The cleanup of a thread around each job.
    before_job = staticmethod(connection_cleanup.before_job)
    after_job = staticmethod(connection_cleanup.after_job)

    def resolve(self, klass: str) -> JobType | None:
        """Return the job type of this name."""
        raise NotImplementedError

    def has_batch_listeners(self) -> bool:
        """Return whether `announce_batch` would reach any code."""
        return any(signal.receivers for signal in BATCH_SIGNALS.values())

    def announce_batch(
        self, what: str, jobs: Sequence[CurrentJob], worker: str, **details: int
    ) -> None:
        """Send the signal `batch_<what>`; log what receivers raise."""
        signal = BATCH_SIGNALS[what]
        if not signal.receivers:
            return
        given = {"jobs": jobs, "worker": worker, "alias": self.alias, **details}
        send = partial(signal.send_robust, type(self), **given)
        self._apart(send, "a receiver of batch_%s failed", what)

    def announce(self, what: str, current: CurrentJob, **details: object) -> None:
        """Send the signal `job_<what>`, after those of a Task; log their exceptions."""
        # The end of a job whose process died is announced by another process.
        sender = registry.get(current.name) or self.resolve(current.name)
        is_task = known_tasks.is_task(current.name)
        if not is_task and not SIGNALS[what].receivers:
            return

        def send() -> None:
            if is_task:
                tasks.announce(what, current, details.get("exception"))
            SIGNALS[what].send_robust(sender, job=current, **details)

        self._apart(send, "a receiver of job_%s failed", what)

    async def aannounce(
        self, what: str, current: CurrentJob, **details: object
    ) -> None:
        """Send it from a thread, without blocking the event loop."""
        if not SIGNALS[what].receivers:
            if tasks.is_quick(what, current):
                copy_context().run(tasks.announce, what, current)
                return
            if not known_tasks.is_task(current.name):
                return
        thread = self._threads.take()
        try:
            await thread.call(partial(self.announce, what, current, **details))
        finally:
            self._threads.give_back(thread)

    def announce_exhausted(
        self, klass: str, batch: Mapping[Any, Any], errors: Mapping[Any, str]
    ) -> None:
        """Send the signal `retries_exhausted`; log what its receivers raise."""
        signal = signals.retries_exhausted
        job_type = self.resolve(klass)
        if job_type is None or not signal.receivers:
            return
        details = {"batch": dict(batch), "errors": dict(errors)}
        send = partial(signal.send_robust, job_type, **details)
        self._apart(send, "a receiver of retries_exhausted failed for %s", klass)

    def announce_worker(self, what: str, worker: str) -> None:
        """Send `worker_started` or `worker_stopped`, and leave no connection open."""
        signal = WORKER_SIGNALS[what]
        if signal.receivers:
            signal.send_robust(type(self), worker=worker, alias=self.alias)
            databases.close_all()

    def _apart(self, send: Callable[[], object], otherwise: str, name: str) -> None:
        """Send as if a separate job ran: in its own context, and cleaned up after it.

        Logs what it raises with this text of a name; SystemExit changes nothing, either.
        """

        def cleaned_up() -> None:
            depths = self.before_job()
            try:
                send()
            finally:
                self.after_job(depths)

        try:
            copy_context().run(cleaned_up)
        except BaseException:
            logger.exception(otherwise, name)
