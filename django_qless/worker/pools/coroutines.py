"""The executor of the coroutines pool: one task of an event loop per job."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django_qless.worker.entity_runs import EntityRun
from django_qless.worker.log import log_event
from django_qless.worker.pools import shared_state

if TYPE_CHECKING:
    from django_qless.worker.pools.async_child import AsyncChild
    from django_qless.worker.pools.buffer import Item
    from django_qless.worker.pools.shared_state import SharedState

# The loop reports, and the watchdog looks, at least as often, in seconds; and so many
# times before the limit.
LONGEST, LOOKS = 0.25, 10


class Coroutines:
    """The tasks that run jobs, one for each."""

    def __init__(self, child: AsyncChild) -> None:
        self.child = child
        #: The tasks of the jobs that run.
        self.tasks: dict[asyncio.Task[None], Item] = {}
        self.watchdog = LoopWatchdog(
            child.loop, child.shared, self.tasks, child.worker.options.block_limit
        )
        self.watchdog.begin()
        # From now on the parent has something to look at.
        child.wake_parent()

    def start_waiting(self) -> None:
        """Start the jobs that wait, as far as there is room."""
        waiting, tasks = self.child.buffer.waiting, self.tasks
        capacity = self.child.capacity[0]
        create = self.child.loop.create_task
        while waiting and len(tasks) < capacity:
            item = waiting.popleft()
            name = f"{item.job.klass} {item.job.jid}"
            task = create(self.run(item), name=name)
            tasks[task] = item

    def wake_child(self) -> None:
        """Tell the child that jobs have ended."""
        self.child.wakeup.set()

    async def close(self) -> None:
        """End the watchdog; no task is left."""
        self.watchdog.end()

    async def run(self, item: Item) -> None:
        """Run a job, then start another one in its place."""
        child = self.child
        try:
            if child.may_begin(item):
                if item.job.batch:
                    await self.run_entities(item)
                else:
                    await self.run_job(item)
        except Exception as error:  # noqa: BLE001
            child.give_up(error)
        del self.tasks[asyncio.current_task()]  # type: ignore[arg-type]
        if child.buffer.waiting and not child.is_closed:
            self.start_waiting()

    async def run_job(self, item: Item) -> None:
        """Run a job that may begin."""
        child = self.child
        began = child.begin(item)
        try:
            outcome = await child.execution.aperform(item.job)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  it has cancelled itself
            outcome = child.execution.raised(item.job, error)
            seconds = time.monotonic() - began
            child.execution.log(item.job, outcome, seconds, error)
        child.end(item, outcome, began)

    async def run_entities(self, item: Item) -> None:
        """Run an entity that may begin, and those that run with it."""
        child = self.child
        items, began = child.begin_entities(item)
        run = EntityRun(child.execution, [each.job for each in items])
        child.end_entities(items, await run.aperform(), began)


class LoopWatchdog:
    """Shows when the event loop last turned, and which job blocks it.

    The parent kills a process whose loop is blocked for too long. A thread finds the
    blocking job, as far as it gets a turn.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        shared: SharedState,
        tasks: Mapping[asyncio.Task[Any], Item],
        limit: float,
    ) -> None:
        """`tasks` are those of jobs; `limit` is in seconds."""
        self._loop = loop
        self._shared = shared
        self._tasks = tasks
        self._limit = limit
        self._pause = min(LONGEST, limit / LOOKS)
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    def begin(self) -> None:
        """Start watching, in the loop's thread."""
        self._thread = threading.get_ident()
        self._turn()
        threading.Thread(target=self._watch, name="loop watchdog", daemon=True).start()

    def end(self) -> None:
        """Stop watching."""
        self._is_over = True
        if self._timer:
            self._timer.cancel()

    def _turn(self) -> None:
        shared = self._shared
        shared.floats[shared_state.LOOP_TURNED] = time.monotonic()
        if shared.ints[shared_state.BLOCKING_SLOT]:
            shared.ints[shared_state.BLOCKING_SLOT] = 0
        self._timer = self._loop.call_later(self._pause, self._turn)

    def _watch(self) -> None:
        logged = 0.0
        while not self._is_over:
            time.sleep(self._pause)
            turned = self._shared.floats[shared_state.LOOP_TURNED]
            blocked = time.monotonic() - turned
            if blocked < self._limit / 2:
                continue
            # In time for the parent, which acts at the limit.
            task = asyncio.current_task(self._loop)
            item = self._tasks.get(task) if task else None
            slot = item.slot + 1 if item else 0
            self._shared.ints[shared_state.BLOCKING_SLOT] = slot
            if turned != logged and blocked >= self._limit - self._pause:
                logged = turned
                self._log(blocked, item)

    def _log(self, seconds: float, item: Item | None) -> None:
        frame = sys._current_frames().get(self._thread)
        stack = "".join(traceback.format_stack(frame)) if frame else ""
        log_event(
            logging.ERROR,
            "the event loop is blocked",
            seconds=seconds,
            jid=item.job.jid if item else "",
            stack=stack,
        )
