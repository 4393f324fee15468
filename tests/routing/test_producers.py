"""Jobs go to the namespace of their queue, and are found there again."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from django.db import transaction
from django.test import override_settings

from django_qless import job, jobs, queues, recurring, wait_all, workflow
from django_qless.conf import routing
from django_qless.conf.connections import connections
from django_qless.core import AsyncClient, Client, ConnectionLost, JobNotFound
from django_qless.core.put import new_jid, time_of
from django_qless.exceptions import InvalidJob, InvalidOption
from django_qless.job_types.lookup import afind_job, find_job, homes_of
from django_qless.schedules.declared import declared_on, sync_schedules
from django_qless.testing import run_jobs
from tests.jobs_app.jobs import add, send_welcome
from tests.routing.conftest import DEFAULT, MAIL, NAMES, REPORTS, Places
from tests.schedules.declaring import declaring
from tests.tasks import work


@job("report.week", unique=True)
def once() -> str:
    return "once"


@job("mail")
def first() -> None:
    """Is to come first, and is elsewhere."""


@job(after="first")
def second() -> None:
    """Comes after a job elsewhere."""


@job("report.last")
def enqueues() -> None:
    send_welcome.delay(1)


def test_each_way_to_enqueue_goes_to_the_namespace_of_the_queue(
    places: Places,
) -> None:
    async def enqueue() -> list[Any]:
        report = add.using(queue="report.day")
        return [
            await report.aenqueue(1),
            *await report.aenqueue_many([report.args(1), report.args(2)]),
        ]

    handles = [send_welcome.delay(1), add.delay(1), *asyncio.run(enqueue())]
    assert [handle.alias for handle in handles] == [MAIL, DEFAULT, *[REPORTS] * 3]
    assert all(handle.refresh().state == "waiting" for handle in handles)
    assert places.waiting("mail") == [0, 1, 0]
    assert places.waiting("default") == [1, 0, 0]
    assert places.waiting("report.day") == [0, 0, 3]
    with places.there.client() as client:
        assert {key[:5] for key in client.scan_iter()} == {b"ql-r:"}


def test_many_are_sent_together_to_each_namespace_and_returned_in_order(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = ["mail", "default", "mail", "report.x", "default", "mail"]
    given = [add.using(queue=queue).args(n) for n, queue in enumerate(order)]
    sent: list[int] = []
    build = Client.put_many.build

    def put_many(client: Any, worker: str, puts: Any) -> Any:
        sent.append(len(puts))
        return build(client, worker, puts)

    monkeypatch.setattr(Client.put_many, "build", put_many)
    handles = add.enqueue_many(given)
    assert [handle.queue for handle in handles] == order
    assert [handle.refresh().data for handle in handles] == [
        each.data for each in given
    ]
    assert sent == [3, 2]
    peeked = places[MAIL].peek("mail", 3)
    assert [each.jid for each in peeked] == [handles[n].jid for n in (0, 2, 5)]


@pytest.mark.django_db(transaction=True)
def test_on_commit_goes_to_the_namespace_of_the_queue(places: Places) -> None:
    with transaction.atomic():
        handle = send_welcome.delay(1)
        assert (handle.alias, handle.pending) == (MAIL, True)
        assert places.waiting("mail") == [0, 0, 0]
    assert not handle.pending
    assert places.waiting("mail") == [0, 1, 0]
    with transaction.atomic():
        send_welcome.delay(1)
        transaction.set_rollback(True)
    assert places.waiting("mail") == [0, 1, 0]


def test_tasks_go_to_the_namespace_of_their_queue_and_are_found(places: Places) -> None:
    result = work.add.using(queue_name="mail").enqueue(1)
    assert places.waiting("mail") == [0, 1, 0]
    assert result.status.name == "READY"
    run_jobs("mail")
    result.refresh()
    assert (result.status.name, result.return_value) == ("SUCCESSFUL", 2)
    found = asyncio.run(work.add.aget_result(result.id))
    assert found.return_value == 2


def test_declared_schedules_are_where_their_queue_is(places: Places) -> None:
    with declaring() as declare:
        name = declare(once.name, every=3600).name
        assert name in declared_on(REPORTS)
        assert name not in declared_on(DEFAULT)
        assert name in sync_schedules(REPORTS).added
        assert name not in sync_schedules(DEFAULT).added
        assert recurring[name].alias == REPORTS
        # Its queue gets a separate namespace, and the schedule follows.
        aliases = {"default": {"LOCATION": places.here.url}}
        with override_settings(QLESS=aliases):
            assert name in sync_schedules(DEFAULT, anyway=True).added
        assert name in sync_schedules(DEFAULT, anyway=True).removed


def test_schedules_are_where_their_queue_is(places: Places) -> None:
    handle = send_welcome.recur(7, every=60, key="k")
    other = add.recur(1, every=60)
    assert (handle.alias, other.alias) == (MAIL, DEFAULT)
    assert places[MAIL].schedule_get(handle.id) is not None
    assert recurring[handle.id].alias == MAIL
    assert [each.id for each in recurring] == [other.id, handle.id]
    page = recurring.list(count=1, offset=1)
    assert [each.id for each in page.handles] == [handle.id]
    assert (page.total, page.following) == (2, None)
    assert recurring.list(count=1).following == 1
    with pytest.raises(InvalidOption, match="'default/mail', and the queue 'other'"):
        handle.update(queue="other")
    with pytest.raises(InvalidOption, match="its schedules are where its own queue"):
        send_welcome.using(queue="other").recur(7, every=60, key="k")
    send_welcome.unrecur(key="k")
    assert recurring.get(handle.id) is None


def test_jobs_run_and_are_waited_for_where_they_are(places: Places) -> None:
    handles = [add.using(queue=q).delay(1, 2) for q in ("mail", "report.x", "q")]

    def work() -> None:
        assert len(run_jobs()) == 3

    thread = threading.Thread(target=work)
    thread.start()
    ended = wait_all(handles, timeout=60)
    thread.join()
    assert [each.alias for each in ended] == [MAIL, REPORTS, DEFAULT]
    assert [each.result() for each in ended] == [3, 3, 3]
    assert handles[1].wait(timeout=60).state == "complete"


def test_run_jobs_runs_what_jobs_enqueue_in_other_namespaces(places: Places) -> None:
    enqueues.delay()
    assert [run.job.name for run in run_jobs()] == [enqueues.name, send_welcome.name]
    enqueues.delay()
    send_welcome.delay(2)
    assert len(run_jobs(until_empty=False)) == 2
    assert len(run_jobs("mail")) == 1


# A jid finds its job.


class Asked:
    """Which namespaces are asked for jobs, and what each answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.prefixes: list[str] = []
        for kind in (Client, AsyncClient):
            steps = kind.steps

            def noted(client: Any, request: Any, steps: Any = steps) -> Any:
                if getattr(request, "name", "") == "get":
                    self.prefixes.append(client.prefix)
                return steps(client, request)

            monkeypatch.setattr(kind, "steps", noted)

    def take(self) -> list[str]:
        taken, self.prefixes = sorted(self.prefixes), []
        return taken


ALL = ["ql-mail:", "ql-r:", "ql:"]


def test_a_jid_that_we_drew_is_found_in_one_call(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    handles = [add.using(queue=q).delay(1) for q in ("mail", "report.x", "q")]
    asked = Asked(monkeypatch)
    for handle, prefix in zip(handles, ("ql-mail:", "ql-r:", "ql:"), strict=True):
        assert time_of(handle.jid) is not None
        assert jobs[handle.jid] == handle
        assert asked.take() == [prefix]
        assert asyncio.run(jobs.aget(handle.jid)) == handle
        assert asked.take() == [prefix]


def test_jids_of_a_namespace_fall(places: Places) -> None:
    handles = [send_welcome.delay(n) for n in range(100)]
    jids = [handle.jid for handle in handles]
    assert jids == sorted(jids, reverse=True)
    assert {jid[-3:] for jid in jids} == {routing.mark_of(MAIL)}
    assert routing.jid_maker("other") is new_jid


@pytest.mark.parametrize("jid", ["report-7", "z" * 20])
def test_other_jids_are_found_by_one_call_to_each(
    places: Places, monkeypatch: pytest.MonkeyPatch, jid: str
) -> None:
    places[REPORTS].put("", "report.x", jid, "shop.work", "{}")
    asked = Asked(monkeypatch)
    assert jobs[jid].alias == REPORTS
    assert asked.take() == ALL
    found = asyncio.run(jobs.aget(jid))
    assert found is not None
    assert found.alias == REPORTS
    assert asked.take() == ALL
    assert jobs.using_alias(REPORTS)[jid].alias == REPORTS
    assert jobs.using_alias("default/").get(jid) is None


def test_a_jid_that_names_the_wrong_namespace_is_found_all_the_same(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    jid = routing.jid_maker(MAIL)()
    places[DEFAULT].put("", "q", jid, "shop.work", "{}")
    asked = Asked(monkeypatch)
    assert jobs[jid].alias == DEFAULT
    assert asked.take() == ALL
    assert jid in jobs
    assert "nowhere" not in jobs
    with pytest.raises(JobNotFound, match="'nowhere' in 'default'"):
        jobs["nowhere"]


def test_a_jid_that_is_in_two_namespaces_is_refused(places: Places) -> None:
    for name in (DEFAULT, REPORTS):
        places[name].put("", "q", "twice", "shop.work", "{}")
    with pytest.raises(InvalidOption, match=r"default and default/report.\* both"):
        jobs["twice"]
    assert jobs.using_alias("default/")["twice"].alias == DEFAULT
    with pytest.raises(InvalidOption, match="name the namespace"):
        homes_of("default", ["twice"])


def test_what_a_lost_server_may_have_is_not_said_to_be_missing(places: Places) -> None:
    mail = send_welcome.delay(1)
    report = add.using(queue="report.x").delay(1)
    places.there.kill()
    assert jobs[mail.jid] == mail
    assert add.delay(1).alias == DEFAULT
    with pytest.raises(ConnectionLost):
        jobs[report.jid]
    with pytest.raises(ConnectionLost):
        find_job("default", "unknown")

    async def find() -> None:
        found = await afind_job("default", mail.jid)
        assert found is not None
        assert found[0] == MAIL
        with pytest.raises(ConnectionLost):
            await afind_job("default", "unknown")
        await connections.aclose()

    asyncio.run(find())
    with pytest.raises(ConnectionLost):
        add.using(queue="report.x").delay(1)


def test_objects_are_of_all_namespaces(places: Places) -> None:
    handles = [add.using(queue=q).delay(1) for q in ("mail", "report.x", "q")]
    jids = [handle.jid for handle in handles]
    assert [each.alias for each in jobs.many(jids[::-1])] == [DEFAULT, REPORTS, MAIL]
    assert homes_of("default", [*jids, "no"]) == {
        MAIL: jids[:1],
        REPORTS: jids[1:2],
        DEFAULT: [*jids[2:], "no"],
    }
    assert {*queues} == {"mail", "report.x", "q"}
    assert queues["mail"].alias == MAIL
    queues["mail"].pause()
    assert [each.paused for each in queues.counts() if each.name == "mail"] == [True]
    assert [*jobs.list(queue="report.x").handles] == [handles[1]]

    async def read() -> None:
        assert len(await queues.acounts()) == 3
        assert len(await jobs.amany(jids)) == 3
        assert (await jobs.alist()).total == 3

    asyncio.run(read())


def test_pages_go_through_all_namespaces(places: Places) -> None:
    for queue in ("mail", "report.x", "q"):
        given = add.using(queue=queue)
        given.enqueue_many([given.args(n) for n in range(5)])
    for count in (1, 4, 5, 7, 15, 20):
        seen: list[str] = []
        offset: int | None = 0
        while offset is not None:
            page = jobs.list(offset=offset, count=count, state="waiting")
            assert page.total == 15
            assert len(page.handles) <= count
            seen += [handle.jid for handle in page.handles]
            offset = page.following
        assert len(seen) == len({*seen}) == 15, count


def test_failed_jobs_are_revived_everywhere(places: Places) -> None:
    from tests.jobs_app.jobs import failing

    jids = [failing.using(queue=q).delay("g", "m").jid for q in ("mail", "report.x")]
    run_jobs(raise_failures=False)
    assert jobs.revive([*jids, "unknown"]) == 2
    assert asyncio.run(jobs.arevive(jids)) == 0


# What would cross is refused where it is written.


def test_dependencies_elsewhere_by_name_are_refused(places: Places) -> None:
    mail = send_welcome.delay(1)
    with pytest.raises(InvalidJob, match="first is in namespace 'default/mail'"):
        second.delay()
    assert send_welcome.using(after=mail).delay(2).refresh().state == "depends"
    assert places.waiting("default") == [0, 0, 0]


def test_a_workflow_is_where_its_first_job_is(places: Places) -> None:
    with workflow("one", alias="default") as flow:
        node = flow.add(send_welcome.args(1))
        flow.add(send_welcome.args(2), after=[node])
    assert flow.handle is not None
    assert flow.handle.alias == MAIL
    run_jobs()
    assert flow.handle.refresh().state == "complete"


def test_keys_and_jids_over_namespaces_are_refused(places: Places) -> None:
    assert once.delay().created
    assert once.using(queue="report.day").delay().created is False
    with pytest.raises(InvalidOption, match="its unique key holds within one"):
        once.using(queue="mail")
    with pytest.raises(InvalidOption, match="a jid holds within one"):
        send_welcome.using(queue="q", jid="mine")
    assert send_welcome.using(jid="mine").delay(1).alias == MAIL
    with pytest.raises(InvalidOption, match="write alias='default'"):
        add.using(alias=MAIL).delay(1)


def test_failure_groups_return_to_queues_of_their_namespace(places: Places) -> None:
    from django_qless import failures

    with pytest.raises(InvalidOption, match=r"failures.using_alias\('default/mail'\)"):
        failures.unfail("g", "mail")
    assert failures.using_alias(MAIL).unfail("g", "mail") == 0
    assert failures.unfail("g", "q") == 0


def test_cancel_and_events_work_per_namespace(places: Places) -> None:
    handle = send_welcome.delay(1)
    handle.track()
    with places[MAIL].events("canceled") as events:
        handle.cancel()
        event = next(iter(events))
    assert event.jid == handle.jid
    assert handle.refresh().state == "canceled"


def test_routes_follow_the_settings(places: Places) -> None:
    plan = send_welcome._plan or send_welcome._bound_plan()
    assert plan.alias == MAIL
    with override_settings(QLESS={"default": {"LOCATION": places.here.url}}):
        assert plan.alias == DEFAULT
    assert plan.alias == MAIL
    assert [*NAMES] == routing.conf.namespaces_of("default")
