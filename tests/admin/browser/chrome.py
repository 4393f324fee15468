"""Debian's Chromium, driven by Playwright; and what of both a machine lacks."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext

AXE = Path(__file__).parents[3] / ".tools/node_modules/axe-core/axe.min.js"


def binary() -> str | None:
    """Return the browser's path, or None if there is none.

    The one that has no windows does the same with half the processor's time.
    """
    return (
        os.environ.get("QLESS_CHROMIUM")
        or shutil.which("chromium-headless-shell")
        or shutil.which("chromium")
        or shutil.which("chromium-browser")
    )


def missing(*, axe: bool = True) -> list[str]:
    """Return, in words, what the tests in a browser lack on this machine.

    Without `axe`: what it lacks to open a page.
    """
    found = []
    if find_spec("playwright") is None:
        found.append("no playwright: pip install -e '.[browser]'")
    if binary() is None:
        found.append("no chromium: apt-get install chromium-headless-shell")
    if axe and not AXE.exists():
        found.append("no axe-core: npm install --prefix .tools axe-core")
    return [f"the admin in a browser ({'; '.join(found)})"] if found else []


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the browser, without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=binary(),
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
        )
        try:
            yield browser
        finally:
            browser.close()


def log_in(context: BrowserContext, site: str, user: str, password: str) -> None:
    """Log in by the form; the context's pages are that user's from then on."""
    page = context.new_page()
    page.goto(f"{site}/admin/login/?next=/admin/jsi18n/")
    page.fill("#id_username", user)
    page.fill("#id_password", password)
    page.click("[type=submit]")
    page.wait_for_load_state()
    page.close()
    assert any(cookie["name"] == "sessionid" for cookie in context.cookies())


LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "narrow": {"viewport": {"width": 320, "height": 900}},
    "rtl": {"locale": "ar"},
}
"""Ways in which pages are looked at: options of a browser's context."""
