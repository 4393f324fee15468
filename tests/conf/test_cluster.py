"""Aliases on a cluster: what reaches redis-py, and that jobs get there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.checks import run_checks
from django.test import override_settings

from django_qless import workflow
from django_qless.conf import alias
from django_qless.conf.connection_factory import factory_for
from django_qless.conf.connections import connections
from django_qless.core import ClusterRefused, NotReached
from tests.clusters import Cluster
from tests.jobs_app import jobs
from tests.real_servers import Server

GIVEN = {
    "CLUSTER": ["rediss://u:p@a:7000", "rediss://u:p@b:7001"],
    "PREFIX": "{ql}:",
    "OPTIONS": {"ssl_ca_certs": "/ca.pem"},
}


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    connections.forget()


@pytest.mark.parametrize("kind", ["client", "async_client"])
def test_settings_reach_redis_py(kind: str) -> None:
    with override_settings(QLESS={"default": GIVEN}):
        factory = factory_for(alias())
        client = getattr(factory, kind)()
    pool = client.connection_pool
    options = pool.connection_kwargs
    assert "SSL" in pool.connection_class.__name__
    assert (options["username"], options["password"]) == ("u", "p")
    assert options["ssl_ca_certs"] == "/ca.pem"
    assert options["socket_timeout"] == 2.0
    assert options["slot_map"].seeds == (("a", 7000), ("b", 7001))
    assert options["slot_map"].slot == 5698
    assert factory.database == (("cluster", ("a", 7000), ("b", 7001)), 0)


def test_options_go_over_the_urls() -> None:
    given = {**GIVEN, "OPTIONS": {"password": "other", "socket_timeout": 7}}
    with override_settings(QLESS={"default": given}):
        options = factory_for(alias()).client().connection_pool.connection_kwargs
    assert (options["password"], options["socket_timeout"]) == ("other", 7)


def test_two_aliases_of_one_slot_are_one_namespace_only_with_one_prefix() -> None:
    other = {**GIVEN, "CLUSTER": GIVEN["CLUSTER"][::-1]}
    for prefix, found in (("{ql}:", ["django_qless.E015"]), ("{ql}mail:", [])):
        both = {"default": GIVEN, "mail": {**other, "PREFIX": prefix}}
        with override_settings(QLESS=both):
            ids = [each.id for each in run_checks() if each.id == "django_qless.E015"]
        assert ids == found


def test_jobs_and_workflows_on_a_cluster() -> None:
    async def enqueue() -> Any:
        return await jobs.add.aenqueue(3)

    with Cluster(replicas=0) as cluster:
        given = {**cluster.settings, "CLUSTER": cluster.urls[:1]}
        with override_settings(QLESS={"default": given}):
            handle = jobs.add.delay(1)
            with workflow("two") as flow:
                first = flow.add(jobs.add.args(2))
                flow.add(jobs.add.args(3), after=[first])
            other = asyncio.run(enqueue())
            assert {handle.jid, other.jid} <= {
                *connections["default"].queue(handle.refresh().queue).jobs("waiting")
            }
            # As the admin's pages ask, which do not wait for long.
            (queue,) = connections.impatient("default").queues()
            assert (queue.waiting, queue.depends) == (3, 1)
            node = cluster.of("{ql}:").shared_client()
            assert node.exists("{ql}:meta")
            assert all(
                node.execute_command("CLUSTER", "KEYSLOT", key) == 5698
                for key in node.scan_iter()
            )


@pytest.mark.parametrize(
    ("nodes", "kind", "message"),
    [
        (["redis://127.0.0.1:1"], NotReached, "where slot 5698 is"),
        (None, ClusterRefused, "is not in cluster mode"),
    ],
)
def test_what_is_wrong_is_named(
    nodes: list[str] | None, kind: type, message: str
) -> None:
    with Server("valkey", tcp=True) as server:
        given = {"CLUSTER": nodes or [server.tcp_url], "PREFIX": "{ql}:"}
        with (
            override_settings(QLESS={"default": {**given, "PATIENCE": 0.05}}),
            pytest.raises(kind, match=message),
        ):
            jobs.add.delay(1)
