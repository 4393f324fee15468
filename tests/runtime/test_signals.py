"""Signals for other apps about jobs and workers."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection, transaction
from django.utils import translation

from django_qless import job as declared
from django_qless import signals
from django_qless.runtime.environment import DjangoEnvironment
from django_qless.worker.crash_reports import CrashReport, announce_crashes
from django_qless.worker.execution import Execution
from tests.jobs_app import jobs
from tests.jobs_app.models import Feed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@declared("signals-entities", entity=True, batch_size=2)
def entities(batch: dict[Any, list[Any]]) -> None: ...


OF_JOBS = ("started", "completed", "failed", "retried", "lost")


@contextmanager
def received(what: str, receiver: Callable[..., Any]) -> Iterator[None]:
    """Have the signal received."""
    signal = getattr(signals, what)
    signal.connect(receiver)
    try:
        yield
    finally:
        signal.disconnect(receiver)


@pytest.fixture
def heard() -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """All that is sent about jobs: the signal's last word, and its arguments."""
    heard: list[tuple[str, dict[str, Any]]] = []

    def receiver(what: str) -> Callable[..., None]:
        def receive(**details: Any) -> None:
            details.pop("signal")
            heard.append((what, details))

        return receive

    with ExitStack() as stack:
        for what in OF_JOBS:
            listener = receiver(what)
            stack.enter_context(received(f"job_{what}", listener))
            stack.callback(listener, signal=None)  # keeps it alive
        yield heard


def words(heard: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [what for what, _ in heard]


@pytest.mark.parametrize("job", [jobs.add, jobs.aadd])
def test_a_job_that_completes(qless, each_work, heard, job: Any) -> None:
    handle = job.delay(1, 2)
    each_work()
    assert words(heard) == ["started", "completed"]
    for _, details in heard:
        assert details["sender"] is job.job_type
        assert details["job"].jid == handle.jid
    assert heard[1][1]["result"] == 3


def test_a_job_that_moves_on_has_completed_here(qless, each_work, heard) -> None:
    jobs.step.delay("nowhere")
    each_work("default")
    assert words(heard) == ["started", "completed"]


def test_a_job_that_is_tried_again_and_then_fails(qless, each_work, heard) -> None:
    jobs.broken.delay("oh")
    each_work()
    assert words(heard) == ["started", "retried"] * 2 + ["started", "failed"]
    retried, failed = heard[1][1], heard[-1][1]
    for details in (retried, failed):
        assert details["group"] == "ValueError"
        assert isinstance(details["exception"], ValueError)
        assert details["message"].endswith("ValueError: oh\n")
    assert retried["delay"] == 0
    assert "delay" not in failed
    assert (retried["job"].attempt, failed["job"].attempt) == (1, 3)


def test_a_job_that_gives_up(qless, each_work, heard) -> None:
    jobs.failing.delay("bad-input", "no such file")
    each_work()
    assert words(heard) == ["started", "failed"]
    assert heard[1][1]["group"] == "bad-input"
    assert heard[1][1]["message"] == "no such file"


def test_a_result_that_cannot_be_kept(qless, each_work, heard) -> None:
    jobs.returns_a_set.delay()
    each_work()
    assert words(heard) == ["started", "failed"]
    assert heard[1][1]["group"] == "bad-result"
    # What is said of arguments that cannot be kept is not true here.
    assert "a value of type set cannot travel as JSON" in heard[1][1]["message"]
    assert "enqueued" not in heard[1][1]["message"]


def test_a_job_that_is_handed_back_has_not_ended(qless, each_way, heard) -> None:
    jobs.raises.delay("ShuttingDown")
    [reserved] = qless.settle("w", [], 1, ["default"]).jobs
    each_way(Execution(DjangoEnvironment(), qless, "w"), reserved)
    assert words(heard) == ["started"]


def test_a_job_that_nobody_knows(qless, each_work, heard) -> None:
    qless.put("", "default", "x", "nobody.knows", "{}")
    each_work()
    assert heard == []


@pytest.mark.parametrize("trouble", [ValueError("no"), SystemExit(3)])
def test_what_a_receiver_raises_changes_nothing(
    qless, each_work, caplog, trouble: BaseException
) -> None:
    def receive(**details: Any) -> None:
        raise trouble

    with received("job_started", receive), received("job_completed", receive):
        handle = jobs.add.delay(1)
        each_work()
        assert handle.result() == 1
    assert any("receive" in record.getMessage() for record in caplog.records)


def test_a_receiver_that_raises_keeps_no_other_from_hearing(qless, each_work) -> None:
    seen: list[str] = []

    def fails(**details: Any) -> None:
        raise ValueError("no")

    def receive(signal: Any, **details: Any) -> None:
        seen.append(names[signal])

    names = {getattr(signals, f"job_{what}"): what for what in OF_JOBS}
    with ExitStack() as stack:
        for what in OF_JOBS:
            stack.enter_context(received(f"job_{what}", fails))
            stack.enter_context(received(f"job_{what}", receive))
        jobs.broken.delay("oh")
        each_work()
    assert seen == ["started", "retried"] * 2 + ["started", "failed"]


def test_a_receiver_may_be_of_one_job(qless, each_work) -> None:
    seen: list[str] = []

    def receive(job: Any, **details: Any) -> None:
        seen.append(job.jid)

    signals.job_completed.connect(receive, sender=jobs.add.job_type)
    try:
        handle = jobs.add.delay(1)
        jobs.surroundings.delay()
        each_work()
    finally:
        signals.job_completed.disconnect(receive, sender=jobs.add.job_type)
    assert seen == [handle.jid]


@pytest.mark.parametrize("what", ["worker_started", "worker_stopped"])
def test_those_of_workers_are_told_although_one_raises(what: str) -> None:
    seen: list[tuple[Any, ...]] = []

    def fails(**details: Any) -> None:
        raise ValueError("no")

    def receive(sender: Any, worker: str, alias: str, **details: Any) -> None:
        seen.append((sender, worker, alias))

    with received(what, fails), received(what, receive):
        DjangoEnvironment().announce_worker(what.removeprefix("worker_"), "name")
    assert seen == [(DjangoEnvironment, "name", "default")]


def test_receivers_may_be_coroutine_functions(qless, each_work) -> None:
    seen: list[str] = []

    async def receive(job: Any, **details: Any) -> None:
        await asyncio.sleep(0)
        seen.append(job.name)

    with received("job_completed", receive):
        jobs.add.delay(1)
        jobs.aadd.delay(1, 2)
        each_work()
    assert seen == ["tests.jobs_app.jobs.add", "tests.jobs_app.jobs.aadd"]


@pytest.mark.django_db(transaction=True)
def test_receivers_may_use_the_database_and_leave_a_mess(qless, each_work) -> None:
    def receive(job: Any, **details: Any) -> None:
        translation.activate("de")
        Feed.objects.create(title=job.name)
        transaction.atomic().__enter__()
        Feed.objects.create(title="never")

    with received("job_started", receive):
        handle = jobs.surroundings.delay()
        each_work()
    assert handle.result() == ["en-us", "America/Chicago", False, "en-us"]
    assert [feed.title for feed in Feed.objects.all()] == [jobs.surroundings.name]
    assert not connection.in_atomic_block


def test_nothing_is_made_for_nobody(qless, work) -> None:
    environment = DjangoEnvironment()
    assert not any(environment.has_listeners(what) for what in OF_JOBS)
    assert not environment.has_listeners("")
    with received("job_lost", print):
        assert environment.has_listeners("lost")


def test_batches_are_told_although_a_receiver_raises(qless) -> None:
    heard: list[dict[str, Any]] = []

    def hear(sender: Any, signal: Any, **details: Any) -> None:
        heard.append({"sender": sender, **details})

    def fail(**details: Any) -> None:
        raise RuntimeError("receiver")

    environment = DjangoEnvironment()
    assert not environment.has_batch_listeners()
    environment.announce_batch("started", [], "w")
    with received("batch_started", fail), received("batch_started", hear):
        assert environment.has_batch_listeners()
        environment.announce_batch("started", [], "w")
        environment.announce_batch("finished", [], "w", complete=1)
    with received("batch_finished", hear):
        environment.announce_batch("finished", [], "w", complete=1)
    common = {"sender": DjangoEnvironment, "jobs": [], "worker": "w"}
    assert heard == [
        {**common, "alias": "default"},
        {**common, "alias": "default", "complete": 1},
    ]


class TestRunsOfDeadProcesses:
    """Another process announces them."""

    @pytest.fixture
    def execution(self, qless) -> Execution:
        return Execution(DjangoEnvironment(), qless, "w")

    @pytest.mark.parametrize(
        ("event", "expected"),
        [
            ("lost", {}),
            ("failed", {"exception": None, "group": "g", "message": "m"}),
            (
                "retried",
                {"exception": None, "group": "g", "message": "m", "delay": 1.5},
            ),
        ],
    )
    def test_the_details_are_those_of_a_process_that_lives(
        self, qless, execution, heard, event: str, expected: dict[str, Any]
    ) -> None:
        jobs.add.using(tags=["t"]).delay(1)
        [run] = qless.settle("w", [], 1, ["*"]).jobs
        announce_crashes(execution, [CrashReport(event, run, "g", "m", 1.5)])
        [(what, details)] = heard
        job = details.pop("job")
        assert details.pop("sender") is jobs.add.job_type
        assert (what, details) == (event, expected)
        assert (job.name, job.tags, job.queue) == (jobs.add.name, ["t"], "default")
        assert job.data == {"v": 1, "args": [1]}

    def test_entities_whose_retries_are_used_up_are_announced_together(
        self, qless, execution, heard
    ) -> None:
        entities.push_many([("a", "first", 1), ("a", "next", 2), (7, "only")])
        deaths: list[dict[str, Any]] = []

        def hear(sender: Any, batch: Any, errors: Any, **_: Any) -> None:
            deaths.append({"sender": sender, "batch": batch, "errors": errors})

        runs = qless.settle("w", [], 2, ["*"]).jobs
        with received("retries_exhausted", hear):
            for event in ("retried", "failed"):
                reports = [CrashReport(event, run, "g", "m") for run in runs]
                announce_crashes(execution, reports)
        batch = {"a": ["first", "next"], 7: ["only"]}
        assert deaths == [
            {
                "sender": entities.job_type,
                "batch": batch,
                "errors": {"a": "m", 7: "m"},
            }
        ]
        assert Counter(what for what, _ in heard) == {"retried": 2, "failed": 2}

    def test_entities_whose_job_is_unknown(self, qless, caplog) -> None:
        heard: list[Any] = []

        def hear(sender: Any, **details: Any) -> None:
            heard.append(sender)

        with received("retries_exhausted", hear):
            environment = DjangoEnvironment()
            environment.announce_exhausted("no.such.job", {"a": [1]}, {"a": "m"})
        assert (heard, caplog.messages) == ([], [])


@pytest.mark.parametrize("what", ["started", "stopped"])
def test_a_worker_begins_and_ends(what: str) -> None:
    seen: list[dict[str, Any]] = []

    def receive(**details: Any) -> None:
        seen.append(details)
        raise ValueError("which changes nothing")

    with received(f"worker_{what}", receive):
        DjangoEnvironment("other").announce_worker(what, "w1")
    [details] = seen
    assert details["sender"] is DjangoEnvironment
    assert (details["worker"], details["alias"]) == ("w1", "other")
