"""The rows of the table of options: where each may be given, its check, its other names."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


class In(enum.Flag):
    """Where an option may be given."""

    JOB = enum.auto()
    """`@job(…)`"""
    USING = enum.auto()
    """`.using(…)`"""
    TASK = enum.auto()
    """`@task(…)` of Django's Tasks"""
    BACKEND = enum.auto()
    """OPTIONS of a Tasks backend, as a default of all its Tasks"""


ANY = In.JOB | In.USING | In.TASK
NO_TASK = In.JOB | In.USING
CODE = In.JOB | In.TASK | In.BACKEND
DECLARED = In.JOB | In.TASK


@dataclass(frozen=True, slots=True)
class Option:
    """The row of an option in the table, but for its name and default."""

    check: Callable[[Any], Any]
    given: In
    travels: bool
    aka: str
    hint: str


def option(
    default: Any,
    check: Callable[[Any], Any],
    given: In = ANY,
    *,
    travels: bool = False,
    aka: str = "",
    hint: str = "",
) -> Any:
    """Return the field of an option.

    `check` returns the value to hold, or raises `Refused`. `travels`: a job carries the
    value in its context if the call changed it. `aka` are the names that other queues
    have for it, and `hint` is what to write instead.
    """
    row = Option(check, given, travels, aka, hint)
    return field(default=default, metadata={"option": row})
