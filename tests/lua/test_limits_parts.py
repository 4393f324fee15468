"""Limits where two things meet: a call that comes to nothing, a core that knows no limits."""

from __future__ import annotations

import pytest

from tests.lua.keyed import Keyed
from tests.lua.test_limits import START, held_back, jids, limit, sound

TYPE = "klass-max-concurrency-of-type"


@pytest.fixture
def three(keyed: Keyed) -> Keyed:
    """One running job and two that it holds back, at START."""
    limit(keyed, TYPE, 1)
    for n in range(3):
        keyed.put(f"j{n}", START + n / 10)
    assert jids(keyed.take(now=START + 1)) == ["j0"]
    return keyed


def test_one_that_was_called_and_is_held_back_again_keeps_no_room(three: Keyed) -> None:
    limit(three, TYPE, 2, START + 2)
    assert three.take(0, now=START + 2) == []
    three.call("pause", "queue", now=START + 2)
    limit(three, TYPE, 0, START + 2)
    three.call("unpause", "queue", now=START + 2)
    assert held_back(three, now=START + 2) == 2
    limit(three, TYPE, 1, START + 2)
    assert three.take(now=START + 2) == []
    three.call("cancel", "j0", now=START + 3)
    assert jids(three.take(now=START + 3)) == ["j1"]
    sound(three, START + 3)


def test_many_idle_workers_are_woken_when_there_is_much_room(keyed: Keyed) -> None:
    limit(keyed, TYPE, 1)
    for n in range(8):
        keyed.put(f"j{n}", START + n / 10)
    assert len(keyed.take(now=START + 1)) == 1
    for n in range(6):
        rest = keyed.settle([], 1, worker=f"w{n}", now=START + 2, wait=100).rest
    limit(keyed, TYPE, 6, START + 3)
    keyed.server.delete(rest[1])
    assert len(keyed.take(1, now=START + 3)) == 1
    assert keyed.server.llen(rest[1]) >= 4  # more than watch what falls due


@pytest.mark.parametrize("kind", ["ordered", "fair_by"])
def test_a_turn_that_a_foreign_core_has_ended_comes_to_the_next(
    keyed: Keyed, kind: str
) -> None:
    pairs = {"limit_key": "k", "ordered": 1} if kind == "ordered" else {"fair_by": "t"}
    for n in range(3):
        keyed.put(f"j{n}", START + n / 10, **pairs)
    assert keyed.take(0, now=START + 1) == []
    # It stands first in its turn, and was completed without a word to the lists.
    keyed.server.hset("ql:j:j0", "state", "complete")
    keyed.server.zrem("ql:q:queue-work", "j0")
    assert keyed.take(now=START + 30) == []
    assert jids(keyed.take(1, now=START + 62)) == ["j1"]
