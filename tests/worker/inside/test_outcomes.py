"""How jobs are settled that were not run to their end."""

from __future__ import annotations

import logging

import pytest

from django_qless.core import Settlement
from django_qless.worker.execution import NO_RETRY, NO_RETRY_LEFT
from django_qless.worker.failure_report import MAX_BYTES
from django_qless.worker.pools import outcomes
from django_qless.worker.pools.shared_state import RUNNING, HeldJob

HELD = HeldJob(5, RUNNING, "job", "1", 12.0, 9.0, 7.0, 10.0)

LOGGER = "django_qless.worker"


@pytest.mark.parametrize("seconds_held", [None, 0.0, 2.5])
def test_what_goes_back_may_run_again_at_once(seconds_held: float | None) -> None:
    settlement = outcomes.released("job", "1", seconds_held)
    assert settlement == Settlement("job", "1", "release", (0,), seconds_held)


def test_a_process_that_dies_crashes_its_job() -> None:
    settlement = outcomes.died("job", "1", 47, -11, "the stacks", seconds_held=2.5)
    assert settlement[:3] == ("job", "1", "crash")
    assert settlement.held == 2.5
    most, group, message = settlement.args
    assert (most, group) == (3, "worker-crash")
    assert "47" in str(message)
    assert "SIGSEGV" in str(message)
    assert str(message).endswith("\n\nthe stacks")


@pytest.mark.parametrize(("sure", "other"), [(True, False), (False, True)])
def test_a_job_that_may_not_have_blocked_the_loop_is_told_so(
    sure: bool, other: bool
) -> None:
    settlement = outcomes.blocked(HELD, 47, 35.4, "the stacks", sure=sure)
    assert settlement[:3] == ("job", "1", "crash")
    assert settlement.held == 2.0
    message = str(settlement.args[2])
    assert "the event loop of process 47 for 35 s" in message
    assert ("another beside it" in message) == other
    assert message.endswith("\n\nthe stacks")


@pytest.mark.parametrize(
    ("delay", "verb", "before", "level"),
    [
        (7.0, "retry", (7.0,), logging.WARNING),
        (0.0, "retry", (0.0,), logging.WARNING),
        # The server knows that there are no retries left, and fails it.
        (NO_RETRY_LEFT, "retry", (0.0,), logging.ERROR),
        (NO_RETRY, "fail", (), logging.ERROR),
    ],
)
def test_a_run_beyond_its_limit_is_tried_again_if_it_may_be(
    delay: float,
    verb: str,
    before: tuple[float, ...],
    level: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG, LOGGER):
        settlement = outcomes.overran(HELD._replace(delay=delay), 47, "the stacks")
    assert settlement[:3] == ("job", "1", verb)
    assert settlement.held == 2.0
    *first, group, message = settlement.args
    assert (tuple(first), group) == (before, "timeout")
    assert "hard timeout of 9 s" in str(message)
    assert str(message).endswith("\n\nthe stacks")
    assert [record.levelno for record in caplog.records] == [level]


def test_a_message_without_stacks_has_no_empty_lines_at_its_end() -> None:
    assert outcomes.with_stacks("killed", "") == "killed"
    message = str(outcomes.died("job", "1", 47, 1, seconds_held=None).args[2])
    assert message == message.rstrip()


def test_of_very_long_stacks_the_end_is_kept() -> None:
    message = outcomes.with_stacks("killed", "x" * 2 * MAX_BYTES + "the end")
    assert len(message) <= MAX_BYTES
    assert message.endswith("the end")
