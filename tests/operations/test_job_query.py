"""Jobs chosen by queue, state, tag, group and type."""

from __future__ import annotations

import asyncio

import pytest

from django_qless import jobs, queues
from django_qless.conf.connections import connections
from django_qless.core import BadArgument
from django_qless.operations.job_query import JobQuery
from tests.core.invariants import violations_on
from tests.jobs_app.jobs import add, failing
from tests.real_servers import Server


def names(page) -> list[str]:
    return [handle.jid for handle in page.handles]


@pytest.fixture
def crowd(qless, work) -> dict[str, str]:
    """One job in each state, in two queues."""
    group = failing.using(queue="mail", jid="failed", tags=["t"])
    group.delay("broken", "text")
    add.using(queue="mail", jid="complete").delay(1)
    work()
    add.using(queue="mail", jid="running", tags=["held"]).delay(1)
    qless.pop("mail", "somebody")
    add.using(queue="mail", jid="waiting", tags=["t"]).delay(1)
    add.using(queue="mail", jid="scheduled", delay=600).delay(1)
    add.using(queue="bulk", jid="depends", after=["waiting"]).delay(1)
    add.using(queue="mail", jid="cancel-1", tags=["t"]).delay(1)
    failing.using(queue="bulk", jid="cancel-2").delay("group", "text")
    for jid in ("cancel-1", "cancel-2"):
        jobs[jid].cancel()
    return {"failed": "mail"}


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        ({"state": "waiting"}, ["waiting"]),
        ({"state": "running"}, ["running"]),
        ({"state": "scheduled"}, ["scheduled"]),
        ({"state": "depends"}, ["depends"]),
        ({"state": "failed"}, ["failed"]),
        ({"state": "complete"}, ["complete"]),
        ({"state": "stalled"}, []),
        ({"queue": "bulk"}, ["depends"]),
        ({"queue": "mail"}, ["waiting", "running", "scheduled", "failed"]),
        ({"queue": "mail", "state": "failed"}, ["failed"]),
        ({"queue": "bulk", "state": "failed"}, []),
        ({"queue": "nowhere"}, []),
        ({"group": "broken"}, ["failed"]),
        ({"group": "broken", "queue": "bulk"}, []),
        ({"group": "other"}, []),
        ({"tag": "t"}, ["failed", "waiting"]),
        ({"tag": "t", "state": "waiting"}, ["waiting"]),
        ({"tag": "t", "group": "broken"}, ["failed"]),
        ({"klass": "*.failing"}, ["failed"]),
        ({"klass": "*.add", "queue": "bulk"}, ["depends"]),
        ({"tag": "t", "state": "failed"}, ["failed"]),
        ({"worker": "somebody"}, ["running"]),
        ({"state": "canceled"}, ["cancel-2", "cancel-1"]),
        ({"state": "canceled", "queue": "bulk"}, ["cancel-2"]),
        ({"state": "canceled", "tag": "t"}, ["cancel-1"]),
        ({"state": "canceled", "klass": "*.failing"}, ["cancel-2"]),
        ({"state": "canceled", "jid": "cancel-1*"}, ["cancel-1"]),
        ({"jid": "cancel-1"}, ["cancel-1"]),
        ({"worker": "somebody", "queue": "bulk"}, []),
        ({"worker": "somebody", "state": "stalled"}, []),
        ({"worker": "somebody", "tag": "t"}, []),
        ({"worker": "somebody", "tag": "held", "state": "running"}, ["running"]),
        ({"worker": "somebody", "tag": "held", "state": "stalled"}, []),
        ({"worker": "nobody"}, []),
        ({"jid": "depends"}, ["depends"]),
        ({"jid": "depends", "queue": "bulk", "state": "depends"}, ["depends"]),
        ({"jid": "depends", "state": "waiting"}, []),
        ({"jid": "failed", "group": "broken", "tag": "t"}, ["failed"]),
        ({"jid": "failed", "group": "other"}, []),
        ({"jid": "nosuch"}, []),
        ({"jid": "r*"}, ["running"]),
        ({"jid": "*", "state": "complete"}, ["complete"]),
        (
            {},
            ["waiting", "running", "scheduled", "depends", "failed", "complete"],
        ),
    ],
)
def test_what_is_chosen(crowd, chosen: dict[str, str], found: list[str]) -> None:
    page = jobs.list(**chosen)
    assert names(page) == found
    assert page.following is None

    async def look() -> list[str]:
        page = await jobs.alist(**chosen)
        await connections.aclose()
        return names(page)

    assert asyncio.run(look()) == found


def test_pages_go_on_where_the_last_one_ended(qless) -> None:
    handles = add.enqueue_many([add.args(n) for n in range(60)])
    jids = [handle.jid for handle in handles]
    first = jobs.list(count=25)
    second = jobs.list(count=25, offset=first.following)
    third = jobs.list(count=25, offset=second.following)
    assert names(first) + names(second) + names(third) == jids
    assert (first.scanned, first.total, third.following) == (25, 60, None)


def test_a_page_looks_at_a_bounded_number(qless) -> None:
    add.enqueue_many([add.args(n) for n in range(300)])
    failing.delay("broken", "text")
    page = jobs.list(klass="*.failing", scan=280)
    assert (names(page), page.scanned, page.total) == ([], 280, 301)
    assert page.following == 280
    page = jobs.list(klass="*.failing", scan=280, offset=280)
    assert (len(page.handles), page.scanned, page.following) == (1, 21, None)


def test_a_search_goes_on_for_so_many_seconds(qless) -> None:
    for number in range(3):
        add.delay(number)
    query = JobQuery(klass="no such")
    for seconds, found in ((0, (1, 1)), (60, (3, None))):
        page = query.briefs(qless, scan=1, seconds=seconds)
        assert (page.scanned, page.following) == found


def test_what_is_due_is_waiting_though_it_is_not_moved_yet(qless) -> None:
    add.using(jid="ready").delay(1)
    add.using(jid="soon", delay=0.001).delay(1)
    while queues["default"].counts().waiting < 2:
        pass
    assert names(jobs.list(state="waiting")) == ["ready", "soon"]
    assert queues["default"].jobs("waiting", 1, 5) == ["soon"]
    assert queues["default"].jobs("waiting", 0, 1) == ["ready"]
    assert queues["default"].jobs("waiting", 2, 5) == []


def test_all_of_a_group_can_be_retried_where_they_were(
    qless, work, server: Server
) -> None:
    for queue in ("a", "b"):
        failing.using(queue=queue, retries=7).enqueue_many(
            [failing.args("broken", "text") for _ in range(3)]
        )
    work()
    jids = JobQuery(group="broken").jids(qless)
    assert len(jids) == 6
    assert jobs.revive([*jids, "nobody"]) == 6
    assert jobs.revive(jids) == 0
    assert jobs.list(group="broken").total == 0
    assert [(each.name, each.waiting) for each in queues.counts()] == [
        ("a", 3),
        ("b", 3),
    ]
    assert {handle.retries for handle in jobs.many(jids)} == {7}
    assert violations_on(server) == []


def test_an_unknown_state_is_named(qless) -> None:
    with pytest.raises(BadArgument, match="'waitng'"):
        jobs.list(state="waitng")
    with pytest.raises(BadArgument, match="none has the state waiting"):
        jobs.list(state="waiting", group="broken")


def test_async_methods(qless) -> None:
    add.using(queue="mail").delay(1)

    async def look() -> None:
        mail = queues["mail"]
        assert (await mail.acounts()).waiting == 1
        await mail.apause()
        assert [each.paused for each in await queues.acounts()] == [True]
        await connections.aclose()

    asyncio.run(look())
    with pytest.raises(AttributeError, match="anonsense"):
        queues["mail"].anonsense  # noqa: B018


def test_a_stalled_job_is_found_by_its_tag(qless, redis_client) -> None:
    add.using(jid="lost", tags=["t"]).delay(1)
    qless.config_set("heartbeat", 0.001)
    qless.pop("default", "somebody")
    while queues["default"].counts().stalled < 1:
        pass
    assert names(jobs.list(tag="t", state="stalled")) == ["lost"]
    assert names(jobs.list(worker="somebody", state="stalled")) == ["lost"]
    assert names(jobs.list(tag="t", state="running")) == []
    assert names(jobs.list(jid="lost", state="stalled")) == ["lost"]


def test_one_that_was_taken_from_its_worker_is_listed_where_it_waits(qless) -> None:
    add.using(jid="taken", tags=["t"]).delay(1)
    qless.pop("default", "somebody")
    qless.timeout("taken")
    for more in ({}, {"tag": "t"}, {"queue": "default", "klass": "*"}):
        assert names(jobs.list(state="waiting", **more)) == ["taken"]
        assert names(jobs.list(state="stalled", **more)) == []
    assert names(jobs.list(worker="somebody")) == []


def test_briefs_are_chosen_like_jobs(crowd, qless) -> None:
    for chosen in ({}, {"tag": "t"}, {"queue": "mail", "state": "failed"}):
        selection = JobQuery(**chosen)
        briefs, page = selection.briefs(qless), selection.page(qless)
        assert [b.jid for b in briefs.jobs] == [job.jid for job in page.jobs]
        assert briefs[1:] == page[1:]

    async def look() -> list[str]:
        page = await jobs.alist(state="failed")
        await connections.aclose()
        return [handle.jid for handle in page.handles]

    assert asyncio.run(look()) == ["failed"]


def test_a_call_looks_at_many_where_few_match(qless) -> None:
    add.using(queue="done", tags=["t"]).enqueue_many([add.args(n) for n in range(20)])
    failing.using(tags=["t"]).enqueue_many(
        [failing.args("broken", "text") for _ in range(20)]
    )
    for job in qless.pop("default", "loser", 20):
        qless.fail(job.jid, job.token, "broken", "text")
    qless.pop("done", "somebody", 20)
    for chosen in (
        {"queue": "nowhere", "state": "failed"},
        {"tag": "t", "state": "scheduled"},
        {"tag": "t", "queue": "nowhere"},
        {"worker": "somebody", "state": "stalled", "queue": "nowhere"},
        {"worker": "somebody", "queue": "nowhere"},
        {"state": "running", "klass": "*.nosuch"},
        {"state": "running", "jid": "x*"},
        {"group": "broken", "jid": "x*"},
    ):
        page = JobQuery(**chosen).briefs(qless, count=1)
        assert (page.jobs, page.following) == ([], None)
        assert page.scanned == page.total >= 20


def test_a_listed_job_without_a_record_keeps_its_place(qless, redis_client) -> None:
    handles = add.enqueue_many([add.args(n) for n in range(30)])
    redis_client.delete(f"ql:j:{handles[3].jid}")
    page = JobQuery(state="waiting", klass="*").briefs(qless, count=10)
    assert [brief.jid for brief in page.jobs] == [
        handle.jid for handle in (*handles[:3], *handles[4:11])
    ]
    assert (page.scanned, page.following) == (11, 11)


def test_what_cannot_be(qless) -> None:
    with pytest.raises(BadArgument, match="'somebody' holds are running or stalled"):
        jobs.list(worker="somebody", state="waiting")
    with pytest.raises(BadArgument, match="in no queue: leave out the queue 'mail'"):
        jobs.list(queue="mail", state="complete")
    with pytest.raises(BadArgument, match="its beginning and a"):
        jobs.list(jid="*abc*")
