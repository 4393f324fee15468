"""get, multiget, the history and records of ancient versions."""

from __future__ import annotations

import pytest

from tests.core.caller import Core

MEMBERS = set(
    "jid klass state queue worker data priority retries remaining expires tags history "
    "failure tracked spawned_from_jid dependents dependencies".split()
)


def test_get_has_exactly_17_members(core: Core) -> None:
    core.put("jid")
    assert set(core.job("jid")) == MEMBERS
    assert set(core.pop()[0]) == MEMBERS


def test_get_of_a_missing_job_is_null(core: Core) -> None:
    assert core.old("get", 0, "jid") is None


def test_a_running_job(core: Core) -> None:
    core.put("jid", 5)
    core.pop(10)
    job = core.job("jid")
    assert (job["state"], job["worker"], job["expires"]) == ("running", "worker", 70)
    assert job["history"] == [
        {"when": 5, "what": "put", "q": "queue"},
        {"when": 10, "what": "popped", "worker": "worker"},
    ]


def test_tracked_and_links(core: Core) -> None:
    core.put("a")
    core.put("b", depends=["a"])
    core.old("track", 0, "track", "a")
    first, second = core.job("a"), core.job("b")
    assert (first["tracked"], second["tracked"]) == (True, False)
    assert (first["dependents"], first["dependencies"]) == (["b"], {})
    assert (second["dependents"], second["dependencies"]) == ({}, ["a"])


def test_multiget_keeps_the_order_and_skips_the_missing(core: Core) -> None:
    for jid in "abc":
        core.put(jid)
    jobs = core.json("multiget", 0, "c", "nosuch", "a", "c")
    assert [job["jid"] for job in jobs] == ["c", "a", "c"]
    assert jobs[1] == core.job("a")
    assert core.old("multiget", 0) == "{}"


def whens(core: Core, jid: str) -> list[int]:
    return [entry["when"] for entry in core.job(jid)["history"]]


def test_the_history_tells_of_each_event(core: Core) -> None:
    core.put("jid", 1.9)
    core.pop(2.9)
    core.old("log", 3.9, "jid", "hello", '{"a": 1}')
    core.complete("jid", 4.9)
    assert core.job("jid")["history"] == [
        {"when": 1, "what": "put", "q": "queue"},
        {"when": 2, "what": "popped", "worker": "worker"},
        {"when": 3, "what": "hello", "a": 1},
        {"when": 4, "what": "done"},
    ]


def test_the_history_is_trimmed_to_the_first_and_the_newest(core: Core) -> None:
    core.old("config.set", 0, "max-job-history", 5)
    for now in range(100):
        core.put("jid", now)
    assert whens(core, "jid") == [0, 96, 97, 98, 99]


def test_the_history_holds_100_entries_by_default(core: Core) -> None:
    for now in range(150):
        core.put("jid", now)
    assert whens(core, "jid") == [0, *range(51, 150)]


@pytest.mark.parametrize("limit", [0, -1])
def test_the_history_may_be_unlimited(core: Core, limit: int) -> None:
    core.old("config.set", 0, "max-job-history", limit)
    for now in range(150):
        core.put("jid", now)
    assert whens(core, "jid") == list(range(150))


def test_a_history_of_two_is_never_trimmed(core: Core) -> None:
    """*(quirk)*"""
    core.old("config.set", 0, "max-job-history", 2)
    for now in range(10):
        core.put("jid", now)
    assert whens(core, "jid") == list(range(10))
