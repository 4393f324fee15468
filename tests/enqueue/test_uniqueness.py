"""Jobs that are enqueued twice and are there once."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from django.db import transaction

from django_qless import failures, job
from django_qless import jobs as known
from django_qless.core import Put, WrongState
from django_qless.exceptions import InvalidOption
from django_qless.operations.bulk import change_jobs
from django_qless.signals import job_enqueued
from django_qless.testing import clock
from tests.core.invariants import violations_on
from tests.jobs_app import jobs, policies
from tests.jobs_app.models import Feed
from tests.real_servers import Server

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
        policies.once.enqueue_many([policies.once.args(n, b) for n in range(1_000)])
        for b in (1, 2)
    )
    one = policies.latest.using(after=first).delay("a")
    other = policies.latest.using(after=second).delay("b")
    assert other.jid == one.jid
    assert set(other.refresh().dependencies) == {handle.jid for handle in second}
    each_work()
    assert other.result() == "b"


@pytest.fixture
def later():
    """Three seconds later: what had to start within two has expired."""
    moment = clock.now("default") + 3
    return lambda: clock.travel_to("default", moment)


def reserve(qless):
    [job] = qless.settle("somebody", [], 1, ["default"]).jobs
    return job


def of_fresh(limit, value):
    return f"{policies.fresh.name}-{limit}-of-type", value


def waits(qless, fresh):
    return fresh.delay(1)


def is_delayed(qless, fresh):
    return fresh.using(delay=1).delay(1)


def depends_on_another(qless, fresh):
    return fresh.using(after=jobs.add.using(queue="idle").delay(1)).delay(1)


def is_held_back(qless, fresh):
    qless.config_set(*of_fresh("max-concurrency", 1))
    fresh.delay(0)
    reserve(qless)
    handle = fresh.delay(1)
    assert not qless.settle("somebody", [], 1, ["default"]).jobs
    return handle


def is_throttled(qless, fresh):
    qless.config_set(*of_fresh("rate", "1/h"))
    return is_held_back(qless, fresh)


def waits_for_a_retry(qless, fresh):
    handle = fresh.using(retries=1).delay(1)
    job = reserve(qless)
    qless.retry(job.jid, "default", job.token, 60)
    return handle


def was_taken_from_its_worker(qless, fresh):
    handle = fresh.delay(1)
    qless.timeout(reserve(qless).jid)
    return handle


@pytest.mark.parametrize("conflict", ["keep", "replace"])
@pytest.mark.parametrize(
    "first_of",
    [
        waits, is_delayed, depends_on_another, is_held_back, is_throttled,
        waits_for_a_retry, was_taken_from_its_worker,
    ],
)  # fmt: skip
def test_expired_job_does_not_hold_its_unique_key(
    qless, later, first_of, conflict, server: Server
) -> None:
    fresh = policies.fresh.using(on_conflict=conflict)
    first = first_of(qless, fresh)
    with later():
        second = fresh.delay(1)
        assert second.created
        assert second.jid != first.jid
        assert policies.fresh.delay(1).jid == second.jid
    failed = first.refresh()
    assert (failed.state, failed.failure.group) == ("failed", "expired")
    assert second.refresh().state == "waiting"
    assert violations_on(server) == []


def test_expired_job_that_runs_holds_its_unique_key(qless, later) -> None:
    first = policies.fresh.delay(1)
    reserve(qless)
    with later():
        assert policies.fresh.delay(1).jid == first.jid


def test_expired_job_is_not_debounced_further(qless, later) -> None:
    index = policies.fresh.using(debounce=1)
    first = index.delay(1)
    with later():
        second = index.delay(1)
    assert second.created
    assert first.refresh().failure.group == "expired"
    assert second.refresh().state == "scheduled"


@pytest.mark.parametrize(
    ("policy", "state"), [("block", "depends"), ("run", "waiting")]
)
def test_expired_job_is_a_failed_dependency(qless, later, policy, state) -> None:
    first = policies.fresh.delay(1)
    with later():
        second = jobs.add.using(after=first, on_failure=policy).delay(2)
    assert first.refresh().failure.group == "expired"
    assert second.refresh().state == state


def test_retried_job_waits_again_for_what_it_waited_for_when_it_expired(
    qless, later, work, server: Server
) -> None:
    other = jobs.add.using(queue="idle").delay(1)
    first = policies.fresh.using(after=other).delay(1)
    with later():
        second = policies.fresh.using(on_conflict="keep").delay(1)
    second.cancel()
    first.retry()
    assert first.refresh().state == "depends"
    work()
    assert first.result() == 1
    assert violations_on(server) == []


def failed_three(qless, function=policies.once):
    """Return the handles of three jobs of one key, each of which has failed."""
    handles = []
    for _ in range(3):
        handles.append(function.delay(7))
        job = reserve(qless)
        qless.fail(job.jid, job.token, "group", "message")
    return handles


def each_by(act):
    """Return what does this with each of the jobs; those that are refused stay."""

    def do(qless, handles):
        done = 0
        for handle in handles:
            with suppress(WrongState):
                act(handle)
                done += 1
        return done

    return do


def retry_in_bulk(qless, handles):
    run = change_jobs(qless, "retry", [each.jid for each in handles])
    assert run.refused == 2
    assert all(why.startswith("The unique key") for _jid, why in run.reasons)
    return run.done


def move_in_bulk(qless, handles):
    found = qless.move_each([each.jid for each in handles], "default")
    assert all(why.startswith("The unique key") for why in found.refused.values())
    return len(found.done)


WAYS_BACK = {
    "retry": each_by(lambda handle: handle.retry()),
    "aretry": each_by(lambda handle: asyncio.run(handle.aretry())),
    "move": each_by(lambda handle: handle.move("default")),
    "revive": lambda _, handles: known.revive([each.jid for each in handles]),
    "unfail": lambda *_: failures.unfail("group", "default"),
    "bulk retry": retry_in_bulk,
    "bulk move": move_in_bulk,
}


@pytest.mark.parametrize("way", WAYS_BACK)
@pytest.mark.parametrize("function", [policies.once, policies.while_waiting])
def test_one_failed_job_of_a_unique_key_goes_on_at_a_time(
    qless, work, way, function, server: Server
) -> None:
    handles = failed_three(qless, function)
    assert WAYS_BACK[way](qless, handles) == 1
    assert [each.refresh().state for each in handles] == ["waiting", "failed", "failed"]
    assert function.delay(7).jid == handles[0].jid
    assert qless.failed() == {"group": 2}
    work()
    handles[1].retry()
    assert handles[1].refresh().state == "waiting"
    assert violations_on(server) == []


def test_failed_jobs_of_one_unique_key_are_not_put_again_in_one_batch(qless) -> None:
    one, other, _ = failed_three(qless)
    again = [Put(each.jid, "default", each.name, each.data) for each in (one, other)]
    with pytest.raises(WrongState):
        qless.put_many("", again)
    assert qless.failed() == {"group": 3}
    assert qless.put_many("", again[1:]).skipped == []
    assert policies.once.delay(7).jid == other.jid


def test_unfail_passes_over_jobs_whose_unique_keys_are_taken(qless) -> None:
    older = failed_three(qless)
    newest = policies.once.delay(8)
    job = reserve(qless)
    qless.fail(job.jid, job.token, "group", "message")
    policies.once.delay(7)
    assert failures.unfail("group", "default", 1) == 1
    assert newest.refresh().state == "waiting"
    assert qless.failed_jobs("group").jids == [each.jid for each in reversed(older)]


def test_job_that_waits_for_a_failed_one_of_its_key_does_not_hold_up_its_retry(
    qless, work
) -> None:
    first = policies.once.delay(7)
    job = reserve(qless)
    qless.fail(job.jid, job.token, "group", "message")
    second = policies.once.using(after=first).delay(7)
    first.retry()
    assert work() == 2
    assert second.result() == 7


def test_expired_job_does_not_keep_a_failed_one_from_a_retry(qless, later) -> None:
    first = policies.fresh.delay(1)
    job = reserve(qless)
    qless.fail(job.jid, job.token, "group", "message")
    second = policies.fresh.delay(1)
    with later():
        first.retry()
        assert policies.fresh.delay(1).jid == first.jid
    assert second.refresh().failure.group == "expired"
