"""Clients of users that the server's ACL limits: the documented ones, and those with less."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from redis.asyncio import Redis as AsyncRedis

from django_qless.core import AsyncClient, Client, NotPermitted, Put, new_jid
from django_qless.core.permissions import rules_for
from tests.permissions import PASSWORD, client_of, nothing_refused, set_user

if TYPE_CHECKING:
    from tests.real_servers import Server

Limited = Callable[..., Client]


@pytest.fixture
def limited(each_server: Server) -> Iterator[Limited]:
    """Takes rules away from a role; returns a client of its user."""
    made: list[Client] = []
    with each_server.client() as admin:
        admin.function_flush()

    def limit(role: str, *rules: str) -> Client:
        set_user(each_server, role, *rules)
        client = Client(client_of(each_server, role), patience=0.2)
        made.append(client)
        return client

    yield limit
    for client in made:
        set_user(
            each_server, str(client.redis.connection_pool.connection_kwargs["username"])
        )
        client.close()


def test_a_producer_puts_and_waits(limited: Limited, each_server: Server) -> None:
    with nothing_refused(each_server):
        client = limited("producer")
        first = client.put("", "q", new_jid(), "k", "{}")
        assert client.await_ended([first], 0.05) == {}
        other = new_jid()
        client.put_many("", [Put(other, "q", "k", "{}", depends=[first])])
        client.cancel([other])
        worker = limited("worker")
        [job] = worker.settle("w", [], 1, ["q"]).jobs
        worker.complete(job.jid, job.token, "q", "{}")
        assert client.await_ended([first], 5) == {first: "complete"}


def test_a_producer_of_asyncio(each_server: Server) -> None:
    async def put() -> str:
        redis = AsyncRedis(
            unix_socket_path=each_server.socket, username="producer", password=PASSWORD
        )
        async with AsyncClient(redis) as client:
            jid = await client.put("", "q", "a", "k", "{}")
            await client.await_ended([jid], 0.05)
            return jid

    with nothing_refused(each_server):
        assert asyncio.run(put()) == "a"


def test_a_command_inside_the_core_is_refused_in_the_servers_words(
    limited: Limited, each_server: Server
) -> None:
    client = limited("producer", "-zadd")
    with pytest.raises(NotPermitted, match=r"docs/permissions\.md") as caught:
        client.put("", "q", "a", "k", "{}")
    # Redis 7.0 does not name the command.
    assert caught.value.rules == (() if each_server.kind == "redis" else ("+zadd",))
    set_user(each_server, "producer")
    assert client.put("", "q", "b", "k", "{}") == "b", "without a restart"


def test_a_user_that_may_not_load_the_core_is_told_and_let_in_later(
    limited: Limited, each_server: Server
) -> None:
    client = limited("producer", "-function|load")
    with pytest.raises(NotPermitted, match=r"grant FUNCTION"):
        client.put("", "q", "a", "k", "{}")
    set_user(each_server, "producer")
    assert client.put("", "q", "b", "k", "{}") == "b"


def test_a_refusal_that_names_no_command_has_no_rules() -> None:
    refused = NotPermitted("the server says no")
    assert refused.rules == ()
    assert str(refused).startswith("the server says no. The server's ACL does not")


def test_the_wait_for_results_is_named_with_the_remedy(limited: Limited) -> None:
    client = limited("producer", "-blpop")
    client.put("", "q", "a", "k", "{}")
    with pytest.raises(NotPermitted, match=r"\+blpop adds it"):
        client.await_ended(["a"], 5)


def test_the_libraries_are_for_operators(limited: Limited, each_server: Server) -> None:
    with each_server.client() as admin:
        admin.function_load(
            "#!lua name=qless_old\nredis.register_function('f', function() return 1 end)"
        )
    with pytest.raises(NotPermitted, match=r"\+function\|list adds it"):
        limited("worker").libraries()
    operator = limited("operator")
    assert "qless_old" in operator.libraries()
    operator.remove_library("qless_old")
    assert "qless_old" not in operator.libraries()


@pytest.mark.parametrize(
    ("refusal", "rules"),
    [
        ("User x has no permissions to run the 'hset' command", ["+hset"]),
        ("to run the 'config|get' command", ["+config|get"]),
        ("to run the 'fcall' command", ["+fcall", "+function|load"]),
        ("to run the 'function|load' command", ["+fcall", "+function|load"]),
        ("No permissions to access a key", ["~<prefix>*"]),
        ("No permissions to access a channel", ["&<prefix>*"]),
        ("something else", []),
    ],
)  # fmt: skip
def test_the_rules_that_a_refusal_asks_for(refusal: str, rules: list[str]) -> None:
    assert list(rules_for(refusal)) == rules


def test_the_remedy_names_the_user() -> None:
    refusal = "User bob has no permissions to run the 'hset' command"
    assert str(NotPermitted(refusal)).endswith(" ACL SETUSER bob +hset adds it.")
    refusal = "This user has no permissions to run the 'hset' command"
    assert str(NotPermitted(refusal)).endswith(" ACL SETUSER <user> +hset adds it.")
