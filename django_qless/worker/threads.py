"""The child of the pool `threads`: many jobs at once, each in a thread of one process.

The main thread reads messages and calls threads for jobs; outcomes are sent by the thread
that ends last.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from django_qless.worker.child import Child, Done, Task

if TYPE_CHECKING:
    from django_qless.job_types.current import CurrentJob

#: Seconds between two looks at age and memory; and at what waits for a thread.
LOOK, SOON = 0.5, 0.002

#: Jobs that take less, in seconds, are not worth another thread.
QUICK = 0.0005


class Batch:
    """The jobs of one message, whose beginning and end are announced."""

    def __init__(self, child: Child, tasks: list[Task]) -> None:
        self._child = child
        self.alias = tasks[0].alias
        shown = child.executions[self.alias].shown
        self.jobs: list[CurrentJob] = [
            shown(job) for task in tasks for job in task.jobs
        ]
        self._left = len(self.jobs)
        self._ran = 0
        self._has_begun = False
        self._lock = threading.Lock()

    def begin_once(self) -> None:
        """Announce it, before the first of its jobs begins; others wait for that."""
        with self._lock:
            if not self._has_begun:
                self._has_begun = True
                self._child.announce_batch("started", self.alias, self.jobs)

    def count(self, jobs: int, *, ran: bool) -> None:
        """Count jobs that have ended; announce the end of the last."""
        with self._lock:
            self._left -= jobs
            self._ran += jobs * ran
            is_last = not self._left
        if is_last:
            self._child.announce_batch("finished", self.alias, self.jobs, ran=self._ran)


class Threads(Child):
    """Runs each job in a thread of its own.

    To switch threads costs more than a short job. So while jobs are quick, one thread runs
    one after the other, and the main thread calls others as soon as a job takes longer.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._unbegun: deque[tuple[Task, Batch | None]] = deque()
        # One item for each thread that runs jobs, or was called.
        self._called: deque[None] = deque()
        self._mean = 0.0
        self._outcomes: deque[Done] = deque()
        self._sending = threading.Lock()
        self._threads = 0
        self._executor = ThreadPoolExecutor(
            self.options.concurrency, "job thread", self._count_thread
        )

    def run(self) -> None:
        """Run jobs until the parent closes the socket and the last job has ended."""
        signal.signal(signal.SIGTERM, self._on_term)
        self.prepare()
        while True:
            is_waiting = self._unbegun or self._outcomes
            if not self.end.poll(SOON if is_waiting else LOOK):
                self._call(len(self._unbegun))
                self._send()
                self.leave_if_due()
                continue
            message = self.end.receive()
            if message is None:
                break
            if message[0] == "interrupt":
                self.interrupt(*message[1:])
            else:
                self._start(self.tasks_of(message))
        self._call(len(self._unbegun))
        self._leave_threads()

    def _start(self, tasks: list[Task]) -> None:
        batch = Batch(self, tasks) if self.has_batch_listeners else None
        self._unbegun.extend((task, batch) for task in tasks)
        if self._mean > QUICK:
            self._call(len(tasks))
        elif not self._called:
            self._call(1)

    def _call(self, count: int) -> None:
        """Call threads to run jobs."""
        for _ in range(count):
            self._called.append(None)
            self._executor.submit(self._work)

    def _work(self) -> None:
        """Run the jobs that have not begun, in a thread."""
        try:
            while True:
                try:
                    task, batch = self._unbegun.popleft()
                except IndexError:
                    break
                self._run(task, batch)
            self._called.pop()
        except BaseException as error:  # noqa: BLE001  its job would have no end
            self.give_up(error)

    def _run(self, task: Task, batch: Batch | None) -> None:
        if batch is not None:
            batch.begin_once()
        may_begin = self.begin(task)
        if may_begin:
            has_limit = self.send_limit(task)
            began = time.monotonic()
            outcomes = self.perform(task)
            seconds = time.monotonic() - began
            self._mean = max(seconds, 0.9 * self._mean + 0.1 * seconds)
            done = self.done(
                task, outcomes, began, alone=has_limit or self.is_alone(task)
            )
        else:
            done = self.not_run(task)
        if batch is not None:
            batch.count(len(task.jobs), ran=may_begin)
        self._outcomes.extend(done)
        # Else soon, together with others.
        if not self._unbegun:
            self._send()
        self.leave_if_due()

    def _send(self) -> None:
        """Send the outcomes of all threads."""
        # Who does not get the lock leaves its outcomes to the thread that has it.
        while self._outcomes and self._sending.acquire(blocking=False):
            try:
                count = len(self._outcomes)
                self.end.send(
                    ("done", [self._outcomes.popleft() for _ in range(count)])
                )
            finally:
                self._sending.release()

    def _count_thread(self) -> None:
        self._threads += 1

    def _leave_threads(self) -> None:
        """Close the connections of each thread, when the last jobs have ended."""
        barrier = threading.Barrier(max(1, self._threads))

        def leave() -> None:
            with contextlib.suppress(threading.BrokenBarrierError):
                barrier.wait(1)
            for environment in self.environments.values():
                environment.leave_thread()

        for _ in range(self._threads):
            self._executor.submit(leave)
        self._executor.shutdown(wait=True)

    def _on_term(self, number: int, frame: object) -> None:
        """Leave after the running jobs, to be replaced: an operator sent TERM."""
        if not self.is_copy:
            self.recycling.end = 0.0
