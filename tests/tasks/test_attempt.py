"""Attempts at a Task: each leaves its worker, its time and its error."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import override_settings

from django_qless import jobs
from django_qless.conf.connections import connections
from django_qless.core import Settlement
from django_qless.core.put import new_jid
from django_qless.exceptions import JobGone
from django_qless.runtime.environment import DjangoEnvironment
from django_qless.worker.execution import Execution
from tests.jobs_app.jobs import add as job_of_ours
from tests.tasks import installed, work
from tests.tasks.conftest import WORKER, Heard, listening
from tests.tasks.installed import Status, task_backends


def refreshed(result: Any) -> Any:
    result.refresh()
    return result


async def arefreshed(result: Any) -> Any:
    await result.arefresh()
    return result


def test_a_task_is_run_once_unless_it_says_more(qless, drain) -> None:
    result = work.fails.enqueue()
    assert drain() == 1
    assert refreshed(result).status == Status.FAILED
    assert result.attempts == 1


def test_returned_coroutine_is_awaited(qless, each_drain) -> None:
    result = work.returns_coroutine.enqueue(1)
    each_drain()
    assert refreshed(result).status == Status.SUCCESSFUL
    assert result.return_value == 2


@pytest.mark.parametrize(
    "one", [work.succeeds_at, work.asucceeds_at], ids=["sync", "async"]
)
def test_attempts_are_counted(qless, each_drain, heard: Heard, one: Any) -> None:
    result = one.enqueue(3)
    assert each_drain() == 3
    refreshed(result)
    assert result.status == Status.SUCCESSFUL
    assert result.attempts == 3
    assert result.worker_ids == [WORKER] * 3
    assert [error.exception_class for error in result.errors] == [ValueError] * 2
    assert "attempt 1" in result.errors[0].traceback
    assert "attempt 2" in result.errors[1].traceback
    assert result.enqueued_at <= result.started_at < result.last_attempted_at
    assert result.last_attempted_at <= result.finished_at
    assert [(what, status) for what, _, status in heard] == [
        ("enqueued", "READY"),
        *[("started", "RUNNING")] * 3,
        ("finished", "SUCCESSFUL"),
    ]


def test_a_task_sees_its_earlier_errors(qless, each_drain) -> None:
    result = work.succeeds_at.enqueue(3)
    each_drain()
    assert refreshed(result).return_value == ["builtins.ValueError"] * 2


def test_between_two_attempts_it_is_ready(qless, drain) -> None:
    result = work.with_options.using(backoff=1000).enqueue(1)  # takes no argument
    drain()
    refreshed(result)
    assert result.status == Status.READY
    assert result.attempts == 1
    assert result.errors[0].exception_class is TypeError
    assert result.started_at is not None
    assert result.finished_at is None
    assert not result.is_finished


def test_a_task_that_fails_every_time(qless, each_drain, heard: Heard) -> None:
    result = work.succeeds_at.enqueue(9)
    each_drain()
    refreshed(result)
    assert result.status == Status.FAILED
    assert (result.attempts, len(result.errors)) == (4, 4)
    assert "attempt 4" in result.errors[-1].traceback
    assert result.finished_at >= result.last_attempted_at
    assert heard.words() == ["enqueued", *["started"] * 4, "finished"]
    assert heard[-1][2] == "FAILED"


@pytest.mark.skipif(not hasattr(asyncio, "TaskGroup"), reason="Python 3.11")
def test_error_of_an_exception_group_is_what_is_in_it(qless, each_drain) -> None:
    result = work.fails_in_a_group.enqueue()
    each_drain()
    [error] = refreshed(result).errors
    assert error.exception_class is ValueError


def test_who_hears_of_the_end_is_told_all_errors(qless, each_drain) -> None:
    ended: list[Any] = []

    def receive(sender: Any, task_result: Any, **more: Any) -> None:
        ended.append(task_result)

    installed.signals.task_finished.connect(receive)
    try:
        work.succeeds_at.enqueue(9)
        each_drain()
    finally:
        installed.signals.task_finished.disconnect(receive)
    [told] = ended
    assert [error.exception_class for error in told.errors] == [ValueError] * 4
    assert "attempt 1" in told.errors[0].traceback
    assert "attempt 4" in told.errors[-1].traceback


def test_retry_works_in_tasks_too(qless, drain) -> None:
    result = work.asks_to_be_run_again.enqueue()
    assert drain() == 2
    refreshed(result)
    assert result.status == Status.FAILED
    assert "not yet" in result.errors[0].traceback


def test_a_task_that_an_operator_enqueues_again(qless, drain) -> None:
    result = work.fails.enqueue()
    drain()
    jobs[result.id].retry()
    assert refreshed(result).status == Status.READY
    drain()
    refreshed(result)
    assert result.status == Status.FAILED
    assert (result.attempts, len(result.errors)) == (2, 2)


def test_a_task_that_is_enqueued_again_after_its_success(qless, drain) -> None:
    result = work.add.enqueue(1)
    drain()
    first = refreshed(result).finished_at
    jobs[result.id].move("default")
    assert refreshed(result).status == Status.READY
    drain()
    refreshed(result)
    assert result.return_value == 2
    assert result.attempts == 2
    assert result.finished_at > first
    assert jobs[result.id].data.count('"ran"') == 1


def test_a_run_that_is_handed_back_is_no_attempt(qless, drain) -> None:
    result = work.succeeds_at.enqueue(1)
    [reserved] = qless.settle("another", [], 1, ["default"]).jobs
    assert refreshed(result).status == Status.RUNNING
    assert result.worker_ids == ["another"]
    qless.run(type(qless).release.build(None, reserved.jid, reserved.token, 0))
    assert refreshed(result).status == Status.READY
    assert result.attempts == 0
    assert result.started_at is None
    drain()
    assert refreshed(result).worker_ids == [WORKER]


def test_a_run_that_logs_is_an_attempt_as_well(qless, drain) -> None:
    result = work.succeeds_at.enqueue(1)
    [reserved] = qless.settle("another", [], 1, ["default"]).jobs
    qless.log(result.id, "fetched", '{"bytes":812}')
    assert refreshed(result).worker_ids == ["another"]
    release = Settlement(reserved.jid, reserved.token, "release", (0,))
    qless.settle("another", [release], 0, [])
    assert refreshed(result).worker_ids == []


def test_a_run_that_was_killed_for_its_hard_timeout(qless, drain) -> None:
    result = work.succeeds_at.enqueue(1)
    [reserved] = qless.settle("another", [], 1, ["default"]).jobs
    late = (0, "timeout", "The job ran longer than its hard timeout of 5 s.\n\nstacks")
    settled = Settlement(reserved.jid, reserved.token, "retry", late)
    qless.settle("another", [settled], 0, [])
    refreshed(result)
    assert (result.status, result.attempts) == (Status.READY, 1)
    [error] = result.errors
    assert error.traceback == "The job ran longer than its hard timeout of 5 s."
    drain()
    assert refreshed(result).worker_ids == ["another", WORKER]


def test_a_run_whose_process_died(qless, drain) -> None:
    result = work.succeeds_at.enqueue(1)
    [reserved] = qless.settle("another", [], 1, ["default"]).jobs
    crash = Settlement(
        reserved.jid, reserved.token, "crash", (3, "worker-crash", "killed")
    )
    qless.settle("another", [crash], 0, [])
    refreshed(result)
    assert result.status == Status.READY
    assert result.attempts == 1
    assert "another died" in result.errors[0].traceback
    assert issubclass(result.errors[0].exception_class, BaseException)
    drain()
    refreshed(result)
    assert result.worker_ids == ["another", WORKER]
    assert result.return_value == ["django_qless.exceptions.JobFailed"]


def test_a_task_that_fails_without_an_exception(qless) -> None:
    result = work.add.enqueue(1)
    [reserved] = qless.settle("another", [], 1, ["default"]).jobs
    end = Settlement(reserved.jid, reserved.token, "fail", ("by-hand", "I say so"))
    qless.settle("another", [end], 0, [])
    refreshed(result)
    assert result.status == Status.FAILED
    [error] = result.errors
    assert error.traceback == "I say so"
    assert issubclass(error.exception_class, BaseException)


def test_listeners_hear_of_one_whose_process_died_for_the_last_time(
    qless, heard: Heard
) -> None:
    result = work.succeeds_at.using(retries=0).enqueue(1)
    [reserved] = qless.settle("another", [], 1, ["default"]).jobs
    end = Settlement(reserved.jid, reserved.token, "fail", ("worker-crash", "killed"))
    qless.settle("another", [end], 0, [])
    execution = Execution(DjangoEnvironment(), qless, WORKER)
    execution.environment.announce("failed", execution.current(reserved))
    assert heard.words() == ["enqueued", "finished"]
    _, sender, status = heard[-1]
    assert (sender, status) == (type(task_backends["default"]), "FAILED")
    assert refreshed(result).status == Status.FAILED


@pytest.mark.django_db
def test_an_error_that_cannot_be_kept(qless, heard: Heard, caplog) -> None:
    result = work.is_taken_away.enqueue()
    [reserved] = qless.settle(WORKER, [], 1, ["default"]).jobs
    Execution(DjangoEnvironment(), qless, WORKER).perform(reserved)
    assert f"an error of the Task {result.id} is not kept" in caplog.text
    assert heard.words() == ["enqueued", "started", "finished"]
    assert heard[-1][2] == "FAILED"


def test_earlier_attempts_that_cannot_be_asked_for(qless, heard: Heard, caplog) -> None:
    result = work.with_context.enqueue("x")
    [reserved] = qless.settle(WORKER, [], 1, ["default"]).jobs
    nowhere = {"LOCATION": "unix:///nowhere.sock", "PATIENCE": 0.01}
    with override_settings(QLESS={"default": nowhere}):
        away = connections["default"]
        settlement = Execution(DjangoEnvironment(), away, WORKER).perform(reserved)
    assert f"earlier attempts of the Task {result.id} are not known" in caplog.text
    assert (settlement.verb, heard.words()[-1]) == ("complete", "finished")
    qless.settle(WORKER, [settlement], 0, [])
    assert refreshed(result).return_value[1] == 1  # the first attempt, as far as known


def test_a_queue_that_the_settings_no_longer_name(qless, drain) -> None:
    result = work.add.using(queue_name="mail").enqueue(1)
    narrow = {"default": {"BACKEND": installed.QLESS, "QUEUES": ["default"]}}
    with override_settings(TASKS=narrow):
        assert drain() == 1
        found = task_backends["default"].get_result(result.id)
    assert found.return_value == 2
    # As it was declared: no Task could be made with the queue.
    assert (found.task.queue_name, found.task.name) == ("default", "add")


def test_a_task_that_no_worker_knew(qless) -> None:
    result = work.add.enqueue(1)
    [reserved] = qless.settle("another", [], 1, ["default"]).jobs
    end = Settlement(
        *(reserved.jid, reserved.token, "fail", ("unknown-job", "Nobody knows it"))
    )
    qless.settle("another", [end], 0, [])
    assert refreshed(result).status == Status.FAILED
    assert result.attempts == 0
    assert result.started_at is None
    assert result.finished_at is not None
    assert [error.traceback for error in result.errors] == ["Nobody knows it"]


def test_a_task_that_comes_too_late(qless, drain, heard: Heard) -> None:
    result = work.add.using(expires=0.01).enqueue(1)
    time.sleep(0.1)  # counted from after the enqueueing: it has expired by then
    assert drain() == 0
    assert refreshed(result).status == Status.FAILED
    assert (result.attempts, len(result.errors)) == (0, 1)
    assert "expired" in result.errors[0].traceback


def test_an_exception_that_is_final(qless, drain, heard: Heard) -> None:
    result = work.fails_for_good.enqueue()
    assert drain() == 1
    assert refreshed(result).status == Status.FAILED
    assert heard.words() == ["enqueued", "started", "finished"]


def test_a_cancelled_task_has_failed_while_it_is_remembered(qless) -> None:
    result = work.add.using(priority=5).enqueue(1)
    jobs[result.id].cancel()
    for found in (refreshed(result), asyncio.run(arefreshed(result))):
        assert (found.status, found.is_finished) == (Status.FAILED, True)
        assert (found.attempts, found.args, found.task.priority) == (0, [1], 5)
        assert found.finished_at >= found.enqueued_at
        (error,) = found.errors
        assert error.exception_class is JobGone
        assert "canceled when it was waiting" in error.traceback
        with pytest.raises(ValueError, match="failed"):
            _ = found.return_value


def test_a_task_that_is_cancelled_while_it_runs(qless) -> None:
    result = work.add.enqueue(1)
    [_] = qless.pop("default", "somebody")
    jobs[result.id].cancel()
    found = refreshed(result)
    assert (found.status, found.attempts) == (Status.FAILED, 1)
    assert found.worker_ids == ["somebody"]
    assert found.started_at <= found.finished_at
    assert "canceled when it was running" in found.errors[-1].traceback


def test_a_cancelled_task_whose_arguments_are_not_kept(qless) -> None:
    result = work.add.enqueue("x" * 20_000)
    jobs[result.id].cancel()
    with pytest.raises(installed.TaskResultDoesNotExist, match="canceled"):
        refreshed(result)


def test_a_cancelled_task_that_is_not_remembered_does_not_exist(qless) -> None:
    qless.config_set("canceled-history", 0)
    result = work.add.enqueue(1)
    jobs[result.id].cancel()
    with pytest.raises(installed.TaskResultDoesNotExist):
        result.refresh()


def test_a_job_is_no_task(qless) -> None:
    handle = job_of_ours.delay(1)
    with pytest.raises(installed.TaskResultDoesNotExist, match=r"jobs_app\.jobs\.add"):
        task_backends["default"].get_result(handle.jid)


def test_a_task_of_another_program(qless) -> None:
    jid = new_jid()
    qless.put("", "default", jid, "tests.tasks.work.add", '["no", "envelope"]')
    with pytest.raises(installed.TaskResultDoesNotExist, match="envelope"):
        task_backends["default"].get_result(jid)


def test_an_id_that_is_not_ours(qless, drain) -> None:
    qless.put("", "default", "mine", "tests.tasks.work.add", '{"v":1,"args":[1]}')
    drain()
    result = work.add.get_result("mine")
    assert result.return_value == 2
    assert result.enqueued_at <= result.started_at <= result.finished_at


class TestValues:
    def test_the_value_is_kept_for_its_time(self, qless, drain, redis_client) -> None:
        kept = work.add.enqueue(1)
        none = work.nothing.enqueue()
        drain()
        [name] = redis_client.keys("*result:*")
        assert name.endswith(kept.id.encode())
        redis_client.delete(name)
        with pytest.raises(installed.TaskResultDoesNotExist, match="result_ttl"):
            kept.refresh()
        assert refreshed(none).return_value is None

    def test_a_value_that_nobody_wants_kept(self, qless, drain) -> None:
        result = work.add.using(result_ttl=0).enqueue(1)
        drain()
        assert refreshed(result).status == Status.SUCCESSFUL
        assert result.return_value is None

    def test_a_value_that_is_too_big(self, qless, drain) -> None:
        result = work.returns_a_lot.enqueue()
        drain()
        assert refreshed(result).status == Status.FAILED
        assert "65536" in result.errors[0].traceback

    def test_large_arguments(self, qless, drain) -> None:
        text = "x" * 300_000
        result = work.note.enqueue(text)
        drain()
        assert refreshed(result).status == Status.SUCCESSFUL
        assert work.noted == [text]
        assert result.started_at <= result.finished_at

    def test_arguments_that_leave_no_room(self, qless, drain) -> None:
        result = work.note.enqueue("x" * (512 * 1024 - 50))
        drain()
        assert refreshed(result).status == Status.SUCCESSFUL
        assert result.enqueued_at <= result.started_at <= result.finished_at

    def test_arguments_that_are_too_large(self, qless) -> None:
        with pytest.raises(ValueError, match="524,288"):
            work.note.enqueue("x" * 600_000)

    def test_the_handle_of_the_job_sees_it_as_well(self, qless, drain) -> None:
        result = work.echo.enqueue({"$date": "as it is"})
        drain()
        assert jobs[result.id].result() == [[{"$date": "as it is"}], {}]
        assert json.loads(jobs[result.id].data)["ran"][2] == 1


def test_in_a_loop(qless, drain) -> None:
    async def both() -> tuple[Any, Any]:
        first = await work.add.aenqueue(1)
        second = await work.fails.aenqueue()
        return first, second

    first, second = async_to_sync(both)()
    drain()
    async_to_sync(first.arefresh)()
    async_to_sync(second.arefresh)()
    assert first.return_value == 2
    assert second.errors[0].exception_class is ValueError
    assert connections["default"].get(first.id) is not None


def test_listeners_hear_although_one_before_them_raises(qless, each_drain) -> None:
    def fails(**details: Any) -> None:
        raise ValueError("no")

    signals = [installed.signals.task_started, installed.signals.task_finished]
    for signal in signals:
        signal.connect(fails)
    try:
        with listening() as heard:
            good, bad = work.add.enqueue(1), work.fails.enqueue()
            each_drain()
    finally:
        for signal in signals:
            signal.disconnect(fails)
    assert refreshed(good).status == Status.SUCCESSFUL
    assert refreshed(bad).status == Status.FAILED
    assert sorted((what, status) for what, _, status in heard) == [
        *[("enqueued", "READY")] * 2,
        *(("finished", "FAILED"), ("finished", "SUCCESSFUL")),
        *[("started", "RUNNING")] * 2,
    ]
