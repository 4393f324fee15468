"""failed and unfail."""

from __future__ import annotations

from tests.core.caller import Core
from tests.core.keyspace import scores


def fail(core: Core, jid: str, now: float = 0, group: str = "group") -> None:
    """Put, pop and fail a job."""
    core.put(jid, now)
    assert core.popped(now, 1) == [jid]
    core.old("fail", now, jid, "worker", group, "message")


def test_failed_counts_the_groups(core: Core) -> None:
    for jid, group in (("a", "one"), ("b", "two"), ("c", "one")):
        fail(core, jid, group=group)
    assert core.json("failed", 0) == {"one": 2, "two": 1}


def test_failed_lists_a_group_newest_first(core: Core) -> None:
    for now in range(30):
        fail(core, f"j{now}", now)
    first = core.json("failed", 50, "group")
    assert first["total"] == 30
    assert first["jobs"] == [f"j{n}" for n in range(29, 4, -1)]
    second = core.json("failed", 50, "group", 25, 25)
    assert second == {"total": 30, "jobs": [f"j{n}" for n in range(4, -1, -1)]}
    assert core.json("failed", 50, "group", 2, 2)["jobs"] == ["j27", "j26"]
    assert core.json("failed", 50, "group", 40, 2) == {"total": 30, "jobs": {}}


def test_unfail_takes_the_oldest(core: Core) -> None:
    for now in range(4):
        fail(core, f"j{now}", now)
    assert core.old("unfail", 10, "other", "group", 2) == 2
    assert core.json("failed", 10, "group")["jobs"] == ["j3", "j2"]
    assert core.popped(10, queue="other") == ["j1", "j0"]
    assert core.old("unfail", 10, "other", "group", 9) == 2
    assert core.old("failed", 10) == "{}"
    assert not core.server.exists("ql:failures", "ql:f:group")


def test_an_unfailed_job(core: Core) -> None:
    core.put("jid", 0, priority=3, retries=2)
    core.pop()
    core.old("retry", 0, "jid", "queue", "worker")
    core.pop()
    core.old("fail", 5, "jid", "worker", "group", "message")
    assert core.old("unfail", 10.5, "other", "group") == 1
    job = core.job("jid")
    assert (job["state"], job["queue"], job["worker"]) == ("waiting", "other", "")
    assert (job["expires"], job["remaining"]) == (0, 2)
    assert job["history"][-1] == {"when": 10, "what": "put", "q": "other"}
    assert job["failure"]["group"] == "group"
    assert scores(core.server, "ql:q:other-work") == [("jid", 3 - 10.5 / 10**10)]


def test_unfail_takes_25_by_default(core: Core) -> None:
    for now in range(30):
        fail(core, f"j{now}", now)
    assert core.old("unfail", 50, "queue", "group") == 25
    assert core.json("failed", 50) == {"group": 5}


def test_unfail_of_an_unknown_group(core: Core) -> None:
    assert core.old("unfail", 0, "queue", "nosuch") == 0


def test_a_job_that_fails_twice_is_listed_once(core: Core) -> None:
    fail(core, "jid", 0)
    core.old("unfail", 1, "queue", "group")
    core.pop(2)
    core.old("fail", 3, "jid", "worker", "other", "message")
    assert core.json("failed", 4) == {"other": 1}
    assert core.job("jid")["failure"]["group"] == "other"
