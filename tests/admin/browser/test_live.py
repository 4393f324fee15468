"""Pages that refresh by themselves, and their use without a mouse."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from django_qless.core import Put
from tests.admin.browser.operating import ADD, Operator

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page, Request

    from tests.admin.browser.scene import Scene
    from tests.admin.browser.visitor import Visitor

pytestmark = pytest.mark.xdist_group("live")

HIDE = """
(hidden) => {
  Object.defineProperty(document, 'hidden', {configurable: true, get: () => hidden});
  document.dispatchEvent(new Event('visibilitychange'));
}
"""
"""What happens to a page in a tab that others cover; a browser for tests has none."""


class Watch:
    """A page whose time stands still until the test lets it pass."""

    def __init__(self, operator: Operator) -> None:
        self.operator, self.page = operator, operator.page
        self.requests: list[str] = []
        self.page.on("request", self._request)
        self.page.clock.install()

    def _request(self, request: Request) -> None:
        if "live=1" in request.url:
            self.requests.append(request.url)

    def refreshed(self, seconds: float) -> None:
        """Let time pass, and wait until the page has asked and is told."""
        with self.page.expect_response(lambda each: "live=1" in each.url) as told:
            self.page.clock.run_for(seconds * 1000)
        told.value.finished()
        # Its promises are kept before another script of the test can run.
        self.page.evaluate("() => new Promise((kept) => queueMicrotask(kept))")

    def not_refreshed(self, seconds: float) -> None:
        """Let time pass in which the page asks for nothing."""
        before = len(self.requests)
        self.page.clock.run_for(seconds * 1000)
        assert len(self.requests) == before

    def hide(self, hidden: bool) -> None:
        """Cover the tab with another, or uncover it."""
        self.page.evaluate(HIDE, hidden)


@pytest.fixture
def operator(scene: Scene, visit: Callable[..., Visitor]) -> Iterator[Operator]:
    """Somebody who may do everything, and has seen no fault at the end."""
    visitor = visit()
    yield Operator(visitor, scene.client, set(), "live")
    assert not visitor.faults, "\n".join(visitor.faults)


@pytest.fixture
def watch(operator: Operator) -> Watch:
    """A page of theirs that refreshes when the test says so."""
    return Watch(operator)


def card(page: Page, label: str) -> Locator:
    """Return the number on a queue's page that has this label."""
    cards = page.locator(".qless-queue-cards .qless-card")
    return cards.filter(has=page.get_by_text(label, exact=True)).locator("dd")


def test_a_number_changes_by_itself(watch: Watch, operator: Operator) -> None:
    """A job that is put shows, without anything being clicked."""
    operator.put("a", "numbers")
    operator.go("queue", "numbers")
    waiting = card(watch.page, "Waiting")
    expect(waiting).to_have_text("1")
    operator.put("b", "numbers")
    watch.refreshed(5)
    expect(waiting).to_have_text("2")


def test_nothing_moves_under_the_mouse(watch: Watch, operator: Operator) -> None:
    """The part that the mouse is in stays as it is, until the mouse leaves."""
    operator.put("a", "mouse")
    operator.go("queue", "mouse", "?tab=waiting")
    waiting = card(watch.page, "Waiting")
    rows = operator.main.locator("table.qless-jobs tbody tr")
    rows.first.hover()
    operator.put("b", "mouse")
    watch.refreshed(5)
    # What is elsewhere has changed, so the answer is dealt with.
    expect(waiting).to_have_text("2")
    assert rows.count() == 1
    state = watch.page.locator("[data-refresh-state]")
    expect(state).to_have_text("Paused while you point, select or type")
    # What was held back is shown as the mouse leaves, and nothing is asked for it.
    watch.page.mouse.move(0, 0)
    expect(rows).to_have_count(2)
    expect(state).to_have_text("")


def test_a_search_goes_on_until_it_has_found_something(operator: Operator) -> None:
    """Each page looks at a thousand jobs; the one that is meant is the last."""
    jobs = [Put(f"haystack-{n}", "haystack", ADD, "{}") for n in range(2500)]
    operator.client.put_many("", jobs)
    operator.put("needle", "haystack", klass="shop.needle", priority=-1)
    operator.go("job", query="?klass=shop.needle")
    # The row, and the form for what is ticked.
    row = operator.main.locator("table.qless-jobs tbody tr")
    expect(row).to_contain_text("needle")
    expect(operator.button("Retry")).to_be_visible()


def test_nothing_moves_under_the_focus(watch: Watch, operator: Operator) -> None:
    """Nor does the part that the keyboard is in; ticks stay as well."""
    operator.put("a", "focus")
    operator.go("queue", "focus", "?tab=waiting")
    waiting = card(watch.page, "Waiting")
    rows = operator.main.locator("table.qless-jobs tbody tr")
    box = operator.main.get_by_label("Select job live.a")
    box.focus()
    operator.put("b", "focus")
    watch.refreshed(5)
    expect(waiting).to_have_text("2")
    assert rows.count() == 1
    box.press("Space")
    watch.page.get_by_label("Refresh").focus()
    operator.put("c", "focus")
    watch.refreshed(5)
    expect(waiting).to_have_text("3")
    assert rows.count() == 1
    expect(box).to_be_checked()
    state = watch.page.locator("[data-refresh-state]")
    expect(state).to_have_text("Paused while you point, select or type")
    box.uncheck()
    watch.page.get_by_label("Refresh").focus()
    watch.page.mouse.move(0, 0)
    watch.refreshed(5)
    expect(rows).to_have_count(3)


def test_nothing_is_asked_while_the_tab_is_hidden(
    watch: Watch, operator: Operator
) -> None:
    """It rests, and catches up as soon as it is seen again."""
    operator.put("a", "hidden")
    operator.go("queue", "hidden")
    waiting = card(watch.page, "Waiting")
    watch.hide(True)
    operator.put("b", "hidden")
    watch.not_refreshed(600)
    expect(waiting).to_have_text("1")
    with watch.page.expect_response(lambda each: "live=1" in each.url):
        watch.hide(False)
    expect(waiting).to_have_text("2")
    watch.refreshed(5)


def test_the_interval_is_remembered(watch: Watch, operator: Operator) -> None:
    """How often is chosen once, for all pages; also never."""
    operator.go("queue")
    choice = watch.page.get_by_label("Refresh")
    expect(choice).to_have_value("5")
    choice.select_option("every minute")
    watch.not_refreshed(50)
    watch.refreshed(10)
    operator.go("overview")
    expect(choice).to_have_value("60")
    watch.not_refreshed(50)
    choice.select_option("off")
    watch.not_refreshed(600)
    operator.go("worker")
    expect(choice).to_have_value("0")
    watch.not_refreshed(600)


def test_a_lost_server_is_told(watch: Watch, operator: Operator) -> None:
    """It says so, tries again, and says no more of it when it has an answer."""
    operator.go("queue")
    state = watch.page.locator("[data-refresh-state]")
    watch.page.route("**/*live=1*", lambda route: route.abort())
    watch.page.clock.run_for(5000)
    expect(state).to_have_text("No answer; trying again")
    watch.page.unroute("**/*live=1*")
    watch.refreshed(5)
    expect(state).to_have_text("")
    faults = operator.visitor.faults
    assert faults
    assert all("ERR_FAILED" in fault for fault in faults), faults
    faults.clear()


def test_an_ended_session_is_told(watch: Watch, operator: Operator) -> None:
    """It says to log in again, and leads to the form, which comes back to the page."""
    operator.go("queue")
    watch.page.context.clear_cookies()
    watch.page.clock.run_for(5000)
    link = watch.page.get_by_role("link", name="log in again")
    link.click()
    expect(watch.page).to_have_url(
        re.compile("/login/.*next=/admin/django_qless/queue/")
    )


def tab_to(page: Page, goal: Locator) -> None:
    """Press Tab until something has the focus; fail if it never has."""
    for _press in range(150):
        page.keyboard.press("Tab")
        if goal.evaluate("(each) => each === document.activeElement"):
            return
    raise AssertionError(f"Tab does not reach {goal}")


def test_the_skip_link(operator: Operator) -> None:
    """The first thing that Tab reaches leads past what is on each page."""
    operator.go("job")
    page = operator.page
    page.keyboard.press("Tab")
    link = page.locator(":focus")
    expect(link).to_have_text("Skip to main content")
    expect(link).to_be_visible()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate(
        "document.getElementById('content-start').contains(document.activeElement)"
    )


def test_without_a_mouse(operator: Operator) -> None:
    """Tabs and buttons are reached with Tab and pressed with Enter; it can be seen."""
    jid = operator.put("keys", "keyboard")
    page = operator.page
    operator.go("queue", "keyboard")
    # While the keyboard is in a part, nothing replaces it.
    tab = operator.main.get_by_role("link", name="Waiting 1", exact=True)
    tab_to(page, tab)
    outline = "(each) => getComputedStyle(each).outlineStyle !== 'none'"
    assert tab.evaluate(outline)
    page.keyboard.press("Enter")
    expect(operator.main.get_by_role("link", name="Waiting 1")).to_have_attribute(
        "aria-current", "page"
    )
    tab_to(page, operator.main.get_by_role("link", name=ADD))
    page.keyboard.press("Enter")
    button = operator.button("Track")
    tab_to(page, button)
    assert button.evaluate(outline)
    page.keyboard.press("Enter")
    operator.told("is tracked")
    assert operator.job(jid).tracked
    tab_to(page, operator.button("Change priority…"))
    page.keyboard.press("Enter")
    field = operator.field("Priority")
    tab_to(page, field)
    page.keyboard.press("Control+A")
    page.keyboard.type("8")
    page.keyboard.press("Enter")
    operator.told("is 8; it was 0.")
    assert operator.job(jid).priority == 8


def test_all_are_selected(operator: Operator) -> None:
    """One tick ticks all of the table; it says how many; one that is left out shows."""
    for number in range(3):
        operator.put(f"each.{number}", "ticks")
    operator.go("job", query="?queue=ticks")
    every = operator.main.get_by_label("All on this page")
    boxes = operator.main.get_by_role("checkbox", name="Select job")
    every.check()
    assert all(box.is_checked() for box in boxes.all())
    status = operator.main.locator("[data-selected]")
    expect(status).to_have_text("3 selected:")
    boxes.nth(1).uncheck()
    expect(status).to_have_text("2 selected:")
    assert every.evaluate("(box) => box.indeterminate")
    boxes.nth(1).check()
    expect(every).to_be_checked()
    operator.press("Track")
    operator.asks("Track 3 jobs?")
    operator.press("Track")
    operator.told("Now tracking 3 jobs.")
    assert all(operator.job(f"live.each.{number}").tracked for number in range(3))
