"""What QUEUES and CONFIG declare: defaults that an operator may change."""

from __future__ import annotations

import time
from contextlib import contextmanager

import pytest
from django.core.management import call_command
from django.test import override_settings

from django_qless.conf import config_sync
from django_qless.conf.config_sync import MARKER, operator_overrides, sync_config
from django_qless.conf.connections import connections
from django_qless.conf.declaration_mark import DEPLOYMENT_SECONDS
from django_qless.runtime.environment import DjangoEnvironment
from django_qless.worker.execution import Execution
from tests.jobs_app.jobs import add


@contextmanager
def declaring(server, queues=None, config=None):
    alias = {"LOCATION": server.url, "QUEUES": queues or {}, "CONFIG": config or {}}
    with override_settings(QLESS={"default": alias}):
        yield connections["default"]


MAIL = {"mail": {"heartbeat": 30, "max_concurrency": 4}}


@pytest.fixture(autouse=True)
def only_settings(monkeypatch):
    """Jobs of other tests may declare limits."""
    monkeypatch.setattr(config_sync, "sources", [])


def test_what_is_declared_is_applied_once(server) -> None:
    queues = {"mail": {**MAIL["mail"], "weight": 3}}
    with declaring(server, queues, {"jobs-history": 86400}) as client:
        assert sync_config().set == {
            "jobs-history": "86400",
            "mail-heartbeat": "30",
            "mail-max-concurrency": "4",
            "mail-weight": "3",
        }
        assert client.config_get("mail-heartbeat") == "30"
        assert client.config_get("jobs-history") == "86400"
        again = sync_config()
        assert (again.set, again.unset, again.kept) == ({}, [], {})


def test_nothing_declared_writes_nothing(server) -> None:
    with declaring(server) as client:
        assert sync_config() == ({}, [], {})
        assert client.redis.dbsize() == 0


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_note_that_cannot_be_read_is_written_again(server, text) -> None:
    with declaring(server, MAIL) as client:
        sync_config()
        client.config_set(MARKER, text)
        # What has set the values is not known any more: they stay.
        assert operator_overrides() == {"mail-heartbeat", "mail-max-concurrency"}
        sync_config()
        assert client.config_get("mail-heartbeat") == "30"
        assert operator_overrides() == set()


def test_an_operator_wins(server) -> None:
    with declaring(server, MAIL) as client:
        client.config_set("mail-heartbeat", 99)
        assert sync_config().kept == {"mail-heartbeat": "99"}
        client.config_set("mail-max-concurrency", 7)
        assert sync_config().kept == {
            "mail-heartbeat": "99",
            "mail-max-concurrency": "7",
        }
    with declaring(server, {"mail": {"heartbeat": 31, "max_concurrency": 5}}) as client:
        assert sync_config().set == {}
        assert client.config_get("mail-heartbeat") == "99"
        # Until the value is unset.
        client.config_unset("mail-heartbeat")
        assert sync_config().set == {"mail-heartbeat": "31"}


def test_a_changed_declaration_is_applied(server) -> None:
    with declaring(server, MAIL):
        sync_config()
    with declaring(server, {"mail": {"heartbeat": 31}}) as client:
        done = sync_config()
        assert (done.set, done.unset) == (
            {"mail-heartbeat": "31"},
            ["mail-max-concurrency"],
        )
        assert client.config_get("mail-max-concurrency") is None
    with declaring(server) as client:
        assert sync_config().unset == ["mail-heartbeat"]
        assert client.config_get("mail-heartbeat") is None


def test_what_an_operator_changed_stays_when_it_is_declared_no_longer(server) -> None:
    with declaring(server, MAIL) as client:
        sync_config()
        client.config_set("mail-heartbeat", 99)
    with declaring(server) as client:
        assert sync_config().unset == ["mail-max-concurrency"]
        assert client.config_get("mail-heartbeat") == "99"


def test_a_start_that_was_cut_short_is_made_good(server) -> None:
    with declaring(server, MAIL) as client:
        # The values were set, and the process died before it could say so.
        client.config_set("mail-heartbeat", "30")
        assert sync_config().set == {"mail-max-concurrency": "4"}
    with declaring(server, {"mail": {"heartbeat": 31}}) as client:
        assert sync_config().set == {"mail-heartbeat": "31"}


def test_a_worker_applies_it_at_its_start(server) -> None:
    with declaring(server, MAIL) as client:
        DjangoEnvironment().on_start()
        assert client.config_get("mail-heartbeat") == "30"


OLD = {"mail": {"max_concurrency": 8, "rate": "60/m"}}
NEW = {"mail": {"max_concurrency": 4}}


def start_worker(server, declared):
    """Start one with this code; return its environment and what holds for the queue."""
    with declaring(server, declared) as client:
        environment = DjangoEnvironment()
        environment.on_start()
        return environment, limits_of(client)


def limits_of(client) -> tuple[object, object]:
    return client.config_get("mail-max-concurrency"), client.config_get("mail-rate")


def run_a_job(environment, client) -> None:
    add.delay(1)
    [job] = client.settle("w", [], 1, ["*"]).jobs
    assert Execution(environment, client, "w").perform(job).verb == "complete"


def test_old_code_beside_new_code_changes_no_limit_back(server) -> None:
    """A deployment is under way: workers of both versions start, in any order."""
    assert start_worker(server, OLD)[1] == ("8", "60/m")
    for declared in (NEW, OLD, NEW, OLD):
        assert start_worker(server, declared)[1] == ("4", None)


def test_limits_of_a_rollback_are_applied_when_the_deployment_has_settled(
    server, monkeypatch
) -> None:
    for declared in (OLD, NEW):
        start_worker(server, declared)
    environment, limits = start_worker(server, OLD)
    with declaring(server, OLD) as client:
        run_a_job(environment, client)
        assert limits_of(client) == limits == ("4", None)
        client.script.now = float(client.meta()["now"]) + DEPLOYMENT_SECONDS + 1
        later = time.monotonic() + DEPLOYMENT_SECONDS + 1
        monkeypatch.setattr("django_qless.runtime.startup.monotonic", lambda: later)
        run_a_job(environment, client)
        assert limits_of(client) == ("8", "60/m")
    # Now it is the other version that is late.
    assert start_worker(server, NEW)[1] == ("8", "60/m")


def test_a_command_applies_options_without_waiting(server) -> None:
    for declared in (OLD, NEW, OLD):
        start_worker(server, declared)
    with declaring(server, OLD) as client:
        call_command("qless_config", "sync", verbosity=0)
        assert limits_of(client) == ("8", "60/m")
