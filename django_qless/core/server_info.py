"""What a server says of itself with INFO."""

from __future__ import annotations

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
