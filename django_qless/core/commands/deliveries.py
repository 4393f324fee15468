"""Commands of an outbox: each call that it hands over is carried out once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from .. import arguments
from ..protocol import Argument
from ..request import Command, command

#: Ids that one call may say are gone.
MOST_FORGOTTEN = 100


class _AlreadyDelivered:
    """The result of a call that was delivered before: what it returned is not known."""

    def __repr__(self) -> str:
        return "ALREADY_DELIVERED"


ALREADY_DELIVERED: Final = _AlreadyDelivered()


class DeliveryCommands:
    """Commands of an outbox."""

    @command
    def deliver(
        self,
        id: str,  # noqa: A002 (what it is)
        call: Command[Any],
        gone: Sequence[str] = (),
    ) -> Command[Any]:
        """Make a call that enqueues, unless it was delivered before under this id.

        Returns what the call returns, or ALREADY_DELIVERED. The server remembers the id
        until it is told that the entry of the outbox is `gone` (a minute longer), for seven
        days at most. Raises as the call does; then nothing is remembered.
        """
        ids = arguments.existing_names("gone", gone, most=MOST_FORGOTTEN)
        head: tuple[Argument, ...] = (arguments.name("id", id), len(ids), *ids)

        def read(reply: list[Any]) -> Any:
            if not reply[0]:
                return ALREADY_DELIVERED
            return call.read(reply[1] if len(reply) > 1 else None)

        return Command("deliver", (*head, call.name, *call.args), "write", read)

    @command
    def forget_deliveries(self, ids: Sequence[str]) -> Command[int]:
        """Tell that the entries with these ids are gone, at most 100; return how many were
        remembered."""
        gone = arguments.existing_names("ids", ids, most=MOST_FORGOTTEN)
        return Command("deliver.forget", tuple(gone), "drain")
