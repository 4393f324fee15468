"""Schedules of rows end at the first tick that finds no row."""

from __future__ import annotations

import pytest

from tests.jobs_app.models import Feed
from tests.schedules.rows import ids, vanish

BOTH = ["default", "other"]
pytestmark = pytest.mark.django_db(transaction=True, databases=BOTH)


@pytest.mark.parametrize("ran_once", [False, True])
def test_a_row_that_is_gone_ends_it_at_its_next_tick(
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
    handle = feed.check_now.recur(every=3600)
    handle.run()
    handle.pause()
    feed.delete()
    assert each_work() == 1
    assert (ids(), qless.failed()) == ([], {})


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
