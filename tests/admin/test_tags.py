"""Tags, and the jobs that carry one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.urls import reverse

from django_qless.admin.links import quote
from tests.admin.reading import Page, read
from tests.admin.stock import fail, put

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client as Browser

    from django_qless.core import Client

LIST = "/admin/django_qless/tag/"
CAPTION = "Tags, and the number of jobs with each"


def shown(browser: Browser, tag: str, query: str = "") -> Page:
    """Return the page of a tag as a person reads it."""
    path = reverse("admin:django_qless_tag_change", args=[quote(tag)])
    return read(browser.get(path + query))


def jids(page: Page) -> list[str]:
    """Return the ids of the jobs listed."""
    head, *rows = page.table("Jobs")
    return [row[head.index("Job")].split()[1] for row in rows]


def test_the_commonest_come_first(admin_browser: Browser, qless: Client) -> None:
    put(qless, "mail", "a", "b", tags=["common"])
    put(qless, "mail", "c", tags=["common", "rare one/?"])
    page = read(admin_browser.get(LIST))
    assert page.table(CAPTION)[1:] == [["common", "3"], ["rare one/?", "1"]]
    assert jids(read(admin_browser.get(page.links()["rare one/?"]))) == ["c"]


def test_a_long_list_has_parts(admin_browser: Browser, qless: Client) -> None:
    for n in range(2):
        put(qless, "mail", f"j{n}", tags=[f"t{n}-{m}" for m in range(27)])
    page = read(admin_browser.get(LIST))
    rest = read(admin_browser.get(page.links()["Next"]))
    assert "51–54 of 54" in rest.text
    both = page.table(CAPTION)[1:] + rest.table(CAPTION)[1:]
    assert len({tag for tag, _number in both}) == 54


def test_no_tags(admin_browser: Browser, qless: Client) -> None:
    assert "No job has a tag." in read(admin_browser.get(LIST)).text


def test_jobs_in_all_states(admin_browser: Browser, qless: Client) -> None:
    fail(qless, 1, queue="mail", tags=["t"])
    put(qless, "mail", "a", tags=["t"])
    put(qless, "other", "later", tags=["t"], delay=60)
    put(qless, "mail", "of another", tags=["u"])
    put(qless, "mail", "gone", tags=["t"])
    qless.redis.delete("ql:j:gone")
    page = shown(admin_browser, "t")
    assert jids(page) == ["g-mail-0", "a", "later"]
    assert "1–3 of 4" in page.text


def test_jobs_have_parts(admin_browser: Browser, qless: Client) -> None:
    put(qless, "mail", *(f"j{n:02}" for n in range(51)), tags=["t"])
    page = shown(admin_browser, "t")
    rest = read(admin_browser.get(page.links()["Next"]))
    assert sorted(jids(page) + jids(rest)) == [f"j{n:02}" for n in range(51)]


def test_a_tag_that_no_job_carries(admin_browser: Browser, qless: Client) -> None:
    assert "No job has this tag." in shown(admin_browser, "nothing").text


@pytest.mark.parametrize("kind", ["view", "view+act_on_jobs"])
def test_what_is_offered_to_whom(
    as_user: Callable[[str], Browser], qless: Client, kind: str
) -> None:
    put(qless, "mail", "a", tags=["t"])
    page = shown(as_user(kind), "t")
    offered = ("Retry all failed…", "Cancel all…", "Move all…")
    assert [text in page.links() for text in offered] == [kind != "view"] * 3


def test_where_buttons_lead(admin_browser: Browser, qless: Client) -> None:
    put(qless, "mail", "a", "b", tags=["t"])
    asked = read(admin_browser.get(shown(admin_browser, "t").links()["Cancel all…"]))
    assert "Cancel 2 jobs?" in asked.text
    assert qless.tagged("t").total == 2


def test_the_other_alias(admin_browser: Browser, qless: Client) -> None:
    put(qless, "mail", "a", tags=["t"])
    assert "No job has this tag." in shown(admin_browser, "t", "?alias=other").text
