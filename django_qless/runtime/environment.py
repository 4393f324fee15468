"""The runtime of workers and tests: execution of a job with Django around it.

A run is a chain of wrappers around the call of the job's function.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

from django_qless import conf
from django_qless.conf import routing, sealing
from django_qless.conf.connections import connections
from django_qless.core import AsyncClient, Client, Reserved
from django_qless.core.settle import SEALED
from django_qless.enqueue import context_propagation
from django_qless.job_types.current import CurrentJob
from django_qless.job_types.registry import JobType, registry
from django_qless.outbox import tables as outbox_tables
from django_qless.runtime import connection_cleanup
from django_qless.runtime.announcements import SIGNALS, Announcements
from django_qless.runtime.calls import acall, call, is_async
from django_qless.runtime.job_threads import JobThreads
from django_qless.runtime.middleware import Run, chained, factories_for
from django_qless.runtime.outboxes import check_outboxes, keep_sweeping
from django_qless.runtime.returned import refuse_awaitable
from django_qless.runtime.startup import Startup
from django_qless.runtime.wrappers import (
    awithin_timeout,
    in_own_context,
    with_clean_connections,
    within_timeout,
)
from django_qless.serialization.json_values import encode_value, to_json
from django_qless.tasks import known_tasks
from django_qless.workflows import spawn

logger = logging.getLogger("django_qless.worker")


class Limits(NamedTuple):
    """Seconds that a job may run; None for no limit."""

    soft: float | None = None
    """Then an exception is raised in it."""
    hard: float | None = None
    """Then its process is killed."""


NO_LIMITS = Limits()


class DjangoEnvironment(Announcements):
    """The one place where a running job meets Django, for the workers of one alias.

    A worker knows queues, processes and time; the environment knows the job types, how
    their arguments are read, and what to clean up around a job. Its methods for running
    jobs may be called by several threads at once.
    """

    def __init__(self, alias: str = conf.DEFAULT_ALIAS) -> None:
        self.alias = alias
        self._startup = Startup(alias)
        self._threads = JobThreads()

    def on_start(self) -> None:
        """Apply config and schedules to the server, which has answered.

        Raises ImproperlyConfigured for an outbox that cannot be used.
        """
        check_outboxes(self.alias)
        self._startup.apply()

    def has_outbox(self) -> bool:
        """Return whether the project has the app of the outbox."""
        return outbox_tables.is_installed()

    def sweep_outboxes(self) -> None:
        """Sweep up the outboxes of all databases, for ever, in a helper process."""
        keep_sweeping(self.alias)

    def restore_lost_config(self) -> None:
        """Apply config and schedules again if the server has lost its data.

        Called now and then while the server answers. May raise a QlessError.
        """
        self._startup.restore()

    def resolve(self, klass: str) -> JobType | None:
        """Return the job type of this name, or former name.

        An unknown Task is looked for in its module, see `tasks.known_tasks`.
        """
        return registry.get(klass) or known_tasks.find(klass, self.alias)

    def preload(self) -> None:
        """Build the middleware chain, and look up the constants of a process.

        Before children are forked. Opens no connections, and raises nothing: errors show
        when a job runs.
        """
        try:
            _ = self._chain
        except Exception:
            logger.exception("a middleware cannot be loaded")
        with suppress(Exception):
            _ = self._settings, self._has_tasks
            logger.isEnabledFor(logging.DEBUG)

    def detached_entry(self) -> tuple[str, ...]:
        """Return the dotted name of a function that makes such an environment.

        And its arguments: the runner of a detached job calls it.
        """
        return "django_qless.runtime.detached.environment_of", self.alias

    def has_detached_jobs(self) -> bool:
        """Return whether the project has detached jobs."""
        return any(job_type.options.detached for job_type in registry)

    def detached_limit(self, queue: str) -> int:
        """Return how many detached jobs of a queue may run at once on a host."""
        return self._settings.detached_limit(queue)

    def limits(self, job_type: JobType, reserved: Reserved) -> Limits:
        """Return the time limits of a job: its own, else those of its queue."""
        options = job_type.options_for(reserved.context)
        soft, hard = options.timeout, options.hard_timeout
        if reserved.queue in self._settings.queues:
            of_queue = self._settings.limits(reserved.queue)
            soft = of_queue[0] if soft is None else soft
            hard = of_queue[1] if hard is None else hard
        return NO_LIMITS if soft is None and hard is None else Limits(soft, hard)

    @cached_property
    def _settings(self) -> conf.Alias:
        return conf.alias(self.alias)

    def run(self, current: CurrentJob) -> Any:
        """Run the job's function; return its result, raise what it raises."""
        if self._startup.waits:
            self._startup.apply_due()
        return refuse_awaitable(current, self._chain(current))

    async def arun(self, current: CurrentJob) -> Any:
        """Run the function in the event loop or, if it is no coroutine, in a thread."""
        thread = self._threads.take()
        try:
            if not is_async(current):
                return await thread.call(self.run, current)
            if self._startup.waits:
                await thread.call(self._startup.apply_due)
            result = await thread.serve(self._achain, current)
            return refuse_awaitable(current, result)
        finally:
            self._threads.give_back(thread)

    @cached_property
    def _chain(self) -> Run:
        """The wrappers around the call of a job in a thread, made from the inside."""
        run = chained(factories_for(self.alias), call, is_async=False)
        run = context_propagation.restoring(self.alias, run)
        run = within_timeout(run)
        run = with_clean_connections(self, run)
        return in_own_context(run)

    @cached_property
    def _achain(self) -> Run:
        """The wrappers around the call of a coroutine, made from the inside."""
        run = chained(factories_for(self.alias), acall, is_async=True)
        run = context_propagation.arestoring(self.alias, run)
        return awithin_timeout(run)

    def encode_result(self, value: object) -> str:
        """Return the result as JSON text, "" for None. Raises TypeError."""
        return "" if value is None else encode_value(value, "the job's result")

    def opened(self, reserved: Reserved) -> Reserved:
        """Return a job with data and context as before they were sealed.

        Raises Fail, group `cannot-decrypt`, if no key opens them.
        """
        context = reserved.context
        if SEALED not in context and not reserved.data.startswith(SEALED):
            return reserved
        if SEALED in context:
            context = to_json(sealing.open_context(json.loads(context)))
        data = sealing.open_text(reserved.data)
        return reserved._replace(data=data, context=context)

    def sealed(self, text: str) -> str:
        """Return data or a result of a job as it is to be kept."""
        codec = sealing.codec_of(self.alias)
        return codec.seal(text) if codec is not None and text else text

    @cached_property
    def _has_tasks(self) -> bool:
        """True if jobs of this alias may be Tasks of Django's."""
        return any(True for _ in known_tasks.backends(self.alias))

    def has_listeners(self, what: str) -> bool:
        """Return whether the signal `job_<what>` has receivers, or Tasks may need it."""
        signal = SIGNALS.get(what)
        if signal is None:
            return False
        return bool(signal.receivers) or self._has_tasks

    def spawn(self, current: CurrentJob, jobs: Iterable[Any]) -> list[Any]:
        """Enqueue jobs for a running one; return their handles."""
        return spawn.spawn(self.alias, current, jobs)

    async def aspawn(self, current: CurrentJob, jobs: Iterable[Any]) -> list[Any]:
        """Asynchronous version of `spawn`."""
        return await spawn.aspawn(self.alias, current, jobs)

    def check_move(self, current: CurrentJob, queue: str) -> None:
        """Raise InvalidOption if this queue is in another alias."""
        routing.check_stays(f"Job {current.jid}: move_to", self.alias, queue)

    def dependency_results(self, current: CurrentJob, default: Any) -> dict[str, Any]:
        """Return the results of a running job's dependencies, by jid."""
        return spawn.dependency_results(self.alias, current.jid, default)

    async def adependency_results(
        self, current: CurrentJob, default: Any
    ) -> dict[str, Any]:
        """Asynchronous version of `dependency_results`."""
        return await spawn.adependency_results(self.alias, current.jid, default)

    def client(self, alias: str) -> Client:
        """Return this process's client of the alias."""
        return connections[alias]

    def aclient(self, alias: str) -> AsyncClient:
        """Return this process's client of the alias for asyncio."""
        return connections.aclient(alias)

    def before_fork(self) -> None:
        """Close what two processes must not share."""
        connection_cleanup.before_fork()
        connections.close_all()

    def after_fork(self) -> None:
        """Forget what belongs to the parent; connections are opened when needed."""
        self._threads = JobThreads()

    def leave_thread(self) -> None:
        """Close this thread's database connections: it has run its last job."""
        connection_cleanup.leave_thread()
