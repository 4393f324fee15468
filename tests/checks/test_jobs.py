"""What the system checks find in options, and in CONTEXT."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import override_settings

from django_qless.checks import check_context, check_options, check_settings
from django_qless.declare.declaration import Declaration
from django_qless.job_types.options import Options
from django_qless.job_types.registry import Binding, JobType, Registry


def some(a: int, b: int = 0, *, c: int = 0) -> None:
    """A job."""


def found(monkeypatch: Any, **given: Any) -> list[str]:
    """Return what is found in a job with these options."""
    options = Options().changed("some", **given)
    only = Registry()
    only.register(JobType("shop.some", Declaration(some, options).function, options))
    monkeypatch.setattr("django_qless.checks.jobs.registry", only)
    return [f"{message.id} {message.msg}" for message in check_options()]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"retry_on": ["no.such.Thing"]},
            "E026 {place} retry_on: no.such.Thing cannot",
        ),
        (
            {"fail_on": ["os.path.join"]},
            "E026 {place} fail_on: os.path.join is no exce",
        ),
        ({"on_commit": "mars"}, "E027 {place} on_commit='mars' is not in DATABASES."),
        ({"alias": "mars"}, "E028 {place} alias='mars' is not in QLESS."),
        ({"unique": lambda a: "x"}, "E029 {place} unique=<function <lambda> at"),
        ({"unique": lambda a, b, c: "x"}, "E029 {place} unique=<function <lambda> at"),
    ],
)
def test_options_of_jobs(monkeypatch, given, words) -> None:
    [message] = found(monkeypatch, **given)
    assert message.startswith("django_qless.")
    line = some.__code__.co_firstlineno
    place = f"tests/checks/test_jobs.py:{line}: shop.some:"
    assert words.format(place=place) in message


def test_a_key_of_a_class_job_is_not_compared_with_its_parameters(monkeypatch) -> None:
    """Such a job is enqueued with data, not with the arguments of its class."""

    class Shop:
        def __init__(self, one: int, two: int) -> None: ...

    options = Options().changed("some", unique=lambda data: "x")
    only = Registry()
    only.register(JobType("shop.Shop", Shop, options, binding=Binding.CLASS))
    monkeypatch.setattr("django_qless.checks.jobs.registry", only)
    assert check_options() == []


def test_nothing_wrong(monkeypatch) -> None:
    assert not found(
        monkeypatch,
        retry_on=["django.db.OperationalError", ValueError],
        fail_on="tests.jobs_app.models.Feed.DoesNotExist",
        on_commit="other",
        unique=lambda a, b=0, **rest: "x",
    )
    # What does not tell its parameters is believed.
    assert not found(monkeypatch, unique=dict)
    assert not found(monkeypatch, fail_on=["builtins.KeyError"])


@pytest.mark.parametrize(
    "aliases", [[], {}, {"default": {"LOCATON": "x"}}, {"default": {"DB": 1}}]
)
def test_settings_that_cannot_be_read_are_told_elsewhere(monkeypatch, aliases) -> None:
    with override_settings(QLESS=aliases):
        assert found(monkeypatch) == []
        assert [message.id for message in check_settings()]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["tests.jobs_app.context.gone"], 'does not define a "gone"'),
        (
            ["tests.jobs_app.context.NotAPropagator"],
            "is no context propagator: it has no method captur",
        ),
        (["tests.jobs_app.context.Locale"], "is called 'locale', as a built-in one"),
        (
            ["tests.jobs_app.context.Tenant"] * 2,
            "is called 'Tenant', as tests.jobs_app.context.Tenant",
        ),
    ],
)
def test_propagators(names, words) -> None:
    aliases = {"default": {"LOCATION": "redis://localhost:1/0", "CONTEXT": names}}
    with override_settings(QLESS=aliases):
        [message] = check_context()
    assert message.id == "django_qless.E025"
    assert message.msg.startswith("QLESS['default']: CONTEXT: ")
    assert words in message.msg


@pytest.mark.parametrize("value", ["a.b", ["a"], [3], ["a..b"]])
def test_what_context_may_be(value) -> None:
    from django_qless.conf import validation

    [problem] = validation.validate_alias("default", {"CONTEXT": value})
    assert problem.number == "E025"


def test_good_propagators_are_fine() -> None:
    names = ["tests.jobs_app.context.Tenant", "tests.jobs_app.context.trace"]
    aliases = {"default": {"LOCATION": "redis://localhost:1/0", "CONTEXT": names}}
    with override_settings(QLESS=aliases):
        assert check_context() == []
