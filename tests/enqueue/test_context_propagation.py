"""What follows a job: language, time zone, and what CONTEXT names."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta, tzinfo
from datetime import timezone as plain_timezone
from importlib import import_module

import pytest
from django.db import transaction
from django.utils import timezone, translation

from django_qless import current_job, job
from django_qless.core import TooBig
from django_qless.exceptions import UnserialisableArgument
from tests.jobs_app import context, jobs, policies

pytestmark = pytest.mark.django_db(transaction=True)

DEFAULT_BACKOFF = ["en-us", "America/Chicago", None]
TENANT = "tests.jobs_app.context.Tenant"
ASYNC_TENANT = "tests.jobs_app.context.AsyncTenant"
TRACE = "tests.jobs_app.context.trace"


@pytest.fixture(autouse=True)
def _nothing_seen():
    context.seen.clear()
    context.trace.value = None


@pytest.fixture
def carrying(qless, settings):
    """Change the setting CONTEXT of the default alias, and others."""

    def change(*names: str, **others: object) -> None:
        default = {**settings.QLESS["default"], "CONTEXT": list(names), **others}
        settings.QLESS = {**settings.QLESS, "default": default}

    return change


def of(handle, qless):
    """Return what a job carries."""
    return qless.get(handle.jid).context


def test_nothing_is_carried_that_is_as_usual(qless) -> None:
    for language, zone in (("en-us", "America/Chicago"), (None, "America/Chicago")):
        with translation.override(language), timezone.override(zone):
            assert not of(jobs.add.delay(1), qless)
    with translation.override("de"):
        assert of(jobs.add.delay(1), qless) == {"carry": {"locale": "de"}}


@pytest.mark.parametrize("function", [policies.where, policies.awhere])
def test_language_and_time_zone_follow(qless, each_work, function) -> None:
    with translation.override("de"), timezone.override("Asia/Tokyo"):
        one = function.delay()
        [many] = function.enqueue_many([function.args()])
        late = asyncio.run(function.aenqueue())
    usual = function.delay()
    assert each_work() == 4
    expected = ["de", "Asia/Tokyo", None]
    times = 2 if function is policies.awhere else 0
    for handle in (one, many, late):
        assert handle.result() == ([expected] * times or expected)
    assert usual.result() == ([DEFAULT_BACKOFF] * times or DEFAULT_BACKOFF)
    assert policies.surroundings() == DEFAULT_BACKOFF


def test_a_distance_from_utc_follows(qless, work) -> None:
    with timezone.override(plain_timezone(timedelta(hours=5, minutes=30))):
        handle = policies.where.delay()
    work()
    assert handle.result()[1] == "UTC+05:30"


class Sundial(tzinfo):
    """A time zone that has no name which another process could look up."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        return timedelta(minutes=53)

    def dst(self, moment: datetime | None) -> timedelta:
        return timedelta(0)

    def tzname(self, moment: datetime | None) -> str:
        return "sundial"


def test_a_time_zone_without_a_name_does_not_follow(qless, work) -> None:
    with timezone.override(Sundial()):
        handle = policies.where.delay()
    assert not of(handle, qless)
    work()
    assert handle.result() == DEFAULT_BACKOFF


def test_it_is_what_was_at_the_call_not_at_the_commit(qless, work) -> None:
    with transaction.atomic():
        with translation.override("de"):
            handle = policies.where.delay()
        plain = policies.where.delay()
    work()
    assert handle.result()[0] == "de"
    assert plain.result()[0] == "en-us"


def test_it_goes_on_to_what_the_job_enqueues(carrying, each_work) -> None:
    carrying(TENANT)
    token = context.tenant.set("acme")
    with translation.override("fr"):
        handle = policies.passes_on.delay()
    context.tenant.reset(token)
    assert each_work() == 2
    from django_qless import jobs as all_jobs

    child = all_jobs[handle.result()]
    assert child.result() == ["fr", "America/Chicago", "acme"]


@pytest.mark.parametrize("function", [policies.where, policies.awhere])
@pytest.mark.parametrize("propagator", [TENANT, ASYNC_TENANT])
def test_propagators_of_the_project(carrying, each_work, function, propagator) -> None:
    carrying(propagator, TRACE)
    token = context.tenant.set("acme")
    context.trace.value = {"id": 7}
    handle = function.delay()
    context.tenant.reset(token)
    context.trace.value = None
    name = "Tenant" if propagator == TENANT else "async tenant"
    assert handle.refresh()._job.context == {
        "carry": {name: "acme", "trace": {"id": 7}}
    }
    each_work()
    found = handle.result()
    assert (found[0] if function is policies.awhere else found)[2] == "acme"
    if function is policies.awhere:
        assert found[1][2] == "acme"
    told = [each for each in context.seen if each != "async"]
    assert told == ["enter acme", "trace {'id': 7}", "exit acme"]
    assert context.tenant.get() is None


def test_it_is_around_the_middleware(carrying, each_work) -> None:
    carrying(TENANT, MIDDLEWARE=["tests.jobs_app.middleware.tells_tenant"])
    token = context.tenant.set("acme")
    handle = policies.where.delay()
    context.tenant.reset(token)
    each_work()
    assert handle.result()
    assert context.seen == ["enter acme", "middleware acme", "exit acme"]


def test_what_no_propagator_knows_is_left_alone(carrying, each_work, caplog) -> None:
    carrying(TENANT)
    token = context.tenant.set("acme")
    with translation.override("de"):
        handle = policies.where.delay()
    context.tenant.reset(token)
    carrying()
    each_work()
    assert handle.result() == ["de", "America/Chicago", None]
    assert (
        "tests.jobs_app.policies.where has a context 'Tenant', for which CONTEXT of alias "
        "'default' has no propagator"
    ) in [record.getMessage() for record in caplog.records]


def test_propagators_that_cannot_be_loaded_fail_no_job(
    carrying, each_work, caplog
) -> None:
    with translation.override("de"):
        handle = policies.where.delay()
    carrying("tests.jobs_app.context.gone")
    each_work()
    assert handle.result()[0] == "de"
    assert "CONTEXT of alias 'default' cannot be loaded" in caplog.text


def test_a_time_zone_that_is_not_known_here(qless, each_work, caplog) -> None:
    data = policies.where.args().data
    name = policies.where.name
    carried = json.dumps({"carry": {"timezone": "Mars/Olympus"}})
    qless.put("", "default", "j1", name, data, context=carried)
    each_work()
    from django_qless import jobs as all_jobs

    assert all_jobs["j1"].result() == DEFAULT_BACKOFF
    assert "the time zone 'Mars/Olympus' of a job is not known here" in caplog.text


def test_who_cannot_be_restored_is_not_run_as_somebody_else(
    carrying, each_work
) -> None:
    carrying(TENANT)
    token = context.tenant.set("gone")
    handle = policies.where.using(retries=0).delay()
    context.tenant.reset(token)
    each_work()
    failure = handle.refresh().failure
    assert failure is not None
    assert failure.group == "LookupError"


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        ({1, 2}, UnserialisableArgument, "'trace' of CONTEXT captured is not JSON"),
        (
            "x" * 20_000,
            TooBig,
            r"'trace' .* 20,002 bytes as JSON, and at most 16,384 travel\. Nothing was ",
        ),
    ],
)
def test_what_cannot_travel_is_refused_at_the_call(
    carrying, value, error, words
) -> None:
    carrying(TRACE)
    context.trace.value = value
    with pytest.raises(error, match=f"jobs.add: .*{words}"):
        jobs.add.delay(1)


def test_a_propagator_can_ask_what_is_being_enqueued(qless, carrying) -> None:
    carrying("tests.jobs_app.context.Enqueueing")
    for function in (jobs.add, jobs.echo):
        (carried,) = of(function.delay(1), qless)["carry"].values()
        assert carried == function.name


def test_a_module_may_be_a_propagator(qless, carrying) -> None:
    carrying("tests.jobs_app.propagator_module")
    propagator_module = import_module("tests.jobs_app.propagator_module")
    token = propagator_module.team.set("mail")
    try:
        put = jobs.add.delay(1)
    finally:
        propagator_module.team.reset(token)
    assert of(put, qless) == {"carry": {"propagator_module": "mail"}}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tests.jobs_app.nowhere", 'Module "tests.jobs_app" does not define'),
        ("nowhere.at.all", "No module named 'nowhere'"),
        ("tests.jobs_app.context.nothing", 'does not define a "nothing"'),
    ],
)
def test_a_propagator_that_is_not_there(carrying, name, words) -> None:
    carrying(name)
    with pytest.raises(ImportError, match=words):
        jobs.add.delay(1)


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("tests.jobs_app.context.NotAPropagator", TypeError, "has no method capture"),
        ("tests.jobs_app.context.Numbered", TypeError, "must be a text, not 7"),
        ("tests.jobs_app.incomplete", ImportError, "No module named 'not_installed'"),
        ("tests.jobs_app.incomplete.Any", ImportError, "named 'not_installed'"),
    ],
)
def test_a_propagator_that_is_none_says_what_it_lacks(
    carrying, name, error, words
) -> None:
    carrying(name)
    with pytest.raises(error, match=words):
        jobs.add.delay(1)


class TestAppData:
    def test_it_is_beside_the_arguments(self, qless, each_work) -> None:
        put = policies.own_app_data.using(app_data={"team": "mail", "tries": [1, None]})
        with_data, [in_batch] = put.delay(), put.enqueue_many([put.args()])
        without = policies.own_app_data.delay()
        with translation.override("de"):
            with_both = put.using(timeout=5).delay()
        each_work()
        for handle in (with_data, in_batch, with_both):
            assert handle.result() == {"team": "mail", "tries": [1, None]}
        assert without.result() == {}

    def test_it_is_not_passed_on(self, qless, work) -> None:
        @job(name="tests.context.parent")
        def parent() -> str:
            assert current_job().app_data == {"a": 1}
            return policies.own_app_data.delay().jid

        handle = parent.using(app_data={"a": 1}).delay()
        work()
        from django_qless import jobs as all_jobs

        assert all_jobs[handle.result()].result() == {}
