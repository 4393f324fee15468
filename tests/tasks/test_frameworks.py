"""With django.tasks, with its backport, and with neither."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django
import pytest

from tests.tasks import installed

ROOT = Path(__file__).parents[2]

WITHOUT = (
    "import sys; sys.modules['django.tasks'] = sys.modules['django_tasks'] = None\n"
)


@pytest.fixture
def python(tmp_path: Path) -> Callable[..., str]:
    """Runs a program in a project of these settings; returns what it prints."""

    def run(code: str, settings: str = "", before: str = "") -> str:
        (tmp_path / "its_settings.py").write_text(
            f"from tests.settings import *\n{settings}"
        )
        done = subprocess.run(
            [sys.executable, "-c", f"{before}import django; django.setup()\n{code}"],
            cwd=tmp_path,
            env={
                **os.environ,
                "DJANGO_SETTINGS_MODULE": "its_settings",
                "PYTHONPATH": f"{tmp_path}:{ROOT}",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return run


class TestWithoutAny:
    def test_the_worker_finds_its_jobs_all_the_same(self, python: Any) -> None:
        code = (
            "from django_qless.job_types import discovery\n"
            "print(discovery.discover())\n"
            "from django_qless.runtime.environment import DjangoEnvironment\n"
            "print(DjangoEnvironment().resolve('nobody.knows'))\n"
            "print(DjangoEnvironment().has_listeners('started'))\n"
            "from tests.jobs_app.jobs import add\n"
            "print(add(1, 2))\n"
        )
        printed = python(code, before=WITHOUT)
        assert "'django_qless.tasks'" in printed
        assert printed.endswith("None\nFalse\n3\n")

    def test_the_backend_says_what_is_missing(self, python: Any) -> None:
        code = (
            "from django_qless.tasks import QlessBackend\n"
            "try: QlessBackend('default', {})\n"
            "except Exception as error: print(type(error).__name__, error)\n"
        )
        printed = python(code, before=WITHOUT)
        assert printed.startswith("ImproperlyConfigured")
        assert "pip install 'django-qless[tasks]'" in printed


class TestChecks:
    def test_they_are_run_with_all_others(self, python: Any) -> None:
        code = (
            "from django.core.management import call_command\n"
            "try: call_command('check')\n"
            "except Exception as error: print(error)\n"
        )
        setting = (
            "TASKS = {'default': {'BACKEND': 'django_qless.tasks.QlessBackend',"
            " 'OPTIONS': {'alias': 'nowhere', 'retrys': 1}}}\n"
        )
        printed = python(code, setting)
        assert "django_qless.E102" in printed
        assert printed.count("django_qless.E103") == 1


class TestOrder:
    def test_an_app_with_tasks_may_come_before_ours(
        self, python: Any, tmp_path: Path
    ) -> None:
        (tmp_path / "early").mkdir()
        # Its models module is imported before any app is ready.
        (tmp_path / "early" / "__init__.py").touch()
        (tmp_path / "early" / "models.py").write_text(
            f"from {installed.NAME} import task\n"
            "@task(**{'queue_name': 'mail'})\n"
            "def hello(): ...\n"
        )
        code = (
            "from early.models import hello\n"
            "print(type(hello).__name__, hello.module_path, hello.queue_name)\n"
            "from django_qless.job_types.registry import registry\n"
            "print('early.models.hello' in registry)\n"
        )
        setting = (
            "INSTALLED_APPS = ['early', *INSTALLED_APPS]\n"
            "TASKS = {'default': {'BACKEND': 'django_qless.tasks.QlessBackend',"
            " 'QUEUES': []}}\n"
        )
        assert python(code, setting) == "QlessTask early.models.hello mail\nTrue\n"


@pytest.mark.skipif(django.VERSION < (6, 0), reason="Django has Tasks since 6.0")
def test_djangos_own_is_used_where_there_are_both(python: Any) -> None:
    code = (
        "import django_tasks\n"
        "from django.tasks import task_backends\n"
        "print(type(task_backends['default']).__mro__[1].__module__)\n"
    )
    setting = "TASKS = {'default': {'BACKEND': 'django_qless.tasks.QlessBackend'}}\n"
    assert python(code, setting) == "django.tasks.backends.base\n"
