"""Schedules of rows end with their rows, however these are deleted."""

from __future__ import annotations

from unittest import mock

import pytest
from django.db import models, transaction

from django_qless.core.exceptions import ScheduleNotFound
from django_qless.enqueue import dispatch
from django_qless.runtime.environment import DjangoEnvironment
from tests.jobs_app import jobs
from tests.jobs_app.models import Feed, NewsFeed, Parcel, ProxyFeed
from tests.schedules.rows import ids, vanish

BOTH = ["default", "other"]
pytestmark = pytest.mark.django_db(transaction=True, databases=BOTH)


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
    projects = mock.patch.object(dispatch, "dispatcher", dispatch.Dispatcher())
    with projects, transaction.atomic():
        transaction.on_commit(lambda: None)
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
    handle = feed.check_now.recur(cron="0 6 29 2 *")
    feed.check_now.delay()
    vanish(feed)
    work()
    assert qless.failed() == {"row-gone": 1}
    assert ids() == [handle.id]


def test_a_deletion_outside_of_transactions_ends_it_at_once(qless) -> None:
    """Soft deletions send the signal so."""
    feed, other = Feed.objects.create(), Feed.objects.create()
    feed.check_now.recur(every=60)
    kept = other.check_now.recur(every=60)
    models.signals.post_delete.send(Feed, instance=feed, using="default")
    assert ids() == [kept.id]
