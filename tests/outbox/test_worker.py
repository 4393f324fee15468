"""The process that sweeps: in one worker at a time, replaced when it dies."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
from pathlib import Path

import pytest

from tests.outbox.project import Project
from tests.real_servers import Server, poll
from tests.worker.processes import is_alive

STARTED = "sweeping outboxes"


@pytest.fixture
def project(server: Server, tmp_path: Path) -> Project:
    database = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(tmp_path / "db.sqlite3"),
        "OPTIONS": {"timeout": 60, "transaction_mode": "IMMEDIATE"},
    }
    return Project(tmp_path, database, server.url)


def sweeper(project: Project, name: str = "worker") -> int:
    """Return the id of the process that a worker started last for sweeping."""
    pids = re.findall(rf"{STARTED}.*?pid=(\d+)", project.log_of(name))
    return int(pids[-1])


def test_one_that_dies_is_replaced_and_sweeps_on(project: Project) -> None:
    project.leave(1)
    with project.worker("orders"):
        project.wait_for_log("worker", STARTED)
        os.kill(sweeper(project), signal.SIGKILL)
        project.wait_for_log("worker", "child died")
        project.wait_for_log("worker", STARTED, times=2)
        project.wait_for_empty_outbox()
        poll(lambda: project.runs() == [("left", 1)], what="the job has run")
        last = sweeper(project)
    poll(lambda: not is_alive(last), what="it has ended with its worker")


def test_it_dies_with_a_worker_that_is_killed(project: Project) -> None:
    with project.worker("orders") as worker:
        project.wait_for_log("worker", STARTED)
        last = sweeper(project)
        worker.kill()
        worker.wait()
        poll(lambda: not is_alive(last), what="it has ended with its worker")


def test_another_worker_sweeps_when_the_first_has_ended(project: Project) -> None:
    with project.worker("orders", name="first") as first:
        project.wait_for_log("first", STARTED)
        with project.worker("orders", name="second"):
            project.wait_for_log("second", "started")
            project.leave(1)
            project.wait_for_empty_outbox()
            assert STARTED not in project.log_of("second")
            first.terminate()
            first.wait(60)
            project.wait_for_log("second", STARTED)
            project.leave(2)
            project.wait_for_empty_outbox()
            poll(lambda: len(project.runs()) == 2, what="both have run")
    assert project.runs() == [("left", 1), ("left", 2)]


def test_a_worker_of_a_database_without_the_table_does_not_start(
    project: Project,
) -> None:
    connection = sqlite3.connect(project.folder / "db.sqlite3")
    connection.execute("DROP TABLE django_qless_outbox_entry")
    connection.close()
    with project.worker("orders") as worker:
        assert worker.wait(60) == os.EX_CONFIG
    assert "Run manage.py migrate django_qless_outbox." in project.log_of("worker")
