"""What a worker makes of its server's INFO before the first job."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import Client
from django_qless.core.replication import Replication
from django_qless.worker.server_checks import (
    CannotStart,
    check_server,
    risks,
    wanted_replicas,
)

if TYPE_CHECKING:
    from tests.real_servers import Server


@pytest.mark.parametrize(
    ("info", "wanted", "words"),
    [
        # Four fifths are not too much yet, and without a limit nothing is.
        ({"used_memory": 80, "maxmemory": 100}, 0, ""),
        (
            {"used_memory": 81, "maxmemory": 100},
            0,
            "81% of maxmemory is used: soon no job",
        ),
        ({"used_memory": 91, "maxmemory": 0}, 0, ""),
        ({"used_memory": "91", "maxmemory": 100}, 0, ""),
        ({"used_memory": 91, "maxmemory": "100"}, 0, ""),
        ({"connected_slaves": 2}, 2, ""),
        ({"connected_slaves": 3}, 2, ""),
        ({"connected_slaves": 1}, 2, "REPLICAS is 2, and 1 replicas are connected"),
        ({}, 1, "REPLICAS is 1, and 0 replicas are connected"),
        ({}, 0, ""),
        ({"aof_enabled": 1}, 0, ""),
        ({"aof_enabled": 0}, 0, "append-only"),
        ({"aof_last_write_status": "err"}, 0, "could not be written"),
        ({"rdb_last_bgsave_status": "err"}, 0, "last snapshot failed"),
        ({"role": "slave"}, 0, "replica"),
        ({"maxmemory_policy": "volatile-ttl"}, 0, "volatile-ttl"),
        ({"aof_last_write_status": "ok", "rdb_last_bgsave_status": "ok"}, 0, ""),
    ],
)
def test_a_state_that_may_lose_jobs_is_told(
    info: dict[str, Any], wanted: int, words: str
) -> None:
    found = list(risks(info, wanted))
    assert len(found) == bool(words)
    assert all(words in each for each in found)


def test_the_worst_comes_first() -> None:
    info = {"role": "slave", "aof_enabled": 0, "maxmemory_policy": "allkeys-lru"}
    texts = list(risks(info, 1))
    assert [text.split()[0] for text in texts] == ["REPLICAS", "The", "There", "This"]


def test_a_server_without_the_replicas_that_are_wanted_is_not_begun_with(
    server: Server,
) -> None:
    with Client(server.client(), replication=Replication(1, 0.1)) as client:
        assert wanted_replicas(client) == 1
        with pytest.raises(CannotStart, match="REPLICAS is 1") as caught:
            check_server(client)
    assert caught.value.code == os.EX_CONFIG
    with Client(server.client()) as client:
        assert wanted_replicas(client) == 0
        assert not any("REPLICAS" in each for each in check_server(client))


def test_a_server_that_is_away_may_come_back(server: Server) -> None:
    """A service manager tries again after this exit code."""
    with Client(server.client(), patience=0.05) as client:
        server.stop()
        with pytest.raises(CannotStart) as caught:
            check_server(client)
        server.start()
    assert caught.value.code == os.EX_UNAVAILABLE
