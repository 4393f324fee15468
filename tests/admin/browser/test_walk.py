"""Every page, in every look, under a strict Content-Security-Policy.

By day each page has one look, in turn: light two of six, the others one each. By night all
have all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.admin.browser.pages import pages_of
from tests.admin.routes import places
from tests.admin.strictness import POLICY
from tests.drawing import part

if TYPE_CHECKING:
    from tests.admin.browser.scene import Scene
    from tests.admin.browser.visitor import Visitor

pytestmark = pytest.mark.xdist_group("walk")

Visit = Callable[..., "Visitor"]

LUMINANCE = """
(() => {
  const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/\\d+/g);
  return (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255;
})()
"""

FILLED = """
(() => {
  for (const cell of document.querySelectorAll('td.num')) {
    const text = / (ms|s|min|h|d)\\b/.test(cell.textContent) ? '23 h 59 min' : '123,456';
    (cell.querySelector('a') || cell).textContent = text;
  }
  for (const time of document.querySelectorAll('td time')) time.textContent = '23 h 59 min';
  for (const name of document.querySelectorAll('tbody th.qless-long')) {
    const badge = name.appendChild(document.createElement('span'));
    badge.className = 'qless-badge';
    badge.textContent = 'kein Worker nimmt ihre Jobs an';
  }
  return [...document.querySelectorAll('.qless-scroll')]
    .filter((each) => each.scrollWidth > each.clientWidth)
    .map((each) => each.textContent.trim().slice(0, 40));
})()
"""
"""Puts long numbers and times into all cells, long badges behind names; which tables have to be moved sideways?"""

ENDS = """
(each) => {
  const place = (from) => {
    const range = document.createRange();
    range.setStart(each.firstChild, from);
    range.setEnd(each.firstChild, from + 1);
    return range.getBoundingClientRect().left;
  };
  return [place(0), place(each.firstChild.textContent.search(/\\w\\W*$/))];
}
"""
"""Where an element's first character is, and its last letter or digit: pixels from the left."""

TURNED = """
[...document.querySelectorAll('pre, textarea.qless-code, .qless-member')]
  .some((each) => getComputedStyle(each).direction == 'rtl')
"""


@pytest.fixture
def pages(scene: Scene) -> list[str]:
    """All that can be looked at: pages, and what actions ask before they act."""
    asking = [
        place.url
        for place in places(scene.content, "tests.admin.urls", NOTHING_DECLARED, most=1)
        if place.route.acts and place.route.ending not in NOTHING_DECLARED
    ]
    return pages_of(scene.content) + asking


#: What code declares: nothing does here.
NOTHING_DECLARED = {"recurring_reset": ["-"]}


def test_light(visit: Visit, pages: list[str]) -> None:
    """Nothing is on the console, and nothing that axe-core calls serious."""
    visitor = visit("light")
    for path in part(pages, 3):
        visitor.go(path)
        visitor.check_access()
        if visitor.value(LUMINANCE) < 0.8:
            visitor.fault("is not light")
    assert not visitor.faults, "\n".join(visitor.faults)


def test_dark(visit: Visit, pages: list[str]) -> None:
    """The same in the dark: what can be read by day can be read by night."""
    visitor = visit("dark")
    for path in part(pages, 6, 1):
        visitor.go(path)
        visitor.check_access("color-contrast")
        if visitor.value(LUMINANCE) > 0.2:
            visitor.fault("is not dark")
    assert not visitor.faults, "\n".join(visitor.faults)


@pytest.mark.parametrize("look", ["narrow", "rtl"])
def test_shapes(visit: Visit, pages: list[str], look: str) -> None:
    """Pages fit in 320 px, and in a script that runs from right to left."""
    visitor = visit(look)
    for path in part(pages, 6, 2 if look == "rtl" else 5):
        visitor.go(path)
        visitor.check_width()
        if (visitor.value("document.documentElement.dir") == "rtl") != (look == "rtl"):
            visitor.fault("runs in the wrong direction")
        if visitor.value(TURNED):
            visitor.fault("shows code from right to left")
    assert not visitor.faults, "\n".join(visitor.faults)


@pytest.mark.parametrize(
    ("page", "selector"),
    [
        ("recurring/nightly-report.cron/change/", ".qless-main code"),
        ("job/4f1c2e.running/change/", ".qless-gap"),
    ],
)
def test_code_and_signs_are_read_from_left_to_right(
    visit: Visit, page: str, selector: str
) -> None:
    """Also where the page runs from right to left: "0 3 * * 1" and "+26 ms"."""
    visitor = visit("rtl")
    visitor.go(f"/admin/django_qless/{page}")
    found = visitor.page.locator(selector).first
    assert found.evaluate("(each) => each.textContent")[:1] in "0+"
    first, last = found.evaluate(ENDS)
    assert first < last


@pytest.mark.parametrize("width", [1280, 1440, 1920])
def test_nothing_is_cut_off_in_a_wide_window(visit: Visit, width: int) -> None:
    """The tables of the overview fit, with numbers and times as long as they get."""
    size = {"width": width, "height": 1000}
    visitor = visit("light", viewport=size)
    visitor.go("/admin/django_qless/overview/")
    assert visitor.value(FILLED) == []


def test_without_scripts(visit: Visit, pages: list[str]) -> None:
    """Without JavaScript the pages are all there, and hide what would need it."""
    visitor = visit(java_script_enabled=False)
    for path in part(pages, 6, 4):
        visitor.go(path)
        # Nothing to choose an interval by, as nothing refreshes.
        for box in visitor.page.locator("[data-refresh]").all():
            if box.is_visible():
                visitor.fault("shows what only works with scripts")
    assert not visitor.faults, "\n".join(visitor.faults)


def test_the_policy_is_strict(scene: Scene, visit: Visit) -> None:
    """What the walk stands on: the policy is sent, and the browser obeys it."""
    visitor = visit()
    response = visitor.page.goto(f"{scene.url}/admin/django_qless/queue/")
    assert response is not None
    assert response.headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    visitor.value("document.body.setAttribute('style', 'color: red')")
    assert any("style" in fault for fault in visitor.faults)
