"""One suite, four pools: each test is run by each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worker.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers import Server

POOLS = ("prefork", "fork", "threads", "coroutines")


@pytest.fixture(params=POOLS)
def pool(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def stage(server: Server, tmp_path: Path, pool: str) -> Iterator[Stage]:
    with Stage(server, tmp_path, pool) as stage:
        yield stage
