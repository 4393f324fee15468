"""Jobs of a queue that is split: evenly, by their keys, and together where they must be."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import pytest
from django.db import transaction

from django_qless import current_job, entities, job, jobs, recurring, workflow
from django_qless.checks.jobs import check_options
from django_qless.conf import each as each_namespace
from django_qless.conf import routing
from django_qless.conf.connections import connections
from django_qless.core import ConnectionLost
from django_qless.enqueue import at_once, dispatch
from django_qless.enqueue.dispatch import Dispatcher
from django_qless.enqueue.request import EnqueueBatch
from django_qless.exceptions import InvalidJob, InvalidOption
from django_qless.schedules.declared import declared_on, sync_schedules
from django_qless.signals import job_enqueued
from django_qless.testing import run_jobs
from django_qless.testing.dispatcher import TestDispatcher
from tests.routing.conftest import PARTITIONS
from tests.routing.test_producers import Asked
from tests.schedules.declaring import declaring
from tests.tasks import work
from tests.tasks.installed import task_backends

ran: list[Any] = []


@job("events")
def count(number: int = 0) -> int:
    ran.append(number)
    return number


@job("events", concurrency_key="customer", ordered=True)
def charge(customer: str, number: int = 0) -> None:
    ran.append(number)


@job("events", unique=True)
def once(number: int) -> None:
    """Is unique by its number."""


@job("events", unique=True, concurrency_key="customer")
def once_of(customer: str, number: int = 0) -> None:
    """Has two keys, of which one names the other."""


@job("plain", unique="all", concurrency_key="customer")
def plain_of(customer: str) -> None:
    """Has two keys in a queue that is not split."""


@job("events", unique=True)
def recount() -> None:
    """Needs no arguments."""


@job("events", entity=True)
def note(batch: dict[str, list[Any]]) -> None:
    for payloads in batch.values():
        ran.extend(payloads)


@job("events")
def spawns(number: int) -> None:
    running = current_job()
    assert running is not None
    running.spawn([count.args(number)])


@job(after="count")
def follows() -> None:
    """Comes after a job of a queue that is split."""


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


def waiting() -> list[int]:
    """Return how many jobs wait in each partition."""
    return [connections[name].queue_counts("events").waiting for name in PARTITIONS]


def home(key: str) -> str:
    """Return the partition of a key."""
    return routing.job_namespace("default", "events", key=key)


def places(handles: Sequence[Any]) -> list[str]:
    """Return the partitions of these jobs."""
    return [handle.alias for handle in handles]


@pytest.mark.usefixtures("split")
def test_jobs_without_a_key_are_spread_evenly_by_each_way_to_enqueue() -> None:
    async def enqueue() -> list[Any]:
        one_by_one = [await count.aenqueue(number) for number in range(8)]
        return one_by_one + await count.aenqueue_many(map(count.args, range(8)))

    handles = [count.delay(number) for number in range(8)]
    handles += count.enqueue_many(map(count.args, range(8)))
    handles += asyncio.run(enqueue())
    assert waiting() == [8, 8, 8, 8]
    assert Counter(places(handles)) == dict.fromkeys(PARTITIONS, 8)
    assert {handle.queue for handle in handles} == {"events"}


@pytest.mark.usefixtures("split")
def test_tasks_are_spread_and_their_results_are_found() -> None:
    task = work.add.using(queue_name="events", backend="open")
    results = [task.enqueue(number) for number in range(8)]
    assert waiting() == [2, 2, 2, 2]
    run_jobs()
    for number, result in enumerate(results):
        found = task_backends["open"].get_result(result.id)
        assert found.return_value == number + 1


@pytest.mark.usefixtures("split")
def test_a_job_is_found_by_its_id_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    handles = [count.delay(number) for number in range(4)]
    asked = Asked(monkeypatch)
    for handle in handles:
        assert jobs[handle.jid].alias == handle.alias
        assert asked.take() == [connections[handle.alias].prefix]


@pytest.mark.usefixtures("split")
def test_keys_keep_jobs_together_and_in_order() -> None:
    handles = [charge.delay(f"c{n % 7}", n) for n in range(28)]
    handles += charge.enqueue_many(charge.args(f"c{n % 7}", n) for n in range(28, 56))
    homes = {f"c{n}": home(f"c{n}") for n in range(7)}
    assert len(set(homes.values())) > 1
    assert places(handles) == [homes[f"c{n % 7}"] for n in range(56)]
    run_jobs()
    for customer in range(7):
        own = [number for number in ran if number % 7 == customer]
        assert own == sorted(own)
        assert len(own) == 8


@pytest.mark.usefixtures("split")
def test_a_batch_is_sent_in_one_call_to_each_partition_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Each waits for the others: one after the other, none would come on.
    meeting = threading.Barrier(4, timeout=20)
    sent: list[tuple[str, int]] = []
    send = EnqueueBatch.send

    def meet(batch: EnqueueBatch) -> None:
        meeting.wait()
        sent.append((batch.alias, len(batch.requests)))
        send(batch)

    monkeypatch.setattr(EnqueueBatch, "send", meet)
    monkeypatch.setattr(TestDispatcher, "send_each", Dispatcher.send_each)
    # Those of earlier tests, of which Django keeps what is left for a while.
    monkeypatch.setattr(job_enqueued, "receivers", [])
    handles = count.enqueue_many(map(count.args, range(40)))
    assert sorted(sent) == [(name, 10) for name in PARTITIONS]
    assert all(handle.created for handle in handles)
    assert waiting() == [10, 10, 10, 10]
    for name in PARTITIONS:
        own = [handle for handle in handles if handle.alias == name]
        taken = [connections[name].pop("events", "w", 1)[0].jid for _ in own]
        assert taken == [handle.jid for handle in own]


@pytest.mark.usefixtures("split")
@pytest.mark.django_db(transaction=True)
def test_also_on_commit_and_one_that_is_away_keeps_no_other_from_its_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    meeting = threading.Barrier(4, timeout=20)
    send = EnqueueBatch.send

    def meet(batch: EnqueueBatch) -> None:
        meeting.wait()
        if batch.alias == PARTITIONS[0]:
            raise ConnectionLost("away")
        send(batch)

    monkeypatch.setattr(EnqueueBatch, "send", meet)
    monkeypatch.setattr(
        TestDispatcher, "send_each_on_commit", Dispatcher.send_each_on_commit
    )
    monkeypatch.setattr(job_enqueued, "receivers", [])
    with pytest.raises(ConnectionLost, match="away"), transaction.atomic():
        handles = count.enqueue_many(map(count.args, range(40)))
    assert waiting() == [0, 10, 10, 10]
    assert [handle.pending for handle in handles] == [
        handle.alias == PARTITIONS[0] for handle in handles
    ]


@pytest.mark.usefixtures("split")
def test_receivers_of_signals_are_called_in_the_thread_that_enqueues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TestDispatcher, "send_each", Dispatcher.send_each)
    threads: list[str] = []

    def note_thread(**kwargs: Any) -> None:
        threads.append(threading.current_thread().name)

    job_enqueued.connect(note_thread)
    try:
        count.enqueue_many(map(count.args, range(8)))
    finally:
        job_enqueued.disconnect(note_thread)
    assert threads == [threading.current_thread().name] * 8


@pytest.fixture(params=["with a receiver", "without"])
def _heard_or_not(request: pytest.FixtureRequest) -> Iterator[None]:
    """With a receiver of the signal they are sent one after the other."""
    heard: list[Any] = []

    def receive(**details: Any) -> None:
        heard.append(details)

    if request.param == "without":
        yield
        return
    job_enqueued.connect(receive)
    yield
    job_enqueued.disconnect(receive)
    assert len(heard) == 30


@pytest.mark.usefixtures("split", "_heard_or_not")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("on_commit", [False, True])
def test_what_one_server_refuses_keeps_no_other_from_its_jobs(
    monkeypatch: pytest.MonkeyPatch, on_commit: bool
) -> None:
    send = EnqueueBatch.send

    def failing(batch: EnqueueBatch) -> None:
        if batch.alias == PARTITIONS[1]:
            raise ConnectionLost("away")
        send(batch)

    monkeypatch.setattr(EnqueueBatch, "send", failing)
    monkeypatch.setattr(dispatch, "dispatcher", Dispatcher())
    scope = transaction.atomic() if on_commit else nullcontext()
    with pytest.raises(ConnectionLost, match="away"), scope:
        count.enqueue_many(map(count.args, range(40)))
    assert waiting() == [10, 0, 10, 10]


@pytest.mark.usefixtures("split")
def test_from_asynchronous_code_one_that_is_away_keeps_no_other_from_its_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Each waits for the others: one after the other, none would come on.
    met: list[str] = []
    asend = EnqueueBatch.asend

    async def meet(batch: EnqueueBatch) -> None:
        met.append(batch.alias)
        while len(met) < len(PARTITIONS):
            await asyncio.sleep(0)
        if batch.alias == PARTITIONS[1]:
            raise ConnectionLost("away")
        await asend(batch)

    monkeypatch.setattr(EnqueueBatch, "asend", meet)
    monkeypatch.setattr(dispatch, "dispatcher", Dispatcher())

    async def enqueue() -> None:
        with pytest.raises(ConnectionLost, match="away"):
            await count.aenqueue_many(map(count.args, range(40)))
        await connections.aclose()

    asyncio.run(enqueue())
    assert waiting() == [10, 0, 10, 10]


@pytest.mark.usefixtures("split")
def test_what_is_enqueued_before_it_by_a_name_would_be_in_any_partition() -> None:
    with pytest.raises(
        InvalidJob, match=r"'events' is split, and .*recount would be in"
    ):
        count.using(after=recount.name).delay()
    assert sum(waiting()) == 0


@pytest.mark.usefixtures("split")
def test_unique_keys_and_ids_hold_over_all_partitions() -> None:
    # No multiple of four, for which taking turns would find the same partitions.
    first = [once.delay(number) for number in range(13)]
    again = [once.delay(number) for number in range(13)]
    again += once.enqueue_many(map(once.args, range(13)))
    assert [handle.jid for handle in again] == [handle.jid for handle in first] * 2
    assert len(set(places(first))) == 4
    both = [once_of.delay(f"c{n}") for n in range(8)]
    assert places(both) == [home(f"c{n}") for n in range(8)]
    assert once_of.delay("c1").jid == both[1].jid
    given = [count.using(jid=f"order-{n}").delay() for n in (1, 2, 1, 2)]
    assert places(given[:2]) == places(given[2:])
    assert sum(waiting()) == 13 + 8 + 2


@pytest.mark.usefixtures("split")
def test_two_keys_of_which_none_names_the_other_are_refused() -> None:
    with pytest.raises(InvalidOption, match=r"split into partitions.*unique=True"):
        once_of.using(unique="all").delay("c1")
    assert plain_of.delay("c1").created
    with declaring() as declare:
        name = once_of.name
        declare(name, unique="all")
        found = [each for each in check_options() if each.id == "django_qless.E064"]
        assert [name in each.msg for each in found] == [True]
    assert sum(waiting()) == 0


@pytest.mark.usefixtures("split")
def test_entities_are_in_one_partition_each_and_keep_their_order() -> None:
    handles = note.push_many([(f"e{n % 9}", n) for n in range(36)])
    handles.append(note.push("e1", 100))
    homes = {f"e{n}": home(f"e{n}") for n in range(9)}
    assert [handle.alias for handle in handles] == [
        homes[handle.entity] for handle in handles
    ]
    assert len(set(homes.values())) > 1
    assert entities["events"]["e1"].payload_count == 5
    run_jobs()
    for entity in range(9):
        own = [number for number in ran if number < 100 and number % 9 == entity]
        assert own == sorted(own)
        assert len(own) == 4


@pytest.mark.usefixtures("split")
@pytest.mark.django_db(transaction=True)
def test_on_commit_each_partition_gets_its_jobs_and_after_a_rollback_none() -> None:
    with transaction.atomic():
        handles = count.enqueue_many(map(count.args, range(8)))
        assert sum(waiting()) == 0
    assert waiting() == [2, 2, 2, 2]
    assert not any(handle.pending for handle in handles)
    with transaction.atomic():
        count.enqueue_many(map(count.args, range(8)))
        transaction.set_rollback(True)
    assert waiting() == [2, 2, 2, 2]


@pytest.mark.usefixtures("split")
def test_what_depends_on_a_job_is_where_that_is() -> None:
    first = [count.delay(number) for number in range(4)]
    then = [count.using(after=handle).delay() for handle in first]
    assert places(then) == places(first)
    by_id = count.using(after_jids=[first[2].jid]).delay()
    assert by_id.alias == first[2].alias
    with pytest.raises(InvalidOption, match="several partitions"):
        count.using(after=first[:2]).delay()
    other = next(
        key for key in map("c{}".format, range(20)) if home(key) != PARTITIONS[0]
    )
    bound = charge.using(after=first[places(first).index(PARTITIONS[0])])
    with pytest.raises(InvalidOption, match="belongs in namespace 'default/events:"):
        bound.delay(other)
    with pytest.raises(InvalidJob, match="is in namespace 'default/events:0'"):
        follows.delay()


@pytest.mark.usefixtures("split")
def test_a_workflow_is_in_one_partition() -> None:
    homes = set()
    for number in range(4):
        flow = workflow()
        pages = [flow.add(count.args(each)) for each in range(3)]
        flow.add(count.args(number), after=pages)
        handle = flow.enqueue()
        homes.add(handle.alias)
        assert {each.alias for each in handle.jobs()} == {handle.alias}
    assert homes == set(PARTITIONS)
    keyed = workflow()
    keyed.add(charge.args("c1"))
    other = next(key for key in map("c{}".format, range(20)) if home(key) != home("c1"))
    with pytest.raises(InvalidOption, match="belongs in namespace"):
        keyed.add(charge.args(other))
    run_jobs()
    assert sorted(ran) == sorted([*[0, 1, 2] * 4, *range(4)])


@pytest.mark.usefixtures("split")
def test_a_running_job_spawns_where_it_is() -> None:
    handles = [spawns.delay(number) for number in range(4)]
    run_jobs()
    assert Counter(places(handles)) == dict.fromkeys(PARTITIONS, 1)
    complete = jobs.list(state="complete").handles
    assert Counter(places(complete)) == dict.fromkeys(PARTITIONS, 2)
    assert sorted(ran) == [0, 1, 2, 3]


@pytest.mark.usefixtures("split")
def test_a_schedule_is_in_one_partition_and_its_jobs_find_theirs() -> None:
    made = [count.recur(number, every=3600, key=f"k{number}") for number in range(12)]
    homes = {handle.id: handle.alias for handle in made}
    assert set(homes.values()) == set(PARTITIONS)
    for id, home in homes.items():  # noqa: A001
        assert recurring[id].alias == home
    keyed = charge.recur("c1", 5, every=3600)
    run_jobs()
    assert sorted(ran) == sorted([5, *range(12)])
    assert jobs.list(state="complete").total == 14  # one of them a tick
    for number in range(12):
        count.unrecur(key=f"k{number}")
    assert recurring.get(made[0].id) is None
    assert keyed.alias in PARTITIONS
    with declaring() as declare:
        declare(count.name, every=60)
        declared = [name for name in PARTITIONS if count.name in declared_on(name)]
        assert len(declared) == 1
        for name in ("default", *PARTITIONS):
            sync_schedules(name)
        assert recurring[count.name].alias == declared[0]
    for name in PARTITIONS:
        sync_schedules(name)


def test_calls_that_run_at_the_same_time_know_the_running_job() -> None:
    import contextvars

    variable = contextvars.ContextVar("variable", default="")
    variable.set("mine")
    seen: list[str] = []

    class Batch:
        def send(self) -> None:
            seen.append(variable.get())

    at_once.send_each([Batch(), Batch()])  # type: ignore[list-item]
    assert seen == ["mine", "mine"]
    assert each_namespace.MOST > 1
