"""Dependencies: links, release, depends on and off."""

from __future__ import annotations

from tests.core.caller import Core, listed
from tests.core.keyspace import scores


def finish(core: Core, jid: str, now: float = 0) -> None:
    """Run a job of the queue `side` to its end."""
    assert core.popped(now, 1, queue="side") == [jid]
    core.complete(jid, now, queue="side")


def links(core: Core, jid: str) -> tuple[set[str], set[str]]:
    """Return what a job waits for, and who waits for it."""
    job = core.job(jid)
    return set(listed(job["dependencies"])), set(listed(job["dependents"]))


def test_a_job_waits_for_another(core: Core) -> None:
    core.put("a", queue="side")
    core.put("b", 5, depends=["a"])
    assert core.state("b") == "depends"
    assert scores(core.server, "ql:q:queue-depends") == [("b", 5)]
    assert core.server.smembers("ql:j:b-dependencies") == {"a"}
    assert core.server.smembers("ql:j:a-dependents") == {"b"}
    assert core.popped(9) == []
    finish(core, "a", 9)
    assert core.state("b") == "waiting"
    assert not core.server.exists(
        "ql:q:queue-depends", "ql:j:b-dependencies", "ql:j:a-dependents"
    )
    assert core.popped(9) == ["b"]


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


def test_a_delay_that_has_passed_still_goes_through_scheduled(core: Core) -> None:
    core.put("a", queue="side")
    core.put("b", 10, delay=5, depends=["a"])
    finish(core, "a", 20)
    assert core.state("b") == "scheduled"
    assert scores(core.server, "ql:q:queue-scheduled") == [("b", 15)]
    assert core.popped(20) == ["b"]


def test_a_move_keeps_the_dependencies(core: Core) -> None:
    core.put("a", queue="side")
    core.put("b", depends=["a"])
    core.put("b", 1, queue="other")
    assert core.state("b") == "depends"
    assert links(core, "b") == ({"a"}, set())
    assert scores(core.server, "ql:q:other-depends") == [("b", 1)]
    assert not core.server.exists("ql:q:queue-depends")
    finish(core, "a", 5)
    assert core.popped(5, queue="other") == ["b"]
