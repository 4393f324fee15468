"""Fixtures of the Lua suite: the core on every kind of server, under both engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lua.caller import Core, Library
from tests.lua.keyed import Keyed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import Server


@pytest.fixture(scope="session")
def library() -> Library:
    """The built Lua file."""
    return Library()


@pytest.fixture
def core(each_server: Server, engine: str, library: Library) -> Iterator[Core]:
    """The Lua core on an empty server, once per kind of server and engine."""
    client = each_server.client(
        decode_responses=True, encoding_errors="surrogateescape"
    )
    library.load(client, engine)
    yield Core(client, engine, library)
    client.close()


@pytest.fixture
def keyed(core: Core) -> Keyed:
    """The same, for calls with KEYS."""
    return Keyed(core)
