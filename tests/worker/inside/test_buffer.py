"""The jobs that a child holds, and the rule for how many."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import Reserved, Settlement
from django_qless.worker.pools import async_child, prefork
from django_qless.worker.pools.batches import Batches
from django_qless.worker.pools.buffer import SHORT, Item, JobBuffer, Prefetch
from django_qless.worker.pools.locks import LockTerm
from django_qless.worker.pools.outcomes import released
from django_qless.worker.pools.shared_state import SharedState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def reserved(name: str, jid: str | None = None) -> Reserved:
    return Reserved(
        *(jid or name, "q", "klass", "{}", f"t-{name}", 3, 3, 0, "[]", "", 0.0)
    )


A, B, C = map(reserved, "abc")


@pytest.fixture
def buffer() -> Iterator[JobBuffer]:
    shared = SharedState()
    yield JobBuffer(shared)
    shared.close()


def load(buffer: JobBuffer, jobs: Sequence[Reserved]) -> None:
    buffer.waiting.extend(buffer.hold(jobs))


def done(job: Reserved) -> Settlement:
    return Settlement(job.jid, job.token, "complete")


def back(job: Reserved) -> Settlement:
    return released(job.jid, job.token)


class TestJobBuffer:
    def test_what_waits_is_returned_in_its_order(self, buffer: JobBuffer) -> None:
        load(buffer, [A, B, C])
        item = buffer.waiting.popleft()
        began = buffer.begin(item)
        assert buffer.running == 1
        assert buffer.running_jobs() == [A]
        assert buffer.give_back_waiting() == 2
        assert list(buffer.returned) == [B, C]
        buffer.end(item, done(A), began)
        assert not buffer.held
        sent = [outcome.settlement for outcome in buffer.take_outcomes(9)]
        assert sent == [back(B), back(C), done(A)]

    def test_a_batch_is_finished_by_a_job_that_is_handed_back(
        self, buffer: JobBuffer
    ) -> None:
        announced: list[tuple[str, int]] = []
        buffer.batches = Batches(
            lambda job: job,
            lambda what, jobs, ran=0: announced.append((what, ran)),
        )
        load(buffer, [A, B])
        buffer.batches.begin(buffer.waiting)
        item = buffer.waiting.popleft()
        buffer.end(item, done(A), buffer.begin(item))
        assert announced == [("started", 0)]
        buffer.give_back_waiting()
        assert announced == [("started", 0), ("finished", 1)]

    def test_a_run_tells_how_long_its_job_was_held(self, buffer: JobBuffer) -> None:
        (item,) = buffer.hold([A], since=1.0)
        began = buffer.begin(item)
        buffer.end(item, Settlement("a", "t-a", "complete", (), 0.0), began)
        (outcome,) = buffer.take_outcomes(9)
        assert outcome.settlement.held == began - 1.0

    def test_only_what_has_waited_for_long(self, buffer: JobBuffer) -> None:
        buffer.waiting.extend(buffer.hold([A, B], since=1.0))
        buffer.waiting.extend(buffer.hold([C], since=2.0))
        assert buffer.give_back_waiting(before=1.5) == 2
        assert [item.job for item in buffer.waiting] == [C]

    def test_a_thread_may_take_what_was_just_seen_to_wait(
        self, buffer: JobBuffer
    ) -> None:
        class TakenAfterALook(deque[Item]):
            def __bool__(self) -> bool:
                return self._looked_at(len(self) > 0)

            def __getitem__(self, place: Any) -> Any:
                return self._looked_at(super().__getitem__(place))

            def _looked_at(self, seen: Any) -> Any:
                self.clear()
                return seen

        for before in (1.5, float("inf")):
            buffer.waiting = TakenAfterALook(buffer.hold([A], since=1.0))
            assert buffer.give_back_waiting(before) == 0
        buffer.waiting = TakenAfterALook(buffer.hold([A], since=1.0))
        assert (buffer.waiting_since, buffer.waiting_since) == (1.0, float("inf"))

    def test_lost_jobs_are_dropped_if_they_wait(self, buffer: JobBuffer) -> None:
        load(buffer, [A, B, C])
        buffer.begin(buffer.waiting.popleft())
        assert buffer.drop({"t-a", "t-b", "t-z"}) == [A]
        assert [item.job for item in buffer.waiting] == [C]
        assert [held.jid for held in buffer.shared.held_jobs().all] == ["a", "c"]

    def test_a_lost_job_that_was_just_started_is_told(self, buffer: JobBuffer) -> None:
        class StartedAfterALook(deque[Item]):
            def remove(self, item: Item) -> None:
                self.clear()
                super().remove(item)

        buffer.waiting = StartedAfterALook(buffer.hold([A]))
        assert buffer.drop({"t-a"}) == [A]
        assert [held.jid for held in buffer.shared.held_jobs().all] == ["a"]

    def test_a_batch_is_finished_by_a_job_that_is_dropped(
        self, buffer: JobBuffer
    ) -> None:
        told: list[Any] = []
        current: Any = lambda job: job.jid  # noqa: E731
        buffer.batches = Batches(
            current, lambda what, jobs, **more: told.append((what, more))
        )
        items = buffer.hold([A, B])
        buffer.batches.begin(items)
        buffer.batches.begin([])
        buffer.waiting.extend(items)
        buffer.drop({"t-a", "t-b"})
        buffer.batches.end("t-a", ran=True)  # it is over already
        assert told == [("started", {}), ("finished", {"ran": 0})]

    def test_only_entities_of_one_queue_run_together(self, buffer: JobBuffer) -> None:
        first, second, other, third = (
            reserved(name)._replace(batch=5, queue=queue)
            for name, queue in (("a", "q"), ("b", "q"), ("c", "r"), ("d", "q"))
        )
        load(buffer, [second, other, third])
        [leader] = buffer.hold([first])
        taken = buffer.take_companions(leader)
        assert [item.job for item in taken] == [second]
        # In their order: what comes next is what would have come.
        assert [item.job for item in buffer.waiting] == [other, third]

    @pytest.mark.parametrize("change", [{"klass": "other"}, {"batch": 0}])
    def test_entities_run_together_with_no_job_of_another_kind(
        self, buffer: JobBuffer, change: dict[str, Any]
    ) -> None:
        first, second, third = (reserved(name)._replace(batch=5) for name in "abc")
        load(buffer, [second._replace(**change), third])
        [leader] = buffer.hold([first])
        assert buffer.take_companions(leader) == []
        assert [item.job.jid for item in buffer.waiting] == ["b", "c"]

    def test_entities_that_run_together_count_as_one_run(
        self, buffer: JobBuffer
    ) -> None:
        load(buffer, [A, B, C])
        assert (buffer.runs, buffer.running) == (3, 0)
        for _ in "ab":
            buffer.begin(buffer.waiting.popleft())
        buffer.leaders["t-b"] = A
        assert (buffer.runs, buffer.running) == (2, 2)
        # The one to be interrupted is the one that leads.
        assert buffer.running_jobs() == [A, A]
        assert buffer.drop({"t-b", "t-c"}) == [A]

    def test_jobs_wait_as_if_they_were_held_from_the_announcement_on(
        self, buffer: JobBuffer
    ) -> None:
        items = buffer.hold([A, B], since=1.0)
        # One was lost while its batch was announced.
        buffer.held.pop("t-a")
        before = time.monotonic()
        buffer.let_in(items)
        [item] = buffer.waiting
        assert item.job == B
        assert before <= item.since <= time.monotonic()
        assert buffer.held["t-b"] == item
        buffer.end(item, done(B)._replace(held=0.0), item.since + 2)
        assert buffer.outcomes[0].settlement.held == pytest.approx(2)

    def test_the_locks_are_shown_as_held_once_all_slots_are_taken(
        self, buffer: JobBuffer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A renewal before that has perhaps not seen them."""
        seen: list[int] = []

        def clock() -> float:
            seen.append(len(buffer.shared.held_jobs().waiting))
            return 5.0

        monkeypatch.setattr("django_qless.worker.pools.buffer.boottime", clock)
        term = LockTerm()
        items = buffer.hold([A, B], term)
        assert (seen, term.shown) == ([2], 5.0)
        assert [item.term for item in items] == [term, term]

    def test_a_job_that_runs_on_elsewhere_is_forgotten_without_an_end(
        self, buffer: JobBuffer
    ) -> None:
        items = buffer.hold([A, B])
        buffer.begin(items[0])
        buffer.hand_over(items[0])
        assert list(buffer.held) == ["t-b"]
        assert [held.jid for held in buffer.shared.held_jobs().all] == ["b"]
        assert not buffer.outcomes
        assert not buffer.returned

    def test_what_has_ended_is_counted_with_its_time(self, buffer: JobBuffer) -> None:
        for seconds in (0.5, 0.25):
            buffer.count_run(seconds)
        assert (buffer.ended, buffer.seconds) == (2, 0.75)

    def test_a_run_that_was_not_begun_has_no_time_before_it(
        self, buffer: JobBuffer
    ) -> None:
        (item,) = buffer.hold([A], since=1.0)
        before = time.monotonic()
        buffer.end(item, done(A), buffer.begin(item))
        (outcome,) = buffer.take_outcomes(9)
        assert outcome.settlement == done(A)
        assert before <= outcome.since <= time.monotonic()

    def test_what_is_handed_back_is_settled_at_once(self, buffer: JobBuffer) -> None:
        load(buffer, [A])
        buffer.give_back_waiting()
        assert [outcome.since for outcome in buffer.take_outcomes(9)] == [0.0]

    def test_what_came_at_that_moment_may_wait_on(self, buffer: JobBuffer) -> None:
        buffer.waiting.extend(buffer.hold([A], since=1.5))
        assert buffer.give_back_waiting(before=1.5) == 0

    def test_no_more_entities_run_together_than_may(self, buffer: JobBuffer) -> None:
        jobs = [reserved(name)._replace(batch=2) for name in "abc"]
        load(buffer, jobs[1:])
        [leader] = buffer.hold(jobs[:1])
        assert [item.job for item in buffer.take_companions(leader)] == [jobs[1]]

    def test_two_ends_of_one_job_are_not_sent_together(self, buffer: JobBuffer) -> None:
        """The server's refusal of one of them would not say of which."""
        load(buffer, [A, B, reserved("d", jid="a"), C])
        for _ in range(4):
            item = buffer.waiting.popleft()
            buffer.end(item, done(item.job), buffer.begin(item))
        calls = []
        while taken := buffer.take_outcomes(9):
            calls.append([outcome.job.token for outcome in taken])
        assert calls == [["t-a", "t-b"], ["t-d", "t-c"]]

    def test_what_could_not_be_sent_comes_first_again(self, buffer: JobBuffer) -> None:
        load(buffer, [A, B, C])
        buffer.give_back_waiting()
        taken = buffer.take_outcomes(2)
        buffer.put_back(taken)
        assert buffer.take_outcomes(2) == taken


BUDGET = prefork.BUDGET


class TestBatches:
    """The rule of a child that runs one batch after the other."""

    @pytest.fixture
    def prefetch(self) -> Prefetch:
        return Prefetch(BUDGET, least=1, most=prefork.MOST)

    @pytest.mark.parametrize(
        ("most", "expected"),
        [(100, [1, 2, 4, 8, 16, 32, 64, 100, 100]), (5, [1, 2, 4, 5, 5])],
    )
    def test_quick_jobs_make_it_grow_to_a_bound(
        self, most: int, expected: list[int]
    ) -> None:
        prefetch, counts = Prefetch(BUDGET, least=1, most=most), []
        for _ in expected:
            counts.append(prefetch.count)
            prefetch.learn(prefetch.count, prefetch.count * 1e-6, 1e-6)
        assert counts == expected
        assert prefork.MOST == 100

    @pytest.mark.parametrize("each", [BUDGET, 2 * BUDGET, 100])
    def test_one_slow_batch_makes_it_1_again(
        self, prefetch: Prefetch, each: float
    ) -> None:
        prefetch.count = 100
        prefetch.learn(100, 100 * each, each)
        assert prefetch.count == 1

    def test_it_holds_what_fits_into_the_budget(self, prefetch: Prefetch) -> None:
        for _ in range(9):
            prefetch.learn(prefetch.count, prefetch.count * BUDGET / 10, BUDGET / 10)
        assert 8 <= prefetch.count <= 10

    def test_a_batch_that_is_not_full_does_not_make_it_grow(
        self, prefetch: Prefetch
    ) -> None:
        prefetch.count = 8
        prefetch.learn(3, 1e-6, 1e-6, grow=False)
        assert prefetch.count == 8

    def test_after_a_pause_it_knows_nothing(self, prefetch: Prefetch) -> None:
        prefetch.count = 8
        prefetch.learn(8, 1e-6, 1e-6)
        assert (prefetch.count, prefetch.each) == (16, 1e-6)
        prefetch.reset()
        assert (prefetch.count, prefetch.each) == (1, None)


class TestBounds:
    """Where jobs are neither short nor long."""

    @pytest.mark.parametrize(
        ("each", "expected"), [(SHORT, 4), (1.001 * SHORT, 1), (0.0, 4)]
    )
    def test_a_job_is_short_up_to_a_length(self, each: float, expected: int) -> None:
        prefetch = Prefetch(BUDGET, least=1, most=99)
        prefetch.count = 2
        prefetch.learn(2, 0.0, each)
        assert (prefetch.count, prefetch.each) == (expected, each)

    def test_each_doubling_may_add_a_step(self) -> None:
        prefetch, seen = Prefetch(BUDGET, least=0, most=60, step=8), []
        for _ in range(4):
            prefetch.learn(1, 0.0, 0.0)
            seen.append(prefetch.count)
        assert seen == [8, 24, 56, 60]

    def test_what_runs_within_the_budget_is_a_matter_of_the_pace(self) -> None:
        """And not of how long each took: many may run at once."""
        prefetch = Prefetch(2.0, least=1, most=1000)
        prefetch.count = 1000
        prefetch.learn(30, 1.0, SHORT)
        assert prefetch.count == 60

    def test_the_most_is_no_less_than_the_least(self) -> None:
        prefetch = Prefetch(BUDGET, least=5, most=3)
        for _ in range(3):
            prefetch.learn(5, 0.0, 0.0)
        assert prefetch.count == 5


class TestAhead:
    """The rule of a child that runs many jobs at once."""

    @pytest.fixture
    def prefetch(self) -> Prefetch:
        return Prefetch(
            async_child.BUDGET, least=0, most=async_child.MOST, step=async_child.STEP
        )

    def test_it_grows_while_jobs_are_short(self, prefetch: Prefetch) -> None:
        seen = []
        for _ in range(11):
            prefetch.learn(1000, 0.01, 1e-5)
            seen.append(prefetch.count)
        assert seen == sorted(seen)
        assert seen[0] < seen[-1] <= async_child.MOST

    def test_it_holds_no_more_than_will_soon_be_done(self, prefetch: Prefetch) -> None:
        for _ in range(19):
            prefetch.learn(10, 0.01, 0.001)
        assert 0 < prefetch.count <= 10

    @pytest.mark.parametrize("seconds", [0.006, 1, 100])
    def test_long_jobs_are_not_held(self, prefetch: Prefetch, seconds: float) -> None:
        prefetch.learn(1000, 0.01, 1e-5)
        assert prefetch.count
        prefetch.learn(1000, 0.01, seconds)
        assert prefetch.count == 0
