"""A project whose jobs recur, and workers of it that die in the middle of a tick."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.real_servers import poll

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_qless.core import Client
    from tests.real_servers import Server
    from tests.worker.ledger import Ledger

ROOT = Path(__file__).parents[2]

ROWS = 5000

PATIENCE = 120
"""Seconds for what takes a few where nothing else runs."""

SETTINGS = """
from tests.settings import *
INSTALLED_APPS = [*INSTALLED_APPS, "news"]
DATABASES = {{"default": {{
    "ENGINE": "django.db.backends.sqlite3", "NAME": {database!r},
    "OPTIONS": {{"timeout": 30}},
}}}}
QLESS = {{"default": {{"LOCATION": {url!r}}}}}
TIME_ZONE = "Europe/Berlin"
"""

MODELS = """
import os, pathlib, signal
from django.db import models
from django_qless import job
from tests.worker.ledger import note

class Doomed(models.QuerySet):
    '''Rows whose first reader is killed in the middle of them.'''

    def iterator(self, chunk_size=None):
        for number, row in enumerate(super().iterator(chunk_size)):
            if number == 2500 and not os.path.exists({killed!r}):
                pathlib.Path({killed!r}).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield row

class Feed(models.Model):
    objects = Doomed.as_manager()

    @job("feeds", every=86400, rows="all")
    def refresh(self):
        note({ledger!r}, "row", self.pk)
"""

JOBS = """
from django_qless import job
from tests.worker.ledger import note

@job(cron="* * * * *", missed="all")
def minutely():
    note({ledger!r}, "minute")
"""


class Project:
    """A project in a folder of its own."""

    def __init__(self, folder: Path, server: Server, ledger: Ledger) -> None:
        self.folder = folder
        self.killed = folder / "killed"
        self.workers: list[subprocess.Popen[bytes]] = []
        news = folder / "news"
        news.mkdir()
        names = {"killed": str(self.killed), "ledger": ledger.path}
        (news / "__init__.py").touch()
        (news / "models.py").write_text(MODELS.format(**names))
        (news / "jobs.py").write_text(JOBS.format(**names))
        (folder / "news_settings.py").write_text(
            SETTINGS.format(url=server.url, database=str(folder / "db.sqlite3"))
        )

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "news_settings",
            "PYTHONPATH": f"{self.folder}:{ROOT}",
        }

    def manage(self, *words: str, text: str | None = None) -> str:
        """Run a command of Django to its end; return what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "django", *words],
            cwd=self.folder,
            env=self.environment,
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def work(self, *words: str) -> None:
        """Start a worker."""
        with (self.folder / f"log-{len(self.workers)}").open("wb") as log:
            self.workers.append(
                subprocess.Popen(
                    [sys.executable, "-m", "django", "qless_worker", *words],
                    cwd=self.folder,
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def close(self) -> None:
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            worker.wait()


@pytest.fixture
def project(server: Server, ledger: Ledger, tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path, server, ledger)
    yield project
    project.close()


def test_a_tick_whose_worker_is_killed_puts_each_row_once(
    project: Project, client: Client, ledger: Ledger
) -> None:
    project.manage("migrate", "--run-syncdb", "-v0")
    project.manage(
        "shell",
        "-v0",
        text="from news.models import Feed\n"
        f"Feed.objects.bulk_create(Feed() for _ in range({ROWS}))\n",
    )
    for _ in range(2):
        project.work("feeds", "--concurrency", "2")
    poll(lambda: len(ledger.all()) >= ROWS, what="a run for each row", seconds=PATIENCE)
    assert project.killed.exists()
    # The tick was tried again, and put the rest.
    last = client.schedule_get("news.Feed.refresh").last
    tick = f"news.Feed.refresh@{last:.3f}".removesuffix(".000")
    poll(lambda: client.get(tick).state == "complete", what="the tick")
    assert client.get(tick).crashes == 1
    assert client.result(tick) == ROWS - 2000
    poll(lambda: not any(client.queue("feeds").counts()[1:3]), what="an empty queue")
    # What had run in the worker that was killed may have run again.
    assert set(ledger.all()) == {f"row {pk}" for pk in range(1, ROWS + 1)}
    # Ticks and rows have not been put by anything else.
    assert client.completed_count() == ROWS + 1
    listed = json.loads(project.manage("qless_recurring", "list", "--json"))
    counts = {each["name"]: each["count"] for each in listed}
    assert counts["news.Feed.refresh"] == 1


def test_cron_schedules_tick_whichever_queues_a_worker_serves(
    project: Project, client: Client
) -> None:
    """The worker that begins works out when the next tick is."""
    project.work("elsewhere")
    schedule = poll(
        lambda: (
            (found := client.schedule_get("news.jobs.minutely"))
            and found.next
            and found
        ),
        what="the next tick",
        seconds=PATIENCE,
    )
    assert schedule.next % 60 == 0
    assert schedule.timezone == "Europe/Berlin"


def test_a_server_that_lost_its_data_gets_what_is_declared_again(
    project: Project, client: Client, server: Server
) -> None:
    """The worker goes on meanwhile, and is not restarted."""
    settings = project.folder / "news_settings.py"
    settings.write_text(
        settings.read_text()
        + 'QLESS["default"]["QUEUES"] = {"mail": {"max_concurrency": 3}}\n'
    )
    names = {"news.Feed.refresh", "news.jobs.minutely"}

    def is_declared() -> bool:
        present = {each.id for each in client.schedule_declared()}
        return present == names and client.config_get("mail-max-concurrency") == "3"

    project.work("default")
    poll(is_declared, what="what is declared", seconds=PATIENCE)
    server.client().flushall()
    assert not is_declared()
    poll(is_declared, what="what is declared, again", seconds=PATIENCE)
