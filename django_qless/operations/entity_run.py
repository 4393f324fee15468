"""Changes of many entities, step by step: those that were chosen, or all of a kind.

An `EntityRun` is an immutable value: each `step` makes a few calls, each of which handles
a bounded number of entities and payloads, and returns the next run. A caller can keep it
between two steps (in a form), and stop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from django_qless.core import BadArgument, arguments
from django_qless.core.commands.entities import MOST_ENTITIES, entity_jid, entity_name

if TYPE_CHECKING:
    from django_qless.core import Client

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
    namespace: str = ""
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
        number = _number(client, checked(change_name), queue)
        return cls(change_name, queue, None, number, finished=not number)

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
        if self.ended:
            return self
        run = CHANGES[self.change_name](self, client)
        if run.entities is None and run.done + run.passed >= run.number:
            return replace(run, finished=True)
        return run

    def _with(self, done: int, *, finished: bool) -> EntityRun:
        return replace(self, done=self.done + done, finished=finished)

    def _run_now(self, client: Client) -> EntityRun:
        done = client.run_entities(self.queue, self.entities or ())
        return self._with(done, finished=self.entities is not None or not done)

    def _delete(self, client: Client) -> EntityRun:
        done = client.drop_entities(self.queue, self.entities or ())
        return self._with(done, finished=self.entities is not None or not done)

    def _delete_dead(self, client: Client) -> EntityRun:
        names = self._dead(client)
        done = client.delete_dead(self.queue, names) if names else 0
        return self._with(done, finished=self.entities is not None or not done)

    def _kill(self, client: Client) -> EntityRun:
        """Kill as many as one call can: one of many payloads takes several steps."""
        before = _waiting(client, self.queue, self._retrying(client))
        if not before or not client.kill_entities(self.queue, before):
            return replace(self, finished=True)
        after = _waiting(client, self.queue, before)
        is_chosen = self.entities is not None
        run = self._with(len(before) - len(after), finished=is_chosen and not after)
        return replace(run, entities=after) if is_chosen else run

    def _bring_back(self, client: Client) -> EntityRun:
        names = self._dead(client)
        if not names:
            return replace(self, finished=True)
        back = client.bring_back(self.queue, names)
        run = self._with(len(back), finished=False)
        left = [name for name in names if name not in set(back)]
        if self.entities is not None:
            run = replace(run, entities=left, finished=not left)
        return run._unstuck(client, left) if left and not back else run

    def _unstuck(self, client: Client, left: list[str]) -> EntityRun:
        """Pass over the first entity if the last step has moved none of its payloads.

        Another job may be in its way. One with many payloads takes several steps.
        """
        dead = client.entity(self.queue, left[0], 0, 1).dead or {}
        now = [left[0], dead.get("payloads", 0)]
        if now != list(self.stuck):
            return replace(self, stuck=now)
        if self.entities is None:
            return replace(self, passed=self.passed + 1, stuck=())
        return replace(self, entities=left[1:], stuck=(), finished=not left[1:])

    def _retrying(self, client: Client) -> list[str]:
        if self.entities is not None:
            return list(self.entities)
        found = client.entities("retrying", self.queue, 0, MOST_ENTITIES)
        return [row["entity"] for row in found.rows]

    def _dead(self, client: Client) -> list[str]:
        if self.entities is not None:
            return list(self.entities)
        found = client.entities("dead-ids", self.queue, self.passed, MOST_ENTITIES)
        return [row["entity"] for row in found.rows]


CHANGES: dict[str, Callable[[EntityRun, Client], EntityRun]] = {
    "run": EntityRun._run_now,
    "kill": EntityRun._kill,
    "delete": EntityRun._delete,
    "revive": EntityRun._bring_back,
    "delete-dead": EntityRun._delete_dead,
}
"""By the names that `qless_entities` has for them. Without names `run` is for all that are
delayed, `kill` and `delete` for all whose last run has failed, the others for the dead."""


def checked(change_name: str) -> str:
    """Return the name of a change. Raises BadArgument for another word."""
    if change_name not in CHANGES:
        raise BadArgument(
            f"verb must be one of {', '.join(CHANGES)}, not "
            f"{arguments.quoted(change_name)}"
        )
    return change_name


def _number(client: Client, change_name: str, queue: str) -> int:
    """Return how many entities of a queue a change is for."""
    if change_name == "run":
        return client.queue_counts(queue).scheduled
    counts = client.entity_counts([queue])[0]
    return counts.retries if change_name in ("kill", "delete") else counts.dead


def _waiting(client: Client, queue: str, names: Sequence[str]) -> list[str]:
    """Return those of these entities that are in the queue, and in no worker's hands."""
    if not names:
        return []
    briefs = client.brief([entity_jid(queue, name) for name in names])
    waiting = {each.jid for each in briefs if each.state in WAITING}
    return [name for name in names if entity_jid(queue, name) in waiting]
