"""New code for a worker that runs: by HUP, as a deployment does it, and by --reload."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from django_qless.core.put import new_jid
from tests.real_servers import poll
from tests.worker.conftest import is_alive
from tests.worker.processes import descendants

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_qless.core import Client, Job
    from tests.real_servers import Server
    from tests.worker.ledger import Gate, Ledger

    JobWhen = Callable[[str, str], Job]

ROOT = Path(__file__).parents[2]

SETTINGS = """
from tests.settings import *
INSTALLED_APPS = [app for app in INSTALLED_APPS if app != "django_qless.outbox"]
INSTALLED_APPS += ["shop"]
QLESS = {{"default": {{"LOCATION": {url!r}}}}}
DEBUG = {debug}
"""

JOBS = """
from django_qless import job
from tests.worker.ledger import note, wait_at

@job
def greet():
    note({ledger!r}, "greet", "{version}")

@job
def stay():
    note({ledger!r}, "stay", "{version}")
    wait_at({gate!r})
    note({ledger!r}, "over", "{version}")
"""

NEWCOMER = """
@job
def newcomer():
    from shop.lazy import WORD
    note({ledger!r}, "newcomer", WORD)
"""


# Works when it is tried, and no more when the worker that executes anew loads it.
BROKEN_MEANWHILE = """
import signal
if signal.SIGHUP in signal.pthread_sigmask(signal.SIG_BLOCK, ()):
    raise RuntimeError("broken meanwhile")
"""

STILL_BROKEN = """
note({ledger!r}, "tried")
raise RuntimeError("still broken")
"""


class Site:
    """A project in a folder of its own, whose code changes, and a worker of it."""

    def __init__(
        self, folder: Path, server: Server, ledger: Ledger, gate: Gate, *, debug: bool
    ) -> None:
        self.folder = folder
        self.names = {"ledger": ledger.path, "gate": gate.path}
        self.shop = folder / "shop"
        self.shop.mkdir()
        (self.shop / "__init__.py").touch()
        settings = SETTINGS.format(url=server.url, debug=debug)
        (folder / "site_settings.py").write_text(settings)
        self.save("one")
        self.log = folder / "log"
        self.worker: subprocess.Popen[bytes] | None = None

    def save(self, version: str, more: str = "") -> None:
        """Save the jobs as of this version."""
        text = (JOBS + more).format(version=version, **self.names)
        # As most editors do it.
        new = self.shop / "jobs.py~"
        new.write_text(text)
        new.replace(self.shop / "jobs.py")

    def start(self, *arguments: str) -> int:
        """Start the worker; return its process id when it takes jobs."""
        with self.log.open("wb") as output:
            self.worker = subprocess.Popen(
                [sys.executable, "-m", "django", "qless_worker", *arguments],
                cwd=self.folder,
                env={
                    **os.environ,
                    "DJANGO_SETTINGS_MODULE": "site_settings",
                    "PYTHONPATH": f"{self.folder}:{ROOT}",
                    # Two versions may be saved in one second, and be of one size.
                    "PYTHONDONTWRITEBYTECODE": "1",
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.wait_for_log("started")
        return self.worker.pid

    def wait_for_log(self, text: str, times: int = 1) -> None:
        poll(
            lambda: self.log.read_text().count(text) >= times,
            what=f"{text!r} in the log: {self.log.read_text()}",
        )

    def children(self) -> list[int]:
        """Return the processes that the worker has started, and that run."""
        assert self.worker is not None
        return [pid for pid in descendants(self.worker.pid) if is_alive(pid)]

    def close(self) -> None:
        if self.worker:
            self.worker.kill()
            self.worker.wait()


@pytest.fixture
def put_name(client: Client) -> Callable[[str], str]:
    """Puts a job by its name, as another version of the project may; returns its jid."""

    def put(name: str) -> str:
        jid = new_jid()
        data = '{"v": 1, "args": [], "kwargs": {}}'
        client.put("", "default", jid, f"shop.jobs.{name}", data)
        return jid

    return put


class TestDeployment:
    @pytest.fixture
    def site(
        self, server: Server, ledger: Ledger, gate: Gate, tmp_path: Path
    ) -> Iterator[Site]:
        site = Site(tmp_path, server, ledger, gate, debug=False)
        yield site
        site.close()

    def test_hup_brings_the_new_code_to_the_same_process(
        self,
        site: Site,
        put_name: Callable[[str], str],
        ledger: Ledger,
        gate: Gate,
        job_when: JobWhen,
    ) -> None:
        pid = site.start()
        running = put_name("stay")
        ledger.wait_for("stay one")
        site.save("two")
        os.kill(pid, signal.SIGHUP)
        site.wait_for_log("SIGHUP")
        gate.open()
        ledger.wait_for("over one")
        assert job_when(running, "complete")
        put_name("greet")
        ledger.wait_for("greet two")
        site.wait_for_log("started", times=2)
        assert is_alive(pid)

    def test_a_name_that_only_the_next_version_knows_waits_for_it(
        self,
        site: Site,
        put_name: Callable[[str], str],
        ledger: Ledger,
        client: Client,
        job_when: JobWhen,
    ) -> None:
        pid = site.start("-v", "2")
        jid = put_name("newcomer")
        site.wait_for_log("unknown job name")
        (site.shop / "lazy.py").write_text("WORD = 'two'\n")
        site.save("two", NEWCOMER)
        os.kill(pid, signal.SIGHUP)
        ledger.wait_for("newcomer two")
        job = job_when(jid, "complete")
        assert job.remaining == job.retries

    def test_a_link_to_the_release_is_followed(
        self,
        site: Site,
        put_name: Callable[[str], str],
        ledger: Ledger,
        tmp_path: Path,
    ) -> None:
        for release in ("one", "two"):
            site.save(release)
            shutil.copytree(tmp_path / "shop", tmp_path / release / "shop")
            shutil.copy(tmp_path / "site_settings.py", tmp_path / release)
        for name in ("shop/jobs.py", "site_settings.py"):
            (tmp_path / name).unlink()
        current = tmp_path / "current"
        current.symlink_to("one")
        site.folder = current
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PWD", str(current))
            pid = site.start("--pythonpath", ".")
        put_name("greet")
        ledger.wait_for("greet one")
        current.unlink()
        current.symlink_to("two")
        os.kill(pid, signal.SIGHUP)
        site.wait_for_log("started", times=2)
        put_name("greet")
        ledger.wait_for("greet two")


class TestReload:
    @pytest.fixture
    def site(
        self, server: Server, ledger: Ledger, gate: Gate, tmp_path: Path
    ) -> Iterator[Site]:
        site = Site(tmp_path, server, ledger, gate, debug=True)
        yield site
        site.close()

    def test_a_save_brings_the_new_code(
        self, site: Site, put_name: Callable[[str], str], ledger: Ledger
    ) -> None:
        pid = site.start()
        for n, version in enumerate(["two", "three"], 2):
            site.save(version)
            site.wait_for_log("reloading", times=n - 1)
            site.wait_for_log("started", times=n)
            put_name("greet")
            ledger.wait_for(f"greet {version}")
        assert is_alive(pid)
        poll(lambda: len(site.children()) == 2, what="the zygote and one child")

    def test_the_log_names_a_few_of_many_changed_files(self, site: Site) -> None:
        site.start()
        for n in range(10):
            (site.shop / f"more_{n}.py").touch()
        site.wait_for_log("reloading")
        site.wait_for_log("more_4.py and 5 more")

    def test_a_broken_save_changes_nothing(
        self, site: Site, put_name: Callable[[str], str], ledger: Ledger
    ) -> None:
        site.start()
        site.save("two", "def (")
        site.wait_for_log("new code failed to load")
        assert "SyntaxError" in site.log.read_text()
        put_name("greet")
        ledger.wait_for("greet one")
        site.save("three")
        site.wait_for_log("started", times=2)
        put_name("greet")
        ledger.wait_for("greet three")

    def test_a_save_that_is_broken_while_it_is_loaded_is_waited_for(
        self, site: Site, put_name: Callable[[str], str], ledger: Ledger
    ) -> None:
        pid = site.start()
        site.save("two", BROKEN_MEANWHILE)
        site.wait_for_log("Waiting for the code to change")
        assert "broken meanwhile" in site.log.read_text()
        site.save("still broken", STILL_BROKEN)
        ledger.wait_for("tried")
        site.save("three")
        site.wait_for_log("started", times=2)
        put_name("greet")
        ledger.wait_for("greet three")
        assert is_alive(pid)

    def test_a_running_job_is_never_ended(
        self,
        site: Site,
        put_name: Callable[[str], str],
        ledger: Ledger,
        gate: Gate,
        job_when: JobWhen,
    ) -> None:
        site.start("--shutdown-timeout", "0.1")
        jid = put_name("stay")
        ledger.wait_for("stay one")
        site.save("two")
        site.wait_for_log("reloading")
        # While it waits for the job, what it was to execute is broken.
        site.save("three", "def (")
        site.wait_for_log("new code failed to load")
        gate.open()
        ledger.wait_for("over one")
        assert job_when(jid, "complete").crashes == 0
        assert ledger.all().count("stay one") == 1
        site.wait_for_log("new code is not known to load; keeping the running version")
        put_name("greet")
        ledger.wait_for("greet one")
        site.save("four")
        site.wait_for_log("started", times=2)
        put_name("greet")
        ledger.wait_for("greet four")

    def test_a_new_module_of_jobs_is_seen(
        self, site: Site, put_name: Callable[[str], str], ledger: Ledger
    ) -> None:
        site.start()
        # Not a word of it is loaded yet.
        (site.shop / "tasks.py").write_text("import shop.missing")
        site.wait_for_log("new code failed to load")
        (site.shop / "missing.py").write_text("")
        site.wait_for_log("started", times=2)

    @pytest.mark.parametrize("arguments", [["--no-reload"], ["--burst"]])
    def test_the_code_is_not_watched(self, site: Site, arguments: list[str]) -> None:
        site.start(*arguments)
        site.save("two")
        assert site.worker is not None
        site.worker.terminate()
        assert site.worker.wait(30) == 0
        assert "reloading" not in site.log.read_text()
