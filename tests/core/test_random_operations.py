"""Random operations of old clients and ours, with the invariants checked.

QLESS_RANDOM_OPERATIONS says how many each kind of server makes in all,
QLESS_RANDOM_SEED where the seeds begin. A failure names its seed and the shortest
sequence that shows it.
"""

from __future__ import annotations

import os

import pytest

from tests import drawing
from tests.core.caller import Core
from tests.core.operations import Generator, Limited
from tests.core.random_run import RandomRun

USUAL = "4000" if drawing.ALL else "2000"
TOTAL = int(os.environ.get("QLESS_RANDOM_OPERATIONS", USUAL))
FIRST_SEED = int(os.environ.get("QLESS_RANDOM_SEED", "1"))
EACH = 500
TURNS = max(TOTAL // EACH, 1)
RUNS = [
    *((Generator, turn) for turn in range(TURNS)),
    *((Limited, turn) for turn in range(max(TURNS // 2, 1))),
]


@pytest.mark.parametrize(("generator", "turn"), RUNS)
def test_random_operations_leave_a_sound_namespace(
    core: Core, generator: type[Generator], turn: int, request: pytest.FixtureRequest
) -> None:
    # Each cell has other seeds: together they see more.
    cell = request.node.callspec.id
    seed = FIRST_SEED * 1_000_000 + sum(map(ord, cell)) * 1000 + turn
    try:
        RandomRun(core, generator(seed)).run(min(EACH, TOTAL))
    except AssertionError as error:
        raise AssertionError(f"seed {seed} ({cell}): {error}") from None
