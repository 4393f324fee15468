"""What is known of results that have expired."""

from __future__ import annotations

from tests.core.keyed import Keyed, settlement


def complete(
    keyed: Keyed, *jids: str, now: float, result: str = '"1234"', ttl: int = 86400
) -> None:
    """Put and complete jobs that return something, in one call."""
    for jid in jids:
        keyed.put(jid, now)
    tokens = {job["jid"]: job["token"] for job in keyed.take(250, now=now)}
    keyed.settle(
        [settlement(jid, tokens[jid], "complete", result, ttl) for jid in jids], now=now
    )


def test_a_record_says_whether_its_result_has_expired(keyed: Keyed) -> None:
    complete(keyed, "jid", "second", now=0, ttl=1000)
    complete(keyed, "null", now=0, result="null")
    keyed.put("nothing", 0)
    keyed.settle([settlement("nothing", keyed.token("nothing"), "complete")], now=0)
    for jid in ("null", "nothing"):
        assert "returned" not in keyed.job(jid, 1)
    assert keyed.job("jid", 1)["returned"] == 1000
    assert keyed.call("results.gone", "jid", "null", "nothing", now=1) == []
    keyed.server.delete("ql:result:jid")
    gone = keyed.call("results.gone", "jid", "second", "null", "nothing", "no", now=2)
    assert gone == ["jid"]
    assert keyed.job("jid", 2000)["returned"] == -999
