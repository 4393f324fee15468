"""Early settling: no finished or waiting job waits for one that takes long."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from django_qless.worker.pools.channel import AFTER_TROUBLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_qless.worker.pools.blocking_channel import BlockingChannel
    from django_qless.worker.pools.buffer import Item, JobBuffer

# Seconds that a finished job waits to be settled, or a held one to be started. The rest
# up to 20 ms is for getting hold of the interpreter and for the round trip.
LIMIT = 0.010


class EarlySettling:
    """Settles finished jobs and returns waiting ones during a long job.

    While batches are quick, finished jobs are settled together with the next
    reservation, and this costs nothing.
    """

    def __init__(self, buffer: JobBuffer, channel: BlockingChannel) -> None:
        self.buffer = buffer
        self.channel = channel
        #: Since when (monotonic) jobs of this batch wait; 0.0: none does.
        self.since = 0.0
        self._lock = threading.Lock()
        self._settling = threading.Lock()

    def begin_batch(self, items: Sequence[Item], now: float) -> None:
        """Let these jobs wait for their start, from `now` (monotonic) on."""
        buffer = self.buffer
        with self._lock:
            buffer.waiting.extend(items)
            self.since = now if len(buffer.waiting) > 1 or buffer.outcomes else 0.0

    def end_batch(self) -> None:
        """Note that all jobs of the batch have been run or returned."""
        self.since = 0.0

    def step_in(self, since: float) -> bool:
        """Settle what is finished and return what waits, unless the batch has ended.

        `since` is the batch's: another one is left alone. Returns False if the server
        could not be reached.
        """
        with self._settling:
            with self._lock:
                if self.since != since:
                    return True
                self.since = 0.0
                self.channel.early_steps += 1
                self.buffer.give_back_waiting()
            try:
                self.channel.return_prefetched()
                return self.settle()
            finally:
                self.channel.early_steps += 1

    def settle(self) -> bool:
        """Settle what is finished; return False if the server could not be reached."""
        return self.channel.settle_early()

    def leave(self) -> None:
        """Return when nothing is being settled early any more."""
        self.since = 0.0
        with self._settling:
            pass


class EarlySettlingThread(EarlySettling):
    """Settles early in a thread, while a job runs in the main thread.

    It sleeps as long as there is no batch of several jobs, and wakes once per limit
    otherwise.
    """

    def __init__(self, buffer: JobBuffer, channel: BlockingChannel) -> None:
        super().__init__(buffer, channel)
        self._called = threading.Event()
        self._watching = False
        self._leaving = False
        self._thread: threading.Thread | None = None

    def begin_batch(self, items: Sequence[Item], now: float) -> None:
        """Let these jobs wait for their start; see EarlySettling."""
        super().begin_batch(items, now)
        if self.since and not self._watching:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._watch, name="early settling", daemon=True
                )
                self._thread.start()
            self._called.set()

    def settle(self) -> bool:
        """Settle what is finished, however long that takes, while the next job runs."""
        while not super().settle():
            if self._leaving:
                return False
            time.sleep(AFTER_TROUBLE)
        return True

    def leave(self) -> None:
        """Return when nothing is being settled early any more."""
        self._leaving = True
        super().leave()

    def _watch(self) -> None:
        while self._called.wait():
            self._called.clear()
            self._watching = True
            while since := self.since:
                if (pause := since + LIMIT - time.monotonic()) > 0:
                    time.sleep(pause)
                else:
                    self.step_in(since)
            self._watching = False
            # A batch may have begun before this flag was seen.
            if self.since:
                self._called.set()
