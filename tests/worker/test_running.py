"""What becomes of jobs that a worker runs, by how they end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Client, Job
    from tests.worker.conftest import WorkerProcess
    from tests.worker.ledger import Ledger

    Put = Callable[..., str]
    StartWorker = Callable[..., WorkerProcess]
    JobWhen = Callable[[str, str], Job]


def test_queues_are_drained_in_the_order_given(
    start_worker: StartWorker, put: Put, ledger: Ledger
) -> None:
    for queue, count in (("A", 5), ("B", 2), ("C", 3)):
        for n in range(count):
            put("say", ledger.path, queue, n, queue=queue)
    assert start_worker(queues=["C", "B", "A"], burst=True).wait() == 0
    assert ledger.all() == [
        *("C 0", "C 1", "C 2", "B 0", "B 1"),
        *("A 0", "A 1", "A 2", "A 3", "A 4"),
    ]


def test_globs_name_queues_and_exclude_leaves_some_out(
    start_worker: StartWorker, put: Put, ledger: Ledger, client: Client
) -> None:
    for queue in ("mail-a", "mail-b", "mail-slow", "other"):
        put("say", ledger.path, queue, queue=queue)
    start_worker(queues=["mail-*"], exclude=["*-slow"], burst=True).wait()
    assert ledger.all() == ["mail-a", "mail-b"]
    assert client.length("mail-slow") == client.length("other") == 1


def test_higher_priority_first_then_first_in_first_out(
    start_worker: StartWorker, put: Put, ledger: Ledger
) -> None:
    for n, priority in enumerate((0, 10, -10, 10, 0)):
        put("say", ledger.path, priority, n, priority=priority)
    start_worker(burst=True).wait()
    assert ledger.all() == ["10 1", "10 3", "0 0", "0 4", "-10 2"]


def test_a_thousand_jobs_each_run_once(
    start_worker: StartWorker, put: Put, ledger: Ledger, client: Client
) -> None:
    jids = [put("say", ledger.path, n) for n in range(1000)]
    start_worker(burst=True, concurrency=2)
    lines = ledger.wait_until(1000)
    assert sorted(lines, key=int) == [str(n) for n in range(1000)]
    assert ledger.all() == lines
    assert {job.state for job in client.multiget(jids)} <= {"complete", "running"}


def test_results_are_kept(start_worker: StartWorker, put: Put, client: Client) -> None:
    values = [1, "é🐌", [], {}, {"a": [None, True, 1.5]}, 2**63]
    jids = [put("give", value) for value in values]
    nothing = put("give", None)
    start_worker(burst=True).wait()
    assert [client.result(jid) for jid in jids] == values
    assert client.result(nothing) is None
    job = client.get(nothing)
    assert job is not None
    assert job.state == "complete"


@pytest.mark.parametrize(
    ("klass", "words"),
    [
        ("give_a_set", "set"),
        ("give_much", "70002 bytes"),
        ("give_half_a_pair", "surrogates"),
    ],
)
def test_a_result_that_cannot_be_kept_fails_the_job_at_once(
    start_worker: StartWorker, put: Put, client: Client, klass: str, words: str
) -> None:
    jid = put(klass, retries=5)
    start_worker(burst=True).wait()
    job = client.get(jid)
    assert job is not None
    assert job.failure is not None
    assert (job.state, job.failure.group) == ("failed", "bad-result")
    assert words in job.failure.message


def test_a_result_that_nobody_wants_is_not_looked_at(
    start_worker: StartWorker, put: Put, job_when: JobWhen, client: Client
) -> None:
    jid = put("give_for_nobody")
    start_worker(burst=True).wait()
    assert job_when(jid, "complete")
    assert client.result(jid) is None


def test_an_exception_is_tried_again_and_then_failed_in_its_group(
    start_worker: StartWorker, put: Put, ledger: Ledger, client: Client
) -> None:
    jid = put("break_", ledger.path, "no such thing", retries=2)
    start_worker(burst=True).wait()
    assert ledger.all() == ["attempt 1", "attempt 2", "attempt 3"]
    job = client.get(jid)
    assert job is not None
    assert job.failure is not None
    assert (job.state, job.failure.group) == ("failed", "ValueError")
    assert "Traceback" in job.failure.message
    assert "no such thing \\udce9\x00" in job.failure.message
    assert "jobs.py" in job.failure.message
    assert "django_qless" not in job.failure.message


def test_a_failure_waits_as_its_backoff_says(
    start_worker: StartWorker, put: Put, client: Client
) -> None:
    jid = put("break_slowly", retries=2)
    start_worker(burst=True).wait()
    job = client.get(jid)
    assert job is not None
    assert job.failure is not None
    assert (job.state, job.remaining) == ("scheduled", 1)
    assert job.failure.group == "KeyError"


def test_a_job_is_not_tried_again_before_its_backoff_is_over(
    start_worker: StartWorker, put: Put, ledger: Ledger, client: Client
) -> None:
    jid = put("break_later", ledger.path, retries=3)
    # It ends when nothing is ready: what is due at once would run again.
    start_worker(burst=True).wait()
    assert ledger.all() == ["attempt 1"]
    now, due = client.meta()["now"], client.due(["q"])[0].scheduled
    assert due is not None
    assert 3000 < due - float(now) <= 3600
    # As if the hour were over.
    client.redis.zadd("ql:q:q-scheduled", {jid: now})
    start_worker(burst=True).wait()
    assert ledger.all() == ["attempt 1", "attempt 2"]


def test_a_job_is_tried_again_when_its_backoff_is_over(
    start_worker: StartWorker, put: Put, ledger: Ledger, job_when: JobWhen
) -> None:
    jid = put("break_soon", ledger.path, retries=1)
    start_worker()
    ledger.wait_until(2)
    job = job_when(jid, "failed")
    popped = [entry["when"] for entry in job.history if entry["what"] == "popped"]
    assert len(popped) == 2
    first, second = (float(line.split()[1]) for line in ledger.all())
    assert second - first >= 0.4


def test_a_backoff_that_fails_gives_way_to_the_usual_one(
    start_worker: StartWorker, put: Put, client: Client
) -> None:
    jid = put("break_rule", retries=2)
    worker = start_worker(burst=True)
    worker.wait()
    job = client.get(jid)
    assert job is not None
    assert (job.state, job.remaining) == ("scheduled", 1)
    assert "ZeroDivisionError" in worker.output


def test_sys_exit_is_a_failure_and_the_process_goes_on(
    start_worker: StartWorker, put: Put, client: Client
) -> None:
    jid, next_one = put("leave_python", retries=0), put("give", 1)
    start_worker(burst=True).wait()
    job = client.get(jid)
    assert job is not None
    assert job.failure is not None
    assert job.failure.group == "SystemExit"
    assert client.result(next_one) == 1


def test_retry_uses_a_retry_and_its_own_delay(
    start_worker: StartWorker, put: Put, ledger: Ledger, client: Client
) -> None:
    jid = put("retry_at_once", ledger.path, retries=2)
    start_worker(burst=True).wait()
    assert ledger.all() == ["attempt 1", "attempt 2"]
    job = client.get(jid)
    assert job is not None
    assert job.state == "complete"


def test_fail_fails_for_good(
    start_worker: StartWorker, put: Put, client: Client
) -> None:
    jid = put("give_up", retries=5)
    start_worker(burst=True).wait()
    job = client.get(jid)
    assert job is not None
    assert job.failure is not None
    assert (job.state, job.remaining) == ("failed", 5)
    assert job.failure.group == "bad-input"
    assert "no such file" in job.failure.message


def test_an_unknown_name_comes_back_without_using_up_a_retry(
    start_worker: StartWorker, put: Put, client: Client
) -> None:
    jid = put("from_the_next_version", retries=5)
    start_worker(burst=True).wait()
    job = client.get(jid)
    assert job is not None
    assert (job.state, job.remaining) == ("scheduled", 5)


def test_move_to_goes_on_in_another_queue(
    start_worker: StartWorker, put: Put, ledger: Ledger, client: Client
) -> None:
    jid = put("move_on", ledger.path, queue="first")
    start_worker(burst=True, queues=["first", "second"]).wait()
    assert ledger.all() == ["in first", "in second"]
    job = client.get(jid)
    assert job is not None
    assert job.state == "complete"


def test_an_outcome_that_the_server_refuses_spoils_no_other(
    start_worker: StartWorker, put: Put, client: Client
) -> None:
    before = [put("give", n) for n in range(20)]
    bad = [put("move_wrongly", retries=0), put("give_up_at_length", retries=0)]
    after = [put("give", n) for n in range(20)]
    start_worker(burst=True).wait()
    assert {job.state for job in client.multiget(before + after)} == {"complete"}
    groups = [job.failure and job.failure.group for job in client.multiget(bad)]
    assert groups == ["settlement-refused"] * 2


def test_log_and_progress_reach_the_job(
    start_worker: StartWorker, put: Put, client: Client
) -> None:
    jid = put("report")
    start_worker(burst=True).wait()
    job = client.get(jid)
    assert job is not None
    assert job.state == "complete"
    told = [entry for entry in job.history if entry["what"] == "fetched"]
    assert told[0]["bytes"] == 812


def test_an_idle_worker_wakes_for_a_new_job(
    start_worker: StartWorker, put: Put, ledger: Ledger, client: Client
) -> None:
    worker = start_worker(queues=["q"])
    worker.wait_for_log("started")
    for n in range(20):
        put("say", ledger.path, n)
        ledger.wait_for(str(n))


def test_an_idle_worker_finds_queues_that_appear(
    start_worker: StartWorker, put: Put, ledger: Ledger
) -> None:
    worker = start_worker(queues=["new-*"])
    worker.wait_for_log("started")
    put("say", ledger.path, "one", queue="new-1")
    ledger.wait_for("one")
    put("say", ledger.path, "two", queue="new-2")
    ledger.wait_for("two")


def test_an_idle_worker_wakes_for_delayed_and_recurring_jobs(
    start_worker: StartWorker, put: Put, ledger: Ledger, client: Client
) -> None:
    start_worker(queues=["q"]).wait_for_log("started")
    put("say", ledger.path, "delayed", delay=0.3)
    ledger.wait_for("delayed")
    data = json.dumps({"v": 1, "args": [ledger.path, "tick"]})
    client.recur("q", "clock", "say", data, 0.2, 0)
    ledger.wait_for("tick", times=3)


def test_a_paused_queue_is_left_alone(
    start_worker: StartWorker, put: Put, ledger: Ledger, client: Client
) -> None:
    put("say", ledger.path, "paused", queue="p")
    put("say", ledger.path, "open", queue="q")
    client.pause("p")
    start_worker(burst=True).wait()
    assert ledger.all() == ["open"]
