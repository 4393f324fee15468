"""Somebody who looks at pages, and takes down whatever is not as it must be."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.admin.browser.chrome import AXE

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, ConsoleMessage, Request, Response

SERIOUS = ("serious", "critical")

DJANGO = ["#header", ".breadcrumbs", "#nav-sidebar"]
"""Around each page; its colours and its breadcrumbs' links are Django's affair."""

RUN_AXE = """
async (rules) => {
  const chosen = rules ? {runOnly: {type: 'rule', values: rules}} : {};
  const options = {...chosen, resultTypes: ['violations'], preload: false};
  const found = await axe.run({exclude: DJANGO}, options);
  return found.violations.map((each) => [each.impact, each.id, each.help,
    each.nodes.slice(0, 3).map((node) => node.html.slice(0, 200))]);
}
""".replace("DJANGO", json.dumps(DJANGO))


class Visitor:
    """A tab of a browser; `faults` says, page by page, what was wrong."""

    def __init__(self, context: BrowserContext, site: str) -> None:
        self.context, self.site = context, site
        self.page = context.new_page()
        self.page.set_default_timeout(60_000)
        self.faults: list[str] = []
        self._listens = True
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.fault(f"error: {error}"))
        self.page.on("requestfailed", self._failed)
        self.page.on("response", self._response)
        self.page.on("dialog", lambda dialog: self.fault(f"dialog {dialog.message}"))

    def fault(self, text: str) -> None:
        """Take something down."""
        self.faults.append(f"{self.page.url.removeprefix(self.site)}: {text}")

    def go(self, path: str) -> None:
        """Visit a page of the site."""
        self.page.goto(self.site + path)

    def check_width(self) -> None:
        """Take down a page that has to be moved sideways to be read."""
        wide, room = self.page.evaluate(
            "[document.documentElement.scrollWidth, window.innerWidth]"
        )
        if wide > room:
            self.fault(f"{wide} px wide in a window of {room} px")

    def check_access(self, *rules: str) -> None:
        """Take down what axe-core finds and calls serious, by these rules or all."""
        self.page.evaluate(AXE.read_text())
        for impact, rule, text, nodes in self.page.evaluate(
            RUN_AXE, list(rules) or None
        ):
            if impact in SERIOUS:
                self.fault(f"{rule} ({impact}): {text}: {'; '.join(nodes)}")

    def _console(self, message: ConsoleMessage) -> None:
        if self._listens and message.type in ("error", "warning"):
            self.fault(f"{message.type} on the console: {message.text}")

    def _failed(self, request: Request) -> None:
        # A request for live parts ends when the page is left.
        if "ERR_ABORTED" not in str(request.failure):
            self.fault(f"{request.url}: {request.failure}")

    def _response(self, response: Response) -> None:
        if response.status >= 400:
            self.fault(f"{response.status} for {response.url}")

    def value(self, script: str) -> Any:
        """Return what a script of the test says of the page."""
        return self.page.evaluate(script)
