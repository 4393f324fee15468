"""Single steps of the parent of a pool, whose surroundings the test decides."""

from __future__ import annotations

import math
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


@pytest.mark.parametrize(
    ("running", "detached", "quiet", "busy"),
    [
        (0, 0, False, False),
        (1, 0, False, True),
        (0, 1, False, True),
        (0, 0, True, True),
    ],
)
def test_a_worker_is_idle_if_nothing_runs(
    running: int, detached: int, *, quiet: bool, busy: bool
) -> None:
    looks: list[tuple[int, bool]] = []
    drained: list[bool] = []

    def look(now: float, *, runs: int, busy: bool) -> bool:
        looks.append((runs, busy))
        return not busy

    parent: Any = SimpleNamespace(
        idle_timer=SimpleNamespace(due=0.0, look=look),
        children=SimpleNamespace(running=running, runs=7),
        detached=range(detached),
        shutdown=SimpleNamespace(quiet=quiet, drain=lambda: drained.append(True)),
    )
    Supervisor.end_when_idle(parent)
    assert looks == [(7, busy)]
    assert drained == ([] if busy else [True])
    # Not before its time.
    parent.idle_timer.due = math.inf
    Supervisor.end_when_idle(parent)
    assert len(looks) == 1
