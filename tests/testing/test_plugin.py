"""The helpers as users have them: their own projects, run by pytest and by Django."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.real_servers import poll

ROOT = Path(__file__).resolve().parents[2]

SETTINGS = """
SECRET_KEY = "x"
USE_TZ = True
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3"}}
INSTALLED_APPS = ["django_qless", "shop"]
# Nobody answers there, and tests must not even ask.
QLESS = {"default": {"LOCATION": "redis://127.0.0.1:1/0"}}
"""

JOBS = """
from django_qless import job

done = []

@job
def note(text):
    done.append(text)
    return text
"""

# Each test tells which server it had.
WITH_PYTEST = """
import os

import pytest
from django.db import transaction

from django_qless import queues
from django_qless.testing import assert_enqueued, assert_enqueued_count
from shop.jobs import done, note


@pytest.fixture(autouse=True)
def nothing_done():
    done.clear()


def test_captured(captured_jobs):
    note.using(on_commit=False).delay("x")
    assert_enqueued(note, "x")
    assert captured_jobs.names == ["shop.jobs.note"]


def test_inline(db, inline_jobs):
    with transaction.atomic():
        note.delay("x")
        assert done == []
    assert done == ["x"]
    assert inline_jobs.only.result == "x"


@pytest.mark.parametrize("n", range(8))
def test_each_begins_with_nothing(db, run_jobs, qless_server, n):
    assert queues["default"].counts().waiting == 0
    assert_enqueued_count(0)
    note.delay(n)
    note.delay(n)
    assert len(run_jobs(until_empty=False)) == 2
    note.delay(n)
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    with open("servers", "a") as file:
        file.write(f"{worker} {qless_server.pid} {qless_server.folder}\\n")


def test_commits(django_capture_on_commit_callbacks, db):
    with django_capture_on_commit_callbacks(execute=True) as callbacks:
        with transaction.atomic():
            note.delay("x")
    assert len(callbacks) == 1
    assert queues["default"].counts().waiting == 1
"""

WITH_DJANGO = """
import os

from django.test import TestCase

from django_qless import queues
from django_qless.servers import throwaway
from django_qless.testing import QlessTestMixin
from shop.jobs import note


class One(QlessTestMixin, TestCase):
    def test_it(self):
        for n in range(20):
            note.delay(n)
        self.assertEqual(queues["default"].counts().waiting, 20)
        self.assertEqual(len(self.run_jobs()), 20)
        server = throwaway.running()
        with open("servers", "a") as file:
            file.write(f"{os.getpid()} {server.pid} {server.folder}\\n")


class Another(One):
    pass


class Plain(TestCase):
    def test_without_any_helper(self):
        note.delay("x").refresh()
"""

# What happens before Django's test environment is set up, and after it is gone.
AT_THE_EDGES = """
import pytest
from django.test import SimpleTestCase

from django_qless import queues
from shop.jobs import note

note.using(on_commit=False).delay("while tests are collected")


@pytest.fixture(autouse=True, scope="session")
def around_all():
    note.using(on_commit=False).delay("before the first test")
    yield
    note.using(on_commit=False).delay("after the last one")


class Tests(SimpleTestCase):
    def test_it(self):
        queues["mail"].pause()
"""

AFTER_A_FAILURE = """
import pytest

from django_qless import queues
from django_qless.testing import assert_enqueued_count
from shop.jobs import note


@pytest.fixture
def failing():
    yield
    note.using(on_commit=False).delay("late")
    pytest.skip("raises, as a failure does, and leaves the exit code alone")


def test_first(failing):
    note.using(on_commit=False).delay("x")


def test_second():
    assert_enqueued_count(0)
    assert queues["default"].counts().waiting == 0
"""

BY_NAME = """
from django.test import SimpleTestCase

from django_qless import queues


class Tests(SimpleTestCase):
    def test_it(self):
        queues["mail"].pause()
"""

READY = """
from django.apps import AppConfig


class Shop(AppConfig):
    name = "shop"

    def ready(self):
        # Makes the clients of the project's own server, and asks nothing.
        from django_qless.conf.connections import connections

        connections["default"]
        connections.aclient("default")
"""

# What a project that knows nothing of Django sees of an installed plugin.
WITHOUT_DJANGO = """
import sys


def test_nothing_is_imported():
    known = {"django_qless", "django_qless.testing", "django_qless.testing.plugin"}
    found = {name for name in sys.modules if name.partition(".")[0] == "django_qless"}
    assert found <= known
    assert "redis" not in sys.modules
    assert "django" not in sys.modules
"""

MANAGE = """
import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "project"
    execute_from_command_line(sys.argv)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The folder of a small project."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "jobs.py").write_text(JOBS)
    (tmp_path / "project.py").write_text(SETTINGS)
    (tmp_path / "manage.py").write_text(MANAGE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def run(folder: Path, *arguments: str) -> str:
    """Run Python in a folder; return what it said. It must end well."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "DJANGO_"))
    }
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def run_pytest(folder: Path, *arguments: str) -> str:
    """Run pytest with the plugin, as if this project were installed."""
    installed = any(
        each.name == "django_qless" for each in entry_points(group="pytest11")
    )
    plugin = () if installed else ("-p", "django_qless.testing.plugin")
    quiet = ("-q", "-p", "no:cacheprovider", "-p", "no:valkey")
    return run(folder, "-m", "pytest", *quiet, *plugin, *arguments)


def servers(folder: Path) -> list[list[str]]:
    """Return what the tests told: who, the server's process, its folder."""
    return [line.split() for line in (folder / "servers").read_text().splitlines()]


def test_it_is_installed_with_the_package() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert '[project.entry-points.pytest11]\ndjango_qless = "django_qless.test' in text


def test_fixtures(project: Path) -> None:
    (project / "test_shop.py").write_text(WITH_PYTEST)
    assert "11 passed" in run_pytest(project, "--ds", "project")
    told = servers(project)
    assert len({pid for _, pid, _ in told}) == 1
    poll(lambda: not Path(told[0][2]).exists(), what="the folder is removed")


@pytest.mark.parametrize("plugins", [("--ds", "project"), ("-p", "no:django")])
def test_nothing_ever_goes_to_the_projects_server(
    project: Path, plugins: tuple[str, str]
) -> None:
    (project / "test_shop.py").write_text(AT_THE_EDGES)
    (project / "shop" / "apps.py").write_text(READY)
    if "no:django" in plugins:
        # A project that sets Django up by itself.
        (project / "conftest.py").write_text(
            "import os, django\n"
            'os.environ["DJANGO_SETTINGS_MODULE"] = "project"\n'
            "django.setup()\n"
        )
    said = run_pytest(project, *plugins)
    assert "1 passed" in said
    assert "error" not in said


def test_a_fixture_that_fails_at_its_end_leaves_nothing_to_the_next_test(
    project: Path,
) -> None:
    (project / "test_shop.py").write_text(AFTER_A_FAILURE)
    assert "2 passed" in run_pytest(project, "--ds", "project")


def test_a_client_made_before_the_tests_is_not_used_in_them(project: Path) -> None:
    (project / "shop" / "apps.py").write_text(READY)
    (project / "shop" / "tests.py").write_text(BY_NAME)
    assert "Ran 1 test" in run(project, "manage.py", "test")


def test_each_process_of_xdist_has_a_server_of_its_own(project: Path) -> None:
    (project / "test_shop.py").write_text(WITH_PYTEST)
    both_run_all = ("-n", "2", "--dist", "each")
    assert "22 passed" in run_pytest(project, "--ds", "project", *both_run_all)
    told = {(worker, pid) for worker, pid, _ in servers(project)}
    assert len(told) == len({worker for worker, _ in told}) == 2
    assert len({pid for _, pid in told}) == 2


def test_manage_py_test(project: Path) -> None:
    (project / "shop" / "tests.py").write_text(WITH_DJANGO)
    assert "Ran 3 tests" in run(project, "manage.py", "test")
    assert len({pid for _, pid, _ in servers(project)}) == 1


def test_manage_py_test_in_parallel(project: Path) -> None:
    (project / "shop" / "tests.py").write_text(WITH_DJANGO)
    run(project, "manage.py", "test", "--parallel", "2")
    told = {(process, pid) for process, pid, _ in servers(project)}
    assert len({process for process, _ in told}) == len({pid for _, pid in told})


def test_where_there_is_no_django_it_imports_nothing(project: Path) -> None:
    (project / "test_plain.py").write_text(WITHOUT_DJANGO)
    assert "1 passed" in run_pytest(project, "-p", "no:django", "-p", "no:xdist")
