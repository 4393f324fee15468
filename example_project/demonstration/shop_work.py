"""The shop's part of the demo, and the archive: work in order, within limits, for hours."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db.models import Sum

from codebase.models import Package
from django_qless import JobHandle, entities, jobs
from shop.jobs import RATE
from shop.models import Export, Order, Price
from shop.trading import (
    LARGE_TENANT,
    TENANTS,
    ask_for_exports,
    ask_for_prices,
    push_versions,
)


@dataclass(frozen=True)
class ShopWork:
    """What was enqueued of each kind in one run of the demo."""

    versions: int
    questions: Sequence[JobHandle[int]]
    exports: Sequence[JobHandle[None]]
    archive: JobHandle[str]

    @classmethod
    def enqueued(cls, package: Package) -> ShopWork:
        """Enqueues some work of each kind; the archive is that of the package."""
        return cls(
            versions=push_versions(),
            questions=ask_for_prices(),
            exports=ask_for_exports(),
            archive=package.archive.delay(pause=0),
        )

    def lines(self) -> Iterator[str]:
        """Yields what became of it, for the report."""
        yield from self._orders()
        yield from self._prices()
        yield from self._exports()
        yield from self._archive()

    def _orders(self) -> Iterator[str]:
        sums = Order.objects.aggregate(payloads=Sum("payloads"), runs=Sum("runs"))
        dead = entities["orders"].counts().dead
        yield (
            f"orders, one worker each: {self.versions:,} versions pushed, "
            f"{sums['payloads']:,} processed in {sums['runs']:,} runs, {dead:,} dead"
        )

    def _prices(self) -> Iterator[str]:
        starts = sorted(started_at(self.questions))
        if not starts:
            return
        yield (
            f"prices, {RATE} a second at most: {len(self.questions):,} asked for in "
            f"{starts[-1] - starts[0]:.1f} s, never more than "
            f"{most_within_a_second(starts):,} within a second"
        )

    def _exports(self) -> Iterator[str]:
        small = self.exports[TENANTS[LARGE_TENANT] :]  # the large one was first to ask
        starts = sorted(started_at(self.exports))
        first = bisect.bisect_right(starts, max(started_at(small), default=0.0))
        yield (
            f"exports, tenants in turns: the {len(small):,} of the small ones were "
            f"among the first {first:,} of {len(starts):,}"
        )

    def _archive(self) -> Iterator[str]:
        handle, run = self.archive.refresh(), self.archive.detached_run()
        if run is None or run.ended is None or handle.state != "complete":
            yield f"archive, a detached process: {handle.state}"
            return
        size = Path(handle.result()).stat().st_size
        shown = f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.1f} kB"
        yield (
            f"archive, a detached process: {shown} in "
            f"{run.ended - run.started:.1f} s, by process {run.pid} on {run.host}"
        )


def started_at(handles: Sequence[JobHandle[Any]]) -> Iterator[float]:
    """Yields when workers got these jobs last, in seconds of the epoch, by the server.

    (What a worker hands back before it has begun, a limit does not count.)
    """
    for handle in jobs.many([each.jid for each in handles]):
        got = [each["when"] for each in handle.history if each["what"] == "popped"]
        yield from got[-1:]


def most_within_a_second(times: Sequence[float]) -> int:
    """Returns the largest number of these within a second; they are in order."""
    return max(
        bisect.bisect_left(times, begin + 1) - place
        for place, begin in enumerate(times)
    )


def clear_shop() -> None:
    """Removes what an earlier run has left of the shop."""
    entities["orders"].delete_dead()
    entities["orders"].delete_all_failed()
    for model in (Export, Price):
        model.objects.all().delete()
    Order.objects.update(payloads=0, runs=0)
