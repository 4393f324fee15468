"""Dependencies: priorities and delays of what is released."""

from __future__ import annotations

from tests.core.caller import Core
from tests.core.keyspace import scores


def finish(core: Core, jid: str, now: float = 0) -> None:
    """Run a job of the queue `side` to its end."""
    assert core.popped(now, 1, queue="side") == [jid]
    core.complete(jid, now, queue="side")


def test_one_job_releases_many_with_their_priorities(core: Core) -> None:
    core.put("a", queue="side")
    core.put("low", depends=["a"], priority=1)
    core.put("high", depends=["a"], priority=2)
    finish(core, "a", 5)
    assert scores(core.server, "ql:q:queue-work") == [
        ("low", 1 - 5 / 10**10),
        ("high", 2 - 5 / 10**10),
    ]


def test_dependencies_and_a_delay(core: Core) -> None:
    core.put("a", queue="side")
    core.put("b", 10, delay=100, depends=["a"])
    assert core.state("b") == "depends"
    assert core.server.hget("ql:j:b", "scheduled") == "110"
    finish(core, "a", 20)
    assert core.state("b") == "scheduled"
    assert scores(core.server, "ql:q:queue-scheduled") == [("b", 110)]
    assert core.server.hget("ql:j:b", "scheduled") is None
    assert core.popped(109) == []
    assert core.popped(110) == ["b"]
