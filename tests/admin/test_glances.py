"""Looks at several aliases: news of those that answer, and patience with no other."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest
from django.test import override_settings

from django_qless.admin.glances import Glances, glances
from django_qless.connections import connections
from tests.admin.stock import put
from tests.servers import Server, poll

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
    looker = Glances()
    seen = looker.wait(looker.send(["other", "default"]), NEVER)
    assert seen["other"].answers
    assert (seen["other"].waiting, seen["other"].queues) == (3, 2)
    assert (seen["default"].waiting, seen["default"].queues) == (0, 0)


def test_each_look_brings_news(qless: Client) -> None:
    looker = Glances()
    first = looker.wait(looker.send(["default"]), NEVER)
    put(qless, "mail", "a")
    second = looker.wait(looker.send(["default"]), NEVER)
    assert (first["default"].waiting, second["default"].waiting) == (0, 1)


def test_nobody_waits_for_one_that_is_known_to_be_down(lost: Server) -> None:
    looker = Glances()
    seen = looker.wait(looker.send(["lost"]), NEVER)
    assert not seen["lost"].answers
    assert lost.socket in seen["lost"].problem
    # With all the patience there is: it returns while the look is under way.
    looks = looker.send(["lost"])
    again = looker.wait(looks, NEVER)
    assert looker.under_way == ["lost"]
    assert again == seen
    lost.start()
    poll(lambda: not looker.under_way, what="the look has ended")
    # What it brought, good or bad, decides whether the next one is waited for.
    poll(
        lambda: looker.wait(looker.send(["lost"]), 1)["lost"].answers,
        what="it is seen to be back",
    )


def test_one_look_at_a_time(lost: Server) -> None:
    """Pages that are refreshed every second do not pile up threads."""
    looker = Glances()
    looks = [looker.send(["lost"])["lost"] for _ in range(20)]
    assert len(set(map(id, looks))) == 1
    before = threading.active_count()
    looker.send(["lost"])
    assert threading.active_count() == before
    looker.wait({"lost": looks[0]}, NEVER)


def test_after_a_fork_it_looks_anew(qless: Client) -> None:
    glances.wait(glances.send(["default"]), NEVER)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            seen = glances.wait(glances.send(["default"]), 30)
            os.write(writer, b"1" if seen["default"].answers else b"0")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 1) == b"1"
    os.close(reader)
    os.close(writer)
