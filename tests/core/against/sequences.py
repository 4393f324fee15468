"""Draws random sequences of steps: calls without KEYS, with KEYS, or both."""

from __future__ import annotations

import random
from typing import Any

from tests.core.against.inquiries import Inquirer
from tests.core.against.protocol import Protocol
from tests.core.against.side import Step
from tests.core.against.words import FIRST, spoiled
from tests.core.operations import Operation

KINDS = ("without KEYS", "with KEYS", "mixed")


#: What makes jobs that other operations need.
PUTS = ("put", "put", "put", "put_many", "workflow_put", "schedule", "recur")


class Drawer:
    """One sequence; depends on its name, and on which jobs are running."""

    def __init__(self, name: str, kind: str) -> None:
        self.random = random.Random(f"{name} {kind}")
        self.kind = kind
        self.generator = Inquirer(self.random.getrandbits(32))
        self.protocol = Protocol(self.random, self.generator.now)
        self.stars = self.random.choice([0, 0.5, 1])
        self.skew = 0.0
        self.drawn = 0
        self.last: Operation | None = None

    def draw(self, running: list[str]) -> Step:
        """Return the next step, given the jids that are running."""
        operation = self.operation(running)
        star = operation.keyed and self.dice(self.stars)
        if star:
            if self.dice(0.02):
                # The clock is not set back by more than a minute.
                self.skew += self.random.choice([-5, 3600, 86400])
            operation = operation._replace(now=round(operation.now + self.skew, 6))
        return Step(operation, star)

    def dice(self, chance: float) -> bool:
        return self.random.random() < chance

    def operation(self, running: list[str]) -> Operation:
        """Return a call of this kind of sequence."""
        if self.kind == KINDS[0] or (self.kind == KINDS[2] and self.dice(0.3)):
            return self.without_keys(running)
        last = self.last
        if last and last.request and self.dice(0.25):
            again = last._replace(now=last.now + 1)
        else:
            again = self.from_generator(running)
            while self.kind == KINDS[1] and not again.keyed:
                again = self.from_generator(running)
            if self.dice(0.04):
                again = again._replace(args=self.spoiled(again.args))
        self.last = again
        return again

    def from_generator(self, running: list[str]) -> Operation:
        """Return an operation of the random runs; at first often a put."""
        self.drawn += 1
        if self.drawn < FIRST and self.dice(0.5):
            self.generator.advance()
            put: Operation = getattr(self.generator, self.random.choice(PUTS))()
            return put
        return self.generator.draw(running)

    def without_keys(self, running: list[str]) -> Operation:
        """Return a call of the protocol, at the time that it is for all."""
        self.protocol.now = max(self.protocol.now, self.generator.now)
        operation = self.protocol.draw(running)
        self.generator.now = self.protocol.now
        return operation

    def spoiled(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(spoiled(self.random, list(args)))
