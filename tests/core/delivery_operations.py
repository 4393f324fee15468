"""Random deliveries of an outbox, and what must become of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

    from tests.core.operations import Operation

DELIVERIES = [f"d{n}" for n in range(12)]
DAY = 86400


class DeliveryOperations:
    """What a generator draws of them; few ids, so that many are handed over again."""

    random: random.Random

    def deliver(self: Any) -> Operation:
        """Hand over a call that enqueues, or tell that entries are gone."""
        if self.random.random() < 0.15:
            gone: Operation = self.ours("deliver.forget", *self.some(DELIVERIES, 3))
            return gone
        name = self.random.choices(
            ["put", "put_many", "workflow_put", "workflow_in_parts", "schedule"],
            [8, 4, 2, 4, 2],
        )[0]
        # (Most that is drawn can be handed over, and the rest must be refused.)
        call = getattr(self, name)()
        told = self.random.random() < 0.2
        more = self.some(DELIVERIES, 2) if told else []
        number = self.random.choice(DELIVERIES)
        handed: Operation = self.ours(
            "deliver", number, len(more), *more, call.command, *call.args
        )
        return handed


class Deliveries:
    """Knows for how long each id must be remembered, from the calls alone."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def wrong(self, operation: Operation, args: Sequence[Any], reply: Any) -> str:
        """Note a call that was answered; return what is wrong with the answer."""
        now, trouble = operation.now, ""
        if operation.command == "deliver.forget":
            gone = list(args)
        elif operation.command == "deliver":
            number, gone = args[0], list(args[2 : 2 + args[1]])
            if reply[0] == 0 and number not in self._until:
                trouble = f"{number} was never delivered before"
            elif reply[0] == 1 and self._until.get(number, 0) > now:
                trouble = f"{number} was delivered twice"
            if reply[0] == 1:
                self._until[number] = now + 7 * DAY
        else:
            return ""
        for number in gone:
            # What nothing is known of is not remembered for its sake; what is over may go.
            if self._until.get(number, 0) > now:
                self._until[number] = now + 60
        return trouble
