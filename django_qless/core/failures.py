"""The failure groups of a namespace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .calls import OfAsyncClient, OfClient, Request, command
from .commands import Commands
from .commands.shared import Listing


@dataclass(frozen=True)
class FailureActions:
    """What can be done with failed jobs; returns what the client returns."""

    client: Any = field(repr=False)

    @command
    def groups(self) -> Request[dict[str, int]]:
        """Return the groups, and how many jobs each has."""
        return Commands.failed.build(self.client)

    @command
    def jobs(self, group: str, start: int = 0, limit: int = 25) -> Request[Listing]:
        """Return the jobs of a group, the newest first."""
        return Commands.failed_jobs.build(self.client, group, start, limit)

    @command
    def unfail(self, group: str, queue: str, count: int = 25) -> Request[int]:
        """Put up to `count` jobs of a group, the oldest first, back into a queue."""
        return Commands.unfail.build(self.client, queue, group, count)


class Failures(FailureActions, OfClient):
    """The failure groups, by a Client."""


class AsyncFailures(FailureActions, OfAsyncClient):
    """The failure groups, by an AsyncClient."""
