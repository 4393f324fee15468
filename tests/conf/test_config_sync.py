"""What QUEUES and CONFIG declare: defaults that an operator may change."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from django.test import override_settings

from django_qless.conf import config_sync
from django_qless.conf.config_sync import MARKER, operator_overrides, sync_config
from django_qless.conf.connections import connections
from django_qless.runtime.environment import DjangoEnvironment


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
