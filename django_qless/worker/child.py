"""A child of a worker: it runs the jobs that its parent sends, and says how they ended.

This is the child of the pools `prefork` and `fork`, which runs one job after the other in
its main thread; `threads.py` and `coroutines.py` run many at once.
"""

from __future__ import annotations

import logging
import math
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from django_qless.core import Reserved, Settlement
from django_qless.exceptions import JobLost, ShuttingDown
from django_qless.worker.entity_runs import EntityRun
from django_qless.worker.execution import Execution
from django_qless.worker.interrupt import interrupt
from django_qless.worker.log import (
    defect_report,
    log_event,
    log_expired_lock,
    log_lines,
)
from django_qless.worker.pipe import ChildEnd, Message
from django_qless.worker.process_info import boottime
from django_qless.worker.status_report import title
from django_qless.worker.zygote import CRASHED, Start

if TYPE_CHECKING:
    from django_qless.job_types.current import CurrentJob
    from django_qless.runtime.environment import DjangoEnvironment
    from django_qless.worker.options import WorkerOptions
    from django_qless.worker.sandbox import Sandboxes

REASONS = {"shutdown": ShuttingDown, "lost": JobLost}

#: Seconds after which outcomes of short jobs are sent although more of them wait.
FLUSH = 0.005

#: The limits of a child lie between this part of the options' limits and the whole.
LEAST_PART = 0.8

#: Seconds between two looks at the memory.
MEMORY_PAUSE = 0.5

#: The unit of getrusage: bytes on macOS, kilobytes elsewhere.
RUSAGE_UNIT = 1 if sys.platform == "darwin" else 1024


class Task(NamedTuple):
    """A run that the parent has asked for: of one job, or of entities together."""

    alias: str
    jobs: tuple[Reserved, ...]
    serial: int
    #: When the jobs were reserved (monotonic), and when their locks end (boottime).
    since: tuple[float, ...]
    until: float


#: How a job has ended, as reported to the parent: its token; verb and arguments of its
#: settlement; the seconds from its hand-out to its run, None if it was not begun; how long it
#: ran; whether jobs of its kind are to be sent alone, because they have limits. A plain tuple,
#: as only those can be marshalled.
Done = tuple[str, str, tuple[Any, ...], float | None, float, bool]


class Child:
    """What the children of all pools have in common."""

    def __init__(
        self,
        start: Start,
        environments: Mapping[str, DjangoEnvironment],
        options: WorkerOptions,
        sandboxes: Sandboxes,
    ) -> None:
        self.end: ChildEnd = start.end
        self.word = start.word
        self.environments = environments
        self.options = options
        self.executions = {
            alias: Execution(
                environment, environment.client(alias), options.name, sandboxes
            )
            for alias, environment in environments.items()
        }
        self.recycling = Recycling(options)
        self.ran = 0
        self.is_leaving = False
        #: True if this is a copy of the child: a job has forked.
        self.is_copy = False
        self.has_batch_listeners = any(
            each.has_batch_listeners() for each in environments.values()
        )

    def prepare(self) -> None:
        """Prepare the process for its first job, and tell the parent that it is ready."""
        os.register_at_fork(after_in_child=self._on_fork)
        for environment in self.environments.values():
            environment.after_fork()
            environment.announce_worker("process_started", self.options.name)
        self.end.send(("ready",))

    def _on_fork(self) -> None:
        self.is_copy = True

    def run(self) -> None:
        """Run jobs until the parent closes the socket."""
        raise NotImplementedError

    # A run.

    def tasks_of(self, message: Message) -> list[Task]:
        """Return the runs that a message asks for."""
        _, alias, runs, until = message
        return [
            Task(
                alias,
                tuple(Reserved._make(row) for _, row in jobs),
                serial,
                tuple(since for since, _ in jobs),
                until,
            )
            for serial, jobs in runs
        ]

    def begin(self, task: Task) -> bool:
        """Return whether a run may begin: its locks still hold, and so does the process."""
        if self.is_leaving:
            return False
        if boottime() < task.until:
            return True
        for job in task.jobs:
            log_expired_lock(job)
        return False

    def send_limit(self, task: Task) -> bool:
        """Tell the parent when to kill the run; return whether it has a limit."""
        execution = self.executions[task.alias]
        has_limit = False
        for job in task.jobs:
            hard, delay = execution.policy.hard_limit(job)
            if hard:
                has_limit = True
                self.end.send(("limit", job.token, hard, delay))
        return has_limit

    def perform(self, task: Task) -> list[Settlement]:
        """Run it in this thread; return the outcomes."""
        execution = self.executions[task.alias]
        if task.jobs[0].batch:
            return EntityRun(execution, task.jobs).perform()
        return [execution.perform(task.jobs[0])]

    def done(
        self,
        task: Task,
        settlements: Iterable[Settlement],
        began: float,
        *,
        alone: bool,
    ) -> list[Done]:
        """Return the report of a run that began then (monotonic)."""
        if self.is_copy:
            os._exit(0)
        seconds = time.monotonic() - began
        self.ran += 1
        return [
            (
                job.token,
                settlement.verb,
                settlement.args,
                # The time before a run counts only if it was begun.
                None if settlement.held is None else began - since,
                seconds,
                alone,
            )
            for job, settlement, since in zip(
                task.jobs, settlements, task.since, strict=True
            )
        ]

    def not_run(self, task: Task) -> list[Done]:
        """Return the report of jobs that were not begun."""
        return [(job.token, "release", (0,), None, 0.0, False) for job in task.jobs]

    def is_alone(self, task: Task) -> bool:
        """Return whether jobs of this kind are to be sent one at a time."""
        job = task.jobs[0]
        job_type = self.environments[task.alias].resolve(job.klass)
        if job_type is None:
            return True
        options = job_type.options
        return bool(options.max_concurrency or options.rate or options.concurrency_key)

    def leave_if_due(self) -> None:
        """Tell the parent, once, if this child is to be replaced."""
        if not self.is_leaving and (
            why := self.recycling.due(self.ran, time.monotonic())
        ):
            self.leave(why)

    def leave(self, why: str) -> None:
        """Tell the parent that this child takes no more jobs."""
        self.is_leaving = True
        log_event(logging.INFO, "child leaves", pid=os.getpid(), why=why)
        self.end.send(("leaving", why))

    def interrupt(self, token: str, reason: str) -> None:
        """Raise an exception in a job."""
        interrupt(token, REASONS[reason]())

    def give_up(self, error: BaseException) -> NoReturn:
        """End this process: a job in it has no end, and would be held for ever."""
        fields = {"pid": os.getpid(), "error": error}
        log_lines(logging.ERROR, "child gives up", fields, below=defect_report(error))
        os._exit(CRASHED)

    # Signals of batches.

    def announce_batch(
        self, what: str, alias: str, jobs: Sequence[CurrentJob], **ran: int
    ) -> None:
        """Send the signal that a batch of jobs has `started` or `finished`."""
        self.environments[alias].announce_batch(what, jobs, self.options.name, **ran)


class Prefork(Child):
    """Runs one job after the other, in the main thread."""

    def __init__(self, *args: Any, most_runs: int | None = None) -> None:
        """It ends after `most_runs` messages; None: when the parent wants it to."""
        super().__init__(*args)
        self.left = most_runs
        self.running: Task | None = None
        self.is_idle = False
        #: True if a signal said that there is an interruption, perhaps of the next job.
        self.must_look = False
        self._is_looking = False
        # Outcomes that the parent does not know yet.
        self._done: list[Done] = []

    def run(self) -> None:
        """Run jobs until the parent closes the socket."""
        signal.signal(signal.SIGUSR2, self._on_message)
        signal.signal(signal.SIGTERM, self._on_term)
        self.prepare()
        while self.left is None or self.left > 0:
            title("idle")
            message = self._receive()
            if message is None:
                break
            if message[0] == "run":
                try:
                    self._run_all(self.tasks_of(message))
                except Exception as error:  # noqa: BLE001  a job would have no end
                    self.give_up(error)
                if self.left is not None:
                    self.left -= 1
        for environment in self.environments.values():
            environment.leave_thread()

    def _receive(self) -> Message | None:
        self.is_idle = True
        try:
            while not self.end.poll(self.recycling.pause):
                self.leave_if_due()
            return self.end.receive()
        finally:
            self.is_idle = False

    def _run_all(self, tasks: list[Task]) -> None:
        """Run what came in one message, and send the outcomes: often, but not each."""
        jobs: list[CurrentJob] = []
        alias, ran = tasks[0].alias, 0
        if title.is_visible:
            first = tasks[0].jobs[0]
            title(
                f"running {first.klass} {first.jid}" if len(tasks) == 1 else "running"
            )
        if self.has_batch_listeners:
            shown = self.executions[alias].shown
            jobs = [shown(job) for task in tasks for job in task.jobs]
            self.announce_batch("started", alias, jobs)
        flushed = time.monotonic()
        for task in tasks:
            self.word.running = task.serial
            if not self.word.may_begin(task.serial) or not self.begin(task):
                self._done += self.not_run(task)
                continue
            has_limit = self.send_limit(task)
            self.running = task
            if self.must_look:
                self._look()
            began = time.monotonic()
            outcomes = self.perform(task)
            self.running = None
            ran += len(task.jobs)
            self._done += self.done(
                task, outcomes, began, alone=has_limit or self.is_alone(task)
            )
            self.leave_if_due()
            if time.monotonic() - flushed > FLUSH:
                self._send()
                flushed = time.monotonic()
        self._send()
        if jobs:
            self.announce_batch("finished", alias, jobs, ran=ran)

    def _send(self) -> None:
        """Send the outcomes that the parent does not know yet."""
        if self._done:
            done, self._done = self._done, []
            self.end.send(("done", done))

    def _on_message(self, number: int, frame: object) -> None:
        """Look for an interruption of the running job, and say what ended before it."""
        if not self.is_copy:
            self.must_look = True
            if self.running is not None and not self._is_looking:
                self._look()

    def _look(self) -> None:
        """Do what the parent wants at once; a job runs, or is about to.

        While it runs nothing else is being sent. The alarm of its timeout must not end this
        in the midst of a message.
        """
        assert self.running is not None
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        self._is_looking, wanted = True, list[str]()
        try:
            while self.must_look:
                self.must_look = False
                self._send()
                wanted += self._interruptions()
        finally:
            self._is_looking = False
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for reason in wanted:
            # The first of entities stands for all of them.
            self.interrupt(self.running.jobs[0].token, reason)

    def _interruptions(self) -> Iterable[str]:
        """Return why the running job is to be interrupted, if it is."""
        assert self.running is not None
        tokens = {job.token for job in self.running.jobs}
        messages = self.end.arrived()
        for message in list(messages):
            if message[0] == "interrupt":
                messages.remove(message)
                if message[1] in tokens:
                    yield message[2]

    def _on_term(self, number: int, frame: object) -> None:
        """Leave after the running jobs, to be replaced: an operator sent TERM."""
        if self.is_copy:
            return
        if self.is_idle:
            os._exit(0)
        self.recycling.end = 0.0


class Recycling:
    """The limits of one child: jobs, memory and age, after which it is replaced.

    They are a little below those of the options, at random, so that children that were
    started together do not end together.
    """

    def __init__(self, options: WorkerOptions) -> None:
        part = random.uniform(LEAST_PART, 1.0)
        jobs, memory, age = options.max_jobs, options.max_memory, options.max_age
        #: The most jobs to run, the most bytes to take, and the time to end.
        self.jobs = sys.maxsize if jobs is None else max(1, round(jobs * part))
        self.memory = None if memory is None else int(memory * part)
        self.end = math.inf if age is None else time.monotonic() + age * part
        self._looked = 0.0

    @property
    def pause(self) -> float | None:
        """Seconds until an idle child has to look at its limits; None: it has none."""
        if self.memory is not None:
            return MEMORY_PAUSE
        return None if self.end == math.inf else max(0.0, self.end - time.monotonic())

    def due(self, ran: int, now: float) -> str:
        """Return the reason to end after `ran` jobs; "" if there is none.

        `now` is on the monotonic clock. Costs next to nothing without limits.
        """
        if ran >= self.jobs:
            return f"it has run {ran} jobs"
        if now >= self.end:
            return "it is old"
        # One that is too big from its start is not to be replaced for nothing.
        if self.memory is not None and ran and now - self._looked >= MEMORY_PAUSE:
            self._looked = now
            if (size := memory_used()) > self.memory:
                return f"it takes {size} bytes"
        return ""


def memory_used() -> int:
    """Return how many bytes of memory this process takes (its resident set)."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        # Elsewhere only the highest value so far is known.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RUSAGE_UNIT
