"""Hard limits of runs, and the limit for blocked event loops."""

from __future__ import annotations

import math
import re
import time

import pytest

from django_qless.core import Settlement
from django_qless.worker.pools import shared_state
from django_qless.worker.pools.hard_limits import LONG, SHORT, HardLimits
from django_qless.worker.pools.shared_state import SharedState
from tests.real_servers import poll

NOW = 1000.0


class FakeChild:
    """What those look at that decide about children."""

    pid = 4711

    def __init__(self) -> None:
        self.shared = SharedState()
        self.killed_outcomes: dict[str, Settlement | None] | None = None
        self.suspended = False
        self.dumps = 0
        self.has_answered = False

    def run(self, jid: str, ago: float, hard: float = 0.0) -> int:
        """Have a job run that began so many seconds ago."""
        slot = self.shared.take(jid, f"{jid}1", 1.0)
        self.shared.limit(slot, hard, 7.0)
        self.shared.begin(slot, time.monotonic() - ago)
        return slot

    def dump(self) -> None:
        self.dumps += 1

    def stacks(self) -> str:
        return "the stacks"

    def kill(self, verdicts: dict[str, Settlement | None]) -> None:
        self.killed_outcomes = verdicts


class TestHardLimits:
    def look(self, hard_limits: HardLimits, child: FakeChild) -> float:
        """Look; return in how many seconds to look again."""
        hard_limits.look([child])  # type: ignore[list-item]
        return hard_limits.due - time.monotonic()

    def look_on(self, hard_limits: HardLimits, child: FakeChild) -> None:
        """Look, and again when it wants to, until it kills."""
        again = self.look(hard_limits, child)
        assert child.dumps == 1
        assert child.killed_outcomes is None
        assert 0 < again < 1

        def is_killed() -> bool:
            if time.monotonic() >= hard_limits.due:
                self.look(hard_limits, child)
            return child.killed_outcomes is not None

        poll(is_killed, what="it is killed")
        assert child.dumps == 1

    def test_the_next_one_is_known(self) -> None:
        hard_limits, child = HardLimits(30), FakeChild()
        child.run("free", ago=100)
        assert self.look(hard_limits, child) == math.inf
        child.run("a", ago=10, hard=60)
        child.run("b", ago=20, hard=40)
        assert self.look(hard_limits, child) == pytest.approx(20, abs=1)
        assert child.dumps == 0

    def test_whose_time_is_over_is_asked_then_killed(self) -> None:
        hard_limits, child = HardLimits(30), FakeChild()
        child.run("a", ago=10, hard=9)
        child.run("b", ago=10, hard=60)
        self.look_on(hard_limits, child)
        assert child.killed_outcomes is not None
        ((token, settlement),) = child.killed_outcomes.items()
        assert settlement is not None
        assert (token, settlement.jid, settlement.verb) == ("a1", "a", "retry")
        delay, group, message = settlement.args
        assert (delay, group) == (7.0, "timeout")
        assert "hard timeout of 9 s" in str(message)
        assert "the stacks" in str(message)

    def test_who_answers_is_killed_sooner(self) -> None:
        took = []
        for answers in (True, False):
            hard_limits, child = HardLimits(30), FakeChild()
            child.has_answered = answers
            child.run("a", ago=10, hard=9)
            began = time.monotonic()
            self.look_on(hard_limits, child)
            took.append(time.monotonic() - began)
        assert SHORT <= took[0] < took[1]
        assert took[1] >= LONG

    def test_who_ends_at_the_last_moment_lives(self) -> None:
        hard_limits, child = HardLimits(30), FakeChild()
        slot = child.run("a", ago=10, hard=9)
        self.look(hard_limits, child)
        child.shared.finish(slot)
        assert self.look(hard_limits, child) == math.inf
        assert child.killed_outcomes is None

    def test_a_loop_that_turns_is_looked_at_again_when_it_may_be_over(self) -> None:
        hard_limits, child = HardLimits(30), FakeChild()
        child.shared.floats[shared_state.LOOP_TURNED] = time.monotonic() - 10
        assert self.look(hard_limits, child) == pytest.approx(20, abs=1)
        assert child.dumps == 0

    @pytest.mark.parametrize("found", [True, False])
    def test_a_loop_that_stands_still_costs_the_culprit_a_crash(
        self, *, found: bool
    ) -> None:
        hard_limits, child = HardLimits(30), FakeChild()
        child.run("a", ago=40)
        culprit = child.run("b", ago=40)
        child.shared.floats[shared_state.LOOP_TURNED] = time.monotonic() - 35
        if found:
            child.shared.ints[shared_state.BLOCKING_SLOT] = culprit + 1
        self.look_on(hard_limits, child)
        assert child.killed_outcomes is not None
        assert set(child.killed_outcomes) == ({"b1"} if found else {"a1", "b1"})
        settlement = child.killed_outcomes["b1"]
        assert settlement is not None
        assert settlement.verb == "crash"
        assert settlement.args[1] == "worker-crash"
        assert "event loop" in str(settlement.args[2])
        assert re.search("3[56] s", str(settlement.args[2]))

    def test_a_loop_that_goes_on_is_forgiven(self) -> None:
        hard_limits, child = HardLimits(30), FakeChild()
        child.shared.floats[shared_state.LOOP_TURNED] = time.monotonic() - 35
        self.look(hard_limits, child)
        child.shared.floats[shared_state.LOOP_TURNED] = time.monotonic()
        assert self.look(hard_limits, child) > 20
        assert child.killed_outcomes is None

    def test_a_suspended_process_has_an_excuse(self) -> None:
        hard_limits, child = HardLimits(30), FakeChild()
        child.shared.floats[shared_state.LOOP_TURNED] = time.monotonic() - 35
        child.suspended = True
        assert self.look(hard_limits, child) == math.inf

    def test_who_was_killed_already_is_let_be(self) -> None:
        """It has not ended yet: why it was killed stays as it is."""
        hard_limits, child = HardLimits(30), FakeChild()
        child.run("a", ago=10, hard=9)
        child.killed_outcomes = {}
        assert self.look(hard_limits, child) == math.inf
        assert child.dumps == 0
        assert child.killed_outcomes == {}
