"""What the statistics say of a worker: each hand-out once, each run without its wait."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from django_qless.core import Client

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_qless.core.commands.statistics import DayStats
    from tests.worker.stage import Stage

JOBS, LONG = 200, 3


def started(client: Client, began: float) -> int:
    """Return how many runs were begun since then, as the minutes count them."""
    minutes = client.minutes("q", int(began // 60), int(time.time() // 60))
    return sum(minutes.started.values())


def stats(client: Client, began: float) -> tuple[int, int]:
    """Return how many waits and runs the days since then know."""
    days: list[DayStats] = [
        client.stats("q", day * 86400) for day in {began // 86400, time.time() // 86400}
    ]
    return sum(day.wait.count for day in days), sum(day.run.count for day in days)


def handed_out(stage: Stage, jids: Sequence[str]) -> int:
    """Return how often these jobs were handed out, as their histories say."""
    entries = [entry for jid in jids for entry in stage.job(jid).history]
    return sum(entry["what"] == "popped" for entry in entries)


def test_each_hand_out_is_counted_once(stage: Stage) -> None:
    """Also if all children but one are busy and hand back what they cannot run."""
    began = float(stage.client.meta()["now"])
    jids = stage.put_records(range(JOBS // 2), priority=2)
    long = [
        stage.put_hold(("hold", "ahold")[n % 2], f"long-{n}", priority=1)
        for n in range(LONG)
    ]
    jids += stage.put_records(range(JOBS // 2, JOBS), priority=0)
    stage.start(concurrency=LONG + 1)
    for jid in jids:
        stage.job_when(jid, "complete")
    for n in range(LONG):
        assert stage.run_of(f"long-{n}").is_open
    assert started(stage.client, began) == handed_out(stage, jids + long)
    stage.latch().open()
    for jid in long:
        stage.job_when(jid, "complete")
    assert len(stage.runs.all()) == JOBS + LONG
    number = handed_out(stage, jids + long)
    assert started(stage.client, began) == number >= JOBS + LONG
    assert stats(stage.client, began) == (number, JOBS + LONG)


def test_a_job_that_kills_its_process_counts_each_time(stage: Stage) -> None:
    began = float(stage.client.meta()["now"])
    jid = stage.put_run("die", "killer", "kill")
    stage.start()
    stage.job_when(jid, "failed")
    runs = len(stage.runs.all())
    assert runs > 1
    assert started(stage.client, began) == runs
    assert stats(stage.client, began) == (runs, 0)


def test_the_time_in_hands_is_no_part_of_wait_and_run(stage: Stage) -> None:
    began = float(stage.client.meta()["now"])
    jids = stage.put_records(range(60), seconds=0.001)
    stage.run(concurrency=1)
    waited = ran = in_hands = longest = 0.0
    for jid in jids:
        history = stage.job(jid).history
        put, popped, done = (entry["when"] for entry in history)
        held = history[-1].get("held", 0.0)
        waited, ran = waited + popped - put, ran + done - popped
        in_hands, longest = in_hands + held, max(longest, held)
    if (
        stage.pool != "fork"
    ):  # whose processes may take so long that it takes single jobs
        assert longest >= 0.001, "some have waited for others of their batch"
    day = stage.client.stats("q", began)
    assert (day.wait.count, day.run.count) == (60, 60)
    rounded = 60 * 0.002
    assert day.wait.count * day.wait.mean == pytest.approx(waited, abs=rounded)
    assert day.run.count * day.run.mean == pytest.approx(ran - in_hands, abs=rounded)
