"""Every URL that the resolver knows, asked by every kind of user in every way.

By day each kind of user asks for a part of the URLs, which is not the same for all; by night
for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import override_settings

from django_qless.admin import permissions
from django_qless.conf.connections import connections
from tests.admin import people
from tests.admin.content import Content, fill
from tests.admin.markup import Markup
from tests.admin.routes import Place, places
from tests.core.keyspace import digest, dumped, restore
from tests.drawing import draw, part
from tests.jobs_app import jobs
from tests.jobs_app.models import Feed, Parcel, ProxyFeed
from tests.rows_app.models import Country, Spare
from tests.schedules.declaring import declaring

if TYPE_CHECKING:
    import redis
    from django.http import HttpResponse
    from django.test import Client as Browser

    from tests.real_servers import Server

pytestmark = pytest.mark.django_db

URLCONF = "tests.admin.shop"

TOKEN = "a" * 32
"""Against forged requests: what the cookie says, and the form has to say, too."""


@pytest.fixture
def rows() -> dict[str, list[str]]:
    """Rows of the models whose admins show jobs."""
    country = Country.objects.create(code="de")
    feed = Feed.objects.create(title="news")
    made = [
        *(feed, ProxyFeed.objects.get(pk=feed.pk), country),
        *(Parcel.objects.create(), Spare.objects.create(code="s/1")),
    ]
    return {f"{row._meta.app_label}_{row._meta.model_name}": [row.pk] for row in made}


@pytest.fixture
def site(
    server: Server, rows: dict[str, list[str]]
) -> Iterator[Callable[..., list[Place]]]:
    """The places of a server with something to show; what it holds can be put back."""
    aliases = {"default": {"LOCATION": server.url}}
    with (
        override_settings(QLESS=aliases, ROOT_URLCONF=URLCONF),
        declaring() as declare,
    ):
        declared = declare(jobs.whoami.name, every=3600).name
        content: Content = fill(connections["default"])
        rows["recurring_reset"] = [declared]
        yield lambda **options: places(content, None, rows, **options)


def may(kind: str, place: Place) -> bool:
    """Return whether this kind of user may ask for a place, by the rule."""
    return kind == "superuser" or needed(place) <= allowed(kind)


def needed(place: Place) -> set[str]:
    """Return the permissions that a place needs."""
    return set(place.route.needs)


def allowed(kind: str) -> set[str]:
    """Return the permissions of a kind of user that has not all of them."""
    return set(people.KINDS[kind] or ())


def asked(kind: str, site: Callable[..., list[Place]]) -> list[Place]:
    """Return what to ask for: as who may do all, about each thing; else about one."""
    if kind != "superuser":
        return part(site(most=1), 8, draw(kind, 8))
    elsewhere = [each for each in site(most=1) if each.route.namespace != "admin"]
    things = [each for each in site() if each.route.namespace == "admin"]
    return part([*things, *elsewhere], 6)


def expected(kind: str, place: Place, way: str) -> set[int]:
    """Return which answers are right."""
    if way == "POST without token":
        return {403}
    if kind in ("anonymous", "member"):
        return {302}
    if not may(kind, place):
        # The rows' own permissions are looked at by what deals with the method.
        takes_it = way != "POST" or place.route.acts or not place.route.is_of_rows
        return {403} if takes_it or permissions.VIEW not in allowed(kind) else {405}
    if way == "POST":
        # Done; or asked once more, told what is wrong, or why it cannot be done.
        return {302, 200, 400, 409} if place.route.acts else {405}
    return {200}


def wrong(kind: str, place: Place, way: str, response: HttpResponse) -> str | None:
    """Return what is wrong with an answer, None if nothing is."""
    status = response.status_code
    if status not in expected(kind, place, way):
        right = sorted(expected(kind, place, way))
        return f"{kind}: {way} {place.url}: {status}, not {right}"
    to_login = status == 302 and "/login/" in response["Location"]
    if to_login != (kind in ("anonymous", "member") and status == 302):
        return f"{kind}: {way} {place.url}: goes to {response['Location']}"
    return None


@pytest.mark.parametrize("kind", people.KINDS)
def test_who_may_look_where(
    kind: str, site: Callable[..., list[Place]], redis_client: redis.Redis
) -> None:
    """Each GET is answered as the rule says, and changes nothing on the server."""
    browser = people.client_of(kind)
    faults = []
    before = digest(redis_client)
    for place in asked(kind, site):
        separator = "&" if "?" in place.url else "?"
        for way, url in (
            ("GET", place.url),
            ("GET live", f"{place.url}{separator}live=1"),
        ):
            response = browser.get(url)
            faults.append(wrong(kind, place, way, response))
        if digest(redis_client) != before:
            faults.append(f"{kind}: GET {place.url} has changed the keyspace")
            before = digest(redis_client)
    assert not LogEntry.objects.exists()
    assert not list(filter(None, faults)), "\n".join(filter(None, faults))


@pytest.mark.parametrize("kind", people.KINDS)
def test_who_may_do_what(
    kind: str, site: Callable[..., list[Place]], server: Server
) -> None:
    """Each POST is answered as the rule says; only who may changes something.

    The token is that of the asking page; without it nothing is changed.
    """
    browser = people.client_of(kind, enforce_csrf_checks=True)
    browser.cookies["csrftoken"] = TOKEN
    faults: list[str | None] = []
    with server.client() as client:
        before, dumps = state(client), dumped(client)
        for place in asked(kind, site):
            response = browser.post(place.url, {"next": "/admin/"})
            faults.append(wrong(kind, place, "POST without token", response))
            assert state(client) == before, f"{kind}: {place.url} without a token"
            entries = LogEntry.objects.count()
            response = browser.post(place.url, form_of(browser, place))
            faults.append(wrong(kind, place, "POST", response))
            logged = LogEntry.objects.count() - entries
            if state(client) == before:
                continue
            if not (may(kind, place) and place.route.acts):
                faults.append(f"{kind}: POST {place.url} has changed the keyspace")
            if not logged:
                faults.append(f"{kind}: POST {place.url} has left no entry in the log")
            restore(client, dumps)
    assert not list(filter(None, faults)), "\n".join(filter(None, faults))


def state(client: redis.Redis) -> str:
    """Return a digest of what is on the server, but for the traces of any call.

    A call that may write leaves when it was and what it was answered, also if it did
    nothing to a job.
    """
    client.hset("ql:meta", "clock", 1)
    if replies := client.keys("ql:reply:*"):
        client.delete(*replies)
    return digest(client)


def form_of(browser: Browser, place: Place) -> dict[str, Any]:
    """Return what the asking page would send, or a token at least."""
    fields: dict[str, Any] = {}
    if place.route.acts:
        page = Markup(browser.get(place.url).content.decode())
        for form in page.forms:
            if form.method == "post" and form.action in ("", place.url):
                fields = form.fields
    return {**fields, "csrfmiddlewaretoken": TOKEN}


def test_staff_without_permissions_see_nothing_of_it(
    site: Callable[..., list[Place]],
) -> None:
    """Neither the index of the admin nor the app's own page has an entry."""
    browser = people.client_of("staff")
    index = browser.get("/admin/").content.decode()
    assert "qless" not in index
    assert browser.get("/admin/django_qless/").status_code == 404
    shown = people.client_of("view").get("/admin/").content.decode()
    for place in site(most=1):
        if place.route.name.endswith("_changelist") and not place.route.is_of_rows:
            assert place.url in shown or place.route.namespace != "admin"


def test_every_permission_is_asked_for_somewhere(
    site: Callable[..., list[Place]],
) -> None:
    """A permission that opens nothing would be a riddle on the form of a user."""
    found = {name for place in site(most=1) for name in needed(place)}
    assert set(permissions.ALL) <= found
