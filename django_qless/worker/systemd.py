"""What systemd is told of the worker, if it has asked: sd_notify(3), without a library.

    READY=1                     it works; systemctl start returns
    STATUS=…                    for people, in systemctl status
    WATCHDOG=1                  it lives; without it systemd kills and restarts it
    RELOADING=1, MONOTONIC_USEC it executes anew, until the next READY=1
    STOPPING=1                  it is about to end

A unit for it has `Type=notify` (or `notify-reload`: systemctl reload sends HUP and waits
for the new code), `TimeoutStopSec` above --shutdown-timeout, and `WatchdogSec` if wanted.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Systemd:
    """The manager that started this process, if it wants to be notified."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):
            # An abstract socket has no file.
            self._address = "\0" + self._address[1:]
        self.watchdog = watchdog(environment) if self._address else None
        """Seconds after which it wants the next sign of life; None: it wants none."""

    @property
    def listens(self) -> bool:
        """Whether it has asked."""
        return bool(self._address)

    def tell(self, *lines: str) -> None:
        """Send assignments in one message. Raises nothing, and does not wait."""
        if not self._address:
            return
        message = "\n".join(lines).encode(errors="replace")
        with contextlib.suppress(OSError), unix_socket() as sender:
            sender.sendto(message, socket.MSG_DONTWAIT, self._address)


def reloading() -> tuple[str, str]:
    """Return the lines that say that the process begins to execute anew just now."""
    return "RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}"


def status(text: str) -> str:
    """Return the line that shows this text to people."""
    return f"STATUS={' '.join(text.split())}"


def watchdog(environment: Mapping[str, str]) -> float | None:
    """Return half of the time that the watchdog allows, in seconds, if it is meant."""
    try:
        microseconds = int(environment.get("WATCHDOG_USEC", "0"))
        meant = int(environment.get("WATCHDOG_PID", os.getpid()))
    except ValueError:
        return None
    if microseconds <= 0 or meant != os.getpid():
        return None
    return microseconds / 2_000_000


def unix_socket() -> socket.socket:
    """Return a new socket for messages."""
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
