"""Tasks in modules that the worker has not imported yet."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import override_settings

from django_qless.job_types.registry import registry
from django_qless.tasks import known_tasks
from tests.tasks import installed, work
from tests.tasks.conftest import tasks_setting
from tests.tasks.installed import InvalidTask, Status, task_backends

MODULE = """
from tests.tasks.installed import task
from django_qless import job

@task
def hello(name):
    return f"hello {name}"

@task(backend="immediate")
def of_another_backend():
    return "ran"

def plain():
    return "ran"

class Callable:
    def __call__(self):
        return "ran"

thing = Callable()
"""

IMMEDIATE = {"immediate": {"BACKEND": installed.IMMEDIATE}}


class Shop:
    """An app, and a package beside it, whose modules have not been imported."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.app = f"{name}_app"
        self.other = f"{name}_other"
        for package in (self.app, self.other):
            (folder / package / "deep").mkdir(parents=True)
            (folder / package / "__init__.py").touch()
            (folder / package / "deep" / "__init__.py").touch()
            (folder / package / "anywhere.py").write_text(MODULE)
            (folder / package / "__main__.py").write_text(MODULE)
            (folder / package / "deep" / "inside.py").write_text(MODULE)

    def is_imported(self, module: str) -> bool:
        return module in sys.modules


@pytest.fixture
def shop(
    qless: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> Iterator[Shop]:
    # A name of its own for each test: what is registered stays.
    shop = Shop(tmp_path, f"shop_{tmp_path.name}".replace("-", "_"))
    monkeypatch.syspath_prepend(str(tmp_path))
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, shop.app]
    settings.TASKS = {**tasks_setting(), **IMMEDIATE}
    yield shop
    for name in [name for name in sys.modules if name.startswith("shop_")]:
        del sys.modules[name]


@pytest.fixture
def run(qless: Any, drain: Callable[[], int]) -> Callable[..., Any]:
    """Enqueue a job by its name, as another process does; return it after a worker's try."""

    def run(name: str, *args: str) -> Any:
        data = '{"v":1,"args":["you"]}' if args else '{"v":1}'
        qless.put("", "default", "x", name, data)
        drain()
        return qless.get("x")

    return run


class TestApps:
    """The module lies in an installed app."""

    @pytest.mark.parametrize("module", ["anywhere", "deep.inside"])
    def test_a_task_of_any_module(self, shop: Shop, run: Any, module: str) -> None:
        name = f"{shop.app}.{module}.hello"
        assert not shop.is_imported(f"{shop.app}.{module}")
        assert run(name, "you").state == "complete"
        assert task_backends["default"].get_result("x").return_value == "hello you"

    def test_a_result_is_read_where_the_module_is_unknown(
        self, shop: Shop, qless
    ) -> None:
        qless.put("", "default", "x", f"{shop.app}.anywhere.hello", '{"v":1}')
        result = task_backends["default"].get_result("x")
        assert result.status == Status.READY
        assert result.task.name == "hello"

    def test_the_doctor_knows_it_as_workers_do(
        self, shop: Shop, qless: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        qless.put("", "default", "x", f"{shop.app}.anywhere.hello", '{"v":1}')
        qless.put("", "default", "y", f"{shop.app}.anywhere.plain", '{"v":1}')
        with pytest.raises(SystemExit):  # no worker serves the queue
            call_command("qless_doctor")
        told = capsys.readouterr().out
        assert f"jobs named '{shop.app}.anywhere.plain' are waiting" in told
        assert f"{shop.app}.anywhere.hello" not in told

    @pytest.mark.parametrize(
        "attribute", ["plain", "thing", "Callable", "job", "nobody"]
    )
    def test_what_is_no_task_is_not_run(
        self, shop: Shop, run: Any, attribute: str
    ) -> None:
        job = run(f"{shop.app}.anywhere.{attribute}")
        assert job.state == "scheduled"
        assert job.remaining == job.retries
        assert f"{shop.app}.anywhere.{attribute}" not in registry

    def test_a_task_of_another_backend_is_not_run(
        self, shop: Shop, run: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.ERROR):
            job = run(f"{shop.app}.anywhere.of_another_backend")
        assert job.state == "scheduled"
        assert "TASKS['immediate'], which is no QlessBackend" in caplog.text

    @pytest.mark.parametrize(
        "name",
        [
            *("{app}.__main__.hello", "{app}.missing.hello", "{app}.any-where.hello"),
            *("{app}..anywhere.hello", ".{app}.anywhere.hello", "{app}.hello", "hello"),
            *("", ".", "..", "{app}", "{app}.anywhere:hello", "{app}/anywhere.hello"),
        ],
    )
    def test_strange_names(self, shop: Shop, name: str) -> None:
        assert known_tasks.find(name.format(app=shop.app), "default") is None
        assert not shop.is_imported(f"{shop.app}.__main__")
        assert not shop.is_imported(f"{shop.app}.anywhere")

    def test_a_module_that_cannot_be_imported(
        self, shop: Shop, run: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        (shop.folder / shop.app / "broken.py").write_text("1 / 0")
        job = run(f"{shop.app}.broken.hello")
        assert job.state == "scheduled"
        assert "ZeroDivisionError" in caplog.text

    def test_a_module_that_misses_another_one(
        self, shop: Shop, run: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        (shop.folder / shop.app / "needy.py").write_text("import no_such_library")
        assert run(f"{shop.app}.needy.hello").state == "scheduled"
        assert "No module named 'no_such_library'" in caplog.text
        caplog.clear()
        for module in ("missing", "missing.deeper", "anywhere.missing"):
            assert known_tasks.find(f"{shop.app}.{module}.hello", "default") is None
        assert caplog.text == ""

    def test_one_that_wants_to_end_the_worker(self, shop: Shop, run: Any) -> None:
        (shop.folder / shop.app / "ending.py").write_text("raise SystemExit")
        assert run(f"{shop.app}.ending.hello").state == "scheduled"


def test_a_backend_that_cannot_be_used_keeps_no_other_from_its_tasks(
    shop: Shop, run: Any, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    broken = {"aaa": {"BACKEND": "no.such.Backend"}}
    settings.TASKS = {**broken, **tasks_setting(), **IMMEDIATE}
    assert run(f"{shop.app}.anywhere.hello", "you").state == "complete"
    assert "TASKS['aaa'] cannot be used" in caplog.text


class TestOthers:
    """The module lies outside of the installed apps."""

    def test_it_is_not_imported(self, shop: Shop, run: Any) -> None:
        assert run(f"{shop.other}.anywhere.hello", "you").state == "scheduled"
        assert not shop.is_imported(shop.other)
        assert not shop.is_imported(f"{shop.other}.anywhere")

    def test_the_name_of_an_app_is_not_only_a_beginning(
        self, shop: Shop, run: Any
    ) -> None:
        package = shop.folder / f"{shop.app}s"
        package.mkdir()
        (package / "anywhere.py").write_text(MODULE)
        assert run(f"{shop.app}s.anywhere.hello", "you").state == "scheduled"

    @pytest.mark.parametrize("module", ["{}", "{}.anywhere"])
    def test_unless_the_backend_names_it(
        self, shop: Shop, run: Any, module: str
    ) -> None:
        named = tasks_setting(TASK_MODULES=[module.format(shop.other)])
        with override_settings(TASKS={**named, **IMMEDIATE}):
            assert run(f"{shop.other}.anywhere.hello", "you").state == "complete"

    def test_such_modules_may_have_tasks_of_other_backends(
        self, shop: Shop, run: Any
    ) -> None:
        named = tasks_setting(TASK_MODULES=[shop.other])
        with override_settings(TASKS={**named, **IMMEDIATE}):
            assert run(f"{shop.other}.anywhere.of_another_backend").state == "complete"
            assert task_backends["default"].get_result("x").return_value == "ran"

    def test_but_only_tasks(self, shop: Shop, run: Any) -> None:
        named = tasks_setting(TASK_MODULES=[shop.other])
        with override_settings(TASKS={**named, **IMMEDIATE}):
            assert run(f"{shop.other}.anywhere.plain").state == "scheduled"


class TestWithoutTasks:
    def test_nothing_is_imported(self, shop: Shop, run: Any) -> None:
        with override_settings(TASKS=IMMEDIATE):
            assert run(f"{shop.app}.anywhere.hello", "you").state == "scheduled"
        assert not shop.is_imported(f"{shop.app}.anywhere")

    def test_nor_for_another_alias(self, shop: Shop) -> None:
        assert known_tasks.find(f"{shop.app}.anywhere.hello", "other") is None
        assert not shop.is_imported(f"{shop.app}.anywhere")


class TestBeforehand:
    """A Task that no worker would run is refused when it is enqueued."""

    @pytest.fixture
    def both(self, qless: Any) -> Iterator[None]:
        setting = {
            "default": {"BACKEND": installed.IMMEDIATE, "QUEUES": []},
            "qless": {"BACKEND": installed.QLESS, "QUEUES": []},
        }
        with override_settings(TASKS=setting):
            yield

    def test_a_task_that_is_declared_for_another_backend(self, both: None) -> None:
        elsewhere = work.add.using(backend="qless")
        with pytest.raises(InvalidTask, match=r"backend=\"qless\".*TASK_MODULES"):
            elsewhere.enqueue(1)

    def test_it_is_not_registered_by_the_way(self, shop: Shop, run: Any) -> None:
        module = import_module(f"{shop.app}.anywhere")
        module.of_another_backend.using(backend="default")
        assert f"{shop.app}.anywhere.of_another_backend" not in registry
        assert run(f"{shop.app}.anywhere.of_another_backend").state == "scheduled"

    def test_unless_its_module_is_named(
        self, both: None, qless, drain, settings
    ) -> None:
        settings.TASKS["qless"]["OPTIONS"] = {"TASK_MODULES": ["tests.tasks"]}
        settings.TASKS = {**settings.TASKS}
        result = work.add.using(backend="qless").enqueue(1)
        drain()
        result.refresh()
        assert result.return_value == 2
        assert result.backend == "qless"
