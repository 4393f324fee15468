"""Random operations where jobs have limits, keys and tenants, with the invariants checked."""

from __future__ import annotations

import os
from typing import Any

import pytest

from django_qless.core.rates import UNITS
from tests import drawing
from tests.core.caller import Core
from tests.core.operations import WEIGHTS, Generator, Operation
from tests.core.random_run import RandomRun, Violation

USUAL = "4000" if drawing.ALL else "2000"
TOTAL = int(os.environ.get("QLESS_RANDOM_OPERATIONS", USUAL))
EACH = 500


class Limited(Generator):
    """Draws operations in which most jobs are under some limit."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, {**WEIGHTS, "configure": 6})

    def old(self, command: str, *args: Any) -> Operation:
        """By a client whose clock is right: looks are judged by the time of the last call."""
        return Operation(False, self.now, command, args)

    def pairs(self, keyed: bool) -> list[Any]:
        chosen, choose = super().pairs(keyed), self.random.choice
        if keyed and self.random.random() < 0.6:
            chosen += ["limit_key", choose(["x", "y"])]
        if keyed and self.random.random() < 0.3:
            chosen += ["fair_by", choose(["big", "small"])]
        return chosen

    def configure(self) -> Operation:
        choose = self.random.choice
        if self.random.random() < 0.3:
            return super().configure()
        option, values = choose([
            ("klass-max-concurrency-of-type", [0, 1, 3]),
            ("klass-max-concurrency-per-key", [1, 1, 2]),
            ("klass-rate-of-type", ["0", "3/m", "20/h", "2/2s"]),
            ("klass-rate-per-key", ["2/30s", "1/m", "1/s"]), ("k-max-concurrency-of-type", [1]),
            ("a-rate", ["5/m", "900/h"]), ("b-rate", ["1/s"]),
        ])  # fmt: skip
        if self.random.random() < 0.3:
            return self.either("config.unset", option)
        return self.either("config.set", option, choose(values))


KINDS = {"type": "rate-of-type", "key": "rate-per-key", "queue": "rate"}


class LimitedRun(RandomRun):
    """A run that sees after each operation that no window holds more starts than allowed."""

    def perform(self, operation: Operation, *, curious: bool = False) -> None:
        before = self.starts()
        super().perform(operation, curious=curious)
        for name, starts in self.starts().items():
            new = starts.keys() - before.get(name, {}).keys()
            kind, _, rest = name.partition(":")
            owner = rest.partition(":")[0] if kind == "key" else rest
            rate = self.server.hget("ql:config", f"{owner}-{KINDS[kind]}") or "0"
            if not new or rate == "0":
                continue
            last = max(starts[start] for start in new)
            length = window(rate)
            within = [time for time in starts.values() if last - length <= time]
            if len(within) > int(rate.partition("/")[0]):
                raise Violation(f"{len(within)} started under {name} within {rate}")

    def starts(self) -> dict[str, dict[str, float]]:
        """Return which runs have started when, by limit."""
        names = self.server.scan_iter("ql:limit:*:starts", count=1000)
        return {
            name.removeprefix("ql:limit:").removesuffix(":starts"): dict(
                self.server.zrange(name, 0, -1, withscores=True)
            )
            for name in names
        }


def window(rate: str) -> float:
    """Return how many seconds the window of a rate lasts."""
    text = rate.partition("/")[2]
    return float(text[:-1] or 1) * UNITS[text[-1]]


@pytest.mark.parametrize("turn", range(max(TOTAL // EACH // 2, 1)))
def test_random_operations_under_limits_leave_a_sound_namespace(
    core: Core, turn: int, request: pytest.FixtureRequest
) -> None:
    cell = request.node.callspec.id
    seed = 7_000_000 + sum(map(ord, cell)) * 1000 + turn
    try:
        LimitedRun(core, seed, Limited).run(min(EACH, TOTAL))
    except AssertionError as error:
        raise AssertionError(f"seed {seed} ({cell}): {error}") from None
