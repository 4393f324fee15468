"""The users of docs/permissions.md, on the servers of the tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import redis

    from tests.real_servers import Server

DOCUMENT = Path(__file__).parents[1] / "docs" / "permissions.md"
PASSWORD = "secret"

#: What Redis 7.0 does not know.
NEW = "+client|setinfo"


@cache
def documented() -> dict[str, tuple[str, ...]]:
    """Return what the document gives each role, as arguments of ACL SETUSER."""
    lines = re.findall(r"^ACL SETUSER (\w+) (.+)$", DOCUMENT.read_text(), re.MULTILINE)
    return {role: tuple(rules.split()) for role, rules in lines}


def rules(kind: str, role: str) -> tuple[str, ...]:
    """Return what the role is given on this kind of server."""
    given = documented()[role]
    return tuple(rule for rule in given if kind != "redis" or rule != NEW)


def users(kind: str) -> Iterator[str]:
    """Yield the arguments with which a server has all documented users."""
    for role in documented():
        yield from ("--user", role, *rules(kind, role))


def set_user(server: Server, role: str, *more: str) -> None:
    """Give the user of a role what is documented again, and further rules."""
    admin = server.shared_client()
    admin.execute_command("ACL", "SETUSER", role, *rules(server.kind, role), *more)


def client_of(server: Server, role: str, **options: Any) -> redis.Redis:
    """Return a redis-py client of the role's user."""
    return server.client(username=role, password=PASSWORD, **options)


def url_of(server: Server, role: str) -> str:
    """Return the address at which the role's user connects."""
    return f"unix://{role}:{PASSWORD}@{server.socket}"


def channels_and_keys(prefix: str) -> tuple[str, str]:
    """Return what lets a user into one more namespace."""
    pattern = re.sub(r"([*?\[\]\\^])", r"\\\1", prefix)
    return f"~{pattern}*", f"&{pattern}*"


@contextmanager
def nothing_refused(server: Server) -> Iterator[None]:
    """Fail if a documented user has tried meanwhile what it may not do."""
    server.shared_client().acl_log_reset()
    yield
    if server.running:
        refused = [
            f"{entry['username']}: {entry['object']} ({entry['context']})"
            for entry in server.shared_client().acl_log()
            if entry["username"] in documented()
        ]
        assert not refused, refused
