"""What becomes of jobs, by how they end: the same in every pool and for both flavours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_qless.core.attempts import read_attempts
from tests.worker.stage import FLAVOURS

if TYPE_CHECKING:
    from tests.worker.stage import Stage


def test_jobs_end_as_they_say(stage: Stage) -> None:
    values = [1, "é🐌", [], {"a": [None, True, 1.5]}, 2**63]
    answers, fallen, resigned, again, moved = [], [], [], [], []
    for a in FLAVOURS:
        answers += [(stage.put(f"{a}answer", value), value) for value in values]
        fallen.append(stage.put_run(f"{a}fall", f"{a}fall", retries=2))
        resigned.append(stage.put(f"{a}resign", retries=5))
        again.append(stage.put_run(f"{a}try_twice", f"{a}twice", retries=1))
        moved.append(stage.put(f"{a}move", "elsewhere"))
    unknown = stage.put("from_the_next_version", retries=5)
    stage.run(concurrency=3, queues=["q", "elsewhere"])

    for jid, value in answers:
        assert stage.job(jid).state == "complete"
        # Each job has seen itself, whoever ran beside it.
        assert stage.client.result(jid) == [value, jid]
    for a, jid in zip(FLAVOURS, fallen, strict=True):
        job = stage.job(jid)
        assert job.failure is not None
        assert (job.state, job.failure.group) == ("failed", "LookupError")
        assert "nothing there" in job.failure.message
        assert "contract_jobs.py" in job.failure.message
        assert [run.left for run in stage.runs.of(f"{a}fall")] == ["LookupError"] * 3
    for jid in resigned:
        job = stage.job(jid)
        assert job.failure is not None
        assert (job.state, job.failure.group) == ("failed", "resigned")
        assert job.remaining == 5
    for jid in again:
        assert stage.job(jid).state == "complete"
        assert stage.client.result(jid) == 2
    for jid in moved:
        assert stage.job(jid).state == "complete"
        assert stage.client.result(jid) == "elsewhere"
    job = stage.job(unknown)
    # After a second, which may be over, it is waiting again.
    assert job.state in ("scheduled", "waiting")
    assert job.remaining == 5
    assert stage.what_happened(unknown)[-1] == "returned"


def test_the_history_tells_of_each_attempt(stage: Stage) -> None:
    jids = {a: stage.put_run(f"{a}stumble", f"{a}name", retries=5) for a in FLAVOURS}
    worker = stage.start(concurrency=2)
    for a, jid in jids.items():
        stage.job_when(jid, "complete")
        assert len(stage.runs.of(f"{a}name")) == 3
        history = stage.job(jid).history
        assert [entry["what"] for entry in history] == [
            *("put", "popped", "retried", "popped", "retried", "popped", "done"),
        ]
        found = read_attempts(history, is_running=False, now=history[-1]["when"])
        first, second, third = found.attempts
        for number, attempt in enumerate((first, second), 1):
            assert (attempt.end, attempt.group) == ("retried", "LookupError")
            assert attempt.message == f"LookupError: nothing there, {number}"
            assert attempt.worker == history[1]["worker"]
            assert attempt.ended is not None
            assert attempt.until == pytest.approx(attempt.ended + 0.2, abs=0.002)
        assert (third.end, third.message) == ("done", "")
        # What lies between two attempts is waiting, and all of the time is accounted for.
        for attempt in (second, third):
            assert attempt.waiting is not None
            assert attempt.waiting.seconds >= 0.199
        kinds = [phase.kind for phase in found.phases if phase.seconds]
        assert set(kinds) <= {"waiting", "running"}
        spent = sum(phase.seconds for phase in found.phases)
        assert spent == pytest.approx(history[-1]["when"] - history[0]["when"])
    worker.signal("TERM")
    assert worker.wait() == 0


def test_some_exceptions_are_not_worth_a_retry(stage: Stage) -> None:
    once, otherwise = [], []
    for a in FLAVOURS:
        once.append(stage.put_run(f"{a}fall_once", f"{a}once", retries=5))
        otherwise.append(stage.put_run(f"{a}fall_otherwise", f"{a}other", retries=5))
    stage.run(concurrency=2)
    for a, jid in zip(FLAVOURS, once, strict=True):
        job = stage.job(jid)
        assert job.failure is not None
        assert (job.state, job.failure.group) == ("failed", "KeyError")
        assert "contract_jobs.py" in job.failure.message
        assert len(stage.runs.of(f"{a}once")) == 1
    for a, jid in zip(FLAVOURS, otherwise, strict=True):
        job = stage.job(jid)
        assert job.failure is not None
        assert (job.state, job.failure.group) == ("failed", "ValueError")
        left = [run.left for run in stage.runs.of(f"{a}other")]
        assert left == ["KeyError", "ValueError"]


def test_concurrency_is_the_number_of_jobs_at_once(stage: Stage) -> None:
    names = [f"job-{n}" for n in range(7)]
    for n, name in enumerate(names):
        stage.put_hold(f"{FLAVOURS[n % 2]}hold", name, name)
    stage.start(concurrency=3)
    for n, name in enumerate(names):
        # All that may run do run, before any of them ends.
        for running in names[n : n + 3]:
            assert stage.run_of(running).is_open
        stage.latch(name).open()
        assert stage.end_of(name).end
    assert stage.runs.at_once() == 3


def test_many_jobs_run_once_each(stage: Stage) -> None:
    jids = stage.put_records(range(90), queue="a")
    jids += stage.put_records(range(90, 130), queue="b", delay=0.01)
    worker = stage.start(concurrency=4, queues=["a", "b"], verbosity=1)
    stage.wait(lambda: len(stage.runs.ended()) >= 130, "all have run")
    worker.signal("TERM")
    assert worker.wait() == 0
    assert sorted(int(run.name) for run in stage.runs.all()) == list(range(130))
    assert {job.state for job in stage.client.multiget(jids)} == {"complete"}
