"""Running entities together: one call, and an outcome for each of them."""

from __future__ import annotations

import asyncio
import json
import os
import time
from typing import TYPE_CHECKING, Any

from django_qless.exceptions import BatchFailure
from django_qless.worker.exception_groups import decisive
from django_qless.worker.execution import details_of, outcome_of
from django_qless.worker.log import is_final_failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_qless.core import Reserved, Settlement
    from django_qless.worker.execution import Execution


class EntityRun:
    """One run of up to `batch_size` entities, the first of which leads."""

    def __init__(self, execution: Execution, jobs: Sequence[Reserved]) -> None:
        self.execution = execution
        self.environment = execution.environment
        self.jobs = jobs
        self.leader = jobs[0]
        self.current = execution.current(self.leader)
        self.current.companions = tuple(jobs[1:])
        self.process, self.began = os.getpid(), time.monotonic()
        self.error: BaseException | None = None

    def perform(self) -> list[Settlement]:
        """Run the entities; return their outcomes. Raises nothing."""
        try:
            job_type = self.environment.resolve(self.leader.klass)
            if job_type is None:
                return self.unknown()
            if self.environment.has_listeners("started"):
                self.environment.announce("started", self.current)
            self.environment.run(job_type, self.leader, self.current)
        except BaseException as raised:  # noqa: BLE001  all that a job raises ends it
            self.error = raised
        return self.conclude()

    async def aperform(self) -> list[Settlement]:
        """Asynchronous version of `perform`."""
        try:
            job_type = self.environment.resolve(self.leader.klass)
            if job_type is None:
                return self.unknown()
            if self.environment.has_listeners("started"):
                await self.environment.aannounce("started", self.current)
            await self.environment.arun(job_type, self.leader, self.current)
        except BaseException as raised:  # noqa: BLE001  all that a job raises ends it
            self.error = raised
        return await asyncio.to_thread(self.conclude)

    def unknown(self) -> list[Settlement]:
        """Return the outcomes of entities whose job type is unknown here."""
        return [self.execution.unknown(job) for job in self.jobs]

    def conclude(self) -> list[Settlement]:
        """Return the outcomes; log and announce them."""
        causes, outcomes = self.causes(), []
        for job, cause in zip(self.jobs, causes, strict=True):
            outcomes.append(
                outcome_of(job, "complete")
                if cause is None
                else self.execution.raised(job, cause)
            )
        self.error = None  # its traceback refers to this run
        if self.process != os.getpid():  # in a copy that the job has forked
            return outcomes
        batch: dict[Any, Any] = {}
        errors: dict[Any, str] = {}
        for job, outcome, cause in zip(self.jobs, outcomes, causes, strict=True):
            event = self.execution.conclude(job, outcome, self.began, cause)
            if event:
                details = details_of(event, outcome, None, cause)
                self.environment.announce(event, self.execution.current(job), **details)
            if is_final_failure(job, outcome):
                entity, payloads = content_of(job)
                batch[entity], errors[entity] = payloads, str(outcome.args[-1])
        if self.leader.token in self.execution.sandboxes.in_use:
            self.execution.sandboxes.remove(self.leader)
        if batch:
            self.environment.announce_exhausted(self.leader.klass, batch, errors)
        return outcomes

    def causes(self) -> list[BaseException | None]:
        """Return the error of each entity, None for those that are done."""
        error = decisive(self.error) if self.error is not None else None
        if isinstance(error, BatchFailure):
            return error.of([str(content_of(job)[0]) for job in self.jobs])
        return [self.error for _ in self.jobs]


def content_of(job: Reserved) -> tuple[Any, list[Any]]:
    """Return the entity that a job carries, and the payloads of its run."""
    try:
        data = json.loads(job.data)
        return data["entity"], data["payloads"]
    except (ValueError, KeyError, TypeError):
        return job.jid, []
