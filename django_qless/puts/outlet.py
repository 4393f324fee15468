"""Where everything that is put goes out: one object, now or at a commit.

What is put together is a shipment. It is sent at once, or when the transaction that is
open in its database commits: never after a rollback, also not after that of a savepoint.
`replaced()` puts another outlet in the place of the usual one, for tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from django.db import DEFAULT_DB_ALIAS
from django.db import connections as databases
from django.utils.connection import ConnectionDoesNotExist

from django_qless.exceptions import InvalidOption
from django_qless.servers import in_tests

if TYPE_CHECKING:
    from django_qless.core import Put
    from django_qless.handle import JobHandle

Another = TypeVar("Another", bound="Outlet")

ONLY_DEFAULT = (DEFAULT_DB_ALIAS,)


class Shipment(Protocol):
    """What is sent together: jobs, a workflow, a schedule."""

    @property
    def alias(self) -> str:
        """The alias of QLESS that it goes to."""

    @property
    def handles(self) -> Sequence[JobHandle[Any]]:
        """The handles of the jobs in it, in their order; none for a schedule."""

    def puts(self) -> list[Put]:
        """Return the jobs as they are put if that happens now, beside their handles."""

    def send(self) -> None:
        """Send it to the server; bring its handles up to date."""

    async def asend(self) -> None:
        """Send it from asynchronous code."""

    def send_late(self) -> None:
        """Send it at a commit: nobody is there any more to handle a refusal."""

    def delivered(self) -> None:
        """Take note that the jobs are put, each under the jid of its handle."""


class Outlet:
    """Sends shipments to the server. Tests may put another one in its place."""

    def waits(self, database: str) -> bool:
        """Return whether what is put now has to wait for a commit of this database."""
        return databases[database].in_atomic_block

    def at_commit(self, database: str, callback: Callable[[], None]) -> None:
        """Call this when the transaction that is open in a database commits."""
        databases[database].on_commit(callback)

    def send(self, shipment: Shipment) -> None:
        """Send this now."""
        shipment.send()

    async def asend(self, shipment: Shipment) -> None:
        """Send this now, from asynchronous code."""
        await shipment.asend()

    def send_late(self, shipment: Shipment) -> None:
        """Send what has waited for a commit."""
        shipment.send_late()

    def send_at_commits(self, shipment: Shipment, names: Sequence[str]) -> None:
        """Send this when each of these databases has committed what is open there.

        What one of them rolls back is never sent.
        """
        missing = set(names)
        for name in names:
            self.at_commit(name, partial(self._committed, shipment, name, missing))

    def _committed(self, shipment: Shipment, name: str, missing: set[str]) -> None:
        missing.discard(name)
        if not missing:
            self.send_late(shipment)


_outlet = Outlet()


def current() -> Outlet:
    """Return the outlet in use."""
    return _outlet


def use(outlet: Outlet) -> Outlet:
    """Let everything that is put go through this outlet; return the one before it."""
    global _outlet
    before, _outlet = _outlet, outlet
    return before


@contextmanager
def replaced(outlet: Another) -> Iterator[Another]:
    """Let everything that is put go through this outlet, in all threads.

    What waits for a commit goes through the outlet that was in use when it was put.
    """
    before = use(outlet)
    try:
        yield outlet
    finally:
        use(before)


def databases_of(on_commit: bool | str | None, *more: str) -> tuple[str, ...]:
    """Return the databases that the option names; it names none if it is False.

    If it says nothing, those are the default one and `more`: where the job's row is.
    """
    if on_commit is False:
        return ()
    if isinstance(on_commit, str):
        return (on_commit,)
    if on_commit is None and more:
        return tuple(dict.fromkeys((DEFAULT_DB_ALIAS, *more)))
    return ONLY_DEFAULT


def open_ones(whose: str, names: Sequence[str]) -> list[str]:
    """Return those of these databases for whose commit has to be waited.

    `whose` names the job in messages. Raises InvalidOption for an unknown database.
    """
    in_tests.begin()
    waits = _outlet.waits
    try:
        if len(names) == 1:
            return [names[0]] if waits(names[0]) else []
        return [name for name in names if waits(name)]
    except ConnectionDoesNotExist:
        known = ", ".join(databases)
        raise InvalidOption(
            f"{whose}: on_commit={' or '.join(names)!r} is not in DATABASES; there are: "
            f"{known}."
        ) from None


def ship(shipment: Shipment, names: Sequence[str] = ()) -> None:
    """Send it now, or when these databases commit, which `open_ones` returned."""
    if names:
        _outlet.send_at_commits(shipment, names)
    else:
        _outlet.send(shipment)


async def aship(shipment: Shipment, names: Sequence[str] = ()) -> None:
    """Send it now from asynchronous code, or when these databases commit."""
    if names:
        _outlet.send_at_commits(shipment, names)
    else:
        await _outlet.asend(shipment)
