"""The channel of a child that blocks while it waits for the server.

A prefetch reserves the next batch while one runs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from django_qless.core.exceptions import ConnectionLost, QlessError
from django_qless.core.request import drive
from django_qless.worker.log import log_event
from django_qless.worker.pools import shared_state
from django_qless.worker.pools.channel import (
    MOST_OUTCOMES,
    PATIENCE,
    Channel,
    check_wait,
)
from django_qless.worker.process_info import boottime

if TYPE_CHECKING:
    from django_qless.core import After, Client, PendingCall, Settled
    from django_qless.worker.pools.buffer import Item, JobBuffer, Outcome
    from django_qless.worker.worker import Worker

    # Calls the function and returns its result; None if a command has ended it.
    Sleep = Callable[[Callable[[], Settled]], Settled | None]


class PendingPrefetch(NamedTuple):
    """A pending call that reserves the next jobs and settles finished ones."""

    call: PendingCall[Settled]
    asked: tuple[str, ...]
    outcomes: Sequence[Outcome]
    #: When it was sent (boottime, monotonic).
    sent: float
    began: float
    early_steps: int


class BlockingChannel(Channel):
    """Settles jobs and reserves new ones, one call at a time.

    A prefetch is sent before a batch runs, and its reply is read after it.
    """

    client: Client
    early_client: Client

    def __init__(
        self, worker: Worker, buffer: JobBuffer, wake_parent: Callable[[], None]
    ) -> None:
        super().__init__(worker, buffer, wake_parent)
        self.client = worker.client(PATIENCE)
        self.early_client = worker.client(PATIENCE)
        #: The jobs of the last call, which are not waiting yet.
        self.taken: list[Item] = []
        #: Twice the number of times that a thread settled early: odd while it does.
        self.early_steps = 0
        # The reply is read by the main thread, or by the one that settles early.
        self._prefetch: PendingPrefetch | None = None
        self._reading = threading.Lock()
        # A wait that may have brought jobs, with the queues asked and when it was sent.
        self._unresolved: tuple[After[Settled], tuple[str, ...], float] | None = None

    def receive(self, items: list[Item]) -> None:
        """Keep new jobs until the child adds them to the waiting ones."""
        self.taken = items

    def reserve(self, count: int) -> Settled | None:
        """Settle what is finished and reserve up to `count` jobs, in one call.

        Returns None if it has to be called again. Raises what the call raises.
        """
        if self._unresolved:
            return self.resolve_wait()
        with self._reading:
            if prefetch := self._prefetch:
                return self.or_again(self.read(prefetch), prefetch.early_steps)
        early_steps = self.early_steps
        return self.or_again(drive(self.call(self.order(), count)), early_steps)

    def order(self) -> tuple[str, ...]:
        """Return the queues to ask, in their order."""
        self.report_returned()
        return self.next_order()

    def or_again(self, settled: Settled | None, early_steps: int) -> Settled | None:
        """Return the answer; None if it has no jobs but the child must not rest.

        Jobs may be on their way back into the queues, and outcomes must not wait. The
        number of early steps is from before the call.
        """
        if settled is None or settled.jobs:
            return settled
        at_work = early_steps % 2 or early_steps != self.early_steps
        return None if at_work or self.buffer.outcomes else settled

    # Prefetching.

    def prefetch(self, count: int) -> None:
        """Send a call that settles jobs and reserves `count` more; do not wait.

        The next `reserve` returns its result, and raises its errors.
        """
        ints, early_steps = self.shared.ints, self.early_steps
        asked = self.order()
        ints[shared_state.QUEUES_EMPTY] = 0
        ints[shared_state.CALLS] += 1
        outcomes = self.buffer.take_outcomes(MOST_OUTCOMES)
        sent, began = boottime(), time.monotonic()
        try:
            call = self.client.start(self.request(asked, outcomes, count))
        except BaseException as error:
            # The next ordinary call meets the same error, and handles it.
            ints[shared_state.CALLS] += 1
            self.buffer.put_back(outcomes)
            if not isinstance(error, QlessError):
                raise
            return
        ints[shared_state.PENDING_CALL] = ints[shared_state.CALLS]
        self._prefetch = PendingPrefetch(
            call, asked, outcomes, sent, began, early_steps
        )

    @property
    def has_prefetch(self) -> bool:
        """True if jobs were asked for that are not held yet."""
        return self._prefetch is not None

    def return_prefetched(self) -> None:
        """Return prefetched jobs to their queues. Raises nothing."""
        try:
            with self._reading:
                if (prefetch := self._prefetch) and self.read(prefetch):
                    for item in self.taken:
                        self.buffer.give_back(item)
        except Exception as error:  # noqa: BLE001
            log_event(logging.DEBUG, "prefetch failed", error=error)

    def read(self, prefetch: PendingPrefetch) -> Settled | None:
        """Return the result of the pending call; None if a new call is needed."""
        self._prefetch = None
        self.taken = []
        call = prefetch.call
        try:
            settled = drive(self.answer(self.client, call.result, prefetch.outcomes))
            if settled:
                # A repeated request may have been executed much later.
                since = None if call.was_repeated else prefetch.began
                self.accept(prefetch.asked, settled, prefetch.sent, since=since)
        finally:
            self.shared.ints[shared_state.CALLS] += 1
            self.shared.ints[shared_state.PENDING_CALL] = 0
        return settled

    # Waiting.

    def wait(self, known: Settled, sleep: Sleep) -> Settled | None:
        """Block where the server said that jobs are announced, and reserve the first.

        Both in one round trip. A command may end the sleep: jobs that were reserved in
        that moment are returned all the same. Returns None if it has to be called
        again. Raises what the call raises.
        """
        seconds, asked = known.wait_seconds or 0.0, self.order()
        after = self.client.after(known.wait_keys, seconds, self.request(asked, (), 1))
        began = time.monotonic()
        self.shared.ints[shared_state.CALLS] += 1
        sent = boottime()
        self._unresolved = after, asked, sent
        try:
            settled = sleep(after.run)
        except QlessError as error:
            # If the server may have heard the call, its answer is still due.
            if not isinstance(error, ConnectionLost):
                self.resolved()
            raise
        if settled is None:
            return self.resolve_wait()
        self.accept(asked, settled, sent, waited=True)
        self.resolved()
        if not settled.jobs:
            if after.refusal:
                raise after.refusal
            check_wait(announced=after.announced, began=began, seconds=seconds)
        return settled

    def wait_only(self, known: Settled) -> None:
        """Block where the server said that jobs are announced."""
        drive(self.wait_for_announcement(known))

    def resolve_wait(self) -> Settled:
        """End an interrupted wait for good; return the jobs that it has brought."""
        assert self._unresolved is not None
        after, asked, sent = self._unresolved
        try:
            settled = after.run_instead(self.request((), (), 0))
            self.accept(asked, settled, sent, waited=True)
        except ConnectionLost:
            raise
        except BaseException:
            self.resolved()
            raise
        self.resolved()
        return settled

    def resolved(self) -> None:
        """Record that no answer to a wait is due any more."""
        self._unresolved = None
        self.shared.ints[shared_state.CALLS] += 1

    # Settling.

    def settle(self) -> None:
        """Settle what is finished. Raises what the call raises."""
        drive(self.send(self.client))

    def settle_early(self) -> bool:
        """Settle what is finished while a job runs; return False on an error."""
        try:
            while self.buffer.outcomes:
                drive(self.send(self.early_client))
        except Exception as error:  # noqa: BLE001  tried again
            log_event(logging.DEBUG, "settling early failed", error=error)
            return False
        return True
