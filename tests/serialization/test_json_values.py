"""Arguments and results as JSON: what travels, what does not, and how that is told."""

from __future__ import annotations

import enum
import json
from collections import OrderedDict, UserDict, namedtuple
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.db import models
from django.utils.translation import gettext_lazy

from django_qless.core import TooBig
from django_qless.exceptions import Fail, RowGone, UnserialisableArgument
from django_qless.serialization import envelope as arguments
from django_qless.serialization import json_values
from tests.jobs_app import jobs
from tests.jobs_app.models import Feed, Parcel, ProxyFeed

BERLIN = ZoneInfo("Europe/Berlin")

VALUES = [
    *(None, True, False, 0, -1, 2**63, 10**30, 1.5, 1e300, "", "plain", "ä€😀\n\0"),
    *([], {}, [[]], [{}], {"a": []}, {"": ""}, [1, "a", None, {"b": [True]}]),
    datetime(2030, 1, 31, 12, 30, 15, 123456),
    datetime(2030, 1, 31, 12, 30, tzinfo=timezone.utc),
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


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        ((1, (2, Decimal(3))), [1, [2, Decimal(3)]]),
        (Point(1, 2), [1, 2]),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (MappingProxyType({"a": (1,)}), {"a": [1]}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        ([UserDict(a=MappingProxyType({"b": "c"}))], [{"a": {"b": "c"}}]),
        (MappingProxyType({"$a": 1}), {"$a": 1}),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        ({Colour.RED: Level.HIGH}, {"red": 3}),
    ],
)
def test_relatives_arrive_as_what_json_has(value, arrives) -> None:
    assert arguments.decode(arguments.encode("a.job", (value,), {})).args == [arrives]


def nested(levels: int, of: type = list) -> Any:
    """Return a value within so many lists, or dicts."""
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
