"""The entries of a history: times between them, names, and log lines within bounds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from django_qless.admin.components import history
from django_qless.admin.components.history import Event, events, in_words
from django_qless.admin.links import Links


def shown(
    *entries: dict[str, Any], total: int | None = None, with_logs: bool = True
) -> list[Event]:
    """Return the events of these entries, of so many in all."""
    number = len(entries) if total is None else total
    view: Any = SimpleNamespace(
        job=SimpleNamespace(history=[*entries]), history_total=number
    )
    return events(view, Links("admin", "default"), with_logs=with_logs)


def entry(when: float, what: str = "put", **more: Any) -> dict[str, Any]:
    return {"when": when, "what": what, **more}


def test_the_time_since_the_entry_before() -> None:
    found = shown(entry(10.5), entry(12.75, "popped"), entry(12.75, "done"))
    assert [each.after for each in found] == [None, 2.25, 0.0]
    assert [each.gap for each in found] == ["", "2.2 s", ""]
    # Earlier versions kept whole seconds.
    assert [each.gap for each in shown(entry(10), entry(13))] == ["", "3 s"]


@pytest.mark.parametrize(("total", "is_gap"), [(3, False), (4, True), (900, True)])
def test_entries_that_are_left_out_are_behind_the_first(
    total: int, is_gap: bool
) -> None:
    found = shown(entry(1.5), entry(5.5, "popped"), entry(7.5, "done"), total=total)
    assert [each.is_gap for each in found] == [False, is_gap, False]
    assert [each.after for each in found] == [None, None if is_gap else 4.0, 2.0]
    logs = shown(entry(1.5), entry(5.5, "a line"), entry(7.5, "more"), total=total)
    assert [each.is_gap for each in logs] == [False, is_gap, False]


@pytest.mark.parametrize(
    ("names", "text", "page", "by"),
    [
        ({}, "", "", ""),
        ({"q": "mail"}, "mail", "/queue/mail/", ""),
        ({"group": "KeyError"}, "KeyError", "/failure/KeyError/", ""),
        ({"worker": "w1"}, "w1", "/worker/w1/", ""),
        ({"worker": "w1", "q": "mail"}, "mail", "/queue/mail/", "w1"),
        ({"worker": "w1", "group": "Key"}, "Key", "/failure/Key/", "w1"),
        ({"group": "Key", "q": "mail"}, "mail", "/queue/mail/", ""),
    ],
)
def test_what_an_entry_names(
    names: dict[str, str], text: str, page: str, by: str
) -> None:
    [found] = shown(entry(1.5, "failed", **names))
    assert (found.kind, found.text, found.by) == ("failed", text, by)
    assert page in found.url
    assert bool(found.url) == bool(page)
    assert (f"/worker/{by}/" in found.by_url) if by else not found.by_url


def test_a_log_line_has_its_other_members() -> None:
    [found] = shown(entry(1.5, "uploaded", bytes=7, to={"é": 1}, name="x"))
    assert found.kind == "log"
    assert found.log
    assert found.log.text == "uploaded"
    more = [(name, text.text) for name, text in found.more]
    assert more == [("bytes", "7"), ("to", '{"é": 1}'), ("name", "x")]
    [hidden] = shown(entry(1.5, "uploaded", bytes=7), with_logs=False)
    assert (hidden.kind, hidden.log, hidden.more) == ("log", None, ())


def test_all_log_lines_together_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "LOG_TEXT", 10)
    monkeypatch.setattr(history, "LOG_TEXTS", 25)
    lines = [
        entry(n + 0.5, "x" * 6, a="y" * 3, b="z" * 9, c="not any more")
        for n in range(4)
    ]
    found = shown(*lines)
    texts = [
        (each.log.text if each.log else "", *(text.text for _name, text in each.more))
        for each in found
    ]
    assert texts == [
        *[("x" * 6, "y" * 3, "z")] * 2,
        # What is left of the whole.
        ("x" * 5,),
        ("",),
    ]
    cut = [(each.log.is_cut if each.log else None) for each in found]
    assert cut == [False, False, True, True]


@pytest.mark.parametrize("when", [None, "soon", [1]])
def test_an_entry_whose_time_is_none(when: Any) -> None:
    [first, second] = shown(entry(when), entry(3.5))
    assert (first.when, first.at, second.after) == (0.0, None, 3.5)


@pytest.mark.parametrize(
    ("seconds", "is_exact", "words"),
    [
        (0.025, True, "25 ms"),
        (0.25, False, "0 s"),
        (9.5, False, "10 s"),
        (3.26, True, "3.3 s"),
        (3.26, False, "3 s"),
        (75.4, False, "1 min 15 s"),
    ],
)
def test_a_duration_is_as_exact_as_its_times(
    seconds: float, is_exact: bool, words: str
) -> None:
    assert in_words(seconds, is_exact=is_exact) == words
