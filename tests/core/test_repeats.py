"""Requests that are sent again after a lost reply: one effect, the same reply."""

from __future__ import annotations

import pytest

from tests.core.caller import call_class
from tests.core.every_call import KEYED, Call, name, scene, with_proof
from tests.core.keyed import Keyed
from tests.core.keyspace import difference, snapshot

REPLY = "ql:reply:client"
WRITES = [call for call in KEYED if call_class(call[0], call[1:]) != "read"]


@pytest.mark.parametrize("call", WRITES, ids=name)
def test_a_repeat_has_no_effect_and_the_same_reply(keyed: Keyed, call: Call) -> None:
    command, *args = with_proof(call, scene(keyed))
    first = keyed.call(command, *args, now=10, request="client:1")
    after = snapshot(keyed.server)
    with keyed.core.listening() as heard:
        again = keyed.call(command, *args, now=11, request="client:1")
    assert again == first
    assert heard == []
    changed = difference(after, snapshot(keyed.server))
    # The reply is written again as it was, so that WAIT speaks of it as well.
    kept = changed.pop(REPLY, ((), ()))
    assert kept[0][:2] == kept[1][:2]
    assert changed == {}


def test_an_older_request_is_stale(keyed: Keyed) -> None:
    token = scene(keyed)
    keyed.call("config.set", "colour", "red", now=10, request="client:7")
    before = snapshot(keyed.server)
    for call in WRITES:
        command, *args = with_proof(call, token)
        for number in (1, 6):
            text = keyed.refusal(command, *args, now=11, request=f"client:{number}")
            assert text.startswith("STALE "), call
    assert snapshot(keyed.server) == before


def test_only_the_same_number_of_a_client_is_a_repeat(keyed: Keyed) -> None:
    for request in ("", "", "one:5", "one:6", "one:50", "two:5", "three:1"):
        keyed.put("jid", request=request)
    assert len(keyed.job("jid")["history"]) == 7


def test_a_refused_request_may_be_sent_again(keyed: Keyed) -> None:
    """A refusal has no effect, so there is nothing to protect: it may succeed later."""
    refused = keyed.refusal("priority", "jid", 5, now=0, request="client:1")
    assert refused.startswith("NOJOB ")
    keyed.put("jid")
    assert keyed.call("priority", "jid", 5, now=0, request="client:1") == 5


def test_what_is_done_once_has_its_reply_for_a_week(keyed: Keyed) -> None:
    for _ in range(2):
        reply = keyed.call("put", "w", "q", "jid", "k", "{}", 0, request="once:a-1/0")
        assert reply == "jid"
        keyed.call("cancel", "jid")
    assert keyed.call("length", "q") == 0
    assert 6 * 86_400 < keyed.server.ttl("ql:once:a-1/0") <= 7 * 86_400


def test_what_is_done_once_is_known_for_a_minute_after_its_end(keyed: Keyed) -> None:
    for number in range(2):
        keyed.put(f"jid{number}", request=f"once:{number}")
    assert keyed.call("once.forget", "0", "unknown", "1") == 2
    for _ in range(2):
        assert 50 < keyed.server.ttl("ql:once:0") <= 60
        # (A repeat does not make it stay longer.)
        keyed.put("jid0", request="once:0")
    assert keyed.server.exists("ql:once:unknown") == 0


@pytest.mark.parametrize("id_", ["", "a b", "a:b", "ü", "x" * 129])
def test_no_id_of_what_is_done_once(keyed: Keyed, id_: str) -> None:
    text = keyed.refusal("cancel", "jid", request=f"once:{id_}")
    assert text.startswith("BADARG request must be ")


def test_a_request_may_be_very_far_along(keyed: Keyed) -> None:
    keyed.put("a", request=f"client:{2**53 - 2}")
    keyed.put("b", request=f"client:{2**53 - 1}")
    keyed.put("b", request=f"client:{2**53 - 1}")
    assert keyed.call("length", "queue", now=0) == 2
    assert len(keyed.job("b")["history"]) == 1


@pytest.mark.parametrize(
    "request_id", ["client", ":1", "client:", "client:x", "client:-1", "client:1.5",
                   "client:1e3", "client:0x1", " :1", "a b:1", "c" * 500 + ":1"],
)  # fmt: skip
def test_malformed_request_ids_are_refused(keyed: Keyed, request_id: str) -> None:
    text = keyed.refusal(
        "put", "w", "queue", "jid", "k", "{}", 0, now=0, request=request_id
    )
    assert text.startswith("BADARG ")
    assert keyed.server.dbsize() == 0


def test_meta_shows_no_replies(keyed: Keyed) -> None:
    keyed.put("jid", request="client:1")
    assert set(keyed.json("meta")) == {"format", "now"}
