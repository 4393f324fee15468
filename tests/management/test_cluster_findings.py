"""What the doctor and a worker's start say about a cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import override_settings

from django_qless.conf.connections import connections
from django_qless.management.doctor import examine
from django_qless.worker.server_checks import CannotStart, check_server
from tests.clusters import Cluster
from tests.real_servers import Server


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    connections.forget()


def found(about: str, level: str) -> list[str]:
    """Return the texts of the doctor's findings of this level about this."""
    findings = examine("default", connections["default"], clean=False)
    return [
        each.text for each in findings if (each.about, each.level) == (about, level)
    ]


def test_the_doctor_shows_where_the_namespace_is() -> None:
    with Cluster(replicas=0) as cluster:
        node = cluster.of("{ql}:")
        with override_settings(QLESS={"default": cluster.settings}):
            place = f"127.0.0.1:{node.port}"
            assert found("cluster", "fine") == [
                f"slot 5698, of {{ql}}:, is on {place} now"
            ]
        named = {"LOCATION": node.tcp_url, "PREFIX": "{ql}:"}
        with override_settings(QLESS={"default": named}):
            text = "The server is a node of a cluster, and is not named in CLUSTER"
            assert any(each.startswith(text) for each in found("server", "PROBLEM"))
            warnings = check_server(connections["default"])
            assert any(each.startswith(text) for each in warnings)


def test_a_worker_does_not_start_on_what_is_no_cluster() -> None:
    with Server("valkey", tcp=True) as server:
        given = {"CLUSTER": [server.tcp_url], "PREFIX": "{ql}:"}
        with (
            override_settings(QLESS={"default": given}),
            pytest.raises(CannotStart, match="is not in cluster mode") as caught,
        ):
            check_server(connections["default"])
        assert caught.value.code == 78
