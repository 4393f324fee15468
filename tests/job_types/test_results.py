"""Results that are not kept any more: dropped as there are too many, or their time is over."""

from __future__ import annotations

import asyncio
import pickle

import pytest

from django_qless.conf.connections import connections
from django_qless.exceptions import JobGone, NoResult, ResultGone
from django_qless.testing import clock
from tests.jobs_app import flows, jobs
from tests.management.commands import doctor_words

LATER = 400
"""Seconds: all that was kept longer ago can be dropped."""


@pytest.fixture
def too_many(qless, work):
    """A job whose result has been dropped before its time."""
    handle = jobs.add.delay(5)
    work()
    assert handle.result() == 5
    qless.config_set("results-count", 0)
    with clock.travel_to("default", clock.now("default") + LATER):
        jobs.add.delay(6)  # any call that writes
        yield handle


def test_a_result_that_was_dropped(too_many) -> None:
    assert too_many.refresh().state == "complete"
    with pytest.raises(ResultGone, match="results-count or results-bytes") as caught:
        too_many.result()
    with pytest.raises(ResultGone, match="results-count or results-bytes"):
        too_many.result(timeout=1)
    assert isinstance(caught.value, NoResult)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_result_that_was_dropped_from_asynchronous_code(too_many) -> None:
    async def ask() -> None:
        with pytest.raises(ResultGone, match="results-count"):
            await too_many.aresult()
        await connections.aclose()

    asyncio.run(ask())


def test_a_result_whose_time_is_over(qless, work) -> None:
    handle = jobs.add.using(result_ttl=60).delay(5)
    nothing = flows.silent.delay()
    work()
    start = clock.now("default")
    with clock.travel_to("default", start + 50):
        jobs.add.delay(6)
        assert handle.result() == 5
    with clock.travel_to("default", start + 100):
        jobs.add.delay(6)
        with pytest.raises(ResultGone, match=r"result_ttl passed (39|40) s ago"):
            handle.result()
        assert nothing.result() is None  # which is what it returned
    qless.config_set("jobs-history-count", 0)
    jobs.add.delay(7)
    work()
    with pytest.raises(JobGone):
        handle.result()


@pytest.mark.parametrize("gather", [flows.gather, flows.agather])
def test_results_of_dependencies(qless, work, gather) -> None:
    first = jobs.add.using(queue="first").delay(1)
    short = jobs.add.using(queue="first", result_ttl=60).delay(2)
    last = gather.using(after=[first, short], retries=0)
    whole, cut = last.using(queue="soon").delay(), last.using(queue="late").delay()
    none = flows.silent.using(queue="first").delay()
    instead = gather.using(after=[first, none, short]).delay(default=0)
    work("first")
    start = clock.now("default")
    with clock.travel_to("default", start + 100):
        work("soon")
        failure = whole.refresh().failure
        assert (
            f"ResultGone: This job depends on job {short.jid}, and" in failure.message
        )
        assert "result_ttl passed" in failure.message
        work("default")
        assert instead.result() == {first.jid: 1, short.jid: 0}
        qless.config_set("results-count", 0)
    with clock.travel_to("default", start + LATER):
        jobs.add.using(queue="nowhere").delay(6)
        work("late")
        failure = cut.refresh().failure
    assert failure is not None
    assert f"ResultGone: This job depends on job {first.jid} (" in failure.message


def test_the_doctor_counts_what_is_kept(qless, work) -> None:
    assert "result" not in doctor_words()
    for number in range(3):
        jobs.add.delay(number)
    work()
    assert "fine results 3 results kept, 3 bytes" in doctor_words()


def test_the_doctor_tells_of_results_that_are_dropped(too_many, qless, work) -> None:
    told = doctor_words()
    assert "hint results results are dropped before their result_ttl, last 0" in told
    assert "raise results-count (0) or results-bytes (67108864)" in told
    with clock.travel_to("default", clock.now("default") + 2 * 86400):
        assert "dropped" not in doctor_words()
