"""Each metric has the figure of its own name, for the queue and the state it says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import override_settings

from django_qless.core import Client, Settlement
from django_qless.core.commands.statistics import BELOW_SECOND
from django_qless.monitoring import collector, snapshot
from django_qless.monitoring.collector import QlessCollector
from tests.monitoring.conftest import forget
from tests.real_servers import Server

Found = dict[tuple[str, ...], float]

DAY = 86400


def metrics(*aliases: str) -> Found:
    """Return the figures as they are now: by name without `qless_` and values of labels."""
    forget()
    return {
        (sample.name.removeprefix("qless_"), *sample.labels.values()): sample.value
        for family in QlessCollector(*aliases).collect()
        for sample in family.samples
    }


def of(found: Found, name: str, *labels: str) -> dict[str, float]:
    """Return the samples of a name that begin with these labels, by the last one."""
    start = (name, "default", *labels)
    return {
        key[-1]: number
        for key, number in found.items()
        if key[: len(start)] == start and len(key) == len(start) + 1
    }


def fail(client: Client, queue: str, group: str, times: int = 1) -> None:
    """Have jobs of a queue fail."""
    for n in range(times):
        client.put("", queue, f"{queue}-{group}-{n}", "k", "{}")
        [job] = client.settle("w", [], 1, [queue]).jobs
        end = Settlement(job.jid, job.token, "fail", (group, "m"))
        assert not client.settle("w", [end], 0, []).refused


def put(client: Client, queue: str, number: int, **options: Any) -> None:
    """Put jobs whose ids say where they are."""
    word = "-".join(options) or "waits"
    for n in range(number):
        client.put("", queue, f"{queue}-{word}-{n}", "k", "{}", **options)


def test_jobs_are_counted_by_queue_and_state_and_in_all(qless: Client) -> None:
    fail(qless, "mail", "g")
    put(qless, "mail", 5)
    [stalled, *_] = qless.settle("w", [], 3, ["mail"]).jobs
    qless.redis.zadd("ql:q:mail-locks", {stalled.jid: 1})
    put(qless, "mail", 4, delay=3600)
    put(qless, "mail", 3, depends=["mail-delay-0"])
    put(qless, "feeds", 1)
    for n in range(6):
        qless.schedule_set(
            *(f"s{n}", "feeds", "k", "{}"), cron="0 3 * * *", timezone="UTC"
        )
    found = metrics("default")
    mail = {"waiting": 2, "running": 2, "stalled": 1, "scheduled": 4, "depends": 3}
    feeds = {**dict.fromkeys(mail, 0), "waiting": 1, "failed": 0}
    assert of(found, "queue_jobs", "mail") == {**mail, "failed": 1}
    assert of(found, "queue_jobs", "feeds") == feeds
    assert of(found, "jobs") == {**mail, "waiting": 3, "failed": 1, "complete": 0}
    assert of(found, "queue_schedules") == {"mail": 0, "feeds": 6}
    assert found["queues", "default"] == 2
    assert found["failure_groups", "default"] == 1


@pytest.fixture
def three_lags(qless: Client) -> dict[str, float]:
    """Queues whose first jobs were due long ago, the one in the middle first of all."""
    now = float(qless.meta()["now"])
    due = {"a": now - 100, "b": now - 300, "c": now - 200}
    for queue, at in due.items():
        put(qless, queue, 1, delay=3600)
        qless.redis.zadd(f"ql:q:{queue}-scheduled", {f"{queue}-delay-0": at})
    return due


def test_the_greatest_lag_is_that_of_all(
    three_lags: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = metrics("default")
    lags = of(found, "queue_lag_seconds")
    assert sorted(lags, key=lags.__getitem__) == ["a", "c", "b"]
    assert found["lag_seconds", "default"] == lags["b"] >= 300
    for module in (collector, snapshot):
        monkeypatch.setattr(module, "MOST_QUEUES", 1)
    found = metrics("default")
    lags = of(found, "queue_lag_seconds")
    assert lags.keys() == {"a", collector.OTHERS}
    assert lags[collector.OTHERS] == found["lag_seconds", "default"] >= 300


def test_an_empty_namespace_has_no_lag_and_no_queue(qless: Client) -> None:
    found = metrics("default")
    names = ("lag_seconds", "queues", "failure_groups", "worker_jobs")
    assert [found[name, "default"] for name in names] == [0] * 4
    assert set(of(found, "jobs").values()) == {0}
    assert 0 < found["snapshot_seconds", "default"] < 60


def test_the_largest_groups_have_labels_and_equal_ones_are_in_order(
    qless: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "MOST_GROUPS", 3)
    for group, times in (("d", 1), ("c", 2), ("b", 2), ("e", 3), ("a", 1)):
        fail(qless, "q", group, times)
    found = metrics("default")
    groups = of(found, "failed_jobs")
    assert [*groups.items()] == [("e", 3), ("b", 2), ("c", 2), (collector.OTHERS, 2)]
    assert found["failure_groups", "default"] == 5
    assert of(found, "jobs")["failed"] == 9


def test_throughput_counts_the_last_five_whole_minutes_of_each_event(
    qless: Client,
) -> None:
    put(qless, "mail", 1)
    while True:
        minute = int(float(qless.meta()["now"]) // 60)
        for n, event in enumerate(collector.EVENTS):
            for at, number in enumerate((1000, 1, 0, 0, 0, 4 + 5 * n, 1000)):
                hour, field = divmod(minute - at, 60)
                for queue in ("mail", ""):
                    qless.redis.hset(f"ql:m:{queue}:{hour}:{event}", str(field), number)
        found = metrics("default")
        if minute == int(float(qless.meta()["now"]) // 60):
            break
    rates = {event: 1 + n for n, event in enumerate(collector.EVENTS)}
    assert of(found, "queue_jobs_per_minute", "mail") == rates
    del rates["put"]  # A namespace does not count them.
    assert of(found, "jobs_per_minute") == rates


def test_the_counters_of_the_day_have_their_names(qless: Client) -> None:
    put(qless, "mail", 1)
    today = int(float(qless.meta()["now"])) // DAY * DAY
    numbers = {"retried": 2, "retries": 3, "failures": 4, "failed": 1}
    qless.redis.hset(f"ql:s:stats:{today}:mail", mapping=numbers)
    found = of(metrics("default"), "queue_today", "mail")
    assert found == {"retried": 2, "lock_lost": 3, "failed": 4}


def test_each_bucket_has_the_durations_below_its_bound(qless: Client) -> None:
    put(qless, "mail", 1)
    today = int(float(qless.meta()["now"])) // DAY * DAY
    # One duration in each bin of the core, at the beginning of the bin.
    bins = {f"ms{edge}": edge / 1000 for edge in BELOW_SECOND}
    for letter, unit, first, end in (
        *(("s", 1, 1, 60), ("m", 60, 1, 60), ("h", 3600, 1, 24), ("d", DAY, 1, 7)),
    ):
        bins |= {f"{letter}{n}": float(n * unit) for n in range(first, end)}
    written = {**dict.fromkeys(bins, 1), "s0": len(BELOW_SECOND)}
    counted = {"total": len(bins), "mean": 2, "vk": 0}
    qless.redis.hset(f"ql:s:run:{today}:mail", mapping={**written, **counted})
    found = metrics("default")
    name = "queue_run_today_seconds"
    buckets = of(found, f"{name}_bucket", "mail")
    assert len(buckets) == 9 + 15 + 1
    for bound, number in buckets.items():
        assert number == sum(1 for at in bins.values() if at < float(bound)), bound
    assert found[f"{name}_gsum", "default", "mail"] == 2 * len(bins)
    # Nothing was begun, of which there is no duration.
    assert ("queue_wait_today_seconds_gcount", "default", "mail") not in found


def test_limits_of_the_first_queues_that_have_one(
    qless: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "MOST_QUEUES", 3)
    limits = {"a": 0, "b": 1, "d": 9}
    for queue in "abcd":
        put(qless, queue, 1)
    for queue, limit in limits.items():
        qless.config_set(f"{queue}-max-concurrency", limit)
    assert of(metrics("default"), "queue_max_concurrency") == {"b": 1}


def test_workers_that_say_little_or_something_else(qless: Client) -> None:
    told: dict[str, dict[str, Any]] = {
        "all": {"concurrency": 4, "state": "draining"},
        "text": {"concurrency": "5"},
        "truth": {"concurrency": True, "state": "dancing"},
        "lost": {"concurrency": 7, "state": "stopping"},
    }
    put(qless, "q", 6)
    for name in (*told, "mute"):
        qless.settle(name, [], 1, ["q"])
    for name, info in told.items():
        qless.beat(name, json.dumps(info), [])
    qless.redis.zincrby("ql:workers", -3600, "lost")
    found = metrics("default")
    states = {"running": 3, "quiet": 0, "draining": 1, "stopping": 0, "lost": 1}
    assert of(found, "workers") == states
    assert found["worker_concurrency", "default"] == 4
    assert found["worker_jobs", "default"] == 4


def test_the_server_says_what_it_is(each_server: Server) -> None:
    at = {"default": {"LOCATION": each_server.url}}
    client = each_server.client()
    policy = client.config_get("maxmemory-policy")["maxmemory-policy"]
    try:
        with override_settings(QLESS=at):
            client.config_set("maxmemory-policy", "noeviction")
            before = metrics()["server_risks", "default"]
            client.config_set("maxmemory-policy", "allkeys-lru")
            found = metrics()
            info = client.info()
    finally:
        client.config_set("maxmemory-policy", policy)
        client.close()
    [about] = [key for key in found if key[0] == "server_info"]
    engine = "valkey" if "valkey_version" in info else "redis"
    version = info[f"{engine}_version"]
    assert {*about} == {
        *("server_info", "default", "allkeys-lru", "master", engine, version)
    }
    assert found["server_risks", "default"] == before + 1
    assert found["server_commands_total", "default"] > 0
    assert found["server_memory_max_bytes", "default"] == info["maxmemory"]
    assert found["server_aof", "default"] == info["aof_enabled"]
    assert (
        found["server_clients", "default"] > found["server_blocked_clients", "default"]
    )


def test_an_alias_that_is_away_hides_no_other(server: Server) -> None:
    aliases = {
        "default": {"LOCATION": "unix:///nowhere/at/all"},
        "other": {"LOCATION": server.url},
    }
    with override_settings(QLESS=aliases):
        found = metrics()
        assert (found["up", "default"], found["up", "other"]) == (0, 1)
        assert found["queues", "other"] == 0
        assert ("queues", "default") not in found
        assert {key[1] for key in metrics("other")} == {"other"}
