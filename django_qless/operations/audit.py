"""The audit of all records of a namespace, in steps that each take the server a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from django_qless.core import Client


class AuditReport(NamedTuple):
    """The result of an audit."""

    checked: int
    calls: int
    #: Sentences that each describe an invalid record.
    violations: list[str]


def audit_namespace(client: Client, count: int = 250) -> AuditReport:
    """Check all records, `count` per call.

    The namespace may change between the calls: each judges only what it reads itself.
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
            return AuditReport(checked, calls, list(violations))
