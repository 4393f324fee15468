"""Restarting the worker in place when its code has changed, for development.

The files are polled once a second. Changed code is first tried in a fresh process: broken
code changes nothing, and the worker goes on with the old code. If it loads, the worker lets
its running jobs end and restarts in place, as after a HUP.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.utils.autoreload import BaseReloader

from django_qless.worker.log import log_event
from django_qless.worker.restart import STOP_SIGNALS, Program

TRIAL = "--trial"
"""The option that makes the worker's command load and check the code, and end."""

TRIAL_TIMEOUT = 60.0
"""Seconds that this may take."""

IDLE_PAUSE, BUSY_PAUSE = 1.0, 0.2
"""Seconds between two scans of the files: as a rule, and after a change."""

MOST_NAMED = 5
"""Changed files that the log names; an installed package may bring hundreds."""


class CodeChanges(BaseReloader):
    """Changes of loaded modules, and of the project's modules that jobs may load."""

    def __init__(self) -> None:
        super().__init__()
        installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        for app in apps.get_app_configs():
            if not any(Path(app.path).is_relative_to(path) for path in installed):
                self.watch_dir(app.path, "**/*.py")
        module = sys.modules.get(settings.SETTINGS_MODULE)
        if module and module.__file__:
            self.watch_dir(Path(module.__file__).parent, "*.py")
        # Files saved while their code was being loaded are changes; times in the future
        # are not, because they would be forever.
        times = self._times_by_file()
        since, now = loading_since(), time.time()
        self._times = {file: at for file, at in times.items() if not since < at <= now}

    def find(self) -> set[Path]:
        """Return the files that were changed or made since the last call."""
        times = self._times_by_file()
        changed = {file for file in times if times[file] != self._times.get(file)}
        self._times |= times
        return changed

    def _times_by_file(self) -> dict[Path, float]:
        times: dict[Path, float] = {}
        for file in self.watched_files():
            with contextlib.suppress(OSError):
                if file.suffix == ".py":
                    times[file] = file.stat().st_mtime
        return times


def names_of(files: set[Path]) -> str:
    """Return the names of changed files, as the log has them."""
    names = sorted(map(os.path.relpath, files))
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


class CodeWatch:
    """Watches the code, and tries it in a fresh process when it has changed."""

    def __init__(self) -> None:
        #: True if the code has changed and is not known to work.
        self.is_untested = False
        #: True if the code has changed and works; the reader sets it back.
        self.has_news = False
        #: The process of the present trial, 0 if there is none.
        self.trial_pid = 0
        #: Watches for ever; yields the seconds to pause before the next step.
        self.steps = self._steps()

    def _steps(self) -> Iterator[float]:
        changes = CodeChanges()
        changed: set[Path] = set()
        while True:
            while found := changes.find():
                # Perhaps the first of many: an editor saves all, git writes a branch.
                changed |= found
                self.is_untested = True
                yield BUSY_PAUSE
            if changed:
                error = yield from self.trial_error()
                if found := changes.find():
                    changed |= found
                    continue
                files = names_of(changed)
                if error:
                    log_event(
                        logging.ERROR,
                        "new code failed to load; keeping the running version",
                        files=files,
                        why=summary_line(error),
                    )
                    print(error, file=sys.stderr, flush=True)
                else:
                    log_event(logging.INFO, "reloading", files=files)
                    self.is_untested, self.has_news = False, True
                changed = set()
            yield IDLE_PAUSE

    def trial_error(self) -> Generator[float, None, str]:
        """Try the worker's command in a fresh process; return why it fails, "" if not.

        Yields the seconds to pause before it goes on.
        """
        program = Program()
        command = program.command
        end = command.index("--") if "--" in command else len(command)
        deadline = time.monotonic() + TRIAL_TIMEOUT
        with tempfile.TemporaryFile() as output:
            try:
                trial = subprocess.Popen(
                    [*command[:end], TRIAL, *command[end:]],
                    cwd=program.directory,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=output,
                )
            except OSError as error:
                return f"it cannot be tried: {error}"
            self.trial_pid = trial.pid
            while trial.poll() is None:
                if time.monotonic() > deadline:
                    trial.kill()
                    trial.wait()
                    return f"it did not load in {TRIAL_TIMEOUT:g} s"
                yield BUSY_PAUSE
            self.trial_pid = 0
            if trial.returncode == 0:
                return ""
            output.seek(0)
            text = output.read().decode(errors="replace").strip()
        return text or f"exit code {trial.returncode}"


def wait_for_working_code() -> None:
    """Return when the broken code of this process has changed and works.

    For a worker that restarts in place, and whose code was broken during the load.
    """
    # There is nothing to shut down gracefully.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    watch = CodeWatch()
    while not watch.has_news:
        time.sleep(next(watch.steps))


def summary_line(error: str) -> str:
    """Return the most telling line of a traceback, or of failed checks."""
    lines = [line.strip() for line in error.splitlines()]
    telling = [line for line in lines if line and not line.startswith("HINT:")]
    return telling[-1] if telling else "unknown"


def loading_since() -> float:
    """Return when this process began to load code, in seconds of the epoch.

    That is when logging was loaded, which comes before the project's own code.
    """
    record = logging.makeLogRecord({})
    return record.created - record.relativeCreated / 1000
