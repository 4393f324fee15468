"""Somebody who operates the pages by clicking, as a person does: no URL of an action."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from django.urls import resolve
from playwright.sync_api import expect

from django_qless.admin.links import quote
from django_qless.core import Put, Settlement

if TYPE_CHECKING:
    from typing import Any

    from playwright.sync_api import Locator, Page, Response

    from django_qless.core import Brief, Client
    from tests.admin.browser.visitor import Visitor

APP = "/admin/django_qless/"
ADD = "tests.jobs_app.jobs.add"
PATIENCE = 60_000
"""Milliseconds: how long something may take that happens by itself."""

expect.set_options(timeout=PATIENCE)


class Operator:
    """Clicks; `done` keeps the names of the routes whose actions were done.

    `own` names what is the test's alone: its queue, and the beginning of its job ids.
    """

    def __init__(
        self, visitor: Visitor, client: Client, done: set[str], own: str
    ) -> None:
        self.visitor, self.client, self.done, self.own = visitor, client, done, own
        self.page: Page = visitor.page
        self.main = self.page.locator("#content")
        self.page.on("response", self._response)

    def go(self, model: str, name: str | None = None, query: str = "") -> None:
        """Visit a list, or the page of one."""
        path = f"{APP}{model}/"
        if name is not None:
            path += f"{quote(name)}/change/"
        self.visitor.go(path + query)

    def button(self, name: str | re.Pattern[str], within: Locator | None = None) -> Any:
        """Return the one button, or link that looks like one, of this name."""
        where = within or self.main
        either = where.get_by_role("button", name=name, exact=True)
        return either.or_(where.get_by_role("link", name=name, exact=True))

    def press(self, name: str | re.Pattern[str], within: Locator | None = None) -> None:
        """Click it."""
        self.button(name, within).click()

    def do(self, *buttons: str, told: str, asks: str = "", **fields: str) -> None:
        """Click a button, fill in the form, click the others, see what was done."""
        first, *others = buttons
        self.press(first)
        if asks:
            self.asks(asks)
        self.fill(**fields)
        for each in others:
            self.press(each)
        self.told(told)

    def fill(self, **fields: str) -> None:
        """Fill in fields by their labels, `_` being a space."""
        for label, value in fields.items():
            self.field(label).fill(value)

    def field(self, label: str) -> Locator:
        """Return the field of a label."""
        return self.main.get_by_label(f"{label.replace('_', ' ')}:", exact=True)

    def asks(self, text: str) -> None:
        """See that it is asked, and that it says so."""
        expect(self.main).to_contain_text(text)

    def told(self, text: str) -> None:
        """See the one message that says what was done."""
        expect(self.page.locator("ul.messagelist li.success")).to_contain_text(text)

    def refused(self, status: int, text: str) -> None:
        """See why something was refused; that the browser reports it is no fault."""
        expect(self.main.get_by_role("alert")).to_contain_text(text)
        word = str(status)
        faults = self.visitor.faults
        assert any(word in fault for fault in faults), faults
        faults[:] = [fault for fault in faults if word not in fault]

    def job(self, jid: str) -> Brief:
        """Return a job that must be there."""
        (found,) = self.client.brief([jid])
        return found

    def put(
        self,
        name: str = "",
        queue: str = "",
        args: str = "1,2",
        klass: str = ADD,
        **more: Any,
    ) -> str:
        """Enqueue a job, by default into the test's own queue; return its jid."""
        jid = f"{self.own}.{name or 'job'}"
        self.put_many([jid], queue or self.own, args, klass, **more)
        return jid

    def put_many(
        self,
        jids: list[str],
        queue: str,
        args: str = "1,2",
        klass: str = ADD,
        **more: Any,
    ) -> None:
        """Enqueue several jobs."""
        data = f'{{"v":1,"args":[{args}]}}'
        self.client.put_many("", [Put(jid, queue, klass, data, **more) for jid in jids])

    def put_failed(self, name: str, group: str) -> str:
        """Enqueue a job and let it fail, in a queue of its own; return its jid."""
        queue = f"{self.own}.{name}"
        jid = self.put(name, queue)
        (held,) = self.client.settle("by-hand", [], 1, [queue]).jobs
        ended = Settlement(jid, held.token, "fail", (group, "it broke"))
        assert not self.client.settle("by-hand", [ended], 0, ["-"]).refused
        return jid

    def visit_job(
        self, name: str = "", queue: str = "", *rest: str, **more: Any
    ) -> str:
        """Enqueue a job and visit its page; return its jid."""
        jid = self.put(name, queue, *rest, **more)
        self.go("job", jid)
        return jid

    def _response(self, response: Response) -> None:
        request = response.request
        if request.method == "POST" and response.status < 400:
            name = resolve(urlsplit(request.url).path).url_name or ""
            self.done.add(name)
