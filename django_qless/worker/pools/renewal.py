"""Keeping the locks on the jobs of all children, and stopping work where they are lost."""

from __future__ import annotations

import itertools
import logging
import time
from typing import TYPE_CHECKING

from django_qless.worker.log import event
from django_qless.worker.pools import board as boards
from django_qless.worker.pools.lock_expiry import boottime

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from django_qless.worker.heartbeat import Heartbeat
    from django_qless.worker.pools.board import Held
    from django_qless.worker.pools.roster import Roster


class Renewal:
    """Beats for all jobs in one call, as often as the shortest of their locks needs."""

    def __init__(self, heartbeat: Heartbeat, children: Roster) -> None:
        self.heartbeat = heartbeat
        self.children = children
        # The pending calls at the last heartbeat: process id and number of each.
        self._pending: set[tuple[int, int]] = set()

    def beat(self) -> Sequence[str]:
        """Renew the locks of all children's jobs, if it is time; return orders."""
        if time.monotonic() < self.heartbeat.due:
            return ()
        newest: dict[str, Held] = {}
        asked = boottime()
        # Who does not work has no right to a lock.
        locked = {
            child: child.board.holdings().locked
            for child in self.children
            if child.works
        }
        for held in itertools.chain.from_iterable(locked.values()):
            known = newest.setdefault(held.jid, held)
            if int(held.token) > int(known.token):
                newest[held.jid] = held
        beaten = [(held.jid, held.token, held.in_hands) for held in newest.values()]
        answer = self.heartbeat.beat([*beaten, *self.prefetched()])
        if answer.lost:
            lost = [newest.pop(jid).token for jid in answer.lost if jid in newest]
            self.take_losses(set(lost))
        if not self.heartbeat.is_failing:
            for child, jobs in locked.items():
                if all(held is newest.get(held.jid) for held in jobs):
                    child.board.seconds[boards.RENEWED] = asked
        self.heartbeat.relax(self.locks())
        # A child that was given a short lock meanwhile has seen the old pace.
        self.hurry()
        return answer.orders

    def prefetched(self) -> Iterator[tuple[str, str, None]]:
        """Return the jobs that a child has prefetched without reading the reply yet.

        A job that holds the interpreter (code in C, say) keeps its child from reading it,
        perhaps for longer than a lock lasts.
        """
        before = self._pending
        self._pending = {
            (child.pid, pending)
            for child in self.children
            if (pending := child.board.words[boards.PREFETCH]) and child.works
        }
        if not before & self._pending:
            return
        known = {
            held.token for child in self.children for held in child.board.holdings().all
        }
        for jid, token in self.heartbeat.held().items():
            if token not in known:
                yield jid, token, None

    def hurry(self) -> None:
        """Beat more often if a short lock asks for it, and tell the children the pace."""
        for lock in self.locks():
            self.heartbeat.hurry(lock)
        for child in self.children:
            child.board.seconds[boards.PACE] = self.heartbeat.pace

    def locks(self) -> list[float]:
        """Return the lengths of the locks on what the children hold."""
        return [
            child.board.seconds[boards.LOCK]
            for child in self.children
            if child.board.holdings().locked
        ]

    def take_losses(self, tokens: Collection[str]) -> None:
        """Stop the work on jobs whose locks are lost."""
        for child in self.children:
            holdings = child.board.holdings()
            lost = {held.token for held in holdings.locked if held.token in tokens}
            running = [held for held in holdings.running if held.token in lost]
            if running and self.children.kind.kills:
                jid = running[0].jid
                event(logging.WARNING, "lock lost, killing", jid=jid, pid=child.pid)
                child.kill(dict.fromkeys(lost))
            elif lost:
                child.drop(lost)
