"""Pushing payloads onto entities: what `.push()` sends, at once or on commit."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django_qless.conf import times
from django_qless.core import BadArgument, Client, WrongState
from django_qless.core.commands.entities import ENTITY_BYTES, Payload
from django_qless.core.replication import LateReplicas
from django_qless.core.request import Steps
from django_qless.enqueue.dispatchable import Dispatchable
from django_qless.enqueue.request import running_worker
from django_qless.exceptions import InvalidOption
from django_qless.job_types.entity import EntityHandle
from django_qless.job_types.redaction import mark_of_entity
from django_qless.outbox.delivery import through
from django_qless.serialization import envelope
from django_qless.serialization.derived_types import name_text

if TYPE_CHECKING:
    from django_qless.enqueue.plan import EnqueuePlan
    from django_qless.job_types.options import Options
    from django_qless.outbox.delivery import Delivery

logger = logging.getLogger("django_qless")

MOST_WHOLE = 2**53


@dataclass(slots=True, eq=False)
class PushBatch(Dispatchable):
    """Payloads that are pushed together, in calls of a thousand."""

    plan: EnqueuePlan
    options: Options
    payloads: list[Payload]
    entities: list[EntityHandle]
    context: str | None = None
    through: Delivery | None = None
    """The delivery that its calls are, if it comes out of an outbox."""

    @property
    def outbox(self) -> bool:
        """True if it waits for a commit in the outbox."""
        return self.plan.outbox

    @property
    def awaiting(self) -> list[EntityHandle]:
        """The handles of the entities."""
        return self.entities

    @property
    def title(self) -> str:
        """What it is, for people."""
        return f"{len(self.payloads)} × payload of {self.plan.job_type.name}"

    def mark_enqueued(self) -> None:
        """Note that the payloads are pushed."""
        for handle in self.entities:
            handle.pending = False

    @property
    def alias(self) -> str:
        """The alias of QLESS that it goes to."""
        return self.entities[0].alias

    def send_on_commit(self) -> None:
        """Push the payloads on commit. What is refused there is logged, not raised."""
        try:
            self.send()
        except (WrongState, BadArgument) as error:
            logger.error(
                "payloads of %s for %s were not pushed on commit: %s",
                self.plan.job_type.name,
                ", ".join(handle.entity for handle in self.entities[:10]),
                error,
            )

    def _request(self) -> Any:
        options, job_type = self.options, self.plan.job_type
        return Client.push.build(
            None,
            running_worker(),
            options.queue,
            job_type.name,
            self.payloads,
            priority=options.priority,
            retries=options.retries,
            tags=options.tags,
            context=self.context,
            batch=options.batch_size,
            known=job_type.aliases,
        )

    def _sending(self, client: Any, announce: Callable[..., Any]) -> Steps[None]:
        late = LateReplicas(through(self.through, client))
        yield late.run(self._request())
        self.mark_enqueued()
        late.check(self.entities)


def batch_of(
    plan: EnqueuePlan, options: Options, items: Iterable[tuple[Any, ...]]
) -> tuple[PushBatch, str | None]:
    """Return the batch to push, and the database whose commit it awaits.

    An item is: row part of the envelope or "", entity, payload, score, run_at. Raises
    InvalidOption and UnserialisableArgument, before anything is pushed.
    """
    whose = plan.job_type.name
    if not options.entity:
        raise InvalidOption(
            f"{whose}: push needs a job of entities: write @job(entity=True), or enqueue "
            "the job with .delay(…)"
        )
    payloads: list[Payload] = []
    handles: dict[str, EntityHandle] = {}
    databases: set[str] = set()
    mark = mark_of_entity(plan.job_type)
    alias = plan.alias
    for row, entity, payload, score, run_at in items:
        text = entity_text(whose, entity)
        head = envelope.entity_head(
            entity if is_number(entity) and not row else text, row + mark
        )
        databases.update(envelope.databases_of(head))
        payloads.append(
            Payload(
                text,
                head,
                envelope.payload_text(whose, payload),
                checked_score(whose, score),
                due_of(whose, run_at),
            )
        )
        handles[text] = EntityHandle(alias, options.queue, text)
    transaction = plan.open_transaction(databases) if payloads else None
    for handle in handles.values():
        handle.pending = bool(transaction)
    context = plan.captured_context(alias)
    batch = PushBatch(plan, options, payloads, list(handles.values()), context)
    return batch, transaction


def entity_text(whose: str, entity: object) -> str:
    """Return the id of an entity as text. Raises InvalidOption, which names it."""
    if isinstance(entity, str) or is_number(entity):
        text = name_text(entity)
        # Half of a surrogate pair is no text.
        with contextlib.suppress(UnicodeEncodeError):
            if 0 < len(text.encode()) <= ENTITY_BYTES:
                return text
    raise InvalidOption(
        f"{whose}: an entity is named by a number or a text of 1 to {ENTITY_BYTES} bytes, "
        f"not {entity!r:.100}: give its id, or str(…) of it"
    )


def is_number(value: object) -> bool:
    """Return whether this is a finite number; True and False are none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return isinstance(value, int) or math.isfinite(value)


def checked_score(whose: str, score: object) -> float | None:
    """Return a score that orders payloads; None: the server's time."""
    if score is None:
        return None
    if isinstance(score, datetime):
        return _seconds_of(whose, "score", score)
    if not is_number(score):
        raise InvalidOption(
            f"{whose}: score must be a finite number, such as a version, not "
            f"{score!r:.100}"
        )
    if isinstance(score, int) and abs(score) > MOST_WHOLE:
        raise InvalidOption(
            f"{whose}: score={score!r:.100} is beyond 2**53, where whole numbers are not told "
            "apart any more: use a smaller version number"
        )
    return float(score)  # type: ignore[arg-type]


def due_of(whose: str, run_at: object) -> float | None:
    """Return when an entity may run, in seconds of the epoch; None: at once."""
    if run_at is None:
        return None
    if not isinstance(run_at, datetime):
        raise InvalidOption(f"{whose}: run_at must be a datetime, not {run_at!r:.100}")
    return _seconds_of(whose, "run_at", run_at)


def _seconds_of(whose: str, name: str, moment: datetime) -> float:
    try:
        return times.in_utc(moment).timestamp()
    except times.UnclearTime as error:
        raise InvalidOption(
            f"{whose}: {name} must be {error}, not {moment!r}"
        ) from None


def items_of(whose: str, items: Iterable[Any]) -> Iterable[tuple[Any, ...]]:
    """Yield entity, payload, score and run_at of the items of `push_many`."""
    for item in items:
        if isinstance(item, Mapping):
            unknown = item.keys() - {"entity", "payload", "score", "run_at"}
            if unknown or not {"entity", "payload"} <= item.keys():
                raise InvalidOption(
                    f"{whose}: an item of push_many has entity, payload, score and run_at, "
                    f"not {item!r:.100}"
                )
            yield (
                item["entity"],
                item["payload"],
                item.get("score"),
                item.get("run_at"),
            )
        elif isinstance(item, (tuple, list)) and 2 <= len(item) <= 4:
            yield (*item, *(None,) * (4 - len(item)))
        else:
            raise InvalidOption(
                f"{whose}: an item of push_many is (entity, payload[, score[, run_at]]), "
                f"not {item!r:.100}"
            )
