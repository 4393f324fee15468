"""Commands for pages, once there and back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import (
    AsyncClient,
    BadArgument,
    Brief,
    Canceled,
    Client,
    FailureGroup,
    Part,
    Pause,
    Settlement,
    TooBig,
    WrongState,
)
from tests.client.conftest import NOW
from tests.client.jobs import Clock, pop, put

if TYPE_CHECKING:
    from tests.real_servers import Server


@pytest.fixture
def crowd(client: Client, at: Clock) -> Client:
    """A failed, a complete, a running, a waiting, a scheduled and a dependent job."""
    at(0)
    for number, jid in enumerate(("failed", "complete", "running")):
        put(client, jid, tags=["t"], priority=9 - number)
    at(1)
    tokens = {job.jid: job.token for job in client.settle("w", [], 3, ["mail"]).jobs}
    at(3)
    ends = [
        Settlement("failed", tokens["failed"], "fail", ("broken", "é" * 400)),
        Settlement("complete", tokens["complete"], "complete", ('{"r": 1}', 600)),
    ]
    client.settle("w", ends, 0, ["mail"])
    client.beat("w", '{"pid": 7}', [("running", tokens["running"])])
    put(client, "waiting", priority=1.5, retries=2)
    put(client, "scheduled", delay=60)
    put(client, "depends", depends=["waiting"])
    client.track("waiting")
    at(5)
    return client


def test_briefs(crowd: Client) -> None:
    (waiting,) = crowd.brief(["waiting", "nobody"])
    assert waiting == Brief(
        jid="waiting", klass="app.send", queue="mail", state="waiting", priority=1.5,
        retries=2, remaining=2, tags=(), worker="", put=NOW + 3, since=NOW + 3, due=None,
        expires=0, group=None, progress=None, workflow=None, spawned_from=None,
        tracked=True,
    )  # fmt: skip
    by_jid = {
        brief.jid: brief
        for brief in crowd.briefs(
            [
                ("running", "mail", 0, 5),
                ("scheduled", "mail", 0, 5),
                ("depends", "mail", 0, 5),
                ("group", "broken", 0, 5),
                ("complete", "", 0, 5),
            ]
        )
    }
    assert list(by_jid) == ["running", "scheduled", "depends", "failed", "complete"]
    assert all(brief.state == jid for jid, brief in by_jid.items())
    assert by_jid["scheduled"].due == NOW + 63
    assert (by_jid["failed"].group, by_jid["failed"].since) == ("broken", NOW + 3)
    assert by_jid["running"].tags == ("t",)
    assert by_jid["running"].since == NOW + 1
    assert by_jid["running"].expires == NOW + 63
    assert (by_jid["complete"].queue, by_jid["complete"].since) == ("", NOW + 3)


def test_what_is_gone(crowd: Client) -> None:
    crowd.config_set("canceled-history", 0)
    crowd.cancel(["depends", "waiting"])
    part = ("tracked", "", 0, 5)
    assert crowd.briefs([part]) == []
    assert crowd.placed_briefs([part]) == [None]
    assert crowd.briefs([]) == []
    assert crowd.brief([]) == []


def test_what_was_canceled(crowd: Client) -> None:
    crowd.cancel(["running", "depends", "waiting"])
    assert crowd.canceled() == ["waiting", "running", "depends"]
    assert (crowd.canceled(1, 1), crowd.canceled_count()) == (["running"], 3)
    first, *_ = found = crowd.briefs([("canceled", "", 0, 5)])
    assert [brief.state for brief in found] == ["canceled"] * 3
    assert (first.jid, first.since, first.put, first.tracked) == (
        *("waiting", NOW + 5, NOW + 3, True),
    )  # fmt: skip
    assert crowd.brief(["running"])[0].worker == ""
    view = crowd.job_view("running")
    assert view is not None and view.brief == crowd.brief(["running"])[0]
    assert view.job == crowd.get("running")
    assert view.job.canceled == Canceled(
        when=NOW + 5, was="running", why="call", by="", worker="w", left_out=0
    )
    assert crowd.get("failed").canceled is None
    assert [job.state for job in crowd.multiget(["nobody", "depends"])] == ["canceled"]
    assert crowd.await_ended(["running", "nobody"], 0) == {
        "running": "canceled",
        "nobody": "",
    }


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([("recurring", "mail", 0, 5)], ["'recurring'", "waiting", "group"]),
        ([("waiting", "", 0, 5)], ["name", "empty"]),
        ([("waiting", "mail", -1, 5)], ["offset", "-1"]),
        ([("waiting", "mail", 0, "5")], ["count", "'5'"]),
    ],
)
def test_bad_parts(valkey: Any, parts: Any, words: list[str]) -> None:
    with pytest.raises(BadArgument) as caught:
        valkey().briefs(parts)
    assert all(word in str(caught.value) for word in words)


def test_progress(client: Client) -> None:
    put(client)
    jid, token = pop(client)
    client.progress(jid, token, 0.25, "a quarter")
    assert client.brief([jid])[0].progress == (0.25, "a quarter")


def test_failure_groups(crowd: Client) -> None:
    group = FailureGroup(
        *("broken", 1, NOW + 3, NOW + 3, "failed", "app.send", "mail"),
        *("é" * 150, "é" * 150),
    )
    assert crowd.failure_groups() == (1, 1, [group])
    assert crowd.failure_groups(order="last", count=0) == (1, 1, [])
    assert crowd.failure_group("broken") == group
    assert crowd.failure_group("other") is None
    with pytest.raises(BadArgument, match="count, last, not 'size'"):
        crowd.failure_groups(order="size")  # type: ignore[arg-type]
    assert crowd.failed_of(["other", "mail"]) == [0, 1]
    assert crowd.failed_of([]) == []
    with pytest.raises(TooBig, match="200"):
        crowd.failed_of(["mail"] * 201)


@pytest.mark.parametrize(
    ("message", "end"),
    [
        ("", ""),
        (" \n ", ""),
        ("one line", "one line"),
        ("Traceback:\n  at x\nValueError: é is none\n\n", "ValueError: é is none"),
        ("first\r\nlast \r\n", "last"),
        ("x" * 2000 + "\nend", "end"),
        ("é" * 2000, "é" * 150),
        ("a" + "é" * 2000, "é" * 150),
    ],
)
def test_the_end_of_a_message(client: Client, message: str, end: str) -> None:
    put(client)
    jid, token = pop(client)
    client.fail(jid, token, "broken", message)
    assert client.failure_groups().groups[0].message_end == end


def test_throughput(crowd: Client) -> None:
    minute = int(NOW // 60)
    found = crowd.throughput("mail", minute - 4, minute + 5, 5)
    assert found == (minute - 4, 5, [6, 0], [3, 0], [1, 0], [1, 0])
    found = crowd.throughput(None, minute - 4, minute + 5, 5)
    assert found == (minute - 4, 5, None, [3, 0], [1, 0], [1, 0])
    with pytest.raises(BadArgument, match="last must not be before first"):
        crowd.throughput(None, 5, 4, 1)
    with pytest.raises(TooBig):
        crowd.throughput(None, 0, 1500, 1)


def test_a_view_of_a_job(crowd: Client) -> None:
    view = crowd.job_view("waiting")
    assert view is not None
    assert view.job == crowd.get("waiting")
    assert [view.brief] == crowd.brief(["waiting"])
    assert [brief.jid for brief in view.dependents] == ["depends"]
    assert (view.dependents_total, view.dependencies_total) == (1, 0)
    assert (view.result, view.result_ttl) == (None, None)
    view = crowd.job_view("depends")
    assert view is not None
    assert [brief.jid for brief in view.dependencies] == ["waiting"]
    assert [brief.jid for brief in view.needs] == ["waiting"]
    assert view.job.refresh() == view.job
    view = crowd.job_view("complete", links=0, history=1)
    assert view is not None
    assert view.result == '{"r": 1}'
    assert view.result_ttl is not None
    assert 590 < view.result_ttl <= 600
    assert (len(view.job.history), view.history_total) == (1, 2)
    assert crowd.job_view("nobody") is None


def test_views_of_workers(crowd: Client) -> None:
    total, (worker,) = crowd.worker_views()
    assert total == 1
    assert [worker.counts] == crowd.workers()
    assert [brief.jid for brief in worker.jobs] == ["running"]
    assert crowd.worker_views(1, 5) == (1, [])


def test_counts_of_tags(crowd: Client) -> None:
    crowd.tag("waiting", "rare")
    assert crowd.tag_counts() == (2, [("t", 3), ("rare", 1)])
    assert crowd.tag_counts(1, 1) == (2, [("rare", 1)])


def test_schedules(client: Client) -> None:
    for number in (3, 1, 2):
        client.schedule_set(f"s{number}", "mail", "k", "{}", every=60, offset=number)
    found = client.schedules_of(["s2", "nobody", "s3"])
    assert found == [client.schedule_get("s2"), client.schedule_get("s3")]
    assert [each.id for each in client.next_schedules(2)] == ["s1", "s2"]
    assert client.schedules_of([]) == []
    assert client.schedules_in("mail", 1, 1) == (3, client.schedules_of(["s2"]))
    assert client.recurring_of(["mail", "bulk"]) == [3, 0]


def test_tracked_ids(crowd: Client) -> None:
    crowd.track("running")
    assert crowd.tracked_jids()[0] == 2
    assert set(crowd.tracked_jids().jids) == {"running", "waiting"}
    assert crowd.tracked_jids(1, 0) == (2, [])


def test_each(crowd: Client) -> None:
    done, refused = crowd.cancel_each(["waiting", "complete", "running"])
    assert done == ["running"]
    assert refused == {
        "waiting": "waiting is a dependency of depends but is not mentioned to be canceled",
        "complete": "Job complete is complete",
    }
    assert crowd.cancel_each(["waiting", "depends"]).refused == {}
    assert crowd.priority_each("scheduled", 5).done == ["scheduled"]
    assert crowd.tag_each(["scheduled"], "new").done == ["scheduled"]
    assert crowd.untag_each(["scheduled"], "new").done == ["scheduled"]
    assert crowd.track_each(["scheduled"]).done == ["scheduled"]
    assert crowd.untrack_each(["scheduled"]).done == ["scheduled"]
    assert crowd.timeout_each(["scheduled"]).refused == {
        "scheduled": "Job scheduled not running but scheduled"
    }
    assert crowd.revive_each(["failed", "nobody"]) == (
        ["failed"],
        {"nobody": "Job nobody does not exist"},
    )
    assert crowd.move_each(["failed"], "bulk", 60).done == ["failed"]
    assert crowd.brief(["failed"])[0].queue == "bulk"
    with pytest.raises(TooBig, match="250"):
        crowd.cancel_each([str(number) for number in range(251)])
    with pytest.raises(BadArgument, match="at least one"):
        crowd.cancel_each([])
    with pytest.raises(BadArgument, match="without"):
        crowd.move_each(["failed"], "b*")


def test_why_a_queue_is_paused(crowd: Client) -> None:
    assert crowd.queue_counts("mail").pause is None
    crowd.pause("mail", "a new server", by="ada")
    assert crowd.queue_counts("mail").pause == Pause("a new server", "ada", NOW + 5)
    assert [counts.pause for counts in crowd.queues()] == [
        crowd.queue_counts("mail").pause
    ]
    crowd.queue("mail").pause(reason="still not there")
    assert crowd.queue_counts("mail").pause == Pause("still not there", "", NOW + 5)
    crowd.unpause("mail")
    assert crowd.queue_counts("mail").pause is None
    with pytest.raises(TooBig, match="reason has 501 bytes"):
        crowd.pause("mail", "r" * 501)


def test_only_empty_queues_are_forgotten(crowd: Client) -> None:
    with pytest.raises(WrongState, match="Queue mail is in use: 1 waiting, 1 running"):
        crowd.forget_queue("mail", only_if_empty=True)
    assert len(crowd.queues()) == 1
    crowd.cancel(["running", "waiting", "scheduled", "depends"])
    crowd.queue("mail").forget(only_if_empty=True)
    assert crowd.queues() == []


def test_the_twins(server: Server) -> None:
    async def look() -> None:
        async with AsyncClient(server.async_client()) as client:
            await client.put("", "mail", "job", "app.send", "{}")
            (brief,) = await client.brief(["job"])
            view = await client.job_view("job")
            assert view is not None
            assert view.brief == brief
            assert view.job == await view.job.refresh()
            assert await client.cancel_each(["job"]) == (["job"], {})

    asyncio.run(look())


def test_no_more_than_so_many_are_returned(client: Client) -> None:
    for jid in ("a", "b", "c"):
        client.put("", "q", jid, "k", "{}")
    parts: list[Part] = [("waiting", "q", 0, 3)]
    for most in (0, 1, 2):
        assert len(client.briefs(parts, most=most)) == most
        assert len(client.placed_briefs(parts, most=most)) == most
        assert len(client.search(parts, most=most).jobs) == most
