"""Tasks of a project, in a real worker of each pool."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tasks import installed

if TYPE_CHECKING:
    from tests.real_servers import Server

ROOT = Path(__file__).parents[2]

SETTINGS = """
from tests.settings import *
INSTALLED_APPS = [*INSTALLED_APPS, "plugin.apps.PluginConfig"]
QLESS = {{"default": {{"LOCATION": {url!r}}}}}
TASKS = {{
    "default": {{
        "BACKEND": "django_qless.tasks.QlessBackend", "OPTIONS": {{"backoff": 0}},
    }}
}}
"""

APPS = f"""
from pathlib import Path
from django.apps import AppConfig
from {installed.NAME}.signals import task_started, task_finished

class PluginConfig(AppConfig):
    name = "plugin"

    def ready(self):
        task_started.connect(note)
        task_finished.connect(note)

def note(task_result, **more):
    with Path("signals").open("a") as file:
        name, status = task_result.task.name, task_result.status.value
        file.write(f"{{name}} {{status}} {{task_result.attempts}}\\n")
"""

# In a module that no setting names, with functions of ours among them.
ANYWHERE = f"""
import os, sys
from {installed.NAME} import task
from django_qless import job

@task
def add(a, b=1):
    return a + b

@task(takes_context=True)
async def attempt(context):
    return context.attempt

@task(takes_context=True, retries=2)
def third_time(context):
    if context.attempt < 3:
        raise ValueError(f"attempt {{context.attempt}}")
    return context.attempt

@task
def fails():
    sys.exit("no")

@task(takes_context=True)
def dies_once(context):
    if context.attempt == 1:
        os._exit(1)
    return context.attempt

@task
def interrupts():
    raise KeyboardInterrupt

@job
def of_ours(a):
    return a * 2
"""

ENQUEUE = """
import json
from plugin import anywhere
results = {
    "add": anywhere.add.enqueue(1, b=2),
    "low": anywhere.add.using(priority=-100).enqueue(10),
    "attempt": anywhere.attempt.enqueue(),
    "third_time": anywhere.third_time.enqueue(),
    "fails": anywhere.fails.enqueue(),
    "dies_once": anywhere.dies_once.enqueue(),
    "interrupts": anywhere.interrupts.enqueue(),
}
ids = {name: result.id for name, result in results.items()}
print(json.dumps({**ids, "of_ours": anywhere.of_ours.delay(4).jid}))
"""

# Does not import the module of the Tasks: the backend has to find it.
READ = """
import json, sys
from django_qless import jobs
from INSTALLED import task_backends
ids = json.loads(sys.argv[1])
of_ours = jobs[ids.pop("of_ours")].result()
shown = {"of_ours": of_ours}
for name, id in ids.items():
    result = task_backends["default"].get_result(id)
    shown[name] = {
        "status": result.status.value,
        "value": result.return_value if result.status.value == "SUCCESSFUL" else None,
        "attempts": result.attempts,
        "errors": [error.exception_class.__name__ for error in result.errors],
        "in order": result.enqueued_at <= result.started_at
            <= result.last_attempted_at <= result.finished_at,
    }
print(json.dumps(shown))
""".replace("INSTALLED", installed.NAME)


class Site:
    """A project in a folder of its own."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        (folder / "plugin").mkdir()
        (folder / "plugin" / "__init__.py").touch()
        (folder / "plugin" / "apps.py").write_text(APPS)
        (folder / "plugin" / "anywhere.py").write_text(ANYWHERE)
        (folder / "site_settings.py").write_text(SETTINGS.format(url=url))

    def python(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={
                **os.environ,
                "DJANGO_SETTINGS_MODULE": "site_settings",
                "PYTHONPATH": f"{self.folder}:{ROOT}",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run(self, code: str, *arguments: str) -> Any:
        setup = "import django; django.setup()\n"
        return json.loads(self.python("-c", setup + code, *arguments))


@pytest.mark.parametrize("pool", ["prefork", "fork", "threads", "coroutines"])
def test_tasks_and_jobs_share_a_worker(
    server: Server, tmp_path: Path, pool: str
) -> None:
    site = Site(tmp_path, server.url)
    ids = site.run(ENQUEUE)
    site.python("-m", "django", "qless_worker", "--burst", "--pool", pool)
    seen = site.run(READ, json.dumps(ids))
    assert seen.pop("of_ours") == 8
    assert all(each.pop("in order") for each in seen.values())
    good = {"status": "SUCCESSFUL", "attempts": 1, "errors": []}
    # In pools of several jobs to a process, a death takes the others along.
    alone = pool in ("prefork", "fork")
    if alone:
        assert seen["add"] == {**good, "value": 3}
        assert seen["low"] == {**good, "value": 11}
        assert seen["attempt"] == {**good, "value": 1}
        assert seen["third_time"] == {
            "status": "SUCCESSFUL",
            "value": 3,
            "attempts": 3,
            "errors": ["ValueError"] * 2,
        }
        assert seen["fails"]["status"] == "FAILED"
        assert set(seen["fails"]["errors"]) == {"SystemExit"}
        assert seen["dies_once"] == {
            "status": "SUCCESSFUL",
            "value": 2,
            "attempts": 2,
            "errors": ["JobFailed"],
        }
    interrupted = seen["interrupts"]
    assert interrupted["status"] == "FAILED"
    if alone:
        assert interrupted["errors"] == ["KeyboardInterrupt"]
        assert interrupted["attempts"] == 1
    signals = (tmp_path / "signals").read_text().split("\n")
    if alone:
        assert signals.count("interrupts FAILED 1") == 1
        assert signals.count("third_time RUNNING 3") == 1
        assert signals.count("third_time SUCCESSFUL 3") == 1
