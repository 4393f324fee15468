"""What the benchmarks call raw does what they say: each job is put, run and completed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.core import Core

if TYPE_CHECKING:
    from tests.real_servers import Server


@pytest.mark.parametrize("engine", ["function", "script"])
@pytest.mark.parametrize(
    ("batch", "joined"), [(1, False), (1, True), (5, False)], ids=str
)
def test_all_jobs_are_completed(
    server: Server, engine: str, batch: int, joined: bool
) -> None:
    client = server.client()
    core = Core(client, engine, joined=joined)
    core.fill(10, batch)
    assert client.zcard("ql:q:bench-work") == 10
    core.work_off(10, batch)
    assert client.zcard("ql:q:bench-work") == client.zcard("ql:q:bench-locks") == 0
    assert client.zcard("ql:completed") == 10


def test_a_refusal_is_not_counted_as_work(server: Server) -> None:
    core = Core(server.client(), "function")
    core.fill(1, 1)
    with pytest.raises(RuntimeError, match="refuses to settle"):
        core.settle("worker", 1, "nobody", "1", "0", "complete", 0, 0, 0)
