"""Whichever of django.tasks and its backport is there: both, one, none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django
import pytest

from django_qless.tasks import frameworks
from tests.tasks import installed, work

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


if django.VERSION >= (6, 0):

    def test_djangos_own_alone(python: Any) -> None:
        code = (
            "from django_qless.tasks import frameworks\n"
            "print([each.name for each in frameworks.in_use()])\n"
            "from django.tasks import task_backends\n"
            "print(type(task_backends['default']).__name__)\n"
            "print(frameworks.error('InvalidTask', 'no').__class__.__mro__[1].__name__)\n"
        )
        setting = (
            "TASKS = {'default': {'BACKEND': 'django_qless.tasks.QlessBackend'}}\n"
        )
        without = "import sys; sys.modules['django_tasks'] = None\n"
        printed = python(code, setting, without)
        assert printed == "['django.tasks']\nQlessBackend\nTaskException\n"

    class TestBoth:
        """On a newer Django, with a project that imports from the backport."""

        @pytest.fixture(autouse=True)
        def backport(self) -> Any:
            # As an installed app has it: only then the backends follow the settings.
            import django_tasks.signals

            return django_tasks

        def test_its_decorator_makes_our_tasks(self, qless, drain, backport) -> None:
            hello = backport.task(retries=1)(work.plain)
            assert type(hello) is type(work.add)
            result = hello.enqueue()
            drain()
            result.refresh()
            assert result.status == installed.Status.SUCCESSFUL

        def test_its_backends_are_ours(self, qless, backport) -> None:
            found = backport.task_backends["default"]
            assert isinstance(found, type(installed.task_backends["default"]))

        def test_exceptions_have_both_names(self, qless, backport) -> None:
            from django_tasks import exceptions

            for name, one in (
                ("TaskResultDoesNotExist", lambda: work.add.get_result("x")),
                ("InvalidTask", lambda: work.add.using(queue_name="x")),
            ):
                other = getattr(exceptions, name, None)
                other = other or getattr(exceptions, f"{name}Error")
                for expected in (other, getattr(installed, name)):
                    with pytest.raises(expected):
                        one()

        def test_a_task_of_the_backport_itself(
            self, qless, each_drain, settings, backport
        ) -> None:
            settings.TASKS = {
                **settings.TASKS,
                "elsewhere": {
                    "BACKEND": "django_tasks.backends.immediate.ImmediateBackend"
                },
            }
            theirs = backport.base.Task(
                func=work.succeeds_at.func, backend="elsewhere", takes_context=True
            )
            ours = theirs.using(backend="default")
            framework = frameworks.of(ours)
            assert framework is not None
            assert framework.name == frameworks.BACKPORT
            heard = []

            def receive(task_result: Any, **more: Any) -> None:
                heard.append(type(task_result))

            signals = [
                framework.signals.task_enqueued,
                framework.signals.task_started,
                framework.signals.task_finished,
            ]
            for signal in signals:
                signal.connect(receive)
            result = ours.enqueue(1)
            each_drain()
            for signal in signals:
                signal.disconnect(receive)
            assert type(result) is backport.TaskResult
            assert heard[0] is backport.TaskResult
            assert len(heard) in (1, 3)


def test_an_error_is_what_each_name_of_it_catches() -> None:
    error = frameworks.error("InvalidTask", "no")
    assert isinstance(error, installed.InvalidTask)
    assert str(error) == "no"
    assert "InvalidTask" in type(error).__name__


def test_an_error_of_two_frameworks_is_caught_by_the_name_of_either() -> None:
    class InvalidTask(Exception): ...

    class InvalidTaskError(Exception): ...

    combined = frameworks._combined((InvalidTask, InvalidTaskError))
    assert combined.__name__ == "InvalidTask"
    for expected in (InvalidTask, InvalidTaskError):
        with pytest.raises(expected, match="no"):
            raise combined("no")
