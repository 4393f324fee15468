"""The shared memory between a pool's parent and its children."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from django_qless.core import Reserved
from django_qless.worker.pools import board as boards
from django_qless.worker.pools.board import Board, Held
from django_qless.worker.pools.letter import Letter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# pytest-xdist has threads, which the children here do not touch.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


def reserved(jid: str, token: str) -> Reserved:
    return Reserved(jid, "q", "klass", "{}", token, 3, 3, 0, "[]", "", 0.0)


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


A, B, C = (Held(jid, token) for jid, token in (("a", "1"), ("b", "2"), ("c", "3")))
JOBS = [reserved(*held) for held in (A, B, C)]


def test_an_empty_board_holds_nothing(board: Board) -> None:
    assert board.holdings() == ([], None, [])


def test_what_a_child_publishes_its_parent_sees(board: Board) -> None:
    in_a_child(lambda: board.publish(JOBS) and None)
    assert board.holdings() == ([], None, [A, B, C])
    in_a_child(lambda: board.run(2, 0.0))
    assert board.holdings() == ([A], B, [C])
    assert board.holdings().locked == [B, C]
    in_a_child(board.rest)
    assert board.holdings() == ([A, B, C], None, [])
    in_a_child(board.clear)
    assert board.holdings() == ([], None, [])


def test_a_running_job_may_be_the_only_one_left(board: Board) -> None:
    board.publish(JOBS)
    board.run(1, 0.0)
    board.show_alone(board.turn)
    assert board.holdings() == ([], A, [])
    board.publish(JOBS)
    assert board.holdings() == ([], None, [A, B, C])


def test_orders_reach_the_child(board: Board) -> None:
    before = board.words[boards.ATTENTION]
    board.order_drop({"2"})
    board.order_drop({"3"})
    seen: list[set[str]] = []
    assert board.words[boards.ATTENTION] != before
    seen.append(board.lost_tokens())
    assert seen == [{"2", "3"}]
    board.order_stop()
    assert board.words[boards.STOP] == 1


def test_ids_of_any_text_survive(board: Board) -> None:
    odd = [('\x00,"]\udce9 é\U0001f40c', "7"), ("x" * 255, "8")]
    board.publish([reserved(*pair) for pair in odd])
    assert board.holdings().waiting == odd


def test_a_full_batch_of_long_ids_fits(board: Board) -> None:
    jobs = [reserved("\udcff" * 255, str(10**15 + n)) for n in range(100)]
    assert board.publish(jobs) == 100
    assert len(board.holdings().waiting) == 100


def test_what_does_not_fit_is_not_held(board: Board) -> None:
    jobs = [reserved("x" * 100_000, str(n)) for n in range(8)]
    fitting = board.publish(jobs)
    assert 0 < fitting < 8
    assert len(board.holdings().waiting) == fitting


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
