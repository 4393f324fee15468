"""Job ids fall, whatever threads, forks and clocks do."""

from __future__ import annotations

import os
import threading

import pytest

from django_qless.core import new_jid
from django_qless.core import put as module
from django_qless.core.put import ALPHABET, JidGenerator, time_of


def number(jid: str) -> int:
    """Return the id as the number that it stands for."""
    value = 0
    for character in jid.encode():
        value = value * 64 + ALPHABET.index(character)
    return value


def test_an_id_has_twenty_characters_of_the_alphabet() -> None:
    jid = new_jid()
    assert len(jid) == 20
    assert set(jid.encode()) <= set(ALPHABET)
    assert bytes(sorted(ALPHABET)) == ALPHABET
    assert len(set(ALPHABET)) == 64


def test_later_ids_sort_lower() -> None:
    jids = [new_jid() for _ in range(20_000)]
    assert sorted(jids, reverse=True) == jids
    assert len({number(jid) >> 64 for jid in jids}) == len(jids)


def test_ids_fall_within_each_thread_and_no_two_share_a_time() -> None:
    drawn: list[list[str]] = [[] for _ in range(8)]
    begin = threading.Barrier(len(drawn))

    def draw(into: list[str]) -> None:
        begin.wait()
        into.extend(new_jid() for _ in range(3_000))

    threads = [threading.Thread(target=draw, args=(into,)) for into in drawn]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for jids in drawn:
        assert sorted(jids, reverse=True) == jids
    times = [number(jid) >> 64 for jids in drawn for jid in jids]
    assert len(set(times)) == 8 * 3_000


def test_ids_fall_when_the_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([5_000_000, 5_000_000, 1_000, 4_000_000, 9_000_000])
    monkeypatch.setattr("django_qless.core.put.time.time_ns", lambda: next(clock))
    generator = JidGenerator()
    jids = [generator.draw() for _ in range(5)]
    assert sorted(jids, reverse=True) == jids


def test_a_forked_process_draws_other_ids() -> None:
    reader, writer = os.pipe()
    new_jid()
    child = os.fork()
    if child == 0:
        os.write(writer, "".join(new_jid() for _ in range(1_000)).encode())
        os._exit(0)
    ours = [new_jid() for _ in range(1_000)]
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    theirs = [text[at : at + 20] for at in range(0, len(text), 20)]
    assert sorted(theirs, reverse=True) == theirs
    halves = {number(jid) & (1 << 64) - 1 for jid in [*ours, *theirs]}
    assert len(halves) == 2_000


def test_when_an_id_was_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([1_700_000_000_123_456_789, 0])
    monkeypatch.setattr(module.time, "time_ns", lambda: next(times))
    generator = JidGenerator()
    first, second = generator.draw(), generator.draw()
    assert time_of(first) == 1_700_000_000.123456
    # The clock went back: the next id is a microsecond later all the same.
    assert time_of(second) == 1_700_000_000.123457
    assert time_of("~" * 20) == 0.0
    for foreign in ("", first[:19], f"{first}0", f"{first[:19]}-", f"{first[:19]}ü"):
        assert time_of(foreign) is None
