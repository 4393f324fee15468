"""What waits in the outbox, as the doctor, the admin and metrics show it; and checks."""

from __future__ import annotations

import re

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core import checks as django_checks
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connections, transaction
from django.test import Client as Browser
from django.test import modify_settings, override_settings
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import CollectorRegistry

from django_qless import job
from django_qless.checks.outbox import check_outbox, outbox_problems
from django_qless.job_types.registry import registry
from django_qless.monitoring import snapshot
from django_qless.monitoring.collector import QlessCollector
from django_qless.outbox import waiting
from django_qless.outbox.models import Entry
from django_qless.runtime.environment import DjangoEnvironment
from tests.jobs_app import jobs
from tests.management.commands import doctor_findings

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])

kept = jobs.add.using(on_commit="outbox")


@pytest.fixture
def three_wait(qless, away) -> None:
    """Three jobs of two entries wait in the default database."""
    with away(), transaction.atomic():
        kept.delay(1)
        kept.enqueue_many([kept.args(2), kept.args(3)])


def make_old() -> None:
    Entry.objects.update(created="2020-01-01T00:00:00Z")


def findings() -> list[tuple[str, str]]:
    return [
        (level, text) for level, about, text in doctor_findings() if about == "outbox"
    ]


def test_the_doctor_finds_nothing_in_an_empty_one(qless) -> None:
    words = "database {}: nothing waits"
    assert findings() == [("fine", words.format(name)) for name in ("default", "other")]


def test_the_doctor_says_what_waits_and_how_old_it_is(three_wait) -> None:
    [(level, text), _] = findings()
    assert level == "hint"
    assert re.fullmatch(r"database default: 3 jobs, the oldest entry for .*s", text)
    make_old()
    [(level, text), _] = findings()
    assert level == "PROBLEM"
    assert "check that the server answers" in text


def test_the_doctor_says_so_while_the_server_is_away(three_wait, away) -> None:
    with away():
        assert findings()[0][0] == "hint"


def test_the_doctor_names_an_alias_that_is_gone(three_wait) -> None:
    Entry.objects.update(alias="former")
    words = (
        "database default: 2 waiting for 'former', which QLESS does not have: put it back "
        "until they are swept up"
    )
    assert ("PROBLEM", words) in findings()


def test_a_database_that_is_away_is_named(qless, monkeypatch) -> None:
    def fail(database: str, alias: str) -> None:
        raise DatabaseError("away")

    monkeypatch.setattr(waiting, "_of", fail)
    assert findings()[0] == ("hint", "database default: not known: away")


def test_the_overview_shows_it(three_wait, away, client: Browser) -> None:
    client.force_login(User.objects.create_superuser("admin"))
    url = "/admin/django_qless/overview/"
    for server_is_away in (False, True):
        if server_is_away:
            with away():
                page = client.get(url).content.decode()
        else:
            page = client.get(url).content.decode()
        assert "Database default" in page
        assert "3 jobs wait, the oldest entry for" in page
        assert "nothing waits" in page


def test_metrics_have_it_also_while_the_server_is_away(three_wait, away) -> None:
    registry_ = CollectorRegistry()
    registry_.register(QlessCollector("default"))
    make_old()
    snapshot.outboxes.forget()
    snapshot.snapshots.forget()
    with away():
        text = generate_latest(registry_).decode()
    snapshot.outboxes.forget()
    snapshot.snapshots.forget()
    assert 'qless_outbox_entries{alias="default",database="default"} 2.0' in text
    assert 'qless_outbox_jobs{alias="default",database="default"} 3.0' in text
    assert 'qless_outbox_oldest_seconds{alias="default",database="other"} 0.0' in text
    [age] = re.findall(
        r'oldest_seconds\{alias="default",database="default"\} (\S+)', text
    )
    assert float(age) > 86_400


def test_metrics_do_not_count_where_a_database_is_away(three_wait, monkeypatch) -> None:
    def fail(database: str, alias: str) -> waiting.Waiting:
        if database == "default":
            raise DatabaseError("away")
        return waiting.Waiting(database)

    monkeypatch.setattr(waiting, "_of", fail)
    snapshot.outboxes.forget()
    families = list(QlessCollector("default").collect())
    snapshot.outboxes.forget()
    told = {
        (family.name.removeprefix("qless_outbox_"), sample.labels["database"])
        for family in families
        for sample in family.samples
        if family.name.startswith("qless_outbox")
    }
    # Nothing, which is not none.
    assert told == {(name, "other") for name in ("entries", "jobs", "oldest_seconds")}


# Checks.


def ids() -> list[str]:
    return [message.id.removeprefix("django_qless.") for message in check_outbox()]


USES = [{"ON_COMMIT": "outbox"}, {"ON_OUTAGE": "buffer"}]


@pytest.mark.parametrize("setting", USES)
def test_the_outbox_needs_its_app(server, setting) -> None:
    alias = {"LOCATION": server.url, **setting}
    with override_settings(QLESS={"default": alias}):
        assert ids() == []
        DjangoEnvironment().on_start()
        with modify_settings(INSTALLED_APPS={"remove": "django_qless.outbox"}):
            [message] = check_outbox()
            assert message.id == "django_qless.E060"
            assert 'Add "django_qless.outbox" to INSTALLED_APPS' in message.hint
            with pytest.raises(ImproperlyConfigured, match="not installed"):
                DjangoEnvironment().on_start()


@pytest.fixture
def declared():
    """A job that is declared with the outbox."""

    @job(on_commit="outbox", name="declared_with_outbox")
    def declared() -> None:
        pass

    yield declared
    del registry._types["declared_with_outbox"]


def test_a_worker_refuses_to_start_without_the_table(qless, declared) -> None:
    assert ids() == []
    DjangoEnvironment().on_start()
    table = Entry._meta.db_table
    with connections["default"].cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO aside")
    try:
        words = r"manage.py migrate django_qless_outbox"
        with pytest.raises(ImproperlyConfigured, match=words):
            DjangoEnvironment().on_start()
        assert [text for level, text in findings() if level == "PROBLEM"]
        assert not [*outbox_problems("other")]  # The job is of another alias.
    finally:
        with connections["default"].cursor() as cursor:
            cursor.execute(f"ALTER TABLE aside RENAME TO {table}")


def test_a_job_that_names_an_unknown_database() -> None:
    @job(on_commit="nowhere", name="outbox_nowhere")
    def nowhere() -> None:
        pass

    try:
        found = django_checks.run_checks(tags=["qless"])
        assert "django_qless.E027" in [message.id for message in found]
    finally:
        del registry._types["outbox_nowhere"]


def test_a_database_of_that_name_is_refused(monkeypatch) -> None:
    monkeypatch.setitem(settings.DATABASES, "outbox", {})
    assert ids() == ["E063"]


@pytest.mark.parametrize("value", ["", True, "outbox:other", "commit"])
def test_on_commit_of_an_alias_is_the_outbox_or_nothing(value) -> None:
    from django_qless import checks

    alias = {"LOCATION": "redis://localhost:1", "ON_COMMIT": value}
    with override_settings(QLESS={"default": alias}):
        assert [message.id for message in checks.check_settings()] == [
            "django_qless.E062"
        ]
