"""Tasks of the event loop that a job has begun and not awaited when it returns.

They would go on beside other jobs, on a database connection that is no longer their own. So
the outcome of the job waits for them, within the job's timeout, for up to PATIENCE seconds;
then they are cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextvars import Context, ContextVar
from typing import Any, TypeVar

from django_qless.job_types.current import CurrentJob
from django_qless.worker.interrupt import TaskScope
from django_qless.worker.log import logger

T = TypeVar("T")

PATIENCE = 1.0

_tasks: ContextVar[set[asyncio.Task[Any]]] = ContextVar("tasks of the job")


async def in_task_scope(
    job: CurrentJob, soft: float | None, work: Awaitable[Any]
) -> Any:
    """Await a job's work, and the tasks that it has left; a cancellation interrupts it."""
    scope = TaskScope(job.reserved.token, soft)
    try:
        return await scope.run(with_its_tasks(work, job.jid))
    finally:
        job.was_interrupted |= scope.was_interrupted


async def with_its_tasks(work: Awaitable[T], jid: str) -> T:
    """Await the work of a job, then the tasks that it has left; return its result."""
    asyncio.get_running_loop().set_task_factory(_new_task)
    tasks: set[asyncio.Task[Any]] = set()
    _tasks.set(tasks)
    try:
        result = await work
        if tasks:
            await asyncio.wait(tasks, timeout=PATIENCE)
        return result
    finally:
        if tasks:
            names = ", ".join(sorted(task.get_name() for task in tasks))
            logger.warning(
                "job %s returned while tasks of it went on, cancelled: %s", jid, names
            )
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=PATIENCE)


def _new_task(
    loop: asyncio.AbstractEventLoop,
    coroutine: Any,
    context: Context | None = None,
    **options: Any,
) -> asyncio.Task[Any]:
    """Return a new task, and note whose it is."""
    task = asyncio.Task(coroutine, loop=loop, context=context, **options)
    tasks = _tasks.get(None) if context is None else context.get(_tasks)
    if tasks is not None:
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    return task
