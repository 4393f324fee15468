"""Jobs that wait for peace, and jobs that are no longer wanted after a while."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction

from django_qless.core import Put
from tests.jobs_app import jobs, policies

pytestmark = pytest.mark.django_db(transaction=True)


def due(qless, handle) -> float:
    """Return in how many seconds a job is due."""
    return float(qless.redis.zscore("ql:q:default-scheduled", handle.jid)) - time.time()


def test_each_call_starts_the_wait_again(qless) -> None:
    first = policies.index.delay(1, "a")
    assert first.created
    assert first.refresh().state == "scheduled"
    assert 50 < due(qless, first) <= 61
    qless.redis.zadd("ql:q:default-scheduled", {first.jid: time.time() + 5})
    second = policies.index.delay(1, "a")
    assert (second.jid, second.created) == (first.jid, False)
    assert 50 < due(qless, first) <= 61
    # Other arguments are another job.
    assert policies.index.delay(2, "a").created


def test_the_last_call_counts(qless) -> None:
    index = policies.index.using(unique=lambda page, text="": str(page))
    first = index.delay(1, "a")
    second = index.delay(1, "b")
    assert second.jid == first.jid
    assert '"b"' in first.refresh().data
    assert qless.queue_counts("default").scheduled == 1


def test_not_for_longer_than_ten_times_its_debounce(qless) -> None:
    first = policies.index.delay(1)
    # As if it had been enqueued nine and a half minutes ago.
    qless.redis.hset(f"ql:j:{first.jid}", "first", f"{time.time() - 570:.6f}")
    second = policies.index.delay(1)
    assert second.jid == first.jid
    assert 20 < due(qless, first) <= 31


def test_in_a_transaction_it_counts_from_the_commit(qless) -> None:
    with transaction.atomic():
        handles = [policies.index.delay(1) for _ in range(3)]
        assert [h.created for h in handles] == [None] * 3
    assert len({h.jid for h in handles}) == 1
    assert [h.created for h in handles] == [True, False, False]


def test_many_at_once(qless) -> None:
    handles = policies.index.enqueue_many(policies.index.args(i % 5) for i in range(20))
    assert len({h.jid for h in handles}) == 5
    assert qless.queue_counts("default").scheduled == 5


def test_what_has_expired_is_not_run(qless, work) -> None:
    moment = datetime.now(UTC)
    late = jobs.add.using(expires=moment - timedelta(seconds=1)).delay(1)
    good = jobs.add.using(expires=moment + timedelta(hours=1)).delay(2)
    also = jobs.add.using(expires=timedelta(hours=1)).delay(3)
    assert work() == 2
    failure = late.refresh().failure
    assert failure is not None
    assert failure.group == "expired"
    assert (good.result(), also.result()) == (2, 3)


def test_seconds_count_from_the_call_moments_do_not(qless) -> None:
    moment = datetime.now(UTC) + timedelta(hours=1)
    relative = jobs.add.using(expires=3600)
    absolute = jobs.add.using(expires=moment)
    for item in (relative.job_type, absolute.job_type):
        assert item is jobs.add.job_type
    for handle in (relative.delay(1), absolute.delay(1)):
        stored = qless.get(handle.jid)
        assert abs(stored.deadline - moment.timestamp()) < 60
    assert Put("j", "q", "k", "{}").expires is None
