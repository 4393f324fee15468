"""Single steps of a child with an event loop, whose surroundings the test decides."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from django_qless.worker.pools.async_child import SETTLE_LIMIT, AsyncChild
from django_qless.worker.pools.shared_state import SharedState


class EndsAfterALook(list[str]):
    """The outcomes at the moment in which a thread ends a job."""

    def __bool__(self) -> bool:
        seen, self[:] = len(self) > 0, ["done"]
        return seen


class Resting(SimpleNamespace):
    """A child that rests; its sleep only notes until when, and at which level."""

    slept: tuple[float, int] | None = None

    async def wait(self) -> None:
        self.slept = self.due, self.wakeup_level

    def call_at(self, due: float, wake: Any) -> Any:
        self.due = due
        return SimpleNamespace(cancel=lambda: None)


def rest(
    outcomes: list[str], *, waiting: int, held: int, waits: bool, count: int = 0
) -> tuple[float, int] | None:
    """Return until when such a child sleeps, and its level; None: not at all."""
    buffer = SimpleNamespace(
        outcomes=outcomes, waiting=range(waiting), held=range(held), running=held
    )
    child: Any = Resting(
        buffer=buffer,
        prefetch=SimpleNamespace(count=count),
        waiting_for_jobs=waits,
        is_closed=False,
        must_not_prefetch=False,
        next_due=lambda: math.inf,
    )
    child.loop = child
    child.wakeup = SimpleNamespace(clear=lambda: None, wait=child.wait, set=None)
    asyncio.run(AsyncChild.rest(child))
    assert child.wakeup_level == -1
    slept: tuple[float, int] | None = child.slept
    return slept


class TestRest:
    def test_it_lasts_until_a_job_ends(self) -> None:
        for waits in (True, False):
            slept = rest([], waiting=0, held=1, waits=waits)
            assert slept == (math.inf, sys.maxsize)

    @pytest.mark.parametrize("waits", [True, False])
    def test_a_job_that_ends_just_before_it_is_not_overlooked(
        self, *, waits: bool
    ) -> None:
        """Its end has caused no wakeup."""
        assert rest(EndsAfterALook(), waiting=0, held=1, waits=waits) is None

    def test_ends_are_settled_together_while_others_run(self) -> None:
        assert rest(["done"], waiting=0, held=1, waits=True) == (math.inf, -1)
        assert rest(["done"], waiting=0, held=0, waits=True) is None
        # It may reserve: the next call is due.
        assert rest(["done"], waiting=0, held=1, waits=False) is None

    def test_more_is_reserved_when_half_of_what_is_held_ahead_is_done(self) -> None:
        before = time.monotonic()
        slept = rest(["done"], waiting=6, held=6, waits=False, count=10)
        assert slept is not None
        due, level = slept
        assert before + SETTLE_LIMIT <= due <= time.monotonic() + SETTLE_LIMIT
        assert level == 5
        assert rest(["done"], waiting=5, held=5, waits=False, count=10) is None


class TestCalls:
    @pytest.mark.parametrize(("held", "at_once"), [(1, False), (0, True)])
    def test_an_end_waits_for_others_unless_they_come_no_more(
        self, *, held: int, at_once: bool
    ) -> None:
        outcome = SimpleNamespace(since=5.0)
        child: Any = SimpleNamespace(
            buffer=SimpleNamespace(outcomes=[outcome], held=range(held)),
        )
        assert AsyncChild.settle_at(child) == (0.0 if at_once else 5.0 + SETTLE_LIMIT)

    @pytest.mark.parametrize(
        ("runs", "waiting", "wanted"), [(1, 0, 12), (1, 9, 12), (3, 5, 10), (3, 6, 0)]
    )
    def test_what_is_free_is_reserved_and_what_runs_short_of_the_jobs_ahead(
        self, *, runs: int, waiting: int, wanted: int
    ) -> None:
        child: Any = SimpleNamespace(
            is_closed=False,
            buffer=SimpleNamespace(runs=runs, waiting=range(waiting)),
            prefetch=SimpleNamespace(count=10),
            shared=SharedState(slots=1),
            capacity=[3],
            worker=SimpleNamespace(options=SimpleNamespace(batch=100)),
            recycling=SimpleNamespace(room=lambda count, ran: count),
        )
        assert AsyncChild.wanted(child) == wanted
