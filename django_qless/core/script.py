"""The Lua core on a server: as a library of functions, or as scripts.

Functions (Redis 7 and newer, Valkey) are compiled once and kept by the server; scripts are
for servers and users without functions. Both carry the hash of the Lua text in their name,
so that two versions live side by side on one server. The core is loaded when a command has
failed because it was missing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from . import exceptions
from .arguments import quoted
from .connection import pack, pack_command, pack_request
from .protocol import Packed, ServerInfo, read_info
from .retry import FAILURES, code_of, to_qless_error

if TYPE_CHECKING:
    from .connection import BaseConnection
    from .request import Command, Kind, Steps

#: How the core is called; auto: as functions if possible, else as scripts.
Engine = Literal["auto", "function", "script"]

#: The clock of a command: "*" is the server's, a number is for tests, or what returns one.
Clock = str | float | Callable[[], str | float]

HEADERS: dict[Kind, str] = {
    "read": "#!lua flags=no-writes\n",
    "write": "#!lua\n",
    "drain": "#!lua flags=allow-oom\n",
}

# Scripts without a header need at least this.
OLDEST = (6, 2)


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

    def script(self, kind: Kind, *, header: bool = True) -> str:
        """Return the text for SCRIPT LOAD."""
        return HEADERS[kind] + self.body if header else self.body


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
    """The core on a client's server, called as functions or as scripts.

    With the engine "auto" functions are tried first; where the server or the user's
    permissions do not have them, scripts follow.
    """

    def __init__(
        self, prefix: str, engine: Engine, library: Library, *, sharded: bool = False
    ) -> None:
        if engine not in ("auto", "function", "script"):
            raise exceptions.BadArgument(
                f'engine must be "auto", "function" or "script", not {quoted(engine)}'
            )
        self.library = library
        #: The clock of each command.
        self.now: Clock = "*"
        # With an s events go to sharded channels, which stay where the keys are.
        first = f"{prefix}!s" if sharded else f"{prefix}!"
        self._keys = pack((2, first, f"{prefix}meta"))
        self._may_fall_back = engine == "auto"
        # The server's refusal, if the user may not call functions.
        self._refusal: BaseException | None = None
        self._has_header = True
        #: All bytes of commands before the request id.
        self.starts: Starts
        if engine == "script":
            self._call_scripts()
        else:
            self._call_functions()

    def request(self, command: Command[Any], request_id: str) -> bytes:
        """Return the bytes of a command."""
        start = self.starts[command.name, self.now, command.kind]
        return pack_request(start, request_id, command.args)

    def recover(
        self, error: BaseException, kind: Kind, connection: BaseConnection
    ) -> Steps[None]:
        """Load the core, or turn to scripts, as the error requires."""
        if self.engine == "script":
            yield from self._load_script(error, kind, connection)
        elif code_of(error) in ("UNKNOWN", "NOPERM"):
            self._fall_back(error)
        else:
            yield from self._load_functions(connection)

    def _call_functions(self) -> None:
        self.engine: Literal["function", "script"] = "function"
        names = {kind: f"{self.library.name}_{kind}" for kind in HEADERS}
        self.starts = Starts("FCALL", names, self._keys)

    def _call_scripts(self) -> None:
        self.engine = "script"
        texts = {
            kind: self.library.script(kind, header=self._has_header) for kind in HEADERS
        }
        names = {kind: sha1(text.encode()).hexdigest() for kind, text in texts.items()}
        self.starts = Starts("EVALSHA", names, self._keys)

    def _fall_back(self, error: BaseException) -> None:
        if not self._may_fall_back or _is_of_keys(error):
            raise to_qless_error(error) from error
        self._refusal = error if code_of(error) == "NOPERM" else None
        self._call_scripts()

    def _load_functions(self, connection: BaseConnection) -> Steps[None]:
        try:
            load = pack_command("FUNCTION", "LOAD", self.library.functions())
            yield from connection.exchange(load)
        except FAILURES as error:
            code = code_of(error)
            # FUNCTION LOAD is refused on a full server, SCRIPT LOAD is not: without the
            # scripts a full server could not be drained.
            if code in ("UNKNOWN", "NOPERM", "OOM"):
                self._fall_back(error)
            elif code != "EXISTS":
                raise

    def _load_script(
        self, error: BaseException, kind: Kind, connection: BaseConnection
    ) -> Steps[None]:
        if code_of(error) in ("UNKNOWN", "NOPERM"):
            self._give_up(error)
        text = self.library.script(kind, header=self._has_header)
        try:
            yield from connection.exchange(pack_command("SCRIPT", "LOAD", text))
        except FAILURES as refusal:
            if code_of(refusal) == "NOPERM":
                self._give_up(refusal)
            if code_of(refusal) != "NOTCOMPILED" or not self._has_header:
                raise
            yield from self._drop_header(connection)

    def _give_up(self, error: BaseException) -> None:
        """Raise the refusal of functions if there was one, else that of scripts."""
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            # As soon as the user may call functions, no restart is needed.
            self._call_functions()
            raise to_qless_error(refusal) from refusal
        raise to_qless_error(error) from error

    def _drop_header(self, connection: BaseConnection) -> Steps[None]:
        """Turn to scripts without a header, for servers older than 7."""
        reply = yield from connection.exchange(pack_command("INFO", "server"))
        version = _version(read_info(str(reply)))
        if version < OLDEST:
            found = ".".join(map(str, version))
            raise exceptions.ServerTooOld(f"The server is version {found}")
        self._has_header = False
        self._call_scripts()


def _is_of_keys(error: BaseException) -> bool:
    """Return whether the user may run the command, but not on these keys."""
    return code_of(error) == "NOPERM" and " key" in str(error)


def _version(info: ServerInfo) -> tuple[int, ...]:
    version = info.get("redis_version")
    return tuple(map(int, str(version).split(".")[:2])) if version else OLDEST
