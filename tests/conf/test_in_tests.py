"""Servers of the aliases of QLESS while tests run."""

from __future__ import annotations

import pytest
from django.conf import UserSettingsHolder, global_settings
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from django_qless import checks, conf, queues
from django_qless.conf import in_tests
from django_qless.conf.connections import connections
from django_qless.servers import throwaway
from tests.real_servers import Server
from tests.testing.conftest import clean_server
from tests.testing.jobs import note

__all__ = ["clean_server"]  # a fixture, used by each test

# Where nobody answers: nothing may go there.
NOWHERE = {"LOCATION": "redis://127.0.0.1:1/0", "OPTIONS": {"socket_timeout": 1}}


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch) -> UserSettingsHolder:
    """Settings as a project has them, beneath what a test overrides."""
    own = UserSettingsHolder(global_settings)
    own.QLESS = {
        "default": {**NOWHERE, "QUEUES": {"mail": {"weight": 2}}},
        "other": {**NOWHERE, "PREFIX": "other:"},
    }
    monkeypatch.setattr(in_tests, "_project", lambda: own)
    return own


def test_the_projects_aliases_are_on_the_private_server(project) -> None:
    with override_settings(QLESS=project.QLESS):
        note.delay("here")
        note.using(alias="other").delay("there")
        assert queues["notes"].counts().waiting == 1
        assert queues.using_alias("other")["notes"].counts().waiting == 1
        alias = conf.alias("other")
        # A database for each: the servers may have been different ones.
        assert alias.throwaway != conf.alias().throwaway
        assert alias.prefix == "other:"
        assert conf.alias().queues == {"mail": {"weight": 2}}
    with throwaway.server().client(db=alias.throwaway) as client:
        assert all(key.startswith(b"other:") for key in client.keys("*"))


def test_also_where_a_test_overrides_something_else_of_them(project) -> None:
    changed = {"default": {**project.QLESS["default"], "PREFIX": "x:"}}
    with override_settings(QLESS=changed):
        assert conf.alias().throwaway is not None
        assert conf.alias().prefix == "x:"
    with override_settings(QLESS={"default": {}, "new": {}}):
        assert conf.alias("new").throwaway not in (None, conf.alias().throwaway)


def test_a_place_that_a_test_names_is_used(project, server: Server) -> None:
    with override_settings(QLESS={"default": {"LOCATION": server.url}}):
        assert conf.alias().throwaway is None
        note.delay("x")
        with server.client() as client:
            assert client.keys("ql:*")


def test_a_place_for_tests_is_used(
    project, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    project.QLESS = {
        "default": {
            **NOWHERE,
            "QUEUES": {"mail": {"weight": 2}},
            "TEST": {"LOCATION": server.url, "PREFIX": "test:"},
        }
    }
    with override_settings(QLESS=project.QLESS):
        note.delay("x")
        assert conf.alias().queues == {"mail": {"weight": 2}}
    with server.client() as client:
        keys = client.keys("*")
        assert keys
        assert all(key.startswith(b"test:") for key in keys)


def test_parallel_processes_share_a_named_server_but_no_keys(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.test import runner

    options = {"PREFIX": "{shop}:", "TEST": {"LOCATION": server.url}}
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw1")
    with override_settings(QLESS={"default": options}):
        assert conf.alias().prefix == "{shop}:gw1:"
    monkeypatch.delenv("PYTEST_XDIST_WORKER")
    monkeypatch.setattr(runner, "_worker_id", 2)
    with override_settings(QLESS={"default": options}):
        assert conf.alias().prefix == "{shop}:p2:"


def test_the_private_server_with_other_options_for_tests(project) -> None:
    project.QLESS = {"default": {**NOWHERE, "TEST": {"PREFIX": "t:"}}}
    with override_settings(QLESS=project.QLESS):
        assert conf.alias().throwaway is not None
        assert conf.alias().prefix == "t:"


def test_an_alias_may_stay_where_it_is(project) -> None:
    project.QLESS = {"default": {**NOWHERE, "TEST": False}}
    with override_settings(QLESS=project.QLESS):
        assert conf.alias().throwaway is None
        assert conf.alias().location == NOWHERE["LOCATION"]


@pytest.mark.parametrize(
    ("test", "words"),
    [
        ("redis://", "TEST must be False, or a dict"),
        (True, "TEST must be False, or a dict"),
        ({"TEST": {}}, "TEST must be False, or a dict"),
        ({"LOCATON": "redis://"}, "TEST: there is no option 'LOCATON'"),
        ({"LOCATION": "http://"}, "TEST: LOCATION is no URL"),
    ],
)
def test_a_mistake_is_a_system_check(test, words) -> None:
    with override_settings(QLESS={"default": {"TEST": test}}):
        messages = checks.check_settings()
        assert len(messages) == 1
        assert words in messages[0].msg
        with pytest.raises(ImproperlyConfigured, match="TEST"):
            conf.alias()


def test_outside_of_tests_nothing_changes(
    project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_tests, "is_testing", lambda: False)
    with override_settings(QLESS=project.QLESS):
        assert conf.alias().throwaway is None
        assert conf.alias().location == NOWHERE["LOCATION"]


def test_clients_made_before_the_tests_are_forgotten(
    project, monkeypatch: pytest.MonkeyPatch
) -> None:
    with override_settings(QLESS=project.QLESS):
        with monkeypatch.context() as before:
            before.setattr(in_tests, "is_testing", lambda: False)
            client = connections["default"]
            assert "127.0.0.1:1" in repr(client)
        monkeypatch.setattr(in_tests, "_begun", False)
        # The first thing that is enqueued, or the system checks, notice.
        note.delay("x")
        assert "own server" in repr(connections["default"])
        monkeypatch.setattr(in_tests, "_begun", False)
        connections.clients["default"] = client
        checks.check_settings()
        assert "own server" in repr(connections["default"])


def test_a_client_made_before_the_tests_is_not_handed_out(
    project, monkeypatch: pytest.MonkeyPatch
) -> None:
    with override_settings(QLESS=project.QLESS):
        with monkeypatch.context() as before:
            before.setattr(in_tests, "is_testing", lambda: False)
            client, aclient = connections["default"], connections.aclient()
        for ask in (lambda: connections["default"], connections.aclient, conf.alias):
            connections.clients["default"] = client
            connections._async_clients["default"] = aclient
            monkeypatch.setattr(in_tests, "_begun", False)
            ask()
            assert "own server" in repr(connections["default"])
            assert "own server" in repr(connections.aclient())


def test_a_process_of_tests_is_one_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.test import utils

    monkeypatch.delitem(in_tests.sys.modules, in_tests._PLUGIN, raising=False)
    monkeypatch.setattr(in_tests, "_forced", False)
    monkeypatch.delattr(utils._TestState, "saved_data")
    assert in_tests.is_testing()
    monkeypatch.setattr(in_tests, "_begun", False)
    assert not in_tests.is_testing()
