"""Problems of keys of QLESS that need, or exclude, each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django_qless.conf.setting_checks import Problem
from django_qless.core.cluster import hash_tag


def combination_problems(
    options: Mapping[str, Any], server_keys: Sequence[str]
) -> Iterator[Problem]:
    """Yield the problems of the keys of one alias together; `server_keys` name a server."""
    ways = [name for name in server_keys if options.get(name)]
    if len(ways) > 1:
        text = f"{' and '.join(ways)} exclude each other."
        yield Problem(text, "Keep exactly one way to connect.", "E003")
    has_db = options.get("DB") is not None
    if has_db and not (options.get("CACHE") or options.get("SENTINELS")):
        yield Problem(
            "DB goes with CACHE or SENTINELS only.",
            "Write the database into LOCATION: redis://localhost:6379/1.",
            "E003",
        )
    yield from _sentinel_problems(options)
    yield from _cluster_problems(options)
    if options.get("REPLICAS") and options.get("EMBEDDED"):
        yield Problem(
            "REPLICAS cannot be had with EMBEDDED, which has no replica.",
            "Remove REPLICAS, or name a server with replicas.",
            "E043",
        )


def _sentinel_problems(options: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of keys that need each other."""
    if options.get("SENTINELS"):
        if not options.get("SERVICE_NAME"):
            yield Problem(
                "SENTINELS needs SERVICE_NAME.",
                'Add "SERVICE_NAME": "main", the name after "sentinel monitor" in their '
                "configuration.",
                "E042",
            )
        return
    for name in ("SERVICE_NAME", "SENTINEL_OPTIONS"):
        if options.get(name):
            yield Problem(
                f"{name} goes with SENTINELS only.",
                'Add "SENTINELS": [("10.0.0.1", 26379)], or remove it.',
                "E042",
            )
    if isinstance(given := options.get("OPTIONS"), Mapping) and "ssl" in given:
        yield Problem(
            "OPTIONS: ssl goes with SENTINELS only.",
            "Write rediss:// in LOCATION.",
            "E010",
        )


def _cluster_problems(options: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problem of a namespace that one node could not have for itself."""
    prefix = options.get("PREFIX", "ql:")
    is_untagged = isinstance(prefix, str) and not hash_tag(prefix)
    if options.get("CLUSTER") and is_untagged:
        yield Problem(
            f"PREFIX {prefix!r} has no hash tag, so that a cluster would spread its keys "
            "over all nodes.",
            f'Write "PREFIX": "{tagged(prefix)}". What stands between the braces names the '
            "slot.",
            "E046",
        )
    given = options.get("OPTIONS")
    if options.get("CLUSTER") and isinstance(given, Mapping) and given.get("db"):
        yield Problem(
            f"OPTIONS names database {given['db']!r}, and a cluster has 0 only.",
            "Remove db: another PREFIX keeps things apart.",
            "E045",
        )


def tagged(prefix: str) -> str:
    """Return a prefix like this one with a hash tag."""
    return f"{{{re.sub('[{}:]', '', prefix) or 'ql'}}}:"
