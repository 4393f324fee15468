"""The part of the hub that ends children, and settles the jobs of those that have ended.

A child is killed if a job in it runs beyond its hard limit, blocks its event loop or, where
each child runs one job, has lost its lock. Then, or when it dies by itself, the parent knows
which of its jobs had begun, and says what becomes of each of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from abc import abstractmethod
from typing import TYPE_CHECKING

from django_qless.worker import deaths
from django_qless.worker.children import LONG
from django_qless.worker.coroutines import JOB_NAME
from django_qless.worker.crash_reports import CrashReport
from django_qless.worker.log import log_event, logger

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from django_qless.core import Settlement
    from django_qless.worker.children import ChildProcess, Children, Held
    from django_qless.worker.dispatch import Dispatch
    from django_qless.worker.options import WorkerOptions
    from django_qless.worker.pool import Pool
    from django_qless.worker.worker import Worker

#: Seconds from the first sign that a loop is blocked to a second look.
SECOND_LOOK = 0.05


class Reaper:
    """Ends children, and settles what they leave."""

    worker: Worker
    options: WorkerOptions
    pool: Pool
    children: Children
    dispatch: Dispatch
    #: Set when the next turn of the hub is due at once.
    changed: asyncio.Event

    @abstractmethod
    def start(self, coroutine: Awaitable[None]) -> None:
        """Run something in the background; what it raises is logged."""

    def overrun(
        self, child: ChildProcess, token: str, seconds: float, delay: float
    ) -> None:
        """Kill a child that runs a job beyond its hard limit, after a look at its stacks."""

        async def kill() -> None:
            text = await child.dumped(LONG)
            if (held := child.jobs.get(token)) and child.killed is None:
                outcome = deaths.overran(held, child.pid, seconds, delay, text)
                child.kill({token: outcome})

        self.start(kill())

    def find_blocked_loops(self) -> None:
        """Kill children whose event loop has been blocked for too long."""
        now, limit = time.monotonic(), self.options.block_limit
        for child in self.children:
            turned = child.word.turned
            if (
                not turned
                or child.suspended
                or child.killed is not None
                or now - turned < limit
            ):
                child.blocked_since = 0.0
            elif not child.blocked_since:
                # A second look, as this process may have been late itself.
                child.blocked_since = now
            elif now - child.blocked_since >= SECOND_LOOK and not child.is_examined:
                child.is_examined = True
                self.start(self.kill_blocked(child, turned))

    async def kill_blocked(self, child: ChildProcess, turned: float) -> None:
        """Kill a child whose loop is blocked; the job that blocks it has crashed."""
        text = await child.dumped(LONG)
        if child.word.turned != turned:
            child.is_examined = False
            return
        seconds = time.monotonic() - turned
        log_event(
            logging.ERROR, "event loop blocked, killing", pid=child.pid, seconds=seconds
        )
        logger.error("stacks pid=%d\n%s", child.pid, text)
        serial = serial_in(text)
        found = [held for held in child.jobs.values() if held.serial == serial]
        child.kill(
            {
                held.job.token: deaths.blocked(
                    held, child.pid, seconds, text, sure=bool(found)
                )
                for held in found or child.jobs.values()
            }
        )

    def locks_lost(self, lost: list[Held]) -> None:
        """Stop the work on jobs whose locks are lost."""
        in_children: dict[ChildProcess, list[Held]] = {}
        for held in lost:
            if held.source.held.get(held.job.token) is not held or held.is_lost:
                continue
            if held.is_handed_over:
                # It may be the runner's by now, which will say so.
                continue
            if held.child is None:
                del held.source.held[held.job.token]
                with contextlib.suppress(ValueError):
                    held.source.ready.remove(held)
            else:
                held.is_lost = True
                in_children.setdefault(held.child, []).append(held)
        for child, jobs in in_children.items():
            if self.pool.one_job_each:
                self.start(self.end_lost(child, jobs))
            else:
                for held in jobs:
                    child.interrupt(held, "lost")

    async def end_lost(self, child: ChildProcess, lost: list[Held]) -> None:
        """Kill a child that runs a job whose lock was lost; else take such jobs back."""
        if not any(map(child.is_running, lost)):
            await self.dispatch.take_back(child)
        for held in lost:
            if child.is_running(held):
                jid = held.job.jid
                log_event(logging.WARNING, "lock lost, killing", jid=jid, pid=child.pid)
                child.kill({each.job.token: None for each in lost})
                return

    def lost(self, held: Held) -> None:
        """Note that a run has ended whose lock was lost: its signal is sent by another."""
        held.source.reports.append(CrashReport("lost", held.job))

    def child_ended(self, child: ChildProcess, status: int) -> None:
        """Settle the jobs of a child that has ended."""
        text = child.stacks()
        crashed = []
        for held in child.jobs.values():
            source, token = held.source, held.job.token
            del source.held[token]
            outcome = self.outcome_of_dead(child, held, status, text)
            if outcome is None:
                self.lost(held)
                continue
            if outcome.verb == "crash":
                crashed.append(held.job.jid)
            source.end(outcome, held.job, has_died=True)
        self.worker.sandboxes.sweep(child.pid)
        self.dispatch.child_ended(child, crashed)
        self.changed.set()

    def outcome_of_dead(
        self, child: ChildProcess, held: Held, status: int, text: str
    ) -> Settlement | None:
        """Return how to settle a job whose process has ended; None: its lock is lost."""
        if child.killed is not None:
            if held.job.token in child.killed:
                return child.killed[held.job.token]
        elif held.is_lost:
            return None
        elif not child.in_order or held.serial == child.word.running:
            return deaths.died(held, child.pid, status, text)
        elif held.has_begun:
            log_event(
                logging.WARNING,
                "ran, but its outcome was lost with its process; it will run again",
                jid=held.job.jid,
                pid=child.pid,
            )
        return deaths.released(held)


def serial_in(text: str) -> int:
    """Return the number of the job that the stacks of a blocked loop name; 0: none."""
    found = re.search(rf"in {JOB_NAME}(\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else 0
