"""What an option may be: the last value that is taken, and the first that is not."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from django_qless import exponential, job
from django_qless.exceptions import Fail, InvalidOption, JobLost, Retry, ShuttingDown
from django_qless.job_types.options import Options

MOMENT = datetime(2030, 1, 1, 12, tzinfo=UTC)
LONGEST_NAME = "n" * 255
MANY_TAGS = [f"tag-{number}" for number in range(32)]
# As JSON it is as many bytes as are allowed.
LARGEST_DATA = {"a": "x" * (32 * 1024 - len('{"a":""}'))}


def made(name: str, value: Any, **others: Any) -> Any:
    """Return what an option holds that was given this value."""
    return getattr(Options().changed("shop.send", **{name: value}, **others), name)


def test_the_defaults() -> None:
    assert asdict(Options()) == {
        "queue": "default",
        "alias": None,
        "priority": 0,
        "delay": 0,
        "run_at": None,
        "expires": None,
        "retries": 3,
        "backoff": None,
        "retry_on": (),
        "fail_on": (),
        "timeout": None,
        "hard_timeout": None,
        "tags": (),
        "after": (),
        "after_names": (),
        "on_failure": "block",
        "unique": None,
        "unique_for": "running",
        "on_conflict": "keep",
        "debounce": None,
        "sensitive": (),
        "missing": "fail",
        "on_commit": None,
        "jid": None,
        "result_ttl": 3600,
        "app_data": "",
        "max_concurrency": None,
        "rate": None,
        "concurrency_key": None,
        "fair_by": None,
        "detached": False,
        "entity": False,
        "batch_size": 1,
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("queue", LONGEST_NAME),
        ("queue", "q"),
        ("jid", LONGEST_NAME),
        ("jid", None),
        ("jid", "history"),
        ("priority", 2**31 - 1),
        ("priority", -(2**31) + 1),
        ("retries", 0),
        ("retries", 2**31 - 1),
        ("delay", 0),
        ("delay", 1e10),
        ("timeout", 0.001),
        ("timeout", 1e10),
        ("timeout", None),
        ("hard_timeout", 0.001),
        ("hard_timeout", None),
        ("expires", 0.001),
        ("expires", 1e10),
        ("expires", None),
        ("debounce", 0.001),
        ("debounce", None),
        ("result_ttl", 0),
        ("backoff", 0),
        ("backoff", 1e10),
        ("backoff", exponential()),
        ("on_failure", "block"),
        ("on_failure", "cancel"),
        ("on_failure", "run"),
        ("missing", "fail"),
        ("missing", "ignore"),
        ("on_commit", None),
        ("on_commit", True),
        ("on_commit", False),
        ("on_commit", "other"),
        ("run_at", None),
        ("run_at", MOMENT),
    ],
)
def test_what_is_taken_as_it_is(name: str, value: Any) -> None:
    assert made(name, value) == value


@pytest.mark.parametrize(
    ("name", "value", "held"),
    [
        ("delay", timedelta(seconds=1.5), 1.5),
        ("timeout", timedelta(minutes=1), 60),
        ("backoff", timedelta(minutes=1), 60),
        ("backoff", [1, timedelta(seconds=2)], (1, 2)),
        ("tags", MANY_TAGS, tuple(MANY_TAGS)),
        ("tags", ["a", "b", "a"], ("a", "b")),
        ("tags", [], ()),
        ("run_at", MOMENT.astimezone(timezone(timedelta(hours=3))), MOMENT),
        ("sensitive", None, ()),
        ("sensitive", False, ()),
        ("sensitive", True, True),
        ("sensitive", "card", ("card",)),
        ("sensitive", ["card", "return"], ("card", "return")),
        ("backoff", None, None),
        ("retry_on", ValueError, (ValueError,)),
        ("retry_on", "shop.errors.Busy", ("shop.errors.Busy",)),
        ("retry_on", [OSError, "a.B", OSError], (OSError, "a.B")),
        ("fail_on", [KeyboardInterrupt], (KeyboardInterrupt,)),
        ("app_data", None, ""),
        ("app_data", {}, ""),
        ("app_data", {"ä": [None, True]}, '{"ä":[null,true]}'),
    ],
)
def test_what_is_made_of_it(name: str, value: Any, held: Any) -> None:
    assert made(name, value) == held


def test_as_much_data_as_is_allowed() -> None:
    assert len(made("app_data", LARGEST_DATA)) == 32 * 1024


@pytest.mark.parametrize("how_long", ["waiting", "running", 0.001, 1e10])
def test_how_long_a_job_is_unique(how_long: Any) -> None:
    assert made("unique_for", how_long, unique=True) == how_long


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("queue", "", "a string that is not empty"),
        ("queue", LONGEST_NAME + "n", "at most 255 bytes long"),
        # Bytes count, not characters.
        ("queue", "ä" * 128, "at most 255 bytes long"),
        ("queue", "\ud800", "text that UTF-8 can carry"),
        ("queue", "q*", "the name of one queue, without * and ?"),
        ("queue", "q?", "the name of one queue, without * and ?"),
        ("queue", b"q", "a string that is not empty"),
        ("jid", "", "a string that is not empty"),
        ("jid", LONGEST_NAME + "n", "at most 255 bytes long"),
        ("jid", "a-history", "an id that does not end in -history, -dependencies"),
        ("jid", "a-dependencies", "an id that does not end in"),
        ("jid", "a-dependents", "an id that does not end in"),
        ("priority", 2**31, "between -2147483647 and 2147483647"),
        ("priority", -(2**31), "between -2147483647 and 2147483647"),
        ("priority", 1.0, "a whole number"),
        ("priority", False, "a whole number"),
        ("retries", -1, "between 0 and 2147483647"),
        ("retries", 2**31, "between 0 and 2147483647"),
        ("delay", -0.001, "a finite number of seconds, not below 0"),
        ("delay", 1.1e10, "a finite number of seconds"),
        ("delay", float("inf"), "a finite number of seconds"),
        ("delay", float("nan"), "a finite number of seconds"),
        ("delay", True, "a number of seconds or a timedelta"),
        ("delay", timedelta(seconds=-1), "not below 0"),
        ("timeout", 0, "above 0, or None for no limit"),
        ("timeout", -1, "not below 0"),
        ("hard_timeout", 0, "above 0, or None for no limit"),
        ("expires", 0, "above 0, or None for none, or an aware datetime"),
        ("expires", MOMENT.replace(tzinfo=None), "an aware datetime"),
        ("debounce", 0, "above 0, or None for none"),
        ("result_ttl", -1, "between 0 and"),
        ("run_at", 5, "a datetime (for a span of time use delay=)"),
        ("run_at", MOMENT.replace(tzinfo=None), "an aware datetime"),
        ("tags", [*MANY_TAGS, "more"], "a list of at most 32 tags"),
        ("tags", "abc", "a list of tags"),
        ("tags", [""], "each a string that is not empty"),
        ("tags", [1], "each a string that is not empty"),
        ("tags", 5, "a list of tags"),
        ("backoff", [], "a list with at least one number"),
        ("backoff", -1, "backoff must be seconds, a list of them"),
        ("backoff", True, "backoff must be seconds, a list of them"),
        ("backoff", "5", "backoff must be seconds, a list of them"),
        ("backoff", [1, "2"], "backoff must be a number of seconds"),
        ("retry_on", ["a b.C"], "a list of exception classes and dotted names"),
        ("retry_on", "ValueError", "a list of exception classes and dotted names"),
        ("retry_on", 5, "a list of exception classes and dotted names"),
        ("fail_on", [Retry], "Retry says itself what happens"),
        ("fail_on", [Fail], "Fail says itself what happens"),
        ("fail_on", [JobLost], "JobLost says itself what happens"),
        ("fail_on", [ShuttingDown], "ShuttingDown says itself what happens"),
        ("sensitive", 5, "the name of a parameter, a list of such"),
        ("sensitive", [""], "the name of a parameter, a list of such"),
        ("on_commit", "", "or the name of a database"),
        ("on_commit", 1, "or the name of a database"),
        ("after", [5], "the handle or the id of a job, or a list of these"),
        ("after", 5, "the handle or the id of a job, or a list of these"),
        ("after", "", "the handle or the id of a job, or a list of these"),
        ("app_data", {"a": float("nan")}, "a dict of plain JSON"),
        ("app_data", {"a": "\ud800"}, "a dict of plain JSON"),
        ("app_data", {"a": LARGEST_DATA["a"] + "x"}, "(32,769 now)"),
    ],
)
def test_what_is_refused(name: str, value: Any, words: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        made(name, value)
    assert words in str(caught.value)
    assert f"shop.send: {name}" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (
            "backoff",
            {"base": -1, "factor": 2, "maximum": 5, "jitter": 0},
            "must be seconds, a list of them, exponential",
        ),
    ],
)
def test_what_is_said_of_what_is_refused(name: str, value: Any, words: str) -> None:
    with pytest.raises(InvalidOption, match=words):
        made(name, value)


def test_a_backoff_in_c_tells_nothing_of_its_arguments() -> None:
    assert made("backoff", max) is max


@pytest.mark.parametrize("option", ["concurrency_key", "fair_by"])
def test_a_class_job_has_no_parameter_for_a_key(option: str) -> None:
    with pytest.raises(InvalidOption, match="a class job has no parameters"):

        @job(name="wrong", **{option: "customer"})
        class Wrong:
            @staticmethod
            def process(job: Any) -> None: ...
