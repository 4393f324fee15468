"""Each kind of job as a detached one, in a real project and a real worker."""

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
import os
from tests.settings import INSTALLED_APPS
SECRET_KEY = "only for tests"
USE_TZ = True
INSTALLED_APPS = [*INSTALLED_APPS, "cinema"]
QLESS = {"default": {
    "LOCATION": os.environ["AT"],
    "QUEUES": {"long": {"detached_limit": 10}},
}}
TASKS = {"default": {"BACKEND": "django_qless.tasks.QlessBackend", "QUEUES": ["long"]}}
DATABASES = {"default": {
    "ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3",
    "OPTIONS": {"timeout": 30},
}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
"""

MODELS = """
import os
from django.db import models
from django_qless import job

class Film(models.Model):
    title = models.CharField(max_length=50)

    @job("long", detached=True)
    def of_row(self, more):
        return [os.getpid(), os.getsid(0), f"{self.title} {more}"]

    @job("long", detached=True)
    async def of_row_async(self):
        await Film.objects.filter(pk=self.pk).aupdate(title="Metropolis")
        film = await Film.objects.aget(pk=self.pk)
        return [os.getpid(), os.getsid(0), film.title]

    @classmethod
    @job("long", detached=True)
    def of_class(cls, more):
        return [os.getpid(), os.getsid(0), f"{cls.__name__} {more}"]
"""

JOBS = f"""
import asyncio, os
from django_qless import job
from {installed.NAME} import task

@job("long", detached=True)
def plain(value):
    return [os.getpid(), os.getsid(0), value]

@job("long", detached=True)
async def asynchronous(value):
    await asyncio.sleep(0)
    return [os.getpid(), os.getsid(0), value]

@job("long", detached=True, every=86400)
def daily():
    return [os.getpid(), os.getsid(0), "of the day"]

@job(detached=True)
class Qless:
    @staticmethod
    def process(job):
        with open(job["file"], "w") as file:
            file.write(f"{{os.getpid()}} {{os.getsid(0)}} {{job['file']}}")
        job.complete()

@task(queue_name="long", detached=True)
def as_task(value):
    return [os.getpid(), os.getsid(0), value]

@task(queue_name="long", detached=True, takes_context=True)
async def as_async_task(context, value):
    return [os.getpid(), os.getsid(0), f"{{value}} {{context.attempt}}"]
"""

ENQUEUE = """
import json
from django.core.management import call_command
call_command("migrate", run_syncdb=True, verbosity=0)
from cinema.jobs import Qless, as_async_task, as_task, asynchronous, plain
from cinema.models import Film
film = Film.objects.create(title="M")
other = Film.objects.create(title="old")
print(json.dumps({
    "plain": plain.delay("p").jid,
    "asynchronous": asynchronous.delay("a").jid,
    "of_row": film.of_row.delay("by Lang").jid,
    "of_row_async": other.of_row_async.delay().jid,
    "of_class": Film.of_class.delay("of 1931").jid,
    "as_task": as_task.enqueue("t").id,
    "as_async_task": as_async_task.enqueue("at").id,
    "class": Qless.using(queue="long").delay(file="told").jid,
}))
"""

# Of the class, which returns nothing, what it has written.
READ = """
import json, sys
from django_qless import jobs
shown, jids = {}, json.loads(sys.argv[1])
[daily] = jobs.list(jid="cinema.jobs.daily@*", state="complete").handles
jids["daily"] = daily.jid
for name, jid in jids.items():
    handle = jobs[jid]
    run = handle.detached_run()
    result = open("told").read().split() if name == "class" else handle.result()
    shown[name] = [handle.state, run and [run.pid, run.end], result]
print(json.dumps(shown))
"""

RETURNED = {
    "plain": "p",
    "asynchronous": "a",
    "of_row": "M by Lang",
    "of_row_async": "Metropolis",
    "of_class": "Film of 1931",
    "as_task": "t",
    "as_async_task": "at 1",
    "class": "told",
    "daily": "of the day",
}


class Site:
    """A project in a folder of its own."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        app = folder / "cinema"
        app.mkdir()
        for name, text in (
            ("__init__.py", ""), ("models.py", MODELS), ("jobs.py", JOBS),
        ):  # fmt: skip
            (app / name).write_text(text)
        (folder / "cinema_settings.py").write_text(SETTINGS)

    def python(self, *arguments: str) -> str:
        """Run Python in the project; return what it prints."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={
                **os.environ,
                "AT": self.url,
                "STATE_DIRECTORY": str(self.folder / "runs"),
                "DJANGO_SETTINGS_MODULE": "cinema_settings",
                "PYTHONPATH": f"{self.folder}{os.pathsep}{ROOT}",
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
        """Run code in the project; return what it prints as JSON."""
        setup = "import django; django.setup()\n"
        return json.loads(self.python("-c", setup + code, *arguments))


@pytest.mark.parametrize("pool", ["prefork", "coroutines"])
def test_each_kind_of_job_has_a_process_of_its_own(
    server: Server, tmp_path: Path, pool: str
) -> None:
    site = Site(tmp_path, server.url)
    jids = site.run(ENQUEUE)
    site.python("-m", "django", "qless_worker", "long", "--burst", "--pool", pool)
    seen = site.run(READ, json.dumps(jids))
    assert {name: each[2][2] for name, each in seen.items()} == RETURNED
    assert {each[0] for each in seen.values()} == {"complete"}
    pids = {name: int(each[2][0]) for name, each in seen.items()}
    # It has a session of its own, and is the process that the server was told of.
    assert len({int(each[2][1]) for each in seen.values()}) == len(pids)
    assert {name: each[1] for name, each in seen.items()} == {
        name: [pid, "exit status 0"] for name, pid in pids.items()
    }
