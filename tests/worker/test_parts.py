"""The small parts of a worker, each by itself."""

from __future__ import annotations

import math
import os
import re
import signal
import time
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from django_qless.core import Beat, Settlement
from django_qless.exceptions import JobTimeout
from django_qless.worker import failures
from django_qless.worker.backoff import delay_after
from django_qless.worker.heartbeat import (
    AFTER_HINT,
    LONGEST_PACE,
    Heartbeat,
    pace_for,
)
from django_qless.worker.pools import board as boards
from django_qless.worker.pools.board import Board
from django_qless.worker.pools.deadlines import LONG, SHORT, Deadlines
from django_qless.worker.pools.idleness import Idleness
from django_qless.worker.pools.nursery import Nursery
from django_qless.worker.pools.pace import BUDGET, MOST, Pace
from django_qless.worker.pools.suspicion import Suspicion
from django_qless.worker.reservers import RESERVERS
from django_qless.worker.shutdown import (
    GRACE,
    SIGNALS,
    Order,
    Shutdown,
    Signals,
    Stage,
    described,
)
from tests.servers import poll


class TestPace:
    def test_quick_jobs_make_it_grow_to_a_bound(self) -> None:
        pace, counts = Pace(), []
        for _ in range(9):
            counts.append(pace.count)
            pace.learn(pace.count, pace.count * 1e-6)
        assert counts == [1, 2, 4, 8, 16, 32, 64, 100, 100]
        assert MOST == 100

    def test_one_slow_batch_makes_it_1_again(self) -> None:
        pace = Pace()
        pace.count = 100
        pace.learn(100, 100 * BUDGET)
        assert pace.count == 1

    def test_it_holds_what_fits_into_the_budget(self) -> None:
        pace = Pace()
        for _ in range(9):
            pace.learn(pace.count, pace.count * BUDGET / 10)
        assert 8 <= pace.count <= 10

    def test_a_batch_that_is_not_full_does_not_make_it_grow(self) -> None:
        pace = Pace()
        pace.count = 8
        pace.learn(3, 1e-6)
        assert pace.count == 8


class TestBackoff:
    def test_a_number_serves_every_attempt(self) -> None:
        assert [delay_after(5, n, KeyError()) for n in (1, 2, 9)] == [5, 5, 5]

    def test_a_list_ends_with_its_last_number(self) -> None:
        delays = [delay_after((1, 10, 60), n, KeyError()) for n in (1, 2, 3, 4)]
        assert delays == [1, 10, 60, 60]

    def test_a_function_is_told_attempt_and_exception(self) -> None:
        error = KeyError("x")

        def rule(attempt: int, raised: BaseException) -> timedelta:
            assert raised is error
            return timedelta(minutes=attempt)

        assert delay_after(rule, 3, error) == 180

    @pytest.mark.parametrize(("attempt", "middle"), [(1, 2), (3, 8), (40, 3600)])
    def test_without_a_rule_it_doubles_with_jitter(
        self, attempt: int, middle: float
    ) -> None:
        delays = {delay_after(None, attempt, KeyError()) for _ in range(50)}
        assert len(delays) > 40
        assert all(0.75 * middle <= delay <= 1.25 * middle for delay in delays)

    def test_a_negative_delay_is_none(self) -> None:
        assert delay_after(lambda attempt, error: -5, 1, KeyError()) == 0


def raised(make: Any) -> BaseException:
    try:
        make()
    except BaseException as error:  # noqa: BLE001
        return error
    raise AssertionError("nothing was raised")


class TestFailures:
    def test_the_group_is_the_class_of_the_exception(self) -> None:
        assert failures.group_of(ValueError("x")) == "ValueError"
        assert failures.group_of(JobTimeout(3)) == "timeout"

    def test_a_group_that_is_no_text_is_not_taken(self) -> None:
        error = ValueError()
        error.group = 3  # type: ignore[attr-defined]
        assert failures.group_of(error) == "ValueError"

    def test_the_message_is_a_traceback(self) -> None:
        message = failures.message_of(raised(lambda: {}["key"]))
        assert message.startswith("Traceback (most recent call last):")
        assert message.endswith("KeyError: 'key'\n")

    def test_it_begins_with_the_users_code(self) -> None:
        def rule(attempt: int, error: BaseException) -> float:
            return 1 / 0

        error = raised(lambda: delay_after(rule, 1, KeyError()))
        assert "in delay_after" in failures.message_of(error)
        # Without our own two frames, the first is one of django_qless.
        error.__traceback__ = error.__traceback__.tb_next.tb_next  # type: ignore[union-attr]
        message = failures.message_of(error)
        assert "in delay_after" not in message
        assert "in rule" in message

    def test_a_long_message_keeps_its_end(self) -> None:
        message = failures.fitting("ä" * 100_000 + "the end")
        assert len(message.encode()) <= 64 * 1024
        assert message.startswith("[the beginning is left out]")
        assert message.endswith("äthe end")

    def test_what_utf8_cannot_carry_is_written_out(self) -> None:
        assert failures.fitting("\udce9") == "\\udce9"

    def test_an_exception_that_cannot_be_shown(self) -> None:
        class Hostile(Exception):
            def __str__(self) -> str:
                raise RuntimeError("no")

        assert "Hostile" in failures.message_of(raised(lambda: raise_(Hostile())))

    @pytest.mark.parametrize(
        ("status", "words"),
        [
            (3, "exited with code 3"),
            (-signal.SIGSEGV, "signal 11 (SIGSEGV)"),
            (-signal.SIGKILL, "(SIGKILL). Out of memory?"),
            (-63, "killed by signal 63"),
        ],
    )
    def test_a_death_is_told(self, status: int, words: str) -> None:
        assert words in failures.death_of(1234, status)


def raise_(error: BaseException) -> None:
    raise error


class TestShutdown:
    def over(self, shutdown: Shutdown) -> None:
        """Let the time of the present stage be over."""
        assert shutdown.deadline is not None
        shutdown.deadline = time.monotonic()
        shutdown.check_time()

    def test_first_drain_then_stop(self) -> None:
        shutdown = Shutdown(timeout=30)
        shutdown.ask_to_stop()
        assert shutdown.stage is Stage.DRAINING
        assert shutdown.deadline is not None
        shutdown.ask_to_stop()
        assert shutdown.stage is Stage.STOPPING

    def test_a_drain_has_its_time_then_jobs_are_told_then_killed(self) -> None:
        shutdown = Shutdown(timeout=30)
        shutdown.drain()
        shutdown.check_time()
        assert shutdown.stage is Stage.DRAINING
        self.over(shutdown)
        assert shutdown.stage is Stage.INTERRUPTING
        assert shutdown.deadline is not None
        assert shutdown.deadline - time.monotonic() == pytest.approx(GRACE, abs=1)
        self.over(shutdown)
        assert shutdown.stage is Stage.STOPPING

    def test_the_grace_is_no_longer_than_the_timeout(self) -> None:
        shutdown = Shutdown(timeout=0.5)
        shutdown.drain()
        self.over(shutdown)
        assert shutdown.deadline is not None
        assert shutdown.deadline - time.monotonic() <= 0.5

    def test_without_time_it_stops_at_once(self) -> None:
        shutdown = Shutdown(timeout=0)
        shutdown.drain()
        shutdown.check_time()
        assert shutdown.stage is Stage.STOPPING

    def test_a_drain_of_a_drain_changes_nothing(self) -> None:
        shutdown = Shutdown(timeout=30)
        shutdown.drain()
        deadline = shutdown.deadline
        shutdown.drain()
        shutdown.reload()
        assert (shutdown.stage, shutdown.deadline) == (Stage.DRAINING, deadline)
        assert not shutdown.reexec

    @pytest.mark.parametrize("limit", [None, 60.0])
    def test_a_reload_has_a_time_of_its_own(self, limit: float | None) -> None:
        shutdown = Shutdown(timeout=0, reload_timeout=limit)
        shutdown.reload()
        shutdown.reload()
        shutdown.check_time()
        assert shutdown.stage is Stage.DRAINING
        assert (shutdown.deadline is None) == (limit is None)
        assert shutdown.reexec

    def test_a_reload_that_takes_too_long_is_one_all_the_same(self) -> None:
        shutdown = Shutdown(timeout=0, reload_timeout=0)
        shutdown.reload()
        shutdown.check_time()
        assert shutdown.stage is Stage.STOPPING
        assert shutdown.reexec

    def test_who_wants_an_end_during_a_reload_gets_it(self) -> None:
        shutdown = Shutdown(timeout=30)
        shutdown.reload()
        shutdown.ask_to_stop()
        assert (shutdown.stage, shutdown.reexec) == (Stage.DRAINING, False)
        assert shutdown.deadline is not None
        shutdown.ask_to_stop()
        assert shutdown.stage is Stage.STOPPING

    def test_its_state_in_a_word(self) -> None:
        shutdown = Shutdown(timeout=0.5)
        words = [shutdown.state]
        shutdown.quiet = True
        words.append(shutdown.state)
        shutdown.ask_to_stop()
        words.append(shutdown.state)
        self.over(shutdown)
        words.append(shutdown.state)
        assert words == ["running", "quiet", "draining", "stopping"]

    def test_the_table_is_shown(self) -> None:
        lines = described().splitlines()
        for known, order in SIGNALS.items():
            (line,) = [line for line in lines if known.name.removeprefix("SIG") in line]
            assert len(line.split(maxsplit=1)) == 2
            assert order in Order


NOW = 1000.0


def test_a_resumption_that_overtakes_its_pause_still_comes_after_it() -> None:
    signals = Signals()
    os.write(signals._writer, bytes([signal.SIGCONT, signal.SIGTSTP, signal.SIGTERM]))
    assert signals.received() == [signal.SIGTSTP, signal.SIGTERM, signal.SIGCONT]
    assert signals.received() == []
    signals.close()


class DeadChild:
    """What a nursery looks at."""

    def __init__(self, *, was_ready: bool, age: float) -> None:
        self.board = Board()
        self.board.words[boards.READY] = was_ready
        self.began = NOW - age


class TestNursery:
    def pauses(self, *deaths: DeadChild) -> list[float]:
        """Return how long each of these deaths in a row has the next child wait."""
        nursery, pauses = Nursery(), []
        for dead in deaths:
            nursery.due = NOW
            nursery.note(dead, NOW)  # type: ignore[arg-type]
            pauses.append(nursery.due - NOW)
        return pauses

    def test_what_cannot_start_waits_longer_and_longer(self) -> None:
        dead = DeadChild(was_ready=False, age=0.0)
        pauses = self.pauses(*[dead] * 20)
        assert pauses[0] == pytest.approx(0.1)
        assert all(before < after for before, after in pairwise(pauses[:8]))
        assert pauses[-1] == 30

    def test_what_a_job_killed_is_replaced_at_once(self) -> None:
        dead = DeadChild(was_ready=True, age=0.0)
        assert self.pauses(*[dead] * 5) == [0] * 5

    def test_very_many_in_a_row_are_slowed_down_a_little(self) -> None:
        dead = DeadChild(was_ready=True, age=0.0)
        assert self.pauses(*[dead] * 20)[-1] == 0.5

    def test_a_start_that_works_forgives_the_others(self) -> None:
        bad, good = (DeadChild(was_ready=ready, age=9) for ready in (False, True))
        pauses = self.pauses(*[bad] * 6, good, bad)
        assert pauses[6] == 0
        assert pauses[7] == pytest.approx(0.1)


class TestReservers:
    def test_ordered_asks_in_the_order_given(self) -> None:
        assert RESERVERS["ordered"](["c", "b*", "a"]).order() == ("c", "b*", "a")


class FakeClient:
    """Answers beats as told: this is about when to beat, not about the server."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.calls = 0

    def beat(self, worker: str, info: str, held: Any) -> Any:
        self.calls += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class TestHeartbeat:
    def test_the_pace_is_a_third_of_the_lock_and_at_most_10_s(self) -> None:
        assert pace_for(60) == LONGEST_PACE == 10
        assert pace_for(6) == 2
        assert pace_for(-1) > 0

    def test_a_short_lock_hurries_it(self) -> None:
        heartbeat = Heartbeat(None, "w", lambda: "{}")  # type: ignore[arg-type]
        heartbeat.due += 100
        heartbeat.hurry(60)
        assert heartbeat.pace == 10
        before = heartbeat.due
        heartbeat.hurry(3)
        assert heartbeat.pace == 1
        assert heartbeat.due < before

    def test_it_survives_any_exception_and_tries_again_soon(self) -> None:
        client = FakeClient(RuntimeError("no"), OSError("no"))
        heartbeat = Heartbeat(client, "w", lambda: "{}")  # type: ignore[arg-type]
        heartbeat.pace = 0.0
        for _ in range(2):
            assert heartbeat.beat([("a", "1", None)]) == Beat([], [])
            assert heartbeat.due <= time.monotonic() + 0.1
        assert not client.answers
        assert heartbeat.good == 0.0

    def test_it_knows_when_the_server_last_answered(self) -> None:
        client = FakeClient(Beat(["a"], ["quiet"]), OSError("no"))
        heartbeat = Heartbeat(client, "w", lambda: "{}")  # type: ignore[arg-type]
        assert heartbeat.beat([("a", "1", None)]) == Beat(["a"], ["quiet"])
        good = heartbeat.good
        assert good > 0.0
        heartbeat.beat([])
        assert heartbeat.good == good

    def test_a_hint_hurries_it_but_many_do_not_make_it_race(self) -> None:
        client = FakeClient(Beat([], []))
        heartbeat = Heartbeat(client, "w", lambda: "{}")  # type: ignore[arg-type]
        heartbeat.beat([])
        last = time.monotonic()
        assert heartbeat.due > last + 5
        for _ in range(3):
            heartbeat.hint()
        assert heartbeat.due == pytest.approx(last + AFTER_HINT, abs=0.01)
        heartbeat.due = last - 1
        heartbeat.hint()
        assert heartbeat.due == last - 1


class TestIdleness:
    def test_without_a_limit_it_never_looks(self) -> None:
        assert Idleness(None).due == math.inf

    def test_it_is_over_when_nothing_has_run_for_so_long(self) -> None:
        idleness = Idleness(10)
        assert not idleness.look(NOW, runs=0, busy=False)
        assert NOW < idleness.due <= NOW + 1
        assert not idleness.look(NOW + 9, runs=0, busy=False)
        assert idleness.due == pytest.approx(NOW + 9.5)
        assert idleness.look(NOW + 10, runs=0, busy=False)

    def test_a_run_between_two_looks_counts(self) -> None:
        idleness = Idleness(10)
        idleness.look(NOW, runs=0, busy=False)
        assert not idleness.look(NOW + 10, runs=1, busy=False)
        assert idleness.look(NOW + 20, runs=1, busy=False)

    def test_who_is_busy_is_not_idle(self) -> None:
        idleness = Idleness(10)
        idleness.look(NOW, runs=1, busy=False)
        assert not idleness.look(NOW + 10, runs=1, busy=True)
        assert not idleness.look(NOW + 19, runs=1, busy=False)
        assert idleness.look(NOW + 20, runs=1, busy=False)


class TestSuspicion:
    def test_one_job_alone_is_no_riddle(self) -> None:
        suspicion = Suspicion()
        suspicion.note_crash(["a"], NOW)
        suspicion.note_crash([], NOW)
        assert not suspicion

    def test_it_lasts_until_all_have_run_again_to_the_end(self) -> None:
        suspicion = Suspicion()
        suspicion.note_crash(["a", "b"], NOW)
        for running in ((), ("c",), ("a",), ("c",), ("b",)):
            suspicion.look(running, NOW + 1)
            assert suspicion
        suspicion.look((), NOW + 1)
        assert not suspicion

    def test_who_dies_again_stays_suspect(self) -> None:
        suspicion = Suspicion()
        suspicion.note_crash(["a", "b"], NOW)
        suspicion.look(("a", "b"), NOW + 1)
        suspicion.note_crash(["a"], NOW + 2)
        suspicion.look((), NOW + 3)
        assert suspicion
        suspicion.look(("a",), NOW + 4)
        suspicion.look((), NOW + 5)
        assert not suspicion

    def test_it_does_not_last_for_ever(self) -> None:
        suspicion = Suspicion()
        suspicion.note_crash(["a", "b"], NOW)
        suspicion.look(("a",), NOW + 29)
        assert suspicion
        suspicion.look(("a",), NOW + 30)
        assert not suspicion


class FakeChild:
    """What those look at that decide about children."""

    pid = 4711

    def __init__(self) -> None:
        self.board = Board()
        self.doomed: dict[str, Settlement | None] | None = None
        self.suspended = False
        self.dumps = 0
        self.has_answered = False

    def run(self, jid: str, ago: float, hard: float = 0.0) -> int:
        """Have a job run that began so many seconds ago."""
        slot = self.board.take(jid, f"{jid}1", 1.0)
        self.board.limit(slot, hard, 7.0)
        self.board.begin(slot, time.monotonic() - ago)
        return slot

    def dump(self) -> None:
        self.dumps += 1

    def stacks(self) -> str:
        return "the stacks"

    def kill(self, verdicts: dict[str, Settlement | None]) -> None:
        self.doomed = verdicts


class TestDeadlines:
    def look(self, deadlines: Deadlines, child: FakeChild) -> float:
        """Look; return in how many seconds to look again."""
        deadlines.look([child])  # type: ignore[list-item]
        return deadlines.due - time.monotonic()

    def look_on(self, deadlines: Deadlines, child: FakeChild) -> None:
        """Look, and again when it wants to, until it kills."""
        again = self.look(deadlines, child)
        assert child.dumps == 1
        assert child.doomed is None
        assert 0 < again < 1

        def is_killed() -> bool:
            if time.monotonic() >= deadlines.due:
                self.look(deadlines, child)
            return child.doomed is not None

        poll(is_killed, what="it is killed")
        assert child.dumps == 1

    def test_the_next_one_is_known(self) -> None:
        deadlines, child = Deadlines(30), FakeChild()
        child.run("free", ago=100)
        assert self.look(deadlines, child) == math.inf
        child.run("a", ago=10, hard=60)
        child.run("b", ago=20, hard=40)
        assert self.look(deadlines, child) == pytest.approx(20, abs=1)
        assert child.dumps == 0

    def test_whose_time_is_over_is_asked_then_killed(self) -> None:
        deadlines, child = Deadlines(30), FakeChild()
        child.run("a", ago=10, hard=9)
        child.run("b", ago=10, hard=60)
        self.look_on(deadlines, child)
        assert child.doomed is not None
        ((token, settlement),) = child.doomed.items()
        assert settlement is not None
        assert (token, settlement.jid, settlement.verb) == ("a1", "a", "retry")
        delay, group, message = settlement.args
        assert (delay, group) == (7.0, "timeout")
        assert "hard timeout of 9 s" in str(message)
        assert "the stacks" in str(message)

    def test_who_answers_is_killed_sooner(self) -> None:
        took = []
        for answers in (True, False):
            deadlines, child = Deadlines(30), FakeChild()
            child.has_answered = answers
            child.run("a", ago=10, hard=9)
            began = time.monotonic()
            self.look_on(deadlines, child)
            took.append(time.monotonic() - began)
        assert SHORT <= took[0] < took[1]
        assert took[1] >= LONG

    def test_who_ends_at_the_last_moment_lives(self) -> None:
        deadlines, child = Deadlines(30), FakeChild()
        slot = child.run("a", ago=10, hard=9)
        self.look(deadlines, child)
        child.board.finish(slot)
        assert self.look(deadlines, child) == math.inf
        assert child.doomed is None

    def test_a_loop_that_turns_is_looked_at_again_when_it_may_be_over(self) -> None:
        deadlines, child = Deadlines(30), FakeChild()
        child.board.seconds[boards.TURNED] = time.monotonic() - 10
        assert self.look(deadlines, child) == pytest.approx(20, abs=1)
        assert child.dumps == 0

    @pytest.mark.parametrize("found", [True, False])
    def test_a_loop_that_stands_still_costs_the_culprit_a_crash(
        self, *, found: bool
    ) -> None:
        deadlines, child = Deadlines(30), FakeChild()
        child.run("a", ago=40)
        culprit = child.run("b", ago=40)
        child.board.seconds[boards.TURNED] = time.monotonic() - 35
        if found:
            child.board.words[boards.CULPRIT] = culprit + 1
        self.look_on(deadlines, child)
        assert child.doomed is not None
        assert set(child.doomed) == ({"b1"} if found else {"a1", "b1"})
        settlement = child.doomed["b1"]
        assert settlement is not None
        assert settlement.verb == "crash"
        assert settlement.args[1] == "worker-crash"
        assert "event loop" in str(settlement.args[2])
        assert re.search("3[56] s", str(settlement.args[2]))

    def test_a_loop_that_goes_on_is_forgiven(self) -> None:
        deadlines, child = Deadlines(30), FakeChild()
        child.board.seconds[boards.TURNED] = time.monotonic() - 35
        self.look(deadlines, child)
        child.board.seconds[boards.TURNED] = time.monotonic()
        assert self.look(deadlines, child) > 20
        assert child.doomed is None

    def test_a_suspended_process_has_an_excuse(self) -> None:
        deadlines, child = Deadlines(30), FakeChild()
        child.board.seconds[boards.TURNED] = time.monotonic() - 35
        child.suspended = True
        assert self.look(deadlines, child) == math.inf
