"""Executing anew in place: the same process, with the code as it is now."""

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

# What these do to a program that has not yet said otherwise: they end or suspend it.
ORDERS = {
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
    signal.SIGTTIN,
}
ENDS = {signal.SIGTERM, signal.SIGINT}

# Standard input, output, and errors.
STREAMS = (0, 1, 2)

# Where the kernel lists what a process has open.
OPEN_FILES = ("/proc/self/fd", "/dev/fd")


class Program:
    """How this process was started, noted down in order to start it again."""

    def __init__(self) -> None:
        self.command = [sys.executable, *sys.orig_argv[1:]]
        self.directory = working_directory()
        self._terminals = [fd for fd in STREAMS if os.isatty(fd)]

    @property
    def is_second(self) -> bool:
        """Whether this process has executed anew, and is not yet at work."""
        return signal.pthread_sigmask(signal.SIG_BLOCK, ()) >= ORDERS

    @property
    def has_lost_terminal(self) -> bool:
        """Whether the terminal in which it was started has been closed.

        The kernel then sends HUP as well, and means the end.
        """
        return any(not os.isatty(fd) for fd in self._terminals)

    def execute(self) -> NoReturn:
        """Become this program anew; raise OSError if it cannot be executed.

        Process id, parent, environment and standard streams stay. The folder is the one
        of the same name: a link to a release may lead to the next one by now.
        """
        with contextlib.suppress(OSError):
            os.chdir(self.directory)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(ValueError, OSError, AttributeError):
                stream.flush()
        flush_logs()
        keep_open_only_streams()
        # Also those that end it: they are obeyed in good order, as soon as it listens.
        before = signal.pthread_sigmask(signal.SIG_SETMASK, ORDERS | ENDS)
        try:
            os.execv(self.command[0], self.command)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def hold_back(signals: Iterable[signal.Signals]) -> None:
    """Keep these signals waiting until the worker listens to them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)


def working_directory() -> str:
    """Return the folder in which this process works, by the name that its user gave."""
    real = os.getcwd()
    told = os.environ.get("PWD", "")
    with contextlib.suppress(OSError):
        if os.path.isabs(told) and os.path.samefile(told, real):
            return told
    return real


def flush_logs() -> None:
    """Let all handlers of logging write what they hold."""
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    for logger in loggers:
        for handler in getattr(logger, "handlers", ()):
            with contextlib.suppress(Exception):
                handler.flush()


def keep_open_only_streams() -> None:
    """Let nothing but the standard streams pass to the next program."""
    for folder in OPEN_FILES:
        if Path(folder).is_dir():
            for name in os.listdir(folder):
                with contextlib.suppress(OSError, ValueError):
                    if int(name) not in STREAMS:
                        os.set_inheritable(int(name), False)
            return
