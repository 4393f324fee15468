"""Requests that are sent again after a lost reply: one effect, the same reply."""

from __future__ import annotations

from typing import Any
from unittest.mock import ANY

import pytest

from tests.core.keyed import Keyed
from tests.core.keyspace import difference, snapshot

Call = tuple[Any, ...]

READY = ["ready3", "queue", "klass", "{}", "{token}", "5", "5", "0", "{}", "", "70"]
NEXT = ["ready2", *READY[1:]]
RUN = ["run", *READY[1:]]
LOST = "settle(): Job waiting is not currently running: waiting"

REPLY = "ql:reply:client"

# Every command that writes, with its reply. `{run}` stands for the token of a running job.
MUTATING: list[tuple[Call, Any]] = [
    (("put", "w", "queue", "new", "klass", "{}", 0, "tags", '["t"]'), "new"),
    (("put", "w", "queue", "new", "klass", "{}", 50), "new"),
    (("put", "w", "queue", "new", "klass", "{}", 0, "depends", '["waiting"]'), "new"),
    (("put", "w", "queue", "waiting", "klass", "{}", 0, "absent", "1"), None),
    (("put", "w", "other", "run", "klass", "{}", 0), "run"),
    (("requeue", "w", "other", "waiting", "klass", "{}", 0), "waiting"),
    (("put.many", "w", "n1", "queue", "k", "{}", 0, 0,
      "waiting", "queue", "k", "{}", 0, 1, "absent", "1"), [["waiting"], []]),
    (("spawn", "run", "{run}", "w", "child", "q", "k", "{}", 0, 0), [[], []]),
    (("workflow.put", "f", "w", "{}", "a", "q", "k", "{}", 0, 1, "workflow", "f"), "f"),
    (("schedule.set", "s", "q", "k", "{}", "interval", 60), "new"),
    (("pop", "queue", "w2", 2), ANY),
    (("pop", "empty", "w2", 2), "{}"),
    (("settle", "w2", 0, 2, 1, "queue"), [[], [READY, NEXT], [], "10"]),
    (("settle", "w2", 0, 2, 1, "empty", "wait", 5), ANY),
    (("settle", "w", 1, "run", "{run}", "", "complete", 0, 2, 1, "queue"),
     [[], [READY, NEXT], [], "10"]),
    (("settle", "w", 2, "run", "{run}", "", "fail", 2, "group", "message",
      "waiting", "1", "", "complete", 0, 0, 0), [[["waiting", "LOCKLOST", LOST]], [], []]),
    (("settle", "w", 1, "run", "{run}", "", "retry", 3, 5, "group", "message", 0, 0),
     [[], [], []]),
    (("settle", "w", 1, "run", "{run}", "", "release", 1, 0, 1, 1, "queue"),
     [[], [RUN], [], "10"]),
    (("settle", "w", 1, "run", "{run}", "", "unknown", 1, 600, 0, 0), [[], [], []]),
    (("settle", "w", 1, "run", "{run}", "", "crash", 3, 3, "g", "m", 0, 0), [[], [], []]),
    (("settle", "w", 1, "run", "{run}", "", "move", 2, "other", 0, 0, 0), [[], [], []]),
    (("settle", "w", 1, "run", "{run}", "", "move", 4, "other", 0, "[]", "there", 0, 0),
     [[], [], []]),
    (("order", "w", "quiet"), None),
    (("detached.keep", "w2", "run", "{run}", '{"pid":7}'), "60"),
    (("forget", "failing"), 1),
    (("beat", "w", '{"pid":1}', 2, "run", "{run}", "", "waiting", "1", 0),
     [["waiting"], ["stop"]]),
    (("complete", "run", "{run}", "queue", "{}"), "complete"),
    (("complete", "run", "{run}", "queue", "{}", "result", "[1]", "result_ttl", 60),
     "complete"),
    (("complete", "run", "{run}", "queue", "{}", "next", "other", "delay", 5), "scheduled"),
    (("fail", "run", "{run}", "group", "message"), "run"),
    (("retry", "run", "queue", "{run}", 0, "group", "message"), 4),
    (("heartbeat", "run", "{run}", "[1]"), 70),
    (("release", "run", "{run}", 5), 1),
    (("progress", "run", "{run}", '[0.5,"half"]'), 1),
    (("cancel", "waiting2", "run"), ["waiting2", "run"]),
    (("timeout", "run"), None),
    (("depends", "dependent", "on", "waiting2"), 1),
    (("depends", "dependent", "off", "all"), 1),
    (("priority", "waiting", 5), 5),
    (("tag", "add", "waiting", "a", "b"), '["old","a","b"]'),
    (("tag", "remove", "waiting", "old"), "{}"),
    (("track", "track", "waiting"), "1"),
    (("track", "track", "tracked"), "0"),
    (("track", "untrack", "tracked"), "1"),
    (("track", "untrack", "waiting"), "0"),
    (("unfail", "queue", "group"), 1),
    (("unfail", "queue", "nosuch"), 0),
    (("revive", "waiting", "failing"), 1),
    (("config.set", "heartbeat", 7), None),
    (("config.unset", "grace-period"), None),
    (("pause", "queue"), None),
    (("unpause", "paused"), None),
    (("queue.forget", "queue"), None),
    (("worker.deregister", "w"), None),
    (("recur", "queue", "cron2", "k", "{}", "interval", 60, 0), "cron2"),
    (("recur.update", "cron", "priority", 4, "interval", 30), 1),
    (("recur.tag", "cron", "a"), '["old","a"]'),
    (("recur.untag", "cron", "old"), "{}"),
    (("unrecur", "cron"), 1),
    (("log", "waiting", "message", '{"a":1}'), None),
]  # fmt: skip


def without_tokens(reply: Any) -> Any:
    """Return a reply with a placeholder for the tokens of reserved jobs."""
    if not isinstance(reply, list) or len(reply) < 3:
        return reply
    jobs = [[*job[:4], "{token}", *job[5:]] for job in reply[1]]
    return [reply[0], jobs, *reply[2:]]


def scene(keyed: Keyed) -> str:
    """Fill a namespace, and return the token of the running job `run`."""
    keyed.put("run", 1, worker="w")
    [run] = keyed.take(worker="w", now=2)
    for number in range(4):
        keyed.put(f"ready{number}", 3)
    keyed.put("waiting", 3, queue="side", tags=["old"])
    keyed.put("waiting2", 3, queue="side")
    keyed.put("tracked", 3, queue="side")
    keyed.put("dependent", 3, queue="side", depends=["waiting"])
    keyed.call("track", "track", "tracked", now=3)
    keyed.call("recur", "queue", "cron", "k", "{}", "interval", 60, 500,
               "tags", '["old"]', now=3)  # fmt: skip
    keyed.call("pause", "paused", now=3)
    keyed.call("config.set", "grace-period", 20, now=3)
    keyed.call("order", "w", "stop", now=3)
    keyed.put("failing", 3, queue="bad")
    [job] = keyed.take(queue="bad", now=4)
    keyed.call("fail", "failing", job["token"], "group", "message", now=5)
    return run["token"]


def name(part: Any) -> str:
    return " ".join(map(str, part))[:60] if isinstance(part, tuple) else ""


@pytest.mark.parametrize(("call", "reply"), MUTATING, ids=name)
def test_a_repeat_has_no_effect_and_the_same_reply(
    keyed: Keyed, call: Call, reply: Any
) -> None:
    token = scene(keyed)
    command, *args = [token if part == "{run}" else part for part in call]
    first = keyed.call(command, *args, now=10, request="client:1")
    assert without_tokens(first) == reply
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
    for call, _ in MUTATING:
        command, *args = [token if part == "{run}" else part for part in call]
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
