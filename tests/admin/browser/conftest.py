"""A browser on a site with something to show; left out where there is no browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.admin.browser import chrome
from tests.admin.browser.scene import PASSWORD, USER, Scene

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.admin.browser.visitor import Visitor

# Left out, and listed as such, on a machine that lacks any of it.
collect_ignore_glob = ["test_*.py", "actions"] if chrome.missing() else []


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what asks whether others have run behind them, whatever the order."""
    items.sort(key=lambda item: item.name.startswith("test_no_action_is_left_out"))


def begun_scene() -> Iterator[Scene]:
    """A server, a web server and a worker, with jobs in every state."""
    with Scene() as scene:
        yield scene


def begun_browser() -> Iterator[Browser]:
    """Chromium."""
    with chrome.chromium() as browser:
        yield browser


def remembered(browser: Browser, scene: Scene) -> Any:
    """What a browser remembers of somebody who has logged in."""
    context = browser.new_context()
    chrome.log_in(context, scene.url, USER, PASSWORD)
    kept = context.storage_state()
    context.close()
    return kept


# Not for the whole session: while Playwright runs, Django refuses this thread's queries.
scene = pytest.fixture(scope="module")(begun_scene)
browser = pytest.fixture(scope="module")(begun_browser)
logged_in = pytest.fixture(scope="module")(remembered)


@pytest.fixture
def visit(
    browser: Browser, scene: Scene, logged_in: Any
) -> Iterator[Callable[..., Visitor]]:
    """Makes visitors, superusers who are logged in, with options of a context."""
    from tests.admin.browser.visitor import Visitor

    made: list[Visitor] = []

    def make(look: str = "light", **options: Any) -> Visitor:
        chosen = {**chrome.LOOKS[look], "storage_state": logged_in, **options}
        visitor = Visitor(browser.new_context(**chosen), scene.url)
        made.append(visitor)
        return visitor

    yield make
    for visitor in made:
        visitor.context.close()
