"""Running entities together: one call, and an outcome for each of them."""

from __future__ import annotations

import asyncio
import json
import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from django_qless.exceptions import BatchFailure
from django_qless.worker.exception_groups import decisive
from django_qless.worker.outcome import COMPLETE, Outcome

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
        self.current = execution.current(jobs[0])
        self.current.companions = tuple(jobs[1:])
        self.start = os.getpid(), time.monotonic()

    def perform(self) -> list[Settlement]:
        """Run the entities; return how to settle them. Raises nothing."""
        return self.settlements(self.run())

    def run(self) -> list[Outcome]:
        """Run the entities, then log and announce the outcome of each."""
        return self.conclude(self.attempt())

    async def aperform(self) -> list[Settlement]:
        """Asynchronous version of `perform`, in a task that is for this run alone."""
        # Not asyncio.to_thread: receivers are to see no context variables of the job.
        in_thread = partial(asyncio.get_running_loop().run_in_executor, None)
        return self.settlements(await in_thread(self.conclude, await self.aattempt()))

    def attempt(self) -> list[Outcome]:
        """Call the function; return the outcome of each entity."""
        try:
            self.execution.prepare(self.current)
            if self.environment.has_listeners("started"):
                self.environment.announce("started", self.current)
            self.environment.run(self.current)
            return [Outcome(COMPLETE) for _ in self.jobs]
        except BaseException as error:  # noqa: BLE001  all that a job raises ends it
            return self.raised(error)

    async def aattempt(self) -> list[Outcome]:
        """Asynchronous version of `attempt`."""
        try:
            self.execution.prepare(self.current)
            if self.environment.has_listeners("started"):
                await self.environment.aannounce("started", self.current)
            await self.environment.arun(self.current)
            return [Outcome(COMPLETE) for _ in self.jobs]
        except BaseException as error:  # noqa: BLE001  all that a job raises ends it
            return self.raised(error)

    def raised(self, error: BaseException) -> list[Outcome]:
        """Return the outcome of each entity after an exception in their run."""
        causes: list[BaseException | None] = [error for _ in self.jobs]
        if isinstance(deciding := decisive(error), BatchFailure):
            causes = deciding.of([str(content_of(job)[0]) for job in self.jobs])
        policy = self.execution.policy
        return [
            Outcome(COMPLETE) if cause is None else policy.raised(job, cause)
            for job, cause in zip(self.jobs, causes, strict=True)
        ]

    def conclude(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Log and announce the outcomes, and those entities whose retries are used up."""
        batch: dict[Any, Any] = {}
        errors: dict[Any, str] = {}
        for job, outcome in zip(self.jobs, outcomes, strict=True):
            self.execution.conclude(self.start, self.execution.current(job), outcome)
            if outcome.is_final_failure:
                entity, payloads = content_of(job)
                batch[entity], errors[entity] = payloads, outcome.message
        if batch and self.start[0] == os.getpid():
            name = self.current.name
            self.environment.announce_exhausted(name, batch, errors)
        return outcomes

    def settlements(self, outcomes: list[Outcome]) -> list[Settlement]:
        """Return how to settle the entities."""
        pairs = zip(self.jobs, outcomes, strict=True)
        return [outcome.settlement(job) for job, outcome in pairs]


def content_of(job: Reserved) -> tuple[Any, list[Any]]:
    """Return the entity that a job carries, and the payloads of its run."""
    try:
        data = json.loads(job.data)
        return data["entity"], data["payloads"]
    except (ValueError, KeyError, TypeError):
        return job.jid, []
