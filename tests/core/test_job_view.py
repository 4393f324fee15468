"""What pages show of a job: links, spawned jobs, a long history; the schedules that are next."""

from __future__ import annotations

import json
from typing import Any

from tests.core.keyed import Keyed
from tests.core.test_job_summary import rows


def view(keyed: Keyed, jid: str, links: int = 50, history: int = 50) -> Any:
    return keyed.json("job.view", jid, links, history, now=100)


def names(part: Any) -> list[str]:
    return [row["jid"] for row in rows(part) if row]


def test_links_both_ways(keyed: Keyed) -> None:
    keyed.put("done", 1)
    keyed.put("open", 1)
    keyed.put("jid", 2, depends=["done", "open"])
    for number in range(3):
        keyed.put(f"after{number}", 3, depends=["jid"])
    keyed.call("complete", "done", keyed.token("done", 4), "queue", "{}", now=5)
    found = view(keyed, "jid")
    assert names(found["dependencies"]) == ["open"]
    assert names(found["dependents"]) == ["after0", "after1", "after2"]
    assert names(found["needs"]) == ["done", "open"]
    assert [found[f"{kind}_total"] for kind in ("dependencies", "dependents", "needs")] == [
        *(1, 3, 2),
    ]  # fmt: skip
    found = view(keyed, "jid", 2)
    assert (len(names(found["dependents"])), found["dependents_total"]) == (2, 3)
    assert len(found["job"]["dependents"]) == 2
    found = view(keyed, "jid", 0)
    assert not names(found["dependents"]) and not found["job"]["dependents"]


def test_spawned_jobs_and_spawners_are_shown(keyed: Keyed) -> None:
    keyed.put("jid", 1)
    token = keyed.token("jid", 2)
    jobs = [part for n in range(3) for part in (f"s{n}", "queue", "k", "{}", 0, 0)]
    keyed.call("spawn", "jid", token, "worker", *jobs, now=3)
    found = view(keyed, "jid")
    assert (names(found["spawned"]), found["spawned_total"]) == (["s0", "s1", "s2"], 3)
    assert names(view(keyed, "s0")["spawners"]) == ["jid"]


def test_the_first_entry_of_a_long_history_and_the_newest(keyed: Keyed) -> None:
    keyed.put("jid", 1)
    for number in range(60):
        keyed.call("log", "jid", f"entry {number}", now=2)
    found = view(keyed, "jid", history=45)
    assert found["history_total"] == 61
    whats = [entry["what"] for entry in found["job"]["history"]]
    assert whats == ["put", *(f"entry {number}" for number in range(16, 60))]
    assert len(view(keyed, "jid", history=61)["job"]["history"]) == 61
    whats = [e["what"] for e in view(keyed, "jid", history=1)["job"]["history"]]
    assert whats == ["put"]


def test_long_entries_are_left_out_from_the_oldest_on(keyed: Keyed) -> None:
    keyed.put("jid", 1)
    for number in range(30):
        keyed.call("log", "jid", f"{number}", json.dumps({"text": "x" * 60_000}), now=2)
    found = view(keyed, "jid")
    whats = [entry["what"] for entry in found["job"]["history"]]
    assert whats == ["put", "26", "27", "28", "29"]
    assert found["history_total"] == 31


def schedule(keyed: Keyed, name: str, *args: Any, queue: str = "queue") -> None:
    keyed.call("schedule.set", name, queue, "k", "{}", *args, now=10)


def test_the_schedules_that_tick_next(keyed: Keyed) -> None:
    for number in (30, 10, 20):
        # The queue that is looked at last has the one that ticks first.
        args = ("interval", 600, "offset", number)
        schedule(keyed, f"in{number}", *args, queue=f"q{100 - number}")
    schedule(keyed, "known", "cron", "* * * * *", "timezone", "UTC")
    schedule(keyed, "unknown", "cron", "* * * * *", "timezone", "UTC")
    schedule(keyed, "paused", "interval", 600, "offset", 1)
    keyed.call("schedule.pause", "paused", now=11)
    score = keyed.server.zscore("ql:schedules", "known")
    keyed.call("schedule.tick", "known", score, "", "", 16, "", now=12)
    for count in (9, 4, 3, 2, 1, 0):
        found = keyed.json("schedules.next", count, now=15)
        ids = [each["id"] for each in found or ()]
        assert ids == ["known", "in10", "in20", "in30"][:count]


def test_the_schedules_of_a_queue(keyed: Keyed) -> None:
    for queue in ("a", "b"):
        for number in (2, 1):
            schedule(keyed, f"{queue}{number}", "interval", 60, "offset", number,
                     queue=queue)  # fmt: skip
        more = ("cron", "* * * * *", "timezone", "UTC")
        schedule(keyed, f"{queue}-cron", *more, queue=queue)
        schedule(keyed, f"{queue}-cron-rests", *more, queue=queue)
        schedule(keyed, f"{queue}-rests", "interval", 60, queue=queue)
        keyed.call("schedule.pause", f"{queue}-rests", now=20)
        keyed.call("schedule.pause", f"{queue}-cron-rests", now=21)
    expected = ["a-cron", "a-cron-rests", "a-rests", "a1", "a2"]
    for offset in range(7):
        for count in range(7):
            found = keyed.json("schedules.in", "a", offset, count, now=30)
            ids = [each["id"] for each in found["schedules"] or ()]
            assert (found["total"], ids) == (5, expected[offset : offset + count])
    assert keyed.call("schedules.count", "b", "nosuch", "a", now=30) == [5, 0, 5]
