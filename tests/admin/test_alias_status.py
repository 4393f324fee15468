"""Looks at several aliases: news of those that answer, and patience with no other."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest
from django.test import override_settings

from django_qless.admin.alias_status import AliasMonitor, alias_monitor
from django_qless.conf.connections import connections
from tests.admin.stock import put
from tests.real_servers import Server, poll

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_qless.core import Client

NEVER = 3600.0

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


@pytest.fixture
def lost(qless: Client) -> Iterator[Server]:
    """The server of the alias `lost`: not running yet."""
    with Server("valkey") as later:
        later.stop("KILL")
        with override_settings(QLESS={"default": {}, "lost": {"LOCATION": later.url}}):
            yield later


def test_what_is_seen(qless: Client) -> None:
    other = connections["other"]
    put(other, "mail", "a", "b")
    put(other, "import", "c")
    monitor = AliasMonitor()
    seen = monitor.collect(monitor.start(["other", "default"]), NEVER)
    assert seen["other"].totals
    assert (seen["other"].totals.waiting, seen["other"].totals.queues) == (3, 2)
    assert (seen["default"].totals.waiting, seen["default"].totals.queues) == (0, 0)


def test_each_look_brings_news(qless: Client) -> None:
    monitor = AliasMonitor()
    first = monitor.collect(monitor.start(["default"]), NEVER)
    put(qless, "mail", "a")
    second = monitor.collect(monitor.start(["default"]), NEVER)
    assert (first["default"].totals.waiting, second["default"].totals.waiting) == (0, 1)


def test_nobody_waits_for_one_that_is_known_to_be_down(lost: Server) -> None:
    monitor = AliasMonitor()
    seen = monitor.collect(monitor.start(["lost"]), NEVER)
    assert not seen["lost"].totals
    assert lost.socket in seen["lost"].problem
    # With all the patience there is: it returns while the look is under way.
    looks = monitor.start(["lost"])
    again = monitor.collect(looks, NEVER)
    assert monitor.under_way == ["lost"]
    assert again == seen
    lost.start()
    poll(lambda: not monitor.under_way, what="the look has ended")
    # What it brought, good or bad, decides whether the next one is waited for.
    poll(
        lambda: monitor.collect(monitor.start(["lost"]), 1)["lost"].totals,
        what="it is seen to be back",
    )


def test_one_look_at_a_time(lost: Server) -> None:
    """Pages that are refreshed every second do not pile up threads."""
    monitor = AliasMonitor()
    looks = [monitor.start(["lost"])["lost"] for _ in range(20)]
    assert len(set(map(id, looks))) == 1
    before = threading.active_count()
    monitor.start(["lost"])
    assert threading.active_count() == before
    monitor.collect({"lost": looks[0]}, NEVER)


def test_after_a_fork_it_looks_anew(qless: Client) -> None:
    alias_monitor.collect(alias_monitor.start(["default"]), NEVER)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            seen = alias_monitor.collect(alias_monitor.start(["default"]), 30)
            os.write(writer, b"1" if seen["default"].totals else b"0")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 1) == b"1"
    os.close(reader)
    os.close(writer)
