"""The base of the operator's objects: they are those of one alias."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from django_qless import conf
from django_qless.conf import DEFAULT_ALIAS
from django_qless.conf.connections import connections

if TYPE_CHECKING:
    from typing_extensions import Self

    from django_qless.core import AsyncClient, Client


class OfAlias:
    """Objects of one alias; `using_alias()` returns the same objects of another."""

    def __init__(self, alias: str = DEFAULT_ALIAS) -> None:
        self.alias = alias

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.alias!r}>"

    def using_alias(self, alias: str) -> Self:
        """Return these objects of another alias of QLESS."""
        return type(self)(alias)

    @property
    def namespaces(self) -> Sequence[str]:
        """The names of the namespaces of the alias: itself, without NAMESPACES."""
        return conf.namespaces_of(self.alias)

    @property
    def client(self) -> Client:
        """The client of the alias: of the first of its namespaces."""
        return connections[self.namespaces[0]]

    @property
    def aclient(self) -> AsyncClient:
        """The client of the alias for asynchronous code."""
        return connections.aclient(self.namespaces[0])
