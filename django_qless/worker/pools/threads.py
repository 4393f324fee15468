"""The executor of the threads pool: one process, a thread for each running job.

Threads share one interpreter, and switching costs more than a short job. So a thread
runs as many short jobs as it can, and others are called only if they are needed: all of
them while jobs take long, one while jobs are so short that a second one would only wait
for the first.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_qless.worker.pools.async_child import AsyncChild
    from django_qless.worker.pools.buffer import Item

# A job that takes less, in seconds, is not worth another thread.
TINY = 0.0005

# Seconds after which one thread must have done so many jobs, else the others are
# called.
LOOK, DONE = 0.002, 4

# Seconds that the threads have to return what they hold, at the end.
JOIN_TIMEOUT = 1.0


class Threads:
    """Job threads; each is started when it is first needed, and kept."""

    def __init__(self, child: AsyncChild) -> None:
        self.child = child
        self.threads: list[threading.Thread] = []
        #: The locks on which the threads without work sleep, the latest last.
        self.asleep: deque[threading.Lock] = deque()
        self.is_ending = False
        self._look_is_due = False
        self._ended = 0

    @property
    def awake(self) -> int:
        """Number of threads that work, or look for work."""
        return len(self.threads) - len(self.asleep)

    @property
    def capacity(self) -> int:
        """Number of jobs that may run at once."""
        return self.child.capacity[0]

    def start_waiting(self) -> None:
        """Call enough threads for the waiting jobs."""
        wanted = self._wanted()
        if wanted <= 0:
            return
        each = self.child.prefetch.each
        if each is not None and each < TINY:
            if self.awake == 0:
                self._call(1)
            self._look_later()
        else:
            self._call(wanted)

    def wake_child(self) -> None:
        """Tell the child that jobs have ended."""
        self.child.loop.call_soon_threadsafe(self.child.wakeup.set)

    async def close(self) -> None:
        """End all threads."""
        self.is_ending = True
        while self.asleep:
            self.asleep.pop().release()
        for thread in self.threads:
            thread.join(JOIN_TIMEOUT / len(self.threads))

    def _wanted(self) -> int:
        """Return how many more threads could work."""
        return min(len(self.child.buffer.waiting), self.capacity - self.awake)

    def _call(self, count: int) -> None:
        for _ in range(count):
            try:
                self.asleep.pop().release()
            except IndexError:
                name = f"job thread {len(self.threads) + 1}"
                thread = threading.Thread(target=self._run, name=name, daemon=True)
                self.threads.append(thread)
                thread.start()

    def _look_later(self) -> None:
        if not self._look_is_due:
            self._look_is_due = True
            self._ended = self.child.buffer.ended
            self.child.loop.call_later(LOOK, self._look)

    def _look(self) -> None:
        """Call the others if one thread makes no progress with what waits."""
        self._look_is_due = False
        buffer = self.child.buffer
        if not buffer.waiting:
            return
        if buffer.ended - self._ended < DONE:
            self._call(self._wanted())
        else:
            self._look_later()

    def _run(self) -> None:
        """Run jobs, in a thread, to the end."""
        try:
            self._run_jobs()
        except BaseException as error:  # noqa: BLE001
            self.child.give_up(error)

    def _run_jobs(self) -> None:
        child = self.child
        begin, end, perform = child.begin, child.end, child.execution.perform
        sleep = threading.Lock()
        sleep.acquire()
        while not self.is_ending:
            item = self._next()
            if item is None:
                self._rest(sleep)
            elif child.may_begin(item):
                if item.job.batch:
                    child.run_entities(item)
                    continue
                began = begin(item)
                end(item, perform(item.job), began)
        child.environment.leave_thread()

    def _next(self) -> Item | None:
        if self.awake > self.capacity:
            return None
        try:
            return self.child.buffer.waiting.popleft()
        except IndexError:
            return None

    def _rest(self, sleep: threading.Lock) -> None:
        """Sleep until called."""
        self.asleep.append(sleep)
        has_room = self.awake < self.capacity
        if self.is_ending or (has_room and self.child.buffer.waiting):
            # When the job was brought, this thread may not have been seen asleep.
            try:
                self.asleep.remove(sleep)
            except ValueError:
                pass  # it has been seen, and is being called
            else:
                return
        sleep.acquire()
