"""Connections are made as those of the user's pool, whatever its kind and its options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import redis
from redis._parsers import _RESP2Parser as PythonParser

from django_qless.core import Client, LockLost, Put
from tests.core.jobs import Make

if TYPE_CHECKING:
    from tests.real_servers import Server


OPTIONS: list[dict[str, Any]] = [
    {},
    {"decode_responses": True},
    {"protocol": 2},
    {"protocol": 3},
    {"protocol": 3, "decode_responses": True},
    {"encoding": "latin-1"},
    {"encoding": "utf-16", "decode_responses": True},
    {"health_check_interval": 1, "socket_timeout": 3, "socket_connect_timeout": 3},
    {"single_connection_client": True},
    {"client_name": "somebody"},
    {"db": 5},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_all_options_of_a_user_work(valkey: Make, options: dict[str, Any]) -> None:
    client = valkey(options=options)
    text = '{"to":"ä🎉"}'
    client.put_many("", [Put("a", "quäue", "k", text, context='{"x":"ü"}')])
    (job,) = client.settle("w", [], 5, ["qu*"]).jobs
    assert (job.queue, job.data, job.context_object) == ("quäue", text, {"x": "ü"})
    assert client.get("a").data == text
    assert client.get("nobody") is None
    assert client.blpop(["nothing"], 0.01) is None


def test_a_database_of_its_own(valkey: Make) -> None:
    valkey(options={"db": 5}).put("", "q", "a", "k", "{}")
    assert valkey().queues() == []
    assert len(valkey(options={"db": 5}).queues()) == 1


def test_pools_of_any_kind_work(server: Server) -> None:
    pools = [
        redis.ConnectionPool.from_url(server.url),
        redis.BlockingConnectionPool.from_url(server.url, max_connections=1, timeout=1),
    ]
    for pool in pools:
        user = redis.Redis(connection_pool=pool)
        with Client(user) as client:
            client.put("", "q", "a", "k", "{}")
            # Our connections are not taken from the user's pool.
            assert user.ping()
            assert client.length("q") == 1
        user.close()
        pool.disconnect()


def test_the_tcp_port_works_as_well() -> None:
    from tests.real_servers import Server

    with Server("valkey", tcp=True) as server:
        user = redis.Redis.from_url(server.tcp_url)
        with Client(user) as client:
            assert client.put("", "q", "a", "k", "{}") == "a"
            assert repr(client) == f"<Client 127.0.0.1:{server.port}/0 ql:>"
        user.close()


def test_bytes_that_are_not_text_survive(valkey: Make, server: Server) -> None:
    """Old clients may have put anything."""
    client = valkey()
    client.put("", "q", "a", "k", '"x"')
    with server.client() as other:
        other.hset("ql:j:a", "data", b'"\xff\xfe"')
    (job,) = client.settle("w", [], 1, ["q"]).jobs
    assert job.data.encode("utf-8", "surrogateescape") == b'"\xff\xfe"'
    assert client.length("q") == 1


def test_without_hiredis_redis_py_reads(server: Server) -> None:
    pool = redis.ConnectionPool.from_url(server.url, parser_class=PythonParser)
    client = Client(redis.Redis(connection_pool=pool))
    assert client.put("", "q", "a", "k", '"ä"') == "a"
    assert [job.data for job in client.settle("w", [], 1, ["q"]).jobs] == ['"ä"']
    with pytest.raises(LockLost):
        client.heartbeat("a", "999")
    keys = client.settle("w", [], 1, ["q"], wait=5).wait_keys
    request = Client.settle.build(client, "w", [], 1, ["q"])
    assert client.after(keys, 0.01, request).run().jobs == []
    assert client.blpop(["nothing"], 0.01) is None
    client.close()
