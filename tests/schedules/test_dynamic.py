"""`.recur()` and `.unrecur()`: schedules of single rows, and of functions."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import transaction
from django.test import override_settings

from django_qless import job, recurring
from django_qless.conf.connections import connections
from django_qless.core.exceptions import NotReplicated, ScheduleNotFound
from django_qless.declare.function import JobFunction
from django_qless.enqueue import dispatch
from django_qless.exceptions import (
    InvalidOption,
    JobGone,
    NotPut,
    UnserialisableArgument,
)
from django_qless.job_types.registry import registry
from django_qless.runtime.environment import DjangoEnvironment
from django_qless.testing import clock
from django_qless.worker.execution import Execution
from django_qless.worker.ticker import serve
from tests.jobs_app import jobs
from tests.jobs_app.models import Feed, Parcel
from tests.jobs_app.policies import once
from tests.rows_app.models import Country
from tests.schedules.declaring import declaring
from tests.schedules.rows import ids, vanish

BOTH = ["default", "other"]
pytestmark = pytest.mark.django_db(transaction=True, databases=BOTH)


def test_a_row_recurs_until_it_is_told_not_to(qless, work) -> None:
    feed = Feed.objects.create()
    handle = feed.check_now.recur(every=timedelta(hours=1))
    assert handle.id == f"jobs_app.Feed.check_now:{feed.pk}"
    assert not handle.pending
    with pytest.raises(NotPut, match="refresh"):
        handle.count  # noqa: B018
    assert work() == 1
    now = handle.refresh()
    assert (now.count, now.owner, now.every, now.state) == (1, "hand", 3600, "active")
    assert (now.queue, now.priority, now.tags) == ("checks", 3, ["check"])
    assert json.loads(now.data) == {"v": 1, "row": feed.pk}
    feed.refresh_from_db()
    assert feed.checks == 1
    feed.check_now.unrecur()
    with pytest.raises(ScheduleNotFound):
        handle.refresh()
    feed.check_now.unrecur()  # once more does no harm


def test_again_changes_it_and_keeps_the_rhythm(qless, work) -> None:
    feed = Feed.objects.create()
    first = feed.check_now.recur(every=3600)
    work()
    before = first.refresh()
    again = feed.check_now.recur(5, every=7200, missed="all")
    assert again == first
    after = again.refresh()
    assert (after.count, after.missed) == (1, "all")
    assert after.next - before.last == 2 * (before.next - before.last)
    assert json.loads(after.data)["args"] == [5]
    cron = feed.check_now.recur(cron="0 6 * * *", timezone="Asia/Tokyo").refresh()
    assert (cron.words, cron.count) == ("at 06:00, Asia/Tokyo", 1)
    assert ids() == [first.id]


def test_the_row_may_be_passed(qless) -> None:
    feed = Feed.objects.create()
    handle = Feed.rename.recur(feed, "x", every=60)
    assert json.loads(handle.refresh().data) == {"v": 1, "row": feed.pk, "args": ["x"]}
    Feed.rename.recur(feed, feed.rename.args("y"), every=60)
    assert json.loads(handle.refresh().data)["args"] == ["y"]
    Feed.rename.unrecur(feed)
    assert ids() == []
    with pytest.raises(TypeError, match="or pass the Feed first"):
        Feed.rename.recur("x", every=60)


def test_functions_and_class_methods(qless, work) -> None:
    jobs.add.recur(1, 2, factor=3, every=3600)
    jobs.add.recur(jobs.add.args(4), every=3600, key="four")
    Feed.check_all.recur(every=3600)
    jobs.Gnomes.recur({"wanted": 1}, every=3600)
    Feed.count_words.recur("a b", cron="@daily")
    assert ids() == [
        "jobs_app.Feed.check_all:recur",
        "jobs_app.Feed.count_words:recur",
        "tests.jobs_app.jobs.Gnomes:recur",
        "tests.jobs_app.jobs.add:four",
        "tests.jobs_app.jobs.add:recur",
    ]
    assert work("default", "checks") == 3
    results = [qless.result(jid) for jid in qless.completed() if ".add:" in jid]
    assert sorted(results) == [4, 9]
    jobs.add.unrecur(key="four")
    jobs.Gnomes.unrecur()
    assert len(ids()) == 3


def test_one_under_a_former_name_goes_on_under_the_new_one(qless) -> None:
    old = "old.send:recur"
    qless.schedule_set(old, "q", "old.send", "{}", cron="0 6 * * *")
    recurring[old].pause()
    jobs.send_welcome.recur("ann", cron="0 7 * * *")
    [handle] = recurring
    assert handle.id == "tests.jobs_app.jobs.send_welcome:recur"
    assert (handle.name, handle.cron) == (jobs.send_welcome.name, "0 7 * * *")
    assert handle.state == "paused"


def test_a_name_that_the_function_needs_itself(qless) -> None:
    @job(name="tests.named")
    def named(every: int, key: str = "") -> None:
        pass

    with pytest.raises(TypeError, match=r"its own argument 'every': write recur\("):
        named.recur(every=60)
    with pytest.raises(TypeError, match=r"its own argument 'key'.*, cron=…, key=…\)$"):
        named.recur(5, cron="@daily", key="x")
    with pytest.raises(
        TypeError, match=r"'key': write recur\(named.args\(…\), key=…\)"
    ):
        named.recur(5, key="x")
    handle = named.recur(named.args(every=5, key="y"), every=60, key="mine")
    assert json.loads(handle.refresh().data)["kwargs"] == {"every": 5, "key": "y"}
    assert handle.id == "tests.named:mine"
    del registry._types["tests.named"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs to know when"),
        ({"every": 0}, "at least a second"),
        ({"every": 5, "cron": "@daily"}, "two schedules"),
        ({"cron": "0 0 31 2 *"}, "bad day-of-month"),
        ({"cron": "@daily", "timezone": "Mars"}, "Mars"),
        ({"missed": "last"}, "belongs to a schedule"),
        ({"every": 5, "key": "a b"}, "key must be at most 50 letters"),
        ({"every": 5, "key": "x" * 51}, "key must be at most 50 letters"),
    ],
)
def test_what_is_refused(qless, options, words) -> None:
    with pytest.raises(InvalidOption, match=words):
        jobs.add.recur(1, **options)
    assert ids() == []


def test_what_args_returned_is_given_alone(qless) -> None:
    feed = Feed.objects.create()
    for refused in (
        lambda: jobs.add.recur(jobs.echo.args(1), every=60),
        lambda: jobs.add.recur(jobs.add.args(1), b=2, every=60),
        lambda: jobs.add.recur(1, jobs.add.args(2), every=60),
        lambda: jobs.add.recur(jobs.add.args(1), jobs.add.args(2), every=60),
        lambda: feed.rename.recur("x", feed.rename.args("y"), every=60),
        lambda: feed.rename.recur(feed.rename.args("y"), title="x", every=60),
        lambda: Feed.rename.recur(feed, feed, feed.rename.args("y"), every=60),
    ):
        with pytest.raises(TypeError, match=r"recur takes what \w+.args\(…\) returns"):
            refused()
    assert ids() == []
    assert Feed.rename.recur(feed, feed.rename.args("y"), every=60).id
    assert feed.rename.recur(feed.rename.args("z"), every=60).id
    assert ids() == [f"jobs_app.Feed.rename:{feed.pk}"]


def test_what_an_update_refuses(qless) -> None:
    handle = jobs.add.recur(1, every=60)
    for changes, words in (
        ({"color": "red"}, "there is no 'color' to be changed: possible are"),
        ({}, "nothing is given that is to be changed"),
    ):
        with pytest.raises(InvalidOption, match=words):
            handle.update(**changes)
    assert handle.refresh().every == 60
    ticks = once.recur(1, every=60).refresh()
    with pytest.raises(InvalidOption, match="with the retries that the code declares"):
        ticks.update(retries=9)


def test_what_rows_refuse(qless) -> None:
    with pytest.raises(UnserialisableArgument, match="save it first"):
        Feed().check_now.recur(every=60)
    with pytest.raises(InvalidOption, match="each row has one schedule of this job"):
        Feed.objects.create().check_now.recur(every=60, key="x")
    with pytest.raises(TypeError, match="missing a required argument: 'title'"):
        Feed.objects.create().rename.recur(every=60)
    assert ids() == []


def test_options_of_the_call(qless, work) -> None:
    feed = Feed.objects.create()
    handle = feed.check_now.using(
        queue="slow", priority=9, tags=["x"], retries=1, timeout=9, expires=100
    ).recur(every=3600)
    now = handle.refresh()
    assert (now.queue, now.priority, now.tags, now.retries) == ("slow", 9, ["x"], 1)
    serve(qless, "w")
    (reserved,) = qless.settle("w", [], 1, ["slow"]).jobs
    assert reserved.context_object == {"options": {"timeout": 9}}
    assert qless.get(reserved.jid).deadline is not None
    for option, value in (
        ("delay", 5),
        ("jid", "x"),
        ("after", ["x"]),
        ("unique", "x"),
    ):
        with pytest.raises(InvalidOption, match=option):
            feed.check_now.using(**{option: value}).recur(every=60)


# At the commit.


def test_inside_a_transaction_at_its_commit(qless) -> None:
    with transaction.atomic():
        feed = Feed.objects.create()
        handle = feed.check_now.recur(every=60)
        assert handle.pending
        assert ids() == []
        with pytest.raises(NotPut):
            handle.refresh()
    assert not handle.pending
    assert ids() == [handle.id]
    with transaction.atomic():
        feed.check_now.unrecur()
        assert ids() == [handle.id]
    assert ids() == []


@pytest.mark.parametrize(
    ("name", "key", "words"),
    [("n" * 160, "k" * 50, "more than 200 bytes"), ("n", "x-history", "-history")],
)
def test_what_could_not_be_sent_is_refused_before_the_commit(
    qless, name, key, words
) -> None:
    @job(name=name)
    def named() -> None: ...

    with transaction.atomic():
        with pytest.raises(InvalidOption, match=words):
            named.recur(every=60, key=key)
        named.unrecur(key=key)
        kept = named.delay()
    assert kept.refresh().state == "waiting"
    assert ids() == []


def test_late_replicas_are_told_with_the_schedule(server, caplog, monkeypatch) -> None:
    # (In tests a commit raises it.)
    monkeypatch.setattr(dispatch, "dispatcher", dispatch.Dispatcher())
    # There is none.
    given = {"LOCATION": server.url, "REPLICAS": 1}
    with override_settings(QLESS={"default": given}):
        with pytest.raises(NotReplicated) as told:
            jobs.add.recur(1, every=60)
        at_once = told.value.handle
        assert (at_once.id, at_once.pending) == ("tests.jobs_app.jobs.add:recur", False)
        with transaction.atomic():
            at_commit = jobs.add.recur(1, every=60, key="x")
        assert f"not replicated: {at_commit.id}: 0 of 1" in caplog.text
        assert ids() == [at_once.id, at_commit.id]
        assert at_commit.refresh().every == 60


def test_a_job_that_a_worker_has_done_before_it_is_read(
    qless, work, monkeypatch
) -> None:
    qless.config_set("jobs-history-count", 0)
    handle = jobs.add.recur(1, cron="0 6 29 2 *")

    def late(client, jid):
        monkeypatch.undo()
        assert work() == 1
        return client.get(jid)

    monkeypatch.setattr(type(qless), "get", late)
    with pytest.raises(JobGone, match="has ended and is forgotten already"):
        handle.run()
    assert ids() == [handle.id]


def test_a_rollback_changes_nothing(qless) -> None:
    feed = Feed.objects.create()
    with transaction.atomic():
        feed.check_now.recur(every=60)
        transaction.set_rollback(True)
    assert ids() == []
    feed.check_now.recur(every=60)
    with transaction.atomic():
        with transaction.atomic():
            feed.check_now.unrecur()
            transaction.set_rollback(True)
        feed.check_now.using(on_commit=False).recur(every=90)
        assert recurring[ids()[0]].every == 90
    assert len(ids()) == 1


def test_the_commit_of_the_rows_own_database_counts(qless) -> None:
    with transaction.atomic(using="other"):
        parcel = Parcel.objects.using("other").create()
        handle = parcel.send.recur(every=60)
        assert handle.id == f"jobs_app.Parcel.send:{parcel.pk}@other"
        assert handle.pending
    assert ids() == [handle.id]


def test_from_asynchronous_code(qless) -> None:
    feed = Feed.objects.create()

    async def recur_and_look() -> tuple[float, list[str], list[str]]:
        handle = await feed.check_now.arecur(every=60)
        now = await handle.arefresh()
        await handle.apause()
        await handle.aresume()
        await handle.aupdate(every=90)
        run = await handle.arun()
        assert run.name == "jobs_app.Feed.check_now"
        listed = [each.id async for each in recurring]
        page = await recurring.alist()
        assert page.total == 1
        assert (await recurring.aget(handle.id)).every == 90
        await feed.check_now.aunrecur()
        rest = [each.id async for each in recurring]
        await connections.aclose()
        return now.every, listed, rest

    every, listed, rest = asyncio.run(recur_and_look())
    assert (every, listed, rest) == (60, [f"jobs_app.Feed.check_now:{feed.pk}"], [])


# Jobs with options that the core's schedules do not know.


def bound(method, job_type, row, model=Feed):
    """Return the method as the job type has it by now."""
    declaration = replace(method.declaration, options=job_type.options)
    return JobFunction(declaration, job_type).__get__(row, model)


def test_a_unique_job_is_enqueued_once(qless, work) -> None:
    feed = Feed.objects.create()
    with declaring() as declare:
        job_type = declare("jobs_app.Feed.check_now", unique=True)
        method = bound(feed.check_now, job_type, feed)
        handle = method.recur(every=3600)
        put = method.delay()
        assert work() == 2  # the tick, and the job that was on its way
        assert qless.get(put.jid).state == "complete"
        feed.refresh_from_db()
        assert feed.checks == 1
        handle.run()
        assert work() == 2
        feed.refresh_from_db()
        assert feed.checks == 2
        vanish(feed)
        handle.run()
        assert work() == 1
        assert (ids(), qless.failed()) == ([], {})


def test_a_unique_one_that_waits_while_the_row_is_deleted(qless, each_way) -> None:
    feed = Feed.objects.create()
    execution = Execution(DjangoEnvironment("default"), qless, "w")
    with declaring() as declare:
        job_type = declare("jobs_app.Feed.check_now", unique=True)
        bound(feed.check_now, job_type, feed).recur(every=3600)
        serve(qless, "w")
        [tick] = qless.settle("w", [], 1, ["*"]).jobs
        ended = each_way(execution, tick)
        feed.delete()
        [put] = qless.settle("w", [ended], 1, ["*"]).jobs
        assert put.jid.startswith(tick.jid) and put.jid.endswith(":job")
        qless.settle("w", [each_way(execution, put)], 1, ["*"])
        assert (ids(), qless.failed()) == ([], {})


@pytest.mark.parametrize("unique", [True, None])
@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("when", [{"cron": "0 6 * * *"}, {"every": 3600}])
def test_only_the_schedule_of_this_very_row_ends(qless, unique, beside, when) -> None:
    # The keys end as what ticks append to a schedule's id.
    rows = [Country.objects.create(code=code) for code in ("a", "a-1", "a-1-2")]
    execution = Execution(DjangoEnvironment("default"), qless, "w")
    with declaring() as declare:
        job_type = declare("rows_app.Country.greet", unique=unique)
        first, second, third = (
            bound(row.greet, job_type, row, Country).recur(**when) for row in rows
        )
        first.pause()
        third.pause()
        # By then both kinds have ticked.
        with clock.travel_to("default", time.time() + 2 * 86400):
            if beside:
                second.pause()
                second.run()
            else:
                while serve(qless, "w") == 0:
                    pass
            [job] = qless.settle("w", [], 1, ["*"]).jobs
            if unique:
                [job] = qless.settle("w", [execution.perform(job)], 1, ["*"]).jobs
            Country.objects.filter(pk="a-1")._raw_delete("default")
            qless.settle("w", [execution.perform(job)], 0, ["*"])
        assert ids() == [first.id, third.id]
        assert qless.failed() == {}


def test_what_comes_first_is_enqueued_first(qless, work) -> None:
    feed = Feed.objects.create()
    with declaring() as declare:
        job_type = declare("jobs_app.Feed.my_jid", after="check_now")
        method = bound(feed.my_jid, job_type, feed)
        handle = method.recur(every=3600)
        assert handle.refresh().name == "jobs_app.Feed.my_jid"
        assert work() == 3
        feed.refresh_from_db()
        assert feed.checks == 1
