"""A function with `@job`, and what is written there."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django_qless.job_types.imports import running_imports
from django_qless.job_types.options import Options
from django_qless.job_types.source_location import module_of

if TYPE_CHECKING:
    from django_qless.schedules.timetable import DeclaredSchedule


@dataclass(frozen=True, slots=True)
class Declaration:
    """A function with `@job`, and the options written there."""

    function: Callable[..., Any]
    options: Options
    name: str | None = None
    aliases: tuple[str, ...] = ()
    schedule: DeclaredSchedule | None = None
    importers: frozenset[str] = field(default_factory=running_imports)

    @property
    def origin(self) -> str:
        """Where the function is written, for messages."""
        return f"{module_of(self.function)}.{self.function.__qualname__}"

    @property
    def is_async(self) -> bool:
        """True for a coroutine function."""
        return inspect.iscoroutinefunction(self.function)

    @property
    def in_class(self) -> bool:
        """True if the function is written in the body of a class."""
        return "." in self.function.__qualname__.rpartition("<locals>.")[2]
