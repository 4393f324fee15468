"""Texts that try to be markup, in every field there is, on every page: they stay texts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.admin.browser.pages import pages_of
from tests.admin.content import fill
from tests.admin.hostile import MARK, STRINGS, marked, together
from tests.admin.markup import Markup
from tests.admin.reading import Page
from tests.admin.routes import places
from tests.drawing import turn

if TYPE_CHECKING:
    from django.test import Client as Browser

    from django_qless.core import Client

pytestmark = pytest.mark.django_db

#: What a page's own code never has: it would be against the policy, too.
FORBIDDEN = ("style", "srcdoc", "background", "formaction", "autofocus")

LINKS = ("href", "src", "action", "xlink:href", "poster", "data")


def born(html: str) -> list[str]:
    """Return what of the page has come out of a text: elements, attributes, addresses."""
    found: list[str] = []
    page = Markup(html)
    found += page.duplicate_attributes
    for tag, attributes in page.elements:
        if MARK in tag or tag in ("iframe", "video", "math", "base", "object", "embed"):
            found.append(tag)
        if tag == "script" and not attributes.get("src", "").startswith("/static/"):
            found.append(f"{tag} {attributes}")
        for name, value in attributes.items():
            strange = MARK in name or name.startswith("on") or name in FORBIDDEN
            if strange or (name in LINKS and not re.match(r"[/?#]|$", value)):
                found.append(f"{tag} {name}={value}")
            if name in LINKS and re.match(r"[/\\]{2}", value):
                found.append(f"{tag} {name}={value}")
    return found


OVERRIDE = "\u202e"
"""What follows is written from right to left, unless the text before is isolated."""

ISOLATED = frozenset(
    "a b bdi button code option pre span strong textarea title".split()
)
"""pages.css isolates them, or browsers do."""


def reversed_by(element: Any, path: str = "") -> list[str]:
    """Return which elements of a page have words behind a text that turns them round."""
    found: list[str] = []
    path = f"{path} {element.tag}.{element.attributes.get('class', '')}"
    turned, own = False, element.tag in ISOLATED - {"title"}
    for child in element.inside:
        if isinstance(child, str):
            before, _, behind = child.rpartition(OVERRIDE)
            behind = behind.partition("\u2069")[2] if before and not own else ""
            if (turned and child.strip()) or behind.strip():
                found.append(f"{path}: {child}")
            turned = turned or (OVERRIDE in child and not own)
        else:
            if turned and child.text:
                found.append(path)
            found += reversed_by(child, path)
    return found


def unescaped(text: str, html: str) -> bool:
    """Return whether a text that needs escaping stands in the page as it is."""
    return any(sign in text for sign in "<>\"'&") and text in html


#: As many at once as a name may hold beside its own words.
GROUPS = together(160)


@pytest.mark.parametrize("numbers", GROUPS)
def test_texts_stay_texts(
    numbers: tuple[int, ...], qless: Client, admin_browser: Browser
) -> None:
    content = fill(qless, marked(*numbers))
    texts = [STRINGS[number] for number in numbers]
    asking = places(content, "tests.admin.urls", {"recurring_reset": ["-"]}, most=1)
    urls = pages_of(content) + [
        place.url for place in asking if "recurring" not in place.route.ending
    ]
    faults, shown = [], 0
    # By day each page shows an eighth of the texts.
    urls = [url for n, url in enumerate(urls) if turn(n + GROUPS.index(numbers), 8)]
    for url in urls:
        response = admin_browser.get(url)
        html = response.content.decode()
        shown += MARK in html
        faults += [f"{url}: {fault}" for fault in born(html)]
        faults += [f"{url}: turned {each}" for each in reversed_by(Page(html).root)]
        faults += [
            f"{url}: {text!r} as it is" for text in texts if unescaped(text, html)
        ]
        if GROUPS.index(numbers) >= 4:
            continue
        parts = admin_browser.get(url, {"live": "1"}, HTTP_ACCEPT="application/json")
        if parts.headers["Content-Type"] == "application/json":
            for name, part in parts.json()["parts"].items():
                faults += [f"{url} {name}: {fault}" for fault in born(part)]
                faults += [
                    f"{url} {name}: {text!r}" for text in texts if unescaped(text, part)
                ]
    assert not faults, "\n".join(faults)
    assert shown > len(urls) / 2, "The texts have to be on the pages."
