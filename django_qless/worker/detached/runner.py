"""The runner of a detached job: a worker in a session of its own that has this job only.

It becomes the holder of the job's lock and says so to the worker that has started it (see
handover.py), which it then needs no more. What is a worker's it has of one: heartbeats, a
child that runs the job, limits, signals, the settlement. It keeps the end of what the job
writes, and tells the server of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import select
import socket
import time
import traceback
from importlib import import_module
from typing import TYPE_CHECKING, Any

from django_qless.core import Client, Reserved
from django_qless.core.exceptions import JobNotFound, LockLost, QlessError, ServerError
from django_qless.core.request import single
from django_qless.worker import deaths, failure_report
from django_qless.worker.children import Held
from django_qless.worker.detached.handover import GONE, LOCK, LONGEST, MINE
from django_qless.worker.execution import Execution
from django_qless.worker.hub import Hub
from django_qless.worker.locks import WorkerInfo
from django_qless.worker.log import configure_logging, log_event, logger
from django_qless.worker.options import WorkerOptions
from django_qless.worker.pool import POOLS
from django_qless.worker.process_info import boottime
from django_qless.worker.restart import block_signals
from django_qless.worker.shutdown import GRACE, SIGNALS, ControlCommand, Stage
from django_qless.worker.worker import START_PATIENCE, Worker

if TYPE_CHECKING:
    from django_qless.core import Settlement
    from django_qless.runtime.environment import DjangoEnvironment
    from django_qless.worker.children import ChildProcess
    from django_qless.worker.pipe import Message
    from django_qless.worker.served import ServedAlias
    from django_qless.worker.source import Source
    from django_qless.worker.zygote import Start

#: Bytes that are kept of the end of the output.
OUTPUT_BYTES = 16 * 1024

#: Seconds between two reports of a run whose output has changed; and of one whose output
#: has not, so that what the server keeps does not expire.
REPORT, REPORT_AGAIN = 2.0, 3600.0

#: Seconds until a report is repeated that did not reach the server.
AGAIN = 1.0

OUTPUT_HIDDEN = "Its output is hidden: the job has, or may have, sensitive values."


def main(order: dict[str, Any]) -> int:
    """Run the job of an order; return the exit code."""
    block_signals(SIGNALS)
    os.set_inheritable(LOCK, False)
    with contextlib.suppress(OSError):
        os.chdir(order["directory"])
    job = Reserved(*order["job"])
    try:
        worker = worker_of(order)
        client = worker.client(LONGEST)
        sent = boottime()
        told = json.dumps(described(0, time.time()))
        length = client.keep_detached(worker.name, job.jid, job.token, told)
    except (LockLost, JobNotFound):
        say(GONE)
        return 0
    except Exception as error:  # noqa: BLE001  the project cannot be loaded
        traceback.print_exc()
        reason = failure_report.group_of(error), failure_report.message_of(error)
        say(json.dumps(reason).encode())
        return os.EX_SOFTWARE
    say(MINE)
    worker.prepare_sandboxes()
    worker.environment.preload()
    worker.environment.before_fork()
    is_done = RunnerHub(worker, job, order["since"], sent + length, length).run()
    client = worker.client(START_PATIENCE)
    with contextlib.suppress(QlessError):
        client.deregister(worker.name)
    worker.sandboxes.close()
    return 0 if is_done else os.EX_TEMPFAIL


def say(word: bytes) -> None:
    """Say the one thing that the worker waits for; it may be dead."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(0)) as end:
        end.sendall(word)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)


def worker_of(order: dict[str, Any]) -> Worker:
    """Return the worker that this process is."""
    configure_logging(0)
    logger.setLevel(order["level"])
    function, *arguments = order["entry"]
    module, _, name = function.rpartition(".")
    environment: DjangoEnvironment = getattr(import_module(module), name)(*arguments)
    given = order["options"]
    options = WorkerOptions(
        name=f"{given['name']}-{os.getpid()}",
        alias=given["alias"],
        queues=(),
        sandbox=given["sandbox"],
        shutdown_timeout=given["shutdown_timeout"],
    )
    return Worker(environment, options)


def described(pid: int, started: float, output: str = "", **end: Any) -> dict[str, Any]:
    """Return the report of a run for the server."""
    host = socket.gethostname()
    return {"host": host, "pid": pid, "started": started, "output": output, **end}


def kill_lost(child: ChildProcess, held: Held) -> None:
    """Kill a child whose job's lock was lost: the job is not settled."""
    child.kill({held.job.token: None})


class RunnerHub(Hub):
    """Runs one job, which it has from the beginning, and ends."""

    def __init__(
        self, worker: Worker, job: Reserved, since: float, until: float, length: float
    ) -> None:
        self.output = Output()
        self.job = job
        self._lock = since, until, length
        self.started = time.time()
        super().__init__(worker, POOLS["prefork"])
        self.info = WorkerInfo(self.options, self.shutdown, {"pool": "detached"})
        #: The job, when the loop has begun, and the process that runs it.
        self.held: Held | None = None
        self.job_pid = 0
        # How that process ended, if it did before the job.
        self._end = ""
        # What the server was told last, and when (monotonic).
        self._told, self._told_at = "", 0.0

    def run_child(self, start: Start) -> None:
        """Run the job; its output is kept."""
        self.output.redirect()
        super().run_child(start)

    async def serve(self, served: ServedAlias) -> None:
        """Hold the job and renew its lock, but reserve no others and serve no schedules."""
        source, heartbeat = served.source, served.heartbeat
        source.room = lambda _: 0
        self.held = Held(self.job, source, *self._lock)
        source.held[self.job.token] = self.held
        heartbeat.shorten(self.held.length)
        asyncio.get_running_loop().add_reader(self.output.reader, self.output.read)
        beat = self.keep(heartbeat.beat, vital=True)
        self.tasks.append(asyncio.create_task(beat))
        for step in (heartbeat.listen, self.report):
            self.tasks.append(asyncio.create_task(self.keep(step)))

    # The job.

    @property
    def is_unbegun(self) -> bool:
        """True if the job is held, and no child has it."""
        held = self.held
        return bool(held and not held.child and held.source.held)

    def received(self, child: ChildProcess, message: Message) -> None:
        """Give the job to the child that is ready first."""
        is_ready = child.kind == "job" and message[0] == "ready"
        if is_ready and self.is_unbegun and self.held:
            self.job_pid = child.pid
            self.held.source.ready.append(self.held)
            self.held.source.changed.set()
        super().received(child, message)

    def locks_lost(self, lost: list[Held]) -> None:
        """Ask the job to end, and kill it if it does not."""
        for held in lost:
            if (child := held.child) is None:
                super().locks_lost(lost)
            elif not held.is_lost:
                held.is_lost = True
                log_event(logging.WARNING, "lock lost, stopping", jid=held.job.jid)
                child.interrupt(held, "shutdown")
                loop = asyncio.get_running_loop()
                held.timer = loop.call_later(GRACE, kill_lost, child, held)

    def child_ended(self, child: ChildProcess, status: int) -> None:
        """Settle the job also if no child could begin with it."""
        is_running = self.shutdown.stage is Stage.RUNNING
        if self.held and self.is_unbegun and is_running and child.kind == "job":
            source = self.held.source
            del source.held[self.job.token]
            outcome = deaths.died(self.held, child.pid, status, child.stacks())
            source.end(outcome, self.job, has_died=True)
        super().child_ended(child, status)

    def outcome_of_dead(
        self, child: ChildProcess, held: Held, status: int, text: str
    ) -> Settlement | None:
        """Return the settlement with the output in the message of a failure."""
        outcome = super().outcome_of_dead(child, held, status, text)
        if outcome is None or outcome.verb == "release":
            return outcome
        group, message = outcome.args[-2:]
        self._end = failure_report.crash_message(child.pid, status).removesuffix(".")
        if group == failure_report.TIMEOUT:
            self._end = "killed: its time was over"
        self.output.read()
        environment = self.worker.environment
        execution = Execution(environment, environment.client(self.options.alias), "")
        hides = self.output.text and execution.policy.hides(self.job)
        output = OUTPUT_HIDDEN if hides else self.output.text
        message = deaths.with_stacks(str(message), output)
        return outcome._replace(args=(*outcome.args[:-1], message))

    def end_burst(self) -> None:
        """End when the job is settled."""
        if self.held and self.held.source.is_settled and not self.held.source.reports:
            self.shutdown.drain()

    def shut_down(self) -> None:
        """Hand the job back also if no child has begun with it."""
        super().shut_down()
        if self.shutdown.stage is not Stage.RUNNING and self.is_unbegun and self.held:
            self.held.source.hand_back(self.held)

    def follow(self, command: ControlCommand) -> None:
        """Execute a control command; there is no new code for a job that runs."""
        if command is not ControlCommand.RELOAD:
            super().follow(command)

    # Reports.

    async def report(self) -> None:
        """Tell the server of the run, and settle it when it has ended, for ever."""
        [source] = self.sources
        while True:
            source.changed.clear()
            has_ended, pause = bool(source.outcomes), REPORT
            try:
                await self.tell(source)
                if has_ended:
                    # The next job of the queue is to find room.
                    fcntl.flock(LOCK, fcntl.LOCK_UN)
                    await source.finish()
                    return
            except ServerError as error:
                log_event(logging.DEBUG, "detached run not shown", error=error)
                pause = AGAIN
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await source.changed.wait()

    async def tell(self, source: Source) -> None:
        """Tell the server of the run, if there is news. Raises ServerError."""
        self.output.read()
        run = described(self.job_pid, self.started, self.output.text)
        if source.outcomes:
            is_released = source.outcomes[0].settlement.verb == "release"
            end = self._end or ("stopped" if is_released else "exit status 0")
            run |= {"ended": time.time(), "end": end}
        text = json.dumps(run)
        # A byte that is no text takes six in JSON: the server would not take it all.
        while run["output"] and len(text) > failure_report.MAX_BYTES:
            run["output"] = run["output"][(len(run["output"]) + 1) // 2 :]
            text = json.dumps(run)
        now = time.monotonic()
        if text == self._told and now < self._told_at + REPORT_AGAIN:
            return
        job = self.job
        request: Any = Client.keep_detached.build(
            None, self.options.name, job.jid, job.token, text
        )
        try:
            await source.reserving.call(single(request))
        except ServerError:
            raise
        except QlessError as error:
            # It would be the same next time; of a lost lock the heartbeat tells.
            log_event(logging.DEBUG, "detached run not shown", error=error)
        self._told, self._told_at = text, now


class Output:
    """The pipe that a job writes to. Its end is kept; all of it is passed on to stderr."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self.reader, False)
        self._end = bytearray()
        self._line = b""
        self._is_passed_on = True

    @property
    def text(self) -> str:
        """The end of what was written."""
        return self._end.decode(errors="replace")

    def redirect(self) -> None:
        """In a child: let all but the worker's log be written to the pipe."""
        log = open(os.dup(2), "w", buffering=1)  # noqa: SIM115  as long as the process
        for handler in logger.handlers:
            if isinstance(handler, logging.StreamHandler):
                handler.setStream(log)
        for number in (1, 2):
            os.dup2(self._writer, number)
        os.close(self._writer)
        os.close(self.reader)

    def read(self) -> None:
        """Read what there is."""
        # What a job that writes without a pause has written since can wait.
        for _ in range(16):
            try:
                chunk = os.read(self.reader, 65536)
            except BlockingIOError:
                break
            self._end += chunk
            del self._end[:-OUTPUT_BYTES]
            self._pass_on(chunk)

    def _pass_on(self, chunk: bytes) -> None:
        """Write whole lines to stderr, as long as that takes them at once."""
        self._line += chunk
        lines, _, self._line = self._line.rpartition(b"\n")
        if len(self._line) > OUTPUT_BYTES:
            lines, self._line = self._line, b""
        lines += b"\n" * bool(lines)
        while lines and self._is_passed_on:
            if not select.select([], [2], [], 0)[1]:
                return
            try:
                written = os.write(2, lines[: select.PIPE_BUF])
            except OSError:
                self._is_passed_on = False
                return
            lines = lines[written:]
