"""The reply to INFO, and the permissions that only some users need.

docs/permissions.md has all permissions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

#: By name: a whole number where it is one, else text.
ServerInfo: TypeAlias = dict[str, "str | int"]


def read_info(text: str) -> ServerInfo:
    """Read the reply to INFO."""
    found: ServerInfo = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and not name.startswith("#"):
            found[name] = int(value) if value.isdecimal() else value
    return found


#: To check the records. SCAN shows the names of all keys of the server.
AUDIT = frozenset({"+scan", "+type", "+lpos"})
#: To see libraries of functions that other versions have left, and to remove them.
LIBRARIES = frozenset({"+function|list"})
CLEANING = frozenset({"+function|list", "+function|delete"})
#: To see the server's version, memory and settings.
INFO = frozenset({"+info"})
#: To receive at once what heartbeats bring later.
EVENTS = frozenset({"+subscribe"})

#: Without these a worker works.
OPTIONAL = AUDIT | CLEANING | INFO | EVENTS


def needed_by_worker(missing: Iterable[str]) -> list[str]:
    """Return those of the missing permissions without which a worker cannot work."""
    return [rule for rule in missing if rule not in OPTIONAL]


def lacks(rules: Iterable[str]) -> str:
    """Return the text that these are missing, which NotPermitted can read."""
    return f"The user lacks {' '.join(rules)}"
