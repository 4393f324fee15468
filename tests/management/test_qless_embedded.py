"""`manage.py qless_embedded`: what it says where it cannot stop the server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from django.core.management import CommandError
from django.test import override_settings

from django_qless.servers import embedded
from django_qless.servers import embedded_watcher as watcher
from tests.management.commands import run


def test_a_server_that_another_process_starts_is_not_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "PATIENCE", 0.2)
    with override_settings(QLESS={"default": {"EMBEDDED": str(tmp_path)}}):
        assert "was not running" in run("qless_embedded", "stop")
        lock = os.open(tmp_path / watcher.START, os.O_RDWR | os.O_CREAT)
        try:
            assert watcher.try_lock(lock)
            with pytest.raises(CommandError, match=r"Another process keeps .* locked"):
                run("qless_embedded", "stop")
        finally:
            os.close(lock)
        assert "was not running" in run("qless_embedded", "stop")
