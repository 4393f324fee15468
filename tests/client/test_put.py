"""Commands that put jobs and change them, once there and back."""

from __future__ import annotations

import json

import pytest

from django_qless.core import Client, JobNotFound, Put, Settlement
from tests.client.conftest import NOW
from tests.client.jobs import Clock, put


def test_put_and_get(client: Client, at: Clock) -> None:
    at(0)
    put(client, "first")
    jid = client.put(
        "",
        "mail",
        "job",
        "app.send",
        '{"to": ["ä", 12345678901234567890]}',
        30,
        priority=-7,
        retries=2,
        tags=["a", "ü"],
        depends=["first"],
        context='{"locale":"de"}',
    )
    assert jid == "job"
    job = client.get("job")
    assert job is not None
    assert (job.jid, job.klass, job.queue) == ("job", "app.send", "mail")
    assert job.data == '{"to": ["ä", 12345678901234567890]}'
    assert (job.state, job.priority, job.retries, job.remaining) == (
        "depends",
        -7,
        2,
        2,
    )
    assert job.tags == ("a", "ü")
    assert job.dependencies == ("first",)
    assert job.context == {"locale": "de"}
    assert job.history == ({"what": "put", "when": NOW, "q": "mail"},)
    assert (job.worker, job.token, job.expires, job.crashes) == ("", "", 0, 0)
    assert (job.failure, job.progress, job.spawned_from) == (None, None, None)
    assert (job.tracked, job.dependents) == (False, ())
    first = client.get("first")
    assert first is not None
    assert first.dependents == ("job",)
    assert (first.priority, first.retries, first.tags) == (0, 5, ())
    assert first.context == {}
    assert client.get("nobody") is None


def test_put_leaves_an_existing_job_alone_if_asked(client: Client) -> None:
    assert put(client, absent=True) == "job"
    assert put(client, absent=True) is None
    assert put(client) == "job"


def test_put_keeps_what_an_existing_job_has_unless_told(client: Client) -> None:
    put(client, priority=4, retries=1, tags=["a"])
    put(client)
    job = client.get("job")
    assert job is not None
    assert (job.priority, job.retries, job.tags) == (4, 1, ("a",))
    put(client, priority=0, retries=9)
    job = client.get("job")
    assert job is not None
    assert (job.priority, job.retries) == (0, 9)


def test_put_many_and_multiget(client: Client) -> None:
    items = [
        Put("a", "mail", "app.send", '"ä"'),
        Put("b", "bulk", "app.send", "[]", 60, 3, 1, ["t"], ["a"], '{"x":1}'),
        Put("c", "mail", "app.send", "{}", absent=True),
    ]
    put(client, "c", priority=5)
    assert client.put_many("", items) == (["c"], {})
    a, b, c = client.multiget(["a", "b", "nobody", "c"])
    assert (a.jid, a.data, a.queue, a.state) == ("a", '"ä"', "mail", "waiting")
    assert (b.priority, b.retries, b.tags) == (3, 1, ("t",))
    assert (b.dependencies, b.context) == (("a",), {"x": 1})
    assert c.priority == 5
    assert client.put_many("", []) == ([], {})
    assert client.multiget([]) == []


def test_requeue_needs_a_job(client: Client) -> None:
    with pytest.raises(JobNotFound):
        client.requeue("", "mail", "job", "app.send", "{}")
    put(client)
    assert client.requeue("", "bulk", "job", "app.send", "[]", priority=2) == "job"
    job = client.get("job")
    assert job is not None
    assert (job.queue, job.data, job.priority) == ("bulk", "[]", 2)


def test_dependencies(client: Client) -> None:
    for jid in ("a", "b", "c"):
        put(client, jid, delay=900)
    put(client, depends=["a"])
    client.depends_on("job", ["b", "c"])
    assert set(client.get("job").dependencies) == {"a", "b", "c"}
    client.depends_off("job", "a")
    assert client.get("job").state == "depends"
    client.depends_off("job")
    assert client.get("job").state == "waiting"


def test_cancel(client: Client) -> None:
    put(client, "a")
    put(client, "b")
    assert client.cancel("a") == ["a"]
    assert client.cancel(["b", "nobody"]) == ["b", "nobody"]
    assert [job.state for job in client.multiget(["a", "b"])] == ["canceled"] * 2
    assert client.put("", "mail", "a", "k", "{}", absent=True) == "a"
    assert (client.get("a").state, client.get("a").canceled) == ("waiting", None)
    assert client.canceled() == ["b"]


def test_priority_changes_the_order(client: Client) -> None:
    put(client, "a")
    put(client, "b")
    assert client.priority("b", 5) == 5
    assert client.peek("mail")[0].jid == "b"


def test_recurring_jobs(client: Client, at: Clock) -> None:
    at(0)
    assert client.recur_get("tick") is None
    jid = client.recur(
        *("mail", "tick", "app.tick", '{"a": 1}', 60, 5),
        priority=2,
        retries=3,
        tags=["t"],
        backlog=1,
    )
    assert jid == "tick"
    tick = client.recur_get("tick")
    assert tick is not None
    assert (tick.jid, tick.klass, tick.queue, tick.data) == (
        *("tick", "app.tick", "mail", '{"a": 1}'),
    )
    assert (tick.interval, tick.priority, tick.retries) == (60, 2, 3)
    assert (tick.count, tick.backlog, tick.tags) == (0, 1, ("t",))
    assert client.pop("mail", "worker") == []
    at(5)
    (job,) = client.pop("mail", "worker")
    assert (job.jid, job.spawned_from, job.klass) == ("tick-1", "tick", "app.tick")
    client.recur_update(
        *("tick",),
        priority=1,
        interval=1.5,
        retries=0,
        data="[]",
        klass="app.tock",
        queue="bulk",
        backlog=0,
    )
    assert client.recur_tag("tick", ["u"]) == ["t", "u"]
    assert client.recur_untag("tick", ["t"]) == ["u"]
    tick = client.recur_get("tick")
    assert tick is not None
    assert (tick.interval, tick.priority, tick.retries) == (1.5, 1, 0)
    assert (tick.data, tick.klass, tick.queue) == ("[]", "app.tock", "bulk")
    assert (tick.count, tick.tags) == (1, ("u",))
    assert client.jobs("recurring", "bulk") == ["tick"]
    client.unrecur("tick")
    assert client.recur_get("tick") is None


@pytest.mark.parametrize(
    "data",
    [
        "[]",
        "{}",
        '""',
        "null",
        "0",
        "-0.0",
        "1e400",
        '{"foo": "bar"}',
        "12345678901234567890",
        '"\\u0000 \\ud83c\\udf89 🎉 ä"',
        json.dumps("x" * (512 * 1024 - 2)),
    ],
)
def test_data_comes_back_as_it_was(client: Client, data: str) -> None:
    client.put("", "mail", "job", "k", data)
    (reserved,) = client.settle("worker", [], 1, ["mail"]).jobs
    assert reserved.data == data
    client.settle("worker", [Settlement("job", reserved.token, "release", (0,))], 0, [])
    assert client.get("job").data == data
    (job,) = client.pop("mail", "worker")
    job.complete(next="bulk")
    assert client.peek("bulk")[0].data == data
