"""What the blocking client and the one for asyncio have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import arguments
from .connecting import address, connecting, limit
from .script import Engine, Library, Script

#: Seconds in which a call is repeated while the server does not answer.
PATIENCE = 10.0


class Namespace:
    """What both clients know: the server, the prefix, how the core is called there."""

    def __init__(
        self,
        redis: Any,
        prefix: str = "ql:",
        engine: Engine = "auto",
        *,
        patience: float = PATIENCE,
        library: Library | None = None,
        timeout: float | None = None,
    ) -> None:
        #: The redis-py client as it was given; it is asked where to connect, no more.
        self.redis = redis
        #: What all keys begin with.
        self.prefix = arguments.name("prefix", prefix)
        #: Seconds in which a call is repeated while the server does not answer.
        self.patience = arguments.number("patience", patience)
        self.script = Script(prefix, engine, library or Library.default())
        self._connect = connecting(redis, timeout)
        self._most = limit(redis)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {address(self.redis)} {self.prefix}>"

    def _channels(self, channels: Sequence[str]) -> Sequence[str]:
        return channels or ("log",)


def kind_of(value: object) -> str:
    """Return the full name of the type of a value, for messages."""
    return f"{type(value).__module__}.{type(value).__qualname__}"
