"""Long texts of jobs, cut so that a page stays small whatever they hold."""

from __future__ import annotations

from typing import NamedTuple

from django.utils.html import escape

SHOWN = 40 * 1024
"""Bytes of HTML that a text takes on a page of many parts."""
WHOLE = 400 * 1024
"""Bytes of HTML that a text takes on a page of its own."""


class Text(NamedTuple):
    """A text as far as it is shown."""

    text: str
    is_cut: bool


def head(text: str, most: int = SHOWN) -> Text:
    """Return how a text begins, so much that it takes at most so many bytes as HTML."""
    size = _fitting(text, most)
    return Text(text[:size], size < len(text))


def tail(text: str, most: int = SHOWN) -> Text:
    """Return how a text ends, so much that it takes at most so many bytes as HTML."""
    size = _fitting(text[::-1], most)
    return Text(text[len(text) - size :], size < len(text))


def _fitting(text: str, most: int) -> int:
    """Return how many characters fit; text of nothing but quotes takes six times more."""
    size = min(len(text), most)
    while size and (taken := _bytes(text[:size])) > most:
        size = min(size - 1, size * most // taken)
    return size


def _bytes(text: str) -> int:
    return len(escape(text).encode("utf-8", "backslashreplace"))
