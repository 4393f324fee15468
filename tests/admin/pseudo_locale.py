"""A language in which no word is English: what stays in Latin letters is not translated.

Each translated text has fullwidth letters instead, its placeholders and markup as they
were. So an English word that a page shows has not passed through a translation.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.utils import translation
from django.utils.translation import trans_real

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from tests.admin.reading import _Element

LANGUAGE = "de"

_KEPT = re.compile(r"%\(\w+\)[a-z]|%[a-z]|\{\w*\}|<[^>]*>|&\w+;|.", re.DOTALL)

#: Attributes that people read or hear.
SPOKEN = ("title", "aria-label", "alt", "placeholder")


def pseudo(text: str) -> str:
    """Return a text in fullwidth letters; placeholders and markup stay."""
    return "".join(
        chr(ord(part) + 0xFEE0) if part.isascii() and part.isalpha() else part
        for part in _KEPT.findall(text)
    )


@contextmanager
def pseudo_locale(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Translate everything with `pseudo`."""
    with monkeypatch.context() as patch:
        catalogue = trans_real.DjangoTranslation

        def gettext(self: Any, message: str) -> str:
            return pseudo(message)

        def pgettext(self: Any, context: str, message: str) -> str:
            return pseudo(message)

        def ngettext(self: Any, one: str, many: str, n: int) -> str:
            return pseudo(one if n == 1 else many)

        def npgettext(self: Any, context: str, one: str, many: str, n: int) -> str:
            return pseudo(one if n == 1 else many)

        for function in (gettext, pgettext, ngettext, npgettext):
            patch.setattr(catalogue, function.__name__, function)
        with translation.override(LANGUAGE):
            yield


def spoken(element: _Element) -> Iterator[str]:
    """Yield the texts that a page shows or says, without code and data in `pre`."""
    if element.tag in ("script", "style", "pre", "textarea", "code"):
        return
    for name in SPOKEN:
        if value := element.attributes.get(name):
            yield value
    if element.tag == "input" and element.attributes.get("type") == "submit":
        yield element.attributes.get("value") or ""
    for inside in element.inside:
        if isinstance(inside, str):
            if inside.strip():
                yield " ".join(inside.split())
        else:
            yield from spoken(inside)
