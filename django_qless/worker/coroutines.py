"""The child of the pool `coroutines`: many jobs at once, each a task of one event loop."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Coroutine
from functools import partial
from types import FunctionType
from typing import Any, TypeVar

from django_qless.worker.child import Child, Done, Task
from django_qless.worker.entity_runs import EntityRun
from django_qless.worker.threads import Batch

T = TypeVar("T")

#: The loop shows that it turns at least every LONGEST seconds, and LOOKS times a limit.
LONGEST, LOOKS = 0.25, 10

#: How stack dumps name the outermost coroutine of a job, followed by its serial number.
JOB_NAME = "qless_job_"


async def _outermost(coroutine: Coroutine[Any, Any, T]) -> T:
    return await coroutine


def _named(serial: int, coroutine: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
    """Return a coroutine that stack dumps show under the name of a job's number.

    So the parent finds out which job blocks the loop.
    """
    code = _outermost.__code__.replace(co_name=f"{JOB_NAME}{serial}")
    return FunctionType(code, globals())(coroutine)  # type: ignore[no-any-return]


class Coroutines(Child):
    """Runs each job as a task of the event loop; functions that block, in threads."""

    def run(self) -> None:
        """Run jobs until the parent closes the socket and the last job has ended."""
        asyncio.run(self._work())

    async def _work(self) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._tasks = set[asyncio.Task[None]]()
        self._done: list[Done] = []
        self._parent_is_gone = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, self._on_term)
        loop.add_reader(self.end.socket, self._receive)
        self._turn()
        self.prepare()
        await self._parent_is_gone.wait()
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._send()
        loop.remove_reader(self.end.socket)

    def _receive(self) -> None:
        """Follow the messages that have arrived."""
        messages = self.end.arrived()
        if not messages:
            self._loop.remove_reader(self.end.socket)
            self._parent_is_gone.set()
        while messages:
            message = messages.popleft()
            if message[0] == "interrupt":
                self.interrupt(*message[1:])
            else:
                self._start(self.tasks_of(message))

    def _start(self, tasks: list[Task]) -> None:
        batch = Batch(self, tasks) if self.has_batch_listeners else None
        for task in tasks:
            first = task.jobs[0]
            running = self._loop.create_task(
                _named(task.serial, self._run(task, batch)),
                name=f"{first.klass} {first.jid}",
            )
            self._tasks.add(running)
            running.add_done_callback(self._tasks.discard)

    async def _run(self, task: Task, batch: Batch | None) -> None:
        try:
            if batch is not None:
                await asyncio.to_thread(batch.begin_once)
            may_begin = self.begin(task)
            if may_begin:
                has_limit = self.send_limit(task)
                began = time.monotonic()
                outcomes = await self._aperform(task)
                done = self.done(
                    task, outcomes, began, alone=has_limit or self.is_alone(task)
                )
            else:
                done = self.not_run(task)
            if batch is not None:
                # Not asyncio.to_thread: the job's context variables end with it.
                count = partial(batch.count, len(task.jobs), ran=may_begin)
                await self._loop.run_in_executor(None, count)
        except Exception as error:  # noqa: BLE001  its job would have no end
            self.give_up(error)
        if not self._done:
            # Together with what else ends in this turn of the loop.
            self._loop.call_soon(self._send)
        self._done += done

    async def _aperform(self, task: Task) -> list[Any]:
        """Run it in a task; return the outcomes."""
        execution = self.executions[task.alias]
        if task.jobs[0].batch:
            return await EntityRun(execution, task.jobs).aperform()
        (job,) = task.jobs
        began = time.monotonic()
        try:
            return [await execution.aperform(job)]
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  it has cancelled itself
            outcome = execution.policy.raised(job, error)
            execution.log(job, outcome, began)
            return [outcome.settlement(job)]

    def _send(self) -> None:
        if self._done:
            done, self._done = self._done, []
            self.end.send(("done", done))
            self.leave_if_due()

    def _turn(self) -> None:
        """Show the parent that the loop turns."""
        self.word.turned = time.monotonic()
        pause = min(LONGEST, self.options.block_limit / LOOKS)
        self._loop.call_later(pause, self._turn)
        self.leave_if_due()

    def _on_term(self) -> None:
        """Leave after the running jobs, to be replaced: an operator sent TERM."""
        self.recycling.end = 0.0
        self.leave_if_due()
