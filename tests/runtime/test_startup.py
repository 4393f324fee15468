"""Config and schedules are applied at a worker's start, and again when they are lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.test import override_settings

from django_qless import config
from django_qless.runtime import startup
from django_qless.runtime.environment import DjangoEnvironment
from django_qless.tasks import known_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.real_servers import Server


@pytest.fixture
def declared(server: Server) -> Iterator[None]:
    """The setting declares an option."""
    alias = {"LOCATION": server.url, "CONFIG": {"heartbeat": 17}}
    with override_settings(QLESS={"default": alias}):
        yield


def test_what_is_lost_is_applied_again(declared: None, server: Server) -> None:
    worker = startup.Startup("default")
    worker.apply()
    assert config.get("heartbeat") == "17"
    for _ in range(3):
        server.flush()
        worker.restore()
        assert config.get("heartbeat") == "17"


def test_so_it_is_when_it_is_lost_while_it_is_applied(
    declared: None, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(startup, "sync_at_start", lambda alias: server.flush() or 0)
        worker = startup.Startup("default")
        worker.apply()
    assert config.get("heartbeat") != "17"
    worker.restore()
    assert config.get("heartbeat") == "17"


def test_what_goes_missing_each_time_is_not_applied_for_ever(
    declared: None, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied: list[str] = []

    def flush(alias: str) -> float:
        applied.append(alias)
        server.flush()
        return 0

    monkeypatch.setattr(startup, "sync_at_start", flush)
    worker = startup.Startup("default")
    worker.apply()
    for _ in range(5):
        worker.restore()
    assert len(applied) == startup.MOST_ATTEMPTS


def test_a_process_forked_after_preload_does_not_look_for_tasks(
    declared: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = DjangoEnvironment()
    environment.preload()
    monkeypatch.setattr(known_tasks, "backends", None)
    environment.has_listeners("started")  # does not call it


def test_preload_leaves_errors_to_the_job_that_meets_them(
    declared: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = DjangoEnvironment()
    monkeypatch.setattr(known_tasks, "backends", None)
    environment.preload()
    with pytest.raises(TypeError):
        environment.has_listeners("started")


def test_a_server_that_goes_away_as_it_is_applied_stops_no_worker(
    declared: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = {"LOCATION": "unix:///nowhere.sock", "PATIENCE": 0.01}
    away = override_settings(
        QLESS={"default": {**nowhere, "CONFIG": {"heartbeat": 17}}}
    )
    worker = startup.Startup("default")
    with monkeypatch.context() as patch:
        patch.setattr(startup, "sync_at_start", lambda alias: away.enable() or 0)
        try:
            worker.apply()
        finally:
            away.disable()
    assert "cannot tell whether config and schedules were applied" in caplog.text
    worker.restore()
    assert config.get("heartbeat") == "17"


def test_preload_leaves_middleware_to_the_job_that_has_it(
    declared: None, caplog: pytest.LogCaptureFixture
) -> None:
    alias = {"LOCATION": "unix:///nowhere.sock", "MIDDLEWARE": ["no.such.module"]}
    with override_settings(QLESS={"default": alias}):
        DjangoEnvironment().preload()
    assert "a middleware cannot be loaded" in caplog.text
