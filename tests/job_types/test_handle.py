"""The handle of a job."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from asgiref.sync import sync_to_async
from django.db import transaction
from django.db.models.signals import post_init

from django_qless import JobHandle, await_all, wait_all
from django_qless.conf.connections import connections
from django_qless.core import (
    HasDependents,
    JobNotFound,
    ServerBusy,
    Settlement,
    WrongState,
)
from django_qless.exceptions import JobFailed, JobGone, NoResult, NotPut, ResultNotReady
from django_qless.operations import objects
from tests.jobs_app import jobs
from tests.jobs_app.models import Feed
from tests.real_servers import poll


def test_a_fresh_handle_knows_what_was_enqueued(qless) -> None:
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


def test_asking_for_the_result_at_once_waits_for_nothing(qless, monkeypatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(
        type(qless),
        "await_ended",
        lambda self, ids, seconds, kind: waits.append(seconds),
    )
    handle = jobs.add.delay(1)
    with pytest.raises(ResultNotReady):
        handle.result()
    assert waits == []
    with pytest.raises(ResultNotReady):
        handle.result(timeout=1)
    assert waits[0] == pytest.approx(1, abs=0.5)


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
    qless.config_set("canceled-history", 0)
    handle.cancel()
    for ask in (handle.result, handle.refresh, handle.wait):
        with pytest.raises(JobGone, match=f"There is no job {handle.jid}"):
            ask()


def test_what_became_of_a_job_that_was_canceled(qless, work) -> None:
    handle = jobs.add.using(tags=["a"], delay=60).delay(1)
    assert handle.canceled is handle.refresh().canceled is None
    assert handle.failed_from is handle.refresh().failed_from is None
    before = time.time()
    handle.cancel()
    now = handle.refresh()
    assert (now.state, now.tags, now.data) == ("canceled", ["a"], handle.data)
    assert (now.queue, now.name) == ("default", handle.name)
    assert (now.canceled.was, now.canceled.why) == ("scheduled", "call")
    assert now.canceled.when == pytest.approx(before, abs=60)
    assert [entry["what"] for entry in now.history] == ["put", "canceled"]
    assert handle.wait() == handle.wait(5) == now
    assert handle.wait().state == "canceled"
    assert objects.jobs[handle.jid].state == "canceled"
    for ask in (handle.result, lambda: handle.result(5), lambda: handle.result(None)):
        with pytest.raises(JobGone, match=f"{handle.jid} .* was canceled"):
            ask()
    with pytest.raises(WrongState, match="is canceled, not failed"):
        handle.retry()
    with pytest.raises(JobNotFound):
        handle.tag("b")
    handle.cancel()
    assert work() == 0


def test_a_job_canceled_with_another_says_so(qless) -> None:
    first = jobs.add.using(delay=60).delay(1)
    second = jobs.add.using(after=[first], on_failure="cancel").delay(2)
    first.cancel()
    canceled = second.wait().canceled
    assert (canceled.was, canceled.why, canceled.by) == (
        *("depends", "dependency", first.jid),
    )  # fmt: skip


def test_a_unique_job_may_be_enqueued_again_once_it_was_canceled(qless, work) -> None:
    put = jobs.add.using(unique="one")
    first = put.delay(1)
    assert put.delay(1).created is False
    first.cancel()
    second = put.delay(1)
    assert second.created is True
    assert second.jid != first.jid
    work()
    assert (first.wait().state, second.result()) == ("canceled", 1)


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


def test_a_wait_goes_on_while_the_server_is_busy(qless, work, monkeypatch) -> None:
    """As while a slot of a cluster moves: longer than a call is repeated."""
    handle = jobs.add.delay(7)
    client = connections["default"]
    await_ended, refused = client.await_ended, []

    def busy_at_first(*args):
        if refused:
            return await_ended(*args)
        refused.append(ServerBusy("TRYAGAIN Multiple keys request during rehashing"))
        work()
        raise refused[0]

    monkeypatch.setattr(client, "await_ended", busy_at_first)
    assert handle.wait(60).state == "complete"
    assert refused


def test_a_wait_without_an_answer_says_so(qless, monkeypatch) -> None:
    handle = jobs.add.delay(7)

    def busy(*args):
        raise ServerBusy("BUSY")

    monkeypatch.setattr(connections["default"], "await_ended", busy)
    with pytest.raises(ServerBusy):
        handle.wait(0.01)


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
    assert handle.refresh().state == "canceled"


def test_retry_enqueues_a_failed_job_again(qless, work) -> None:
    handle = jobs.failing.using(tags=["t"], timeout=9).delay("group", "text")
    with pytest.raises(WrongState, match="is waiting, not failed"):
        handle.retry()
    with pytest.raises(WrongState, match="is waiting, not failed"):
        asyncio.run(handle.aretry())
    work()
    handle.retry()
    again = handle.refresh()
    assert (again.state, again.queue, again.tags) == ("waiting", "default", ["t"])
    assert qless.get(handle.jid).context == {"options": {"timeout": 9}}
    assert work() == 1
    assert handle.refresh().state == "failed"


@pytest.mark.django_db(transaction=True)
def test_a_row_in_a_result_is_loaded_where_connections_are_looked_after(
    qless, work
) -> None:
    feed = Feed.objects.create()
    handle = jobs.echo.delay(feed)
    work()
    threads = []

    def note(**_: object) -> None:
        threads.append(threading.get_ident())

    async def act():
        results = await handle.aresult(), await handle.aresult()
        return results, await sync_to_async(threading.get_ident)()

    post_init.connect(note, sender=Feed)
    try:
        results, ident = asyncio.run(act())
    finally:
        post_init.disconnect(note, sender=Feed)
    assert results == ([[feed], {}], [[feed], {}])
    assert set(threads) == {ident}


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
        assert (await handle.arefresh()).state == "canceled"
        assert (await handle.await_()).canceled.was == "scheduled"
        with pytest.raises(JobGone, match="was canceled"):
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


def in_a_thread(act):
    """Run this beside the test; return what gives its result, or the error."""
    outcomes = []

    def run() -> None:
        try:
            outcomes.append(act())
        except NoResult as error:
            outcomes.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def outcome():
        thread.join(20)
        return outcomes[0]

    return outcome


def somebody_waits(qless) -> bool:
    return bool(qless.redis.info("clients")["blocked_clients"])


def test_a_wait_ends_when_the_job_is_cancelled(qless) -> None:
    handle = jobs.add.delay(1)
    outcome = in_a_thread(lambda: handle.wait(20))
    poll(lambda: somebody_waits(qless), what="it waits")
    handle.cancel()
    assert outcome().state == "canceled"


def test_a_wait_for_the_result_ends_when_the_job_is_cancelled(qless) -> None:
    handle = jobs.add.delay(1)
    outcome = in_a_thread(lambda: handle.result(20))
    poll(lambda: somebody_waits(qless), what="it waits")
    handle.cancel()
    assert isinstance(outcome(), JobGone)


def test_a_wait_ends_when_the_job_is_cancelled_and_not_remembered(qless) -> None:
    qless.config_set("canceled-history", 0)
    handle = jobs.add.delay(1)
    outcome = in_a_thread(lambda: handle.wait(20))
    poll(lambda: somebody_waits(qless), what="it waits")
    handle.cancel()
    assert isinstance(outcome(), JobGone)


def test_a_wait_ends_when_the_job_fails_or_expires(qless, work) -> None:
    failing = jobs.failing.delay("group", "text")
    late = jobs.add.using(expires=0.001).delay(1)
    put = time.monotonic()
    outcomes = [
        in_a_thread(lambda: failing.wait(20)),
        in_a_thread(lambda: late.result(20)),
    ]
    poll(lambda: time.monotonic() > put + 0.01, what="it expires")
    work()
    assert outcomes[0]().failure.group == "group"
    assert isinstance(error := outcomes[1](), JobFailed)
    assert error.group == "expired"


def test_a_wait_goes_on_over_a_retry(qless, work) -> None:
    handle = jobs.broken.using(retries=1).delay("x")
    outcome = in_a_thread(lambda: handle.wait(20))
    poll(lambda: somebody_waits(qless), what="it waits")
    poll(lambda: (work(), handle.refresh().state == "failed")[1], what="it fails")
    assert outcome().state == "failed"


def test_attempts(qless, work) -> None:
    handle = jobs.broken.using(retries=3).delay("x")
    assert (handle.attempt, handle.remaining) == (1, 3)
    qless.settle("w", [], 1, ["default"])
    assert (handle.refresh().attempt, handle.refresh().remaining) == (1, 3)
    [job] = qless.multiget([handle.jid])
    job.retry()
    assert (handle.refresh().attempt, handle.refresh().remaining) == (2, 2)


def test_attempts_of_a_job_that_has_used_all_of_them(qless, work) -> None:
    handle = jobs.broken.using(retries=1, backoff=0).delay("x")
    assert work() == 2
    handle = handle.refresh()
    assert (handle.state, handle.attempt, handle.remaining) == ("failed", 2, 0)


def test_attempts_of_a_job_that_is_complete(qless) -> None:
    handle = jobs.add.using(retries=3).delay(1)
    qless.pop("default", "w", 1)[0].retry()
    [job] = qless.pop("default", "w", 1)
    qless.settle("w", [Settlement(job.jid, job.token, "release", (0,))], 0, [])
    [job] = qless.pop("default", "w", 1)
    assert handle.refresh().attempt == 2
    job.complete()
    handle = handle.refresh()
    assert (handle.state, handle.attempt, handle.remaining) == ("complete", 2, 3)


def test_attempts_of_a_complete_job_whose_history_names_none(qless) -> None:
    handle = jobs.add.using(retries=3).delay(1)
    qless.pop("default", "w", 1)[0].complete()
    qless.redis.delete(f"ql:j:{handle.jid}-history")
    assert handle.refresh().attempt == 1


def test_waiting_for_all(qless, work) -> None:
    many = jobs.add.enqueue_many(jobs.add.args(n) for n in range(1_000))
    elsewhere = jobs.add.using(alias="other").delay(7)
    outcome = in_a_thread(lambda: wait_all([elsewhere, *many], 20))
    assert work(alias="other") == 1
    assert work() == 1_000
    ended = outcome()
    assert [handle.jid for handle in ended] == [elsewhere.jid, *(h.jid for h in many)]
    assert {handle.state for handle in ended} == {"complete"}
    assert wait_all([]) == []


@pytest.mark.django_db(transaction=True)
def test_waiting_for_all_in_vain(qless, work) -> None:
    many = jobs.add.enqueue_many(jobs.add.args(n) for n in range(3))
    text = rf"Job {many[0].jid} \(and 2 more\) of 3 has not ended after 0.01 s"
    with pytest.raises(ResultNotReady, match=text):
        wait_all(many, 0.01)
    many[1].cancel()
    work()
    assert [each.state for each in wait_all(many)] == [
        "complete",
        "canceled",
        "complete",
    ]
    qless.redis.delete(f"ql:canceled:{many[1].jid}")  # what the server does in time
    with pytest.raises(JobGone, match=f"There is no job {many[1].jid}"):
        wait_all(many)
    with transaction.atomic():
        pending = jobs.add.delay(1)
        with pytest.raises(NotPut):
            wait_all([pending])


def test_awaiting_all(qless, work) -> None:
    async def run():
        many = await jobs.add.aenqueue_many(jobs.add.args(n) for n in range(3))
        waiting = asyncio.create_task(await_all(many, 20))
        await asyncio.to_thread(work)
        return [handle.state for handle in await waiting]

    assert asyncio.run(run()) == ["complete"] * 3
