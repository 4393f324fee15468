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
from django_qless.core.request import Request, Steps, adrive, drive
from django_qless.job_types.entity import EntityHandle
from django_qless.operations.of_alias import OfAlias
from django_qless.operations.partitioned import sum_of_entities

if TYPE_CHECKING:
    from django_qless.operations.job_query import AnyClient

#: Changes entities in one namespace: all, or those that are named.
ChangeSteps = Callable[[Any, list[str]], Steps[int]]

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
        return self._handle(entity).refresh()

    async def aget(self, entity: Any) -> EntityHandle:
        """Return the handle of an entity, refreshed, from asynchronous code."""
        return await self._handle(entity).arefresh()

    def _handle(self, entity: Any) -> EntityHandle:
        """Return the handle of an entity, which one partition has if the queue is split."""
        return EntityHandle(self._home(entity), self.queue, str(entity))

    @property
    def namespaces(self) -> Sequence[str]:
        """The names of the namespaces that have the queue: one, or each partition."""
        return routing.queue_namespaces(self.alias, self.queue)

    def _home(self, entity: Any) -> str:
        names = self.namespaces
        if len(names) == 1:
            return names[0]
        return routing.job_namespace(self.alias, self.queue, key=str(entity))

    def _parts(self, entities: Sequence[Any]) -> dict[str, list[str]]:
        """Return these entities by namespace; without any, all namespaces."""
        if not entities:
            return {name: [] for name in self.namespaces}
        parts: dict[str, list[str]] = {}
        for entity in entities:
            parts.setdefault(self._home(entity), []).append(str(entity))
        return parts

    def _sum(self, steps: ChangeSteps, entities: Sequence[Any] = ()) -> int:
        """Return how many a change has met, in all namespaces that it concerns."""
        parts = self._parts(entities).items()
        return sum(drive(steps(connections[name], own)) for name, own in parts)

    async def _asum(self, steps: ChangeSteps, entities: Sequence[Any] = ()) -> int:
        total = 0
        for name, own in self._parts(entities).items():
            total += await adrive(steps(connections.aclient(name), own))
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
        return self._sum(self._bring_back, entities)

    async def abring_back(self, *entities: Any) -> int:
        """Asynchronous version of `bring_back`."""
        return await self._asum(self._bring_back, entities)

    def delete_dead(self, *entities: Any) -> int:
        """Delete these dead entities, or all if none is named; return how many."""
        return self._sum(self._delete_dead, entities)

    async def adelete_dead(self, *entities: Any) -> int:
        """Asynchronous version of `delete_dead`."""
        return await self._asum(self._delete_dead, entities)

    def run_all_now(self) -> int:
        """Let all delayed entities run now; return how many."""
        return self._sum(self._run_all)

    async def arun_all_now(self) -> int:
        """Asynchronous version of `run_all_now`."""
        return await self._asum(self._run_all)

    def kill_all_failed(self) -> int:
        """Move all whose last run has failed to the dead; return how many there were."""
        return self._sum(self._kill_all_failed)

    async def akill_all_failed(self) -> int:
        """Asynchronous version of `kill_all_failed`."""
        return await self._asum(self._kill_all_failed)

    def delete_all_failed(self) -> int:
        """Delete all whose last run has failed, with their payloads; return how many."""
        return self._sum(self._delete_all_failed)

    async def adelete_all_failed(self) -> int:
        """Asynchronous version of `delete_all_failed`."""
        return await self._asum(self._delete_all_failed)

    def run_now(self, *entities: Any) -> int:
        """Let these run now; return how many were delayed."""
        return self._sum(self._run_now, _named(entities))

    async def arun_now(self, *entities: Any) -> int:
        """Asynchronous version of `run_now`."""
        return await self._asum(self._run_now, _named(entities))

    def kill(self, *entities: Any) -> int:
        """Move these to the dead, those in the hands of workers excepted."""
        return self._sum(self._kill, _named(entities))

    async def akill(self, *entities: Any) -> int:
        """Asynchronous version of `kill`."""
        return await self._asum(self._kill, _named(entities))

    def delete(self, *entities: Any) -> int:
        """Delete these with their payloads, those in the hands of workers excepted."""
        return self._sum(self._delete, _named(entities))

    async def adelete(self, *entities: Any) -> int:
        """Asynchronous version of `delete`."""
        return await self._asum(self._delete, _named(entities))

    # The steps of both forms.

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

    def _run_now(self, client: AnyClient, names: list[str]) -> Steps[int]:
        call = Commands.run_entities.build(None, self.queue, names)
        return (yield from client.steps(call))

    def _delete(self, client: AnyClient, names: list[str]) -> Steps[int]:
        call = Commands.drop_entities.build(None, self.queue, names)
        return (yield from client.steps(call))

    def _run_all(self, client: AnyClient, _: list[str]) -> Steps[int]:
        return self._repeated(client, Commands.run_entities.build)

    def _delete_all_failed(self, client: AnyClient, _: list[str]) -> Steps[int]:
        return self._repeated(client, Commands.drop_entities.build)

    def _kill_all_failed(self, client: AnyClient, _: list[str]) -> Steps[int]:
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
