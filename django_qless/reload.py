"""Executing the worker anew when its code has changed, for development.

A process of its own watches the files, with Django's reloader, and sends HUP to the
worker, which ends its running jobs first. Before that it tries the new code in a fresh
process: a save that is broken changes nothing, and the worker goes on with the old code.
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
from django.utils.autoreload import (
    BaseReloader,
    StatReloader,
    WatchmanReloader,
    WatchmanUnavailable,
    get_reloader,
)

from django_qless.worker.log import event, logger
from django_qless.worker.pools.lifeline import Lifeline
from django_qless.worker.reexec import ENDS, Program
from django_qless.worker.titles import title

TRIAL = "--trial"
"""The option with which the worker's command loads and checks all, and ends."""

TRIAL_SECONDS = 60.0
"""How long that may take."""

IDLE_PAUSE, BUSY_PAUSE = 1.0, 0.2
"""Seconds between two looks at the files: as a rule, and after a change."""


class CodeWatcher:
    """The watcher's process, as the worker's parent sees it."""

    def __init__(self) -> None:
        self._board = mmap.mmap(-1, 1)
        self._lifeline = Lifeline()
        worker = os.getpid()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(ValueError, OSError, AttributeError):
                stream.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._live(worker)
        self._lifeline.forget()

    @property
    def doubts(self) -> bool:
        """Whether the code has changed and is not known to work."""
        return bool(self._board[0])

    def stop(self) -> None:
        """End the process."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self._lifeline.cut()

    def _live(self, worker: int) -> NoReturn:
        try:
            os.setpgid(0, 0)
            # It ends with the worker, also when that is killed.
            self._lifeline.tie()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            title("watching the code")
            watch_for(worker, self._board)
        except BaseException:  # noqa: BLE001  nothing may return from here
            logger.exception("the watcher has ended: changes of the code are not seen")
        finally:
            os._exit(1)


def watch() -> CodeWatcher:
    """Start to watch the code of this process, and send it HUP when that has changed."""
    return CodeWatcher()


def watch_for(worker: int, board: mmap.mmap) -> None:
    """Watch the code for this process, for ever."""
    if isinstance(get_reloader(), WatchmanReloader):
        with contextlib.suppress(WatchmanUnavailable):
            WatchmanWatch(worker, board).run_loop()
        event(logging.WARNING, "watchman is silent, looking at the files instead")
    StatWatch(worker, board).run_loop()


class Reloading(BaseReloader):
    """Tries changed code and has it executed, once no more changes come.

    The first byte of `board` is 1 while there is code that is not known to work.
    """

    def __init__(self, worker: int, board: mmap.mmap) -> None:
        super().__init__()
        self.worker = worker
        self.board = board
        self.news: set[str] = set()
        #: What has changed since the code was last known to work.
        self.changed: set[str] = set()
        self.is_tried = False
        self.began = loading_began()

    def was_saved_meanwhile(self, changed_at: float) -> bool:
        """Return whether a file of this age was saved after its code was loaded, or
        while it was. What claims to come from the future would do so for ever."""
        return self.began < changed_at <= time.time()

    def notify_file_changed(self, path: str | os.PathLike[str]) -> None:
        """Take in that a file has changed."""
        if os.fspath(path).endswith(".py"):
            self.news.add(os.fspath(path))
            self.board[0] = 1
            self.look_again_in(BUSY_PAUSE)

    def look_again_in(self, pause: float) -> None:
        """Look at the files so often, in seconds."""

    def run_loop(self) -> None:
        """Watch for ever."""
        for _ in self.tick():
            if self.news:
                # Perhaps the first of many: an editor saves all, git writes a branch.
                self.changed |= self.news
                self.news.clear()
                self.is_tried = False
            elif self.changed:
                self.go_on()

    def go_on(self) -> None:
        """Try the code; when nothing has changed meanwhile, have it executed."""
        if self.is_tried:
            event(logging.INFO, "reloading", files=shown(self.changed))
            self.forget_changes()
            self.board[0] = 0
            os.kill(self.worker, signal.SIGHUP)
        elif error := failure_of_code():
            event(
                logging.ERROR,
                "the new code does not work, going on with the old one",
                files=shown(self.changed),
                why=last_words(error),
            )
            sys.stderr.write(f"{error}\n")
            sys.stderr.flush()
            self.forget_changes()
        else:
            self.is_tried = True

    def forget_changes(self) -> None:
        """Wait for the next change."""
        self.changed.clear()
        self.is_tried = False
        self.look_again_in(IDLE_PAUSE)


class StatWatch(Reloading, StatReloader):
    """Looks at all files once a second."""

    def __init__(self, worker: int, board: mmap.mmap) -> None:
        super().__init__(worker, board)
        self.folders = own_folders()
        self.known: set[Path] = set()

    def look_again_in(self, pause: float) -> None:
        """Sleep so long between two looks."""
        # Django sleeps as long as it says; only its stubs want a whole number.
        self.SLEEP_TIME = pause  # type: ignore[assignment]

    def watched_files(self, include_globs: bool = True) -> Iterator[Path]:
        """Return the files of loaded modules, and of those that jobs may load."""
        yield from super().watched_files(include_globs)
        for folder in self.folders:
            yield from python_files(folder)

    def snapshot_files(self) -> Iterator[tuple[Path, float]]:
        """Return all files and their times; see which were saved while they were
        loaded, and which are new."""
        is_first = not self.known
        for file, changed_at in super().snapshot_files():
            if (
                self.was_saved_meanwhile(changed_at)
                if is_first
                else file not in self.known
            ):
                self.notify_file_changed(file)
            self.known.add(file)
            yield file, changed_at


class WatchmanWatch(Reloading, WatchmanReloader):
    """Is told by watchman."""

    def __init__(self, worker: int, board: mmap.mmap) -> None:
        super().__init__(worker, board)
        for folder in own_folders():
            self.watch_dir(folder, "**/*.py")

    def update_watches(self) -> None:
        """Watch the files, and see which were saved while they were loaded."""
        super().update_watches()
        for file in self.watched_files():
            with contextlib.suppress(OSError):
                if self.was_saved_meanwhile(file.stat().st_mtime):
                    self.notify_file_changed(file)

    def look_again_in(self, pause: float) -> None:
        """Wait so long for the next message."""
        self.client.setTimeout(pause)


def wait_until_it_works() -> None:
    """Return when the code, which has just been found broken, has changed and works.

    For a worker that executes anew, and whose code was broken while it was loaded.
    """
    # There is nothing to be ended in good order.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
    tried = None
    while True:
        seen = {file: file.stat().st_mtime for file in own_files() if file.exists()}
        if seen != tried and not failure_of_code():
            return
        tried = seen
        # Nothing tells of a changed file but a look at it.
        time.sleep(IDLE_PAUSE)


def failure_of_code() -> str:
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
            timeout=TRIAL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it was not loaded in {TRIAL_SECONDS:g} s"
    except OSError as error:
        return f"it cannot be tried: {error}"
    if done.returncode == 0:
        return ""
    return done.stderr.strip() or f"exit code {done.returncode}"


def last_words(error: str) -> str:
    """Return the line of a traceback, or of failed checks, that says most."""
    lines = [line.strip() for line in error.splitlines()]
    said = [line for line in lines if line and not line.startswith("HINT:")]
    return said[-1] if said else "unknown"


def own_folders() -> list[Path]:
    """Return the folders of the project: of its apps and its settings, not of what has
    been installed."""
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
    """Return the Python files of the project."""
    for folder in own_folders():
        yield from python_files(folder)


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


def loading_began() -> float:
    """Return since when this process loads code: when logging was loaded, which comes
    before the project's own. Seconds of the epoch."""
    record = logging.makeLogRecord({})
    return record.created - record.relativeCreated / 1000


def shown(files: Iterable[str]) -> str:
    """Return the names of files, for people."""
    return ", ".join(sorted(os.path.relpath(file) for file in files))
