"""Where everything that is put while tests run comes by: put, captured, or run at once."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from django_qless.puts.outlet import Outlet
from django_qless.testing import atomics
from django_qless.testing.captured import CapturedJob, of_shipment

if TYPE_CHECKING:
    from django_qless.puts.outlet import Shipment

# Tests that never look, and never clear, keep so much at most.
MOST_REMEMBERED = 10_000

T = TypeVar("T")


class Way:
    """What becomes of what is put: here it goes to the server."""

    def send(self, shipment: Shipment) -> None:
        """Send it now."""
        shipment.send()

    async def asend(self, shipment: Shipment) -> None:
        """Send it now, from asynchronous code."""
        await shipment.asend()

    def send_late(self, shipment: Shipment) -> None:
        """Send it at a commit."""
        shipment.send_late()


AnyWay = TypeVar("AnyWay", bound=Way)

# The way that was in use when something was put, while that is sent at the commit.
_way_then: ContextVar[Way | None] = ContextVar("qless_way_then", default=None)


class TestsOutlet(Outlet):
    """Sends what is put in the way that is in use, and remembers it for assertions.

    Which way is in use holds for the whole process, so that it holds for the thread of a
    live server, too.
    """

    __test__ = False  # for pytest: not a class of tests

    def __init__(self) -> None:
        self._ways = [Way()]
        self._lock = threading.Lock()
        self.remembered: deque[CapturedJob] = deque(maxlen=MOST_REMEMBERED)

    @property
    def way(self) -> Way:
        """The way in use."""
        return self._ways[-1]

    @contextmanager
    def using(self, way: AnyWay) -> Iterator[AnyWay]:
        """Let everything that is put go this way, in all threads.

        What waits for a commit goes the way that was in use when it was put.
        """
        with self._lock:
            self._ways.append(way)
        try:
            yield way
        finally:
            with self._lock:
                # Not always the last: blocks of several threads may overlap.
                self._ways.remove(way)

    def way_of(self, kind: type[T]) -> T | None:
        """Return the innermost way of this kind, or None."""
        return next(
            (way for way in reversed(self._ways) if isinstance(way, kind)), None
        )

    def forget(self) -> None:
        """Forget what has been put."""
        self.remembered.clear()

    def waits(self, database: str) -> bool:
        """Return whether the project has a transaction open there."""
        return atomics.is_open(database)

    def at_commit(self, database: str, callback: Callable[[], None]) -> None:
        """Call this where the project's transaction commits, or would commit."""
        atomics.at_commit(database, partial(_then, self.way, callback))

    def send(self, shipment: Shipment) -> None:
        """Send this now."""
        with self._remembering(shipment):
            self.way.send(shipment)

    async def asend(self, shipment: Shipment) -> None:
        """Send this now, from asynchronous code."""
        with self._remembering(shipment):
            await self.way.asend(shipment)

    def send_late(self, shipment: Shipment) -> None:
        """Send what has waited for a commit."""
        with self._remembering(shipment):
            (_way_then.get() or self.way).send_late(shipment)

    @contextmanager
    def _remembering(self, shipment: Shipment) -> Iterator[None]:
        # Before it is sent: inline, what it puts itself comes behind it.
        jobs = of_shipment(shipment)
        self.remembered.extend(jobs)
        try:
            yield
        except BaseException:
            for job in jobs:
                if job.handle.pending or job.handle.created is None:
                    _remove(self.remembered, job)
            raise


def _then(way: Way, callback: Callable[[], None]) -> None:
    token = _way_then.set(way)
    try:
        callback()
    finally:
        _way_then.reset(token)


def _remove(jobs: deque[Any], job: CapturedJob) -> None:
    for at, each in enumerate(jobs):
        if each is job:
            del jobs[at]
            return
