"""`manage.py qless_status`."""

from __future__ import annotations

import json

import pytest
from django.core.management import CommandError

from django_qless.core import Settlement
from django_qless.core.commands.entities import Payload
from tests.management.commands import run


def test_an_unknown_alias_is_named() -> None:
    with pytest.raises(CommandError, match="'nowhere'"):
        run("qless_status", "--alias", "nowhere")


def test_the_dead_are_no_failed_jobs(qless) -> None:
    assert "dead" not in run("qless_status")
    for entity in ("a", "b"):
        qless.push("", "orders", "sync", [Payload(entity, '{"v":1}', "1")])
    held = qless.settle("w", [], 2, ["orders"]).jobs
    ends = [Settlement(job.jid, job.token, "fail", ("bad", "m")) for job in held]
    qless.settle("w", ends, 0, ())
    status = json.loads(run("qless_status", "--json"))
    assert (status["failures"], status["dead"]) == ({}, {"orders": 2})
    assert (status["totals"]["failed"], status["totals"]["dead"]) == (0, 2)
    shown = run("qless_status")
    assert "no failures" in shown
    assert [line.split() for line in shown.splitlines() if "2     orders" in line]
