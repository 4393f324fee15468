"""The options of a namespace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .calls import OfAsyncClient, OfClient, Request, command
from .commands import Commands


@dataclass(frozen=True)
class ConfigActions:
    """What can be done with options; returns what the client returns."""

    client: Any = field(repr=False)

    @command
    def all(self) -> Request[dict[str, Any]]:
        """Return all options that have a value, set or by default; set ones are text."""
        return Commands.config_all.build(self.client)

    @command
    def get(self, option: str) -> Request[Any]:
        """Return an option: text if it is set, else its default, else None."""
        return Commands.config_get.build(self.client, option)

    @command
    def set(self, option: str, value: str | int | float) -> Request[None]:
        """Set an option."""
        return Commands.config_set.build(self.client, option, value)

    @command
    def unset(self, option: str) -> Request[None]:
        """Return an option to its default."""
        return Commands.config_unset.build(self.client, option)


class Config(ConfigActions, OfClient):
    """The options, by a Client."""


class AsyncConfig(ConfigActions, OfAsyncClient):
    """The options, by an AsyncClient."""
