"""The outbox for other namespaces in a worker: delivered by one of its processes."""

from __future__ import annotations

import logging
import time
from typing import NoReturn

from django_qless.conf.connections import connections
from django_qless.core import QlessError
from django_qless.core.commands.crossing import Outbox
from django_qless.operations.crossing import DUE, Carrier

logger = logging.getLogger("django_qless.worker")

#: Seconds after which it looks even if it was not told of entries.
LOOK = 60.0
#: Seconds between two tries while its own namespace does not answer.
AGAIN = 1.0
#: Seconds for which a worker that ends by itself goes on delivering; between two tries.
REST, SHORTEST = 30.0, 0.05


def keep_carrying(name: str) -> NoReturn:
    """Deliver the outbox of a namespace; never return."""
    carrier = Carrier(name)
    failing = False
    while True:
        try:
            due = connections[name].crossing_due()
            while True:
                due = _carry(carrier, due)
                failing = False
        except QlessError as error:
            level = logging.DEBUG if failing else logging.WARNING
            logger.log(level, "the outbox is not delivered: error=%s", error)
        except Exception:
            logger.exception("the outbox is not delivered: namespace=%s", name)
        failing = True
        time.sleep(AGAIN)


def carry_rest(name: str, seconds: float = REST) -> None:
    """Deliver what waits in the outbox of a namespace now, for so many seconds at most.

    Logs what is left then. Raises nothing.
    """
    carrier, deadline = Carrier(name), time.monotonic() + seconds
    try:
        while targets := connections[name].crossing_due().targets:
            if carrier.carry(targets):
                continue
            pause = max(carrier.pause(targets), SHORTEST)
            if time.monotonic() + pause > deadline:
                left = ",".join(f"{each.name}:{each.entries}" for each in targets)
                logger.warning("the outbox is not empty: left=%s", left)
                return
            time.sleep(pause)
    except QlessError as error:
        logger.warning("the outbox is not delivered: error=%s", error)


def _carry(carrier: Carrier, due: Outbox) -> Outbox:
    """Deliver what is due, or wait for more; return what is due then."""
    client = connections[carrier.name]
    delivered = carrier.carry(due.targets)
    seconds = min(LOOK, carrier.pause(due.targets))
    if delivered or seconds <= 0:
        return client.crossing_due()
    after = client.after([due.key], seconds, DUE)
    try:
        due = after.run()
    finally:
        after.abandon()
    if after.refusal is not None:
        raise after.refusal
    return due
