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


def test_a_job_waits_for_all(core: Core) -> None:
    core.put("a", queue="side")
    core.put("b", 1, queue="side")
    core.put("c", depends=["a", "b"])
    finish(core, "a", 5)
    assert core.state("c") == "depends"
    finish(core, "b", 6)
    assert core.state("c") == "waiting"


def test_one_job_releases_many_with_their_priorities(core: Core) -> None:
    core.put("a", queue="side")
    core.put("low", depends=["a"], priority=1)
    core.put("high", depends=["a"], priority=2)
    finish(core, "a", 5)
    assert scores(core.server, "ql:q:queue-work") == [
        ("low", 1 - 5 / 10**10),
        ("high", 2 - 5 / 10**10),
    ]


def test_a_failed_dependency_blocks(core: Core) -> None:
    core.put("a", queue="side")
    core.pop(queue="side")
    core.old("fail", 0, "a", "worker", "group", "message")
    core.put("b", depends=["a"])
    assert core.state("b") == "depends"


def test_a_missing_or_complete_dependency_is_ignored(core: Core) -> None:
    core.put("done", queue="side")
    finish(core, "done")
    core.put("b", depends=["done", "nosuch"])
    assert core.state("b") == "waiting"
    assert links(core, "b") == (set(), set())


def test_advancing_releases_no_dependent(core: Core) -> None:
    core.put("a", queue="side")
    core.put("b", depends=["a"])
    core.pop(queue="side")
    core.complete("a", queue="side", next="side")
    assert core.state("b") == "depends"
    assert links(core, "a") == (set(), {"b"})
    finish(core, "a", 1)
    assert core.state("b") == "waiting"


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


def test_empty_dependencies_keep_the_old_ones(core: Core) -> None:
    core.put("a", queue="side")
    core.put("b", depends=["a"])
    core.put("b", 1, depends=[])
    assert core.state("b") == "depends"


def test_new_dependencies_replace_the_old_ones(core: Core) -> None:
    for jid in "ace":
        core.put(jid, queue="side")
    core.put("b", depends=["a", "c"])
    core.put("b", 1, depends=["c", "e"])
    assert links(core, "b") == ({"c", "e"}, set())
    assert links(core, "a") == (set(), set())
    assert links(core, "e") == (set(), {"b"})


def test_new_dependencies_that_are_satisfied_free_the_job(core: Core) -> None:
    core.put("a", queue="side")
    core.put("b", depends=["a"])
    core.put("b", 1, depends=["nosuch"])
    assert core.state("b") == "waiting"
    assert links(core, "a") == (set(), set())


def test_a_waiting_job_may_gain_dependencies_by_a_put(core: Core) -> None:
    core.put("a", queue="side")
    core.put("b")
    core.put("b", 1, depends=["a"])
    assert core.state("b") == "depends"
    assert not core.server.exists("ql:q:queue-work")


def test_depends_on(core: Core) -> None:
    for jid in "acd":
        core.put(jid, queue="side")
    core.put("b", depends=["a"])
    assert core.old("depends", 0, "b", "on", "c", "d", "nosuch") == 1
    assert links(core, "b") == ({"a", "c", "d"}, set())
    assert links(core, "c") == (set(), {"b"})


def test_depends_off(core: Core) -> None:
    for jid in "ac":
        core.put(jid, queue="side")
    core.put("b", priority=3, depends=["a", "c"])
    assert core.old("depends", 5, "b", "off", "a", "nosuch") == 1
    assert core.state("b") == "depends"
    assert links(core, "a") == (set(), set())
    assert core.old("depends", 6, "b", "off", "c") == 1
    assert core.state("b") == "waiting"
    assert scores(core.server, "ql:q:queue-work") == [("b", 3 - 6 / 10**10)]


def test_depends_off_all(core: Core) -> None:
    for jid in "ac":
        core.put(jid, queue="side")
    core.put("b", depends=["a", "c"])
    assert core.old("depends", 5, "b", "off", "all") == 1
    assert core.state("b") == "waiting"
    assert links(core, "a") == links(core, "b") == (set(), set())
    assert not core.server.exists(
        "ql:q:queue-depends", "ql:j:b-dependencies", "ql:j:a-dependents"
    )
    assert core.popped(5) == ["b"]


def test_a_dependent_in_the_depends_state_may_be_waited_for(core: Core) -> None:
    core.put("a", queue="side")
    core.put("b", queue="side", depends=["a"])
    core.put("c", depends=["b"])
    finish(core, "a", 1)
    assert core.state("c") == "depends"
    finish(core, "b", 2)
    assert core.state("c") == "waiting"


def test_a_dependency_put_again_still_releases(core: Core) -> None:
    core.put("a", queue="side")
    core.put("b", depends=["a"])
    core.pop(queue="side")
    core.old("fail", 0, "a", "worker", "group", "message")
    core.put("a", 1, queue="side")
    assert links(core, "a") == (set(), {"b"})
    finish(core, "a", 2)
    assert core.state("b") == "waiting"
