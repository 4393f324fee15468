"""Entities of a queue as operators see them: lists, the dead, runs now.

    from django_qless import entities
    entities["orders"].run_all_now()       # await entities["orders"].arun_all_now()

Each method that asks the server has an async counterpart that begins with `a`; that of
`entities["orders"]["o-1"]` is `aget("o-1")`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from django_qless.conf import routing
from django_qless.core.commands.entities import (
    MOST_ENTITIES,
    EntityCounts,
    EntityList,
    EntityRows,
)
from django_qless.core.request import adrive, drive
from django_qless.job_types.entity import EntityHandle
from django_qless.operations.entity_run import changed
from django_qless.operations.of_alias import OfAlias
from django_qless.serialization.derived_types import name_text


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
        return EntityHandle(self.alias, self.queue, name_text(entity))

    def _change(self, name: str, entities: Sequence[Any] = ()) -> int:
        """Make a change to these entities, or all; return how many it has met."""
        own = list(map(name_text, entities))
        return drive(changed(self.client, name, self.queue, own))

    async def _achange(self, name: str, entities: Sequence[Any] = ()) -> int:
        own = list(map(name_text, entities))
        return await adrive(changed(self.aclient, name, self.queue, own))

    def counts(self) -> EntityCounts:
        """Return the figures of the queue, as of now."""
        [counts] = self.client.entity_counts([self.queue])
        return counts

    async def acounts(self) -> EntityCounts:
        """Return the figures of the queue, from asynchronous code."""
        [counts] = await self.aclient.entity_counts([self.queue])
        return counts

    def rows(self, which: EntityList, offset: int = 0, count: int = 25) -> EntityRows:
        """Return some of the fresh, retrying, running, dead or oldest-dead entities."""
        return self.client.entities(which, self.queue, offset, count)

    async def arows(
        self, which: EntityList, offset: int = 0, count: int = 25
    ) -> EntityRows:
        """Asynchronous version of `rows`."""
        return await self.aclient.entities(which, self.queue, offset, count)

    def dead_ids(self) -> Iterator[str]:
        """Yield the ids of all dead entities, the oldest first."""
        offset = 0
        while found := self.rows("oldest-dead", offset, MOST_ENTITIES).rows:
            yield from (row["entity"] for row in found)
            offset += len(found)

    async def adead_ids(self) -> AsyncIterator[str]:
        """Asynchronous version of `dead_ids`."""
        offset = 0
        while found := (await self.arows("oldest-dead", offset, MOST_ENTITIES)).rows:
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


class AllEntities(OfAlias):
    """All queues with entities of an alias: `entities`."""

    def __getitem__(self, queue: str) -> QueueEntities:
        return QueueEntities(routing.alias_of(queue, self._given), queue)

    def counts(self) -> list[EntityCounts]:
        """Return the figures of all queues that have, or had, entities."""
        return self.client.entity_counts()

    async def acounts(self) -> list[EntityCounts]:
        """Return the figures of all queues with entities, from asynchronous code."""
        return await self.aclient.entity_counts()


def _named(entities: Sequence[Any]) -> list[str]:
    if not entities:
        raise ValueError("name at least one entity")
    return list(map(str, entities))


entities = AllEntities()
