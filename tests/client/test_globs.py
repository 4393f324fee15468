"""Globs of queues: which names match, here and in the core."""

from __future__ import annotations

import pytest

from django_qless.core import Client
from django_qless.core.globs import is_glob, matches_any

# A glob, names that it matches, names that it does not.
GLOBS = [
    ("*", ["mail", "a-b", "ä\nb"], []),
    ("mail-*", ["mail-", "mail-a", "mail-a-b"], ["mail", "xmail-a", "Mail-a"]),
    ("*-mail", ["-mail", "a-mail"], ["a-mail-", "mail"]),
    ("a?c", ["abc", "a?c", "a.c", "a\nc", "aüc", "a🎉c"], ["ac", "abbc", "aüüc"]),
    ("a.c", ["a.c"], ["abc"]),
    ("a[bc]*", ["a[bc]", "a[bc]d"], ["ab", "abd"]),
    ("a\\*", ["a\\", "a\\b"], ["a*"]),
]


@pytest.mark.parametrize(("glob", "matched", "others"), GLOBS)
def test_which_queues_a_glob_matches(
    glob: str, matched: list[str], others: list[str]
) -> None:
    names = [*matched, *others]
    assert [name for name in names if matches_any(name, [glob])] == matched
    assert [name for name in names if matches_any(name, ["nothing", glob])] == matched


def test_no_glob_matches_nothing() -> None:
    assert not matches_any("mail", [])
    assert not matches_any("mail", ["nothing", "bulk-*"])


@pytest.mark.parametrize(
    ("name", "expected"), [("a*", True), ("?", True), ("a", False), ("a.[b]", False)]
)
def test_a_glob_has_one_of_two_characters(name: str, expected: bool) -> None:
    assert is_glob(name) is expected


@pytest.mark.parametrize(("glob", "matched", "others"), GLOBS[:5])
def test_the_core_matches_the_same(
    client: Client, glob: str, matched: list[str], others: list[str]
) -> None:
    for name in [*matched, *others]:
        if not is_glob(name):
            client.put("", name, name, "k", "{}")
    taken = {job.queue for job in client.settle("w", [], 99, [glob]).jobs}
    assert taken == {name for name in matched if not is_glob(name)}
