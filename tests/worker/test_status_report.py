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

    def received(self) -> list[list[str]]:
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
    manager.received()
    return report


def turn(report, now, state="running", *, good=1.0, running=0):
    report.update(now, answers=[good], state=state, running=running)


class TestSystemd:
    @pytest.mark.parametrize("kind", ["path", "abstract"])
    def test_it_receives_notifications(self, kind):
        folder = short_folder()
        path = folder / "notify"
        address = str(path) if kind == "path" else f"@django-qless-{os.getpid()}"
        manager = Manager(address)
        Systemd({"NOTIFY_SOCKET": address}).notify("READY=1", "STATUS=ä")
        assert manager.received() == [["READY=1", "STATUS=ä"]]
        manager.close()
        path.unlink(missing_ok=True)
        folder.rmdir()

    @pytest.mark.parametrize(
        "address", ["", "/nowhere/at/all", "@nobody-there", "x" * 200]
    )
    def test_a_missing_socket_is_ignored(self, address):
        Systemd({"NOTIFY_SOCKET": address}).notify("READY=1")

    def test_a_full_socket_is_not_waited_for(self, manager):
        systemd = Systemd()
        for _ in range(10_000):
            systemd.notify("WATCHDOG=1")
        assert 0 < len(manager.received()) < 10_000

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
    def test_the_watchdog_of_another_process_is_ignored(self, environment, seconds):
        assert watchdog_interval(environment) == seconds


class TestStatusReport:
    def test_without_readers_nothing_is_due(self, monkeypatch):
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
        assert not any("READY=1" in lines for lines in manager.received())
        turn(report, 100.1, good=100.1)
        (lines,) = manager.received()
        assert {"READY=1", "WATCHDOG=1", "STATUS=running, 0 running"} <= set(lines)
        turn(report, 101.7)
        assert not any("READY=1" in lines for lines in manager.received())

    def test_a_worker_that_ends_first_is_never_ready(self, report, manager):
        turn(report, 100.0, good=0.0)
        turn(report, 100.1, "draining", good=100.1)
        turn(report, 100.2, "stopping", good=100.1)
        report.close()
        lines = [line for message in manager.received() for line in message]
        assert "READY=1" not in lines
        assert lines[-1] == "STOPPING=1"

    def test_a_quiet_worker_is_ready(self, report, manager):
        turn(report, 100.0, "quiet")
        assert "READY=1" in manager.received()[0]

    def test_a_restart_in_place_is_reported_at_once(self, report, manager):
        turn(report, 100.0, running=2)
        manager.received()
        report.reloading()
        (lines,) = manager.received()
        assert {"RELOADING=1", "STATUS=reloading, 0 running"} <= set(lines)

    def test_the_watchdog_is_notified_at_half_its_timeout(self, report, manager):
        turn(report, 100.0)
        manager.received()
        assert report.due == 101.5
        turn(report, 101.4)
        assert manager.received() == []
        turn(report, 101.5)
        assert "WATCHDOG=1" in manager.received()[0]

    def test_a_drain_is_reported_at_once(self, report, manager):
        turn(report, 100.0)
        manager.received()
        turn(report, 100.1, "draining", running=2)
        turn(report, 100.2, "draining", running=2)
        (lines,) = manager.received()
        assert {"STOPPING=1", "STATUS=draining, 2 running"} <= set(lines)

    def test_a_drain_before_a_new_execution_is_a_reload(self, report, manager):
        turn(report, 100.0)
        manager.received()
        report.shutdown.reload()
        before = time.monotonic_ns() // 1000
        turn(report, 100.1, "draining", running=2)
        turn(report, 100.2, "stopping", running=2)
        (lines,) = manager.received()
        assert "RELOADING=1" in lines
        assert "STOPPING=1" not in lines
        content = next(line for line in lines if line.startswith("MONOTONIC_USEC="))
        assert before <= int(content.partition("=")[2]) <= time.monotonic_ns() // 1000

    def test_an_abandoned_reload_is_ready_again(self, report, manager):
        turn(report, 100.0)
        report.shutdown.reload()
        turn(report, 100.1, "draining")
        manager.received()
        report.shutdown = Shutdown(30)
        turn(report, 100.2)
        assert "READY=1" in manager.received()[0]

    def test_an_end_after_a_reload_is_an_end(self, report, manager):
        turn(report, 100.0)
        report.shutdown.reload()
        turn(report, 100.1, "draining")
        report.shutdown.request_stop()
        manager.received()
        turn(report, 100.2, "draining")
        assert "STOPPING=1" in manager.received()[0]


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

    def test_it_has_the_state_of_the_worker(self, report, path):
        content = json.loads(path.read_text())
        assert (content["state"], content["good"]) == ("starting", None)
        turn(report, 100.0, good=99.5, running=3)
        content = json.loads(path.read_text())
        assert (
            content["name"],
            content["pid"],
            content["state"],
            content["running"],
        ) == (*("w1", os.getpid(), "running", 3),)
        assert (content["turned"], content["good"]) == (100.0, 99.5)
        assert abs(content["time"] - time.time()) < 3600

    def test_it_is_written_every_two_seconds(self, report, path):
        turn(report, 100.0)
        assert report.due == 102.0
        turn(report, 101.9)
        assert json.loads(path.read_text())["turned"] == 100.0
        turn(report, 102.0)
        assert json.loads(path.read_text())["turned"] == 102.0

    def test_it_is_removed_at_the_end(self, report, path):
        turn(report, 100.0)
        report.close()
        assert list(path.parent.iterdir()) == []

    def test_that_of_another_worker_stays(self, report, path):
        path.write_text(path.read_text().replace(str(os.getpid()), "1"))
        report.close()
        assert path.exists()

    def test_a_folder_that_does_not_exist_is_named_at_the_start(self, tmp_path):
        path = tmp_path / "no" / "health"
        report = StatusReport(WorkerOptions(health_file=str(path)), Shutdown(30))
        with pytest.raises(
            CannotStart, match=r"no/health.*folder that exists"
        ) as error:
            report.begin()
        assert error.value.code == os.EX_CANTCREAT

    def test_the_first_error_of_several_is_logged(self, report, path, caplog):
        for times in (1, 2):
            path.parent.rename(path.parent.with_name("moved"))
            turn(report, 100.0 * times)
            turn(report, 100.0 * times + 5)
            assert caplog.text.count("health file not written") == times
            path.parent.with_name("moved").rename(path.parent)
            turn(report, 100.0 * times + 10)
        assert json.loads(path.read_text())["turned"] == 210.0

    def test_links_that_others_have_made_are_not_followed(
        self, report, path, tmp_path, monkeypatch
    ):
        victim = tmp_path / "victim"
        victim.write_text("precious")
        path.unlink()
        path.symlink_to(victim)
        turn(report, 100.0)
        assert not path.is_symlink()
        monkeypatch.setattr("secrets.token_hex", lambda size: "guessed")
        (tmp_path / "health.guessed").symlink_to(victim)
        turn(report, 105.0)
        assert victim.read_text() == "precious"


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
