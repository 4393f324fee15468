"""Queues served in turn: each gives its part of what is wanted."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.core.keyed import Keyed


def fill(keyed: Keyed, sizes: dict[str, int]) -> None:
    """Put so many jobs into each queue."""
    for queue, size in sizes.items():
        items = [{"jid": f"{queue}{n:03}", "queue": queue} for n in range(size)]
        keyed.put_many(items)


def in_turn(sizes: dict[str, int], count: int) -> Counter[str]:
    """Return how many jobs each queue gives when one is taken from each in turn."""
    left, given = dict(sizes), Counter[str]()
    while given.total() < count and any(left.values()):
        for queue in sizes:
            if left[queue] and given.total() < count:
                left[queue] -= 1
                given[queue] += 1
    return given


def served(keyed: Keyed, count: int, queues: list[str]) -> str:
    """Return the queues of the jobs handed out, as one word."""
    queues_and_turns = ["turns", "1"]
    refused, jobs, *_ = keyed.call(
        "settle", "w", 0, count, len(queues), *queues, *queues_and_turns, now=9
    )
    assert refused == []
    assert len({job[0] for job in jobs}) == len(jobs), "a job was handed out twice"
    return "".join([job[1] for job in jobs])


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 6, 8, 10, 29, 50])
@pytest.mark.parametrize(
    "sizes",
    [
        {"C": 2, "B": 3, "A": 5},
        {"C": 9, "B": 1, "A": 9, "D": 9},
        {"A": 1, "B": 50, "C": 50},
        {"A": 0, "B": 4, "C": 0},
        {"A": 20},
        {"A": 0},
    ],
    ids=str,
)
def test_each_queue_gives_what_it_would_in_turn(
    keyed: Keyed, sizes: dict[str, int], count: int
) -> None:
    fill(keyed, sizes)
    assert Counter(served(keyed, count, list(sizes))) == in_turn(sizes, count)
    assert keyed.violations() == []


def test_single_jobs_come_from_the_first_queue_that_has_one(keyed: Keyed) -> None:
    fill(keyed, {"A": 2, "B": 2})
    assert [served(keyed, 1, ["A", "B"]) for _ in range(5)] == ["A", "A", "B", "B", ""]


def test_paused_and_full_queues_are_passed_over(keyed: Keyed) -> None:
    fill(keyed, {"A": 9, "B": 9, "C": 9})
    keyed.call("pause", "A", now=1)
    keyed.call("config.set", "B-max-concurrency", 2, now=1)
    assert served(keyed, 9, ["A", "B", "C"]) == "BBCCCCCCC"


def test_many_queues_and_jobs(keyed: Keyed) -> None:
    names = [f"q{n:03}" for n in range(200)]
    sizes = {name: 1 + n % 3 for n, name in enumerate(names)}
    fill(keyed, sizes)
    word = served(keyed, 250, names)
    found = Counter(word[at : at + 4] for at in range(0, len(word), 4))
    assert found == in_turn(sizes, 250)
    assert keyed.violations() == []


def test_globs_and_a_repeated_request(keyed: Keyed) -> None:
    fill(keyed, {"A": 3, "B": 3})
    arguments = ("settle", "w", 0, 4, 1, "*", "turns", 1)
    first = keyed.call(*arguments, now=9, request="client:1")
    assert [job[1] for job in first[1]] == ["A", "A", "B", "B"]
    assert keyed.call(*arguments, now=10, request="client:1") == first


def test_turns_are_one_or_not_there(keyed: Keyed) -> None:
    for value in ("0", "yes", ""):
        refusal = keyed.refusal("settle", "w", 0, 1, 1, "queue", "turns", value, now=0)
        assert refusal.startswith("BADARG ")
