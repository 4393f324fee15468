"""The small parts of a worker, each by itself."""

from __future__ import annotations

import signal
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from django_qless.exceptions import JobTimeout
from django_qless.worker import failures
from django_qless.worker.backoff import delay_after
from django_qless.worker.heartbeat import LONGEST_PACE, Heartbeat, pace_for
from django_qless.worker.pools import board as boards
from django_qless.worker.pools.board import Board
from django_qless.worker.pools.nursery import Nursery
from django_qless.worker.pools.pace import BUDGET, MOST, Pace
from django_qless.worker.reservers import RESERVERS
from django_qless.worker.shutdown import SIGNALS, Shutdown, Stage, described


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
    def test_first_drain_then_stop(self) -> None:
        shutdown = Shutdown(timeout=30)
        shutdown.signalled()
        assert shutdown.stage is Stage.DRAINING
        assert shutdown.deadline is not None
        shutdown.signalled()
        assert shutdown.stage is Stage.STOPPING

    def test_a_drain_has_its_time(self) -> None:
        shutdown = Shutdown(timeout=0)
        shutdown.drain()
        shutdown.check_time()
        assert shutdown.stage is Stage.STOPPING

    def test_a_drain_of_a_drain_changes_nothing(self) -> None:
        shutdown = Shutdown(timeout=30)
        shutdown.drain()
        deadline = shutdown.deadline
        shutdown.drain()
        assert (shutdown.stage, shutdown.deadline) == (Stage.DRAINING, deadline)

    def test_the_table_is_shown(self) -> None:
        for known in SIGNALS:
            assert known.name.removeprefix("SIG") in described()


NOW = 1000.0


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

    def beat(self, worker: str, info: str, held: Any) -> Any:
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
        heartbeat = Heartbeat(None, "w", "{}")  # type: ignore[arg-type]
        heartbeat.due += 100
        heartbeat.hurry(60)
        assert heartbeat.pace == 10
        before = heartbeat.due
        heartbeat.hurry(3)
        assert heartbeat.pace == 1
        assert heartbeat.due < before

    def test_it_survives_any_exception_and_tries_again_soon(self) -> None:
        client = FakeClient(RuntimeError("no"), OSError("no"))
        heartbeat = Heartbeat(client, "w", "{}")  # type: ignore[arg-type]
        heartbeat.pace = 0.0
        for _ in range(2):
            assert heartbeat.beat([("a", "1")]) == set()
        assert not client.answers
