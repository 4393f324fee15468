"""The pages of failure groups: what they tell, to whom, and what they lead to."""

from __future__ import annotations

import html
import re
from urllib.parse import parse_qs, urlsplit

import pytest

from django_qless.admin.pages.failures import summary_line
from django_qless.core import FailureGroup
from tests.admin.stock import fail

pytestmark = pytest.mark.django_db

FAILURES = "/admin/django_qless/failure/"


def text_of(browser, url: str) -> str:
    response = browser.get(url)
    assert response.status_code == 200
    return response.content.decode()


def links_in(text: str, path: str) -> list[dict[str, list[str]]]:
    """The queries of the links to a path."""
    found = map(html.unescape, re.findall(r'href="([^"]+)"', text))
    return [parse_qs(urlsplit(url).query) for url in found if path in url]


def group(name: str) -> str:
    return f"{FAILURES}{name}/change/"


def test_groups_with_counts_and_a_sample(qless, as_user) -> None:
    fail(qless, 3, "ValueError-mail", "mail", "ValueError: no such address")
    fail(qless, 1, "Timeout", "web", "took too long", klass="shop.Load")
    text = text_of(as_user("view+view_data"), FAILURES)
    assert "4 jobs have failed." in text
    assert text.index("ValueError-mail") < text.index(">Timeout<")
    assert "ValueError: no such address" in text
    assert "shop.Load" in text
    assert "1–2 of 2" in text
    assert "job/bulk" not in text  # who may not act is not offered to


def test_the_latest_first(qless, as_user) -> None:
    fail(qless, 2, "early")
    browser = as_user("view")
    assert 'href="/admin/django_qless/failure/?order=last"' in text_of(
        browser, FAILURES
    )
    text = text_of(browser, FAILURES + "?order=last")
    assert 'order=last" aria-current="true"' in text


def test_messages_are_for_those_who_may_see_data(qless, as_user) -> None:
    fail(qless, 1, "g", message="the card 4711 was declined")
    for url in (FAILURES, group("g")):
        assert "4711" in text_of(as_user("view+view_data"), url)
        text = text_of(as_user("view+act_on_jobs"), url)
        assert "4711" not in text
        assert "hidden" in text


def test_what_can_be_done_to_all(qless, as_user) -> None:
    fail(qless, 2, "g")
    browser = as_user("view+act_on_jobs")
    links = links_in(text_of(browser, FAILURES), "job/bulk/")
    assert {(link["verb"][0], *link.get("group", ["*"])) for link in links} == {
        ("retry", "*"),
        ("cancel", "*"),
        ("retry", "g"),
        ("cancel", "g"),
    }
    links = links_in(text_of(browser, group("g") + "?klass=shop.*"), "job/bulk/")
    assert {link["verb"][0] for link in links} == {"retry", "cancel", "move", "tag"}
    assert all(link["klass"] == ["shop.*"] for link in links)
    assert all("group/g" not in link["next"][0] for link in links)
    assert links[0]["next"] == [group("g") + "?klass=shop.%2A"]


def test_the_jobs_of_a_group(qless, as_user) -> None:
    fail(qless, 60, "g", "mail", "Oh no")
    fail(qless, 5, "g", "web", klass="shop.Load")
    browser = as_user("view+view_data")
    text = text_of(browser, group("g"))
    assert "1–50 of 65" in text
    assert "offset=50" in text
    assert "51–65 of 65" in text_of(browser, group("g") + "?offset=50")
    text = text_of(browser, group("g") + "?klass=*.Load")
    assert "5 found; scanned 65 of 65" in text
    assert "g-web-4" in text
    assert "g-mail-1<" not in text
    # A filter makes it a search, even if all that was read matches.
    assert "50 found; scanned 50 of 65" in text_of(browser, group("g") + "?klass=*")
    text = text_of(browser, group("g") + "?queue=mail")
    assert "g-web-1<" not in text


def test_the_page_of_a_group_shows_how_the_error_ends(qless, as_user) -> None:
    call = '  File "/srv/shop/orders.py", line 87, in charge\n    charge(order)\n'
    text = f"Traceback (most recent call last):\n{call * 300}shop.Declined: card 4711"
    fail(qless, 1, "g", message=text)
    shown = as_user("view+view_data").get(group("g"))
    assert '<p class="qless-headline" dir="ltr">shop.Declined: card 4711</p>' in (
        shown.content.decode()
    )
    assert "more calls" in shown.content.decode()
    fail(qless, 1, "g", message="It began.\n" + "It went on.\n" * 2000 + "It ended.")
    assert "It ended." in text_of(as_user("view+view_data"), group("g"))


def test_selected_ones(qless, as_user) -> None:
    fail(qless, 2, "g")
    text = text_of(as_user("view+act_on_jobs"), group("g"))
    assert text.count('type="checkbox" name="jid"') == 2
    assert 'name="verb" value="retry"' in text
    assert 'name="jid"' not in text_of(as_user("view"), group("g"))


def test_an_empty_group_says_so(qless, as_user) -> None:
    browser = as_user("view+act_on_jobs")
    assert "No job has failed." in text_of(browser, FAILURES)
    text = text_of(browser, group("g"))
    assert "No job is in this group now." in text
    assert "job/bulk/?" not in text


def test_live_parts(qless, as_user) -> None:
    fail(qless, 2, "g")
    browser = as_user("view")
    assert browser.get(FAILURES + "?live=1").json()["parts"].keys() == {
        "total",
        "groups",
    }
    assert browser.get(group("g") + "?live=1").json()["parts"].keys() == {
        "group",
        "jobs",
    }


def test_names_are_texts(qless, as_user) -> None:
    evil = "<b onclick=x>/..?&#'\""
    (jid,) = fail(qless, 1, evil, "q", f"message {evil}")
    browser = as_user("superuser")
    text = text_of(browser, FAILURES)
    assert "<b onclick" not in text
    found = re.findall(r'href="(/admin/django_qless/failure/[^"?]+/change/)"', text)
    page = text_of(browser, html.unescape(found[0]))
    assert "<b onclick" not in page
    assert html.escape(jid) in page
    (link,) = [
        each for each in links_in(page, "job/bulk/") if each["verb"] == ["retry"]
    ]
    assert link["group"] == [evil]


@pytest.mark.parametrize(
    ("head", "end", "line"),
    [
        ("ValueError: x\nmore", "more", "ValueError: x"),
        ("\n  \nx", "x", "x"),
        ("", "", ""),
        ("Traceback (most recent call last):\n  Fi", "ValueError: x", "ValueError: x"),
    ],
)
def test_the_line_that_says_it(head, end, line) -> None:
    group = FailureGroup("g", 1, 0, 0, "jid", "klass", "queue", head, end)
    assert summary_line(group) == line
