"""Detached jobs in the commands, on handles, among the checks, and in tests."""

from __future__ import annotations

import asyncio
import json
import os

import pytest
from django.core.management import CommandError

from django_qless import job, jobs
from django_qless.checks.jobs import check_queues_of_detached
from django_qless.core import DetachedRun, Settlement, WrongState
from django_qless.exceptions import InvalidJob, InvalidOption
from django_qless.job_types.options import declared_options
from django_qless.job_types.registry import registry
from django_qless.testing import run_jobs
from tests.jobs_app.jobs import add, failing
from tests.jobs_app.secret import sign_in
from tests.management.commands import doctor_words, run

TOLD = {"host": "h", "pid": 7, "started": 1.5, "output": "one\ntwo\n"}


def hold(client, jid: str) -> str:
    """Have a worker hold the job; return its token."""
    [held] = client.settle("w", [], 1, ["default"]).jobs
    assert held.jid == jid
    return held.token


def tell(client, handle, token: str, **more) -> None:
    """Tell the server of the run of a job."""
    client.keep_detached("w", handle.jid, token, json.dumps(TOLD | more))


def test_the_end_of_the_output_is_printed(qless) -> None:
    handle = add.delay(1)
    with pytest.raises(CommandError, match="is not detached"):
        run("qless_jobs", "tail", handle.jid)
    tell(qless, handle, hold(qless, handle.jid))
    assert run("qless_jobs", "tail", handle.jid) == "one\ntwo\n"
    assert json.loads(run("qless_jobs", "tail", handle.jid, "--json"))["pid"] == 7


@pytest.mark.parametrize("is_async", [False, True])
def test_a_handle_has_the_run_and_forgets(qless, is_async) -> None:
    handle = add.delay(1)

    def call(name):
        if is_async:
            return asyncio.run(getattr(handle, f"a{name}")())
        return getattr(handle, name)()

    assert call("detached_run") is None
    token = hold(qless, handle.jid)
    tell(qless, handle, token, ended=2.5, end="exit status 0")
    expected = DetachedRun("h", 7, 1.5, 2.5, "one\ntwo\n", "exit status 0")
    assert call("detached_run") == expected
    with pytest.raises(WrongState, match="has not ended"):
        call("forget")
    qless.settle("w", [Settlement(handle.jid, token, "complete", ("5", 60))], 0, ())
    assert handle.result() == 5
    assert [call("forget"), call("forget")] == [True, False]
    assert jobs.get(handle.jid) is None
    assert call("detached_run") is None


def test_a_failed_job_is_forgotten(qless, work) -> None:
    handle = failing.delay("broken", "the text")
    work()
    assert handle.refresh().state == "failed"
    assert handle.forget()
    assert qless.failed() == {}


def test_the_doctor_says_where_detached_jobs_end_with_their_worker(qless) -> None:
    qless.beat("w", '{"detached":"this is a container"}', [])
    qless.beat("w2", '{"detached":""}', [])
    words = doctor_words()
    assert "detached jobs do not outlive w, because this is a container" in words
    assert "outlive w2" not in words


@pytest.fixture
def long_job():
    """A detached job, which tells the process that runs it."""
    registered = job("slow", detached=True)(tell_process)
    yield registered
    registry._types.pop(registered.name)


def tell_process() -> int:
    return os.getpid()


def test_tests_run_it_in_their_own_process(qless, long_job) -> None:
    handle = long_job.delay()
    run_jobs()
    assert handle.result() == os.getpid()
    assert long_job() == os.getpid()


def test_a_queue_of_both_kinds_is_warned_of(long_job) -> None:
    assert check_queues_of_detached() == []
    both = job("slow", name="another")(lambda: None)
    try:
        [message] = check_queues_of_detached()
    finally:
        registry._types.pop(both.name)
    assert message.id == "django_qless.W008"
    assert "'slow'" in message.msg


@pytest.mark.parametrize("value", [1, "yes", None, 0])
def test_it_is_true_or_false(value) -> None:
    with pytest.raises(InvalidOption, match="detached must be True or False"):
        declared_options("x", {"detached": value})


def test_a_call_cannot_change_it() -> None:
    with pytest.raises(InvalidOption, match=r"write @job\(detached=…\)"):
        add.using(detached=True)


def test_a_new_interpreter_has_to_find_it() -> None:
    with pytest.raises(InvalidJob, match="move it to the top of a module"):

        @job(detached=True, name="inner")
        def inner() -> None:
            pass


def test_the_output_of_a_sensitive_job_is_hidden(qless) -> None:
    handle = sign_in.delay("ann", "secret")
    [held] = qless.settle("w", [], 1, ["mail"]).jobs
    tell(qless, handle, held.token, output="secret\n")
    text = run("qless_jobs", "tail", handle.jid)
    assert text.startswith("[hidden] The job has, or may have, sensitive values.\n")
    assert "secret" not in text
    told = json.loads(run("qless_jobs", "tail", "--json", handle.jid))
    assert (told["output"], told["pid"]) == ("[hidden]", 7)


def test_the_output_of_a_job_that_was_marked_is_hidden(qless) -> None:
    """Its code says so no more; its data do."""
    data = '{"v":1,"args":["secret"],"s":[0]}'
    qless.put("", "default", "j1", add.name, data)
    tell(qless, jobs["j1"], hold(qless, "j1"), output="secret\n")
    assert "secret" not in run("qless_jobs", "tail", "j1")
