"""When a job is enqueued: at the commit of its database, or at once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import TestCase, override_settings

from django_qless import wait_all, workflow
from django_qless.core import ScheduleNotFound, WrongState
from django_qless.core.commands.entities import Payload
from django_qless.enqueue import dispatch
from django_qless.exceptions import InvalidOption, JobGone, NotPut
from django_qless.signals import job_enqueued
from tests.core.invariants import violations_on
from tests.jobs_app import jobs, secret
from tests.jobs_app.models import Feed, Parcel
from tests.real_servers import Server
from tests.rows_app.models import Source
from tests.testing.jobs import asks_again

BOTH = ["default", "other"]
pytestmark = pytest.mark.django_db(transaction=True, databases=BOTH)


def test_outside_a_transaction_at_once(qless) -> None:
    handle = jobs.add.delay(1)
    assert not handle.pending
    assert qless.get(handle.jid)


def test_inside_one_at_its_commit(qless, work) -> None:
    with transaction.atomic():
        handle = jobs.add.delay(1)
        assert handle.pending
        assert handle.state == "pending"
        assert len(handle.jid) == 20
        assert qless.get(handle.jid) is None
        for ask in (handle.refresh, handle.result, handle.cancel):
            with pytest.raises(
                NotPut, match=rf"Job {handle.jid} .* is not enqueued yet"
            ):
                ask()
    assert not handle.pending
    assert handle.state == handle.refresh().state == "waiting"
    work()
    assert handle.result() == 1


def test_a_rollback_enqueues_nothing(qless) -> None:
    feed = Feed.objects.create()
    with transaction.atomic():
        first = jobs.add.delay(1)
        jobs.add.using(after=[first]).delay(2)
        jobs.add.enqueue_many([jobs.add.args(3)])
        feed.rename.delay("x")
        transaction.set_rollback(True)
    assert qless.queues() == []
    assert (first.pending, first.state) == (False, "rolled back")
    for ask in (first.refresh, first.wait, first.result, first.cancel):
        with pytest.raises(JobGone, match=f"{first.jid} .* because of a rollback"):
            ask()
    with pytest.raises(JobGone):
        wait_all([first])
    with pytest.raises(JobGone):
        async_to_sync(first.arefresh)()


def test_each_handle_says_that_it_was_rolled_back(qless) -> None:
    with transaction.atomic():
        flow = workflow()
        node = flow.add(jobs.add.args(1))
        entity = asks_again.push("a", 1)
        handles = [flow.enqueue(), node.handle, entity]
        schedule = jobs.add.recur(1, every=60, key="k")
        assert {handle.state for handle in handles} == {"pending"}
        transaction.set_rollback(True)
    assert {handle.state for handle in handles} == {"rolled back"}
    for handle in handles[:2]:
        with pytest.raises(JobGone):
            handle.refresh()
    with pytest.raises(ScheduleNotFound):
        schedule.refresh()
    assert entity.refresh().state == "gone"


def test_callbacks_that_wait_their_turn_are_not_rolled_back(qless) -> None:
    states = []
    with transaction.atomic():
        transaction.on_commit(lambda: states.append(handle.state))
        transaction.on_commit(lambda: 1 / 0, robust=True)
        handle = jobs.add.delay(1)
        transaction.on_commit(lambda: states.append(handle.state))
    assert states == ["pending", "waiting"]


def test_callbacks_that_another_one_has_dropped(qless) -> None:
    with suppress(ZeroDivisionError), transaction.atomic():
        transaction.on_commit(lambda: 1 / 0)
        handle = jobs.add.delay(1)
    with pytest.raises(JobGone):
        handle.refresh()


def test_savepoints_are_respected(qless) -> None:
    with transaction.atomic():
        kept = jobs.add.delay(1)
        with transaction.atomic():
            undone = jobs.add.delay(2)
            transaction.set_rollback(True)
        assert (kept.state, undone.state) == ("pending", "rolled back")
        with transaction.atomic():
            inner = jobs.add.delay(3)
        assert qless.queues() == []
    waiting = [job.jid for job in qless.peek("default", 9)]
    assert waiting == [kept.jid, inner.jid]


def test_many_and_after_wait_as_well(qless, work) -> None:
    with transaction.atomic():
        many = jobs.add.enqueue_many(jobs.add.args(i) for i in range(1_000))
        last = jobs.add.using(after=many, queue="last").delay(7)
        none = jobs.add.enqueue_many([])
        assert none == []
        assert qless.queues() == []
    assert qless.queue_counts("default").waiting == 1_000
    assert len(last.refresh().dependencies) == 1_000


def test_each_database_has_its_own_commit(qless) -> None:
    with transaction.atomic(using="other"):
        at_once = jobs.add.delay(1)
        later = jobs.add.using(on_commit="other").delay(2)
        with transaction.atomic():
            default = jobs.add.delay(3)
            assert (at_once.pending, later.pending, default.pending) == (
                False,
                True,
                True,
            )
        assert (later.pending, default.pending) == (True, False)
    assert not later.pending


def test_false_enqueues_at_once(qless) -> None:
    with transaction.atomic():
        handle = jobs.add.using(on_commit=False).delay(1)
        assert qless.get(handle.jid)
        transaction.set_rollback(True)
    assert qless.get(handle.jid)


def test_what_would_be_enqueued_before_its_dependency_is_refused(qless) -> None:
    with transaction.atomic():
        first = jobs.add.delay(1)
        with pytest.raises(NotPut, match=f"enqueued before job {first.jid}"):
            jobs.add.using(after=[first], on_commit=False).delay(2)
    jobs.add.using(after=[first], on_commit=False).delay(2)


def test_the_delay_counts_from_the_commit(qless) -> None:
    with transaction.atomic():
        handle = jobs.add.using(delay=60).delay(1)
        assert handle.state == "pending"
    assert handle.state == "scheduled"


def test_asynchronous_code_with_a_transaction_of_its_own(qless, monkeypatch) -> None:
    # As in a notebook, where Django lets coroutines use a database.
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")

    async def enqueue() -> list[Any]:
        with transaction.atomic():
            handles = [
                await jobs.add.aenqueue(1),
                *await jobs.add.aenqueue_many([jobs.add.args(2)]),
            ]
            assert all(handle.pending for handle in handles)
            assert qless.queues() == []
        with transaction.atomic():
            handles.append(await jobs.add.aenqueue(3))
            transaction.set_rollback(True)
        return handles

    handles = asyncio.run(enqueue())
    assert [handle.state for handle in handles] == [*["waiting"] * 2, "rolled back"]
    assert qless.queue_counts("default").waiting == 2


def test_from_asynchronous_code(qless) -> None:
    async def put():
        return await jobs.add.aenqueue(1)

    assert qless.get(asyncio.run(put()).jid)


class TestRowsOfAnotherDatabase:
    """A job is enqueued when its row is there for others, and what the caller's own
    transaction says is there."""

    @pytest.fixture
    def feed(self) -> Feed:
        return Feed.objects.using("other").create()

    def test_its_commit_is_awaited(self, qless, feed) -> None:
        with transaction.atomic(using="other"):
            handles = [feed.rename.delay("x"), Feed.rename.delay(feed, "y")]
            handles += Feed.rename.enqueue_many([feed.rename.args("z")])
            handles.append(asyncio.run(feed.rename.aenqueue("a")))
            elsewhere = jobs.add.delay(1)
            assert [h.pending for h in handles] == [True, True, True, False]
            assert not elsewhere.pending
        assert not any(h.pending for h in handles)

    def test_commit_of_another_database_is_not_awaited(self, qless, feed) -> None:
        with transaction.atomic():
            assert not feed.rename.delay("x").pending
            with transaction.atomic(using="other"):
                handle = feed.rename.delay("x")
            assert not handle.pending

    def test_rows_of_two_open_transactions_are_refused(self, qless, feed) -> None:
        here = Feed.objects.create()
        with transaction.atomic(), transaction.atomic(using="other"):
            for call in (
                lambda: feed.merge.delay(here),
                lambda: Feed.rename.enqueue_many(
                    [Feed.rename.args(each, "x") for each in (here, feed)]
                ),
            ):
                with pytest.raises(InvalidOption, match="default and other"):
                    call()
            assert feed.merge.using(on_commit="other").delay(here).pending

    def test_a_named_database_is_the_only_one(self, qless, feed) -> None:
        with transaction.atomic(using="other"):
            for on_commit in ("default", False):
                handle = feed.rename.using(on_commit=on_commit).delay("x")
                assert not handle.pending


def test_the_order_of_the_calls_is_kept(qless) -> None:
    with transaction.atomic():
        handles = [jobs.add.delay(1), *jobs.add.enqueue_many([jobs.add.args(2)])]
        with transaction.atomic():
            handles.append(jobs.send_welcome.using(queue="default").delay(3))
        handles.append(jobs.add.delay(4))
    waiting = [job.jid for job in qless.peek("default", 9)]
    # One of them has a higher priority.
    assert waiting == [handles[2].jid, *(handles[i].jid for i in (0, 1, 3))]


class InsideTestCase(TestCase):
    """As in users' own tests: a transaction around each, whose commit never comes.

    It is the test's and not the project's: see tests/testing/test_dispatcher.py.
    """

    @pytest.fixture(autouse=True)
    def _qless(self, qless) -> None:
        self.qless = qless

    def test_it_is_enqueued_at_once(self) -> None:
        handle = jobs.add.delay(1)
        assert not handle.pending
        assert self.qless.get(handle.jid)

    def test_captured_callbacks_enqueue_it_once(self) -> None:
        with self.captureOnCommitCallbacks(execute=True) as callbacks:
            with transaction.atomic():
                handle = jobs.add.delay(1)
                assert handle.pending
            assert self.qless.get(handle.jid)
        assert len(callbacks) == 1
        assert self.qless.queue_counts("default").waiting == 1


def test_what_the_server_refuses_at_the_commit_stops_no_other_job(
    qless, caplog, server: Server
) -> None:
    done: list[str] = []
    with transaction.atomic():
        with transaction.atomic():
            undone = jobs.add.delay(1)
            transaction.set_rollback(True)
        refused = jobs.add.using(after=[undone]).delay(2)
        many = jobs.add.using(after=["nobody"]).enqueue_many(
            [jobs.add.args(3), jobs.add.args(4)]
        )
        flow = workflow("nightly")
        flow.add(jobs.add.using(after=["nobody"]).args(5))
        graph = flow.enqueue()
        kept = jobs.add.delay(6)
        transaction.on_commit(lambda: done.append("called"))
    assert done == ["called"]
    assert kept.refresh().state == "waiting"
    for handle in (refused, *many):
        assert (handle.pending, handle.created) == (False, False)
        with pytest.raises(JobGone):
            handle.refresh()
    assert not graph.pending
    messages = [record.getMessage() for record in caplog.records]
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 4
    assert undone.jid in messages[0]
    assert '"args":[2]' in messages[0]
    assert "workflow nightly was not enqueued" in messages[3]
    assert violations_on(server) == []


def test_sensitive_arguments_of_a_refused_job_are_not_logged(qless, caplog) -> None:
    with transaction.atomic():
        secret.sign_in.using(after=["nobody"]).delay("Ann", "hush")
        secret.Vault.using(after=["nobody"]).delay(pin="hush", box=7)  # type: ignore[attr-defined]
    signing_in, vault = (record.getMessage() for record in caplog.records)
    assert '"args":["Ann","[hidden]"]' in signing_in
    assert '"box":7' in vault
    assert "hush" not in caplog.text


def test_what_would_have_come_before_a_refused_job_is_not_enqueued(
    qless, caplog
) -> None:
    feed = Source.objects.create()
    with transaction.atomic():
        refused = feed.parse.using(after=["nobody"]).delay()
        kept = jobs.add.delay(1)
    assert kept.refresh().state == "waiting"
    assert (refused.pending, refused.created) == (False, False)
    [message] = caplog.messages
    assert f"rows_app.Source.parse {refused.jid} was not enqueued on commit" in message
    assert qless.queue_counts("sources").waiting == 0


def test_of_many_dependencies_one_that_is_unknown_stops_no_other_job(
    qless, caplog, server: Server
) -> None:
    done: list[str] = []
    before = [each.jid for each in jobs.add.enqueue_many([jobs.add.args(0)] * 999)]
    late = jobs.add.using(after=[*before, "nobody"])
    with transaction.atomic():
        one = late.delay(1)
        many = late.enqueue_many([late.args(2), late.args(3)])
        kept = jobs.add.delay(4)
        transaction.on_commit(lambda: done.append("called"))
    assert done == ["called"]
    assert kept.refresh().state == "waiting"
    for handle in (one, *many):
        assert (handle.pending, handle.created) == (False, False)
        with pytest.raises(JobGone):
            handle.refresh()
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 3
    for handle, message in zip((one, *many), messages, strict=True):
        assert f"{handle.jid} was not enqueued on commit" in message
    assert qless.queue_counts("default").depends == 0
    assert violations_on(server) == []


def test_what_is_too_much_for_the_server_at_the_commit_stops_no_other_job(
    qless, caplog
) -> None:
    # A job that takes another's place, with more before and behind it than are looked at.
    many = jobs.add.enqueue_many([jobs.add.args(0)] * 1_000)
    wide = jobs.add.using(after=many).delay(1)
    last = jobs.add.using(unique="last", on_conflict="replace")
    first = last.delay(2)
    jobs.add.using(after=first).enqueue_many([jobs.add.args(0)] * 1_001)
    with transaction.atomic():
        refused = last.using(after=wide).delay(3)
        kept = jobs.add.delay(4)
    assert kept.refresh().state == "waiting"
    assert (refused.pending, refused.created) == (False, False)
    [record] = caplog.records
    assert "more than 1000 jobs" in record.getMessage()


def test_what_a_receiver_raises_at_the_commit_is_not_taken_for_a_refusal(qless) -> None:
    def receiver(sender, handle, **kwargs) -> None:
        raise WrongState("of the receiver's own")

    job_enqueued.connect(receiver)
    try:
        with (
            pytest.raises(WrongState, match="of the receiver's own"),
            transaction.atomic(),
        ):
            handle = jobs.add.delay(1)
    finally:
        job_enqueued.disconnect(receiver)
    assert (handle.pending, handle.created) == (False, True)
    assert handle.refresh().state == "waiting"


def test_payloads_that_are_refused_on_commit_stop_no_job(qless, caplog) -> None:
    parcel = Parcel.objects.create()
    # The queue has entities of another type.
    qless.push("", "parcels", "other.type", [Payload("e", '{"v":1}', "1")])
    with transaction.atomic():
        handle = parcel.track.push({"n": 1})
        kept = jobs.add.delay(1)
    assert kept.refresh().state == "waiting"
    [message] = caplog.messages
    assert message.startswith(
        f"payloads of jobs_app.Parcel.track for {parcel.pk} were not pushed on commit: "
        "push(): Queue parcels has the entities of other.type"
    )
    assert handle.refresh().state == "gone"


@pytest.mark.parametrize("receives", [False, True])
def test_late_replicas_of_several_aliases_are_logged(
    server, caplog, monkeypatch, receives
) -> None:
    def receive(**details: Any) -> None:
        """With a receiver they are sent one after the other."""

    monkeypatch.setattr(dispatch, "dispatcher", dispatch.Dispatcher())
    if receives:
        job_enqueued.connect(receive)
    # There is none.
    given = {"LOCATION": server.url, "REPLICAS": 1}
    aliases = {"default": given, "mail": {**given, "PREFIX": "ql-mail:"}}
    with override_settings(QLESS=aliases, QLESS_ROUTES={"mail": "mail"}):
        with transaction.atomic():
            handles = jobs.add.enqueue_many(
                jobs.add.using(queue=queue).args(1) for queue in ("mail", "default")
            )
        assert len({handle.alias for handle in handles}) == 2
        assert [handle.refresh().state for handle in handles] == ["waiting"] * 2
        told = " ".join(caplog.messages)
        assert "enqueued on commit, but not replicated" in told
        assert all(handle.jid in told for handle in handles)
