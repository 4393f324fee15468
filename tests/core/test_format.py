"""The format of what a namespace stores: noted once, and refused where it is not known."""

from __future__ import annotations

import re

import pytest

from tests.core.every_call import KEYED
from tests.core.keyed import Keyed
from tests.core.keyspace import digest


def noted(keyed: Keyed) -> str:
    return str(keyed.json("meta", now="*")["format"])


def store(keyed: Keyed, number: str) -> None:
    """Make the namespace one of another format."""
    keyed.server.hset("ql:meta", "format", number)


def test_a_read_notes_no_format_and_a_write_does(keyed: Keyed) -> None:
    keyed.json("queues", now="*")
    assert "format" not in keyed.json("meta", now="*")
    keyed.put("a", "*")
    assert noted(keyed).isdecimal()


@pytest.mark.parametrize("number", ["next", "17000", "1.5", "new", ""])
def test_an_unknown_format_is_refused(keyed: Keyed, number: str) -> None:
    keyed.put("a", "*", request="me:1")
    number = str(int(noted(keyed)) + 1) if number == "next" else number
    store(keyed, number)
    before = digest(keyed.server)
    repeated = ("put", "worker", "queue", "a", "klass", "{}", 0)
    for command, *args in [*KEYED, repeated]:
        text = keyed.refusal(command, *args, now="*", request="me:1")
        wanted = (
            rf"FORMAT the namespace stores format {re.escape(number)}, .*: drain it"
        )
        assert re.match(wanted, text), (command, text)
    assert digest(keyed.server) == before


def test_an_older_format_is_refused_with_the_remedy(keyed: Keyed) -> None:
    keyed.put("a", "*")
    store(keyed, "0")
    text = keyed.refusal("put", "w", "q", "b", "k", "{}", 0, now="*")
    assert text.startswith("FORMAT the namespace stores format 0")
    assert "drain it with workers of the build that has written it" in text


def test_calls_without_keys_are_refused_as_well(keyed: Keyed) -> None:
    keyed.put("a", "*")
    store(keyed, "17")
    before = digest(keyed.server)
    for command, *args in (("pop", "queue", "w", 1), ("get", "a"), ("queues",)):
        text = keyed.core.error(command, 10, *args)
        assert "the namespace stores format 17" in text
    assert digest(keyed.server) == before
