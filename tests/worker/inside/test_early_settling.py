"""Settling early while a job of the prefork pool takes long."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from django_qless.core import Reserved, Settlement
from django_qless.worker.pools.buffer import JobBuffer, Outcome
from django_qless.worker.pools.early_settling import (
    EarlySettling,
    EarlySettlingThread,
)
from django_qless.worker.pools.outcomes import released
from django_qless.worker.pools.shared_state import SharedState

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.worker.pools.buffer import Item


def reserved(name: str) -> Reserved:
    return Reserved(name, "q", "klass", "{}", f"t-{name}", 3, 3, 0, "[]", "", 0.0)


def done(name: str) -> Outcome:
    settlement = Settlement(name, f"t-{name}", "complete", ())
    return Outcome("abcdef".find(name), settlement, reserved(name))


def back(item: Item) -> Outcome:
    return Outcome(item.slot, released(item.job.jid, item.job.token), item.job)


class FakeChannel:
    """Remembers what was settled early; the first `failures` calls fail."""

    early_steps = 0

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.tries: list[list[Outcome]] = []
        self.called = threading.Event()
        self.settle = lambda: None
        self.buffer = JobBuffer(SharedState())

    def settle_early(self) -> bool:
        outcomes = self.buffer.take_outcomes(9)
        self.tries.append(outcomes)
        self.called.set()
        self.settle()
        if len(self.tries) <= self.failures:
            self.buffer.put_back(outcomes)
            return False
        return True

    def return_prefetched(self) -> None:
        """There is nothing."""


class Batch:
    """Early settling of a buffer with three held jobs, which do not wait yet."""

    def __init__(
        self, failures: int = 0, kind: type[EarlySettling] = EarlySettlingThread
    ) -> None:
        self.channel: Any = FakeChannel(failures)
        self.buffer = self.channel.buffer
        self.early = kind(self.buffer, self.channel)
        self.a, self.b, self.c = self.buffer.hold(list(map(reserved, "abc")))

    @property
    def settled(self) -> list[Outcome]:
        return [outcome for outcomes in self.channel.tries for outcome in outcomes]


def wait_until(is_true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


# The thread must not step in before a test is ready for it, however slow the machine.
SLACK = 0.3


def test_a_batch_that_lasts_is_settled_and_returned() -> None:
    batch = Batch()
    buffer = batch.buffer
    batch.early.begin_batch([batch.a, batch.b, batch.c], time.monotonic() + SLACK)
    assert buffer.waiting.popleft() == batch.a
    buffer.outcomes.append(done("a"))
    assert buffer.waiting.popleft() == batch.b
    assert batch.channel.called.wait(30)
    assert batch.settled == [done("a"), back(batch.c)]
    assert not buffer.waiting
    assert not buffer.outcomes


def test_the_thread_looks_after_one_batch_after_the_other() -> None:
    batch = Batch()
    for round_ in range(3):
        batch.early.begin_batch([batch.a, batch.b], time.monotonic())
        assert batch.channel.called.wait(30), f"round {round_}"
        batch.channel.called.clear()
        batch.early.end_batch()
    assert batch.settled == [back(batch.a), back(batch.b)] * 3


def test_a_batch_that_is_over_is_left_alone() -> None:
    batch = Batch()
    batch.buffer.waiting.append(batch.a)
    batch.early.since = 2.0
    assert batch.early.step_in(1.0)
    batch.early.end_batch()
    assert batch.early.step_in(2.0)
    assert list(batch.buffer.waiting) == [batch.a]
    assert not batch.settled


def test_what_could_not_be_settled_is_tried_again() -> None:
    """Even while the next job runs on and on."""
    batch = Batch(failures=2)
    batch.buffer.outcomes.append(done("a"))
    batch.early.begin_batch([batch.b], time.monotonic() + SLACK)
    batch.buffer.waiting.popleft()
    wait_until(lambda: len(batch.channel.tries) == 3)
    assert batch.channel.tries == [[done("a")]] * 3


def test_a_single_job_needs_no_thread() -> None:
    before = threading.active_count()
    batch = Batch()
    batch.early.begin_batch([batch.a], 0.0)
    assert threading.active_count() == before


def test_leaving_waits_for_the_thread() -> None:
    go_on = threading.Event()
    batch = Batch()
    seen: list[list[Outcome]] = []

    def leave() -> None:
        batch.early.leave()
        seen.append(batch.settled)

    batch.channel.settle = lambda: go_on.wait(30)
    batch.early.begin_batch([batch.a, batch.b], time.monotonic())
    assert batch.channel.called.wait(30)
    leaving = threading.Thread(target=leave)
    leaving.start()
    assert not seen
    go_on.set()
    leaving.join(30)
    assert seen == [[back(batch.a), back(batch.b)]]


def test_without_a_thread_a_failed_step_keeps_the_outcomes() -> None:
    before = threading.active_count()
    batch = Batch(failures=1, kind=EarlySettling)
    early, buffer = batch.early, batch.buffer
    early.begin_batch([batch.a, batch.b, batch.c], 1.0)
    assert early.since == 1.0
    buffer.waiting.popleft()
    buffer.outcomes.append(done("a"))
    assert not early.step_in(1.0)
    assert batch.channel.early_steps == 2
    early.since = 2.0
    assert early.step_in(2.0)
    assert batch.channel.tries == [[done("a"), back(batch.b), back(batch.c)]] * 2
    assert not buffer.outcomes
    assert list(buffer.returned) == [batch.b.job, batch.c.job]
    assert threading.active_count() == before
