"""Commands that look at a namespace and steer it, once there and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from django_qless.core import Client, Put, TooBig, new_jid
from django_qless.core.commands import queues
from django_qless.core.commands.statistics import BELOW_SECOND
from django_qless.core.states import QUEUE_STATES
from tests.client.conftest import NOW
from tests.client.jobs import Clock, Make, pop, put

if TYPE_CHECKING:
    from tests.real_servers import Server


def test_tags(client: Client) -> None:
    put(client, "a")
    put(client, "b")
    assert client.tag("a", "red") == ["red"]
    assert client.tag("a", ["red", "grün"]) == ["red", "grün"]
    assert client.tag("b", ["red"]) == ["red"]
    assert client.tagged("red") == (2, ["a", "b"])
    assert client.tagged("red", 1, 1) == (2, ["b"])
    assert client.tagged("blue") == (0, [])
    assert client.top_tags() == ["red"]
    assert client.untag("a", ["red", "grün"]) == []
    assert client.top_tags() == []


def test_track(client: Client) -> None:
    put(client, "a")
    put(client, "b")
    assert client.track("a")
    assert client.track("b")
    assert not client.track("a")
    client.cancel("b")
    found = client.tracked()
    assert [job.jid for job in found.jobs] == ["a"]
    assert found.jobs[0].tracked
    assert found.expired == ["b"]
    assert client.untrack("a")
    assert not client.untrack("a")
    assert client.tracked().jobs == []


def test_queues(client: Client, at: Clock) -> None:
    at(0)
    assert client.queues() == []
    put(client, "a")
    put(client, "b", delay=60)
    put(client, "c", depends=["a"])
    client.put("", "bulk", "d", "app.send", "{}")
    counts = client.queue_counts("mail")
    assert (counts.name, counts.waiting, counts.scheduled, counts.depends) == (
        *("mail", 1, 1, 1),
    )
    assert not counts.paused
    assert [counts.name for counts in client.queues()] == ["bulk", "mail"]
    assert client.length("mail") == 2
    at(12)
    assert client.lag(["mail", "bulk", "nothing"]) == [12, 12, 0]
    assert client.lag([]) == []
    pop(client)
    for state, jids in zip(
        QUEUE_STATES, ([], ["a"], [], ["b"], ["c"], []), strict=True
    ):
        assert client.jobs(state, "mail") == jids


@pytest.mark.parametrize("number", range(6))
def test_all_queues_are_counted_some_at_a_time(
    valkey: Make, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    client = valkey()
    monkeypatch.setattr(queues, "MOST_COUNTED", 2)
    names = [f"q{each}" for each in range(number)]
    client.put_many("", [Put(name, name, "k", "{}") for name in names])
    assert [(each.name, each.waiting) for each in client.queues()] == [
        (name, 1) for name in names
    ]
    assert [each.name for each in client.queues_part(1, 9)] == names[1:3]


def test_when_the_next_job_of_each_queue_is_due(client: Client, at: Clock) -> None:
    at(0)
    put(client, "a", delay=60)
    client.recur("bulk", "tick", "k", "{}", 30, 30)
    mail, bulk, nothing = client.due(["mail", "bulk", "nothing"])
    assert mail == (NOW + 60, None)
    assert bulk == (None, NOW + 30)
    assert nothing == (None, None)


def test_limits_of_a_queue(client: Client) -> None:
    put(client)
    assert client.limits("mail") == (None, [], 0, 0)
    client.queue("mail").set_max_concurrency(2)
    client.config_set("app.send-max-concurrency-of-type", 1)
    client.queue("mail").set_rate("5/1.5h")
    put(client, "other")
    pop(client)
    assert client.pop("mail", "worker") == []
    own, limits, total, held_back = client.limits("mail")
    assert own is not None
    assert (own.kind, own.running, own.most) == ("queue", 1, 2)
    assert (own.started, own.rate) == (1, (5, 5400.0))
    assert (total, held_back) == (1, 1)
    (of_type,) = limits
    assert (of_type.kind, of_type.type, of_type.held_back) == ("type", "app.send", 1)
    assert (of_type.running, of_type.most, of_type.rate) == (1, 1, None)
    assert client.queue_counts("mail").held_back == 1


def test_pause_and_forget(client: Client) -> None:
    put(client)
    client.pause("mail")
    assert client.queue_counts("mail").paused
    assert client.pop("mail", "worker") == []
    client.unpause(["mail"])
    assert len(client.pop("mail", "worker")) == 1
    client.forget_queue("mail")
    assert client.queues() == []


def test_what_was_retried_on_a_day(client: Client, at: Clock) -> None:
    at(0)
    put(client)
    jid, token = pop(client)
    client.retry(jid, "mail", token)
    assert client.stats("mail", NOW).retried == 1
    mail, *others = client.stats_counters(NOW, ["mail", *map(str, range(1500))])
    assert mail == (1, 0, 0, 0)
    assert others == [(0, 0, 0, 0)] * 1500


def test_stats_and_minutes(client: Client, at: Clock) -> None:
    at(0)
    put(client)
    at(3)
    jid, token = pop(client)
    at(5)
    client.complete(jid, token, "mail", "{}")
    stats = client.stats("mail", NOW)
    assert (stats.wait.count, stats.wait.mean) == (1, 3)
    assert (stats.run.count, stats.run.mean) == (1, 2)
    assert stats.wait.histogram[3] == 1
    assert len(stats.wait.histogram) == 148
    assert (stats.failed, stats.failures, stats.retries) == (0, 0, 0)
    minute = int(NOW // 60)
    minutes = client.minutes("mail", minute - 2, minute + 2)
    assert minutes.put == minutes.started == minutes.completed == {minute: 1}
    assert minutes.failed == {}


def test_stats_below_a_second(client: Client, at: Clock) -> None:
    at(0)
    put(client)
    at(0.4)
    jid, token = pop(client)
    at(1.3)
    client.complete(jid, token, "mail", "{}")
    stats = client.stats("mail", NOW)
    assert (stats.wait.mean, stats.run.mean) == (0.4, 0.9)
    assert stats.wait.below_second == [int(n == 200) for n in BELOW_SECOND]
    assert stats.run.below_second == [int(n == 500) for n in BELOW_SECOND]


def test_workers(client: Client) -> None:
    assert client.workers() == []
    put(client)
    pop(client, "worker")
    client.beat("idle", "", [])
    found = {worker.name: worker for worker in client.workers()}
    assert (found["worker"].jobs, found["worker"].stalled) == (1, 0)
    assert found["idle"].info is None
    assert client.worker_jobs("worker") == (["job"], [])
    assert client.worker_jobs("nobody") == ([], [])
    client.deregister(["idle", "worker"])
    assert client.workers() == []


def test_config(client: Client) -> None:
    assert client.config_get("heartbeat") == 60
    assert client.config_get("nothing") is None
    client.config_set("heartbeat", 30)
    assert client.config_get("heartbeat") == "30"
    assert client.config_all()["heartbeat"] == "30"
    client.config_unset("heartbeat")
    assert client.config_all()["heartbeat"] == 60


def test_meta(client: Client) -> None:
    client.put("", "mail", new_jid(), "k", "{}")
    pop(client)
    assert float(client.meta()["clock"]) > NOW
    assert int(client.meta()["token"]) > NOW * 1e6


def test_what_other_clients_made_can_be_seen_and_cleared_away(
    client: Client, each_server: Server
) -> None:
    """Calls without KEYS are less strict with names than ours."""
    jid, queue, tag, group = "j" * 300, "q*" * 200, "t" * 300, "g" * 300
    with each_server.client() as other:
        script = client.script.library.body

        def old(*args: object) -> None:
            other.eval(script, 0, *args)

        old("put", 0, "w", queue, jid, "k", "{}", 0, "tags", json.dumps([tag]))
        old("pop", 0, queue, "w" * 300, 1)
        old("fail", 0, jid, "w" * 300, group, "message")
    assert client.get(jid).tags == (tag,)
    assert client.tagged(tag).jids == [jid]
    assert client.queue_counts(queue).waiting == 0
    assert client.jobs("running", queue) == []
    assert client.failed_jobs(group).jids == [jid]
    assert client.untag(jid, tag) == []
    assert client.unfail("q", group) == 1
    assert client.cancel(jid) == [jid]
    client.deregister("w" * 300)
    client.forget_queue(queue)
    assert client.queues()[0].name == "q"


def test_survey(client: Client, at: Clock) -> None:
    at(0)
    assert client.survey() == []
    put(client, "a")
    at(1)
    client.put("", "bulk", "b", "app.send", "{}", 60)
    client.queue("bulk").set_weight(2.5)
    client.pause("bulk")
    at(3)
    mail, bulk = client.survey()
    assert mail[:2] == ("mail", True)
    assert mail[2:] == (pytest.approx(3, abs=0.01), 1.0, False)
    assert bulk == ("bulk", False, 0.0, 2.5, True)
    assert client.survey(["bulk"]) == [bulk]
    with pytest.raises(TooBig):
        client.survey([str(number) for number in range(1001)])
