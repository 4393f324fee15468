"""The shared memory between a pool's parent and its children."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import pytest

from django_qless.worker.pools import board as boards
from django_qless.worker.pools.board import Board, Held
from django_qless.worker.pools.letter import Letter

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
def board() -> Iterator[Board]:
    board = Board()
    yield board
    board.close()


def states(board: Board) -> list[list[str]]:
    """Return the jids that are finished, running, waiting."""
    return [[held.jid for held in part] for part in board.holdings()]


def test_an_empty_board_holds_nothing(board: Board) -> None:
    assert board.holdings() == ([], [], [])


def test_what_a_child_does_its_parent_sees(board: Board) -> None:
    def take() -> None:
        assert [board.take(jid, jid + "1", 4.0) for jid in "abc"] == [0, 1, 2]
        board.begin(0, 5.0)
        board.finish(0)
        board.limit(1, 30.0, 2.0)
        board.begin(1, 7.0)

    in_a_child(take)
    finished, running, waiting = board.holdings()
    assert finished == [Held(0, boards.FINISHED, "a", "a1", 5.0, 0.0, 0.0, 4.0)]
    assert running == [Held(1, boards.RUNNING, "b", "b1", 7.0, 30.0, 2.0, 4.0)]
    assert waiting == [Held(2, boards.WAITING, "c", "c1", 0.0, 0.0, 0.0, 4.0)]
    assert board.words[boards.RUNS] == 2
    assert [held.jid for held in board.holdings().locked] == ["b", "c"]
    in_a_child(lambda: board.free(0))
    assert states(board) == [[], ["b"], ["c"]]


def test_slots_are_used_again(board: Board) -> None:
    for turn in range(3):
        slots = [board.take(jid, str(turn), 1.0) for jid in "abc"]
        assert sorted(slots) == [0, 1, 2]
        board.begin(slots[0], 1.0)
        board.finish(slots[0])
        board.begin(slots[1], 1.0)
        assert states(board) == [["a"], ["b"], ["c"]]
        assert {held.token for held in board.holdings().all} == {str(turn)}
        # Settled, abandoned, handed back.
        for slot in slots:
            board.free(slot)
        assert states(board) == [[], [], []]


def test_orders_reach_the_child(board: Board) -> None:
    assert not board.has_orders
    board.order_drop({"2"})
    board.order_drop({"3"})
    assert board.has_orders
    board.heed()
    assert not board.has_orders
    assert board.lost_tokens() == {"2", "3"}
    assert board.order(boards.STOP)
    assert board.has_orders
    assert board.words[boards.STOP] == 1


def test_an_order_that_is_no_news_calls_nobody(board: Board) -> None:
    assert board.order(boards.ROOM, 3)
    board.heed()
    assert not board.order(boards.ROOM, 3)
    assert not board.has_orders
    assert board.order(boards.ROOM, 2)
    assert board.has_orders


def test_a_child_knows_its_parents_signals(board: Board) -> None:
    assert not board.was_nudged(now=100.0)
    board.seconds[boards.NUDGED] = 99.5
    assert board.was_nudged(now=100.0)
    assert not board.was_nudged(now=101.0)


def test_a_child_knows_whether_its_parent_looks_in_time(board: Board) -> None:
    board.seconds[boards.WAKES] = 100.0
    assert not board.is_asleep(until=101.0)
    assert board.is_asleep(until=99.0)
    board.seconds[boards.WAKES] = math.inf
    assert board.is_asleep(until=1e9)


def test_ids_of_any_text_survive(board: Board) -> None:
    odd = [('\x00,"]\udce9 \né\U0001f40c', "7"), ("x" * 255, "8")]
    for pair in odd:
        board.take(*pair, 1.0)
    assert [(held.jid, held.token) for held in board.holdings().waiting] == odd


def test_what_does_not_fit_is_not_held() -> None:
    board = Board(slots=2)
    slots = [board.take(jid, "1", 1.0) for jid in ("x" * 500, "a", "b", "c")]
    assert slots == [board.nowhere, 0, 1, board.nowhere]
    for slot in slots:
        board.begin(slot, 1.0)
        board.finish(slot)
        board.free(slot)
    assert states(board) == [[], [], []]
    assert not boards.fits("x" * 500, "1")
    assert boards.fits("ä" * 127, "1" * 20)
    # What was nowhere has not been added to the slots.
    assert [board.take("a", "1", 1.0) for _ in range(3)].count(board.nowhere) == 1


def test_a_reader_never_sees_half_a_job(board: Board) -> None:
    def work() -> None:
        turn = 0
        while True:
            turn += 1
            slot = board.take(str(turn) * 9, str(turn), 1.0)
            board.begin(slot, float(turn))
            board.finish(slot)
            board.free(slot)

    writer = os.fork()
    if writer == 0:
        work()
    try:
        seen = set()
        while len(seen) < 300:
            for held in board.holdings().all:
                assert held.jid == held.token * 9
                assert held.state == boards.WAITING or held.started == float(held.token)
                seen.add(held.token)
    finally:
        os.kill(writer, 9)
        os.waitpid(writer, 0)


class TestLetter:
    def test_the_latest_message_is_read(self) -> None:
        letter = Letter(memoryview(bytearray(1000)))
        assert letter.read() is None
        for n in range(5):
            assert letter.write([n] * n)
            assert letter.read() == [n] * n

    def test_a_message_too_long_leaves_the_old_one(self) -> None:
        letter = Letter(memoryview(bytearray(200)))
        assert letter.write("old")
        assert not letter.write("x" * 200)
        assert letter.read() == "old"

    def test_a_writer_that_dies_half_way_leaves_the_old_one(self) -> None:
        memory = memoryview(bytearray(200))
        letter = Letter(memory)
        letter.write("old")
        half_way = letter.turns + 1
        letter._pages[half_way & 1][: letter.capacity] = b"\xff" * letter.capacity
        assert letter.read() == "old"

    def test_readers_never_see_a_mixture(self) -> None:
        import mmap

        letter = Letter(memoryview(mmap.mmap(-1, 4096)))
        letter.write([0] * 100)
        writer = os.fork()
        if writer == 0:
            n = 0
            while True:
                n += 1
                letter.write([n % 10] * 100)
        try:
            seen = set()
            while len(seen) < 10:
                message = letter.read()
                assert message == [message[0]] * 100
                seen.add(message[0])
        finally:
            os.kill(writer, 9)
            os.waitpid(writer, 0)
