"""A crew: one process that runs many jobs at once, in threads or in coroutines.

Its main thread runs an event loop in which jobs are reserved and settled; who runs them
is up to its hands. While jobs are short, many are reserved in one round trip, the next
ones before the hands are idle; while they are long, no more are held than run.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol, TypeVar

from django_qless.worker.execution import Execution
from django_qless.worker.log import event
from django_qless.worker.pools import board as boards
from django_qless.worker.pools.crew_appetite import Appetite
from django_qless.worker.pools.crew_orders import Orders
from django_qless.worker.pools.crew_post import Post
from django_qless.worker.pools.crew_stock import Stock
from django_qless.worker.pools.recycling import Recycling
from django_qless.worker.telling import tell_of_lapse
from django_qless.worker.titles import title

if TYPE_CHECKING:
    from django_qless.core import Settled, Settlement
    from django_qless.worker.pools.board import Board
    from django_qless.worker.pools.crew_stock import Item
    from django_qless.worker.worker import Worker

T = TypeVar("T")

# Seconds that a finished job waits to be settled, if nothing else asks for a call. The
# rest up to 20 ms is for getting hold of the interpreter and for the round trip.
SETTLE_LIMIT = 0.010

# Seconds that a held job waits to be started; then it goes back to its queue.
HOLD_LIMIT = 0.020

LONGEST_PAUSE = 1.0
"""Seconds between two tries when the server cannot be reached."""

# Seconds after which a running thread lets another one run. Settling has to wait as long
# as this for a job that computes, several times.
SWITCH = 0.001

# Any number of jobs that may wait.
ANY = sys.maxsize


class Hands(Protocol):
    """Who runs the jobs of a crew."""

    def attend(self) -> None:
        """Take in that jobs wait, or that there is room for more; called in the loop."""

    def wake(self) -> None:
        """Have the crew look at what has ended; called where a job has ended."""

    async def leave(self) -> None:
        """End; nothing runs any more."""


class Crew:
    """Reserves jobs, has them run and settles them, until it is told to stop."""

    def __init__(
        self,
        worker: Worker,
        board: Board,
        doorbell: int,
        hands: Callable[[Crew], Hands],
    ) -> None:
        self.worker = worker
        self.board = board
        self.doorbell = doorbell
        self.environment = worker.environment
        self.execution = Execution(
            worker.environment,
            worker.environment.client(worker.options.alias),
            worker.name,
            worker.sandboxes,
        )
        self.stock = Stock(board)
        self.post = Post(worker, self.stock, self.ring)
        self.appetite = Appetite()
        self.recycling = Recycling(worker.options)
        # Announces to users' code, which may take its time.
        self.herald = ThreadPoolExecutor(1, "herald")
        self.bell = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self.hands = hands(self)
        self.orders = Orders(self)
        #: With so few jobs waiting, or fewer, the end of a job rings the bell; -1: never.
        self.alarm = -1
        self.waiting_for_jobs: asyncio.Task[None] | None = None
        self._stopped_waiting: asyncio.Task[None] | None = None
        self.failure: BaseException | None = None
        self.troubles = 0
        self.is_copy = False

    async def work(self) -> None:
        """Work until told to stop; return when everything is settled."""
        os.register_at_fork(after_in_child=self.on_fork)
        sys.setswitchinterval(SWITCH)
        self.orders.listen()
        for obituary in self.board.obituaries:
            self.announce(self.execution.announce_end, obituary)
        while not self.is_over:
            try:
                await self.turn()
            except Exception as error:  # noqa: BLE001  whatever it is, nothing is forgotten
                await self.pause(error)
        self.orders.stop_listening()
        await self.hands.leave()
        self.herald.submit(self.environment.leave_thread)
        self.herald.shutdown()
        await self.post.close()

    @property
    def is_ending(self) -> bool:
        """Whether no more jobs are to be started, ever."""
        words = self.board.words
        return bool(words[boards.STOP] or words[boards.LEAVING])

    @property
    def is_closed(self) -> bool:
        """Whether no jobs are to be reserved for now."""
        return self.is_ending or bool(self.board.words[boards.QUIET])

    @property
    def is_over(self) -> bool:
        """Whether it has to end and has nothing left to do."""
        stock = self.stock
        return self.is_ending and not (
            stock.held or stock.outcomes or self.waiting_for_jobs
        )

    # The rounds.

    async def turn(self) -> None:
        """Do what is to be done now: a call, or wait for something to do."""
        if self.is_copy:
            os._exit(0)
        now = time.monotonic()
        self.look_at_oneself(now)
        if self.failure:
            failure, self.failure = self.failure, None
            raise failure
        self.send_back(now)
        if self.is_closed:
            self.stop_waiting()
        count = self.wanted()
        if count and not self.waiting_for_jobs:
            await self.reserve(count)
        elif self.settle_at() <= now:
            await self.settle()
        else:
            await self.rest()

    def look_at_oneself(self, now: float) -> None:
        """Learn how long jobs take; leave if it is time for a successor."""
        stock, words = self.stock, self.board.words
        self.appetite.learn(stock.ended, stock.seconds, now)
        if not self.is_ending and (
            reason := self.recycling.due(words[boards.RUNS], now)
        ):
            self.depart(reason)

    def depart(self, reason: str) -> None:
        """Take no more jobs, and end when the last has ended: a successor is wanted."""
        event(logging.INFO, "child leaves", pid=os.getpid(), why=reason)
        self.board.words[boards.LEAVING] = 1
        self.ring()
        self.bell.set()

    def send_back(self, now: float) -> None:
        """Hand back what waits if it must not be started, or has waited for long."""
        if self.is_closed:
            given = self.stock.give_back()
        else:
            given = self.stock.give_back(before=now - HOLD_LIMIT)
            if given:
                self.appetite.stop_hoarding()
        if given:
            self.post.reserver.gave_back(given)

    def wanted(self) -> int:
        """Return how many jobs to reserve now."""
        if self.is_closed:
            return 0
        stock, ahead, words = self.stock, self.appetite.ahead, self.board.words
        waiting = len(stock.waiting)
        free = words[boards.ROOM] - len(stock.held)
        if free <= 0 and waiting > self.appetite.low:
            return 0
        count = min(free + ahead, self.worker.options.batch)
        return max(0, self.recycling.room(count, words[boards.RUNS] + waiting))

    def settle_at(self) -> float:
        """Return when outcomes have to be settled (monotonic); infinity without any."""
        stock = self.stock
        if not stock.outcomes:
            return float("inf")
        if not stock.held:
            return 0.0
        return stock.outcomes[0].since + SETTLE_LIMIT

    async def reserve(self, count: int) -> None:
        """Settle what is finished and reserve jobs; if there are none, wait for some."""
        settled = await self.post.reserve(count)
        self.all_is_well()
        self.take(settled)
        if settled is None or settled.jobs or self.stock.outcomes:
            return
        self.appetite.rest(time.monotonic())
        if self.worker.options.burst and not self.stock.held:
            self.board.words[boards.DRY] = 1
            self.ring()
        if settled.wait_seconds and not self.is_closed:
            task = self.loop.create_task(self.wait_for_jobs(settled, count))
            task.add_done_callback(self.waited)
            self.waiting_for_jobs = task

    async def settle(self) -> None:
        """Settle what is finished, without reserving."""
        await self.post.settle()
        self.all_is_well()
        self.tell_of_losses()
        if self.worker.options.burst and not self.stock.held:
            # What has ended may have brought something into the queues.
            self.stop_waiting()

    def take(self, settled: Settled | None) -> None:
        """Have those jobs run that a call has brought."""
        self.tell_of_losses()
        if settled and settled.jobs and not self.is_closed:
            self.hands.attend()

    async def wait_for_jobs(self, settled: Settled, count: int) -> None:
        """Wait until jobs come, and take them, while others may run."""
        if self.worker.options.burst:
            await self.post.wait_only(settled)
        else:
            brought = await self.post.wait(settled, count)
            # Too late to be stopped.
            self._stopped_waiting = self.waiting_for_jobs
            self.take(brought)

    def waited(self, task: asyncio.Task[None]) -> None:
        """Take in that a wait is over, however it ended."""
        self.waiting_for_jobs = None
        if not task.cancelled():
            self.failure = task.exception()
        self.bell.set()

    def stop_waiting(self) -> None:
        """Do not wait for jobs any more; those that come just now are taken."""
        task = self.waiting_for_jobs
        if task and task is not self._stopped_waiting:
            self._stopped_waiting = task
            task.cancel()

    async def rest(self) -> None:
        """Sleep until something has to be done."""
        self.bell.clear()
        stock = self.stock
        waits = self.waiting_for_jobs or self.is_closed
        low = -1 if waits else self.appetite.low
        due = self.next_due()
        if self.appetite.ahead and stock.waiting:
            # They end one after the other: no need to be told of the first.
            self.alarm, due = low, min(due, time.monotonic() + SETTLE_LIMIT)
        else:
            self.alarm = low if stock.outcomes else ANY
        if title.wanted:
            title(f"running {stock.running}" if stock.held else "idle")
        # What has ended before the alarm was set has not rung.
        outcomes, waiting = bool(stock.outcomes), len(stock.waiting)
        if not (outcomes and (self.alarm == ANY or waiting <= low or not stock.held)):
            timer = self.loop.call_at(due, self.bell.set)
            await self.bell.wait()
            timer.cancel()
        self.alarm = -1

    def next_due(self) -> float:
        """Return when something has to be done without an event (monotonic)."""
        times = [self.settle_at(), self.recycling.end]
        if self.stock.waiting:
            times.append(self.stock.waiting[0].since + HOLD_LIMIT)
        return min(*times, time.monotonic() + 3600)

    async def pause(self, error: Exception) -> None:
        """Wait a little after trouble, longer each time."""
        if not self.troubles:
            event(logging.WARNING, "trouble", pid=os.getpid(), error=error)
        self.troubles += 1
        seconds = min(0.02 * 2 ** min(self.troubles, 9), LONGEST_PAUSE)
        await asyncio.sleep(seconds * random.uniform(0.5, 1))

    def all_is_well(self) -> None:
        """Take in that the server has answered."""
        if self.troubles:
            event(logging.INFO, "all is well again", pid=os.getpid())
            self.troubles = 0

    def tell_of_losses(self) -> None:
        """Announce the jobs whose end the server has refused."""
        lost = self.post.lost
        while lost:
            self.announce(self.execution.lost, lost.popleft())

    def announce(self, announcing: Callable[[T], None], about: T) -> None:
        """Tell whoever listens, if anybody does."""
        if any(map(self.environment.hears, ("lost", "failed", "retried"))):
            self.herald.submit(announcing, about)

    # Jobs: called by the hands.

    def may_begin(self, item: Item) -> bool:
        """Return whether the job is still ours; if not, it is handed back."""
        if self.stock.may_begin(item):
            return True
        tell_of_lapse(item.job)
        self.hands.wake()
        return False

    def begin(self, item: Item) -> float:
        """Show that a job runs; return since when (monotonic)."""
        hard, delay = self.execution.limit(item.job)
        if hard:
            self.board.limit(item.slot, hard, delay)
        began = self.stock.begin(item)
        if hard and self.board.is_asleep(began + hard):
            self.ring()
        return began

    def end(self, item: Item, settlement: Settlement, began: float) -> None:
        """Take in how a job ended."""
        if self.is_copy:
            os._exit(0)
        stock = self.stock
        stock.end(item, settlement, began)
        if len(stock.waiting) <= self.alarm or not stock.held:
            self.alarm = -1
            self.hands.wake()
        if self.board.words[boards.LEAVING]:
            self.ring()

    # The process.

    def on_fork(self) -> None:
        """Take in that a job has forked: the copy must not go on as a worker."""
        self.is_copy = True

    def ring(self) -> None:
        """Have the parent look at the board."""
        with contextlib.suppress(BlockingIOError):
            os.write(self.doorbell, b"!")


def live(
    worker: Worker, board: Board, doorbell: int, hands: Callable[[Crew], Hands]
) -> None:
    """Be a crew with these hands until told to stop."""

    async def work() -> None:
        await Crew(worker, board, doorbell, hands).work()

    asyncio.run(work())
