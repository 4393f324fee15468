"""Values at a limit are taken as they are; those just beyond it are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_qless.core import BadArgument, TooBig, arguments

Check = Callable[[Any], Any]

# Values that a check returns unchanged.
TAKEN: list[tuple[Check, list[Any]]] = [
    (lambda v: arguments.name("n", v), ["x", "n" * 255, "ü" * 127 + "n", "€" * 85]),
    (lambda v: arguments.name("n", v, 8), ["n" * 8, "€€nn", "🎉🎉"]),
    (lambda v: arguments.existing("n", v), ["n" * 65_536, "ü" * 32_768]),
    (arguments.jid, ["j" * 255, "a-b", "history", "x-history-", "dependents"]),
    (arguments.queue, ["q" * 255, "a.b[c]", "ü"]),
    (lambda v: arguments.text("t", v), ["", "t" * 65_536, "ü" * 32_768]),
    (lambda v: arguments.text("t", v, most=8), ["t" * 8, "🎉🎉"]),
    (arguments.data, ["0", '"' + "x" * 524_286 + '"', "ü" * 262_144]),
    (lambda v: arguments.json_object("o", v), ["{}", "{" + "x" * 65_535]),
    (lambda v: arguments.number("n", v), [0, -1, 0.5, 1e308, 10**308]),
    (lambda v: arguments.integer("n", v), [0, -1, 1 << 53, -(1 << 53)]),
    (lambda v: arguments.integer("n", v, 1), [1, 1 << 53]),
    (lambda v: arguments.not_negative("n", v), [0, 0.0, 0.5, 7]),
    (arguments.timeout, [None, 0, -1, 2.5]),
    (arguments.jobs_at_once, [0, 1, 10**9]),
    (lambda v: list(arguments.existing_names("n", v)), [[], ["a"] * 1_000]),
    (lambda v: list(arguments.existing_names("n", v, least=2, most=2)), [["a", "b"]]),
    (arguments.tags, [[], [f"{number:0255}" for number in range(32)]]),
    (lambda v: arguments.one_of("w", v, ("a", "b")), ["a", "b"]),
]

# Values that a check refuses, with the kind of the error and words of its message.
REFUSED: list[tuple[Check, type[BadArgument], list[tuple[Any, str]]]] = [
    (
        lambda v: arguments.name("n", v),
        BadArgument,
        [
            ("", "n must not be empty"),
            ("n" * 256, "n has more than 255 bytes"),
            ("ü" * 128, "n has more than 255 bytes"),
            ("€" * 85 + "n", "n has more than 255 bytes"),
            (b"n", "n must be a str, not b'n'"),
        ],
    ),
    (
        lambda v: arguments.name("n", v, 8),
        BadArgument,
        [("n" * 9, "more than 8 bytes"), ("🎉🎉n", "more than 8 bytes")],
    ),
    (
        lambda v: arguments.existing("n", v),
        BadArgument,
        [("", "empty"), ("n" * 65_537, "65,536"), ("ü" * 32_768 + "n", "65,536")],
    ),
    (
        arguments.jid,
        BadArgument,
        [
            ("x-history", "must not end in -history, -dependencies, -dependents"),
            ("x-dependencies", "must not end in"),
            ("x-dependents", "must not end in"),
            ("-history", "must not end in"),
        ],
    ),
    (arguments.queue, BadArgument, [("a*", "one queue"), ("a?b", "one queue")]),
    (
        lambda v: arguments.text("t", v),
        TooBig,
        [
            ("t" * 65_537, "t has 65,537 bytes, at most 65,536 are allowed"),
            ("ü" * 32_769, "t has 65,538 bytes, at most 65,536 are allowed"),
        ],
    ),
    (lambda v: arguments.text("t", v), BadArgument, [(None, "t must be a str")]),
    (arguments.data, TooBig, [('"' + "x" * 524_287 + '"', "524,289 bytes")]),
    (
        lambda v: arguments.json_object("o", v),
        BadArgument,
        [("", "JSON text of an object"), (" {}", "object"), ({}, "object")],
    ),
    (lambda v: arguments.json_object("o", v), TooBig, [("{" + "x" * 65_536, "65,537")]),
    (
        lambda v: arguments.number("n", v),
        BadArgument,
        [(10**309, "finite"), (False, "n must be a number, not False"), ("1", "'1'")],
    ),
    (
        lambda v: arguments.integer("n", v),
        BadArgument,
        [
            ((1 << 53) + 1, "2**53"),
            (-(1 << 53) - 1, "2**53"),
            (1.0, "whole number, not 1.0"),
            (False, "whole number, not False"),
        ],
    ),
    (lambda v: arguments.integer("n", v, 1), BadArgument, [(0, "at least 1, not 0")]),
    (
        lambda v: arguments.not_negative("n", v),
        BadArgument,
        [(-0.001, "must not be below 0, as -0.001 is"), (True, "must be a number")],
    ),
    (arguments.timeout, BadArgument, [("5", "timeout must be a number")]),
    (
        lambda v: arguments.existing_names("n", v),
        BadArgument,
        [
            ("ab", "n must be a list of str, not 'ab'"),
            (b"ab", "list of str"),
            (5, "list of str, not 5"),
            (None, "list of str"),
            (["a", ""], "empty"),
        ],
    ),
    (
        lambda v: arguments.existing_names("n", v),
        TooBig,
        [(["a"] * 1_001, "1,001 n given, at most 1,000 are allowed")],
    ),
    (
        lambda v: arguments.existing_names("n", v, least=1),
        BadArgument,
        [([], "n must have at least one element")],
    ),
    (
        lambda v: arguments.one_or_many("n", v),
        BadArgument,
        [([], "at least one"), ("", "empty"), (None, "list of str")],
    ),
    (lambda v: arguments.one_or_many("n", v, most=2), TooBig, [(["a"] * 3, "3 n")]),
    (arguments.tags, TooBig, [(["t"] * 33, "33 tags given, at most 32")]),
    (arguments.tags, BadArgument, [(["t" * 256], "255"), ("t", "list of str")]),
    (
        lambda v: arguments.one_of("w", v, ("a", "b")),
        BadArgument,
        [("c", "w must be one of a, b, not 'c'"), (["a"], "one of"), (None, "one of")],
    ),
]


@pytest.mark.parametrize(("check", "values"), TAKEN)
def test_what_is_within_its_limits_is_taken(check: Check, values: list[Any]) -> None:
    for value in values:
        assert check(value) == value


@pytest.mark.parametrize(("check", "kind", "cases"), REFUSED)
def test_what_is_beyond_them_is_refused(
    check: Check, kind: type[BadArgument], cases: list[tuple[Any, str]]
) -> None:
    for value, words in cases:
        with pytest.raises(kind) as caught:
            check(value)
        assert type(caught.value) is kind
        assert words in caught.value.detail
        assert len(caught.value.detail) < 300


def test_a_long_value_is_quoted_with_its_two_ends() -> None:
    assert arguments.quoted("a" * 78) == repr("a" * 78)
    quoted = arguments.quoted("a" * 50 + "b" * 50)
    assert len(quoted) == 80
    assert quoted.startswith("'aaa")
    assert quoted.endswith("bbb'")


def test_one_name_or_several() -> None:
    assert arguments.one_or_many("n", "ab") == ("ab",)
    assert arguments.one_or_many("n", ["a", "b"]) == ("a", "b")
    assert arguments.one_or_many("n", iter(["a"])) == ("a",)
    assert len(arguments.one_or_many("n", ["a"] * 1_000)) == 1_000


def test_a_page_is_cut_to_what_one_call_returns() -> None:
    assert arguments.page(0, 0) == (0, 0)
    assert arguments.page(7, 1_000) == (7, 1_000)
    assert arguments.page(2_000, 1_001) == (2_000, 1_000)
    for offset, count in ((-1, 5), (0, -1), (None, 5), (0, 1.5)):
        with pytest.raises(BadArgument):
            arguments.page(offset, count)


def test_options_that_are_none_are_left_out() -> None:
    checks = {name: lambda value: value * 2 for name in "abcd"}
    given = {"b": 1, "a": None, "c": 0, "d": ""}
    assert arguments.pairs(checks, given) == ["b", 2, "c", 0, "d", ""]


def test_numbers_become_text_without_loss() -> None:
    class Number(int):
        def __repr__(self) -> str:
            return "something else"

    assert arguments.decimal_text(Number(7)) == "7"
    assert arguments.decimal_text(2**70) == "1180591620717411303424"
    assert arguments.decimal_text(0.1 + 0.2) == "0.30000000000000004"


def test_json_is_compact_and_strict() -> None:
    assert arguments.to_json({"a": ["ü", 1.5, None]}) == '{"a":["ü",1.5,null]}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        arguments.to_json(float("nan"))
