"""The records of shared slots: who is given one, what the dead leave, what a child has."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.worker.reservers import HighestPriorityFirst, RoundRobin
from django_qless.worker.shared_slots import (
    ASKING,
    CHILD_WORDS,
    FIGURE,
    HELD,
    LATE,
    LOOK,
    NUMBER,
    OWNER,
    PID,
    SIGNAL,
    SINCE,
    SPARE,
    TURNS,
    USED,
    WAITING,
    WANTED,
    ChildSlots,
    SharedSlots,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# No process has an id beyond the kernel's greatest.
NO_PROCESS = 2**22 + 1


def add(
    slots: SharedSlots,
    namespace: int,
    *,
    held: int = 0,
    wanted: int = 0,
    since: int = 0,
    pid: int = NO_PROCESS,
    asking: float = 0.0,
) -> int:
    """Add the record of a child, whose lock is free; return where it begins."""
    ints = slots.ints
    at = slots.record(ints[NUMBER]) + ints[USED] * CHILD_WORDS
    ints[USED] += 1
    ints[at + PID], ints[at + OWNER] = pid, namespace
    ints[at + HELD], ints[at + WANTED], ints[at + SINCE] = held, wanted, since
    slots.floats[at + ASKING] = asking
    ints[WAITING] += wanted
    return at


def state(slots: SharedSlots, at: int) -> tuple[int, int]:
    """Return how many slots a child holds, and for how many it waits."""
    return slots.ints[at + HELD], slots.ints[at + WANTED]


@pytest.fixture
def slots() -> SharedSlots:
    """Two slots for three namespaces that take turns."""
    return SharedSlots.create(2, [0, 1, 2], "round-robin")


@pytest.fixture
def own_handler() -> Iterator[None]:
    """Children in this process leave its handler of the signal as it was."""
    handler = signal.getsignal(SIGNAL)
    yield
    signal.signal(SIGNAL, handler)


class TestGiving:
    def test_who_has_waited_longest_comes_first_in_its_namespace(
        self, slots: SharedSlots
    ) -> None:
        late, early, last = (
            add(slots, 0, wanted=1, since=since) for since in (5, 3, 9)
        )
        slots.give()
        assert [state(slots, at) for at in (late, early, last)] == [
            (1, 0), (1, 0), (0, 1),
        ]  # fmt: skip
        assert slots.ints[WAITING] == 1

    def test_who_has_waited_equally_long_comes_by_its_record(
        self, slots: SharedSlots
    ) -> None:
        add(slots, 1, held=1)
        first, second = (add(slots, 0, wanted=1, since=3) for _ in range(2))
        slots.give()
        assert (state(slots, first), state(slots, second)) == ((1, 0), (0, 1))

    def test_what_others_hold_is_not_free(self, slots: SharedSlots) -> None:
        holder = add(slots, 1, held=1)
        waiter = add(slots, 0, wanted=3)
        slots.give()
        assert (state(slots, holder), state(slots, waiter)) == ((1, 0), (1, 2))
        slots.give()
        assert state(slots, waiter) == (1, 2)
        assert slots.ints[WAITING] == 2

    def test_one_namespace_may_be_left_out(self, slots: SharedSlots) -> None:
        own, other = add(slots, 0, wanted=2), add(slots, 1, wanted=1)
        slots.give(but=0)
        assert (state(slots, own), state(slots, other)) == ((0, 2), (1, 0))
        assert slots.ints[WAITING] == 2

    def test_each_slot_that_is_given_is_a_turn(self, slots: SharedSlots) -> None:
        waiting = [add(slots, namespace, wanted=2) for namespace in (0, 1)]
        slots.give()
        assert slots.ints[TURNS] == 2
        assert [state(slots, at) for at in waiting] == [(1, 1), (1, 1)]

    def test_who_is_given_one_is_woken(self, slots: SharedSlots) -> None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {SIGNAL})
        pid = os.fork()
        if pid == 0:
            os._exit(signal.sigwait({SIGNAL}) != SIGNAL)
        try:
            add(slots, 1, wanted=1, pid=pid)
            slots.give()
            assert os.waitpid(pid, 0)[1] == 0
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


class TestClearing:
    def test_what_the_dead_held_and_wanted_is_free(self, slots: SharedSlots) -> None:
        dead = [add(slots, 0, held=1), add(slots, 0, wanted=1)]
        assert slots.clear()
        assert [state(slots, at) for at in dead] == [(0, 0), (0, 0)]
        # Nothing is left of them.
        assert not slots.clear()

    def test_a_sweep_gives_it_to_those_that_wait(self, slots: SharedSlots) -> None:
        add(slots, 0, held=2)
        waiter = add(slots, 1, wanted=1, pid=os.getpid())
        slots.sweep()
        assert state(slots, waiter) == (1, 0)
        assert slots.ints[WAITING] == 0

    def test_its_own_record_is_not_that_of_a_dead_child(
        self, slots: SharedSlots
    ) -> None:
        own = add(slots, 0, held=1, wanted=1, pid=os.getpid())
        dead = add(slots, 0, held=1)
        assert slots.clear()
        assert (state(slots, own), state(slots, dead)) == ((1, 1), (0, 0))

    @pytest.mark.parametrize(
        ("asking", "left"),
        [(None, (1, 1)), (0.0, (1, 1)), (2 * LATE, (0, 1))],
        ids=["not asking", "just now", "for long"],
    )
    def test_who_lives_loses_its_slots_only_to_a_server_that_does_not_answer(
        self, slots: SharedSlots, monkeypatch: pytest.MonkeyPatch,
        asking: float | None, left: tuple[int, int],
    ) -> None:  # fmt: skip
        """It waits on for those that it does not have."""
        monkeypatch.setattr(slots, "_lock", lambda at: False)
        since = 0.0 if asking is None else time.monotonic() - asking
        child = add(slots, 0, held=1, wanted=1, asking=since)
        assert slots.clear() == (left != (1, 1))
        assert state(slots, child) == left


class TestEntering:
    def test_a_child_has_the_record_of_a_dead_one_without_what_that_had(
        self, slots: SharedSlots
    ) -> None:
        dead = add(slots, 0, held=1, wanted=1, since=7, asking=3.0)
        add(slots, 0)
        slots.namespace = 2
        assert slots.enter() == dead
        record = slots.ints[dead : dead + CHILD_WORDS].tolist()
        assert record[PID] == os.getpid()
        assert record[OWNER] == 2
        assert not any(record[word] for word in (HELD, WANTED, SINCE, ASKING))
        assert slots.ints[USED] == 2

    def test_there_is_room_for_those_at_work_and_some_that_leave(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        slots = SharedSlots.create(3, [0, 1], "ordered")
        taken: set[int] = set()
        monkeypatch.setattr(slots, "_lock", lambda at: at not in taken)
        for number in range(1, 2 * (3 + SPARE) + 1):
            taken.add(slots.enter())
            assert len(taken) == len(slots.children()) == number
        with pytest.raises(RuntimeError, match="room"):
            slots.enter()


class Queues:
    """Known queues, looked up a moment ago."""

    def refresh(self) -> bool:
        return False

    def weight(self, queue: str) -> float:
        return {"a": 2.0, "b": 5.0}[queue]


class TestChild:
    @pytest.fixture
    def own(self, slots: SharedSlots, own_handler: None) -> ChildSlots:
        """This process as a child of the second namespace."""
        slots.namespace = 1
        return ChildSlots(slots)

    def test_what_the_dead_child_before_it_held_is_for_those_that_wait(
        self, slots: SharedSlots, own_handler: None
    ) -> None:
        add(slots, 0, held=2)
        waiter = add(slots, 0, wanted=1)
        ChildSlots(slots)
        assert state(slots, waiter) == (1, 0)

    def test_it_holds_what_is_free_and_waits_for_the_rest(
        self, own: ChildSlots
    ) -> None:
        assert (own.held, own.is_waiting, own.is_contended) == (0, False, False)
        assert own.want(1) == own.held == own.capacity[0] == 1
        assert not own.is_waiting
        assert own.want(3) == 2
        assert own.is_waiting
        assert own.is_contended
        assert own.slots.is_wanted
        assert own.want(1) == 1
        assert (own.is_waiting, own.is_contended) == (False, False)
        assert own.want(0) == 0

    def test_what_it_gives_back_is_for_those_that_wait(
        self, slots: SharedSlots, own: ChildSlots
    ) -> None:
        own.want(2)
        waiter = add(slots, 0, wanted=2)
        own.want(1)
        assert state(slots, waiter) == (1, 1)

    def test_it_looks_for_the_dead_when_it_begins_to_wait_and_then_now_and_then(
        self, slots: SharedSlots, own: ChildSlots
    ) -> None:
        add(slots, 0, held=1)
        assert own.want(2) == 2
        dead = add(slots, 0, held=0)
        own.want(0)
        slots.ints[dead + HELD] = 2
        assert own.want(1) == 1
        own.want(0)
        slots.ints[dead + PID] = os.getpid()  # it lives, for now
        slots.ints[dead + HELD] = 2
        assert own.want(1) == 0
        slots.ints[dead + PID] = NO_PROCESS
        assert own.want(1) == 0
        own._looked -= LOOK
        assert own.want(1) == 1

    def test_its_place_in_the_line_is_that_of_when_it_began_to_wait(
        self, slots: SharedSlots, own: ChildSlots
    ) -> None:
        add(slots, 0, held=2, pid=os.getpid())
        slots.ints[TURNS] = 5
        own.want(1)
        slots.ints[TURNS] = 8
        own.want(2)
        assert slots.ints[own._at + SINCE] == 5
        own.want(0)
        own.want(1)
        assert slots.ints[own._at + SINCE] == 8

    def test_it_keeps_its_slot_while_none_waits_or_when_it_is_its_turn(
        self, slots: SharedSlots, own: ChildSlots
    ) -> None:
        own.want(2)
        before = slots.ints[TURNS]
        assert own.keeps()
        assert slots.ints[TURNS] == before
        waiter = add(slots, 0, wanted=1)
        # The other has had none yet.
        assert not own.keeps()
        assert slots.ints[TURNS] == before
        slots.count_turn(0)
        assert own.keeps()
        # Which was a turn.
        assert not own.keeps()
        assert state(slots, waiter) == (0, 1)

    def test_it_passes_slots_on_to_other_namespaces_and_waits_for_its_own(
        self, slots: SharedSlots, own: ChildSlots
    ) -> None:
        own.want(2)
        sibling, other = add(slots, 1, wanted=1), add(slots, 0, wanted=1)
        own.pass_on(1, 2)
        assert (own.held, own.is_waiting) == (1, True)
        assert (state(slots, sibling), state(slots, other)) == ((0, 1), (1, 0))

    def test_what_no_other_namespace_takes_is_for_who_waits_in_its_own(
        self, slots: SharedSlots, own: ChildSlots
    ) -> None:
        own.want(2)
        sibling = add(slots, 1, wanted=1, since=0)
        own.pass_on(1, 2)
        assert state(slots, sibling) == (1, 0)
        assert (own.held, own.is_waiting) == (1, True)

    def test_with_an_answer_it_asks_no_longer(
        self, slots: SharedSlots, own: ChildSlots
    ) -> None:
        asking = own._at + ASKING
        own.want(1)
        for end, held in (
            (own.answered, True),
            (lambda: own.want(1), 1),
            (lambda: own.pass_on(1, 1), None),
        ):
            before = time.monotonic()
            own.asking()
            assert before <= slots.floats[asking] <= time.monotonic()
            assert end() == held
            assert slots.floats[asking] == 0.0
        own.want(0)
        own.asking()
        assert own.answered() is False

    def test_a_wait_ends_with_a_slot_or_a_signal(
        self, own: ChildSlots, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        with monkeypatch.context() as soon:
            soon.setattr("django_qless.worker.shared_slots.LOOK", 0.01)
            before = time.monotonic()
            assert own.wait(reader) is False
        assert time.monotonic() - before >= 0.01
        os.write(writer, bytes([SIGNAL, SIGNAL]))
        assert own.wait(reader) is False
        with pytest.raises(BlockingIOError):
            os.read(reader, 1)
        os.write(writer, b"x")
        own.want(1)
        assert own.wait(reader) is True
        # What else is in the pipe is for others to read.
        assert os.read(reader, 2) == b"x"
        os.close(reader)
        os.close(writer)

    def test_it_publishes_what_its_reserver_knows(
        self, slots: SharedSlots, own: ChildSlots
    ) -> None:
        known: Any = Queues()
        figures = [slots.record(namespace) + FIGURE for namespace in range(3)]
        before = [slots.floats[at] for at in figures]
        own.tell(RoundRobin(["a", "b"], known=known))
        own.tell(HighestPriorityFirst(["a", "b"]))
        assert [slots.floats[at] for at in figures] == before
        own.tell(HighestPriorityFirst(["a", "b"], known=known))
        assert [slots.floats[at] for at in figures] == [before[0], -5.0, before[2]]


def is_free(slots: SharedSlots, at: int) -> bool:
    """Return whether another process could lock this byte."""
    pid = os.fork()
    if pid == 0:
        os._exit(not slots._lock(at))
    return os.waitpid(pid, 0)[1] == 0


class Other:
    """Another process, which does something, says so, and ends when it is told."""

    def __init__(self, begin: Callable[[], object]) -> None:
        ready, said = os.pipe()
        self._told, self._tell = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            kept = begin()
            os.write(said, b"x")
            os.close(self._tell)
            os.read(self._told, 1)
            os._exit(kept is None)
        assert os.read(ready, 1)
        for descriptor in (ready, said, self._told):
            os.close(descriptor)

    def end(self) -> None:
        """Let it end, and wait for that."""
        os.close(self._tell)
        assert os.waitpid(self.pid, 0)[1] == 0


def test_others_know_by_its_lock_that_a_child_lives(
    slots: SharedSlots, own_handler: None
) -> None:
    """Whatever it does with the slots: else they would be given twice."""

    def hold_one() -> ChildSlots:
        child = ChildSlots(slots)
        child.want(1)
        return child

    other = Other(hold_one)
    [before] = slots.children()
    own = ChildSlots(slots)
    assert own._at != before
    assert own.want(2) == 1
    other.end()
    slots.sweep()
    assert own.held == 2
    own.keeps()
    own.pass_on(0, 1)
    own.answered()
    assert not is_free(slots, own._at)
    assert is_free(slots, before)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells who waits for a lock")
def test_an_answer_that_was_late_waits_for_who_may_be_taking_the_slot(
    slots: SharedSlots, own_handler: None
) -> None:
    own, parent = ChildSlots(slots), os.getpid()
    own.want(1)
    taking = slots.changing()

    def waits() -> bool:
        lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        return any(line[1] == "->" and str(parent) in line for line in lines)

    def take_when_it_waits() -> None:
        deadline = time.monotonic() + 30
        while not waits() and time.monotonic() < deadline:
            pass
        slots.ints[own._at + HELD] = 0
        os._exit(0)

    other = Other(lambda: taking.__enter__() or taking)
    # An answer that was not late does not wait.
    own.asking()
    assert own.answered() is True
    other.end()
    ready, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        with slots.changing():
            os.write(said, b"x")
            take_when_it_waits()
    os.read(ready, 1)
    own.asking()
    slots.floats[own._at + ASKING] -= LATE
    assert own.answered() is False
    assert os.waitpid(pid, 0)[1] == 0
    os.close(ready)
    os.close(said)


def test_one_process_at_a_time_changes_the_slots(slots: SharedSlots) -> None:
    with slots.changing():
        assert not is_free(slots, 0)
    assert is_free(slots, 0)
