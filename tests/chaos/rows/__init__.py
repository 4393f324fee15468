"""All rows: each module adds its own."""

from __future__ import annotations

from tests.chaos.row import ROWS
from tests.chaos.rows import (  # noqa: F401
    clocks,
    crowd,
    deadly,
    ending,
    failover,
    idle,
    killed,
    outboxes,
    recurring,
    resharding,
    server,
    suspended,
    tight,
)

__all__ = ["ROWS"]
