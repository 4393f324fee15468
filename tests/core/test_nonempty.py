"""A call that serves very many queues: the index of those that may have something."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.core.caller import Core
from tests.core.keyed import Keyed, settlement
from tests.core.serving import expanded, served

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
    assert keyed.violations() == []


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
