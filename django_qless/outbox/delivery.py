"""Deliveries: calls that the server carries out once, however often they are made.

Each is a request `once:<base>/<number>`, whose reply the server keeps: who repeats it gets
that.
"""

from __future__ import annotations

import hashlib
import threading
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import replace
from itertools import count
from typing import Any

from django_qless.core.client import BaseClient, Client
from django_qless.core.exceptions import QlessError
from django_qless.core.replication import execute
from django_qless.core.request import Command, CommandSequence, Request, Steps, single

#: Seconds for which a call is repeated: what the outbox holds is safe.
PATIENCE = 1.0

#: Ids of which one call says that they are gone.
AT_ONCE = 1_000

# Of these the server is told with the next delivery of the process; it forgets the rest in
# time by itself.
MOST_KEPT = 10_000


class Delivery:
    """The ids under which the calls for one thing are delivered: `base/0`, `base/1` …"""

    def __init__(self, base: str, alias: str, ids: list[str] | None = None) -> None:
        self.base = base
        self.alias = alias
        self._numbers = count()
        #: The ids that were used, also for parts.
        self.ids: list[str] = [] if ids is None else ids

    def next_id(self) -> str:
        """Return the id of the next call."""
        found = f"{self.base}/{next(self._numbers)}"
        self.ids.append(found)
        return found

    def part(self, jid: str) -> Delivery:
        """Return the delivery of one job alone, after all together were refused."""
        return Delivery(part_of(self.base, jid), self.alias, self.ids)


def through(delivery: Delivery | None, client: Any) -> Any:
    """Return the client for a delivery, the given one where there is none."""
    return client if delivery is None else DeliveringClient(client, delivery)


def parts_of(request: Request[Any]) -> tuple[Command[Any], ...]:
    """Return the calls of a request."""
    if isinstance(request, CommandSequence):
        return request.parts
    assert isinstance(request, Command)
    return (request,)


def once(call: Command[Any], number: str) -> Command[Any]:
    """Return a call as the delivery with this id."""
    return replace(call, request_id=f"once:{number}")


def part_of(base: str, jid: str) -> str:
    """Return the base of the ids of one job of a delivery."""
    return f"{base}/j{hashlib.sha256(jid.encode()).hexdigest()[:24]}"


class ImpatientClient:
    """A client, sync or async, that does not wait long for a server that is away."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.patience = min(client.patience, PATIENCE)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def run(self, request: Request[Any]) -> Any:
        """Send a request and return its result, or an awaitable of it."""
        return self._client._drive(self.steps(request))

    def steps(self, request: Request[Any]) -> Steps[Any]:
        """Return the steps of `run`."""
        return BaseClient.steps(self, request)  # type: ignore[arg-type]

    def _steps_of_sequence(self, request: Request[Any]) -> Steps[Any]:
        return BaseClient._steps_of_sequence(self, request)  # type: ignore[arg-type]


class DeliveringClient(ImpatientClient):
    """A client whose calls are deliveries."""

    def __init__(self, client: Any, delivery: Delivery) -> None:
        super().__init__(client)
        self._delivery = delivery

    def steps(self, request: Request[Any]) -> Steps[Any]:
        """Return the steps of `run`."""
        if isinstance(request, Command):
            return self._deliver(request)
        return self._steps_of_sequence(request)

    def _deliver(self, call: Command[Any]) -> Steps[Any]:
        alias = self._delivery.alias
        call = once(call, self._delivery.next_id())
        gone = told_with_next(alias)
        if not gone:
            return (yield from super().steps(call))
        try:
            tell = Client.forget_once.build(None, gone)
            return (yield from execute(self, call, ahead=single(tell)))
        except QlessError:
            forget(alias, gone)
            raise


_lock = threading.Lock()
_gone: dict[str, deque[str]] = defaultdict(lambda: deque(maxlen=MOST_KEPT))


def forget(alias: str, ids: Iterable[str]) -> None:
    """Note that entries are gone; the server is told with the next delivery."""
    with _lock:
        _gone[alias].extend(ids)


def told_with_next(alias: str) -> list[str]:
    """Return ids whose entries are gone, and of which the server has not been told."""
    if not _gone[alias]:
        return []
    with _lock:
        waiting = _gone[alias]
        return [waiting.popleft() for _ in range(min(len(waiting), AT_ONCE))]
