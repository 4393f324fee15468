"""The Lua core on a server: a library of functions, compiled once and kept by the server.

Its name carries the hash of the Lua text, so that two versions live side by side on one
server. It is loaded when a command has failed because it was missing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .connection import pack, pack_command, pack_request
from .exceptions import NotPermitted, ServerFull
from .protocol import Packed
from .retry import FAILURES, code_of

if TYPE_CHECKING:
    from .connection import BaseConnection
    from .request import Command, Kind, Steps

#: The clock of a command: "*" is the server's, a number is for tests, or what returns one.
Clock = str | float | Callable[[], str | float]

#: What calls may do; each has its function.
KINDS: tuple[Kind, ...] = ("read", "write", "drain")

#: What the names of all versions' libraries begin with.
LIBRARY_PREFIX = "qless_"


class Library:
    """The built Lua text, and the names that follow from it."""

    def __init__(self, body: str) -> None:
        self.body = body
        self.name = f"{LIBRARY_PREFIX}{sha1(body.encode()).hexdigest()[:12]}"

    @staticmethod
    @cache
    def default() -> Library:
        """Return the library of this package."""
        path = Path(__file__).with_name("qless.lua")
        return Library(path.read_text(encoding="utf-8"))

    def functions(self) -> str:
        """Return the text for FUNCTION LOAD."""
        head = f"#!lua name={self.name}\n"
        return f"{head}{self.body}\nQless.register('{self.name}')\n"


class Starts(dict[tuple[str, Clock, "Kind"], Packed]):
    """The bytes with which commands begin, by name, clock and kind."""

    def __init__(self, call: str, names: dict[Kind, str], keys: Packed) -> None:
        self._call = call
        self._names = names
        self._keys = keys

    def __missing__(self, key: tuple[str, Clock, Kind]) -> Packed:
        name, now, kind = key
        time = now() if callable(now) else now
        start = pack((self._call, self._names[kind], self._keys, name, time))
        if now == "*":
            self[key] = start
        return start


class Script:
    """The core on a client's server."""

    def __init__(self, prefix: str, library: Library, *, sharded: bool = False) -> None:
        self.library = library
        #: The clock of each command.
        self.now: Clock = "*"
        # With an s events go to sharded channels, which stay where the keys are.
        first = f"{prefix}!s" if sharded else f"{prefix}!"
        keys = pack((2, first, f"{prefix}meta"))
        #: All bytes of commands before the request id.
        self.starts = Starts(
            "FCALL", {kind: f"{library.name}_{kind}" for kind in KINDS}, keys
        )

    def request(self, command: Command[Any], request_id: str) -> bytes:
        """Return the bytes of a command."""
        start = self.starts[command.name, self.now, command.kind]
        return pack_request(start, request_id, command.args)

    @property
    def loading(self) -> bytes:
        """The bytes of the command that loads the library."""
        return pack_command("FUNCTION", "LOAD", self.library.functions())

    def load(self, connection: BaseConnection) -> Steps[None]:
        """Load the library; another client may have been faster."""
        try:
            yield from connection.exchange(self.loading)
        except FAILURES as error:
            check_loading(error)


def check_loading(error: BaseException) -> None:
    """Raise the error of a loading, unless another client has loaded the library.

    Raises ServerFull and NotPermitted with what is to be done first, others as they are.
    """
    code = code_of(error)
    if code == "EXISTS":
        return
    if code == "OOM":
        raise ServerFull(
            f"{error}: the server has no room for the Lua core, which workers need to "
            "finish jobs, too: raise maxmemory first"
        ) from error
    if code == "NOPERM":
        raise NotPermitted(
            f"{error}: grant FUNCTION, with which the Lua core is loaded"
        ) from error
    raise error
