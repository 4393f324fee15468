"""Children without a parent."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.worker.inside.executors import LoneChild

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.real_servers import Server


@pytest.fixture
def start(
    server: Server, tmp_path: Path, pool: str
) -> Iterator[Callable[..., LoneChild]]:
    """Starts children of the pool, whose name is another fixture."""
    with ExitStack() as stack:

        def start(**options: object) -> LoneChild:
            child = LoneChild(server, tmp_path, pool, **options)
            stack.callback(child.close)
            return child

        yield start
