"""How a call becomes a job: now or at the commit, one or many, blocking or asyncio."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import DEFAULT_DB_ALIAS
from django.db import connections as databases
from django.utils.connection import ConnectionDoesNotExist

from django_qless.connections import connections
from django_qless.core import Put, new_jid
from django_qless.core.prepared import PreparedPut
from django_qless.current import running
from django_qless.exceptions import InvalidOption, NotPut, QlessError
from django_qless.handle import JobHandle
from django_qless.options import ONLY_DECLARED
from django_qless.registry import CARRIED, JobType
from django_qless.signals import job_enqueued
from django_qless.values import to_json

if TYPE_CHECKING:
    from django_qless.options import Options

# What one call may name; a job with more dependencies is put open, and then sealed.
MOST_DEPENDENCIES = 1000


class Plan:
    """Everything that the jobs of one `JobFunction` have in common, worked out once."""

    __slots__ = (
        *("_alias", "_database", "_jid", "_job_type", "_prepared", "_run_at"),
        *("_shape", "_staged", "_waits_for"),
    )

    def __init__(self, job_type: JobType, options: Options) -> None:
        self._job_type = job_type
        self._alias = options.alias
        self._jid = options.jid
        self._database = _database(options.on_commit)
        self._run_at = options.run_at.timestamp() if options.run_at else None
        self._waits_for = tuple(h for h in options.after if isinstance(h, JobHandle))
        for handle in self._waits_for:
            if handle.alias != self._alias:
                raise InvalidOption(
                    f"{job_type.name}: job {handle.jid} is in alias {handle.alias!r}; "
                    f"a job in {self._alias!r} cannot depend on it"
                )
        jids = [handle.jid for handle in options.after]
        depends = tuple(dict.fromkeys([*jids, *options.after_jids]))
        # The dependencies that further calls name.
        self._staged = depends[MOST_DEPENDENCIES:]
        self._shape = Put(
            jid="",
            queue=options.queue,
            klass=job_type.name,
            data="",
            delay=options.delay,
            # A new job has 0 without being told, one that is put again keeps its own.
            priority=options.priority if options.jid else options.priority or None,
            retries=options.retries,
            tags=options.tags or (() if options.jid else None),
            depends=depends[:MOST_DEPENDENCIES],
            context=_context(job_type, options),
            open=bool(self._staged),
        )
        self._prepared = PreparedPut(self._shape)

    @property
    def job_type(self) -> JobType:
        """The type of the jobs."""
        return self._job_type

    def put(self, data: str) -> JobHandle[Any]:
        """Put one job, at once or at the commit; return its handle."""
        handle, database = self._handle(self._jid or new_jid(), data)
        if database is None:
            self._send_one(handle)
        else:
            databases[database].on_commit(partial(self._send_one, handle))
        return handle

    async def aput(self, data: str) -> JobHandle[Any]:
        """Put one job from asynchronous code; return its handle."""
        handle, database = self._handle(self._jid or new_jid(), data)
        if database is None:
            await self._asend_one(handle)
        else:
            databases[database].on_commit(partial(self._send_one, handle))
        return handle

    def put_many(self, all_data: list[str]) -> list[JobHandle[Any]]:
        """Put one job for each data, in this order; return their handles."""
        handles, database = self._handles(all_data)
        if database is None:
            self._send_many(handles)
        else:
            databases[database].on_commit(partial(self._send_many, handles))
        return handles

    async def aput_many(self, all_data: list[str]) -> list[JobHandle[Any]]:
        """Put one job for each data from asynchronous code; return their handles."""
        handles, database = self._handles(all_data)
        if database is None:
            await self._asend_many(handles)
        else:
            databases[database].on_commit(partial(self._send_many, handles))
        return handles

    def _handle(self, jid: str, data: str) -> tuple[JobHandle[Any], str | None]:
        database = self._open_transaction()
        pending = database is not None
        return (
            JobHandle.of_put(self._alias, jid, self._now(), data, pending=pending),
            database,
        )

    def _handles(self, all_data: list[str]) -> tuple[list[JobHandle[Any]], str | None]:
        if self._jid is not None and len(all_data) > 1:
            raise InvalidOption(
                f"{self._job_type.name}: jid={self._jid!r} can name one job, not "
                f"{len(all_data)}"
            )
        database = self._open_transaction()
        alias, shape, pending = self._alias, self._now(), database is not None
        return [
            JobHandle.of_put(
                alias, self._jid or new_jid(), shape, data, pending=pending
            )
            for data in all_data
        ], database

    def _open_transaction(self) -> str | None:
        """Return the database whose commit is to be waited for, or None for none.

        Raises NotPut if a job that this one depends on would be put only later.
        """
        database = self._database
        if database is not None:
            try:
                if databases[database].in_atomic_block:
                    return database
            except ConnectionDoesNotExist:
                raise InvalidOption(
                    f"{self._job_type.name}: on_commit={database!r} is not in DATABASES"
                ) from None
        for handle in self._waits_for:
            if handle.pending:
                raise NotPut(
                    f"{self._job_type.name} would be put before job {handle.jid}, on "
                    "which it depends"
                )
        return None

    def _now(self) -> Put:
        """Return the shape of a job that is put now."""
        if self._run_at is None:
            return self._shape
        return self._shape._replace(delay=max(0.0, self._run_at - time.time()))

    def _send_one(self, handle: JobHandle[Any]) -> None:
        client = connections[self._alias]
        prepared = self._prepared if self._run_at is None else PreparedPut(self._now())
        client.run(prepared.call(_worker(), handle.jid, handle.data))
        if self._staged:
            try:
                for chunk in self._chunks():
                    client.depends_on(handle.jid, chunk)
                client.seal(handle.jid)
            except QlessError:
                # All of it or nothing: an open job would wait for ever.
                client.cancel(handle.jid)
                raise
        handle.pending = False
        if job_enqueued.receivers:
            job_enqueued.send(self._job_type, handle=handle)

    async def _asend_one(self, handle: JobHandle[Any]) -> None:
        client = connections.aclient(self._alias)
        prepared = self._prepared if self._run_at is None else PreparedPut(self._now())
        await client.run(prepared.call(_worker(), handle.jid, handle.data))
        if self._staged:
            try:
                for chunk in self._chunks():
                    await client.depends_on(handle.jid, chunk)
                await client.seal(handle.jid)
            except QlessError:
                await client.cancel(handle.jid)
                raise
        handle.pending = False
        if job_enqueued.receivers:
            await job_enqueued.asend(self._job_type, handle=handle)

    def _send_many(self, handles: list[JobHandle[Any]]) -> None:
        if self._staged:
            for handle in handles:
                self._send_one(handle)
            return
        connections[self._alias].put_many(_worker(), self._puts(handles))
        for handle in handles:
            handle.pending = False
        if job_enqueued.receivers:
            for handle in handles:
                job_enqueued.send(self._job_type, handle=handle)

    async def _asend_many(self, handles: list[JobHandle[Any]]) -> None:
        if self._staged:
            for handle in handles:
                await self._asend_one(handle)
            return
        client = connections.aclient(self._alias)
        await client.put_many(_worker(), self._puts(handles))
        for handle in handles:
            handle.pending = False
        if job_enqueued.receivers:
            for handle in handles:
                await job_enqueued.asend(self._job_type, handle=handle)

    def _puts(self, handles: list[JobHandle[Any]]) -> list[Put]:
        shape = self._now()
        # Ten thousand at a time: as tuples they are made in a fifth of the time.
        head, tail = (shape.queue, shape.klass), shape[4:]
        return [Put._make((h.jid, *head, h.data, *tail)) for h in handles]

    def _chunks(self) -> Iterator[tuple[str, ...]]:
        for start in range(0, len(self._staged), MOST_DEPENDENCIES):
            yield self._staged[start : start + MOST_DEPENDENCIES]


def _context(job_type: JobType, options: Options) -> str | None:
    """Return what a call changed of the options that the worker needs, as JSON."""
    declared = job_type.options
    if options is declared:
        return None
    for name in ONLY_DECLARED:
        if getattr(options, name) != getattr(declared, name):
            raise InvalidOption(
                f"{job_type.name}: {name} belongs to the job's code: give it to @job"
            )
    carried = {
        name: getattr(options, name)
        for name in CARRIED
        if getattr(options, name) != getattr(declared, name)
    }
    if callable(carried.get("backoff")):
        raise InvalidOption(
            f"{job_type.name}: a function as backoff cannot travel with the job: give "
            "it to @job, or use a number or a list here"
        )
    return to_json({"options": carried}) if carried else None


def _database(on_commit: bool | str | None) -> str | None:
    if on_commit is False:
        return None
    return on_commit if isinstance(on_commit, str) else DEFAULT_DB_ALIAS


def _worker() -> str:
    """Return who puts: the worker, if a job does, for it may move the job itself."""
    job = running.get()
    return job.worker if job else ""
