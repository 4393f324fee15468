"""The hands of the threads pool: one process, a thread for each job that runs.

Threads share one interpreter, and passing it on costs more than a short job. So a hand
runs as many short jobs as it can, and others are called only if they are needed: all of
them while jobs take long, one while jobs are so short that a second one would only wait
for the first.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import TYPE_CHECKING

from django_qless.worker.log import logger
from django_qless.worker.pools import board as boards
from django_qless.worker.pools.crew import live
from django_qless.worker.pools.process import CRASHED

if TYPE_CHECKING:
    from django_qless.worker.pools.board import Board
    from django_qless.worker.pools.crew import Crew
    from django_qless.worker.pools.crew_stock import Item
    from django_qless.worker.worker import Worker

# A job that takes less, in seconds, is not worth another hand.
TINY = 0.0005

# Seconds after which one hand must have done so many jobs, else the others are called.
LOOK, DONE = 0.002, 4

# Seconds that the hands have to put down what they hold, at the end.
FAREWELL = 1.0


class Threads:
    """Job threads; each is started when it is needed first, and kept."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.threads: list[threading.Thread] = []
        #: The locks on which the hands without work sleep, the latest last.
        self.asleep: deque[threading.Lock] = deque()
        self.is_ending = False
        self._look_is_due = False
        self._ended = 0

    @property
    def awake(self) -> int:
        """How many hands work, or look for work."""
        return len(self.threads) - len(self.asleep)

    def attend(self) -> None:
        """Call enough hands for the jobs that wait."""
        waiting = len(self.crew.stock.waiting)
        room = self.crew.board.words[boards.ROOM]
        wanted = min(waiting, room - self.awake)
        if wanted <= 0:
            return
        each = self.crew.appetite.each
        if each is not None and each < TINY:
            if self.awake == 0:
                self._call(1)
            self._look_later()
        else:
            self._call(wanted)

    def wake(self) -> None:
        """Have the crew look at what has ended."""
        self.crew.loop.call_soon_threadsafe(self.crew.bell.set)

    async def leave(self) -> None:
        """Have all hands put down what they hold, and end."""
        self.is_ending = True
        while self.asleep:
            self.asleep.pop().release()
        for thread in self.threads:
            thread.join(FAREWELL / len(self.threads))

    def _call(self, hands: int) -> None:
        for _ in range(hands):
            try:
                self.asleep.pop().release()
            except IndexError:
                thread = threading.Thread(
                    target=self._live, name=f"hand {len(self.threads) + 1}", daemon=True
                )
                self.threads.append(thread)
                thread.start()

    def _look_later(self) -> None:
        if not self._look_is_due:
            self._look_is_due = True
            self._ended = self.crew.stock.ended
            self.crew.loop.call_later(LOOK, self._look)

    def _look(self) -> None:
        """Call the others if one hand does not get on with what waits."""
        self._look_is_due = False
        stock = self.crew.stock
        if not stock.waiting:
            return
        if stock.ended - self._ended < DONE:
            room = self.crew.board.words[boards.ROOM]
            self._call(min(len(stock.waiting), room - self.awake))
        else:
            self._look_later()

    def _live(self) -> None:
        """Be a hand, to the end."""
        try:
            self._work()
        except BaseException:  # noqa: BLE001
            # What it held would be held for ever; the parent finds it on the board.
            logger.exception("a hand ended by an error of its own")
            os._exit(CRASHED)

    def _work(self) -> None:
        crew = self.crew
        begin, end, perform = crew.begin, crew.end, crew.execution.perform
        sleep = threading.Lock()
        sleep.acquire()
        while not self.is_ending:
            item = self._next()
            if item is None:
                self._rest(sleep)
            elif crew.may_begin(item):
                began = begin(item)
                end(item, perform(item.job), began)
        crew.environment.leave_thread()

    def _next(self) -> Item | None:
        if self.awake > self.crew.board.words[boards.ROOM]:
            return None
        try:
            return self.crew.stock.waiting.popleft()
        except IndexError:
            return None

    def _rest(self, sleep: threading.Lock) -> None:
        """Sleep until called."""
        self.asleep.append(sleep)
        has_room = self.awake < self.crew.board.words[boards.ROOM]
        if self.is_ending or (has_room and self.crew.stock.waiting):
            # Whoever brought the job may not have seen this hand asleep.
            try:
                self.asleep.remove(sleep)
            except ValueError:
                pass  # it has, and calls
            else:
                return
        sleep.acquire()


def threads(worker: Worker, board: Board, doorbell: int) -> None:
    """Be a process that runs jobs in threads."""
    live(worker, board, doorbell, Threads)
