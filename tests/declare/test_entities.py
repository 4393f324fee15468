"""Jobs of entities: declared, pushed to, run in tests."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import models, transaction

from django_qless import (
    BatchFailure,
    Fail,
    QlessError,
    current_job,
    entities,
    job,
    signals,
)
from django_qless.checks.jobs import check_queues_of_entities
from django_qless.conf.connections import connections
from django_qless.exceptions import InvalidJob, InvalidOption
from django_qless.job_types.registry import registry
from django_qless.testing import captured_jobs, clock, inline_jobs, run_jobs

seen: list[Any] = []


@job(
    "entities-orders",
    entity=True,
    batch_size=3,
    retries=1,
    backoff=0,
)
def sync(batch: dict[Any, list[Any]]) -> None:
    seen.append({entity: list(payloads) for entity, payloads in batch.items()})
    failed = {
        entity: "it is bad" for entity, payloads in batch.items() if "bad" in payloads
    }
    if failed:
        raise BatchFailure(failed)


@job("entities-async", entity=True, batch_size=2)
async def async_sync(batch: dict[Any, list[Any]]) -> None:
    seen.append(batch)
    if any("fail" in payloads for payloads in batch.values()):
        raise Fail("bad", "for good")


@job(
    "entities-blamed",
    entity=True,
    batch_size=2,
    retries=0,
)
def blames(batch: dict[Any, list[Any]]) -> None:
    raise BatchFailure({"d": "not here", "c": "nor this", "a": "this one"})


@job("entities-leaving", entity=True, retries=0)
def leaves(batch: dict[Any, list[Any]]) -> None:
    current_job().move_to("elsewhere")  # type: ignore[union-attr]


@pytest.fixture(autouse=True)
def _clean() -> None:
    seen.clear()


pytestmark = pytest.mark.django_db


def test_a_run_gets_entities_with_their_payloads_in_order() -> None:
    handle = sync.push("o-1", {"b": 1, "a": 2}, score=2)
    sync.push("o-1", {"a": 2, "b": 1}, score=1)
    sync.push("o-1", 0, score=3)
    sync.push(7, "x")
    assert handle.state == "pushed"
    fresh = handle.refresh()
    assert (fresh.state, fresh.payload_count, fresh.retry_count) == ("waiting", 2, -1)
    assert fresh.payloads() == [{"a": 2, "b": 1}, 0]
    run_jobs()
    assert seen == [{"o-1": [{"a": 2, "b": 1}, 0], 7: ["x"]}]
    assert handle.refresh().state == "complete"


def test_push_many_takes_tuples_and_dicts_in_one_call() -> None:
    handles = sync.push_many([
        ("a", 1, 5), ("b", 2), {"entity": "a", "payload": 0, "score": 1},
    ])  # fmt: skip
    assert [handle.entity for handle in handles] == ["a", "b"]
    run_jobs()
    assert seen == [{"a": [0, 1], "b": [2]}]


def test_a_time_may_order_the_payloads() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    sync.push("o", "noon", score=noon)
    sync.push_many([("o", "before", noon - timedelta(milliseconds=1))])
    asyncio.run(sync.apush("o", "after", score=noon + timedelta(milliseconds=1)))
    for seconds in (1, -1):
        sync.push("o", seconds, score=noon.timestamp() + seconds)
    run_jobs()
    assert seen == [{"o": [-1, "before", "noon", "after", 1]}]


def test_each_form_of_an_item_may_have_a_time_to_run_at() -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    handles = sync.push_many([
        ("a", 1, None, later),
        {"entity": "b", "payload": 2, "run_at": later},
        ["c", 3],
    ])  # fmt: skip
    assert [handle.refresh().state for handle in handles] == [
        "scheduled",
        "scheduled",
        "waiting",
    ]
    asyncio.run(sync.apush("d", 4, run_at=later))
    assert entities["entities-orders"]["d"].state == "scheduled"


def test_the_largest_that_may_be_pushed() -> None:
    names = ["x" * 255, "é" * 127, "1", "2", "3"]
    sync.push(names[0], "x" * (64 * 1024 - 2))  # and its two quotes
    sync.push(names[1], "é" * (32 * 1024 - 1))
    sync.push(1, "whole", score=2**53)
    sync.push(2, "whole", score=-(2**53))
    sync.push(3, "not whole", score=1e300)
    assert [entities["entities-orders"][name].state for name in names] == [
        "waiting"
    ] * 5


def test_single_entities_fail_and_all_others_are_done() -> None:
    heard: list[Any] = []

    def hear(sender: Any, **details: Any) -> None:
        heard.append((sender, details["batch"], details["errors"]))

    sync.push_many([("a", "bad", 1), ("a", "good", 2), ("b", 1)])
    signals.retries_exhausted.connect(hear)
    try:
        run_jobs(raise_failures=False, until_empty=False)
        handle = entities["entities-orders"]["a"]
        assert (handle.state, handle.retry_count) == ("waiting", 0)
        assert "it is bad" in handle.last_error
        assert entities["entities-orders"]["b"].state == "complete"
        assert heard == []
        run_jobs(raise_failures=False)
    finally:
        signals.retries_exhausted.disconnect(hear)
    assert len(heard) == 1
    assert heard[0][:2] == (sync.job_type, {"a": ["bad", "good"]})
    assert "it is bad" in heard[0][2]["a"]
    assert seen[-1] == {"a": ["good"]}
    queue = entities["entities-orders"]
    assert queue.counts().dead == 1
    assert [row["entity"] for row in queue.rows("dead").rows] == ["a"]
    assert queue["a"].dead_count == 1
    assert queue.bring_back() == 1
    assert (queue["a"].state, queue["a"].retry_count) == ("waiting", 0)
    assert queue.kill("a") == 1
    assert queue.delete_dead("a") == 1
    assert queue["a"].state == "gone"


def test_a_coroutine_function_and_a_final_failure() -> None:
    asyncio.run(async_sync.apush("a", 1))
    asyncio.run(async_sync.apush_many([("b", "fail")]))
    run_jobs(raise_failures=False)
    assert seen == [{"a": [1], "b": ["fail"]}]
    assert {row["entity"] for row in entities["entities-async"].rows("dead").rows} == {
        "a",
        "b",
    }


def test_a_failure_of_others_is_one_of_all() -> None:
    heard: list[Any] = []

    async def hear(batch: dict[Any, list[Any]], **details: Any) -> None:
        heard.append(batch)

    blames.push_many([("a", 1), ("b", 2)])
    signals.retries_exhausted.connect(hear)
    try:
        run_jobs(raise_failures=False)
    finally:
        signals.retries_exhausted.disconnect(hear)
    for entity in "ab":
        dead = entities["entities-blamed"][entity]
        assert dead.state == "dead"
        assert "BatchFailure names c, d, not in the batch" in dead.last_error
    assert heard == [{"a": [1], "b": [2]}]


def test_an_entity_stays_in_its_queue() -> None:
    leaves.push("a", 1)
    run_jobs(raise_failures=False)
    dead = entities["entities-leaving"]["a"]
    assert dead.state == "dead"
    assert "move_to: an entity stays in its queue" in dead.last_error


def test_payloads_of_the_present_run_are_counted_apart() -> None:
    sync.push_many([("a", 1, 1), ("a", 2, 2)])
    client = connections["default"]
    [job] = client.settle("w", [], 1, ["entities-orders"]).jobs
    sync.push("a", 3)
    handle = entities["entities-orders"]["a"]
    assert (handle.state, handle.running_count, handle.payload_count) == (
        *("running", 2, 1),
    )  # fmt: skip
    client.settle("w", [(job.jid, job.token, "complete", ())], 0, ())
    assert entities["entities-orders"]["a"].running_count == 0


def test_a_class_method_gets_its_model_first() -> None:
    class Depot(models.Model):  # noqa: DJ008
        class Meta:
            app_label = "rows_app"

        @classmethod
        @job("entities-depots", entity=True)
        def collect(cls, batch: dict[Any, list[Any]]) -> None:
            seen.append((cls.__name__, batch))

    Depot.collect.push("north", 5)
    run_jobs()
    assert seen == [("Depot", {"north": [5]})]


def test_it_waits_for_the_commit_and_is_forgotten_with_a_rollback() -> None:
    with transaction.atomic():
        handle = sync.push("o", 1)
        assert (handle.pending, handle.state) == (True, "pending")
        assert handle.refresh().state == "gone"
    assert handle.state == "pushed"
    with transaction.atomic():
        sync.push("o", 2)
        transaction.set_rollback(True)
    run_jobs()
    assert seen == [{"o": [1]}]


def test_it_runs_at_its_time_or_inline() -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    handle = sync.push("o", 1, run_at=later)
    run_jobs()
    assert seen == []
    next_run = handle.refresh().next_run
    assert next_run is not None
    assert abs((next_run - later).total_seconds()) < 0.01
    assert entities["entities-orders"].run_all_now() == 1
    with inline_jobs():
        sync.push("p", 2)
    assert seen == [{"o": [1], "p": [2]}]


def test_one_that_was_taken_from_its_worker_says_when_it_may_run_again(
    qless: Any,
) -> None:
    handle = sync.push("o", 1)
    [job] = qless.settle("w", [], 1, ["entities-orders"]).jobs
    running = handle.refresh()
    assert (running.state, running.next_run) == ("running", None)
    with clock.travel_to("default", clock.now("default") + 300):
        late = handle.refresh()  # its lock has expired, and it was not handed out since
        assert (late.state, late.next_run) == ("running", None)
    qless.timeout(job.jid)
    freed = handle.refresh()
    assert (freed.state, freed.next_run is None) == ("waiting", False)
    run_jobs()
    assert handle.refresh().next_run is None


def test_captured_payloads_are_in_a_list() -> None:
    with captured_jobs() as jobs:
        sync.push("o", {"total": 5}, score=3)
    assert jobs == []
    [pushed] = jobs.pushed
    assert (pushed.entity, json.loads(pushed.payload), pushed.score) == (
        "o",
        {"total": 5},
        3.0,
    )
    assert entities["entities-orders"]["o"].state == "gone"


@pytest.mark.parametrize(
    ("push", "message"),
    [
        (lambda: sync.push(None, 1), "an entity is named by"),
        (lambda: sync.push(True, 1), "an entity is named by"),
        (lambda: sync.push(b"o", 1), "an entity is named by"),
        (lambda: sync.push("", 1), "an entity is named by"),
        (lambda: sync.push("x" * 256, 1), "an entity is named by"),
        (lambda: sync.push("é" * 128, 1), "an entity is named by"),
        (lambda: sync.push(float("nan"), 1), "an entity is named by"),
        (lambda: sync.push(10**400, 1), "an entity is named by"),
        (lambda: sync.push("\udce9", 1), "an entity is named by"),
        (lambda: sync.push(["o"], 1), r"not \['o'\]: give its id, or str"),
        (lambda: asyncio.run(sync.apush(None, 1)), "an entity is named by"),
        (lambda: sync.push_many([("o", 1, "5")]), "such as a version, not '5'"),
        (lambda: sync.push("o", 1, score=True), "score must be a finite"),  # type: ignore[arg-type]
        (lambda: sync.push("o", 1, score=10**400), "beyond 2"),
        (lambda: sync.push("o", 1, score="5"), "score must be a finite number"),  # type: ignore[arg-type]
        (lambda: sync.push("o", 1, score=float("inf")), "score must be a finite"),
        (lambda: sync.push("o", 1, score=2**60), "beyond 2"),
        (lambda: sync.push("o", 1, score=2**53 + 1), "beyond 2"),
        (lambda: sync.push("o", 1, score=-(2**53) - 1), "beyond 2"),
        (lambda: sync.push("o", 1, run_at=5), "run_at must be a datetime"),  # type: ignore[arg-type]
        (lambda: sync.push("o", 1, run_at=datetime(2030, 1, 1)), "aware datetime"),
        (lambda: sync.push("o", {1, 2}), "the payload"),
        (lambda: sync.push("o", "x" * 70_000), "65,536"),
        (lambda: sync.push("o", "x" * (64 * 1024 - 1)), "65,537 bytes"),
        (lambda: sync.push("o", "é" * (32 * 1024)), "65,538 bytes"),
        (lambda: sync.push("o"), "push takes an entity and a payload, not 1 arg"),
        (lambda: sync.push("o", 1, 2), "push takes an entity and a payload, not 3"),
        (lambda: asyncio.run(sync.apush("o")), "push takes an entity and a payload"),
        (lambda: sync.push_many(["o"]), "an item of push_many"),
        (lambda: sync.push_many(["op"]), "an item of push_many"),
        (lambda: sync.push_many([("o",)]), "an item of push_many"),
        (lambda: sync.push_many([("o", 1, 2, None, None)]), "an item of push_many"),
        (lambda: sync.push_many([{"entity": "o"}]), "an item of push_many"),
        (lambda: sync.push_many([{"payload": 1}]), "an item of push_many"),
        (lambda: sync.push_many([{"entity": "o", "payload": 1, "at": 2}]), "an item of"),
        (lambda: sync.delay({}), r"push payloads with \.push"),
        (lambda: sync.args({}), r"push payloads with \.push"),
        (lambda: sync.using(delay=5), "push with run_at="),
        (lambda: sync.using(unique=True), "queued once anyway"),
        (lambda: sync.using(after=["x"]), "when the other job is done"),
        (lambda: sync.using(jid="x"), "the entity is its id"),
    ],
)  # fmt: skip
def test_what_is_refused_is_refused_where_it_is_written(
    push: Any, message: str
) -> None:
    with pytest.raises((InvalidOption, TypeError, QlessError), match=message):
        push()
    assert entities.counts() == [] or entities["entities-orders"].counts().queued == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 3}, "needs entity=True"),
        ({"entity": 1}, "entity must be True or False"),
        ({"entity": True, "batch_size": 0}, "batch_size"),
        ({"entity": True, "every": 60}, "cannot go with a schedule"),
        ({"entity": True, "unique": True}, "queued once anyway"),
        ({"entity": True, "debounce": 5}, "debounce cannot go with entity=True"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, Any], message: str) -> None:
    before = len(list(registry))
    with pytest.raises((InvalidOption, InvalidJob), match=message):
        job("x", name="entities-bad", **options)(lambda batch: None)
    assert len(list(registry)) == before


def test_push_needs_a_job_of_entities() -> None:
    @job(name="entities-plain")
    def plain() -> None: ...

    with pytest.raises(InvalidOption, match="entity=True"):
        plain.push("o", 1)


def test_the_delay_after_a_failure_grows_with_the_count() -> None:
    backoff = async_sync.options.backoff
    for count in range(5):
        seconds = backoff(count + 1, ValueError())
        least = count**4 + 15
        assert least <= seconds <= least + 29 * (count + 1)


def test_on_a_method_the_row_is_the_entity() -> None:
    from tests.jobs_app.models import Parcel, tracked

    tracked.clear()
    one, two = Parcel.objects.create(), Parcel.objects.create()
    handle = one.track.push({"at": "sea"}, score=2)
    one.track.push_many([{"at": "land"}])
    Parcel.track.push_many([(two, 1), (one, {"at": "home"}, 1)])
    assert handle.entity == str(one.pk)
    with pytest.raises(TypeError, match="push takes a payload, not 2 arguments"):
        one.track.push(one, 1)
    run_jobs()
    assert sorted(tracked, key=lambda each: len(each[1]), reverse=True) == [
        (one.pk, [{"at": "home"}, {"at": "sea"}, {"at": "land"}]),
        (two.pk, [1]),
    ]
    two.track.push(2)
    gone = str(two.pk)
    two.delete()
    run_jobs(raise_failures=False)
    dead = entities["parcels"][gone]
    assert (dead.state, dead.dead_count) == ("dead", 1)
    assert "row" in dead.last_error.lower() or "gone" in dead.last_error.lower()


def test_two_types_in_one_queue_are_refused_by_a_check() -> None:
    assert check_queues_of_entities() == []

    @job("entities-orders", name="entities.second", entity=True)
    def second(batch: dict[str, list[int]]) -> None: ...

    try:
        [message] = check_queues_of_entities()
    finally:
        del registry._types["entities.second"]
    assert message.id == "django_qless.E056"
    assert "entities.second has entities in the queue 'entities-orders'" in message.msg


def test_none_can_be_waited_for() -> None:
    @job(name="waits.for.entities", after=sync.name)
    def waits() -> None: ...

    try:
        with pytest.raises(InvalidJob, match="enqueue what comes next at the end"):
            waits.delay()
        with pytest.raises(InvalidOption, match="enqueue what comes next at the end"):
            waits.using(after=sync.push("o", 1))
    finally:
        del registry._types["waits.for.entities"]
