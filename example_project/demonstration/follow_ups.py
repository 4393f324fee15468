"""Jobs after the measurements: some wait, are scheduled, or recur.

All of it carries a tag, by which it is found, and taken back before the next measuring.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from codebase.models import Package
from django_qless import JobHandle, jobs, queues, workflow
from shop.trading import trade

TAG = "follow-up"

#: Where figures are to go some day: names that end in .example never exist.
PUBLISHER = "https://figures.example/packages"
NO_PUBLISHER = f"There is no server at {PUBLISHER} yet"


def put_follow_ups(packages: Sequence[Package]) -> None:
    """Enqueues the jobs that follow, unless an earlier run did."""
    if open_follow_ups():
        return
    queues["publishing"].pause(reason=NO_PUBLISHER, by="demo")
    published = [
        package.publish.using(tags=[TAG, package.name]).delay(PUBLISHER, "a secret")
        for package in packages
    ]
    published[0].track()
    Package.forget_gone.using(after=published, tags=[TAG]).delay()
    for hours, package in enumerate(packages, start=1):
        later = timedelta(hours=hours)
        package.scan.using(delay=later, tags=[TAG, package.name]).delay()


def keep_busy(packages: Sequence[Package]) -> None:
    """Enqueues the jobs of a worker that keeps running."""
    largest = max(packages, key=lambda package: package.modules.count())
    steady = largest.keep_fresh.using(tags=[TAG, largest.name])
    steady.recur(every=timedelta(minutes=10))
    steady.delay()  # unless it is on its way
    largest.archive.using(tags=[TAG, largest.name]).delay()
    trading = trade.using(tags=[TAG])
    trading.recur(every=timedelta(minutes=2))
    trading.delay()
    with workflow("compare packages", on_failure="run") as flow:
        scans = [flow.add(package.scan.args()) for package in packages]
        ranking = flow.add(Package.rank.using(tags=["comparison"]).args(), after=scans)
    ranking.handle.track()


def take_back() -> None:
    """Cancels the jobs of this module that are left, and their schedules."""
    for package in Package.objects.all():
        package.keep_fresh.unrecur()
    trade.unrecur()
    # A job that others wait for can only go after them.
    for handle in sorted(open_follow_ups(), key=lambda each: each.state != "depends"):
        handle.cancel()


def open_follow_ups() -> list[JobHandle[Any]]:
    """The jobs that have not ended."""
    found = jobs.list(tag=TAG, count=1000).handles
    return [each for each in found if each.state not in ("complete", "failed")]
