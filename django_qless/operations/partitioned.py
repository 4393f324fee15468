"""A queue that is split, as one: sums over its partitions, and changes of all of them.

queues["events"].pause()               # each partition
queues["events"].partitions[3].peek()  # one of them
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django_qless.conf.connections import connections
from django_qless.conf.each import aask_each, answers, ask_each
from django_qless.core import AsyncQueue, Queue
from django_qless.core.commands.entities import EntityCounts
from django_qless.core.commands.queues import QueueCounts
from django_qless.exceptions import InvalidOption
from django_qless.operations.queue_handle import QueueHandle


class on_all:  # noqa: N801  (used as a function)
    """A method that is called on each partition at the same time, and what joins them."""

    def __init__(self, join: Callable[[Sequence[Any]], Any]) -> None:
        self.join = join

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: PartitionedQueue, owner: type) -> Any:
        if hasattr(Queue, self.name):
            return partial(self._call, instance)
        return partial(self._acall, instance, self.name.removeprefix("a"))

    def _call(self, queue: PartitionedQueue, *args: Any, **options: Any) -> Any:
        def ask(client: Any) -> Any:
            return getattr(Queue(client, queue.name), self.name)(*args, **options)

        return self.join(answers(ask_each(queue.aliases, ask)))

    async def _acall(
        self, queue: PartitionedQueue, name: str, *args: Any, **options: Any
    ) -> Any:
        async def ask(client: Any) -> Any:
            return await getattr(AsyncQueue(client, queue.name), name)(*args, **options)

        return self.join(answers(await aask_each(queue.aliases, ask)))


class on_one:  # noqa: N801
    """A method that only a partition has."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: PartitionedQueue, owner: type) -> Any:
        raise InvalidOption(
            f"{self.name}: the queue {instance.name!r} is split into "
            f"{len(instance.aliases)} partitions: ask one of them, queues["
            f"{instance.name!r}].partitions[0].{self.name}(…), or jobs.list(queue="
            f"{instance.name!r})",
            enqueues=False,
        )


def _first(answers: Sequence[Any]) -> Any:
    return answers[0]


def sum_of(counts: Sequence[QueueCounts]) -> QueueCounts:
    """Return the counts of a queue that is split; it is paused if all of it is."""
    number = {
        name: sum(getattr(each, name) for each in counts)
        for name in ("waiting", "running", "stalled", "scheduled", "depends")
    }
    return QueueCounts(
        counts[0].name,
        **number,
        recurring=sum(each.recurring for each in counts),
        paused=all(each.paused for each in counts),
        pause=next((each.pause for each in counts if each.pause), None),
        held_back=sum(each.held_back for each in counts),
    )


def sum_of_entities(counts: Sequence[EntityCounts]) -> EntityCounts:
    """Return the figures of the entities of a queue that is split: its oldest lag."""
    names = (
        "queued",
        "fresh",
        "retries",
        "busy",
        "dead",
        "processed",
        "failed",
        "delayed",
    )
    return counts[0]._replace(
        klass=next((each.klass for each in counts if each.klass), ""),
        lag=max(each.lag for each in counts),
        **{name: sum(getattr(each, name) for each in counts) for name in names},
    )


@dataclass(frozen=True)
class PartitionedQueue(QueueHandle):
    """A queue that is split: its figures are sums, and changes go to all partitions."""

    aliases: tuple[str, ...] = ()

    @property
    def partitions(self) -> list[QueueHandle]:
        """The queue in each partition, each with all methods."""
        return [
            QueueHandle(connections[alias], self.name, alias) for alias in self.aliases
        ]


#: What joins the answers of partitions to these; of changes it is the first.
_JOINED: dict[str, Callable[[Sequence[Any]], Any]] = {"counts": sum_of, "length": sum}
_CHANGES = (
    *("pause", "unpause", "forget"),
    *("set_heartbeat", "set_max_concurrency", "set_rate", "set_weight"),
)
_OF_ONE = ("put", "pop", "peek", "jobs", "stats", "minutes")


def _set(name: str, method: on_all | on_one) -> None:
    method.__set_name__(PartitionedQueue, name)
    setattr(PartitionedQueue, name, method)


for _name in (*_JOINED, *_CHANGES, *_OF_ONE):
    for _each in (_name, f"a{_name}"):
        _set(
            _each, on_one() if _name in _OF_ONE else on_all(_JOINED.get(_name, _first))
        )
