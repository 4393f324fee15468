"""Other namespaces than `ql:` on the same server."""

from __future__ import annotations

import pytest

from tests.core.keyed import Keyed, settlement
from tests.core.keyspace import snapshot

pytestmark = pytest.mark.damages


def busy(keyed: Keyed) -> None:
    """Leave every kind of key that calls with KEYS know."""
    call = keyed.call
    keyed.put("root", 0, queue="side", tags=["t"], context={"a": 1})
    keyed.put_many(
        [{"jid": f"j{n}", "tags": ["t"]} for n in range(9)]
        + [{"jid": "waits", "depends": ["root"]}, {"jid": "later", "delay": 900}],
        request="client:1",
    )
    call("recur", "queue", "cron", "k", "{}", "interval", 60, 0, now=0)
    call("config.set", "heartbeat", 50, now=0)
    call("track", "track", "j0", now=0)
    call("pause", "side", now=0)
    tokens = {job["jid"]: job["token"] for job in keyed.take(6, now=1)}
    jids = list(tokens)
    call("beat", "worker", '{"pid": 1}', 1, jids[0], tokens[jids[0]], "", now=2)
    keyed.settle(
        [
            settlement(jids[1], tokens[jids[1]], "complete", "[1]", 100),
            settlement(jids[2], tokens[jids[2]], "fail", "group", "message"),
            settlement(jids[3], tokens[jids[3]], "move", "other", 0, '["root"]'),
            settlement(jids[4], tokens[jids[4]], "retry", 0, "g", "m"),
        ],
        now=3,
        request="client:2",
    )
    keyed.settle([], 1, ["empty", "e*"], wait=60, now=4)
    call("timeout", jids[5], now=5)
    keyed.take(9, now=500, worker="second")
    call("unpause", "side", now=500)
    call("progress", jids[0], tokens[jids[0]], "[0.5]", now=501)
    call("log", "waits", "hello", now=501)


@pytest.mark.parametrize("prefix", ["{shop}:", "shop:", "a{b}c:", "q", "*:", "[x]:"])
def test_no_key_or_channel_is_outside_the_prefix(keyed: Keyed, prefix: str) -> None:
    other = Keyed(keyed.core.with_prefix(prefix))
    with keyed.core.with_prefix("").listening() as heard:
        busy(other)
    assert heard
    for channel, _ in heard:
        assert channel.startswith(prefix)
    names = list(keyed.server.scan_iter(count=1000))
    assert len(names) > 30
    for name in names:
        assert name.startswith(prefix), name


def test_namespaces_do_not_see_each_other(keyed: Keyed) -> None:
    shop, mail = (Keyed(keyed.core.with_prefix(p)) for p in ("{shop}:", "{mail}:"))
    busy(keyed)
    before = snapshot(keyed.server)
    busy(shop)
    assert {n: v for n, v in snapshot(keyed.server).items() if n[0] == "q"} == before
    assert mail.json("queues", now=9) in ({}, [])
    assert mail.call("get", "root", now=9) is None
    mail.put("root", 9)
    assert mail.token("root", 9) == "1"
    assert len(shop.json("queues", now=9)) == 3


def test_the_first_declared_key_never_exists(keyed: Keyed) -> None:
    busy(keyed)
    assert not keyed.server.exists("ql:!")
    assert keyed.server.exists("ql:meta")
