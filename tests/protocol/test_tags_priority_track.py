"""priority, tag and track."""

from __future__ import annotations

import pytest

from tests.core.caller import Core
from tests.core.keyspace import scores


def test_tag_add(core: Core) -> None:
    core.put("jid", tags=["old"])
    assert core.json("tag", 5, "add", "jid", "b", "a", "b", "old") == ["old", "b", "a"]
    assert core.job("jid")["tags"] == ["old", "b", "a"]
    assert scores(core.server, "ql:t:b") == [("jid", 5)]
    assert dict(scores(core.server, "ql:tags")) == {"old": 1, "b": 1, "a": 1}


def test_tag_remove(core: Core) -> None:
    core.put("jid", tags=["a", "b", "c"])
    assert core.json("tag", 5, "remove", "jid", "b", "nosuch") == ["a", "c"]
    assert core.job("jid")["tags"] == ["a", "c"]
    assert not core.server.exists("ql:t:b", "ql:t:nosuch")


def test_removing_the_last_tag_answers_an_empty_object(core: Core) -> None:
    core.put("jid", tags=["a"])
    assert core.old("tag", 5, "remove", "jid", "a") == "{}"
    assert core.server.hget("ql:j:jid", "tags") == "{}"


def test_tag_get_goes_by_time_then_by_jid(core: Core) -> None:
    for jid in ("foo", "bar"):
        core.put(jid, 0, tags=["tag"])
    core.put("late", 7)
    core.old("tag", 7, "add", "late", "tag")
    core.put("early", 9)
    core.old("tag", 3, "add", "early", "tag")
    assert core.json("tag", 9, "get", "tag") == {
        "total": 4,
        "jobs": ["bar", "foo", "early", "late"],
    }
    assert core.json("tag", 9, "get", "tag", 1, 2) == {
        "total": 4,
        "jobs": ["foo", "early"],
    }
    assert core.json("tag", 9, "get", "tag", 9, 2) == {"total": 4, "jobs": {}}


def test_tag_top(core: Core) -> None:
    for n, tags in enumerate((["a", "b", "c"], ["b", "c"], ["c"])):
        core.put(f"j{n}", tags=tags)
    assert core.json("tag", 0, "top") == ["c", "b"]
    assert core.json("tag", 0, "top", 1, 10) == ["b"]
    assert core.json("tag", 0, "top", 0, 1) == ["c"]


@pytest.mark.parametrize("end", ["complete", "fail", "cancel"])
def test_the_tags_of_a_job_at_its_end(core: Core, end: str) -> None:
    core.put("jid", tags=["tag"])
    core.pop()
    if end == "complete":
        core.complete("jid")
    elif end == "fail":
        core.old("fail", 0, "jid", "worker", "group", "message")
    else:
        core.old("cancel", 0, "jid")
    total = core.json("tag", 0, "get", "tag")["total"]
    assert total == (0 if end == "cancel" else 1)


def test_track_and_untrack(core: Core) -> None:
    core.put("jid")
    with core.listening() as heard:
        assert core.json("track", 5, "track", "jid") == 1
        assert core.json("track", 6, "track", "jid") == 0
        assert core.job("jid")["tracked"] is True
        assert core.json("track", 7, "untrack", "jid") == 1
        assert core.json("track", 8, "untrack", "jid") == 0
    assert heard == [
        ("track", "jid"),
        ("track", "jid"),
        ("untrack", "jid"),
        ("untrack", "jid"),
    ]
    assert core.job("jid")["tracked"] is False
    assert not core.server.exists("ql:tracked")


@pytest.mark.parametrize("word", ["TRACK", "Track", "tRaCk"])
def test_the_words_of_track_may_be_capital(core: Core, word: str) -> None:
    core.put("jid")
    assert core.json("track", 5, word, "jid") == 1
    assert core.json("track", 5, "un" + word, "jid") == 1


def test_the_tracked_jobs_in_order_of_tracking(core: Core) -> None:
    for jid in "abc":
        core.put(jid)
    for now, jid in enumerate("cab"):
        core.old("track", now, "track", jid)
    core.old("cancel", 5, "a")
    tracked = core.json("track", 5)
    assert [job["jid"] for job in tracked["jobs"]] == ["c", "b"]
    assert tracked["jobs"][0] == core.job("c")
    assert tracked["expired"] == ["a"]


def test_a_thousand_tracked_jobs_are_shown(core: Core) -> None:
    core.server.zadd("ql:tracked", {f"j{number}": number for number in range(1001)})
    assert len(core.json("track", 5)["expired"]) == 1000


def test_priority_tags_and_tracking_leave_no_history(core: Core) -> None:
    core.put("jid")
    for call in (("priority", "jid", 7), ("tag", "add", "jid", "tag"),
                 ("tag", "remove", "jid", "tag"), ("track", "track", "jid")):  # fmt: skip
        core.old(call[0], 1, *call[1:])
    assert len(core.job("jid")["history"]) == 1
