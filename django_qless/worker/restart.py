"""Restart in place: the same process executes the current code."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterable

# By default these would end or suspend a program that has no handlers yet.
CONTROL_SIGNALS = {
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
    signal.SIGTTIN,
}
STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}

STANDARD_STREAMS = (0, 1, 2)

# Where the kernel lists the open files of a process.
OPEN_FILES = ("/proc/self/fd", "/dev/fd")


class Program:
    """The command of this process, recorded in order to execute it again."""

    def __init__(self) -> None:
        self.command = [sys.executable, *sys.orig_argv[1:]]
        self.directory = working_directory()
        self._terminals = [fd for fd in STANDARD_STREAMS if os.isatty(fd)]

    @property
    def is_restarting(self) -> bool:
        """True if this process has restarted in place, and does not work yet."""
        return signal.pthread_sigmask(signal.SIG_BLOCK, ()) >= CONTROL_SIGNALS

    @property
    def has_lost_terminal(self) -> bool:
        """True if the terminal in which it was started has been closed.

        The kernel then sends HUP as well, and means the end.
        """
        return any(not os.isatty(fd) for fd in self._terminals)

    def execute(self) -> NoReturn:
        """Execute the command again; raise OSError if that fails.

        Process id, parent, environment and standard streams stay. The folder is the one of the same name: a link to a release may lead to
        the next one by now.
        """
        with contextlib.suppress(OSError):
            os.chdir(self.directory)
        flush_output()
        keep_only_standard_streams()
        # STOP_SIGNALS as well: the worker obeys them gracefully once it has handlers.
        blocked = CONTROL_SIGNALS | STOP_SIGNALS
        before = signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        try:
            os.execv(self.command[0], self.command)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def block_signals(signals: Iterable[signal.Signals]) -> None:
    """Keep these signals pending until the worker has its handlers."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)


def working_directory() -> str:
    """Return the current folder, by the name that its user gave."""
    real = os.getcwd()
    given = os.environ.get("PWD", "")
    with contextlib.suppress(OSError):
        if os.path.isabs(given) and os.path.samefile(given, real):
            return given
    return real


def flush_output() -> None:
    """Write what the output streams and the handlers of logging hold."""
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    handlers = [each for known in loggers for each in getattr(known, "handlers", ())]
    for output in (sys.stdout, sys.stderr, *handlers):
        with contextlib.suppress(Exception):
            output.flush()


def keep_only_standard_streams() -> None:
    """Let only the standard streams pass to the next program."""
    for folder in OPEN_FILES:
        if Path(folder).is_dir():
            for name in os.listdir(folder):
                with contextlib.suppress(OSError, ValueError):
                    if int(name) not in STANDARD_STREAMS:
                        os.set_inheritable(int(name), False)
            return
