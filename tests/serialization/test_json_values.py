"""Arguments and results as JSON: what travels, what does not, and how that is told."""

from __future__ import annotations

import enum
import json
import re
from collections import OrderedDict, UserDict, namedtuple
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from time import gmtime
from types import MappingProxyType
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.db import models
from django.http import QueryDict
from django.utils.datastructures import MultiValueDict
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy
from hypothesis import given, settings
from hypothesis import strategies as st

from django_qless.core import TooBig
from django_qless.exceptions import (
    Fail,
    InvalidOption,
    RowGone,
    UnserialisableArgument,
)
from django_qless.serialization import envelope as arguments
from django_qless.serialization import json_values
from django_qless.testing import captured_jobs
from tests.jobs_app import jobs
from tests.jobs_app.models import Feed, Parcel, ProxyFeed

BERLIN = ZoneInfo("Europe/Berlin")

VALUES = [
    *(None, True, False, 0, -1, 2**63, 10**30, 1.5, 1e300, "", "plain", "ä€😀\n\0"),
    *([], {}, [[]], [{}], {"a": []}, {"": ""}, [1, "a", None, {"b": [True]}]),
    datetime(2030, 1, 31, 12, 30, 15, 123456),
    datetime(2030, 1, 31, 12, 30, tzinfo=UTC),
    datetime(2030, 7, 31, 12, 30, tzinfo=BERLIN),
    date(2030, 1, 31),
    time(23, 59, 59, 1),
    timedelta(days=400, seconds=1, microseconds=3),
    -timedelta(hours=1, microseconds=7),
    Decimal("1.10"),
    Decimal("-1E+40"),
    UUID(int=2**127),
    {"when": [datetime(2030, 1, 1), {"deep": Decimal("0.1")}]},
    {"$uuid": "not one", "$": 1, "x": {"$model": "auth.User", "pk": 1}},
    {"$dict": {"$dict": {"$decimal": "1"}}},
    {"$dict": date(2030, 1, 1)},
    "$uuid",
    ['"$model"'],
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_come_back_as_they_were(value) -> None:
    envelope = arguments.decode(arguments.encode("a.job", (value,), {"name": value}))
    assert envelope.args == [value]
    assert envelope.kwargs == {"name": value}
    assert type(envelope.args[0]) is type(value)
    assert (
        json_values.revive(json.loads(json_values.encode_value(value, "it"))) == value
    )


def test_values_survive_the_server(qless, work) -> None:
    handle = jobs.echo.delay(*VALUES, named=VALUES)
    assert handle.refresh().data == handle.data
    work()
    assert handle.result() == [VALUES, {"named": VALUES}]


class Colour(models.TextChoices):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Role(enum.StrEnum):
    STAFF = "staff"


Point = namedtuple("Point", "x y")


class Metres(float):
    pass


class Moment(datetime):
    pass


class Caseless(str):
    """A text whose equality is not that of what travels."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Caseless) and self.lower() == other.lower()


@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        ((1, (2, Decimal(3))), [1, [2, Decimal(3)]]),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (MappingProxyType({"a": (1,)}), {"a": [1]}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        ([UserDict(a=MappingProxyType({"b": "c"}))], [{"a": {"b": "c"}}]),
        (MappingProxyType({"$a": 1}), {"$a": 1}),
        (mark_safe("<b>"), "<b>"),
        ({mark_safe("<b>"): Metres(1.5)}, {"<b>": 1.5}),
        (OrderedDict(a=(1,)), {"a": [1]}),
        (Moment(2030, 1, 31, tzinfo=BERLIN), datetime(2030, 1, 31, tzinfo=BERLIN)),
    ],
)
def test_relatives_arrive_as_what_json_has(value, arrives) -> None:
    assert arguments.decode(arguments.encode("a.job", (value,), {})).args == [arrives]


CHANGING = [
    (
        QueryDict("tag=a&tag=b"),
        r"QueryDict .*pass its \.dict\(\), or dict\(value\.lists",
    ),
    (QueryDict(""), r"pass its \.dict\(\)"),
    (Point(1, 2), r"Point cannot .*pass its \._asdict\(\), or list\(value\)"),
    (Colour.RED, r"Colour cannot .*pass its \.value"),
    (Level.HIGH, r"Level cannot .*pass its \.value"),
    (Role.STAFF, r"Role cannot .*pass its \.value"),
    ({Colour.RED: 1}, r"Colour cannot .*pass its \.value"),
    (Caseless("A"), "arrive as a str that is not equal to it: make it a str"),
    (gmtime(0), r"struct_time cannot .*make it a list"),
]


@pytest.mark.parametrize(("value", "message"), CHANGING)
def test_values_that_would_change_are_refused(qless, value, message) -> None:
    for place, wrapped in (("", value), (r"\['a'\]\[0\]", {"a": [value]})):
        with pytest.raises(UnserialisableArgument, match=f"1{place}: .*{message}"):
            jobs.echo.delay(wrapped)
        with pytest.raises(UnserialisableArgument, match=f"Digger: data: .*{message}"):
            jobs.Digger.delay(wrapped)
        with pytest.raises(InvalidOption, match=f"app_data must .*{message}"):
            jobs.echo.using(app_data={"b": wrapped})
    assert qless.queues() == []


@pytest.mark.parametrize(("value", "message"), CHANGING)
def test_results_that_would_change_fail(
    qless, work, monkeypatch, value, message
) -> None:
    monkeypatch.setattr(jobs, "to_return", value)
    handle = jobs.returns_it.delay()
    work()
    failure = handle.refresh().failure
    assert failure.group == "bad-result"
    assert re.search(message, failure.message)


zones = st.sampled_from([None, UTC, BERLIN, ZoneInfo("America/St_Johns")])
times = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=zones)
scalars = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.dates()),
    *(times, times.map(lambda time: time.timetz()), st.timedeltas(), st.uuids()),
    *(st.decimals(allow_nan=False), st.text().map(mark_safe)),
    *(st.floats().map(Metres), st.text().map(Caseless)),
    st.sampled_from([Colour.RED, Level.HIGH, Point(1, 2)]),
)
keys = st.text(max_size=3) | st.sampled_from(["$", "$uuid", Role.STAFF, 1])
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner),
        st.dictionaries(keys, inner),
        st.dictionaries(st.text(), inner).map(OrderedDict),
        st.dictionaries(st.text(), st.lists(inner)).map(MultiValueDict),
    ),
    max_leaves=5,
)


def comparable(value: Any) -> Any:
    """Replace aware datetimes: in an hour that comes twice they equal none elsewhere."""
    if isinstance(value, dict):
        return {key: comparable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [comparable(each) for each in value]
    if isinstance(value, datetime) and value.tzinfo:
        return value.astimezone(UTC)
    return value


@settings(max_examples=300, derandomize=True, deadline=None, database=None)
@given(values)
def test_accepted_values_come_back_equal(value) -> None:
    with captured_jobs() as captured:
        try:
            jobs.echo.delay(value)
        except UnserialisableArgument:
            assert captured == []
        else:
            assert comparable(list(captured[0].args)) == comparable([value])


def nested(levels: int, of: type = list) -> Any:
    """Return a value within a number of lists, or dicts."""
    value: Any = Decimal(1)
    for _ in range(levels):
        value = [value] if of is list else {"a": value}
    return value


@pytest.mark.parametrize("of", [list, dict])
def test_a_hundred_levels_may_be_nested(of: type) -> None:
    deepest = nested(100, of)
    assert arguments.decode(arguments.encode("a.job", (deepest,), {})).args == [deepest]
    with pytest.raises(UnserialisableArgument, match="deeper than 100 levels"):
        arguments.encode("a.job", (nested(101, of),), {})


def circular() -> list[object]:
    inner: list[object] = []
    inner.append([inner])
    return inner


class Thing:
    pass


class WithJid:
    jid = "x"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Thing(), "a value of type tests.serialization.test_json_values.Thing cannot"),
        (b"bytes", r"type bytes cannot travel as JSON: pass base64\.b64encode"),
        ({1, 2}, "type set cannot travel as JSON: pass a list"),
        ({1: 2}, "the key 1 is of type int"),
        ([{"a": {None: 1}}], r"\[0\]\['a'\]: the key None is of type NoneType"),
        ([1, {"a": Thing()}], r"\[1\]\['a'\]: a value of type"),
        (float("nan"), "no word for nan and infinity"),
        ([float("inf")], "no word for nan and infinity"),
        (Decimal, "type type cannot"),
        (gettext_lazy("text"), r"it is a lazy text, so pass str\(text\)"),
        (circular(), "nested deeper than 100 levels, or within itself"),
        (WithJid(), "pass its jid"),
        ("\ud800", "half of a surrogate pair"),
        (Feed(), r"this jobs_app\.Feed is not in the database: save it first"),
        (Parcel(), r"this jobs_app\.Parcel is not in the database: save it first"),
        (Feed.objects.all(), r"pass list\(queryset\), or the primary keys"),
        (lambda: 1, "type function cannot"),
        (enum.Enum("E", "A").A, "cannot travel as JSON"),
    ],
)
def test_what_cannot_travel_is_named(qless, value, message) -> None:
    where = "" if message.startswith("half") else "argument 2.*"
    with pytest.raises(UnserialisableArgument, match=f"jobs.echo: .*{where}{message}"):
        jobs.echo.delay(1, value)
    where = "" if message.startswith("half") else "argument 'name'.*"
    with pytest.raises(UnserialisableArgument, match=f"{where}{message}"):
        jobs.echo.args(1, name=value)
    assert qless.queues() == []


def test_too_much_is_refused_with_its_size(qless) -> None:
    fits = "x" * (512 * 1024 - len('{"v":1,"args":[""]}'))
    handle = jobs.echo.delay(fits)
    assert len(handle.refresh().data) == 512 * 1024
    for much, size in [(fits + "x", "524,289"), ("ä" * 300_000, "600,019")]:
        with pytest.raises(TooBig, match=rf"jobs\.echo: .* {size} bytes.*524,288"):
            jobs.echo.delay(much)
    assert qless.queue_counts("default").waiting == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("[1]", "no envelope"),
        ('{"args":[1]}', "no envelope"),
        ('"text"', "no envelope"),
        ('{"v":2}', "an envelope of version 2"),
        ('{"v":1,"args":[{"$set":[1]}]}', r"cannot read a '\$set'"),
    ],
)
def test_foreign_data_fails_in_a_group(qless, work, data, message) -> None:
    qless.put("", "default", "x", "tests.jobs_app.jobs.echo", data, retries=3)
    assert work() == 1
    failure = qless.get("x").failure
    assert failure.group == "bad-arguments"
    assert message.replace("\\", "") in failure.message
    assert qless.get("x").data == data


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
class TestRows:
    def test_instances_travel_as_references(self, qless, work) -> None:
        feed = Feed.objects.create(title="before")
        parcel = Parcel.objects.using("other").create()
        handle = jobs.echo.delay(feed, [parcel])
        assert json.loads(handle.data)["args"] == [
            {"$model": "jobs_app.Feed", "pk": feed.pk},
            [
                {
                    "$model": "jobs_app.Parcel",
                    "pk": {"$uuid": str(parcel.pk)},
                    "db": "other",
                }
            ],
        ]
        Feed.objects.update(title="after")
        loaded, [other] = arguments.decode(handle.data).args
        assert (type(loaded), loaded.pk, loaded.title) == (Feed, feed.pk, "after")
        assert (other, other._state.db) == (parcel, "other")
        work()
        assert handle.result() == [[feed, [parcel]], {}]

    def test_a_key_that_is_a_choice_travels_as_its_value(self) -> None:
        feed = Feed.objects.create(pk=Level.HIGH)
        assert '"pk":3}' in (data := arguments.encode("a.job", (feed,), {}))
        assert arguments.decode(data).args == [feed]

    def test_a_deferred_instance_is_loaded_whole(self) -> None:
        feed = Feed.objects.create(title="t")
        bare = Feed.objects.only("pk").get()
        loaded = arguments.decode(arguments.encode("a.job", (bare,), {})).args[0]
        assert loaded == feed
        assert not loaded.get_deferred_fields()

    def test_a_proxy_stays_one(self) -> None:
        Feed.objects.create()
        proxy = ProxyFeed.objects.get()
        loaded = arguments.decode(arguments.encode("a.job", (proxy,), {})).args[0]
        assert type(loaded) is ProxyFeed

    def test_a_row_that_is_gone_fails_in_a_group(self, qless, work) -> None:
        feed = Feed.objects.create()
        handle = jobs.echo.using(retries=5).delay(feed)
        pk = feed.pk
        feed.delete()
        assert work() == 1
        failure = handle.refresh().failure
        assert failure.group == "row-gone"
        assert f"jobs_app.Feed {pk} is gone" in failure.message

    def test_a_model_that_is_gone_is_like_a_row(self) -> None:
        with pytest.raises(RowGone, match=r"jobs_app\.Nothing is not a model"):
            json_values.revive({"$model": "jobs_app.Nothing", "pk": 1})
        assert issubclass(RowGone, Fail)


def test_a_number_with_more_digits_than_python_writes(qless) -> None:
    for call in (
        lambda: jobs.add.delay(10**5000),
        lambda: jobs.add.delay(1, b=10**5000),
        lambda: jobs.echo.delay([10**5000]),
    ):
        with pytest.raises(UnserialisableArgument, match=r"argument .*digits"):
            call()
    assert qless.queues() == []


def test_enum_members_name_things_by_their_value(qless) -> None:
    by_role = jobs.echo.using(queue=Role.STAFF, tags=[Role.STAFF], unique=Role.STAFF)
    first = by_role.delay().refresh()
    assert (first.queue, first.tags) == ("staff", ["staff"])
    second = jobs.echo.using(queue="staff", unique=lambda: "staff").delay()
    assert second.jid == first.jid
