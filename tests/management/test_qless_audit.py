"""`manage.py qless_audit`."""

from __future__ import annotations

import pytest
from django.core.management import CommandError

from tests.jobs_app.jobs import add
from tests.management.commands import data, run


def test_of_a_sound_namespace(qless) -> None:
    add.enqueue_many([add.args(1) for _ in range(30)])
    text = run("qless_audit", "--count", "10")
    assert "no violations" in text


def test_what_is_wrong_is_said(qless, redis_client) -> None:
    handle = add.delay(1)
    redis_client.hset(f"ql:j:{handle.jid}", "state", "running")
    with pytest.raises(CommandError, match="violation"):
        run("qless_audit")


def test_as_json(qless) -> None:
    add.enqueue_many([add.args(1) for _ in range(3)])
    report = data("qless_audit")
    assert report["checked"] >= 3
    assert report["calls"] >= 1
    assert report["violations"] == []
