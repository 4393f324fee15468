"""The demo's report: the figures, and the outcome of the jobs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path

from django.db.models import Count, Max, Min, QuerySet

from codebase.models import Module, Package
from demonstration.outcome import Outcome
from demonstration.shop_work import ShopWork
from django_qless import entities, recurring

MOST_SHOWN = 5
WIDTH = 120


def report(packages: list[Package], outcome: Outcome, shop_work: ShopWork) -> str:
    """Returns the report as text."""
    pks = [package.pk for package in packages]
    measured = Module.objects.filter(package__in=pks, measured_at__isnull=False)
    sections = {
        "Packages": totals(Package.objects.filter(pk__in=pks).order_by("-files")),
        "The most complex functions": most_complex(measured),
        "The slowest to measure": slowest(measured),
        f"Failures by group ({ended_badly(outcome)})": failures(outcome),
        "Jobs": figures(outcome, measured.filter(measured_at__gte=outcome.began)),
        "In order, within limits, and for hours": shop_work.lines(),
        "Recurring jobs": schedules(),
        "Look at it": hints(),
    }
    return "\n\n".join(
        "\n".join([title, *(f"  {line}" for line in lines)])
        for title, lines in sections.items()
    )


def totals(packages: Iterable[Package]) -> Iterator[str]:
    columns = ["files", "lines", "classes", "functions", "complexity"]
    yield " " * 20 + "".join(f"{column:>12}" for column in columns)
    for package in packages:
        sums = [getattr(package, column) for column in columns]
        cells = ["-" if value is None else f"{value:,}" for value in sums]
        yield f"{package.name:<20}" + "".join(f"{cell:>12}" for cell in cells)


def most_complex(measured: QuerySet[Module]) -> Iterator[str]:
    for module in measured.order_by("-hardest_complexity", "path")[:MOST_SHOWN]:
        yield f"{module.hardest_complexity:>4}  {module.hardest} in {module.path}"


def slowest(measured: QuerySet[Module]) -> Iterator[str]:
    for module in measured.order_by("-seconds")[:MOST_SHOWN]:
        yield f"{module.seconds:.2f} s  {module.path}, {module.lines:,} lines"


def failures(outcome: Outcome) -> Iterator[str]:
    if outcome.failed:
        yield "(on purpose: samples/ has files that cannot be measured; others are those"
        yield " of the source that are no Python of this version)"
    for group, failed in outcome.failures.items():
        yield f"{group}: {len(failed):,}"
        for job in failed[:MOST_SHOWN]:
            tried = f" (tried {job.attempts} times)" if job.attempts > 1 else ""
            yield f"  {shortened(job.message)}{tried}"
        if len(failed) > MOST_SHOWN:
            yield f"  and {len(failed) - MOST_SHOWN:,} more"
    for queue in outcome.dead:
        for dead in entities[queue].rows("dead").rows:
            yield f"{dead['group']}: entity {dead['entity']} of the queue {queue} is dead"


def ended_badly(outcome: Outcome) -> str:
    """Returns how many jobs have failed and entities are dead, as qless_status has them."""
    return f"{outcome.failed:,} failed, {sum(outcome.dead.values()):,} dead"


def figures(outcome: Outcome, measured: QuerySet[Module]) -> Iterator[str]:
    retried = sum(
        job.attempts > 1 for group in outcome.failures.values() for job in group
    )
    yield (
        f"{outcome.completed:,} completed, {ended_badly(outcome)}, "
        f"{retried:,} of the failed after a retry"
    )
    times = measured.aggregate(
        number=Count("pk"), first=Min("measured_at"), last=Max("measured_at")
    )
    if times["number"] > 1 and times["last"] > times["first"]:
        span = (times["last"] - times["first"]).total_seconds()
        rate = (times["number"] - 1) / span  # from the first one's end to the last's
        yield f"{times['number']:,} files measured in {span:.1f} s, {rate:,.0f} jobs/s"
    yield f"{outcome.seconds:.1f} s in all, with the scans and the starts of the worker"


def schedules() -> Iterator[str]:
    for each in sorted(recurring, key=attrgetter("name")):
        yield f"{each.name}: {each.words}"
        upcoming = f"{each.next:%Y-%m-%d %H:%M} UTC" if each.next else "not known yet"
        yield f"  ticks up to now: {each.count:,}, the next: {upcoming}"


def shortened(message: str) -> str:
    """Returns one line of a failure's message: what a job said, or its exception.

    A job that raises Fail says in the first line why; that of another exception is a
    traceback, which comes to the point in its last line.
    """
    lines = message.strip().splitlines()
    line = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    half = WIDTH // 2  # what is said stands at the beginning, paths end in what matters
    return line if len(line) <= WIDTH else f"{line[:half]}…{line[-half:]}"


def hints() -> Iterator[str]:
    here = Path(__file__).resolve().parent.parent
    yield f"cd {here}"
    yield f"{sys.executable} manage.py qless_status"
    yield "    shows the queues, the failure groups and the workers"
    yield "make admin"
    yield "    opens queues, jobs and failures in Django's admin, a worker beside it"
    yield "    (log in as demo with the password demo)"
