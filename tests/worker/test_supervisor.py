"""Single steps of the parent of a pool, whose surroundings the test decides."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from django_qless.worker.pools.supervisor import Supervisor
from django_qless.worker.shutdown import Stage


@pytest.mark.parametrize(
    ("has_outbox", "leads", "stage", "is_running", "calls"),
    [
        (True, True, Stage.RUNNING, False, ["prepare", True]),
        (True, True, Stage.RUNNING, True, [True]),
        (True, False, Stage.RUNNING, False, [False]),
        (True, True, Stage.DRAINING, False, [False]),
        (False, True, Stage.RUNNING, False, []),
    ],
)
def test_connections_are_closed_before_a_sweeper_of_outboxes_is_forked(
    *, has_outbox: bool, leads: bool, stage: Stage, is_running: bool, calls: list[Any]
) -> None:
    """Only the worker that serves the schedules has one, while it runs."""
    seen: list[Any] = []
    environment = SimpleNamespace(before_fork=lambda: seen.append("prepare"))
    sweeper = SimpleNamespace(
        is_running=is_running, look=lambda children, *, wanted: seen.append(wanted)
    )
    parent: Any = SimpleNamespace(
        has_outbox=has_outbox,
        ticker=SimpleNamespace(leads=leads),
        shutdown=SimpleNamespace(stage=stage),
        worker=SimpleNamespace(environment=environment),
        sweeper=sweeper,
        children=[],
    )
    Supervisor.sweep_outboxes(parent)
    assert seen == calls
