"""Jobs that are enqueued twice and are there once."""

from __future__ import annotations

import asyncio
import logging

import pytest
from django.db import transaction

from django_qless import job
from django_qless.core import DuplicateJob
from django_qless.enqueue import unique_keys
from django_qless.exceptions import InvalidOption
from django_qless.signals import job_enqueued
from tests.jobs_app import policies
from tests.jobs_app.models import Feed

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def enqueue(function, *args, **kwargs):
    return function.delay(*args, **kwargs)


def aenqueue(function, *args, **kwargs):
    return asyncio.run(function.aenqueue(*args, **kwargs))


def enqueue_in_batch(function, *args, **kwargs):
    return function.enqueue_many([function.args(*args, **kwargs)])[0]


@pytest.fixture(params=[enqueue, aenqueue, enqueue_in_batch])
def each_way(request):
    """Each way to enqueue one job."""
    return request.param


def test_the_first_one_stands_for_the_second(qless, each_way, work) -> None:
    first = each_way(policies.once, 1, 2)
    second = each_way(policies.once, 1, 2)
    other = each_way(policies.once, 2, 2)
    assert (first.created, second.created, other.created) == (True, False, True)
    assert first == second
    assert second.jid == first.jid != other.jid
    assert qless.queue_counts("default").waiting == 2
    work()
    assert second.result() == 3
    third = each_way(policies.once, 1, 2)
    assert third.created
    assert third.jid != first.jid


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (policies.once.args(1), policies.once.args(a=1)),
        (policies.once.args(1), policies.once.args(1, 0, mode="x")),
        (policies.once.args(1, mode="y", b=3), policies.once.args(b=3, a=1, mode="y")),
    ],
)
def test_however_the_same_arguments_are_spelt(qless, one, other) -> None:
    first, second = policies.once.enqueue_many([one, other])
    assert first.jid == second.jid
    assert (first.created, second.created) == (True, False)


def test_one_key_for_all_arguments_of_one_type(qless) -> None:
    first = policies.alone.delay("a")
    assert policies.alone.delay("b").jid == first.jid
    # Other types may use the same text.
    assert policies.once.using(unique="only one").delay(1).created
    assert policies.alone.using(unique="another").delay("c").created
    assert policies.alone.using(unique=None).delay("d").created


def test_a_key_made_of_the_arguments(qless) -> None:
    first = policies.per_user.delay(7, "a")
    assert policies.per_user.delay(7, text="b").jid == first.jid
    assert policies.per_user.delay(8).created
    # None: not unique at all.
    assert policies.per_user.delay(0).created
    assert policies.per_user.delay(0).created


@pytest.mark.parametrize(
    ("unique", "words"),
    [
        (lambda: "x", "does not take them: .* Give it the parameters of the job"),
        (lambda user, text: 5, "must return a text, or None .*, and returned 5"),
        (lambda user, text: "", "must return a text"),
    ],
)
def test_a_function_that_makes_no_key(qless, unique, words) -> None:
    with pytest.raises(InvalidOption, match=f"policies.per_user: unique=.*{words}"):
        policies.per_user.using(unique=unique).delay(1, "x")
    assert qless.queues() == []


def test_what_the_function_raises_is_raised(qless) -> None:
    def broken(user: int, text: str = "") -> str:
        raise TypeError("of its own")

    with pytest.raises(TypeError, match=r"^of its own$"):
        policies.per_user.using(unique=broken).delay(1)


def test_on_a_row_the_instance_comes_first(qless) -> None:
    feed, other = Feed.objects.create(), Feed.objects.create()
    rename = Feed.rename.using(unique=lambda self, title: f"{self.pk}")
    assert rename.delay(feed, "a").created
    assert not rename.delay(feed, "b").created
    assert rename.delay(other, "a").created
    assert feed.rename.using(unique=True).delay("a").created
    assert not Feed.rename.using(unique=True).delay(feed, title="a").created
    assert other.rename.using(unique=True).delay("a").created
    of_class = Feed.check_all.using(unique=lambda cls, by=1: cls.__name__)
    assert of_class.delay().created
    assert not of_class.delay(5).created


def test_long_keys_are_fine(qless) -> None:
    long = policies.alone.using(unique="x" * 255)
    assert long.delay().created
    assert not long.delay().created
    assert policies.alone.using(unique="x" * 254 + "y").delay().created


def test_keys_stay_what_they_were_in_earlier_releases() -> None:
    """During an upgrade processes of two releases enqueue the same jobs."""
    assert unique_keys.of_text("a.job", "key") == "a.job:key"
    most = "é" * 124 + "x"  # with "a.job:" just what a key may have
    assert unique_keys.of_text("a.job", most) == f"a.job:{most}"
    assert unique_keys.of_text("a.job", f"{most}x") == (
        "c7ff5fc2677bb940813b5f01f1c2557880f84df43b10b4bf7b20b570d5097ec8"
    )
    for data in (
        '{"v":1,"args":[1],"kwargs":{"a":2,"b":3}}',
        '{"v":1, "kwargs":{"b":3,"a":2}, "args":[1]}',
    ):
        assert unique_keys.of_data("a.job", data) == (
            "a.job:400eb31c3aad86e7a6b0790654bb0cde7f0e10400fa3a4522d0345acc43dc199"
        )


def test_until_it_starts_or_until_it_has_ended(qless) -> None:
    waiting, running = policies.while_waiting.delay(1), policies.once.delay(1)
    assert not policies.while_waiting.delay(1).created
    jobs = {job.jid: job for job in qless.pop("default", "w", 9)}
    assert policies.while_waiting.delay(1).created
    assert not policies.once.delay(1).created
    for handle in (waiting, running):
        held = jobs[handle.jid]
        qless.complete(held.jid, held.token, "default", held.data)
    assert policies.once.delay(1).created


def test_for_a_period_whatever_becomes_of_it(qless, work) -> None:
    daily = policies.once.using(unique_for=86400)
    first = daily.delay(1)
    work()
    second = daily.delay(1)
    assert (second.created, second.jid) == (False, first.jid)
    assert second.result() == 1


def test_replacing_it(qless, work) -> None:
    first = policies.latest.using(priority=1).delay("old")
    second = policies.latest.using(priority=5).delay("new")
    assert (second.jid, second.created) == (first.jid, False)
    assert first.refresh().priority == 5
    assert qless.queue_counts("default").waiting == 1
    work()
    assert first.result() == "new"


def test_replacing_one_that_runs_comes_after_it(qless, work) -> None:
    first = policies.latest.delay("old")
    [held] = qless.pop("default", "w")
    second = policies.latest.delay("new")
    assert second.jid != first.jid
    assert second.created
    assert second.refresh().dependencies == [first.jid]
    qless.fail(held.jid, held.token, "some-group", "on purpose")
    work()
    assert second.result() == "new"


def test_refusing_it(qless, each_way) -> None:
    first = each_way(policies.refused, "a")
    with pytest.raises(DuplicateJob, match=first.jid) as caught:
        each_way(policies.refused, "b")
    assert caught.value.jid == first.jid
    assert qless.queue_counts("default").waiting == 1


@pytest.mark.parametrize(
    "enqueue_all",
    [
        lambda function, calls: function.enqueue_many(calls),
        lambda function, calls: asyncio.run(function.aenqueue_many(calls)),
    ],
)
def test_of_a_long_list_the_error_tells_how_many_came_before(
    qless, enqueue_all
) -> None:
    """They are there, a thousand with each call: the caller goes on behind them."""
    by_word = policies.refused.using(unique=lambda word: word)
    held = by_word.delay("w1200")
    calls = [by_word.args(f"w{number}") for number in range(2_500)]
    with pytest.raises(DuplicateJob, match="The 1000 items before it") as caught:
        enqueue_all(by_word, calls)
    assert (caught.value.done, caught.value.jid) == (1_000, held.jid)
    assert qless.queue_counts("default").waiting == 1_001


class TestInTransactions:
    def test_it_shows_at_the_commit(self, qless) -> None:
        with transaction.atomic():
            first, second = policies.once.delay(1), policies.once.delay(1)
            assert first.created is second.created is None
            given = second.jid
            assert first.jid != given
        assert (first.created, second.created) == (True, False)
        assert second.jid == first.jid != given

    def test_a_rolled_back_one_is_in_nobodys_way(self, qless) -> None:
        with transaction.atomic():
            with transaction.atomic():
                policies.once.delay(1)
                transaction.set_rollback(True)
            kept = policies.once.delay(1)
        assert kept.created

    def test_a_dependency_may_turn_out_to_be_another(self, qless) -> None:
        first = policies.once.delay(1)
        with transaction.atomic():
            same = policies.once.delay(1)
            last = policies.once.using(after=[same]).delay(2)
            many = policies.once.enqueue_many(
                [policies.once.using(after=[same]).args(i) for i in (3, 4)]
            )
        assert same.jid == first.jid
        for handle in (last, *many):
            assert handle.refresh().dependencies == [first.jid]

    def test_refused_ones_are_logged_and_stop_nothing(self, qless, caplog) -> None:
        first = policies.refused.delay("a")
        with transaction.atomic():
            second = policies.refused.delay("b")
            third = policies.once.delay(3)
        assert (second.created, second.jid, second.pending) == (False, first.jid, False)
        assert third.created
        [record] = [r for r in caplog.records if r.name == "django_qless"]
        assert record.levelno == logging.WARNING
        assert first.jid in record.getMessage()

    def test_of_many_only_the_refused_ones(self, qless, caplog) -> None:
        by_word = policies.refused.using(unique=lambda word: word)
        first = by_word.delay("3")
        with transaction.atomic():
            handles = by_word.enqueue_many(by_word.args(str(i)) for i in range(6))
        assert [h.created for h in handles] == [True] * 3 + [False] + [True] * 2
        assert handles[3].jid == first.jid
        assert qless.queue_counts("default").waiting == 6


def test_many_at_once(qless) -> None:
    first = policies.once.delay(7)
    handles = policies.once.enqueue_many(
        policies.once.args(i % 700) for i in range(1500)
    )
    assert [h.created for h in handles] == [i < 700 and i != 7 for i in range(1500)]
    assert handles[7] == handles[707] == first
    assert handles[699].jid == handles[1399].jid
    assert qless.queue_counts("default").waiting == 700


def test_a_mixture_at_once(qless) -> None:
    add = policies.once
    add.delay(0)
    handles = add.enqueue_many(
        [
            add.args(1),
            add.using(unique=None, priority=5).args(1),
            add.args(1),
            add.using(delay=60).args(2),
        ]
    )
    assert [h.created for h in handles] == [True, True, False, True]
    assert handles[3].refresh().state == "scheduled"


def test_the_signal_tells_of_what_is_new(qless) -> None:
    told = []

    def note(handle, **kwargs):
        told.append(handle.jid)

    job_enqueued.connect(note)
    try:
        first = policies.once.delay(1)
        policies.once.delay(1)
        replaced = policies.latest.delay("a")
        policies.latest.delay("b")
    finally:
        job_enqueued.disconnect(note)
    assert told == [first.jid, replaced.jid, replaced.jid]


def test_a_class_job(qless) -> None:
    @job(name="tests.unique.Digger", unique=True)
    class Digger:
        @staticmethod
        def process(job) -> None:
            """Dig."""

    first = Digger.delay({"a": 1, "b": 2})
    assert Digger.delay({"b": 2, "a": 1}).jid == first.jid
    assert Digger.delay({"a": 1}).created


def test_many_dependencies_are_all_replaced(qless, each_work) -> None:
    first, second = (
        policies.once.enqueue_many([policies.once.args(n, b) for n in range(1_001)])
        for b in (1, 2)
    )
    one = policies.latest.using(after=first).delay("a")
    other = policies.latest.using(after=second).delay("b")
    assert other.jid == one.jid
    assert set(other.refresh().dependencies) == {handle.jid for handle in second}
    each_work()
    assert other.result() == "b"
