"""`every=` and `cron=` of @job: what is taken, and what is refused and where."""

# ruff: noqa: DJ008, DJ012 (models of one moment)

from __future__ import annotations

import datetime
import re
import zoneinfo
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import models
from django.test import override_settings
from django.test.utils import isolate_apps

from django_qless import job
from django_qless.checks import check_schedules
from django_qless.declare import method
from django_qless.exceptions import InvalidJob, InvalidOption
from django_qless.job_types.registry import registry
from django_qless.schedules.timetable import Timetable
from tests.jobs_app import jobs
from tests.jobs_app.models import Feed
from tests.schedules.declaring import declaring


@pytest.fixture(autouse=True)
def _forget():
    registry.names()  # what is not known yet would be forgotten below
    known = dict(registry._types)
    yield
    registry._types.clear()
    registry._types.update(known)


@pytest.fixture
def declare():
    with declaring() as declare:
        yield declare


def declared(**options: object) -> Timetable:
    @job(name="tests.recurs", **options)
    def recurs() -> None:
        pass

    schedule = registry.get("tests.recurs").schedule
    assert schedule is not None
    return schedule.timetable


def test_an_interval() -> None:
    assert declared(every=90) == Timetable(every=90)
    table = declared(every=timedelta(hours=1), missed="all")
    assert table == Timetable(every=3600, missed="all")
    assert (table.description, table.zone) == ("every hour", "")


def test_a_cron_text() -> None:
    table = declared(cron=" 0 6  * * mon-fri ", timezone="Europe/Berlin", missed="none")
    assert table.cron == "0 6 * * mon-fri"
    assert table.description == "at 06:00, Monday through Friday, Europe/Berlin"
    with_zone = declared(cron="@daily", timezone=zoneinfo.ZoneInfo("Asia/Tokyo"))
    assert with_zone.timezone == "Asia/Tokyo"
    assert declared(cron="@daily", timezone=datetime.UTC).zone == "UTC"


@pytest.mark.parametrize("seconds", [1, 1.0, timedelta(seconds=1), 1e10])
def test_the_shortest_interval_and_the_longest(seconds: Any) -> None:
    number = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
    assert declared(every=seconds) == Timetable(every=number)
    told = declared(every=seconds).for_core()
    assert told == {"every": number, "missed": "last"}


@pytest.mark.parametrize("missed", ["all", "last", "none"])
def test_what_becomes_of_missed_ticks(missed: str) -> None:
    assert declared(every=5, missed=missed).for_core()["missed"] == missed
    told = declared(cron="@daily", missed=missed).for_core()
    zone = settings.TIME_ZONE
    assert told == {"cron": "@daily", "timezone": zone, "missed": missed}
    assert declared(cron="@daily").missed == "last"


def test_without_a_time_zone_it_is_the_projects() -> None:
    table = declared(cron="0 6 * * *")
    with override_settings(TIME_ZONE="America/New_York"):
        assert table.zone == "America/New_York"
        assert table.for_core()["timezone"] == "America/New_York"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"every": 5, "cron": "* * * * *"}, "every= and cron= are two schedules"),
        ({"every": 0}, "every must be at least a second, not 0"),
        ({"every": -5}, "every must be a finite number of seconds, not below 0"),
        ({"every": 0.5}, "at least a second, not 0.5"),
        ({"every": timedelta(0)}, "at least a second"),
        ({"every": 0.999}, "at least a second, not 0.999"),
        ({"every": 1.1e10}, "every must be a finite number of seconds"),
        (
            {"every": float("inf")},
            "every must be a finite number of seconds, not below 0, not inf",
        ),
        ({"every": "5"}, "every must be a number of seconds or a timedelta, not '5'"),
        ({"every": True}, "a number of seconds or a timedelta, not True"),
        ({"every": float("nan")}, "every must be a finite number of seconds"),
        ({"every": 5, "timezone": "UTC"}, "timezone= goes with cron= only"),
        (
            {"every": 5, "missed": "some"},
            'missed must be "all" or "last" or "none", not',
        ),
        ({"every": 5, "delay": 5}, "delay is known only when the job is enqueued"),
        ({"cron": "0 0 30 2 *"}, "bad day-of-month"),
        ({"cron": "0 6 * *"}, "0 6 * *"),
        ({"cron": "61 * * * *"}, "61"),
        ({"cron": "nonsense"}, "nonsense"),
        ({"cron": 5}, "cron must be a text"),
        ({"cron": "0 6 * * *", "timezone": "Europe/Nowhere"}, "Europe/Nowhere"),
        ({"cron": "0 6 * * *", "timezone": 1}, "timezone must be a name"),
        ({"timezone": "UTC"}, "timezone= belongs to a schedule"),
        ({"missed": "all"}, "missed= belongs to a schedule"),
        ({"rows": "all"}, "rows= belongs to a schedule"),
        ({"every": 5, "rows": "no name"}, "rows must be the name of a method"),
        ({"every": 5, "rows": 5}, "rows must be the name of a method"),
    ],
)
def test_what_is_refused_with_file_and_line(options, words: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        declared(**options)
    assert words in str(caught.value)
    assert f"{__file__.rpartition('/')[2]}:" in str(caught.value)


def test_rows_are_for_what_runs_on_rows() -> None:
    with pytest.raises(InvalidJob, match=r"timetable\.py:\d+: .* is a function, which"):
        declared(every=5, rows="all")


def test_arguments_that_no_tick_can_give() -> None:
    with pytest.raises(
        InvalidJob, match=r"missing a required argument: 'who'.*defaults"
    ):

        @job(name="tests.greets", every=5)
        def greets(who: str) -> None:
            pass

    @job(name="tests.greets", every=5)
    def greets_anyone(who: str = "you") -> None:
        pass


def test_a_schedule_is_no_option_of_a_call() -> None:
    with pytest.raises(InvalidOption, match="every"):
        Feed.count_words.using(every=5)


def test_class_jobs_recur_with_empty_data() -> None:
    @job("gnomes", name="tests.Recurring", every=60)
    class Recurring:
        @staticmethod
        def process(job: object) -> None:
            pass

    assert registry.get("tests.Recurring").schedule.timetable.every == 60
    with pytest.raises(InvalidJob, match="is a class, which runs on no row"):

        @job("gnomes", name="tests.Rowing", every=60, rows="all")
        class Rowing:
            @staticmethod
            def process(job: object) -> None:
                pass


@pytest.fixture
def project(monkeypatch):
    """Models made in a test are those of a project, and gone after it with their jobs."""
    for name in ("declared", "bound"):
        monkeypatch.setattr(method, name, list(getattr(method, name)))
    with isolate_apps("tests.jobs_app") as isolated:
        monkeypatch.setattr(method, "apps", isolated)
        yield


@pytest.mark.usefixtures("project")
def test_each_concrete_model_of_an_abstract_one_has_the_schedule() -> None:
    class Base(models.Model):
        @job(every=60, rows="all")
        def refresh(self) -> None:
            pass

        class Meta:
            abstract = True
            app_label = "jobs_app"

    class Paper(Base):
        @classmethod
        @job(cron="@daily")
        def digest(cls) -> None:
            pass

        class Meta:
            app_label = "jobs_app"

    class Magazine(Base):
        class Meta:
            app_label = "jobs_app"

    class ProxyPaper(Paper):
        class Meta:
            app_label = "jobs_app"
            proxy = True

    class Weekly(Paper):
        class Meta:
            app_label = "jobs_app"

    assert Paper.refresh.job_type.schedule.rows == "all"
    assert Magazine.refresh.job_type.schedule.rows == "all"
    assert Paper.digest.job_type.schedule.timetable.cron == "@daily"
    # Their rows are rows of Paper, which is at work on them already.
    for child in (ProxyPaper, Weekly):
        assert child.refresh.job_type.owner is child
        assert child.refresh.job_type.schedule is None
        assert child.digest.job_type.schedule is None


@pytest.mark.usefixtures("project")
def test_methods_and_rows_have_to_fit() -> None:
    with pytest.raises(InvalidJob, match=r"runs on a row, so .* give rows=.*"):

        class Rowless(models.Model):
            @job(every=60)
            def refresh(self) -> None:
                pass

            class Meta:
                app_label = "jobs_app"

    with pytest.raises(InvalidJob, match="is a class method, which runs on no row"):

        class Classy(models.Model):
            @classmethod
            @job(every=60, rows="all")
            def refresh(cls) -> None:
                pass

            class Meta:
                app_label = "jobs_app"

    with pytest.raises(InvalidJob, match=r"timetable\.py:\d+: .*'how'"):

        class Needy(models.Model):
            @job(every=60, rows="all")
            def refresh(self, how: str) -> None:
                pass

            class Meta:
                app_label = "jobs_app"


def messages() -> list[str]:
    return [
        f"{message.id.removeprefix('django_qless.')} {message.msg} {message.hint}"
        for message in check_schedules()
    ]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("activ", "E030 .*no method 'activ'.*Did you mean 'active'"),
        ("in_bulk_of", "E030 .*no method 'in_bulk_of'"),
        ("name", "E030 .*name of jobs_app.Feed is no method"),
        ("titled", "E030 .*titled is called without arguments, but missing.*'title'"),
        (lambda: None, "E030 .*is called with jobs_app.Feed, but too many"),
    ],
)
def test_rows_that_cannot_be_had_are_found_by_a_check(declare, rows, words) -> None:
    declare("jobs_app.Feed.check_now", every=60, rows=rows)
    (found,) = messages()
    assert re.search(words, found)
    assert "jobs_app/models.py:" in found


@pytest.mark.parametrize(
    "rows",
    # (The last does not tell what it takes.)
    ["all", "active", lambda model: model.objects.all(), dict],
)
def test_rows_that_can_be_had(declare, rows) -> None:
    declare("jobs_app.Feed.check_now", every=60, rows=rows)
    assert messages() == []


def test_static_methods_are_judged_by_a_check(declare) -> None:
    job_type = declare("tests.jobs_app.jobs.echo", every=60)
    registry._types[job_type.name] = replace(
        job_type, function=jobs.add.declaration.function
    )
    (found,) = messages()
    assert found.startswith("E031") and "missing a required argument: 'a'" in found


def test_a_name_that_is_too_long_for_a_schedule(declare) -> None:
    @job(name="x" * 201, every=60)
    def long() -> None:
        pass

    (found,) = messages()
    assert found.startswith("E032") and "takes 201 bytes" in found
