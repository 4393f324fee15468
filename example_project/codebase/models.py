"""Packages and their modules. The work is done by jobs, which are methods of them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from urllib.request import Request, urlopen
from zipfile import ZIP_DEFLATED, ZipFile

from django.conf import settings
from django.db import models
from django.utils import timezone

from codebase.analysis import measure_file
from codebase.finding import python_files
from django_qless import Fail, current_job, job


class Package(models.Model):
    """A directory of Python files, and the sums of what is measured in it."""

    name = models.CharField(max_length=200)
    root = models.CharField(max_length=1000, unique=True)
    files = models.PositiveIntegerField(null=True, editable=False)
    lines = models.PositiveIntegerField(null=True, editable=False)
    functions = models.PositiveIntegerField(null=True, editable=False)
    classes = models.PositiveIntegerField(null=True, editable=False)
    complexity = models.PositiveIntegerField(null=True, editable=False)
    scanned_at = models.DateTimeField(null=True, editable=False)
    summarised_at = models.DateTimeField(null=True, editable=False)

    def __str__(self) -> str:
        return self.name

    @job("scans")
    def scan(self) -> int:
        """Finds the files, and enqueues one job for each that is new or has changed.

        Returns how many those are. When a job does this, a caller that waits for the scan
        waits for the measurements as well.
        """
        measurements = [
            module.measure.using(priority=urgency_of(module), tags=[self.name]).args()
            for module in sorted(self._to_be_measured(), key=urgency_of)
        ]
        if running := current_job():
            running.spawn(measurements)
        else:
            Module.measure.enqueue_many(measurements)
        return len(measurements)

    @job(
        "summaries",
        after="scan",
        on_failure="run",
        unique=True,
        every=timedelta(hours=1),
        rows="all",
    )
    def summarise(self) -> None:
        """Adds up what was measured, each hour, after a scan and its measurements.

        Files that cannot be measured are no reason to go without the sums of the others.
        """
        there = self.modules.filter(found_at=self.scanned_at, measured_at__isnull=False)
        sums = there.aggregate(
            files=models.Count("pk"),
            lines=models.Sum("lines", default=0),
            functions=models.Sum("functions", default=0),
            classes=models.Sum("classes", default=0),
            complexity=models.Sum("complexity", default=0),
        )
        Package.objects.filter(pk=self.pk).update(**sums, summarised_at=timezone.now())

    @classmethod
    @job("scans", cron="0 3 * * *", timezone="Europe/Berlin", priority=-10)
    def forget_gone(cls) -> int:
        """Deletes the rows of files that the last scan has not found; each night."""
        gone = Module.objects.filter(found_at__lt=models.F("package__scanned_at"))
        return gone.delete()[0]

    @classmethod
    @job("summaries")
    def rank(cls) -> list[list[str | float]]:
        """Returns the packages and their complexity per thousand lines, highest first."""
        ranked = [
            [package.name, round(1000 * package.complexity / package.lines, 1)]
            for package in cls.objects.filter(lines__gt=0)
        ]
        return sorted(ranked, key=lambda each: each[1], reverse=True)

    @job("publishing", sensitive="token", retries=2, backoff=[2, 10], timeout=30)
    def publish(self, url: str, token: str) -> int:
        """Sends the sums to a server that knows the token; returns its HTTP status."""
        names = ("name", "files", "lines", "functions", "classes", "complexity")
        request = Request(
            url,
            data=json.dumps({name: getattr(self, name) for name in names}).encode(),
            headers={
                "Authorization": f"Bearer {token}",
                "Content-Type": "application/json",
            },
        )
        with urlopen(request, timeout=10) as response:
            return response.status

    @job("upkeep", unique=True, missing="ignore", retries=0)
    def keep_fresh(self, seconds: int = 540) -> int:
        """Measures the oldest figures again, a few each second, for some minutes.

        Returns how many measurements it has put, and tells all along how far it is.
        """
        running, put = current_job(), 0
        measured = self.modules.filter(measured_at__isnull=False)
        for second in range(seconds):
            oldest = measured.order_by("measured_at")[: 1 + second % 5]
            put += len(
                Module.measure.enqueue_many(
                    module.measure.using(tags=[self.name, "upkeep"]).args()
                    for module in oldest
                )
            )
            if running:
                running.progress((second + 1) / seconds, f"{put:,} files enqueued")
            time.sleep(1)
        return put

    @job("archives", detached=True, unique=True, missing="ignore", retries=1)
    def archive(self, pause: float = 0.1) -> str:
        """Packs all files into an archive, without haste; returns its path.

        It has a process of its own, which goes on while workers are restarted.
        """
        running = current_job()
        folder = Path(settings.BASE_DIR, "archives")
        folder.mkdir(exist_ok=True)
        target, unfinished = folder / f"{self.name}.zip", folder / f".{self.name}.zip"
        paths = list(self.modules.order_by("path").values_list("path", flat=True))
        with ZipFile(unfinished, "w", ZIP_DEFLATED) as archive:
            for number, path in enumerate(paths, start=1):
                if (file := Path(self.root, path)).is_file():
                    archive.write(file, path)
                    print(f"{number:,} of {len(paths):,}: {path}")
                if running and number % 20 == 0:
                    running.progress(number / len(paths), path)
                time.sleep(pause)
        unfinished.replace(target)
        return str(target)

    def _to_be_measured(self) -> Iterator[Module]:
        """Brings the rows up to date; yields those whose file has changed since."""
        known = dict(self.modules.values_list("path", "modified"))
        found = list(python_files(Path(self.root)))
        now = timezone.now()
        modules = Module.objects.bulk_create(
            [
                Module(package=self, path=file.path, size=file.size, found_at=now)
                for file in found
            ],
            update_conflicts=True,
            unique_fields=["package", "path"],
            update_fields=["size", "found_at"],
        )
        Package.objects.filter(pk=self.pk).update(scanned_at=now)
        for module, file in zip(modules, found, strict=True):
            if known.get(file.path) != file.modified:
                yield module


class Module(models.Model):
    """One Python file, and what was found the last time that it could be measured."""

    package = models.ForeignKey(Package, models.CASCADE, related_name="modules")
    path = models.CharField(max_length=1000)
    size = models.PositiveIntegerField()
    found_at = models.DateTimeField()
    modified = models.FloatField(null=True, editable=False)
    """The file's time of change when it was read last, whether it could be measured
    or not; None: it has not been read yet."""
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

    @job("measurements", unique=True, missing="ignore", retries=1, backoff=1)
    def measure(self) -> None:
        """Measures the file and keeps the figures. One at a time for each file.

        What is not Python now will not be Python in a second: that fails for good, in a
        failure group of its own. A file that cannot be read may just be being replaced:
        such errors are left to the retry.
        """
        began = time.perf_counter()
        file = Path(self.package.root, self.path)
        this = Module.objects.filter(pk=self.pk)
        modified = file.stat().st_mtime
        try:
            figures = measure_file(file)
        except (SyntaxError, ValueError) as error:  # UnicodeDecodeError is a ValueError
            this.update(modified=modified)
            raise Fail(type(error).__name__, f"{self.path}: {error}") from error
        this.update(
            **asdict(figures),
            modified=modified,
            seconds=time.perf_counter() - began,
            measured_at=timezone.now(),
        )


def urgency_of(module: Module) -> int:
    """The priority of a measurement: the big files first.

    A long job that starts last is one that everybody waits for.
    """
    return min(module.size // 10_000, 10)
