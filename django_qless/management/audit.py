"""The findings of `qless_doctor --audit`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import redis

from django_qless.core.audit import REMEDIES, audit
from django_qless.core.redis_pool import copy_pool
from django_qless.management.server_findings import Finding, fine, problem

if TYPE_CHECKING:
    from django_qless.core import Client


def audited(client: Client) -> Iterator[Finding]:
    """Yield what an audit of the namespace finds, each with its remedy."""
    server = redis.Redis(connection_pool=copy_pool(client.redis))
    try:
        found = audit(server, client.prefix)
    except redis.RedisError as error:
        yield problem("audit", f"not all records could be read: {error}")
        return
    finally:
        server.connection_pool.disconnect()
    for finding in found:
        yield problem("audit", f"{finding.text}. Remedy: {REMEDIES[finding.kind]}")
    if not found:
        yield fine("audit", "the records of the namespace agree with each other")
