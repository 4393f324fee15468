"""Tokens: each run of a job has its own, and only its holder may do anything."""

from __future__ import annotations

import pytest

from tests.core.keyed import Keyed, settlement
from tests.core.keyspace import snapshot


def stale_calls(jid: str, token: str) -> list[tuple[object, ...]]:
    """Every command that a holder may give."""
    return [
        ("complete", jid, token, "queue", "{}"),
        ("complete", jid, token, "queue", "{}", "next", "other"),
        ("fail", jid, token, "group", "message"),
        ("retry", jid, "queue", token),
        ("heartbeat", jid, token),
        ("heartbeat", jid, token, "[1]"),
        ("release", jid, token, 5),
        ("progress", jid, token, '[0.5, "half"]'),
    ]


STALE_SETTLEMENTS = [
    ("complete",),
    ("complete", "[1]", 60),
    ("fail", "group", "message"),
    ("retry", 5, "group", "message"),
    ("release", 0),
    ("unknown", 600),
    ("crash", 3, "group", "message"),
    ("move", "other", 0),
]


def assert_powerless(keyed: Keyed, jid: str, token: str, now: float) -> None:
    """A stale token is refused everywhere, and nothing changes."""
    before = snapshot(keyed.server)
    with keyed.core.listening() as heard:
        for call in stale_calls(jid, token):
            text = keyed.refusal(*call, now=now)  # type: ignore[arg-type]
            assert text.split()[0] == "LOCKLOST", (call, text)
    assert heard == []
    assert snapshot(keyed.server) == before
    settlements = [settlement(jid, token, *rest) for rest in STALE_SETTLEMENTS]
    with keyed.core.listening() as heard:
        settled = keyed.settle(settlements, now=now)
    assert heard == []
    codes = [(refused[0], refused[1]) for refused in settled.refused]
    assert codes == [(jid, "LOCKLOST")] * len(settlements)
    after = snapshot(keyed.server)
    before.pop("ql:meta"), after.pop("ql:meta")
    assert after == before


@pytest.mark.parametrize(
    "end", ["retry", "release", "expiry", "timeout", "put", "cancel", "advance"]
)
def test_a_token_is_worthless_after_its_run(keyed: Keyed, end: str) -> None:
    keyed.put("jid")
    stale = keyed.token("jid")
    now = 70
    if end == "expiry":
        assert keyed.take(now=60) == []
    elif end == "retry":
        keyed.call("retry", "jid", "queue", stale, now=1)
    elif end == "release":
        keyed.call("release", "jid", stale, now=1)
    elif end == "timeout":
        keyed.call("timeout", "jid", now=1)
    elif end == "put":
        keyed.put("jid", 1)
    elif end == "cancel":
        keyed.call("cancel", "jid", now=1)
        keyed.put("jid", 1)
    else:
        keyed.call("complete", "jid", stale, "queue", "{}", "next", "queue", now=1)
    if end != "expiry":
        assert_powerless(keyed, "jid", stale, now)
    fresh = keyed.token("jid", now)
    assert int(fresh) > int(stale)
    assert_powerless(keyed, "jid", stale, now)
    assert keyed.call("complete", "jid", fresh, "queue", "{}", now=now) == "complete"


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "worker", "{}.0", "0{}", " {}", "{}e0", "-{}"]
)
def test_only_the_exact_token_counts(keyed: Keyed, text: str) -> None:
    keyed.put("jid")
    token = keyed.token("jid")
    assert_powerless(keyed, "jid", text.format(token), 1)
