"""Workers with the jobs that they have held for the longest time."""

from __future__ import annotations

from typing import Any

from tests.core.caller import listed
from tests.core.keyed import Keyed


def views(keyed: Keyed, *part: Any, now: float) -> dict[str, list[str]]:
    """Return the jids that are shown of each worker, in the order of the page."""
    reply = keyed.json("worker.views", *part, now=now)
    return {
        each["worker"]["name"]: [row[-1] for row in listed(each["jobs"])]
        for each in listed(reply["workers"])
    }


def start(keyed: Keyed, worker: str, *jids: str, now: float) -> None:
    for jid in jids:
        keyed.put(jid, now)
        [job] = keyed.take(1, worker=worker, now=now)
        assert job["jid"] == jid


def test_the_five_that_it_has_held_for_the_longest_time(keyed: Keyed) -> None:
    keyed.call("config.set", "heartbeat", 500, now=0)
    for n in range(7):
        start(keyed, "w", f"j{n}", now=10 + n)
    assert views(keyed, 0, 9, now=20) == {"w": ["j0", "j1", "j2", "j3", "j4"]}
    # A longer lock does not change since when it has held a job.
    keyed.call("heartbeat", "j0", keyed.job("j0")["token"], now=20)
    assert views(keyed, 0, 9, now=20)["w"][0] == "j0"


def test_jobs_of_one_moment_are_sorted_by_name(keyed: Keyed) -> None:
    start(keyed, "w", "c", "a", "d", "b", now=10)
    assert views(keyed, 0, 9, now=20) == {"w": ["a", "b", "c", "d"]}


def test_pages_of_workers(keyed: Keyed) -> None:
    for n, worker in enumerate(["one", "two", "three"]):
        start(keyed, worker, f"of-{worker}", now=10 + n)
    whole = list(views(keyed, 0, 9, now=20).items())
    assert dict(whole) == {each: [f"of-{each}"] for each in ("one", "two", "three")}
    for at in range(4):
        for count in range(1, 4):
            found = views(keyed, at, count, now=20)
            assert list(found.items()) == whole[at : at + count]
            total = keyed.json("worker.views", at, count, now=20)["total"]
            assert total == 3
    assert views(keyed, 0, 0, now=20) == {}
