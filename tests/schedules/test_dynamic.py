"""`.recur()` and `.unrecur()`: schedules of single rows, and of functions."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from datetime import timedelta
from unittest import mock

import pytest
from django.db import connection, transaction

from django_qless import job, recurring
from django_qless.conf.connections import connections
from django_qless.core.exceptions import ScheduleNotFound
from django_qless.declare.function import JobFunction
from django_qless.enqueue import dispatch
from django_qless.exceptions import InvalidOption, NotPut, UnserialisableArgument
from django_qless.job_types.registry import registry
from django_qless.runtime.environment import DjangoEnvironment
from django_qless.testing import clock
from django_qless.worker.execution import Execution
from django_qless.worker.ticker import Ticker
from tests.jobs_app import jobs
from tests.jobs_app.models import Feed, NewsFeed, Parcel, ProxyFeed
from tests.rows_app.models import Country
from tests.schedules.declaring import declaring

BOTH = ["default", "other"]
pytestmark = pytest.mark.django_db(transaction=True, databases=BOTH)


def ids() -> list[str]:
    return sorted(handle.id for handle in recurring)


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
    assert (cron.words, cron.count) == ("at 06:00 every day, Asia/Tokyo", 1)
    assert ids() == [first.id]


def test_the_first_tick_may_wait(qless, work) -> None:
    handle = Feed.objects.create().check_now.recur(every=60, offset=3600)
    assert work() == 0
    assert handle.refresh().count == 0


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
    results = [
        qless.result(f"tests.jobs_app.jobs.add:{key}-1") for key in ("recur", "four")
    ]
    assert results == [9, 4]
    jobs.add.unrecur(key="four")
    jobs.Gnomes.unrecur()
    assert len(ids()) == 3


def test_a_name_that_the_function_needs_itself(qless) -> None:
    @job(name="tests.named")
    def named(every: int, key: str = "") -> None:
        pass

    with pytest.raises(TypeError, match=r"its own argument 'every': write recur\("):
        named.recur(every=60)
    with pytest.raises(TypeError, match="its own argument 'key'"):
        named.recur(5, cron="@daily", key="x")
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
        ({"cron": "0 0 31 2 *"}, "never"),
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
    (reserved,) = qless.settle("w", [], 1, ["slow"]).jobs
    assert reserved.context_object == {"options": {"timeout": 9}}
    assert qless.get(reserved.jid).deadline is not None
    for option, value in (
        ("delay", 5),
        ("jid", "x"),
        ("after_jids", ["x"]),
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


# With the row.


def test_deleting_the_row_ends_it(qless) -> None:
    feed, other = Feed.objects.create(), Feed.objects.create()
    feed.check_now.recur(every=60)
    feed.rename.recur("x", every=60)
    kept = other.check_now.recur(every=60)
    feed.delete()
    assert ids() == [kept.id]


def test_deleting_many_rows_ends_all_of_theirs_in_few_calls(qless, monkeypatch) -> None:
    for _ in range(3):
        feed = Feed.objects.create()
        feed.check_now.recur(every=60)
        feed.rename.recur("x", every=60)
    Feed.objects.bulk_create(Feed() for _ in range(1500))
    assert len(ids()) == 6
    calls, remove = [], qless.schedule_remove

    def counted(some):
        calls.append(len(some))
        return remove(some)

    monkeypatch.setattr(qless, "schedule_remove", counted)
    # The dispatcher of a project, not that of its tests.
    with mock.patch.object(dispatch, "dispatcher", dispatch.Dispatcher()):
        Feed.objects.all().delete()
    assert ids() == []
    assert max(calls) == 1000 and sum(calls) >= 3006 and len(calls) < 10


def test_a_row_that_is_gone_when_its_schedule_is_committed(qless) -> None:
    feed = Feed.objects.create()
    with transaction.atomic():
        handle = feed.check_now.recur(every=60)
        feed.delete()
    with pytest.raises(ScheduleNotFound):
        handle.refresh()


def test_it_ends_when_the_deletion_is_committed(qless) -> None:
    feed = Feed.objects.create()
    handle = feed.check_now.recur(every=60)
    with transaction.atomic():
        feed.delete()
        transaction.set_rollback(True)
    assert ids() == [handle.id]
    projects = mock.patch.object(dispatch, "dispatcher", dispatch.Dispatcher())
    with projects, transaction.atomic():
        other = Feed.objects.create()
        other.check_now.using(on_commit=False).recur(every=60)
        other.delete()
        with transaction.atomic():
            Feed.objects.exclude(pk=None).first().delete()
            transaction.set_rollback(True)
    assert ids() == [handle.id]
    with transaction.atomic():
        Feed.objects.all().delete()
        assert ids() == [handle.id]
    assert ids() == []


def test_proxies_and_children_are_the_same_row(qless) -> None:
    feed = Feed.objects.create()
    feed.check_now.recur(every=60)
    ProxyFeed.objects.get(pk=feed.pk).greet.recur(every=60)
    assert len(ids()) == 2
    ProxyFeed.objects.get(pk=feed.pk).delete()
    assert ids() == []
    news = NewsFeed.objects.create()
    news.check_now.recur(every=60)
    news.feed_ptr.check_now.recur(every=60)
    assert len(ids()) == 2
    Feed.objects.get(pk=news.pk).delete()
    assert ids() == []


def test_deleting_in_another_database(qless) -> None:
    parcel = Parcel.objects.using("other").create()
    parcel.send.recur(every=60)
    here = Parcel(pk=parcel.pk)
    here.save(using="default", force_insert=True)
    kept = here.send.recur(every=60)
    parcel.delete()
    assert ids() == [kept.id]


def test_a_server_that_is_away_does_not_hold_up_a_deletion(qless, caplog) -> None:
    feed = Feed.objects.create()
    feed.check_now.recur(every=60)
    qless.patience = 0
    redis = qless.redis
    limit = redis.config_get("maxmemory")["maxmemory"]
    redis.config_set("maxclients", 1)
    try:
        for known in redis.client_list():
            if known["id"] != str(redis.client_id()):
                redis.client_kill_filter(_id=known["id"])
        feed.delete()
    finally:
        redis.config_set("maxclients", 10000)
        redis.config_set("maxmemory", limit)
        qless.patience = 10
    assert not Feed.objects.exists()
    assert "have not ended yet" in caplog.text


def test_a_process_that_begins_later_listens_as_well(qless, monkeypatch) -> None:
    from django.db.models.signals import post_delete

    feed = Feed.objects.create()
    feed.check_now.recur(every=60)
    # A new process has no receivers.
    monkeypatch.setattr(post_delete, "receivers", [])
    post_delete.sender_receivers_cache.clear()
    DjangoEnvironment().on_start()
    feed.delete()
    assert ids() == []
    post_delete.sender_receivers_cache.clear()


def test_models_of_which_no_row_recurs_are_not_listened_to(qless, monkeypatch) -> None:
    from django.db.models.signals import post_delete

    monkeypatch.setattr(post_delete, "receivers", [])
    post_delete.sender_receivers_cache.clear()
    feed = Feed.objects.create()
    feed.check_now.delay()
    jobs.add.recur(1, every=60)
    DjangoEnvironment().on_start()
    assert not post_delete.has_listeners(Feed)
    feed.check_now.recur(every=60)
    assert post_delete.has_listeners(Feed) and post_delete.has_listeners(ProxyFeed)
    assert not post_delete.has_listeners(Parcel)
    post_delete.sender_receivers_cache.clear()


@pytest.mark.parametrize("ran_once", [False, True])
def test_a_row_that_vanished_unnoticed_ends_it_at_its_next_tick(
    qless, each_work, ran_once
) -> None:
    feed = Feed.objects.create()
    handle = feed.check_now.recur(every=3600)
    if ran_once:
        each_work()
    vanish(feed)
    if ran_once:
        handle.run()
    assert each_work() == 1
    assert ids() == []
    # Nothing has failed: there was nothing to do.
    assert qless.failed() == {}
    job = qless.multiget(qless.completed())[0]
    assert any(entry["what"] == "row-gone" for entry in job.history)


def test_a_tick_that_waits_while_the_row_is_deleted_fails_nothing(
    qless, each_work
) -> None:
    feed = Feed.objects.create()
    feed.check_now.recur(every=3600).run()
    feed.delete()  # ends the schedule, and leaves the tick's job
    assert ids() == []
    assert each_work() == 1
    assert qless.failed() == {}


def test_coroutines_end_as_well(qless, each_work) -> None:
    feed = Feed.objects.create()
    feed.atitle.recur(every=3600)
    vanish(feed)
    assert each_work() == 1
    assert (ids(), qless.failed()) == ([], {})


def test_a_row_among_the_arguments_that_is_gone_ends_nothing(qless, work) -> None:
    feed, other = Feed.objects.create(), Feed.objects.create()
    handle = feed.merge.recur(other, every=3600)
    vanish(other)
    work()
    assert ids() == [handle.id]
    assert qless.failed() == {"row-gone": 1}


def test_a_job_that_was_enqueued_by_itself_fails_as_ever(qless, work) -> None:
    feed = Feed.objects.create()
    handle = feed.check_now.recur(every=3600, offset=3600)
    feed.check_now.delay()
    vanish(feed)
    work()
    assert qless.failed() == {"row-gone": 1}
    assert ids() == [handle.id]


def vanish(row) -> None:
    """Delete the row past Django."""
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {row._meta.db_table} WHERE id = %s", [row.pk])


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
                ticker = Ticker(qless, "w")
                while ticker.tick() == 0:
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
