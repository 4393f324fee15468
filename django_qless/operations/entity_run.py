"""Changes of many entities, step by step: those that were chosen, or all of a kind.

An `EntityRun` is an immutable value: each `step` makes a few calls, each of which handles
a bounded number of entities and payloads, and returns the next run. A caller can keep it
between two steps (in a form), and stop; `changed` goes on to the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from django_qless.core import BadArgument, arguments
from django_qless.core.commands.entities import (
    ENTITY_JID,
    MOST_ENTITIES,
    entity_jid,
    entity_name,
)
from django_qless.core.request import Steps, drive

if TYPE_CHECKING:
    from django_qless.core import Client
    from django_qless.core.commands.entities import EntityList

WAITING = ("waiting", "scheduled", "stalled")
"""The states in which an entity is in no worker's hands."""


@dataclass(frozen=True)
class EntityRun:
    """The progress of a change of entities. Each step returns the next run."""

    change_name: str
    """One of CHANGES."""
    queue: str
    entities: Sequence[str] | None
    """Chosen ones that are still to be changed; None: all that the change is for."""
    number: int
    """Entities at the beginning."""
    chosen: Sequence[str] | None = None
    """Those that were chosen at the beginning."""
    done: int = 0
    passed: int = 0
    """Entities that were left alone, as they could not be changed."""
    stuck: Sequence[Any] = ()
    """The first entity and its payloads, if the last step has not finished with it."""
    value: None = None
    rate: None = None
    finished: bool = False
    stopped: bool = False

    exact = True
    passes = 0
    pause = 0.0
    refused = refusals = 0
    reasons = jids = lately = ()
    selection = None
    """What runs of jobs have beside it, as templates ask for it."""

    @classmethod
    def on(cls, change_name: str, queue: str, entities: Sequence[str]) -> EntityRun:
        """Return the run on entities that were chosen. Raises BadArgument."""
        checked(change_name)
        names = list(dict.fromkeys(map(entity_name, entities)))
        if len(names) > MOST_ENTITIES:
            raise BadArgument(
                f"{len(names):,} entities are selected, at most {MOST_ENTITIES:,} can be"
            )
        return cls(change_name, queue, names, len(names), chosen=names)

    @classmethod
    def on_all(cls, client: Client, change_name: str, queue: str) -> EntityRun:
        """Return the run on all entities of a queue that the change is for."""
        return drive(_run_on_all(client, checked(change_name), queue))

    @property
    def total(self) -> int:
        """Entities that the run goes through."""
        return self.number

    @property
    def progress(self) -> int:
        """The progress, of `total`."""
        return self.number if self.finished else min(self.done, self.number)

    @property
    def ended(self) -> bool:
        """True if no other step will follow."""
        return self.finished or self.stopped

    @property
    def left_alone(self) -> int:
        """Entities that a finished run has not changed."""
        return max(0, self.number - self.done) if self.finished else 0

    def as_dict(self) -> dict[str, Any]:
        """Return the run as JSON values, from which `EntityRun(**values)` continues."""
        return asdict(self)

    def step(self, client: Client, now: float) -> EntityRun:
        """Change some entities; return the run after it. Raises QlessError.

        A run on all ends when it has changed as many as there were at the beginning, so
        that entities which come back meanwhile are not changed for ever.
        """
        return drive(self.steps(client))

    def steps(self, client: Any) -> Steps[EntityRun]:
        """Return the steps of `step`, with a Client or an AsyncClient."""
        if self.ended:
            return self
        run = yield from CHANGES[self.change_name](self, client)
        if run.entities is None and run.done + run.passed >= run.number:
            return replace(run, finished=True)
        return run

    def _with(self, done: int, *, finished: bool) -> EntityRun:
        return replace(self, done=self.done + done, finished=finished)

    def _after(self, done: int) -> EntityRun:
        """Return the run after a call that changes what it can of all at once."""
        return self._with(done, finished=self.entities is not None or not done)

    def _run_now(self, client: Any) -> Steps[EntityRun]:
        """Let the first of the chosen ones run, or of all that are delayed."""
        if self.entities is None:
            jids = yield client.jobs("scheduled", self.queue, 0, MOST_ENTITIES)
            jids = [jid for jid in jids if jid.startswith(ENTITY_JID)]
        else:
            jids = [entity_jid(self.queue, name) for name in self.entities]
        part = jids[:MOST_ENTITIES]
        done = len((yield client.run_each(part)).done) if part else 0
        if self.entities is None:
            return self._with(done, finished=not done)
        left = self.entities[MOST_ENTITIES:]
        return replace(self._with(done, finished=not left), entities=left)

    def _delete(self, client: Any) -> Steps[EntityRun]:
        done = yield client.drop_entities(self.queue, self.entities or ())
        return self._after(done)

    def _delete_dead(self, client: Any) -> Steps[EntityRun]:
        names = yield from self._listed(client, "oldest-dead")
        done = (yield client.delete_dead(self.queue, names)) if names else 0
        return self._after(done)

    def _kill(self, client: Any) -> Steps[EntityRun]:
        """Kill as many as one call can: one of many payloads takes several steps."""
        names = yield from self._listed(client, "retrying")
        part, left = names[:MOST_ENTITIES], names[MOST_ENTITIES:]
        before = yield from _waiting(client, self.queue, part)
        if before and (yield client.kill_entities(self.queue, before)):
            after = yield from _waiting(client, self.queue, before)
            left = after + left
            run = self._with(len(before) - len(after), finished=False)
        else:
            run = self._with(0, finished=True)
        if self.entities is not None:
            run = replace(run, entities=left, finished=not left)
        return run

    def _bring_back(self, client: Any) -> Steps[EntityRun]:
        names = yield from self._listed(client, "oldest-dead")
        if not names:
            return replace(self, finished=True)
        part, rest = names[:MOST_ENTITIES], names[MOST_ENTITIES:]
        back = set((yield client.bring_back(self.queue, part)))
        run = self._with(len(back), finished=False)
        left = [name for name in part if name not in back] + rest
        if self.entities is not None:
            run = replace(run, entities=left, finished=not left)
        if left and not back:
            run = yield from run._unstuck(client, left)
        return run

    def _unstuck(self, client: Any, left: list[str]) -> Steps[EntityRun]:
        """Pass over the first entity if the last step has moved none of its payloads.

        Another job may be in its way. One with many payloads takes several steps.
        """
        dead = (yield client.entity(self.queue, left[0], 0, 1)).dead or {}
        now = [left[0], dead.get("payloads", 0)]
        if now != list(self.stuck):
            return replace(self, stuck=now)
        if self.entities is None:
            return replace(self, passed=self.passed + 1, stuck=())
        return replace(self, entities=left[1:], stuck=(), finished=not left[1:])

    def _listed(self, client: Any, which: EntityList) -> Steps[list[str]]:
        """Return the chosen entities; without any the first ones of a list."""
        if self.entities is not None:
            return list(self.entities)
        found = yield client.entities(which, self.queue, self.passed, MOST_ENTITIES)
        return [row["entity"] for row in found.rows]


CHANGES: dict[str, Callable[[EntityRun, Any], Steps[EntityRun]]] = {
    "run": EntityRun._run_now,
    "kill": EntityRun._kill,
    "delete": EntityRun._delete,
    "revive": EntityRun._bring_back,
    "delete-dead": EntityRun._delete_dead,
}
"""By the names that `qless_entities` has for them. Without names `run` is for all that are
delayed, `kill` and `delete` for all whose last run has failed, the others for the dead."""


def changed(
    client: Any, change_name: str, queue: str, entities: Sequence[str]
) -> Steps[int]:
    """Change these entities of a queue, any number, or all; return how many were changed."""
    if entities:
        names = list(dict.fromkeys(entities))
        run = EntityRun(change_name, queue, names, len(names))
    else:
        run = yield from _run_on_all(client, change_name, queue)
    while not run.ended:
        run = yield from run.steps(client)
    return run.done


def checked(change_name: str) -> str:
    """Return the name of a change. Raises BadArgument for another word."""
    if change_name not in CHANGES:
        raise BadArgument(
            f"verb must be one of {', '.join(CHANGES)}, not "
            f"{arguments.quoted(change_name)}"
        )
    return change_name


def _run_on_all(client: Any, change_name: str, queue: str) -> Steps[EntityRun]:
    """Return the run on all entities of a queue that a change is for."""
    [counts] = yield client.entity_counts([queue])
    if change_name == "run":
        number = counts.delayed
    else:
        is_of_failed = change_name in ("kill", "delete")
        number = counts.retries if is_of_failed else counts.dead
    return EntityRun(change_name, queue, None, number, finished=not number)


def _waiting(client: Any, queue: str, names: Sequence[str]) -> Steps[list[str]]:
    """Return those of these entities that are in the queue, and in no worker's hands."""
    if not names:
        return []
    briefs = yield client.brief([entity_jid(queue, name) for name in names])
    waiting = {each.jid for each in briefs if each.state in WAITING}
    return [name for name in names if entity_jid(queue, name) in waiting]
