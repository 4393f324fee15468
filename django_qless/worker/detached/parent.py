"""The parent of a detached run: a small program that outlives the worker.

It starts the job's process in a session of its own, keeps the end of what that writes,
waits for it, and records how it ended. If the job's lock is not renewed in time, it kills
the job: another host may start it. TERM stops the job, INT kills it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from django_qless.worker.detached.records import OUTPUT_BYTES, Run
from django_qless.worker.detached.starter import program
from django_qless.worker.parent_death import ParentDeathPipe
from django_qless.worker.process_info import boottime

# Seconds between two looks at the lock and writes of the output.
LOOK = 0.5

# Seconds that the job has to end after a TERM.
GRACE = 5.0

# Seconds for which the outcome is tried to be recorded: the disk may be full.
RECORDING = 600.0

MESSAGE_BYTES = 2**20

WATCHED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


def main(folder: str, alive: str) -> None:
    """Run the job of the run in this folder; `alive` is the locked descriptor."""
    if os.fork():
        os._exit(0)
    os.set_inheritable(int(alive), False)
    code = Parent(Run(Path(folder))).run()
    # All that is left in memory is of no use, and the lock is released last.
    os._exit(code)


class Parent:
    """Supervises the process of one job."""

    def __init__(self, run: Run) -> None:
        self.folder = run
        order = run.order
        self.directory: str = order["directory"]
        self.hard: float = order.get("hard") or 0.0
        self.began = time.monotonic()
        self.output = bytearray()
        self.message = bytearray()
        self.output_written = True
        #: Why the job is being stopped: stopped, fenced or overran; "" if it is not.
        self.why = ""
        self.kill_at = float("inf")

    def run(self) -> int:
        """Run the job to its end, and record that."""
        self.handle_signals()
        self.start()
        while not self.has_exited():
            self.wait()
            self.look()
        status = self.end()
        return self.record(status)

    def handle_signals(self) -> None:
        """Let signals wake the loop. Those without a meaning here are ignored."""
        self.signals, writer = os.pipe()
        for end in (self.signals, writer):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in WATCHED:
            # Not ignored as such: that would be inherited by the job.
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def start(self) -> None:
        """Start the job's process, and record which it is."""
        self.death = ParentDeathPipe()
        self.read_output, output = os.pipe()
        self.read_message, message = os.pipe()
        for end in (self.read_output, self.read_message):
            os.set_blocking(end, False)
        command = program(
            "django_qless.worker.detached.job",
            *(self.folder.folder, message, self.death.child_end),
        )
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(message, self.death.child_end),
            start_new_session=True,
            cwd=self.directory if os.path.isdir(self.directory) else "/",
        )
        os.close(output)
        os.close(message)
        self.death.close_child_end()
        with contextlib.suppress(OSError):
            self.folder.write_processes(self.process.pid)

    def has_exited(self) -> bool:
        """Return whether the job's process has ended; its id stays taken."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.process.pid, flags) is not None

    def wait(self) -> None:
        """Wait for output, a signal, or the next look."""
        poll = select.poll()
        for end in (self.signals, self.read_output, self.read_message):
            if end >= 0:
                poll.register(end, select.POLLIN)
        poll.poll(LOOK * 1000)
        self.read()
        with contextlib.suppress(BlockingIOError):
            for number in os.read(self.signals, 100):
                if number in (signal.SIGTERM, signal.SIGINT):
                    self.stop("stopped", kill=number == signal.SIGINT)

    def read(self) -> None:
        """Read what the job has written, and keep the end."""
        self.read_output, more = read_all(self.read_output, self.output, OUTPUT_BYTES)
        self.output_written = self.output_written and not more
        self.read_message, _ = read_all(self.read_message, self.message, MESSAGE_BYTES)

    def look(self) -> None:
        """Kill the job if its lock or its time is over; write the output."""
        now = time.monotonic()
        if boottime() >= self.folder.renewed_until:
            self.stop("fenced", kill=True)
        elif self.hard and now >= self.began + self.hard:
            self.stop("overran", kill=True)
        elif now >= self.kill_at:
            self.kill()
        if not self.output_written:
            self.write_output()

    def stop(self, why: str, *, kill: bool = False) -> None:
        """Ask the job to end, and kill it after the time of grace; or kill it at once."""
        if kill:
            self.kill()
        elif not self.why:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGTERM)
            self.kill_at = time.monotonic() + GRACE
        self.why = self.why or why

    def kill(self) -> None:
        """Kill the job's process group. The id is not reused before it is waited for."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def end(self) -> int:
        """Kill what the job has left behind; return its exit status."""
        self.kill()
        status = self.process.wait()
        self.read()
        self.write_output()
        return status

    def write_output(self) -> None:
        """Write the end of the output. A full disk is no reason to stop a job."""
        with contextlib.suppress(OSError):
            self.folder.write_output(bytes(self.output))
            self.output_written = True

    def record(self, status: int) -> int:
        """Record how the job ended; return the exit code."""
        message = self.message.decode(errors="replace")
        outcome: dict[str, Any] = {
            "status": status,
            "message": message if len(self.message) < MESSAGE_BYTES else "",
            "why": self.why,
            "ended": time.time(),
        }
        until = time.monotonic() + RECORDING
        while True:
            try:
                self.folder.write_outcome(outcome)
            except OSError as error:
                if time.monotonic() > until or not self.folder.exists:
                    return 1
                print(f"the outcome cannot be recorded: {error}", file=sys.stderr)
                time.sleep(LOOK)
            else:
                return 0


def read_all(end: int, kept: bytearray, most: int) -> tuple[int, bool]:
    """Read what there is, and keep the last bytes; return the descriptor, and if any.

    The descriptor is -1 if the other end is closed.
    """
    some = False
    # What a job that writes without a pause has written since can wait.
    for _ in range(16 if end >= 0 else 0):
        try:
            chunk = os.read(end, 65536)
        except BlockingIOError:
            break
        if not chunk:
            os.close(end)
            return -1, some
        some = True
        kept += chunk
        del kept[:-most]
        if len(chunk) < 65536:
            break
    return end, some
