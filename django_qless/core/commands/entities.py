"""Commands about entities: pushing payloads, showing them, and the dead."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from .. import arguments
from ..exceptions import BadArgument
from ..protocol import Argument
from ..request import Command, CommandSequence, command, concatenate, read_list

#: The most payloads, and about the most bytes, of one command.
MOST_PAYLOADS, MOST_BYTES = 1000, 900_000

#: The most entities that one command names.
MOST_ENTITIES = 250

#: The longest id of an entity, in bytes.
ENTITY_BYTES = 255

EntityList = Literal["fresh", "retrying", "running", "dead", "oldest-dead"]


class Payload(NamedTuple):
    """A payload to push onto an entity."""

    entity: str
    #: The envelope of the entity's job: a JSON object with at least one member.
    data: str
    #: JSON text; equal texts are one payload.
    payload: str
    #: Lower ones come first; None: the server's time.
    score: float | None = None
    #: When the entity may run (seconds of the epoch), if it is not queued yet; None: now.
    due: float | None = None


class EntityCounts(NamedTuple):
    """The figures of a queue with entities."""

    queue: str
    #: The job type that they belong to.
    klass: str
    #: Waiting or delayed: `fresh` and `retries` together. (Other jobs of the queue count.)
    queued: int
    fresh: int
    #: Those whose last run has failed.
    retries: int
    #: In the hands of workers.
    busy: int
    dead: int
    #: How long the oldest due one has waited, in seconds.
    lag: float
    #: Runs of the last hour that ended well, and payloads that died.
    processed: int
    failed: int
    #: Queued ones that may run later only.
    delayed: int


@dataclass(frozen=True, slots=True)
class EntityRecord:
    """An entity: its job, its payloads, and what of it is dead."""

    entity: str
    jid: str
    queue: str
    #: Its job's members (state, count, due, payloads, taken, failure …); None: not queued.
    job: dict[str, Any] | None
    #: Members of the dead one (group, message, when, payloads); None: it is not dead.
    dead: dict[str, Any] | None
    #: Scores and payloads, in order: those that wait, of the present run, dead ones.
    waiting: list[tuple[str, Any]]
    running: list[tuple[str, Any]]
    dying: list[tuple[str, Any]]


class EntityRows(NamedTuple):
    """A part of a list of entities, and how long the whole list is."""

    total: int
    rows: list[dict[str, Any]]


#: How the ids of jobs that carry entities begin.
ENTITY_JID = "entity-"


def entity_jid(queue: str, entity: str) -> str:
    """Return the id of the job that carries an entity of a queue."""
    text = f"{queue}\0{entity}".encode()
    return f"{ENTITY_JID}{hashlib.sha1(text, usedforsecurity=False).hexdigest()}"


class EntityCommands:
    """Commands about entities."""

    @command
    def push(
        self,
        worker: str,
        queue: str,
        klass: str,
        payloads: Sequence[Payload],
        *,
        priority: int | float = 0,
        retries: int = 5,
        tags: Sequence[str] | None = None,
        context: str | None = None,
        batch: int = 1,
        known: Sequence[str] = (),
    ) -> CommandSequence[int]:
        """Push payloads onto entities; an entity that is in no queue gets into this one.

        `batch` is how many entities a run may have, `known` former names of `klass`. Each
        thousand payloads, or MiB, is one command: pushed whole, or not at all. Returns how
        many are new. Raises WrongState if the queue has entities of another job type.
        """
        options: list[Argument] = ["priority", arguments.number("priority", priority)]
        options += ["retries", retries, "batch", batch]
        if tags:
            options += ["tags", json.dumps(list(tags))]
        if context is not None:
            options += ["context", context]
        if known:
            options += ["known", json.dumps(list(known))]
        parts: list[Command[int]] = []
        sizes = []
        for part in _parts(payloads):
            head: tuple[Argument, ...] = (worker, queue, klass, len(part))
            items = [field for each in part for field in _fields(each)]
            parts.append(Command("push", (*head, *items, *options), "write"))
            sizes.append(len(part))
        return CommandSequence(tuple(parts), tuple(sizes), sum)

    @command
    def entity(
        self, queue: str, entity: str, offset: int = 0, count: int = 25
    ) -> Command[EntityRecord]:
        """Return an entity, with `count` payloads of each kind from `offset` on."""
        args = (queue, entity_name(entity), offset, count)
        return Command("entity.show", args, "read", _read_entity)

    @command
    def entities(
        self, which: EntityList, queue: str, offset: int = 0, count: int = 25
    ) -> Command[EntityRows]:
        """Return a part of a list: fresh, retrying, running, dead or oldest-dead.

        The next to run come first; of the dead the latest, or the oldest. Other jobs of
        the queue count in the total, and have no row. Of an error a row has the line that
        names it; `entity` has all. Of very many the first 5,000 of each kind are listed.
        """
        args = (which, queue, offset, count)
        return Command("entities.list", args, "read", _read_rows)

    @command
    def entity_counts(self, queues: Sequence[str] = ()) -> Command[list[EntityCounts]]:
        """Return the figures of these queues, or of all that have entities."""
        return Command("entities.counts", tuple(queues), "read", _read_counts)

    @command
    def bring_back(
        self, queue: str, entities: Sequence[str]
    ) -> CommandSequence[list[str]]:
        """Bring dead entities back into their queue; return those dead no more.

        A command moves a thousand payloads: what it leaves out is to be asked for again.
        """
        return _named("dead.back", queue, entities, "write", concatenate)

    @command
    def delete_dead(self, queue: str, entities: Sequence[str]) -> CommandSequence[int]:
        """Delete dead entities; return how many were dead."""
        return _named("dead.delete", queue, entities, "drain", sum)

    @command
    def kill_entities(
        self, queue: str, entities: Sequence[str] = ()
    ) -> CommandSequence[int]:
        """Move these entities to the dead, or some of those whose last run has failed.

        A command moves a thousand payloads. Returns how many were changed: repeat it
        until that is 0.
        """
        return _named("entities.kill", queue, entities, "write", sum)

    @command
    def drop_entities(
        self, queue: str, entities: Sequence[str] = ()
    ) -> CommandSequence[int]:
        """Delete these entities, or up to 250 of those whose last run has failed.

        Their payloads go with them; those in the hands of workers are left alone. Returns
        how many were deleted.
        """
        return _named("entities.drop", queue, entities, "drain", sum)


def entity_name(entity: str) -> str:
    """Return the id of an entity. Raises BadArgument for what cannot be one."""
    if type(entity) is not str or not 0 < len(entity.encode()) <= ENTITY_BYTES:
        raise BadArgument(
            f"an entity must be a text of 1 to {ENTITY_BYTES} bytes, not "
            f"{arguments.quoted(entity)}"
        )
    return entity


def _fields(each: Payload) -> tuple[Argument, ...]:
    score = "" if each.score is None else repr(float(each.score))
    due = "" if each.due is None else repr(float(each.due))
    return entity_name(each.entity), each.data, each.payload, score, due


def _parts(payloads: Sequence[Payload]) -> Iterator[list[Payload]]:
    part: list[Payload] = []
    size = 0
    for each in payloads:
        more = 4 * (len(each.payload) + len(each.data) + len(each.entity)) // 3 + 50
        if not each.payload.isascii():
            more += 2 * len(each.payload)
        if part and (len(part) == MOST_PAYLOADS or size + more > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(each)
        size += more
    if part:
        yield part


def _named(
    name: str, queue: str, entities: Sequence[str], kind: Any, combine: Any
) -> CommandSequence[Any]:
    names = list(map(entity_name, entities))
    cut = range(0, max(len(names), 1), MOST_ENTITIES)
    parts = [names[at : at + MOST_ENTITIES] for at in cut]
    return CommandSequence(
        tuple(Command(name, (queue, *part), kind) for part in parts),
        tuple(map(len, parts)),
        combine,
    )


def _read_entity(reply: str) -> EntityRecord:
    members = json.loads(reply)
    for part in ("waiting", "running", "dying"):
        members[part] = [(score, payload) for score, payload in members[part]]
    return EntityRecord(**members)


def _read_rows(reply: str) -> EntityRows:
    members = json.loads(reply)
    return EntityRows(members["total"], members["entities"])


def _read_counts(reply: str) -> list[EntityCounts]:
    return [EntityCounts(**members) for members in read_list(reply)]
