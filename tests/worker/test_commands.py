"""The management commands, in a Django project, as people run them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.test import override_settings

from django_qless.core import Put
from django_qless.management.commands.qless_worker import Command
from django_qless.worker.options import WorkerOptions
from django_qless.worker.reservers import RESERVERS
from tests.real_servers import poll
from tests.worker.processes import django

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Client
    from tests.real_servers import Server
    from tests.worker.ledger import Gate, Ledger

    Manage = Callable[..., subprocess.CompletedProcess[str]]

ROOT = Path(__file__).parents[2]


class Project:
    """A project of its own: its environment, and its manage.py."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
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
        output, errors = self.folder / "output", self.folder / "errors"
        process = django(arguments, output, self.environment, errors=errors)
        try:
            code = process.wait(300)
        finally:
            process.kill()
        return code, output.read_text(), errors.read_text()

    def shell(self, code: str) -> str:
        """Run Python code in the project."""
        status, output, errors = self.manage("shell", "-v", "0", "-c", code)
        assert status == 0, errors
        return output


@pytest.fixture
def project(server: Server, ledger: Ledger, gate: Gate, tmp_path: Path) -> Project:
    return Project(
        tmp_path,
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
        # As people start it: by a Python of its own.
        with project.start("qless_worker", "--burst", "-v", "2") as worker:
            _, errors = worker.communicate(timeout=300)
            code = worker.returncode
        # Of each of the two that fail for good, from the job's own code on.
        assert (code, errors.count("Traceback (most recent call last)")) == (0, 2)
        assert errors.count('shop/jobs.py", line') == 2
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

    def test_the_limits_of_a_call_end_its_run(
        self, project: Project, ledger: Ledger, client: Client
    ) -> None:
        soft, hard = project.shell(
            "from tests.worker.shop.jobs import *\n"
            "stay = stay.using(retries=0)\n"
            "print(stay.using(timeout=0.2).delay('soft').jid)\n"
            "print(stay.using(hard_timeout=0.3).delay('hard').jid)"
        ).split()
        assert project.manage("qless_worker", "--burst", "--concurrency", "2")[0] == 0
        assert sorted(line.split()[1] for line in ledger.all()) == ["hard", "soft"]
        for jid, words in ((soft, "JobTimeout"), (hard, "hard timeout of 0.3 s")):
            job = client.get(jid)
            assert job is not None
            assert job.failure is not None
            assert job.failure.group == "timeout"
            assert words in job.failure.message

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
            _, errors = worker.communicate(timeout=120)
        assert worker.returncode == 0
        assert "Traceback" not in errors
        job = client.get(jid)
        assert job is not None
        assert job.state == "complete"

    def test_help_shows_signals_pools_and_reservers(self, project: Project) -> None:
        code, output, _ = project.manage("qless_worker", "--help")
        assert code == 0
        for name in ("TERM", "INT", "QUIT", "TSTP", "CONT", "USR1", "HUP"):
            assert name in output
        for name in ("prefork", "fork", "threads", "coroutines"):
            assert re.search(rf"^  {name} +\w", output, re.MULTILINE)
        for name, reserver in RESERVERS.items():
            assert re.search(rf"^  {name} +{re.escape(reserver.summary)}", output, re.M)

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["--concurrency", "0"], "0 is less than 1: give a whole number from 1"),
            (["--concurrency", "many"], "--concurrency: 'many' is not a whole number"),
            (
                ["--shutdown-timeout", "-1"],
                "--shutdown-timeout: '-1' is not a duration: give",
            ),
            (
                ["--shutdown-timeout", "inf"],
                "'inf' is not a duration: give seconds, from 0",
            ),
            (
                ["--max-age", "0"],
                "--max-age: '0' is not a duration: give seconds, more than 0",
            ),
            (["--max-idle", "nan"], "--max-idle: 'nan' is not a duration"),
            (["--block-limit", "soon"], "--block-limit: 'soon' is not a duration"),
            (["--max-memory", "0"], "--max-memory: '0' is not a size: give megabytes"),
            (["--max-memory", "64MB"], "--max-memory: '64MB' is not a size"),
            (["--max-jobs", "1.5"], "--max-jobs: '1.5' is not a whole number"),
            (["--pool", "swimming"], "swimming"),
            (["--reserver", "best"], "best"),
            (["--sandbox", "/nowhere"], "there is no folder /nowhere: create it first"),
            (["--resume"], "give its --name as well"),
        ],
    )
    def test_bad_options_are_named(
        self, project: Project, arguments: list[str], words: str
    ) -> None:
        code, _, errors = project.manage("qless_worker", *arguments)
        assert code == 2
        assert words in errors

    def test_a_file_that_cannot_be_written_is_named(
        self, project: Project, tmp_path: Path
    ) -> None:
        path = str(tmp_path / "no" / "file")
        code, _, errors = project.manage("qless_worker", "--health-file", path)
        assert code == os.EX_CANTCREAT
        assert path in errors
        assert "Traceback" not in errors

    def test_an_unknown_alias_is_named(self, project: Project) -> None:
        code, _, errors = project.manage("qless_worker", "--alias", "nowhere")
        assert code == os.EX_CONFIG
        assert "'nowhere'" in errors
        assert "default" in errors

    def test_without_a_server_it_says_so(self, tmp_path: Path) -> None:
        project = Project(tmp_path, LOCATION=f"unix://{tmp_path}/nowhere.sock")
        code, _, errors = project.manage("qless_worker")
        assert code == os.EX_UNAVAILABLE
        assert "nowhere.sock" in errors
        assert "Traceback" not in errors

    def test_a_mistake_in_the_settings_is_a_check(self, tmp_path: Path) -> None:
        project = Project(tmp_path, LOCATION="")
        code, _, errors = project.manage("qless_worker")
        assert code == 1
        assert "LOCATION" in errors


class TestAsked:
    """What the command line becomes, for the worker."""

    @staticmethod
    def asked(*arguments: str, by: str = "command line") -> WorkerOptions:
        command = Command()
        command._called_from_command_line = by == "command line"
        parser = command.create_parser("manage.py", "qless_worker")
        return command.worker_options(vars(parser.parse_args(arguments)))

    def test_by_default_there_are_no_limits(self) -> None:
        asked = self.asked()
        assert asked == WorkerOptions(name=asked.name)

    def test_all_options_reach_the_worker(self, tmp_path: Path) -> None:
        asked = self.asked(
            *("b", "mail-*", "-x", "mail-2", "--alias", "other", "--name", "w1"),
            *("--pool", "prefork", "--concurrency", "3", "--reserver", "round-robin"),
            *("--max-jobs", "1000", "--max-memory", "0512"),
            *("--max-age", "3600", "--max-idle", "1.5", "--shutdown-timeout", "0"),
            *("--block-limit", "5", "--sandbox", str(tmp_path), "--resume", "--burst"),
            *("--reload", "--health-file", "h"),
        )
        assert asked == WorkerOptions(
            queues=("b", "mail-*"),
            exclude=("mail-2",),
            alias="other",
            name="w1",
            pool="prefork",
            concurrency=3,
            reserver="round-robin",
            max_jobs=1000,
            max_memory=512 * 1024 * 1024,
            max_age=3600.0,
            max_idle=1.5,
            shutdown_timeout=0.0,
            block_limit=5.0,
            sandbox=str(tmp_path),
            resume=True,
            burst=True,
            reload=True,
            health_file="h",
        )

    def test_it_reloads_by_itself_only_in_development(self) -> None:
        assert not self.asked().reload
        with override_settings(DEBUG=True):
            assert self.asked().reload
            assert not self.asked("--no-reload").reload
            assert not self.asked("--burst").reload
            assert not self.asked(by="other code").reload
        assert self.asked("--reload").reload

    def test_a_trial_loads_everything_and_asks_no_server(self, tmp_path: Path) -> None:
        project = Project(
            tmp_path, LOCATION=f"unix://{tmp_path}/nowhere.sock", LEDGER="unused"
        )
        assert project.manage("qless_worker", "--trial")[0] == 0
        assert "--trial" not in project.manage("qless_worker", "--help")[1]


class TestHealth:
    def test_of_a_worker_that_runs(
        self, project: Project, tmp_path: Path, ledger: Ledger, gate: Gate
    ) -> None:
        path = str(tmp_path / "health")

        def look(*options: str) -> tuple[int, str]:
            command = [sys.executable, "-m", "django_qless.health", path, *options]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            return done.returncode, done.stdout

        code, output = look()
        assert (code, "there is no file" in output) == (1, True)
        project.shell("from tests.worker.shop.jobs import *\nstay.delay('x')")
        # It drains for as long as a slow machine takes to look twice.
        options = ("--health-file", path, "--shutdown-timeout", "600")
        with project.start("qless_worker", *options) as worker:
            ledger.wait_until(1)
            poll(lambda: look("--ready")[0] == 0, what="it is ready")
            assert look("--ready")[1].startswith("ready: worker ")
            worker.send_signal(signal.SIGTERM)
            assert worker.stderr is not None
            while "SIGTERM" not in worker.stderr.readline():
                pass
            poll(lambda: "draining" in Path(path).read_text(), what="it says it drains")
            code, output = look("--ready")
            assert (code, "is draining" in output) == (1, True)
            assert look()[0] == 0
            gate.open()
            worker.communicate(timeout=120)
        assert worker.returncode == 0
        assert look()[0] == 1


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

    def test_retried_attempts_and_lost_locks(
        self, project: Project, client: Client
    ) -> None:
        client.put("", "mail", "a", "k", "{}")
        [job] = client.settle("w", [], 1, ["mail"]).jobs
        client.retry(job.jid, "mail", job.token)
        _, output, _ = project.manage("qless_status", "--json")
        (queue,) = json.loads(output)["queues"]
        assert queue["today"] == {
            "retried": 1,
            "retries": 0,
            "failures": 0,
            "failed": 0,
        }
        _, output, _ = project.manage("qless_status")
        head, row = output.splitlines()[:2]
        assert head.endswith("retried attempts today  locks lost today")
        assert row.split()[-2:] == ["1", "0"]

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

    def test_all_that_recurs_is_counted(self, project: Project, client: Client) -> None:
        """By interval, by cron, and what is paused; in more queues than one call takes."""
        put = [Put(f"j{number}", f"q{number}", "k", "{}") for number in range(201)]
        client.put_many("", put)
        client.schedule_set("a", "q7", "k", "[]", every=60)
        client.schedule_set("b", "q7", "k", "[]", cron="0 4 * * *")
        client.schedule_set("c", "q200", "k", "[]", cron="0 5 * * *")
        client.schedule_pause("c")
        code, output, _ = project.manage("qless_status", "--json")
        assert code == 0
        queues = json.loads(output)["queues"]
        counts = {queue["name"]: queue["recurring"] for queue in queues}
        assert len(counts) == 201
        assert {name: number for name, number in counts.items() if number} == {
            "q7": 2,
            "q200": 1,
        }


class TestWithoutAServer:
    """Of two aliases one is up; what is asked of the other one is a PROBLEM."""

    @pytest.fixture
    def halved(self, server: Server, tmp_path: Path) -> Project:
        (tmp_path / "halved_settings.py").write_text(
            "from tests.worker.settings import *\n"
            f"QLESS = {{'default': {{'LOCATION': 'unix://{tmp_path}/nowhere.sock',"
            "                        'PATIENCE': 0.1},"
            f"         'up': {{'LOCATION': {server.url!r}}}}}\n"
        )
        return Project(
            tmp_path,
            DJANGO_SETTINGS_MODULE="halved_settings",
            PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}",
        )

    def test_the_doctor_says_all_else_that_it_knows(self, halved: Project) -> None:
        code, output, errors = halved.manage("qless_doctor")
        assert (code, errors) == (1, "")
        first, last = output.splitlines()
        assert first.split()[:2] == ["fine", "settings"]
        assert last.split()[:2] == ["PROBLEM", "server"]
        assert "nowhere.sock" in last and "nothing was sent" in last
        code, output, errors = halved.manage("qless_doctor", "--clean", "--json")
        assert (code, errors) == (1, "")
        assert [each["level"] for each in json.loads(output)] == ["fine", "PROBLEM"]

    def test_the_status_is_a_problem(self, halved: Project) -> None:
        code, output, errors = halved.manage("qless_status")
        assert (code, output) == (1, "")
        assert errors.startswith("PROBLEM default: ")
        assert "nowhere.sock" in errors and "Traceback" not in errors
        code, output, errors = halved.manage("qless_status", "--json")
        assert (code, errors) == (1, "")
        assert "nowhere.sock" in json.loads(output)["problem"]

    def test_of_the_other_alias_all_can_be_asked(self, halved: Project) -> None:
        code, output, _ = halved.manage("qless_status", "--alias", "up")
        assert (code, "no queues" in output) == (0, True)
        code, output, errors = halved.manage("qless_doctor", "--alias", "up")
        assert errors == ""
        assert "nowhere.sock" not in output
        assert "fine    server" in output


class TestEmbedded:
    def test_status_and_stop(self, tmp_path: Path) -> None:
        (tmp_path / "solo_settings.py").write_text(
            "from tests.worker.settings import *\n"
            "from pathlib import Path\n"
            "BASE_DIR = Path(__file__).parent\n"
            "QLESS = {'default': {'EMBEDDED': True}}\n"
        )
        project = Project(
            tmp_path,
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
            worker.communicate(timeout=120)
        assert worker.returncode == 0
        assert project.manage("qless_embedded", "stop")[0] == 0
        assert "not running" in project.manage("qless_embedded", "status")[1]

    def test_an_alias_that_is_not_embedded(self, project: Project) -> None:
        code, _, errors = project.manage("qless_embedded", "status")
        assert code == 1
        assert "has no embedded server" in errors
