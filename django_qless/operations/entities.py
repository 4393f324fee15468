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
from django_qless.conf.each import aask_each, answers, ask_each
from django_qless.core.commands import Commands
from django_qless.core.commands.entities import (
    MOST_ENTITIES,
    EntityCounts,
    EntityList,
    EntityRows,
)
from django_qless.core.request import Request, Steps, adrive, drive
from django_qless.job_types.entity import EntityHandle
from django_qless.operations.of_alias import OfAlias

if TYPE_CHECKING:
    from django_qless.operations.job_query import AnyClient

#: Rounds after which a change of all stops, though others may have come meanwhile.
MOST_ROUNDS = 100_000


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
        return EntityHandle(self.alias, self.queue, str(entity)).refresh()

    async def aget(self, entity: Any) -> EntityHandle:
        """Return the handle of an entity, refreshed, from asynchronous code."""
        return await EntityHandle(self.alias, self.queue, str(entity)).arefresh()

    def counts(self) -> EntityCounts:
        """Return the figures of the queue, as of now."""
        return self.client.entity_counts([self.queue])[0]

    async def acounts(self) -> EntityCounts:
        """Return the figures of the queue, from asynchronous code."""
        return (await self.aclient.entity_counts([self.queue]))[0]

    def rows(self, which: EntityList, offset: int = 0, count: int = 25) -> EntityRows:
        """Return some of the fresh, retrying, running or dead; dead-ids: by their ids."""
        return self.client.entities(which, self.queue, offset, count)

    async def arows(
        self, which: EntityList, offset: int = 0, count: int = 25
    ) -> EntityRows:
        """Asynchronous version of `rows`."""
        return await self.aclient.entities(which, self.queue, offset, count)

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
        return drive(self._bring_back(self.client, entities))

    async def abring_back(self, *entities: Any) -> int:
        """Asynchronous version of `bring_back`."""
        return await adrive(self._bring_back(self.aclient, entities))

    def delete_dead(self, *entities: Any) -> int:
        """Delete these dead entities, or all if none is named; return how many."""
        return drive(self._delete_dead(self.client, entities))

    async def adelete_dead(self, *entities: Any) -> int:
        """Asynchronous version of `delete_dead`."""
        return await adrive(self._delete_dead(self.aclient, entities))

    def run_all_now(self) -> int:
        """Let all delayed entities run now; return how many."""
        return drive(self._repeated(self.client, Commands.run_entities.build))

    async def arun_all_now(self) -> int:
        """Asynchronous version of `run_all_now`."""
        steps = self._repeated(self.aclient, Commands.run_entities.build)
        return await adrive(steps)

    def kill_all_failed(self) -> int:
        """Move all whose last run has failed to the dead; return how many there were."""
        return drive(self._kill_all_failed(self.client))

    async def akill_all_failed(self) -> int:
        """Asynchronous version of `kill_all_failed`."""
        return await adrive(self._kill_all_failed(self.aclient))

    def delete_all_failed(self) -> int:
        """Delete all whose last run has failed, with their payloads; return how many."""
        return drive(self._repeated(self.client, Commands.drop_entities.build))

    async def adelete_all_failed(self) -> int:
        """Asynchronous version of `delete_all_failed`."""
        steps = self._repeated(self.aclient, Commands.drop_entities.build)
        return await adrive(steps)

    def run_now(self, *entities: Any) -> int:
        """Let these run now; return how many were delayed."""
        return self.client.run_entities(self.queue, _named(entities))

    async def arun_now(self, *entities: Any) -> int:
        """Asynchronous version of `run_now`."""
        return await self.aclient.run_entities(self.queue, _named(entities))

    def kill(self, *entities: Any) -> int:
        """Move these to the dead, those in the hands of workers excepted."""
        return drive(self._kill(self.client, _named(entities)))

    async def akill(self, *entities: Any) -> int:
        """Asynchronous version of `kill`."""
        return await adrive(self._kill(self.aclient, _named(entities)))

    def delete(self, *entities: Any) -> int:
        """Delete these with their payloads, those in the hands of workers excepted."""
        return self.client.drop_entities(self.queue, _named(entities))

    async def adelete(self, *entities: Any) -> int:
        """Asynchronous version of `delete`."""
        return await self.aclient.drop_entities(self.queue, _named(entities))

    # The steps of both forms.

    def _bring_back(self, client: AnyClient, entities: Sequence[Any]) -> Steps[int]:
        left = list(map(str, entities)) or (yield from self._dead_ids(client))
        wanted = len(left)
        before = -1
        while left:
            part = left[:MOST_ENTITIES]
            bring_back = Commands.bring_back.build(None, self.queue, part)
            done = set((yield from client.steps(bring_back)))
            show = Commands.entity.build(None, self.queue, part[0], 0, 1)
            dead = (yield from client.steps(show)).dead or {}
            now = int(dead.get("payloads", 0))
            left = [entity for entity in left if entity not in done]
            if not done and now == before:
                left = left[1:]  # another job is in the way of this one
                wanted -= 1
            before = now
        return wanted

    def _delete_dead(self, client: AnyClient, entities: Sequence[Any]) -> Steps[int]:
        names = list(map(str, entities)) or (yield from self._dead_ids(client))
        if not names:
            return 0
        call = Commands.delete_dead.build(None, self.queue, names)
        return (yield from client.steps(call))

    def _dead_ids(self, client: AnyClient) -> Steps[list[str]]:
        found: list[str] = []
        while True:
            call = Commands.entities.build(
                None, "dead-ids", self.queue, len(found), MOST_ENTITIES
            )
            rows = (yield from client.steps(call)).rows
            if not rows:
                return found
            found += [row["entity"] for row in rows]

    def _kill(self, client: AnyClient, names: list[str]) -> Steps[int]:
        changed = 0
        while True:
            call = Commands.kill_entities.build(None, self.queue, names)
            done = yield from client.steps(call)
            if not done:
                return changed
            changed = max(changed, done)

    def _kill_all_failed(self, client: AnyClient) -> Steps[int]:
        call = Commands.entity_counts.build(None, [self.queue])
        [counts] = yield from client.steps(call)
        yield from self._repeated(client, Commands.kill_entities.build)
        return int(counts.retries)

    def _repeated(
        self, client: AnyClient, build: Callable[..., Request[int]]
    ) -> Steps[int]:
        total = 0
        for _ in range(MOST_ROUNDS):
            done = yield from client.steps(build(None, self.queue))
            if not done:
                break
            total += done
        return total


class AllEntities(OfAlias):
    """All queues with entities of an alias: `entities`."""

    def __getitem__(self, queue: str) -> QueueEntities:
        return QueueEntities(routing.queue_namespace(self.alias, queue), queue)

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
