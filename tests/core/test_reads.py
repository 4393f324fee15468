"""Commands that read never write, also where something is due."""

from __future__ import annotations

from contextlib import suppress

import pytest
import redis

from tests.core.caller import KINDS, READS, call_class
from tests.core.every_call import KEYED, Call, name, scene
from tests.core.keyed import Keyed
from tests.core.keyspace import snapshot

CALLS = [call for call in KEYED if call_class(call[0], call[1:]) == "read"]
KEYS = ("ql:!", "ql:meta")
NOW = 10**5  # More than max-worker-age after the scene: all is due, all locks are lost.


@pytest.mark.parametrize("call", CALLS, ids=name)
@pytest.mark.parametrize("kind", KINDS)
def test_a_read_changes_nothing_in_any_class(
    keyed: Keyed, call: Call, kind: str
) -> None:
    scene(keyed)
    before = snapshot(keyed.server)
    with keyed.core.listening() as heard:
        for now in (NOW, "*"):
            keyed.core.call(kind, KEYS, call[0], now, "", *call[1:])
        for other in range(1, len(call)):
            args = ["nosuch" if n == other else call[n] for n in range(1, len(call))]
            with suppress(redis.ResponseError):
                keyed.core.call(kind, KEYS, call[0], NOW, "", *args)
    assert heard == []
    assert snapshot(keyed.server) == before


def test_every_read_is_in_the_list() -> None:
    assert {call[0] for call in CALLS} == READS | {"tag", "track"}


def test_without_keys_what_is_due_is_changed(keyed: Keyed) -> None:
    """The scene is worth it."""
    scene(keyed)
    before = snapshot(keyed.server)
    for call in (("queues",), ("workers",), ("peek", "queue", 10)):
        keyed.core.old(call[0], NOW, *call[1:])
        after = snapshot(keyed.server)
        assert after != before, call
        before = after


def test_lists_of_workers_leave_out_the_silent(keyed: Keyed) -> None:
    keyed.put("a")
    keyed.take(worker="silent", now=0)
    keyed.call("beat", "alive", "", 0, now=NOW / 2)  # (A later one would forget it.)
    assert [w["name"] for w in keyed.json("workers", now=NOW)] == ["alive"]
    assert keyed.server.zcard("ql:workers") == 2


def test_a_request_id_on_a_read_has_no_effect(keyed: Keyed) -> None:
    keyed.put("jid", request="client:5")
    before = snapshot(keyed.server)
    keyed.call("get", "jid", now=1, request="client:5")
    keyed.call("get", "jid", now=1, request="client:1")
    assert snapshot(keyed.server) == before
