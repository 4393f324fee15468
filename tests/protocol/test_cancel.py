"""cancel: a job disappears from everywhere."""

from __future__ import annotations

import pytest

from tests.core.caller import Core


@pytest.mark.parametrize("state", ["waiting", "scheduled", "depends", "failed"])
def test_a_cancelled_job_is_gone(core: Core, state: str) -> None:
    core.put("other", queue="side")
    if state == "failed":
        core.put("jid", tags=["tag"])
        core.pop()
        core.old("fail", 0, "jid", "worker", "group", "message")
    else:
        core.put(
            "jid",
            tags=["tag"],
            delay=9 if state == "scheduled" else 0,
            depends=["other"] if state == "depends" else [],
        )
    assert core.state("jid") == state
    assert core.old("cancel", 1, "jid") == ["jid"]
    assert core.old("get", 1, "jid") is None
    left = [key for key in core.server.scan_iter() if "jid" in key]
    assert [key for key in left if not key.startswith("ql:canceled")] == []
    places = ("work", "locks", "scheduled", "depends")
    assert not core.server.exists(*(f"ql:q:queue-{place}" for place in places))
    assert core.old("failed", 1) == "{}"
    assert not core.server.exists("ql:f:group", "ql:failures", "ql:t:tag", "ql:tags")
    assert core.job("other")["dependents"] == {}
    assert core.popped(100) == []


def test_cancel_answers_the_jids_in_order(core: Core) -> None:
    for jid in "abc":
        core.put(jid)
    with core.listening() as heard:
        assert core.old("cancel", 1, "b", "nosuch", "a") == ["b", "nosuch", "a"]
    assert ['"b"' in heard[0][1], '"a"' in heard[2][1]] == [True, True]
    assert core.old("length", 1, "queue") == 1


def test_cancel_of_nothing_is_an_empty_list(core: Core) -> None:
    assert core.old("cancel", 1) == []


def test_a_cancelled_jid_may_be_put_again(core: Core) -> None:
    core.put("jid", priority=5, tags=["tag"])
    core.old("cancel", 1, "jid")
    core.put("jid", 2)
    job = core.job("jid")
    assert (job["priority"], job["tags"]) == (0, {})
    assert [entry["when"] for entry in job["history"]] == [2]
