"""The tags of a namespace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .calls import OfAsyncClient, OfClient, Request, command
from .commands import Commands
from .commands.shared import Listing


@dataclass(frozen=True)
class TagActions:
    """What can be asked about tags; returns what the client returns."""

    client: Any = field(repr=False)

    @command
    def top(self, offset: int = 0, count: int = 25) -> Request[list[str]]:
        """Return the tags that at least two jobs carry, the commonest first."""
        return Commands.top_tags.build(self.client, offset, count)

    @command
    def jobs(self, tag: str, offset: int = 0, count: int = 25) -> Request[Listing]:
        """Return the jobs that carry a tag, the first tagged first."""
        return Commands.tagged.build(self.client, tag, offset, count)


class Tags(TagActions, OfClient):
    """The tags, by a Client."""


class AsyncTags(TagActions, OfAsyncClient):
    """The tags, by an AsyncClient."""
