"""Which of the server's permissions only some users need: docs/permissions.md has all."""

from __future__ import annotations

from collections.abc import Iterable

#: To check the records. SCAN shows the names of all keys of the server.
AUDIT = frozenset({"+scan", "+type", "+lpos"})
#: To see libraries of functions that other versions have left, and to remove them.
LIBRARIES = frozenset({"+function|list"})
CLEANING = frozenset({"+function|list", "+function|delete"})
#: To see the server's version, memory and settings.
INFO = frozenset({"+info"})
#: To be told at once of what heartbeats tell later.
EVENTS = frozenset({"+subscribe"})

#: Without these a worker works.
OPTIONAL = AUDIT | CLEANING | INFO | EVENTS


def needed_by_worker(missing: Iterable[str]) -> list[str]:
    """Return those of the missing permissions without which a worker cannot work."""
    return [rule for rule in missing if rule not in OPTIONAL]


def lacks(rules: Iterable[str]) -> str:
    """Return in words that these are missing; NotPermitted understands them."""
    return f"The user lacks {' '.join(rules)}"
