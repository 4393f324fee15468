"""A call that serves very many queues: the index of those that may have something."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.lua.caller import Core
from tests.lua.keyed import Keyed, settlement
from tests.lua.serving import expanded, served

INDEX, KNOWN = "ql:nonempty", "ql:queues"

NAMES = [f"{start}{n:02}" for start in ("a", "b", "bc", "d-") for n in range(12)]

WISHES = [
    (("*",), ()),
    (("b*", "a??"), ()),
    (("*",), ("b*", "d-0?")),
    (tuple(reversed(NAMES)), ()),
    ((*NAMES[30:42], "unknown", "b*", "*"), ("bc*",)),
    (("d-03", "a*", "d-01"), ()),
    (("none*",), ()),
]


def listed(keyed: Keyed) -> set[str]:
    """Return the queues in the index."""
    return set(keyed.server.zrange(INDEX, 0, -1))


def settle(
    keyed: Keyed, queues: tuple[str, ...], count: int = 1, *, now: float = 1
) -> list[str]:
    """Take jobs and complete them; return their queues."""
    jobs = keyed.settle([], count, list(queues), now=now).jobs
    ends = [settlement(job["jid"], job["token"], "complete") for job in jobs]
    assert keyed.settle(ends, 0, [], now=now).refused == []
    return [job["queue"] for job in jobs]


def emptied(keyed: Keyed, names: list[str]) -> None:
    """Make these queues known, with nothing in them."""
    for name in names:
        keyed.put(f"once-{name}", queue=name)
    for name in names:
        assert settle(keyed, (name,), now=0) == [name]


@pytest.mark.parametrize("turns", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_order_is_that_of_the_names_whatever_is_empty(
    keyed: Keyed, seed: int, *, turns: bool
) -> None:
    chance, waiting, now = random.Random(seed), Counter[str](), 1.0
    emptied(keyed, NAMES)
    for _ in range(60):
        now += 0.5
        for name in chance.sample(NAMES, chance.choice([0, 1, 3])):
            keyed.put(f"{name}@{now}", now, queue=name)
            waiting[name] += 1
        asked, exclude = chance.choice(WISHES)
        count = chance.choice([1, 2, 5, 30, 120])
        expected = served(expanded(asked, exclude, NAMES), waiting, count, turns=turns)
        options = [part for glob in exclude for part in ("exclude", glob)]
        options += ["turns", "1"] if turns else []
        _, jobs, *_ = keyed.call(
            "settle", "worker", 0, count, len(asked), *asked, *options, now=now
        )
        taken = [job[1] for job in jobs]
        assert taken == expected
        waiting.subtract(taken)
        ends = [settlement(job[0], job[4], "complete") for job in jobs]
        if chance.random() < 0.7:
            keyed.settle(ends, 0, [], now=now)
        assert {name for name in waiting if waiting[name]} <= listed(keyed)
    assert keyed.violations(now) == []


def cost(keyed: Keyed, *queues: str, count: int = 1) -> int:
    """Return how many commands a take runs that finds one job."""
    keyed.put("one", 2, queue="z")
    keyed.server.config_resetstat()
    [job] = keyed.settle([], count, list(queues), now=2).jobs
    stats = keyed.server.info("commandstats")
    keyed.settle([settlement(job["jid"], job["token"], "complete")], 0, [], now=2)
    return sum(each["calls"] for each in stats.values())


@pytest.mark.parametrize("asked", ["glob", "names"])
def test_empty_queues_cost_nothing(keyed: Keyed, asked: str) -> None:
    names = [f"a{n:03}" for n in range(300)]
    keyed.put("known", queue="z")
    settle(keyed, ("z",))
    few = cost(keyed, "*")
    emptied(keyed, names)
    queues = ("*",) if asked == "glob" else (*names, "z")
    settle(keyed, queues, now=2)  # takes them out
    assert listed(keyed) <= {"z"}
    # Whether a client waits at one of the names is asked for a hundred at once.
    assert cost(keyed, *queues) <= few + (0 if asked == "glob" else 8)


def test_a_few_queues_are_served_without_a_look_at_each(keyed: Keyed) -> None:
    names = [*(f"a{n}" for n in range(7)), "z"]
    for name in names:
        keyed.put(f"later-{name}", queue=name, delay=1000)
    settle(keyed, ("*",), now=2)
    assert cost(keyed, "*") < cost(keyed, *names)


def test_names_behind_the_beginning_asked_for_cost_nothing(keyed: Keyed) -> None:
    keyed.put("known", queue="z")
    settle(keyed, ("z",))
    cost(keyed, "z*", count=5)
    few = cost(keyed, "z*", count=5)
    for n in range(300):
        keyed.put(f"behind-{n}", queue=f"~{n:03}", delay=1000)
    assert cost(keyed, "z*", count=5) == few


def test_who_has_something_that_is_not_ready_stays(keyed: Keyed) -> None:
    emptied(keyed, NAMES)
    keyed.put("later", 1, queue="a01", delay=1000)
    keyed.put("first", 1, queue="a02", delay=1000)
    keyed.put("behind", 1, queue="a03", depends='["first"]')
    keyed.put("held", 1, queue="a04")
    keyed.settle([], 1, ["a04"], now=1)
    keyed.call("recur", "a05", "cron", "k", "{}", "interval", 1000, 900, now=1)
    assert settle(keyed, ("*",)) == []
    assert listed(keyed) == {"a01", "a02", "a03", "a04", "a05"}
    keyed.server.delete(INDEX)
    keyed.server.hdel("ql:meta", "looked")
    assert settle(keyed, ("*",)) == []
    assert listed(keyed) == {"a01", "a02", "a03", "a04", "a05"}


@pytest.mark.parametrize("asked", [("*",), tuple(NAMES)], ids=["glob", "names"])
class TestAForeignScript:
    """It adds nothing to the index."""

    def put(self, keyed: Keyed, queue: str) -> None:
        keyed.put("foreign", 1, queue=queue)
        keyed.server.zrem(INDEX, queue)

    def test_who_finds_nothing_finds_its_job(
        self, keyed: Keyed, asked: tuple[str, ...]
    ) -> None:
        emptied(keyed, NAMES)
        assert settle(keyed, asked) == []
        self.put(keyed, "a05")
        assert settle(keyed, asked) == ["a05"]

    def test_its_job_comes_before_others_after_some_seconds(
        self, keyed: Keyed, asked: tuple[str, ...]
    ) -> None:
        emptied(keyed, NAMES)
        assert settle(keyed, asked) == []
        self.put(keyed, "a05")
        for n in range(3):
            keyed.put(f"other-{n}", 1, queue="b01")
        assert settle(keyed, asked, now=2) == ["b01"]
        assert settle(keyed, asked, now=6) == ["a05"]

    def test_what_it_has_forgotten_is_known_again(
        self, keyed: Keyed, asked: tuple[str, ...]
    ) -> None:
        emptied(keyed, NAMES)
        assert settle(keyed, asked) == []
        keyed.put("there", 1, queue="a05")
        keyed.server.zrem(KNOWN, "a05", "a06")
        keyed.server.zadd(INDEX, {"a06": 0})
        assert settle(keyed, asked, now=6) == ["a05"]
        assert keyed.server.zscore(KNOWN, "a05") is not None
        assert keyed.server.zscore(KNOWN, "a06") is None
        assert listed(keyed) == {"a05"}


def test_a_look_leaves_a_queue_in_the_index_that_is_not_asked_for(keyed: Keyed) -> None:
    emptied(keyed, NAMES)
    assert settle(keyed, ("*",)) == []
    keyed.put("there", 1, queue="a05")
    keyed.server.zrem(KNOWN, "a05")
    assert settle(keyed, ("b*",), now=6) == []
    assert keyed.server.zscore(KNOWN, "a05") is not None
    assert listed(keyed) == {"a05"}


def test_a_put_makes_a_queue_known_again_within_a_second(keyed: Keyed) -> None:
    keyed.put("one", 1, queue="a")
    keyed.server.zrem(KNOWN, "a")
    keyed.put("two", 1.5, queue="a")
    keyed.put("three", 2, queue="a")
    assert keyed.server.zrange(KNOWN, 0, -1) == ["a"]


def test_a_forgotten_queue_is_served_by_name(keyed: Keyed) -> None:
    emptied(keyed, NAMES)
    assert settle(keyed, tuple(NAMES)) == []
    keyed.put("there", 1, queue="a05")
    keyed.put("other", 1, queue="b01")
    keyed.call("queue.forget", "a05", now=1)
    assert "a05" not in listed(keyed)
    assert settle(keyed, tuple(NAMES)) == ["a05"]
    assert keyed.server.zscore(KNOWN, "a05") is None


def test_what_was_put_before_there_was_an_index_is_in_order(core: Core) -> None:
    keyed = Keyed(core)
    for name in reversed(NAMES):
        core.put(name, 0, queue=name)
    assert not keyed.server.exists(INDEX)
    assert settle(keyed, ("*",), 100) == NAMES


def test_a_call_may_fill_a_queue_that_it_serves(keyed: Keyed) -> None:
    """A job goes on in a queue that was not in the index when the call began."""
    emptied(keyed, NAMES)
    keyed.put("job", 1, queue="b01")
    keyed.put("other", 1, queue="b02")
    [job] = keyed.settle([], 1, ["*"], now=1).jobs
    assert settle(keyed, ("a*",)) == []
    done = settlement(job["jid"], job["token"], "move", "a05", 0)
    assert keyed.settle([done], 1, ["*"], now=1).jids == ["job"]
