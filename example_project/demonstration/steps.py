"""What the demo does, from an empty folder to the report."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from django.contrib.auth import get_user_model
from django.core.management import call_command

from codebase.models import Package
from codebase.schedule import schedule_rescan
from demonstration.outcome import Outcome, tally
from demonstration.progress import Progress
from demonstration.report import report
from django_qless import failures, jobs, queues

HERE = Path(__file__).resolve().parent.parent
SAMPLES = HERE / "samples"
WORKER_LOG = HERE / "worker.log"


class DemoFailed(Exception):
    """Something that the demo needs went wrong; the message says what."""


def demonstrate(source: Path) -> str:
    """Scans the source and the samples, has everything measured, returns the report."""
    prepare_database()
    packages = [package_at(source), package_at(SAMPLES)]
    clear_away()
    schedule_rescan()
    with a_file_that_goes_missing():
        for package in packages:
            files = package.scan()  # a job is still a method: this runs here and now
            print(f"{files:,} files in {package.root}", file=sys.stderr, flush=True)
    before, progress = tally(), Progress(unfinished())
    work(progress)
    for package in Package.objects.all():  # also of a run that was interrupted
        if package.summarise_anyway():
            progress.tell(f"{package}: the summary goes on without what has failed")
    work(progress)
    progress.close()
    return report(packages, Outcome.since(before, progress.seconds))


def prepare_database() -> None:
    """Makes the tables, and the user demo with the password demo."""
    call_command("migrate", verbosity=0)
    users = get_user_model().objects
    if not users.filter(username="demo").exists():
        users.create_superuser("demo", password="demo")


def package_at(root: Path) -> Package:
    """Returns the package of a directory, a new one if it is not known yet."""
    name = root.name or str(root)
    return Package.objects.get_or_create(root=str(root), defaults={"name": name})[0]


def clear_away() -> None:
    """Removes the failed jobs of earlier runs, and the summaries that wait for them.

    Failed jobs are kept until somebody has dealt with them, and now somebody does.
    """
    summaries = {package.summary_jid for package in Package.objects.all()}
    for group in failures.groups():
        while failed := failures.jobs(group, limit=500).jids:
            jobs.client.cancel([*summaries.union(failed)])


@contextlib.contextmanager
def a_file_that_goes_missing() -> Iterator[None]:
    """A sample that is there when the files are found, and gone when it is measured."""
    passing_by = SAMPLES / "passing_by.py"
    passing_by.write_text('"""Here today, gone tomorrow."""\n')
    try:
        yield
    finally:
        passing_by.unlink()


def work(progress: Progress) -> None:
    """Runs the worker until nothing is left that can run."""
    while something_can_run():
        run_worker(progress)
    progress.show(progress.total - unfinished())


def run_worker(progress: Progress) -> None:
    """Runs `manage.py qless_worker` until the queues are empty. Raises DemoFailed."""
    command = [sys.executable, "manage.py", "qless_worker", "--burst"]
    command += ["--concurrency", str(os.cpu_count() or 2)]
    with WORKER_LOG.open("a") as log:
        worker = subprocess.Popen(
            command, cwd=HERE, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        while worker.poll() is None:
            progress.show(progress.total - unfinished())
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.wait(0.1)
    except BaseException:
        worker.terminate()
        worker.wait()
        raise
    if worker.returncode:
        last_words = WORKER_LOG.read_text(errors="replace").splitlines()[-5:]
        raise DemoFailed("\n".join([f"see {WORKER_LOG}:", *last_words]))


def something_can_run() -> bool:
    """Whether jobs are ready; waits for retries that are due in a moment.

    A worker in a burst ends when nothing is ready, and does not wait for what is not.
    """
    while True:
        open_queues = [queue for queue in queues.counts() if not queue.paused]
        if any(queue.waiting for queue in open_queues):
            return True
        if not any(q.scheduled for q in open_queues if q.name == "measurements"):
            return False
        time.sleep(0.1)


def unfinished() -> int:
    """How many jobs have neither been completed nor failed."""
    return sum(
        queue.waiting + queue.running + queue.stalled + queue.scheduled + queue.depends
        for queue in queues.counts()
    )
