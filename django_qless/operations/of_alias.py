"""The base of the operator's objects: they are those of one alias."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_qless.conf import DEFAULT_ALIAS
from django_qless.conf.connections import connections

if TYPE_CHECKING:
    from typing import Self

    from django_qless.core import AsyncClient, Client


class OfAlias:
    """Objects of one alias; `using_alias()` returns the same objects of another."""

    def __init__(self, alias: str | None = None) -> None:
        """Without an `alias` they are those of the default one, and routed queues elsewhere."""
        self._given = alias

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.alias!r}>"

    def using_alias(self, alias: str) -> Self:
        """Return these objects of another alias of QLESS."""
        return type(self)(alias)

    @property
    def alias(self) -> str:
        """The alias of QLESS."""
        return self._given or DEFAULT_ALIAS

    @property
    def client(self) -> Client:
        """The client of the alias."""
        return connections[self.alias]

    @property
    def aclient(self) -> AsyncClient:
        """The client of the alias for asynchronous code."""
        return connections.aclient(self.alias)
