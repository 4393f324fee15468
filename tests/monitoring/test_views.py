"""The figures that machines get are those of the records."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import call_command
from django.test import override_settings
from prometheus_client.parser import text_string_to_metric_families

from django_qless.core import Client, Settlement
from django_qless.core.commands.entities import Payload
from django_qless.monitoring import collector, snapshot
from django_qless.monitoring.lag import lag_data
from tests.management.commands import data
from tests.monitoring.conftest import Get
from tests.permissions import set_user, url_of
from tests.real_servers import Server

STATES = ("running", "quiet", "draining", "stopping", "lost")
NOWHERE = {"default": {"LOCATION": "unix:///nowhere/at/all"}}


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Return the samples of an exposition, by name and values of labels."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def fill(client: Client) -> None:
    """Leave jobs in each state."""
    for queue, number in (("mail", 3), ("feeds", 2)):
        for n in range(number):
            client.put("w", queue, f"{queue}-{n}", "shop.jobs.work", "{}")
    client.put("w", "mail", "later", "shop.jobs.work", "{}", delay=3600)
    client.put("w", "mail", "after", "shop.jobs.work", "{}", depends=["later"])
    done, broken = client.settle("w", [], 2, ["mail"]).jobs
    ends = [
        Settlement(done.jid, done.token, "complete", (), 0.0),
        Settlement(broken.jid, broken.token, "fail", ("ValueError", "no such file")),
    ]
    assert not client.settle("w", ends, 1, ["feeds"]).refused
    client.beat("w", '{"queues": ["mail"], "concurrency": 4, "state": "running"}', [])


def test_metrics_are_what_the_records_say(get: Get, qless: Client) -> None:
    fill(qless)
    qless.config_set("mail-max-concurrency", 7)
    qless.pause("feeds", "why")
    response = get("metrics?alias=default")
    found = samples(response.text)

    def value(name: str, *labels: str) -> float:
        return found[(f"qless_{name}", "default", *labels)]

    redis = qless.redis
    for queue in ("mail", "feeds"):
        places = {"waiting": "work", "scheduled": "scheduled", "running": "locks"}
        for state, place in {**places, "depends": "depends"}.items():
            number = redis.zcard(f"ql:q:{queue}-{place}")
            assert value("queue_jobs", queue, state) == number, (queue, state)
    assert value("queue_jobs", "mail", "failed") == redis.llen("ql:f:ValueError") == 1
    assert value("failed_jobs", "ValueError") == 1
    assert value("jobs", "complete") == redis.zcard("ql:completed") == 1
    assert value("jobs", "waiting") == 2
    lag = value("queue_lag_seconds", "feeds")
    assert 0 < lag == value("queue_lag_seconds", "feeds") <= value("lag_seconds")
    assert [value("queue_paused", queue) for queue in ("mail", "feeds")] == [0, 1]
    assert [value("queue_served", queue) for queue in ("mail", "feeds")] == [1, 0]
    assert value("queue_max_concurrency", "mail") == 7
    assert ("qless_queue_max_concurrency", "default", "feeds") not in found
    assert value("workers", "running") == 1
    assert value("worker_concurrency") == 4
    assert value("server_evicted_keys_total") == 0
    assert value("server_memory_bytes") > 0
    assert value("up") == 1
    assert ("qless_up", "other") not in found


def test_what_limits_hold_back_and_entities(get: Get, qless: Client) -> None:
    qless.config_set("Feed-max-concurrency-of-type", 1)
    for number in range(3):
        qless.put("", "feeds", f"f{number}", "Feed", "{}")
    qless.settle("w", [], 3, ["feeds"])
    for entity in ("o-1", "o-2", "o-3"):
        qless.push("", "orders", "sync", [Payload(entity, '{"v":1}', "1")])
    qless.settle("w", [], 1, ["orders"])
    qless.kill_entities("orders", ["o-3"])
    found = samples(get("metrics?alias=default").text)

    def of(name: str, queue: str) -> dict[str, float]:
        return {
            key[-1]: number
            for key, number in found.items()
            if key[0] == f"qless_{name}" and queue in key
        }

    assert of("queue_held_back_jobs", "feeds") == {"feeds": 2}
    states = {"fresh": 1, "retrying": 0, "running": 1, "dead": 1}
    assert of("entities", "orders") == states
    assert not of("entities", "feeds")


def test_the_core_s_figures_of_the_day_are_a_histogram(get: Get, qless: Client) -> None:
    fill(qless)
    found = samples(get("metrics").text)
    stats = qless.stats("mail", float(qless.meta()["now"]))
    for kind, lengths in (("wait", stats.wait), ("run", stats.run)):
        name = f"qless_queue_{kind}_today_seconds"
        buckets = [
            (float(key[2]), number)
            for key, number in found.items()
            if key[0] == f"{name}_bucket" and key[1::2] == ("default", "mail")
        ]
        assert [bound for bound, _ in buckets] == sorted(b for b, _ in buckets)
        numbers = [number for _, number in buckets]
        assert numbers == sorted(numbers)
        assert (
            numbers[-1] == lengths.count == found[f"{name}_gcount", "default", "mail"]
        )
        total = found[f"{name}_gsum", "default", "mail"]
        assert total == pytest.approx(lengths.count * lengths.mean)
        below = dict(buckets)
        assert below[0.01] == sum(lengths.below_second[:4])


def test_throughput_is_that_of_whole_minutes(get: Get, qless: Client) -> None:
    now = float(qless.meta()["now"])
    minute = int(now // 60)
    redis = qless.redis
    # In the records of minutes: five in a whole minute, 100 in the present one.
    for queue in ("mail", ""):
        for at, number in ((minute - 1, 5), (minute, 100), (minute - 6, 100)):
            redis.hset(f"ql:m:{queue}:{at // 60}:completed", str(at % 60), number)
    qless.put("w", "mail", "j", "k", "{}")
    found = samples(get("metrics").text)
    if minute == float(qless.meta()["now"]) // 60:
        assert found["qless_queue_jobs_per_minute", "default", "completed", "mail"] == 1
        assert found["qless_jobs_per_minute", "default", "completed"] == 1


def test_labels_are_bounded_and_sums_stay_right(
    get: Get, qless: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (collector, snapshot):
        monkeypatch.setattr(module, "MOST_QUEUES", 3)
    monkeypatch.setattr(collector, "MOST_GROUPS", 2)
    for n in range(8):
        qless.put("w", f"queue-{n}", f"j{n}", "k", "{}")
        qless.put("w", f"queue-{n}", f"f{n}", "k", "{}")
        [job] = qless.settle("w", [], 1, [f"queue-{n}"]).jobs
        end = Settlement(job.jid, job.token, "fail", (f"group-{n}", "m"))
        assert not qless.settle("w", [end], 0, []).refused
    found = samples(get("metrics").text)
    waiting = {
        key[2]: number
        for key, number in found.items()
        if key[0] == "qless_queue_jobs" and key[3] == "waiting"
    }
    others = collector.OTHERS
    assert waiting == {"queue-0": 1, "queue-1": 1, "queue-2": 1, others: 5}
    groups = [key[2] for key in found if key[0] == "qless_failed_jobs"]
    assert groups == ["group-0", "group-1", others]
    assert found["qless_failed_jobs", "default", others] == 6
    assert found["qless_queues", "default"] == 8
    assert found["qless_queue_lag_seconds", "default", others] > 0


def test_the_figures_are_read_once_for_all_who_ask_within_a_second(
    get: Get, qless: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(
        "django_qless.monitoring.snapshot.time.monotonic", lambda: now[0]
    )
    shared = snapshot.Shared(lambda alias: calls.append(alias) or len(calls))
    calls: list[Any] = []
    assert [shared.get("default"), shared.get("default")] == [1, 1]
    assert shared.get("other") == 2
    now[0] += 0.99
    assert shared.get("default") == 1
    now[0] += 0.02
    assert shared.get("default") == 3


def test_metrics_status_and_lag_share_what_they_read(
    qless: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    qless.put("", "q", "a", "k", "{}")
    reads: list[str] = []
    read = snapshot.statuses._read
    monkeypatch.setattr(
        snapshot.statuses, "_read", lambda alias: reads.append(alias) or read(alias)
    )
    assert snapshot.snapshots.get("default").status.queues[0].counts.waiting == 1
    assert snapshot.statuses.get("default").queues[0].counts.waiting == 1
    assert lag_data("default")["total"]["waiting"] == 1
    assert len(reads) == 1


def test_many_at_once_wait_for_one_reader(qless: Client) -> None:
    from threading import Barrier, Thread

    calls: list[int] = []
    barrier, found = Barrier(8), []

    def read(alias: str) -> int:
        calls.append(1)
        qless.meta()
        return len(calls)

    shared = snapshot.Shared(read)

    def ask() -> None:
        barrier.wait()
        found.append(shared.get("default"))

    threads = [Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1] * 8
    assert len(calls) == 1


def test_openmetrics_is_given_to_who_asks_for_it(get: Get) -> None:
    response = get("metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert response.headers["Content-Type"].startswith("application/openmetrics-text")
    assert response.text.endswith("# EOF\n")
    assert "gaugehistogram" not in get("metrics").text


def test_status_is_the_json_of_the_command(get: Get, qless: Client) -> None:
    fill(qless)
    told, printed = get("status").json(), data("qless_status")
    for each in (told, printed):
        assert each["now"] > 0
        assert each["totals"].pop("lag") > 0
        del each["now"]
        for queue in each["queues"]:
            del queue["lag"]
    assert told == printed
    assert told["totals"] == {
        "queues": 2,
        "slowest": "mail",
        "waiting": 2,
        "running": 1,
        "stalled": 0,
        "scheduled": 1,
        "depends": 1,
        "failed": 1,
        "dead": 0,
    }
    assert [worker["alive"] for worker in told["workers"]] == [True]
    assert get("status?alias=other").json()["queues"] == []


def test_lag_is_what_an_autoscaler_needs(get: Get, qless: Client) -> None:
    fill(qless)
    found = get("lag").json()
    assert {name: each["length"] for name, each in found["queues"].items()} == {
        "mail": 1,
        "feeds": 2,
    }
    lags = [each["lag"] for each in found["queues"].values()]
    total = found["total"]
    assert total == {
        "length": 3,
        "waiting": 2,
        "failed": 1,
        "dead": 0,
        "lag": max(lags),
    }
    for query, names in (
        ("queue=mail", {"mail"}),
        ("queue=fe*", {"feeds"}),
        ("queue=mail&queue=feed?", {"mail", "feeds"}),
        ("queue=none-yet", set()),
    ):
        found = get(f"lag?{query}").json()
        assert found["queues"].keys() == names
        assert found["total"]["length"] == sum(
            each["length"] for each in found["queues"].values()
        )


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("", None),
        ("?workers=1", None),
        ("?queue=mail", None),
        ("?max_lag=3600", None),
        ("?workers=2", "1 workers are alive, 2 are wanted"),
        ("?queue=feeds", "no living worker serves feeds"),
        ("?max_lag=0", "the lag is "),
        ("?max_lag=0&queue=none", "no living worker serves none"),
    ],
)
def test_health_says_what_is_wrong(
    get: Get, qless: Client, query: str, problem: str | None
) -> None:
    fill(qless)
    response = get(f"health{query}{'&' if query else '?'}alias=default")
    found = response.json()
    assert response.status_code == (503 if problem else 200)
    assert found["ok"] is (problem is None)
    problems = found["aliases"]["default"]["problems"]
    assert len(problems) == bool(problem)
    assert all(each.startswith(problem) for each in problems)


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("metrics?alias=nowhere", "alias=nowhere"),
        ("health?alias=nowhere", "alias=nowhere"),
        ("status?alias=nowhere", "alias=nowhere"),
        ("lag?alias=default&alias=other", "one alias"),
        ("health?workers=x", "workers=x"),
        ("health?max_lag=-1", "max_lag=-1"),
        ("health?max_lag=nan", "max_lag=nan"),
        ("health?workers=1e400", "workers=1e400"),
    ],
)
def test_a_wrong_query_is_refused(get: Get, url: str, word: str) -> None:
    response = get(url)
    assert response.status_code == 400
    assert word in response.json()["problem"]


def test_a_server_that_is_away(get: Get) -> None:
    with override_settings(QLESS=NOWHERE):
        assert samples(get("metrics").text) == {("qless_up", "default"): 0}
        for path in ("health", "status", "lag"):
            assert get(path).status_code == 503
        assert not get("health").json()["aliases"]["default"]["ok"]


def test_without_info_the_rest_is_shown(get: Get, server: Server) -> None:
    set_user(server, "producer", "-info")
    aliases = {"default": {"LOCATION": url_of(server, "producer")}}
    try:
        with override_settings(QLESS=aliases):
            found = samples(get("metrics").text)
    finally:
        set_user(server, "producer")
    assert found["qless_up", "default"] == 1
    assert not [key for key in found if key[0].startswith("qless_server")]


def test_registering_asks_no_server() -> None:
    from prometheus_client import CollectorRegistry

    with override_settings(QLESS=NOWHERE):
        CollectorRegistry().register(collector.QlessCollector())


def test_the_command_prints_them(qless: Client, capsys: Any) -> None:
    fill(qless)
    call_command("qless_metrics", "--alias", "default")
    assert samples(capsys.readouterr().out)["qless_jobs", "default", "waiting"] == 2


def test_a_worker_that_is_silent_is_lost(get: Get, qless: Client) -> None:
    for name, state in (("a", "running"), ("b", "quiet"), ("c", "running")):
        qless.beat(name, f'{{"concurrency": 4, "state": "{state}"}}', [])
    qless.redis.zincrby("ql:workers", -3600, "c")
    found = samples(get("metrics").text)
    number = {state: found["qless_workers", "default", state] for state in STATES}
    assert number == {"running": 1, "quiet": 1, "draining": 0, "stopping": 0, "lost": 1}
    assert found["qless_worker_concurrency", "default"] == 8
