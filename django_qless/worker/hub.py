"""The hub: the event loop of a worker's parent.

It keeps the table of all jobs that the worker holds, gives them to children, takes their
outcomes, and decides when the worker ends. It runs no jobs, and nothing that blocks.

    sources (source.py)      reserve jobs, report their outcomes
    heartbeats (locks.py)    renew locks, bring events and commands
    children (children.py)   run jobs; the zygote forks them
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from django_qless.worker.children import ChildProcess, Children
from django_qless.worker.crash_reports import CrashReport
from django_qless.worker.detached.handover import Handover
from django_qless.worker.dispatch import Dispatch
from django_qless.worker.helper import Helper, row_of
from django_qless.worker.locks import WorkerInfo
from django_qless.worker.log import log_event, logger
from django_qless.worker.reaper import Reaper
from django_qless.worker.served import ServedAlias
from django_qless.worker.shutdown import SIGNALS, ControlCommand, Stage
from django_qless.worker.stacks import ANSWER_TIME, log_stacks
from django_qless.worker.transport import end_tasks
from django_qless.worker.zygote import Start, Zygote

if TYPE_CHECKING:
    from django_qless.runtime.environment import DjangoEnvironment
    from django_qless.worker.pipe import Message
    from django_qless.worker.pool import Pool
    from django_qless.worker.source import Source
    from django_qless.worker.worker import Worker

#: Seconds between two turns at most; later by LATE, the parent was kept from its work.
TURN, LATE = 0.1, 0.25

#: Seconds after which a task of the loop that has failed is started again. One that has run
#: for STEADY seconds had recovered from earlier failures.
AGAIN, STEADY, MOST_FAILURES = 1.0, 10.0, 3

#: Seconds at the end for settling what is left.
LAST = 5.0

#: Threads for what blocks, in the parent and for each alias.
THREADS = 8

#: The control commands that a worker accepts through the server.
FROM_SERVER = ("quiet", "resume", "stop", "dump")


class Hub(Reaper):
    """Keeps the children of a pool at work until the worker ends."""

    def __init__(self, worker: Worker, pool: Pool) -> None:
        """Fork the zygote: before there are threads, connections and an event loop."""
        self.worker = worker
        self.pool = pool
        self.options = worker.options
        self.shutdown = worker.shutdown
        warn_of_threads()
        self.zygote = Zygote(self.run_child)
        self.info = WorkerInfo(self.options, self.shutdown, worker.detached_info)
        self.handover = Handover(self)
        self.aliases: list[ServedAlias] = []
        self.sources: list[Source] = []
        #: Set when the next turn is due at once.
        self.changed = asyncio.Event()
        #: True if there can be no more children.
        self.is_broken = False
        self._background = set[asyncio.Future[None]]()
        self._interrupted: set[str] = set()
        self._busy_until = time.monotonic()
        self._deadline: float | None = None

    def run_child(self, start: Start) -> None:
        """Run jobs, or help the parent, in a child."""
        worker = self.worker
        kind = Helper if start.kind == "helper" else self.pool.child
        kind(start, worker.environments, self.options, worker.sandboxes).run()

    def run(self) -> bool:
        """Work until the worker has ended; return whether all jobs are settled."""
        try:
            return asyncio.run(self._run())
        finally:
            self.zygote.close()

    async def _run(self) -> bool:
        loop = asyncio.get_running_loop()
        # Names of servers are looked up in these threads, which may hang.
        threads = ThreadPoolExecutor(THREADS * len(self.worker.environments) + THREADS)
        loop.set_default_executor(threads)
        self.children = Children(self.zygote, self.received, self.child_ended)
        self.zygote.ended = self.zygote_ended
        self.zygote.watch()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.on_signal, number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        self.dispatch = Dispatch(self)
        for alias, environment in self.worker.environments.items():
            queues = self.worker.queues[alias]
            self.aliases.append(ServedAlias(self, alias, environment, queues))
        self.sources = [each.source for each in self.aliases]
        for source in self.sources:
            source.burst = self.options.burst
            source.others = [each for each in self.sources if each is not source]
        steps = [self.info.measure]
        steps += [self.dispatch.keep_children, self.dispatch.return_unbegun]
        steps += [self.watch_code]
        self.tasks = [asyncio.create_task(self.keep(step)) for step in steps]
        self.tasks += [asyncio.create_task(self.serve(each)) for each in self.aliases]
        try:
            await self.take_turns()
            return await self.settle_rest()
        finally:
            if self.shutdown.reexec:
                # The old handlers would end the process before it restarts.
                signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
                self.handover.pass_on()
            await end_tasks(self.tasks)
            for each in self.aliases:
                await each.close()

    async def serve(self, served: ServedAlias) -> None:
        """Begin with all that is to be done for an alias."""
        if served.alias in self.worker.late:
            await served.begin()
        self.tasks += [asyncio.create_task(self.keep(step)) for step in served.tasks]
        beat = self.keep(served.heartbeat.beat, vital=True)
        self.tasks.append(asyncio.create_task(beat))

    async def keep(
        self, step: Callable[[], Awaitable[None]], *, vital: bool = False
    ) -> None:
        """Run a task of the loop for ever: one that fails is logged and started again.

        Without a vital one the worker cannot go on: it stops when that keeps failing.
        """
        failures = 0
        while True:
            began = time.monotonic()
            try:
                await step()
                return
            except Exception:  # noqa: BLE001
                logger.exception("%s failed; it is started again", step.__name__)
            failures = failures + 1 if time.monotonic() < began + STEADY else 1
            if vital and failures == MOST_FAILURES:
                log_event(logging.ERROR, "no heartbeats can be sent, stopping")
                self.worker.failure = os.EX_SOFTWARE
                self.shutdown.stop()
                self.changed.set()
                return
            await asyncio.sleep(AGAIN)

    # The turns of the loop.

    async def take_turns(self) -> None:
        """Take a turn now and then until the worker has nothing left to do."""
        while True:
            try:
                self.take_turn()
            except Exception:  # noqa: BLE001
                logger.exception("a turn of the worker failed; it goes on")
            if self.has_ended:
                return
            due = time.monotonic() + TURN
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TURN):
                    await self.changed.wait()
            self.changed.clear()
            late = time.monotonic() - due
            if late > LATE:
                log_event(logging.WARNING, "the worker was late", seconds=late)
                self.info.late = max(self.info.late, late)

    def take_turn(self) -> None:
        """Do what is not done at once when something happens."""
        self.handover.turn()
        self.end_burst()
        self.end_when_idle()
        self.shut_down()
        self.find_blocked_loops()
        self.send_reports()
        self.worker.sandboxes.reap()
        if os.getpid() == 1:
            self.reap_orphans()
        self.report_status()

    @property
    def has_ended(self) -> bool:
        """True if nothing is left to do or to wait for, or its time is over."""
        if self.shutdown.stage is Stage.RUNNING:
            return False
        if any(child.kind == "job" for child in self.children) and not self.is_broken:
            return False
        if self.handover.must_wait:
            return False
        now = time.monotonic()
        self._deadline = self._deadline or now + LAST
        is_done = all(source.is_done for source in self.sources)
        return is_done or now > self._deadline

    async def settle_rest(self) -> bool:
        """End the helper; return whether everything is settled."""
        self.send_reports()
        for child in self.children:
            child.end_when_idle()
        deadline = time.monotonic() + LAST
        while len(self.children) and time.monotonic() < deadline and not self.is_broken:
            await asyncio.sleep(0.01)
        for child in self.children:
            child.kill({})
        while len(self.children) and not self.is_broken:
            await asyncio.sleep(0.01)
        return all(source.is_settled for source in self.sources)

    def end_burst(self) -> None:
        """Begin to drain a burst when all queues are empty and nothing runs."""
        if (
            self.options.burst
            and self.shutdown.stage is Stage.RUNNING
            and not self.handover.runners
            and not any(source.reports for source in self.sources)
            and all(source.is_empty and source.is_settled for source in self.sources)
        ):
            self.shutdown.drain()
            self.changed.set()

    def end_when_idle(self) -> None:
        """Begin to drain when no job has run for the idle limit."""
        limit = self.options.max_idle
        if limit is None or self.shutdown.stage is not Stage.RUNNING:
            return
        now = time.monotonic()
        is_busy = self.handover.runners or any(source.held for source in self.sources)
        if self.shutdown.quiet or is_busy:
            self._busy_until = now
        if now - self._busy_until >= limit:
            log_event(logging.INFO, "idle for too long")
            self.shutdown.drain()
            self.changed.set()

    def shut_down(self) -> None:
        """Make the children stop, according to the stage of the shutdown."""
        self.shutdown.advance()
        if self.shutdown.takes_jobs:
            return
        for source in self.sources:
            source.interrupt()
        self.dispatch.hand_back()
        stage = self.shutdown.stage
        if stage is Stage.RUNNING:
            return
        for child in self.children:
            if child.kind != "job":
                continue
            if not child.jobs:
                child.end_when_idle()
            elif stage is Stage.STOPPING:
                child.kill({})
            elif stage is Stage.INTERRUPTING:
                for token, held in child.jobs.items():
                    if token not in self._interrupted:
                        self._interrupted.add(token)
                        child.interrupt(held, "shutdown")

    def report_status(self) -> None:
        """Report the worker's state to its surroundings."""
        state = self.shutdown.state
        self.worker.status.update(
            time.monotonic(),
            answers=[each.last_answer for each in self.aliases],
            state="draining" if self.shutdown.reexec else state,
            running=sum(child.runs for child in self.children)
            + len(self.handover.runners),
        )

    # Signals and commands.

    def on_signal(self, number: signal.Signals) -> None:
        """Follow a signal; CONT last, as the signal that it came after may be noticed later."""
        command = SIGNALS[number]
        if number is signal.SIGCONT:
            asyncio.get_running_loop().call_soon(self.follow_signal, number, command)
        else:
            self.follow_signal(number, command)

    def follow_signal(self, number: signal.Signals, command: ControlCommand) -> None:
        """Log a signal and execute its command."""
        log_event(logging.INFO, "signal", name=number.name, order=command.value)
        self.follow(command)

    def follow(self, command: ControlCommand) -> None:
        """Execute a control command."""
        if command is ControlCommand.STOP:
            self.shutdown.request_stop()
        elif command is ControlCommand.RELOAD:
            self.shutdown.reload()
        elif command is ControlCommand.DUMP:
            self.start(self.dump_stacks())
        elif command is ControlCommand.ABORT:
            self.start(self.abort())
        else:
            self.shutdown.quiet = command is ControlCommand.QUIET
            for source in self.sources:
                source.changed.set()
        if self.info.has_changed:
            for each in self.aliases:
                each.heartbeat.beat_soon()
        self.changed.set()

    def run_command(self, text: str) -> None:
        """Execute a control command that came through the server."""
        if text in FROM_SERVER:
            log_event(logging.INFO, "order", order=text)
            self.follow(ControlCommand(text))
        else:
            log_event(logging.WARNING, "unknown order, ignored", order=text)

    async def dump_stacks(self) -> None:
        """Log the stacks of parent and children."""
        children = [child for child in self.children if child.kind == "job"]
        for child in children:
            child.dump()
        await asyncio.sleep(ANSWER_TIME)
        log_stacks(
            {
                child.pid: child.stacks()
                or ("it is suspended" if child.suspended else "it did not answer")
                for child in children
            }
        )

    async def abort(self) -> None:
        """Log all stacks, then stop at once."""
        await self.dump_stacks()
        self.shutdown.stop()
        self.changed.set()

    def start(self, coroutine: Awaitable[None]) -> None:
        """Run something in the background; what it raises is logged."""

        async def run() -> None:
            try:
                await coroutine
            except Exception:  # noqa: BLE001
                logger.exception("the worker goes on")

        task = asyncio.ensure_future(run())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # Jobs.

    def jobs_arrived(self) -> None:
        """Give new jobs to children, and beat often enough for their locks."""
        for each in self.aliases:
            if each.source.ready:
                each.heartbeat.shorten(each.source.ready[-1].length)
        if self.shutdown.takes_jobs:
            self.handover.take()
        self.dispatch.give()

    def received(self, child: ChildProcess, message: Message) -> None:
        """Follow a message of a child. Raises what garbage brings about."""
        word, *rest = message
        if word == "done":
            self.dispatch.jobs_done(child, *rest)
        elif word == "ready":
            child.is_ready = True
            self.dispatch.child_changed(child)
        elif word == "limit":
            token, seconds, delay = rest
            held = child.jobs[token]
            loop = asyncio.get_running_loop()
            held.timer = loop.call_later(
                seconds, self.overrun, child, token, seconds, delay
            )
        elif word == "leaving":
            child.is_leaving = True
            self.dispatch.child_changed(child)
        else:
            raise ValueError(f"unknown message {word!r}")

    def zygote_ended(self) -> None:
        """Stop at once and begin anew: without the zygote there are no more children."""
        log_event(logging.ERROR, "the zygote ended", pid=self.zygote.pid)
        self.is_broken = True
        self.shutdown.stop()
        self.shutdown.reexec = True
        self.children.abandon()
        self.changed.set()

    def reap_orphans(self) -> None:
        """Reap processes whose parents have died, as the first process has to."""
        watch = self.worker.watch
        with contextlib.suppress(ChildProcessError):
            while end := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if end.si_pid in (self.zygote.pid, watch and watch.trial_pid):
                    # Its owner does it, before the next turn.
                    return
                if not self.handover.reap(end.si_pid):
                    os.waitpid(end.si_pid, 0)

    async def watch_code(self) -> None:
        """Restart in place when changed code works, for ever; in a thread: it reads files."""
        if watch := self.worker.watch:
            while True:
                pause = await asyncio.to_thread(next, watch.steps)
                if watch.has_news:
                    watch.has_news = False
                    self.follow(ControlCommand.RELOAD)
                await asyncio.sleep(pause)

    def send_reports(self) -> None:
        """Have the helper send the signals of runs that cannot, and sweep up outboxes."""
        helpers = [child for child in self.children if child.kind == "helper"]
        is_wanted = False
        for each in self.aliases:
            reports, environment = each.source.reports, each.environment
            if reports and not has_receivers(environment, reports):
                reports.clear()
            sweeps = self.shutdown.stage is Stage.RUNNING and each.leads
            sweeps = sweeps and environment.has_outbox()
            is_wanted = is_wanted or sweeps or bool(reports)
            for helper in helpers:
                if each.sweeps and not sweeps:
                    helper.kill({})
                elif helper.is_ready:
                    if reports:
                        rows = [row_of(report) for report in reports]
                        helper.send(("reports", each.alias, rows))
                        reports.clear()
                    if sweeps:
                        helper.send(("sweep", each.alias))
            each.sweeps = sweeps and bool(helpers)
        self.dispatch.helper_wanted = is_wanted
        if is_wanted and not helpers:
            self.dispatch.changed.set()


def warn_of_threads() -> None:
    """Name the threads that the project has started: children will not have them."""
    main = threading.main_thread()
    names = [each.name for each in threading.enumerate() if each is not main]
    if names:
        text = (
            "These threads of the project do not run in the processes that run jobs: "
            f"{', '.join(names)}. Start them when worker_process_started is sent."
        )
        log_event(logging.WARNING, "warning", text=text)


def has_receivers(
    environment: DjangoEnvironment, reports: Sequence[CrashReport]
) -> bool:
    """Return whether there are receivers for the signals of these runs."""
    return any(
        report.is_exhausted or environment.has_listeners(report.event)
        for report in reports
    )
