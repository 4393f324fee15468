"""Commands on several jobs, each for itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.keyed import Keyed
from tests.core.keyspace import digest


def each(keyed: Keyed, word: str, *args: Any, now: Any = 10, **more: Any) -> Any:
    """Return with which jobs it was done, and which were refused."""
    done, refused = keyed.call("each", word, *args, now=now, **more)
    assert all(refused[1::2]), "words for people"
    return done, refused[::2]


def failed(keyed: Keyed, *jids: str, queue: str = "queue") -> None:
    for jid in jids:
        keyed.put(jid, 1, queue=queue)
        [job] = keyed.take(1, queue=queue, now=2)
        keyed.call("fail", jid, job["token"], "group", "message", now=3)


def test_cancel_takes_what_can_go(keyed: Keyed) -> None:
    keyed.put("done", 0)
    keyed.call("complete", "done", keyed.token("done"), "queue", "{}", now=1)
    for jid in ("a", "b"):
        keyed.put(jid, 1)
    keyed.put("needed", 1)
    keyed.put("waits", 1, depends=["needed"])
    assert each(keyed, "cancel", "a", "done", "gone", "needed", "b", "a") == (
        ["a", "b"],
        ["done", "gone", "needed"],
    )
    assert keyed.job("needed", 10)["state"] == "waiting"


@pytest.mark.parametrize("reverse", [False, True])
def test_cancel_does_not_mind_the_order(keyed: Keyed, reverse: bool) -> None:
    jids = [f"j{number:03}" for number in range(250)]
    for before, jid in zip([None, *jids], jids, strict=False):
        keyed.put(jid, 1, depends=[before] if before else [])
    if reverse:
        jids.reverse()
    assert each(keyed, "cancel", *jids) == (jids, [])
    assert not keyed.server.keys("ql:j:*")


def test_a_job_with_dependents_outside_stays_with_its_dependencies(
    keyed: Keyed,
) -> None:
    keyed.put("root", 1)
    keyed.put("middle", 1, depends=["root"])
    keyed.put("outside", 1, depends=["middle"])
    assert each(keyed, "cancel", "root", "middle") == ([], ["root", "middle"])


def test_jobs_cancelled_by_their_dependency_count_as_cancelled(keyed: Keyed) -> None:
    keyed.put("root", 1)
    keyed.put("follows", 1, depends=["root"], on_failure="cancel")
    assert each(keyed, "cancel", "follows", "root") == (["follows", "root"], [])


def test_a_running_job_is_canceled_and_its_worker_told(keyed: Keyed) -> None:
    keyed.put("jid", 1)
    keyed.take(now=2)
    with keyed.core.listening() as heard:
        assert each(keyed, "cancel", "jid") == (["jid"], [])
    assert "w:worker" in [channel for channel, _ in heard]


def test_revive(keyed: Keyed) -> None:
    failed(keyed, "a", "b", queue="mail")
    keyed.put("c", 5)
    keyed.put("d", 5, depends='["c"]')
    done, refused = each(keyed, "revive", "b", "c", "gone", "a", "d")
    assert done == ["b", "a"]
    assert refused == ["c", "gone", "d"]
    assert {keyed.job(jid, 10)["queue"] for jid in "ab"} == {"mail"}
    assert not keyed.server.exists("ql:failures")


def test_move(keyed: Keyed) -> None:
    keyed.put("a", 1, tags=["t"], priority=4, context='{"x":1}', data='{"n": 1}')
    keyed.put("b", 1)
    keyed.take(1, now=2)
    assert each(keyed, "move", "other", 5, "b", "gone", "a") == (
        ["b", "a"],
        ["gone"],
    )
    job = keyed.job("a", 10)
    assert (job["queue"], job["state"], job["tags"]) == ("other", "scheduled", ["t"])
    assert (job["data"], job["context"], job["priority"]) == ('{"n": 1}', {"x": 1}, 4)
    assert keyed.job("b", 10)["queue"] == "other"
    assert "other" in keyed.server.zrange("ql:queues", 0, -1)


def test_a_repeated_request_gets_the_same_answer(keyed: Keyed) -> None:
    keyed.put("a", 1)
    first = each(keyed, "cancel", "a", "b", request="client:1")
    assert each(keyed, "cancel", "a", "b", request="client:1") == first
    assert first[0] == ["a"]


@pytest.mark.parametrize(
    ("word", "args"),
    [
        ("cancel", ()),
        ("move", ("other", 0)),
        ("move", ("o*", 0, "jid")),
        ("move", ("other", "soon", "jid")),
        ("priority", ("high", "jid")),
        ("priority", (5,)),
    ],
)
def test_bad_arguments_refuse_the_whole_call(
    keyed: Keyed, word: str, args: tuple[Any, ...]
) -> None:
    keyed.put("jid", 1)
    before = digest(keyed.server)
    assert keyed.refusal("each", word, *args, now=5).startswith("BADARG ")
    assert digest(keyed.server) == before


@pytest.mark.damages
def test_an_error_of_the_server_is_not_taken_for_a_refusal(keyed: Keyed) -> None:
    keyed.put("a")
    keyed.server.set("ql:j:a-dependents", "no set")
    assert "WRONGTYPE" in keyed.refusal("each", "cancel", "a", now=1)
    assert keyed.server.hget("ql:j:a", "state") == "waiting"


def test_tags_and_tracking(keyed: Keyed) -> None:
    keyed.put("a", 1)
    keyed.put("full", 1, tags=[f"t{number}" for number in range(32)])
    assert each(keyed, "tag", "new", "a", "full") == (["a"], ["full"])
    assert keyed.job("a", 10)["tags"] == ["new"]
    assert each(keyed, "untag", "new", "a") == (["a"], [])
    assert not keyed.job("a", 10)["tags"]
    assert each(keyed, "track", "a", "gone")[0] == ["a"]
    assert keyed.job("a", 10)["tracked"]
    assert each(keyed, "untrack", "a")[0] == ["a"]
    assert not keyed.job("a", 10)["tracked"]


def test_a_job_that_is_gone_can_be_untracked(keyed: Keyed) -> None:
    keyed.put("a", 1)
    keyed.call("track", "track", "a", now=1)
    keyed.call("cancel", "a", now=2)
    assert each(keyed, "untrack", "a", "b") == (["a"], ["b"])
    assert keyed.json("track", now=11) == {"jobs": {}, "expired": {}}


def test_priority(keyed: Keyed) -> None:
    keyed.put("a", 1)
    keyed.put("b", 2)
    assert each(keyed, "priority", 7, "b", "gone") == (["b"], ["gone"])
    assert [job["jid"] for job in keyed.take(now=10)] == ["b", "a"]
