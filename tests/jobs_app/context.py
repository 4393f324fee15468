"""Context propagators that the tests name in CONTEXT."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any

from django_qless.enqueue.context_propagation import enqueueing

#: Whose data is being worked on.
tenant: ContextVar[str | None] = ContextVar("tenant", default=None)

#: What propagators did, in order.
seen: list[str] = []


class Tenant:
    """A class without a name of its own."""

    def capture(self) -> str | None:
        return tenant.get()

    @contextmanager
    def restore(self, value: str) -> Iterator[None]:
        if value == "gone":
            raise LookupError("there is no tenant 'gone'")
        token = tenant.set(value)
        seen.append(f"enter {value}")
        try:
            yield
        finally:
            seen.append(f"exit {value}")
            tenant.reset(token)


class Enqueueing(Tenant):
    """Carries what is being enqueued."""

    def capture(self) -> str | None:
        return enqueueing.get()


class AsyncTenant(Tenant):
    """One that does it otherwise around coroutines."""

    name = "async tenant"

    @asynccontextmanager
    async def arestore(self, value: str) -> AsyncIterator[None]:
        seen.append("async")
        with self.restore(value):
            yield


class Trace:
    name = "trace"

    def __init__(self) -> None:
        self.value: Any = None

    def capture(self) -> Any:
        return self.value

    @contextmanager
    def restore(self, value: Any) -> Iterator[None]:
        seen.append(f"trace {value}")
        yield


#: An object.
trace = Trace()


class Locale(Tenant):
    name = "locale"


class NotAPropagator:
    """Lacks the methods of a propagator."""


class Numbered(Tenant):
    """Its name is none."""

    name = 7
