"""An environment without Django, for tests that look inside of the worker."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import redis
import redis.asyncio

import tests.worker.jobs  # noqa: F401  known by their names
from django_qless.core import AsyncClient, Client, Reserved
from django_qless.job_types.current import CurrentJob, running
from django_qless.job_types.registry import JobType, registry
from django_qless.worker.environment import Limits
from django_qless.worker.interrupt import (
    TaskScope,
    ThreadScope,
    await_in_context,
)
from tests.worker.ledger import note

if TYPE_CHECKING:
    from collections.abc import Sequence


class PlainEnvironment:
    """Functions by name, arguments as JSON, nothing else.

    `limits`: soft and hard timeout of jobs that have none, by queue. `announcements`:
    a ledger for what would be signals, a line each: what, klass, group. `batches`: one
    for those of batches: what, number of jobs, how many have run.
    """

    def __init__(
        self,
        url: str,
        limits: dict[str, list[float | None]] | None = None,
        announcements: str | None = None,
        batches: str | None = None,
    ) -> None:
        self.url = url
        self.queue_limits = limits or {}
        self.announcements = announcements
        self.batches = batches
        self._client: Client | None = None
        self._aclient: AsyncClient | None = None
        self._threads: ThreadPoolExecutor | None = None

    def check_move(self, current: Any, queue: str) -> None:
        pass

    def has_outbox(self) -> bool:
        return False

    def sweep_outboxes(self) -> None:
        raise NotImplementedError

    def on_start(self) -> None:
        pass

    def restore_lost_config(self) -> None:
        pass

    def preload(self) -> None:
        pass

    def resolve(self, klass: str) -> JobType | None:
        return registry.get(klass)

    def has_detached_jobs(self) -> bool:
        return False

    def detached_limit(self, queue: str) -> int:
        return 1

    def limits(self, job_type: JobType, reserved: Reserved) -> Limits:
        options = job_type.options_for(reserved.context)
        soft, hard = self.queue_limits.get(reserved.queue, (None, None))
        return Limits(options.timeout or soft, options.hard_timeout or hard)

    def run(self, job_type: JobType, reserved: Reserved, current: CurrentJob) -> object:
        if job_type.is_async:
            return asyncio.run(self.arun(job_type, reserved, current))
        return copy_context().run(self._run, job_type, reserved, current)

    def _run(
        self, job_type: JobType, reserved: Reserved, current: CurrentJob
    ) -> object:
        running.set(current)
        args = args_of(reserved, current)
        soft = self.limits(job_type, reserved).soft
        return ThreadScope(reserved.token, soft).run(job_type.function, *args)

    async def arun(
        self, job_type: JobType, reserved: Reserved, current: CurrentJob
    ) -> object:
        if not job_type.is_async:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(1000)
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(
                self._threads, self.run, job_type, reserved, current
            )
        context = copy_context()
        context.run(running.set, current)
        args = args_of(reserved, current)
        region = TaskScope(reserved.token, self.limits(job_type, reserved).soft)
        return await region.run(await_in_context(context, job_type.function(*args)))

    def encode_result(self, value: object) -> str:
        return "" if value is None else json.dumps(value, ensure_ascii=False)

    def opened(self, reserved: Reserved) -> Reserved:
        return reserved

    def sealed(self, text: str) -> str:
        return text

    def has_listeners(self, what: str) -> bool:
        return bool(what) and self.announcements is not None

    def announce(self, what: str, current: CurrentJob, **details: object) -> None:
        assert self.announcements is not None
        note(self.announcements, what, current.name, details.get("group", "-"))

    async def aannounce(
        self, what: str, current: CurrentJob, **details: object
    ) -> None:
        self.announce(what, current, **details)

    def has_batch_listeners(self) -> bool:
        return self.batches is not None

    def announce_batch(
        self, what: str, jobs: Sequence[CurrentJob], worker: str, **details: int
    ) -> None:
        assert self.batches is not None
        note(self.batches, what, len(jobs), details.get("ran", "-"))

    def announce_exhausted(self, klass: str, batch: Any, errors: Any) -> None:
        if self.announcements:
            told = [
                f"{entity}={','.join(str(payload['n']) for payload in payloads)}"
                for entity, payloads in sorted(batch.items())
            ]
            note(self.announcements, "exhausted", klass, *told)

    def announce_worker(self, what: str, worker: str) -> None:
        if self.announcements is not None:
            note(self.announcements, "worker", what)

    def client(self, alias: str) -> Client:
        if self._client is None:
            self._client = Client(redis.Redis.from_url(self.url))
        return self._client

    def aclient(self, alias: str) -> AsyncClient:
        if self._aclient is None:
            server = redis.asyncio.Redis.from_url(self.url)
            self._aclient = AsyncClient(server)
        return self._aclient

    def before_fork(self) -> None:
        if self._client:
            self._client.close()

    def after_fork(self) -> None:
        self._client = self._aclient = self._threads = None

    def leave_thread(self) -> None:
        pass


def args_of(reserved: Reserved, current: CurrentJob) -> Any:
    """Return the arguments of a job; of one of entities {entity: payloads}."""
    if not reserved.batch:
        return json.loads(reserved.data).get("args", ())
    data = [json.loads(job.data) for job in (reserved, *current.companions)]
    return [{each["entity"]: each["payloads"] for each in data}]
