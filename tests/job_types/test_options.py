"""What goes together in the options of a job, and what of it a call may say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from django_qless import exponential, job
from django_qless.exceptions import Fail, InvalidOption, UnknownOption
from django_qless.job_types.options import (
    IN_DECORATOR,
    IN_USING,
    CallOptions,
    DeclaredOptions,
    Options,
)
from tests.jobs_app import jobs, policies

SOON = datetime(2030, 1, 1, tzinfo=UTC)


def options(**given: object) -> Options:
    return Options().changed("shop.send", **given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"unique": 5}, r"unique must be True .*, a text .*, or a function .*, not 5"),
        ({"unique": ""}, "unique must be True"),
        ({"unique": "x" * 256}, "unique must be True .* at most 255 bytes"),
        ({"unique": True, "unique_for": "ever"}, r'unique_for must be "waiting"'),
        ({"unique": True, "unique_for": 0}, r"unique_for must be .* above 0"),
        ({"unique_for": "waiting"}, "needs a unique key: add unique=True, or a key"),
        ({"on_conflict": "replace"}, "needs a unique key: add unique=True"),
        (
            {"unique": True, "on_conflict": "drop"},
            'on_conflict must be "keep" or "replace", not \'drop\'',
        ),
        ({"debounce": 0}, "debounce must be above 0, or None for none, not 0"),
        ({"debounce": "5"}, "debounce must be a number of seconds or a timedelta"),
        (
            {"debounce": 5, "delay": 5},
            "debounce=5 and delay both set the start",
        ),
        ({"debounce": 5, "unique": None}, "debounce=5 needs a unique key"),
        ({"debounce": 5, "unique_for": 60}, "unique_for=60 contradicts debounce"),
        ({"debounce": 5, "expires": 5}, "expires=5 comes before debounce=5"),
        ({"expires": 0}, "expires must be above 0, .* or an aware datetime, not 0"),
        ({"expires": datetime(2030, 1, 1)}, "expires must be an aware datetime"),
        ({"expires": 5, "delay": 5}, "expires=5 comes before delay=5 has passed"),
        ({"expires": SOON, "run_at": SOON}, "expires=2030.* comes before run_at=2030"),
        ({"on_failure": "stop"}, 'on_failure must be "block" or "cancel" or "run"'),
        ({"missing": "drop"}, 'missing must be "fail" or "ignore", not \'drop\''),
        ({"retry_on": 5}, "retry_on must be a list of exception classes and dotted"),
        ({"retry_on": [str]}, "retry_on must be a list of exception classes"),
        ({"retry_on": "Flaky"}, "retry_on must be a list of exception classes"),
        ({"retry_on": [Fail]}, "Fail says itself what happens"),
        (
            {"retry_on": [policies.VeryFlaky], "fail_on": [policies.Flaky]},
            "retry_on names VeryFlaky, which fail_on has fail at once, as Flaky",
        ),
        ({"retry_on": ["a.B"], "fail_on": ["a.B"]}, "retry_on names a.B"),
        ({"backoff": lambda: 1}, "cannot be called with two arguments"),
        ({"backoff": {"base": 5}}, "backoff must be seconds, a list of them, exp"),
        ({"app_data": [1]}, "app_data must be a dict of plain JSON"),
        ({"app_data": {1: 2}}, "JSON's keys are strings"),
        ({"app_data": {"a": SOON}}, "app_data must be a dict of plain JSON.*datetime"),
        ({"app_data": {"a": "x" * 40_000}}, "app_data must be at most 32,768 bytes"),
    ],
)
def test_what_does_not_go_is_told_with_job_option_and_value(given, words) -> None:
    with pytest.raises(InvalidOption, match=f"(?s)shop.send: .*{words}"):
        options(**given)


def test_what_values_become() -> None:
    made = options(
        unique_for=timedelta(minutes=1),
        unique="key",
        expires=timedelta(hours=1),
        retry_on=policies.Flaky,
        fail_on="a.b.C",
        app_data={"a": [1]},
    )
    assert (made.unique_for, made.expires) == (60, 3600)
    assert (made.retry_on, made.fail_on) == ((policies.Flaky,), ("a.b.C",))
    assert made.app_data == '{"a":[1]}'
    assert options(unique=False).unique is None
    assert options(app_data={}).app_data == ""
    assert (
        options(expires=SOON.astimezone(timezone(timedelta(hours=3)))).expires == SOON
    )


def test_a_debounced_job_is_unique_by_its_arguments() -> None:
    assert options(debounce=5).unique is True
    assert options(debounce=5, unique="key").unique == "key"


def test_the_later_word_of_a_call() -> None:
    declared = options(unique=True, on_conflict="replace")
    assert declared.changed("x", unique=None).unique is None
    with pytest.raises(InvalidOption, match="add unique=True"):
        declared.changed("x", unique=None, on_conflict="keep")


@pytest.mark.parametrize(
    "given",
    [
        {"retry_on": [ValueError]},
        {"fail_on": [ValueError]},
        {"name": "x"},
        {"aliases": ["x"]},
        {"every": 5},
        {"cron": "* * * * *"},
        {"rows": "all"},
    ],
)
def test_a_call_cannot_say_what_belongs_to_the_code(given) -> None:
    [option] = given
    with pytest.raises(
        InvalidOption,
        match=rf"tests.jobs_app.jobs.add: {option} belongs to the job's code, where "
        rf"workers find it: write @job\({option}=…\), not .using\({option}=",
    ):
        jobs.add.using(**given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"jid": "x"},
            r"jid is known only when the job is enqueued: write .using\(jid=…\)",
        ),
        ({"app_data": {}}, r"app_data is known only when the job is enqueued"),
        ({"expires": SOON}, r"expires=.* give @job a number of seconds"),
    ],
)
def test_the_code_cannot_say_what_belongs_to_a_call(given, words) -> None:
    with pytest.raises(InvalidOption, match=words):
        job(**given)(lambda: None)


def test_type_checkers_know_the_same_options() -> None:
    assert set(CallOptions.__annotations__) == IN_USING
    assert set(DeclaredOptions.__annotations__) == IN_DECORATOR - {"queue"}


def test_names_are_suggested() -> None:
    with pytest.raises(
        UnknownOption, match=r"no option 'debounse'\. Did you mean debounce"
    ):
        jobs.add.using(debounse=5)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"base": "5"}, "base must be a number, not '5'"),
        ({"base": -1}, "base must be a finite number from 0, not -1"),
        ({"factor": 0.5}, "factor must be a finite number from 1, not 0.5"),
        ({"base": 9, "maximum": 5}, "base=9 exceeds maximum=5"),
        ({"jitter": 2}, "jitter must be between 0 and 1, not 2"),
    ],
)
def test_exponential_refuses(given, words) -> None:
    with pytest.raises(InvalidOption, match=words):
        exponential(**given)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("queue_name routing_key", "queue="),
        ("countdown schedule_in", "delay= (seconds)"),
        ("eta run_after schedule_at", "run_at="),
        ("job_id task_id", "jid="),
        ("meta", "app_data= (a dict)"),
        ("max_retries", "retries="),
        ("default_retry_delay retry_delay", "backoff="),
        ("autoretry_for", "retry_on="),
        ("throws", "fail_on="),
        ("job_timeout soft_time_limit", "timeout="),
        ("time_limit", "hard_timeout="),
        ("target_runtime", "MIDDLEWARE of the alias"),
        ("ttl", "expires= (seconds)"),
        ("result_expires", "result_ttl="),
        ("queueing_lock", "unique= (a text)"),
        ("depends_on", "after= (handles of other jobs)"),
        ("concurrency", "max_concurrency="),
        ("rate_limit", 'rate= ("100/m")'),
    ],
)
def test_the_names_of_other_queues_lead_to_ours(theirs: str, ours: str) -> None:
    for name in theirs.split():
        with pytest.raises(UnknownOption) as error:
            options(**{name: 1})
        assert ours in str(error.value)
