"""What a server says of itself: the same for both clients, and told apart from silence."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import redis

from django_qless.core import AsyncClient, Client, ConnectionLost, NotPermitted
from django_qless.core.protocol import read_info

if TYPE_CHECKING:
    from pathlib import Path

    from tests.real_servers import Server


def test_numbers_are_numbers_and_the_rest_is_text() -> None:
    text = (
        "# Memory\r\nused_memory:123\r\nhuman:1.20M\r\nlist:a=1,b:2\r\n\r\nbroken\r\n"
    )
    assert read_info(text) == {"used_memory": 123, "human": "1.20M", "list": "a=1,b:2"}


def test_it_knows_what_is_asked_of_it_here(client: Client) -> None:
    info = client.server_info()
    assert "redis_version" in info or "valkey_version" in info
    for name in ("used_memory", "maxmemory", "aof_enabled", "uptime_in_seconds"):
        assert isinstance(info[name], int), name
    assert info["maxmemory_policy"] == "noeviction"


def test_it_is_the_same_for_asyncio(server: Server) -> None:
    async def ask() -> object:
        async with AsyncClient(server.async_client()) as client:
            return (await client.server_info())["valkey_version"]

    assert asyncio.run(ask()) == Client(server.client()).server_info()["valkey_version"]


def test_who_may_not_ask_is_told(server: Server) -> None:
    admin = server.client()
    rules = ("reset", "on", ">p", "+@all", "-info", "~*", "&*")
    admin.execute_command("ACL", "SETUSER", "u", *rules)
    try:
        limited = redis.Redis(
            unix_socket_path=server.socket, username="u", password="p"
        )
        with Client(limited) as client, pytest.raises(NotPermitted, match="info"):
            client.server_info()
    finally:
        admin.execute_command("ACL", "DELUSER", "u")


def test_a_lost_server_is_not_waited_for(tmp_path: Path) -> None:
    with Client(redis.Redis(unix_socket_path=str(tmp_path / "no"))) as client:
        with pytest.raises(ConnectionLost):
            client.server_info()
        with pytest.raises(ConnectionLost):
            client.server_info()
