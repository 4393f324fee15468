"""Numbers for machines are the same in every language: attributes, code, form fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.test import override_settings

from tests.admin.browser.pages import pages_of
from tests.admin.reading import Page
from tests.admin.routes import places
from tests.jobs_app.models import Feed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.test import Client as Browser

    from django_qless.core import Client
    from tests.admin.content import Content
    from tests.admin.reading import _Element

pytestmark = pytest.mark.django_db

LANGUAGE = "af"
"""Django has no formats for it, so those of the settings hold."""
SIGNS = ("\ue000", "\ue001")
"""Between all digits, and before decimals: they stand nowhere else."""

#: Attributes that people read or hear.
SPOKEN = ("title", "aria-label", "alt", "placeholder")
CODE = ("code", "pre", "textarea", "script", "style")


@pytest.fixture(autouse=True)
def separators() -> Iterator[None]:
    """Every number from 10 on has a separator, and every fraction another comma."""
    with override_settings(
        ROOT_URLCONF="tests.admin.shop",
        USE_THOUSAND_SEPARATOR=True,
        NUMBER_GROUPING=1,
        THOUSAND_SEPARATOR=SIGNS[0],
        DECIMAL_SEPARATOR=SIGNS[1],
    ):
        yield


def localized(element: _Element) -> Iterator[str]:
    """Yield what a machine reads and has a number as people write it."""
    for name, value in element.attributes.items():
        is_spoken = name in SPOKEN or (
            name == "value" and element.attributes.get("type") == "submit"
        )
        if not is_spoken and value and any(sign in value for sign in SIGNS):
            yield f"{element.tag} {name}={value}"
    for inside in element.inside:
        if not isinstance(inside, str):
            yield from localized(inside)
        elif element.tag in CODE and any(sign in inside for sign in SIGNS):
            yield f"{element.tag}: {inside}"


def test_numbers_for_machines_are_never_localized(
    qless: Client, content: Content, admin_browser: Browser
) -> None:
    asking = places(content, "tests.admin.urls", {"recurring_reset": ["-"]}, most=1)
    rows = f"/shop/jobs_app/feed/{Feed.objects.create(pk=1234).pk}/jobs/"
    urls = [*pages_of(content), *(place.url for place in asking)]
    urls += ["/admin/django_qless/job/?offset=12", rows, f"{rows}enqueue/"]
    faults: list[str] = []
    shown = 0
    for url in urls:
        answer = admin_browser.get(url, headers={"accept-language": LANGUAGE})
        html = answer.content.decode()
        assert answer.status_code == 200 or "reset" in url, url
        shown += SIGNS[0] in html
        faults += [f"{url}: {each}" for each in localized(Page(html).root)]
    assert not faults, "\n".join(faults)
    assert shown > 10, "People's numbers have to be on the pages."


def test_numbers_that_are_names_are_never_localized(
    qless: Client, content: Content, admin_browser: Browser
) -> None:
    def page(path: str) -> Page:
        url = f"/admin/django_qless/{path}"
        answer = admin_browser.get(url, headers={"accept-language": LANGUAGE})
        return Page(answer.content.decode())

    listed = page("worker/").table("Workers, the latest heartbeat first")
    assert "4711" in [cell for row in listed for cell in row]
    assert page(f"worker/{content.workers[0]}/change/").facts()["Process"] == "4711"
    assert "heartbeat 60" in page("option/").text
