"""Clients of the Lua core: one per alias and process, made on first use."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

from django_qless import conf
from django_qless.conf import in_tests
from django_qless.conf.connection_factory import factory_for
from django_qless.core import AsyncClient, Client
from django_qless.core.client import PATIENCE
from django_qless.core.replication import Replication
from django_qless.core.script import Clock

#: How long a call waits for the replicas that REPLICAS asks for.
REPLICAS_SECONDS = 0.2


class _Clients(dict[str, Client]):
    """Clients by alias, made on first use."""

    def __init__(self, make: Callable[[str], Client]) -> None:
        self._make = make

    def __missing__(self, alias: str) -> Client:
        return self._make(alias)


class Connections:
    """`connections["default"]` is the client of that alias.

    Clients are safe for threads and stay good after a fork. They connect when the first
    call is made, not before.
    """

    def __init__(self) -> None:
        #: The clients by alias, for those who know that no tests have begun meanwhile.
        self.clients = _Clients(self._made)
        self._impatient: dict[str, Client] = {}
        self._async_clients: dict[str, AsyncClient] = {}
        self._separate()

    def _separate(self) -> None:
        # Another thread may have held the lock at the moment of a fork.
        self._lock = threading.Lock()

    def __getitem__(self, alias: str) -> Client:
        # A client that was made before the tests is one of the project's own server.
        in_tests.begin()
        return self.clients[alias]

    def __iter__(self) -> Iterator[str]:
        return iter(conf.alias_names())

    def __contains__(self, alias: str) -> bool:
        return alias in conf.alias_names()

    def impatient(self, alias: str) -> Client:
        """Return a client for pages: it gives up within seconds."""
        in_tests.begin()
        client = self._impatient.get(alias)
        if client is None:
            client = self._made(alias, self._impatient, patience=1.0, timeout=2.0)
        return client

    def aclient(self, alias: str = conf.DEFAULT_ALIAS) -> AsyncClient:
        """Return the client for asyncio, good in any event loop."""
        in_tests.begin()
        client = self._async_clients.get(alias)
        return self._made_async(alias) if client is None else client

    def all(self) -> list[Client]:
        """Return the clients that have been made."""
        return [*self.clients.values(), *self._impatient.values()]

    def close_all(self) -> None:
        """Close what is open; clients open it again when they are used again."""
        for client in self.all():
            client.close()

    async def aclose(self) -> None:
        """Close what is open in this event loop: it is about to end."""
        for client in list(self._async_clients.values()):
            await client.aclose()

    def forget(self) -> None:
        """Close and drop all clients: the settings have changed."""
        with self._lock:
            self.close_all()
            self.clients.clear()
            self._impatient.clear()
            self._async_clients.clear()

    def _made(
        self, alias: str, kept: dict[str, Client] | None = None, **options: Any
    ) -> Client:
        settings = conf.alias(alias)
        kept = self.clients if kept is None else kept
        options.setdefault("patience", self._patience(alias))
        with self._lock:
            if alias not in kept:
                kept[alias] = Client(
                    factory_for(settings).client(),
                    prefix=settings.prefix,
                    replication=_replication(settings),
                    **options,
                )
                kept[alias].script.now = clock_of(alias)
            return kept[alias]

    def _made_async(self, alias: str) -> AsyncClient:
        settings = conf.alias(alias)
        with self._lock:
            if alias not in self._async_clients:
                self._async_clients[alias] = AsyncClient(
                    factory_for(settings).async_client(),
                    prefix=settings.prefix,
                    replication=_replication(settings),
                    patience=self._patience(alias),
                )
                self._async_clients[alias].script.now = clock_of(alias)
            return self._async_clients[alias]

    def _patience(self, alias: str) -> float:
        settings = conf.alias(alias)
        return PATIENCE if settings.patience is None else settings.patience


def clock_of(alias: str) -> Clock:
    """Return the clock of the calls to an alias, for `Script.now`."""
    return in_tests.clock if conf.alias(alias).in_tests else "*"


def _replication(settings: conf.Alias) -> Replication | None:
    if not settings.replicas:
        return None
    return Replication(settings.replicas, REPLICAS_SECONDS)


connections = Connections()
conf.on_change(connections.forget)
os.register_at_fork(after_in_child=connections._separate)
