"""The format of what a namespace stores: noted once, and refused where it is not known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.core.caller import SOURCE, Core, Library
from tests.core.keyed import Keyed, settlement
from tests.core.keyspace import digest
from tests.core.test_bad_arguments import KEYED

CONSTANTS = "local OLDEST, NEWEST = 1, 1"


@pytest.fixture
def build(core: Core, tmp_path: Path) -> Iterator[Callable[[int, int], Keyed]]:
    """Another build on the same server, which reads these formats."""
    loaded: list[str] = []

    def made(oldest: int, newest: int) -> Keyed:
        text = SOURCE.read_text(encoding="utf-8")
        assert text.count(CONSTANTS) == 1
        path = tmp_path / f"{oldest}-{newest}.lua"
        constants = f"local OLDEST, NEWEST = {oldest}, {newest}"
        path.write_text(text.replace(CONSTANTS, constants), encoding="utf-8")
        library = Library(path)
        library.load(core.server)
        loaded.append(library.name)
        return Keyed(Core(core.server, library))

    yield made
    for name in loaded:
        core.server.function_delete(name)


def stored(keyed: Keyed) -> str | None:
    text: str | None = keyed.server.hget("ql:meta", "format")
    return text


def test_the_first_call_that_writes_notes_the_format(keyed: Keyed) -> None:
    assert keyed.json("queues", now="*") == {}
    assert stored(keyed) is None
    keyed.put("a", "*")
    assert stored(keyed) == "1"


def test_a_namespace_without_a_number_is_continued(keyed: Keyed) -> None:
    keyed.put("a", "*")
    keyed.server.hdel("ql:meta", "format")
    assert keyed.job("a", "*")["state"] == "waiting"
    assert keyed.refusal("settle", "w", 1, "a", now="*").startswith("BADARG")
    assert stored(keyed) is None
    [job] = keyed.take(now="*")
    assert stored(keyed) == "1"
    done = settlement("a", job["token"], "complete")
    assert not keyed.settle([done], now="*").refused


@pytest.mark.parametrize("number", ["2", "17", "1.5", "new", ""])
def test_a_newer_format_is_refused(keyed: Keyed, number: str) -> None:
    keyed.put("waiting", "*")
    keyed.put("run", "*")
    keyed.server.hset("ql:meta", "format", number)
    before = digest(keyed.server)
    for command, *args in KEYED:
        text = keyed.refusal(command, *args, now="*", request="me:1")
        wanted = rf"FORMAT the namespace stores format {re.escape(number)}, .* 1 to 1: upgrade"
        assert re.match(wanted, text), (command, text)
    assert digest(keyed.server) == before


def test_an_older_format_is_refused(
    keyed: Keyed, build: Callable[[int, int], Keyed]
) -> None:
    keyed.put("a", "*")
    newer = build(2, 3)
    for number in ("1", None):
        if number is None:
            keyed.server.hdel("ql:meta", "format")
        before = digest(keyed.server)
        for call in (("queues",), ("pop", "queue", "worker", 1)):
            text = newer.refusal(*call, now="*")
            assert re.match(r"FORMAT .* stores format 1, .* 2 to 3: .* drain", text)
        assert digest(keyed.server) == before
    assert len(keyed.take(now="*")) == 1


def test_a_build_that_reads_both_takes_over(
    keyed: Keyed, build: Callable[[int, int], Keyed]
) -> None:
    keyed.put("a", "*")
    keyed.put("b", "*")
    newer = build(1, 2)
    assert newer.job("a", "*")["state"] == "waiting"
    assert len(keyed.take(1, now="*")) == 1
    assert stored(keyed) == "1"
    assert len(newer.take(1, now="*")) == 1
    assert stored(keyed) == "2"
    assert keyed.refusal("queues", now="*").startswith("FORMAT")
    assert newer.json("queues", now="*")[0]["running"] == 2


def test_calls_without_keys_go_on(keyed: Keyed) -> None:
    keyed.put("a", "*")
    keyed.server.hset("ql:meta", "format", "2")
    assert keyed.core.popped(10) == ["a"]
    assert keyed.core.complete("a", 11) == "complete"


def test_an_unknown_format_is_refused_to_repeats_as_well(keyed: Keyed) -> None:
    keyed.put("a", "*", request="me:1")
    keyed.server.hset("ql:meta", "format", "2")
    put = ("put", "worker", "queue", "a", "klass", "{}", 0)
    assert keyed.refusal(*put, now="*", request="me:1").startswith("FORMAT")


def test_a_format_older_than_any_is_refused(keyed: Keyed) -> None:
    keyed.put("a", "*")
    keyed.server.hset("ql:meta", "format", "0")
    assert keyed.refusal("put", "w", "q", "b", "k", "{}", 0, now="*") == (
        "FORMAT the namespace stores format 0, this build of django_qless reads 1 to 1: "
        "let workers of the build before drain it first"
    )
