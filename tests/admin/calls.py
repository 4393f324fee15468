"""How many calls of the core a page costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

NAMES = ("fcall", "fcall_ro", "evalsha", "evalsha_ro")


def calls_of(server: redis.Redis, ask: Callable[[], object]) -> int:
    """Return how many calls the server answers while something is asked for."""
    before = _answered(server)
    ask()
    return _answered(server) - before


def _answered(server: redis.Redis) -> int:
    stats = server.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in NAMES)
