"""What is enqueued by way of the outbox: written, delivered at the commit, taken out."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, transaction
from django.test import modify_settings, override_settings
from django.test.utils import CaptureQueriesContext

from django_qless import workflow
from django_qless.exceptions import JobGone
from django_qless.outbox.models import Entry
from django_qless.signals import job_enqueued
from tests.jobs_app import jobs
from tests.jobs_app.models import Feed, Parcel

BOTH = ["default", "other"]
pytestmark = pytest.mark.django_db(transaction=True, databases=BOTH)

kept = jobs.add.using(on_commit="outbox")


def inserts(queries: CaptureQueriesContext) -> list[str]:
    return [each["sql"] for each in queries if each["sql"].startswith("INSERT")]


def test_it_is_in_the_table_until_it_is_delivered(qless, work) -> None:
    with CaptureQueriesContext(connection) as queries, transaction.atomic():
        handle = kept.delay(1)
        [entry] = Entry.objects.all()
        assert (entry.alias, entry.jobs) == ("default", 1)
        assert entry.summary == "tests.jobs_app.jobs.add"
        assert handle.pending
        assert qless.get(handle.jid) is None
    assert len(inserts(queries)) == 1
    assert (handle.state, handle.created) == ("waiting", True)
    assert not Entry.objects.exists()
    work()
    assert handle.result() == 1


def test_a_rollback_undoes_it(qless) -> None:
    with transaction.atomic():
        first = kept.delay(1)
        with transaction.atomic():
            kept.delay(2)
            transaction.set_rollback(True)
        last = kept.delay(3)
    with transaction.atomic():
        undone = kept.delay(4)
        transaction.set_rollback(True)
    assert undone.state == "rolled back"
    with pytest.raises(JobGone):
        undone.refresh()
    assert [job.jid for job in qless.peek("default", 9)] == [first.jid, last.jid]
    assert not Entry.objects.exists()


def test_committed_is_enqueued_when_another_callback_raises(qless, sweep_all) -> None:
    with suppress(ZeroDivisionError), transaction.atomic():
        transaction.on_commit(lambda: 1 / 0)
        handle = kept.delay(1)
    sweep_all()
    assert handle.refresh().state == "waiting"


def test_outside_of_transactions_nothing_is_written(qless) -> None:
    with CaptureQueriesContext(connection) as queries:
        handle = kept.delay(1)
    assert not list(queries)
    assert qless.get(handle.jid)


def test_a_thousand_are_one_insert(qless) -> None:
    with CaptureQueriesContext(connection) as queries, transaction.atomic():
        many = kept.enqueue_many(kept.args(i) for i in range(1000))
    assert len(inserts(queries)) == 1
    assert qless.queue_counts("default").waiting == 1000
    assert many[0].created
    assert not Entry.objects.exists()


def test_no_insert_is_larger_than_databases_take(qless) -> None:
    text = "x" * 400_000
    big = jobs.echo.using(on_commit="outbox")
    with CaptureQueriesContext(connection) as queries, transaction.atomic():
        big.enqueue_many(big.args(text) for _ in range(50))
        assert Entry.objects.count() == 25  # two fit into one call
    assert [len(sql) < 9_000_000 for sql in inserts(queries)] == [True] * 3
    assert qless.queue_counts("default").waiting == 50


def test_a_database_that_tells_no_ids_finds_its_entries(qless, monkeypatch) -> None:
    # As MySQL does not, and SQLite before 3.35.
    features = type(connection.features)
    for name in ("can_return_rows_from_bulk_insert", "can_return_columns_from_insert"):
        monkeypatch.setattr(features, name, False)
    with transaction.atomic():
        handles = kept.enqueue_many([kept.args(n) for n in range(3)])
        other = kept.delay(4)
        assert Entry.objects.count() == 2
    assert not Entry.objects.exists()
    assert all(handle.created for handle in (*handles, other))
    assert qless.queue_counts("default").waiting == 4


@pytest.mark.parametrize(
    "text", ["", "ä€𝄞", "a\r\nb", "\x00", '"\\', "$3\r\nabc\r\n", "%s %(x)s"]
)
def test_arguments_are_kept_as_they_are(qless, work, away, sweep_all, text) -> None:
    with away(), transaction.atomic():
        tagged = jobs.echo.using(on_commit="outbox", tags=["tä g"])
        handle = tagged.delay(text, a=[text])
    assert handle.pending
    assert sweep_all().entries == 1
    assert qless.get(handle.jid).tags == ("tä g",)
    work()
    assert qless.result(handle.jid) == [[text], {"a": [text]}]


def test_workflows_schedules_and_pushes_as_well(qless, work) -> None:
    feed = Feed.objects.create()
    recurring = jobs.add.using(on_commit="outbox")
    parcel = Parcel.objects.create()
    with transaction.atomic():
        flow = workflow("flow", on_commit="outbox")
        last = flow.add(jobs.add.args(2)).after(flow.add(jobs.add.args(1)))
        handle = flow.enqueue()
        recurring.recur(5, every=60)
        Feed.rename.using(on_commit="outbox").delay(feed, "new")
        parcel.track.using(on_commit="outbox").push({"n": 1})
        summaries = list(Entry.objects.order_by("id").values_list("summary", flat=True))
        assert qless.queues() == []
    assert summaries == [
        "workflow flow",
        "schedule tests.jobs_app.jobs.add:recur",
        "jobs_app.Feed.rename",
        "1 × payload of jobs_app.Parcel.track",
    ]
    assert not Entry.objects.exists()
    with transaction.atomic():
        recurring.unrecur()
        assert qless.schedule_list().schedules
    assert not qless.schedule_list().schedules
    work()
    assert last.handle.result() == 2
    assert handle.refresh().state == "complete"


def test_the_alias_may_say_so_for_all(server, work) -> None:
    alias = {"LOCATION": server.url, "ON_COMMIT": "outbox"}
    with override_settings(QLESS={"default": alias}), transaction.atomic():
        jobs.add.delay(1)
        workflow_ = workflow()
        workflow_.add(jobs.add.args(2))
        workflow_.enqueue()
        jobs.add.using(on_commit=True).delay(3)
        jobs.add.using(on_commit=False).delay(4)
        assert Entry.objects.count() == 2


def test_the_database_of_the_rows_decides(qless) -> None:
    feed = Feed.objects.using("other").create()
    renamed = Feed.rename.using(on_commit="outbox")
    with transaction.atomic(using="other"):
        handle = renamed.delay(feed, "x")
        assert Entry.objects.using("other").count() == 1
        with transaction.atomic():
            inner = renamed.delay(feed, "y")
            assert Entry.objects.using("other").count() == 2
            usual = kept.delay(2)
            assert Entry.objects.count() == 1
        assert (usual.pending, inner.pending) == (False, True)
    assert not handle.pending
    assert not Entry.objects.using("other").exists()


def test_asynchronous_forms_see_the_transaction_of_the_synchronous_code(qless) -> None:
    parcel = Parcel.objects.create()

    async def enqueue() -> Any:
        one = await kept.adelay(1)
        many = await kept.aenqueue_many([kept.args(2), kept.args(3)])
        flow = workflow("flow", on_commit="outbox")
        flow.add(jobs.add.args(4))
        await flow.aenqueue()
        await kept.arecur(5, every=timedelta(hours=1))
        await parcel.track.using(on_commit="outbox").apush(1)
        assert await sync_to_async(Entry.objects.count)() == 5
        return one, many[0]

    with transaction.atomic():
        one, other = async_to_sync(enqueue)()
        assert one.pending
        assert qless.queues() == []
    assert one.created
    assert other.created
    assert not Entry.objects.exists()


def test_asynchronous_code_without_a_transaction_enqueues_at_once(qless) -> None:
    handle = asyncio.run(kept.adelay(1))
    assert qless.get(handle.jid)


def test_a_refused_job_costs_only_itself(qless, caplog) -> None:
    with transaction.atomic():
        unknown = kept.using(after=["unknown"]).delay(1)
        fine = kept.delay(2)
        both = kept.enqueue_many([kept.using(after=["gone"]).args(3), kept.args(4)])
    assert (unknown.created, fine.created) == (False, True)
    assert [each.created for each in both] == [False, True]
    assert "was not enqueued on commit" in caplog.text
    assert not Entry.objects.exists()
    assert qless.get(unknown.jid) is None


def test_asynchronous_code_ends_a_schedule_in_its_transaction(qless) -> None:
    kept.recur(1, every=60, key="other")
    other = qless.schedule_list().schedules
    kept.recur(1, every=60, key="one")
    with transaction.atomic():
        async_to_sync(kept.aunrecur)(key="one")
        assert len(qless.schedule_list().schedules) == 2
        assert Entry.objects.count() == 1
    assert qless.schedule_list().schedules == other


def test_a_sweep_may_deliver_it_before_its_commit_does(qless, sweep_all) -> None:
    swept: list[int] = []
    with transaction.atomic():
        transaction.on_commit(lambda: swept.append(sweep_all().entries))
        handle = kept.delay(1)
    assert swept == [1]
    assert (handle.pending, handle.created) == (False, True)
    assert [job.jid for job in qless.peek("default", 9)] == [handle.jid]


def test_a_receiver_that_raises_leaves_it_to_a_sweep(qless, sweep_all) -> None:
    def receiver(**kwargs: Any) -> None:
        raise RuntimeError("receiver")

    job_enqueued.connect(receiver)
    try:
        with pytest.raises(RuntimeError, match="receiver"), transaction.atomic():
            handle = kept.delay(1)
    finally:
        job_enqueued.disconnect(receiver)
    assert handle.created
    sweep_all()
    assert not Entry.objects.exists()
    assert qless.queue_counts("default").waiting == 1


def test_a_project_without_the_app_is_told_the_remedy(qless) -> None:
    with (
        modify_settings(INSTALLED_APPS={"remove": "django_qless.outbox"}),
        pytest.raises(ImproperlyConfigured, match='Add "django_qless'),
        transaction.atomic(),
    ):
        kept.delay(1)


def test_a_database_that_is_not_migrated_is_named(qless) -> None:
    table = Entry._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO aside")
    try:
        with (
            pytest.raises(ImproperlyConfigured, match="migrate django_qless_outbox"),
            transaction.atomic(),
        ):
            kept.delay(1)
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE aside RENAME TO {table}")
