"""Every kind of user that the pages tell apart, and clients logged in as them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import Permission, User
from django.test import Client

from django_qless.admin import permissions

if TYPE_CHECKING:
    from collections.abc import Iterable

PASSWORD = "open sesame"

KINDS: dict[str, tuple[str, ...] | None] = {
    "anonymous": None,
    "member": (),
    "staff": (),
    **{
        name.partition(".")[2]: (name,)
        for name in permissions.ALL
        if name != permissions.VIEW
    },
    "view": (permissions.VIEW,),
    **{
        f"view+{name.partition('.')[2]}": (permissions.VIEW, name)
        for name in permissions.ALL
        if name != permissions.VIEW
    },
    "superuser": permissions.ALL,
}
"""The permissions of each kind of user; all but `anonymous` and `member` are staff.

Beside the single permissions there is each of them together with the one to view,
without which none of the others opens anything.
"""


def user(kind: str) -> User:
    """Return the user of this kind, made when first needed."""
    known = User.objects.filter(username=kind).first()
    if known is not None:
        return known
    made = User.objects.create_user(
        kind,
        password=PASSWORD,
        is_staff=kind != "member",
        is_superuser=kind == "superuser",
    )
    if kind != "superuser":
        made.user_permissions.set(rows(KINDS[kind] or ()))
    return made


def rows(names: Iterable[str]) -> list[Permission]:
    """Return the database rows of permissions; each must be there."""
    found = []
    for name in names:
        app, _, codename = name.partition(".")
        found.append(
            Permission.objects.get(content_type__app_label=app, codename=codename)
        )
    return found


def client_of(kind: str, **options: Any) -> Client:
    """Return Django's test client, logged in as a user of this kind."""
    client = Client(**{"raise_request_exception": False, **options})
    if kind != "anonymous":
        client.force_login(user(kind))
    return client
