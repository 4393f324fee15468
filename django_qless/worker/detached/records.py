"""The records of detached runs on disk, a folder for each run.

    <base>/               0700, and refused if another user made it
        start.lock        locked while runs are counted and one is added
        <run>/            one run of a job
            order.json    the job as it was reserved, and what its process needs
            parent.json   which processes run it; written by the run's parent
            renewed.json  until when the job's lock holds for certain (boottime)
            output        the end of what the job has written
            outcome.json  how the run has ended
            alive.lock    locked by the run's parent as long as that lives
            watch.lock    locked by the worker that watches the run
            parent.log    what the run's parent had to say

Files are replaced whole, so readers see the old or the new content; what must outlive a
power cut is synced. The kernel releases the locks however their holders end: so neither an
id that is used again nor a restart of the machine is taken for a run.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from django_qless.worker.detached.directory import make_private
from django_qless.worker.process_info import boot_id, start_time

OUTPUT_BYTES = 16 * 1024
"""Bytes that are kept of the end of a run's output."""

# Bytes set aside for the outcome, so that a disk that has become full cannot lose it.
RESERVED_BYTES = 160 * 1024

# No file was changed so few seconds after 1970, and no machine runs for so long.
NO_DATE = 1e9

# What a folder that is not complete yet, or not any more, begins with.
HIDDEN = "."


class Run:
    """The folder of one run. Files that cannot be read count as missing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __repr__(self) -> str:
        return f"<Run {self.folder.name}>"

    @property
    def exists(self) -> bool:
        """True as long as its end has not been settled."""
        return self.folder.is_dir()

    # What the starter writes.

    @property
    def order(self) -> dict[str, Any]:
        """The job as it was reserved, and what its process needs; {} if unreadable."""
        return self._read("order.json")

    # What the run's parent writes.

    @property
    def processes(self) -> dict[str, Any]:
        """`pid` and `job`, the ids of its processes, with their start times; or {}."""
        return self._read("parent.json")

    def write_processes(self, job: int) -> None:
        """Record that this process, and that of the job, run it."""
        self._write(
            "parent.json",
            {
                "boot": boot_id(),
                "pid": os.getpid(),
                "born": start_time(os.getpid()),
                "job": job,
                "job_born": start_time(job),
            },
        )

    @property
    def outcome(self) -> dict[str, Any]:
        """How it ended; {} if it has not, or if its parent was killed."""
        return self._read("outcome.json")

    def reserve_space(self) -> None:
        """Set space aside for the outcome. Raises OSError if there is none."""
        descriptor = os.open(
            self.folder / "outcome.new", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, RESERVED_BYTES)
            else:
                os.write(descriptor, bytes(RESERVED_BYTES))
        finally:
            os.close(descriptor)

    def write_outcome(self, outcome: Mapping[str, Any]) -> None:
        """Record how it ended, for good. Raises OSError, and may be repeated."""
        new = self.folder / "outcome.new"
        with open(os.open(new, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
            file.write(json.dumps(outcome).encode())
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self.folder / "outcome.json")
        sync_folder(self.folder)

    @property
    def output(self) -> str:
        """The end of what the job has written so far."""
        try:
            return (self.folder / "output").read_bytes().decode(errors="replace")
        except OSError:
            return ""

    def write_output(self, output: bytes) -> None:
        """Replace the end of the output. Raises OSError."""
        self._replace("output", output)

    # What the watching worker writes.

    @property
    def renewed_until(self) -> float:
        """Until when the job's lock holds for certain (boottime); 0.0: unknown."""
        until = float(self._read("renewed.json").get("until", 0.0))
        with contextlib.suppress(OSError):
            changed = (self.folder / "renewed.json").stat().st_mtime
            if changed < NO_DATE:  # see write_renewed
                return max(until, changed)
        return until

    def write_renewed(self, until: float) -> None:
        """Tell the run's parent until when the lock holds. Raises OSError.

        On a full disk the time of the last file says it, which takes no room: that the
        disk is full must not end a job.
        """
        try:
            self._write("renewed.json", {"until": until})
        except OSError:
            os.utime(self.folder / "renewed.json", ns=(0, int(until * 1e9)))

    # Locks.

    def lock_alive(self) -> int:
        """Return the locked descriptor that the run's parent is to inherit."""
        descriptor = os.open(
            self.folder / "alive.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return descriptor

    @property
    def is_alive(self) -> bool:
        """True as long as the run's parent lives: it has the lock."""
        try:
            descriptor = os.open(self.folder / "alive.lock", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def lock_watch(self) -> int | None:
        """Return the locked descriptor of the only watcher; None if there is another.

        It is a lock of this process alone: children that it forks do not keep it.
        """
        try:
            descriptor = os.open(
                self.folder / "watch.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
        except OSError:
            return None  # The run has been removed.
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
        return descriptor

    # Processes.

    def parent_pid(self) -> int:
        """Return the id of the run's parent if that very process runs, else 0."""
        return self._running("pid", "born")

    def signal(self, number: int) -> bool:
        """Send a signal to the run's parent; return False if it does not run (yet)."""
        pid = self.parent_pid()
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return pid > 0

    def kill_job(self) -> None:
        """Kill the job's process group, if its first process runs."""
        pid = self._running("job", "job_born")
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)

    def remove(self) -> None:
        """Remove the folder: its end is settled. Raises nothing."""
        away = self.folder.with_name(f"{HIDDEN}{self.folder.name}")
        with contextlib.suppress(OSError):
            self.folder.rename(away)
        shutil.rmtree(away, ignore_errors=True)

    def _running(self, pid: str, born: str) -> int:
        known = self.processes
        if not known.get(pid) or known.get("boot") != boot_id():
            return 0
        found = int(known[pid])
        return found if known.get(born) == start_time(found) else 0

    def _read(self, name: str) -> dict[str, Any]:
        try:
            content = json.loads((self.folder / name).read_bytes())
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        self._replace(name, json.dumps(content).encode())

    def _replace(self, name: str, content: bytes) -> None:
        new = self.folder / f"{name}.new"
        with open(
            os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb"
        ) as f:
            f.write(content)
        os.replace(new, self.folder / name)


class Runs:
    """The runs of one namespace on this host."""

    def __init__(self, base: str | os.PathLike[str]) -> None:
        self.base = Path(base)

    def __iter__(self) -> Iterator[Run]:
        """Yield the runs that have not been settled, the oldest first."""
        try:
            names = sorted(os.listdir(self.base))
        except OSError:
            return
        for name in names:
            if not name.startswith(HIDDEN) and name != "start.lock":
                yield Run(self.base / name)

    @contextlib.contextmanager
    def adding(self) -> Iterator[None]:
        """Keep other processes from adding runs. Raises OSError."""
        make_private(self.base)
        descriptor = os.open(
            self.base / "start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def add(self, order: Mapping[str, Any], until: float) -> tuple[Run, int]:
        """Record a run that is about to start, while `adding`; return it, locked as alive.

        The job's lock holds until then (boottime). Raises OSError, and leaves nothing.
        """
        self._sweep()
        # In the order of their starts, as far as clocks go.
        name = f"{int(order['started'] * 1000):013d}-{secrets.token_hex(4)}"
        run = Run(self.base / f"{HIDDEN}{name}")
        try:
            run.folder.mkdir(mode=0o700)
            run._write("order.json", order)
            run.write_renewed(until)
            run.reserve_space()
            alive = run.lock_alive()
            run.folder.rename(self.base / name)
        except OSError:
            shutil.rmtree(run.folder, ignore_errors=True)
            raise
        return Run(self.base / name), alive

    def _sweep(self) -> None:
        """Remove what killed processes were adding or removing."""
        for name in os.listdir(self.base):
            if name.startswith(HIDDEN):
                shutil.rmtree(self.base / name, ignore_errors=True)

    def tokens(self) -> set[str]:
        """Return the tokens of the locks on the jobs of all runs."""
        return {run.order["job"][4] for run in self if run.order}

    def running(self) -> dict[str, int]:
        """Return how many runs each queue has that have not ended."""
        counts: dict[str, int] = {}
        for run in self:
            job = run.order.get("job")
            if job and run.is_alive and not run.outcome:
                counts[job[1]] = counts.get(job[1], 0) + 1
        return counts


def sync_folder(folder: Path) -> None:
    """Make the names in a folder outlive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
