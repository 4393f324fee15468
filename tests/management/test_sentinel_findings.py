"""What the doctor and a worker's start say about Sentinel and replicas."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import override_settings

from django_qless.conf.connections import connections
from django_qless.management.doctor import examine
from django_qless.worker.server_checks import CannotStart, check_server
from tests.real_servers import Server
from tests.sentinels import Watched


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    connections.forget()


def found(about: str) -> list[tuple[str, str]]:
    """Return the levels and texts of the doctor's findings about this."""
    findings = examine("default", connections["default"], clean=False)
    return [(each.level, each.text) for each in findings if each.about == about]


def test_the_doctor_shows_primary_replicas_and_lag() -> None:
    with (
        Watched() as group,
        override_settings(QLESS={"default": {**group.settings, "REPLICAS": 1}}),
    ):
        ((level, text),) = found("sentinel")
        assert (level, text) == ("fine", f"main is 127.0.0.1:{group.primary.port} now")
        ((level, text),) = found("replicas")
        place = f"127.0.0.1:{group.replicas[0].port}"
        assert level == "fine"
        assert text.startswith(f"{place} is online, ")
        assert text.endswith(" s behind")
        # Lost ones may come back: a worker starts all the same.
        group.cut_replicas()
        warnings = check_server(connections["default"])
        assert any("REPLICAS is 1, and 0 replicas" in each for each in warnings)
        assert any("REPLICAS is 1" in text for _, text in found("server"))


def test_replicas_where_there_never_was_one() -> None:
    with Server("valkey", tcp=True) as server:
        given = {"LOCATION": server.tcp_url, "REPLICAS": 1}
        with (
            override_settings(QLESS={"default": given}),
            pytest.raises(CannotStart, match="0 replicas are connected") as caught,
        ):
            check_server(connections["default"])
        assert caught.value.code == 78
