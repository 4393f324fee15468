"""Entities of a queue as operators see them: lists, the dead, runs now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django_qless import conf
from django_qless.conf import DEFAULT_ALIAS, routing
from django_qless.conf.connections import connections
from django_qless.conf.each import answers, ask_each
from django_qless.core import Client
from django_qless.core.commands.entities import (
    MOST_ENTITIES,
    EntityCounts,
    EntityList,
    EntityRows,
)
from django_qless.job_types.entity import EntityHandle

#: Rounds after which a change of all stops, though others may have come meanwhile.
MOST_ROUNDS = 100_000


class QueueEntities:
    """The entities of one queue: `entities["orders"]`."""

    def __init__(self, alias: str, queue: str) -> None:
        self.alias = alias
        self.queue = queue

    def __getitem__(self, entity: Any) -> EntityHandle:
        """Return the handle of an entity, refreshed."""
        return EntityHandle(self.alias, self.queue, str(entity)).refresh()

    @property
    def counts(self) -> EntityCounts:
        """The figures of the queue, as of now."""
        return self._client.entity_counts([self.queue])[0]

    def rows(self, which: EntityList, offset: int = 0, count: int = 25) -> EntityRows:
        """Return some of the fresh, retrying, running or dead; dead-ids: by their ids."""
        return self._client.entities(which, self.queue, offset, count)

    def dead_ids(self) -> Iterator[str]:
        """Yield the ids of all dead entities, in their order."""
        offset = 0
        while found := self.rows("dead-ids", offset, MOST_ENTITIES).rows:
            yield from (row["entity"] for row in found)
            offset += len(found)

    def bring_back(self, *entities: Any) -> int:
        """Bring these dead entities back, all without arguments; return how many."""
        left = list(map(str, entities)) or list(self.dead_ids())
        wanted = len(left)
        before = -1
        while left:
            part = left[:MOST_ENTITIES]
            done = set(self._client.bring_back(self.queue, part))
            now = sum(self[entity].dead_count for entity in part[:1])
            left = [entity for entity in left if entity not in done]
            if not done and now == before:
                left = left[1:]  # another job is in the way of this one
                wanted -= 1
            before = now
        return wanted

    def delete_dead(self, *entities: Any) -> int:
        """Delete these dead entities, all without arguments; return how many."""
        names = list(map(str, entities)) or list(self.dead_ids())
        return self._client.delete_dead(self.queue, names) if names else 0

    def run_all_now(self) -> int:
        """Let all delayed entities run now; return how many."""
        return self._repeated(self._client.run_entities)

    def kill_all_failed(self) -> int:
        """Move all whose last run has failed to the dead; return how many there were."""
        total = self.counts.retries
        self._repeated(self._client.kill_entities)
        return total

    def delete_all_failed(self) -> int:
        """Delete all whose last run has failed, with their payloads; return how many."""
        return self._repeated(self._client.drop_entities)

    def run_now(self, *entities: Any) -> int:
        """Let these run now; return how many were delayed."""
        return self._client.run_entities(self.queue, self._named(entities))

    def kill(self, *entities: Any) -> int:
        """Move these to the dead, those in the hands of workers excepted."""
        changed, names = 0, self._named(entities)
        while done := self._client.kill_entities(self.queue, names):
            changed = max(changed, done)
        return changed

    def delete(self, *entities: Any) -> int:
        """Delete these with their payloads, those in the hands of workers excepted."""
        return self._client.drop_entities(self.queue, self._named(entities))

    def _named(self, entities: Sequence[Any]) -> list[str]:
        if not entities:
            raise ValueError("name at least one entity")
        return list(map(str, entities))

    def _repeated(self, change: Any) -> int:
        total = 0
        for _ in range(MOST_ROUNDS):
            done = change(self.queue)
            if not done:
                break
            total += done
        return total

    @property
    def _client(self) -> Client:
        return connections[self.alias]


class AllEntities:
    """All queues with entities of an alias: `entities`."""

    def __init__(self, alias: str = DEFAULT_ALIAS) -> None:
        self.alias = alias

    def using_alias(self, alias: str) -> AllEntities:
        """Return those of another alias."""
        return AllEntities(alias)

    def __getitem__(self, queue: str) -> QueueEntities:
        return QueueEntities(routing.queue_namespace(self.alias, queue), queue)

    def counts(self) -> list[EntityCounts]:
        """Return the figures of all queues that have, or had, entities."""
        names = conf.namespaces_of(self.alias)
        found = answers(ask_each(names, lambda client: client.entity_counts()))
        return [counts for each in found for counts in each]


entities = AllEntities()
