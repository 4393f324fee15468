"""Fixtures of the core's and the protocol's suites: the core on every kind of server.

Each test runs on one kind, which is drawn by its name; with `make nightly` on all.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import drawing
from tests.core.caller import Core, Library
from tests.core.invariants import violations
from tests.core.keyed import Keyed
from tests.permissions import PASSWORD, nothing_refused, set_user
from tests.real_servers import available_kinds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.real_servers import Server

# Looked for once: a search for servers costs as much as the collection of a test.
CELLS = list(available_kinds())
FOLDERS = {Path(__file__).parent, Path(__file__).parents[1] / "protocol"}


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave each test its cell."""
    if drawing.ALL:
        return
    left_out = {
        item
        for item in items
        if not FOLDERS.isdisjoint(item.path.parents) and not in_its_cell(item.nodeid)
    }
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def in_its_cell(nodeid: str) -> bool:
    """Return whether a test is to run in the cell that its name says, if it says one."""
    for cell in CELLS:
        if cell in nodeid:
            rest = nodeid.replace(cell, "")
            return CELLS[drawing.draw(rest, len(CELLS))] == cell
    return True


@pytest.fixture(scope="session")
def library() -> Library:
    """The built Lua file."""
    return Library()


@pytest.fixture
def core(
    request: pytest.FixtureRequest, each_server: Server, library: Library
) -> Iterator[Core]:
    """The Lua core on an empty server, once per kind of server.

    It is called by the documented user of workers. At the end of each test the invariants
    hold, unless it is marked with `damages`.
    """
    options: dict[str, Any] = {
        "decode_responses": True,
        "encoding_errors": "surrogateescape",
    }
    client = each_server.shared_client(**options)
    library.load(client)
    set_user(each_server, "worker", "+evalsha")
    worker = each_server.shared_client(username="worker", password=PASSWORD, **options)
    with nothing_refused(each_server):
        yield Core(client, library, users={"worker": worker})
    if not request.node.get_closest_marker("damages"):
        assert violations(client) == []


@pytest.fixture
def keyed(core: Core) -> Keyed:
    """The same, for calls with KEYS."""
    return Keyed(core)
