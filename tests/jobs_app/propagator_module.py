"""A module that is a context propagator itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

team: ContextVar[str | None] = ContextVar("team", default=None)

capture = team.get


@contextmanager
def restore(value: str) -> Iterator[None]:
    token = team.set(value)
    try:
        yield
    finally:
        team.reset(token)
