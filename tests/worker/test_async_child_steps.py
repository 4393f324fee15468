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
from django_qless.worker.pools.shared_state import CAPACITY, QUEUES_EMPTY, SharedState


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
    @pytest.mark.parametrize(
        ("held", "must_not_prefetch", "has_free_slots", "at_once"),
        [
            (1, False, True, False),
            (1, True, False, False),
            (1, True, True, True),
            (0, False, False, True),
        ],
    )
    def test_an_end_waits_for_others_unless_they_come_no_more(
        self, *, held: int, must_not_prefetch: bool, has_free_slots: bool, at_once: bool
    ) -> None:
        outcome = SimpleNamespace(since=5.0)
        child: Any = SimpleNamespace(
            buffer=SimpleNamespace(outcomes=[outcome], held=range(held)),
            must_not_prefetch=must_not_prefetch,
            has_free_slots=has_free_slots,
        )
        assert AsyncChild.settle_at(child) == (0.0 if at_once else 5.0 + SETTLE_LIMIT)

    @pytest.mark.parametrize(
        ("runs", "waiting", "must_not_prefetch", "wanted"),
        [
            (1, 0, False, 12),
            (1, 9, True, 12),
            (3, 5, False, 10),
            (3, 6, False, 0),
            (3, 5, True, 0),
        ],
    )
    def test_what_is_free_is_reserved_and_what_runs_short_of_the_jobs_ahead(
        self, *, runs: int, waiting: int, must_not_prefetch: bool, wanted: int
    ) -> None:
        child: Any = SimpleNamespace(
            is_closed=False,
            buffer=SimpleNamespace(runs=runs, waiting=range(waiting)),
            prefetch=SimpleNamespace(count=10),
            shared=SharedState(slots=1),
            capacity=[3],
            must_not_prefetch=must_not_prefetch,
            worker=SimpleNamespace(options=SimpleNamespace(batch=100)),
            recycling=SimpleNamespace(room=lambda count, ran: count),
        )
        assert AsyncChild.wanted(child) == wanted


class Slots:
    """The slots of a child, of which it is decided what happens to them."""

    def __init__(self, held: int, *, waited: bool, keeps: bool) -> None:
        self.held, self.is_waiting = held, waited
        self._keeps = keeps
        self.calls: list[Any] = []

    def keeps(self) -> bool:
        return self._keeps

    def want(self, count: int) -> int:
        self.calls.append(("want", count))
        self.is_waiting = True
        return self.held

    def pass_on(self, used: int, wanted: int) -> None:
        self.calls.append(("pass on", used, wanted))

    async def order(self) -> tuple[str, ...]:
        self.calls.append("order")
        return ("q",)

    async def decline(self, asked: tuple[str, ...]) -> None:
        self.calls.append(("decline", asked))

    async def settle(self) -> None:
        self.calls.append("settle")

    def give_up(self) -> None:
        self.calls.append("give up")


def adjust(slots: Slots, *, runs: int = 0, **state: Any) -> SimpleNamespace:
    """Have a child adjust its slots; return it."""
    shared = SharedState(slots=1)
    shared.ints[CAPACITY], shared.ints[QUEUES_EMPTY] = 3, 1
    known = {"is_closed": False, "waiting_for_jobs": None, "troubles": 0}
    known |= {"used_slots": 0, "was_idle": False}
    child: Any = SimpleNamespace(**known | state)
    child.shared, child.channel, child.buffer = (
        shared,
        slots,
        SimpleNamespace(runs=runs),
    )
    child.has_free_slots = slots.held > runs
    child.settle, child.give_up_free_slots = slots.settle, slots.give_up
    asyncio.run(AsyncChild.adjust_slots(child, slots))  # type: ignore[arg-type]
    child.empty = shared.ints[QUEUES_EMPTY]
    shared.close()
    result: SimpleNamespace = child
    return result


class TestSlots:
    @pytest.mark.parametrize(
        ("held", "waited", "was_idle", "calls"),
        [
            (0, False, False, ["order"]),
            (0, True, False, []),
            # Others are woken for what it was woken for, in whatever way it learns of it.
            (0, False, True, ["order", ("decline", ("q",))]),
            (0, True, True, ["order", ("decline", ("q",))]),
            (1, False, True, ["order", ("decline", ("q",))]),
        ],
    )
    def test_a_child_without_a_free_slot_has_others_woken(
        self, held: int, *, waited: bool, was_idle: bool, calls: list[Any]
    ) -> None:
        slots = Slots(held, waited=waited, keeps=False)
        child = adjust(slots, runs=held, was_idle=was_idle)
        assert slots.calls == [("want", 3), *calls]
        assert not child.was_idle
        assert child.empty == 0

    def test_a_child_with_a_free_slot_takes_the_job_itself(self) -> None:
        slots = Slots(1, waited=False, keeps=True)
        child = adjust(slots, was_idle=True)
        assert slots.calls == [("want", 3)]
        assert not child.was_idle

    @pytest.mark.parametrize(
        ("held", "used", "runs", "keeps", "passes"),
        [
            (2, 2, 1, False, True),
            (2, 2, 1, True, False),
            (2, 1, 1, False, False),  # one is new: it has not asked with it yet
            (2, 2, 2, False, False),
        ],
    )
    def test_a_slot_that_found_no_job_goes_on_to_another_namespace(
        self, *, held: int, used: int, runs: int, keeps: bool, passes: bool
    ) -> None:
        slots = Slots(held, waited=True, keeps=keeps)
        child = adjust(slots, runs=runs, used_slots=used)
        assert slots.calls == [("pass on", runs, 3) if passes else ("want", 3)]
        assert child.used_slots == (runs if passes else used)

    @pytest.mark.parametrize("why", [{"is_closed": True}, {"waiting_for_jobs": True}])
    def test_who_takes_no_jobs_gives_free_slots_up(self, why: dict[str, bool]) -> None:
        slots = Slots(2, waited=False, keeps=True)
        child = adjust(slots, **why)
        assert slots.calls == ["give up"]
        assert child.empty == 1

    def test_after_trouble_it_asks_the_server_before_it_takes_a_slot(self) -> None:
        slots = Slots(0, waited=True, keeps=False)
        adjust(slots, troubles=1)
        assert slots.calls == ["settle", ("want", 3)]

    @pytest.mark.parametrize("is_closed", [False, True])
    def test_a_slot_that_has_come_is_for_what_waits(self, *, is_closed: bool) -> None:
        calls: list[str] = []
        child: Any = SimpleNamespace(
            is_closed=is_closed,
            executor=SimpleNamespace(start_waiting=lambda: calls.append("start")),
            wakeup=SimpleNamespace(set=lambda: calls.append("wake")),
        )
        AsyncChild.on_slot(child)
        assert calls == (["wake"] if is_closed else ["start", "wake"])
