"""Partitions of a queue: the setting, and where a job belongs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from django.test import override_settings

from django_qless import conf
from django_qless.conf import partitions, routing
from django_qless.exceptions import InvalidOption
from tests.routing.test_settings import NAMESPACES, URL, found

KEYS = [f"customer-{number}" for number in range(4000)]


def of(number: Any = 4, **options: Any) -> dict[str, Any]:
    """Return a setting with a queue that is split."""
    queues = {"events": {"partitions": number, "weight": 2}, "mail": {"weight": 1}}
    return {"default": {"LOCATION": URL, "QUEUES": queues, **options}}


def names(number: int) -> list[str]:
    """Return the names of the first partitions."""
    return [f"default/events:{index}" for index in range(number)]


def test_each_partition_is_a_namespace_with_a_derived_prefix() -> None:
    with override_settings(QLESS=of(3)):
        assert conf.alias_names() == ["default", *names(3)]
        assert conf.namespaces_of("default") == ["default", *names(3)]
        assert [conf.alias(name).prefix for name in names(3)] == [
            *("ql-events-0:", "ql-events-1:", "ql-events-2:")
        ]
        assert conf.alias("default").prefix == "ql:"
        assert list(conf.alias("default").queues) == ["mail"]
        assert list(conf.alias("default/events:2").queues) == ["events"]
        assert conf.alias("default/events:2").location == URL
        assert routing.queue_namespaces("default", "events") == tuple(names(3))
        assert routing.queue_namespaces("default", "mail") == ("default",)
        assert routing.queue_namespaces("default/", "events") == ("default",)
        assert routing.shares("default", ["events"]) == [
            (name, ("events",)) for name in names(3)
        ]
        assert routing.shares("default", ["e*", "mail"]) == [
            ("default", ("e*", "mail")),
            *((name, ("e*",)) for name in names(3)),
        ]
    assert found(of(3)) == []


@pytest.mark.parametrize(
    ("queue", "home", "prefix"),
    [
        ("events", "ql:", "ql-events-7:"),
        ("events", "ql", "ql-events-7:"),
        ("events", "{ql}:", "{ql-events-7}:"),
        ("events", "a{ql}b:", "a{ql-events-7}b:"),
        ("a}:b", "{ql}:", "{ql-97b50961b01453b5-7}:"),
    ],
)
def test_prefixes_keep_what_makes_them_valid(
    queue: str, home: str, prefix: str
) -> None:
    assert partitions.prefix(home, queue, 7) == prefix


def test_a_partition_is_where_its_queue_would_be_or_where_namespaces_puts_it() -> None:
    elsewhere = {"LOCATION": "redis://10.0.0.3:6379/0"}
    queues = {"report.x": {"partitions": 2}, "mail": {"partitions": 2}}
    setting = of(QUEUES=queues, NAMESPACES={**NAMESPACES, "mail:1": elsewhere})
    assert found(setting) == []
    with override_settings(QLESS=setting):
        aliases = [conf.alias(name) for name in conf.namespaces_of("default")]
        assert [(each.name, each.prefix, each.location) for each in aliases[2:]] == [
            ("default/report.*", "{ql-r}:", "redis://10.0.0.2:6379/0"),
            ("default/report.x:0", "{ql-r-report.x-0}:", "redis://10.0.0.2:6379/0"),
            ("default/report.x:1", "{ql-r-report.x-1}:", "redis://10.0.0.2:6379/0"),
            ("default/mail:0", "{ql-mail-mail-0}:", URL),
            ("default/mail:1", "{ql-mail-mail-1}:", "redis://10.0.0.3:6379/0"),
        ]
        assert routing.namespace_of("default", "mail:1") == "default"


@pytest.mark.parametrize("number", [0, 65, 2.0, True, "2", None])
def test_only_a_number_of_partitions_is_one(number: Any) -> None:
    [(check, text)] = found(of(number))
    assert check == "E064"
    assert "a whole number from 1 to 64" in text


def test_a_queue_whose_partitions_would_have_too_long_names_is_refused() -> None:
    [(check, text)] = found(of(QUEUES={"q" * 91: {"partitions": 2}}))
    assert check == "E064"
    assert "more than 100 characters" in text
    assert found(of(QUEUES={"q" * 90: {"partitions": 2}})) == []


def test_one_partition_is_the_queue_itself() -> None:
    with override_settings(QLESS=of(1)):
        assert conf.namespaces_of("default") == ["default"]
        assert routing.partitions_of("default", "events") == ()


@pytest.mark.parametrize(
    ("options", "check", "words"),
    [
        ({"NAMESPACES": {"": "ql:", "a": "ql-events-1:"}}, "E048", "'events:1'"),
        ({"PREFIX": "{ql}:", "NAMESPACES": {"": "ql:"}}, "E047", "both say"),
        ({"NAMESPACES": {"": "ql:", "events:4": {"LOCATION": URL}}}, "E047", "PREFIX"),
        ({"CLUSTER": [URL], "LOCATION": None, "PREFIX": "ql:"}, "E046", "hash tag"),
        (
            {
                "CLUSTER": [URL],
                "LOCATION": None,
                "NAMESPACES": {"": "{ql}:", "a": "{ql-events-0}x:"},
            },
            "E048",
            "one hash tag",
        ),
    ],
)
def test_what_would_collide_is_refused(
    options: dict[str, Any], check: str, words: str
) -> None:
    problems = found(of(**options))
    assert any(number == check and words in text for number, text in problems)


def test_a_partition_called_like_an_alias_is_refused() -> None:
    setting = of() | {"default/events:3": {"LOCATION": URL}}
    assert "E064" in {check for check, _ in found(setting)}


def test_a_queue_for_failed_jobs_must_be_in_the_same_namespace() -> None:
    queues = {"events": {"partitions": 2, "failed_queue": "dead"}}
    [(check, text)] = found(of(QUEUES=queues))
    assert check == "E049"
    assert "'default/events:0' and 'default'" in text


def test_keys_stick_and_are_spread() -> None:
    with override_settings(QLESS=of(4)):
        where = {
            key: routing.job_namespace("default", "events", key=key) for key in KEYS
        }
        assert where == {
            key: routing.job_namespace("default", "events", key=key, jid="any")
            for key in KEYS
        }
        shares = Counter(where.values())
        assert set(shares) == set(names(4))
        assert all(900 < number < 1100 for number in shares.values())
        assert routing.job_namespace("default", "mail", key="k") == "default"
        # Whoever names a partition asks about the whole queue.
        name = routing.job_namespace("default/events:0", "events", key=KEYS[0])
        assert name == where[KEYS[0]]


def test_when_partitions_are_added_only_the_share_of_these_moves() -> None:
    for before, after in ((4, 8), (8, 4), (4, 5)):
        moved = sum(
            partitions.index_of(key, before) != partitions.index_of(key, after)
            for key in KEYS
        )
        share = abs(after - before) / max(after, before)
        assert share * 0.9 < moved / len(KEYS) < share * 1.1


@pytest.mark.parametrize(
    ("number", "expected"),
    [(2, [0, 0, 0, 0, 1]), (3, [2, 0, 0, 0, 1]), (64, [62, 11, 3, 45, 59])],
)
def test_a_key_keeps_its_partition_for_ever(number: int, expected: list[int]) -> None:
    """Jobs of a key that another version has put are in the same partition."""
    some = ("", "a", "order-17", "Müller", "x" * 300)
    assert [partitions.index_of(key, number) for key in some] == expected


def test_jobs_without_a_key_take_turns() -> None:
    with override_settings(QLESS=of(4)):
        turns = [routing.job_namespace("default", "events") for _ in range(40)]
    assert Counter(turns) == dict.fromkeys(names(4), 10)


def test_a_drawn_jid_says_where_its_job_belongs_and_others_by_hash() -> None:
    with override_settings(QLESS=of(8)):
        for name in names(8):
            jid = routing.jid_maker(name)()
            assert routing.job_namespace("default", "events", jid=jid) == name
            assert routing.likely_namespaces("default", jid) == [name]
            # Of a job that is kept together with others the key decides.
            assert routing.job_namespace(
                "default", "events", jid=jid, key="a"
            ) == routing.job_namespace("default", "events", key="a")
        given = routing.job_namespace("default", "events", jid="order-17")
        assert given == routing.job_namespace("default", "events", jid="order-17")
        drawn = routing.jid_maker("default/events:7")()
    with override_settings(QLESS=of(4)):
        assert routing.job_namespace("default", "events", jid=drawn) in names(4)


def test_a_schedule_stays_where_it_is_when_its_job_is_renamed() -> None:
    with override_settings(QLESS=of(8)):
        of_row = routing.schedule_namespace("default", "events", "shop.old:17")
        assert of_row == routing.schedule_namespace("default", "events", "shop.new:17")
        rows = {
            routing.schedule_namespace("default", "events", f"shop.new:{number}")
            for number in range(100)
        }
        assert rows == set(names(8))


def test_an_alias_may_name_a_partition_of_its_queue_only() -> None:
    with override_settings(QLESS=of(4)):
        assert routing.namespace_of("default/events:2", "events") == "default/events:2"
        routing.check_stays("it", "default/events:2", "events", "events")
        with pytest.raises(InvalidOption, match="'mail' to 'default'"):
            routing.namespace_of("default/events:2", "mail")
        with pytest.raises(InvalidOption, match="in namespace 'default/events:2'"):
            routing.check_stays("it", "default/events:2", "events", "mail")
