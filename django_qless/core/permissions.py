"""Permissions of the server's users, as rules of ACL SETUSER.

docs/permissions.md has all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# Texts of refusals, of servers from 7 to 9.
USER = re.compile(r"\bUser (\S+) has no permissions")
_COMMAND = re.compile(r"to run the '([^']+)' command")

# One is of no use without the other.
_PAIRS = {
    "fcall": ("+fcall", "+function|load"),
    "function|load": ("+fcall", "+function|load"),
}


def rules_for(refusal: str) -> Iterable[str]:
    """Return the rules for ACL SETUSER that permit what this text refuses."""
    command = _COMMAND.search(refusal)
    if command:
        return _PAIRS.get(command[1], (f"+{command[1]}",))
    if "channel" in refusal:
        return ("&<prefix>*",)
    return ("~<prefix>*",) if "key" in refusal else ()
