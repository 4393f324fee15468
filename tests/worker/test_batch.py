"""The jobs that a child holds, and the thread that does not let them wait."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from django_qless.core import Reserved, Settlement
from django_qless.worker.pools.batch import Batch, WatchedBatch, hand_back
from django_qless.worker.pools.board import Board

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_qless.worker.pools.batch import Outcome


def reserved(name: str) -> Reserved:
    return Reserved(name, "q", "klass", "{}", f"t-{name}", 3, 3, 0, "[]", "", 0.0)


def done(name: str) -> Outcome:
    settlement = Settlement(name, f"t-{name}", "complete", ())
    return "abcdef".find(name), settlement, reserved(name)


def back(held: tuple[int, Reserved]) -> Outcome:
    return held[0], hand_back(held[1]), held[1]


# Jobs with their slots.
A, B, C = enumerate(map(reserved, "abc"))


class Settler:
    """Remembers what was settled early."""

    def __init__(self) -> None:
        self.settled: list[Outcome] = []
        self.called = threading.Event()
        self.board = Board()
        self.batch = WatchedBatch(self.board, self.settle)

    def settle(self, outcomes: Sequence[Outcome]) -> bool:
        self.settled += outcomes
        self.called.set()
        return True


# The thread must not step in before a test is ready for it, however slow the machine.
SLACK = 0.3


def test_a_batch_that_lasts_is_settled_and_handed_back() -> None:
    settler = Settler()
    batch = settler.batch
    batch.load([A, B, C], time.monotonic() + SLACK)
    assert batch.waiting.popleft() == A
    batch.outcomes.append(done("a"))
    assert batch.waiting.popleft() == B
    assert settler.called.wait(30)
    assert settler.settled == [done("a"), back(C)]
    assert not batch.waiting
    assert not batch.outcomes


def test_the_thread_looks_after_one_batch_after_the_other() -> None:
    settler = Settler()
    batch = settler.batch
    for round_ in range(3):
        batch.load([A, B], time.monotonic())
        assert settler.called.wait(30), f"round {round_}"
        settler.called.clear()
        batch.done()
    assert settler.settled == [back(A), back(B)] * 3


def test_a_batch_that_is_over_is_left_alone() -> None:
    settler = Settler()
    batch = settler.batch
    batch.waiting.append(A)
    batch.since = 2.0
    assert batch.step_in(1.0)
    batch.done()
    assert batch.step_in(2.0)
    assert list(batch.waiting) == [A]
    assert not settler.settled


def test_what_could_not_be_settled_is_tried_again() -> None:
    """Even while the next job runs on and on."""
    tries: list[list[Outcome]] = []
    settled = threading.Event()

    def settle(outcomes: Sequence[Outcome]) -> bool:
        tries.append(list(outcomes))
        if len(tries) < 3:
            batch.put_back(outcomes)
            return False
        settled.set()
        return True

    batch = WatchedBatch(Board(), settle)
    batch.outcomes.append(done("z"))
    batch.load([A], time.monotonic() + SLACK)
    batch.waiting.popleft()
    assert settled.wait(30)
    assert tries == [[done("z")]] * 3


def test_a_single_job_needs_no_thread() -> None:
    before = threading.active_count()
    batch = Settler().batch
    batch.load([A], 0.0)
    assert threading.active_count() == before


def test_jobs_whose_locks_are_lost_are_dropped() -> None:
    settler = Settler()
    batch, board = settler.batch, settler.board
    for slot, job in (A, B, C):
        assert board.take(job.jid, job.token, 1.0) == slot
    batch.waiting.extend([A, B, C])
    batch.drop({"t-b", "t-z"})
    assert list(batch.waiting) == [A, C]
    assert [held.jid for held in board.holdings().waiting] == ["a", "c"]


def test_outcomes_that_could_not_be_sent_come_first_again() -> None:
    batch = Settler().batch
    batch.outcomes.extend(map(done, "abc"))
    taken = batch.take_outcomes(2)
    assert taken == [done("a"), done("b")]
    batch.put_back(taken)
    assert batch.take_outcomes(9) == [done("a"), done("b"), done("c")]


def test_leaving_waits_for_the_thread() -> None:
    began, go_on = threading.Event(), threading.Event()
    settled: list[Outcome] = []
    seen: list[list[Outcome]] = []

    def settle(outcomes: Sequence[Outcome]) -> bool:
        began.set()
        go_on.wait(30)
        settled.extend(outcomes)
        return True

    def leave() -> None:
        batch.leave()
        seen.append(list(settled))

    batch = WatchedBatch(Board(), settle)
    batch.load([A, B], time.monotonic())
    assert began.wait(30)
    leaving = threading.Thread(target=leave)
    leaving.start()
    go_on.set()
    leaving.join(30)
    assert seen == [[back(A), back(B)]]


def test_who_has_no_thread_steps_in_by_itself() -> None:
    """And is told if that was not possible; nothing is forgotten."""
    tries: list[list[Outcome]] = []

    def settle(outcomes: Sequence[Outcome]) -> bool:
        tries.append(list(outcomes))
        if len(tries) == 1:
            batch.put_back(outcomes)
            return False
        return True

    before = threading.active_count()
    batch = Batch(Board(), settle)
    batch.load([A, B, C], 1.0)
    assert batch.since == 1.0
    batch.waiting.popleft()
    batch.outcomes.append(done("a"))
    assert not batch.step_in(1.0)
    assert batch.early_steps == 2
    batch.since = 2.0
    assert batch.step_in(2.0)
    assert tries == [[done("a"), back(B), back(C)]] * 2
    assert not batch.outcomes
    assert list(batch.given_back) == [B[1], C[1]]
    assert threading.active_count() == before
