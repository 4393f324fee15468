"""The audit of the package, in the words of the tests: the server is at rest meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_qless.core.audit import audit

if TYPE_CHECKING:
    import redis

    from tests.real_servers import Server

#: Namespaces of the tests are judged as a whole.
AT_ONCE = 5000


def violations(server: redis.Redis, prefix: str = "ql:") -> list[str]:
    """Return what is wrong, in words; an empty list if all is well."""
    outside = [name for name in server.scan_iter() if not name.startswith(prefix)]
    found = audit(server, prefix, at_once=AT_ONCE, moment=None)
    return [
        *(f"key {name} is outside the prefix" for name in outside),
        *(finding.text for finding in found),
    ]


def violations_on(server: Server) -> list[str]:
    """Return what is wrong in the only namespace of a server of the tests."""
    client = server.shared_client(
        decode_responses=True, encoding_errors="surrogateescape"
    )
    return violations(client)
