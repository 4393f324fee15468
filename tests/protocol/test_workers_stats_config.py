"""workers, stats and config."""

from __future__ import annotations

import pytest

from tests.core.caller import Core
from tests.core.keyed import Keyed

DEFAULTS = {
    "application": "qless",
    "heartbeat": 60,
    "grace-period": 10,
    "stats-history": 30,
    "histogram-history": 7,
    "jobs-history-count": 50000,
    "jobs-history": 604800,
}

# Of the numbers 0 to 19. The last digit depends on how the mean was rounded on the way.
DEVIATION = pytest.approx(5.916079783099, abs=1e-11)


def test_workers_most_recently_active_first(core: Core) -> None:
    for jid in "abc":
        core.put(jid)
    core.pop(0, 1, worker="first")
    core.pop(10, 2, worker="second")
    assert core.json("workers", 20) == [
        {"name": "second", "jobs": 2, "stalled": 0},
        {"name": "first", "jobs": 1, "stalled": 0},
    ]
    core.old("heartbeat", 30, core.json("workers", 20, "first")["jobs"][0], "first")
    assert [w["name"] for w in core.json("workers", 30)] == ["first", "second"]


def test_one_worker_in_detail(core: Core) -> None:
    for jid in "abc":
        core.put(jid)
        core.pop(ord(jid) - ord("a"), 1)
    assert core.json("workers", 10, "worker") == {
        "jobs": ["c", "b", "a"],
        "stalled": {},
    }
    assert core.json("workers", 61, "worker") == {
        "jobs": ["c", "b"],
        "stalled": ["b", "a"],
    }
    assert core.json("workers", 61) == [{"name": "worker", "jobs": 2, "stalled": 2}]
    assert core.json("workers", 500, "worker")["jobs"] == {}


def test_locks_of_more_than_a_hundred_days_are_not_listed(core: Core) -> None:
    core.old("config.set", 0, "heartbeat", 8640001)
    core.put("jid")
    core.pop(0)
    assert core.json("workers", 0, "worker") == {"jobs": {}, "stalled": {}}
    assert core.json("workers", 1, "worker") == {"jobs": ["jid"], "stalled": {}}


def test_silent_workers_are_forgotten(core: Core) -> None:
    core.put("jid")
    core.pop(0, worker="old")
    core.pop(100, worker="new")
    assert len(core.json("workers", 86399)) == 2
    assert [w["name"] for w in core.json("workers", 86400)] == ["new"]
    assert not core.server.exists("ql:w:old:jobs")


def test_a_worker_whose_locks_are_good_is_not_forgotten(core: Core) -> None:
    """However short the age is: its jobs stay on its list until their locks have expired."""
    core.old("config.set", 0, "max-worker-age", 10)
    core.put("jid")
    core.pop(0, worker="holds")
    core.pop(0, worker="idle")
    core.pop(20, worker="new")
    assert [w["name"] for w in core.json("workers", 25)] == ["new", "holds"]
    assert core.json("workers", 25, "holds") == {"jobs": ["jid"], "stalled": {}}
    assert core.server.zrange("ql:w:holds:jobs", 0, -1) == ["jid"]
    core.old("workers", 60)
    assert not core.server.exists("ql:w:holds:jobs", "ql:workers")


def test_deregister_removes_only_the_entry(core: Core) -> None:
    core.put("jid")
    core.pop(0)
    core.pop(0, worker="other")
    assert core.old("worker.deregister", 0, "worker", "other") is None
    assert core.old("workers", 0) == "{}"
    assert core.json("workers", 0, "worker")["jobs"] == ["jid"]


def test_stats_of_a_day_without_any(core: Core) -> None:
    nothing = {"count": 0, "mean": 0, "std": 0, "histogram": [0] * 148}
    assert core.json("stats", 0, "queue", 0) == {
        "retries": 0,
        "failed": 0,
        "failures": 0,
        "wait": nothing,
        "run": nothing,
    }


def test_mean_and_deviation(core: Core) -> None:
    for n in range(20):
        core.put(f"j{n:02}", n)
    for n in range(20):
        core.pop(n + n, 1)
        core.complete(f"j{n:02}", n + n + n)
    stats = core.json("stats", 60, "queue", 60)
    for kind in ("wait", "run"):
        shown = stats[kind]
        assert (shown["count"], shown["mean"], shown["std"]) == (20, 9.5, DEVIATION)
        assert shown["histogram"][:20] == [1] * 20
        assert sum(shown["histogram"]) == 20


@pytest.mark.parametrize(
    ("seconds", "index"),
    [
        (0, 0),
        (5.75, 5),
        (59.9, 59),
        (60, 61),
        (3599, 119),
        (3600, 120),
        (86399, 142),
        (86400, 143),
        (6 * 86400 + 5, 148),
    ],
)
def test_the_histogram(core: Core, seconds: float, index: int) -> None:
    """60 seconds, 59 minutes, 23 hours, 6 days: 148 numbers (m0, h0, d0 are none)."""
    core.put("jid", 0)
    core.pop(seconds)
    histogram = core.json("stats", seconds, "queue", seconds)["wait"]["histogram"]
    position = index if index < 60 else index - 1
    assert histogram[position] == 1
    assert (len(histogram), sum(histogram)) == (148, 1)


def test_more_than_six_days_are_counted_in_no_bin(core: Core) -> None:
    core.put("jid", 0)
    core.pop(9 * 86400)
    wait = core.json("stats", 9 * 86400, "queue", 9 * 86400)["wait"]
    assert (wait["count"], sum(wait["histogram"])) == (1, 0)


def test_a_sample_belongs_to_the_day_of_the_later_event(core: Core) -> None:
    core.put("jid", 86000)
    core.pop(86500)
    core.complete("jid", 172900)
    for day, counts in ((0, (0, 0)), (86400, (1, 0)), (172800, (0, 1))):
        stats = core.json("stats", 200000, "queue", day + 77)
        assert (stats["wait"]["count"], stats["run"]["count"]) == counts


def test_defaults_of_the_options(core: Core) -> None:
    assert core.json("config.get", 0) == DEFAULTS
    for option, value in DEFAULTS.items():
        assert core.old("config.get", 0, option) == value
        assert isinstance(core.old("config.get", 0, option), type(value))
    assert core.old("config.get", 0, "nosuch") is None
    assert not core.server.exists("ql:config")


def test_set_options_are_strings_until_they_are_unset(core: Core) -> None:
    chosen = {"heartbeat": "7", "mail-heartbeat": "8", "colour": "red"}
    assert core.old("config.set", 0, "heartbeat", 7) is None
    core.old("config.set", 0, "mail-heartbeat", 8)
    core.old("config.set", 0, "colour", "red")
    assert core.old("config.get", 0, "heartbeat") == "7"
    assert core.json("config.get", 0) == DEFAULTS | chosen
    assert core.server.hgetall("ql:config") == chosen
    for option in (*chosen, "nosuch"):
        assert core.old("config.unset", 0, option) is None
    assert core.old("config.get", 0, "heartbeat") == 60
    assert not core.server.exists("ql:config")


def test_the_old_spelling_of_the_queue_heartbeat_has_no_effect(core: Core) -> None:
    core.old("config.set", 0, "heartbeat-queue", 7)
    core.put("jid")
    assert core.pop(0)[0]["expires"] == 60


@pytest.mark.parametrize(
    ("option", "value", "fits"),
    [
        ("o" * 512, "v", True), ("o" * 513, "v", False),
        ("option", "v" * 65536, True), ("option", "v" * 65537, False),
    ],
)  # fmt: skip
def test_options_and_values_have_their_lengths(
    keyed: Keyed, option: str, value: str, fits: bool
) -> None:
    if fits:
        keyed.call("config.set", option, value, now=0)
    else:
        refused = keyed.refusal("config.set", option, value, now=0)
        assert refused == "TOOBIG config.set(): Option or value is too long"
    assert keyed.server.hexists("ql:config", option) is fits


def test_a_day_of_statistics_goes_when_it_is_as_old_as_they_are_kept(
    core: Core,
) -> None:
    core.old("config.set", 0, "stats-history", 2)
    for day in range(4):
        now = day * 86400 + 5.0
        core.put(f"jid{day}", now)
        core.pop(now, 1)
        core.ours("beat", "w", "{}", 0, now=now)
        waits = [core.json("stats", now, "queue", each * 86400) for each in range(4)]
        kept = [each for each in range(4) if waits[each]["wait"]["count"]]
        assert kept == list(range(max(0, day - 1), day + 1))
