"""Permissions of the server's users, as rules of ACL SETUSER.

docs/permissions.md has all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

#: To check the records. SCAN shows the names of all keys of the server.
AUDIT = frozenset({"+scan", "+type", "+lpos"})
#: To see libraries of functions that other versions have left, and to remove them.
LIBRARIES = frozenset({"+function|list"})
CLEANING = frozenset({"+function|list", "+function|delete"})
#: To see the server's version, memory and settings.
INFO = frozenset({"+info"})
#: To receive at once what heartbeats bring later.
EVENTS = frozenset({"+subscribe", "+ssubscribe"})

#: Without these a worker works.
OPTIONAL = AUDIT | CLEANING | INFO | EVENTS


def needed_by_worker(missing: Iterable[str]) -> list[str]:
    """Return those of the missing permissions without which a worker cannot work."""
    return [rule for rule in missing if rule not in OPTIONAL]


def lacks(rules: Iterable[str]) -> str:
    """Return the message that these are missing, which NotPermitted can read."""
    return f"The user lacks {' '.join(rules)}"


# Texts of refusals, of servers from 6.2 to 9 and of the core.
USER = re.compile(r"\bUser (\S+) (?:has no permissions|lacks)")
_COMMAND = re.compile(r"to run the '([^']+)' command")
_LACKS = re.compile(r"\b[Uu]ser (?:\S+ )?lacks ((?:[+~&]\S+ ?)+)")

# One is of no use without the other.
_PAIRS = {
    "fcall": ("+fcall", "+function|load"),
    "function|load": ("+fcall", "+function|load"),
    "evalsha": ("+evalsha", "+script|load"),
    "script|load": ("+evalsha", "+script|load"),
}


def rules_for(refusal: str) -> Iterable[str]:
    """Return the rules for ACL SETUSER that permit what this text refuses."""
    missing, command = _LACKS.search(refusal), _COMMAND.search(refusal)
    if missing:
        return missing[1].split()
    if command:
        return _PAIRS.get(command[1], (f"+{command[1]}",))
    if "channel" in refusal:
        return ("&<prefix>*",)
    return ("~<prefix>*",) if "key" in refusal else ()
