"""Hard limits of runs and of blocked event loops, enforced by the parent.

In both cases the process is killed with all that it has started. Shortly before, it is
asked for its stacks, which show where it hung.
"""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING

from django_qless.worker.log import log_event, logger
from django_qless.worker.pools import outcomes, shared_state

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_qless.worker.pools.child_process import ChildProcess
    from django_qless.worker.pools.shared_state import HeldJob

SHORT, LONG = 0.05, 0.5
"""Seconds from the request for stacks to the kill. The long time if there is no answer,
and for a blocked loop, as its watchdog needs some time to find the blocking job."""


class HardLimits:
    """Kills children with a run or event loop turn that takes too long."""

    def __init__(self, block_limit: float) -> None:
        """`block_limit` is for a turn of the event loop, in seconds."""
        self._block_limit = block_limit
        #: Children that were asked for their stacks, and when.
        self._asked: dict[ChildProcess, float] = {}
        #: When to look again (monotonic).
        self.due = math.inf

    def look(self, children: Iterable[ChildProcess]) -> None:
        """Kill the children that are over a limit, and update `due`."""
        now = time.monotonic()
        known, self._asked = self._asked, {}
        self.due = math.inf
        for child in children:
            if child.killed_outcomes is not None:
                continue
            overdue = self._overdue(child, now)
            blocked = 0.0 if overdue else self._blocked(child, now)
            if not (overdue or blocked):
                continue
            asked = known.get(child)
            if asked is None:
                child.dump()
                asked = now
            is_short = overdue and child.has_answered
            if now < asked + (SHORT if is_short else LONG):
                self._asked[child] = asked
                self._look_at(now + SHORT)
            elif overdue:
                stacks = child.stacks()
                child.kill(
                    {
                        held.token: outcomes.overran(held, child.pid, stacks)
                        for held in overdue
                    }
                )
            else:
                self._kill_blocked(child, blocked)

    def _overdue(self, child: ChildProcess, now: float) -> list[HeldJob]:
        overdue = []
        for held in child.shared.held_jobs().running:
            if held.hard:
                if held.started + held.hard <= now:
                    overdue.append(held)
                else:
                    self._look_at(held.started + held.hard)
        return overdue

    def _blocked(self, child: ChildProcess, now: float) -> float:
        """Return for how many seconds the event loop has been blocked, if too long."""
        turned = child.shared.floats[shared_state.LOOP_TURNED]
        if not turned or child.suspended:
            return 0.0
        if now - turned >= self._block_limit:
            return now - turned
        self._look_at(turned + self._block_limit)
        return 0.0

    def _kill_blocked(self, child: ChildProcess, seconds: float) -> None:
        stacks, pid = child.stacks(), child.pid
        log_event(
            logging.ERROR, "event loop blocked, killing", pid=pid, seconds=seconds
        )
        logger.error("stacks pid=%d\n%s", pid, stacks)
        running = child.shared.held_jobs().running
        slot = child.shared.ints[shared_state.BLOCKING_SLOT] - 1
        found = [held for held in running if held.slot == slot]
        child.kill(
            {
                held.token: outcomes.blocked(
                    held, pid, seconds, stacks, sure=bool(found)
                )
                for held in found or running
            }
        )

    def _look_at(self, due: float) -> None:
        self.due = min(self.due, due)
