"""Restarting the worker in place when its code has changed, for development.

The files are polled once a second. Changed code is first tried in a fresh process: broken
code changes nothing, and the worker goes on with the old code. Code that loads makes the
worker restart in place (HUP), which ends its running jobs first.
"""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import NoReturn

from django.apps import apps
from django.conf import settings
from django.utils.autoreload import BaseReloader

from django_qless.worker.log import log_event, logger
from django_qless.worker.parent_death import ParentDeathPipe
from django_qless.worker.restart import STOP_SIGNALS, Program, flush_output
from django_qless.worker.status_report import title

TRIAL = "--trial"
"""The option that makes the worker's command load and check the code, and end."""

TRIAL_TIMEOUT = 60.0
"""Seconds that this may take."""

IDLE_PAUSE, BUSY_PAUSE = 1.0, 0.2
"""Seconds between two scans of the files: as a rule, and after a change."""


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


class CodeWatch:
    """Calls `reload` whenever changed code works."""

    def __init__(self, reload: Callable[[], object]) -> None:
        self._reload = reload
        #: Whether the code has changed and is not known to work.
        self.is_untested = False

    def steps(self) -> Iterator[float]:
        """Watch forever; yield the seconds to pause before the next step."""
        changes = CodeChanges()
        changed: set[Path] = set()
        while True:
            while found := changes.find():
                # Perhaps the first of many: an editor saves all, git writes a branch.
                changed |= found
                self.is_untested = True
                yield BUSY_PAUSE
            if changed:
                error = yield from trial_error()
                if found := changes.find():
                    changed |= found
                    continue
                files = ", ".join(sorted(map(os.path.relpath, changed)))
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
                    self.is_untested = False
                    # The flag is seen before the signal.
                    yield 0.0
                    self._reload()
                changed = set()
            yield IDLE_PAUSE


class CodeWatcher:
    """A process that watches the code, and sends HUP to its parent."""

    def __init__(self) -> None:
        self._untested = mmap.mmap(-1, 1)
        self._parent_pipe = ParentDeathPipe()
        worker = os.getpid()
        flush_output()
        self.pid = os.fork()
        if self.pid == 0:
            self._run(worker)
        self._parent_pipe.close_child_end()

    @property
    def is_code_untested(self) -> bool:
        """True if the code has changed and is not known to work."""
        return bool(self._untested[0])

    def stop(self) -> None:
        """End the process."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self._parent_pipe.close_parent_end()

    def _run(self, worker: int) -> NoReturn:
        try:
            os.setpgid(0, 0)
            # It ends with the worker, also if that is killed.
            self._parent_pipe.die_with_parent()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            title("watching the code")
            watch = CodeWatch(lambda: os.kill(worker, signal.SIGHUP))
            for pause in watch.steps():
                self._untested[0] = watch.is_untested
                time.sleep(pause)
        except BaseException:  # noqa: BLE001  this process must not return
            logger.exception("the watcher has ended: changes of the code are not seen")
        finally:
            os._exit(1)


def wait_for_working_code() -> None:
    """Return when the broken code of this process has changed and works.

    For a worker that restarts in place, and whose code was broken during the load.
    """
    # There is nothing to shut down gracefully.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    works: list[bool] = []
    watch = CodeWatch(lambda: works.append(True))
    for pause in watch.steps():
        if works:
            return
        time.sleep(pause)


def trial_error() -> Generator[float, None, str]:
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
        while trial.poll() is None:
            if time.monotonic() > deadline:
                trial.kill()
                trial.wait()
                return f"it did not load in {TRIAL_TIMEOUT:g} s"
            yield BUSY_PAUSE
        if trial.returncode == 0:
            return ""
        output.seek(0)
        text = output.read().decode(errors="replace").strip()
    return text or f"exit code {trial.returncode}"


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
