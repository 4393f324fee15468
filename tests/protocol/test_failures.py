"""unfail."""

from __future__ import annotations

from tests.core.caller import Core
from tests.core.keyspace import scores


def fail(core: Core, jid: str, now: float = 0, group: str = "group") -> None:
    """Put, pop and fail a job."""
    core.put(jid, now)
    assert core.popped(now, 1) == [jid]
    core.old("fail", now, jid, "worker", group, "message")


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
