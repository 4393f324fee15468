"""The methods of a job function of entities: they push payloads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

from django_qless.enqueue import dispatch, entities
from django_qless.job_types.registry import Binding, JobType
from django_qless.serialization import envelope

if TYPE_CHECKING:
    from datetime import datetime

    from django.db.models import Model

    from django_qless.enqueue.plan import EnqueuePlan
    from django_qless.job_types.entity import EntityHandle
    from django_qless.job_types.options import Options


class PushMethods:
    """The methods of a job function for entities."""

    job_type: JobType | None
    options: Options
    _instance: Model | None
    _plan: EnqueuePlan | None

    def push(
        self,
        /,
        *args: Any,
        score: float | datetime | None = None,
        run_at: datetime | None = None,
    ) -> EntityHandle:
        """Push a payload onto an entity: `.push(entity, payload)`; return its handle.

        On a row the row is the entity: `order.sync.push(payload)`. `score` orders the
        payloads, lowest first (default: the server's time); `run_at` counts if the entity
        is not queued yet. Waits for the commit as `.delay()` does. Raises InvalidOption,
        UnserialisableArgument, WrongState.
        """
        self._check_pushed(args)
        return self._push([(*args, score, run_at)])[0]

    async def apush(
        self,
        /,
        *args: Any,
        score: float | datetime | None = None,
        run_at: datetime | None = None,
    ) -> EntityHandle:
        """Push a payload onto an entity, from asynchronous code."""
        self._check_pushed(args)
        return (await self._apush([(*args, score, run_at)]))[0]

    def push_many(self, items: Iterable[Any], /) -> list[EntityHandle]:
        """Push many payloads in few calls; return the handles of their entities.

        An item is (entity, payload[, score[, run_at]]), or a dict of these. Of a method of
        rows the row stands for the entity; on a row itself the items are payloads.
        """
        return self._push(self._items(items))

    async def apush_many(self, items: Iterable[Any], /) -> list[EntityHandle]:
        """Push many payloads, from asynchronous code."""
        return await self._apush(self._items(items))

    def _push(self, items: Iterable[tuple[Any, ...]]) -> list[EntityHandle]:
        batch, transaction = self._pushing(items)
        if batch.payloads:
            dispatch.send(batch, transaction)
        return batch.entities

    async def _apush(self, items: Iterable[tuple[Any, ...]]) -> list[EntityHandle]:
        if self._uses_outbox:
            return await sync_to_async(self._push)(items)
        batch, transaction = self._pushing(items)
        if batch.payloads:
            await dispatch.asend(batch, transaction)
        return batch.entities

    def _check_pushed(self, args: tuple[Any, ...]) -> None:
        """Raise TypeError unless these are an entity and a payload; on a row, a payload."""
        (self._plan or self._bound_plan())
        wanted = 2 if self._instance is None else 1
        if len(args) != wanted:
            what = "an entity and a payload" if wanted == 2 else "a payload"
            raise TypeError(
                f"{self.name}: push takes {what}, not {len(args)} arguments"
            )

    def _items(self, items: Iterable[Any]) -> Iterable[tuple[Any, ...]]:
        if self._instance is not None:
            return [(payload, None, None) for payload in items]
        (self._plan or self._bound_plan())
        return entities.items_of(self.name, items)

    def _pushing(
        self, items: Iterable[tuple[Any, ...]]
    ) -> tuple[entities.PushBatch, str | None]:
        """Return the batch of these payloads, and the database whose commit it awaits."""
        plan = self._plan or self._bound_plan()
        return entities.batch_of(plan, self.options, map(self._pushed_item, items))

    def _pushed_item(self, item: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return row part, entity, payload, score and run_at."""
        job_type: JobType = self.job_type  # type: ignore[assignment]
        if job_type.binding is not Binding.ROW or not self.options.entity:
            return ("", *item) if self._instance is None else ("", "", *item)
        row = item if self._instance is None else (self._instance, *item)
        rest, part = self._on_row(row) if self._instance is None else (item, "")
        if not part:
            part = envelope.reference(job_type.name, self._instance, job_type.owner)  # type: ignore[arg-type]
        instance: Any = row[0]
        database = instance._state.db or "default"
        entity = (
            str(instance.pk) if database == "default" else f"{database}:{instance.pk}"
        )
        return (part, entity, *rest)

    if TYPE_CHECKING:  # the job function has these

        @property
        def name(self) -> str: ...
        @property
        def _uses_outbox(self) -> bool: ...
        def _bound_plan(self) -> EnqueuePlan: ...
        def _on_row(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], str]: ...
