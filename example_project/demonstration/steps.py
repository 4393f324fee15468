"""Steps of the demo, from an empty folder to the report."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.utils import timezone

from codebase.models import Module, Package
from demonstration.follow_ups import put_follow_ups, take_back
from demonstration.outcome import Outcome, tally
from demonstration.progress import Progress
from demonstration.report import report
from demonstration.shop_work import ShopWork, clear_shop
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
    before, began = tally(), timezone.now()
    with a_file_that_goes_missing():
        for package in packages:
            package.summarise.delay()  # enqueues a scan first, and waits for its jobs
        run_worker("scans")
    for package in packages:
        files = package.modules.filter(modified=None).count()
        print(f"{files:,} files in {package.root}", file=sys.stderr, flush=True)
    shop_work = ShopWork.enqueued(packages[0])
    work(Progress(unfinished()))
    outcome = Outcome.since(before, began)
    put_follow_ups(packages)
    return report(packages, outcome, shop_work)


def prepare_database() -> None:
    """Makes the tables, and the user demo with the password demo.

    Raises DemoFailed where everybody could log in with that.
    """
    if not settings.DEBUG:
        raise DemoFailed("the user demo, password demo, is for DEBUG = True only")
    call_command("migrate", verbosity=0)
    users = get_user_model().objects
    if not users.filter(username="demo").exists():
        users.create_superuser("demo", password="demo")


def package_at(root: Path) -> Package:
    """Returns the package of a directory, a new one if it is not known yet."""
    name = root.name or str(root)
    return Package.objects.get_or_create(root=str(root), defaults={"name": name})[0]


def clear_away() -> None:
    """Removes what earlier runs have left, and forgets which files were read.

    Failed jobs are kept until somebody has dealt with them, and now somebody does. And a
    scan has only those files measured that have changed: here that shall be all.
    """
    take_back()
    clear_shop()
    for group in failures.groups():
        while found := failures.jobs(group, limit=500).jids:
            for failed in jobs.many(found):
                failed.cancel()
    Module.objects.update(modified=None)


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
        # The most urgent first: what is due now, then all the rest.
        run_worker("summaries", "*", progress=progress)
    progress.show(progress.total - unfinished())
    progress.close()


def run_worker(*queues: str, progress: Progress | None = None) -> None:
    """Runs `manage.py qless_worker` until the queues are empty. Raises DemoFailed."""
    command = [sys.executable, "manage.py", "qless_worker", "--burst", *queues]
    # Files are measured twice as often as summaries are published, see QUEUES.
    command += ["--reserver", "reduced-lottery"]
    command += ["--concurrency", str(os.cpu_count() or 2)]
    with WORKER_LOG.open("a") as log:
        worker = subprocess.Popen(
            command, cwd=HERE, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        while worker.poll() is None:
            if progress:
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
    """Returns whether jobs are ready; waits for retries that are due in a moment.

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
    """Returns the number of jobs that are neither complete nor failed."""
    return sum(
        queue.waiting + queue.running + queue.stalled + queue.scheduled + queue.depends
        for queue in queues.counts()
    )
