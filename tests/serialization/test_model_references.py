"""Rows as references: keys of all kinds, databases, many at once, rows that are gone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connections, transaction
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_qless.exceptions import InvalidJob, RowGone, UnserialisableArgument
from django_qless.job_types.registry import registry
from django_qless.serialization import envelope as arguments
from django_qless.serialization import json_values, model_references
from tests.jobs_app.models import Feed, Parcel
from tests.rows_app import jobs
from tests.rows_app.models import (
    Capital,
    Country,
    Note,
    Seat,
    Spare,
    Stamp,
    Swappable,
    Wheel,
)

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def travelled(value: Any) -> Any:
    return arguments.decode(arguments.encode("a.job", (value,), {})).args[0]


class TestKeys:
    def test_a_text(self, qless, work) -> None:
        handle = Country.objects.create(code="DE").greet.delay()
        assert json.loads(handle.data)["row"] == "DE"
        work()
        assert handle.result() == "hello DE"

    def test_another_row_s(self, qless, work) -> None:
        country = Country.objects.create(code="FR")
        capital = Capital.objects.create(country=country, name="Paris")
        handle = capital.greet.delay()
        assert json.loads(handle.data)["row"] == "FR"
        work()
        assert handle.result() == "hello Paris of FR"
        assert travelled([capital]) == [capital]

    def test_two_columns(self, qless, work) -> None:
        seats = [Seat.objects.create(row=row, number=9) for row in "ABC"]
        handle = seats[0].reserve.delay(*seats[1:])
        assert json.loads(handle.data) == {
            "v": 1,
            "row": ["A", 9],
            "args": [
                {"$model": "rows_app.Seat", "pk": ["B", 9]},
                {"$model": "rows_app.Seat", "pk": ["C", 9]},
            ],
        }
        work()
        assert handle.result() == ["A9", "B9", "C9"]
        for seat in (Seat(), Seat(row="Z"), Seat(row="A", number=9)):
            with pytest.raises(UnserialisableArgument, match="save it first"):
                seat.reserve.delay()
        handle = seats[0].reserve.delay()
        seats[0].delete()
        work()
        assert handle.refresh().failure.message == "rows_app.Seat (A, 9) is gone"

    def test_many_of_two_columns(self) -> None:
        Seat.objects.bulk_create(Seat(row="A", number=n) for n in range(1001))
        assert travelled(list(Seat.objects.all())) == list(Seat.objects.all())

    def test_what_json_does_not_have(self, qless, work) -> None:
        stamp = Stamp.objects.create(id=b"\x00\xff")
        handle = stamp.press.delay()
        assert json.loads(handle.data)["row"] == "AP8="
        work()
        assert handle.result() == "00ff"

    def test_those_of_a_parent(self, qless, work) -> None:
        Wheel.objects.create(size=1)
        spare = Spare.objects.create(code="x", size=28)
        own, as_parent = spare.turn.delay(), super(Spare, spare).turn.delay()
        given = Wheel.turn.delay(spare)
        assert json.loads(own.data)["row"] == "x"
        assert json.loads(as_parent.data)["row"] == spare.wheel_id
        work()
        assert own.result() == ["spare", "x", 28]
        assert as_parent.result() == given.result() == ["Wheel", spare.wheel_id, 28]


class TestManyRows:
    def test_one_query_for_each_model_and_database(self, django_assert_num_queries):
        feeds = [Feed.objects.create() for _ in range(100)]
        parcels = [Parcel.objects.using("other").create() for _ in range(100)]
        given = {"feeds": feeds, "parcels": [parcels], "$again": {"$x": feeds[0]}}
        text = arguments.encode("a.job", (feeds[:50], given), {"one": feeds[7]})
        with (
            django_assert_num_queries(1),
            CaptureQueriesContext(connections["other"]) as other,
        ):
            envelope = arguments.decode(text)
        assert len(other) == 1
        assert envelope.args == [feeds[:50], given]
        assert envelope.kwargs == {"one": feeds[7]}

    def test_more_than_one_query_may_ask_for(self, monkeypatch) -> None:
        monkeypatch.setattr(model_references, "MOST_KEYS", 4)
        feeds = [Feed.objects.create() for _ in range(9)]
        with CaptureQueriesContext(connections["default"]) as queries:
            assert travelled(feeds) == feeds
        assert len(queries) == 3

    def test_the_same_row_is_the_same_object(self) -> None:
        feed = Feed.objects.create()
        one, [two] = travelled([feed, [Feed.objects.get()]])
        assert one is two

    def test_keys_are_compared_as_the_field_does(self) -> None:
        feeds = [Feed.objects.create(), Feed.objects.create()]
        for feed in feeds:
            feed.pk = str(feed.pk)
        assert [feed.pk for feed in travelled(feeds)] == [int(f.pk) for f in feeds]

    def test_the_one_that_is_gone_is_named(self) -> None:
        feeds = [Feed.objects.create() for _ in range(3)]
        text = json_values.encode_value(feeds, "it")
        gone = feeds[1].pk
        feeds[1].delete()
        with pytest.raises(RowGone, match=rf"jobs_app\.Feed {gone} is gone"):
            json_values.revive(json.loads(text))

    def test_keys_of_another_kind_are_gone(self) -> None:
        Parcel.objects.create()
        for keys in (["x"], ["x", "y"], ["x", str(Parcel.objects.get().pk)]):
            marked = [{"$model": "jobs_app.Parcel", "pk": key} for key in keys]
            with pytest.raises(
                model_references.ModelChanged, match="not of this kind any more"
            ):
                json_values.revive(marked)


class TestDatabases:
    def test_the_one_where_it_would_be_saved(self, qless, work) -> None:
        parcel = Parcel.objects.using("other").create()
        with override_settings(DATABASE_ROUTERS=["tests.rows_app.routers.Replica"]):
            read = Parcel.objects.create()
            assert Parcel.objects.db == "other"
            assert json.loads(parcel.send.delay().data)["db"] == "other"
            read._state.db = "other"  # as if a replica had given it
            handle = read.send.using(on_commit=False).delay()
        assert "db" not in json.loads(handle.data)
        work()
        assert handle.result() == f"sent {read.pk}"

    def test_its_commit_is_waited_for(self, qless, work) -> None:
        with transaction.atomic(using="other"):
            parcel = Parcel.objects.using("other").create()
            with transaction.atomic():
                handle = parcel.send.delay()
            assert handle.pending
            assert qless.get(handle.jid) is None
        work()
        assert handle.result() == f"sent {parcel.pk}"

    def test_so_are_those_of_rows_among_the_arguments(self, qless, work) -> None:
        with transaction.atomic(using="other"):
            parcel = Parcel.objects.using("other").create()
            handles = [
                jobs.keys_of.delay(deep=parcel),
                jobs.quietly.delay([parcel]),
                *jobs.quietly.enqueue_many([jobs.quietly.args([parcel])]),
            ]
            assert all(handle.pending for handle in handles)
            assert not jobs.quietly.delay([{"db": "other"}]).pending
        work()
        assert handles[0].result() == [[], {"deep": parcel.pk}]
        assert [handle.result() for handle in handles[1:]] == [1, 1]

    def test_rolled_back_it_is_not_enqueued(self, qless) -> None:
        with transaction.atomic():
            handle = Country.objects.create(code="XX").greet.delay()
            transaction.set_rollback(True)
        assert qless.get(handle.jid) is None

    def test_deferred_fields_are_loaded(self, qless, work) -> None:
        Note.objects.create(text="long")
        for note in (Note.objects.only("pk").get(), Note.objects.defer("text").get()):
            handle = note.purge.delay()
            work()
            assert handle.result() == "purged long"


class TestManagers:
    def test_rows_that_the_default_manager_hides_are_found(self, qless, work) -> None:
        note = Note.objects.create(text="t", deleted=True)
        assert not Note.objects.exists()
        handles = [note.purge.delay(), jobs.keys_of.delay(note, again=[note][0])]
        work()
        assert handles[0].result() == "purged t"
        assert handles[1].result() == [[note.pk], {"again": note.pk}]

    def test_a_swapped_model_has_no_jobs(self) -> None:
        assert Swappable._meta.swapped
        assert registry.get("rows_app.Swappable.act") is None
        with pytest.raises(InvalidJob, match="not one of a model of this project"):
            Swappable(pk=1).act.delay()
        with pytest.raises(RowGone, match=r"has been swapped for rows_app\.Note"):
            json_values.revive({"$model": "rows_app.Swappable", "pk": 1})


class TestGone:
    def test_it_fails_at_once(self, qless, work) -> None:
        note = Note.objects.create()
        handle = note.purge.using(retries=5).delay()
        note.delete()
        assert work() == 1
        assert handle.refresh().failure.group == "row-gone"

    def test_or_is_dropped_quietly(self, qless, each_work) -> None:
        note, other = Note.objects.create(), Note.objects.create()
        handles = [note.tidy.delay(), note.atidy.delay()]
        handles.append(jobs.quietly.delay([other, note]))
        fine = other.tidy.delay()
        pk = note.pk
        note.delete()
        assert each_work() == 4
        for handle in handles:
            assert handle.result() is None
            now = handle.refresh()
            assert now.state == "complete"
            [said] = [e for e in now.history if e["what"] == "row-gone"]
            assert said["reason"] == f"rows_app.Note {pk} is gone"
        assert fine.result() == "tidied"

    def test_but_not_if_the_model_is_another(self, qless, work) -> None:
        # A worker with newer or older code may know better.
        data = json.dumps({"v": 1, "args": [[{"$model": "rows_app.Gone", "pk": 1}]]})
        qless.put("", "default", "x", "tests.rows_app.jobs.quietly", data, retries=3)
        work()
        assert qless.get("x").failure.group == "row-gone"

    def test_what_depends_on_it_goes_on(self, qless, work) -> None:
        note = Note.objects.create()
        first = note.tidy.delay()
        second = jobs.keys_of.using(after=first).delay()
        note.delete()
        work()
        assert second.result() == [[], {}]

    def test_each_attempt_loads_it_anew(self, qless, work) -> None:
        note = Note.objects.create(text="a")
        handle = note.purge.delay()
        [reserved] = qless.settle("w", [], 1, ["*"]).jobs
        Note.objects.update(text="b")
        qless.retry(reserved.jid, "default", reserved.token)
        work()
        assert handle.result() == "purged b"
