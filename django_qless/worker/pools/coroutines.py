"""The hands of the coroutines pool: one process, a task of its event loop for each job."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from django_qless.worker.pools import board as boards
from django_qless.worker.pools.crew import live
from django_qless.worker.pools.crew_pulse import Pulse

if TYPE_CHECKING:
    from django_qless.worker.pools.board import Board
    from django_qless.worker.pools.crew import Crew
    from django_qless.worker.pools.crew_stock import Item
    from django_qless.worker.worker import Worker


class Coroutines:
    """The tasks that run jobs, one for each."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        #: The tasks of the jobs that run.
        self.tasks: dict[asyncio.Task[None], Item] = {}
        self.pulse = Pulse(
            crew.loop, crew.board, self.tasks, crew.worker.options.block_limit
        )
        self.pulse.begin()
        # From now on the parent has something to look at.
        crew.ring()

    def attend(self) -> None:
        """Start the jobs that wait, as far as there is room."""
        waiting, tasks = self.crew.stock.waiting, self.tasks
        room = self.crew.board.words[boards.ROOM]
        create = self.crew.loop.create_task
        while waiting and len(tasks) < room:
            item = waiting.popleft()
            name = f"{item.job.klass} {item.job.jid}"
            task = create(self.run(item), name=name)
            tasks[task] = item

    def wake(self) -> None:
        """Have the crew look at what has ended."""
        self.crew.bell.set()

    async def leave(self) -> None:
        """End."""
        self.pulse.end()

    async def run(self, item: Item) -> None:
        """Run a job, then see to it that another one is run."""
        crew = self.crew
        if not crew.may_begin(item):
            self.ended()
            return
        began = crew.begin(item)
        try:
            outcome = await crew.execution.aperform(item.job)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  the job has cancelled its own task
            outcome = crew.execution.raised(item.job, error)
            seconds = time.monotonic() - began
            crew.execution.tell(item.job, outcome, seconds, error)
        crew.end(item, outcome, began)
        self.ended()

    def ended(self) -> None:
        """Have another job run in place of the present task's."""
        crew = self.crew
        del self.tasks[asyncio.current_task()]  # type: ignore[arg-type]
        if crew.stock.waiting and not crew.is_closed:
            self.attend()


def coroutines(worker: Worker, board: Board, doorbell: int) -> None:
    """Be a process that runs jobs in the tasks of an event loop."""
    live(worker, board, doorbell, Coroutines)
