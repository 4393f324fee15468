"""The shared memory between a pool's parent and its children."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import pytest

from django_qless.worker.pools import shared_state
from django_qless.worker.pools.shared_state import HeldJob, Message, SharedState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# pytest-xdist has threads, which the children here do not touch.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


def in_a_child(work: Callable[[], None]) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


@pytest.fixture
def shared() -> Iterator[SharedState]:
    shared = SharedState()
    yield shared
    shared.close()


def states(shared: SharedState) -> list[list[str]]:
    """Return the jids that are finished, running, waiting."""
    return [[held.jid for held in part] for part in shared.held_jobs()]


def test_an_empty_board_holds_nothing(shared: SharedState) -> None:
    assert shared.held_jobs() == ([], [], [])


def test_what_a_child_does_its_parent_sees(shared: SharedState) -> None:
    def take() -> None:
        assert [shared.take(jid, jid + "1", 4.0) for jid in "abc"] == [0, 1, 2]
        shared.begin(0, 5.0)
        shared.finish(0)
        shared.limit(1, 30.0, 2.0)
        shared.begin(1, 7.0)

    in_a_child(take)
    finished, running, waiting = shared.held_jobs()
    assert finished == [
        HeldJob(0, shared_state.FINISHED, "a", "a1", 5.0, 0.0, 0.0, 4.0)
    ]
    assert running == [HeldJob(1, shared_state.RUNNING, "b", "b1", 7.0, 30.0, 2.0, 4.0)]
    assert waiting == [HeldJob(2, shared_state.WAITING, "c", "c1", 0.0, 0.0, 0.0, 4.0)]
    assert shared.ints[shared_state.RUNS] == 2
    assert [held.jid for held in shared.held_jobs().locked] == ["b", "c"]
    in_a_child(lambda: shared.free(0))
    assert states(shared) == [[], ["b"], ["c"]]


def test_slots_are_used_again(shared: SharedState) -> None:
    for turn in range(3):
        slots = [shared.take(jid, str(turn), 1.0) for jid in "abc"]
        assert sorted(slots) == [0, 1, 2]
        shared.begin(slots[0], 1.0)
        shared.finish(slots[0])
        shared.begin(slots[1], 1.0)
        assert states(shared) == [["a"], ["b"], ["c"]]
        assert {held.token for held in shared.held_jobs().all} == {str(turn)}
        # Settled, abandoned, handed back.
        for slot in slots:
            shared.free(slot)
        assert states(shared) == [[], [], []]


def test_orders_reach_the_child(shared: SharedState) -> None:
    assert not shared.has_commands
    shared.drop({"2"})
    shared.drop({"3"})
    assert shared.has_commands
    shared.acknowledge()
    assert not shared.has_commands
    assert shared.lost_locks() == {"2", "3"}
    assert shared.command(shared_state.STOP)
    assert shared.has_commands
    assert shared.ints[shared_state.STOP] == 1


def test_a_command_that_changes_nothing_sends_no_signal(shared: SharedState) -> None:
    assert shared.command(shared_state.CAPACITY, 3)
    shared.acknowledge()
    assert not shared.command(shared_state.CAPACITY, 3)
    assert not shared.has_commands
    assert shared.command(shared_state.CAPACITY, 2)
    assert shared.has_commands


def test_a_child_knows_its_parents_signals(shared: SharedState) -> None:
    assert not shared.was_nudged(now=100.0)
    shared.floats[shared_state.NUDGED] = 99.5
    assert shared.was_nudged(now=100.0)
    assert not shared.was_nudged(now=101.0)


def test_a_child_knows_whether_its_parent_looks_in_time(shared: SharedState) -> None:
    shared.floats[shared_state.PARENT_WAKES] = 100.0
    assert not shared.must_wake_parent(101.0)
    assert not shared.must_wake_parent(100.0)
    assert shared.must_wake_parent(99.0)
    shared.floats[shared_state.PARENT_WAKES] = math.inf
    assert shared.must_wake_parent(1e9)


def test_a_job_was_held_from_its_reservation_to_its_start(shared: SharedState) -> None:
    for started, expected in ((7.5, 2.5), (5.0, 0.0), (4.0, 0.0)):
        slot = shared.take("a", "1", 5.0)
        (waiting,) = shared.held_jobs().all
        assert waiting.seconds_held is None
        shared.begin(slot, started)
        (running,) = shared.held_jobs().all
        assert running.seconds_held == expected
        shared.free(slot)


def test_a_slot_keeps_no_limit_of_the_job_before(shared: SharedState) -> None:
    slot = shared.take("a", "1", 1.0)
    shared.limit(slot, 30.0, 2.0)
    shared.begin(slot, 2.0)
    shared.free(slot)
    assert shared.take("b", "2", 3.0) == slot
    (held,) = shared.held_jobs().waiting
    assert (held.started, held.hard) == (0.0, 0.0)


def test_jobs_that_run_elsewhere_are_left_out_in_every_state(
    shared: SharedState,
) -> None:
    slots = [shared.take(jid, jid + "1", 1.0) for jid in "abcdef"]
    for slot in slots[:4]:
        shared.begin(slot, 2.0)
    for slot in slots[:2]:
        shared.finish(slot)
    left = shared.held_jobs().without({"a1", "c1", "e1", "z1"})
    assert [[held.jid for held in part] for part in left] == [["b"], ["d"], ["f"]]
    assert [held.jid for held in left.all] == ["b", "d", "f"]
    assert [held.jid for held in left.locked] == ["d", "f"]


def test_of_very_many_lost_locks_the_last_are_known(shared: SharedState) -> None:
    """The text has its bounds, and only what a child holds now matters."""
    for n in range(300):
        shared.drop({f"{n:020}"})
    assert shared.lost_locks() == {f"{n:020}" for n in range(44, 300)}


def test_queues_that_are_full_have_a_child_look_again(shared: SharedState) -> None:
    """That it found no jobs says nothing of other queues than those that it asked."""
    shared.ints[shared_state.QUEUES_EMPTY] = 1
    shared.exclude({"q"})
    assert shared.has_commands
    assert shared.ints[shared_state.QUEUES_EMPTY] == 0
    shared.acknowledge()
    shared.request_attention()
    assert shared.has_commands


def test_ids_of_any_text_survive(shared: SharedState) -> None:
    odd = [('\x00,"]\udce9 \né\U0001f40c', "7"), ("x" * 255, "8")]
    for pair in odd:
        shared.take(*pair, 1.0)
    assert [(held.jid, held.token) for held in shared.held_jobs().waiting] == odd


def test_what_does_not_fit_is_not_held() -> None:
    shared = SharedState(slots=2)
    slots = [shared.take(jid, "1", 1.0) for jid in ("x" * 500, "a", "b", "c")]
    assert slots == [shared.nowhere, 0, 1, shared.nowhere]
    for slot in slots:
        shared.begin(slot, 1.0)
        shared.finish(slot)
        shared.free(slot)
    assert states(shared) == [[], [], []]
    assert not shared_state.fits("x" * 500, "1")
    assert shared_state.fits("ä" * 127, "1" * 20)
    # What was nowhere has not been added to the slots.
    assert [shared.take("a", "1", 1.0) for _ in range(3)].count(shared.nowhere) == 1


def test_a_reader_never_sees_half_a_job(shared: SharedState) -> None:
    def work() -> None:
        turn = 0
        while True:
            turn += 1
            slot = shared.take(str(turn) * 9, str(turn), 1.0)
            shared.begin(slot, float(turn))
            shared.finish(slot)
            shared.free(slot)

    writer = os.fork()
    if writer == 0:
        work()
    try:
        seen = set()
        while len(seen) < 300:
            for held in shared.held_jobs().all:
                assert held.jid == held.token * 9
                assert held.state == shared_state.WAITING or held.started == float(
                    held.token
                )
                seen.add(held.token)
    finally:
        os.kill(writer, 9)
        os.waitpid(writer, 0)


class TestMessage:
    def test_the_latest_message_is_read(self) -> None:
        message = Message(memoryview(bytearray(1000)))
        assert message.read() is None
        for n in range(5):
            assert message.write([n] * n)
            assert message.read() == [n] * n

    def test_a_message_may_fill_its_page(self) -> None:
        message = Message(memoryview(bytearray(200)))
        longest = "x" * (message.capacity - len('""'))
        assert message.write(longest)
        assert message.read() == longest
        assert not message.write(f"{longest}x")
        # Members of a list take no space but their own and a comma's.
        assert message.write([7] * (message.capacity // 2 - 1))

    def test_a_message_too_long_leaves_the_old_one(self) -> None:
        message = Message(memoryview(bytearray(200)))
        assert message.write("old")
        assert not message.write("x" * 200)
        assert message.read() == "old"

    def test_a_writer_that_dies_half_way_leaves_the_old_one(self) -> None:
        memory = memoryview(bytearray(200))
        message = Message(memory)
        message.write("old")
        half_way = message.count + 1
        message._pages[half_way & 1][: message.capacity] = b"\xff" * message.capacity
        assert message.read() == "old"

    def test_readers_never_see_a_mixture(self) -> None:
        import mmap

        message = Message(memoryview(mmap.mmap(-1, 4096)))
        message.write([0] * 100)
        writer = os.fork()
        if writer == 0:
            n = 0
            while True:
                n += 1
                message.write([n % 10] * 100)
        try:
            seen = set()
            while len(seen) < 10:
                read = message.read()
                assert read == [read[0]] * 100
                seen.add(read[0])
        finally:
            os.kill(writer, 9)
            os.waitpid(writer, 0)
