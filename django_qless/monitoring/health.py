"""Health over HTTP: does the server answer, and are there workers?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from django_qless.conf import routing
from django_qless.conf.connections import connections
from django_qless.core.exceptions import QlessError
from django_qless.monitoring.lag import lag_data
from django_qless.monitoring.snapshot import Shared
from django_qless.operations.workers import ServedQueues, is_alive

if TYPE_CHECKING:
    from django_qless.core.commands.operations import WorkerCounts


class Workers:
    """The workers of an alias at one moment."""

    def __init__(self, alias: str) -> None:
        client = connections.impatient(alias)
        self.now = float(client.meta()["now"])
        self.all: list[WorkerCounts] = client.workers()
        self.alive = [each for each in self.all if is_alive(each, self.now)]


workers = Shared(Workers)


def health_of(
    aliases: Sequence[str],
    *,
    least_workers: int = 0,
    max_lag: float | None = None,
    queues: Sequence[str] = (),
) -> dict[str, Any]:
    """Return whether these aliases are well, and why not, as JSON values.

    An alias is well if its server answers, at least `least_workers` workers are alive, one
    of these serves each of the `queues`, and no queue (of these, if any are named) has a
    greater lag than `max_lag`, in seconds.
    """
    found = {}
    for alias in aliases:
        alive = 0
        try:
            known: Workers = workers.get(alias)
            alive = len(known.alive)
            problems = [*_problems(alias, known, least_workers, max_lag, queues)]
        except QlessError as error:
            problems = [str(error)]
        found[alias] = {"ok": not problems, "workers": alive, "problems": problems}
    return {"ok": all(each["ok"] for each in found.values()), "aliases": found}


def _problems(
    alias: str,
    known: Workers,
    least_workers: int,
    max_lag: float | None,
    queues: Sequence[str],
) -> Iterator[str]:
    if len(known.alive) < least_workers:
        yield f"{len(known.alive)} workers are alive, {least_workers} are wanted"
    served = ServedQueues(known.all, known.now)
    own = [queue for queue in queues if _is_of(alias, queue)]
    for queue in own:
        if not served.serves(queue):
            yield f"no living worker serves {queue}"
    if max_lag is not None and (own or not queues):
        lag = lag_data(alias, own)["total"]["lag"]
        if lag > max_lag:
            yield f"the lag is {lag:.1f} s, {max_lag:g} s are allowed"


def _is_of(alias: str, queue: str) -> bool:
    """Return whether an alias may have this queue: it is not routed to another one."""
    return routing.route(queue) in (None, alias)
