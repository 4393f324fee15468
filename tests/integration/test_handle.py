"""The handle of a job."""

from __future__ import annotations

import asyncio
import threading

import pytest

from django_qless import JobHandle
from django_qless.core import HasDependents, WrongState
from django_qless.exceptions import JobFailed, JobGone, ResultNotReady
from tests.jobs_app import jobs


def test_a_fresh_handle_knows_what_was_put(qless) -> None:
    put = jobs.send_welcome.using(tags=["b", "a"], delay=5)
    handle = put.delay("ann", template="x")
    assert isinstance(handle, JobHandle)
    assert (handle.name, handle.alias) == (
        "tests.jobs_app.jobs.send_welcome",
        "default",
    )
    assert (handle.queue, handle.state, handle.priority) == ("mail", "scheduled", 10)
    assert (handle.tags, handle.retries) == (["b", "a"], 5)
    assert handle.data == '{"v":1,"args":["ann"],"kwargs":{"template":"x"}}'
    assert (handle.history, handle.failure, handle.progress) == ([], None, None)
    assert (handle.dependencies, handle.dependents, handle.worker) == ([], [], "")
    fresh = handle.refresh()
    assert fresh is not handle
    assert (fresh.queue, fresh.state, fresh.priority) == ("mail", "scheduled", 10)
    assert (fresh.tags, fresh.retries, fresh.data) == (["b", "a"], 5, handle.data)
    assert [entry["what"] for entry in fresh.history] == ["put"]
    assert fresh == handle
    assert hash(fresh) == hash(handle)
    assert fresh != jobs.add.delay(1)
    assert handle.jid in repr(handle)


def test_properties_ask_nobody(qless, server) -> None:
    handle = jobs.add.delay(1)
    fresh = handle.refresh()
    server.stop()
    for each in (handle, fresh):
        assert [each.state, each.queue, each.history is None] == [
            "waiting",
            "default",
            False,
        ]


def test_a_snapshot_stays_as_it_was(qless, work) -> None:
    handle = jobs.add.delay(1)
    before = handle.refresh()
    work()
    assert before.state == handle.state == "waiting"
    assert handle.refresh().state == "complete"


def test_result_now_or_not_at_all(qless, work) -> None:
    handle = jobs.add.delay(1)
    with pytest.raises(ResultNotReady, match=r"in queue 'default' is still waiting\."):
        handle.result()
    with pytest.raises(TimeoutError, match=r"still waiting after 0\.01 s"):
        handle.result(timeout=0.01)
    work()
    assert handle.result() == handle.result(5) == handle.result(None) == 1
    assert handle.wait().state == "complete"


def test_result_of_a_job_that_returns_nothing(qless, work) -> None:
    handle = jobs.fan_out.delay(0)
    work()
    assert handle.result() == []
    none = jobs.Gnomes.using(queue="x").delay({})
    work()
    assert none.result() is None


def test_result_of_a_failed_job(qless, work) -> None:
    handle = jobs.failing.delay("bad-input", "no such file")
    work()
    with pytest.raises(JobFailed, match="failed in group 'bad-input'") as caught:
        handle.result()
    assert caught.value.group == "bad-input"
    assert "no such file" in caught.value.message
    assert handle.wait().state == "failed"
    assert handle.refresh().failure.group == "bad-input"


def test_result_of_a_job_that_is_gone(qless, work) -> None:
    handle = jobs.add.delay(1)
    handle.cancel()
    for ask in (handle.result, handle.refresh, handle.wait):
        with pytest.raises(JobGone, match=f"There is no job {handle.jid}"):
            ask()


def test_a_result_outlives_the_history(qless, work) -> None:
    qless.config_set("jobs-history-count", 0)
    handle = jobs.add.delay(5)
    work()
    assert qless.get(handle.jid) is None
    assert handle.result() == 5


def test_a_result_is_not_kept_if_nobody_wants_it(qless, work) -> None:
    handle = jobs.add.using(result_ttl=0).delay(5)
    work()
    assert handle.result() is None
    assert handle.refresh().state == "complete"


def test_wait_sees_the_end(qless, work) -> None:
    handle = jobs.add.delay(7)
    waiting = threading.Event()
    results = []

    def wait() -> None:
        waiting.set()
        results.append(handle.result(timeout=20))

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait(20)
    work()
    thread.join(20)
    assert results == [7]


def test_await_sees_the_end(qless, work) -> None:
    async def run():
        handle = await jobs.add.aenqueue(7)
        waiting = asyncio.create_task(handle.aresult(timeout=20))
        await asyncio.to_thread(work)
        return await waiting, (await handle.await_()).state

    assert asyncio.run(run()) == (7, "complete")


def test_actions(qless, work) -> None:
    handle = jobs.add.delay(1)
    handle.set_priority(7)
    assert handle.tag("a", "b") == ["a", "b"]
    assert handle.untag("a") == ["b"]
    handle.track()
    fresh = handle.refresh()
    assert (fresh.priority, fresh.tags) == (7, ["b"])
    assert [job.jid for job in qless.tracked().jobs] == [handle.jid]
    handle.untrack()
    assert qless.tracked().jobs == []
    handle.move("elsewhere", delay=60)
    moved = handle.refresh()
    assert (moved.queue, moved.state, moved.priority) == ("elsewhere", "scheduled", 7)
    after = jobs.add.using(after=[handle]).delay(2)
    with pytest.raises(HasDependents):
        handle.cancel()
    after.cancel()
    handle.cancel()
    assert qless.get(handle.jid) is None


def test_retry_puts_a_failed_job_again(qless, work) -> None:
    handle = jobs.failing.using(tags=["t"], timeout=9).delay("group", "text")
    with pytest.raises(WrongState, match="is waiting, not failed"):
        handle.retry()
    work()
    handle.retry()
    again = handle.refresh()
    assert (again.state, again.queue, again.tags) == ("waiting", "default", ["t"])
    assert qless.get(handle.jid).context == {"options": {"timeout": 9}}
    assert work() == 1
    assert handle.refresh().state == "failed"


def test_the_twins_for_asyncio(qless, work) -> None:
    async def act():
        handle = await jobs.add.aenqueue(1)
        await handle.aset_priority(7)
        tags = await handle.atag("a", "b"), await handle.auntag("a")
        await handle.atrack()
        await handle.auntrack()
        await handle.amove("elsewhere", delay=60)
        moved = await handle.arefresh()
        await handle.acancel()
        failed = await jobs.failing.aenqueue("group", "text")
        await asyncio.to_thread(work)
        await failed.aretry()
        with pytest.raises(JobGone):
            await handle.arefresh()
        with pytest.raises(JobGone):
            await handle.aresult()
        with pytest.raises(ResultNotReady):
            await failed.aresult()
        return tags, moved, await failed.arefresh()

    tags, moved, failed = asyncio.run(act())
    assert tags == (["a", "b"], ["b"])
    assert (moved.queue, moved.state, moved.priority) == ("elsewhere", "scheduled", 7)
    assert failed.state == "waiting"


def test_handles_of_another_alias_stay_there(qless, work) -> None:
    handle = jobs.add.using(alias="other").delay(1)
    handle.tag("x")
    work(alias="other")
    assert handle.refresh().tags == ["x"]
    assert handle.result() == 1
