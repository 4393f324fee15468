"""Entities of a queue as operators see them: lists, the dead, runs now.

    from django_qless import entities
    entities["orders"].run_all_now()       # await entities["orders"].arun_all_now()

Each method that asks the server has an async counterpart that begins with `a`; that of
`entities["orders"]["o-1"]` is `aget("o-1")`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from django_qless.conf import routing
from django_qless.conf.connections import connections
from django_qless.conf.each import aask_each, answers, ask_each
from django_qless.core.commands import Commands
from django_qless.core.commands.entities import (
    MOST_ENTITIES,
    EntityCounts,
    EntityList,
    EntityRows,
)
from django_qless.core.request import Steps, adrive, drive
from django_qless.job_types.entity import EntityHandle
from django_qless.operations.entity_run import changed
from django_qless.operations.of_alias import OfAlias
from django_qless.operations.partitioned import sum_of_entities
from django_qless.serialization.derived_types import name_text

if TYPE_CHECKING:
    from django_qless.operations.job_query import AnyClient


class QueueEntities(OfAlias):
    """The entities of one queue: `entities["orders"]`."""

    def __init__(self, alias: str, queue: str) -> None:
        super().__init__(alias)
        self.queue = queue

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.queue!r} in {self.alias!r}>"

    def using_alias(self, alias: str) -> QueueEntities:
        """Return those of a queue of this name of another alias of QLESS."""
        return QueueEntities(alias, self.queue)

    def __getitem__(self, entity: Any) -> EntityHandle:
        """Return the handle of an entity, refreshed."""
        return self._handle(entity).refresh()

    async def aget(self, entity: Any) -> EntityHandle:
        """Return the handle of an entity, refreshed, from asynchronous code."""
        return await self._handle(entity).arefresh()

    def _handle(self, entity: Any) -> EntityHandle:
        """Return the handle of an entity, which one partition has if the queue is split."""
        return EntityHandle(self._home(entity), self.queue, name_text(entity))

    @property
    def namespaces(self) -> Sequence[str]:
        """The names of the namespaces that have the queue: one, or each partition."""
        return routing.queue_namespaces(self.alias, self.queue)

    def _home(self, entity: Any) -> str:
        names = self.namespaces
        if len(names) == 1:
            return names[0]
        return routing.job_namespace(self.alias, self.queue, key=name_text(entity))

    def _parts(self, entities: Sequence[Any]) -> dict[str, list[str]]:
        """Return these entities by namespace; without any, all namespaces."""
        if not entities:
            return {name: [] for name in self.namespaces}
        parts: dict[str, list[str]] = {}
        for entity in entities:
            parts.setdefault(self._home(entity), []).append(name_text(entity))
        return parts

    def _change(self, name: str, entities: Sequence[Any] = ()) -> int:
        """Make a change in all namespaces that it concerns; return how many it has met."""
        parts = self._parts(entities).items()
        return sum(
            drive(changed(connections[home], name, self.queue, own))
            for home, own in parts
        )

    async def _achange(self, name: str, entities: Sequence[Any] = ()) -> int:
        total = 0
        for home, own in self._parts(entities).items():
            client = connections.aclient(home)
            total += await adrive(changed(client, name, self.queue, own))
        return total

    def counts(self) -> EntityCounts:
        """Return the figures of the queue, as of now."""
        found = ask_each(
            self.namespaces, lambda client: client.entity_counts([self.queue])[0]
        )
        return sum_of_entities(answers(found))

    async def acounts(self) -> EntityCounts:
        """Return the figures of the queue, from asynchronous code."""
        found = await aask_each(
            self.namespaces, lambda client: client.entity_counts([self.queue])
        )
        return sum_of_entities([counts for [counts] in answers(found)])

    def rows(self, which: EntityList, offset: int = 0, count: int = 25) -> EntityRows:
        """Return some of the fresh, retrying, running or dead; dead-ids: by their ids."""
        return drive(self._rows(connections.__getitem__, which, offset, count))

    async def arows(
        self, which: EntityList, offset: int = 0, count: int = 25
    ) -> EntityRows:
        """Asynchronous version of `rows`."""
        return await adrive(self._rows(connections.aclient, which, offset, count))

    def dead_ids(self) -> Iterator[str]:
        """Yield the ids of all dead entities, in their order."""
        offset = 0
        while found := self.rows("dead-ids", offset, MOST_ENTITIES).rows:
            yield from (row["entity"] for row in found)
            offset += len(found)

    async def adead_ids(self) -> AsyncIterator[str]:
        """Asynchronous version of `dead_ids`."""
        offset = 0
        while found := (await self.arows("dead-ids", offset, MOST_ENTITIES)).rows:
            for row in found:
                yield row["entity"]
            offset += len(found)

    def bring_back(self, *entities: Any) -> int:
        """Bring these dead entities back, or all if none is named; return how many."""
        return self._change("revive", entities)

    async def abring_back(self, *entities: Any) -> int:
        """Asynchronous version of `bring_back`."""
        return await self._achange("revive", entities)

    def delete_dead(self, *entities: Any) -> int:
        """Delete these dead entities, or all if none is named; return how many."""
        return self._change("delete-dead", entities)

    async def adelete_dead(self, *entities: Any) -> int:
        """Asynchronous version of `delete_dead`."""
        return await self._achange("delete-dead", entities)

    def run_all_now(self) -> int:
        """Let all delayed entities run now; return how many."""
        return self._change("run")

    async def arun_all_now(self) -> int:
        """Asynchronous version of `run_all_now`."""
        return await self._achange("run")

    def kill_all_failed(self) -> int:
        """Move all whose last run has failed to the dead; return how many there were."""
        return self._change("kill")

    async def akill_all_failed(self) -> int:
        """Asynchronous version of `kill_all_failed`."""
        return await self._achange("kill")

    def delete_all_failed(self) -> int:
        """Delete all whose last run has failed, with their payloads; return how many."""
        return self._change("delete")

    async def adelete_all_failed(self) -> int:
        """Asynchronous version of `delete_all_failed`."""
        return await self._achange("delete")

    def run_now(self, *entities: Any) -> int:
        """Let these run now; return how many were delayed."""
        return self._change("run", _named(entities))

    async def arun_now(self, *entities: Any) -> int:
        """Asynchronous version of `run_now`."""
        return await self._achange("run", _named(entities))

    def kill(self, *entities: Any) -> int:
        """Move these to the dead, those in the hands of workers excepted."""
        return self._change("kill", _named(entities))

    async def akill(self, *entities: Any) -> int:
        """Asynchronous version of `kill`."""
        return await self._achange("kill", _named(entities))

    def delete(self, *entities: Any) -> int:
        """Delete these with their payloads, those in the hands of workers excepted."""
        return self._change("delete", _named(entities))

    async def adelete(self, *entities: Any) -> int:
        """Asynchronous version of `delete`."""
        return await self._achange("delete", _named(entities))

    def _rows(
        self,
        client_of: Callable[[str], AnyClient],
        which: EntityList,
        offset: int,
        count: int,
    ) -> Steps[EntityRows]:
        """Return some of a list; those of a partition come after the one before."""
        total, rows = 0, list[dict[str, Any]]()
        for name in self.namespaces:
            start = max(0, offset - total)
            call = Commands.entities.build(
                *(None, which, self.queue, start, max(1, count - len(rows)))
            )
            found = yield from client_of(name).steps(call)
            rows += found.rows
            total += found.total
        return EntityRows(total, rows[:count])


class AllEntities(OfAlias):
    """All queues with entities of an alias: `entities`."""

    def __getitem__(self, queue: str) -> QueueEntities:
        return QueueEntities(self.alias, queue)

    def counts(self) -> list[EntityCounts]:
        """Return the figures of all queues that have, or had, entities."""
        found = answers(
            ask_each(self.namespaces, lambda client: client.entity_counts())
        )
        return [counts for each in found for counts in each]

    async def acounts(self) -> list[EntityCounts]:
        """Return the figures of all queues with entities, from asynchronous code."""
        found = await aask_each(self.namespaces, lambda client: client.entity_counts())
        return [counts for each in answers(found) for counts in each]


def _named(entities: Sequence[Any]) -> list[str]:
    if not entities:
        raise ValueError("name at least one entity")
    return list(map(str, entities))


entities = AllEntities()
