"""The jobs of a namespace that are followed: their events are published."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, cast

from .calls import OfAsyncClient, OfClient, Request, command
from .commands import Commands
from .commands.jobs import TrackedJobs
from .job import AsyncJob, J, Job


@dataclass(frozen=True)
class TrackedActions(Generic[J]):
    """What can be done with followed jobs; returns what the client returns."""

    client: Any = field(repr=False)

    @command
    def jobs(self) -> Request[TrackedJobs[J]]:
        """Return the jobs that are followed, and the ids of those that are gone."""
        found = Commands.tracked.build(self.client)
        return cast("Request[TrackedJobs[J]]", found)

    @command
    def add(self, jid: str) -> Request[bool]:
        """Follow a job. Returns False if it was followed."""
        return Commands.track.build(self.client, jid)

    @command
    def remove(self, jid: str) -> Request[bool]:
        """Follow a job no longer. Returns False if it was not followed."""
        return Commands.untrack.build(self.client, jid)


class Tracked(TrackedActions[Job], OfClient):
    """The followed jobs, by a Client."""


class AsyncTracked(TrackedActions[AsyncJob], OfAsyncClient):
    """The followed jobs, by an AsyncClient."""
