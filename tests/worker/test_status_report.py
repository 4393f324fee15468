"""What systemd, a health file and the list of processes tell of a worker."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from django_qless.worker.options import WorkerOptions
from django_qless.worker.server_checks import CannotStart
from django_qless.worker.shutdown import Shutdown
from django_qless.worker.status_report import (
    ProcessTitle,
    StatusReport,
    Systemd,
    title,
    watchdog_interval,
)
from tests.real_servers import short_folder


class Manager:
    """As much of systemd as a service notices."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address.replace("@", "\0", 1))
        self._socket.setblocking(False)

    def heard(self) -> list[list[str]]:
        """Return the messages since the last call, as lists of lines."""
        messages = []
        while True:
            try:
                messages.append(self._socket.recv(4096).decode().split("\n"))
            except BlockingIOError:
                return messages

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(autouse=True)
def untitled(monkeypatch):
    """Leave alone the title of the process that runs the tests."""
    monkeypatch.setattr(title, "_set", None)


@pytest.fixture
def manager(monkeypatch):
    """A manager that wants to be notified, and a sign of life every 3 seconds."""
    folder = short_folder()
    address = str(folder / "notify")
    manager = Manager(address)
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    monkeypatch.setenv("WATCHDOG_USEC", "3000000")
    yield manager
    manager.close()
    (folder / "notify").unlink()
    folder.rmdir()


@pytest.fixture
def report(manager):
    report = StatusReport(WorkerOptions(name="w1"), Shutdown(30))
    report.begin()
    manager.heard()
    return report


def turn(report, now, state="running", *, good=1.0, running=0):
    report.update(now, good=good, state=state, running=running)


class TestSystemd:
    @pytest.mark.parametrize("kind", ["path", "abstract"])
    def test_it_hears_what_it_is_told(self, kind):
        folder = short_folder()
        path = folder / "notify"
        address = str(path) if kind == "path" else f"@django-qless-{os.getpid()}"
        manager = Manager(address)
        Systemd({"NOTIFY_SOCKET": address}).notify("READY=1", "STATUS=ä")
        assert manager.heard() == [["READY=1", "STATUS=ä"]]
        manager.close()
        path.unlink(missing_ok=True)
        folder.rmdir()

    @pytest.mark.parametrize(
        "address", ["", "/nowhere/at/all", "@nobody-there", "x" * 200]
    )
    def test_nobody_who_listens_is_no_harm(self, address):
        Systemd({"NOTIFY_SOCKET": address}).notify("READY=1")

    def test_one_that_does_not_read_is_not_waited_for(self, manager):
        systemd = Systemd()
        for _ in range(10_000):
            systemd.notify("WATCHDOG=1")
        assert 0 < len(manager.heard()) < 10_000

    @pytest.mark.parametrize(
        ("environment", "seconds"),
        [
            ({"WATCHDOG_USEC": "10000000"}, 5.0),
            ({"WATCHDOG_USEC": "10000000", "WATCHDOG_PID": str(os.getpid())}, 5.0),
            ({"WATCHDOG_USEC": "10000000", "WATCHDOG_PID": "1"}, None),
            ({"WATCHDOG_USEC": "soon"}, None),
            ({"WATCHDOG_USEC": "0"}, None),
            ({"WATCHDOG_USEC": "-10000000"}, None),
            ({}, None),
        ],
    )
    def test_the_watchdog_may_be_meant_for_another(self, environment, seconds):
        assert watchdog_interval(environment) == seconds


class TestStatusReport:
    def test_without_anybody_who_looks_nothing_is_due(self, monkeypatch):
        monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
        # That is for another program, which has the socket.
        monkeypatch.setenv("WATCHDOG_USEC", "3000000")
        report = StatusReport(WorkerOptions(), Shutdown(30))
        report.begin()
        turn(report, 100.0)
        assert report.due == math.inf

    def test_a_title_follows_the_number_of_jobs(self, monkeypatch):
        monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
        shown = []
        monkeypatch.setattr(title, "_set", shown.append)
        monkeypatch.setattr(title, "worker", "w1")
        report = StatusReport(WorkerOptions(queues=("a", "b*")), Shutdown(30))
        report.begin()
        turn(report, 100.0)
        assert report.due == 102.0
        turn(report, 102.0, running=3)
        turn(report, 102.1, "quiet", running=3)
        assert shown == [
            "qless_worker w1 [a b*] 0 running",
            "qless_worker w1 [a b*] 3 running",
            "qless_worker w1 [a b*] quiet, 3 running",
        ]

    def test_it_is_ready_with_the_first_good_call(self, report, manager):
        turn(report, 100.0, good=0.0)
        assert not any("READY=1" in lines for lines in manager.heard())
        turn(report, 100.1, good=100.1)
        (lines,) = manager.heard()
        assert {"READY=1", "WATCHDOG=1", "STATUS=running, 0 running"} <= set(lines)
        turn(report, 101.7)
        assert not any("READY=1" in lines for lines in manager.heard())

    def test_who_ends_before_the_server_has_answered_is_never_ready(
        self, report, manager
    ):
        turn(report, 100.0, good=0.0)
        turn(report, 100.1, "draining", good=100.1)
        turn(report, 100.2, "stopping", good=100.1)
        report.close()
        lines = [line for message in manager.heard() for line in message]
        assert "READY=1" not in lines
        assert lines[-1] == "STOPPING=1"

    def test_who_is_quiet_is_ready(self, report, manager):
        turn(report, 100.0, "quiet")
        assert "READY=1" in manager.heard()[0]

    def test_a_restart_in_place_is_told_at_once(self, report, manager):
        turn(report, 100.0, running=2)
        manager.heard()
        report.reloading()
        (lines,) = manager.heard()
        assert {"RELOADING=1", "STATUS=reloading, 0 running"} <= set(lines)

    def test_the_watchdog_is_fed_in_half_of_its_time(self, report, manager):
        turn(report, 100.0)
        manager.heard()
        assert report.due == 101.5
        turn(report, 101.4)
        assert manager.heard() == []
        turn(report, 101.5)
        assert "WATCHDOG=1" in manager.heard()[0]

    def test_the_number_of_jobs_is_told_once_a_second_at_most(self, report, manager):
        turn(report, 100.0)
        manager.heard()
        for n in range(10):
            turn(report, 100.1, running=n)
        assert manager.heard() == []
        assert report.due == 101.0
        turn(report, 101.0, running=9)
        assert "STATUS=running, 9 running" in manager.heard()[0]

    def test_a_drain_is_told_at_once(self, report, manager):
        turn(report, 100.0)
        manager.heard()
        turn(report, 100.1, "draining", running=2)
        turn(report, 100.2, "draining", running=2)
        (lines,) = manager.heard()
        assert {"STOPPING=1", "STATUS=draining, 2 running"} <= set(lines)

    def test_a_drain_before_a_new_execution_is_a_reload(self, report, manager):
        turn(report, 100.0)
        manager.heard()
        report.shutdown.reload()
        before = time.monotonic_ns() // 1000
        turn(report, 100.1, "draining", running=2)
        turn(report, 100.2, "stopping", running=2)
        (lines,) = manager.heard()
        assert "RELOADING=1" in lines
        assert "STOPPING=1" not in lines
        told = next(line for line in lines if line.startswith("MONOTONIC_USEC="))
        assert before <= int(told.partition("=")[2]) <= time.monotonic_ns() // 1000

    def test_a_reload_that_does_not_come_about_ends(self, report, manager):
        turn(report, 100.0)
        report.shutdown.reload()
        turn(report, 100.1, "draining")
        manager.heard()
        report.shutdown = Shutdown(30)
        turn(report, 100.2)
        assert "READY=1" in manager.heard()[0]

    def test_an_end_after_a_reload_is_an_end(self, report, manager):
        turn(report, 100.0)
        report.shutdown.reload()
        turn(report, 100.1, "draining")
        report.shutdown.request_stop()
        manager.heard()
        turn(report, 100.2, "draining")
        assert "STOPPING=1" in manager.heard()[0]


class TestHealthFile:
    @pytest.fixture
    def path(self, tmp_path: Path, monkeypatch) -> Path:
        monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
        return tmp_path / "health"

    @pytest.fixture
    def report(self, path):
        options = WorkerOptions(name="w1", health_file=str(path))
        report = StatusReport(options, Shutdown(30))
        report.begin()
        return report

    def test_it_says_how_the_worker_is(self, report, path):
        told = json.loads(path.read_text())
        assert (told["state"], told["good"]) == ("starting", None)
        turn(report, 100.0, good=99.5, running=3)
        told = json.loads(path.read_text())
        assert (told["name"], told["pid"], told["state"], told["running"]) == (
            *("w1", os.getpid(), "running", 3),
        )
        assert (told["turned"], told["good"]) == (100.0, 99.5)
        assert abs(told["time"] - time.time()) < 3600

    def test_it_is_written_every_two_seconds(self, report, path):
        turn(report, 100.0)
        assert report.due == 102.0
        turn(report, 101.9)
        assert json.loads(path.read_text())["turned"] == 100.0
        turn(report, 102.0)
        assert json.loads(path.read_text())["turned"] == 102.0

    def test_it_goes_with_the_worker_and_leaves_nothing(self, report, path):
        turn(report, 100.0)
        report.close()
        assert list(path.parent.iterdir()) == []

    def test_that_of_another_worker_stays(self, report, path):
        path.write_text(path.read_text().replace(str(os.getpid()), "1"))
        report.close()
        assert path.exists()

    def test_a_place_where_it_cannot_be_is_named_at_the_start(self, tmp_path):
        path = tmp_path / "no" / "health"
        report = StatusReport(WorkerOptions(health_file=str(path)), Shutdown(30))
        with pytest.raises(
            CannotStart, match=r"no/health.*folder that exists"
        ) as error:
            report.begin()
        assert error.value.code == os.EX_CANTCREAT

    def test_a_folder_that_goes_away_does_not_disturb(self, report, path):
        path.unlink()
        path.parent.rename(path.parent.with_name("moved"))
        turn(report, 100.0)
        path.parent.with_name("moved").rename(path.parent)
        turn(report, 105.0)
        assert json.loads(path.read_text())["turned"] == 105.0


class TestTitle:
    def test_it_is_shown_in_the_list_of_processes(self):
        code = (
            "from django_qless.worker.status_report import title\n"
            "title.worker = 'w1'\n"
            "title('running shop.greet ä')\n"
            "title('a\\0b')\n"
            "print(open('/proc/self/cmdline').read().strip('\\0'))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "qless_worker w1 running shop.greet ä"

    def test_without_the_library_nothing_happens(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "setproctitle", None)
        title = ProcessTitle()
        assert not title.is_visible
        title("running")
