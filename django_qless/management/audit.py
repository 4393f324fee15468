"""The audit of a whole namespace, in steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from django_qless.core import Client


class Audited(NamedTuple):
    """What an audit found."""

    checked: int
    calls: int
    #: What is not as it must be, in words.
    violations: list[str]


def audit(client: Client, count: int = 250) -> Audited:
    """Check all records, `count` by each call.

    The namespace may change between the steps: each judges only what it saw itself.
    """
    cursor, checked, calls = "0", 0, 0
    violations: dict[str, None] = {}
    while True:
        step = client.audit(cursor, count)
        calls += 1
        checked += step.checked
        violations |= dict.fromkeys(step.violations)
        cursor = step.cursor
        if cursor == "0":
            return Audited(checked, calls, list(violations))
