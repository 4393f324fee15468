"""Packages and their modules. The work is done by jobs, which are methods of them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from django.db import models
from django.utils import timezone

from codebase.analysis import measure_file
from codebase.finding import Found, python_files
from django_qless import Fail, job, jobs


class Package(models.Model):
    """A directory of Python files, and the sums of what is measured in it."""

    name = models.CharField(max_length=200)
    root = models.CharField(max_length=1000, unique=True)
    files = models.PositiveIntegerField(null=True, editable=False)
    lines = models.PositiveIntegerField(null=True, editable=False)
    functions = models.PositiveIntegerField(null=True, editable=False)
    classes = models.PositiveIntegerField(null=True, editable=False)
    complexity = models.PositiveIntegerField(null=True, editable=False)
    summarised_at = models.DateTimeField(null=True, editable=False)

    def __str__(self) -> str:
        return self.name

    @job("scans")
    def scan(self, *, changed_only: bool = False) -> int:
        """Finds the files, and puts one job for each and one that waits for them all.

        Returns how many files are going to be measured: all of them, or those that are
        new or have changed since the last scan.
        """
        before = dict(self.modules.values_list("path", "modified"))
        found = list(python_files(Path(self.root)))
        if changed_only:
            found = [file for file in found if before.get(file.path) != file.modified]
        modules = self._remember(found, forget_others=not changed_only)
        measurements = Module.measure.enqueue_many(
            module.measure.using(priority=urgency_of(module), tags=[self.name]).args()
            for module in sorted(modules, key=urgency_of)
        )
        if measurements:
            self.summarise.using(jid=self.summary_jid, after=measurements).delay()
        return len(measurements)

    @classmethod
    @job("rescans", priority=-10)
    def rescan(cls) -> int:
        """Has all that has changed measured again; see `schedule.py`."""
        return sum(package.scan(changed_only=True) for package in cls.objects.all())

    @job("summaries")
    def summarise(self) -> None:
        """Adds up what was measured; runs when all measurements are complete."""
        sums = self.modules.filter(measured_at__isnull=False).aggregate(
            files=models.Count("pk"),
            lines=models.Sum("lines", default=0),
            functions=models.Sum("functions", default=0),
            classes=models.Sum("classes", default=0),
            complexity=models.Sum("complexity", default=0),
        )
        Package.objects.filter(pk=self.pk).update(**sums, summarised_at=timezone.now())

    @property
    def summary_jid(self) -> str:
        """The id of the package's summary: there is one, which a new scan puts anew."""
        return f"summary-of-package-{self.pk}"

    def summarise_anyway(self) -> bool:
        """Lets the summary go if nothing but failed measurements holds it back.

        A job waits until all that it depends on is complete, which a failed job will
        not be by itself: somebody has to decide. Returns whether the summary was let go.
        """
        summary = jobs.get(self.summary_jid)
        if summary is None or summary.state != "depends":
            return False
        awaited = jobs.many(summary.dependencies)
        if any(measurement.state != "failed" for measurement in awaited):
            return False
        jobs.client.depends_off(summary.jid)
        return True

    def _remember(self, found: Iterable[Found], *, forget_others: bool) -> list[Module]:
        """Brings the rows up to date, so that there is one for each file; returns them.

        A rescan leaves the rows of files that are gone: their jobs may be on the way.
        """
        now = timezone.now()
        modules = Module.objects.bulk_create(
            [Module(package=self, found_at=now, **file._asdict()) for file in found],
            update_conflicts=True,
            unique_fields=["package", "path"],
            update_fields=["size", "modified", "found_at"],
        )
        if forget_others:
            self.modules.exclude(found_at=now).delete()
        return modules


class Module(models.Model):
    """One Python file, and what was found the last time that it could be measured."""

    package = models.ForeignKey(Package, models.CASCADE, related_name="modules")
    path = models.CharField(max_length=1000)
    size = models.PositiveIntegerField()
    modified = models.FloatField()
    found_at = models.DateTimeField()
    lines = models.PositiveIntegerField(null=True, editable=False)
    blank_lines = models.PositiveIntegerField(null=True, editable=False)
    comment_lines = models.PositiveIntegerField(null=True, editable=False)
    functions = models.PositiveIntegerField(null=True, editable=False)
    classes = models.PositiveIntegerField(null=True, editable=False)
    complexity = models.PositiveIntegerField(null=True, editable=False)
    hardest = models.CharField(max_length=500, blank=True, editable=False)
    hardest_complexity = models.PositiveIntegerField(null=True, editable=False)
    seconds = models.FloatField(null=True, editable=False)
    measured_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["package", "path"], name="one_row_for_each_file"
            )
        ]

    def __str__(self) -> str:
        return self.path

    @job("measurements", retries=1, backoff=1)
    def measure(self) -> None:
        """Measures the file and keeps the figures.

        What is not Python now will not be Python in a second: that fails for good, in a
        failure group of its own. A file that cannot be read may just be being replaced:
        such errors are left to the retry.
        """
        began = time.perf_counter()
        try:
            figures = measure_file(Path(self.package.root, self.path))
        except (SyntaxError, ValueError) as error:  # UnicodeDecodeError is a ValueError
            raise Fail(type(error).__name__, f"{self.path}: {error}") from error
        Module.objects.filter(pk=self.pk).update(
            **asdict(figures),
            seconds=time.perf_counter() - began,
            measured_at=timezone.now(),
        )


def urgency_of(module: Module) -> int:
    """The priority of a measurement: the big files first.

    A long job that starts last is one that everybody waits for.
    """
    return min(module.size // 10_000, 10)
