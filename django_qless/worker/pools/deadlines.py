"""The ends that the parent puts to runs: hard limits, and event loops that stand still.

In both cases a process is killed with all that it has started. Shortly before, it is
asked for its stacks: they say where it hung.
"""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING

from django_qless.worker.log import event, logger
from django_qless.worker.pools import board as boards
from django_qless.worker.pools import verdicts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_qless.worker.pools.board import Held
    from django_qless.worker.pools.process import Process

SHORT, LONG = 0.05, 0.5
"""Seconds from the question for the stacks to the kill. The long one if there is no answer,
and for a loop that stands still: a watchdog needs some of it to find the culprit."""


class Deadlines:
    """Kills children whose time is over."""

    def __init__(self, block_limit: float) -> None:
        """`block_limit`: how long an event loop may stand still, in seconds."""
        self._block_limit = block_limit
        #: Children that were asked for their stacks, and when.
        self._asked: dict[Process, float] = {}
        #: When to look again (monotonic).
        self.due = math.inf

    def look(self, children: Iterable[Process]) -> None:
        """Kill those that have had their time; find out when to look again."""
        now = time.monotonic()
        known, self._asked = self._asked, {}
        self.due = math.inf
        for child in children:
            if child.doomed is not None:
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
                self._end_overdue(child, overdue)
            else:
                self._end_blocked(child, blocked)

    def _overdue(self, child: Process, now: float) -> list[Held]:
        overdue = []
        for held in child.board.holdings().running:
            if held.hard:
                if held.started + held.hard <= now:
                    overdue.append(held)
                else:
                    self._look_at(held.started + held.hard)
        return overdue

    def _blocked(self, child: Process, now: float) -> float:
        """Return for how many seconds the event loop has stood still, if for too long."""
        turned = child.board.seconds[boards.TURNED]
        if not turned or child.suspended:
            return 0.0
        if now - turned >= self._block_limit:
            return now - turned
        self._look_at(turned + self._block_limit)
        return 0.0

    def _end_overdue(self, child: Process, overdue: Iterable[Held]) -> None:
        stacks = child.stacks()
        child.kill(
            {held.token: verdicts.overran(held, child.pid, stacks) for held in overdue}
        )

    def _end_blocked(self, child: Process, seconds: float) -> None:
        stacks = child.stacks()
        pid = child.pid
        event(logging.ERROR, "event loop blocked, killing", pid=pid, seconds=seconds)
        logger.error("stacks pid=%d\n%s", pid, stacks)
        running = child.board.holdings().running
        slot = child.board.words[boards.CULPRIT] - 1
        found = [held for held in running if held.slot == slot]
        child.kill(
            {
                held.token: verdicts.blocked(
                    held, pid, seconds, stacks, sure=bool(found)
                )
                for held in found or running
            }
        )

    def _look_at(self, due: float) -> None:
        self.due = min(self.due, due)
