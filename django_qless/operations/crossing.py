"""The outbox of a namespace: what it has for other namespaces is delivered, in order.

A worker has one process for that, see `runtime.crossing`; two at once do no harm, as each
target carries out an entry once.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from django_qless import conf
from django_qless.conf.connections import connections
from django_qless.core import Client, QlessError
from django_qless.core.commands import Commands
from django_qless.core.commands.crossing import Entry, Target
from django_qless.core.exceptions import REFUSALS, HasDependents, TooBig
from django_qless.core.request import Command

logger = logging.getLogger("django_qless")

#: Seconds after which what was read is not delivered any more: by then it may have been
#: delivered and removed by another worker, and the target remembers it for another minute.
FRESH = 20.0

#: Seconds between two tries where a target is away: the first pause, and the longest.
PAUSE, LONGEST = 1.0, 60.0

#: What would be refused again.
REFUSED = (*REFUSALS, HasDependents, TooBig)


@dataclass
class _Trouble:
    """A target that is away."""

    pause: float = PAUSE / 2
    due: float = 0.0

    def begin(self) -> None:
        """Wait twice as long as before."""
        self.pause = min(2 * self.pause, LONGEST)
        self.due = time.monotonic() + self.pause


class Carrier:
    """Delivers the outbox of one namespace."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._troubles: dict[str, _Trouble] = {}

    def carry(self, targets: Sequence[Target]) -> int:
        """Deliver some of what waits for each of these; return how many entries.

        A target that is away is left alone for a while, and does not keep back the others.
        Raises a QlessError if the namespace itself does not answer.
        """
        return sum(
            self._carry_to(target.name)
            for target in targets
            if self._due(target.name) <= time.monotonic()
        )

    def pause(self, targets: Sequence[Target]) -> float:
        """Return the seconds until one of these is to be tried again; infinity: none."""
        due = min((self._due(target.name) for target in targets), default=math.inf)
        return max(0.0, due - time.monotonic())

    def _due(self, target: str) -> float:
        trouble = self._troubles.get(target)
        return 0.0 if trouble is None else trouble.due

    def _carry_to(self, target: str) -> int:
        """Deliver some entries for a target, the oldest first."""
        source = connections[self.name]
        entries, until = source.crossing_read(target), time.monotonic() + FRESH
        done: list[Entry] = []
        try:
            client = connections.impatient(target)
            for entry in entries:
                if time.monotonic() > until:
                    break
                self._deliver(client, target, entry)
                done.append(entry)
        except (QlessError, ImproperlyConfigured) as error:
            self._begin_trouble(target, error)
        else:
            self._end_trouble(target)
        if done:
            source.crossing_delivered(target, done[-1].sequence)
            self._tell(target, done)
        return len(done)

    def _deliver(self, client: Client, target: str, entry: Entry) -> None:
        try:
            client.deliver(entry.id, entry.call)
        except REFUSED as error:
            logger.error(
                "refused by namespace %s: %s; the call: %s, the entry: %s",
                *(target, error, entry.call.name, entry.id),
            )
            if entry.call.name == "receive":
                self._take_back(entry, str(error))

    def _take_back(self, entry: Entry, why: str) -> None:
        """Let no job be lost: it comes back, under the name of its new queue.

        One of a workflow fails, as its record is here.
        """
        source = connections[self.name]
        try:
            source.deliver(entry.id, entry.call)
        except REFUSED:
            # Behind the number comes what is said of each job, and then the jobs.
            jid = str(entry.call.args[1 + int(str(entry.call.args[0]))])
            failed = (jid, "failed", "refused", why)
            ended: Command[Any] = Command("ended", failed, "write")
            source.deliver(f"{entry.id}/refused", ended)

    def _tell(self, target: str, done: Sequence[Entry]) -> None:
        """Tell a target that entries are gone; if it does not hear, they go in a week."""
        try:
            connections.impatient(target).forget_deliveries([each.id for each in done])
        except QlessError as error:
            logger.debug("namespace %s does not answer: %s", target, error)

    def _begin_trouble(self, target: str, error: Exception) -> None:
        if target not in self._troubles:
            logger.warning(
                "the outbox waits: namespace=%s target=%s error=%s",
                *(self.name, target, error),
            )
        self._troubles.setdefault(target, _Trouble()).begin()

    def _end_trouble(self, target: str) -> None:
        if self._troubles.pop(target, None) is not None:
            logger.info("the outbox goes on: namespace=%s target=%s", self.name, target)


def carry_all(alias: str) -> int:
    """Deliver what waits in all namespaces of an alias now; return how many entries.

    Also what is written meanwhile, until nothing waits but where a server is away.
    """
    carriers = [Carrier(name) for name in conf.namespaces_of(alias)]
    total = 0
    while some := sum(map(_carry_now, carriers)):
        total += some
    return total


def _carry_now(carrier: Carrier) -> int:
    try:
        return carrier.carry(connections[carrier.name].crossing_due().targets)
    except QlessError as error:
        logger.debug("namespace %s does not answer: %s", carrier.name, error)
        return 0


#: Asks where entries wait, and for what to wait.
DUE = Commands.crossing_due.build(None)
