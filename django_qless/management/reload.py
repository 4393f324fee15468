"""Restarting the worker in place when its code has changed, for development.

A separate process scans the files and sends HUP to the worker, which ends its running
jobs first. Before that it tries the new code in a fresh process: broken code changes
nothing, and the worker goes on with the old code.
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
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from django.apps import apps
from django.conf import settings
from django.utils.autoreload import iter_all_python_module_files

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
            watch_for(worker, self._untested)
        except BaseException:  # noqa: BLE001  this process must not return
            logger.exception("the watcher has ended: changes of the code are not seen")
        finally:
            os._exit(1)


def watch_for(worker: int, untested: mmap.mmap) -> NoReturn:
    """Watch the code forever; send HUP to the process when changed code works.

    The first byte of `untested` is 1 while there is code that is not known to work.
    """
    changes = CodeChanges()
    changed: set[Path] = set()
    is_tested = False
    while True:
        if found := changes.find():
            # Perhaps the first of many: an editor saves all, git writes a branch.
            changed |= found
            is_tested = False
            untested[0] = 1
        elif changed and not is_tested:
            if error := code_error():
                log_event(
                    logging.ERROR,
                    "the new code does not work, going on with the old one",
                    files=relative_names(changed),
                    why=summary_line(error),
                )
                print(error, file=sys.stderr, flush=True)
                changed.clear()
            is_tested = not error
        elif changed:
            log_event(logging.INFO, "reloading", files=relative_names(changed))
            changed.clear()
            untested[0] = 0
            os.kill(worker, signal.SIGHUP)
        time.sleep(BUSY_PAUSE if changed else IDLE_PAUSE)


class CodeChanges:
    """Changes of loaded modules, and of modules that jobs may load."""

    def __init__(self) -> None:
        self._times: dict[Path, float] = {}

    def find(self) -> set[Path]:
        """Return the files that were changed or made since the last call.

        At the first call those that were saved after, or while, their code was loaded.
        Times in the future do not count then, because they would do so forever.
        """
        times = modification_times([*iter_all_python_module_files(), *own_files()])
        if self._times:
            found = {file for file in times if times[file] != self._times.get(file)}
        else:
            since, now = loading_since(), time.time()
            found = {file for file in times if since < times[file] <= now}
        self._times |= times
        return found


def wait_for_working_code() -> None:
    """Return when the broken code of this process has changed and works.

    For a worker that restarts in place, and whose code was broken during the load.
    """
    # There is nothing to shut down gracefully.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    tried = None
    while True:
        seen = modification_times(own_files())
        if seen != tried and not code_error():
            return
        tried = seen
        # Changes of files can only be polled here.
        time.sleep(IDLE_PAUSE)


def code_error() -> str:
    """Try the worker's command in a fresh process; return why it fails, "" if not."""
    program = Program()
    command = program.command
    end = command.index("--") if "--" in command else len(command)
    try:
        done = subprocess.run(
            [*command[:end], TRIAL, *command[end:]],
            cwd=program.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=TRIAL_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it did not load in {TRIAL_TIMEOUT:g} s"
    except OSError as error:
        return f"it cannot be tried: {error}"
    if done.returncode == 0:
        return ""
    return done.stderr.strip() or f"exit code {done.returncode}"


def summary_line(error: str) -> str:
    """Return the most telling line of a traceback, or of failed checks."""
    lines = [line.strip() for line in error.splitlines()]
    said = [line for line in lines if line and not line.startswith("HINT:")]
    return said[-1] if said else "unknown"


def own_folders() -> list[Path]:
    """Return the folders of the project's apps and settings, not of installed packages."""
    installed = [Path(path) for path in sysconfig.get_paths().values()]
    settings_module: Any = sys.modules.get(settings.SETTINGS_MODULE)
    found = {Path(app.path) for app in apps.get_app_configs()}
    if getattr(settings_module, "__file__", None):
        found.add(Path(settings_module.__file__).parent)
    return sorted(
        folder.resolve()
        for folder in found
        if not any(path in folder.parents for path in installed)
    )


def own_files() -> Iterator[Path]:
    """Yield the Python files of the project."""
    for folder in own_folders():
        yield from python_files(folder)


def modification_times(files: Iterable[Path]) -> dict[Path, float]:
    """Return when these files, as far as they exist, were last changed."""
    times: dict[Path, float] = {}
    for file in files:
        with contextlib.suppress(OSError):
            if file.suffix == ".py":
                times[file] = file.stat().st_mtime
    return times


def python_files(folder: Path) -> Iterator[Path]:
    """Return the Python files of a package and of the packages in it."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        path = Path(entry.path)
        if entry.name.endswith(".py"):
            yield path
        elif entry.is_dir() and (path / "__init__.py").exists():
            yield from python_files(path)


def loading_since() -> float:
    """Return when this process began to load code, in seconds of the epoch.

    That is when logging was loaded, which comes before the project's own code.
    """
    record = logging.makeLogRecord({})
    return record.created - record.relativeCreated / 1000


def relative_names(files: Iterable[Path]) -> str:
    """Return the relative names of files, for people."""
    return ", ".join(sorted(os.path.relpath(file) for file in files))
