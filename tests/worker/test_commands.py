"""The management commands, in a Django project, as people run them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.servers import Server

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Client
    from tests.worker.ledger import Gate, Ledger

    Manage = Callable[..., subprocess.CompletedProcess[str]]

ROOT = Path(__file__).parents[2]


class Project:
    """A project of its own: its environment, and its manage.py."""

    def __init__(self, **environment: str) -> None:
        self.environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.worker.settings",
            **environment,
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "django", *arguments],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def manage(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command to its end; return exit code, output and errors."""
        with self.start(*arguments) as process:
            try:
                output, errors = process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return process.returncode, output, errors

    def shell(self, code: str) -> str:
        """Run Python code in the project."""
        code = f"import django; django.setup()\n{code}"
        return subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=self.environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout


@pytest.fixture
def project(server: Server, ledger: Ledger, gate: Gate, tmp_path: Path) -> Project:
    return Project(
        LOCATION=server.url,
        LEDGER=ledger.path,
        GATE=gate.path,
        DATABASE=str(tmp_path / "db.sqlite3"),
    )


class TestWorker:
    def test_jobs_of_a_project_are_run(
        self, project: Project, ledger: Ledger, client: Client
    ) -> None:
        assert project.manage("migrate", "-v", "0")[0] == 0
        jids = project.shell(
            "from tests.worker.shop.jobs import *\n"
            "jobs = [greet.delay('Ann', greeting='Hi'), count_rows.delay(),"
            " count_rows.delay(), wait_a_little.delay(), once_more.delay(),"
            " break_twice.delay(), give_up.delay()]\n"
            "print(*(job.jid for job in jobs))"
        ).split()
        code, _, errors = project.manage("qless_worker", "--burst", "-v", "2")
        assert (code, "Traceback" in errors) == (0, False)
        states = [job.state for job in client.multiget(jids)]
        assert states == ["complete"] * 5 + ["failed"] * 2
        assert [client.result(jid) for jid in jids[:4]] == ["Hi, Ann", 0, 0, "waited"]
        assert client.failed() == {"ValueError": 1, "bad-input": 1}
        assert sorted(ledger.all()) == [
            *("attempt 1", "attempt 1", "attempt 2", "attempt 2"),
            "greet Ann",
        ]

    def test_queues_are_chosen_on_the_command_line(
        self, project: Project, ledger: Ledger, client: Client
    ) -> None:
        project.shell(
            "from tests.worker.shop.jobs import *\n"
            "for queue in ('a', 'mail-1', 'mail-2', 'b'):\n"
            "    greet.using(queue=queue).delay(queue)"
        )
        command = ("qless_worker", "b", "mail-*", "-x", "*-2", "--burst")
        assert project.manage(*command)[0] == 0
        assert ledger.all() == ["greet b", "greet mail-1"]
        assert client.length("a") == client.length("mail-2") == 1

    def test_ctrl_c_finishes_the_running_job(
        self, project: Project, ledger: Ledger, gate: Gate, client: Client
    ) -> None:
        jid = project.shell(
            "from tests.worker.shop.jobs import *\nprint(stay.delay('x').jid)"
        ).strip()
        with project.start("qless_worker") as worker:
            ledger.wait_until(1)
            worker.send_signal(signal.SIGINT)
            assert worker.stderr is not None
            while "SIGINT" not in worker.stderr.readline():
                pass
            gate.open()
            _, errors = worker.communicate(timeout=30)
        assert worker.returncode == 0
        assert "Traceback" not in errors
        job = client.get(jid)
        assert job is not None
        assert job.state == "complete"

    def test_help_shows_the_signals(self, project: Project) -> None:
        code, output, _ = project.manage("qless_worker", "--help")
        assert code == 0
        assert "TERM" in output
        assert "INT" in output

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["--concurrency", "0"], "0 is less than 1"),
            (["--concurrency", "many"], "--concurrency"),
            (["--shutdown-timeout", "-1"], "-1"),
            (["--pool", "swimming"], "swimming"),
        ],
    )
    def test_bad_options_are_named(
        self, project: Project, arguments: list[str], words: str
    ) -> None:
        code, _, errors = project.manage("qless_worker", *arguments)
        assert code == 2
        assert words in errors

    def test_an_unknown_alias_is_named(self, project: Project) -> None:
        code, _, errors = project.manage("qless_worker", "--alias", "nowhere")
        assert code == os.EX_CONFIG
        assert "'nowhere'" in errors
        assert "default" in errors

    def test_without_a_server_it_says_so(self, tmp_path: Path) -> None:
        project = Project(LOCATION=f"unix://{tmp_path}/nowhere.sock")
        code, _, errors = project.manage("qless_worker")
        assert code == os.EX_UNAVAILABLE
        assert "nowhere.sock" in errors
        assert "Traceback" not in errors

    def test_a_mistake_in_the_settings_is_a_check(self) -> None:
        project = Project(LOCATION="")
        code, _, errors = project.manage("qless_worker")
        assert code == 1
        assert "LOCATION" in errors


class TestStatus:
    def test_for_people(self, project: Project, client: Client) -> None:
        project.shell(
            "from tests.worker.shop.jobs import *\n"
            "greet.delay('x'); greet.using(delay=60).delay('y'); give_up.delay()"
        )
        project.manage("qless_worker", "--burst", "-v", "0")
        client.pause("default")
        code, output, _ = project.manage("qless_status")
        assert code == 0
        assert "default (paused)" in output
        assert "bad-input" in output
        assert "no workers" in output

    def test_as_json(self, project: Project, client: Client) -> None:
        project.shell("from tests.worker.shop.jobs import *\ngreet.delay('x')")
        client.beat("w1", '{"pid": 1}', [])
        code, output, _ = project.manage("qless_status", "--json")
        assert code == 0
        status: dict[str, Any] = json.loads(output)
        (queue,) = status["queues"]
        assert (queue["name"], queue["waiting"]) == ("default", 1)
        assert queue["lag"] > 0
        assert status["failures"] == {}
        assert [worker["name"] for worker in status["workers"]] == ["w1"]

    def test_without_a_server_it_says_so(self, tmp_path: Path) -> None:
        project = Project(LOCATION=f"unix://{tmp_path}/nowhere.sock")
        code, _, errors = project.manage("qless_status")
        assert code == 1
        assert "nowhere.sock" in errors
        assert "Traceback" not in errors


class TestEmbedded:
    def test_status_and_stop(self, tmp_path: Path) -> None:
        (tmp_path / "solo_settings.py").write_text(
            "from tests.worker.settings import *\n"
            "from pathlib import Path\n"
            "BASE_DIR = Path(__file__).parent\n"
            "QLESS = {'default': {'EMBEDDED': True}}\n"
        )
        project = Project(
            DJANGO_SETTINGS_MODULE="solo_settings",
            PYTHONPATH=f"{tmp_path}:{ROOT}",
            LEDGER=str(tmp_path / "unused"),
        )
        assert "not running" in project.manage("qless_embedded", "status")[1]
        assert "was not running" in project.manage("qless_embedded", "stop")[1]
        with project.start("qless_worker", "-v", "2") as worker:
            assert worker.stderr is not None
            while "started" not in worker.stderr.readline():
                pass
            assert ".sock" in project.manage("qless_embedded", "status")[1]
            worker.send_signal(signal.SIGTERM)
            worker.communicate(timeout=30)
        assert worker.returncode == 0
        assert project.manage("qless_embedded", "stop")[0] == 0
        assert "not running" in project.manage("qless_embedded", "status")[1]

    def test_an_alias_that_is_not_embedded(self, project: Project) -> None:
        code, _, errors = project.manage("qless_embedded", "status")
        assert code == 1
        assert "not embedded" in errors
