"""Arguments become the bytes that redis-py would send, or are refused."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from django_qless.core import BadArgument
from django_qless.core.connection import pack, pack_command


@pytest.mark.parametrize(
    "argument",
    ["", "text", "schön", "🎉", b"\xff\x00", 0, -7, 2**60, 0.1, 1e-07, 1.5e300],
)
def test_requests_are_those_of_redis_py(argument: Any) -> None:
    theirs = b"".join(redis.connection.Connection().pack_command("ECHO", argument))
    assert pack_command("ECHO", argument) == theirs


def test_what_is_packed_already_counts_as_its_arguments() -> None:
    inner = pack(("b", "c"))
    assert inner.number == 2
    assert pack(("a", inner, "d")) == pack(("a", "b", "c", "d"))


def test_subclasses_of_str_and_int_are_taken_as_such() -> None:
    class Text(str):
        def __str__(self) -> str:
            return "something else"

    class Number(int):
        def __repr__(self) -> str:
            return "something else"

    assert pack((Text("a"), Number(3))) == pack(("a", 3))


@pytest.mark.parametrize(
    "argument", [None, True, object(), [], {}, "\ud800", float("nan"), float("inf")]
)
def test_what_cannot_be_sent_is_refused(argument: Any) -> None:
    with pytest.raises(BadArgument, match=r"cannot be sent|must be finite"):
        pack((argument,))
