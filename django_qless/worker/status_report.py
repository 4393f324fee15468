"""Status of a worker for those around it: health file, systemd, process title.

systemd is notified as sd_notify(3) says:

    READY=1                     it works; systemctl start returns
    STATUS=…                    for people, in systemctl status
    WATCHDOG=1                  it lives; without it systemd kills and restarts it
    RELOADING=1, MONOTONIC_USEC it restarts in place, until the next READY=1
    STOPPING=1                  it is about to end

A unit has `Type=notify` (or `notify-reload`: systemctl reload sends HUP and waits for the
new code), `TimeoutStopSec` above --shutdown-timeout, and `WatchdogSec` if wanted. Process
titles, as ps and top show them, need the library setproctitle (the extra `titles`):

    qless_worker w1 [mail *] 3 running
    qless_worker w1 running shop.jobs.send_welcome 9f4d…
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import socket
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from django_qless.health import Unwell, read
from django_qless.worker.log import log_event
from django_qless.worker.server_checks import CannotStart

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from django_qless.worker.options import WorkerOptions
    from django_qless.worker.shutdown import Shutdown

NEVER = float("inf")

INTERVAL = 2.0
"""Seconds between two reports at most, if there is anyone to see them."""

WORKING = ("running", "quiet")
ENDING = ("draining", "stopping")
RELOADING = "reloading"


class ProcessTitle:
    """Sets the title of this process, if setproctitle is installed."""

    def __init__(self) -> None:
        self._set: Callable[[str], None] | None = None
        with contextlib.suppress(ImportError):
            self._set = import_module("setproctitle").setproctitle
        self._shown = ""
        self.worker = ""
        """The name of the worker that this process belongs to."""

    @property
    def is_visible(self) -> bool:
        """True if a title can be shown, so that it is worth making one."""
        return self._set is not None

    def __call__(self, text: str) -> None:
        """Show this text, unless it is shown already. Raises nothing."""
        if self._set is None or text == self._shown:
            return
        self._shown = text
        # The name of a job may contain characters that a title cannot.
        with contextlib.suppress(ValueError):
            self._set(f"qless_worker {self.worker} {text}")


title = ProcessTitle()


class Systemd:
    """The service manager that started this process, if it wants notifications."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):
            # An abstract socket has no file.
            self._address = "\0" + self._address[1:]
        self.watchdog = watchdog_interval(environment) if self._address else None
        """Seconds after which it wants the next WATCHDOG=1; None: it wants none."""

    @property
    def listens(self) -> bool:
        """True if it wants notifications."""
        return bool(self._address)

    def notify(self, *lines: str) -> None:
        """Send assignments in one message. Raises nothing, and does not wait."""
        if not self._address:
            return
        message = "\n".join(lines).encode(errors="replace")
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
        ):
            sender.sendto(message, socket.MSG_DONTWAIT, self._address)


def watchdog_interval(environment: Mapping[str, str]) -> float | None:
    """Return half of the watchdog's timeout in seconds, None without one."""
    try:
        microseconds = int(environment.get("WATCHDOG_USEC", "0"))
        pid = int(environment.get("WATCHDOG_PID", os.getpid()))
    except ValueError:
        return None
    if microseconds <= 0 or pid != os.getpid():
        return None
    return microseconds / 2_000_000


def reloading_lines() -> tuple[str, str]:
    """Return the assignments that announce a restart in place."""
    return "RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}"


def status_line(text: str) -> str:
    """Return the systemd assignment that shows this text."""
    return f"STATUS={' '.join(text.split())}"


class HealthFile:
    """Holds when the loop last turned and when the server last answered.

    Both by the monotonic clock, which is never set; `time` is for people.
    `django_qless.health` reads the file.
    """

    def __init__(self, path: str, name: str) -> None:
        self.path = Path(path)
        self.name = name
        self._is_broken = False

    def create(self) -> None:
        """Write the file for the first time; raise CannotStart if that is impossible."""
        try:
            self._write(time.monotonic(), 0.0, "starting", 0)
        except OSError as error:
            raise CannotStart(
                f"The health file {self.path} cannot be written: {error.strerror}. "
                "Name a file in a folder that exists and that is yours.",
                os.EX_CANTCREAT,
            ) from error

    def write(self, turned: float, good: float, state: str, running: int) -> None:
        """Replace the file. Raises nothing; the first of several errors is logged."""
        try:
            self._write(turned, good, state, running)
        except OSError as error:
            if not self._is_broken:
                log_event(logging.ERROR, "health file not written", why=error)
            self._is_broken = True
        else:
            self._is_broken = False

    def remove(self) -> None:
        """Remove the file if it is ours. Raises nothing."""
        with contextlib.suppress(OSError, Unwell):
            if read(str(self.path))["pid"] == os.getpid():
                self.path.unlink()

    def _write(self, turned: float, good: float, state: str, running: int) -> None:
        content = {
            "name": self.name,
            "pid": os.getpid(),
            "state": state,
            "running": running,
            "turned": turned,
            "good": good or None,
            "time": time.time(),
        }
        replace_file(self.path, json.dumps(content) + "\n")


def replace_file(path: Path, text: str) -> None:
    """Replace a file atomically, safe where others may write. Raises OSError."""
    # A name that exists already, such as a symbolic link, is an error and never followed.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    new = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(new, flags, 0o666)
    try:
        with open(descriptor, "w") as file:
            file.write(text)
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise


class StatusReport:
    """Shows the worker's state after each turn of its loop.

    A state is "running", "quiet", "draining" or "stopping"; a drain before a restart in
    place is shown as "reloading".
    """

    def __init__(self, options: WorkerOptions, shutdown: Shutdown) -> None:
        self.shutdown = shutdown
        self.due = NEVER
        """When the next report is due, whatever happens (monotonic)."""
        self._systemd = Systemd()
        self._file: HealthFile | None = None
        if options.health_file is not None:
            self._file = HealthFile(options.health_file, options.name)
        is_seen = self._file or self._systemd.listens or title.is_visible
        longest = INTERVAL if is_seen else NEVER
        self._interval = min(longest, self._systemd.watchdog or NEVER)
        self._queues = " ".join(options.queues)
        # What was reported last, and whether READY=1 has been sent.
        self._state = "starting"
        self._is_ready = False

    def begin(self) -> None:
        """Report the start, before the server is asked for anything.

        Raises CannotStart if the health file cannot be written.
        """
        if self._file:
            self._file.create()
        self._systemd.notify("WATCHDOG=1")
        self.due = time.monotonic() + self._interval

    def update(
        self, now: float, *, answers: Sequence[float], state: str, running: int
    ) -> None:
        """Report a turn of the loop, at the monotonic time `now`, if it is time.

        `answers` says when the server of each alias last answered without error (0.0:
        never yet), `running` is the number of running jobs. A new state is reported at
        once. Raises nothing.
        """
        if state in ENDING and self.shutdown.reexec:
            state = RELOADING
        # One server that is away must not keep systemd waiting for the start.
        becomes_ready = any(answers) and not self._is_ready and state in WORKING
        if state == self._state and not becomes_ready and now < self.due:
            return
        lines = ["WATCHDOG=1", status_line(f"{state}, {running} running")]
        if becomes_ready:
            lines.append("READY=1")
        if state != self._state and state == RELOADING:
            lines += reloading_lines()
        elif state != self._state and state in ENDING:
            lines.append("STOPPING=1")
        self._systemd.notify(*lines)
        if self._file:
            self._file.write(now, min(answers), state, running)
        prefix = "" if state == "running" else f"{state}, "
        title(f"[{self._queues}] {prefix}{running} running")
        self._is_ready = (self._is_ready or becomes_ready) and state != RELOADING
        self._state = state
        self.due = now + self._interval

    def reloading(self) -> None:
        """Report that this process restarts in place."""
        self.update(time.monotonic(), answers=[0.0], state=RELOADING, running=0)

    def close(self) -> None:
        """Report that the worker ends."""
        self._systemd.notify("STOPPING=1")
        if self._file:
            self._file.remove()
