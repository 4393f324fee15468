"""The admin on a real server: every kind of user, and something to show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from django.test import override_settings

from django_qless.conf.connections import connections
from tests.admin import people
from tests.admin.content import Content, fill
from tests.permissions import channels_and_keys, nothing_refused, set_user, url_of

if TYPE_CHECKING:
    from django.test import Client as Browser

    from django_qless.core import Client
    from tests.real_servers import Server


@pytest.fixture
def qless(server: Server) -> Iterator[Client]:
    """The client of the default alias, on an empty server of this process's own.

    `other` is a second alias, another namespace of the same server.
    """
    set_user(server, "admin", *channels_and_keys("other:"))
    location = url_of(server, "admin")
    aliases = {
        "default": {"LOCATION": location},
        "other": {"LOCATION": location, "PREFIX": "other:"},
    }
    with nothing_refused(server), override_settings(QLESS=aliases):
        yield connections["default"]


@pytest.fixture
def content(qless: Client) -> Content:
    """Jobs in every state and all else that pages show, in the default alias."""
    return fill(qless)


@pytest.fixture
def as_user(db: None) -> Callable[[str], Browser]:
    """Returns Django's test client for a kind of user; people.KINDS names them.

    Such as "anonymous", "member" (no staff), "staff" (without any permission), "view",
    "view+act_on_jobs", "act_on_jobs" (without "view") or "superuser".
    """
    return people.client_of


@pytest.fixture
def admin_browser(as_user: Callable[[str], Browser]) -> Browser:
    """Django's test client, logged in as a superuser."""
    return as_user("superuser")
